//! The cases MVC-* as far as numbers go (no cells here): commits take numbers and mark them, snapshots find every number up to theirs marked.

use super::super::{CommitSlots, ReadPoints, SlotGuard};
use super::soon;
use crate::clock::Timeout;
use crate::error::ErrorKind;
use crate::health::Health;
use crate::ids::ReadPoint;
use crate::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Commits take numbers under one lock and mark them later; a snapshot at N must find every number up to N marked.
struct Numbers {
    slots: CommitSlots,
    points: ReadPoints,
    last: Mutex<u64>,
    marked: Vec<AtomicBool>,
}

impl Numbers {
    fn new(max: usize) -> Self {
        let slots = CommitSlots::new(Arc::new(Health::new()));
        Self { slots, points: ReadPoints::new(), last: Mutex::new(0), marked: (0..=max).map(|i| AtomicBool::new(i == 0)).collect() }
    }
    fn begin(&self, thread: usize) -> (SlotGuard<'_>, u64) {
        let g = self.slots.claim(thread);
        let mut last = self.last.lock().unwrap();
        g.set_committing();
        *last += 1;
        (g, *last)
    }
    fn complete(&self, (guard, n): (SlotGuard<'_>, u64)) -> u64 {
        self.marked[n as usize].store(true, Ordering::Release);
        drop(guard);
        n
    }
    fn try_snapshot(&self, t: &mut Timeout) -> crate::Result<ReadPoint> {
        let point = self.points.open(0, |announce| announce(*self.last.lock().unwrap()));
        self.slots.wait_for_begun_commits(t).inspect_err(|_| self.points.close(point))?;
        Ok(point)
    }
    fn snapshot(&self) -> ReadPoint {
        self.try_snapshot(&mut soon()).unwrap()
    }
    fn is_marked(&self, n: u64) -> bool {
        self.marked[n as usize].load(Ordering::Relaxed)
    }
}

#[test]
fn mvc_01_02_a_completed_commit_is_the_next_read_point() {
    let s = Numbers::new(2);
    for n in 1..=2 {
        assert_eq!(s.complete(s.begin(0)), n);
        let point = s.snapshot();
        assert_eq!(point, ReadPoint(n));
        s.points.close(point);
    }
}

#[test]
fn mvc_04_read_points_never_go_down_and_never_cover_an_open_commit() {
    const WRITERS: usize = 20;
    const COMMITS: usize = 300;
    let s = Numbers::new(WRITERS * COMMITS);
    let running = AtomicUsize::new(WRITERS);
    std::thread::scope(|scope| {
        for thread in 0..WRITERS {
            let (s, running) = (&s, &running);
            scope.spawn(move || {
                for i in 0..COMMITS {
                    let open = s.begin(thread);
                    match (thread * 7 + i * 13) % 16 {
                        0 => std::thread::sleep(Duration::from_micros((i % 5) as u64 * 100)),
                        k => (0..k * 20).for_each(|_| std::hint::spin_loop()),
                    }
                    s.complete(open);
                }
                running.fetch_sub(1, Ordering::AcqRel);
            });
        }
        let (mut before, mut covered) = (0, 0);
        while running.load(Ordering::Acquire) > 0 {
            let point = s.snapshot();
            assert!(point.0 >= before, "down from {before} to {}", point.0);
            before = point.0;
            while covered < point.0 {
                covered += 1;
                assert!(s.is_marked(covered), "{covered} is still open under read point {}", point.0);
            }
            s.points.close(point);
        }
    });
    assert_eq!(s.snapshot(), ReadPoint((WRITERS * COMMITS) as u64));
}

#[test]
fn mvc_06_no_read_point_past_an_open_commit() {
    let s = Numbers::new(2);
    s.complete(s.begin(0));
    let open = s.begin(1);
    assert_eq!(s.try_snapshot(&mut Timeout::from_micros(2_000)).unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!((s.points.count(), s.points.latest()), (0, 0), "a snapshot that failed holds nothing");
    s.complete(open);
    assert_eq!(s.snapshot(), ReadPoint(2));
}

#[test]
fn mvc_07_09_a_scanner_sees_a_commit_once_it_is_complete() {
    let s = Numbers::new(2);
    let before = s.snapshot();
    let open = s.begin(0);
    assert!(before.0 < open.1, "opened earlier: sees nothing of it");
    std::thread::scope(|scope| {
        let scanner = scope.spawn(|| {
            let point = s.snapshot();
            assert!(s.is_marked(point.0), "what the scanner sees is there");
            point
        });
        while s.points.count() < 2 {
            std::thread::yield_now();
        }
        s.complete(open);
        assert_eq!(scanner.join().unwrap(), ReadPoint(1));
    });
    assert_eq!(before, ReadPoint(0));
}

#[test]
fn mvc_10_each_thread_sees_its_own_latest_write() {
    let s = Numbers::new(8_000);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let s = &s;
            scope.spawn(move || {
                for _ in 0..1_000 {
                    let n = s.complete(s.begin(thread));
                    let point = s.snapshot();
                    assert!(point.0 >= n);
                    s.points.close(point);
                }
            });
        }
    });
}

#[test]
fn mvc_12_everything_begun_before_the_wait_is_there_after_it() {
    let s = Numbers::new(3);
    let open: Vec<_> = (0..3).map(|t| s.begin(t)).collect();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            s.slots.wait_for_begun_commits(&mut soon()).unwrap();
            (1..=3).all(|n| s.is_marked(n))
        });
        for c in open {
            std::thread::sleep(Duration::from_micros(300));
            s.complete(c);
        }
        // (If the waiter came late it has nothing to wait for, and everything is marked as well.)
        assert!(waiter.join().unwrap());
    });
}
