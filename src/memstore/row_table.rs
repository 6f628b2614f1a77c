//! Hash index of a segment: row to block under the row's hash, and (row, family, qualifier) to column under a mix of the row block's address,
//! family and qualifier. A row's embedded column is found through its row.
//!
//! Must not: take locks on the way of a lookup, move an entry, or compare anything but full bytes: rows may share a hash, never data.
//!
//! A level is an array of 64-byte buckets of 8 words (tag of 16 bits, word of 48), made of arena pieces. A key goes to the first free word of
//! its bucket or of the buckets behind it; a level that is 75 % full gets a successor of four times its size. Lookups ask the newest level
//! first. Words are never cleared, so a free word ends the search in a level.
//!
//! Threads: lookups by anybody, without a lock. A key is only inserted by the owner of its row's lock, so the same key never races with
//! itself; different keys race for words by compare-and-swap. One thread at a time makes a new level, the others go on in the old one.
//!
//! A level that cannot be had (memory) is no failure while the last one has room nearby.

use super::NoMemory;
use super::blocks::Word;
use crate::mslab::Arena;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Mutex, spin_loop};
use std::ptr::{self, NonNull};

/// 8 words in a cache line.
#[repr(C, align(64))]
struct Bucket([AtomicU64; BUCKET_WORDS]);

const BUCKET_WORDS: usize = 8;
const TAG_SHIFT: u32 = 48;
const ADDRESS: u64 = (1 << TAG_SHIFT) - 1;
/// Levels grow by four, so this is never reached; two words of a table in which each hash is the same do not count.
const LEVELS_MAX: usize = 32;
const LEVEL_GROWTH: usize = 4;
const FIRST_BUCKETS_MIN: usize = 16;
/// Largest piece of a level.
const PIECE_BYTES_MAX: usize = 512 << 10;
/// How far a full level is searched for room before a new one is insisted on.
const FULL_PROBES: usize = 8;

struct Level {
    /// Buckets - 1; a power of two of buckets.
    mask: u64,
    piece_shift: u32,
    pieces: Box<[NonNull<Bucket>]>,
    /// Words in use.
    used: AtomicUsize,
    /// How many buckets a lookup may have to look at.
    probes: AtomicUsize,
}

/// The table. Its buckets lie in the arena that is passed to `insert`, which must outlive it.
pub(super) struct RowTable {
    count: AtomicUsize,
    levels: [AtomicPtr<Level>; LEVELS_MAX],
    /// Held by the one thread that makes a level: pieces that a failed try has taken already.
    growing: Mutex<Vec<NonNull<Bucket>>>,
    piece_buckets: usize,
}

// SAFETY: buckets are atomics in an arena that outlives the table; levels are immutable once published.
unsafe impl Send for RowTable {}
// SAFETY: as above.
unsafe impl Sync for RowTable {}

