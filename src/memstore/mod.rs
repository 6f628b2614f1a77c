//! Cells not yet in a file.
mod flaw;
mod row_header;
#[expect(unsafe_code, reason = "list cells lie in the arena and are linked by address")]
mod versions;
pub use row_header::{Cut, PENDING_SLOT_MAX, RowHeader};
pub use versions::{Content, Keep, Plan, PointsUser, VersionRef, VersionValue};
