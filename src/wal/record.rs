//! What a record carries: the cells of one commit. `RecordBuffer` encodes, `Record` decodes. Pure.
//!
//! Threads: a buffer belongs to one caller and is used again for every commit, so that encoding allocates nothing in steady state.
//!
//! # Payload: items, each led by one byte; zero bytes at the end fill up to a multiple of 8
//!
//! | byte | item | bytes after it |
//! |---|---|---|
//! | 0 | end | zeros only |
//! | 1 | row: the cells that follow belong to it | varint length, bytes |
//! | 2 | counter, timestamp = the record's tick | varint family, varint length, qualifier, 8 bytes value (big-endian, as HBase stores it) |
//! | 3 | counter | u64 timestamp, then as 2 |
//! | 4 | cell, timestamp = the record's tick | u8 type, varint family, varint length, qualifier, varint length, value |
//! | 5 | cell | u64 timestamp, then as 4 |
//! | 6, 7 | kept for cells with tags | |
//! | 32 | what a call with a nonce was answered, see `nonce/codec.rs` | varint length, bytes |
//! | 33 | fingerprints of what was answered in the item 32 before it | varint length, bytes |
//! | 34 … 63 | something a reader may step over if it does not know it | varint length, bytes |
//!
//! Varints are LEB128 of at most 32 bits. Any other byte is refused: a record is never half understood.

use super::format::{self, Level, RECORD_HEADER_BYTES, RawRecord, RecordKind, SaltCrc, TRAILER_BYTES};
use crate::cell::CellType;
use crate::ids::{FamilyId, Generation, LogPosition, SequenceNumber, Tick};

const ITEM_ROW: u8 = 1;
const ITEM_COUNTER: u8 = 2;
const ITEM_CELL: u8 = 4;
const ITEM_NONCES: u8 = 32;
/// Came after 32, so it is one that may be stepped over: logs without it are read, and earlier builds read logs with it.
const ITEM_FINGERPRINTS: u8 = 33;
/// Added to an item's byte when its timestamp is written out.
const WITH_TIMESTAMP: u8 = 1;
const SKIPPABLE: std::ops::RangeInclusive<u8> = 34..=63;

/// What a record says of its call's nonce, as bytes that `nonce/codec.rs` knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonceNotes<B> {
    /// Item 32.
    pub answers: B,
    /// Item 33; records of earlier builds have none.
    pub fingerprints: Option<B>,
}

/// A record under construction: begin, then for each row its cells, then finish, then append it.
pub struct RecordBuffer {
    bytes: Vec<u8>,
    payload_crc: u32,
    tick: u64,
    kind: RecordKind,
}

impl Default for RecordBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordBuffer {
    /// Empty.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), payload_crc: 0, tick: 0, kind: RecordKind::Commit }
    }

    /// Starts a record; what the buffer held is gone.
    pub fn begin(&mut self, kind: RecordKind, level: Level, generation: Generation, tick: Tick) {
        let mut header = [0u8; RECORD_HEADER_BYTES];
        format::put_u64(&mut header, 16, tick.0);
        format::put_u64(&mut header, 24, generation.0 as u64 | (kind as u64) << 32 | (level as u64) << 40);
        self.bytes.clear();
        self.bytes.extend_from_slice(&header);
        self.tick = tick.0;
        self.kind = kind;
    }

    /// The cells that follow belong to this row.
    pub fn row(&mut self, row: &[u8]) {
        self.lead(ITEM_ROW, self.tick, [row.len() as u32]);
        self.bytes.extend_from_slice(row);
    }

    /// The new version of a counter.
    pub fn counter(&mut self, family: FamilyId, qualifier: &[u8], timestamp: u64, value: i64) {
        self.lead(ITEM_COUNTER, timestamp, [family.0, qualifier.len() as u32]);
        self.bytes.extend_from_slice(qualifier);
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Any other cell, markers included.
    pub fn cell(&mut self, family: FamilyId, qualifier: &[u8], kind: CellType, timestamp: u64, value: &[u8]) {
        self.lead(ITEM_CELL, timestamp, [u32::from(kind as u8), family.0, qualifier.len() as u32]);
        self.bytes.extend_from_slice(qualifier);
        self.sized(value);
    }

    /// What the call was answered, for its nonce.
    pub fn nonces(&mut self, notes: NonceNotes<&[u8]>) {
        self.bytes.push(ITEM_NONCES);
        self.sized(notes.answers);
        if let Some(fingerprints) = notes.fingerprints {
            self.bytes.push(ITEM_FINGERPRINTS);
            self.sized(fingerprints);
        }
    }

    /// Fills up and checksums the payload: the part of the checksum that does not need the append lock.
    pub fn finish(&mut self) {
        let padded = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(padded, 0);
        self.payload_crc = crc32c::crc32c(self.bytes.get(RECORD_HEADER_BYTES..).unwrap_or_default());
        self.bytes.resize(padded + TRAILER_BYTES, 0);
    }

    /// The record's bytes; whole once it is appended.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes that it takes in the log, once finished.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True before the first `begin`.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What it was begun as.
    pub fn kind(&self) -> RecordKind {
        self.kind
    }

    /// Gives memory back when one huge record has grown the buffer beyond `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        if self.bytes.capacity() > bytes {
            self.bytes = Vec::with_capacity(bytes.min(4096));
        }
    }

    /// Under the append lock: number, `durable_below`, header word and trailer. Nothing here allocates.
    #[inline]
    pub(super) fn complete(&mut self, salt: SaltCrc, offset: u32, number: u64, durable_below: u64) {
        let length = self.bytes.len() as u32;
        let Some(header) = self.bytes.first_chunk_mut::<RECORD_HEADER_BYTES>() else { return };
        format::put_u64(header, 0, salt.header_word(offset, length));
        format::put_u64(header, 8, number);
        format::put_u64(header, 32, durable_below);
        let Some(fields) = header.last_chunk::<32>() else { return };
        let trailer = salt.trailer_word(offset, fields, self.payload_crc);
        if let Some(to) = self.bytes.last_chunk_mut::<TRAILER_BYTES>() {
            *to = trailer.to_le_bytes();
        }
    }

    /// An item's byte, its timestamp unless that is the record's tick, and its first numbers. Most numbers take one byte: then the buffer is asked for
    /// room once, not for each.
    #[inline]
    fn lead<const N: usize>(&mut self, item: u8, timestamp: u64, numbers: [u32; N]) {
        if timestamp != self.tick || numbers.iter().any(|n| *n >= 0x80) {
            return self.long_lead(item, timestamp, &numbers);
        }
        let mut lead = [item; 4];
        for (to, n) in lead.iter_mut().skip(1).zip(numbers) {
            *to = n as u8;
        }
        self.bytes.extend_from_slice(lead.get(..=N).unwrap_or_default());
    }

    #[inline(never)]
    fn long_lead(&mut self, item: u8, timestamp: u64, numbers: &[u32]) {
        if timestamp == self.tick {
            self.bytes.push(item);
        } else {
            self.bytes.push(item + WITH_TIMESTAMP);
            self.bytes.extend_from_slice(&timestamp.to_le_bytes());
        }
        for n in numbers {
            self.varint(*n);
        }
    }

    fn sized(&mut self, bytes: &[u8]) {
        // Lengths are bounded far below 4 GB: a record must fit a segment.
        self.varint(bytes.len() as u32);
        self.bytes.extend_from_slice(bytes);
    }

    fn varint(&mut self, mut n: u32) {
        while n >= 0x80 {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }
}

