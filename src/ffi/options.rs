//! Options of writes and reads: C structs, and what they become. Checks only what C cannot say: unknown bits, unknown numbers.

use super::guard::Caller;
use super::handle::{self, Entered};
use super::scan::{Snap, region_snapshot_t};
use super::sized::{plain, read_sized, write_sized, zeroed};
use crate::clock::Timeout;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Durability, ReadOptions, WriteOptions};
use crate::region::{CommitInfo, Region};

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
    /// Batch: all rows or none. Calls on one row, which are so anyway, take it too.
    REGION_W_ATOMIC = 1,
    /// Increments: refuse instead of wrapping.
    REGION_W_CHECK_OVERFLOW = 2,
    /// Increments: min_value <= result <= max_value, else REGION_NOT_APPLIED, nothing changed, value = current.
    REGION_W_BOUNDED = 4,
    /// With BOUNDED (else REGION_E_INVALID): clamp instead of refusing.
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
    /// Nothing new was written: what the call did was answered from the nonce's first run.
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
    /// Out: the commit's tick by the region's clock: the timestamp of its cells that were given none, 0 if nothing was written. A put or delete with
    /// a timestamp of its own has that one, and what is added to a value that lies later gets one above it.
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
    /// Whose nonces these are: of one group they must differ from call to call. 0 unless there is a nonce.
    pub nonce_group: u64,
    /// Makes a repeated call count once; 0 = none. The same call (same operations, flags and bounds; durability and timeout may differ)
    /// with the same nonce may be made again after any error, by any thread, also after the region was closed or killed and opened
    /// again: what was applied is answered as the first time (REGION_COMMIT_DUPLICATE, REGION_RESULT_DUPLICATE; value, seq and timestamp
    /// of the first time), the rest is run. What changed nothing (a bound, a check, an error, delta 0 on an existing counter) is run
    /// again. The identity of a group of operations is its row, nonce_group, nonce, and how many groups of the row stand before it in
    /// the call. REGION_E_INVALID: with REGION_DUR_SKIP_WAL; a nonce that was used for a different operation (kind, family, qualifier,
    /// value, delta, timestamp, condition, flags or bounds differ; with REGION_W_ATOMIC anything in the call): nothing of the
    /// group (of an atomic call: of the call) was changed.
    ///
    /// Remembered for nonce_window_s seconds (config, 600), in memory and in the log; what an earlier process did counts its age by the
    /// wall clock. While nonce_bytes_max (config, 64 MiB, some 170 bytes for a group) is full, calls with a nonce wait, then
    /// REGION_E_BUSY: nothing younger than the window is forgotten to make room, also where the region was opened with a smaller
    /// nonce_bytes_max than before. With a nonce REGION_E_OUTCOME_UNKNOWN and REGION_E_PARTIAL have REGION_ERR_RETRYABLE.
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

plain!(region_commit_info_t, region_write_options_t, region_read_options_t);

/// Refuses bits that this version does not know, naming the field.
pub(super) fn known_bits(flags: u32, known: u32, field: &str) -> Result<()> {
    if flags & !known == 0 { Ok(()) } else { Err(unsupported(field, format_args!("0x{:x}", flags & !known))) }
}

/// A bound that nothing would look at is a mistake.
fn needs_bounded(value: i64, field: &str) -> Result<()> {
    if value == 0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Invalid, format!("{field} is {value}, which only REGION_W_BOUNDED looks at: set the flag, or leave it 0")))
}

/// Refuses a reserved field that is not zero.
pub(super) fn must_be_zero(value: u64, field: &str) -> Result<()> {
    if value == 0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, format!("{field} must be 0 in version {}, not {value}", env!("CARGO_PKG_VERSION"))))
}

#[cold]
pub(super) fn unsupported(field: &str, value: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{field}: {value} is not known to version {}", env!("CARGO_PKG_VERSION")))
}

/// An enum of which 0 is the default.
pub(super) fn choice<T>(value: u32, from: impl FnOnce(u8) -> Option<T>, field: &str) -> Result<Option<T>> {
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
    /// Clears where the commit is to be told, as far as the options can be made sense of.
    #[inline]
    pub(super) fn clear(c: Caller<'_>, p: *const region_write_options_t) {
        if !p.is_null() {
            Self::clear_info(c, p);
        }
    }
    fn clear_info(c: Caller<'_>, p: *const region_write_options_t) {
        if let Ok(Some(o)) = read_sized(c, p, "opts")
            && !o.info.is_null()
        {
            // A wrong size is told by `given`.
            let _ = write_sized(c, o.info, &zeroed(), "opts.info");
        }
    }
    /// The outputs of a write that tells nothing but its commit.
    #[inline]
    pub(super) fn only_info(p: *const region_write_options_t) -> impl FnOnce(Caller<'_>) -> Result<()> {
        move |c| {
            Self::clear(c, p);
            Ok(())
        }
    }
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
        if o.flags & WriteOptions::BOUNDED == 0 {
            needs_bounded(o.min_value, "opts.min_value")?;
            needs_bounded(o.max_value, "opts.max_value")?;
        }
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
