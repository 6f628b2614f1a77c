//! The files of the log: preparing segments ahead, populating them, counting their bytes, taking back those that are no longer needed.
//!
//! One background thread, the keeper, does all of it, so that an append never waits for the file system: it keeps two segments prepared behind the one in use
//! (`prepare.rs`) and a window populated in front of the log's end. While it writes zeros it looks at the window now and then: one long fsync would let the
//! writers run dry.
//!
//! Sizes grow from 4 MB by four per roll to `segment_bytes`, so that opening a region is fast and a busy one soon works with large segments. On a disk that is
//! nearly full they shrink, down to 64 KB, before anybody is told that it is full.
//!
//! Threads: `Files` is locked for a few instructions at a time, never while the append lock is held (a leaf lock) and never over I/O.

mod space;

use super::LogOptions;
use super::append::{Appender, PREPARED};
use super::format::SEGMENT_HEADER_BYTES;
use super::prepare::{Order, SEGMENT_BYTES_MIN, WINDOW_FSYNC_BYTES, Workshop, populate_error};
use super::segment::{Segment, drop_chain};
use crate::error::{Error, ErrorKind, Result};
use crate::health::Health;
use crate::lock_order::{self, Level as LockLevel};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use std::collections::VecDeque;
use std::time::Duration;

const FIRST_BYTES: u32 = 4 << 20;
/// Each roll asks for a segment so many times larger, up to `segment_bytes`.
const GROWTH: u32 = 4;
/// Populated ahead of the log's end while no commit waits for a sync.
const WINDOW_BYTES: u32 = 8 << 20;
/// Populated per call, so that writers get it piece by piece.
const POPULATE_BYTES: u32 = 1 << 20;
/// Segments that sync leaders leave behind before the keeper looks; beyond it the leader's push allocates.
const LEFT_AT_ONCE: usize = 16;

#[derive(Clone, Copy, Debug)]
struct SegmentFile {
    number: u32,
    bytes: u64,
}

/// Segments that the log has left keep their pages in this process until they are synced, which may be long after; nobody stores into them any more, since the
/// appender rolls under the append lock, and syncs go by the file. So the keeper gives their memory back as soon as it is called for the next segment: at most
/// two full segments and a window hold memory, however far the syncs lag.
struct Behind {
    /// The oldest segment that may still hold memory.
    oldest: Arc<Segment>,
}

impl Behind {
    fn release(&mut self, appender: &Appender) {
        let in_use = appender.current().0.number;
        while self.oldest.number < in_use {
            let Some(next) = self.oldest.next().cloned() else { return };
            self.oldest.release();
            self.oldest = next;
        }
    }
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
    /// The last segment was of a quarter of that: where the disk was too full for a large one, the next is not tried at full size at once.
    grow_to: u32,
    /// The longest record that a writer waits to append.
    needed: u32,
    /// Preparations ended so far, well or not.
    attempts: u64,
    /// How the last one failed.
    error: Option<Error>,
    /// No preparation was tried, since the log would pass its limit.
    at_limit: bool,
    /// How often the keeper has looked what there is to prepare.
    looks: u64,
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
            grow_to: first.len.max(SEGMENT_BYTES_MIN).saturating_mul(GROWTH),
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

    /// The first segment of a life. At the limit the region opens all the same, to be read: with a segment that takes no record, so that writes are refused as in
    /// a region that has reached its limit while open, and however many lives there are, the log does not grow.
    pub(super) fn first_order(options: &LogOptions, number: u32, old: &[(u32, u64)]) -> Order {
        let bytes = options.segment_bytes.min(FIRST_BYTES);
        let room = options.bytes_max.saturating_sub(old.iter().map(|(_, bytes)| bytes).sum()) & !4095;
        let bytes = (bytes as u64).min(room).max(SEGMENT_HEADER_BYTES as u64) as u32;
        Order { number, bytes, bytes_min: bytes.min(SEGMENT_BYTES_MIN), reuse: None }
    }

