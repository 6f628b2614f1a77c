//! One file of the in-memory file system: its page cache, the image that was synced, and the space both take.
//!
//! A page is dirty when its bytes differ from the synced image: that finds stores through mappings, too. What plain writes changed is marked, so that a file that
//! was never mapped is not compared as a whole at every sync.
#![forbid(unsafe_code)]

use super::super::Mapping;
use super::Unsynced;
use super::buffer::{Buffer, PAGE};
use crate::sync::{Arc, Mutex};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

type PageBytes = [u8; PAGE];
const ZEROS: PageBytes = [0; PAGE];
/// No test needs more; a length from damaged bytes must not take the machine's memory.
const FILE_BYTES_MAX: u64 = 1 << 32;

/// Space of the file system.
#[derive(Default)]
pub(super) struct Disk {
    space: Mutex<Space>,
}

#[derive(Clone, Default)]
struct Space {
    capacity: Option<u64>,
    used: u64,
}

impl Disk {
    pub(super) fn empty_copy(&self) -> Self {
        Self { space: Mutex::new(Space { capacity: self.space.lock().capacity, used: 0 }) }
    }
    pub(super) fn set_capacity(&self, bytes: Option<u64>) {
        self.space.lock().capacity = bytes;
    }
    pub(super) fn used(&self) -> u64 {
        self.space.lock().used
    }
    fn take_page(&self) -> io::Result<()> {
        let mut s = self.space.lock();
        if s.capacity.is_some_and(|c| s.used + PAGE as u64 > c) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        s.used += PAGE as u64;
        Ok(())
    }
    /// Pages that are there already when a file system is copied; never refused.
    fn count(&self, pages: usize) {
        self.space.lock().used += (pages * PAGE) as u64;
    }
    fn give_back(&self, pages: usize) {
        self.space.lock().used -= (pages * PAGE) as u64;
    }
}

pub(super) struct Inode {
    state: Mutex<State>,
    disk: Arc<Disk>,
}

struct State {
    buffer: Arc<Buffer>,
    len: u64,
    /// One per page of the buffer.
    pages: Vec<PageState>,
    /// Mapped now or since the last sync: any page may have changed.
    mapped: bool,
    synced_len: u64,
    /// Pages that are not all zeros.
    synced: BTreeMap<usize, Box<PageBytes>>,
    /// Pages whose sync failed, with their bytes: clean for the kernel, but not on the disk.
    lost: BTreeMap<usize, Box<PageBytes>>,
}

#[derive(Clone, Copy, Default)]
struct PageState {
    /// Takes space.
    allocated: bool,
    /// Written since the last sync.
    written: bool,
}

