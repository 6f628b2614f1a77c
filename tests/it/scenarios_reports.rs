//! What people report about other stores, kinds K1 (counters) and K2 (ticks, deletes): each trial named by its id.

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::env::fault::{Fault, Op as EnvOp, Rule};
use region::error::ErrorKind;
use region::options::{Durability, ReadOptions, WriteOptions};
use region::region::{BatchOutcome, CommitInfo, Comparison, Increment, Increments, Key, Mutation};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// BUG-02: what an increment returned is what every read sees, also where puts meet it.
#[test]
fn bug_02() {
    let rig = Rig::new("");
    let r = &rig.region;
    // Puts set the upper half to the round, increments count in the lower: so one number tells which put was the last.
    let puts = AtomicI64::new(0);
    let (send, receive) = sync_channel::<i64>(0);
    std::thread::scope(|s| {
        s.spawn(|| {
            for round in 1..=20i64 {
                put(r, b"r", b"n", &(round << 32).to_be_bytes());
                puts.store(round, Ordering::Release);
                std::thread::yield_now();
            }
        });
        s.spawn(move || {
            for i in 0..1500 {
                let level = if i % 50 == 0 { Durability::FsyncWal } else { Durability::SyncWal };
                send.send(inc_with(r, b"r", b"n", 1, &at(level)).unwrap().value).unwrap();
            }
        });
        let mut last = 0;
        for v in receive {
            assert!(v > last, "not a serial history: {last:x}, then {v:x}");
            last = v;
            assert!(counter(r, b"r", b"n").unwrap() >= v);
            assert!(number(&scan(r, None, b"r", b"s")[0].2) >= v);
        }
    });
    assert_eq!(counter(r, b"r", b"n").unwrap() >> 32, puts.load(Ordering::Acquire));
}

/// BUG-03: slow syncs; each writer builds on what is there, visible or not.
#[test]
fn bug_03() {
    let rig = Rig::new("");
    let r = &rig.region;
    rig.faults.inject(Rule::new(EnvOp::SyncData, WAL, 1, Fault::Delay(Duration::from_millis(2))).from_then_on());
    for _ in 0..40 {
        let first = rig
            .hold(region::hooks::Point::Appended, |r| put_with(r, b"r", b"x", &10i64.to_be_bytes(), &at(Durability::FsyncWal)).map(|_| ()));
        let second = rig.spawn(|r| inc_with(r, b"r", b"x", 1, &WriteOptions::DEFAULT).unwrap().value);
        while !second.is_finished() && r.stats().unwrap().row_lock_waits == 0 {
            std::thread::yield_now();
        }
        first.let_go();
        assert_eq!(second.join().unwrap(), 11);
        let third =
            batch(r, vec![op_check_counter(b"r", b"x", Comparison::Equal, 10), op_put(b"r", b"x", b"99")], &WriteOptions::DEFAULT).0;
        assert!(matches!(third, Ok(BatchOutcome::NotApplied { .. })), "{third:?}");
        first.release().unwrap();
    }
}

/// BUG-04: increments around a seal while the clock stands.
#[test]
fn bug_04() {
    let rig = Rig::with_clock("", ManualClock::new(1000, ClockUnit::Millis));
    let r = &rig.region;
    inc(r, b"r", b"n", 1);
    // A commit holds the old segment while the new one is in place already.
    let held = rig.hold(region::hooks::Point::SlotClaimed, |r| inc(r, b"other", b"n", 1));
    let sealing = rig.spawn(|r| r.seal().unwrap());
    for i in 2..=4 {
        assert_eq!(inc(r, b"r", b"n", 1), i);
    }
    held.release();
    sealing.join().unwrap();
    assert_eq!(counter(r, b"r", b"n"), Some(4));
    let rig = rig.reopen();
    assert_eq!(counter(&rig.region, b"r", b"n"), Some(4));
    assert_eq!(scan(&rig.region, None, b"r", b"s").len(), 1, "one current version");
}

struct One;
impl Increments for One {
    fn len(&self) -> usize {
        1
    }
    fn get(&self, _: usize) -> Increment<'_> {
        Increment { family: CF, row: b"r", qual: b"c", delta: 1 }
    }
}

