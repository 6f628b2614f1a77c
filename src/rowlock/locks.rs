//! The token that says which rows are locked, and the ways to get one.

#![forbid(unsafe_code)]

use super::bucket::Held;
use super::flaw::Flaw;
use super::table::{Attempt, RowLockTable};
use crate::clock::Timeout;
use crate::ids::{RowHash, Tick};
use crate::lock_order::{self, Level, LevelGuard};

/// Why a row was not locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockError {
    /// Somebody else held it for the whole timeout.
    Timeout,
    /// The table is closed, or was while this thread waited.
    Closed,
}

/// A row of several that was not locked.
#[derive(Debug)]
pub struct NotLocked {
    /// Why not.
    pub why: LockError,
    /// Which; None: the table was closed before any was asked for.
    pub row: Option<RowHash>,
    /// The caller's memory.
    pub scratch: LockScratch,
}

/// Memory for the list of held rows, for reuse from call to call: so a batch allocates nothing once its size was seen.
#[derive(Debug, Default)]
pub struct LockScratch {
    held: Vec<Held>,
}

/// Rows that this thread has locked; dropping it, also in a panic, unlocks them. What a commit takes as proof.
///
/// The setters below take effect at the unlock, for all rows of the token. Stays on its thread.
#[must_use = "dropping it unlocks the rows"]
pub struct RowLocks<'t> {
    table: &'t RowLockTable,
    // One row is kept here, several in the list; never both.
    one: Option<Held>,
    many: Vec<Held>,
    // Read at the lock.
    last_tick: u64,
    fsync_pending: u64,
    // Written at the unlock.
    tick: u64,
    raise: u64,
    // Last, so that it goes after the unlock.
    _level: LevelGuard,
}

impl RowLockTable {
    /// Locks one row. Allocates nothing.
    #[inline]
    pub fn lock<'t>(&'t self, hash: RowHash, timeout: &mut Timeout) -> Result<RowLocks<'t>, LockError> {
        let level = lock_order::enter(Level::Rows, "a row lock");
        if self.is_closed() {
            return Err(LockError::Closed);
        }
        let (held, tick) = self.acquire(hash.0, timeout)?;
        Ok(self.one(held, tick, level))
    }

    /// Locks one row if it is free and the table open.
    #[inline]
    pub fn try_lock(&self, hash: RowHash) -> Option<RowLocks<'_>> {
        let level = lock_order::enter(Level::Rows, "a row lock");
        if self.is_closed() {
            return None;
        }
        match self.attempt(hash.0) {
            Attempt::Got(held, tick) => Some(self.one(held, tick, level)),
            _ => None,
        }
    }

    /// Locks all rows, or none. Sorts the list and removes what comes twice, then waits for one row after the other, so that any number of
    /// calls in any order get through. An empty list gives an empty token.
    pub fn lock_all<'t>(
        &'t self,
        hashes: &mut Vec<RowHash>,
        timeout: &mut Timeout,
        scratch: LockScratch,
    ) -> Result<RowLocks<'t>, NotLocked> {
        if !self.has(Flaw::CallersOrder) {
            hashes.sort_unstable();
        }
        hashes.dedup();
        let mut locks = self.none(scratch, hashes.len())?;
        for hash in hashes.iter() {
            match self.acquire(hash.0, timeout) {
                Ok((held, tick)) => locks.add(held, tick),
                Err(why) => return Err(NotLocked { why, row: Some(*hash), scratch: locks.into_scratch() }),
            }
        }
        Ok(locks)
    }

    /// Locks as many rows from the front of the list as can be had without waiting for one while holding another: waits for the first only,
    /// and stops before the first that is not free then. Fails if there is no first. [`RowLocks::len`] says how many it took.
    ///
    /// Rows are taken in the caller's order, which cannot deadlock as nothing is waited for with a lock held. A row that comes back (or shares
    /// its hash with one before) is not free, so the run ends there.
    pub fn lock_prefix<'t>(
        &'t self,
        mut hashes: impl ExactSizeIterator<Item = RowHash>,
        timeout: &mut Timeout,
        scratch: LockScratch,
    ) -> Result<RowLocks<'t>, NotLocked> {
        let mut locks = self.none(scratch, hashes.len())?;
        let Some(first) = hashes.next() else { return Ok(locks) };
        match self.acquire(first.0, timeout) {
            Ok((held, tick)) => locks.add(held, tick),
            Err(why) => return Err(NotLocked { why, row: Some(first), scratch: locks.into_scratch() }),
        }
        for hash in hashes {
            match self.attempt(hash.0) {
                Attempt::Got(held, tick) => locks.add(held, tick),
                _ => break,
            }
        }
        Ok(locks)
    }

    #[inline]
    fn one<'t>(&'t self, held: Held, tick: u64, level: LevelGuard) -> RowLocks<'t> {
        let fsync_pending = self.pending(held);
        RowLocks { table: self, one: Some(held), many: Vec::new(), last_tick: tick, fsync_pending, tick: 0, raise: 0, _level: level }
    }

    fn none<'t>(&'t self, scratch: LockScratch, len: usize) -> Result<RowLocks<'t>, NotLocked> {
        let level = lock_order::enter(Level::Rows, "row locks");
        if self.is_closed() {
            return Err(NotLocked { why: LockError::Closed, row: None, scratch });
        }
        let mut many = scratch.held;
        many.clear();
        many.reserve(len);
        Ok(RowLocks { table: self, one: None, many, last_tick: 0, fsync_pending: 0, tick: 0, raise: 0, _level: level })
    }
}

impl RowLocks<'_> {
    /// Rows held: different hashes, so it may be less than the rows asked for.
    pub fn len(&self) -> usize {
        self.many.len() + usize::from(self.one.is_some())
    }

    /// True if it holds no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// No row of the token has committed after this tick.
    #[inline]
    pub fn last_tick(&self) -> Tick {
        Tick(self.last_tick)
    }

    /// Every commit of a row of the token that waits for a sync has at most this number (0: none ever did). May belong to another row of the
    /// same bucket.
    #[inline]
    pub fn fsync_pending(&self) -> u64 {
        self.fsync_pending
    }

    /// The rows committed at this tick.
    #[inline]
    pub fn set_tick(&mut self, tick: Tick) {
        debug_assert!(tick.0 > self.last_tick, "a row commits at most once per tick, in ascending ticks");
        self.tick = tick.0;
    }

    /// Commit `number` of these rows waits for a sync.
    #[inline]
    pub fn raise_fsync_pending(&mut self, number: u64) {
        self.raise = self.raise.max(number);
    }

    /// Unlocks, and gives the list back for the next call.
    pub fn into_scratch(mut self) -> LockScratch {
        self.release();
        LockScratch { held: std::mem::take(&mut self.many) }
    }

    #[inline]
    fn add(&mut self, held: Held, tick: u64) {
        self.fsync_pending = self.fsync_pending.max(self.table.pending(held));
        self.last_tick = self.last_tick.max(tick);
        self.many.push(held);
    }

    #[inline]
    fn release(&mut self) {
        if let Some(held) = self.one.take() {
            self.table.release(held, self.tick, self.raise);
        }
        if !self.many.is_empty() {
            self.release_many();
        }
    }

    // By itself, so that the end of one row's token is short enough to stand where it ends.
    #[inline(never)]
    fn release_many(&mut self) {
        for held in &self.many {
            self.table.release(*held, self.tick, self.raise);
        }
        self.many.clear();
    }
}

impl Drop for RowLocks<'_> {
    #[inline]
    fn drop(&mut self) {
        self.release();
    }
}
