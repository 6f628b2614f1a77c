//! Status codes, the error struct, and how the core's errors become them.

use super::guard::Caller;
use crate::error::{Error, ErrorKind};
use std::borrow::Cow;
use std::ffi::{CStr, c_char};

/// What a call returns: 0 ok; above 0 an outcome in which everything asked was done or deliberately not done; below 0 an
/// error. Partial success is an error, so `rc < 0` finds every lost write.
pub type region_status = i32;

/// The values of region_status. Names and numbers never change.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum region_status_code {
    /// Done.
    REGION_OK = 0,
    /// There is no such value or name.
    REGION_NOT_FOUND = 1,
    /// The end of an enumeration or scan.
    REGION_DONE = 2,
    /// A check or bound was not met: the call, of a batch its group of operations (with REGION_W_ATOMIC the whole batch), changed nothing.
    REGION_NOT_APPLIED = 3,
    /// The buffer is too short; the size needed is told.
    REGION_TRUNCATED = 4,
    /// An argument is wrong; the message names it.
    REGION_E_INVALID = -1,
    /// Not a handle, a stale one, or one of another kind.
    REGION_E_HANDLE = -2,
    /// Closed, or being closed.
    REGION_E_CLOSED = -3,
    /// Memory or log space stayed full for the whole timeout, or nothing that could free some is running, or children are open. Nothing was done.
    REGION_E_BUSY = -4,
    /// The timeout passed before the call took effect. Nothing was done.
    REGION_E_TIMEOUT = -5,
    /// The progress callback asked to stop.
    REGION_E_CANCELLED = -6,
    /// The operating system reported an error, see os_errno.
    REGION_E_IO = -7,
    /// The disk is full. Nothing was done, the region stays usable.
    REGION_E_NOSPACE = -8,
    /// Stored bytes are damaged; the message names file and offset.
    REGION_E_CORRUPT = -9,
    /// Unknown flag, enum value or field, or a verb that this version does not have.
    REGION_E_UNSUPPORTED = -10,
    /// No such column family.
    REGION_E_NO_FAMILY = -11,
    /// The stored value is not 8 bytes long, so it is no counter. Nothing was changed.
    REGION_E_NOT_COUNTER = -12,
    /// The sum does not fit and REGION_W_CHECK_OVERFLOW was set. Nothing was changed.
    REGION_E_OVERFLOW = -13,
    /// The row is outside the region's key range.
    REGION_E_RANGE = -14,
    /// Another process or handle has the region open; the message names it.
    REGION_E_LOCKED = -15,
    /// The region was opened read-only.
    REGION_E_READONLY = -16,
    /// No memory.
    REGION_E_NOMEM = -17,
    /// Beyond a limit; the message names it.
    REGION_E_TOO_LARGE = -18,
    /// Header and library disagree.
    REGION_E_ABI = -19,
    /// The process forked: a child cannot use its parent's regions.
    REGION_E_FORKED = -20,
    /// A log write or sync failed, or a bug was caught; writes are refused until the region is opened again.
    REGION_E_POISONED = -21,
    /// A bug in the library was caught; the region is poisoned.
    REGION_E_PANIC = -22,
    /// A state that should not occur.
    REGION_E_INTERNAL = -23,
    /// Batch: some groups were applied, some failed, see results[].
    REGION_E_PARTIAL = -24,
    /// In the log, may or may not survive; see commit_seq. Never repeat such a call without a nonce.
    REGION_E_OUTCOME_UNKNOWN = -25,
    /// Batch element that was not run, since another element failed.
    REGION_E_NOT_RUN = -26,
    /// Something exists that must not.
    REGION_E_EXISTS = -27,
    /// There is no region, and REGION_OPEN_CREATE was not set.
    REGION_E_NO_REGION = -28,
}
pub use region_status_code as code;

/// Bits of region_error_t.flags.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum region_error_flags {
    /// The same call may be made again and cannot count twice.
    REGION_ERR_RETRYABLE = 1,
    /// The region is poisoned.
    REGION_ERR_POISONED = 2,
    /// The message did not fit.
    REGION_ERR_TRUNCATED_MSG = 4,
}

/// Bytes of a message with its NUL.
pub const REGION_ERROR_MSG_MAX: usize = 256;

