//! What a reader or writer holds of the region at one moment: the active segment, the sealed ones, the families.
//!
//! A view is an immutable value. Seal, flush and family changes publish a new one (`mvcc::Published`); whoever holds a commit slot keeps the
//! view it loaded, and all it names, until the slot is free. This is the only owner of the list of segments.

use crate::ids::{FamilyId, RowHash};
use crate::memstore::{OldCells, RowRef, Segment};
use crate::store::family::{Families, FamilyInfo};
use crate::sync::Arc;

/// One state of the region. Cheap to clone: everything in it is shared.
#[derive(Clone)]
pub struct View {
    /// Takes all commits.
    pub active: Arc<Segment>,
    /// Frozen or freezing segments, newest first.
    pub sealed: Vec<Arc<Segment>>,
    /// Families that may be used.
    pub families: Arc<Families>,
}

impl View {
    /// Every segment, newest first.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        std::iter::once(&self.active).chain(self.sealed.iter())
    }
    /// The family's settings, None if it was dropped or never there.
    pub fn family(&self, id: FamilyId) -> Option<&Arc<FamilyInfo>> {
        self.families.get(id)
    }
    /// What lists of cells hold behind the newest, over all segments.
    pub fn old_cells(&self) -> OldCells {
        self.segments().map(|s| s.old_cells()).fold(OldCells::default(), |a, b| OldCells {
            cells: a.cells + b.cells,
            bytes: a.bytes + b.bytes,
            copies: a.copies + b.copies,
            copy_bytes: a.copy_bytes + b.copy_bytes,
        })
    }
    /// Largest timestamp of `family` in the sealed segments from index `from` on. Loaded now: a segment just sealed may still grow.
    pub fn max_ts_below(&self, from: usize, family: FamilyId) -> u64 {
        self.sealed.iter().skip(from).map(|s| s.max_ts(family)).max().unwrap_or(0)
    }
    /// The largest timestamp that a value of the row has above its commit's tick, in every segment; `active` is the row in the active one. Whoever adds
    /// another source of cells to the view adds what it knows here, or no marker may be final.
    pub fn ahead(&self, active: RowRef<'_>, hash: RowHash) -> u64 {
        let sealed = self.sealed.iter().filter_map(|s| s.find_row(hash, active.row())).map(|r| r.ahead());
        sealed.fold(active.ahead(), u64::max)
    }
}
