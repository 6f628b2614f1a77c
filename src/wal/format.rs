//! Layout of log segments and records: constants, encode, decode, the validity rule. Pure functions over bytes.
//!
//! It must not do I/O, take locks or know positions beyond one segment. Everything is little-endian. Nothing here trusts what it reads: lengths are checked
//! before they are used, and no input makes it panic or allocate. The numbers reach disk: never change them, a new meaning takes a new `VERSION`.
//!
//! # Segment: 4 KB header, then records back to back
//!
//! Where the log went on in the next segment the last record is a PAD that reaches the end of the file. The last segment of a life ends with zeros, which need not
//! be there: the file may be cut behind the log's end, to a whole page, or be a header alone.
//!
//! | off | size | segment header |
//! |---|---|---|
//! | 0 | 8 | magic `RGNWAL\r\n` |
//! | 8 | 4 | version (1) |
//! | 12 | 4 | segment number |
//! | 16 | 16 | uuid of the region |
//! | 32 | 8 | salt: random, each use of the file; enters every checksum, so that bytes of an earlier use never validate |
//! | 40 | 1 | clock unit (1 ns, 2 us, 3 ms) |
//! | 41 | 1 | 1 if a seal is present: this is the first segment of a life (one open for writing) and an earlier life ends at the seal |
//! | 48 | 16 | boot id |
//! | 64 | 8 | st_dev of this file |
//! | 72 | 8 | st_ino of this file |
//! | 80 | 4 | seal: segment number |
//! | 84 | 4 | seal: end offset |
//! | 88 | 8 | seal: last number |
//! | 4092 | 4 | CRC32C of bytes 0 … 4091 |
//!
//! | off | size | record; length is a multiple of 8 |
//! |---|---|---|
//! | 0 | 8 | header word: u32 length, u32 check = CRC32C(salt, offset, length). Stored first |
//! | 8 | 8 | number |
//! | 16 | 8 | tick |
//! | 24 | 4 | generation of the memstore segment |
//! | 28 | 4 | u8 kind (1 commit, 2 PAD, 3 CARRY), u8 level (1 SYNC, 2 FSYNC), u16 flags (0) |
//! | 32 | 8 | `durable_below`: log position known durable when this was appended |
//! | 40 | … | payload, see `record.rs` |
//! | len−8 | 8 | trailer: u32 READY, u32 CRC32C(salt, offset, bytes 8 … 39, c), c = CRC32C(bytes 40 … len−9). Stored last |
//!
//! A PAD fills space. Of one of 48 bytes or more the bytes 8 … 47 are fields and trailer (c = 0), its number being the last one given; one of 16 to 40 bytes is header word
//! and trailer only, CRC32C(salt, offset). The rest of a PAD is neither written nor looked at.
//!
//! # Validity at a position
//!
//! header word 0 = *nothing*; check wrong, or a length that cannot be = *bad*; trailer word 0 = *unfinished*; READY, right CRC, and a number above the last one
//! (PAD: not below it; numbers of commits that skip the log leave gaps) = *valid*; anything else = *bad*.

use crate::env::FileIdentity;

/// Bytes of the segment header; the first record starts here.
pub const SEGMENT_HEADER_BYTES: u32 = 4096;
/// Bytes of a record before its payload.
pub const RECORD_HEADER_BYTES: usize = 40;
/// Bytes of the trailer word.
pub const TRAILER_BYTES: usize = 8;
/// Shortest record that has fields; also the length of an idle PAD.
pub const RECORD_BYTES_MIN: usize = 48;
/// Shortest PAD: header word and trailer.
pub const PAD_BYTES_MIN: usize = 16;

const MAGIC: [u8; 8] = *b"RGNWAL\r\n";
const VERSION: u32 = 1;
const READY: u32 = 0x5944_4552;

/// What a record is. The numbers reach disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// One commit.
    Commit = 1,
    /// Fills space and carries `durable_below`.
    Pad = 2,
    /// What older segments held and is still needed (nonces); has a number of its own and no cells.
    Carry = 3,
}

/// What the writer was promised. The numbers reach disk. Recovery makes every record durable, so there it is only a fact for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// In the kernel.
    Sync = 1,
    /// On stable storage.
    Fsync = 2,
}

/// Where an earlier life of the log ends. What lies behind it in that segment, and segments between it and the one that carries the seal, do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Number of the last segment of that life.
    pub segment: u32,
    /// End of the log within it.
    pub offset: u32,
    /// Last number in the log there.
    pub number: u64,
}

/// The header of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Segment number, one more than the segment before.
    pub number: u32,
    /// Which region it belongs to.
    pub region_uuid: [u8; 16],
    /// Random number of this use of the file.
    pub salt: u64,
    /// Clock unit of the region, as stored.
    pub clock_unit: u8,
    /// Boot of the kernel that wrote it.
    pub boot_id: [u8; 16],
    /// The file it was written to: a copied directory has others.
    pub identity: FileIdentity,
    /// In the first segment of a life: where the life before ended.
    pub seal: Option<Seal>,
}

