//! Bytes of a segment that outlive the read which found them: a pointer, and a reference to the segment that keeps its memory. UNSAFE ROOM.

use super::segment::Segment;
use crate::sync::Arc;
use std::ops::Deref;
use std::ptr::NonNull;

/// A value where it lies. Its segment's memory goes back to the pool when this is dropped, too.
pub struct PinnedBytes {
    bytes: NonNull<[u8]>,
    /// Keeps them.
    _segment: Arc<Segment>,
}

// SAFETY: a shared reference to bytes that nobody writes, and what keeps them, which may be dropped by any thread.
unsafe impl Send for PinnedBytes {}
// SAFETY: as above.
unsafe impl Sync for PinnedBytes {}

impl PinnedBytes {
    /// Pins `bytes`, if they lie in `segment`.
    pub fn new(segment: &Arc<Segment>, bytes: &[u8]) -> Option<Self> {
        // What a segment lends as plain bytes (keys and values) is written before it is published and never after, and stays until the segment is
        // dropped. So lying in its arena is all that has to be known.
        segment.holds(bytes).then(|| Self { bytes: NonNull::from(bytes), _segment: Arc::clone(segment) })
    }
}

impl Deref for PinnedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: bytes of the segment's arena (`new`), which lives as long as the segment, of which this holds a reference.
        unsafe { self.bytes.as_ref() }
    }
}
