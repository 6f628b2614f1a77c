//! Bump allocation for one segment over a few open chunks.
//!
//! A new arena opens one chunk, at its first allocation; a segment of a few rows costs no more. When a chunk is full and threads met at its
//! cursor often, the arena gets wider: two, then four chunks are open, chosen by thread. Measured: 4.4, 5.7, 6.7 M cells/s with 1, 2, 4.
//! One chunk per thread was tried and lost: 50 threads strand 100 MB.
//!
//! *Threads*: `alloc` is lock-free while the chunk has room. The refill lock is held while a chunk is fetched, which may map memory: it lies above
//! the leaf locks and below the row locks, whose holders call `alloc`; nothing waits under it for anybody but the system.
//!
//! What a refused commit has taken it gives back ([`Arena::give_back`]); `alloc` looks there first while something large enough is there.
//!
//! *Accounting*: `reserved_bytes` is what the budget was charged: whole chunks and oversize buffers. `allocated_bytes` is what callers got and
//! did not give back.
#![forbid(unsafe_code)]

use super::budget::MemoryBudget;
use super::chunk::{ALIGN_MAX, ChunkSet, PAGE_BYTES};
use super::flaw::{self, Flaw};
use super::pieces::{Pieces, rounded};
use super::pool::ChunkPool;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering};
use std::ptr::NonNull;

/// Most chunks open at a time.
pub const OPEN_CHUNKS_MAX: usize = 4;
/// A chunk at whose cursor threads met this often while it was filled makes the arena wider.
const CONTENDED: u64 = if cfg!(loom) { 1 } else { 256 };

/// The memory of one segment: pieces live as long as the arena, all chunks go back when it is dropped.
pub struct Arena {
    /// How many places of `chunks` are in use: 1, 2 or 4.
    width: AtomicUsize,
    /// Bytes of the largest piece that came back; 0 almost always.
    largest_back: AtomicUsize,
    chunks: ChunkSet<OPEN_CHUNKS_MAX>,
    pool: Arc<ChunkPool>,
    budget: Arc<MemoryBudget>,
    oversize_above: usize,
    /// Held while a chunk is fetched and installed.
    refill: Mutex<()>,
    reserved: AtomicU64,
    /// Bytes handed out of chunks that are closed, and of oversize buffers.
    closed: AtomicU64,
    /// Pieces that came back, and their bytes.
    back: Mutex<Pieces>,
    back_bytes: AtomicUsize,
    /// How often a piece came back.
    gives: AtomicU64,
}

