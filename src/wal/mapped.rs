//! UNSAFE ROOM: a segment as a shared mapping of its file. A record is one copy, no system call; once its trailer is stored it survives kill -9,
//! since the pages belong to the kernel.
//!
//! Who may write where is not decided here: the appender hands out disjoint ranges within the populated part, under the append lock. Bounds are checked again,
//! since a wrong one would write over foreign memory. Invariants: the mapping lives as long as this value; nobody in the process reads it;
//! the file is preallocated and never truncated while mapped.
//!
//! Order: header word (one 8-byte store), release fence, payload, trailer (one 8-byte store, Release). A process that dies in between leaves a header word whose
//! trailer is 0 (*unfinished*), never a record that looks whole.

use super::segment::SegmentForm;
use crate::env::{EnvFile, Mapping};
use crate::hooks::{self, Point};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
// Not `crate::sync`: the words lie in a file's pages, where loom's atomics cannot live. The models use a segment form of their own.
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A mapped segment and its file.
pub(crate) struct MappedSegment {
    base: NonNull<u8>,
    len: usize,
    map: Box<dyn Mapping>,
    file: Box<dyn EnvFile>,
}

// SAFETY: `base` points into `map`, which is Send and Sync and lives as long; writes through it are made by one thread at a time (the append lock) or are
// whole aligned words stored atomically.
unsafe impl Send for MappedSegment {}
// SAFETY: as above.
unsafe impl Sync for MappedSegment {}

impl MappedSegment {
    /// Maps the first `len` bytes (a multiple of 8) of a file of at least that length.
    pub(super) fn new(file: Box<dyn EnvFile>, len: usize) -> io::Result<Self> {
        let map = file.map(len)?;
        if map.len() < len || !map.base().as_ptr().cast::<u64>().is_aligned() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        Ok(Self { base: map.base(), len, map, file })
    }

    /// The word at `offset`. None: not within the mapping, or not aligned.
    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        if !offset.is_multiple_of(8) || offset.checked_add(8)? > self.len {
            return None;
        }
        // SAFETY: offset + 8 ≤ len, checked above, so the result lies within the mapping.
        let at = unsafe { self.base.as_ptr().add(offset) }.cast::<u64>();
        // SAFETY: aligned (base and offset are), valid while `self` is, and plain writes to the same bytes are made only under the append lock,
        // which the caller holds.
        Some(unsafe { AtomicU64::from_ptr(at) })
    }
}

fn outside() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidInput)
}

impl SegmentForm for MappedSegment {
    #[inline]
    fn write(&self, offset: u32, record: &[u8], ctx: u64) -> io::Result<()> {
        let offset = offset as usize;
        let (Some((head, rest)), Some(end)) = (record.split_first_chunk::<8>(), offset.checked_add(record.len())) else {
            return Err(outside());
        };
        let Some((payload, tail)) = rest.split_last_chunk::<8>() else { return Err(outside()) };
        let (Some(header), Some(trailer)) = (self.word(offset), self.word(end - 8)) else { return Err(outside()) };
        // Relaxed, ordered before the payload by the fence: who finds payload bytes finds a header word that covers them.
        header.store(u64::from_ne_bytes(*head), Ordering::Relaxed);
        fence(Ordering::Release);
        hooks::reach(Point::AppendAfterHeader, ctx);
        // SAFETY: offset + 8 < offset + record.len() ≤ len (both words were found within the mapping), so the result lies within it.
        let to = unsafe { self.base.as_ptr().add(offset + 8) };
        // SAFETY: `payload` has record.len() − 16 bytes, which end where the trailer begins; the caller's record is memory of its own, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), to, payload.len()) };
        // Release: after the payload, so that a trailer is never found with less than its record.
        trailer.store(u64::from_ne_bytes(*tail), Ordering::Release);
        Ok(())
    }

    #[cold]
    fn erase(&self, offset: u32, length: u32) -> io::Result<()> {
        let (first, words) = (offset as usize, length as usize / 8);
        // From the back: the trailer goes first, the header word last. Release keeps that order.
        for i in (0..words).rev() {
            self.word(first + 8 * i).ok_or_else(outside)?.store(0, Ordering::Release);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn populate(&self, range: Range<u32>) -> io::Result<()> {
        self.map.populate(range.start as usize..range.end as usize)
    }

    fn release(&self) -> io::Result<()> {
        self.map.release()
    }
}
