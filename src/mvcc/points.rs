//! The registry of read points: which numbers a snapshot or scanner still reads at.
//!
//! Must not: know how a snapshot waits (that is `wait_for_begun_commits`, and the log), or allocate under its lock.
//!
//! Threads: one lock (level 5) among those who open and close, held over the append lock while a number is taken. Writers never ask for it:
//! they read `latest_point` (on a line of its own, since every in-place overwrite of a counter reads it) and, if that is not enough, the
//! points as they are shown (`shown.rs`). So a thread that is preempted with the registry in its hands costs a writer nothing.
//!
//! | `latest_point` | means |
//! |---|---|
//! | 0 | no point is held |
//! | n | the largest point held |
//! | MAX | a restarted read is registered: overwrite nothing |
//!
//! Invariants
//! - R1 A point is shown, and in `latest_point`, before the append lock is released under which its number was taken. A commit that got a
//!   number above it therefore finds it, in every decision made after a commit with a larger number; a decision that was made without it is
//!   about versions older than the point's.
//! - R2 Points are taken in growing order (number now, under the lock), so the list is sorted and new ones come at its end.

use super::shown::{BLOCK, Shown};
use crate::clock;
use crate::ids::ReadPoint;
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering};
use crossbeam_utils::CachePadded;

/// The registry of one region.
pub struct ReadPoints {
    /// Level 5.
    registry: Mutex<Registry>,
    latest_point: CachePadded<AtomicU64>,
    shown: Arc<Shown>,
}

/// The points as a background thread sees them.
#[derive(Clone)]
pub struct PointsView(Arc<Shown>);

impl PointsView {
    /// The oldest point; None also if the points changed under each of several looks.
    pub fn oldest(&self) -> Option<OldestPoint> {
        self.0.oldest().flatten()
    }
}

/// Points that are held; a point held several times is there once. The three lists run in parallel, so that the points are one slice.
#[derive(Default)]
struct Registry {
    points: Vec<u64>,
    holders: Vec<u32>,
    opened: Vec<Opened>,
    /// Restarted reads: gets that a busy row made start over too often.
    restarted: u32,
    /// For how many points there is room, in the lists and where they are shown.
    room: usize,
}

/// How things stood when a point was first taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// In [`clock::monotonic_nanos`].
    pub ns: u64,
    /// How many versions had been copied for read points by then, as the opener said.
    pub copied: u64,
}

