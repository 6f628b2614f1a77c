//! Which library this is, and whether it fits the header that a program was built with.

use super::guard::{self, Outcome};
use super::status::{region_error_t, region_status};
use crate::error::{Error, ErrorKind};
use std::ffi::{CStr, c_char};

/// major<<24 | minor<<16 | patch<<8, from Cargo.toml.
pub(super) const VERSION: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) << 24
    | number(env!("CARGO_PKG_VERSION_MINOR")) << 16
    | number(env!("CARGO_PKG_VERSION_PATCH")) << 8;

const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(n) => n,
        Err(_) => 0,
    }
}

/// Number of the interface: that of the soname. Functions and fields are only ever added within one number.
pub const ABI: u32 = 0;

/// Interface numbers and layout hashes of the headers that this library still serves. Only grows; the last is that of today.
pub(super) const SERVED: &[(u32, &CStr)] = &[(0, c"59d2add5ff232483"), (0, c"1e86dbd6025b39be")];

/// The library's version as a number: major<<24 | minor<<16 | patch<<8. Compare with REGION_VERSION. Threads: any. Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn region_version() -> u32 {
    VERSION
}

/// The library's version as text, "0.1.0". Static. Threads: any. Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn region_version_string() -> *const c_char {
    const TEXT: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    TEXT.as_ptr().cast()
}

/// How the library was built, as JSON: {"version","commit","rustc","target","profile","features"}. Static. Threads: any. Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn region_build_info() -> *const c_char {
    // build.rs passes all of it on as one text, since a static C string cannot be put together from parts that may be absent.
    const TEXT: &str = concat!(env!("REGION_BUILD_INFO"), "\0");
    TEXT.as_ptr().cast()
}

/// Does this library serve programs and bindings made from a header with this REGION_ABI_VERSION and REGION_LAYOUT_HASH?
/// Call it once at start. Threads: any.
/// REGION_OK, REGION_E_ABI (the message names both sides), REGION_E_INVALID, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_abi_check(abi_version: u32, layout_hash: *const c_char, err: *mut region_error_t) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::plain("region_abi_check", err, guard::no_outputs, |c| {
            let Some(hash) = c.text(layout_hash) else { return Err(guard::missing("layout_hash")) };
            if SERVED.iter().any(|(abi, layout)| *abi == abi_version && *layout == hash) {
                return Ok(Outcome::OK);
            }
            let ours = SERVED.last().map_or(c"", |(_, layout)| layout);
            Err(Error::new(
                ErrorKind::Abi,
                format!(
                    "the program was made for interface {abi_version}, layout {}; this library is version {} with interface {ABI}, layout {}",
                    hash.to_string_lossy(),
                    env!("CARGO_PKG_VERSION"),
                    ours.to_string_lossy()
                ),
            ))
        })
    }
}

/// The layout of today, as in the header.
pub fn layout_hash() -> &'static str {
    SERVED.last().and_then(|(_, layout)| layout.to_str().ok()).unwrap_or("")
}

#[cfg(test)]
mod layout;
#[cfg(test)]
mod tests;
