//! A scripted life of a region over the in-memory file system, with a crash at every call to the outside world, in the middle of every append and after every commit.
//!
//! One run, many crashes: the recorder stands between region and file system, takes a picture of the machine at each such place, and the script goes on. After each
//! step its pictures are examined (`examine.rs`). Deterministic: the log's background thread is let run only while the script stands still between two steps, the
//! background sync never. What power cuts keep is enumerated where few things are unsynced, else drawn from a seed.
//!
//! `CRASH_SEEDS=n` runs n scripts instead of one, each examined more closely.

use super::examine::{Crash, Examiner};
use super::stage::{self, IOS, Ledger, PATH, Step, close, content, files, hook_context, machine, options};
use crate::common::rng::Rng;
use crate::common::watch::{Watch, WatchEnv};
use region::env::fault::Op;
use region::env::mem::MemEnv;
use region::hooks::{self, Installed, Point};
use region::options::{Durability, RegionOptions, WalIo};
use region::region::Region;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Instant;

/// A picture of the machine.
pub struct Picture {
    pub env: MemEnv,
    /// Commits that had returned, and that had begun.
    pub returned: usize,
    pub begun: usize,
    /// Where it was taken.
    pub place: String,
}

/// Stands between a region and its machine.
pub struct Recorder {
    env: MemEnv,
    script: ThreadId,
    state: Mutex<State>,
    let_go: Condvar,
}

#[derive(Default)]
struct State {
    /// Pictures are taken.
    on: bool,
    /// Other threads may make calls.
    free: bool,
    returned: usize,
    begun: usize,
    pictures: Vec<Picture>,
}

impl Recorder {
    pub fn new(env: &MemEnv) -> Arc<Self> {
        Arc::new(Self { env: env.clone(), script: std::thread::current().id(), state: Mutex::default(), let_go: Condvar::new() })
    }
    /// Opens the region through this recorder.
    pub fn open(self: &Arc<Self>, o: RegionOptions) -> region::Result<Region> {
        let env = WatchEnv::new(Arc::new(self.env.clone()), Arc::clone(self) as Arc<dyn Watch>);
        Region::open_in(Arc::new(env), Path::new(PATH), o, None, None)
    }
    pub fn record(&self, on: bool, returned: usize, begun: usize) {
        let mut s = self.state.lock().unwrap();
        (s.on, s.returned, s.begun) = (on, returned, begun);
    }
    /// Lets other threads go on, or makes them stop at their next call.
    pub fn free(&self, yes: bool) {
        self.state.lock().unwrap().free = yes;
        self.let_go.notify_all();
    }
    /// When the result goes, other threads may make calls: to be dropped before the region, which joins them.
    pub fn let_go_at_end(self: &Arc<Self>) -> LetGo {
        LetGo(Arc::clone(self))
    }
    pub fn take(&self) -> Vec<Picture> {
        std::mem::take(&mut self.state.lock().unwrap().pictures)
    }
    pub fn picture(&self, place: String) {
        let mut s = self.state.lock().unwrap();
        if s.on {
            let picture = Picture { env: self.env.image(), returned: s.returned, begun: s.begun, place };
            s.pictures.push(picture);
        }
    }
}

/// See [`Recorder::let_go_at_end`].
pub struct LetGo(Arc<Recorder>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.free(true);
    }
}

impl Watch for Recorder {
    fn before(&self, op: Op, path: &str) {
        if std::thread::current().id() != self.script {
            let s = self.state.lock().unwrap();
            drop(self.let_go.wait_while(s, |s| !s.free).unwrap());
        }
        if op.changes() {
            self.picture(format!("{op:?} {path}"));
        }
    }
    /// A pwrite of a record may end early: within its header fields, its cells, before its trailer. The kernel cuts it at page ends, so never within a word.
    fn cuts(&self, _path: &str, offset: u64, bytes: &[u8]) -> Vec<usize> {
        let on = self.state.lock().unwrap().on;
        if !on || offset < 4096 || bytes.len() < 16 || bytes[..8] == [0; 8] {
            return Vec::new();
        }
        let mut cuts = vec![8, (bytes.len() / 2) & !7, bytes.len() - 8];
        cuts.dedup();
        cuts
    }
    fn at_cut(&self, path: &str) {
        self.picture(format!("short write {path}"));
    }
}

