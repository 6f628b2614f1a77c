//! Rules that a loom model switches off to see that it would notice. Outside loom every question here is a constant `false`.
//!
//! A model sets one flaw for its own run; loom's threads are coroutines of the thread that runs the model, so a thread-local reaches all of
//! them and no other test.

use crate::sync::Ordering;

/// One rule each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The newest version is overwritten, not the older one.
    OverwriteNewest,
    /// No release fence between a slot's zeroed number and its new content.
    SlotFence,
    /// The store that makes a slot invalid is relaxed.
    SlotZero,
    /// A slot is rewritten before its version is copied to the list.
    CopyAfter,
    /// No acquire fence after a slot was found rewritten.
    SlotMissFence,
    /// The same two for a list cell that is overwritten.
    CellFence,
    CellZero,
    /// `cut` loads `applied` before `pending`.
    AppliedFirst,
    /// `cut` loads `stable` before `applied`.
    StableFirst,
    /// `mark` leaves `stable` alone.
    StableKept,
    /// A flag word is believed whatever number it carries.
    FlagNumber,
    /// A slot is reused in place although the newest version still waits for its sync.
    ReuseUnderWaiting,
    /// A slot is reused in place although a read point may need it.
    ReuseUnderPoint,
    /// A list cell is overwritten although a point needs it, a restarted read is registered, or it is the best complete one.
    DeadUnderPoint,
    DeadUnderRestarted,
    DeadBest,
    /// A list cell is overwritten where a reader above a final marker does not come.
    DeadBehindFinal,
    /// The list is not marked as out of order before a cell in its middle is overwritten.
    OrderTag,
}

/// True while a model has switched this rule off.
#[cfg(not(loom))]
#[inline(always)]
pub(super) const fn off(_: Flaw) -> bool {
    false
}

/// `order`, or Relaxed while a model has switched this rule off.
#[inline(always)]
pub(super) fn unless(flaw: Flaw, order: Ordering) -> Ordering {
    if off(flaw) { Ordering::Relaxed } else { order }
}

#[cfg(loom)]
pub(super) use models::{off, with};

#[cfg(loom)]
mod models {
    use super::Flaw;
    use std::cell::Cell;

    std::thread_local! {
        static OFF: Cell<Option<Flaw>> = const { Cell::new(None) };
    }

    pub(crate) fn off(flaw: Flaw) -> bool {
        OFF.with(|f| f.get() == Some(flaw))
    }

    /// Runs `f` with one rule switched off.
    pub(crate) fn with(flaw: Option<Flaw>, f: impl FnOnce()) {
        OFF.with(|o| o.set(flaw));
        f();
        OFF.with(|o| o.set(None));
    }
}
