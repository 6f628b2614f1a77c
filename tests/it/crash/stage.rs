//! A region in memory, what it holds, and the ledger of what was committed to it.

use crate::common::rng::Rng;
use region::clock::Timeout;
use region::env::Env;
use region::env::mem::MemEnv;
use region::error::Result;
use region::options::{Durability, FamilySpec, OpenFlags, ReadOptions, RegionOptions, WalIo, WriteOptions};
use region::region::{BatchOutcome, CloseFlags, CommitInfo, Mutation, Mutations, Op, Region, ScanSpec};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub const CF: u32 = 1;
pub const PATH: &str = "/r";
pub const IOS: [WalIo; 2] = [WalIo::Mapped, WalIo::Write];

/// An empty machine. Hooks tell regions apart by their random id, so tests that run side by side need different lanes.
pub fn machine(lane: u64) -> MemEnv {
    let env = MemEnv::new();
    for _ in 0..lane {
        env.random(&mut [0; 8]).unwrap();
    }
    env
}

/// Small segments and tables; no background sync, so that nothing is durable that the test did not ask for.
pub fn options(io: WalIo) -> RegionOptions {
    RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        wal_io: Some(io),
        sync_interval_ms: 3_600_000,
        config: "wal_segment_bytes=64k,lock_buckets=64".into(),
        ..RegionOptions::default()
    }
}
pub fn read_only(io: WalIo) -> RegionOptions {
    RegionOptions { flags: OpenFlags { read_only: true, ..OpenFlags::default() }, families: Vec::new(), ..options(io) }
}
pub fn open_with(env: &MemEnv, o: RegionOptions) -> Result<Region> {
    Region::open_in(Arc::new(env.clone()), Path::new(PATH), o, None, None)
}
pub fn open(env: &MemEnv, io: WalIo) -> Region {
    open_with(env, options(io)).unwrap()
}
pub fn close(r: &Region) {
    r.close(CloseFlags::default(), Timeout::from_micros(20_000_000)).unwrap();
}
pub fn at(level: Durability) -> WriteOptions {
    WriteOptions { durability: Some(level), ..WriteOptions::DEFAULT }
}
pub fn put(r: &Region, row: &[u8], value: &[u8], level: Durability) -> Result<CommitInfo> {
    let mut info = CommitInfo::default();
    r.put(row, CF, b"q", value, &at(level), &mut info)?;
    Ok(info)
}
pub fn inc(r: &Region, row: &[u8], delta: i64, level: Durability) -> Result<i64> {
    Ok(r.increment(row, CF, b"n", delta, &at(level), &mut CommitInfo::default())?.value)
}

/// One cell: value, timestamp, number of its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub value: Vec<u8>,
    pub ts: u64,
    pub seq: u64,
}
/// All a region shows, by row and qualifier.
pub type Content = BTreeMap<(Vec<u8>, Vec<u8>), Cell>;

pub fn content(r: &Region) -> Content {
    let mut all = Content::new();
    let mut scan = r.scanner(None, &ReadOptions::DEFAULT, &ScanSpec::default()).unwrap();
    while let Some(c) = scan.next().unwrap() {
        all.insert((c.row.to_vec(), c.qual.to_vec()), Cell { value: c.value.to_vec(), ts: c.timestamp, seq: c.seq });
    }
    all
}

