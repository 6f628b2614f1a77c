//! The one error type. `ErrorKind` says what the caller should do; the message says what happened, where, and what to try.
//!
//! No numbers of the C interface live here: `ffi/status.rs` maps kinds to them, exhaustively.

use std::fmt;

/// What kind of failure it was. Each kind is one status of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// An argument is wrong; the message names it.
    Invalid,
    /// Not a handle of this library, or a stale one.
    Handle,
    /// The region, snapshot or scanner is closed, or is being closed.
    Closed,
    /// A bounded resource (memory, log space) stayed full for the whole timeout, or children are still open. Nothing was done.
    Busy,
    /// The timeout passed before the call began to take effect. Nothing was done.
    Timeout,
    /// The caller's progress callback asked to stop.
    Cancelled,
    /// The operating system reported an error.
    Io,
    /// The disk is full. Nothing was done; the region stays usable.
    NoSpace,
    /// Stored bytes are damaged; the message names file and offset.
    Corrupt,
    /// Not offered by this version: an unknown flag, or a verb that is not built yet.
    Unsupported,
    /// No such column family.
    NoFamily,
    /// The stored value is not 8 bytes wide, so it is not a counter.
    NotCounter,
    /// The sum would not fit a signed 64-bit integer and the caller asked for a refusal.
    Overflow,
    /// The row is outside the region's key range.
    Range,
    /// Another process (or handle) has the region open.
    Locked,
    /// The region was opened read-only.
    ReadOnly,
    /// The operating system gave no memory.
    NoMem,
    /// A row, value or batch is beyond a limit; the message names the limit.
    TooLarge,
    /// Caller and library disagree about the interface's version.
    Abi,
    /// The process forked; the child cannot use the parent's region.
    Forked,
    /// A log write or sync failed earlier; reopen the region to find out what survived.
    Poisoned,
    /// A bug in the library was caught at the boundary.
    Panic,
    /// A state that should not occur.
    Internal,
    /// Some groups of a batch were applied, some failed; the results tell which.
    Partial,
    /// In the log, may or may not survive. Wait for `commit_seq`, or reopen.
    OutcomeUnknown,
    /// An element of a batch that was not run, since another element of its group failed.
    NotRun,
    /// Something is there already that must not be.
    Exists,
    /// There is no region at this path, and creation was not asked for.
    NoRegion,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    os_errno: i32,
    retryable: bool,
    commit_seq: u64,
    op_index: u64,
}

/// An error: kind, message, and what the caller needs to act on it. One pointer wide, so that the good path stays cheap.
pub struct Error(Box<Inner>);

/// Result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A new error. Kinds that mean "nothing was done, the resource may return" are marked retryable.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let retryable = matches!(kind, ErrorKind::Busy | ErrorKind::Timeout | ErrorKind::NoSpace);
        Self(Box::new(Inner { kind, message: message.into(), os_errno: 0, retryable, commit_seq: 0, op_index: u64::MAX }))
    }
    /// An error from the operating system: `what` names the action and the path. A full disk becomes [`ErrorKind::NoSpace`].
    #[cold]
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        let full = matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded);
        let kind = if full { ErrorKind::NoSpace } else { ErrorKind::Io };
        let mut e = Self::new(kind, format!("{what}: {error}"));
        e.0.os_errno = error.raw_os_error().unwrap_or(0);
        e
    }
    /// The same error without a place in a call, for the next caller that meets its cause.
    #[must_use]
    pub fn again(&self) -> Self {
        let mut e = Self::new(self.0.kind, self.0.message.clone()).retryable(self.0.retryable);
        e.0.os_errno = self.0.os_errno;
        e
    }
    /// The same error with the operating system's number.
    #[must_use]
    pub fn with_errno(mut self, errno: i32) -> Self {
        self.0.os_errno = errno;
        self
    }
    /// The same error, marked as safe (or not) to call again.
    #[must_use]
    pub fn retryable(mut self, yes: bool) -> Self {
        self.0.retryable = yes;
        self
    }
    /// The same error with the commit number whose outcome is unknown.
    #[must_use]
    pub fn with_commit(mut self, seq: u64) -> Self {
        self.0.commit_seq = seq;
        self
    }
    /// The same error with the index of the failing element of a batch.
    #[must_use]
    pub fn at_op(mut self, index: u64) -> Self {
        self.0.op_index = index;
        self
    }
    /// The same error with `context: ` in front of its message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }
    /// What kind it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// What happened, where, and what to try.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// The operating system's number, 0 if it reported none.
    pub fn os_errno(&self) -> i32 {
        self.0.os_errno
    }
    /// The same call may be made again and cannot count twice.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }
    /// With [`ErrorKind::OutcomeUnknown`]: the commit to wait for, else 0.
    pub fn commit_seq(&self) -> u64 {
        self.0.commit_seq
    }
    /// Index of the failing element of a batch, `u64::MAX` if none.
    pub fn op_index(&self) -> u64 {
        self.0.op_index
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for Error {}

/// A number with what it counts: "1 chunk", "3 chunks".
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Shorthand for `Err(Error::new(kind, format!(...)))`.
#[macro_export]
#[doc(hidden)]
macro_rules! fail {
    ($kind:ident, $($arg:tt)+) => {
        Err($crate::error::Error::new($crate::error::ErrorKind::$kind, format!($($arg)+)))
    };
}
