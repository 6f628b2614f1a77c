//! Commit slots: one padded word per running commit or read.
//!
//! Must not: be held over a wait for the tick, for memory or for log space; and a thread never waits for grace under its own slot.
//!
//! Format of the word: count << 2 | phase. The count goes up at each claim, so that a slot which others use again is seen as free in between.
//!
//! | phase | who | since | until |
//! |---|---|---|---|
//! | 0 idle | nobody | | |
//! | 1 committing | a writer | its number is given, under the append lock | its rows are marked |
//! | 2 view held | a reader; a writer that has no number yet | the claim | freed, or phase 1 |
//!
//! Threads: a claim is one compare-exchange, on a slot that is usually the thread's own; everything else on a slot is its owner's stores.
//! Blocks are added when all slots are busy, and never freed before the table: a reference to a slot is good as long as the table.

use crate::health::Health;
use crate::sync::{Arc, AtomicPtr, AtomicU64, AtomicUsize, Ordering, thread};
use crossbeam_utils::CachePadded;

pub(super) const IDLE: u64 = 0;
pub(super) const COMMITTING: u64 = 1;
pub(super) const VIEW_HELD: u64 = 2;
const PHASE: u64 = 3;

/// The slots of one region: who is in flight.
pub struct CommitSlots {
    first: Block,
    /// Slots in all blocks; only says where a claim starts.
    total: AtomicUsize,
    /// Size of the blocks added later.
    more: usize,
    pub(super) health: Arc<Health>,
}

/// The slots of a block, shared with who looks at them from outside.
pub(super) type SharedSlots = std::sync::Arc<[CachePadded<Slot>]>;

struct Block {
    slots: SharedSlots,
    /// Index of its first slot.
    base: usize,
    next: AtomicPtr<Block>,
}

/// One slot: its word, and the flag word of the commit over several rows that owns it.
#[derive(Default)]
pub(super) struct Slot {
    word: AtomicU64,
    flag: AtomicU64,
}

impl CommitSlots {
    /// 256 slots; more are added when all are busy. A commit that dies in a panic poisons `health`.
    pub fn new(health: Arc<Health>) -> Self {
        // loom explores every slot that is looked at.
        if cfg!(loom) { Self::with_sizes(2, 1, health) } else { Self::with_sizes(256, 64, health) }
    }

    /// With blocks small enough that a test fills them.
    pub(crate) fn with_sizes(first: usize, more: usize, health: Arc<Health>) -> Self {
        Self { first: Block::new(first, 0), total: AtomicUsize::new(first), more, health }
    }

    /// Take a slot, in phase 2. `thread` is the caller's small number: threads with different numbers start at different slots.
    #[inline]
    pub fn claim(&self, thread: usize) -> SlotGuard<'_> {
        // Relaxed: only where to start.
        let total = self.total.load(Ordering::Relaxed);
        let first = self.first.slots.len();
        if total == first && first.is_power_of_two() {
            // The common case: one block, nobody else in the thread's slot.
            let i = thread & (first - 1);
            if let Some(guard) = self.first.slots.get(i).and_then(|slot| self.try_claim(slot, i)) {
                return guard;
            }
        }
        self.claim_any(thread % total, total)
    }

    #[inline]
    fn try_claim<'s>(&'s self, slot: &'s Slot, index: usize) -> Option<SlotGuard<'s>> {
        // Relaxed: the compare-exchange decides.
        let word = slot.word.load(Ordering::Relaxed);
        if word & PHASE != IDLE {
            return None;
        }
        let count = (word & !PHASE).wrapping_add(PHASE + 1);
        // SeqCst: claim before the load of a published pointer, against swap before the scan of the slots. In the one order of these four
        // either the load sees the swap or the scan sees the claim. (It also acquires what the slot's last owner released.)
        slot.word.compare_exchange(word, count | VIEW_HELD, Ordering::SeqCst, Ordering::Relaxed).ok()?;
        // loom treats SeqCst accesses as AcqRel; a fence is what it knows.
        #[cfg(loom)]
        super::full_fence();
        Some(SlotGuard { table: self, slot, index, count })
    }

    /// Probe from `start` on; add a block when all are busy.
    #[cold]
    fn claim_any(&self, start: usize, total: usize) -> SlotGuard<'_> {
        let from = |i: usize| self.slots().skip(i);
        for (i, slot) in from(start).chain(self.slots().take(start)) {
            if let Some(guard) = self.try_claim(slot, i) {
                return guard;
            }
        }
        let mut seen = total;
        loop {
            self.add_block();
            // Only what was not looked at yet: another thread may have taken all of the new block already.
            let mut end = seen;
            for (i, slot) in from(seen) {
                end = i + 1;
                if let Some(guard) = self.try_claim(slot, i) {
                    return guard;
                }
            }
            seen = end;
        }
    }

    /// Append a block to the list, or let another thread's be the one.
    fn add_block(&self) {
        let mut last = &self.first;
        while let Some(next) = last.next() {
            last = next;
        }
        let base = last.base + last.slots.len();
        let block = Box::into_raw(Box::new(Block::new(self.more, base)));
        // SeqCst: a scan that misses the block came before this in the one order, so the claims in it see the scan's swap (see `try_claim`).
        if last.next.compare_exchange(std::ptr::null_mut(), block, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            // Relaxed: only where claims start. `max`: adders of successive blocks may come here in any order.
            self.total.fetch_max(base + self.more, Ordering::Relaxed);
        } else {
            // SAFETY: made by `into_raw` above and published nowhere.
            drop(unsafe { Box::from_raw(block) });
        }
    }

    /// Every slot with its index.
    pub(super) fn slots(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let blocks = std::iter::successors(Some(&self.first), |b| b.next());
        blocks.flat_map(|b| b.slots.iter().enumerate().map(|(i, s)| (b.base + i, &**s)))
    }

    /// The flag word of slot `index`: number << 1 | level of the last commit over several rows that announced itself there. 0 for an index
    /// that never was one.
    #[inline]
    pub fn flag_of(&self, index: usize) -> u64 {
        let slot = match self.first.slots.get(index) {
            Some(slot) => Some(&**slot),
            None => self.slots().nth(index).map(|s| s.1),
        };
        // Acquire: pairs with the owner's Release store; who sees the flag sees the commit's versions on all its rows.
        slot.map_or(0, |s| s.flag.load(Ordering::Acquire))
    }

    /// What tells tables apart; stays the same when the table moves.
    #[inline]
    pub(super) fn identity(&self) -> *const () {
        self.first.slots.as_ptr().cast()
    }

    /// For a thread that looks which slots stay busy.
    pub fn watched(&self) -> super::Busy {
        super::Busy::new(std::sync::Arc::clone(&self.first.slots))
    }

    /// How many slots there are now.
    pub fn len(&self) -> usize {
        self.slots().count()
    }
    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }
    /// How many slots are busy at the moment. For stats.
    pub fn busy(&self) -> usize {
        self.slots().filter(|(_, s)| s.load_relaxed() & PHASE != IDLE).count()
    }
}

