//! The newest version of a column over all segments of a view, for the owner of the row lock or at a cut.
//!
//! Newest to oldest segment. A found version ends the search if nothing below can have a larger timestamp; where a delete marker is present,
//! all cells of the column are collected and replayed (`merge::visibility`). Expired or deleted = absent.

use crate::ids::{FamilyId, RowHash};
use crate::memstore::{ColumnRef, Content, RowRef, VersionValue};
use crate::merge::visibility::{Version, replay};
use crate::store::view::View;

/// What a column holds.
#[derive(Clone, Copy, Debug)]
pub struct Found<'v> {
    /// Number of the commit that wrote it.
    pub seq: u64,
    /// Its timestamp.
    pub ts: u64,
    /// The value.
    pub value: VersionValue<'v>,
}

impl<'v> Found<'v> {
    /// What a column shows; nothing for an empty one, and for one that has to be replayed.
    pub fn from(content: Content<'v>) -> Option<Self> {
        match content {
            Content::Empty | Content::Replay => None,
            Content::Counter { seq, ts, value } => Some(Self { seq, ts, value: VersionValue::Counter(value) }),
            Content::Cell(v) => Some(Self { seq: v.seq, ts: v.ts, value: v.value }),
        }
    }
}

/// A column as the active segment and all segments know it.
#[derive(Clone, Copy)]
pub struct Lookup<'v> {
    /// The row in the active segment.
    pub row: Option<RowRef<'v>>,
    /// The column in the active segment.
    pub column: Option<ColumnRef<'v>>,
    /// What the column holds, None = absent.
    pub newest: Option<Found<'v>>,
}

/// Looks a column up for the owner of its row lock: every applied version counts.
pub fn newest<'v>(view: &'v View, hash: RowHash, row: &[u8], family: FamilyId, qualifier: &[u8], max_versions: usize) -> Lookup<'v> {
    let active = view.active.find_row(hash, row);
    let column = active.and_then(|r| view.active.find_column(r, family, qualifier));
    // One segment, one counter: the common case of an increment ends here.
    if view.sealed.is_empty() {
        match column.map_or(Content::Empty, |c| c.read(u64::MAX)) {
            Content::Replay => {}
            content => return Lookup { row: active, column, newest: Found::from(content) },
        }
    }
    Lookup { row: active, column, newest: at(view, hash, row, family, qualifier, max_versions, u64::MAX) }
}

/// What a column holds at `cut`: among the commits with a number of at most `cut`.
pub fn at<'v>(
    view: &'v View,
    hash: RowHash,
    row: &[u8],
    family: FamilyId,
    qualifier: &[u8],
    max_versions: usize,
    cut: u64,
) -> Option<Found<'v>> {
    let mut best: Option<Found<'v>> = None;
    for (i, segment) in view.segments().enumerate() {
        let Some(column) = segment.find_row(hash, row).and_then(|r| segment.find_column(r, family, qualifier)) else { continue };
        match column.read(cut) {
            Content::Replay => return replayed(view, hash, row, family, qualifier, max_versions, cut),
            content => {
                if let Some(found) = Found::from(content).filter(|f| best.is_none_or(|b| (f.ts, f.seq) > (b.ts, b.seq))) {
                    best = Some(found);
                }
            }
        }
        // A marker below could only hide what has a smaller number, and everything below has; but it could not hide this version.
        if best.is_some_and(|b| b.ts > view.max_ts_below(i, family)) {
            break;
        }
    }
    best
}

#[cold]
fn replayed<'v>(
    view: &'v View,
    hash: RowHash,
    row: &[u8],
    family: FamilyId,
    qualifier: &[u8],
    max_versions: usize,
    cut: u64,
) -> Option<Found<'v>> {
    live(view, hash, row, family, qualifier, max_versions, cut).into_iter().next()
}

/// All live versions of a column at `cut`, best first. Allocates: for columns with markers, and for time ranges.
pub fn live<'v>(
    view: &'v View,
    hash: RowHash,
    row: &[u8],
    family: FamilyId,
    qualifier: &[u8],
    max_versions: usize,
    cut: u64,
) -> Vec<Found<'v>> {
    let mut cells = Vec::new();
    for segment in view.segments() {
        if let Some(column) = segment.find_row(hash, row).and_then(|r| segment.find_column(r, family, qualifier)) {
            column.collect(cut, &mut cells);
        }
    }
    let mut versions: Vec<_> = cells.iter().map(|v| Version { seq: v.seq, ts: v.ts, kind: v.kind, value: v.value }).collect();
    replay(&mut versions, max_versions);
    versions.iter().map(|v| Found { seq: v.seq, ts: v.ts, value: v.value }).collect()
}
