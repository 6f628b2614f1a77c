//! The four steps by which users and a closer of a handle agree on who frees, over whatever atomics `crate::sync` has, so that loom can run them.
//!
//! User: name the block, fence, look at its state; use it if open; clear the name, fence, look again: closed ⇒ try to free. Closer: close, then try to
//! free. Trying (under a lock): fence, and free if no name is seen. Each side stores, fences, loads: one of the two must see the other (H1, H3).

use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Says that this thread uses `name`; answers the state seen afterwards. If it is open the object stays until `leave`.
#[inline]
pub(super) fn announce(word: &AtomicUsize, name: usize, state: &AtomicU64, light_fence: impl Fn()) -> u64 {
    // Relaxed: ordered before the load by the fence.
    word.store(name, Ordering::Relaxed);
    light_fence();
    // Acquire: pairs with the Release that opened it, which wrote the object before.
    state.load(Ordering::Acquire)
}

/// Takes it back; answers the state seen afterwards. If it is closed the caller must try to free.
#[inline]
pub(super) fn leave(word: &AtomicUsize, state: &AtomicU64, light_fence: impl Fn()) -> u64 {
    // Release: what the call did to the object happens before it is freed, see the Acquire in `is_free`.
    word.store(0, Ordering::Release);
    light_fence();
    // Relaxed: who then tries to free looks again, under the lock.
    state.load(Ordering::Relaxed)
}

/// Changes the state; true for exactly one caller.
pub(super) fn close(state: &AtomicU64, open: u64, closed: u64) -> bool {
    // AcqRel: who tries to free sees what was done before; the order against the names is the fence's.
    state.compare_exchange(open, closed, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// True if no thread uses `name` any more. The caller has seen the closed state, and holds the lock under which objects are taken out.
pub(super) fn is_free<'a>(words: impl Iterator<Item = &'a AtomicUsize>, name: usize, heavy_fence: impl Fn()) -> bool {
    heavy_fence();
    let mut free = true;
    for word in words {
        // Acquire: pairs with the Release in `leave`.
        free &= word.load(Ordering::Acquire) != name;
    }
    free
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::{Arc, Mutex, fence, thread};
    use loom::cell::Cell;

    const OPEN: u64 = 1;
    const CLOSED: u64 = 2;

    struct Block {
        state: AtomicU64,
        words: [AtomicUsize; 2],
        /// Some until it is freed.
        present: Mutex<bool>,
        /// loom reports a read that is concurrent with the write of the one who frees.
        object: Cell<u32>,
        freed: AtomicUsize,
    }

    fn try_to_free(b: &Block) {
        let mut present = b.present.lock();
        if *present && b.state.load(Ordering::Relaxed) == CLOSED && is_free(b.words.iter(), 7, || fence(Ordering::SeqCst)) {
            *present = false;
            drop(present);
            b.object.set(0);
            b.freed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn call(b: &Block, thread: usize) {
        let Some(word) = b.words.get(thread) else { return };
        let light = || fence(Ordering::SeqCst);
        if announce(word, 7, &b.state, light) == OPEN {
            assert_eq!(b.object.get(), 1, "used after it was freed");
        }
        if leave(word, &b.state, light) == CLOSED {
            try_to_free(b);
        }
    }

    fn model(users: usize, closers: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let b = Arc::new(Block {
                state: AtomicU64::new(OPEN),
                words: [AtomicUsize::new(0), AtomicUsize::new(0)],
                present: Mutex::new(true),
                object: Cell::new(1),
                freed: AtomicUsize::new(0),
            });
            let mut all = Vec::new();
            for t in 0..users {
                let b = b.clone();
                all.push(thread::spawn(move || call(&b, t)));
            }
            for _ in 0..closers {
                let b = b.clone();
                all.push(thread::spawn(move || {
                    if close(&b.state, OPEN, CLOSED) {
                        try_to_free(&b);
                    }
                }));
            }
            for t in all {
                t.join().unwrap_or_else(|_| panic!("a thread failed"));
            }
            assert_eq!(b.freed.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn two_users_and_a_closer() {
        model(2, 1);
    }

    #[test]
    fn a_user_and_two_closers() {
        model(1, 2);
    }
}
