//! The guard: panics, errors, poison.

use super::guard::{self, Outcome};
use super::handle::{self, Object};
use super::status::*;
use crate::error::{Error, ErrorKind};
use std::ffi::{CStr, CString};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

fn err() -> region_error_t {
    let size = size_of::<region_error_t>() as u32;
    region_error_t {
        struct_size: size,
        status: 0,
        os_errno: 0,
        flags: 0,
        op_index: 0,
        commit_seq: 0,
        msg_len: 0,
        reserved: 0,
        reserved2: [0; 2],
        msg: [0; REGION_ERROR_MSG_MAX],
    }
}

fn text(e: &region_error_t) -> &str {
    // SAFETY: always NUL-terminated.
    let text = unsafe { CStr::from_ptr(e.msg.as_ptr()) };
    assert_eq!(text.count_bytes(), e.msg_len as usize);
    text.to_str().unwrap()
}

#[derive(Default)]
struct Fake {
    poisoned: AtomicU32,
}
impl Object for Fake {
    type C = u8;
    const NAME: &'static str = "fake";
    const KIND: u64 = 0x6661_6b65_0000_0000;
    fn poison(&self, reason: &str) {
        assert!(reason.contains("planted"));
        self.poisoned.fetch_add(1, Ordering::SeqCst);
        panic!("a second one, while poisoning");
    }
}

#[test]
fn a_panic_becomes_a_status_and_poisons() {
    let h = handle::create(Fake::default()).unwrap();
    let mut e = err();
    // SAFETY: the error is a whole struct.
    let rc = unsafe { guard::on::<Fake>("the_call", h, &mut e, guard::no_outputs, |_, _| panic!("planted {}", 7)) };
    assert_eq!((rc, e.status), (code::REGION_E_PANIC as i32, rc));
    assert!(text(&e).contains("the_call") && text(&e).contains("planted 7"), "{}", text(&e));
    assert_eq!(e.flags, region_error_flags::REGION_ERR_POISONED as u32);
    assert_eq!(handle::enter::<Fake>(h).ok().unwrap().object().poisoned.load(Ordering::SeqCst), 1);
    // Without an error struct, without a handle, with a payload that is no text.
    // SAFETY: no pointers.
    let rc = unsafe { guard::plain("other", null_mut(), guard::no_outputs, |_| std::panic::panic_any(5_u8)) };
    assert_eq!(rc, code::REGION_E_PANIC as i32);
    assert!(!handle::in_call());
    handle::close::<Fake>(h);
}

#[test]
fn a_close_that_panics_still_closes() {
    let h = handle::create(Fake::default()).unwrap();
    let mut e = err();
    // SAFETY: the error is a whole struct.
    let rc = unsafe { guard::closing::<Fake>("close", h, &mut e, |_| panic!("planted")) };
    assert_eq!(rc, code::REGION_E_PANIC as i32);
    // SAFETY: the error is a whole struct.
    let rc = unsafe { guard::on::<Fake>("call", h, &mut e, guard::no_outputs, |_, _| Ok(Outcome::OK)) };
    assert_eq!(rc, code::REGION_E_CLOSED as i32);
    // SAFETY: the error is a whole struct.
    let rc = unsafe { guard::closing::<Fake>("close", h, &mut e, |_| panic!("not called")) };
    assert_eq!(rc, 0);
}

/// A panic in a call on a region: its writes are refused from then on, its reads go on, it can be closed.
#[test]
fn a_panic_poisons_the_region() {
    use super::{open_options::*, read::*, region::*, write::*};
    let dir = tempfile::tempdir().unwrap();
    let path = CString::new(dir.path().join("r").to_str().unwrap()).unwrap();
    let mut e = err();
    let mut o: region_options_t = super::sized::zeroed();
    o.struct_size = size_of::<region_options_t>() as u32;
    o.flags = region_open_flags::REGION_OPEN_CREATE as u32;
    let mut family: region_family_t = super::sized::zeroed();
    family.name = super::bytes::region_slice_t::of(b"f");
    (o.families, o.n_families, o.family_size) = (&family, 1, size_of::<region_family_t>());
    let mut r = null_mut();
    // SAFETY: whole structs, live for the call.
    assert_eq!(unsafe { region_open(path.as_ptr(), &o, &mut r, &mut e) }, 0, "{}", text(&e));
    let q = b"q".as_ptr().cast();
    let mut value = 0;
    // SAFETY: as above.
    assert_eq!(unsafe { region_increment(r, q, 1, 1, q, 1, 3, std::ptr::null(), &mut value, &mut e) }, 0);
    // SAFETY: as above.
    let rc = unsafe { guard::on::<Open>("test", r, &mut e, guard::no_outputs, |_, _| panic!("planted")) };
    assert_eq!(rc, code::REGION_E_PANIC as i32);
    // SAFETY: as above.
    let rc = unsafe { region_increment(r, q, 1, 1, q, 1, 1, std::ptr::null(), &mut value, &mut e) };
    assert_eq!(rc, code::REGION_E_POISONED as i32);
    assert!(text(&e).contains("planted"), "{}", text(&e));
    // SAFETY: as above.
    let rc = unsafe { region_counter_get(r, std::ptr::null(), q, 1, 1, q, 1, &mut value, null_mut(), &mut e) };
    assert_eq!((rc, value), (0, 3));
    // SAFETY: as above.
    let rc = unsafe { region_close(r, 0, 0, &mut e) };
    assert!(rc == 0 || rc == code::REGION_E_POISONED as i32, "{}", text(&e));
    // SAFETY: as above.
    let rc = unsafe { region_increment(r, q, 1, 1, q, 1, 1, std::ptr::null(), &mut value, &mut e) };
    assert_eq!(rc, code::REGION_E_CLOSED as i32);
}

