//! Values that outlive the read that found them.

use super::Inner;
use super::face::Pinned;
use crate::sync::{Arc, Ordering};
use std::ops::Deref;

/// A value that outlives the read: where it lies in its segment, or a copy. Counted until it is dropped.
pub(super) struct PinnedValue<B: Deref<Target = [u8]>> {
    inner: Arc<Inner>,
    bytes: B,
}

impl<B: Deref<Target = [u8]>> PinnedValue<B> {
    pub fn new(inner: Arc<Inner>, bytes: B) -> Self {
        // Relaxed: a closer that misses it lets the region go, and the value stays readable all the same.
        inner.lifecycle.children.fetch_add(1, Ordering::Relaxed);
        inner.pinned_values.fetch_add(1, Ordering::Relaxed);
        inner.pinned_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Self { inner, bytes }
    }
}

impl<B: Deref<Target = [u8]> + Send + Sync> Pinned for PinnedValue<B> {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<B: Deref<Target = [u8]>> Drop for PinnedValue<B> {
    fn drop(&mut self) {
        self.inner.pinned_values.fetch_sub(1, Ordering::Relaxed);
        self.inner.lifecycle.children.fetch_sub(1, Ordering::Release);
        self.inner.pinned_bytes.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}
