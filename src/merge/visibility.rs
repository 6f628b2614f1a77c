//! What a column holds: its cells replayed in the order of their numbers.
//!
//! A put enters a list sorted by (timestamp, number); what falls beyond the family's number of versions leaves for good; a marker takes out,
//! for good, what is in its scope and has a smaller number. So no answer depends on when a flush or a compaction ran, and a delete never hides
//! a put made after it, whatever their timestamps. Inside one commit (one number) the marker comes first: a call that puts and then deletes
//! writes only the marker, so a value beside a marker of its own number was meant to stay.

use crate::cell::CellType;

/// One cell of a column, as the replay needs it. `V` is whatever stands for the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<V> {
    /// Commit number.
    pub seq: u64,
    /// Timestamp.
    pub ts: u64,
    /// Value or which marker.
    pub kind: CellType,
    /// The value; meaningless for markers.
    pub value: V,
}

/// Replays `cells` (any order, of one column, plus the markers of its family and row) and leaves the live versions, best first.
pub fn replay<V>(cells: &mut Vec<Version<V>>, max_versions: usize) {
    // Markers of a number come before values of the same number.
    cells.sort_by(|a, b| a.seq.cmp(&b.seq).then((b.kind.is_marker()).cmp(&a.kind.is_marker())));
    let mut live: Vec<Version<V>> = Vec::with_capacity(max_versions.min(cells.len()) + 1);
    for cell in cells.drain(..) {
        match cell.kind {
            CellType::Put => {
                // The same coordinates written twice: the later number replaces the earlier.
                live.retain(|v| v.ts != cell.ts);
                let at = live.partition_point(|v| (v.ts, v.seq) > (cell.ts, cell.seq));
                live.insert(at, cell);
                live.truncate(max_versions);
            }
            CellType::DeleteVersion | CellType::DeleteFamilyVersion => live.retain(|v| v.ts != cell.ts || v.seq >= cell.seq),
            CellType::Delete | CellType::DeleteFamily => live.retain(|v| v.ts > cell.ts || v.seq >= cell.seq),
        }
    }
    *cells = live;
}

#[cfg(test)]
mod tests;
