//! The four steps by which users and a closer of a handle agree on who frees, over whatever atomics `crate::sync` has, so that loom can run them.
//!
//! User: name the block, fence, look at its state; use it if open; clear the name, fence, look again: closed ⇒ try to free. Closer: close, then try to
//! free. Trying (under a lock): fence, and free if no name is seen. Each side stores, fences, loads: one of the two must see the other (H1, H3).
//!
//! An owned handle has one thread that may free it having looked at its own names only, if no other has set `shared`. The others set it, fence, and
//! look at the state again before they use it (H4): again each side stores, fences, loads.

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

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

/// Another thread than the owner, which has named the handle, tells the owner; answers the state seen afterwards.
pub(super) fn share(shared: &AtomicBool, state: &AtomicU64) -> u64 {
    // Relaxed: ordered before the load of the state by the fence, whoever of the others stored it (the load that saw it is before the fence as well).
    if !shared.load(Ordering::Relaxed) {
        shared.store(true, Ordering::Relaxed);
    }
    // SeqCst: pairs with the fence in `was_alone`; either that sees `shared`, or this sees the closed state.
    fence(Ordering::SeqCst);
    // Acquire: as in `announce`.
    state.load(Ordering::Acquire)
}

/// The owner, which has seen the closed state: true if no other thread has used the handle, or ever will.
pub(super) fn was_alone(shared: &AtomicBool) -> bool {
    // SeqCst: pairs with the fence in `share`.
    fence(Ordering::SeqCst);
    !shared.load(Ordering::Relaxed)
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
    use crate::sync::{Arc, Mutex, thread};
    use loom::cell::Cell;

    const OPEN: u64 = 1;
    const CLOSED: u64 = 2;

    /// What a broken rule does; each must be noticed.
    #[derive(Clone, Copy, PartialEq)]
    enum Flaw {
        None,
        /// Others use the handle without telling the owner.
        Untold,
        /// Others tell the owner, and do not look at the state again.
        NoSecondLook,
    }

    struct Block {
        state: AtomicU64,
        words: [AtomicUsize; 2],
        /// Some until it is freed.
        present: Mutex<bool>,
        shared: AtomicBool,
        /// loom reports a read that is concurrent with the write of the one who frees.
        object: Cell<u32>,
        freed: AtomicUsize,
    }

    /// Thread 0 is the owner where there is one.
    fn try_to_free(b: &Block, owner: bool) {
        let mut present = b.present.lock();
        if !*present || b.state.load(Ordering::Relaxed) != CLOSED {
            return;
        }
        let heavy = || fence(Ordering::SeqCst);
        let free =
            if owner && was_alone(&b.shared) { is_free(b.words.iter().take(1), 7, || ()) } else { is_free(b.words.iter(), 7, heavy) };
        if free {
            *present = false;
            drop(present);
            b.object.set(0);
            b.freed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// `light`: the fence of those who pay for none, because the one who frees issues it for them: loom cannot, so they pay here.
    fn call(b: &Block, thread: usize, owned: bool, flaw: Flaw) {
        let Some(word) = b.words.get(thread) else { return };
        let light = || fence(Ordering::SeqCst);
        let mut state = announce(word, 7, &b.state, light);
        if owned && thread != 0 && state == OPEN && flaw != Flaw::Untold {
            let again = share(&b.shared, &b.state);
            state = if flaw == Flaw::NoSecondLook { state } else { again };
        }
        if state == OPEN {
            assert_eq!(b.object.get(), 1, "used after it was freed");
        }
        if leave(word, &b.state, light) == CLOSED {
            try_to_free(b, owned && thread == 0);
        }
    }

    fn block() -> Arc<Block> {
        Arc::new(Block {
            state: AtomicU64::new(OPEN),
            words: [AtomicUsize::new(0), AtomicUsize::new(0)],
            present: Mutex::new(true),
            shared: AtomicBool::new(false),
            object: Cell::new(1),
            freed: AtomicUsize::new(0),
        })
    }

    fn close_and_free(b: &Block, owner: bool) {
        if close(&b.state, OPEN, CLOSED) {
            try_to_free(b, owner);
        }
    }

    fn bounded(f: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(f);
    }

    fn end(b: &Block, threads: Vec<thread::JoinHandle<()>>) {
        for t in threads {
            t.join().unwrap_or_else(|_| panic!("a thread failed"));
        }
        assert_eq!(b.freed.load(Ordering::Relaxed), 1);
    }

    fn model(users: usize, closers: usize) {
        bounded(move || {
            let b = block();
            let users = (0..users).map(|t| {
                let b = b.clone();
                thread::spawn(move || call(&b, t, false, Flaw::None))
            });
            let mut all: Vec<_> = users.collect();
            for _ in 0..closers {
                let b = b.clone();
                all.push(thread::spawn(move || close_and_free(&b, false)));
            }
            end(&b, all);
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

    /// The owner calls and closes, another thread calls; with `stranger` a third one closes as well.
    fn owned(stranger: bool, flaw: Flaw) {
        bounded(move || {
            let b = block();
            let (owner, other, third) = (b.clone(), b.clone(), b.clone());
            let mut all = vec![
                thread::spawn(move || {
                    call(&owner, 0, true, flaw);
                    close_and_free(&owner, true);
                }),
                thread::spawn(move || call(&other, 1, true, flaw)),
            ];
            if stranger {
                all.push(thread::spawn(move || close_and_free(&third, false)));
            }
            end(&b, all);
        });
    }

    #[test]
    fn an_owner_and_another_user() {
        owned(false, Flaw::None);
    }

    #[test]
    fn an_owner_another_user_and_another_closer() {
        owned(true, Flaw::None);
    }

    #[test]
    #[should_panic(expected = "Concurrent read and write accesses")]
    fn an_owner_who_is_not_told_frees_under_the_other_user() {
        owned(false, Flaw::Untold);
    }

    #[test]
    #[should_panic(expected = "Concurrent read and write accesses")]
    fn without_a_second_look_the_other_user_is_too_late() {
        owned(false, Flaw::NoSecondLook);
    }
}
