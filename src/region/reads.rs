//! Point reads: check, claim a slot, read at the row's cut or at a snapshot.

use super::Inner;
use super::face::{CounterResults, Found, Key, Keys, ValueResults, ValueSink};
use super::increment::counter_of;
use super::pinned::PinnedValue;
use super::single::no_family;
use super::snapshot::Snapshot;
use super::thread;
use crate::clock::Timeout;
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::ids::{FamilyId, RowHash};
use crate::memstore::{PinnedBytes, VersionValue};
use crate::options::ReadOptions;
use crate::read::get::{self, At};
use crate::read::newest::{self, ColumnName};
use crate::stats::CallKind;
use crate::store::view::View;
use crate::sync::Arc;
use std::ops::Range;

/// A row as a read sees it.
pub(super) struct RowView<'v> {
    pub view: &'v View,
    pub hash: RowHash,
    /// Commits with a number up to this one are shown.
    pub cut: u64,
}

/// A value that is to outlive the read.
enum Long {
    Pinned(PinnedBytes),
    Copied(Box<[u8]>),
}

impl Inner {
    /// Reads of one row at one cut with `look`, which is called again after a restart; its last answer counts. The call counts as `reads`.
    #[inline]
    pub(super) fn read_row<R>(
        &self,
        snapshot: Option<&Snapshot>,
        o: &ReadOptions,
        row: &[u8],
        reads: usize,
        mut look: impl FnMut(RowView<'_>) -> Result<R>,
    ) -> Result<R> {
        let thread = thread::index();
        let mut call = self.lifecycle.enter(CallKind::Read, thread)?;
        self.check_row(row)?;
        self.check_read(o)?;
        let at = match snapshot {
            None => At::Newest,
            Some(snapshot) => snapshot.at(self)?,
        };
        let hash = self.state.hash(row);
        let slot = self.state.slots.claim(thread);
        let view = self.state.view.load(&slot);
        let answer = get::row(&self.state, view, hash, row, at, |view, cut| look(RowView { view, hash, cut }))?;
        call.counts(reads as u64);
        Ok(answer)
    }
    /// One column of the row.
    #[inline]
    fn column<'v>(&self, at: &RowView<'v>, o: &ReadOptions, key: Key<'_>) -> Result<Option<newest::Found<'v>>> {
        let family = FamilyId(key.family);
        let Some(settings) = at.view.family(family) else { return Err(no_family(family)) };
        let name = ColumnName { hash: at.hash, row: key.row, family, qualifier: key.qual };
        Ok(get::column(at.view, name, &self.state.rules(settings), o, at.cut))
    }

    /// See `Region::get`.
    pub fn get(
        self: &Arc<Self>,
        snapshot: Option<&Snapshot>,
        o: &ReadOptions,
        key: Key<'_>,
        sink: &mut dyn ValueSink,
    ) -> Result<Option<Found>> {
        let found = self.read_row(snapshot, o, key.row, 1, |at| {
            let Some(found) = self.column(&at, o, key)? else { return Ok(None) };
            let mut long = None;
            match sink.fits(found.value.len()) {
                Some(into) => found.value.with(|bytes| into.copy_from_slice(bytes)),
                None => long = Some(keep(at.view, &found.value)),
            }
            Ok(Some((Found { timestamp: found.ts, seq: found.seq }, long)))
        })?;
        let Some((found, long)) = found else { return Ok(None) };
        match long {
            None => {}
            Some(Long::Pinned(bytes)) => sink.pin(Box::new(PinnedValue::new(Arc::clone(self), bytes))),
            Some(Long::Copied(bytes)) => sink.pin(Box::new(PinnedValue::new(Arc::clone(self), bytes))),
        }
        Ok(Some(found))
    }

    /// See `Region::counter_get`.
    pub fn counter_get(&self, snapshot: Option<&Snapshot>, o: &ReadOptions, key: Key<'_>) -> Result<Option<(i64, u64)>> {
        self.read_row(snapshot, o, key.row, 1, |at| match self.column(&at, o, key)? {
            Some(found) => counter_of(&found, key.row, key.qual).map(|n| Some((n, found.ts))),
            None => Ok(None),
        })
    }

    /// See `Region::counter_get_many`.
    pub fn counter_get_many(&self, snapshot: Option<&Snapshot>, o: &ReadOptions, keys: &dyn Keys, results: CounterResults<'_>) {
        let mut answers = Vec::new();
        let mut i = 0;
        while i < keys.len() {
            let group = same_row(keys, i);
            i = group.end;
            let read = self.read_row(snapshot, o, keys.get(group.start).row, group.len(), |at| {
                answers.clear();
                for key in group.clone().map(|k| keys.get(k)) {
                    let found = self.column(&at, o, key);
                    answers.push(found.and_then(|f| f.map(|f| counter_of(&f, key.row, key.qual).map(|n| (n, f.ts))).transpose()));
                }
                Ok(())
            });
            match read {
                Ok(()) => group.zip(answers.drain(..)).for_each(|(k, answer)| results(k, answer)),
                // The row cannot be read: each of its keys says so.
                Err(_) => group.for_each(|k| results(k, self.counter_get(snapshot, o, keys.get(k)))),
            }
        }
    }

    /// See `Region::get_many`.
    pub fn get_many(
        &self,
        snapshot: Option<&Snapshot>,
        o: &ReadOptions,
        keys: &dyn Keys,
        bytes_max: usize,
        results: ValueResults<'_>,
    ) -> Result<()> {
        // Values are copied before they are shown: what `results` is given once is final, while a read may have to start again.
        let mut bytes = Vec::new();
        let mut values = Vec::new();
        let mut i = 0;
        while i < keys.len() {
            let group = same_row(keys, i);
            self.read_row(snapshot, o, keys.get(i).row, group.len(), |at| {
                bytes.clear();
                values.clear();
                for k in group.clone() {
                    let found = self.column(&at, o, keys.get(k)).map_err(|e| e.at_op(k as u64))?;
                    let from = bytes.len();
                    if let Some(found) = &found {
                        found.value.with(|value| bytes.extend_from_slice(value));
                    }
                    values.push((found.map(|f| Found { timestamp: f.ts, seq: f.seq }), from..bytes.len()));
                    if bytes.len() > bytes_max {
                        break;
                    }
                }
                Ok(())
            })
            .map_err(|e| if e.op_index() == u64::MAX { e.at_op(i as u64) } else { e })?;
            for (found, range) in &values {
                let value = bytes.get(range.clone()).unwrap_or_default();
                if !results(i, found.map(|f| (f, value))) {
                    return Ok(());
                }
                i += 1;
            }
        }
        Ok(())
    }

    /// Read options we know, in a form that makes sense.
    #[inline]
    pub(super) fn check_read(&self, o: &ReadOptions) -> Result<()> {
        if o.max_ts != 0 && o.max_ts < o.min_ts {
            return fail!(Invalid, "the time range [{}, {}) ends before it begins", o.min_ts, o.max_ts);
        }
        if o.flags & !ReadOptions::FLAGS_ALL != 0 {
            return fail!(Unsupported, "flags: {:#x} is not known to this version", o.flags & !ReadOptions::FLAGS_ALL);
        }
        Ok(())
    }

    /// See `Region::wait_durable`.
    pub fn wait_durable(&self, seq: u64, mut timeout: Timeout) -> Result<()> {
        let _call = self.lifecycle.enter(CallKind::Other, thread::index())?;
        let Some(log) = &self.state.log else {
            return fail!(ReadOnly, "{} is open read-only: there is nothing to wait for", self.path.display());
        };
        let last = log.number_now().0.0;
        if seq == 0 || seq > last {
            return fail!(
                Invalid,
                "commit number {seq} was never given out (the last one is {last}; 0 means that a call wrote nothing to the log)"
            );
        }
        log.wait_for_durable(seq, &mut timeout).map_err(|why| match why {
            crate::wal::NotDurable::Timeout => {
                Error::new(ErrorKind::Timeout, format!("the sync of commit {seq} did not end within {} µs; wait again", timeout.micros()))
            }
            crate::wal::NotDurable::Poisoned => Error::new(
                ErrorKind::OutcomeUnknown,
                format!(
                    "the sync of commit {seq} failed ({}); reopen the region to find out whether it survived",
                    self.state.health.reason()
                ),
            )
            .with_commit(seq),
        })
    }
}

/// The keys from `first` on that name the same row.
fn same_row(keys: &dyn Keys, first: usize) -> Range<usize> {
    let row = keys.get(first).row;
    let end = (first + 1..keys.len()).find(|&k| keys.get(k).row != row).unwrap_or(keys.len());
    first..end
}

/// The value for longer than the slot is held: where it lies, if it lies in a segment.
#[cold]
fn keep(view: &View, value: &VersionValue<'_>) -> Long {
    if let VersionValue::Bytes(bytes) = value
        && let Some(pinned) = view.segments().find_map(|s| PinnedBytes::new(s, bytes))
    {
        return Long::Pinned(pinned);
    }
    Long::Copied(value.with(|bytes| Box::from(bytes)))
}
