//! P-V1, P-V2, P-V3: what a read, a snapshot and a scan see.

use crate::rig::*;
use region::clock::Timeout;
use region::error::ErrorKind;
use region::hooks::Point;
use region::options::{Durability, ReadOptions, WriteOptions};
use region::region::{Op, ScanSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::sync_channel;

const LEVELS: [Durability; 4] = [Durability::SkipWal, Durability::AsyncWal, Durability::SyncWal, Durability::FsyncWal];

/// Hands each value that a write returned to another thread, which reads it in every way there is.
fn handed_over(config: &str) {
    let rig = Rig::new(config);
    let (send, receive) = sync_channel::<(i64, Durability)>(0);
    std::thread::scope(|s| {
        let r = &rig.region;
        // Noise on the same bucket lines and in the same segments, so that readers restart.
        let stop = Arc::new(AtomicBool::new(false));
        for t in 0..2u8 {
            let stop = Arc::clone(&stop);
            s.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    inc(r, &[b'n', t], b"n", 1);
                    inc_row(r, b"row", &[(b"noise", 1), (b"other", 1)]);
                }
            });
        }
        s.spawn(move || {
            for i in 1..=400i64 {
                let level = LEVELS[i as usize % 4];
                let o = at(level);
                let v = match i % 3 {
                    0 => inc_with(r, b"row", b"n", 1, &o).unwrap().value,
                    1 => done(
                        r,
                        vec![op_put(b"other", b"x", b"y"), op_inc(b"row", b"n", 1)],
                        &WriteOptions { flags: WriteOptions::ATOMIC, ..o },
                    )[1],
                    _ => {
                        put_with(r, b"row", b"n", &i.to_be_bytes(), &o).unwrap();
                        i
                    }
                };
                assert_eq!(v, i, "{level:?}");
                send.send((i, level)).unwrap();
            }
        });
        let stops = Stops(&stop);
        for (v, level) in receive {
            assert!(counter(r, b"row", b"n").unwrap() >= v, "a get after {level:?} {v}");
            let snapshot = r.snapshot(LONG).unwrap();
            assert!(counter_at(r, Some(&snapshot), b"row", b"n").unwrap() >= v, "a get at a snapshot after {level:?} {v}");
            let seen = scan(r, None, b"row", b"row\0");
            let n = seen.iter().find(|c| c.1 == b"n").expect("the scan shows the counter");
            assert!(number(&n.2) >= v, "a scan after {level:?} {v}");
        }
        drop(stops);
    });
}

#[test]
fn p_v1_what_a_write_returned_every_later_read_sees() {
    handed_over("");
}

#[test]
fn p_v1_across_seals() {
    handed_over("seal_every_commits=7");
}

#[test]
fn p_v1_over_the_written_log() {
    handed_over("wal_io=write,seal_every_commits=50");
}

/// Held between the append and the mark, a commit is in nobody's sight; not a part of it either.
#[test]
fn p_v2_nothing_of_a_commit_before_its_mark() {
    for point in [Point::RowLocked, Point::SlotClaimed, Point::BeforeAppend, Point::Appended, Point::BeforeMark] {
        for rows in [1, 3] {
            let rig = Rig::new("");
            let r = &rig.region;
            inc_row(r, b"a", &[(b"x", 1), (b"y", 2)]);
            put(r, b"b", b"v", b"old");
            let before = r.snapshot(LONG).unwrap();
            let held = rig.hold(point, move |r| {
                let mut ops = vec![op_inc(b"a", b"x", 10), op_inc(b"a", b"y", 20), op_put(b"a", b"z", b"new")];
                if rows == 3 {
                    ops.extend([op_put(b"b", b"v", b"new"), op_inc(b"c", b"n", 5)]);
                }
                done(r, ops, &flags(WriteOptions::ATOMIC))
            });
            for snapshot in [None, Some(&before)] {
                assert_eq!(counter_at(r, snapshot, b"a", b"x"), Some(1), "{point:?}");
                assert_eq!(counter_at(r, snapshot, b"a", b"y"), Some(2), "{point:?}");
                assert_eq!(get_at(r, snapshot, b"a", b"z"), None, "{point:?}");
                assert_eq!(get_at(r, snapshot, b"b", b"v").unwrap(), b"old", "{point:?}");
                assert_eq!(get_at(r, snapshot, b"c", b"n"), None, "{point:?}");
            }
            held.release();
            assert_eq!((counter(r, b"a", b"x"), counter(r, b"a", b"y")), (Some(11), Some(22)));
            assert_eq!(get(r, b"a", b"z").unwrap(), b"new");
            assert_eq!(get(r, b"b", b"v").unwrap(), if rows == 3 { b"new" } else { b"old" });
            assert_eq!(counter_at(r, Some(&before), b"a", b"x"), Some(1), "the snapshot stays where it was");
            assert_eq!(get_at(r, Some(&before), b"a", b"z"), None);
        }
    }
}

