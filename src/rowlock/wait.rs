//! Waiting for a row: spin about a microsecond, then sleep on the row's entry until the deadline. Waking, handing over, closing.
//!
//! *Who gets a free row?* Whoever comes first, running or woken: with more threads than cores, giving it to a sleeper each time would cost
//! a switch per commit. At unlock one sleeper is woken, and no other until that one has come (WOKEN): so threads that run go on at full
//! speed while the woken one is on its way. About every half millisecond the row is handed to the longest sleeper instead, past all others,
//! which bounds how long anyone is overtaken.
//!
//! *No wake-up is lost* (L5). A waiter sets PARKED by a compare-and-swap that requires HELD, and sleeps only if, under the queue's lock, the
//! row is still HELD and PARKED; unlock with PARKED goes through the same queue lock. A woken waiter either claims the row, and wakes the
//! next at its own unlock, or finds it held and clears WOKEN by a compare-and-swap that requires HELD: then that holder's unlock wakes.
//!
//! *Deadline and hand-over at one time*: the queue's lock decides. Who was taken from the queue has the row; who was not leaves it.

#![forbid(unsafe_code)]

use super::bucket::{Held, LANES, Lane, Place};
use super::flaw::Flaw;
use super::locks::LockError;
use super::parking::{Found, Parked, SPIN_ROUNDS, Wake};
use super::table::{Attempt, RowLockTable};
use crate::clock::Timeout;
use crate::sync::{AtomicU64, Ordering, spin_loop};

impl RowLockTable {
    /// Takes the row; waits for it within the timeout. Gives its last tick too.
    #[inline]
    pub(super) fn acquire(&self, hash: u64, timeout: &mut Timeout) -> Result<(Held, u64), LockError> {
        match self.attempt(hash) {
            Attempt::Got(held, tick) => Ok((held, tick)),
            _ if timeout.is_no_wait() => Err(LockError::Timeout),
            _ => self.wait_for_row(hash, timeout),
        }
    }

