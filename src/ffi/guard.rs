//! What stands around every entry point: the fork flag, the handle check, the end of every panic, the error text.
//!
//! Cost on the good path: one relaxed load of the fork flag, the handle check of `handle.rs`, and the landing pad of `catch_unwind`. The
//! error struct is not looked at unless the call does not return 0.

use super::handle::{self, Object, Refused};
use super::status::{region_error_t, region_status, write_error, write_outcome};
use crate::error::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a call ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) status: region_status,
    /// First element that was not applied, `u64::MAX` if the call has none.
    pub(super) op_index: u64,
}

impl Outcome {
    pub(super) const OK: Self = Self::of(super::status::code::REGION_OK);
    pub(super) const fn of(code: super::status::code) -> Self {
        Self { status: code as i32, op_index: u64::MAX }
    }
}

/// What the body of an entry point answers.
pub(super) type Answer = Result<Outcome>;

/// Set in a child process; never cleared. Relaxed: the child has one thread when it is set.
static FORKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Calls without a handle that this thread is in; those with one are counted by `handle.rs`.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// True in a child of a process that had used the library.
pub(super) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Called before the first handle is made: the fork hook and the panic hook. A process that forks before has nothing to protect.
pub(super) fn start() {
    static ONCE: Once = Once::new();
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
        // The child must not keep its parent's directories locked.
        crate::env::os::close_locks_in_child();
    }
    ONCE.call_once(|| {
        // SAFETY: the hook is a function of this library, which is never unloaded (-z nodelete); it stores a flag and closes descriptors.
        let rc = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if rc != 0 {
            ::log::warn!(target: "region", "pthread_atfork failed ({rc}): use after fork will not be noticed");
        }
        let before = std::panic::take_hook();
        // Silent by default: a panic in a call, or in a thread of the library, goes to the log, not to stderr.
        std::panic::set_hook(Box::new(move |info| {
            if INSIDE.get() > 0 || handle::in_call() || std::thread::current().name().is_some_and(|n| n.starts_with("region")) {
                ::log::error!(target: "region", "{info}");
            } else {
                before(info);
            }
        }));
        super::log::start();
    });
}

#[cold]
fn forked() -> Error {
    Error::new(
        ErrorKind::Forked,
        "this process was forked from one that uses libregion: open regions only in the child (fork first, or exec/spawn a new process)",
    )
}

/// For entry points that tell nothing but their status.
pub(super) fn no_outputs(_: Caller<'_>) -> Result<()> {
    Ok(())
}

