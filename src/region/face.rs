//! Types of calls and answers: what the C boundary, the command line tool and Rust programs pass to the verbs and get from them.
//!
//! Rows, qualifiers and values are borrowed for the call. Nothing here knows C.

use crate::cell::CellType;
use crate::error::{Error, ErrorKind};

/// What a long call is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Replaying the log.
    Recovery,
    /// Writing memory to files.
    Flush,
    /// Merging files.
    Compact,
    /// Linking or copying files.
    Checkpoint,
    /// Writing files for HBase.
    Export,
    /// Taking a file in.
    Ingest,
}

/// How far a long call is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it is doing.
    pub phase: Phase,
    /// Done so far.
    pub done: u64,
    /// Of so much; 0 = not known yet.
    pub total: u64,
}

/// How a region is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloseFlags {
    /// Open children do not keep it open: they answer `Closed` from then on.
    pub force: bool,
    /// Commits that are not in the log are not flushed first.
    pub no_flush: bool,
}

/// What a write tells besides its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitInfo {
    /// `CommitInfo::DURABLE`, `CommitInfo::DUPLICATE`.
    pub flags: u32,
    /// Highest commit of the call; 0 = nothing to wait for.
    pub seq: u64,
    /// Its tick: the timestamp of its cells that were given none.
    pub timestamp: u64,
}

impl CommitInfo {
    /// Already as durable as asked.
    pub const DURABLE: u32 = 1 << 0;
    /// Nothing new was written: what the call did was answered from the nonce's first run.
    pub const DUPLICATE: u32 = 1 << 1;
}

/// Answer of one increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The value after it (before it with `RETURN_OLD`); the current one where a bound refused it.
    pub value: i64,
    /// False: a bound refused it, nothing changed.
    pub applied: bool,
}

/// One column of a row to count up.
#[derive(Clone, Copy, Debug)]
pub struct IncrementColumn<'a> {
    /// Family id.
    pub family: u32,
    /// Qualifier.
    pub qual: &'a [u8],
    /// What to add.
    pub delta: i64,
}

/// The columns of [`Region::increment_row`].
pub trait IncrementColumns {
    /// How many.
    fn len(&self) -> usize;
    /// None at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The `i`-th, `i < len`.
    fn get(&self, i: usize) -> IncrementColumn<'_>;
}

/// One element of [`Region::increment_many`].
#[derive(Clone, Copy, Debug)]
pub struct Increment<'a> {
    /// Family id.
    pub family: u32,
    /// Row.
    pub row: &'a [u8],
    /// Qualifier.
    pub qual: &'a [u8],
    /// What to add.
    pub delta: i64,
}

/// The elements of [`Region::increment_many`].
pub trait Increments {
    /// How many.
    fn len(&self) -> usize;
    /// None at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The `i`-th, `i < len`.
    fn get(&self, i: usize) -> Increment<'_>;
}

/// How a condition compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Stored < expected.
    Less,
    /// Stored ≤ expected.
    LessOrEqual,
    /// Stored > expected.
    Greater,
    /// Stored ≥ expected.
    GreaterOrEqual,
    /// There is a value.
    Exists,
    /// There is none.
    Absent,
}

/// What an element of a batch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Stores a value.
    Put,
    /// Deletes all versions of the column.
    Delete,
    /// Deletes one version.
    DeleteVersion,
    /// Deletes the family of the row.
    DeleteFamily,
    /// Deletes the row.
    DeleteRow,
    /// Adds bytes to the end of the value.
    Append,
    /// Adds to the counter.
    Increment,
    /// Deletes the versions of one timestamp in the family.
    DeleteFamilyVersion,
    /// A condition on the group; with `as_counter` it compares `delta`, else `value` as bytes.
    Check {
        /// How it compares.
        how: Comparison,
        /// As signed counters.
        as_counter: bool,
    },
}

impl Op {
    /// As the C interface calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "REGION_OP_PUT",
            Self::Delete => "REGION_OP_DELETE",
            Self::DeleteVersion => "REGION_OP_DELETE_VERSION",
            Self::DeleteFamily => "REGION_OP_DELETE_FAMILY",
            Self::DeleteRow => "REGION_OP_DELETE_ROW",
            Self::Append => "REGION_OP_APPEND",
            Self::Increment => "REGION_OP_INCREMENT",
            Self::DeleteFamilyVersion => "REGION_OP_DELETE_FAMILY_VERSION",
            Self::Check { .. } => "REGION_OP_CHECK",
        }
    }
}

