//! The memstore's ordered index alone: inserts, lookups and scans of 1 M columns, with random rows and with rows that share their first 12 bytes;
//! 1, 2 and 8 threads.
//!
//! `cargo bench --bench memstore_index -- insert` runs a part. Rates are columns per second over all threads.

#![allow(missing_docs, reason = "criterion's macros make public functions")]
#![expect(unsafe_code, reason = "offsets into a vector stand for column references")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use region::ids::FamilyId;
use region::memstore::column_index::{ColumnIndex, ColumnKey, KEY_MIN, KeyOf};
use region::mslab::{Arena, ChunkPool, MemoryBudget, PoolOptions};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const COLUMNS: usize = 1_000_000;
const ROW_BYTES: usize = 16;
/// A row block's place in memory: a cache line and its neighbour.
const BLOCK_BYTES: usize = 128;

/// Row keys in blocks of 128 bytes, in the order of insertion. A reference is the block's offset, plus 1.
struct Blocks(Vec<u8>);

// SAFETY: only offsets of blocks are inserted; the vector never changes.
unsafe impl KeyOf for Blocks {
    unsafe fn key(&self, reference: u64) -> ColumnKey<'_> {
        let at = reference as usize - 1;
        (&self.0[at..at + ROW_BYTES], FamilyId(1), b"q")
    }
    fn prefetch(&self, reference: u64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint; faults on no address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.0.as_ptr().wrapping_add(reference as usize - 1).cast());
        }
    }
}

fn mixed(i: u64) -> u64 {
    let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (x >> 32)
}

fn random_row(i: u64) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    row[..8].copy_from_slice(&mixed(i).to_be_bytes());
    row[8..].copy_from_slice(&mixed(i ^ 0x5555).to_be_bytes());
    row
}

/// `user` and 12 digits; all of the first 1 M numbers, in a mixed order.
fn shared_row(i: u64) -> [u8; ROW_BYTES] {
    let text = format!("user{:012}", i * 7_368_787 % COLUMNS as u64);
    text.as_bytes().try_into().expect("16 bytes")
}

fn blocks(row: fn(u64) -> [u8; ROW_BYTES]) -> Blocks {
    let mut bytes = vec![0; COLUMNS * BLOCK_BYTES];
    for (i, block) in bytes.chunks_exact_mut(BLOCK_BYTES).enumerate() {
        block[..ROW_BYTES].copy_from_slice(&row(i as u64));
    }
    Blocks(bytes)
}

/// Inserts everything with `threads` threads, each its own part; answers the index and how long it took.
fn build(pool: &Arc<ChunkPool>, keys: Blocks, threads: usize) -> (ColumnIndex<Blocks>, Duration) {
    let arena = Arc::new(Arena::new(Arc::clone(pool), Arc::new(MemoryBudget::new(u64::MAX))));
    let index = ColumnIndex::new(arena, keys, 0).expect("memory");
    let start = Instant::now();
    std::thread::scope(|s| {
        for t in 0..threads {
            let index = &index;
            s.spawn(move || {
                for i in (t * COLUMNS / threads)..((t + 1) * COLUMNS / threads) {
                    let at = i * BLOCK_BYTES;
                    let row = &index.keys().0[at..at + ROW_BYTES];
                    // SAFETY: the reference of this block.
                    unsafe { index.insert((row, FamilyId(1), b"q"), at as u64 + 1, t) }.expect("memory");
                }
            });
        }
    });
    (index, start.elapsed())
}

fn pool() -> Arc<ChunkPool> {
    ChunkPool::new(PoolOptions { max_bytes: 1 << 30, preallocate_bytes: 64 << 20, ..PoolOptions::default() }).expect("pool")
}

type RowOf = fn(u64) -> [u8; ROW_BYTES];
const SHAPES: [(&str, RowOf); 2] = [("random", random_row), ("shared", shared_row)];

fn bench(c: &mut Criterion) {
    let pool = pool();
    let mut group = c.benchmark_group("memstore_index");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(4));
    group.throughput(Throughput::Elements(COLUMNS as u64));
    for (shape, row) in SHAPES {
        for threads in [1, 2, 8] {
            group.bench_function(BenchmarkId::new(format!("insert/{shape}"), threads), |b| {
                let mut keys = Some(blocks(row));
                b.iter_custom(|n| {
                    let mut whole = Duration::ZERO;
                    for _ in 0..n {
                        let (index, took) = build(&pool, keys.take().expect("given back below"), threads);
                        keys = Some(index.into_keys());
                        whole += took;
                    }
                    whole
                });
            });
        }
        let (index, _) = build(&pool, blocks(row), 1);
        let probes: Vec<_> = (0..COLUMNS as u64).map(|i| row(mixed(i * 31 + 7) % COLUMNS as u64)).collect();
        for threads in [1, 2, 8] {
            group.bench_function(BenchmarkId::new(format!("get/{shape}"), threads), |b| {
                b.iter(|| {
                    std::thread::scope(|s| {
                        for t in 0..threads {
                            let (index, probes) = (&index, &probes[t * COLUMNS / threads..(t + 1) * COLUMNS / threads]);
                            s.spawn(move || {
                                for row in probes {
                                    assert!(black_box(index.get((row, FamilyId(1), b"q"))).is_some());
                                }
                            });
                        }
                    });
                });
            });
        }
        // Touches every column's key, as a scan that shows rows does.
        group.bench_function(BenchmarkId::new(format!("scan/{shape}"), 1), |b| {
            b.iter(|| {
                let mut cursor = index.cursor(KEY_MIN, true);
                let (mut seen, mut sum) = (0, 0_u64);
                while let Some(reference) = cursor.next() {
                    seen += 1;
                    sum += u64::from(index.keys().0[reference as usize - 1]);
                }
                assert_eq!(seen, COLUMNS);
                black_box(sum)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
