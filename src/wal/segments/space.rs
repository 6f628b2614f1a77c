//! How a writer waits until its record goes into the log: what it needs is noted for the keeper, whose next preparation decides. A full disk and a log at its
//! limit with nothing to free some answer at once; a closing region wakes everybody.

use super::{Keeper, wait};
use crate::clock::Timeout;
use crate::error::{Error, ErrorKind, Result};
use crate::health::Health;
use crate::lock_order::{self, Level as LockLevel};
use crate::wal::append::Appender;
use crate::wal::format::RecordKind;
use crate::wal::prepare::Workshop;
use std::time::Duration;

/// How long a waiter sleeps before it looks whether the region closes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Keeper {
    /// Waits until a record of `needed` bytes goes in.
    #[allow(clippy::too_many_arguments)]
    pub(in crate::wal) fn wait_for_space(
        &self,
        shop: &Workshop,
        appender: &Appender,
        health: &Health,
        needed: u32,
        timeout: &mut Timeout,
        closing: &dyn Fn() -> bool,
        may_retire: bool,
    ) -> Result<()> {
        let result = self.wait_for_room(shop, appender, health, needed, timeout, closing, may_retire);
        // Others that wait say theirs again.
        self.files().needed = 0;
        result
    }

    #[allow(clippy::too_many_arguments)]
    fn wait_for_room(
        &self,
        shop: &Workshop,
        appender: &Appender,
        health: &Health,
        needed: u32,
        timeout: &mut Timeout,
        closing: &dyn Fn() -> bool,
        may_retire: bool,
    ) -> Result<()> {
        lock_order::assert_free_from(LockLevel::Rows, "wait_for_log_space");
        let mut seen = None;
        let mut looked = None;
        loop {
            // Known before the room is looked at. Two looks of the keeper: the first may have begun before this call said what it needs.
            let hopeless = {
                let files = self.files();
                let looked = *looked.get_or_insert(files.looks);
                !may_retire && files.at_limit && files.looks >= looked + 2
            };
            if closing() {
                return Err(Error::new(ErrorKind::Closed, "the region is closing; nothing was done").retryable(true));
            }
            health.check()?;
            if appender.has_room(needed, RecordKind::Commit) {
                return Ok(());
            }
            let mut files = self.files();
            files.needed = files.needed.max(needed);
            files.called = true;
            self.work.notify_one();
            let seen = *seen.get_or_insert(files.attempts);
            // An attempt that ended after this call began has the last word: so a full disk answers at once, and no longer than it is full.
            let failed = files.error.as_ref().filter(|_| files.attempts != seen || timeout.is_no_wait());
            if let Some(e) = failed {
                return Err(e.again());
            }
            if hopeless || timeout.is_over() {
                let why =
                    if files.at_limit { "is at its limit wal_bytes_max" } else { "has no segment prepared yet; its limit wal_bytes_max" };
                let then = if hopeless { ", and nothing that could free some is running" } else { "" };
                let (used, limit) = (files.bytes(), shop.options.bytes_max);
                return crate::fail!(Busy, "the log {why} ({used} of {limit} bytes){then}; nothing was done");
            }
            let nap = timeout.left(LOOK_AGAIN);
            drop(wait(&self.space, files, Some(nap)));
        }
    }

    /// Wakes those who wait for space, since the region closes.
    pub(in crate::wal) fn wake_waiters(&self) {
        // Under the lock: a waiter that is about to sleep has looked at `closing` before.
        let _files = self.files();
        self.space.notify_all();
    }
}