/// A commit or CARRY record as it came from the log. Its payload was decoded once, so that its iterators cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Number of the commit.
    pub number: SequenceNumber,
    /// Its tick.
    pub tick: Tick,
    /// Memstore segment it went to.
    pub generation: Generation,
    /// What its writer was promised.
    pub level: Level,
    /// Commit or CARRY.
    pub kind: RecordKind,
    /// Where in the log it stands.
    pub position: LogPosition,
    payload: &'a [u8],
}

/// One cell of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordCell<'a> {
    /// Its row.
    pub row: &'a [u8],
    /// Column family, maybe one that exists no more.
    pub family: FamilyId,
    /// Column qualifier.
    pub qualifier: &'a [u8],
    /// Value or which marker.
    pub kind: CellType,
    /// In the region's clock unit.
    pub timestamp: u64,
    /// Value; 8 bytes if `counter`.
    pub value: &'a [u8],
    /// Written by an increment.
    pub counter: bool,
}

impl<'a> Record<'a> {
    /// From a valid record; the error says what its payload holds that cannot be understood.
    pub fn decode(raw: RawRecord<'a>, position: LogPosition) -> Result<Self, &'static str> {
        let mut items = Items { rest: raw.payload, row: None, tick: raw.tick };
        while items.step()?.is_some() {}
        Ok(Self {
            number: SequenceNumber(raw.number.unwrap_or(0)),
            tick: Tick(raw.tick),
            generation: Generation(raw.generation),
            level: raw.level,
            kind: raw.kind,
            position,
            payload: raw.payload,
        })
    }

    /// Its cells in the order they were written.
    pub fn cells(&self) -> Cells<'a> {
        Cells { items: Items { rest: self.payload, row: None, tick: self.tick.0 }, one_row: false }
    }

    /// Its rows in the order they were written, each with its cells.
    pub fn rows(&self) -> Rows<'a> {
        Rows { items: Items { rest: self.payload, row: None, tick: self.tick.0 } }
    }

    /// What calls with a nonce were answered.
    pub fn nonces(&self) -> impl Iterator<Item = NonceNotes<&'a [u8]>> {
        // Few records have any: where no byte can be the item's, nothing is walked a third time.
        let rest = if self.payload.contains(&ITEM_NONCES) { self.payload } else { Default::default() };
        let mut items = Items { rest, row: None, tick: self.tick.0 };
        std::iter::from_fn(move || {
            loop {
                if let Item::Nonces(answers) = items.step().ok()?? {
                    let fingerprints = match { items }.step() {
                        Ok(Some(Item::Fingerprints(bytes))) => Some(bytes),
                        _ => None,
                    };
                    return Some(NonceNotes { answers, fingerprints });
                }
            }
        })
    }
}

