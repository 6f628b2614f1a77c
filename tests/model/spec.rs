//! The data model in its simplest form: every cell that was ever written, in lists, replayed from the beginning for each question.
//!
//! Written from the documents alone; nothing here calls the engine. Rows, families and qualifiers are small, so nothing is done for speed.

use region::error::ErrorKind;
use region::options::WriteOptions;
use region::region::{Comparison, Op};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Timestamps above it are refused.
pub const TS_MAX: u64 = 1 << 62;
/// All timestamps.
pub const ALWAYS: Range<u64> = 0..u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Put = 4,
    DeleteVersion = 8,
    DeleteFamilyVersion = 10,
    Delete = 12,
    DeleteFamily = 14,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    No,
    Yes,
    UntilExpired,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    pub max: usize,
    pub min: usize,
    /// Ticks after which a cell expires.
    pub ttl: Option<u64>,
    pub keep: Keep,
    /// What it was before it was changed, oldest first.
    pub past: Vec<Past>,
}

/// Settings up to a commit, and the least timestamp that had not expired by them when they were changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    pub through: u64,
    pub max: usize,
    pub min: usize,
    pub keep: Keep,
    pub oldest: u64,
}

impl Family {
    /// The family that `next` becomes, if it changes anything.
    pub fn become_of(&self, next: &mut Self, through: u64, now: u64) {
        next.past.clone_from(&self.past);
        if (next.max, next.min, next.ttl, next.keep) != (self.max, self.min, self.ttl, self.keep) {
            next.past.push(Past { through, max: self.max, min: self.min, keep: self.keep, oldest: self.oldest(now) });
        }
    }
    /// How many changes a commit came after.
    fn stage(&self, seq: u64) -> usize {
        self.past.iter().filter(|p| p.through < seq).count()
    }
    fn max_at(&self, stage: usize) -> usize {
        self.past.get(stage).map_or(self.max, |p| p.max)
    }
    /// What is left of a column's versions after a change: what it showed, and no more than is kept from then on.
    fn change<T>(&self, stage: usize, held: &mut Vec<(Cell, T)>) {
        let ended = &self.past[stage];
        let mut place = 0;
        held.retain(|(h, _)| {
            place += 1;
            place <= ended.min || h.ts >= ended.oldest
        });
        held.truncate(self.max_at(stage + 1));
    }
    /// Least timestamp that has not expired.
    fn oldest(&self, now: u64) -> u64 {
        self.ttl.map_or(0, |ttl| now.saturating_sub(ttl))
    }
}

pub type Value = Arc<[u8]>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub ts: u64,
    pub seq: u64,
    pub kind: Kind,
    pub value: Value,
}

/// The counter that a value is.
pub fn counter(value: &[u8]) -> Option<i64> {
    value.try_into().ok().map(i64::from_be_bytes)
}

/// One operation on one row, its timestamp resolved: 0 = assigned.
#[derive(Clone, Debug)]
pub struct Change {
    pub op: Op,
    pub family: u32,
    pub qual: Vec<u8>,
    pub value: Value,
    pub delta: i64,
    pub ts: u64,
}

/// Flags and bounds of increments.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub flags: u32,
    pub min: i64,
    pub max: i64,
}

/// A value that a call is about to write.
#[derive(Clone, Debug)]
struct Pending {
    family: u32,
    qual: Vec<u8>,
    ts: u64,
    assigned: bool,
    value: Value,
}

/// What a call is about to write to one row.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    values: Vec<Pending>,
    /// Family, qualifier (none: of the whole family), kind, timestamp.
    markers: Vec<(u32, Option<Vec<u8>>, Kind, u64)>,
}

impl Draft {
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.markers.is_empty()
    }
    fn put(&mut self, family: u32, qual: &[u8], ts: u64, assigned: bool, value: Value) {
        self.values.retain(|p| (p.family, p.qual.as_slice(), p.ts) != (family, qual, ts));
        self.values.push(Pending { family, qual: qual.to_vec(), ts, assigned, value });
    }
    fn mark(&mut self, family: u32, qual: Option<&[u8]>, kind: Kind, ts: u64) {
        self.values.retain(|p| p.family != family || qual.is_some_and(|q| q != p.qual) || !in_scope(kind, ts, p.ts));
        let marker = (family, qual.map(<[u8]>::to_vec), kind, ts);
        if !self.markers.contains(&marker) {
            self.markers.push(marker);
        }
    }
}

