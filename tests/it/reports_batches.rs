//! What people report about other stores, kind K8 (batches and the boundary): each trial named by its id. BUG-91 and BUG-92 with lengths and buffers that only C
//! can name are in `c_tests/limits.c`.

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::error::ErrorKind;
use region::ids::ROW_BYTES_MAX;
use region::mslab::{ChunkPool, PoolOptions};
use region::options::{Durability, KNOBS, Kind, OpenFlags, ReadOptions, RegionOptions, WriteOptions};
use region::region::Comparison::{Absent, Equal};
use region::region::{BatchOutcome, Key, Mutation, Op, OpStatus, Region, ScanSpec};
use std::sync::atomic::{AtomicBool, Ordering};

const PLAIN: WriteOptions = WriteOptions::DEFAULT;

/// BUG-85: one bad entry. Its row's group alone fails, or with ATOMIC the call; neighbours that commit at the same time are not touched, nor is the region.
#[test]
fn bug_85() {
    let rig = Rig::new("seal_every_commits=100");
    let r = &rig.region;
    let long = vec![b'x'; ROW_BYTES_MAX + 1];
    let bad: [(Mutation<'_>, ErrorKind); 5] = [
        (in_family(77, op_put(b"bad", b"q", b"v")), ErrorKind::NoFamily),
        (op_put(b"", b"q", b"v"), ErrorKind::Invalid),
        (op_put(&long, b"q", b"v"), ErrorKind::TooLarge),
        (op_put(b"bad", &long, b"v"), ErrorKind::TooLarge),
        (op(Op::DeleteFamilyVersion, b"bad", b""), ErrorKind::Invalid),
    ];
    let stop = AtomicBool::new(false);
    let valid: i64 = std::thread::scope(|s| {
        let neighbours: Vec<_> = (0..8u8)
            .map(|t| {
                let stop = &stop;
                s.spawn(move || {
                    let mut n = 0;
                    while n < 20 || !stop.load(Ordering::Relaxed) {
                        done(r, vec![op_inc(&[b'n', t], b"n", 1), op_inc(b"shared", b"n", 1)], &PLAIN);
                        n += 1;
                    }
                    n
                })
            })
            .collect();
        let stops = Stops(&stop);
        for k in 0..10 {
            for (entry, why) in bad {
                let rows: Vec<Vec<u8>> = (0..10).map(|i| vec![b'v', k as u8, i]).collect();
                let mut ops: Vec<_> = rows.iter().map(|row| op_put(row, b"q", b"v")).collect();
                ops[k] = entry;
                let (outcome, results, info) = batch(r, ops.clone(), &flags(WriteOptions::ATOMIC));
                let e = outcome.unwrap_err();
                assert_eq!((e.kind(), e.op_index(), info.seq), (why, k as u64, 0), "{e}");
                for (i, result) in results.iter().enumerate() {
                    let expected = OpStatus::Failed(if i == k { why } else { ErrorKind::NotRun });
                    // What is not told of was not run.
                    assert_eq!(result.map_or(OpStatus::Failed(ErrorKind::NotRun), |r| r.status), expected, "{i} of {k}");
                }
                assert!(rows.iter().all(|row| get(r, row, b"q").is_none()));
                let (outcome, results, _) = batch(r, ops, &PLAIN);
                match outcome {
                    Ok(BatchOutcome::Partial { first, applied: 9, failed: 1, error }) => assert_eq!((first, error.kind()), (k, why)),
                    other => panic!("{other:?}"),
                }
                for (i, (row, result)) in rows.iter().zip(&results).enumerate() {
                    assert_eq!(result.unwrap().status, if i == k { OpStatus::Failed(why) } else { OpStatus::Applied });
                    assert_eq!(get(r, row, b"q").is_some(), i != k);
                    delete(r, row, b"q");
                }
            }
        }
        drop(stops);
        neighbours.into_iter().map(|n| n.join().unwrap()).sum()
    });
    let rig = rig.reopen();
    assert_eq!(counter(&rig.region, b"shared", b"n"), Some(valid));
    assert!(scan(&rig.region, None, b"", b"").iter().all(|c| c.1 == b"n"), "a trace of what was refused");
}

/// BUG-86: memory runs out at every place within an atomic call of a hundred rows. All of it is taken before the call has a number, so there is nothing to be
/// undone: nobody sees a part of it, now or after a kill, and the region goes on.
#[test]
fn bug_86() {
    let rows: Vec<Vec<u8>> = (0..100).map(|i| format!("batch{i:02}").into_bytes()).collect();
    let fill = |rig: &Rig, most: u32| {
        (0..most).take_while(|i| put_with(&rig.region, &i.to_be_bytes(), b"q", &[1; 500], &within(1, PLAIN)).is_ok()).count() as u32
    };
    let small = || {
        let pool = ChunkPool::new(PoolOptions { chunk_size: 64 << 10, max_bytes: 1 << 20, ..PoolOptions::default() }).unwrap();
        let rig = Rig::with_pool(&pool);
        inc(&rig.region, b"counter", b"n", 1);
        rig
    };
    let room = fill(&small(), u32::MAX);
    let mut refused = 0;
    for left in [0, 1, 7, 20, 33, 48, 60, 77, 90, 400] {
        let rig = small();
        fill(&rig, room - left);
        let r = &rig.region;
        let stop = AtomicBool::new(false);
        let outcome = std::thread::scope(|s| {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seen = scan(r, None, b"batch", b"batci").len();
                    assert!(seen == 0 || seen == 100, "{seen} rows of an atomic call");
                }
            });
            let _stops = Stops(&stop);
            let ops = rows.iter().map(|row| op_put(row, b"q", &[2; 500])).collect();
            batch(r, ops, &within(1, flags(WriteOptions::ATOMIC))).0
        });
        let expected = match outcome {
            Ok(BatchOutcome::Done) => 100,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Busy, "{e}");
                refused += 1;
                0
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(inc(r, b"counter", b"n", 1), 2, "what needs no memory goes on");
        assert_eq!(scan(&rig.after_kill().region, None, b"batch", b"batci").len(), expected, "{left} rows of room");
        // It was not asked to be on stable storage.
        let found = scan(&rig.after_power_cut().region, None, b"batch", b"batci").len();
        assert!(found == 0 || found == expected, "{found} rows, {expected} were told of");
    }
    assert!((5..10).contains(&refused), "{refused} of 10 calls were refused");
}

