//! The region's clock, and bounded waiting. The only caller of the system time.

use crate::ids::Tick;
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
