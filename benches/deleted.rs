//! Loops that delete and write again, and scans over what was deleted: nanoseconds per round at growing numbers of rounds, one thread. A figure that grows
//! with the number of rounds is work that a delete leaves to every later call. `DELETED_ROUNDS` sets the largest number (default 100000).

use region::options::{FamilySpec, OpenFlags, ReadOptions, RegionOptions, WriteOptions};
use region::region::{CloseFlags, CommitInfo, Key, Op, Region, RowSink, ScanCell, ScanSpec, ValueSink};
use std::time::Instant;

const W: &WriteOptions = &WriteOptions::DEFAULT;

#[derive(Default)]
struct Bytes(Vec<u8>);
impl ValueSink for Bytes {
    fn fits(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.resize(len, 0);
        Some(&mut self.0)
    }
    fn pin(&mut self, _: Box<dyn region::region::Pinned>) {}
}

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

struct Bench {
    r: Region,
    info: CommitInfo,
}

impl Bench {
    fn put(&mut self, row: &[u8], family: u32, qual: &[u8], ts: u64) {
        self.r.put(row, family, qual, b"value", &WriteOptions { timestamp: ts, ..WriteOptions::DEFAULT }, &mut self.info).expect("puts");
    }
    fn delete(&mut self, row: &[u8], family: u32, qual: &[u8], op: Op) {
        self.r.delete(row, family, qual, op, W, &mut self.info).expect("deletes");
    }
    fn increment(&mut self, row: &[u8], family: u32, qual: &[u8]) -> i64 {
        self.r.increment(row, family, qual, 1, W, &mut self.info).expect("counts").value
    }
    fn get(&self, row: &[u8], family: u32, qual: &[u8]) -> bool {
        self.r.get(None, &ReadOptions::DEFAULT, Key { family, row, qual }, &mut Bytes::default()).expect("reads").is_some()
    }
    fn row(&self, row: &[u8], versions: u32) -> usize {
        let mut count = Count::default();
        self.r.get_row(None, &ReadOptions::DEFAULT, row, &[], versions, &mut count).expect("reads");
        count.0
    }
}

type Round = fn(&mut Bench, usize);

/// Families: 1 keeps one version, 2 keeps three, 3 is one more with one.
const LOOPS: [(&str, Round); 9] = [
    ("put, delete_column, get", |b, _| {
        b.put(b"a", 1, b"q", 0);
        b.delete(b"a", 1, b"q", Op::Delete);
        assert!(!b.get(b"a", 1, b"q"));
    }),
    ("put, delete_row, get", |b, _| {
        b.put(b"b", 1, b"q", 0);
        b.delete(b"b", 0, b"", Op::DeleteRow);
        assert!(!b.get(b"b", 1, b"q"));
    }),
    ("delete_row, put, get_row", |b, _| {
        b.delete(b"c", 0, b"", Op::DeleteRow);
        b.put(b"c", 1, b"q", 0);
        assert_eq!(b.row(b"c", 1), 1);
    }),
    ("increment, delete_column, get", |b, _| {
        assert_eq!(b.increment(b"d", 1, b"q"), 1);
        b.delete(b"d", 1, b"q", Op::Delete);
        assert!(!b.get(b"d", 1, b"q"));
    }),
    ("delete_family of one, get of another", |b, i| {
        if i == 0 {
            b.put(b"e", 3, b"q", 0);
        }
        b.delete(b"e", 1, b"", Op::DeleteFamily);
        assert!(b.get(b"e", 3, b"q"));
    }),
    ("put over put, get", |b, _| {
        b.put(b"f", 1, b"q", 0);
        assert!(b.get(b"f", 1, b"q"));
    }),
    ("deleted once, put over put, get", |b, i| {
        if i == 0 {
            b.delete(b"g", 1, b"q", Op::Delete);
        }
        b.put(b"g", 1, b"q", 0);
        assert!(b.get(b"g", 1, b"q"));
    }),
    ("three versions: put, get, get_row of three", |b, i| {
        b.put(b"h", 2, b"q", 0);
        assert!(b.get(b"h", 2, b"q"));
        assert_eq!(b.row(b"h", 3), 3.min(i + 1));
    }),
    ("three versions: deleted once, increment, get", |b, i| {
        if i == 0 {
            b.delete(b"i", 2, b"q", Op::Delete);
        }
        b.increment(b"i", 2, b"q");
        assert!(b.get(b"i", 2, b"q"));
    }),
];

