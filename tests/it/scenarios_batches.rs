//! Scenarios BAT-*, at the level of the region. Each is named by its id.

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::env::fault::Op as EnvOp;
use region::error::ErrorKind;
use region::hooks::Point;
use region::options::{Durability, RegionOptions, WriteOptions};
use region::region::{BatchOutcome, Comparison, OpStatus, Region};

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

/// What each count of the statistics counts, as region.h says.
#[test]
fn statistics_count_what_they_say() {
    let rig = Rig::new("");
    let r = &rig.region;
    let counts = || {
        let s = r.stats().unwrap();
        (s.reads, s.writes, s.increments, s.checks_passed, s.checks_failed)
    };
    // Increments: by counter; a reading one counts, a refused one and one that fails do not.
    inc(r, b"r", b"n", 5);
    inc(r, b"r", b"n", 0);
    inc_row(r, b"r", &[(b"a", 1), (b"b", 1)]);
    let bounded = WriteOptions { max_value: 5, ..flags(WriteOptions::BOUNDED) };
    assert!(!inc_with(r, b"r", b"n", 1, &bounded).unwrap().applied);
    assert_eq!(counts(), (0, 0, 4, 0, 0));
    // Writes: by operation applied, whatever it is.
    put(r, b"r", b"text", b"abc");
    assert!(inc_with(r, b"r", b"text", 1, &WriteOptions::DEFAULT).is_err());
    delete(r, b"r", b"gone");
    assert_eq!(counts(), (0, 2, 4, 0, 0));
    done(r, vec![op_check(b"r", b"n", Comparison::Exists, b""), op_inc(b"r", b"n", 1), op_put(b"s", b"q", b"v")], &WriteOptions::DEFAULT);
    assert_eq!(counts(), (0, 5, 4, 1, 0));
    // One group is not met, one fails, one is applied. The check before the one that is not met was met; the one behind it is not looked at.
    let exists = |qual| op_check(b"r", qual, Comparison::Exists, b"");
    let ops = vec![
        exists(b"n"),
        exists(b"gone"),
        exists(b"n"),
        op_check(b"s", b"q", Comparison::Exists, b""),
        op_inc(b"s", b"q", 1),
        op_put(b"t", b"q", b"v"),
    ];
    let outcome = batch(r, ops.clone(), &WriteOptions::DEFAULT).0;
    assert!(matches!(outcome, Ok(BatchOutcome::Partial { first: 4, applied: 1, failed: 2, .. })), "{outcome:?}");
    assert_eq!(counts(), (0, 6, 4, 3, 1));
    // The whole call is kept by its second element.
    assert!(matches!(batch(r, ops, &flags(WriteOptions::ATOMIC)).0, Ok(BatchOutcome::NotApplied { first: 1 })));
    assert_eq!(counts(), (0, 6, 4, 4, 2));
    // Reads: values looked up, there or not; cells given out. Not snapshots and scanners.
    let snapshot = r.snapshot(LONG).unwrap();
    assert_eq!((get(r, b"t", b"q").is_some(), get(r, b"t", b"none"), counter(r, b"r", b"n")), (true, None, Some(6)));
    assert_eq!(counts().0, 3);
    let cells = scan(r, Some(&snapshot), b"", b"").len() as u64;
    assert!(cells > 4);
    assert_eq!(counts(), (3 + cells, 6, 4, 4, 2));
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

/// What an atomic call reports is the first element of the call that fails or is not met, whatever order its rows are locked in.
#[test]
fn an_atomic_call_reports_its_first_obstacle_in_call_order() {
    let rig = Rig::new("");
    let r = &rig.region;
    let rows: Vec<Vec<u8>> = (0..40).map(|i| format!("row {i}").into_bytes()).collect();
    for row in &rows {
        put(r, row, b"text", b"abc");
    }
    let atomic = flags(WriteOptions::ATOMIC);
    let good = |i: usize| op_inc(&rows[i], b"n", 1);
    let bad = |i: usize| op_inc(&rows[i], b"text", 1);
    let unmet = |i: usize| op_check(&rows[i], b"n", Comparison::Exists, b"");
    for from in 0..rows.len() {
        // Good ones, then only failing ones.
        let ops = (0..rows.len()).map(|i| if i < from { good(i) } else { bad(i) }).collect();
        let (outcome, results, _) = batch(r, ops, &atomic);
        let e = outcome.unwrap_err();
        assert_eq!((e.kind(), e.op_index()), (ErrorKind::NotCounter, from as u64), "{e}");
        for (i, result) in results.iter().enumerate() {
            let expected = if i == from { ErrorKind::NotCounter } else { ErrorKind::NotRun };
            assert_eq!(result.unwrap().status, OpStatus::Failed(expected), "{i} of {from}");
        }
        // The same with checks that are not met, and a failure behind the first of them: what an unmet check guards is not looked at.
        let checks = r.stats().unwrap().checks_failed;
        let mut ops: Vec<_> = (0..rows.len()).map(|i| if i < from { good(i) } else { unmet(i) }).collect();
        ops.push(bad(0));
        let (outcome, results, _) = batch(r, ops, &atomic);
        assert!(matches!(outcome, Ok(BatchOutcome::NotApplied { first }) if first == from), "{outcome:?}");
        assert!(results.iter().all(|r| r.unwrap().status == OpStatus::NotApplied));
        assert_eq!(r.stats().unwrap().checks_failed, checks + 1);
    }
    // Rows that come back: all changes of one are made together, and still it is the call's order that counts.
    for (a, b) in (0..rows.len()).zip(1..rows.len()) {
        let (outcome, _, _) = batch(r, vec![good(a), bad(b), bad(a), unmet(b)], &atomic);
        assert_eq!(outcome.unwrap_err().op_index(), 1, "{a} {b}");
        let (outcome, results, _) = batch(r, vec![good(a), unmet(b), good(b), bad(a), bad(b)], &atomic);
        assert!(matches!(outcome, Ok(BatchOutcome::NotApplied { first: 1 })), "{outcome:?}");
        assert!(results.iter().all(|r| r.unwrap().status == OpStatus::NotApplied));
    }
    assert!(rows.iter().all(|row| counter(r, row, b"n").is_none()));
}

/// A run that has to be tried again, here for its tick, evaluates its checks again and counts them once.
#[test]
fn a_check_counts_once_however_often_its_run_is_tried() {
    let rig = Rig::with_clock("tick_policy=wait", ManualClock::new(10_000_000_000_000, ClockUnit::Millis));
    let (r, clock) = (&rig.region, rig.clock.as_ref().unwrap());
    // With ATOMIC a check that is not met leaves nothing to commit, hence nothing to wait for.
    for (second, o, counts) in [(b"s", WriteOptions::DEFAULT, (1, 1)), (b"r", flags(WriteOptions::ATOMIC), (3, 1))] {
        clock.advance(1);
        inc(r, b"r", b"n", 1);
        let waits = r.stats().unwrap().clock_waits;
        let call = rig.spawn(move |r| {
            let ops =
                vec![op_check(b"r", b"n", Comparison::Exists, b""), op_inc(b"r", b"n", 1), op_check(second, b"n", Comparison::Exists, b"")];
            batch(r, ops, &within(LONG.micros(), o)).0
        });
        // Whoever waits has evaluated its run. The clock may also stand for so long that nobody waits: then it is tried once.
        while r.stats().unwrap().clock_waits == waits && !call.is_finished() {
            std::thread::yield_now();
        }
        clock.advance(1);
        call.join().unwrap().unwrap();
        let stats = r.stats().unwrap();
        assert_eq!((stats.checks_passed, stats.checks_failed), counts, "{o:?}");
    }
}