impl Level {
    fn bucket(&self, index: u64) -> &Bucket {
        let index = (index & self.mask) as usize;
        let piece = self.pieces[index >> self.piece_shift];
        let within = index & ((1 << self.piece_shift) - 1);
        // SAFETY: every piece holds 1 << piece_shift buckets, or is the only one and holds mask + 1.
        let bucket = unsafe { piece.add(within) };
        // SAFETY: initialised before the level was published; lives as long as the arena, which outlives the table.
        unsafe { bucket.as_ref() }
    }
    fn buckets(&self) -> usize {
        self.mask as usize + 1
    }
    fn is_crowded(&self) -> bool {
        // Relaxed: a measure.
        self.used.load(Relaxed) * 4 >= self.buckets() * BUCKET_WORDS * 3
    }
    fn find(&self, hash: u64, same: &mut impl FnMut(Word) -> bool) -> Option<Word> {
        // Acquire: pairs with the raise in `try_insert`.
        for i in 0..self.probes.load(Acquire) as u64 {
            for word in &self.bucket(hash.wrapping_add(i)).0 {
                // Acquire: pairs with the insert; the block behind the word is then visible.
                let w = word.load(Acquire);
                if w == 0 {
                    return None;
                }
                if (w ^ hash) >> TAG_SHIFT == 0 && same(Word(w & ADDRESS)) {
                    return Some(Word(w & ADDRESS));
                }
            }
        }
        None
    }
    fn try_insert(&self, hash: u64, word: Word) -> bool {
        let tagged = hash & !ADDRESS | word.0;
        let reach = if self.is_crowded() { FULL_PROBES.min(self.buckets()) } else { self.buckets() };
        for i in 0..reach {
            for free in &self.bucket(hash.wrapping_add(i as u64)).0 {
                if free.load(Relaxed) != 0 {
                    continue;
                }
                // Release: pairs with the loads of `find`; before the word, so who must find it looks far enough.
                if self.probes.load(Relaxed) <= i {
                    self.probes.fetch_max(i + 1, AcqRel);
                }
                // Release: pairs with the loads of `find`. Acquire on failure is not needed, the word is somebody else's.
                if free.compare_exchange(0, tagged, Release, Relaxed).is_ok() {
                    self.used.fetch_add(1, Relaxed);
                    return true;
                }
            }
        }
        false
    }
}

impl RowTable {
    /// A table with room for about `words` entries in its first level.
    pub(super) fn new(arena: &Arena, words: usize, thread: usize) -> Result<Self, NoMemory> {
        // At half load a lookup almost never leaves its first bucket.
        let buckets = (words / (BUCKET_WORDS / 2)).next_power_of_two().max(FIRST_BUCKETS_MIN);
        let piece_bytes = arena.pool().oversize_above().min(PIECE_BYTES_MAX).max(FIRST_BUCKETS_MIN * size_of::<Bucket>());
        let piece_buckets = 1 << (piece_bytes / size_of::<Bucket>()).ilog2();
        let table = Self {
            count: AtomicUsize::new(0),
            levels: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            growing: Mutex::new(Vec::new()),
            piece_buckets,
        };
        {
            let mut taken = table.growing.lock();
            table.add_level(buckets, &mut taken, arena, thread)?;
        }
        Ok(table)
    }