impl SegmentHeader {
    /// The bytes as they stand in the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut b = Vec::with_capacity(SEGMENT_HEADER_BYTES as usize);
        b.extend_from_slice(&MAGIC);
        b.extend_from_slice(&VERSION.to_le_bytes());
        b.extend_from_slice(&self.number.to_le_bytes());
        b.extend_from_slice(&self.region_uuid);
        b.extend_from_slice(&self.salt.to_le_bytes());
        b.extend_from_slice(&[self.clock_unit, self.seal.is_some() as u8, 0, 0, 0, 0, 0, 0]);
        b.extend_from_slice(&self.boot_id);
        b.extend_from_slice(&self.identity.dev.to_le_bytes());
        b.extend_from_slice(&self.identity.ino.to_le_bytes());
        let seal = self.seal.unwrap_or(Seal { segment: 0, offset: 0, number: 0 });
        b.extend_from_slice(&seal.segment.to_le_bytes());
        b.extend_from_slice(&seal.offset.to_le_bytes());
        b.extend_from_slice(&seal.number.to_le_bytes());
        b.resize(SEGMENT_HEADER_BYTES as usize - 4, 0);
        let crc = crc32c::crc32c(&b);
        b.extend_from_slice(&crc.to_le_bytes());
        b
    }

    /// From the first 4 KB of a file. The error says what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes: &[u8; SEGMENT_HEADER_BYTES as usize] = bytes.first_chunk().ok_or("the segment header is cut short")?;
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or("the segment header is cut short")?;
        if !body.starts_with(&MAGIC) {
            return Err("no segment header: wrong magic");
        }
        if u32::from_le_bytes(*crc) != crc32c::crc32c(body) {
            return Err("the segment header's checksum is wrong");
        }
        let mut r = Fields(body.get(8..).unwrap_or_default());
        if r.u32() != VERSION {
            return Err("the segment was written by another version of the log format");
        }
        let number = r.u32();
        let region_uuid = r.array::<16>();
        let salt = r.u64();
        let [clock_unit, has_seal, ..] = r.array::<8>();
        let boot_id = r.array::<16>();
        let identity = FileIdentity { dev: r.u64(), ino: r.u64() };
        let seal = Seal { segment: r.u32(), offset: r.u32(), number: r.u64() };
        Ok(Self { number, region_uuid, salt, clock_unit, boot_id, identity, seal: (has_seal == 1).then_some(seal) })
    }
}

/// The salt as it enters checksums: computed once per segment, so that under the append lock only a few bytes are left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaltCrc(u32);

impl SaltCrc {
    /// Of a segment's salt.
    pub fn new(salt: u64) -> Self {
        Self(crc32c::crc32c(&salt.to_le_bytes()))
    }

    /// The header word of a record.
    pub fn header_word(self, offset: u32, length: u32) -> u64 {
        let at = offset as u64 | (length as u64) << 32;
        length as u64 | (crc32c::crc32c_append(self.0, &at.to_le_bytes()) as u64) << 32
    }

    /// The trailer word of a record with fields: `fields` are its bytes 8 … 39, `payload_crc` is c.
    pub fn trailer_word(self, offset: u32, fields: &[u8; 32], payload_crc: u32) -> u64 {
        // One call over 40 bytes: per-call costs outweigh the bytes.
        let mut covered = [0u8; 40];
        let (first, rest) = covered.split_at_mut(4);
        first.copy_from_slice(&offset.to_le_bytes());
        let (middle, last) = rest.split_at_mut(32);
        middle.copy_from_slice(fields);
        last.copy_from_slice(&payload_crc.to_le_bytes());
        READY as u64 | (crc32c::crc32c_append(self.0, &covered) as u64) << 32
    }

    /// The trailer word of a PAD shorter than 48 bytes.
    pub fn short_pad_trailer_word(self, offset: u32) -> u64 {
        READY as u64 | (crc32c::crc32c_append(self.0, &offset.to_le_bytes()) as u64) << 32
    }
}

/// A PAD's bytes as they are written: all of a short one, else the first 48.
#[derive(Clone, Copy)]
pub struct Pad {
    bytes: [u8; RECORD_BYTES_MIN],
    len: usize,
}

impl Pad {
    /// A PAD of `length` bytes (a multiple of 8, at least 16) at `offset`.
    pub fn new(salt: SaltCrc, offset: u32, length: u32, number: u64, durable_below: u64) -> Self {
        let mut bytes = [0u8; RECORD_BYTES_MIN];
        put_u64(&mut bytes, 0, salt.header_word(offset, length));
        if (length as usize) < RECORD_BYTES_MIN {
            put_u64(&mut bytes, 8, salt.short_pad_trailer_word(offset));
            return Self { bytes, len: PAD_BYTES_MIN };
        }
        put_u64(&mut bytes, 8, number);
        put_u64(&mut bytes, 24, (RecordKind::Pad as u64) << 32);
        put_u64(&mut bytes, 32, durable_below);
        let mut fields = [0u8; 32];
        fields.copy_from_slice(bytes.get(8..40).unwrap_or(&[0; 32]));
        put_u64(&mut bytes, 40, salt.trailer_word(offset, &fields, 0));
        Self { bytes, len: RECORD_BYTES_MIN }
    }

