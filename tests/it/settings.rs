//! What an open is given and what the region keeps of it: 0 means "as stored". The key range. And opens that are refused, which leave nothing.

use crate::rig::Rig;
use crate::short::*;
use region::ErrorKind;
use region::clock::{ClockUnit, TickPolicy};
use region::env::mem::MemEnv;
use region::env::{Env, FsKind, read_whole};
use region::mslab::{ChunkPool, PoolOptions};
use region::options::{Durability, FamilySpec, OpenFlags, ReadOptions, RegionOptions, WalIo, WriteOptions};
use region::region::{CommitInfo, Key, Keys, Op, Region, RowSink, ScanCell, ScanSpec};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/r";

fn creating() -> RegionOptions {
    RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        ..RegionOptions::default()
    }
}
/// As a caller opens who knows nothing.
fn zeros() -> RegionOptions {
    RegionOptions::default()
}
fn open(mem: &MemEnv, o: RegionOptions) -> region::Result<Region> {
    let pool = ChunkPool::new(PoolOptions { chunk_size: 64 << 10, max_bytes: 64 << 20, ..PoolOptions::default() }).unwrap();
    Region::open_in(Arc::new(mem.clone()), Path::new(DIR), o, Some(pool), None)
}
/// What describe says of a setting.
fn shown(r: &Region, key: &str) -> String {
    let text = r.describe().unwrap();
    let rest = text.split(&format!("\"{key}\":{{")).nth(1).unwrap_or_else(|| panic!("no {key} in {text}"));
    rest.split("\"value\":\"").nth(1).unwrap().split('"').next().unwrap().to_string()
}

const KEYS: [&str; 12] = [
    "durability",
    "clock_unit",
    "tick_policy",
    "wal_io",
    "sync_interval_ms",
    "write_timeout_us",
    "memstore_limit",
    "flush_bytes",
    "block_cache_bytes",
    "wal_bytes_max",
    "background_threads",
    "wal_segment_bytes",
];
fn all(r: &Region) -> [String; 12] {
    KEYS.map(|key| shown(r, key))
}

fn special() -> RegionOptions {
    RegionOptions {
        durability: Some(Durability::FsyncWal),
        clock_unit: Some(ClockUnit::Micros),
        tick_policy: Some(TickPolicy::Wait),
        wal_io: Some(WalIo::Write),
        sync_interval_ms: 77,
        write_timeout_us: 123_456,
        memstore_limit: 32 << 20,
        flush_bytes: 1 << 20,
        block_cache_bytes: 3 << 20,
        wal_bytes_max: 1 << 20,
        background_threads: 2,
        config: "wal_segment_bytes=64k".into(),
        ..creating()
    }
}
const SPECIAL: [&str; 12] = ["fsync_wal", "us", "wait", "write", "77", "123456", "33554432", "1048576", "3145728", "1048576", "2", "65536"];