    /// The entry under `hash` for which `same` says yes.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut same: impl FnMut(Word) -> bool) -> Option<Word> {
        self.levels().find_map(|level| level.find(hash, &mut same))
    }

    /// Adds an entry that is not there. Row lock held.
    pub(super) fn insert(&self, hash: u64, word: Word, arena: &Arena, thread: usize) -> Result<(), NoMemory> {
        debug_assert_eq!(word.0 & !ADDRESS, 0, "an address of more than 48 bits");
        loop {
            let count = self.count.load(Acquire);
            let Some(level) = self.levels().next() else { return Err(NoMemory) };
            let done = level.try_insert(hash, word);
            if done && !level.is_crowded() {
                return Ok(());
            }
            let room = self.grow_from(count, level.buckets(), arena, thread);
            match (done, room) {
                (true, _) => return Ok(()),
                (false, Err(e)) => return Err(e),
                (false, Ok(())) => spin_loop(),
            }
        }
    }

    /// Brings the bucket of a row into the cache.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        for level in self.levels().take(PREFETCH_LEVELS) {
            prefetch_line(ptr::from_ref(level.bucket(hash)).cast());
        }
    }

    /// Brings the two lines of a row's block into the cache; its bucket is there already.
    #[inline]
    pub(super) fn prefetch_target(&self, hash: u64) {
        for level in self.levels().take(PREFETCH_LEVELS) {
            for word in &level.bucket(hash).0 {
                // Relaxed: only the address is used, for a hint.
                let w = word.load(Relaxed);
                if w == 0 {
                    break;
                }
                if (w ^ hash) >> TAG_SHIFT == 0 {
                    let line = ptr::without_provenance::<u8>((w & ADDRESS & !1) as usize);
                    prefetch_line(line);
                    prefetch_line(line.wrapping_add(64));
                    return;
                }
            }
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.levels().map(|l| l.used.load(Relaxed)).sum()
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn level_count(&self) -> usize {
        self.count.load(Acquire)
    }

    /// Newest first.
    #[inline]
    fn levels(&self) -> impl Iterator<Item = &Level> {
        // Acquire: pairs with `add_level`; all levels below the count are there.
        let count = self.count.load(Acquire);
        self.levels[..count].iter().rev().filter_map(|l| {
            // Acquire: as above.
            let level = NonNull::new(l.load(Acquire))?;
            // SAFETY: a published level is freed only by drop.
            Some(unsafe { level.as_ref() })
        })
    }

    /// Makes the successor of level `count` - 1, unless somebody else does or has done so.
    #[cold]
    fn grow_from(&self, count: usize, buckets: usize, arena: &Arena, thread: usize) -> Result<(), NoMemory> {
        let Some(mut taken) = self.growing.try_lock() else { return Ok(()) };
        if self.count.load(Acquire) != count {
            return Ok(());
        }
        self.add_level(buckets.saturating_mul(LEVEL_GROWTH), &mut taken, arena, thread)
    }

    /// Adds a level of `buckets` buckets, or of as many as there is memory for. `taken` is the content of `growing`.
    fn add_level(&self, buckets: usize, taken: &mut Vec<NonNull<Bucket>>, arena: &Arena, thread: usize) -> Result<(), NoMemory> {
        let count = self.count.load(Acquire);
        let wanted = buckets.div_ceil(self.piece_buckets);
        let piece_buckets = self.piece_buckets.min(buckets);
        while taken.len() < wanted {
            match new_piece(arena, piece_buckets, thread) {
                Some(piece) => taken.push(piece),
                None => break,
            }
        }
        if taken.is_empty() || count == LEVELS_MAX {
            return Err(NoMemory);
        }
        // A power of two of pieces; what is over serves the next level.
        let pieces = 1 << taken.len().min(wanted).ilog2();
        let level = Box::new(Level {
            mask: (pieces * piece_buckets) as u64 - 1,
            piece_shift: piece_buckets.ilog2(),
            pieces: taken.drain(..pieces).collect(),
            used: AtomicUsize::new(0),
            probes: AtomicUsize::new(1),
        });
        // Release, both: pair with `levels`; the buckets are initialised.
        self.levels[count].store(Box::into_raw(level), Release);
        self.count.store(count + 1, Release);
        Ok(())
    }
}

impl Drop for RowTable {
    fn drop(&mut self) {
        for level in &self.levels {
            let level = level.swap(ptr::null_mut(), Relaxed);
            if !level.is_null() {
                // SAFETY: made by Box::into_raw in `add_level`; nobody else is left.
                drop(unsafe { Box::from_raw(level) });
            }
        }
    }
}

/// An initialised piece of a level.
fn new_piece(arena: &Arena, buckets: usize, thread: usize) -> Option<NonNull<Bucket>> {
    let piece = arena.alloc(buckets * size_of::<Bucket>(), align_of::<Bucket>(), thread)?.cast::<Bucket>();
    for i in 0..buckets {
        // SAFETY: the piece has room for `buckets` buckets.
        let bucket = unsafe { piece.add(i) };
        // SAFETY: as above, aligned, and nobody else's yet.
        unsafe { bucket.write(Bucket(std::array::from_fn(|_| AtomicU64::new(0)))) };
    }
    Some(piece)
}

/// Older levels hold so few rows that looking there first would cost more than it gains.
const PREFETCH_LEVELS: usize = 2;

/// A hint to bring a cache line in.
#[inline(always)]
pub(super) fn prefetch_line(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address is a hint without effect on memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = line;
}

#[cfg(all(test, not(loom)))]
mod tests;
