//! What the integration tests and the kill test share.

pub mod rng;
pub mod watch;
