//! What the library says of itself: a callback, or a ring to be polled. Nothing goes to stderr or to a file.
//!
//! A listener to the `log` facade, installed when the first handle is made or logging is first asked for. A record goes to the callback,
//! if there is one, and into the ring, as one line of JSON; a full ring drops its oldest line and counts it.
//!
//! *The callback* is called under no lock of this file. A record that is made while the thread is in the callback goes to the ring only,
//! so it cannot recurse. Who replaces the callback waits until no other thread is in the old one, so that its context can be freed:
//! `runs` counts the threads in it, by parity of its number.

use super::bytes::region_slice_t;
use super::guard::{self, Caller, Outcome};
use super::status::{code, region_status};
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

/// Takes a message. May run on any thread that calls the library, and on the library's own; never under a lock of the
/// library, so it may call it.
pub type region_log_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, rec: *const region_log_record_t)>;

/// Lines and bytes that the ring holds at most.
const RING_LINES_MAX: usize = 1024;
const RING_BYTES_MAX: usize = 256 << 10;

#[derive(Clone, Copy)]
struct Callback {
    function: unsafe extern "C" fn(ctx: *mut c_void, rec: *const region_log_record_t),
    /// The caller's context: passed on, never followed.
    ctx: usize,
    /// Counts replacements.
    number: u64,
}

struct Target {
    callback: Option<Callback>,
    number: u64,
    /// Threads that are in a callback of an even and of an odd number.
    runs: [u32; 2],
}

struct Ring {
    lines: VecDeque<String>,
    bytes: usize,
    dropped: u64,
}

/// Level 7, leaves. Never held together, nor while the callback runs.
static TARGET: Mutex<Target> = Mutex::new(Target { callback: None, number: 0, runs: [0; 2] });
static LEFT: Condvar = Condvar::new();
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
            call(record, now, &message);
        }
    }
}

fn call(record: &Record<'_>, now: u64, message: &str) {
    let callback = {
        let mut target = TARGET.lock();
        let Some(callback) = target.callback else { return };
        if let Some(runs) = target.runs.get_mut((callback.number % 2) as usize) {
            *runs += 1;
        }
        callback
    };
    let told = region_log_record_t {
        struct_size: size_of::<region_log_record_t>() as u32,
        level: record.level() as u32,
        line: record.line().unwrap_or(0),
        reserved: 0,
        unix_ns: now,
        target: region_slice_t::of(record.target().as_bytes()),
        message: region_slice_t::of(message.as_bytes()),
        file: region_slice_t::of(record.file().unwrap_or("").as_bytes()),
    };
    IN_CALLBACK.set(true);
    // SAFETY: the caller's function and context, registered until replaced, and a replacement waits for `runs`.
    unsafe { (callback.function)(std::ptr::with_exposed_provenance_mut(callback.ctx), &told) };
    IN_CALLBACK.set(false);
    let mut target = TARGET.lock();
    if let Some(runs) = target.runs.get_mut((callback.number % 2) as usize) {
        *runs -= 1;
        LEFT.notify_all();
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

/// Calls cb for every message up to max_level (REGION_LOG_*). NULL = no callback; max_level then is that of the ring that
/// region_log_poll reads. ctx is passed on. Returns when no other thread is in the callback that was set before, so its
/// context may be freed then. Do not call it from within a callback that frees its own context. Threads: any.
/// REGION_E_UNSUPPORTED (max_level), E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_log_set_callback(cb: region_log_cb, ctx: *mut c_void, max_level: u32) -> region_status {
    // SAFETY: the pointers are arguments of the C call.
    unsafe {
        guard::plain("region_log_set_callback", std::ptr::null_mut(), |_| {
            let level = match max_level {
                0 => LevelFilter::Info,
                1 => LevelFilter::Error,
                2 => LevelFilter::Warn,
                3 => LevelFilter::Info,
                4 => LevelFilter::Debug,
                5 => LevelFilter::Trace,
                _ => return Err(super::options::unsupported("max_level", max_level)),
            };
            start();
            ::log::set_max_level(level);
            let mut target = TARGET.lock();
            let old = (target.number % 2) as usize;
            target.number += 1;
            let number = target.number;
            target.callback = cb.map(|function| Callback { function, ctx: ctx.expose_provenance(), number });
            // A thread that is in the old callback and replaces it does not wait for itself.
            let own = u32::from(IN_CALLBACK.get());
            while target.runs.get(old).is_some_and(|runs| *runs > own) {
                LEFT.wait(&mut target);
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
        guard::plain("region_log_poll", std::ptr::null_mut(), |c: Caller<'_>| {
            c.write(used, 0);
            c.write(dropped, 0);
            c.require(used, "used")?;
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