impl Inode {
    pub(super) fn new(disk: &Arc<Disk>) -> Self {
        let buffer = Arc::new(Buffer::new(PAGE));
        let state = State {
            buffer,
            len: 0,
            pages: vec![PageState::default()],
            mapped: false,
            synced_len: 0,
            synced: BTreeMap::new(),
            lost: BTreeMap::new(),
        };
        Self { state: Mutex::new(state), disk: Arc::clone(disk) }
    }
    pub(super) fn len(&self) -> u64 {
        self.state.lock().len
    }
    pub(super) fn read_at(&self, buf: &mut [u8], offset: u64) -> usize {
        let s = self.state.lock();
        let n = s.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        if n > 0 {
            s.buffer.read(offset as usize, &mut buf[..n]);
        }
        n
    }
    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let s = &mut *self.state.lock();
        let end = offset.checked_add(bytes.len() as u64).ok_or_else(too_big)?;
        s.grow(end.max(s.len))?;
        let mut at = offset as usize;
        let mut rest = bytes;
        // Page by page: a disk that gets full has taken what came before.
        while !rest.is_empty() {
            let n = rest.len().min(PAGE - at % PAGE);
            self.allocate(s, at / PAGE)?;
            s.buffer.write(at, &rest[..n]);
            s.mark_written(at / PAGE);
            at += n;
            rest = &rest[n..];
            s.len = s.len.max(at as u64);
        }
        Ok(())
    }
    pub(super) fn set_len(&self, len: u64) -> io::Result<()> {
        let s = &mut *self.state.lock();
        s.grow(len)?;
        // A mapping may have stored beyond the end, so the zeros are written whichever way the length goes.
        let (start, end) = (s.len.min(len) as usize, s.buffer.capacity());
        for page in start / PAGE..end / PAGE {
            let from = start.max(page * PAGE);
            let n = (page + 1) * PAGE - from;
            s.buffer.write(from, &ZEROS[..n]);
            s.mark_written(page);
            if page * PAGE >= len as usize && std::mem::take(&mut s.pages[page].allocated) {
                self.disk.give_back(1);
            }
        }
        s.len = len;
        Ok(())
    }
    pub(super) fn preallocate(&self, len: u64) -> io::Result<()> {
        let s = &mut *self.state.lock();
        s.grow(len)?;
        for page in 0..(len as usize).div_ceil(PAGE) {
            self.allocate(s, page)?;
        }
        s.len = s.len.max(len);
        Ok(())
    }
    fn allocate(&self, s: &mut State, page: usize) -> io::Result<()> {
        if !s.pages[page].allocated {
            self.disk.take_page()?;
            s.pages[page].allocated = true;
        }
        Ok(())
    }
    pub(super) fn give_space_back(&self) {
        let s = &mut *self.state.lock();
        let n = s.pages.iter_mut().filter_map(|p| std::mem::take(&mut p.allocated).then_some(())).count();
        self.disk.give_back(n);
    }

    pub(super) fn sync(&self) {
        let s = &mut *self.state.lock();
        for (page, bytes) in s.dirty() {
            s.lost.remove(&page);
            if *bytes == ZEROS {
                s.synced.remove(&page);
            } else {
                s.synced.insert(page, bytes);
            }
        }
        s.clean();
        s.synced_len = s.len;
        let pages = (s.len as usize).div_ceil(PAGE);
        s.synced.retain(|&page, _| page < pages);
        s.lost.retain(|&page, _| page < pages);
    }
    /// What a failed sync does: the pages are clean and not on the disk.
    pub(super) fn lose_dirty_pages(&self) {
        let mut s = self.state.lock();
        let dirty = s.dirty();
        s.lost.extend(dirty);
        s.clean();
    }

    /// As the next process finds it.
    pub(super) fn copy(&self, disk: &Arc<Disk>) -> Self {
        let s = self.state.lock();
        let buffer = Buffer::new(s.buffer.capacity());
        let mut bytes = ZEROS;
        // From the end to the beginning: who appends through a mapping meanwhile must not leave a hole that no kill leaves.
        for page in (0..buffer.capacity() / PAGE).rev() {
            s.buffer.read(page * PAGE, &mut bytes);
            if bytes != ZEROS {
                buffer.write(page * PAGE, &bytes);
            }
        }
        disk.count(s.pages.iter().filter(|p| p.allocated).count());
        let state = State {
            buffer: Arc::new(buffer),
            len: s.len,
            pages: s.pages.clone(),
            mapped: s.is_mapped() || s.mapped,
            synced_len: s.synced_len,
            synced: s.synced.clone(),
            lost: s.lost.clone(),
        };
        Self { state: Mutex::new(state), disk: Arc::clone(disk) }
    }
    /// As the next boot finds it.
    pub(super) fn after_power_cut(&self, path: &str, keep: &mut dyn FnMut(&Unsynced) -> bool, disk: &Arc<Disk>) -> Self {
        let s = self.state.lock();
        let mut len = s.synced_len;
        if s.len != len && keep(&Unsynced::Length { path: path.into(), from: len, to: s.len }) {
            len = s.len;
        }
        let pages = (len as usize).div_ceil(PAGE);
        let mut image = s.synced.clone();
        for (page, bytes) in s.dirty() {
            if page < pages && keep(&Unsynced::Page { path: path.into(), page: page as u64 }) {
                image.insert(page, bytes);
            }
        }
        let buffer = Buffer::new(len as usize);
        // Bytes behind the end are no part of the file, though they lie in its last page.
        if let Some(last) = (!len.is_multiple_of(PAGE as u64)).then(|| image.get_mut(&(pages - 1))).flatten() {
            last[len as usize % PAGE..].fill(0);
        }
        image.retain(|&page, bytes| page < pages && **bytes != ZEROS);
        for (&page, bytes) in &image {
            buffer.write(page * PAGE, &**bytes);
        }
        // Space that was taken ahead is kept where the length is: nobody who recovers counts on less.
        let kept = |(page, p): (usize, &PageState)| PageState {
            allocated: page < pages && (p.allocated || image.contains_key(&page)),
            written: false,
        };
        let mut states: Vec<PageState> = s.pages.iter().enumerate().map(kept).collect();
        states.resize(buffer.capacity() / PAGE, PageState::default());
        disk.count(states.iter().filter(|p| p.allocated).count());
        let state =
            State { buffer: Arc::new(buffer), len, pages: states, mapped: false, synced_len: len, synced: image, lost: BTreeMap::new() };
        Self { state: Mutex::new(state), disk: Arc::clone(disk) }
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        self.give_space_back();
    }
}

