//! Shared mappings of files, and disk space taken ahead.
//!
//! A store into a mapped page for which the file system finds no space raises SIGBUS. So pages are populated before anyone stores into them, by a call that
//! reports errors. A forked child does not get the mapping (MADV_DONTFORK): it could not tell a log record that the parent is writing from its own.

use super::super::Mapping;
use crate::sync::Arc;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

pub(super) struct OsMapping {
    base: NonNull<u8>,
    len: usize,
    file: Arc<File>,
    /// The process that has the mapping; a forked child may have something else at this address.
    pid: u32,
}

// SAFETY: the mapping is plain memory that no thread owns; who stores into it orders its accesses itself.
unsafe impl Send for OsMapping {}
// SAFETY: as above; `&self` gives out nothing but the address.
unsafe impl Sync for OsMapping {}

impl OsMapping {
    pub(super) fn new(file: Arc<File>, len: usize) -> io::Result<Self> {
        // Pages beyond the end of the file exist in no file system: SIGBUS.
        if len == 0 || file.metadata()?.len() < len as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is shorter than the mapping asked for"));
        }
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; it touches no memory that Rust knows of.
        let p = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(p.cast::<u8>()).ok_or_else(|| io::Error::other("mmap gave address 0"))?;
        // From here on dropping `mapping` unmaps.
        let mapping = Self { base, len, file, pid: std::process::id() };
        #[cfg(target_os = "linux")]
        mapping.advise(0, len, libc::MADV_DONTFORK)?;
        Ok(mapping)
    }

    /// `madvise` on whole pages of the mapping.
    #[cfg(target_os = "linux")]
    fn advise(&self, start: usize, len: usize, advice: libc::c_int) -> io::Result<()> {
        let at = self.base.as_ptr().wrapping_add(start).cast();
        // SAFETY: the range lies in our mapping (rounded up to whole pages, as the mapping itself is), and no advice used here changes its bytes:
        // pages of a shared file mapping that are let go stay dirty in the page cache.
        let rc = unsafe { libc::madvise(at, len, advice) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    #[cfg(target_os = "linux")]
    fn populate_pages(&self, start: usize, len: usize) -> io::Result<()> {
        loop {
            match self.advise(start, len, libc::MADV_POPULATE_WRITE) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Before Linux 5.14.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => return Err(io::ErrorKind::Unsupported.into()),
                other => return other,
            }
        }
    }
}

impl Mapping for OsMapping {
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    fn len(&self) -> usize {
        self.len
    }
    #[cfg(target_os = "linux")]
    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        if range.start > range.end || range.end > self.len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let page = page_size();
        let start = range.start / page * page;
        let len = range.end.next_multiple_of(page) - start;
        if range.is_empty() {
            return Ok(());
        }
        match self.populate_pages(start, len) {
            // The fault handler said SIGBUS: no space, or a device that fails, and the kernel does not say which. Asking for the space does say it.
            Err(e) if e.raw_os_error() == Some(libc::EFAULT) => {
                allocate(&self.file, start as u64, range.end as u64)?;
                match self.populate_pages(start, len) {
                    Err(e) if e.raw_os_error() == Some(libc::EFAULT) => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
                    other => other,
                }
            }
            other => other,
        }
    }
    #[cfg(target_os = "linux")]
    fn release(&self) -> io::Result<()> {
        self.advise(0, self.len, libc::MADV_DONTNEED)
    }
    #[cfg(not(target_os = "linux"))]
    fn release(&self) -> io::Result<()> {
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    fn populate(&self, _range: Range<usize>) -> io::Result<()> {
        // Nothing elsewhere populates with an error instead of a signal, so the log does not use mappings there.
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Drop for OsMapping {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            return;
        }
        // SAFETY: `base` and `len` are what mmap gave; the contract of `Mapping::base` ends with this drop.
        let rc = unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert_eq!(rc, 0, "munmap");
    }
}

/// Takes disk space for the bytes `start..end`, lengthening the file to `end` if it is shorter.
pub(super) fn allocate(file: &File, start: u64, end: u64) -> io::Result<()> {
    let (Ok(at), Ok(len)) = (libc::off_t::try_from(start), libc::off_t::try_from(end.saturating_sub(start))) else {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    };
    if len == 0 {
        return Ok(());
    }
    allocate_at(file, at, len)
}

#[cfg(not(target_os = "macos"))]
fn allocate_at(file: &File, at: libc::off_t, len: libc::off_t) -> io::Result<()> {
    loop {
        // SAFETY: a call on an open descriptor with two numbers.
        let errno = unsafe { libc::posix_fallocate(file.as_raw_fd(), at, len) };
        match errno {
            0 => return Ok(()),
            libc::EINTR => {}
            // It returns the number instead of setting errno.
            e => return Err(io::Error::from_raw_os_error(e)),
        }
    }
}

#[cfg(target_os = "macos")]
fn allocate_at(file: &File, at: libc::off_t, len: libc::off_t) -> io::Result<()> {
    // F_PREALLOCATE takes space but leaves the length alone, and counts from the end of what is allocated.
    let have = file.metadata()?.len() as libc::off_t;
    let end = at + len;
    if end <= have {
        return Ok(());
    }
    let mut store = libc::fstore_t {
        fst_flags: libc::F_ALLOCATEALL,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: end - have,
        fst_bytesalloc: 0,
    };
    // SAFETY: the call reads and writes the one struct, which outlives it.
    let rc = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &mut store) };
    if rc == -1 {
        return Err(io::Error::last_os_error());
    }
    file.set_len(end as u64)
}

/// Bytes per page of memory.
#[cfg(target_os = "linux")]
pub(super) fn page_size() -> usize {
    // SAFETY: no arguments but a constant.
    let n = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(n).ok().filter(|n| n.is_power_of_two()).unwrap_or(4096)
}
