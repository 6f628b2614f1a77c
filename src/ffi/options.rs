//! Options of open, writes and reads: C structs, and what they become. Checks only what C cannot say (unknown bits, unknown numbers);
//! bounds are `crate::options`'s.

use super::bytes::region_slice_t;
use super::guard::Caller;
use super::handle::{self, Entered};
use super::scan::{Snap, region_snapshot_t};
use super::sized::{Elements, plain, read_sized, write_sized, zeroed};
use crate::clock::{ClockUnit, Timeout};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Bloom, Compression, Durability, FamilySpec, OpenFlags, ReadOptions, RegionOptions, TickPolicy, WalIo, WriteOptions};
use crate::region::{CommitInfo, Phase, Progress, Region};
use crate::store::FamilyInfo;
use std::ffi::{c_char, c_void};

/// Values of durability. 0 is the region's own.
#[repr(C)]
pub enum region_durability {
    /// The region's default; for a region: as stored, REGION_DUR_SYNC_WAL when it is created.
    REGION_DUR_DEFAULT = 0,
    /// Not in the log: lost unless flushed.
    REGION_DUR_SKIP_WAL = 1,
    /// In the kernel at return.
    REGION_DUR_ASYNC_WAL = 2,
    /// In the kernel at return: survives the death of the process, and of the machine after the background sync.
    REGION_DUR_SYNC_WAL = 3,
    /// On stable storage at return.
    REGION_DUR_FSYNC_WAL = 4,
}

/// Bits of region_write_options_t.flags.
#[repr(C)]
pub enum region_write_flags {
    /// Batch: all rows or none.
    REGION_W_ATOMIC = 1,
    /// Increments: refuse instead of wrapping.
    REGION_W_CHECK_OVERFLOW = 2,
    /// Increments: min_value <= result <= max_value, else REGION_NOT_APPLIED, nothing changed, value = current.
    REGION_W_BOUNDED = 4,
    /// With BOUNDED: clamp instead of refusing.
    REGION_W_SATURATE = 8,
    /// Increments: store delta instead of adding it.
    REGION_W_SET = 16,
    /// Increments: value = before, not after (absent = 0).
    REGION_W_RETURN_OLD = 32,
}

/// Bits of region_commit_info_t.flags.
#[repr(C)]
pub enum region_commit_flags {
    /// Already as durable as asked: nothing to wait for (also: nothing was written).
    REGION_COMMIT_DURABLE = 1,
    /// Answered from the nonce's first run.
    REGION_COMMIT_DUPLICATE = 2,
}

/// What a write tells besides its value: its highest commit.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_commit_info_t {
    /// In: sizeof(region_commit_info_t).
    pub struct_size: u32,
    /// Out: REGION_COMMIT_*
    pub flags: u32,
    /// Out: for region_wait_durable; 0 = nothing to wait for (nothing written, or SKIP_WAL).
    pub seq: u64,
    /// Out: timestamp that the commit gave to its cells.
    pub timestamp: u64,
}

/// How one write is done. NULL, or zeros behind struct_size, mean the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_write_options_t {
    /// sizeof(region_write_options_t)
    pub struct_size: u32,
    /// REGION_W_*
    pub flags: u32,
    /// REGION_DUR_*
    pub durability: u32,
    /// 0
    pub reserved: u32,
    /// Microseconds for row locks, memory, log space and sync together.
    pub timeout_us: u64,
    /// 0 = the region's clock; at most 2^62.
    pub timestamp: u64,
    /// Whose nonces these are.
    pub nonce_group: u64,
    /// Makes a repeated call count once; 0 = none.
    pub nonce: u64,
    /// Least result, with REGION_W_BOUNDED.
    pub min_value: i64,
    /// Greatest result, with REGION_W_BOUNDED.
    pub max_value: i64,
    /// Out, may be NULL: the highest commit of the call.
    pub info: *mut region_commit_info_t,
}

/// Bits of region_read_options_t.flags.
#[repr(C)]
pub enum region_read_flags {
    /// Blocks read for this call do not enter the cache.
    REGION_READ_NO_CACHE = 1,
}

/// How one read is done. NULL, or zeros behind struct_size, mean the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_read_options_t {
    /// sizeof(region_read_options_t)
    pub struct_size: u32,
    /// REGION_READ_*
    pub flags: u32,
    /// NULL = newest.
    pub snapshot: *const region_snapshot_t,
    /// Least timestamp.
    pub min_ts: u64,
    /// First timestamp beyond; 0 = no bound.
    pub max_ts: u64,
    /// Microseconds.
    pub timeout_us: u64,
}

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
    /// Do not flush commits of REGION_DUR_SKIP_WAL.
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
    /// Waits for the clock.
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

