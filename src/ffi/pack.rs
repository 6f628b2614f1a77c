//! The packed formats: many operations, keys or cells in one buffer. The widest door into the library: every length is checked against
//! the buffer.
//!
//! Little-endian, no buffer header; a record begins at a multiple of 8 from the buffer's start and is padded with zeros to a multiple of
//! 8. The buffer itself may lie anywhere. `n` records must fill it exactly.
//!
//! | op record | | increment record | | key record | | cell record | |
//! |---|---|---|---|---|---|---|---|
//! | 0 u8 | op | 0 u32 | family | 0 u32 | family | 0 u8 | type |
//! | 1 u8 | header length, 40 today | 4 u16 | row_len | 4 u16 | row_len | 1 u8 | flags |
//! | 2 u16 | row_len | 6 u16 | qual_len | 6 u16 | qual_len | 2 u16 | row_len |
//! | 4 u32 | family | 8 i64 | delta | 8 | row, qualifier | 4 u32 | family |
//! | 8 u32 | flags | 16 | row, qualifier | | | 8 u32 | qual_len |
//! | 12 u32 | qual_len | | | | | 12 u32 | value_len |
//! | 16 u32 | value_len | | | | | 16 u64 | timestamp |
//! | 20 u32 | ttl_ms | | | | | 24 u64 | seq |
//! | 24 i64 | delta | | | | | 32 | row, qualifier, value |
//! | 32 u64 | timestamp | | | | | | |
//! | 40 | row, qualifier, value | | | | | | |
//!
//! A header longer than 40 must hold zeros behind what is known. Flag SAME_ROW (row_len 0): the row of the record before.
//!
//! Parsing is two steps: `parse` walks the buffer once, checks every record and notes where each begins; then records are read by index,
//! each length checked again, so that a buffer that is changed meanwhile gives wrong answers but never a read outside it. The notes live
//! in a vector that the thread keeps; nothing else is allocated.

use super::op::{NOTHING, SAME_ROW, mutation, takes_its_fields};
use crate::error::{Error, ErrorKind, Result, counted};
use crate::region::{Increment, Increments, Key, Keys, Mutation, Mutations};
use std::cell::Cell;

/// Header of an op record.
pub(super) const OP_HEADER: usize = 40;
/// Header of an increment record.
pub(super) const INCREMENT_HEADER: usize = 16;
const KEY_HEADER: usize = 8;
/// Header of a cell record.
pub(super) const CELL_HEADER: usize = 32;

/// Notes kept for the thread's next call hold at most this many numbers (1 MiB).
const NOTES_KEPT: usize = 1 << 18;

thread_local! {
    static NOTES: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

/// Runs `f` with the thread's vector, empty. A call inside a call (from a log callback) finds a new one.
pub(super) fn with_notes<R>(f: impl FnOnce(&mut Vec<u32>) -> R) -> R {
    let mut notes = NOTES.try_with(Cell::take).unwrap_or_default();
    notes.clear();
    let result = f(&mut notes);
    if notes.capacity() <= NOTES_KEPT {
        let _ = NOTES.try_with(|kept| kept.set(notes));
    }
    result
}

#[inline]
fn u8_at(b: &[u8], at: usize) -> Option<u8> {
    b.get(at).copied()
}
#[inline]
fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*b.get(at..)?.first_chunk()?))
}
#[inline]
fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*b.get(at..)?.first_chunk()?))
}
#[inline]
fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*b.get(at..)?.first_chunk()?))
}

/// `n` pieces of these lengths, one after another from `at`; None if the buffer is too short.
#[inline]
fn pieces<const N: usize>(b: &[u8], mut at: usize, lens: [usize; N]) -> Option<[&[u8]; N]> {
    let empty: &[u8] = &[];
    let mut out = [empty; N];
    for (piece, len) in out.iter_mut().zip(lens) {
        let end = at.checked_add(len)?;
        *piece = b.get(at..end)?;
        at = end;
    }
    Some(out)
}

