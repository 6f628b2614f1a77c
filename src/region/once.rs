//! A call with a nonce counts once: what a batch does more where there is one. Single writes with a nonce are batches of one element.
//!
//! In an attempt, all under the row locks: groups that have an entry are answered from it (`answer_duplicates`); the others are evaluated; entries are reserved
//! before the append (`reserve`) and filled after it. A plain call leaves entries for the groups that changed something: one that only read, or whose check
//! or bound was not met, changed nothing and is simply run again. An atomic call leaves one for each group, also for one that only looked: they answer
//! together or not at all.

use super::Inner;
use super::batch::Results;
use super::face::{BatchOutcome, CommitInfo, Counted, Found, Mutation, Mutations, Op, OpResult, OpStatus};
use super::fingerprint::Asked;
use super::group::Outcome;
use super::lifecycle::closed;
use super::mutate::check_flags;
use super::runs::Group;
use super::tally::{Obstacle, Tally};
use crate::clock::{Clock, RegionClock, Timeout, monotonic_nanos, sleep};
use crate::commit::mutation::{CellChange, RowChange, Stamp, Write};
use crate::commit::{Committed, Refusal};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::ids::Tick;
use crate::nonce::{Answer, Fingerprint, Nonce, NonceTable, Place, Reserved, RowId, decode, decode_fingerprints};
use crate::options::{Durability, WriteOptions};
use crate::region::admission::WriteTerms;
use crate::rowlock::RowLocks;
use crate::stats::CallKind;
use crate::wal::{NonceNotes, Record};
use std::collections::HashMap;
use std::time::Duration;

/// What a batch keeps of its call's nonce. Empty and untouched in a call without.
#[derive(Default)]
pub(super) struct Once {
    pub nonce: Option<Nonce>,
    /// How many groups each row has had in the call.
    counts: HashMap<RowId, u32, foldhash::fast::RandomState>,
    asked: Asked,
    /// The run's groups by their first operation, ascending.
    places: Vec<(usize, Place, Fingerprint)>,
    /// What the run's operations were answered, and the first of them.
    values: Vec<i64>,
    first: usize,
    /// Every group of the attempt had its answer.
    all_answered: bool,
    /// For the record: what the attempt reserved.
    pub notes: NonceNotes<Vec<u8>>,
    /// The value that a single append makes, if the caller wants it.
    pub appended: Option<Appended>,
}

/// The value that an append made.
#[derive(Default)]
pub(super) struct Appended {
    pub value: Vec<u8>,
    /// Its timestamp is the commit's, or above this if that is later.
    pub above: u64,
}

impl Appended {
    /// For the entry: what it is above, then the value.
    fn bytes(&self) -> Box<[u8]> {
        [&self.above.to_le_bytes(), &self.value[..]].concat().into()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (above, value) = bytes.split_first_chunk()?;
        Some(Self { value: value.to_vec(), above: u64::from_le_bytes(*above) })
    }
}

impl Once {
    /// A new call.
    pub fn begin(&mut self, o: &WriteOptions, appended: Option<Appended>) {
        self.appended = appended;
        self.nonce = (o.nonce != 0).then_some(Nonce { group: o.nonce_group, nonce: o.nonce });
        self.asked = Asked::of(o);
        self.all_answered = false;
        self.counts.clear();
    }
    /// A new run of the call.
    pub fn place(&mut self, table: &NonceTable, ops: &dyn Mutations, groups: &[Group]) {
        self.places.clear();
        self.values.clear();
        let (Some(first), Some(last)) = (groups.first(), groups.last()) else { return };
        self.first = first.ops.start;
        self.values.resize(last.ops.end - first.ops.start, 0);
        let (asked, hasher) = (self.asked, table.fingerprinter());
        let of_call = asked.is_atomic().then(|| asked.fingerprint(hasher.clone(), ops, 0..ops.len()));
        for group in groups {
            let row = table.row(ops.get(group.ops.start).row);
            let count = self.counts.entry(row).or_default();
            let of = of_call.unwrap_or_else(|| asked.fingerprint(hasher.clone(), ops, group.ops.clone()));
            self.places.push((group.ops.start, Place { row, nth: *count }, of));
            *count += 1;
        }
    }
    /// The call is over. What one large answer took is given back.
    pub fn end(&mut self) {
        const KEPT: usize = 64 << 10;
        if self.notes.answers.capacity() > KEPT {
            self.notes = NonceNotes::default();
        }
    }
    /// What an operation is answered.
    pub fn keep(&mut self, index: usize, value: i64) {
        if let Some(kept) = index.checked_sub(self.first).and_then(|i| self.values.get_mut(i)) {
            *kept = value;
        }
    }
    /// Nothing of the attempt is left to do.
    pub fn all_answered(&self) -> bool {
        self.nonce.is_some() && self.all_answered
    }
    fn place_of(&self, group: &Group) -> (Place, Fingerprint) {
        let at = self.places.binary_search_by_key(&group.ops.start, |(first, ..)| *first);
        // A group without a place would be run, and not be remembered.
        let found = at.ok().and_then(|at| self.places.get(at));
        found.map_or_else(|| unreachable!("each group of a run has its place"), |(_, place, of)| (*place, *of))
    }
    fn answer_of(&self, group: &Group, of: Fingerprint) -> Answer {
        let values = self.values.get(group.ops.start - self.first..group.ops.end - self.first).unwrap_or_default();
        Answer { values: values.into(), bytes: self.appended.as_ref().map(Appended::bytes).unwrap_or_default(), of: Some(of) }
    }
}

