//! A region in memory, behind the face of the real one: enough to build and test the C boundary against. Not part of the product.
//!
//! One lock over one ordered map; versions are never dropped, so that a snapshot is a number. Regions live as long as the process, by path.
#![expect(clippy::type_complexity, reason = "written out once, here")]

use super::*;
use crate::clock::{ClockUnit, Timeout};
use crate::error::Result;
use crate::fail;
use crate::health::Health;
use crate::ids::{FamilyId, ROW_BYTES_MAX, SequenceNumber, TIMESTAMP_MAX};
use crate::mslab::ChunkPool;
use crate::options::{FamilyInfo, FamilySpec, ReadOptions, RegionOptions, Settings, WriteOptions};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

#[derive(Clone)]
struct Version {
    seq: u64,
    timestamp: u64,
    kind: CellType,
    value: Arc<[u8]>,
}
type Name = (Vec<u8>, u32, Vec<u8>);

#[derive(Default)]
struct Data {
    cells: BTreeMap<Name, Vec<Version>>,
    families: BTreeMap<u32, Arc<FamilyInfo>>,
    last_family: u32,
    last: u64,
    open: bool,
}

static REGIONS: std::sync::OnceLock<Mutex<HashMap<PathBuf, Arc<Mutex<Data>>>>> = std::sync::OnceLock::new();

fn regions() -> &'static Mutex<HashMap<PathBuf, Arc<Mutex<Data>>>> {
    REGIONS.get_or_init(|| Mutex::new(HashMap::new()))
}

struct Inner {
    data: Arc<Mutex<Data>>,
    settings: Settings,
    read_only: bool,
    health: Health,
    closed: AtomicBool,
    /// Snapshots, scanners, pinned values, bytes of those.
    snapshots: AtomicU64,
    scanners: AtomicU64,
    pins: AtomicU64,
    pin_bytes: AtomicU64,
    _pool: Arc<ChunkPool>,
}

/// An open region; a clone is the same one.
#[derive(Clone)]
pub struct Region(Arc<Inner>);

/// A read point.
pub struct Snapshot {
    region: Region,
    seq: u64,
}

/// A scan under way.
pub struct Scanner {
    region: Region,
    cells: Vec<(Name, Version)>,
    next: usize,
    reverse: bool,
}

struct Pin {
    bytes: Arc<[u8]>,
    region: Region,
}

