//! RowCommitSequencer: a tick such that no row commits twice in one.
//!
//! Called under the locks of a commit's rows with the largest tick that any of them has had. There is no shared set of rows and no shared counter:
//! the tick is `max(clock, last + 1)`, and as long as the clock has left the row's last tick nothing is written that another thread reads.
//!
//! Must not: know row locks (ticks come in through [`LastTick`]), or wait under them: a row whose tick must be waited for gets
//! [`Step::WaitFor`], and the caller lets everything go before [`RowCommitSequencer::wait_for_next_tick`].
//!
//! How far a row may run ahead of the clock. Let `lead` be the tick minus the clock, `bound` the lead bound in ticks (0 for policy `wait`),
//! and `fallen` how far the clock is known to have fallen behind the rows' ticks, by standing still, by stepping back, or in a former life:
//!
//! | lead | clock | answer |
//! |---|---|---|
//! | ≤ 0 | | take the clock |
//! | ≤ bound + fallen | | take last + 1, counted |
//! | bound + fallen + 1 | moved within the last 100 ms | wait for its next tick |
//! | bound + fallen + 1 | stands | take last + 1, counted; fallen grows by one |
//! | more | must have stepped back: rows do not get there otherwise | take last + 1, counted; fallen grows to lead, so that other rows have the bound again |
//!
//! `fallen` melts at half the clock's speed. So a row's time stays within the bound of a clock that goes on where the real one stepped back (and
//! each such step may add one bound), and nobody waits for more than one tick of a clock that moves, nor longer than 100 ms for one that does not.
//!
//! Threads: any number. The common path writes nothing shared; beyond the bound there is a lock (level 3, a few instructions).
//!
//! Invariants
//! - T1 No row is committed twice in one tick. T2 A row's ticks grow in lock order. Both follow from `tick > last` under the row's lock, which alone is
//!   why neither depends on what the clock does. T3 A clock that stands or steps back never hangs a row.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use crate::clock::{self, Clock, ClockUnit, SystemClock, TickPolicy, Timeout};
use crate::ids::Tick;
use crate::sync::{AtomicU64, Mutex, Ordering, spin_loop, thread};
use crossbeam_utils::CachePadded;
use std::time::Duration;

/// What the sequencer may know of held row locks.
pub trait LastTick {
    /// The largest tick that one of the rows has had.
    fn last_tick(&self) -> Tick;
}

/// The sequencer's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Commit with this tick.
    Take(Tick),
    /// Let the row locks go, wait until the clock shows this tick, and come again.
    WaitFor(Tick),
}

/// Why a wait for the tick ended early. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickWait {
    /// The timeout passed.
    Timeout,
    /// The region is being closed.
    Closed,
}

/// For the region's stats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequencerStats {
    /// Commits whose tick was ahead of the clock.
    pub tick_advances: u64,
    /// The furthest that a tick was ahead of the clock, in nanoseconds.
    pub tick_lead_max_ns: u64,
    /// How often a commit had to wait for the clock.
    pub clock_waits: u64,
}

/// One region's sequencer.
pub struct RowCommitSequencer<C = SystemClock> {
    clock: C,
    /// Lead bound, in ticks.
    bound: u64,
    unit: ClockUnit,
    ahead: CachePadded<Ahead>,
}

/// Touched only when a row is ahead of the clock.
struct Ahead {
    // Relaxed, all five: they carry no other data, and `fallen` and `fallen_since` may be seen out of step. Then one row is taken for
    // beyond the bound when it is not, or the reverse; both are repaired by the look under the lock that follows, or by the next one.
    tick_advances: AtomicU64,
    lead_max: AtomicU64,
    clock_waits: AtomicU64,
    /// How far the clock had fallen behind when it showed `fallen_since`.
    fallen: AtomicU64,
    fallen_since: AtomicU64,
    /// Level 3.
    movement: Mutex<Movement>,
}

/// When the clock last moved, as far as anybody looked.
struct Movement {
    shown: u64,
    at_ns: u64,
}

/// A clock that has not moved for this long stands.
const STANDS_NANOS: u64 = 100_000_000;
/// A wait spins this long, then yields this long if it is about to end, then sleeps.
const SPIN_NANOS: u64 = 3_000;
const YIELD_NANOS: u64 = 80_000;

