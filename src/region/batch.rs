//! Many operations in one call: `region_batch_mutate`, `region_increment_packed`, `region_increment_row`.
//!
//! Consecutive operations of one row form a *group*: one atomic row change, in the order given. Groups are taken in *runs* of up to 256 different rows. As
//! many of a run as can be locked are committed at once: one set of locks, one commit, one record. A plain call waits for a row only while it holds none,
//! otherwise the commit ends before that row, so no order of rows can deadlock. With ATOMIC the whole call is one run and one commit: its rows are locked in
//! the order of their hashes, which differs from open to open, but what is reported is decided in the order of the call: by the first element that fails, or
//! whose check or bound is not met. The call waits for durability once, at its end.

use super::Inner;
use super::admission::{WriteTerms, show};
use super::change::RowCells;
use super::counter::Rules;
use super::face::{BatchOutcome, CommitInfo, Mutation, Mutations, OpResult};
use super::group::{Eval, Outcome};
use super::once::{Appended, Once};
use super::runs::Group;
use super::tally::{Obstacle, Tally, fail_groups, report};
use super::thread::with_scratch;
use crate::commit::mutation::{CellChange, RowChange, Terms};
use crate::commit::{Refusal, commit};
use crate::error::Result;
use crate::hooks::{self, Point};
use crate::ids::RowHash;
use crate::options::WriteOptions;
use crate::rowlock::{LockScratch, RowLocks};
use crate::stats::CallKind;
use crate::wal::RecordBuffer;
use bumpalo::Bump;
use std::ops::Range;

/// Where results go: index and result, possibly more than once per index; the last one counts.
pub type Results<'r> = &'r mut dyn FnMut(usize, OpResult);

/// Lists that a thread keeps between batches.
#[derive(Default)]
pub struct BatchScratch {
    pub(super) groups: Vec<Group>,
    /// Of an atomic run, to be sorted.
    pub(super) hashes: Vec<RowHash>,
    pub(super) seen: Vec<u64>,
    pub(super) locks: LockScratch,
    pub(super) rows: Vec<RowChange<'static, 'static>>,
    pub(super) cells: Vec<CellChange<'static, 'static>>,
    pub(super) once: Once,
}

/// An empty list in the memory of another: same element but for lifetimes, so the allocation fits.
fn recycle<A, B>(mut list: Vec<A>) -> Vec<B> {
    list.clear();
    list.into_iter().map(|_| unreachable!("the list is empty")).collect()
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

/// For messages that name an operation.
pub(super) fn name_op(index: usize, m: &Mutation<'_>) -> String {
    format!("operation {index} (row {}, qualifier {})", show(m.row), show(m.qual))
}
