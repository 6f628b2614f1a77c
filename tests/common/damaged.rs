//! A region's files, changed by a small program of edits whose checksums may be made right again, and opened (P-D4): for a test with random programs and
//! for a fuzz target.
//!
//! A program: one byte of switches, then edits. An edit is which file, how (overwrite, insert, remove, cut), where (two bytes, scaled to the file's used
//! part), how many bytes, and the bytes. With `MEND` record and segment checksums and the manifest's first line are made right afterwards, so that what lies
//! behind them is reached as well.

use region::ErrorKind;
use region::clock::Timeout;
use region::env::Env;
use region::env::mem::MemEnv;
use region::options::{FamilySpec, OpenFlags, ReadOptions, RegionOptions, WalIo, WriteOptions};
use region::region::{CloseFlags, CommitInfo, Op, Region, ScanSpec};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PATH: &str = "/r";
const SEGMENT_HEADER: usize = 4096;

/// Checksums are made right after the edits.
pub const MEND: u8 = 1;
/// Opened for writing, written to, closed.
const WRITABLE: u8 = 2;
/// In another boot of the machine.
const REBOOTED: u8 = 4;
/// With recovery=power_cut.
const POWER_CUT: u8 = 8;
/// The log by pwrite.
const WRITTEN: u8 = 16;

/// The files of a killed region with every kind of record.
pub struct Image(Vec<(String, Vec<u8>)>);

fn options(flags: OpenFlags, switches: u8) -> RegionOptions {
    let power_cut = if switches & POWER_CUT != 0 { ",recovery=power_cut" } else { "" };
    RegionOptions {
        flags,
        wal_io: Some(if switches & WRITTEN != 0 { WalIo::Write } else { WalIo::Mapped }),
        sync_interval_ms: 3_600_000,
        config: format!("wal_segment_bytes=64k,lock_buckets=64,memstore_limit=4m{power_cut}"),
        ..RegionOptions::default()
    }
}

fn open(env: &MemEnv, o: RegionOptions) -> region::Result<Region> {
    Region::open_in(Arc::new(env.clone()), Path::new(PATH), o, None, None)
}

/// All verbs, some of them with nonces.
fn write(r: &Region, turns: u64) -> region::Result<()> {
    let mut info = CommitInfo::default();
    for i in 0..turns {
        let o = WriteOptions { nonce: if i % 3 == 0 { i + 1 } else { 0 }, ..WriteOptions::DEFAULT };
        let row = format!("row{}", i % 7);
        r.increment(row.as_bytes(), 1, b"n", 1, &o, &mut info)?;
        r.put(row.as_bytes(), 2, b"q", &vec![b'v'; (i * 37 % 300) as usize], &WriteOptions::DEFAULT, &mut info)?;
        r.append(row.as_bytes(), 2, b"a", b"more", &o, &mut info, None)?;
        let op = [Op::Delete, Op::DeleteVersion, Op::DeleteFamily, Op::DeleteRow][(i % 4) as usize];
        let timestamp = if op == Op::DeleteVersion { i + 1 } else { 0 };
        if i % 5 == 4 {
            r.delete(row.as_bytes(), 2, b"q", op, &WriteOptions { timestamp, ..WriteOptions::DEFAULT }, &mut info)?;
        }
    }
    Ok(())
}

impl Image {
    /// Two lives: one closed, one killed.
    pub fn new() -> Self {
        let env = MemEnv::new();
        let families = ["one", "three"].map(FamilySpec::named);
        let create = OpenFlags { create: true, ..OpenFlags::default() };
        let region = open(&env, RegionOptions { families: families.into(), ..options(create, 0) }).expect("an empty machine");
        write(&region, 40).expect("an empty region");
        region.close(CloseFlags::default(), Timeout::forever()).expect("healthy");
        let region = open(&env, options(OpenFlags::default(), 0)).expect("closed");
        write(&region, 60).expect("healthy");
        let killed = env.kill();
        drop(region);
        let names = killed.list(Path::new(PATH)).expect("a directory");
        let read = |name: String| {
            let bytes = region::env::read_whole(&killed, &Path::new(PATH).join(&name), 1 << 20).expect("a file");
            let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
            // Zeros behind the end of the log add nothing that an edit could not.
            let kept = bytes.len().min(used.next_multiple_of(SEGMENT_HEADER) + SEGMENT_HEADER);
            (name, bytes[..kept].to_vec())
        };
        Self(names.into_iter().filter(|name| name != "LOCK").map(read).collect())
    }

