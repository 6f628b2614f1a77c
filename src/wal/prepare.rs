//! Making one segment file: allocate, zeros, header, fsync, rename to its number, fsync of the directory, map.
//!
//! A segment is prepared under the name `wal.new` and gets its number only when its header is durable: so every file with a number has a whole header. A file that is
//! used again loses its number first. Called by one thread at a time (at start, then the keeper), with no lock held.
#![forbid(unsafe_code)]

use super::LogOptions;
use super::format::{SaltCrc, Seal, SegmentHeader};
use super::mapped::MappedSegment;
use super::pwrite::{PwriteSegment, write_zeros};
use super::segment::{Form, Segment};
use crate::env::{Env, EnvFile};
use crate::error::{Error, ErrorKind, Result};
use crate::lock_order::{self, Level as LockLevel};
use std::io;
use std::path::{Path, PathBuf};

/// Smaller segments than that are not made to fit a nearly full disk.
pub(super) const SEGMENT_BYTES_MIN: u32 = 64 << 10;
pub(super) const NEW_NAME: &str = "wal.new";
/// Zeros written between two syncs while a segment is prepared.
const ZERO_SLICE_BYTES: u64 = 2 << 20;
/// Populated ahead of the log's end while commits wait for syncs, and of a new segment: every populated page is written by the next sync.
pub(super) const WINDOW_FSYNC_BYTES: u32 = 1 << 20;

/// The name of a segment's file.
pub(super) fn segment_name(number: u32) -> String {
    format!("wal.{number:010}")
}

/// The number in a segment's file name. None: some other file.
pub(super) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("wal.").filter(|d| d.len() == 10 && d.bytes().all(|b| b.is_ascii_digit()))?;
    digits.parse().ok()
}

/// What the next segment is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) number: u32,
    /// Multiples of a page.
    pub(super) bytes: u32,
    /// If there is no space for `bytes`.
    pub(super) bytes_min: u32,
    /// An old segment whose file is used again; its size is `bytes`.
    pub(super) reuse: Option<u32>,
}

/// Bytes of a segment's file that holds nothing behind `end`.
pub(super) fn trimmed_bytes(end: u32) -> u64 {
    (end as u64).next_multiple_of(4096)
}

/// What a preparation needs to know.
pub(super) struct Workshop {
    pub(super) env: std::sync::Arc<dyn Env>,
    pub(super) options: LogOptions,
    pub(super) mapped: bool,
}

impl Workshop {
    fn path(&self, name: &str) -> PathBuf {
        self.options.dir.join(name)
    }

    pub(super) fn segment_path(&self, number: u32) -> PathBuf {
        self.path(&segment_name(number))
    }

    /// Makes a segment ready for records. Where the disk has no room for it, a smaller one: the last of the space is of use, too. `between` is called now and then.
    pub(super) fn prepare(&self, order: Order, seal: Option<Seal>, between: &mut dyn FnMut()) -> Result<Segment> {
        let mut order = order;
        loop {
            match self.prepare_one(order.number, order.bytes, seal, order.reuse.take(), between) {
                Err(e) if e.kind() == ErrorKind::NoSpace && order.bytes > order.bytes_min => {
                    order.bytes = ((order.bytes / 4) & !4095).max(order.bytes_min);
                    log::warn!(target: "region", "the next log segment will be of {} bytes: {e}", order.bytes);
                }
                other => return other,
            }
        }
    }

    fn prepare_one(&self, number: u32, bytes: u32, seal: Option<Seal>, reuse: Option<u32>, between: &mut dyn FnMut()) -> Result<Segment> {
        lock_order::assert_free_from(LockLevel::LogAppend, "preparing a segment");
        let path = self.path(NEW_NAME);
        let file = self.fresh_file(&path, reuse)?;
        let salt = self.fill(&*file, &path, number, bytes, seal, between).inspect_err(|_| {
            // On a full disk it must not keep what it got.
            let _ = self.env.remove(&path);
        })?;
        let numbered = self.segment_path(number);
        self.env.rename(&path, &numbered).map_err(|e| Error::io(format!("rename {} to {}", path.display(), numbered.display()), &e))?;
        let numbered_and_open = || {
            self.env.sync_dir(&self.options.dir).map_err(|e| Error::io(format!("sync directory {}", self.options.dir.display()), &e))?;
            // Opened again under the name that it keeps: errors of the environment name it.
            drop(file);
            let file = self.env.open(&numbered, true).map_err(|e| Error::io(format!("open {}", numbered.display()), &e))?;
            self.dress(file, &numbered, number, bytes, salt)
        };
        numbered_and_open().inspect_err(|_| {
            // It has its number and nobody knows of it: once the segments before it are taken back, it would stand behind a gap.
            self.remove(number);
        })
    }