/// 0 of every option is as stored; another value than the stored one holds from then on, but for clock unit and key range, which are refused.
#[test]
fn what_was_set_holds_until_it_is_set_otherwise() {
    let mem = MemEnv::new();
    let r = open(&mem, special()).unwrap();
    assert_eq!(all(&r), SPECIAL);
    let killed = mem.image();
    close(&r);
    for mem in [mem, killed] {
        let r = open(&mem, zeros()).unwrap();
        assert_eq!(all(&r), SPECIAL);
        assert_eq!((r.stats().unwrap().memstore_limit, r.write_timeout_us()), (32 << 20, 123_456));
        assert!(r.describe().unwrap().contains("\"wal_io\":\"write\""));
        let mut info = CommitInfo::default();
        r.put(b"r", CF, b"q", b"v", &WriteOptions::DEFAULT, &mut info).unwrap();
        assert!(r.stats().unwrap().durable_seq >= info.seq, "fsync_wal is the region's level");
        close(&r);
        // A reader may ask for something else, for itself.
        let reader = RegionOptions { flags: OpenFlags { read_only: true, ..OpenFlags::default() }, write_timeout_us: 5, ..zeros() };
        let r = open(&mem, reader).unwrap();
        assert_eq!((r.write_timeout_us(), shown(&r, "memstore_limit").as_str()), (5, "33554432"));
        close(&r);
        let o = RegionOptions {
            durability: Some(Durability::SyncWal),
            tick_policy: Some(TickPolicy::Advance),
            memstore_limit: 16 << 20,
            sync_interval_ms: 99,
            config: "wal_io=auto".into(),
            ..zeros()
        };
        close(&open(&mem, o).unwrap());
        let r = open(&mem, zeros()).unwrap();
        let mut changed = SPECIAL;
        (changed[0], changed[2], changed[3], changed[4], changed[6]) = ("sync_wal", "advance", "auto", "99", "16777216");
        assert_eq!(all(&r), changed);
        close(&r);
        // What does not fit what is stored is refused, and changes nothing.
        for (o, words) in [
            (RegionOptions { clock_unit: Some(ClockUnit::Nanos), ..zeros() }, ["clock_unit", "the region has us"]),
            (RegionOptions { config: "wal_segment_bytes=1m".into(), ..zeros() }, ["wal_bytes_max", "wal_segment_bytes"]),
        ] {
            let e = open(&mem, o).err().unwrap();
            assert!(e.kind() == ErrorKind::Invalid && words.iter().all(|w| e.message().contains(w)), "{e}");
        }
        let r = open(&mem, zeros()).unwrap();
        assert_eq!(all(&r), changed);
    }
    // Nothing given at creation: the documented defaults, as they are.
    let r = open(&MemEnv::new(), creating()).unwrap();
    assert_eq!(all(&r)[..4], ["sync_wal", "ns", "advance", "auto"]);
}

/// A region of the first format opens as it did, and is kept in the new one from then on.
#[test]
fn a_region_of_manifest_format_1_opens() {
    let mem = MemEnv::new();
    let r = open(&mem, special()).unwrap();
    inc(&r, b"r", b"n", 5);
    close(&r);
    let path = Path::new(DIR).join("MANIFEST");
    let text = || String::from_utf8(read_whole(&mem, &path, 1 << 20).unwrap()).unwrap();
    let now = text();
    assert!(now.starts_with("libregion manifest, format 3, ") && now.contains("\"memstore_limit\": 33554432"), "{now}");
    let json = now.split_once('\n').unwrap().1;
    let (head, rest) = json.split_once("  \"synced_segment\"").unwrap();
    let json = format!("{head}  \"next_family\"{}", rest.split_once("\"next_family\"").unwrap().1);
    let line = |crc| format!("libregion manifest, format 1, crc32c {crc:08x}, {} bytes\n", json.len());
    let crc = crc32c::crc32c(format!("{}{json}", line(0)).as_bytes());
    mem.remove(&path).unwrap();
    mem.create(&path).unwrap().write_all_at(format!("{}{json}", line(crc)).as_bytes(), 0).unwrap();
    let r = open(&mem, zeros()).unwrap();
    assert_eq!(inc(&r, b"r", b"n", 1), 6);
    assert_eq!(all(&r)[..7], ["fsync_wal", "us", "wait", "auto", "1000", "10000000", "1073741824"]);
    close(&r);
    assert!(text().starts_with("libregion manifest, format 3, ") && text().contains("\"memstore_limit\": 1073741824"), "{}", text());
}

struct Rows<'a>(&'a [&'a [u8]]);
impl Keys for Rows<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Key<'_> {
        Key { row: self.0[i], family: CF, qual: b"n" }
    }
}

struct Nobody;
impl RowSink for Nobody {
    fn restart(&mut self) {}
    fn cell(&mut self, _: &ScanCell<'_>) {
        panic!("nothing is outside the range");
    }
}