fn in_scope(marker: Kind, marker_ts: u64, ts: u64) -> bool {
    match marker {
        Kind::DeleteVersion | Kind::DeleteFamilyVersion => ts == marker_ts,
        _ => ts <= marker_ts,
    }
}

/// How the operations of one row end; a value for each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Applied(Vec<Answer>),
    /// Also: which of them was not met.
    NotApplied(Vec<i64>, usize),
    Failed(usize, ErrorKind),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Number(i64),
    /// What an append leaves, with its timestamp.
    Bytes(Value, u64),
}

impl Answer {
    pub fn number(&self) -> i64 {
        match self {
            Self::Number(n) => *n,
            Self::Bytes(value, _) => value.len() as i64,
        }
    }
}

/// At which instant a question is asked: commits up to a number, and the clock.
#[derive(Clone, Copy, Debug)]
pub struct At {
    pub cut: u64,
    pub now: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub families: BTreeMap<u32, Family>,
    /// By row, family, qualifier.
    pub columns: BTreeMap<(Vec<u8>, u32, Vec<u8>), Vec<Cell>>,
    /// Markers of whole families of a row.
    pub markers: BTreeMap<(Vec<u8>, u32), Vec<Cell>>,
}

impl Model {
    /// What a reader of `range` is shown of a column, best first, `draft` being written already.
    fn versions(&self, row: &[u8], family: u32, qual: &[u8], at: At, range: &Range<u64>, draft: Option<&Draft>) -> Vec<(Cell, bool)> {
        let Some(rules) = self.families.get(&family) else { return Vec::new() };
        let stored = self.columns.get(&(row.to_vec(), family, qual.to_vec())).into_iter().flatten();
        let of_family = self.markers.get(&(row.to_vec(), family)).into_iter().flatten();
        let mut cells: Vec<(Cell, bool)> = stored.chain(of_family).filter(|c| c.seq <= at.cut).map(|c| (c.clone(), false)).collect();
        if let Some(draft) = draft {
            let seq = u64::MAX;
            let nothing: Value = Arc::new([]);
            let markers = draft.markers.iter().filter(|(f, q, ..)| *f == family && q.as_ref().is_none_or(|q| q == qual));
            cells.extend(markers.map(|&(_, _, kind, ts)| (Cell { ts, seq, kind, value: Arc::clone(&nothing) }, false)));
            let values = draft.values.iter().filter(|p| p.family == family && p.qual == qual);
            cells.extend(values.map(|p| (Cell { ts: p.ts, seq, kind: Kind::Put, value: Arc::clone(&p.value) }, p.assigned)));
        }
        // In the order of their numbers; the markers of a number come before its values.
        cells.sort_by_key(|(c, _)| (c.seq, c.kind == Kind::Put));
        let oldest = rules.oldest(at.now);
        let mut held: Vec<(Cell, bool)> = Vec::new();
        let mut stage = 0;
        for (cell, assigned) in cells {
            (stage..rules.stage(cell.seq)).for_each(|s| rules.change(s, &mut held));
            stage = rules.stage(cell.seq);
            if cell.kind == Kind::Put {
                held.retain(|(h, _)| h.ts != cell.ts);
                held.push((cell, assigned));
                held.sort_by_key(|(h, _)| std::cmp::Reverse(h.ts));
                held.truncate(rules.max_at(stage));
                continue;
            }
            let counts = |keep, oldest| match keep {
                Keep::No => true,
                Keep::Yes => range.contains(&cell.ts),
                Keep::UntilExpired => range.contains(&cell.ts) || cell.ts < oldest,
            };
            // Once it has counted for every reader, it does for good.
            if counts(rules.keep, oldest) || rules.past[stage..].iter().any(|p| counts(p.keep, p.oldest)) {
                held.retain(|(h, _)| !in_scope(cell.kind, cell.ts, h.ts));
            }
        }
        (stage..rules.past.len()).for_each(|s| rules.change(s, &mut held));
        let fresh = held.iter().enumerate().filter(|(i, (h, _))| *i < rules.min || h.ts >= oldest);
        fresh.map(|(_, h)| h.clone()).filter(|(h, _)| range.contains(&h.ts)).collect()
    }

