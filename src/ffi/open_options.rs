//! Options of opening a region, and families: C structs, and what they become. Bounds are checked where they are known, in `crate::options`.

use super::bytes::region_slice_t;
use super::guard::Caller;
use super::options::{choice, known_bits};
use super::sized::{Elements, plain};
use crate::clock::ClockUnit;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Bloom, Compression, Durability, FamilySpec, OpenFlags, RegionOptions, TickPolicy, WalIo};
use crate::region::{Phase, Progress};
use crate::store::FamilyInfo;
use std::ffi::{c_char, c_void};

/// Bits of region_options_t.flags.
#[repr(C)]
pub enum region_open_flags {
    /// Create the region, and listed families, where they do not exist.
    REGION_OPEN_CREATE = 1,
    /// With CREATE: REGION_E_EXISTS if there is a region.
    REGION_OPEN_ERROR_IF_EXISTS = 2,
    /// No writes; several readers may share the region, REGION_E_LOCKED while a writer has it.
    REGION_OPEN_READ_ONLY = 4,
}

/// Bits of the flags of region_close.
#[repr(C)]
pub enum region_close_flags {
    /// Open snapshots and scanners do not keep it open: they answer REGION_E_CLOSED from then on.
    REGION_CLOSE_FORCE = 1,
    /// Do not flush commits of REGION_DUR_SKIP_WAL. This version flushes nothing: they are lost either way.
    REGION_CLOSE_NO_FLUSH = 2,
}

/// Unit of timestamps; fixed when the region is created.
#[repr(C)]
pub enum region_clock_unit {
    /// As stored; nanoseconds when created.
    REGION_CLOCK_DEFAULT = 0,
    /// Nanoseconds.
    REGION_CLOCK_NS = 1,
    /// Microseconds.
    REGION_CLOCK_US = 2,
    /// Milliseconds, as HBase.
    REGION_CLOCK_MS = 3,
}

/// What a second commit of a row within one unit of the clock does.
#[repr(C)]
pub enum region_tick_policy {
    /// As stored; ADVANCE when created.
    REGION_TICK_DEFAULT = 0,
    /// Takes the next tick, within a bounded lead over the clock.
    REGION_TICK_ADVANCE = 1,
    /// Waits for the clock. With ticks of microseconds or milliseconds a row may also wait that was not written within the tick, where more than
    /// two rows of its lock bucket were (config key lock_buckets): of rows that left the bucket only the latest tick is known.
    REGION_TICK_WAIT = 2,
}

/// How the log is written.
#[repr(C)]
pub enum region_wal_io {
    /// Mapped where that is safe (ext4, XFS, tmpfs), else WRITE.
    REGION_WAL_DEFAULT = 0,
    /// Mapped, or the region does not open.
    REGION_WAL_MAPPED = 1,
    /// One write per record.
    REGION_WAL_WRITE = 2,
}

/// What a store file's Bloom filter is over.
#[repr(C)]
pub enum region_bloom {
    /// As stored; ROW when created.
    REGION_BLOOM_DEFAULT = 0,
    /// None.
    REGION_BLOOM_NONE = 1,
    /// Rows.
    REGION_BLOOM_ROW = 2,
    /// Rows with qualifiers.
    REGION_BLOOM_ROWCOL = 3,
}

/// How store files are compressed.
#[repr(C)]
pub enum region_compression {
    /// As stored; NONE when created.
    REGION_COMPRESSION_DEFAULT = 0,
    /// Not.
    REGION_COMPRESSION_NONE = 1,
    /// zlib.
    REGION_COMPRESSION_GZ = 2,
    /// Snappy.
    REGION_COMPRESSION_SNAPPY = 3,
    /// LZ4.
    REGION_COMPRESSION_LZ4 = 4,
    /// Zstandard.
    REGION_COMPRESSION_ZSTD = 5,
}

/// Bits of region_family_t.flags.
#[repr(C)]
pub enum region_family_flags {
    /// Deleted cells stay readable in the past until they fall to versions or age.
    REGION_FAMILY_KEEP_DELETED = 1,
    /// The same, until the delete marker has expired.
    REGION_FAMILY_KEEP_DELETED_TTL = 2,
}

