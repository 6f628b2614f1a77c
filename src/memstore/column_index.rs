//! Ordered index over the columns of one segment: an insert-only B+-tree with optimistic lock coupling, nodes in the arena. UNSAFE ROOM.
//!
//! The tree stores one opaque word per column, the *reference*; the key's bytes (row, family, qualifier, in the order of `cell::order`) lie
//! behind it and are asked for through [`KeyOf`]. Nothing is ever removed, nodes are never merged or freed before the arena.
//!
//! *Reads* take no latch: read a node's version (odd: being changed, wait), read what is needed, look at the version again; if it moved, start at
//! the root. What is read in between may be torn, so nothing is believed before the second look, and every word is at all times 0 or a valid
//! reference or node: a wrong path leads to a wrong answer that is thrown away, never to a wrong address.
//! *Inserts* split full nodes on the way down, holding parent and node only; memory is taken before any latch; a latch is held for a bounded
//! number of instructions, and waits for nothing. Out of memory leaves the tree as it was.
//!
//! *Windows.* Comparing keys costs a cache miss each, so a node keeps 8 bytes of every key, taken behind what all its keys share (`window.rs`). Where a
//! node has both fences (the separators that bound it), every key that is led here shares what the fences share. A node at an edge of its level
//! has one fence or none; there the shared part comes from its entries, a key is checked against it first, and one that does not share it makes
//! the node compute its windows anew.
//!
//! *Scans* copy one leaf's references at a time. An entry only ever moves to the right within its leaf or to the leaf's new right neighbour, so going
//! on at the neighbour that was seen with the copy neither loses nor repeats a column that was there when the scan began; one inserted
//! meanwhile is seen or not. A scan in descending order asks `before` again and again.
//!
//! *Why not a skip list*: 5 to 7 cache misses per seek against 20 and more, measured 2.7 to 6 times faster.
//!
//! Files: `node.rs` layout and latch, `window.rs` shared part and windows, `split.rs` splits, `cursor.rs` scans.

mod cursor;
mod flaw;
mod node;
mod split;
mod window;

use crate::ids::FamilyId;
use crate::mslab::{Arena, NoMemory};
use crate::sync::{Arc, spin_loop, thread as threads};
pub use cursor::Cursor;
use flaw::Flaw;
use node::{Child, FAN_OUT, Inner, Leaf, Node, Spares, prefetch_node};
use std::cmp::Ordering;
use std::ptr::NonNull;
use window::{Shared, shares};

/// Row, family, qualifier: what `cell::order::compare_columns` compares.
pub type ColumnKey<'a> = (&'a [u8], FamilyId, &'a [u8]);

/// No key is smaller.
pub const KEY_MIN: ColumnKey<'static> = (&[], FamilyId(0), &[]);

/// From a column reference to the column's key.
///
/// # Safety
/// For every reference that was handed to [`ColumnIndex::insert`], in any thread, as long as the index lives: `key` is sound to call and answers the same
/// key each time. It must not panic: a latch may be held.
pub unsafe trait KeyOf {
    /// The key of a column.
    ///
    /// # Safety
    /// `reference` was handed to `insert` of the index that this belongs to.
    unsafe fn key(&self, reference: u64) -> ColumnKey<'_>;
    /// Brings into the cache what whoever scans will look at. May do nothing.
    fn prefetch(&self, reference: u64) {
        let _ = reference;
    }
    /// Brings into the cache what lies behind that: a second stage, some columns later.
    ///
    /// # Safety
    /// As `key`.
    unsafe fn prefetch_behind(&self, reference: u64) {
        let _ = reference;
    }
}

/// The tree. Shared between all threads.
pub struct ColumnIndex<K> {
    /// Never moves; when it is full its content goes into two new children.
    root: NonNull<Inner>,
    keys: K,
    /// Keeps the nodes alive.
    arena: Arc<Arena>,
    /// Nodes that a lost race left over.
    spares: Spares,
}

// SAFETY: `root` points to memory that `arena` keeps; nodes are made of atomics only.
unsafe impl<K: Send + Sync> Send for ColumnIndex<K> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync> Sync for ColumnIndex<K> {}

