//! What the library says of itself: a callback, or a ring to be polled. Nothing goes to stderr or to a file.
//!
//! A listener to the `log` facade, installed when the first handle is made or logging is first asked for. A record goes into the ring, as one line of
//! JSON, and, while a callback is set, into a queue; both are bounded and count what they drop.
//!
//! *The callback* runs on a thread of its own, which is started when the first one is set. So it is under no lock of the library by construction, whatever
//! the code that logs holds, and may call the library; a call that logs does not wait for it. Records that are made within the callback go to the ring only, so it
//! cannot feed itself. Who replaces the callback waits until the old one has had all that was logged before and has returned, so that its context can be freed.

use super::bytes::region_slice_t;
use super::guard::{self, Caller, Outcome};
use super::status::{code, region_status};
use crate::error::{Error, ErrorKind};
use ::log::{Level, LevelFilter, Log, Metadata, Record};
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::sync::Once;

/// Values of region_log_record_t.level and of max_level.
#[repr(C)]
pub enum region_log_level {
    /// Of max_level: REGION_LOG_INFO.
    REGION_LOG_DEFAULT = 0,
    /// Something failed.
    REGION_LOG_ERROR = 1,
    /// Something needs attention.
    REGION_LOG_WARN = 2,
    /// Opened, recovered, closed.
    REGION_LOG_INFO = 3,
    /// For finding faults.
    REGION_LOG_DEBUG = 4,
    /// Everything.
    REGION_LOG_TRACE = 5,
}

/// One message of the library. Valid during the callback.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_log_record_t {
    /// sizeof(region_log_record_t) of the library.
    pub struct_size: u32,
    /// REGION_LOG_*
    pub level: u32,
    /// Line of the library's source, 0 if not known.
    pub line: u32,
    /// 0
    pub reserved: u32,
    /// Nanoseconds since the Unix epoch.
    pub unix_ns: u64,
    /// Part of the library. UTF-8, not NUL-terminated; so are the others.
    pub target: region_slice_t,
    /// The text.
    pub message: region_slice_t,
    /// File of the library's source.
    pub file: region_slice_t,
}

/// Takes a message. Runs on a thread of the library that does nothing else, one message at a time, under no lock: it may call
/// the library.
pub type region_log_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, rec: *const region_log_record_t)>;

/// Lines and bytes that the ring holds at most.
const RING_LINES_MAX: usize = 1024;
const RING_BYTES_MAX: usize = 256 << 10;

#[derive(Clone, Copy)]
struct Callback {
    function: unsafe extern "C" fn(ctx: *mut c_void, rec: *const region_log_record_t),
    /// The caller's context: passed on, never followed.
    ctx: usize,
}

impl Queue {
    /// A message up to this number is waiting, or with the callback.
    fn has(&self, number: u64) -> bool {
        let waiting = self.messages.front().map(|m| m.number);
        [waiting, self.told].into_iter().flatten().any(|n| n <= number)
    }
}

/// A record on its way to the callback.
struct Message {
    number: u64,
    level: u32,
    line: u32,
    unix_ns: u64,
    target: String,
    message: String,
    file: String,
}

struct Queue {
    callback: Option<Callback>,
    messages: VecDeque<Message>,
    /// Number of the last message put in.
    sent: u64,
    /// The one that the callback is at.
    told: Option<u64>,
    /// The thread exists.
    started: bool,
}

struct Ring {
    lines: VecDeque<String>,
    bytes: usize,
    dropped: u64,
}

/// Level 7, leaves. Never held together, nor while the callback runs.
static QUEUE: Mutex<Queue> = Mutex::new(Queue { callback: None, messages: VecDeque::new(), sent: 0, told: None, started: false });
/// A message was put in.
static SENT: Condvar = Condvar::new();
/// A message is done.
static DONE: Condvar = Condvar::new();
static RING: Mutex<Ring> = Mutex::new(Ring { lines: VecDeque::new(), bytes: 0, dropped: 0 });

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

struct Listener;
static LISTENER: Listener = Listener;

/// Listens from now on, at level INFO. In a Rust program that has a logger of its own, that one stays.
pub(super) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if ::log::set_logger(&LISTENER).is_ok() {
            ::log::set_max_level(LevelFilter::Info);
        }
    });
}

impl Log for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= ::log::max_level()
    }
    fn flush(&self) {}
    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) || guard::is_forked() {
            return;
        }
        let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos() as u64);
        let message = record.args().to_string();
        push(json_line(record, now, &message));
        if !IN_CALLBACK.get() {
            send(record, now, message);
        }
    }
}

fn send(record: &Record<'_>, unix_ns: u64, message: String) {
    let mut queue = QUEUE.lock();
    if queue.callback.is_none() {
        return;
    }
    if queue.messages.len() >= RING_LINES_MAX {
        // The oldest ones are dearer than the newest: they tell how it began. The ring has this one.
        drop(queue);
        RING.lock().dropped += 1;
        return;
    }
    let file = record.file().unwrap_or("").to_string();
    let target = record.target().to_string();
    let (level, line) = (record.level() as u32, record.line().unwrap_or(0));
    queue.sent += 1;
    let number = queue.sent;
    queue.messages.push_back(Message { number, level, line, unix_ns, target, message, file });
    SENT.notify_one();
}

