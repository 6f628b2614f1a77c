//! Rows in order at one read point: a merge over the segments of the view that was current when the scan began.
//!
//! The scan keeps references to its segments and a place, no slot and no cursor: between two calls nobody waits for it, and segments sealed later hold
//! nothing it may see. Each call walks on from the place and hands out as many columns as its caller takes.

use super::newest::Found;
use crate::cell::order::compare_columns;
use crate::clock::ClockUnit;
use crate::ids::{FamilyId, ReadPoint, Tick};
use crate::memstore::{ColumnCursor, ColumnRef, Content, Segment};
use crate::merge::visibility::{ALWAYS, Rules, Version, replay};
use crate::store::family::Families;
use crate::sync::Arc;
use std::cmp::Ordering;
use std::ops::Range;

/// How far up a row is visible.
#[derive(Clone, Copy, Debug)]
pub enum Sight {
    /// To the read point.
    Point(ReadPoint),
    /// To the row's own cut (the region is poisoned: nothing changes any more).
    Cut,
}

/// One column that holds something.
#[derive(Clone, Copy)]
pub struct ScanColumn<'a> {
    /// Row key.
    pub row: &'a [u8],
    /// Column family.
    pub family: FamilyId,
    /// Column qualifier.
    pub qualifier: &'a [u8],
    /// What it holds.
    pub found: Found<'a>,
}

/// What the taker of a column wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The next column.
    GoOn,
    /// This one was taken, no more for now.
    Pause,
    /// The scan is over.
    End,
}

/// A scan and where it stands.
pub struct Scan {
    segments: Vec<Arc<Segment>>,
    families: Arc<Families>,
    sight: Sight,
    /// Decides what has expired: the same for the whole scan.
    now: (ClockUnit, Tick),
    /// Timestamps that are asked for; None = all.
    range: Option<Range<u64>>,
    // The place: the scan goes on at this column, or behind it.
    row: Vec<u8>,
    family: FamilyId,
    qualifier: Vec<u8>,
    inclusive: bool,
    ended: bool,
}

/// A cursor and the column it stands on.
struct Head<'s> {
    cursor: ColumnCursor<'s>,
    column: Option<ColumnRef<'s>>,
}

