//! Opening a snapshot: one instant of the whole region, every write that returned before it included, atomic batches whole.

use crate::clock::Timeout;
use crate::error::Result;
use crate::hooks::{self, Point};
use crate::ids::ReadPoint;
use crate::store::state::State;

/// A registered read point.
#[derive(Clone, Copy, Debug)]
pub struct OpenPoint {
    /// It sees the commits with a number of at most this one.
    pub point: ReadPoint,
    /// The region was poisoned: rows are read at their own cut, since what waited for the failed sync stays invisible and nothing changes any more.
    pub at_cut: bool,
}

/// Registers a read point, waits for the commits that had begun, and for the sync of FSYNC commits at or below it. A failure registers nothing.
pub fn open(state: &State, timeout: &mut Timeout) -> Result<OpenPoint> {
    let point = state.points.open(state.copied.sum(), |announce| {
        hooks::reach(Point::PointOpening, state.hook_context);
        state.with_number_now(announce)
    });
    match settle(state, point, timeout) {
        Ok(at_cut) => Ok(OpenPoint { point, at_cut }),
        Err(e) => {
            state.points.close(point);
            Err(e)
        }
    }
}

fn settle(state: &State, point: ReadPoint, timeout: &mut Timeout) -> Result<bool> {
    if let Err(e) = state.slots.wait_for_begun_commits(timeout) {
        // Poisoned while a commit was in flight: reads go on, at each row's own cut.
        return if state.health.is_good() { Err(e) } else { Ok(true) };
    }
    let Some(log) = &state.log else { return Ok(false) };
    let last_fsync = log.last_fsync().min(point.0);
    if last_fsync > log.durable() {
        match log.wait_for_durable(last_fsync, timeout) {
            Ok(()) => {}
            Err(crate::wal::NotDurable::Poisoned) => return Ok(true),
            Err(crate::wal::NotDurable::Timeout) => {
                return crate::fail!(
                    Timeout,
                    "the snapshot waited {} µs for the sync of commit {last_fsync}; nothing was opened",
                    timeout.micros()
                );
            }
        }
    }
    Ok(!state.health.is_good())
}
