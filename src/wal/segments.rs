//! The files of the log: preparing segments ahead, populating them, counting their bytes, taking back those that are no longer needed.
//!
//! One background thread, the keeper, does all of it, so that an append never waits for the file system: it keeps two segments prepared behind the one in use and
//! a window populated in front of the log's end. A segment is prepared under the name `wal.new`: allocate, write zeros (fdatasync on written blocks commits
//! no journal), header, fsync, rename to its number, fsync of the directory, map. So every file with a number has a whole header. Zeros are synced in slices,
//! with a look at the window between them: one long fsync would let the writers run dry.
//!
//! Sizes grow from 4 MB by four per roll to `segment_bytes`, so that opening a region is fast and a busy one soon works with large segments.
//!
//! Threads: `Files` is locked for a few instructions at a time, never while the append lock is held (a leaf lock) and never over I/O.

use super::LogOptions;
use super::append::{Appender, PREPARED};
use super::format::{RecordKind, SEGMENT_HEADER_BYTES, SaltCrc, Seal, SegmentHeader};
use super::mapped::MappedSegment;
use super::pwrite::{PwriteSegment, write_zeros};
use super::segment::{Form, Segment, drop_chain};
use crate::clock::Timeout;
use crate::env::{Env, EnvFile};
use crate::error::{Error, ErrorKind, Result};
use crate::health::Health;
use crate::lock_order::{self, Level as LockLevel};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const NEW_NAME: &str = "wal.new";
const FIRST_BYTES: u32 = 4 << 20;
/// Zeros written between two syncs while a segment is prepared.
const ZERO_SLICE_BYTES: u64 = 2 << 20;
/// Populated ahead of the log's end while commits wait for syncs: every populated page is written by the next sync.
const WINDOW_FSYNC_BYTES: u32 = 1 << 20;
/// The same while none does.
const WINDOW_BYTES: u32 = 8 << 20;
/// Populated per call, so that writers get it piece by piece.
const POPULATE_BYTES: u32 = 1 << 20;
/// How long a waiter for space sleeps before it looks whether the region closes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Segments that sync leaders leave behind before the keeper looks; beyond it the leader's push allocates.
const LEFT_AT_ONCE: usize = 16;

/// The name of a segment's file.
pub(super) fn segment_name(number: u32) -> String {
    format!("wal.{number:010}")
}

/// The number in a segment's file name. None: some other file.
pub(super) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("wal.").filter(|d| d.len() == 10 && d.bytes().all(|b| b.is_ascii_digit()))?;
    digits.parse().ok()
}

#[derive(Clone, Copy, Debug)]
struct SegmentFile {
    number: u32,
    bytes: u64,
}

/// The files of the log and the keeper's orders.
pub(super) struct Keeper {
    files: Mutex<Files>,
    /// The keeper sleeps here.
    work: Condvar,
    /// Writers that wait for log space sleep here.
    space: Condvar,
    /// Somebody waits for syncs: small windows.
    fsync_lately: AtomicBool,
}

#[derive(Default)]
struct Files {
    /// Oldest first; the one in use and the prepared ones too.
    live: VecDeque<SegmentFile>,
    /// Free to be used again, still under their old names.
    spare: Vec<SegmentFile>,
    first_number: u32,
    next_number: u32,
    /// The longest record that a writer waits to append.
    needed: u32,
    /// Preparations ended so far, well or not.
    attempts: u64,
    /// How the last one failed.
    error: Option<(ErrorKind, String)>,
    /// No preparation was tried, since the log would pass its limit.
    at_limit: bool,
    /// Segments that the sync group has left behind, to be unmapped.
    left: Vec<(Arc<Segment>, u32)>,
    called: bool,
    stop: bool,
}

impl Files {
    fn bytes(&self) -> u64 {
        self.live.iter().chain(&self.spare).map(|f| f.bytes).sum()
    }
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

    fn segment_path(&self, number: u32) -> PathBuf {
        self.path(&segment_name(number))
    }

