//! Scenarios CAM-*, ATM-11, BAT-10, APP-06: checks and the changes they guard. Each is named by its id.
//!
//! Where HBase takes an empty expected value for "absent" ours has operators of their own, EXISTS and ABSENT; an empty value is a value.

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::error::ErrorKind;
use region::ids::TIMESTAMP_MAX;
use region::options::{Durability, OpenFlags, RegionOptions, WriteOptions};
use region::region::Comparison::{Absent, Equal, Exists, NotEqual};
use region::region::{BatchOutcome, CommitInfo, Mutation, Op, OpStatus, Region};
use std::sync::atomic::{AtomicU64, Ordering};

fn append<'a>(row: &'a [u8], qual: &'a [u8], value: &'a [u8]) -> Mutation<'a> {
    Mutation { value, ..op(Op::Append, row, qual) }
}
/// Whether the condition was met; and no operation failed.
#[track_caller]
fn met(r: &Region, ops: Vec<Mutation<'_>>, o: &WriteOptions) -> bool {
    match batch(r, ops, o).0.unwrap() {
        BatchOutcome::Done => true,
        BatchOutcome::NotApplied { first: 0 } => false,
        other => panic!("{other:?}"),
    }
}
const PLAIN: WriteOptions = WriteOptions::DEFAULT;

/// Absent, absent again, then what it holds.
#[test]
fn cam_01() {
    let rig = Rig::new("");
    let r = &rig.region;
    let (guard, v) = (|how, expected| op_check(b"r", b"q", how, expected), |value| op_put(b"r", b"q", value));
    assert!(!met(r, vec![guard(Equal, b""), v(b"v0")], &PLAIN), "an empty value is a value, and there is none");
    assert!(met(r, vec![guard(Absent, b""), v(b"v1")], &PLAIN));
    assert!(!met(r, vec![guard(Absent, b""), v(b"v2")], &PLAIN));
    assert_eq!(get(r, b"r", b"q").unwrap(), b"v1");
    assert!(met(r, vec![guard(Equal, b"v1"), v(b"")], &PLAIN));
    assert!(!met(r, vec![guard(Absent, b""), v(b"v3")], &PLAIN));
    assert!(met(r, vec![guard(Equal, b""), v(b"v4")], &PLAIN));
    assert_eq!(get(r, b"r", b"q").unwrap(), b"v4");
}

/// HBase's "not equal to nothing" is EXISTS here; NOT EQUAL to a value is met by a column that has none.
#[test]
fn cam_03() {
    let rig = Rig::new("");
    let r = &rig.region;
    assert!(!met(r, vec![op_check(b"r", b"q", Exists, b""), op_put(b"r", b"x", b"v")], &PLAIN));
    assert_eq!((scan(r, None, b"", b"").len(), r.stats().unwrap().seq), (0, 0), "nothing was written");
    assert!(met(r, vec![op_check(b"r", b"q", NotEqual, b""), op_put(b"r", b"x", b"v")], &PLAIN));
    assert_eq!(get(r, b"r", b"x").unwrap(), b"v");
}

/// The wrong value: no change, no commit, no sync, whatever the check guards.
#[test]
fn cam_04() {
    let rig = Rig::new("");
    let r = &rig.region;
    put_with(r, b"r", b"q", b"v", &at(Durability::FsyncWal)).unwrap();
    let before = r.stats().unwrap();
    for guarded in [op_put(b"r", b"q", b"w"), op_delete(b"r", b"q"), op(Op::DeleteRow, b"r", b""), op_inc(b"r", b"n", 1)] {
        assert!(!met(r, vec![op_check(b"r", b"q", Equal, b"wrong"), guarded], &at(Durability::FsyncWal)));
    }
    let after = r.stats().unwrap();
    assert_eq!((after.seq, after.wal_syncs, after.checks_failed), (before.seq, before.wal_syncs, 4));
    assert_eq!(scan(r, None, b"", b""), [(b"r".to_vec(), b"q".to_vec(), b"v".to_vec())]);
}

/// The condition looks at one family, the change goes to another.
#[test]
fn cam_06() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"r", b"q", b"v");
    for (expected, is_met) in [(b"w", false), (b"v", true)] {
        let ops = vec![op_check(b"r", b"q", Equal, expected), in_family(OTHER, op_put(b"r", b"q", b"other"))];
        assert_eq!(met(r, ops, &PLAIN), is_met);
        assert_eq!(scan(r, None, b"", b"").len(), if is_met { 2 } else { 1 });
    }
    assert_eq!(get(r, b"r", b"q").unwrap(), b"v");
}

