//! Pieces of an arena that came back unused: those of a commit that was refused after it had taken its memory.
//!
//! Must not: be asked where nothing ever came back (the arena looks at a word first).
//!
//! A list sorted by address; neighbours become one piece, so that what a refused commit gives back is there as a whole for its next try.
//! Threads: under a lock of the arena, a leaf that is held for one walk of the list.
#![forbid(unsafe_code)]

use super::chunk::ALIGN_BYTES;
use std::ptr::{self, NonNull};

/// See the module.
pub(super) struct Pieces {
    /// Address and bytes.
    list: Vec<(usize, usize)>,
    /// No piece is larger: a longer request does not look.
    most: usize,
    /// Bytes of all.
    total: usize,
}

impl Default for Pieces {
    fn default() -> Self {
        // As many as refused calls of many threads leave at once: a call that is refused and comes again allocates nothing either.
        Self { list: Vec::with_capacity(128), most: 0, total: 0 }
    }
}

impl Pieces {
    /// Takes a piece in. `starts_a_chunk`: what lies before the address is another chunk's, and never one piece with it.
    pub(super) fn put(&mut self, at: NonNull<u8>, bytes: usize, starts_a_chunk: impl Fn(usize) -> bool) {
        let at = at.as_ptr().expose_provenance();
        let i = self.list.partition_point(|p| p.0 < at);
        let joins = |left: Option<&(usize, usize)>, right: usize| left.is_some_and(|l| l.0 + l.1 == right) && !starts_a_chunk(right);
        let before = i.checked_sub(1).filter(|b| joins(self.list.get(*b), at));
        let behind = self.list.get(i).map(|p| p.0).filter(|next| joins(Some(&(at, bytes)), *next));
        let more = if behind.is_some() { self.list.remove(i).1 } else { 0 };
        let now = match before.and_then(|b| self.list.get_mut(b)) {
            Some(piece) => {
                piece.1 += bytes + more;
                piece.1
            }
            None => {
                self.list.insert(i, (at, bytes + more));
                bytes + more
            }
        };
        self.most = self.most.max(now);
        self.total += bytes;
    }

    /// `bytes` aligned to `align` out of the last piece that has them: a large commit that comes again takes its pieces from the list's end, where
    /// removing one moves nothing.
    pub(super) fn take(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if bytes > self.most {
            return None;
        }
        let fits = |&(at, has): &(usize, usize)| {
            let from = at.next_multiple_of(align);
            (from + bytes <= at + has).then_some(from)
        };
        let Some((i, from)) = self.list.iter().enumerate().rev().find_map(|(i, p)| Some((i, fits(p)?))) else {
            // Only alignment can have been in the way of a piece of that size.
            self.most = self.largest();
            return None;
        };
        self.total -= bytes;
        let (at, has) = self.list.remove(i);
        let rest = at + has - (from + bytes);
        if rest > 0 {
            self.list.insert(i, (from + bytes, rest));
        }
        if from > at {
            self.list.insert(i, (at, from - at));
        }
        if self.list.is_empty() {
            self.most = 0;
        }
        NonNull::new(ptr::with_exposed_provenance_mut(from))
    }

    /// No piece has more bytes.
    pub(super) fn most(&self) -> usize {
        self.most
    }
    /// Bytes of all.
    pub(super) fn bytes(&self) -> usize {
        self.total
    }
    /// Bytes of the largest piece.
    fn largest(&self) -> usize {
        self.list.iter().map(|p| p.1).max().unwrap_or(0)
    }
}

/// What an allocation of `bytes` takes.
pub(super) fn rounded(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(ALIGN_BYTES)
}

#[cfg(all(test, not(loom)))]
mod tests;
