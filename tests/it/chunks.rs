//! P-M3: a chunk is given back once its segment and the last reader are gone, and never counted twice or lost.

use crate::rig::*;
use region::hooks::Point;
use region::mslab::{ChunkPool, PoolOptions, PoolStats};
use region::options::{FamilySpec, ReadOptions, WriteOptions};
use region::region::{CloseFlags, CommitInfo, Key, Pinned, ScanSpec, ValueSink};

#[track_caller]
fn balanced(s: &PoolStats) {
    assert_eq!(s.created, s.pooled + s.in_use + s.discarded, "{s:?}");
}

struct Pins(Option<Box<dyn Pinned>>);
impl ValueSink for Pins {
    fn fits(&mut self, _: usize) -> Option<&mut [u8]> {
        None
    }
    fn pin(&mut self, value: Box<dyn Pinned>) {
        self.0 = Some(value);
    }
}

#[test]
fn p_m3_close_gives_every_chunk_back() {
    let rig = Rig::new("seal_every_commits=200");
    let pool = std::sync::Arc::clone(&rig.pool);
    std::thread::scope(|s| {
        for t in 0..4u8 {
            let r = &rig.region;
            s.spawn(move || {
                for i in 0..1000u32 {
                    put(r, &[&[b'k', t][..], &i.to_be_bytes()].concat(), b"v", &[t; 300]);
                    inc(r, &[b'n', t], b"n", 1);
                    if i % 100 == 0 {
                        let snapshot = r.snapshot(LONG).unwrap();
                        assert_eq!(counter_at(r, Some(&snapshot), &[b'n', t], b"n"), Some(i64::from(i) + 1));
                    }
                }
            });
        }
    });
    put(&rig.region, b"big", b"v", &vec![1; 200 << 10]);
    let stats = pool.stats();
    balanced(&stats);
    assert!(stats.in_use > 20 && stats.oversize >= 1, "{stats:?}");
    close(&rig.region);
    drop(rig);
    let stats = pool.stats();
    balanced(&stats);
    assert_eq!((stats.in_use, stats.oversize, stats.oversize_bytes), (0, 0, 0), "{stats:?}");
    // They serve the next region.
    let created = stats.created;
    let next = Rig::new("");
    drop(next);
    assert_eq!(pool.stats().created, created);
}

/// Who still reads keeps what it reads, also after a forced close, and gives it back when it goes.
#[test]
fn p_m3_readers_keep_their_chunks() {
    let rig = Rig::new("");
    let pool = std::sync::Arc::clone(&rig.pool);
    for i in 0..2000u32 {
        put(&rig.region, &i.to_be_bytes(), b"v", &i.to_be_bytes().repeat(50));
    }
    rig.region.seal().unwrap();
    let snapshot = rig.region.snapshot(LONG).unwrap();
    let mut scanner = rig.region.scanner(Some(&snapshot), &ReadOptions::DEFAULT, &ScanSpec::default()).unwrap();
    assert!(scanner.next().unwrap().is_some());
    let mut pins = Pins(None);
    rig.region.get(None, &ReadOptions::DEFAULT, Key { family: CF, row: &7u32.to_be_bytes(), qual: b"v" }, &mut pins).unwrap().unwrap();
    let pinned = pins.0.unwrap();
    assert_eq!(rig.region.stats().unwrap().pinned_values, 1);
    assert_eq!(kind(rig.region.close(CloseFlags::default(), LONG)), region::ErrorKind::Busy);
    rig.region.close(CloseFlags { force: true, no_flush: false }, LONG).unwrap();
    assert!(scanner.next().is_err(), "closed");
    drop(rig);
    assert_eq!(pinned.bytes(), 7u32.to_be_bytes().repeat(50), "pinned bytes outlive the region");
    drop(pinned);
    drop(scanner);
    drop(snapshot);
    let stats = pool.stats();
    balanced(&stats);
    assert_eq!(stats.in_use, 0, "{stats:?}");
}

/// A region that refuses for want of memory (P-M1's hard limit) counts right, too.
#[test]
fn p_m3_when_memory_runs_out() {
    let rig = Rig::new("memstore_limit=2m");
    let pool = std::sync::Arc::clone(&rig.pool);
    let r = &rig.region;
    let o = within(10_000, Default::default());
    let mut stored = 0u32;
    let e = loop {
        match put_with(r, &stored.to_be_bytes(), b"v", &[3; 500], &o) {
            Ok(_) => stored += 1,
            Err(e) => break e,
        }
        assert!(stored < 10_000, "no limit");
    };
    assert_eq!(e.kind(), region::ErrorKind::Busy, "{e}");
    assert!(pool.stats().mapped_bytes <= (2 << 20) + (64 << 10), "{:?}", pool.stats());
    // An existing counter needs no memory.
    assert_eq!(scan(r, None, b"", b"").len(), stored as usize);
    balanced(&pool.stats());
    drop(rig);
    assert_eq!(pool.stats().in_use, 0);
}