/// BUG-05: whatever path an increment takes, its time is the region's tick.
#[test]
fn bug_05() {
    let rig = Rig::with_clock("", ManualClock::new(7_000, ClockUnit::Millis));
    let r = &rig.region;
    inc(r, b"r", b"a", 1);
    inc_row(r, b"r", &[(b"b", 1)]);
    r.increment_many(&One, &WriteOptions::DEFAULT, &mut CommitInfo::default(), &mut |_, _| {}).unwrap();
    done(r, vec![op_inc(b"r", b"d", 1)], &flags(WriteOptions::ATOMIC));
    inc_with(r, b"r", b"e", 1, &flags(WriteOptions::SET)).unwrap();
    for (i, qual) in [b"a", b"b", b"c", b"d", b"e"].into_iter().enumerate() {
        let (n, ts) = r.counter_get(None, &ReadOptions::DEFAULT, Key { family: CF, row: b"r", qual }).unwrap().unwrap();
        assert_eq!((n, ts), (1, 7_000 + i as u64));
    }
}

/// BUG-06: values that are not 8 bytes wide.
#[test]
fn bug_06() {
    let rig = Rig::new("");
    for width in [0usize, 1, 4, 7, 8, 9, 16] {
        put(&rig.region, b"r", &[width as u8], &vec![0; width]);
    }
    let try_all = |r: &region::region::Region| {
        for width in [0usize, 1, 4, 7, 9, 16] {
            let e = inc_with(r, b"r", &[width as u8], 1, &WriteOptions::DEFAULT).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::NotCounter);
            assert!(e.message().contains(&format!("{width} bytes")), "{e}");
            assert_eq!(get(r, b"r", &[width as u8]).unwrap().len(), width);
        }
    };
    try_all(&rig.region);
    assert_eq!(inc(&rig.region, b"r", &[8], 1), 1);
    put(&rig.region, b"r", b"after", b"the row is writable");
    let rig = rig.reopen();
    try_all(&rig.region);
    assert_eq!(inc(&rig.region, b"r", &[8], 1), 2);
}

/// BUG-08: one rule at the ends of the range, on every path.
#[test]
fn bug_08() {
    let rig = Rig::new("");
    let r = &rig.region;
    for start in [i64::MAX, i64::MIN, 0] {
        for delta in [1, -1, i64::MAX, i64::MIN] {
            for sealed in [false, true] {
                let fresh = || {
                    put(r, b"r", b"n", &start.to_be_bytes());
                    if sealed {
                        r.seal().unwrap();
                    }
                };
                let wrapped = start.wrapping_add(delta);
                fresh();
                assert_eq!(inc(r, b"r", b"n", delta), wrapped);
                fresh();
                assert_eq!(done(r, vec![op_inc(b"r", b"n", delta)], &WriteOptions::DEFAULT), [wrapped]);
                fresh();
                let strict = inc_with(r, b"r", b"n", delta, &flags(WriteOptions::CHECK_OVERFLOW));
                match start.checked_add(delta) {
                    Some(sum) => assert_eq!(strict.unwrap().value, sum),
                    None => assert_eq!((kind(strict), counter(r, b"r", b"n")), (ErrorKind::Overflow, Some(start))),
                }
            }
        }
    }
}

/// BUG-10: adding nothing creates an absent counter, and changes nothing of one that is there, in whatever segment it lies.
#[test]
fn bug_10() {
    let rig = Rig::new("");
    assert_eq!(inc(&rig.region, b"r", b"absent", 0), 0);
    assert_eq!(counter(&rig.region, b"r", b"absent"), Some(0));
    inc(&rig.region, b"r", b"n", 5);
    for sealed in [false, true] {
        if sealed {
            rig.region.seal().unwrap();
        }
        let before = (rig.region.stats().unwrap().seq, rig.region.stats().unwrap().wal_bytes);
        assert_eq!(inc(&rig.region, b"r", b"n", 0), 5);
        assert_eq!((rig.region.stats().unwrap().seq, rig.region.stats().unwrap().wal_bytes), before);
    }
    let rig = rig.reopen();
    assert_eq!((inc(&rig.region, b"r", b"n", 0), counter(&rig.region, b"r", b"absent")), (5, Some(0)));
}

