//! Reads one segment: record after record, or resynchronising after damage. It says what stands where; what that means is decided in `recover.rs`.
//!
//! Reads are big and sequential into one reused buffer; records are looked at in place, so that nothing is allocated or copied per record. A buffer grows beyond a
//! megabyte only for a record whose header word proves that it was written at this very place, and never beyond the file's own length.
//! A read error is an error of the open, never an end of the log. A file is open only while it is read: a log may have more segments than a process may have files.
//! A file of a few pages (a life that wrote little) is read whole when its header is looked at, and not opened again: ten thousand short lives are then half the
//! work to open.
#![forbid(unsafe_code)]

use super::format::{self, Found, HeaderWord, RawRecord, SEGMENT_HEADER_BYTES, SaltCrc, SegmentHeader};
use crate::env::{Env, EnvFile};
use crate::error::{Error, ErrorKind, Result};
use std::io;
use std::path::{Path, PathBuf};

const READ_BYTES: usize = 1 << 20;
/// A PAD's fields and trailer, or the whole of a short record.
const LOOK_BYTES: usize = format::RECORD_BYTES_MIN;
/// A file of at most so many bytes is read whole with its header.
const SMALL_BYTES: u32 = 16 << 10;

/// The caller's callback and how far it was told. Shared by all segments of a recovery.
pub(super) struct Progress<'a> {
    pub(super) call: &'a mut dyn FnMut(u64, u64) -> bool,
    pub(super) total: u64,
    /// Bytes of the segments before the one that is read now.
    pub(super) before: u64,
    /// What was said last. A position may be read twice; what is said never goes back.
    pub(super) told: u64,
}

impl Progress<'_> {
    fn tell(&mut self, offset: u64) -> Result<()> {
        self.told = (self.before + offset).min(self.total).max(self.told);
        self.say()
    }

    /// Everything was read.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.told = self.total;
        if self.total == 0 { Ok(()) } else { self.say() }
    }

    fn say(&mut self) -> Result<()> {
        if (self.call)(self.told, self.total) {
            return Err(Error::new(ErrorKind::Cancelled, "the progress callback asked to stop the recovery of the log"));
        }
        Ok(())
    }
}

/// The reused window over a file.
#[derive(Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// Where in the file `bytes` starts.
    start: u64,
    /// Which file it is of.
    of: u32,
}

/// One segment file, its header read and found good.
pub(super) struct SegmentFile {
    pub(super) path: PathBuf,
    pub(super) header: SegmentHeader,
    /// Length of the file, cut to what offsets can name.
    pub(super) len: u32,
    salt: SaltCrc,
    /// Of a small file: what stands behind the header, without the zeros at its end.
    content: Option<Box<[u8]>>,
}

/// The same while it is read.
pub(super) struct OpenSegment<'s> {
    of: &'s SegmentFile,
    /// None: it was read whole already.
    file: Option<Box<dyn EnvFile>>,
}

/// What stands at a position.
pub(super) enum Step<'a> {
    /// A valid record and its length.
    Record(RawRecord<'a>, u32),
    /// No record can be read here.
    Stop(Stop),
}

/// Why a walk stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Zeros, or the end of the file.
    Nothing,
    /// A record whose trailer was never stored.
    Unfinished,
    /// Damage.
    Bad(&'static str),
}

/// What a resynchronising scan found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beyond {
    /// Records that are whole.
    pub(super) valid: u64,
    /// Largest `durable_below` among them.
    pub(super) mark: u64,
    /// End of the last word that is not zero; 0 if all are.
    pub(super) nonzero_end: u32,
}

pub(super) fn corrupt(path: &Path, offset: u32, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("log segment {}, offset {offset}: {what}", path.display()))
}

fn read_error(path: &Path, offset: u64, e: &io::Error) -> Error {
    // Never NoSpace or the like: whatever it says, the log could not be read.
    Error::new(ErrorKind::Io, format!("read log segment {}, offset {offset}: {e}", path.display()))
}