/// The table's time: the clock at open, from then on by the kernel's monotonic clock, so that a wall clock that is set makes nothing older or younger. A test's
/// own clock is taken as it is.
#[derive(Clone, Copy)]
pub(crate) struct NonceTime {
    opened: Option<(Tick, u64)>,
    unit_ns: u64,
}

impl NonceTime {
    pub fn new(clock: &RegionClock) -> Self {
        let opened = matches!(clock, RegionClock::System(_)).then(|| (clock.now(), monotonic_nanos()));
        Self { opened, unit_ns: clock.unit().nanos() }
    }
    pub fn ticks(&self, seconds: u64) -> u64 {
        seconds.saturating_mul(1_000_000_000 / self.unit_ns)
    }
    pub fn now(&self, clock: &RegionClock) -> Tick {
        match self.opened {
            Some((tick, since)) => Tick(tick.0 + (monotonic_nanos() - since) / self.unit_ns),
            None => clock.now(),
        }
    }
}

/// Nonce and group fit together, and the level keeps them.
pub(super) fn check(o: &WriteOptions, durability: Durability) -> Result<()> {
    if o.nonce == 0 && o.nonce_group != 0 {
        return fail!(Invalid, "nonce_group {} without a nonce; nonce 0 is none", o.nonce_group);
    }
    if o.nonce != 0 && durability == Durability::SkipWal {
        return fail!(Invalid, "a nonce with SKIP_WAL: a crash would lose the change and what is known of it; use ASYNC_WAL or none");
    }
    Ok(())
}

/// Puts back what a record says of its call's nonce.
pub(super) fn restore(table: &NonceTable, record: &Record<'_>, now: Tick) -> Result<()> {
    for notes in record.nonces() {
        let understood = decode(notes.answers).and_then(|(nonce, mut entries)| {
            let told = notes.fingerprints.is_none_or(|bytes| decode_fingerprints(bytes, &mut entries));
            told.then_some((nonce, entries))
        });
        let Some((nonce, entries)) = understood else {
            let (segment, offset) = (record.position.segment(), record.position.offset());
            return fail!(Corrupt, "log segment {segment}, offset {offset}: a valid record whose nonces cannot be understood");
        };
        for (place, answer) in entries {
            table.restore(crate::nonce::Key { nonce, place }, answer, record.number, record.tick, now);
        }
    }
    Ok(())
}

impl Tally {
    /// A commit that answers for something of the call; the highest is told and waited for.
    pub fn rests_on(&mut self, committed: Committed, info: &mut CommitInfo) {
        // The sync of the highest covers every other one; and it is waited for if any of them has to be.
        let waits_for_sync = committed.waits_for_sync || self.highest.is_some_and(|h| h.waits_for_sync);
        let highest = match self.highest {
            Some(h) if h.seq > committed.seq => h,
            _ => {
                info.timestamp = committed.tick.0;
                committed
            }
        };
        self.highest = Some(Committed { waits_for_sync, ..highest });
    }
}

/// One element.
pub(super) struct One<'a>(pub Mutation<'a>);

