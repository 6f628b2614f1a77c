//! Waiting for memory: a bounded wait for a condition that others make true.
//!
//! Returning memory is rare (once per flush), so opening the gate takes its lock each time; nothing is on any hot path.
#![forbid(unsafe_code)]

use super::flaw::{self, Flaw};
use crate::sync::{Condvar, Mutex};

/// Those who wait for one resource.
pub struct Gate {
    lock: Mutex<()>,
    opened: Condvar,
}

impl Gate {
    pub fn new() -> Self {
        Self { lock: Mutex::new(()), opened: Condvar::new() }
    }
    /// Wakes everybody to look again. Called after the change that may let them go on.
    pub fn open(&self) {
        // Taking the lock puts this behind a waiter's look at the condition: it either saw the change or is woken.
        if !flaw::is(Flaw::OpenOutsideLock) {
            drop(self.lock.lock());
        }
        self.opened.notify_all();
    }
    /// True once `ready`; false when `closing`, or the timeout is over. `closing` and `ready` are also looked at again every 10 ms, so that
    /// nobody needs to know all the gates to open.
    #[cfg(not(loom))]
    pub fn wait_until(&self, timeout: &mut crate::clock::Timeout, closing: &dyn Fn() -> bool, ready: &dyn Fn() -> bool) -> bool {
        self.wait_until_or(timeout, closing, ready, &|| false)
    }
    /// As above, or until `also`, which nobody opens the gate for: it is asked every 10 ms, with nothing held, so it may do more than look.
    #[cfg(not(loom))]
    pub fn wait_until_or(
        &self,
        timeout: &mut crate::clock::Timeout,
        closing: &dyn Fn() -> bool,
        ready: &dyn Fn() -> bool,
        also: &dyn Fn() -> bool,
    ) -> bool {
        const SLICE: std::time::Duration = std::time::Duration::from_millis(10);
        loop {
            if also() {
                return true;
            }
            let mut guard = self.lock.lock();
            if closing() {
                return false;
            }
            if ready() {
                return true;
            }
            if timeout.is_over() {
                return false;
            }
            self.opened.wait_for(&mut guard, timeout.left(SLICE));
        }
    }
    /// As `wait_until`; loom has no time, so it waits until woken.
    #[cfg(loom)]
    pub fn wait_until_or(
        &self,
        timeout: &mut crate::clock::Timeout,
        closing: &dyn Fn() -> bool,
        ready: &dyn Fn() -> bool,
        _also: &dyn Fn() -> bool,
    ) -> bool {
        self.wait_until(timeout, closing, ready)
    }
    /// As above; loom has no time, so it waits until woken.
    #[cfg(loom)]
    pub fn wait_until(&self, _timeout: &mut crate::clock::Timeout, closing: &dyn Fn() -> bool, ready: &dyn Fn() -> bool) -> bool {
        let mut guard = self.lock.lock();
        loop {
            if closing() {
                return false;
            }
            if ready() {
                return true;
            }
            guard = self.opened.wait_owned(guard);
        }
    }
}
