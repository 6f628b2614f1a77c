//! Room in the log: limits, full disks, failed and short writes, large records, recycling.

use super::*;
use crate::env::fault::{Fault, Op, Rule};
use crate::error::ErrorKind;
use std::time::Duration;

fn soon() -> Timeout {
    Timeout::from_micros(100_000)
}

/// Appends until the log has no room and waiting does not help; how many went in, and the error.
fn fill(log: &Log) -> (i64, crate::Error) {
    let mut buffer = RecordBuffer::new();
    for i in 0.. {
        big(&mut buffer, 2000);
        loop {
            match log.append(&mut buffer, || ()) {
                Ok(_) => break,
                Err(Refused::NoRoom { needed }) => match log.wait_for_log_space(needed, &mut soon(), &|| false, true) {
                    Ok(()) => {}
                    Err(e) => return (i, e),
                },
                Err(e) => panic!("{e:?}"),
            }
        }
    }
    unreachable!()
}

#[test]
fn the_limit_is_busy_and_names_itself_and_a_retired_segment_ends_the_wait() {
    for io in BOTH {
        let mut rig = Rig::new(io);
        rig.options.bytes_max = 6 * 64 * 1024;
        let log = Arc::new(rig.first_life());
        let (count, e) = fill(&log);
        assert!(e.kind() == ErrorKind::Busy && e.is_retryable() && e.message().contains("wal_bytes_max"), "{e}");
        assert!(log.stats().bytes <= rig.options.bytes_max, "{:?}", log.stats());
        assert!(rig.health.is_good());
        // A writer waits; what it waits for comes.
        let waiter = Arc::clone(&log);
        let waiter = std::thread::spawn(move || {
            let mut buffer = RecordBuffer::new();
            big(&mut buffer, 2001);
            append_buffer(&waiter, &mut buffer)
        });
        let (n, end) = log.number_now();
        wait(&log, n.0).unwrap();
        log.retire(LogPosition::new(end.segment() - 2, 0));
        assert_eq!(waiter.join().unwrap(), n.0 + 1);
        drop(log);
        let rig = rig.kill();
        let (entries, _) = rig.recover_from(end.segment() - 2, false).unwrap();
        assert!(entries.len() < count as usize && entries.last().unwrap().value == 2001);
    }
}

#[test]
fn recycled_segments_never_show_what_they_held() {
    for io in BOTH {
        let mut rig = Rig::new(io);
        rig.options.bytes_max = 8 * 64 * 1024;
        let log = rig.first_life();
        let mut appended = Vec::new();
        let mut first_needed = 1;
        let mut salts = std::collections::HashSet::new();
        for i in 0..20_000 {
            let n = append(&log, i);
            appended.push(log.number_now().1.segment());
            let at = log.number_now().1;
            if appended.iter().rev().nth(1).is_none_or(|before| *before < at.segment()) {
                // Each use of a file has a salt of its own, and what the file held is gone: else a kill here would leave damage behind the end.
                let header = format::SegmentHeader::decode(&rig.read(at.segment())).unwrap();
                assert!(salts.insert(header.salt), "segment {} has an old salt", at.segment());
                assert_eq!(rig.recover_from(first_needed, true).unwrap().1.last, n);
            }
            if at.segment() > first_needed + 2 {
                wait(&log, n).unwrap();
                first_needed = at.segment();
                log.retire(at);
            }
        }
        assert!(first_needed > 15, "nothing was recycled");
        let created = rig.env.count(Op::Create);
        assert!(created < first_needed as u64 * 2 / 3, "{created} files made for {first_needed} segments");
        drop(log);
        let rig = rig.kill();
        let (entries, _) = rig.recover_from(first_needed, false).unwrap();
        let expected: Vec<i64> = (0..20_000).filter(|i| appended[*i as usize] >= first_needed).collect();
        assert_eq!(values(&entries), expected);
        // A recycled file whose new records are all missing is empty, not old.
        rig.mem.set_boot_id([8; 16]);
        let last = entries.last().unwrap().position.segment();
        let bytes = rig.read(last);
        let salt = format::SaltCrc::new(format::SegmentHeader::decode(&bytes).unwrap().salt);
        for at in (4096..bytes.len() - 48).step_by(8) {
            let word = format::u64_at(&bytes, at).unwrap();
            let here = format::header_word(salt, at as u32, (bytes.len() - at) as u32, word);
            if matches!(here, format::HeaderWord::Length(_)) {
                let position = LogPosition::new(last, at as u32);
                assert!(entries.iter().any(|e| e.position == position), "an old record at {at}");
            }
        }
    }
}