impl Pinned for Pin {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
impl Drop for Pin {
    fn drop(&mut self) {
        self.region.0.pins.fetch_sub(1, Ordering::Relaxed);
        self.region.0.pin_bytes.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}
impl Drop for Snapshot {
    fn drop(&mut self) {
        self.region.0.snapshots.fetch_sub(1, Ordering::Relaxed);
    }
}
impl Drop for Scanner {
    fn drop(&mut self) {
        self.region.0.scanners.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a column holds at read point `n`.
fn at(versions: &[Version], n: u64) -> Option<&Version> {
    let mut best: Option<&Version> = None;
    for v in versions.iter().filter(|v| v.seq <= n) {
        match v.kind {
            CellType::Put => {
                if best.is_none_or(|b| (v.timestamp, v.seq) >= (b.timestamp, b.seq)) {
                    best = Some(v);
                }
            }
            _ => best = None,
        }
    }
    best
}

fn counter(v: Option<&Version>) -> Result<Option<i64>> {
    match v {
        None => Ok(None),
        Some(v) => match <[u8; 8]>::try_from(&*v.value) {
            Ok(b) => Ok(Some(i64::from_be_bytes(b))),
            Err(_) => fail!(NotCounter, "the stored value has {} bytes; a counter has 8", v.value.len()),
        },
    }
}

/// What one commit is going to write.
#[derive(Default)]
struct Draft {
    writes: Vec<(Name, CellType, Arc<[u8]>, u64)>,
}

impl Draft {
    fn current(&self, data: &Data, name: &Name) -> Option<Version> {
        for (n, kind, value, ts) in self.writes.iter().rev() {
            if n == name {
                return (*kind == CellType::Put).then(|| Version { seq: 0, timestamp: *ts, kind: *kind, value: value.clone() });
            }
        }
        data.cells.get(name).and_then(|v| at(v, u64::MAX)).cloned()
    }
    fn write(self, data: &mut Data) -> (u64, u64) {
        if self.writes.is_empty() {
            return (0, 0);
        }
        data.last += 1;
        let now = 1_000_000 + data.last;
        for (name, kind, value, ts) in self.writes {
            let timestamp = if ts == 0 { now } else { ts };
            data.cells.entry(name).or_default().push(Version { seq: data.last, timestamp, kind, value });
        }
        (data.last, now)
    }
}

impl Region {
    /// Opens or creates the region at `path`.
    pub fn open(
        path: &Path,
        o: RegionOptions,
        pool: Option<Arc<ChunkPool>>,
        progress: Option<&mut dyn FnMut(Progress) -> bool>,
    ) -> Result<Self> {
        let settings = o.check()?;
        let pool = match pool {
            Some(p) => p,
            None => ChunkPool::shared()?,
        };
        if let Some(p) = progress
            && p(Progress { phase: Phase::Recovery, done: 0, total: 0 })
        {
            return fail!(Cancelled, "opening was cancelled by the progress callback");
        }
        let mut all = regions().lock();
        let known = all.get(path).cloned();
        let data = match known {
            Some(_) if o.flags.error_if_exists => return fail!(Exists, "{}: there is a region already", path.display()),
            Some(d) => d,
            None if !o.flags.create => {
                return fail!(NoRegion, "{}: there is no region here; pass REGION_OPEN_CREATE to make one", path.display());
            }
            None => Arc::new(Mutex::new(Data::default())),
        };
        {
            let mut d = data.lock();
            if d.open {
                return fail!(Locked, "{}: open in process {}", path.display(), std::process::id());
            }
            d.open = true;
            for f in &o.families {
                set_family(&mut d, f)?;
            }
        }
        all.insert(path.to_path_buf(), data.clone());
        log::info!(target: "region", "opened {}", path.display());
        Ok(Self(Arc::new(Inner {
            data,
            settings,
            read_only: o.flags.read_only,
            health: Health::new(),
            closed: AtomicBool::new(false),
            snapshots: AtomicU64::new(0),
            scanners: AtomicU64::new(0),
            pins: AtomicU64::new(0),
            pin_bytes: AtomicU64::new(0),
            _pool: pool,
        })))
    }
    /// Removes the region at `path`.
    pub fn destroy(path: &Path) -> Result<()> {
        let mut all = regions().lock();
        match all.get(path) {
            None => return fail!(NoRegion, "{}: there is no region here", path.display()),
            Some(d) if d.lock().open => return fail!(Locked, "{}: still open", path.display()),
            Some(_) => {}
        }
        all.remove(path);
        Ok(())
    }
    /// Closes it; see the C interface.
    pub fn close(&self, flags: CloseFlags, _: Timeout) -> Result<()> {
        let children = self.0.snapshots.load(Ordering::SeqCst) + self.0.scanners.load(Ordering::SeqCst);
        if children > 0 && !flags.force && !self.0.closed.load(Ordering::SeqCst) {
            return fail!(Busy, "{children} snapshots and scanners are open");
        }
        if self.0.closed.swap(true, Ordering::SeqCst) {
            return fail!(Closed, "closed already");
        }
        self.0.data.lock().open = false;
        Ok(())
    }
    /// Refuses writes from now on.
    pub fn poison(&self, reason: &str) {
        self.0.health.poison(reason);
    }
    /// What a call waits that names no timeout.
    pub fn write_timeout_us(&self) -> u64 {
        self.0.settings.write_timeout_us
    }
    fn check_open(&self) -> Result<()> {
        if self.0.closed.load(Ordering::Acquire) { fail!(Closed, "the region is closed") } else { Ok(()) }
    }
    fn check_write(&self, o: &WriteOptions) -> Result<()> {
        self.check_open()?;
        self.0.health.check()?;
        if self.0.read_only {
            return fail!(ReadOnly, "the region was opened read-only");
        }
        if o.timestamp > TIMESTAMP_MAX {
            return fail!(Invalid, "timestamp {} is above 2^62", o.timestamp);
        }
        Ok(())
    }
    /// Id of a family.
    pub fn family_id(&self, name: &[u8]) -> Result<Option<FamilyId>> {
        self.check_open()?;
        Ok(self.0.data.lock().families.values().find(|f| f.name == name).map(|f| f.id))
    }
    /// Creates or changes a family.
    pub fn family_set(&self, spec: FamilySpec) -> Result<FamilyId> {
        self.check_write(&WriteOptions::DEFAULT)?;
        set_family(&mut self.0.data.lock(), &spec)
    }
    /// Drops a family.
    pub fn family_drop(&self, id: FamilyId) -> Result<()> {
        self.check_write(&WriteOptions::DEFAULT)?;
        match self.0.data.lock().families.remove(&id.0) {
            Some(_) => Ok(()),
            None => fail!(NoFamily, "no family has id {}", id.0),
        }
    }
    /// The family with the next id.
    pub fn family_next(&self, after: u32) -> Result<Option<(FamilyId, Arc<FamilyInfo>)>> {
        self.check_open()?;
        let d = self.0.data.lock();
        Ok(d.families
            .range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded))
            .next()
            .map(|(id, f)| (FamilyId(*id), f.clone())))
    }
    /// Adds to a counter.
    pub fn increment(&self, row: &[u8], family: u32, qual: &[u8], delta: i64, o: &WriteOptions, info: &mut CommitInfo) -> Result<Counted> {
        self.check_write(o)?;
        let mut d = self.0.data.lock();
        let mut draft = Draft::default();
        let counted = add(&d, &mut draft, row, family, qual, delta, o)?;
        commit(&mut d, draft, info);
        Ok(counted)
    }
    /// Adds to several counters of a row.
    pub fn increment_row(
        &self,
        row: &[u8],
        cols: &dyn IncrementColumns,
        o: &WriteOptions,
        info: &mut CommitInfo,
        values: &mut [i64],
    ) -> Result<bool> {
        self.check_write(o)?;
        let mut d = self.0.data.lock();
        let mut draft = Draft::default();
        let mut applied = true;
        for i in 0..cols.len() {
            let c = cols.get(i);
            let counted = add(&d, &mut draft, row, c.family, c.qual, c.delta, o).map_err(|e| e.at_op(i as u64))?;
            applied &= counted.applied;
            if let Some(v) = values.get_mut(i) {
                *v = counted.value;
            }
        }
        if applied {
            commit(&mut d, draft, info);
        }
        Ok(applied)
    }
    /// Adds to many counters.
    pub fn increment_many(
        &self,
        incs: &dyn Increments,
        o: &WriteOptions,
        info: &mut CommitInfo,
        results: &mut dyn FnMut(usize, OpResult),
    ) -> Result<BatchOutcome> {
        struct AsMutations<'a>(&'a dyn Increments);
        impl Mutations for AsMutations<'_> {
            fn len(&self) -> usize {
                self.0.len()
            }
            fn get(&self, i: usize) -> Mutation<'_> {
                let x = self.0.get(i);
                Mutation { op: Op::Increment, family: x.family, row: x.row, qual: x.qual, value: b"", delta: x.delta, timestamp: 0 }
            }
        }
        self.batch(&AsMutations(incs), o, info, results)
    }
    /// Runs a batch.
    pub fn batch(
        &self,
        ops: &dyn Mutations,
        o: &WriteOptions,
        info: &mut CommitInfo,
        results: &mut dyn FnMut(usize, OpResult),
    ) -> Result<BatchOutcome> {
        self.check_write(o)?;
        let mut d = self.0.data.lock();
        let (mut first, mut applied, mut unmet) = (None, 0, false);
        let mut start = 0;
        while start < ops.len() {
            let mut end = start + 1;
            while end < ops.len() && (o.has(WriteOptions::ATOMIC) || ops.get(end).row == ops.get(start).row) {
                end += 1;
            }
            match group(&d, ops, start..end, o) {
                Ok((draft, all)) => {
                    let met = all.iter().all(|r| r.status == OpStatus::Applied);
                    for (i, mut r) in all.into_iter().enumerate() {
                        if !met {
                            r.status = OpStatus::NotApplied;
                        }
                        results(start + i, r);
                    }
                    unmet |= !met;
                    if met {
                        applied += 1;
                        commit(&mut d, draft, info);
                    }
                }
                Err((at, e)) => {
                    for i in start..end {
                        let status = OpStatus::Failed(if i == at { e.kind() } else { ErrorKind::NotRun });
                        results(i, OpResult { status, flags: 0, value: 0 });
                    }
                    first.get_or_insert((at, e));
                }
            }
            start = end;
        }
        match first {
            None if unmet => Ok(BatchOutcome::NotApplied),
            None => Ok(BatchOutcome::Done),
            Some((at, e)) if applied == 0 => Err(e.at_op(at as u64)),
            Some((first, error)) => Ok(BatchOutcome::Partial { first, error }),
        }
    }
    /// Stores a value.
    pub fn put(&self, row: &[u8], family: u32, qual: &[u8], value: &[u8], o: &WriteOptions, info: &mut CommitInfo) -> Result<()> {
        self.one(Mutation { op: Op::Put, family, row, qual, value, delta: 0, timestamp: 0 }, o, info)
    }
    /// Deletes; `op` says what.
    pub fn delete(&self, row: &[u8], family: u32, qual: &[u8], op: Op, o: &WriteOptions, info: &mut CommitInfo) -> Result<()> {
        self.one(Mutation { op, family, row, qual, value: b"", delta: 0, timestamp: 0 }, o, info)
    }
    fn one(&self, m: Mutation<'_>, o: &WriteOptions, info: &mut CommitInfo) -> Result<()> {
        struct One<'a>(Mutation<'a>);
        impl Mutations for One<'_> {
            fn len(&self) -> usize {
                1
            }
            fn get(&self, _: usize) -> Mutation<'_> {
                self.0
            }
        }
        self.batch(&One(m), o, info, &mut |_, _| {}).map(|_| ())
    }
    /// Not built yet.
    #[expect(clippy::too_many_arguments, reason = "the C call's")]
    pub fn append(
        &self,
        _row: &[u8],
        _family: u32,
        _qual: &[u8],
        _suffix: &[u8],
        o: &WriteOptions,
        _info: &mut CommitInfo,
        _new_value: Option<&mut dyn ValueSink>,
    ) -> Result<Found> {
        self.check_write(o)?;
        fail!(Unsupported, "append is not built yet")
    }
    fn read_point(&self, snapshot: Option<&Snapshot>) -> Result<u64> {
        self.check_open()?;
        match snapshot {
            None => Ok(u64::MAX),
            Some(s) if Arc::ptr_eq(&s.region.0, &self.0) => Ok(s.seq),
            Some(_) => fail!(Invalid, "the snapshot is of another region"),
        }
    }
    /// Reads a value.
    pub fn get(&self, snapshot: Option<&Snapshot>, _: &ReadOptions, key: Key<'_>, sink: &mut dyn ValueSink) -> Result<Option<Found>> {
        let n = self.read_point(snapshot)?;
        let d = self.0.data.lock();
        check_family(&d, key.family)?;
        let Some(v) = d.cells.get(&(key.row.to_vec(), key.family, key.qual.to_vec())).and_then(|v| at(v, n)) else {
            return Ok(None);
        };
        if let Some(buf) = sink.fits(v.value.len()) {
            buf.copy_from_slice(&v.value);
        } else {
            self.0.pins.fetch_add(1, Ordering::Relaxed);
            self.0.pin_bytes.fetch_add(v.value.len() as u64, Ordering::Relaxed);
            sink.pin(Box::new(Pin { bytes: v.value.clone(), region: self.clone() }));
        }
        Ok(Some(Found { timestamp: v.timestamp, seq: v.seq }))
    }
    /// Reads a counter: value and timestamp.
    pub fn counter_get(&self, snapshot: Option<&Snapshot>, _: &ReadOptions, key: Key<'_>) -> Result<Option<(i64, u64)>> {
        let n = self.read_point(snapshot)?;
        let d = self.0.data.lock();
        check_family(&d, key.family)?;
        let v = d.cells.get(&(key.row.to_vec(), key.family, key.qual.to_vec())).and_then(|v| at(v, n));
        Ok(counter(v)?.map(|c| (c, v.map_or(0, |v| v.timestamp))))
    }
    /// Reads many counters.
    pub fn counter_get_many(
        &self,
        snapshot: Option<&Snapshot>,
        o: &ReadOptions,
        keys: &dyn Keys,
        results: &mut dyn FnMut(usize, Result<Option<(i64, u64)>>),
    ) -> Result<()> {
        for i in 0..keys.len() {
            results(i, self.counter_get(snapshot, o, keys.get(i)));
        }
        Ok(())
    }
    /// Reads many values, in order, until `results` answers false.
    pub fn get_many(
        &self,
        snapshot: Option<&Snapshot>,
        _: &ReadOptions,
        keys: &dyn Keys,
        results: &mut dyn FnMut(usize, Option<(Found, &[u8])>) -> bool,
    ) -> Result<()> {
        let n = self.read_point(snapshot)?;
        let d = self.0.data.lock();
        for i in 0..keys.len() {
            let key = keys.get(i);
            check_family(&d, key.family).map_err(|e| e.at_op(i as u64))?;
            let v = d.cells.get(&(key.row.to_vec(), key.family, key.qual.to_vec())).and_then(|v| at(v, n));
            if !results(i, v.map(|v| (Found { timestamp: v.timestamp, seq: v.seq }, &*v.value))) {
                break;
            }
        }
        Ok(())
    }
    /// Opens a snapshot.
    pub fn snapshot(&self, _: Timeout) -> Result<Snapshot> {
        self.check_open()?;
        self.0.snapshots.fetch_add(1, Ordering::SeqCst);
        Ok(Snapshot { region: self.clone(), seq: self.0.data.lock().last })
    }
    /// Opens a scanner.
    pub fn scanner(&self, snapshot: Option<&Snapshot>, _: &ReadOptions, spec: &ScanSpec<'_>) -> Result<Scanner> {
        let n = self.read_point(snapshot)?.min(self.0.data.lock().last);
        let d = self.0.data.lock();
        let mut cells = Vec::new();
        for (name, versions) in &d.cells {
            let row = name.0.as_slice();
            let after_start = if spec.flags & ScanSpec::EXCLUSIVE_START != 0 { row > spec.start_row } else { row >= spec.start_row };
            let before_end =
                spec.end_row.is_empty() || row < spec.end_row || (row == spec.end_row && spec.flags & ScanSpec::INCLUSIVE_END != 0);
            let wanted = spec.columns.is_empty()
                || spec.columns.iter().any(|c| match *c {
                    ColumnFilter::Family(f) => f == name.1,
                    ColumnFilter::Exact(f, q) => f == name.1 && q == name.2,
                    ColumnFilter::Prefix(f, q) => f == name.1 && name.2.starts_with(q),
                    ColumnFilter::Range(f, a, b) => f == name.1 && name.2.as_slice() >= a && (b.is_empty() || name.2.as_slice() < b),
                });
            if after_start
                && before_end
                && wanted
                && row.starts_with(spec.row_prefix)
                && d.families.contains_key(&name.1)
                && let Some(v) = at(versions, n)
            {
                cells.push((name.clone(), v.clone()));
            }
        }
        if spec.cell_limit != 0 {
            cells.truncate(spec.cell_limit as usize);
        }
        self.0.scanners.fetch_add(1, Ordering::SeqCst);
        Ok(Scanner { region: self.clone(), cells, next: 0, reverse: spec.flags & ScanSpec::REVERSE != 0 })
    }
    /// Waits until a commit is durable.
    pub fn wait_durable(&self, seq: SequenceNumber, _: Timeout) -> Result<()> {
        self.check_open()?;
        if seq.0 == 0 || seq.0 > self.0.data.lock().last {
            return fail!(Invalid, "{} is no commit of this region", seq.0);
        }
        Ok(())
    }
    /// Numbers.
    pub fn stats(&self) -> Result<RegionStats> {
        self.check_open()?;
        Ok(RegionStats {
            seq: self.0.data.lock().last,
            open_scanners: self.0.scanners.load(Ordering::Relaxed),
            open_snapshots: self.0.snapshots.load(Ordering::Relaxed),
            pinned_values: self.0.pins.load(Ordering::Relaxed),
            pinned_bytes: self.0.pin_bytes.load(Ordering::Relaxed),
            memstore_limit: self.0.settings.memstore_limit,
            health: u64::from(!self.0.health.is_good()),
            ..RegionStats::default()
        })
    }
    /// JSON about keys, settings and families.
    pub fn describe(&self) -> Result<String> {
        self.check_open()?;
        Ok(format!("{{\"clock_unit\":\"{:?}\"}}", self.0.settings.clock_unit.unwrap_or(ClockUnit::Nanos)))
    }
    /// JSON about the last recovery.
    pub fn recovery_report(&self) -> Result<String> {
        self.check_open()?;
        Ok("{}".to_string())
    }
}

