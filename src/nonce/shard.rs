//! One shard of the table: its entries by key and in the order they were reserved. The order is that of their age, so the oldest leave first.

use super::{Entry, Key};
use crate::ids::Tick;
use crate::lock_order::{self, Level, LevelGuard};
use crate::sync::{Arc, Mutex, MutexGuard};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher, RandomState};

/// An entry, known by its key.
struct ByKey(Arc<Entry>);

impl Hash for ByKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}
impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}
impl Eq for ByKey {}
impl Borrow<Key> for ByKey {
    fn borrow(&self) -> &Key {
        &self.0.key
    }
}

/// What a shard's lock guards.
pub(super) struct Shard {
    set: HashSet<ByKey, RandomState>,
    /// Every entry of the set, and those that a younger one of the same key took the place of.
    queue: VecDeque<Arc<Entry>>,
    /// Whoever was born before has left for its age, or counts as gone: entries of one birth are all there or none, however many have been taken out.
    first: Tick,
}

/// Entries that left; freed by the caller, with nothing locked.
pub(super) type Gone = SmallVec<[Arc<Entry>; 32]>;

impl Shard {
    pub(super) fn with_capacity(n: usize, hasher: RandomState) -> Self {
        Self { set: HashSet::with_capacity_and_hasher(n, hasher), queue: VecDeque::with_capacity(n), first: Tick(0) }
    }
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.set.len()
    }
    #[cfg(all(test, not(loom)))]
    pub(super) fn capacity(&self) -> usize {
        self.queue.capacity() + self.set.capacity()
    }
    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.queue.iter().filter(|e| self.set.get(&e.key).is_some_and(|s| Arc::ptr_eq(&s.0, e)))
    }
    pub(super) fn find(&self, key: &Key, now: Tick, window: u64) -> Option<Arc<Entry>> {
        let entry = &self.set.get(key)?.0;
        let young = now.0.saturating_sub(entry.born.0) <= window && entry.born >= self.first;
        (young && entry.commit().is_some()).then(|| Arc::clone(entry))
    }
    /// More entries go in without an allocation. A set's capacity is what it still takes beyond what it holds, places of removed entries not counted.
    fn has_room_for(&self, n: usize) -> bool {
        self.set.capacity() - self.set.len() >= n && self.queue.capacity() - self.queue.len() >= n
    }
    fn insert(&mut self, entry: &Arc<Entry>) {
        // One of the same key is past the window. It stays in the queue, which frees it in its turn.
        self.set.replace(ByKey(Arc::clone(entry)));
        self.queue.push_back(Arc::clone(entry));
    }
    fn forget(&mut self, entry: &Arc<Entry>) {
        if self.set.get(&entry.key).is_some_and(|e| Arc::ptr_eq(&e.0, entry)) {
            self.set.remove(&entry.key);
        }
    }
    /// Moves everything from another; room for it was made before.
    fn take_over(&mut self, other: &mut Self) {
        self.set.extend(other.set.drain());
        self.queue.append(&mut other.queue);
        self.first = other.first;
    }
}

/// A shard behind its lock.
pub(super) struct ShardLock(Mutex<Shard>);

impl ShardLock {
    pub(super) fn new(shard: Shard) -> Self {
        Self(Mutex::new(shard))
    }
    pub(super) fn lock(&self) -> (MutexGuard<'_, Shard>, LevelGuard) {
        let level = lock_order::enter(Level::Leaf, "nonce shard");
        (self.0.lock(), level)
    }

    /// Puts entries in. Larger tables are made with nothing locked, and then moved into.
    pub(super) fn insert(&self, entries: &[Arc<Entry>]) {
        loop {
            let (wanted, hasher) = {
                let (mut shard, _level) = self.lock();
                if shard.has_room_for(entries.len()) {
                    entries.iter().for_each(|e| shard.insert(e));
                    return;
                }
                (2 * (shard.queue.len() + entries.len()), shard.set.hasher().clone())
            };
            let mut fresh = Shard::with_capacity(wanted.max(CAPACITY_MIN), hasher);
            let (mut shard, _level) = self.lock();
            // Another thread may have been faster, or have filled it up meanwhile.
            if !shard.has_room_for(entries.len()) && fresh.has_room_for(shard.queue.len() + entries.len()) {
                fresh.take_over(&mut shard);
                std::mem::swap(&mut *shard, &mut fresh);
            }
            // The lock goes before `fresh`, which holds the smaller tables now: locals are dropped in the reverse of their order.
        }
    }
    /// Takes out entries that were not filled; answers with how many, and their bytes. They are among the youngest.
    pub(super) fn remove(&self, entries: &[Arc<Entry>]) -> (usize, u64) {
        let (mut shard, _level) = self.lock();
        let (mut count, mut bytes) = (0, 0);
        for entry in entries {
            if let Some(at) = shard.queue.iter().rposition(|e| Arc::ptr_eq(e, entry)) {
                shard.queue.remove(at);
                shard.forget(entry);
                (count, bytes) = (count + 1, bytes + entry.size());
            }
        }
        (count, bytes)
    }
    /// Makes tables smaller that are far too large for what is left in them; moves only that, a small part of what they once held.
    pub(super) fn shrink(&self) {
        let (held, hasher) = {
            let (shard, _level) = self.lock();
            if shard.queue.capacity().max(shard.set.capacity()) <= 8 * shard.queue.len().max(CAPACITY_MIN) {
                return;
            }
            (shard.queue.len(), shard.set.hasher().clone())
        };
        let mut fresh = Shard::with_capacity(if held == 0 { 0 } else { 2 * held.max(CAPACITY_MIN) }, hasher);
        let (mut shard, _level) = self.lock();
        if fresh.has_room_for(shard.queue.len()) {
            fresh.take_over(&mut shard);
            std::mem::swap(&mut *shard, &mut fresh);
        }
        // As above: the lock goes before the larger tables.
    }
    /// Takes out some of the entries that are older than `window`. One that is only reserved stays, and what stands behind it.
    pub(super) fn expire(&self, now: Tick, window: u64) -> Gone {
        let mut gone = Gone::new();
        let (mut shard, _level) = self.lock();
        while gone.len() < gone.inline_size()
            && let Some(oldest) = shard.queue.front()
            && now.0.saturating_sub(oldest.born.0) > window
            && oldest.commit().is_some()
            && let Some(oldest) = shard.queue.pop_front()
        {
            shard.first = shard.first.max(Tick(oldest.born.0.saturating_add(1)));
            shard.forget(&oldest);
            gone.push(oldest);
        }
        gone
    }
}

/// Entries that a shard's first tables take.
const CAPACITY_MIN: usize = 56;
