//! Syncs and writes that fail, hang, or lose pages: who is told what, and what a reopen finds. Reports of kind K4.

use super::stage::*;
use region::ErrorKind;
use region::clock::Timeout;
use region::env::fault::{Fault, FaultEnv, Op, Rule};
use region::env::mem::MemEnv;
use region::hooks::{self, Point};
use region::ids::SequenceNumber;
use region::options::{Durability, RegionOptions, WalIo, WriteOptions};
use region::region::{BatchOutcome, CloseFlags, CommitInfo, Mutation, Mutations, Op as Verb, Region};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use Durability::{AsyncWal, FsyncWal, SkipWal, SyncWal};

/// A region over a file system that can fail.
pub fn faulty(env: &MemEnv, o: RegionOptions) -> (Arc<FaultEnv>, Region) {
    let faults = Arc::new(FaultEnv::new(Arc::new(env.clone())));
    let region = Region::open_in(Arc::clone(&faults) as Arc<_>, Path::new(PATH), o, None, None).unwrap();
    (faults, region)
}

pub fn key(thread: usize, i: usize) -> Vec<u8> {
    format!("{thread:02}-{i:04}").into_bytes()
}

/// BUG-34, P-D1, P-D3: a sync or a log write fails under 32 threads. Nobody of the group is told OK whose row is not there after a power cut; the others are told that
/// the outcome is unknown, or that nothing was done.
#[test]
fn bug_34_followers_hear_of_a_failed_sync() {
    let faults = [
        (Op::SyncData, Fault::Fail(libc_eio())),
        (Op::WriteAt, Fault::Fail(libc_eio())),
        (Op::WriteAt, Fault::Short(24, Some(libc_eio()))),
    ];
    for (case, (op, fault)) in faults.into_iter().enumerate() {
        for nth in [1, 4] {
            let env = machine(12_001);
            let (faults, region) = faulty(&env, options(WalIo::Write));
            wait_for_segments(&region, 3);
            faults.inject(Rule::new(op, "wal.", nth, fault.clone()).from_then_on());
            let told = Mutex::new(Vec::new());
            let start = Barrier::new(32);
            std::thread::scope(|s| {
                for thread in 0..32 {
                    let (region, told, start) = (&region, &told, &start);
                    s.spawn(move || {
                        start.wait();
                        for i in 0..3 {
                            let result = put(region, &key(thread, i), b"v", FsyncWal);
                            told.lock().unwrap().push((key(thread, i), result.map(drop).map_err(|e| e.kind())));
                        }
                    });
                }
            });
            let found = content(&open(&env.power_cut_keeping_nothing(), WalIo::Write));
            let told = told.into_inner().unwrap();
            for (row, result) in &told {
                match result {
                    Ok(()) => assert!(found.contains_key(&(row.clone(), b"q".to_vec())), "case {case}: an acknowledged row is gone"),
                    Err(ErrorKind::OutcomeUnknown | ErrorKind::Poisoned | ErrorKind::Io) => {}
                    Err(kind) => panic!("case {case}: {kind:?}"),
                }
            }
            assert!(told.iter().any(|t| t.1.is_err()), "case {case}: nothing has failed");
            // Reads go on (P-D3), and show nothing that waited (P-V5).
            assert!(content(&region).len() <= found.len().max(told.iter().filter(|t| t.1.is_ok()).count()));
        }
    }
}

fn libc_eio() -> i32 {
    5
}

/// Waits until the log has prepared what it wants to, so that the next call of a kind is the test's.
pub fn wait_for_segments(region: &Region, n: u64) {
    while region.stats().unwrap().wal_segments < n {
        std::thread::yield_now();
    }
}

