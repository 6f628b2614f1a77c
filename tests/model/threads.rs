//! Many threads. What they write is put in the order of the commits' numbers at each barrier, and then judged: each write against the state before its
//! number, each read and each refused write against the states it may have met.
//!
//! *Which states.* Two stamps stand around each call. A read of a row must see every commit of the row whose call ended before it began (P-V1), and sees none
//! whose call began after it ended; a thread never sees a row go back (P-V2). Through a snapshot there is one state alone (P-V3).
//!
//! The clock stands between barriers, so expiry is the same for all.

use crate::calls::{Call, Told};
use crate::ops::{Mix, Verb};
use crate::reads::{Answer, Read};
use crate::rng::Rng;
use crate::single;
use crate::spec::At;
use crate::world::{LONG, World};
use region::region::{CommitInfo, Region, Snapshot};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// A call that was made, and between which stamps.
struct Made<T> {
    thread: usize,
    begun: u64,
    ended: u64,
    what: T,
}

struct Write {
    call: Call,
    told: Told,
    info: CommitInfo,
    text: String,
}

struct Asked {
    read: Read,
    answer: Answer,
    /// Number of the snapshot it went through.
    at: Option<u64>,
    text: String,
}

/// A snapshot was opened.
struct Opened(u64);

#[derive(Default)]
struct Log {
    writes: Vec<Made<Write>>,
    reads: Vec<Made<Asked>>,
    snapshots: Vec<Made<Opened>>,
}

/// What the judge knows of the commits so far.
struct Judge<'w> {
    world: &'w mut World,
    /// Of each row: number, tick, and stamps of its commits, in order.
    rows: HashMap<Vec<u8>, Vec<Commit>>,
}

#[derive(Clone, Copy)]
struct Commit {
    seq: u64,
    tick: u64,
    begun: u64,
    ended: u64,
}

/// What the threads of a round share.
struct Round<'r> {
    region: &'r Region,
    mix: Mix,
    now: u64,
    /// Families by slot.
    ids: Vec<u32>,
    stamps: AtomicU64,
    calls_each: usize,
}

/// One thread's calls.
fn calls(round: &Round<'_>, thread: usize, seed: u64) -> Log {
    let Round { region, mix, now, ids, stamps, calls_each } = round;
    let (region, now) = (*region, *now);
    let rng = &mut Rng(seed);
    let id = |slot: u8| ids.get(usize::from(slot)).copied().unwrap_or(900);
    let mut log = Log::default();
    let mut snapshots: Vec<Snapshot> = Vec::new();
    for _ in 0..*calls_each {
        match rng.below(10) {
            0..6 => {
                let op = mix.write(rng, true);
                let call = Call::new(&op, now, &id);
                let begun = stamps.fetch_add(1, SeqCst);
                let (told, info) = call.perform(region);
                let ended = stamps.fetch_add(1, SeqCst);
                log.writes.push(Made { thread, begun, ended, what: Write { call, told, info, text: op.to_string() } });
            }
            6..9 => {
                let mut op = mix.read(rng, 0);
                // A scan at no known instant may be any of many: rarely.
                let through = !snapshots.is_empty() && (op.verb == Verb::Scan && !rng.one_in(6) || rng.one_in(2));
                if op.verb == Verb::Scan && !through {
                    op.verb = Verb::Get;
                }
                let snapshot = through.then(|| &snapshots[rng.below(snapshots.len() as u64) as usize]);
                let read = Read::new(&op, now, &id);
                let begun = stamps.fetch_add(1, SeqCst);
                let answer = read.ask(region, snapshot);
                let ended = stamps.fetch_add(1, SeqCst);
                let at = snapshot.map(Snapshot::seq);
                log.reads.push(Made { thread, begun, ended, what: Asked { read, answer, at, text: op.to_string() } });
            }
            _ if snapshots.len() > 3 || !snapshots.is_empty() && rng.one_in(3) => {
                snapshots.swap_remove(rng.below(snapshots.len() as u64) as usize);
            }
            _ => {
                let begun = stamps.fetch_add(1, SeqCst);
                let snapshot = region.snapshot(LONG).expect("a snapshot opens");
                let ended = stamps.fetch_add(1, SeqCst);
                log.snapshots.push(Made { thread, begun, ended, what: Opened(snapshot.seq()) });
                snapshots.push(snapshot);
            }
        }
    }
    log
}

