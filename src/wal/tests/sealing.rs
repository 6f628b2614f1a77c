//! Several lives of one log: seals, gaps, crashes at every step of opening, power cuts.

use super::*;
use crate::env::mem::Unsynced;
use crate::error::ErrorKind;

/// Lives of ten commits each, the values counting on.
fn lives(rig: Rig, n: i64) -> Rig {
    let mut rig = rig;
    for life in 0..n {
        let (entries, _, log) = rig.reopen();
        assert_eq!(values(&entries), (0..10 * life).collect::<Vec<_>>());
        for i in 0..10 {
            append(&log, 10 * life + i);
        }
        let next = rig.kill();
        drop(log);
        rig = next;
    }
    rig
}

#[test]
fn lives_follow_each_other() {
    for io in BOTH {
        let rig = lives(Rig::new(io), 4);
        let (entries, r) = rig.recover().unwrap();
        assert_eq!(values(&entries), (0..40).collect::<Vec<_>>());
        assert!(entries.is_sorted_by_key(|e| e.number));
        assert_eq!(r.last, entries[39].number);
    }
}

#[test]
fn what_lies_behind_a_seal_does_not_count() {
    let rig = lives(Rig::new(WalIo::Write), 1);
    let end = rig.recover().unwrap().1.report.end;
    // A torn record, then a second life.
    rig.write(1, end.offset() as u64, &[0xFF; 100]);
    rig.mem.set_boot_id([5; 16]);
    let (_, r, log) = rig.reopen();
    assert_eq!((r.report.end, r.report.cut_bytes, r.seal.unwrap().offset), (end, 104, end.offset()));
    append(&log, 10);
    let rig = rig.kill();
    let (entries, r) = rig.recover().unwrap();
    assert_eq!(values(&entries), (0..=10).collect::<Vec<_>>());
    assert_eq!((r.report.cut_tails, r.report.cut_bytes), (0, 0));
}

#[test]
fn damage_before_a_seal_is_refused_whatever_the_kernel() {
    let rig = lives(Rig::new(WalIo::Write), 2);
    rig.mem.set_boot_id([5; 16]);
    let entries = rig.recover().unwrap().0;
    let good = rig.read(1);
    let end = entries[9].position.offset() as usize + 40;
    for at in (4096..end).step_by(3) {
        rig.write(1, at as u64, &[good[at] ^ 0x10]);
        let e = rig.recover_from(1, true).unwrap_err();
        assert!(e.kind() == ErrorKind::Corrupt && e.message().contains("wal.0000000001, offset"), "byte {at}: {e}");
        rig.write(1, at as u64, &good[at..=at]);
    }
    assert_eq!(rig.recover().unwrap().0, entries);
}

#[test]
fn a_missing_segment_is_refused_unless_nothing_can_be_in_it() {
    let rig = Rig::new(WalIo::Write);
    let log = rig.first_life();
    for i in 0..3000 {
        append(&log, i);
    }
    let used = log.number_now().1.segment();
    assert!(used >= 3);
    drop(log);
    let rig = rig.kill();
    // Life 2 carries a seal; what life 1 had prepared is in between.
    let (_, r, log) = rig.reopen();
    append(&log, 3000);
    drop(log);
    assert!(r.next_segment > used + 1, "nothing was prepared");
    for number in 1..=used {
        let rig = rig.kill();
        rig.mem.remove(&rig.path(number)).unwrap();
        let e = rig.recover().unwrap_err();
        assert!(e.kind() == ErrorKind::Corrupt && e.message().contains(&prepare::segment_name(number)), "{number}: {e}");
    }
    let rig = rig.kill();
    for number in used + 1..r.next_segment {
        let _ = rig.mem.remove(&rig.path(number));
    }
    assert_eq!(rig.recover().unwrap().0.len(), 3001);
    // What recovery no longer asks for may be missing too.
    rig.mem.remove(&rig.path(1)).unwrap();
    let (entries, r) = rig.recover_from(2, false).unwrap();
    assert!(entries.len() < 3001 && values(&entries).is_sorted() && r.last > 0);
}