/// Rows outside the key range are refused by every verb, with nothing changed; scans see what is inside.
#[test]
fn rows_outside_the_key_range_are_refused() {
    let mem = MemEnv::new();
    let range = RegionOptions { start_row: b"b".to_vec(), end_row: b"d\xff".to_vec(), ..creating() };
    let r = open(&mem, range.clone()).unwrap();
    let (w, o, mut info) = (WriteOptions::DEFAULT, ReadOptions::DEFAULT, CommitInfo::default());
    for row in [&b"b"[..], b"b\0", b"c", b"d", b"d\xfe\xff"] {
        assert_eq!(inc(&r, row, b"n", 1), 1);
    }
    for row in [&b"a"[..], b"a\xff", b"d\xff", b"d\xff\0", b"e", b"\xff"] {
        let key = Key { row, family: CF, qual: b"n" };
        let refused = |what: &str, e: Option<region::Error>| {
            let e = e.unwrap_or_else(|| panic!("{what} of {row:?} went through"));
            let text = e.message().to_string();
            assert!(e.kind() == ErrorKind::Range && text.contains("[\"b\", \"d\\xff\")"), "{what} of {row:?}: {e}");
        };
        refused("increment", inc_with(&r, row, b"n", 1, &w).err());
        refused("put", put_with(&r, row, b"q", b"v", &w).err());
        refused("delete", r.delete(row, CF, b"n", Op::Delete, &w, &mut info).err());
        refused("append", r.append(row, CF, b"q", b"v", &w, &mut info, None).err());
        refused("get_row", r.get_row(None, &o, row, &[], 0, &mut Nobody).err());
        refused("get", r.get(None, &o, key, &mut Bytes::default()).err());
        refused("counter_get", r.counter_get(None, &o, key).err());
        refused("get_many", r.get_many(None, &o, &Rows(&[b"c", row]), usize::MAX, &mut |_, _| true).err());
        let mut answers = Vec::new();
        r.counter_get_many(None, &o, &Rows(&[b"c", row]), &mut |_, answer| answers.push(answer)).unwrap();
        assert_eq!(answers[0].as_ref().unwrap().map(|a| a.0), Some(1));
        refused("counter_get_many", answers.pop().unwrap().err());
        let snapshot = r.snapshot(LONG).unwrap();
        refused("get of a snapshot", r.get(Some(&snapshot), &o, key, &mut Bytes::default()).err());
        // An atomic batch does nothing, a plain one all the rest.
        let ops = || vec![op_inc(b"c", b"n", 1), op_inc(row, b"n", 1)];
        let (done, _, _) = batch(&r, ops(), &WriteOptions { flags: WriteOptions::ATOMIC, ..w });
        refused("atomic batch", done.err());
        assert_eq!(counter(&r, b"c", b"n"), Some(1));
    }
    let scan = |start: &'static [u8], end: &'static [u8]| {
        let spec = ScanSpec { start_row: start, end_row: end, ..ScanSpec::default() };
        let mut scan = r.scanner(None, &ReadOptions::DEFAULT, &spec).unwrap();
        let mut rows = Vec::new();
        while let Some(cell) = scan.next().unwrap() {
            rows.push(cell.row.to_vec());
        }
        rows.len()
    };
    assert_eq!([scan(b"", b""), scan(b"a", b"z"), scan(b"", b"b"), scan(b"e", b""), scan(b"c", b"d")], [5, 5, 0, 0, 1]);
    let text = r.describe().unwrap();
    assert!(text.contains("\"start_row\":\"b\"") && text.contains("\"end_row\":\"d\\\\xff\""), "{text}");
    close(&r);
    // Fixed at creation: left out or the same it is as stored, anything else is refused, naming both.
    for o in [zeros(), range.clone(), RegionOptions { start_row: Vec::new(), ..range.clone() }] {
        let r = open(&mem, o).unwrap();
        assert_eq!(inc_with(&r, b"a", b"n", 1, &w).err().map(|e| e.kind()), Some(ErrorKind::Range));
        assert_eq!(counter(&r, b"c", b"n"), Some(1));
        close(&r);
    }
    for (o, both) in [
        (RegionOptions { start_row: b"a".to_vec(), ..zeros() }, ["\"a\"", "\"b\""]),
        (RegionOptions { end_row: b"x".to_vec(), ..zeros() }, ["\"x\"", "\"d\\xff\""]),
    ] {
        let e = open(&mem, o).err().unwrap();
        assert!(e.kind() == ErrorKind::Invalid && both.iter().all(|w| e.message().contains(w)), "{e}");
    }
    let mem = MemEnv::new();
    close(&open(&mem, creating()).unwrap());
    let e = open(&mem, range).err().unwrap();
    assert!(e.kind() == ErrorKind::Invalid && e.message().contains("\"\""), "unbounded is stored, too: {e}");
}

