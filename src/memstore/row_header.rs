//! What of a row may be shown: `pending`, `applied`, `stable`. The only place that decides it.
//!
//! Must not: know slots' owners, the log or the read points. The commit slot's flag word and the durable number D come in as closures.
//!
//! Threads: every store is made by the owner of the row's lock; `cut` is called by anybody, with no lock, and never waits.
//!
//! | word | content |
//! |---|---|
//! | `applied` | number of the row's last applied commit << 1, plus 1 if it is of FSYNC level |
//! | `stable` | number of a commit of this row that is complete, for use while `applied` is not |
//! | `pending` | 0, or the commit slot's index << 48, plus the low 48 bits of the number, of a commit over several rows that is about to appear |
//! | `markers` | chain of its families' delete markers, and of notes of timestamps ahead (`versions/marks.rs`) |
//!
//! A commit is *complete* when it is as durable as its writer asked for: at once at SYNC level, with number <= D at FSYNC level. Per row the
//! commits that are not complete are a suffix, all of FSYNC level (the commit sequence inherits the level), so one number tells all.
//!
//! The slots of the row's first counter column lie between `stable` and `pending`: a counter's hot words share one cache line, and
//! spreading them over two costs 35 % of the single-thread rate.

use super::flaw::{self, Flaw};
use super::versions::{Chain, Slots};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, fence};

/// The words of a row that say what of it may be shown.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RowHeader {
    applied: AtomicU64,
    stable: AtomicU64,
    /// Of the embedded counter column; here for the cache line, see above.
    pub(super) slots: Slots,
    pending: AtomicU64,
    pub(super) markers: Chain,
}

/// Up to which commit a row of one segment may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Commits of the row with a number up to this one are shown; 0: none.
    pub seq: u64,
    /// True if nothing of the row, in this segment, waits.
    pub complete: bool,
    /// The last applied commit, complete or not; 0: this segment has none of this row (go on to the older one).
    pub applied: u64,
}

impl RowHeader {
    /// A row without a commit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes commit `n` the row's last one. Row lock held; after every version of the commit was applied. `durable` is D, loaded with
    /// Acquire.
    pub fn mark(&self, n: u64, fsync: bool, durable: u64) {
        // Relaxed: only the lock's owner writes it, the lock orders us behind its last owner.
        let a = self.applied.load(Relaxed);
        if (!is_fsync(a) || number(a) <= durable) && !flaw::off(Flaw::StableKept) {
            // Release: pairs with `cut`'s load, that sees what this commit wrote.
            self.stable.store(number(a), Release);
        }
        // Release: pairs with `cut`'s load; after `stable`, so that who sees this commit waiting also sees the one below it.
        self.applied.store(n << 1 | u64::from(fsync), Release);
    }

    /// First half of a commit over several rows: from now on the flag word of commit slot `slot` decides whether commit `n` is shown.
    /// Row lock held; after every version was applied, before the flag is raised.
    pub fn set_pending(&self, slot: usize, n: u64) {
        assert!(slot <= PENDING_SLOT_MAX && n & PENDING_NUMBER != 0, "slot {slot} or number {n} out of range");
        // Release: pairs with `cut`'s load; who sees it sees the commit's versions.
        self.pending.store((slot as u64) << PENDING_SLOT_SHIFT | n & PENDING_NUMBER, Release);
    }

    /// Last step of a commit over several rows, after `mark`. Row lock held.
    pub fn clear_pending(&self) {
        // Release: who sees the 0 and goes on to `applied` sees the mark.
        self.pending.store(0, Release);
    }

    /// Up to which commit the row may be shown now. `flag_of` loads the flag word of a commit slot, `durable` loads D, both with Acquire.
    ///
    /// The order is the rule: `pending` before `applied` (else a commit over two rows that moves from one to the other in between is
    /// missed), `applied` before `stable` (else the commit below a waiting one is missed), D last.
    pub fn cut(&self, flag_of: impl Fn(usize) -> u64, durable: impl Fn() -> u64) -> Cut {
        let early = if flaw::off(Flaw::AppliedFirst) { Some(self.applied.load(Acquire)) } else { None };
        let early_stable = if flaw::off(Flaw::StableFirst) { Some(self.stable.load(Acquire)) } else { None };
        // Acquire, all three: pair with the owner's Release stores; what the commits wrote is then visible.
        let p = self.pending.load(Acquire);
        if p != 0 {
            let flag = flag_of((p >> PENDING_SLOT_SHIFT) as usize);
            let n = number(flag);
            // Flag words are used again by later commits of the slot; the number tells whose this is.
            let ours = n & PENDING_NUMBER == p & PENDING_NUMBER || flaw::off(Flaw::FlagNumber);
            if ours && flag != 0 && (!is_fsync(flag) || n <= durable()) {
                return Cut { seq: n, complete: true, applied: n };
            }
        }
        let a = early.unwrap_or_else(|| self.applied.load(Acquire));
        let s = early_stable.unwrap_or_else(|| self.stable.load(Acquire));
        let n = number(a);
        if !is_fsync(a) {
            return Cut { seq: n, complete: true, applied: n };
        }
        let d = durable();
        if n <= d { Cut { seq: n, complete: true, applied: n } } else { Cut { seq: s.max(d), complete: false, applied: n } }
    }

    /// The same as `cut` for the owner of the row lock, who has no commit in flight: nothing moves but D, given as `durable`.
    pub(super) fn cut_owned(&self, durable: u64) -> u64 {
        // Relaxed, both: only the lock's owner writes them.
        let a = self.applied.load(Relaxed);
        if !is_fsync(a) || number(a) <= durable { number(a) } else { self.stable.load(Relaxed).max(durable) }
    }

    /// Orders the second `cut` of a read behind everything it has read: call it between the two.
    pub fn order_second_cut() {
        // Acquire: a version missed because it was overwritten was overwritten by a commit that had seen a newer cut; who saw the
        // overwriting then sees that cut.
        fence(Acquire);
    }

    /// True if a delete marker of one of its families was ever pushed: read them with `RowRef::over` or `collect_markers`.
    pub fn has_markers(&self) -> bool {
        self.markers.has_marker()
    }
}

const fn number(word: u64) -> u64 {
    word >> 1
}

const fn is_fsync(word: u64) -> bool {
    word & 1 == 1
}

const PENDING_SLOT_SHIFT: u32 = 48;
const PENDING_NUMBER: u64 = (1 << PENDING_SLOT_SHIFT) - 1;
/// Largest index of a commit slot that `pending` can name.
pub const PENDING_SLOT_MAX: usize = 0xffff;

#[cfg(all(test, not(loom)))]
mod tests;
