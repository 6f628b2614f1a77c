//! Scenarios SCN-*, VER-*, KDC-09, MEM-*, at the level of the region. Each is named by its id. What they say of flushes is tried with seals and reopens; what
//! needs store files is told in docs/testing.md.

use crate::rig::*;
use crate::scan_model::{Shown, take_all};
use region::cell::CellType;
use region::clock::{ClockUnit, ManualClock};
use region::error::ErrorKind;
use region::options::{FamilySpec, ReadOptions, RegionOptions, WriteOptions};
use region::region::{CloseFlags, ColumnFilter, CommitInfo, Filled, Key, Op, Region, RowSink, ScanCell, ScanSpec, Scanner};
use std::sync::atomic::{AtomicI64, Ordering};

fn put_at(r: &Region, family: u32, qual: &[u8], timestamp: u64, value: &[u8]) {
    let o = WriteOptions { timestamp, ..WriteOptions::DEFAULT };
    r.put(b"r", family, qual, value, &o, &mut CommitInfo::default()).unwrap();
}
fn delete_at(r: &Region, what: Op, family: u32, qual: &[u8], timestamp: u64) {
    let o = WriteOptions { timestamp, ..WriteOptions::DEFAULT };
    r.delete(b"r", family, qual, what, &o, &mut CommitInfo::default()).unwrap();
}
fn open(r: &Region, spec: &ScanSpec<'_>) -> Scanner {
    r.scanner(None, &ReadOptions::DEFAULT, spec).unwrap()
}
fn family(r: &Region, spec: FamilySpec) -> u32 {
    r.family_set(FamilySpec { name: b"made".to_vec(), ..spec }).unwrap().0
}
/// Timestamps of all versions that a scan shows of a family, best first.
fn versions(r: &Region, family: u32, o: &ReadOptions) -> Vec<u64> {
    let columns = [ColumnFilter::Family(family)];
    let mut scanner = r.scanner(None, o, &ScanSpec { max_versions: 99, columns: &columns, ..ScanSpec::default() }).unwrap();
    take_all(&mut scanner).iter().map(|c| c.ts).collect()
}
/// The same answers now, after a seal, and after a reopen.
fn in_any_state(rig: Rig, look: impl Fn(&Region)) {
    look(&rig.region);
    rig.region.seal().unwrap();
    look(&rig.region);
    look(&rig.reopen().region);
}
const ALL: ReadOptions = ReadOptions::DEFAULT;

/// At most so many cells of a row.
#[test]
fn scn_03() {
    let rig = Rig::new("");
    for qual in [b"a", b"b", b"c", b"d"] {
        put(&rig.region, b"r", qual, b"v");
        put(&rig.region, b"s", qual, b"v");
    }
    in_any_state(rig, |r| {
        let seen = take_all(&mut open(r, &ScanSpec { cells_per_row: 2, start_row: b"r", end_row: b"s", ..ScanSpec::default() }));
        assert_eq!(seen.iter().map(|c| &c.qual[..]).collect::<Vec<_>>(), [b"a", b"b"]);
        assert!(seen[1].row_end);
    });
}

/// A read of a row outside the key range.
#[test]
fn scn_05() {
    let dir = tempfile::tempdir().unwrap();
    let options = RegionOptions { start_row: b"x".to_vec(), end_row: b"z".to_vec(), ..crate::verbs::options() };
    let r = Region::open(&dir.path().join("r"), options, None, None).unwrap();
    for row in [&b"a"[..], b"z", b"w\xff"] {
        let e = r.get(None, &ALL, Key { family: CF, row, qual: b"q" }, &mut Bytes::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Range, "{e}");
    }
    assert_eq!((get(&r, b"x", b"q"), get(&r, b"y\xff", b"q")), (None, None));
    close(&r);
}

/// There are no filters that reject; what several families' columns are asked for in whatever order comes by family, and rows that have none of them do not come.
#[test]
fn scn_11() {
    let rig = Rig::new("");
    for i in 0..6u8 {
        let families: &[u32] = if i % 2 == 0 { &[OTHER, CF3, CF] } else { &[CF3] };
        for f in families {
            done(&rig.region, vec![in_family(*f, op_put(&[i], b"q", &[i]))], &WriteOptions::DEFAULT);
        }
    }
    in_any_state(rig, |r| {
        let columns = [ColumnFilter::Exact(OTHER, b"q"), ColumnFilter::Family(CF)];
        let seen = take_all(&mut open(r, &ScanSpec { columns: &columns, ..ScanSpec::default() }));
        assert_eq!(seen.iter().map(|c| (c.row[0], c.family)).collect::<Vec<_>>(), [0, 2, 4].map(|i| [(i, CF), (i, OTHER)]).concat());
    });
}

