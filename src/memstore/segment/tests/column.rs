//! What a column keeps for whom: snapshots, FSYNC commits in flight, several versions (P-C4, P-V3).

use super::*;
use std::collections::BTreeMap;

/// A small generator; the seed is in the failure message.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// One hot counter, its history, and who reads.
struct Hot<'s> {
    segment: &'s Segment,
    column: ColumnRef<'s>,
    keep: Keep,
    seq: u64,
    durable: u64,
    /// Everything ever written: number to value.
    history: BTreeMap<u64, i64>,
    points: Vec<u64>,
}

impl<'s> Hot<'s> {
    fn new(segment: &'s Segment, keep: Keep) -> Self {
        let column = counter(segment, b"hot", b"q").unwrap();
        Self { segment, column, keep, seq: 0, durable: 0, history: BTreeMap::new(), points: Vec::new() }
    }
    fn commit(&mut self, fsync: bool) {
        // A commit on top of a waiting one takes its level.
        let header = self.column.row().header();
        let fsync = fsync || !header.cut(|_| 0, || self.durable).complete;
        let latest = self.points.last().copied().unwrap_or(0);
        let plan = self.column.plan_increment(self.keep, latest, self.durable, |f| f(&self.points, false));
        let spare = (plan == Plan::Push).then(|| self.segment.new_copy(0).unwrap());
        self.seq += 1;
        self.column.apply_increment(self.seq, self.seq * 100, self.seq as i64 * 3, plan, spare);
        header.mark(self.seq, fsync, self.durable);
        self.history.insert(self.seq, self.seq as i64 * 3);
    }
    fn kept(&self) -> usize {
        self.keep.versions() as usize
    }
    fn check(&self) {
        let cut = self.column.row().header().cut(|_| 0, || self.durable).seq;
        for at in self.points.iter().copied().chain([cut]) {
            let mut all = Vec::new();
            self.column.collect(&Wanted::everything(at), &mut all);
            all.sort_by_key(|v| std::cmp::Reverse(v.seq));
            let got: Vec<_> = all.iter().map(|v| (v.seq, v.value.as_counter().unwrap())).collect();
            let want: Vec<_> = self.history.range(..=at).rev().take(self.kept()).map(|(&n, &v)| (n, v)).collect();
            assert_eq!(got[..want.len()], want[..], "at {at}");
            let first = want.first().map_or(Content::Empty, |&(seq, value)| Content::Counter { seq, ts: seq * 100, value });
            assert_eq!(self.column.read(at), first, "at {at}");
        }
    }
    /// Commits of FSYNC level whose sync is still out.
    fn waiting(&self) -> u64 {
        self.seq.saturating_sub(self.column.row().header().cut(|_| 0, || self.durable).seq)
    }
}

#[test]
fn a_hot_counter_alone_needs_no_list() {
    let s = segment();
    let mut hot = Hot::new(&s, Keep::Newest);
    let before = s.allocated_bytes();
    for _ in 0..1_000_000 {
        hot.commit(false);
        hot.history.clear();
    }
    assert_eq!((hot.column.list_len(), s.allocated_bytes()), (0, before));
}

// A marker took the increment at 900 out, and counting began again below it: the replay needs it, since it had pushed out the one at 800.
#[test]
fn an_increment_that_no_later_one_outranks_is_kept() {
    let s = segment();
    let column = counter(&s, b"hot", b"q").unwrap();
    let mut plans = Vec::new();
    for (seq, ts) in [(1, 800), (2, 900), (4, 10), (5, 11), (6, 12), (7, 901), (8, 902)] {
        let plan = column.plan_increment(Keep::Newest, 0, 0, |f| f(&[], false));
        let spare = (plan == Plan::Push).then(|| s.new_copy(0).unwrap());
        column.apply_increment(seq, ts, seq as i64, plan, spare);
        column.row().header().mark(seq, false, 0);
        plans.push(plan == Plan::InPlace);
    }
    // The fourth call would have written over 900; from 901 on nothing needs it any more.
    assert_eq!(plans, [true, true, true, false, true, true, true]);
    let mut all = Vec::new();
    column.collect(&Wanted::everything(u64::MAX), &mut all);
    assert!(all.iter().any(|v| v.ts == 900), "{all:?}");
}

