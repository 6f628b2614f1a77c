//! One open segment: how bytes get into it (the trait and its forms), how far it is populated, which one follows.
//!
//! A segment is shared by the appender, the sync group and the keeper (`segments.rs`) through an `Arc`; the last reference closes and unmaps it.
//! Bytes are only written under the append lock. `next` is set once, by the appender when it rolls: the sync leader walks it from the oldest unsynced
//! segment to the one in use, so that nobody keeps a list.

use super::format::{SEGMENT_HEADER_BYTES, SaltCrc};
use super::mapped::MappedSegment;
#[cfg(loom)]
use super::models::ModelSegment;
use super::pwrite::PwriteSegment;
use crate::ids::LogPosition;
use crate::sync::{Arc, AtomicU32, Ordering};
use std::io;
use std::ops::Range;
use std::sync::OnceLock;

/// How bytes get into a segment. All calls but `sync` and `populate` are made under the append lock.
pub(super) trait SegmentForm {
    /// Writes a record (or the written part of a PAD): the header word first, the trailer, its last 8 bytes, last. An error leaves any part of it written.
    fn write(&self, offset: u32, record: &[u8], ctx: u64) -> io::Result<()>;
    /// Zeroes what a failed or abandoned `write` may have left; the trailer first, the header word last.
    fn erase(&self, offset: u32, length: u32) -> io::Result<()>;
    /// Makes everything written so far durable.
    fn sync(&self) -> io::Result<()>;
    /// Makes pages present and writable.
    fn populate(&self, range: Range<u32>) -> io::Result<()>;
    /// Gives memory back that only writing needs: the log has left this segment, and a sync goes by the file.
    fn release(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The forms, as an enum: the append path is monomorphic and branches once.
pub(super) enum Form {
    /// Copies into a mapping.
    Mapped(MappedSegment),
    /// One pwrite per record.
    Pwrite(PwriteSegment),
    /// Atomics that loom watches.
    #[cfg(loom)]
    Model(ModelSegment),
}

/// One open segment.
pub(super) struct Segment {
    pub(super) number: u32,
    /// Bytes of the file.
    pub(super) len: u32,
    pub(super) salt: SaltCrc,
    pub(super) form: Form,
    /// End of the part that records may be copied into. Never shrinks.
    populated: AtomicU32,
    next: OnceLock<Arc<Segment>>,
}

impl Segment {
    /// A segment whose first `populated` bytes can be written to.
    pub(super) fn new(number: u32, len: u32, salt: SaltCrc, form: Form, populated: u32) -> Self {
        Self { number, len, salt, form, populated: AtomicU32::new(populated), next: OnceLock::new() }
    }

    /// Where its first record stands.
    pub(super) fn start(&self) -> LogPosition {
        LogPosition::new(self.number, SEGMENT_HEADER_BYTES)
    }

    /// True if records are copied into a mapping.
    pub(super) fn is_mapped(&self) -> bool {
        matches!(self.form, Form::Mapped(_))
    }

    pub(super) fn populated(&self) -> u32 {
        // Acquire: pairs with the Release in `populate_to`; whoever reads the new end may write to those pages.
        self.populated.load(Ordering::Acquire)
    }

    /// Populates up to `end` (cut to the segment). Only the keeper calls this.
    pub(super) fn populate_to(&self, end: u32) -> io::Result<()> {
        let (from, end) = (self.populated(), end.min(self.len));
        if from < end {
            self.form.populate(from..end)?;
            // Release: pairs with the Acquire in `populated`.
            self.populated.store(end, Ordering::Release);
        }
        Ok(())
    }

    /// Gives its memory back, once the log has gone on to the next one. A failure costs memory until the segment is synced, and nothing else.
    pub(super) fn release(&self) {
        if let Err(e) = self.form.release() {
            log::warn!(target: "region", "give back the memory of log segment {}: {e}", self.number);
        }
    }

    /// The segment after this one, once the appender has rolled to it.
    pub(super) fn next(&self) -> Option<&Arc<Segment>> {
        self.next.get()
    }

    /// Called by the appender, once.
    pub(super) fn set_next(&self, next: Arc<Segment>) {
        let first = self.next.set(next).is_ok();
        debug_assert!(first, "a segment is followed by one segment only");
    }
}

impl SegmentForm for Form {
    #[inline]
    fn write(&self, offset: u32, record: &[u8], ctx: u64) -> io::Result<()> {
        match self {
            Self::Mapped(m) => m.write(offset, record, ctx),
            Self::Pwrite(p) => p.write(offset, record, ctx),
            #[cfg(loom)]
            Self::Model(m) => m.write(offset, record, ctx),
        }
    }
    fn erase(&self, offset: u32, length: u32) -> io::Result<()> {
        match self {
            Self::Mapped(m) => m.erase(offset, length),
            Self::Pwrite(p) => p.erase(offset, length),
            #[cfg(loom)]
            Self::Model(m) => m.erase(offset, length),
        }
    }
    fn sync(&self) -> io::Result<()> {
        match self {
            Self::Mapped(m) => m.sync(),
            Self::Pwrite(p) => p.sync(),
            #[cfg(loom)]
            Self::Model(m) => m.sync(),
        }
    }
    fn populate(&self, range: Range<u32>) -> io::Result<()> {
        match self {
            Self::Mapped(m) => m.populate(range),
            Self::Pwrite(p) => p.populate(range),
            #[cfg(loom)]
            Self::Model(m) => m.populate(range),
        }
    }
    fn release(&self) -> io::Result<()> {
        match self {
            Self::Mapped(m) => m.release(),
            Self::Pwrite(_) => Ok(()),
            #[cfg(loom)]
            Self::Model(_) => Ok(()),
        }
    }
}

/// Drops a chain of segments one by one: left to itself the drop of the first would recurse through all of them.
pub(super) fn drop_chain(mut first: Arc<Segment>, up_to: u32) {
    while first.number < up_to {
        let Some(next) = first.next().cloned() else { break };
        first = next;
    }
}
