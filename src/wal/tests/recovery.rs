//! Where a log ends and what is damage: every byte of the tail, both kernels' rules, read errors.

use super::*;
use crate::env::FsKind;
use crate::env::fault::{Fault, Op, Rule};
use crate::error::ErrorKind;

const KNOWN: Known = Known { first_segment: 1, synced: LogPosition(0) };

/// A killed log of `n` commits of which the first `synced` were synced; its entries.
fn killed(io: WalIo, n: i64, synced: i64) -> (Rig, Vec<Entry>) {
    let rig = Rig::new(io);
    let log = rig.first_life();
    for i in 0..n {
        let number = append(&log, i);
        if i + 1 == synced {
            wait(&log, number).unwrap();
        }
    }
    let rig = rig.kill();
    drop(log);
    let entries = rig.recover_from(1, true).unwrap().0;
    assert_eq!(entries.len() as i64, n);
    (rig, entries)
}

/// The same machine after a reboot in which no page was lost.
fn rebooted(rig: &Rig) {
    rig.mem.set_boot_id([0xB0; 16]);
}

fn end_of(rig: &Rig) -> u32 {
    rig.recover_from(1, true).unwrap().1.report.end.offset()
}

/// Recovers a damaged log: a prefix, or Corrupt naming the file. Returns how many commits came back.
fn prefix_or_corrupt(rig: &Rig, entries: &[Entry], what: &str) -> Option<usize> {
    match rig.recover_from(1, true) {
        Ok((found, _)) => {
            assert!(entries.starts_with(&found), "{what}: not a prefix");
            Some(found.len())
        }
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Corrupt, "{what}: {e}");
            assert!(e.message().contains("wal.0000000001, offset "), "{what}: {e}");
            None
        }
    }
}

#[test]
fn a_tail_torn_at_every_byte() {
    for io in BOTH {
        let (rig, entries) = killed(io, 20, 10);
        let last = entries.last().unwrap().position.offset();
        let end = end_of(&rig);
        let good = rig.read(1);
        for reboot in [false, true] {
            if reboot {
                rebooted(&rig);
            }
            for cut in last..end {
                for filler in [0u8, 0xFF] {
                    let mut torn = good[cut as usize..].to_vec();
                    torn.fill(filler);
                    rig.write(1, cut as u64, &torn);
                    let found = prefix_or_corrupt(&rig, &entries, &format!("cut at {cut}, {filler:02x}"));
                    let whole_words = cut.is_multiple_of(8) && filler == 0;
                    if reboot {
                        assert_eq!(found, Some(19), "{cut} {filler}");
                    } else if whole_words {
                        // What a kill can leave: whole words.
                        assert_eq!(found, Some(19), "{cut} {filler}");
                    } else if filler == 0xFF {
                        assert_eq!(found, None, "{cut} {filler}");
                    }
                    rig.write(1, cut as u64, &good[cut as usize..]);
                }
            }
        }
    }
}

#[test]
fn a_file_cut_short_at_every_byte_of_the_last_record() {
    let (rig, entries) = killed(WalIo::Write, 20, 10);
    let last = entries.last().unwrap().position.offset();
    let end = end_of(&rig);
    rebooted(&rig);
    for len in (last..end).rev() {
        rig.mem.open(&rig.path(1), true).unwrap().set_len(len as u64).unwrap();
        assert_eq!(prefix_or_corrupt(&rig, &entries, &format!("{len} bytes")), Some(19));
    }
}

#[test]
fn every_byte_flipped_is_a_tail_or_refused() {
    let (rig, entries) = killed(WalIo::Write, 60, 30);
    let end = end_of(&rig);
    let good = rig.read(1);
    let mark = rig.recover_from(1, true).unwrap().1.report.mark.offset();
    for reboot in [false, true] {
        if reboot {
            rebooted(&rig);
        }
        for at in 0..end as usize {
            for bit in [1u8, 0x80] {
                rig.write(1, at as u64, &[good[at] ^ bit]);
                let found = prefix_or_corrupt(&rig, &entries, &format!("byte {at}"));
                if at < mark as usize || !reboot {
                    // Nothing that was synced is lost in silence; and under the same kernel nothing at all.
                    assert!(found.is_none(), "byte {at} of {end}, mark {mark}, reboot {reboot}: {found:?}");
                }
                rig.write(1, at as u64, &good[at..=at]);
            }
        }
    }
}

