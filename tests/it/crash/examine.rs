//! What is tried at one picture of a machine: a kill and several power cuts, recovery, another life, and crashes of that recovery and that life.

use super::simulate::{Picture, Recorder};
use super::stage::{self, Ledger, Step, content, open_with, options, read_only};
use crate::common::rng::Rng;
use region::env::mem::MemEnv;
use region::options::{Durability, RegionOptions, WalIo};
use region::region::Region;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process died: the page cache is whole.
    Kill,
    /// The power went: what was synced is there, and some of the rest.
    PowerCut,
}

/// What a crash must leave: between so many and so many of the log's commits.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    least: usize,
    most: usize,
}

/// Tries crashes and counts them.
pub struct Examiner {
    io: WalIo,
    config: String,
    rng: Rng,
    thorough: bool,
    pictures: u64,
    counts: [u64; 2],
    /// Crashes of a recovery, and of the life after one.
    in_recovery: u64,
    in_second_life: u64,
    cut_tails: u64,
}

impl Examiner {
    pub fn new(io: WalIo, seed: u64, thorough: bool, config: &str) -> Self {
        let rng = Rng(seed ^ 0xC4A5);
        let config = config.to_string();
        Self { io, config, rng, thorough, pictures: 0, counts: [0; 2], in_recovery: 0, in_second_life: 0, cut_tails: 0 }
    }
    pub fn count(&self, crash: Crash) -> u64 {
        self.counts[crash as usize]
    }
    pub fn summary(&self) -> String {
        format!(
            "{} places, {} kills, {} power cuts, {} crashes of recoveries, {} of second lives, {} tails cut",
            self.pictures, self.counts[0], self.counts[1], self.in_recovery, self.in_second_life, self.cut_tails
        )
    }
    pub fn all(&mut self, ledger: &Ledger, pictures: Vec<Picture>) {
        for picture in pictures {
            self.one(ledger, &picture);
        }
    }
    fn one(&mut self, ledger: &Ledger, picture: &Picture) {
        self.pictures += 1;
        let most = ledger.logged_among(picture.begun);
        let returned = ledger.logged_among(picture.returned);
        let kill = Bounds { least: returned, most };
        let cut = Bounds { least: ledger.durable_among(returned), most };
        let deep = self.thorough || self.pictures.is_multiple_of(6);
        let place = format!("picture {}, {}", self.pictures, picture.place);
        self.crash(ledger, &picture.env.image(), Crash::Kill, kill, deep, &format!("kill at {place}"));
        for (i, (image, kept)) in self.power_cuts(&picture.env).into_iter().enumerate() {
            self.crash(ledger, &image, Crash::PowerCut, cut, deep && i < 2, &format!("power cut at {place}, kept {kept}"));
        }
    }
    /// Disks as a power cut may leave them: every subset of what is not synced if that is little, else nothing, everything, and some drawn subsets.
    fn power_cuts(&mut self, env: &MemEnv) -> Vec<(MemEnv, String)> {
        let n = env.unsynced().len();
        let subsets: Vec<Vec<bool>> = if n <= 3 {
            (0..1_u32 << n).map(|bits| (0..n).map(|i| bits >> i & 1 == 1).collect()).collect()
        } else {
            let drawn = if self.thorough { 24 } else { 4 };
            let mut all = vec![vec![false; n], vec![true; n]];
            // Mostly with few pages missing, or few kept: the half of everything is one case among many.
            all.extend((0..drawn).map(|i| (0..n).map(|_| [self.rng.one_in(2), self.rng.one_in(4), !self.rng.one_in(4)][i % 3]).collect()));
            all
        };
        let cut = |keep: &Vec<bool>| {
            let mut at = 0;
            let image = env.power_cut(&mut |_| {
                at += 1;
                keep[at - 1]
            });
            (image, keep.iter().map(|k| if *k { '1' } else { '0' }).collect())
        };
        subsets.iter().map(cut).collect()
    }
    fn options(&self) -> RegionOptions {
        let mut o = options(self.io);
        o.config += &self.config;
        o
    }

    /// Recovers, checks, lives on, crashes again. `deep`: also crashes at every call of the recovery.
    fn crash(&mut self, ledger: &Ledger, image: &MemEnv, crash: Crash, bounds: Bounds, deep: bool, what: &str) {
        self.counts[crash as usize] += 1;
        let recorder = Recorder::new(image);
        recorder.record(deep, 0, 0);
        let region = recorder.open(self.options()).unwrap_or_else(|e| panic!("P-D2: {what}: {e:?}"));
        let _let_go = recorder.let_go_at_end();
        recorder.record(false, 0, 0);
        let kept = check(ledger, &region, bounds, what);
        self.cut_tails += stage::reported(&region, "cut_tails");
        for (i, picture) in recorder.take().into_iter().enumerate() {
            self.crash_of_recovery(
                ledger,
                &picture,
                crash,
                bounds,
                kept,
                &format!("{what}; then at {i}: {} of the recovery", picture.place),
            );
        }
        self.second_life(ledger, kept, &region, image, what);
    }