impl Arena {
    /// An arena without chunks; takes nothing until the first allocation.
    pub fn new(pool: Arc<ChunkPool>, budget: Arc<MemoryBudget>) -> Self {
        Self {
            width: AtomicUsize::new(1),
            largest_back: AtomicUsize::new(0),
            chunks: ChunkSet::new(),
            oversize_above: pool.oversize_above(),
            pool,
            budget,
            refill: Mutex::new(()),
            reserved: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            back: Mutex::new(Pieces::default()),
            back_bytes: AtomicUsize::new(0),
            gives: AtomicU64::new(0),
        }
    }
    /// `size` bytes aligned to `align` (a power of two, at most 128), valid as long as the arena; their content is undefined. None: pool or budget is
    /// exhausted, and nothing was taken. `thread` is the caller's small index; it spreads threads over the open chunks.
    #[inline]
    pub fn alloc(&self, size: usize, align: usize, thread: usize) -> Option<NonNull<u8>> {
        assert!(align.is_power_of_two() && align <= ALIGN_MAX, "alignment {align}");
        // Relaxed: a hint; `take_back` looks under the lock.
        if size <= self.largest_back.load(Ordering::Relaxed)
            && let Some(piece) = self.take_back(size, align)
        {
            return Some(piece);
        }
        if size <= self.oversize_above {
            // Relaxed: whichever width is seen, its places are valid; an empty one is filled.
            let place = thread & (self.width.load(Ordering::Relaxed) - 1);
            if let Some(chunk) = self.chunks.open(place)
                && let Some(piece) = chunk.bump(size, align)
            {
                return Some(piece);
            }
            return self.alloc_slow(size, align, place);
        }
        self.alloc_oversize(size)
    }
    /// Bytes handed out, padding included.
    pub fn allocated_bytes(&self) -> u64 {
        // Relaxed: a number for statistics; a chunk that closes in between is counted once or twice for an instant.
        let open = (0..OPEN_CHUNKS_MAX).filter_map(|i| self.chunks.open(i)).map(|c| c.used() as u64).sum::<u64>();
        (self.closed.load(Ordering::Relaxed) + open).saturating_sub(self.back_bytes.load(Ordering::Relaxed) as u64)
    }
    /// Bytes taken from pool and budget: whole chunks and oversize buffers.
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }
    /// True if `bytes` lie in its memory.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        self.chunks.holds(bytes)
    }
    /// The pool it takes from.
    pub fn pool(&self) -> &Arc<ChunkPool> {
        &self.pool
    }
    /// The budget it is charged to.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Takes back a piece of `size` bytes that `alloc` gave for this size and that nobody ever saw. The next one who asks gets it.
    #[cold]
    pub fn give_back(&self, piece: NonNull<u8>, size: usize) {
        let Some(bytes) = rounded(size) else { return };
        let mut back = self.back.lock();
        // A chunk begins at a page, so only there the list of chunks is asked.
        back.put(piece, bytes, |at| at.is_multiple_of(PAGE_BYTES) && self.chunks.begins_at(at));
        self.note_back(&back);
        // Relaxed: a hint for who waits.
        self.gives.fetch_add(1, Ordering::Relaxed);
    }
    /// If a piece of `size` bytes may be had of what came back: how often something has come back so far.
    pub fn given_back(&self, size: usize) -> Option<u64> {
        // Relaxed: hints; `take_back` looks under the lock.
        (size <= self.largest_back.load(Ordering::Relaxed)).then(|| self.gives.load(Ordering::Relaxed))
    }
    #[cold]
    fn take_back(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let mut back = self.back.lock();
        let piece = back.take(rounded(size)?, align);
        self.note_back(&back);
        piece
    }
    fn note_back(&self, back: &Pieces) {
        // Relaxed, both: a hint and a number for statistics.
        self.largest_back.store(back.most(), Ordering::Relaxed);
        self.back_bytes.store(back.bytes(), Ordering::Relaxed);
    }

    #[cold]
    fn alloc_slow(&self, size: usize, align: usize, place: usize) -> Option<NonNull<u8>> {
        let _refill = self.refill.lock();
        // Another thread may have been here first.
        let full = self.chunks.open(place);
        if !flaw::is(Flaw::RefillBlindly)
            && let Some(chunk) = full
            && let Some(piece) = chunk.bump(size, align)
        {
            return Some(piece);
        }
        let reserve = self.pool.chunk_bytes() as u64;
        let taken = if self.budget.try_take(reserve) {
            let chunk = self.pool.take();
            if chunk.is_none() {
                self.budget.give(reserve);
            }
            chunk
        } else {
            None
        };
        let Some(chunk) = taken else {
            // What is left in other threads' chunks is better than none.
            return (0..OPEN_CHUNKS_MAX).find_map(|i| self.chunks.open(i)?.bump(size, align));
        };
        self.reserved.fetch_add(reserve, Ordering::Relaxed);
        let piece = chunk.chunk().bump(size, align);
        self.chunks.install(place, chunk);
        if let Some(full) = full {
            let width = self.width.load(Ordering::Relaxed);
            if full.contended() >= CONTENDED && width < OPEN_CHUNKS_MAX {
                self.width.store(width * 2, Ordering::Relaxed);
            }
            self.closed.fetch_add(full.seal() as u64, Ordering::Relaxed);
        }
        piece
    }
    #[cold]
    fn alloc_oversize(&self, size: usize) -> Option<NonNull<u8>> {
        let reserve = self.pool.reservation_for(size);
        if !self.budget.try_take(reserve) {
            return None;
        }
        let Some(chunk) = self.pool.take_oversize(size) else {
            self.budget.give(reserve);
            return None;
        };
        self.reserved.fetch_add(reserve, Ordering::Relaxed);
        self.closed.fetch_add(reserve, Ordering::Relaxed);
        // A mapping's start is aligned to a page.
        Some(self.chunks.adopt(chunk).base())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.pool.give_back(self.chunks.take_all());
        // After the pool, so that who waits for both finds both.
        self.budget.give(self.reserved.load(Ordering::Relaxed));
    }
}

#[cfg(all(test, not(loom)))]
impl Arena {
    /// As wide as it gets.
    pub(super) fn widen(&self) {
        self.width.store(OPEN_CHUNKS_MAX, Ordering::Relaxed);
    }
    /// How many chunks may be open.
    pub(super) fn width(&self) -> usize {
        self.width.load(Ordering::Relaxed)
    }
}