/// BUG-88: several entries for one cell have the meaning of one after the other; the same after a replay.
#[test]
fn bug_88() {
    let rig = Rig::new("");
    let timed = |m: Mutation<'static>| Mutation { timestamp: 50, ..m };
    let (five, nine): (&[u8], &[u8]) = (&[0, 0, 0, 0, 0, 0, 0, 5], &[0, 0, 0, 0, 0, 0, 0, 9]);
    type Trial = (Vec<Mutation<'static>>, Option<i64>);
    let x = |m: Mutation<'static>| Mutation { qual: b"x", ..m };
    let (put5, put9) = (x(op_put(b"", b"", five)), x(op_put(b"", b"", nine)));
    let (inc1, gone) = (x(op_inc(b"", b"", 1)), x(op_delete(b"", b"")));
    let is5 = x(op_check_counter(b"", b"", Equal, 5));
    let trials: Vec<Trial> = vec![
        (vec![put5, inc1], Some(6)),
        (vec![inc1, inc1, inc1], Some(3)),
        (vec![put9, gone, put5], Some(5)),
        (vec![put9, gone, inc1], Some(1)),
        (vec![put5, gone], None),
        (vec![timed(put9), timed(put5)], Some(5)),
        (vec![put5, is5, put9], Some(9)),
        (vec![put5, inc1, x(op_check(b"", b"", Absent, b"")), put9], None),
    ];
    let row = |i: usize, atomic: bool| format!("row {i} {atomic}").into_bytes();
    for atomic in [false, true] {
        for (i, (ops, _)) in trials.iter().enumerate() {
            let row = row(i, atomic);
            let ops: Vec<_> = ops.iter().map(|m| Mutation { row: &row, ..*m }).collect();
            let o = if atomic { flags(WriteOptions::ATOMIC) } else { PLAIN };
            let outcome = batch(&rig.region, ops, &o).0.unwrap();
            assert_eq!(matches!(outcome, BatchOutcome::NotApplied { first: 2 }), i == 7, "{i}: {outcome:?}");
            assert!(matches!(outcome, BatchOutcome::Done | BatchOutcome::NotApplied { .. }));
        }
    }
    let look = |r: &Region| {
        for (i, (_, expected)) in trials.iter().enumerate() {
            assert_eq!([false, true].map(|atomic| counter(r, &row(i, atomic), b"x")), [*expected; 2], "{i}");
        }
    };
    look(&rig.region);
    look(&rig.after_kill().region);
}

/// BUG-89: a batch is the caller's list and holds nothing of the call before: given again it is applied again, unless a nonce says that it is the same call.
#[test]
fn bug_89() {
    let rig = Rig::new("");
    let r = &rig.region;
    let rows: Vec<[u8; 1]> = (0..10).map(|i| [i]).collect();
    let ten = || rows.iter().map(|row| op_inc(row, b"n", 1)).collect::<Vec<_>>();
    assert_eq!(done(r, ten(), &PLAIN), [1; 10]);
    assert_eq!(done(r, ten(), &PLAIN), [2; 10]);
    let mut more = ten();
    more.push(op_inc(b"more", b"n", 1));
    assert_eq!(done(r, more, &PLAIN)[8..], [3, 3, 1]);
    assert!(done(r, vec![], &PLAIN).is_empty(), "an emptied one");
    let once = WriteOptions { nonce: 7, nonce_group: 1, ..PLAIN };
    let answers: Vec<Vec<i64>> = std::thread::scope(|s| {
        let calls: Vec<_> = (0..4).map(|_| s.spawn(|| (0..3).flat_map(|_| done(r, ten(), &once)).collect())).collect();
        calls.into_iter().map(|c| c.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|a| a[..] == [4; 30]), "{answers:?}");
    let rig = rig.reopen();
    assert_eq!(rows.iter().map(|row| counter(&rig.region, row, b"n").unwrap()).collect::<Vec<_>>(), [4; 10]);
}

/// BUG-90: what can be set takes effect or is refused. Every option of the long tail, and every option of a call.
#[test]
fn bug_90() {
    let open = |config: &str| {
        let dir = tempfile::tempdir().unwrap();
        let options = RegionOptions { config: config.into(), ..crate::verbs::options() };
        Region::open(&dir.path().join("r"), options, None, None).map(|r| {
            let text = r.describe().unwrap();
            close(&r);
            text
        })
    };
    for knob in KNOBS {
        let is_choice = matches!(knob.kind, Kind::Choice(_));
        let refused = if is_choice { ErrorKind::Unsupported } else { ErrorKind::Invalid };
        assert_eq!(kind(open(&format!("{}=certainly not", knob.key))), refused);
        assert_eq!(kind(open(&format!("{}s=1", knob.key))), ErrorKind::Unsupported);
        if !is_choice && knob.max < u64::MAX {
            assert_eq!(kind(open(&format!("{}={}", knob.key, knob.max + 1))), ErrorKind::Invalid, "{}", knob.key);
        }
    }
    let text = open("nonce_window_s=77,lock_buckets=128,sync_interval_ms=5000").unwrap();
    for (key, value) in [("nonce_window_s", "77"), ("lock_buckets", "128"), ("sync_interval_ms", "5000")] {
        let of_key = text.split(&format!("\"{key}\":{{")).nth(1).unwrap().split('}').next().unwrap();
        assert!(of_key.contains(&format!("\"value\":\"{value}\"")), "{key}: {of_key}");
    }
    assert_eq!(kind(open("lock_buckets=64,lock_buckets=64")), ErrorKind::Invalid, "twice");
    let rig = Rig::with_clock("", ManualClock::new(10_000, ClockUnit::Millis));
    let r = &rig.region;
    // Each level of durability, seen from the log.
    let syncs = || r.stats().unwrap().wal_syncs;
    let before = syncs();
    for (level, synced) in [(Durability::SyncWal, 0), (Durability::AsyncWal, 0), (Durability::FsyncWal, 1)] {
        put_with(r, b"r", b"q", b"v", &at(level)).unwrap();
        assert_eq!(syncs(), before + synced, "{level:?}");
    }
    assert_eq!((put_with(r, b"r", b"q", b"v", &at(Durability::SkipWal)).unwrap().seq, r.stats().unwrap().unlogged_bytes > 0), (0, true));
    // Each flag of an increment; flags that a verb has no meaning for are refused.
    let one = |o: &WriteOptions| inc_with(r, b"r", b"n", 1, o);
    assert_eq!(one(&flags(WriteOptions::SET)).unwrap().value, 1);
    assert_eq!(one(&flags(WriteOptions::RETURN_OLD)).unwrap().value, 1);
    assert!(!one(&WriteOptions { max_value: 2, ..flags(WriteOptions::BOUNDED) }).unwrap().applied);
    assert_eq!(one(&WriteOptions { max_value: 2, ..flags(WriteOptions::BOUNDED | WriteOptions::SATURATE) }).unwrap().value, 2);
    put(r, b"r", b"m", &i64::MAX.to_be_bytes());
    assert_eq!(kind(inc_with(r, b"r", b"m", 1, &flags(WriteOptions::CHECK_OVERFLOW))), ErrorKind::Overflow);
    assert_eq!(kind(one(&flags(WriteOptions::SATURATE))), ErrorKind::Invalid);
    assert_eq!(kind(one(&WriteOptions { timestamp: 5, ..PLAIN })), ErrorKind::Invalid);
    assert_eq!(kind(one(&flags(1 << 30))), ErrorKind::Unsupported);
    assert!(put_with(r, b"r", b"q", b"v", &flags(WriteOptions::SET)).is_err());
    // Of a read: times.
    let o = WriteOptions { timestamp: 123, ..PLAIN };
    put_with(r, b"r", b"old", b"v", &o).unwrap();
    let key = Key { family: CF, row: b"r", qual: b"old" };
    for (min_ts, max_ts, found) in [(123, 124, true), (124, 0, false), (0, 123, false)] {
        let o = ReadOptions { min_ts, max_ts, ..ReadOptions::DEFAULT };
        assert_eq!(r.get(None, &o, key, &mut Bytes::default()).unwrap().map(|f| f.timestamp), found.then_some(123));
    }
    assert_eq!(
        kind(r.get(None, &ReadOptions { flags: 1 << 9, ..ReadOptions::DEFAULT }, key, &mut Bytes::default())),
        ErrorKind::Unsupported
    );
    let odd = ScanSpec { flags: 1 << 20, ..ScanSpec::default() };
    assert_eq!(r.scanner(None, &ReadOptions::DEFAULT, &odd).map(drop).map_err(|e| e.kind()), Err(ErrorKind::Unsupported));
    let both = OpenFlags { create: true, read_only: true, ..OpenFlags::default() };
    assert_eq!(
        Region::open("/nowhere".as_ref(), RegionOptions { flags: both, ..crate::verbs::options() }, None, None)
            .map(drop)
            .map_err(|e| e.kind()),
        Err(ErrorKind::Invalid)
    );
}

/// BUG-91: at each limit it is stored and read back, beyond it is refused before anything is logged; and calls whose sum passes 2 and 4 GiB.
#[test]
fn bug_91() {
    let rig = Rig::new("wal_segment_bytes=64m,wal_bytes_max=512m");
    let r = &rig.region;
    let value = vec![7; (10 << 20) + 1];
    let key = vec![b'k'; ROW_BYTES_MAX + 1];
    put(r, &key[1..], &key[1..], &value[1..]);
    assert_eq!(get(r, &key[1..], &key[1..]).unwrap(), value[1..]);
    let before = r.stats().unwrap().seq;
    for (row, qual, value) in [(&key[..], &b"q"[..], &b"v"[..]), (b"r", &key, b"v"), (b"r", b"q", &value)] {
        assert_eq!(kind(put_with(r, row, qual, value, &PLAIN)), ErrorKind::TooLarge);
        assert_eq!(kind(batch(r, vec![op_put(row, qual, value)], &flags(WriteOptions::ATOMIC)).0), ErrorKind::TooLarge);
    }
    let rows: Vec<Vec<u8>> = (0..430).map(|i: u32| i.to_be_bytes().to_vec()).collect();
    for n in [205, 410, 430] {
        let ops: Vec<_> = rows[..n].iter().map(|row| op_put(row, b"q", &value[1..])).collect();
        let e = batch(r, ops, &within(1, flags(WriteOptions::ATOMIC))).0.unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::TooLarge | ErrorKind::Busy), "{n}: {e}");
    }
    assert_eq!(r.stats().unwrap().seq, before, "nothing of it was logged");
    put(r, b"r", b"q", b"v");
    let rig = rig.reopen();
    assert_eq!(get(&rig.region, &key[1..], &key[1..]).unwrap(), value[1..]);
    assert_eq!(scan(&rig.region, None, b"", b"").len(), 2);
}
