//! One binary for all integration tests: fewer links, one place for helpers.
mod verbs;
