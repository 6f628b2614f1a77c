//! What callers hold: a row, a column, a cell that waits to be pushed. Shared references into a segment, with its lifetime.
//!
//! Threads: methods that say "row lock held" are for the owner of the row's lock; the others for anybody. A new cell or a plan does not borrow
//! the segment, so that a commit slot can keep it over a wait; it names its segment, and another one refuses it.

use super::blocks::{Column, Row, Word};
use super::row_header::RowHeader;
use super::segment::Segment;
use super::versions::{
    Content, CopyCell, Keep, ListCell, Marked, Markers, Over, Plan, PointsUser, RowCell, RowMarker, Version, VersionRef, Wanted,
};
use crate::cell::CellType;
use crate::ids::FamilyId;
use std::ops::ControlFlow;
use std::ptr::NonNull;

/// A row of a segment.
#[derive(Clone, Copy)]
pub struct RowRef<'s> {
    segment: &'s Segment,
    row: Row<'s>,
}

/// A column of a segment.
#[derive(Clone, Copy)]
pub struct ColumnRef<'s> {
    segment: &'s Segment,
    column: Column<'s>,
}

/// The place of a column, kept without borrowing its segment: for a scanner between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedColumn {
    pub(super) word: Word,
    pub(super) owner: u64,
}

/// A cell with its value but without number and timestamp: invisible until it is pushed. One that is not pushed goes back by
/// [`Segment::give_back_cell`]; dropping it leaves its bytes unused until the segment goes.
#[derive(Debug)]
pub struct NewCell {
    cell: NonNull<ListCell>,
    kind: CellType,
    owner: u64,
    /// Who took it: where it is counted.
    thread: usize,
}

/// Room for the copy of a counter's version; one that is not used goes back by [`Segment::give_back_copy`].
#[derive(Debug)]
pub struct SpareCopy {
    cell: NonNull<CopyCell>,
    owner: u64,
    /// As in [`NewCell`].
    thread: usize,
}

// SAFETY: the only owner of arena memory that is followed only while its segment lives.
unsafe impl Send for NewCell {}
// SAFETY: as above.
unsafe impl Send for SpareCopy {}

impl NewCell {
    /// # Safety
    /// As [`ListCell::write`]; `to` lies in the arena of the segment `owner`.
    pub(super) unsafe fn write(to: NonNull<u8>, kind: CellType, is_final: bool, value: &[u8], owner: u64, thread: usize) -> Self {
        // SAFETY: by contract.
        Self { cell: unsafe { ListCell::write(to, kind, is_final, value) }, kind, owner, thread }
    }
    /// # Safety
    /// As [`RowCell::write`]; `to` lies in the arena of the segment `owner`; `kind` is a family marker's.
    pub(super) unsafe fn write_row_marker(
        to: NonNull<u8>,
        kind: CellType,
        is_final: bool,
        family: FamilyId,
        owner: u64,
        thread: usize,
    ) -> Self {
        assert!(is_of_row(kind), "a column's marker for a row");
        // SAFETY: by contract.
        Self { cell: unsafe { RowCell::write(to, Some(kind), is_final, family) }.cast(), kind, owner, thread }
    }
}

/// The kinds that a row's list takes: their cells, and no others, are row cells.
const fn is_of_row(kind: CellType) -> bool {
    matches!(kind, CellType::DeleteFamily | CellType::DeleteFamilyVersion)
}

impl NewCell {
    /// Its memory, for the segment `owner` that it came from.
    pub(super) fn into_piece(self, owner: u64) -> (NonNull<u8>, usize) {
        assert_eq!(self.owner, owner, "a cell of another segment");
        // SAFETY: initialised by `write`; the segment asks, so it lives.
        let bytes = unsafe { self.cell.as_ref() }.bytes();
        (self.cell.cast(), bytes)
    }
}