impl Snapshot {
    /// Its read point.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

impl Scanner {
    /// The next cell.
    #[expect(clippy::should_implement_trait, reason = "lends the cell")]
    pub fn next(&mut self) -> Result<Option<ScanCell<'_>>> {
        self.region.check_open()?;
        let place = |i: usize| if self.reverse { self.cells.len().checked_sub(i + 1) } else { Some(i) };
        let row = |i: usize| place(i).and_then(|i| self.cells.get(i)).map(|c| c.0.0.as_slice());
        let i = self.next;
        let Some((name, v)) = place(i).and_then(|i| self.cells.get(i)) else { return Ok(None) };
        let new_row = i == 0 || row(i - 1) != Some(name.0.as_slice());
        let row_end = row(i + 1) != Some(name.0.as_slice());
        self.next += 1;
        Ok(Some(ScanCell {
            row: &name.0,
            family: name.1,
            qual: &name.2,
            timestamp: v.timestamp,
            seq: v.seq,
            kind: v.kind,
            value: &v.value,
            new_row,
            row_end,
        }))
    }
    /// Goes to the first row at or after (reverse: before) `row`.
    pub fn seek(&mut self, row: &[u8]) -> Result<()> {
        self.region.check_open()?;
        self.next = if self.reverse {
            self.cells.iter().rev().position(|c| c.0.0.as_slice() <= row).unwrap_or(self.cells.len())
        } else {
            self.cells.iter().position(|c| c.0.0.as_slice() >= row).unwrap_or(self.cells.len())
        };
        Ok(())
    }
}

