//! Many short lives: what each leaves behind, the limit of the log over all of them, and what a manifest's note of the synced position finds missing.

use super::*;
use crate::env::fault::Op;
use crate::error::ErrorKind;

const PAGE: u64 = 4096;

/// One more life: `n` commits, then a clean close, or a kill.
fn live(rig: Rig, n: i64, clean: bool) -> Rig {
    let (entries, _, log) = rig.reopen();
    for i in 0..n {
        append(&log, entries.len() as i64 + i);
    }
    if clean {
        log.close().unwrap();
    }
    let synced = if clean { log.number_now().1 } else { rig.synced };
    let next = rig.kill();
    drop(log);
    Rig { synced, ..next }
}

/// Opened, counted once, closed: a segment of 4 MiB would stay each time. It costs its header and a page.
#[test]
fn a_short_life_costs_two_pages() {
    for io in BOTH {
        let mut rig = Rig::new(io);
        for life in 1..=20 {
            rig = live(rig, 1, true);
            assert_eq!(rig.files(), (1..=life).map(|n| (n, 2 * PAGE)).collect::<Vec<_>>(), "{io:?}");
        }
        assert_eq!(values(&rig.recover().unwrap().0), (0..20).collect::<Vec<_>>());
    }
}

/// The same for lives that are killed: the next one gives back what lies behind their end, and what they had prepared.
#[test]
fn a_killed_life_costs_two_pages_once_the_next_one_began() {
    for io in BOTH {
        let mut rig = Rig::new(io);
        for _ in 0..20 {
            rig = live(rig, 1, false);
        }
        let rig = live(rig, 1, true);
        let bytes: u64 = rig.files().iter().map(|f| f.1).sum();
        assert_eq!((rig.files().len(), bytes), (21, 21 * 2 * PAGE), "{io:?}: {:?}", rig.files());
        assert_eq!(rig.recover().unwrap().0.len(), 21);
    }
}

/// Opening and closing without a commit leaves the log as it was, and so does being killed before the first commit.
#[test]
fn a_life_without_a_commit_leaves_nothing() {
    for io in BOTH {
        for clean in [true, false] {
            let mut rig = live(Rig::new(io), 5, true);
            let (end, before) = (rig.recover_from(1, true).unwrap().1.seal.unwrap(), rig.files());
            for _ in 0..30 {
                rig = live(rig, 0, clean);
                // The lives share one seal.
                assert_eq!(rig.recover_from(1, true).unwrap().1.seal.unwrap(), end);
            }
            let rig = live(rig, 1, true);
            let files = rig.files();
            assert_eq!((files.len(), &files[..1]), (2, &before[..]), "{io:?}, clean {clean}: {files:?}");
            assert_eq!(rig.recover().unwrap().0.len(), 6);
        }
    }
}

/// The limit holds over lives, too: at it the region opens, to be read, refuses commits, and grows no more.
#[test]
fn the_limit_holds_over_any_number_of_lives() {
    for io in BOTH {
        let mut rig = Rig::new(io);
        rig.options.bytes_max = 4 * 64 * 1024;
        let mut buffer = RecordBuffer::new();
        let (mut commits, mut refused) = (0, 0);
        for life in 0..60 {
            let (entries, _, log) = rig.reopen();
            assert_eq!(entries.len(), commits, "{io:?}, life {life}");
            big(&mut buffer, 2000);
            let appended = match log.append(&mut buffer, || ()) {
                Err(Refused::NoRoom { needed }) => {
                    let e = log.wait_for_log_space(needed, &mut Timeout::from_micros(1_000), &|| false, true).err();
                    if e.is_none() { log.append(&mut buffer, || ()).is_ok() } else { false }
                }
                other => other.is_ok(),
            };
            commits += usize::from(appended);
            refused += u32::from(!appended);
            log.close().unwrap();
            let next = rig.kill();
            drop(log);
            rig = next;
            let bytes: u64 = rig.files().iter().map(|f| f.1).sum();
            assert!(bytes <= rig.options.bytes_max + PAGE, "{io:?}, life {life}: {bytes} bytes of log");
        }
        assert!(commits > 25 && refused > 10, "{io:?}: {commits} commits, {refused} refused");
        let (_, _, log) = rig.reopen();
        let e = log.wait_for_log_space(2_100, &mut Timeout::from_micros(50_000), &|| false, true).unwrap_err();
        assert!(e.kind() == ErrorKind::Busy && e.message().contains("wal_bytes_max"), "{e}");
    }
}

