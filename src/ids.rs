//! Newtypes for the numbers that the rooms pass to each other. No counters live here.
//!
//! Atomics hold the raw `u64`; everything else passes the newtype, so that a tick is never taken for a sequence number.

use foldhash::quality::FixedState;
use std::hash::{BuildHasher, Hasher};

/// Position of a commit in commit order; also in the log. 0 is "no commit".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(pub u64);

/// One unit of the region's clock since the Unix epoch. 0 is "none yet". Cell timestamps are in the same unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

/// The number N of a snapshot or scan: it sees exactly the commits with a number of at most N.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadPoint(pub u64);

/// Id of a column family: 1 and up, kept in the manifest, never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyId(pub u32);

/// Which memstore segment a commit went to; grows by one per seal, also across reopen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

/// Keyed 64-bit hash of a row's bytes: the identity of a row in the lock table (never in the memstore, which compares bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowHash(pub u64);

/// Makes [`RowHash`]es under one key. The key is new each time a region opens, so nobody can prepare rows that collide.
#[derive(Clone, Debug)]
pub struct RowHasher(FixedState);

impl RowHasher {
    /// Under this key.
    pub fn new(key: u64) -> Self {
        Self(FixedState::with_seed(key))
    }
    /// The hash of a row.
    #[inline]
    pub fn hash(&self, row: &[u8]) -> RowHash {
        let mut hasher = self.0.build_hasher();
        hasher.write(row);
        RowHash(hasher.finish())
    }
}

/// A place in the log: segment number in the upper, byte offset in the lower half, so that positions compare as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition(pub u64);

impl LogPosition {
    /// The position at `offset` bytes into segment `segment`.
    pub const fn new(segment: u32, offset: u32) -> Self {
        Self(((segment as u64) << 32) | offset as u64)
    }
    /// Number of the log segment.
    pub const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// Byte offset within the segment.
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }
}

/// Largest timestamp a caller may give: one more must never overflow.
pub const TIMESTAMP_MAX: u64 = 1 << 62;
/// Longest row key in bytes, as in HBase.
pub const ROW_BYTES_MAX: usize = 32_767;
