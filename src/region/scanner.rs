//! Scanners: children of a region. They keep its memory, answer "closed" once it is closed, and count as open until they are dropped.
//!
//! A caller takes cells one by one (`next`, from a batch read ahead) or lets them be handed to a sink straight from where they lie (`fill`: pages). Both may
//! be mixed: what was read ahead comes first. Only the next cell tells whether one was the last of its row, so a batch ends before a cell that was
//! looked at and refused.

use super::ahead::Ahead;
use super::face::{Filled, ScanCell, ScanSpec};
use super::scan_spec;
use super::snapshot::{Snapshot, release};
use super::{Inner, thread};
use crate::clock::Timeout;
use crate::error::Result;
use crate::fail;
use crate::ids::ReadPoint;
use crate::options::ReadOptions;
use crate::read::get;
use crate::read::scan::{Saved, Scan, ScanCell as Seen, Sight, Then};
use crate::read::snapshot;
use crate::stats::CallKind;
use crate::sync::{Arc, Ordering};

/// Cells read at once: few at first, since many scans are short, then more.
const AHEAD_FIRST: usize = 16;
const AHEAD_MOST: usize = 256;
/// And not more bytes than that, but for a single cell.
const AHEAD_BYTES: usize = 256 << 10;

/// How much of a scan is given out, and how much may be.
#[derive(Clone, Copy, Default)]
struct Limits {
    row_limit: u64,
    cell_limit: u64,
    cells_per_row: u64,
    rows: u64,
    cells: u64,
    cells_of_row: u64,
}

impl Limits {
    /// What a limit says to the next cell; None: it may be given out.
    #[inline]
    fn refuse(&self, new_row: bool) -> Option<Then> {
        // In this order: a limit on the row says that the row is over, whatever limit the next row's first cell meets.
        if !new_row && self.cells_per_row != 0 && self.cells_of_row >= self.cells_per_row {
            return Some(Then::NextRow);
        }
        let is_over =
            self.cell_limit != 0 && self.cells >= self.cell_limit || new_row && self.row_limit != 0 && self.rows >= self.row_limit;
        is_over.then_some(Then::End)
    }
    #[inline]
    fn count(&mut self, new_row: bool) {
        if new_row {
            self.rows += 1;
            self.cells_of_row = 0;
        }
        self.cells += 1;
        self.cells_of_row += 1;
    }
}

/// A scan. Used by one thread at a time.
pub struct Scanner {
    inner: Arc<Inner>,
    /// Its own read point, if it was opened without a snapshot.
    own_point: Option<ReadPoint>,
    scan: Scan,
    keys_only: bool,
    limits: Limits,
    ahead: Ahead,
    batch: usize,
    mark: Option<Mark>,
}

/// Where the row began that a sink is being given: to come back to.
struct Mark {
    at: Start,
    limits: Limits,
    /// Where the scan stood when the sink began to be filled from it.
    filled_from: Option<Saved>,
}

#[derive(Clone, Copy)]
enum Start {
    /// At this cell of those read ahead.
    Ahead(usize),
    /// Where the scan stood when the sink began to be filled from it.
    Fill,
    /// At the beginning of its row.
    Row,
}

impl Drop for Scanner {
    fn drop(&mut self) {
        if let Some(point) = self.own_point {
            self.inner.state.points.close(point);
        }
        release(&self.inner, &self.inner.open_scanners);
    }
}