impl Mutations for One<'_> {
    fn len(&self) -> usize {
        1
    }
    fn get(&self, _: usize) -> Mutation<'_> {
        self.0
    }
}

impl Inner {
    /// An increment with a nonce.
    #[cold]
    pub(super) fn increment_once(
        &self,
        row: &[u8],
        family: u32,
        qual: &[u8],
        delta: i64,
        o: &WriteOptions,
        info: &mut CommitInfo,
    ) -> Result<Counted> {
        let m = Mutation { op: Op::Increment, family, row, qual, value: b"", delta, timestamp: 0 };
        let told = self.one(CallKind::Increment, m, o, info, &mut None)?;
        Ok(Counted { value: told.value, applied: told.status == OpStatus::Applied })
    }
    /// Any other write with a nonce.
    #[cold]
    pub(super) fn write_once(&self, m: Mutation<'_>, o: &WriteOptions, info: &mut CommitInfo) -> Result<()> {
        check_flags(o.flags)?;
        self.one(CallKind::Write, m, o, info, &mut None).map(|_| ())
    }
    /// An append with a nonce, and the value it makes, if that is wanted.
    #[cold]
    pub(super) fn append_once(&self, m: Mutation<'_>, o: &WriteOptions, info: &mut CommitInfo, wanted: bool) -> Result<(Found, Vec<u8>)> {
        check_flags(o.flags)?;
        let mut appended = wanted.then(Appended::default);
        self.one(CallKind::Write, m, o, info, &mut appended)?;
        let Appended { value, above } = appended.unwrap_or_default();
        Ok((Found { timestamp: Stamp::Above(above).at(Tick(info.timestamp)), seq: info.seq }, value))
    }
    fn one(
        &self,
        kind: CallKind,
        m: Mutation<'_>,
        o: &WriteOptions,
        info: &mut CommitInfo,
        appended: &mut Option<Appended>,
    ) -> Result<OpResult> {
        let mut told = OpResult { status: OpStatus::Applied, flags: 0, value: 0 };
        match self.batch_telling(kind, &One(m), o, info, &mut |_, r| told = r, appended) {
            Ok(BatchOutcome::Partial { error, .. }) | Err(error) => Err(error.at_op(u64::MAX)),
            Ok(BatchOutcome::Done | BatchOutcome::NotApplied { .. }) => Ok(told),
        }
    }

    /// The table's time now.
    pub(super) fn nonce_now(&self) -> Tick {
        self.nonce_time.now(self.state.sequencer.clock())
    }

    /// Answers the groups of an attempt that were applied before. An obstacle: the nonce was used for another call.
    #[expect(clippy::too_many_arguments, reason = "a step of the attempt, over its state")]
    pub(super) fn answer_duplicates(
        &self,
        once: &mut Once,
        nonce: Nonce,
        atomic: bool,
        groups: &mut [Group],
        locks: &RowLocks<'_>,
        terms: &WriteTerms,
        info: &mut CommitInfo,
        tally: &mut Tally,
        results: Results<'_>,
    ) -> Option<Obstacle> {
        let open = |g: &&mut Group| !matches!(g.outcome, Outcome::Counted);
        let places: Vec<Place> = groups.iter_mut().filter(open).map(|g| once.place_of(g).0).collect();
        let found = self.state.nonces.find(nonce, &places, self.nonce_now());
        let missing = found.iter().filter(|e| e.is_none()).count();
        once.all_answered = missing == 0;
        let (durable, mut hits) = (self.state.durable(), 0);
        // As a commit on top of a row's waiting FSYNC commit: the answer may be one that nobody may see yet.
        let waits = terms.durability == Durability::FsyncWal || locks.fsync_pending() > durable;
        for (group, entry) in groups.iter_mut().filter(open).zip(found) {
            let Some(entry) = entry else { continue };
            let Some((seq, tick)) = entry.commit() else { continue };
            let differs = entry.answer.of.is_some_and(|of| of != once.place_of(group).1);
            let appended = once.appended.as_ref().map(|_| Appended::from_bytes(&entry.answer.bytes));
            if differs || (atomic && missing > 0) || entry.answer.values.len() != group.ops.len() || matches!(appended, Some(None)) {
                once.all_answered = false;
                let (first, e) = (group.ops.start, used_otherwise(nonce));
                if atomic {
                    return Some(Obstacle::Failed(first, e));
                }
                for i in group.ops.clone() {
                    let status = OpStatus::Failed(if i == first { e.kind() } else { ErrorKind::NotRun });
                    results(i, OpResult { status, flags: 0, value: 0 });
                }
                tally.fail(first, e, group.ops.len());
                group.outcome = Outcome::Counted;
                continue;
            }
            once.appended = appended.flatten();
            for (i, value) in group.ops.clone().zip(&entry.answer.values) {
                results(i, OpResult { status: OpStatus::Applied, flags: OpResult::DUPLICATE, value: *value });
            }
            tally.applied += group.ops.len();
            tally.duplicates += group.ops.len();
            hits += 1;
            tally.rests_on(Committed { seq, tick, waits_for_sync: waits && seq.0 > durable, unlogged: false, bytes: 0 }, info);
            group.outcome = Outcome::Counted;
        }
        self.state.nonces.note_hits(hits);
        None
    }

