//! What a reader is shown of one column: its newest version, several, or everything that is stored.
//!
//! The common case (one version, all times, no delete marker about, or only final ones) looks at the column once and collects nothing. Everything else
//! collects what the segments hold of the column from its newest final marker on, adds the markers of the row's family, and replays
//! (`merge::visibility`); a raw reader gets all of it.
//!
//! *Markers of a family* lie with the row, and are met at the column (family, ""), which whoever pushes one inserts: the first of its family. A reader
//! that walks from there keeps them for the columns that follow; one that begins behind it looks for that column first.

use super::heads::{First, Heads};
use super::newest::Found;
use crate::cell::CellType;
use crate::clock::ClockUnit;
use crate::ids::{FamilyId, Tick};
use crate::memstore::{Content, Marked, Over, RowMarker, RowRef, VersionRef, VersionValue, Wanted};
use crate::merge::visibility::{ALWAYS, Rules, Version, replay};
use crate::store::family::Families;
use std::cmp::Ordering;
use std::ops::Range;

/// A cell as it is shown.
pub type Cell<'s> = Version<VersionValue<'s>>;

/// What a reader asks for.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Versions of a column, at least 1; never more than the family keeps.
    pub versions: usize,
    /// Timestamps; None = all.
    pub range: Option<Range<u64>>,
    /// Delete markers and what they hide, too.
    pub raw: bool,
    /// Decides what has expired.
    pub now: (ClockUnit, Tick),
}

/// What [`Lens::look`] found.
pub enum Shown<'s> {
    /// Nothing.
    Nothing,
    /// One cell.
    One(Cell<'s>),
    /// Those in [`Lens::list`], best first.
    List,
}

/// Looks at columns in the order of a walk.
pub struct Lens<'a, 's> {
    terms: &'a Terms,
    families: &'a Families,
    /// The walk passes every column of a row, so it meets the first one of each family.
    meets_all: bool,
    /// The family whose rules these are.
    rules_of: Option<FamilyId>,
    /// None: the family was dropped.
    rules: Option<Rules<'a>>,
    /// One version is enough, and the newest one is it unless a marker is about.
    newest_only: bool,
    /// The family of the current row whose markers are known.
    entered: Option<FamilyId>,
    markers: Vec<RowMarker>,
    /// The newest of them.
    over: Over,
    /// Number of the newest that is final and counts: nothing with a smaller one matters.
    floor: u64,
    collected: Vec<VersionRef<'s>>,
    list: Vec<Cell<'s>>,
}

/// Order of the cells of one column: best first, markers before values of their timestamp.
pub fn order(a: (u64, CellType, u64), b: (u64, CellType, u64)) -> Ordering {
    b.0.cmp(&a.0).then((b.1 as u8).cmp(&(a.1 as u8))).then(b.2.cmp(&a.2))
}

/// A cell's place among those of its column.
#[inline]
pub fn place(cell: &Cell<'_>) -> (u64, CellType, u64) {
    (cell.ts, cell.kind, cell.seq)
}

