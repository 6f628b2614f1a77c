//! What a call has written to one row so far. Each operation sees what stands before it in the call, and what a later one takes out was never written.
//!
//! A call's cells have one number, and in the replay the markers of a number act before its values. So a marker takes the call's own older values out
//! here, at once, and a value takes the place of an older one with its timestamp. Timestamps are compared only where a column is touched twice: for that
//! the tick is drawn early, under the same locks.

use crate::cell::CellType;
use crate::commit::mutation::{CellChange, Stamp, Write};
use crate::ids::{FamilyId, Tick};
use crate::memstore::{ColumnRef, Keep, VersionValue};
use crate::merge::visibility::Version;
use std::collections::HashMap;

/// Up to so many cells of a row are looked through; beyond, an index by column is kept.
const LOOKED_THROUGH: usize = 16;

/// Places of a column's cells.
type Places = smallvec::SmallVec<[u32; 4]>;

/// The cells of one row's change, at the end of a commit's list.
pub(super) struct RowCells<'e, 'a, 'v> {
    pub cells: &'e mut Vec<CellChange<'a, 'v>>,
    /// Where the row's cells begin.
    start: usize,
    /// Empty until the row has many cells.
    index: HashMap<(u32, &'a [u8]), Places, foldhash::fast::RandomState>,
    /// The row's family markers.
    family_markers: Places,
}

