//! Scenarios INC-*: increments, at the level of the region. Each is named by its id.

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::env::fault::{Fault, Op as EnvOp};
use region::error::ErrorKind;
use region::options::{OpenFlags, ReadOptions, RegionOptions, WriteOptions};
use region::region::{CommitInfo, IncrementColumn, IncrementColumns, Key, Region};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn versions(r: &Region, family: u32, row: &[u8], qual: &[u8]) -> Option<(i64, u64)> {
    r.counter_get(None, &ReadOptions::DEFAULT, Key { family, row, qual }).unwrap()
}

/// A missing column is 0; stored as 8 bytes, big-endian.
#[test]
fn inc_01() {
    let rig = Rig::new("");
    assert_eq!(inc(&rig.region, b"r", b"n", 5), 5);
    assert_eq!(get(&rig.region, b"r", b"n").unwrap(), [0, 0, 0, 0, 0, 0, 0, 5]);
}

/// Three columns by 1, 2, 3, then all by 1; and in whatever order they are given each gets its own amount.
#[test]
fn inc_02_inc_06() {
    let rig = Rig::new("");
    let r = &rig.region;
    assert_eq!(inc_row(r, b"r", &[(b"a", 1), (b"b", 2), (b"c", 3)]), [1, 2, 3]);
    assert_eq!(inc_row(r, b"r", &[(b"c", 1), (b"a", 1), (b"b", 1)]), [4, 2, 3]);
    let row: Vec<_> = scan(r, None, b"r", b"s").into_iter().map(|c| (c.1, number(&c.2))).collect();
    assert_eq!(row, [(b"a".to_vec(), 2), (b"b".to_vec(), 3), (b"c".to_vec(), 4)]);
}

/// Wraps.
#[test]
fn inc_04() {
    let rig = Rig::new("");
    put(&rig.region, b"r", b"n", &i64::MAX.to_be_bytes());
    assert_eq!(inc(&rig.region, b"r", b"n", 1), i64::MIN);
}

/// Amount 0 creates; of what is there it is a read.
#[test]
fn inc_07_inc_08_inc_09() {
    let rig = Rig::new("");
    let r = &rig.region;
    assert_eq!(inc_row(r, b"r", &[(b"a", 1), (b"b", 0), (b"c", 2)]), [1, 0, 2]);
    assert_eq!(counter(r, b"r", b"b"), Some(0));
    inc(r, b"s", b"n", 7);
    let seq = r.stats().unwrap().seq;
    assert_eq!(inc(r, b"s", b"n", 0), 7);
    assert_eq!((counter(r, b"s", b"n"), r.stats().unwrap().seq), (Some(7), seq));
    inc(r, b"s", b"m", 5);
    assert_eq!(inc(r, b"s", b"m", -8), -3);
}

/// Two increments of one column in one call add up.
#[test]
fn inc_12_without_ranges() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"r", b"n", &1i64.to_be_bytes());
    assert_eq!(inc(r, b"r", b"n", 10), 11);
    assert_eq!(done(r, vec![op_inc(b"r", b"n", 2), op_inc(b"r", b"n", 2)], &WriteOptions::DEFAULT), [13, 15]);
    assert_eq!(counter(r, b"r", b"n"), Some(15));
}

/// The clock goes back: the counter's timestamp does not.
#[test]
fn inc_15() {
    let rig = Rig::with_clock("", ManualClock::new(10, ClockUnit::Millis));
    let r = &rig.region;
    assert_eq!(inc(r, b"r", b"n", 1), 1);
    assert_eq!(versions(r, CF, b"r", b"n"), Some((1, 10)));
    rig.clock.as_ref().unwrap().set(1);
    assert_eq!(inc(r, b"r", b"n", 1), 2);
    assert_eq!(versions(r, CF, b"r", b"n"), Some((2, 11)));
}

/// 20 threads, one row, seals all the time.
#[test]
fn inc_17() {
    let rig = Rig::new("");
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|s| {
        let (r, stopped) = (&rig.region, Arc::clone(&stop));
        let _stops = Stops(&stop);
        s.spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                r.seal().unwrap();
                std::thread::yield_now();
            }
        });
        let threads: Vec<_> = (0..20).map(|_| s.spawn(move || count_up(r, b"r", 100, 1))).collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
    assert_eq!(counter(&rig.region, b"r", b"n"), Some(2000));
}

/// 10 threads on rows of their own, then on shared ones.
#[test]
fn inc_18() {
    let rig = Rig::new("");
    let r = &rig.region;
    let seed = seed();
    std::thread::scope(|s| {
        for t in 0..10u8 {
            s.spawn(move || {
                count_up(r, &[b'o', t], 1000, 1);
                let mut random = Random(seed + u64::from(t));
                (0..1000).for_each(|_| count_up(r, &[b's', random.below(10) as u8], 1, 1));
            });
        }
    });
    assert!((0..10).all(|t| counter(r, &[b'o', t], b"n") == Some(1000)));
    let shared = scan(r, None, b"s", b"t");
    assert_eq!((shared.len(), shared.iter().map(|c| number(&c.2)).sum::<i64>()), (10, 10_000));
}

/// Columns in different segments, counted up in one operation.
#[test]
fn inc_19() {
    let rig = Rig::new("");
    let r = &rig.region;
    let names: Vec<Vec<u8>> = (0..12).map(|i| format!("q{i:02}").into_bytes()).collect();
    let some = |odd: usize, n| names.iter().skip(odd).step_by(2).map(|q| (q.as_slice(), n)).collect::<Vec<_>>();
    inc_row(r, b"r", &some(1, 5));
    r.seal().unwrap();
    inc_row(r, b"r", &some(0, 5));
    let all: Vec<_> = names.iter().map(|q| (q.as_slice(), 1)).collect();
    assert_eq!(inc_row(r, b"r", &all), [6; 12]);
    let row = scan(r, None, b"r", b"s");
    assert!(row.iter().map(|c| &c.1).eq(&names) && row.iter().all(|c| number(&c.2) == 6));
}

