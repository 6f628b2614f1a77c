//! P-D1 and P-D3: what each level survives, and what a failure of the log does. (P-D2, damage and recovery, has tests of its own.)

use crate::rig::*;
use region::env::fault::{Fault, Op as EnvOp};
use region::error::ErrorKind;
use region::ids::SequenceNumber;
use region::options::{Durability, WriteOptions};
use region::region::{BatchOutcome, CloseFlags};

use Durability::{AsyncWal, FsyncWal, SkipWal, SyncWal};

fn names(rig: &Rig) -> Vec<String> {
    scan(&rig.region, None, b"", b"").iter().map(|c| String::from_utf8_lossy(&c.0).into_owned()).collect()
}

fn d1_levels(config: &str) {
    let rig = Rig::new(config);
    for (level, row) in [(SkipWal, b"skip"), (AsyncWal, b"asyn"), (SyncWal, b"sync"), (FsyncWal, b"fsyn")] {
        put_with(&rig.region, row, b"v", b"v", &at(level)).unwrap();
    }
    put_with(&rig.region, b"tail", b"v", b"v", &at(SyncWal)).unwrap();
    assert_eq!(names(&rig), ["asyn", "fsyn", "skip", "sync", "tail"]);
    // The machine dies: what stands before the FSYNC commit in the log is kept with it.
    assert_eq!(names(&rig.after_power_cut()), ["asyn", "fsyn", "sync"]);
    // The process dies.
    assert_eq!(names(&rig.after_kill()), ["asyn", "fsyn", "sync", "tail"]);
}

#[test]
fn p_d1_levels() {
    d1_levels("");
}

#[test]
fn p_d1_levels_over_the_written_log() {
    d1_levels("wal_io=write");
}

/// SYNC and ASYNC become safe from the machine by the background sync, or by waiting for it.
#[test]
fn p_d1_background_sync() {
    for level in [AsyncWal, SyncWal] {
        let rig = Rig::new("sync_interval_ms=5");
        let info = put_with(&rig.region, b"r", b"v", b"v", &at(level)).unwrap();
        while rig.region.stats().unwrap().durable_seq < info.seq {
            std::thread::yield_now();
        }
        assert_eq!(names(&rig.after_power_cut()), ["r"]);
        let rig = Rig::new("");
        let info = put_with(&rig.region, b"r", b"v", b"v", &at(level)).unwrap();
        rig.region.wait_durable(SequenceNumber(info.seq), LONG).unwrap();
        assert_eq!(names(&rig.after_power_cut()), ["r"]);
    }
}

/// The default is SYNC; one of the region's own applies to writes that name none.
#[test]
fn p_d1_the_default_level() {
    let rig = Rig::new("");
    put(&rig.region, b"r", b"v", b"v");
    assert_eq!(rig.faults.count(EnvOp::SyncData), rig.faults.count(EnvOp::SyncData));
    assert!(rig.region.stats().unwrap().durable_seq < rig.region.stats().unwrap().seq, "no sync for a SYNC commit");
    assert_eq!(names(&rig.after_kill()), ["r"]);
    let rig = Rig::new("durability=fsync_wal");
    put(&rig.region, b"r", b"v", b"v");
    assert_eq!(names(&rig.after_power_cut()), ["r"]);
    // An orderly close makes everything durable that is in the log.
    let rig = Rig::new("");
    put(&rig.region, b"r", b"v", b"v");
    close(&rig.region);
    assert_eq!(names(&rig.after_power_cut()), ["r"]);
}

/// Whatever pages a power cut keeps, what is there after it is a prefix of the log, each commit whole, and at least what was synced.
#[test]
fn p_d1_a_prefix_is_kept() {
    let seed = seed();
    let rig = Rig::new("wal_segment_bytes=64k,wal_bytes_max=64m");
    let r = &rig.region;
    let mut synced = 0;
    for i in 0..600u32 {
        let value = [i as u8; 200];
        let name = i.to_be_bytes();
        let level = if i % 97 == 50 { FsyncWal } else { SyncWal };
        let ops = vec![op_put(&name, b"a", &value), op_put(&name, b"b", &value), op_inc(b"count", b"n", 1)];
        done(r, ops, &WriteOptions { flags: WriteOptions::ATOMIC, ..at(level) });
        if level == FsyncWal {
            synced = i + 1;
        }
        if i % 40 != 39 {
            continue;
        }
        for cut in 0..4u64 {
            let mut random = Random(seed ^ (u64::from(i) << 8) ^ cut);
            let next = rig.over(rig.mem.power_cut(&mut |_| random.below(2) == 0));
            let kept = counter(&next.region, b"count", b"n").unwrap_or(0) as u32;
            assert!((synced..=i + 1).contains(&kept), "{kept} of {} kept, {synced} were synced", i + 1);
            let cells = scan(&next.region, None, b"\0", b"count");
            let expected = (0..kept).flat_map(|k| [(k, b'a'), (k, b'b')]);
            assert!(cells.iter().map(|c| (u32::from_be_bytes(c.0[..].try_into().unwrap()), c.1[0])).eq(expected), "not a prefix");
        }
    }
}