    /// Makes segment `number` of `bytes` bytes ready for records. `reuse` is an old segment's number. `between` is called now and then.
    pub(super) fn prepare(
        &self,
        number: u32,
        bytes: u32,
        seal: Option<Seal>,
        reuse: Option<u32>,
        between: &mut dyn FnMut(),
    ) -> Result<Segment> {
        lock_order::assert_free_from(LockLevel::LogAppend, "preparing a segment");
        let path = self.path(NEW_NAME);
        let file = self.fresh_file(&path, reuse)?;
        let salt = self.fill(&*file, &path, number, bytes, seal, between).inspect_err(|_| {
            // On a full disk it must not keep what it got.
            let _ = self.env.remove(&path);
        })?;
        let numbered = self.segment_path(number);
        self.env.rename(&path, &numbered).map_err(|e| Error::io(format!("rename {} to {}", path.display(), numbered.display()), &e))?;
        self.env.sync_dir(&self.options.dir).map_err(|e| Error::io(format!("sync directory {}", self.options.dir.display()), &e))?;
        // Opened again under the name that it keeps: errors of the environment name it.
        drop(file);
        let file = self.env.open(&numbered, true).map_err(|e| Error::io(format!("open {}", numbered.display()), &e))?;
        self.dress(file, &numbered, number, bytes, salt)
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

    fn remove(&self, number: u32) {
        let path = self.segment_path(number);
        if let Err(e) = self.env.remove(&path) {
            log::warn!(target: "region", "remove log segment {}: {e}", path.display());
        }
    }
}

fn populate_error(path: &Path, e: &io::Error) -> Error {
    Error::io(format!("populate log segment {}", path.display()), e)
}

impl Keeper {
    /// `old` are the segments of earlier lives that are there, `spare` those among them that nothing needs; `first` is in use.
    pub(super) fn new(old: Vec<(u32, u64)>, spare: Vec<(u32, u64)>, first: &Segment) -> Self {
        let file = |(number, bytes)| SegmentFile { number, bytes };
        let mut live: VecDeque<_> = old.into_iter().map(file).collect();
        live.push_back(SegmentFile { number: first.number, bytes: first.len as u64 });
        let files = Files {
            live,
            spare: spare.into_iter().map(file).collect(),
            first_number: first.number,
            next_number: first.number.saturating_add(1),
            called: true,
            left: Vec::with_capacity(LEFT_AT_ONCE),
            ..Files::default()
        };
        Self { files: Mutex::new(files), work: Condvar::new(), space: Condvar::new(), fsync_lately: AtomicBool::new(false) }
    }

    /// A leaf lock, but never under the append lock: nothing is called there.
    fn files(&self) -> MutexGuard<'_, Files> {
        lock_order::assert_free_from(LockLevel::LogAppend, "the keeper's lock");
        self.files.lock()
    }

    /// Size of the first segment of a life.
    pub(super) fn first_bytes(options: &LogOptions) -> u32 {
        options.segment_bytes.min(FIRST_BYTES)
    }

    /// The keeper's thread: works until nothing is left to do, then sleeps until called.
    pub(super) fn run(&self, shop: &Workshop, appender: &Appender, health: &Health) {
        loop {
            {
                let mut files = self.files();
                while !files.called && !files.stop {
                    files = wait(&self.work, files, None);
                }
                if files.stop {
                    return;
                }
                files.called = false;
            }
            while self.work_once(shop, appender, health) {}
        }
    }

    /// One piece of work; false: nothing to do, or it failed and waits for the next call.
    fn work_once(&self, shop: &Workshop, appender: &Appender, health: &Health) -> bool {
        self.drop_left();
        if !health.is_good() || self.files().stop {
            return false;
        }
        if let Err(e) = self.populate_ahead(shop, appender) {
            self.ended(Err(e));
            return false;
        }
        let Some((number, bytes, reuse)) = self.next_preparation(shop, appender) else { return false };
        let result = shop.prepare(number, bytes, None, reuse, &mut || {
            // An error shows again at the next look, when nothing else is in hand.
            let _ = self.populate_ahead(shop, appender);
        });
        if let Ok(segment) = &result {
            let mut files = self.files();
            files.live.push_back(SegmentFile { number, bytes: segment.len as u64 });
            files.next_number = number.saturating_add(1);
        }
        let result = result.map(|segment| {
            appender.add_prepared(Arc::new(segment));
        });
        self.ended(result)
    }

    /// Notes how a preparation ended and tells the writers that wait. False after a failure.
    fn ended(&self, result: Result<()>) -> bool {
        let good = result.is_ok();
        let mut files = self.files();
        files.attempts += 1;
        files.error = result.err().map(|e| (e.kind(), e.message().to_string()));
        drop(files);
        self.space.notify_all();
        good
    }

