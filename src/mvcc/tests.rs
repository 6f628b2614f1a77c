//! Slots, waits, published values and read points; the cases MVC-* as far as numbers go (no cells here).

use super::*;
use crate::clock::Timeout;
use crate::error::ErrorKind;
use crate::health::Health;
use crate::ids::ReadPoint;
use crate::sync::Arc;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

fn table(first: usize, more: usize) -> (Arc<Health>, CommitSlots) {
    let health = Arc::new(Health::new());
    (Arc::clone(&health), CommitSlots::with_sizes(first, more, health))
}

fn soon() -> Timeout {
    Timeout::from_micros(20_000_000)
}

// ---- slots

#[test]
fn claims_start_at_the_threads_own_slot_and_go_on_to_free_ones() {
    let (_h, t) = table(4, 2);
    let a = t.claim(1);
    let b = t.claim(1);
    let c = t.claim(5);
    assert_eq!((a.index(), b.index(), c.index()), (1, 2, 3));
    drop(a);
    assert_eq!(t.claim(1).index(), 1);
    assert_eq!(t.busy(), 2);
}

#[test]
fn all_busy_adds_a_block() {
    let (_h, t) = table(4, 2);
    let guards: Vec<_> = (0..11).map(|i| t.claim(i)).collect();
    let mut indexes: Vec<_> = guards.iter().map(|g| g.index()).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, (0..11).collect::<Vec<_>>());
    assert_eq!((t.len(), t.busy()), (12, 11));
    for g in &guards {
        g.flag().store(100 + g.index() as u64, Ordering::Release);
    }
    drop(guards);
    assert_eq!((t.len(), t.busy()), (12, 0), "blocks stay");
    assert!((0..11).all(|i| t.flag_of(i) == 100 + i as u64), "flag words are never cleared");
    assert_eq!((t.flag_of(11), t.flag_of(12)), (0, 0));
    assert_eq!(t.claim(9).index(), 9, "later blocks are starting points too");
}

#[test]
fn the_default_table_has_256_slots_and_grows_by_64() {
    let t = CommitSlots::new(Arc::new(Health::new()));
    let guards: Vec<_> = (0..257).map(|_| t.claim(7)).collect();
    assert_eq!(t.len(), 256 + 64);
    assert_eq!(guards[256].index(), 256);
}

#[test]
fn no_two_owners_of_a_slot() {
    let (_h, t) = table(2, 1);
    let owners: Vec<_> = (0..64).map(|_| AtomicBool::new(false)).collect();
    std::thread::scope(|s| {
        for thread in 0..8 {
            let (t, owners) = (&t, &owners);
            s.spawn(move || {
                for _ in 0..5_000 {
                    let g = t.claim(thread);
                    assert!(!owners[g.index()].swap(true, Ordering::AcqRel), "slot {} taken twice", g.index());
                    g.set_committing();
                    g.set_view_held();
                    owners[g.index()].store(false, Ordering::Release);
                }
            });
        }
    });
    assert_eq!(t.busy(), 0);
    assert!(t.len() <= 16, "{} slots for 8 threads", t.len());
}

#[test]
fn a_commit_that_panics_poisons_before_it_frees_its_slot() {
    let (h, t) = table(4, 2);
    let panics = |phase_1: bool| {
        let r = catch_unwind(AssertUnwindSafe(|| {
            let g = t.claim(0);
            g.set_committing();
            if !phase_1 {
                g.set_view_held();
            }
            panic!("expected by the test");
        }));
        assert!(r.is_err());
    };
    panics(false);
    assert!(h.is_good(), "nothing had been written");
    // Who waits for the commit when it dies must not be told that all is well.
    let g = t.claim(1);
    g.set_committing();
    panics(true);
    assert!(!h.is_good());
    assert_eq!(t.busy(), 1);
    assert_eq!(t.wait_for_begun_commits(&mut soon()).unwrap_err().kind(), ErrorKind::Poisoned);
    drop(g);
    assert!(t.wait_for_begun_commits(&mut soon()).is_ok(), "nobody in flight: nothing to wait for");
}

// ---- waits

