//! The packed buffers, from the caller's side: any bytes and any count, through the C interface into a real region.
//!
//! An input is: which call, options, count (two bytes, little-endian), then the buffer. The buffer lies in an allocation of exactly its size, so that the
//! address sanitizer sees a read behind it; results have exactly their number. What must not be: a crash, REGION_E_PANIC or E_INTERNAL; a malformed buffer
//! (judged here anew, by the documented format) that is not refused, or changes something; a refusal that allocated more than the buffer has bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use region::ffi::batch::{region_batch_mutate_packed, region_increment_packed, region_op_result_t};
use region::ffi::open_options::{region_family_t, region_options_t};
use region::ffi::options::{region_commit_info_t, region_read_options_t, region_write_options_t};
use region::ffi::read::{region_counter_get_packed, region_get_packed};
use region::ffi::region::{region_close, region_destroy, region_family_set, region_open, region_t};
use region::ffi::status::region_error_t;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::CString;
use std::mem::{size_of, zeroed};
use std::ptr::null_mut;

/// Counts what a thread takes while it is told to.
struct Counting;

thread_local! {
    static TAKEN: Cell<Option<usize>> = const { Cell::new(None) };
}

fn count(bytes: usize) {
    let _ = TAKEN.try_with(|taken| taken.set(taken.get().map(|n| n + bytes)));
}

// SAFETY: the system's allocator, with a number beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that `call` takes, and its answer.
fn taken<R>(call: impl FnOnce() -> R) -> (usize, R) {
    TAKEN.set(Some(0));
    let answer = call();
    (TAKEN.replace(None).unwrap_or(0), answer)
}

/// A region that is made anew now and then, so that it stays small.
struct Opened {
    region: *mut region_t,
    path: CString,
    calls: u64,
}

const CALLS_OF_A_REGION: u64 = 20_000;

thread_local! {
    static OPENED: Cell<Option<Opened>> = const { Cell::new(None) };
}

fn open() -> Opened {
    let dir = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let path = CString::new(dir.join(format!("region-fuzz-{}", std::process::id())).into_os_string().into_encoded_bytes()).expect("no NUL");
    let config = CString::new("wal_segment_bytes=1m,wal_bytes_max=512m,sync_interval_ms=3600000").expect("no NUL");
    let mut region = null_mut();
    unsafe {
        region_destroy(path.as_ptr(), null_mut());
        let options = region_options_t { struct_size: size_of::<region_options_t>() as u32, flags: 1, config: config.as_ptr(), ..zeroed() };
        assert_eq!(region_open(path.as_ptr(), &options, &mut region, null_mut()) as i32, 0);
        for (name, versions) in [(&b"one"[..], 1), (b"three", 3)] {
            let mut family: region_family_t = zeroed();
            family.name.data = name.as_ptr().cast();
            family.name.len = name.len();
            family.max_versions = versions;
            assert_eq!(region_family_set(region, &family, size_of::<region_family_t>(), null_mut(), null_mut()) as i32, 0);
        }
    }
    Opened { region, path, calls: 0 }
}

fn u16_at(b: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(b.get(at..at + 2)?.try_into().ok()?).into())
}
fn u32_at(b: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(b.get(at..at + 4)?.try_into().ok()?) as usize)
}

/// Whether `n` records fill the buffer, by the format's description; `record` tells a record's length without padding.
fn well_formed(b: &[u8], n: usize, mut record: impl FnMut(usize, usize) -> Option<usize>) -> bool {
    let mut at = 0;
    for i in 0..n {
        let Some(len) = record(i, at) else { return false };
        let (end, padded) = (at + len, (at + len).next_multiple_of(8));
        if padded > b.len() || b[end..padded].iter().any(|p| *p != 0) {
            return false;
        }
        at = padded;
    }
    at == b.len()
}
fn increments_are_well_formed(b: &[u8], n: usize) -> bool {
    well_formed(b, n, |_, at| Some(16 + u16_at(b, at + 4)? + u16_at(b, at + 6)?).filter(|_| at + 16 <= b.len()))
}
fn keys_are_well_formed(b: &[u8], n: usize) -> bool {
    well_formed(b, n, |_, at| Some(8 + u16_at(b, at + 4)? + u16_at(b, at + 6)?))
}
fn ops_are_well_formed(b: &[u8], n: usize) -> bool {
    const SAME_ROW: usize = 1 << 16;
    well_formed(b, n, |i, at| {
        let header = usize::from(*b.get(at + 1)?);
        let (row, flags) = (u16_at(b, at + 2)?, u32_at(b, at + 8)?);
        let (qual, value, ttl) = (u32_at(b, at + 12)?, u32_at(b, at + 16)?, u32_at(b, at + 20)?);
        let zeros = b.get(at + 40..at + header)?.iter().all(|z| *z == 0);
        let same = flags & SAME_ROW != 0;
        let known = (1..=9).contains(b.get(at)?) && ttl == 0 && zeros && header % 8 == 0;
        (known && !(same && (row != 0 || i == 0))).then_some(header + row + qual + value)
    })
}

