//! The words of a bucket and of a row's entry in it. Data only.
//!
//! *Bucket word*: everything that more than one thread may change at a time, so that one compare-and-swap decides.
//!
//! | bits | field | set | cleared |
//! |---|---|---|---|
//! | 0 | LATCH | by who puts a row into the bucket or works on its overflow list | by the same |
//! | 4 – 15, 16 – 27 | lane 0, lane 1: state of the inline entry | below | below |
//! | 28 – 63 | version | + 1 whenever an inline entry gets another row | never |
//!
//! *Lane* (12 bits; the upper nine are kept for a count of shared holders):
//!
//! | HELD | PARKED | WOKEN | meaning |
//! |---|---|---|---|
//! | 0 | 0 | 0 | free; the entry may be given to another row |
//! | 1 | 0 | 0 | held, nobody sleeps |
//! | 1 | 1 | 0 | held, somebody may sleep on it: the holder wakes or hands over at unlock |
//! | any | any | 1 | one waiter was woken and has not come yet: unlock wakes no other |
//! | 0 | 1 | 1 | free, others sleep, the woken one will see to them |
//! | 0 | 1 | 0 | never: who clears HELD wakes one and sets WOKEN, or finds the queue empty and clears PARKED |
//!
//! PARKED changes from 1 to 0 only under the queue's lock. With LATCH set by another thread a lane only loses bits or gains PARKED while
//! HELD; it is never claimed, so what the latch's owner sees free stays free. The version makes the compare-and-swap of a claim fail when
//! the entry was given to another row after the claimer had compared its hash.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64};

/// Rows that a bucket holds inline.
pub(super) const LANES: u32 = 2;

pub(super) const LATCH: u64 = 1;
pub(super) const VERSION_ONE: u64 = 1 << 28;

const HELD: u64 = 1;
const PARKED: u64 = 2;
const WOKEN: u64 = 4;
const LANE_BITS: u32 = 12;
const LANE_FIRST: u32 = 4;

/// The bits of one lane, at their place in the word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane(u32);

impl Lane {
    pub(super) const fn new(lane: u32) -> Self {
        Self(LANE_FIRST + lane * LANE_BITS)
    }
    pub(super) const fn held(self) -> u64 {
        HELD << self.0
    }
    pub(super) const fn parked(self) -> u64 {
        PARKED << self.0
    }
    pub(super) const fn woken(self) -> u64 {
        WOKEN << self.0
    }
    /// Neither held nor waited for nor owed to a woken waiter.
    pub(super) const fn is_free(self, word: u64) -> bool {
        word & (((1 << LANE_BITS) - 1) << self.0) == 0
    }
}

/// A row in the table.
#[derive(Debug)]
pub(super) struct Entry {
    /// Written under the latch while the lane is free.
    pub(super) hash: AtomicU64,
    /// The row's last tick. Written by the holder; by the latch's owner while the lane is free.
    pub(super) tick: AtomicU64,
}

/// One cache line. Buckets are taken from the hash's upper bits, so a multi-row acquisition walks the table upwards.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    pub(super) word: AtomicU64,
    /// Largest tick of any row that left the table here; where a row starts that enters. Under the latch.
    pub(super) floor: AtomicU64,
    /// Highest commit of a row of this bucket that waits (or waited) for a sync. Raised by holders.
    pub(super) fsync_pending: AtomicU64,
    /// 1 + number of the first overflow node, 0 none. Under the latch.
    pub(super) overflow: AtomicU32,
    pub(super) entries: [Entry; LANES as usize],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// A bucket with two rows that never committed. Should they belong here and come, they are right; they must only differ.
    pub(super) fn new() -> Self {
        let entry = |hash| Entry { hash: AtomicU64::new(hash), tick: AtomicU64::new(0) };
        Self {
            word: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            fsync_pending: AtomicU64::new(0),
            overflow: AtomicU32::new(0),
            entries: [entry(0), entry(1)],
        }
    }
}

/// Where a held row's lock is, without a lifetime, so that a scratch list of them outlives its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) bucket: u32,
    /// A lane, or LANES + number of an overflow node.
    pub(super) at: u32,
}

/// A [`Held`], resolved.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    pub(super) bucket: &'t Bucket,
    pub(super) word: &'t AtomicU64,
    pub(super) lane: Lane,
    pub(super) entry: &'t Entry,
}

impl Place<'_> {
    /// Waiters of this row sleep under this key: the entry's address, which nothing else parks on.
    pub(super) fn key(&self) -> usize {
        std::ptr::from_ref(self.entry).addr()
    }
}
