//! Loom models of the row header and the version slots, over the code itself. Each rule has a flaw that switches it off; loom must then find
//! the failure. Numbers are commit numbers; a version is right when value = 10 x number and timestamp = 100 x number.
//!
//! Run: RUSTFLAGS="--cfg loom" cargo test --release --lib memstore (LOOM_MAX_PREEMPTIONS overrides the bounds).

use super::super::flaw::{self, Flaw};
use super::super::row_header::RowHeader;
use super::*;
use crate::sync::Ordering::AcqRel;
use crate::sync::{Arc, Mutex, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn bounded(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(std::env::var("LOOM_MAX_PREEMPTIONS").ok().and_then(|s| s.parse().ok()).unwrap_or(preemptions));
    b.max_branches = 20_000;
    b.check(f);
}

fn holds(f: impl Fn() + Sync + Send + 'static) {
    bounded(2, f);
}

fn breaks(flaw: Option<Flaw>, f: impl Fn() + Sync + Send + 'static) {
    let mut found = false;
    flaw::with(flaw, || found = catch_unwind(AssertUnwindSafe(|| bounded(3, f))).is_err());
    assert!(found, "loom found nothing although the rule is switched off");
}

/// A row with one more column than it needs, what the log and the registry know, and room for copies.
struct World {
    header: RowHeader,
    chain: Chain,
    other: (Slots, Chain),
    last: AtomicU64,
    durable: AtomicU64,
    flag: AtomicU64,
    busy: AtomicU64,
    latest: AtomicU64,
    registry: Mutex<Registry>,
    spares: [CopyCell; 6],
    used: AtomicU64,
}

#[derive(Default)]
struct Registry {
    points: Vec<u64>,
    restarted: bool,
}

fn version(seq: u64) -> Version {
    Version { seq, ts: 100 * seq, value: 10 * seq as i64 }
}

impl World {
    /// `last` versions of SYNC level are there; the list holds what `keep` says of the versions below the two newest.
    fn new(last: u64, fsync_above: u64, list: &[u64]) -> Arc<Self> {
        let w = Self {
            header: RowHeader::new(),
            chain: Chain::default(),
            other: (Slots::default(), Chain::default()),
            last: AtomicU64::new(last),
            durable: AtomicU64::new(0),
            flag: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            latest: AtomicU64::new(0),
            registry: Mutex::new(Registry::default()),
            spares: std::array::from_fn(|_| CopyCell::new()),
            used: AtomicU64::new(0),
        };
        let w = Arc::new(w);
        for &n in list {
            let cell = w.spare();
            // SAFETY: in `w.spares`, which lives as long as the chain.
            unsafe { cell.as_ref() }.fill(version(n));
            // SAFETY: as above, and pushed once.
            unsafe { w.column(0).push_in_order(cell.cast(), version(n).key(), 0) };
        }
        for n in last.saturating_sub(1).max(1)..=last {
            for i in 0..2 {
                w.apply(i, n, Plan::InPlace);
            }
            w.header.mark(n, n > fsync_above, 0);
        }
        w
    }
    fn spare(&self) -> NonNull<CopyCell> {
        NonNull::from(&self.spares[self.used.fetch_add(1, Relaxed) as usize])
    }
    fn column(&self, i: usize) -> Versions<'_> {
        let (slots, chain) = if i == 0 { (&self.header.slots, &self.chain) } else { (&self.other.0, &self.other.1) };
        // SAFETY: cells are `self.spares`.
        unsafe { Versions::new(Some(slots), chain) }
    }
    fn plan(&self, i: usize, keep: Keep) -> Plan {
        let latest = self.latest.load(Acquire);
        self.column(i).plan(&self.header, keep, latest, self.durable.load(Acquire), |f| {
            if let Some(r) = self.registry.try_lock() {
                f(&r.points, r.restarted);
            }
        })
    }
    fn apply(&self, i: usize, n: u64, plan: Plan) {
        let spare = (plan == Plan::Push).then(|| self.spare());
        // SAFETY: cells are `self.spares`, each pushed once.
        unsafe { self.column(i).apply(version(n), plan, spare) };
    }
    /// A commit of this row: decides, takes its number, applies, marks.
    fn commit(&self, columns: usize, keep: Keep, fsync: bool) {
        self.busy.store(1, Release);
        let mut plans = [Plan::InPlace; 2];
        for i in 0..columns {
            plans[i] = self.plan(i, keep);
        }
        let n = self.last.fetch_add(1, AcqRel) + 1; // the append lock
        for i in 0..columns {
            self.apply(i, n, plans[i]);
        }
        self.header.mark(n, fsync, self.durable.load(Acquire));
        self.busy.store(0, Release);
    }
    fn cut(&self) -> u64 {
        self.header.cut(|_| self.flag.load(Acquire), || self.durable.load(Acquire)).seq
    }
    /// Reads column `i` at `cut`: the number of what is shown.
    fn at(&self, i: usize, cut: u64) -> u64 {
        match self.column(i).read(cut) {
            Content::Empty => 0,
            Content::Counter { seq, ts, value } => {
                assert!(ts == 100 * seq && value == 10 * seq as i64, "torn version {seq} {ts} {value}");
                seq
            }
            other => panic!("{other:?}"),
        }
    }
    /// A point read of the first column.
    fn get(&self) -> (u64, u64) {
        loop {
            let c = self.cut();
            // Torn content counts only if the second cut does not notice.
            let content = self.column(0).read(c);
            RowHeader::order_second_cut();
            if self.cut() == c {
                return match content {
                    Content::Counter { seq, ts, value } => {
                        assert!(ts == 100 * seq && value == 10 * seq as i64, "torn version {seq} {ts} {value}");
                        (c, seq)
                    }
                    other => panic!("cut {c} shows {other:?}"),
                };
            }
            thread::yield_now();
        }
    }
    /// Opens a snapshot; `late` announces it after it took its number.
    fn open(&self, late: bool) -> u64 {
        let mut r = self.registry.lock();
        if !late {
            self.latest.store(u64::MAX, Release);
        }
        let n = self.last.fetch_add(0, AcqRel); // under the append lock
        r.points.push(n);
        self.latest.store(n, Release);
        drop(r);
        while self.busy.load(Acquire) == 1 {
            thread::yield_now();
        }
        n
    }
}

