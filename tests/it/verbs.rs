//! The verbs against their documented meaning, one region on disk per test.

use region::clock::Timeout;
use region::ids::FamilyId;
use region::options::{Durability, FamilySpec, OpenFlags, ReadOptions, RegionOptions, WriteOptions};
use region::region::{CloseFlags, CommitInfo, Key, Region, ScanSpec, ValueSink};
use std::path::Path;

pub fn options() -> RegionOptions {
    RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        ..RegionOptions::default()
    }
}
pub fn open(path: &Path) -> Region {
    Region::open(path, options(), None, None).unwrap()
}
pub fn close(r: &Region) {
    r.close(CloseFlags::default(), Timeout::from_micros(10_000_000)).unwrap();
}
pub const CF: u32 = 1;

pub fn inc(r: &Region, row: &[u8], qual: &[u8], delta: i64) -> i64 {
    r.increment(row, CF, qual, delta, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap().value
}

#[derive(Default)]
pub struct Bytes(pub Vec<u8>);
impl ValueSink for Bytes {
    fn fits(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.resize(len, 0);
        Some(&mut self.0)
    }
    fn pin(&mut self, value: Box<dyn region::region::Pinned>) {
        self.0 = value.bytes().to_vec();
    }
}
pub fn get(r: &Region, row: &[u8], qual: &[u8]) -> Option<Vec<u8>> {
    let mut sink = Bytes::default();
    r.get(None, &ReadOptions::DEFAULT, Key { family: CF, row, qual }, &mut sink).unwrap().map(|_| sink.0)
}

#[test]
fn open_increment_close_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let r = open(&path);
    assert_eq!(r.family_id(b"cf").unwrap(), Some(FamilyId(1)));
    assert_eq!(inc(&r, b"row", b"hits", 5), 5);
    assert_eq!(inc(&r, b"row", b"hits", 2), 7);
    assert_eq!(inc(&r, b"row", b"other", 1), 1);
    for d in [Durability::SkipWal, Durability::AsyncWal, Durability::SyncWal, Durability::FsyncWal] {
        let o = WriteOptions { durability: Some(d), ..WriteOptions::DEFAULT };
        r.put(b"p", CF, b"q", format!("{d:?}").as_bytes(), &o, &mut CommitInfo::default()).unwrap();
        assert_eq!(get(&r, b"p", b"q").unwrap(), format!("{d:?}").into_bytes());
    }
    assert_eq!(get(&r, b"row", b"hits").unwrap(), 7i64.to_be_bytes());
    assert_eq!(get(&r, b"absent", b"hits"), None);
    let mut s = r.scanner(None, &ReadOptions::DEFAULT, &ScanSpec::default()).unwrap();
    let mut seen = Vec::new();
    while let Some(c) = s.next().unwrap() {
        seen.push((c.row.to_vec(), c.qual.to_vec(), c.new_row, c.row_end));
    }
    drop(s);
    assert_eq!(
        seen,
        [
            (b"p".to_vec(), b"q".to_vec(), true, true),
            (b"row".to_vec(), b"hits".to_vec(), true, false),
            (b"row".to_vec(), b"other".to_vec(), false, true)
        ]
    );
    close(&r);
    let r = open(&path);
    println!("{}", r.recovery_report().unwrap());
    assert_eq!(get(&r, b"row", b"hits").unwrap(), 7i64.to_be_bytes());
    assert_eq!(inc(&r, b"row", b"hits", 1), 8);
    close(&r);
}