/// BUG-35, BUG-36, P-D3: the sync of the n-th write fails once and loses its pages, as the kernel does. That very write is told, all later ones are refused, and
/// after a power cut every acknowledged one is there.
#[test]
fn bug_35_36_a_failed_sync_is_final() {
    for io in IOS {
        for nth in 1..=12 {
            let env = machine(12_011);
            let region = open(&env, io);
            wait_for_segments(&region, 3);
            for i in 1..nth {
                put(&region, &key(0, i), b"v", FsyncWal).unwrap();
            }
            // A commit that waits for nothing, in the page that will be lost.
            put(&region, b"sync", b"v", SyncWal).unwrap();
            env.fail_syncs("wal.", 1);
            let e = put(&region, &key(0, nth), b"v", FsyncWal).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::OutcomeUnknown, "{e}");
            assert!(e.commit_seq() > 0);
            for level in [FsyncWal, SyncWal, AsyncWal] {
                let e = put(&region, b"later", b"v", level).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Poisoned, "{level:?}: {e}");
            }
            let e = region.wait_durable(SequenceNumber(e.commit_seq()), Timeout::from_micros(1_000)).unwrap_err();
            assert!(matches!(e.kind(), ErrorKind::OutcomeUnknown | ErrorKind::Poisoned), "{e}");
            // Reads go on; what waited stays unseen.
            let seen = content(&region);
            assert!(!seen.contains_key(&(key(0, nth), b"q".to_vec())), "P-V5: an unsynced FSYNC commit shows");
            assert!(seen.contains_key(&(b"sync".to_vec(), b"q".to_vec())));
            assert!(
                region.close(CloseFlags::default(), Timeout::from_micros(1_000_000)).is_err(),
                "a poisoned region closes without a word"
            );
            for image in [env.power_cut_keeping_nothing(), env.power_cut(&mut |_| true)] {
                let again = open(&image, io);
                let found = content(&again);
                for i in 1..nth {
                    assert!(found.contains_key(&(key(0, i), b"q".to_vec())), "{io:?} {nth}: row {i} is gone");
                }
                put(&again, b"later", b"v", FsyncWal).unwrap();
            }
        }
    }
}

/// The page cache still has what a failed sync lost: recovery after a kill writes it again before anybody sees it, so a power cut cannot take it away afterwards.
#[test]
fn bug_36_recovery_writes_again_what_a_failed_sync_lost() {
    let env = machine(12_021);
    let region = open(&env, WalIo::Mapped);
    wait_for_segments(&region, 3);
    env.fail_syncs("wal.", 1);
    assert!(put(&region, b"r", b"v", FsyncWal).is_err());
    let killed = env.image();
    let again = open(&killed, WalIo::Mapped);
    let shown = content(&again);
    assert_eq!(shown.len(), 1, "the page cache has it");
    assert_eq!(content(&open(&killed.power_cut_keeping_nothing(), WalIo::Mapped)), shown, "shown, and lost by a power cut");
}

/// BUG-39, BUG-45, P-D1: FSYNC, SYNC and SKIP_WAL writers and atomic batches side by side; a crash at every 40th append. What was acknowledged at its level is there,
/// batches are whole, numbers differ.
#[test]
fn bug_39_45_levels_side_by_side() {
    for (io, lane) in [(WalIo::Mapped, 12_031), (WalIo::Write, 12_041)] {
        let env = machine(lane);
        let mut o = options(io);
        // Segments large enough that no background thread writes while a picture is taken but at their ends.
        o.config += ",seal_every_commits=100";
        let region = open_with(&env, o).unwrap();
        let acked = Arc::new(Mutex::new(Vec::<(Vec<u8>, Durability)>::new()));
        let pictures: Arc<Mutex<Vec<(MemEnv, usize)>>> = Arc::default();
        let appends = AtomicUsize::new(0);
        let (a, p, e) = (Arc::clone(&acked), Arc::clone(&pictures), env.clone());
        // Under the append lock nobody stores into the log.
        let hook = hooks::install(hook_context(&env), move |point, _| {
            if point == Point::AppendBeforeHeader && appends.fetch_add(1, Ordering::Relaxed) % 40 == 39 {
                let acked = a.lock().unwrap().len();
                p.lock().unwrap().push((e.image(), acked));
            }
        });
        std::thread::scope(|s| {
            for thread in 0..8 {
                let (region, acked) = (&region, &acked);
                s.spawn(move || {
                    let level = [FsyncWal, SyncWal, SkipWal, SyncWal][thread % 4];
                    for i in 0..100 {
                        if thread % 4 == 3 {
                            batch(region, thread, i, level).unwrap();
                        } else {
                            put(region, &key(thread, i), b"v", level).unwrap();
                        }
                        acked.lock().unwrap().push((key(thread, i), level));
                    }
                });
            }
        });
        drop(hook);
        let (acked, pictures) = (acked.lock().unwrap(), pictures.lock().unwrap());
        assert!(pictures.len() >= 10);
        for (image, n) in pictures.iter() {
            let killed = content(&open(&image.image(), io));
            let cut = content(&open(&image.power_cut_keeping_nothing(), io));
            for (row, level) in &acked[..*n] {
                let there = |found: &Content| found.contains_key(&(row.clone(), b"q".to_vec()));
                assert!(*level == SkipWal || there(&killed), "{io:?}: {level:?} row {row:?} is gone after a kill");
                assert!(*level != FsyncWal || there(&cut), "{io:?}: FSYNC row {row:?} is gone after a power cut");
            }
            for found in [&killed, &cut] {
                let mut batches = std::collections::HashMap::new();
                for ((row, _), cell) in found.iter().filter(|((row, _), _)| matches!(&row[..2], b"03" | b"07")) {
                    batches.entry(row[..7].to_vec()).or_insert_with(Vec::new).push(cell.seq);
                }
                for (name, seqs) in batches {
                    assert!(seqs.len() == 3 && seqs.iter().all(|s| *s == seqs[0]), "P-D2: batch {name:?}: {seqs:?}");
                }
                let singles: Vec<u64> =
                    found.iter().filter(|((row, _), _)| row.len() == 7 && row[1] % 4 != 3).map(|(_, c)| c.seq).collect();
                assert_eq!(singles.iter().collect::<std::collections::HashSet<_>>().len(), singles.len(), "a number was given twice");
            }
        }
    }
}

