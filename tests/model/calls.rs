//! A write as the engine is asked for it and as the model expects it to end.

use crate::ops::{Item, Op, Verb};
use crate::spec::{Answer, At, Bounds, Change, Draft, End, Model, TS_MAX, Value};
use crate::words;
use region::error::ErrorKind;
use region::options::{Durability, WriteOptions};
use region::region::{
    BatchOutcome, CommitInfo, Increment, IncrementColumn, IncrementColumns, Increments, Mutation, Mutations, Op as Kind, OpResult,
    OpStatus, Pinned, Region, ValueSink,
};
use std::ops::Range;

/// A call with everything in it resolved.
pub struct Call {
    pub verb: Verb,
    pub options: WriteOptions,
    /// Row, change, and the element's own timestamp.
    pub parts: Vec<(Vec<u8>, Change, u64)>,
}

/// Consecutive changes of one row.
pub struct Group {
    pub row: Vec<u8>,
    pub items: Range<usize>,
    pub changes: Vec<Change>,
}

/// How a call ended as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The first element that was not met.
    NotApplied(usize),
    /// The first that failed and why, how many were applied, how many failed.
    Partial(usize, ErrorKind, usize, usize),
    Failed(ErrorKind),
}

/// An end of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub outcome: Outcome,
    /// None: the engine said nothing, which is the same as NotRun.
    pub results: Vec<Option<(OpStatus, i64)>>,
    /// What an append left, and its timestamp.
    pub left: Option<(Value, u64)>,
}

/// How one run of a call ends.
#[derive(Clone, Debug, Default)]
pub struct RunEnd {
    /// Index, status and value of each element.
    pub elements: Vec<(usize, OpStatus, i64)>,
    /// The first check or bound that was not met.
    pub unmet: Option<usize>,
    /// What an append left, and its timestamp.
    pub left: Option<(Value, u64)>,
    /// Rows with the cells that are written.
    pub written: Vec<(Vec<u8>, Draft)>,
}

impl Call {
    /// Resolves `op` at `now`; `id` tells a family's id by its slot.
    pub fn new(op: &Op, now: u64, id: &dyn Fn(u8) -> u32) -> Self {
        let verb = op.verb;
        let code = match (verb, op.items.first()) {
            // These take their timestamp from the options.
            (Verb::Put | Verb::Delete, Some(item)) if item.ts != 0 => item.ts,
            _ => op.ts,
        };
        let options = WriteOptions {
            flags: op.flags,
            durability: Durability::from_u8(op.level),
            timestamp: words::timestamp(code, now),
            min_value: op.min,
            max_value: op.max,
            ..WriteOptions::DEFAULT
        };
        let first_row = op.items.first().map_or(0, |i| i.row);
        let part = |item: &Item| {
            let own = if verb == Verb::Batch { words::timestamp(item.ts, now) } else { 0 };
            let row = words::row(if verb == Verb::IncrementRow { first_row } else { item.row });
            let change = Change {
                op: item.op(),
                family: id(item.fam),
                qual: words::qual(item.qual),
                value: words::value(item.value).into(),
                delta: item.delta,
                ts: if own == 0 { options.timestamp } else { own },
            };
            (row, change, own)
        };
        Self { verb, options, parts: op.items.iter().map(part).collect() }
    }

    pub fn bounds(&self) -> Bounds {
        Bounds { flags: self.options.flags, min: self.options.min_value, max: self.options.max_value }
    }
    pub fn atomic(&self) -> bool {
        self.options.flags & WriteOptions::ATOMIC != 0
    }

    /// Why the call is refused whatever is stored.
    pub fn refused(&self) -> Option<ErrorKind> {
        let flags = self.options.flags;
        let bounded = flags & WriteOptions::BOUNDED != 0;
        let counts = !matches!(self.verb, Verb::Put | Verb::Delete | Verb::Append);
        let wrong = self.options.timestamp > TS_MAX
            || counts && flags & WriteOptions::SATURATE != 0 && !bounded
            || counts && bounded && self.options.min_value > self.options.max_value
            || !counts && flags & !WriteOptions::ATOMIC != 0
            || matches!(self.verb, Verb::Increment | Verb::IncrementRow | Verb::IncrementMany | Verb::Append)
                && self.options.timestamp != 0;
        wrong.then_some(ErrorKind::Invalid)
    }

