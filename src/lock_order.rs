//! The order of the locks, checked per thread in debug builds; nothing in release builds.
//!
//! Every lock has a [`Level`]. A thread may take a lock only while it holds none of that level or a higher one, so no two threads can wait
//! for each other. Take the guard **before** the lock (the check must come before the wait) and keep it as long as the lock is held.
//! Guards may go in any order. A `try_lock` cannot deadlock, but enters too: what it holds counts for what is taken after it.
//!
//! Not active under loom: its threads share one thread of the operating system, hence one thread-local.

#![forbid(unsafe_code)]

use std::marker::PhantomData;

/// Levels, lower first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Read-modify-replace of the manifest.
    Manifest = 0,
    /// Open, closing, closed.
    Lifecycle = 1,
    /// Row locks; among themselves by ascending hash, in one token.
    Rows = 2,
    /// Waiting for the clock.
    TickWait = 3,
    /// The one lock under which the log is synced.
    LogIo = 4,
    /// Registry of read points.
    SnapshotRegistry = 5,
    /// Append to the log: a copy, no call.
    LogAppend = 6,
    /// Chunk pool, caches, nonce shards, index latches: nothing is taken under them.
    Leaf = 7,
}

/// Says that a lock of this level is held. Stays on its thread.
#[must_use = "the level counts as held as long as the guard lives"]
#[derive(Debug)]
pub struct LevelGuard {
    #[cfg(all(debug_assertions, not(loom)))]
    level: Option<Level>,
    not_send: PhantomData<*const ()>,
}

/// About to take a lock of this level. Debug builds panic if the thread holds one of the same or a higher level.
#[inline]
pub fn enter(level: Level, name: &'static str) -> LevelGuard {
    #[cfg(all(debug_assertions, not(loom)))]
    return LevelGuard { level: active::enter(level, name), not_send: PhantomData };
    #[cfg(not(all(debug_assertions, not(loom))))]
    {
        let _ = (level, name);
        LevelGuard { not_send: PhantomData }
    }
}

/// About to wait for something that may take long (durability, memory, log space). Debug builds panic if the thread holds a lock of
/// `level` or higher.
#[inline]
pub fn assert_free_from(level: Level, what: &'static str) {
    #[cfg(all(debug_assertions, not(loom)))]
    active::assert_free_from(level, what);
    #[cfg(not(all(debug_assertions, not(loom))))]
    let _ = (level, what);
}

#[cfg(all(debug_assertions, not(loom)))]
impl Drop for LevelGuard {
    fn drop(&mut self) {
        active::leave(self.level);
    }
}

#[cfg(all(debug_assertions, not(loom)))]
mod active {
    use super::Level;
    use std::cell::Cell;

    const LEVELS: usize = 8;

    thread_local! {
        // How many of each level this thread holds, and the name of the last one.
        static HELD: Cell<[(u16, &'static str); LEVELS]> = const { Cell::new([(0, ""); LEVELS]) };
        static OFF: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn enter(level: Level, name: &'static str) -> Option<Level> {
        assert_free_from(level, name);
        let mut held = HELD.get();
        let one = &mut held[level as usize];
        *one = (one.0 + 1, name);
        HELD.set(held);
        Some(level)
    }

    pub(super) fn assert_free_from(level: Level, what: &'static str) {
        // A second panic while a thread unwinds would end the process and hide the first.
        if OFF.get() || std::thread::panicking() {
            return;
        }
        let held = HELD.get();
        for (n, (count, name)) in held.iter().enumerate().skip(level as usize) {
            assert!(*count == 0, "lock order: {what} (level {}) wanted while {name} (level {n}) is held", level as u8);
        }
    }

    pub(super) fn leave(level: Option<Level>) {
        if let Some(level) = level {
            let mut held = HELD.get();
            held[level as usize].0 -= 1;
            HELD.set(held);
        }
    }

    /// For tests of what a violation does in a release build.
    #[cfg(test)]
    pub(crate) fn switch_off(off: bool) {
        OFF.set(off);
    }
}

#[cfg(all(test, debug_assertions, not(loom)))]
pub(crate) use active::switch_off;

#[cfg(all(test, debug_assertions, not(loom)))]
mod tests;
