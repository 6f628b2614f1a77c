//! One increment: admit, lock the row, claim slot and view, read the newest version, add, commit; again on a refusal that can be waited for.

use super::Inner;
use super::admission::{WriteTerms, show};
use super::counter::{Rules, Sum};
use super::face::{CommitInfo, Counted};
use super::single::no_family;
use super::thread::{Scratch, with_scratch};
use crate::commit::mutation::{CellChange, RowChange, Write};
use crate::commit::{Refusal, commit};
use crate::error::{Error, ErrorKind, Result};
use crate::hooks::{self, Point};
use crate::ids::{FamilyId, RowHash};
use crate::memstore::VersionValue;
use crate::options::WriteOptions;
use crate::read::newest::{ColumnName, Found, newest};
use crate::stats::CallKind;

/// The counter that a stored value is.
#[inline]
pub fn counter_of(found: &Found<'_>, row: &[u8], qualifier: &[u8]) -> Result<i64> {
    match found.value {
        VersionValue::Counter(n) => Ok(n),
        VersionValue::Bytes(b) => match <[u8; 8]>::try_from(b) {
            Ok(b) => Ok(i64::from_be_bytes(b)),
            Err(_) => Err(not_counter(b.len(), row, qualifier)),
        },
    }
}

#[cold]
fn not_counter(len: usize, row: &[u8], qualifier: &[u8]) -> Error {
    let column = format!("row {}, qualifier {}", show(row), show(qualifier));
    Error::new(
        ErrorKind::NotCounter,
        format!("{column} holds {len} bytes; a counter is exactly 8 (a signed big-endian integer); nothing was changed"),
    )
}

impl Inner {
    /// Adds `delta` to one counter.
    pub fn increment(
        &self,
        row: &[u8],
        family: u32,
        qualifier: &[u8],
        delta: i64,
        o: &WriteOptions,
        info: &mut CommitInfo,
    ) -> Result<Counted> {
        if o.nonce != 0 {
            return self.increment_once(row, family, qualifier, delta, o, info);
        }
        with_scratch(|thread, scratch| {
            let (mut call, mut terms) = self.enter_write(CallKind::Increment, thread, o)?;
            self.check_row(row)?;
            self.check_qualifier(qualifier)?;
            let rules = Rules::new(o.flags, o.min_value, o.max_value)?;
            let hash = self.state.hash(row);
            let sum = loop {
                match self.try_increment(hash, row, FamilyId(family), qualifier, delta, &rules, &mut terms, info, thread, scratch) {
                    Ok(sum) => break sum,
                    Err(refusal) => self.wait_for_refused(refusal, &mut terms, thread)?,
                }
            };
            call.counts(u64::from(sum.applied));
            drop(call);
            self.seal_if_due();
            Ok(Counted { value: sum.answer, applied: sum.applied })
        })
    }

    #[allow(clippy::too_many_arguments)]
    #[inline]
    fn try_increment(
        &self,
        hash: RowHash,
        row: &[u8],
        family: FamilyId,
        qualifier: &[u8],
        delta: i64,
        rules: &Rules,
        terms: &mut WriteTerms,
        info: &mut CommitInfo,
        thread: usize,
        scratch: &mut Scratch,
    ) -> std::result::Result<Sum, Refusal> {
        let state = &self.state;
        let mut locks = state.locks.lock(hash, &mut terms.timeout).map_err(|e| Refusal::Fatal(self.lock_error(e, row, &terms.timeout)))?;
        hooks::reach(Point::RowLocked, state.hook_context);
        // Slot and view only now, under the row lock: a segment loaded before could be a sealed one by then.
        let slot = state.slots.claim(thread);
        hooks::reach(Point::SlotClaimed, state.hook_context);
        let view = state.view.load(&slot);
        let Some(settings) = view.family(family) else { return Err(Refusal::Fatal(no_family(family))) };
        let lookup = newest(view, ColumnName { hash, row, family, qualifier }, &state.rules(settings));
        let current = lookup.newest.as_ref().map(|found| counter_of(found, row, qualifier)).transpose();
        let sum = match current.and_then(|current| rules.apply(current, delta)) {
            Ok(sum @ Sum { store: Some(_), .. }) => sum,
            other => {
                drop(slot);
                // The answer tells about stored data, so it waits for the sync that the data waits for.
                self.wait_for_answer(locks, terms, info).map_err(Refusal::Fatal)?;
                return other.map_err(Refusal::Fatal);
            }
        };
        let write = Write::Counter { value: sum.store.unwrap_or(0), above: lookup.newest.map_or(0, |f| f.ts) };
        let mut rows = [RowChange { hash, row, cells: 0..1, found: lookup.row }];
        let mut cells = [CellChange::new(family, qualifier, write, settings.keep, lookup.column)];
        let committed = commit(state, &mut scratch.record, &mut locks, &slot, view, &mut rows, &mut cells, terms.commit(thread))?;
        drop(slot);
        drop(locks);
        self.settle(&committed, terms, info).map_err(Refusal::Fatal)?;
        Ok(sum)
    }
}
