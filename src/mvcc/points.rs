//! The registry of read points: which numbers a snapshot or scanner still reads at.
//!
//! Must not: know how a snapshot waits (that is `wait_for_begun_commits`, and the log), or allocate under its lock.
//!
//! Threads: one lock (level 5), held over the append lock while a number is taken. `latest_point` is on a line of its own, since every
//! in-place overwrite of a counter reads it.
//!
//! | `latest_point` | means |
//! |---|---|
//! | 0 | no point is held |
//! | n | the largest point held |
//! | MAX | a point is being taken, or a restarted read is registered: overwrite nothing |
//!
//! Invariants
//! - R1 `latest_point` is MAX from before a number is taken until the number is in the list. A writer that got its own number after the
//!   snapshot's therefore finds MAX or the point; one that got it before is at or below the point and is waited for.
//! - R2 Points are taken in growing order (number now, under the lock), so the list is sorted and new ones come at its end.

use crate::clock;
use crate::ids::ReadPoint;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crossbeam_utils::CachePadded;

/// The registry of one region.
pub struct ReadPoints {
    /// Level 5.
    registry: Mutex<Registry>,
    latest_point: CachePadded<AtomicU64>,
}

/// Points that are held; a point held several times is there once. The three lists run in parallel, so that the points are one slice.
#[derive(Default)]
struct Registry {
    points: Vec<u64>,
    holders: Vec<u32>,
    opened: Vec<u64>,
    /// Restarted reads: gets that a busy row made start over too often.
    restarted: u32,
}

/// The oldest point held, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldestPoint {
    /// The point.
    pub point: ReadPoint,
    /// When it was first taken, in [`clock::monotonic_nanos`].
    pub opened_ns: u64,
}

/// While it lives nothing is overwritten: any number is held.
#[must_use = "dropped, it holds nothing"]
pub struct RestartedRead<'p>(&'p ReadPoints);

impl Default for ReadPoints {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadPoints {
    /// None held.
    pub fn new() -> Self {
        Self { registry: Mutex::new(Registry::with_capacity(64)), latest_point: CachePadded::new(AtomicU64::new(0)) }
    }

    /// Take a read point: `number_now` reads the last number under the append lock. The caller then waits for the commits that have begun.
    /// Should `number_now` panic, `latest_point` stays MAX until the next call here: too careful, never wrong.
    pub fn open(&self, number_now: impl FnOnce() -> u64) -> ReadPoint {
        let mut r = self.lock_with_room();
        #[cfg(loom)]
        if super::flaw::is(super::flaw::Flaw::AnnounceLate) {
            let n = number_now();
            r.add(n, 0);
            self.store_latest(&r);
            return ReadPoint(n);
        }
        // Release here and in `store_latest`: pairs with the Acquire in `latest`. What orders it before the number of every later commit is
        // the append lock, which `number_now` takes next.
        self.latest_point.store(u64::MAX, Ordering::Release);
        let n = number_now();
        r.add(n, clock::monotonic_nanos());
        self.store_latest(&r);
        ReadPoint(n)
    }

    /// Hold a read point that is held already once more: a scan on a snapshot outlives it.
    pub fn hold(&self, point: ReadPoint) {
        let mut r = self.registry.lock();
        match r.points.binary_search(&point.0) {
            Ok(i) => r.holders[i] += 1,
            Err(_) => debug_assert!(false, "read point {} is not held", point.0),
        }
    }

    /// Give a read point back.
    pub fn close(&self, point: ReadPoint) {
        let mut r = self.registry.lock();
        r.remove(point.0);
        self.store_latest(&r);
    }

    /// The largest point held; 0 none; MAX: treat every number as held.
    #[inline]
    pub fn latest(&self) -> u64 {
        // Acquire: pairs with `store_latest`. Who finds a point gone also finds everything its reader did before, and may overwrite.
        self.latest_point.load(Ordering::Acquire)
    }

