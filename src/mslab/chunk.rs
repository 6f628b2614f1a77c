//! One fixed buffer: bump allocation from both ends, shared reads after publication. UNSAFE ROOM.
//!
//! Small things (align ≤ 8) grow from the bottom, aligned things (row blocks, index nodes) from the top, so that neither pays padding for the
//! other. Both ends are halves of one word moved by compare-and-swap: an allocation that does not fit changes nothing, so the cursor never runs
//! past the buffer. A failed exchange also tells that threads meet here; the arena then opens further chunks.
//!
//! *Invariants.* C1: ranges handed out by `bump` between two `reset`s are disjoint and inside the buffer. C2: `reset` and unmapping need the
//! chunk's one owner ([`OwnedChunk`]). C3: a chunk in a [`ChunkSet`] stays where it is until `take_all`, which needs `&mut`. So whoever may
//! call `bump` on a `&Chunk` from a set may use the bytes for as long as the set's owner lets the set live.
//!
//! *Threads*: a `Chunk` is shared, an `OwnedChunk` and a `ChunkList` have one owner at a time. The bytes themselves are the callers': they
//! publish what they write there with a Release store of their own.

use super::flaw::{self, Flaw};
use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use std::ptr::{self, NonNull};

/// Largest alignment of an allocation: a chunk's base is aligned to a page, so this could be larger, but nobody needs it.
pub const ALIGN_MAX: usize = 128;
/// Every piece is a multiple of this.
pub const ALIGN_BYTES: usize = 8;
/// Huge pages are this big; only chunks made of whole ones ask for them.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Nothing smaller is mapped.
pub const PAGE_BYTES: usize = 4096;

/// A buffer and its cursor. Shared between the threads that allocate from it.
pub struct Chunk {
    /// Bottom end in the low half, top end in the high half; free is what lies between.
    cursor: CachePadded<AtomicU64>,
    /// How often an exchange of `cursor` failed: threads meet here.
    contended: AtomicU64,
    base: NonNull<u8>,
    bytes: usize,
    id: u64,
    /// Link of the list that holds this chunk.
    next: AtomicPtr<Chunk>,
}

// SAFETY: `base` is memory that this chunk owns; it is handed out in disjoint pieces only (C1), everything else is atomic or constant.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

const fn ends(bottom: u32, top: u32) -> u64 {
    ((top as u64) << 32) | bottom as u64
}

impl Chunk {
    /// A piece of `size` bytes aligned to `align` (a power of two, at most [`ALIGN_MAX`]), or None when it does not fit. Its content is undefined.
    #[inline]
    pub fn bump(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        debug_assert!(align.is_power_of_two() && align <= ALIGN_MAX);
        let size = u32::try_from(size.max(1).checked_next_multiple_of(ALIGN_BYTES)?).ok()?;
        // Relaxed throughout: the exchange only divides the range. The buffer itself became visible with the pointer to this chunk, and what
        // callers write into their piece they publish themselves. A chunk is reset only by its owner, who got it through the pool's lock.
        let mut seen = self.cursor.load(Ordering::Relaxed);
        loop {
            let (bottom, top) = (seen as u32, (seen >> 32) as u32);
            let (at, wanted) = if align <= 8 {
                if top - bottom < size {
                    return None;
                }
                (bottom, ends(bottom + size, top))
            } else {
                let at = top.checked_sub(size)? & !(align as u32 - 1);
                if at < bottom {
                    return None;
                }
                (at, ends(bottom, at))
            };
            if flaw::is(Flaw::BumpByStore) {
                self.cursor.store(wanted, Ordering::Relaxed);
                return Some(self.at(at));
            }
            match self.cursor.compare_exchange_weak(seen, wanted, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(self.at(at)),
                Err(now) => {
                    // On the line that is contended anyway. Relaxed: a hint.
                    self.contended.fetch_add(1, Ordering::Relaxed);
                    seen = now;
                }
            }
        }
    }
    fn at(&self, offset: u32) -> NonNull<u8> {
        // SAFETY: callers pass offsets that `bump` found to lie inside the buffer.
        unsafe { self.base.add(offset as usize) }
    }
    /// Bytes handed out so far, padding included.
    pub fn used(&self) -> usize {
        // Relaxed: a number for statistics.
        self.used_at(self.cursor.load(Ordering::Relaxed))
    }
    fn used_at(&self, cursor: u64) -> usize {
        self.bytes - ((cursor >> 32) as usize - cursor as u32 as usize)
    }
    /// Ends allocation from this chunk and tells how many bytes were handed out. A second call answers the buffer's size.
    pub fn seal(&self) -> usize {
        // Relaxed: as in `bump`; whoever comes later finds no room, whoever came before is in the answer.
        self.used_at(self.cursor.swap(ends(0, 0), Ordering::Relaxed))
    }
    /// How often threads met at the cursor since the last reset.
    pub fn contended(&self) -> u64 {
        self.contended.load(Ordering::Relaxed)
    }
    /// The buffer's size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Unique among the chunks of one pool.
    pub fn id(&self) -> u64 {
        self.id
    }
    /// Start of the buffer.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }
}

