//! Scenarios of the memory room. Names begin with the case they check (LAB-01 …, POOL-01 …).
//!
//! An arena's pieces are looked at by address only: this room forbids nothing to its callers, but its tests need no unsafe code.

use super::*;
use crate::clock::Timeout;
use crate::error::ErrorKind;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

const MB: u64 = 1 << 20;

fn pool(chunk_size: usize, max_bytes: u64) -> Arc<ChunkPool> {
    ChunkPool::new(PoolOptions { chunk_size, max_bytes, ..PoolOptions::default() }).unwrap()
}
fn arena(pool: &Arc<ChunkPool>) -> Arena {
    Arena::new(Arc::clone(pool), Arc::new(MemoryBudget::new(u64::MAX)))
}
/// POOL-17's identity, and what else always holds while nobody is at work.
fn quiet(pool: &ChunkPool) -> PoolStats {
    let s = pool.stats();
    assert_eq!(s.created, s.pooled + s.in_use + s.discarded, "{s:?}");
    assert_eq!(s.mapped_bytes, (s.pooled + s.in_use) * s.chunk_size + s.oversize_bytes, "{s:?}");
    assert!(s.mapped_bytes <= s.max_bytes && s.high_water >= s.in_use, "{s:?}");
    s
}
/// Pseudo-random numbers from a seed.
struct Chance(u64);
impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}
/// Pieces by address: none may lie in another, all on their alignment.
#[derive(Default)]
struct Pieces(BTreeMap<usize, usize>);
impl Pieces {
    fn add(&mut self, at: std::ptr::NonNull<u8>, size: usize, align: usize) {
        let at = at.as_ptr() as usize;
        assert_eq!(at % align, 0, "alignment");
        if let Some((before, length)) = self.0.range(..=at).next_back() {
            assert!(before + length <= at, "overlaps the piece before");
        }
        if let Some((after, _)) = self.0.range(at + 1..).next() {
            assert!(at + size <= *after, "overlaps the piece behind");
        }
        assert_eq!(self.0.insert(at, size), None, "handed out twice");
    }
}

#[test]
fn lab_01_small_pieces_are_consecutive_and_a_full_chunk_is_followed_by_a_new_one() {
    let pool = pool(4096, MB);
    let arena = arena(&pool);
    let mut chance = Chance(7);
    let mut next = None;
    for _ in 0..40 {
        let size = 1 + chance.below(60) as usize;
        let at = arena.alloc(size, 8, 0).unwrap().as_ptr() as usize;
        // No chunk header: the first piece lies at the chunk's beginning.
        assert_eq!(at, *next.get_or_insert(at & !4095), "size {size}");
        next = Some(at + size.next_multiple_of(8));
    }
    assert_eq!(pool.stats().in_use, 1);
    for _ in 0..100 {
        arena.alloc(40, 8, 0).unwrap();
    }
    assert_eq!(pool.stats().in_use, 2);
    // Both ends: aligned pieces come from the top, and what does not fit changes nothing.
    let high = arena.alloc(128, 128, 0).unwrap().as_ptr() as usize;
    assert_eq!(high % 4096, 4096 - 128);
}

