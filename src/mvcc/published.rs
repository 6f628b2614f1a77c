//! A pointer to an immutable value that readers load under their commit slot and that is freed after a grace period.
//!
//! | step | reader | who replaces |
//! |---|---|---|
//! | 1 | claim a slot (SeqCst) | swap the pointer (SeqCst) |
//! | 2 | load the pointer (SeqCst) | look at all slots (SeqCst) |
//! | 3 | use the value | wait until each slot seen busy has been free once |
//! | 4 | free the slot (Release) | free the value |
//!
//! In the one order of the SeqCst accesses either the reader's load comes after the swap and gets the new value, or the look comes after the
//! claim and waits for the reader. Compared with reference counts, readers write nothing shared.
//!
//! Must not: hand out a value whose lifetime exceeds the guard's.

use super::slots::{CommitSlots, SlotGuard};
use crate::clock::Timeout;
use crate::error::Error;
use crate::sync::{AtomicPtr, Ordering};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The current value. Belongs to one table of commit slots.
pub struct Published<T> {
    pointer: AtomicPtr<T>,
    /// The table whose guards may load; only compared.
    table: *const (),
    /// Readers in any thread get `&T`, and whoever reclaims gets `Box<T>`: like an `Arc`, shared and sent only if T is both.
    owns: PhantomData<std::sync::Arc<T>>,
}

// SAFETY: `table` is never dereferenced; what remains is an owned T that is shared with readers, as in an Arc.
unsafe impl<T: Send + Sync> Send for Published<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T> Published<T> {
    /// The first value. Readers must hold slots of `table`.
    pub fn new(table: &CommitSlots, value: Box<T>) -> Self {
        Self { pointer: AtomicPtr::new(Box::into_raw(value)), table: table.identity(), owns: PhantomData }
    }

    /// The value now. It stays as it is while the slot is held, whatever is published meanwhile.
    #[inline]
    pub fn load<'g>(&'g self, guard: &'g SlotGuard<'_>) -> &'g T {
        assert!(std::ptr::eq(guard.table().identity(), self.table), "a slot of another region");
        // SeqCst: after the claim, see the header. Also acquires the value's contents.
        let value = self.pointer.load(Ordering::SeqCst);
        // SAFETY: from `Box::into_raw`; freed by `reclaim` only after a grace period that began after it was unpublished, hence not before
        // `guard`, which was claimed before this load, is dropped. `Published` itself is borrowed, so `drop` does not free it either.
        unsafe { &*value }
    }

    /// Publish `value`. Readers that have the old one keep it; it comes back from [`Retired::reclaim`].
    pub fn replace(&self, value: Box<T>) -> Retired<T> {
        // SeqCst: before the look at the slots, see the header. Release publishes the contents.
        let old = self.pointer.swap(Box::into_raw(value), Ordering::SeqCst);
        // SAFETY: `pointer` always holds what `Box::into_raw` gave, never null.
        let old = unsafe { NonNull::new_unchecked(old) };
        Retired { value: old, table: self.table, owns: PhantomData }
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        // Relaxed: `&mut self`; every `&T` from `load` borrowed `self` and is gone.
        let value = self.pointer.load(Ordering::Relaxed);
        // SAFETY: from `Box::into_raw`, still published, so in no `Retired`.
        drop(unsafe { Box::from_raw(value) });
    }
}

/// A value that is no longer published but may still be in use. Dropping it without [`Retired::reclaim`] leaks the value: the alternative
/// would be to wait in a destructor.
#[must_use = "reclaim it, else the value leaks"]
pub struct Retired<T> {
    value: NonNull<T>,
    table: *const (),
    owns: PhantomData<std::sync::Arc<T>>,
}

// SAFETY: as for `Published`.
unsafe impl<T: Send + Sync> Send for Retired<T> {}
// SAFETY: as for `Published`.
unsafe impl<T: Send + Sync> Sync for Retired<T> {}

impl<T> Retired<T> {
    /// Wait for a grace period, then give the value back. Not under a slot of one's own. On an error (timeout, poisoned) the value may
    /// still be in use, and the `Retired` comes back to try again.
    pub fn reclaim(self, table: &CommitSlots, timeout: &mut Timeout) -> Result<Box<T>, (Self, Error)> {
        assert!(std::ptr::eq(table.identity(), self.table), "the slots of another region");
        match table.wait_for_grace(timeout) {
            // SAFETY: from `Box::into_raw`, unpublished before the grace period that has just ended, so no reader has it any more; `self`
            // was its only owner and is consumed.
            Ok(()) => Ok(unsafe { Box::from_raw(self.value.as_ptr()) }),
            Err(e) => Err((self, e)),
        }
    }

    /// The value, for as long as this stays.
    pub fn value(&self) -> &T {
        // SAFETY: alive until `reclaim` consumes `self`; readers have it shared only.
        unsafe { self.value.as_ref() }
    }
}
