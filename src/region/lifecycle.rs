//! Open, closing, closed; and the bookkeeping of calls that are running.
//!
//! A call enters (counts itself, then looks at the state) and leaves by dropping its guard. A closer stores "closing", wakes whoever waits, and then
//! waits until no call runs. One of both sees the other, since both sides are SeqCst.

use crate::error::{Error, ErrorKind, Result};
use crate::stats::{CallCounters, CallKind};
use crate::sync::{AtomicU8, AtomicU64, Ordering};

const OPEN: u8 = 0;
const CLOSING: u8 = 1;
const CLOSED: u8 = 2;

/// State of one region.
pub struct Lifecycle {
    state: AtomicU8,
    /// Calls by kind and thread.
    pub calls: CallCounters,
    /// Snapshots, scanners and pinned values that are open.
    pub children: AtomicU64,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self { state: AtomicU8::new(OPEN), calls: CallCounters::default(), children: AtomicU64::new(0) }
    }
}

/// A running call; ends when dropped.
pub struct Call<'r> {
    lifecycle: &'r Lifecycle,
    kind: CallKind,
    thread: usize,
    operations: u64,
}

impl Call<'_> {
    /// How many operations the call turned out to be.
    #[inline]
    pub fn counts(&mut self, operations: u64) {
        self.operations = operations;
    }
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lifecycle.calls.exit(self.kind, self.thread, self.operations);
    }
}

impl Lifecycle {
    /// Begins a call, or says why not.
    #[inline]
    pub fn enter(&self, kind: CallKind, thread: usize) -> Result<Call<'_>> {
        self.calls.enter(kind, thread);
        let call = Call { lifecycle: self, kind, thread, operations: 0 };
        // SeqCst: after the count; see the module.
        if self.state.load(Ordering::SeqCst) == OPEN { Ok(call) } else { Err(closed(self.is_closed())) }
    }
    /// True once a close has begun (and not timed out).
    #[inline]
    pub fn is_closing(&self) -> bool {
        // Acquire: pairs with the closer's store.
        self.state.load(Ordering::Acquire) != OPEN
    }
    /// True once the region is closed for good.
    pub fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED
    }
    /// From here on no call begins. SeqCst: before the closer looks at the calls; see the module. The close lock is held.
    pub fn begin_close(&self) {
        self.state.store(CLOSING, Ordering::SeqCst);
    }
    /// A close timed out: calls are welcome again.
    pub fn abandon_close(&self) {
        self.state.store(OPEN, Ordering::SeqCst);
    }
    /// The close is done.
    pub fn finish_close(&self) {
        self.state.store(CLOSED, Ordering::SeqCst);
    }
}

/// The error of a call that came too late. While a close may still time out, the same call may succeed later.
#[cold]
pub fn closed(for_good: bool) -> Error {
    if for_good {
        Error::new(ErrorKind::Closed, "the region is closed")
    } else {
        Error::new(ErrorKind::Closed, "the region is being closed; nothing was changed").retryable(true)
    }
}