    /// What a reader is shown of a column, best first.
    pub fn shown(&self, row: &[u8], family: u32, qual: &[u8], at: At, range: &Range<u64>) -> Vec<Cell> {
        self.versions(row, family, qual, at, range, None).into_iter().map(|(c, _)| c).collect()
    }
    fn newest(&self, row: &[u8], family: u32, qual: &[u8], at: At, draft: &Draft) -> Option<(Cell, bool)> {
        self.versions(row, family, qual, at, &ALWAYS, Some(draft)).into_iter().next()
    }
    /// The stored counter: what a refused operation tells.
    fn stored_counter(&self, row: &[u8], change: &Change, at: At) -> i64 {
        let stored = self.shown(row, change.family, &change.qual, at, &ALWAYS);
        stored.first().and_then(|c| counter(&c.value)).unwrap_or(0)
    }

    /// Runs `changes` of one row in order, each seeing what stands before it; they go to `draft`, or nothing does.
    pub fn run(&self, row: &[u8], changes: &[Change], bounds: Bounds, at: At, tick: u64, draft: &mut Draft) -> End {
        let mut next = draft.clone();
        let mut answers = Vec::new();
        for (i, change) in changes.iter().enumerate() {
            match self.one(row, change, bounds, at, tick, &mut next) {
                Ok(Some(answer)) => answers.push(answer),
                Ok(None) => {
                    let tells = |c: &Change| match c.op {
                        Op::Increment | Op::Check { .. } => self.stored_counter(row, c, at),
                        _ => 0,
                    };
                    return End::NotApplied(changes.iter().map(tells).collect(), i);
                }
                Err(kind) => return End::Failed(i, kind),
            }
        }
        *draft = next;
        End::Applied(answers)
    }

    /// None: a check or bound was not met.
    fn one(&self, row: &[u8], c: &Change, bounds: Bounds, at: At, tick: u64, draft: &mut Draft) -> Result<Option<Answer>, ErrorKind> {
        let (f, q) = (c.family, c.qual.as_slice());
        let assigned_only = matches!(c.op, Op::Increment | Op::Append | Op::Check { .. });
        if c.ts > TS_MAX || c.ts != 0 && assigned_only || c.ts == 0 && c.op == Op::DeleteFamilyVersion {
            return Err(ErrorKind::Invalid);
        }
        if c.op != Op::DeleteRow && !self.families.contains_key(&f) {
            return Err(ErrorKind::NoFamily);
        }
        let ts = if c.ts == 0 { tick } else { c.ts };
        let held = self.newest(row, f, q, at, draft);
        // An increment or append after a value of its own call replaces it, if the timestamp was assigned.
        let count_at = match &held {
            Some((cell, true)) => cell.ts,
            Some((cell, false)) => tick.max(cell.ts + 1),
            None => tick,
        };
        match c.op {
            Op::Put => draft.put(f, q, ts, c.ts == 0, Arc::clone(&c.value)),
            Op::Delete => draft.mark(f, Some(q), Kind::Delete, ts),
            Op::DeleteVersion => {
                // The newest version there is; nothing there: the tick.
                let which = if c.ts == 0 { held.map_or(tick, |(cell, _)| cell.ts) } else { c.ts };
                draft.mark(f, Some(q), Kind::DeleteVersion, which);
            }
            Op::DeleteFamily => draft.mark(f, None, Kind::DeleteFamily, ts),
            Op::DeleteFamilyVersion => draft.mark(f, None, Kind::DeleteFamilyVersion, ts),
            Op::DeleteRow => self.families.keys().for_each(|&f| draft.mark(f, None, Kind::DeleteFamily, ts)),
            Op::Append => {
                let mut whole = held.map_or(Vec::new(), |(cell, _)| cell.value.to_vec());
                whole.extend_from_slice(&c.value);
                let whole: Value = whole.into();
                draft.put(f, q, count_at, true, Arc::clone(&whole));
                return Ok(Some(Answer::Bytes(whole, count_at)));
            }
            Op::Increment => {
                let current = held.map(|(cell, _)| counter(&cell.value).ok_or(ErrorKind::NotCounter)).transpose()?;
                let Some((stored, answer)) = add(current, c.delta, bounds)? else { return Ok(None) };
                if let Some(value) = stored {
                    draft.put(f, q, count_at, true, value.to_be_bytes().as_slice().into());
                }
                return Ok(Some(Answer::Number(answer)));
            }
            Op::Check { how, as_counter } => {
                let value = held.as_ref().map(|(cell, _)| &*cell.value);
                let number = value.and_then(counter);
                let order = match (as_counter, how) {
                    (true, Comparison::Exists | Comparison::Absent) | (false, _) => value.map(|v| v.cmp(&*c.value)),
                    (true, _) if value.is_some() && number.is_none() => return Err(ErrorKind::NotCounter),
                    (true, _) => number.map(|n| n.cmp(&c.delta)),
                };
                let met = match (how, order) {
                    (Comparison::Absent | Comparison::NotEqual, None) => true,
                    (Comparison::Absent, Some(_)) | (_, None) => false,
                    (Comparison::Exists, Some(_)) => true,
                    (Comparison::Equal, Some(o)) => o.is_eq(),
                    (Comparison::NotEqual, Some(o)) => o.is_ne(),
                    (Comparison::Less, Some(o)) => o.is_lt(),
                    (Comparison::LessOrEqual, Some(o)) => o.is_le(),
                    (Comparison::Greater, Some(o)) => o.is_gt(),
                    (Comparison::GreaterOrEqual, Some(o)) => o.is_ge(),
                };
                return Ok(met.then_some(Answer::Number(number.unwrap_or(0))));
            }
        }
        Ok(Some(Answer::Number(0)))
    }

