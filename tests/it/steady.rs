//! Memory that stays flat however often something is done: increments beside a snapshot that stands still while it opens (P-C4), writes that are refused after
//! they had taken their memory.

use crate::rig::*;
use region::ErrorKind;
use region::env::fault::{Fault, Op as EnvOp};
use region::hooks::Point;
use region::options::WriteOptions;

const ROWS: u8 = 100;

fn round(rig: &Rig, times: u32) {
    for _ in 0..times {
        (0..ROWS).for_each(|row| {
            inc(&rig.region, &[row], b"n", 1);
        });
    }
}
fn memory(rig: &Rig) -> u64 {
    rig.region.stats().unwrap().memstore_bytes
}

/// A thread that is not scheduled while it opens a snapshot has the registry of read points in its hands. Counters go on beside it, and what they keep for
/// the snapshots that are open goes where copies for closed ones were.
#[test]
fn p_c4_memory_is_flat_while_a_snapshot_that_opens_stands_still() {
    let rig = Rig::new("");
    let mut open = Vec::new();
    for i in 0..8 {
        round(&rig, 2);
        open.push((rig.region.snapshot(LONG).unwrap(), 2 * (i + 1)));
    }
    round(&rig, 2);
    // Two rounds for each copy of those that are closed now, to be used again.
    open.drain(2..6);
    let last = rig.region.snapshot(LONG).unwrap();
    // (Statistics ask for the registry, too.)
    let before = memory(&rig);
    let held = rig.hold(Point::PointOpening, |r| r.snapshot(LONG).unwrap());
    round(&rig, 50);
    let late = held.release();
    assert_eq!(memory(&rig), before);
    open.extend([(last, 18), (late, 68)]);
    round(&rig, 3);
    for (snapshot, want) in &open {
        (0..ROWS).for_each(|row| assert_eq!(counter_at(&rig.region, Some(snapshot), &[row], b"n"), Some(*want)));
    }
}

/// The disk is full: 100,000 increments and batches, each refused when it had all its memory.
#[test]
fn p_c4_refused_by_the_log_costs_no_memory() {
    let rig = Rig::new("wal_io=write");
    let r = &rig.region;
    round(&rig, 2);
    put(r, b"row", b"v", b"value");
    // Every increment needs a copy now.
    let snapshot = r.snapshot(LONG).unwrap();
    let before = memory(&rig);
    for i in 0..100_000_u32 {
        let row = [(i % u32::from(ROWS)) as u8];
        rig.faults.clear();
        rig.fault(EnvOp::WriteAt, Fault::Fail(ENOSPC));
        let e = if i % 4 == 0 {
            let value = vec![7; (i % 1000) as usize];
            let ops = vec![op_inc(&row, b"n", 1), op_put(b"row", b"v", &value), op_delete(b"row", b"v")];
            kind(batch(r, ops, &flags(WriteOptions::ATOMIC)).0)
        } else {
            kind(inc_with(r, &row, b"n", 1, &WriteOptions::DEFAULT))
        };
        assert_eq!(e, ErrorKind::NoSpace);
        assert_eq!(memory(&rig), before, "after {i}");
    }
    rig.faults.clear();
    round(&rig, 1);
    for row in 0..ROWS {
        assert_eq!(counter_at(r, Some(&snapshot), &[row], b"n"), Some(2));
        assert_eq!(counter(r, &[row], b"n"), Some(3));
    }
    assert_eq!(get(r, b"row", b"v").as_deref(), Some(&b"value"[..]));
}

/// A batch that runs out of memory half-way, again and again: what it had is there for others, and for itself.
#[test]
fn p_m3_refused_for_memory_half_way_costs_no_memory() {
    let rig = Rig::new("memstore_limit=2m");
    let r = &rig.region;
    let o = within(0, flags(WriteOptions::ATOMIC));
    let quals: Vec<[u8; 2]> = (0..20).map(|i| [b'q', i]).collect();
    quals.iter().for_each(|q| put(r, b"row", q, b""));
    let large = vec![1; 7900];
    let mut stored = 0;
    while put_with(r, b"row", b"large", &large, &within(0, WriteOptions::DEFAULT)).is_ok() {
        stored += 1;
        assert!(stored < 1000, "no limit");
    }
    let ops = |with_large: bool| {
        let mut ops: Vec<_> = quals.iter().map(|q| op_put(b"row", q, &large[..60])).collect();
        if with_large {
            ops.push(op_put(b"row", b"large", &large));
        }
        ops
    };
    let before = memory(&rig);
    for _ in 0..5_000 {
        assert_eq!(kind(batch(r, ops(true), &o).0), ErrorKind::Busy);
        assert_eq!(memory(&rig), before);
    }
    done(r, ops(false), &o);
    assert_eq!(memory(&rig), before + 20 * (32 + 64));
    assert_eq!(get(r, b"row", &quals[19]).as_deref(), Some(&large[..60]));
}