/// The one owner of a chunk: may reset it, unmaps it when dropped.
pub struct OwnedChunk(NonNull<Chunk>);

// SAFETY: owns the chunk, which may be used from any thread.
unsafe impl Send for OwnedChunk {}

impl OwnedChunk {
    /// Maps a buffer of `bytes` (a multiple of the page size). None when the system has no memory, or `bytes` is beyond what a cursor can count.
    pub fn map(bytes: usize, id: u64, huge: bool) -> Option<Self> {
        debug_assert!(bytes.is_multiple_of(PAGE_BYTES) && bytes > 0);
        let base = map_buffer(bytes, huge && bytes.is_multiple_of(HUGE_PAGE_BYTES))?;
        // The cursor's halves have 32 bits; a larger buffer (an oversize one) is handed out whole, never bumped.
        let top = u32::try_from(bytes).unwrap_or(0);
        let chunk = Chunk {
            cursor: CachePadded::new(AtomicU64::new(ends(0, top))),
            contended: AtomicU64::new(0),
            base,
            bytes,
            id,
            next: AtomicPtr::new(ptr::null_mut()),
        };
        Some(Self(NonNull::from(Box::leak(Box::new(chunk)))))
    }
    /// The chunk.
    pub fn chunk(&self) -> &Chunk {
        // SAFETY: the pointer came from a Box that only `drop` takes back.
        unsafe { self.0.as_ref() }
    }
    /// Forgets all allocations. The caller owns the chunk, so nobody uses them any more.
    pub fn reset(&mut self) {
        let chunk = self.chunk();
        // Relaxed: the next user gets the chunk through a lock or a Release store.
        chunk.cursor.store(ends(0, u32::try_from(chunk.bytes).unwrap_or(0)), Ordering::Relaxed);
        chunk.contended.store(0, Ordering::Relaxed);
    }
    /// Makes every page resident now instead of at first touch. True if it worked.
    pub fn populate(&mut self) -> bool {
        populate_buffer(self.chunk().base, self.chunk().bytes)
    }
    fn into_raw(self) -> NonNull<Chunk> {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }
}

impl Drop for OwnedChunk {
    fn drop(&mut self) {
        // SAFETY: `map` leaked this Box, and the one owner gives it back.
        let chunk = unsafe { Box::from_raw(self.0.as_ptr()) };
        unmap_buffer(chunk.base, chunk.bytes);
    }
}

/// A stack of owned chunks linked through themselves: pushing and taking never allocates, so it may be done under a leaf lock.
pub struct ChunkList {
    head: *mut Chunk,
    len: usize,
}

// SAFETY: owns its chunks, which may be used from any thread.
unsafe impl Send for ChunkList {}

