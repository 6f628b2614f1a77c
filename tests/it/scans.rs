//! Scans: order, bounds, backward, versions, raw, limits, seeks, places kept over pauses.

use crate::rig::*;
use crate::scan_model::{Shown, take_all};
use region::cell::CellType;
use region::clock::ManualClock;
use region::error::ErrorKind;
use region::options::{FamilySpec, ReadOptions, WriteOptions};
use region::region::{ColumnFilter, CommitInfo, Filled, Op, ScanSpec, Scanner};
use std::sync::Arc;

pub fn put3(r: &region::region::Region, row: &[u8], qual: &[u8], value: &[u8]) -> CommitInfo {
    let mut info = CommitInfo::default();
    r.put(row, CF3, qual, value, &WriteOptions::DEFAULT, &mut info).unwrap();
    info
}
fn open(rig: &Rig, spec: &ScanSpec<'_>) -> Scanner {
    rig.region.scanner(None, &ReadOptions::DEFAULT, spec).unwrap()
}
fn rows(rig: &Rig, spec: &ScanSpec<'_>) -> Vec<String> {
    let mut rows: Vec<String> = take_all(&mut open(rig, spec)).iter().map(|c| c.row.escape_ascii().to_string()).collect();
    rows.dedup();
    rows
}
fn values(cells: &[Shown]) -> Vec<String> {
    cells.iter().map(|c| c.value.escape_ascii().to_string()).collect()
}
const REVERSE: ScanSpec<'static> = ScanSpec {
    flags: ScanSpec::REVERSE,
    start_row: b"",
    end_row: b"",
    row_prefix: b"",
    columns: &[],
    row_limit: 0,
    cell_limit: 0,
    max_versions: 0,
    cells_per_row: 0,
};

/// Rows in three segments, with gaps.
fn in_three_segments() -> Rig {
    let rig = Rig::new("");
    for (i, rows) in [["b", "f", "j"], ["a", "f", "k"], ["c", "g", "j"]].iter().enumerate() {
        for row in rows {
            put(&rig.region, row.as_bytes(), b"q", &[b'0' + i as u8]);
        }
        if i < 2 {
            rig.region.seal().unwrap();
        }
    }
    rig
}

#[test]
fn scn_10_reverse_begins_at_the_next_lower_row() {
    let rig = in_three_segments();
    let from = |start_row| rows(&rig, &ScanSpec { start_row, ..REVERSE });
    assert_eq!(from(b"i"), ["g", "f", "c", "b", "a"], "an absent start row");
    assert_eq!(from(b"g"), ["g", "f", "c", "b", "a"]);
    assert_eq!(from(b"f\0"), ["f", "c", "b", "a"]);
    assert_eq!(from(b""), ["k", "j", "g", "f", "c", "b", "a"], "from the end");
    assert_eq!(from(b"zz"), ["k", "j", "g", "f", "c", "b", "a"]);
    assert_eq!(from(b"a"), ["a"]);
    assert_eq!(from(b"A"), [""; 0]);
    // The newest value of a row that two segments have.
    assert_eq!(values(&take_all(&mut open(&rig, &ScanSpec { row_limit: 2, ..REVERSE }))), ["1", "2"]);
}

