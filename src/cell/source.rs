//! What memstore segments and store files have in common for a reader: cells in order, from any place on.

use super::CellRef;
use crate::error::Result;
use crate::ids::FamilyId;

/// A place in a region: the first cell of a column, or of the first column after it.
#[derive(Clone, Copy, Debug)]
pub struct SeekKey<'a> {
    /// Row key; empty is before every row.
    pub row: &'a [u8],
    /// Family within the row; 0 is before every family.
    pub family: FamilyId,
    /// Qualifier within the family.
    pub qualifier: &'a [u8],
}

/// A cursor over cells in the order of [`super::order::compare`]. Used by one thread at a time.
pub trait CellSource {
    /// Go to the first cell at or after `key`.
    fn seek(&mut self, key: SeekKey<'_>) -> Result<()>;
    /// The current cell; None at the end. Damage is an error, never an end.
    fn peek(&self) -> Option<CellRef<'_>>;
    /// Go to the next cell.
    fn next(&mut self) -> Result<()>;
}
