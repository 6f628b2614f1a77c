//! Who syncs for whom; the durable number D. One leader syncs for all that is appended, the others wait for it.
//!
//! All syncs of the log go through the one I/O lock, so no two threads ever sync: a failed one is seen by its leader and by everybody after it, and is never
//! repeated, since the kernel may have dropped what it could not write. D moves only under that lock, only after every byte below it was synced, and never
//! again after a failure.
//!
//! Waiting: a caller that finds the I/O lock free leads, unless the next sync gathers (`pace.rs`): then whoever completes the group leads, or, when the gathering's
//! time is up, the thread that keeps it. Where many wait they yield for a while before they park: a switch between threads that run costs a fraction of a futex round
//! trip, above all where that meets an idle core. Nobody sleeps for ever, because
//!  1. a thread enters the queue only, under the queue's lock, while the I/O lock is held, or while it or another in the queue keeps a gathering's time; and whoever held
//!     the I/O lock looks into the queue after releasing it. The looking is `hand_over`: it wakes one thread that is still not durable, the next leader or the one to keep
//!     the time, and then everybody who is durable.
//!  2. the thread woken to lead leads, or finds the I/O lock held (then 1 applies to that holder), or passes its turn on when it leaves with a timeout. So does who keeps
//!     the time.
//!
//! In steady state nothing is allocated: the queue keeps its capacity, a parked thread is a handle.

use super::append::End;
use super::pace::{Goal, Pace};
use super::waiters::{Gathering, Queue, Waiter, park_for};
use crate::clock::Timeout;
use crate::health::Health;
use crate::hooks::{self, Point};
use crate::ids::LogPosition;
use crate::lock_order::{self, Level as LockLevel, LevelGuard};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, thread};
use crossbeam_utils::CachePadded;
use std::io;
use std::time::Instant;

/// Rounds of yielding before a waiter parks, where many wait.
const YIELDS: u32 = 16;
/// Threads taken per look into the queue.
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
    /// Level 4: the one sync lock.
    io: Mutex<Io<S>>,
    /// Calls that had to wait, since the log's life began.
    arrived: CachePadded<AtomicU64>,
    /// More callers than this are worth yielding for.
    crowd: u64,
    /// Leaf: the threads that are parked.
    queue: CachePadded<Mutex<Queue>>,
    /// Syncs made.
    syncs: AtomicU64,
    ctx: u64,
    #[cfg(loom)]
    pub(super) flaw: super::models::Flaw,
}

struct Durable {
    /// D: every record with a number up to it is on stable storage.
    number: AtomicU64,
    /// Every byte below it is on stable storage; stored before `number`.
    position: AtomicU64,
    /// Callers in and behind the last group: a hint.
    callers: AtomicU64,
}

struct Io<S> {
    state: S,
    /// A sync has failed: set before the lock is released, so that the next leader cannot try again before the region is poisoned.
    failed: bool,
    pace: Pace,
}

/// The I/O lock, held.
struct IoGuard<'a, S> {
    io: MutexGuard<'a, Io<S>>,
    _level: LevelGuard,
}

impl<S> SyncGroup<S> {
    /// Everything up to `number` and `position` is durable.
    pub(super) fn new(state: S, number: u64, position: LogPosition, crowd: u64, ctx: u64) -> Self {
        Self {
            durable: CachePadded::new(Durable {
                number: AtomicU64::new(number),
                position: AtomicU64::new(position.0),
                callers: AtomicU64::new(0),
            }),
            last_fsync: CachePadded::new(AtomicU64::new(0)),
            io: Mutex::new(Io { state, failed: false, pace: Pace::default() }),
            arrived: CachePadded::new(AtomicU64::new(0)),
            crowd,
            queue: CachePadded::new(Mutex::new(Queue { waiting: Vec::with_capacity(128), done: Vec::with_capacity(128), gathering: None })),
            syncs: AtomicU64::new(0),
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
        // Relaxed, here and below: counted for the pace; a count that is a little old costs a wait of the gathering's time.
        self.arrived.fetch_add(1, Ordering::Relaxed);
        let mut yields = if self.durable.callers.load(Ordering::Relaxed) > self.crowd { YIELDS } else { 0 };
        // This thread was taken out of the queue to lead, or keeps the time: it does, or passes that on when it leaves.
        let mut has_turn = false;
        let mut time_is_up = false;
        loop {
            if self.durable() >= number {
                return Ok(());
            }
            let poisoned = !health.is_good();
            if poisoned || timeout.is_over() {
                if has_turn {
                    self.queue.lock().gathering = None;
                    self.hand_over(health);
                }
                return Err(if poisoned { NotDurable::Poisoned } else { NotDurable::Timeout });
            }
            #[cfg(loom)]
            let early = self.flaw == super::models::Flaw::NoSecondLook && self.try_io().is_none();
            let mut queue = self.queue.lock();
            // Under the queue's lock: who becomes durable now is woken only if it is in the queue.
            if self.durable() >= number || !health.is_good() {
                continue;
            }
            let lead = time_is_up || queue.gathering.as_ref().is_none_or(|g| g.is_over(self.arrived.load(Ordering::Relaxed)));
            #[cfg(loom)]
            let lead = lead && !early && (time_is_up || queue.gathering.is_none() || self.flaw != super::models::Flaw::NobodyCompletes);
            if lead && let Some(io) = self.try_io() {
                drop(queue);
                if !self.lead(device, health, io, false) && self.durable() < number {
                    return Err(NotDurable::Poisoned);
                }
                (has_turn, time_is_up) = (false, false);
                continue;
            }
            if yields > 0 && !has_turn {
                drop(queue);
                yields -= 1;
                thread::yield_now();
                continue;
            }
            let keep = queue.gathering.as_mut().and_then(|g| g.keep(lead));
            #[cfg(loom)]
            let keep = keep.filter(|_| self.flaw != super::models::Flaw::NobodyKeepsTime);
            queue.waiting.push(Waiter { number, thread: thread::current() });
            drop(queue);
            (has_turn, time_is_up) = self.park(number, health, timeout, keep);
        }
    }

    fn try_io(&self) -> Option<IoGuard<'_, S>> {
        let level = lock_order::enter(LockLevel::LogIo, "log I/O lock");
        Some(IoGuard { io: self.io.try_lock()?, _level: level })
    }

