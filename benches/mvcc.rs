//! Claiming and freeing a commit slot, opening and closing a read point, loading a published value.

use criterion::{Criterion, criterion_group};
use region::clock::Timeout;
use region::health::Health;
use region::mvcc::{CommitSlots, Published, ReadPoints};
use region::sync::Arc;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Nanoseconds of a core per claim and free, all threads at once: the fastest of many batches in each thread, and the mean of the threads.
fn claims(threads: usize, commit: bool) -> f64 {
    const CALLS: u32 = 500;
    let slots = CommitSlots::new(Arc::new(Health::new()));
    let start = Barrier::new(threads);
    let best: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|thread| {
                let (slots, start) = (&slots, &start);
                scope.spawn(move || {
                    start.wait();
                    let batch = |_| {
                        let begun = Instant::now();
                        for _ in 0..CALLS {
                            let g = slots.claim(black_box(thread));
                            if commit {
                                g.set_committing();
                            }
                            black_box(g.index());
                        }
                        begun.elapsed().as_nanos() as f64 / f64::from(CALLS)
                    };
                    (0..2_000).map(batch).fold(f64::MAX, f64::min)
                })
            })
            .collect();
        all.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    best.iter().sum::<f64>() / best.len() as f64
}

fn table() {
    println!(
        "claim and free of a commit slot, ns (fastest of many batches, mean over threads)\n\n{:>7}  {:>10} {:>12}",
        "threads", "read", "commit"
    );
    for threads in [1, 2, 8, 100] {
        println!("{threads:>7}  {:>10.1} {:>12.1}", claims(threads, false), claims(threads, true));
    }
    println!();
}

fn micro(c: &mut Criterion) {
    let slots = CommitSlots::new(Arc::new(Health::new()));
    let view = Published::new(&slots, Box::new(7_u64));
    c.bench_function("slot/claim+free", |b| b.iter(|| slots.claim(black_box(3)).index()));
    c.bench_function("slot/claim+load+free", |b| b.iter(|| *view.load(&slots.claim(black_box(3)))));
    c.bench_function("slot/wait_for_begun_commits, idle", |b| b.iter(|| slots.wait_for_begun_commits(&mut Timeout::no_wait()).is_ok()));
    let points = ReadPoints::new();
    c.bench_function("points/open+close", |b| {
        b.iter(|| {
            let p = points.open(0, |announce| announce(black_box(5)));
            points.close(p);
        })
    });
    c.bench_function("points/latest", |b| b.iter(|| points.latest()));
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(500));
    targets = micro
}

fn main() {
    table();
    benches();
    Criterion::default().configure_from_args().final_summary();
}
