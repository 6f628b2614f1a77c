//! The pwrite form of a segment, for file systems on which a mapping is not safe: one pwrite per record under the append lock, same bytes as the mapped form.
//!
//! Concurrent pwrites would gain nothing (the kernel's inode lock serialises them) and would leave holes. The environment continues short writes and EINTR.
//! A failed write is erased by the caller; only if that fails too is the log lost.
#![forbid(unsafe_code)]

use super::segment::SegmentForm;
use crate::env::EnvFile;
use std::io;
use std::ops::Range;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// A segment's file.
pub(crate) struct PwriteSegment {
    file: Box<dyn EnvFile>,
}

impl PwriteSegment {
    /// Over a file that is all zeros behind its header.
    pub(super) fn new(file: Box<dyn EnvFile>) -> Self {
        Self { file }
    }
}

/// Writes zeros over a range.
pub(super) fn write_zeros(file: &dyn EnvFile, range: Range<u64>) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let n = (range.end - at).min(ZEROS.len() as u64);
        file.write_all_at(ZEROS.get(..n as usize).unwrap_or_default(), at)?;
        at += n;
    }
    Ok(())
}

impl SegmentForm for PwriteSegment {
    fn write(&self, offset: u32, record: &[u8], _ctx: u64) -> io::Result<()> {
        self.file.write_all_at(record, offset as u64)
    }

    #[cold]
    fn erase(&self, offset: u32, length: u32) -> io::Result<()> {
        write_zeros(&*self.file, offset as u64..offset as u64 + length as u64)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn populate(&self, _range: Range<u32>) -> io::Result<()> {
        Ok(())
    }
}
