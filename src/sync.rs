//! The only import point of locks, atomics, Arc and threads: std and parking_lot, or loom under `--cfg loom`. No logic.

#[cfg(not(loom))]
mod real {
    pub use parking_lot::{Condvar, Mutex, MutexGuard};
    pub use std::sync::Arc;
    pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use std::thread;

    /// A hint that the caller spins; a scheduling point under loom.
    pub fn spin_loop() {
        std::hint::spin_loop();
    }
}

#[cfg(loom)]
mod real {
    pub use loom::sync::Arc;
    pub use loom::sync::MutexGuard;
    pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use loom::thread;

    /// parking_lot's face over loom's mutex.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// As parking_lot's.
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }
        /// As parking_lot's.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|e| e.into_inner())
        }
        /// As parking_lot's.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// parking_lot's face over loom's condition variable; a timed wait never times out under loom.
    #[derive(Debug, Default)]
    pub struct Condvar(loom::sync::Condvar);

    impl Condvar {
        /// As parking_lot's.
        pub fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }
        /// As parking_lot's, but takes and returns the guard: loom offers no other form.
        pub fn wait_owned<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(|e| e.into_inner())
        }
        /// As parking_lot's.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }
        /// As parking_lot's.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// A scheduling point.
    pub fn spin_loop() {
        loom::thread::yield_now();
    }
}

pub use real::*;
