//! loom models of the real files: RUSTFLAGS="--cfg loom" cargo test --lib mvcc. Each rule is switched off once, and loom must notice.

use super::flaw::{self, Flaw};
use super::{CommitSlots, Published, ReadPoints};
use crate::clock::Timeout;
use crate::health::Health;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, fence, thread};
use Ordering::{Acquire, Relaxed, Release};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn bounded(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(preemptions);
    b.max_branches = 20_000;
    b.check(f);
}

/// loom must find this failure once `rule` is off.
fn must_break(rule: Flaw, failure: &str, preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    flaw::set(rule);
    let r = catch_unwind(AssertUnwindSafe(|| bounded(preemptions, f)));
    flaw::set(Flaw::None);
    let Err(panic) = r else { panic!("loom found nothing although {rule:?}") };
    let found = panic.downcast_ref::<String>().map_or_else(|| panic.downcast_ref::<&str>().copied().unwrap_or(""), |s| s.as_str());
    assert!(found.contains(failure), "another failure: {found}");
}

fn slots(first: usize) -> CommitSlots {
    CommitSlots::with_sizes(first, 1, Arc::new(Health::new()))
}

// ---- 1. a published value is not freed under its readers (claim and load against swap and scan)

const FREED: u64 = 9;

struct View {
    slots: CommitSlots,
    view: Published<AtomicU64>,
}

fn view(first: usize) -> Arc<View> {
    let slots = slots(first);
    let view = Published::new(&slots, Box::new(AtomicU64::new(1)));
    Arc::new(View { slots, view })
}

/// Swap, wait for grace, "free" (and keep the memory, so that a model that is meant to break does so by its assertion).
fn replace_and_free(s: &View) -> Box<AtomicU64> {
    let retired = s.view.replace(Box::new(AtomicU64::new(2)));
    let Ok(old) = retired.reclaim(&s.slots, &mut Timeout::forever()) else { unreachable!("no timeout, and healthy") };
    old.store(FREED, Relaxed);
    old
}

fn reclaim() {
    let s = view(1);
    let r = Arc::clone(&s);
    let t = thread::spawn(move || {
        let g = r.slots.claim(0);
        let v = r.view.load(&g);
        assert_ne!(v.load(Relaxed), FREED, "freed under its reader");
        assert_ne!(v.load(Relaxed), FREED, "freed under its reader");
    });
    let old = replace_and_free(&s);
    t.join().unwrap();
    drop(old);
}
#[test]
fn published_holds() {
    bounded(3, reclaim)
}
#[test]
fn published_without_full_order_breaks() {
    must_break(Flaw::NoFence, "freed under its reader", 2, reclaim)
}

/// The reader's slot lies in a block that it has just added.
fn reclaim_in_added_block() {
    let s = view(1);
    let r = Arc::clone(&s);
    let t = thread::spawn(move || {
        let outer = r.slots.claim(0);
        let g = r.slots.claim(0);
        assert_eq!((outer.index(), g.index()), (0, 1));
        drop(outer);
        let v = r.view.load(&g);
        assert_ne!(v.load(Relaxed), FREED, "freed under its reader");
    });
    let old = replace_and_free(&s);
    t.join().unwrap();
    drop(old);
}
#[test]
fn published_in_an_added_block_holds() {
    bounded(3, reclaim_in_added_block)
}
#[test]
fn published_in_an_added_block_without_full_order_breaks() {
    must_break(Flaw::NoFence, "freed under its reader", 2, reclaim_in_added_block)
}

/// Two threads add a block at the same time: both get a slot, and not the same one.
#[test]
fn adding_blocks_at_once_holds() {
    bounded(3, || {
        let s = Arc::new(slots(1));
        let kept = s.claim(0);
        let other = Arc::clone(&s);
        let t = thread::spawn(move || {
            let g = other.claim(0);
            let index = g.index();
            drop(g);
            index
        });
        let g = s.claim(0);
        assert!(g.index() > 0);
        assert!(t.join().unwrap() > 0);
        drop((g, kept));
        assert_eq!(s.busy(), 0);
    });
}

// ---- 2. commits that have begun: everything up to the read point is marked when the wait ends (V1, V3)

struct Region {
    slots: CommitSlots,
    points: ReadPoints,
    /// The append lock and the last number.
    last: Mutex<u64>,
    marked: [AtomicU64; 3],
    column: Column,
}

fn region() -> Arc<Region> {
    Arc::new(Region {
        slots: slots(2),
        points: ReadPoints::new(),
        last: Mutex::new(0),
        marked: Default::default(),
        column: Column::default(),
    })
}

