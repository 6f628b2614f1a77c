//! Sealing: new commits go to a fresh memstore segment, and no writer stops. A flush will begin with it; until there is one, only a test option asks for it.

use super::{Inner, Leveled};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::Generation;
use crate::lock_order::{self, Level};
use crate::memstore::Segment;
use crate::store::view::View;
use crate::sync::{Arc, Ordering};

impl Inner {
    /// Seals if the option asks for it and enough commits have passed. Called with nothing held.
    #[inline]
    pub(super) fn seal_if_due(&self) {
        if self.settings.seal_every_commits != 0 {
            self.seal_counted();
        }
    }
    #[cold]
    fn seal_counted(&self) {
        // Relaxed: only the count matters, and the lock below orders what follows.
        let n = self.commits_since_seal.fetch_add(1, Ordering::Relaxed) + 1;
        if n < self.settings.seal_every_commits {
            return;
        }
        let level = lock_order::enter(Level::Lifecycle, "the lock of view changes");
        let Some(lock) = self.seal_lock.try_lock() else { return };
        if self.commits_since_seal.load(Ordering::Relaxed) < self.settings.seal_every_commits {
            return;
        }
        self.commits_since_seal.store(0, Ordering::Relaxed);
        if let Err(e) = self.seal_locked(&(lock, level)) {
            log::warn!(target: "region", "seal: {e}");
        }
    }
    /// Seals now.
    #[cfg(any(test, feature = "test-hooks"))]
    pub fn seal(&self) -> Result<()> {
        let _call = self.lifecycle.enter(crate::stats::CallKind::Other, super::thread::index())?;
        self.seal_locked(&self.lock_seal())
    }
    /// The seal lock is held: publish a view with a new active segment, then wait until nobody can hold the old one.
    fn seal_locked(&self, lock: &Leveled<'_, ()>) -> Result<()> {
        let next = {
            let slot = self.state.slots.claim(super::thread::index());
            let view = self.state.view.load(&slot);
            let generation = Generation(view.active.generation().0 + 1);
            let active = Segment::new(generation, &self.state.pool, &self.state.budget, view.active.rows() as usize, self.state.hash_key)
                .map_err(|_| Error::new(ErrorKind::Busy, "the memstore has no memory for another segment"))?;
            let mut sealed = Vec::with_capacity(view.sealed.len() + 1);
            sealed.push(Arc::clone(&view.active));
            sealed.extend(view.sealed.iter().cloned());
            View { active: Arc::new(active), sealed, families: Arc::clone(&view.families) }
        };
        // From here the old segment only still takes the commits of those who hold it; after the grace period it is frozen.
        self.replace_view(next, lock)?;
        self.seals.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
