//! What a region consists of on disk: its families and what is live. No cells, no log.
//!
//! | file | what |
//! |---|---|
//! | `family.rs` | column families: ids, names, settings |
//! | `manifest.rs` | the file that says what is live; atomic replacement |
//! | `state.rs` | what commits and reads of a running region share |
//! | `view.rs` | what a reader or writer holds of the region at one moment |
#![forbid(unsafe_code)]

pub mod family;
pub mod manifest;
#[cfg(not(loom))]
pub mod state;
pub mod view;

pub use family::{Families, FamilyInfo};
pub use manifest::Manifest;
