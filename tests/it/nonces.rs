//! A call that carries a nonce counts once, however often it is made (NON-01, NON-03).

mod otherwise;
mod table;

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::error::ErrorKind;
use region::hooks::Point;
use region::options::{Durability, FamilySpec, WriteOptions};
use region::region::{BatchOutcome, CommitInfo, Comparison, Mutation, Op, OpResult, OpStatus, Region};
use std::sync::Barrier;

const ATOMIC: u32 = WriteOptions::ATOMIC;

fn with(nonce: u64, o: WriteOptions) -> WriteOptions {
    WriteOptions { nonce, nonce_group: 9, ..o }
}
fn once(nonce: u64) -> WriteOptions {
    with(nonce, WriteOptions::DEFAULT)
}
/// The answer of an increment of "n" in `row`, and its commit.
fn count(r: &Region, row: &[u8], delta: i64, o: &WriteOptions) -> (i64, CommitInfo) {
    let mut info = CommitInfo::default();
    let counted = r.increment(row, CF, b"n", delta, o, &mut info).unwrap();
    assert!(counted.applied);
    (counted.value, info)
}
/// A batch that must be done, with values and whether each was a duplicate.
fn told(r: &Region, ops: Vec<Mutation<'_>>, o: &WriteOptions) -> (Vec<(i64, bool)>, CommitInfo) {
    let (outcome, results, info) = batch(r, ops, o);
    assert!(matches!(outcome, Ok(BatchOutcome::Done)), "{outcome:?}");
    let told = results.into_iter().map(|x| x.unwrap()).map(|x| (x.value, x.flags & OpResult::DUPLICATE != 0)).collect();
    (told, info)
}
/// The same commit, told as a duplicate.
#[track_caller]
fn assert_same(first: CommitInfo, again: CommitInfo) {
    assert_eq!(first.flags & CommitInfo::DUPLICATE, 0, "the first run");
    assert_eq!(again, CommitInfo { flags: first.flags | CommitInfo::DUPLICATE, ..first });
}
/// Entries in the table of nonces, and their bytes.
fn remembered(r: &Region) -> (u64, u64) {
    let text = r.describe().unwrap();
    let number = |key: &str| {
        let rest = text.split(&format!("\"{key}\":")).nth(1).unwrap_or_else(|| panic!("no {key} in {text}"));
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    (number("nonce_entries"), number("nonce_bytes"))
}
fn manual() -> ManualClock {
    ManualClock::new(1_700_000_000_000, ClockUnit::Millis)
}

/// Sent twice: applied once, both answers equal; whatever came between.
#[test]
fn non_01() {
    let rig = Rig::new("seal_every_commits=3");
    let r = &rig.region;
    let first = count(r, b"a", 5, &once(1));
    assert_eq!(first.0, 5);
    assert_eq!(inc(r, b"a", b"n", 100), 105);
    for _ in 0..5 {
        inc(r, b"x", b"n", 1);
    }
    let again = count(r, b"a", 5, &once(1));
    assert_eq!(again.0, 5);
    assert_same(first.1, again.1);
    assert_eq!(counter(r, b"a", b"n"), Some(105));
    // Another nonce, another group, another row: other calls.
    assert_eq!(count(r, b"a", 5, &once(2)).0, 110);
    assert_eq!(count(r, b"a", 5, &WriteOptions { nonce_group: 8, ..once(1) }).0, 115);
    assert_eq!(count(r, b"b", 5, &once(1)).0, 5);
    // The value before, and what a bound made of it, are answered again too.
    let old = with(3, WriteOptions { flags: WriteOptions::RETURN_OLD, ..WriteOptions::DEFAULT });
    assert_eq!(count(r, b"a", 5, &old).0, 115);
    assert_eq!(count(r, b"a", 5, &old).0, 115);
    assert_eq!(counter(r, b"a", b"n"), Some(120));
}

/// Every verb that writes.
#[test]
fn non_01_all_verbs() {
    let rig = Rig::new("");
    let r = &rig.region;
    let row = |nonce| {
        let (mut values, mut info) = ([0; 2], CommitInfo::default());
        let columns = Columns(vec![(b"n", 2), (b"m", 3)]);
        assert!(r.increment_row(b"row", &columns, &once(nonce), &mut info, &mut values).unwrap().is_none());
        (values, info)
    };
    let (first, again) = (row(1), row(1));
    assert_eq!((first.0, again.0), ([2, 3], [2, 3]));
    assert_same(first.1, again.1);
    assert_eq!(row(2).0, [4, 6]);
    let many = |nonce| {
        let (mut told, mut info) = (Vec::new(), CommitInfo::default());
        let incs = Incs(vec![(b"a", 1), (b"b", 2), (b"a", 4)]);
        let done = r.increment_many(&incs, &once(nonce), &mut info, &mut |_, x| told.push((x.value, x.flags & OpResult::DUPLICATE != 0)));
        assert!(matches!(done, Ok(BatchOutcome::Done)));
        told.sort_unstable();
        (told, info)
    };
    let (first, again) = (many(1), many(1));
    assert_eq!(again.0.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 2, 5]);
    assert!(again.0.iter().all(|t| t.1) && first.0.iter().all(|t| !t.1));
    assert_same(first.1, again.1);
    // A put that comes again does not undo what came after it.
    let first = put_with(r, b"p", b"q", b"one", &once(1)).unwrap();
    put(r, b"p", b"q", b"two");
    assert_same(first, put_with(r, b"p", b"q", b"one", &once(1)).unwrap());
    assert_eq!(get(r, b"p", b"q").unwrap(), b"two");
    let erase = || {
        let mut info = CommitInfo::default();
        r.delete(b"p", CF, b"q", Op::Delete, &once(2), &mut info).unwrap();
        info
    };
    let first = erase();
    put(r, b"p", b"q", b"three");
    assert_same(first, erase());
    assert_eq!(get(r, b"p", b"q").unwrap(), b"three");
    assert_eq!(counter(r, b"row", b"m"), Some(6));
}