impl SpareCopy {
    /// As [`NewCell::into_piece`].
    pub(super) fn into_piece(self, owner: u64) -> (NonNull<u8>, usize) {
        assert_eq!(self.owner, owner, "a cell of another segment");
        (self.cell.cast(), Self::BYTES)
    }
    /// # Safety
    /// `to` is 8-aligned, valid for writes of [`SpareCopy::BYTES`] bytes, nobody else's, and lies in the arena of the segment `owner`.
    pub(super) unsafe fn write(to: NonNull<u8>, owner: u64, thread: usize) -> Self {
        let cell = to.cast::<CopyCell>();
        // SAFETY: by contract.
        unsafe { cell.write(CopyCell::new()) };
        Self { cell, owner, thread }
    }
    pub(super) const BYTES: usize = size_of::<CopyCell>();
}

impl<'s> RowRef<'s> {
    pub(super) fn new(segment: &'s Segment, row: Row<'s>) -> Self {
        Self { segment, row }
    }
    /// The row, for the segment it belongs to; another one must not follow its address.
    #[inline]
    pub(super) fn of(&self, segment: &Segment) -> Row<'s> {
        assert!(std::ptr::eq(self.segment, segment), "a row of another segment");
        self.row
    }
    /// What of the row may be shown.
    #[inline]
    pub fn header(&self) -> &'s RowHeader {
        self.row.header()
    }
    /// The row's key.
    pub fn row(&self) -> &'s [u8] {
        self.row.bytes()
    }
    /// True if it is the same row of the same segment.
    pub fn is(&self, other: RowRef<'_>) -> bool {
        self.row.is(other.row)
    }
    /// Pushes a marker of one of the row's families, made by `new_row_marker`. Row lock held.
    pub fn push_marker(&self, marker: NewCell, seq: u64, ts: u64) {
        assert_eq!(marker.owner, self.segment.owner(), "a cell of another segment");
        assert!(is_of_row(marker.kind), "a column's cell pushed to a row");
        // SAFETY: `marker` was written by this segment (asserted) as a row cell (by its kind), and is given away here, so it is pushed once.
        unsafe { self.row.markers().push(marker.cell.cast(), seq, ts) };
        self.segment.note_old(marker.thread, RowCell::BYTES);
    }
    /// Appends the markers of `family` with a number up to `cut`, newest first, down to a final one whose timestamp `counts` for the reader; the number of that
    /// one, 0 if there is none.
    pub fn collect_markers(&self, family: FamilyId, cut: u64, counts: &dyn Fn(u64) -> bool, into: &mut Vec<RowMarker>) -> u64 {
        let mut floor = 0;
        if self.header().has_markers() {
            self.row.markers().walk(family, cut, |m| {
                into.push(m);
                if m.is_final && counts(m.ts) {
                    floor = m.seq;
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
        floor
    }
    /// The newest marker of `family` up to `cut`.
    pub fn over(&self, family: FamilyId, cut: u64) -> Over {
        self.row.markers().over(family, cut)
    }
    /// The largest timestamp of a value of this row in this segment that was above its commit's tick; 0: there was none. Row lock held.
    pub fn ahead(&self) -> u64 {
        self.row.markers().ahead()
    }
}

impl<'s> ColumnRef<'s> {
    pub(super) fn new(segment: &'s Segment, column: Column<'s>) -> Self {
        Self { segment, column }
    }
    /// As [`RowRef::of`].
    pub(super) fn of(&self, segment: &Segment) -> Column<'s> {
        assert!(std::ptr::eq(self.segment, segment), "a column of another segment");
        self.column
    }
    /// Its row.
    pub fn row(&self) -> RowRef<'s> {
        RowRef { segment: self.segment, row: self.column.row() }
    }
    /// Its family.
    pub fn family(&self) -> FamilyId {
        self.column.family()
    }
    /// Its qualifier.
    pub fn qualifier(&self) -> &'s [u8] {
        self.column.qualifier()
    }
    /// Its place, to come back to.
    pub fn save(&self) -> SavedColumn {
        SavedColumn { word: self.column.word(), owner: self.segment.owner() }
    }
    /// True if it has slots: [`Segment::ensure_slots`] has nothing to do.
    pub fn has_slots(&self) -> bool {
        self.column.slots().is_some()
    }
    /// True if it has neither version nor marker: to be skipped.
    pub fn is_empty(&self) -> bool {
        self.column.versions().is_empty()
    }
    /// What it shows of the commits up to `cut`, delete markers of its row and family left aside ([`RowHeader::has_markers`]). `u64::MAX`
    /// for the owner of the row lock.
    #[inline]
    pub fn read(&self, cut: u64) -> Content<'s> {
        self.column.versions().read(cut)
    }
    /// What it shows of the commits up to `cut` where it has markers, or its family has: the newest one of those is `over`.
    pub fn read_marked(&self, cut: u64, over: Over) -> Marked<'s> {
        self.column.versions().read_marked(cut, over)
    }
    /// Appends the versions and markers that are wanted, in no order, each once: at least those with numbers from the floor on that the column gives, or was
    /// given. Returns that floor.
    pub fn collect(&self, wanted: &Wanted<'_>, into: &mut Vec<VersionRef<'s>>) -> u64 {
        self.column.versions().collect(wanted, into)
    }
    /// The increment with the largest number up to `cut`, if nothing else of the column up to there has a larger one. None may also mean that it could
    /// not be told without collecting everything.
    pub fn last_increment(&self, cut: u64) -> Option<VersionRef<'s>> {
        self.column.versions().last_increment(cut)
    }
    /// Numbers of its older and its newest increment; 0 = none. Row lock held; the column has slots.
    pub fn slot_numbers(&self) -> (u64, u64) {
        self.column.versions().slot_numbers()
    }
    /// How many cells its list has: for tests and measurements.
    pub fn list_len(&self) -> usize {
        self.column.versions().list_len()
    }
    /// What the next increment of the column does with the older slot's version. Row lock held, from here to `apply_increment`; nothing else
    /// of this commit goes to the column in between. `latest_point` and D (`durable`) were loaded with Acquire under the row lock. `points`
    /// calls its argument with the read points as they were at one instant, or not at all.
    #[inline]
    pub fn plan_increment(&self, keep: Keep, latest_point: u64, durable: u64, points: impl FnOnce(PointsUser<'_>)) -> Plan {
        let row = self.column.row();
        // Looked at only where copies are kept.
        self.column
            .versions()
            .plan(row.header(), keep, latest_point, durable, || self.family_markers(), points)
            .of_segment(self.segment.owner())
    }
    #[cold]
    #[inline(never)]
    fn family_markers(&self) -> Markers {
        let mut markers = Markers::default();
        self.column.row().markers().walk(self.family(), u64::MAX, |m| {
            if m.is_final {
                markers.floor = m.seq;
                return ControlFlow::Break(());
            }
            markers.open = true;
            ControlFlow::Continue(())
        });
        markers
    }
    /// Makes (seq, ts, value) the column's newest version, as planned; a plan to push takes its `spare`. Row lock held; the column has slots.
    #[inline]
    pub fn apply_increment(&self, seq: u64, ts: u64, value: i64, plan: Plan, spare: Option<SpareCopy>) {
        let owner = self.segment.owner();
        assert!(plan.is_of_segment(owner), "a plan for another segment");
        let spare = spare.map(|s| {
            assert_eq!(s.owner, owner, "a cell of another segment");
            self.segment.note_copy(s.thread);
            s.cell
        });
        let new = Version { seq, ts, value };
        // SAFETY: both cells are this segment's (asserted) and live as long as the column; a spare is given away here, so it is pushed once.
        unsafe { self.column.versions().apply(new, plan, spare) };
    }
    /// Pushes a put's value or a delete marker. Row lock held.
    pub fn push(&self, cell: NewCell, seq: u64, ts: u64) {
        assert_eq!(cell.owner, self.segment.owner(), "a cell of another segment");
        assert!(!is_of_row(cell.kind), "a row's marker pushed to a column");
        // SAFETY: `cell` was written by this segment (asserted), and is given away here, so it is pushed once.
        let pushed = unsafe { self.column.versions().push(cell.cell, seq, ts) };
        if !pushed.first {
            self.segment.note_old(cell.thread, pushed.bytes);
        }
    }
}