plain!(region_commit_info_t, region_write_options_t, region_read_options_t, region_family_t, region_progress_t, region_options_t,);

/// Refuses bits that this version does not know, naming the field.
pub(super) fn known_bits(flags: u32, known: u32, field: &str) -> Result<()> {
    if flags & !known == 0 { Ok(()) } else { Err(unsupported(field, format_args!("0x{:x}", flags & !known))) }
}

/// Refuses a reserved field that is not zero.
pub(super) fn must_be_zero(value: u64, field: &str) -> Result<()> {
    if value == 0 { Ok(()) } else { Err(unsupported(field, format_args!("{value}, it must be 0"))) }
}

#[cold]
pub(super) fn unsupported(field: &str, value: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{field}: {value} is not known to version {}", env!("CARGO_PKG_VERSION")))
}

/// An enum of which 0 is the default.
fn choice<T>(value: u32, from: impl FnOnce(u8) -> Option<T>, field: &str) -> Result<Option<T>> {
    match u8::try_from(value) {
        Ok(0) => Ok(None),
        Ok(n) => from(n).map(Some).ok_or_else(|| unsupported(field, value)),
        Err(_) => Err(unsupported(field, value)),
    }
}

/// 0 = the region's own.
pub(super) fn timeout(us: u64, region: &Region) -> Timeout {
    Timeout::from_micros(if us == 0 { region.write_timeout_us() } else { us })
}

fn some_timeout(us: u64) -> Option<u64> {
    (us != 0).then_some(us)
}

/// The options of a write, and where its commit is to be told.
#[derive(Clone, Copy)]
pub(super) struct Write<'a> {
    pub(super) options: WriteOptions,
    info: *mut region_commit_info_t,
    caller: Caller<'a>,
}

impl<'a> Write<'a> {
    #[inline]
    pub(super) fn given(caller: Caller<'a>, p: *const region_write_options_t) -> Result<Self> {
        if p.is_null() {
            return Ok(Self { options: WriteOptions::DEFAULT, info: std::ptr::null_mut(), caller });
        }
        Self::not_null(caller, p)
    }
    fn not_null(caller: Caller<'a>, p: *const region_write_options_t) -> Result<Self> {
        let Some(o) = read_sized(caller, p, "opts")? else {
            return Ok(Self { options: WriteOptions::DEFAULT, info: std::ptr::null_mut(), caller });
        };
        known_bits(o.flags, WriteOptions::FLAGS_ALL, "opts.flags")?;
        must_be_zero(u64::from(o.reserved), "opts.reserved")?;
        if !o.info.is_null() {
            // A wrong size is told now, while nothing is done yet.
            write_sized(caller, o.info, &zeroed(), "opts.info")?;
        }
        let options = WriteOptions {
            flags: o.flags,
            durability: choice(o.durability, Durability::from_u8, "opts.durability")?,
            timeout_us: some_timeout(o.timeout_us),
            timestamp: o.timestamp,
            nonce_group: o.nonce_group,
            nonce: o.nonce,
            min_value: o.min_value,
            max_value: o.max_value,
        };
        Ok(Self { options, info: o.info, caller })
    }
    /// Tells the commit.
    #[inline]
    pub(super) fn tell(&self, info: &CommitInfo) -> Result<()> {
        if self.info.is_null() {
            return Ok(());
        }
        let told = region_commit_info_t { struct_size: 0, flags: info.flags, seq: info.seq, timestamp: info.timestamp };
        write_sized(self.caller, self.info, &told, "opts.info")
    }
}

/// The options of a read, and its snapshot, which stays open for the call.
pub(super) struct Read {
    pub(super) options: ReadOptions,
    entered: Option<Entered<'static, Snap>>,
}

impl Read {
    #[inline]
    pub(super) fn given(c: Caller<'_>, p: *const region_read_options_t) -> Result<Self> {
        let Some(o) = read_sized(c, p, "opts")? else {
            return Ok(Self { options: ReadOptions::DEFAULT, entered: None });
        };
        known_bits(o.flags, ReadOptions::FLAGS_ALL, "opts.flags")?;
        let entered = match o.snapshot.is_null() {
            true => None,
            false => Some(handle::enter::<Snap>(o.snapshot).map_err(|why| why.error("opts.snapshot"))?),
        };
        let options = ReadOptions { flags: o.flags, min_ts: o.min_ts, max_ts: o.max_ts, timeout_us: some_timeout(o.timeout_us) };
        Ok(Self { options, entered })
    }
    pub(super) fn snapshot(&self) -> Option<&crate::region::Snapshot> {
        self.entered.as_ref().map(|e| &e.object().snapshot)
    }
}

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
