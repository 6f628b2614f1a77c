//! What people report about other stores, kind K3 (what readers see), as far as it needs no store files: each trial named by its id.

use crate::rig::*;
use crate::scan_model::take_all;
use region::error::ErrorKind;
use region::options::{Durability, ReadOptions, WriteOptions};
use region::region::{CloseFlags, CommitInfo, Key, ScanSpec};
use std::sync::mpsc::sync_channel;

/// BUG-27: every read that opens after a put returned sees it, in the thread that put and in another one that was told.
#[test]
fn bug_27() {
    let rig = Rig::new("seal_every_commits=40");
    let r = &rig.region;
    let sees = move |row: &[u8], n: i64| {
        assert!(number(&get(r, row, b"q").unwrap()) >= n);
        let end = [row, b"\0"].concat();
        assert!(number(&scan(r, None, row, &end)[0].2) >= n);
    };
    std::thread::scope(|s| {
        for t in 0..8u8 {
            let (send, receive) = sync_channel::<i64>(0);
            s.spawn(move || {
                for n in 0..60 {
                    let level = [Durability::SkipWal, Durability::AsyncWal, Durability::SyncWal, Durability::FsyncWal][n as usize % 4];
                    put_with(r, &[b'k', t], b"q", &i64::to_be_bytes(n), &at(level)).unwrap();
                    sees(&[b'k', t], n);
                    send.send(n).unwrap();
                }
            });
            s.spawn(move || receive.into_iter().for_each(|n| sees(&[b'k', t], n)));
        }
    });
}

/// BUG-28: many put with times of their own; each written cell is found by exactly its time.
#[test]
fn bug_28() {
    let rig = Rig::new("seal_every_commits=150");
    let (r, seed) = (&rig.region, seed());
    let written: Vec<(Vec<u8>, u64)> = std::thread::scope(|s| {
        let writers: Vec<_> = (0..16u64)
            .map(|t| {
                s.spawn(move || {
                    let mut random = Random(seed ^ t << 32);
                    let one = |i: u64| {
                        let (row, timestamp) = ([t.to_be_bytes(), i.to_be_bytes()].concat(), 1 + random.below(1 << 40));
                        put_with(r, &row, b"q", b"v", &WriteOptions { timestamp, ..WriteOptions::DEFAULT }).unwrap();
                        (row, timestamp)
                    };
                    (0..60).map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        writers.into_iter().flat_map(|w| w.join().unwrap()).collect()
    });
    let look = |r: &region::region::Region| {
        for (row, ts) in &written {
            for (min_ts, max_ts, found) in [(*ts, ts + 1, 1), (ts + 1, 0, 0), (0, *ts, 0)] {
                let end = [row, &b"\0"[..]].concat();
                let o = ReadOptions { min_ts, max_ts, ..ReadOptions::DEFAULT };
                let spec = ScanSpec { start_row: row, end_row: &end, ..ScanSpec::default() };
                let seen = take_all(&mut r.scanner(None, &o, &spec).unwrap());
                assert_eq!(seen.len(), found, "{row:?} at {ts} in {min_ts}..{max_ts}");
                let got = r.get(None, &o, Key { family: CF, row, qual: b"q" }, &mut Bytes::default()).unwrap();
                assert_eq!(got.map(|g| g.timestamp), (found == 1).then_some(*ts));
            }
        }
    };
    look(r);
    look(&rig.reopen().region);
}

/// BUG-32: a scan of a snapshot moves in both directions while keys are put between and upon its own.
#[test]
fn bug_32() {
    for seals in [false, true] {
        let rig = Rig::new("");
        let r = &rig.region;
        let keys = [b"1", b"2", b"3", b"4", b"5"];
        for key in keys {
            put(r, key, b"q", b"first");
        }
        let snapshot = r.snapshot(LONG).unwrap();
        let mut round = 0u32;
        let mut write = || {
            round += 1;
            for key in [&b"25"[..], b"6", b"3", b"0"] {
                put(r, key, b"q", &round.to_be_bytes());
            }
            put(r, &[b'2', 0, round as u8], b"q", b"between");
            delete(r, b"4", b"q");
            if seals && round.is_multiple_of(3) {
                r.seal().unwrap();
            }
        };
        for flags in [0, ScanSpec::REVERSE] {
            let mut s = r.scanner(Some(&snapshot), &ReadOptions::DEFAULT, &ScanSpec { flags, ..ScanSpec::default() }).unwrap();
            let mut expected: Vec<&[u8]> = keys.iter().map(|k| &k[..]).collect();
            if flags != 0 {
                expected.reverse();
            }
            let mut visit = |s: &mut region::region::Scanner, expected: Option<&[u8]>| {
                write();
                let cell = s.next().unwrap();
                assert_eq!(cell.map(|c| (c.row, c.value)), expected.map(|row| (row, &b"first"[..])));
            };
            for row in &expected {
                visit(&mut s, Some(row));
            }
            visit(&mut s, None);
            // To and fro: from each key again to the end.
            for i in [4, 0, 3, 1, 2] {
                s.seek(expected[i]).unwrap();
                visit(&mut s, Some(expected[i]));
                visit(&mut s, expected.get(i + 1).copied());
            }
        }
        assert_eq!(get(r, b"4", b"q"), None);
    }
}

/// BUG-33: a snapshot and a scan that were forgotten show in the statistics with number, age and the memory that is kept for them, close tells of them, and can be
/// forced. (The warning in the log is tested where a process has its log to itself.)
#[test]
fn bug_33() {
    let rig = Rig::new("");
    let r = &rig.region;
    inc(r, b"r", b"n", 1);
    let first = r.stats().unwrap().seq;
    let snapshot = r.snapshot(LONG).unwrap();
    let mut scanner = r.scanner(None, &ReadOptions::DEFAULT, &ScanSpec::default()).unwrap();
    count_up(r, b"r", 500, 1);
    let old = r.stats().unwrap();
    assert_eq!((old.open_snapshots, old.open_scanners, old.oldest_snapshot_seq, old.read_points), (1, 1, first, 1));
    assert_eq!(
        (old.counter_copies, old.held_copies, old.held_copy_bytes),
        (1, 1, 40),
        "one version for one instant, however often it was counted up"
    );
    while r.stats().unwrap().oldest_snapshot_age_us <= old.oldest_snapshot_age_us {
        std::thread::yield_now();
    }
    let e = r.close(CloseFlags::default(), SHORT).unwrap_err();
    assert!(e.kind() == ErrorKind::Busy && e.message().contains("2 snapshots, scanners or pinned values are open"), "{e}");
    assert_eq!(counter_at(r, Some(&snapshot), b"r", b"n"), Some(1));
    put(r, b"after", b"q", b"v");
    drop(snapshot);
    let stats = r.stats().unwrap();
    assert_eq!((stats.open_snapshots, stats.open_scanners, stats.oldest_snapshot_seq), (0, 1, first), "the scan's own instant counts");
    assert_eq!((stats.held_copies, stats.read_points), (1, 1));
    assert_eq!(kind(r.close(CloseFlags::default(), SHORT)), ErrorKind::Busy);
    r.close(CloseFlags { force: true, no_flush: false }, LONG).unwrap();
    assert_eq!(scanner.next().map(|c| c.is_some()).unwrap_err().kind(), ErrorKind::Closed);
    drop(scanner);
    let mut info = CommitInfo::default();
    assert_eq!(kind(r.put(b"r", CF, b"q", b"v", &WriteOptions::DEFAULT, &mut info)), ErrorKind::Closed);
}