/// The oldest point held, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldestPoint {
    /// The point.
    pub point: ReadPoint,
    /// Since when it is held.
    pub opened: Opened,
    /// How many different points are held.
    pub points: u64,
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
        Self {
            registry: Mutex::new(Registry::with_capacity(BLOCK)),
            latest_point: CachePadded::new(AtomicU64::new(0)),
            shown: Arc::new(Shown::new()),
        }
    }

    /// Take a read point. `copied`: versions copied for read points so far, for statistics. `with_number_now` takes the append lock, and under it calls its argument with the last number: from then on the point
    /// is held. The caller then waits for the commits that have begun. Should `with_number_now` panic, nothing is held.
    pub fn open(&self, copied: u64, with_number_now: impl FnOnce(&mut dyn FnMut(u64) -> ReadPoint) -> ReadPoint) -> ReadPoint {
        let now = Opened { ns: clock::monotonic_nanos(), copied };
        let mut r = self.lock_with_room();
        // All but the new point is written before the append lock is taken, which every writer needs.
        self.shown.prepare(&r.points, r.opened.first(), r.restarted > 0);
        with_number_now(&mut |n| {
            if r.add(n, now) {
                self.shown.push(n, now);
                self.shown.turn();
                self.store_latest(&r);
            }
            ReadPoint(n)
        })
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
        if r.remove(point.0) {
            self.show(&r);
        }
    }

    /// The largest point held; 0 none; MAX: overwrite nothing.
    #[inline]
    pub fn latest(&self) -> u64 {
        // Acquire: pairs with `store_latest`. Who finds a point gone also finds everything its reader did before, and may overwrite.
        self.latest_point.load(Ordering::Acquire)
    }

    /// From now on until the guard is dropped nothing is overwritten. The caller reads the number now, under the append lock, afterwards.
    pub fn register_restarted(&self) -> RestartedRead<'_> {
        let mut r = self.registry.lock();
        r.restarted += 1;
        self.show(&r);
        RestartedRead(self)
    }

    /// Calls `f` with the sorted points, and whether a restarted read is registered. Takes no lock and waits for nobody. None: so many points were
    /// opened and closed meanwhile that they were not seen at one instant; treat every number as held.
    pub fn with_points<R>(&self, f: impl FnOnce(&[u64], bool) -> R) -> Option<R> {
        self.shown.look(f)
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

    /// The oldest point held. Without the lock, unless points come and go too fast for that.
    pub fn oldest(&self) -> Option<OldestPoint> {
        self.shown.oldest().unwrap_or_else(|| {
            let r = self.registry.lock();
            Some(OldestPoint { point: ReadPoint(*r.points.first()?), opened: *r.opened.first()?, points: r.points.len() as u64 })
        })
    }
    /// The points, for a thread that does not own the registry.
    pub fn view(&self) -> PointsView {
        PointsView(Arc::clone(&self.shown))
    }

    /// Shows the registry as it is now.
    fn show(&self, r: &Registry) {
        self.shown.prepare(&r.points, r.opened.first(), r.restarted > 0);
        self.shown.turn();
        self.store_latest(r);
    }

    fn store_latest(&self, r: &Registry) {
        let latest = if r.restarted > 0 { u64::MAX } else { r.points.last().copied().unwrap_or(0) };
        // Release: pairs with the Acquire in `latest`. What orders a new point before the number of every later commit is the append lock.
        self.latest_point.store(latest, Ordering::Release);
    }

    /// The lock, with room for one more point: nothing allocates under it.
    fn lock_with_room(&self) -> MutexGuard<'_, Registry> {
        let mut r = self.registry.lock();
        while r.is_full() {
            let size = r.room * 2;
            drop(r);
            let mut larger = Registry::with_capacity(size);
            self.shown.reserve(size);
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
        self.0.show(&r);
    }
}

impl Registry {
    fn with_capacity(size: usize) -> Self {
        Self {
            points: Vec::with_capacity(size),
            holders: Vec::with_capacity(size),
            opened: Vec::with_capacity(size),
            restarted: 0,
            room: size,
        }
    }

    fn is_full(&self) -> bool {
        self.points.len() >= self.room
    }

    /// Let `old` have these larger lists with its contents; its former lists are in `self` then.
    fn take_over(&mut self, old: &mut Self) {
        self.points.extend_from_slice(&old.points);
        self.holders.extend_from_slice(&old.holders);
        self.opened.extend_from_slice(&old.opened);
        self.restarted = old.restarted;
        std::mem::swap(self, old);
    }

    /// True if the point was not held before.
    fn add(&mut self, n: u64, now: Opened) -> bool {
        if let (Some(last), Some(holders)) = (self.points.last(), self.holders.last_mut()) {
            debug_assert!(*last <= n, "numbers grow: {last} was taken before {n}");
            if *last == n {
                *holders += 1;
                return false;
            }
        }
        self.points.push(n);
        self.holders.push(1);
        self.opened.push(now);
        true
    }

    /// True if the point is not held any more.
    fn remove(&mut self, n: u64) -> bool {
        let Ok(i) = self.points.binary_search(&n) else {
            debug_assert!(false, "read point {n} is not held");
            return false;
        };
        self.holders[i] -= 1;
        let gone = self.holders[i] == 0;
        if gone {
            self.points.remove(i);
            self.holders.remove(i);
            self.opened.remove(i);
        }
        gone
    }
}
