//! The log as the commit path sees it: append, skip, wait for durability, wait for space, close. It joins the appender, the sync group and the keeper.
//!
//! Threads: everything takes `&self`. Two threads belong to a log: the keeper (`segments.rs`) and the background sync. Dropping a log without `close` stops them and
//! leaves the files as a crash would.

use super::append::{AppendError, Appender, End};
use super::format::{RECORD_BYTES_MIN, SEGMENT_HEADER_BYTES};
use super::prepare::{Workshop, segment_number, trimmed_bytes};
use super::record::RecordBuffer;
use super::segment::{Segment, SegmentForm, drop_chain};
use super::segments::Keeper;
use super::sync::{Device, NotDurable, SyncGroup};
use super::{LogOptions, LogStart, LogStats, Refused, WalIo};
use crate::clock::Timeout;
use crate::env::{Env, FsKind};
use crate::error::{Error, ErrorKind, Result};
use crate::health::Health;
use crate::ids::{LogPosition, SequenceNumber};
use crate::sync::{Arc, Condvar, Mutex, thread};
use std::io;
use std::time::{Duration, Instant};

/// Re-populated behind the log's end after a sync, which has write-protected those pages: at least this, and twice what the last sync covered.
const REPOPULATE_BYTES: u32 = 16 << 10;
const REPOPULATE_BYTES_MAX: u32 = 512 << 10;

/// Longest time between two calls of what [`Log::wake`] was given.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The write-ahead log of one open region.
pub struct Log {
    core: Arc<Core>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// What the log's threads share.
struct Core {
    shop: Workshop,
    appender: Appender,
    group: SyncGroup<SyncState>,
    keeper: Keeper,
    health: Arc<Health>,
    /// The background sync sleeps here; true: stop.
    pulse: Mutex<bool>,
    stop: Condvar,
}

/// The sync leader's own.
struct SyncState {
    /// The oldest segment that may hold bytes that are not synced. None once the log is taken apart.
    oldest: Option<Arc<Segment>>,
}

impl Log {
    /// Starts a life of the log: makes its first segment (with the seal on the life before) durable, then the threads.
    pub fn start(env: std::sync::Arc<dyn Env>, options: LogOptions, start: LogStart, health: Arc<Health>) -> Result<Self> {
        let log = Self::begin(env, options, start, health)?;
        log.wake(|| {})?;
        Ok(log)
    }
    /// The same without its threads: nothing is prepared or synced before [`Log::wake`], so what the caller has to write first finds the room that is left.
    pub fn begin(env: std::sync::Arc<dyn Env>, mut options: LogOptions, start: LogStart, health: Arc<Health>) -> Result<Self> {
        options.segment_bytes = (options.segment_bytes.max(64 << 10)) & !4095;
        let fs = super::check_place(&*env, &options.dir, &options.dir, options.io, options.allow_network_fs)?;
        let auto = options.io == WalIo::Auto;
        let mapped = options.io == WalIo::Mapped || (auto && fs == FsKind::Mappable);
        let (old, spare) = earlier_segments(&*env, &options, &start)?;
        let mut shop = Workshop { env, options, mapped };
        let order = Keeper::first_order(&shop.options, start.first_segment, &old);
        let first = match shop.prepare(order, start.seal, &mut || {}) {
            Err(e) if auto && mapped && e.kind() == ErrorKind::Io => {
                log::warn!(target: "region", "the log cannot be mapped, it will be written: {e}");
                shop.mapped = false;
                shop.prepare(order, start.seal, &mut || {})?
            }
            other => other?,
        };
        if let Some(seal) = start.seal {
            // The seal is durable: what lies behind it is never looked at again.
            shop.trim(seal.segment, seal.offset);
        }
        let first = Arc::new(first);
        let ctx = super::hook_context(&shop.options);
        let crowd = 2 * std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
        let core = Arc::new(Core {
            keeper: Keeper::new(old, spare, &first),
            group: SyncGroup::new(SyncState { oldest: Some(Arc::clone(&first)) }, start.last, first.start(), crowd, ctx),
            appender: Appender::new(first, start.last, ctx),
            health,
            pulse: Mutex::new(false),
            stop: Condvar::new(),
            shop,
        });
        Ok(Self { core, threads: Mutex::new(Vec::new()) })
    }
    /// Starts its threads. Once, after `begin`. `look` is called about every second by the background sync: for whoever wants to look after something else
    /// now and then.
    pub fn wake(&self, look: impl FnMut() + Send + 'static) -> Result<()> {
        self.spawn("region-wal-keep", |core| core.keeper.run(&core.shop, &core.appender, &core.health))?;
        if self.core.shop.options.sync_interval_ms > 0 {
            self.spawn("region-wal-sync", |core| core.sync_now_and_then(look))?;
        }
        Ok(())
    }

