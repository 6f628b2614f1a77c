//! The table: where a row's lock is, how it is claimed and released. Nothing here waits for a row; `wait` does.
//!
//! *Claim.* The row is inline and free: one compare-and-swap of the bucket word. The row is not inline: the bucket is latched by one
//! compare-and-swap, an inline entry that is free gets the row (or an overflow node does), and one addition unlatches and claims. *Release*:
//! one compare-and-swap, which never waits for a latch. A latch is owned for a few instructions, without a call.
//!
//! Orderings. All changes of a bucket word are read-modify-writes, so every release in it heads a release sequence that runs on through all
//! later ones, and any claim acquires all that happened before in the bucket: ticks, floor, `fsync_pending`, hashes. They can be Relaxed
//! themselves. Claims are AcqRel: the Release half keeps the comparison of the hash before the claim.

#![forbid(unsafe_code)]

use super::bucket::{Bucket, Held, LANES, LATCH, Lane, Place, VERSION_ONE};
use super::flaw::Flaw;
use super::overflow::Nodes;
use super::parking::{self, Lot};
use crate::ids::Tick;
use crate::sync::{AtomicBool, AtomicU64, Ordering, spin_loop, thread};
use crossbeam_utils::CachePadded;

/// The lock table of one region.
pub struct RowLockTable {
    pub(super) buckets: Box<[Bucket]>,
    // The bucket is the hash shifted right by this; 64 where there is one bucket.
    shift: u32,
    // Written by close and reopen only.
    pub(super) closed: AtomicBool,
    pub(super) nodes: Nodes,
    pub(super) lot: Lot,
    pub(super) counts: CachePadded<Counts>,
    #[cfg(loom)]
    pub(super) flaw: Flaw,
}

/// Written only by who has to wait.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) waits: AtomicU64,
    pub(super) sleeps: AtomicU64,
    pub(super) handed_over: AtomicU64,
    pub(super) timeouts: AtomicU64,
    pub(super) waiting: AtomicU64,
}

/// Counters since the table was made, and what is going on now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowLockStats {
    /// Locks that had to be waited for.
    pub waits: u64,
    /// Times that a waiter went to sleep.
    pub sleeps: u64,
    /// Unlocks that gave the row to a sleeper, past all who were running.
    pub handed_over: u64,
    /// Waits that ended without the row.
    pub timeouts: u64,
    /// Threads that wait now.
    pub waiting_now: u64,
    /// Rows that are held now. Counted by looking at every bucket: for diagnosis, not for every second.
    pub held_now: u64,
}

pub(super) enum Attempt {
    /// Claimed; the row's last tick.
    Got(Held, u64),
    /// Somebody holds it, at this place.
    Busy(Held),
    /// Both inline entries are in use; a node is needed to go on.
    NeedsNode,
}

impl RowLockTable {
    /// A table of `2^buckets_log2` buckets of 64 bytes. It should fit the core's cache rather than the number of rows: 13 or 14 for a region.
    pub fn new(buckets_log2: u32) -> Self {
        assert!(buckets_log2 <= 24, "a row lock table of more than 1 GB");
        Self {
            buckets: (0..1u64 << buckets_log2).map(|_| Bucket::new()).collect(),
            shift: 64 - buckets_log2,
            closed: AtomicBool::new(false),
            nodes: Nodes::new(),
            lot: Lot::new(),
            counts: CachePadded::default(),
            #[cfg(loom)]
            flaw: Flaw::None,
        }
    }

    /// Brings a row's bucket closer, for a batch that will lock it soon. A plain load: the processor runs ahead of it.
    #[inline]
    pub fn prefetch(&self, hash: crate::ids::RowHash) {
        // Relaxed: the value is not used.
        std::hint::black_box(self.buckets[if self.shift == 64 { 0 } else { hash.0 >> self.shift } as usize].floor.load(Ordering::Relaxed));
    }

    /// No row commits at or before this tick from now on. For recovery: nobody may hold a lock meanwhile.
    pub fn raise_floor(&self, tick: Tick) {
        for bucket in &self.buckets {
            self.latch(bucket);
            // Relaxed, here and below: under the latch.
            bucket.floor.fetch_max(tick.0, Ordering::Relaxed);
            for entry in &bucket.entries {
                entry.tick.fetch_max(tick.0, Ordering::Relaxed);
            }
            let mut next = bucket.overflow.load(Ordering::Relaxed);
            while next != 0 {
                let node = self.nodes.get(next - 1);
                node.entry.tick.fetch_max(tick.0, Ordering::Relaxed);
                next = node.next.load(Ordering::Relaxed);
            }
            unlatch(bucket);
        }
    }

