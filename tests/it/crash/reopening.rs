//! What recovery must do, and must not. Reports of kind K5, scenarios REC.

use super::stage::*;
use region::clock::{ClockUnit, Timeout};
use region::env::fault::{Fault, FaultEnv, Op, Rule, Which};
use region::env::mem::MemEnv;
use region::hooks::{self, Point};
use region::options::{Durability, FamilySpec, RegionOptions, WalIo, WriteOptions};
use region::region::{BatchOutcome, CloseFlags, CommitInfo, Mutation, Mutations, Op as Verb, Region};
use region::{ErrorKind, Result};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use Durability::{FsyncWal, SkipWal, SyncWal};

fn rows(n: usize, io: WalIo, lane: u64) -> MemEnv {
    let env = machine(lane);
    let region = open(&env, io);
    for i in 0..n {
        put(&region, format!("{i:05}").as_bytes(), &vec![i as u8; i % 200], SyncWal).unwrap();
    }
    env.image()
}

fn open_faulty(env: &MemEnv, rule: Rule, o: RegionOptions) -> Result<Region> {
    let faults = FaultEnv::new(Arc::new(env.clone()));
    faults.inject(rule);
    Region::open_in(Arc::new(faults), Path::new(PATH), o, None, None)
}

/// BUG-48, P-D2: a read error is an error of the open, never an end of the log, and nothing is changed; interrupted and short reads are continued.
#[test]
fn bug_48_a_read_error_is_no_end_of_the_log() {
    for o in [options(WalIo::Mapped), read_only(WalIo::Mapped)] {
        let env = rows(1_000, WalIo::Mapped, 13_001);
        let before = files(&env);
        let mut nth = 1;
        loop {
            match open_faulty(&env, Rule::new(Op::ReadAt, "wal.", nth, Fault::Fail(5)), o.clone()) {
                Ok(_) => break,
                Err(e) => assert!(e.kind() == ErrorKind::Io && e.message().contains("wal."), "{nth}: {e}"),
            }
            assert!(files(&env) == before, "read {nth} failed, and the open has changed something");
            nth += 1;
        }
        assert!(nth > 4, "only {nth} reads");
        for fault in [Fault::Fail(4), Fault::Short(3, None), Fault::Short(4_097, None)] {
            let image = rows(300, WalIo::Mapped, 13_001);
            let region = open_faulty(&image, Rule { times: 20, ..Rule::new(Op::ReadAt, "wal.", 2, fault) }, o.clone()).unwrap();
            assert_eq!(content(&region).len(), 300);
        }
    }
}

/// P-D2: any call of an open, or of the close after it, that fails once leaves a region that opens the next time with all it held.
#[test]
fn a_call_that_fails_once_can_be_repeated() {
    for errno in [5, 28] {
        // Some 35 calls change something; where the log's own thread is slow, the last of them are not reached.
        for nth in 1..=45 {
            let env = rows(50, WalIo::Mapped, 13_011);
            let rule = Rule { which: Which::Changes, path_part: String::new(), nth, times: 1, fault: Fault::Fail(errno) };
            match open_faulty(&env, rule, options(WalIo::Mapped)) {
                Ok(region) => {
                    // Lets the log's thread come to its calls; one that failed ends its work.
                    let began = std::time::Instant::now();
                    while region.stats().unwrap().wal_segments < 4 && began.elapsed().as_millis() < 20 {
                        std::thread::yield_now();
                    }
                    let _ = region.close(CloseFlags::default(), Timeout::from_micros(1_000_000));
                }
                Err(e) => assert_eq!(e.kind(), if errno == 28 { ErrorKind::NoSpace } else { ErrorKind::Io }, "call {nth}: {e}"),
            }
            let again = open_with(&env, options(WalIo::Mapped)).unwrap_or_else(|e| panic!("after call {nth} failed: {e}"));
            assert_eq!(content(&again).len(), 50, "after call {nth} failed");
        }
    }
}

/// BUG-50, P-D2: a region is killed, or loses power, with so many rows and nothing ever flushed.
#[test]
fn bug_50_a_young_region_opens() {
    for io in IOS {
        for n in [0, 1, 10, 1_000] {
            let env = rows(n, io, 13_021);
            assert_eq!(content(&open(&env.image(), io)).len(), n);
            open(&env.power_cut_keeping_nothing(), io);
        }
    }
}

/// P-D1: an open is killed between making the directory and syncing its name, or the directory is the caller's; the next open makes the region. What it is told to be
/// on stable storage must not go with the name of the directory.
#[test]
fn the_name_of_the_directory_is_durable_before_the_region() {
    let env = machine(13_141);
    region::env::Env::create_dir(&env, Path::new(PATH)).unwrap();
    let region = open(&env, WalIo::Mapped);
    put(&region, b"r", b"v", FsyncWal).unwrap();
    assert_eq!(content(&open(&env.power_cut_keeping_nothing(), WalIo::Mapped)), content(&region));
}