    /// Parks until woken or time is up: the caller's, or with `keep` the gathering's. Returns whether the thread has the turn, and whether the gathering's time is up.
    fn park(&self, number: u64, health: &Health, timeout: &mut Timeout, mut keep: Option<Goal>) -> (bool, bool) {
        let me = thread::current().id();
        loop {
            let up = park_for(timeout, keep);
            if self.durable() >= number {
                // A leader has taken this thread out of the queue, or will in a moment.
                return (false, false);
            }
            let mut queue = self.queue.lock();
            let Some(at) = queue.waiting.iter().position(|w| w.number == number && w.thread.id() == me) else { return (true, false) };
            // Still in. A gathering that is over needs no keeper: its leader syncs.
            if queue.gathering.is_none() {
                keep = None;
            }
            let up = up && keep.is_some();
            if up || !health.is_good() || timeout.is_over() {
                queue.waiting.swap_remove(at);
                return (keep.is_some(), up);
            }
        }
    }

    /// One sync by the holder of the I/O lock, which is released on the way. False: it failed, or one before it did (then the region may be poisoned only in a moment,
    /// and trying again until it is would be a spin: loom found it).
    fn lead<D: Device<State = S>>(&self, device: &D, health: &Health, mut io: IoGuard<'_, S>, pad: bool) -> bool {
        let mut leftover = None;
        let mut error = None;
        if !io.io.failed && health.is_good() {
            hooks::reach(Point::SyncStart, self.ctx);
            let goal = self.queue.lock().gathering.take().map(|g| g.goal);
            // Before the end is taken: who has arrived has appended.
            io.io.pace.begin(self.arrived.load(Ordering::Relaxed), goal);
            let began = Instant::now();
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
                self.take_durable(&mut io.io.pace, began);
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

    /// Takes those out of the queue who are durable now, and decides whether the next sync gathers. Under the I/O lock, so that whoever gets it next finds only those
    /// whom its sync is for.
    fn take_durable(&self, pace: &mut Pace, began: Instant) {
        let mut queue = self.queue.lock();
        let queue = &mut *queue;
        let durable = self.durable();
        let mut at = 0;
        while let Some(waiter) = queue.waiting.get(at) {
            if waiter.number > durable {
                at += 1;
            } else {
                queue.done.push(queue.waiting.swap_remove(at).thread);
            }
        }
        let now = Instant::now();
        let (callers, goal) = pace.end(self.arrived.load(Ordering::Relaxed), now.duration_since(began), now);
        self.durable.callers.store(callers, Ordering::Relaxed);
        queue.gathering = goal.map(|goal| Gathering { goal, kept: false });
    }

    fn publish(&self, end: End) {
        // Release, and before D: pairs with the appender's Acquire. A record may only carry a position below which all is on stable storage.
        self.durable.position.store(end.position.0, Ordering::Release);
        // Release: pairs with the Acquire in `durable`.
        self.durable.number.store(end.last, Ordering::Release);
    }

    /// Wakes the next leader, or who keeps the time for it, then everybody who need not wait any more. Called after the I/O lock was released, with nothing held.
    fn hand_over(&self, health: &Health) {
        let next = {
            let mut queue = self.queue.lock();
            let queue = &mut *queue;
            if !health.is_good() {
                queue.gathering = None;
                queue.done.extend(queue.waiting.drain(..).map(|w| w.thread));
            }
            let kept = queue.gathering.as_ref().is_some_and(|g| g.kept);
            #[cfg(loom)]
            let kept = kept || self.flaw == super::models::Flaw::NoNextLeader;
            if kept { None } else { queue.waiting.pop() }
        };
        if let Some(next) = next {
            next.thread.unpark();
        }
        loop {
            let mut woken: [Option<thread::Thread>; WAKE_AT_ONCE] = [const { None }; WAKE_AT_ONCE];
            {
                let mut queue = self.queue.lock();
                for place in &mut woken {
                    *place = queue.done.pop();
                }
            }
            for thread in woken.iter().flatten() {
                thread.unpark();
            }
            if woken.iter().any(Option::is_none) {
                return;
            }
        }
    }

    /// For models: the first sync gathers already, for `arrivals`.
    #[cfg(loom)]
    pub(super) fn gather(&mut self, arrivals: u64, time_passes: bool) {
        let goal = Goal { arrival: arrivals, worth: u64::from(!time_passes), until: Instant::now() };
        self.queue.lock().gathering = Some(Gathering { goal, kept: false });
        self.io.lock().pace.fixed = Some((arrivals, time_passes));
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
