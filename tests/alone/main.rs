//! Tests that measure the process: allocations, resident memory, rates. A binary of their own, and one at a time in it, since nothing else may run beside them.
#![allow(missing_docs)]

mod allocations;
mod limits;
mod memory;
mod rates;
#[path = "../it/rig.rs"]
#[allow(dead_code)]
mod rig;
#[path = "../it/short.rs"]
mod short;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// Held by each test of this binary.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

/// A directory on a file system in memory, if there is one: what is measured is not the disk.
pub fn fast_dir() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm).unwrap() } else { disk_dir() }
}

/// A directory on the disk that the build is on.
pub fn disk_dir() -> tempfile::TempDir {
    tempfile::tempdir_in(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}
