//! The verbs, and the life of a region. Delegates: reading is done in `read`, committing in `commit`.
//!
//! - life: `open`, `place`, `recover`, `close`, `lifecycle`, `background` (seal), `family`, `describe`, `watch` (what the log is told about)
//! - writes: `admission` → `single` (`increment`, `mutate`, `append`) | `batch` (`runs`, `group`, `change`, `check`, `tally`; `once` where the call has a
//!   nonce); `counter`
//! - reads: `reads` (gets, counters), `rows` (whole rows), `pinned`, `snapshot`, `scanner` (`scan_spec`, `ahead`)
//!
//! Threads: every verb may be called from any number of threads; a scanner by one at a time.
#![forbid(unsafe_code)]

mod admission;
mod ahead;
mod append;
mod background;
mod batch;
mod change;
mod check;
mod close;
mod counter;
mod describe;
mod face;
mod family;
mod fingerprint;
mod group;
mod increment;
mod lifecycle;
mod mutate;
mod once;
mod open;
mod pinned;
mod place;
mod reads;
mod recover;
mod rows;
mod runs;
mod scan_spec;
mod scanner;
mod single;
mod snapshot;
mod tally;
mod thread;
mod watch;

pub use face::*;
pub use scanner::Scanner;
pub use snapshot::Snapshot;

use crate::clock::Timeout;
use crate::commit::Committed;
use crate::env::{DirLock, Env};
use crate::error::Result;
use crate::ids::{FamilyId, SequenceNumber};
use crate::lock_order::{self, Level, LevelGuard};
use crate::mvcc::{Busy, Retired};
use crate::options::{Durability, FamilySpec, ReadOptions, RegionOptions, Settings, WriteOptions};
use crate::stats::CallKind;
use crate::store::state::State;
use crate::store::view::View;
use crate::store::{FamilyInfo, Manifest};
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering};
use lifecycle::Lifecycle;
use once::NonceTime;
use std::path::{Path, PathBuf};

/// An open region. Clones name the same one.
#[derive(Clone)]
pub struct Region {
    inner: Arc<Inner>,
}

/// What an open region consists of.
pub(crate) struct Inner {
    // Fixed at open.
    pub path: PathBuf,
    pub settings: Settings,
    pub durability: Durability,
    pub write_timeout_us: u64,
    pub read_only: bool,
    pub start_row: Vec<u8>,
    pub end_row: Vec<u8>,
    pub has_range: bool,
    pub run_bytes_max: usize,
    pub env: Arc<dyn Env>,
    /// JSON of what recovery found.
    pub report: String,
    // Shared by commits and reads.
    pub state: State,
    pub lifecycle: Lifecycle,
    pub nonce_time: NonceTime,
    /// Which calls have been running for long.
    pub busy: Arc<Busy>,
    /// Commits since the last seal, counted only if the option asks for seals.
    pub commits_since_seal: AtomicU64,
    pub seals: AtomicU64,
    /// Bytes of SKIP_WAL commits, lost by a crash.
    pub unlogged_bytes: AtomicU64,
    pub open_scanners: AtomicU64,
    pub open_snapshots: AtomicU64,
    pub pinned_values: AtomicU64,
    pub pinned_bytes: AtomicU64,
    // Level 0: manifest.
    manifest: Mutex<Manifest>,
    // Level 1: one view change at a time, and one closer.
    seal_lock: Mutex<()>,
    close_lock: Mutex<()>,
    // Leaves.
    /// Released by close.
    dir_lock: Mutex<Option<Box<dyn DirLock>>>,
    /// The log's last number before the first of this life.
    number_at_open: SequenceNumber,
    /// Views that were replaced while the region was poisoned: calls that began before may still read them. They go with the region.
    retired: Mutex<Vec<Retired<View>>>,
}

/// A lock of level 0 or 1, with what asserts the order of levels.
type Leveled<'r, T> = (MutexGuard<'r, T>, LevelGuard);

