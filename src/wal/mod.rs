//! The write-ahead log: durable order of records. It knows no memstore, no region and no visibility.
//!
//! A commit is one record; records stand back to back in numbered segments, in the order of their numbers. In the normal case a segment is mapped and an append is one
//! short lock and one copy; where mapping is not safe it is one pwrite under the same lock, in the same format. Waiting for durability is shared by all who wait.
//!
//! | file | what |
//! |---|---|
//! | `format.rs`, `record.rs` | bytes: segments and records; cells of a record. Pure |
//! | `append.rs` | the append lock: number, copy, publish |
//! | `segment.rs`, `mapped.rs`, `pwrite.rs` | one open segment and the two ways to write to it |
//! | `sync.rs`, `waiters.rs` | who syncs for whom, the durable number D; who waits |
//! | `pace.rs` | whether the next sync starts at once or gathers callers |
//! | `prepare.rs`, `segments.rs` | making a segment file; keeping two ahead, populating, retiring |
//! | `log.rs` | the face for the commit path |
//! | `reader.rs`, `recover.rs` | reading a log back, and telling its tail from damage |
//!
//! Invariants: a record is in the log whole or not at all, in number order, so any crash leaves a prefix; D = n means that every record up to n is on stable storage;
//! a failed sync is final. The protocol is docs/commit-path.md P8 to P10.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod append;
pub mod format;
mod log;
#[expect(unsafe_code, reason = "copies records into a shared mapping")]
mod mapped;
#[cfg(loom)]
mod models;
mod pace;
mod prepare;
mod pwrite;
mod reader;
mod record;
mod recover;
mod segment;
mod segments;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;
mod waiters;

pub use format::{Level, RecordKind, Seal};
pub use log::Log;
pub use record::{Cells, Record, RecordBuffer, RecordCell, RecordRow, Rows};
pub use recover::{Known, Recovered, RecoveryFacts, Replayer, recover};
pub use sync::NotDurable;

pub use crate::options::WalIo;

use crate::env::{Env, FsKind};
use crate::error::Error;
use std::path::{Path, PathBuf};

/// True for the name of a file that a log makes in its region's directory.
pub fn is_log_name(name: &str) -> bool {
    name == prepare::NEW_NAME || prepare::segment_number(name).is_some()
}

/// What a log is opened with.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The region's directory; segments are `wal.<number>` in it.
    pub dir: PathBuf,
    /// Segments of another region are ignored.
    pub region_uuid: [u8; 16],
    /// Clock unit of the region, as stored.
    pub clock_unit: u8,
    /// Mapped or written.
    pub io: WalIo,
    /// Size of a full-grown segment in bytes; at least 64 KiB. Default 64 MiB.
    pub segment_bytes: u32,
    /// Bound of all segment files together, prepared ones included.
    pub bytes_max: u64,
    /// Interval of the background sync; 0 means none.
    pub sync_interval_ms: u32,
    /// The device may have lost what the kernel believed written: judge the tail as after a power cut even under the same boot.
    pub recovery_power_cut: bool,
    /// Allow a network file system.
    pub allow_network_fs: bool,
}

impl LogOptions {
    /// Defaults for a region in `dir`.
    pub fn new(dir: impl Into<PathBuf>, region_uuid: [u8; 16]) -> Self {
        Self {
            dir: dir.into(),
            region_uuid,
            clock_unit: 1,
            io: WalIo::Auto,
            segment_bytes: 64 << 20,
            bytes_max: 4 << 30,
            sync_interval_ms: 1000,
            recovery_power_cut: false,
            allow_network_fs: false,
        }
    }
}

/// Where a life of the log begins.
#[derive(Clone, Debug)]
pub struct LogStart {
    /// Number of its first segment: above every segment file in the directory.
    pub first_segment: u32,
    /// The last number given so far; everything up to it counts as durable.
    pub last: u64,
    /// Where the life before ended; None in a new region.
    pub seal: Option<Seal>,
    /// Segments that no life needs: prepared in vain, or of lives without a record. Their files are used again or removed.
    pub spare: Vec<u32>,
}

/// Why a record was refused. Nothing was given out and nothing has changed.
#[derive(Debug)]
pub enum Refused {
    /// The region is poisoned, or the log closed.
    Poisoned,
    /// No segment with room is ready: free everything and [`Log::wait_for_log_space`].
    NoRoom {
        /// Length of the record.
        needed: u32,
    },
    /// The disk is full.
    NoSpace(Error),
    /// The write failed; the region is poisoned now.
    Io(Error),
}

/// What a log is and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Bytes of all its files.
    pub bytes: u64,
    /// Segment files that are in use, needed or prepared.
    pub segments: u64,
    /// Syncs made in this life.
    pub syncs: u64,
    /// Records are copied into a mapping.
    pub mapped: bool,
}

/// May a log be kept on the file system of `dir`? Errors name `show`, which is to be in it.
pub fn check_place(env: &dyn Env, dir: &Path, show: &Path, io: WalIo, allow_network_fs: bool) -> crate::Result<FsKind> {
    let (kind, show) = (env.file_system(dir), show.display());
    if kind == FsKind::Network && !allow_network_fs {
        return crate::fail!(Unsupported, "{show} is on a network file system; set allow_network_fs if its locks and syncs can be trusted");
    }
    if io == WalIo::Mapped && kind != FsKind::Mappable {
        return crate::fail!(Unsupported, "wal_io=mapped needs ext4, XFS or tmpfs under {show}; use wal_io=auto or write");
    }
    Ok(kind)
}

/// What hooks of this log are told apart by.
fn hook_context(options: &LogOptions) -> u64 {
    format::u64_at(&options.region_uuid, 0).unwrap_or(0)
}
