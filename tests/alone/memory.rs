//! P-C4, P-M3: resident memory and chunks stay flat under millions of increments, of one counter and of many, also with snapshots that come and go beside them.

use crate::short::*;
use crate::{alone, disk_dir, setting};
use region::ids::SequenceNumber;
use region::mslab::{ChunkPool, PoolOptions};
use region::options::{FamilySpec, OpenFlags, RegionOptions};
use region::region::Region;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SEGMENT: u64 = 16 << 20;

/// A figure of /proc/self/status, in bytes.
pub fn resident(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// `counters` counters, counted up in turns by two threads; after the first million nothing grows any more.
fn flat(counters: u64, snapshots: usize) {
    let _alone = alone();
    let total = setting("MEMORY_INCREMENTS", if cfg!(debug_assertions) { 2_000_000 } else { 10_000_000 });
    let pool =
        ChunkPool::new(PoolOptions { chunk_size: 256 << 10, max_bytes: 1 << 30, huge_pages: false, ..PoolOptions::default() }).unwrap();
    let dir = disk_dir();
    let options = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        config: format!("wal_segment_bytes={SEGMENT},sync_interval_ms=200"),
        ..RegionOptions::default()
    };
    let file_before = resident("RssFile");
    let region = Region::open(&dir.path().join("r"), options, Some(std::sync::Arc::clone(&pool)), None).unwrap();
    let rows: Vec<Vec<u8>> = (0..counters).map(|i| format!("counter{i:08}").into_bytes()).collect();
    let run = |from: u64, to: u64| {
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            let reader = s.spawn(|| {
                let mut open = VecDeque::new();
                while snapshots > 0 && !stop.load(Ordering::Acquire) {
                    if open.len() == snapshots {
                        drop(open.pop_front());
                    }
                    open.push_back(region.snapshot(LONG).unwrap());
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            let writers = [0, 1].map(|t| {
                let (region, rows) = (&region, &rows);
                s.spawn(move || {
                    for i in (from..to).filter(|i| i % 2 == t) {
                        inc(region, &rows[(i % counters) as usize], b"n", 1);
                    }
                })
            });
            let stops = Stops(&stop);
            writers.into_iter().for_each(|w| w.join().unwrap());
            drop(stops);
            reader.join().unwrap();
        });
    };
    run(0, 1_000_000);
    let (anon, chunks) = (resident("RssAnon"), pool.stats().in_use);
    let mut at = 1_000_000;
    while at < total {
        let to = (at + 1_000_000).min(total);
        run(at, to);
        at = to;
        let now = resident("RssAnon");
        println!(
            "{at} increments: RssAnon {now} (at first {anon}), RssFile {}, chunks {} (at first {chunks})",
            resident("RssFile"),
            pool.stats().in_use
        );
        // One version more per counter and point that was open when it was counted up, from a list whose dead cells are used again.
        let slack = if snapshots > 0 { counters * 64 * 2 + (4 << 20) } else { 2 << 20 };
        assert!(now <= anon + slack, "RssAnon grew from {anon} to {now}");
        let more = if snapshots > 0 { slack / (256 << 10) + 1 } else { 0 };
        assert!(pool.stats().in_use <= chunks + more, "{chunks} chunks, then {}", pool.stats().in_use);
        // Segments of the log stay mapped until they are synced, which the disk decides; then the keeper unmaps them.
        region.wait_durable(SequenceNumber(region.stats().unwrap().seq), LONG).unwrap();
        let files = || resident("RssFile").saturating_sub(file_before);
        let begun = Instant::now();
        while files() > 3 * SEGMENT + (4 << 20) {
            assert!(begun.elapsed() < Duration::from_secs(20), "RssFile grew by {} and stays so", files());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let sum: i64 = rows.iter().map(|row| counter(&region, row, b"n").unwrap()).sum();
    assert_eq!(sum as u64, at);
    close(&region);
    drop(region);
    let stats = pool.stats();
    assert_eq!(stats.in_use, 0, "{stats:?}");
    assert_eq!(stats.created, stats.pooled + stats.discarded, "{stats:?}");
}

#[test]
fn p_c4_one_counter_stays_flat() {
    flat(1, 0);
}

#[test]
fn p_c4_many_counters_stay_flat() {
    flat(100_000, 0);
}

/// P-M3: the same for the log's own memory while nothing at all is synced: segments that the log has left must not stay in memory until they are.
#[test]
fn p_m3_the_log_stays_flat_while_syncs_lag() {
    let _alone = alone();
    let total = setting("MEMORY_INCREMENTS", if cfg!(debug_assertions) { 2_000_000 } else { 10_000_000 });
    let dir = disk_dir();
    let options = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        sync_interval_ms: 3_600_000,
        config: format!("wal_segment_bytes={SEGMENT}"),
        ..RegionOptions::default()
    };
    let before = resident("RssFile");
    let region = Region::open(&dir.path().join("r"), options, None, None).unwrap();
    let mut most = 0;
    for i in 0..total {
        inc(&region, b"counter", b"n", 1);
        if i % 4_096 == 0 {
            most = most.max(resident("RssFile").saturating_sub(before));
        }
    }
    let stats = region.stats().unwrap();
    println!("{total} increments, {} segments, {} syncs: RssFile grew by {most} at most", stats.wal_segments, stats.wal_syncs);
    assert_eq!(stats.wal_syncs, 0);
    assert!(stats.wal_segments > 8, "the log has not rolled: {stats:?}");
    assert!(most <= 3 * SEGMENT, "RssFile grew by {most}, more than 3 segments of {SEGMENT}");
    close(&region);
}

/// The number of files that this process may have open, lowered until it is dropped. By a program of the system, since tests call nothing unsafe.
struct NoFile(String);

impl NoFile {
    fn set(soft: u64) -> Self {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|l| l.starts_with("Max open files")).unwrap();
        let before = line.split_whitespace().nth(3).unwrap().to_string();
        assert!(Self::limit(&soft.to_string()), "this test needs prlimit (util-linux)");
        Self(before)
    }
    fn limit(soft: &str) -> bool {
        let pid = std::process::id().to_string();
        let done = std::process::Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={soft}:")]).status();
        done.is_ok_and(|s| s.success())
    }
}

impl Drop for NoFile {
    fn drop(&mut self) {
        Self::limit(&self.0);
    }
}

/// A log of more segments than a process may have open files: each life leaves one, and an open reads them one after the other.
#[test]
fn a_log_of_many_lives_opens_with_few_files() {
    let _alone = alone();
    let dir = disk_dir();
    let path = dir.path().join("r");
    let open = || {
        let options = RegionOptions {
            flags: OpenFlags { create: true, ..OpenFlags::default() },
            families: vec![FamilySpec::named("cf")],
            config: "wal_segment_bytes=64k,wal_bytes_max=64m".into(),
            ..RegionOptions::default()
        };
        Region::open(&path, options, None, None)
    };
    const LIVES: i64 = 60;
    for life in 0..LIVES {
        let region = open().unwrap();
        inc(&region, b"counter", b"n", 1);
        close(&region);
        drop(region);
        assert_eq!(std::fs::read_dir(&path).unwrap().count() as i64, life + 3, "a segment a life, MANIFEST and LOCK");
    }
    let log: u64 = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert!(log < LIVES as u64 * 8_192 + 8_192, "{log} bytes after {LIVES} short lives");
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let limit = NoFile::set(files + 20);
    let region = open().unwrap();
    assert_eq!(counter(&region, b"counter", b"n"), Some(LIVES));
    close(&region);
    drop(limit);
}

#[test]
fn p_c4_one_counter_stays_flat_beside_snapshots() {
    flat(1, 8);
}

#[test]
fn p_c4_many_counters_stay_flat_beside_snapshots() {
    flat(100_000, 8);
}
