//! P-C1 to P-C5: what counters promise.

use crate::rig::*;
use region::error::ErrorKind;
use region::options::{Durability, WriteOptions};
use region::region::{BatchOutcome, CommitInfo, OpStatus, Region};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Runs `calls` per thread in `threads` threads, each adding what `delta` says; the values that came back, each with its delta.
fn count(r: &Region, threads: u64, calls: u64, one: impl Fn(&Region, u64, u64) -> Vec<(i64, i64)> + Sync) -> Vec<(i64, i64)> {
    let all = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for t in 0..threads {
            let (all, one) = (&all, &one);
            s.spawn(move || {
                let mine: Vec<_> = (0..calls).flat_map(|i| one(r, t, i)).collect();
                // Each thread's own values grow, since its deltas are positive.
                assert!(mine.windows(2).all(|w| w[0].0 < w[1].0));
                all.lock().unwrap().extend(mine);
            });
        }
    });
    all.into_inner().unwrap()
}

/// (value, delta) pairs must be the partial sums of one serial order.
fn is_serial(mut answers: Vec<(i64, i64)>, start: i64) -> i64 {
    answers.sort_unstable();
    let mut sum = start;
    for (value, delta) in answers {
        assert_eq!(value, sum + delta, "not the partial sums of a serial order");
        sum = value;
    }
    sum
}

fn c1(config: &str) {
    let seed = seed();
    let mut rig = Rig::new(config);
    let mut total = 0;
    for life in 0..3 {
        let answers = count(&rig.region, 6, 200, |r, t, i| {
            let delta = 1 + Random(seed ^ (t << 32 | i)).below(1000) as i64;
            let level = [Durability::AsyncWal, Durability::SyncWal, Durability::SyncWal, Durability::FsyncWal][i as usize % 4];
            match i % 3 {
                0 => vec![(inc_with(r, b"row", b"n", delta, &at(level)).unwrap().value, delta)],
                1 => vec![(inc_row(r, b"row", &[(b"n", delta), (b"m", 1)])[0], delta)],
                _ => {
                    let mut value = 0;
                    let incs = Incs(vec![(b"a", 1), (b"row", delta), (b"b", 1)]);
                    let outcome = r.increment_many(&incs, &at(level), &mut CommitInfo::default(), &mut |i, result| {
                        assert_eq!(result.status, OpStatus::Applied);
                        if i == 1 {
                            value = result.value;
                        }
                    });
                    assert!(matches!(outcome, Ok(BatchOutcome::Done)));
                    vec![(value, delta)]
                }
            }
        });
        total = is_serial(answers, total);
        assert_eq!(counter(&rig.region, b"row", b"n"), Some(total));
        rig = if life == 1 { rig.reopen() } else { rig.after_kill() };
        assert_eq!(counter(&rig.region, b"row", b"n"), Some(total), "after life {life}");
        assert_eq!(counter(&rig.region, b"row", b"m"), Some(6 * 67 * (life + 1)));
    }
}

#[test]
fn p_c1_one_serial_order() {
    c1("");
}

#[test]
fn p_c1_one_serial_order_across_seals_and_log_segments() {
    c1("seal_every_commits=20,wal_segment_bytes=64k,wal_bytes_max=64m");
}

#[test]
fn p_c1_one_serial_order_over_the_written_log() {
    c1("wal_io=write");
}