#[test]
fn every_word_zeroed_is_a_tail_or_refused() {
    let (rig, entries) = killed(WalIo::Write, 60, 30);
    let end = end_of(&rig) as usize;
    let good = rig.read(1);
    let mark = rig.recover_from(1, true).unwrap().1.report.mark.offset() as usize;
    let last = entries.last().unwrap().position.offset() as usize;
    for reboot in [false, true] {
        if reboot {
            rebooted(&rig);
        }
        for at in (0..end).step_by(8) {
            if good[at..at + 8] == [0; 8] {
                continue;
            }
            rig.write(1, at as u64, &[0; 8]);
            let found = prefix_or_corrupt(&rig, &entries, &format!("word {at}"));
            if at < mark {
                assert!(found.is_none(), "word {at}, mark {mark}: {found:?}");
            } else if !reboot {
                // Only the last record's header word or trailer looks like a writer that died.
                let died = at == last || at == end - 8;
                assert_eq!(found, died.then_some(59), "word {at} of {end}");
            }
            rig.write(1, at as u64, &good[at..at + 8]);
        }
    }
}

#[test]
fn what_a_pad_says_is_durable_is_never_cut() {
    for io in BOTH {
        let rig = Rig::new(io);
        let log = rig.first_life();
        for i in 0..20 {
            append(&log, i);
        }
        let end = log.number_now().1.offset();
        log.close().unwrap();
        let rig = rig.kill();
        rebooted(&rig);
        let (entries, r) = rig.recover_from(1, true).unwrap();
        assert_eq!((entries.len(), r.report.mark.offset(), r.report.end.offset()), (20, end, end + 48));
        let last = entries[19].position.offset();
        rig.write(1, last as u64, &[0; 8]);
        let e = rig.recover_from(1, true).unwrap_err();
        assert!(e.message().contains(&format!("offset {last}")) && e.message().contains("synced up to"), "{e}");
    }
}

#[test]
fn the_report_says_what_was_cut() {
    let (rig, entries) = killed(WalIo::Write, 20, 10);
    rebooted(&rig);
    let end = end_of(&rig);
    let at = entries[15].position.offset();
    rig.write(1, at as u64 + 20, &[0xFF]);
    let (found, r) = rig.recover_from(1, true).unwrap();
    assert_eq!(found.len(), 15);
    let f = r.report;
    assert_eq!((f.same_kernel, f.end.offset(), f.cut_tails, f.cut_bytes, f.valid_beyond_cut), (false, at, 1, (end - at) as u64, 4));
}

#[test]
fn the_power_cut_setting_overrules_the_same_kernel() {
    let (mut rig, entries) = killed(WalIo::Write, 20, 10);
    rig.write(1, entries[15].position.offset() as u64 + 20, &[0xFF]);
    let e = rig.recover_from(1, true).unwrap_err();
    assert!(e.message().contains("recovery=power_cut"), "{e}");
    rig.options.recovery_power_cut = true;
    assert_eq!(rig.recover_from(1, true).unwrap().0.len(), 15);
    // A copied directory: other inodes, so pages may be missing.
    rig.options.recovery_power_cut = false;
    rig.mem.set_inode(&rig.path(1), 4711).unwrap();
    assert_eq!(rig.recover_from(1, true).unwrap().0.len(), 15);
}

