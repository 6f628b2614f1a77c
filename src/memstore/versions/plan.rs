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
//!   interval is dead then the worst of it is, so only that one is looked at. With markers about that are not final, nothing is judged dead.
//!
//! *Final markers* (see the module above): a reader whose floor is such a marker's number walks the list down to the first pushed cell below that number.
//! So only copies above the first one below the newest floor of all are judged. With several versions, only what has a number from the floor on is, and
//! only where no other marker has.
//!
//! Where a family kept more versions before ([`Keep::After`]), the first interval begins behind that: nothing older is judged.
//!
//! Intervals are looked at 64 at a time, so no memory is needed however many points there are.

use super::cell::{CopyCell, HAS_MARKER, Head, ListCell};
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

/// The markers of a row's family, or of a column: what of them matters for what is dead.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::memstore) struct Markers {
    /// Number of the newest final one; 0: there is none.
    pub(in crate::memstore) floor: u64,
    /// One that is not final has a larger number.
    pub(in crate::memstore) open: bool,
}

impl Markers {
    /// With those of the column itself.
    fn with_column(mut self, head: Head<'_>) -> Self {
        if head.has(HAS_MARKER) {
            for cell in head.cells_from(self.floor).filter(|c| c.is_marker() && c.seq_pushed() >= self.floor) {
                if cell.is_final() {
                    // The family's that is open may be older than this one: it stays open, so that less is judged.
                    self.floor = cell.seq_pushed();
                    break;
                }
                self.open = true;
            }
        }
        self
    }
}

#[expect(clippy::too_many_arguments, reason = "what a plan depends on")]
pub(super) fn plan(
    slots: &Slots,
    head: Head<'_>,
    header: &RowHeader,
    keep: Keep,
    latest_point: u64,
    durable: u64,
    markers: impl FnOnce() -> Markers,
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
    let slots = [(old.ts, old.seq), (newest.ts, newest.seq)];
    plan_copy(slots, head, keep, complete, markers, points)
}

/// A plan that copies. By itself: what increments do without it stays short.
#[cold]
#[inline(never)]
fn plan_copy(
    slots: [Key; 2],
    head: Head<'_>,
    keep: Keep,
    complete: u64,
    markers: impl FnOnce() -> Markers,
    points: impl FnOnce(PointsUser<'_>),
) -> Plan {
    if head.is_empty() || keep.versions() > TRIMMED_VERSIONS_MAX {
        return Plan::Push;
    }
    let markers = markers().with_column(head);
    if keep.judged() != Keep::Newest && markers.open {
        return Plan::Push;
    }
    let floor = if off(Flaw::DeadBehindFinal) { 0 } else { markers.floor };
    let mut plan = Plan::Push;
    points(&mut |points, restarted| {
        if restarted && !off(Flaw::DeadUnderRestarted) {
            return;
        }
        let points = if off(Flaw::DeadUnderPoint) { &[] } else { points };
        if let Some(cell) = find_dead(List { head, floor }, slots, keep, complete, points) {
            plan = Plan::OverwriteDead(DeadCell { cell, owner: 0 });
        }
    });
    plan
}

/// A list, down to where the readers of the newest floor end.
#[derive(Clone, Copy)]
struct List<'a> {
    head: Head<'a>,
    floor: u64,
}

impl<'a> List<'a> {
    fn cells(self) -> impl Iterator<Item = &'a ListCell> {
        self.head.cells_from(self.floor)
    }
    /// The copies with their keys; for the row lock's owner.
    fn copies(self) -> impl Iterator<Item = (NonNull<CopyCell>, Key)> {
        self.cells().filter_map(|c| Some((c.as_copy()?, c.key_owned())))
    }
}

/// (timestamp, number) of a version.
type Key = (u64, u64);

/// A copy in `list` that neither C = `complete` nor a point needs.
fn find_dead(list: List<'_>, slots: [Key; 2], keep: Keep, complete: u64, points: &[u64]) -> Option<NonNull<CopyCell>> {
    // With several versions, what is older than the floor is left as it is.
    let mut low = if keep.judged() == Keep::Newest { keep.since() } else { keep.since().max(list.floor.saturating_sub(1)) };
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
            Keep::Newest => chunk.dead_of_one(list, slots),
            Keep::Versions(kept) | Keep::After(_, kept) => chunk.dead_of_many(list, slots, kept.max(1)),
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
    fn dead_of_one(&self, list: List<'_>, slots: [Key; 2]) -> Option<NonNull<CopyCell>> {
        // The last increment seen in each interval, and its cell unless it is in a slot.
        let mut last: [(Key, Option<NonNull<CopyCell>>); INTERVALS] = [((0, 0), None); INTERVALS];
        for key in slots {
            if let Some(i) = self.interval(key.1)
                && key.1 > last[i].0.1
            {
                last[i] = (key, None);
            }
        }
        for (cell, key) in list.copies() {
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
    fn dead_of_many(&self, list: List<'_>, slots: [Key; 2], kept: u32) -> Option<NonNull<CopyCell>> {
        let mut worst: [Option<(Key, NonNull<CopyCell>)>; INTERVALS] = [None; INTERVALS];
        // Increments of each interval seen so far: once they are more than `kept`, the worst of them is dead, and a list that grew long under a
        // restarted read is not walked to its end.
        let mut seen = [0u32; INTERVALS];
        for (_, seq) in slots {
            if let Some(i) = self.interval(seq) {
                seen[i] += 1;
            }
        }
        for (cell, key) in list.copies() {
            let Some(i) = self.interval(key.1) else { continue };
            seen[i] += 1;
            let (key, cell) = worst[i].filter(|(w, _)| *w < key).unwrap_or((key, cell));
            worst[i] = Some((key, cell));
            if seen[i] > kept && slots.iter().all(|s| *s > key) {
                return Some(cell);
            }
        }
        let mut better = [0u32; INTERVALS];
        let cells = list.cells().filter(|c| !c.is_marker()).map(|c| c.key_owned());
        for key in slots.into_iter().chain(cells) {
            // Number 0 is an empty slot, not a version.
            let first = if key.1 == 0 || key.1 < list.floor { self.bounds.len() } else { self.bounds.partition_point(|&b| b < key.1) };
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