/// BUG-51: power cuts during and after each of twenty opens, no writes in between.
#[test]
fn bug_51_opened_and_cut_again_and_again() {
    let env = machine(13_031);
    let region = open(&env, WalIo::Mapped);
    for i in 0..500_u32 {
        put(&region, &i.to_be_bytes(), &[1; 100], SyncWal).unwrap();
    }
    put(&region, b"last", b"v", FsyncWal).unwrap();
    let (mut image, all) = (env.power_cut_keeping_nothing(), content(&region));
    for cycle in 0..20 {
        let faults = FaultEnv::new(Arc::new(image.clone()));
        faults.stop_at_change(1 + cycle);
        let _ = Region::open_in(Arc::new(faults), Path::new(PATH), options(WalIo::Mapped), None, None);
        image = image.power_cut_keeping_nothing();
        let region = open(&image, WalIo::Mapped);
        assert_eq!(content(&region), all, "cycle {cycle}");
        let next = image.power_cut_keeping_nothing();
        drop(region);
        image = next;
    }
}

/// BUG-53, P-B1, P-D2: a panic within a commit or a sync; the caller catches it, closes, opens again. Recovery runs, and everything acknowledged is there.
#[test]
fn bug_53_a_panic_is_no_clean_end() {
    use Point::*;
    for point in [RowLocked, SlotClaimed, BeforeAppend, AppendBeforeHeader, AppendAfterHeader, AppendDone, Appended, BeforeMark, SyncStart]
    {
        let env = machine(13_041);
        let region = open(&env, WalIo::Mapped);
        put(&region, b"before", b"v", FsyncWal).unwrap();
        let once = AtomicBool::new(true);
        let hook = hooks::install(hook_context(&env), move |p, _| {
            if p == point && once.swap(false, Ordering::SeqCst) {
                panic!("asked for by the test");
            }
        });
        let r = &region;
        let caught = std::panic::catch_unwind(AssertUnwindSafe(|| put(r, b"it", b"v", FsyncWal)));
        assert!(caught.is_err(), "{point:?} was not reached");
        drop(hook);
        let later = put(&region, b"later", b"v", SyncWal);
        let _ = region.close(CloseFlags { force: true, no_flush: false }, Timeout::from_micros(2_000_000));
        drop(region);
        let again = open(&env, WalIo::Mapped);
        let found = content(&again);
        assert!(found.contains_key(&(b"before".to_vec(), b"q".to_vec())), "{point:?}");
        assert_eq!(found.contains_key(&(b"later".to_vec(), b"q".to_vec())), later.is_ok(), "{point:?}: {later:?}");
        put(&again, b"it", b"v", FsyncWal).unwrap();
    }
}

/// BUG-55 as far as there is no flush: a log larger than the memory is refused with the limit that would do, nothing changed, and opens with it.
#[test]
fn bug_55_a_log_beyond_the_memory_is_refused_and_named() {
    let env = machine(13_051);
    let mut o = options(WalIo::Mapped);
    o.config = "wal_segment_bytes=4m,lock_buckets=64".into();
    let region = open_with(&env, o.clone()).unwrap();
    for i in 0..200_u32 {
        put(&region, &i.to_be_bytes(), &[1; 100_000], SyncWal).unwrap();
    }
    let killed = env.image();
    let before = files(&killed);
    let small = RegionOptions { memstore_limit: 8 << 20, ..o.clone() };
    let e = open_with(&killed, small).err().unwrap();
    assert!(e.kind() == ErrorKind::TooLarge && e.message().contains("memstore_limit"), "{e}");
    assert!(files(&killed) == before);
    assert_eq!(content(&open_with(&killed, o).unwrap()).len(), 200);
}

