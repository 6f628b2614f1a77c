//! libregion: an HBase region as an embedded library. A durable wide-column store whose first-class operation is the counter.
//!
//! The modules stand in data-flow order: what a call passes from the C boundary down to the disk.

#[cfg(not(loom))]
#[expect(unsafe_code, reason = "the C interface: the only room that sees callers' pointers")]
pub mod ffi;

#[cfg(not(loom))]
pub mod region;

pub mod cell;
pub mod mslab;

pub mod error;

pub mod clock;
pub mod health;
pub mod ids;
pub mod options;
pub mod sync;

pub use error::{Error, ErrorKind, Result};
