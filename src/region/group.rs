//! Evaluates one group of a batch under its row lock: reads what its operations need, and turns them into cells. Each operation sees what stands before it in
//! the group.

use super::Inner;
use super::batch::{Group, Results, name_op};
use super::check::Check;
use super::counter::Rules;
use super::face::{Mutation, Mutations, Op, OpResult, OpStatus};
use super::increment::{counter_of, no_family};
use crate::cell::CellType;
use crate::commit::mutation::{CellChange, Write};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{FamilyId, RowHash};
use crate::memstore::{RowRef, VersionValue};
use crate::read::newest::{ColumnName, Found, Lookup, newest};
use crate::store::view::View;
use std::collections::HashMap;

/// How a group ended, unless an operation of it failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// Not evaluated yet.
    Open,
    /// Its cells are in the commit (or it changed nothing and only read).
    Applied,
    /// This operation's check or bound was not met; the group adds no cells.
    NotApplied(usize),
    /// Its results are written and counted.
    Counted,
}

/// The operation that failed, and why.
pub(super) type Failed = (usize, Error);

/// What an evaluation works on.
pub(super) struct Eval<'e, 'a, 'v> {
    pub inner: &'e Inner,
    pub view: &'v View,
    pub ops: &'a dyn Mutations,
    pub rules: &'e Rules,
    pub cells: &'e mut Vec<CellChange<'a, 'v>>,
    /// Where the cells of the current row begin.
    pub group_start: usize,
    /// Empty until a row has many cells.
    pub index: ColumnMap<'a>,
}

/// What a column holds for the next operation of the group.
#[derive(Clone, Copy)]
enum Held<'x> {
    Absent,
    Counter(i64),
    Bytes(&'x [u8]),
}

