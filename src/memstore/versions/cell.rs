//! The list of a column: cells linked through the `chain` word, newest push first. Cells lie in the segment's arena and are never unlinked.
//!
//! `chain` word: address of the first cell (8-aligned) plus three tag bits.
//!
//! | address | tags | meaning |
//! |---|---|---|
//! | 0 | 0 | empty list |
//! | 0 | 7 | the column is not in the ordered index yet: it does not exist for anybody |
//! | a | HAS_MARKER | a delete marker was pushed: what the column shows is found by replay |
//! | a | OUT_OF_ORDER | list order is not (timestamp, number) descending: the whole list has to be looked at |
//! | a | HAS_CELLS | something else than a copy of an increment was pushed |
//!
//! Tags are only ever added. A tag is published no later than what it tells about, so a reader who needs a cell also sees the tags.
//!
//! A row's list (`marks.rs`) is linked in the same way, through the header's `markers` word.
//!
//! Threads: pushes and overwriting by the owner of the row lock; everything else by anybody.

use super::flaw::{Flaw, off, unless};
use super::{DATA_STORE, Version, VersionRef, VersionValue};
use crate::cell::CellType;
use crate::hooks;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, fence};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// Head of a list, with its tags.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(in crate::memstore) struct Chain(AtomicU64);

pub(super) const HAS_MARKER: u64 = 1;
pub(super) const OUT_OF_ORDER: u64 = 2;
pub(super) const HAS_CELLS: u64 = 4;
const TAGS: u64 = 7;
const UNINDEXED: u64 = TAGS;

/// A value of the chain word.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    word: u64,
    cells: PhantomData<&'a ListCell>,
}

impl Chain {
    /// An empty list of a column that is not in the ordered index yet.
    pub(in crate::memstore) fn unindexed() -> Self {
        Self(AtomicU64::new(UNINDEXED))
    }
    /// True once the column is in the ordered index.
    pub(in crate::memstore) fn is_indexed(&self) -> bool {
        // Acquire: pairs with `set_indexed`; the column's bytes were written before.
        self.0.load(Acquire) != UNINDEXED
    }
    /// The column is in the index. Row lock held.
    pub(in crate::memstore) fn set_indexed(&self) {
        self.0.store(0, Release);
    }
    /// Address of the first cell, to be fetched ahead: not to be followed.
    #[inline]
    pub(in crate::memstore) fn first(&self) -> Option<*const u8> {
        // Relaxed: only an address.
        let address = self.0.load(Relaxed) & !TAGS;
        (address != 0).then(|| ptr::without_provenance(address as usize))
    }
    /// True if a marker was ever pushed.
    pub(in crate::memstore) fn has_marker(&self) -> bool {
        // Acquire: what a marker hides is decided by its content, read next.
        self.0.load(Acquire) & HAS_MARKER != 0
    }
    /// True if nothing was ever pushed.
    pub(in crate::memstore) fn is_empty(&self) -> bool {
        // Acquire: what a marker hides is decided by its content, read next.
        self.0.load(Acquire) & !TAGS == 0
    }
    /// The list as it is now.
    ///
    /// # Safety
    /// Every cell pushed to this chain lives for 'a.
    pub(super) unsafe fn load<'a>(&self) -> Head<'a> {
        // Acquire: pairs with `push`; the cells' content is then visible.
        Head { word: self.0.load(Acquire), cells: PhantomData }
    }
    /// Tells readers that list order does not count any more. Row lock held; before the overwriting that breaks the order.
    pub(super) fn set_out_of_order(&self) {
        if off(Flaw::OrderTag) {
            return;
        }
        // Relaxed load: only the row lock's owner writes the word. Release store: the word also publishes the cells below it. Who needs the
        // overwritten cell has seen its version gone from its slot, which is stored (Release) after this.
        self.0.store(self.0.load(Relaxed) | OUT_OF_ORDER, Release);
    }
    /// Pushes a filled cell. Row lock held.
    ///
    /// # Safety
    /// The cell is initialised, was never pushed, and lives as long as the chain is read.
    pub(super) unsafe fn push(&self, cell: NonNull<ListCell>, add: u64) {
        // Relaxed: only the row lock's owner writes the word.
        let old = self.0.load(Relaxed);
        debug_assert_ne!(old, UNINDEXED, "push to a column that is not in the index");
        // SAFETY: initialised, by contract.
        let c = unsafe { cell.as_ref() };
        // Relaxed: published by the store below.
        c.next.store(old & !TAGS, Relaxed);
        let word = cell.as_ptr().expose_provenance() as u64 | old & TAGS | add;
        // Release: pairs with `load`; the cell's content goes with it.
        self.0.store(word, Release);
    }
}

