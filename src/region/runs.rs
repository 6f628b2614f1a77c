//! Cuts a call of many operations into runs of groups, and locks the rows of a run. See `batch.rs` for what groups and runs are.

use super::Inner;
use super::admission::WriteTerms;
use super::batch::{BatchScratch, Results};
use super::face::{Mutation, Mutations, OpResult, OpStatus};
use super::group::Outcome;
use super::tally::Tally;
use crate::error::{ErrorKind, Result};
use crate::ids::RowHash;
use crate::rowlock::RowLocks;
use std::collections::HashMap;
use std::ops::Range;

/// A group of the current run.
#[derive(Debug)]
pub(super) struct Group {
    pub ops: Range<usize>,
    pub hash: RowHash,
    pub outcome: Outcome,
    /// Checks that held and that did not, in the last attempt.
    pub checks: [u64; 2],
}

impl Inner {
    /// Cuts the next run's groups from the operations at `at`; returns where the following one begins. A group that can't be locked (bad row) fails here.
    pub(super) fn next_run(
        &self,
        ops: &dyn Mutations,
        mut at: usize,
        atomic: bool,
        batch: &mut BatchScratch,
        tally: &mut Tally,
        results: Results<'_>,
    ) -> usize {
        batch.groups.clear();
        batch.seen.clear();
        if !atomic {
            // At most a quarter full, and no larger than the call needs.
            batch.seen.resize(4 * (ops.len() - at).min(RUN_GROUPS).next_power_of_two(), 0);
        }
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
            // A row that comes back ends the run: its second change is a commit of its own. With ATOMIC all changes of a row are one.
            if !atomic && ((full && !batch.groups.is_empty()) || is_seen(&mut batch.seen, hash)) {
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

    /// Brings lock buckets, table buckets and row headers of a run closer, all misses at once. Only a hint: what it looks at may be outdated by the time
    /// the rows are locked.
    pub(super) fn prefetch(&self, groups: &[Group], thread: usize) {
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
    pub(super) fn lock_run<'t>(
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

/// True if the hash was in the set already; puts it there. The set's length is a power of two.
fn is_seen(seen: &mut [u64], hash: RowHash) -> bool {
    // 0 marks an empty place, so a hash of 0 takes another value: at worst a run ends early.
    let h = hash.0.max(1);
    let mask = seen.len().wrapping_sub(1);
    let mut i = h as usize & mask;
    while let Some(place) = seen.get_mut(i) {
        if *place == 0 {
            *place = h;
            return false;
        }
        if *place == h {
            return true;
        }
        i = (i + 1) & mask;
    }
    false
}

const RUN_GROUPS: usize = 256;
const RUN_BYTES: usize = 1 << 20;
