//! Scenarios ATM-*, LCK-*, CLK-*, MVC-*, at the level of the region. Each is named by its id. (Those of single rooms stand beside the rooms.)

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::error::ErrorKind;
use region::hooks::Point;
use region::options::{ReadOptions, WriteOptions};
use region::region::{CloseFlags, CommitInfo, Mutation, Op, OpStatus, ScanSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// put q1 + delete q2, then the other way round: a read of the row finds exactly one column.
#[test]
fn atm_01() {
    let rig = Rig::with_clock("seal_every_commits=10", ManualClock::new(1000, ClockUnit::Millis));
    let r = &rig.region;
    put(r, b"r", b"q1", b"v");
    let running = AtomicI64::new(6);
    std::thread::scope(|s| {
        for t in 0..6 {
            let (running, clock) = (&running, rig.clock.as_ref().unwrap());
            s.spawn(move || {
                let _ends = Ends(running);
                for i in 0..60 {
                    let (put, gone): (&[u8], &[u8]) = if (i + t) % 2 == 0 { (b"q1", b"q2") } else { (b"q2", b"q1") };
                    done(r, vec![op_put(b"r", put, b"v"), op_delete(b"r", gone)], &WriteOptions::DEFAULT);
                    clock.advance(1);
                    assert_eq!(scan(r, None, b"r", b"s").len(), 1);
                }
            });
        }
        while running.load(Ordering::Relaxed) > 0 {
            assert_eq!(scan(r, None, b"r", b"s").len(), 1);
        }
    });
}

/// Three columns of two families in one call; every row read has q2 = 2·q1 and q3 = 3·q1.
#[test]
fn atm_03() {
    let rig = Rig::new("seal_every_commits=100");
    let r = &rig.region;
    let running = AtomicI64::new(10);
    std::thread::scope(|s| {
        for t in 1..=10 {
            let running = &running;
            s.spawn(move || {
                let _ends = Ends(running);
                for _ in 0..60 {
                    let q3 = in_family(CF3, op_inc(b"r", b"q3", 3 * t));
                    done(r, vec![op_inc(b"r", b"q1", t), op_inc(b"r", b"q2", 2 * t), q3], &WriteOptions::DEFAULT);
                }
            });
        }
        while running.load(Ordering::Relaxed) > 0 {
            if let [a, b, c] = &scan(r, None, b"r", b"s")[..] {
                assert_eq!((number(&b.2), number(&c.2)), (2 * number(&a.2), 3 * number(&a.2)));
            }
        }
    });
    assert_eq!(counter(r, b"r", b"q1"), Some(60 * 55));
}

/// A row flips between two complete states; nothing else is ever seen.
#[test]
fn atm_05() {
    let rig = Rig::new("seal_every_commits=25");
    let r = &rig.region;
    let state = |i: i64| -> Vec<(&'static [u8], Vec<u8>)> {
        if i % 2 == 0 {
            vec![(b"a", b"even".to_vec()), (b"n", 0i64.to_be_bytes().to_vec())]
        } else {
            vec![(b"b", b"odd".to_vec()), (b"n", 1i64.to_be_bytes().to_vec())]
        }
    };
    done(r, vec![op_put(b"r", b"a", b"even"), op_inc(b"r", b"n", 0)], &WriteOptions::DEFAULT);
    let running = AtomicI64::new(1);
    std::thread::scope(|s| {
        s.spawn(|| {
            let _ends = Ends(&running);
            for i in 1..600 {
                let ops = if i % 2 == 1 {
                    vec![op_put(b"r", b"b", b"odd"), op_delete(b"r", b"a"), op_inc(b"r", b"n", 1)]
                } else {
                    vec![op_delete(b"r", b"b"), op_put(b"r", b"a", b"even"), op_inc(b"r", b"n", -1)]
                };
                done(r, ops, &WriteOptions::DEFAULT);
            }
        });
        for _ in 0..4 {
            s.spawn(|| {
                while running.load(Ordering::Relaxed) > 0 {
                    let row: Vec<_> = scan(r, None, b"r", b"s").into_iter().map(|c| (c.1, c.2)).collect();
                    let is = |i| state(i).into_iter().map(|(q, v)| (q.to_vec(), v)).eq(row.iter().cloned());
                    assert!(is(0) || is(1), "{row:?}");
                }
            });
        }
    });
}

/// Many columns of several families rewritten with one value: a row shows one value, and its time never goes back.
#[test]
fn atm_06() {
    let rig = Rig::new("seal_every_commits=10");
    let r = &rig.region;
    let names: Vec<Vec<u8>> = (0..30).map(|i| format!("q{i:02}").into_bytes()).collect();
    let running = AtomicI64::new(1);
    std::thread::scope(|s| {
        s.spawn(|| {
            let _ends = Ends(&running);
            for i in 0..150u8 {
                let value = [i; 20];
                let ops = [CF, CF3, OTHER].iter().flat_map(|f| names.iter().map(|q| in_family(*f, op_put(b"r", q, &value))));
                done(r, ops.collect(), &WriteOptions::DEFAULT);
            }
        });
        s.spawn(|| {
            let mut last = 0;
            while running.load(Ordering::Relaxed) > 0 {
                let mut scanner = r.scanner(None, &ReadOptions::DEFAULT, &ScanSpec::default()).unwrap();
                let (mut cells, mut first) = (0, None);
                while let Some(c) = scanner.next().unwrap() {
                    let (value, ts) = first.get_or_insert((c.value.to_vec(), c.timestamp));
                    assert_eq!((&c.value.to_vec(), c.timestamp), (&*value, *ts));
                    cells += 1;
                }
                assert!(cells == 0 || cells == 90, "{cells}");
                let ts = first.map_or(0, |f| f.1);
                assert!(ts >= last, "the row went back in time");
                last = ts;
            }
        });
    });
}

/// An atomic call over rows with one unknown family, or one operation that cannot be: error, no row changed.
#[test]
fn atm_07() {
    let rig = Rig::new("");
    let r = &rig.region;
    for bad in [
        in_family(77, op_put(b"c", b"q", b"v")),
        op(Op::DeleteFamilyVersion, b"c", b""),
        Mutation { timestamp: 5, ..op_inc(b"c", b"q", 1) },
    ] {
        let (outcome, results, info) = batch(r, vec![op_put(b"a", b"q", b"v"), op_inc(b"b", b"n", 1), bad], &flags(WriteOptions::ATOMIC));
        assert!(matches!(kind(outcome), ErrorKind::NoFamily | ErrorKind::Invalid));
        assert_eq!(results[0].unwrap().status, OpStatus::Failed(ErrorKind::NotRun));
        assert_eq!(info.seq, 0);
        assert!(scan(r, None, b"", b"").is_empty());
    }
}

/// put q1, delete q2, increment q3, append q4 as one row change.
#[test]
fn atm_09() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"r", b"q2", b"x");
    inc(r, b"r", b"q3", 5);
    put(r, b"r", b"q4", b"a");
    let append = Mutation { value: b"b", ..op(Op::Append, b"r", b"q4") };
    let values = done(r, vec![op_put(b"r", b"q1", b"v"), op_delete(b"r", b"q2"), op_inc(b"r", b"q3", 1), append], &WriteOptions::DEFAULT);
    assert_eq!(values[2..], [6, 2]);
    assert_eq!((get(r, b"r", b"q1"), get(r, b"r", b"q2"), counter(r, b"r", b"q3")), (Some(b"v".to_vec()), None, Some(6)));
    assert_eq!(get(r, b"r", b"q4").unwrap(), b"ab");
}

