//! When the sync group starts its next sync: at once, or once those whom the last sync has acknowledged are back.
//!
//! Callers that commit again as soon as they are acknowledged split into two halves that take turns if each sync starts at once, and a sync carries half of what it
//! could. Gathering all of them pays where a sync takes longer than a round of all callers, that is, where they are back within the time of a sync: so that is the
//! longest wait. Where they are not (the device is fast, or they do something else between two commits), the wait was for nothing, and the next ones are
//! skipped: for 2, 4, up to 64 syncs. So a caller is acknowledged at most a sync later than it could be, and rarely in vain.
//!
//! Callers are counted as they arrive, from the start of the log's life; who leaves early stays counted, which only ends a gathering sooner.
//! Guarded by the I/O lock. Nothing here decides who leads or who is woken; that is `sync.rs`.

use std::time::{Duration, Instant};

#[cfg_attr(loom, expect(dead_code, reason = "models say themselves when to gather"))]
/// Longest wait for the others: a device may stall for a second, and nobody should gather for that long.
const GATHER_MAX: Duration = Duration::from_millis(2);
/// A miss doubles what is skipped; so often.
const MISSES_MAX: u32 = 6;

/// What a sync waits for before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Goal {
    /// It starts with this arrival.
    pub(super) arrival: u64,
    /// With this one in time it was worth it.
    pub(super) worth: u64,
    /// It starts without them then.
    pub(super) until: Instant,
}

/// The group's memory of who came and how gathering went.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Arrivals before the group that is synced now, or that comes next.
    before: u64,
    /// Arrivals when the sync began: they are in its group.
    began: u64,
    misses: u32,
    skip: u32,
    /// A model's goal, always.
    #[cfg(loom)]
    pub(super) fixed: Option<(u64, bool)>,
}

impl Pace {
    /// A sync begins, after `arrived` arrivals. `goal`: what was gathered for.
    pub(super) fn begin(&mut self, arrived: u64, goal: Option<Goal>) {
        self.began = arrived;
        match goal {
            Some(goal) if arrived >= goal.worth => self.misses = 0,
            Some(_) => {
                self.misses = (self.misses + 1).min(MISSES_MAX);
                self.skip = 1 << self.misses;
            }
            None => {}
        }
    }

    /// The sync that began took `took`, until `now`; by now `arrived` have arrived. Returns how many callers there are, and what the next sync gathers for. None: it
    /// starts at once.
    pub(super) fn end(&mut self, arrived: u64, took: Duration, now: Instant) -> (u64, Option<Goal>) {
        let callers = arrived - self.before;
        self.before = self.began;
        #[cfg(loom)]
        let _ = took;
        // Models gather for what they say, or not at all.
        #[cfg(loom)]
        return (callers, self.fixed.map(|(n, time_passes)| Goal { arrival: self.before + n, worth: u64::from(!time_passes), until: now }));
        #[cfg(not(loom))]
        (callers, self.goal(callers, arrived, now + took.min(GATHER_MAX)))
    }

    #[cfg(not(loom))]
    fn goal(&mut self, callers: u64, arrived: u64, until: Instant) -> Option<Goal> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        // Not for the last sixteenth: some may have lost their core.
        let arrival = self.before + callers - callers / 16;
        let worth = self.before + callers - callers / 4;
        (callers > 1 && arrived < arrival).then_some(Goal { arrival, worth, until })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_micros(300);

    /// One sync: `came` arrive before it begins, `meanwhile` while it runs.
    fn sync(pace: &mut Pace, arrived: &mut u64, goal: Option<Goal>, came: u64, meanwhile: u64) -> (u64, Option<Goal>) {
        *arrived += came;
        pace.begin(*arrived, goal);
        *arrived += meanwhile;
        pace.end(*arrived, SYNC, Instant::now())
    }

    #[test]
    fn two_halves_become_one_group() {
        let (mut pace, mut arrived) = (Pace::default(), 0);
        // One leads, and 99 come meanwhile: enough for the next sync to start at once.
        assert_eq!(sync(&mut pace, &mut arrived, None, 1, 99), (100, None));
        let (callers, goal) = sync(&mut pace, &mut arrived, None, 0, 1);
        assert_eq!((callers, goal.map(|g| g.arrival - arrived)), (100, Some(93)));
        // From now on all but the last few are in each group.
        let (mut goal, mut first) = (goal, true);
        for _ in 0..10 {
            (_, goal) = sync(&mut pace, &mut arrived, goal, if first { 93 } else { 88 }, 6);
            first = false;
            assert_eq!(goal.map(|g| g.arrival - arrived), Some(88));
        }
    }

    #[test]
    fn a_lone_caller_never_waits() {
        let (mut pace, mut arrived) = (Pace::default(), 0);
        for _ in 0..100 {
            assert_eq!(sync(&mut pace, &mut arrived, None, 1, 0), (1, None));
        }
    }

    #[test]
    fn gathering_in_vain_is_tried_ever_more_rarely_and_again_after_a_success() {
        let (mut pace, mut arrived) = (Pace::default(), 0);
        let mut goal = None;
        let mut tries = Vec::new();
        // Two arrive before each sync and two during it, but never, after the first time, the six that are expected.
        for n in 0..1000 {
            goal = sync(&mut pace, &mut arrived, goal, 2, 2).1;
            if goal.is_some() {
                tries.push(n);
            }
        }
        let gaps: Vec<_> = tries.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(gaps[..8], [1, 3, 5, 9, 17, 33, 65, 65]);
        // They come all.
        while goal.is_none() {
            goal = sync(&mut pace, &mut arrived, goal, 2, 2).1;
        }
        goal = sync(&mut pace, &mut arrived, goal, 4, 0).1;
        assert!(goal.is_some(), "a success ends the skipping");
    }

    #[test]
    fn the_wait_is_a_sync_and_never_a_stall() {
        let now = Instant::now();
        for (took, wait) in [(SYNC, SYNC), (Duration::from_secs(3), GATHER_MAX)] {
            let mut pace = Pace::default();
            pace.begin(8, None);
            assert_eq!(pace.end(9, took, now).1.expect("8 are expected").until, now + wait);
        }
    }
}