/// HBase refuses a condition of one row that guards another, and a row change over several rows. Here rows are named by operation: a check guards its own row,
/// or with ATOMIC the call, and that may be of several rows.
#[test]
fn cam_07_atm_11() {
    let rig = Rig::new("");
    let r = &rig.region;
    let ops = |how| vec![op_check(b"a", b"q", how, b""), op_put(b"a", b"q", b"v"), op_put(b"b", b"q", b"v")];
    let (outcome, results, _) = batch(r, ops(Exists), &PLAIN);
    assert!(matches!(outcome, Ok(BatchOutcome::NotApplied { first: 0 })), "{outcome:?}");
    let statuses: Vec<_> = results.iter().map(|r| r.unwrap().status).collect();
    assert_eq!(statuses, [OpStatus::NotApplied, OpStatus::NotApplied, OpStatus::Applied]);
    delete(r, b"b", b"q");
    assert!(!met(r, ops(Exists), &flags(WriteOptions::ATOMIC)));
    assert!(scan(r, None, b"", b"").is_empty(), "nothing of either row");
    assert!(met(r, ops(Absent), &flags(WriteOptions::ATOMIC)));
    assert_eq!(scan(r, None, b"", b"").len(), 2);
}

#[test]
fn cam_11() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"r", b"q", b"v");
    inc(r, b"r", b"n", 1);
    let ops = |expected| vec![op_check(b"r", b"q", Equal, expected), op_inc(b"r", b"n", 2)];
    assert_eq!(done(r, ops(b"v"), &PLAIN), [0, 3]);
    let (outcome, results, info) = batch(r, ops(b"w"), &PLAIN);
    assert!(matches!(outcome, Ok(BatchOutcome::NotApplied { first: 0 })), "{outcome:?}");
    // HBase returns nothing; here the answer tells what the counter is.
    let answer = results[1].unwrap();
    assert_eq!((answer.status, answer.value, info.seq), (OpStatus::NotApplied, 3, 0));
    assert_eq!(counter(r, b"r", b"n"), Some(3));
}

/// An append in a batch answers the length, never the value.
#[test]
fn cam_12() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"r", b"q", b"v");
    put(r, b"r", b"a", b"a");
    let ops = |expected| vec![op_check(b"r", b"q", Equal, expected), append(b"r", b"a", b"b")];
    assert_eq!(done(r, ops(b"v"), &PLAIN), [0, 2]);
    assert!(!met(r, ops(b"w"), &PLAIN));
    assert_eq!(get(r, b"r", b"a").unwrap(), b"ab");
}

/// Four kinds of change behind one "if there is none".
#[test]
fn cam_13() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"r", b"gone", b"v");
    inc(r, b"r", b"n", 5);
    put(r, b"r", b"a", b"a");
    let ops = || {
        let changes = [op_put(b"r", b"new", b"v"), op_delete(b"r", b"gone"), op_inc(b"r", b"n", 1), append(b"r", b"a", b"b")];
        [&[op_check(b"r", b"new", Absent, b"")][..], &changes].concat()
    };
    assert_eq!(done(r, ops(), &PLAIN)[3..], [6, 2]);
    let whole = scan(r, None, b"", b"");
    assert_eq!((get(r, b"r", b"gone"), counter(r, b"r", b"n"), get(r, b"r", b"a")), (None, Some(6), Some(b"ab".to_vec())));
    assert!(!met(r, ops(), &PLAIN));
    assert_eq!(scan(r, None, b"", b""), whole);
    let rig = rig.reopen();
    assert_eq!(scan(&rig.region, None, b"", b""), whole);
}