/// What went wrong. Owned by the caller: nothing to free. Set struct_size once (REGION_ERROR_INIT, region_error_init); one
/// struct may be used for any number of calls, one after another. Written only when a call does not return 0 (above 0:
/// status and op_index only).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_error_t {
    /// In: sizeof(region_error_t). The rest is output.
    pub struct_size: u32,
    /// The value that the call returned.
    pub status: i32,
    /// errno, 0 unless the operating system reported an error.
    pub os_errno: i32,
    /// REGION_ERR_*
    pub flags: u32,
    /// Batch and array arguments: first failing element, or first whose check or bound was not met; else UINT64_MAX.
    pub op_index: u64,
    /// REGION_E_OUTCOME_UNKNOWN: what to pass to region_wait_durable, else 0.
    pub commit_seq: u64,
    /// Length of msg without NUL.
    pub msg_len: u32,
    /// 0
    pub reserved: u32,
    /// 0
    pub reserved2: [u64; 2],
    /// What happened, where, and what to try. UTF-8, always NUL-terminated. What is too long loses the middle of its longest words (paths), then its end.
    pub msg: [c_char; REGION_ERROR_MSG_MAX],
}

/// The core's kinds as numbers. Exhaustive: a new kind does not compile without one.
pub(super) const fn status_of(kind: ErrorKind) -> code {
    match kind {
        ErrorKind::Invalid => code::REGION_E_INVALID,
        ErrorKind::Handle => code::REGION_E_HANDLE,
        ErrorKind::Closed => code::REGION_E_CLOSED,
        ErrorKind::Busy => code::REGION_E_BUSY,
        ErrorKind::Timeout => code::REGION_E_TIMEOUT,
        ErrorKind::Cancelled => code::REGION_E_CANCELLED,
        ErrorKind::Io => code::REGION_E_IO,
        ErrorKind::NoSpace => code::REGION_E_NOSPACE,
        ErrorKind::Corrupt => code::REGION_E_CORRUPT,
        ErrorKind::Unsupported => code::REGION_E_UNSUPPORTED,
        ErrorKind::NoFamily => code::REGION_E_NO_FAMILY,
        ErrorKind::NotCounter => code::REGION_E_NOT_COUNTER,
        ErrorKind::Overflow => code::REGION_E_OVERFLOW,
        ErrorKind::Range => code::REGION_E_RANGE,
        ErrorKind::Locked => code::REGION_E_LOCKED,
        ErrorKind::ReadOnly => code::REGION_E_READONLY,
        ErrorKind::NoMem => code::REGION_E_NOMEM,
        ErrorKind::TooLarge => code::REGION_E_TOO_LARGE,
        ErrorKind::Abi => code::REGION_E_ABI,
        ErrorKind::Forked => code::REGION_E_FORKED,
        ErrorKind::Poisoned => code::REGION_E_POISONED,
        ErrorKind::Panic => code::REGION_E_PANIC,
        ErrorKind::Internal => code::REGION_E_INTERNAL,
        ErrorKind::Partial => code::REGION_E_PARTIAL,
        ErrorKind::OutcomeUnknown => code::REGION_E_OUTCOME_UNKNOWN,
        ErrorKind::NotRun => code::REGION_E_NOT_RUN,
        ErrorKind::Exists => code::REGION_E_EXISTS,
        ErrorKind::NoRegion => code::REGION_E_NO_REGION,
    }
}

/// The name of a status.
const fn name_of(status: region_status) -> Option<&'static CStr> {
    Some(match status {
        0 => c"REGION_OK",
        1 => c"REGION_NOT_FOUND",
        2 => c"REGION_DONE",
        3 => c"REGION_NOT_APPLIED",
        4 => c"REGION_TRUNCATED",
        -1 => c"REGION_E_INVALID",
        -2 => c"REGION_E_HANDLE",
        -3 => c"REGION_E_CLOSED",
        -4 => c"REGION_E_BUSY",
        -5 => c"REGION_E_TIMEOUT",
        -6 => c"REGION_E_CANCELLED",
        -7 => c"REGION_E_IO",
        -8 => c"REGION_E_NOSPACE",
        -9 => c"REGION_E_CORRUPT",
        -10 => c"REGION_E_UNSUPPORTED",
        -11 => c"REGION_E_NO_FAMILY",
        -12 => c"REGION_E_NOT_COUNTER",
        -13 => c"REGION_E_OVERFLOW",
        -14 => c"REGION_E_RANGE",
        -15 => c"REGION_E_LOCKED",
        -16 => c"REGION_E_READONLY",
        -17 => c"REGION_E_NOMEM",
        -18 => c"REGION_E_TOO_LARGE",
        -19 => c"REGION_E_ABI",
        -20 => c"REGION_E_FORKED",
        -21 => c"REGION_E_POISONED",
        -22 => c"REGION_E_PANIC",
        -23 => c"REGION_E_INTERNAL",
        -24 => c"REGION_E_PARTIAL",
        -25 => c"REGION_E_OUTCOME_UNKNOWN",
        -26 => c"REGION_E_NOT_RUN",
        -27 => c"REGION_E_EXISTS",
        -28 => c"REGION_E_NO_REGION",
        _ => return None,
    })
}

