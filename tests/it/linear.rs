//! What a call looks at does not grow with the deletes and writes before it: counted in list cells, not in time (P13).

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::hooks::cells_visited;
use region::options::{ReadOptions, WriteOptions};
use region::region::{CommitInfo, Key, Op, Region, RowSink, ScanCell};

const ROUNDS: u64 = 1_500;
/// Cells that a round of two writes and a read may look at, or one read.
const FEW: u64 = 48;

#[derive(Default)]
struct Count(usize);

impl RowSink for Count {
    fn restart(&mut self) {
        self.0 = 0;
    }
    fn cell(&mut self, _: &ScanCell<'_>) {
        self.0 += 1;
    }
}

fn write(r: &Region, row: &[u8], timestamp: u64) {
    r.put(row, CF, b"q", b"v", &WriteOptions { timestamp, ..WriteOptions::DEFAULT }, &mut CommitInfo::default()).unwrap();
}
fn del(r: &Region, row: &[u8], family: u32, op: Op) {
    r.delete(row, family, if family == 0 { b"" } else { b"q" }, op, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap();
}
fn row_len(r: &Region, row: &[u8], max_versions: u32) -> usize {
    let mut count = Count::default();
    r.get_row(None, &ReadOptions::DEFAULT, row, &[], max_versions, &mut count).unwrap();
    count.0
}
fn shown(r: &Region, family: u32, row: &[u8], o: &ReadOptions) -> bool {
    r.get(None, o, Key { family, row, qual: b"q" }, &mut Bytes::default()).unwrap().is_some()
}
fn looked_at(call: impl FnOnce()) -> u64 {
    let before = cells_visited();
    call();
    cells_visited() - before
}

/// The rounds of each loop are the same to the end.
fn stays_few(rig: &Rig, told: &str, mut round: impl FnMut(&Region, u64)) {
    for i in 0..ROUNDS {
        let visited = looked_at(|| round(&rig.region, i));
        assert!(visited <= FEW, "{told}: {visited} cells in round {i}");
    }
}

#[test]
fn bug_22_loops_of_deletes_and_writes() {
    for config in ["", "seal_every_commits=4000"] {
        let rig = Rig::new(config);
        stays_few(&rig, "put, delete a column, get", |r, _| {
            write(r, b"column", 0);
            del(r, b"column", CF, Op::Delete);
            assert!(!shown(r, CF, b"column", &ReadOptions::DEFAULT));
        });
        stays_few(&rig, "put, delete the row, get", |r, _| {
            write(r, b"row", 0);
            del(r, b"row", 0, Op::DeleteRow);
            assert!(!shown(r, CF, b"row", &ReadOptions::DEFAULT));
        });
        stays_few(&rig, "delete the row, put, get the row", |r, _| {
            del(r, b"again", 0, Op::DeleteRow);
            write(r, b"again", 0);
            assert_eq!(row_len(r, b"again", 1), 1);
        });
        stays_few(&rig, "count, delete, count", |r, i| {
            assert_eq!(inc(r, b"counter", b"q", 1), 1, "round {i}");
            del(r, b"counter", CF, if i % 2 == 0 { Op::Delete } else { Op::DeleteFamily });
        });
        write(&rig.region, b"other family", 0);
        stays_few(&rig, "delete a family, get of another", |r, _| {
            del(r, b"other family", CF3, Op::DeleteFamily);
            assert!(shown(r, CF, b"other family", &ReadOptions::DEFAULT));
        });
        // A time range, which every version has to be judged for.
        stays_few(&rig, "put, delete a column, get of a time", |r, _| {
            write(r, b"range", 0);
            del(r, b"range", CF, Op::Delete);
            assert!(!shown(r, CF, b"range", &ReadOptions { min_ts: 1, ..ReadOptions::DEFAULT }));
        });
        let rig = rig.reopen();
        for row in [&b"column"[..], b"row", b"counter", b"range"] {
            let visited = looked_at(|| assert!(!shown(&rig.region, CF, row, &ReadOptions::DEFAULT)));
            assert!(visited <= FEW, "{} after a reopen: {visited}", row.escape_ascii());
        }
    }
}

// A value in the future is out of the reach of deletes until the clock has passed it; then they are final again.
#[test]
fn a_value_ahead_of_the_clock() {
    let rig = Rig::with_clock("", ManualClock::new(1_000, ClockUnit::Millis));
    let clock = rig.clock.clone().unwrap();
    write(&rig.region, b"r", 5_000);
    for i in 0..20 {
        clock.advance(1);
        write(&rig.region, b"r", 0);
        del(&rig.region, b"r", CF, Op::Delete);
        assert!(shown(&rig.region, CF, b"r", &ReadOptions::DEFAULT), "round {i}: the value ahead stays");
    }
    clock.advance(10_000);
    stays_few(&rig, "behind the value that was ahead", |r, i| {
        // Further than the row's own ticks go in a round.
        clock.advance(10);
        write(r, b"r", 0);
        del(r, b"r", CF, Op::Delete);
        // Now and then one more, a little ahead: the next delete does not reach it.
        if i % 100 == 50 {
            write(r, b"r", clock_now(&clock) + 100);
            del(r, b"r", CF, Op::Delete);
            assert!(shown(r, CF, b"r", &ReadOptions::DEFAULT));
            clock.advance(200);
            del(r, b"r", CF, Op::Delete);
        }
        assert!(!shown(r, CF, b"r", &ReadOptions::DEFAULT));
    });
}

fn clock_now(clock: &ManualClock) -> u64 {
    use region::clock::Clock as _;
    clock.now().0
}

#[test]
fn columns_that_are_overwritten() {
    let rig = Rig::new("");
    stays_few(&rig, "put over put", |r, _| {
        write(r, b"r", 0);
        assert!(shown(r, CF, b"r", &ReadOptions::DEFAULT));
        assert!(shown(r, CF, b"r", &ReadOptions { min_ts: 1, ..ReadOptions::DEFAULT }));
    });
    stays_few(&rig, "put over put behind a delete", |r, i| {
        if i == 0 {
            del(r, b"d", CF, Op::Delete);
        }
        write(r, b"d", 0);
        assert!(shown(r, CF, b"d", &ReadOptions::DEFAULT));
    });
    stays_few(&rig, "three versions", |r, i| {
        r.put(b"v", CF3, b"q", b"v", &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap();
        assert!(shown(r, CF3, b"v", &ReadOptions::DEFAULT));
        assert_eq!(row_len(r, b"v", 3), 3.min(i as usize + 1));
    });
    stays_few(&rig, "three versions of a counter behind a delete", |r, i| {
        if i == 0 {
            del(r, b"c", CF3, Op::Delete);
        }
        r.increment(b"c", CF3, b"q", 1, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap();
        assert!(shown(r, CF3, b"c", &ReadOptions::DEFAULT));
        assert_eq!(row_len(r, b"c", 3), 3.min(i as usize + 1));
    });
}
