//! How a write of one cell ends: an outcome without a commit, or step 11.

use super::Inner;
use super::admission::WriteTerms;
use super::face::CommitInfo;
use crate::commit::{Committed, wait_for_durable};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::FamilyId;
use crate::options::Durability;
use crate::rowlock::RowLocks;

impl Inner {
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