/// `late`: phase 1 is stored after the append lock is released.
fn begun(late: bool) {
    let s = region();
    let writers: Vec<_> = (0..2)
        .map(|thread| {
            let w = Arc::clone(&s);
            thread::spawn(move || {
                let g = w.slots.claim(thread);
                let n = {
                    let mut last = w.last.lock();
                    if !late {
                        g.set_committing();
                    }
                    *last += 1;
                    *last
                };
                if late {
                    g.set_committing();
                }
                w.marked[n as usize].store(n, Relaxed);
                drop(g);
            })
        })
        .collect();
    let point = s.points.open(0, |announce| announce(*s.last.lock()));
    s.slots.wait_for_begun_commits(&mut Timeout::forever()).unwrap();
    for n in 1..=point.0 {
        assert_eq!(s.marked[n as usize].load(Relaxed), n, "not marked under the snapshot");
    }
    writers.into_iter().for_each(|w| w.join().unwrap());
}
#[test]
fn begun_commits_hold() {
    bounded(3, || begun(false))
}
#[test]
fn begun_commits_without_the_wait_break() {
    must_break(Flaw::NoWait, "not marked", 2, || begun(false))
}
#[test]
fn begun_commits_told_after_the_append_lock_break() {
    must_break(Flaw::None, "not marked", 2, || begun(true))
}

// ---- 3. order of the announcement: a version that a snapshot needs is never overwritten (V3, C4)

/// Two versions used in turn, and one cell for a copy, as in the memstore.
#[derive(Default)]
struct Column {
    slot: [Version; 2],
    copy: Version,
}

#[derive(Default)]
struct Version {
    seq: AtomicU64,
    value: AtomicU64,
}

impl Version {
    fn write(&self, n: u64) {
        self.seq.store(0, Release);
        fence(Release);
        self.value.store(10 * n, Relaxed);
        self.seq.store(n, Release);
    }
    fn read(&self) -> Option<(u64, u64)> {
        let n = self.seq.load(Acquire);
        let value = self.value.load(Relaxed);
        fence(Acquire);
        (n != 0 && self.seq.load(Relaxed) == n).then_some((n, value))
    }
}

fn announce(under_append_lock: bool) {
    let s = region();
    *s.last.lock() = 2;
    s.column.slot[1].write(1);
    s.column.slot[0].write(2);
    let w = Arc::clone(&s);
    let t = thread::spawn(move || {
        for _ in 0..2 {
            let g = w.slots.claim(0);
            // Decided before the number is taken, as the commit does: the victim is never the newest version.
            let latest = w.points.latest();
            let n = {
                let mut last = w.last.lock();
                g.set_committing();
                *last += 1;
                *last
            };
            let victim = &w.column.slot[n as usize & 1];
            let v = victim.seq.load(Relaxed);
            if v <= latest {
                w.column.copy.write(v);
            }
            victim.write(n);
            drop(g);
        }
    });
    let point = s.points.open(0, |announce| {
        let last = s.last.lock();
        if under_append_lock {
            return announce(*last);
        }
        let n = *last;
        drop(last);
        announce(n)
    });
    s.slots.wait_for_begun_commits(&mut Timeout::forever()).unwrap();
    let found = s.column.slot.iter().filter_map(Version::read).filter(|v| v.0 <= point.0).max();
    let found = found.max(s.column.copy.read().filter(|v| v.0 <= point.0));
    assert_eq!(found, Some((point.0, 10 * point.0)), "the snapshot's version is gone");
    s.points.close(point);
    t.join().unwrap();
}
#[test]
fn announced_under_the_append_lock_holds() {
    bounded(3, || announce(true));
}
#[test]
fn announced_after_the_append_lock_breaks() {
    must_break(Flaw::None, "version is gone", 3, || announce(false));
}

// ---- 4. the points as writers see them: one of the lists that there were, and none older than what happened before the look

fn shown() {
    let s = region();
    for n in 1..=2 {
        s.points.open(0, |announce| announce(n));
    }
    let w = Arc::clone(&s);
    let t = thread::spawn(move || {
        let told = w.last.lock();
        let number = *told;
        drop(told);
        if let Some((points, restarted)) = w.points.with_points(|points, restarted| (points.to_vec(), restarted)) {
            let lists: [&[u64]; 4] = [&[1, 2], &[1, 2, 3], &[2, 3], &[2, 3, 4]];
            assert!(lists.contains(&&points[..]) && !restarted, "points of two moments: {points:?}");
            assert!(number < 4 || points.contains(&3), "a point is missed whose number is below");
        }
    });
    s.points.open(0, |announce| {
        let mut last = s.last.lock();
        let point = announce(3);
        *last = 4; // a commit
        point
    });
    s.points.close(crate::ids::ReadPoint(1));
    s.points.open(0, |announce| announce(4));
    t.join().unwrap();
}
#[test]
fn shown_points_hold() {
    bounded(3, shown);
}
#[test]
fn shown_points_believed_at_first_look_break() {
    must_break(Flaw::BelieveFirstLook, "points of two moments", 3, shown);
}
#[test]
fn shown_points_of_one_page_break() {
    must_break(Flaw::OnePage, "points of two moments", 3, shown);
}

#[test]
fn shown_points_told_relaxed_break() {
    must_break(Flaw::TurnRelaxed, "a point is missed", 3, shown);
}
