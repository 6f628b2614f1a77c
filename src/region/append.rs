//! One append: as an increment, with bytes.

use super::Inner;
use super::admission::WriteTerms;
use super::face::{CommitInfo, Found, Mutation, Op, ValueSink};
use super::mutate::{VALUE_BYTES_MAX, check_flags};
use super::pinned::PinnedValue;
use super::single::no_family;
use super::thread::{Scratch, with_scratch};
use crate::commit::mutation::{CellChange, RowChange, Stamp, Write};
use crate::commit::{Refusal, commit};
use crate::error::Result;
use crate::fail;
use crate::hooks::{self, Point};
use crate::ids::{FamilyId, RowHash};
use crate::options::WriteOptions;
use crate::read::newest::{ColumnName, newest};
use crate::stats::CallKind;
use crate::sync::Arc;

impl Inner {
    /// Appends `suffix`; `new_value` gets the whole value.
    #[expect(clippy::too_many_arguments, reason = "the C call's")]
    pub fn append(
        self: &Arc<Self>,
        row: &[u8],
        family: u32,
        qualifier: &[u8],
        suffix: &[u8],
        o: &WriteOptions,
        info: &mut CommitInfo,
        new_value: Option<&mut dyn ValueSink>,
    ) -> Result<Found> {
        if o.nonce != 0 {
            let m = Mutation { op: Op::Append, family, row, qual: qualifier, value: suffix, delta: 0, timestamp: 0 };
            let (found, value) = self.append_once(m, o, info, new_value.is_some())?;
            self.hand_out(value, new_value);
            return Ok(found);
        }
        with_scratch(|thread, scratch| {
            let (mut call, mut terms) = self.enter_write(CallKind::Write, thread, o)?;
            check_flags(terms.flags)?;
            if terms.timestamp != 0 {
                return fail!(Invalid, "an append gets a timestamp above that of the value it adds to; leave timestamp 0");
            }
            self.check_row(row)?;
            self.check_qualifier(qualifier)?;
            let name = ColumnName { hash: self.state.hash(row), row, family: FamilyId(family), qualifier };
            let mut value = Vec::new();
            let found = loop {
                match self.try_append(name, suffix, &mut value, &mut terms, info, thread, scratch) {
                    Ok(found) => break found,
                    Err(refusal) => self.wait_for_refused(refusal, &mut terms, thread)?,
                }
            };
            call.counts(1);
            drop(call);
            self.seal_if_due();
            self.hand_out(value, new_value);
            Ok(found)
        })
    }

    fn hand_out(self: &Arc<Self>, value: Vec<u8>, sink: Option<&mut dyn ValueSink>) {
        let Some(sink) = sink else { return };
        match sink.fits(value.len()) {
            Some(into) => into.copy_from_slice(&value),
            None => sink.pin(Box::new(PinnedValue::new(Arc::clone(self), value.into_boxed_slice()))),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn try_append(
        &self,
        name: ColumnName<'_>,
        suffix: &[u8],
        value: &mut Vec<u8>,
        terms: &mut WriteTerms,
        info: &mut CommitInfo,
        thread: usize,
        scratch: &mut Scratch,
    ) -> std::result::Result<Found, Refusal> {
        let state = &self.state;
        let ColumnName { hash, row, family, qualifier }: ColumnName<'_> = name;
        let mut locks = self.lock_row(hash, row, terms)?;
        hooks::reach(Point::RowLocked, state.hook_context);
        let slot = state.slots.claim(thread);
        hooks::reach(Point::SlotClaimed, state.hook_context);
        let view = state.view.load(&slot);
        let Some(settings) = view.family(family) else { return Err(Refusal::Fatal(no_family(family))) };
        let lookup = newest(view, name, &state.rules(settings));
        let before = lookup.newest.map_or(0, |f| f.value.len());
        self.check_joined(before, suffix).map_err(Refusal::Fatal)?;
        value.clear();
        if let Some(found) = lookup.newest {
            found.value.with(|bytes| value.extend_from_slice(bytes));
        }
        value.extend_from_slice(suffix);
        let write = Write::Put { value, stamp: Stamp::Above(lookup.newest.map_or(0, |f| f.ts)) };
        let mut rows = [RowChange { hash, row, cells: 0..1, found: lookup.row }];
        let mut cells = [CellChange::new(family, qualifier, write, settings.keep, lookup.column)];
        let committed = commit(state, &mut scratch.record, &mut locks, &slot, view, &mut rows, &mut cells, terms.commit(thread))?;
        let timestamp = write.timestamp(committed.tick);
        drop(slot);
        drop(locks);
        self.settle(&committed, terms, info).map_err(Refusal::Fatal)?;
        Ok(Found { timestamp, seq: committed.seq.0 })
    }

    fn lock_row(&self, hash: RowHash, row: &[u8], terms: &mut WriteTerms) -> std::result::Result<crate::rowlock::RowLocks<'_>, Refusal> {
        self.state.locks.lock(hash, &mut terms.timeout).map_err(|e| Refusal::Fatal(self.lock_error(e, row, &terms.timeout)))
    }

    /// A value that an append makes may not be longer than one that is put.
    pub(super) fn check_joined(&self, before: usize, suffix: &[u8]) -> Result<()> {
        let len = before + suffix.len();
        if len > VALUE_BYTES_MAX {
            return fail!(
                TooLarge,
                "{before} bytes and {} more make a value of {len}; the limit is {VALUE_BYTES_MAX}; nothing was changed",
                suffix.len()
            );
        }
        Ok(())
    }
}
