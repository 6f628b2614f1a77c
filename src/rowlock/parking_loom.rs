//! `parking.rs` for loom: the same face over one mutex and a condition variable per sleeper.
//!
//! Time does not pass: a model calls [`Lot::expire`] from a thread of its own, which makes the deadlines of all sleepers pass that have one.
//! `fair` is what the model set.

#![forbid(unsafe_code)]

use crate::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering};
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parked {
    Invalid,
    TimedOut,
    Woken,
    HandedOver,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    Woken,
    HandedOver,
    Closed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) someone: bool,
    pub(super) more: bool,
    pub(super) fair: bool,
}

#[derive(Debug)]
struct Sleeper {
    key: usize,
    id: u64,
    has_deadline: bool,
    expired: bool,
    wake: Option<Wake>,
    condvar: Arc<Condvar>,
}

#[derive(Debug, Default)]
struct Queue {
    sleepers: Vec<Sleeper>,
    last_id: u64,
}

#[derive(Debug)]
pub(super) struct Lot {
    queue: Mutex<Queue>,
    fair: AtomicBool,
}

impl Lot {
    pub(super) fn new() -> Self {
        Self { queue: Mutex::new(Queue::default()), fair: AtomicBool::new(false) }
    }

    pub(super) fn set_fair(&self, fair: bool) {
        self.fair.store(fair, Ordering::Relaxed);
    }

    pub(super) fn park(&self, key: usize, until: Option<Instant>, validate: impl FnOnce() -> bool, timed_out: impl FnOnce(bool)) -> Parked {
        let mut queue = self.queue.lock();
        if !validate() {
            return Parked::Invalid;
        }
        let condvar = Arc::new(Condvar::new());
        queue.last_id += 1;
        let id = queue.last_id;
        queue.sleepers.push(Sleeper { key, id, has_deadline: until.is_some(), expired: false, wake: None, condvar: condvar.clone() });
        loop {
            let at = queue.sleepers.iter().position(|s| s.id == id).expect("only its own thread removes a sleeper");
            // As in parking_lot_core, who was taken from the queue before its deadline was noticed counts as woken.
            if let Some(wake) = queue.sleepers[at].wake {
                queue.sleepers.remove(at);
                return match wake {
                    Wake::Woken => Parked::Woken,
                    Wake::HandedOver => Parked::HandedOver,
                    Wake::Closed => Parked::Closed,
                };
            }
            if queue.sleepers[at].expired {
                queue.sleepers.remove(at);
                timed_out(!queue.sleepers.iter().any(|s| s.key == key && s.wake.is_none()));
                return Parked::TimedOut;
            }
            queue = condvar.wait_owned(queue);
        }
    }

    pub(super) fn unpark_one(&self, key: usize, decide: impl FnOnce(Found) -> Wake) {
        let mut queue = self.queue.lock();
        let mut waiting = queue.sleepers.iter_mut().filter(|s| s.key == key && s.wake.is_none());
        let first = waiting.next();
        let found = Found { someone: first.is_some(), more: waiting.next().is_some(), fair: self.fair.load(Ordering::Relaxed) };
        let id = queue.sleepers.iter().find(|s| s.key == key && s.wake.is_none()).map(|s| s.id);
        let wake = decide(found);
        if let Some(s) = queue.sleepers.iter_mut().find(|s| Some(s.id) == id) {
            s.wake = Some(wake);
            s.condvar.notify_one();
        }
    }

    pub(super) fn unpark_all(&self, key: usize, wake: Wake) {
        let mut queue = self.queue.lock();
        for s in queue.sleepers.iter_mut().filter(|s| s.key == key && s.wake.is_none()) {
            s.wake = Some(wake);
            s.condvar.notify_one();
        }
    }

    /// The deadlines of all who sleep now with one have passed.
    pub(super) fn expire(&self) {
        let mut queue = self.queue.lock();
        for s in queue.sleepers.iter_mut().filter(|s| s.has_deadline) {
            s.expired = true;
            s.condvar.notify_one();
        }
    }
}

pub(super) fn nap() {
    crate::sync::thread::yield_now();
}

pub(super) const SPIN_ROUNDS: u32 = 0;
