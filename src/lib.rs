//! libregion: an HBase region as an embedded library. A durable wide-column store whose first-class operation is the counter.
//!
//! The modules stand in data-flow order: what a call passes from the C boundary down to the disk.

#[cfg(not(loom))]
#[expect(unsafe_code, reason = "the C interface: the only room that sees callers' pointers")]
pub mod ffi;

// The part of the C interface that threads race on, alone, for loom.
#[cfg(all(test, loom))]
#[path = "ffi/handle/protocol.rs"]
mod ffi_handle_protocol;

#[cfg(not(loom))]
pub mod region;

#[cfg(not(loom))]
pub mod commit;
#[cfg(not(loom))]
pub mod read;

pub mod store;

pub mod memstore;
pub mod merge;
#[expect(unsafe_code, reason = "pointers freed after a grace period")]
pub mod mvcc;
pub mod nonce;
pub mod rowlock;
pub mod sequencer;
pub mod wal;

pub mod env;
pub mod mslab;

pub mod cell;

pub mod clock;
pub mod error;
pub mod health;
pub mod hooks;
pub mod ids;
pub mod lock_order;
pub mod options;
pub mod stats;
pub mod sync;

pub use error::{Error, ErrorKind, Result};