    fn spawn(&self, name: &str, body: impl FnOnce(&Core) + Send + 'static) -> Result<()> {
        let core = Arc::clone(&self.core);
        let thread = thread::Builder::new()
            .name(name.to_string())
            .spawn(move || body(&core))
            .map_err(|e| Error::io(format!("start thread {name}"), &e))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Gives a finished record the next number and makes it part of the log. On refusal nothing was given out and nothing has changed.
    #[inline]
    pub fn append(&self, record: &mut RecordBuffer, given: impl FnOnce()) -> std::result::Result<SequenceNumber, Refused> {
        let core = &*self.core;
        match core.appender.append(record, &core.health, core.group.position(), given) {
            Ok(done) => {
                if done.call_keeper {
                    core.keeper.call();
                }
                Ok(SequenceNumber(done.number))
            }
            Err(e) => Err(core.refused(e, record.len())),
        }
    }

    /// A number for a commit that skips the log. Refused like an append once the region is poisoned or the log closed: looked at under the append lock, so that
    /// no commit comes after the instant from which all are refused.
    #[inline]
    pub fn skip(&self, given: impl FnOnce()) -> std::result::Result<SequenceNumber, Refused> {
        self.core.appender.skip(&self.core.health, given).map(SequenceNumber).ok_or(Refused::Poisoned)
    }

    /// The last number given, and the end of the log.
    pub fn number_now(&self) -> (SequenceNumber, LogPosition) {
        let end = self.core.appender.end();
        (SequenceNumber(end.last), end.position)
    }

    /// The last number given, without a lock: for statistics.
    pub fn last_number(&self) -> u64 {
        self.core.appender.last()
    }

    /// Calls `f` with the last number given; no other is given until `f` returns.
    pub fn with_number_now<R>(&self, f: impl FnOnce(SequenceNumber) -> R) -> R {
        self.core.appender.with_last(|n| f(SequenceNumber(n)))
    }

    /// D: every commit with a number up to it is on stable storage.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.core.group.durable()
    }

    /// Notes a commit of FSYNC level, before its slot is freed.
    #[inline]
    pub fn note_fsync(&self, number: u64) {
        self.core.group.note_fsync(number);
    }

    /// Highest number of FSYNC level, 0 if there was none in this life.
    pub fn last_fsync(&self) -> u64 {
        self.core.group.last_fsync()
    }

    /// Waits until D ≥ `number`, leading a sync if nobody does. Call it with no lock or slot held.
    #[inline]
    pub fn wait_for_durable(&self, number: u64, timeout: &mut Timeout) -> std::result::Result<(), NotDurable> {
        let core = &*self.core;
        if core.group.durable() >= number {
            return Ok(());
        }
        core.keeper.note_fsync(true);
        core.group.wait_for_durable(core, &core.health, number, timeout)
    }

    /// Waits until a record of `needed` bytes would go in. Errors: Busy (names `wal_bytes_max`), NoSpace at once, Closed, Poisoned.
    /// `may_retire`: somebody may call [`Log::retire`]; else a log at its limit is refused as soon as it is known to be there.
    pub fn wait_for_log_space(&self, needed: u32, timeout: &mut Timeout, closing: &dyn Fn() -> bool, may_retire: bool) -> Result<()> {
        let core = &*self.core;
        core.keeper.wait_for_space(&core.shop, &core.appender, &core.health, needed, timeout, closing, may_retire)
    }

    /// True if a record of `needed` bytes would go in now. Takes the append lock.
    pub fn has_room(&self, needed: u32) -> bool {
        self.core.appender.has_room(needed, super::RecordKind::Commit)
    }

    /// Wakes those in `wait_for_log_space`, who then look at `closing`.
    pub fn wake_waiters(&self) {
        self.core.keeper.wake_waiters();
    }

    /// Longest record that a segment takes; longer ones are TooLarge.
    pub fn record_bytes_max(&self) -> u32 {
        self.core.shop.options.segment_bytes - 2 * SEGMENT_HEADER_BYTES
    }