/// The thread of the callback.
fn deliver() {
    IN_CALLBACK.set(true);
    let mut queue = QUEUE.lock();
    loop {
        let Some(message) = queue.messages.pop_front() else {
            SENT.wait(&mut queue);
            continue;
        };
        let callback = queue.callback;
        queue.told = Some(message.number);
        drop(queue);
        if let Some(callback) = callback {
            let told = region_log_record_t {
                struct_size: size_of::<region_log_record_t>() as u32,
                level: message.level,
                line: message.line,
                reserved: 0,
                unix_ns: message.unix_ns,
                target: region_slice_t::of(message.target.as_bytes()),
                message: region_slice_t::of(message.message.as_bytes()),
                file: region_slice_t::of(message.file.as_bytes()),
            };
            // SAFETY: the caller's function and context, registered until replaced; the replacement waits for `done`.
            unsafe { (callback.function)(std::ptr::with_exposed_provenance_mut(callback.ctx), &told) };
        }
        queue = QUEUE.lock();
        queue.told = None;
        DONE.notify_all();
    }
}

fn push(line: String) {
    let mut ring = RING.lock();
    if line.len() > RING_BYTES_MAX {
        ring.dropped += 1;
        return;
    }
    ring.bytes += line.len();
    ring.lines.push_back(line);
    while ring.lines.len() > RING_LINES_MAX || ring.bytes > RING_BYTES_MAX {
        let Some(old) = ring.lines.pop_front() else { break };
        ring.bytes -= old.len();
        ring.dropped += 1;
    }
}

fn json_line(record: &Record<'_>, now: u64, message: &str) -> String {
    let mut line = String::with_capacity(96 + message.len());
    let _ = write!(line, "{{\"unix_ns\":{now},\"level\":{},\"target\":", record.level() as u32);
    quote(&mut line, record.target());
    line.push_str(",\"message\":");
    quote(&mut line, message);
    line.push_str(",\"file\":");
    quote(&mut line, record.file().unwrap_or(""));
    let _ = writeln!(line, ",\"line\":{}}}", record.line().unwrap_or(0));
    line
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() && (c as u32) < 0x10000 => _ = write!(out, "\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Calls cb for every message up to max_level (REGION_LOG_*), on a thread of the library. NULL = no callback; max_level then
/// is that of the ring that region_log_poll reads. ctx is passed on. Returns when the callback that was set before has had
/// every message from before this call, and has returned: its context may be freed then. Within a callback it does not
/// wait; the context then stays in use until that callback returns. Set NULL before the process exits. Threads: any.
/// REGION_E_UNSUPPORTED (max_level), E_NOMEM (no thread), E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_log_set_callback(cb: region_log_cb, ctx: *mut c_void, max_level: u32) -> region_status {
    // SAFETY: the pointers are arguments of the C call.
    unsafe {
        guard::plain("region_log_set_callback", std::ptr::null_mut(), guard::no_outputs, |_| {
            let level = match max_level {
                0 | 3 => LevelFilter::Info,
                1 => LevelFilter::Error,
                2 => LevelFilter::Warn,
                4 => LevelFilter::Debug,
                5 => LevelFilter::Trace,
                _ => return Err(super::options::unsupported("max_level", max_level)),
            };
            // The thread, and what the queue holds, must be known to be the parent's after a fork.
            guard::start();
            start();
            ::log::set_max_level(level);
            let mut queue = QUEUE.lock();
            if cb.is_some() && !queue.started {
                let spawned = std::thread::Builder::new().name("region-log".to_string()).spawn(deliver);
                if let Err(e) = spawned {
                    return Err(Error::new(ErrorKind::NoMem, format!("no thread for the log callback: {e}")));
                }
                queue.started = true;
            }
            let before = queue.sent;
            while !IN_CALLBACK.get() && queue.has(before) {
                DONE.wait(&mut queue);
            }
            queue.callback = cb.map(|function| Callback { function, ctx: ctx.expose_provenance() });
            if queue.callback.is_none() {
                queue.messages.clear();
                DONE.notify_all();
            }
            // A later message may be with the old callback still.
            let told = queue.told;
            while !IN_CALLBACK.get() && told.is_some() && queue.told == told {
                DONE.wait(&mut queue);
            }
            Ok(Outcome::OK)
        })
    }
}

/// Takes messages out of a ring that holds the last 1024 (256 KiB): whole lines of JSON
/// {"unix_ns","level","target","message","file","line"}, as many as fit cap bytes, oldest first, not NUL-terminated. *used:
/// bytes filled, 0 = nothing new. *dropped, may be NULL: messages lost since the last call because the ring was full.
/// Collects at level INFO from the first region_open or call of this on. Threads: any.
/// REGION_TRUNCATED (the first line does not fit; *used = the bytes it needs), REGION_E_INVALID, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_log_poll(buf: *mut c_void, cap: usize, used: *mut usize, dropped: *mut u64) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            c.write(used, 0);
            c.write(dropped, 0);
            c.require(used, "used")
        };
        guard::plain("region_log_poll", std::ptr::null_mut(), outputs, |c| {
            let buf = c.buffer(buf, cap, "buf")?;
            start();
            let mut ring = RING.lock();
            let mut at = 0;
            while let Some(line) = ring.lines.front() {
                let len = line.len();
                let Some(to) = buf.get_mut(at..at + len) else {
                    if at == 0 {
                        c.write(used, len);
                        return Ok(Outcome::of(code::REGION_TRUNCATED));
                    }
                    break;
                };
                to.copy_from_slice(line.as_bytes());
                at += len;
                ring.bytes -= len;
                ring.lines.pop_front();
            }
            c.write(used, at);
            c.write(dropped, std::mem::take(&mut ring.dropped));
            Ok(Outcome::OK)
        })
    }
}

const _: () = assert!(Level::Error as u32 == region_log_level::REGION_LOG_ERROR as u32 && Level::Trace as u32 == 5);

#[cfg(test)]
mod tests;