/// An append answers the value of the first time, with its timestamp, also where the value has grown since.
#[test]
fn non_01_append() {
    let rig = Rig::new("");
    let append = |r: &Region, suffix: &[u8], o: &WriteOptions| {
        let (mut sink, mut info) = (Bytes::default(), CommitInfo::default());
        let found = r.append(b"a", CF, b"q", suffix, o, &mut info, Some(&mut sink)).unwrap();
        (sink.0, found, info)
    };
    let r = &rig.region;
    // Far in the future: what is appended to it lies above it, not at the commit's tick.
    let future = WriteOptions { timestamp: 1 << 61, ..WriteOptions::DEFAULT };
    put_with(r, b"a", b"q", b"one", &future).unwrap();
    let first = append(r, b"two", &once(1));
    assert_eq!((&first.0[..], first.1.timestamp, first.1.seq), (&b"onetwo"[..], (1 << 61) + 1, first.2.seq));
    assert_eq!(append(r, b"three", &WriteOptions::DEFAULT).0, b"onetwothree");
    let again = append(r, b"two", &once(1));
    assert_eq!((&again.0, again.1), (&first.0, first.1));
    assert_same(first.2, again.2);
    let in_batch = || vec![Mutation { value: b"!", ..op(Op::Append, b"a", b"q") }, op_inc(b"a", b"n", 1)];
    assert_eq!(told(r, in_batch(), &once(2)).0, [(12, false), (1, false)]);
    assert_eq!(told(r, in_batch(), &once(2)).0, [(12, true), (1, true)]);
    // Not asked for the value: none is kept. Who asks later asks for something else.
    let blind = |r: &Region| r.append(b"a", CF, b"q", b"?", &once(3), &mut CommitInfo::default(), None).map(|_| ());
    blind(r).unwrap();
    blind(r).unwrap();
    let refused = r.append(b"a", CF, b"q", b"?", &once(3), &mut CommitInfo::default(), Some(&mut Bytes::default()));
    assert_eq!(kind(refused), ErrorKind::Invalid);
    let bounded = with(4, flags(WriteOptions::BOUNDED));
    assert_eq!(kind(r.append(b"a", CF, b"q", b"?", &bounded, &mut CommitInfo::default(), None)), ErrorKind::Invalid);
    let rig = rig.after_kill();
    let again = append(&rig.region, b"two", &once(1));
    assert_eq!((&again.0, again.1), (&first.0, first.1));
    assert_eq!(told(&rig.region, in_batch(), &once(2)).0, [(12, true), (1, true)]);
    blind(&rig.region).unwrap();
    assert_eq!(get(&rig.region, b"a", b"q").unwrap(), b"onetwothree!?");
}

