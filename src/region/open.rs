//! Opening a region: directory and lock, manifest, families, recovery of the log, and the state that everything else shares.
//!
//! A failure anywhere leaves the directory as it was found, or (where the system fails on the way) holding an empty region that the next open completes: never a
//! half-made one that can't be opened, and never is anything that exists replaced. What the options forbid is refused before anything is made (`place`).

use super::face::{Phase, Progress};
use super::family::{self, Change};
use super::lifecycle::Lifecycle;
use super::once::{self, NonceTime};
use super::place::{self, io_at, lock_directory, make_directory, no_region};
use super::recover::{Coming, Replay, Replayed};
use super::{Inner, watch};
use crate::clock::{Clock, RegionClock, SystemClock};
use crate::env::{DirLock, Env};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::health::Health;
use crate::ids::{Generation, RowHasher, SequenceNumber, Tick};
use crate::memstore::{NoMemory, Segment};
use crate::mslab::{ChunkPool, MemoryBudget};
use crate::mvcc::{CommitSlots, Published, ReadPoints};
use crate::nonce::NonceTable;
use crate::options::{CLOCK_UNIT_DEFAULT, DURABILITY_DEFAULT, Durability, RegionOptions, Settings, Stored, TickPolicy};
use crate::rowlock::RowLockTable;
use crate::sequencer::RowCommitSequencer;
use crate::stats::SpreadCount;
use crate::store::manifest::{MANIFEST, Manifest};
use crate::store::state::State;
use crate::store::view::View;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex};
use crate::wal::{Known, Log, LogOptions, LogStart, Record, Recovered, Replayer};
use serde_json::json;
use std::path::Path;

/// See `Region::open`.
pub fn open(
    env: Arc<dyn Env>,
    path: &Path,
    options: &RegionOptions,
    pool: Option<Arc<ChunkPool>>,
    progress: Option<&mut dyn FnMut(Progress) -> bool>,
) -> Result<Inner> {
    open_with(env, path, options, pool, progress, None)
}

