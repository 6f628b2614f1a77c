//! One binary for all integration tests: fewer links, one place for helpers.
#[path = "../common/mod.rs"]
mod common;
mod crash;
mod verbs;
