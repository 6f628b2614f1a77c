//! What to do with the older slot's version before an increment overwrites it: nothing, copy it over a dead cell, or push a copy.
//!
//! Decided before the increment has its number, under the row lock, and valid until the lock is released. That is safe because the older
//! slot never holds the newest version: whatever read point comes up between the decision and the number is not below the newest version, so
//! it needs neither the older one nor a cell that is dead now.
//!
//! Let C be the row's cut as its lock's owner sees it. Reads of this row by nobody's permission (gets) happen at a cut >= C from now on; one
//! that was begun at an older cut and misses something that was overwritten also sees what the decision was made from (`applied`, `stable`, D,
//! by the release that invalidates the cell), so its second cut is at least C and it starts again.
//!
//! *Dead* is a copy in the list that C does not need and no registered point needs, judged by the points as they are shown (`mvcc/shown.rs`: without
//! a lock); a registered restarted read may need everything. A point that is not shown yet has a number that is not below the newest version's:
//! it is shown before the append lock is released under which its number was read, and the newest version got its own under that lock.
//! The bounds (points below C, then C) split the numbers into intervals:
//! - families with one version: an increment is not needed where a later one of its interval has a larger timestamp. With one version kept that
//!   one takes the place of it, and of whatever it had taken the place of. A later one has a smaller timestamp only where a marker took the
//!   earlier one out; that one stays, for without it the replay would bring back what it had pushed out;
//! - with n versions, or kept deleted cells: a bound needs the best n by (timestamp, number) among the numbers up to it. If any cell of an
//!   interval is dead then the worst of it is, so only that one is looked at. With delete markers about, nothing is judged dead.
//!
//! Where a family kept more versions before ([`Keep::After`]), the first interval begins behind that: nothing older is judged.
//!
//! Intervals are looked at 64 at a time, so no memory is needed however many points there are.

use super::cell::{CopyCell, HAS_MARKER, Head};
use super::flaw::{Flaw, off};
use super::{RowHeader, Slots};
use std::ptr::NonNull;

/// What an increment does with the version it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: nobody needs it.
    InPlace,
    /// Copies it over a cell that nobody needs.
    OverwriteDead(DeadCell),
    /// Copies it into a new cell: take one with `new_copy` before the number is taken.
    Push,
}

/// A list cell that a plan found dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadCell {
    cell: NonNull<CopyCell>,
    /// Names the segment it belongs to.
    owner: u64,
}

// SAFETY: the address of atomics; following it is unsafe and checked by the segment.
unsafe impl Send for DeadCell {}
// SAFETY: as above.
unsafe impl Sync for DeadCell {}

impl Plan {
    /// The plan, for a column of the segment named `owner`.
    pub(in crate::memstore) fn of_segment(self, owner: u64) -> Self {
        match self {
            Self::OverwriteDead(dead) => Self::OverwriteDead(DeadCell { owner, ..dead }),
            other => other,
        }
    }
    /// False for a plan that would write to another segment.
    pub(in crate::memstore) fn is_of_segment(self, owner: u64) -> bool {
        !matches!(self, Self::OverwriteDead(dead) if dead.owner != owner)
    }
}

impl DeadCell {
    pub(super) fn cell(self) -> NonNull<CopyCell> {
        self.cell
    }
}

/// How many versions a column's family keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// One: the only case in which a slot is reused in place, but for what [`Keep::After`] keeps.
    Newest,
    /// So many. Above [`TRIMMED_VERSIONS_MAX`] the list is left to the flush.
    Versions(u32),
    /// So many of what has a number above the first: what is older was written when the family kept more, and stays. Scans that began then still show it, and where
    /// a marker was written then, it may be that it shows something older than the newest.
    After(u64, u32),
}