#[test]
fn network_file_systems_need_a_setting_and_never_count_as_the_same_kernel() {
    let (mut rig, entries) = killed(WalIo::Write, 20, 10);
    rig.mem.set_file_system(FsKind::Network);
    let e = rig.recover().unwrap_err();
    assert!(e.kind() == ErrorKind::Unsupported && e.message().contains("allow_network_fs"), "{e}");
    let refused = rig.try_start(LogStart { first_segment: 9, last: 0, seal: None, spare: Vec::new() }).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    rig.options.allow_network_fs = true;
    rig.write(1, entries[15].position.offset() as u64 + 20, &[0xFF]);
    assert_eq!(rig.recover().unwrap().0.len(), 15);
}

#[test]
fn a_damaged_segment_header_is_refused() {
    let (rig, _) = killed(WalIo::Write, 5, 0);
    rig.write(1, 40, &[0xFF]);
    let e = rig.recover().unwrap_err();
    assert!(e.kind() == ErrorKind::Corrupt && e.message().contains("wal.0000000001, offset 0: "), "{e}");
    // Segments that are no longer needed may be what they like.
    assert_eq!(rig.recover_from(3, true).err().map(|e| e.kind()), None);
}

#[test]
fn other_regions_files_and_other_names_are_ignored() {
    let (mut rig, entries) = killed(WalIo::Write, 5, 0);
    for name in ["wal.new", "wal.1", "wal.00000000099", "wal.abcdefghij", "MANIFEST"] {
        rig.mem.create(&rig.options.dir.join(name)).unwrap().write_all_at(b"x", 0).unwrap();
    }
    assert_eq!(rig.recover().unwrap().0, entries);
    rig.options.region_uuid = [1; 16];
    let (found, r) = rig.recover().unwrap();
    assert_eq!((found.len(), r.last, r.seal), (0, 0, None));
    // Above all that is there, whoever it belongs to.
    assert!(r.next_segment >= 2, "{r:?}");
}

#[test]
fn a_read_error_fails_the_open_and_interruptions_do_not() {
    let (rig, entries) = killed(WalIo::Write, 200, 0);
    rig.env.inject(Rule::new(Op::ReadAt, "wal.0000000001", 2, Fault::Fail(libc::EIO)));
    let e = rig.recover().unwrap_err();
    assert!(e.kind() == ErrorKind::Io && e.message().contains("wal.0000000001, offset"), "{e}");
    rig.env.clear();
    rig.env.inject(Rule::new(Op::ReadAt, "wal.", 2, Fault::Fail(libc::EINTR)));
    rig.env.inject(Rule::new(Op::ReadAt, "wal.", 1, Fault::Short(1000, None)).from_then_on());
    assert_eq!(rig.recover().unwrap().0, entries);
}

#[test]
fn an_error_while_making_durable_fails_the_open() {
    for op in [Op::WriteAt, Op::SyncData] {
        let (rig, entries) = killed(WalIo::Write, 20, 10);
        rig.env.fail(op, "wal.", 1, libc::EIO);
        let e = rig.recover().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io, "{op:?}: {e}");
        assert_eq!(rig.recover().unwrap().0, entries);
    }
}

#[test]
fn recovery_makes_durable_what_it_shows() {
    for io in BOTH {
        let rig = Rig::new(io);
        let log = rig.first_life();
        for i in 0..200 {
            append(&log, i);
        }
        let rig = rig.kill();
        assert_eq!(rig.power_cut().recover().unwrap().0.len(), 0, "the test shows nothing");
        let entries = rig.recover().unwrap().0;
        assert_eq!(entries.len(), 200);
        assert_eq!(rig.power_cut().recover().unwrap().0, entries);
    }
}

#[test]
fn recovery_rewrites_what_a_failed_sync_left_clean_and_not_on_the_disk() {
    let rig = Rig::new(WalIo::Write);
    let log = rig.first_life();
    for i in 0..100 {
        append(&log, i);
    }
    rig.mem.fail_syncs("wal.", 1);
    assert_eq!(wait(&log, 100), Err(NotDurable::Poisoned));
    let rig = rig.kill();
    assert_eq!(rig.recover().unwrap().0.len(), 100);
    assert_eq!(rig.power_cut().recover().unwrap().0.len(), 100);
}