    /// What is to be written, header word first, trailer last.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// What a header word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderWord {
    /// Zero.
    Nothing,
    /// Not a header word of this place.
    Bad,
    /// A record of this many bytes, all of them within the segment.
    Length(u32),
}

/// Looks at the header word at `offset`, of which `left` bytes remain to the segment's end.
pub fn header_word(salt: SaltCrc, offset: u32, left: u32, word: u64) -> HeaderWord {
    if word == 0 {
        return HeaderWord::Nothing;
    }
    let length = word as u32;
    let possible = length >= PAD_BYTES_MIN as u32 && length.is_multiple_of(8) && length <= left;
    if possible && salt.header_word(offset, length) == word { HeaderWord::Length(length) } else { HeaderWord::Bad }
}

/// How many of a record's bytes [`examine`] needs, judged by its first bytes (48, or all of a shorter one): a PAD's body is not looked at.
pub fn bytes_to_examine(length: u32, first: &[u8]) -> usize {
    let length = length as usize;
    match first.get(28) {
        _ if length < RECORD_BYTES_MIN => PAD_BYTES_MIN,
        Some(&kind) if kind == RecordKind::Pad as u8 => RECORD_BYTES_MIN,
        _ => length,
    }
}

/// A record whose checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Commit, PAD or CARRY.
    pub kind: RecordKind,
    /// Its number; None in a PAD without fields.
    pub number: Option<u64>,
    /// Tick of the commit.
    pub tick: u64,
    /// Memstore segment it went to.
    pub generation: u32,
    /// What the writer was promised.
    pub level: Level,
    /// Position known durable when it was appended.
    pub durable_below: u64,
    /// Bytes 40 … len−9.
    pub payload: &'a [u8],
}

/// What stands at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A record whose trailer was never stored.
    Unfinished,
    /// Damage, or bytes of another use; says what is wrong.
    Bad(&'static str),
    /// A record.
    Valid(RawRecord<'a>),
}

/// Judges the record at `offset` whose header word gave `length`. `bytes` starts at the record and holds at least [`bytes_to_examine`] bytes.
/// `last` is the last number before it, None where that is not known.
pub fn examine(salt: SaltCrc, offset: u32, length: u32, bytes: &[u8], last: Option<u64>) -> Found<'_> {
    const SHORT: Found<'static> = Found::Bad("the record reaches beyond the end of the file");
    let Some(record) = bytes.get(..bytes_to_examine(length, bytes)) else { return SHORT };
    let Some((body, trailer)) = record.split_last_chunk::<TRAILER_BYTES>() else { return SHORT };
    let trailer = u64::from_le_bytes(*trailer);
    if trailer == 0 {
        return Found::Unfinished;
    }
    if record.len() < RECORD_BYTES_MIN {
        return if trailer == salt.short_pad_trailer_word(offset) {
            let pad = RawRecord {
                kind: RecordKind::Pad,
                number: None,
                tick: 0,
                generation: 0,
                level: Level::Sync,
                durable_below: 0,
                payload: &[],
            };
            Found::Valid(pad)
        } else {
            Found::Bad("the checksum of a short PAD is wrong")
        };
    }
    let Some((fields, payload)) = body.get(8..).and_then(|b| b.split_first_chunk::<32>()) else { return SHORT };
    if trailer != salt.trailer_word(offset, fields, crc32c::crc32c(payload)) {
        return Found::Bad("the record's checksum is wrong");
    }
    let mut r = Fields(fields);
    let (number, tick, generation) = (r.u64(), r.u64(), r.u32());
    let [kind, level, ..] = r.array::<4>();
    let durable_below = r.u64();
    let kind = match kind {
        1 => RecordKind::Commit,
        2 => RecordKind::Pad,
        3 => RecordKind::Carry,
        _ => return Found::Bad("the record is of a kind that this version does not know"),
    };
    let lowest = match last {
        Some(last) if kind == RecordKind::Pad => last,
        Some(last) => last.saturating_add(1),
        None => 0,
    };
    if number < lowest {
        return Found::Bad("the record's number is not above the one before");
    }
    let level = if level == Level::Fsync as u8 { Level::Fsync } else { Level::Sync };
    Found::Valid(RawRecord { kind, number: Some(number), tick, generation, level, durable_below, payload })
}

/// Reads fields from a slice whose length was checked; what is missing reads as 0.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.0 = rest;
                *head
            }
            None => [0; N],
        }
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}

/// Stores a word; bytes beyond the end are left out.
pub(super) fn put_u64(bytes: &mut [u8], at: usize, word: u64) {
    if let Some(to) = bytes.get_mut(at..at + 8) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}

/// The word at `at`, None beyond the end.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
}