/// A number of the recovery report.
pub fn reported(r: &Region, key: &str) -> u64 {
    number(&r.recovery_report().unwrap(), key)
}
pub fn number(report: &str, key: &str) -> u64 {
    let rest = report.split(&format!("\"{key}\":")).nth(1).unwrap_or_else(|| panic!("no {key} in {report}"));
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// Names and bytes of all files of the region but for the lock file, which names its holder. A file that its region's keeper renames meanwhile is left out
/// under the name that is gone.
pub fn files(env: &MemEnv) -> BTreeMap<String, Vec<u8>> {
    let names = env.list(Path::new(PATH)).unwrap();
    let bytes = |n: &String| match region::env::read_whole(env, &Path::new(PATH).join(n), 1 << 30) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        read => Some((n.clone(), read.unwrap())),
    };
    names.iter().filter(|n| *n != "LOCK").filter_map(bytes).collect()
}
/// Names of the log's files, by number.
pub fn segments(env: &MemEnv) -> Vec<String> {
    env.list(Path::new(PATH)).unwrap().into_iter().filter(|n| n.starts_with("wal.0")).collect()
}
/// Writes bytes into a file of the region.
pub fn scribble(env: &MemEnv, name: &str, offset: u64, bytes: &[u8]) {
    env.open(&Path::new(PATH).join(name), true).unwrap().write_all_at(bytes, offset).unwrap();
}
pub fn bytes_at(env: &MemEnv, name: &str, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    env.open(&Path::new(PATH).join(name), false).unwrap().read_exact_at(&mut bytes, offset).unwrap();
    bytes
}
/// What hooks of the region are told apart by.
pub fn hook_context(env: &MemEnv) -> u64 {
    let manifest = region::env::read_whole(env, &Path::new(PATH).join("MANIFEST"), 1 << 20).unwrap();
    let manifest = String::from_utf8_lossy(&manifest).into_owned();
    let digits = manifest.split("\"region\": \"").nth(1).and_then(|rest| rest.get(..16)).unwrap();
    u64::from_str_radix(digits, 16).unwrap().swap_bytes()
}

/// One step of a script.
#[derive(Clone, Debug)]
pub enum Step {
    Inc {
        row: u8,
        delta: i64,
        level: Durability,
    },
    Put {
        row: u8,
        len: usize,
        level: Durability,
    },
    Delete {
        row: u8,
        level: Durability,
    },
    /// The same amount to several counters at once.
    Batch {
        delta: i64,
        level: Durability,
    },
    /// Clean end of a life; the next step opens again.
    Reopen,
}

/// Row and qualifier.
pub type Column = (Vec<u8>, Vec<u8>);

/// A commit that was begun, with all it sets; number and timestamp are known once it has returned.
#[derive(Clone, Debug)]
pub struct Commit {
    pub level: Durability,
    pub sets: Vec<(Column, Option<Vec<u8>>)>,
    pub seq: u64,
    pub ts: u64,
}

/// All commits in order, and what the region shows after them.
#[derive(Clone, Default)]
pub struct Ledger {
    pub commits: Vec<Commit>,
    pub live: Content,
    /// So many of the log's commits are on stable storage, whatever their level: they were there when the region was opened.
    floor: usize,
}

const BATCH_ROWS: [&[u8]; 4] = [b"b0", b"b1", b"b2", b"b3"];

/// Operations of one atomic batch: row, qualifier, and what is added; None: deleted.
struct Batch(Vec<BatchOp>);
type BatchOp = (Vec<u8>, &'static [u8], Option<i64>);
impl Mutations for Batch {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        let (row, qual, delta) = &self.0[i];
        let op = if delta.is_some() { Op::Increment } else { Op::Delete };
        Mutation { op, family: CF, row, qual, value: b"", delta: delta.unwrap_or(0), timestamp: 0 }
    }
}

/// Runs it; counters must answer what they are expected to hold.
fn atomic(r: &Region, ops: &Batch, level: Durability, commit: &Commit, info: &mut CommitInfo) {
    let o = WriteOptions { flags: WriteOptions::ATOMIC, ..at(level) };
    let mut values = vec![None; ops.len()];
    let done = r.batch(ops, &o, info, &mut |i, x| values[i] = ops.0[i].2.map(|_| x.value.to_be_bytes().to_vec())).unwrap();
    assert!(matches!(done, BatchOutcome::Done));
    assert_eq!(values, commit.sets.iter().map(|s| s.1.clone()).collect::<Vec<_>>(), "P-C1");
}

