//! Point reads: check, claim a slot, read at the row's cut or at a snapshot.

use super::Inner;
use super::face::{Found, Key, Keys, Pinned, ValueResults, ValueSink};
use super::increment::{counter_of, no_family};
use super::scanner::Snapshot;
use super::thread;
use crate::clock::Timeout;
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::ids::FamilyId;
use crate::options::ReadOptions;
use crate::read::get::{self, At};
use crate::read::newest::{self, ColumnName};
use crate::stats::CallKind;
use crate::sync::{Arc, Ordering};

impl Inner {
    /// Reads one column with `take`, which is called again after a restart.
    #[inline]
    fn read_column<R>(
        &self,
        snapshot: Option<&Snapshot>,
        o: &ReadOptions,
        key: Key<'_>,
        mut take: impl FnMut(newest::Found<'_>) -> R,
    ) -> Result<Option<R>> {
        let thread = thread::index();
        let mut call = self.lifecycle.enter(CallKind::Read, thread)?;
        self.check_row(key.row)?;
        self.check_read(o)?;
        let family = FamilyId(key.family);
        let at = match snapshot {
            None => At::Newest,
            Some(snapshot) => snapshot.at(self)?,
        };
        let hash = self.state.hash(key.row);
        let slot = self.state.slots.claim(thread);
        let view = self.state.view.load(&slot);
        let Some(settings) = view.family(family) else { return Err(no_family(family)) };
        let rules = self.state.rules(settings);
        let name = ColumnName { hash, row: key.row, family, qualifier: key.qual };
        let answer = get::row(&self.state, view, hash, key.row, at, |view, cut| get::column(view, name, &rules, o, cut).map(&mut take));
        call.counts(1);
        Ok(answer)
    }

    /// See `Region::get`.
    pub fn get(
        self: &Arc<Self>,
        snapshot: Option<&Snapshot>,
        o: &ReadOptions,
        key: Key<'_>,
        sink: &mut dyn ValueSink,
    ) -> Result<Option<Found>> {
        let found = self.read_column(snapshot, o, key, |found| {
            let mut long = None;
            match sink.fits(found.value.len()) {
                Some(into) => found.value.with(|bytes| into.copy_from_slice(bytes)),
                None => long = Some(found.value.with(|bytes| Box::from(bytes))),
            }
            (Found { timestamp: found.ts, seq: found.seq }, long)
        })?;
        let Some((found, long)) = found else { return Ok(None) };
        if let Some(bytes) = long {
            sink.pin(Box::new(PinnedValue::new(Arc::clone(self), bytes)));
        }
        Ok(Some(found))
    }

    /// See `Region::counter_get`.
    pub fn counter_get(&self, snapshot: Option<&Snapshot>, o: &ReadOptions, key: Key<'_>) -> Result<Option<(i64, u64)>> {
        self.read_column(snapshot, o, key, |found| counter_of(&found, key.row, key.qual).map(|n| (n, found.ts)))?.transpose()
    }

    /// See `Region::get_many`.
    pub fn get_many(&self, snapshot: Option<&Snapshot>, o: &ReadOptions, keys: &dyn Keys, results: ValueResults<'_>) -> Result<()> {
        // The value is copied before it is shown: what `results` is given once is final, while a read may have to start again.
        let mut value = Vec::new();
        for i in 0..keys.len() {
            let found = self
                .read_column(snapshot, o, keys.get(i), |found| {
                    value.clear();
                    found.value.with(|bytes| value.extend_from_slice(bytes));
                    Found { timestamp: found.ts, seq: found.seq }
                })
                .map_err(|e| e.at_op(i as u64))?;
            if !results(i, found.map(|f| (f, value.as_slice()))) {
                break;
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

/// A value that outlives the read; counted until it is dropped.
pub(super) struct PinnedValue {
    inner: Arc<Inner>,
    bytes: Box<[u8]>,
}

impl PinnedValue {
    pub(super) fn new(inner: Arc<Inner>, bytes: Box<[u8]>) -> Self {
        // Relaxed: a closer that misses it lets the region go, and the value stays readable all the same.
        inner.lifecycle.children.fetch_add(1, Ordering::Relaxed);
        inner.pinned_values.fetch_add(1, Ordering::Relaxed);
        inner.pinned_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Self { inner, bytes }
    }
}

impl Pinned for PinnedValue {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PinnedValue {
    fn drop(&mut self) {
        self.inner.pinned_values.fetch_sub(1, Ordering::Relaxed);
        self.inner.lifecycle.children.fetch_sub(1, Ordering::Release);
        self.inner.pinned_bytes.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}