    /// Its groups, and of each run which of them: a run ends where a row comes back. Rows that no region takes are in none.
    pub fn groups(&self) -> (Vec<Group>, Vec<Range<usize>>) {
        let mut groups: Vec<Group> = Vec::new();
        for (i, (row, change, _)) in self.parts.iter().enumerate() {
            match groups.last_mut().filter(|g| g.row == *row) {
                Some(last) => {
                    last.changes.push(change.clone());
                    last.items.end = i + 1;
                }
                None => groups.push(Group { row: row.clone(), items: i..i + 1, changes: vec![change.clone()] }),
            }
        }
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut start = 0;
        for i in 0..groups.len() {
            if !self.atomic() && groups[start..i].iter().any(|g| g.row == groups[i].row && !g.row.is_empty()) {
                runs.push(start..i);
                start = i;
            }
        }
        runs.push(start..groups.len());
        (groups, runs)
    }

    /// How one run may end. Several ways only where an ATOMIC call has several reasons to be refused.
    pub fn run(&self, model: &Model, groups: &[Group], at: At, tick: u64) -> Vec<RunEnd> {
        let mut good = RunEnd::default();
        let mut refusals: Vec<RunEnd> = Vec::new();
        let mut refused_rows: Vec<&[u8]> = Vec::new();
        let all: Vec<usize> = groups.iter().flat_map(|g| g.items.clone()).collect();
        for group in groups {
            if refused_rows.contains(&group.row.as_slice()) {
                continue;
            }
            let known = good.written.iter().position(|(row, _)| *row == group.row);
            let mut draft = known.map_or_else(Draft::default, |i| good.written[i].1.clone());
            let end = match group.row.is_empty() {
                true => End::Failed(0, ErrorKind::Invalid),
                false => model.run(&group.row, &group.changes, self.bounds(), at, tick, &mut draft),
            };
            let place = |i: usize| group.items.start + i;
            match end {
                End::Applied(answers) => {
                    good.elements.extend(answers.iter().enumerate().map(|(i, a)| (place(i), OpStatus::Applied, a.number())));
                    if let (Verb::Append, [Answer::Bytes(value, ts)]) = (self.verb, &answers[..]) {
                        good.left = Some((value.clone(), *ts));
                    }
                    match known {
                        Some(i) => good.written[i].1 = draft,
                        None if draft.is_empty() => {}
                        None => good.written.push((group.row.clone(), draft)),
                    }
                }
                End::NotApplied(values, index) => {
                    let told = values.iter().enumerate().map(|(i, v)| (place(i), OpStatus::NotApplied, *v));
                    if self.atomic() {
                        let others = all.iter().filter(|i| !group.items.contains(i)).map(|&i| (i, OpStatus::NotApplied, 0));
                        refusals.push(RunEnd { elements: others.chain(told).collect(), unmet: Some(place(index)), ..RunEnd::default() });
                        refused_rows.push(&group.row);
                    } else {
                        good.elements.extend(told);
                        good.unmet = good.unmet.or(Some(place(index)));
                    }
                }
                End::Failed(index, kind) => {
                    let of = |i: usize| if i == place(index) { kind } else { ErrorKind::NotRun };
                    let told = |i: usize| (i, OpStatus::Failed(of(i)), 0);
                    if self.atomic() {
                        refusals.push(RunEnd { elements: all.iter().map(|&i| told(i)).collect(), ..RunEnd::default() });
                        refused_rows.push(&group.row);
                    } else {
                        good.elements.extend(group.items.clone().map(told));
                    }
                }
            }
        }
        if refusals.is_empty() { vec![good] } else { refusals }
    }

    /// The whole call's end from that of its runs.
    pub fn told(&self, runs: &[RunEnd]) -> Told {
        let mut results = vec![None; self.parts.len()];
        for &(i, status, value) in runs.iter().flat_map(|run| &run.elements) {
            results[i] = Some((status, value));
        }
        let failure = results.iter().enumerate().find_map(|(i, r)| match r {
            Some((OpStatus::Failed(kind), _)) if *kind != ErrorKind::NotRun => Some((i, *kind)),
            _ => None,
        });
        let count = |is: fn(OpStatus) -> bool| results.iter().flatten().filter(|(s, _)| is(*s)).count();
        let applied = count(|s| s == OpStatus::Applied);
        let failed = count(|s| matches!(s, OpStatus::Failed(_)));
        let unmet = runs.iter().filter_map(|run| run.unmet).min();
        let outcome = match (failure, unmet) {
            (Some((first, kind)), _) if applied > 0 => Outcome::Partial(first, kind, applied, failed),
            (Some((_, kind)), _) => Outcome::Failed(kind),
            (None, Some(first)) => Outcome::NotApplied(first),
            (None, None) => Outcome::Done,
        };
        Told { outcome, results, left: runs.iter().find_map(|run| run.left.clone()) }
    }

