//! One generation of the memstore: arena, row table, ordered index; and its sizes.
//!
//! Must not: take row locks, number commits, or decide what may be shown. Memory comes from the arena alone; nothing that was ever seen is given
//! back before the segment is dropped, which its owner does only when no reader is left.
//!
//! Threads: all methods take `&self`. What inserts is for the owner of the row's lock; lookups, reads and cursors are for anybody and take
//! no lock.
//!
//! An insert that runs out of memory half-way leaves something that nobody can see: a row without commits, a column that is in the table but
//! says itself that it is not in the index. The next insert of the same key takes it up again.

use super::NoMemory;
use super::blocks::{Column, EMBEDDED_QUALIFIER_MAX, ROW_ALIGN, Row, Word};
use super::column_index::{ColumnIndex, ColumnKey, Cursor, KeyOf};
use super::refs::{ColumnRef, NewCell, RowRef, SavedColumn, SpareCopy};
use super::row_table::{RowTable, prefetch_line};
use super::versions::{ListCell, RowCell};
use crate::cell::CellType;
use crate::ids::{FamilyId, Generation, RowHash};
use crate::mslab::{Arena, ChunkPool, MemoryBudget};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{Arc, AtomicU64};
use crossbeam_utils::CachePadded;
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};

/// Cells of one generation.
pub struct Segment {
    table: RowTable,
    index: ColumnIndex<Keys>,
    arena: Arc<Arena>,
    hasher: FixedState,
    generation: Generation,
    owner: u64,
    max_ts: Box<[AtomicU64; MAX_TS_WORDS]>,
    counts: [CachePadded<Counts>; COUNT_SHARDS],
}

/// Largest timestamps are kept by family id modulo this; two families of one word only make the answer larger, which is safe.
const MAX_TS_WORDS: usize = 64;
const COUNT_SHARDS: usize = 8;

#[derive(Default)]
struct Counts {
    rows: AtomicU64,
    columns: AtomicU64,
    cells: AtomicU64,
    old: AtomicU64,
    old_bytes: AtomicU64,
    copies: AtomicU64,
}

/// List cells of a segment behind the first of each column: what several versions, replaced values and read points cost. Cells of lists are never taken out, so
/// this only grows; a counter's copies are written again once nobody needs what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldCells {
    /// How many: replaced values, delete markers, copies of counters. Of a column that was counted up, every list cell, since its slots hold the newest.
    pub cells: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Copies of counters among them.
    pub copies: u64,
    /// Bytes of those.
    pub copy_bytes: u64,
}

/// How the index comes from a column's word to its key.
pub(super) struct Keys;

// SAFETY: the segment hands only words of its own columns to the index; their key bytes are immutable and live as long as the arena, which
// the index keeps.
unsafe impl KeyOf for Keys {
    unsafe fn key(&self, reference: u64) -> ColumnKey<'_> {
        // SAFETY: by contract, a word of a column of this segment.
        let column = unsafe { Column::from_word(Word(reference)) };
        (column.row().bytes(), column.family(), column.qualifier())
    }
    #[inline]
    fn prefetch(&self, reference: u64) {
        // A row's block is two lines, and of another column's the second is often its row or its first cell: they were made together.
        let at = (reference & !1) as usize;
        prefetch_line(std::ptr::without_provenance(at));
        prefetch_line(std::ptr::without_provenance(at.wrapping_add(64)));
    }
    #[inline]
    unsafe fn prefetch_behind(&self, reference: u64) {
        // SAFETY: by contract, a word of a column of this segment.
        let column = unsafe { Column::from_word(Word(reference)) };
        column.prefetch_behind();
    }
}