/// Deletes of every kind, and timestamps of the caller's.
#[test]
fn non_01_deletes_and_timestamps() {
    let rig = Rig::new("");
    let r = &rig.region;
    let ops = [Op::Delete, Op::DeleteVersion, Op::DeleteFamily, Op::DeleteRow, Op::DeleteFamilyVersion];
    for (nonce, kind_of) in (1..).zip(ops) {
        let o = WriteOptions { timestamp: if kind_of == Op::DeleteFamilyVersion { 77 } else { 0 }, ..once(nonce) };
        let at_77 = WriteOptions { timestamp: 77, ..WriteOptions::DEFAULT };
        let row = [nonce as u8];
        put_with(r, &row, b"q", b"one", &at_77).unwrap();
        let erase = || {
            let mut info = CommitInfo::default();
            r.delete(&row, CF, b"q", kind_of, &o, &mut info).unwrap();
            info
        };
        let first = erase();
        assert_eq!(get(r, &row, b"q"), None, "{kind_of:?}");
        put(r, &row, b"q", b"two");
        assert_same(first, erase());
        assert_eq!(get(r, &row, b"q").unwrap(), b"two", "{kind_of:?}");
    }
    let stamped = WriteOptions { timestamp: 1 << 61, ..once(9) };
    for _ in 0..2 {
        put_with(r, b"p", b"q", b"v", &stamped).unwrap();
    }
    assert_eq!(kind(inc_with(r, b"p", b"n", 1, &stamped)), ErrorKind::Invalid);
}

/// A first run that changed nothing leaves nothing: the retry executes. Nonce 0 is never suppressed. What is older than the window executes again.
#[test]
fn non_03() {
    let rig = Rig::with_clock("nonce_window_s=2", manual());
    let (r, clock) = (&rig.region, rig.clock.as_ref().unwrap());
    // No lock in time.
    let held = rig.hold(Point::RowLocked, |r| inc(r, b"a", b"n", 1));
    assert_eq!(kind(inc_with(r, b"a", b"n", 5, &within(SHORT.micros(), once(1)))), ErrorKind::Timeout);
    assert_eq!(held.release(), 1);
    assert_eq!(count(r, b"a", 5, &once(1)).0, 6);
    // Not a counter, too large a sum, a bound.
    put(r, b"t", b"n", b"text");
    assert_eq!(kind(inc_with(r, b"t", b"n", 5, &once(1))), ErrorKind::NotCounter);
    delete(r, b"t", b"n");
    assert_eq!(count(r, b"t", 5, &once(1)).0, 5);
    let checked = with(2, flags(WriteOptions::CHECK_OVERFLOW));
    assert_eq!(kind(inc_with(r, b"t", b"n", i64::MAX, &checked)), ErrorKind::Overflow);
    inc(r, b"t", b"n", -5);
    assert_eq!(count(r, b"t", i64::MAX, &checked).0, i64::MAX);
    let bounded = with(3, WriteOptions { flags: WriteOptions::BOUNDED, max_value: 7, ..WriteOptions::DEFAULT });
    let refused = inc_with(r, b"a", b"n", 5, &bounded).unwrap();
    assert_eq!((refused.value, refused.applied), (6, false));
    inc(r, b"a", b"n", -6);
    assert_eq!(count(r, b"a", 5, &bounded).0, 5);
    assert_eq!(count(r, b"a", 5, &bounded).0, 5, "though the bound would refuse it now");
    // A check that is not met.
    let guarded = || vec![op_check(b"g", b"go", Comparison::Exists, b""), op_inc(b"g", b"n", 1)];
    assert!(matches!(batch(r, guarded(), &once(4)).0, Ok(BatchOutcome::NotApplied { .. })));
    put(r, b"g", b"go", b"yes");
    assert_eq!(told(r, guarded(), &once(4)).0, [(0, false), (1, false)]);
    delete(r, b"g", b"go");
    assert_eq!(told(r, guarded(), &once(4)).0, [(0, true), (1, true)], "it had been met");
    // Reading changes nothing and is not remembered.
    let entries = remembered(r).0;
    assert_eq!(count(r, b"a", 0, &once(5)).0, 5);
    inc(r, b"a", b"n", 1);
    assert_eq!(count(r, b"a", 0, &once(5)).0, 6);
    assert_eq!(remembered(r).0, entries);
    // Nonce 0.
    assert_eq!(count(r, b"zero", 1, &WriteOptions::DEFAULT).0, 1);
    assert_eq!(count(r, b"zero", 1, &WriteOptions::DEFAULT).0, 2);
    // The window.
    assert_eq!(count(r, b"w", 1, &once(6)).0, 1);
    clock.advance(2_000);
    assert_eq!(count(r, b"w", 1, &once(6)).0, 1);
    clock.advance(1);
    assert_eq!(count(r, b"w", 1, &once(6)).0, 2, "older than the window");
    assert_eq!(count(r, b"w", 1, &once(6)).0, 2);
}

