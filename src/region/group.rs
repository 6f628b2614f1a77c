//! Evaluates one group of a batch under its row lock: reads what its operations need, and turns them into cells. Each operation sees what stands before it in
//! the group.

use super::Inner;
use super::admission::check_timestamp;
use super::batch::{Results, name_op};
use super::change::RowCells;
use super::check::Check;
use super::counter::Rules;
use super::face::{Mutation, Mutations, Op, OpResult, OpStatus};
use super::increment::counter_of;
use super::runs::Group;
use super::single::no_family;
use crate::cell::CellType;
use crate::commit::mutation::{Stamp, Write};
use crate::commit::{Refusal, draw_tick};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::ids::{FamilyId, RowHash, Tick};
use crate::memstore::{ColumnRef, Keep, RowRef, VersionValue};
use crate::merge::visibility;
use crate::read::newest::{self, ColumnName, Found};
use crate::rowlock::RowLocks;
use crate::store::FamilyInfo;
use crate::store::view::View;
use bumpalo::Bump;

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
    pub locks: &'e RowLocks<'e>,
    /// The cells of the commit, the current row's at the end.
    pub row: RowCells<'e, 'a, 'v>,
    /// Values that are put together here.
    pub joined: &'a Bump,
    /// Timestamp of operations that have none; 0 = the tick.
    pub timestamp: u64,
    /// The commit's tick, if it had to be known early.
    pub tick: Option<Tick>,
    /// What readers of the last operation's family are shown now: one time for all operations of the commit.
    pub shown: Option<(FamilyId, visibility::Rules<'v>)>,
}

/// How a group ended, and its row where it was looked up.
type Evaluated<'v> = (std::result::Result<Outcome, Failed>, Option<RowRef<'v>>);

/// Why an operation did not come to an end.
enum Stop {
    /// It failed.
    Failed(Error),
    /// It has to wait with nothing held: the whole attempt begins again.
    Refused(Refusal),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

/// What a column holds for the next operation of the call.
struct Held<'v> {
    value: Option<VersionValue<'v>>,
    /// Timestamp of the value, 0 for none.
    ts: u64,
    /// Its place, if the call wrote it.
    place: Option<u32>,
    /// The column in the active segment.
    column: Option<ColumnRef<'v>>,
}

