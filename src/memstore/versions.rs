//! What a column holds: two slots used in turn for its counter, and a list for everything else.
//!
//! An increment writes the slot that does not hold the newest version, so the newest complete version is never written to and a reader waits
//! for nobody. What the older slot holds is first copied to the list if a reader may still need it (`plan.rs` decides; a copy that nobody
//! needs is overwritten in place, so a hot counter's memory does not grow with its increments). Puts and markers go to the list.
//!
//! Must not: decide what of a row may be shown (`row_header.rs`), take memory, or apply delete markers (the caller replays).
//!
//! Threads: every write by the owner of the row lock; reads by anybody. A reader reads the slots first, then the list: a version is copied
//! to the list before its slot is invalidated, so what is gone from the slots is found in the list.
//!
//! *Final* markers: one whose timestamp is not below that of anything in its scope with a smaller number leaves nothing of what is older, for every reader
//! that sees it (and for whom it counts). What such a reader needs has a number from the marker's on, its *floor*; and all of that stands in the list
//! above the first cell that was pushed, not copied, with a smaller number: what is pushed stands in the order of its numbers, copies are pushed
//! on top, and a dead copy is only overwritten above the first such cell below the newest floor there is (`plan.rs`). So the walk ends there.
//!
//! A slot and a copy are small seqlocks whose number is also their validity: 0 while they are rewritten. Numbers never come twice.

mod cell;
mod marks;
mod plan;

use super::flaw::{self, Flaw};
use super::row_header::RowHeader;
use crate::cell::CellType;
use crate::sync::Ordering::{self, Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, fence};
use cell::{HAS_CELLS, HAS_MARKER, OUT_OF_ORDER};
use std::ptr::NonNull;

pub(super) use cell::{Chain, CopyCell, ListCell};
pub(super) use marks::{Marks, RowCell};
pub use marks::{Over, RowMarker};
pub(super) use plan::Markers;
pub use plan::{Keep, Plan, PointsUser, TRIMMED_VERSIONS_MAX};

/// A counter's version, owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) seq: u64,
    pub(super) ts: u64,
    pub(super) value: i64,
}

impl Version {
    fn key(self) -> (u64, u64) {
        (self.ts, self.seq)
    }
    fn as_ref<'a>(self) -> VersionRef<'a> {
        VersionRef { seq: self.seq, ts: self.ts, kind: CellType::Put, value: VersionValue::Counter(self.value) }
    }
}

/// One version or delete marker of a column, as a reader gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRef<'a> {
    /// Number of its commit.
    pub seq: u64,
    /// Its timestamp.
    pub ts: u64,
    /// Put, or which marker.
    pub kind: CellType,
    /// Its value.
    pub value: VersionValue<'a>,
}

/// A value: bytes in the segment, or a counter taken from its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionValue<'a> {
    /// What a put wrote; empty for markers.
    Bytes(&'a [u8]),
    /// What an increment wrote; stored form is 8 bytes big-endian.
    Counter(i64),
}

impl VersionValue<'_> {
    /// The value as a counter; None if it is not 8 bytes wide.
    pub fn as_counter(&self) -> Option<i64> {
        match *self {
            Self::Counter(v) => Some(v),
            Self::Bytes(b) => b.try_into().ok().map(i64::from_be_bytes),
        }
    }
    /// Bytes of the stored form.
    pub fn len(&self) -> usize {
        match self {
            Self::Counter(_) => 8,
            Self::Bytes(b) => b.len(),
        }
    }
    /// True for a value of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Calls `f` with the stored form.
    pub fn with<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match *self {
            Self::Counter(v) => f(&v.to_be_bytes()),
            Self::Bytes(b) => f(b),
        }
    }
}

impl VersionRef<'_> {
    fn key(&self) -> (u64, u64) {
        (self.ts, self.seq)
    }
}

