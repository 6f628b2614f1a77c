//! P-B1: a panic anywhere in a call becomes an error and poisons the region; nothing aborts, hangs or leaks a lock.
#![allow(unsafe_code)]

use crate::rig::*;
use region::error::ErrorKind;
use region::ffi::bytes::region_slice_t;
use region::ffi::open_options::{region_family_t, region_options_t};
use region::ffi::region::{region_close, region_open, region_t};
use region::ffi::status::{code, region_error_t};
use region::ffi::write::region_increment;
use region::hooks::{self, Point};
use region::options::WriteOptions;
use std::cell::Cell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

thread_local! {
    static PANIC_AT: Cell<Option<Point>> = const { Cell::new(None) };
}

fn panicking(ctx: u64) -> hooks::Installed {
    hooks::install(ctx, |at, _| {
        if PANIC_AT.get() == Some(at) {
            PANIC_AT.set(None);
            panic!("injected at {at:?}");
        }
    })
}

const COMMIT: [Point; 8] = [
    Point::RowLocked,
    Point::SlotClaimed,
    Point::BeforeAppend,
    Point::AppendBeforeHeader,
    Point::AppendAfterHeader,
    Point::AppendDone,
    Point::Appended,
    Point::BeforeMark,
];

/// Points from which the record may be in the log.
fn may_survive(point: Point) -> bool {
    matches!(point, Point::AppendDone | Point::Appended | Point::BeforeMark)
}

#[test]
fn p_b1_a_panic_inside_the_engine() {
    for point in COMMIT {
        let rig = Rig::new("");
        let r = &rig.region;
        inc(r, b"r", b"n", 5);
        let _hook = panicking(r.hook_context());
        PANIC_AT.set(Some(point));
        let caught = catch_unwind(AssertUnwindSafe(|| inc_with(r, b"r", b"n", 1, &WriteOptions::DEFAULT)));
        assert!(caught.is_err(), "{point:?} was not reached");
        // No lock is left behind, nothing of it shows, reads go on.
        assert_eq!(counter(r, b"r", b"n"), Some(5), "{point:?}");
        assert_eq!(scan(r, None, b"", b"").len(), 1);
        let after = inc_with(r, b"r", b"n", 1, &within(2_000_000, WriteOptions::DEFAULT));
        if matches!(point, Point::RowLocked | Point::SlotClaimed | Point::BeforeAppend) {
            assert_eq!(after.unwrap().value, 6, "{point:?}: nothing had begun");
        } else {
            assert_eq!(kind(after), ErrorKind::Poisoned, "{point:?}");
        }
        let n = counter(&rig.after_kill().region, b"r", b"n").unwrap();
        let most = if may_survive(point) || n == 6 && r.stats().unwrap().health == 0 { 6 } else { 5 };
        assert!((5..=most).contains(&n), "{point:?}: {n}");
    }
}

/// A region on disk, through the C interface.
struct C {
    handle: *mut region_t,
    dir: tempfile::TempDir,
}

fn error() -> region_error_t {
    // SAFETY: numbers only; all zero is a value of each.
    let mut e: region_error_t = unsafe { std::mem::zeroed() };
    e.struct_size = size_of::<region_error_t>() as u32;
    e
}

impl C {
    fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = CString::new(dir.path().join("r").to_str().unwrap()).unwrap();
        let config = CString::new("wal_segment_bytes=1m,wal_bytes_max=64m").unwrap();
        let name = b"cf";
        // SAFETY: numbers and pointers; all zero is a value of each, and means "default".
        let mut family: region_family_t = unsafe { std::mem::zeroed() };
        family.name = region_slice_t { data: name.as_ptr().cast(), len: name.len() };
        // SAFETY: as above.
        let mut options: region_options_t = unsafe { std::mem::zeroed() };
        options.struct_size = size_of::<region_options_t>() as u32;
        options.flags = 1;
        (options.families, options.n_families, options.family_size) = (&raw const family, 1, size_of::<region_family_t>());
        options.config = config.as_ptr();
        let (mut handle, mut e) = (null_mut(), error());
        // SAFETY: all pointers are valid for the call.
        let status = unsafe { region_open(path.as_ptr(), &raw const options, &raw mut handle, &raw mut e) };
        assert_eq!(status, 0, "{}", message(&e));
        Self { handle, dir }
    }
    fn increment(&self) -> (i32, i64, region_error_t) {
        let (mut value, mut e) = (-1, error());
        let (row, qual) = (b"r", b"n");
        // SAFETY: the handle is open, all pointers are valid for the call.
        let status = unsafe {
            region_increment(
                self.handle,
                row.as_ptr().cast(),
                row.len(),
                CF,
                qual.as_ptr().cast(),
                qual.len(),
                1,
                std::ptr::null(),
                &raw mut value,
                &raw mut e,
            )
        };
        (status, value, e)
    }
}

fn message(e: &region_error_t) -> String {
    e.msg[..e.msg_len as usize].iter().map(|&c| c as u8 as char).collect()
}

#[test]
fn p_b1_a_panic_does_not_cross_the_c_boundary() {
    for point in COMMIT {
        let c = C::open();
        assert_eq!(c.increment().0, 0);
        let hook = panicking(hook_context_at(&c.dir.path().join("r")));
        PANIC_AT.set(Some(point));
        let (status, value, e) = c.increment();
        if PANIC_AT.replace(None).is_some() {
            // The written form of the log, on a file system where this test's directory cannot be mapped.
            assert_eq!(point, Point::AppendAfterHeader);
            continue;
        }
        assert_eq!((status, value), (code::REGION_E_PANIC as i32, 0), "{point:?}");
        let text = message(&e);
        assert!(text.contains("region_increment") && text.contains("injected at"), "{text}");
        drop(hook);
        let (status, ..) = c.increment();
        assert_eq!(status, code::REGION_E_POISONED as i32, "{point:?}");
        // SAFETY: the handle is open. What close answers is of no interest here, but that it comes back.
        let _ = unsafe { region_close(c.handle, 0, 5_000_000, null_mut()) };
    }
}

/// A thread of the library itself: the sync leader may be the background thread.
#[test]
fn p_b1_a_panic_while_leading_a_sync() {
    for point in [Point::SyncStart, Point::SyncEnd] {
        let rig = Rig::new("");
        let r = &rig.region;
        inc(r, b"r", b"n", 5);
        let _hook = panicking(r.hook_context());
        PANIC_AT.set(Some(point));
        let caught = catch_unwind(AssertUnwindSafe(|| inc_with(r, b"r", b"n", 1, &at(region::options::Durability::FsyncWal))));
        assert!(caught.is_err(), "{point:?} was not reached");
        // The lock of the sync is free, and the region either goes on or refuses; it does not hang, and shows nothing unsynced.
        let after = inc_with(r, b"other", b"n", 1, &within(2_000_000, at(region::options::Durability::FsyncWal)));
        match after {
            Ok(_) => assert_eq!(counter(r, b"r", b"n"), Some(6)),
            Err(e) => {
                assert!(matches!(e.kind(), ErrorKind::Poisoned | ErrorKind::OutcomeUnknown), "{e}");
                assert_eq!(counter(r, b"r", b"n"), Some(5));
            }
        }
    }
}
