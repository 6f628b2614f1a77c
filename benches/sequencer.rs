//! The row commit sequencer alone, beside the published design in the same run.
//!
//! What is timed: for rows whose locks the caller holds already (its own, disjoint from all others'), the largest last tick of the rows, the tick, and
//! storing it into each row; nothing else. The peer is the published shape, one mutex, one condition variable, and the set of the rows that committed in
//! the current tick; overlap waits for the next tick. It is made generous: rows are numbers, the clock is the same, and no row comes
//! twice in a tick, so it never waits for one.
//!
//! "clock only" is the floor: the same harness around one read of the clock. With more threads than cores p99.9 is the scheduler's. The resolution is the
//! step of the machine's counter, which is printed: 10 ns on some. "best of batches" is finer and not disturbed by other processes.
//! `GOALS_JSONL=file` appends one line of JSON per row of the table.

use criterion::{Criterion, criterion_group};
use hdrhistogram::Histogram;
use parking_lot::{Condvar, Mutex, MutexGuard};
use region::clock::{Clock, ClockUnit, SystemClock, TickPolicy};
use region::ids::Tick;
use region::sequencer::{LastTick, RowCommitSequencer, Step};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The rows of one call, locked by the caller.
struct Locked<'a>(Vec<MutexGuard<'a, u64>>);

impl LastTick for Locked<'_> {
    fn last_tick(&self) -> Tick {
        Tick(self.0.iter().map(|row| **row).max().unwrap_or(0))
    }
}

/// The published design.
struct Published {
    state: Mutex<(u64, HashSet<u64, foldhash::fast::FixedState>)>,
    next_tick: Condvar,
}

impl Published {
    fn new() -> Self {
        Self { state: Mutex::new((0, HashSet::default())), next_tick: Condvar::new() }
    }
    fn next(&self, clock: &SystemClock, rows: impl Iterator<Item = u64> + Clone) -> u64 {
        let mut state = self.state.lock();
        loop {
            let now = clock.now().0;
            if now > state.0 {
                state.0 = now;
                state.1.clear();
                self.next_tick.notify_all();
            }
            if rows.clone().any(|row| state.1.contains(&row)) {
                self.next_tick.wait_for(&mut state, Duration::from_millis(1));
                continue;
            }
            state.1.extend(rows.clone());
            return state.0;
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Which {
    Clock,
    Ours,
    Peer,
}

/// p50, p99, p99.9 in nanoseconds, without the harness's own time, and calls per second of all threads.
struct Line([f64; 3], f64);

const RUN: Duration = Duration::from_millis(700);
const WARM: Duration = Duration::from_millis(150);

fn run(which: Which, threads: usize, rows: usize, timer: &quanta::Clock) -> Line {
    let ours = RowCommitSequencer::new(SystemClock::new(ClockUnit::Nanos), TickPolicy::Advance, 1_000_000_000);
    // Milliseconds, as published.
    let (peer, millis) = (Published::new(), SystemClock::new(ClockUnit::Millis));
    let start = Barrier::new(threads);
    let whole = Instant::now();
    let histogram = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|thread| {
                let (ours, peer, millis, start) = (&ours, &peer, &millis, &start);
                scope.spawn(move || {
                    let cells: Vec<_> = (0..rows).map(|_| Mutex::new(0_u64)).collect();
                    let mut held = Locked(cells.iter().map(|c| c.lock()).collect());
                    let mut h = Histogram::<u64>::new_with_bounds(1, 1 << 44, 3).expect("bounds");
                    let mut fresh = (thread as u64) << 40;
                    start.wait();
                    let begun = Instant::now();
                    loop {
                        let warm = begun.elapsed() > WARM;
                        if begun.elapsed() > WARM + RUN {
                            return h;
                        }
                        for _ in 0..(1_000 / rows).max(1) {
                            let before = timer.raw();
                            match which {
                                Which::Clock => {
                                    black_box(ours.clock().now());
                                }
                                Which::Ours => match ours.next_for(&held) {
                                    Step::Take(tick) => held.0.iter_mut().for_each(|row| **row = tick.0),
                                    Step::WaitFor(t) => unreachable!("nanosecond ticks do not wait for {t:?}"),
                                },
                                Which::Peer => {
                                    black_box(peer.next(millis, fresh..fresh + rows as u64));
                                    fresh += rows as u64;
                                }
                            }
                            let after = timer.raw();
                            if warm {
                                h.saturating_record(after.wrapping_sub(before));
                            }
                        }
                    }
                })
            })
            .collect();
        all.into_iter().map(|t| t.join().expect("no panic")).reduce(|a, b| a + b).expect("a thread")
    });
    let calls = histogram.len() as f64 / (whole.elapsed() - WARM).as_secs_f64();
    let empty = harness(timer);
    let at = |q: f64| timer.delta_as_nanos(0, histogram.value_at_quantile(q).saturating_sub(empty)) as f64;
    Line([at(0.5), at(0.99), at(0.999)], calls)
}

/// Counts between two reads of the counter with nothing in between: the smallest usual value.
fn harness(timer: &quanta::Clock) -> u64 {
    let mut all: Vec<_> = (0..10_000).map(|_| harness_once(timer)).collect();
    all.sort_unstable();
    all[all.len() / 2]
}