    /// Every commit in segments that end at or below `position` is in store files, and recovery no longer asks for them: they may be used again.
    pub fn retire(&self, position: LogPosition) {
        self.core.keeper.retire(&self.core.shop, &self.core.appender, position.segment());
    }

    /// What the log is and has done.
    pub fn stats(&self) -> LogStats {
        let (bytes, segments) = self.core.keeper.totals();
        LogStats { bytes, segments: segments as u64, syncs: self.core.group.syncs(), mapped: self.core.shop.mapped }
    }

    /// What a hook installed for this log must name; see `hooks.rs`.
    pub fn hook_context(&self) -> u64 {
        super::hook_context(&self.core.shop.options)
    }

    /// Makes everything durable, ends the log with a PAD, stops the threads and gives back what was prepared for nothing. Nothing can be appended afterwards.
    pub fn close(&self) -> Result<()> {
        let core = &*self.core;
        // First what was appended, so that the PAD can say that it is durable; then the PAD.
        let last = core.appender.end().last;
        let synced = core.group.wait_for_durable(core, &core.health, last, &mut Timeout::forever());
        let synced = synced.and_then(|()| if core.appender.wants_pad() { core.group.sync_with_pad(core, &core.health) } else { Ok(()) });
        // Between the PAD and here nobody appends: the region has let all calls end.
        core.appender.close();
        self.stop();
        if synced.is_err() {
            return Err(core.health.error());
        }
        core.keeper.clear(&core.shop, &core.appender)?;
        // All is synced and nobody stores any more: no page of the mapping is touched again.
        let (segment, end) = core.appender.current();
        segment.release();
        core.shop.trim(segment.number, end);
        Ok(())
    }

    fn stop(&self) {
        self.core.keeper.stop();
        *self.core.pulse.lock() = true;
        self.core.stop.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A panic there has been reported by the panic hook, and the log is going away.
            let _ = thread.join();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
        // One by one: the drop of the oldest would recurse through all that follow.
        let (current, _) = self.core.appender.current();
        let oldest = self.core.group.with_state(|s| s.oldest.take());
        if let Some(oldest) = oldest {
            drop_chain(oldest, current.number);
        }
    }
}

impl Core {
    #[cold]
    fn refused(&self, error: AppendError, length: usize) -> Refused {
        match error {
            AppendError::Dead => Refused::Poisoned,
            AppendError::NoRoom => Refused::NoRoom { needed: length as u32 },
            AppendError::Failed(e) => Refused::NoSpace(Error::io("append to the log", &e)),
            AppendError::FailedBadly(e) => {
                self.health.poison(&format!("a write to the log failed: {e}"));
                Refused::Io(Error::io("append to the log", &e))
            }
        }
    }

    /// The background sync: every interval what was appended meanwhile becomes durable. Once nothing more comes, a PAD says so.
    fn sync_now_and_then(&self, mut look: impl FnMut()) {
        let interval = Duration::from_millis(self.shop.options.sync_interval_ms as u64);
        let (mut since, mut looked) = (Instant::now(), Instant::now());
        loop {
            {
                let mut stop = self.pulse.lock();
                if !*stop {
                    stop = pause(&self.stop, stop, interval.saturating_sub(since.elapsed()).min(LOOK_EVERY));
                }
                if *stop {
                    return;
                }
            }
            if since.elapsed() >= interval {
                since = Instant::now();
                if self.health.is_good() {
                    self.sync_once();
                }
            }
            // After the sync, which nothing may delay; however often that is.
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                look();
            }
        }
    }

    fn sync_once(&self) {
        let before = self.appender.end();
        if before.last > self.group.durable() {
            // An ordinary member of the group. A failure has poisoned the region: nothing is left to do here.
            let _ = self.group.wait_for_durable(self, &self.health, before.last, &mut Timeout::forever());
        }
        self.keeper.note_fsync(false);
        if self.appender.end() == before && self.appender.wants_pad() {
            let _ = self.group.sync_with_pad(self, &self.health);
        }
    }
}

impl Device for Core {
    type State = SyncState;
    type Leftover = (Arc<Segment>, u32);

    fn end(&self, pad: bool) -> End {
        if pad {
            match self.appender.idle_pad(&self.health, self.group.position()) {
                Ok(end) => return end,
                // The PAD is erased, or the log is dead.
                Err(AppendError::FailedBadly(e)) => self.health.poison(&format!("a write to the log failed: {e}")),
                Err(_) => {}
            }
        }
        self.appender.end()
    }