impl<'a, 'v> Eval<'_, 'a, 'v> {
    /// Evaluates `group`; its cells are appended to the commit's, or none of them.
    pub fn group(
        &mut self,
        group: &mut Group,
        row: &'a [u8],
        results: Results<'_>,
    ) -> (std::result::Result<Outcome, Failed>, Option<RowRef<'v>>) {
        let before = self.cells.len();
        self.index.clear();
        group.checks = [0; 2];
        let mut found_row = None;
        let mut outcome = Ok(Outcome::Applied);
        for i in group.ops.clone() {
            let m = self.ops.get(i);
            let done = self.operation(&m, group.hash, row, &mut found_row);
            if let (Op::Check { .. }, Ok((holds, _))) = (m.op, &done) {
                let [passed, failed] = &mut group.checks;
                *(if *holds { passed } else { failed }) += 1;
            }
            match done {
                Ok((true, value)) => {
                    results(i, OpResult { status: OpStatus::Applied, flags: 0, value });
                    continue;
                }
                Ok((false, _)) => outcome = Ok(Outcome::NotApplied(i)),
                // Its text names the column already.
                Err(e) if e.kind() == ErrorKind::NotCounter => outcome = Err((i, e.context(format_args!("operation {i}")))),
                Err(e) => outcome = Err((i, e.context(name_op(i, &m)))),
            }
            break;
        }
        match &outcome {
            Ok(Outcome::NotApplied(_)) => {
                self.cells.truncate(before);
                for i in group.ops.clone() {
                    let m = self.ops.get(i);
                    let value = if matches!(m.op, Op::Increment | Op::Check { .. }) { self.current(&m, group.hash, row) } else { 0 };
                    results(i, OpResult { status: OpStatus::NotApplied, flags: 0, value });
                }
            }
            Err((index, e)) => {
                self.cells.truncate(before);
                for i in group.ops.clone() {
                    let status = if i == *index { OpStatus::Failed(e.kind()) } else { OpStatus::Failed(ErrorKind::NotRun) };
                    results(i, OpResult { status, flags: 0, value: 0 });
                }
            }
            Ok(_) => {}
        }
        (outcome, found_row)
    }

    /// One operation: whether it applies, and its value.
    fn operation(&mut self, m: &Mutation<'a>, hash: RowHash, row: &'a [u8], found_row: &mut Option<RowRef<'v>>) -> Result<(bool, i64)> {
        if m.op == Op::DeleteRow {
            // Before its family is looked up: it has none.
            return Err(not_offered(m));
        }
        let family = FamilyId(m.family);
        let Some(settings) = self.view.family(family) else { return Err(no_family(family)) };
        let max_versions = settings.max_versions;
        self.inner.check_qualifier(m.qual)?;
        if m.timestamp != 0 {
            return crate::fail!(Unsupported, "explicit timestamps are not offered by this version; leave timestamp 0");
        }
        let pending = self.pending(m);
        match m.op {
            Op::Put => {
                self.inner.check_value(m.value)?;
                self.write(pending.value, m, Write::Put { value: m.value, timestamp: 0 }, max_versions, None);
                Ok((true, 0))
            }
            Op::Delete => {
                // What the group wrote to the column before is gone; the marker hides what was stored.
                let marker = Write::Marker { kind: CellType::Delete, timestamp: 0 };
                match (pending.value, pending.marker) {
                    (Some(value), Some(_)) => self.write(Some(value), m, Write::Nothing, max_versions, None),
                    (value, None) => self.write(value, m, marker, max_versions, None),
                    (None, Some(_)) => {}
                }
                Ok((true, 0))
            }
            Op::Increment => {
                let lookup = newest(self.view, ColumnName { hash, row, family, qualifier: m.qual }, &self.inner.state.rules(settings));
                *found_row = found_row.or(lookup.row);
                let current = match self.held(&pending, &lookup) {
                    Held::Absent => None,
                    Held::Counter(n) => Some(n),
                    Held::Bytes(b) => {
                        let found = Found { seq: 0, ts: 0, value: VersionValue::Bytes(b) };
                        Some(counter_of(&found, row, m.qual)?)
                    }
                };
                let sum = self.rules.apply(current, m.delta)?;
                if let Some(value) = sum.store {
                    let write = Write::Counter { value, above: lookup.newest.map_or(0, |f| f.ts) };
                    self.write(pending.value, m, write, max_versions, Some(&lookup));
                }
                Ok((sum.applied, sum.answer))
            }
            Op::Check { how, as_counter } => {
                let check = Check { how, as_counter };
                let lookup = newest(self.view, ColumnName { hash, row, family, qualifier: m.qual }, &self.inner.state.rules(settings));
                *found_row = found_row.or(lookup.row);
                let held = self.held(&pending, &lookup);
                // What a check that holds tells: the counter it looked at.
                let counter = match held {
                    Held::Counter(n) => n,
                    Held::Bytes(b) => <[u8; 8]>::try_from(b).map_or(0, i64::from_be_bytes),
                    Held::Absent => 0,
                };
                let holds = if check.compares_counters() {
                    let stored = match held {
                        Held::Absent => None,
                        Held::Counter(n) => Some(n),
                        Held::Bytes(b) => Some(counter_of(&Found { seq: 0, ts: 0, value: VersionValue::Bytes(b) }, row, m.qual)?),
                    };
                    check.holds_counter(stored, m.delta)
                } else {
                    match held {
                        Held::Absent => check.holds_bytes(None, m.value),
                        Held::Counter(n) => check.holds_bytes(Some(&n.to_be_bytes()), m.value),
                        Held::Bytes(b) => check.holds_bytes(Some(b), m.value),
                    }
                };
                Ok((holds, if holds { counter } else { 0 }))
            }
            _ => Err(not_offered(m)),
        }
    }

    /// The cells that the group already has for the operation's column.
    fn pending(&mut self, m: &Mutation<'a>) -> Pending {
        let cells = self.cells.get(self.group_start..).unwrap_or_default();
        if cells.len() <= LOOKED_THROUGH {
            self.index.clear();
            let mut pending = Pending::default();
            for (i, cell) in cells.iter().enumerate().filter(|(_, c)| c.family.0 == m.family && c.qualifier == m.qual) {
                pending.note(self.group_start + i, cell.write);
            }
            return pending;
        }
        if self.index.is_empty() {
            for (i, cell) in cells.iter().enumerate() {
                self.index.entry((cell.family.0, cell.qualifier)).or_default().note(self.group_start + i, cell.write);
            }
        }
        self.index.get(&(m.family, m.qual)).copied().unwrap_or_default()
    }

    fn held<'x>(&self, pending: &Pending, lookup: &Lookup<'x>) -> Held<'x>
    where
        'a: 'x,
    {
        match pending.value.and_then(|i| self.cells.get(i)).map(|c| c.write) {
            Some(Write::Counter { value, .. }) => Held::Counter(value),
            Some(Write::Put { value, .. }) => Held::Bytes(value),
            _ if pending.marker.is_some() => Held::Absent,
            _ => match lookup.newest.map(|f| f.value) {
                None => Held::Absent,
                Some(VersionValue::Counter(n)) => Held::Counter(n),
                Some(VersionValue::Bytes(b)) => Held::Bytes(b),
            },
        }
    }

    /// Writes to a column: in place of what the group wrote there before, or as a new cell.
    fn write(&mut self, at: Option<usize>, m: &Mutation<'a>, write: Write<'a>, max_versions: u32, lookup: Option<&Lookup<'v>>) {
        let found = lookup.and_then(|l| l.column);
        let at = match at.and_then(|i| self.cells.get_mut(i).map(|c| (i, c))) {
            Some((i, cell)) => {
                cell.write = write;
                cell.found = cell.found.or(found);
                i
            }
            None => {
                self.cells.push(CellChange::new(FamilyId(m.family), m.qual, write, max_versions, found));
                self.cells.len() - 1
            }
        };
        if !self.index.is_empty() {
            let entry = self.index.entry((m.family, m.qual)).or_default();
            if matches!(write, Write::Marker { .. }) {
                entry.value = None;
            }
            entry.note(at, write);
        }
    }

    /// The stored counter of an operation's column, 0 if there is none: what a refused operation tells.
    fn current(&self, m: &Mutation<'_>, hash: RowHash, row: &[u8]) -> i64 {
        let family = FamilyId(m.family);
        let Some(settings) = self.view.family(family) else { return 0 };
        let name = ColumnName { hash, row, family, qualifier: m.qual };
        let found = newest(self.view, name, &self.inner.state.rules(settings)).newest;
        found.and_then(|f| counter_of(&f, row, m.qual).ok()).unwrap_or(0)
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct Pending {
    value: Option<usize>,
    marker: Option<usize>,
}

impl Pending {
    fn note(&mut self, at: usize, write: Write<'_>) {
        match write {
            Write::Marker { .. } => self.marker = Some(at),
            Write::Counter { .. } | Write::Put { .. } => self.value = Some(at),
            // A value that a delete after it took away: its place is used again by the next one.
            Write::Nothing => self.value = Some(at),
        }
    }
}

/// Up to so many cells of a row are looked through; beyond, an index by column is kept.
const LOOKED_THROUGH: usize = 16;

/// Cells of the current row by column.
pub(super) type ColumnMap<'a> = HashMap<(u32, &'a [u8]), Pending, foldhash::fast::RandomState>;

fn not_offered(m: &Mutation<'_>) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{} is not offered by this version", m.op.name()))
}