// ---- two slots used in turn: a get sees a whole version, never an older one than had completed (V1 V2 V4 C4)

fn column() {
    let w = World::new(1, u64::MAX, &[]);
    let w2 = Arc::clone(&w);
    let t = thread::spawn(move || (2..=3).for_each(|_| w2.commit(1, Keep::Newest, false)));
    let before = w.cut();
    let (c, seq) = w.get();
    assert!(seq == c && c >= before, "cut {c} shows {seq}; {before} had completed");
    t.join().unwrap();
}
#[test]
fn column_holds() {
    holds(column);
}
#[test]
fn column_overwriting_the_newest_breaks() {
    breaks(Some(Flaw::OverwriteNewest), column);
}
#[test]
fn column_without_the_release_fence_breaks() {
    breaks(Some(Flaw::SlotFence), column);
}

// Two columns of one row, one commit writes both: a row read at one cut shows both or none.
fn row_read(second_cut: bool) {
    let w = World::new(2, u64::MAX, &[]);
    let w2 = Arc::clone(&w);
    let t = thread::spawn(move || (0..2).for_each(|_| w2.commit(2, Keep::Newest, false)));
    let (a, b) = loop {
        let c = w.cut();
        let (a, b) = (w.column(0).read(c), w.column(1).read(c));
        RowHeader::order_second_cut();
        if !second_cut || w.cut() == c {
            break (a, b);
        }
        thread::yield_now();
    };
    assert_eq!(a, b, "half a commit");
    t.join().unwrap();
}
#[test]
fn row_read_holds() {
    holds(|| row_read(true));
}
#[test]
fn row_read_without_second_cut_breaks() {
    breaks(None, || row_read(false));
}

// ---- the header: a commit over two rows appears at once, FSYNC commits appear with D (V1 V2 V5)

