//! Calls with nonces over the in-memory file system, with a crash at every call to the outside world and in the middle of every append; then all of them are made
//! again, in their order, until they are answered. Whatever the crash kept, each counts exactly once, and is answered as it was before. (NON-01, P-D1, P-D2)

use super::simulate::{Picture, Recorder};
use super::stage::{self, CF, IOS, content, hook_context, machine, options};
use crate::common::rng::Rng;
use region::env::mem::MemEnv;
use region::hooks::{self, Point};
use region::options::{Durability, RegionOptions, WalIo, WriteOptions};
use region::region::{BatchOutcome, CommitInfo, Mutation, Mutations, Op, OpResult, Region};
use std::collections::BTreeMap;

/// One call: increments by row and delta.
#[derive(Clone, Debug)]
struct Call {
    nonce: u64,
    rows: Vec<(u8, i64)>,
    atomic: bool,
    level: Durability,
    /// What it was answered.
    answers: Vec<i64>,
}

impl Mutations for Call {
    fn len(&self) -> usize {
        self.rows.len()
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        let (row, delta) = &self.rows[i];
        Mutation { op: Op::Increment, family: CF, row: std::slice::from_ref(row), qual: b"n", value: b"", delta: *delta, timestamp: 0 }
    }
}

impl Call {
    /// Answers, how many of them were duplicates, and the commit.
    fn make(&self, r: &Region) -> (Vec<i64>, usize, CommitInfo) {
        let flags = if self.atomic { WriteOptions::ATOMIC } else { 0 };
        let o = WriteOptions { flags, durability: Some(self.level), nonce: self.nonce, ..WriteOptions::DEFAULT };
        let mut info = CommitInfo::default();
        if let [(row, delta)] = self.rows[..] {
            let counted = r.increment(&[row], CF, b"n", delta, &o, &mut info).unwrap();
            return (vec![counted.value], usize::from(info.flags & CommitInfo::DUPLICATE != 0), info);
        }
        let (mut answers, mut duplicates) = (vec![0; self.rows.len()], 0);
        let outcome = r.batch(self, &o, &mut info, &mut |i, x| {
            answers[i] = x.value;
            duplicates += usize::from(x.flags & OpResult::DUPLICATE != 0);
        });
        assert!(matches!(outcome, Ok(BatchOutcome::Done)), "{outcome:?}");
        (answers, duplicates, info)
    }
}

/// Rows come back within a call; every level that takes a nonce.
fn script(rng: &mut Rng, calls: u64) -> Vec<Call> {
    let level =
        |rng: &mut Rng| [Durability::AsyncWal, Durability::SyncWal, Durability::SyncWal, Durability::FsyncWal][rng.below(4) as usize];
    let rows = |rng: &mut Rng, n: u64| (0..n).map(|_| (b'a' + rng.below(4) as u8, 1 + rng.below(9) as i64)).collect();
    let call = |nonce| {
        let n = [1, 1, 3, 6][rng.below(4) as usize];
        Call { nonce, rows: rows(rng, n), atomic: rng.one_in(2), level: level(rng), answers: Vec::new() }
    };
    (1..=calls).map(call).collect()
}

fn config(io: WalIo, seals: bool) -> RegionOptions {
    let mut o = options(io);
    if seals {
        o.config += ",seal_every_commits=3";
    }
    o
}