impl<'a: 'v, 'v> Eval<'_, 'a, 'v> {
    /// Evaluates `group`, whose first operation is given and whose row's cells begin at `start`; its cells are appended to the commit's, or none of them.
    // One caller, in a loop: which unit of code generation this file comes to must not decide about 120 instructions per operation.
    #[inline]
    pub fn group(
        &mut self,
        group: &mut Group,
        first: Mutation<'a>,
        start: usize,
        results: Results<'_>,
    ) -> std::result::Result<Evaluated<'v>, Refusal> {
        let row = first.row;
        let before = self.row.cells.len();
        self.row.begin(start);
        group.checks = [0; 2];
        let mut found_row = None;
        let mut outcome = Ok(Outcome::Applied);
        let (mut i, mut m) = (group.ops.start, first);
        loop {
            let done = self.operation(&m, group.hash, row, &mut found_row);
            if let (Op::Check { .. }, Ok((holds, _))) = (m.op, &done) {
                let [passed, failed] = &mut group.checks;
                *(if *holds { passed } else { failed }) += 1;
            }
            match done {
                Ok((true, value)) => {
                    results(i, OpResult { status: OpStatus::Applied, flags: 0, value });
                    i += 1;
                    if i == group.ops.end {
                        break;
                    }
                    m = self.ops.get(i);
                    continue;
                }
                Ok((false, _)) => outcome = Ok(Outcome::NotApplied(i)),
                Err(Stop::Refused(refusal)) => return Err(refusal),
                // Its text names the column already.
                Err(Stop::Failed(e)) if e.kind() == ErrorKind::NotCounter => {
                    outcome = Err((i, e.context(format_args!("operation {i}"))));
                }
                Err(Stop::Failed(e)) => outcome = Err((i, e.context(name_op(i, &m)))),
            }
            break;
        }
        match &outcome {
            Ok(Outcome::NotApplied(_)) => {
                self.row.truncate(before);
                for i in group.ops.clone() {
                    let m = self.ops.get(i);
                    let value = if matches!(m.op, Op::Increment | Op::Check { .. }) { self.current(&m, group.hash, row) } else { 0 };
                    results(i, OpResult { status: OpStatus::NotApplied, flags: 0, value });
                }
            }
            Err((index, e)) => {
                self.row.truncate(before);
                for i in group.ops.clone() {
                    let status = if i == *index { OpStatus::Failed(e.kind()) } else { OpStatus::Failed(ErrorKind::NotRun) };
                    results(i, OpResult { status, flags: 0, value: 0 });
                }
            }
            Ok(_) => {}
        }
        Ok((outcome, found_row))
    }

    /// One operation: whether it applies, and its value.
    #[inline(always)]
    fn operation(
        &mut self,
        m: &Mutation<'a>,
        hash: RowHash,
        row: &'a [u8],
        found_row: &mut Option<RowRef<'v>>,
    ) -> std::result::Result<(bool, i64), Stop> {
        let stamp = self.stamp(m)?;
        if m.op == Op::DeleteRow {
            // Every family that the row can have cells in.
            for settings in self.view.families.iter() {
                self.delete_family(CellType::DeleteFamily, stamp, settings)?;
            }
            return Ok((true, 0));
        }
        let family = FamilyId(m.family);
        let Some(settings) = self.view.family(family) else { return Err(no_family(family).into()) };
        self.inner.check_qualifier(m.qual)?;
        let keep = settings.keep;
        let name = ColumnName { hash, row, family, qualifier: m.qual };
        match m.op {
            Op::Put => {
                self.inner.check_value(m.value)?;
                let write = Write::Put { value: m.value, stamp };
                let places = self.row.of_column(family, m.qual);
                if places.is_empty() {
                    self.row.push(family, m.qual, write, keep, None);
                } else {
                    let tick = self.tick()?;
                    self.row.put(&places, tick, family, m.qual, write, keep);
                }
                Ok((true, 0))
            }
            Op::Delete | Op::DeleteVersion => {
                let kind = if m.op == Op::Delete { CellType::Delete } else { CellType::DeleteVersion };
                let stamp = match stamp {
                    // The newest version, which is the one that a read shows.
                    Stamp::Tick if kind == CellType::DeleteVersion => match self.held(name, settings, found_row)? {
                        Held { value: Some(_), ts, .. } => Stamp::At(ts),
                        _ => stamp,
                    },
                    stamp => stamp,
                };
                let places = self.row.of_column(family, m.qual);
                let tick = if places.is_empty() { Tick(0) } else { self.tick()? };
                self.row.mark_column(&places, tick, family, m.qual, (kind, stamp), keep);
                Ok((true, 0))
            }
            Op::DeleteFamily => self.delete_family(CellType::DeleteFamily, stamp, settings).map(|()| (true, 0)),
            Op::DeleteFamilyVersion => self.delete_family(CellType::DeleteFamilyVersion, stamp, settings).map(|()| (true, 0)),
            Op::Increment => {
                let held = self.held(name, settings, found_row)?;
                let current = held.value.map(|value| counter_of(&Found { seq: 0, ts: 0, value }, row, m.qual)).transpose();
                let sum = self.rules.apply(current?, m.delta)?;
                if let Some(value) = sum.store {
                    self.write_over(&held, m, keep, |above| Write::Counter { value, above })?;
                }
                Ok((sum.applied, sum.answer))
            }
            Op::Append => {
                let held = self.held(name, settings, found_row)?;
                let before = held.value.map_or(0, |v| v.len());
                self.inner.check_joined(before, m.value)?;
                let joined = self.joined.alloc_slice_fill_copy(before + m.value.len(), 0u8);
                let (head, tail) = joined.split_at_mut(before);
                if let Some(value) = held.value {
                    value.with(|bytes| head.copy_from_slice(bytes));
                }
                tail.copy_from_slice(m.value);
                let joined: &'a [u8] = joined;
                self.write_over(&held, m, keep, |above| Write::Put { value: joined, stamp: Stamp::Above(above) })?;
                Ok((true, joined.len() as i64))
            }
            Op::Check { how, as_counter } => {
                let check = Check { how, as_counter };
                let held = self.held(name, settings, found_row)?;
                // What a check that holds tells: the counter it looked at.
                let counter = held.value.and_then(|v| v.as_counter()).unwrap_or(0);
                let holds = if check.compares_counters() {
                    let stored = held.value.map(|value| counter_of(&Found { seq: 0, ts: 0, value }, row, m.qual)).transpose()?;
                    check.holds_counter(stored, m.delta)
                } else {
                    match held.value {
                        None => check.holds_bytes(None, m.value),
                        Some(v) => v.with(|bytes| check.holds_bytes(Some(bytes), m.value)),
                    }
                };
                Ok((holds, if holds { counter } else { 0 }))
            }
            Op::DeleteRow => Ok((true, 0)),
        }
    }

    /// The timestamp that an operation's cells get, as far as the caller says.
    fn stamp(&self, m: &Mutation<'_>) -> Result<Stamp> {
        let given = if m.timestamp == 0 { self.timestamp } else { m.timestamp };
        check_timestamp(given)?;
        match m.op {
            Op::Increment | Op::Append | Op::Check { .. } if given != 0 => {
                fail!(Invalid, "an explicit timestamp is for puts and deletes; what counts or appends gets one above the value it adds to")
            }
            Op::DeleteFamilyVersion if given == 0 => {
                fail!(Invalid, "REGION_OP_DELETE_FAMILY_VERSION needs the timestamp of the versions to delete")
            }
            _ => Ok(Stamp::of(given)),
        }
    }

    /// The commit's tick, drawn now if it was not yet.
    fn tick(&mut self) -> std::result::Result<Tick, Stop> {
        let tick = match self.tick {
            Some(tick) => tick,
            None => draw_tick(&self.inner.state, self.locks).map_err(Stop::Refused)?,
        };
        self.tick = Some(tick);
        Ok(tick)
    }

    fn delete_family(&mut self, kind: CellType, stamp: Stamp, settings: &FamilyInfo) -> std::result::Result<(), Stop> {
        let (state, locks, early) = (&self.inner.state, self.locks, &mut self.tick);
        let tick = || {
            let tick = early.map_or_else(|| draw_tick(state, locks), Ok)?;
            *early = Some(tick);
            Ok(tick)
        };
        self.row.mark_family(tick, settings.id, (kind, stamp), settings.keep).map_err(Stop::Refused)
    }

    /// What the column shows, with what the call did to it before.
    #[inline(always)]
    fn held(
        &mut self,
        name: ColumnName<'_>,
        settings: &'v FamilyInfo,
        found_row: &mut Option<RowRef<'v>>,
    ) -> std::result::Result<Held<'v>, Stop> {
        if self.shown.as_ref().is_none_or(|(family, _)| *family != settings.id) {
            self.shown = None;
        }
        let (_, rules) = self.shown.get_or_insert_with(|| (settings.id, self.inner.state.rules(settings)));
        let lookup = newest::newest(self.view, name, rules);
        let held = |f: Option<Found<'v>>| Held { value: f.map(|f| f.value), ts: f.map_or(0, |f| f.ts), place: None, column: lookup.column };
        if self.row.is_new() {
            *found_row = lookup.row;
            return Ok(held(lookup.newest));
        }
        let rules = *rules;
        *found_row = found_row.or(lookup.row);
        let places = self.row.of_column(name.family, name.qualifier);
        if places.is_empty() {
            return Ok(held(lookup.newest));
        }
        let tick = self.tick()?;
        let markers = self.row.markers(&places, tick);
        let stored = match &markers[..] {
            [] => lookup.newest,
            _ => newest::live(self.view, name, &rules, &visibility::ALWAYS, u64::MAX, markers).into_iter().next(),
        };
        let best = self.row.best(&places, tick).filter(|&(_, ts)| rules.shows_new(ts) && stored.is_none_or(|s| s.ts <= ts));
        let Some((place, ts)) = best else { return Ok(held(stored)) };
        let value = match self.row.write_at(place) {
            Write::Counter { value, .. } => VersionValue::Counter(value),
            Write::Put { value, .. } => VersionValue::Bytes(value),
            Write::Marker { .. } | Write::Nothing => VersionValue::Bytes(b""),
        };
        Ok(Held { value: Some(value), ts, place: Some(place), column: lookup.column })
    }

    /// Writes a value that takes the place of the one held: `write` is given the timestamp to stay above.
    fn write_over(
        &mut self,
        held: &Held<'v>,
        m: &Mutation<'a>,
        keep: Keep,
        write: impl Fn(u64) -> Write<'a>,
    ) -> std::result::Result<(), Stop> {
        let family = FamilyId(m.family);
        if self.row.is_new() {
            self.row.push(family, m.qual, write(held.ts), keep, held.column);
            return Ok(());
        }
        // The call's own value whose timestamp the commit chooses: one version, not two.
        let own = held.place.and_then(|place| match self.row.write_at(place) {
            Write::Counter { above, .. } | Write::Put { stamp: Stamp::Above(above), .. } => Some((place, above)),
            Write::Put { stamp: Stamp::Tick, .. } => Some((place, 0)),
            _ => None,
        });
        if let Some((place, above)) = own {
            self.row.replace(place, write(above), held.column);
            return Ok(());
        }
        // A counter of the call that is not the newest any more becomes a plain value: a column's slots take one version of a commit.
        for place in self.row.of_column(family, m.qual) {
            if let Write::Counter { value, above } = self.row.write_at(place) {
                let value = self.joined.alloc_slice_copy(&value.to_be_bytes());
                self.row.replace(place, Write::Put { value, stamp: Stamp::Above(above) }, None);
            }
        }
        self.row.push(family, m.qual, write(held.ts), keep, held.column);
        Ok(())
    }

    /// The stored counter of an operation's column, 0 if there is none: what a refused operation tells.
    fn current(&self, m: &Mutation<'_>, hash: RowHash, row: &[u8]) -> i64 {
        let family = FamilyId(m.family);
        let Some(settings) = self.view.family(family) else { return 0 };
        let name = ColumnName { hash, row, family, qualifier: m.qual };
        let found = newest::newest(self.view, name, &self.inner.state.rules(settings)).newest;
        found.and_then(|f| counter_of(&f, row, m.qual).ok()).unwrap_or(0)
    }
}
