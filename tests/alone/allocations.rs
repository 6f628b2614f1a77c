//! P-M2: in steady state no call of the hot path allocates or frees, in any of eight threads. Chunks are mapped, not allocated.
#![allow(unsafe_code)]

use crate::short::*;
use crate::{alone, fast_dir, setting};
use region::mslab::{ChunkPool, PoolOptions};
use region::options::{Durability, FamilySpec, OpenFlags, ReadOptions, RegionOptions, WriteOptions};
use region::region::{CommitInfo, Increment, Increments, Key, Pinned, Region, ValueSink};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

/// The system's allocator, counting per thread: the threads of the log may do what they like.
struct Counting;

thread_local! {
    static COUNTS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

fn count(allocations: u64, frees: u64) {
    // A thread that is being torn down counts no more.
    let _ = COUNTS.try_with(|c| c.set((c.get().0 + allocations, c.get().1 + frees)));
}

// SAFETY: every call goes on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, 0);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, 1);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, 1);
        // SAFETY: the caller's contract.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const THREADS: usize = 8;
const ROWS: usize = 100;

/// A buffer of the caller's.
struct Buffer {
    bytes: [u8; 64],
    len: usize,
}
impl ValueSink for Buffer {
    fn fits(&mut self, len: usize) -> Option<&mut [u8]> {
        self.len = len;
        self.bytes.get_mut(..len)
    }
    fn pin(&mut self, _: Box<dyn Pinned>) {
        panic!("it fits");
    }
}

/// A hundred counters of a thread.
struct Packed<'a>(&'a [Vec<u8>]);
impl Increments for Packed<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Increment<'_> {
        Increment { family: CF, row: &self.0[i], qual: b"n", delta: 1 }
    }
}

struct Hand {
    region: Region,
    rows: Vec<Vec<u8>>,
    at: usize,
    options: WriteOptions,
    buffer: Buffer,
}

impl Hand {
    fn row(&mut self) -> usize {
        self.at = (self.at + 1) % ROWS;
        self.at
    }
    fn increment(&mut self) {
        let i = self.row();
        self.region.increment(&self.rows[i], CF, b"n", 1, &self.options, &mut CommitInfo::default()).unwrap();
    }
    /// One that all threads want.
    fn increment_shared(&mut self) {
        self.region.increment(b"shared", CF, b"n", 1, &self.options, &mut CommitInfo::default()).unwrap();
    }
    fn packed(&mut self) {
        let mut sum = 0;
        self.region.increment_many(&Packed(&self.rows), &self.options, &mut CommitInfo::default(), &mut |_, r| sum += r.value).unwrap();
        assert!(sum > 0);
    }
    fn put(&mut self) {
        let i = self.row();
        self.region.put(&self.rows[i], CF, b"v", b"a small value", &self.options, &mut CommitInfo::default()).unwrap();
    }
    fn get(&mut self) {
        let i = self.row();
        let key = Key { family: CF, row: &self.rows[i], qual: b"v" };
        self.region.get(None, &ReadOptions::DEFAULT, key, &mut self.buffer).unwrap().unwrap();
        assert_eq!(self.buffer.len, 13);
    }
    fn counter_get(&mut self) {
        let i = self.row();
        let key = Key { family: CF, row: &self.rows[i], qual: b"n" };
        self.region.counter_get(None, &ReadOptions::DEFAULT, key).unwrap().unwrap();
    }
}

type Verb = (&'static str, fn(&mut Hand), u64, Durability);

fn steady_state(config: &str) {
    let _alone = alone();
    let calls = setting("ALLOC_CALLS", 200_000);
    let verbs: [Verb; 8] = [
        ("increment", Hand::increment, calls, Durability::SyncWal),
        ("increment, FSYNC", Hand::increment, calls / 10, Durability::FsyncWal),
        ("increment of one counter", Hand::increment_shared, calls, Durability::SyncWal),
        ("packed increments", Hand::packed, calls / 40, Durability::SyncWal),
        ("packed increments, FSYNC", Hand::packed, calls / 100, Durability::FsyncWal),
        ("put", Hand::put, calls, Durability::SyncWal),
        ("get", Hand::get, calls, Durability::SyncWal),
        ("counter_get", Hand::counter_get, calls, Durability::SyncWal),
    ];
    let dir = fast_dir();
    let options = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        config: config.into(),
        ..RegionOptions::default()
    };
    // Memory that exists: what mapping a new chunk costs is paid once per chunk, by whoever fills the pool.
    let pool = ChunkPool::new(PoolOptions { max_bytes: 1 << 30, preallocate_bytes: 128 << 20, ..PoolOptions::default() }).unwrap();
    let region = Region::open(&dir.path().join("r"), options, Some(pool), None).unwrap();
    let barrier = Barrier::new(THREADS);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let (region, barrier, verbs, found) = (&region, &barrier, &verbs, &found);
            s.spawn(move || {
                let rows: Vec<_> = (0..ROWS).map(|i| format!("thread{t}row{i:03}").into_bytes()).collect();
                let mut hand =
                    Hand { region: region.clone(), rows, at: 0, options: WriteOptions::DEFAULT, buffer: Buffer { bytes: [0; 64], len: 0 } };
                // The locks' library keeps a table for all threads that ever had to sleep on a lock; it grows when a new one does so for the first time.
                let (lock, sleep) = (parking_lot::Mutex::new(()), parking_lot::Condvar::new());
                sleep.wait_for(&mut lock.lock(), Duration::from_micros(1));
                for (_, verb, _, level) in verbs {
                    hand.options = at(*level);
                    // More than the rows there are, so that everything is there; and all threads wait on each other once.
                    (0..300).for_each(|_| verb(&mut hand));
                }
                for (name, verb, calls, level) in verbs {
                    hand.options = at(*level);
                    barrier.wait();
                    let before = COUNTS.get();
                    for _ in 0..calls / THREADS as u64 {
                        verb(&mut hand);
                    }
                    let after = COUNTS.get();
                    let counted = (after.0 - before.0, after.1 - before.1);
                    if counted != (0, 0) {
                        // Not a panic, which would leave the others at the barrier.
                        let said = format!("{name}, thread {t}: {counted:?} allocations and frees in {} calls", calls / THREADS as u64);
                        found.lock().unwrap().push(said);
                    }
                }
            });
        }
    });
    close(&region);
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn p_m2_no_allocation_per_call() {
    steady_state("wal_segment_bytes=8m,sync_interval_ms=50");
}

#[test]
fn p_m2_no_allocation_per_call_over_the_written_log() {
    steady_state("wal_io=write,wal_segment_bytes=8m,sync_interval_ms=50");
}

#[test]
fn the_counting_works() {
    let before = COUNTS.get();
    drop(std::hint::black_box(vec![1u8; 100]));
    let after = COUNTS.get();
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));
}
