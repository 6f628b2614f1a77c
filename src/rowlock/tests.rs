#![forbid(unsafe_code)]

use super::{LockError, LockScratch, NotLocked, RowLockTable};
use crate::clock::Timeout;
use crate::ids::{RowHash, Tick};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

/// Hash number `n` that falls into bucket `bucket` of a table with `log2` > 0.
fn in_bucket(log2: u32, bucket: u64, n: u64) -> RowHash {
    RowHash((bucket << (64 - log2)) | n)
}

fn no_wait() -> Timeout {
    Timeout::no_wait()
}

fn forever() -> Timeout {
    Timeout::forever()
}

fn free(table: &RowLockTable, hash: RowHash) -> bool {
    table.try_lock(hash).is_some()
}

/// Waits until so many threads wait now, and so many sleeps were begun since the table was made: so tests need no sleeps of their own.
fn until_asleep(table: &RowLockTable, waiting: u64, sleeps: u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while table.stats().waiting_now < waiting || table.stats().sleeps < sleeps {
        assert!(Instant::now() < deadline, "nobody came to wait: {:?}", table.stats());
        thread::yield_now();
    }
}

/// The same for a table on which nobody has slept yet.
fn until_waiting(table: &RowLockTable, n: u64) {
    until_asleep(table, n, n);
}

/// Asserts that the table is as if nobody had ever been there: nothing held, nobody waiting, all overflow nodes given back.
fn assert_idle(table: &RowLockTable) {
    let s = table.stats();
    assert_eq!((s.held_now, s.waiting_now), (0, 0));
    assert_eq!(table.nodes.in_use(), 0, "overflow nodes stayed behind");
    for b in &table.buckets {
        assert_eq!(b.overflow.load(Ordering::Relaxed), 0);
        // Latch and both lanes are clear: only the version is left.
        assert_eq!(b.word.load(Ordering::Relaxed) % super::bucket::VERSION_ONE, 0);
    }
}

/// A small generator, so that a failure can be repeated from its printed seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
}

mod basics;
mod crowds;
mod waits;
