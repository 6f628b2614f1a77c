//! What is said in the log without being asked: a snapshot that nobody closes, a commit that does not end.
//!
//! Each is said once. The log's background thread looks about every second; a region that is open read-only keeps nothing for its snapshots and has no such thread.

use crate::clock::monotonic_nanos;
use crate::mvcc::{Busy, PointsView};
use crate::options::Settings;
use crate::sync::Arc;
use std::path::Path;

/// A commit between its append and its mark needs microseconds. After so long its thread hangs, or does not get to run.
const COMMIT_WARN_NANOS: u64 = 10_000_000_000;

/// What the background thread calls now and then.
pub(super) fn look(path: &Path, settings: &Settings, points: PointsView, busy: Arc<Busy>) -> impl FnMut() + Send + 'static {
    let (path, warn) = (path.to_path_buf(), settings.snapshot_warn_ms);
    // Whoever was opened no later than the last one named has been named.
    let (mut named, mut commit_named) = (0, false);
    move || {
        let now = monotonic_nanos();
        busy.look(now);
        let age = busy.ages(now).commit;
        if age >= COMMIT_WARN_NANOS && !commit_named {
            log::warn!(
                target: "region",
                "{}: a commit that is in the log has not been marked in memory for {} s; its row stays locked, and snapshots and scanners that open wait for it",
                path.display(),
                age / 1_000_000_000
            );
        }
        commit_named = age >= COMMIT_WARN_NANOS;
        let Some(oldest) = points.oldest().filter(|o| warn > 0 && o.opened.ns > named) else { return };
        let age_ms = now.saturating_sub(oldest.opened.ns) / 1_000_000;
        if age_ms >= warn {
            named = oldest.opened.ns;
            log::warn!(
                target: "region",
                "{}: a snapshot or scanner of read point {} has been open for {} s (snapshot_warn_ms = {warn}); memory is kept for what it sees until it is closed. {} read points are open",
                path.display(),
                oldest.point.0,
                age_ms / 1_000,
                oldest.points
            );
        }
    }
}
