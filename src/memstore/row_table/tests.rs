use super::*;
use crate::mslab::{ChunkPool, MemoryBudget, PoolOptions};
use crate::sync::{Arc, thread};

fn arena(chunk_size: usize, limit: u64) -> Arena {
    let pool = ChunkPool::new(PoolOptions { chunk_size, max_bytes: 1 << 30, huge_pages: false, ..PoolOptions::default() }).unwrap();
    Arena::new(pool, Arc::new(MemoryBudget::new(limit)))
}

fn mix(n: u64) -> u64 {
    let x = (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Word n stands for key n.
fn word(n: u64) -> Word {
    Word(n * 8)
}

#[test]
fn a_million_entries_over_levels() {
    let (arena, n) = (arena(0, u64::MAX), 1_000_000);
    let t = RowTable::new(&arena, 0, 0).unwrap();
    for i in 1..=n {
        t.insert(mix(i), word(i), &arena, 0).unwrap();
    }
    assert_eq!(t.len(), n as usize);
    assert!((5..=12).contains(&t.level_count()), "{} levels", t.level_count());
    for i in 1..=n {
        assert_eq!(t.find(mix(i), |w| w == word(i)), Some(word(i)));
        assert_eq!(t.find(mix(i + n), |w| w == word(i + n)), None);
    }
    assert!(arena.allocated_bytes() < 64 * n, "{} bytes", arena.allocated_bytes());
}

#[test]
fn a_hint_gives_one_level() {
    let (arena, n) = (arena(0, u64::MAX), 300_000);
    let t = RowTable::new(&arena, n as usize, 0).unwrap();
    for i in 1..=n {
        t.insert(mix(i), word(i), &arena, 0).unwrap();
    }
    assert_eq!(t.level_count(), 1);
}

#[test]
fn equal_hashes_are_told_apart() {
    let arena = arena(4096, u64::MAX);
    let t = RowTable::new(&arena, 0, 0).unwrap();
    for i in 1..=2000 {
        t.insert(42, word(i), &arena, 0).unwrap();
    }
    for i in 1..=2000 {
        assert_eq!(t.find(42, |w| w == word(i)), Some(word(i)));
    }
    assert_eq!(t.find(42, |_| false), None);
    assert!(t.level_count() <= 6, "{} levels", t.level_count());
}

#[test]
fn out_of_memory_keeps_what_is_there_and_uses_what_room_is_left() {
    let arena = arena(4096, 64 << 10);
    let t = RowTable::new(&arena, 0, 0).unwrap();
    let mut there = 0;
    for i in 1..=100_000 {
        if t.insert(mix(i), word(i), &arena, 0).is_err() {
            break;
        }
        there = i;
    }
    assert!((2000..8192).contains(&there), "{there} entries in 64 KB");
    let mut late = 0;
    for i in 1..=there {
        assert_eq!(t.find(mix(i), |w| w == word(i)), Some(word(i)));
    }
    for i in 200_000..210_000 {
        late += u64::from(t.insert(mix(i), word(i), &arena, 0).is_ok());
    }
    assert!(late > 0, "a refused key does not close the table");
    assert_eq!(t.len() as u64, there + late);
}

#[test]
fn threads_insert_and_find_while_levels_grow() {
    const EACH: u64 = 30_000;
    let shared = Arc::new((arena(4096, u64::MAX), std::sync::OnceLock::new(), AtomicU64::new(0)));
    shared.1.set(RowTable::new(&shared.0, 0, 0).unwrap()).ok();
    let threads: Vec<_> = (0..4u64)
        .map(|t| {
            let s = Arc::clone(&shared);
            thread::spawn(move || {
                let table = s.1.get().unwrap();
                for i in 1..=EACH {
                    let key = i * 4 + t;
                    table.insert(mix(key), word(key), &s.0, t as usize).unwrap();
                    assert_eq!(table.find(mix(key), |w| w == word(key)), Some(word(key)), "V1: own insert");
                    if t == 0 {
                        s.2.store(key, Release);
                    } else {
                        let other = s.2.load(Acquire);
                        assert!(other == 0 || table.find(mix(other), |w| w == word(other)).is_some(), "V1: another's insert");
                    }
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    let table = shared.1.get().unwrap();
    for key in 4..4 * EACH + 4 {
        assert_eq!(table.find(mix(key), |w| w == word(key)), Some(word(key)));
    }
}
