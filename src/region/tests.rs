//! The region's own locks, and errors that come from outside.

use super::*;
use crate::env::mem::MemEnv;
use crate::error::ErrorKind;
use crate::options::{Durability, OpenFlags};

fn open(env: &MemEnv, config: &str) -> Result<Region> {
    let options = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("f")],
        config: config.into(),
        ..RegionOptions::default()
    };
    Region::open_in(Arc::new(env.clone()), Path::new("/r"), options, None, None)
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "lock order: the manifest (level 0) wanted while the lock of view changes (level 1) is held")]
fn the_manifest_comes_before_view_changes() {
    let r = open(&MemEnv::new(), "").unwrap();
    let _held = r.inner.lock_seal();
    let _ = r.family_set(FamilySpec::named("g"));
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "lock order: the closer's lock (level 1) wanted while the lock of view changes (level 1) is held")]
fn a_closer_changes_no_view() {
    let r = open(&MemEnv::new(), "").unwrap();
    let _held = r.inner.lock_seal();
    let _ = r.close(CloseFlags::default(), Timeout::no_wait());
}

/// The system's number reaches the caller, also where the error was met by another thread, or is a kind of its own.
#[test]
fn errors_from_the_system_keep_their_number() {
    let env = MemEnv::new();
    let r = open(&env, "wal_segment_bytes=64k,wal_bytes_max=64m").unwrap();
    env.set_capacity(Some(env.used_bytes()));
    let e = (0u32..100_000)
        .find_map(|i| r.put(&i.to_be_bytes(), 1, b"q", &[7; 2000], &WriteOptions::DEFAULT, &mut CommitInfo::default()).err());
    let e = e.expect("the disk is full");
    assert_eq!((e.kind(), e.os_errno(), e.is_retryable()), (ErrorKind::NoSpace, libc::ENOSPC, true), "{e}");
    env.set_capacity(None);
    r.close(CloseFlags::default(), Timeout::forever()).unwrap();
    env.set_lock_permission(false);
    let e = open(&env, "").err().unwrap();
    assert_eq!((e.kind(), e.os_errno()), (ErrorKind::Io, libc::EACCES), "{e}");
}

/// A life that wrote nothing has nothing to note: its close leaves the manifest as it is. One that gave numbers notes them, in the log or not.
#[test]
fn a_close_without_a_commit_leaves_the_manifest() {
    let env = MemEnv::new();
    let manifest = || env.identity(Path::new("/r/MANIFEST")).unwrap();
    let stored_at_close = |level: Option<Durability>| {
        let r = open(&env, "").unwrap();
        let opened = manifest();
        if let Some(level) = level {
            let o = WriteOptions { durability: Some(level), ..WriteOptions::DEFAULT };
            r.put(b"row", 1, b"q", b"v", &o, &mut CommitInfo::default()).unwrap();
        }
        r.close(CloseFlags::default(), Timeout::forever()).unwrap();
        manifest() != opened
    };
    assert!(!stored_at_close(None));
    assert!(stored_at_close(Some(Durability::SyncWal)));
    assert!(!stored_at_close(None));
    assert!(stored_at_close(Some(Durability::SkipWal)));
}