/// The name of a status, as in "REGION_E_TIMEOUT"; "REGION_E_?" for a number that is none. The text is static. Threads:
/// any. Never fails, also after fork.
#[unsafe(no_mangle)]
pub extern "C" fn region_status_name(s: region_status) -> *const c_char {
    name_of(s).unwrap_or(c"REGION_E_?").as_ptr()
}

/// Writes an error into the caller's struct: as much as fits the size it names. Answers the status.
#[cold]
pub(super) fn write_error(caller: Caller<'_>, err: *mut region_error_t, e: &Error) -> region_status {
    let status = status_of(e.kind()) as i32;
    let mut flags = if e.is_retryable() { region_error_flags::REGION_ERR_RETRYABLE as u32 } else { 0 };
    if matches!(e.kind(), ErrorKind::Poisoned | ErrorKind::Panic) {
        flags |= region_error_flags::REGION_ERR_POISONED as u32;
    }
    let mut full = region_error_t {
        struct_size: 0,
        status,
        os_errno: e.os_errno(),
        flags,
        op_index: e.op_index(),
        commit_seq: e.commit_seq(),
        msg_len: 0,
        reserved: 0,
        reserved2: [0; 2],
        msg: [0; REGION_ERROR_MSG_MAX],
    };
    let Some(size) = caller.error_size(err) else { return status };
    let head = std::mem::offset_of!(region_error_t, msg);
    let room = size.saturating_sub(head + 1).min(REGION_ERROR_MSG_MAX - 1);
    let fitted = fitted(e.message(), room);
    let text = shortened(&fitted, room);
    if text.len() < e.message().len() {
        full.flags |= region_error_flags::REGION_ERR_TRUNCATED_MSG as u32;
    }
    full.msg_len = text.len() as u32;
    for (to, from) in full.msg.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    // Only the message's bytes are copied behind the head: clearing the whole field at each error would cost more than the rest.
    caller.write_error(err, &full, if size > head { head + text.len() + 1 } else { size });
    status
}

/// Status and element of an outcome that is no error.
#[cold]
pub(super) fn write_outcome(caller: Caller<'_>, err: *mut region_error_t, status: region_status, op_index: u64) {
    if let Some(size) = caller.error_size(err) {
        caller.write_outcome(err, size, status, op_index);
    }
}

/// What a word is not shortened below.
const WORD_BYTES_MIN: usize = 32;

/// `text` itself if it fits; else its longest words (paths, as a rule) lose their middles: what happened and what to try stands around them.
fn fitted(text: &str, room: usize) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    // Two paths at most stand in a message; a bound, so that nothing can go on for ever.
    for _ in 0..4 {
        if text.len() <= room {
            break;
        }
        let Some(word) = text.split(' ').max_by_key(|w| w.len()).filter(|w| w.len() > WORD_BYTES_MIN) else { break };
        let at = word.as_ptr().addr() - text.as_ptr().addr();
        let keep = word.len().saturating_sub(text.len() - room + DOTS.len()).max(WORD_BYTES_MIN - DOTS.len());
        let (mut head, mut tail) = (at + keep / 2, at + word.len() - keep.div_ceil(2));
        while !text.is_char_boundary(head) {
            head -= 1;
        }
        while !text.is_char_boundary(tail) {
            tail += 1;
        }
        let (Some(before), Some(after)) = (text.get(..head), text.get(tail..)) else { break };
        text = Cow::Owned(format!("{before}{DOTS}{after}"));
    }
    text
}
const DOTS: &str = "…";

/// The longest beginning of `text` that has at most `room` bytes and no NUL, and does not cut a character.
fn shortened(text: &str, room: usize) -> &str {
    let text = text.split('\0').next().unwrap_or("");
    let mut end = room.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}
