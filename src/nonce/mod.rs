//! What a retried call already did. A call that carries a nonce leaves one entry per group of operations on a row; the same call again finds them, and is
//! answered from them in place of being run. Bounded in time (the window) and in bytes.
//!
//! Must not: lock rows, know the log, wait. Knows rows as keyed hashes only.
//!
//! An entry's life, all of it under the lock of its row: `find` (nothing there) → `reserve` (before the append; it holds the answer, and number 0) →
//! `Reserved::fill` (between append and unlock). A `Reserved` that is dropped unfilled takes its entries out again, so a call that failed before the append
//! leaves nothing and may be run again. Since one key means one row, hence one row lock, `find` never meets an entry of number 0.
//!
//! Invariants:
//! 1. A key names one row: rows are told apart by 128 bits of SipHash under a key kept in the manifest, so nobody can prepare two that answer for each other.
//! 2. All entries of one call lie in one shard, are born at one time, and are looked for under one hold of the shard's lock: so an atomic call finds all of
//!    its entries or none. An entry leaves only once it is older than the window, never to make room for another.
//! 3. Under a shard's lock (a leaf, level 7) nothing is allocated and nothing freed.
#![forbid(unsafe_code)]

mod codec;
mod fingerprint;
#[cfg(all(test, loom))]
mod models;
mod shard;
#[cfg(all(test, not(loom)))]
mod tests;

pub use codec::{decode, decode_fingerprints, encode, encode_fingerprints};
pub use fingerprint::{Fingerprint, Fingerprinter};

use crate::ids::{SequenceNumber, Tick};
use crate::sync::{Arc, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use shard::{Shard, ShardLock};
use std::hash::{Hasher, RandomState};

/// What a caller made up to name its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nonce {
    /// Whose nonces these are.
    pub group: u64,
    /// Never 0.
    pub nonce: u64,
}

/// A row as the table knows it; see invariant 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowId(pub [u64; 2]);

/// A group of operations within its call: the `nth` group of this row, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The row.
    pub row: RowId,
    /// How many groups of the row stand before it in the call.
    pub nth: u32,
}

/// Whose answer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The call.
    pub nonce: Nonce,
    /// The group.
    pub place: Place,
}

/// What the group's operations were answered. All of them were applied: others leave no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// One for each operation.
    pub values: Box<[i64]>,
    /// Bytes, where the call answers with some.
    pub bytes: Box<[u8]>,
    /// Of which operations. None: in the log of an earlier build, which kept no fingerprints.
    pub of: Option<Fingerprint>,
}

impl Answer {
    fn size(&self) -> u64 {
        (self.values.len() * size_of::<i64>() + self.bytes.len()) as u64
    }
}

/// One group that was applied, or is about to be.
#[derive(Debug)]
pub struct Entry {
    /// Whose it is.
    pub key: Key,
    /// What it was answered.
    pub answer: Answer,
    /// The table's time when it was reserved; its age counts from here. After a reopen: its commit's tick.
    born: Tick,
    tick: AtomicU64,
    /// 0 until the commit has its number.
    number: AtomicU64,
}

impl Entry {
    /// Number and tick of its commit. None: only reserved.
    pub fn commit(&self) -> Option<(SequenceNumber, Tick)> {
        // Acquire: pairs with the Release in `fill`; who sees the number sees the tick.
        match self.number.load(Ordering::Acquire) {
            0 => None,
            n => Some((SequenceNumber(n), Tick(self.tick.load(Ordering::Relaxed)))),
        }
    }
    fn fill(&self, number: SequenceNumber, tick: Tick) {
        self.tick.store(tick.0, Ordering::Relaxed);
        // Release: last, see `commit`.
        self.number.store(number.0, flawed(Ordering::Release));
    }
    fn size(&self) -> u64 {
        ENTRY_BYTES + self.answer.size()
    }
}

/// What one entry takes besides its answer: itself, its places in set and queue at half load, the allocator's share.
const ENTRY_BYTES: u64 = 160;
/// Times that a background thread's step lets go of a few entries of a shard: it frees at most some 16,000, in a few milliseconds.
const TIDY_STEPS: usize = 32;
/// A model's threads have more to explore in one.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

/// The table is full of entries younger than the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes that were asked for.
    pub needed: u64,
}

/// What the table holds.
#[derive(Default)]
struct Used {
    bytes: AtomicU64,
    entries: AtomicU64,
}

/// Numbers about the table; each for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonceStats {
    /// Entries, those that are past the window and not yet gone included.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that new entries may come up to.
    pub bytes_max: u64,
    /// Groups that were answered.
    pub hits: u64,
    /// Entries that went for their age.
    pub expired: u64,
    /// Calls that were refused since the table was full.
    pub refused: u64,
}