/// Reads of every kind beside a close: what was written, or "closed".
#[test]
fn scn_16() {
    for _ in 0..5 {
        let rig = Rig::new("seal_every_commits=20");
        for i in 0..100u8 {
            put(&rig.region, &[i], b"q", &[i; 50]);
        }
        let begun = AtomicI64::new(0);
        std::thread::scope(|s| {
            for t in 0..4u8 {
                let (r, begun) = (&rig.region, &begun);
                s.spawn(move || {
                    let mut reads = 0u64;
                    let e = loop {
                        let row = [(t.wrapping_mul(31)).wrapping_add(reads as u8) % 100];
                        let mut value = Bytes::default();
                        let read = if t % 2 == 0 {
                            r.get(None, &ALL, Key { family: CF, row: &row, qual: b"q" }, &mut value).map(|f| f.is_some())
                        } else {
                            r.scanner(None, &ALL, &ScanSpec { start_row: &row, ..ScanSpec::default() }).and_then(|mut s| {
                                let cell = s.next()?;
                                Ok(cell.is_some_and(|c| {
                                    value.0 = c.value.to_vec();
                                    true
                                }))
                            })
                        };
                        match read {
                            Ok(found) => assert!(found && value.0 == [row[0]; 50], "{row:?}"),
                            Err(e) => break e,
                        }
                        reads += 1;
                        if reads == 20 {
                            begun.fetch_add(1, Ordering::Relaxed);
                        }
                    };
                    assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
                });
            }
            while begun.load(Ordering::Relaxed) < 4 {
                std::thread::yield_now();
            }
            rig.region.close(CloseFlags { force: true, no_flush: false }, LONG).unwrap();
        });
    }
}

/// A page that is full in the middle of a row: it ends there and the next one goes on, or the row waits for the next page as a whole.
#[test]
fn scn_19() {
    let rig = Rig::new("");
    for row in [b"a", b"b", b"c"] {
        for qual in [b"1", b"2", b"3", b"4"] {
            put(&rig.region, row, qual, b"v");
        }
    }
    in_any_state(rig, |r| {
        for whole_rows in [false, true] {
            let mut scanner = open(r, &ScanSpec::default());
            let mut pages: Vec<Vec<Shown>> = Vec::new();
            loop {
                let mut page = Vec::new();
                let filled = scanner.fill(whole_rows, |c| {
                    page.len() < 6 && {
                        page.push(Shown::of(c));
                        true
                    }
                });
                let more = filled.unwrap() == Filled::Full;
                // As the boundary does it: a row that is not whole goes back.
                if more && whole_rows {
                    scanner.put_row_back();
                    let row = page.last().unwrap().row.clone();
                    page.retain(|c| c.row != row);
                }
                pages.push(page);
                if !more {
                    break;
                }
            }
            let told: Vec<usize> = pages.iter().map(Vec::len).collect();
            assert_eq!(told, if whole_rows { vec![4, 4, 4] } else { vec![6, 6] });
            let all = pages.concat();
            assert!(all.iter().enumerate().all(|(i, c)| (c.row[0], c.qual[0]) == (b"abc"[i / 4], b"1234"[i % 4])));
        }
    });
}

#[derive(Default)]
struct Sizes(Vec<usize>);
impl RowSink for Sizes {
    fn restart(&mut self) {
        self.0.clear();
    }
    fn cell(&mut self, cell: &ScanCell<'_>) {
        self.0.push(cell.value.len());
    }
}

/// No limit is set to a row as a whole, where HBase has one: five cells of 5 MB are read, one by one or together, and the caller's page is what bounds it.
#[test]
fn scn_20() {
    let rig = Rig::new("wal_segment_bytes=16m,wal_bytes_max=128m");
    let r = &rig.region;
    let large = vec![7; 5 << 20];
    for qual in [b"1", b"2", b"3", b"4", b"5"] {
        put(r, b"r", qual, &large);
    }
    let mut sizes = Sizes::default();
    r.get_row(None, &ALL, b"r", &[], 1, &mut sizes).unwrap();
    assert_eq!(sizes.0, [5 << 20; 5]);
    let mut scanner = open(r, &ScanSpec::default());
    for _ in 0..5 {
        assert_eq!(scanner.next().unwrap().unwrap().value, large);
    }
    assert!(scanner.next().unwrap().is_none());
}

