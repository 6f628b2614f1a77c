//! Wall time and monotonic time as straight lines over a running counter, renewed about once a second.
//!
//! What it must not do: read any clock. Counts and samples come in as arguments, so that tests and loom can drive it.
//!
//! Threads: any number read; one at a time renews (the caller's lock sees to it). A reader never waits for a renewal: the next anchor
//! is written to the half that nobody reads, and only then named as the current one.
//!
//! Invariants
//! - A1 A reader uses one whole anchor: it looks at `current` again after its loads and starts over if it changed.
//! - A2 Time never goes backwards, for readers ordered by anything: a new line starts at or above the old one, and where it is less
//!   steep it starts so much above that the old one cannot overtake it within `HANDOVER`, should a reader or the renewer be
//!   preempted between reading the counter and the renewal. Nobody writes shared memory to get this.
//! - A3 Lines are a little too flat on purpose, so that a renewal normally moves time forward (by about a microsecond). When the wall clock
//!   was set back, time goes on at half speed at least until the wall clock has caught up.

use crate::sync::{AtomicU64, Ordering, fence};

/// One reading of the counter together with the kernel's clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub count: u64,
    /// Nanoseconds since the Unix epoch.
    pub wall: u64,
    /// Nanoseconds since the process's first reading.
    pub mono: u64,
}

/// The part of a line that readers load.
#[derive(Default)]
struct Line {
    base: AtomicU64,
    /// Nanoseconds per count, times 2^32.
    slope: AtomicU64,
}

#[derive(Default)]
struct Anchor {
    /// The count at which the lines have their `base`.
    count: AtomicU64,
    /// Counts that the anchor is good for.
    limit: AtomicU64,
    wall: Line,
    mono: Line,
}

/// Which of the two times.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Wall,
    Mono,
}

/// A reading.
pub(super) enum Reading {
    /// Nanoseconds.
    Good(u64),
    /// Nanoseconds, but the anchor is over its time: who can should renew it and read again.
    Stale(u64),
}

/// The two halves. Bit 0 of `current` names the counter the anchor is for; the rest counts renewals, bit 1 being the half in use.
#[repr(align(64))]
pub(super) struct Anchors {
    current: AtomicU64,
    half: [Anchor; 2],
}

/// How long (ns) an anchor is good for.
pub(super) const PERIOD: u64 = 1_000_000_000;
/// See A2.
const HANDOVER: u64 = 100_000_000;
/// See A3: one part in 2^20.
const FLAT_SHIFT: u32 = 20;

impl Anchors {
    /// A first anchor at `s` for a counter (`kind` 0 or 1) that runs at `slope`.
    pub fn new(s: Sample, kind: u64, slope: u64) -> Self {
        let a = Self { current: AtomicU64::new(kind), half: [Anchor::default(), Anchor::default()] };
        a.half[0].fill(s.count, slope, (s.wall, slope), (s.mono, slope));
        a
    }

    /// Which counter the current anchor is for.
    pub fn kind(&self) -> u64 {
        // Relaxed: only the renewer decides by it, and it wrote it (or got the renewal lock from who did).
        self.current.load(Ordering::Relaxed) & 1
    }

    /// The time now. `count` reads the counter of the kind it is given.
    #[inline]
    pub fn read(&self, which: Which, count: impl Fn(u64) -> u64) -> Reading {
        loop {
            // Acquire: pairs with the store in `renew`; the anchor's words are there.
            let current = self.current.load(Ordering::Acquire);
            let a = &self.half[(current >> 1 & 1) as usize];
            let line = if which == Which::Wall { &a.wall } else { &a.mono };
            // Relaxed: the fence below orders them before the second look.
            let (start, limit) = (a.count.load(Ordering::Relaxed), a.limit.load(Ordering::Relaxed));
            let (base, slope) = (line.base.load(Ordering::Relaxed), line.slope.load(Ordering::Relaxed));
            let count = count(current & 1);
            // Acquire: pairs with the Release fence in `fill`. A word of the anchor after next was seen => the next `current` is seen => again.
            fence(Ordering::Acquire);
            if self.current.load(Ordering::Relaxed) != current {
                continue;
            }
            let passed = count.wrapping_sub(start);
            if passed < limit {
                // No overflow: limit * slope is PERIOD * 2^32.
                return Reading::Good(base + ((passed * slope) >> 32));
            }
            return Self::stale(base, slope, passed, limit);
        }
    }

