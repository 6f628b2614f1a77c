//! The manifest: what of a region is live. One small file, replaced as a whole.
//!
//! *Replacement.* Write `MANIFEST.new`, sync it, rename it to `MANIFEST`, sync the directory. After a crash at any point the old one or the new one is there,
//! never anything else. An error before the rename changed nothing. An error from the directory's sync leaves open which of the two a power cut would bring:
//! whoever stores again settles it. Opening for writing does, before anything goes that an older manifest needs.
//!
//! *Threads.* A value; whoever replaces the file holds the region's manifest lock over reading, changing and storing.
//!
//! *Format.* One line of ASCII that no later version changes, then JSON that people can read:
//!
//! ```text
//! libregion manifest, format 3, crc32c 0a1b2c3d, 512 bytes\n
//! { "region": "…", … }
//! ```
//!
//! The length is that of the JSON, which ends the file. The checksum covers all bytes of the file with its own eight digits as zeros, the format number
//! included. *Valid* is a file whose first line is exactly as this code would write it for the same numbers and whose checksum is right; then a format above
//! [`FORMAT`] is a newer library's and is refused as such; everything else is damage. Unknown keys are damage, too: a library that passed over what it does not
//! know would drop it at the next replacement, so new keys mean a new format number. Keys that a later format adds have defaults, so older files stay readable.
//!
//! *Hostile files.* At most 16 MB are read; families are at most 65,535; numbers are bounded such that counting on from them does not overflow.

#[cfg(all(test, not(loom)))]
mod tests;

use super::family::{Families, FamilyInfo, TTL_NONE};
use crate::clock::ClockUnit;
use crate::env::{Env, read_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::ids::{FamilyId, LogPosition, ROW_BYTES_MAX};
use crate::merge::visibility::{KeepDeleted, Regime};
use crate::options::{Settings, Stored};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// Everything that must be known before the log can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Which region this is; log segments carry it, so that foreign ones are known.
    pub region: [u8; 16],
    /// Key under which rows are hashed for nonces; never shown.
    pub nonce_key: [u8; 16],
    /// Unit of timestamps; never changes.
    pub clock_unit: ClockUnit,
    /// First row of the key range; empty: unbounded.
    pub start_row: Vec<u8>,
    /// First row behind the key range; empty: unbounded.
    pub end_row: Vec<u8>,
    /// Durability of commits that do not say: 1 SKIP, 2 ASYNC, 3 SYNC, 4 FSYNC.
    pub durability: u8,
    /// What a row does that already committed in a tick, where the options do not say: 1 advance, 2 wait.
    pub tick_policy: u8,
    /// The families, with the next id.
    pub families: Families,
    /// Memstore segments up to this generation are in store files: replay skips their records.
    pub flushed_generation: u32,
    /// Highest commit number in store files.
    pub max_number: u64,
    /// Highest tick in store files.
    pub max_tick: u64,
    /// Log segments below this number are not needed.
    pub first_segment: u32,
    /// The log was synced up to here: the start of its first segment when the region was last opened, its end when it was last closed. 0: not known.
    pub synced: LogPosition,
    /// The last number given when the region was last closed, or settings of a family were last changed, logged or not.
    pub last_number: u64,
    /// Settings that hold where an open names none; empty in what format 1 left.
    pub settings: Stored,
}

/// Name of the file in the region's directory.
pub const MANIFEST: &str = "MANIFEST";
/// Name under which its successor is written.
pub const MANIFEST_NEW: &str = "MANIFEST.new";
/// Format that this library writes, and the newest it reads.
pub const FORMAT: u32 = 3;
/// Larger files are not read.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;
/// Numbers and ticks above this are damage: recovery counts on from them.
const NUMBER_MAX: u64 = 1 << 62;
/// The same for generations and log segments.
const NUMBER32_MAX: u32 = 1 << 31;
/// The first line is shorter.
const FIRST_LINE_BYTES_MAX: usize = 128;

impl Manifest {
    /// The manifest of a new region with fresh random ids; nothing is written yet.
    pub fn new(env: &dyn Env, clock_unit: ClockUnit, durability: u8) -> Result<Self> {
        let (mut region, mut nonce_key) = ([0; 16], [0; 16]);
        for bytes in [&mut region, &mut nonce_key] {
            env.random(bytes).map_err(|e| Error::io("cannot get random bytes for a new region", &e))?;
        }
        Ok(Self {
            region,
            nonce_key,
            clock_unit,
            start_row: Vec::new(),
            end_row: Vec::new(),
            durability,
            tick_policy: 1,
            families: Families::new(),
            flushed_generation: 0,
            max_number: 0,
            max_tick: 0,
            first_segment: 1,
            synced: LogPosition(0),
            last_number: 0,
            settings: Stored::new(),
        })
    }

