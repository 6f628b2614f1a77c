//! STAT-01, and what people report about other stores, kind K7 (stalls), as far as it needs no store files: each trial named by its id.

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::error::ErrorKind;
use region::hooks::{self, Point};
use region::mslab::{ChunkPool, PoolOptions};
use region::options::{Durability, ReadOptions, WriteOptions};
use region::region::Comparison::{Absent, Equal, Exists};
use region::region::{BatchOutcome, CloseFlags, CommitInfo, Op, OpResult, OpStatus, RegionStats, ScanSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// STAT-01: every number of the statistics, exact after a script. (Flushes, compactions and files are for a version that has them.)
#[test]
fn stat_01() {
    let rig = Rig::with_clock("wal_io=write", ManualClock::new(10_000, ClockUnit::Millis));
    let (r, clock) = (&rig.region, rig.clock.as_ref().unwrap());
    let start = r.stats().unwrap();
    // What was there before the script does not matter; what a script of this kind leaves alone is 0.
    let now = || {
        let s = r.stats().unwrap();
        RegionStats { seq: s.seq - start.seq, wal_syncs: s.wal_syncs - start.wal_syncs, ..s }
    };
    assert_eq!((start.reads, start.writes, start.increments, start.health, start.unlogged_bytes), (0, 0, 0, 0, 0));
    put(r, b"a", b"q", b"1");
    clock.advance(1);
    put_with(r, b"a", b"q", b"2", &at(Durability::FsyncWal)).unwrap();
    clock.advance(1);
    delete(r, b"b", b"q");
    inc(r, b"c", b"n", 1);
    inc_row(r, b"d", &[(b"x", 1), (b"y", 1), (b"z", 1)]);
    clock.advance(1);
    let checked =
        vec![op_check(b"c", b"n", Exists, b""), op_inc(b"c", b"n", 1), op_check(b"d", b"none", Absent, b""), op_put(b"d", b"q", b"v")];
    done(r, checked, &WriteOptions::DEFAULT);
    batch(r, vec![op_check(b"c", b"n", Equal, b"no"), op_put(b"c", b"q", b"v")], &WriteOptions::DEFAULT).0.unwrap();
    assert_eq!(kind(put_with(r, b"", b"q", b"v", &WriteOptions::DEFAULT)), ErrorKind::Invalid);
    // Two puts, a delete, an increment, a row of increments, and a run of two rows in one commit: six numbers.
    let s = now();
    assert_eq!((s.seq, s.wal_syncs, s.reads, s.writes, s.increments), (6, 1, 0, 2 + 1 + 4, 1 + 3));
    assert_eq!((s.checks_passed, s.checks_failed, s.unlogged_bytes), (2, 1, 0));
    assert_eq!(s.durable_seq, start.seq + 2, "what the one sync covered");
    // Two commits of one row in one tick: the second runs ahead by one.
    assert_eq!((s.tick_advances, s.tick_lead_max_ns), (0, 0));
    inc(r, b"c", b"n", 1);
    inc(r, b"c", b"n", 1);
    let s = now();
    assert_eq!((s.seq, s.increments, s.tick_advances, s.tick_lead_max_ns, s.clock_waits), (8, 6, 2, 2_000_000, 0));
    // Not logged.
    let mut info = CommitInfo::default();
    r.put(b"e", CF, b"q", &[0; 100], &at(Durability::SkipWal), &mut info).unwrap();
    let once = now().unlogged_bytes;
    r.put(b"f", CF, b"q", &[0; 100], &at(Durability::SkipWal), &mut info).unwrap();
    assert!(once > 100 && now().unlogged_bytes == 2 * once, "{once}, {}", now().unlogged_bytes);
    // Reads and children.
    assert!(get(r, b"a", b"q").is_some() && get(r, b"a", b"none").is_none() && counter(r, b"c", b"n") == Some(4));
    let snapshot = r.snapshot(LONG).unwrap();
    let instant = r.stats().unwrap();
    put(r, b"g", b"q", b"v");
    let mut scanner = r.scanner(Some(&snapshot), &ReadOptions::DEFAULT, &ScanSpec::default()).unwrap();
    for _ in 0..3 {
        scanner.next().unwrap().unwrap();
    }
    let s = now();
    assert_eq!((s.reads, s.open_snapshots, s.open_scanners, s.oldest_snapshot_seq), (3 + 3, 1, 1, instant.seq));
    drop((snapshot, scanner));
    let s = now();
    assert_eq!((s.open_snapshots, s.open_scanners, s.oldest_snapshot_seq, s.oldest_snapshot_age_us), (0, 0, 0, 0));
    // One that waits for a row.
    let held = rig.hold(Point::RowLocked, |r| inc(r, b"c", b"n", 1));
    assert_eq!(kind(inc_with(r, b"c", b"n", 1, &within(SHORT.micros(), WriteOptions::DEFAULT))), ErrorKind::Timeout);
    assert_eq!((now().row_lock_waits, held.release()), (1, 5));
    // A seal moves the memory.
    let before = now();
    r.seal().unwrap();
    let s = now();
    assert_eq!((before.memstore_sealed_bytes, s.memstore_sealed_bytes), (0, before.memstore_bytes));
    assert!(s.memstore_heap_bytes >= s.memstore_bytes && s.memstore_limit > s.memstore_heap_bytes);
    let nothing = [s.flushes, s.compactions, s.folded, s.stalled_writes, s.stalled_us, s.pinned_values, s.pinned_bytes, s.health];
    assert_eq!(nothing, [0; 8]);
    // Puts 2 + 1 + 2 unlogged + 1, a delete, a batch's four among them; increments 4 + 2 + 1.
    assert_eq!((s.writes, s.increments, s.reads), (7 + 3, 7, 6));
    r.poison("for the test");
    assert_eq!(r.stats().unwrap().health, 1);
}

/// BUG-75: a row that has many entries in a call is locked once for all that stand together, and with ATOMIC once at all; they are one commit.
#[test]
fn bug_75() {
    let rig = Rig::new("");
    let r = &rig.region;
    let locks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&locks);
    let _hook = hooks::install(r.hook_context(), move |at, _| {
        // Relaxed: the thread that reaches it is the one that asks.
        counted.fetch_add(usize::from(at == Point::RowLocked), Ordering::Relaxed);
    });
    let quals: Vec<[u8; 4]> = (0..2_000u32).map(u32::to_be_bytes).collect();
    let rows: Vec<[u8; 2]> = (0..100u16).map(u16::to_be_bytes).collect();
    let run = |row: &dyn Fn(usize) -> usize, o: &WriteOptions| {
        let (before, seq) = (locks.load(Ordering::Relaxed), r.stats().unwrap().seq);
        done(r, quals.iter().enumerate().map(|(i, q)| op_put(&rows[row(i)], q, b"v")).collect(), o);
        (locks.load(Ordering::Relaxed) - before, r.stats().unwrap().seq - seq)
    };
    let atomic = flags(WriteOptions::ATOMIC);
    assert_eq!([run(&|_| 0, &WriteOptions::DEFAULT), run(&|_| 0, &atomic)], [(1, 1); 2], "one row");
    assert_eq!([run(&|i| i / 20, &WriteOptions::DEFAULT), run(&|i| i / 20, &atomic)], [(1, 1); 2], "a hundred rows, each together");
    assert_eq!(run(&|i| i % 100, &atomic), (1, 1), "a hundred rows, taking turns");
    // Without ATOMIC what comes back is a change of its own: each round of the hundred rows is one commit.
    assert_eq!(run(&|i| i % 100, &WriteOptions::DEFAULT), (20, 20));
    let places = (0..2_000usize).flat_map(|i| [0, i / 20, i % 100].map(|row| (row, i)));
    assert_eq!(scan(r, None, b"", b"").len(), places.collect::<std::collections::HashSet<_>>().len());
}