fn set_family(d: &mut Data, spec: &FamilySpec) -> Result<FamilyId> {
    let stored = d.families.values().find(|f| f.name == spec.name).cloned();
    let id = stored.as_ref().map_or(FamilyId(d.last_family + 1), |s| s.id);
    let info = spec.settle(id, stored.as_deref())?;
    d.last_family = d.last_family.max(id.0);
    d.families.insert(id.0, Arc::new(info));
    Ok(id)
}

fn check_family(d: &Data, id: u32) -> Result<()> {
    if d.families.contains_key(&id) { Ok(()) } else { fail!(NoFamily, "no family has id {id}") }
}

fn check_name(d: &Data, row: &[u8], family: u32) -> Result<()> {
    if row.is_empty() || row.len() > ROW_BYTES_MAX {
        return fail!(Invalid, "a row key has 1 to {ROW_BYTES_MAX} bytes, not {}", row.len());
    }
    check_family(d, family)
}

fn add(d: &Data, draft: &mut Draft, row: &[u8], family: u32, qual: &[u8], delta: i64, o: &WriteOptions) -> Result<Counted> {
    check_name(d, row, family)?;
    let name = (row.to_vec(), family, qual.to_vec());
    let now = draft.current(d, &name);
    let old = counter(now.as_ref())?;
    let (sum, over) = old.unwrap_or(0).overflowing_add(delta);
    let mut new = if o.has(WriteOptions::SET) { delta } else { sum };
    if over && o.has(WriteOptions::CHECK_OVERFLOW) && !o.has(WriteOptions::SET) {
        return fail!(Overflow, "{} + {delta} does not fit", old.unwrap_or(0));
    }
    if o.has(WriteOptions::BOUNDED) && !(o.min_value..=o.max_value).contains(&new) {
        if !o.has(WriteOptions::SATURATE) {
            return Ok(Counted { value: old.unwrap_or(0), applied: false });
        }
        new = new.clamp(o.min_value, o.max_value);
    }
    let value = if o.has(WriteOptions::RETURN_OLD) { old.unwrap_or(0) } else { new };
    if old != Some(new) {
        draft.writes.push((name, CellType::Put, Arc::from(&new.to_be_bytes()[..]), 0));
    }
    Ok(Counted { value, applied: true })
}

