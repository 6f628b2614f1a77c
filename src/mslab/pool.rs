//! ChunkPool: bounded reuse of chunks, limits, statistics. Policy only; the memory is `chunk.rs`'s.
//!
//! *Rules.* The limit covers everything the pool has mapped: idle chunks, lent ones, oversize ones. An idle chunk gives way to an oversize one.
//! The pool never shrinks by itself: `trim` does that. What is lent comes back exactly once, by the drop of the arena that has it.
//!
//! *Threads*: the lock is a leaf (level 7), held for a few instructions; memory is mapped and unmapped outside it. Statistics are atomics written
//! under the lock and read without it, so `stats` is exact at a quiet moment and never blocks.
#![forbid(unsafe_code)]

use super::chunk::{ChunkList, OwnedChunk, page_rounded};
use super::flaw::{self, Flaw};
use super::gate::Gate;
use crate::clock::Timeout;
use crate::error::Result;
use crate::fail;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};

/// Size of a chunk unless told otherwise: one huge page.
pub const CHUNK_BYTES_DEFAULT: usize = 2 << 20;
/// Smallest chunk: one page. For tests; a real one should hold many cells.
pub const CHUNK_BYTES_MIN: usize = 4096;
/// Largest chunk.
pub const CHUNK_BYTES_MAX: usize = 1 << 30;
/// An allocation of up to this many bytes never gets a mapping of its own, however small the chunks are: an index node must fit.
const OVERSIZE_ABOVE_MIN: usize = 2048;
/// Default limit: half of the machine's memory, within these.
const LIMIT_DEFAULT: std::ops::RangeInclusive<u64> = (64 << 20)..=(16 << 30);

/// How a pool is made. Zeros stand for defaults.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Bytes of a chunk, a power of two of at least 4 KB; 0: 2 MB.
    pub chunk_size: usize,
    /// Most bytes the pool ever maps, at least one chunk; 0: half of the machine's memory, at least 64 MB, at most 16 GB.
    pub max_bytes: u64,
    /// Bytes of chunks to map and populate at once, so that not even the first writers pay for page faults. At most `max_bytes`.
    pub preallocate_bytes: u64,
    /// False: a chunk that comes back is unmapped. For comparison; there is no reason to want it.
    pub pooling: bool,
    /// Ask for huge pages where a chunk is made of whole ones.
    pub huge_pages: bool,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { chunk_size: 0, max_bytes: 0, preallocate_bytes: 0, pooling: true, huge_pages: true }
    }
}

/// What a pool has. `created = pooled + in_use + discarded` at every quiet moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes of a chunk.
    pub chunk_size: u64,
    /// Most chunks the pool may have.
    pub max_chunks: u64,
    /// Chunks that wait for their next user.
    pub pooled: u64,
    /// Chunks that arenas have.
    pub in_use: u64,
    /// Chunks mapped so far.
    pub created: u64,
    /// Chunks handed out that had been used before, or had been preallocated.
    pub reused: u64,
    /// Chunks unmapped: by `trim`, to make room for an oversize one, or on return to a pool that keeps none.
    pub discarded: u64,
    /// Buffers of their own for large allocations that exist now; they are in no other number here.
    pub oversize: u64,
    /// Bytes of those.
    pub oversize_bytes: u64,
    /// Largest `in_use` so far.
    pub high_water: u64,
    /// Bytes mapped now: chunks and oversize buffers.
    pub mapped_bytes: u64,
    /// The limit on `mapped_bytes`.
    pub max_bytes: u64,
}