/// BUG-62 as far as cells have attributes: after a kill everything is as it was shown before, with its timestamp and number: empty values and qualifiers, counters,
/// columns that were deleted, families with settings of their own.
#[test]
fn bug_62_cells_come_back_as_they_were() {
    for io in IOS {
        let env = machine(13_061);
        let mut o = options(io);
        o.families.push(FamilySpec { max_versions: 3, ..FamilySpec::named("many") });
        let region = open_with(&env, o.clone()).unwrap();
        let many = region.family_id(b"many").unwrap().unwrap().0;
        let (mut info, w) = (CommitInfo::default(), WriteOptions::DEFAULT);
        for i in 0..4_u8 {
            for family in [CF, many] {
                region.put(&[b'r', family as u8, i], family, b"q", &vec![3; usize::from(i) * 10], &w, &mut info).unwrap();
                region.put(&[b'r', family as u8, i], family, b"", b"", &w, &mut info).unwrap();
                region.put(&[b's', family as u8], family, b"q", &[i], &w, &mut info).unwrap();
            }
        }
        inc(&region, b"counter", -3, SyncWal).unwrap();
        inc(&region, b"wide", i64::MAX, SyncWal).unwrap();
        region.increment(b"of-many", many, b"n", 7, &w, &mut info).unwrap();
        region.delete(&[b'r', CF as u8, 2], CF, b"q", Verb::Delete, &w, &mut info).unwrap();
        region.delete(&[b's', many as u8], many, b"q", Verb::Delete, &w, &mut info).unwrap();
        region.put(&[b's', many as u8], many, b"q", b"again", &w, &mut info).unwrap();
        let before = content(&region);
        assert_eq!(before.len(), 15 + 2 + 3);
        let killed = env.image();
        close(&region);
        for image in [killed, env.image()] {
            let again = open_with(&image, o.clone()).unwrap();
            assert_eq!(content(&again), before);
            assert_eq!(inc(&again, b"counter", 1, SyncWal).unwrap(), -2, "still a counter");
        }
    }
}

/// REC-01: numbers with gaps, since commits that skip the log take theirs too: everything logged comes back. P-D1: nothing that skipped it does.
#[test]
fn rec_01_gaps_in_the_numbers() {
    let env = machine(13_071);
    let region = open(&env, WalIo::Write);
    for i in 0..60 {
        put(&region, &[i], b"v", if i % 10 == 0 { SyncWal } else { SkipWal }).unwrap();
    }
    let again = open(&env.image(), WalIo::Write);
    assert_eq!(content(&again).keys().map(|k| k.0[0]).collect::<Vec<_>>(), [0, 10, 20, 30, 40, 50]);
}

struct TwoFamilies(u32, u32);
impl Mutations for TwoFamilies {
    fn len(&self) -> usize {
        2
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        let family = if i == 0 { self.0 } else { self.1 };
        let qual: &[u8] = if i == 0 { b"a" } else { b"b" };
        Mutation { op: Verb::Put, family, row: b"r", qual, value: &[9; 3_000], delta: 0, timestamp: 0 }
    }
}