impl Drop for CommitSlots {
    fn drop(&mut self) {
        // Relaxed here and below: `&mut self`, nobody else is left.
        let mut next = self.first.next.load(Ordering::Relaxed);
        while !next.is_null() {
            // SAFETY: made by `into_raw` in `add_block`, in the list once, and taken out of it here.
            let block = unsafe { Box::from_raw(next) };
            next = block.next.load(Ordering::Relaxed);
        }
    }
}

impl Block {
    fn new(slots: usize, base: usize) -> Self {
        let slots = (0..slots.max(1)).map(|_| CachePadded::new(Slot::default())).collect();
        Self { slots, base, next: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn next(&self) -> Option<&Block> {
        // SeqCst: see `add_block`; acquires the block's contents too.
        let next = self.next.load(Ordering::SeqCst);
        // SAFETY: null, or a block made by `add_block`, which lives as long as the table that `self` is part of.
        unsafe { next.as_ref() }
    }
}

impl Slot {
    /// For the scan of a grace period: pairs with the claim's compare-exchange.
    pub(super) fn load_seq_cst(&self) -> u64 {
        self.word.load(Ordering::SeqCst)
    }
    /// Pairs with the owner's Release stores: what it did in the phase it left has happened.
    pub(super) fn load_acquire(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }
    pub(super) fn load_relaxed(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }
}

/// The phase of a slot's word.
pub(super) const fn phase(word: u64) -> u64 {
    word & PHASE
}

/// True if both words are of one claim.
pub(super) const fn same_claim(a: u64, b: u64) -> bool {
    a | PHASE == b | PHASE
}

/// A claimed slot. While it lives, what a [`super::Published`] pointed to when it was loaded under this guard stays; dropping it frees the slot.
#[must_use = "a dropped guard covers nothing"]
pub struct SlotGuard<'t> {
    table: &'t CommitSlots,
    slot: &'t Slot,
    index: usize,
    /// The slot's word without its phase.
    count: u64,
}

impl<'t> SlotGuard<'t> {
    /// Number of the slot; what a row header's `pending` names.
    pub fn index(&self) -> usize {
        self.index
    }
    /// The flag word, for a commit over several rows: number << 1 | level, stored Release, never cleared (the number tells whose it is).
    pub fn flag(&self) -> &'t AtomicU64 {
        &self.slot.flag
    }
    /// Phase 1: call under the append lock, with the number as good as given. Until the drop, a snapshot that opens waits for this commit.
    #[inline]
    pub fn set_committing(&self) {
        // Relaxed would do: that a snapshot sees phase 1 of every commit up to its number follows from the append lock, under which this is stored
        // and under which the snapshot takes its number before its scan. Release costs nothing here and keeps all stores of the word alike.
        self.set(COMMITTING);
    }
    #[inline]
    fn set(&self, phase: u64) {
        // Release: pairs with the scans' Acquire; who sees the slot freed or claimed again sees the rows marked.
        self.slot.word.store(self.count | phase, Ordering::Release);
    }
    /// The table it is a slot of.
    pub(super) fn table(&self) -> &'t CommitSlots {
        self.table
    }
}

impl Drop for SlotGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if thread::panicking() {
            self.drop_in_panic();
        }
        self.set(IDLE);
    }
}

impl SlotGuard<'_> {
    /// A commit that ends between its append and its mark leaves a record whose rows nobody will ever mark: nothing may build on that.
    /// Before the slot is freed, so that who waits for it finds the region poisoned.
    #[cold]
    fn drop_in_panic(&self) {
        if phase(self.slot.load_relaxed()) == COMMITTING {
            self.table.health.poison("a commit panicked after it had begun to write the log");
        }
    }
}
