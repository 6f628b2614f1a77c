//! Many threads, all verbs, invariants checked by snapshots and scans beside them; memstore segments that change every few commits, small chunks and log
//! segments; closed and reopened. A few seconds unless `STRESS_SECONDS` says more. Over the public interface alone: `tools/tsan.sh` runs it under the thread sanitizer.

use crate::short::*;
use region::mslab::{ChunkPool, PoolOptions};
use region::options::{Durability, FamilySpec, OpenFlags, ReadOptions, RegionOptions, WriteOptions};
use region::region::{BatchOutcome, Comparison, Region, ScanSpec, Snapshot};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const ACCOUNTS: u64 = 12;
const PAIRS: u64 = 4;
const COUNTERS: u64 = 3;
const STOCK: i64 = 1_000_000;

/// What the threads know to be true of the region.
#[derive(Default)]
struct Expected {
    counted: [AtomicI64; COUNTERS as usize],
    swapped: AtomicI64,
    taken: AtomicI64,
    writers: AtomicI64,
}

fn row(kind: &str, i: u64) -> Vec<u8> {
    format!("{kind}{i:02}").into_bytes()
}

fn open(path: &Path, config: &str, pool: &Arc<ChunkPool>) -> Region {
    let options = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        config: config.into(),
        ..RegionOptions::default()
    };
    Region::open(path, options, Some(Arc::clone(pool)), None).unwrap()
}

/// One thread's writes, by chance. What it has been told is what must be so.
fn write(r: &Region, expected: &Expected, t: u64, calls: u64, seed: u64) {
    let mut random = Random(seed ^ t << 40);
    let own = row("own", t);
    let _ends = Ends(&expected.writers);
    for i in 0..calls {
        let level = match random.below(20) {
            0 => Durability::FsyncWal,
            1..4 => Durability::AsyncWal,
            _ => Durability::SyncWal,
        };
        let o = at(level);
        let atomic = WriteOptions { flags: WriteOptions::ATOMIC, ..o };
        match random.below(10) {
            0..3 => {
                let c = random.below(COUNTERS);
                inc_with(r, &row("ctr", c), b"n", 1, &o).unwrap();
                expected.counted[c as usize].fetch_add(1, Relaxed);
            }
            3 => {
                let (from, to, amount) = (random.below(ACCOUNTS), random.below(ACCOUNTS), random.below(50) as i64);
                done(r, vec![op_inc(&row("acc", from), b"n", -amount), op_inc(&row("acc", to), b"n", amount)], &atomic);
            }
            4 => {
                let values = inc_row(r, &row("pair", random.below(PAIRS)), &[(b"x", 1), (b"y", 1)]);
                assert_eq!(values[0], values[1]);
            }
            5 => {
                // As bytes, so that puts and markers meet counters in one row.
                let p = row("pair", random.below(PAIRS));
                let text = format!("{t}-{i}").into_bytes();
                let ops = if random.below(3) == 0 {
                    vec![op_delete(&p, b"u"), op_delete(&p, b"v")]
                } else {
                    vec![op_put(&p, b"u", &text), op_put(&p, b"v", &text)]
                };
                done(r, ops, &o);
            }
            6 => {
                // A plain batch over many rows: groups of their own.
                let rows: Vec<Vec<u8>> = (0..COUNTERS).map(|c| row("ctr", c)).collect();
                done(r, rows.iter().map(|row| op_inc(row, b"n", 2)).collect(), &o);
                for c in &expected.counted {
                    c.fetch_add(2, Relaxed);
                }
            }
            7 => {
                let seen = counter(r, b"cas", b"n").unwrap_or(0);
                let check = if seen == 0 {
                    op_check(b"cas", b"n", Comparison::Absent, b"")
                } else {
                    op_check_counter(b"cas", b"n", Comparison::Equal, seen)
                };
                let (outcome, results, _) = batch(r, vec![check, op_inc(b"cas", b"n", 1)], &o);
                match outcome.unwrap() {
                    BatchOutcome::Done => {
                        assert_eq!(results[1].unwrap().value, seen + 1);
                        expected.swapped.fetch_add(1, Relaxed);
                    }
                    other => assert!(matches!(other, BatchOutcome::NotApplied { .. }), "{other:?}"),
                }
            }
            8 => {
                let want = 1 + random.below(5) as i64;
                let bounded = WriteOptions { flags: WriteOptions::BOUNDED, min_value: STOCK - 2_000, max_value: i64::MAX, ..o };
                let got = inc_with(r, b"stock", b"n", -want, &bounded).unwrap();
                assert!(got.value >= STOCK - 2_000);
                if got.applied {
                    expected.taken.fetch_add(want, Relaxed);
                }
            }
            _ => {
                let value = (random.below(3) > 0).then(|| vec![t as u8; random.below(3000) as usize]);
                match &value {
                    Some(value) => put(r, &own, b"v", value),
                    None => delete(r, &own, b"v"),
                }
                assert_eq!(get(r, &own, b"v"), value, "a thread does not see its own write");
            }
        }
    }
}