/// Five versions that have all expired, of which three stay. Deletes take versions out for good; the least number is counted over what is left.
#[test]
fn ver_03_ver_05() {
    let now = 1_000_000;
    // The order in which they are written does not matter, nor whether a seal lies between.
    for order in [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [3, 5, 1, 4, 2]] {
        for seals in [false, true] {
            let mut rig = Rig::with_clock("", ManualClock::new(now, ClockUnit::Millis));
            let made = family(&rig.region, FamilySpec { max_versions: 5, min_versions: 3, ttl_ms: 1_000, ..FamilySpec::default() });
            for ts in order {
                put_at(&rig.region, made, b"q", ts, b"v");
                if seals {
                    rig.region.seal().unwrap();
                }
            }
            for left in [&[5, 4, 3][..], &[4, 3, 2], &[3, 2, 1], &[2, 1], &[1], &[]] {
                assert_eq!(versions(&rig.region, made, &ALL), left, "{order:?}");
                if seals {
                    rig = rig.reopen();
                    assert_eq!(versions(&rig.region, made, &ALL), left, "{order:?}");
                }
                if let Some(newest) = left.first() {
                    delete_at(&rig.region, Op::DeleteVersion, made, b"q", *newest);
                }
            }
        }
    }
}

/// A time asked for that has expired is found only within the least number.
#[test]
fn ver_06() {
    let rig = Rig::with_clock("", ManualClock::new(1_000_000, ClockUnit::Millis));
    let made = family(&rig.region, FamilySpec { max_versions: 9, min_versions: 2, ttl_ms: 1_000, ..FamilySpec::default() });
    for ts in [1, 2, 3, 4] {
        put_at(&rig.region, made, b"q", ts, b"v");
    }
    let at = |ts| ReadOptions { min_ts: ts, max_ts: ts + 1, ..ReadOptions::DEFAULT };
    in_any_state(rig, |r| {
        assert_eq!([1, 2, 3, 4].map(|ts| versions(r, made, &at(ts)).len()), [0, 0, 1, 1]);
        assert_eq!(versions(r, made, &ReadOptions { max_ts: 4, ..ALL }), [3]);
    });
}

/// A put and three markers of its column at and above its time are all kept, and a reader of the past finds the put; a newer put pushes it out. (That a major
/// compaction then drops the rest needs compaction.)
#[test]
fn kdc_09() {
    let rig = Rig::new("");
    let made = family(&rig.region, FamilySpec { flags: FamilySpec::KEEP_DELETED, ..FamilySpec::default() });
    put_at(&rig.region, made, b"q", 10, b"old");
    for ts in [10, 20, 30] {
        delete_at(&rig.region, Op::Delete, made, b"q", ts);
    }
    let raw = ScanSpec { flags: ScanSpec::RAW, max_versions: 9, ..ScanSpec::default() };
    let past = |max_ts| ReadOptions { max_ts, ..ALL };
    let stored = |r: &Region| take_all(&mut open(r, &raw)).iter().map(|c| (c.ts, c.kind)).collect::<Vec<_>>();
    let all = [(30, CellType::Delete), (20, CellType::Delete), (10, CellType::Delete), (10, CellType::Put)];
    let r = &rig.region;
    assert_eq!(stored(r), all);
    // The marker at its own time hides it from whoever can see that time.
    assert_eq!((versions(r, made, &ALL), versions(r, made, &past(11)), versions(r, made, &past(10))), (vec![], vec![], vec![]));
    put_at(&rig.region, made, b"p", 10, b"old");
    delete_at(&rig.region, Op::Delete, made, b"p", 20);
    assert_eq!(versions(&rig.region, made, &past(20)), [10], "before its marker");
    put_at(&rig.region, made, b"p", 40, b"new");
    assert_eq!(versions(&rig.region, made, &past(20)), [0; 0], "one version is kept");
    put_at(&rig.region, made, b"q", 40, b"new");
    in_any_state(rig, |r| {
        assert_eq!(stored(r).len(), 3 + 5, "the markers, and every value asked for");
        assert_eq!((versions(r, made, &ALL), versions(r, made, &past(20))), (vec![40, 40], vec![]));
    });
}