/// Commits of one row that keep an invariant over its columns, read as rows; and columns that only grow, read one by one.
fn row_invariant(config: &str) {
    let rig = Rig::new(config);
    let r = &rig.region;
    let running = AtomicI64::new(4);
    std::thread::scope(|s| {
        for t in 0..4 {
            let running = &running;
            s.spawn(move || {
                let _ends = Ends(running);
                for i in 0..500 {
                    if (i + t) % 2 == 0 {
                        inc_row(r, b"row", &[(b"q1", 1), (b"q2", 2), (b"q3", 3)]);
                    } else {
                        done(r, vec![op_inc(b"row", b"q3", 3), op_inc(b"row", b"q1", 1), op_inc(b"row", b"q2", 2)], &WriteOptions::DEFAULT);
                    }
                }
            });
        }
        s.spawn(|| {
            let mut last = 0;
            while running.load(Ordering::Relaxed) > 0 {
                let now = counter(r, b"row", b"q1").unwrap_or(0);
                assert!(now >= last, "the row went back from {last} to {now}");
                last = now;
            }
        });
        s.spawn(|| {
            let mut reads = 0;
            while running.load(Ordering::Relaxed) > 0 || reads == 0 {
                let row = scan(r, None, b"row", b"row\0");
                if let [a, b, c] = &row[..] {
                    let q1 = number(&a.2);
                    assert_eq!((number(&b.2), number(&c.2)), (2 * q1, 3 * q1), "half a commit");
                } else {
                    assert!(row.is_empty(), "{row:?}");
                }
                reads += 1;
            }
        });
    });
    assert_eq!(counter(r, b"row", b"q1"), Some(2000));
}

#[test]
fn p_v2_whole_commits_in_order() {
    row_invariant("");
}

#[test]
fn p_v2_whole_commits_in_order_across_seals() {
    row_invariant("seal_every_commits=13");
}

/// A snapshot waits for a commit that has begun its append, and for no other.
#[test]
fn p_v3_opening_waits_for_begun_commits_only() {
    for (point, waits) in [
        (Point::RowLocked, false),
        (Point::SlotClaimed, false),
        (Point::BeforeAppend, false),
        (Point::Appended, true),
        (Point::BeforeMark, true),
    ] {
        let rig = Rig::new("");
        let r = &rig.region;
        inc(r, b"held", b"n", 1);
        inc(r, b"free", b"n", 1);
        let held = rig.hold(point, |r| inc(r, b"held", b"n", 1));
        let opened = r.snapshot(SHORT);
        let scanner = r.scanner(None, &ReadOptions { timeout_us: Some(SHORT.micros()), ..ReadOptions::DEFAULT }, &ScanSpec::default());
        if waits {
            assert_eq!(opened.err().map(|e| e.kind()), Some(ErrorKind::Timeout), "{point:?}");
            assert_eq!(scanner.err().map(|e| e.kind()), Some(ErrorKind::Timeout), "{point:?}");
            assert_eq!(r.stats().unwrap().open_snapshots, 0, "a snapshot that failed to open is not registered");
            assert_eq!(r.stats().unwrap().oldest_snapshot_seq, 0);
            let waiting = rig.spawn(|r| {
                let s = r.snapshot(LONG).unwrap();
                counter_at(r, Some(&s), b"held", b"n")
            });
            assert_eq!(held.release(), 2);
            assert_eq!(waiting.join().unwrap(), Some(2), "it was waited for, so it is seen");
        } else {
            let snapshot = opened.unwrap_or_else(|e| panic!("{point:?}: {e}"));
            assert!(scanner.is_ok(), "{point:?}");
            assert_eq!(counter_at(r, Some(&snapshot), b"held", b"n"), Some(1));
            held.release();
            assert_eq!(counter_at(r, Some(&snapshot), b"held", b"n"), Some(1), "{point:?}: a commit after the instant");
            assert_eq!(counter_at(r, Some(&snapshot), b"free", b"n"), Some(1));
        }
    }
}