fn open_file(env: &dyn Env, path: &Path, writable: bool) -> Result<Box<dyn EnvFile>> {
    env.open(path, writable).map_err(|e| Error::new(ErrorKind::Io, format!("open log segment {}: {e}", path.display())))
}

/// Reads a segment's header. The outer error is of the system, the inner says what is wrong with the header.
pub(super) fn look(env: &dyn Env, path: PathBuf) -> Result<std::result::Result<SegmentFile, Error>> {
    let file = open_file(env, &path, false)?;
    let len = file.len().map_err(|e| read_error(&path, 0, &e))?;
    let len = u32::try_from(len).unwrap_or(u32::MAX) & !7;
    let small = len <= SMALL_BYTES;
    let mut bytes = vec![0; SEGMENT_HEADER_BYTES.max(if small { len } else { 0 }) as usize];
    let n = read_full(&*file, &mut bytes, 0).map_err(|(at, e)| read_error(&path, at, &e))?;
    bytes.truncate(n);
    let content = small.then(|| {
        let behind = bytes.get(SEGMENT_HEADER_BYTES as usize..).unwrap_or_default();
        let end = behind.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
        behind.get(..end).unwrap_or_default().into()
    });
    bytes.truncate(SEGMENT_HEADER_BYTES as usize);
    Ok(match SegmentHeader::decode(&bytes) {
        Ok(header) => Ok(SegmentFile { salt: SaltCrc::new(header.salt), path, header, len, content }),
        Err(what) => Err(corrupt(&path, 0, what)),
    })
}

/// Reads until `to` is full or the file ends; short reads and EINTR are continued.
fn read_full(file: &dyn EnvFile, to: &mut [u8], offset: u64) -> std::result::Result<usize, (u64, io::Error)> {
    let mut done = 0;
    while let Some(rest) = to.get_mut(done..).filter(|r| !r.is_empty()) {
        match file.read_at(rest, offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err((offset + done as u64, e)),
        }
    }
    Ok(done)
}

impl SegmentFile {
    /// To be read.
    pub(super) fn open(&self, env: &dyn Env) -> Result<OpenSegment<'_>> {
        let file = if self.content.is_some() { None } else { Some(open_file(env, &self.path, false)?) };
        Ok(OpenSegment { of: self, file })
    }
    /// To be synced, and written if `writable`.
    pub(super) fn open_file(&self, env: &dyn Env, writable: bool) -> Result<Box<dyn EnvFile>> {
        open_file(env, &self.path, writable)
    }
    /// Fills `to` with what a small file holds from `offset` on; `to` ends where the file does.
    fn copy_content(content: &[u8], to: &mut [u8], offset: u32) {
        let from = offset.saturating_sub(SEGMENT_HEADER_BYTES) as usize;
        let there = content.get(from..).unwrap_or_default();
        let n = there.len().min(to.len());
        if let (Some(to), Some(there)) = (to.get_mut(..n), there.get(..n)) {
            to.copy_from_slice(there);
        }
    }
}

