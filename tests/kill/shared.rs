//! The page of memory that driver and child share: a mapped file, which outlives the child's death.
//!
//! Each thread of the child has a list of entries. It writes down what it is going to do, calls, and writes down the answer; so what the driver finds after the kill
//! is at most one call per thread behind. Layout in 8-byte words: [`PHASE`], then per thread [`ENTRIES`] pairs (attempt, answer).

use region::env::os::OsEnv;
use region::env::{Env, Mapping};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most threads of a child.
pub const THREADS: usize = 100;
/// Entries of each.
pub const ENTRIES: usize = 2048;
/// The word that says how far the child is.
const PHASE: usize = 0;
const FIRST: usize = 8;
const BYTES: usize = 8 * (FIRST + THREADS * ENTRIES * 2);

/// How far the child is.
pub mod phase {
    /// In `main`.
    pub const STARTING: u64 = 0;
    /// In `Region::open`.
    pub const OPENING: u64 = 1;
    /// Its threads run.
    pub const RUNNING: u64 = 2;
    /// One thread stands in the middle of an append, or the open stands at a call: kill now.
    pub const PARKED: u64 = 3;
    /// Something went wrong; it is on standard error.
    pub const FAILED: u64 = 4;
}

/// One thing that a thread wants to do to a counter, and the answer (0: none came).
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Which counter, or which group of counters behind them.
    pub counter: usize,
    /// How much is added.
    pub delta: u64,
    /// The value answered.
    pub answer: u64,
    /// Whose it is, and its place in the thread's list.
    pub thread: usize,
    pub index: usize,
}

/// The answer of a batch whose counters were not equal.
pub const UNEQUAL: u64 = u64::MAX;

/// The shared memory.
pub struct Shared {
    map: Box<dyn Mapping>,
}

impl Shared {
    /// Opens the file, made if it is missing.
    pub fn open(path: &Path) -> Self {
        let file = match OsEnv.create(path) {
            Ok(file) => {
                file.set_len(BYTES as u64).unwrap();
                file
            }
            Err(_) => OsEnv.open(path, true).unwrap(),
        };
        Self { map: file.map(BYTES).unwrap() }
    }
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(8 * index + 8 <= self.map.len());
        // SAFETY: within the mapping, which is page-aligned; the words are only ever used as atomics, by both processes.
        let at = unsafe { self.map.base().as_ptr().add(8 * index) }.cast::<u64>();
        // SAFETY: as above; the mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(at) }
    }
    // Release and Acquire throughout: who sees an answer also sees what was attempted before it.
    /// How far the child is.
    pub fn phase(&self) -> u64 {
        self.word(PHASE).load(Ordering::Acquire)
    }
    /// The child is so far.
    pub fn set_phase(&self, phase: u64) {
        self.word(PHASE).store(phase, Ordering::Release);
    }
    /// The thread is going to do this as its `i`-th.
    pub fn attempt(&self, thread: usize, i: usize, counter: usize, delta: u64) {
        self.word(FIRST + 2 * (thread * ENTRIES + i)).store(1 << 63 | (counter as u64) << 16 | delta, Ordering::Release);
    }
    /// It got this answer.
    pub fn answer(&self, thread: usize, i: usize, value: u64) {
        self.word(FIRST + 2 * (thread * ENTRIES + i) + 1).store(value, Ordering::Release);
    }
    /// All entries of all threads; they are empty afterwards.
    pub fn take(&self) -> Vec<Entry> {
        let mut all = Vec::new();
        for thread in 0..THREADS {
            for i in 0..ENTRIES {
                let at = FIRST + 2 * (thread * ENTRIES + i);
                let attempt = self.word(at).swap(0, Ordering::AcqRel);
                let answer = self.word(at + 1).swap(0, Ordering::AcqRel);
                if attempt == 0 {
                    break;
                }
                all.push(Entry { counter: (attempt >> 16 & 0xffff) as usize, delta: attempt & 0xffff, answer, thread, index: i });
            }
        }
        all
    }
}