impl Judge<'_> {
    /// Writes commits to the model in the order of their numbers, and judges their answers.
    fn committed(&mut self, mut writes: Vec<Made<Write>>) -> Result<Vec<Made<Write>>, String> {
        writes.sort_by_key(|w| w.what.info.seq);
        let refused = writes.iter().take_while(|w| w.what.info.seq == 0).count();
        let committed = writes.split_off(refused);
        for made in committed {
            let Write { call, told, info, text } = &made.what;
            if info.seq <= self.world.seq {
                return Err(format!("two commits have the number {}: {text}", info.seq));
            }
            let at = At { cut: info.seq - 1, now: self.world.now() };
            let (groups, _) = call.groups();
            let mut ends = call.run(&self.world.model, &groups, at, info.timestamp);
            let end = ends.remove(0);
            let expected = call.told(std::slice::from_ref(&end));
            let written = end.written;
            if !ends.is_empty() || written.is_empty() || call.refused().is_some() || !call.agrees(told, &expected) {
                return Err(format!("commit {}: {text}\ntold    {told:?}\nexpected {expected:?}, {} rows", info.seq, written.len()));
            }
            for group in &groups {
                let commits = self.rows.entry(group.row.clone()).or_default();
                let last = commits.last().map_or(0, |c| if c.seq == info.seq { 0 } else { c.tick });
                if info.timestamp <= last || info.timestamp < at.now {
                    return Err(format!(
                        "commit {} has tick {}, its row had {last} before, the clock is {}",
                        info.seq, info.timestamp, at.now
                    ));
                }
                commits.push(Commit { seq: info.seq, tick: info.timestamp, begun: made.begun, ended: made.ended });
            }
            for (row, draft) in written {
                self.world.model.write(&row, draft, info.seq);
            }
            self.world.seq = info.seq;
        }
        Ok(writes)
    }

    /// Numbers of the states of `rows` that a call between the two stamps may have met; the first is the state that it met at least.
    fn states<'r>(&self, rows: impl Iterator<Item = &'r [u8]>, begun: u64, ended: u64, least: u64) -> BTreeSet<u64> {
        let mut low = least;
        let mut all = BTreeSet::new();
        for row in rows {
            for commit in self.rows.get(row).into_iter().flatten() {
                if commit.ended < begun {
                    low = low.max(commit.seq);
                }
                if commit.begun < ended {
                    all.insert(commit.seq);
                }
            }
        }
        let mut all = all.split_off(&low);
        all.insert(low);
        all
    }

    /// A write that changed nothing.
    fn refused(&self, made: &Made<Write>) -> Result<(), String> {
        let Write { call, told, text, .. } = &made.what;
        if let Some(kind) = call.refused() {
            let ok = told.outcome == crate::calls::Outcome::Failed(kind);
            return if ok { Ok(()) } else { Err(format!("{text}: told {told:?}, expected {kind:?}")) };
        }
        let (groups, _) = call.groups();
        let rows = || groups.iter().map(|g| g.row.as_slice());
        let now = self.world.now();
        let states = self.states(rows(), made.begun, made.ended, 0);
        for &cut in &states {
            let last = |row: &[u8]| self.rows.get(row).into_iter().flatten().filter(|c| c.seq <= cut).map(|c| c.tick).max().unwrap_or(0);
            let tick = rows().map(last).fold(now, |tick, last| tick.max(last + 1));
            let ends = call.run(&self.world.model, &groups, At { cut, now }, tick);
            if ends.into_iter().any(|end| end.written.is_empty() && call.agrees(told, &call.told(&[end]))) {
                return Ok(());
            }
        }
        Err(format!("{text}\ntold {told:?}, which fits none of the states {states:?}"))
    }

    /// A read. `seen` = which state of each row the thread has seen already.
    fn read(&self, made: &Made<Asked>, seen: &mut HashMap<(usize, Vec<u8>), u64>) -> Result<(), String> {
        let Asked { read, answer, at, text } = &made.what;
        let now = self.world.now();
        if let Some(cut) = *at {
            let expected = read.expected(&self.world.model, At { cut, now });
            return match expected.allows(answer) {
                true => Ok(()),
                false => Err(format!("at snapshot {cut}: {text}\ntold    {answer:?}\nexpected {expected:?}")),
            };
        }
        // Each run of keys of one row is a read of its own.
        for (read, answer) in read.by_row(answer) {
            let row = read.row();
            let least = seen.get(&(made.thread, row.to_vec())).copied().unwrap_or(0);
            let states = self.states(std::iter::once(row), made.begun, made.ended, least);
            let fits = |cut: u64| read.expected(&self.world.model, At { cut, now }).allows(&answer);
            let Some(cut) = states.iter().copied().find(|&cut| fits(cut)) else {
                return Err(format!("{text}\ntold {answer:?}, which fits none of the states {states:?} (this thread had seen {least})"));
            };
            seen.insert((made.thread, row.to_vec()), cut);
            // A commit that was seen in one row is there in all of its rows.
            for number in answer.numbers() {
                for row in self.rows.iter().filter(|(_, commits)| commits.iter().any(|c| c.seq == number)).map(|(row, _)| row) {
                    let least = seen.entry((made.thread, row.clone())).or_default();
                    *least = number.max(*least);
                }
            }
        }
        Ok(())
    }

    /// A snapshot sees what had ended before it, and nothing that began after it.
    fn snapshot(&self, made: &Made<Opened>) -> Result<(), String> {
        let Opened(seq) = made.what;
        for commit in self.rows.values().flatten() {
            if commit.ended < made.begun && commit.seq > seq || commit.begun > made.ended && commit.seq <= seq {
                return Err(format!("a snapshot is at {seq}; commit {} began or ended on the other side of it", commit.seq));
            }
        }
        Ok(())
    }
}