impl<C: Clock> RowCommitSequencer<C> {
    /// `lead_bound_ns`: how far a row's ticks may run ahead of the clock (default of the options: one second).
    pub fn new(clock: C, policy: TickPolicy, lead_bound_ns: u64) -> Self {
        let unit = clock.unit();
        let bound = match (policy, unit) {
            (TickPolicy::Wait, ClockUnit::Micros | ClockUnit::Millis) => 0,
            _ => lead_bound_ns / unit.nanos(),
        };
        let zero = || AtomicU64::new(0);
        let movement = Mutex::new(Movement { shown: 0, at_ns: 0 });
        let ahead = Ahead { tick_advances: zero(), lead_max: zero(), clock_waits: zero(), fallen: zero(), fallen_since: zero(), movement };
        Self { clock, bound, unit, ahead: CachePadded::new(ahead) }
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The tick of a commit on rows of which `last` is the largest tick so far. Under their locks; the caller stores the tick before it lets them go.
    #[inline]
    pub fn next(&self, last: Tick) -> Step {
        let now = self.clock.now();
        if now > last { Step::Take(now) } else { self.next_ahead(now.0, last.0 + 1) }
    }

    /// The same, from the held locks.
    #[inline]
    pub fn next_for(&self, rows: &impl LastTick) -> Step {
        self.next(rows.last_tick())
    }

    /// The clock has not left the row's last tick.
    #[cold]
    fn next_ahead(&self, now: u64, tick: u64) -> Step {
        if tick - now > self.allowance(now) {
            // Read again under the lock, so that all threads see one course of the clock.
            let mut movement = self.ahead.movement.lock();
            let now = self.clock.now().0;
            if now >= tick {
                return Step::Take(Tick(now));
            }
            let (lead, allowed) = (tick - now, self.allowance(now));
            let stands = movement.stands(now);
            if lead == allowed + 1 && !stands {
                return Step::WaitFor(Tick(now + 1));
            }
            if lead > allowed {
                let fallen = if lead == allowed + 1 { lead - self.bound } else { lead };
                self.ahead.fallen.store(fallen, Ordering::Relaxed);
                self.ahead.fallen_since.store(now, Ordering::Relaxed);
            }
        }
        self.ahead.tick_advances.fetch_add(1, Ordering::Relaxed);
        let lead = tick - now;
        if lead > self.ahead.lead_max.load(Ordering::Relaxed) {
            self.ahead.lead_max.fetch_max(lead, Ordering::Relaxed);
        }
        Step::Take(Tick(tick))
    }

    /// How far ahead of the clock a tick may be.
    fn allowance(&self, now: u64) -> u64 {
        let melted = now.saturating_sub(self.ahead.fallen_since.load(Ordering::Relaxed)) / 2;
        self.bound + self.ahead.fallen.load(Ordering::Relaxed).saturating_sub(melted)
    }

    /// Wait until the clock shows `until`, stands, or stepped back; then call [`RowCommitSequencer::next`] again, under the locks. Nothing may be held.
    pub fn wait_for_next_tick(&self, until: Tick, timeout: &mut Timeout, closing: &dyn Fn() -> bool) -> Result<(), TickWait> {
        self.ahead.clock_waits.fetch_add(1, Ordering::Relaxed);
        let first = self.clock.now();
        let begun = clock::monotonic_nanos();
        loop {
            let now = self.clock.now();
            if now >= until || now < first {
                return Ok(());
            }
            if closing() {
                return Err(TickWait::Closed);
            }
            if timeout.is_over() {
                return Err(TickWait::Timeout);
            }
            let waited = clock::monotonic_nanos().saturating_sub(begun);
            let left = (until.0 - now.0).saturating_mul(self.unit.nanos()).saturating_sub(waited);
            match waited {
                0..SPIN_NANOS => spin_loop(),
                SPIN_NANOS..YIELD_NANOS if left < YIELD_NANOS => thread::yield_now(),
                _ => {
                    if self.ahead.movement.lock().stands(now.0) {
                        return Ok(());
                    }
                    // In short pieces: how much of the current tick has passed cannot be seen.
                    clock::sleep(timeout.left(Duration::from_nanos(left.clamp(50_000, 200_000))));
                }
            }
        }
    }

    /// Counts since the start.
    pub fn stats(&self) -> SequencerStats {
        let of = |a: &AtomicU64| a.load(Ordering::Relaxed);
        SequencerStats {
            tick_advances: of(&self.ahead.tick_advances),
            tick_lead_max_ns: of(&self.ahead.lead_max).saturating_mul(self.unit.nanos()),
            clock_waits: of(&self.ahead.clock_waits),
        }
    }
}

impl Movement {
    /// Note what the clock shows, and tell whether it has shown this for a while.
    fn stands(&mut self, now: u64) -> bool {
        let at = clock::monotonic_nanos();
        if now != self.shown {
            *self = Self { shown: now, at_ns: at };
        }
        at.saturating_sub(self.at_ns) >= STANDS_NANOS
    }
}
