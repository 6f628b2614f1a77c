//! The C interface: guard, convert, one call into the core. No decisions, no state but handles and the log ring.
//!
//! `include/region.h` is rendered from this folder: the documentation of what is public here is written for C programmers. Every entry
//! point is `guard` + `convert` + one call: `guard.rs` catches panics, checks the handle and the fork flag and writes the error; the
//! [`guard::Caller`] it passes on is the only way to a caller's pointer.
//!
//! *UNSAFE ROOM*, the only one that sees callers' pointers. Invariants: (1) a pointer is used only through `Caller`, within the call it
//! was passed to; (2) an object behind a handle is reached only through `handle::enter`, which keeps it alive until the call leaves; (3)
//! nothing unwinds out of an entry point; (4) every length that comes from a packed buffer is checked against the buffer before use.
//!
//! *Must not*: decide anything that the core could decide, keep results, call back under a lock.
#![allow(non_camel_case_types, reason = "these are the C names")]
#![allow(clippy::missing_safety_doc, reason = "the C documentation of a function is its contract")]
#![allow(clippy::too_many_arguments, reason = "the C signatures are the contract")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

#[cfg(panic = "abort")]
compile_error!("a panic must become REGION_E_PANIC: build with panic = \"unwind\"");

mod guard;
mod handle;

pub mod batch;
pub mod bytes;
pub mod log;
mod op;
pub mod open_options;
pub mod options;
mod pack;
mod page;
pub mod pool;
pub mod read;
pub mod region;
pub mod scan;
mod sized;
pub mod status;
pub mod version;
pub mod write;

#[cfg(test)]
mod tests;