/// Within one call the order given decides; where HBase lets the marker win by its equal time, ours hides only what stands before it.
#[test]
fn atm_12() {
    let rig = Rig::new("");
    let r = &rig.region;
    done(r, vec![op_put(b"r", b"q", b"v"), op_delete(b"r", b"q")], &WriteOptions::DEFAULT);
    assert_eq!(get(r, b"r", b"q"), None);
    done(r, vec![op_delete(b"r", b"q"), op_put(b"r", b"q", b"v")], &WriteOptions::DEFAULT);
    assert_eq!(get(r, b"r", b"q").unwrap(), b"v");
}

/// Rows of one bucket do not block each other, nor themselves in one call, nor themselves twice in one call.
#[test]
fn lck_06() {
    let rig = Rig::new("lock_buckets=64");
    let r = &rig.region;
    let bucket = |row: &[u8]| r.row_hash(row).0 >> 58;
    let same: Vec<Vec<u8>> = (0u64..).map(|i| format!("row{i}").into_bytes()).filter(|row| bucket(row) == 7).take(12).collect();
    let mut ops: Vec<_> = same.iter().map(|row| op_inc(row, b"n", 1)).collect();
    ops.push(op_inc(&same[0], b"n", 1));
    let held = rig.hold(Point::RowLocked, |r| inc(r, b"elsewhere", b"n", 1));
    for o in [WriteOptions::DEFAULT, flags(WriteOptions::ATOMIC)] {
        let values = done(r, ops.clone(), &within(5_000_000, o));
        assert_eq!(values[12], values[0] + 1);
    }
    held.release();
}