    #[cold]
    fn stale(base: u64, slope: u64, passed: u64, limit: u64) -> Reading {
        match passed as i64 {
            // Another core's counter may be a few counts behind; the line starts where nothing was above it.
            back if back < 0 && back.unsigned_abs() < limit => Reading::Good(base),
            back if back < 0 => Reading::Stale(base),
            _ => Reading::Stale(base.saturating_add(along(passed, slope))),
        }
    }

    /// Go over to lines through `s`, for a counter of `kind` that runs at `slope`. `count_now` is the same instant as `s`, by the counter
    /// of the current anchor. Only one thread at a time.
    pub fn renew(&self, count_now: u64, s: Sample, kind: u64, slope: u64) {
        // Relaxed: written by the previous renewer, whose lock we have.
        let current = self.current.load(Ordering::Relaxed);
        let next = ((current >> 1) + 1) << 1 | kind;
        let (old, new) = (&self.half[(current >> 1 & 1) as usize], &self.half[(next >> 1 & 1) as usize]);
        let passed = (count_now.wrapping_sub(old.count.load(Ordering::Relaxed)) as i64).max(0) as u64;
        let counts = limit_of(slope);
        // How far the old line gets in a PERIOD: of the same counter by the same counts, of another one by as many as it makes in that time.
        let old_counts = if current & 1 == kind { counts } else { old.limit.load(Ordering::Relaxed) };
        let old_speed = |l: &Line| l.slope.load(Ordering::Relaxed) as u128 * old_counts as u128;
        let at = |l: &Line| l.base.load(Ordering::Relaxed).saturating_add(along(passed, l.slope.load(Ordering::Relaxed)));
        let line = |l: &Line, target: u64| {
            let (here, flat) = (at(l), slope - (slope >> FLAT_SHIFT));
            let ahead = here.saturating_sub(target).min(PERIOD / 2);
            let slope = (flat as u128 * (PERIOD - ahead) as u128 / PERIOD as u128) as u64;
            let slower = old_speed(l).saturating_sub(slope as u128 * counts as u128);
            // `slower` is 2^32 * ns per PERIOD.
            let lift = (slower * HANDOVER as u128 / PERIOD as u128) >> 32;
            (target.max(here.saturating_add(lift as u64 + (lift > 0) as u64)), slope)
        };
        new.fill(s.count, slope, line(&old.wall, s.wall), line(&old.mono, s.mono));
        // Release: pairs with the Acquire in `read`.
        self.current.store(next, Ordering::Release);
    }
}

impl Anchor {
    fn fill(&self, count: u64, true_slope: u64, wall: (u64, u64), mono: (u64, u64)) {
        // Release: pairs with the Acquire fence in `read`; who sees one of these stores also sees that `current` left this half long ago.
        fence(Ordering::Release);
        self.count.store(count, Ordering::Relaxed);
        self.limit.store(limit_of(true_slope), Ordering::Relaxed);
        for (line, (base, slope)) in [(&self.wall, wall), (&self.mono, mono)] {
            line.base.store(base, Ordering::Relaxed);
            line.slope.store(slope, Ordering::Relaxed);
        }
    }
}

/// Counts per `PERIOD`.
fn limit_of(slope: u64) -> u64 {
    (((PERIOD as u128) << 32) / (slope as u128).max(1)) as u64
}

fn along(passed: u64, slope: u64) -> u64 {
    ((passed as u128 * slope as u128) >> 32).min(u64::MAX as u128) as u64
}

/// Nanoseconds per count times 2^32 between two samples; None if the counter stood or went back, or they are too close to tell.
pub(super) fn slope_between(a: Sample, b: Sample) -> Option<u64> {
    let (counts, nanos) = (b.count.checked_sub(a.count)?, b.mono.checked_sub(a.mono)?);
    if counts == 0 || nanos < 1_000_000 {
        return None;
    }
    u64::try_from(((nanos as u128) << 32) / counts as u128).ok().filter(|s| *s != 0)
}
