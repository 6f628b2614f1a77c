//! Row locks: lock and unlock of one row and of sorted batches, over threads and row choices.
//!
//! `cargo bench --bench rowlock` first prints a table (threads by workload; operations per second over all threads, and percentiles of one
//! lock + unlock with a tick set; `M/cpu-s` divides by processor time and `cores` is how many the process got, so that a busy machine shows),
//! then runs criterion on the one-thread cases. `ROWLOCK_TABLE=0` leaves the table out, `ROWLOCK_SECONDS`
//! sets the time per cell, `ROWLOCK_ROWS` picks the row choices whose name contains it. With more threads than cores the highest percentiles are the scheduler's, not the lock's.

use criterion::{BatchSize, Criterion};
use hdrhistogram::Histogram;
use region::clock::Timeout;
use region::ids::{RowHash, Tick};
use region::rowlock::{LockScratch, RowLockTable};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BUCKETS_LOG2: u32 = 14;
const MILLION: u64 = 1_000_000;

#[derive(Clone, Copy)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// Stands for the region's keyed hash of row `n`.
fn hash(n: u64) -> RowHash {
    let x = (n ^ 0x243f_6a88_85a3_08d3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    RowHash((x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9))
}

/// Zipf with exponent 0.99 over a million rows, drawn beforehand.
fn zipf_rows() -> Vec<u64> {
    let mut cumulative = Vec::with_capacity(MILLION as usize);
    let mut sum = 0.0;
    for n in 1..=MILLION {
        sum += 1.0 / (n as f64).powf(0.99);
        cumulative.push(sum);
    }
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    let mut draw = || {
        let at = (random.next() >> 11) as f64 / (1u64 << 53) as f64 * sum;
        cumulative.partition_point(|c| *c < at) as u64
    };
    (0..1 << 18).map(|_| draw()).collect()
}

#[derive(Clone, Copy)]
enum Load<'a> {
    Uniform(u64),
    Zipf(&'a [u64]),
    OneRow,
    Batch(u64),
}

struct Outcome {
    rows: u64,
    nanos: Histogram<u64>,
    // Each thread's own: with more threads than cores the main thread is scheduled long after the first worker, and would time too little.
    started: Instant,
    ended: Instant,
}

/// Up to a minute. A histogram without bounds would start tiny and clip what is recorded saturating.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap()
}

/// Processor seconds of this process so far, in steps of 10 ms: other programs on the machine do not count. 0 where there is no /proc.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// One thread's work until `stop`. Every 16th operation is timed (each batch), so that reading the clock does not set the pace.
fn work(table: &RowLockTable, load: Load<'_>, seed: u64, stop: &AtomicBool) -> Outcome {
    let mut random = Random(seed);
    let started = Instant::now();
    let mut out = Outcome { rows: 0, nanos: histogram(), started, ended: started };
    let mut list = Vec::new();
    let mut scratch = LockScratch::default();
    let mut at = random.below(1 << 18) as usize;
    while !stop.load(Ordering::Relaxed) {
        if let Load::Batch(n) = load {
            list.clear();
            list.extend((0..n).map(|_| hash(random.below(MILLION))));
            let started = Instant::now();
            let mut locks = table.lock_all(&mut list, &mut Timeout::forever(), scratch).map_err(|e| e.why).unwrap();
            locks.set_tick(Tick(locks.last_tick().0 + 1));
            scratch = locks.into_scratch();
            out.nanos.saturating_record(started.elapsed().as_nanos() as u64);
            out.rows += n;
            continue;
        }
        for n in 0..16 {
            let row = match load {
                Load::Uniform(rows) => random.below(rows),
                Load::Zipf(rows) => {
                    at = (at + 1) % rows.len();
                    rows[at]
                }
                _ => 0,
            };
            let started = if n == 0 { Some(Instant::now()) } else { None };
            let mut locks = table.lock(hash(row), &mut Timeout::forever()).unwrap();
            locks.set_tick(Tick(locks.last_tick().0 + 1));
            drop(black_box(locks));
            if let Some(started) = started {
                out.nanos.saturating_record(started.elapsed().as_nanos() as u64);
            }
        }
        out.rows += 16;
    }
    out.ended = Instant::now();
    out
}