    /// Writes the first manifest of a region; `Exists` if there is one. The caller makes the directory's own name durable.
    pub fn create(&self, env: &dyn Env, dir: &Path) -> Result<()> {
        if exists(env, dir)? {
            return fail!(Exists, "{} is a region already", dir.display());
        }
        self.store(env, dir)
    }

    /// Reads and checks. `NoRegion`: there is none. `Corrupt`: damaged. `Unsupported`: a newer library wrote it. Changes nothing.
    pub fn load(env: &dyn Env, dir: &Path) -> Result<Self> {
        let path = dir.join(MANIFEST);
        match read_whole(env, &path, MANIFEST_BYTES_MAX) {
            Ok(bytes) => decode(&bytes).map_err(|e| e.context(path.display())),
            Err(e) => match e.kind() {
                io::ErrorKind::NotFound => fail!(NoRegion, "there is no region at {}: it has no {MANIFEST}", dir.display()),
                io::ErrorKind::FileTooLarge => fail!(Corrupt, "{}: larger than {MANIFEST_BYTES_MAX} bytes", path.display()),
                io::ErrorKind::UnexpectedEof => fail!(Corrupt, "{}: became shorter while it was read", path.display()),
                _ => Err(Error::io(format_args!("cannot read {}", path.display()), &e)),
            },
        }
    }

    /// Replaces the file; durable on return. See the module's header for what an error means.
    pub fn store(&self, env: &dyn Env, dir: &Path) -> Result<()> {
        self.check()?;
        let bytes = encode(self)?;
        let (path, new) = (dir.join(MANIFEST), dir.join(MANIFEST_NEW));
        let written = write_new(env, &new, &bytes).and_then(|()| env.rename(&new, &path));
        if let Err(e) = written {
            // For tidiness alone: the next replacement removes it, too.
            let _ = env.remove(&new);
            return Err(Error::io(format_args!("cannot replace {}", path.display()), &e));
        }
        env.sync_dir(dir).map_err(|e| Error::io(format_args!("cannot sync {} after replacing {MANIFEST}", dir.display()), &e))
    }

    fn check(&self) -> Result<()> {
        if !(1..=4).contains(&self.durability) {
            return fail!(Invalid, "durability {} is none of 1 (skip), 2 (async), 3 (sync), 4 (fsync)", self.durability);
        }
        if !(1..=2).contains(&self.tick_policy) {
            return fail!(Invalid, "tick policy {} is none of 1 (advance), 2 (wait)", self.tick_policy);
        }
        for (what, row) in [("start row", &self.start_row), ("end row", &self.end_row)] {
            if row.len() > ROW_BYTES_MAX {
                return fail!(Invalid, "the {what} has {} bytes, more than {ROW_BYTES_MAX}", row.len());
            }
        }
        if !self.end_row.is_empty() && self.start_row >= self.end_row {
            return fail!(Invalid, "the start row is not before the end row: no row could be in the region");
        }
        for (what, n) in [("max_number", self.max_number), ("max_tick", self.max_tick), ("last_number", self.last_number)] {
            if n > NUMBER_MAX {
                return fail!(Invalid, "{what} {n} is beyond {NUMBER_MAX}");
            }
        }
        let numbers = [
            ("flushed_generation", self.flushed_generation),
            ("first_segment", self.first_segment),
            ("synced_segment", self.synced.segment()),
        ];
        for (what, n) in numbers {
            if n > NUMBER32_MAX {
                return fail!(Invalid, "{what} {n} is beyond {NUMBER32_MAX}");
            }
        }
        if let Some((key, value)) = self.settings.iter().find(|(key, value)| !Settings::may_be_stored(key, **value)) {
            return fail!(Invalid, "{key} = {value} is no setting that a region keeps");
        }
        Ok(())
    }
}

/// Is there a manifest in this directory, whatever its state? False for a directory that is not there.
pub fn exists(env: &dyn Env, dir: &Path) -> Result<bool> {
    let path = dir.join(MANIFEST);
    env.exists(&path).map_err(|e| Error::io(format_args!("cannot look for {}", path.display()), &e))
}