fn harness_once(timer: &quanta::Clock) -> u64 {
    let before = timer.raw();
    timer.raw().wrapping_sub(before)
}

/// Nanoseconds per call in the fastest of many batches.
fn best_of_batches(timer: &quanta::Clock, mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 500;
    let batch = |_| {
        let before = timer.raw();
        (0..CALLS).for_each(|_| call());
        timer.delta_as_nanos(before, timer.raw())
    };
    (0..4_000).map(batch).min().map_or(0.0, |n| n as f64 / f64::from(CALLS))
}

fn best() {
    let timer = quanta::Clock::new();
    let clock = SystemClock::new(ClockUnit::Nanos);
    let micros = SystemClock::new(ClockUnit::Micros);
    let s = RowCommitSequencer::new(clock, TickPolicy::Advance, 1_000_000_000);
    println!("\nbest of batches, ns per call");
    let line = |name: &str, nanos: f64| println!("{name:<40} {nanos:>6.1}");
    line(
        "counter alone",
        best_of_batches(&timer, || {
            black_box(timer.raw());
        }),
    );
    line(
        "Instant::now",
        best_of_batches(&timer, || {
            black_box(Instant::now());
        }),
    );
    line(
        "SystemClock ns",
        best_of_batches(&timer, || {
            black_box(clock.now());
        }),
    );
    line(
        "SystemClock us",
        best_of_batches(&timer, || {
            black_box(micros.now());
        }),
    );
    line(
        "monotonic_nanos",
        best_of_batches(&timer, || {
            black_box(region::clock::monotonic_nanos());
        }),
    );
    line(
        "sequencer, one row",
        best_of_batches(&timer, || {
            let _ = black_box(s.next(black_box(Tick(1))));
        }),
    );
    let mut last = Tick(0);
    let again = || {
        if let Step::Take(t) = s.next(last) {
            last = t;
        }
    };
    line("sequencer, the same row at once again", best_of_batches(&timer, again));
}

fn table() {
    let timer = quanta::Clock::new();
    // Let the system clock go over to the counter.
    let _ = SystemClock::new(ClockUnit::Nanos).now();
    std::thread::sleep(Duration::from_millis(300));
    let step = (0..1_000).map(|_| harness_once(&timer)).filter(|n| *n > 2).min().unwrap_or(0);
    println!("smallest step seen of the counter: {} ns", timer.delta_as_nanos(0, step));
    println!("sequencer alone, ns per call: p50 / p99 / p99.9 (calls/s)\n");
    println!("{:>7} {:>6}  {:<34} {:<34} {:<40} goal (p99)", "threads", "rows", "clock only", "this", "published design");
    let mut json = String::new();
    for (threads, rows, goal) in
        [(1, 1, Some(25)), (8, 1, Some(25)), (100, 1, Some(25)), (1, 1_000, None), (8, 1_000, Some(4_000)), (100, 1_000, None)]
    {
        let [floor, ours, peer] = [Which::Clock, Which::Ours, Which::Peer].map(|w| run(w, threads, rows, &timer));
        let text = |l: &Line| format!("{:.0} / {:.0} / {:.0} ({:.2} M/s)", l.0[0], l.0[1], l.0[2], l.1 / 1e6);
        let verdict = goal.map_or(String::from("-"), |g| format!("{g} {}", if ours.0[1] <= g as f64 { "met" } else { "MISSED" }));
        println!("{threads:>7} {rows:>6}  {:<34} {:<34} {:<40} {verdict}", text(&floor), text(&ours), text(&peer));
        let goal = goal.map_or(String::from("null"), |g| g.to_string());
        let _ = writeln!(
            json,
            r#"{{"id":"S5","against":"published-design","workload":"sequencer, {rows} rows","threads":{threads},"lower_is_better":true,"unit":"ns","value":{},"ratio":{:.3},"theirs":{},"clock_only":{},"floor":{goal},"goal":{goal}}}"#,
            ours.0[1],
            peer.0[1] / ours.0[1].max(1.0),
            peer.0[1],
            floor.0[1]
        );
    }
    if let Ok(file) = std::env::var("GOALS_JSONL") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
        file.and_then(|mut f| f.write_all(json.as_bytes())).expect("GOALS_JSONL can be written");
    }
}

fn micro(c: &mut Criterion) {
    let clock = SystemClock::new(ClockUnit::Nanos);
    c.bench_function("clock/system ns", |b| b.iter(|| clock.now()));
    let micros = SystemClock::new(ClockUnit::Micros);
    c.bench_function("clock/system us", |b| b.iter(|| micros.now()));
    c.bench_function("clock/monotonic_nanos", |b| b.iter(region::clock::monotonic_nanos));
    let s = RowCommitSequencer::new(clock, TickPolicy::Advance, 1_000_000_000);
    let mut last = Tick(0);
    c.bench_function("sequencer/next", |b| {
        b.iter(|| {
            if let Step::Take(t) = s.next(last) {
                last = t;
            }
        })
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(500));
    targets = micro
}

fn main() {
    table();
    best();
    benches();
    Criterion::default().configure_from_args().final_summary();
}