struct Unknown;
impl IncrementColumns for Unknown {
    fn len(&self) -> usize {
        2
    }
    fn get(&self, i: usize) -> IncrementColumn<'_> {
        IncrementColumn { family: [CF, 77][i], qual: b"n", delta: 1 }
    }
}

/// Wrong arguments: refused by kind, nothing changed.
#[test]
fn inc_20() {
    let rig = Rig::new("");
    let r = &rig.region;
    assert_eq!(kind(inc_with(r, b"", b"n", 1, &WriteOptions::DEFAULT)), ErrorKind::Invalid);
    assert_eq!(kind(inc_with(r, &[1; 32_768], b"n", 1, &WriteOptions::DEFAULT)), ErrorKind::TooLarge);
    for family in [0, 77] {
        let result = r.increment(b"r", family, b"n", 1, &WriteOptions::DEFAULT, &mut CommitInfo::default());
        assert_eq!(kind(result), ErrorKind::NoFamily);
    }
    let result = r.increment_row(b"r", &Unknown, &WriteOptions::DEFAULT, &mut CommitInfo::default(), &mut [0; 2]);
    assert_eq!(kind(result), ErrorKind::NoFamily);
    assert_eq!(counter(r, b"r", b"n"), None);
    assert_eq!(inc(r, b"r", b"n", 1), 1, "no lock is left");
}

/// Read-only: refused, also amount 0.
#[test]
fn inc_21() {
    let rig = Rig::new("");
    inc(&rig.region, b"r", b"n", 5);
    close(&rig.region);
    let options = RegionOptions {
        flags: OpenFlags { read_only: true, ..OpenFlags::default() },
        config: "wal_segment_bytes=1m,wal_bytes_max=256m".into(),
        ..RegionOptions::default()
    };
    let r = Region::open_in(Arc::new(rig.mem.clone()), Path::new("/r"), options, None, None).unwrap();
    for delta in [0, 1] {
        assert_eq!(kind(inc_with(&r, b"r", b"n", delta, &WriteOptions::DEFAULT)), ErrorKind::ReadOnly);
    }
    assert_eq!(counter(&r, b"r", b"n"), Some(5));
}

/// Of concurrent +1 each gets a value of its own.
#[test]
fn inc_25() {
    let rig = Rig::new("seal_every_commits=64");
    let r = &rig.region;
    let mut all: Vec<i64> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..16).map(|_| s.spawn(move || (0..100).map(|_| inc(r, b"r", b"n", 1)).collect::<Vec<_>>())).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    all.sort_unstable();
    assert!(all.into_iter().eq(1..=1600));
}

/// The append fails. Unlike HBase's next increment ours is refused until a reopen, except where the disk was only full.
#[test]
fn inc_27() {
    let rig = Rig::new("wal_io=write");
    let r = &rig.region;
    inc(r, b"r", b"n", 5);
    rig.fault(EnvOp::WriteAt, Fault::Fail(ENOSPC));
    assert_eq!(kind(inc_with(r, b"r", b"n", 1, &WriteOptions::DEFAULT)), ErrorKind::NoSpace);
    assert_eq!(counter(r, b"r", b"n"), Some(5));
    assert_eq!(inc(r, b"r", b"n", 1), 6);
    rig.fault(EnvOp::WriteAt, Fault::Fail(EIO));
    assert!(inc_with(r, b"r", b"n", 1, &WriteOptions::DEFAULT).is_err());
    assert_eq!(counter(r, b"r", b"n"), Some(6));
    assert_eq!(kind(inc_with(r, b"r", b"n", 1, &WriteOptions::DEFAULT)), ErrorKind::Poisoned);
    assert_eq!(inc(&rig.after_kill().region, b"r", b"n", 1), 7);
}

/// A put of 8 bytes between two increments counts, also when the counter's time has run ahead of the clock.
#[test]
fn inc_29() {
    for back in [0, 1000] {
        let rig = Rig::with_clock("tick_lead_max_ms=1000", ManualClock::new(5000, ClockUnit::Millis));
        let r = &rig.region;
        count_up(r, b"r", 20, 1);
        rig.clock.as_ref().unwrap().step_back(back);
        put(r, b"r", b"n", &100i64.to_be_bytes());
        assert_eq!(counter(r, b"r", b"n"), Some(100));
        assert_eq!(inc(r, b"r", b"n", 1), 101);
        assert_eq!(scan(r, None, b"r", b"s").len(), 1);
        let rig = rig.reopen();
        assert_eq!(inc(&rig.region, b"r", b"n", 1), 102);
    }
}

/// A family of three versions keeps the last three, their timestamps falling.
#[test]
fn inc_30() {
    let rig = Rig::with_clock("", ManualClock::new(5000, ClockUnit::Millis));
    let r = &rig.region;
    for i in 1..=5 {
        let value = r.increment(b"r", CF3, b"n", 1, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap().value;
        assert_eq!(value, i);
    }
    let (newest, ts) = versions(r, CF3, b"r", b"n").unwrap();
    assert_eq!((newest, ts), (5, 5004));
    // Older versions are found by their time.
    let at =
        |max_ts| r.counter_get(None, &ReadOptions { max_ts, ..ReadOptions::DEFAULT }, Key { family: CF3, row: b"r", qual: b"n" }).unwrap();
    assert_eq!((at(5004), at(5003), at(5002)), (Some((4, 5003)), Some((3, 5002)), None));
}
