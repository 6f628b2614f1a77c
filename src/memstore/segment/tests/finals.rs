//! Final markers: what a reader is shown who stops at them, against a replay of everything; and how far it goes (P13, P-C4).

use super::column::Random;
use super::*;
use crate::hooks::cells_visited;
use crate::merge::visibility::{ALWAYS, Rules, Version, replay};

type Told = Vec<(u64, u64)>;

/// One column, everything that was ever written to it, and who reads.
struct Trial<'s> {
    segment: &'s Segment,
    column: ColumnRef<'s>,
    kept: u32,
    history: Vec<Version<()>>,
    points: Vec<u64>,
    seq: u64,
    /// Largest timestamp above its commit's tick.
    ahead: u64,
}

impl<'s> Trial<'s> {
    fn new(segment: &'s Segment, kept: u32) -> Self {
        let column = counter(segment, b"r", b"q").unwrap();
        Self { segment, column, kept, history: Vec::new(), points: Vec::new(), seq: 0, ahead: 0 }
    }
    /// The row's ticks are ten times its numbers.
    fn next(&mut self) -> u64 {
        self.seq += 1;
        10 * self.seq
    }
    fn wrote(&mut self, ts: u64, kind: CellType) {
        self.history.push(Version { seq: self.seq, ts, kind, value: () });
        self.column.row().header().mark(self.seq, false, 0);
        if !kind.is_marker() && ts > 10 * self.seq {
            self.segment.note_ahead(self.column.row(), ts, 0).unwrap();
            self.ahead = self.ahead.max(ts);
            assert_eq!(self.column.row().ahead(), self.ahead);
        }
    }
    fn shown(&self, at: u64) -> Told {
        let mut cells: Vec<_> = self.history.iter().copied().filter(|v| v.seq <= at).collect();
        replay(&mut cells, &Rules::versions(self.kept), &ALWAYS);
        cells.iter().map(|v| (v.seq, v.ts)).collect()
    }
    fn increment(&mut self) {
        let live = self.shown(u64::MAX).first().map_or(0, |v| v.1);
        let latest = self.points.last().copied().unwrap_or(0);
        let plan = self.column.plan_increment(Keep::of(self.kept), latest, 0, |f| f(&self.points, false));
        let spare = (plan == Plan::Push).then(|| self.segment.new_copy(0).unwrap());
        let ts = self.next().max(live + 1);
        self.column.apply_increment(self.seq, ts, 0, plan, spare);
        self.wrote(ts, CellType::Put);
    }
    fn put(&mut self, ts: Option<u64>) {
        let tick = self.next();
        let ts = ts.unwrap_or(tick);
        self.column.push(self.segment.new_cell(b"v", CellType::Put, 0).unwrap(), self.seq, ts);
        self.wrote(ts, CellType::Put);
    }
    fn mark(&mut self, kind: CellType, ts: Option<u64>) {
        let tick = self.next();
        let ts = ts.unwrap_or(tick);
        let is_final = matches!(kind, CellType::Delete | CellType::DeleteFamily) && ts >= tick && ts >= self.ahead;
        if kind == CellType::DeleteFamily {
            self.column.row().push_marker(self.segment.new_row_marker(F, kind, is_final, 0).unwrap(), self.seq, ts);
        } else {
            self.column.push(self.segment.new_marker(kind, is_final, 0).unwrap(), self.seq, ts);
        }
        self.wrote(ts, kind);
    }
    /// What the column shows, best first, and the best alone where it can be told without a replay.
    fn read(&self, at: u64) -> (Told, Option<Option<(u64, u64)>>) {
        let mut markers = Vec::new();
        let row = self.column.row();
        let floor = row.collect_markers(F, at, &|_| true, &mut markers);
        let best = markers.is_empty().then_some(self.kept as usize);
        let mut all = Vec::new();
        self.column.collect(&Wanted { cut: at, floor, best, counts: &|_| true }, &mut all);
        let mut cells: Vec<_> = all.iter().map(|v| Version { seq: v.seq, ts: v.ts, kind: v.kind, value: () }).collect();
        cells.extend(markers.iter().map(|m| Version { seq: m.seq, ts: m.ts, kind: m.kind, value: () }));
        replay(&mut cells, &Rules::versions(self.kept), &ALWAYS);
        let alone = match self.column.read_marked(at, row.over(F, at)) {
            Marked::Closed(v) => Some(v.map(|v| (v.seq, v.ts))),
            Marked::Best(v) => Some(Some((v.seq, v.ts))),
            Marked::Replay => None,
        };
        (cells.iter().map(|v| (v.seq, v.ts)).collect(), alone)
    }
    fn check(&self, told: &str) {
        for at in self.points.iter().copied().chain([self.seq]) {
            let want = self.shown(at);
            let (shown, alone) = self.read(at);
            assert_eq!(shown, want, "{told}, at {at}: {:?}", self.history);
            if let Some(alone) = alone {
                assert_eq!(alone, want.first().copied(), "{told}, the best at {at}: {:?}", self.history);
            }
        }
    }
}

#[test]
fn random_histories_show_what_a_replay_shows() {
    for seed in 0..6_000 {
        let s = segment();
        let mut t = Trial::new(&s, [1, 1, 2, 3][seed as usize % 4]);
        let mut random = Random(seed);
        // Timestamps of the caller's are rare in some histories.
        let explicit = [2, 6, 40][seed as usize % 3];
        for _ in 0..50 {
            let now = 10 * t.seq + 10;
            let ts =
                (random.below(explicit) == 0).then(|| [1 + random.below(now), now + random.below(60), now + 1][random.below(3) as usize]);
            match random.below(16) {
                0 => t.points.push(t.seq),
                1 if !t.points.is_empty() => {
                    t.points.remove(random.below(t.points.len() as u64) as usize);
                }
                2..=3 => t.mark(CellType::Delete, ts),
                4 => t.mark(CellType::DeleteFamily, ts),
                5 if ts.is_some() => t.mark(CellType::DeleteVersion, ts),
                6..=8 => t.put(ts),
                _ => t.increment(),
            }
            t.check(&format!("seed {seed}"));
        }
    }
}

#[test]
fn a_walk_ends_at_the_newest_final_marker() {
    let s = segment();
    let mut t = Trial::new(&s, 1);
    for i in 0..3_000u64 {
        match i % 3 {
            0 => t.increment(),
            1 => t.put(None),
            _ => t.mark(if i % 2 == 0 { CellType::Delete } else { CellType::DeleteFamily }, None),
        }
        t.history.clear();
        let before = cells_visited();
        t.read(t.seq);
        let visited = cells_visited() - before;
        assert!(visited < 30, "{visited} cells looked at in call {i}");
    }
}

// Points keep copies alive; with a marker in each round the walk for a dead one ends as well, and no more copies come than points need.
#[test]
fn copies_stay_as_few_as_points_need() {
    for kept in [1, 3] {
        let s = segment();
        let mut t = Trial::new(&s, kept);
        t.increment();
        t.mark(CellType::Delete, None);
        t.points.push(t.seq);
        let before = t.column.list_len();
        for i in 0..3_000 {
            let before = cells_visited();
            t.increment();
            t.history.clear();
            let visited = cells_visited() - before;
            assert!(visited < 100, "{kept} versions: {visited} cells looked at in call {i}");
        }
        assert!(t.column.list_len() <= before + 8, "{kept} versions: {} cells", t.column.list_len());
    }
}