fn text(err: &region_error_t) -> String {
    err.msg.iter().take(err.msg_len as usize).map(|c| char::from(*c as u8)).collect()
}

fuzz_target!(|data: &[u8]| {
    let Some((&[which, options, n_low, n_high], buffer)) = data.split_first_chunk() else { return };
    let n = usize::from(u16::from_le_bytes([n_low, n_high]));
    // Exactly so long, and not always aligned.
    let shift = usize::from(options >> 7);
    let whole: Box<[u8]> = [&[0xa5; 1][..shift], buffer].concat().into_boxed_slice();
    let (bytes, len) = (whole[shift..].as_ptr().cast(), buffer.len());

    let mut opened = OPENED.take().unwrap_or_else(open);
    opened.calls += 1;
    let region = opened.region;
    let mut info: region_commit_info_t = unsafe { zeroed() };
    info.struct_size = size_of::<region_commit_info_t>() as u32;
    let write = region_write_options_t {
        struct_size: size_of::<region_write_options_t>() as u32,
        flags: u32::from(options & 0x3f),
        min_value: -8,
        max_value: 8,
        info: &mut info,
        ..unsafe { zeroed() }
    };
    let read = region_read_options_t { struct_size: size_of::<region_read_options_t>() as u32, ..unsafe { zeroed() } };
    let mut err: region_error_t = unsafe { zeroed() };
    err.struct_size = size_of::<region_error_t>() as u32;
    let mut results: Box<[region_op_result_t]> = (0..n).map(|_| unsafe { zeroed() }).collect();
    let mut values = vec![0i64; n].into_boxed_slice();
    let mut statuses = vec![0i32; n].into_boxed_slice();
    let mut page = vec![0u8; usize::from(options) * 8].into_boxed_slice();
    let (mut used, mut done) = (0, 0);
    let result_size = size_of::<region_op_result_t>();

    let (bytes_taken, status) = taken(|| unsafe {
        match which % 4 {
            0 => region_batch_mutate_packed(region, bytes, len, n, &write, results.as_mut_ptr(), result_size, &mut err) as i32,
            1 => region_increment_packed(region, bytes, len, n, &write, results.as_mut_ptr(), result_size, &mut err) as i32,
            2 => region_get_packed(region, &read, bytes, len, n, page.as_mut_ptr().cast(), page.len(), &mut used, &mut done, &mut err) as i32,
            _ => region_counter_get_packed(region, &read, bytes, len, n, values.as_mut_ptr(), statuses.as_mut_ptr(), &mut err) as i32,
        }
    });
    let told = || format!("status {status}, {bytes_taken} bytes taken for {len}: {}", text(&err));
    assert!(status != -22 && status != -23, "a bug was caught at the boundary: {}", told());
    // Truncated: the first record does not fit, and `used` says what it needs.
    let truncated = status == 4 && done == 0;
    assert!((used <= page.len() || truncated) && done <= n, "{}", told());
    let well_formed = match which % 4 {
        0 => ops_are_well_formed(buffer, n),
        1 => increments_are_well_formed(buffer, n),
        _ => keys_are_well_formed(buffer, n),
    };
    if !well_formed {
        assert!(status < 0, "a malformed buffer was taken: {}", told());
        assert_eq!(info.seq, 0, "a malformed buffer changed something: {}", told());
        // The message has a bound of its own.
        assert!(bytes_taken <= len + 4096, "a refusal takes more than the buffer has: {}", told());
    }
    // What a call takes to do its work grows with its buffer at most.
    assert!(bytes_taken <= 64 * len + (256 << 10), "{}", told());

    if opened.calls == CALLS_OF_A_REGION {
        unsafe {
            assert_eq!(region_close(region, 0, u64::MAX, null_mut()) as i32, 0);
            assert_eq!(region_destroy(opened.path.as_ptr(), null_mut()) as i32, 0);
        }
        return;
    }
    OPENED.set(Some(opened));
});
