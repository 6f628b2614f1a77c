//! Loom models of the row header and the version slots, over the code itself. Each rule has a flaw that switches it off; loom must then find
//! the failure. Numbers are commit numbers; a version is right when value = 10 x number and timestamp = 100 x number.
//!
//! The writer is the model's first thread, readers are spawned. loom's partial-order reduction remembers one last access per word: where a thread
//! loads its own word and then stores it, an earlier load by another thread is forgotten and the race is not explored. A reader's loads
//! are compared with the last store, which is remembered. `holds` therefore also asks that loom had something to explore.
//!
//! One file, although it is long: all models share one small world, and are read side by side with the rules they switch off.
//!
//! Run: RUSTFLAGS="--cfg loom" cargo test --release --lib memstore (LOOM_MAX_PREEMPTIONS overrides the bounds).

use super::super::flaw::{self, Flaw};
use super::super::row_header::RowHeader;
use super::*;
use crate::ids::ReadPoint;
use crate::mvcc::ReadPoints;
use crate::sync::{Arc, Mutex, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn bounded(preemptions: usize, f: impl Fn() + Sync + Send + 'static) -> usize {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(std::env::var("LOOM_MAX_PREEMPTIONS").ok().and_then(|s| s.parse().ok()).unwrap_or(preemptions));
    b.max_branches = 20_000;
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&runs);
    b.check(move || {
        counted.fetch_add(1, Relaxed);
        f();
    });
    runs.load(Relaxed)
}

fn holds(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let runs = bounded(preemptions, f);
    assert!(runs > 10, "loom explored {runs} runs: the model's threads do not meet");
}

fn breaks(flaw: Option<Flaw>, f: impl Fn() + Sync + Send + 'static) {
    let mut found = false;
    flaw::with(flaw, || found = catch_unwind(AssertUnwindSafe(|| bounded(3, f))).is_err());
    assert!(found, "loom found nothing although the rule is switched off");
}

/// `reader` in a thread of its own, `writer` here.
fn beside<T: Send + Sync + 'static>(shared: &Arc<T>, reader: impl FnOnce(&T) + Send + 'static, writer: impl FnOnce(&T)) {
    let s = Arc::clone(shared);
    let t = thread::spawn(move || reader(&s));
    writer(shared);
    t.join().unwrap();
}