fn two_rows(fsync: bool) {
    let s = Arc::new(([RowHeader::new(), RowHeader::new()], AtomicU64::new(0), AtomicU64::new(0)));
    let s2 = Arc::clone(&s);
    let t = thread::spawn(move || {
        let (rows, flag, d) = &*s2;
        rows.iter().for_each(|h| h.set_pending(3, 5));
        flag.store(5 << 1 | u64::from(fsync), Release); // here it happens
        for h in rows {
            h.mark(5, fsync, d.load(Acquire));
            h.clear_pending();
        }
    });
    let s3 = Arc::clone(&s);
    let sync = fsync.then(|| thread::spawn(move || s3.2.store(5, Release)));
    let cut = |h: &RowHeader| {
        let c = h.cut(
            |slot| {
                assert_eq!(slot, 3);
                s.1.load(Acquire)
            },
            || s.2.load(Acquire),
        );
        c.seq
    };
    let a = cut(&s.0[0]);
    let b = cut(&s.0[1]);
    assert!(a == 0 || b == 5, "seen on the first row, then not on the second");
    t.join().unwrap();
    if let Some(t) = sync {
        t.join().unwrap();
    }
    assert_eq!(cut(&s.0[1]), 5);
}
#[test]
fn two_rows_hold() {
    holds(|| two_rows(false));
}
#[test]
fn two_rows_fsync_hold() {
    holds(|| two_rows(true));
}
#[test]
fn two_rows_applied_before_pending_breaks() {
    breaks(Some(Flaw::AppliedFirst), || two_rows(false));
}

// Commit 1 of SYNC level, never synced; 2 and 3 of FSYNC level wait: 1 is always shown, and beyond D nothing else.
fn waiting_on_top() {
    let w = World::new(1, u64::MAX, &[]);
    let w2 = Arc::clone(&w);
    let t = thread::spawn(move || {
        w2.header.mark(2, true, w2.durable.load(Acquire));
        w2.durable.store(2, Release);
        w2.header.mark(3, true, w2.durable.load(Acquire));
    });
    let d = w.durable.load(Acquire);
    let c = w.cut();
    assert!(c >= 1 && c >= d.min(2), "V1: {c}, D was {d}");
    assert!(c <= w.durable.load(Acquire).max(1), "V5: {c}");
    t.join().unwrap();
    assert_eq!(w.cut(), 2);
}
#[test]
fn waiting_on_top_holds() {
    bounded(3, waiting_on_top);
}
#[test]
fn waiting_on_top_stable_before_applied_breaks() {
    breaks(Some(Flaw::StableFirst), waiting_on_top);
}
#[test]
fn waiting_on_top_without_stable_breaks() {
    breaks(Some(Flaw::StableKept), waiting_on_top);
}

#[test]
fn fsync_chain_holds() {
    holds(|| {
        let w = World::new(0, 0, &[]);
        w.header.mark(1, true, 0);
        let w2 = Arc::clone(&w);
        let sync = thread::spawn(move || (1..=2).for_each(|d| w2.durable.store(d, Release)));
        let w3 = Arc::clone(&w);
        let t = thread::spawn(move || w3.header.mark(2, true, w3.durable.load(Acquire)));
        let d = w.durable.load(Acquire);
        let c = w.cut();
        assert!(c >= d.min(1), "V1");
        assert!(c <= w.durable.load(Acquire), "V5");
        t.join().unwrap();
        sync.join().unwrap();
    });
}

// A commit slot's flag word serves commits 1 and 2 over the rows p and q; it is never cleared.
fn flag_again() {
    let s = Arc::new(([RowHeader::new(), RowHeader::new()], AtomicU64::new(0)));
    let s2 = Arc::clone(&s);
    let t = thread::spawn(move || {
        for n in 1..=2 {
            s2.0.iter().for_each(|h| h.set_pending(0, n));
            s2.1.store(n << 1, Release);
            for h in &s2.0 {
                h.mark(n, false, 0);
                h.clear_pending();
            }
        }
    });
    let cut = |i: usize| s.0[i].cut(|_| s.1.load(Acquire), || 0);
    let a = cut(0).seq;
    let b = cut(1).seq;
    assert!(b >= a, "seen on p, then not on q");
    t.join().unwrap();
    assert_eq!((cut(0).seq, cut(1).seq), (2, 2));
}
#[test]
fn flag_again_holds() {
    bounded(3, flag_again);
}

