//! Nodes: layout, latch and how their words are read and written.
//!
//! | word | read without latch | written (latch held, or not yet reachable) |
//! |---|---|---|
//! | version | Acquire, then again behind a fence | even → odd by exchange (Acquire), then fence(Release); odd → even Release |
//! | references, children, right neighbour | Acquire: they are followed | Release: whoever follows one sees what it points to |
//! | count, shared, windows, fences | Relaxed: believed only after the version's second look | Relaxed, behind the fence |
//!
//! Second look: whoever read a word that a latch holder wrote sees, behind `fence(Acquire)`, that holder's odd version (its `fence(Release)` stands before
//! the word's store). ThreadSanitizer does not know fences, so under `cfg(tsan)` the Relaxed ones are Acquire and Release instead, and no fence is needed.

use super::flaw::{self, Flaw};
use super::window::Shared;
use crate::mslab::Arena;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence, spin_loop, thread as threads};
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// Entries of a leaf, children of an inner node. A power of two.
pub const FAN_OUT: usize = if cfg!(loom) { 4 } else { 64 };
/// Separators of an inner node: one less than children.
pub const SEPARATORS_MAX: usize = FAN_OUT - 1;

const LOAD: Ordering = if cfg!(tsan) { Ordering::Acquire } else { Ordering::Relaxed };
const STORE: Ordering = if cfg!(tsan) { Ordering::Release } else { Ordering::Relaxed };
/// In the shared word: keys must be checked against an entry's shared part.
const CHECKED: u32 = 1 << 31;

/// What leaves and inner nodes have alike: entries in ascending order of keys. 64-byte header, then two arrays of 512 bytes.
#[repr(C, align(64))]
pub struct Node {
    version: AtomicU64,
    count: AtomicU32,
    /// [`Shared`], and CHECKED.
    shared: AtomicU32,
    /// References of the separators that bound this node: low ≤ key < high; 0: no bound.
    low: AtomicU64,
    high: AtomicU64,
    /// Leaves: the right neighbour.
    right: AtomicPtr<Node>,
    windows: Words,
    references: Words,
    /// Loom switches threads only around accesses that it sees to conflict, and it remembers one access per word: a latch holder's own load hides
    /// the reader's before it. So both sides also store here, which nobody loads: a conflict, and no synchronization.
    #[cfg(loom)]
    steps: AtomicU64,
}

/// A leaf's entries are columns.
pub type Leaf = Node;

/// An inner node's entries are separators: child i + 1 holds keys ≥ separator i.
#[repr(C)]
pub struct Inner {
    node: Node,
    children: Words,
}

type Words = [AtomicU64; FAN_OUT];

fn zeros() -> Words {
    std::array::from_fn(|_| AtomicU64::new(0))
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Node>() == 64 + 2 * 8 * FAN_OUT);
    assert!(size_of::<Inner>() == 64 + 3 * 8 * FAN_OUT);
    assert!(align_of::<Inner>() == 64);
};

impl Deref for Inner {
    type Target = Node;
    fn deref(&self) -> &Node {
        &self.node
    }
}

/// The latch of a node: its holder is the only one that writes to it.
pub struct Latch<'n> {
    node: &'n Node,
    version: u64,
}

impl Latch<'_> {
    /// Gives the latch back as if it had never been taken: nothing was written.
    pub fn cancel(mut self) {
        self.version = self.version.wrapping_sub(2);
    }
}

impl Drop for Latch<'_> {
    fn drop(&mut self) {
        self.node.step();
        // Release: pairs with the Acquire of `read_version` and `latch`.
        self.node.version.store(self.version.wrapping_add(2), Ordering::Release);
    }
}