impl Inner {
    /// Snapshots, scanners and pinned values.
    pub fn open_children(&self) -> u64 {
        // Acquire: a closer that sees 0 sees all that the children did.
        self.lifecycle.children.load(Ordering::Acquire)
    }
    fn lock_manifest(&self) -> Leveled<'_, Manifest> {
        let level = lock_order::enter(Level::Manifest, "the manifest");
        (self.manifest.lock(), level)
    }
    fn lock_seal(&self) -> Leveled<'_, ()> {
        let level = lock_order::enter(Level::Lifecycle, "the lock of view changes");
        (self.seal_lock.lock(), level)
    }
    fn lock_close(&self) -> Leveled<'_, ()> {
        let level = lock_order::enter(Level::Lifecycle, "the closer's lock");
        (self.close_lock.lock(), level)
    }
    /// Publishes another view and frees the old one once nobody can hold it any more. The lock of view changes is held, and no slot. On an error (the region is
    /// poisoned) the new view is published all the same.
    fn replace_view(&self, next: View, _one_at_a_time: &Leveled<'_, ()>) -> Result<()> {
        let old = self.state.view.replace(Box::new(next));
        match old.reclaim(&self.state.slots, &mut Timeout::forever()) {
            Ok(old) => {
                drop(old);
                Ok(())
            }
            Err((old, e)) => {
                self.retired.lock().push(old);
                Err(e)
            }
        }
    }
    /// Frees the views that were kept. No call runs any more.
    fn free_retired(&self) {
        for old in std::mem::take(&mut *self.retired.lock()) {
            match old.reclaim(&self.state.slots, &mut Timeout::no_wait()) {
                Ok(old) => drop(old),
                // Only if a call runs on nevertheless: then it leaks rather than being freed under the reader.
                Err((_, e)) => log::error!(target: "region", "{}: memory of an old view is lost: {e}", self.path.display()),
            }
        }
    }
    fn note_unlogged(&self, committed: &Committed) {
        // Relaxed: a statistic.
        self.unlogged_bytes.fetch_add(committed.bytes as u64, Ordering::Relaxed);
    }
}

impl Region {
    /// Opens (or creates) the region at `path`. `progress` is called during recovery, at least every 100 ms; true cancels.
    pub fn open(
        path: &Path,
        options: RegionOptions,
        pool: Option<Arc<crate::mslab::ChunkPool>>,
        progress: Option<&mut dyn FnMut(Progress) -> bool>,
    ) -> Result<Self> {
        open::open(Arc::new(crate::env::os::OsEnv), path, &options, pool, progress).map(|inner| Self { inner: Arc::new(inner) })
    }
    /// As [`Region::open`], over another outside world: for tests.
    #[cfg(any(test, feature = "test-hooks"))]
    pub fn open_in(
        env: Arc<dyn Env>,
        path: &Path,
        options: RegionOptions,
        pool: Option<Arc<crate::mslab::ChunkPool>>,
        progress: Option<&mut dyn FnMut(Progress) -> bool>,
    ) -> Result<Self> {
        open::open(env, path, &options, pool, progress).map(|inner| Self { inner: Arc::new(inner) })
    }
    /// As [`Region::open_in`], with a clock that the test moves. Its unit must be the region's.
    #[cfg(any(test, feature = "test-hooks"))]
    pub fn open_with_clock(
        env: Arc<dyn Env>,
        path: &Path,
        options: RegionOptions,
        pool: Option<Arc<crate::mslab::ChunkPool>>,
        clock: Arc<dyn crate::clock::Clock>,
    ) -> Result<Self> {
        let clock = crate::clock::RegionClock::Other(clock);
        open::open_with(env, path, &options, pool, None, Some(clock)).map(|inner| Self { inner: Arc::new(inner) })
    }
    /// What a hook installed for this region must name; see `hooks.rs`.
    #[cfg(any(test, feature = "test-hooks"))]
    pub fn hook_context(&self) -> u64 {
        self.inner.state.hook_context
    }
    /// Keyed hash of a row: its low bits tell which rows share a bucket of the lock table. For tests.
    #[cfg(any(test, feature = "test-hooks"))]
    pub fn row_hash(&self, row: &[u8]) -> crate::ids::RowHash {
        self.inner.state.hash(row)
    }
    /// Removes the region at `path`, which must not be open, with all it holds.
    pub fn destroy(path: &Path) -> Result<()> {
        close::destroy(&crate::env::os::OsEnv, path)
    }
    /// Closes it. An error of kind Busy or Timeout: still open, everything as before; every other return: closed.
    pub fn close(&self, flags: CloseFlags, timeout: Timeout) -> Result<()> {
        self.inner.close(flags, timeout)
    }
    /// Microseconds that a call waits which names no timeout.
    pub fn write_timeout_us(&self) -> u64 {
        self.inner.write_timeout_us
    }
    /// True once it is closed.
    pub fn is_closed(&self) -> bool {
        self.inner.lifecycle.is_closed()
    }
    /// Refuses writes from now on: the boundary caught a bug.
    pub fn poison(&self, reason: &str) {
        self.inner.state.health.poison(reason);
    }

