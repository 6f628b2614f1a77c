//! Appending in both forms: numbers, order, rolls, concurrency, panics.

use super::*;
use crate::hooks::{self, Point};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn what_is_appended_comes_back_in_order_after_a_kill() {
    for io in BOTH {
        let rig = Rig::new(io);
        let log = rig.first_life();
        assert_eq!(log.stats().mapped, io == WalIo::Mapped);
        for i in 0..100 {
            assert_eq!(append(&log, i), i as u64 + 1);
        }
        assert_eq!(log.skip(|| ()).unwrap(), SequenceNumber(101));
        assert_eq!(append(&log, 100), 102);
        let end = log.number_now();
        assert_eq!(end.0, SequenceNumber(102));
        let next = rig.kill();
        let (entries, r) = next.recover().unwrap();
        assert_eq!(values(&entries), (0..=100).collect::<Vec<_>>());
        assert_eq!((r.last, r.max_tick, r.max_generation), (102, 1100, 1));
        assert_eq!((r.report.end, r.report.cut_tails, r.report.same_kernel, r.report.records), (end.1, 0, true, 101));
    }
}

#[test]
fn segments_roll_and_every_record_is_found() {
    for io in BOTH {
        let rig = Rig::new(io);
        let log = rig.first_life();
        for i in 0..5000 {
            append(&log, i);
        }
        assert!(log.number_now().1.segment() > 3, "{io:?}: {:?}", log.number_now());
        drop(log);
        let (entries, r, log) = rig.kill().reopen();
        assert_eq!(values(&entries), (0..5000).collect::<Vec<_>>());
        assert_eq!(r.last, 5000);
        assert_eq!(append(&log, 1), 5101);
    }
}

#[test]
fn threads_append_whole_records_with_distinct_numbers() {
    for io in BOTH {
        let rig = Rig::new(io);
        let log = Arc::new(rig.first_life());
        let threads: Vec<_> = (0..8)
            .map(|t| {
                let log = Arc::clone(&log);
                std::thread::spawn(move || (0..500).map(|i| (append(&log, t * 1000 + i), t * 1000 + i)).collect::<Vec<_>>())
            })
            .collect();
        let mut given: Vec<_> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        given.sort_unstable();
        assert_eq!(given.iter().map(|g| g.0).collect::<Vec<_>>(), (1..=4000).collect::<Vec<_>>());
        let (entries, _) = rig.kill().recover().unwrap();
        assert_eq!(entries.iter().map(|e| (e.number, e.value)).collect::<Vec<_>>(), given);
    }
}

#[test]
fn a_panic_in_the_copy_leaves_zeros_gives_no_number_and_poisons() {
    let rig = Rig::new(WalIo::Mapped);
    let log = rig.first_life();
    append(&log, 1);
    let before = log.number_now();
    let hook = hooks::install(log.hook_context(), |point, _| {
        if point == Point::AppendAfterHeader {
            panic!("for the test");
        }
    });
    assert!(catch_unwind(AssertUnwindSafe(|| append(&log, 2))).is_err());
    drop(hook);
    assert_eq!(log.number_now(), before);
    assert!(!rig.health.is_good());
    let mut buffer = RecordBuffer::new();
    commit(&mut buffer, b"row", 3, Level::Sync);
    assert!(matches!(log.append(&mut buffer, || ()), Err(Refused::Poisoned)));
    let bytes = rig.read(1);
    assert!(bytes[before.1.offset() as usize..].iter().all(|b| *b == 0));
    let (entries, r) = rig.kill().recover().unwrap();
    assert_eq!((values(&entries), r.report.cut_tails, r.last), (vec![1], 0, 1));
}