impl Scan {
    /// Over `segments`, newest first, from `row` on.
    pub fn new(
        segments: Vec<Arc<Segment>>,
        families: Arc<Families>,
        sight: Sight,
        now: (ClockUnit, Tick),
        range: Option<Range<u64>>,
        row: &[u8],
    ) -> Self {
        Self {
            segments,
            families,
            sight,
            now,
            range,
            row: row.to_vec(),
            family: FamilyId(0),
            qualifier: Vec::new(),
            inclusive: true,
            ended: false,
        }
    }
    /// Goes to the first column at or after `row`.
    pub fn seek(&mut self, row: &[u8]) {
        self.place((row, FamilyId(0), b""), true);
        self.ended = false;
    }
    fn place(&mut self, key: (&[u8], FamilyId, &[u8]), inclusive: bool) {
        self.row.clear();
        self.row.extend_from_slice(key.0);
        self.family = key.1;
        self.qualifier.clear();
        self.qualifier.extend_from_slice(key.2);
        self.inclusive = inclusive;
    }
    /// Gives `take` one column after the other until it pauses or the scan ends. `cut` tells a row's cut; only asked with [`Sight::Cut`].
    pub fn walk(&mut self, cut: &dyn Fn(&[u8]) -> u64, take: &mut dyn FnMut(ScanColumn<'_>) -> Then) {
        if self.ended {
            return;
        }
        let segments = std::mem::take(&mut self.segments);
        let mut heads: Vec<Head<'_>> = Vec::with_capacity(segments.len());
        for segment in &segments {
            let mut cursor = segment.cursor((&self.row, self.family, &self.qualifier), self.inclusive);
            let column = cursor.next();
            heads.push(Head { cursor, column });
        }
        let mut last: Option<ColumnRef<'_>> = None;
        loop {
            let Some((column, others)) = smallest(&heads) else {
                self.ended = true;
                break;
            };
            let found = if others { self.merged(&heads, column, cut) } else { self.single(column, cut) };
            if let Some(found) = found {
                let then = take(ScanColumn { row: column.row().row(), family: column.family(), qualifier: column.qualifier(), found });
                match then {
                    Then::GoOn => {}
                    Then::Pause => {
                        last = Some(column);
                        break;
                    }
                    Then::End => {
                        self.ended = true;
                        break;
                    }
                }
            }
            advance(&mut heads, column);
        }
        if let Some(column) = last {
            self.place((column.row().row(), column.family(), column.qualifier()), false);
        }
        drop(heads);
        self.segments = segments;
    }

    fn bound(&self, column: &ColumnRef<'_>, cut: &dyn Fn(&[u8]) -> u64) -> u64 {
        match self.sight {
            Sight::Point(point) => point.0,
            Sight::Cut => cut(column.row().row()),
        }
    }
    /// A column that one segment alone has.
    fn single<'s>(&self, column: ColumnRef<'s>, cut: &dyn Fn(&[u8]) -> u64) -> Option<Found<'s>> {
        let rules = self.families.get(column.family())?.rules(self.now.0, || self.now.1);
        let bound = self.bound(&column, cut);
        if self.range.is_some() {
            return self.replayed(std::iter::once(column), bound, &rules);
        }
        match column.read(bound) {
            Content::Replay => self.replayed(std::iter::once(column), bound, &rules),
            content => Found::from(content).filter(|f| rules.shows_best(f.ts)),
        }
    }
    /// A column that several segments have.
    fn merged<'s>(&self, heads: &[Head<'s>], column: ColumnRef<'s>, cut: &dyn Fn(&[u8]) -> u64) -> Option<Found<'s>> {
        let rules = self.families.get(column.family())?.rules(self.now.0, || self.now.1);
        let bound = self.bound(&column, cut);
        let here = || heads.iter().filter_map(|h| h.column).filter(|c| compare(c, &column).is_eq());
        if self.range.is_some() {
            return self.replayed(here(), bound, &rules);
        }
        let mut best: Option<Found<'s>> = None;
        for column in here() {
            match column.read(bound) {
                Content::Replay => return self.replayed(here(), bound, &rules),
                content => {
                    if let Some(found) = Found::from(content).filter(|f| best.is_none_or(|b| (f.ts, f.seq) > (b.ts, b.seq))) {
                        best = Some(found);
                    }
                }
            }
        }
        best.filter(|f| rules.shows_best(f.ts))
    }
    /// All cells replayed; the newest live version in the range that is asked for.
    fn replayed<'s>(&self, columns: impl Iterator<Item = ColumnRef<'s>>, bound: u64, rules: &Rules) -> Option<Found<'s>> {
        let mut cells = Vec::new();
        columns.for_each(|c| c.collect(bound, &mut cells));
        let mut versions: Vec<_> = cells.iter().map(|v| Version { seq: v.seq, ts: v.ts, kind: v.kind, value: v.value }).collect();
        replay(&mut versions, rules, self.range.as_ref().unwrap_or(&ALWAYS));
        versions.first().map(|v| Found { seq: v.seq, ts: v.ts, value: v.value })
    }
}

fn compare(a: &ColumnRef<'_>, b: &ColumnRef<'_>) -> Ordering {
    compare_columns((a.row().row(), a.family(), a.qualifier()), (b.row().row(), b.family(), b.qualifier()))
}

/// The smallest column among the heads, and whether more than one head stands on it.
fn smallest<'s>(heads: &[Head<'s>]) -> Option<(ColumnRef<'s>, bool)> {
    let mut columns = heads.iter().filter_map(|h| h.column);
    let mut best = (columns.next()?, false);
    for column in columns {
        match compare(&column, &best.0) {
            Ordering::Less => best = (column, false),
            Ordering::Equal => best.1 = true,
            Ordering::Greater => {}
        }
    }
    Some(best)
}

/// Every head that stands on `column` goes to its next one.
fn advance(heads: &mut [Head<'_>], column: ColumnRef<'_>) {
    let alone = heads.len() == 1;
    for head in heads.iter_mut() {
        if head.column.is_some_and(|c| alone || compare(&c, &column).is_eq()) {
            head.column = head.cursor.next();
        }
    }
}