    fn fresh_file(&self, path: &Path, reuse: Option<u32>) -> Result<Box<dyn EnvFile>> {
        if let Some(old) = reuse {
            // Out of the numbered names before its header goes: a number never has a bad header.
            let from = self.segment_path(old);
            self.env.rename(&from, path).map_err(|e| Error::io(format!("rename {} to {}", from.display(), path.display()), &e))?;
            return self.env.open(path, true).map_err(|e| Error::io(format!("open {}", path.display()), &e));
        }
        match self.env.remove(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io(format!("remove {}", path.display()), &e)),
            _ => {}
        }
        self.env.create(path).map_err(|e| Error::io(format!("create {}", path.display()), &e))
    }

    /// Space, zeros, header: all of it durable when this returns.
    fn fill(
        &self,
        file: &dyn EnvFile,
        path: &Path,
        number: u32,
        bytes: u32,
        seal: Option<Seal>,
        between: &mut dyn FnMut(),
    ) -> Result<SaltCrc> {
        let what = |verb: &str| format!("{verb} log segment {}", path.display());
        match file.preallocate(bytes as u64) {
            Ok(()) => {}
            // The zeros below take the space too; only a mapping must be sure of it.
            Err(e) if !self.mapped && matches!(e.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput) => {}
            Err(e) => return Err(Error::io(what("allocate"), &e)),
        }
        let mut at = 0;
        while at < bytes as u64 {
            let end = (at + ZERO_SLICE_BYTES).min(bytes as u64);
            write_zeros(file, at..end).and_then(|()| file.sync_data()).map_err(|e| Error::io(what("write zeros to"), &e))?;
            at = end;
            between();
        }
        let identity = self.env.identity(path).map_err(|e| Error::io(what("identify"), &e))?;
        let mut salt = [0; 8];
        self.env.random(&mut salt).map_err(|e| Error::io(what("choose a salt for"), &e))?;
        let salt = u64::from_le_bytes(salt);
        let header = SegmentHeader {
            number,
            region_uuid: self.options.region_uuid,
            salt,
            clock_unit: self.options.clock_unit,
            boot_id: self.env.boot_id(),
            identity,
            seal,
        };
        file.write_all_at(&header.encode(), 0).and_then(|()| file.sync_all()).map_err(|e| Error::io(what("write the header of"), &e))?;
        Ok(SaltCrc::new(salt))
    }

    /// Maps the file, where the log is mapped, and populates the first window.
    fn dress(&self, file: Box<dyn EnvFile>, path: &Path, number: u32, bytes: u32, salt: SaltCrc) -> Result<Segment> {
        if !self.mapped {
            return Ok(Segment::new(number, bytes, salt, Form::Pwrite(PwriteSegment::new(file)), bytes));
        }
        let map = MappedSegment::new(file, bytes as usize).map_err(|e| Error::io(format!("map log segment {}", path.display()), &e))?;
        let segment = Segment::new(number, bytes, salt, Form::Mapped(map), 0);
        segment.populate_to(WINDOW_FSYNC_BYTES).map_err(|e| populate_error(path, &e))?;
        Ok(segment)
    }

    /// Gives back what a segment's file holds behind the log's end, which is settled: by a seal, or since the log is closed. Not synced: a crash that takes it
    /// back costs only space, and so does a failure.
    pub(super) fn trim(&self, number: u32, end: u32) {
        let (path, bytes) = (self.segment_path(number), trimmed_bytes(end));
        let cut = || {
            let file = self.env.open(&path, true)?;
            if file.len()? > bytes { file.set_len(bytes) } else { Ok(()) }
        };
        if let Err(e) = cut() {
            log::warn!(target: "region", "give back the unused part of log segment {}: {e}", path.display());
        }
    }

    /// Removes a segment's file; a failure costs only space. False: it is still there.
    pub(super) fn remove(&self, number: u32) -> bool {
        let path = self.segment_path(number);
        let removed = self.env.remove(&path);
        if let Err(e) = &removed {
            log::warn!(target: "region", "remove log segment {}: {e}", path.display());
        }
        removed.is_ok()
    }
}

pub(super) fn populate_error(path: &Path, e: &io::Error) -> Error {
    Error::io(format!("populate log segment {}", path.display()), e)
}