    /// From now on until the guard is dropped nothing is overwritten. The caller reads the number now, under the append lock, afterwards.
    pub fn register_restarted(&self) -> RestartedRead<'_> {
        let mut r = self.registry.lock();
        r.restarted += 1;
        self.store_latest(&r);
        RestartedRead(self)
    }

    /// The sorted points, and whether a restarted read is registered, if nobody has the registry: a writer must not wait here.
    pub fn with_points_try<R>(&self, f: impl FnOnce(&[u64], bool) -> R) -> Option<R> {
        let r = self.registry.try_lock()?;
        Some(f(&r.points, r.restarted > 0))
    }

    /// What flush and compaction may drop is older than the newest version at or below this: the oldest point held, else the number now.
    pub fn drop_bound(&self, number_now: impl FnOnce() -> u64) -> u64 {
        let r = self.registry.lock();
        // Under the lock, so that no point below the answer can be taken afterwards.
        let now = number_now();
        r.points.first().map_or(now, |p| now.min(*p))
    }

    /// How many points are held, each as often as it is held.
    pub fn count(&self) -> usize {
        self.registry.lock().holders.iter().map(|n| *n as usize).sum()
    }

    /// The oldest point held.
    pub fn oldest(&self) -> Option<OldestPoint> {
        let r = self.registry.lock();
        Some(OldestPoint { point: ReadPoint(*r.points.first()?), opened_ns: *r.opened.first()? })
    }

    fn store_latest(&self, r: &Registry) {
        let latest = if r.restarted > 0 { u64::MAX } else { r.points.last().copied().unwrap_or(0) };
        self.latest_point.store(latest, Ordering::Release);
    }

    /// The lock, with room for one more point: nothing allocates under it.
    fn lock_with_room(&self) -> MutexGuard<'_, Registry> {
        let mut r = self.registry.lock();
        while r.is_full() {
            let size = r.points.capacity() * 2;
            drop(r);
            let mut larger = Registry::with_capacity(size);
            r = self.registry.lock();
            if r.is_full() {
                larger.take_over(&mut r);
                // The old lists are freed without the lock.
                drop(r);
                drop(larger);
                r = self.registry.lock();
            }
        }
        r
    }
}

impl Drop for RestartedRead<'_> {
    fn drop(&mut self) {
        let mut r = self.0.registry.lock();
        r.restarted -= 1;
        self.0.store_latest(&r);
    }
}

impl Registry {
    fn with_capacity(size: usize) -> Self {
        Self { points: Vec::with_capacity(size), holders: Vec::with_capacity(size), opened: Vec::with_capacity(size), restarted: 0 }
    }

    fn is_full(&self) -> bool {
        [self.points.capacity(), self.holders.capacity(), self.opened.capacity()].iter().any(|c| *c <= self.points.len())
    }

    /// Let `old` have these larger lists with its contents; its former lists are in `self` then.
    fn take_over(&mut self, old: &mut Self) {
        self.points.extend_from_slice(&old.points);
        self.holders.extend_from_slice(&old.holders);
        self.opened.extend_from_slice(&old.opened);
        self.restarted = old.restarted;
        std::mem::swap(self, old);
    }

    fn add(&mut self, n: u64, now_ns: u64) {
        if let (Some(last), Some(holders)) = (self.points.last(), self.holders.last_mut()) {
            debug_assert!(*last <= n, "numbers grow: {last} was taken before {n}");
            if *last == n {
                *holders += 1;
                return;
            }
        }
        self.points.push(n);
        self.holders.push(1);
        self.opened.push(now_ns);
    }

    fn remove(&mut self, n: u64) {
        let Ok(i) = self.points.binary_search(&n) else {
            debug_assert!(false, "read point {n} is not held");
            return;
        };
        self.holders[i] -= 1;
        if self.holders[i] == 0 {
            self.points.remove(i);
            self.holders.remove(i);
            self.opened.remove(i);
        }
    }
}
