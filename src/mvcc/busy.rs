//! Since when slots are busy: a look now and then finds what was there at the look before.
//!
//! A claim costs nothing for it: no clock is read. So an age is a lower bound, short by at most one interval between two looks, and what ends between
//! two looks is never seen. Only the first block of slots is looked at: more than 256 calls at once are not told apart by anybody.
//!
//! Threads: one looks (the log's background thread); anybody may ask.

use super::slots::{COMMITTING, IDLE, SharedSlots, phase};
use std::sync::atomic::{AtomicU64, Ordering};

/// What was seen of one slot.
#[derive(Default)]
struct Seen {
    /// Its word, 0 = idle.
    word: AtomicU64,
    /// When that word was first seen, in nanoseconds of the monotonic clock.
    since: AtomicU64,
}

/// See the module.
pub struct Busy {
    slots: SharedSlots,
    seen: Box<[Seen]>,
}

/// What has been busy longest, in nanoseconds; 0: what the last look met has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyAges {
    /// A commit between its append and its mark.
    pub commit: u64,
    /// A read, or a write before its append.
    pub call: u64,
}

impl Busy {
    /// Nothing seen yet.
    pub(super) fn new(slots: SharedSlots) -> Self {
        let seen = slots.iter().map(|_| Seen::default()).collect();
        Self { slots, seen }
    }
    /// Looks at all slots. By one thread.
    pub fn look(&self, now_ns: u64) {
        for (slot, seen) in self.slots.iter().zip(&self.seen) {
            let word = slot.load_relaxed();
            let word = if phase(word) == IDLE { 0 } else { word };
            // Relaxed: written by this thread alone.
            if seen.word.load(Ordering::Relaxed) != word {
                seen.since.store(now_ns, Ordering::Relaxed);
                // Release: who sees the word sees since when.
                seen.word.store(word, Ordering::Release);
            }
        }
    }
    /// What is busy since the longest.
    pub fn ages(&self, now_ns: u64) -> BusyAges {
        let mut ages = BusyAges::default();
        for (slot, seen) in self.slots.iter().zip(&self.seen) {
            // Acquire: pairs with the Release in `look`.
            let word = seen.word.load(Ordering::Acquire);
            if word == 0 || slot.load_relaxed() != word {
                continue;
            }
            // Relaxed: at worst another claim's, which is younger.
            let age = now_ns.saturating_sub(seen.since.load(Ordering::Relaxed));
            let oldest = if phase(word) == COMMITTING { &mut ages.commit } else { &mut ages.call };
            *oldest = age.max(*oldest);
        }
        ages
    }
}
