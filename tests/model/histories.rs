//! Every history of one column up to a length: a seal or a reopen after any of its calls changes no answer, and every answer is the model's.
//!
//! Calls: put, put at 5, put at 99, delete, delete at 99, delete the version at 99, increment; one version kept, and two. Each history has a row of its
//! own, so that many share a region; the calls of all histories are made side by side, and the seal or reopen between two calls serves all of them.

use crate::spec::{ALWAYS, At, Bounds, Change, Draft, End, Family, Keep, Model};
use region::clock::{ClockUnit, ManualClock};
use region::env::mem::MemEnv;
use region::mslab::{ChunkPool, PoolOptions};
use region::options::{FamilySpec, OpenFlags, ReadOptions, RegionOptions, WriteOptions};
use region::region::{CloseFlags, CommitInfo, Key, Op, Region};
use std::path::Path;
use std::sync::Arc;

/// What one call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    op: Op,
    ts: u64,
}

const STEPS: [Step; 7] = [
    Step { op: Op::Put, ts: 0 },
    Step { op: Op::Put, ts: 5 },
    Step { op: Op::Put, ts: 99 },
    Step { op: Op::Delete, ts: 0 },
    Step { op: Op::Delete, ts: 99 },
    Step { op: Op::DeleteVersion, ts: 99 },
    Step { op: Op::Increment, ts: 0 },
];

/// What happens between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    Nothing,
    Seal,
    Reopen,
}

/// All histories of `length` steps.
pub fn all(steps: &[Step], length: usize) -> Vec<Vec<Step>> {
    let mut histories = vec![Vec::new()];
    for _ in 0..length {
        histories = histories.iter().flat_map(|h| steps.iter().map(move |s| [h.as_slice(), &[*s]].concat())).collect();
    }
    histories
}

const FAMILIES: [usize; 2] = [1, 2];

pub struct Trial {
    env: MemEnv,
    pool: Arc<ChunkPool>,
    pub clock: Arc<ManualClock>,
    region: Option<Region>,
}

impl Trial {
    pub fn new(now: u64) -> Self {
        let pool = ChunkPool::new(PoolOptions { chunk_size: 64 << 10, max_bytes: 512 << 20, ..PoolOptions::default() }).unwrap();
        let clock = Arc::new(ManualClock::new(now, ClockUnit::Millis));
        let mut trial = Self { env: MemEnv::new(), pool, clock, region: None };
        trial.open();
        trial
    }
    fn open(&mut self) {
        let families = FAMILIES.map(|n| FamilySpec { max_versions: n as u32, ..FamilySpec::named(format!("keeps{n}")) });
        let options = RegionOptions {
            flags: OpenFlags { create: true, ..OpenFlags::default() },
            clock_unit: Some(ClockUnit::Millis),
            families: families.to_vec(),
            config: "sync_interval_ms=3600000,wal_segment_bytes=1m,wal_bytes_max=256m".into(),
            ..RegionOptions::default()
        };
        let (env, pool, clock) = (Arc::new(self.env.clone()), Some(Arc::clone(&self.pool)), Arc::clone(&self.clock));
        self.region = Some(Region::open_with_clock(env, Path::new("/r"), options, pool, clock).unwrap());
    }
    pub fn between(&mut self, what: Between) {
        match what {
            Between::Nothing => {}
            Between::Seal => self.region().seal().unwrap(),
            Between::Reopen => {
                let region = self.region.take().unwrap();
                region.close(CloseFlags::default(), crate::world::LONG).unwrap();
                drop(region);
                self.open();
            }
        }
    }
    pub fn region(&self) -> &Region {
        self.region.as_ref().unwrap()
    }
    /// Makes one call; its answer (an increment's) and commit.
    fn call(&self, row: &[u8], family: u32, step: Step, value: i64) -> (i64, CommitInfo) {
        let o = WriteOptions { timestamp: step.ts, ..WriteOptions::DEFAULT };
        let mut info = CommitInfo::default();
        let answer = match step.op {
            Op::Put => self.region().put(row, family, b"q", &value.to_be_bytes(), &o, &mut info).map(|()| 0).unwrap(),
            Op::Increment => self.region().increment(row, family, b"q", 1, &o, &mut info).unwrap().value,
            op => self.region().delete(row, family, b"q", op, &o, &mut info).map(|()| 0).unwrap(),
        };
        (answer, info)
    }
    /// What the column shows: the newest version, and each timestamp asked for by itself.
    pub fn shown(&self, row: &[u8], family: u32, times: &[u64]) -> Vec<Option<(Vec<u8>, u64)>> {
        let get = |o: ReadOptions| {
            let mut sink = crate::calls::Bytes::default();
            let found = self.region().get(None, &o, Key { family, row, qual: b"q" }, &mut sink).unwrap();
            found.map(|f| (sink.0, f.timestamp))
        };
        let at = |ts| get(ReadOptions { min_ts: ts, max_ts: ts + 1, ..ReadOptions::DEFAULT });
        [get(ReadOptions::DEFAULT)].into_iter().chain(times.iter().map(|&ts| at(ts))).collect()
    }
}

