//! Rules that a loom model switches off to see that it would notice. Outside loom every question here is a constant `false`.
//!
//! Loom's threads are coroutines of the thread that runs the model, so a thread-local reaches all of them and no other test.
#![forbid(unsafe_code)]

/// One rule each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(loom), expect(dead_code, reason = "only models switch rules off"))]
pub enum Flaw {
    None,
    /// The cursor is stored, not exchanged.
    BumpByStore,
    /// Who gets the refill lock does not look whether another thread has refilled.
    RefillBlindly,
    /// The limit is looked at before the lock is taken.
    LimitOutsideLock,
    /// A chunk comes back to the pool, and its user goes on using it.
    ReturnEarly,
    /// Waiters are woken without taking their lock.
    OpenOutsideLock,
}

#[cfg(not(loom))]
#[inline(always)]
pub const fn is(_: Flaw) -> bool {
    false
}

#[cfg(loom)]
std::thread_local! {
    static FLAW: std::cell::Cell<Flaw> = const { std::cell::Cell::new(Flaw::None) };
}
#[cfg(loom)]
pub fn is(flaw: Flaw) -> bool {
    FLAW.with(|f| f.get() == flaw)
}
/// For the model that this thread runs next.
#[cfg(all(loom, test))]
pub fn set(flaw: Flaw) {
    FLAW.with(|f| f.set(flaw));
}
