//! Tests from outside, one binary: linking many would cost more than running them.
#![allow(missing_docs)]

mod append_lock;
mod boundary;
mod chunks;
#[path = "../common/mod.rs"]
mod common;
mod counters;
mod crash;
mod cut_files;
mod deletes;
mod durable;
mod header;
mod linear;
mod nonces;
mod reports_batches;
mod reports_reads;
mod reports_stalls;
mod reviewed;
mod rig;
mod rows;
mod scan_model;
mod scans;
mod scenarios_batches;
mod scenarios_checks;
mod scenarios_counters;
mod scenarios_reads;
mod scenarios_reports;
mod scenarios_rows;
mod settings;
mod settings_changed;
mod short;
mod steady;
mod stress;
mod symbols;
mod ticks;
mod tidy;
mod unsynced;
mod verbs;
mod visibility;
