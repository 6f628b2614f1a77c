//! Cells that are not yet in a file: segments, each one generation, and what a row and a column of them hold.
//!
//! | part | what it knows |
//! |---|---|
//! | `segment` | the face: lookup, insert, sizes, cursor |
//! | `refs` | what callers hold: row, column, cell to be pushed |
//! | `pinned` | bytes that outlive the read which found them |
//! | `row_header` | up to which commit a row may be shown |
//! | `versions` | what a column holds: slots, list, what may be overwritten |
//! | `blocks` | where a row's and a column's words and bytes lie |
//! | `row_table` | hash index |
//! | `column_index` | ordered index |
//!
//! An increment of a counter that exists: `find_row`, `find_column`, `read(u64::MAX)`, `plan_increment`, then (its number taken)
//! `apply_increment` and `RowHeader::mark`. It touches one line of the table and the two lines of the row's block, and takes no memory unless
//! the plan says `Push`. Everything that can fail comes before the number: `insert_row`, `insert_column`, `ensure_slots`, `new_cell`, `new_copy`.
//!
//! Must not: lock rows, number commits, write the log, know snapshots (read points and D come in as arguments).
//!
//! Memory that runs out is [`NoMemory`]; nothing that was begun is seen by anybody.

#[expect(unsafe_code, reason = "words name blocks in the arena; key bytes lie behind them")]
mod blocks;
#[expect(unsafe_code, reason = "nodes in arena memory, read while others change them")]
pub mod column_index;
mod flaw;
#[expect(unsafe_code, reason = "bytes of the arena, kept by a reference to their segment")]
mod pinned;
#[expect(unsafe_code, reason = "gives the arena's cells to columns of the same segment")]
mod refs;
mod row_header;
#[expect(unsafe_code, reason = "buckets lie in the arena; levels are shared by pointer")]
mod row_table;
#[expect(unsafe_code, reason = "initialises arena memory; words of its own blocks become references")]
mod segment;
#[expect(unsafe_code, reason = "list cells lie in the arena and are linked by address")]
mod versions;

pub use crate::mslab::NoMemory;
pub use column_index::{ColumnKey, KEY_MIN};
pub use pinned::PinnedBytes;
pub use refs::{ColumnRef, NewCell, RowRef, SavedColumn, SpareCopy};
pub use row_header::{Cut, PENDING_SLOT_MAX, RowHeader};
pub use segment::{ColumnCursor, OldCells, Segment};
pub use versions::{Content, Keep, Marked, Over, Plan, PointsUser, RowMarker, TRIMMED_VERSIONS_MAX, VersionRef, VersionValue, Wanted};