/// The same with a clock of the caller's in place of the system's, for tests.
pub fn open_with(
    env: Arc<dyn Env>,
    path: &Path,
    options: &RegionOptions,
    pool: Option<Arc<ChunkPool>>,
    progress: Option<&mut dyn FnMut(Progress) -> bool>,
    other_clock: Option<RegionClock>,
) -> Result<Inner> {
    let new_settings = options.check_each(&Stored::new())?;
    let read_only = options.flags.read_only;
    let is_region = place::look(&*env, path, options)?;
    let pool = match pool {
        Some(pool) => pool,
        None => ChunkPool::shared()?,
    };
    if !is_region {
        options.check()?;
        place::try_new(&*env, path, &new_settings, &pool)?;
    }
    let created = make_directory(&*env, path, options)?;
    let lock = lock_directory(&*env, path, read_only)?;
    let mut manifest = load_or_create(&*env, path, options, created)?;
    let mut settings = options.check_over(&manifest.settings)?;
    check_against_stored(path, options, &settings, &manifest)?;
    settle(&mut settings, &manifest);

    let budget = Arc::new(MemoryBudget::new(settings.memstore_limit));
    let mut seed = [0; 8];
    env.random(&mut seed).map_err(|e| Error::io("get random bytes", &e))?;
    let hash_key = u64::from_le_bytes(seed);
    let hasher = RowHasher::new(hash_key);

    let log_options = log_options(path, &settings, &manifest);
    let segment = Segment::new(Generation(0), &pool, &budget, 0, hash_key).map_err(|NoMemory| too_small(&settings, &pool))?;
    let replay = Replay {
        segment: &segment,
        families: &manifest.families,
        budget: &budget,
        hasher: &hasher,
        done: Replayed::default(),
        coming: Coming::default(),
    };
    let clock = other_clock.unwrap_or_else(|| RegionClock::System(SystemClock::new(manifest.clock_unit)));
    let nonce_time = NonceTime::new(&clock);
    let nonces = Arc::new(NonceTable::new(manifest.nonce_key, nonce_time.ticks(settings.nonce_window_s), settings.nonce_bytes_max));
    let remembered = (!read_only).then(|| (&*nonces, nonce_time.now(&clock)));
    let (recovered, replayed) = replay_log(&*env, &log_options, &manifest, replay, remembered, progress)?;
    let active = with_next_generation(segment, &recovered, &manifest);

    let health = Arc::new(Health::new());
    let slots = CommitSlots::new(Arc::clone(&health));
    let (points, busy) = (ReadPoints::new(), Arc::new(slots.watched()));
    let last = recovered.last.max(manifest.max_number).max(manifest.last_number);
    let hook_context = hook_context(&manifest.region);
    let log = if read_only { None } else { Some(start_log(&env, log_options, last, &recovered, &health).map_err(|e| no_room(e, path))?) };
    if read_only {
        check_families(&manifest, options)?;
    }
    let mut number_at_open = SequenceNumber(0);
    if let Some(log) = &log {
        (number_at_open, manifest.synced) = log.number_now();
        // From here on the log has this life's segment: durable before anybody is let in, together with families and settings that are new. The manifest is replaced
        // whatever it says, which settles what a process that died over it left open.
        let through = number_at_open.0;
        create_families(&mut manifest, options, Change { through, unit: clock.unit(), now: clock.now() })?;
        keep_settings(&mut manifest, &settings);
        manifest.store(&*env, path).map_err(|e| no_room(e, path))?;
        let mut look = watch::look(path, &settings, points.view(), Arc::clone(&busy));
        let (table, time, clock) = (Arc::clone(&nonces), nonce_time, clock.clone());
        log.wake(move || {
            look();
            table.tidy(time.now(&clock));
        })?;
    }
    let locks = RowLockTable::new(settings.lock_buckets.trailing_zeros());
    locks.raise_floor(Tick(recovered.max_tick.max(manifest.max_tick)));
    let view = View { active: Arc::new(active), sealed: Vec::new(), families: Arc::new(manifest.families.clone()) };
    let report = report(&recovered, &replayed, read_only, lock.as_deref());
    let (show, commits) = (path.display(), replayed.commits);
    let remembered = nonces.stats();
    if remembered.bytes > remembered.bytes_max {
        log::warn!(
            target: "region",
            "{show}: calls with a nonce of earlier lives take {} bytes, nonce_bytes_max is {}: none is forgotten, new ones are refused until enough of them are past nonce_window_s",
            remembered.bytes,
            remembered.bytes_max
        );
    }
    log::info!(target: "region", "opened {show}: {commits} commits replayed, {} torn tails cut", recovered.report.cut_tails);
    let state = State {
        health,
        locks,
        sequencer: RowCommitSequencer::new(clock, settings.tick_policy.unwrap_or_default(), settings.tick_lead_max_ms * 1_000_000),
        view: Published::new(&slots, Box::new(view)),
        slots,
        nonces,
        points,
        copied: SpreadCount::default(),
        log,
        log_is_short: AtomicBool::new(false),
        read_only_durable: last,
        pool,
        record_bytes_max: record_bytes_max(&settings),
        budget,
        hasher,
        hash_key,
        hook_context,
    };
    Ok(Inner {
        path: path.to_path_buf(),
        durability: settings.durability.unwrap_or(DURABILITY_DEFAULT),
        write_timeout_us: settings.write_timeout_us,
        read_only,
        start_row: manifest.start_row.clone(),
        end_row: manifest.end_row.clone(),
        has_range: !manifest.start_row.is_empty() || !manifest.end_row.is_empty(),
        run_bytes_max: usize::try_from((settings.memstore_limit / 8).min(settings.wal_segment_bytes / 4)).unwrap_or(usize::MAX),
        settings,
        env,
        report,
        state,
        lifecycle: Lifecycle::default(),
        nonce_time,
        busy,
        commits_since_seal: AtomicU64::new(0),
        seals: AtomicU64::new(0),
        unlogged_bytes: AtomicU64::new(0),
        open_scanners: AtomicU64::new(0),
        open_snapshots: AtomicU64::new(0),
        pinned_values: AtomicU64::new(0),
        pinned_bytes: AtomicU64::new(0),
        manifest: Mutex::new(manifest),
        seal_lock: Mutex::new(()),
        close_lock: Mutex::new(()),
        dir_lock: Mutex::new(lock),
        number_at_open,
        retired: Mutex::new(Vec::new()),
    })
}

fn log_options(path: &Path, settings: &Settings, manifest: &Manifest) -> LogOptions {
    LogOptions {
        dir: path.to_path_buf(),
        region_uuid: manifest.region,
        clock_unit: manifest.clock_unit as u8,
        io: settings.wal_io,
        segment_bytes: u32::try_from(settings.wal_segment_bytes).unwrap_or(u32::MAX),
        bytes_max: settings.wal_bytes_max,
        sync_interval_ms: u32::try_from(settings.sync_interval_ms).unwrap_or(u32::MAX),
        recovery_power_cut: settings.recovery_power_cut,
        allow_network_fs: settings.allow_network_fs,
    }
}