    /// Id of the family with this name.
    pub fn family_id(&self, name: &[u8]) -> Result<Option<FamilyId>> {
        self.inner.family_id(name)
    }
    /// Creates the family, or changes its settings.
    pub fn family_set(&self, spec: FamilySpec) -> Result<FamilyId> {
        self.inner.family_set(&spec)
    }
    /// Drops the family and all its cells.
    pub fn family_drop(&self, id: FamilyId) -> Result<()> {
        self.inner.family_drop(id)
    }
    /// The family with the smallest id above `after`.
    pub fn family_next(&self, after: u32) -> Result<Option<(FamilyId, Arc<FamilyInfo>)>> {
        self.inner.family_next(after)
    }

    /// Adds `delta` to one counter and returns the new value.
    #[inline]
    pub fn increment(
        &self,
        row: &[u8],
        family: u32,
        qualifier: &[u8],
        delta: i64,
        o: &WriteOptions,
        info: &mut CommitInfo,
    ) -> Result<Counted> {
        self.inner.increment(row, family, qualifier, delta, o, info)
    }
    /// Adds to counters of one row, all or none. `values` gets the results in the order given. Some: a bound of this column was not met, nothing changed.
    pub fn increment_row(
        &self,
        row: &[u8],
        columns: &dyn IncrementColumns,
        o: &WriteOptions,
        info: &mut CommitInfo,
        values: &mut [i64],
    ) -> Result<Option<usize>> {
        let mut keep = |i: usize, r: OpResult| {
            if let Some(value) = values.get_mut(i) {
                *value = r.value;
            }
        };
        // One row is one group, and a group is applied whole or not at all.
        match self.inner.batch(CallKind::Increment, &OfRow { row, columns }, o, info, &mut keep)? {
            BatchOutcome::Done => Ok(None),
            BatchOutcome::NotApplied { first } => Ok(Some(first)),
            BatchOutcome::Partial { error, .. } => Err(error),
        }
    }
    /// Adds to counters of many rows.
    pub fn increment_many<I: Increments + ?Sized>(
        &self,
        incs: &I,
        o: &WriteOptions,
        info: &mut CommitInfo,
        results: &mut dyn FnMut(usize, OpResult),
    ) -> Result<BatchOutcome> {
        self.inner.batch(CallKind::Increment, &AsMutations(incs), o, info, results)
    }
    /// Runs a batch of operations.
    pub fn batch(
        &self,
        ops: &dyn Mutations,
        o: &WriteOptions,
        info: &mut CommitInfo,
        results: &mut dyn FnMut(usize, OpResult),
    ) -> Result<BatchOutcome> {
        self.inner.batch(CallKind::Write, ops, o, info, results)
    }
    /// Stores a value.
    pub fn put(&self, row: &[u8], family: u32, qualifier: &[u8], value: &[u8], o: &WriteOptions, info: &mut CommitInfo) -> Result<()> {
        self.inner.put(row, family, qualifier, value, o, info)
    }
    /// Deletes; `op` says what.
    pub fn delete(&self, row: &[u8], family: u32, qualifier: &[u8], op: Op, o: &WriteOptions, info: &mut CommitInfo) -> Result<()> {
        self.inner.delete(row, family, qualifier, op, o, info)
    }
    /// Appends `suffix` to a value, or stores it where there is none. `new_value` gets the whole value.
    #[expect(clippy::too_many_arguments, reason = "the C call's")]
    pub fn append(
        &self,
        row: &[u8],
        family: u32,
        qualifier: &[u8],
        suffix: &[u8],
        o: &WriteOptions,
        info: &mut CommitInfo,
        new_value: Option<&mut dyn ValueSink>,
    ) -> Result<Found> {
        self.inner.append(row, family, qualifier, suffix, o, info, new_value)
    }
    /// Waits until the commit with this number is on stable storage.
    pub fn wait_durable(&self, seq: SequenceNumber, timeout: Timeout) -> Result<()> {
        self.inner.wait_durable(seq.0, timeout)
    }