/// Microseconds of the call.
fn micros(call: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    call();
    begun.elapsed().as_nanos() as f64 / 1000.0
}

fn open(dir: &std::path::Path) -> Bench {
    let options = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("f"), FamilySpec { max_versions: 3, ..FamilySpec::named("three") }, FamilySpec::named("g")],
        config: "memstore_limit=1g".into(),
        ..RegionOptions::default()
    };
    Bench { r: Region::open(&dir.join("r"), options, None, None).expect("the region opens"), info: CommitInfo::default() }
}

fn main() {
    let most: usize = std::env::var("DELETED_ROUNDS").ok().and_then(|v| v.parse().ok()).unwrap_or(100_000);
    let sizes: Vec<usize> = [1_000, 10_000, 100_000].into_iter().filter(|n| *n <= most).collect();
    println!("nanoseconds per round after {sizes:?} rounds");
    for (name, round) in LOOPS {
        let dir = tempfile::tempdir().expect("a directory");
        let mut b = open(dir.path());
        let mut done = 0;
        let mut line = format!("{name:45}");
        for &size in &sizes {
            while done < size - size / 20 {
                round(&mut b, done);
                done += 1;
            }
            // The last twentieth of each size, in pieces: the median is what no other program has disturbed.
            let mut pieces: Vec<f64> = (0..25)
                .map(|_| {
                    let begun = Instant::now();
                    for _ in 0..size / 500 {
                        round(&mut b, done);
                        done += 1;
                    }
                    begun.elapsed().as_nanos() as f64 / (size / 500) as f64
                })
                .collect();
            pieces.sort_by(f64::total_cmp);
            line += &format!(" {:9.0}", pieces.get(12).copied().unwrap_or(f64::NAN));
        }
        println!("{line}");
        b.r.close(CloseFlags::default(), region::clock::Timeout::forever()).expect("closes");
    }
    println!("microseconds of one read over what was deleted");
    for &size in &sizes {
        let dir = tempfile::tempdir().expect("a directory");
        let mut b = open(dir.path());
        for i in 0..size {
            let qual = format!("{i:08}");
            for row in [b"one by one", b"whole row ", b"stays     "] {
                b.put(row, 1, qual.as_bytes(), 0);
            }
            b.delete(b"one by one", 1, qual.as_bytes(), Op::Delete);
            let row = format!("row {i:08}");
            b.put(row.as_bytes(), 1, b"q", 0);
            b.delete(row.as_bytes(), 0, b"", Op::DeleteRow);
            let row = format!("stay {i:08}");
            b.put(row.as_bytes(), 1, b"q", 0);
        }
        b.delete(b"whole row ", 0, b"", Op::DeleteRow);
        let scan = |row_prefix| {
            let mut scanner = b.r.scanner(None, &ReadOptions::DEFAULT, &ScanSpec { row_prefix, ..ScanSpec::default() }).expect("a scanner");
            micros(|| while scanner.next().expect("reads").is_some() {})
        };
        println!("{size:7} rows: live {:.0}, deleted {:.0}", scan(b"stay "), scan(b"row "));
        let row = |row| {
            micros(|| {
                b.row(row, 1);
            })
        };
        let (live, singly, whole) = (row(b"stays     "), row(b"one by one"), row(b"whole row "));
        println!("{size:7} columns: live {live:.0}, deleted one by one {singly:.0}, deleted as a row {whole:.0}");
        b.r.close(CloseFlags::default(), region::clock::Timeout::forever()).expect("closes");
    }
}
