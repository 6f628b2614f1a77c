//! Rules that a loom model switches off to see that it would notice. Outside loom every question here is a constant `false`.
//!
//! Loom's threads are coroutines of the thread that runs the model, so a thread-local reaches all of them and no other test.

/// One rule each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(loom), expect(dead_code, reason = "only models switch rules off"))]
pub enum Flaw {
    None,
    /// A child's version counts although the parent may have changed before it was read.
    ParentUnchecked,
    /// A split leaves the leaf's version as it was.
    SplitKeepsVersion,
    /// The root grows and keeps its version.
    GrowKeepsVersion,
    /// A reader's second look at the version may come before its first reads.
    NoReaderFence,
    /// A writer's stores may come before its odd version.
    NoWriterFence,
    /// A writer takes the latch whatever the version is.
    LatchAnyVersion,
    /// A split that lost the leaf to another thread keeps the parent latched.
    ParentLeftLatched,
    /// A scan believes a copy that was torn.
    CopyUnchecked,
    /// References are loaded Relaxed: a column may be found before its bytes.
    RelaxedReference,
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
