//! Slots, waits, published values and read points; `scenarios.rs` has them together.

mod scenarios;

use super::*;
use crate::clock::Timeout;
use crate::error::ErrorKind;
use crate::health::Health;
use crate::ids::ReadPoint;
use crate::sync::Arc;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

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
            if phase_1 {
                g.set_committing();
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
    drop(g);
    let g = t.claim(0);
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

/// What a writer sees.
fn shown(p: &ReadPoints) -> (Vec<u64>, bool) {
    p.with_points(|points, restarted| (points.to_vec(), restarted)).expect("nobody changes them")
}

/// Writers look while a thread stands still in the middle of an open, with the registry in its hands; and while others open and close.
#[test]
fn points_are_seen_whoever_holds_the_registry() {
    let p = ReadPoints::new();
    let a = p.open(0, |announce| announce(1));
    let b = p.open(0, |announce| {
        assert_eq!(shown(&p), (vec![1], false), "before its number is told");
        let b = announce(2);
        assert_eq!(shown(&p), (vec![1, 2], false));
        b
    });
    p.close(a);
    p.close(b);
    let (next, stop) = (std::sync::Mutex::new(10), AtomicBool::new(false));
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let mut held = std::collections::VecDeque::new();
                for _ in 0..20_000 {
                    held.push_back(p.open(0, |announce| {
                        let mut next = next.lock().unwrap();
                        *next += 1;
                        announce(*next)
                    }));
                    if held.len() > 70 {
                        p.close(held.pop_front().unwrap());
                    }
                }
                held.into_iter().for_each(|point| p.close(point));
                stop.store(true, Ordering::Release);
            });
        }
        let mut looks = 0_u64;
        while !stop.load(Ordering::Acquire) || looks == 0 {
            let seen = p.with_points(|points, _| points.to_vec());
            if let Some(points) = seen {
                assert!(points.is_sorted_by(|a, b| a < b) && points.len() <= 142, "{points:?}");
                looks += 1;
            }
        }
    });
    assert_eq!(shown(&p), (vec![], false));
}

#[test]
fn latest_point_follows_the_registry() {
    let p = ReadPoints::new();
    assert_eq!((p.latest(), p.count(), p.oldest()), (0, 0, None));
    let take = |n| {
        p.open(0, |announce| {
            let before = (p.latest(), shown(&p));
            let point = announce(n);
            assert_eq!(p.latest(), n, "announced when the number is told, not later");
            assert!(shown(&p).0.ends_with(&[n]) && (before.0 == n || before != (n, shown(&p))));
            point
        })
    };
    let (a, b, c) = (take(5), take(5), take(9));
    assert_eq!((p.latest(), p.count(), p.oldest().unwrap().point), (9, 3, ReadPoint(5)));
    assert_eq!(shown(&p), (vec![5, 9], false));
    assert_eq!((p.drop_bound(|| 20), p.drop_bound(|| 4)), (5, 4));
    p.close(a);
    assert_eq!((p.latest(), p.drop_bound(|| 20)), (9, 5), "held twice, given back once");
    p.close(c);
    assert_eq!(p.latest(), 5);
    let since = p.oldest().unwrap().opened.ns;
    assert!(since <= crate::clock::monotonic_nanos());
    p.close(b);
    assert_eq!((p.latest(), p.count(), p.drop_bound(|| 20)), (0, 0, 20));
}

#[test]
fn a_restarted_read_holds_every_number() {
    let p = ReadPoints::new();
    let a = p.open(0, |announce| announce(5));
    let r = p.register_restarted();
    let s = p.register_restarted();
    let b = p.open(0, |announce| announce(6));
    assert_eq!(p.latest(), u64::MAX, "also after an open and a close");
    p.close(b);
    drop(r);
    assert_eq!((p.latest(), shown(&p)), (u64::MAX, (vec![5], true)));
    drop(s);
    assert_eq!(p.latest(), 5);
    p.close(a);
    assert_eq!(p.count(), 0);
}

#[test]
fn many_points_in_any_order_of_closing() {
    let p = ReadPoints::new();
    let mut held: Vec<_> = (1..=500).map(|n| p.open(0, |announce| announce(n))).collect();
    let mut seed = 1_usize;
    while !held.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        p.close(held.swap_remove((seed >> 33) % held.len()));
        let mut want: Vec<_> = held.iter().map(|p| p.0).collect();
        want.sort_unstable();
        assert_eq!(shown(&p), (want.clone(), false));
        assert_eq!(p.latest(), want.last().copied().unwrap_or(0));
    }
}

#[test]
fn a_panic_while_the_number_is_taken_holds_nothing() {
    let p = ReadPoints::new();
    assert!(catch_unwind(AssertUnwindSafe(|| p.open(0, |_| panic!("expected by the test")))).is_err());
    assert_eq!((p.latest(), p.count(), shown(&p)), (0, 0, (vec![], false)));
    let a = p.open(0, |announce| announce(3));
    assert_eq!((p.latest(), shown(&p)), (3, (vec![3], false)));
    p.close(a);
    assert_eq!(p.latest(), 0);
}