#[test]
fn a_read_only_recovery_writes_nothing() {
    let (rig, entries) = killed(WalIo::Write, 20, 10);
    let (changes, syncs) = (rig.env.changes(), rig.env.count(Op::SyncData));
    assert_eq!(rig.recover_from(1, true).unwrap().0, entries);
    assert_eq!(rig.env.changes() - changes, rig.env.count(Op::SyncData) - syncs);
    rig.env.fail(Op::SyncData, "wal.", 1, libc::EIO);
    assert_eq!(rig.recover_from(1, true).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn progress_is_told_and_can_cancel() {
    let (rig, _) = killed(WalIo::Write, 2000, 0);
    let mut told = Vec::new();
    let run = |told: &mut Vec<(u64, u64)>, cancel: bool| {
        recover(&*rig.env, &rig.options, KNOWN, true, &mut |_: &crate::wal::Record<'_>| Ok(()), &mut |done, total| {
            told.push((done, total));
            cancel && told.len() > 1
        })
    };
    run(&mut told, false).unwrap();
    assert!(told.len() > 1 && told.is_sorted() && told.iter().all(|(d, t)| d <= t), "{told:?}");
    told.clear();
    assert_eq!(run(&mut told, true).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(told.len(), 2);
}

#[test]
fn an_error_of_the_callers_ends_the_recovery() {
    let (rig, _) = killed(WalIo::Write, 20, 0);
    let mut seen = 0;
    let mut apply = |_: &Record<'_>| {
        seen += 1;
        if seen == 5 { crate::fail!(TooLarge, "no memory") } else { Ok(()) }
    };
    let e = recover(&*rig.env, &rig.options, KNOWN, true, &mut apply, &mut |_, _| false).unwrap_err();
    assert_eq!((e.kind(), seen), (ErrorKind::TooLarge, 5));
}

#[test]
fn an_empty_directory_is_an_empty_log() {
    let rig = Rig::new(WalIo::Auto);
    let (entries, r) = rig.recover().unwrap();
    assert_eq!((entries.len(), r.last, r.next_segment, r.seal), (0, 0, 1, None));
    assert_eq!(rig.recover_from(17, false).unwrap().1.next_segment, 17);
}

/// Rows that come are told a few records before, each once and in order, across segments; of damaged bytes anything may be told.
#[test]
fn the_rows_that_come_are_told_before_their_records() {
    #[derive(Default)]
    struct Told {
        soon: Vec<Vec<u8>>,
        applied: Vec<Vec<u8>>,
        /// How far ahead, at most.
        ahead: usize,
    }
    impl Replayer for Told {
        fn apply(&mut self, record: &Record<'_>) -> crate::Result<()> {
            self.applied.extend(record.rows().map(|row| row.key.to_vec()));
            Ok(())
        }
        fn soon(&mut self, row: &[u8]) {
            self.soon.push(row.to_vec());
            self.ahead = self.ahead.max(self.soon.len() - self.applied.len().min(self.soon.len()));
        }
    }
    let (rig, entries) = killed(WalIo::Mapped, 3_000, 0);
    let mut told = Told::default();
    recover(&*rig.env, &rig.options, KNOWN, true, &mut told, &mut |_, _| false).unwrap();
    let rows: Vec<_> = entries.iter().map(|e| e.row.clone()).collect();
    assert!(told.applied == rows && rows.len() == 3_000);
    // Where the window over the file, or a segment, ends, the records behind are not known yet: there they are told as they are read.
    let mut at = 0;
    for row in &told.soon {
        at += rows[at..].iter().position(|r| r == row).expect("in order, each once") + 1;
    }
    assert!(told.soon.len() > 2_900, "{} of 3000 were told", told.soon.len());
    assert!((8..=16).contains(&told.ahead), "{} records ahead", told.ahead);
    rig.write(1, 4096 + 28, &[1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
    assert!(recover(&*rig.env, &rig.options, KNOWN, true, &mut Told::default(), &mut |_, _| false).is_err());
}