struct Three(Vec<Vec<u8>>);
impl Mutations for Three {
    fn len(&self) -> usize {
        3
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        Mutation { op: Verb::Put, family: CF, row: &self.0[i], qual: b"q", value: b"v", delta: 0, timestamp: 0 }
    }
}
/// Three rows at once, the first under the key itself.
fn batch(region: &Region, thread: usize, i: usize, level: Durability) -> region::Result<()> {
    let rows = Three(["", "a", "b"].map(|x| [key(thread, i).as_slice(), x.as_bytes()].concat()).to_vec());
    let o = WriteOptions { flags: WriteOptions::ATOMIC, ..at(level) };
    match region.batch(&rows, &o, &mut CommitInfo::default(), &mut |_, _| {})? {
        BatchOutcome::Done => Ok(()),
        other => panic!("{other:?}"),
    }
}

/// BUG-40, P-D3: a sync takes longer than the caller waits. It is told "unknown" with the commit's number, not "failed"; it can wait for that number; the value is
/// counted once, before and after a reopen.
#[test]
fn bug_40_unknown_is_not_failed() {
    let env = machine(12_051);
    let (faults, region) = faulty(&env, options(WalIo::Mapped));
    wait_for_segments(&region, 3);
    assert_eq!(inc(&region, b"r", 5, SyncWal).unwrap(), 5);
    let gate = faults.pause(Op::SyncData, "wal.", 1);
    // The leader is the caller itself, so another thread is made to lead and to hang; the caller follows.
    std::thread::scope(|s| {
        s.spawn(|| put(&region, b"leader", b"v", FsyncWal).unwrap());
        gate.wait_until_reached();
        let o = WriteOptions { timeout_us: Some(20_000), ..at(FsyncWal) };
        let e = region.increment(b"r", CF, b"n", 1, &o, &mut CommitInfo::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::OutcomeUnknown, "{e}");
        assert!(!e.is_retryable(), "a caller that tries again counts twice");
        // V5: unseen as long as it waits.
        assert_eq!(region.counter_get(None, &Default::default(), counter(b"r")).unwrap().unwrap().0, 5);
        gate.open();
        region.wait_durable(SequenceNumber(e.commit_seq()), Timeout::from_micros(10_000_000)).unwrap();
        assert_eq!(region.counter_get(None, &Default::default(), counter(b"r")).unwrap().unwrap().0, 6);
    });
    let again = open(&env.power_cut_keeping_nothing(), WalIo::Mapped);
    assert_eq!(inc(&again, b"r", 1, SyncWal).unwrap(), 7);
}

pub fn counter(row: &[u8]) -> region::region::Key<'_> {
    region::region::Key { family: CF, row, qual: b"n" }
}