    /// The recovery was interrupted before it let anybody in: the next one finds the same.
    fn crash_of_recovery(&mut self, ledger: &Ledger, picture: &Picture, first: Crash, bounds: Bounds, kept: usize, what: &str) {
        self.in_recovery += 1;
        let same = Bounds { least: kept, most: kept };
        let again = |env: &MemEnv, bounds: Bounds, what: &str| {
            let region = open_with(env, options(self.io)).unwrap_or_else(|e| panic!("P-D2: {what}: {e:?}"));
            check(ledger, &region, bounds, what)
        };
        again(&picture.env.image(), same, &format!("{what}: kill"));
        // What a kill had left in the page cache may still be lost now; after a power cut there was nothing more to lose.
        let bounds = if first == Crash::Kill { Bounds { least: ledger.durable_among(bounds.least), ..bounds } } else { same };
        let cut = self.rng.next();
        again(&picture.env.power_cut_keeping_nothing(), bounds, &format!("{what}: power cut"));
        let mut rng = Rng(cut);
        again(&picture.env.power_cut(&mut |_| rng.one_in(2)), bounds, &format!("{what}: power cut, drawn from {cut}"));
    }

    /// A few commits after the recovery, then a crash: all that the recovery showed is still there, and what the new life was told.
    fn second_life(&mut self, ledger: &Ledger, kept: usize, region: &Region, env: &MemEnv, what: &str) {
        use Durability::{FsyncWal, SyncWal};
        self.in_second_life += 1;
        let mut next = ledger.cut(kept);
        let durable = self.rng.one_in(2);
        let mut steps = vec![Step::Inc { row: 0, delta: 3, level: SyncWal }, Step::Batch { delta: 2, level: SyncWal }];
        if durable {
            steps.push(Step::Inc { row: 1, delta: 1, level: FsyncWal });
        }
        steps.push(Step::Put { row: 0, len: 5_000, level: SyncWal });
        for step in &steps {
            next.begin(step);
            next.run(region, step);
            let seq = next.commits.last().unwrap().seq;
            // P-T2 over the commits that exist; the gap keeps numbers apart that a crash has made everybody forget.
            let least = if ledger.commits.is_empty() { 0 } else { ledger.cut(kept).highest() + (1 << 20) };
            assert!(seq > least, "{what}: number {seq} is not above {least}");
        }
        let all = next.commits.len();
        let killed = env.image();
        let bounds = Bounds { least: all, most: all };
        if self.rng.one_in(2) {
            // Without writing anything: a look must find the same.
            let seen = open_with(&killed, read_only(self.io)).unwrap_or_else(|e| panic!("P-D2: {what}; second kill, read-only: {e:?}"));
            check(&next, &seen, bounds, &format!("{what}; second kill, read-only"));
        } else {
            let region = open_with(&killed, options(self.io)).unwrap_or_else(|e| panic!("P-D2: {what}; second kill: {e:?}"));
            check(&next, &region, bounds, &format!("{what}; second kill"));
        }
        let bounds = Bounds { least: kept.max(if durable { all - 1 } else { 0 }), most: all };
        let cut = self.rng.next();
        let mut rng = Rng(cut);
        let image = if cut.is_multiple_of(4) { env.power_cut_keeping_nothing() } else { env.power_cut(&mut |_| rng.one_in(2)) };
        let what = format!("{what}; second crash, power cut drawn from {cut}");
        let region = open_with(&image, options(self.io)).unwrap_or_else(|e| panic!("P-D2: {what}: {e:?}"));
        check(&next, &region, bounds, &what);
    }
}

/// The region holds what some prefix of the log leaves, cell by cell with timestamp and number, and the prefix is within the bounds. Returns its length.
fn check(ledger: &Ledger, region: &Region, bounds: Bounds, what: &str) -> usize {
    let found = content(region);
    let fits = (bounds.least..=bounds.most).rev().find(|n| ledger.replayed(*n) == found);
    fits.unwrap_or_else(|| {
        let other = (0..=ledger.logged().count()).find(|n| ledger.replayed(*n) == found);
        let short: Vec<_> = found.iter().map(|(k, c)| (String::from_utf8_lossy(&k.0).into_owned(), c.value.len(), c.seq)).collect();
        panic!(
            "P-D1, P-D2: {what}: {bounds:?} of the log's commits should be there; found are {other:?}: {short:?}; {:?}",
            region.recovery_report()
        )
    })
}