fn write_new(env: &dyn Env, new: &Path, bytes: &[u8]) -> io::Result<()> {
    // A crash may have left one; always a new file, since a page whose sync failed once may never be written.
    match env.remove(new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = env.create(new)?;
    file.write_all_at(bytes, 0)?;
    file.sync_all()
}

/// The JSON. Keys reach disk: never change their names or meaning.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    region: String,
    nonce_key: String,
    clock_unit: String,
    start_row: String,
    end_row: String,
    durability: u8,
    tick_policy: u8,
    flushed_generation: u32,
    max_number: u64,
    max_tick: u64,
    first_segment: u32,
    // From format 2 on.
    #[serde(default)]
    synced_segment: u32,
    #[serde(default)]
    synced_offset: u32,
    #[serde(default)]
    last_number: u64,
    #[serde(default)]
    settings: Stored,
    next_family: u32,
    families: Vec<FamilyBody>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyBody {
    id: u32,
    name: String,
    max_versions: u32,
    min_versions: u32,
    /// null: none.
    ttl_ms: Option<u64>,
    bloom: u32,
    compression: u32,
    block_size: u32,
    flags: u32,
    // From format 3 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    past: Vec<RegimeBody>,
}

/// Settings that held up to a change of them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegimeBody {
    through: u64,
    max_versions: u32,
    min_versions: u32,
    /// 0 no, 1 yes, 2 until expired.
    keep_deleted: u32,
    oldest: u64,
}

fn encode(m: &Manifest) -> Result<Vec<u8>> {
    let regime = |r: Regime| RegimeBody {
        through: r.through,
        max_versions: r.max_versions,
        min_versions: r.min_versions,
        keep_deleted: r.keep_deleted as u32,
        oldest: r.oldest,
    };
    let family = |f: &FamilyInfo| FamilyBody {
        id: f.id.0,
        name: f.name.clone(),
        max_versions: f.max_versions,
        min_versions: f.min_versions,
        ttl_ms: (f.ttl_ms != TTL_NONE).then_some(f.ttl_ms),
        bloom: f.bloom,
        compression: f.compression,
        block_size: f.block_size,
        flags: f.flags,
        past: f.past.iter().map(|r| regime(*r)).collect(),
    };
    let body = Body {
        region: to_hex(&m.region),
        nonce_key: to_hex(&m.nonce_key),
        clock_unit: unit_name(m.clock_unit).into(),
        start_row: to_hex(&m.start_row),
        end_row: to_hex(&m.end_row),
        durability: m.durability,
        tick_policy: m.tick_policy,
        flushed_generation: m.flushed_generation,
        max_number: m.max_number,
        max_tick: m.max_tick,
        first_segment: m.first_segment,
        synced_segment: m.synced.segment(),
        synced_offset: m.synced.offset(),
        last_number: m.last_number,
        settings: m.settings.clone(),
        next_family: m.families.next_id(),
        families: m.families.iter().map(|f| family(f)).collect(),
    };
    let mut json =
        serde_json::to_vec_pretty(&body).map_err(|e| Error::new(ErrorKind::Internal, format!("cannot write the manifest as JSON: {e}")))?;
    json.push(b'\n');
    let bytes = in_envelope(FORMAT, &json);
    if bytes.len() > MANIFEST_BYTES_MAX {
        return fail!(TooLarge, "the manifest would have {} bytes, more than {MANIFEST_BYTES_MAX}", bytes.len());
    }
    Ok(bytes)
}

fn first_line(format: u32, crc: u32, len: usize) -> String {
    format!("libregion manifest, format {format}, crc32c {crc:08x}, {len} bytes\n")
}

fn in_envelope(format: u32, json: &[u8]) -> Vec<u8> {
    let crc = checksum(format, json);
    let mut bytes = first_line(format, crc, json.len()).into_bytes();
    bytes.extend_from_slice(json);
    bytes
}

fn checksum(format: u32, json: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(first_line(format, 0, json.len()).as_bytes()), json)
}

fn decode(bytes: &[u8]) -> Result<Manifest> {
    let (format, json) = open_envelope(bytes)?;
    if format > FORMAT {
        return fail!(
            Unsupported,
            "format {format} was written by a newer library; this one ({}) reads up to format {FORMAT}",
            env!("CARGO_PKG_VERSION")
        );
    }
    let body: Body =
        serde_json::from_slice(json).map_err(|e| Error::new(ErrorKind::Corrupt, format!("not the JSON of a manifest: {e}")))?;
    // Whatever is wrong from here on was stored so: damage, not an argument.
    from_body(body).map_err(|e| Error::new(ErrorKind::Corrupt, e.message()))
}

