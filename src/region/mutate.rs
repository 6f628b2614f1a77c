//! One put or one delete: a commit of one row and one cell.

use super::Inner;
use super::admission::WriteTerms;
use super::face::{BatchOutcome, CommitInfo, Mutation, Mutations, Op};
use super::single::no_family;
use super::thread::{Scratch, with_scratch};
use crate::cell::CellType;
use crate::commit::mutation::{CellChange, RowChange, Stamp, Write};
use crate::commit::{Refusal, commit};
use crate::error::Result;
use crate::fail;
use crate::hooks::{self, Point};
use crate::ids::{FamilyId, RowHash};
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
        self.write_one(row, family, qualifier, Write::Put { value, stamp: Stamp::of(o.timestamp) }, o, info)
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
            return self.write_one(row, family, qualifier, marker, o, info);
        }
        check_flags(o.flags)?;
        match self.batch(CallKind::Write, &OneDelete(delete), o, info, &mut |_, _| {})? {
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

    fn write_one(
        &self,
        row: &[u8],
        family: u32,
        qualifier: &[u8],
        write: Write<'_>,
        o: &WriteOptions,
        info: &mut CommitInfo,
    ) -> Result<()> {
        with_scratch(|thread, scratch| {
            let (mut call, mut terms) = self.enter_write(CallKind::Write, thread, o)?;
            check_flags(terms.flags)?;
            self.check_row(row)?;
            self.check_qualifier(qualifier)?;
            let hash = self.state.hash(row);
            while let Err(refusal) = self.try_write(hash, row, FamilyId(family), qualifier, write, &mut terms, info, thread, scratch) {
                self.wait_for_refused(refusal, &mut terms, thread)?;
            }
            call.counts(1);
            drop(call);
            self.seal_if_due();
            Ok(())
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn try_write(
        &self,
        hash: RowHash,
        row: &[u8],
        family: FamilyId,
        qualifier: &[u8],
        write: Write<'_>,
        terms: &mut WriteTerms,
        info: &mut CommitInfo,
        thread: usize,
        scratch: &mut Scratch,
    ) -> std::result::Result<(), Refusal> {
        let state = &self.state;
        let mut locks = state.locks.lock(hash, &mut terms.timeout).map_err(|e| Refusal::Fatal(self.lock_error(e, row, &terms.timeout)))?;
        hooks::reach(Point::RowLocked, state.hook_context);
        let slot = state.slots.claim(thread);
        hooks::reach(Point::SlotClaimed, state.hook_context);
        let view = state.view.load(&slot);
        let Some(settings) = view.family(family) else { return Err(Refusal::Fatal(no_family(family))) };
        let mut rows = [RowChange { hash, row, cells: 0..1, found: None }];
        let mut cells = [CellChange::new(family, qualifier, write, settings.keep, None)];
        let committed = commit(state, &mut scratch.record, &mut locks, &slot, view, &mut rows, &mut cells, terms.commit(thread))?;
        drop(slot);
        drop(locks);
        self.settle(&committed, terms, info).map_err(Refusal::Fatal)
    }
}

/// A delete that has to look at what is there, or at the families.
struct OneDelete<'a>(Mutation<'a>);

impl Mutations for OneDelete<'_> {
    fn len(&self) -> usize {
        1
    }
    fn get(&self, _: usize) -> Mutation<'_> {
        self.0
    }
}
