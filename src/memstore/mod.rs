//! Cells that are not yet in a file.

#[expect(unsafe_code, reason = "nodes in arena memory, read while others change them")]
pub mod column_index;