#[test]
fn waits_see_only_their_phases() {
    let (_h, t) = table(4, 2);
    let none = || Timeout::no_wait();
    assert!(t.wait_for_begun_commits(&mut none()).is_ok() && t.wait_for_grace(&mut none()).is_ok());
    let g = t.claim(0);
    assert!(t.wait_for_begun_commits(&mut none()).is_ok(), "a view held is not a commit begun");
    assert_eq!(t.wait_for_grace(&mut none()).unwrap_err().kind(), ErrorKind::Timeout);
    g.set_committing();
    assert_eq!(t.wait_for_begun_commits(&mut none()).unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(t.wait_for_grace(&mut Timeout::from_micros(2_000)).unwrap_err().kind(), ErrorKind::Timeout);
    g.set_view_held();
    assert!(t.wait_for_begun_commits(&mut none()).is_ok());
    drop(g);
    assert!(t.wait_for_grace(&mut none()).is_ok());
}

#[test]
fn waits_look_into_added_blocks() {
    let (_h, t) = table(1, 1);
    let guards: Vec<_> = (0..3).map(|_| t.claim(0)).collect();
    guards[2].set_committing();
    assert!(t.wait_for_begun_commits(&mut Timeout::no_wait()).is_err());
    let last = guards.into_iter().last();
    assert!(t.wait_for_grace(&mut Timeout::no_wait()).is_err());
    drop(last);
    assert!(t.wait_for_grace(&mut Timeout::no_wait()).is_ok());
}

#[test]
fn the_count_tells_claims_of_one_slot_apart() {
    let (_h, t) = table(1, 1);
    let word = || t.slots().next().unwrap().1.load_acquire();
    let g = t.claim(0);
    let first = word();
    g.set_committing();
    assert!(super::slots::same_claim(first, word()), "another phase, the same claim");
    drop(g);
    let g = t.claim(0);
    assert_eq!(super::slots::phase(first), super::slots::phase(word()));
    assert!(!super::slots::same_claim(first, word()), "busy again, but by another");
    drop(g);
}

#[test]
fn a_slot_used_again_at_once_is_not_waited_for() {
    let (_h, t) = table(1, 1);
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let mut g = t.claim(0);
        g.set_committing();
        let waiter = s.spawn(|| {
            t.wait_for_grace(&mut soon()).unwrap();
            t.wait_for_begun_commits(&mut soon()).unwrap();
            done.store(true, Ordering::Release);
        });
        // The slot is busy and in phase 1 at almost every moment, but each time by another claim.
        while !done.load(Ordering::Acquire) {
            drop(g);
            g = t.claim(0);
            g.set_committing();
            std::thread::yield_now();
        }
        waiter.join().unwrap();
    });
}

// ---- published values

struct Counted<'a>(u64, &'a AtomicUsize);
impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_replaced_value_stays_until_its_readers_are_gone() {
    let (_h, t) = table(4, 2);
    let drops = AtomicUsize::new(0);
    let p = Published::new(&t, Box::new(Counted(1, &drops)));
    let g = t.claim(0);
    let old = p.load(&g);
    let retired = p.replace(Box::new(Counted(2, &drops)));
    assert_eq!((old.0, retired.value().0, p.load(&g).0), (1, 1, 2));
    let Err((retired, e)) = retired.reclaim(&t, &mut Timeout::from_micros(1_000)) else { panic!("freed under a reader") };
    assert_eq!((e.kind(), old.0), (ErrorKind::Timeout, 1));
    drop(g);
    let value = retired.reclaim(&t, &mut soon()).unwrap_or_else(|e| panic!("{}", e.1));
    assert_eq!((value.0, drops.load(Ordering::Relaxed)), (1, 0));
    drop(value);
    drop(p);
    assert_eq!(drops.load(Ordering::Relaxed), 2, "each value dropped once");
}

#[test]
fn a_retired_value_that_nobody_reclaims_leaks_rather_than_dangles() {
    let (_h, t) = table(4, 2);
    let drops = AtomicUsize::new(0);
    let p = Published::new(&t, Box::new(Counted(1, &drops)));
    let g = t.claim(0);
    let old = p.load(&g);
    drop(p.replace(Box::new(Counted(2, &drops))));
    assert_eq!((old.0, drops.load(Ordering::Relaxed)), (1, 0));
    // Give the allocation back, so that leak checkers stay quiet.
    // SAFETY: leaked by the drop above; `old` is the last reference and is not used again.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(old).cast_mut()) });
}

#[test]
#[should_panic(expected = "a slot of another region")]
fn a_slot_of_another_table_does_not_open_a_value() {
    let ((_h, t), (_i, u)) = (table(4, 2), table(4, 2));
    let p = Published::new(&t, Box::new(1));
    p.load(&u.claim(0));
}

