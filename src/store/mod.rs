//! What a region consists of on disk: its families and what is live. No cells, no log.
//!
//! | file | what |
//! |---|---|
//! | `family.rs` | column families: ids, names, settings |
//! | `manifest.rs` | the file that says what is live; atomic replacement |
#![forbid(unsafe_code)]

pub mod family;
pub mod manifest;

pub use family::{Families, FamilyInfo};
pub use manifest::Manifest;