impl Ledger {
    fn counter(&self, row: &[u8]) -> i64 {
        let cell = self.live.get(&(row.to_vec(), b"n".to_vec()));
        cell.map_or(0, |c| i64::from_be_bytes(c.value.as_slice().try_into().unwrap()))
    }
    /// Notes what the step will do.
    pub fn begin(&mut self, step: &Step) {
        let counter = |ledger: &Self, row: &[u8], delta: i64| {
            ((row.to_vec(), b"n".to_vec()), Some((ledger.counter(row) + delta).to_be_bytes().to_vec()))
        };
        let (level, sets) = match *step {
            Step::Inc { row, delta, level } => (level, vec![counter(self, &[b'c', row], delta)]),
            Step::Put { row, len, level } => {
                let mut rng = Rng(self.commits.len() as u64 + 1);
                let value = (0..len).map(|_| rng.next() as u8).collect();
                (level, vec![((vec![b'p', row], b"q".to_vec()), Some(value))])
            }
            Step::Delete { row, level } => (level, vec![((vec![b'p', row], b"q".to_vec()), None), counter(self, &[b'd', row], 1)]),
            Step::Batch { delta, level } => (level, BATCH_ROWS.iter().map(|row| counter(self, row, delta)).collect()),
            Step::Reopen => return,
        };
        self.commits.push(Commit { level, sets, seq: 0, ts: 0 });
    }
    /// Does the step, which has begun, and checks its answer against what was expected (P-C1).
    pub fn run(&mut self, r: &Region, step: &Step) {
        let commit = self.commits.last().unwrap().clone();
        let mut info = CommitInfo::default();
        match *step {
            Step::Inc { row, delta, level } => {
                let counted = r.increment(&[b'c', row], CF, b"n", delta, &at(level), &mut info).unwrap();
                assert_eq!(Some(counted.value.to_be_bytes().to_vec()), commit.sets[0].1, "P-C1: {step:?}");
            }
            Step::Put { row, level, .. } => {
                r.put(&[b'p', row], CF, b"q", commit.sets[0].1.as_ref().unwrap(), &at(level), &mut info).unwrap();
            }
            Step::Delete { row, level } => {
                let ops = Batch(vec![(vec![b'p', row], b"q", None), (vec![b'd', row], b"n", Some(1))]);
                atomic(r, &ops, level, &commit, &mut info);
            }
            Step::Batch { delta, level } => {
                let ops = Batch(BATCH_ROWS.iter().map(|row| (row.to_vec(), &b"n"[..], Some(delta))).collect());
                atomic(r, &ops, level, &commit, &mut info);
            }
            Step::Reopen => unreachable!(),
        }
        let seq = if commit.level == Durability::SkipWal { r.stats().unwrap().seq } else { info.seq };
        let before = self.commits.iter().rev().nth(1).map_or(0, |c| c.seq);
        assert!(seq > before, "P-T2: commit {seq} after {before}");
        for (key, value) in &commit.sets {
            let old = self.live.remove(key);
            assert!(old.is_none_or(|old| old.ts < info.timestamp), "P-T2: the row's ticks do not grow");
            if let Some(value) = value {
                self.live.insert(key.clone(), Cell { value: value.clone(), ts: info.timestamp, seq });
            }
        }
        let last = self.commits.last_mut().unwrap();
        (last.seq, last.ts) = (seq, info.timestamp);
    }
    /// What the log's first `n` commits leave, from nothing.
    pub fn replayed(&self, n: usize) -> Content {
        let mut shown = Content::new();
        for commit in self.logged().take(n) {
            for (key, value) in &commit.sets {
                shown.remove(key);
                if let Some(value) = value {
                    shown.insert(key.clone(), Cell { value: value.clone(), ts: commit.ts, seq: commit.seq });
                }
            }
        }
        shown
    }
    /// The commits that are in the log.
    pub fn logged(&self) -> impl Iterator<Item = &Commit> {
        self.commits.iter().filter(|c| c.level != Durability::SkipWal)
    }
    /// How many of the first `n` commits are in the log.
    pub fn logged_among(&self, n: usize) -> usize {
        self.commits.iter().take(n).filter(|c| c.level != Durability::SkipWal).count()
    }
    /// How many commits of the log must survive a power cut when the log's first `n` have returned: all up to the last of level FSYNC.
    pub fn durable_among(&self, n: usize) -> usize {
        let returned: Vec<_> = self.logged().take(n).collect();
        let last = returned.iter().rposition(|c| c.level == Durability::FsyncWal);
        last.map_or(0, |at| at + 1).max(self.floor)
    }
    /// The ledger of a region that has come back, or was opened, with the log's first `n` commits.
    pub fn cut(&self, n: usize) -> Self {
        let commits: Vec<_> = self.logged().take(n).cloned().collect();
        Self { floor: commits.len(), commits, live: self.replayed(n) }
    }
    /// Largest number given so far.
    pub fn highest(&self) -> u64 {
        self.commits.iter().map(|c| c.seq).max().unwrap_or(0)
    }
}
