//! Many operations in one call: `region_batch_mutate`, `region_increment_packed`, `region_increment_row`.
//!
//! Consecutive operations of one row form a *group*: one atomic row change, in the order given. Groups are taken in *runs* of up to 256, and as many of a
//! run as can be locked are committed at once: one set of locks, one commit, one record. A plain run waits for a row only while it holds none, otherwise
//! the commit ends before that row, so no order of rows can deadlock; so it does before a row that comes back, which the commit itself has locked. With ATOMIC the whole call is one run: its rows are locked in the order of their hashes, which differs from open to open, but what is
//! reported is decided in the order of the call: by the first element that fails, or whose check or bound is not met. The call waits for durability once, at
//! its end.

use super::Inner;
use super::admission::{WriteTerms, show};
use super::change::RowCells;
use super::counter::Rules;
use super::face::{BatchOutcome, CommitInfo, Mutation, Mutations, OpResult, OpStatus};
use super::group::{Eval, Outcome};
use super::once::{Appended, Once};
use super::thread::with_scratch;
use crate::commit::mutation::{CellChange, RowChange, Terms};
use crate::commit::{Committed, Refusal, commit, wait_for_durable};
use crate::error::{Error, ErrorKind, Result};
use crate::hooks::{self, Point};
use crate::ids::RowHash;
use crate::options::{Durability, WriteOptions};
use crate::rowlock::{LockScratch, RowLocks};
use crate::stats::CallKind;
use crate::wal::RecordBuffer;
use bumpalo::Bump;
use std::collections::HashMap;
use std::ops::Range;

/// Where results go: index and result, possibly more than once per index; the last one counts.
pub type Results<'r> = &'r mut dyn FnMut(usize, OpResult);

const RUN_GROUPS: usize = 256;
const RUN_BYTES: usize = 1 << 20;

/// A group of the current run.
#[derive(Debug)]
pub(super) struct Group {
    pub ops: Range<usize>,
    pub hash: RowHash,
    pub outcome: Outcome,
    /// Checks that held and that did not, in the last attempt.
    pub checks: [u64; 2],
}

/// Lists that a thread keeps between batches.
#[derive(Default)]
pub struct BatchScratch {
    groups: Vec<Group>,
    /// Of an atomic run, to be sorted.
    hashes: Vec<RowHash>,
    locks: LockScratch,
    rows: Vec<RowChange<'static, 'static>>,
    cells: Vec<CellChange<'static, 'static>>,
    once: Once,
}

/// An empty list in the memory of another: same element but for lifetimes, so the allocation fits.
fn recycle<A, B>(mut list: Vec<A>) -> Vec<B> {
    list.clear();
    list.into_iter().map(|_| unreachable!("the list is empty")).collect()
}

/// What a whole call has come to so far.
#[derive(Default)]
pub(super) struct Tally {
    pub applied: usize,
    /// Of those, the ones that the nonce's first run did.
    pub duplicates: usize,
    /// A commit was made.
    wrote: bool,
    not_applied: usize,
    /// The first element whose check or bound was not met.
    first_unmet: Option<usize>,
    failed: usize,
    first_failure: Option<Error>,
    /// Checks that held and that did not, each counted once, however often its run was tried.
    checks: [u64; 2],
    pub highest: Option<Committed>,
}

impl Tally {
    pub fn fail(&mut self, index: usize, error: Error, count: usize) {
        self.failed += count;
        if self.first_failure.as_ref().is_none_or(|f| (index as u64) < f.op_index()) {
            self.first_failure = Some(error.at_op(index as u64));
        }
    }
    fn unmet(&mut self, index: usize, count: usize) {
        self.not_applied += count;
        self.first_unmet = Some(self.first_unmet.map_or(index, |first| first.min(index)));
    }
    fn count_checks(&mut self, group: &Group) {
        for (sum, n) in self.checks.iter_mut().zip(group.checks) {
            *sum += n;
        }
    }
}

/// What keeps an atomic call from being applied.
pub(super) enum Obstacle {
    /// An element failed.
    Failed(usize, Error),
    /// A check or bound was not met.
    Unmet(usize),
}

impl Obstacle {
    fn index(&self) -> usize {
        match self {
            Self::Failed(index, _) | Self::Unmet(index) => *index,
        }
    }
}

impl Inner {
    /// Runs `ops`. `kind` says how the call is counted.
    pub fn batch(
        &self,
        kind: CallKind,
        ops: &dyn Mutations,
        o: &WriteOptions,
        info: &mut CommitInfo,
        results: Results<'_>,
    ) -> Result<BatchOutcome> {
        self.batch_telling(kind, ops, o, info, results, &mut None)
    }

