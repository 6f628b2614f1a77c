//! Entries for the third and further rows of a bucket that are held at one time. Rare, but a batch may hold many thousand rows.
//!
//! Nodes are numbered, live in blocks that are never moved nor freed before the table, and go back to a free list once nobody holds their
//! row or waits for it. Which list a node is on is guarded by its bucket's latch; the free list by its own mutex, a leaf, never taken under a
//! latch that somebody could wait for in it.

#![forbid(unsafe_code)]

use super::bucket::Entry;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use std::sync::OnceLock;

/// An entry with a word of its own, whose lane 0 is in use; there is no latch in it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) word: AtomicU64,
    pub(super) entry: Entry,
    /// 1 + number of the next node of the bucket, 0 none. Under the bucket's latch.
    pub(super) next: AtomicU32,
}

pub(super) struct Nodes {
    // Block b holds FIRST << b nodes. Only initialised once, so a reader needs no lock.
    blocks: [OnceLock<Box<[Node]>>; BLOCKS],
    free: Mutex<Free>,
}

struct Free {
    list: Vec<u32>,
    blocks_made: usize,
}

const FIRST: u32 = 64;
const BLOCKS: usize = 24;

impl Nodes {
    pub(super) fn new() -> Self {
        Self { blocks: [const { OnceLock::new() }; BLOCKS], free: Mutex::new(Free { list: Vec::new(), blocks_made: 0 }) }
    }

    /// Node number `n`, which [`Nodes::take`] has given out at some time.
    pub(super) fn get(&self, n: u32) -> &Node {
        let block = ((n / FIRST) + 1).ilog2();
        let first = FIRST * ((1 << block) - 1);
        // Who knows the number got it through a bucket's latch or the free list, after the block was there.
        let nodes = self.blocks[block as usize].get().map_or(&[][..], |b| b);
        &nodes[(n - first) as usize]
    }

    /// A node for the caller alone. Allocates only when more rows overflow at one time than ever before.
    #[cold]
    pub(super) fn take(&self) -> u32 {
        let mut free = self.free.lock();
        if let Some(n) = free.list.pop() {
            return n;
        }
        let block = free.blocks_made;
        assert!(block < BLOCKS, "more than a thousand million row locks are held at one time");
        let len = FIRST << block;
        let first = FIRST * ((1 << block) - 1);
        let node = |_| Node {
            word: AtomicU64::new(0),
            entry: Entry { hash: AtomicU64::new(0), tick: AtomicU64::new(0) },
            next: AtomicU32::new(0),
        };
        let fresh = self.blocks[block].set((0..len).map(node).collect()).is_ok();
        debug_assert!(fresh, "blocks are made under the free list's mutex, each once");
        free.blocks_made += 1;
        // Room for every node there is, so that giving back never allocates.
        free.list.reserve((first + len) as usize);
        free.list.extend((first + 1..first + len).rev());
        first
    }

    /// Takes back a node that is on no bucket's list.
    pub(super) fn give(&self, n: u32) {
        self.free.lock().list.push(n);
    }

    /// Takes back a list of nodes linked by `next`; `first` is 1 + a number, or 0.
    pub(super) fn give_list(&self, first: u32) {
        let mut free = self.free.lock();
        let mut next = first;
        while next != 0 {
            free.list.push(next - 1);
            // Relaxed: the caller unlinked them under the bucket's latch and owns them.
            next = self.get(next - 1).next.load(Ordering::Relaxed);
        }
    }

    /// Every node there is, used or not.
    pub(super) fn all(&self) -> impl Iterator<Item = &Node> {
        self.blocks.iter().filter_map(OnceLock::get).flat_map(|b| b.iter())
    }

    /// How many nodes are on buckets' lists or in somebody's hands.
    #[cfg(all(test, not(loom)))]
    pub(super) fn in_use(&self) -> usize {
        let free = self.free.lock();
        self.all().count() - free.list.len()
    }
}
