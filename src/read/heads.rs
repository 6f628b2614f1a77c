//! A merge over segments: one cursor each, and the column it stands on.

use crate::cell::order::compare_columns;
use crate::ids::{FamilyId, ROW_BYTES_MAX};
use crate::memstore::{ColumnCursor, ColumnKey, ColumnRef, Segment};
use std::cmp::Ordering;

/// So many columns are passed one by one before a cursor seeks: most rows are narrow, and a step costs a tenth of a descent.
const STEPS_MAX: usize = 8;
/// Behind every row there can be.
static ROW_BEYOND: [u8; ROW_BYTES_MAX + 1] = [0xff; ROW_BYTES_MAX + 1];

/// The place before the first column of a row.
pub const fn row_start(row: &[u8]) -> ColumnKey<'_> {
    (row, FamilyId(0), b"")
}

/// A column's key.
#[inline]
pub fn key<'s>(column: ColumnRef<'s>) -> ColumnKey<'s> {
    (column.row().row(), column.family(), column.qualifier())
}

struct Head<'s> {
    segment: &'s Segment,
    cursor: ColumnCursor<'s>,
    column: Option<ColumnRef<'s>>,
}

/// The smallest column of all.
#[derive(Clone, Copy)]
pub struct First<'s> {
    /// As one of the segments has it.
    pub column: ColumnRef<'s>,
    /// No other segment has it.
    pub alone: bool,
}

/// The cursors of a read, newest segment first.
pub struct Heads<'s> {
    heads: Vec<Head<'s>>,
}

impl<'s> Heads<'s> {
    /// At the first column that is not before `from`.
    pub fn new(segments: impl Iterator<Item = &'s Segment>, from: ColumnKey<'_>) -> Self {
        let heads = segments
            .map(|segment| {
                let mut cursor = segment.cursor(from, true);
                let column = cursor.next();
                Head { segment, cursor, column }
            })
            .collect();
        Self { heads }
    }
    /// There is one segment.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.heads.len() == 1
    }
    /// The smallest column.
    #[inline]
    pub fn first(&self) -> Option<First<'s>> {
        match self.heads.as_slice() {
            [head] => Some(First { column: head.column?, alone: true }),
            heads => smallest(heads),
        }
    }
    /// The same column in every segment that has it.
    pub fn all(&self, first: First<'s>) -> impl Iterator<Item = ColumnRef<'s>> {
        let alone = first.alone.then_some(first.column);
        let others = if first.alone { &[] } else { self.heads.as_slice() };
        alone.into_iter().chain(others.iter().filter_map(|h| h.column).filter(move |c| same(*c, first.column)))
    }
    /// Every segment.
    pub fn segments(&self) -> impl Iterator<Item = &'s Segment> {
        self.heads.iter().map(|h| h.segment)
    }
    /// Past `first`.
    #[inline]
    pub fn advance(&mut self, first: First<'s>) {
        match self.heads.as_mut_slice() {
            [head] => head.column = head.cursor.next(),
            heads => {
                for head in heads {
                    if head.column.is_some_and(|c| same(c, first.column)) {
                        head.column = head.cursor.next();
                    }
                }
            }
        }
    }
    /// To the first column that is not before `to`; never back.
    pub fn skip_to(&mut self, to: ColumnKey<'_>) {
        for head in &mut self.heads {
            let mut steps = 0;
            while let Some(column) = head.column
                && compare_columns(key(column), to).is_lt()
            {
                steps += 1;
                if steps > STEPS_MAX {
                    head.cursor.seek(to, true);
                }
                head.column = head.cursor.next();
            }
        }
    }
    /// Past the rest of a row in which the walk stands.
    pub fn skip_row(&mut self, row: &[u8]) {
        let mut behind = Vec::new();
        for head in &mut self.heads {
            let mut steps = 0;
            while head.column.is_some_and(|c| c.row().row() == row) {
                steps += 1;
                if steps > STEPS_MAX {
                    behind.clear();
                    behind.extend_from_slice(row);
                    behind.push(0);
                    head.cursor.seek(row_start(&behind), true);
                }
                head.column = head.cursor.next();
            }
        }
    }
    /// To the first column that is not before `to`, wherever that is.
    pub fn seek(&mut self, to: ColumnKey<'_>) {
        for head in &mut self.heads {
            head.cursor.seek(to, true);
            head.column = head.cursor.next();
        }
    }
    /// The last row before `row`; None: the last row of all.
    pub fn row_before(&self, row: Option<&[u8]>) -> Option<&'s [u8]> {
        let bound = row_start(row.unwrap_or(&ROW_BEYOND));
        self.heads.iter().filter_map(|h| h.segment.column_before(bound)).map(|c| c.row().row()).max()
    }
}

fn same(a: ColumnRef<'_>, b: ColumnRef<'_>) -> bool {
    compare_columns(key(a), key(b)).is_eq()
}

fn smallest<'s>(heads: &[Head<'s>]) -> Option<First<'s>> {
    let mut columns = heads.iter().filter_map(|h| h.column);
    let mut best = First { column: columns.next()?, alone: true };
    for column in columns {
        match compare_columns(key(column), key(best.column)) {
            Ordering::Less => best = First { column, alone: true },
            Ordering::Equal => best.alone = false,
            Ordering::Greater => {}
        }
    }
    Some(best)
}
