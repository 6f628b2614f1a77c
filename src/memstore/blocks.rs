//! The arena's two kinds of objects that are found by key: a row's block and a column's block, and the words that name them.
//!
//! Row block, 128-byte aligned; an increment of the row's first counter touches its two cache lines and nothing else:
//!
//! | offset | content |
//! |---|---|
//! | 0 | `RowHeader`: applied, stable, 2 slots of the embedded column; then pending, markers (line 1 begins at `pending`) |
//! | 80 | chain of the embedded column |
//! | 88 | u32 family of the embedded column (0: none), u16 row length, u16 its qualifier's length |
//! | 96 | row bytes, then the embedded qualifier; beyond 128 if longer than 32 bytes |
//!
//! Column block, 8-aligned: row address, chain, slots address (0 until the first increment), u32 family, u32 qualifier length, qualifier.
//! One made by an increment has its slots directly before it and is 64-byte aligned there, so slots, row and chain share a line.
//!
//! A *word* names a column in 8 bytes, in the row table and in the ordered index: the address of the column block, or the address of the row
//! block plus 1 for the embedded column. In the row table the latter names the row.
//!
//! Threads: key bytes are written before a block is published and never after; all other words are atomics.

use super::row_header::RowHeader;
use super::row_table::prefetch_line;
use super::versions::{Chain, Marks, Slots, Versions};
use crate::ids::FamilyId;
use crate::sync::AtomicPtr;
use crate::sync::Ordering::{Acquire, Release};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{self, NonNull};

/// Memory of a row.
#[repr(C, align(128))]
pub(super) struct RowBlock {
    header: RowHeader,
    chain: Chain,
    family: u32,
    row_len: u16,
    qualifier_len: u16,
    key: [MaybeUninit<u8>; INLINE_KEY],
}

const INLINE_KEY: usize = 32;
/// Where a row block's second cache line begins: markers, lengths, key.
const SECOND_LINE: usize = 64;
/// Alignment of a row block.
pub(super) const ROW_ALIGN: usize = 128;
/// Longest qualifier of an embedded column.
pub(super) const EMBEDDED_QUALIFIER_MAX: usize = u16::MAX as usize;

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<RowBlock>() == 128 && align_of::<RowBlock>() == ROW_ALIGN);
    assert!(offset_of!(RowBlock, chain) == 80 && offset_of!(RowBlock, key) == 96);
    assert!(size_of::<RowHeader>() == 80);
};

/// Memory of a column that is not embedded in its row's block.
#[repr(C)]
pub(super) struct ColumnBlock {
    row: NonNull<RowBlock>,
    chain: Chain,
    slots: AtomicPtr<Slots>,
    family: u32,
    qualifier_len: u32,
}

/// Alignment of a column block that has its slots before it.
pub(super) const COUNTER_ALIGN: usize = 64;

#[cfg(not(loom))]
const _: () = assert!(size_of::<ColumnBlock>() == 32 && align_of::<ColumnBlock>() == 8);

/// A column, in 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

const EMBEDDED: u64 = 1;

/// A row of a segment that lives for 'a.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    block: NonNull<RowBlock>,
    segment: PhantomData<&'a RowBlock>,
}