impl<'a> Head<'a> {
    pub(super) fn has(self, tag: u64) -> bool {
        !self.is_empty() && self.word & tag != 0
    }
    pub(super) fn is_empty(self) -> bool {
        self.word & !TAGS == 0
    }
    pub(super) fn cells(self) -> Cells<'a> {
        Cells { next: self.word & !TAGS, cells: PhantomData }
    }
    /// Address of the first cell, 0 for none.
    pub(super) fn address(self) -> u64 {
        self.word & !TAGS
    }
    /// The cells down to the first that was pushed, not copied, with a number below `floor`. All that have numbers from `floor` on are among them, if
    /// `floor` is a final marker's (see the module above).
    pub(super) fn cells_from(self, floor: u64) -> impl Iterator<Item = &'a ListCell> {
        self.cells().take_while(move |c| floor == 0 || c.is_copy() || c.seq_pushed() >= floor)
    }
    pub(super) fn starts_with(self, cell: &ListCell) -> bool {
        self.word & !TAGS == ptr::from_ref(cell).addr() as u64
    }
}

/// Walks a list.
pub(super) struct Cells<'a> {
    next: u64,
    cells: PhantomData<&'a ListCell>,
}

impl<'a> Iterator for Cells<'a> {
    type Item = &'a ListCell;

    fn next(&mut self) -> Option<&'a ListCell> {
        let cell = NonNull::new(ptr::with_exposed_provenance_mut::<ListCell>(self.next as usize))?;
        hooks::visit_cell();
        // SAFETY: only `push` puts addresses into chain and next words; its cells are initialised and live for 'a (contract of `load`).
        let cell = unsafe { cell.as_ref() };
        // Relaxed: written before the cell was published, never after.
        self.next = cell.next.load(Relaxed);
        Some(cell)
    }
}

/// One cell of a list; `len` value bytes follow it. A copy of an increment is a [`CopyCell`].
#[derive(Debug)]
#[repr(C)]
pub(in crate::memstore) struct ListCell {
    next: AtomicU64,
    /// 0 while the cell is being overwritten.
    seq: AtomicU64,
    ts: AtomicU64,
    /// [`COPY`] or a `CellType` code, with [`FINAL`].
    kind: u8,
    len: u32,
}

/// A copy of an increment's version. Its value is an atomic, since a dead copy is overwritten while readers pass.
#[derive(Debug)]
#[repr(C)]
pub(in crate::memstore) struct CopyCell {
    pub(super) head: ListCell,
    value: AtomicU64,
}

/// Kind of a copy; not a cell type's code.
const COPY: u8 = 1;
/// Bit of `kind`: a marker whose timestamp is not below that of anything in its scope with a smaller number.
const FINAL: u8 = 0x80;

#[cfg(not(loom))]
const _: () = assert!(size_of::<ListCell>() == 32 && size_of::<CopyCell>() == 40 && align_of::<CopyCell>() == 8);

