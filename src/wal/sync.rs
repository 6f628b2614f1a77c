//! Who syncs for whom; the durable number D. One leader syncs for all that is appended, the others wait for it.
//!
//! All syncs of the log go through the one I/O lock, so no two threads ever sync: a failed one is seen by its leader and by everybody after it, and is never
//! repeated, since the kernel may have dropped what it could not write. D moves only under that lock, only after every byte below it was synced, and never
//! again after a failure.
//!
//! Waiting: a caller that finds the I/O lock free leads. Otherwise it yields a few times while many wait (a futex round trip costs more than the sync it waits for),
//! then parks. Nobody sleeps for ever, because
//!  1. a thread enters the queue only while the I/O lock is held, checked under the queue's lock; and whoever held the I/O lock looks into the queue after
//!     releasing it. The looking is `hand_over`: it wakes one thread that is still not durable, the next leader, and then everybody who is.
//!  2. the thread woken to lead leads, or finds the I/O lock held (then 1 applies to that holder), or passes its turn on when it leaves with a timeout.
//!
//! In steady state nothing is allocated: the queue keeps its capacity, a parked thread is a handle.

use super::append::End;
use crate::clock::Timeout;
use crate::health::Health;
use crate::hooks::{self, Point};
use crate::ids::LogPosition;
use crate::lock_order::{self, Level as LockLevel, LevelGuard};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, thread};
use crossbeam_utils::CachePadded;
use std::io;

/// Rounds of yielding before a waiter parks.
const YIELDS: u32 = 8;
/// Threads woken per look into the queue.
const WAKE_AT_ONCE: usize = 16;

/// What the group syncs: the log's segments, or a model.
pub(super) trait Device {
    /// What the leader keeps between syncs, guarded by the I/O lock.
    type State;
    /// What a sync leaves to be dropped once the I/O lock is free.
    type Leftover;
    /// Number and position now; with `pad`, after appending an idle PAD.
    fn end(&self, pad: bool) -> End;
    /// Makes every byte up to `end` durable that is not yet.
    fn sync(&self, state: &mut Self::State, synced: LogPosition, end: LogPosition) -> io::Result<Option<Self::Leftover>>;
    /// Puts the leftover away, with nothing held.
    fn dispose(&self, leftover: Self::Leftover);
}

/// Why a wait ended without the number being durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDurable {
    /// Time is up; it may become durable yet.
    Timeout,
    /// A sync or a log write failed; only a reopen tells.
    Poisoned,
}

/// The sync group of one log.
pub(super) struct SyncGroup<S> {
    /// Read by every commit, written once per sync.
    durable: CachePadded<Durable>,
    /// Highest number of FSYNC level.
    last_fsync: CachePadded<AtomicU64>,
    /// Threads in `wait_for_durable`.
    waiting: CachePadded<AtomicUsize>,
    /// Level 4: the one sync lock.
    io: Mutex<Io<S>>,
    /// Leaf: the threads that are parked.
    queue: Mutex<Vec<Waiter>>,
    /// Syncs made.
    syncs: AtomicU64,
    /// More waiters than this are worth yielding for.
    crowd: usize,
    ctx: u64,
    #[cfg(loom)]
    pub(super) flaw: super::models::Flaw,
}

struct Durable {
    /// D: every record with a number up to it is on stable storage.
    number: AtomicU64,
    /// Every byte below it is on stable storage; stored before `number`.
    position: AtomicU64,
}

struct Io<S> {
    state: S,
    /// A sync has failed: set before the lock is released, so that the next leader cannot try again before the region is poisoned.
    failed: bool,
}

/// The I/O lock, held.
struct IoGuard<'a, S> {
    io: MutexGuard<'a, Io<S>>,
    _level: LevelGuard,
}

struct Waiter {
    number: u64,
    thread: thread::Thread,
}

impl<S> SyncGroup<S> {
    /// Everything up to `number` and `position` is durable.
    pub(super) fn new(state: S, number: u64, position: LogPosition, crowd: usize, ctx: u64) -> Self {
        Self {
            durable: CachePadded::new(Durable { number: AtomicU64::new(number), position: AtomicU64::new(position.0) }),
            last_fsync: CachePadded::new(AtomicU64::new(0)),
            waiting: CachePadded::new(AtomicUsize::new(0)),
            io: Mutex::new(Io { state, failed: false }),
            queue: Mutex::new(Vec::with_capacity(128)),
            syncs: AtomicU64::new(0),
            crowd,
            ctx,
            #[cfg(loom)]
            flaw: super::models::Flaw::None,
        }
    }