/// Compare and swap of one counter by many: exactly as many as succeeded, and every attempt is counted as the one or the other.
#[test]
fn cam_15() {
    const THREADS: u64 = 32;
    const EACH: u64 = 40;
    let rig = Rig::new("seal_every_commits=300");
    let r = &rig.region;
    inc(r, b"r", b"n", 0);
    let attempts = AtomicU64::new(0);
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                let (mut successes, mut expected) = (0, 0);
                while successes < EACH {
                    // Relaxed: the threads are joined before it is looked at.
                    attempts.fetch_add(1, Ordering::Relaxed);
                    let next = (expected + 1i64).to_be_bytes();
                    let ops = vec![op_check_counter(b"r", b"n", Equal, expected), op_put(b"r", b"n", &next)];
                    let (outcome, results, _) = batch(r, ops, &PLAIN);
                    match outcome.unwrap() {
                        BatchOutcome::Done => (successes, expected) = (successes + 1, expected + 1),
                        // What it holds is told with the refusal.
                        BatchOutcome::NotApplied { .. } => expected = results[0].unwrap().value,
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    assert_eq!(counter(r, b"r", b"n"), Some((THREADS * EACH) as i64));
    let stats = r.stats().unwrap();
    assert_eq!(stats.checks_passed, THREADS * EACH);
    assert_eq!(stats.checks_passed + stats.checks_failed, attempts.load(Ordering::Relaxed));
}

/// There is no limit to how far ahead of the clock a caller's time may be, but for the largest time that is taken.
#[test]
fn bat_10() {
    let rig = Rig::with_clock("", ManualClock::new(10_000, ClockUnit::Millis));
    let r = &rig.region;
    let timed = |timestamp| WriteOptions { timestamp, ..PLAIN };
    put_with(r, b"r", b"q", b"ahead", &timed(12_000)).unwrap();
    put_with(r, b"r", b"q", b"now", &PLAIN).unwrap();
    assert_eq!(get(r, b"r", b"q").unwrap(), b"ahead", "timestamps decide");
    put_with(r, b"now", b"q", b"v", &PLAIN).unwrap();
    assert_eq!(get(r, b"now", b"q").unwrap(), b"v");
    let before = r.stats().unwrap().seq;
    assert_eq!(kind(put_with(r, b"r", b"q", b"v", &timed(TIMESTAMP_MAX + 1))), ErrorKind::Invalid);
    let (outcome, results, _) =
        batch(r, vec![Mutation { timestamp: TIMESTAMP_MAX + 1, ..op_put(b"a", b"q", b"v") }, op_put(b"b", b"q", b"v")], &PLAIN);
    assert!(matches!(outcome, Ok(BatchOutcome::Partial { first: 0, applied: 1, .. })), "{outcome:?}");
    assert_eq!(results[0].unwrap().status, OpStatus::Failed(ErrorKind::Invalid));
    assert_eq!(r.stats().unwrap().seq, before + 1);
    put_with(r, b"r", b"q", b"last", &timed(TIMESTAMP_MAX)).unwrap();
    assert_eq!(get(r, b"r", b"q").unwrap(), b"last");
}

/// A region that is open for reading: no verb changes anything, not even one that would change nothing.
#[test]
fn app_06() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let r = crate::verbs::open(&path);
    put(&r, b"r", b"a", b"v");
    inc(&r, b"r", b"n", 1);
    close(&r);
    let read_only = RegionOptions { flags: OpenFlags { read_only: true, ..OpenFlags::default() }, ..RegionOptions::default() };
    let r = Region::open(&path, read_only, None, None).unwrap();
    let mut info = CommitInfo::default();
    for suffix in [&b"x"[..], b""] {
        assert_eq!(kind(r.append(b"r", CF, b"a", suffix, &PLAIN, &mut info, None)), ErrorKind::ReadOnly);
    }
    assert_eq!(kind(put_with(&r, b"r", b"a", b"w", &PLAIN)), ErrorKind::ReadOnly);
    assert_eq!(kind(inc_with(&r, b"r", b"n", 0, &PLAIN)), ErrorKind::ReadOnly);
    assert_eq!(kind(r.delete(b"r", CF, b"a", Op::DeleteRow, &PLAIN, &mut info)), ErrorKind::ReadOnly);
    for o in [PLAIN, flags(WriteOptions::ATOMIC)] {
        assert_eq!(kind(batch(&r, vec![op_check(b"r", b"a", Exists, b""), append(b"r", b"a", b"x")], &o).0), ErrorKind::ReadOnly);
    }
    assert_eq!((get(&r, b"r", b"a").unwrap(), counter(&r, b"r", b"n"), info.seq), (b"v".to_vec(), Some(1), 0));
    close(&r);
}
