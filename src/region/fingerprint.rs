//! What is compared when a nonce comes again: that the call asks for the same.
//!
//! Compared is what the call does: each operation with its column, value or amount, timestamp and condition, and the call's flags and bounds. Not
//! compared is how it is made: by which verb, at which durability, with which timeout. What has no meaning for an operation (the value of an increment, the
//! bounds of a call without BOUNDED) is left out, so a buffer that was put together anew matches whatever stands there. Families are their ids, which are
//! never used again: renamed or dropped, they are the same here.
//!
//! With ATOMIC the fingerprint is of the whole call, else of one group. The bytes reach disk by way of `nonce/fingerprint.rs`; the table is in
//! docs/formats/log.md.

use super::face::{Comparison, Mutation, Mutations, Op};
use crate::nonce::{Fingerprint, Fingerprinter};
use crate::options::WriteOptions;
use std::ops::Range;

/// What of a call's options says what it does.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    flags: u32,
    min: i64,
    max: i64,
    timestamp: u64,
}

impl Asked {
    pub fn of(o: &WriteOptions) -> Self {
        let bounded = o.flags & WriteOptions::BOUNDED != 0;
        let (min, max) = if bounded { (o.min_value, o.max_value) } else { (0, 0) };
        Self { flags: o.flags, min, max, timestamp: o.timestamp }
    }
    pub fn is_atomic(&self) -> bool {
        self.flags & WriteOptions::ATOMIC != 0
    }
    /// Of some operations of the call: a group's, or, with ATOMIC, all of them.
    pub fn fingerprint(&self, mut to: Fingerprinter, ops: &dyn Mutations, range: Range<usize>) -> Fingerprint {
        to.fixed(&self.flags.to_le_bytes());
        to.fixed(&self.min.to_le_bytes());
        to.fixed(&self.max.to_le_bytes());
        for i in range {
            let m = ops.get(i);
            // A group's row is part of its name.
            if self.is_atomic() {
                to.bytes(m.row);
            }
            self.operation(&mut to, &m);
        }
        to.finish()
    }
    fn operation(&self, to: &mut Fingerprinter, m: &Mutation<'_>) {
        let (op, condition) = numbers(m.op);
        let of_family = matches!(m.op, Op::DeleteFamily | Op::DeleteFamilyVersion);
        let of_row = m.op == Op::DeleteRow;
        let (family, qualifier) = match () {
            () if of_row => (0, &b""[..]),
            () if of_family => (m.family, &b""[..]),
            () => (m.family, m.qual),
        };
        let (value, delta) = match m.op {
            Op::Put | Op::Append => (m.value, 0),
            Op::Increment => (&b""[..], m.delta),
            Op::Check { how: Comparison::Exists | Comparison::Absent, .. } => (&b""[..], 0),
            Op::Check { as_counter: true, .. } => (&b""[..], m.delta),
            Op::Check { .. } => (m.value, 0),
            Op::Delete | Op::DeleteVersion | Op::DeleteFamily | Op::DeleteFamilyVersion | Op::DeleteRow => (&b""[..], 0),
        };
        let timestamp = if m.timestamp == 0 { self.timestamp } else { m.timestamp };
        to.fixed(&[op, condition]);
        to.fixed(&family.to_le_bytes());
        to.fixed(&timestamp.to_le_bytes());
        to.fixed(&delta.to_le_bytes());
        to.bytes(qualifier);
        to.bytes(value);
    }
}

/// The numbers of the C interface; they reach disk. A condition's highest bit: compares counters.
fn numbers(op: Op) -> (u8, u8) {
    match op {
        Op::Put => (1, 0),
        Op::Delete => (2, 0),
        Op::DeleteVersion => (3, 0),
        Op::DeleteFamily => (4, 0),
        Op::DeleteRow => (5, 0),
        Op::Append => (6, 0),
        Op::Increment => (7, 0),
        Op::DeleteFamilyVersion => (8, 0),
        Op::Check { how, as_counter } => {
            let how = match how {
                Comparison::Equal => 1,
                Comparison::NotEqual => 2,
                Comparison::Less => 3,
                Comparison::LessOrEqual => 4,
                Comparison::Greater => 5,
                Comparison::GreaterOrEqual => 6,
                Comparison::Exists => 7,
                Comparison::Absent => 8,
            };
            (9, how | u8::from(as_counter) << 7)
        }
    }
}

#[cfg(test)]
mod tests;