impl Segment {
    /// An empty segment. `rows_hint`: how many rows it will about have (the sealed predecessor's count); `hasher_seed` keys the hash of columns.
    pub fn new(
        generation: Generation,
        pool: &Arc<ChunkPool>,
        budget: &Arc<MemoryBudget>,
        rows_hint: usize,
        hasher_seed: u64,
    ) -> Result<Self, NoMemory> {
        let arena = Arc::new(Arena::new(Arc::clone(pool), Arc::clone(budget)));
        let table = RowTable::new(&arena, rows_hint, 0)?;
        let index = ColumnIndex::new(Arc::clone(&arena), Keys, 0)?;
        // Names the segment among all that live at the same time, so that a cell or plan kept over a switch is recognised.
        let owner = Arc::as_ptr(&arena).addr() as u64 ^ u64::from(generation.0) << 48;
        Ok(Self {
            table,
            index,
            arena,
            hasher: FixedState::with_seed(hasher_seed),
            generation,
            owner,
            max_ts: Box::new(std::array::from_fn(|_| AtomicU64::new(0))),
            counts: std::array::from_fn(|_| CachePadded::new(Counts::default())),
        })
    }

    /// Gives it another generation, before anybody shares it: recovery knows the right one only after it has read the log.
    pub fn set_generation(&mut self, generation: Generation) {
        self.generation = generation;
    }
    /// Which generation it is.
    pub fn generation(&self) -> Generation {
        self.generation
    }
    pub(super) fn owner(&self) -> u64 {
        self.owner
    }
    /// Bytes of pool and budget it holds: whole chunks.
    pub fn reserved_bytes(&self) -> u64 {
        self.arena.reserved_bytes()
    }
    /// Bytes in use: rows, columns, cells, table, index.
    pub fn allocated_bytes(&self) -> u64 {
        self.arena.allocated_bytes()
    }
    /// If cells that were given back leave room for `size` bytes: which segment it is and how often something has come back so far, so that a change is noticed.
    pub fn given_back(&self, size: usize) -> Option<(u64, u64)> {
        self.arena.given_back(size).map(|times| (self.owner, times))
    }
    /// True if `bytes` lie in its memory.
    pub(super) fn holds(&self, bytes: &[u8]) -> bool {
        self.arena.holds(bytes)
    }
    /// Rows inserted, also those without a commit.
    pub fn rows(&self) -> u64 {
        self.count(|c| &c.rows)
    }
    /// Columns inserted, also empty ones.
    pub fn columns(&self) -> u64 {
        self.count(|c| &c.columns)
    }
    /// List cells taken: puts, markers, copies of counters.
    pub fn cells(&self) -> u64 {
        self.count(|c| &c.cells)
    }
    /// See [`OldCells`].
    pub fn old_cells(&self) -> OldCells {
        let (copies, copy_bytes) = (self.count(|c| &c.copies), SpareCopy::BYTES as u64);
        let (cells, bytes) = (self.count(|c| &c.old), self.count(|c| &c.old_bytes));
        OldCells { cells: cells + copies, bytes: bytes + copies * copy_bytes, copies, copy_bytes: copies * copy_bytes }
    }
    /// A cell of `bytes` was pushed that is not its column's first.
    pub(super) fn note_old(&self, thread: usize, bytes: usize) {
        let counts = self.counts(thread);
        counts.old.fetch_add(1, Relaxed);
        counts.old_bytes.fetch_add(bytes as u64, Relaxed);
    }
    /// A counter's copy was pushed.
    #[cold]
    pub(super) fn note_copy(&self, thread: usize) {
        self.counts(thread).copies.fetch_add(1, Relaxed);
    }
    fn count(&self, of: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        // Relaxed, here and where they grow: numbers for statistics and sizing.
        self.counts.iter().map(|c| of(c).load(Relaxed)).sum()
    }
    fn counts(&self, thread: usize) -> &Counts {
        &self.counts[thread % COUNT_SHARDS]
    }

