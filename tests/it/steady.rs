//! Memory that stays flat however often something is done: increments beside a snapshot that stands still while it opens (P-C4).

use crate::rig::*;
use region::hooks::Point;

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