    /// How often a row had to be waited for.
    pub fn waits(&self) -> u64 {
        self.counts.waits.load(Ordering::Relaxed)
    }

    /// How many wait for a row now.
    pub fn waiting(&self) -> u64 {
        self.counts.waiting.load(Ordering::Relaxed)
    }

    /// Counters, and a count of what is held now.
    pub fn stats(&self) -> RowLockStats {
        let count = |word: &AtomicU64, lanes: u32| {
            // Relaxed: a picture, not a decision.
            let w = word.load(Ordering::Relaxed);
            (0..lanes).filter(|n| w & Lane::new(*n).held() != 0).count() as u64
        };
        let inline: u64 = self.buckets.iter().map(|b| count(&b.word, LANES)).sum();
        let overflow: u64 = self.nodes.all().map(|n| count(&n.word, 1)).sum();
        RowLockStats {
            waits: self.waits(),
            sleeps: self.counts.sleeps.load(Ordering::Relaxed),
            handed_over: self.counts.handed_over.load(Ordering::Relaxed),
            timeouts: self.counts.timeouts.load(Ordering::Relaxed),
            waiting_now: self.waiting(),
            held_now: inline + overflow,
        }
    }

    #[inline]
    pub(super) fn place(&self, held: Held) -> Place<'_> {
        let bucket = &self.buckets[held.bucket as usize];
        if held.at < LANES {
            Place { bucket, word: &bucket.word, lane: Lane::new(held.at), entry: &bucket.entries[held.at as usize] }
        } else {
            let node = self.nodes.get(held.at - LANES);
            Place { bucket, word: &node.word, lane: Lane::new(0), entry: &node.entry }
        }
    }

    /// The bucket's `fsync_pending`, for who has just claimed a row of it.
    #[inline]
    pub(super) fn pending(&self, held: Held) -> u64 {
        // Relaxed: the claim acquired what earlier holders left.
        self.buckets[held.bucket as usize].fsync_pending.load(Ordering::Relaxed)
    }

    /// Claims the row if it is free.
    #[inline]
    pub(super) fn attempt(&self, hash: u64) -> Attempt {
        match self.attempt_with(hash, None) {
            Attempt::NeedsNode => self.attempt_overflow(hash),
            done => done,
        }
    }

    /// As `attempt`, with a node in hand: none is allocated under a latch.
    #[cold]
    fn attempt_overflow(&self, hash: u64) -> Attempt {
        let spare = self.nodes.take();
        let attempt = self.attempt_with(hash, Some(spare));
        if !matches!(attempt, Attempt::Got(held, _) if held.at == LANES + spare) {
            self.nodes.give(spare);
        }
        attempt
    }

    #[inline]
    fn attempt_with(&self, hash: u64, spare: Option<u32>) -> Attempt {
        let index = if self.shift == 64 { 0 } else { hash >> self.shift };
        let bucket = &self.buckets[index as usize];
        // Acquire: pairs with the AcqRel of whoever gave the entries their present rows, so that the hashes read below are at least as new.
        let mut word = bucket.word.load(Ordering::Acquire);
        'again: loop {
            if word & LATCH != 0 {
                word = wait_for_latch(bucket);
                continue;
            }
            for (n, entry) in (0..LANES).zip(&bucket.entries) {
                // Relaxed: valid if the word, with its version, is the same at the claim (module header).
                if entry.hash.load(Ordering::Relaxed) != hash {
                    continue;
                }
                let lane = Lane::new(n);
                let held = Held { bucket: index as u32, at: n };
                if word & lane.held() != 0 {
                    // The hash may be newer than the word: only an unchanged word says that this row is held.
                    let now = bucket.word.load(Ordering::Acquire);
                    if now == word {
                        return Attempt::Busy(held);
                    }
                    word = now;
                    continue 'again;
                }
                match bucket.word.compare_exchange(word, word | lane.held(), Ordering::AcqRel, Ordering::Acquire) {
                    // Relaxed: the previous holder's store came before its release of the word.
                    Ok(_) => return Attempt::Got(held, entry.tick.load(Ordering::Relaxed)),
                    Err(now) => word = now,
                }
                continue 'again;
            }
            // AcqRel: everything done under earlier latches comes before, everything under this one after.
            match bucket.word.compare_exchange(word, word | LATCH, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return self.attempt_latched(index as u32, bucket, hash, spare),
                Err(now) => word = now,
            }
        }
    }

    /// Under the latch: the row is not inline.
    #[inline]
    fn attempt_latched(&self, index: u32, bucket: &Bucket, hash: u64, spare: Option<u32>) -> Attempt {
        // Relaxed, here and below: the list, the floor and free entries are guarded by the latch.
        let first = bucket.overflow.load(Ordering::Relaxed);
        if first != 0
            && let Some(attempt) = self.attempt_listed(index, hash, first)
        {
            unlatch(bucket);
            return attempt;
        }
        let floor = bucket.floor.load(Ordering::Relaxed);
        // Acquire: pairs with the release by the last holder of an entry that was freed after the latch was taken.
        let word = bucket.word.load(Ordering::Acquire);
        let tick_of = |n: u32| bucket.entries[n as usize].tick.load(Ordering::Relaxed);
        let victim = match (Lane::new(0).is_free(word), Lane::new(1).is_free(word)) {
            // The row that committed last stays, since it is the likelier to come again; of equals, one in turn.
            (true, true) if tick_of(0) == tick_of(1) => Some(u32::from(word & VERSION_ONE != 0)),
            (true, true) => Some(u32::from(tick_of(1) < tick_of(0))),
            (true, false) => Some(0),
            (false, true) => Some(1),
            (false, false) => None,
        };
        if let Some(n) = victim {
            let entry = &bucket.entries[n as usize];
            let left = entry.tick.load(Ordering::Relaxed);
            if left > floor && !self.has(Flaw::ForgetTick) {
                bucket.floor.store(left, Ordering::Relaxed);
            }
            entry.hash.store(hash, Ordering::Relaxed);
            // Whatever the row committed before it left was folded into the floor by then.
            entry.tick.store(floor, Ordering::Relaxed);
            let version = if self.has(Flaw::NoVersion) { 0 } else { VERSION_ONE };
            // Unlatches and claims: LATCH is set and the lane is empty, and neither can change but here. AcqRel: who finds the row inline
            // sees its hash and tick.
            bucket.word.fetch_add((version + Lane::new(n).held()).wrapping_sub(LATCH), Ordering::AcqRel);
            return Attempt::Got(Held { bucket: index, at: n }, floor);
        }
        let Some(spare) = spare else {
            unlatch(bucket);
            return Attempt::NeedsNode;
        };
        let node = self.nodes.get(spare);
        node.entry.hash.store(hash, Ordering::Relaxed);
        node.entry.tick.store(floor, Ordering::Relaxed);
        node.next.store(first, Ordering::Relaxed);
        // A new version, so that a waiter of the node's former row, late with its compare-and-swap, fails. Release: such a one, reading this
        // word, also reads the new hash.
        node.word.fetch_add(VERSION_ONE + Lane::new(0).held(), Ordering::AcqRel);
        bucket.overflow.store(spare + 1, Ordering::Relaxed);
        unlatch(bucket);
        Attempt::Got(Held { bucket: index, at: LANES + spare }, floor)
    }

    /// Under the latch: looks for the row among the bucket's overflow nodes.
    #[cold]
    fn attempt_listed(&self, index: u32, hash: u64, first: u32) -> Option<Attempt> {
        let mut next = first;
        while next != 0 {
            let node = self.nodes.get(next - 1);
            if node.entry.hash.load(Ordering::Relaxed) == hash {
                let held = Held { bucket: index, at: LANES + next - 1 };
                let lane = Lane::new(0);
                // Nodes are claimed under the latch only, so "free" stays true; it is set by an RMW since waiters change the other bits.
                // AcqRel: pairs with the last holder's release in this word.
                let was = node.word.fetch_or(lane.held(), Ordering::AcqRel);
                if was & lane.held() != 0 {
                    return Some(Attempt::Busy(held));
                }
                return Some(Attempt::Got(held, node.entry.tick.load(Ordering::Relaxed)));
            }
            next = node.next.load(Ordering::Relaxed);
        }
        None
    }

    /// Leaves tick and `fsync_pending`, and releases the row.
    #[inline]
    pub(super) fn release(&self, held: Held, tick: u64, fsync_pending: u64) {
        let place = self.place(held);
        // Relaxed: the entry is the holder's; the release of the word below publishes it.
        if tick > place.entry.tick.load(Ordering::Relaxed) {
            place.entry.tick.store(tick, Ordering::Relaxed);
        }
        // A load that is too old is too small, which only costs the RMW. Relaxed: as above.
        if fsync_pending > place.bucket.fsync_pending.load(Ordering::Relaxed) {
            if self.has(Flaw::LowerPending) {
                place.bucket.fsync_pending.store(fsync_pending, Ordering::Relaxed);
            } else {
                place.bucket.fsync_pending.fetch_max(fsync_pending, Ordering::Relaxed);
            }
        }
        self.unlock(&place);
        if held.at >= LANES {
            self.sweep(place.bucket);
        }
    }

    #[inline]
    fn unlock(&self, place: &Place<'_>) {
        let lane = place.lane;
        // Relaxed: only a guess for the exchange.
        let mut word = place.word.load(Ordering::Relaxed);
        loop {
            if word & (lane.parked() | lane.woken()) == lane.parked() {
                return self.unlock_and_wake(place);
            }
            let order = if self.has(Flaw::RelaxedUnlock) { Ordering::Relaxed } else { Ordering::Release };
            // Release: pairs with the Acquire of the next claim.
            match place.word.compare_exchange_weak(word, word & !lane.held(), order, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Takes overflow nodes that are no longer in use from the bucket's list. Every holder of one comes here after its unlock, so none stays.
    #[cold]
    fn sweep(&self, bucket: &Bucket) {
        let mut swept = 0;
        self.latch(bucket);
        let mut before: Option<&crate::sync::AtomicU32> = None;
        // Relaxed, here and below: under the latch.
        let mut next = bucket.overflow.load(Ordering::Relaxed);
        while next != 0 {
            let node = self.nodes.get(next - 1);
            let after = node.next.load(Ordering::Relaxed);
            // Acquire: pairs with the last holder's release, so that its tick is seen. Free stays free: claims need the latch.
            if Lane::new(0).is_free(node.word.load(Ordering::Acquire)) {
                if !self.has(Flaw::ForgetTick) {
                    bucket.floor.fetch_max(node.entry.tick.load(Ordering::Relaxed), Ordering::Relaxed);
                }
                before.unwrap_or(&bucket.overflow).store(after, Ordering::Relaxed);
                node.next.store(swept, Ordering::Relaxed);
                swept = next;
            } else {
                before = Some(&node.next);
            }
            next = after;
        }
        unlatch(bucket);
        if swept != 0 {
            self.nodes.give_list(swept);
        }
    }

    fn latch(&self, bucket: &Bucket) {
        let mut word = bucket.word.load(Ordering::Relaxed);
        loop {
            if word & LATCH != 0 {
                word = wait_for_latch(bucket);
                continue;
            }
            // AcqRel: as in `attempt_with`.
            match bucket.word.compare_exchange_weak(word, word | LATCH, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Is this rule switched off? Only a model can.
    #[inline]
    pub(super) fn has(&self, flaw: Flaw) -> bool {
        #[cfg(loom)]
        return self.flaw == flaw;
        #[cfg(not(loom))]
        {
            let _ = flaw;
            false
        }
    }
}

fn unlatch(bucket: &Bucket) {
    // An RMW since unlocks change the word beside the latch. AcqRel: what was done under the latch comes before the next claim or latch.
    bucket.word.fetch_sub(LATCH, Ordering::AcqRel);
}

/// Waits until nobody owns the latch. That takes nanoseconds, unless its owner has lost its core.
#[cold]
fn wait_for_latch(bucket: &Bucket) -> u64 {
    let mut rounds = 0u32;
    loop {
        rounds += 1;
        match rounds {
            0..=32 => spin_loop(),
            33..=36 => thread::yield_now(),
            _ => parking::nap(),
        }
        // Acquire: as the first load in `attempt_with`.
        let word = bucket.word.load(Ordering::Acquire);
        if word & LATCH == 0 {
            return word;
        }
    }
}