/// What a column shows at a cut, without delete markers of its row and family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// Nothing.
    Empty,
    /// An increment's version.
    Counter {
        /// Number of its commit.
        seq: u64,
        /// Its timestamp.
        ts: u64,
        /// Its value.
        value: i64,
    },
    /// A put's version.
    Cell(VersionRef<'a>),
    /// The column has a delete marker: ask for [`Marked`].
    Replay,
}

/// What a column shows at a cut where delete markers are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked<'a> {
    /// This, or nothing; older segments have nothing that counts.
    Closed(Option<VersionRef<'a>>),
    /// This, unless an older segment has something better.
    Best(VersionRef<'a>),
    /// Collect everything and replay it in number order.
    Replay,
}

impl<'a> From<Option<VersionRef<'a>>> for Content<'a> {
    fn from(best: Option<VersionRef<'a>>) -> Self {
        match best {
            None => Self::Empty,
            Some(VersionRef { seq, ts, value: VersionValue::Counter(value), .. }) => Self::Counter { seq, ts, value },
            Some(v) => Self::Cell(v),
        }
    }
}

/// What is collected of a column.
pub struct Wanted<'w> {
    /// Commits with a number up to this one.
    pub cut: u64,
    /// Nothing with a smaller number counts: that of a final marker; 0: there is none.
    pub floor: u64,
    /// So many versions with the best timestamps are enough, as long as no marker is about; None: all are needed.
    pub best: Option<usize>,
    /// Whether a marker of this timestamp counts for the reader, so that nothing below it has to be collected if it is final.
    pub counts: &'w dyn Fn(u64) -> bool,
}

impl Wanted<'static> {
    /// Everything up to a number.
    pub const fn everything(cut: u64) -> Self {
        Self { cut, floor: 0, best: None, counts: &|_| false }
    }
}

/// One of a counter's two slots.
#[derive(Debug, Default)]
#[repr(C)]
struct Slot {
    seq: AtomicU64,
    ts: AtomicU64,
    value: AtomicU64,
}

/// A counter's two slots.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Slots([Slot; 2]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slots>() == 48 && align_of::<Slots>() == 8);

impl Slot {
    fn read(&self) -> Option<Version> {
        read_validated(&self.seq, &self.ts, &self.value)
    }
    fn read_owned(&self) -> Version {
        // Relaxed: only the row lock's owner writes them.
        Version { seq: self.seq.load(Relaxed), ts: self.ts.load(Relaxed), value: self.value.load(Relaxed) as i64 }
    }
    fn write(&self, v: Version) {
        // Release: who sees the 0 sees the copy in the list, and the `applied` and D by which the old version was not needed.
        self.seq.store(0, flaw::unless(Flaw::SlotZero, Release));
        if !flaw::off(Flaw::SlotFence) {
            // Who sees one of the two stores below, and then an acquire fence, sees the 0 (or more): no torn version.
            fence(Release);
        }
        self.ts.store(v.ts, DATA_STORE);
        self.value.store(v.value as u64, DATA_STORE);
        // Release: pairs with the first load of `read`.
        self.seq.store(v.seq, Release);
    }
}

/// Reads a seqlock whose number is its validity. None: empty, or rewritten meanwhile; what it held is then in the list, or not needed.
fn read_validated(seq: &AtomicU64, ts: &AtomicU64, value: &AtomicU64) -> Option<Version> {
    // Acquire: pairs with the writer's last store; also with its 0, see there.
    let n = seq.load(Acquire);
    if n == 0 {
        return None;
    }
    let v = Version { seq: n, ts: ts.load(DATA_LOAD), value: value.load(DATA_LOAD) as i64 };
    // Pairs with the writer's release fence: if one of the loads above was newer than `n`, the load below is too.
    fence(Acquire);
    if seq.load(DATA_LOAD) == n {
        return Some(v);
    }
    if !flaw::off(Flaw::SlotMissFence) {
        // Pairs with the writer's Release stores of the number just seen: the copy in the list is visible from here.
        fence(Acquire);
    }
    None
}