/// One history: `rounds` rounds of `threads` threads.
fn history(seed: u64, threads: usize, rounds: usize, calls_each: usize) -> Result<(), String> {
    let rng = &mut Rng(seed);
    let mut world = World::new(rng.next());
    let mix = Mix::random(rng);
    let mut rows = HashMap::new();
    for round in 0..rounds {
        let shared = Round { region: world.region(), mix, now: world.now(), ids: world.ids(), stamps: AtomicU64::new(1), calls_each };
        let seeds: Vec<u64> = (0..threads).map(|_| rng.next()).collect();
        let seals = rng.below(20);
        let ended = AtomicBool::new(false);
        let logs: Vec<Log> = std::thread::scope(|s| {
            let (shared, ended) = (&shared, &ended);
            let running: Vec<_> = seeds.iter().enumerate().map(|(t, &seed)| s.spawn(move || calls(shared, t, seed))).collect();
            // Seals in the middle, spread by the stamps that the calls draw.
            s.spawn(move || {
                let total = (threads * calls_each * 2) as u64;
                for i in 0..seals {
                    while shared.stamps.load(SeqCst) < total * i / seals.max(1) && !ended.load(SeqCst) {
                        std::thread::yield_now();
                    }
                    shared.region.seal().expect("a seal");
                }
            });
            let logs = running.into_iter().map(|t| t.join()).collect::<Vec<_>>();
            ended.store(true, SeqCst);
            logs.into_iter().map(|log| log.expect("a thread ends")).collect()
        });
        let mut all = Log::default();
        for log in logs {
            all.writes.extend(log.writes);
            all.reads.extend(log.reads);
            all.snapshots.extend(log.snapshots);
        }
        let in_round = |why: String| format!("round {round}: {why}");
        let mut judge = Judge { world: &mut world, rows };
        let refused = judge.committed(all.writes).map_err(in_round)?;
        refused.iter().try_for_each(|made| judge.refused(made)).map_err(in_round)?;
        all.reads.sort_by_key(|r| r.begun);
        let mut seen = HashMap::new();
        all.reads.iter().try_for_each(|made| judge.read(made, &mut seen)).map_err(in_round)?;
        all.snapshots.iter().try_for_each(|made| judge.snapshot(made)).map_err(in_round)?;
        // The next round's stamps begin anew; whatever was committed by now is before them.
        rows = judge.rows;
        for commit in rows.values_mut().flatten() {
            (commit.begun, commit.ended) = (0, 0);
        }
        single::whole(&world, None).map_err(in_round)?;
        match rng.below(6) {
            0 => world.reopen(false),
            1 => world.reopen(true),
            2 => world.family_set(rng.below(8) as u8, &crate::words::family(rng.below(8) as u8)).map_err(in_round)?,
            3 if rng.one_in(3) => world.family_drop(rng.below(8) as u8).map_err(in_round)?,
            _ => {}
        }
        single::whole(&world, None).map_err(in_round)?;
        world.clock.advance([0, 20, 150, 2_000][rng.below(4) as usize]);
    }
    world.end()
}

/// Histories until `calls` calls are made.
pub fn run_many(seed: u64, calls: usize, progress: bool) {
    let rng = &mut Rng(seed ^ 0x7468_7265);
    let (mut done, mut next_word) = (0, 1_000_000);
    while done < calls {
        let seed = rng.next();
        let threads = 4 + rng.below(5) as usize;
        let (rounds, each) = (3 + rng.below(6) as usize, 20 + rng.below(60) as usize);
        if let Err(why) = history(seed, threads, rounds, each) {
            panic!("seed {seed}, {threads} threads, {each} calls each: {why}");
        }
        done += threads * rounds * each;
        if progress && done >= next_word {
            println!("{done} of {calls} calls by many threads");
            next_word = done + 1_000_000;
        }
    }
}