#[test]
fn a_process_that_dies_between_header_word_and_trailer_leaves_a_tail_that_is_cut() {
    let rig = Rig::new(WalIo::Mapped);
    let log = rig.first_life();
    append(&log, 1);
    let (mem, found) = (rig.mem.clone(), Arc::new(crate::sync::Mutex::new(None)));
    let sink = Arc::clone(&found);
    let hook = hooks::install(log.hook_context(), move |point, _| {
        if point == Point::AppendAfterHeader {
            *sink.lock() = Some(mem.kill());
        }
    });
    let mut buffer = RecordBuffer::new();
    commit(&mut buffer, b"row", 2, Level::Sync);
    log.append(&mut buffer, || ()).unwrap();
    drop(hook);
    let mem = found.lock().take().unwrap();
    let (entries, r) = Rig::over(mem, rig.options.clone()).recover().unwrap();
    assert_eq!((values(&entries), r.report.cut_tails, r.report.cut_bytes), (vec![1], 1, 8));
}

#[test]
fn hooks_see_an_append_pass_its_points_in_order() {
    let rig = Rig::new(WalIo::Mapped);
    let log = rig.first_life();
    let seen = Arc::new(crate::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let _hook = hooks::install(log.hook_context(), move |point, _| sink.lock().push(point));
    let n = append(&log, 1);
    wait(&log, n).unwrap();
    let expected = [Point::AppendBeforeHeader, Point::AppendAfterHeader, Point::AppendDone, Point::SyncStart, Point::SyncEnd];
    assert_eq!(*seen.lock(), expected);
}

#[test]
fn a_lock_taken_under_the_append_lock_is_caught_in_debug_builds() {
    let rig = Rig::new(WalIo::Mapped);
    let log = Arc::new(rig.first_life());
    let inner = Arc::clone(&log);
    let _hook = hooks::install(log.hook_context(), move |point, _| {
        if point == Point::AppendBeforeHeader {
            inner.wake_waiters();
        }
    });
    let caught = catch_unwind(AssertUnwindSafe(|| append(&log, 1)));
    assert_eq!(caught.is_err(), cfg!(debug_assertions));
}

#[test]
fn a_record_goes_in_only_with_room_for_a_pad_in_what_is_populated() {
    use crate::wal::append::{AppendError, Appender};
    use crate::wal::segment::{Form, Segment};
    let (mem, health, synced) = (MemEnv::new(), Health::new(), AtomicU64::new(0));
    let mut record = RecordBuffer::new();
    commit(&mut record, b"row", 1, Level::Sync);
    let length = record.len() as u32;
    // End of the populated part behind the record, and whether the record goes in: a PAD's 48 bytes must be populated too, unless the segment ends before.
    for (behind, at_end, goes_in) in
        [(0, false, false), (16, false, false), (40, false, false), (48, false, true), (8, true, false), (16, true, true)]
    {
        let populated = 4096 + length + behind;
        let len = if at_end { populated } else { populated + 4096 };
        let file = mem.create(format!("/{behind}{at_end}").as_ref()).unwrap();
        let form = Form::Pwrite(pwrite::PwriteSegment::new(file));
        let appender = Appender::new(Arc::new(Segment::new(1, len, format::SaltCrc::new(1), form, populated)), 0, 0);
        match appender.append(&mut record, &health, &synced, || ()) {
            Ok(done) => assert!(goes_in && done.number == 1, "{behind} {at_end}"),
            Err(e) => assert!(!goes_in && matches!(e, AppendError::NoRoom), "{behind} {at_end}: {e:?}"),
        }
        assert!(!appender.has_room(length, RecordKind::Commit), "{behind} {at_end}");
    }
}

/// P3.6 for commits that skip the log: the health is looked at under the append lock, so none gets a number once the region is poisoned or its log closed.
#[test]
fn a_commit_past_the_log_is_refused_once_the_log_is_dead() {
    let rig = Rig::new(WalIo::Mapped);
    let log = rig.first_life();
    assert_eq!(log.skip(|| ()).unwrap(), SequenceNumber(1));
    rig.health.poison("for the test");
    assert!(matches!(log.skip(|| ()), Err(Refused::Poisoned)));
    assert_eq!(log.number_now().0, SequenceNumber(1));
    let rig = Rig::new(WalIo::Write);
    let log = rig.first_life();
    log.close().unwrap();
    assert!(matches!(log.skip(|| ()), Err(Refused::Poisoned)), "the log is closed");
    assert_eq!(log.number_now().0, SequenceNumber(0));
}
