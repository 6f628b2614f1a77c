//! Rows read whole, keys of one row read together, deleted cells that are kept, values that outlive their read.

use crate::rig::*;
use crate::scan_model::{Shown, take_all};
use region::cell::CellType;
use region::error::{ErrorKind, Result};
use region::options::{FamilySpec, ReadOptions, WriteOptions};
use region::region::{ColumnFilter, CommitInfo, Key, Keys, Op, Pinned, Region, RowSink, ScanCell, ScanSpec, Snapshot, ValueSink};
use std::sync::atomic::{AtomicI64, Ordering};

#[derive(Default)]
struct Cells(Vec<Shown>);
impl RowSink for Cells {
    fn restart(&mut self) {
        self.0.clear();
    }
    fn cell(&mut self, cell: &ScanCell<'_>) {
        self.0.push(Shown::of(cell));
    }
}

fn row_at(
    r: &Region,
    at: Option<&Snapshot>,
    o: &ReadOptions,
    row: &[u8],
    columns: &[ColumnFilter<'_>],
    versions: u32,
) -> Result<Vec<Shown>> {
    let mut sink = Cells::default();
    r.get_row(at, o, row, columns, versions, &mut sink).map(|()| sink.0)
}
fn row(r: &Region, row: &[u8], columns: &[ColumnFilter<'_>]) -> Vec<(u32, String, String)> {
    let text = |b: &[u8]| b.escape_ascii().to_string();
    let cells = row_at(r, None, &ReadOptions::DEFAULT, row, columns, 1).unwrap();
    cells.iter().map(|c| (c.family, text(&c.qual), text(&c.value))).collect()
}
fn cell(family: u32, qual: &str, value: &str) -> (u32, String, String) {
    (family, qual.into(), value.into())
}
fn put_in(r: &Region, family: u32, row: &[u8], qual: &[u8], value: &[u8], timestamp: u64) {
    let o = WriteOptions { timestamp, ..WriteOptions::DEFAULT };
    r.put(row, family, qual, value, &o, &mut CommitInfo::default()).unwrap();
}
fn delete_in(r: &Region, family: u32, row: &[u8], qual: &[u8], op: Op, timestamp: u64) {
    let o = WriteOptions { timestamp, ..WriteOptions::DEFAULT };
    r.delete(row, family, qual, op, &o, &mut CommitInfo::default()).unwrap();
}

/// SCN-01, SCN-02, SCN-04: the named columns in order; none named = all; an absent row shows nothing; an unknown family is an error.
#[test]
fn scn_02_scn_04_rows_and_columns() {
    let rig = Rig::new("");
    let r = &rig.region;
    for (family, qual) in [(CF, "d"), (CF, "a"), (CF3, "b"), (CF, "c"), (OTHER, "e")] {
        put_in(r, family, b"row", qual.as_bytes(), qual.as_bytes(), 0);
    }
    put_in(r, CF, b"row0", b"x", b"x", 0);
    for _ in 0..2 {
        assert_eq!(
            row(r, b"row", &[ColumnFilter::Exact(CF, b"d"), ColumnFilter::Exact(CF, b"a")]),
            [cell(CF, "a", "a"), cell(CF, "d", "d")]
        );
        let all = [cell(CF, "a", "a"), cell(CF, "c", "c"), cell(CF, "d", "d"), cell(CF3, "b", "b"), cell(OTHER, "e", "e")];
        assert_eq!(row(r, b"row", &[]), all);
        assert_eq!(row(r, b"row", &[ColumnFilter::Family(OTHER), ColumnFilter::Range(CF, b"b", b"d")]), [all[1].clone(), all[4].clone()]);
        assert_eq!(row(r, b"ro", &[]), []);
        assert_eq!(row(r, b"row", &[ColumnFilter::Exact(CF, b"none")]), []);
        r.seal().unwrap();
    }
    let read = |row: &[u8], columns: &[ColumnFilter<'_>]| kind(row_at(r, None, &ReadOptions::DEFAULT, row, columns, 1));
    assert_eq!(read(b"row", &[ColumnFilter::Family(99)]), ErrorKind::NoFamily);
    assert_eq!(read(b"", &[]), ErrorKind::Invalid);
    let o = ReadOptions { min_ts: 5, max_ts: 4, ..ReadOptions::DEFAULT };
    assert_eq!(kind(row_at(r, None, &o, b"row", &[], 1)), ErrorKind::Invalid);
}

/// DEL-05, DEL-08: what a delete of one family, of one time, of the row takes, in every segment.
#[test]
fn del_05_del_08_families_and_times() {
    for seals in [false, true] {
        let rig = Rig::new("");
        let r = &rig.region;
        let seal = || {
            if seals {
                r.seal().unwrap()
            }
        };
        for (ts, qual) in [(4, b"a"), (5, b"b"), (6, b"c")] {
            put_in(r, CF, b"row", qual, b"v", ts);
            put_in(r, OTHER, b"row", qual, b"v", ts);
            seal();
        }
        delete_in(r, CF, b"row", b"", Op::DeleteFamilyVersion, 5);
        seal();
        let named = |family| row(r, b"row", &[ColumnFilter::Family(family)]).into_iter().map(|c| c.1).collect::<String>();
        assert_eq!(named(CF), "ac");
        // A walk that begins behind the family's first column knows its markers, too.
        assert_eq!(row(r, b"row", &[ColumnFilter::Exact(CF, b"b")]), []);
        assert_eq!(row(r, b"row", &[ColumnFilter::Exact(OTHER, b"b")]).len(), 1);
        delete_in(r, CF, b"row", b"", Op::DeleteFamily, 0);
        seal();
        assert_eq!((named(CF), named(OTHER)), (String::new(), "abc".into()));
        put_in(r, CF, b"row", b"b", b"again", 0);
        assert_eq!(named(CF), "b");
        delete_in(r, 0, b"row", b"", Op::DeleteRow, 0);
        seal();
        assert_eq!(row(r, b"row", &[]), []);
        put_in(r, OTHER, b"row", b"n", b"again", 0);
        assert_eq!(row(r, b"row", &[]), [cell(OTHER, "n", "again")]);
        let raw = ScanSpec { flags: ScanSpec::RAW, max_versions: 9, ..ScanSpec::default() };
        let stored = take_all(&mut r.scanner(None, &ReadOptions::DEFAULT, &raw).unwrap());
        let markers = stored.iter().filter(|c| c.family == CF && c.kind != CellType::Put).map(|c| c.kind).collect::<Vec<_>>();
        assert_eq!(markers, [CellType::DeleteFamily, CellType::DeleteFamily, CellType::DeleteFamilyVersion]);
        assert_eq!(stored.iter().filter(|c| c.kind == CellType::Put).count(), 8);
    }
}

/// A batch that pauses within a family of many columns knows the family's markers afterwards.
#[test]
fn markers_of_a_family_outlive_a_pause() {
    for seals in [false, true] {
        let rig = Rig::new("");
        let r = &rig.region;
        for i in 0..100u32 {
            put_in(r, CF, b"row", &i.to_be_bytes(), b"old", 10);
        }
        if seals {
            r.seal().unwrap();
        }
        delete_in(r, CF, b"row", b"", Op::DeleteFamily, 20);
        put_in(r, CF, b"row", &50u32.to_be_bytes(), b"new", 15);
        put_in(r, CF, b"row", &70u32.to_be_bytes(), b"new", 30);
        let mut s = r.scanner(None, &ReadOptions::DEFAULT, &ScanSpec::default()).unwrap();
        let mut seen = Vec::new();
        for _ in 0..4 {
            let mut room = 1;
            s.fill(false, |c| {
                room -= 1;
                room == 0 && {
                    seen.push(c.qual.to_vec());
                    true
                }
            })
            .unwrap();
        }
        assert_eq!(seen, [50u32.to_be_bytes(), 70u32.to_be_bytes()]);
    }
}

/// KDC-01, KDC-03, KDC-10: who keeps deleted cells shows them to who asks for a time before the delete; each family by its own settings.
#[test]
fn kdc_01_kdc_03_kdc_10_the_time_before_a_delete() {
    for seals in [false, true] {
        let rig = Rig::new("");
        let r = &rig.region;
        let keeps = FamilySpec { max_versions: 3, flags: FamilySpec::KEEP_DELETED, ..FamilySpec::named("keeps") };
        let keeps = r.family_set(keeps).unwrap().0;
        for family in [keeps, CF3] {
            put_in(r, family, b"row", b"q", b"1", 10);
            put_in(r, family, b"row", b"q", b"2", 20);
        }
        if seals {
            r.seal().unwrap();
        }
        delete_in(r, 0, b"row", b"", Op::DeleteRow, 30);
        let shown = |max_ts| {
            let o = ReadOptions { max_ts, ..ReadOptions::DEFAULT };
            let cells = row_at(r, None, &o, b"row", &[], 9).unwrap();
            let mut scanner = r.scanner(None, &o, &ScanSpec { max_versions: 9, ..ScanSpec::default() }).unwrap();
            let strip = |cells: Vec<Shown>| cells.into_iter().map(|c| (c.family, c.ts)).collect::<Vec<_>>();
            let cells = strip(cells);
            assert_eq!(cells, strip(take_all(&mut scanner)), "a row and a scan differ");
            cells
        };
        assert_eq!(shown(0), []);
        assert_eq!(shown(31), []);
        assert_eq!(shown(30), [(keeps, 20), (keeps, 10)]);
        assert_eq!(shown(20), [(keeps, 10)]);
    }
}

/// P-V2: a row is read at one cut, whatever is written meanwhile; so are the consecutive keys of one row.
#[test]
fn p_v2_rows_and_keys_of_a_row_at_one_cut() {
    struct Names;
    impl Keys for Names {
        fn len(&self) -> usize {
            3
        }
        fn get(&self, i: usize) -> Key<'_> {
            Key { family: CF, row: b"row", qual: [b"q1", b"q2", b"q3"][i] }
        }
    }
    for config in ["", "seal_every_commits=13"] {
        let rig = Rig::new(config);
        let r = &rig.region;
        let running = AtomicI64::new(3);
        std::thread::scope(|s| {
            for _ in 0..3 {
                let running = &running;
                s.spawn(move || {
                    let _ends = Ends(running);
                    for _ in 0..300 {
                        inc_row(r, b"row", &[(b"q1", 1), (b"q2", 2), (b"q3", 3)]);
                    }
                });
            }
            let whole = |values: &[i64]| {
                assert!(values.is_empty() || values[1..] == [2 * values[0], 3 * values[0]], "half a commit: {values:?}");
            };
            let mut reads = 0;
            while running.load(Ordering::Relaxed) > 0 || reads == 0 {
                let cells = row_at(r, None, &ReadOptions::DEFAULT, b"row", &[], 1).unwrap();
                whole(&cells.iter().map(|c| number(&c.value)).collect::<Vec<_>>());
                let (mut values, mut counters) = (Vec::new(), Vec::new());
                r.get_many(None, &ReadOptions::DEFAULT, &Names, 1 << 20, &mut |_, found| {
                    values.extend(found.map(|f| number(f.1)));
                    true
                })
                .unwrap();
                whole(&values);
                r.counter_get_many(None, &ReadOptions::DEFAULT, &Names, &mut |_, found| counters.extend(found.unwrap().map(|c| c.0)))
                    .unwrap();
                whole(&counters);
                reads += 1;
            }
        });
        assert_eq!(number(&row_at(r, None, &ReadOptions::DEFAULT, b"row", &[], 1).unwrap()[2].value), 2700);
    }
}

/// Pins whatever it is given.
#[derive(Default)]
struct Pins(Option<Box<dyn Pinned>>);
impl ValueSink for Pins {
    fn fits(&mut self, _: usize) -> Option<&mut [u8]> {
        None
    }
    fn pin(&mut self, value: Box<dyn Pinned>) {
        self.0 = Some(value);
    }
}

/// A pinned value is read where it lies, keeps its segment over seals and the region's end, and gives its memory back with the last pin.
#[test]
fn pinned_values_lie_in_their_segment() {
    let rig = Rig::new("");
    let r = &rig.region;
    let long: Vec<u8> = (0..200_000u32).map(|i| i as u8).collect();
    put(r, b"row", b"long", &long);
    put(r, b"row", b"short", b"bytes");
    inc(r, b"row", b"n", 7);
    let pin = |qual: &[u8]| {
        let mut sink = Pins::default();
        r.get(None, &ReadOptions::DEFAULT, Key { family: CF, row: b"row", qual }, &mut sink).unwrap().unwrap();
        sink.0.unwrap()
    };
    let (a, b, short, n) = (pin(b"long"), pin(b"long"), pin(b"short"), pin(b"n"));
    assert_eq!(a.bytes().as_ptr(), b.bytes().as_ptr(), "both are the value itself");
    assert_eq!((short.bytes(), n.bytes()), (&b"bytes"[..], &7i64.to_be_bytes()[..]));
    let stats = r.stats().unwrap();
    assert_eq!((stats.pinned_values, stats.pinned_bytes), (4, 2 * 200_000 + 5 + 8));
    inc(r, b"row", b"n", 1);
    put(r, b"row", b"long", b"other");
    r.seal().unwrap();
    assert_eq!(n.bytes(), 7i64.to_be_bytes(), "a counter's value was copied");
    drop((b, short));
    let pool = std::sync::Arc::clone(&rig.pool);
    r.close(region::region::CloseFlags { force: true, no_flush: false }, LONG).unwrap();
    drop(rig);
    assert_eq!(a.bytes(), long, "after the end of the region");
    assert!(pool.stats().in_use > 0);
    drop((a, n));
    assert_eq!(pool.stats().in_use, 0, "with the last pin its memory went back");
}
