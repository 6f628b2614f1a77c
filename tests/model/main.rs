//! The data model against a model of it: random histories of all verbs, one thread and many, and every short history of one column.
//!
//! `spec.rs` says what is right; everything else asks the engine the same questions and compares. `make model OPS=50000000` runs long.
#![allow(missing_docs)]

mod calls;
mod histories;
mod invariants;
mod ops;
mod orders;
mod raw;
mod reads;
#[path = "../common/rng.rs"]
mod rng;
mod shrink;
mod single;
mod spec;
mod threads;
mod words;
mod world;

use std::path::Path;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

/// The seed of this run, printed so that a failure can be repeated.
fn seed() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_nanos() as u64);
    let seed = number("SEED", now);
    println!("SEED={seed}");
    seed
}

#[test]
fn one_thread() {
    single::run_many(seed(), number("MODEL_OPS", 60_000) as usize, false);
}

#[test]
fn many_threads() {
    threads::run_many(seed(), number("MODEL_OPS", 60_000) as usize, false);
}

/// `make model`: as long as it is told to.
#[test]
#[ignore = "runs as long as MODEL_OPS says"]
fn long() {
    let (seed, calls) = (seed(), number("MODEL_OPS", 1_000_000) as usize);
    let per_turn = calls.min(2_000_000).div_ceil(2);
    for turn in 0..calls.div_ceil(2 * per_turn) as u64 {
        single::run_many(seed.wrapping_add(turn), per_turn, true);
        threads::run_many(seed.wrapping_add(turn), per_turn, true);
        println!("{} calls done", 2 * per_turn as u64 * (turn + 1));
    }
}

/// Histories that failed once.
#[test]
fn regressions() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model/regressions");
    let mut files: Vec<_> = std::fs::read_dir(dir).expect("the directory is there").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        let seed = text.lines().find_map(|l| l.strip_prefix("# seed ")).and_then(|s| s.trim().parse().ok()).expect("a line \"# seed N\"");
        if let Err((at, why)) = single::run(seed, &ops::parse(&text)) {
            panic!("{}: call {at}: {why}", file.display());
        }
    }
}

/// What is printed can be read back.
#[test]
fn lines_come_back() {
    let ops = single::history(1, 2_000);
    let text: String = ops.iter().map(|op| format!("{op}\n")).collect();
    assert_eq!(ops::parse(&text), ops);
}

/// A seal or a reopen at any place of any short history changes no answer (P-C1, P-T4, and "no answer depends on flush").
#[test]
fn every_short_history() {
    histories::up_to(number("MODEL_LENGTH", 4) as usize);
}

/// P-T4 of one column, before and after a seal and a reopen.
#[test]
fn p_t4_every_order() {
    orders::every_order(histories::Between::Seal);
    orders::every_order(histories::Between::Reopen);
}

/// P-V1, P-V2, P-V3; ATM-01, ATM-03, ATM-05, ATM-06.
#[test]
fn p_v_invariants_under_full_load() {
    let calls = number("MODEL_CALLS", 250);
    invariants::under_load(seed(), 16, 3, calls);
}
