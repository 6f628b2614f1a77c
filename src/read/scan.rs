//! Rows in order, forward or backward, at one read point: a merge over the segments of the view that was current when the scan began.
//!
//! The scan keeps references to its segments and a place, no slot and no cursor: between two calls nobody waits for it, and segments sealed later hold
//! nothing it may see. Each call walks on from the place and hands out cells until its caller refuses one, which is then the next call's first.
//!
//! *Backward* only rows go backward: the walk looks for the last row before the one it has walked, and walks that one forward.

use super::columns::{Place as Column, Selection, behind_prefix};
use super::heads::{Heads, key, row_start};
use super::lens::{Cell, Lens, Shown, Terms, order, place};
use crate::cell::CellType;
use crate::ids::{FamilyId, ReadPoint};
use crate::memstore::{ColumnKey, RowRef, Segment};
use crate::store::family::Families;
use crate::sync::Arc;
use std::ops::ControlFlow;

/// How far up a row is visible.
#[derive(Clone, Copy, Debug)]
pub enum Sight {
    /// To the read point.
    Point(ReadPoint),
    /// To the row's own cut (the region is poisoned: nothing changes any more).
    Cut,
}

/// The rows of a scan.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// From the last to the first; `start` is the largest then.
    pub reverse: bool,
    /// First row; empty: no bound.
    pub start: Vec<u8>,
    /// Not `start` itself.
    pub exclusive_start: bool,
    /// First row beyond; empty: no bound.
    pub end: Vec<u8>,
    /// `end` itself, too.
    pub inclusive_end: bool,
    /// Only rows that begin so.
    pub prefix: Vec<u8>,
}

/// One cell, and where it stands.
#[derive(Clone, Copy)]
pub struct ScanCell<'a> {
    /// Row key.
    pub row: &'a [u8],
    /// Column family.
    pub family: FamilyId,
    /// Column qualifier.
    pub qualifier: &'a [u8],
    /// The cell.
    pub cell: Cell<'a>,
    /// The first cell of its row that the scan hands out.
    pub new_row: bool,
}

/// What the taker of a cell wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It has taken this one; the next.
    Taken,
    /// It has not; this one again, at the next call.
    Refused,
    /// It has not; nothing more of this row.
    NextRow,
    /// It has not; the scan is over.
    End,
}

/// Where a scan goes on.
#[derive(Clone, Debug, Default)]
struct Place {
    row: Vec<u8>,
    family: FamilyId,
    qualifier: Vec<u8>,
    edge: Edge,
    /// Cells of `row` have been handed out.
    begun: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Edge {
    /// At this column, or behind it if it is not there.
    #[default]
    At,
    /// In this column, behind the cell with this timestamp, type and number.
    Within(u64, CellType, u64),
    /// Backward: before this row.
    Before,
    /// Backward: at the last row.
    Last,
}

/// A scan and where it stands.
pub struct Scan {
    segments: Vec<Arc<Segment>>,
    families: Arc<Families>,
    sight: Sight,
    terms: Terms,
    rows: Rows,
    columns: Selection,
    place: Place,
    ended: bool,
}

/// A place to come back to.
pub struct Saved(Place, bool);

impl Rows {
    /// Where a scan begins.
    fn begin(&self) -> Place {
        let at = |row: &[u8], edge| Place { row: row.to_vec(), edge, ..Place::default() };
        if self.reverse {
            match behind_prefix(&self.prefix) {
                Some(beyond) if self.start.is_empty() || self.start >= beyond => at(&beyond, Edge::Before),
                _ if self.start.is_empty() => at(b"", Edge::Last),
                _ => at(&self.start, if self.exclusive_start { Edge::Before } else { Edge::At }),
            }
        } else if self.start < self.prefix {
            at(&self.prefix, Edge::At)
        } else {
            let mut start = at(&self.start, Edge::At);
            if self.exclusive_start && !self.start.is_empty() {
                start.row.push(0);
            }
            start
        }
    }
    /// Whether a row that the walk has come to is behind the last one.
    #[inline]
    fn is_beyond(&self, row: &[u8]) -> bool {
        // Bounds that are not there are not compared with: an empty vector points nowhere, see `cell::order` on what that costs.
        (!self.end.is_empty() && self.is_past_end(row)) || (!self.prefix.is_empty() && !row.starts_with(&self.prefix))
    }
    fn is_past_end(&self, row: &[u8]) -> bool {
        match row.cmp(&self.end) {
            std::cmp::Ordering::Equal => !self.inclusive_end,
            std::cmp::Ordering::Greater => !self.reverse,
            std::cmp::Ordering::Less => self.reverse,
        }
    }
}

impl Place {
    fn key(&self) -> ColumnKey<'_> {
        (&self.row, self.family, &self.qualifier)
    }
    fn set(&mut self, key: ColumnKey<'_>, edge: Edge, begun: bool) {
        self.row.clear();
        self.row.extend_from_slice(key.0);
        self.family = key.1;
        self.qualifier.clear();
        self.qualifier.extend_from_slice(key.2);
        (self.edge, self.begun) = (edge, begun);
    }
}