/// BUG-41: a sync hangs. Writers that wait for it come back in time, others go on, reads go on, close gives up in time and leaves the region open.
#[test]
fn bug_41_a_hanging_sync_hangs_nobody_else() {
    let env = machine(12_061);
    let (faults, region) = faulty(&env, options(WalIo::Write));
    wait_for_segments(&region, 3);
    inc(&region, b"r", 1, SyncWal).unwrap();
    let gate = faults.pause(Op::SyncData, "wal.", 1);
    let began = Instant::now();
    std::thread::scope(|s| {
        s.spawn(|| put(&region, b"leader", b"v", FsyncWal).unwrap());
        gate.wait_until_reached();
        let write = |thread| {
            let region = &region;
            move || {
                let o = WriteOptions { timeout_us: Some(50_000), ..at(FsyncWal) };
                let e = region.put(&key(thread, 0), CF, b"q", b"v", &o, &mut CommitInfo::default()).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::OutcomeUnknown, "{e}");
            }
        };
        let writers: Vec<_> = (0..16).map(|thread| s.spawn(write(thread))).collect();
        // P-V4: no point read and no write of another row waits for it.
        assert_eq!(inc(&region, b"r", 1, SyncWal).unwrap(), 2);
        assert_eq!(region.counter_get(None, &Default::default(), counter(b"r")).unwrap().unwrap().0, 2);
        for writer in writers {
            writer.join().unwrap();
        }
        let e = region.close(CloseFlags::default(), Timeout::from_micros(100_000)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Timeout, "{e}");
        assert_eq!(inc(&region, b"r", 1, SyncWal).unwrap(), 3);
        assert!(began.elapsed() < Duration::from_secs(20));
        gate.open();
    });
    close(&region);
    drop(region);
    assert_eq!(content(&open(&env, WalIo::Write)).len(), 18);
}

/// BUG-42, P-D1: close is a point of durability.
#[test]
fn bug_42_close_syncs() {
    for io in IOS {
        let env = machine(12_071);
        let region = open(&env, io);
        for i in 0..200 {
            put(&region, &key(0, i), &[7; 300], AsyncWal).unwrap();
        }
        close(&region);
        let cut = env.power_cut_keeping_nothing();
        let again = open(&cut, io);
        assert_eq!(content(&again).len(), 200);
        assert_eq!(reported(&again, "cut_tails"), 0);
    }
}

/// BUG-44 as far as sealing goes: a writer stands between its number and the memstore while ten later ones pass and a seal begins. The seal waits for it, and no crash
/// loses its row.
#[test]
fn bug_44_a_seal_waits_for_who_has_a_number() {
    let env = machine(12_081);
    let region = open(&env, WalIo::Mapped);
    let (gate, first) = (Arc::new((Barrier::new(2), Barrier::new(2))), AtomicBool::new(true));
    let g = Arc::clone(&gate);
    let hook = hooks::install(hook_context(&env), move |point, _| {
        if point == Point::Appended && first.swap(false, Ordering::SeqCst) {
            g.0.wait();
            g.1.wait();
        }
    });
    let sealed = AtomicBool::new(false);
    std::thread::scope(|s| {
        let slow = s.spawn(|| put(&region, b"slow", b"v", SyncWal).unwrap());
        gate.0.wait();
        for i in 0..10 {
            put(&region, &key(1, i), b"v", SyncWal).unwrap();
        }
        let seal = s.spawn(|| {
            region.seal().unwrap();
            // Release: pairs with the Acquire below.
            sealed.store(true, Ordering::Release);
        });
        // Later writes go to the new segment while the old one still has its straggler.
        for i in 10..20 {
            put(&region, &key(1, i), b"v", SyncWal).unwrap();
        }
        assert!(!sealed.load(Ordering::Acquire), "sealed over a writer's head");
        assert_eq!(content(&open(&env.image(), WalIo::Mapped)).len(), 21, "its record is in the log");
        gate.1.wait();
        slow.join().unwrap();
        seal.join().unwrap();
    });
    drop(hook);
    assert_eq!(content(&region).len(), 21);
    assert_eq!(content(&open(&env.image(), WalIo::Mapped)), content(&region));
}
