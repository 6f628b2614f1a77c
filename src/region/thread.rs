//! What a thread keeps between calls: its small number (which spreads threads over lines, slots and chunks) and buffers that would else be
//! allocated per call.

use crate::region::batch::BatchScratch;
use crate::wal::RecordBuffer;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Buffers that calls reuse.
#[derive(Default)]
pub struct Scratch {
    /// The encoded record.
    pub record: RecordBuffer,
    /// Lists of a batch.
    pub batch: BatchScratch,
}

/// One thread's number and buffers.
pub struct ThreadState {
    index: Cell<usize>,
    scratch: RefCell<Scratch>,
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD: ThreadState = ThreadState { index: Cell::new(usize::MAX), scratch: RefCell::new(Scratch::default()) };
}

impl ThreadState {
    fn number(&self) -> usize {
        if self.index.get() == usize::MAX {
            // Relaxed: only distinctness matters.
            self.index.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        self.index.get()
    }
}

/// Runs `f` with this thread's number and buffers. A call from within a call (a progress callback) and one from a thread that is being torn down get buffers of
/// their own.
#[inline]
pub fn with_scratch<R>(f: impl FnOnce(usize, &mut Scratch) -> R) -> R {
    let mut f = Some(f);
    let done = THREAD.try_with(|t| {
        let mut scratch = t.scratch.try_borrow_mut().ok()?;
        f.take().map(|f| f(t.number(), &mut scratch))
    });
    match (done.ok().flatten(), f) {
        (Some(r), _) => r,
        (None, Some(f)) => f(0, &mut Scratch::default()),
        // `f` is only taken where its result is returned.
        (None, None) => unreachable!("the closure ran without a result"),
    }
}

/// This thread's number.
#[inline]
pub fn index() -> usize {
    THREAD.try_with(ThreadState::number).unwrap_or(0)
}
