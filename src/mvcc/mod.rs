//! Who is in flight, what may be freed, and which read points are held.
//!
//! | part | what it is |
//! |---|---|
//! | `slots.rs` | `CommitSlots`: one padded word per running commit or read, count << 2 \| phase |
//! | `busy.rs` | `Busy`: since when slots have been seen busy, for who wonders what hangs |
//! | `grace.rs` | the two waits over them: for commits that have begun, and for a grace period |
//! | `published.rs` | `Published<T>`: a pointer to an immutable value that readers load under their slot, freed after a grace period |
//! | `points.rs` | `ReadPoints`: the registry of read points, the largest of them on a line of its own |
//! | `shown.rs` | the same points, for writers: read without the registry's lock |
//!
//! Must not: know cells, rows or the log; numbers come in as arguments. The rules are those of `docs/commit-path.md` P2, P7.1-6 and P11.3.
//!
//! Threads: everything here is shared by all of them. The slots, the published pointer and the points that writers see are atomics; the registry
//! is a lock of level 5, for those who open and close read points, held while the append lock (level 6) is taken.
//!
//! Invariants
//! - M1 A slot is busy from before its owner loads a published pointer until after its last use of what it loaded.
//! - M2 A slot is in phase 1 from the moment its commit's number is given, under the append lock, until its rows are marked.
//! - M3 What a `Published` pointed to is freed only after every slot seen busy after the swap has been free once.
//! - M4 A read point is announced under the append lock that its number is read under: a decision that does not see it was made before any
//!   commit with a larger number.

mod busy;
mod grace;
mod points;
mod published;
mod shown;
mod slots;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

pub use busy::{Busy, BusyAges};
pub use points::{OldestPoint, Opened, PointsView, ReadPoints, RestartedRead};
pub use published::{Published, Retired};
pub use slots::{CommitSlots, SlotGuard};

/// loom treats SeqCst accesses as AcqRel, so its models need the fence that the real orderings imply.
#[cfg(loom)]
pub(crate) fn full_fence() {
    if !flaw::is(flaw::Flaw::NoFence) {
        crate::sync::fence(crate::sync::Ordering::SeqCst);
    }
}

/// Rules that a loom model may switch off, to see that it notices.
#[cfg(loom)]
pub(crate) mod flaw {
    /// What is switched off.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[allow(dead_code, reason = "constructed by the models only")]
    pub(crate) enum Flaw {
        None,
        /// No full fence between claim and load, and between swap and scan.
        NoFence,
        /// A look at the points is believed although they changed meanwhile.
        BelieveFirstLook,
        /// The points are changed in the page that counts.
        OnePage,
        /// That a changed page counts is told by a relaxed store.
        TurnRelaxed,
        /// The snapshot does not wait for commits that have begun.
        NoWait,
    }
    std::thread_local! {
        // loom runs all threads of a model on one OS thread, so this reaches every one of them and no other test.
        static FLAW: std::cell::Cell<Flaw> = const { std::cell::Cell::new(Flaw::None) };
    }
    #[allow(dead_code, reason = "called by the models only")]
    pub(crate) fn set(f: Flaw) {
        FLAW.with(|c| c.set(f));
    }
    pub(crate) fn is(f: Flaw) -> bool {
        FLAW.with(|c| c.get() == f)
    }
}
