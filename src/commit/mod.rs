//! One atomic commit: THE sequence, written once. Every verb ends here.
//!
//! Must not: read values, take row locks, flush, or wait for anything. The caller holds the row locks, and under them a commit slot and the
//! view loaded through it; all three are arguments, so a commit cannot be made without them. Whatever has to be waited for (tick, memory, log
//! room) comes back as a [`Refusal`]: nothing was done, and the caller waits with everything released.
//!
//! Order (numbers as in docs/commit-path.md):
//!   4 tick and level · 5 memory, empty index entries, encode · 6 committing, room · 7 number and record · 8 apply · 9 mark
//! The caller of a call with a nonce reserved its entries before and fills them now; then it frees the slot and unlocks the rows (10), then waits for durability if the level asks for it (11).
//!
//! Invariants: nothing of a commit leaves its row locks before its record is whole in the log (I2). From the append to the mark a commit waits
//! for nothing, takes no memory, no lock, no latch, and calls nobody (I4). The newest complete version of
//! a column is never written to (I6).
//!
//! | fails in | what the caller gets | what was done |
//! |---|---|---|
//! | 4 | Tick | nothing |
//! | 5 | TooLarge, Memory | empty rows and columns may stay in the index, for the next try; readers skip them. Cells go back to the segment |
//! | 6 | LogSpace, NoSpace, Poisoned, Io | the same |
//! | 7–9 | – | cannot fail; a panic here poisons the region |
#![forbid(unsafe_code)]

pub mod mutation;

use crate::cell::CellType;
use crate::error::{Error, ErrorKind, Result};
use crate::hooks::{self, Point};
use crate::ids::{RowHash, SequenceNumber, Tick};
use crate::memstore::{ColumnRef, NoMemory, Plan, RowRef, Segment};
use crate::mvcc::SlotGuard;
use crate::options::Durability;
use crate::rowlock::RowLocks;
use crate::sequencer::Step;
use crate::store::state::State;
use crate::store::view::View;
use crate::sync::Ordering;
use crate::wal::{Level, NonceNotes, RecordBuffer, RecordKind, Refused};
use mutation::{CellChange, Ready, RowChange, Terms, Write, is_final, is_of_family};

/// A commit that happened.
#[derive(Clone, Copy, Debug)]
pub struct Committed {
    /// Its number.
    pub seq: SequenceNumber,
    /// Its tick.
    pub tick: Tick,
    /// It becomes visible, and may be acknowledged, once the durable number has reached `seq`.
    pub waits_for_sync: bool,
    /// It went past the log.
    pub unlogged: bool,
    /// Bytes of its record.
    pub bytes: usize,
}

/// Why nothing was done, and what to wait for before trying again.
#[derive(Debug)]
pub enum Refusal {
    /// The row's next tick has to come first.
    Tick(Tick),
    /// Memory of the region or the pool is used up; the piece that could not be had is of about this many bytes.
    Memory(usize),
    /// The log has no prepared room for a record of this many bytes.
    LogSpace(u32),
    /// The table of nonces is full; the call needs this many bytes of it.
    Nonces(u64),
    /// Not worth trying again.
    Fatal(Error),
}

