//! Is the region fit for writes? Healthy, poisoned with a reason, or closed; one-way changes.
//!
//! Read on every commit, so the state is one word; the reason sits behind a lock that only failures touch.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicU8, Mutex, Ordering};

const HEALTHY: u8 = 0;
const POISONED: u8 = 1;

/// Health of one region. Shared by the log, the commit slots and the verbs.
pub struct Health {
    state: AtomicU8,
    reason: Mutex<String>,
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// Healthy.
    pub fn new() -> Self {
        Self { state: AtomicU8::new(HEALTHY), reason: Mutex::new(String::new()) }
    }
    /// Refuse writes from now on. The first reason stays.
    #[cold]
    pub fn poison(&self, reason: &str) {
        let is_first = {
            let mut r = self.reason.lock();
            let is_first = r.is_empty();
            if is_first {
                r.push_str(reason);
            }
            is_first
        };
        // Release: pairs with the Acquire in `is_good`; who sees the state can read the reason.
        self.state.store(POISONED, Ordering::Release);
        // With nothing held: a logger may ask for the reason.
        if is_first {
            log::error!(target: "region", "poisoned: {reason}");
        }
    }
    /// True until the first [`Health::poison`].
    pub fn is_good(&self) -> bool {
        // Acquire: pairs with the Release in `poison`.
        self.state.load(Ordering::Acquire) == HEALTHY
    }
    /// Error if poisoned.
    pub fn check(&self) -> Result<()> {
        if self.is_good() { Ok(()) } else { Err(self.error()) }
    }
    /// The error that a refused call gets.
    #[cold]
    pub fn error(&self) -> Error {
        Error::new(
            ErrorKind::Poisoned,
            format!("the region refuses writes since: {}; close and reopen it to find out what survived", self.reason()),
        )
    }
    /// Why it is poisoned; empty while healthy.
    pub fn reason(&self) -> String {
        self.reason.lock().clone()
    }
}