/// BUG-80: writers that wait for memory show in the statistics while they wait, go on when there is some, and are told "busy" when their time is over.
#[test]
fn bug_80() {
    let pool = ChunkPool::new(PoolOptions { chunk_size: 64 << 10, max_bytes: 1 << 20, ..PoolOptions::default() }).unwrap();
    let (first, second) = (Rig::with_pool(&pool), Rig::with_pool(&pool));
    let value = [3; 5_000];
    let full = |rig: &Rig| {
        let mut puts = 0u32..10_000;
        puts.find_map(|i| put_with(&rig.region, &i.to_be_bytes(), b"v", &value, &within(1, WriteOptions::DEFAULT)).err()).expect("no limit")
    };
    inc(&second.region, b"r", b"n", 1);
    assert_eq!((full(&first).kind(), full(&second).kind()), (ErrorKind::Busy, ErrorKind::Busy));
    let before = second.region.stats().unwrap();
    assert!(before.stalled_writes >= 1);
    // Their time is over first.
    let e = put_with(&second.region, b"late", b"v", &value, &within(SHORT.micros(), WriteOptions::DEFAULT)).unwrap_err();
    assert!(e.kind() == ErrorKind::Busy && e.is_retryable(), "{e}");
    let timed_out = second.region.stats().unwrap();
    assert_eq!(timed_out.stalled_writes, before.stalled_writes + 1);
    assert!(timed_out.stalled_us >= before.stalled_us + SHORT.micros());
    let writers: Vec<_> = (0..8u8)
        .map(|t| second.spawn(move |r| put_with(r, &[b'w', t], b"v", &[4; 5_000], &within(LONG.micros(), WriteOptions::DEFAULT)).map(drop)))
        .collect();
    while second.region.stats().unwrap().stalled_writes < timed_out.stalled_writes + 8 {
        assert!(writers.iter().all(|w| !w.is_finished()), "one did not wait");
        std::thread::yield_now();
    }
    assert_eq!(inc(&second.region, b"r", b"n", 1), 2, "what needs no memory goes on");
    close(&first.region);
    drop(first);
    for writer in writers {
        writer.join().unwrap().unwrap();
    }
    assert!(second.region.stats().unwrap().stalled_us > timed_out.stalled_us);
}

