//! The registered read points as a writer sees them: without a lock, and never held up by who changes them.
//!
//! Must not: be changed but under the registry lock.
//!
//! Two pages and a version whose lowest bit says which of them counts. A change fills the other page, then the version goes up. So a thread
//! that is preempted in the middle of a change stops nobody: the page that counts stays as it is. A look that a page was refilled under is
//! noticed by its version, and looks again.
//!
//! A page is a list of blocks, as many as the registry ever had points for; none is freed before the registry.

use super::points::{OldestPoint, Opened};
use crate::ids::ReadPoint;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use smallvec::SmallVec;
use std::sync::OnceLock;
// A figure for statistics: no rule rests on it, so loom need not explore it.
use std::sync::atomic::AtomicU64 as Figure;

/// Points of a block; inline for as many as are usually open.
pub(super) const BLOCK: usize = if cfg!(loom) { 4 } else { 64 };
/// Each look takes nanoseconds and a change is an open or close, so a second look is rare and more are not needed.
const LOOKS: usize = if cfg!(loom) { 2 } else { 16 };

/// See the module.
pub(super) struct Shown {
    version: AtomicU64,
    pages: [Page; 2],
}

struct Page {
    len: AtomicUsize,
    restarted: AtomicBool,
    /// Of the first point: when it was opened, and what had been copied by then.
    oldest: [Figure; 2],
    first: Block,
}

struct Block {
    points: [AtomicU64; BLOCK],
    next: OnceLock<Box<Block>>,
}

impl Block {
    fn new() -> Self {
        Self { points: std::array::from_fn(|_| AtomicU64::new(0)), next: OnceLock::new() }
    }
}

impl Page {
    fn new() -> Self {
        Self { len: AtomicUsize::new(0), restarted: AtomicBool::new(false), oldest: [Figure::new(0), Figure::new(0)], first: Block::new() }
    }
    fn note_oldest(&self, o: Opened) {
        // Release: as all stores of a page, see `Shown::prepare`.
        self.oldest[0].store(o.ns, Ordering::Release);
        self.oldest[1].store(o.copied, Ordering::Release);
    }
    fn places(&self) -> impl Iterator<Item = &AtomicU64> {
        std::iter::successors(Some(&self.first), |b| b.next.get().map(|b| &**b)).flat_map(|b| &b.points)
    }
}

impl Shown {
    pub(super) fn new() -> Self {
        Self { version: AtomicU64::new(0), pages: [Page::new(), Page::new()] }
    }

    /// Room for `points` in both pages. Allocates: not for under the registry lock.
    pub(super) fn reserve(&self, points: usize) {
        for page in &self.pages {
            let mut last = &page.first;
            for _ in 1..points.div_ceil(BLOCK) {
                last = last.next.get_or_init(|| Box::new(Block::new()));
            }
        }
    }

    /// Fills the page that does not count. Registry lock held, and room reserved for one point more than `points`.
    // All stores Release, paired with the loads of `look`: who sees one of them in a page that he took for the one that counts also sees the
    // version by which it had ceased to be that.
    pub(super) fn prepare(&self, points: &[u64], oldest: Option<&Opened>, restarted: bool) {
        let page = self.other();
        if let Some(oldest) = oldest {
            page.note_oldest(*oldest);
        }
        for (place, point) in page.places().zip(points) {
            place.store(*point, Ordering::Release);
        }
        page.len.store(points.len(), Ordering::Release);
        page.restarted.store(restarted, Ordering::Release);
    }

    /// One point more at the end of the prepared page.
    pub(super) fn push(&self, point: u64, opened: Opened) {
        let page = self.other();
        // Relaxed: written under the registry lock only.
        let len = page.len.load(Ordering::Relaxed);
        let place = page.places().nth(len);
        debug_assert!(place.is_some(), "no room was reserved for point {len}");
        if let Some(place) = place {
            if len == 0 {
                page.note_oldest(opened);
            }
            place.store(point, Ordering::Release);
            page.len.store(len + 1, Ordering::Release);
        }
    }

    /// The prepared page counts from now on.
    pub(super) fn turn(&self) {
        // Relaxed: as in `push`.
        let version = self.version.load(Ordering::Relaxed);
        // Release: pairs with the first load of `look`. Who finds a point gone also finds everything its reader did before.
        self.version.store(version + 1, flaw::unless_turn_relaxed(Ordering::Release));
    }

    /// The points, sorted, and whether a restarted read is registered. None: they changed under each of several looks.
    // Not inlined: its room for the points does not belong into the frame of every increment.
    #[inline(never)]
    pub(super) fn look<R>(&self, f: impl FnOnce(&[u64], bool) -> R) -> Option<R> {
        let mut points = SmallVec::<[u64; BLOCK]>::new();
        for _ in 0..LOOKS {
            // Acquire: pairs with `turn`; what happens before this call and was announced is seen.
            let version = self.version.load(Ordering::Acquire);
            let page = self.page(version);
            // Acquire, all: pair with `prepare`, see there.
            let (len, restarted) = (page.len.load(Ordering::Acquire), page.restarted.load(Ordering::Acquire));
            points.clear();
            points.extend(page.places().take(len).map(|p| p.load(Ordering::Acquire)));
            // Relaxed: the loads above come before it, and bring what it must see.
            if self.version.load(Ordering::Relaxed) == version || flaw::believes_first_look() {
                return Some(f(&points, restarted));
            }
        }
        None
    }

    /// The oldest point. The outer None: as in `look`.
    pub(super) fn oldest(&self) -> Option<Option<OldestPoint>> {
        for _ in 0..LOOKS {
            // The loads of `look`, and ordered as there.
            let version = self.version.load(Ordering::Acquire);
            let page = self.page(version);
            let (len, point) = (page.len.load(Ordering::Acquire), page.first.points[0].load(Ordering::Acquire));
            let [ns, copied] = [0, 1].map(|i: usize| page.oldest[i].load(Ordering::Acquire));
            if self.version.load(Ordering::Relaxed) == version {
                return Some((len > 0).then_some(OldestPoint {
                    point: ReadPoint(point),
                    opened: Opened { ns, copied },
                    points: len as u64,
                }));
            }
        }
        None
    }

    fn other(&self) -> &Page {
        // Relaxed: written under the registry lock only.
        let version = self.version.load(Ordering::Relaxed);
        self.page(if flaw::one_page() { version } else { version + 1 })
    }
    fn page(&self, version: u64) -> &Page {
        let [even, odd] = &self.pages;
        if version.is_multiple_of(2) || flaw::one_page() { even } else { odd }
    }
}

/// What a loom model switches off.
#[cfg(loom)]
mod flaw {
    use crate::mvcc::flaw::{Flaw, is};
    use crate::sync::Ordering;

    pub(super) fn believes_first_look() -> bool {
        is(Flaw::BelieveFirstLook)
    }
    pub(super) fn one_page() -> bool {
        is(Flaw::OnePage)
    }
    pub(super) fn unless_turn_relaxed(order: Ordering) -> Ordering {
        if is(Flaw::TurnRelaxed) { Ordering::Relaxed } else { order }
    }
}

#[cfg(not(loom))]
mod flaw {
    use crate::sync::Ordering;

    pub(super) const fn believes_first_look() -> bool {
        false
    }
    pub(super) const fn one_page() -> bool {
        false
    }
    pub(super) const fn unless_turn_relaxed(order: Ordering) -> Ordering {
        order
    }
}