#[test]
fn a_full_disk_refuses_at_once_and_recovers_when_space_returns() {
    for io in BOTH {
        let rig = Rig::new(io);
        let log = rig.first_life();
        while log.stats().segments < 3 {
            std::thread::yield_now();
        }
        rig.mem.set_capacity(Some(rig.mem.used_bytes()));
        let started = std::time::Instant::now();
        let mut buffer = RecordBuffer::new();
        let e = loop {
            big(&mut buffer, 2000);
            match log.append(&mut buffer, || ()) {
                Ok(_) => {}
                Err(Refused::NoRoom { needed }) => {
                    match log.wait_for_log_space(needed, &mut Timeout::from_micros(60_000_000), &|| false, true) {
                        Ok(()) => {}
                        Err(e) => break e,
                    }
                }
                Err(e) => panic!("{e:?}"),
            }
        };
        assert!(e.kind() == ErrorKind::NoSpace && e.is_retryable(), "{io:?}: {e}");
        assert!(started.elapsed() < Duration::from_secs(30), "waited for the timeout");
        assert!(rig.health.is_good());
        let n = log.number_now().0.0;
        rig.mem.set_capacity(None);
        assert_eq!(append_buffer(&log, &mut buffer), n + 1);
        assert_eq!(rig.kill().recover().unwrap().0.len() as u64, n + 1);
    }
}

#[test]
fn a_refused_write_leaves_nothing_and_the_next_one_goes_on() {
    for written in [0, 1, 8, 9, 20, 47] {
        let rig = Rig::new(WalIo::Write);
        let log = rig.first_life();
        append(&log, 0);
        let before = log.number_now();
        rig.env.inject(Rule::new(Op::WriteAt, "wal.0", 1, Fault::Short(written, Some(libc::ENOSPC))));
        let mut buffer = RecordBuffer::new();
        commit(&mut buffer, b"row", 1, Level::Sync);
        match log.append(&mut buffer, || ()) {
            Err(Refused::NoSpace(e)) => assert!(e.kind() == ErrorKind::NoSpace && e.is_retryable(), "{e}"),
            other => panic!("{other:?}"),
        }
        assert!(rig.health.is_good());
        assert_eq!(log.number_now(), before);
        assert!(rig.read(1)[before.1.offset() as usize..].iter().all(|b| *b == 0), "{written} bytes stay");
        assert_eq!(append(&log, 2), 2);
        assert_eq!(values(&rig.kill().recover().unwrap().0), [0, 2]);
    }
}

#[test]
fn a_write_error_poisons() {
    let rig = Rig::new(WalIo::Write);
    let log = rig.first_life();
    append(&log, 0);
    rig.env.inject(Rule::new(Op::WriteAt, "wal.0", 1, Fault::Short(20, Some(libc::EIO))));
    let mut buffer = RecordBuffer::new();
    commit(&mut buffer, b"row", 1, Level::Sync);
    assert!(matches!(log.append(&mut buffer, || ()), Err(Refused::Io(_))));
    assert!(!rig.health.is_good());
    assert!(matches!(log.append(&mut buffer, || ()), Err(Refused::Poisoned)));
    assert_eq!(values(&rig.kill().recover().unwrap().0), [0]);
}

#[test]
fn a_full_disk_whose_zeros_fail_poisons() {
    let rig = Rig::new(WalIo::Write);
    let log = rig.first_life();
    append(&log, 0);
    rig.env.inject(Rule::new(Op::WriteAt, "wal.0", 1, Fault::Short(20, Some(libc::ENOSPC))));
    rig.env.inject(Rule::new(Op::WriteAt, "wal.0", 2, Fault::Fail(libc::ENOSPC)));
    let mut buffer = RecordBuffer::new();
    commit(&mut buffer, b"row", 1, Level::Sync);
    assert!(matches!(log.append(&mut buffer, || ()), Err(Refused::Io(_))));
    assert!(!rig.health.is_good());
    // The header word stayed: an unfinished record, which was never acknowledged.
    let (entries, r) = rig.kill().recover().unwrap();
    assert_eq!((values(&entries), r.report.cut_tails), (vec![0], 1));
}