impl State {
    /// Mappings hold the buffer, too.
    fn is_mapped(&self) -> bool {
        Arc::strong_count(&self.buffer) > 1
    }
    /// Room for `len` bytes; the length stays as it is.
    fn grow(&mut self, len: u64) -> io::Result<()> {
        if len > FILE_BYTES_MAX {
            return Err(too_big());
        }
        let len = len as usize;
        if len <= self.buffer.capacity() {
            return Ok(());
        }
        if self.is_mapped() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a mapped file of the in-memory file system cannot grow"));
        }
        let new = Buffer::new(len.max(self.buffer.capacity() * 2));
        let mut bytes = ZEROS;
        for page in 0..self.buffer.capacity() / PAGE {
            self.buffer.read(page * PAGE, &mut bytes);
            new.write(page * PAGE, &bytes);
        }
        self.pages.resize(new.capacity() / PAGE, PageState::default());
        self.buffer = Arc::new(new);
        Ok(())
    }
    fn mark_written(&mut self, page: usize) {
        self.pages[page].written = true;
        // Dirty again for the kernel, even with the same bytes.
        self.lost.remove(&page);
    }
    fn clean(&mut self) {
        self.pages.iter_mut().for_each(|p| p.written = false);
        self.mapped = self.is_mapped();
    }
    /// Pages within the length whose bytes differ from the synced image, but for those that a failed sync left clean.
    fn dirty(&self) -> Vec<(usize, Box<PageBytes>)> {
        let mut dirty = Vec::new();
        let all = self.mapped || self.is_mapped();
        let mut bytes = ZEROS;
        for page in 0..(self.len as usize).div_ceil(PAGE) {
            if !all && !self.pages[page].written {
                continue;
            }
            self.buffer.read(page * PAGE, &mut bytes);
            let on_disk = self.synced.get(&page).map_or(&ZEROS, |b| &**b);
            let lost = self.lost.get(&page).is_some_and(|b| **b == bytes);
            if bytes != *on_disk && !lost {
                dirty.push((page, Box::new(bytes)));
            }
        }
        dirty
    }
}

fn too_big() -> io::Error {
    io::Error::from_raw_os_error(libc::EFBIG)
}

pub(super) struct MemMapping {
    inode: Arc<Inode>,
    buffer: Arc<Buffer>,
    len: usize,
}

impl MemMapping {
    pub(super) fn new(inode: &Arc<Inode>, len: usize) -> io::Result<Self> {
        let mut s = inode.state.lock();
        if len == 0 || len as u64 > s.len {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is shorter than the mapping asked for"));
        }
        s.mapped = true;
        Ok(Self { inode: Arc::clone(inode), buffer: Arc::clone(&s.buffer), len })
    }
}

impl Mapping for MemMapping {
    fn base(&self) -> NonNull<u8> {
        self.buffer.base()
    }
    fn len(&self) -> usize {
        self.len
    }
    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        if range.start > range.end || range.end > self.len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let s = &mut *self.inode.state.lock();
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            self.inode.allocate(s, page)?;
        }
        Ok(())
    }
    fn release(&self) -> io::Result<()> {
        Ok(())
    }
}