/// Commits `cells` of `rows` as one atomic change. See the module for what the arguments prove and what the caller does next.
///
/// A linear sequence: longer than a function should be, so that the order can be read in one place.
#[allow(clippy::too_many_arguments)]
pub fn commit<'v>(
    state: &State,
    record: &mut RecordBuffer,
    locks: &mut RowLocks<'_>,
    slot: &SlotGuard<'_>,
    view: &'v View,
    rows: &mut [RowChange<'_, 'v>],
    cells: &mut [CellChange<'_, 'v>],
    terms: Terms<'_>,
) -> std::result::Result<Committed, Refusal> {
    let Some(log) = &state.log else {
        return Err(Refusal::Fatal(Error::new(ErrorKind::ReadOnly, "the region is open read-only")));
    };
    // 4. Tick and level. A commit on top of a row's waiting FSYNC commit takes that level: it could not be shown before it.
    let Terms { durability: asked, tick, thread, nonces } = terms;
    let tick = match tick {
        Some(tick) => tick,
        None => draw_tick(state, locks)?,
    };
    let fsync = asked == Durability::FsyncWal || locks.fsync_pending() > log.durable();
    let unlogged = asked == Durability::SkipWal;

    // 5. Timestamps, record, memory: all that can be refused, before the number is taken.
    let segment: &'v Segment = &view.active;
    encode(record, segment, rows, cells, tick, if fsync { Level::Fsync } else { Level::Sync }, nonces);
    if record.len() > state.record_bytes_max {
        return Err(Refusal::Fatal(Error::new(
            ErrorKind::TooLarge,
            format!(
                "one commit of {} bytes; the largest this region takes is {} (a quarter of memstore_limit, and less than a log segment)",
                record.len(),
                state.record_bytes_max
            ),
        )));
    }
    let length = record.len() as u32;
    // Relaxed: a hint; the append decides.
    let was_short = !unlogged && state.log_is_short.load(Ordering::Relaxed);
    if was_short && !log.has_room(length) {
        return Err(Refusal::LogSpace(length));
    }
    if let Err(needed) = take_memory(state, view, rows, cells, tick, thread) {
        give_back(segment, cells, thread);
        return Err(Refusal::Memory(needed));
    }
    hooks::reach(Point::BeforeAppend, state.hook_context);

    // 6, 7. One lock gives the number and copies the record, so log order is number order. A snapshot that takes its number later waits for this commit.
    let given = || slot.set_committing();
    let appended = if unlogged { log.skip(given) } else { log.append(record, given) };
    let seq = match appended.map_err(|r| refusal(state, r)) {
        Ok(seq) => seq,
        Err(refusal) => {
            give_back(segment, cells, thread);
            state.log_is_short.store(true, Ordering::Relaxed);
            return Err(refusal);
        }
    };
    if was_short {
        state.log_is_short.store(false, Ordering::Relaxed);
    }
    hooks::reach(Point::Appended, state.hook_context);

    // 8. Versions, invisible until the mark.
    for cell in cells.iter_mut() {
        let Some(column) = cell.found else { continue };
        match std::mem::replace(&mut cell.ready, Ready::No) {
            Ready::Counter { plan, spare, held } => {
                if held {
                    state.copied.add(thread);
                }
                if let Write::Counter { value, .. } = cell.write {
                    column.apply_increment(seq.0, cell.timestamp, value, plan, spare);
                }
            }
            Ready::Cell(new) => column.push(new, seq.0, cell.timestamp),
            Ready::RowMarker(new) => column.row().push_marker(new, seq.0, cell.timestamp),
            Ready::No => continue,
        }
        segment.raise_max_ts(cell.family, cell.timestamp);
    }
    hooks::reach(Point::BeforeMark, state.hook_context);

    // 9. Mark: every reader sees the commit from here on, or, at FSYNC level, the moment the sync is done.
    let durable = log.durable();
    if let [row] = rows {
        if let Some(found) = row.found {
            found.header().mark(seq.0, fsync, durable);
        }
    } else {
        // Several rows appear at one instant: all headers name the slot's flag word, then the word says which commit it is.
        for found in rows.iter().filter_map(|row| row.found) {
            found.header().set_pending(slot.index(), seq.0);
        }
        // Release: pairs with the Acquire of a reader's `flag_of`; who sees it sees the versions of all rows.
        slot.flag().store(seq.0 << 1 | u64::from(fsync), Ordering::Release);
        for found in rows.iter().filter_map(|row| row.found) {
            found.header().mark(seq.0, fsync, durable);
            found.header().clear_pending();
        }
    }
    if fsync {
        locks.raise_fsync_pending(seq.0);
        log.note_fsync(seq.0);
    }
    locks.set_tick(tick);
    Ok(Committed { seq, tick, waits_for_sync: fsync, unlogged, bytes: record.len() })
}

/// Step 4's tick for the rows of `locks`; the commit that is then made must be given it.
#[inline]
pub fn draw_tick(state: &State, locks: &RowLocks<'_>) -> std::result::Result<Tick, Refusal> {
    match state.sequencer.next(locks.last_tick()) {
        Step::Take(tick) => Ok(tick),
        Step::WaitFor(tick) => Err(Refusal::Tick(tick)),
    }
}