/// One element of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Mutation<'a> {
    /// What it does.
    pub op: Op,
    /// Family id; no meaning for `DeleteRow`.
    pub family: u32,
    /// Row.
    pub row: &'a [u8],
    /// Qualifier.
    pub qual: &'a [u8],
    /// Value, suffix, or what a check expects.
    pub value: &'a [u8],
    /// What to add, or what a counter check expects.
    pub delta: i64,
    /// 0 = assigned.
    pub timestamp: u64,
}

/// The elements of [`Region::batch`].
pub trait Mutations {
    /// How many.
    fn len(&self) -> usize;
    /// None at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The `i`-th, `i < len`.
    fn get(&self, i: usize) -> Mutation<'_>;
}

/// How one element of a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpStatus {
    /// Applied (a check: met).
    Applied,
    /// A check or a bound of its group (atomic: of the call) was not met; nothing changed.
    NotApplied,
    /// Failed, or with `ErrorKind::NotRun` not run since another element failed.
    Failed(ErrorKind),
}

/// Answer to one element of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpResult {
    /// How it ended.
    pub status: OpStatus,
    /// `OpResult::RETRYABLE`, `OpResult::DUPLICATE`.
    pub flags: u32,
    /// The counter, of increments and checks.
    pub value: i64,
}

impl OpResult {
    /// This element may be tried again and cannot count twice.
    pub const RETRYABLE: u32 = 1 << 0;
    /// Answered from the nonce's first run.
    pub const DUPLICATE: u32 = 1 << 1;
}

/// How a batch ended as a whole, if not in an error (then nothing of it was applied, an unknown outcome excepted).
#[derive(Debug)]
pub enum BatchOutcome {
    /// Every element applied.
    Done,
    /// None failed; at least one check or bound was not met, its group changed nothing.
    NotApplied {
        /// The first element whose check or bound was not met.
        first: usize,
    },
    /// Some groups applied, some failed.
    Partial {
        /// The first element that failed.
        first: usize,
        /// Elements that were applied.
        applied: usize,
        /// Elements that were not, since they or their groups failed.
        failed: usize,
        /// Its reason. `is_retryable` speaks of the whole call: true only where a repeated call cannot count twice.
        error: Error,
    },
}

/// What a read found, besides the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Timestamp of the version.
    pub timestamp: u64,
    /// Its commit.
    pub seq: u64,
}

/// Bytes that stay readable until this is dropped, also after the region is closed. Counts itself in the region's stats.
pub trait Pinned: Send + Sync {
    /// The bytes; always the same address.
    fn bytes(&self) -> &[u8];
}

/// Where a value goes. A read that has to start again fills it again: the last fill counts.
pub trait ValueSink {
    /// Room for exactly `len` bytes, if there is any: the value is copied there.
    fn fits(&mut self, len: usize) -> Option<&mut [u8]>;
    /// Takes the value pinned, where it does not fit.
    fn pin(&mut self, value: Box<dyn Pinned>);
}

/// Name of a column to read.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Family id.
    pub family: u32,
    /// Row.
    pub row: &'a [u8],
    /// Qualifier.
    pub qual: &'a [u8],
}

/// The keys of [`Region::get_many`] and [`Region::counter_get_many`].
pub trait Keys {
    /// How many.
    fn len(&self) -> usize;
    /// None at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The `i`-th, `i < len`.
    fn get(&self, i: usize) -> Key<'_>;
}

/// Which columns a scan shows.
#[derive(Clone, Copy, Debug)]
pub enum ColumnFilter<'a> {
    /// All of a family.
    Family(u32),
    /// One column.
    Exact(u32, &'a [u8]),
    /// Qualifiers that begin so.
    Prefix(u32, &'a [u8]),
    /// Qualifiers from the first to before the second; an empty second = no bound.
    Range(u32, &'a [u8], &'a [u8]),
}

/// What a scan covers. Empty and zero: no bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanSpec<'a> {
    /// `ScanSpec::REVERSE` and its neighbours.
    pub flags: u32,
    /// First row.
    pub start_row: &'a [u8],
    /// First row beyond (the last one with `INCLUSIVE_END`).
    pub end_row: &'a [u8],
    /// Only rows that begin so.
    pub row_prefix: &'a [u8],
    /// Only these columns; empty = all.
    pub columns: &'a [ColumnFilter<'a>],
    /// Rows.
    pub row_limit: u64,
    /// Cells.
    pub cell_limit: u64,
    /// Versions of each column; 0 = 1.
    pub max_versions: u32,
    /// Cells of each row.
    pub cells_per_row: u32,
}