impl ChunkList {
    /// Empty.
    pub const fn new() -> Self {
        Self { head: ptr::null_mut(), len: 0 }
    }
    /// Puts a chunk on top.
    pub fn push(&mut self, chunk: OwnedChunk) {
        // Relaxed: one owner.
        chunk.chunk().next.store(self.head, Ordering::Relaxed);
        self.head = chunk.into_raw().as_ptr();
        self.len += 1;
    }
    /// Takes the top chunk: the one used last, so the warmest.
    pub fn pop(&mut self) -> Option<OwnedChunk> {
        let chunk = OwnedChunk(NonNull::new(self.head)?);
        // Relaxed: one owner.
        self.head = chunk.chunk().next.load(Ordering::Relaxed);
        self.len -= 1;
        Some(chunk)
    }
    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for ChunkList {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// All chunks of one arena, and those it allocates from at present. Chunks are added, never taken out before the end (C3).
pub struct ChunkSet<const OPEN: usize> {
    all: AtomicPtr<Chunk>,
    open: [CachePadded<AtomicPtr<Chunk>>; OPEN],
}

impl<const OPEN: usize> ChunkSet<OPEN> {
    /// Empty.
    pub fn new() -> Self {
        Self { all: AtomicPtr::new(ptr::null_mut()), open: std::array::from_fn(|_| CachePadded::new(AtomicPtr::new(ptr::null_mut()))) }
    }
    /// The chunk that is open in place `i`.
    #[inline]
    pub fn open(&self, i: usize) -> Option<&Chunk> {
        // Acquire: pairs with the Release in `install`, so that base and cursor are seen.
        // SAFETY: null, or a chunk of this set, which stays until `take_all` (C3).
        unsafe { self.open.get(i)?.load(Ordering::Acquire).as_ref() }
    }
    /// Adds a chunk without opening it.
    pub fn adopt(&self, chunk: OwnedChunk) -> &Chunk {
        let raw = chunk.into_raw();
        let mut head = self.all.load(Ordering::Relaxed);
        loop {
            // SAFETY: this set owns it from now on and keeps it (C3).
            let chunk = unsafe { raw.as_ref() };
            chunk.next.store(head, Ordering::Relaxed);
            // Release: pairs with the Acquire in `holds`; the chunk's fields and its link are seen.
            match self.all.compare_exchange_weak(head, raw.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return chunk,
                Err(now) => head = now,
            }
        }
    }
    /// Adds a chunk and opens it in place `i`; the one that was open there stays in the set.
    pub fn install(&self, i: usize, chunk: OwnedChunk) -> &Chunk {
        let chunk = self.adopt(chunk);
        if let Some(open) = self.open.get(i) {
            // Release: pairs with the Acquire in `open`.
            open.store(ptr::from_ref(chunk).cast_mut(), Ordering::Release);
        }
        chunk
    }
    /// True if one of its chunks begins at this address. Looks through all of them.
    pub fn begins_at(&self, address: usize) -> bool {
        self.any(|chunk| chunk.base.addr().get() == address)
    }
    /// True if all of `bytes` lie in one of the chunks. Looks through all of them.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let wanted = bytes.as_ptr_range();
        self.any(|chunk| {
            let base = chunk.base.as_ptr().cast_const();
            base <= wanted.start && wanted.end <= base.wrapping_add(chunk.bytes)
        })
    }
    fn any(&self, is: impl Fn(&Chunk) -> bool) -> bool {
        // Acquire: pairs with the Release in `adopt`; what hangs below was there before.
        let mut at = self.all.load(Ordering::Acquire);
        // SAFETY: null, or a chunk of this set, which stays until `take_all` (C3).
        while let Some(chunk) = unsafe { at.as_ref() } {
            if is(chunk) {
                return true;
            }
            // Relaxed: written before the chunk was adopted, never after.
            at = chunk.next.load(Ordering::Relaxed);
        }
        false
    }
    /// Takes every chunk out: nobody may use memory from them any more.
    pub fn take_all(&mut self) -> ChunkList {
        let mut list = ChunkList::new();
        for open in &self.open {
            open.store(ptr::null_mut(), Ordering::Relaxed);
        }
        let mut at = self.all.swap(ptr::null_mut(), Ordering::Acquire);
        while let Some(raw) = NonNull::new(at) {
            let chunk = OwnedChunk(raw);
            at = chunk.chunk().next.load(Ordering::Relaxed);
            list.push(chunk);
        }
        list
    }
}

impl<const OPEN: usize> Drop for ChunkSet<OPEN> {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

/// Rounds up to whole pages. None beyond the address space.
pub fn page_rounded(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(PAGE_BYTES)
}

/// The machine's memory in bytes, 0 if it cannot be told.
pub fn machine_bytes() -> u64 {
    // SAFETY: a query without arguments that point anywhere.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    // SAFETY: as above.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(page).unwrap_or(0))
}

// Under loom and Miri there is no mmap worth having: the heap does.
#[cfg(any(loom, miri))]
mod buffer {
    use super::{NonNull, PAGE_BYTES};
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    pub fn map_buffer(bytes: usize, _huge: bool) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).ok()?;
        // SAFETY: the size is not 0.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }
    pub fn unmap_buffer(base: NonNull<u8>, bytes: usize) {
        if let Ok(layout) = Layout::from_size_align(bytes, PAGE_BYTES) {
            // SAFETY: allocated above with the same layout.
            unsafe { dealloc(base.as_ptr(), layout) };
        }
    }
    pub fn populate_buffer(_base: NonNull<u8>, _bytes: usize) -> bool {
        true
    }
}

#[cfg(not(any(loom, miri)))]
mod buffer {
    use super::{HUGE_PAGE_BYTES, NonNull, PAGE_BYTES};
    use std::ptr;

