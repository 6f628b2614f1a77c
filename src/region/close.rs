//! Close is a protocol: refuse new calls, wake who waits, drain, stop the background work, make durable, let go of the directory. And destroy.

use super::{CloseFlags, Inner};
use crate::clock::Timeout;
use crate::env::{Env, LockOutcome};
use crate::error::{Error, ErrorKind, Result, counted};
use crate::fail;
use crate::store::manifest::{MANIFEST, Manifest};
use crate::sync::Ordering;
use std::path::Path;
use std::time::Duration;

/// Name of the lock file in a region's directory.
pub const LOCK: &str = "LOCK";

impl Inner {
    /// See `Region::close`.
    pub fn close(&self, flags: CloseFlags, mut timeout: Timeout) -> Result<()> {
        // A second closer waits for the first.
        let _closer = self.lock_close();
        if self.lifecycle.is_closed() {
            return fail!(Closed, "the region is closed");
        }
        if !flags.force {
            self.refuse_children()?;
        }
        self.lifecycle.begin_close();
        self.state.locks.close();
        self.state.pool.wake_waiters();
        self.state.budget.wake_waiters();
        if let Some(log) = &self.state.log {
            log.wake_waiters();
        }
        let drained = self.wait_for_calls(&mut timeout);
        let blocked = drained.and_then(|()| if flags.force { Ok(()) } else { self.refuse_children() });
        if let Err(e) = blocked {
            self.state.locks.reopen();
            self.lifecycle.abandon_close();
            return Err(e);
        }
        // SKIP_WAL data would be flushed here unless NO_FLUSH; this version has no store files to flush to.
        let unlogged = self.unlogged_bytes.load(Ordering::Relaxed);
        if unlogged > 0 && !flags.no_flush {
            log::warn!(target: "region", "{}: {unlogged} bytes of SKIP_WAL commits are lost, this version cannot flush them", self.path.display());
        }
        let synced = self.close_log();
        self.free_retired();
        self.lifecycle.finish_close();
        drop(self.dir_lock.lock().take());
        match &synced {
            Ok(()) => log::info!(target: "region", "closed {}", self.path.display()),
            Err(e) => log::error!(target: "region", "closed {} with an error: {e}", self.path.display()),
        }
        synced
    }

    /// Ends the log, and notes in the manifest where: a log that later ends before that has lost something.
    fn close_log(&self) -> Result<()> {
        let Some(log) = &self.state.log else { return Ok(()) };
        log.close()?;
        let (last, end) = log.number_now();
        // Tried, not waited for: the manifest comes before the closer's lock. No call runs any more that could hold it.
        let Some(mut manifest) = self.manifest.try_lock() else { return Ok(()) };
        if manifest.synced == end && last == self.number_at_open {
            // Nothing was written: the note that the open has made says as much.
            return Ok(());
        }
        let next = Manifest { synced: end, last_number: last.0, ..manifest.clone() };
        match next.store(&*self.env, &self.path) {
            Ok(()) => *manifest = next,
            // All data is on stable storage. The old manifest names an earlier position, which holds as well.
            Err(e) => log::warn!(target: "region", "{}: the end of the log could not be noted: {e}", self.path.display()),
        }
        Ok(())
    }

    fn refuse_children(&self) -> Result<()> {
        match self.open_children() {
            0 => Ok(()),
            n => fail!(
                Busy,
                "{}: {} open; close them first, or use REGION_CLOSE_FORCE",
                self.path.display(),
                counted(n, "snapshot, scanner or pinned value is", "snapshots, scanners or pinned values are")
            ),
        }
    }

    fn wait_for_calls(&self, timeout: &mut Timeout) -> Result<()> {
        loop {
            let running = self.lifecycle.calls.totals().running;
            if running == 0 {
                return Ok(());
            }
            if timeout.is_over() {
                return fail!(
                    Timeout,
                    "{} still running after {} µs; the region stays open",
                    counted(running, "call was", "calls were"),
                    timeout.micros()
                );
            }
            crate::sync::thread::sleep(timeout.left(Duration::from_micros(200)).max(Duration::from_micros(20)));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.free_retired();
        if !self.lifecycle.is_closed() {
            // Dropped without close: as durable as a close, but nobody is left to tell about an error.
            if let Err(e) = self.close_log() {
                log::error!(target: "region", "{}: closing on drop: {e}", self.path.display());
            }
        }
    }
}

/// Removes a region that nobody has open: its files first, the manifest last among them, then lock file and directory. What is not ours is left alone.
pub fn destroy(env: &dyn Env, path: &Path) -> Result<()> {
    let show = path.display();
    let io = |what: &str, e: std::io::Error| Error::io(format!("{show}: {what}"), &e);
    if !env.is_dir(path).map_err(|e| io("look", e))? || !env.exists(&path.join(MANIFEST)).map_err(|e| io("look", e))? {
        return Err(Error::new(ErrorKind::NoRegion, format!("there is no region at {show}; nothing was removed")));
    }
    let lock = match env.lock(&path.join(LOCK), true, &env.holder_text()).map_err(|e| io("lock", e))? {
        LockOutcome::Held(lock) => lock,
        LockOutcome::Busy { holder } => return fail!(Locked, "{show} is open: {holder}"),
        LockOutcome::NoPermission { os_errno } => {
            return Err(Error::new(ErrorKind::Io, format!("{show}: no permission to lock it")).with_errno(os_errno));
        }
    };
    let names = env.list(path).map_err(|e| io("list", e))?;
    let ours = |n: &&String| crate::wal::is_log_name(n) || n.as_str() == "MANIFEST.new";
    for name in names.iter().filter(ours) {
        env.remove(&path.join(name)).map_err(|e| io(name, e))?;
    }
    env.remove(&path.join(MANIFEST)).map_err(|e| io(MANIFEST, e))?;
    env.remove(&path.join(LOCK)).map_err(|e| io(LOCK, e))?;
    drop(lock);
    env.remove_dir(path).map_err(|e| io("remove the directory (what is left in it does not belong to the region)", e))
}