/// One life, seen by a recorder.
struct Life {
    // Dropped before the region.
    _let_go: LetGo,
    recorder: Arc<Recorder>,
    region: Region,
    _hook: Installed,
    /// Segments that the log counts when nothing is prepared, and the number of the first of this life.
    base: u64,
    first: u32,
}

impl Life {
    fn start(env: &MemEnv, io: WalIo, ledger: &Ledger, config: &str) -> (Self, Vec<Picture>) {
        let recorder = Recorder::new(env);
        recorder.record(true, ledger.commits.len(), ledger.commits.len());
        let mut o = options(io);
        o.config += config;
        let region = recorder.open(o).unwrap();
        recorder.record(false, 0, 0);
        let in_append = Arc::clone(&recorder);
        let hook = hooks::install(hook_context(env), move |point, _| {
            if matches!(point, Point::AppendAfterHeader | Point::AppendDone) && std::thread::current().id() == in_append.script {
                in_append.picture(format!("{point:?}"));
            }
        });
        let first = numbers(env).last().copied().unwrap();
        let base = region.stats().unwrap().wal_segments;
        let life = Self { _let_go: recorder.let_go_at_end(), recorder, region, _hook: hook, base, first };
        let mut pictures = life.recorder.take();
        pictures.extend(life.settle(ledger));
        (life, pictures)
    }
    /// Lets the log prepare what it wants to, until it has: two segments behind the one in use.
    fn settle(&self, ledger: &Ledger) -> Vec<Picture> {
        self.recorder.record(true, ledger.commits.len(), ledger.commits.len());
        let used = |n: &u32| *n > self.first && stage::bytes_at(&self.recorder.env, &format!("wal.{n:010}"), 4096, 8) != [0; 8];
        let rolls = numbers(&self.recorder.env).iter().filter(|n| used(n)).count() as u64;
        self.recorder.free(true);
        let began = Instant::now();
        while self.region.stats().unwrap().wal_segments != self.base + rolls + 2 {
            assert!(began.elapsed().as_secs() < 60, "the log does not prepare its segments: {:?}", self.region.stats());
            std::thread::yield_now();
        }
        self.recorder.free(false);
        self.recorder.picture("between two steps".into());
        self.recorder.record(false, 0, 0);
        self.recorder.take()
    }
    fn step(&self, ledger: &mut Ledger, step: &Step) -> Vec<Picture> {
        let returned = ledger.commits.len();
        ledger.begin(step);
        self.recorder.record(true, returned, ledger.commits.len());
        ledger.run(&self.region, step);
        self.recorder.record(false, 0, 0);
        let mut pictures = self.recorder.take();
        pictures.extend(self.settle(ledger));
        pictures
    }
    fn end(self, ledger: &Ledger) -> Vec<Picture> {
        self.recorder.record(true, ledger.commits.len(), ledger.commits.len());
        self.recorder.free(true);
        close(&self.region);
        self.recorder.take()
    }
}

fn numbers(env: &MemEnv) -> Vec<u32> {
    stage::segments(env).iter().map(|n| n[4..].parse().unwrap()).collect()
}