/// Killed in the middle: what was acknowledged before is there, what was not counts at most once.
#[test]
fn p_c1_across_kill() {
    for round in 0..5 {
        let rig = Rig::new("wal_segment_bytes=64k,wal_bytes_max=64m,seal_every_commits=100");
        let stop = AtomicBool::new(false);
        let (acknowledged, asked) = ([const { AtomicI64::new(0) }; 4], [const { AtomicI64::new(0) }; 4]);
        let (seen, after) = std::thread::scope(|s| {
            for t in 0..4usize {
                let (stop, acknowledged, asked, r) = (&stop, &acknowledged[t], &asked[t], &rig.region);
                s.spawn(move || {
                    while !stop.load(Ordering::Acquire) {
                        asked.fetch_add(1, Ordering::SeqCst);
                        match inc_with(r, &[b'r', t as u8], b"n", 1, &within(5_000_000, WriteOptions::DEFAULT)) {
                            Ok(v) => acknowledged.store(v.value, Ordering::SeqCst),
                            // The file system is dead.
                            Err(_) => break,
                        }
                    }
                });
            }
            let _stops = Stops(&stop);
            while acknowledged.iter().any(|a| a.load(Ordering::SeqCst) < 300 + 50 * round) {
                std::thread::yield_now();
            }
            let seen: Vec<i64> = acknowledged.iter().map(|a| a.load(Ordering::SeqCst)).collect();
            let mem = rig.mem.kill();
            let limits: Vec<i64> = asked.iter().map(|a| a.load(Ordering::SeqCst)).collect();
            ((seen, limits), mem)
        });
        let next = rig.over(after);
        for t in 0..4u8 {
            let n = counter(&next.region, &[b'r', t], b"n").unwrap();
            assert!(
                (seen.0[t as usize]..=seen.1[t as usize]).contains(&n),
                "{n} is not within {} and {}",
                seen.0[t as usize],
                seen.1[t as usize]
            );
            assert_eq!(inc(&next.region, &[b'r', t], b"n", 1), n + 1);
        }
    }
}