#[cold]
fn bad(what: &str, i: usize, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Invalid, format!("{what}: record {i}: {why}")).at_op(i as u64)
}

/// What a walk found out about a record: its length before padding.
type Length = Result<usize>;

/// Walks `n` records; `one` checks the record that begins at the offset and answers its length; `note` is told where it begins.
fn walk(b: &[u8], n: usize, least: usize, what: &str, mut one: impl FnMut(usize, usize) -> Length) -> Result<()> {
    if n > b.len() / least {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("{what}: {} bytes cannot hold {}", b.len(), counted(n as u64, "record", "records")),
        ));
    }
    if u32::try_from(b.len()).is_err() {
        return Err(Error::new(ErrorKind::TooLarge, format!("{what}: a packed buffer has at most 4 GiB, not {} bytes", b.len())));
    }
    let mut at = 0;
    for i in 0..n {
        let length = one(i, at)?;
        let end = at.checked_add(length).and_then(|e| e.checked_next_multiple_of(8)).unwrap_or(usize::MAX);
        let Some(padding) = b.get(at + length..end) else {
            return Err(bad(what, i, "the buffer ends within it, or within its padding"));
        };
        if padding.iter().any(|p| *p != 0) {
            return Err(bad(what, i, "its padding is not zero"));
        }
        at = end;
    }
    if at != b.len() {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("{what}: {} left behind the last record", counted((b.len() - at) as u64, "byte is", "bytes are")),
        ));
    }
    Ok(())
}

/// Makes room for `n` notes, if the system has it.
fn reserve(notes: &mut Vec<u32>, n: usize) -> Result<()> {
    notes.try_reserve(n).map_err(|_| Error::new(ErrorKind::NoMem, format!("no memory for {n} offsets")))
}

/// Increment records.
pub(super) struct PackedIncrements<'a> {
    bytes: &'a [u8],
    starts: &'a [u32],
}

impl<'a> PackedIncrements<'a> {
    pub(super) fn parse(bytes: &'a [u8], n: usize, notes: &'a mut Vec<u32>) -> Result<Self> {
        walk(bytes, n, INCREMENT_HEADER, "incs", |i, at| {
            if i == 0 {
                reserve(notes, n)?;
            }
            let Some(record) = increment_at(bytes, at) else { return Err(bad("incs", i, "the buffer ends within it")) };
            notes.push(at as u32);
            Ok(INCREMENT_HEADER + record.row.len() + record.qual.len())
        })?;
        Ok(Self { bytes, starts: notes })
    }
}

#[inline]
fn increment_at(b: &[u8], at: usize) -> Option<Increment<'_>> {
    let header: &[u8; INCREMENT_HEADER] = b.get(at..)?.first_chunk()?;
    let (row_len, qual_len) = (u16_at(header, 4)?, u16_at(header, 6)?);
    let [row, qual] = pieces(b, at + INCREMENT_HEADER, [row_len.into(), qual_len.into()])?;
    Some(Increment { family: u32_at(header, 0)?, row, qual, delta: u64_at(header, 8)?.cast_signed() })
}

impl Increments for PackedIncrements<'_> {
    fn len(&self) -> usize {
        self.starts.len()
    }
    #[inline]
    fn get(&self, i: usize) -> Increment<'_> {
        let record = self.starts.get(i).and_then(|at| increment_at(self.bytes, *at as usize));
        record.unwrap_or(Increment { family: 0, row: b"", qual: b"", delta: 0 })
    }
}

/// Key records.
pub(super) struct PackedKeys<'a> {
    bytes: &'a [u8],
    starts: &'a [u32],
}

impl<'a> PackedKeys<'a> {
    pub(super) fn parse(bytes: &'a [u8], n: usize, notes: &'a mut Vec<u32>) -> Result<Self> {
        walk(bytes, n, KEY_HEADER, "keys", |i, at| {
            if i == 0 {
                reserve(notes, n)?;
            }
            let Some(key) = key_at(bytes, at) else { return Err(bad("keys", i, "the buffer ends within it")) };
            notes.push(at as u32);
            Ok(KEY_HEADER + key.row.len() + key.qual.len())
        })?;
        Ok(Self { bytes, starts: notes })
    }
}