    /// The keeper's thread: works until nothing is left to do, then sleeps until called.
    pub(super) fn run(&self, shop: &Workshop, appender: &Appender, health: &Health) {
        // Nothing rolls before this thread has prepared something: the first segment.
        let mut behind = Behind { oldest: appender.current().0 };
        loop {
            {
                let mut files = self.files();
                while !files.called && !files.stop {
                    files = wait(&self.work, files, None);
                }
                if files.stop {
                    break;
                }
                files.called = false;
            }
            while self.work_once(shop, appender, health, &mut behind) {}
        }
        // One by one: see `drop_chain`.
        behind.release(appender);
    }

    /// One piece of work; false: nothing to do, or it failed and waits for the next call.
    fn work_once(&self, shop: &Workshop, appender: &Appender, health: &Health, behind: &mut Behind) -> bool {
        behind.release(appender);
        self.drop_left();
        if !health.is_good() || self.files().stop {
            return false;
        }
        if let Err(e) = self.populate_ahead(shop, appender) {
            self.ended(Err(e));
            return false;
        }
        let Some(order) = self.next_preparation(shop, appender) else { return false };
        let number = order.number;
        let result = shop.prepare(order, None, &mut || {
            behind.release(appender);
            // An error shows again at the next look, when nothing else is in hand.
            let _ = self.populate_ahead(shop, appender);
        });
        if let Ok(segment) = &result {
            let mut files = self.files();
            files.live.push_back(SegmentFile { number, bytes: segment.len as u64 });
            files.next_number = number.saturating_add(1);
            files.grow_to = segment.len.saturating_mul(GROWTH);
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
        files.error = result.err();
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

    /// The segment to prepare now, if any.
    fn next_preparation(&self, shop: &Workshop, appender: &Appender) -> Option<Order> {
        let (ready, first) = appender.prepared();
        let needed = self.files().needed;
        let full = shop.options.segment_bytes;
        let fits = SEGMENT_HEADER_BYTES.saturating_add(needed).saturating_add(64).next_multiple_of(4096).min(full);
        if first.is_some_and(|s| s.len < fits) {
            // The segments ahead are too small for a record that waits: they were made while segments still grew.
            self.discard_prepared(shop, appender);
        } else if ready >= PREPARED {
            let mut files = self.files();
            (files.at_limit, files.looks) = (false, files.looks + 1);
            return None;
        }
        let current = appender.current().0.number;
        let mut files = self.files();
        let rolls = current.saturating_sub(files.first_number).min(8);
        let grown = (FIRST_BYTES as u64) * (GROWTH as u64).pow(rolls);
        let bytes = grown.min(full as u64).min(files.grow_to as u64).max(fits as u64) as u32;
        let at = files.spare.iter().position(|s| s.bytes == bytes as u64);
        let reuse = at.map(|at| files.spare.swap_remove(at).number);
        // Spares of another size never fit again; and where space is short, none is kept for later.
        let over = files.bytes().saturating_add(bytes as u64) > shop.options.bytes_max;
        let short = over || files.error.as_ref().is_some_and(|e| e.kind() == ErrorKind::NoSpace);
        let useless: Vec<_> =
            if reuse.is_none() { files.spare.extract_if(.., |s| short || s.bytes != full as u64).collect() } else { Vec::new() };
        // A reused file's bytes are counted again once it is prepared.
        files.looks += 1;
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
        Some(Order { number, bytes, bytes_min: fits.max(SEGMENT_BYTES_MIN).min(bytes), reuse })
    }

    /// Takes back and removes what is prepared and not used yet. The last one first, and none below one that stays: a crash or an
    /// error in between must not leave a gap in the numbers, which is damage.
    fn discard_prepared(&self, shop: &Workshop, appender: &Appender) {
        let mut all_removed = true;
        for segment in appender.take_prepared().into_iter().flatten().rev() {
            let mut files = self.files();
            files.live.retain(|f| f.number != segment.number);
            files.next_number = files.next_number.min(segment.number);
            drop(files);
            all_removed = all_removed && shop.remove(segment.number);
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