/// Sealed and active segment together.
#[test]
fn mem_01() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"a", b"q", b"sealed");
    r.seal().unwrap();
    put(r, b"b", b"q", b"active");
    for _ in 0..2 {
        let seen: Vec<_> = scan(r, None, b"", b"").into_iter().map(|c| (c.0[0], c.2)).collect();
        assert_eq!(seen, [(b'a', b"sealed".to_vec()), (b'b', b"active".to_vec())]);
        r.seal().unwrap();
    }
}

/// Three versions out of two segments: the newest three, best first, wherever each lies.
#[test]
fn mem_02() {
    for order in [[1, 2, 3, 4, 5, 6], [6, 1, 5, 2, 4, 3], [4, 5, 6, 1, 2, 3]] {
        for seal_after in 0..6 {
            let rig = Rig::new("");
            for (i, ts) in order.into_iter().enumerate() {
                put_at(&rig.region, CF3, b"q", ts, b"v");
                if i == seal_after {
                    rig.region.seal().unwrap();
                }
            }
            in_any_state(rig, |r| assert_eq!(versions(r, CF3, &ALL), [6, 5, 4], "{order:?} sealed after {seal_after}"));
        }
    }
}

/// The size is the sum over what is there: equal rows take equally much, a seal moves it and changes nothing, and a close gives all back.
#[test]
fn mem_04() {
    let rig = Rig::new("");
    let r = &rig.region;
    let bytes = || r.stats().unwrap().memstore_bytes;
    let empty = bytes();
    let mut sizes = Vec::new();
    for i in 0..8u8 {
        let before = bytes();
        put(r, &[b'r', i], b"q", &[i; 100]);
        sizes.push(bytes() - before);
    }
    // The first row may also take the index its root.
    assert!(sizes[1] >= 100 && sizes[1..].iter().all(|s| *s == sizes[1]), "{sizes:?}");
    assert_eq!(bytes() - empty, sizes.iter().sum::<u64>());
    let whole = bytes();
    r.seal().unwrap();
    let stats = r.stats().unwrap();
    assert_eq!(stats.memstore_sealed_bytes, whole);
    // A sealed segment is as large as it was; the new one is empty.
    assert_eq!(stats.memstore_bytes, whole + empty);
    let pool = rig.pool.clone();
    close(r);
    drop(rig);
    assert_eq!(pool.stats().in_use, 0);
}

/// Of one timestamp: the family's marker, the column's, the value; all are kept.
#[test]
fn mem_07() {
    let rig = Rig::new("");
    put_at(&rig.region, CF3, b"", 10, b"v");
    delete_at(&rig.region, Op::DeleteVersion, CF3, b"", 10);
    delete_at(&rig.region, Op::Delete, CF3, b"", 10);
    delete_at(&rig.region, Op::DeleteFamily, CF3, b"", 10);
    in_any_state(rig, |r| {
        let seen = take_all(&mut open(r, &ScanSpec { flags: ScanSpec::RAW, max_versions: 9, ..ScanSpec::default() }));
        let kinds: Vec<_> = seen.iter().map(|c| c.kind).collect();
        assert_eq!(kinds, [CellType::DeleteFamily, CellType::Delete, CellType::DeleteVersion, CellType::Put]);
        assert_eq!(versions(r, CF3, &ALL), [0; 0]);
    });
}

/// Numbers are given once, so one cell is written twice only within one call: there the later takes the place of the earlier, in memory too.
#[test]
fn mem_09() {
    let used = |ops: &[&[u8]]| {
        let rig = Rig::new("");
        let before = rig.region.stats().unwrap().memstore_bytes;
        done(&rig.region, ops.iter().map(|v| op_put(b"r", b"q", v)).collect(), &WriteOptions::DEFAULT);
        assert_eq!(get(&rig.region, b"r", b"q").as_deref(), ops.last().copied());
        let raw = take_all(&mut open(&rig.region, &ScanSpec { flags: ScanSpec::RAW, max_versions: 9, ..ScanSpec::default() }));
        assert_eq!(raw.len(), 1);
        rig.region.stats().unwrap().memstore_bytes - before
    };
    assert_eq!(used(&[&[1; 200], &[2; 200], &[3; 200]]), used(&[&[3; 200]]));
}
