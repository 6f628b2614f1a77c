//! The append lock: next number, room, copy, publish; and its guard. The one place where a record becomes part of the log.
//!
//! Under the lock nothing is called but the copy, or the write form's one pwrite (two when a segment ends): no allocation, no wake-up, no other lock; what has
//! to be done after that (waking the keeper, poisoning the region) is done by the caller once the lock is free. So the lock is a latch held for a bounded number
//! of instructions, and a hundred threads pass it without a convoy.
//!
//! Invariants: records stand in number order without holes; `last` and the end of the log move together, after the record is whole; a refused or
//! abandoned append leaves zeros and gives no number out. If zeros cannot be restored the log is dead: `dead` is set under the lock, so that nobody can append
//! behind the damage before the caller has poisoned the region.

use super::format::{PAD_BYTES_MIN, Pad, RECORD_BYTES_MIN, RecordKind, SEGMENT_HEADER_BYTES};
use super::record::RecordBuffer;
use super::segment::{Segment, SegmentForm};
use crate::health::Health;
use crate::hooks::{self, Point};
use crate::ids::LogPosition;
use crate::lock_order::{self, Level as LockLevel, LevelGuard};
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering};
use crossbeam_utils::CachePadded;
use std::io;

/// Segments that the keeper prepares ahead. The last one is kept for CARRY records.
pub(super) const PREPARED: usize = 2;
/// A PAD always fits behind a record, and within the populated part where that ends before the segment does.
const ROOM_FOR_PAD: u32 = RECORD_BYTES_MIN as u32;
/// How often the appender calls for the keeper while it fills a mapped segment.
const CALL_EVERY_BYTES: u32 = 256 << 10;

/// The end of the log and the lock over it.
pub(super) struct Appender {
    /// One padded line: every append writes it, nobody else needs it but who takes the lock.
    line: CachePadded<Line>,
    ctx: u64,
    #[cfg(loom)]
    pub(super) flaw: super::models::Flaw,
}

struct Line {
    tail: Mutex<Tail>,
    /// The last number given. Written under the lock.
    last: AtomicU64,
}

/// What the append lock guards.
struct Tail {
    segment: Arc<Segment>,
    /// End of the log within `segment`.
    offset: u32,
    /// `segment.populated()` when last looked at.
    limit: u32,
    /// The keeper is called for at the first append beyond this offset.
    call_at: u32,
    /// Nothing may be appended any more.
    dead: bool,
    /// Where the last PAD ended; equal to the end of the log if no record came after it.
    pad_end: LogPosition,
    /// What follows `segment`, in order.
    prepared: [Option<Arc<Segment>>; PREPARED],
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Appended {
    /// The number given.
    pub(super) number: u64,
    /// The keeper has something to do.
    pub(super) call_keeper: bool,
}

/// Why nothing was appended.
#[derive(Debug)]
pub(super) enum AppendError {
    /// The region is poisoned, or the log closed.
    Dead,
    /// The record does not fit what is populated and prepared.
    NoRoom,
    /// The write form failed, and what was written is zero again.
    Failed(io::Error),
    /// The write form failed and so did the zeros: the log is dead, the caller poisons.
    FailedBadly(io::Error),
}

/// The end of the log at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) last: u64,
    pub(super) position: LogPosition,
}

impl Appender {
    /// An empty log whose first record goes to the start of `segment` and takes the number `last` + 1.
    pub(super) fn new(segment: Arc<Segment>, last: u64, ctx: u64) -> Self {
        let tail = Tail {
            offset: SEGMENT_HEADER_BYTES,
            limit: segment.populated(),
            call_at: SEGMENT_HEADER_BYTES,
            dead: false,
            pad_end: segment.start(),
            prepared: [const { None }; PREPARED],
            segment,
        };
        let line = CachePadded::new(Line { tail: Mutex::new(tail), last: AtomicU64::new(last) });
        Self {
            line,
            ctx,
            #[cfg(loom)]
            flaw: super::models::Flaw::None,
        }
    }