/// BUG-11: ASYNC increments, closed at once.
#[test]
fn bug_11() {
    let rig = Rig::new("wal_segment_bytes=1m");
    let o = at(Durability::AsyncWal);
    for i in 0..20_000u32 {
        inc_with(&rig.region, b"one", b"n", 1, &o).unwrap();
        inc_with(&rig.region, &(i % 1000).to_be_bytes(), b"n", 1, &o).unwrap();
    }
    let rig = rig.reopen();
    assert_eq!(counter(&rig.region, b"one", b"n"), Some(20_000));
    assert!((0..1000u32).all(|i| counter(&rig.region, &i.to_be_bytes(), b"n") == Some(20)));
    let after_cut = rig.after_power_cut();
    assert_eq!(counter(&after_cut.region, b"one", b"n"), Some(20_000), "close makes durable");
}

/// BUG-12: an increment in a row of many columns touches the one.
#[test]
fn bug_12() {
    let rig = Rig::new("wal_segment_bytes=4m,wal_bytes_max=512m");
    let r = &rig.region;
    for half in 0..2 {
        for chunk in 0..100u32 {
            let names: Vec<_> = (0..250).map(|i| (half * 50_000 + chunk * 250 + i).to_be_bytes()).collect();
            done(r, names.iter().map(|q| op_put(b"wide", q, &[7; 100])).collect(), &WriteOptions::DEFAULT);
        }
        if half == 0 {
            r.seal().unwrap();
        }
    }
    let timed = |row: &[u8]| {
        inc(r, row, b"n", 1);
        let memory = r.stats().unwrap().memstore_bytes;
        // The best of five: the machine may have other things to do.
        let best = (0..5).map(|_| {
            let begun = std::time::Instant::now();
            count_up(r, row, 2000, 1);
            begun.elapsed()
        });
        let best = best.min().unwrap();
        assert_eq!(r.stats().unwrap().memstore_bytes, memory);
        best
    };
    let (narrow, wide) = (timed(b"narrow"), timed(b"wide"));
    assert!(wide < 3 * narrow, "{wide:?} in a row of 50,000 columns, {narrow:?} in one of its own");
}

/// BUG-13: the clock stands for the whole run.
#[test]
fn bug_13() {
    let rig = Rig::with_clock("tick_lead_max_ms=10", ManualClock::new(5_000, ClockUnit::Millis));
    let r = &rig.region;
    std::thread::scope(|s| {
        for t in 0..16u8 {
            s.spawn(move || {
                for i in 0..60u8 {
                    inc(r, b"r", b"one", 1);
                    inc(r, b"r", &[b'c', (t + i) % 8], 1);
                }
            });
        }
    });
    assert_eq!(counter(r, b"r", b"one"), Some(960));
    assert_eq!((0..8u8).map(|i| counter(r, b"r", &[b'c', i]).unwrap()).sum::<i64>(), 960);
}

/// BUG-14: fifty, close, fifty more, kill.
#[test]
fn bug_14() {
    for delta in [1, 256, -7] {
        let rig = Rig::new("");
        count_up(&rig.region, b"r", 50, delta);
        assert_eq!(counter(&rig.region, b"r", b"n"), Some(50 * delta));
        let rig = rig.reopen();
        assert_eq!(counter(&rig.region, b"r", b"n"), Some(50 * delta));
        count_up(&rig.region, b"r", 50, delta);
        rig.region.seal().unwrap();
        assert_eq!(counter(&rig.region, b"r", b"n"), Some(100 * delta));
        assert_eq!(counter(&rig.after_kill().region, b"r", b"n"), Some(100 * delta));
    }
}

/// BUG-15: delete, put, get, over and over, in every order of batches, under clocks that stand and that step.
#[test]
fn bug_15() {
    for stepping in [false, true] {
        let mut rig = Rig::with_clock("seal_every_commits=100", ManualClock::new(1_000_000, ClockUnit::Millis));
        for life in 0..2 {
            let (r, clock) = (&rig.region, rig.clock.as_ref().unwrap());
            std::thread::scope(|s| {
                for t in 0..4u8 {
                    s.spawn(move || {
                        for i in 0..150u32 {
                            let (row, value) = ([b'r', t], (life * 1000 + i).to_be_bytes());
                            if i % 3 == 0 {
                                done(r, vec![op_delete(&row, b"q"), op_put(&row, b"q", &value)], &WriteOptions::DEFAULT);
                            } else {
                                delete(r, &row, b"q");
                                assert_eq!(get(r, &row, b"q"), None);
                                put(r, &row, b"q", &value);
                            }
                            assert_eq!(get(r, &row, b"q").unwrap(), value);
                            if stepping && i % 5 == 0 {
                                if i % 2 == 0 { clock.advance(3) } else { clock.step_back(2) }
                            }
                        }
                    });
                }
            });
            rig = rig.reopen();
            assert!((0..4u8).all(|t| get(&rig.region, &[b'r', t], b"q").unwrap() == (life * 1000 + 149u32).to_be_bytes()));
        }
    }
}

