//! What an element of a batch does: from the numbers of the C interface to the core's operations, for the array and the packed form alike.

use super::batch::region_check;
use super::options::{known_bits, must_be_zero, unsupported};
use crate::error::{Error, ErrorKind, Result};
use crate::region::{Comparison, Mutation, Op};

/// Flag of a packed op record: its row is that of the record before. Not a flag of region_mutation_t.
pub(super) const SAME_ROW: u32 = 1 << 16;

/// What an element does, from its numbers.
pub(super) fn mutation(op: u32, flags: u32, ttl_ms: u32) -> Result<Op> {
    must_be_zero(u64::from(ttl_ms), "ttl_ms")?;
    let op = match op {
        1 => Op::Put,
        2 => Op::Delete,
        3 => Op::DeleteVersion,
        4 => Op::DeleteFamily,
        5 => Op::DeleteRow,
        6 => Op::Append,
        7 => Op::Increment,
        8 => Op::DeleteFamilyVersion,
        9 => return check(flags),
        0 => return Err(Error::new(ErrorKind::Invalid, "op is 0; it must be one of REGION_OP_*")),
        _ => return Err(unsupported("op", op)),
    };
    known_bits(flags, 0, "flags")?;
    Ok(op)
}

/// Refuses what is set in a field that the operation does not take: only so can the field ever get a meaning there.
pub(super) fn takes_its_fields(m: &Mutation<'_>) -> Result<()> {
    let (family, qual, value, delta) = (m.family != 0, !m.qual.is_empty(), !m.value.is_empty(), m.delta != 0);
    let foreign: &[(&str, bool)] = match m.op {
        Op::Put | Op::Append => &[("delta", delta)],
        Op::Delete | Op::DeleteVersion => &[("value", value), ("delta", delta)],
        Op::DeleteFamily | Op::DeleteFamilyVersion => &[("qual", qual), ("value", value), ("delta", delta)],
        Op::DeleteRow => &[("family", family), ("qual", qual), ("value", value), ("delta", delta)],
        Op::Increment => &[("value", value)],
        Op::Check { how: Comparison::Exists | Comparison::Absent, .. } => &[("value", value), ("delta", delta)],
        Op::Check { as_counter: true, .. } => &[("value", value)],
        Op::Check { as_counter: false, .. } => &[("delta", delta)],
    };
    match foreign.iter().find(|(_, set)| *set) {
        None => Ok(()),
        Some((field, _)) => Err(not_taken(m.op, field)),
    }
}

#[cold]
fn not_taken(op: Op, field: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("{field}: {} does not take it; leave it 0 or empty", op.name()))
}

fn check(flags: u32) -> Result<Op> {
    let i64_bit = region_check::REGION_CHECK_I64 as u32;
    let how = match flags & !i64_bit {
        1 => Comparison::Equal,
        2 => Comparison::NotEqual,
        3 => Comparison::Less,
        4 => Comparison::LessOrEqual,
        5 => Comparison::Greater,
        6 => Comparison::GreaterOrEqual,
        7 => Comparison::Exists,
        8 => Comparison::Absent,
        0 => return Err(Error::new(ErrorKind::Invalid, "flags: a check needs one of REGION_CHECK_*")),
        other => return Err(unsupported("flags", format_args!("0x{other:x}"))),
    };
    Ok(Op::Check { how, as_counter: flags & i64_bit != 0 })
}

/// Stands in for an element that cannot be read any more, since the caller changed it during the call: refused by the core,
/// as a row cannot be empty.
pub(super) const NOTHING: Mutation<'static> =
    Mutation { op: Op::Delete, family: 0, row: b"", qual: b"", value: b"", delta: 0, timestamp: 0 };