    /// The largest timestamp of a family in this segment, or something larger.
    pub fn max_ts(&self, family: FamilyId) -> u64 {
        // Acquire: pairs with `raise_max_ts`; the commit marks its row after that.
        self.max_ts[family.0 as usize % MAX_TS_WORDS].load(Acquire)
    }
    /// A commit writes `ts` to the family. Before its mark.
    pub fn raise_max_ts(&self, family: FamilyId, ts: u64) {
        let word = &self.max_ts[family.0 as usize % MAX_TS_WORDS];
        // Relaxed: the word only grows, so a value that is large enough stays so. Release: pairs with `max_ts`.
        if word.load(Relaxed) < ts {
            word.fetch_max(ts, Release);
        }
    }

    /// Brings the table's bucket of a row into the cache. First stage, for a batch.
    #[inline]
    pub fn prefetch_table(&self, hash: RowHash) {
        self.table.prefetch(hash.0);
    }
    /// Brings the row's block into the cache. Second stage, once the bucket is there.
    #[inline]
    pub fn prefetch_row(&self, hash: RowHash) {
        self.table.prefetch_target(hash.0);
    }

    /// The row, if it was inserted.
    #[inline]
    pub fn find_row(&self, hash: RowHash, row: &[u8]) -> Option<RowRef<'_>> {
        let mut found = None;
        self.table.find(hash.0, |word| {
            if let Column::Embedded(r) = self.column_of(word)
                && r.bytes() == row
            {
                found = Some(RowRef::new(self, r));
            }
            found.is_some()
        });
        found
    }
    /// The column of a row of this segment, if it was inserted.
    #[inline]
    pub fn find_column(&self, row: RowRef<'_>, family: FamilyId, qualifier: &[u8]) -> Option<ColumnRef<'_>> {
        self.lookup(row.of(self), family, qualifier).filter(|c| c.chain().is_indexed()).map(|c| ColumnRef::new(self, c))
    }
    /// A column by its key, from the ordered index: for readers that have no hash.
    pub fn find_by_key(&self, key: ColumnKey<'_>) -> Option<ColumnRef<'_>> {
        self.index.get(key).map(|w| ColumnRef::new(self, self.column_of(Word(w))))
    }

    /// Inserts a row that is not there, with its first counter column, empty. Row lock held. A qualifier that is too long to be embedded is
    /// left to `insert_column`: look the column up afterwards.
    pub fn insert_row(
        &self,
        hash: RowHash,
        row: &[u8],
        first_counter: Option<(FamilyId, &[u8])>,
        thread: usize,
    ) -> Result<RowRef<'_>, NoMemory> {
        let embedded = first_counter.filter(|(_, q)| q.len() <= EMBEDDED_QUALIFIER_MAX);
        let memory = self.arena.alloc(Row::size(row, embedded), ROW_ALIGN, thread).ok_or(NoMemory)?;
        // SAFETY: size and alignment are the ones asked for; arena memory is nobody else's and lives as long as the segment.
        let block = unsafe { Row::write(memory, row, embedded) };
        let inserted = self.table.insert(hash.0, block.word(), &self.arena, thread);
        inserted.inspect_err(|_| self.arena.give_back(memory, Row::size(row, embedded)))?;
        self.counts(thread).rows.fetch_add(1, Relaxed);
        if block.has_embedded() {
            self.add_to_index(Column::Embedded(block), thread)?;
        }
        Ok(RowRef::new(self, block))
    }

    /// The column, inserted empty if it is not there; `counter`: with slots, if it is new. Row lock held.
    pub fn insert_column(
        &self,
        row: RowRef<'_>,
        family: FamilyId,
        qualifier: &[u8],
        counter: bool,
        thread: usize,
    ) -> Result<ColumnRef<'_>, NoMemory> {
        let row = row.of(self);
        let column = match self.lookup(row, family, qualifier) {
            Some(column) => column,
            None => {
                let (size, align) = Column::layout(qualifier, counter);
                let memory = self.arena.alloc(size, align, thread).ok_or(NoMemory)?;
                // SAFETY: size and alignment are the ones asked for; arena memory is nobody else's and lives as long as the segment.
                let column = unsafe { Column::write(memory, self.own(row), family, qualifier, counter) };
                let inserted = self.table.insert(self.column_hash(row, family, qualifier), column.word(), &self.arena, thread);
                inserted.inspect_err(|_| self.arena.give_back(memory, size))?;
                column
            }
        };
        if !column.chain().is_indexed() {
            self.add_to_index(column, thread)?;
        }
        Ok(ColumnRef::new(self, column))
    }

    /// Gives a column that a put created its slots. Row lock held.
    pub fn ensure_slots(&self, column: ColumnRef<'_>, thread: usize) -> Result<(), NoMemory> {
        if column.has_slots() {
            return Ok(());
        }
        let memory = self.arena.alloc(Column::SLOTS_BYTES, align_of::<u64>(), thread).ok_or(NoMemory)?;
        // SAFETY: size and alignment are right; arena memory is nobody else's and lives as long as the segment.
        unsafe { column.of(self).set_slots(memory) };
        Ok(())
    }

    /// A cell for `push`, with its value.
    pub fn new_cell(&self, value: &[u8], kind: CellType, thread: usize) -> Result<NewCell, NoMemory> {
        let memory = self.new_list_cell(ListCell::size(value.len()), thread)?;
        // SAFETY: size and alignment are right; arena memory is nobody else's and lives as long as the segment.
        Ok(unsafe { NewCell::write(memory, kind, false, value, self.owner, thread) })
    }
    /// A column's marker for `push`. `is_final`: everything in its scope that will have a smaller number has a timestamp that is not larger.
    pub fn new_marker(&self, kind: CellType, is_final: bool, thread: usize) -> Result<NewCell, NoMemory> {
        let memory = self.new_list_cell(ListCell::size(0), thread)?;
        // SAFETY: size and alignment are right; arena memory is nobody else's and lives as long as the segment.
        Ok(unsafe { NewCell::write(memory, kind, is_final, b"", self.owner, thread) })
    }
    /// A cell for `push_marker`: a marker of a row's family. `is_final` as in `new_marker`.
    pub fn new_row_marker(&self, family: FamilyId, kind: CellType, is_final: bool, thread: usize) -> Result<NewCell, NoMemory> {
        let memory = self.new_list_cell(RowCell::BYTES, thread)?;
        // SAFETY: size and alignment are right; arena memory is nobody else's and lives as long as the segment.
        Ok(unsafe { NewCell::write_row_marker(memory, kind, is_final, family, self.owner, thread) })
    }
    /// A value of the row gets the timestamp `ts`, above its commit's tick. Before that commit has its number, row lock held; if the commit is refused,
    /// markers are final less often.
    pub fn note_ahead(&self, row: RowRef<'_>, ts: u64, thread: usize) -> Result<(), NoMemory> {
        let marks = self.own(row.of(self)).markers();
        if marks.raise_ahead(ts) {
            return Ok(());
        }
        let memory = self.arena.alloc(RowCell::BYTES, align_of::<u64>(), thread).ok_or(NoMemory)?;
        // SAFETY: size and alignment are right; arena memory is nobody else's and lives as long as the segment.
        let note = unsafe { RowCell::write(memory, None, false, FamilyId(0)) };
        // SAFETY: a row cell of this segment, pushed once.
        unsafe { marks.push_note(note, ts) };
        Ok(())
    }
    /// Room for the copy that a plan to push asks for.
    pub fn new_copy(&self, thread: usize) -> Result<SpareCopy, NoMemory> {
        let memory = self.new_list_cell(SpareCopy::BYTES, thread)?;
        // SAFETY: size and alignment are right; arena memory is nobody else's and lives as long as the segment.
        Ok(unsafe { SpareCopy::write(memory, self.owner, thread) })
    }
    /// Takes back a cell that was not pushed: its commit was refused.
    pub fn give_back_cell(&self, cell: NewCell, thread: usize) {
        self.give_back(cell.into_piece(self.owner), thread);
    }
    /// The same for a copy.
    pub fn give_back_copy(&self, copy: SpareCopy, thread: usize) {
        self.give_back(copy.into_piece(self.owner), thread);
    }
    fn give_back(&self, (at, bytes): (std::ptr::NonNull<u8>, usize), thread: usize) {
        self.counts(thread).cells.fetch_sub(1, Relaxed);
        self.arena.give_back(at, bytes);
    }
    fn new_list_cell(&self, size: usize, thread: usize) -> Result<std::ptr::NonNull<u8>, NoMemory> {
        let memory = self.arena.alloc(size, align_of::<u64>(), thread).ok_or(NoMemory)?;
        self.counts(thread).cells.fetch_add(1, Relaxed);
        Ok(memory)
    }

    /// The columns from `key` on (with `inclusive`, else behind it), in order; sees what was inserted before, and what comes meanwhile or not.
    /// A column may be empty.
    pub fn cursor(&self, key: ColumnKey<'_>, inclusive: bool) -> ColumnCursor<'_> {
        ColumnCursor { segment: self, cursor: self.index.cursor(key, inclusive) }
    }
    /// The columns behind a saved one.
    pub fn cursor_after(&self, column: SavedColumn) -> ColumnCursor<'_> {
        let column = self.column(column);
        self.cursor((column.row().row(), column.family(), column.qualifier()), false)
    }
    /// A saved column. It must have been saved from this segment.
    pub fn column(&self, saved: SavedColumn) -> ColumnRef<'_> {
        assert_eq!(saved.owner, self.owner, "a column of another segment");
        ColumnRef::new(self, self.column_of(saved.word))
    }
    /// The last column before `key`: for scans in descending order.
    pub fn column_before(&self, key: ColumnKey<'_>) -> Option<ColumnRef<'_>> {
        self.index.before(key).map(|w| ColumnRef::new(self, self.column_of(Word(w))))
    }

    fn column_of(&self, word: Word) -> Column<'_> {
        // SAFETY: only called with words out of this segment's table and index, which hold only words of its blocks.
        unsafe { Column::from_word(word) }
    }
    /// The same row with this segment's lifetime.
    fn own(&self, row: Row<'_>) -> Row<'_> {
        self.column_of(row.word()).row()
    }
    /// A column, in the index or not.
    #[inline]
    fn lookup(&self, row: Row<'_>, family: FamilyId, qualifier: &[u8]) -> Option<Column<'_>> {
        if let Some(column) = self.own(row).embedded(family, qualifier) {
            return Some(column);
        }
        let same = |word| match self.column_of(word) {
            Column::Embedded(_) => false,
            c => c.row().is(row) && c.family() == family && c.qualifier() == qualifier,
        };
        self.table.find(self.column_hash(row, family, qualifier), same).map(|w| self.column_of(w))
    }
    /// The block's address stands for the row: a segment has each row once.
    fn column_hash(&self, row: Row<'_>, family: FamilyId, qualifier: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(row.address());
        hasher.write_u32(family.0);
        hasher.write(qualifier);
        hasher.finish()
    }
    fn add_to_index(&self, column: Column<'_>, thread: usize) -> Result<(), NoMemory> {
        let key = (column.row().bytes(), column.family(), column.qualifier());
        // SAFETY: a word of this segment, whose key bytes are written and stay.
        unsafe { self.index.insert(key, column.word().0, thread)? };
        column.chain().set_indexed();
        self.counts(thread).columns.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// Walks the columns of a segment in order.
pub struct ColumnCursor<'s> {
    segment: &'s Segment,
    cursor: Cursor<'s, Keys>,
}

impl<'s> ColumnCursor<'s> {
    /// The next column; None at the end (a later call may find columns inserted since).
    #[expect(clippy::should_implement_trait, reason = "a scan may be asked again after its end")]
    pub fn next(&mut self) -> Option<ColumnRef<'s>> {
        self.cursor.next().map(|w| ColumnRef::new(self.segment, self.segment.column_of(Word(w))))
    }
    /// Goes to another place.
    pub fn seek(&mut self, key: ColumnKey<'_>, inclusive: bool) {
        self.cursor.seek(key, inclusive);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