/// BUG-16: with ticks of a millisecond, rows of their own never wait for the clock, alone or in batches.
#[test]
fn bug_16() {
    let stop = AtomicBool::new(false);
    // A bucket of the lock table remembers two rows; of others only the latest tick, which then holds for all its rows. So a third row of a bucket in one tick
    // does wait: here the table is so large that there is none.
    let rig = Rig::with_clock("tick_policy=wait,lock_buckets=1048576", ManualClock::new(1_000_000, ClockUnit::Millis));
    let r = &rig.region;
    for i in 0..3000u32 {
        let row = i.to_be_bytes();
        done(r, vec![op_delete(&row, b"q"), op_put(&row, b"q", b"v")], &WriteOptions::DEFAULT);
        rig.clock.as_ref().unwrap().advance(u64::from(i % 20 == 0));
    }
    rig.clock.as_ref().unwrap().advance(1);
    std::thread::scope(|s| {
        for t in 0..4u8 {
            s.spawn(move || {
                let rows: Vec<_> = (0..250u32).map(|i| [&[t][..], b"batch", &i.to_be_bytes()].concat()).collect();
                done(r, rows.iter().map(|row| op_put(row, b"q", b"v")).collect(), &WriteOptions::DEFAULT);
            });
        }
    });
    assert_eq!(r.stats().unwrap().clock_waits, 0);
    // The same on one row does wait, about once a tick.
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                rig.clock.as_ref().unwrap().advance(1);
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        let _stops = Stops(&stop);
        (0..20).for_each(|_| put(r, b"one", b"q", b"v"));
    });
    assert!(r.stats().unwrap().clock_waits > 0);
}

/// BUG-17, without deletes of one version: equal bytes are one row whatever the buffer, and the later entry wins.
#[test]
fn bug_17() {
    let rig = Rig::new("");
    let r = &rig.region;
    let (a, b) = (b"row".to_vec(), b"row".to_vec());
    for v in [b"v1", b"v2", b"v3"] {
        r.put(&a, CF3, b"q", v, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap();
    }
    let shown = || scan(r, None, b"row", b"rox").into_iter().map(|c| c.2).collect::<Vec<_>>();
    assert_eq!(shown(), [b"v3"]);
    done(r, vec![Mutation { family: CF3, ..op_delete(&b, b"q") }], &WriteOptions::DEFAULT);
    assert!(shown().is_empty(), "an older version came back");
    done(
        r,
        vec![Mutation { family: CF3, ..op_put(&a, b"q", b"v4") }, Mutation { family: CF3, ..op_delete(&b, b"q") }],
        &WriteOptions::DEFAULT,
    );
    assert!(shown().is_empty());
    done(
        r,
        vec![Mutation { family: CF3, ..op_delete(&a, b"q") }, Mutation { family: CF3, ..op_put(&b, b"q", b"v5") }],
        &WriteOptions::DEFAULT,
    );
    assert_eq!(shown(), [b"v5"]);
}

/// BUG-21: the largest time that a caller may give is 2^62, and nothing that has it wedges the column; what counts chooses its own.
#[test]
fn bug_21() {
    let rig = Rig::new("");
    let r = &rig.region;
    let at = |timestamp| WriteOptions { timestamp, ..WriteOptions::DEFAULT };
    for timestamp in [(1 << 62) + 1, i64::MAX as u64, u64::MAX] {
        assert_eq!(kind(put_with(r, b"r", b"q", b"v", &at(timestamp))), ErrorKind::Invalid, "{timestamp}");
        assert_eq!(kind(inc_with(r, b"r", b"n", 1, &at(timestamp))), ErrorKind::Invalid, "{timestamp}");
    }
    assert_eq!(kind(inc_with(r, b"r", b"n", 1, &at(1))), ErrorKind::Invalid);
    assert!(scan(r, None, b"", b"").is_empty());
    put_with(r, b"r", b"n", &5i64.to_be_bytes(), &at(1 << 62)).unwrap();
    assert_eq!((inc(r, b"r", b"n", 1), inc(r, b"r", b"n", 1), counter(r, b"r", b"n")), (6, 7, Some(7)));
}