    /// Populates the window in front of the log's end, and as far as a waiting record needs.
    fn populate_ahead(&self, shop: &Workshop, appender: &Appender) -> Result<()> {
        // Relaxed: a hint for the size of the window.
        let window = if self.fsync_lately.load(Ordering::Relaxed) { WINDOW_FSYNC_BYTES } else { WINDOW_BYTES };
        let needed = self.files().needed.saturating_add(64);
        loop {
            let (segment, end) = appender.current();
            let target = end.saturating_add(window.max(needed));
            // The segment after it gets its window before the roll, which may come at any moment from then on.
            let behind = SEGMENT_HEADER_BYTES.saturating_add(if target < segment.len { needed } else { window.max(needed) });
            let next = appender.prepared().1.filter(|n| n.populated() < behind.min(n.len));
            let (segment, target) = match next {
                _ if segment.populated() < target.min(segment.len) => (segment, target),
                Some(next) => (next, behind),
                None => return Ok(()),
            };
            let end = segment.populated().saturating_add(POPULATE_BYTES).min(target);
            segment.populate_to(end).map_err(|e| populate_error(&shop.segment_path(segment.number), &e))?;
            self.space.notify_all();
        }
    }

    /// Number, size and file of the segment to prepare now, if any.
    fn next_preparation(&self, shop: &Workshop, appender: &Appender) -> Option<(u32, u32, Option<u32>)> {
        let (ready, first) = appender.prepared();
        let needed = self.files().needed;
        let full = shop.options.segment_bytes;
        let fits = SEGMENT_HEADER_BYTES.saturating_add(needed).saturating_add(64).next_multiple_of(4096).min(full);
        if first.is_some_and(|s| s.len < fits) {
            // The segments ahead are too small for a record that waits: they were made while segments still grew.
            self.discard_prepared(shop, appender);
        } else if ready >= PREPARED {
            return None;
        }
        let current = appender.current().0.number;
        let mut files = self.files();
        let rolls = current.saturating_sub(files.first_number).min(8);
        let grown = (FIRST_BYTES as u64) << (2 * rolls);
        let bytes = grown.min(full as u64).max(fits as u64) as u32;
        let at = files.spare.iter().position(|s| s.bytes == bytes as u64);
        let reuse = at.map(|at| files.spare.swap_remove(at).number);
        // Spares of another size never fit again.
        let useless: Vec<_> = if reuse.is_none() { files.spare.extract_if(.., |s| s.bytes != full as u64).collect() } else { Vec::new() };
        // A reused file's bytes are counted again once it is prepared.
        files.at_limit = files.bytes().saturating_add(bytes as u64) > shop.options.bytes_max;
        let at_limit = files.at_limit;
        let number = files.next_number;
        if at_limit && let Some(number) = reuse {
            files.spare.push(SegmentFile { number, bytes: bytes as u64 });
        }
        drop(files);
        for file in useless {
            shop.remove(file.number);
        }
        if at_limit {
            self.space.notify_all();
            return None;
        }
        Some((number, bytes, reuse))
    }

    /// Takes back and removes what is prepared and not used yet.
    fn discard_prepared(&self, shop: &Workshop, appender: &Appender) {
        for segment in appender.take_prepared().into_iter().flatten() {
            let mut files = self.files();
            files.live.retain(|f| f.number != segment.number);
            files.next_number = files.next_number.min(segment.number);
            drop(files);
            shop.remove(segment.number);
        }
    }

    /// Unmaps and closes what the sync group has left behind: it takes milliseconds, which no committing thread should pay.
    fn drop_left(&self) {
        if self.files().left.is_empty() {
            return;
        }
        // Made here, before the lock: a leader, in some commit's call, then pushes without allocating.
        let room = Vec::with_capacity(LEFT_AT_ONCE);
        let left = std::mem::replace(&mut self.files().left, room);
        for (first, up_to) in left {
            drop_chain(first, up_to);
        }
    }

    /// Wakes the keeper.
    pub(super) fn call(&self) {
        self.files().called = true;
        self.work.notify_one();
    }

    /// Takes segments that are synced to their end and no longer in use, `first` and what follows it below number `up_to`.
    pub(super) fn leave(&self, first: Arc<Segment>, up_to: u32) {
        self.files().left.push((first, up_to));
        self.call();
    }

    /// Commits wait (or no longer wait) for syncs: how far to populate.
    pub(super) fn note_fsync(&self, lately: bool) {
        // Relaxed: a hint. Read first: the line is then shared by all who only confirm it.
        if self.fsync_lately.load(Ordering::Relaxed) != lately {
            self.fsync_lately.store(lately, Ordering::Relaxed);
        }
    }

