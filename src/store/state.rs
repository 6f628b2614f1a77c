//! The parts of a running region that commits and reads share. State only: what is done with it stands in `commit`, `read` and `region`.

use crate::clock::{Clock, RegionClock};
use crate::health::Health;
use crate::ids::{RowHash, RowHasher};
use crate::merge::visibility::Rules;
use crate::mslab::{ChunkPool, MemoryBudget};
use crate::mvcc::{CommitSlots, Published, ReadPoints};
use crate::nonce::NonceTable;
use crate::rowlock::RowLockTable;
use crate::sequencer::RowCommitSequencer;
use crate::stats::SpreadCount;
use crate::store::family::FamilyInfo;
use crate::store::view::View;
use crate::sync::{Arc, AtomicBool};
use crate::wal::Log;

/// Owned by the region; borrowed by every commit and read.
pub struct State {
    /// Writes are refused once it is poisoned.
    pub health: Arc<Health>,
    /// One lock per row hash, with the row's last tick.
    pub locks: RowLockTable,
    /// Ticks such that no row commits twice in one.
    pub sequencer: RowCommitSequencer<RegionClock>,
    /// What calls with a nonce have done.
    pub nonces: Arc<NonceTable>,
    /// Who is in flight.
    pub slots: CommitSlots,
    /// Open snapshots and scans.
    pub points: ReadPoints,
    /// Versions of counters that were copied for an open read point.
    pub copied: SpreadCount,
    /// Active segment, sealed segments, families.
    pub view: Published<View>,
    /// The log; a read-only region has none.
    pub log: Option<Log>,
    /// The last append was refused for room: until one succeeds, commits ask before they take memory that they would only give back.
    pub log_is_short: AtomicBool,
    /// Durable number of a read-only region, which has no log to ask.
    pub read_only_durable: u64,
    /// Where chunks come from.
    pub pool: Arc<ChunkPool>,
    /// The region's own limit on chunks.
    pub budget: Arc<MemoryBudget>,
    /// Hashes rows: their identity in the lock table, their bucket in the row table.
    pub hasher: RowHasher,
    /// Key of the hash of columns.
    pub hash_key: u64,
    /// What test hooks of this region are told apart by.
    pub hook_context: u64,
    /// Largest encoded commit.
    pub record_bytes_max: usize,
}

impl State {
    /// Hash of a row: its identity in the lock table, its bucket in the row table.
    #[inline]
    pub fn hash(&self, row: &[u8]) -> RowHash {
        self.hasher.hash(row)
    }
    /// What a reader of this family has to apply now.
    #[inline]
    pub fn rules<'f>(&self, family: &'f FamilyInfo) -> Rules<'f> {
        let clock = self.sequencer.clock();
        family.rules(clock.unit(), || clock.now())
    }
    /// The durable number D: every commit up to it is on stable storage.
    #[inline]
    pub fn durable(&self) -> u64 {
        match &self.log {
            Some(log) => log.durable(),
            None => self.read_only_durable,
        }
    }
    /// Calls `f` with the last number given, which is the last one until `f` returns: under the append lock, so `f` does next to nothing.
    pub fn with_number_now<R>(&self, f: impl FnOnce(u64) -> R) -> R {
        match &self.log {
            Some(log) => log.with_number_now(|n| f(n.0)),
            None => f(self.read_only_durable),
        }
    }
    /// The last number given, without a lock: for statistics.
    pub fn last_number(&self) -> u64 {
        self.log.as_ref().map_or(self.read_only_durable, Log::last_number)
    }
    /// The last number given.
    pub fn number_now(&self) -> u64 {
        match &self.log {
            Some(log) => log.number_now().0.0,
            None => self.read_only_durable,
        }
    }
}