impl OpenSegment<'_> {
    /// Bytes from `offset` on: at least `want` of them, unless the file ends before.
    fn view<'b>(&self, buffer: &'b mut Buffer, offset: u32, want: usize, progress: &mut Progress<'_>) -> Result<&'b [u8]> {
        let here = (offset as u64).checked_sub(buffer.start).map(|at| at as usize).filter(|_| buffer.of == self.of.header.number);
        let have = here.and_then(|at| buffer.bytes.len().checked_sub(at)).unwrap_or(0);
        let left = (self.of.len - offset.min(self.of.len)) as usize;
        if have >= want.min(left) && here.is_some() {
            return Ok(buffer.bytes.get(here.unwrap_or(0)..).unwrap_or_default());
        }
        progress.tell(offset as u64)?;
        buffer.bytes.resize(want.max(READ_BYTES).min(left), 0);
        buffer.start = offset as u64;
        buffer.of = self.of.header.number;
        match (&self.file, &self.of.content) {
            (Some(file), _) => {
                let n = read_full(&**file, &mut buffer.bytes, offset as u64).map_err(|(at, e)| read_error(&self.of.path, at, &e))?;
                buffer.bytes.truncate(n);
            }
            (None, content) => {
                buffer.bytes.fill(0);
                SegmentFile::copy_content(content.as_deref().unwrap_or_default(), &mut buffer.bytes, offset);
            }
        }
        Ok(&buffer.bytes)
    }

    /// What stands at `offset`, `last` being the last number before it.
    #[inline]
    pub(super) fn step<'b>(&self, buffer: &'b mut Buffer, offset: u32, last: Option<u64>, progress: &mut Progress<'_>) -> Result<Step<'b>> {
        let left = self.of.len.saturating_sub(offset);
        let word = format::u64_at(self.view(buffer, offset, LOOK_BYTES, progress)?, 0).unwrap_or(0);
        let length = match format::header_word(self.of.salt, offset, left, word) {
            HeaderWord::Nothing => return Ok(Step::Stop(Stop::Nothing)),
            HeaderWord::Bad => return Ok(Step::Stop(Stop::Bad("no record starts here: its header word is wrong"))),
            HeaderWord::Length(length) => length,
        };
        let want = format::bytes_to_examine(length, self.view(buffer, offset, LOOK_BYTES, progress)?);
        Ok(match format::examine(self.of.salt, offset, length, self.view(buffer, offset, want, progress)?, last) {
            Found::Valid(record) => Step::Record(record, length),
            Found::Unfinished => Step::Stop(Stop::Unfinished),
            Found::Bad(what) => Step::Stop(Stop::Bad(what)),
        })
    }

    /// The first row of the commit record at `offset`, and the record's length, as far as the buffer holds it. Nothing is checked: the bytes may be anything.
    #[inline]
    pub(super) fn coming<'b>(&self, buffer: &'b Buffer, offset: u32) -> Option<(&'b [u8], u32)> {
        let at = (offset as u64).checked_sub(buffer.start).filter(|_| buffer.of == self.of.header.number)?;
        let record = buffer.bytes.get(usize::try_from(at).ok()?..)?;
        let length = format::u64_at(record, 0)? as u32;
        if length < format::RECORD_BYTES_MIN as u32 || *record.get(28)? != format::RecordKind::Commit as u8 {
            return None;
        }
        Some((super::record::first_row(record.get(format::RECORD_HEADER_BYTES..)?)?, length))
    }

    /// True if the word there is zero, or beyond the end.
    pub(super) fn is_zero_at(&self, buffer: &mut Buffer, offset: u32, progress: &mut Progress<'_>) -> Result<bool> {
        Ok(format::u64_at(self.view(buffer, offset, 8, progress)?, 0).unwrap_or(0) == 0)
    }

    /// Looks at every 8-byte word from `from` on for records that are whole.
    pub(super) fn resync(&self, buffer: &mut Buffer, from: u32, progress: &mut Progress<'_>) -> Result<Beyond> {
        let mut found = Beyond::default();
        let mut offset = from;
        while offset < self.of.len {
            let view = self.view(buffer, offset, 8, progress)?;
            let (words, _) = view.as_chunks::<8>();
            if words.is_empty() {
                break;
            }
            let zeros = words.iter().take_while(|w| **w == [0; 8]).count();
            let Some(word) = words.get(zeros) else {
                offset = offset.saturating_add(8 * words.len() as u32);
                continue;
            };
            let word = u64::from_le_bytes(*word);
            offset += 8 * zeros as u32;
            found.nonzero_end = offset + 8;
            offset += 8;
            // Most words are not header words: only one that fits this place is worth reading on.
            let at = offset - 8;
            if matches!(format::header_word(self.of.salt, at, self.of.len - at, word), HeaderWord::Length(_))
                && let Step::Record(record, length) = self.step(buffer, at, None, progress)?
            {
                found.valid += 1;
                found.mark = found.mark.max(record.durable_below);
                found.nonzero_end = at + if record.kind == format::RecordKind::Pad { length.min(LOOK_BYTES as u32) } else { length };
                offset = at.saturating_add(length);
            }
        }
        Ok(found)
    }
}