#[test]
fn p_c2_big_endian_and_wraps() {
    let rig = Rig::new("");
    let r = &rig.region;
    assert_eq!(inc(r, b"r", b"n", 0x0102_0304_0506_0708), 0x0102_0304_0506_0708);
    assert_eq!(get(r, b"r", b"n").unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(inc(r, b"neg", b"n", -2), -2);
    assert_eq!(get(r, b"neg", b"n").unwrap(), [255, 255, 255, 255, 255, 255, 255, 254]);
    // A put of 8 bytes is a counter.
    put(r, b"p", b"n", &[0, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(inc(r, b"p", b"n", 1), 257);
    let strict = flags(WriteOptions::CHECK_OVERFLOW);
    for (start, delta) in [(i64::MAX, 1), (i64::MIN, -1), (1, i64::MAX), (-1, i64::MIN), (i64::MIN, i64::MIN)] {
        put(r, b"o", b"n", &start.to_be_bytes());
        put(r, b"o", b"v", b"before");
        assert_eq!(kind(inc_with(r, b"o", b"n", delta, &strict)), ErrorKind::Overflow);
        let whole = batch(r, vec![op_put(b"o", b"v", b"after"), op_inc(b"o", b"n", delta)], &strict).0;
        assert_eq!(kind(whole), ErrorKind::Overflow);
        assert_eq!(counter(r, b"o", b"n"), Some(start), "{start} + {delta}");
        assert_eq!(get(r, b"o", b"v").unwrap(), b"before");
        let v = inc(r, b"o", b"n", delta);
        assert_eq!(v, start.wrapping_add(delta));
        put(r, b"o", b"n", &start.to_be_bytes());
        assert_eq!(done(r, vec![op_inc(b"o", b"n", delta)], &WriteOptions::DEFAULT), [v], "the same on every path");
    }
    let rig = rig.reopen();
    assert_eq!(inc(&rig.region, b"r", b"n", 0), 0x0102_0304_0506_0708);
}

#[test]
fn p_c3_not_a_counter() {
    let rig = Rig::new("");
    let r = &rig.region;
    for width in [0usize, 1, 4, 7, 9, 16, 1000] {
        let value = vec![b'x'; width];
        put(r, b"r", b"bad", &value);
        put(r, b"r", b"ok", &5i64.to_be_bytes());
        let seq = r.stats().unwrap().seq;
        let e = inc_with(r, b"r", b"bad", 1, &WriteOptions::DEFAULT).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotCounter);
        assert!(e.message().contains(&format!("{width} bytes")) && e.message().contains('8'), "{e}");
        assert_eq!(kind(inc_with(r, b"r", b"bad", 0, &WriteOptions::DEFAULT)), ErrorKind::NotCounter);
        let set = flags(WriteOptions::SET);
        assert_eq!(kind(inc_with(r, b"r", b"bad", 3, &set)), ErrorKind::NotCounter);
        // The whole call, in whatever order.
        for columns in [[(b"ok".as_slice(), 1), (b"bad".as_slice(), 1)], [(b"bad", 1), (b"ok", 1)]] {
            let mut values = [0; 2];
            let result = r.increment_row(b"r", &Columns(columns.to_vec()), &WriteOptions::DEFAULT, &mut CommitInfo::default(), &mut values);
            assert_eq!(kind(result), ErrorKind::NotCounter);
        }
        let atomic = batch(r, vec![op_put(b"q", b"v", b"v"), op_inc(b"r", b"bad", 1)], &flags(WriteOptions::ATOMIC)).0;
        assert_eq!(kind(atomic), ErrorKind::NotCounter);
        assert_eq!(get(r, b"r", b"bad").unwrap(), value);
        assert_eq!(counter(r, b"r", b"ok"), Some(5));
        assert_eq!(get(r, b"q", b"v"), None);
        assert_eq!(r.stats().unwrap().seq, seq, "nothing was committed");
    }
    put(r, b"r", b"bad", &7i64.to_be_bytes());
    assert_eq!(inc(r, b"r", b"bad", 1), 8, "the row is not locked, and a put of the right width makes it a counter");
}

/// Memory that a counter takes after many increments is what it took after few; with readers of the past in between it is bounded by their number.
#[test]
fn p_c4_memory_of_a_hot_counter() {
    let rig = Rig::new("wal_segment_bytes=1m");
    let r = &rig.region;
    let memory = || r.stats().unwrap().memstore_bytes;
    let run = |n: u64| count_up(r, b"hot", n, 1);
    run(100);
    let start = memory();
    run(100_000);
    assert_eq!(memory(), start, "O(increments)");
    // As many as are open at once, not as many as were.
    let mut open = std::collections::VecDeque::new();
    for _ in 0..64 {
        open.push_back(r.snapshot(LONG).unwrap());
        run(3);
    }
    let with_64 = memory();
    for i in 0..2000 {
        let gone = open.pop_front().unwrap();
        assert_eq!(counter_at(r, Some(&gone), b"hot", b"n"), Some(100_100 + 3 * i));
        drop(gone);
        open.push_back(r.snapshot(LONG).unwrap());
        run(3);
    }
    drop(open);
    run(1000);
    assert!(memory() <= with_64 + 64 * 64, "{start} before, {with_64} with 64 snapshots, {} after 2,000 more", memory());
}

/// FSYNC commits in flight keep the last durable version, and no more for each of them than one cell.
#[test]
fn p_c4_with_commits_that_wait() {
    let rig = Rig::new("");
    let r = &rig.region;
    let memory = || r.stats().unwrap().memstore_bytes;
    inc_with(r, b"hot", b"n", 1, &at(Durability::FsyncWal)).unwrap();
    let mut largest = 0;
    for round in 0..50 {
        let gate = rig.pause_sync();
        let first = rig.spawn(|r| inc_with(r, b"hot", b"n", 1, &at(Durability::FsyncWal)).unwrap().value);
        gate.wait_until_reached();
        for _ in 0..10 {
            let _ = inc_with(r, b"hot", b"n", 1, &within(1, at(Durability::SyncWal)));
        }
        assert_eq!(counter(r, b"hot", b"n"), Some(1 + 11 * round));
        gate.open();
        first.join().unwrap();
        r.wait_durable(region::ids::SequenceNumber(r.stats().unwrap().seq), LONG).unwrap();
        if round == 5 {
            largest = memory();
        }
    }
    assert_eq!(counter(r, b"hot", b"n"), Some(1 + 11 * 50));
    assert!(memory() <= largest + 2048, "{largest} after 5 rounds, {} after 50", memory());
}

/// "Take 3 if 3 are left" from 8 threads, across a kill in the middle: nobody takes what is not there, and the sum of what was taken is what is missing.
fn c5(config: &str) {
    const STOCK: i64 = 4_000;
    let mut rig = Rig::new(config);
    inc(&rig.region, b"stock", b"n", STOCK);
    let floor = WriteOptions { flags: WriteOptions::BOUNDED, min_value: 0, max_value: i64::MAX, ..WriteOptions::DEFAULT };
    let taken = AtomicI64::new(0);
    let seed = seed();
    for life in 0..2 {
        std::thread::scope(|s| {
            for t in 0..8u64 {
                let (r, taken) = (&rig.region, &taken);
                s.spawn(move || {
                    let mut random = Random(seed + t);
                    for _ in 0..if life == 0 { 60 } else { 400 } {
                        let want = 1 + random.below(7) as i64;
                        let got = inc_with(r, b"stock", b"n", -want, &floor).unwrap();
                        assert!(got.value >= 0, "passed the bound");
                        if got.applied {
                            taken.fetch_add(want, Ordering::Relaxed);
                        } else {
                            assert!(got.value < want, "refused {want} although {} were left", got.value);
                        }
                    }
                });
            }
        });
        assert_eq!(counter(&rig.region, b"stock", b"n"), Some(STOCK - taken.load(Ordering::Relaxed)));
        rig = rig.after_kill();
        assert_eq!(counter(&rig.region, b"stock", b"n"), Some(STOCK - taken.load(Ordering::Relaxed)), "after the kill");
    }
    let r = &rig.region;
    let left = counter(r, b"stock", b"n").unwrap();
    assert!(left < 7, "{left} left");
    // In a batch: one that is not met refuses its group and tells the current values.
    let (outcome, results, _) = batch(r, vec![op_inc(b"stock", b"m", 1), op_inc(b"stock", b"n", -100)], &floor);
    assert!(matches!(outcome, Ok(BatchOutcome::NotApplied { .. })), "{outcome:?}");
    assert_eq!(results[1].unwrap().value, left);
    assert_eq!(counter(r, b"stock", b"m"), None);
    // Clamped instead.
    let clamp =
        WriteOptions { flags: WriteOptions::BOUNDED | WriteOptions::SATURATE, min_value: 0, max_value: 10, ..WriteOptions::DEFAULT };
    assert_eq!(inc_with(r, b"stock", b"n", -100, &clamp).unwrap().value, 0);
    assert_eq!(inc_with(r, b"stock", b"n", 100, &clamp).unwrap().value, 10);
    assert_eq!(inc_with(r, b"stock", b"n", i64::MIN, &clamp).unwrap().value, 0);
}

#[test]
fn p_c5_a_bound_is_never_passed() {
    c5("");
}

#[test]
fn p_c5_a_bound_is_never_passed_across_seals() {
    c5("seal_every_commits=17");
}

/// Readers that fetch and reset beside counting threads: every count is fetched once.
#[test]
fn p_c5_read_and_reset() {
    let rig = Rig::new("seal_every_commits=100");
    let r = &rig.region;
    let reset = flags(WriteOptions::SET | WriteOptions::RETURN_OLD);
    let fetched = AtomicI64::new(0);
    let running = AtomicI64::new(4);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let _ends = Ends(&running);
                count_up(r, b"r", 1000, 3);
            });
        }
        for _ in 0..2 {
            s.spawn(|| {
                while running.load(Ordering::Acquire) > 0 {
                    fetched.fetch_add(inc_with(r, b"r", b"n", 0, &reset).unwrap().value, Ordering::Relaxed);
                }
            });
        }
    });
    let rest = inc_with(r, b"r", b"n", 0, &reset).unwrap().value;
    assert_eq!(fetched.load(Ordering::Relaxed) + rest, 4 * 1000 * 3);
    assert_eq!(counter(r, b"r", b"n"), Some(0));
}
