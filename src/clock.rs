//! The region's clock, and bounded waiting. With its two parts the only caller of the system time.
//!
//! - `anchor.rs`: turns a running counter into wall time by a line that is renewed about once a second. Pure arithmetic and one seqlock.
//! - `system.rs`: the process's one such line, over the time-stamp counter where the kernel trusts it, else over the kernel's monotonic clock.
//!
//! Must not: know rows or ticks of rows (that is `sequencer`), or sleep on behalf of a room without being asked.

#![forbid(unsafe_code)]

mod anchor;
#[cfg(all(test, loom))]
mod models;
mod system;
#[cfg(all(test, not(loom)))]
mod tests;

pub use system::{SystemClock, monotonic_nanos};

use crate::ids::Tick;
use crate::sync::{Arc, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Unit of a region's timestamps, fixed at creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ClockUnit {
    /// Nanoseconds (the default).
    Nanos = 1,
    /// Microseconds.
    Micros = 2,
    /// Milliseconds: HBase's unit.
    Millis = 3,
}

impl ClockUnit {
    /// Nanoseconds per tick.
    pub const fn nanos(self) -> u64 {
        match self {
            Self::Nanos => 1,
            Self::Micros => 1_000,
            Self::Millis => 1_000_000,
        }
    }
    /// As options write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nanos => "ns",
            Self::Micros => "us",
            Self::Millis => "ms",
        }
    }
    /// From the stored number.
    pub const fn from_u8(n: u8) -> Option<Self> {
        match n {
            1 => Some(Self::Nanos),
            2 => Some(Self::Micros),
            3 => Some(Self::Millis),
            _ => None,
        }
    }
}

/// Source of time. A test's clock may stand still or step back.
pub trait Clock: Send + Sync {
    /// Now, in the clock's unit since the Unix epoch.
    fn now(&self) -> Tick;
    /// Nanoseconds per tick.
    fn unit(&self) -> ClockUnit;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Tick {
        (**self).now()
    }
    fn unit(&self) -> ClockUnit {
        (**self).unit()
    }
}

/// The clock of a region: the system's, so that its read is inlined into the commit, or one that a test moves by hand.
#[derive(Clone)]
pub enum RegionClock {
    /// The wall clock.
    System(SystemClock),
    /// Any other.
    Other(Arc<dyn Clock>),
}

impl Clock for RegionClock {
    #[inline]
    fn now(&self) -> Tick {
        match self {
            Self::System(c) => c.now(),
            Self::Other(c) => c.now(),
        }
    }
    fn unit(&self) -> ClockUnit {
        match self {
            Self::System(c) => c.unit(),
            Self::Other(c) => c.unit(),
        }
    }
}

/// What a region does when a row already committed in the clock's current tick. The numbers are stored and part of the C interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TickPolicy {
    /// Take the tick after the row's last, within the lead bound (the default).
    #[default]
    Advance = 1,
    /// Wait until the clock has left the row's last tick. With nanosecond ticks the same as `Advance`: the clock has moved on by then. For a row that
    /// is not in the lock table the last tick is known only as that of all rows that have left its bucket: so with coarse ticks, and more than two rows of
    /// a bucket written within one, a row may also wait that has not been written in it. More `lock_buckets` make that rarer.
    Wait = 2,
}

/// A clock that moves only when told to, forwards or backwards. For tests.
pub struct ManualClock {
    now: AtomicU64,
    unit: ClockUnit,
}

impl ManualClock {
    /// Stands at `now`, in `unit`s.
    pub fn new(now: u64, unit: ClockUnit) -> Self {
        Self { now: AtomicU64::new(now), unit }
    }
    // AcqRel and Acquire: who sees a time also sees what was done before the clock was put there, as with a real clock.
    /// Put it at `now`.
    pub fn set(&self, now: u64) {
        self.now.store(now, Ordering::Release);
    }
    /// Forwards by `ticks`.
    pub fn advance(&self, ticks: u64) {
        self.now.fetch_add(ticks, Ordering::AcqRel);
    }
    /// Backwards by `ticks`.
    pub fn step_back(&self, ticks: u64) {
        self.now.fetch_sub(ticks, Ordering::AcqRel);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Tick {
        Tick(self.now.load(Ordering::Acquire))
    }
    fn unit(&self) -> ClockUnit {
        self.unit
    }
}

/// Sleep, for waits that poll. A scheduling point under loom.
pub(crate) fn sleep(time: Duration) {
    #[cfg(not(loom))]
    crate::sync::thread::sleep(time);
    #[cfg(loom)]
    {
        let _ = time;
        crate::sync::thread::yield_now();
    }
}

/// How long a call may wait. Reads the clock only once something has to be waited for, so an uncontended call pays nothing.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    micros: u64,
    until: Option<Instant>,
}

impl Timeout {
    /// At most `micros` microseconds; `u64::MAX` waits for ever, 0 and 1 do not wait.
    pub const fn from_micros(micros: u64) -> Self {
        Self { micros, until: None }
    }
    /// For ever.
    pub const fn forever() -> Self {
        Self::from_micros(u64::MAX)
    }
    /// Not at all.
    pub const fn no_wait() -> Self {
        Self::from_micros(0)
    }
    /// The microseconds it was made with.
    pub const fn micros(&self) -> u64 {
        self.micros
    }
    /// True for a timeout that never waits.
    pub const fn is_no_wait(&self) -> bool {
        self.micros <= 1
    }
    /// The instant at which it ends; the first call starts it. None: never.
    pub fn until(&mut self) -> Option<Instant> {
        if self.until.is_none() && self.micros != u64::MAX {
            let micros = if self.is_no_wait() { 0 } else { self.micros };
            // A sum beyond the clock's range is as good as for ever.
            self.until = Instant::now().checked_add(Duration::from_micros(micros));
        }
        self.until
    }
    /// True once it has passed; the first call starts it.
    pub fn is_over(&mut self) -> bool {
        self.is_no_wait() || self.until().is_some_and(|t| Instant::now() >= t)
    }
    /// What is left, at most `cap`; the first call starts it.
    pub fn left(&mut self, cap: Duration) -> Duration {
        if self.is_no_wait() {
            return Duration::ZERO;
        }
        self.until().map_or(cap, |t| t.saturating_duration_since(Instant::now()).min(cap))
    }
}