    /// Gives the record the next number and makes it part of the log, whole. `synced` is the durable position that it records. `given` is called
    /// under the lock once nothing can fail any more, before anyone can learn of the number: a store, no more.
    #[inline]
    pub(super) fn append(
        &self,
        record: &mut RecordBuffer,
        health: &Health,
        synced: &AtomicU64,
        given: impl FnOnce(),
    ) -> Result<Appended, AppendError> {
        let length = record.len() as u32;
        // Declared before the lock and so dropped after it: poisoning takes a lock and calls the logger.
        let _poison = PoisonInPanic(health);
        let (mut tail, _level) = self.lock();
        if tail.dead || !health.is_good() {
            return Err(AppendError::Dead);
        }
        if !tail.fits(length) {
            self.make_room(&mut tail, length, record.kind(), synced)?;
        }
        hooks::reach(Point::AppendBeforeHeader, self.ctx);
        // Relaxed: written under this lock only.
        let number = self.line.last.load(Ordering::Relaxed) + 1;
        let offset = tail.offset;
        // Acquire: pairs with the leader's Release; what lies below is on stable storage.
        record.complete(tail.segment.salt, offset, number, synced.load(Ordering::Acquire));
        #[cfg(loom)]
        if self.flaw == super::models::Flaw::PublishEarly {
            self.line.last.store(number, Ordering::Release);
        }
        Writing { tail: &mut tail, offset, length, armed: true }.write(record.bytes(), self.ctx)?;
        tail.offset = offset + length;
        given();
        // Release: pairs with the Acquire in `last`; who sees this number sees the whole record.
        #[cfg(not(loom))]
        let order = Ordering::Release;
        #[cfg(loom)]
        let order = if self.flaw == super::models::Flaw::PublishRelaxed { Ordering::Relaxed } else { Ordering::Release };
        self.line.last.store(number, order);
        hooks::reach(Point::AppendDone, self.ctx);
        let call_keeper = offset >= tail.call_at;
        if call_keeper {
            tail.call_at = offset.saturating_add(CALL_EVERY_BYTES);
        }
        Ok(Appended { number, call_keeper })
    }

    /// A number without a record, for a commit that skips the log; `given` as in `append`. None: the region is poisoned, or the log closed.
    pub(super) fn skip(&self, health: &Health, given: impl FnOnce()) -> Option<u64> {
        let (tail, _level) = self.lock();
        if tail.dead || !health.is_good() {
            return None;
        }
        // Relaxed: written under this lock only.
        let number = self.line.last.load(Ordering::Relaxed) + 1;
        given();
        // Release: as in `append`.
        self.line.last.store(number, Ordering::Release);
        Some(number)
    }

    /// Calls `f` with the last number given, under the append lock.
    pub(super) fn with_last<R>(&self, f: impl FnOnce(u64) -> R) -> R {
        let (_tail, _level) = self.lock();
        // Relaxed: written under this lock only.
        f(self.line.last.load(Ordering::Relaxed))
    }

    /// The last number given, without the lock: a figure.
    pub(super) fn last(&self) -> u64 {
        // Acquire: pairs with the store after the record is whole.
        self.line.last.load(Ordering::Acquire)
    }

    /// Number and position now.
    pub(super) fn end(&self) -> End {
        let (tail, _level) = self.lock();
        End { last: self.line.last.load(Ordering::Relaxed), position: tail.position() }
    }

    /// Appends a PAD of 48 bytes that carries `synced`, if a record came after the last PAD and there is room. Returns the end of the log after it.
    pub(super) fn idle_pad(&self, health: &Health, synced: &AtomicU64) -> Result<End, AppendError> {
        let _poison = PoisonInPanic(health);
        let (mut tail, _level) = self.lock();
        let last = self.line.last.load(Ordering::Relaxed);
        let length = RECORD_BYTES_MIN as u32;
        if tail.position() != tail.pad_end && !tail.dead && health.is_good() && tail.fits(length) {
            self.write_pad(&mut tail, length, last, synced)?;
        }
        Ok(End { last, position: tail.position() })
    }

    /// True if a record came after the last PAD.
    pub(super) fn wants_pad(&self) -> bool {
        let (tail, _level) = self.lock();
        tail.position() != tail.pad_end
    }

    /// Would a record of `length` bytes go in now?
    pub(super) fn has_room(&self, length: u32, kind: RecordKind) -> bool {
        let (mut tail, _level) = self.lock();
        tail.limit = tail.segment.populated();
        tail.fits(length) || (!tail.segment_has_room(length) && tail.can_roll(length, kind))
    }

    /// Refuses appends from now on.
    pub(super) fn close(&self) {
        self.lock().0.dead = true;
    }

    /// The segment in use and the end of the log within it.
    pub(super) fn current(&self) -> (Arc<Segment>, u32) {
        let (tail, _level) = self.lock();
        (Arc::clone(&tail.segment), tail.offset)
    }

    /// How many segments wait behind the one in use, and the first of them.
    pub(super) fn prepared(&self) -> (usize, Option<Arc<Segment>>) {
        let (tail, _level) = self.lock();
        (tail.prepared.iter().flatten().count(), tail.prepared.first().cloned().flatten())
    }

    /// Adds a prepared segment; false (and nothing done) if there are enough.
    pub(super) fn add_prepared(&self, segment: Arc<Segment>) -> bool {
        let (mut tail, _level) = self.lock();
        let free = tail.prepared.iter_mut().find(|p| p.is_none());
        let found = free.is_some();
        if let Some(place) = free {
            *place = Some(segment);
        }
        found
    }

    /// Takes back all prepared segments: they are too small for a record that waits, or the log closes.
    pub(super) fn take_prepared(&self) -> [Option<Arc<Segment>>; PREPARED] {
        std::mem::replace(&mut self.lock().0.prepared, [const { None }; PREPARED])
    }