/// Opens a scanner; counts as a child.
pub fn open_scanner(inner: &Arc<Inner>, o: &ReadOptions, of: Option<&Snapshot>, spec: &ScanSpec<'_>) -> Result<Scanner> {
    let _call = inner.lifecycle.enter(CallKind::Read, thread::index())?;
    inner.check_read(o)?;
    let rows = scan_spec::rows(spec)?;
    let mut timeout = Timeout::from_micros(o.timeout_us.unwrap_or(inner.write_timeout_us));
    let (point, at_cut, own_point) = match of {
        Some(s) => {
            s.at(inner)?;
            // A hold of its own: the snapshot may be closed before the scan.
            inner.state.points.hold(s.point);
            (s.point, s.at_cut, Some(s.point))
        }
        None => {
            let open = snapshot::open(&inner.state, &mut timeout)?;
            (open.point, open.at_cut, Some(open.point))
        }
    };
    let opened = (|| {
        let slot = inner.state.slots.claim(thread::index());
        let view = inner.state.view.load(&slot);
        let columns = scan_spec::selection(view, spec.columns)?;
        let segments: Vec<_> = view.segments().cloned().collect();
        let sight = if at_cut { Sight::Cut } else { Sight::Point(point) };
        let terms = scan_spec::terms(inner, o, spec.max_versions, spec.flags & ScanSpec::RAW != 0);
        Ok(Scan::new(segments, Arc::clone(&view.families), sight, terms, rows, columns))
    })();
    let scan = match opened {
        Ok(scan) => scan,
        Err(e) => {
            if let Some(point) = own_point {
                inner.state.points.close(point);
            }
            return Err(e);
        }
    };
    inner.open_scanners.fetch_add(1, Ordering::Relaxed);
    inner.lifecycle.children.fetch_add(1, Ordering::Relaxed);
    let (row_limit, cell_limit, cells_per_row) = (spec.row_limit, spec.cell_limit, u64::from(spec.cells_per_row));
    Ok(Scanner {
        inner: Arc::clone(inner),
        own_point,
        scan,
        keys_only: spec.flags & ScanSpec::KEYS_ONLY != 0,
        limits: Limits { row_limit, cell_limit, cells_per_row, ..Limits::default() },
        ahead: Ahead::default(),
        batch: AHEAD_FIRST,
        mark: None,
    })
}

/// Shows a cell of the scan to `f` in the form that callers get.
#[inline]
fn told<R>(seen: &Seen<'_>, keys_only: bool, f: impl FnOnce(&ScanCell<'_>) -> R) -> R {
    let show = |value: &[u8]| {
        f(&ScanCell {
            row: seen.row,
            family: seen.family.0,
            qual: seen.qualifier,
            timestamp: seen.cell.ts,
            seq: seen.cell.seq,
            kind: seen.cell.kind,
            value,
            new_row: seen.new_row,
            row_end: false,
        })
    };
    if keys_only { show(b"") } else { seen.cell.value.with(show) }
}

