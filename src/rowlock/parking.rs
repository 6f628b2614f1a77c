//! Sleep and wake by address, over parking_lot_core. UNSAFE ROOM: the keys must be addresses that nobody else parks on.
//!
//! Callbacks run under the queue's lock: `validate` right before the sleep, `timed_out` when the deadline took the thread out of the queue,
//! `decide` before the woken thread runs. They do a few atomic accesses and never panic, park or unpark. The queue is first in, first out.
//! `fair` comes up about every half millisecond per queue (parking_lot_core's own timer). `parking_loom.rs` has the same face.

use parking_lot_core::{DEFAULT_PARK_TOKEN, ParkResult, UnparkToken};
use std::time::{Duration, Instant};

/// Why a thread runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parked {
    /// Did not sleep: `validate` said no.
    Invalid,
    /// The deadline passed first.
    TimedOut,
    /// Try again.
    Woken,
    /// The lock was handed over: it is the caller's.
    HandedOver,
    /// The table closed.
    Closed,
}

/// What the unlocker does with the thread it takes from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    Woken = 0,
    HandedOver = 1,
    Closed = 2,
}

/// What `unpark_one` found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// There is a thread, and it will run.
    pub(super) someone: bool,
    /// There are more behind it.
    pub(super) more: bool,
    /// It is time to be fair.
    pub(super) fair: bool,
}

/// The queues. parking_lot_core's are global; this stands for them.
#[derive(Debug)]
pub(super) struct Lot;

impl Lot {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn park(
        &self,
        key: usize,
        until: Option<Instant>,
        validate: impl FnOnce() -> bool,
        timed_out: impl FnOnce(/* last in the queue */ bool),
    ) -> Parked {
        // SAFETY: the key is the address of an entry of the table, which the caller borrows for the whole sleep and on which no other lock
        // parks. The callbacks neither panic nor call into parking_lot (module header).
        let result = unsafe { parking_lot_core::park(key, validate, || {}, |_, last| timed_out(last), DEFAULT_PARK_TOKEN, until) };
        match result {
            ParkResult::Invalid => Parked::Invalid,
            ParkResult::TimedOut => Parked::TimedOut,
            ParkResult::Unparked(UnparkToken(n)) if n == Wake::HandedOver as usize => Parked::HandedOver,
            ParkResult::Unparked(UnparkToken(n)) if n == Wake::Closed as usize => Parked::Closed,
            ParkResult::Unparked(_) => Parked::Woken,
        }
    }

    pub(super) fn unpark_one(&self, key: usize, decide: impl FnOnce(Found) -> Wake) {
        let decide = |r: parking_lot_core::UnparkResult| {
            let found = Found { someone: r.unparked_threads != 0, more: r.have_more_threads, fair: r.be_fair };
            UnparkToken(decide(found) as usize)
        };
        // SAFETY: as in `park`.
        unsafe { parking_lot_core::unpark_one(key, decide) };
    }

    pub(super) fn unpark_all(&self, key: usize, wake: Wake) {
        // SAFETY: as in `park`; there is no callback.
        unsafe { parking_lot_core::unpark_all(key, UnparkToken(wake as usize)) };
    }
}

/// Sleeps for a while that is short beside a time slice: for a latch whose owner lost its core.
#[cold]
pub(super) fn nap() {
    std::thread::sleep(Duration::from_micros(50));
}

/// Pauses before a waiter sleeps, in doubling rounds: about a microsecond where a pause takes 140 cycles, less elsewhere.
pub(super) const SPIN_ROUNDS: u32 = 4;
