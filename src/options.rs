//! Every knob of a region and of a call: unit, default and bound of each; checked once, when the region opens.
//!
//! What a caller passes is [`RegionOptions`]: 0 or `None` asks for the default, or for what is stored where the region exists.
//! [`RegionOptions::check`]
//! turns it, together with the `config` text for the long tail and what is stored of a region that exists, into [`Settings`], in which
//! every number is final. Nothing else reads `config`.
//! The table [`KNOBS`] is the one list of what can be set: the parser, `region_describe` and the documentation of `config` are made from
//! it.
//!
//! Must not: hold globals, read the environment, know how anything is stored.

mod config;
mod family;

#[cfg(all(test, not(loom)))]
mod tests;

pub use config::{KNOBS, Kind, Knob};
pub use family::{Bloom, Compression, FamilySpec, TTL_NONE};

use crate::clock::ClockUnit;
pub use crate::clock::TickPolicy;
use crate::error::Result;
use crate::fail;
use std::collections::BTreeMap;

/// Values of the knobs that a region keeps, by key; see [`STORED`].
pub type Stored = BTreeMap<String, u64>;

/// Knobs that a region keeps: set once, they hold at every later open that does not set them. The others are about one open (`recovery`,
/// `allow_network_fs`), tests, or have a place of their own in the manifest (durability, clock unit, tick policy, key range).
pub const STORED: &[&str] = &[
    "wal_io",
    "sync_interval_ms",
    "write_timeout_us",
    "memstore_limit",
    "flush_bytes",
    "block_cache_bytes",
    "wal_bytes_max",
    "wal_segment_bytes",
    "background_threads",
    "lock_buckets",
    "nonce_window_s",
    "snapshot_warn_ms",
    "tick_lead_max_ms",
];

/// When a commit is answered. The numbers are stored and part of the C interface: they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Durability {
    /// Not in the log at all: lost unless flushed.
    SkipWal = 1,
    /// In the kernel at return; as HBase's, a commit that nobody waits for.
    AsyncWal = 2,
    /// In the kernel at return: survives the death of the process, and of the machine after the background sync. The default.
    SyncWal = 3,
    /// On stable storage at return.
    FsyncWal = 4,
}

impl Durability {
    /// From the stored number.
    pub const fn from_u8(n: u8) -> Option<Self> {
        match n {
            1 => Some(Self::SkipWal),
            2 => Some(Self::AsyncWal),
            3 => Some(Self::SyncWal),
            4 => Some(Self::FsyncWal),
            _ => None,
        }
    }
}

/// How records reach the log files. The numbers are part of the C interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WalIo {
    /// Mapped where that is safe (ext4, XFS, tmpfs), else one write per record. The default.
    #[default]
    Auto = 0,
    /// Mapped, or the region does not open.
    Mapped = 1,
    /// One `pwrite` per record.
    Write = 2,
}

/// What `region_open` may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// Create the region, and listed families it does not have.
    pub create: bool,
    /// Fail if there is a region already. Needs `create`.
    pub error_if_exists: bool,
    /// No writes; the lock is shared with other readers.
    pub read_only: bool,
}

/// What a caller asks for at open. Zero, `None` and empty mean: the default, or what is stored.
#[derive(Clone, Debug, Default)]
pub struct RegionOptions {
    /// Create, refuse what exists, read only.
    pub flags: OpenFlags,
    /// Level of writes that name none.
    pub durability: Option<Durability>,
    /// Unit of timestamps; fixed when the region is created.
    pub clock_unit: Option<ClockUnit>,
    /// Two commits of one row in one tick.
    pub tick_policy: Option<TickPolicy>,
    /// How the log is written.
    pub wal_io: Option<WalIo>,
    /// Milliseconds between background syncs.
    pub sync_interval_ms: u32,
    /// Microseconds that a call waits which names no timeout.
    pub write_timeout_us: u64,
    /// Bytes of memstore memory; hard.
    pub memstore_limit: u64,
    /// Bytes of memstore at which a flush starts.
    pub flush_bytes: u64,
    /// Bytes of block cache.
    pub block_cache_bytes: u64,
    /// Bytes of log at which writes wait for a flush.
    pub wal_bytes_max: u64,
    /// Threads for flush and compaction.
    pub background_threads: u32,
    /// Families to create, or whose settings to change.
    pub families: Vec<FamilySpec>,
    /// First row of the region's key range; empty = unbounded. Fixed when the region is created.
    pub start_row: Vec<u8>,
    /// First row beyond it; empty = unbounded.
    pub end_row: Vec<u8>,
    /// `key=value,…` for everything else, see [`KNOBS`].
    pub config: String,
}

