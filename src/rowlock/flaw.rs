//! What the loom models break on purpose. Outside loom no table has a flaw, and the questions for it compile to nothing.

#![forbid(unsafe_code)]

/// Rules that a loom model switches off, one at a time, to see that it would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    #[cfg(loom)]
    None,
    /// Unlock does not publish what the holder did.
    RelaxedUnlock,
    /// An entry that leaves does not fold its tick into the floor.
    ForgetTick,
    /// An entry given to another row keeps its version.
    NoVersion,
    /// `fsync_pending` is stored, not raised.
    LowerPending,
    /// A waiter sleeps without looking again.
    SleepBlindly,
    /// A woken waiter that sleeps again leaves WOKEN set.
    KeepWoken,
    /// A waiter whose deadline has passed does not look whether it was given the lock.
    ForgetHandOver,
    /// Several rows are taken in the caller's order.
    CallersOrder,
    /// Close looks for sleepers with a plain load.
    CloseByLoad,
}