impl Scanner {
    /// The next cell; None at the end.
    #[expect(clippy::should_implement_trait, reason = "lends the cell")]
    pub fn next(&mut self) -> Result<Option<ScanCell<'_>>> {
        let mut call = self.inner.lifecycle.enter(CallKind::Read, thread::index())?;
        if self.ahead.is_used_up() {
            Self::read_ahead(&self.inner, &mut self.scan, &mut self.ahead, &mut self.limits, &mut self.batch, self.keys_only);
        }
        let cell = self.ahead.take();
        call.counts(u64::from(cell.is_some()));
        Ok(cell)
    }

    /// Hands cells to `sink` until it answers false; that cell is the next one then. A cell's `row_end` is set only where it is known: that it was not the
    /// last one of its row is told by the next one's `new_row`.
    ///
    /// With `whole_rows`, [`Scanner::put_row_back`] may be called after a cell was refused.
    #[inline]
    pub fn fill(&mut self, whole_rows: bool, mut sink: impl FnMut(&ScanCell<'_>) -> bool) -> Result<Filled> {
        let inner = Arc::clone(&self.inner);
        let mut call = inner.lifecycle.enter(CallKind::Read, thread::index())?;
        let mut given = 0;
        self.mark = None;
        if whole_rows {
            self.mark = Some(Mark { at: Start::Ahead(self.ahead.position()), limits: self.limits, filled_from: None });
        }
        // Those read ahead count as given out already.
        while let Some(cell) = self.ahead.peek() {
            if !sink(&cell) {
                call.counts(given);
                return Ok(Filled::Full);
            }
            if let Some(mark) = self.mark.as_mut().filter(|_| cell.new_row && given > 0) {
                mark.at = Start::Ahead(self.ahead.position());
            }
            self.ahead.pass();
            given += 1;
        }
        let is_first = given == 0;
        if let Some(mark) = &mut self.mark {
            mark.filled_from = Some(self.scan.save());
            if is_first {
                mark.at = Start::Fill;
            }
        }
        let (limits, mark, keys_only) = (&mut self.limits, &mut self.mark, self.keys_only);
        // Those read ahead know it themselves.
        let mut row_ended = false;
        let cut = |row: &[u8]| cut(&inner, row);
        let ended = self.scan.walk(cut, |seen| {
            if let Some(then) = limits.refuse(seen.new_row) {
                row_ended = seen.new_row || then == Then::NextRow;
                return then;
            }
            if !told(&seen, keys_only, &mut sink) {
                return Then::Refused;
            }
            if let Some(mark) = mark.as_mut().filter(|_| seen.new_row && given > 0) {
                (mark.at, mark.limits) = (Start::Row, *limits);
            }
            limits.count(seen.new_row);
            given += 1;
            row_ended = true;
            Then::Taken
        });
        call.counts(given);
        Ok(if ended { Filled::End { row_ended } } else { Filled::Full })
    }

    /// After [`Scanner::fill`] with `whole_rows`: the cells of the last row that it gave a cell of come again, all that it gave.
    pub fn put_row_back(&mut self) {
        let Some(mark) = self.mark.take() else { return };
        match (mark.at, mark.filled_from) {
            (Start::Row, _) => self.scan.back_to_row(),
            (Start::Fill, Some(place)) => self.scan.restore(place),
            (Start::Fill, None) => {}
            (Start::Ahead(at), place) => {
                self.ahead.go_back(at);
                if let Some(place) = place {
                    self.scan.restore(place);
                }
            }
        }
        self.limits = mark.limits;
    }

    /// Goes to the first row at or after `row` (reverse: at or before it). Limits go on counting.
    pub fn seek(&mut self, row: &[u8]) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        let _call = inner.lifecycle.enter(CallKind::Read, thread::index())?;
        if row.len() > crate::ids::ROW_BYTES_MAX {
            return fail!(TooLarge, "a row key of {} bytes; the limit is {}", row.len(), crate::ids::ROW_BYTES_MAX);
        }
        self.scan.seek(row);
        // What was read ahead but not given out counts no more.
        let (cells, rows) = self.ahead.waiting();
        self.limits.cells -= cells;
        self.limits.rows -= rows;
        self.ahead.clear();
        self.batch = AHEAD_FIRST;
        Ok(())
    }

    /// Reads the next batch.
    fn read_ahead(inner: &Inner, scan: &mut Scan, ahead: &mut Ahead, limits: &mut Limits, batch: &mut usize, keys_only: bool) {
        ahead.clear();
        let mut row_ended = true;
        scan.walk(
            |row| cut(inner, row),
            |seen| {
                if let Some(then) = limits.refuse(seen.new_row) {
                    row_ended = seen.new_row || then == Then::NextRow;
                    return then;
                }
                let (bytes, cells) = ahead.size();
                if cells >= *batch || bytes >= AHEAD_BYTES && cells > 0 {
                    row_ended = seen.new_row;
                    return Then::Refused;
                }
                told(&seen, keys_only, |cell| ahead.push(cell));
                limits.count(seen.new_row);
                row_ended = true;
                Then::Taken
            },
        );
        if row_ended {
            ahead.end_row();
        }
        *batch = (*batch * 2).min(AHEAD_MOST);
    }
}

/// A row's cut, for scans of a poisoned region.
#[cold]
fn cut(inner: &Inner, row: &[u8]) -> u64 {
    let slot = inner.state.slots.claim(thread::index());
    let view = inner.state.view.load(&slot);
    get::cut(&inner.state, view, inner.state.hash(row), row)
}