/// A column family. Zeros: as stored, or the default when it is created.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_family_t {
    /// 1 to 127 bytes, no control character, none of / : \, no dot in front. Out: valid until region_close.
    pub name: region_slice_t,
    /// Versions kept of each column; default 1.
    pub max_versions: u32,
    /// Versions that ttl_ms leaves; default 0.
    pub min_versions: u32,
    /// Milliseconds until a cell expires; default REGION_TTL_NONE.
    pub ttl_ms: u64,
    /// REGION_BLOOM_*
    pub bloom: u32,
    /// REGION_COMPRESSION_*
    pub compression: u32,
    /// Bytes of a store file's block; default 65536.
    pub block_size: u32,
    /// REGION_FAMILY_*
    pub flags: u32,
}

/// What a long call is doing.
#[repr(C)]
pub enum region_phase {
    /// Replaying the log, in region_open.
    REGION_PHASE_RECOVERY = 1,
    /// Writing memory to files.
    REGION_PHASE_FLUSH = 2,
    /// Merging files.
    REGION_PHASE_COMPACT = 3,
    /// Linking or copying files.
    REGION_PHASE_CHECKPOINT = 4,
    /// Writing files for HBase.
    REGION_PHASE_EXPORT = 5,
    /// Taking a file in.
    REGION_PHASE_INGEST = 6,
}

/// How far a long call is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_progress_t {
    /// sizeof(region_progress_t) of the library.
    pub struct_size: u32,
    /// REGION_PHASE_*
    pub phase: u32,
    /// Bytes done.
    pub done: u64,
    /// Bytes in all; 0 = not known yet.
    pub total: u64,
}

/// Tells how far a call is; not 0 cancels it. Runs on the calling thread only, at least every 100 ms; may call anything but
/// region_close on the region in question. p is valid during the callback.
pub type region_progress_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, p: *const region_progress_t) -> i32>;

/// How a region is opened. NULL, or zeros behind struct_size, mean: as stored where the region exists, the default where it is created.
/// Another value than the stored one is stored in its place; only clock unit and key range stay: REGION_E_INVALID, naming both.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_options_t {
    /// sizeof(region_options_t)
    pub struct_size: u32,
    /// REGION_OPEN_*
    pub flags: u32,
    /// REGION_DUR_* of writes that name none.
    pub durability: u32,
    /// Threads for flush and compaction; default 1.
    pub background_threads: u32,
    /// REGION_CLOCK_*; REGION_E_INVALID if it differs from what is stored.
    pub clock_unit: u32,
    /// REGION_TICK_*
    pub tick_policy: u32,
    /// REGION_WAL_*
    pub wal_io: u32,
    /// Milliseconds between background syncs; default 1000.
    pub sync_interval_ms: u32,
    /// Microseconds that a call waits which names no timeout; default 10 s.
    pub write_timeout_us: u64,
    /// Bytes of memstore memory, hard; default 1 GiB.
    pub memstore_limit: u64,
    /// Bytes of memstore at which a flush starts; default 128 MiB.
    pub flush_bytes: u64,
    /// Bytes of block cache; default 256 MiB.
    pub block_cache_bytes: u64,
    /// Bytes of log at which writes wait; default 8 GiB.
    pub wal_bytes_max: u64,
    /// NULL = the process's default pool; the library takes its own reference.
    pub chunk_pool: *mut super::pool::chunk_pool_t,
    /// Families to create, or whose settings to change.
    pub families: *const region_family_t,
    /// Elements of families.
    pub n_families: usize,
    /// sizeof(region_family_t)
    pub family_size: usize,
    /// First row; empty = unbounded. Fixed when the region is created.
    pub start_row: region_slice_t,
    /// First row beyond; empty = unbounded.
    pub end_row: region_slice_t,
    /// "key=value,..." for the long tail, see region_describe; NULL ok.
    pub config: *const c_char,
    /// Called while the log is replayed; NULL ok.
    pub progress: region_progress_cb,
    /// Passed to progress.
    pub progress_ctx: *mut c_void,
}

plain!(region_family_t, region_progress_t, region_options_t);

/// A family as the caller describes it.
pub(super) fn family(c: Caller<'_>, f: &region_family_t) -> Result<FamilySpec> {
    Ok(FamilySpec {
        name: f.name.bytes(c, "name")?.to_vec(),
        max_versions: f.max_versions,
        min_versions: f.min_versions,
        ttl_ms: f.ttl_ms,
        bloom: choice(f.bloom, Bloom::from_u8, "bloom")?,
        compression: choice(f.compression, Compression::from_u8, "compression")?,
        block_size: f.block_size,
        flags: {
            known_bits(f.flags, FamilySpec::FLAGS_ALL, "flags")?;
            f.flags
        },
    })
}

