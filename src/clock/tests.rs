//! The clock's lines never go back and follow the wall clock; timeouts read the clock only when asked.

use super::anchor::{Anchors, PERIOD, Reading, Sample, Which, slope_between};
use super::*;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

const ONE: u64 = 1 << 32;

/// A counter at 2.6 per nanosecond and a wall clock that a test moves.
struct Machine {
    anchors: Anchors,
    nanos: u64,
    /// Parts per million that the counter runs too fast.
    ppm: i64,
    wall_offset: i64,
    last: (Sample, u64),
}

impl Machine {
    fn new() -> Self {
        let s = Sample { count: 0, wall: 1_000 * PERIOD, mono: 0 };
        let slope = (ONE as f64 / 2.6) as u64;
        Self { anchors: Anchors::new(s, 0, slope), nanos: 0, ppm: 0, wall_offset: (1_000 * PERIOD) as i64, last: (s, slope) }
    }
    fn count(&self) -> u64 {
        (self.nanos as f64 * 2.6 * (1.0 + self.ppm as f64 * 1e-6)) as u64
    }
    fn wall(&self) -> u64 {
        (self.nanos as i64 + self.wall_offset) as u64
    }
    fn sample(&self) -> Sample {
        Sample { count: self.count(), wall: self.wall(), mono: self.nanos }
    }
    fn read(&mut self, which: Which) -> u64 {
        let c = self.count();
        match self.anchors.read(which, |_| c) {
            Reading::Good(n) => n,
            Reading::Stale(along_old_line) => {
                let s = self.sample();
                let slope = slope_between(self.last.0, s).unwrap_or(self.last.1);
                self.last = (s, slope);
                self.anchors.renew(c, s, 0, slope);
                match self.anchors.read(which, |_| c) {
                    Reading::Good(n) => {
                        assert!(n >= along_old_line, "a renewal moved time back");
                        n
                    }
                    Reading::Stale(_) => panic!("renewed, yet stale"),
                }
            }
        }
    }
}

#[test]
fn lines_never_go_back_whatever_the_wall_clock_does() {
    let mut m = Machine::new();
    let mut seed = 7_u64;
    let (mut wall, mut mono) = (0, 0);
    for step in 0..200_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        m.nanos += (seed >> 33) % 40_000_000;
        if step % 500 == 0 {
            m.wall_offset += ((seed >> 40) as i64 % 4_000_000_000) - 2_000_000_000;
        }
        let (w, o) = (m.read(Which::Wall), m.read(Which::Mono));
        assert!(w >= wall, "step {step}: wall {w} after {wall}");
        assert!(o >= mono, "step {step}: mono {o} after {mono}");
        (wall, mono) = (w, o);
    }
}

#[test]
fn lines_follow_a_steady_wall_clock_to_a_microsecond_or_two() {
    let mut m = Machine::new();
    m.ppm = 30; // as far off as the first calibration may be
    for second in 1..30 {
        for _ in 0..100 {
            m.nanos += 10_000_001;
            let off = m.read(Which::Wall) as i64 - m.wall() as i64;
            let allowed = if second < 5 { 40_000 } else { 3_000 };
            assert!(off.abs() < allowed, "second {second}: {off} ns off");
        }
    }
}

#[test]
fn a_clock_set_back_is_caught_up_with_at_half_speed() {
    let mut m = Machine::new();
    let tick = |m: &mut Machine| {
        m.nanos += 100_000_000;
        m.read(Which::Wall)
    };
    for _ in 0..50 {
        tick(&mut m);
    }
    m.wall_offset -= 5 * PERIOD as i64;
    let mut before = m.read(Which::Wall);
    let mut slow = 0;
    for i in 0..150 {
        let now = tick(&mut m);
        let passed = now - before;
        assert!(passed >= 49_000_000, "round {i}: only {passed} ns passed in 100 ms");
        slow += (passed < 60_000_000) as u32;
        before = now;
    }
    assert!((80..=125).contains(&slow), "half speed for {slow} rounds");
    let off = before as i64 - m.wall() as i64;
    assert!(off.abs() < 5_000, "still {off} ns off");
}

#[test]
fn an_anchor_over_its_time_says_so_and_a_counter_behind_is_held_at_the_start() {
    let a = Anchors::new(Sample { count: 5_000, wall: 77, mono: 7 }, 1, ONE);
    assert_eq!(a.kind(), 1);
    let read = |count: u64| a.read(Which::Wall, |kind| if kind == 1 { count } else { 0 });
    assert!(matches!(read(5_010), Reading::Good(87)));
    assert!(matches!(read(4_990), Reading::Good(77)), "another core's counter, a few counts behind");
    assert!(matches!(read(5_000 + PERIOD), Reading::Stale(n) if n == 77 + PERIOD));
    assert!(matches!(read(5_000_u64.wrapping_sub(2 * PERIOD)), Reading::Stale(77)), "a counter that was reset");
}