/// A view that was replaced while the region got poisoned may still be in use, so it cannot be freed then; it goes with the region.
#[test]
fn p_m3_a_poisoned_view_change_loses_no_chunk() {
    for family_change in [false, true] {
        let rig = Rig::new("");
        let pool = std::sync::Arc::clone(&rig.pool);
        put(&rig.region, b"r", b"v", &[1; 300]);
        // A call that holds the old view keeps the grace period from ending.
        let held = rig.hold(Point::SlotClaimed, |r| r.increment(b"r", CF, b"n", 1, &WriteOptions::DEFAULT, &mut CommitInfo::default()));
        let change = rig.spawn(move |r| if family_change { r.family_set(FamilySpec::named("more")).map(drop) } else { r.seal() });
        if family_change {
            // A poisoned region changes no families: the change must have begun.
            while rig.region.family_id(b"more").unwrap().is_none() {
                std::thread::yield_now();
            }
        }
        rig.region.poison("for the test");
        // Families are stored by then, and shown; a segment is not sealed before everybody has left the old view.
        let changed = change.join().unwrap();
        assert!(if family_change { changed.is_ok() } else { kind(changed) == region::ErrorKind::Poisoned });
        assert_eq!(kind(held.release()), region::ErrorKind::Poisoned);
        // As it is closed, or dropped without.
        if family_change {
            let closed = rig.region.close(CloseFlags::default(), LONG);
            assert!(closed.is_ok() || kind(closed) == region::ErrorKind::Poisoned);
        }
        drop(rig);
        let stats = pool.stats();
        balanced(&stats);
        assert_eq!((stats.in_use, stats.oversize_bytes), (0, 0), "{stats:?}");
    }
}

/// Puts into ever new rows until one is refused. Waits for ever if it is let.
fn put_until_refused(rig: &Rig) -> region::Error {
    let (send, refused) = std::sync::mpsc::channel();
    rig.spawn(move |r| {
        let e = (0u32..1_000_000).find_map(|i| put_with(r, &i.to_be_bytes(), b"v", &[3; 500], &within(u64::MAX, Default::default())).err());
        send.send(e.expect("no limit")).unwrap();
    });
    refused.recv_timeout(std::time::Duration::from_secs(120)).expect("a refusal, not a wait for nothing")
}

/// Without anything that could free memory or log, waiting for them is in vain.
#[test]
fn nothing_waits_for_what_nothing_frees() {
    for (config, what) in [("memstore_limit=2m", "memstore_limit"), ("wal_bytes_max=512k,wal_segment_bytes=64k", "wal_bytes_max")] {
        let rig = Rig::new(config);
        let e = put_until_refused(&rig);
        assert_eq!(e.kind(), region::ErrorKind::Busy, "{e}");
        assert!(e.is_retryable() && e.message().contains(what) && e.message().contains("nothing that could free"), "{e}");
        // It is not refused before the log is full: all segments but the one that is kept for what must be carried over.
        let stats = rig.region.stats().unwrap();
        assert!(what != "wal_bytes_max" || stats.wal_bytes > (512 - 65) << 10, "{stats:?}");
        close(&rig.region);
    }
}

/// What another region holds of the pool comes back when that is closed: this is waited for.
#[test]
fn a_full_pool_is_waited_for_while_others_have_a_part_of_it() {
    let pool = ChunkPool::new(PoolOptions { chunk_size: 64 << 10, max_bytes: 1 << 20, ..PoolOptions::default() }).unwrap();
    let (first, second) = (Rig::with_pool(&pool), Rig::with_pool(&pool));
    let e = (0u32..10_000).find_map(|i| put_with(&first.region, &i.to_be_bytes(), b"v", &[3; 500], &within(1, Default::default())).err());
    assert!(e.unwrap().message().contains("the chunk pool is full"));
    // The second has a chunk or two; what it takes beyond must come from the first.
    let put = second.spawn(|r| {
        (0u32..200).try_for_each(|i| put_with(r, &i.to_be_bytes(), b"v", &[4; 2000], &within(LONG.micros(), Default::default())).map(drop))
    });
    while second.region.stats().unwrap().memstore_bytes < 60 << 10 && !put.is_finished() {
        std::thread::yield_now();
    }
    if put.is_finished() {
        panic!("it did not wait: {:?}, {:?}, {:?}", put.join().unwrap(), pool.stats(), second.region.stats().unwrap());
    }
    close(&first.region);
    drop(first);
    put.join().unwrap().unwrap();
}