    /// D.
    #[inline]
    pub(super) fn durable(&self) -> u64 {
        // Acquire: pairs with the leader's Release; whoever sees D sees what the leader saw, above all `position`.
        self.durable.number.load(Ordering::Acquire)
    }

    /// The durable position, as appenders record it.
    #[inline]
    pub(super) fn position(&self) -> &AtomicU64 {
        &self.durable.position
    }

    /// Notes a commit of FSYNC level; before its slot is freed.
    #[inline]
    pub(super) fn note_fsync(&self, number: u64) {
        // Release: pairs with the Acquire in `last_fsync`, by which a snapshot that saw the slot free finds the number.
        self.last_fsync.fetch_max(number, Ordering::Release);
    }

    /// Highest number of FSYNC level.
    pub(super) fn last_fsync(&self) -> u64 {
        // Acquire: see `note_fsync`.
        self.last_fsync.load(Ordering::Acquire)
    }

    /// Syncs made so far.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Waits until everything up to `number` is durable, leading a sync if nobody does.
    pub(super) fn wait_for_durable<D: Device<State = S>>(
        &self,
        device: &D,
        health: &Health,
        number: u64,
        timeout: &mut Timeout,
    ) -> Result<(), NotDurable> {
        if self.durable() >= number {
            return Ok(());
        }
        lock_order::assert_free_from(LockLevel::Rows, "wait_for_durable");
        // Relaxed: only a hint for yielding.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let result = self.wait(device, health, number, timeout);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        result
    }

    fn wait<D: Device<State = S>>(&self, device: &D, health: &Health, number: u64, timeout: &mut Timeout) -> Result<(), NotDurable> {
        let mut yields = 0;
        // Taken out of the queue by a leader: this thread has the turn, and must lead or pass it on.
        let mut has_turn = false;
        loop {
            if self.durable() >= number {
                return Ok(());
            }
            if !health.is_good() {
                return Err(NotDurable::Poisoned);
            }
            if timeout.is_over() {
                if has_turn {
                    self.hand_over(health);
                }
                return Err(NotDurable::Timeout);
            }
            if let Some(io) = self.try_io() {
                if !self.lead(device, health, io, false) && self.durable() < number {
                    return Err(NotDurable::Poisoned);
                }
                has_turn = false;
                continue;
            }
            if yields < YIELDS && self.waiting.load(Ordering::Relaxed) > self.crowd {
                yields += 1;
                thread::yield_now();
                continue;
            }
            let mut queue = self.queue.lock();
            if self.durable() >= number || !health.is_good() {
                continue;
            }
            if let Some(io) = self.try_io_again() {
                drop(queue);
                if !self.lead(device, health, io, false) && self.durable() < number {
                    return Err(NotDurable::Poisoned);
                }
                has_turn = false;
                continue;
            }
            queue.push(Waiter { number, thread: thread::current() });
            drop(queue);
            has_turn = self.park(number, timeout);
        }
    }