#[test]
fn readers_never_meet_a_freed_value() {
    let t = CommitSlots::new(Arc::new(Health::new()));
    // A freed value is overwritten before its memory goes, so that a late reader would notice.
    let p = Published::new(&t, Box::new([AtomicU64::new(1), AtomicU64::new(1)]));
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for thread in 0..3 {
            let (t, p, stop) = (&t, &p, &stop);
            s.spawn(move || {
                let mut newest = 0;
                while !stop.load(Ordering::Relaxed) {
                    let g = t.claim(thread);
                    let v = p.load(&g);
                    let (a, b) = (v[0].load(Ordering::Relaxed), v[1].load(Ordering::Relaxed));
                    assert!(a == b && a >= newest && a != u64::MAX, "{a} {b} after {newest}");
                    newest = a;
                }
            });
        }
        for n in 2..300 {
            let old = p.replace(Box::new([AtomicU64::new(n), AtomicU64::new(n)]));
            let old = old.reclaim(&t, &mut soon()).unwrap_or_else(|e| panic!("{}", e.1));
            old.iter().for_each(|w| w.store(u64::MAX, Ordering::Relaxed));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

// ---- read points

#[test]
fn latest_point_follows_the_registry() {
    let p = ReadPoints::new();
    assert_eq!((p.latest(), p.count(), p.oldest()), (0, 0, None));
    let take = |n| {
        p.open(|| {
            assert_eq!(p.latest(), u64::MAX, "announced before the number is taken");
            assert!(p.with_points_try(|_, _| ()).is_none(), "the registry is held meanwhile");
            n
        })
    };
    let (a, b, c) = (take(5), take(5), take(9));
    assert_eq!((p.latest(), p.count(), p.oldest().unwrap().point), (9, 3, ReadPoint(5)));
    assert_eq!(p.with_points_try(|points, restarted| (points.to_vec(), restarted)), Some((vec![5, 9], false)));
    assert_eq!((p.drop_bound(|| 20), p.drop_bound(|| 4)), (5, 4));
    p.close(a);
    assert_eq!((p.latest(), p.drop_bound(|| 20)), (9, 5), "held twice, given back once");
    p.close(c);
    assert_eq!(p.latest(), 5);
    let since = p.oldest().unwrap().opened_ns;
    assert!(since <= crate::clock::monotonic_nanos());
    p.close(b);
    assert_eq!((p.latest(), p.count(), p.drop_bound(|| 20)), (0, 0, 20));
}

#[test]
fn a_restarted_read_holds_every_number() {
    let p = ReadPoints::new();
    let a = p.open(|| 5);
    let r = p.register_restarted();
    let s = p.register_restarted();
    let b = p.open(|| 6);
    assert_eq!(p.latest(), u64::MAX, "also after an open and a close");
    p.close(b);
    drop(r);
    assert_eq!((p.latest(), p.with_points_try(|points, restarted| (points.to_vec(), restarted))), (u64::MAX, Some((vec![5], true))));
    drop(s);
    assert_eq!(p.latest(), 5);
    p.close(a);
    assert_eq!(p.count(), 0);
}

#[test]
fn many_points_in_any_order_of_closing() {
    let p = ReadPoints::new();
    let mut held: Vec<_> = (1..=500).map(|n| p.open(|| n)).collect();
    let mut seed = 1_usize;
    while !held.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        p.close(held.swap_remove((seed >> 33) % held.len()));
        let mut want: Vec<_> = held.iter().map(|p| p.0).collect();
        want.sort_unstable();
        assert_eq!(p.with_points_try(|points, _| points.to_vec()), Some(want.clone()));
        assert_eq!(p.latest(), want.last().copied().unwrap_or(0));
    }
}

#[test]
fn a_panic_while_the_number_is_taken_leaves_the_careful_value() {
    let p = ReadPoints::new();
    assert!(catch_unwind(AssertUnwindSafe(|| p.open(|| panic!("expected by the test")))).is_err());
    assert_eq!((p.latest(), p.count()), (u64::MAX, 0));
    let a = p.open(|| 3);
    assert_eq!(p.latest(), 3);
    p.close(a);
    assert_eq!(p.latest(), 0);
}

// ---- MVC: numbers, commits and snapshots together

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
        g.set_committing();
        let mut last = self.last.lock().unwrap();
        *last += 1;
        (g, *last)
    }
    fn complete(&self, (guard, n): (SlotGuard<'_>, u64)) -> u64 {
        self.marked[n as usize].store(true, Ordering::Release);
        drop(guard);
        n
    }
    fn try_snapshot(&self, t: &mut Timeout) -> crate::Result<ReadPoint> {
        let point = self.points.open(|| *self.last.lock().unwrap());
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
