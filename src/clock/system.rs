//! The process's wall clock: about 8 ns a read from the time-stamp counter, where the kernel itself trusts that counter.
//!
//! Starts on the kernel's monotonic clock (16 ns) at once. `quanta` reads the counter without unsafe code of ours, but its constructor
//! spins for 0.6 to 200 ms to calibrate; that runs in a short-lived thread, once per process, and its result is not used: the slope is measured here
//! against the kernel's clock, over the last second. A forked child without that thread stays on the kernel's clock.
//!
//! Threads: any. Whoever reads first after a second renews the anchor; the others read on along the old one. No lock on the read path.
//! Invariants: see `anchor.rs`; all `SystemClock`s of a process show the same time.

use super::anchor::{Anchors, Reading, Sample, Which, slope_between};
use super::{Clock, ClockUnit, sleep};
use crate::ids::Tick;
use crate::sync::{Mutex, thread};
use crossbeam_utils::CachePadded;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The wall clock in the region's unit. When the system's clock is set back it goes on at half speed at least, until the system's clock has
/// caught up. Monotonic in each thread, and between threads to within a microsecond: the processor may read the counter before loads that
/// stand above it, and an `lfence` would cost more than the read. A row's ticks grow by the rule of its lock, not by this.
#[derive(Clone, Copy)]
pub struct SystemClock {
    core: &'static Core,
    unit: ClockUnit,
}

impl SystemClock {
    /// Does not wait, and the first reads are as good as later ones, only slower.
    pub fn new(unit: ClockUnit) -> Self {
        Self { core: core(), unit }
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Tick {
        let nanos = self.core.read(Which::Wall);
        // Each arm divides by a constant: a multiplication.
        Tick(match self.unit {
            ClockUnit::Nanos => nanos,
            ClockUnit::Micros => nanos / 1_000,
            ClockUnit::Millis => nanos / 1_000_000,
        })
    }
    fn unit(&self) -> ClockUnit {
        self.unit
    }
}

/// Nanoseconds since an instant in this process, for measuring. Never goes backwards in a thread, nor between threads by more than a microsecond;
/// not moved by changes of the wall clock.
#[inline]
pub fn monotonic_nanos() -> u64 {
    // Under loom time stands still: an execution must not depend on it.
    if cfg!(loom) { 0 } else { core().read(Which::Mono) }
}

/// The counters that an anchor may be for.
const KERNEL: u64 = 0;
const TSC: u64 = 1;
/// Slope of the kernel's counter, which counts nanoseconds.
const ONE: u64 = 1 << 32;

struct Core {
    anchors: Anchors,
    start: Instant,
    tsc: OnceLock<quanta::Clock>,
    renewal: CachePadded<Mutex<Renewal>>,
}

/// What the renewer remembers. Only ever try-locked by readers.
struct Renewal {
    /// The last sample taken on the time-stamp counter, and the slope last measured.
    last: Option<(Sample, u64)>,
}

static CORE: OnceLock<Core> = OnceLock::new();

/// For a test: (the time-stamp counter is to be used, it is in use).
#[cfg(all(test, not(loom)))]
pub(super) fn on_tsc() -> (bool, bool) {
    (kernel_trusts_tsc(), core().anchors.kind() == TSC)
}

#[inline]
fn core() -> &'static Core {
    CORE.get_or_init(Core::start)
}

impl Core {
    #[cold]
    fn start() -> Self {
        let start = Instant::now();
        let first = Sample { count: 0, wall: wall_nanos(), mono: 0 };
        if kernel_trusts_tsc() {
            // Without a thread the kernel's clock serves as well, 8 ns slower.
            let _ = thread::Builder::new().name("region-clock".into()).spawn(|| core().go_over_to_tsc());
        }
        Self {
            anchors: Anchors::new(first, KERNEL, ONE),
            start,
            tsc: OnceLock::new(),
            renewal: CachePadded::new(Mutex::new(Renewal { last: None })),
        }
    }

    #[inline]
    fn read(&self, which: Which) -> u64 {
        match self.anchors.read(which, |kind| self.count(kind)) {
            Reading::Good(nanos) => nanos,
            Reading::Stale(nanos) => self.read_after_renewal(which, nanos),
        }
    }

    #[cold]
    fn read_after_renewal(&self, which: Which, otherwise: u64) -> u64 {
        // Another thread is at it: along the old line.
        let Some(mut renewal) = self.renewal.try_lock() else { return otherwise };
        // It may have been renewed between the read and the lock; twice within a millisecond would tell nothing about the slope.
        if let Reading::Good(nanos) = self.anchors.read(which, |kind| self.count(kind)) {
            return nanos;
        }
        self.renew(&mut renewal);
        match self.anchors.read(which, |kind| self.count(kind)) {
            Reading::Good(nanos) | Reading::Stale(nanos) => nanos,
        }
    }

    fn renew(&self, renewal: &mut Renewal) {
        let kind = self.anchors.kind();
        let s = self.sample(kind);
        let Some((last, slope)) = renewal.last.filter(|_| kind == TSC) else {
            return self.anchors.renew(s.count, s, kind, ONE);
        };
        match slope_between(last, s) {
            // The machine's clocks disagree by more than 1 %: it was suspended, or moved to another host. Trust the kernel from now on.
            new if new.is_none_or(|new| new.abs_diff(slope) > slope / 100) => {
                let k = Sample { count: self.count(KERNEL), ..s };
                renewal.last = None;
                self.anchors.renew(s.count, k, KERNEL, ONE);
            }
            new => {
                let new = new.unwrap_or(slope);
                renewal.last = Some((s, new));
                self.anchors.renew(s.count, s, TSC, new);
            }
        }
    }

    /// The short-lived thread's work.
    fn go_over_to_tsc(&self) {
        let _ = self.tsc.set(quanta::Clock::new());
        let first = self.sample(TSC);
        // 20 ms between samples that are good to 50 ns give 5 parts in a million; a second later it is a hundred times better.
        sleep(Duration::from_millis(20));
        let second = self.sample(TSC);
        let Some(slope) = slope_between(first, second) else { return };
        let mut renewal = self.renewal.lock();
        let s = self.sample(TSC);
        renewal.last = Some((s, slope));
        self.anchors.renew(self.count(KERNEL), s, TSC, slope);
    }

    #[inline]
    fn count(&self, kind: u64) -> u64 {
        match self.tsc.get() {
            Some(tsc) if kind == TSC => tsc.raw(),
            _ => self.start.elapsed().as_nanos() as u64,
        }
    }

    /// The three clocks at one instant: the tightest of a few tries.
    fn sample(&self, kind: u64) -> Sample {
        let mut best: Option<(u64, Sample)> = None;
        for _ in 0..4 {
            let before = self.count(kind);
            let (wall, mono) = (wall_nanos(), self.start.elapsed().as_nanos() as u64);
            let width = self.count(kind).wrapping_sub(before);
            if best.as_ref().is_none_or(|b| width < b.0) {
                best = Some((width, Sample { count: before.wrapping_add(width / 2), wall, mono }));
            }
        }
        best.map_or(Sample { count: 0, wall: 0, mono: 0 }, |b| b.1)
    }
}

fn wall_nanos() -> u64 {
    // Before 1970: 0; the anchor's line does not go backwards.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// The kernel uses the counter itself, so it is constant, does not stop, and is the same on all cores.
fn kernel_trusts_tsc() -> bool {
    cfg!(all(target_os = "linux", target_arch = "x86_64", not(loom)))
        && std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").is_ok_and(|s| s.trim() == "tsc")
}