/// The thread sanitizer does not model fences: under it the data words are ordered by themselves.
const DATA_LOAD: Ordering = if cfg!(tsan) { Acquire } else { Relaxed };
const DATA_STORE: Ordering = if cfg!(tsan) { Release } else { Relaxed };

impl Slots {
    /// The newest version and the slot of the older one, for the row lock's owner.
    fn turn(&self) -> (Version, &Slot) {
        let [a, b] = &self.0;
        let (va, vb) = (a.read_owned(), b.read_owned());
        let first_is_newest = va.seq > vb.seq;
        if first_is_newest != flaw::off(Flaw::OverwriteNewest) { (va, b) } else { (vb, a) }
    }
}

/// What was pushed to a list.
pub(super) struct Pushed {
    /// It is the column's first: no other cell, and no slots.
    pub(super) first: bool,
    /// Bytes of the cell.
    pub(super) bytes: usize,
}

/// A column's slots (if it has any yet) and list.
#[derive(Clone, Copy)]
pub(super) struct Versions<'a> {
    slots: Option<&'a Slots>,
    chain: &'a Chain,
}

impl<'a> Versions<'a> {
    /// # Safety
    /// Every cell pushed to `chain` lives for 'a.
    pub(super) unsafe fn new(slots: Option<&'a Slots>, chain: &'a Chain) -> Self {
        Self { slots, chain }
    }