/// No memory: nothing stays behind, and the retry executes.
#[test]
fn non_03_a_call_that_found_no_memory_leaves_nothing() {
    let rig = Rig::new("memstore_limit=512k");
    let r = &rig.region;
    let large = vec![7; 60_000];
    let mut n = 0;
    let refused = loop {
        n += 1;
        match put_with(r, b"full", &[n], &large, &within(1, once(n as u64))) {
            Ok(_) => assert!(n < 20, "the memory does not fill"),
            Err(e) => break e,
        }
    };
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::Busy, true));
    assert_eq!(remembered(r).0, u64::from(n) - 1);
    let rig = rig.reopen();
    assert_eq!(remembered(&rig.region).0, u64::from(n) - 1);
}

/// A row that comes twice counts twice, and the same call again not at all.
#[test]
fn a_row_that_comes_back_counts_each_time() {
    let rig = Rig::new("");
    let ops = || vec![op_inc(b"a", b"n", 1), op_inc(b"b", b"n", 1), op_inc(b"a", b"n", 1)];
    for (nonce, flag) in [(1, 0), (2, ATOMIC)] {
        let r = &rig.region;
        let o = with(nonce, flags(flag));
        let (first, info) = told(r, ops(), &o);
        let n = 2 * (nonce as i64 - 1);
        assert_eq!(first, [(n + 1, false), (n / 2 + 1, false), (n + 2, false)]);
        inc(r, b"a", b"n", 0);
        let (again, info_again) = told(r, ops(), &o);
        assert_eq!(again, first.iter().map(|(v, _)| (*v, true)).collect::<Vec<_>>());
        assert_same(info, info_again);
        assert_eq!((counter(r, b"a", b"n"), counter(r, b"b", b"n")), (Some(n + 2), Some(n / 2 + 1)));
    }
    let rig = rig.after_kill();
    for (nonce, flag) in [(1, 0), (2, ATOMIC)] {
        assert!(told(&rig.region, ops(), &with(nonce, flags(flag))).0.iter().all(|t| t.1));
    }
    assert_eq!((counter(&rig.region, b"a", b"n"), counter(&rig.region, b"b", b"n")), (Some(4), Some(2)));
}

/// More rows than a run takes, and rows that come back in another run: k is counted over the whole call.
#[test]
fn many_runs_under_one_nonce() {
    let rig = Rig::new("");
    let rows: Vec<[u8; 2]> = (0..700u16).map(|i| (i % 300).to_be_bytes()).collect();
    let ops = || rows.iter().map(|row| op_inc(row, b"n", 1)).collect::<Vec<_>>();
    let (first, info) = told(&rig.region, ops(), &once(1));
    assert_eq!(first.iter().map(|t| t.0).sum::<i64>(), 300 + 2 * 300 + 3 * 100);
    let (again, info_again) = told(&rig.region, ops(), &once(1));
    assert!(first.iter().zip(&again).all(|(a, b)| a.0 == b.0 && !a.1 && b.1));
    assert_same(info, info_again);
    let rig = rig.after_kill();
    let (again, _) = told(&rig.region, ops(), &once(1));
    assert!(first.iter().zip(&again).all(|(a, b)| a.0 == b.0 && b.1));
    assert_eq!(remembered(&rig.region).0, 700);
}