/// The statistics, each written only under the pool's lock (so a plain load and store do) and read by anyone. Relaxed throughout: numbers.
#[derive(Default)]
struct Counters {
    pooled: AtomicU64,
    in_use: AtomicU64,
    created: AtomicU64,
    reused: AtomicU64,
    discarded: AtomicU64,
    oversize: AtomicU64,
    oversize_bytes: AtomicU64,
    high_water: AtomicU64,
    mapped_bytes: AtomicU64,
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
fn add(counter: &AtomicU64, n: u64) {
    counter.store(read(counter) + n, Ordering::Relaxed);
}
fn sub(counter: &AtomicU64, n: u64) {
    debug_assert!(read(counter) >= n);
    counter.store(read(counter).saturating_sub(n), Ordering::Relaxed);
}

/// A bounded pool of chunks, shared by any number of regions.
pub struct ChunkPool {
    chunk_bytes: usize,
    max_bytes: u64,
    pooling: bool,
    huge_pages: bool,
    /// Idle chunks, the one used last on top. Level 7, a leaf.
    idle: Mutex<ChunkList>,
    /// Written under `idle`.
    counters: Counters,
    /// The system refused memory; cleared when some comes back, or a waiter has waited a while.
    starved: AtomicBool,
    gate: Gate,
}

impl ChunkPool {
    /// A pool. Refuses sizes that make no sense, and a preallocation that the system has no memory for.
    pub fn new(o: PoolOptions) -> Result<Arc<Self>> {
        let chunk_bytes = if o.chunk_size == 0 { CHUNK_BYTES_DEFAULT } else { o.chunk_size };
        if !chunk_bytes.is_power_of_two() || !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_bytes) {
            return fail!(
                Invalid,
                "chunk_size: {chunk_bytes} is not a power of two from {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX} (default {CHUNK_BYTES_DEFAULT})"
            );
        }
        let max_bytes = if o.max_bytes == 0 { default_limit(chunk_bytes) } else { o.max_bytes };
        if max_bytes < chunk_bytes as u64 {
            return fail!(Invalid, "max_bytes: {max_bytes} holds no chunk of {chunk_bytes} bytes");
        }
        if o.preallocate_bytes > max_bytes {
            return fail!(Invalid, "preallocate_bytes: {} is more than max_bytes, {max_bytes}", o.preallocate_bytes);
        }
        if o.preallocate_bytes > 0 && !o.pooling {
            return fail!(Invalid, "preallocate_bytes: {} with pooling switched off", o.preallocate_bytes);
        }
        let pool = Self {
            chunk_bytes,
            max_bytes,
            pooling: o.pooling,
            huge_pages: o.huge_pages,
            idle: Mutex::new(ChunkList::new()),
            counters: Counters::default(),
            starved: AtomicBool::new(false),
            gate: Gate::new(),
        };
        let wanted = o.preallocate_bytes / chunk_bytes as u64;
        if pool.prepare(usize::try_from(wanted).unwrap_or(usize::MAX)) < wanted {
            return fail!(NoMem, "preallocate_bytes: the system gave no memory for {} bytes", o.preallocate_bytes);
        }
        Ok(Arc::new(pool))
    }
    /// The process's pool, made with default options when it is first asked for.
    #[cfg(not(loom))]
    pub fn shared() -> Result<Arc<Self>> {
        static POOL: std::sync::OnceLock<Arc<ChunkPool>> = std::sync::OnceLock::new();
        if let Some(pool) = POOL.get() {
            return Ok(Arc::clone(pool));
        }
        let made = Self::new(PoolOptions::default())?;
        // Another thread may have been first: all get the same one.
        Ok(Arc::clone(POOL.get_or_init(|| made)))
    }
    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }
    /// The limit on everything mapped.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }
    /// Larger allocations get a buffer of their own.
    pub fn oversize_above(&self) -> usize {
        (self.chunk_bytes / 4).max(OVERSIZE_ABOVE_MIN)
    }
    /// What an allocation of `bytes` reserves when no open chunk has room for it.
    pub fn reservation_for(&self, bytes: usize) -> u64 {
        if bytes > self.oversize_above() { page_rounded(bytes).map_or(u64::MAX, |b| b as u64) } else { self.chunk_bytes as u64 }
    }
    /// Statistics; takes no lock.
    pub fn stats(&self) -> PoolStats {
        let c = &self.counters;
        PoolStats {
            chunk_size: self.chunk_bytes as u64,
            max_chunks: self.max_bytes / self.chunk_bytes as u64,
            pooled: read(&c.pooled),
            in_use: read(&c.in_use),
            created: read(&c.created),
            reused: read(&c.reused),
            discarded: read(&c.discarded),
            oversize: read(&c.oversize),
            oversize_bytes: read(&c.oversize_bytes),
            high_water: read(&c.high_water),
            mapped_bytes: read(&c.mapped_bytes),
            max_bytes: self.max_bytes,
        }
    }
    /// Unmaps idle chunks until at most `keep_bytes` of them are left. Answers how many bytes were given back.
    pub fn trim(&self, keep_bytes: u64) -> u64 {
        let keep = keep_bytes / self.chunk_bytes as u64;
        let mut out = ChunkList::new();
        {
            let mut idle = self.idle.lock();
            while idle.len() as u64 > keep
                && let Some(chunk) = idle.pop()
            {
                self.note_discarded(&mut out, chunk);
            }
            add_pooled(&self.counters, &idle);
        }
        let bytes = out.len() as u64 * self.chunk_bytes as u64;
        // The system calls, outside the lock.
        drop(out);
        if bytes > 0 {
            self.gate.open();
        }
        bytes
    }
    /// Sees to it that `spare` chunks wait, their pages resident, as far as the limit allows. For a background thread: a first touch stalls a
    /// writer by up to milliseconds. Answers how many now wait.
    pub fn prepare(&self, spare: usize) -> u64 {
        while self.pooling && read(&self.counters.pooled) < spare as u64 {
            let Some(id) = self.reserve_new() else { break };
            let made = OwnedChunk::map(self.chunk_bytes, id, self.huge_pages);
            let Some(mut chunk) = made else {
                self.undo_reserve();
                break;
            };
            let resident = chunk.populate();
            self.give_back(one(chunk));
            if !resident {
                break;
            }
        }
        read(&self.counters.pooled)
    }
    /// Waits until a chunk could be had; false when `closing`, or the timeout is over. Nothing is taken.
    pub fn wait_for_memory(&self, timeout: &mut Timeout, closing: &dyn Fn() -> bool) -> bool {
        self.wait_for_bytes(self.chunk_bytes as u64, timeout, closing)
    }
    /// As above for `bytes`, as [`ChunkPool::reservation_for`] tells them.
    pub fn wait_for_bytes(&self, bytes: u64, timeout: &mut Timeout, closing: &dyn Fn() -> bool) -> bool {
        self.wait_for_bytes_or(bytes, timeout, closing, &|| false)
    }
    /// As above, or until `came_back`.
    pub(super) fn wait_for_bytes_or(
        &self,
        bytes: u64,
        timeout: &mut Timeout,
        closing: &dyn Fn() -> bool,
        came_back: &dyn Fn() -> bool,
    ) -> bool {
        // The limit may leave room while the system refuses: look again after the gate's 10 ms, not in a tight loop.
        let asked = std::cell::Cell::new(0_u32);
        let ready = || {
            asked.set(asked.get() + 1);
            if asked.get() > 1 {
                self.starved.store(false, Ordering::Relaxed);
            }
            self.has_room(bytes)
        };
        self.gate.wait_until_or(timeout, closing, &ready, came_back)
    }
    /// True if `bytes` could be had now.
    pub fn has_room(&self, bytes: u64) -> bool {
        let idle = read(&self.counters.pooled) * self.chunk_bytes as u64;
        if bytes <= self.chunk_bytes as u64 && idle > 0 {
            return true;
        }
        // Saturating: the two numbers are not read at one instant.
        let others = read(&self.counters.mapped_bytes).saturating_sub(idle);
        !self.starved.load(Ordering::Relaxed) && others.checked_add(bytes).is_some_and(|b| b <= self.max_bytes)
    }
    /// Makes all waiters look at their `closing` again, at once.
    pub fn wake_waiters(&self) {
        self.gate.open();
    }

    /// Lends a chunk, reset and empty. None: the limit is reached, or the system has no memory.
    pub(super) fn take(&self) -> Option<OwnedChunk> {
        let c = &self.counters;
        {
            let mut idle = self.idle.lock();
            if let Some(chunk) = idle.pop() {
                add_pooled(c, &idle);
                add(&c.in_use, 1);
                add(&c.reused, 1);
                self.raise_high_water();
                return Some(chunk);
            }
        }
        let id = self.reserve_new()?;
        let made = OwnedChunk::map(self.chunk_bytes, id, self.huge_pages);
        if made.is_none() {
            self.undo_reserve();
        }
        made
    }
    /// Lends a buffer of its own for an allocation of `bytes`; idle chunks give way. None as above.
    pub(super) fn take_oversize(&self, bytes: usize) -> Option<OwnedChunk> {
        let (c, rounded) = (&self.counters, page_rounded(bytes)?);
        let mut out = ChunkList::new();
        {
            let mut idle = self.idle.lock();
            let idle_bytes = idle.len() as u64 * self.chunk_bytes as u64;
            let others = read(&c.mapped_bytes) - idle_bytes;
            if others.checked_add(rounded as u64).is_none_or(|b| b > self.max_bytes) {
                return None;
            }
            while read(&c.mapped_bytes) + rounded as u64 > self.max_bytes
                && let Some(chunk) = idle.pop()
            {
                self.note_discarded(&mut out, chunk);
            }
            add_pooled(c, &idle);
            add(&c.mapped_bytes, rounded as u64);
            add(&c.oversize, 1);
            add(&c.oversize_bytes, rounded as u64);
        }
        drop(out);
        let made = OwnedChunk::map(rounded, 0, self.huge_pages);
        if made.is_none() {
            self.forget_oversize(1, rounded as u64);
            // Relaxed: only delays waiters.
            self.starved.store(true, Ordering::Relaxed);
        }
        made
    }
    /// Takes lent chunks back, oversize ones too, and wakes who waits for memory.
    pub(super) fn give_back(&self, mut chunks: ChunkList) {
        let c = &self.counters;
        let (mut out, mut large, mut large_bytes, mut back) = (ChunkList::new(), 0, 0, ChunkList::new());
        while let Some(mut chunk) = chunks.pop() {
            if chunk.chunk().id() == 0 {
                (large, large_bytes) = (large + 1, large_bytes + chunk.chunk().bytes() as u64);
                out.push(chunk);
            } else {
                chunk.reset();
                back.push(chunk);
            }
        }
        {
            let mut idle = self.idle.lock();
            while let Some(chunk) = back.pop() {
                sub(&c.in_use, 1);
                if self.pooling {
                    idle.push(chunk);
                } else {
                    self.note_discarded(&mut out, chunk);
                }
            }
            add_pooled(c, &idle);
        }
        drop(out);
        self.forget_oversize(large, large_bytes);
        self.starved.store(false, Ordering::Relaxed);
        self.gate.open();
    }

    /// Counts a chunk that is about to be mapped, as in use, and answers its id.
    fn reserve_new(&self) -> Option<u64> {
        let c = &self.counters;
        let early = flaw::is(Flaw::LimitOutsideLock).then(|| read(&c.mapped_bytes));
        let _idle = self.idle.lock();
        let mapped = early.unwrap_or_else(|| read(&c.mapped_bytes)) + self.chunk_bytes as u64;
        if mapped > self.max_bytes {
            return None;
        }
        add(&c.mapped_bytes, self.chunk_bytes as u64);
        add(&c.created, 1);
        add(&c.in_use, 1);
        self.raise_high_water();
        // Never the same number twice: a failed mapping is counted as created and discarded.
        Some(read(&c.created))
    }
    fn undo_reserve(&self) {
        let (c, _idle) = (&self.counters, self.idle.lock());
        sub(&c.mapped_bytes, self.chunk_bytes as u64);
        sub(&c.in_use, 1);
        add(&c.discarded, 1);
        self.starved.store(true, Ordering::Relaxed);
    }
    fn forget_oversize(&self, n: u64, bytes: u64) {
        if n > 0 {
            let (c, _idle) = (&self.counters, self.idle.lock());
            sub(&c.mapped_bytes, bytes);
            sub(&c.oversize, n);
            sub(&c.oversize_bytes, bytes);
        }
    }
    /// Under the lock: `chunk` leaves the pool for good; the caller drops `out` once the lock is free.
    fn note_discarded(&self, out: &mut ChunkList, chunk: OwnedChunk) {
        sub(&self.counters.mapped_bytes, self.chunk_bytes as u64);
        add(&self.counters.discarded, 1);
        out.push(chunk);
    }
    fn raise_high_water(&self) {
        let in_use = read(&self.counters.in_use);
        if in_use > read(&self.counters.high_water) {
            self.counters.high_water.store(in_use, Ordering::Relaxed);
        }
    }
}

fn add_pooled(c: &Counters, idle: &ChunkList) {
    c.pooled.store(idle.len() as u64, Ordering::Relaxed);
}

fn one(chunk: OwnedChunk) -> ChunkList {
    let mut list = ChunkList::new();
    list.push(chunk);
    list
}

fn default_limit(chunk_bytes: usize) -> u64 {
    let half = super::chunk::machine_bytes() / 2;
    half.clamp(*LIMIT_DEFAULT.start(), *LIMIT_DEFAULT.end()).max(chunk_bytes as u64)
}