#[test]
fn lab_02_many_random_pieces_are_disjoint_over_threads() {
    let pool = pool(64 << 10, 1 << 30);
    let arena = arena(&pool);
    let taken: Vec<Vec<(usize, usize, usize)>> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..5)
            .map(|t| {
                let arena = &arena;
                s.spawn(move || {
                    let mut chance = Chance(t as u64 + 1);
                    (0..20_000)
                        .map(|_| {
                            let (size, align) = (1 + chance.below(900) as usize, 8 << chance.below(5));
                            (arena.alloc(size, align, t).unwrap().as_ptr() as usize, size, align)
                        })
                        .collect()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let mut pieces = Pieces::default();
    for (at, size, align) in taken.into_iter().flatten() {
        pieces.add(std::ptr::NonNull::new(at as *mut u8).unwrap(), size, align);
    }
    let used: usize = pieces.0.values().sum();
    assert_eq!(arena.reserved_bytes(), quiet(&pool).in_use * (64 << 10));
    assert!(arena.allocated_bytes() >= used as u64 && arena.allocated_bytes() <= arena.reserved_bytes());
}

#[test]
fn lab_02_chunk_ids_are_unique() {
    let pool = pool(4096, MB);
    let mut ids: Vec<u64> = Vec::new();
    let held: Vec<_> = (0..100).map(|_| pool.take().unwrap()).collect();
    for chunk in held {
        ids.push(chunk.chunk().id());
        let mut list = chunk::ChunkList::new();
        list.push(chunk);
        pool.give_back(list);
    }
    pool.trim(0);
    ids.extend((0..100).map(|_| pool.take().unwrap()).map(|c| c.chunk().id()));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200);
}

#[test]
fn lab_03_beyond_a_quarter_of_a_chunk_a_piece_gets_its_own_buffer() {
    assert_eq!((pool(4096, MB).oversize_above(), pool(2 << 20, 4 * MB).oversize_above()), (2048, 512 << 10));
    let pool = pool(16 << 10, MB);
    assert_eq!(pool.oversize_above(), 4096);
    let arena = arena(&pool);
    arena.alloc(pool.oversize_above(), 8, 0).unwrap();
    assert_eq!((pool.stats().in_use, pool.stats().oversize), (1, 0));
    let at = arena.alloc(pool.oversize_above() + 1, 128, 0).unwrap();
    assert_eq!(at.as_ptr() as usize % 128, 0);
    let s = quiet(&pool);
    assert_eq!((s.in_use, s.oversize, s.oversize_bytes), (1, 1, 8192));
    assert_eq!(arena.reserved_bytes(), (16 << 10) + 8192);
    assert!(arena.allocated_bytes() >= 4096 + 4097);
}

#[test]
fn lab_05_settings_that_make_no_sense_are_refused() {
    let with = |o: PoolOptions| ChunkPool::new(o).err().map(|e| (e.kind(), e.message().split(':').next().unwrap().to_owned()));
    let o = PoolOptions { max_bytes: MB, ..PoolOptions::default() };
    let invalid = |name: &str| Some((ErrorKind::Invalid, name.to_owned()));
    assert_eq!(with(PoolOptions { chunk_size: 2048, ..o }), invalid("chunk_size"));
    assert_eq!(with(PoolOptions { chunk_size: 12_288, ..o }), invalid("chunk_size"));
    assert_eq!(with(PoolOptions { chunk_size: 2 << 30, ..o }), invalid("chunk_size"));
    assert_eq!(with(PoolOptions { chunk_size: 2 << 20, ..o }), invalid("max_bytes"));
    assert_eq!(with(PoolOptions { chunk_size: 4096, preallocate_bytes: 2 * MB, ..o }), invalid("preallocate_bytes"));
    assert_eq!(with(PoolOptions { chunk_size: 4096, preallocate_bytes: 4096, pooling: false, ..o }), invalid("preallocate_bytes"));
    assert_eq!(with(PoolOptions { chunk_size: 1 << 20, ..o }), None);
    // Larger than a chunk is no setting here: such a piece gets a buffer of its own, or is refused by the limit.
    assert!(arena(&pool(4096, MB)).alloc(2 << 20, 8, 0).is_none());
}

#[test]
fn lab_07_pool_off_ten_arenas_by_ten_threads_leave_nothing() {
    let pool = ChunkPool::new(PoolOptions { chunk_size: 4096, max_bytes: 64 * MB, pooling: false, ..PoolOptions::default() }).unwrap();
    std::thread::scope(|s| {
        for _ in 0..10 {
            let arena = Arc::new(arena(&pool));
            for t in 0..10 {
                let arena = Arc::clone(&arena);
                s.spawn(move || (0..500).for_each(|_| _ = arena.alloc(100, 8, t).unwrap()));
            }
        }
    });
    let s = quiet(&pool);
    assert_eq!((s.in_use, s.pooled, s.reused, s.mapped_bytes), (0, 0, 0, 0));
    assert!(s.created > 100 && s.created == s.discarded);
}

#[test]
fn lab_09_chunks_go_back_once() {
    let pool = pool(4096, MB);
    let budget = Arc::new(MemoryBudget::new(MB));
    let arena = Arc::new(Arena::new(Arc::clone(&pool), Arc::clone(&budget)));
    (0..100).for_each(|_| _ = arena.alloc(100, 8, 0).unwrap());
    let reader = Arc::clone(&arena);
    let in_use = pool.stats().in_use;
    drop(arena);
    // A reader still has it: nothing goes back (POOL-04: and what is opened and closed before changes nothing).
    assert_eq!((quiet(&pool).in_use, quiet(&pool).pooled, budget.used()), (in_use, 0, in_use * 4096));
    drop(reader);
    assert_eq!((quiet(&pool).in_use, quiet(&pool).pooled, budget.used()), (0, in_use, 0));
}

#[test]
fn pool_01_the_next_arena_takes_the_chunk_used_last() {
    let pool = pool(4096, MB);
    let first = arena(&pool);
    let at = first.alloc(8, 8, 0).unwrap();
    drop(first);
    assert_eq!((quiet(&pool).pooled, quiet(&pool).reused), (1, 0));
    let second = arena(&pool);
    assert_eq!(quiet(&pool).pooled, 1, "an arena without allocations takes nothing");
    assert_eq!(second.alloc(8, 8, 0), Some(at), "the same memory, from its beginning");
    assert_eq!((quiet(&pool).pooled, quiet(&pool).reused, quiet(&pool).created), (0, 1, 1));
}

#[test]
fn pool_02_and_09_dropped_arenas_give_everything_back_at_once() {
    let pool = pool(4096, MB);
    for threads in [1, 4] {
        let arena = arena(&pool);
        (0..200).for_each(|i| _ = arena.alloc(500, 8, i % threads).unwrap());
        assert!(pool.stats().in_use >= 25);
        drop(arena);
        assert_eq!(quiet(&pool).in_use, 0);
    }
    assert!(quiet(&pool).pooled >= 25);
}

#[test]
fn pool_06_the_limit_holds_over_threads() {
    let pool =
        ChunkPool::new(PoolOptions { chunk_size: 4096, max_bytes: 10 * 4096, preallocate_bytes: 5 * 4096, ..PoolOptions::default() })
            .unwrap();
    assert_eq!((quiet(&pool).pooled, quiet(&pool).created), (5, 5));
    std::thread::scope(|s| {
        for t in 0..3 {
            let pool = &pool;
            s.spawn(move || {
                for _ in 0..200 {
                    let arena = arena(pool);
                    let mut got = 0;
                    while got < 10 && arena.alloc(2048, 8, t).is_some() && arena.alloc(2048, 8, t).is_some() {
                        got += 1;
                    }
                    let s = pool.stats();
                    assert!(s.in_use <= 10 && s.pooled <= 10, "{s:?}");
                }
            });
        }
    });
    let s = quiet(&pool);
    assert!(s.pooled <= 10 && s.pooled > 0 && s.in_use == 0 && s.high_water <= 10, "{s:?}");
}

#[test]
fn pool_12_pooling_switched_off_works_and_defaults_are_the_documented_ones() {
    let off = ChunkPool::new(PoolOptions { chunk_size: 4096, max_bytes: 8192, pooling: false, ..PoolOptions::default() }).unwrap();
    for _ in 0..3 {
        let arena = arena(&off);
        while arena.alloc(1000, 8, 0).is_some() {}
        assert_eq!((quiet(&off).in_use, quiet(&off).pooled), (2, 0));
    }
    assert_eq!((quiet(&off).created, quiet(&off).discarded, quiet(&off).reused, off.prepare(2)), (6, 6, 0, 0));
    let s = ChunkPool::new(PoolOptions::default()).unwrap().stats();
    assert_eq!(s.chunk_size, 2 * MB);
    assert!((64 * MB..=16 * 1024 * MB).contains(&s.max_bytes), "{}", s.max_bytes);
    assert_eq!(s.max_chunks, s.max_bytes / (2 * MB));
    assert!(Arc::ptr_eq(&ChunkPool::shared().unwrap(), &ChunkPool::shared().unwrap()));
}

#[test]
fn pool_14_exhaustion_is_an_answer_and_bounded() {
    let pool = pool(4096, 8 * 4096);
    let budget = Arc::new(MemoryBudget::new(1 << 30));
    let one = Arena::new(Arc::clone(&pool), Arc::clone(&budget));
    let mut pieces = 0;
    for i in 0..10_000 {
        pieces += usize::from(one.alloc(1000, 8, i).is_some());
        // Oversize ones are counted, and within the limit too.
        assert!(one.alloc(3000 * 8, 8, i).is_none() || pool.stats().oversize == 1);
        assert!(pool.stats().mapped_bytes <= 8 * 4096);
    }
    assert!((4..=32).contains(&pieces), "{pieces}");
    let s = quiet(&pool);
    assert_eq!(s.mapped_bytes, budget.used());
    // A second arena gets nothing while the first one lives, and what it asked for is not charged.
    let two = Arena::new(Arc::clone(&pool), Arc::clone(&budget));
    assert!(two.alloc(1000, 8, 0).is_none());
    assert_eq!((two.reserved_bytes(), budget.used()), (0, s.mapped_bytes));
    drop(one);
    assert!(two.alloc(1000, 8, 0).is_some());
}

#[test]
fn pool_14_a_small_piece_still_finds_room_in_other_threads_chunks() {
    let pool = pool(4096, 4096);
    let arena = arena(&pool);
    let mut sizes = Vec::new();
    for size in [1024, 512, 64, 8] {
        while arena.alloc(size, 8, sizes.len()).is_some() {
            sizes.push(size);
        }
    }
    assert_eq!(sizes.iter().sum::<usize>(), 4096);
    assert_eq!(arena.allocated_bytes(), 4096);
    // Four places are open to four threads, but there is one chunk for all of them.
    drop(arena);
    let arena = self::arena(&pool);
    arena.widen();
    assert!((0..4).all(|t| arena.alloc(1024, 8, t).is_some()));
    assert!((0..4).all(|t| arena.alloc(8, 8, t).is_none()));
    assert_eq!((pool.stats().in_use, arena.reserved_bytes()), (1, 4096));
}

#[test]
fn the_budget_is_hard_and_the_regions_own() {
    let pool = pool(4096, MB);
    let budget = Arc::new(MemoryBudget::new(3 * 4096 + 100));
    let one = Arena::new(Arc::clone(&pool), Arc::clone(&budget));
    let two = Arena::new(Arc::clone(&pool), Arc::clone(&budget));
    let other = arena(&pool);
    for _ in 0..100 {
        _ = one.alloc(2000, 8, 0);
        _ = two.alloc(2000, 8, 0);
        other.alloc(2000, 8, 0).unwrap();
    }
    assert_eq!((budget.used(), one.reserved_bytes() + two.reserved_bytes()), (3 * 4096, 3 * 4096));
    assert!(one.alloc(5000, 8, 0).is_none(), "oversize is charged too");
    drop(one);
    drop(two);
    assert_eq!(budget.used(), 0);
    assert!(budget.try_take(3 * 4096 + 100) && !budget.try_take(1) && !budget.try_take(u64::MAX));
}

#[test]
fn pool_15_oversize_buffers_are_never_pooled_and_idle_chunks_give_way_to_them() {
    let pool = pool(4096, 8 * 4096);
    let small = arena(&pool);
    while small.alloc(2000, 8, 0).is_some() {}
    drop(small);
    assert_eq!(quiet(&pool).pooled, 8);
    let large = arena(&pool);
    large.alloc(5 * 4096, 8, 0).unwrap();
    let s = quiet(&pool);
    assert_eq!((s.pooled, s.discarded, s.oversize, s.oversize_bytes, s.in_use), (3, 5, 1, 5 * 4096, 0));
    assert!(large.alloc(4 * 4096, 8, 0).is_none(), "beyond the limit even without idle chunks");
    assert_eq!(quiet(&pool).pooled, 3, "a refused one discards nothing");
    drop(large);
    let s = quiet(&pool);
    assert_eq!((s.pooled, s.oversize, s.oversize_bytes), (3, 0, 0));
}

#[test]
fn pool_16_and_17_ten_thousand_cycles_keep_the_identity() {
    let pool = pool(4096, 64 * 4096);
    let mut chance = Chance(3);
    let mut live = Vec::new();
    let mut pooled_before = 0;
    for cycle in 0..10_000 {
        if live.len() > 6 || (chance.below(2) == 0 && !live.is_empty()) {
            live.swap_remove(chance.below(live.len() as u64) as usize);
            assert!(quiet(&pool).pooled >= pooled_before, "a return never shrinks the pool");
        } else {
            let arena = arena(&pool);
            (0..chance.below(8)).for_each(|_| _ = arena.alloc(2048, 8, 0));
            live.push(arena);
        }
        pooled_before = quiet(&pool).pooled;
        assert_eq!(pool.stats().in_use * 4096, live.iter().map(Arena::reserved_bytes).sum::<u64>(), "cycle {cycle}");
    }
    live.clear();
    let s = quiet(&pool);
    assert_eq!((s.in_use, s.discarded), (0, 0));
    let ratio = s.reused as f64 / (s.reused + s.created) as f64;
    assert!(ratio > 0.9, "reuse ratio {ratio}");
}

#[test]
fn trim_gives_idle_chunks_back_and_no_others() {
    let pool = pool(4096, 16 * 4096);
    let keep = arena(&pool);
    keep.alloc(8, 8, 0).unwrap();
    let gone = arena(&pool);
    while gone.alloc(2000, 8, 0).is_some() {}
    drop(gone);
    assert_eq!(quiet(&pool).pooled, 15);
    assert_eq!(pool.trim(10 * 4096 + 4095), 5 * 4096);
    assert_eq!((quiet(&pool).pooled, quiet(&pool).discarded), (10, 5));
    assert_eq!(pool.trim(u64::MAX), 0);
    pool.trim(0);
    assert_eq!((quiet(&pool).pooled, quiet(&pool).discarded, quiet(&pool).in_use), (0, 15, 1));
    // What was given back can be had again.
    let again = arena(&pool);
    while again.alloc(2000, 8, 0).is_some() {}
    assert_eq!(quiet(&pool).in_use, 16);
}

#[test]
fn prepare_makes_chunks_resident_within_the_limit() {
    let pool = pool(2 << 20, 6 * MB);
    assert_eq!((pool.prepare(2), quiet(&pool).created), (2, 2));
    assert_eq!((pool.prepare(2), quiet(&pool).created), (2, 2), "already there");
    assert_eq!(pool.prepare(100), 3);
    let arena = arena(&pool);
    let at = arena.alloc(8, 8, 0).unwrap();
    assert_eq!(at.as_ptr() as usize % (2 << 20), 0, "a chunk of a huge page is aligned to it");
    let s = quiet(&pool);
    assert_eq!((s.created, s.reused, s.pooled, s.in_use), (3, 1, 2, 1));
}

#[test]
fn a_quiet_arena_opens_one_chunk_and_a_contended_one_up_to_four() {
    let pool = pool(2 << 20, 256 * MB);
    let small = arena(&pool);
    (0..1_000).for_each(|t| _ = small.alloc(64, 8, t).unwrap());
    assert_eq!((small.width(), pool.stats().in_use), (1, 1));
    // One thread alone never meets anybody, however much it takes.
    (0..100_000).for_each(|_| _ = small.alloc(64, 8, 3).unwrap());
    assert_eq!((small.width(), pool.stats().in_use), (1, 4));
    // On a machine that runs no two threads at once nobody meets; width is then never needed.
    let busy = arena(&pool);
    std::thread::scope(|s| {
        for t in 0..4 {
            let busy = &busy;
            s.spawn(move || (0..500_000).for_each(|_| _ = busy.alloc(64, 8, t).unwrap()));
        }
    });
    assert!(matches!(busy.width(), 1 | 2 | 4), "{}", busy.width());
    assert_eq!(busy.allocated_bytes(), 4 * 500_000 * 64);
    assert!(busy.reserved_bytes() <= busy.allocated_bytes() + 4 * 2 * MB);
}

#[test]
fn waiting_for_memory_ends_with_memory_with_time_or_with_closing() {
    let pool = pool(4096, 4096);
    let budget = Arc::new(MemoryBudget::new(4096));
    let open = || false;
    let holder = Arena::new(Arc::clone(&pool), Arc::clone(&budget));
    let waiter = |timeout: Timeout, closing: &dyn Fn() -> bool| {
        let mut timeout = timeout;
        wait_for_memory(&pool, &budget, 100, &mut timeout, closing, &|| false)
    };
    assert!(waiter(Timeout::no_wait(), &open), "there is room: nothing is waited for");
    assert!(!waiter(Timeout::no_wait(), &|| true), "closing comes first");
    holder.alloc(8, 8, 0).unwrap();
    assert!(!waiter(Timeout::no_wait(), &open));
    assert!(!waiter(Timeout::from_micros(2_000), &open));
    assert!(!pool.wait_for_memory(&mut Timeout::from_micros(2_000), &open), "the pool alone");
    let (closing, returned) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                s.spawn(|| {
                    let got = waiter(Timeout::forever(), &|| closing.load(SeqCst));
                    returned.fetch_add(1, SeqCst);
                    got
                })
            })
            .collect();
        std::thread::yield_now();
        assert_eq!(returned.load(SeqCst), 0);
        drop(holder);
        assert!(threads.into_iter().all(|t| t.join().unwrap()), "memory came back");
        let holder = Arena::new(Arc::clone(&pool), Arc::clone(&budget));
        holder.alloc(8, 8, 0).unwrap();
        let blocked = s.spawn(|| waiter(Timeout::forever(), &|| closing.load(SeqCst)));
        closing.store(true, SeqCst);
        pool.wake_waiters();
        budget.wake_waiters();
        assert!(!blocked.join().unwrap(), "closing ends the wait");
    });
}