#[test]
fn a_flatter_line_starts_so_high_that_a_late_reader_of_the_old_one_is_not_ahead() {
    for (behind, flatter) in [(0, 100), (700_000_000, 0), (5_000, 2_000)] {
        let a = Anchors::new(Sample { count: 0, wall: PERIOD, mono: 0 }, 0, ONE);
        let read = |count: u64| match a.read(Which::Wall, |_| count) {
            Reading::Good(n) => n,
            Reading::Stale(_) => panic!("within its time"),
        };
        // The renewer reads the counter at half time; a reader reads it 99 ms later, but still uses the old line.
        let (renewed, late) = (PERIOD / 2, PERIOD / 2 + 99_000_000);
        let late_on_old_line = read(late);
        a.renew(renewed, Sample { count: renewed, wall: PERIOD + renewed - behind, mono: renewed }, 0, ONE - flatter * (ONE / 1_000_000));
        let next = read(late);
        assert!(next >= late_on_old_line, "{behind} ns behind, {flatter} ppm flatter: {next} after {late_on_old_line}");
    }
}

#[test]
fn readers_of_many_threads_agree_while_lines_change() {
    // Each reader sees at least what any reader saw before; the renewer's samples are off by up to 2 µs either way.
    let start = Instant::now();
    let count = |_| start.elapsed().as_nanos() as u64;
    let first = Sample { count: 0, wall: PERIOD, mono: 0 };
    let (anchors, seen, stop) = (Anchors::new(first, 0, ONE), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let before = seen.load(Ordering::Acquire);
                    let now = match anchors.read(Which::Wall, count) {
                        Reading::Good(n) | Reading::Stale(n) => n,
                    };
                    assert!(now >= before, "{now} after {before}");
                    seen.fetch_max(now, Ordering::AcqRel);
                }
            });
        }
        let mut seed = 3_u64;
        for i in 0..2_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let c = count(0);
            let error = (seed >> 40) % 4_000;
            // Slopes differ by up to 1 %, some samples lie behind.
            anchors.renew(c, Sample { count: c, wall: c + PERIOD + error - 2_000, mono: c }, 0, ONE - (seed >> 50) % (ONE / 100));
            if i % 8 == 0 {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn system_clock_shows_the_time_in_every_unit() {
    let _ = SystemClock::new(ClockUnit::Nanos);
    for _ in 0..20 {
        let true_nanos = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        for unit in [ClockUnit::Nanos, ClockUnit::Micros, ClockUnit::Millis] {
            let before = true_nanos() / unit.nanos();
            let now = SystemClock::new(unit).now().0;
            let after = true_nanos() / unit.nanos();
            let slack = 50_000 / unit.nanos() + 1;
            assert!(now + slack >= before && now <= after + slack, "{unit:?}: {now} not within {before}..{after}");
        }
        std::thread::sleep(Duration::from_millis(3)); // over the hand-over from the kernel's clock to the counter
    }
}

#[test]
fn system_clock_goes_over_to_the_counter_that_the_kernel_uses() {
    let clock = SystemClock::new(ClockUnit::Nanos);
    let (wanted, _) = super::system::on_tsc();
    let mut t = Timeout::from_micros(10_000_000);
    while super::system::on_tsc().1 != wanted {
        assert!(!t.is_over(), "still on the kernel's clock");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Over a renewal, it keeps to the wall clock.
    for _ in 0..12 {
        let truth = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let off = clock.now().0 as i64 - truth;
        assert!(off.abs() < 20_000_000, "{off} ns off"); // preempted in between, at worst
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The counter is read out of order, so a read can be as old as the load before it was slow: a microsecond is far beyond any cache miss.
#[test]
fn system_clock_and_monotonic_nanos_grow_across_threads() {
    const SLACK: u64 = 1_000;
    let (wall, mono) = (AtomicU64::new(0), AtomicU64::new(0));
    let clock = SystemClock::new(ClockUnit::Nanos);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    let before = (wall.load(Ordering::Acquire), mono.load(Ordering::Acquire));
                    let now = (clock.now().0, monotonic_nanos());
                    assert!(now.0 + SLACK >= before.0 && now.1 + SLACK >= before.1, "{now:?} after {before:?}");
                    wall.fetch_max(now.0, Ordering::AcqRel);
                    mono.fetch_max(now.1, Ordering::AcqRel);
                }
            });
        }
    });
}

#[test]
fn manual_clock_moves_when_told() {
    let c = ManualClock::new(100, ClockUnit::Millis);
    assert_eq!((c.now(), c.unit()), (Tick(100), ClockUnit::Millis));
    c.advance(5);
    c.step_back(10);
    assert_eq!(c.now(), Tick(95));
    c.set(7);
    let c: RegionClock = RegionClock::Other(Arc::new(c));
    assert_eq!((c.now(), c.unit()), (Tick(7), ClockUnit::Millis));
}

#[test]
fn timeouts_that_never_wait_and_that_never_end() {
    assert!(Timeout::no_wait().is_over());
    assert_eq!(Timeout::no_wait().left(Duration::MAX), Duration::ZERO);
    let mut f = Timeout::forever();
    assert!(!f.is_over() && f.until().is_none());
    assert_eq!(f.left(Duration::from_secs(9)), Duration::from_secs(9));
    let mut t = Timeout::from_micros(2_000);
    assert!(!t.is_over());
    std::thread::sleep(Duration::from_millis(3));
    assert!(t.is_over());
}
