//! The newest version of a column over all segments of a view, for the owner of the row lock or at a cut.
//!
//! Newest to oldest segment. A found version ends the search if nothing below can have a larger timestamp. Where a delete marker of the column or of
//! its row's family is present: a marker that is final leaves nothing older, and above it stand only values; an increment with a larger number than
//! everything else of the column is the answer, since its timestamp is above that of all that was live when it was made; anything else is
//! collected, from the newest final marker on, and replayed (`merge::visibility`). Expired or deleted = absent.

use crate::ids::{FamilyId, RowHash};
use crate::memstore::{ColumnRef, Content, Marked, Over, RowRef, VersionRef, VersionValue, Wanted};
use crate::merge::visibility::{ALWAYS, Rules, Version, replay};
use crate::store::view::View;
use std::ops::Range;

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
    pub fn of(content: Content<'v>) -> Option<Self> {
        match content {
            Content::Empty | Content::Replay => None,
            Content::Counter { seq, ts, value } => Some(Self { seq, ts, value: VersionValue::Counter(value) }),
            Content::Cell(v) => Some(v.into()),
        }
    }
    /// Shown before `other`.
    pub fn is_better(&self, other: Option<&Self>) -> bool {
        other.is_none_or(|o| (self.ts, self.seq) > (o.ts, o.seq))
    }
}

impl<'v> From<VersionRef<'v>> for Found<'v> {
    fn from(v: VersionRef<'v>) -> Self {
        Self { seq: v.seq, ts: v.ts, value: v.value }
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

/// A column, named.
#[derive(Clone, Copy, Debug)]
pub struct ColumnName<'k> {
    /// Hash of `row`.
    pub hash: RowHash,
    /// Row key.
    pub row: &'k [u8],
    /// Column family.
    pub family: FamilyId,
    /// Column qualifier.
    pub qualifier: &'k [u8],
}

/// Looks a column up for the owner of its row lock: every applied version counts.
#[inline]
pub fn newest<'v>(view: &'v View, name: ColumnName<'_>, rules: &Rules) -> Lookup<'v> {
    let row = view.active.find_row(name.hash, name.row);
    let column = row.and_then(|r| view.active.find_column(r, name.family, name.qualifier));
    // One segment, one counter: the common case of an increment ends here.
    if view.sealed.is_empty() && row.is_none_or(|r| !r.header().has_markers()) {
        match column.map_or(Content::Empty, |c| c.read(u64::MAX)) {
            Content::Replay => {}
            content => {
                let newest = Found::of(content);
                if newest.is_none_or(|f| f.ts >= rules.shown_from) {
                    return Lookup { row, column, newest };
                }
            }
        }
    }
    Lookup { row, column, newest: at(view, name, rules, u64::MAX) }
}

/// What a column holds at `cut`: among the commits with a number of at most `cut`.
pub fn at<'v>(view: &'v View, name: ColumnName<'_>, rules: &Rules, cut: u64) -> Option<Found<'v>> {
    let found = best(view, name, rules, cut)?;
    match rules.shows_best(found.ts) {
        Some(shown) => shown.then_some(found),
        None => live(view, name, rules, &ALWAYS, cut, Vec::new()).into_iter().next(),
    }
}

fn best<'v>(view: &'v View, name: ColumnName<'_>, rules: &Rules, cut: u64) -> Option<Found<'v>> {
    let mut best: Option<Found<'v>> = None;
    for (i, segment) in view.segments().enumerate() {
        let Some(row) = segment.find_row(name.hash, name.row) else { continue };
        let column = segment.find_column(row, name.family, name.qualifier);
        let over = if row.header().has_markers() { row.over(name.family, cut) } else { Over::default() };
        let content = if over.seq == 0 { column.map_or(Content::Empty, |c| c.read(cut)) } else { Content::Replay };
        match content {
            content if !matches!(content, Content::Replay) => {
                if let Some(found) = Found::of(content).filter(|f| f.is_better(best.as_ref())) {
                    best = Some(found);
                }
            }
            _ => {
                // A reader of all times: every marker counts.
                let marked = match column {
                    Some(column) => column.read_marked(cut, over),
                    None if over.is_final => Marked::Closed(None),
                    None => Marked::Replay,
                };
                match marked {
                    Marked::Closed(v) => return v.map(Found::from).filter(|f| f.is_better(best.as_ref())).or(best),
                    Marked::Best(v) if v.ts > view.max_ts_below(i, name.family) => {
                        return Some(v.into()).filter(|f: &Found<'_>| f.is_better(best.as_ref())).or(best);
                    }
                    Marked::Best(_) | Marked::Replay => {}
                }
                let increment = column.filter(|_| best.is_none()).and_then(|c| c.last_increment(cut)).filter(|v| v.seq > over.seq);
                return match increment {
                    Some(v) => Some(v.into()),
                    None => live(view, name, rules, &ALWAYS, cut, Vec::new()).into_iter().next(),
                };
            }
        }
        // A marker below could only hide what has a smaller number, and everything below has; but it could not hide this version.
        if best.is_some_and(|b| b.ts > view.max_ts_below(i, name.family)) {
            break;
        }
    }
    best
}

/// All versions of a column that a reader of `range` is shown at `cut`, best first. Allocates: for columns with markers that are not final, for several
/// versions, and for time ranges. `more`: cells that are not stored yet, with numbers above `cut`.
#[cold]
pub fn live<'v>(
    view: &'v View,
    name: ColumnName<'_>,
    rules: &Rules,
    range: &Range<u64>,
    cut: u64,
    more: Vec<Version<VersionValue<'v>>>,
) -> Vec<Found<'v>> {
    let (mut cells, mut markers) = (Vec::new(), Vec::new());
    let counts = |marker| rules.surely_counts(marker, range);
    for segment in view.segments() {
        let Some(row) = segment.find_row(name.hash, name.row) else { continue };
        let mut floor = row.collect_markers(name.family, cut, &counts, &mut markers);
        if let Some(column) = segment.find_column(row, name.family, name.qualifier) {
            let no_marker = rules.past.is_empty()
                && more.is_empty()
                && markers.is_empty()
                && !cells.iter().any(|v: &VersionRef<'_>| v.kind.is_marker());
            let best = no_marker.then_some(rules.max_versions as usize);
            floor = column.collect(&Wanted { cut, floor, best, counts: &counts }, &mut cells);
        }
        // Older segments hold smaller numbers only.
        if floor > 0 {
            break;
        }
    }
    let mut versions = more;
    versions.extend(cells.iter().map(|v| Version { seq: v.seq, ts: v.ts, kind: v.kind, value: v.value }));
    let nothing = VersionValue::Bytes(b"");
    versions.extend(markers.iter().map(|m| Version { seq: m.seq, ts: m.ts, kind: m.kind, value: nothing }));
    replay(&mut versions, rules, range);
    versions.iter().map(|v| Found { seq: v.seq, ts: v.ts, value: v.value }).collect()
}