/// An entry point without a handle. `outputs` clears what the call tells, so that a failure of any kind leaves nothing of an earlier one there, and may refuse
/// outputs that cannot be told.  # Safety What `outputs` and `body` pass to the `Caller` are arguments of the C call, which follow the rules of region.h; so
/// is `err`.
#[inline]
pub(super) unsafe fn plain(
    name: &'static str,
    err: *mut region_error_t,
    outputs: impl FnOnce(Caller<'_>) -> Result<()>,
    body: impl FnOnce(Caller<'_>) -> Answer,
) -> region_status {
    let caller = Caller(PhantomData);
    if is_forked() {
        return refuse(caller, err, outputs, &forked());
    }
    INSIDE.set(INSIDE.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(|| outputs(caller).and_then(|()| body(caller))));
    INSIDE.set(INSIDE.get() - 1);
    match result {
        Ok(answer) => finish(caller, err, answer),
        Err(panic) => write_error(caller, err, &panicked(name, panic)),
    }
}

/// An entry point on a handle; a panic poisons what is behind it.  # Safety As [`plain`].
#[inline]
pub(super) unsafe fn on<T: Object>(
    name: &'static str,
    handle: *const T::C,
    err: *mut region_error_t,
    outputs: impl FnOnce(Caller<'_>) -> Result<()>,
    body: impl FnOnce(&T, Caller<'_>) -> Answer,
) -> region_status {
    let caller = Caller(PhantomData);
    if is_forked() {
        return refuse(caller, err, outputs, &forked());
    }
    let entered = match handle::enter::<T>(handle) {
        Ok(entered) => entered,
        Err(why) => return refuse(caller, err, outputs, &why.error(T::NAME)),
    };
    match catch_unwind(AssertUnwindSafe(|| outputs(caller).and_then(|()| body(entered.object(), caller)))) {
        Ok(answer) => finish(caller, err, answer),
        Err(panic) => {
            let e = panicked(name, panic);
            // A second panic, while poisoning, must not get out either.
            let _ = catch_unwind(AssertUnwindSafe(|| entered.object().poison(e.message())));
            write_error(caller, err, &e)
        }
    }
}

/// The call ends before its body; its outputs are cleared nevertheless.
#[cold]
fn refuse(caller: Caller<'_>, err: *mut region_error_t, outputs: impl FnOnce(Caller<'_>) -> Result<()>, e: &Error) -> region_status {
    // What `outputs` objects to comes second to `e`.
    let _ = catch_unwind(AssertUnwindSafe(|| outputs(caller).is_ok()));
    write_error(caller, err, e)
}

/// An entry point that closes a region: nothing to do for NULL, for what is closed, and in a forked child. `body` answers
/// true if the object is closed from now on.  # Safety As [`plain`].
pub(super) unsafe fn closing<T: Object>(
    name: &'static str,
    handle: *const T::C,
    err: *mut region_error_t,
    body: impl FnOnce(&T) -> (bool, Answer),
) -> region_status {
    let caller = Caller(PhantomData);
    if handle.is_null() || is_forked() {
        return 0;
    }
    let entered = match handle::enter::<T>(handle) {
        Ok(entered) => entered,
        Err(Refused::Closed) => return 0,
        Err(why) => return write_error(caller, err, &why.error(T::NAME)),
    };
    match catch_unwind(AssertUnwindSafe(|| body(entered.object()))) {
        Ok((closed, answer)) => {
            if closed {
                entered.mark_closed();
            }
            finish(caller, err, answer)
        }
        Err(panic) => {
            // What a close that panicked left behind cannot be used again.
            let e = panicked(name, panic);
            let _ = catch_unwind(AssertUnwindSafe(|| entered.object().poison(e.message())));
            entered.mark_closed();
            write_error(caller, err, &e)
        }
    }
}

#[inline]
fn finish(caller: Caller<'_>, err: *mut region_error_t, answer: Answer) -> region_status {
    match answer {
        Ok(Outcome { status: 0, .. }) => 0,
        Ok(outcome) => {
            write_outcome(caller, err, outcome.status, outcome.op_index);
            outcome.status
        }
        Err(e) => write_error(caller, err, &e),
    }
}

#[cold]
fn panicked(name: &str, payload: Box<dyn std::any::Any + Send>) -> Error {
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(s), _) => s,
        (_, Some(s)) => s.as_str(),
        _ => "no text",
    };
    let e = Error::new(ErrorKind::Panic, format!("a bug in libregion was caught in {name}: {text}; please report it"));
    // A payload may panic when dropped; it is leaked, once per bug.
    std::mem::forget(payload);
    e
}

/// Proof that the code runs within an entry point: what its methods get are arguments of the C call, valid for 'a, the
/// call.  Only `guard.rs` makes one, inside functions whose safety contract says just that, and so its methods are safe to
/// call.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a>(PhantomData<&'a ()>);

impl<'a> Caller<'a> {
    /// Bytes that the caller lends. NULL is fine where the length is 0.
    #[inline]
    pub(super) fn bytes(self, data: *const c_void, len: usize, what: &'static str) -> Result<&'a [u8]> {
        if len == 0 {
            // Not `&[]`, whose pointer leads nowhere: see `cell::order` on what comparing with it costs.
            static NOTHING: [u8; 1] = [0];
            return Ok(NOTHING.get(..0).unwrap_or_default());
        }
        if data.is_null() || len > isize::MAX as usize {
            return Err(bad_bytes(data.is_null(), len, what));
        }
        // SAFETY: not null, within isize; the caller lends `len` readable bytes for the call (see the type).
        Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
    }
    /// A buffer to write to. NULL is fine where the length is 0.
    pub(super) fn buffer(self, data: *mut c_void, len: usize, what: &'static str) -> Result<&'a mut [u8]> {
        if len == 0 {
            return Ok(&mut []);
        }
        if data.is_null() || len > isize::MAX as usize {
            return Err(bad_bytes(data.is_null(), len, what));
        }
        // SAFETY: not null, within isize; the caller lends `len` writable bytes for the call, and nobody else touches them (see the type).
        Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), len) })
    }
    /// NUL-terminated text; None for NULL.
    pub(super) fn text(self, text: *const c_char) -> Option<&'a CStr> {
        if text.is_null() {
            return None;
        }
        // SAFETY: the caller passes NULL or a NUL-terminated string (see the type).
        Some(unsafe { CStr::from_ptr(text) })
    }
    /// A path, not empty.
    pub(super) fn path(self, path: *const c_char) -> Result<&'a Path> {
        use std::os::unix::ffi::OsStrExt;
        match self.text(path) {
            Some(p) if !p.is_empty() => Ok(Path::new(std::ffi::OsStr::from_bytes(p.to_bytes()))),
            _ => Err(Error::new(ErrorKind::Invalid, "path is NULL or empty")),
        }
    }
    /// Reads a struct or a number; None for NULL. `P` says that every bit pattern, zeros too, is a value. The alignment does not matter.
    #[inline]
    pub(super) fn read<P: super::sized::Plain>(self, p: *const P) -> Option<P> {
        if p.is_null() {
            return None;
        }
        // SAFETY: not null; the caller lends a whole `P` for the call (see the type), and every bit pattern is one.
        Some(unsafe { p.read_unaligned() })
    }
    /// Writes an output, if the caller wants it.
    #[inline]
    pub(super) fn write<T: Copy>(self, p: *mut T, value: T) {
        if !p.is_null() {
            // SAFETY: not null; the caller lends room for a `T` (see the type). The alignment does not matter.
            unsafe { p.write_unaligned(value) };
        }
    }
    /// An output that must be there.
    #[inline]
    pub(super) fn require<T>(self, p: *mut T, what: &'static str) -> Result<()> {
        if p.is_null() { Err(missing(what)) } else { Ok(()) }
    }
    /// How much of the error struct may be written; None: nothing.
    pub(super) fn error_size(self, err: *mut region_error_t) -> Option<usize> {
        let size = self.read(err.cast_const().cast::<u32>())? as usize;
        // Below this not even the status fits: the caller forgot to set it, and what lies there is not known to be ours to write.
        (size >= 8).then(|| size.min(size_of::<region_error_t>()))
    }
    /// Writes the first `bytes` of the error but for `struct_size`; `bytes` is at most what `error_size` answered.
    pub(super) fn write_error(self, err: *mut region_error_t, full: &region_error_t, bytes: usize) {
        let skip = size_of::<u32>();
        let count = bytes.min(size_of::<region_error_t>()).saturating_sub(skip);
        // SAFETY: `full` is a whole error, longer than `skip`.
        let from = unsafe { std::ptr::from_ref(full).cast::<u8>().add(skip) };
        // SAFETY: the caller's struct has at least 8 bytes, see `error_size`.
        let to = unsafe { err.cast::<u8>().add(skip) };
        // SAFETY: skip + count is at most the size of `full`, and of the caller's struct, which does not overlap a local.
        unsafe { std::ptr::copy_nonoverlapping(from, to, count) };
    }
    /// Writes status and op_index, if the struct is long enough for them.
    pub(super) fn write_outcome(self, err: *mut region_error_t, size: usize, status: region_status, op_index: u64) {
        let (status_at, index_at) = (std::mem::offset_of!(region_error_t, status), std::mem::offset_of!(region_error_t, op_index));
        // SAFETY: `error_size` answered at least 8 bytes, so the status lies within the caller's struct.
        let at = unsafe { err.cast::<u8>().add(status_at) };
        self.write(at.cast::<i32>(), status);
        if size >= index_at + size_of::<u64>() {
            // SAFETY: the caller's struct has `size` bytes.
            let at = unsafe { err.cast::<u8>().add(index_at) };
            self.write(at.cast::<u64>(), op_index);
        }
    }
}

#[cold]
fn bad_bytes(null: bool, len: usize, what: &str) -> Error {
    let text = match null {
        true => format!("{what} is NULL, but its length is {len}; NULL goes with length 0"),
        false => format!("{what}: a length of {len} bytes is more than any buffer can have (a negative number?)"),
    };
    Error::new(ErrorKind::Invalid, text)
}

/// The error for an argument that must not be NULL.
#[cold]
pub(super) fn missing(what: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("{what} is NULL"))
}