    /// Reserves the entries of an attempt that is about to be committed; None without a nonce.
    pub(super) fn reserve(
        &self,
        ops: &dyn Mutations,
        once: &mut Once,
        groups: &[Group],
        rows: &[RowChange<'_, '_>],
        cells: &[CellChange<'_, '_>],
        atomic: bool,
    ) -> std::result::Result<Option<Reserved<'_>>, Refusal> {
        let Some(nonce) = once.nonce else { return Ok(None) };
        if let (Some(appended), Some(Write::Put { value, stamp })) = (&mut once.appended, cells.last().map(|c| c.write)) {
            let above = if let Stamp::Above(ts) = stamp { ts } else { 0 };
            *appended = Appended { value: value.to_vec(), above };
        }
        // The rows of a plain run are different ones, and stand in the order of its groups.
        let mut changed = rows.iter().peekable();
        let applied = groups.iter().filter(|g| matches!(g.outcome, Outcome::Applied));
        let kept = applied.filter(|g| atomic || changed.next_if(|row| row.hash == g.hash && ops.get(g.ops.start).row == row.row).is_some());
        let entries = kept.map(|g| (g, once.place_of(g))).map(|(g, (place, of))| (place, once.answer_of(g, of))).collect();
        let reserved = self.state.nonces.reserve(nonce, entries, self.nonce_now()).map_err(|full| {
            let most = self.state.nonces.bytes_max();
            if full.needed <= most {
                return Refusal::Nonces(full.needed);
            }
            self.state.nonces.note_refused();
            let text =
                format!("a call whose nonce takes {} bytes to remember; nonce_bytes_max is {most}; nothing was changed", full.needed);
            Refusal::Fatal(Error::new(ErrorKind::TooLarge, text))
        })?;
        let NonceNotes { answers, fingerprints } = &mut once.notes;
        let fingerprints = fingerprints.get_or_insert_default();
        answers.clear();
        fingerprints.clear();
        reserved.encode(answers, fingerprints);
        Ok(Some(reserved))
    }

    /// Waits until entries have left the table for their age.
    pub(super) fn wait_for_nonces(&self, needed: u64, timeout: &mut Timeout) -> Result<()> {
        const SLICE: Duration = Duration::from_millis(10);
        loop {
            if self.lifecycle.is_closing() {
                return Err(closed(self.lifecycle.is_closed()));
            }
            if self.state.nonces.has_room(needed, self.nonce_now()) {
                return Ok(());
            }
            if timeout.is_over() {
                self.state.nonces.note_refused();
                let (bytes, most) = (self.state.nonces.bytes(), self.state.nonces.bytes_max());
                let why = if bytes > most { ", calls from before the region was opened with this limit among them" } else { "" };
                return fail!(
                    Busy,
                    "the table of nonces is full, for {} µs: {bytes} of nonce_bytes_max = {most} bytes hold calls of the last nonce_window_s = {} seconds{why}; nothing was changed",
                    timeout.micros(),
                    self.settings.nonce_window_s
                );
            }
            sleep(timeout.left(SLICE));
        }
    }
}

#[cold]
fn used_otherwise(nonce: Nonce) -> Error {
    let Nonce { group, nonce } = nonce;
    Error::new(
        ErrorKind::Invalid,
        format!(
            "nonce {nonce} of group {group} was used for a different operation: a call is repeated with the same operations, flags and bounds, a new one takes a new nonce; nothing was changed"
        ),
    )
}
