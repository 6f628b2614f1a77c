//! A write of one cell: an increment, a put, a delete of a column, an append. Here is what is the same for all: admit, lock the row, claim slot and view,
//! commit, settle; again on a refusal that can be waited for. What is written is the verb's to say ([`OneCell`]).

use super::Inner;
use super::admission::WriteTerms;
use super::face::{CommitInfo, Found};
use super::thread::with_scratch;
use crate::commit::mutation::{CellChange, RowChange, Write};
use crate::commit::{Committed, Refusal, commit, wait_for_durable};
use crate::error::{Error, ErrorKind, Result};
use crate::hooks::{self, Point};
use crate::ids::FamilyId;
use crate::memstore::{ColumnRef, RowRef};
use crate::options::{Durability, WriteOptions};
use crate::read::newest::ColumnName;
use crate::rowlock::RowLocks;
use crate::stats::CallKind;
use crate::store::FamilyInfo;
use crate::store::view::View;
use crate::wal::RecordBuffer;

/// A verb that writes one cell. Decides as often as it is tried.
pub(super) trait OneCell {
    /// How the call is counted.
    const KIND: CallKind;
    /// Looks at the options of a call that was let in.
    fn check(&mut self, o: &WriteOptions, terms: &WriteTerms) -> Result<()>;
    /// What is written, under the row lock. None, or an error: nothing; what is answered then tells about stored data.
    fn decide<'v>(&'v mut self, at: &At<'v>) -> Result<Option<Change<'v>>>;
    /// What was decided last is in the log, and visible unless it waits for a sync.
    #[inline]
    fn written(&mut self, _cell: Found) {}
    /// How many operations the call counts as, at its end.
    #[inline]
    fn count(&self) -> u64 {
        1
    }
}

/// Where a verb decides.
pub(super) struct At<'v> {
    pub inner: &'v Inner,
    pub view: &'v View,
    pub settings: &'v FamilyInfo,
    pub name: ColumnName<'v>,
}

/// What a verb writes to its column, and where that was found in the active segment, if it looked.
pub(super) struct Change<'v> {
    pub write: Write<'v>,
    pub row: Option<RowRef<'v>>,
    pub column: Option<ColumnRef<'v>>,
}

impl Inner {
    /// Runs `what`.
    #[inline]
    pub(super) fn write_cell<W: OneCell>(
        &self,
        what: &mut W,
        row: &[u8],
        family: u32,
        qualifier: &[u8],
        o: &WriteOptions,
        info: &mut CommitInfo,
    ) -> Result<()> {
        with_scratch(|thread, scratch| {
            let (mut call, mut terms) = self.enter_write(W::KIND, thread, o)?;
            what.check(o, &terms)?;
            self.check_row(row)?;
            self.check_qualifier(qualifier)?;
            let name = ColumnName { hash: self.state.hash(row), row, family: FamilyId(family), qualifier };
            while let Err(refusal) = self.try_cell(what, name, &mut terms, info, thread, &mut scratch.record) {
                self.wait_for_refused(refusal, &mut terms, thread)?;
            }
            call.counts(what.count());
            drop(call);
            self.seal_if_due();
            Ok(())
        })
    }

    #[inline]
    fn try_cell(
        &self,
        what: &mut impl OneCell,
        name: ColumnName<'_>,
        terms: &mut WriteTerms,
        info: &mut CommitInfo,
        thread: usize,
        record: &mut RecordBuffer,
    ) -> std::result::Result<(), Refusal> {
        let state = &self.state;
        let ColumnName { hash, row, family, qualifier } = name;
        let locked = state.locks.lock(hash, &mut terms.timeout);
        let mut locks = locked.map_err(|e| Refusal::Fatal(self.lock_error(e, row, &terms.timeout)))?;
        hooks::reach(Point::RowLocked, state.hook_context);
        // Slot and view only now, under the row lock: a segment loaded before could be a sealed one by then.
        let slot = state.slots.claim(thread);
        hooks::reach(Point::SlotClaimed, state.hook_context);
        let view = state.view.load(&slot);
        let Some(settings) = view.family(family) else { return Err(Refusal::Fatal(no_family(family))) };
        let change = match what.decide(&At { inner: self, view, settings, name }) {
            Ok(Some(change)) => change,
            nothing => {
                let answer = nothing.map(|_| ());
                drop(slot);
                // The answer tells about stored data, so it waits for the sync that the data waits for.
                self.wait_for_answer(locks, terms, info).map_err(Refusal::Fatal)?;
                return answer.map_err(Refusal::Fatal);
            }
        };
        let write = change.write;
        let mut rows = [RowChange { hash, row, cells: 0..1, found: change.row }];
        let mut cells = [CellChange::new(family, qualifier, write, settings.keep, change.column)];
        let committed = commit(state, record, &mut locks, &slot, view, &mut rows, &mut cells, terms.commit(thread))?;
        let cell = Found { timestamp: write.timestamp(committed.tick), seq: committed.seq.0 };
        drop(slot);
        drop(locks);
        what.written(cell);
        self.settle(&committed, terms, info).map_err(Refusal::Fatal)
    }

    /// Step 3's exit: an outcome without a commit. Unlocks, then waits until what the answer tells about is durable.
    pub(super) fn wait_for_answer(&self, locks: RowLocks<'_>, terms: &mut WriteTerms, info: &mut CommitInfo) -> Result<()> {
        let pending = locks.fsync_pending();
        drop(locks);
        info.flags |= CommitInfo::DURABLE;
        self.wait_for_pending(pending, terms)
    }

    /// Waits for a sync that a row's newest commit waits for; nothing of this call was done.
    pub(super) fn wait_for_pending(&self, pending: u64, terms: &mut WriteTerms) -> Result<()> {
        let Some(log) = &self.state.log else { return Ok(()) };
        if pending <= log.durable() {
            return Ok(());
        }
        log.wait_for_durable(pending, &mut terms.timeout).map_err(|why| match why {
            crate::wal::NotDurable::Timeout => Error::new(
                ErrorKind::Timeout,
                format!(
                    "what the row holds waits for the sync of commit {pending}, which did not end within {} µs; nothing was changed",
                    terms.timeout.micros()
                ),
            ),
            crate::wal::NotDurable::Poisoned => self.state.health.error(),
        })
    }

    /// Step 11 and the commit info.
    #[inline]
    pub(super) fn settle(&self, committed: &Committed, terms: &mut WriteTerms, info: &mut CommitInfo) -> Result<()> {
        info.timestamp = committed.tick.0;
        if committed.unlogged {
            self.note_unlogged(committed);
        }
        info.seq = if committed.unlogged { 0 } else { committed.seq.0 };
        if committed.waits_for_sync {
            wait_for_durable(&self.state, committed.seq, &mut terms.timeout)?;
        }
        // ASYNC is the level whose callers come back to wait; every other one has by now what it asked for.
        if committed.waits_for_sync || terms.durability != Durability::AsyncWal {
            info.flags |= CommitInfo::DURABLE;
        }
        Ok(())
    }
}

/// The error for an id that the region does not have.
#[cold]
pub fn no_family(family: FamilyId) -> Error {
    Error::new(
        ErrorKind::NoFamily,
        format!("no column family with id {} here; region_family_id tells ids by name, region_family_set creates one", family.0),
    )
}