#[test]
fn scn_08_bounds_forward_and_backward() {
    let rig = Rig::new("");
    for row in [&b"a"[..], b"a\0", b"aa", b"a\xff", b"b", b"\xff", b"\xff\xff", b"\0"] {
        put(&rig.region, row, b"q", b"v");
    }
    for sealed in [false, true] {
        let both = ScanSpec::INCLUSIVE_END;
        let bounds = |flags, start_row, end_row| rows(&rig, &ScanSpec { flags, start_row, end_row, ..ScanSpec::default() });
        assert_eq!(bounds(0, b"a", b"a"), [""; 0]);
        assert_eq!(bounds(both, b"a", b"a"), ["a"]);
        assert_eq!(bounds(ScanSpec::EXCLUSIVE_START | both, b"a", b"aa"), ["a\\x00", "aa"]);
        assert_eq!(bounds(ScanSpec::EXCLUSIVE_START, b"a", b"a\0"), [""; 0]);
        assert_eq!(bounds(0, b"b", b"a"), [""; 0], "a start behind the end");
        let reverse = ScanSpec::REVERSE;
        assert_eq!(bounds(reverse, b"b", b"a"), ["b", "a\\xff", "aa", "a\\x00"]);
        assert_eq!(bounds(reverse | both, b"aa", b"a"), ["aa", "a\\x00", "a"]);
        assert_eq!(bounds(reverse | both | ScanSpec::EXCLUSIVE_START, b"aa", b"a"), ["a\\x00", "a"]);
        assert_eq!(bounds(reverse, b"a", b"b"), [""; 0]);
        let prefix = |flags, start_row, row_prefix| rows(&rig, &ScanSpec { flags, start_row, row_prefix, ..ScanSpec::default() });
        assert_eq!(prefix(0, b"", b"a"), ["a", "a\\x00", "aa", "a\\xff"]);
        assert_eq!(prefix(0, b"a\0", b"a"), ["a\\x00", "aa", "a\\xff"]);
        assert_eq!(prefix(0, b"b", b"a"), [""; 0]);
        assert_eq!(prefix(reverse, b"", b"a"), ["a\\xff", "aa", "a\\x00", "a"]);
        assert_eq!(prefix(reverse, b"aa", b"a"), ["aa", "a\\x00", "a"]);
        assert_eq!(prefix(reverse, b"b", b"a"), ["a\\xff", "aa", "a\\x00", "a"], "the start lies behind the prefix");
        assert_eq!(prefix(reverse, b"\0", b"a"), [""; 0]);
        assert_eq!(prefix(reverse, b"", b"\xff"), ["\\xff\\xff", "\\xff"]);
        if !sealed {
            rig.region.seal().unwrap();
        }
    }
}

/// SCN-07: only the stop row has the column.
#[test]
fn scn_07_the_stop_row_is_beyond() {
    let rig = Rig::new("");
    put(&rig.region, b"row333", b"other", b"v");
    put(&rig.region, b"row444", b"q", b"v");
    let columns = [ColumnFilter::Exact(CF, b"q")];
    let spec = ScanSpec { start_row: b"row333", end_row: b"row444", columns: &columns, ..ScanSpec::default() };
    assert_eq!(rows(&rig, &spec), [""; 0]);
    assert_eq!(rows(&rig, &ScanSpec { flags: ScanSpec::INCLUSIVE_END, ..spec }), ["row444"]);
}

/// SCN-13 without explicit timestamps: the newest value of a column that several segments have, one version.
#[test]
fn scn_13_one_version_over_segments() {
    let rig = Rig::new("");
    for value in [b"1", b"2", b"3"] {
        put(&rig.region, b"row", b"q", value);
        rig.region.seal().unwrap();
    }
    assert_eq!(values(&take_all(&mut open(&rig, &ScanSpec::default()))), ["3"]);
    assert_eq!(values(&take_all(&mut open(&rig, &ScanSpec { max_versions: 9, ..ScanSpec::default() }))), ["3"]);
}

