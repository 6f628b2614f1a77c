//! What each level of durability does, a failed append, a full disk, and a packed call that runs out of log: scenarios DUR.

use super::failing::{counter, faulty, key, wait_for_segments};
use super::simulate::Recorder;
use super::stage::*;
use region::ErrorKind;
use region::env::fault::{Fault, Op, Rule};
use region::hooks::{self, Point};
use region::options::{Durability, RegionOptions, WalIo, WriteOptions};
use region::region::{BatchOutcome, CommitInfo, Increment, Increments};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use Durability::{AsyncWal, FsyncWal, SkipWal, SyncWal};

/// DUR-01, DUR-06: FSYNC makes a true sync before it returns; the other levels make none, SKIP_WAL not even a record; a write that names no level takes the region's.
#[test]
fn dur_01_06_levels_and_true_syncs() {
    for stored in [None, Some(SkipWal), Some(AsyncWal), Some(SyncWal), Some(FsyncWal)] {
        for asked in [None, Some(SkipWal), Some(AsyncWal), Some(SyncWal), Some(FsyncWal)] {
            let env = machine(12_091);
            let (faults, region) = faulty(&env, RegionOptions { durability: stored, ..options(WalIo::Write) });
            wait_for_segments(&region, 3);
            let (syncs, writes) = (faults.count(Op::SyncData), faults.count(Op::WriteAt));
            let mut info = CommitInfo::default();
            let o = WriteOptions { durability: asked, ..WriteOptions::DEFAULT };
            region.put(b"r", CF, b"q", b"v", &o, &mut info).unwrap();
            let level = asked.or(stored).unwrap_or(SyncWal);
            let what = format!("region {stored:?}, write {asked:?}");
            assert_eq!(faults.count(Op::SyncData) - syncs, u64::from(level == FsyncWal), "{what}");
            assert_eq!(faults.count(Op::WriteAt) - writes, u64::from(level != SkipWal), "{what}");
            assert_eq!(info.seq == 0, level == SkipWal, "{what}");
            assert_eq!(content(&open(&env.image(), WalIo::Write)).len(), usize::from(level != SkipWal), "{what}: kill");
            assert_eq!(content(&open(&env.power_cut_keeping_nothing(), WalIo::Write)).len(), usize::from(level == FsyncWal), "{what}: cut");
        }
    }
    // ASYNC and SYNC are durable soon: the background sync comes.
    let env = machine(12_101);
    let region = open_with(&env, RegionOptions { sync_interval_ms: 1, ..options(WalIo::Mapped) }).unwrap();
    put(&region, b"r", b"v", AsyncWal).unwrap();
    let began = Instant::now();
    while region.stats().unwrap().durable_seq < region.stats().unwrap().seq {
        assert!(began.elapsed() < Duration::from_secs(30), "the background sync does not come");
        std::thread::yield_now();
    }
    assert_eq!(content(&open(&env.power_cut_keeping_nothing(), WalIo::Mapped)).len(), 1);
}

/// DUR-03, otherwise than HBase, P-D3: a failed append poisons, since nobody knows what is in the file; a full disk does not, and nothing was done.
#[test]
fn dur_03_a_failed_append_poisons_a_full_disk_does_not() {
    let env = machine(12_111);
    let (faults, region) = faulty(&env, options(WalIo::Write));
    wait_for_segments(&region, 3);
    inc(&region, b"r", 1, SyncWal).unwrap();
    for fault in [Fault::Fail(28), Fault::Short(16, Some(28)), Fault::Short(40, Some(28))] {
        faults.inject(Rule::new(Op::WriteAt, "wal.", 1, fault));
        let e = inc(&region, b"r", 1, SyncWal).unwrap_err();
        assert_eq!((e.kind(), e.is_retryable()), (ErrorKind::NoSpace, true), "{e}");
    }
    assert_eq!(inc(&region, b"r", 1, SyncWal).unwrap(), 2, "refused, so not counted");
    assert_eq!(content(&open(&env.image(), WalIo::Write)), content(&region));
    faults.inject(Rule::new(Op::WriteAt, "wal.", 1, Fault::Short(16, Some(5))));
    let e = inc(&region, b"r", 1, SyncWal).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Io | ErrorKind::Poisoned), "{e}");
    assert_eq!(inc(&region, b"r", 1, SyncWal).unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(region.counter_get(None, &Default::default(), counter(b"r")).unwrap().unwrap().0, 2);
    let again = open(&env.image(), WalIo::Write);
    assert_eq!(inc(&again, b"r", 1, SyncWal).unwrap(), 3);
}