/// Format and JSON of a file that is whole.
fn open_envelope(bytes: &[u8]) -> Result<(u32, &[u8])> {
    let parts = || {
        let end = bytes.iter().take(FIRST_LINE_BYTES_MAX).position(|&b| b == b'\n')?;
        let (line, json) = bytes.split_at(end + 1);
        let numbers = std::str::from_utf8(line).ok()?.strip_prefix("libregion manifest, format ")?.strip_suffix(" bytes\n")?;
        let (format, rest) = numbers.split_once(", crc32c ")?;
        let (crc, len) = rest.split_once(", ")?;
        let (format, crc, len) = (format.parse().ok()?, u32::from_str_radix(crc, 16).ok()?, len.parse::<usize>().ok()?);
        // Exactly as it would be written: no other spelling of the same numbers.
        (first_line(format, crc, len).as_bytes() == line).then_some((format, crc, len, json))
    };
    let Some((format, crc, len, json)) = parts() else {
        return fail!(Corrupt, "offset 0: the first line is not that of a manifest");
    };
    if json.len() != len {
        return fail!(Corrupt, "{} bytes follow the first line, it says {len}", json.len());
    }
    let right = checksum(format, json);
    if crc != right {
        return fail!(Corrupt, "offset 0: checksum {crc:08x} is stored, the bytes have {right:08x}");
    }
    Ok((format, json))
}

fn from_body(body: Body) -> Result<Manifest> {
    let Some(clock_unit) = [ClockUnit::Nanos, ClockUnit::Micros, ClockUnit::Millis].into_iter().find(|&u| unit_name(u) == body.clock_unit)
    else {
        return fail!(Corrupt, "clock unit {:?} is none of ns, us, ms", body.clock_unit);
    };
    let families: Result<Vec<_>> = body.families.into_iter().map(family_of).collect();
    let manifest = Manifest {
        region: id_of("region", &body.region)?,
        nonce_key: id_of("nonce_key", &body.nonce_key)?,
        clock_unit,
        start_row: bytes_of("start_row", &body.start_row)?,
        end_row: bytes_of("end_row", &body.end_row)?,
        durability: body.durability,
        tick_policy: body.tick_policy,
        families: Families::from_stored(body.next_family, families?)?,
        flushed_generation: body.flushed_generation,
        max_number: body.max_number,
        max_tick: body.max_tick,
        first_segment: body.first_segment,
        synced: LogPosition::new(body.synced_segment, body.synced_offset),
        last_number: body.last_number,
        settings: body.settings,
    };
    manifest.check()?;
    Ok(manifest)
}

fn family_of(f: FamilyBody) -> Result<FamilyInfo> {
    let regime = |r: RegimeBody| {
        let keep_deleted =
            [KeepDeleted::No, KeepDeleted::Yes, KeepDeleted::UntilExpired].into_iter().find(|k| *k as u32 == r.keep_deleted)?;
        let RegimeBody { through, max_versions, min_versions, oldest, .. } = r;
        (through <= NUMBER_MAX).then_some(Regime { through, max_versions, min_versions, keep_deleted, oldest })
    };
    let Some(past) = f.past.into_iter().map(regime).collect() else {
        return fail!(Corrupt, "family {}: settings of the past that cannot be", f.name);
    };
    let mut family = FamilyInfo::new(f.name.as_bytes())?;
    family.id = FamilyId(f.id);
    (family.max_versions, family.min_versions) = (f.max_versions, f.min_versions);
    family.ttl_ms = f.ttl_ms.unwrap_or(TTL_NONE);
    (family.bloom, family.compression, family.block_size, family.flags) = (f.bloom, f.compression, f.block_size, f.flags);
    family.past = past;
    Ok(family)
}

fn unit_name(unit: ClockUnit) -> &'static str {
    match unit {
        ClockUnit::Nanos => "ns",
        ClockUnit::Micros => "us",
        ClockUnit::Millis => "ms",
    }
}

fn to_hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0');
    bytes.iter().flat_map(|&b| [digit(b >> 4), digit(b & 15)]).collect()
}

fn bytes_of(what: &str, hex: &str) -> Result<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|n| n as u8);
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    match bytes.filter(|_| rest.is_empty()) {
        Some(bytes) => Ok(bytes),
        None => fail!(Corrupt, "{what} is not a row of pairs of hex digits"),
    }
}

fn id_of(what: &str, hex: &str) -> Result<[u8; 16]> {
    let bytes = bytes_of(what, hex)?;
    match <[u8; 16]>::try_from(bytes) {
        Ok(id) => Ok(id),
        Err(bytes) => fail!(Corrupt, "{what} has {} bytes, not 16", bytes.len()),
    }
}