/// Five lives, long, short and empty, of every kind of commit; values large enough that records lie across pages and the log rolls.
fn script(seed: u64) -> Vec<Step> {
    use Durability::{AsyncWal, FsyncWal, SkipWal, SyncWal};
    let mut rng = Rng(seed);
    let mut steps = vec![
        Step::Inc { row: 0, delta: 5, level: SyncWal },
        Step::Batch { delta: 1, level: SyncWal },
        Step::Put { row: 0, len: 9_000, level: SyncWal },
        Step::Inc { row: 0, delta: 1, level: FsyncWal },
        Step::Inc { row: 1, delta: 7, level: SkipWal },
        Step::Inc { row: 1, delta: 1, level: AsyncWal },
    ];
    for i in 0..30 {
        let level = [SyncWal, SyncWal, FsyncWal, SkipWal, AsyncWal, SyncWal][rng.below(6) as usize];
        let row = rng.below(3) as u8;
        steps.push(match rng.below(6) {
            0 | 1 => Step::Inc { row, delta: 1 + rng.below(9) as i64, level },
            // Half of an atomic batch that skips the log would be no news after a crash: none of it is there.
            2 => Step::Batch { delta: 1 + rng.below(9) as i64, level },
            3 => Step::Delete { row, level },
            _ => Step::Put { row, len: 1 + rng.below(12_000) as usize, level },
        });
        // Large enough for the log to roll, whatever was drawn.
        if i % 8 == 3 {
            steps.push(Step::Put { row, len: 30_000, level: [SyncWal, FsyncWal][i / 8 % 2] });
        }
        if i == 14 {
            // A life without a commit among them.
            steps.extend([Step::Reopen, Step::Reopen]);
        }
        if i == 20 || i == 21 {
            steps.push(Step::Reopen);
        }
    }
    steps
}

fn simulate(io: WalIo, seed: u64, lane: u64, thorough: bool, config: &str) {
    let env = machine(lane);
    let mut ledger = Ledger::default();
    let mut examiner = Examiner::new(io, seed, thorough, config);
    println!("seed {seed}, {io:?}{config}");
    let (mut life, pictures) = Life::start(&env, io, &ledger, config);
    examiner.all(&ledger, pictures);
    for step in script(seed) {
        if !matches!(step, Step::Reopen) {
            let pictures = life.step(&mut ledger, &step);
            examiner.all(&ledger, pictures);
            continue;
        }
        let pictures = life.end(&ledger);
        examiner.all(&ledger, pictures);
        let end = *numbers(&env).last().unwrap();
        assert!(files(&env)[&format!("wal.{end:010}")].len() < 65_536, "closing gives back what the last segment does not need");
        // A clean close is durable (BUG-42), and nothing is lost by it but what skipped the log.
        ledger = ledger.cut(ledger.commits.len());
        let pictures;
        (life, pictures) = Life::start(&env, io, &ledger, config);
        assert_eq!(content(&life.region), ledger.live, "after a clean close");
        examiner.all(&ledger, pictures);
    }
    assert_eq!(content(&life.region), ledger.live);
    assert!(numbers(&env).len() > 5, "the script must roll the log");
    let pictures = life.end(&ledger);
    examiner.all(&ledger, pictures);
    println!("{}", examiner.summary());
    // A simulation that crashes nowhere finds nothing.
    assert!(examiner.count(Crash::Kill) > 100 && examiner.count(Crash::PowerCut) > 300, "{}", examiner.summary());
}

fn seeds() -> u64 {
    std::env::var("CRASH_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1)
}

/// P-C1, P-D1, P-D2, P-T2; BUG-51, BUG-52, REC-07. The log mapped.
#[test]
fn p_d2_crash_at_every_step_of_a_mapped_log() {
    for seed in 1..=seeds() {
        simulate(IOS[0], seed, 10_001, seeds() > 1, "");
    }
}

/// The same with one write per record, each cut short once.
#[test]
fn p_d2_crash_at_every_step_of_a_written_log() {
    for seed in 1..=seeds() {
        simulate(IOS[1], seed + 1_000, 10_011, seeds() > 1, "");
    }
}

/// And with a new memstore segment after every third commit: generations in the log must not matter to who replays all of it.
#[test]
fn crash_at_every_step_with_seals() {
    if seeds() == 1 {
        return simulate(IOS[0], 2_001, 10_021, false, ",seal_every_commits=3");
    }
    for seed in 1..=seeds() {
        simulate(IOS[(seed % 2) as usize], seed + 2_000, 10_021, true, ",seal_every_commits=3");
    }
}