impl Scan {
    /// Over `segments`, newest first.
    pub fn new(segments: Vec<Arc<Segment>>, families: Arc<Families>, sight: Sight, terms: Terms, rows: Rows, columns: Selection) -> Self {
        let place = rows.begin();
        Self { segments, families, sight, terms, rows, columns, place, ended: false }
    }
    /// Goes to the first row at or behind `row` (backward: at or before it), within the rows of the scan.
    pub fn seek(&mut self, row: &[u8]) {
        self.ended = false;
        self.place = self.rows.begin();
        let inside = match (self.rows.reverse, self.place.edge) {
            (false, _) => row > self.place.row.as_slice(),
            (true, Edge::Last) => true,
            (true, _) => row < self.place.row.as_slice(),
        };
        if inside && !row.is_empty() {
            self.place.set(row_start(row), Edge::At, false);
        }
    }
    /// Where it stands.
    pub fn save(&self) -> Saved {
        Saved(self.place.clone(), self.ended)
    }
    /// Goes back to where it stood.
    pub fn restore(&mut self, saved: Saved) {
        (self.place, self.ended) = (saved.0, saved.1);
    }
    /// After a refused cell: goes back to the beginning of its row, as if nothing of it had been handed out.
    pub fn back_to_row(&mut self) {
        self.place.family = FamilyId(0);
        self.place.qualifier.clear();
        (self.place.edge, self.place.begun) = (Edge::At, false);
    }
    /// Gives `take` one cell after the other until it refuses one or the scan ends; true: it has ended. `cut` tells a row's cut; only asked with
    /// [`Sight::Cut`].
    #[inline]
    pub fn walk(&mut self, cut: impl Fn(&[u8]) -> u64, take: impl FnMut(ScanCell<'_>) -> Then) -> bool {
        if !self.ended {
            self.ended = self.walk_on(cut, take);
        }
        self.ended
    }
    #[inline]
    fn walk_on(&mut self, cut: impl Fn(&[u8]) -> u64, take: impl FnMut(ScanCell<'_>) -> Then) -> bool {
        let Self { segments, families, sight, terms, rows, columns, place, .. } = self;
        let bound = |row: &[u8]| match *sight {
            Sight::Point(point) => point.0,
            Sight::Cut => cut(row),
        };
        let walk = Walk { families, terms, rows, columns };
        let segments = segments.iter().map(|s| &**s);
        match walk.run(segments, place, bound, take) {
            None => true,
            Some((key, edge, begun)) => {
                place.set(key, edge, begun);
                false
            }
        }
    }
}

/// Reads one row: gives `take` its cells in order, at `bound`.
pub fn row<'v>(
    segments: impl Iterator<Item = &'v Segment>,
    families: &Families,
    terms: &Terms,
    row: &[u8],
    columns: &Selection,
    bound: u64,
    take: impl FnMut(ScanCell<'_>),
) {
    let rows = Rows { end: row.to_vec(), inclusive_end: true, ..Rows::default() };
    let mut place = Place::default();
    place.set(row_start(row), Edge::At, false);
    let mut take = take;
    let walk = Walk { families, terms, rows: &rows, columns };
    walk.run(
        segments,
        &place,
        |_| bound,
        |cell| {
            take(cell);
            Then::Taken
        },
    );
}

/// What a walk goes by.
struct Walk<'a> {
    families: &'a Families,
    terms: &'a Terms,
    rows: &'a Rows,
    columns: &'a Selection,
}

/// The key where a walk was stopped, where in it, and whether cells of the row were taken.
type Stop<'s> = (ColumnKey<'s>, Edge, bool);

