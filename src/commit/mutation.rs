//! What one commit writes: rows, and the cells of each. Values are final; where the memory for them comes from is the commit's business.

use crate::cell::CellType;
use crate::ids::{FamilyId, RowHash, Tick};
use crate::memstore::{ColumnRef, Keep, NewCell, Plan, RowRef, SpareCopy};
use crate::options::Durability;
use crate::wal::NonceNotes;
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

/// Which timestamp a cell gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// The commit's tick.
    Tick,
    /// The caller's own.
    At(u64),
    /// The tick, or one more than this if that is larger: above the value that it takes the place of.
    Above(u64),
}

impl Stamp {
    /// The caller's own timestamp; 0 = the tick.
    pub const fn of(timestamp: u64) -> Self {
        if timestamp == 0 { Self::Tick } else { Self::At(timestamp) }
    }
    /// The timestamp, once the tick is known.
    #[inline]
    pub fn at(self, tick: Tick) -> u64 {
        match self {
            Self::Tick => tick.0,
            Self::At(timestamp) => timestamp,
            Self::Above(timestamp) => tick.0.max(timestamp.saturating_add(1)),
        }
    }
}

/// What is written to a column.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// A counter's new value; its timestamp is above `above`, the timestamp of the value it was added to. At most one for a column.
    Counter {
        /// The value.
        value: i64,
        /// Timestamp of the value before, 0 for none.
        above: u64,
    },
    /// A value.
    Put {
        /// The bytes.
        value: &'a [u8],
        /// Its timestamp.
        stamp: Stamp,
    },
    /// A delete marker, of the column or (the kinds that say so) of the row's whole family; those have an empty qualifier.
    Marker {
        /// Which one.
        kind: CellType,
        /// Its timestamp.
        stamp: Stamp,
    },
    /// Nothing: a later operation of the call took it back.
    Nothing,
}

impl Write<'_> {
    /// True for what a reader can be shown.
    pub const fn is_value(&self) -> bool {
        matches!(self, Self::Counter { .. } | Self::Put { .. })
    }
    /// Its timestamp, once the tick is known; 0 for nothing.
    #[inline]
    pub fn timestamp(&self, tick: Tick) -> u64 {
        match *self {
            // Above the value it was added to, even if that carries a time in the future: the counter stays the newest version.
            Self::Counter { above, .. } => Stamp::Above(above).at(tick),
            Self::Put { stamp, .. } | Self::Marker { stamp, .. } => stamp.at(tick),
            Self::Nothing => 0,
        }
    }
}

/// Which marker hides a family of a row, rather than a column.
pub const fn is_of_family(kind: CellType) -> bool {
    matches!(kind, CellType::DeleteFamily | CellType::DeleteFamilyVersion)
}

/// Whether a marker leaves nothing of what is older in its scope. A row's ticks only grow, so it reaches all that has a timestamp up to its own commit's tick
/// if it reaches that; what had one above is no larger than `ahead`.
pub const fn is_final(kind: CellType, timestamp: u64, tick: Tick, ahead: u64) -> bool {
    matches!(kind, CellType::Delete | CellType::DeleteFamily) && timestamp >= tick.0 && timestamp >= ahead
}

/// One cell of a commit.
pub struct CellChange<'a, 'v> {
    /// Column family, known to the view.
    pub family: FamilyId,
    /// Column qualifier.
    pub qualifier: &'a [u8],
    /// What is written.
    pub write: Write<'a>,
    /// What its family keeps.
    pub keep: Keep,
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
    /// `held`: an open read point is the reason that it is copied.
    Counter { plan: Plan, spare: Option<SpareCopy>, held: bool },
    /// A list cell, filled but for number and timestamp.
    Cell(NewCell),
    /// The same, for the row's list of family markers.
    RowMarker(NewCell),
}

/// How a commit is made.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'t> {
    /// The level asked for.
    pub durability: Durability,
    /// The tick, if it was drawn already under the same row locks.
    pub tick: Option<Tick>,
    /// The caller's thread, which spreads memory.
    pub thread: usize,
    /// What the record says of the call's nonce, if it has one.
    pub nonces: Option<&'t NonceNotes<Vec<u8>>>,
}

impl<'a, 'v> CellChange<'a, 'v> {
    /// A cell to write, with what the caller's lookup found.
    pub fn new(family: FamilyId, qualifier: &'a [u8], write: Write<'a>, keep: Keep, found: Option<ColumnRef<'v>>) -> Self {
        Self { family, qualifier, write, keep, found, ready: Ready::No, timestamp: 0 }
    }
}
