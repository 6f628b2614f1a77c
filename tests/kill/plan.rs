//! What one round does: drawn by the driver, passed to the child as arguments, printed when something is wrong.

use region::options::{FamilySpec, OpenFlags, RegionOptions, WalIo};
use std::path::PathBuf;

/// Counters that everybody adds to.
pub const COUNTERS: usize = 64;
/// Groups of counters that only atomic batches add to.
pub const GROUPS: usize = 16;
/// Counters of a group.
pub const BATCH: usize = 5;

/// Counters that only calls with a nonce add to; they come behind the groups.
pub const ONCE: usize = 16;
/// The first of them.
pub const FIRST_ONCE: usize = COUNTERS + GROUPS;
/// All counters and groups.
pub const ALL: usize = FIRST_ONCE + ONCE;
/// Increments of one packed call.
pub const PACKED: usize = 8;

/// How a thread counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One by one, FSYNC.
    Single,
    /// Atomic batches.
    Batch,
    /// Packed, SYNC.
    Packed,
    /// One by one, with a nonce.
    SingleOnce,
    /// Packed, with a nonce.
    PackedOnce,
}

impl Way {
    pub fn of(thread: usize) -> Self {
        [Self::Single, Self::Batch, Self::SingleOnce, Self::Packed, Self::Single, Self::Batch, Self::SingleOnce, Self::PackedOnce]
            [thread % 8]
    }
}

/// The nonce of the call whose first entry is a thread's `i`-th in the round with this seed.
pub fn nonce(seed: u64, thread: usize, i: usize) -> u64 {
    (seed << 20 | (thread as u64) << 12 | i as u64) + 1
}

/// Row of a counter that only calls with a nonce add to.
pub fn once_row(counter: usize) -> Vec<u8> {
    format!("o{:03}", counter - FIRST_ONCE).into_bytes()
}

/// Row of a counter.
pub fn counter_row(counter: usize) -> Vec<u8> {
    format!("c{counter:03}").into_bytes()
}
/// Row of a counter of a group.
pub fn batch_row(group: usize, i: usize) -> Vec<u8> {
    // The index first: the rows of a group do not stand together.
    format!("g{i}-{group:03}").into_bytes()
}

/// Where the child stops by itself, to be killed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// Nowhere: the driver kills it when it likes.
    No,
    /// In the middle of its n-th append, the append lock held.
    Append(u64),
    /// Before the n-th call of its open that changes something.
    OpenCall(u64),
}

/// One round.
#[derive(Clone, Debug)]
pub struct Plan {
    pub dir: PathBuf,
    pub shared: PathBuf,
    pub seed: u64,
    pub threads: usize,
    pub wal_io: WalIo,
    pub seal_every: u64,
    pub segment_bytes: u64,
    pub tear: Tear,
}

impl Plan {
    /// For the child.
    pub fn to_args(&self) -> Vec<String> {
        let (tear, nth) = match self.tear {
            Tear::No => ("no", 0),
            Tear::Append(n) => ("append", n),
            Tear::OpenCall(n) => ("open", n),
        };
        let io = if self.wal_io == WalIo::Write { "write" } else { "mapped" };
        let mut args = vec!["child".to_string(), self.dir.display().to_string(), self.shared.display().to_string()];
        args.extend([self.seed, self.threads as u64, self.seal_every, self.segment_bytes, nth].map(|n| n.to_string()));
        args.extend([io.to_string(), tear.to_string()]);
        args
    }
    /// From what [`Plan::to_args`] gave, without its first word.
    pub fn from_args(args: &[String]) -> Self {
        let number = |i: usize| args[i].parse::<u64>().unwrap();
        let nth = number(6);
        let tear = match args[8].as_str() {
            "append" => Tear::Append(nth),
            "open" => Tear::OpenCall(nth),
            _ => Tear::No,
        };
        Self {
            dir: (&args[0]).into(),
            shared: (&args[1]).into(),
            seed: number(2),
            threads: number(3) as usize,
            wal_io: if args[7] == "write" { WalIo::Write } else { WalIo::Mapped },
            seal_every: number(4),
            segment_bytes: number(5),
            tear,
        }
    }
}

/// How the child opens the region.
pub fn options(plan: &Plan) -> RegionOptions {
    RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        wal_io: Some(plan.wal_io),
        sync_interval_ms: 20,
        config: format!("wal_segment_bytes={},seal_every_commits={},nonce_bytes_max=1g", plan.segment_bytes, plan.seal_every),
        ..RegionOptions::default()
    }
}