/// Everything that must be so at one instant. Returns the sum of the counters.
fn check(r: &Region, snapshot: Option<&Snapshot>) -> i64 {
    let mut scanner = r.scanner(snapshot, &ReadOptions::DEFAULT, &ScanSpec::default()).unwrap();
    let (mut money, mut accounts, mut counted) = (0, 0, 0);
    let mut pair = (Vec::new(), Vec::new());
    let mut last = (Vec::new(), Vec::new());
    while let Some(c) = scanner.next().unwrap() {
        let here = (c.row.to_vec(), c.qual.to_vec());
        assert!(last < here, "{last:?} stands before {here:?}");
        match &c.row[..3] {
            b"acc" => {
                money += number(c.value);
                accounts += 1;
            }
            b"ctr" => counted += number(c.value),
            b"pai" => match c.qual {
                b"x" => pair = (c.row.to_vec(), c.value.to_vec()),
                b"y" => assert_eq!(pair, (c.row.to_vec(), c.value.to_vec()), "half a row"),
                b"u" => pair = (c.row.to_vec(), c.value.to_vec()),
                _ => assert_eq!(pair, (c.row.to_vec(), c.value.to_vec()), "half a row of bytes"),
            },
            _ => {}
        }
        last = here;
    }
    assert_eq!((accounts, money), (ACCOUNTS, 100 * ACCOUNTS as i64), "money came or went");
    if let Some(snapshot) = snapshot {
        let gets: i64 = (0..ACCOUNTS).map(|i| counter_at(r, Some(snapshot), &row("acc", i), b"n").unwrap()).sum();
        assert_eq!(gets, 100 * ACCOUNTS as i64);
    }
    counted
}

fn read(r: &Region, expected: &Expected, t: u64) {
    let (mut last_sum, mut last_counter) = (0, 0);
    while expected.writers.load(Relaxed) > 0 {
        let now = counter(r, &row("ctr", t % COUNTERS), b"n").unwrap_or(0);
        assert!(now >= last_counter, "a counter went back");
        last_counter = now;
        let snapshot = t.is_multiple_of(2).then(|| r.snapshot(LONG).unwrap());
        let sum = check(r, snapshot.as_ref());
        assert!(sum >= last_sum, "an instant before the last one");
        last_sum = sum;
        if let Some(snapshot) = snapshot {
            assert_eq!(check(r, Some(&snapshot)), sum, "a snapshot changed");
        }
    }
}

/// What is true once all is quiet.
fn settle(r: &Region, expected: &Expected) {
    check(r, None);
    for c in 0..COUNTERS {
        assert_eq!(counter(r, &row("ctr", c), b"n").unwrap_or(0), expected.counted[c as usize].load(Relaxed), "increments lost or doubled");
    }
    assert_eq!(counter(r, b"cas", b"n").unwrap_or(0), expected.swapped.load(Relaxed));
    assert_eq!(counter(r, b"stock", b"n"), Some(STOCK - expected.taken.load(Relaxed)));
}

fn round(config: &str, seed: u64, writers: u64, readers: u64, calls: u64) {
    let dir = std::env::temp_dir().join(format!("region-stress-{}-{seed:x}", std::process::id()));
    let pool = ChunkPool::new(PoolOptions { chunk_size: 16 << 10, max_bytes: 256 << 20, ..PoolOptions::default() }).unwrap();
    let expected = Expected::default();
    for life in 0..2 {
        let r = open(&dir, config, &pool);
        if life == 0 {
            for i in 0..ACCOUNTS {
                inc(&r, &row("acc", i), b"n", 100);
            }
            inc(&r, b"stock", b"n", STOCK);
        }
        settle(&r, &expected);
        expected.writers.store(writers as i64, Relaxed);
        std::thread::scope(|s| {
            for t in 0..writers {
                let (r, expected) = (&r, &expected);
                s.spawn(move || write(r, expected, t, calls, seed + life));
            }
            for t in 0..readers {
                let (r, expected) = (&r, &expected);
                s.spawn(move || read(r, expected, t));
            }
        });
        settle(&r, &expected);
        close(&r);
        drop(r);
        assert_eq!(pool.stats().in_use, 0, "chunks after close: {:?}", pool.stats());
    }
    let r = open(&dir, config, &pool);
    settle(&r, &expected);
    close(&r);
    Region::destroy(&dir).unwrap();
}

/// Rounds over different settings until the time is up; at least one of each.
pub fn run(seconds: u64, writers: u64, readers: u64, calls: u64) {
    let base = "sync_interval_ms=20,wal_segment_bytes=256k,wal_bytes_max=64m";
    let configs = [
        format!("{base},seal_every_commits=50"),
        format!("{base},seal_every_commits=50,wal_io=write,lock_buckets=64"),
        format!("{base},clock_unit=us,tick_lead_max_ms=10,seal_every_commits=200"),
        base.to_string(),
    ];
    let begun = Instant::now();
    let mut seed = seed();
    for n in 0.. {
        if n >= configs.len() && begun.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        let config = &configs[n % configs.len()];
        println!("round {n}, seed {seed}: {config}");
        round(config, seed, writers, readers, calls);
        seed = seed.wrapping_add(1);
    }
}

#[test]
fn stress() {
    let seconds = std::env::var("STRESS_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2);
    run(seconds, 8, 3, 200);
}