/// The knobs of an open region, all within their bounds. `None` and empty remain only where what is stored decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// None: as stored, else [`Durability::SyncWal`].
    pub durability: Option<Durability>,
    /// None: as stored, else nanoseconds.
    pub clock_unit: Option<ClockUnit>,
    /// None: as stored, else [`TickPolicy::Advance`].
    pub tick_policy: Option<TickPolicy>,
    /// How the log is written.
    pub wal_io: WalIo,
    /// Milliseconds between background syncs.
    pub sync_interval_ms: u64,
    /// Microseconds; `u64::MAX` waits for ever.
    pub write_timeout_us: u64,
    /// Bytes.
    pub memstore_limit: u64,
    /// Bytes.
    pub flush_bytes: u64,
    /// Bytes.
    pub block_cache_bytes: u64,
    /// Bytes.
    pub wal_bytes_max: u64,
    /// Bytes of one log segment at its full size.
    pub wal_segment_bytes: u64,
    /// Threads.
    pub background_threads: u64,
    /// Buckets of the row lock table; a power of two.
    pub lock_buckets: u64,
    /// Judge the log's end as after a power cut even under the same kernel.
    pub recovery_power_cut: bool,
    /// Open on a file system whose locks and caches other machines share.
    pub allow_network_fs: bool,
    /// Seconds for which a nonce is remembered.
    pub nonce_window_s: u64,
    /// Milliseconds after which an open snapshot or scanner is named in the log; 0 = never.
    pub snapshot_warn_ms: u64,
    /// Bytes of remembered nonces.
    pub nonce_bytes_max: u64,
    /// Milliseconds that a row's ticks may run ahead of the clock.
    pub tick_lead_max_ms: u64,
    /// For tests: seal the active segment after every so many commits; 0 = never.
    pub seal_every_commits: u64,
}

/// Default of a write's level.
pub const DURABILITY_DEFAULT: Durability = Durability::SyncWal;
/// Default of the clock's unit.
pub const CLOCK_UNIT_DEFAULT: ClockUnit = ClockUnit::Nanos;

impl Default for Settings {
    fn default() -> Self {
        let mut s = Self {
            durability: None,
            clock_unit: None,
            tick_policy: None,
            wal_io: WalIo::Auto,
            sync_interval_ms: 0,
            write_timeout_us: 0,
            memstore_limit: 0,
            flush_bytes: 0,
            block_cache_bytes: 0,
            wal_bytes_max: 0,
            wal_segment_bytes: 0,
            background_threads: 0,
            lock_buckets: 0,
            recovery_power_cut: false,
            allow_network_fs: false,
            nonce_window_s: 0,
            snapshot_warn_ms: 0,
            nonce_bytes_max: 0,
            tick_lead_max_ms: 0,
            seal_every_commits: 0,
        };
        for knob in KNOBS {
            (knob.set)(&mut s, knob.default);
        }
        s
    }
}

impl RegionOptions {
    /// Every knob against its bounds, and against the others, for a new region. The message of an error names the knob.
    pub fn check(&self) -> Result<Settings> {
        self.check_over(&Stored::new())
    }
    /// The same for a region that keeps these values: they hold where nothing is given.
    pub fn check_over(&self, stored: &Stored) -> Result<Settings> {
        let settings = self.check_each(stored)?;
        settings.check()?;
        Ok(settings)
    }
    /// Every knob against its bounds alone: what can be refused before it is known what is stored.
    pub fn check_each(&self, stored: &Stored) -> Result<Settings> {
        if self.flags.error_if_exists && !self.flags.create {
            return fail!(Invalid, "flags: REGION_OPEN_ERROR_IF_EXISTS makes sense only together with REGION_OPEN_CREATE");
        }
        if self.flags.read_only && self.flags.create {
            return fail!(Invalid, "flags: REGION_OPEN_READ_ONLY and REGION_OPEN_CREATE exclude each other");
        }
        let mut settings = Settings::default();
        for (key, value) in stored {
            Knob::named(key)?.apply(&mut settings, *value)?;
        }
        let given = [
            ("durability", self.durability.map_or(0, |v| v as u64)),
            ("clock_unit", self.clock_unit.map_or(0, |v| v as u64)),
            ("tick_policy", self.tick_policy.map_or(0, |v| v as u64)),
            ("wal_io", self.wal_io.map_or(0, |v| v as u64)),
            ("sync_interval_ms", u64::from(self.sync_interval_ms)),
            ("write_timeout_us", self.write_timeout_us),
            ("memstore_limit", self.memstore_limit),
            ("flush_bytes", self.flush_bytes),
            ("block_cache_bytes", self.block_cache_bytes),
            ("wal_bytes_max", self.wal_bytes_max),
            ("background_threads", u64::from(self.background_threads)),
        ];
        for (key, value) in given {
            if value != 0 {
                Knob::named(key)?.apply(&mut settings, value)?;
            }
        }
        config::apply(&self.config, &given, &mut settings)?;
        if !self.end_row.is_empty() && self.start_row >= self.end_row {
            return fail!(Invalid, "end_row must be greater than start_row");
        }
        for (name, row) in [("start_row", &self.start_row), ("end_row", &self.end_row)] {
            if row.len() > crate::ids::ROW_BYTES_MAX {
                return fail!(TooLarge, "{name} has {} bytes; a row key has at most {}", row.len(), crate::ids::ROW_BYTES_MAX);
            }
        }
        for (i, family) in self.families.iter().enumerate() {
            family.check().map_err(|e| e.context(format_args!("families[{i}]")))?;
            if self.families.iter().take(i).any(|other| other.name == family.name) {
                return fail!(Invalid, "families[{i}]: the name {:?} is listed twice", String::from_utf8_lossy(&family.name));
            }
        }
        Ok(settings)
    }
}