/// An open that its options forbid makes nothing: no directory, no lock file, no region that nobody could open with the same options.
#[test]
fn a_refused_open_leaves_nothing() {
    let large_chunks = || ChunkPool::new(PoolOptions { chunk_size: 2 << 20, max_bytes: 64 << 20, ..PoolOptions::default() }).unwrap();
    type Case = (&'static str, FsKind, RegionOptions, ErrorKind);
    let cases: [Case; 7] = [
        ("memstore_limit", FsKind::Mappable, RegionOptions { memstore_limit: 1 << 20, ..creating() }, ErrorKind::Invalid),
        ("memstore_limit", FsKind::Mappable, RegionOptions { memstore_limit: 1, ..creating() }, ErrorKind::Invalid),
        ("wal_io", FsKind::Other, RegionOptions { wal_io: Some(WalIo::Mapped), ..creating() }, ErrorKind::Unsupported),
        ("allow_network_fs", FsKind::Network, creating(), ErrorKind::Unsupported),
        ("wal_bytes_max", FsKind::Mappable, RegionOptions { wal_bytes_max: 1 << 20, ..creating() }, ErrorKind::Invalid),
        ("end_row", FsKind::Mappable, RegionOptions { start_row: b"b".to_vec(), end_row: b"a".to_vec(), ..creating() }, ErrorKind::Invalid),
        ("no region", FsKind::Mappable, zeros(), ErrorKind::NoRegion),
    ];
    for (names, kind, o, wanted) in cases {
        for there in [false, true] {
            let mem = MemEnv::new();
            mem.set_file_system(kind);
            if there {
                mem.create_dir(Path::new(DIR)).unwrap();
            }
            let e = Region::open_in(Arc::new(mem.clone()), Path::new(DIR), o.clone(), Some(large_chunks()), None).err();
            let e = e.unwrap_or_else(|| panic!("{names}: opened"));
            assert!(e.kind() == wanted && e.message().contains(names), "{names}: {e}");
            let left = mem.list(Path::new(if there { DIR } else { "/" })).unwrap();
            assert!(left.is_empty(), "{names}: {left:?} is left");
            // So the same place serves as soon as the options do.
            mem.set_file_system(FsKind::Mappable);
            close(&open(&mem, creating()).unwrap());
        }
    }
    // Nor is a lock file left in a directory of somebody else's.
    let mem = MemEnv::new();
    mem.create_dir(Path::new(DIR)).unwrap();
    mem.create(&Path::new(DIR).join("theirs")).unwrap();
    assert_eq!(open(&mem, creating()).err().map(|e| e.kind()), Some(ErrorKind::Invalid));
    assert_eq!(mem.list(Path::new(DIR)).unwrap(), ["theirs"]);
}

/// What an empty memstore takes depends on the pool: a smaller limit is refused with the least that would do, which describe names as its bound.
#[test]
fn a_memstore_limit_below_one_chunk_names_the_least_that_would_do() {
    let mem = MemEnv::new();
    let pool = |max| ChunkPool::new(PoolOptions { chunk_size: 2 << 20, max_bytes: max, ..PoolOptions::default() }).unwrap();
    let open_at = |limit, pool: &Arc<ChunkPool>| {
        let o = RegionOptions { memstore_limit: limit, ..creating() };
        Region::open_in(Arc::new(mem.clone()), Path::new(DIR), o, Some(Arc::clone(pool)), None)
    };
    let large = pool(64 << 20);
    for limit in [256 << 10, 1 << 20, (2 << 20) - 1] {
        let e = open_at(limit, &large).err().unwrap();
        assert!(e.kind() == ErrorKind::Invalid && e.message().contains("memstore_limit") && e.message().contains("2097152"), "{e}");
        assert!(!mem.exists(Path::new(DIR)).unwrap(), "nothing is made");
    }
    let r = open_at(2 << 20, &large).unwrap();
    inc(&r, b"row", b"n", 1);
    let text = r.describe().unwrap();
    let knob = text.split("\"memstore_limit\":{").nth(1).unwrap().split('}').next().unwrap();
    assert!(knob.contains("\"min\":2097152"), "{knob}");
    close(&r);
    // A pool that is used up is no matter of the limit.
    let small = pool(2 << 20);
    let other = MemEnv::new();
    let holder = Region::open_in(Arc::new(other), Path::new(DIR), creating(), Some(Arc::clone(&small)), None).unwrap();
    let e = open_at(2 << 20, &small).err().unwrap();
    assert!(e.kind() == ErrorKind::NoMem && e.message().contains("chunk pool"), "{e}");
    drop(holder);
}

/// A disk without a free block: an open for writing says how much it needs, and reading goes without.
#[test]
fn a_full_disk_says_what_an_open_needs_and_is_read_all_the_same() {
    let mem = MemEnv::new();
    let r = open(&mem, creating()).unwrap();
    inc(&r, b"row", b"n", 5);
    close(&r);
    mem.set_capacity(Some(mem.used_bytes()));
    let e = open(&mem, creating()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::NoSpace);
    assert!(e.message().contains("131072 bytes") && e.message().contains("REGION_OPEN_READ_ONLY"), "{e}");
    let reading = RegionOptions { flags: OpenFlags { read_only: true, ..OpenFlags::default() }, ..zeros() };
    let r = open(&mem, reading).unwrap();
    assert_eq!(counter(&r, b"row", b"n"), Some(5));
    close(&r);
    mem.set_capacity(Some(mem.used_bytes() + (128 << 10)));
    let r = open(&mem, creating()).unwrap();
    assert_eq!(inc(&r, b"row", b"n", 1), 6);
    close(&r);
}

/// A read-only open refuses what it would have to pass over: families that are not there, and other settings of those that are.
#[test]
fn a_read_only_open_names_no_family_that_it_would_have_to_make_or_change() {
    let rig = Rig::new("");
    close(&rig.region);
    let open = |family: FamilySpec| {
        let flags = OpenFlags { read_only: true, ..OpenFlags::default() };
        let options = RegionOptions { flags, families: vec![family], ..RegionOptions::default() };
        Region::open_in(Arc::new(rig.mem.clone()), Path::new("/r"), options, None, None)
    };
    let refused = |family| open(family).err().map(|e| (e.kind(), e.message().contains("read-only")));
    assert_eq!(refused(FamilySpec::named("brandnew")), Some((ErrorKind::NoFamily, true)));
    assert_eq!(refused(FamilySpec { max_versions: 7, ..FamilySpec::named("cf") }), Some((ErrorKind::ReadOnly, true)));
    for same in [FamilySpec::named("cf"), FamilySpec { max_versions: 3, ..FamilySpec::named("cf3") }] {
        assert!(open(same).is_ok());
    }
}
