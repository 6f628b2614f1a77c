//! Cells: data and order only. No I/O, no locks, no clock.
//!
//! A cell is one version of a column, or a delete marker. `CellRef` borrows from wherever the cell lies (memstore, log record, store file);
//! `Cell` owns its bytes. The order is HBase's and stands in `order.rs` alone.
#![forbid(unsafe_code)]

pub mod order;
pub mod source;

use crate::ids::{FamilyId, SequenceNumber};

/// What a cell is. The numbers are HBase's type codes: they reach disk and the C interface, never change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CellType {
    /// A value.
    Put = 4,
    /// Hides the one version with exactly this timestamp.
    DeleteVersion = 8,
    /// Hides, in every column of the family, the version with exactly this timestamp.
    DeleteFamilyVersion = 10,
    /// Hides all versions of the column up to this timestamp.
    Delete = 12,
    /// Hides all columns of the family up to this timestamp.
    DeleteFamily = 14,
}

impl CellType {
    /// From the stored code.
    pub const fn from_u8(code: u8) -> Option<Self> {
        match code {
            4 => Some(Self::Put),
            8 => Some(Self::DeleteVersion),
            10 => Some(Self::DeleteFamilyVersion),
            12 => Some(Self::Delete),
            14 => Some(Self::DeleteFamily),
            _ => None,
        }
    }
    /// True for every kind of delete marker.
    pub const fn is_marker(self) -> bool {
        !matches!(self, Self::Put)
    }
    /// True for the markers of a row's family, rather than of a column: they stand in the row's own list.
    pub const fn is_of_family(self) -> bool {
        matches!(self, Self::DeleteFamily | Self::DeleteFamilyVersion)
    }
}

/// One cell, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRef<'a> {
    /// Row key, 1 to 32,767 bytes.
    pub row: &'a [u8],
    /// Column family.
    pub family: FamilyId,
    /// Column qualifier, may be empty.
    pub qualifier: &'a [u8],
    /// In the region's clock unit.
    pub timestamp: u64,
    /// Value or which marker.
    pub kind: CellType,
    /// Number of the commit that wrote it.
    pub seq: SequenceNumber,
    /// Empty for markers.
    pub value: &'a [u8],
    /// HBase's cell tags, encoded; empty today.
    pub tags: &'a [u8],
}

/// One cell, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Row key.
    pub row: Vec<u8>,
    /// Column family.
    pub family: FamilyId,
    /// Column qualifier.
    pub qualifier: Vec<u8>,
    /// In the region's clock unit.
    pub timestamp: u64,
    /// Value or which marker.
    pub kind: CellType,
    /// Number of the commit that wrote it.
    pub seq: SequenceNumber,
    /// Empty for markers.
    pub value: Vec<u8>,
    /// HBase's cell tags, encoded.
    pub tags: Vec<u8>,
}

impl CellRef<'_> {
    /// A copy that owns its bytes.
    pub fn to_cell(&self) -> Cell {
        Cell {
            row: self.row.to_vec(),
            family: self.family,
            qualifier: self.qualifier.to_vec(),
            timestamp: self.timestamp,
            kind: self.kind,
            seq: self.seq,
            value: self.value.to_vec(),
            tags: self.tags.to_vec(),
        }
    }
}

impl Cell {
    /// The same cell, borrowed.
    pub fn as_ref(&self) -> CellRef<'_> {
        CellRef {
            row: &self.row,
            family: self.family,
            qualifier: &self.qualifier,
            timestamp: self.timestamp,
            kind: self.kind,
            seq: self.seq,
            value: &self.value,
            tags: &self.tags,
        }
    }
}