/// What one way down came to.
enum Attempt {
    Done,
    /// Somebody changed a node on the way, or a node was split: once more from the root.
    Again,
    NoMemory,
}

/// Where a key is, or would be, in a node.
#[derive(Clone, Copy)]
struct Place {
    /// Number of entries that are smaller.
    at: usize,
    /// The entry at `at` is the key itself.
    found: bool,
}

impl<K: KeyOf> ColumnIndex<K> {
    /// An empty index whose nodes come from `arena`.
    pub fn new(arena: Arc<Arena>, keys: K, thread: usize) -> Result<Self, NoMemory> {
        let root = node::new_inner(&arena, thread).ok_or(NoMemory)?;
        let leaf = node::new_leaf(&arena, thread).ok_or(NoMemory)?;
        // SAFETY: just made; the arena is kept by the value returned.
        unsafe { root.as_ref() }.set_child(0, Child::Leaf(unsafe_ref(leaf)));
        Ok(Self { root, keys, arena, spares: Spares::new() })
    }
    /// Adds a column. The key must not be there yet: the caller owns the row's lock and has looked.
    ///
    /// # Safety
    /// `reference` is not 0, and [`KeyOf`]'s promise holds for it: it stands for a column with the key `key`, whose bytes are written and stay.
    pub unsafe fn insert(&self, key: ColumnKey<'_>, reference: u64, thread: usize) -> Result<(), NoMemory> {
        debug_assert_ne!(reference, 0);
        let mut tries = 0;
        loop {
            match self.try_insert(key, reference, thread) {
                Attempt::Done => return Ok(()),
                Attempt::NoMemory => return Err(NoMemory),
                Attempt::Again => back_off(&mut tries),
            }
        }
    }
    /// The reference of a column.
    pub fn get(&self, key: ColumnKey<'_>) -> Option<u64> {
        self.retry(|| {
            let (leaf, version) = self.leaf_of(key, false)?;
            let place = self.locate(leaf, key);
            let reference = place.found.then(|| leaf.reference(place.at));
            leaf.unchanged(version).then_some(reference)
        })
    }
    /// The last column before `key`, for scans in descending order.
    pub fn before(&self, key: ColumnKey<'_>) -> Option<u64> {
        self.retry(|| {
            // Down to the leaf that holds the keys just below, also where `key` itself is a separator. Only an index without any smaller
            // key leads to a leaf without one: a separator is the key of an entry of the leaf right of it.
            let (leaf, version) = self.leaf_of(key, true)?;
            let at = self.locate(leaf, key).at;
            let reference = at.checked_sub(1).map(|i| leaf.reference(i));
            leaf.unchanged(version).then_some(reference)
        })
    }
    /// What tells the keys.
    pub fn keys(&self) -> &K {
        &self.keys
    }
    /// Gives it back; the nodes go with the arena.
    pub fn into_keys(self) -> K {
        self.keys
    }
    /// A scan that begins at the first column with a key ≥ `key`, or > `key`.
    pub fn cursor(&self, key: ColumnKey<'_>, inclusive: bool) -> Cursor<'_, K> {
        Cursor::new(self, key, inclusive)
    }

    /// Calls `attempt` until nobody interfered.
    fn retry<R>(&self, attempt: impl Fn() -> Option<R>) -> R {
        let mut tries = 0;
        loop {
            if let Some(result) = attempt() {
                return result;
            }
            back_off(&mut tries);
        }
    }
    fn root(&self) -> &Inner {
        // SAFETY: made in `new`, kept by the arena.
        unsafe { self.root.as_ref() }
    }
    /// The key of an entry.
    fn key_at(&self, reference: u64) -> ColumnKey<'_> {
        // SAFETY: only called with words read from `keys` or fences of nodes, not 0: those were handed to `insert`, whose caller promised.
        unsafe { self.keys.key(reference) }
    }
    /// The leaf that holds `key` (with `below`: that holds the keys just below it), and its version. None: interfered.
    fn leaf_of(&self, key: ColumnKey<'_>, below: bool) -> Option<(&Leaf, u64)> {
        let mut inner = self.root();
        let mut version = inner.read_version();
        loop {
            let place = self.locate(inner, key);
            let child = inner.child(place.at + usize::from(place.found && !below))?;
            let (next, seen) = self.step_down(inner, version, child)?;
            match child {
                Child::Leaf(leaf) => return Some((leaf, seen)),
                Child::Inner(node) => inner = node,
            }
            debug_assert!(std::ptr::eq(&**inner, next));
            version = seen;
        }
    }
    /// From `inner` to the child that was read from it: the child's version counts only if `inner` had not changed when it was read, or the
    /// child might have been split in between and the key be elsewhere.
    fn step_down<'t>(&'t self, inner: &Inner, version: u64, child: Child<'t>) -> Option<(&'t Node, u64)> {
        let node = child.node();
        prefetch_node(child);
        let seen = node.read_version();
        (flaw::is(Flaw::ParentUnchecked) || inner.unchanged(version)).then_some((node, seen))
    }
    /// Where `key` is in `node`; worth something only once the node's version is looked at again.
    fn locate(&self, node: &Node, key: ColumnKey<'_>) -> Place {
        let n = node.count();
        let (shared, checked) = node.shared();
        if checked && n > 0 && shared != Shared::NOTHING {
            let first = node.reference(0);
            if first != 0 {
                match shares(key, self.key_at(first), shared) {
                    // The shared part of all entries differs from the key's: it is smaller, or larger, than all of them.
                    Ordering::Less => return Place { at: 0, found: false },
                    Ordering::Greater => return Place { at: n, found: false },
                    Ordering::Equal => {}
                }
            }
        }
        let window = window::window(key, shared);
        let mut low = node.first_window_from(window, n);
        let mut high = low;
        while high < n && node.window(high) == window {
            high += 1;
        }
        // Equal windows: only the keys themselves tell.
        while low < high {
            let middle = low.midpoint(high);
            let reference = node.reference(middle);
            if reference == 0 {
                break; // Torn: the version has moved.
            }
            match crate::cell::order::compare_columns(self.key_at(reference), key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Place { at: middle, found: true },
            }
        }
        Place { at: low, found: false }
    }
    fn try_insert(&self, key: ColumnKey<'_>, reference: u64, thread: usize) -> Attempt {
        let mut parent = self.root();
        let mut parent_version = parent.read_version();
        if parent.is_full() {
            return self.grow(parent, parent_version, thread);
        }
        loop {
            let place = self.locate(parent, key);
            let at = place.at + usize::from(place.found);
            let Some(child) = parent.child(at) else { return Attempt::Again };
            let Some((_, version)) = self.step_down(parent, parent_version, child) else { return Attempt::Again };
            match child {
                Child::Inner(inner) if inner.is_full() => {
                    return self.split_inner((parent, parent_version, at), (inner, version), key, thread);
                }
                Child::Inner(inner) => (parent, parent_version) = (inner, version),
                Child::Leaf(leaf) => {
                    let place = self.locate(leaf, key);
                    if leaf.count() == FAN_OUT {
                        return self.split_leaf((parent, parent_version, at), (leaf, version), place.at, (key, reference), thread);
                    }
                    // The latch is had only at the version that `place` was found at.
                    let Some(_latch) = leaf.latch(version) else { return Attempt::Again };
                    debug_assert!(!place.found, "a column inserted twice");
                    self.insert_entry(leaf, place.at, key, reference);
                    return Attempt::Done;
                }
            }
        }
    }
}

/// A node in the arena as a reference; the arena outlives every index method that sees it.
fn unsafe_ref<'t, T>(node: NonNull<T>) -> &'t T {
    // SAFETY: nodes are never freed before the arena, which the index keeps; callers do not let the reference outlive the index.
    unsafe { node.as_ref() }
}

/// Between two attempts: a moment, and after some of them the processor, since the other thread may not be running.
fn back_off(tries: &mut u32) {
    *tries += 1;
    if tries.is_multiple_of(16) {
        threads::yield_now();
    } else {
        spin_loop();
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
