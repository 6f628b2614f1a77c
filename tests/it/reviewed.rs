//! Faults that reading the code found, each kept as a case.

use crate::rig::*;
use region::clock::Timeout;
use region::error::ErrorKind;
use region::ids::FamilyId;
use region::options::{Durability, FamilySpec, OpenFlags, ReadOptions, RegionOptions, WriteOptions};
use region::region::{BatchOutcome, CloseFlags, Region, ScanSpec};
use std::sync::mpsc;

/// P-V1, P-V5: a plain batch whose first run went on top of a waiting FSYNC commit waits for that sync, although its last run has nothing to wait for.
#[test]
fn p_v1_a_batch_waits_for_the_sync_of_every_run() {
    let rig = Rig::new("lock_buckets=65536");
    inc(&rig.region, b"a", b"n", 1);
    let gate = rig.pause_sync();
    // For ever: on a loaded machine the call's own time can be over before its last run, which then never comes.
    let for_ever = |level| WriteOptions { timeout_us: Some(u64::MAX), ..at(level) };
    let writer = rig.spawn(move |r| inc_with(r, b"a", b"n", 10, &for_ever(Durability::FsyncWal)).map(|c| c.value));
    gate.wait_until_reached();
    let last = rig.region.stats().unwrap().seq;
    let (done, is_done) = mpsc::channel();
    let caller = rig.spawn(move |r| {
        // More rows than one run takes; the last run holds none of "a".
        let rows: Vec<Vec<u8>> = (0..300).map(|i| format!("row{i}").into_bytes()).collect();
        let mut ops = vec![op_inc(b"a", b"n", 100)];
        ops.extend(rows.iter().map(|row| op_inc(row, b"n", 1)));
        let outcome = batch(r, ops, &for_ever(Durability::SyncWal)).0;
        done.send(format!("{outcome:?}")).unwrap();
        let seen = counter(r, b"a", b"n");
        (matches!(outcome, Ok(BatchOutcome::Done)), seen)
    });
    // The last run has its number, so all that is left of the call is the wait. (Its rows may not be looked for: one may lie in a lock bucket with a row of
    // the first run, one time in six, and then the last run waits for the sync too, and shows nothing.)
    while rig.region.stats().unwrap().seq < last + 2 {
        assert!(!caller.is_finished(), "the call has ended without its last run: {:?}", caller.join());
        std::thread::yield_now();
    }
    if let Ok(outcome) = is_done.recv_timeout(std::time::Duration::from_millis(100)) {
        panic!("returned before the sync of its first run: {outcome}, {:?}", rig.region.stats());
    }
    gate.open();
    assert_eq!(caller.join().unwrap(), (true, Some(111)));
    assert_eq!(writer.join().unwrap().unwrap(), 11);
}

/// P-V3: a scan on a snapshot keeps the snapshot's instant, also when the snapshot is closed before it.
#[test]
fn p_v3_a_scan_outlives_its_snapshot() {
    let rig = Rig::new("");
    let r = &rig.region;
    let rows: Vec<Vec<u8>> = (0..1000).map(|i| format!("row{i:04}").into_bytes()).collect();
    for row in &rows {
        inc(r, row, b"n", 1);
    }
    let snapshot = r.snapshot(Timeout::forever()).unwrap();
    let mut scanner = r.scanner(Some(&snapshot), &ReadOptions::DEFAULT, &ScanSpec::default()).unwrap();
    drop(snapshot);
    for row in rows.iter().chain(&rows).chain(&rows) {
        inc(r, row, b"n", 1);
    }
    let mut seen = 0;
    while let Some(cell) = scanner.next().unwrap() {
        assert_eq!((number(cell.value), cell.row), (1, rows[seen].as_slice()));
        seen += 1;
    }
    assert_eq!(seen, 1000);
    drop(scanner);
    assert_eq!(r.stats().unwrap().open_scanners, 0);
}

/// A family is not dropped from a region that is open for reading only.
#[test]
fn a_read_only_region_keeps_its_families() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let create = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        ..RegionOptions::default()
    };
    let r = Region::open(&path, create, None, None).unwrap();
    inc(&r, b"row", b"n", 1);
    close(&r);
    let manifest = std::fs::read(path.join("MANIFEST")).unwrap();
    let read = RegionOptions { flags: OpenFlags { read_only: true, ..OpenFlags::default() }, ..RegionOptions::default() };
    let r = Region::open(&path, read, None, None).unwrap();
    assert_eq!(kind(r.family_drop(FamilyId(1))), ErrorKind::ReadOnly);
    assert_eq!(counter(&r, b"row", b"n"), Some(1));
    r.close(CloseFlags::default(), Timeout::forever()).unwrap();
    assert_eq!(std::fs::read(path.join("MANIFEST")).unwrap(), manifest);
}

/// P-C4 at recovery: a counter of a family with several versions takes no more memory than while it ran.
#[test]
fn p_c4_replay_keeps_the_versions_of_the_family_only() {
    let dir = tempfile::tempdir().unwrap();
    let options = || RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec { max_versions: 3, ..FamilySpec::named("cf") }],
        ..RegionOptions::default()
    };
    let path = dir.path().join("r");
    let r = Region::open(&path, options(), None, None).unwrap();
    for _ in 0..50_000 {
        inc(&r, b"row", b"n", 1);
    }
    let running = r.stats().unwrap().memstore_bytes;
    close(&r);
    let r = Region::open(&path, options(), None, None).unwrap();
    let replayed = r.stats().unwrap().memstore_bytes;
    assert!(replayed <= running + 4096, "{running} bytes before, {replayed} after");
    assert_eq!(counter(&r, b"row", b"n"), Some(50_000));
    close(&r);
}

/// A batch of which something was applied is never marked as safe to repeat, whatever its first failure was.
#[test]
fn a_partial_batch_is_not_retryable() {
    let rig = Rig::new("lock_buckets=65536");
    let held = rig.hold(region::hooks::Point::RowLocked, |r| inc(r, b"held", b"n", 1));
    let o = within(1, at(Durability::SyncWal));
    let (outcome, results, _) = batch(&rig.region, vec![op_inc(b"free", b"n", 1), op_inc(b"held", b"n", 1)], &o);
    let Ok(BatchOutcome::Partial { first, error, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!((first, error.is_retryable()), (1, false), "{error}");
    assert!(results[1].unwrap().flags & region::region::OpResult::RETRYABLE != 0);
    held.release();
}