// C4: a million increments, snapshots that come and go, D that lags: the list stays as long as its readers are many.
#[test]
fn a_hot_counters_list_is_bounded_by_its_readers() {
    for keep in [Keep::Newest, Keep::Versions(3)] {
        let s = segment();
        let mut hot = Hot::new(&s, keep);
        let (mut random, mut longest) = (Random(1), 0);
        let n = if keep == Keep::Newest { 1_000_000 } else { 300_000 };
        for i in 0..n {
            match random.below(64) {
                0 if hot.points.len() < 5 => hot.points.push(hot.seq),
                1 | 2 if !hot.points.is_empty() => {
                    hot.points.remove(random.below(hot.points.len() as u64) as usize);
                }
                3..=9 => hot.durable = hot.durable.max(hot.seq.saturating_sub(random.below(8))),
                _ => {}
            }
            // FSYNC commits come in phases, at most 16 in flight.
            let fsync = i / 1000 % 2 == 0;
            if hot.waiting() > 16 {
                hot.durable = hot.seq - 4;
            }
            hot.commit(fsync);
            longest = longest.max(hot.column.list_len());
            if random.below(50) == 0 {
                hot.check();
            }
            if hot.history.len() > 40_000 {
                let oldest = hot.points.first().copied().unwrap_or(hot.seq).min(hot.seq - hot.waiting());
                hot.history = hot.history.split_off(&oldest.saturating_sub(10));
            }
        }
        hot.check();
        // Five points, each of `kept` versions, 17 in flight, and what was still needed when the list was longest.
        let bound = 6 * hot.kept() + 20;
        assert!(longest <= bound, "{keep:?}: a list of {longest} cells, bound {bound}");
    }
}

// More read points than intervals are looked at in one walk.
#[test]
fn many_points_are_served_in_several_walks() {
    for keep in [Keep::Newest, Keep::Versions(2)] {
        let s = segment();
        let mut hot = Hot::new(&s, keep);
        for i in 0..1200u64 {
            hot.commit(false);
            hot.points.push(hot.seq);
            if hot.points.len() > 150 {
                hot.points.remove(if i % 2 == 0 { 0 } else { 75 });
            }
        }
        hot.check();
        let bound = 150 * hot.kept() + 4;
        assert!(hot.column.list_len() <= bound, "{keep:?}: {} cells, bound {bound}", hot.column.list_len());
    }
}

#[test]
fn random_histories_keep_what_is_needed() {
    for seed in 0..400 {
        let keep = if seed % 2 == 0 { Keep::Newest } else { Keep::Versions(1 + seed as u32 % 5) };
        let s = segment();
        let mut hot = Hot::new(&s, keep);
        let mut random = Random(seed);
        for _ in 0..120 {
            match random.below(8) {
                0 => hot.points.push(hot.seq),
                1 if !hot.points.is_empty() => {
                    hot.points.remove(random.below(hot.points.len() as u64) as usize);
                }
                2 => hot.durable = hot.durable.max(random.below(hot.seq + 1)),
                3 => hot.commit(true),
                _ => hot.commit(false),
            }
            hot.check();
        }
    }
}

#[test]
fn all_versions_are_kept_when_the_family_keeps_more_than_is_trimmed() {
    let s = segment();
    let mut hot = Hot::new(&s, Keep::Versions(u32::MAX));
    (0..3000).for_each(|_| hot.commit(false));
    hot.check();
    assert_eq!(hot.column.list_len(), 2998);
}

