//! What one commit writes: rows, and the cells of each. Values are final; where the memory for them comes from is the commit's business.

use crate::cell::CellType;
use crate::ids::{FamilyId, RowHash};
use crate::memstore::{ColumnRef, NewCell, Plan, RowRef, SpareCopy};
use std::ops::Range;

/// One row of a commit. The caller owns its row lock.
pub struct RowChange<'a, 'v> {
    /// Keyed hash of `row`.
    pub hash: RowHash,
    /// Row key.
    pub row: &'a [u8],
    /// Its cells in the commit's list of cells.
    pub cells: Range<usize>,
    /// The row in the active segment, if it was found there; filled in by the commit otherwise.
    pub found: Option<RowRef<'v>>,
}

/// What is written to a column.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// A counter's new value; its timestamp is above `above`, the timestamp of the value it was added to.
    Counter {
        /// The value.
        value: i64,
        /// Timestamp of the value before, 0 for none.
        above: u64,
    },
    /// A value; `timestamp` 0 = the commit's tick.
    Put {
        /// The bytes.
        value: &'a [u8],
        /// Its timestamp.
        timestamp: u64,
    },
    /// A delete marker; `timestamp` 0 = the commit's tick.
    Marker {
        /// Which one.
        kind: CellType,
        /// Its timestamp.
        timestamp: u64,
    },
    /// Nothing: a later operation of the call took it back.
    Nothing,
}

/// One cell of a commit.
pub struct CellChange<'a, 'v> {
    /// Column family, known to the view.
    pub family: FamilyId,
    /// Column qualifier.
    pub qualifier: &'a [u8],
    /// What is written.
    pub write: Write<'a>,
    /// The family keeps this many versions.
    pub max_versions: u32,
    /// The column in the active segment, if it was found there.
    pub found: Option<ColumnRef<'v>>,
    /// Memory taken for it, between "take all memory" and "apply".
    pub(super) ready: Ready,
    /// The timestamp it gets.
    pub(super) timestamp: u64,
}

/// Memory and decisions of a cell, taken before the number.
pub(super) enum Ready {
    /// Nothing yet.
    No,
    /// A counter: what becomes of the version it replaces.
    Counter { plan: Plan, spare: Option<SpareCopy> },
    /// A list cell, filled but for number and timestamp.
    Cell(NewCell),
}

impl<'a, 'v> CellChange<'a, 'v> {
    /// A cell to write, with what the caller's lookup found.
    pub fn new(family: FamilyId, qualifier: &'a [u8], write: Write<'a>, max_versions: u32, found: Option<ColumnRef<'v>>) -> Self {
        Self { family, qualifier, write, max_versions, found, ready: Ready::No, timestamp: 0 }
    }
}
