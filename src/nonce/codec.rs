//! The entries of one commit as bytes: what the log keeps of them. Pure.
//!
//! | size | what |
//! |---|---|
//! | 8 | nonce group |
//! | 8 | nonce |
//! | … | for each group of operations: 16 bytes hash of the row, varint nth, varint n, n × value (zigzag varint), varint b, b bytes |
//!
//! The fingerprints of the same groups, in the same order, are 8 bytes each, 0 for none.
//!
//! Little-endian; varints are LEB128 of at most 64 bits. The hash of the row is SipHash-2-4 under the region's nonce key of the byte 0 and the row, then of
//! the byte 1 and the row.

use super::{Answer, Fingerprint, Nonce, Place, RowId};

/// Appends the bytes of a commit's entries.
pub fn encode<'a>(out: &mut Vec<u8>, nonce: Nonce, entries: impl Iterator<Item = (Place, &'a Answer)>) {
    out.extend_from_slice(&nonce.group.to_le_bytes());
    out.extend_from_slice(&nonce.nonce.to_le_bytes());
    for (place, answer) in entries {
        place.row.0.iter().for_each(|half| out.extend_from_slice(&half.to_le_bytes()));
        varint(out, u64::from(place.nth));
        varint(out, answer.values.len() as u64);
        answer.values.iter().for_each(|v| varint(out, (v << 1 ^ v >> 63) as u64));
        varint(out, answer.bytes.len() as u64);
        out.extend_from_slice(&answer.bytes);
    }
}

/// The entries of a commit. None: these are not such bytes.
pub fn decode(mut bytes: &[u8]) -> Option<(Nonce, Vec<(Place, Answer)>)> {
    let from = &mut bytes;
    let nonce = Nonce { group: u64_of(from)?, nonce: u64_of(from)? };
    let mut entries = Vec::new();
    while !from.is_empty() {
        let row = RowId([u64_of(from)?, u64_of(from)?]);
        let nth = u32::try_from(varint_of(from)?).ok()?;
        let n = usize::try_from(varint_of(from)?).ok()?;
        // A value takes a byte at least: no length that the bytes cannot hold is believed.
        let mut values = Vec::with_capacity(n.min(from.len()));
        for _ in 0..n {
            let z = varint_of(from)?;
            values.push((z >> 1) as i64 ^ -((z & 1) as i64));
        }
        let length = usize::try_from(varint_of(from)?).ok()?;
        let (answered, rest) = from.split_at_checked(length)?;
        *from = rest;
        entries.push((Place { row, nth }, Answer { values: values.into(), bytes: answered.into(), of: None }));
    }
    (nonce.nonce != 0).then_some((nonce, entries))
}

/// Appends what tells which operations a commit's entries answer.
pub fn encode_fingerprints<'a>(out: &mut Vec<u8>, answers: impl Iterator<Item = &'a Answer>) {
    answers.for_each(|a| out.extend_from_slice(&a.of.map_or(0, Fingerprint::get).to_le_bytes()));
}

/// Gives entries their fingerprints. False: these are not theirs.
#[must_use]
pub fn decode_fingerprints(bytes: &[u8], entries: &mut [(Place, Answer)]) -> bool {
    let (each, rest) = bytes.as_chunks();
    if each.len() != entries.len() || !rest.is_empty() {
        return false;
    }
    for ((_, answer), bytes) in entries.iter_mut().zip(each) {
        answer.of = Fingerprint::stored(u64::from_le_bytes(*bytes));
    }
    true
}

fn varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn varint_of(from: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (&b, rest) = from.split_first()?;
        *from = rest;
        let part = u64::from(b & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        n |= part << shift;
        if b < 0x80 {
            return Some(n);
        }
    }
    None
}

fn u64_of(from: &mut &[u8]) -> Option<u64> {
    let (head, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u64::from_le_bytes(*head))
}
