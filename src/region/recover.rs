//! Puts the records of the log back into a memstore segment. Nobody else sees the segment yet.

use crate::commit::mutation::{is_final, is_of_family};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{RowHash, RowHasher, Tick};
use crate::memstore::{Keep, NoMemory, Plan, RowRef, Segment};
use crate::mslab::MemoryBudget;
use crate::store::family::Families;
use crate::wal::{Record, RecordCell};

/// The replay is one thread: which open chunk it takes memory from does not matter.
const THREAD: usize = 0;

/// What was put back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replayed {
    /// Commits.
    pub commits: u64,
    /// Cells.
    pub cells: u64,
    /// Cells of families that are gone.
    pub skipped: u64,
}

/// Applies records in log order to one segment.
pub struct Replay<'s> {
    pub segment: &'s Segment,
    pub families: &'s Families,
    pub budget: &'s MemoryBudget,
    pub hasher: &'s RowHasher,
    pub done: Replayed,
    pub coming: Coming,
}

/// Rows that were told to come, whose table buckets are on their way into the cache.
#[derive(Default)]
pub struct Coming {
    hashes: [RowHash; 8],
    at: usize,
}

impl<'s> Replay<'s> {
    /// One record. Every row it touches is marked at level SYNC: the log's end is made durable before anybody reads.
    pub fn apply(&mut self, record: &Record<'_>) -> Result<()> {
        let seq = record.number.0;
        for row in record.rows() {
            let hash = self.hasher.hash(row.key);
            let mut header = self.segment.find_row(hash, row.key);
            let mut wrote = false;
            for cell in row.cells() {
                let Some(family) = self.families.get(cell.family) else {
                    self.done.skipped += 1;
                    continue;
                };
                if self.cell(&mut header, hash, family.keep_at(seq), seq, record.tick, &cell).is_err() {
                    return Err(self.too_large());
                }
                self.segment.raise_max_ts(cell.family, cell.timestamp);
                self.done.cells += 1;
                wrote = true;
            }
            if let Some(row) = header.filter(|_| wrote) {
                row.header().mark(seq, false, u64::MAX);
            }
        }
        self.done.commits += 1;
        Ok(())
    }

    /// Its memory is fetched in two stages, as the second needs what the first brings: without, a third of a replay over many rows is waiting for memory.
    pub fn soon(&mut self, row: &[u8]) {
        let hash = self.hasher.hash(row);
        self.segment.prefetch_table(hash);
        let Coming { hashes, at } = &mut self.coming;
        if let Some(place) = hashes.get_mut(*at) {
            self.segment.prefetch_row(std::mem::replace(place, hash));
        }
        *at = (*at + 1) % hashes.len();
    }

    fn cell(
        &self,
        row: &mut Option<RowRef<'s>>,
        hash: RowHash,
        keep: Keep,
        seq: u64,
        tick: Tick,
        cell: &RecordCell<'_>,
    ) -> std::result::Result<(), NoMemory> {
        let segment = self.segment;
        let counter = cell.counter.then(|| <[u8; 8]>::try_from(cell.value).ok()).flatten().map(i64::from_be_bytes);
        let found = match *row {
            Some(found) => found,
            None => *row.insert(segment.insert_row(hash, cell.row, counter.map(|_| (cell.family, cell.qualifier)), THREAD)?),
        };
        let column = match segment.find_column(found, cell.family, cell.qualifier) {
            Some(column) => column,
            None => segment.insert_column(found, cell.family, cell.qualifier, counter.is_some(), THREAD)?,
        };
        if cell.kind.is_marker() {
            // The segment holds all that is older, and maybe something of the same commit: then fewer are final than the commit found.
            let leaves_nothing = is_final(cell.kind, cell.timestamp, tick, found.ahead());
            if is_of_family(cell.kind) {
                found.push_marker(segment.new_row_marker(cell.family, cell.kind, leaves_nothing, THREAD)?, seq, cell.timestamp);
            } else {
                column.push(segment.new_marker(cell.kind, leaves_nothing, THREAD)?, seq, cell.timestamp);
            }
            return Ok(());
        }
        if cell.timestamp > tick.0 {
            segment.note_ahead(found, cell.timestamp, THREAD)?;
        }
        let Some(value) = counter else {
            column.push(segment.new_cell(cell.value, cell.kind, THREAD)?, seq, cell.timestamp);
            return Ok(());
        };
        segment.ensure_slots(column, THREAD)?;
        // No reader and no read point: only what the versions ask for that the family kept at the time.
        let plan = column.plan_increment(keep, 0, u64::MAX, |user| user(&[], false));
        let spare = if plan == Plan::Push { Some(segment.new_copy(THREAD)?) } else { None };
        column.apply_increment(seq, cell.timestamp, value, plan, spare);
        Ok(())
    }

    #[cold]
    fn too_large(&self) -> Error {
        // What the whole log would need can only be estimated from the part that was replayed.
        let (used, limit) = (self.budget.used(), self.budget.limit());
        let would_do = (used.max(limit)).saturating_mul(2);
        Error::new(
            ErrorKind::TooLarge,
            format!(
                "the log holds more than the memory allows: {} commits filled {used} of memstore_limit = {limit} bytes; open it with a larger one, {would_do} for a start",
                self.done.commits
            ),
        )
    }
}