    /// The same; `appended`, if it is asked for, gets the value that the last operation, an append with a nonce, made.
    pub(super) fn batch_telling(
        &self,
        kind: CallKind,
        ops: &dyn Mutations,
        o: &WriteOptions,
        info: &mut CommitInfo,
        results: Results<'_>,
        appended: &mut Option<Appended>,
    ) -> Result<BatchOutcome> {
        with_scratch(|thread, scratch| {
            let (mut call, mut terms) = self.enter_write(kind, thread, o)?;
            let rules = Rules::new(o.flags, o.min_value, o.max_value)?;
            if ops.is_empty() {
                return Ok(BatchOutcome::Done);
            }
            let mut tally = Tally::default();
            let atomic = terms.flags & WriteOptions::ATOMIC != 0;
            let (record, batch) = (&mut scratch.record, &mut scratch.batch);
            batch.once.begin(o, appended.take());
            let mut at = 0;
            while at < ops.len() {
                at = self.next_run(ops, at, atomic, batch, &mut tally, results);
                if atomic && tally.failed > 0 {
                    break;
                }
                self.run(ops, atomic, &rules, &mut terms, batch, record, thread, info, &mut tally, results);
            }
            *appended = batch.once.appended.take();
            batch.once.end();
            let outcome = self.conclude(&mut tally, atomic, &mut terms, info, o.nonce != 0);
            if outcome.is_ok() {
                call.counts((tally.applied - tally.duplicates) as u64);
            }
            self.lifecycle.calls.checked(thread, tally.checks);
            drop(call);
            self.seal_if_due();
            outcome
        })
    }

    /// Cuts the next run's groups from the operations at `at`; returns where the following one begins. A group that can't be locked (bad row) fails here.
    fn next_run(
        &self,
        ops: &dyn Mutations,
        mut at: usize,
        atomic: bool,
        batch: &mut BatchScratch,
        tally: &mut Tally,
        results: Results<'_>,
    ) -> usize {
        batch.groups.clear();
        let mut bytes = 0;
        let weighed = |m: &Mutation<'_>| m.qual.len() + m.value.len() + 64;
        // The row that was found not to be that of the group before.
        let mut ahead = None;
        let n = ops.len();
        while at < n {
            let (row, mut size) = match ahead.take() {
                Some(begun) => begun,
                None => {
                    let first = ops.get(at);
                    (first.row, weighed(&first))
                }
            };
            let mut end = at + 1;
            while end < n {
                let next = ops.get(end);
                if next.row != row {
                    ahead = Some((next.row, weighed(&next)));
                    break;
                }
                size += weighed(&next);
                end += 1;
            }
            size += row.len();
            if let Err(e) = self.check_row(row) {
                for i in at..end {
                    let status = if i == at { OpStatus::Failed(e.kind()) } else { OpStatus::Failed(ErrorKind::NotRun) };
                    results(i, OpResult { status, flags: 0, value: 0 });
                }
                tally.fail(at, e.context(format_args!("operation {at}")), end - at);
                at = end;
                if atomic {
                    break;
                }
                continue;
            }
            let hash = self.state.hash(row);
            let full = batch.groups.len() == RUN_GROUPS || bytes + size > self.run_bytes_max.min(RUN_BYTES);
            if full && !atomic && !batch.groups.is_empty() {
                break;
            }
            bytes += size;
            batch.groups.push(Group { ops: at..end, hash, outcome: Outcome::Open, checks: [0; 2] });
            at = end;
        }
        if batch.once.nonce.is_some() {
            batch.once.place(&self.state.nonces, ops, &batch.groups);
        }
        if atomic {
            gather_rows(ops, &mut batch.groups);
        }
        at
    }