/// BUG-84: a write that hangs between its number and its visibility. Others go on; close says what it waits for, gives up in time, and can be called again.
/// The statistics say since when a call has hung, at which stage, and how many wait for a row.
#[test]
fn bug_84() {
    for point in [Point::Appended, Point::BeforeMark, Point::BeforeAppend] {
        let rig = Rig::new("sync_interval_ms=5");
        let held = rig.hold(point, |r| inc(r, b"r", b"n", 1));
        // Whatever the looks have met before, only this one stays.
        let hangs = |s: &RegionStats| if point == Point::BeforeAppend { s.oldest_call_us } else { s.oldest_commit_us };
        let age = |at_least: u64| {
            let begun = std::time::Instant::now();
            loop {
                let s = rig.region.stats().unwrap();
                if hangs(&s) > at_least {
                    return hangs(&s);
                }
                assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{point:?}: {s:?}");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };
        age(age(0) + 20_000);
        let waiter = rig.spawn(|r| inc_with(r, b"r", b"n", 1, &within(LONG.micros(), WriteOptions::DEFAULT)));
        while rig.region.stats().unwrap().row_lock_waiting == 0 {
            assert!(!waiter.is_finished(), "the row is not locked");
            std::thread::yield_now();
        }
        let others: Vec<_> = (0..8u8).map(|t| rig.spawn(move |r| count_up(r, &[b'o', t], 20, 1))).collect();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!((counter(&rig.region, b"\x6f\0", b"n"), counter(&rig.region, b"r", b"n")), (Some(20), None));
        // The first close sends away who waits for the row.
        assert_eq!(kind(rig.region.close(CloseFlags::default(), SHORT)), ErrorKind::Timeout);
        assert_eq!(kind(waiter.join().unwrap()), ErrorKind::Closed);
        for _ in 0..2 {
            let e = rig.region.close(CloseFlags::default(), SHORT).unwrap_err();
            assert!(e.kind() == ErrorKind::Timeout && e.message().contains("1 call was still running"), "{e}");
            assert!(e.message().contains("the region stays open"), "{e}");
            assert_eq!(inc(&rig.region, b"between", b"n", 0), 0);
        }
        assert_eq!(held.release(), 1);
        let s = rig.region.stats().unwrap();
        assert_eq!((s.oldest_commit_us, s.oldest_call_us, s.row_lock_waiting), (0, 0, 0), "{point:?}");
        close(&rig.region);
        let e = rig.region.delete(b"r", CF, b"n", Op::Delete, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Closed);
    }
}

/// A row that could not be locked is named, wherever it stands in the call.
#[test]
fn a_lock_timeout_names_the_row_that_was_locked() {
    let rig = Rig::new("");
    let held = rig.hold(Point::RowLocked, |r| inc(r, b"busy", b"n", 1));
    let rows: Vec<Vec<u8>> = (0..20).map(|i| format!("free{i}").into_bytes()).collect();
    for o in [flags(WriteOptions::ATOMIC), WriteOptions::DEFAULT] {
        for place in [0, 7, 20] {
            let mut ops: Vec<_> = rows.iter().map(|row| op_inc(row, b"n", 1)).collect();
            ops.insert(place, op_inc(b"busy", b"n", 1));
            let (outcome, results, _) = batch(&rig.region, ops, &within(SHORT.micros(), o));
            let e = match outcome {
                Err(e) => e,
                Ok(BatchOutcome::Partial { error, first, .. }) => {
                    assert_eq!(first, place);
                    error
                }
                other => panic!("{other:?}"),
            };
            assert!(e.kind() == ErrorKind::Timeout && e.message().contains("row \"busy\" stayed locked"), "{e}");
            assert!(matches!(results[place], Some(OpResult { status: OpStatus::Failed(ErrorKind::Timeout), .. })));
        }
    }
    held.release();
}

/// Nothing makes room for new memory; what is named is what there is to do something about.
#[test]
fn a_full_memstore_names_what_fills_it_and_the_oldest_read_point() {
    let rig = Rig::new("memstore_limit=1m");
    let r = &rig.region;
    put(r, b"r", b"q", &[1; 1_000]);
    let snapshot = r.snapshot(LONG).unwrap();
    let e = (0..2_000u32).find_map(|i| put_with(r, b"r", b"q", &[i as u8; 1_000], &WriteOptions::DEFAULT).err()).expect("a limit");
    let s = r.stats().unwrap();
    let parts = [
        format!("{} bytes of it are {} older versions", s.old_version_bytes, s.old_versions),
        "1 snapshot, scanner or pinned value is open".into(),
        format!("the oldest read point is {} and ", snapshot.seq()),
    ];
    assert!(e.kind() == ErrorKind::Busy && parts.iter().all(|p| e.message().contains(p)), "{e}\n{parts:?}");
    assert!(s.old_versions > 500 && s.old_version_bytes == s.old_versions * 1_032, "{s:?}");
    drop(snapshot);
    let e = put_with(r, b"r", b"q", &[0; 1_000], &WriteOptions::DEFAULT).unwrap_err();
    assert!(!e.message().contains("read point"), "{e}");
}
