//! The two waits over the commit slots: for commits that have begun, and for a grace period.
//!
//! Both take one look at all slots and then wait only for what they saw: later claims of the same slots have another count. Spin a microsecond,
//! then sleep 50 µs a round (yielding was 10 to 200 times worse beside busy writers); health and the timeout are looked at in each round.
//! Nothing seen: no clock is read and nothing is waited for.
//!
//! Must not: be called under a slot of one's own or under the registry lock; it would wait for itself.

use super::slots::{COMMITTING, CommitSlots, IDLE, Slot, phase, same_claim};
use crate::clock::{self, Timeout};
use crate::error::Result;
use crate::sync::spin_loop;
use smallvec::SmallVec;
use std::time::Duration;

/// What was seen busy: the slot and its word then. Inline for as many as run at once on a large machine.
type Seen<'t> = SmallVec<[(&'t Slot, u64); 64]>;

impl CommitSlots {
    /// Every commit that is between its append and its mark now has marked its rows. With the read point taken under the append lock before,
    /// this makes everything up to it visible. Error: timeout, or the region is poisoned meanwhile (its rows are then read at their cut).
    pub fn wait_for_begun_commits(&self, timeout: &mut Timeout) -> Result<()> {
        #[cfg(loom)]
        if super::flaw::is(super::flaw::Flaw::NoWait) {
            return Ok(());
        }
        // Acquire suffices: the append lock orders the phase 1 of every commit with a number before the read point before this look.
        let seen = self.slots().map(|(_, s)| (s, s.load_acquire())).filter(|(_, w)| phase(*w) == COMMITTING).collect();
        self.wait_for(seen, |w| phase(w) == COMMITTING, timeout, "commits that began before the snapshot are still running")
    }

    /// Every slot that is busy now has been free once. Nobody then holds what was unpublished before the call.
    pub fn wait_for_grace(&self, timeout: &mut Timeout) -> Result<()> {
        #[cfg(loom)]
        super::full_fence();
        // SeqCst: pairs with the claim, see `CommitSlots::try_claim`.
        let seen = self.slots().map(|(_, s)| (s, s.load_seq_cst())).filter(|(_, w)| phase(*w) != IDLE).collect();
        self.wait_for(seen, |w| phase(w) != IDLE, timeout, "calls that began earlier are still running")
    }

    /// Until each of `seen` was claimed again or has left the phases of `waits_for`.
    fn wait_for(&self, mut seen: Seen<'_>, waits_for: impl Fn(u64) -> bool, timeout: &mut Timeout, what: &str) -> Result<()> {
        let mut spin_until = None;
        loop {
            seen.retain(|(slot, then)| {
                let now = slot.load_acquire();
                same_claim(now, *then) && waits_for(now)
            });
            if seen.is_empty() {
                return Ok(());
            }
            self.health.check()?;
            if timeout.is_over() {
                return crate::fail!(Timeout, "{what} after {} µs ({} of them)", timeout.micros(), seen.len());
            }
            let now = clock::monotonic_nanos();
            if now < *spin_until.get_or_insert(now + SPIN_NANOS) || cfg!(loom) {
                spin_loop();
            } else {
                clock::sleep(timeout.left(Duration::from_micros(SLEEP_MICROS)));
            }
        }
    }
}

const SPIN_NANOS: u64 = 1_000;
const SLEEP_MICROS: u64 = 50;
