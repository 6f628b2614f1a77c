//! What a call of many operations has come to: the sums, the first failure, what each operation is told, and the call's own answer.

use super::Inner;
use super::admission::WriteTerms;
use super::batch::Results;
use super::face::{BatchOutcome, CommitInfo, OpResult, OpStatus};
use super::group::Outcome;
use super::runs::Group;
use crate::commit::{Committed, wait_for_durable};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Durability;

/// What a whole call has come to so far.
#[derive(Default)]
pub(super) struct Tally {
    pub applied: usize,
    /// Of those, the ones that the nonce's first run did.
    pub duplicates: usize,
    /// A commit was made.
    pub wrote: bool,
    pub not_applied: usize,
    /// The first element whose check or bound was not met.
    pub first_unmet: Option<usize>,
    pub failed: usize,
    pub first_failure: Option<Error>,
    /// Checks that held and that did not, each counted once, however often its run was tried.
    pub checks: [u64; 2],
    pub highest: Option<Committed>,
}

impl Tally {
    pub fn fail(&mut self, index: usize, error: Error, count: usize) {
        self.failed += count;
        if self.first_failure.as_ref().is_none_or(|f| (index as u64) < f.op_index()) {
            self.first_failure = Some(error.at_op(index as u64));
        }
    }
    pub fn unmet(&mut self, index: usize, count: usize) {
        self.not_applied += count;
        self.first_unmet = Some(self.first_unmet.map_or(index, |first| first.min(index)));
    }
    pub fn count_checks(&mut self, group: &Group) {
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
    pub fn index(&self) -> usize {
        match self {
            Self::Failed(index, _) | Self::Unmet(index) => *index,
        }
    }
}

impl Inner {
    /// The call's own result, after it has waited for the durability of all it did.
    pub(super) fn conclude(
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

/// Every operation of `groups` failed for the same reason.
pub(super) fn fail_groups(groups: &mut [Group], e: Error, tally: &mut Tally, results: Results<'_>) {
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
pub(super) fn report(groups: &mut [Group], obstacle: Option<Obstacle>, n: usize, tally: &mut Tally, results: Results<'_>) {
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