/// Gives every cell its timestamp and writes the record.
fn encode(
    record: &mut RecordBuffer,
    segment: &Segment,
    rows: &[RowChange<'_, '_>],
    cells: &mut [CellChange<'_, '_>],
    tick: Tick,
    level: Level,
    nonces: Option<&NonceNotes<Vec<u8>>>,
) {
    record.begin(RecordKind::Commit, level, segment.generation(), tick);
    for row in rows {
        record.row(row.row);
        for cell in cells.get_mut(row.cells.clone()).unwrap_or_default() {
            cell.timestamp = cell.write.timestamp(tick);
            match cell.write {
                Write::Counter { value, .. } => record.counter(cell.family, cell.qualifier, cell.timestamp, value),
                Write::Put { value, .. } => record.cell(cell.family, cell.qualifier, CellType::Put, cell.timestamp, value),
                Write::Marker { kind, .. } => record.cell(cell.family, cell.qualifier, kind, cell.timestamp, b""),
                Write::Nothing => {}
            }
        }
    }
    if let Some(notes) = nonces {
        record.nonces(NonceNotes { answers: &notes.answers, fingerprints: notes.fingerprints.as_deref() });
    }
    record.finish();
}

/// Inserts what rows and columns are missing (empty: invisible to everyone) and takes the memory for every new version. Error: the bytes of
/// the piece that could not be had; what comes before it was taken.
fn take_memory<'v>(
    state: &State,
    view: &'v View,
    rows: &mut [RowChange<'_, 'v>],
    cells: &mut [CellChange<'_, 'v>],
    tick: Tick,
    thread: usize,
) -> std::result::Result<(), usize> {
    let segment: &'v Segment = &view.active;
    for row in rows.iter_mut() {
        let row_cells = cells.get_mut(row.cells.clone()).unwrap_or_default();
        let found = match row.found {
            Some(found) => found,
            None => {
                let first = row_cells.first().filter(|c| matches!(c.write, Write::Counter { .. })).map(|c| (c.family, c.qualifier));
                let found = match segment.find_row(row.hash, row.row) {
                    Some(found) => found,
                    None => {
                        let embedded = first.map_or(0, |(_, qualifier)| qualifier.len());
                        segment.insert_row(row.hash, row.row, first, thread).map_err(needs(row.row.len() + embedded + BLOCK_BYTES))?
                    }
                };
                row.found = Some(found);
                found
            }
        };
        // The largest timestamp ahead in all segments, once it is asked for: before this commit adds its own, which its markers do not have to reach.
        let mut ahead = None;
        for cell in row_cells.iter_mut().filter(|c| !matches!(c.write, Write::Nothing)) {
            let is_counter = matches!(cell.write, Write::Counter { .. });
            let small = needs(cell.qualifier.len() + BLOCK_BYTES);
            let column = match cell.found.or_else(|| segment.find_column(found, cell.family, cell.qualifier)) {
                Some(column) => column,
                None => segment.insert_column(found, cell.family, cell.qualifier, is_counter, thread).map_err(small)?,
            };
            cell.found = Some(column);
            if cell.timestamp > tick.0 && cell.write.is_value() {
                ahead = Some(ahead.unwrap_or_else(|| ahead_of(view, found, row.hash)));
                note_ahead(segment, found, cell.timestamp, thread).map_err(small)?;
            }
            cell.ready = match cell.write {
                Write::Counter { .. } => {
                    segment.ensure_slots(column, thread).map_err(small)?;
                    let plan = column.plan_increment(cell.keep, state.points.latest(), state.durable(), |user| {
                        state.points.with_points(|points, restarted| user(points, restarted));
                    });
                    let held = plan != Plan::InPlace && cell.keep.versions() == 1 && is_held(state, column);
                    let spare = if plan == Plan::Push { Some(segment.new_copy(thread).map_err(small)?) } else { None };
                    Ready::Counter { plan, spare, held }
                }
                Write::Put { value, .. } => {
                    let cell = segment.new_cell(value, CellType::Put, thread);
                    Ready::Cell(cell.map_err(needs(value.len() + BLOCK_BYTES))?)
                }
                // The column with the empty qualifier, maybe an empty one, stands in the index for it: a scan meets the marker where the family begins.
                Write::Marker { kind, .. } => {
                    let ahead = *ahead.get_or_insert_with(|| ahead_of(view, found, row.hash));
                    let leaves_nothing = is_final(kind, cell.timestamp, tick, ahead);
                    if is_of_family(kind) {
                        Ready::RowMarker(segment.new_row_marker(cell.family, kind, leaves_nothing, thread).map_err(small)?)
                    } else {
                        Ready::Cell(segment.new_marker(kind, leaves_nothing, thread).map_err(small)?)
                    }
                }
                Write::Nothing => Ready::No,
            };
        }
    }
    Ok(())
}