// Commit 2 of SYNC level took over the flag word of commit 1 of FSYNC level, whose `pending` a reader still sees: nothing of 1 may be shown.
fn flag_of_another() {
    let w = World::new(0, 0, &[]);
    w.header.set_pending(0, 1);
    w.flag.store(1 << 1 | 1, Release);
    let w2 = Arc::clone(&w);
    let t = thread::spawn(move || {
        w2.header.mark(1, true, 0);
        w2.header.clear_pending();
        w2.flag.store(2 << 1, Release); // the slot's next commit, of other rows
    });
    assert_eq!(w.cut(), 0, "V5: shown before its sync, or with a foreign number");
    t.join().unwrap();
}
#[test]
fn flag_of_another_holds() {
    bounded(3, flag_of_another);
}
#[test]
fn flag_without_number_breaks() {
    breaks(Some(Flaw::FlagNumber), flag_of_another);
}

// ---- snapshot open against reuse of slots; whether a slot is reused is decided before the number (V3 V4 C4)

fn snapshot(late: bool) {
    let w = World::new(2, u64::MAX, &[]);
    let w2 = Arc::clone(&w);
    let t = thread::spawn(move || (0..2).for_each(|_| w2.commit(1, Keep::Newest, false)));
    let point = w.open(late);
    assert_eq!(w.at(0, point), point, "the snapshot's version is gone");
    t.join().unwrap();
}
#[test]
fn snapshot_holds() {
    bounded(3, || snapshot(false));
}
#[test]
fn snapshot_announced_after_its_number_breaks() {
    breaks(None, || snapshot(true));
}
#[test]
fn snapshot_relaxed_invalidation_breaks() {
    breaks(Some(Flaw::SlotZero), || snapshot(false));
}
#[test]
fn snapshot_reuse_regardless_breaks() {
    breaks(Some(Flaw::ReuseUnderPoint), || snapshot(false));
}
#[test]
fn snapshot_copy_after_the_slot_breaks() {
    breaks(Some(Flaw::CopyAfter), || snapshot(false));
}
#[test]
fn snapshot_without_fence_after_a_missed_slot_breaks() {
    breaks(Some(Flaw::SlotMissFence), || snapshot(false));
}

// ---- overwriting a dead cell, decided before the number

// FSYNC commits 1, 2, 3; slots 2 and 3, copy of 1 in the list; D moves while commit 4 comes and a get reads.
fn dead_beside_get() {
    let w = World::new(3, 0, &[1]);
    w.durable.store(1, Release);
    let w2 = Arc::clone(&w);
    let sync = thread::spawn(move || w2.durable.store(2, Release));
    let w3 = Arc::clone(&w);
    let t = thread::spawn(move || w3.commit(1, Keep::Newest, true));
    let (c, seq) = w.get();
    assert!((1..=2).contains(&c) && seq == c, "cut {c} shows {seq}");
    t.join().unwrap();
    sync.join().unwrap();
    assert_eq!(w.get(), (2, 2));
}
#[test]
fn dead_beside_get_holds() {
    holds(dead_beside_get);
}
#[test]
fn dead_beside_get_best_complete_taken_breaks() {
    breaks(Some(Flaw::DeadBest), dead_beside_get);
}
#[test]
fn dead_beside_get_without_cell_fence_breaks() {
    breaks(Some(Flaw::CellFence), dead_beside_get);
}
#[test]
fn dead_beside_get_relaxed_cell_invalidation_breaks() {
    breaks(Some(Flaw::CellZero), dead_beside_get);
}
#[test]
fn slot_reused_under_a_waiting_commit_breaks() {
    breaks(Some(Flaw::ReuseUnderWaiting), dead_beside_get);
}

