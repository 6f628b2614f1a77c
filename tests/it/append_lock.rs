//! P-V4's exception, kept small: under the append lock nothing of ours is called but the copy, or the written form's one pwrite.

use crate::rig::*;
use region::env::fault::Op as EnvOp;
use region::hooks::{self, Point};
use region::options::{Durability, WriteOptions};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Kinds of calls to the outside world that any part of the region may make.
const CALLS: [EnvOp; 22] = [
    EnvOp::CreateDir,
    EnvOp::Exists,
    EnvOp::IsDir,
    EnvOp::FileLen,
    EnvOp::List,
    EnvOp::Create,
    EnvOp::Open,
    EnvOp::Rename,
    EnvOp::HardLink,
    EnvOp::Remove,
    EnvOp::RemoveDir,
    EnvOp::SyncDir,
    EnvOp::Lock,
    EnvOp::Identity,
    EnvOp::Random,
    EnvOp::ReadAt,
    EnvOp::WriteAt,
    EnvOp::Len,
    EnvOp::SetLen,
    EnvOp::Preallocate,
    EnvOp::SyncData,
    EnvOp::SyncAll,
];

/// Every append of a run over many verbs, with the calls that were made between its header and its end. The keeper works only when called for, and the
/// background sync is off, so what is counted are the appender's own calls.
fn calls_under_the_lock(config: &str, per_append: u64) {
    let rig = Rig::new(&format!("{config},wal_segment_bytes=64m,wal_bytes_max=256m"));
    let r = &rig.region;
    for i in 0..200u8 {
        inc(r, &[i], b"n", 1);
    }
    let faults = Arc::clone(&rig.faults);
    let counts = move || CALLS.map(|op| faults.count(op));
    let before = Mutex::new(None);
    let appends = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&appends);
    let hook = hooks::install(r.hook_context(), move |at, _| match at {
        Point::AppendBeforeHeader => *before.lock().unwrap() = Some(counts()),
        Point::AppendDone => {
            let (before, after) = (before.lock().unwrap().take().expect("a header before the end"), counts());
            for ((op, before), after) in CALLS.iter().zip(before).zip(after) {
                let expected = if *op == EnvOp::WriteAt { per_append } else { 0 };
                assert_eq!(after - before, expected, "{op:?} under the append lock");
            }
            seen.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    });
    for i in 0..200u8 {
        inc(r, &[i], b"n", 1);
        put_with(r, &[i], b"v", &[i; 500], &at(Durability::AsyncWal)).unwrap();
        delete(r, &[i], b"v");
        done(
            r,
            vec![op_put(&[i], b"a", b"1"), op_inc(b"other", b"n", 1)],
            &WriteOptions { flags: WriteOptions::ATOMIC, ..at(Durability::FsyncWal) },
        );
    }
    drop(hook);
    assert_eq!(appends.load(Ordering::Relaxed), 800);
}

#[test]
fn p_v4_no_call_under_the_append_lock() {
    calls_under_the_lock("wal_io=mapped", 0);
}

#[test]
fn p_v4_one_pwrite_under_the_append_lock() {
    calls_under_the_lock("wal_io=write", 1);
}