    fn head(self) -> cell::Head<'a> {
        // SAFETY: by contract of `new`.
        unsafe { self.chain.load() }
    }

    /// What the column shows of the commits up to `cut`; `u64::MAX` for the owner of the row lock.
    #[inline]
    pub(super) fn read(self, cut: u64) -> Content<'a> {
        let mut best: Option<VersionRef<'a>> = None;
        let mut settled = false;
        if let Some(Slots([a, b])) = self.slots {
            let (a, b) = (a.read(), b.read());
            // Both are there and the newer is within the cut: every copy in the list is older.
            settled = matches!((a, b), (Some(a), Some(b)) if a.seq.max(b.seq) <= cut);
            let (a, b) = (a.filter(|v| v.seq <= cut), b.filter(|v| v.seq <= cut));
            // Spelled out: as a chain of iterators it costs an increment 80 instructions wherever the compiler does not see through it.
            let newest = match (a, b) {
                (Some(a), Some(b)) => Some(if a.key() > b.key() { a } else { b }),
                (a, b) => a.or(b),
            };
            best = newest.map(Version::as_ref);
        }
        let head = self.head();
        if head.is_empty() || settled && !head.has(HAS_CELLS) {
            return best.into();
        }
        if head.has(HAS_MARKER) {
            return Content::Replay;
        }
        let in_order = !head.has(OUT_OF_ORDER);
        for v in head.cells().filter_map(ListCell::read).filter(|v| v.seq <= cut) {
            if best.is_none_or(|b| b.key() < v.key()) {
                best = Some(v);
            }
            if in_order {
                break;
            }
        }
        best.into()
    }

    /// What the column shows of the commits up to `cut` where it has markers, or its row's family has: the newest one of those is `over`.
    pub(super) fn read_marked(self, cut: u64, over: Over) -> Marked<'a> {
        // Slots before the list, as in `read`.
        let slots = self.slots.map_or([None; 2], |Slots([a, b])| [a.read(), b.read()]);
        let slots = slots.into_iter().flatten().filter(|v| v.seq <= cut).map(Version::as_ref);
        let best_of = |floor: u64, more: &mut dyn Iterator<Item = VersionRef<'a>>| {
            slots.clone().chain(more).filter(|v| v.seq >= floor).max_by_key(VersionRef::key)
        };
        let head = self.head();
        let list = || head.cells().filter_map(ListCell::read).filter(|v| v.seq <= cut);
        if !head.has(OUT_OF_ORDER) {
            // The first has the largest (timestamp, number) of the list, so no marker of the list reaches it, nor a slot's that is above it.
            let first = list().next();
            let best = best_of(0, &mut first.into_iter());
            match best.filter(|b| !b.kind.is_marker() && b.seq >= over.seq) {
                Some(best) if over.is_final => return Marked::Closed(Some(best)),
                Some(best) => return Marked::Best(best),
                None => {}
            }
        }
        let mut floor = over.floor();
        let marker = head.cells_from(floor).find(|c| c.is_marker() && c.seq_pushed() <= cut);
        if let Some(marker) = marker.filter(|m| m.is_final()) {
            floor = marker.seq_pushed();
        }
        if floor == 0 || over.seq > floor || marker.is_some_and(|m| !m.is_final()) {
            return Marked::Replay;
        }
        // No marker above the floor: the best value is the one.
        let values = head.cells_from(floor).filter(|c| !c.is_marker()).filter_map(ListCell::read).filter(|v| v.seq <= cut);
        Marked::Closed(best_of(floor, &mut { values }))
    }

    /// See `ColumnRef::last_increment`.
    pub(super) fn last_increment(self, cut: u64) -> Option<VersionRef<'a>> {
        let Slots([a, b]) = self.slots?;
        // As in `read`: only if both are there is the newer one surely the newest increment up to the cut.
        let (a, b) = (a.read()?, b.read()?);
        let last = if a.seq > b.seq { a } else { b };
        // What was not copied from a slot stands in the order of its numbers.
        let other = self.head().cells().filter(|c| !c.is_copy()).map(ListCell::seq_pushed).find(|&seq| seq <= cut);
        (last.seq <= cut && other.is_none_or(|seq| seq < last.seq)).then(|| last.as_ref())
    }

    /// See `ColumnRef::collect`.
    pub(super) fn collect(self, wanted: &Wanted<'_>, into: &mut Vec<VersionRef<'a>>) -> u64 {
        let (start, cut, mut floor) = (into.len(), wanted.cut, wanted.floor);
        if let Some(Slots(slots)) = self.slots {
            into.extend(slots.iter().filter_map(Slot::read).filter(|v| (floor..=cut).contains(&v.seq)).map(Version::as_ref));
        }
        let slots = into.len();
        let head = self.head();
        // Where the list is in order and no marker is about, the first so many timestamps are the best ones.
        let mut best = wanted.best.filter(|_| !head.has(OUT_OF_ORDER) && (slots == start || !head.has(HAS_MARKER)));
        let mut last = None;
        for cell in head.cells() {
            if floor != 0 && !cell.is_copy() && cell.seq_pushed() < floor {
                break;
            }
            let Some(v) = cell.read().filter(|v| (floor..=cut).contains(&v.seq)) else { continue };
            if cell.is_marker() {
                best = None;
                if cell.is_final() && (wanted.counts)(v.ts) {
                    floor = v.seq;
                }
            } else if let Some(left) = &mut best
                && last != Some(v.ts)
            {
                if *left == 0 {
                    break;
                }
                *left -= 1;
                last = Some(v.ts);
            }
            // A version may be copied between the look at its slot and the look at the list: it must not count twice.
            let copied = matches!(v.value, VersionValue::Counter(_)) && into[start..slots].iter().any(|s| s.seq == v.seq);
            if !copied {
                into.push(v);
            }
        }
        floor
    }

    /// Puts an increment's version into the slot that does not hold the newest one, after doing with the older version as planned. Row lock
    /// held since the plan; the column has slots; at most one increment of a column per commit.
    ///
    /// # Safety
    /// `spare` and the cell in `plan` live as long as the chain is read; the cell is one of this list's.
    pub(super) unsafe fn apply(self, new: Version, plan: Plan, spare: Option<NonNull<CopyCell>>) {
        let slots = self.slots.expect("a column has slots before an increment is applied");
        let (_, victim) = slots.turn();
        if flaw::off(Flaw::CopyAfter) {
            let old = victim.read_owned();
            victim.write(new);
            // SAFETY: as below.
            return unsafe { self.keep(old, plan, spare) };
        }
        // SAFETY: by contract.
        unsafe { self.keep(victim.read_owned(), plan, spare) };
        victim.write(new);
    }

    /// Copies the older version into the list, if the plan says so.
    ///
    /// # Safety
    /// As `apply`.
    unsafe fn keep(self, old: Version, plan: Plan, spare: Option<NonNull<CopyCell>>) {
        match plan {
            Plan::InPlace => {}
            Plan::OverwriteDead(dead) => {
                // SAFETY: initialised when it was pushed; lives, by contract.
                let dead = unsafe { dead.cell().as_ref() };
                let head = self.head();
                let still_first = head.starts_with(&dead.head) && dead.head.key_owned() <= old.key();
                if !still_first && !head.has(OUT_OF_ORDER) {
                    self.chain.set_out_of_order();
                }
                dead.overwrite(old);
            }
            Plan::Push => {
                let spare = spare.expect("a plan to push comes with a cell");
                // SAFETY: initialised, nobody else's, lives, by contract.
                unsafe { spare.as_ref() }.fill(old);
                // SAFETY: by contract.
                unsafe { self.push_in_order(spare.cast(), old.key(), 0) };
            }
        }
    }

    /// Pushes a put's or delete's cell. Row lock held.
    ///
    /// # Safety
    /// `cell` is initialised, was never pushed, and lives as long as the chain is read.
    pub(super) unsafe fn push(self, cell: NonNull<ListCell>, seq: u64, ts: u64) -> Pushed {
        let first = self.slots.is_none() && self.chain.is_empty();
        // SAFETY: initialised, by contract.
        let c = unsafe { cell.as_ref() };
        c.fill(seq, ts);
        let tags = if c.is_marker() { HAS_CELLS | HAS_MARKER } else { HAS_CELLS };
        // SAFETY: by contract.
        unsafe { self.push_in_order(cell, (ts, seq), tags) };
        Pushed { first, bytes: c.bytes() }
    }

    /// # Safety
    /// As `push`.
    unsafe fn push_in_order(self, cell: NonNull<ListCell>, key: (u64, u64), tags: u64) {
        let first = self.head().cells().next();
        let unordered = first.is_some_and(|f| f.key_owned() > key);
        // SAFETY: by contract.
        unsafe { self.chain.push(cell, if unordered { tags | OUT_OF_ORDER } else { tags }) };
    }

    /// Numbers of the older and the newer slot. Row lock held.
    pub(super) fn slot_numbers(self) -> (u64, u64) {
        let Some(slots) = self.slots else { return (0, 0) };
        let (newest, older) = slots.turn();
        (older.read_owned().seq, newest.seq)
    }

    /// How many cells the list has.
    pub(super) fn list_len(self) -> usize {
        self.head().cells().count()
    }

    /// True if the column has neither version nor marker.
    pub(super) fn is_empty(self) -> bool {
        let slots = self.slots.is_some_and(|s| s.0.iter().any(|s| s.seq.load(Relaxed) != 0));
        // An increment's first version may be there alone; Relaxed is enough for a hint, content is read with `read`.
        !slots && self.chain.is_empty()
    }

    /// See [`Plan`]. Row lock held, no commit of the row in flight.
    ///
    /// `markers`: of the column's family.
    pub(super) fn plan(
        self,
        header: &RowHeader,
        keep: Keep,
        latest_point: u64,
        durable: u64,
        markers: impl FnOnce() -> Markers,
        points: impl FnOnce(PointsUser<'_>),
    ) -> Plan {
        let Some(slots) = self.slots else { return Plan::InPlace };
        plan::plan(slots, self.head(), header, keep, latest_point, durable, markers, points)
    }
}

#[cfg(all(test, loom))]
mod models;