    fn mmap(bytes: usize) -> Option<NonNull<u8>> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let p = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if p == libc::MAP_FAILED { None } else { NonNull::new(p.cast()) }
    }
    pub fn unmap_buffer(base: NonNull<u8>, bytes: usize) {
        // SAFETY: callers pass a range that `mmap` gave and that nobody uses any more.
        let failed = unsafe { libc::munmap(base.as_ptr().cast(), bytes) } != 0;
        debug_assert!(!failed, "munmap of our own mapping");
    }
    /// Aligned to a huge page if `huge`: maps more and cuts both ends off.
    pub fn map_buffer(bytes: usize, huge: bool) -> Option<NonNull<u8>> {
        if !huge {
            return mmap(bytes);
        }
        let whole = bytes.checked_add(HUGE_PAGE_BYTES - PAGE_BYTES)?;
        let start = mmap(whole)?;
        let before = start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let after = whole - before - bytes;
        // SAFETY: `before` is less than what was mapped in excess of `bytes`.
        let base = unsafe { start.add(before) };
        if before > 0 {
            unmap_buffer(start, before);
        }
        if after > 0 {
            // SAFETY: `before + bytes + after` is what was mapped.
            unmap_buffer(unsafe { base.add(bytes) }, after);
        }
        // A refusal (no huge pages in this kernel) costs speed only.
        #[cfg(target_os = "linux")]
        // SAFETY: our own mapping.
        unsafe {
            libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE)
        };
        Some(base)
    }
    /// The kernel's own call where there is one, else one write per page. The caller owns the buffer and nothing in it is in use.
    pub fn populate_buffer(base: NonNull<u8>, bytes: usize) -> bool {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: our own mapping.
            if unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) } == 0 {
                return true;
            }
            // EINVAL: a kernel before 5.14. Anything else (no memory): leave it to first touch, or not at all.
            if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
                return false;
            }
        }
        for offset in (0..bytes).step_by(PAGE_BYTES) {
            // SAFETY: inside the buffer, which the caller owns.
            let page = unsafe { base.add(offset) };
            // SAFETY: as above. Volatile, or the store of what a fresh mapping holds anyway might be left out.
            unsafe { page.as_ptr().write_volatile(0) };
        }
        true
    }
}

use buffer::{map_buffer, populate_buffer, unmap_buffer};
