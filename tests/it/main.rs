//! Tests from outside, one binary: linking many would cost more than running them.
#![allow(missing_docs)]

mod header;
mod symbols;
mod tidy;
mod verbs;