/// A column of a segment that lives for 'a.
#[derive(Clone, Copy)]
pub(super) enum Column<'a> {
    Embedded(Row<'a>),
    Standalone(NonNull<ColumnBlock>, PhantomData<&'a ColumnBlock>),
}

// SAFETY: both are shared references to blocks whose mutable words are atomics.
unsafe impl Send for Row<'_> {}
// SAFETY: as above.
unsafe impl Sync for Row<'_> {}
// SAFETY: as above.
unsafe impl Send for Column<'_> {}
// SAFETY: as above.
unsafe impl Sync for Column<'_> {}

impl<'a> Row<'a> {
    /// Bytes of a row's block.
    pub(super) fn size(row: &[u8], embedded: Option<(FamilyId, &[u8])>) -> usize {
        let key = row.len() + embedded.map_or(0, |(_, q)| q.len());
        (offset_of!(RowBlock, key) + key).next_multiple_of(8).max(size_of::<RowBlock>())
    }
    /// Writes a row's block without commits. The embedded column is not in the index yet, so it does not exist for anybody.
    ///
    /// # Safety
    /// `to` is aligned to [`ROW_ALIGN`], valid for `size` bytes for 'a, and nobody else's.
    pub(super) unsafe fn write(to: NonNull<u8>, row: &[u8], embedded: Option<(FamilyId, &[u8])>) -> Self {
        let (family, qualifier) = embedded.map_or((0, &[][..]), |(f, q)| (f.0, q));
        assert!(row.len() <= u16::MAX as usize && qualifier.len() <= EMBEDDED_QUALIFIER_MAX, "row or embedded qualifier too long");
        let block = RowBlock {
            header: RowHeader::new(),
            chain: Chain::unindexed(),
            family,
            row_len: row.len() as u16,
            qualifier_len: qualifier.len() as u16,
            key: [MaybeUninit::uninit(); INLINE_KEY],
        };
        let at = to.cast::<RowBlock>();
        // SAFETY: aligned and valid for writes, by contract.
        unsafe { at.write(block) };
        let this = Self { block: at, segment: PhantomData };
        let key = this.key().cast_mut();
        // SAFETY: `size` counts row and qualifier behind the fixed part; fresh memory overlaps nothing.
        unsafe { ptr::copy_nonoverlapping(row.as_ptr(), key, row.len()) };
        // SAFETY: as above, the qualifier behind the row.
        let behind = unsafe { key.add(row.len()) };
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(qualifier.as_ptr(), behind, qualifier.len()) };
        this
    }
    fn fixed(self) -> &'a RowBlock {
        // SAFETY: written by `write`, and lives for 'a.
        unsafe { self.block.as_ref() }
    }
    fn key(self) -> *const u8 {
        // From the block's own pointer, not through a reference: the key may go on beyond the struct.
        self.block.as_ptr().cast::<u8>().wrapping_add(offset_of!(RowBlock, key)).cast_const()
    }
    pub(super) fn header(self) -> &'a RowHeader {
        &self.fixed().header
    }
    /// The row's list of family markers.
    pub(super) fn markers(self) -> Marks<'a> {
        // SAFETY: cells are only pushed by `RowRef` and the segment, which check that they are of the segment that holds the row, and row cells.
        unsafe { Marks::new(&self.header().markers) }
    }
    pub(super) fn bytes(self) -> &'a [u8] {
        // SAFETY: `write` put that many bytes there before the block was published; nobody writes them again.
        unsafe { std::slice::from_raw_parts(self.key(), self.fixed().row_len as usize) }
    }
    fn qualifier(self) -> &'a [u8] {
        let fixed = self.fixed();
        let at = self.key().wrapping_add(fixed.row_len as usize);
        // SAFETY: as `bytes`.
        unsafe { std::slice::from_raw_parts(at, fixed.qualifier_len as usize) }
    }
    /// The embedded column if it is this one.
    pub(super) fn embedded(self, family: FamilyId, qualifier: &[u8]) -> Option<Column<'a>> {
        (family.0 != 0 && self.fixed().family == family.0 && self.qualifier() == qualifier).then_some(Column::Embedded(self))
    }
    pub(super) fn has_embedded(self) -> bool {
        self.fixed().family != 0
    }
    pub(super) fn is(self, other: Row<'_>) -> bool {
        self.block.addr() == other.block.addr()
    }
    pub(super) fn address(self) -> u64 {
        self.block.addr().get() as u64
    }
    pub(super) fn word(self) -> Word {
        Word(self.block.as_ptr().expose_provenance() as u64 | EMBEDDED)
    }
}