/// Money moves between rows in atomic batches; every snapshot and every scan finds the same sum, and repeats itself.
fn transfers(config: &str) {
    const ROWS: u64 = 16;
    let rig = Rig::new(config);
    let r = &rig.region;
    let row = |i: u64| format!("acc{i:02}").into_bytes();
    for i in 0..ROWS {
        inc(r, &row(i), b"n", 100);
    }
    let seed = seed();
    let running = AtomicI64::new(3);
    std::thread::scope(|s| {
        for t in 0..3 {
            let running = &running;
            s.spawn(move || {
                let _ends = Ends(running);
                let mut random = Random(seed + t);
                for _ in 0..400 {
                    let (from, to, amount) = (random.below(ROWS), random.below(ROWS), random.below(9) as i64);
                    done(r, vec![op_inc(&row(from), b"n", -amount), op_inc(&row(to), b"n", amount)], &flags(WriteOptions::ATOMIC));
                }
            });
        }
        let mut rounds = 0;
        while running.load(Ordering::Relaxed) > 0 || rounds == 0 {
            let sum = |cells: &[(Vec<u8>, Vec<u8>, Vec<u8>)]| cells.iter().map(|c| number(&c.2)).sum::<i64>();
            assert_eq!(sum(&scan(r, None, b"acc", b"acd")), 100 * ROWS as i64, "a scan without a snapshot");
            let snapshot = r.snapshot(LONG).unwrap();
            let first = scan(r, Some(&snapshot), b"acc", b"acd");
            assert_eq!(sum(&first), 100 * ROWS as i64, "a scan of a snapshot");
            let gets: i64 = (0..ROWS).map(|i| counter_at(r, Some(&snapshot), &row(i), b"n").unwrap()).sum();
            assert_eq!(gets, 100 * ROWS as i64, "gets at a snapshot");
            assert_eq!(scan(r, Some(&snapshot), b"acc", b"acd"), first, "the snapshot changed");
            rounds += 1;
        }
    });
}

#[test]
fn p_v3_batches_are_whole_at_every_instant() {
    transfers("");
}

#[test]
fn p_v3_batches_are_whole_across_seals() {
    transfers("seal_every_commits=11");
}

/// What returned before the snapshot was opened is in it, what began afterwards is not, whatever the verb.
#[test]
fn p_v3_an_instant() {
    let rig = Rig::new("seal_every_commits=3");
    let r = &rig.region;
    for i in 0..30u8 {
        put(r, &[b'k', i], b"v", &[i]);
        inc(r, &[b'k', i], b"n", i64::from(i));
    }
    delete(r, &[b'k', 7], b"v");
    let snapshot = r.snapshot(Timeout::forever()).unwrap();
    let then = scan(r, Some(&snapshot), b"", b"");
    assert_eq!(then.len(), 59);
    for i in 0..30u8 {
        inc(r, &[b'k', i], b"n", 1000);
        put(r, &[b'k', i], b"v", b"later");
        put(r, &[b'k', i, 1], b"v", b"a new row");
        if i % 2 == 0 {
            delete(r, &[b'k', i], b"n");
        }
    }
    done(r, vec![op(Op::Delete, b"k\x01", b"v"), op_inc(b"k\x01", b"n", 5)], &WriteOptions::DEFAULT);
    assert_eq!(scan(r, Some(&snapshot), b"", b""), then);
    assert_eq!(counter_at(r, Some(&snapshot), b"k\x02", b"n"), Some(2));
    assert_eq!(counter(r, b"k\x02", b"n"), None);
    assert_eq!(get_at(r, Some(&snapshot), b"k\x07", b"v"), None);
    assert_eq!(get(r, b"k\x07", b"v").unwrap(), b"later");
}
