//! libregion: an HBase region as an embedded library. A durable wide-column store whose first-class operation is the counter.
//!
//! The modules stand in data-flow order: what a call passes from the C boundary down to the disk.

#[cfg(not(loom))]
#[expect(unsafe_code, reason = "the C interface: the only room that sees callers' pointers")]
pub mod ffi;

// The part of the C interface that threads race on, alone, for loom.
#[cfg(all(test, loom))]
#[expect(unsafe_code, reason = "loom's cells")]
#[path = "ffi/handle/protocol.rs"]
mod ffi_handle_protocol;

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
