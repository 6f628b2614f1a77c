//! Who waits for a sync: the queue of parked threads, and a gathering with who keeps its time. Data and how to park; the rules are in `sync.rs`.

use super::pace::Goal;
use crate::clock::Timeout;
use crate::sync::thread;
#[cfg(not(loom))]
use std::time::Duration;
use std::time::Instant;

/// The parked threads.
pub(super) struct Queue {
    /// Who waits.
    pub(super) waiting: Vec<Waiter>,
    /// Durable, and to be woken.
    pub(super) done: Vec<thread::Thread>,
    /// Set while the next sync waits for callers, with the I/O lock free.
    pub(super) gathering: Option<Gathering>,
}

/// The next sync waits for callers.
pub(super) struct Gathering {
    pub(super) goal: Goal,
    /// A waiter sees to it that the gathering ends in time.
    pub(super) kept: bool,
}

/// A thread that waits until `number` is durable.
pub(super) struct Waiter {
    pub(super) number: u64,
    pub(super) thread: thread::Thread,
}

impl Gathering {
    /// All have arrived, or its time is up.
    pub(super) fn is_over(&self, arrived: u64) -> bool {
        // Under loom time passes in `park_for` only.
        arrived >= self.goal.arrival || (cfg!(not(loom)) && Instant::now() >= self.goal.until)
    }

    /// The first who waits for the gathering keeps its time. Who would lead, but finds the I/O lock held, does not: its holder looks into the queue, and finds nobody keeping.
    pub(super) fn keep(&mut self, lead: bool) -> Option<Goal> {
        let first = !self.kept && !lead;
        self.kept = !lead;
        first.then_some(self.goal)
    }
}

/// Parks; true if the time of the gathering is up.
#[cfg(not(loom))]
pub(super) fn park_for(timeout: &mut Timeout, keep: Option<Goal>) -> bool {
    // A cap, so that a lost wake-up (there is none; see the models) would cost a second and not the caller.
    let cap = keep.map_or(Duration::from_secs(1), |g| g.until.saturating_duration_since(Instant::now()));
    std::thread::park_timeout(timeout.left(cap));
    keep.is_some_and(|g| Instant::now() >= g.until)
}

/// In a model the time of a gathering is up as soon as it is waited for, unless the goal's `worth` says that it never is.
#[cfg(loom)]
pub(super) fn park_for(_timeout: &mut Timeout, keep: Option<Goal>) -> bool {
    if keep.is_some_and(|g| g.worth == 0) {
        thread::yield_now();
        return true;
    }
    thread::park();
    false
}