fn failed(e: Error) -> region_error_t {
    let mut out = err();
    // SAFETY: the error is a whole struct.
    unsafe { guard::plain("test", &mut out, guard::no_outputs, |_| Err(e)) };
    out
}

#[test]
fn errors_carry_what_the_caller_needs() {
    let e = failed(Error::new(ErrorKind::OutcomeUnknown, "who knows").with_commit(77).at_op(5));
    assert_eq!((e.status, e.commit_seq, e.op_index, e.flags), (code::REGION_E_OUTCOME_UNKNOWN as i32, 77, 5, 0));
    let e = failed(Error::io("write x", &std::io::Error::from_raw_os_error(libc::ENOSPC)));
    assert_eq!((e.status, e.os_errno), (code::REGION_E_NOSPACE as i32, libc::ENOSPC));
    assert_eq!(e.flags, region_error_flags::REGION_ERR_RETRYABLE as u32);
    assert_eq!(e.op_index, u64::MAX);
}

#[test]
fn long_messages_are_cut_between_characters() {
    for pad in 0..4 {
        // One long word loses its middle, many short ones the end.
        for (word, room) in [("ü€😀", 10), ("ü€😀 ", 6)] {
            let e = failed(Error::new(ErrorKind::Io, "x".repeat(pad) + &word.repeat(60)));
            assert_eq!(e.flags, region_error_flags::REGION_ERR_TRUNCATED_MSG as u32);
            assert!(text(&e).len() > REGION_ERROR_MSG_MAX - room && text(&e).len() < REGION_ERROR_MSG_MAX, "{}", text(&e));
        }
    }
    // What is said around long paths stays.
    let (a, b) = (format!("/begin/{}/a-end:", "x/".repeat(200)), format!("/begin/{}/b-end:", "€".repeat(200)));
    let e = failed(Error::new(ErrorKind::Io, format!("{a} no permission to write there; READ_ONLY opens it without")));
    assert!(
        text(&e).starts_with("/begin/x/") && text(&e).ends_with("x//a-end: no permission to write there; READ_ONLY opens it without"),
        "{}",
        text(&e)
    );
    let e = failed(Error::new(ErrorKind::Io, format!("rename {a} to {b} try again")));
    assert!(
        text(&e).starts_with("rename /begin/x/") && text(&e).contains("/a-end: to /begin/€") && text(&e).ends_with("/b-end: try again"),
        "{}",
        text(&e)
    );
    let e = failed(Error::new(ErrorKind::Io, "short words ".repeat(50)));
    assert!("short words ".repeat(50).starts_with(text(&e)));
    // A NUL inside would hide the rest from C.
    let e = failed(Error::new(ErrorKind::Io, "before\0after"));
    assert_eq!(text(&e), "before");
}

#[test]
fn every_kind_has_the_status_of_its_name() {
    let all = [
        ErrorKind::Invalid,
        ErrorKind::Handle,
        ErrorKind::Closed,
        ErrorKind::Busy,
        ErrorKind::Timeout,
        ErrorKind::Cancelled,
        ErrorKind::Io,
        ErrorKind::NoSpace,
        ErrorKind::Corrupt,
        ErrorKind::Unsupported,
        ErrorKind::NoFamily,
        ErrorKind::NotCounter,
        ErrorKind::Overflow,
        ErrorKind::Range,
        ErrorKind::Locked,
        ErrorKind::ReadOnly,
        ErrorKind::NoMem,
        ErrorKind::TooLarge,
        ErrorKind::Abi,
        ErrorKind::Forked,
        ErrorKind::Poisoned,
        ErrorKind::Panic,
        ErrorKind::Internal,
        ErrorKind::Partial,
        ErrorKind::OutcomeUnknown,
        ErrorKind::NotRun,
        ErrorKind::Exists,
        ErrorKind::NoRegion,
    ];
    for (i, kind) in all.into_iter().enumerate() {
        let status = status_of(kind);
        assert_eq!(status as i32, -1 - i as i32);
        // SAFETY: a static text.
        let name = unsafe { CStr::from_ptr(region_status_name(status as i32)) }.to_str().unwrap();
        assert_eq!(name, format!("{status:?}"));
        assert_eq!(name.replace("REGION_E_", "").replace('_', ""), format!("{kind:?}").to_uppercase());
    }
}
