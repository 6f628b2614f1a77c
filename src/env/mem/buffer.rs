//! Memory of one file: fixed in place, zeroed, page-aligned. UNSAFE ROOM.
//!
//! A mapping gives its address to code that stores into it at any time, as a real mapping does, while this side reads whole pages to find out what changed. So
//! nothing here makes a reference to the bytes: every access is a volatile one of a word or a byte, and a page read while someone stores into it is a mixture,
//! as it is for a kernel that writes it back.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes per page: what a power cut keeps or loses as a whole.
pub const PAGE: usize = 4096;
const WORD: usize = 8;

pub(super) struct Buffer {
    base: NonNull<u8>,
    /// A multiple of `PAGE`, not 0.
    capacity: usize,
}

// SAFETY: plain memory that no thread owns; all accesses here are single words, see the header.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1).next_multiple_of(PAGE);
        let layout = Self::layout(capacity);
        // SAFETY: the size is not 0.
        let p = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(p) else { handle_alloc_error(layout) };
        Self { base, capacity }
    }
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, PAGE).expect("a test's file fits the address space")
    }
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.capacity && len <= self.capacity - offset, "beyond the file's memory");
        self.base.as_ptr().wrapping_add(offset)
    }

    pub(super) fn read(&self, offset: usize, out: &mut [u8]) {
        let from = self.at(offset, out.len());
        let head = from.align_offset(WORD).min(out.len());
        let (head_out, rest) = out.split_at_mut(head);
        let (words, tail) = rest.as_chunks_mut::<WORD>();
        // From the end to the beginning: who appends while an image is taken writes upwards, so the image shows a prefix of that, as a kill would.
        let tail_at = from.wrapping_add(head + words.len() * WORD);
        for (i, b) in tail.iter_mut().enumerate().rev() {
            // SAFETY: in range by the assertion in `at`.
            *b = unsafe { tail_at.wrapping_add(i).read_volatile() };
        }
        for (i, w) in words.iter_mut().enumerate().rev() {
            let p = from.wrapping_add(head + i * WORD).cast::<u64>();
            // SAFETY: in range by the assertion in `at`, aligned by `head`.
            *w = unsafe { p.read_volatile() }.to_ne_bytes();
        }
        for (i, b) in head_out.iter_mut().enumerate().rev() {
            // SAFETY: in range by the assertion in `at`.
            *b = unsafe { from.wrapping_add(i).read_volatile() };
        }
    }

    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        let head = to.align_offset(WORD).min(bytes.len());
        let (head_in, rest) = bytes.split_at(head);
        let (words, tail) = rest.as_chunks::<WORD>();
        for (i, &b) in head_in.iter().enumerate() {
            // SAFETY: in range by the assertion in `at`.
            unsafe { to.wrapping_add(i).write_volatile(b) };
        }
        let tail_at = to.wrapping_add(head + words.len() * WORD);
        for (i, w) in words.iter().enumerate() {
            let p = to.wrapping_add(head + i * WORD).cast::<u64>();
            // SAFETY: in range by the assertion in `at`, aligned by `head`.
            unsafe { p.write_volatile(u64::from_ne_bytes(*w)) };
        }
        for (i, &b) in tail.iter().enumerate() {
            // SAFETY: in range by the assertion in `at`.
            unsafe { tail_at.wrapping_add(i).write_volatile(b) };
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; whoever maps the file holds the buffer.
        unsafe { dealloc(self.base.as_ptr(), Self::layout(self.capacity)) };
    }
}
