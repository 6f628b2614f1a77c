//! P-M1: the region's limit and the pool's are hard, whoever writes what.

use crate::short::*;
use crate::{alone, disk_dir, memory};
use region::ErrorKind;
use region::mslab::{ChunkPool, PoolOptions};
use region::options::{FamilySpec, OpenFlags, RegionOptions, WriteOptions};
use region::region::{CommitInfo, Region};
use std::sync::Arc;

const WRITERS: u64 = 16;
/// What a writer's slot may hold back beyond the limits.
const CREDIT: u64 = 32 << 10;
const MB: u64 = 1 << 20;

/// 16 threads write until each was refused ten times in a row: values of many sizes into new rows, new columns of one row, counters, markers.
fn fill(region: &Region) -> u64 {
    std::thread::scope(|s| {
        let writers: Vec<_> = (0..WRITERS).map(|t| s.spawn(move || write_until_refused(region, t))).collect();
        writers.into_iter().map(|w| w.join().unwrap()).sum()
    })
}

fn write_until_refused(region: &Region, thread: u64) -> u64 {
    let o = within(1_000, WriteOptions::DEFAULT);
    let (mut done, mut refused) = (0, 0);
    for i in 0.. {
        let name = format!("{thread:02}-{i:08}");
        let value = vec![7; (i * 131 % 3_000) as usize];
        let mut info = CommitInfo::default();
        let result = match i % 5 {
            0 => inc_with(region, name.as_bytes(), b"n", 1, &o).map(drop),
            1 => put_with(region, format!("wide{thread}").as_bytes(), name.as_bytes(), &value[..value.len() / 10], &o).map(drop),
            2 => region.delete(name.as_bytes(), CF, b"q", region::region::Op::Delete, &o, &mut info),
            _ => put_with(region, name.as_bytes(), b"v", &value, &o).map(drop),
        };
        match result {
            Ok(()) => (done, refused) = (done + 1, 0),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Busy, "{e}");
                // The log prepares its segments in its own time.
                let for_memory = e.message().contains("memstore_limit") || e.message().contains("chunk pool");
                refused += u32::from(for_memory);
                if refused == 10 {
                    break;
                }
            }
        }
    }
    done
}

/// Both limits, each as the one that is met.
fn hard(memstore_limit: u64, pool_limit: u64) {
    let _alone = alone();
    let pool =
        ChunkPool::new(PoolOptions { chunk_size: 256 << 10, max_bytes: pool_limit, huge_pages: false, ..PoolOptions::default() }).unwrap();
    let dir = disk_dir();
    let options = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        config: format!("memstore_limit={memstore_limit},wal_segment_bytes=4m"),
        ..RegionOptions::default()
    };
    let region = Region::open(&dir.path().join("r"), options, Some(Arc::clone(&pool)), None).unwrap();
    assert_eq!(inc(&region, b"first", b"n", 1), 1);
    let before = memory::resident("RssAnon");
    let written = fill(&region);
    let (grown, stats) = (memory::resident("RssAnon").saturating_sub(before), pool.stats());
    let limit = memstore_limit.min(pool_limit);
    println!("{written} writes; RssAnon grew by {grown}, {} mapped, limit {limit}", stats.mapped_bytes);
    assert!(written > 1_000, "{written}");
    assert!(stats.mapped_bytes <= limit + WRITERS * CREDIT, "P-M1: {stats:?}");
    // Threads, tables and the log's buffers are not the memstore's.
    assert!(grown <= limit + WRITERS * CREDIT + 8 * MB, "P-M1: grew by {grown}");
    assert!(stats.mapped_bytes >= limit * 3 / 4, "refused long before the limit: {stats:?}");
    // What is there stays usable: reads, and counters that exist.
    assert_eq!(inc(&region, b"first", b"n", 1), 2);
    assert!(scan(&region, None, b"", b"").len() > 1_000);
    close(&region);
    drop(region);
    let stats = pool.stats();
    assert_eq!((stats.in_use, stats.oversize_bytes), (0, 0), "{stats:?}");
}

#[test]
fn p_m1_the_limit_of_the_region() {
    hard(24 * MB, 1 << 30);
}

#[test]
fn p_m1_the_limit_of_the_pool() {
    hard(1 << 30, 24 * MB);
}