/// What the calls of the last while have done.
pub struct NonceTable {
    /// Key of the hash of rows: the region's, kept in its manifest.
    key: [u64; 2],
    /// Age at which an entry goes, in ticks.
    window: u64,
    bytes_max: u64,
    // Written by every reservation.
    used: CachePadded<Used>,
    hits: AtomicU64,
    expired: AtomicU64,
    refused: AtomicU64,
    /// Level 7 each, never two at a time.
    shards: Box<[CachePadded<ShardLock>]>,
}

impl NonceTable {
    /// Empty. `key` is the region's, `window` in ticks of its clock. The `now` of the methods must not run backwards: else what is young may count as gone.
    pub fn new(key: [u8; 16], window: u64, bytes_max: u64) -> Self {
        let k = u128::from_le_bytes(key);
        let hasher = RandomState::new();
        let shards = (0..SHARDS).map(|_| CachePadded::new(ShardLock::new(Shard::with_capacity(0, hasher.clone())))).collect();
        let (used, zero) = (CachePadded::new(Used::default()), || AtomicU64::new(0));
        Self { key: [k as u64, (k >> 64) as u64], window, bytes_max, used, hits: zero(), expired: zero(), refused: zero(), shards }
    }
    /// How the table knows a row.
    pub fn row(&self, row: &[u8]) -> RowId {
        RowId([0, 1].map(|half| sip(self.key, half, row)))
    }
    /// Tells calls apart that have one nonce.
    pub fn fingerprinter(&self) -> Fingerprinter {
        Fingerprinter::new(self.key)
    }
    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        // Relaxed: a figure.
        self.used.bytes.load(Ordering::Relaxed)
    }
    /// Takes no lock.
    pub fn stats(&self) -> NonceStats {
        // Relaxed: figures.
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        NonceStats {
            entries: get(&self.used.entries),
            bytes: get(&self.used.bytes),
            bytes_max: self.bytes_max,
            hits: get(&self.hits),
            expired: get(&self.expired),
            refused: get(&self.refused),
        }
    }
    /// For the figures: groups were answered from their entries.
    pub fn note_hits(&self, groups: usize) {
        self.hits.fetch_add(groups as u64, Ordering::Relaxed);
    }
    /// For the figures: a call was refused since the table was full.
    pub fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
    /// Bytes it may use.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }
    /// Keys that have an entry.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().0.len()).sum()
    }
    fn shard(&self, nonce: Nonce) -> &ShardLock {
        // By a fixed hash: whoever makes up nonces that meet in one shard only makes its own calls wait for each other.
        let hash = (nonce.group.rotate_left(32) ^ nonce.nonce).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// The entries of these groups of a call, in their order. Called with their rows locked.
    pub fn find(&self, nonce: Nonce, places: &[Place], now: Tick) -> Vec<Option<Arc<Entry>>> {
        let mut found = Vec::with_capacity(places.len());
        let shard = self.shard(nonce);
        let (shard, _level) = shard.lock();
        found.extend(places.iter().map(|place| shard.find(&Key { nonce, place: *place }, now, self.window)));
        found
    }

    /// Takes the places of groups that are about to be committed. Called with their rows locked, after `find` has found none of them.
    pub fn reserve(&self, nonce: Nonce, groups: Vec<(Place, Answer)>, now: Tick) -> Result<Reserved<'_>, Full> {
        let entry = |(place, answer)| {
            let (tick, number) = (AtomicU64::new(0), AtomicU64::new(0));
            Arc::new(Entry { key: Key { nonce, place }, answer, born: now, tick, number })
        };
        let entries: Vec<_> = groups.into_iter().map(entry).collect();
        let needed = entries.iter().map(|e| e.size()).sum();
        if !self.take(needed) {
            self.expire(now);
            if !self.take(needed) {
                return Err(Full { needed });
            }
        }
        let shard = self.shard(nonce);
        self.expire_some(shard, now);
        self.used.entries.fetch_add(entries.len() as u64, Ordering::Relaxed);
        shard.insert(&entries);
        Ok(Reserved { table: self, nonce, entries })
    }
    fn take(&self, needed: u64) -> bool {
        // Relaxed: a sum; the entries themselves are handed over by the shard's lock.
        let before = self.used.bytes.fetch_add(needed, Ordering::Relaxed);
        let fits = before.saturating_add(needed) <= self.bytes_max;
        if !fits {
            self.used.bytes.fetch_sub(needed, Ordering::Relaxed);
        }
        fits
    }
    fn give_back(&self, entries: usize, bytes: u64) {
        self.used.entries.fetch_sub(entries as u64, Ordering::Relaxed);
        self.used.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// True once `needed` bytes could be reserved.
    pub fn has_room(&self, needed: u64, now: Tick) -> bool {
        self.expire(now);
        self.bytes().saturating_add(needed) <= self.bytes_max
    }
    /// Lets go of everything that is past the window.
    pub fn expire(&self, now: Tick) {
        for shard in &self.shards {
            while self.expire_some(shard, now) {}
        }
    }
    /// A few of them, so that a lock is not held for long; true: there may be more.
    fn expire_some(&self, shard: &ShardLock, now: Tick) -> bool {
        let gone = shard.expire(now, self.window);
        if gone.is_empty() {
            return false;
        }
        self.expired.fetch_add(gone.len() as u64, Ordering::Relaxed);
        self.give_back(gone.len(), gone.iter().map(|e| e.size()).sum());
        gone.len() == gone.inline_size()
    }
    /// Lets go of some of what is past the window, and of tables that have become too large: a step of a background thread, of bounded length. Who uses the
    /// table meanwhile waits for a few entries at most.
    pub fn tidy(&self, now: Tick) {
        // Relaxed: what comes meanwhile is young.
        if self.used.entries.load(Ordering::Relaxed) == 0 && self.expired.load(Ordering::Relaxed) == 0 {
            return;
        }
        for shard in &self.shards {
            for _ in 0..TIDY_STEPS {
                if !self.expire_some(shard, now) {
                    shard.shrink();
                    break;
                }
            }
        }
    }

    /// Puts an entry of the log back; of two for one key the one with the larger number stays. Nobody else uses the table yet. The bound in bytes is not asked:
    /// what is younger than the window must be kept, and it is bounded by the log.
    pub fn restore(&self, key: Key, answer: Answer, number: SequenceNumber, tick: Tick, now: Tick) {
        if now.0.saturating_sub(tick.0) > self.window {
            return;
        }
        if self.find(key.nonce, &[key.place], now).into_iter().flatten().any(|e| e.commit().is_some_and(|(n, _)| n >= number)) {
            return;
        }
        // A row's ticks may run ahead of the clock; that makes nothing younger than now.
        let (born, at) = (tick.min(now), AtomicU64::new(tick.0));
        let entry = Arc::new(Entry { key, answer, born, tick: at, number: AtomicU64::new(number.0) });
        self.used.bytes.fetch_add(entry.size(), Ordering::Relaxed);
        self.used.entries.fetch_add(1, Ordering::Relaxed);
        self.shard(key.nonce).insert(&[entry]);
    }

    /// Filled entries whose commit is this one or an earlier one, by number: what a flush has to carry on before the log up to there goes.
    #[cfg(test)]
    pub fn up_to(&self, number: SequenceNumber) -> Vec<Arc<Entry>> {
        let all = self.shards.iter().flat_map(|shard| shard.lock().0.entries().cloned().collect::<Vec<_>>());
        let mut found: Vec<_> = all.filter(|e| e.commit().is_some_and(|(n, _)| n <= number)).collect();
        found.sort_by_key(|e| e.commit());
        found
    }
}

