//! A region's files with anything in them, opened and read, some of them written to: P-D4. An input is a program of edits, see tests/common/damaged.rs.
//!
//! What must not be: a crash, an error that means a bug, or one request for memory that the files and the memory limit do not explain.
#![no_main]

#[path = "../../tests/common/damaged.rs"]
mod damaged;

use damaged::Image;
use libfuzzer_sys::fuzz_target;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Notes the largest request, of any thread.
struct Largest;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator, with a number beside it.
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Relaxed);
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Largest = Largest;

static IMAGE: LazyLock<Image> = LazyLock::new(Image::new);

/// More than the largest buffer of an undamaged region with these settings; the fake of the file system doubles its files' buffers.
const REQUEST_BYTES_MAX: usize = 4 << 20;

fuzz_target!(|program: &[u8]| {
    let image = &*IMAGE;
    LARGEST.store(0, Relaxed);
    let _ = image.run(program);
    let largest = LARGEST.load(Relaxed);
    assert!(largest <= REQUEST_BYTES_MAX, "{largest} bytes were asked for at once");
});