/// The first row of a payload that nobody has checked.
#[inline]
pub(super) fn first_row(payload: &[u8]) -> Option<&[u8]> {
    match (Items { rest: payload, row: None, tick: 0 }).step() {
        Ok(Some(Item::Row(row))) => Some(row),
        _ => None,
    }
}

/// Iterator over the rows of a record.
#[derive(Clone)]
pub struct Rows<'a> {
    items: Items<'a>,
}

/// One row of a record.
#[derive(Clone)]
pub struct RecordRow<'a> {
    /// The row key.
    pub key: &'a [u8],
    items: Items<'a>,
}

impl<'a> Iterator for Rows<'a> {
    type Item = RecordRow<'a>;
    fn next(&mut self) -> Option<RecordRow<'a>> {
        loop {
            if let Item::Row(key) = self.items.step().ok()?? {
                return Some(RecordRow { key, items: self.items });
            }
        }
    }
}

impl<'a> RecordRow<'a> {
    /// The row's cells in the order they were written.
    pub fn cells(&self) -> Cells<'a> {
        Cells { items: self.items, one_row: true }
    }
}

/// Iterator over cells.
#[derive(Clone)]
pub struct Cells<'a> {
    items: Items<'a>,
    one_row: bool,
}

impl<'a> Iterator for Cells<'a> {
    type Item = RecordCell<'a>;
    fn next(&mut self) -> Option<RecordCell<'a>> {
        loop {
            match self.items.step().ok()?? {
                Item::Cell(cell) => return Some(cell),
                Item::Row(_) if self.one_row => return None,
                Item::Row(_) | Item::Nonces(_) | Item::Fingerprints(_) | Item::Other => {}
            }
        }
    }
}

enum Item<'a> {
    Row(&'a [u8]),
    Cell(RecordCell<'a>),
    Nonces(&'a [u8]),
    Fingerprints(&'a [u8]),
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Items<'a> {
    rest: &'a [u8],
    row: Option<&'a [u8]>,
    tick: u64,
}

/// Explicit timestamps end at 2^62; what is counted up above one stays far below this.
const TIMESTAMP_MAX: u64 = 1 << 63;

const SHORT: &str = "an item of the record is cut short";

impl<'a> Items<'a> {
    #[inline]
    fn step(&mut self) -> Result<Option<Item<'a>>, &'static str> {
        let Some((&item, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        match item {
            0 if rest.iter().all(|b| *b == 0) => {
                self.rest = &[];
                Ok(None)
            }
            ITEM_ROW => {
                let row = self.sized()?;
                self.row = Some(row);
                Ok(Some(Item::Row(row)))
            }
            ITEM_COUNTER | 3 => {
                let timestamp = self.timestamp(item == 3)?;
                let family = FamilyId(self.varint()?);
                let qualifier = self.sized()?;
                let value = self.take(8)?;
                let row = self.row.ok_or("a cell without a row")?;
                Ok(Some(Item::Cell(RecordCell { row, family, qualifier, kind: CellType::Put, timestamp, value, counter: true })))
            }
            ITEM_CELL | 5 => {
                let timestamp = self.timestamp(item == 5)?;
                let kind = self.take(1)?.first().and_then(|c| CellType::from_u8(*c)).ok_or("a cell of an unknown type")?;
                let family = FamilyId(self.varint()?);
                let qualifier = self.sized()?;
                let value = self.sized()?;
                let row = self.row.ok_or("a cell without a row")?;
                Ok(Some(Item::Cell(RecordCell { row, family, qualifier, kind, timestamp, value, counter: false })))
            }
            ITEM_NONCES => Ok(Some(Item::Nonces(self.sized()?))),
            ITEM_FINGERPRINTS => Ok(Some(Item::Fingerprints(self.sized()?))),
            _ if SKIPPABLE.contains(&item) => {
                self.sized()?;
                Ok(Some(Item::Other))
            }
            _ => Err("the record holds an item that this version does not know"),
        }
    }

    fn timestamp(&mut self, written: bool) -> Result<u64, &'static str> {
        if !written {
            return Ok(self.tick);
        }
        let (head, rest) = self.rest.split_first_chunk().ok_or(SHORT)?;
        self.rest = rest;
        let timestamp = u64::from_le_bytes(*head);
        if timestamp > TIMESTAMP_MAX { Err("a cell has a timestamp that no writer gives") } else { Ok(timestamp) }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], &'static str> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(SHORT)?;
        self.rest = rest;
        Ok(head)
    }

    fn sized(&mut self) -> Result<&'a [u8], &'static str> {
        let n = self.varint()?;
        self.take(n as usize)
    }

    fn varint(&mut self) -> Result<u32, &'static str> {
        let mut n = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let (&b, rest) = self.rest.split_first().ok_or(SHORT)?;
            self.rest = rest;
            n |= ((b & 0x7f) as u64) << shift;
            if b < 0x80 {
                return u32::try_from(n).map_err(|_| "a number of the record is too large");
            }
        }
        Err("a number of the record is too long")
    }
}
