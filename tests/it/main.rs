//! Tests from outside, one binary: linking many would cost more than running them.
#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;
mod crash;
mod header;
mod symbols;
mod tidy;
mod verbs;