impl<'a> Column<'a> {
    /// The column that a word names.
    ///
    /// # Safety
    /// The word comes from `word` of a row or column that lives for 'a.
    pub(super) unsafe fn from_word(word: Word) -> Self {
        let address = (word.0 & !EMBEDDED) as usize;
        if word.0 & EMBEDDED != 0 {
            let block = ptr::with_exposed_provenance_mut::<RowBlock>(address);
            // SAFETY: words hold addresses of blocks, never 0.
            Self::Embedded(Row { block: unsafe { NonNull::new_unchecked(block) }, segment: PhantomData })
        } else {
            let block = ptr::with_exposed_provenance_mut::<ColumnBlock>(address);
            // SAFETY: as above.
            Self::Standalone(unsafe { NonNull::new_unchecked(block) }, PhantomData)
        }
    }
    /// Bytes and alignment of a column's block, with its slots if it is a counter's.
    pub(super) fn layout(qualifier: &[u8], counter: bool) -> (usize, usize) {
        let block = size_of::<ColumnBlock>() + qualifier.len();
        if counter { (size_of::<Slots>() + block, COUNTER_ALIGN) } else { (block, align_of::<ColumnBlock>()) }
    }
    /// Writes a column's block, empty and not in the index yet.
    ///
    /// # Safety
    /// `to` has the alignment and is valid for the bytes of `layout` for 'a, and nobody else's.
    pub(super) unsafe fn write(to: NonNull<u8>, row: Row<'a>, family: FamilyId, qualifier: &[u8], counter: bool) -> Self {
        let (at, slots) = if counter {
            let slots = to.cast::<Slots>();
            // SAFETY: valid for writes, by contract.
            unsafe { slots.write(Slots::default()) };
            // SAFETY: `layout` counts the slots before the block.
            (unsafe { to.add(size_of::<Slots>()) }, slots.as_ptr())
        } else {
            (to, ptr::null_mut())
        };
        let block = ColumnBlock {
            row: row.block,
            chain: Chain::unindexed(),
            slots: AtomicPtr::new(slots),
            family: family.0,
            qualifier_len: qualifier.len() as u32,
        };
        let at = at.cast::<ColumnBlock>();
        // SAFETY: valid for writes, by contract; 48 bytes of slots keep it 8-aligned.
        unsafe { at.write(block) };
        // SAFETY: `layout` counts the qualifier behind the block.
        let bytes = unsafe { at.add(1) }.cast::<u8>();
        // SAFETY: as above; fresh memory overlaps nothing.
        unsafe { ptr::copy_nonoverlapping(qualifier.as_ptr(), bytes.as_ptr(), qualifier.len()) };
        Self::Standalone(at, PhantomData)
    }
    fn fixed(block: NonNull<ColumnBlock>) -> &'a ColumnBlock {
        // SAFETY: written by `write`, and lives for 'a as the enum's own lifetime says.
        unsafe { block.as_ref() }
    }
    pub(super) fn word(self) -> Word {
        match self {
            Self::Embedded(row) => row.word(),
            Self::Standalone(block, _) => Word(block.as_ptr().expose_provenance() as u64),
        }
    }
    pub(super) fn row(self) -> Row<'a> {
        match self {
            Self::Embedded(row) => row,
            Self::Standalone(block, _) => Row { block: Self::fixed(block).row, segment: PhantomData },
        }
    }
    pub(super) fn family(self) -> FamilyId {
        match self {
            Self::Embedded(row) => FamilyId(row.fixed().family),
            Self::Standalone(block, _) => FamilyId(Self::fixed(block).family),
        }
    }
    pub(super) fn qualifier(self) -> &'a [u8] {
        match self {
            Self::Embedded(row) => row.qualifier(),
            Self::Standalone(block, _) => {
                let at = block.as_ptr().wrapping_add(1).cast::<u8>();
                // SAFETY: `write` put that many bytes there before the block was published; nobody writes them again.
                unsafe { std::slice::from_raw_parts(at, Self::fixed(block).qualifier_len as usize) }
            }
        }
    }
    pub(super) fn chain(self) -> &'a Chain {
        match self {
            Self::Embedded(row) => &row.fixed().chain,
            Self::Standalone(block, _) => &Self::fixed(block).chain,
        }
    }
    pub(super) fn slots(self) -> Option<&'a Slots> {
        match self {
            Self::Embedded(row) => Some(&row.header().slots),
            Self::Standalone(block, _) => {
                // Acquire: pairs with `set_slots`, the slots were written before.
                let slots = NonNull::new(Self::fixed(block).slots.load(Acquire))?;
                // SAFETY: initialised before they were published, and live for 'a.
                Some(unsafe { slots.as_ref() })
            }
        }
    }
    /// Brings into the cache what a scan needs of the column besides its own block: its row's key, and its first cell.
    #[inline]
    pub(super) fn prefetch_behind(self) {
        if let Self::Standalone(block, _) = self {
            let row = Self::fixed(block).row.as_ptr().cast::<u8>();
            prefetch_line(row.wrapping_add(SECOND_LINE));
        }
        if let Some(first) = self.chain().first() {
            prefetch_line(first);
            prefetch_line(first.wrapping_add(64));
        }
    }
    /// Bytes of slots that are taken later, for a column that a put created.
    pub(super) const SLOTS_BYTES: usize = size_of::<Slots>();
    /// Gives a standalone column its slots. Row lock held; the column has none.
    ///
    /// # Safety
    /// `to` is 8-aligned, valid for `SLOTS_BYTES` bytes for 'a, and nobody else's.
    pub(super) unsafe fn set_slots(self, to: NonNull<u8>) {
        let Self::Standalone(block, _) = self else { return };
        let slots = to.cast::<Slots>();
        // SAFETY: valid for writes, by contract.
        unsafe { slots.write(Slots::default()) };
        // Release: pairs with `slots`.
        Self::fixed(block).slots.store(slots.as_ptr(), Release);
    }
    /// Its versions.
    pub(super) fn versions(self) -> Versions<'a> {
        // SAFETY: cells are only pushed by `ColumnRef`, which checks that they are of the segment that holds the column.
        unsafe { Versions::new(self.slots(), self.chain()) }
    }
}