/// Of a call that was done in part, the same call again does the rest.
#[test]
fn the_rest_of_a_partial_call_is_run() {
    let rig = Rig::new("");
    let r = &rig.region;
    let ops = || vec![op_inc(b"a", b"n", 1), op_inc(b"b", b"n", 1), op_inc(b"c", b"n", 1), op_inc(b"a", b"n", 1)];
    let held = rig.hold(Point::RowLocked, |r| inc(r, b"b", b"n", 10));
    let (outcome, results, info) = batch(r, ops(), &within(SHORT.micros(), once(1)));
    let Ok(BatchOutcome::Partial { first: 1, error, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(error.is_retryable(), "with a nonce it cannot count twice");
    assert_eq!((error.kind(), results[1].unwrap().status), (ErrorKind::Timeout, OpStatus::Failed(ErrorKind::Timeout)));
    assert_eq!(info.flags & CommitInfo::DUPLICATE, 0);
    held.release();
    let (again, info_again) = told(r, ops(), &once(1));
    assert_eq!(again, [(1, true), (11, false), (1, true), (2, true)]);
    assert!(info_again.seq > info.seq && info_again.flags & CommitInfo::DUPLICATE == 0, "a part of it is new");
    let (third, info_third) = told(r, ops(), &once(1));
    assert_eq!(third, [(1, true), (11, true), (1, true), (2, true)]);
    assert_same(info_again, info_third);
    // Without one it is not retryable.
    let mut bad = ops();
    bad[1].family = 77;
    let Ok(BatchOutcome::Partial { error, .. }) = batch(r, bad, &WriteOptions::DEFAULT).0 else { panic!("not partial") };
    assert!(!error.is_retryable());
}

/// An atomic call answers whole, also for rows that it only looked at.
#[test]
fn an_atomic_call_is_one() {
    let rig = Rig::new("seal_every_commits=2");
    let r = &rig.region;
    let ops =
        || vec![op_check(b"guard", b"q", Comparison::Absent, b""), op_inc(b"a", b"n", 1), op_inc(b"b", b"n", 2), op_inc(b"c", b"n", 0)];
    let o = with(1, flags(ATOMIC));
    let (first, info) = told(r, ops(), &o);
    assert_eq!(first.iter().map(|t| t.0).collect::<Vec<_>>(), [0, 1, 2, 0]);
    // The check would not hold any more: it is not asked.
    put(r, b"guard", b"q", b"closed");
    let (again, info_again) = told(r, ops(), &o);
    assert_eq!(again, [(0, true), (1, true), (2, true), (0, true)]);
    assert_same(info, info_again);
    let rig = rig.after_kill();
    assert_eq!(told(&rig.region, ops(), &o).0, again);
    // A part of it, or more than it, is another call, and that needs another nonce.
    let r = &rig.region;
    let before = r.stats().unwrap().seq;
    let mut more = ops();
    more.push(op_inc(b"d", b"n", 1));
    let (outcome, results, _) = batch(r, more, &o);
    assert_eq!(kind(outcome), ErrorKind::Invalid);
    assert!(results.iter().all(|x| matches!(x.unwrap().status, OpStatus::Failed(_))));
    assert_eq!(r.stats().unwrap().seq, before);
    let (outcome, results, _) = batch(r, vec![op_inc(b"b", b"n", 2), op_inc(b"b", b"m", 2), op_inc(b"e", b"n", 1)], &once(1));
    let Ok(BatchOutcome::Partial { first: 0, error, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!((error.kind(), results[2].unwrap().status), (ErrorKind::Invalid, OpStatus::Applied));
    assert_eq!(counter(r, b"b", b"m"), None);
}

#[test]
fn what_does_not_go_with_a_nonce() {
    let rig = Rig::new("");
    let r = &rig.region;
    let skip = with(1, at(Durability::SkipWal));
    assert_eq!(kind(inc_with(r, b"a", b"n", 1, &skip)), ErrorKind::Invalid);
    assert_eq!(kind(put_with(r, b"a", b"q", b"v", &skip)), ErrorKind::Invalid);
    assert_eq!(kind(batch(r, vec![op_inc(b"a", b"n", 1)], &skip).0), ErrorKind::Invalid);
    let group_only = WriteOptions { nonce_group: 1, ..WriteOptions::DEFAULT };
    assert_eq!(kind(inc_with(r, b"a", b"n", 1, &group_only)), ErrorKind::Invalid);
    assert_eq!(kind(put_with(r, b"a", b"q", b"v", &with(1, flags(WriteOptions::BOUNDED)))), ErrorKind::Invalid);
    assert_eq!(counter(r, b"a", b"n"), None);
    let e = inc_with(r, b"a", b"n", 1, &within(1, WriteOptions { flags: WriteOptions::SATURATE, ..once(1) })).unwrap_err();
    assert_eq!((e.kind(), e.op_index()), (ErrorKind::Invalid, u64::MAX));
    let e = r.increment(b"a", 77, b"n", 1, &once(1), &mut CommitInfo::default()).unwrap_err();
    assert_eq!((e.kind(), e.op_index()), (ErrorKind::NoFamily, u64::MAX), "a single write has no elements");
    let rig = Rig::new("durability=skip_wal");
    assert_eq!(kind(inc_with(&rig.region, b"a", b"n", 1, &once(1))), ErrorKind::Invalid);
    assert_eq!(count(&rig.region, b"a", 1, &with(1, at(Durability::SyncWal))).0, 1);
}

/// The outcome was unknown: asked again, the same commit answers, and goes on waiting.
#[test]
fn an_unknown_outcome_is_asked_again() {
    let rig = Rig::new("");
    let r = &rig.region;
    let fsync = with(1, at(Durability::FsyncWal));
    let gate = rig.pause_sync();
    // Who leads the sync waits with it.
    let leader = rig.spawn(|r| inc_with(r, b"z", b"n", 1, &at(Durability::FsyncWal)).unwrap().value);
    gate.wait_until_reached();
    let unknown = |o: &WriteOptions| {
        let e = inc_with(r, b"a", b"n", 5, &within(SHORT.micros(), *o)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::OutcomeUnknown, "{e}");
        (e.commit_seq(), e.is_retryable())
    };
    let (first, retryable) = unknown(&fsync);
    assert!(first > 0 && retryable);
    // Also where the second asks for less: it would tell of what nobody may see yet.
    for o in [fsync, with(1, at(Durability::SyncWal)), with(1, at(Durability::AsyncWal))] {
        assert_eq!(unknown(&o), (first, true));
    }
    let (e, _, _) = batch(r, vec![op_inc(b"a", b"n", 5)], &within(SHORT.micros(), fsync));
    let e = e.unwrap_err();
    assert_eq!((e.kind(), e.commit_seq(), e.is_retryable()), (ErrorKind::OutcomeUnknown, first, true));
    let (_, without) = unknown(&at(Durability::FsyncWal));
    assert!(!without, "without a nonce it would count twice");
    gate.open();
    assert_eq!(leader.join().unwrap(), 1);
    let (value, info) = count(r, b"a", 5, &fsync);
    assert_eq!((value, info.seq), (5, first));
    assert_eq!(info.flags, CommitInfo::DURABLE | CommitInfo::DUPLICATE);
    // First at a lower level, then with FSYNC: durable at return.
    let (_, info) = count(r, b"b", 1, &with(2, at(Durability::AsyncWal)));
    let (_, again) = count(r, b"b", 1, &with(2, at(Durability::FsyncWal)));
    assert!(again.seq == info.seq && r.stats().unwrap().durable_seq >= info.seq);
    assert_eq!(again.flags, CommitInfo::DURABLE | CommitInfo::DUPLICATE);
    let rig = rig.after_power_cut();
    assert_eq!((count(&rig.region, b"a", 5, &fsync).1.seq, counter(&rig.region, b"a", b"n")), (first, Some(10)));
}

/// A sync that failed: the region is poisoned, and after the reopen the same call again counts once, whatever survived.
#[test]
fn a_failed_sync_and_a_retry_after_the_reopen() {
    let rig = Rig::new("");
    let fsync = with(1, at(Durability::FsyncWal));
    let gate = rig.pause_and_fail_sync();
    let call = rig.spawn(move |r| inc_with(r, b"a", b"n", 5, &fsync).unwrap_err());
    gate.wait_until_reached();
    gate.open();
    let e = call.join().unwrap();
    assert_eq!((e.kind(), e.is_retryable()), (ErrorKind::OutcomeUnknown, true), "{e}");
    assert_eq!(kind(inc_with(&rig.region, b"a", b"n", 5, &fsync)), ErrorKind::Poisoned);
    for rig in [rig.after_kill(), rig.after_power_cut()] {
        assert_eq!(count(&rig.region, b"a", 5, &fsync).0, 5);
        assert_eq!(count(&rig.region, b"a", 5, &fsync).0, 5);
        assert_eq!(counter(&rig.region, b"a", b"n"), Some(5));
    }
}

/// Killed, closed, killed again: each time the same answers, also where the memstore was sealed in between.
#[test]
fn remembered_across_reopens() {
    for config in ["", "seal_every_commits=2", "wal_io=write"] {
        let mut rig = Rig::new(config);
        let fsync = |nonce| with(nonce, at(Durability::FsyncWal));
        let first: Vec<_> = (1..=20).map(|n| count(&rig.region, &[n as u8 % 3], n as i64, &fsync(n))).collect();
        for round in 0..4 {
            rig = match round % 3 {
                0 => rig.after_kill(),
                1 => rig.after_power_cut(),
                _ => rig.reopen(),
            };
            for (n, (value, info)) in (1..).zip(&first) {
                let again = count(&rig.region, &[n as u8 % 3], n as i64, &fsync(n));
                assert_eq!(again.0, *value, "{config} {round}");
                assert_same(*info, again.1);
            }
            let fresh = 100 + round;
            inc_with(&rig.region, &[0], b"n", 1, &at(Durability::FsyncWal)).unwrap();
            assert_eq!(count(&rig.region, b"new", 1, &fsync(fresh)).0, 1 + round as i64);
        }
        let sums = [0, 1, 2].map(|m| (1..=20).filter(|n| n % 3 == m).sum::<i64>() + if m == 0 { 4 } else { 0 });
        assert_eq!([0, 1, 2].map(|m| counter(&rig.region, &[m], b"n").unwrap()), sums);
    }
}

/// The age of what the log holds counts from its commit.
#[test]
fn the_window_goes_on_while_the_region_is_closed() {
    let rig = Rig::with_clock("nonce_window_s=10", manual());
    count(&rig.region, b"old", 1, &once(1));
    rig.clock.as_ref().unwrap().advance(6_000);
    count(&rig.region, b"young", 1, &once(2));
    let rig = rig.reopen();
    rig.clock.as_ref().unwrap().advance(3_000);
    assert_eq!(remembered(&rig.region).0, 2);
    let rig = rig.after_kill();
    rig.clock.as_ref().unwrap().advance(1_001);
    assert_eq!(count(&rig.region, b"old", 1, &once(1)).0, 2, "past the window");
    assert_eq!(count(&rig.region, b"young", 1, &once(2)).0, 1);
    let rig = rig.after_kill();
    // The newer of two runs under one nonce is the one that counts.
    assert_eq!((remembered(&rig.region).0, count(&rig.region, b"old", 1, &once(1)).0), (2, 2));
}

/// A full table: what is in it stays, new calls wait for room until their time is over, and those without a nonce go on.
#[test]
fn a_full_table_makes_new_calls_wait() {
    let rig = Rig::with_clock("nonce_window_s=10,nonce_bytes_max=4k", manual());
    let (r, clock) = (&rig.region, rig.clock.as_ref().unwrap());
    let mut n = 0;
    let e = loop {
        n += 1;
        match inc_with(r, b"a", b"n", 1, &within(SHORT.micros(), once(n))) {
            Ok(_) => assert!(n < 1_000, "the table does not fill"),
            Err(e) => break e,
        }
    };
    assert_eq!((e.kind(), e.is_retryable()), (ErrorKind::Busy, true));
    assert!(e.message().contains("nonce_bytes_max"), "{e}");
    assert!(n > 10);
    let (entries, bytes) = remembered(r);
    assert!(entries == n - 1 && bytes <= 4_096, "{entries} entries of {n} calls, {bytes} bytes");
    assert_eq!(count(r, b"a", 1, &once(1)).0, 1);
    assert_eq!(inc(r, b"a", b"n", 1), n as i64);
    // One that waits goes on once the oldest have left.
    let waiting = rig.spawn(move |r| inc_with(r, b"a", b"n", 1, &within(LONG.micros(), once(n))).unwrap().value);
    clock.advance(10_001);
    assert_eq!(waiting.join().unwrap(), n as i64 + 1);
    // A call that no table of this size takes.
    let e = batch(r, (0..100).map(|_| op_inc(b"a", b"n", 1)).chain((0..100).map(|_| op_inc(b"b", b"n", 1))).collect(), &once(n + 1)).0;
    assert!(matches!(e, Ok(BatchOutcome::Done)), "a group takes one entry: {e:?}");
    clock.advance(10_001);
    let rows: Vec<[u8; 1]> = (0..100).map(|i| [i]).collect();
    let e = batch(r, rows.iter().map(|row| op_inc(row, b"n", 1)).collect(), &with(n + 2, flags(ATOMIC))).0.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::TooLarge, "{e}");
    assert!(e.message().contains("nonce_bytes_max"), "{e}");
    assert_eq!(counter(r, &[0], b"n"), None);
    // More than the table takes now, from a life with a larger one: all of it is kept.
    let rig = Rig::with_clock("nonce_bytes_max=1m", manual());
    (1..=100).for_each(|n| assert_eq!(count(&rig.region, b"a", 1, &once(n)).0, n as i64));
    let rig = rig.with_config("nonce_bytes_max=4k").after_kill();
    assert!((1..=100).all(|n| count(&rig.region, b"a", 1, &once(n)).0 == n as i64));
    assert_eq!(kind(inc_with(&rig.region, b"a", b"n", 1, &within(1, once(101)))), ErrorKind::Busy);
}

/// A panic of a thread that has reserved: its entry goes, whatever becomes of the region.
#[test]
fn a_panic_before_the_append_leaves_nothing() {
    let rig = Rig::new("");
    let ctx = rig.region.hook_context();
    let hook = region::hooks::install(ctx, |point, _| {
        if point == Point::BeforeAppend && std::thread::current().name() == Some("panics") {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    });
    let r = rig.region.clone();
    let call = std::thread::Builder::new().name("panics".into()).spawn(move || inc_with(&r, b"a", b"n", 5, &once(1)).map(|c| c.value));
    assert!(call.unwrap().join().is_err());
    drop(hook);
    assert_eq!(remembered(&rig.region), (0, 0));
    let rig = rig.after_kill();
    assert_eq!(count(&rig.region, b"a", 5, &once(1)).0, 5);
}

/// Many threads make the same calls at the same time, while segments are sealed: each call counts once, and all are answered the same.
#[test]
fn thirty_two_threads_make_the_same_calls() {
    const CALLS: u64 = 40;
    let rig = Rig::new("seal_every_commits=7");
    let start = Barrier::new(32);
    let (r, start) = (&rig.region, &start);
    let answers: Vec<Vec<i64>> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..32u64)
            .map(|id| {
                s.spawn(move || {
                    start.wait();
                    let mut mine = Vec::new();
                    for n in 1..=CALLS {
                        let level = if (n + id) % 8 == 0 { Durability::FsyncWal } else { Durability::SyncWal };
                        let o = with(n, at(level));
                        mine.push(count(r, b"hot", n as i64, &o).0);
                        let rows = || vec![op_inc(b"x", b"n", 1), op_inc(b"y", b"n", 1), op_inc(b"x", b"n", 1)];
                        mine.extend(
                            told(r, rows(), &WriteOptions { flags: if n % 2 == 0 { ATOMIC } else { 0 }, ..o }).0.iter().map(|t| t.0),
                        );
                    }
                    mine
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for other in &answers {
        assert_eq!(*other, answers[0]);
    }
    assert_eq!(counter(r, b"hot", b"n"), Some((CALLS * (CALLS + 1) / 2) as i64));
    assert_eq!((counter(r, b"x", b"n"), counter(r, b"y", b"n")), (Some(2 * CALLS as i64), Some(CALLS as i64)));
    assert_eq!(remembered(r).0, 4 * CALLS);
}