#[test]
fn deleted_cells_of_a_family_that_keeps_them_are_not_overwritten() {
    let s = segment();
    let mut hot = Hot::new(&s, Keep::Versions(1));
    (0..3).for_each(|_| hot.commit(false));
    hot.seq += 1;
    hot.column.push(s.new_cell(&[], CellType::Delete, 0).unwrap(), hot.seq, 300);
    (0..5).for_each(|_| hot.commit(false));
    let mut all = Vec::new();
    hot.column.collect(&Wanted::everything(u64::MAX), &mut all);
    let mut numbers: Vec<_> = all.iter().map(|v| v.seq).collect();
    numbers.sort_unstable();
    assert_eq!(numbers[numbers.len() - 7..], [3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_busy_registry_or_a_restarted_read_means_a_push() {
    let s = segment();
    let mut hot = Hot::new(&s, Keep::Newest);
    (0..4).for_each(|_| hot.commit(true));
    assert_eq!(hot.column.list_len(), 2);
    hot.durable = 4;
    let plan = |latest, points: &dyn Fn(crate::memstore::PointsUser<'_>)| hot.column.plan_increment(Keep::Newest, latest, 4, points);
    assert_eq!(plan(u64::MAX, &|_| {}), Plan::Push, "registry busy");
    assert_eq!(plan(u64::MAX, &|f| f(&[], true)), Plan::Push, "restarted read");
    assert!(matches!(plan(u64::MAX, &|f| f(&[], false)), Plan::OverwriteDead(_)));
    assert!(matches!(plan(u64::MAX, &|f| f(&[1], false)), Plan::OverwriteDead(_)), "point 1 needs 1, not 2");
    assert_eq!(plan(u64::MAX, &|f| f(&[1, 2], false)), Plan::Push, "both copies are needed");
    assert_eq!(plan(2, &|_| panic!("not asked")), Plan::InPlace, "3 is above every point, 4 is durable");
    assert_eq!(
        hot.column.plan_increment(Keep::Newest, 2, 3, |f| f(&[], false)).clone(),
        hot.column.plan_increment(Keep::Newest, 2, 3, |f| f(&[], false))
    );
}

// Puts with timestamps of their own between increments, several versions kept, no markers: the best n by (timestamp, number) stay.
#[test]
fn puts_between_increments_count_as_versions() {
    for seed in 0..300 {
        let s = segment();
        let c = counter(&s, b"r", b"q").unwrap();
        let mut random = Random(seed);
        let kept = 1 + seed as usize % 3;
        let mut all: Vec<(u64, u64)> = Vec::new();
        let mut points: Vec<u64> = Vec::new();
        for seq in 1..60 {
            let live = all.iter().max().map_or(0, |k| k.0);
            match random.below(5) {
                0 => {
                    let ts = 1 + random.below(live + 20);
                    put(&s, c, seq, ts, b"12345678");
                    all.push((ts, seq));
                }
                1 => points.push(seq - 1),
                2 if !points.is_empty() => {
                    points.remove(0);
                }
                _ => {
                    let latest = points.last().copied().unwrap_or(0);
                    let plan = c.plan_increment(Keep::Versions(kept as u32), latest, 0, |f| f(&points, false));
                    let spare = (plan == Plan::Push).then(|| s.new_copy(0).unwrap());
                    c.apply_increment(seq, live + 1, 0, plan, spare);
                    c.row().header().mark(seq, false, 0);
                    all.push((live + 1, seq));
                }
            }
            let cut = cut_of(c).seq;
            for at in points.iter().copied().chain([cut]) {
                let best = |mut keys: Vec<(u64, u64)>| {
                    keys.sort_unstable_by(|a, b| b.cmp(a));
                    keys.truncate(kept);
                    keys
                };
                let want = best(all.iter().copied().filter(|k| k.1 <= at).collect());
                let mut got = Vec::new();
                c.collect(&Wanted::everything(at), &mut got);
                assert_eq!(best(got.iter().map(|v| (v.ts, v.seq)).collect()), want, "seed {seed}, at {at}");
                let first = match c.read(at) {
                    Content::Empty => None,
                    Content::Counter { seq, ts, .. } => Some((ts, seq)),
                    Content::Cell(v) => Some((v.ts, v.seq)),
                    Content::Replay => panic!("no marker was pushed"),
                };
                assert_eq!(first, want.first().copied(), "seed {seed}, at {at}");
            }
        }
    }
}