// SYNC commits that no sync has covered (D = 0), two versions kept: what is dead follows the row's own cut, not D.
fn dead_without_sync() {
    let w = World::new(3, u64::MAX, &[1]);
    let w2 = Arc::clone(&w);
    let t = thread::spawn(move || (0..2).for_each(|_| w2.commit(1, Keep::Versions(2), false)));
    let (c, mut best) = loop {
        let c = w.cut();
        let mut all = Vec::new();
        w.column(0).collect(c, &mut all);
        RowHeader::order_second_cut();
        if w.cut() == c {
            break (c, all.iter().map(|v| (v.seq, v.ts)).collect::<Vec<_>>());
        }
        thread::yield_now();
    };
    best.sort_unstable_by(|a, b| b.cmp(a));
    best.truncate(2);
    assert_eq!(best, [(c, 100 * c), (c - 1, 100 * (c - 1))], "the best two at {c}");
    t.join().unwrap();
    assert_eq!(w.column(0).list_len(), 1, "C4");
}
#[test]
fn dead_without_sync_holds() {
    holds(dead_without_sync);
}

// A point at 1 is registered, a snapshot opens: both see their version, while dead cells are overwritten.
fn dead_beside_snapshot() {
    let w = World::new(3, u64::MAX, &[1]);
    w.registry.lock().points.push(1);
    w.latest.store(1, Release);
    let w2 = Arc::clone(&w);
    let t = thread::spawn(move || (0..2).for_each(|_| w2.commit(1, Keep::Newest, false)));
    let point = w.open(false);
    assert_eq!(w.at(0, point), point, "the snapshot's version is gone");
    assert_eq!(w.at(0, 1), 1, "the older snapshot's version is gone");
    t.join().unwrap();
    assert_eq!(w.at(0, point), point, "the snapshot's version is gone later");
    assert_eq!(w.at(0, 1), 1, "the older snapshot's version is gone later");
}
#[test]
fn dead_beside_snapshot_holds() {
    holds(dead_beside_snapshot);
}
#[test]
fn dead_beside_snapshot_points_ignored_breaks() {
    breaks(Some(Flaw::DeadUnderPoint), dead_beside_snapshot);
}

// Points at 2 and 3; slots 3 and 4, list 2, 1. The next commit copies 3 over 1, behind 2.
fn dead_in_the_middle() {
    let w = World::new(4, u64::MAX, &[1, 2]);
    w.registry.lock().points.extend([2, 3]);
    w.latest.store(3, Release);
    let w2 = Arc::clone(&w);
    let t = thread::spawn(move || w2.commit(1, Keep::Newest, false));
    assert_eq!(w.at(0, 3), 3, "list order was believed");
    assert_eq!(w.at(0, 2), 2);
    t.join().unwrap();
    assert_eq!(w.column(0).list_len(), 2);
}
#[test]
fn dead_in_the_middle_holds() {
    bounded(3, dead_in_the_middle);
}
#[test]
fn dead_in_the_middle_without_tag_breaks() {
    breaks(Some(Flaw::OrderTag), dead_in_the_middle);
}

// ---- the restarted read: registered, N = last; a cut above N needs no second cut (P5)

fn restarted(skip_above_n: bool, commits: usize, registered_before: bool) {
    let w = World::new(3, u64::MAX, &[1]);
    let register = |w: &World| {
        let mut r = w.registry.lock();
        r.restarted = true;
        w.latest.store(u64::MAX, Release);
        drop(r);
        w.last.fetch_add(0, AcqRel) // under the append lock
    };
    let early = registered_before.then(|| register(&w));
    let w2 = Arc::clone(&w);
    let t = thread::spawn(move || (0..commits).for_each(|_| w2.commit(1, Keep::Newest, false)));
    let n = early.unwrap_or_else(|| register(&w));
    let (c, seq) = loop {
        let c = w.cut();
        let seq = w.at(0, c);
        RowHeader::order_second_cut();
        if c > n || !skip_above_n || w.cut() == c {
            break (c, seq);
        }
        thread::yield_now();
    };
    assert_eq!(c, seq, "the cut's version is gone");
    t.join().unwrap();
}
#[test]
fn restarted_above_n_holds() {
    holds(|| restarted(true, 2, false));
}
#[test]
fn restarted_without_second_cut_at_or_below_n_breaks() {
    breaks(None, || restarted(false, 2, false));
}
#[test]
fn restarted_many_commits_holds() {
    holds(|| restarted(true, 4, true));
}
#[test]
fn restarted_ignored_by_overwriting_breaks() {
    breaks(Some(Flaw::DeadUnderRestarted), || restarted(true, 4, true));
}
