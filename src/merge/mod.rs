//! Pure rules over cells, used by reading and (later) by compaction. No I/O, no locks.
#![forbid(unsafe_code)]

pub mod visibility;
