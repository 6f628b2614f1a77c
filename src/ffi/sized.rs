//! Structs that grow: the rules of `struct_size` and of element sizes, in one place.
//!
//! Input: zeros stand for defaults. Shorter than ours: an old caller, the missing tail is zero. Longer: a new caller, whose tail must be
//! zero; else it asks for something that this version does not know: `Unsupported`, naming the struct and the byte. A size that is no
//! multiple of 8 or that holds no field is `Invalid`: every released size is a multiple of 8, so fields are never cut in half. Output:
//! what fits is written, a longer struct's tail is zeroed.

use super::guard::{Caller, missing};
use crate::error::{Error, ErrorKind, Result};
use std::ffi::c_void;

/// A C struct or number for which every bit pattern is a value, all zeros among them.  # Safety `repr(C)`; integers, raw
/// pointers, optional function pointers and such structs only.
pub(super) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($t:ty),+ $(,)?) => { $(
        // SAFETY: a repr(C) struct of integers, raw pointers and optional function pointers, or an integer.
        unsafe impl $crate::ffi::sized::Plain for $t {}
    )+ };
}
pub(super) use plain;
plain!(u8, u32, u64, i64, super::bytes::region_slice_t, super::bytes::region_value_t);

/// A size beyond this is not a size.
const SIZE_MAX: usize = 4096;

/// All zeros.
pub(super) fn zeroed<P: Plain>() -> P {
    // SAFETY: all zeros is a value of every `Plain`.
    unsafe { std::mem::zeroed() }
}

#[cold]
fn bad_size(name: &str, size: usize, least: usize) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("{name}: its size is given as {size} bytes; set it to sizeof (a multiple of 8 from {least} to {SIZE_MAX})"),
    )
}

#[cold]
fn unknown_tail(name: &str, at: usize, ours: usize) -> Error {
    let version = env!("CARGO_PKG_VERSION");
    Error::new(ErrorKind::Unsupported, format!("{name}: byte {at} is set, but version {version} knows only {ours} bytes of it"))
}

/// Reads a struct or an element of `size` bytes, of which at least `least` must be there.
#[inline]
pub(super) fn read<P: Plain>(c: Caller<'_>, p: *const P, size: usize, least: usize, name: &'static str) -> Result<P> {
    let ours = size_of::<P>();
    if size == ours {
        return c.read(p).ok_or_else(|| missing(name));
    }
    read_other(c, p, size, least, name)
}

#[cold]
fn read_other<P: Plain>(c: Caller<'_>, p: *const P, size: usize, least: usize, name: &'static str) -> Result<P> {
    let ours = size_of::<P>();
    if size < least || size > SIZE_MAX || !size.is_multiple_of(8) {
        return Err(bad_size(name, size, least));
    }
    if p.is_null() {
        return Err(missing(name));
    }
    let bytes = c.bytes(p.cast::<c_void>(), size, name)?;
    if let Some(at) = bytes.iter().skip(ours).position(|b| *b != 0) {
        return Err(unknown_tail(name, ours + at, ours));
    }
    let mut whole = zeroed::<P>();
    let count = size.min(ours);
    // SAFETY: `bytes` has at least `count` bytes, `whole` too; they do not overlap; every bit pattern is a `P`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), std::ptr::from_mut(&mut whole).cast::<u8>(), count) };
    Ok(whole)
}

/// Reads a struct that begins with its `struct_size`; None for NULL.
#[inline]
pub(super) fn read_sized<P: Plain>(c: Caller<'_>, p: *const P, name: &'static str) -> Result<Option<P>> {
    match c.read(p.cast::<u32>()) {
        None => Ok(None),
        Some(size) => read(c, p, size as usize, 8, name).map(Some),
    }
}

/// Writes an output of which the caller has `size` bytes; at least `least` must be there. The first `keep` bytes stay as
/// the caller set them.
#[inline]
pub(super) fn write<P: Plain>(
    c: Caller<'_>,
    p: *mut P,
    size: usize,
    least: usize,
    keep: usize,
    value: &P,
    name: &'static str,
) -> Result<()> {
    if size < least || size > SIZE_MAX || !size.is_multiple_of(8) {
        return Err(bad_size(name, size, least));
    }
    if p.is_null() {
        return Err(missing(name));
    }
    let to = c.buffer(p.cast::<c_void>(), size, name)?;
    let from = std::ptr::from_ref(value).cast::<u8>();
    // SAFETY: a `P` has no padding (asserted by the layout table's test), so all its bytes are initialised.
    let from = unsafe { std::slice::from_raw_parts(from, size_of::<P>()) };
    let known = size.min(from.len());
    let (ours, more) = to.split_at_mut(known);
    if let (Some(ours), Some(from)) = (ours.get_mut(keep..), from.get(keep..known)) {
        ours.copy_from_slice(from);
    }
    more.fill(0);
    Ok(())
}

/// Writes an output struct that begins with its `struct_size`.
pub(super) fn write_sized<P: Plain>(c: Caller<'_>, p: *mut P, value: &P, name: &'static str) -> Result<()> {
    match c.read(p.cast_const().cast::<u32>()) {
        None => Err(missing(name)),
        Some(size) => write(c, p, size as usize, 8, size_of::<u32>(), value, name),
    }
}

/// An array whose elements may have another size than ours.
#[derive(Clone, Copy)]
pub(super) struct Elements<'a, P> {
    caller: Caller<'a>,
    base: *const P,
    len: usize,
    size: usize,
    least: usize,
    name: &'static str,
}

impl<'a, P: Plain> Elements<'a, P> {
    /// The caller's array; `least` is the size of the first version of its elements.
    pub(super) fn new(caller: Caller<'a>, base: *const P, len: usize, size: usize, least: usize, name: &'static str) -> Result<Self> {
        if len > 0 {
            if size < least || size > SIZE_MAX || !size.is_multiple_of(8) {
                return Err(bad_size(name, size, least));
            }
            if base.is_null() {
                return Err(Error::new(ErrorKind::Invalid, format!("{name} is NULL, but its number of elements is {len}")));
            }
            if len.checked_mul(size).is_none_or(|bytes| bytes > isize::MAX as usize) {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!("{name}: {len} elements of {size} bytes are more than any array can have (a negative number?)"),
                ));
            }
        }
        Ok(Self { caller, base, len, size, least, name })
    }
    pub(super) fn len(&self) -> usize {
        self.len
    }
    /// The `i`-th, `i < len`.
    #[inline]
    pub(super) fn get(&self, i: usize) -> Result<P> {
        if i >= self.len {
            return Err(Error::new(ErrorKind::Internal, format!("{}: element {i} of {}", self.name, self.len)));
        }
        read(self.caller, self.base.wrapping_byte_add(i * self.size), self.size, self.least, self.name)
    }
    pub(super) fn caller(&self) -> Caller<'a> {
        self.caller
    }
}