/// A row with one more column than it needs, what the log and the registry know, and room for copies.
struct World {
    header: RowHeader,
    chain: Chain,
    other: (Slots, Chain),
    /// The append lock and the last number.
    last: Mutex<u64>,
    durable: AtomicU64,
    flag: AtomicU64,
    busy: AtomicU64,
    points: ReadPoints,
    spares: [CopyCell; 6],
    /// A put and a final marker.
    pushed: [ListCell; 2],
    used: AtomicU64,
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
            last: Mutex::new(last),
            durable: AtomicU64::new(0),
            flag: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            points: ReadPoints::new(),
            spares: std::array::from_fn(|_| CopyCell::new()),
            pushed: [(CellType::Put, false), (CellType::Delete, true)].map(|(kind, is_final)| ListCell::of_kind(kind, is_final, 0)),
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
        let latest = self.points.latest();
        self.column(i).plan(&self.header, keep, latest, self.durable.load(Acquire), Markers::default, |f| {
            self.points.with_points(|points, restarted| f(points, restarted));
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
        let n = {
            let mut last = self.last.lock();
            *last += 1;
            *last
        };
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
    /// A commit that pushes a cell to the first column.
    fn push(&self, cell: usize) {
        let mut last = self.last.lock();
        *last += 1;
        // SAFETY: in `self`, which lives as long as the chain, and pushed once.
        unsafe { self.column(0).push(NonNull::from(&self.pushed[cell]), *last, 100 * *last) };
        self.header.mark(*last, false, 0);
    }
    /// Reads the first column at `cut`, where it has markers: the number of what is shown.
    fn marked(&self, cut: u64) -> u64 {
        match self.column(0).read_marked(cut, Over::default()) {
            Marked::Closed(None) => 0,
            Marked::Closed(Some(v)) | Marked::Best(v) => {
                let value = VersionValue::Counter(10 * v.seq as i64);
                assert!(v.ts == 100 * v.seq && v.value == value, "torn version {v:?}");
                v.seq
            }
            Marked::Replay => panic!("the marker is final"),
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
    /// Opens a snapshot; `late` announces it after the append lock is released under which it read its number.
    fn open(&self, late: bool) -> u64 {
        let point = self.points.open(0, |announce| {
            let last = self.last.lock();
            if !late {
                return announce(*last);
            }
            let n = *last;
            drop(last);
            announce(n)
        });
        while self.busy.load(Acquire) == 1 {
            thread::yield_now();
        }
        point.0
    }
    /// Points that are held before the model begins.
    fn hold(&self, points: &[u64]) {
        for n in points {
            self.points.open(0, |announce| announce(*n));
        }
    }
}

// ---- two slots used in turn: a get sees a whole version, never an older one than had completed (V1 V2 V4 C4)

fn column() {
    let reader = |w: &World| {
        let before = w.cut();
        let (c, seq) = w.get();
        assert!(seq == c && c >= before, "cut {c} shows {seq}; {before} had completed");
    };
    beside(&World::new(1, u64::MAX, &[]), reader, |w| (2..=3).for_each(|_| w.commit(1, Keep::Newest, false)));
}
#[test]
fn column_holds() {
    holds(2, column);
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
fn row_read(second_cut: bool, commits: usize) {
    let reader = move |w: &World| {
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
    };
    beside(&World::new(2, u64::MAX, &[]), reader, |w| (0..commits).for_each(|_| w.commit(2, Keep::Newest, false)));
}
#[test]
fn row_read_holds() {
    holds(2, || row_read(true, 1));
    holds(1, || row_read(true, 2));
}
#[test]
fn row_read_without_second_cut_breaks() {
    breaks(None, || row_read(false, 2));
}

// ---- the header: a commit over two rows appears at once, FSYNC commits appear with D (V1 V2 V5)

/// Two rows, the flag word of commit slot 3, D.
type TwoRows = ([RowHeader; 2], AtomicU64, AtomicU64);

fn two_rows_cut(s: &TwoRows, row: usize) -> u64 {
    let flag = |slot| {
        assert_eq!(slot, 3);
        s.1.load(Acquire)
    };
    s.0[row].cut(flag, || s.2.load(Acquire)).seq
}

fn two_rows_commit(s: &TwoRows, n: u64, fsync: bool) {
    s.0.iter().for_each(|h| h.set_pending(3, n));
    s.1.store(n << 1 | u64::from(fsync), Release); // here it happens
    for h in &s.0 {
        h.mark(n, fsync, s.2.load(Acquire));
        h.clear_pending();
    }
}

fn two_rows(fsync: bool) {
    let s: Arc<TwoRows> = Arc::new(([RowHeader::new(), RowHeader::new()], AtomicU64::new(0), AtomicU64::new(0)));
    let s2 = Arc::clone(&s);
    let sync = fsync.then(|| thread::spawn(move || s2.2.store(5, Release)));
    let reader = |s: &TwoRows| {
        let (a, b) = (two_rows_cut(s, 0), two_rows_cut(s, 1));
        assert!(a == 0 || b == 5, "seen on the first row, then not on the second");
    };
    beside(&s, reader, |s| two_rows_commit(s, 5, fsync));
    if let Some(t) = sync {
        t.join().unwrap();
    }
    assert_eq!(two_rows_cut(&s, 1), 5);
}
#[test]
fn two_rows_hold() {
    holds(2, || two_rows(false));
}
#[test]
fn two_rows_fsync_hold() {
    holds(2, || two_rows(true));
}
#[test]
fn two_rows_applied_before_pending_breaks() {
    breaks(Some(Flaw::AppliedFirst), || two_rows(false));
}

// Commit 1 of SYNC level, never synced; 2 and 3 of FSYNC level wait: 1 is always shown, and beyond D nothing else.
fn waiting_on_top() {
    let w = World::new(1, u64::MAX, &[]);
    let reader = |w: &World| {
        let d = w.durable.load(Acquire);
        let c = w.cut();
        assert!(c >= 1 && c >= d.min(2), "V1: {c}, D was {d}");
        assert!(c <= w.durable.load(Acquire).max(1), "V5: {c}");
    };
    beside(&w, reader, |w| {
        w.header.mark(2, true, w.durable.load(Acquire));
        w.durable.store(2, Release);
        w.header.mark(3, true, w.durable.load(Acquire));
    });
    assert_eq!(w.cut(), 2);
}
#[test]
fn waiting_on_top_holds() {
    holds(3, waiting_on_top);
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
    holds(2, || {
        let w = World::new(0, 0, &[]);
        w.header.mark(1, true, 0);
        let w2 = Arc::clone(&w);
        let sync = thread::spawn(move || (1..=2).for_each(|d| w2.durable.store(d, Release)));
        let reader = |w: &World| {
            let d = w.durable.load(Acquire);
            let c = w.cut();
            assert!(c >= d.min(1), "V1");
            assert!(c <= w.durable.load(Acquire), "V5");
        };
        beside(&w, reader, |w| w.header.mark(2, true, w.durable.load(Acquire)));
        sync.join().unwrap();
    });
}

// A commit slot's flag word serves commits 1 and 2 over the same two rows; it is never cleared.
fn flag_again() {
    let s: Arc<TwoRows> = Arc::new(([RowHeader::new(), RowHeader::new()], AtomicU64::new(0), AtomicU64::new(0)));
    let reader = |s: &TwoRows| {
        let (a, b) = (two_rows_cut(s, 0), two_rows_cut(s, 1));
        assert!(b >= a, "seen on the first row, then not on the second");
    };
    beside(&s, reader, |s| (1..=2).for_each(|n| two_rows_commit(s, n, false)));
    assert_eq!((two_rows_cut(&s, 0), two_rows_cut(&s, 1)), (2, 2));
}
#[test]
fn flag_again_holds() {
    holds(3, flag_again);
}

// Commit 2 of SYNC level took over the flag word of commit 1 of FSYNC level, whose `pending` a reader still sees: nothing of 1 may be shown.
fn flag_of_another() {
    let w = World::new(0, 0, &[]);
    w.header.set_pending(0, 1);
    w.flag.store(1 << 1 | 1, Release);
    let reader = |w: &World| assert_eq!(w.cut(), 0, "V5: shown before its sync, or with a foreign number");
    beside(&w, reader, |w| {
        w.header.mark(1, true, 0);
        w.header.clear_pending();
        w.flag.store(2 << 1, Release); // the slot's next commit, of other rows
    });
}
#[test]
fn flag_of_another_holds() {
    holds(3, flag_of_another);
}
#[test]
fn flag_without_number_breaks() {
    breaks(Some(Flaw::FlagNumber), flag_of_another);
}

// ---- snapshot open against reuse of slots; whether a slot is reused is decided before the number (V3 V4 C4)

fn snapshot(late: bool) {
    let reader = move |w: &World| {
        let point = w.open(late);
        assert_eq!(w.at(0, point), point, "the snapshot's version is gone");
    };
    beside(&World::new(2, u64::MAX, &[]), reader, |w| (0..2).for_each(|_| w.commit(1, Keep::Newest, false)));
}
#[test]
fn snapshot_holds() {
    holds(3, || snapshot(false));
}
#[test]
fn snapshot_announced_after_the_append_lock_breaks() {
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
    let reader = |w: &World| {
        let (c, seq) = w.get();
        assert!((1..=2).contains(&c) && seq == c, "cut {c} shows {seq}");
    };
    beside(&w, reader, |w| w.commit(1, Keep::Newest, true));
    sync.join().unwrap();
    assert_eq!(w.get(), (2, 2));
}
#[test]
fn dead_beside_get_holds() {
    holds(2, dead_beside_get);
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
    let reader = |w: &World| {
        let (c, mut best) = loop {
            let c = w.cut();
            let mut all = Vec::new();
            w.column(0).collect(&Wanted::everything(c), &mut all);
            RowHeader::order_second_cut();
            if w.cut() == c {
                break (c, all.iter().map(|v| (v.seq, v.ts)).collect::<Vec<_>>());
            }
            thread::yield_now();
        };
        best.sort_unstable_by(|a, b| b.cmp(a));
        best.truncate(2);
        assert_eq!(best, [(c, 100 * c), (c - 1, 100 * (c - 1))], "the best two at {c}");
    };
    beside(&w, reader, |w| (0..2).for_each(|_| w.commit(1, Keep::Versions(2), false)));
    assert_eq!(w.column(0).list_len(), 1, "C4");
}
#[test]
fn dead_without_sync_holds() {
    holds(2, dead_without_sync);
}

// A point at 1 is registered, a snapshot opens: both see their version, while dead cells are overwritten.
fn dead_beside_snapshot(late: bool, commits: usize) {
    let w = World::new(3, u64::MAX, &[1]);
    w.hold(&[1]);
    let see = |w: &World, point| {
        assert_eq!(w.at(0, point), point, "the snapshot's version is gone");
        assert_eq!(w.at(0, 1), 1, "the older snapshot's version is gone");
    };
    beside(
        &w,
        move |w| {
            let point = w.open(late);
            see(w, point);
        },
        |w| (0..commits).for_each(|_| w.commit(1, Keep::Newest, false)),
    );
    let point = w.points.latest();
    see(&w, point);
}
#[test]
fn dead_beside_snapshot_holds() {
    holds(2, || dead_beside_snapshot(false, 2));
}
#[test]
fn dead_beside_snapshot_points_ignored_breaks() {
    breaks(Some(Flaw::DeadUnderPoint), || dead_beside_snapshot(false, 2));
}

// A writer copies the version of the last snapshot, and copies again, while the next one opens and then the last one closes: whose versions are
// dead is judged by points that change.
fn dead_while_points_change(late: bool, closes: bool) {
    let w = World::new(3, u64::MAX, &[1, 2]);
    w.hold(&[2]);
    let reader = move |w: &World| {
        let point = w.open(late);
        assert_eq!(w.at(0, point), point, "the snapshot's version is gone");
        assert_eq!(w.at(0, 2), 2, "the older snapshot's version is gone");
        if closes {
            w.points.close(ReadPoint(2));
            assert_eq!(w.at(0, point), point, "the snapshot's version is gone");
        }
    };
    beside(&w, reader, |w| (0..3).for_each(|_| w.commit(1, Keep::Newest, false)));
}
#[test]
fn dead_while_points_change_holds() {
    holds(2, || dead_while_points_change(false, false));
    holds(1, || dead_while_points_change(false, true));
}
#[test]
fn dead_while_a_point_is_announced_late_breaks() {
    breaks(None, || dead_while_points_change(true, false));
}

// Points at 2 and 3; slots 3 and 4, list 2, 1. The next commit copies 3 over 1, behind 2.
fn dead_in_the_middle() {
    let w = World::new(4, u64::MAX, &[1, 2]);
    w.hold(&[2, 3]);
    let reader = |w: &World| {
        assert_eq!(w.at(0, 3), 3, "list order was believed");
        assert_eq!(w.at(0, 2), 2);
    };
    beside(&w, reader, |w| w.commit(1, Keep::Newest, false));
    assert_eq!(w.column(0).list_len(), 2);
}
#[test]
fn dead_in_the_middle_holds() {
    holds(3, dead_in_the_middle);
}
#[test]
fn dead_in_the_middle_without_tag_breaks() {
    breaks(Some(Flaw::OrderTag), dead_in_the_middle);
}

// ---- a reader's walk ends at the newest final marker (P13)

// Slots 2 and 3, copy of 1; a put 4, a final marker 5; increments 6 and 7, a point at 6. Commit 8 copies 6: the copy of 1 is dead, and behind the put,
// where a reader of the point does not come.
fn behind_a_final_marker() {
    let w = World::new(3, u64::MAX, &[1]);
    w.push(0);
    w.push(1);
    (0..2).for_each(|_| w.commit(1, Keep::Newest, false));
    w.hold(&[6]);
    let reader = |w: &World| assert_eq!(w.marked(6), 6, "the snapshot's version is gone");
    beside(&w, reader, |w| (0..2).for_each(|_| w.commit(1, Keep::Newest, false)));
    assert_eq!((w.marked(5), w.marked(6), w.marked(9)), (0, 6, 9));
}
#[test]
fn behind_a_final_marker_holds() {
    holds(3, behind_a_final_marker);
}
#[test]
fn dead_behind_a_final_marker_breaks() {
    breaks(Some(Flaw::DeadBehindFinal), behind_a_final_marker);
}

// ---- the restarted read: registered, N = last; a cut above N needs no second cut (P5)

fn register_restarted(w: &World) -> u64 {
    std::mem::forget(w.points.register_restarted());
    *w.last.lock()
}

fn restarted(skip_above_n: bool, commits: usize, registered_before: bool) {
    let w = World::new(3, u64::MAX, &[1]);
    let early = registered_before.then(|| register_restarted(&w));
    let reader = move |w: &World| {
        let n = early.unwrap_or_else(|| register_restarted(w));
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
    };
    beside(&w, reader, |w| (0..commits).for_each(|_| w.commit(1, Keep::Newest, false)));
}
#[test]
fn restarted_above_n_holds() {
    holds(2, || restarted(true, 2, false));
}
#[test]
fn restarted_without_second_cut_at_or_below_n_breaks() {
    breaks(None, || restarted(false, 2, false));
}
#[test]
fn restarted_many_commits_holds() {
    holds(1, || restarted(true, 3, true));
}
#[test]
fn restarted_ignored_by_overwriting_breaks() {
    breaks(Some(Flaw::DeadUnderRestarted), || restarted(true, 4, true));
}
