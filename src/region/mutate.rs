//! One put or one delete: a commit of one row and one cell.

use super::Inner;
use super::admission::WriteTerms;
use super::face::{BatchOutcome, CommitInfo, Mutation, Op};
use super::once::One;
use super::single::{At, Change, OneCell};
use crate::cell::CellType;
use crate::commit::mutation::{Stamp, Write};
use crate::error::Result;
use crate::fail;
use crate::options::WriteOptions;
use crate::stats::CallKind;

/// Longest value, HBase's default limit of a cell.
pub const VALUE_BYTES_MAX: usize = 10 << 20;

/// Flags of increments are refused.
pub(super) fn check_flags(flags: u32) -> Result<()> {
    match flags & !WriteOptions::ATOMIC {
        0 => Ok(()),
        other => fail!(Invalid, "flags: {} makes sense for increments only; this call stores or deletes bytes", flag_names(other)),
    }
}

/// The flags by their names.
#[cold]
fn flag_names(flags: u32) -> String {
    let named = [
        (WriteOptions::CHECK_OVERFLOW, "REGION_W_CHECK_OVERFLOW"),
        (WriteOptions::BOUNDED, "REGION_W_BOUNDED"),
        (WriteOptions::SATURATE, "REGION_W_SATURATE"),
        (WriteOptions::SET, "REGION_W_SET"),
        (WriteOptions::RETURN_OLD, "REGION_W_RETURN_OLD"),
    ];
    let set: Vec<&str> = named.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
    if set.is_empty() { format!("{flags:#x}") } else { set.join(" | ") }
}

impl Inner {
    /// Stores `value`.
    pub fn put(&self, row: &[u8], family: u32, qualifier: &[u8], value: &[u8], o: &WriteOptions, info: &mut CommitInfo) -> Result<()> {
        if o.nonce != 0 {
            check_flags(o.flags)?;
            return self.write_once(Mutation { op: Op::Put, family, row, qual: qualifier, value, delta: 0, timestamp: 0 }, o, info);
        }
        self.check_value(value)?;
        let mut one = OneWrite(Write::Put { value, stamp: Stamp::of(o.timestamp) });
        self.write_cell(&mut one, row, family, qualifier, o, info)
    }
    /// Deletes what `op` says. `family` and `qualifier` are looked at as far as `op` has them.
    pub fn delete(&self, row: &[u8], family: u32, qualifier: &[u8], op: Op, o: &WriteOptions, info: &mut CommitInfo) -> Result<()> {
        let delete = Mutation { op, family, row, qual: qualifier, value: b"", delta: 0, timestamp: 0 };
        if o.nonce != 0 {
            check_flags(o.flags)?;
            return self.write_once(delete, o, info);
        }
        if op == Op::Delete {
            let marker = Write::Marker { kind: CellType::Delete, stamp: Stamp::of(o.timestamp) };
            return self.write_cell(&mut OneWrite(marker), row, family, qualifier, o, info);
        }
        check_flags(o.flags)?;
        match self.batch(CallKind::Write, &One(delete), o, info, &mut |_, _| {})? {
            BatchOutcome::Partial { error, .. } => Err(error),
            BatchOutcome::Done | BatchOutcome::NotApplied { .. } => Ok(()),
        }
    }
    /// A value of a length we take.
    pub(super) fn check_value(&self, value: &[u8]) -> Result<()> {
        if value.len() > VALUE_BYTES_MAX {
            return fail!(TooLarge, "a value of {} bytes; the limit is {VALUE_BYTES_MAX}; nothing was changed", value.len());
        }
        Ok(())
    }
}

/// A put, or a marker of one column: nothing has to be looked at.
struct OneWrite<'w>(Write<'w>);

impl OneCell for OneWrite<'_> {
    const KIND: CallKind = CallKind::Write;
    #[inline]
    fn check(&mut self, _: &WriteOptions, terms: &WriteTerms) -> Result<()> {
        check_flags(terms.flags)
    }
    #[inline]
    fn decide<'v>(&'v mut self, _: &At<'v>) -> Result<Option<Change<'v>>> {
        Ok(Some(Change { write: self.0, row: None, column: None }))
    }
}