#[test]
fn a_gap_in_the_last_life_is_refused_under_the_same_kernel() {
    let rig = Rig::new(WalIo::Write);
    let log = rig.first_life();
    append(&log, 0);
    while log.stats().segments < 3 {
        std::thread::yield_now();
    }
    drop(log);
    let rig = rig.kill();
    rig.mem.remove(&rig.path(2)).unwrap();
    assert_eq!(rig.recover().unwrap_err().kind(), ErrorKind::Corrupt);
    rig.mem.set_boot_id([9; 16]);
    assert_eq!(rig.recover().unwrap().0.len(), 1);
}

#[test]
fn a_crash_at_every_step_of_recovery_and_start_loses_nothing() {
    for io in BOTH {
        let base = lives(Rig::new(io), 2);
        let expected = base.recover_from(1, true).unwrap().0;
        let mut steps = 0;
        for nth in 1.. {
            // Kill and power cut at that step; then everything again.
            let rig = base.kill();
            rig.env.stop_at_change(nth);
            let died = match rig.recover() {
                Ok((_, r)) => rig
                    .try_start(LogStart { first_segment: r.next_segment, last: r.last + 100, seal: r.seal, spare: r.spare.clone() })
                    .err()
                    .is_some(),
                Err(_) => true,
            };
            assert_eq!(rig.kill().recover().unwrap().0, expected, "{io:?}: kill at step {nth}");
            let entries = rig.power_cut().recover().unwrap().0;
            assert!(expected.starts_with(&entries), "{io:?}: power cut at step {nth}");
            if !died {
                assert_eq!(entries, expected, "{io:?}: the region was open at step {nth}");
                break;
            }
            steps = nth;
        }
        assert!(steps > 5, "only {steps} steps");
    }
}

/// xorshift, so that a failure can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

#[test]
fn power_cuts_keep_a_prefix_with_everything_acknowledged() {
    for seed in 1..=60u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut rig = Rig::new(BOTH[seed as usize % 2]);
        let mut all: Vec<i64> = Vec::new();
        for life in 0..4 {
            let (entries, _, log) = rig.reopen();
            let found = values(&entries);
            assert!(all.starts_with(&found), "seed {seed} life {life}: not a prefix");
            all = found;
            let mut acknowledged = all.len();
            for _ in 0..dice.roll(1500) {
                let n = append(&log, all.len() as i64);
                all.push(all.len() as i64);
                if dice.roll(200) == 0 {
                    wait(&log, n).unwrap();
                    acknowledged = all.len();
                }
            }
            // Each page, length and name that was not synced is there or not.
            let mut keep = |_: &Unsynced| dice.roll(3) != 0;
            let mem = rig.mem.power_cut(&mut keep);
            drop(log);
            rig = Rig::over(mem, rig.options.clone());
            let found = rig.recover_from(1, true).unwrap_or_else(|e| panic!("seed {seed} life {life}: {e}")).0;
            assert!(found.len() >= acknowledged, "seed {seed} life {life}: {} of {acknowledged} acknowledged", found.len());
        }
    }
}

#[test]
fn a_clean_close_leaves_no_prepared_files_and_everything_durable() {
    for io in BOTH {
        let rig = Rig::new(io);
        let log = rig.first_life();
        for i in 0..1500 {
            append(&log, i);
        }
        log.close().unwrap();
        let (used, mut buffer) = (log.number_now().1.segment(), RecordBuffer::new());
        commit(&mut buffer, b"late", 1, Level::Sync);
        assert!(matches!(log.append(&mut buffer, || ()), Err(Refused::Poisoned)));
        let names = rig.mem.list(&rig.options.dir).unwrap();
        assert_eq!(names, (1..=used).map(prepare::segment_name).collect::<Vec<_>>());
        drop(log);
        let (entries, r) = rig.power_cut().recover().unwrap();
        assert_eq!((entries.len(), r.report.cut_tails), (1500, 0));
    }
}

#[test]
fn a_dropped_log_stops_its_threads() {
    let rig = Rig::new(WalIo::Mapped);
    let log = rig.first_life();
    append(&log, 1);
    drop(log);
    // Its threads held the environment.
    assert_eq!(Arc::strong_count(&rig.env), 1);
}