    /// Rule 1's check under the queue's lock.
    fn try_io_again(&self) -> Option<IoGuard<'_, S>> {
        #[cfg(loom)]
        if self.flaw == super::models::Flaw::NoSecondLook {
            return None;
        }
        self.try_io()
    }

    fn try_io(&self) -> Option<IoGuard<'_, S>> {
        let level = lock_order::enter(LockLevel::LogIo, "log I/O lock");
        Some(IoGuard { io: self.io.try_lock()?, _level: level })
    }

    /// Parks until woken or time is up. True: a leader has taken this thread out of the queue.
    fn park(&self, number: u64, timeout: &mut Timeout) -> bool {
        let me = thread::current().id();
        park_for(timeout);
        let mut queue = self.queue.lock();
        let Some(at) = queue.iter().position(|w| w.thread.id() == me && w.number == number) else { return true };
        // Still in: time is up, or woken for another reason. The caller looks at everything again.
        queue.swap_remove(at);
        false
    }

    /// One sync by the holder of the I/O lock, which is released on the way. False: it failed, or one before it did (then the region may be poisoned only in a moment,
    /// and trying again until it is would be a spin: loom found it).
    fn lead<D: Device<State = S>>(&self, device: &D, health: &Health, mut io: IoGuard<'_, S>, pad: bool) -> bool {
        let mut leftover = None;
        let mut error = None;
        if !io.io.failed && health.is_good() {
            hooks::reach(Point::SyncStart, self.ctx);
            let end = device.end(pad);
            #[cfg(loom)]
            let flaw = self.flaw;
            // Relaxed: both are written under the I/O lock only.
            let synced = LogPosition(self.durable.position.load(Ordering::Relaxed));
            if end.position > synced {
                match device.sync(&mut io.io.state, synced, end.position) {
                    Ok(left) => leftover = left,
                    Err(e) => {
                        io.io.failed = true;
                        #[cfg(loom)]
                        {
                            io.io.failed = flaw != super::models::Flaw::RetrySync;
                        }
                        error = Some(e);
                    }
                }
                self.syncs.fetch_add(1, Ordering::Relaxed);
            }
            hooks::reach(Point::SyncEnd, self.ctx);
            #[cfg(loom)]
            let end = if flaw == super::models::Flaw::EndAfterSync { device.end(false) } else { end };
            if !io.io.failed && error.is_none() && health.is_good() {
                self.publish(end);
            }
        }
        let good = !io.io.failed && error.is_none();
        drop(io);
        if let Some(e) = error {
            health.poison(&format!("a sync of the log failed: {e}"));
        }
        self.hand_over(health);
        if let Some(left) = leftover {
            device.dispose(left);
        }
        good
    }

    fn publish(&self, end: End) {
        // Release, and before D: pairs with the appender's Acquire. A record may only carry a position below which all is on stable storage.
        self.durable.position.store(end.position.0, Ordering::Release);
        // Release: pairs with the Acquire in `durable`.
        self.durable.number.store(end.last, Ordering::Release);
    }

    /// Wakes the next leader, then everybody who need not wait any more. Called after the I/O lock was released, with nothing held.
    fn hand_over(&self, health: &Health) {
        let mut first_look = true;
        loop {
            let mut woken: [Option<thread::Thread>; WAKE_AT_ONCE] = [const { None }; WAKE_AT_ONCE];
            let mut places = woken.iter_mut();
            {
                let mut queue = self.queue.lock();
                let all = !health.is_good();
                let durable = self.durable();
                #[cfg(loom)]
                let first_look = first_look && self.flaw != super::models::Flaw::NoNextLeader;
                if first_look
                    && !all
                    && let Some(at) = queue.iter().position(|w| w.number > durable)
                    && let Some(place) = places.next()
                {
                    *place = Some(queue.swap_remove(at).thread);
                }
                let mut at = 0;
                while let Some(waiter) = queue.get(at) {
                    if !all && waiter.number > durable {
                        at += 1;
                        continue;
                    }
                    let Some(place) = places.next() else { break };
                    *place = Some(queue.swap_remove(at).thread);
                }
            }
            first_look = false;
            let full = places.next().is_none();
            for thread in woken.iter().flatten() {
                thread.unpark();
            }
            if !full {
                return;
            }
        }
    }

    /// Makes everything appended so far durable, and ends it with an idle PAD if a record came after the last one. For the background sync and close.
    pub(super) fn sync_with_pad<D: Device<State = S>>(&self, device: &D, health: &Health) -> Result<(), NotDurable> {
        let level = lock_order::enter(LockLevel::LogIo, "log I/O lock");
        let io = IoGuard { io: self.io.lock(), _level: level };
        if self.lead(device, health, io, true) && health.is_good() { Ok(()) } else { Err(NotDurable::Poisoned) }
    }

    /// The leader's state, for taking the group apart.
    pub(super) fn with_state<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        f(&mut self.io.lock().state)
    }
}

#[cfg(not(loom))]
fn park_for(timeout: &mut Timeout) {
    // A cap, so that a lost wake-up (there is none; see the models) would cost a second and not the caller.
    thread::park_timeout(timeout.left(std::time::Duration::from_secs(1)));
}

#[cfg(loom)]
fn park_for(_timeout: &mut Timeout) {
    thread::park();
}
