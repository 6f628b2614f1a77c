//! Point reads: take no lock and wait for nobody.
//!
//! A read claims a commit slot (so that what it looks at stays), takes the row's cut from its headers, reads the columns at that cut, and takes
//! the cut again. A different cut means that a commit of the row, or a sync, has completed meanwhile, so each restart is somebody's progress. After
//! eight of them the read registers as a restarted one: nothing it may need is overwritten from then on, and it ends.

use super::newest::{self, ColumnName, Found};
use crate::ids::{ReadPoint, RowHash};
use crate::memstore::RowHeader;
use crate::merge::visibility::Rules;
use crate::options::ReadOptions;
use crate::store::state::State;
use crate::store::view::View;

const RESTARTS_MAX: u32 = 8;

/// Which commits of a row a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The newest that may be shown.
    Newest,
    /// Those of a snapshot.
    Point(ReadPoint),
}

/// Up to which commit `row` may be shown: the largest cut over its segments, down to the first that says it is complete.
pub fn cut(state: &State, view: &View, hash: RowHash, row: &[u8]) -> u64 {
    let mut best = 0;
    for segment in view.segments() {
        let Some(found) = segment.find_row(hash, row) else { continue };
        let cut = found.header().cut(|slot| state.slots.flag_of(slot), || state.durable());
        best = best.max(cut.seq);
        // No commit of this row in this segment yet (applied 0) says nothing about the older ones.
        if cut.complete && cut.applied != 0 {
            break;
        }
    }
    best
}

/// Reads columns of one row at one cut: `look` is called with the view and the cut, and again after a restart; its last answer counts.
/// `view` was loaded through a slot that the caller still holds.
pub fn row<R>(state: &State, view: &View, hash: RowHash, row: &[u8], at: At, mut look: impl FnMut(&View, u64) -> R) -> R {
    if let At::Point(point) = at {
        return look(view, point.0);
    }
    for _ in 0..RESTARTS_MAX {
        let seen = cut(state, view, hash, row);
        let answer = look(view, seen);
        RowHeader::order_second_cut();
        if cut(state, view, hash, row) == seen {
            return answer;
        }
    }
    restarted(state, view, hash, row, look)
}

#[cold]
fn restarted<R>(state: &State, view: &View, hash: RowHash, row: &[u8], mut look: impl FnMut(&View, u64) -> R) -> R {
    let _registered = state.points.register_restarted();
    // Whoever decided before it could see the registration has a number of at most this one.
    let number = state.number_now();
    loop {
        let seen = cut(state, view, hash, row);
        let answer = look(view, seen);
        RowHeader::order_second_cut();
        if seen > number || cut(state, view, hash, row) == seen {
            return answer;
        }
    }
}

/// One column at `cut`: its newest version, or the newest one in the time range that is asked for.
pub fn column<'v>(view: &'v View, name: ColumnName<'_>, rules: &Rules, o: &ReadOptions, cut: u64) -> Option<Found<'v>> {
    match o.range() {
        None => newest::at(view, name, rules, cut),
        Some(range) => newest::live(view, name, rules, &range, cut, Vec::new()).into_iter().next(),
    }
}