/// Entries of a commit that is not in the log yet. Dropped without `fill` it takes them out of the table again.
#[must_use = "dropped at once it takes the entries out again"]
pub struct Reserved<'t> {
    table: &'t NonceTable,
    nonce: Nonce,
    entries: Vec<Arc<Entry>>,
}

impl Reserved<'_> {
    /// The commit is in the log: from here on the entries answer. Allocates nothing and takes no lock. The rows are still locked, and the commit's slot is
    /// still held, so that a flush waits for it.
    pub fn fill(self, number: SequenceNumber, tick: Tick) {
        self.entries.iter().for_each(|e| e.fill(number, tick));
    }
    /// What the log keeps of them: answers, and which operations they answer.
    pub fn encode(&self, answers: &mut Vec<u8>, fingerprints: &mut Vec<u8>) {
        encode(answers, self.nonce, self.entries.iter().map(|e| (e.key.place, &e.answer)));
        encode_fingerprints(fingerprints, self.entries.iter().map(|e| &e.answer));
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.entries.iter().any(|e| e.commit().is_none()) {
            let (removed, bytes) = self.table.shard(self.nonce).remove(&self.entries);
            self.table.give_back(removed, bytes);
        }
    }
}

/// SipHash-2-4 of one byte and the row: two bytes in front make two independent hashes under one key.
#[expect(deprecated, reason = "std has no other hasher whose output is specified; the test vectors hold it to the paper")]
fn sip(key: [u64; 2], front: u8, row: &[u8]) -> u64 {
    let mut hasher = std::hash::SipHasher::new_with_keys(key[0], key[1]);
    hasher.write(&[front]);
    hasher.write(row);
    hasher.finish()
}

/// `order`, or Relaxed while a model has switched the rule off.
#[inline(always)]
fn flawed(order: Ordering) -> Ordering {
    #[cfg(all(test, loom))]
    return if models::number_is_relaxed() { Ordering::Relaxed } else { order };
    #[cfg(not(all(test, loom)))]
    order
}
