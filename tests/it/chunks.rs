//! P-M3: a chunk is given back once its segment and the last reader are gone, and never counted twice or lost.

use crate::rig::*;
use region::mslab::PoolStats;
use region::options::ReadOptions;
use region::region::{CloseFlags, Key, Pinned, ScanSpec, ValueSink};

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
