//! P-V5: nothing shows before it is as durable as its writer asked for. The sync of the log is held at a gate, and then ends well or fails.

use crate::rig::*;
use region::env::fault::Op as EnvOp;
use region::error::ErrorKind;
use region::options::{Durability, ReadOptions, WriteOptions};
use region::region::{BatchOutcome, CommitInfo, Comparison, OpStatus, ScanSpec};

const FSYNC: Durability = Durability::FsyncWal;
const SYNC: Durability = Durability::SyncWal;

fn impatient(level: Durability) -> WriteOptions {
    within(SHORT.micros(), at(level))
}

/// The row "r" has n = 1, x = "old", all durable; an FSYNC commit that adds 10 and puts x = "new" waits for its sync at the gate.
struct Waiting {
    rig: Rig,
    gate: region::env::fault::Gate,
    writer: std::thread::JoinHandle<region::error::Result<()>>,
    n_seq: u64,
}

fn waiting(config: &str, fails: bool) -> Waiting {
    let rig = Rig::new(config);
    inc_with(&rig.region, b"r", b"n", 1, &at(FSYNC)).unwrap();
    put_with(&rig.region, b"r", b"x", b"old", &at(FSYNC)).unwrap();
    inc_with(&rig.region, b"other", b"n", 1, &at(FSYNC)).unwrap();
    let gate = if fails { rig.pause_and_fail_sync() } else { rig.pause_sync() };
    let n_seq = rig.region.stats().unwrap().seq + 1;
    let writer = rig.spawn(|r| {
        let mut ok = true;
        let ops = Ops(vec![op_inc(b"r", b"n", 10), op_put(b"r", b"x", b"new"), op_put(b"r", b"fresh", b"f")]);
        let outcome = r.batch(&ops, &at(FSYNC), &mut CommitInfo::default(), &mut |_, result| ok &= result.status == OpStatus::Applied);
        assert!(ok);
        outcome.map(|o| assert!(matches!(o, BatchOutcome::Done)))
    });
    gate.wait_until_reached();
    Waiting { rig, gate, writer, n_seq }
}

/// Reads show what was before.
fn shows_old(rig: &Rig) {
    let r = &rig.region;
    assert_eq!(counter(r, b"r", b"n"), Some(1));
    assert_eq!(get(r, b"r", b"x").unwrap(), b"old");
    assert_eq!(get(r, b"r", b"fresh"), None);
    assert_eq!(counter(r, b"other", b"n"), Some(1));
}

fn v5_delayed(config: &str) {
    let Waiting { rig, gate, writer, n_seq } = waiting(config, false);
    let r = &rig.region;
    shows_old(&rig);
    // Answers about stored data wait: a failed check, a bound not met, an addition of nothing, an overflow.
    let old = |o| batch(r, vec![op_check_counter(b"r", b"n", Comparison::Equal, 1), op_put(b"r", b"x", b"no")], o).0;
    let o = impatient(SYNC);
    assert_eq!(kind(old(&o)), ErrorKind::Timeout);
    let bounded = WriteOptions { flags: WriteOptions::BOUNDED, min_value: 0, max_value: 10, ..o };
    assert_eq!(kind(inc_with(r, b"r", b"n", 1, &bounded)), ErrorKind::Timeout);
    assert_eq!(kind(inc_with(r, b"r", b"n", 0, &o)), ErrorKind::Timeout);
    let overflow = WriteOptions { flags: WriteOptions::CHECK_OVERFLOW, ..o };
    assert_eq!(kind(inc_with(r, b"r", b"n", i64::MAX, &overflow)), ErrorKind::Timeout);
    assert_eq!(kind(inc_with(r, b"r", b"x", 1, &o)), ErrorKind::Timeout, "NOT_COUNTER tells about the stored value, too");
    let append = r.append(b"r", CF, b"x", &[b'x'; 10 << 20], &o, &mut CommitInfo::default(), None);
    assert_eq!(kind(append), ErrorKind::Timeout, "TOO_LARGE tells about the stored value, too");
    // A SYNC commit on top waits with it: unknown when its time is up, and invisible.
    let e = inc_with(r, b"r", b"n", 100, &o).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(e.commit_seq(), n_seq + 1);
    // So does an ASYNC and a SKIP_WAL one.
    assert_eq!(kind(put_with(r, b"r", b"y", b"async", &impatient(Durability::AsyncWal))), ErrorKind::OutcomeUnknown);
    assert_eq!(kind(put_with(r, b"r", b"z", b"skip", &impatient(Durability::SkipWal))), ErrorKind::OutcomeUnknown);
    shows_old(&rig);
    assert_eq!(get(r, b"r", b"y"), None);
    assert_eq!(get(r, b"r", b"z"), None);
    // Snapshots wait for that one sync.
    assert_eq!(r.snapshot(SHORT).err().map(|e| e.kind()), Some(ErrorKind::Timeout));
    let brief = ReadOptions { timeout_us: Some(SHORT.micros()), ..ReadOptions::DEFAULT };
    assert_eq!(r.scanner(None, &brief, &ScanSpec::default()).err().map(|e| e.kind()), Some(ErrorKind::Timeout));
    // And an atomic batch that touches the row waits whole.
    let o = WriteOptions { flags: WriteOptions::ATOMIC, ..o };
    let spread = batch(r, vec![op_put(b"other", b"v", b"w"), op_inc(b"r", b"n", 1000)], &o).0;
    assert_eq!(kind(spread), ErrorKind::OutcomeUnknown);
    assert_eq!(get(r, b"other", b"v"), None, "half a batch");
    shows_old(&rig);
    let waited = rig.spawn(|r| r.wait_durable(region::ids::SequenceNumber(r.stats().unwrap().seq), LONG));
    gate.open();
    writer.join().unwrap().unwrap();
    waited.join().unwrap().unwrap();
    assert_eq!(counter(r, b"r", b"n"), Some(1111));
    assert_eq!(get(r, b"r", b"x").unwrap(), b"new");
    assert_eq!(get(r, b"r", b"y").unwrap(), b"async");
    assert_eq!(get(r, b"r", b"z").unwrap(), b"skip");
    assert_eq!(get(r, b"other", b"v").unwrap(), b"w");
    let seen = scan(r, None, b"r", b"s");
    assert_eq!(seen.len(), 5, "{seen:?}");
}