    /// Level 6. Debug builds refuse to take any other lock, to wait or to do I/O of ours while the guard lives.
    #[inline]
    fn lock(&self) -> (MutexGuard<'_, Tail>, LevelGuard) {
        let level = lock_order::enter(LockLevel::LogAppend, "append lock");
        (self.line.tail.lock(), level)
    }

    /// Ends the segment with a PAD and goes on in the next one, or says that there is no room.
    #[cold]
    fn make_room(&self, tail: &mut MutexGuard<'_, Tail>, length: u32, kind: RecordKind, synced: &AtomicU64) -> Result<(), AppendError> {
        tail.limit = tail.segment.populated();
        if tail.fits(length) {
            return Ok(());
        }
        if tail.segment_has_room(length) || !tail.can_roll(length, kind) {
            return Err(AppendError::NoRoom);
        }
        let rest = tail.segment.len - tail.offset;
        let last = self.line.last.load(Ordering::Relaxed);
        self.write_pad(tail, rest, last, synced)?;
        let Some(next) = tail.prepared.first_mut().and_then(Option::take) else { return Err(AppendError::NoRoom) };
        tail.prepared.rotate_left(1);
        tail.segment.set_next(Arc::clone(&next));
        tail.offset = SEGMENT_HEADER_BYTES;
        tail.limit = next.populated();
        // At once: another segment is wanted.
        tail.call_at = 0;
        tail.pad_end = next.start();
        // The segment left is kept alive by the sync group, which walks from it: this drop frees nothing.
        tail.segment = next;
        Ok(())
    }

    fn write_pad(&self, tail: &mut MutexGuard<'_, Tail>, length: u32, last: u64, synced: &AtomicU64) -> Result<(), AppendError> {
        let offset = tail.offset;
        // Acquire: as in `append`.
        let pad = Pad::new(tail.segment.salt, offset, length, last, synced.load(Ordering::Acquire));
        Writing { tail: &mut *tail, offset, length: pad.bytes().len() as u32, armed: true }.write(pad.bytes(), self.ctx)?;
        tail.offset = offset + length;
        tail.pad_end = tail.position();
        Ok(())
    }
}

impl Tail {
    fn position(&self) -> LogPosition {
        LogPosition::new(self.segment.number, self.offset)
    }

    /// The record, and a PAD behind it, go into what is populated of the segment in use.
    #[inline]
    fn fits(&self, length: u32) -> bool {
        let end = self.offset as u64 + length as u64;
        end + ROOM_FOR_PAD as u64 <= self.limit as u64 || (self.limit == self.segment.len && self.segment_has_room(length))
    }

    /// The record, and the shortest PAD behind it, go into the segment in use, populated or not.
    fn segment_has_room(&self, length: u32) -> bool {
        self.offset as u64 + length as u64 + PAD_BYTES_MIN as u64 <= self.segment.len as u64
    }

    /// There are two prepared segments (for a CARRY, one), and the first takes the record.
    fn can_roll(&self, length: u32, kind: RecordKind) -> bool {
        let wanted = if kind == RecordKind::Carry { 1 } else { PREPARED };
        let mut ready = self.prepared.iter().flatten();
        let Some(next) = ready.next() else { return false };
        let (limit, end) = (next.populated(), SEGMENT_HEADER_BYTES as u64 + length as u64);
        let takes_it = end + ROOM_FOR_PAD as u64 <= limit as u64 || (limit == next.len && end + PAD_BYTES_MIN as u64 <= limit as u64);
        takes_it && 1 + ready.count() >= wanted
    }
}

/// A write under way. Dropped while armed (a panic between header word and trailer) it zeroes what was written and ends the log.
struct Writing<'a, 'b> {
    tail: &'a mut MutexGuard<'b, Tail>,
    offset: u32,
    length: u32,
    armed: bool,
}

impl Writing<'_, '_> {
    #[inline]
    fn write(mut self, bytes: &[u8], ctx: u64) -> Result<(), AppendError> {
        match self.tail.segment.form.write(self.offset, bytes, ctx) {
            Ok(()) => {
                self.armed = false;
                Ok(())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    #[cold]
    fn failed(&mut self, error: io::Error) -> AppendError {
        self.armed = false;
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let erased = self.tail.segment.form.erase(self.offset, self.length).is_ok();
        if full && erased {
            return AppendError::Failed(error);
        }
        self.tail.dead = true;
        AppendError::FailedBadly(error)
    }
}

impl Drop for Writing<'_, '_> {
    fn drop(&mut self) {
        if self.armed {
            self.tail.dead = true;
            // If even this fails, recovery finds an unfinished record at the end and cuts it: no number was given.
            let _ = self.tail.segment.form.erase(self.offset, self.length);
        }
    }
}

/// Poisons the region if it is dropped by a panic.
struct PoisonInPanic<'a>(&'a Health);

impl Drop for PoisonInPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison("a panic while a record was appended to the log");
        }
    }
}
