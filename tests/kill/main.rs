//! The kill test: a child counts with a hundred threads and writes down what it attempts and what it is answered; the driver kills it, opens the region and compares.
//!
//!     kill ROUNDS          driver; KILL_SEED=n repeats a run, KILL_DIR names a directory on ext4, XFS or tmpfs
//!     kill child ...       what the driver starts
//!
//! Per counter, of what this round's child attempted: start + acknowledged ≤ value ≤ start + attempted, every acknowledged value is the sum after one step of one
//! serial order (P-C1: the intervals that the steps cover are disjoint and lie within the gap), and the counters of an atomic batch are equal (P-D2).
//! Calls with a nonce are made again by the driver, whether they were answered or not: they are answered the same, and each counts exactly once (NON-01).
//! Rounds draw the form of the log, seals, threads, and where to kill: any time, in the middle of an append (so that recovery has a tail to cut), within the open.
//! Half of the checks are read-only opens, so that the next child finds the log as the kill left it and may be killed while it recovers.

#[path = "../common/mod.rs"]
mod common;

mod check;
mod child;
mod plan;
#[expect(unsafe_code, reason = "words of a mapped file, shared by two processes")]
mod shared;

use check::Truth;
use common::rng::Rng;
use plan::{Plan, Tear};
use region::env::os::OsEnv;
use region::env::{Env, FsKind};
use region::options::WalIo;
use shared::{Shared, phase};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A region is given up for a fresh one after about so many rounds: nothing takes its log away.
const LIVES_MAX: u64 = 25;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "child") {
        eprintln!("{}", child::run(&args[1..]));
        return ExitCode::FAILURE;
    }
    let rounds = args.iter().find_map(|a| a.parse().ok()).unwrap_or(200);
    let seed = match std::env::var("KILL_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64,
    };
    let base = base_dir().join(format!("region-kill-{}", std::process::id()));
    std::fs::create_dir_all(&base).unwrap();
    println!("kill test: {rounds} rounds, seed {seed}, in {}", base.display());
    let mut run = Run { base: base.clone(), rng: Rng(seed), truth: Truth::default(), counts: Counts::default(), region: 0, lives: 0 };
    let began = Instant::now();
    for round in 1..=rounds {
        if let Err(why) = run.round() {
            println!("FAILED in round {round} of {rounds}: {why}");
            println!("repeat: KILL_SEED={seed} tools/kill.sh {rounds}; the region as the check found it is left in {}", base.display());
            return ExitCode::FAILURE;
        }
    }
    let c = &run.counts;
    println!(
        "kill test: {rounds} rounds, seed {seed}, {} regions, {} lives, {} kills during open, {} kills in the middle of an append, {} cut tails, \
         {} acknowledged of {} attempted steps, {} s",
        run.region,
        c.lives,
        c.in_open,
        c.in_append,
        c.cut_tails,
        c.acknowledged,
        c.attempted,
        began.elapsed().as_secs()
    );
    let _ = std::fs::remove_dir_all(&base);
    // A run in which recovery had next to nothing to cut has not tested it.
    let wanted = 20.min(rounds / 10);
    if c.cut_tails < wanted || c.in_open < wanted {
        println!("FAILED: {} cut tails and {} kills during open; at least {wanted} of each are wanted", c.cut_tails, c.in_open);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A directory whose files may be mapped.
fn base_dir() -> PathBuf {
    let asked = std::env::var("KILL_DIR").ok().map(PathBuf::from);
    let choices = [asked, Some(std::env::temp_dir()), Some(env!("CARGO_TARGET_TMPDIR").into()), Some("/dev/shm".into())];
    let good = |p: &PathBuf| p.is_dir() && OsEnv.file_system(p) == FsKind::Mappable;
    choices.into_iter().flatten().find(good).expect("no directory on ext4, XFS or tmpfs; name one in KILL_DIR")
}

#[derive(Default)]
struct Counts {
    lives: u64,
    in_open: u64,
    in_append: u64,
    cut_tails: u64,
    acknowledged: u64,
    attempted: u64,
}

struct Run {
    base: PathBuf,
    rng: Rng,
    truth: Truth,
    counts: Counts,
    /// Regions made so far.
    region: u64,
    /// Rounds that this one has seen.
    lives: u64,
}

impl Run {
    fn round(&mut self) -> Result<(), String> {
        let rng = &mut self.rng;
        if self.lives == 0 || self.lives >= LIVES_MAX || rng.one_in(40) {
            let _ = std::fs::remove_dir_all(self.base.join(format!("r{}", self.region)));
            self.region += 1;
            self.lives = 0;
            self.truth = Truth::default();
        }
        self.lives += 1;
        let tear = match rng.below(8) {
            0 | 1 => Tear::Append(1 + rng.below(3_000)),
            2 => Tear::OpenCall(1 + rng.below(20)),
            _ => Tear::No,
        };
        let threads = if rng.one_in(6) { 4 + rng.below(30) } else { shared::THREADS as u64 };
        let plan = Plan {
            dir: self.base.join(format!("r{}", self.region)),
            shared: self.base.join("shared"),
            seed: rng.next(),
            threads: threads as usize,
            wal_io: if rng.one_in(2) { WalIo::Write } else { WalIo::Mapped },
            seal_every: if rng.one_in(2) { 500 + rng.below(1_500) } else { 0 },
            segment_bytes: if rng.one_in(3) { 4 << 20 } else { 256 << 10 },
            tear,
        };
        // The open itself, some time into the load, or when the child says so.
        let when = match tear {
            Tear::No if rng.one_in(5) => When::InOpen(Duration::from_micros(rng.below(6_000))),
            Tear::No => When::Running(Duration::from_micros(1_000 + rng.below(60_000))),
            _ => When::Parked,
        };
        let show = format!("{plan:?}, kill {when:?}, life {} of its region", self.lives);
        let shared = Shared::open(&plan.shared);
        shared.set_phase(phase::STARTING);
        let killed_at = kill(&plan, when, &shared).map_err(|e| format!("{e}; {show}"))?;
        let entries = shared.take();
        match (killed_at, tear) {
            (phase::OPENING, _) | (phase::PARKED, Tear::OpenCall(_)) => self.counts.in_open += 1,
            (phase::PARKED, _) => self.counts.in_append += 1,
            _ => {}
        }
        self.counts.lives += u64::from(!entries.is_empty());
        let read_only = self.rng.one_in(2);
        let report = self.truth.check(&plan, &entries, read_only).map_err(|e| format!("{e}; read_only check: {read_only}; {show}"))?;
        // A tail counts for the kill that tore it: one that came before the child had opened has left the tail of the round before.
        if !entries.is_empty() {
            self.counts.cut_tails += report.cut_tails;
        }
        self.counts.attempted += entries.len() as u64;
        self.counts.acknowledged += entries.iter().filter(|e| e.answer != 0).count() as u64;
        if killed_at == phase::PARKED && matches!(tear, Tear::Append(_)) && report.cut_tails == 0 {
            return Err(format!("killed in the middle of an append, and recovery cut nothing; {show}"));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum When {
    InOpen(Duration),
    Running(Duration),
    Parked,
}

/// Starts the child and kills it; says how far it was.
fn kill(plan: &Plan, when: When, shared: &Shared) -> Result<u64, String> {
    let mut child = Command::new(std::env::current_exe().unwrap()).args(plan.to_args()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let reached = |wanted: &[u64], limit: Duration| loop {
        let now = shared.phase();
        if wanted.contains(&now) || now == phase::FAILED {
            return Some(now);
        }
        if began.elapsed() > limit {
            return None;
        }
        std::thread::sleep(Duration::from_micros(100));
    };
    let minute = Duration::from_secs(60);
    let come = match when {
        When::InOpen(after) => {
            let come = reached(&[phase::OPENING, phase::RUNNING], minute);
            std::thread::sleep(after);
            come
        }
        When::Running(after) => {
            let come = reached(&[phase::RUNNING, phase::PARKED], minute);
            std::thread::sleep(after);
            come
        }
        // A child whose open has no such call, or that appends less than so many times, is killed at last all the same.
        When::Parked => match reached(&[phase::RUNNING, phase::PARKED], minute) {
            Some(phase::RUNNING) if matches!(plan.tear, Tear::Append(_)) => {
                let limit = began.elapsed() + Duration::from_millis(1_500);
                Some(reached(&[phase::PARKED], limit).unwrap_or(phase::RUNNING))
            }
            other => other,
        },
    };
    let alive = matches!(child.try_wait(), Ok(None));
    // SIGKILL, to this one process.
    child.kill().map_err(|e| format!("kill: {e}"))?;
    let said = last_words(&mut child);
    child.wait().map_err(|e| format!("wait: {e}"))?;
    let now = shared.phase();
    match come {
        Some(_) if alive && now != phase::FAILED => Ok(now),
        Some(_) => Err(format!("the child has failed: {said}")),
        None => Err(format!("the child has not come anywhere in a minute (phase {now}): {said}")),
    }
}

fn last_words(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        let _ = std::io::Read::read_to_string(&mut pipe, &mut text);
    }
    text
}

/// The numbers of a recovery report.
fn number(report: &str, key: &str) -> u64 {
    let rest = report.split(&format!("\"{key}\":")).nth(1).unwrap_or("");
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

/// True if there is a region to look at: the very first open may have been killed before it made one.
fn has_manifest(dir: &Path) -> bool {
    dir.join("MANIFEST").is_file()
}