#[test]
fn short_writes_are_continued() {
    let rig = Rig::new(WalIo::Write);
    let log = rig.first_life();
    rig.env.inject(Rule::new(Op::WriteAt, "wal.0", 1, Fault::Short(11, None)).from_then_on());
    for i in 0..10 {
        append(&log, i);
    }
    assert_eq!(rig.kill().recover().unwrap().0.len(), 10);
}

#[test]
fn a_segment_that_cannot_be_prepared_is_an_error_for_those_who_wait_and_tried_again() {
    for (op, kind) in
        [(Op::Preallocate, ErrorKind::NoSpace), (Op::SyncDir, ErrorKind::Io), (Op::Rename, ErrorKind::Io), (Op::Map, ErrorKind::Io)]
    {
        let rig = Rig::new(WalIo::Mapped);
        let log = rig.first_life();
        while log.stats().segments < 3 {
            std::thread::yield_now();
        }
        let errno = if kind == ErrorKind::NoSpace { libc::ENOSPC } else { libc::EIO };
        rig.env.inject(Rule::new(op, "", 1, Fault::Fail(errno)).from_then_on());
        let (_, e) = fill(&log);
        assert_eq!(e.kind(), kind, "{op:?}: {e}");
        rig.env.clear();
        let n = log.number_now().0.0;
        assert_eq!(append(&log, 1), n + 1, "{op:?}");
        assert!(rig.health.is_good());
        assert_eq!(rig.kill().recover().unwrap().0.len() as u64, n + 1);
    }
}

#[test]
fn a_page_that_cannot_be_populated_refuses_until_it_can() {
    let mut rig = Rig::new(WalIo::Mapped);
    rig.options.segment_bytes = 4 << 20;
    rig.options.bytes_max = 64 << 20;
    rig.env.inject(Rule::new(Op::Populate, "wal.", 2, Fault::Fail(libc::ENOSPC)).from_then_on());
    let log = rig.first_life();
    let (count, e) = fill(&log);
    assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
    assert!(count > 100, "{count}");
    rig.env.clear();
    let n = log.number_now().0.0;
    assert_eq!(append(&log, 1), n + 1);
    assert_eq!(rig.kill().recover().unwrap().0.len() as u64, n + 1);
}

#[test]
fn a_record_larger_than_the_segments_ahead_gets_a_larger_one() {
    for io in BOTH {
        let mut rig = Rig::new(io);
        rig.options.segment_bytes = 8 << 20;
        rig.options.bytes_max = 256 << 20;
        let log = rig.first_life();
        append(&log, 0);
        let mut buffer = RecordBuffer::new();
        let size = log.record_bytes_max() as usize - 200;
        big(&mut buffer, size);
        append_buffer(&log, &mut buffer);
        append(&log, 2);
        assert_eq!(values(&rig.kill().recover().unwrap().0), [0, size as i64, 2]);
    }
}

#[test]
fn the_last_prepared_segment_is_kept_for_carry() {
    let mut rig = Rig::new(WalIo::Write);
    rig.options.bytes_max = 3 * 64 * 1024;
    let log = rig.first_life();
    let (_, e) = fill(&log);
    assert_eq!(e.kind(), ErrorKind::Busy);
    let segment = log.number_now().1.segment();
    let mut carry = RecordBuffer::new();
    let mut carries = 0;
    loop {
        carry.begin(RecordKind::Carry, Level::Sync, Generation(1), Tick(1));
        carry.finish();
        match log.append(&mut carry, || ()) {
            Ok(_) => carries += 1,
            Err(Refused::NoRoom { .. }) => break,
            Err(e) => panic!("{e:?}"),
        }
    }
    assert_eq!(log.number_now().1.segment(), segment + 1);
    assert!(carries > 1000);
}