    /// Locks, evaluates and commits the groups of one run; tries again on refusals that can be waited for.
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        ops: &dyn Mutations,
        atomic: bool,
        rules: &Rules,
        terms: &mut WriteTerms,
        batch: &mut BatchScratch,
        record: &mut RecordBuffer,
        thread: usize,
        info: &mut CommitInfo,
        tally: &mut Tally,
        results: Results<'_>,
    ) {
        let mut from = 0;
        self.prefetch(&batch.groups, thread);
        while from < batch.groups.len() {
            let attempt = self.lock_run(ops, atomic, from, batch, terms);
            let (locks, count) = match attempt {
                Ok(locked) => locked,
                Err(e) => {
                    // An atomic run fails as a whole; of a plain one only the row that could not be locked.
                    let count = if atomic { batch.groups.len() - from } else { 1 };
                    fail_groups(batch.groups.get_mut(from..from + count).unwrap_or_default(), e, tally, results);
                    from += count;
                    continue;
                }
            };
            match self.try_run(ops, atomic, rules, terms, from..from + count, batch, locks, record, thread, info, tally, results) {
                Ok(()) => from += count,
                Err(refusal) => {
                    if let Err(e) = self.wait_for_refused(refusal, terms, thread) {
                        fail_groups(batch.groups.get_mut(from..from + count).unwrap_or_default(), e, tally, results);
                        from += count;
                    }
                }
            }
        }
    }

    /// Brings lock buckets, table buckets and row headers of a run closer, all misses at once. Only a hint: what it looks at may be outdated by the time
    /// the rows are locked.
    fn prefetch(&self, groups: &[Group], thread: usize) {
        if groups.len() < 4 {
            return;
        }
        let slot = self.state.slots.claim(thread);
        let view = self.state.view.load(&slot);
        for group in groups {
            self.state.locks.prefetch(group.hash);
            view.active.prefetch_table(group.hash);
        }
        for group in groups {
            view.active.prefetch_row(group.hash);
        }
    }

    /// Locks the rows of the groups from `from` on: all of them (ATOMIC) or as many as are free. Returns how many groups are locked.
    fn lock_run<'t>(
        &'t self,
        ops: &dyn Mutations,
        atomic: bool,
        from: usize,
        batch: &mut BatchScratch,
        terms: &mut WriteTerms,
    ) -> Result<(RowLocks<'t>, usize)> {
        let groups = batch.groups.get(from..).unwrap_or_default();
        let hashes = groups.iter().map(|g| g.hash);
        let scratch = std::mem::take(&mut batch.locks);
        let locked = if atomic {
            let all = groups.len();
            batch.hashes.clear();
            batch.hashes.extend(hashes);
            self.state.locks.lock_all(&mut batch.hashes, &mut terms.timeout, scratch).map(|locks| (locks, all))
        } else {
            self.state.locks.lock_prefix(hashes, &mut terms.timeout, scratch).map(|locks| {
                let count = locks.len();
                (locks, count)
            })
        };
        locked.map_err(|e| {
            batch.locks = e.scratch;
            let group = e.row.and_then(|hash| groups.iter().find(|g| g.hash == hash)).or(groups.first());
            let row = group.map(|g| ops.get(g.ops.start).row).unwrap_or_default();
            self.lock_error(e.why, row, &terms.timeout)
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn try_run(
        &self,
        ops: &dyn Mutations,
        atomic: bool,
        rules: &Rules,
        terms: &mut WriteTerms,
        range: Range<usize>,
        batch: &mut BatchScratch,
        mut locks: RowLocks<'_>,
        record: &mut RecordBuffer,
        thread: usize,
        info: &mut CommitInfo,
        tally: &mut Tally,
        results: Results<'_>,
    ) -> std::result::Result<(), Refusal> {
        let state = &self.state;
        hooks::reach(Point::RowLocked, state.hook_context);
        let slot = state.slots.claim(thread);
        hooks::reach(Point::SlotClaimed, state.hook_context);
        let view = state.view.load(&slot);
        let mut rows: Vec<RowChange<'_, '_>> = recycle(std::mem::take(&mut batch.rows));
        let mut cells: Vec<CellChange<'_, '_>> = recycle(std::mem::take(&mut batch.cells));
        let groups = batch.groups.get_mut(range).unwrap_or_default();
        let once = &mut batch.once;
        let mut evaluated = Ok(None);
        if let Some(nonce) = once.nonce {
            evaluated = Ok(self.answer_duplicates(once, nonce, atomic, groups, &locks, terms, info, tally, results));
        }
        let joined = Bump::new();
        let timestamp = terms.timestamp;
        let row = RowCells::new(&mut cells);
        let mut eval = Eval { inner: self, view, ops, rules, locks: &locks, row, joined: &joined, timestamp, tick: None, shown: None };
        if matches!(evaluated, Ok(None)) {
            let has_nonce = once.nonce.is_some();
            let mut kept = |i: usize, r: OpResult| {
                once.keep(i, r.value);
                results(i, r);
            };
            evaluated = evaluate(&mut eval, groups, atomic, &mut rows, tally, if has_nonce { &mut kept } else { results });
        }
        let tick = eval.tick;
        let (obstacle, refusal) = match evaluated {
            Ok(obstacle) => (obstacle, None),
            Err(refusal) => (None, Some(refusal)),
        };
        let committed = if refusal.is_none() && (obstacle.is_some() || cells.is_empty()) {
            None
        } else {
            let reserved = match refusal {
                Some(refusal) => Err(refusal),
                None => self.reserve(ops, once, groups, &rows, &cells, atomic),
            };
            let committed = reserved.and_then(|reserved| {
                let how = Terms { tick, nonces: once.nonce.is_some().then_some(&once.notes), ..terms.commit(thread) };
                let committed = commit(state, record, &mut locks, &slot, view, &mut rows, &mut cells, how)?;
                // Before the slot is free and the rows are unlocked.
                reserved.into_iter().for_each(|r| r.fill(committed.seq, committed.tick));
                Ok(committed)
            });
            if let Err(refusal) = committed {
                // The next attempt may get fewer rows: what was computed for the others was not written, and must not count.
                groups.iter_mut().filter(|g| !matches!(g.outcome, Outcome::Counted)).for_each(|g| g.outcome = Outcome::Open);
                batch.rows = recycle(rows);
                batch.cells = recycle(cells);
                drop(slot);
                batch.locks = locks.into_scratch();
                return Err(refusal);
            }
            committed.ok()
        };
        batch.rows = recycle(rows);
        batch.cells = recycle(cells);
        drop(slot);
        let pending = locks.fsync_pending();
        batch.locks = locks.into_scratch();
        if batch.once.all_answered() {
            return Ok(());
        }
        let Some(committed) = committed else {
            self.wait_for_pending(pending, terms).map_err(Refusal::Fatal)?;
            report(&mut batch.groups, obstacle, ops.len(), tally, results);
            return Ok(());
        };
        tally.rests_on(committed, info);
        tally.wrote = true;
        if committed.unlogged {
            self.note_unlogged(&committed);
        }
        report(&mut batch.groups, None, ops.len(), tally, results);
        Ok(())
    }

    /// The call's own result, after it has waited for the durability of all it did.
    fn conclude(
        &self,
        tally: &mut Tally,
        atomic: bool,
        terms: &mut WriteTerms,
        info: &mut CommitInfo,
        has_nonce: bool,
    ) -> Result<BatchOutcome> {
        if atomic && tally.failed > 0 {
            // Whatever was not said to have failed itself did not run.
            tally.applied = 0;
        }
        if tally.duplicates > 0 && !tally.wrote {
            info.flags |= CommitInfo::DUPLICATE;
        }
        if let Some(highest) = tally.highest {
            info.seq = if highest.unlogged { 0 } else { highest.seq.0 };
            if highest.waits_for_sync {
                // With a nonce it may be asked again: what was done answers, and goes on waiting.
                let waited = wait_for_durable(&self.state, highest.seq, &mut terms.timeout);
                waited.map_err(|e| if has_nonce { e.retryable(true) } else { e })?;
            }
            if highest.waits_for_sync || terms.durability != Durability::AsyncWal {
                info.flags |= CommitInfo::DURABLE;
            }
        } else {
            info.flags |= CommitInfo::DURABLE;
        }
        match tally.first_failure.take() {
            None => Ok(tally.first_unmet.map_or(BatchOutcome::Done, |first| BatchOutcome::NotApplied { first })),
            Some(e) if tally.applied == 0 => Err(e),
            Some(e) => {
                // Without a nonce the call as a whole may not be repeated: what was applied would count twice.
                Ok(BatchOutcome::Partial {
                    first: e.op_index() as usize,
                    applied: tally.applied,
                    failed: tally.failed,
                    error: e.retryable(has_nonce),
                })
            }
        }
    }
}

/// Puts the groups of one row together, where its first one stands: all changes of a row are one change of the record. Else the order stays the call's.
fn gather_rows(ops: &dyn Mutations, groups: &mut [Group]) {
    // Where each row stands first; rows of one hash are told apart by their bytes.
    let mut first: HashMap<(u64, &[u8]), usize, foldhash::fast::RandomState> = HashMap::default();
    let mut comes_back = false;
    for group in groups.iter() {
        let at = *first.entry((group.hash.0, ops.get(group.ops.start).row)).or_insert(group.ops.start);
        comes_back |= at != group.ops.start;
    }
    if comes_back {
        groups.sort_by_key(|g| (first.get(&(g.hash.0, ops.get(g.ops.start).row)).copied(), g.ops.start));
    }
}

/// Evaluates the groups that are not counted yet, or says what has to be waited for first. `rows` and the cells of `eval` then hold what changes; an answer, with ATOMIC only, says that nothing may.
fn evaluate<'a: 'v, 'v>(
    eval: &mut Eval<'_, 'a, 'v>,
    groups: &mut [Group],
    atomic: bool,
    rows: &mut Vec<RowChange<'a, 'v>>,
    tally: &mut Tally,
    results: Results<'_>,
) -> std::result::Result<Option<Obstacle>, Refusal> {
    let mut obstacle: Option<Obstacle> = None;
    // Counted: failed in an attempt before this one, and told so.
    for group in groups.iter_mut().filter(|g| !matches!(g.outcome, Outcome::Counted)) {
        // The groups of a row stand together, so one may be met that stands before an obstacle in the call: then it may hold the first.
        if obstacle.as_ref().is_some_and(|o| o.index() < group.ops.start) {
            continue;
        }
        let first = eval.ops.get(group.ops.start);
        let row = first.row;
        // With ATOMIC a later group of the same row continues its change.
        let continues = atomic && rows.last().is_some_and(|r| r.row == row);
        let start = if continues { rows.last().map_or(0, |r| r.cells.start) } else { eval.row.cells.len() };
        let (outcome, found) = eval.group(group, first, start, results)?;
        match outcome {
            Err((index, e)) if atomic => {
                obstacle = Some(Obstacle::Failed(index, e));
                continue;
            }
            Err((index, e)) => {
                tally.fail(index, e, group.ops.len());
                tally.count_checks(group);
                group.outcome = Outcome::Counted;
                continue;
            }
            Ok(outcome) => group.outcome = outcome,
        }
        if let (true, Outcome::NotApplied(index)) = (atomic, group.outcome) {
            obstacle = Some(Obstacle::Unmet(index));
            continue;
        }
        let end = eval.row.cells.len();
        match rows.last_mut().filter(|_| continues) {
            Some(last) => last.cells.end = end,
            None if end > start => rows.push(RowChange { hash: group.hash, row, cells: start..end, found }),
            None => {}
        }
    }
    Ok(obstacle)
}

/// Every operation of `groups` failed for the same reason.
fn fail_groups(groups: &mut [Group], e: Error, tally: &mut Tally, results: Results<'_>) {
    let open = |g: &&mut Group| !matches!(g.outcome, Outcome::Counted);
    let Some(first) = groups.iter_mut().filter(open).map(|g| g.ops.start).min() else { return };
    let mut count = 0;
    for group in groups.iter_mut().filter(open) {
        for i in group.ops.clone() {
            results(
                i,
                OpResult { status: OpStatus::Failed(e.kind()), flags: if e.is_retryable() { OpResult::RETRYABLE } else { 0 }, value: 0 },
            );
            count += 1;
        }
        group.outcome = Outcome::Counted;
    }
    tally.fail(first, e, count);
}

/// Writes down how the groups of a run ended that are not counted yet.
fn report(groups: &mut [Group], obstacle: Option<Obstacle>, n: usize, tally: &mut Tally, results: Results<'_>) {
    // Behind an obstacle nothing counts as looked at, though a row's groups are looked at together.
    let last = obstacle.as_ref().map_or(usize::MAX, Obstacle::index);
    let open = |g: &&mut Group| !matches!(g.outcome, Outcome::Counted | Outcome::Open) || last != usize::MAX;
    for group in groups.iter_mut().filter(open) {
        if group.ops.start <= last {
            tally.count_checks(group);
        }
        match (&obstacle, group.outcome) {
            // Nothing of the call happened. The group that says so has its values already.
            (Some(Obstacle::Unmet(index)), _) if !group.ops.contains(index) => {
                group.ops.clone().for_each(|i| results(i, OpResult { status: OpStatus::NotApplied, flags: 0, value: 0 }));
            }
            (None, Outcome::Applied) => tally.applied += group.ops.len(),
            (None, Outcome::NotApplied(index)) => tally.unmet(index, group.ops.len()),
            _ => {}
        }
        group.outcome = Outcome::Counted;
    }
    match obstacle {
        Some(Obstacle::Failed(index, e)) => {
            for i in 0..n {
                let status = if i == index { OpStatus::Failed(e.kind()) } else { OpStatus::Failed(ErrorKind::NotRun) };
                results(i, OpResult { status, flags: 0, value: 0 });
            }
            tally.fail(index, e, n);
        }
        Some(Obstacle::Unmet(index)) => tally.unmet(index, n),
        None => {}
    }
}

/// For messages that name an operation.
pub(super) fn name_op(index: usize, m: &Mutation<'_>) -> String {
    format!("operation {index} (row {}, qualifier {})", show(m.row), show(m.qual))
}