impl ListCell {
    /// Bytes of a cell with a value of `len` bytes.
    pub(in crate::memstore) const fn size(len: usize) -> usize {
        size_of::<Self>() + len
    }
    /// Bytes of this cell, as of [`ListCell::size`].
    pub(in crate::memstore) fn bytes(&self) -> usize {
        Self::size(self.len as usize)
    }
    /// Writes a cell with its value; number and timestamp come when it is pushed.
    ///
    /// # Safety
    /// `to` is 8-aligned and valid for writes of `size(value.len())` bytes, and nobody else's.
    pub(in crate::memstore) unsafe fn write(to: NonNull<u8>, kind: CellType, is_final: bool, value: &[u8]) -> NonNull<Self> {
        let cell = to.cast::<Self>();
        // SAFETY: valid for writes, by contract.
        unsafe { cell.write(Self::of_kind(kind, is_final, value.len())) };
        // SAFETY: `size` counts the value behind the head.
        let bytes = unsafe { to.add(size_of::<Self>()) };
        // SAFETY: as above; fresh memory cannot overlap the caller's value.
        unsafe { ptr::copy_nonoverlapping(value.as_ptr(), bytes.as_ptr(), value.len()) };
        cell
    }
    /// A cell of `kind`, `len` bytes behind it.
    pub(super) fn of_kind(kind: CellType, is_final: bool, len: usize) -> Self {
        Self::new(kind as u8 | if is_final { FINAL } else { 0 }, len as u32)
    }
    pub(super) fn new(kind: u8, len: u32) -> Self {
        Self { next: AtomicU64::new(0), seq: AtomicU64::new(0), ts: AtomicU64::new(0), kind, len }
    }
    /// Number and timestamp. Before the push.
    pub(super) fn fill(&self, seq: u64, ts: u64) {
        // Relaxed: published by the push.
        self.seq.store(seq, Relaxed);
        self.ts.store(ts, Relaxed);
    }
    pub(super) fn is_marker(&self) -> bool {
        !matches!(self.cell_type(), None | Some(CellType::Put))
    }
    /// True for a marker that leaves nothing of what is older than it.
    pub(super) fn is_final(&self) -> bool {
        self.kind & FINAL != 0
    }
    pub(super) fn is_copy(&self) -> bool {
        self.kind == COPY
    }
    /// What it is; None for copies and notes.
    pub(super) fn cell_type(&self) -> Option<CellType> {
        CellType::from_u8(self.kind & !FINAL)
    }
    /// The number of a cell that is not a copy: it is never overwritten.
    pub(super) fn seq_pushed(&self) -> u64 {
        // Relaxed: written before the push, never after.
        self.seq.load(Relaxed)
    }
    /// The cell pushed before it, for whoever walks another kind of list.
    pub(super) fn next_address(&self) -> u64 {
        // Relaxed: written before the cell was published, never after.
        self.next.load(Relaxed)
    }
    /// This cell as a copy that may be overwritten; None for what a put or delete wrote.
    pub(super) fn as_copy(&self) -> Option<NonNull<CopyCell>> {
        // The address comes from the chain word, so its provenance is that of the whole allocation, not of `self` alone.
        (self.kind == COPY).then(|| ptr::with_exposed_provenance_mut::<CopyCell>(ptr::from_ref(self).addr())).and_then(NonNull::new)
    }
    /// (timestamp, number) for the row lock's owner, who alone overwrites cells.
    pub(super) fn key_owned(&self) -> (u64, u64) {
        // Relaxed: only the row lock's owner writes them.
        (self.ts.load(Relaxed), self.seq.load(Relaxed))
    }
    /// What the cell holds; None while a copy is being overwritten.
    pub(super) fn read<'a>(&'a self) -> Option<VersionRef<'a>> {
        if let Some(copy) = self.as_copy() {
            // SAFETY: `kind` is COPY only in the head of an initialised CopyCell, which lives as long as its head.
            return unsafe { copy.as_ref() }.read();
        }
        // Relaxed: written before the push, never after.
        let (ts, seq) = self.key_owned();
        let kind = self.cell_type()?;
        let bytes = ptr::with_exposed_provenance::<u8>(ptr::from_ref(self).addr() + size_of::<Self>());
        // SAFETY: `write` put `len` bytes there before the push and nobody writes them again; they live as long as the cell.
        let value = unsafe { std::slice::from_raw_parts(bytes, self.len as usize) };
        Some(VersionRef { seq, ts, kind, value: VersionValue::Bytes(value) })
    }
}

impl CopyCell {
    /// An empty copy.
    pub(in crate::memstore) fn new() -> Self {
        Self { head: ListCell::new(COPY, 8), value: AtomicU64::new(0) }
    }
    /// Content of a copy that is not pushed yet.
    pub(super) fn fill(&self, v: Version) {
        self.head.fill(v.seq, v.ts);
        // Relaxed: published by the push.
        self.value.store(v.value as u64, Relaxed);
    }
    /// Puts another version into a copy that no reader can need. Row lock held.
    pub(super) fn overwrite(&self, v: Version) {
        // Release: who sees the 0 sees what decided that the cell is dead: `applied`, `stable`, D.
        self.head.seq.store(0, unless(Flaw::CellZero, Release));
        if !off(Flaw::CellFence) {
            // Who sees one of the two stores below, and then an acquire fence, sees the 0 (or more): no torn version.
            fence(Release);
        }
        self.head.ts.store(v.ts, DATA_STORE);
        self.value.store(v.value as u64, DATA_STORE);
        // Release: pairs with the first load of `read`.
        self.head.seq.store(v.seq, Release);
    }
    fn read<'a>(&self) -> Option<VersionRef<'a>> {
        let v = super::read_validated(&self.head.seq, &self.head.ts, &self.value)?;
        Some(v.as_ref())
    }
}