#[test]
fn p_v5_nothing_shows_before_its_sync() {
    v5_delayed("");
}

#[test]
fn p_v5_nothing_shows_before_its_sync_over_the_written_log() {
    v5_delayed("wal_io=write");
}

/// The sealed segment holds the waiting commit, the active one what comes on top.
#[test]
fn p_v5_nothing_shows_before_its_sync_across_a_seal() {
    let Waiting { rig, gate, writer, .. } = waiting("", false);
    let r = &rig.region;
    r.seal().unwrap();
    shows_old(&rig);
    assert_eq!(kind(inc_with(r, b"r", b"n", 100, &impatient(SYNC))), ErrorKind::OutcomeUnknown);
    shows_old(&rig);
    gate.open();
    writer.join().unwrap().unwrap();
    r.wait_durable(region::ids::SequenceNumber(r.stats().unwrap().seq), LONG).unwrap();
    assert_eq!(counter(r, b"r", b"n"), Some(111));
}

fn v5_failed(config: &str) {
    let Waiting { rig, gate, writer, n_seq } = waiting(config, true);
    let r = &rig.region;
    let before = rig.mem.clone();
    // Calls in flight while the sync is: a commit on top, a check that fails, a snapshot.
    let on_top = rig.hold(region::hooks::Point::Appended, |r| inc_with(r, b"r", b"n", 100, &at(SYNC)));
    on_top.let_go();
    let check = rig.spawn(|r| kind(batch(r, vec![op_check_counter(b"r", b"n", Comparison::Equal, 1)], &at(SYNC)).0));
    shows_old(&rig);
    let syncs = rig.faults.count(EnvOp::SyncData);
    gate.open();
    let e = writer.join().unwrap().unwrap_err();
    assert_eq!((e.kind(), e.commit_seq()), (ErrorKind::OutcomeUnknown, n_seq), "{e}");
    let e = on_top.release().unwrap_err();
    assert_eq!((e.kind(), e.commit_seq()), (ErrorKind::OutcomeUnknown, n_seq + 1), "{e}");
    assert_eq!(check.join().unwrap(), ErrorKind::Poisoned);
    // What waited stays invisible, reads go on, writers are refused.
    shows_old(&rig);
    for level in [Durability::SkipWal, Durability::AsyncWal, SYNC, FSYNC] {
        assert_eq!(kind(inc_with(r, b"other", b"n", 1, &at(level))), ErrorKind::Poisoned, "{level:?}");
        assert_eq!(kind(put_with(r, b"other", b"v", b"v", &at(level))), ErrorKind::Poisoned, "{level:?}");
    }
    assert_eq!(kind(batch(r, vec![op_put(b"q", b"v", b"v")], &at(SYNC)).0), ErrorKind::Poisoned);
    let cells = scan(r, None, b"", b"");
    assert_eq!(
        cells.iter().map(|c| (c.0.as_slice(), c.1.as_slice())).collect::<Vec<_>>(),
        [(b"other".as_slice(), b"n".as_slice()), (b"r", b"n"), (b"r", b"x")]
    );
    assert_eq!(number(&cells[1].2), 1);
    let snapshot = r.snapshot(LONG).unwrap();
    assert_eq!(counter_at(r, Some(&snapshot), b"r", b"n"), Some(1));
    assert_eq!(rig.faults.count(EnvOp::SyncData), syncs, "a failed sync is not tried again");
    assert_eq!(r.stats().unwrap().health, 1);
    drop(snapshot);
    assert!(r.close(region::region::CloseFlags::default(), LONG).is_err(), "close tells that not all is durable");
    drop(before);
}

#[test]
fn p_v5_after_a_failed_sync_it_stays_invisible() {
    v5_failed("");
}

#[test]
fn p_v5_after_a_failed_sync_it_stays_invisible_over_the_written_log() {
    v5_failed("wal_io=write");
}

/// A row that waits delays no other one, also in the same call as long as the call is not atomic.
#[test]
fn p_v5_other_rows_do_not_wait() {
    let Waiting { rig, gate, writer, .. } = waiting("lock_buckets=16384", false);
    let r = &rig.region;
    let o = impatient(SYNC);
    let free = row_in(r, |ours, theirs| ours >> 50 != theirs >> 50);
    assert_eq!(inc_with(r, &free, b"n", 5, &o).unwrap().value, 5);
    assert_eq!(counter(r, &free, b"n"), Some(5));
    put_with(r, &free, b"v", b"v", &o).unwrap();
    let failed_check = batch(r, vec![op_check(&free, b"v", Comparison::Equal, b"w")], &o).0;
    assert!(matches!(failed_check, Ok(BatchOutcome::NotApplied { .. })), "{failed_check:?}");
    gate.open();
    writer.join().unwrap().unwrap();
}

/// A row whose hash stands to that of "r" as asked for.
fn row_in(r: &region::region::Region, wanted: impl Fn(u64, u64) -> bool) -> Vec<u8> {
    let theirs = r.row_hash(b"r").0;
    (0u64..).map(|i| format!("row{i}").into_bytes()).find(|row| wanted(r.row_hash(row).0, theirs)).expect("there are many rows")
}