impl<'a, 's> Lens<'a, 's> {
    /// `meets_all`: the walk passes every column of each row it enters.
    pub fn new(terms: &'a Terms, families: &'a Families, meets_all: bool) -> Self {
        Self {
            terms,
            families,
            meets_all,
            rules_of: None,
            rules: None,
            newest_only: false,
            entered: None,
            markers: Vec::new(),
            over: Over::default(),
            floor: 0,
            collected: Vec::new(),
            list: Vec::new(),
        }
    }
    /// The walk enters a row: at its first column, or somewhere in it (`middle`).
    #[inline]
    pub fn enter_row(&mut self) {
        self.entered = None;
    }
    /// The cells of the last look, if it said [`Shown::List`].
    #[inline]
    pub fn list(&self) -> &[Cell<'s>] {
        &self.list
    }
    /// What a column shows of the commits up to `bound`. `begins`: the walk came to the column from the one before, not by a jump.
    #[inline]
    pub fn look(&mut self, heads: &Heads<'s>, first: First<'s>, bound: u64, begins: bool) -> Shown<'s> {
        let family = first.column.family();
        if self.entered != Some(family) {
            self.enter_family(heads, first, bound, begins);
        }
        let Some(rules) = &self.rules else { return Shown::Nothing };
        if self.newest_only && first.alone {
            let content = if self.markers.is_empty() { first.column.read(bound) } else { Content::Replay };
            let best = match content {
                Content::Replay => match first.column.read_marked(bound, self.over) {
                    Marked::Closed(v) => Some(v.map(Found::from)),
                    Marked::Best(v) => Some(Some(v.into())),
                    Marked::Replay => None,
                },
                content => Some(Found::of(content)),
            };
            if let Some(shown) = best.and_then(|best| shown(best, rules)) {
                return shown;
            }
        } else if self.newest_only && self.markers.is_empty() {
            let mut best: Option<Found<'s>> = None;
            let mut replays = false;
            for column in heads.all(first) {
                match column.read(bound) {
                    Content::Replay => replays = true,
                    content => {
                        if let Some(found) = Found::of(content).filter(|f| f.is_better(best.as_ref())) {
                            best = Some(found);
                        }
                    }
                }
            }
            if let Some(shown) = (!replays).then(|| shown(best, rules)).flatten() {
                return shown;
            }
        }
        self.collect(heads, first, bound);
        Shown::List
    }
    #[inline]
    fn enter_family(&mut self, heads: &Heads<'s>, first: First<'s>, bound: u64, begins: bool) {
        let family = first.column.family();
        if self.rules_of != Some(family) {
            self.rules_of = Some(family);
            self.rules = self.families.get(family).map(|f| f.rules(self.terms.now.0, || self.terms.now.1));
            let most = self.rules.map_or(0, |r| r.max_versions as usize).min(self.terms.versions);
            self.newest_only = !self.terms.raw && self.terms.range.is_none() && most == 1;
        }
        self.entered = Some(family);
        self.markers.clear();
        (self.over, self.floor) = (Over::default(), 0);
        if heads.is_single() {
            self.add_markers(first.column.row(), bound);
        } else if !(self.meets_all && begins) {
            for segment in heads.segments() {
                if let Some(column) = segment.find_by_key((first.column.row().row(), family, b"")) {
                    self.add_markers(column.row(), bound);
                }
            }
        } else if first.column.qualifier().is_empty() {
            for column in heads.all(first) {
                self.add_markers(column.row(), bound);
            }
        }
    }
    #[inline]
    fn add_markers(&mut self, row: RowRef<'s>, bound: u64) {
        if row.header().has_markers() {
            self.take_markers(row, bound);
        }
    }
    fn take_markers(&mut self, row: RowRef<'s>, bound: u64) {
        let (Some(family), Some(rules)) = (self.entered, &self.rules) else { return };
        let range = self.terms.range.as_ref().unwrap_or(&ALWAYS);
        let counts = |marker| !self.terms.raw && rules.surely_counts(marker, range);
        let had = self.markers.len();
        let floor = row.collect_markers(family, bound, &counts, &mut self.markers);
        self.floor = self.floor.max(floor);
        if let Some(newest) = self.markers.get(had).filter(|m| m.seq > self.over.seq) {
            self.over = Over { seq: newest.seq, is_final: newest.is_final };
        }
    }
    /// Fills the list.
    #[cold]
    fn collect(&mut self, heads: &Heads<'s>, first: First<'s>, bound: u64) {
        let range = self.terms.range.as_ref().unwrap_or(&ALWAYS);
        let (raw, rules) = (self.terms.raw, self.rules);
        let counts = |marker| !raw && rules.is_some_and(|r| r.surely_counts(marker, range));
        let mut floor = self.floor;
        self.collected.clear();
        for column in heads.all(first) {
            let no_marker = !raw && self.markers.is_empty() && !self.collected.iter().any(|v| v.kind.is_marker());
            let best = rules.filter(|r| no_marker && r.past.is_empty()).map(|r| r.max_versions as usize);
            floor = floor.max(column.collect(&Wanted { cut: bound, floor, best, counts: &counts }, &mut self.collected));
        }
        self.list.clear();
        self.list.extend(self.collected.iter().map(|v| Version { seq: v.seq, ts: v.ts, kind: v.kind, value: v.value }));
        let of_family = self.markers.iter().map(|m| Version { seq: m.seq, ts: m.ts, kind: m.kind, value: VersionValue::Bytes(b"") });
        if self.terms.raw {
            // Where HBase has them: first in their family.
            if first.column.qualifier().is_empty() {
                self.list.extend(of_family);
            }
            self.list.retain(|c| range.contains(&c.ts));
            self.list.sort_by(|a, b| order(place(a), place(b)));
            let mut values = 0;
            let most = self.terms.versions;
            self.list.retain(|c| {
                values += usize::from(!c.kind.is_marker());
                c.kind.is_marker() || values <= most
            });
        } else if let Some(rules) = &self.rules {
            self.list.extend(of_family);
            replay(&mut self.list, rules, range);
            self.list.truncate(self.terms.versions);
        }
    }
}

/// None: only the replay can tell.
#[inline]
fn shown<'s>(found: Option<Found<'s>>, rules: &Rules<'_>) -> Option<Shown<'s>> {
    let Some(f) = found else { return Some(Shown::Nothing) };
    let one = Shown::One(Version { seq: f.seq, ts: f.ts, kind: CellType::Put, value: f.value });
    rules.shows_best(f.ts).map(|shown| if shown { one } else { Shown::Nothing })
}
