//! The one comparison of cells and columns. No other file compares cells.
//!
//! Order: row ascending, family ascending, qualifier ascending, timestamp descending, type code descending (markers before values of the
//! same timestamp), sequence number descending. Bytes compare unsigned, a prefix before its extensions.

use super::CellRef;
use crate::ids::FamilyId;
use std::cmp::Ordering;

/// Order of two columns.
pub fn compare_columns(a: (&[u8], FamilyId, &[u8]), b: (&[u8], FamilyId, &[u8])) -> Ordering {
    a.0.cmp(b.0).then(a.1.cmp(&b.1)).then_with(|| compare_qualifiers(a.2, b.2))
}

/// An empty qualifier is often a literal, whose pointer leads nowhere. glibc's comparison with masked loads touches that address although it compares no
/// bytes, which takes the processor 90 ns instead of 2.
#[inline]
fn compare_qualifiers(a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() { a.len().cmp(&b.len()) } else { a.cmp(b) }
}

/// Order of two cells.
pub fn compare(a: &CellRef<'_>, b: &CellRef<'_>) -> Ordering {
    compare_columns((a.row, a.family, a.qualifier), (b.row, b.family, b.qualifier))
        .then(b.timestamp.cmp(&a.timestamp))
        .then((b.kind as u8).cmp(&(a.kind as u8)))
        .then(b.seq.cmp(&a.seq))
}

#[cfg(test)]
mod tests;