/// A family as it is; `name` is what the caller may keep until close.
pub(super) fn family_out(f: &FamilyInfo, name: region_slice_t) -> region_family_t {
    region_family_t {
        name,
        max_versions: f.max_versions,
        min_versions: f.min_versions,
        ttl_ms: f.ttl_ms,
        bloom: f.bloom,
        compression: f.compression,
        block_size: f.block_size,
        flags: f.flags,
    }
}

/// Size of `region_family_t` in the first release.
pub(super) const FAMILY_BYTES_FIRST: usize = 48;

/// What a region is opened with, but for the pool and the callback.
pub(super) fn open(c: Caller<'_>, o: &region_options_t) -> Result<RegionOptions> {
    use region_open_flags::{REGION_OPEN_CREATE, REGION_OPEN_ERROR_IF_EXISTS, REGION_OPEN_READ_ONLY};
    let (create, error_if_exists, read_only) =
        (REGION_OPEN_CREATE as u32, REGION_OPEN_ERROR_IF_EXISTS as u32, REGION_OPEN_READ_ONLY as u32);
    known_bits(o.flags, create | error_if_exists | read_only, "opts.flags")?;
    let elements = Elements::new(c, o.families, o.n_families, o.family_size, FAMILY_BYTES_FIRST, "opts.families")?;
    let mut families = Vec::new();
    for i in 0..elements.len() {
        let one = elements.get(i).and_then(|f| family(c, &f));
        families.push(one.map_err(|e| e.at_op(i as u64).context(format_args!("opts.families[{i}]")))?);
    }
    let wal_io = |n| match n {
        1 => Some(WalIo::Mapped),
        2 => Some(WalIo::Write),
        _ => None,
    };
    let tick_policy = |n| match n {
        1 => Some(TickPolicy::Advance),
        2 => Some(TickPolicy::Wait),
        _ => None,
    };
    let config = match c.text(o.config) {
        None => String::new(),
        Some(text) => match text.to_str() {
            Ok(text) => text.to_string(),
            Err(_) => return Err(Error::new(ErrorKind::Invalid, "opts.config is not UTF-8")),
        },
    };
    Ok(RegionOptions {
        flags: OpenFlags {
            create: o.flags & create != 0,
            error_if_exists: o.flags & error_if_exists != 0,
            read_only: o.flags & read_only != 0,
        },
        durability: choice(o.durability, Durability::from_u8, "opts.durability")?,
        clock_unit: choice(o.clock_unit, ClockUnit::from_u8, "opts.clock_unit")?,
        tick_policy: choice(o.tick_policy, tick_policy, "opts.tick_policy")?,
        wal_io: choice(o.wal_io, wal_io, "opts.wal_io")?,
        sync_interval_ms: o.sync_interval_ms,
        write_timeout_us: o.write_timeout_us,
        memstore_limit: o.memstore_limit,
        flush_bytes: o.flush_bytes,
        block_cache_bytes: o.block_cache_bytes,
        wal_bytes_max: o.wal_bytes_max,
        background_threads: o.background_threads,
        families,
        start_row: o.start_row.bytes(c, "opts.start_row")?.to_vec(),
        end_row: o.end_row.bytes(c, "opts.end_row")?.to_vec(),
        config,
    })
}

/// The caller's progress callback as the core calls it.
pub(super) fn progress(cb: region_progress_cb, ctx: *mut c_void) -> impl FnMut(Progress) -> bool {
    move |p| {
        let phase = match p.phase {
            Phase::Recovery => region_phase::REGION_PHASE_RECOVERY,
            Phase::Flush => region_phase::REGION_PHASE_FLUSH,
            Phase::Compact => region_phase::REGION_PHASE_COMPACT,
            Phase::Checkpoint => region_phase::REGION_PHASE_CHECKPOINT,
            Phase::Export => region_phase::REGION_PHASE_EXPORT,
            Phase::Ingest => region_phase::REGION_PHASE_INGEST,
        };
        let size = size_of::<region_progress_t>() as u32;
        let told = region_progress_t { struct_size: size, phase: phase as u32, done: p.done, total: p.total };
        // SAFETY: the caller's function and context, used within the call they were passed to and on its thread.
        cb.is_some_and(|cb| unsafe { cb(ctx, &told) } != 0)
    }
}