/// A history's row: its model beside the engine's.
struct Row<'h> {
    history: &'h [Step],
    name: Vec<u8>,
    model: Model,
}

impl Row<'_> {
    /// Compares what the column shows: its newest version, and each of its timestamps asked for by itself.
    fn compare(&self, trial: &Trial, family: u32, now: u64, told: &dyn Fn() -> String) {
        let column = &self.model.columns[&(self.name.clone(), family, b"q".to_vec())];
        let mut times: Vec<u64> = column.iter().map(|c| c.ts).collect();
        times.sort_unstable();
        times.dedup();
        let at = At { cut: u64::MAX - 1, now };
        let first = |range| self.model.shown(&self.name, family, b"q", at, &range).into_iter().next().map(|c| (c.value.to_vec(), c.ts));
        let expected: Vec<_> = [first(ALWAYS)].into_iter().chain(times.iter().map(|&ts| first(ts..ts + 1))).collect();
        assert_eq!(trial.shown(&self.name, family, &times), expected, "{} (times {times:?})", told());
    }
}

/// Runs `histories` side by side, the clock one further at each call, `what` happening after call `after`; compares every answer with the model's, which knows
/// of neither seals nor reopens.
fn compare(histories: &[Vec<Step>], after: usize, what: Between) {
    let mut trial = Trial::new(CLOCK);
    let mut model = Model::default();
    for (i, &max) in FAMILIES.iter().enumerate() {
        model.families.insert(i as u32 + 1, Family { max, min: 0, ttl: None, keep: Keep::No, past: Vec::new() });
    }
    let row = |(h, history)| Row { history, name: format!("{h:05}").into_bytes(), model: model.clone() };
    let mut rows: Vec<Row<'_>> = histories.iter().map(Vec::as_slice).enumerate().map(row).collect();
    for i in 0..histories[0].len() {
        trial.clock.advance(1);
        let now = CLOCK + i as u64 + 1;
        for row in &mut rows {
            let step = row.history[i];
            for family in 1..=FAMILIES.len() as u32 {
                let value = 100 * (i as i64 + 1);
                let (answer, info) = trial.call(&row.name, family, step, value);
                let bytes = value.to_be_bytes().as_slice().into();
                let change = Change { op: step.op, family, qual: b"q".to_vec(), value: bytes, delta: 1, ts: step.ts };
                let (mut draft, bounds) = (Draft::default(), Bounds { flags: 0, min: 0, max: 0 });
                let end = row.model.run(&row.name, &[change], bounds, At { cut: u64::MAX - 1, now }, info.timestamp, &mut draft);
                row.model.write(&row.name, draft, info.seq);
                let history = row.history;
                let told = || format!("call {i} of {history:?}, family {family}, {what:?} after {after}");
                let End::Applied(answers) = end else { panic!("{}: {end:?}", told()) };
                assert_eq!(answer, answers[0].number(), "{}", told());
                row.compare(&trial, family, now, &told);
            }
        }
        if i == after {
            trial.between(what);
            for row in &rows {
                let told = || format!("{:?} after call {i} of {:?}", what, row.history);
                (1..=FAMILIES.len() as u32).for_each(|family| row.compare(&trial, family, now, &told));
            }
        }
    }
}

/// Where the clock begins: before and behind it lie 5 and 99.
const CLOCK: u64 = 10;

/// All histories of up to `most` calls; of each length every place for a seal or reopen.
pub fn up_to(most: usize) {
    for length in 1..=most {
        let histories = all(&STEPS, length);
        println!("{} histories of {length} calls", histories.len());
        compare(&histories, length, Between::Nothing);
        for after in 0..length {
            for what in [Between::Seal, Between::Reopen] {
                compare(&histories, after, what);
            }
        }
    }
}
