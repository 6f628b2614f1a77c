//! Lookup and increment of counters that exist, on the memstore alone: no row lock, no log. Each thread has its own rows.
//!
//! One by one: find the row, find the column, read, plan, apply, mark. Batches: 100 increments, all table buckets prefetched, then all row
//! blocks, then the same work.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foldhash::fast::FixedState;
use region::ids::{FamilyId, Generation, RowHash};
use region::memstore::{Content, Keep, Segment};
use region::mslab::{ChunkPool, MemoryBudget, PoolOptions};
use region::sync::Arc;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

const F: FamilyId = FamilyId(1);
const Q: &[u8] = b"count";
const BATCH: usize = 100;

struct Rows {
    segment: Segment,
    hasher: FixedState,
    rows: u64,
}

fn key(n: u64) -> [u8; 20] {
    let mut k = *b"user0000000000000000";
    k[4..12].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    k
}

impl Rows {
    fn new(rows: u64) -> Self {
        let pool = ChunkPool::new(PoolOptions::default()).unwrap();
        let segment = Segment::new(Generation(1), &pool, &Arc::new(MemoryBudget::new(u64::MAX)), rows as usize, 1).unwrap();
        let this = Self { segment, hasher: FixedState::with_seed(2), rows };
        for n in 0..rows {
            let k = key(n);
            this.segment.insert_row(this.hash(&k), &k, Some((F, Q)), 0).unwrap();
            this.increment(&k);
        }
        this
    }
    fn hash(&self, row: &[u8]) -> RowHash {
        RowHash(self.hasher.hash_one(row))
    }
    fn increment(&self, row: &[u8]) {
        let r = self.segment.find_row(self.hash(row), row).unwrap();
        let c = self.segment.find_column(r, F, Q).unwrap();
        let (seq, value) = match c.read(u64::MAX) {
            Content::Counter { seq, value, .. } => (seq + 1, value),
            _ => (1, 0),
        };
        let plan = c.plan_increment(Keep::Newest, 0, 0, |_| {});
        c.apply_increment(seq, seq, value + 1, plan, None);
        r.header().mark(seq, false, 0);
    }
    /// `n` increments by thread `t` of `threads`, in batches if asked.
    fn run(&self, n: u64, t: u64, threads: u64, batched: bool) {
        let mut x = t + 1;
        let mut next = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            key((x >> 32) % (self.rows / threads) * threads + t)
        };
        if !batched {
            (0..n).for_each(|_| self.increment(&next()));
            return;
        }
        let mut keys = [[0; 20]; BATCH];
        for _ in 0..n / BATCH as u64 {
            for k in &mut keys {
                *k = next();
                self.segment.prefetch_table(self.hash(k));
            }
            keys.iter().for_each(|k| self.segment.prefetch_row(self.hash(k)));
            keys.iter().for_each(|k| self.increment(k));
        }
    }
    fn timed(&self, n: u64, threads: u64, batched: bool) -> Duration {
        let start = Instant::now();
        std::thread::scope(|s| {
            for t in 0..threads {
                s.spawn(move || self.run(n, t, threads, batched));
            }
        });
        start.elapsed()
    }
}

fn increments(c: &mut Criterion) {
    for rows in [100_000u64, 1_000_000] {
        let data = Rows::new(rows);
        let mut group = c.benchmark_group(format!("increment/{rows}"));
        for threads in [1, 2] {
            group.throughput(Throughput::Elements(threads * BATCH as u64));
            for (name, batched) in [("single", false), ("batch100", true)] {
                group.bench_function(BenchmarkId::new(name, threads), |b| {
                    // An iteration is one batch per thread.
                    b.iter_custom(|i| data.timed(i * BATCH as u64, threads, batched));
                });
            }
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = increments
}
criterion_main!(benches);