    /// Reads a column into `sink`. None: the column holds nothing.
    pub fn get(&self, snapshot: Option<&Snapshot>, o: &ReadOptions, key: Key<'_>, sink: &mut dyn ValueSink) -> Result<Option<Found>> {
        self.inner.get(snapshot, o, key, sink)
    }
    /// Reads a counter: value and timestamp.
    pub fn counter_get(&self, snapshot: Option<&Snapshot>, o: &ReadOptions, key: Key<'_>) -> Result<Option<(i64, u64)>> {
        self.inner.counter_get(snapshot, o, key)
    }
    /// Reads many counters, in order.
    pub fn counter_get_many(
        &self,
        snapshot: Option<&Snapshot>,
        o: &ReadOptions,
        keys: &dyn Keys,
        results: CounterResults<'_>,
    ) -> Result<()> {
        self.inner.counter_get_many(snapshot, o, keys, results);
        Ok(())
    }
    /// Reads many values, in order, until `results` answers false. Consecutive keys of one row are read at one instant, up to the one with which their
    /// values exceed `bytes_max`: it is the last that is answered then.
    pub fn get_many(
        &self,
        snapshot: Option<&Snapshot>,
        o: &ReadOptions,
        keys: &dyn Keys,
        bytes_max: usize,
        results: ValueResults<'_>,
    ) -> Result<()> {
        self.inner.get_many(snapshot, o, keys, bytes_max, results)
    }
    /// Reads the chosen columns of one row (none: all) into `sink`, up to `max_versions` of each (0 = 1), all at one instant.
    pub fn get_row(
        &self,
        snapshot: Option<&Snapshot>,
        o: &ReadOptions,
        row: &[u8],
        columns: &[ColumnFilter<'_>],
        max_versions: u32,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        self.inner.get_row(snapshot, o, row, columns, max_versions, sink)
    }

    /// Opens a snapshot.
    pub fn snapshot(&self, timeout: Timeout) -> Result<Snapshot> {
        snapshot::open_snapshot(&self.inner, timeout)
    }
    /// Opens a scanner; without a snapshot it takes one of its own.
    pub fn scanner(&self, snapshot: Option<&Snapshot>, o: &ReadOptions, spec: &ScanSpec<'_>) -> Result<Scanner> {
        scanner::open_scanner(&self.inner, o, snapshot, spec)
    }

    /// Figures of now.
    pub fn stats(&self) -> Result<RegionStats> {
        self.inner.stats()
    }
    /// Settings and families as JSON.
    pub fn describe(&self) -> Result<String> {
        self.inner.describe()
    }
    /// What recovery found when the region was opened, as JSON.
    pub fn recovery_report(&self) -> Result<String> {
        let _call = self.inner.lifecycle.enter(CallKind::Other, thread::index())?;
        Ok(self.inner.report.clone())
    }
    /// Seals the active memstore segment: new commits go to a fresh one. For tests; a flush will begin with it.
    #[cfg(any(test, feature = "test-hooks"))]
    pub fn seal(&self) -> Result<()> {
        self.inner.seal()
    }
}

/// Increments as operations of a batch. Generic, so that an element takes one call through a table of functions, not two.
struct AsMutations<'a, I: ?Sized>(&'a I);

impl<I: Increments + ?Sized> Mutations for AsMutations<'_, I> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        let x = self.0.get(i);
        Mutation { op: Op::Increment, family: x.family, row: x.row, qual: x.qual, value: b"", delta: x.delta, timestamp: 0 }
    }
}

/// Columns of one row as operations of a batch.
struct OfRow<'a> {
    row: &'a [u8],
    columns: &'a dyn IncrementColumns,
}

impl Mutations for OfRow<'_> {
    fn len(&self) -> usize {
        self.columns.len()
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        let x = self.columns.get(i);
        Mutation { op: Op::Increment, family: x.family, row: self.row, qual: x.qual, value: b"", delta: x.delta, timestamp: 0 }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