impl Node {
    fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            count: AtomicU32::new(0),
            // A node begins at both edges.
            shared: AtomicU32::new(CHECKED),
            low: AtomicU64::new(0),
            high: AtomicU64::new(0),
            right: AtomicPtr::new(ptr::null_mut()),
            windows: zeros(),
            references: zeros(),
            #[cfg(loom)]
            steps: AtomicU64::new(0),
        }
    }
    /// A place where a model may switch threads.
    #[inline(always)]
    fn step(&self) {
        #[cfg(loom)]
        self.steps.store(0, Ordering::Relaxed);
    }
    /// The version, once it is even.
    #[inline]
    pub fn read_version(&self) -> u64 {
        let mut spins = 0_u32;
        self.step();
        loop {
            // Acquire: pairs with the Release of the latch's drop.
            let version = self.version.load(Ordering::Acquire);
            if version & 1 == 0 {
                return version;
            }
            spins += 1;
            // The holder needs less than a microsecond, if it runs.
            if spins.is_multiple_of(128) {
                threads::yield_now();
            } else {
                spin_loop();
            }
        }
    }
    /// True if nothing that was read since `read_version` answered `version` was torn or stale.
    #[inline]
    pub fn unchanged(&self, version: u64) -> bool {
        self.step();
        if !cfg!(tsan) && !flaw::is(Flaw::NoReaderFence) {
            fence(Ordering::Acquire);
        }
        self.version.load(LOAD) == version
    }
    /// The latch, if the node is still at `version`. Never waits.
    #[inline]
    pub fn latch(&self, version: u64) -> Option<Latch<'_>> {
        self.step();
        let version = if flaw::is(Flaw::LatchAnyVersion) { self.read_version() } else { version };
        // Acquire: sees what the holder before wrote. The fence puts the odd version before all that is written under the latch.
        self.version.compare_exchange(version, version | 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        if !cfg!(tsan) && !flaw::is(Flaw::NoWriterFence) {
            fence(Ordering::Release);
        }
        Some(Latch { node: self, version })
    }
    /// Number of entries; never more than fit.
    #[inline]
    pub fn count(&self) -> usize {
        (self.count.load(LOAD) as usize).min(FAN_OUT)
    }
    /// What the entries share, and whether keys must be checked against it.
    #[inline]
    pub fn shared(&self) -> (Shared, bool) {
        let word = self.shared.load(LOAD);
        (Shared(word & !CHECKED), word & CHECKED != 0)
    }
    #[inline]
    pub fn window(&self, i: usize) -> u64 {
        self.windows[i & (FAN_OUT - 1)].load(LOAD)
    }
    /// The reference of entry `i`; 0 only in a torn read, or beyond the entries.
    #[inline]
    pub fn reference(&self, i: usize) -> u64 {
        self.step();
        // Acquire: pairs with the Release in `set_entry`, so that the column's bytes are seen.
        self.references[i & (FAN_OUT - 1)].load(if flaw::is(Flaw::RelaxedReference) { Ordering::Relaxed } else { Ordering::Acquire })
    }
    pub fn low(&self) -> u64 {
        // Acquire: it is followed.
        self.low.load(Ordering::Acquire)
    }
    pub fn high(&self) -> u64 {
        self.high.load(Ordering::Acquire)
    }
    /// The leaf right of this one.
    pub fn right(&self) -> Option<&Leaf> {
        // Acquire: pairs with the Release in `set_right`.
        // SAFETY: null or a leaf of the same index, which lives as long as this one.
        unsafe { self.right.load(Ordering::Acquire).as_ref() }
    }
    /// Index of the first of `n` windows that is not smaller than `window`. Without a branch that could be predicted wrong.
    #[inline]
    pub fn first_window_from(&self, window: u64, n: usize) -> usize {
        let (mut base, mut left) = (0, n);
        while left > 1 {
            let half = left / 2;
            base += if self.window(base + half - 1) < window { half } else { 0 };
            left -= half;
        }
        base + usize::from(n > 0 && self.window(base) < window)
    }

    // Below: only with the latch held, or before the node can be reached.

    pub fn set_count(&self, n: usize) {
        self.step();
        self.count.store(n as u32, STORE);
    }
    pub fn set_shared(&self, shared: Shared, checked: bool) {
        self.shared.store(shared.0 | if checked { CHECKED } else { 0 }, STORE);
    }
    pub fn set_window(&self, i: usize, window: u64) {
        self.windows[i].store(window, STORE);
    }
    pub fn set_entry(&self, i: usize, window: u64, reference: u64) {
        self.step();
        self.windows[i].store(window, STORE);
        // Release: pairs with the Acquire in `reference`. Also when an entry moves: this thread saw it with Acquire, and passes it on.
        self.references[i].store(reference, Ordering::Release);
    }
    pub fn set_fences(&self, low: u64, high: u64) {
        self.low.store(low, Ordering::Release);
        self.high.store(high, Ordering::Release);
    }
    pub fn set_right(&self, right: Option<&Leaf>) {
        // Release: whoever follows it sees the leaf's words.
        self.right.store(right.map_or(ptr::null_mut(), |r| ptr::from_ref(r).cast_mut()), Ordering::Release);
    }
    /// Moves the entries from `at` on one place up, and counts one more.
    pub fn open_gap(&self, at: usize) {
        let n = self.count();
        for i in (at..n).rev() {
            self.set_entry(i + 1, self.window(i), self.reference(i));
        }
        self.set_count(n + 1);
    }
    /// Copies the entries from `from` on to the beginning of `to`, which cannot be reached yet.
    pub fn copy_entries(&self, range: std::ops::Range<usize>, to: &Self) {
        for (i, j) in range.clone().enumerate() {
            to.set_entry(i, self.window(j), self.reference(j));
        }
        to.set_count(range.len());
        let (shared, checked) = self.shared();
        to.set_shared(shared, checked);
    }
}

/// A child of an inner node: its kind is in the pointer, so that one word says both.
#[derive(Clone, Copy)]
pub enum Child<'t> {
    Leaf(&'t Leaf),
    Inner(&'t Inner),
}

impl<'t> Child<'t> {
    pub fn node(self) -> &'t Node {
        match self {
            Self::Leaf(leaf) => leaf,
            Self::Inner(inner) => inner,
        }
    }
}

