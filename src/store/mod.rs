//! What a region consists of on disk: its families and what is live. No cells, no log.
//!
//! | file | what |
//! |---|---|
//! | `family.rs` | column families: ids, names, settings |
//! | `manifest.rs` | the file that says what is live; atomic replacement |
//! | `view.rs` | what a reader or writer holds of the region at one moment |
#![forbid(unsafe_code)]

pub mod family;
pub mod manifest;
pub mod view;

pub use family::{Families, FamilyInfo};
pub use manifest::Manifest;