fn cell(name: &str, threads: u64, load: Load<'_>, seconds: f64) {
    let table = RowLockTable::new(BUCKETS_LOG2);
    let (stop, start) = (AtomicBool::new(false), Barrier::new(threads as usize + 1));
    let cpu = cpu_seconds();
    let outcomes: Vec<Outcome> = std::thread::scope(|s| {
        let workers: Vec<_> = (1..=threads)
            .map(|t| {
                let (table, stop, start) = (&table, &stop, &start);
                s.spawn(move || {
                    start.wait();
                    work(table, load, t * 0x9e37_79b9, stop)
                })
            })
            .collect();
        start.wait();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    let cpu = cpu_seconds() - cpu;
    let started = outcomes.iter().map(|o| o.started).min().unwrap();
    let took = outcomes.iter().map(|o| o.ended).max().unwrap() - started;
    let rows: u64 = outcomes.iter().map(|o| o.rows).sum();
    let mut nanos = histogram();
    outcomes.into_iter().for_each(|o| nanos.add(o.nanos).unwrap());
    let stats = table.stats();
    println!(
        "| {name:<14} | {threads:>3} | {:>7.2} | {:>7.2} | {:>4.2} | {:>9} | {:>9} | {:>10} | {:>11} | {:>9} | {:>8} | {:>6} |",
        rows as f64 / took.as_secs_f64() / 1e6,
        rows as f64 / cpu / 1e6,
        cpu / took.as_secs_f64(),
        nanos.value_at_quantile(0.5),
        nanos.value_at_quantile(0.99),
        nanos.value_at_quantile(0.999),
        nanos.max(),
        stats.waits,
        stats.sleeps,
        stats.handed_over,
    );
}

fn table_of_numbers() {
    let seconds = std::env::var("ROWLOCK_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1.0);
    let zipf = zipf_rows();
    println!(
        "| rows           | thr |  M rows/s | M/cpu-s | cores |   p50 ns |    p99 ns |   p99.9 ns |      max ns |     waits |   sleeps | handed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let loads = [
        ("uniform 1 M", Load::Uniform(MILLION)),
        ("uniform 100 k", Load::Uniform(100_000)),
        ("zipf 0.99, 1 M", Load::Zipf(&zipf)),
        ("one row", Load::OneRow),
        ("10 sorted", Load::Batch(10)),
        ("1,000 sorted", Load::Batch(1_000)),
    ];
    let only = std::env::var("ROWLOCK_ROWS").unwrap_or_default();
    for (name, load) in loads.into_iter().filter(|l| l.0.contains(&only)) {
        for threads in [1, 2, 8, 100] {
            cell(name, threads, load, seconds);
        }
    }
}

fn one_thread(c: &mut Criterion) {
    let table = RowLockTable::new(BUCKETS_LOG2);
    c.bench_function("rowlock/one_row", |b| {
        b.iter(|| {
            let mut locks = table.lock(hash(1), &mut Timeout::forever()).unwrap();
            locks.set_tick(Tick(locks.last_tick().0 + 1));
            black_box(&locks);
        });
    });
    c.bench_function("rowlock/uniform_1m", |b| {
        let mut random = Random(7);
        b.iter(|| {
            let mut locks = table.lock(hash(random.below(MILLION)), &mut Timeout::forever()).unwrap();
            locks.set_tick(Tick(locks.last_tick().0 + 1));
            black_box(&locks);
        });
    });
    for n in [10, 1_000] {
        c.bench_function(&format!("rowlock/{n}_sorted"), |b| {
            let mut random = Random(7);
            let mut scratch = LockScratch::default();
            b.iter_batched_ref(
                || (0..n).map(|_| hash(random.below(MILLION))).collect::<Vec<_>>(),
                |list| {
                    let mut locks = table.lock_all(list, &mut Timeout::forever(), std::mem::take(&mut scratch)).map_err(|e| e.why).unwrap();
                    locks.set_tick(Tick(locks.last_tick().0 + 1));
                    scratch = locks.into_scratch();
                },
                BatchSize::SmallInput,
            );
        });
    }
}

fn main() {
    if std::env::var("ROWLOCK_TABLE").as_deref() != Ok("0") {
        table_of_numbers();
    }
    let mut c =
        Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).configure_from_args();
    one_thread(&mut c);
    c.final_summary();
}