/// A writer that waits for a row when the region is closed, and one that comes afterwards.
#[test]
fn lck_07() {
    let rig = Rig::new("");
    let held = rig.hold(Point::RowLocked, |r| inc_with(r, b"r", b"n", 1, &WriteOptions::DEFAULT).map(|c| c.value));
    let waits = rig.spawn(|r| inc_with(r, b"r", b"n", 1, &within(30_000_000, WriteOptions::DEFAULT)));
    while rig.region.stats().unwrap().row_lock_waits == 0 {
        std::thread::yield_now();
    }
    let closer = rig.spawn(|r| r.close(CloseFlags::default(), LONG));
    assert_eq!(kind(waits.join().unwrap()), ErrorKind::Closed, "sent away though the row is still held");
    assert_eq!(held.release().unwrap(), 1, "what had begun ends");
    closer.join().unwrap().unwrap();
    assert_eq!(kind(inc_with(&rig.region, b"r", b"n", 1, &WriteOptions::DEFAULT)), ErrorKind::Closed);
    assert_eq!(kind(batch(&rig.region, vec![op_put(b"r", b"q", b"v")], &WriteOptions::DEFAULT).0), ErrorKind::Closed);
}

/// A caller that waits for its row's tick holds no lock: other rows go on, and close sends it away at once.
#[test]
fn clk_07() {
    let clock = ManualClock::new(1000, ClockUnit::Millis);
    let rig = Rig::with_clock("tick_policy=wait", clock);
    let (r, clock) = (&rig.region, Arc::clone(rig.clock.as_ref().unwrap()));
    inc(r, b"r", b"n", 1);
    // Moves just enough, by a real clock's pace, that it does not count as standing; but never far enough for the row.
    let waits = rig.spawn(|r| inc_with(r, b"r", b"n", 1, &within(30_000_000, WriteOptions::DEFAULT)));
    while r.stats().unwrap().clock_waits == 0 {
        assert_eq!(inc_with(r, b"other", b"n", 0, &WriteOptions::DEFAULT).unwrap().value, 0);
        std::thread::yield_now();
    }
    assert_eq!(inc(r, b"unrelated", b"n", 1), 1);
    clock.advance(1);
    assert_eq!(waits.join().unwrap().unwrap().value, 2);
}

/// Equal bytes are one row whatever the buffer; a prefix is another row.
#[test]
fn clk_08() {
    let rig = Rig::with_clock("", ManualClock::new(1000, ClockUnit::Millis));
    let r = &rig.region;
    let (a, b) = (b"row".to_vec(), b"row".to_vec());
    let tick = |row: &[u8]| put_with(r, row, b"q", b"v", &WriteOptions::DEFAULT).unwrap().timestamp;
    assert_eq!((tick(&a), tick(&b), tick(b"ro"), tick(b"row\0")), (1000, 1001, 1000, 1000));
    assert_eq!(done(r, vec![op_inc(&a, b"n", 1), op_inc(b"x", b"n", 1), op_inc(&b, b"n", 1)], &flags(WriteOptions::ATOMIC)), [1, 1, 2]);
}

/// An insert under way, or a delete, is seen by a scanner that opens after it ended and by none before.
#[test]
fn mvc_07_mvc_09() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"b", b"q", b"v");
    let insert = rig.hold(Point::BeforeAppend, |r| put(r, b"a", b"q", b"v"));
    let remove = rig.hold(Point::BeforeAppend, |r| delete(r, b"b", b"q"));
    assert_eq!(scan(r, None, b"", b"").len(), 1);
    assert_eq!(get(r, b"b", b"q").unwrap(), b"v");
    insert.release();
    assert_eq!(scan(r, None, b"", b"").len(), 2);
    remove.release();
    assert_eq!(scan(r, None, b"", b""), [(b"a".to_vec(), b"q".to_vec(), b"v".to_vec())]);
}

/// Each thread reads its own latest write through a new scanner.
#[test]
fn mvc_10() {
    let rig = Rig::new("seal_every_commits=50");
    let r = &rig.region;
    std::thread::scope(|s| {
        for t in 0..8u8 {
            s.spawn(move || {
                for i in 0..60u8 {
                    put(r, b"r", &[t], &[i]);
                    let row = scan(r, None, b"r", b"s");
                    assert_eq!(row.iter().find(|c| c.1 == [t]).unwrap().2, [i]);
                }
            });
        }
    });
}

/// Numbers go on above everything that was ever in the log, through every kind of end.
#[test]
fn mvc_14() {
    let mut rig = Rig::new("seal_every_commits=5");
    let mut last = 0;
    for life in 0..6 {
        for i in 0..10u8 {
            let info = put_with(&rig.region, &[i], b"q", b"v", &WriteOptions::DEFAULT).unwrap();
            assert!(info.seq > last, "{} after {last}", info.seq);
            last = info.seq;
        }
        last = last.max(rig.region.stats().unwrap().seq);
        rig = match life % 3 {
            0 => rig.reopen(),
            1 => rig.after_kill(),
            _ => {
                rig.region.seal().unwrap();
                rig.reopen()
            }
        };
        assert!(rig.region.stats().unwrap().seq >= last);
    }
    let mut info = CommitInfo::default();
    rig.region.put(b"x", CF, b"q", b"v", &WriteOptions::DEFAULT, &mut info).unwrap();
    assert!(info.seq > last);
}