/// REC-07: a row of two families, killed before its append, within it, after it, and the power gone with any subset of the pages: all of the row or nothing.
#[test]
fn rec_07_no_half_row_of_two_families() {
    for (io, lane) in [(WalIo::Mapped, 13_081), (WalIo::Write, 13_091)] {
        let env = machine(lane);
        let mut o = options(io);
        o.families.push(FamilySpec::named("second"));
        let region = open_with(&env, o.clone()).unwrap();
        let ops = TwoFamilies(CF, region.family_id(b"second").unwrap().unwrap().0);
        let images = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (i, e) = (Arc::clone(&images), env.clone());
        let hook = hooks::install(hook_context(&env), move |_, _| i.lock().unwrap().push(e.image()));
        let done = region.batch(&ops, &WriteOptions::DEFAULT, &mut CommitInfo::default(), &mut |_, _| {}).unwrap();
        assert!(matches!(done, BatchOutcome::Done));
        drop(hook);
        let images = images.lock().unwrap();
        assert!(images.len() >= 5);
        let mut seen = [0; 2];
        for image in images.iter() {
            let n = image.unsynced().len().min(8);
            let cuts = (0..1_u32 << n).map(|bits| {
                let mut at = 0;
                image.power_cut(&mut |_| {
                    at += 1;
                    bits >> (at - 1) & 1 == 1
                })
            });
            for machine in cuts.chain([image.image()]) {
                let found = content(&open_with(&machine, o.clone()).unwrap());
                assert!(found.is_empty() || found.len() == 2, "half a row: {found:?}");
                seen[found.len() / 2] += 1;
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }
}

/// REC-09: the marks between lives, seals and PADs, take no numbers away and hide nothing; numbers and ticks grow over twelve lives (P-T2), in coarse ticks too, which
/// run ahead of the clock.
#[test]
fn rec_09_numbers_and_ticks_grow_over_lives() {
    for unit in [ClockUnit::Nanos, ClockUnit::Millis] {
        let env = machine(13_101);
        let (mut seq, mut tick) = (0, 0);
        for life in 0..12 {
            let image = env.clone();
            let region = open_with(&image, RegionOptions { clock_unit: Some(unit), ..options(WalIo::Mapped) }).unwrap();
            for i in 0..40 {
                let mut info = CommitInfo::default();
                let counted = region.increment(b"r", CF, b"n", 1, &WriteOptions::DEFAULT, &mut info).unwrap();
                assert_eq!(counted.value, life * 40 + i + 1);
                assert!(info.seq > seq && info.timestamp > tick, "life {life}: {info:?} after number {seq}, tick {tick}");
                (seq, tick) = (info.seq, info.timestamp);
            }
            if life % 2 == 0 {
                close(&region);
            }
        }
    }
}

/// REC-10, P-D2: cells of a family that is gone are skipped and counted, the rest of their records applied.
#[test]
fn rec_10_cells_of_a_dropped_family_are_skipped() {
    let env = machine(13_111);
    let mut o = options(WalIo::Mapped);
    o.families.push(FamilySpec::named("gone"));
    let region = open_with(&env, o).unwrap();
    let gone = region.family_id(b"gone").unwrap().unwrap();
    region.batch(&TwoFamilies(CF, gone.0), &WriteOptions::DEFAULT, &mut CommitInfo::default(), &mut |_, _| {}).unwrap();
    region.family_drop(gone).unwrap();
    let again = open(&env.image(), WalIo::Mapped);
    assert_eq!(content(&again).len(), 1);
    assert_eq!(reported(&again, "cells_of_dropped_families"), 1);
    // Its id is not given again: the log still has its cells.
    assert!(again.family_set(FamilySpec::named("new")).unwrap().0 > gone.0);
}

/// The progress callback stops a recovery: Cancelled, nothing changed, and the next open does it all.
#[test]
fn a_recovery_can_be_cancelled() {
    let env = rows(2_000, WalIo::Mapped, 13_121);
    let before = files(&env);
    let mut calls = 0;
    for stop_at in 1..100 {
        calls = 0;
        let mut last = 0;
        let mut progress = |p: region::region::Progress| {
            calls += 1;
            assert!(p.done >= last && p.done <= p.total, "{p:?}");
            last = p.done;
            calls == stop_at
        };
        let opened = Region::open_in(Arc::new(env.image()), Path::new(PATH), options(WalIo::Mapped), None, Some(&mut progress));
        if calls < stop_at {
            assert_eq!(content(&opened.unwrap()).len(), 2_000);
            break;
        }
        assert_eq!(opened.err().unwrap().kind(), ErrorKind::Cancelled);
        let image = env.image();
        let _ = Region::open_in(Arc::new(image.clone()), Path::new(PATH), options(WalIo::Mapped), None, Some(&mut |_| true));
        assert!(files(&image) == before);
    }
    assert!(calls > 2, "called {calls} times");
}

/// Read-only opens: they see what a writer's open would, change nothing, refuse writes, share with each other and with no writer.
#[test]
fn read_only_changes_nothing() {
    for io in IOS {
        let env = rows(300, io, 13_131);
        let before = files(&env);
        let (one, two) = (open_with(&env, read_only(io)).unwrap(), open_with(&env, read_only(io)).unwrap());
        assert_eq!(content(&one).len(), 300);
        assert_eq!(content(&one), content(&two));
        assert_eq!(put(&one, b"r", b"v", SyncWal).unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(open_with(&env, options(io)).err().unwrap().kind(), ErrorKind::Locked, "a writer beside readers");
        close(&one);
        drop((one, two));
        assert!(files(&env) == before, "{io:?}: a look has changed something");
        let writer = open(&env, io);
        let e = open_with(&env, read_only(io)).err().unwrap();
        assert!(e.kind() == ErrorKind::Locked && e.message().contains("pid 1"), "{e}");
        // Nor does removing the lock file let anyone in (BUG-59).
        region::env::Env::remove(&env, &Path::new("/r").join("LOCK")).unwrap();
        assert_eq!(open_with(&env, options(io)).err().unwrap().kind(), ErrorKind::Locked);
        assert_eq!(open_with(&env, read_only(io)).err().unwrap().kind(), ErrorKind::Locked);
        assert!(writer.recovery_report().unwrap().contains("\"directory_cannot_be_locked\":false"));
        drop(writer);
        env.set_lockable_directories(false);
        let reader = open_with(&env, read_only(io)).unwrap();
        assert!(reader.recovery_report().unwrap().contains("\"directory_cannot_be_locked\":true"));
        drop(reader);
        env.set_lockable_directories(true);
        // Without the right to make the lock file a reader is let in and told.
        env.set_lock_permission(false);
        let reader = open_with(&env, read_only(io)).unwrap();
        assert!(reader.recovery_report().unwrap().contains("\"writer_cannot_be_detected\":true"));
        assert_eq!(open_with(&env, options(io)).err().unwrap().kind(), ErrorKind::Io);
        let nowhere = MemEnv::new();
        assert_eq!(open_with(&nowhere, read_only(io)).err().unwrap().kind(), ErrorKind::NoRegion);
        assert!(region::env::Env::list(&nowhere, Path::new("/")).unwrap().is_empty());
    }
}