/// 2,000 short lives: opening makes a fixed number of calls for each: one to open its file, one for its length, one to read it.
#[test]
fn opening_thousands_of_short_lives_is_linear() {
    const LIVES: u32 = 2_000;
    let mut rig = Rig::new(WalIo::Write);
    rig.options.bytes_max = 1 << 30;
    let mut seal = None;
    for n in 1..=LIVES {
        let log = rig.start(LogStart { first_segment: n, last: n as u64 - 1, seal, spare: Vec::new() });
        append(&log, n as i64);
        log.close().unwrap();
        let (last, end) = log.number_now();
        seal = Some(Seal { segment: end.segment(), offset: end.offset(), number: last.0 });
    }
    let count = || [Op::Open, Op::ReadAt, Op::Len, Op::FileLen, Op::Identity, Op::List].map(|op| rig.env.count(op)).iter().sum::<u64>();
    let before = count();
    let (entries, r) = rig.recover().unwrap();
    let calls = count() - before;
    assert_eq!((entries.len() as u32, r.report.segments as u32), (LIVES, LIVES));
    assert!(calls < 3 * LIVES as u64 + 50, "{calls} calls for {LIVES} lives");
}

/// The manifest knows how far the log was synced: last segments that are missing, or cut, are noticed after a clean close.
#[test]
fn missing_last_segments_are_noticed() {
    for io in BOTH {
        let rig = live(live(Rig::new(io), 3000, true), 1500, true);
        let all: Vec<u32> = rig.files().iter().map(|f| f.0).collect();
        let last = *all.last().unwrap();
        assert!(last > 4 && rig.synced.segment() == last, "{all:?}");
        for rebooted in [false, true] {
            for gone in 1..=all.len() {
                let rig = Rig { synced: rig.synced, ..rig.kill_copy() };
                if rebooted {
                    rig.mem.set_boot_id([0xB0; 16]);
                }
                for number in &all[all.len() - gone..] {
                    rig.mem.remove(&rig.path(*number)).unwrap();
                }
                let e = rig.recover().unwrap_err();
                assert!(e.kind() == ErrorKind::Corrupt && e.message().contains(&prepare::segment_name(last)), "{gone} gone: {e}");
            }
            // One in the middle of the last life, or its last file emptied.
            for (number, len) in [(last - 1, 0), (last, 0), (last, PAGE)] {
                let rig = Rig { synced: rig.synced, ..rig.kill_copy() };
                if rebooted {
                    rig.mem.set_boot_id([0xB0; 16]);
                }
                if len == 0 && number < last {
                    rig.mem.remove(&rig.path(number)).unwrap();
                } else {
                    rig.mem.open(&rig.path(number), true).unwrap().set_len(len).unwrap();
                }
                let e = rig.recover().unwrap_err();
                assert!(e.kind() == ErrorKind::Corrupt && e.message().contains(&prepare::segment_name(number)), "{number}, {len}: {e}");
            }
        }
        assert_eq!(rig.recover().unwrap().0.len(), 4500);
    }
}

/// What was said to the caller never goes back, and ends with everything, over any mixture of lives, tails and damage.
#[test]
fn progress_grows_to_its_total() {
    for io in BOTH {
        let mut rig = Rig::new(io);
        // Larger than what is read at once.
        (rig.options.segment_bytes, rig.options.bytes_max) = (4 << 20, 64 << 20);
        let rig = live(live(live(rig, 3000, true), 0, false), 2000, false);
        for cut in [false, true] {
            if cut {
                let end = rig.recover_from(1, true).unwrap().1.report.end;
                rig.mem.set_boot_id([0xB0; 16]);
                rig.write(end.segment(), u64::from(end.offset()) - 200, &[0xFF; 100]);
            }
            let mut told = Vec::new();
            let known = Known { first_segment: 1, synced: rig.synced };
            let mut tell = |done, total| {
                told.push((done, total));
                false
            };
            let r = recover(&*rig.env, &rig.options, known, true, &mut |_: &crate::wal::Record<'_>| Ok(()), &mut tell).unwrap();
            assert_eq!(r.report.cut_tails, u64::from(cut), "{:?}", r.report);
            assert!(told.len() > 5 && told.is_sorted(), "{io:?}: {told:?}");
            assert!(told.iter().all(|t| t.1 == told[0].1) && told.last().is_some_and(|t| t.0 == t.1), "{io:?}: {told:?}");
        }
    }
}