/// EIO while a record is written: nothing of that commit, and no more writes.
#[test]
fn p_d3_a_failed_log_write_poisons() {
    let rig = Rig::new("wal_io=write");
    let r = &rig.region;
    inc(r, b"r", b"n", 5);
    rig.fault(EnvOp::WriteAt, Fault::Fail(EIO));
    let e = inc_with(r, b"r", b"n", 1, &WriteOptions::DEFAULT).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Io | ErrorKind::Poisoned | ErrorKind::OutcomeUnknown), "{e:?}");
    assert_eq!(counter(r, b"r", b"n"), Some(5));
    assert_eq!(kind(inc_with(r, b"other", b"n", 1, &WriteOptions::DEFAULT)), ErrorKind::Poisoned);
    assert_eq!(kind(put_with(r, b"other", b"v", b"v", &at(SkipWal))), ErrorKind::Poisoned);
    assert_eq!(counter(r, b"r", b"n"), Some(5), "reads go on");
    assert_eq!(scan(r, None, b"", b"").len(), 1);
    assert_eq!(r.stats().unwrap().health, 1);
    let next = rig.after_kill();
    assert_eq!(counter(&next.region, b"r", b"n"), Some(5));
    assert_eq!(inc(&next.region, b"r", b"n", 1), 6, "a reopened region takes writes");
}

/// A short write and then EIO: what was written of the record is taken back.
#[test]
fn p_d3_a_torn_log_write_poisons() {
    let rig = Rig::new("wal_io=write");
    inc(&rig.region, b"r", b"n", 5);
    rig.fault(EnvOp::WriteAt, Fault::Short(20, Some(EIO)));
    assert!(inc_with(&rig.region, b"r", b"n", 1, &WriteOptions::DEFAULT).is_err());
    assert_eq!(kind(inc_with(&rig.region, b"other", b"n", 1, &WriteOptions::DEFAULT)), ErrorKind::Poisoned);
    assert_eq!(counter(&rig.after_kill().region, b"r", b"n"), Some(5));
}

/// A failed sync of a level that nobody waits for: the background sync finds it, and the region is poisoned all the same.
#[test]
fn p_d3_a_failed_background_sync_poisons() {
    let rig = Rig::new("sync_interval_ms=5");
    rig.mem.fail_syncs(WAL, 1);
    inc(&rig.region, b"r", b"n", 5);
    while rig.region.stats().unwrap().health == 0 {
        std::thread::yield_now();
    }
    assert_eq!(counter(&rig.region, b"r", b"n"), Some(5));
    assert_eq!(kind(inc_with(&rig.region, b"r", b"n", 1, &WriteOptions::DEFAULT)), ErrorKind::Poisoned);
    assert!(rig.region.close(CloseFlags::default(), LONG).is_err());
}

/// Disk full while a record is written: refused cleanly, and the region goes on.
#[test]
fn p_d3_disk_full_is_not_poison() {
    let rig = Rig::new("wal_io=write");
    let r = &rig.region;
    inc(r, b"r", b"n", 5);
    for fault in [Fault::Fail(ENOSPC), Fault::Short(20, Some(ENOSPC))] {
        rig.fault(EnvOp::WriteAt, fault);
        let before = r.stats().unwrap().seq;
        assert_eq!(kind(inc_with(r, b"r", b"n", 1, &WriteOptions::DEFAULT)), ErrorKind::NoSpace);
        assert_eq!(r.stats().unwrap().seq, before);
        assert_eq!(counter(r, b"r", b"n"), Some(5));
        assert_eq!(r.stats().unwrap().health, 0);
    }
    rig.fault(EnvOp::WriteAt, Fault::Fail(ENOSPC));
    let whole = batch(r, vec![op_inc(b"r", b"n", 1), op_put(b"x", b"v", b"v")], &flags(WriteOptions::ATOMIC)).0;
    assert_eq!(kind(whole), ErrorKind::NoSpace);
    assert_eq!(get(r, b"x", b"v"), None);
    assert_eq!(inc(r, b"r", b"n", 1), 6);
    assert_eq!(counter(&rig.after_kill().region, b"r", b"n"), Some(6));
}