#[test]
fn a_closing_region_ends_the_wait() {
    let mut rig = Rig::new(WalIo::Write);
    rig.options.bytes_max = 3 * 64 * 1024;
    let log = rig.first_life();
    fill(&log);
    let closing = crate::sync::AtomicBool::new(false);
    std::thread::scope(|s| {
        let waiter =
            s.spawn(|| log.wait_for_log_space(60_000, &mut Timeout::forever(), &|| closing.load(Ordering::Acquire), true).unwrap_err());
        closing.store(true, Ordering::Release);
        log.wake_waiters();
        let e = waiter.join().unwrap();
        assert!(e.kind() == ErrorKind::Closed && e.is_retryable(), "{e}");
    });
    rig.health.poison("for the test");
    let e = log.wait_for_log_space(60_000, &mut Timeout::forever(), &|| false, true).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Poisoned);
}

#[test]
fn where_mapping_is_not_safe_auto_writes_and_mapped_refuses() {
    use crate::env::FsKind;
    let rig = Rig::new(WalIo::Auto);
    rig.mem.set_file_system(FsKind::Other);
    assert!(!rig.first_life().stats().mapped);
    for (op, errno) in [(Op::Map, libc::ENODEV), (Op::Preallocate, libc::EOPNOTSUPP)] {
        let rig = Rig::new(WalIo::Auto);
        rig.env.inject(Rule::new(op, "", 1, Fault::Fail(errno)).from_then_on());
        let log = rig.first_life();
        assert!(!log.stats().mapped, "{op:?}");
        append(&log, 1);
        assert_eq!(rig.kill().recover().unwrap().0.len(), 1);
    }
    let rig = Rig::new(WalIo::Mapped);
    rig.mem.set_file_system(FsKind::Other);
    let e = rig.try_start(LogStart { first_segment: 1, last: 0, seal: None, spare: Vec::new() }).err().unwrap();
    assert!(e.kind() == ErrorKind::Unsupported && e.message().contains("wal_io"), "{e}");
}

/// P-M3: the log rolls and nothing is synced. Every segment that it has left gives its memory back all the same, once.
#[test]
fn segments_left_behind_give_their_memory_back_before_they_are_synced() {
    let rig = Rig::new(WalIo::Mapped);
    let log = rig.first_life();
    let mut buffer = RecordBuffer::new();
    while log.number_now().1.segment() <= 10 {
        big(&mut buffer, 2000);
        append_buffer(&log, &mut buffer);
    }
    let left = u64::from(log.number_now().1.segment() - 1);
    let began = std::time::Instant::now();
    while rig.env.count(Op::Release) < left {
        assert!(began.elapsed() < Duration::from_secs(30), "{} of {left} segments", rig.env.count(Op::Release));
        std::thread::yield_now();
    }
    assert_eq!((rig.env.count(Op::Release), log.stats().syncs), (left, 0));
    let n = log.number_now().0.0;
    drop(log);
    assert_eq!(rig.kill().recover().unwrap().0.len() as u64, n);
}

/// A disk with room for a few small segments, but none for a large one: they are made small, and only then it is full.
#[test]
fn a_nearly_full_disk_gets_smaller_segments() {
    for io in BOTH {
        let mut rig = Rig::new(io);
        rig.options.segment_bytes = 64 << 20;
        rig.options.bytes_max = 1 << 30;
        let free = 9 << 20;
        rig.mem.set_capacity(Some(free));
        let log = rig.first_life();
        let (count, e) = fill(&log);
        assert!(e.kind() == ErrorKind::NoSpace && e.is_retryable(), "{io:?}: {e}");
        let bytes = count as u64 * 2_064;
        // What is left is less than the smallest segments that must be ready before the log goes on.
        assert!(bytes > free * 8 / 10, "{io:?}: full with {bytes} bytes of records on {free} bytes of disk");
        assert!(rig.health.is_good());
        // And a region opens with the little that is left.
        log.close().unwrap();
        let next = rig.kill();
        drop(log);
        let (entries, _, log) = next.reopen();
        assert_eq!(entries.len() as i64, count);
        append(&log, 1);
        // Space returns: full size again, step by step.
        next.mem.set_capacity(None);
        let mut buffer = RecordBuffer::new();
        let full = || next.files().iter().any(|f| f.1 == 64 << 20);
        while !full() {
            big(&mut buffer, 2000);
            append_buffer(&log, &mut buffer);
        }
    }
}