impl Inner {
    /// Child `i`; None only in a torn read.
    #[inline]
    pub fn child(&self, i: usize) -> Option<Child<'_>> {
        self.step();
        // Acquire: pairs with the Release in `set_child`.
        let word = self.children[i & (FAN_OUT - 1)].load(Ordering::Acquire);
        if word == 0 {
            return None;
        }
        let address = ptr::with_exposed_provenance::<u8>((word & !1) as usize);
        Some(if word & 1 == 1 {
            // SAFETY: `set_child` put a leaf's address here, with the low bit set; nodes live as long as the index.
            Child::Leaf(unsafe { &*address.cast() })
        } else {
            // SAFETY: as above, an inner node's.
            Child::Inner(unsafe { &*address.cast() })
        })
    }
    fn child_word(&self, i: usize) -> u64 {
        self.children[i].load(Ordering::Acquire)
    }
    pub fn set_child(&self, i: usize, child: Child<'_>) {
        let word = match child {
            Child::Leaf(leaf) => ptr::from_ref(leaf).expose_provenance() as u64 | 1,
            Child::Inner(inner) => ptr::from_ref(inner).expose_provenance() as u64,
        };
        // Release: whoever follows it sees the node's words.
        self.children[i].store(word, Ordering::Release);
    }
    /// Has as many separators as fit.
    pub fn is_full(&self) -> bool {
        self.count() >= SEPARATORS_MAX
    }
    /// Moves the children from `at` on one place up. `children` is how many there are.
    pub fn open_child_gap(&self, at: usize, children: usize) {
        for i in (at..children).rev() {
            self.children[i + 1].store(self.child_word(i), Ordering::Release);
        }
    }
    /// Copies children to the beginning of `to`, which cannot be reached yet.
    pub fn copy_children(&self, range: std::ops::Range<usize>, to: &Self) {
        for (i, j) in range.enumerate() {
            to.children[i].store(self.child_word(j), Ordering::Release);
        }
    }
}

fn place<T>(arena: &Arena, thread: usize, value: T) -> Option<NonNull<T>> {
    let memory = arena.alloc(size_of::<T>(), align_of::<T>(), thread)?.cast::<T>();
    // SAFETY: fresh memory of this size and alignment. Written whole, so that a torn read finds 0 and never what the chunk held before.
    unsafe { memory.write(value) };
    Some(memory)
}

/// A new leaf, reachable by nobody. None: no memory.
pub fn new_leaf(arena: &Arena, thread: usize) -> Option<NonNull<Leaf>> {
    place(arena, thread, Node::new())
}

/// A new inner node, reachable by nobody. None: no memory.
pub fn new_inner(arena: &Arena, thread: usize) -> Option<NonNull<Inner>> {
    place(arena, thread, Inner { node: Node::new(), children: zeros() })
}

/// Nodes that were made for a split which another thread did first. One of each kind is kept; a second one is left to the arena.
pub struct Spares {
    leaf: AtomicPtr<Leaf>,
    inner: AtomicPtr<Inner>,
}

impl Spares {
    pub fn new() -> Self {
        Self { leaf: AtomicPtr::new(ptr::null_mut()), inner: AtomicPtr::new(ptr::null_mut()) }
    }
    // AcqRel: the node was written by the thread that left it here.
    pub fn leaf(&self, arena: &Arena, thread: usize) -> Option<NonNull<Leaf>> {
        NonNull::new(self.leaf.swap(ptr::null_mut(), Ordering::AcqRel)).or_else(|| new_leaf(arena, thread))
    }
    pub fn inner(&self, arena: &Arena, thread: usize) -> Option<NonNull<Inner>> {
        NonNull::new(self.inner.swap(ptr::null_mut(), Ordering::AcqRel)).or_else(|| new_inner(arena, thread))
    }
    pub fn keep_leaf(&self, leaf: NonNull<Leaf>) {
        self.leaf.swap(leaf.as_ptr(), Ordering::AcqRel);
    }
    pub fn keep_inner(&self, inner: NonNull<Inner>) {
        self.inner.swap(inner.as_ptr(), Ordering::AcqRel);
    }
}

/// Fetches the lines that a search of the node will touch, all at once instead of one after the other.
#[inline]
pub fn prefetch_node(child: Child<'_>) {
    let (node, lines) = match child {
        Child::Leaf(leaf) => (leaf, 17),
        Child::Inner(inner) => (&inner.node, 25),
    };
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let base = ptr::from_ref(node).cast::<i8>();
        // Header, windows, references, children.
        for line in 0..lines {
            // SAFETY: a hint; faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(base.wrapping_add(64 * line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (node, lines);
}

/// Fetches the lines that a scan of the leaf will touch.
#[inline]
pub fn prefetch_references(leaf: &Leaf) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let base = ptr::from_ref(leaf).cast::<i8>();
        // SAFETY: a hint; faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(base) };
        for line in 9..17 {
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(base.wrapping_add(64 * line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = leaf;
}