    #[cold]
    fn wait_for_row(&self, hash: u64, timeout: &mut Timeout) -> Result<(Held, u64), LockError> {
        // Relaxed, all counts: statistics.
        self.counts.waits.fetch_add(1, Ordering::Relaxed);
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        let result = self.wait_counted(hash, timeout);
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        if result == Err(LockError::Timeout) {
            self.counts.timeouts.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    fn wait_counted(&self, hash: u64, timeout: &mut Timeout) -> Result<(Held, u64), LockError> {
        // This thread is the one that WOKEN stands for.
        let mut woken = false;
        let mut spun = 0;
        loop {
            let held = match self.attempt(hash) {
                Attempt::Got(held, tick) => {
                    if woken {
                        let place = self.place(held);
                        // Relaxed: a note for this row's next unlock, which is this thread's own. The entry is the one that it was woken
                        // on (L4).
                        place.word.fetch_and(!place.lane.woken(), Ordering::Relaxed);
                    }
                    return Ok((held, tick));
                }
                Attempt::Busy(held) => held,
                // `attempt` brings its own node.
                Attempt::NeedsNode => continue,
            };
            if spun < SPIN_ROUNDS {
                for _ in 0..1 << spun {
                    spin_loop();
                }
                spun += 1;
                continue;
            }
            let place = self.place(held);
            if !self.announce(&place, hash, woken) {
                continue;
            }
            woken = false;
            match self.sleep(&place, hash, timeout) {
                Parked::HandedOver => {
                    // Acquire: pairs with the AcqRel of the unlocker's hand-over.
                    place.word.load(Ordering::Acquire);
                    return Ok((held, place.entry.tick.load(Ordering::Relaxed)));
                }
                Parked::Woken => {
                    woken = true;
                    spun = 0;
                }
                // Acquire: pairs with the Release in `close`.
                Parked::Invalid if self.closed.load(Ordering::Acquire) => return Err(LockError::Closed),
                Parked::Invalid => {}
                Parked::Closed => return Err(LockError::Closed),
                Parked::TimedOut => return Err(LockError::Timeout),
            }
        }
    }

    /// Sets PARKED, and clears WOKEN if it stands for this thread, provided that the row is held there. From now on its unlock wakes.
    fn announce(&self, place: &Place<'_>, hash: u64, woken: bool) -> bool {
        let lane = place.lane;
        // Acquire: so that the hash is at least as new as the word; the exchange, requiring the same version, proves that it is not newer.
        let word = place.word.load(Ordering::Acquire);
        if word & lane.held() == 0 || place.entry.hash.load(Ordering::Relaxed) != hash {
            return false;
        }
        let clear = if woken && !self.has(Flaw::KeepWoken) { lane.woken() } else { 0 };
        let new = (word | lane.parked()) & !clear;
        // AcqRel: the Release half keeps the comparison of the hash before it; the Acquire half is what `close` relies on.
        place.word.compare_exchange(word, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn sleep(&self, place: &Place<'_>, hash: u64, timeout: &mut Timeout) -> Parked {
        let lane = place.lane;
        self.counts.sleeps.fetch_add(1, Ordering::Relaxed);
        let validate = || {
            if self.has(Flaw::SleepBlindly) {
                return true;
            }
            let both = lane.held() | lane.parked();
            // Under the queue's lock, where PARKED is not cleared, and HELD not while PARKED: so if the word has both, the entry stays with
            // its row, and the hash tells whose it is. Acquire: the hash is at least as new as the word; and `closed`, see `close`.
            place.word.load(Ordering::Acquire) & both == both
                && place.entry.hash.load(Ordering::Relaxed) == hash
                && !self.closed.load(Ordering::Acquire)
        };
        let timed_out = |last: bool| {
            if last {
                // Relaxed: guarded by the queue's lock. Spares the holder a look into an empty queue.
                place.word.fetch_and(!lane.parked(), Ordering::Relaxed);
            }
        };
        let parked = self.lot.park(place.key(), timeout.until(), validate, timed_out);
        if self.has(Flaw::ForgetHandOver) && parked == Parked::HandedOver && timeout.micros() != u64::MAX {
            return Parked::TimedOut;
        }
        parked
    }

    /// Unlock of a row that somebody may sleep on.
    #[cold]
    pub(super) fn unlock_and_wake(&self, place: &Place<'_>) {
        let lane = place.lane;
        self.lot.unpark_one(place.key(), |found: Found| {
            // Under the queue's lock. HELD is this thread's; WOKEN is clear, since only the holder's unlock sets it. With a sleeper in the
            // queue PARKED is set, so the additions below are exact, whatever happens to the other bits of the word.
            let parked = if found.more { 0 } else { lane.parked() };
            if !found.someone {
                // They timed out. Release: the unlock.
                place.word.fetch_and(!(lane.held() | lane.parked()), Ordering::Release);
                return Wake::Woken;
            }
            if found.fair {
                self.counts.handed_over.fetch_add(1, Ordering::Relaxed);
                // AcqRel: the new holder's load pairs with it.
                place.word.fetch_sub(parked, Ordering::AcqRel);
                return Wake::HandedOver;
            }
            // AcqRel: the unlock.
            place.word.fetch_add(lane.woken().wrapping_sub(lane.held()).wrapping_sub(parked), Ordering::AcqRel);
            Wake::Woken
        });
    }

    /// Refuses new locks and sends all who wait away with [`LockError::Closed`]. What is held stays held, and is released as ever.
    pub fn close(&self) {
        // Release: pairs with the Acquire in `validate` and `wait_counted`.
        self.closed.store(true, Ordering::Release);
        let wake = |word: &AtomicU64, lane: Lane, key: usize| {
            // An RMW, where a load would do to look: if a waiter's announcement comes later in the word's order, it acquires this and its
            // `validate` sees `closed`; if earlier, PARKED is seen here. AcqRel for that.
            let w = if self.has(Flaw::CloseByLoad) { word.load(Ordering::Acquire) } else { word.fetch_add(0, Ordering::AcqRel) };
            if w & lane.parked() != 0 {
                self.lot.unpark_all(key, Wake::Closed);
            }
        };
        for bucket in &self.buckets {
            for (n, entry) in (0..LANES).zip(&bucket.entries) {
                wake(&bucket.word, Lane::new(n), std::ptr::from_ref(entry).addr());
            }
        }
        for node in self.nodes.all() {
            wake(&node.word, Lane::new(0), std::ptr::from_ref(&node.entry).addr());
        }
    }

    /// Undoes [`RowLockTable::close`], for a close that timed out. Who was sent away stays away.
    pub fn reopen(&self) {
        // Release: nothing depends on it; as in `close`.
        self.closed.store(false, Ordering::Release);
    }

    /// Between close and reopen.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        // Relaxed: a lock that races with close may come before it.
        self.closed.load(Ordering::Relaxed)
    }
}