    /// Waits until a record of `needed` bytes goes in.
    pub(super) fn wait_for_space(
        &self,
        shop: &Workshop,
        appender: &Appender,
        health: &Health,
        needed: u32,
        timeout: &mut Timeout,
        closing: &dyn Fn() -> bool,
    ) -> Result<()> {
        let result = self.wait_for_room(shop, appender, health, needed, timeout, closing);
        // Others that wait say theirs again.
        self.files().needed = 0;
        result
    }

    fn wait_for_room(
        &self,
        shop: &Workshop,
        appender: &Appender,
        health: &Health,
        needed: u32,
        timeout: &mut Timeout,
        closing: &dyn Fn() -> bool,
    ) -> Result<()> {
        lock_order::assert_free_from(LockLevel::Rows, "wait_for_log_space");
        let mut seen = None;
        loop {
            if closing() {
                return Err(Error::new(ErrorKind::Closed, "the region is closing; nothing was done").retryable(true));
            }
            health.check()?;
            if appender.has_room(needed, RecordKind::Commit) {
                return Ok(());
            }
            let mut files = self.files();
            files.needed = files.needed.max(needed);
            files.called = true;
            self.work.notify_one();
            let seen = *seen.get_or_insert(files.attempts);
            // An attempt that ended after this call began has the last word: so a full disk answers at once, and no longer than it is full.
            let failed = files.error.as_ref().filter(|_| files.attempts != seen || timeout.is_no_wait());
            if let Some((kind, message)) = failed {
                return Err(Error::new(*kind, message.clone()));
            }
            if timeout.is_over() {
                let why =
                    if files.at_limit { "is at its limit wal_bytes_max" } else { "has no segment prepared yet; its limit wal_bytes_max" };
                return crate::fail!(Busy, "the log {why} ({} of {} bytes); nothing was done", files.bytes(), shop.options.bytes_max);
            }
            let nap = timeout.left(LOOK_AGAIN);
            drop(wait(&self.space, files, Some(nap)));
        }
    }

    /// Wakes those who wait for space, since the region closes.
    pub(super) fn wake_waiters(&self) {
        // Under the lock: a waiter that is about to sleep has looked at `closing` before.
        let _files = self.files();
        self.space.notify_all();
    }

    /// Segments below `number` are no longer needed.
    pub(super) fn retire(&self, shop: &Workshop, appender: &Appender, number: u32) {
        let in_use = appender.current().0.number;
        let number = number.min(in_use);
        let mut surplus = Vec::new();
        {
            let mut files = self.files();
            while files.live.front().is_some_and(|f| f.number < number) {
                let Some(file) = files.live.pop_front() else { break };
                // Two are enough: more come with the next flush.
                if file.bytes == shop.options.segment_bytes as u64 && files.spare.len() < PREPARED {
                    files.spare.push(file);
                } else {
                    surplus.push(file);
                }
            }
        }
        for file in surplus {
            shop.remove(file.number);
        }
        self.call();
    }

    /// Ends the keeper's thread after what it is doing.
    pub(super) fn stop(&self) {
        self.files().stop = true;
        self.work.notify_all();
        self.space.notify_all();
    }

    /// At a clean close: prepared segments and spares go.
    pub(super) fn clear(&self, shop: &Workshop, appender: &Appender) -> Result<()> {
        self.drop_left();
        self.discard_prepared(shop, appender);
        let spare = std::mem::take(&mut self.files().spare);
        for file in spare {
            shop.remove(file.number);
        }
        shop.env.sync_dir(&shop.options.dir).map_err(|e| Error::io(format!("sync directory {}", shop.options.dir.display()), &e))
    }

    /// Bytes of all files, and how many live segments.
    pub(super) fn totals(&self) -> (u64, usize) {
        let files = self.files();
        (files.bytes(), files.live.len())
    }
}

/// Sleeps on a condition variable, at most `limit`.
#[cfg(not(loom))]
fn wait<'a, T>(condvar: &Condvar, mut guard: MutexGuard<'a, T>, limit: Option<Duration>) -> MutexGuard<'a, T> {
    match limit {
        Some(limit) => drop(condvar.wait_for(&mut guard, limit)),
        None => condvar.wait(&mut guard),
    }
    guard
}

#[cfg(loom)]
fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, _limit: Option<Duration>) -> MutexGuard<'a, T> {
    condvar.wait_owned(guard)
}
