//! Loom models: bump, refill, pool, waiting. Each has a flaw that must break it.

use super::chunk::OwnedChunk;
use super::flaw::{self, Flaw};
use super::gate::Gate;
use super::*;
use crate::clock::Timeout;
use crate::sync::{Arc, AtomicBool, Ordering, thread};
use loom::cell::UnsafeCell;

fn explore(model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    builder.check(model);
}
fn must_break(flaw: Flaw, words: &str, model: fn()) {
    flaw::set(flaw);
    let failed = std::panic::catch_unwind(|| explore(model)).expect_err("the model did not notice");
    flaw::set(Flaw::None);
    let text = failed.downcast_ref::<String>().cloned().or_else(|| failed.downcast_ref::<&str>().map(|s| (*s).to_owned()));
    let text = text.unwrap_or_default();
    assert!(text.contains(words), "broke, but not as expected: {text}");
}
fn pool(chunks: u64) -> Arc<ChunkPool> {
    ChunkPool::new(PoolOptions { chunk_size: 4096, max_bytes: chunks * 4096, ..PoolOptions::default() }).expect("options are good")
}
fn arena(pool: &Arc<ChunkPool>) -> Arena {
    Arena::new(Arc::clone(pool), Arc::new(MemoryBudget::new(u64::MAX)))
}

/// Two threads allocate from both ends of one chunk; the pieces are disjoint, the last one is refused.
fn bump() {
    let chunk = Arc::new(OwnedChunk::map(4096, 1, false).expect("memory"));
    let other = {
        let chunk = Arc::clone(&chunk);
        thread::spawn(move || {
            let a = chunk.chunk().bump(1024, 8);
            (a.map(|p| (p.as_ptr() as usize, 1024)), chunk.chunk().bump(1024, 128).map(|p| (p.as_ptr() as usize, 1024)))
        })
    };
    let mine = chunk.chunk().bump(2048, 8).map(|p| (p.as_ptr() as usize, 2048));
    let late = chunk.chunk().bump(1024, 8).map(|p| (p.as_ptr() as usize, 1024));
    let (a, b) = other.join().expect("no panic");
    let mut pieces: Vec<(usize, usize)> = [mine, late, a, b].into_iter().flatten().collect();
    pieces.sort_unstable();
    assert!(pieces.windows(2).all(|p| p[0].0 + p[0].1 <= p[1].0), "pieces overlap");
    let sum: usize = pieces.iter().map(|p| p.1).sum();
    assert!(sum == chunk.chunk().used() && sum <= 4096, "the cursor says something else");
}

/// Two threads find the arena without a chunk; one fetches it, both use it.
fn refill() {
    let pool = pool(2);
    let arena = Arc::new(arena(&pool));
    let other = {
        let arena = Arc::clone(&arena);
        thread::spawn(move || arena.alloc(64, 8, 0).expect("memory").as_ptr() as usize)
    };
    let mine = arena.alloc(64, 8, 0).expect("memory").as_ptr() as usize;
    assert!(mine.abs_diff(other.join().expect("no panic")) >= 64, "pieces overlap");
    assert_eq!(pool.stats().in_use, 1, "a chunk too many");
    drop(arena);
    let s = pool.stats();
    assert_eq!((s.in_use, s.created), (0, s.pooled));
}

/// Two threads fill an arena of their own from a pool of one chunk: never both at a time, and who comes second sees all that the first did.
fn limit_and_reuse() {
    let pool = pool(1);
    let bytes = Arc::new(UnsafeCell::new(0_u32));
    let user = |pool: Arc<ChunkPool>, bytes: Arc<UnsafeCell<u32>>| {
        move || {
            let arena = arena(&pool);
            let got = arena.alloc(64, 8, 0).is_some();
            assert!(pool.stats().mapped_bytes <= 4096, "beyond the limit");
            if flaw::is(Flaw::ReturnEarly) {
                drop(arena);
                touch(got, &bytes);
            } else {
                touch(got, &bytes);
                drop(arena);
            }
            got
        }
    };
    let other = thread::spawn(user(Arc::clone(&pool), Arc::clone(&bytes)));
    let mine = user(Arc::clone(&pool), bytes)();
    let theirs = other.join().expect("no panic");
    let s = pool.stats();
    assert!(mine || theirs, "nobody got the chunk");
    assert_eq!((s.in_use, s.created), (0, s.pooled + s.discarded), "{s:?}");
    assert!(s.mapped_bytes <= 4096, "beyond the limit");
}
/// Stands for the chunk's bytes: loom reports two users that are not ordered.
fn touch(got: bool, bytes: &UnsafeCell<u32>) {
    if got {
        bytes.with_mut(|b| {
            // SAFETY: the one chunk's user.
            unsafe { *b += 1 };
        });
    }
}

/// A waiter is always woken by the change that it waits for. Shared by std's Arc: loom's cannot be dropped while a deadlock is reported.
fn wait() {
    let shared = std::sync::Arc::new((Gate::new(), AtomicBool::new(false)));
    let other = {
        let shared = std::sync::Arc::clone(&shared);
        // Relaxed, as the counters that real waiters look at: the gate's lock orders it.
        thread::spawn(move || assert!(shared.0.wait_until(&mut Timeout::forever(), &|| false, &|| shared.1.load(Ordering::Relaxed))))
    };
    shared.1.store(true, Ordering::Relaxed);
    shared.0.open();
    other.join().expect("no panic");
}

#[test]
fn loom_bump_is_disjoint() {
    explore(bump);
    must_break(Flaw::BumpByStore, "overlap", bump);
}
#[test]
fn loom_refill_takes_one_chunk() {
    explore(refill);
    must_break(Flaw::RefillBlindly, "a chunk too many", refill);
}
#[test]
fn loom_limit_and_reuse() {
    explore(limit_and_reuse);
    must_break(Flaw::LimitOutsideLock, "beyond the limit", limit_and_reuse);
    must_break(Flaw::ReturnEarly, "", limit_and_reuse);
}
#[test]
fn loom_waiters_are_woken() {
    explore(wait);
    must_break(Flaw::OpenOutsideLock, "deadlock", wait);
}
