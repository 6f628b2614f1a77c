//! Memory for cells and index nodes: bytes only.
//!
//! A [`ChunkPool`] owns fixed buffers (chunks, 2 MB each) and lends them out; an [`Arena`] belongs to one memstore segment and bump-allocates
//! from the few chunks it has open; a [`MemoryBudget`] is what one region may hold. The pool's limit and the budget's are both hard: `alloc`
//! answers None, the writer gives its locks back and waits ([`wait_for_memory`]).
//!
//! *Must not*: know cells, rows or the log; hand a chunk to a second arena while the first one lives. A chunk is lent once and comes back once,
//! when its arena is dropped; the arena's owner drops it only when no reader is left (M3).
//!
//! *Threads*: everything here is shared. The common path of `alloc` is one compare-and-swap on a chunk's cursor. Getting a new chunk takes the
//! arena's refill lock (above the leaf locks, since it may map memory) and then, for a few instructions, the pool's (a leaf).
//!
//! *Identity*, at every quiet moment: `created = pooled + in_use + discarded`; `in_use = 0` once all arenas are gone.
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod arena;
mod budget;
#[expect(unsafe_code, reason = "maps memory and hands out pieces of it")]
mod chunk;
mod flaw;
mod gate;
mod pieces;
mod pool;

pub use arena::{Arena, OPEN_CHUNKS_MAX};
pub use budget::{MemoryBudget, wait_for_memory};
pub use pool::{CHUNK_BYTES_DEFAULT, CHUNK_BYTES_MIN, ChunkPool, PoolOptions, PoolStats};

/// Pool or budget is exhausted; nothing was taken. The caller gives its locks back and waits for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

#[cfg(all(test, loom))]
#[expect(unsafe_code, reason = "loom's cells stand for a chunk's bytes")]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
