//! Bytes across the boundary: slices in, values and text out.

use super::guard::{Answer, Caller, Outcome};
use super::handle::{self, Object};
use super::status::code;
use crate::error::Result;
use crate::region::{Pinned, ValueSink};
use std::ffi::{c_char, c_void};

/// Bytes, laid out as struct iovec. data may be NULL only when len is 0. Input slices are borrowed for the call. This struct never grows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_slice_t {
    /// First byte.
    pub data: *const c_void,
    /// Bytes.
    pub len: usize,
}

impl region_slice_t {
    /// Borrowed by the caller until the time that its documentation names.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), len: bytes.len() }
    }
    /// The caller's bytes.
    pub(super) fn bytes<'a>(&self, caller: Caller<'a>, what: &'static str) -> Result<&'a [u8]> {
        caller.bytes(self.data, self.len, what)
    }
}

/// A value to be filled or pinned. Set buf and cap before the call: a value of at most cap bytes is copied there; a longer
/// one is pinned: data points to the library's memory, which stays as it is until region_value_release, whatever is written
/// meanwhile and also after region_close. cap 0 pins every value. This struct never grows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_value_t {
    /// In: the caller's buffer; may be NULL when cap is 0.
    pub buf: *mut c_void,
    /// In: its length.
    pub cap: usize,
    /// Out: the value; equals buf when it was copied. NULL when there is none.
    pub data: *const c_void,
    /// Out: its length.
    pub len: usize,
    /// Out: timestamp of the version.
    pub timestamp: u64,
    /// Out: its commit.
    pub seq: u64,
    /// Out: 0 = nothing to release.
    pub pin: u64,
    /// Out: 0.
    pub reserved: u64,
}

/// A pinned value behind `region_value_t.pin`, which is a handle's address.
struct Pin {
    /// Held until it is dropped.
    _value: Box<dyn Pinned>,
}

impl Object for Pin {
    type C = c_void;
    const NAME: &'static str = "pinned value";
    const KIND: u64 = 0x7069_6e6e_6564_7600;
    const OWNED: bool = true;
    fn poison(&self, _: &str) {}
}

/// Fills a `region_value_t` from a read.
pub(super) struct Fill<'a> {
    buf: Option<&'a mut [u8]>,
    at: *mut c_void,
    copied: usize,
    pinned: Option<Box<dyn Pinned>>,
}

impl<'a> Fill<'a> {
    /// Takes the caller's buffer.
    pub(super) fn new(caller: Caller<'a>, value: &region_value_t) -> Result<Self> {
        let buf = caller.buffer(value.buf, value.cap, "val.buf")?;
        Ok(Self { buf: Some(buf), at: value.buf, copied: 0, pinned: None })
    }
    /// What the caller's struct shall say.
    pub(super) fn finish(self, value: &mut region_value_t, found: Option<crate::region::Found>) -> Result<()> {
        let Some(found) = found else { return Ok(()) };
        match self.pinned {
            None => (value.data, value.len) = (self.at, self.copied),
            Some(pinned) => {
                let bytes = pinned.bytes();
                (value.data, value.len) = (bytes.as_ptr().cast(), bytes.len());
                value.pin = handle::create(Pin { _value: pinned })?.expose_provenance() as u64;
            }
        }
        (value.timestamp, value.seq) = (found.timestamp, found.seq);
        Ok(())
    }
}

impl ValueSink for Fill<'_> {
    fn fits(&mut self, len: usize) -> Option<&mut [u8]> {
        self.pinned = None;
        self.copied = len;
        self.buf.as_deref_mut()?.get_mut(..len)
    }
    fn pin(&mut self, value: Box<dyn Pinned>) {
        self.pinned = Some(value);
    }
}

impl region_value_t {
    /// No value: what the outputs are until one is found. Nothing for NULL.
    #[inline]
    pub(super) fn clear(c: Caller<'_>, at: *mut Self) {
        if let Some(value) = c.read(at.cast_const()) {
            c.write(at, Self { data: std::ptr::null(), len: 0, timestamp: 0, seq: 0, pin: 0, reserved: 0, ..value });
        }
    }
}

/// Gives a pinned value back. NULL, an empty struct, a second release, or a struct whose value was copied: nothing happens.
/// Sets data, len and pin to 0 if it was pinned. Threads: any, also after region_close. In a forked child it does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_value_release(val: *mut region_value_t) {
    // SAFETY: val is the C call's argument.
    unsafe {
        super::guard::plain("region_value_release", std::ptr::null_mut(), super::guard::no_outputs, |c| {
            let Some(mut value) = c.read(val.cast_const()) else { return Ok(Outcome::OK) };
            if value.pin != 0 {
                handle::close::<Pin>(std::ptr::with_exposed_provenance(value.pin as usize));
                (value.data, value.len, value.pin) = (std::ptr::null(), 0, 0);
                c.write(val, value);
            }
            Ok(Outcome::OK)
        })
    };
}

/// No text: what `fill_text` fills.
pub(super) fn clear_text(c: Caller<'_>, buf: *mut c_char, cap: usize, len: *mut usize) {
    c.write(len, 0);
    if cap > 0 {
        c.write(buf, 0);
    }
}

/// Hands text out: NUL-terminated, cut if it must be; `len` gets its whole length without NUL.
pub(super) fn fill_text(c: Caller<'_>, buf: *mut c_char, cap: usize, len: *mut usize, text: &str, what: &'static str) -> Answer {
    let to = c.buffer(buf.cast(), cap, what)?;
    c.write(len, text.len());
    let mut end = cap.saturating_sub(1).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    for (to, from) in to.iter_mut().zip(text.bytes().take(end).chain([0])) {
        *to = from;
    }
    Ok(if end < text.len() || cap == 0 { Outcome::of(code::REGION_TRUNCATED) } else { Outcome::OK })
}