#[inline]
fn key_at(b: &[u8], at: usize) -> Option<Key<'_>> {
    let header: &[u8; KEY_HEADER] = b.get(at..)?.first_chunk()?;
    let (row_len, qual_len) = (u16_at(header, 4)?, u16_at(header, 6)?);
    let [row, qual] = pieces(b, at + KEY_HEADER, [row_len.into(), qual_len.into()])?;
    Some(Key { family: u32_at(header, 0)?, row, qual })
}

impl Keys for PackedKeys<'_> {
    fn len(&self) -> usize {
        self.starts.len()
    }
    #[inline]
    fn get(&self, i: usize) -> Key<'_> {
        let key = self.starts.get(i).and_then(|at| key_at(self.bytes, *at as usize));
        key.unwrap_or(Key { family: 0, row: b"", qual: b"" })
    }
}

/// Op records. Two notes for each: where it begins, and where the record begins that carries its row.
pub(super) struct PackedOps<'a> {
    bytes: &'a [u8],
    starts: &'a [u32],
}

impl<'a> PackedOps<'a> {
    pub(super) fn parse(bytes: &'a [u8], n: usize, notes: &'a mut Vec<u32>) -> Result<Self> {
        let mut row_at = None;
        walk(bytes, n, OP_HEADER, "ops", |i, at| {
            if i == 0 {
                reserve(notes, 2 * n)?;
            }
            let Some(header) = OpHeader::at(bytes, at) else { return Err(bad("ops", i, "the buffer ends within its header")) };
            let Some(more) = bytes.get(at + OP_HEADER..at + header.header_len).filter(|_| header.header_len.is_multiple_of(8)) else {
                return Err(bad("ops", i, format_args!("its header length is {}, not {OP_HEADER}", header.header_len)));
            };
            if more.iter().any(|b| *b != 0) {
                let e = super::options::unsupported("ops", format_args!("what is set in record {i} behind byte {OP_HEADER} of its header"));
                return Err(e.at_op(i as u64));
            }
            let Some([_, _, _]) = header.pieces(bytes, at) else { return Err(bad("ops", i, "the buffer ends within it")) };
            if header.flags & SAME_ROW == 0 {
                row_at = Some(at as u32);
            } else if header.row_len != 0 {
                return Err(bad("ops", i, "it has SAME_ROW and a row"));
            }
            let Some(row_at) = row_at else { return Err(bad("ops", 0, "SAME_ROW without a record before")) };
            notes.push(at as u32);
            notes.push(row_at);
            let Some(m) = op_at(bytes, at, row_at as usize) else { return Err(bad("ops", i, "its row is not in the buffer")) };
            m.and_then(|m| takes_its_fields(&m)).map_err(|e| e.context(format_args!("ops: record {i}")).at_op(i as u64))?;
            Ok(header.header_len + header.row_len + header.qual_len + header.value_len)
        })?;
        Ok(Self { bytes, starts: notes })
    }
}

struct OpHeader {
    op: u8,
    header_len: usize,
    row_len: usize,
    family: u32,
    flags: u32,
    qual_len: usize,
    value_len: usize,
    ttl_ms: u32,
    delta: i64,
    timestamp: u64,
}

impl OpHeader {
    #[inline]
    fn at(b: &[u8], at: usize) -> Option<Self> {
        let h: &[u8; OP_HEADER] = b.get(at..)?.first_chunk()?;
        Some(Self {
            op: u8_at(h, 0)?,
            header_len: u8_at(h, 1)?.into(),
            row_len: u16_at(h, 2)?.into(),
            family: u32_at(h, 4)?,
            flags: u32_at(h, 8)?,
            qual_len: u32_at(h, 12)? as usize,
            value_len: u32_at(h, 16)? as usize,
            ttl_ms: u32_at(h, 20)?,
            delta: u64_at(h, 24)?.cast_signed(),
            timestamp: u64_at(h, 32)?,
        })
    }
    #[inline]
    fn pieces<'b>(&self, b: &'b [u8], at: usize) -> Option<[&'b [u8]; 3]> {
        pieces(b, at.checked_add(self.header_len)?, [self.row_len, self.qual_len, self.value_len])
    }
}