impl ScanSpec<'_> {
    /// From the last row to the first.
    pub const REVERSE: u32 = 1 << 0;
    /// `end_row` itself too.
    pub const INCLUSIVE_END: u32 = 1 << 1;
    /// Not `start_row` itself.
    pub const EXCLUSIVE_START: u32 = 1 << 2;
    /// Delete markers and deleted cells too.
    pub const RAW: u32 = 1 << 3;
    /// Without values.
    pub const KEYS_ONLY: u32 = 1 << 4;
    /// Pages end at row ends only (the boundary sees to that).
    pub const WHOLE_ROWS: u32 = 1 << 5;
    /// Every flag there is.
    pub const FLAGS_ALL: u32 = Self::REVERSE | Self::INCLUSIVE_END | Self::EXCLUSIVE_START | Self::RAW | Self::KEYS_ONLY | Self::WHOLE_ROWS;
}

/// One cell of a scan; valid until the scanner is asked again.
#[derive(Clone, Copy, Debug)]
pub struct ScanCell<'a> {
    /// Row.
    pub row: &'a [u8],
    /// Family id.
    pub family: u32,
    /// Qualifier.
    pub qual: &'a [u8],
    /// Timestamp.
    pub timestamp: u64,
    /// Commit.
    pub seq: u64,
    /// Put or a delete marker.
    pub kind: CellType,
    /// Value; empty with `KEYS_ONLY`.
    pub value: &'a [u8],
    /// The first cell of its row.
    pub new_row: bool,
    /// The last one that is given out.
    pub row_end: bool,
}

/// How [`super::Scanner::fill`] came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// The sink refused a cell.
    Full,
    /// There is nothing more.
    End {
        /// The last cell given was the last one of its row; false where a limit ended the scan within the row.
        row_ended: bool,
    },
}

/// Takes the cells of one row from [`super::Region::get_row`].
pub trait RowSink {
    /// What was given before does not count: the read starts again.
    fn restart(&mut self);
    /// The next cell. Its `row_end` is not set: the last one given is the last one of the row.
    fn cell(&mut self, cell: &ScanCell<'_>);
}

/// Numbers about a region, in the order of the C struct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described once, at the C struct of the same names")]
pub struct RegionStats {
    pub seq: u64,
    pub durable_seq: u64,
    pub memstore_bytes: u64,
    pub memstore_heap_bytes: u64,
    pub wal_bytes: u64,
    pub wal_syncs: u64,
    pub flushes: u64,
    pub compactions: u64,
    pub reads: u64,
    pub writes: u64,
    pub increments: u64,
    pub checks_passed: u64,
    pub checks_failed: u64,
    pub stalled_writes: u64,
    pub stalled_us: u64,
    pub row_lock_waits: u64,
    pub clock_waits: u64,
    pub folded: u64,
    pub tick_advances: u64,
    pub tick_lead_max_ns: u64,
    pub open_scanners: u64,
    pub open_snapshots: u64,
    pub oldest_snapshot_seq: u64,
    pub oldest_snapshot_age_us: u64,
    pub pinned_values: u64,
    pub pinned_bytes: u64,
    pub memstore_limit: u64,
    pub memstore_sealed_bytes: u64,
    pub wal_segments: u64,
    pub unlogged_bytes: u64,
    pub health: u64,
    pub nonce_entries: u64,
    pub nonce_bytes: u64,
    pub nonce_bytes_max: u64,
    pub nonce_hits: u64,
    pub nonce_expired: u64,
    pub nonce_refused: u64,
    pub read_points: u64,
    pub old_versions: u64,
    pub old_version_bytes: u64,
    pub counter_copies: u64,
    pub counter_copy_bytes: u64,
    pub held_copies: u64,
    pub held_copy_bytes: u64,
    pub row_lock_waiting: u64,
    pub oldest_commit_us: u64,
    pub oldest_call_us: u64,
}

/// Takes the answers of [`super::Region::counter_get_many`]: index of the key, and its counter with timestamp.
pub type CounterResults<'r> = &'r mut dyn FnMut(usize, crate::error::Result<Option<(i64, u64)>>);
/// Takes the answers of [`super::Region::get_many`]: index of the key, and what was found with its bytes; false stops.
pub type ValueResults<'r> = &'r mut dyn FnMut(usize, Option<(Found, &[u8])>) -> bool;