impl Walk<'_> {
    /// Walks from `from` until a cell is refused; None: to the end.
    #[inline]
    fn run<'s>(
        &self,
        segments: impl Iterator<Item = &'s Segment>,
        from: &Place,
        bound_of: impl Fn(&[u8]) -> u64,
        mut take: impl FnMut(ScanCell<'_>) -> Then,
    ) -> Option<Stop<'s>> {
        let mut heads = Heads::new(segments, from.key());
        let mut lens = Lens::new(self.terms, self.families, self.columns.is_all());
        // Backward: the row that is walked.
        let mut target: Option<&[u8]> = None;
        if self.rows.reverse {
            target = match from.edge {
                Edge::At | Edge::Within(..) => Some(&from.row),
                Edge::Before => Some(self.enter_row_before(&mut heads, Some(&from.row))?),
                Edge::Last => Some(self.enter_row_before(&mut heads, None)?),
            };
        }
        let mut within = match from.edge {
            Edge::Within(ts, kind, seq) => Some((ts, kind, seq)),
            _ => None,
        };
        let mut entered: Option<RowRef<'s>> = None;
        let (mut bound, mut span, mut begun) = (0, 0, false);
        // The column was reached from the one before it, or is the first of its row.
        let mut steps = from.qualifier.is_empty() && from.family == FamilyId(0);
        loop {
            let mut next = heads.first();
            if let Some(row) = target
                && next.is_none_or(|f| f.column.row().row() != row)
            {
                target = Some(self.enter_row_before(&mut heads, Some(row))?);
                next = heads.first();
                (entered, steps) = (None, true);
            }
            let first = next?;
            let row = first.column.row();
            if !entered.is_some_and(|e| e.is(row)) {
                let key = row.row();
                if entered.is_none_or(|e| e.row() != key) {
                    if self.rows.is_beyond(key) {
                        return None;
                    }
                    // Only the row that the walk begins in may have been begun.
                    begun = entered.is_none() && from.begun && from.row == key;
                    (bound, span) = (bound_of(key), 0);
                    lens.enter_row();
                }
                entered = Some(row);
            }
            match self.columns.place(&mut span, first.column.family(), first.column.qualifier()) {
                Column::Inside => {}
                Column::Before(family, qualifier) => {
                    heads.skip_to((row.row(), family, qualifier));
                    continue;
                }
                Column::Behind => {
                    heads.skip_row(row.row());
                    continue;
                }
            }
            let resumed = within.take().filter(|_| key(first.column) == from.key());
            let mut hand_out = |cell: &Cell<'s>, at: Edge| {
                let told = ScanCell {
                    row: row.row(),
                    family: first.column.family(),
                    qualifier: first.column.qualifier(),
                    cell: *cell,
                    new_row: !begun,
                };
                match take(told) {
                    Then::Taken => {
                        begun = true;
                        ControlFlow::Continue(())
                    }
                    Then::Refused => ControlFlow::Break(Some(Some((key(first.column), at, begun)))),
                    Then::NextRow => ControlFlow::Break(None),
                    Then::End => ControlFlow::Break(Some(None)),
                }
            };
            let flow = match lens.look(&heads, first, bound, steps) {
                Shown::Nothing => ControlFlow::Continue(()),
                Shown::One(cell) if resumed.is_none() => hand_out(&cell, Edge::At),
                Shown::One(_) => ControlFlow::Continue(()),
                Shown::List => hand_out_list(lens.list(), resumed, hand_out),
            };
            steps = true;
            match flow {
                ControlFlow::Continue(()) => heads.advance(first),
                ControlFlow::Break(None) => heads.skip_row(row.row()),
                ControlFlow::Break(Some(stop)) => return stop,
            }
        }
    }
    /// Backward: goes to the beginning of the last row before `row`; None: there is none within the bounds.
    #[cold]
    fn enter_row_before<'s>(&self, heads: &mut Heads<'s>, row: Option<&[u8]>) -> Option<&'s [u8]> {
        let before = heads.row_before(row).filter(|r| !self.rows.is_beyond(r))?;
        heads.seek(row_start(before));
        Some(before)
    }
}

/// Hands out the cells of a column, those up to `resumed` left out.
#[inline]
fn hand_out_list<'s, B>(
    list: &[Cell<'s>],
    resumed: Option<(u64, CellType, u64)>,
    mut hand_out: impl FnMut(&Cell<'s>, Edge) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let mut edge = Edge::At;
    for cell in list {
        let (ts, kind, seq) = place(cell);
        if resumed.is_none_or(|r| order(r, (ts, kind, seq)).is_lt()) {
            hand_out(cell, edge)?;
        }
        edge = Edge::Within(ts, kind, seq);
    }
    ControlFlow::Continue(())
}
