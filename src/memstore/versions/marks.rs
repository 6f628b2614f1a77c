//! The list of a row: delete markers of its families, newest first, and notes of timestamps that were ahead.
//!
//! A *note* is a cell that no reader looks at. It stands for values whose timestamp is larger than their commit's tick: what a marker has to reach to be
//! final, besides the tick of its own commit, since a row's ticks only grow. Every cell carries the largest such timestamp that was there when it was
//! pushed, so the first one tells; a note that is still the first is raised in place.
//!
//! A cell also knows the first one below of another family, so that whoever looks for a family passes a run of markers of another one in one step.
//!
//! Threads: pushes and notes by the owner of the row lock; the markers by anybody.

use super::cell::{Chain, HAS_MARKER, ListCell};
use crate::cell::CellType;
use crate::hooks;
use crate::ids::FamilyId;
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;
use std::ops::ControlFlow;
use std::ptr::{self, NonNull};

/// A delete marker of a row's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowMarker {
    /// The family.
    pub family: FamilyId,
    /// `DeleteFamily` or `DeleteFamilyVersion`.
    pub kind: CellType,
    /// Number of its commit.
    pub seq: u64,
    /// Its timestamp.
    pub ts: u64,
    /// Nothing of the family that is older is left.
    pub is_final: bool,
}

/// A family's newest marker up to a cut, as far as a column needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Over {
    /// Its number; 0: there is none.
    pub seq: u64,
    /// Nothing of the family that is older is left.
    pub is_final: bool,
}

impl Over {
    /// The number below which nothing counts; 0: there is none.
    pub fn floor(self) -> u64 {
        if self.is_final { self.seq } else { 0 }
    }
}

/// One cell of a row's list.
#[derive(Debug)]
#[repr(C)]
pub(in crate::memstore) struct RowCell {
    head: ListCell,
    ahead: AtomicU64,
    other: AtomicU64,
    /// 0 for a note.
    family: u32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<RowCell>() == 56 && align_of::<RowCell>() == 8);

/// Kind of a note; not a cell type's code.
const NOTE: u8 = 2;

/// Bytes behind the part that all cells have.
const MORE: usize = size_of::<RowCell>() - size_of::<ListCell>();

impl RowCell {
    /// Bytes of a cell.
    pub(in crate::memstore) const BYTES: usize = size_of::<Self>();

    /// Writes a marker of `family`, or a note (`kind` None).
    ///
    /// # Safety
    /// `to` is 8-aligned and valid for writes of [`RowCell::BYTES`] bytes, and nobody else's.
    pub(in crate::memstore) unsafe fn write(to: NonNull<u8>, kind: Option<CellType>, is_final: bool, family: FamilyId) -> NonNull<Self> {
        let head = match kind {
            Some(kind) => ListCell::of_kind(kind, is_final, MORE),
            None => ListCell::new(NOTE, MORE as u32),
        };
        let cell = to.cast::<Self>();
        // SAFETY: valid for writes, by contract.
        unsafe { cell.write(Self { head, ahead: AtomicU64::new(0), other: AtomicU64::new(0), family: family.0 }) };
        cell
    }
    fn marker(&self) -> Option<RowMarker> {
        let kind = self.head.cell_type()?;
        // Written before the push, never after.
        let (ts, seq) = self.head.key_owned();
        Some(RowMarker { family: FamilyId(self.family), kind, seq, ts, is_final: self.head.is_final() })
    }
}

/// A row's list.
#[derive(Clone, Copy)]
pub(in crate::memstore) struct Marks<'a> {
    chain: &'a Chain,
}

impl<'a> Marks<'a> {
    /// # Safety
    /// Every cell pushed to `chain` is the head of a [`RowCell`] and lives for 'a.
    pub(in crate::memstore) unsafe fn new(chain: &'a Chain) -> Self {
        Self { chain }
    }
    fn first(self) -> u64 {
        // SAFETY: by contract of `new`.
        unsafe { self.chain.load() }.address()
    }
    fn at(self, address: u64) -> Option<&'a RowCell> {
        let cell = NonNull::new(ptr::with_exposed_provenance_mut::<RowCell>(address as usize))?;
        hooks::visit_cell();
        // SAFETY: only `push` puts addresses into this chain and its cells; they are initialised and live for 'a (contract of `new`).
        Some(unsafe { cell.as_ref() })
    }

    /// Gives the markers of a family with a number up to `cut` to `f`, newest first, until it has enough.
    pub(in crate::memstore) fn walk(self, family: FamilyId, cut: u64, mut f: impl FnMut(RowMarker) -> ControlFlow<()>) {
        let mut next = self.first();
        while let Some(cell) = self.at(next) {
            next = if cell.family == family.0 {
                if let Some(marker) = cell.marker().filter(|m| m.seq <= cut)
                    && f(marker).is_break()
                {
                    return;
                }
                cell.head.next_address()
            } else {
                // Relaxed: written before the cell was published, never after.
                cell.other.load(Relaxed)
            };
        }
    }
    /// The family's newest marker up to `cut`.
    pub(in crate::memstore) fn over(self, family: FamilyId, cut: u64) -> Over {
        let mut over = Over::default();
        self.walk(family, cut, |m| {
            over = Over { seq: m.seq, is_final: m.is_final };
            ControlFlow::Break(())
        });
        over
    }

    /// The largest timestamp above its commit's tick; 0: there was none. Row lock held.
    pub(in crate::memstore) fn ahead(self) -> u64 {
        // Relaxed: only the row lock's owner writes it after the push.
        self.at(self.first()).map_or(0, |c| c.ahead.load(Relaxed))
    }
    /// A value gets a timestamp above its commit's tick. False: that needs a note. Row lock held.
    pub(in crate::memstore) fn raise_ahead(self, ts: u64) -> bool {
        let Some(first) = self.at(self.first()) else { return false };
        // Relaxed, both: read by owners of the row lock only.
        if first.ahead.load(Relaxed) >= ts {
            return true;
        }
        let is_note = first.family == 0;
        if is_note {
            first.ahead.store(ts, Relaxed);
        }
        is_note
    }
    /// Pushes a marker. Row lock held.
    ///
    /// # Safety
    /// `cell` is an initialised [`RowCell`], was never pushed, and lives as long as the chain is read.
    pub(in crate::memstore) unsafe fn push(self, cell: NonNull<RowCell>, seq: u64, ts: u64) {
        // SAFETY: by contract.
        unsafe { self.link(cell, seq, ts, self.ahead(), HAS_MARKER) };
    }
    /// Pushes a note. Row lock held.
    ///
    /// # Safety
    /// As `push`.
    pub(in crate::memstore) unsafe fn push_note(self, cell: NonNull<RowCell>, ahead: u64) {
        // SAFETY: by contract.
        unsafe { self.link(cell, 0, 0, ahead, 0) };
    }
    /// # Safety
    /// As `push`.
    unsafe fn link(self, cell: NonNull<RowCell>, seq: u64, ts: u64, ahead: u64, tags: u64) {
        // SAFETY: initialised, by contract.
        let c = unsafe { cell.as_ref() };
        c.head.fill(seq, ts);
        let first = self.first();
        let other = match self.at(first) {
            // Relaxed: only the row lock's owner writes it.
            Some(f) if f.family == c.family => f.other.load(Relaxed),
            _ => first,
        };
        // Relaxed, both: published by the push.
        c.ahead.store(ahead, Relaxed);
        c.other.store(other, Relaxed);
        // SAFETY: by contract; the head is the cell's first field.
        unsafe { self.chain.push(cell.cast(), tags) };
    }
}
