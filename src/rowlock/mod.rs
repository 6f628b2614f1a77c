//! Row locks: who may commit to a row, the row's last tick, and which commit of its bucket still waits for a sync.
//!
//! A fixed table of buckets, one cache line each, that lives as long as its region: a flush never gives a row a second lock. A row is its
//! keyed 64-bit hash; two rows of one hash share a lock, which is slower for them and never wrong. Locks are exclusive and not reentrant: a
//! thread that asks again for a row it holds waits for itself until its timeout (debug builds panic in [`crate::lock_order`]).
//!
//! *Must not*: look at row bytes, take ticks, wait for anything but a row.
//!
//! *Order.* [`RowLockTable::lock_all`] takes rows by ascending hash, each once; [`RowLockTable::lock_prefix`] waits only while it holds
//! none. So no circle of waiting threads can close. A thread holds at most one [`RowLocks`] at a time.
//!
//! *Invariants.*
//! - **L1** At most one holder per hash.
//! - **L2** What a holder leaves (tick, `fsync_pending`) is seen by the next holder of the row.
//! - **L3** A row's last tick is never forgotten: an entry that leaves the table folds it into the floor of its bucket, where a row starts
//!   that comes (back) into the table. `floor` and `fsync_pending` never fall.
//! - **L4** An entry that is held, waited for or owed to a woken waiter stays where it is.
//! - **L5** While somebody sleeps on a free row, one woken waiter is on its way to it: no wake-up is lost.
//! - **L6** A waiter is asleep but for about the first microsecond, and gone at its deadline.
//!
//! Parts: `bucket` the words; `table` claim and release, which never wait; `wait` sleeping, waking, closing; `overflow` entries beyond the
//! two of a bucket; `parking` the sleep itself; `locks` the token that a commit takes as its argument; `flaw` what models
//! switch off.

mod bucket;
mod flaw;
mod locks;
mod overflow;
mod table;
mod wait;

#[cfg(loom)]
#[path = "parking_loom.rs"]
mod parking;
#[cfg(not(loom))]
#[expect(unsafe_code, reason = "parking_lot_core's queues are keyed by addresses that the caller must own")]
mod parking;

pub use locks::{LockError, LockScratch, NotLocked, RowLocks};
pub use table::{RowLockStats, RowLockTable};

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