    fn sync(&self, state: &mut SyncState, synced: LogPosition, end: LogPosition) -> io::Result<Option<(Arc<Segment>, u32)>> {
        let Some(mut segment) = state.oldest.clone() else { return Err(io::Error::from(io::ErrorKind::BrokenPipe)) };
        loop {
            // Oldest first: whatever is durable after a crash in between is a prefix.
            let ends = if segment.number < end.segment() { LogPosition::new(segment.number, segment.len) } else { end };
            if ends > synced && ends > segment.start() {
                segment.form.sync()?;
            }
            if segment.number >= end.segment() {
                break;
            }
            let Some(next) = segment.next().cloned() else { return Err(io::Error::from(io::ErrorKind::NotFound)) };
            segment = next;
        }
        repopulate(&segment, synced, end)?;
        if state.oldest.as_ref().is_some_and(|o| o.number < segment.number) {
            let up_to = segment.number;
            return Ok(state.oldest.replace(segment).map(|first| (first, up_to)));
        }
        Ok(None)
    }

    fn dispose(&self, (first, up_to): (Arc<Segment>, u32)) {
        self.keeper.leave(first, up_to);
    }
}

/// Writeback has write-protected the pages behind the log's end; the syncing thread takes the faults instead of the next writers.
fn repopulate(segment: &Segment, synced: LogPosition, end: LogPosition) -> io::Result<()> {
    // One that the log has left meanwhile is written no more.
    if !segment.is_mapped() || segment.next().is_some() {
        return Ok(());
    }
    let covered = if synced.segment() == end.segment() { end.offset().saturating_sub(synced.offset()) } else { 0 };
    let ahead = covered.saturating_mul(2).clamp(REPOPULATE_BYTES, REPOPULATE_BYTES_MAX);
    let range = end.offset() & !4095..end.offset().saturating_add(ahead).next_multiple_of(4096).min(segment.populated());
    if range.is_empty() {
        return Ok(());
    }
    let populated = segment.form.populate(range);
    if segment.next().is_some() {
        // The log has rolled on since; the keeper may have given this segment's memory back before it was populated again, and will not come back for it.
        segment.release();
    }
    match populated {
        // No page table memory just now: the writers take the faults.
        Err(e) if matches!(e.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(()),
        // Anything else means that the next store there may raise SIGBUS: as bad as a failed sync.
        other => other,
    }
}

/// Numbers and bytes of the segments of earlier lives: those that may still be needed, and the spare ones.
#[allow(clippy::type_complexity)]
fn earlier_segments(env: &dyn Env, options: &LogOptions, start: &LogStart) -> Result<(Vec<(u32, u64)>, Vec<(u32, u64)>)> {
    let names = env.list(&options.dir).map_err(|e| Error::io(format!("list {}", options.dir.display()), &e))?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|n| segment_number(n)).filter(|n| *n < start.first_segment).collect();
    numbers.sort_unstable();
    let spares: std::collections::HashSet<u32> = start.spare.iter().copied().collect();
    let (mut old, mut spare) = (Vec::new(), Vec::new());
    for number in numbers {
        let path = options.dir.join(super::prepare::segment_name(number));
        let bytes = env.file_len(&path).map_err(|e| Error::io(format!("open log segment {}", path.display()), &e))?;
        // The seal's own segment will be trimmed.
        let bytes = start.seal.filter(|s| s.segment == number).map_or(bytes, |s| bytes.min(trimmed_bytes(s.offset)));
        if spares.contains(&number) { &mut spare } else { &mut old }.push((number, bytes));
    }
    Ok((old, spare))
}

#[cfg(not(loom))]
fn pause<'a>(condvar: &Condvar, mut guard: crate::sync::MutexGuard<'a, bool>, limit: Duration) -> crate::sync::MutexGuard<'a, bool> {
    condvar.wait_for(&mut guard, limit);
    guard
}

#[cfg(loom)]
fn pause<'a>(condvar: &Condvar, guard: crate::sync::MutexGuard<'a, bool>, _limit: Duration) -> crate::sync::MutexGuard<'a, bool> {
    condvar.wait_owned(guard)
}

const _: () = assert!(RECORD_BYTES_MIN < SEGMENT_HEADER_BYTES as usize);