    /// What became of the changed files: how many cells were read, or why not.
    pub fn run(&self, program: &[u8]) -> Result<usize, ErrorKind> {
        let (switches, mut rest) = program.split_first().map_or((0, program), |(s, r)| (*s, r));
        let mut files = self.0.clone();
        while let Some(edit) = Edit::next(&mut rest) {
            edit.apply(&mut files);
        }
        if switches & MEND != 0 {
            for (name, bytes) in &mut files {
                if name == "MANIFEST" { mend_manifest(bytes) } else { mend_segment(bytes) }
            }
        }
        let env = MemEnv::new();
        env.create_dir(Path::new(PATH)).expect("an empty machine");
        for (name, bytes) in &files {
            env.create(&PathBuf::from(PATH).join(name)).and_then(|f| f.write_all_at(bytes, 0)).expect("an empty machine");
        }
        if switches & REBOOTED != 0 {
            env.set_boot_id([9; 16]);
        }
        let writable = switches & WRITABLE != 0;
        let outcome = use_it(&env, options(OpenFlags { read_only: !writable, ..OpenFlags::default() }, switches), writable);
        let known = |kind: &ErrorKind| {
            use ErrorKind::{Busy, Corrupt, Invalid, NoFamily, NoMem, NoRegion, NotCounter, Range, TooLarge, Unsupported};
            matches!(kind, Corrupt | Unsupported | Invalid | TooLarge | NoMem | Busy | NoFamily | NotCounter | Range | NoRegion)
        };
        outcome.map_err(|e| {
            assert!(known(&e.kind()) && !e.message().is_empty(), "{:?}: {e}", e.kind());
            e.kind()
        })
    }
}

fn use_it(env: &MemEnv, o: RegionOptions, writable: bool) -> region::Result<usize> {
    let region = open(env, o)?;
    let mut cells = 0;
    for flags in [0, ScanSpec::RAW] {
        let mut scan = region.scanner(None, &ReadOptions::DEFAULT, &ScanSpec { flags, ..ScanSpec::default() })?;
        while let Some(cell) = scan.next()? {
            cells += 1;
            std::hint::black_box(cell.value.iter().fold(0_u8, |a, b| a ^ b));
        }
    }
    region.describe()?;
    region.recovery_report()?;
    if writable {
        write(&region, 5)?;
        region.close(CloseFlags::default(), Timeout::forever())?;
    }
    Ok(cells)
}

struct Edit<'a> {
    file: u8,
    how: u8,
    place: u16,
    count: u8,
    bytes: &'a [u8],
}

impl<'a> Edit<'a> {
    fn next(rest: &mut &'a [u8]) -> Option<Self> {
        let (head, tail) = rest.split_first_chunk::<5>()?;
        let [file, how, low, high, count] = *head;
        let (bytes, tail) = tail.split_at(tail.len().min(usize::from(count % 64)));
        *rest = tail;
        Some(Self { file, how, place: u16::from_le_bytes([low, high]), count, bytes })
    }

    fn apply(&self, files: &mut [(String, Vec<u8>)]) {
        let n = files.len();
        let Some((_, bytes)) = files.get_mut(usize::from(self.file) % n.max(1)) else { return };
        let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        // Places behind the used part are of little interest; the first 64 Ki are reached one by one.
        let at = usize::from(self.place) % (used + 32).min(bytes.len()).max(1);
        let end = (at + self.bytes.len()).min(bytes.len());
        match self.how % 8 {
            0 => drop(bytes.splice(at..at, self.bytes.iter().copied())),
            1 => drop(bytes.drain(at..(at + usize::from(self.count)).min(bytes.len()))),
            2 => bytes.truncate(at),
            3 => bytes.extend(std::iter::repeat_n(self.count, 4096)),
            _ => bytes[at..end].copy_from_slice(&self.bytes[..end - at]),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Header and records with the checksums that their bytes should have; the lengths stay as they are.
fn mend_segment(bytes: &mut [u8]) {
    let Some((header, _)) = bytes.split_at_mut_checked(SEGMENT_HEADER) else { return };
    let crc = crc32c::crc32c(&header[..SEGMENT_HEADER - 4]);
    header[SEGMENT_HEADER - 4..].copy_from_slice(&crc.to_le_bytes());
    let salt = crc32c::crc32c(&header[32..40]);
    let mut at = SEGMENT_HEADER;
    while let Some(length) = word(bytes, at).map(|n| n as usize).filter(|n| *n >= 16) {
        let place = (at as u64 | (length as u64) << 32).to_le_bytes();
        let check = crc32c::crc32c_append(salt, &place);
        let Some(record) = bytes.get_mut(at..at + length) else { return };
        record[4..8].copy_from_slice(&check.to_le_bytes());
        // A PAD's fields end with its trailer, wherever the record ends.
        let trailer = if length >= 48 && record[28] == 2 { 40 } else { length - 8 };
        if length >= 48 && word(record, trailer) != Some(0) {
            let payload = if trailer > 40 { crc32c::crc32c(&record[40..trailer]) } else { 0 };
            let crc = crc32c::crc32c_append(salt, &place[..4]);
            let crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, &record[8..40]), &payload.to_le_bytes());
            record[trailer + 4..trailer + 8].copy_from_slice(&crc.to_le_bytes());
        }
        at += length.next_multiple_of(8);
    }
}

/// The first line with the length and checksum of what follows it.
fn mend_manifest(bytes: &mut Vec<u8>) {
    let Some(end) = bytes.iter().position(|b| *b == b'\n') else { return };
    let format = String::from_utf8_lossy(&bytes[..end]).split("format ").nth(1).and_then(|f| f.split(',').next()?.parse::<u32>().ok());
    let Some(format) = format else { return };
    let json = bytes.split_off(end + 1);
    let line = |crc: u32| format!("libregion manifest, format {format}, crc32c {crc:08x}, {} bytes\n", json.len());
    *bytes = line(crc32c::crc32c_append(crc32c::crc32c(line(0).as_bytes()), &json)).into_bytes();
    bytes.extend(json);
}