/// Makes all calls that had begun, again and in order, over what a crash has left. `whole`: what had returned must be there.
fn repeat(env: &MemEnv, calls: &[Call], picture: &Picture, io: WalIo, seals: bool, whole: bool, what: &str) -> usize {
    let region = stage::open_with(env, config(io, seals)).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let (mut expected, mut duplicates) = (BTreeMap::new(), 0);
    let mut gap = false;
    for (i, call) in calls.iter().take(picture.begun).enumerate() {
        let (answers, again, _) = call.make(&region);
        if i < picture.returned {
            assert_eq!(answers, call.answers, "{what}: call {} of {}: {call:?}", i + 1, picture.begun);
            assert!(!whole || again == answers.len(), "{what}: call {} was answered before the crash, and is run again", i + 1);
        }
        // What the log keeps is a prefix; a plain call is several commits, so it may be cut within one.
        assert!(!gap || again == 0, "{what}: call {} is known, though one before it is not", i + 1);
        gap |= again < answers.len();
        duplicates += again;
        for (row, delta) in &call.rows {
            *expected.entry(vec![*row]).or_insert(0) += *delta;
        }
    }
    let found: BTreeMap<Vec<u8>, i64> =
        content(&region).into_iter().map(|((row, _), cell)| (row, i64::from_be_bytes(cell.value.try_into().unwrap()))).collect();
    assert_eq!(found, expected, "{what}: each of {} calls counts once", picture.begun);
    // And once more, in the next life.
    let env = env.image();
    let region = stage::open_with(&env, config(io, seals)).unwrap_or_else(|e| panic!("{what}, second life: {e:?}"));
    let before = region.stats().unwrap().seq;
    for call in calls.iter().take(picture.begun) {
        assert_eq!(call.make(&region).1, call.rows.len(), "{what}, second life: {call:?}");
    }
    assert_eq!(region.stats().unwrap().seq, before, "{what}, second life");
    duplicates
}

fn simulate(io: WalIo, seed: u64, lane: u64, seals: bool) {
    println!("seed {seed}, {io:?}, seals: {seals}");
    let mut rng = Rng(seed);
    let env = machine(lane);
    let recorder = Recorder::new(&env);
    let region = recorder.open(config(io, seals)).unwrap();
    let _let_go = recorder.let_go_at_end();
    let in_append = std::sync::Arc::clone(&recorder);
    let script_thread = std::thread::current().id();
    let _hook = hooks::install(hook_context(&env), move |point, _| {
        if matches!(point, Point::AppendAfterHeader | Point::AppendDone | Point::BeforeMark) && std::thread::current().id() == script_thread
        {
            in_append.picture(format!("{point:?}"));
        }
    });
    recorder.free(true);
    let mut calls = script(&mut rng, 14);
    let (mut pictures, mut kills, mut cuts, mut known, mut unknown) = (0, 0, 0, 0, 0);
    for i in 0..calls.len() {
        recorder.record(true, i, i + 1);
        calls[i].answers = calls[i].make(&region).0;
        recorder.record(true, i + 1, i + 1);
        recorder.picture("after the call".into());
        recorder.record(false, 0, 0);
        for picture in recorder.take() {
            pictures += 1;
            let place = format!("seed {seed}, call {}, {}", i + 1, picture.place);
            let asked: usize = calls[..picture.begun].iter().map(|c| c.rows.len()).sum();
            kills += 1;
            known += repeat(&picture.env.kill(), &calls, &picture, io, seals, true, &format!("kill at {place}"));
            let mut images = vec![picture.env.power_cut_keeping_nothing()];
            images.extend((0..2).map(|_| picture.env.power_cut(&mut |_| rng.one_in(2))));
            for image in images {
                cuts += 1;
                let duplicates = repeat(&image, &calls, &picture, io, seals, false, &format!("power cut at {place}"));
                known += duplicates;
                unknown += asked - duplicates;
            }
        }
    }
    println!("{pictures} places, {kills} kills, {cuts} power cuts, {known} answered from the log, {unknown} run again");
    assert!(kills > 30 && known > 100 && unknown > 100);
}

#[test]
fn each_call_counts_once_wherever_a_mapped_log_is_cut() {
    simulate(IOS[0], 1, 10_101, false);
}
#[test]
fn each_call_counts_once_wherever_a_written_log_is_cut() {
    simulate(IOS[1], 2, 10_111, false);
}
#[test]
fn each_call_counts_once_with_seals() {
    simulate(IOS[0], 3, 10_121, true);
}