/// The log, into one segment that nobody else sees yet, and what calls with a nonce did; without a place for that, read-only.
fn replay_log(
    env: &dyn Env,
    log_options: &LogOptions,
    manifest: &Manifest,
    replay: Replay<'_>,
    remembered: Option<(&NonceTable, Tick)>,
    mut progress: Option<&mut dyn FnMut(Progress) -> bool>,
) -> Result<(Recovered, Replayed)> {
    let mut restoring = Restoring { replay, remembered, flushed: manifest.flushed_generation };
    let recovered = crate::wal::recover(
        env,
        log_options,
        Known { first_segment: manifest.first_segment, synced: manifest.synced },
        remembered.is_none(),
        &mut restoring,
        &mut |done, total| progress.as_mut().is_some_and(|p| p(Progress { phase: Phase::Recovery, done, total })),
    )?;
    Ok((recovered, restoring.replay.done))
}

/// What becomes of a record: its nonces are remembered, its cells put back unless they are in store files.
struct Restoring<'s, 'n> {
    replay: Replay<'s>,
    remembered: Option<(&'n NonceTable, Tick)>,
    flushed: u32,
}

impl Replayer for Restoring<'_, '_> {
    fn apply(&mut self, record: &Record<'_>) -> Result<()> {
        if let Some((nonces, now)) = self.remembered {
            once::restore(nonces, record, now)?;
        }
        if record.generation.0 > self.flushed { self.replay.apply(record) } else { Ok(()) }
    }
    fn soon(&mut self, row: &[u8]) {
        self.replay.soon(row);
    }
}

/// A segment's generation is settled once the largest in the log is known.
fn with_next_generation(mut segment: Segment, recovered: &Recovered, manifest: &Manifest) -> Segment {
    segment.set_generation(Generation(recovered.max_generation.max(manifest.flushed_generation) + 1));
    segment
}

/// The log of a new life; `last` is the largest number known of the earlier ones.
fn start_log(env: &Arc<dyn Env>, options: LogOptions, last: u64, recovered: &Recovered, health: &Arc<Health>) -> Result<Log> {
    // Only a region whose log has never been opened has given no numbers: an empty log may be what a crash has left of one that had.
    let first_life = last == 0 && recovered.seal.is_none();
    let last = if first_life { 0 } else { last + NUMBER_GAP };
    let start = LogStart { first_segment: recovered.next_segment, last, seal: recovered.seal, spare: recovered.spare.clone() };
    Log::begin(Arc::clone(env), options, start, Arc::clone(health))
}

/// Fills in what only the manifest decides: from here on the settings are what holds.
fn settle(settings: &mut Settings, manifest: &Manifest) {
    let policy = if manifest.tick_policy == TickPolicy::Wait as u8 { TickPolicy::Wait } else { TickPolicy::Advance };
    settings.durability = settings.durability.or(Durability::from_u8(manifest.durability));
    settings.tick_policy = settings.tick_policy.or(Some(policy));
    settings.clock_unit = Some(manifest.clock_unit);
}

/// What was given, and differs, holds from now on.
fn keep_settings(manifest: &mut Manifest, settings: &Settings) {
    manifest.durability = settings.durability.unwrap_or(DURABILITY_DEFAULT) as u8;
    manifest.tick_policy = settings.tick_policy.unwrap_or_default() as u8;
    manifest.settings = settings.stored();
}

/// Numbers skipped at open: those of SKIP_WAL commits, which a crash loses without a trace, are not given twice while anybody remembers them.
const NUMBER_GAP: u64 = 1 << 20;

/// A quarter of the memory, and what fits a log segment with its header and last PAD.
fn record_bytes_max(settings: &Settings) -> usize {
    usize::try_from((settings.memstore_limit / 4).min(settings.wal_segment_bytes - (8 << 10))).unwrap_or(usize::MAX)
}

#[cold]
pub(super) fn too_small(settings: &Settings, pool: &Arc<ChunkPool>) -> Error {
    let (limit, chunk) = (settings.memstore_limit, pool.chunk_bytes());
    // The same without a limit: what it takes is the least that would do. It depends on the pool, so that no table can say it.
    let unlimited = Arc::new(MemoryBudget::new(u64::MAX));
    match Segment::new(Generation(0), pool, &unlimited, 0, 0) {
        Ok(_) if unlimited.used() > limit => Error::new(
            ErrorKind::Invalid,
            format!(
                "memstore_limit is {limit}, but an empty memstore takes {} bytes of this chunk pool, whose chunks have {chunk}: set it to at \
                 least that, or use a pool with smaller chunks",
                unlimited.used()
            ),
        ),
        _ => Error::new(ErrorKind::NoMem, format!("the chunk pool has no room for an empty memstore (chunks of {chunk} bytes)")),
    }
}

/// A disk that is too full to open for writing: how much it takes, and that reading takes nothing.
#[cold]
fn no_room(e: Error, path: &Path) -> Error {
    if e.kind() != ErrorKind::NoSpace {
        return e;
    }
    e.context(format_args!(
        "{}: opening it for writing needs {OPEN_BYTES} bytes of free disk space (a log segment, and the manifest anew); free them, or use \
         REGION_OPEN_READ_ONLY, which needs none",
        path.display()
    ))
}

/// The smallest log segment, and twice the manifest of a region with some families.
const OPEN_BYTES: u64 = 128 << 10;

fn hook_context(region: &[u8; 16]) -> u64 {
    u64::from_le_bytes(region.first_chunk().copied().unwrap_or_default())
}

fn load_or_create(env: &dyn Env, path: &Path, options: &RegionOptions, created: bool) -> Result<Manifest> {
    let exists = env.exists(&path.join(MANIFEST)).map_err(io_at(path, "look"))?;
    if exists {
        // Made since we looked.
        return if options.flags.error_if_exists { Err(place::exists(path)) } else { Manifest::load(env, path) };
    }
    if !options.flags.create {
        return Err(no_region(path));
    }
    if !created {
        // Again, now that nobody else can be making it.
        place::check_names(path, &env.list(path).map_err(io_at(path, "list"))?)?;
    }
    let settings = options.check()?;
    let unit = settings.clock_unit.unwrap_or(CLOCK_UNIT_DEFAULT);
    let mut manifest = Manifest::new(env, unit, settings.durability.unwrap_or(DURABILITY_DEFAULT) as u8)?;
    manifest.start_row = options.start_row.clone();
    manifest.end_row = options.end_row.clone();
    keep_settings(&mut manifest, &settings);
    create_families(&mut manifest, options, Change { through: 0, unit, now: Tick(0) })?;
    manifest.create(env, path)?;
    Ok(manifest)
}

/// What was fixed at creation and is now given otherwise is an error that names both.
fn check_against_stored(path: &Path, options: &RegionOptions, settings: &Settings, manifest: &Manifest) -> Result<()> {
    let show = path.display();
    if let Some(unit) = settings.clock_unit.filter(|u| *u != manifest.clock_unit) {
        return fail!(Invalid, "{show}: clock_unit {} was asked for, the region has {}", unit.name(), manifest.clock_unit.name());
    }
    for (name, asked, stored) in [("start_row", &options.start_row, &manifest.start_row), ("end_row", &options.end_row, &manifest.end_row)]
    {
        if !asked.is_empty() && asked != stored {
            return fail!(
                Invalid,
                "{show}: {name} {} was asked for, the region has {}",
                super::admission::show(asked),
                super::admission::show(stored)
            );
        }
    }
    Ok(())
}

/// Creates listed families that are absent and notes changed settings of those that are there.
fn create_families(manifest: &mut Manifest, options: &RegionOptions, change: Change) -> Result<()> {
    for spec in &options.families {
        if manifest.families.find(&spec.name).is_none() && !options.flags.create {
            return fail!(
                NoFamily,
                "family {:?} is not there; REGION_OPEN_CREATE or region_family_set creates it",
                String::from_utf8_lossy(&spec.name)
            );
        }
        family::set_family(&mut manifest.families, spec, change)?;
    }
    Ok(())
}

/// A read-only open creates and changes nothing: what it names must be there and be so.
fn check_families(manifest: &Manifest, options: &RegionOptions) -> Result<()> {
    let mut families = manifest.families.clone();
    for spec in &options.families {
        let shown = String::from_utf8_lossy(&spec.name);
        let Some(before) = manifest.families.find(&spec.name) else {
            return fail!(NoFamily, "family {shown:?} is not there, and a read-only open creates none");
        };
        family::set_family(&mut families, spec, Change { through: 0, unit: manifest.clock_unit, now: Tick(0) })?;
        if families.find(&spec.name) != Some(before) {
            return fail!(ReadOnly, "family {shown:?} has other settings, and a read-only open changes none; leave them 0, or out");
        }
    }
    Ok(())
}

fn report(recovered: &Recovered, replayed: &Replayed, read_only: bool, lock: Option<&dyn DirLock>) -> String {
    let facts = &recovered.report;
    json!({
        "read_only": read_only,
        "writer_cannot_be_detected": lock.is_none(),
        "directory_cannot_be_locked": lock.is_none_or(|l| !l.guards_directory()),
        "commits": replayed.commits,
        "cells": replayed.cells,
        "cells_of_dropped_families": replayed.skipped,
        "segments": facts.segments,
        "records": facts.records,
        "bytes": facts.bytes,
        "cut_tails": facts.cut_tails,
        "cut_bytes": facts.cut_bytes,
        "valid_beyond_cut": facts.valid_beyond_cut,
        "same_kernel": facts.same_kernel,
        "end_segment": facts.end.segment(),
        "end_offset": facts.end.offset(),
        "last_number": recovered.last,
        "max_tick": recovered.max_tick,
    })
    .to_string()
}