impl Settings {
    /// What a region keeps of them.
    pub fn stored(&self) -> Stored {
        KNOBS.iter().filter(|k| STORED.contains(&k.key)).map(|k| (k.key.to_string(), (k.get)(self))).collect()
    }
    /// True for a knob that a region keeps, and a value that it takes.
    pub fn may_be_stored(key: &str, value: u64) -> bool {
        STORED.contains(&key) && KNOBS.iter().any(|k| k.key == key && (k.min..=k.max).contains(&value))
    }
    /// What no bound of a single knob can say.
    fn check(&self) -> Result<()> {
        if !self.lock_buckets.is_power_of_two() {
            return fail!(Invalid, "lock_buckets must be a power of two, not {}", self.lock_buckets);
        }
        if self.wal_bytes_max < 4 * self.wal_segment_bytes {
            // One segment in use, two prepared ahead, and one that CARRY records may need.
            return fail!(
                Invalid,
                "wal_bytes_max ({}) must hold at least 4 segments of wal_segment_bytes ({})",
                self.wal_bytes_max,
                self.wal_segment_bytes
            );
        }
        Ok(())
    }
}

/// How one write is done. All zero and `None`: the region's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// `WriteOptions::ATOMIC` and its neighbours.
    pub flags: u32,
    /// None: the region's.
    pub durability: Option<Durability>,
    /// Microseconds for row lock, memory, log space and sync together; None: the region's `write_timeout_us`.
    pub timeout_us: Option<u64>,
    /// Timestamp of the cells; 0 = the region's clock; at most [`crate::ids::TIMESTAMP_MAX`].
    pub timestamp: u64,
    /// Whose nonces these are; 0 unless there is one.
    pub nonce_group: u64,
    /// Makes a repeated call count once; 0 = none. What holds is told at the C struct's field of this name.
    pub nonce: u64,
    /// Least result, with `BOUNDED`.
    pub min_value: i64,
    /// Greatest result, with `BOUNDED`.
    pub max_value: i64,
}

impl WriteOptions {
    /// A batch changes all its rows or none.
    pub const ATOMIC: u32 = 1 << 0;
    /// An increment is refused instead of wrapping.
    pub const CHECK_OVERFLOW: u32 = 1 << 1;
    /// An increment whose result would leave `min_value ..= max_value` changes nothing and tells the current value.
    pub const BOUNDED: u32 = 1 << 2;
    /// With `BOUNDED`: the result is clamped instead.
    pub const SATURATE: u32 = 1 << 3;
    /// Stores the delta instead of adding it.
    pub const SET: u32 = 1 << 4;
    /// Answers with the value before the increment.
    pub const RETURN_OLD: u32 = 1 << 5;
    /// Every flag there is.
    pub const FLAGS_ALL: u32 = Self::ATOMIC | Self::CHECK_OVERFLOW | Self::BOUNDED | Self::SATURATE | Self::SET | Self::RETURN_OLD;
    /// All defaults.
    pub const DEFAULT: Self =
        Self { flags: 0, durability: None, timeout_us: None, timestamp: 0, nonce_group: 0, nonce: 0, min_value: 0, max_value: 0 };

    /// True if this flag is set.
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// How one read is done. The snapshot is an argument of its own, since this room knows none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// `ReadOptions::NO_CACHE`.
    pub flags: u32,
    /// Least timestamp.
    pub min_ts: u64,
    /// First timestamp beyond; 0 = no bound.
    pub max_ts: u64,
    /// Microseconds; None: the region's `write_timeout_us`.
    pub timeout_us: Option<u64>,
}

impl ReadOptions {
    /// Blocks read for this call do not enter the cache.
    pub const NO_CACHE: u32 = 1 << 0;
    /// Every flag there is.
    pub const FLAGS_ALL: u32 = Self::NO_CACHE;
    /// All defaults.
    pub const DEFAULT: Self = Self { flags: 0, min_ts: 0, max_ts: 0, timeout_us: None };

    /// The timestamps asked for; None = all.
    pub fn range(&self) -> Option<std::ops::Range<u64>> {
        let end = if self.max_ts == 0 { u64::MAX } else { self.max_ts };
        (self.min_ts != 0 || self.max_ts != 0).then_some(self.min_ts..end)
    }
}
