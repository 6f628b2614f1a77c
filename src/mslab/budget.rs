//! What one region may hold, over all its segments. A hard limit: taking beyond it is refused, never waited for here.
#![forbid(unsafe_code)]

use super::gate::Gate;
use super::pool::ChunkPool;
use crate::clock::Timeout;
use crate::sync::{AtomicU64, Ordering};

/// Bytes that one region may reserve. Counts whole chunks, since that is what a segment holds.
pub struct MemoryBudget {
    limit: u64,
    used: AtomicU64,
    gate: Gate,
}

impl MemoryBudget {
    /// A budget of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Self {
        Self { limit: limit_bytes, used: AtomicU64::new(0), gate: Gate::new() }
    }
    /// Takes `bytes`, or nothing and answers false.
    pub fn try_take(&self, bytes: u64) -> bool {
        // Relaxed: a count; the memory itself comes through the pool.
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let Some(wanted) = used.checked_add(bytes).filter(|w| *w <= self.limit) else { return false };
            match self.used.compare_exchange_weak(used, wanted, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => used = now,
            }
        }
    }
    /// Gives `bytes` back, and wakes who waits for them.
    pub fn give(&self, bytes: u64) {
        if bytes > 0 {
            let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(before >= bytes, "more given back than taken");
            self.gate.open();
        }
    }
    /// Bytes taken.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
    /// The limit.
    pub fn limit(&self) -> u64 {
        self.limit
    }
    /// True if `bytes` could be taken now.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.used().checked_add(bytes).is_some_and(|w| w <= self.limit)
    }
    /// Waits until `bytes` could be taken; false when `closing`, or the timeout is over. Nothing is taken.
    pub fn wait_for_memory(&self, bytes: u64, timeout: &mut Timeout, closing: &dyn Fn() -> bool) -> bool {
        self.gate.wait_until(timeout, closing, &|| self.has_room(bytes))
    }
    /// Makes all waiters look at their `closing` again, at once.
    pub fn wake_waiters(&self) {
        self.gate.open();
    }
}

/// Waits until both the region's budget and the pool have room for an allocation of `bytes`; false when `closing`, or the timeout is over.
/// `came_back`: the caller knows of memory of another kind that would do, too; asked now and then, with no lock held. Called after [`super::Arena::alloc`] answered
/// None, with nothing held. Nothing is taken: the caller tries again, and may lose the race.
pub fn wait_for_memory(
    pool: &ChunkPool,
    budget: &MemoryBudget,
    bytes: usize,
    timeout: &mut Timeout,
    closing: &dyn Fn() -> bool,
    came_back: &dyn Fn() -> bool,
) -> bool {
    let need = pool.reservation_for(bytes);
    loop {
        if !budget.gate.wait_until_or(timeout, closing, &|| budget.has_room(need), came_back)
            || !pool.wait_for_bytes_or(need, timeout, closing, came_back)
        {
            return false;
        }
        if budget.has_room(need) || came_back() {
            return true;
        }
    }
}
