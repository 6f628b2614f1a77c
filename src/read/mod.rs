//! Reading. No writes, no row locks; sources do the I/O.
//!
//! - `newest`: what a verb reads under the row lock: the newest applied version of a column, complete or not.
//! - `get`: one column or counter, newest or at a snapshot; waits for nobody.
//! - `snapshot`: one instant of the whole region.
//! - `scan`: rows in order at a snapshot.
#![forbid(unsafe_code)]

pub mod columns;
pub mod get;
mod heads;
pub mod lens;
pub mod newest;
pub mod scan;
pub mod snapshot;