#[inline]
fn op_at(b: &[u8], at: usize, row_at: usize) -> Option<Result<Mutation<'_>>> {
    let h = OpHeader::at(b, at)?;
    let [mut row, qual, value] = h.pieces(b, at)?;
    if row_at != at {
        [row, ..] = OpHeader::at(b, row_at)?.pieces(b, row_at)?;
    }
    Some(mutation(u32::from(h.op), h.flags & !SAME_ROW, h.ttl_ms).map(|op| Mutation {
        op,
        family: h.family,
        row,
        qual,
        value,
        delta: h.delta,
        timestamp: h.timestamp,
    }))
}

impl Mutations for PackedOps<'_> {
    fn len(&self) -> usize {
        self.starts.len() / 2
    }
    #[inline]
    fn get(&self, i: usize) -> Mutation<'_> {
        let notes = self.starts.get(2 * i).zip(self.starts.get(2 * i + 1));
        let m = notes.and_then(|(at, row_at)| op_at(self.bytes, *at as usize, *row_at as usize)).and_then(Result::ok);
        m.unwrap_or(NOTHING)
    }
}

/// One cell, on its way into a page or out of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PackedCell<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) family: u32,
    pub(super) timestamp: u64,
    pub(super) seq: u64,
    pub(super) row: &'a [u8],
    pub(super) qual: &'a [u8],
    pub(super) value: &'a [u8],
}

impl<'a> PackedCell<'a> {
    /// Bytes of its record; None if a length does not fit its field.
    pub(super) fn len(&self) -> Option<usize> {
        u16::try_from(self.row.len()).ok()?;
        u32::try_from(self.qual.len()).ok()?;
        u32::try_from(self.value.len()).ok()?;
        (CELL_HEADER + self.row.len() + self.qual.len() + self.value.len()).checked_next_multiple_of(8)
    }
    /// Its header.
    pub(super) fn header(&self) -> [u8; CELL_HEADER] {
        let words = [
            u64::from(self.kind) | u64::from(self.flags) << 8 | (self.row.len() as u64) << 16 | u64::from(self.family) << 32,
            self.qual.len() as u64 | (self.value.len() as u64) << 32,
            self.timestamp,
            self.seq,
        ];
        let mut header = [0; CELL_HEADER];
        for (to, word) in header.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        header
    }
    /// Writes it to the beginning of `to`; None if it does not fit. Answers its length.
    pub(super) fn write(&self, to: &mut [u8]) -> Option<usize> {
        let len = self.len()?;
        let mut rest = to.get_mut(..len)?;
        for piece in [&self.header()[..], self.row, self.qual, self.value] {
            let (head, tail) = rest.split_at_mut_checked(piece.len())?;
            head.copy_from_slice(piece);
            rest = tail;
        }
        rest.fill(0);
        Some(len)
    }
    /// Reads the record at the beginning of `from`, and its length.
    #[cfg(test)]
    pub(super) fn read(from: &'a [u8]) -> Option<(Self, usize)> {
        let h: &[u8; CELL_HEADER] = from.first_chunk()?;
        let lens = [u16_at(h, 2)?.into(), u32_at(h, 8)? as usize, u32_at(h, 12)? as usize];
        let [row, qual, value] = pieces(from, CELL_HEADER, lens)?;
        let cell = Self {
            kind: u8_at(h, 0)?,
            flags: u8_at(h, 1)?,
            family: u32_at(h, 4)?,
            timestamp: u64_at(h, 16)?,
            seq: u64_at(h, 24)?,
            row,
            qual,
            value,
        };
        let len = cell.len()?;
        Some((cell, len))
    }
}

#[cfg(test)]
mod tests;
