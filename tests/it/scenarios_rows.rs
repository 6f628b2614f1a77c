//! Scenarios ATM-*, BAT-*, LCK-*, CLK-*, MVC-*, at the level of the region. Each is named by its id. (Those of single rooms stand beside the rooms.)

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::env::fault::Op as EnvOp;
use region::error::ErrorKind;
use region::hooks::Point;
use region::options::{Durability, ReadOptions, RegionOptions, WriteOptions};
use region::region::{BatchOutcome, CloseFlags, CommitInfo, Mutation, Op, OpStatus, Region, ScanSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

fn in_family(family: u32, m: Mutation<'_>) -> Mutation<'_> {
    Mutation { family, ..m }
}

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
                for i in 0..60 {
                    let (put, gone): (&[u8], &[u8]) = if (i + t) % 2 == 0 { (b"q1", b"q2") } else { (b"q2", b"q1") };
                    done(r, vec![op_put(b"r", put, b"v"), op_delete(b"r", gone)], &WriteOptions::DEFAULT);
                    clock.advance(1);
                    assert_eq!(scan(r, None, b"r", b"s").len(), 1);
                }
                running.fetch_sub(1, Ordering::Relaxed);
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
                for _ in 0..60 {
                    let q3 = in_family(CF3, op_inc(b"r", b"q3", 3 * t));
                    done(r, vec![op_inc(b"r", b"q1", t), op_inc(b"r", b"q2", 2 * t), q3], &WriteOptions::DEFAULT);
                }
                running.fetch_sub(1, Ordering::Relaxed);
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
            for i in 1..600 {
                let ops = if i % 2 == 1 {
                    vec![op_put(b"r", b"b", b"odd"), op_delete(b"r", b"a"), op_inc(b"r", b"n", 1)]
                } else {
                    vec![op_delete(b"r", b"b"), op_put(b"r", b"a", b"even"), op_inc(b"r", b"n", -1)]
                };
                done(r, ops, &WriteOptions::DEFAULT);
            }
            running.store(0, Ordering::Relaxed);
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
            for i in 0..150u8 {
                let value = [i; 20];
                let ops = [CF, CF3, OTHER].iter().flat_map(|f| names.iter().map(|q| in_family(*f, op_put(b"r", q, &value))));
                done(r, ops.collect(), &WriteOptions::DEFAULT);
            }
            running.store(0, Ordering::Relaxed);
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

/// An atomic call over rows with one unknown family, or one operation not offered: error, no row changed.
#[test]
fn atm_07() {
    let rig = Rig::new("");
    let r = &rig.region;
    for bad in [in_family(77, op_put(b"c", b"q", b"v")), op(Op::Append, b"c", b"q"), Mutation { timestamp: 5, ..op_put(b"c", b"q", b"v") }]
    {
        let (outcome, results, info) = batch(r, vec![op_put(b"a", b"q", b"v"), op_inc(b"b", b"n", 1), bad], &flags(WriteOptions::ATOMIC));
        assert!(matches!(kind(outcome), ErrorKind::NoFamily | ErrorKind::Unsupported));
        assert_eq!(results[0].unwrap().status, OpStatus::Failed(ErrorKind::NotRun));
        assert_eq!(info.seq, 0);
        assert!(scan(r, None, b"", b"").is_empty());
    }
}

/// put q1, delete q2, increment q3 as one row change (append is not offered yet).
#[test]
fn atm_09_without_append() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"r", b"q2", b"x");
    inc(r, b"r", b"q3", 5);
    let values = done(r, vec![op_put(b"r", b"q1", b"v"), op_delete(b"r", b"q2"), op_inc(b"r", b"q3", 1)], &WriteOptions::DEFAULT);
    assert_eq!(values[2], 6);
    assert_eq!((get(r, b"r", b"q1"), get(r, b"r", b"q2"), counter(r, b"r", b"q3")), (Some(b"v".to_vec()), None, Some(6)));
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

/// Ten valid puts, one sync. Then with one of an unknown family: it alone fails, one more sync.
#[test]
fn bat_01_bat_02() {
    let rig = Rig::new("");
    let r = &rig.region;
    let rows: Vec<[u8; 1]> = (0..10).map(|i| [i]).collect();
    let ops = || rows.iter().map(|row| op_put(row, b"q", b"v")).collect::<Vec<_>>();
    let before = r.stats().unwrap().wal_syncs;
    done(r, ops(), &at(Durability::FsyncWal));
    assert_eq!(r.stats().unwrap().wal_syncs, before + 1);
    let mut with_bad = ops();
    with_bad[5].family = 77;
    let (outcome, results, _) = batch(r, with_bad, &at(Durability::FsyncWal));
    assert!(matches!(outcome, Ok(BatchOutcome::Partial { first: 5, .. })), "{outcome:?}");
    for (i, result) in results.iter().enumerate() {
        let expected = if i == 5 { OpStatus::Failed(ErrorKind::NoFamily) } else { OpStatus::Applied };
        assert_eq!(result.unwrap().status, expected, "{i}");
    }
    assert_eq!(r.stats().unwrap().wal_syncs, before + 2);
}

/// No time to wait at all: what is free is done.
#[test]
fn bat_05() {
    let rig = Rig::new("");
    for micros in [0, 1] {
        done(&rig.region, vec![op_put(b"a", b"q", b"v"), op_put(b"b", b"q", b"v")], &within(micros, WriteOptions::DEFAULT));
    }
}

/// One row is locked elsewhere past the time: an atomic batch does nothing and syncs nothing; of a plain one only that row fails.
#[test]
fn bat_06() {
    let rig = Rig::new("");
    let r = &rig.region;
    let held = rig.hold(Point::RowLocked, |r| inc(r, b"b", b"n", 1));
    let ops = || vec![op_put(b"a", b"q", b"v"), op_put(b"b", b"q", b"v"), op_put(b"c", b"q", b"v")];
    let o = within(SHORT.micros(), at(Durability::FsyncWal));
    let before = r.stats().unwrap();
    let atomic = batch(r, ops(), &WriteOptions { flags: WriteOptions::ATOMIC, ..o }).0;
    assert_eq!(kind(atomic), ErrorKind::Timeout);
    let after = r.stats().unwrap();
    assert_eq!((after.seq, after.wal_syncs), (before.seq, before.wal_syncs));
    assert!(scan(r, None, b"", b"").is_empty());
    // One time for the whole call: with FSYNC the sync would be out of time as well, and the outcome unknown.
    let (outcome, results, _) = batch(r, ops(), &within(SHORT.micros(), WriteOptions::DEFAULT));
    assert!(matches!(outcome, Ok(BatchOutcome::Partial { first: 1, .. })), "{outcome:?}");
    assert_eq!(results[1].unwrap().status, OpStatus::Failed(ErrorKind::Timeout));
    assert_eq!((get(r, b"a", b"q"), get(r, b"b", b"q"), get(r, b"c", b"q")), (Some(b"v".to_vec()), None, Some(b"v".to_vec())));
    assert_eq!(held.release(), 1);
}

fn ranged() -> (tempfile::TempDir, Region) {
    let dir = tempfile::tempdir().unwrap();
    let options = RegionOptions { start_row: b"a".to_vec(), end_row: b"c".to_vec(), ..crate::verbs::options() };
    let r = Region::open(&dir.path().join("r"), options, None, None).unwrap();
    (dir, r)
}

/// A region from a to before c: rows a, c, b.
#[test]
fn bat_08_lck_08() {
    let (_dir, r) = ranged();
    let (outcome, results, _) =
        batch(&r, vec![op_put(b"a", b"q", b"v"), op_put(b"c", b"q", b"v"), op_put(b"b", b"q", b"v")], &WriteOptions::DEFAULT);
    assert!(matches!(outcome, Ok(BatchOutcome::Partial { first: 1, .. })), "{outcome:?}");
    assert_eq!(
        results.iter().map(|r| r.unwrap().status).collect::<Vec<_>>(),
        [OpStatus::Applied, OpStatus::Failed(ErrorKind::Range), OpStatus::Applied]
    );
    for row in [b"A".as_slice(), b"c", b"zz"] {
        assert_eq!(kind(inc_with(&r, row, b"n", 1, &WriteOptions::DEFAULT)), ErrorKind::Range);
    }
    close(&r);
}

/// An empty batch: nothing at all.
#[test]
fn bat_11() {
    let rig = Rig::new("");
    let before = (rig.region.stats().unwrap().seq, rig.faults.count(EnvOp::SyncData));
    for o in [at(Durability::FsyncWal), flags(WriteOptions::ATOMIC)] {
        let (outcome, _, info) = batch(&rig.region, vec![], &o);
        assert!(matches!(outcome, Ok(BatchOutcome::Done)));
        assert_eq!(info.seq, 0);
    }
    assert_eq!((rig.region.stats().unwrap().seq, rig.faults.count(EnvOp::SyncData)), before);
}

/// One column three times in one call: the last one counts, and it is one version.
#[test]
fn bat_12() {
    let rig = Rig::new("");
    let r = &rig.region;
    let ops = [b"1", b"2", b"3"].map(|v| in_family(CF3, op_put(b"r", b"q", v)));
    done(r, ops.to_vec(), &WriteOptions::DEFAULT);
    let cells = scan(r, None, b"r", b"s");
    assert_eq!(cells, [(b"r".to_vec(), b"q".to_vec(), b"3".to_vec())]);
}

/// An increment and a put of an unknown family: ours stay per row (HBase refuses the whole batch).
#[test]
fn bat_13() {
    let rig = Rig::new("");
    let r = &rig.region;
    let (outcome, results, _) = batch(r, vec![op_inc(b"a", b"n", 1), in_family(77, op_put(b"b", b"q", b"v"))], &WriteOptions::DEFAULT);
    assert!(matches!(outcome, Ok(BatchOutcome::Partial { first: 1, .. })), "{outcome:?}");
    assert_eq!(results[0].unwrap().status, OpStatus::Applied);
    assert_eq!(counter(r, b"a", b"n"), Some(1));
}

/// Requests are counted by operation.
#[test]
fn bat_14() {
    let rig = Rig::new("");
    let r = &rig.region;
    done(r, vec![op_put(b"a", b"q", b"v"), op_put(b"b", b"q", b"v"), op_delete(b"b", b"q")], &WriteOptions::DEFAULT);
    put(r, b"c", b"q", b"v");
    inc_row(r, b"d", &[(b"x", 1), (b"y", 1)]);
    inc(r, b"d", b"x", 1);
    let stats = r.stats().unwrap();
    assert_eq!((stats.writes, stats.increments), (4, 3), "{stats:?}");
}

/// Rows of their own, random values, each read back right after its put.
#[test]
fn bat_16() {
    let rig = Rig::new("");
    let (r, seed) = (&rig.region, seed());
    std::thread::scope(|s| {
        for t in 0..20u64 {
            s.spawn(move || {
                let mut random = Random(seed + t);
                for i in 0..100u64 {
                    let row = [t.to_be_bytes(), i.to_be_bytes()].concat();
                    let value: Vec<u8> = (0..100).map(|_| random.next() as u8).collect();
                    put(r, &row, b"q", &value);
                    assert_eq!(get(r, &row, b"q").unwrap(), value);
                }
            });
        }
    });
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