#[test]
fn scn_15_a_scanner_of_a_closed_region() {
    let rig = in_three_segments();
    let mut s = open(&rig, &ScanSpec::default());
    s.next().unwrap().unwrap();
    rig.region.close(region::region::CloseFlags { force: true, no_flush: false }, LONG).unwrap();
    assert_eq!(s.next().map(|c| c.is_some()).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(s.seek(b"a").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(s.fill(false, |_| true).unwrap_err().kind(), ErrorKind::Closed);
}

/// SCN-18: the first timestamp is in, the last one out; a range of nothing shows nothing.
#[test]
fn scn_18_time_range() {
    let rig = Rig::new("");
    let times: Vec<u64> = (0..4).map(|i| put3(&rig.region, b"row", b"q", &[b'0' + i]).timestamp).collect();
    let within = |min_ts, max_ts, max_versions| {
        let o = ReadOptions { min_ts, max_ts, ..ReadOptions::DEFAULT };
        let spec = ScanSpec { max_versions, ..ScanSpec::default() };
        rig.region.scanner(None, &o, &spec).map(|mut s| values(&take_all(&mut s)))
    };
    for _ in 0..2 {
        assert_eq!(within(times[1], times[3], 9).unwrap(), ["2", "1"]);
        assert_eq!(within(times[1], times[3], 1).unwrap(), ["2"]);
        assert_eq!(within(times[2], times[2], 9).unwrap(), [""; 0]);
        // What left by versions is not found again by asking for its time.
        assert_eq!(within(times[0], times[1], 9).unwrap(), [""; 0]);
        assert_eq!(within(times[3], 0, 9).unwrap(), ["3"]);
        assert_eq!(kind(within(times[3], times[1], 9)), ErrorKind::Invalid);
        rig.region.seal().unwrap();
    }
}

/// SCN-21: lengths at their limits, and empty ones.
#[test]
fn scn_21_rows_of_any_bytes() {
    let rig = Rig::new("");
    let long = vec![0xff; 32_767];
    put(&rig.region, &long, b"q", b"long");
    put(&rig.region, b"\0\0", b"", b"");
    put(&rig.region, b"\0", b"\0", b"v");
    assert_eq!(rows(&rig, &ScanSpec::default()).len(), 3);
    assert_eq!(values(&take_all(&mut open(&rig, &REVERSE))), ["long", "", "v"]);
    assert_eq!(values(&take_all(&mut open(&rig, &ScanSpec { start_row: &long, ..REVERSE }))), ["long", "", "v"]);
    let beyond = ScanSpec { start_row: &long, flags: ScanSpec::EXCLUSIVE_START, ..ScanSpec::default() };
    assert_eq!(rows(&rig, &beyond), [""; 0]);
    let too_long = vec![b'x'; 32_768];
    let refused = |spec: &ScanSpec<'_>| rig.region.scanner(None, &ReadOptions::DEFAULT, spec).map(drop).unwrap_err().kind();
    assert_eq!(refused(&ScanSpec { start_row: &too_long, ..ScanSpec::default() }), ErrorKind::TooLarge);
    assert_eq!(open(&rig, &ScanSpec::default()).seek(&too_long).unwrap_err().kind(), ErrorKind::TooLarge);
}

/// VER-01 without explicit timestamps: 3 are kept, whatever is asked for; best first; before and after seals and a reopen.
#[test]
fn ver_01_three_versions_are_kept() {
    for seals in [false, true] {
        let mut rig = Rig::new("");
        for i in 0..5 {
            put3(&rig.region, b"row", b"q", &[b'1' + i]);
            if seals {
                rig.region.seal().unwrap();
            }
        }
        for _ in 0..2 {
            let versions = |max_versions| values(&take_all(&mut open(&rig, &ScanSpec { max_versions, ..ScanSpec::default() })));
            assert_eq!(versions(10), ["5", "4", "3"]);
            assert_eq!(versions(2), ["5", "4"]);
            assert_eq!(versions(0), ["5"]);
            rig = rig.reopen();
        }
    }
}

/// INC-30: three increments leave three versions.
#[test]
fn inc_30_versions_of_a_counter() {
    let rig = Rig::new("");
    for i in 0..6 {
        rig.region.increment(b"row", CF3, b"n", 1, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap();
        if i == 3 {
            rig.region.seal().unwrap();
        }
    }
    let seen = take_all(&mut open(&rig, &ScanSpec { max_versions: 9, ..ScanSpec::default() }));
    assert_eq!(seen.iter().map(|c| number(&c.value)).collect::<Vec<_>>(), [6, 5, 4]);
    assert!(seen.windows(2).all(|w| w[0].ts > w[1].ts && w[0].seq > w[1].seq));
}

/// A pause between two versions of a column, and writes meanwhile: the scan goes on with the next version of its instant.
#[test]
fn a_page_may_end_between_two_versions() {
    for seals in [false, true] {
        let rig = Rig::new("");
        for i in 0..3 {
            put3(&rig.region, b"row", b"q", &[b'1' + i]);
            put3(&rig.region, b"row", b"r", &[b'a' + i]);
            if seals {
                rig.region.seal().unwrap();
            }
        }
        let mut s = open(&rig, &ScanSpec { max_versions: 3, ..ScanSpec::default() });
        let mut seen = Vec::new();
        loop {
            let mut room = 1;
            let filled = s.fill(false, |c| {
                room -= 1;
                room == 0 && {
                    seen.push(c.value.to_vec());
                    true
                }
            });
            if !matches!(filled.unwrap(), Filled::Full) {
                break;
            }
            put3(&rig.region, b"row", b"q", b"later");
            put3(&rig.region, b"row", b"r", b"later");
            if seals {
                rig.region.seal().unwrap();
            }
        }
        assert_eq!(seen.concat(), b"321cba");
    }
}

/// KDC-02: everything stored, with its markers; KDC-04: and never with columns.
#[test]
fn kdc_02_kdc_04_raw_scans() {
    let rig = Rig::new("");
    let mut info = CommitInfo::default();
    let first = put3(&rig.region, b"row", b"q", b"1");
    let second = put3(&rig.region, b"row", b"q", b"2");
    rig.region.delete(b"row", CF3, b"q", Op::Delete, &WriteOptions::DEFAULT, &mut info).unwrap();
    let third = put3(&rig.region, b"row", b"q", b"3");
    let raw = |max_versions| ScanSpec { flags: ScanSpec::RAW, max_versions, ..ScanSpec::default() };
    for _ in 0..2 {
        let seen = take_all(&mut open(&rig, &raw(9)));
        let told: Vec<_> = seen.iter().map(|c| (c.kind, c.ts, c.seq)).collect();
        let put = |i: &CommitInfo| (CellType::Put, i.timestamp, i.seq);
        assert_eq!(told, [put(&third), (CellType::Delete, info.timestamp, info.seq), put(&second), put(&first)]);
        assert_eq!(values(&seen), ["3", "", "2", "1"]);
        // One value, and all markers.
        assert_eq!(values(&take_all(&mut open(&rig, &raw(0)))), ["3", ""]);
        let o = ReadOptions { min_ts: second.timestamp, max_ts: third.timestamp, ..ReadOptions::DEFAULT };
        let mut ranged = rig.region.scanner(None, &o, &raw(9)).unwrap();
        assert_eq!(values(&take_all(&mut ranged)), ["", "2"]);
        rig.region.seal().unwrap();
    }
    let columns = [ColumnFilter::Family(CF3)];
    let spec = ScanSpec { columns: &columns, ..raw(1) };
    assert_eq!(rig.region.scanner(None, &ReadOptions::DEFAULT, &spec).map(drop).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn limits_of_rows_cells_and_cells_per_row() {
    let rig = Rig::new("");
    for row in 0..4u8 {
        for q in 0..40u8 {
            put(&rig.region, &[b'r', row], &[q], &[row, q]);
        }
    }
    for flags in [0, ScanSpec::REVERSE] {
        let count = |row_limit, cell_limit, cells_per_row| {
            take_all(&mut open(&rig, &ScanSpec { flags, row_limit, cell_limit, cells_per_row, ..ScanSpec::default() }))
        };
        assert_eq!(count(2, 0, 0).len(), 80);
        assert_eq!(count(0, 81, 0).len(), 81);
        let seen = count(3, 0, 2);
        assert_eq!(seen.iter().map(|c| (c.new_row, c.row_end)).collect::<Vec<_>>(), [(true, false), (false, true)].repeat(3));
        assert_eq!(count(0, 5, 2).len(), 5);
        // Cut by the limit, not ended.
        let cut = count(0, 41, 0);
        assert!(cut[39].row_end && cut[40].new_row && !cut[40].row_end);
    }
}

/// Seeks go on from anywhere, and cells that were read ahead but not given out count for nothing.
#[test]
fn seek_forward_and_backward() {
    let rig = in_three_segments();
    let mut s = open(&rig, &ScanSpec { row_limit: 3, ..ScanSpec::default() });
    assert_eq!(s.next().unwrap().unwrap().row, b"a");
    s.seek(b"h").unwrap();
    assert_eq!(s.next().unwrap().unwrap().row, b"j");
    s.seek(b"b").unwrap();
    assert_eq!(s.next().unwrap().unwrap().row, b"b");
    assert!(s.next().unwrap().is_none(), "three rows were given out");
    let mut s = open(&rig, &ScanSpec { start_row: b"j", end_row: b"b", ..REVERSE });
    assert_eq!(s.next().unwrap().unwrap().row, b"j");
    s.seek(b"h").unwrap();
    assert_eq!(s.next().unwrap().unwrap().row, b"g");
    s.seek(b"zz").unwrap();
    assert_eq!(s.next().unwrap().unwrap().row, b"j", "not behind the start");
    s.seek(b"b").unwrap();
    assert!(s.next().unwrap().is_none(), "not to the end row");
}

/// A wide row: what is not asked for is not looked at, so the read of one column costs less than the read of all by far more than it could by chance.
#[test]
fn a_wide_row_is_sought_through() {
    const COLUMNS: u32 = 60_000;
    let rig = Rig::new("");
    for batch in 0..COLUMNS / 1000 {
        let quals: Vec<_> = (0..1000).map(|i| (batch * 1000 + i).to_be_bytes()).collect();
        done(&rig.region, quals.iter().map(|q| op_put(b"wide", q, b"v")).collect(), &WriteOptions::DEFAULT);
    }
    put(&rig.region, b"x", b"q", b"v");
    let time = |spec: &ScanSpec<'_>, cells: usize| {
        let mut best = u128::MAX;
        for _ in 0..5 {
            let began = std::time::Instant::now();
            assert_eq!(take_all(&mut open(&rig, spec)).len(), cells);
            best = best.min(began.elapsed().as_nanos());
        }
        best
    };
    let (last, first) = ((COLUMNS - 1).to_be_bytes(), 3u32.to_be_bytes());
    let columns = [ColumnFilter::Exact(CF, &last), ColumnFilter::Exact(CF, &first), ColumnFilter::Prefix(CF, &[0, 0, 5, 5])];
    for flags in [0, ScanSpec::REVERSE] {
        let all = time(&ScanSpec { flags, ..ScanSpec::default() }, COLUMNS as usize + 1);
        let one = time(&ScanSpec { flags, columns: &columns, ..ScanSpec::default() }, 3);
        assert!(one < all / 20, "3 of {COLUMNS} columns took {one} ns, all of them {all} ns");
        let rows = time(&ScanSpec { flags, cells_per_row: 1, ..ScanSpec::default() }, 2);
        assert!(rows < all / 20, "one cell per row took {rows} ns, all {all} ns");
    }
}

/// VER-09, as far as reads go: a cell whose time is over is not shown, in gets, scans and rows, whatever was sealed.
#[test]
fn ver_09_expired_cells_are_not_shown() {
    let clock = ManualClock::new(1_000_000_000, region::clock::ClockUnit::Nanos);
    let rig = Rig::with_clock("", clock);
    let clock = Arc::clone(rig.clock.as_ref().unwrap());
    let family =
        |min_versions| FamilySpec { ttl_ms: 10_000, max_versions: 3, min_versions, ..FamilySpec::named(format!("ttl{min_versions}")) };
    let (plain, one) = (rig.region.family_set(family(0)).unwrap().0, rig.region.family_set(family(1)).unwrap().0);
    let put = |family, value: &[u8]| {
        rig.region.put(b"row", family, b"q", value, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap();
    };
    put(plain, b"1");
    put(one, b"1");
    clock.set(6_000_000_000);
    put(plain, b"2");
    put(one, b"2");
    rig.region.seal().unwrap();
    let all = || values(&take_all(&mut open(&rig, &ScanSpec { max_versions: 3, ..ScanSpec::default() })));
    assert_eq!(all(), ["2", "1", "2", "1"]);
    clock.set(11_500_000_000);
    assert_eq!(all(), ["2", "2"]);
    let mut fixed = open(&rig, &ScanSpec::default());
    clock.set(17_000_000_000);
    assert_eq!(all(), ["2"], "the least number of versions stays");
    assert_eq!(values(&take_all(&mut fixed)), ["2", "2"], "a scan's clock stands still");
}