impl Keep {
    /// What a family with this many versions keeps.
    pub const fn of(max_versions: u32) -> Self {
        if max_versions == 1 { Self::Newest } else { Self::Versions(max_versions) }
    }
    /// The same, where the family kept more versions up to commit `since`; 0: never.
    pub const fn of_since(max_versions: u32, since: u64) -> Self {
        if since == 0 { Self::of(max_versions) } else { Self::After(since, max_versions) }
    }
    /// Versions kept.
    pub const fn versions(self) -> u32 {
        match self {
            Self::Newest => 1,
            Self::Versions(n) | Self::After(_, n) => n,
        }
    }
    /// How what may go is judged. [`Keep::Versions`] of one, which no family has, is judged as of several.
    const fn judged(self) -> Self {
        match self {
            Self::After(_, n) => Self::of(n),
            other => other,
        }
    }
    /// What has at most this number stays.
    const fn since(self) -> u64 {
        match self {
            Self::Newest | Self::Versions(_) => 0,
            Self::After(since, _) => since,
        }
    }
}

/// What is called with the sorted read points and "a restarted read is registered", as they were at one instant.
pub type PointsUser<'a> = &'a mut dyn FnMut(&[u64], bool);

/// Families that keep more versions are not trimmed in memory: looking for a dead cell would walk all of them on each increment.
pub const TRIMMED_VERSIONS_MAX: u32 = 1024;

pub(super) fn plan(
    slots: &Slots,
    head: Head<'_>,
    header: &RowHeader,
    keep: Keep,
    latest_point: u64,
    durable: u64,
    points: impl FnOnce(PointsUser<'_>),
) -> Plan {
    let (newest, victim) = slots.turn();
    let old = victim.read_owned();
    if old.seq == 0 {
        return Plan::InPlace;
    }
    let complete = header.cut_owned(durable);
    let needed_by_point = old.seq <= latest_point && !off(Flaw::ReuseUnderPoint);
    let newest_waits = newest.seq > complete && !off(Flaw::ReuseUnderWaiting);
    let outranked = old.ts < newest.ts || off(Flaw::OverwriteNewest);
    let one = keep == Keep::Newest || keep.versions() == 1 && old.seq > keep.since() && matches!(keep, Keep::After(..));
    if one && !needed_by_point && !newest_waits && outranked {
        return Plan::InPlace;
    }
    if !may_trim(head, header, keep) {
        return Plan::Push;
    }
    let mut plan = Plan::Push;
    points(&mut |points, restarted| {
        if restarted && !off(Flaw::DeadUnderRestarted) {
            return;
        }
        let points = if off(Flaw::DeadUnderPoint) { &[] } else { points };
        let slots = [(old.ts, old.seq), (newest.ts, newest.seq)];
        if let Some(cell) = find_dead(head, slots, keep, complete, points) {
            plan = Plan::OverwriteDead(DeadCell { cell, owner: 0 });
        }
    });
    plan
}

fn may_trim(head: Head<'_>, header: &RowHeader, keep: Keep) -> bool {
    match keep.judged() {
        _ if head.is_empty() => false,
        Keep::Newest => true,
        Keep::Versions(n) | Keep::After(_, n) => n <= TRIMMED_VERSIONS_MAX && !head.has(HAS_MARKER) && !header.has_markers(),
    }
}

/// (timestamp, number) of a version.
type Key = (u64, u64);

/// A copy in `head` that neither C = `complete` nor a point needs.
fn find_dead(head: Head<'_>, slots: [Key; 2], keep: Keep, complete: u64, points: &[u64]) -> Option<NonNull<CopyCell>> {
    let mut low = keep.since();
    let points = &points[points.partition_point(|&p| p <= low)..];
    let below = &points[..points.partition_point(|&p| p < complete)];
    for first in (0..=below.len()).step_by(INTERVALS) {
        let mut bounds = [complete; INTERVALS];
        let n = (below.len() + 1 - first).min(INTERVALS);
        for (b, p) in bounds.iter_mut().zip(&below[first..]) {
            *b = *p;
        }
        let chunk = Chunk { low, bounds: &bounds[..n] };
        let dead = match keep.judged() {
            Keep::Newest => chunk.dead_of_one(head, slots),
            Keep::Versions(kept) | Keep::After(_, kept) => chunk.dead_of_many(head, slots, kept.max(1)),
        };
        if dead.is_some() {
            return dead;
        }
        low = bounds[n - 1];
    }
    None
}

/// Intervals looked at in one walk of the list.
const INTERVALS: usize = 64;

/// Consecutive intervals (low, bounds[0]], (bounds[0], bounds[1]] …
struct Chunk<'b> {
    low: u64,
    bounds: &'b [u64],
}