#[test]
fn a_trim_wakes_who_waits_for_room_for_an_oversize_buffer() {
    let pool = pool(4096, 4 * 4096);
    let small = arena(&pool);
    while small.alloc(2000, 8, 0).is_some() {}
    assert!(!pool.has_room(4096) && !pool.wait_for_bytes(2 * 4096, &mut Timeout::no_wait(), &|| false));
    drop(small);
    // Idle chunks count as room: they give way.
    assert!(pool.wait_for_bytes(4 * 4096, &mut Timeout::no_wait(), &|| false));
    assert!(!pool.wait_for_bytes(5 * 4096, &mut Timeout::no_wait(), &|| false));
    assert_eq!((pool.reservation_for(8), pool.reservation_for(2049), pool.reservation_for(4097)), (4096, 4096, 8192));
}

#[test]
fn sizes_beyond_all_limits_are_refused_not_misread() {
    let pool = pool(4096, u64::MAX);
    let arena = arena(&pool);
    assert!(arena.alloc(usize::MAX, 8, 0).is_none());
    assert!(arena.alloc(usize::MAX / 2, 8, 0).is_none(), "more than the address space holds");
    assert_eq!(arena.reserved_bytes(), 0);
    assert!(arena.alloc(0, 1, 0).is_some());
    let s = quiet(&pool);
    assert_eq!((s.oversize, s.oversize_bytes), (0, 0));
    // A refusal by the system ends a wait for it in a bounded time, and not in a tight loop.
    assert!(pool.wait_for_bytes(4096, &mut Timeout::from_micros(100_000), &|| false));
}

/// A waiter goes on when something came back that it can use, though neither budget nor pool has room for more.
#[test]
fn waiting_for_memory_ends_with_a_piece_that_came_back() {
    let pool = pool(4096, 4096);
    let budget = Arc::new(MemoryBudget::new(4096));
    let arena = Arena::new(Arc::clone(&pool), Arc::clone(&budget));
    let piece = arena.alloc(1_000, 8, 0).unwrap();
    while arena.alloc(8, 8, 0).is_some() {}
    let before = arena.given_back(1_000);
    assert_eq!(before, None);
    let wait = |mut timeout: Timeout| {
        wait_for_memory(&pool, &budget, 1_000, &mut timeout, &|| false, &|| arena.given_back(1_000).is_some_and(|now| Some(now) != before))
    };
    assert!(!wait(Timeout::from_micros(2_000)));
    std::thread::scope(|s| {
        let waiter = s.spawn(|| wait(Timeout::forever()));
        std::thread::yield_now();
        arena.give_back(piece, 1_000);
        assert!(waiter.join().unwrap());
    });
    assert_eq!((arena.given_back(1_000), arena.given_back(1_001)), (Some(1), None));
    assert!(arena.alloc(1_000, 8, 0).is_some() && arena.given_back(8).is_none());
}