/// The largest timestamp that a value of the row has above its commit's tick, in every segment. Whoever adds another source of cells to the view adds
/// what it knows here, or no marker may be final.
#[cold]
#[inline(never)]
fn ahead_of(view: &View, active: RowRef<'_>, hash: RowHash) -> u64 {
    let sealed = view.sealed.iter().filter_map(|s| s.find_row(hash, active.row())).map(|r| r.ahead());
    sealed.fold(active.ahead(), u64::max)
}

#[cold]
#[inline(never)]
fn note_ahead(segment: &Segment, row: RowRef<'_>, timestamp: u64, thread: usize) -> std::result::Result<(), NoMemory> {
    segment.note_ahead(row, timestamp, thread)
}

/// True if an open read point shows the version that an increment is about to copy.
#[cold]
fn is_held(state: &State, column: ColumnRef<'_>) -> bool {
    let (older, newest) = column.slot_numbers();
    let at = |points: &[u64]| points.get(points.partition_point(|p| *p < older)).is_some_and(|p| *p < newest);
    state.points.with_points(|points, _| at(points)).unwrap_or(true)
}

/// The fixed parts of a row, column or cell are smaller.
const BLOCK_BYTES: usize = 256;

fn needs(bytes: usize) -> impl Fn(NoMemory) -> usize + Copy {
    move |NoMemory| bytes
}

/// The cells of a refused commit go back to their segment: nobody has seen them. In the order opposite to taking, so that they join.
fn give_back(segment: &Segment, cells: &mut [CellChange<'_, '_>], thread: usize) {
    for cell in cells.iter_mut().rev() {
        match std::mem::replace(&mut cell.ready, Ready::No) {
            Ready::Counter { spare: Some(copy), .. } => segment.give_back_copy(copy, thread),
            Ready::Cell(cell) | Ready::RowMarker(cell) => segment.give_back_cell(cell, thread),
            Ready::Counter { spare: None, .. } | Ready::No => {}
        }
    }
}

fn refusal(state: &State, refused: Refused) -> Refusal {
    match refused {
        Refused::NoRoom { needed } => Refusal::LogSpace(needed),
        Refused::Poisoned => Refusal::Fatal(state.health.error()),
        Refused::NoSpace(e) | Refused::Io(e) => Refusal::Fatal(e),
    }
}

/// Step 11: waits until a commit is as durable as it has to be. Called with nothing held.
pub fn wait_for_durable(state: &State, seq: SequenceNumber, timeout: &mut crate::clock::Timeout) -> Result<()> {
    let Some(log) = &state.log else { return Ok(()) };
    log.wait_for_durable(seq.0, timeout).map_err(|why| match why {
        crate::wal::NotDurable::Timeout => Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "commit {} is in the log, but its sync did not end within {} µs; wait_durable with this number goes on waiting",
                seq.0,
                timeout.micros()
            ),
        )
        .with_commit(seq.0),
        crate::wal::NotDurable::Poisoned => Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "commit {} is in the log, but the sync failed ({}); it may or may not survive: reopen the region to find out",
                seq.0,
                state.health.reason()
            ),
        )
        .with_commit(seq.0),
    })
}