impl Chunk<'_> {
    /// The interval that holds number `n`.
    fn interval(&self, n: u64) -> Option<usize> {
        let i = self.bounds.partition_point(|&b| b < n);
        (n > self.low && i < self.bounds.len()).then_some(i)
    }

    /// One version kept: an increment that a later one of its interval outranks.
    fn dead_of_one(&self, head: Head<'_>, slots: [Key; 2]) -> Option<NonNull<CopyCell>> {
        // The last increment seen in each interval, and its cell unless it is in a slot.
        let mut last: [(Key, Option<NonNull<CopyCell>>); INTERVALS] = [((0, 0), None); INTERVALS];
        for key in slots {
            if let Some(i) = self.interval(key.1)
                && key.1 > last[i].0.1
            {
                last[i] = (key, None);
            }
        }
        for (cell, key) in copies(head) {
            let Some(i) = self.interval(key.1) else { continue };
            if off(Flaw::DeadBest) {
                return Some(cell);
            }
            let ((ts, seq), other) = last[i];
            if key.1 < seq {
                if key.0 < ts {
                    return Some(cell);
                }
            } else {
                if let Some(other) = other.filter(|_| ts < key.0) {
                    return Some(other);
                }
                last[i] = (key, Some(cell));
            }
        }
        None
    }

    /// `kept` versions: the worst of an interval, if `kept` better ones have numbers up to the interval's bound.
    fn dead_of_many(&self, head: Head<'_>, slots: [Key; 2], kept: u32) -> Option<NonNull<CopyCell>> {
        let mut worst: [Option<(Key, NonNull<CopyCell>)>; INTERVALS] = [None; INTERVALS];
        // Increments of each interval seen so far: once they are more than `kept`, the worst of them is dead, and a list that grew long under a
        // restarted read is not walked to its end.
        let mut seen = [0u32; INTERVALS];
        for (_, seq) in slots {
            if let Some(i) = self.interval(seq) {
                seen[i] += 1;
            }
        }
        for (cell, key) in copies(head) {
            let Some(i) = self.interval(key.1) else { continue };
            seen[i] += 1;
            let (key, cell) = worst[i].filter(|(w, _)| *w < key).unwrap_or((key, cell));
            worst[i] = Some((key, cell));
            if seen[i] > kept && slots.iter().all(|s| *s > key) {
                return Some(cell);
            }
        }
        let mut better = [0u32; INTERVALS];
        let cells = head.cells().filter(|c| !c.is_marker()).map(|c| c.key_owned());
        for key in slots.into_iter().chain(cells) {
            // Number 0 is an empty slot, not a version.
            let first = if key.1 == 0 { self.bounds.len() } else { self.bounds.partition_point(|&b| b < key.1) };
            for i in first..self.bounds.len() {
                let Some((w, cell)) = worst[i] else { continue };
                better[i] += u32::from(key > w);
                if better[i] >= kept {
                    return Some(cell);
                }
            }
        }
        None
    }
}

/// The copies of a list with their keys; for the row lock's owner.
fn copies(head: Head<'_>) -> impl Iterator<Item = (NonNull<CopyCell>, Key)> {
    head.cells().filter_map(|c| Some((c.as_copy()?, c.key_owned())))
}