    /// Asks the engine.
    pub fn perform(&self, region: &Region) -> (Told, CommitInfo) {
        let mut info = CommitInfo::default();
        let n = self.parts.len();
        let (row, change, _) = &self.parts[0];
        let o = &self.options;
        let mut results: Vec<Option<(OpStatus, i64)>> = vec![None; n];
        let mut left = None;
        let mut keep = |i: usize, r: OpResult| results[i] = Some((r.status, r.value));
        let one = |r: region::error::Result<()>| match r {
            Ok(()) => Outcome::Done,
            Err(e) => Outcome::Failed(e.kind()),
        };
        let whole = |r: region::error::Result<BatchOutcome>| match r {
            Ok(BatchOutcome::Done) => Outcome::Done,
            Ok(BatchOutcome::NotApplied { first }) => Outcome::NotApplied(first),
            Ok(BatchOutcome::Partial { first, applied, failed, error }) => Outcome::Partial(first, error.kind(), applied, failed),
            Err(e) => Outcome::Failed(e.kind()),
        };
        let outcome = match self.verb {
            Verb::Put => one(region.put(row, change.family, &change.qual, &change.value, o, &mut info)),
            Verb::Delete => one(region.delete(row, change.family, &change.qual, change.op, o, &mut info)),
            Verb::Increment => match region.increment(row, change.family, &change.qual, change.delta, o, &mut info) {
                Ok(counted) => {
                    let status = if counted.applied { OpStatus::Applied } else { OpStatus::NotApplied };
                    results[0] = Some((status, counted.value));
                    if counted.applied { Outcome::Done } else { Outcome::NotApplied(0) }
                }
                Err(e) => Outcome::Failed(e.kind()),
            },
            Verb::IncrementRow => {
                let mut values = vec![0; n];
                match region.increment_row(row, self, o, &mut info, &mut values) {
                    Ok(unmet) => {
                        let status = if unmet.is_none() { OpStatus::Applied } else { OpStatus::NotApplied };
                        values.iter().enumerate().for_each(|(i, v)| results[i] = Some((status, *v)));
                        unmet.map_or(Outcome::Done, Outcome::NotApplied)
                    }
                    Err(e) => Outcome::Failed(e.kind()),
                }
            }
            Verb::IncrementMany => whole(region.increment_many(self, o, &mut info, &mut keep)),
            Verb::Append => {
                let mut sink = Bytes::default();
                match region.append(row, change.family, &change.qual, &change.value, o, &mut info, Some(&mut sink)) {
                    Ok(found) => {
                        left = Some((sink.0.into(), found.timestamp));
                        Outcome::Done
                    }
                    Err(e) => Outcome::Failed(e.kind()),
                }
            }
            _ => whole(region.batch(self, o, &mut info, &mut keep)),
        };
        (Told { outcome, results, left }, info)
    }

    /// Whether the engine's end is one the model allows.
    pub fn agrees(&self, told: &Told, expected: &Told) -> bool {
        let per_element = matches!(self.verb, Verb::Batch | Verb::IncrementMany)
            || matches!(self.verb, Verb::Increment | Verb::IncrementRow) && !matches!(expected.outcome, Outcome::Failed(_));
        let not_run = Some((OpStatus::Failed(ErrorKind::NotRun), 0));
        told.outcome == expected.outcome
            && told.left == expected.left
            && (!per_element
                || told.results.iter().zip(&expected.results).all(|(a, b)| a == b || a.is_none() && (*b == not_run || b.is_none())))
    }
}

impl Mutations for Call {
    fn len(&self) -> usize {
        self.parts.len()
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        let (row, c, own) = &self.parts[i];
        let family = if c.op == Kind::DeleteRow { 0 } else { c.family };
        Mutation { op: c.op, family, row, qual: &c.qual, value: &c.value, delta: c.delta, timestamp: *own }
    }
}

impl Increments for Call {
    fn len(&self) -> usize {
        self.parts.len()
    }
    fn get(&self, i: usize) -> Increment<'_> {
        let (row, c, _) = &self.parts[i];
        Increment { family: c.family, row, qual: &c.qual, delta: c.delta }
    }
}

impl IncrementColumns for Call {
    fn len(&self) -> usize {
        self.parts.len()
    }
    fn get(&self, i: usize) -> IncrementColumn<'_> {
        let (_, c, _) = &self.parts[i];
        IncrementColumn { family: c.family, qual: &c.qual, delta: c.delta }
    }
}

/// Takes a value whole.
#[derive(Default)]
pub struct Bytes(pub Vec<u8>);

impl ValueSink for Bytes {
    fn fits(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.resize(len, 0);
        (len < 1_000).then_some(&mut self.0)
    }
    fn pin(&mut self, value: Box<dyn Pinned>) {
        self.0 = value.bytes().to_vec();
    }
}
