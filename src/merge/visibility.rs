//! What a column holds: its cells replayed in the order of their numbers.
//!
//! A put enters a list sorted by (timestamp, number); what falls beyond the family's number of versions leaves for good; a marker takes out,
//! for good, what is in its scope and has a smaller number. So no answer depends on when a flush or a compaction ran, and a delete never hides
//! a put made after it, whatever their timestamps. Inside one commit (one number) the marker comes first: a call that puts and then deletes
//! writes only the marker, so a value beside a marker of its own number was meant to stay.
//!
//! A marker that takes out all that is left there is *final*: the replay may begin with it.
//!
//! A family that keeps deleted cells shows them to readers whose range of timestamps ends at or before the marker's: for them the marker was never written.
//! Expiry comes last, over the versions that are left, so `min_versions` counts those.
//!
//! *Settings that were changed.* A cell is replayed by the settings that its family had when its commit got its number ([`Regime`]), and where they were changed the
//! column is cut to what it showed just then: what fell out, expired or was deleted under the old ones is gone, and stricter ones count at once. So no answer depends
//! on what is still in memory, or on which settings a log was read back with.

use crate::cell::CellType;
use std::ops::Range;

/// One cell of a column, as the replay needs it. `V` is whatever stands for the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<V> {
    /// Commit number.
    pub seq: u64,
    /// Timestamp.
    pub ts: u64,
    /// Value or which marker.
    pub kind: CellType,
    /// The value; meaningless for markers.
    pub value: V,
}

/// Whether deleted cells can still be read by asking for a time before their marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum KeepDeleted {
    /// They cannot.
    #[default]
    No,
    /// They can, as long as they are among the versions kept.
    Yes,
    /// They can, until their marker has expired.
    UntilExpired,
}

/// Settings that a family had, up to a change of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regime {
    /// The last commit number before the change.
    pub through: u64,
    /// As in [`Rules`].
    pub max_versions: u32,
    /// As in [`Rules`].
    pub min_versions: u32,
    /// As in [`Rules`].
    pub keep_deleted: KeepDeleted,
    /// What had a smaller timestamp had expired when they were changed.
    pub oldest: u64,
}

impl Regime {
    /// What a column loses at the change, best versions first in `live`.
    fn end<V>(&self, live: &mut Vec<Version<V>>, next_max_versions: u32) {
        let stays = live.partition_point(|v| v.ts >= self.oldest).max(self.min_versions as usize);
        live.truncate(stays.min(next_max_versions as usize));
    }
}

/// What a family keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules<'f> {
    /// Versions of a column, at least 1.
    pub max_versions: u32,
    /// Versions that do not expire.
    pub min_versions: u32,
    /// Deleted cells.
    pub keep_deleted: KeepDeleted,
    /// Least timestamp that has not expired; 0: nothing expires.
    pub oldest: u64,
    /// A best version from here on is shown, whatever the settings were: no regime's `oldest`, nor this one's, is larger.
    pub shown_from: u64,
    /// The settings before, oldest first.
    pub past: &'f [Regime],
}

impl Rules<'_> {
    /// One version, for ever.
    pub const PLAIN: Self = Self::versions(1);

    /// So many versions, for ever.
    pub const fn versions(max_versions: u32) -> Self {
        Self { max_versions, min_versions: 0, keep_deleted: KeepDeleted::No, oldest: 0, shown_from: 0, past: &[] }
    }
    /// True if a column's best version with timestamp `ts` is shown to a reader of all times. None: only the replay can tell.
    #[inline]
    pub const fn shows_best(&self, ts: u64) -> Option<bool> {
        if ts >= self.shown_from {
            return Some(true);
        }
        if self.past.is_empty() { Some(self.min_versions > 0) } else { None }
    }
    /// The same for one that is about to be written.
    pub const fn shows_new(&self, ts: u64) -> bool {
        ts >= self.oldest || self.min_versions > 0
    }
    /// Whether a marker counts for a reader of `range`, whatever the settings were when it was written.
    #[inline]
    pub fn surely_counts(&self, marker: u64, range: &Range<u64>) -> bool {
        self.counts(&[], marker, range)
    }
    /// Whether a marker counts for a reader of `range`, that was written under the first of `past`: once it has counted for all, it does for good.
    fn counts(&self, past: &[Regime], marker: u64, range: &Range<u64>) -> bool {
        let ever = |keep_deleted, oldest| match keep_deleted {
            KeepDeleted::No => true,
            KeepDeleted::Yes => range.contains(&marker),
            KeepDeleted::UntilExpired => range.contains(&marker) || marker < oldest,
        };
        ever(self.keep_deleted, self.oldest) || past.iter().any(|r| ever(r.keep_deleted, r.oldest))
    }
}

/// All timestamps.
pub const ALWAYS: Range<u64> = 0..u64::MAX;

/// Replays `cells` (any order, of one column, plus the markers of its family) and leaves what a reader of the timestamps in `range` is shown, best first.
pub fn replay<V>(cells: &mut Vec<Version<V>>, rules: &Rules<'_>, range: &Range<u64>) {
    // Markers of a number come before values of the same number.
    cells.sort_by(|a, b| a.seq.cmp(&b.seq).then((b.kind.is_marker()).cmp(&a.kind.is_marker())));
    let mut live: Vec<Version<V>> = Vec::with_capacity((rules.max_versions as usize).min(cells.len()) + 1);
    let mut past = rules.past;
    for cell in cells.drain(..) {
        while let [ended, rest @ ..] = past
            && ended.through < cell.seq
        {
            ended.end(&mut live, max_versions(rest, rules));
            past = rest;
        }
        match cell.kind {
            CellType::Put => {
                // The same coordinates written twice: the later number replaces the earlier.
                live.retain(|v| v.ts != cell.ts);
                let at = live.partition_point(|v| (v.ts, v.seq) > (cell.ts, cell.seq));
                live.insert(at, cell);
                live.truncate(max_versions(past, rules) as usize);
            }
            _ if !rules.counts(past, cell.ts, range) => {}
            CellType::DeleteVersion | CellType::DeleteFamilyVersion => live.retain(|v| v.ts != cell.ts || v.seq >= cell.seq),
            CellType::Delete | CellType::DeleteFamily => live.retain(|v| v.ts > cell.ts || v.seq >= cell.seq),
        }
    }
    while let [ended, rest @ ..] = past {
        ended.end(&mut live, max_versions(rest, rules));
        past = rest;
    }
    // What expires is the tail of the list, since the best have the largest timestamps; only then the reader's own range is looked at.
    let stays = live.partition_point(|v| v.ts >= rules.oldest).max(rules.min_versions as usize);
    live.truncate(stays);
    live.retain(|v| range.contains(&v.ts));
    *cells = live;
}

/// Of the settings that `past` begins with, or of those now.
fn max_versions(past: &[Regime], rules: &Rules<'_>) -> u32 {
    past.first().map_or(rules.max_versions, |r| r.max_versions)
}

#[cfg(test)]
mod tests;