/// P-D3 over a disk in memory that gets full at every size: refused, retryable, nothing lost, reads go on, and everything works once space returns.
#[test]
fn a_full_disk_refuses_and_recovers() {
    for io in IOS {
        for pages in [0, 1, 5, 16, 17, 18, 40] {
            let env = machine(12_121);
            let region = open(&env, io);
            wait_for_segments(&region, 3);
            env.set_capacity(Some(env.used_bytes() + pages * 4_096));
            let mut acked = 0;
            let e = loop {
                match put(&region, &key(0, acked), &[1; 5_000], SyncWal) {
                    Ok(_) => acked += 1,
                    Err(e) => break e,
                }
            };
            assert_eq!((e.kind(), e.is_retryable()), (ErrorKind::NoSpace, true), "{io:?} {pages}: {e}");
            assert_eq!(content(&region).len(), acked);
            assert_eq!(content(&open_with(&env.image(), read_only(io)).unwrap()).len(), acked);
            env.set_capacity(None);
            put(&region, b"after", b"v", FsyncWal).unwrap_or_else(|e| panic!("{io:?} {pages}: space is there again: {e}"));
            assert_eq!(content(&open(&env.power_cut_keeping_nothing(), io)).len(), acked + 1);
        }
    }
}

struct Packed([&'static [u8]; 3]);
impl Increments for Packed {
    fn len(&self) -> usize {
        3
    }
    fn get(&self, i: usize) -> Increment<'_> {
        Increment { family: CF, row: self.0[i], qual: b"n", delta: 1 }
    }
}

/// P-C1: a packed call locks its rows, finds the log full and waits; meanwhile another writer takes one of the rows, so that the call comes back with a shorter run.
/// What it had computed for the rest in vain must not be taken for done: those rows were answered and never written.
#[test]
fn a_packed_call_that_waited_for_log_space_writes_every_row() {
    const ROWS: [&[u8]; 3] = [b"x", b"y", b"z"];
    let env = machine(12_131);
    let recorder = Recorder::new(&env);
    let region = recorder.open(options(WalIo::Mapped)).unwrap();
    let _let_go = recorder.let_go_at_end();
    // The log's own thread stands still: nothing is prepared behind the first segment. It is filled until less is left than the call needs.
    while stage_end(&env) < 65_536 - 170 {
        put(&region, b"filler", &vec![7; (65_536 - 170 - stage_end(&env) as usize).clamp(8, 8_000)], SyncWal).unwrap();
    }
    let (refused_soon, wait_refused) = channel();
    let (holds_row, wait_holds) = channel();
    let (run_done, wait_run) = channel();
    let (first, wait_run) = (AtomicBool::new(true), Mutex::new(wait_run));
    let hook = hooks::install(hook_context(&env), move |point, _| match (std::thread::current().name(), point) {
        // The call has its rows and all but its number; the log has no room for it.
        (Some("packed"), Point::BeforeAppend) if first.swap(false, Ordering::SeqCst) => refused_soon.send(()).unwrap(),
        (Some("packed"), Point::AppendDone) => drop(run_done.send(())),
        // The other writer has the row until the call's shorter run is in the log.
        (Some("other"), Point::RowLocked) if holds_row.send(()).is_ok() => wait_run.lock().unwrap().recv().unwrap(),
        _ => {}
    });
    let mut values = [0; 3];
    std::thread::scope(|s| {
        let (region, values) = (&region, &mut values);
        let named = |name: &str| std::thread::Builder::new().name(name.into());
        let call = move || {
            let o = at(SyncWal);
            let done = region.increment_many(&Packed(ROWS), &o, &mut CommitInfo::default(), &mut |i, r| values[i] = r.value).unwrap();
            assert!(matches!(done, BatchOutcome::Done));
        };
        let call = named("packed").spawn_scoped(s, call).unwrap();
        let () = wait_refused.recv().unwrap();
        let other = named("other").spawn_scoped(s, || put(region, b"y", b"v", SyncWal).unwrap()).unwrap();
        let () = wait_holds.recv().unwrap();
        drop(wait_holds);
        recorder.free(true);
        call.join().unwrap();
        other.join().unwrap();
    });
    drop(hook);
    assert_eq!(values, [1; 3]);
    for row in ROWS {
        let stored = region.counter_get(None, &Default::default(), counter(row)).unwrap();
        assert_eq!(stored.map(|s| s.0), Some(1), "row {} was answered, and not written", String::from_utf8_lossy(row));
    }
}

/// End of the log in its first segment.
fn stage_end(env: &region::env::mem::MemEnv) -> u64 {
    let bytes = bytes_at(env, &segments(env)[0], 0, 65_536);
    bytes.chunks(8).rposition(|w| w != [0; 8]).map_or(4_096, |at| 8 * (at as u64 + 1)).max(4_096)
}