/// No disk space for the next segment: writes are refused with NOSPACE once the prepared ones are full, reads go on, and all goes on when there is space again.
fn disk_full(config: &str) {
    let rig = Rig::new(&format!("{config},wal_segment_bytes=64k,wal_bytes_max=64m"));
    let r = &rig.region;
    inc(r, b"r", b"n", 5);
    rig.mem.set_capacity(Some(rig.mem.used_bytes()));
    let value = [7; 3000];
    let mut stored = Vec::new();
    let refused = loop {
        let row = format!("row{:05}", stored.len()).into_bytes();
        match put_with(r, &row, b"v", &value, &within(5_000_000, WriteOptions::DEFAULT)) {
            Ok(_) => stored.push(row),
            Err(e) => break e,
        }
        assert!(stored.len() < 1000, "the disk is never full");
    };
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    assert_eq!(r.stats().unwrap().health, 0);
    assert_eq!(counter(r, b"r", b"n"), Some(5));
    assert_eq!(scan(r, None, b"row", b"rox").len(), stored.len());
    rig.mem.set_capacity(None);
    // Space returns. The keeper may be between two tries; a write waits for it within its timeout.
    let mut last = refused;
    let back = (0..200).any(|_| match put_with(r, b"after", b"v", b"v", &WriteOptions::DEFAULT) {
        Ok(_) => true,
        Err(e) => {
            last = e;
            std::thread::sleep(std::time::Duration::from_millis(20));
            false
        }
    });
    assert!(back, "{last}");
    let next = rig.after_kill();
    assert_eq!(scan(&next.region, None, b"row", b"rox").len(), stored.len());
    assert!(get(&next.region, b"after", b"v").is_some());
}

/// BUG-78: by itself, as soon as there is space.
#[test]
fn p_d3_disk_full_recovers() {
    disk_full("wal_io=mapped");
}

#[test]
fn p_d3_disk_full_recovers_over_the_written_log() {
    disk_full("wal_io=write");
}

/// ENOSPC from a sync is a failed sync.
#[test]
fn p_d3_disk_full_in_a_sync_is_poison() {
    let rig = Rig::new("");
    inc(&rig.region, b"r", b"n", 1);
    rig.fault(EnvOp::SyncData, Fault::Fail(ENOSPC));
    let e = inc_with(&rig.region, b"r", b"n", 1, &at(FsyncWal)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutcomeUnknown);
    assert!(e.commit_seq() > 0);
    assert_eq!(kind(inc_with(&rig.region, b"r", b"n", 1, &WriteOptions::DEFAULT)), ErrorKind::Poisoned);
    assert_eq!(kind(rig.region.wait_durable(SequenceNumber(e.commit_seq()), LONG)), ErrorKind::OutcomeUnknown);
}

/// The reopen decides: the commit whose outcome was unknown counts once or not at all.
#[test]
fn p_d3_a_reopen_decides() {
    for cut in [false, true] {
        let rig = Rig::new("");
        inc_with(&rig.region, b"r", b"n", 5, &at(FsyncWal)).unwrap();
        rig.mem.fail_syncs(WAL, 1);
        assert_eq!(kind(inc_with(&rig.region, b"r", b"n", 1, &at(FsyncWal))), ErrorKind::OutcomeUnknown);
        let next = if cut { rig.after_power_cut() } else { rig.after_kill() };
        let n = counter(&next.region, b"r", b"n").unwrap();
        assert!((5..=6).contains(&n), "{n}");
        // Whatever it is, it is for good from now on.
        assert_eq!(counter(&next.after_power_cut().region, b"r", b"n"), Some(n));
        assert!(matches!(batch(&next.region, vec![op_inc(b"r", b"n", 1)], &at(FsyncWal)).0, Ok(BatchOutcome::Done)));
    }
}