impl<'e, 'a, 'v> RowCells<'e, 'a, 'v> {
    /// No row yet.
    pub fn new(cells: &'e mut Vec<CellChange<'a, 'v>>) -> Self {
        Self { cells, start: 0, index: HashMap::default(), family_markers: Places::new() }
    }
    /// The row whose cells begin at `start`.
    #[inline(always)]
    pub fn begin(&mut self, start: usize) {
        self.start = start;
        if !(self.is_new() && self.family_markers.is_empty() && self.index.is_empty()) {
            self.look_again();
        }
    }
    /// With ATOMIC a row may come back.
    #[cold]
    fn look_again(&mut self) {
        self.index.clear();
        self.family_markers.clear();
        let here = self.cells.iter().enumerate().skip(self.start);
        self.family_markers.extend(here.filter(|(_, c)| is_family_marker(c.write)).map(|(i, _)| i as u32));
    }
    /// The row has no cells so far.
    #[inline]
    pub fn is_new(&self) -> bool {
        self.cells.len() == self.start
    }
    /// Forgets the cells from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.cells.truncate(len);
        self.begin(self.start.min(len));
    }

    /// The column's cells so far, and the markers of its family.
    #[inline]
    pub fn of_column(&mut self, family: FamilyId, qualifier: &[u8]) -> Places {
        if self.is_new() { Places::new() } else { self.look(family, qualifier) }
    }
    fn look(&mut self, family: FamilyId, qualifier: &[u8]) -> Places {
        let cells = self.cells.get(self.start..).unwrap_or_default();
        let markers = self.family_markers.iter().copied().filter(|&i| self.cells.get(i as usize).is_some_and(|c| c.family == family));
        let of_column = |c: &CellChange<'_, '_>| c.family == family && c.qualifier == qualifier && !is_family_marker(c.write);
        if cells.len() <= LOOKED_THROUGH {
            self.index.clear();
            return cells.iter().enumerate().filter(|(_, c)| of_column(c)).map(|(i, _)| (self.start + i) as u32).chain(markers).collect();
        }
        if self.index.is_empty() {
            for (i, c) in cells.iter().enumerate().filter(|(_, c)| !is_family_marker(c.write)) {
                self.index.entry((c.family.0, c.qualifier)).or_default().push((self.start + i) as u32);
            }
        }
        self.index.get(&(family.0, qualifier)).into_iter().flatten().copied().chain(markers).collect()
    }
    pub fn write_at(&self, place: u32) -> Write<'a> {
        self.cells.get(place as usize).map_or(Write::Nothing, |c| c.write)
    }
    /// Another write in the place of one.
    pub fn replace(&mut self, place: u32, write: Write<'a>, found: Option<ColumnRef<'v>>) {
        if let Some(cell) = self.cells.get_mut(place as usize) {
            cell.write = write;
            cell.found = cell.found.or(found);
        }
    }
    /// One more cell.
    #[inline]
    pub fn push(&mut self, family: FamilyId, qualifier: &'a [u8], write: Write<'a>, keep: Keep, found: Option<ColumnRef<'v>>) {
        let place = self.cells.len() as u32;
        self.cells.push(CellChange::new(family, qualifier, write, keep, found));
        if is_family_marker(write) {
            self.family_markers.push(place);
        } else if !self.index.is_empty() {
            self.index.entry((family.0, qualifier)).or_default().push(place);
        }
    }
    /// A value with a timestamp that the caller, or the tick, gave: in the place of an older one with the same timestamp.
    pub fn put(&mut self, places: &[u32], tick: Tick, family: FamilyId, qualifier: &'a [u8], write: Write<'a>, keep: Keep) {
        let timestamp = write.timestamp(tick);
        let same = |w: Write<'_>| w.is_value() && w.timestamp(tick) == timestamp;
        match places.iter().copied().find(|&i| same(self.write_at(i))) {
            Some(place) => self.replace(place, write, None),
            None => self.push(family, qualifier, write, keep, None),
        }
    }
    /// A column's marker: takes the call's own values in its scope out.
    pub fn mark_column(
        &mut self,
        places: &[u32],
        tick: Tick,
        family: FamilyId,
        qualifier: &'a [u8],
        marker: (CellType, Stamp),
        keep: Keep,
    ) {
        places.iter().for_each(|&i| self.take_out(i, tick, marker));
        self.push_marker(places, tick, family, qualifier, marker, keep);
    }
    /// A family's marker: takes the call's own values in its scope out. `tick` is only asked for if there are any, or older markers.
    pub fn mark_family<E>(
        &mut self,
        tick: impl FnOnce() -> Result<Tick, E>,
        family: FamilyId,
        marker: (CellType, Stamp),
        keep: Keep,
    ) -> Result<(), E> {
        let here = self.cells.iter().enumerate().skip(self.start);
        let values: Places = here.filter(|(_, c)| c.family == family && c.write.is_value()).map(|(i, _)| i as u32).collect();
        let markers = self.family_markers.clone();
        let of_family: Places = markers.into_iter().filter(|&i| self.cells.get(i as usize).is_some_and(|c| c.family == family)).collect();
        let tick = if values.is_empty() && of_family.is_empty() { Tick(0) } else { tick()? };
        values.iter().for_each(|&i| self.take_out(i, tick, marker));
        self.push_marker(&of_family, tick, family, b"", marker, keep);
        Ok(())
    }
    /// `tick` matters only if there are `places`: an explicit time may be the tick's, and a marker is written once.
    fn push_marker(
        &mut self,
        places: &[u32],
        tick: Tick,
        family: FamilyId,
        qualifier: &'a [u8],
        (kind, stamp): (CellType, Stamp),
        keep: Keep,
    ) {
        let same = |w: Write<'_>| matches!(w, Write::Marker { kind: k, stamp: s } if k == kind && s.at(tick) == stamp.at(tick));
        if !places.iter().any(|&i| same(self.write_at(i))) {
            self.push(family, qualifier, Write::Marker { kind, stamp }, keep, None);
        }
    }
    fn take_out(&mut self, place: u32, tick: Tick, (kind, stamp): (CellType, Stamp)) {
        let (write, scope) = (self.write_at(place), stamp.at(tick));
        let in_scope = match kind {
            CellType::DeleteVersion | CellType::DeleteFamilyVersion => write.timestamp(tick) == scope,
            _ => write.timestamp(tick) <= scope,
        };
        if write.is_value() && in_scope {
            self.replace(place, Write::Nothing, None);
        }
    }

    /// The call's markers among `places`, newer than all that is stored.
    pub fn markers(&self, places: &[u32], tick: Tick) -> Vec<Version<VersionValue<'v>>> {
        let marker = |w: Write<'_>| match w {
            Write::Marker { kind, stamp } => Some(Version { seq: u64::MAX, ts: stamp.at(tick), kind, value: VersionValue::Bytes(b"") }),
            _ => None,
        };
        places.iter().filter_map(|&i| marker(self.write_at(i))).collect()
    }
    /// The call's own value with the largest timestamp.
    pub fn best(&self, places: &[u32], tick: Tick) -> Option<(u32, u64)> {
        let values = places.iter().copied().filter(|&i| self.write_at(i).is_value());
        values.map(|i| (i, self.write_at(i).timestamp(tick))).max_by_key(|&(_, ts)| ts)
    }
}

fn is_family_marker(write: Write<'_>) -> bool {
    matches!(write, Write::Marker { kind, .. } if kind.is_of_family())
}