    /// Writes what a call has for a row.
    pub fn write(&mut self, row: &[u8], draft: Draft, seq: u64) {
        let nothing: Value = Arc::new([]);
        for (family, qual, kind, ts) in draft.markers {
            let cell = Cell { ts, seq, kind, value: Arc::clone(&nothing) };
            match qual {
                Some(qual) => self.columns.entry((row.to_vec(), family, qual)).or_default().push(cell),
                None => self.markers.entry((row.to_vec(), family)).or_default().push(cell),
            }
        }
        for p in draft.values {
            let cell = Cell { ts: p.ts, seq, kind: Kind::Put, value: p.value };
            self.columns.entry((row.to_vec(), p.family, p.qual)).or_default().push(cell);
        }
    }

    pub fn drop_family(&mut self, id: u32) {
        self.families.remove(&id);
        self.columns.retain(|(_, f, _), _| *f != id);
        self.markers.retain(|(_, f), _| *f != id);
    }
}

/// Value to store (none: it only reads) and answer; None: a bound was not met.
fn add(current: Option<i64>, delta: i64, b: Bounds) -> Result<Option<(Option<i64>, i64)>, ErrorKind> {
    let has = |flag| b.flags & flag != 0;
    let old = current.unwrap_or(0);
    let exact = if has(WriteOptions::SET) { i128::from(delta) } else { i128::from(old) + i128::from(delta) };
    let inside = exact >= i128::from(b.min) && exact <= i128::from(b.max);
    let new = if has(WriteOptions::BOUNDED) {
        match (inside, has(WriteOptions::SATURATE)) {
            (true, _) => exact as i64,
            (false, true) => exact.clamp(i128::from(b.min), i128::from(b.max)) as i64,
            (false, false) => return Ok(None),
        }
    } else if has(WriteOptions::CHECK_OVERFLOW) {
        i64::try_from(exact).map_err(|_| ErrorKind::Overflow)?
    } else {
        exact as i64
    };
    let reads = delta == 0 && !has(WriteOptions::SET) && current == Some(new);
    Ok(Some(((!reads).then_some(new), if has(WriteOptions::RETURN_OLD) { old } else { new })))
}