fn commit(d: &mut Data, draft: Draft, info: &mut CommitInfo) {
    let (seq, timestamp) = draft.write(d);
    *info = CommitInfo { flags: CommitInfo::DURABLE, seq: info.seq.max(seq), timestamp: info.timestamp.max(timestamp) };
}

type Failed = (usize, Error);

fn group(
    d: &Data,
    ops: &dyn Mutations,
    range: std::ops::Range<usize>,
    o: &WriteOptions,
) -> std::result::Result<(Draft, Vec<OpResult>), Failed> {
    let mut draft = Draft::default();
    let mut all = Vec::new();
    for i in range {
        let m = ops.get(i);
        let r = one(d, &mut draft, m, o).map_err(|e| (i, e))?;
        all.push(r);
    }
    Ok((draft, all))
}

fn one(d: &Data, draft: &mut Draft, m: Mutation<'_>, o: &WriteOptions) -> Result<OpResult> {
    if !matches!(m.op, Op::DeleteRow) {
        check_name(d, m.row, m.family)?;
    }
    if m.timestamp > TIMESTAMP_MAX {
        return fail!(Invalid, "timestamp {} is above 2^62", m.timestamp);
    }
    let name = (m.row.to_vec(), m.family, m.qual.to_vec());
    let applied = OpResult { status: OpStatus::Applied, flags: 0, value: 0 };
    match m.op {
        Op::Put => draft.writes.push((name, CellType::Put, Arc::from(m.value), if m.timestamp == 0 { o.timestamp } else { m.timestamp })),
        Op::Delete | Op::DeleteVersion => draft.writes.push((name, CellType::Delete, Arc::from(&b""[..]), 0)),
        Op::DeleteFamily | Op::DeleteRow | Op::DeleteFamilyVersion => {
            let pending: Vec<Name> = draft.writes.iter().map(|w| w.0.clone()).collect();
            for n in d.cells.keys().cloned().chain(pending) {
                if n.0 == m.row && (m.op == Op::DeleteRow || n.1 == m.family) {
                    draft.writes.push((n, CellType::DeleteFamily, Arc::from(&b""[..]), 0));
                }
            }
        }
        Op::Append => return fail!(Unsupported, "append is not built yet"),
        Op::Increment => {
            let c = add(d, draft, m.row, m.family, m.qual, m.delta, o)?;
            let status = if c.applied { OpStatus::Applied } else { OpStatus::NotApplied };
            return Ok(OpResult { status, flags: 0, value: c.value });
        }
        Op::Check { how, as_counter } => {
            let now = draft.current(d, &name);
            let (order, value) = if as_counter {
                let c = counter(now.as_ref())?;
                (c.map(|c| c.cmp(&m.delta)), c.unwrap_or(0))
            } else {
                (now.as_ref().map(|v| (*v.value).cmp(m.value)), 0)
            };
            let met = match how {
                Comparison::Exists => now.is_some(),
                Comparison::Absent => now.is_none(),
                Comparison::Equal => order.is_some_and(|o| o.is_eq()),
                Comparison::NotEqual => order.is_some_and(|o| o.is_ne()),
                Comparison::Less => order.is_some_and(|o| o.is_lt()),
                Comparison::LessOrEqual => order.is_some_and(|o| o.is_le()),
                Comparison::Greater => order.is_some_and(|o| o.is_gt()),
                Comparison::GreaterOrEqual => order.is_some_and(|o| o.is_ge()),
            };
            return Ok(OpResult { status: if met { OpStatus::Applied } else { OpStatus::NotApplied }, flags: 0, value });
        }
    }
    Ok(applied)
}
