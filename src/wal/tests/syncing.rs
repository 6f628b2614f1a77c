//! Durability: who syncs, who waits, failures, the background sync.

use super::*;
use crate::env::fault::{Fault, Op, Rule};
use std::time::Duration;

/// Waits for something that a background thread does.
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if is() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} did not happen");
}

#[test]
fn many_threads_share_syncs_and_all_become_durable() {
    for io in BOTH {
        let rig = Rig::new(io);
        rig.env.inject(Rule::new(Op::SyncData, "wal.00", 1, Fault::Delay(Duration::from_micros(300))).from_then_on());
        let log = Arc::new(rig.first_life());
        let threads: Vec<_> = (0..40)
            .map(|t| {
                let log = Arc::clone(&log);
                std::thread::spawn(move || {
                    for i in 0..50 {
                        let n = append(&log, t * 100 + i);
                        wait(&log, n).unwrap();
                        assert!(log.durable() >= n);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let syncs = log.stats().syncs;
        assert!(syncs < 1000, "{syncs} syncs for 2000 commits");
        assert_eq!(rig.power_cut().recover().unwrap().0.len(), 2000);
    }
}

#[test]
fn one_sync_covers_all_that_was_appended_meanwhile() {
    let rig = Rig::new(WalIo::Mapped);
    let log = Arc::new(rig.first_life());
    let gate = rig.env.pause(Op::SyncData, "wal.0000000001", 1);
    let start = |value| {
        let log = Arc::clone(&log);
        std::thread::spawn(move || {
            let n = append(&log, value);
            wait(&log, n)
        })
    };
    let leader = start(0);
    gate.wait_until_reached();
    let followers: Vec<_> = (1..=20).map(start).collect();
    eventually("all appends", || log.number_now().0.0 == 21);
    assert_eq!(log.durable(), 0);
    gate.open();
    assert_eq!(leader.join().unwrap(), Ok(()));
    for f in followers {
        assert_eq!(f.join().unwrap(), Ok(()));
    }
    assert_eq!((log.durable(), log.stats().syncs), (21, 2));
}

#[test]
fn a_failed_sync_poisons_tells_all_waiters_and_is_never_repeated() {
    for io in BOTH {
        let rig = Rig::new(io);
        let log = Arc::new(rig.first_life());
        let first = append(&log, 0);
        wait(&log, first).unwrap();
        let gate = rig.env.pause(Op::SyncData, "wal.0000000001", 1);
        rig.mem.fail_syncs("wal.0000000001", 1);
        let threads: Vec<_> = (1..=20)
            .map(|i| {
                let log = Arc::clone(&log);
                std::thread::spawn(move || {
                    let n = append(&log, i);
                    wait(&log, n)
                })
            })
            .collect();
        eventually("all appends", || log.number_now().0.0 == 21);
        gate.open();
        for t in threads {
            assert_eq!(t.join().unwrap(), Err(NotDurable::Poisoned));
        }
        assert_eq!(log.durable(), first);
        assert!(rig.health.reason().contains("sync"), "{}", rig.health.reason());
        let syncs = rig.env.count(Op::SyncData);
        assert_eq!(wait(&log, 21), Err(NotDurable::Poisoned));
        // What was durable stays so.
        assert_eq!(wait(&log, first), Ok(()));
        let mut buffer = RecordBuffer::new();
        commit(&mut buffer, b"row", 99, Level::Sync);
        assert!(matches!(log.append(&mut buffer, || ()), Err(Refused::Poisoned)));
        assert!(log.close().is_err());
        assert_eq!(rig.env.count(Op::SyncData), syncs);
    }
}

#[test]
fn a_full_disk_found_by_a_sync_is_a_failed_sync() {
    let rig = Rig::new(WalIo::Write);
    let log = rig.first_life();
    let n = append(&log, 0);
    rig.env.fail(Op::SyncData, "wal.0000000001", 1, libc::ENOSPC);
    assert_eq!(wait(&log, n), Err(NotDurable::Poisoned));
    assert!(!rig.health.is_good());
}

#[test]
fn a_waiter_gives_up_in_time_and_the_others_go_on() {
    let rig = Rig::new(WalIo::Mapped);
    let log = Arc::new(rig.first_life());
    let gate = rig.env.pause(Op::SyncData, "wal.0000000001", 1);
    let n = append(&log, 0);
    assert_eq!(log.wait_for_durable(n, &mut Timeout::no_wait()), Err(NotDurable::Timeout));
    let other = Arc::clone(&log);
    let leader = std::thread::spawn(move || wait(&other, n));
    gate.wait_until_reached();
    let m = append(&log, 1);
    assert_eq!(log.wait_for_durable(m, &mut Timeout::from_micros(3_000)), Err(NotDurable::Timeout));
    gate.open();
    assert_eq!(leader.join().unwrap(), Ok(()));
    assert_eq!((log.durable(), wait(&log, m), log.durable()), (n, Ok(()), m));
}

#[test]
fn a_crowd_with_short_timeouts_never_strands_a_patient_waiter() {
    let rig = Rig::new(WalIo::Mapped);
    rig.env.inject(Rule::new(Op::SyncData, "wal.00", 1, Fault::Delay(Duration::from_micros(200))).from_then_on());
    let log = Arc::new(rig.first_life());
    let threads: Vec<_> = (0..16)
        .map(|t| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for i in 0..200 {
                    let n = append(&log, i);
                    // Half of them give up at about the time at which they would be woken.
                    let micros = if t % 2 == 0 { 150 + 20 * (i as u64 % 10) } else { 20_000_000 };
                    let result = log.wait_for_durable(n, &mut Timeout::from_micros(micros));
                    assert!(result.is_ok() || t % 2 == 0);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn numbers_without_a_record_become_durable_without_a_sync() {
    let rig = Rig::new(WalIo::Mapped);
    let log = rig.first_life();
    let n = log.skip(|| ()).unwrap().0;
    wait(&log, n).unwrap();
    assert_eq!((log.durable(), log.stats().syncs), (n, 0));
}

#[test]
fn all_segments_up_to_the_end_are_synced_oldest_first() {
    for io in BOTH {
        let rig = Rig::new(io);
        let log = rig.first_life();
        let mut n = 0;
        for i in 0..5000 {
            n = append(&log, i);
        }
        assert!(log.number_now().1.segment() > 4);
        wait(&log, n).unwrap();
        assert_eq!(rig.power_cut().recover().unwrap().0.len(), 5000);
        // Once more behind them.
        n = append(&log, 5000);
        wait(&log, n).unwrap();
        assert_eq!(rig.power_cut().recover().unwrap().0.len(), 5001);
    }
}

#[test]
fn a_failed_sync_of_an_older_segment_keeps_the_newer_unacknowledged() {
    let rig = Rig::new(WalIo::Write);
    let log = rig.first_life();
    let mut n = 0;
    for i in 0..3000 {
        n = append(&log, i);
    }
    rig.mem.fail_syncs("wal.0000000002", 1);
    assert_eq!(wait(&log, n), Err(NotDurable::Poisoned));
    assert_eq!(log.durable(), 0);
}

#[test]
fn the_background_sync_makes_commits_durable_and_ends_with_one_pad() {
    for io in BOTH {
        let mut rig = Rig::new(io);
        rig.options.sync_interval_ms = 5;
        let log = rig.first_life();
        let mut n = 0;
        for i in 0..10 {
            n = append(&log, i);
        }
        let end = log.number_now().1.offset();
        eventually("a background sync", || log.durable() == n);
        eventually("the PAD", || log.number_now().1.offset() == end + 48);
        eventually("its sync", || log.stats().syncs >= 2);
        let syncs = log.stats().syncs;
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!((log.stats().syncs, log.number_now().1.offset()), (syncs, end + 48), "an idle log writes nothing");
        let (_, r) = rig.power_cut().recover().unwrap();
        assert_eq!((r.report.mark.offset(), r.report.end.offset(), r.last), (end, end + 48, n));
        // A PAD after the next commit, too, even if that one was synced by its writer.
        n = append(&log, 10);
        wait(&log, n).unwrap();
        eventually("the next PAD", || rig.power_cut().recover().unwrap().1.report.mark.offset() > end + 48);
    }
}

#[test]
fn fsync_levels_are_noted() {
    let rig = Rig::new(WalIo::Mapped);
    let log = rig.first_life();
    assert_eq!(log.last_fsync(), 0);
    log.note_fsync(5);
    log.note_fsync(3);
    assert_eq!(log.last_fsync(), 5);
}
