//! Snapshots and scanners: children of a region. They keep its memory, answer "closed" once it is closed, and count as open until they are dropped.

use super::face::{ColumnFilter, ScanCell, ScanSpec};
use super::{Inner, thread};
use crate::cell::CellType;
use crate::clock::{Clock, Timeout};
use crate::error::Result;
use crate::fail;
use crate::ids::{FamilyId, ReadPoint};
use crate::options::ReadOptions;
use crate::read::get::{self, At};
use crate::read::scan::{Scan, Sight, Then};
use crate::read::snapshot;
use crate::stats::CallKind;
use crate::sync::{Arc, AtomicU64, Ordering};

/// One instant of a region.
pub struct Snapshot {
    inner: Arc<Inner>,
    point: ReadPoint,
    at_cut: bool,
}

impl Snapshot {
    /// The number of the newest commit it sees.
    pub fn seq(&self) -> u64 {
        self.point.0
    }
    /// Where reads of `region` through this snapshot look.
    pub(super) fn at(&self, region: &Inner) -> Result<At> {
        if !std::ptr::eq(&*self.inner, region) {
            return fail!(Invalid, "the snapshot belongs to another region");
        }
        // After a failed sync rows are read at their cut, which nothing moves any more.
        Ok(if self.at_cut { At::Newest } else { At::Point(self.point) })
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.inner.state.points.close(self.point);
        release(&self.inner, &self.inner.open_snapshots);
    }
}

/// One child less. Release: a closer that sees it sees all the child did.
fn release(inner: &Inner, kind: &AtomicU64) {
    kind.fetch_sub(1, Ordering::Relaxed);
    inner.lifecycle.children.fetch_sub(1, Ordering::Release);
}

/// Opens a snapshot; counts as a child.
pub fn open_snapshot(inner: &Arc<Inner>, mut timeout: Timeout) -> Result<Snapshot> {
    let mut call = inner.lifecycle.enter(CallKind::Read, thread::index())?;
    let open = snapshot::open(&inner.state, &mut timeout)?;
    // Relaxed: counted before the running call ends, which is what a closer waits for.
    inner.open_snapshots.fetch_add(1, Ordering::Relaxed);
    inner.lifecycle.children.fetch_add(1, Ordering::Relaxed);
    call.counts(1);
    Ok(Snapshot { inner: Arc::clone(inner), point: open.point, at_cut: open.at_cut })
}

/// What a scan goes over, owned.
struct Span {
    flags: u32,
    start_row: Vec<u8>,
    end_row: Vec<u8>,
    row_prefix: Vec<u8>,
    columns: Vec<Column>,
    row_limit: u64,
    cell_limit: u64,
    cells_per_row: u64,
}

/// Columns of one family.
struct Column {
    family: FamilyId,
    qualifiers: Qualifiers,
}

enum Qualifiers {
    All,
    Exact(Vec<u8>),
    Prefix(Vec<u8>),
    /// From the first to before the second; an empty second has no bound.
    Range(Vec<u8>, Vec<u8>),
}

impl From<&ColumnFilter<'_>> for Column {
    fn from(filter: &ColumnFilter<'_>) -> Self {
        let (family, qualifiers) = match *filter {
            ColumnFilter::Family(f) => (f, Qualifiers::All),
            ColumnFilter::Exact(f, q) => (f, Qualifiers::Exact(q.to_vec())),
            ColumnFilter::Prefix(f, q) => (f, Qualifiers::Prefix(q.to_vec())),
            ColumnFilter::Range(f, from, to) => (f, Qualifiers::Range(from.to_vec(), to.to_vec())),
        };
        Self { family: FamilyId(family), qualifiers }
    }
}

impl Span {
    fn new(spec: &ScanSpec<'_>) -> Result<Self> {
        if spec.flags & (ScanSpec::REVERSE | ScanSpec::RAW) != 0 {
            return fail!(Unsupported, "reverse and raw scans are not offered by this version");
        }
        if spec.max_versions > 1 {
            return fail!(
                Unsupported,
                "scans over more than the newest version are not offered by this version; max_versions must be 0 or 1"
            );
        }
        Ok(Self {
            flags: spec.flags,
            start_row: spec.start_row.to_vec(),
            end_row: spec.end_row.to_vec(),
            row_prefix: spec.row_prefix.to_vec(),
            columns: spec.columns.iter().map(Column::from).collect(),
            row_limit: spec.row_limit,
            cell_limit: spec.cell_limit,
            cells_per_row: u64::from(spec.cells_per_row),
        })
    }
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
    /// Before the first row it may show, None; then whether it shows this one; at the end of all it may show, None.
    fn row(&self, row: &[u8]) -> Option<bool> {
        if self.has(ScanSpec::EXCLUSIVE_START) && row == self.start_row {
            return Some(false);
        }
        let beyond =
            !self.end_row.is_empty() && (row > self.end_row.as_slice() || !self.has(ScanSpec::INCLUSIVE_END) && row == self.end_row);
        (!beyond && row.starts_with(&self.row_prefix)).then_some(true)
    }
    fn column(&self, family: FamilyId, qualifier: &[u8]) -> bool {
        self.columns.is_empty()
            || self.columns.iter().any(|c| {
                c.family == family
                    && match &c.qualifiers {
                        Qualifiers::All => true,
                        Qualifiers::Exact(q) => q == qualifier,
                        Qualifiers::Prefix(p) => qualifier.starts_with(p),
                        Qualifiers::Range(from, to) => qualifier >= from.as_slice() && (to.is_empty() || qualifier < to.as_slice()),
                    }
            })
    }
}

/// Cells that were read ahead: bytes in one buffer, and where each part lies.
#[derive(Default)]
struct Ahead {
    bytes: Vec<u8>,
    cells: Vec<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    row: (usize, usize),
    qualifier: (usize, usize),
    value: (usize, usize),
    family: u32,
    timestamp: u64,
    seq: u64,
    new_row: bool,
}

impl Ahead {
    fn part(&self, (from, to): (usize, usize)) -> &[u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }
    fn add(&mut self, bytes: &[u8]) -> (usize, usize) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (from, self.bytes.len())
    }
}

/// Cells read at once: few at first, since many scans are short, then more.
const AHEAD_FIRST: usize = 16;
const AHEAD_MOST: usize = 256;
/// And not more bytes than that, but for a single cell.
const AHEAD_BYTES: usize = 256 << 10;

/// A forward scan. Used by one thread at a time.
pub struct Scanner {
    inner: Arc<Inner>,
    /// Its own read point, if it was opened without a snapshot.
    own_point: Option<ReadPoint>,
    scan: Scan,
    span: Span,
    ahead: Ahead,
    /// The buffer of the batch before, to be filled again.
    spare: Vec<u8>,
    at: usize,
    batch: usize,
    /// The row of the last cell read ahead.
    last_row: Vec<u8>,
    any_row: bool,
    rows: u64,
    cells_of_row: u64,
    given: u64,
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
    let mut call = inner.lifecycle.enter(CallKind::Read, thread::index())?;
    inner.check_read(o)?;
    let span = Span::new(spec)?;
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
        for column in &span.columns {
            if view.family(column.family).is_none() {
                return Err(super::increment::no_family(column.family));
            }
        }
        let segments: Vec<_> = view.segments().cloned().collect();
        let sight = if at_cut { Sight::Cut } else { Sight::Point(point) };
        let start = spec.row_prefix.max(spec.start_row);
        let clock = inner.state.sequencer.clock();
        Ok(Scan::new(segments, Arc::clone(&view.families), sight, (clock.unit(), clock.now()), o.range(), start))
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
    call.counts(1);
    Ok(Scanner {
        inner: Arc::clone(inner),
        own_point,
        scan,
        span,
        ahead: Ahead::default(),
        spare: Vec::new(),
        at: 0,
        batch: AHEAD_FIRST,
        last_row: Vec::new(),
        any_row: false,
        rows: 0,
        cells_of_row: 0,
        given: 0,
    })
}

impl Scanner {
    /// The next cell; None at the end.
    #[expect(clippy::should_implement_trait, reason = "lends the cell")]
    pub fn next(&mut self) -> Result<Option<ScanCell<'_>>> {
        let inner = Arc::clone(&self.inner);
        let mut call = inner.lifecycle.enter(CallKind::Read, thread::index())?;
        if self.span.cell_limit != 0 && self.given >= self.span.cell_limit {
            return Ok(None);
        }
        // One more than is given out: only the next cell tells whether this one ends its row.
        if self.at + 1 >= self.ahead.cells.len() {
            self.read_ahead();
        }
        let Some(&cell) = self.ahead.cells.get(self.at) else { return Ok(None) };
        self.at += 1;
        self.given += 1;
        call.counts(1);
        let ahead = &self.ahead;
        Ok(Some(ScanCell {
            row: ahead.part(cell.row),
            family: cell.family,
            qual: ahead.part(cell.qualifier),
            kind: CellType::Put,
            value: ahead.part(cell.value),
            timestamp: cell.timestamp,
            seq: cell.seq,
            new_row: cell.new_row,
            row_end: ahead.cells.get(self.at).is_none_or(|next| next.new_row),
        }))
    }

    /// Goes to the first row at or after `row`. Limits go on counting.
    pub fn seek(&mut self, row: &[u8]) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        let _call = inner.lifecycle.enter(CallKind::Read, thread::index())?;
        if row.len() > crate::ids::ROW_BYTES_MAX {
            return fail!(TooLarge, "a row key of {} bytes; the limit is {}", row.len(), crate::ids::ROW_BYTES_MAX);
        }
        let start = row.max(self.span.start_row.as_slice()).max(self.span.row_prefix.as_slice());
        self.scan.seek(start);
        // A row that was read ahead but not given out counts no more.
        let unseen = self.ahead.cells.get(self.at..).unwrap_or_default().iter().filter(|c| c.new_row).count();
        self.rows -= unseen as u64;
        self.ahead.cells.clear();
        self.at = 0;
        self.any_row = false;
        self.batch = AHEAD_FIRST;
        Ok(())
    }

    /// Keeps the cell that comes next, if there is one, and reads more behind it.
    fn read_ahead(&mut self) {
        let inner = &self.inner;
        let cut = |row: &[u8]| {
            let slot = inner.state.slots.claim(thread::index());
            let view = inner.state.view.load(&slot);
            get::cut(&inner.state, view, inner.state.hash(row), row)
        };
        let (span, last_row) = (&self.span, &mut self.last_row);
        let (any_row, rows, cells_of_row) = (&mut self.any_row, &mut self.rows, &mut self.cells_of_row);
        let kept = self.ahead.cells.get(self.at).copied();
        let mut fresh = Ahead { bytes: std::mem::take(&mut self.spare), cells: Vec::with_capacity(self.batch + 1) };
        fresh.bytes.clear();
        if let Some(cell) = kept {
            let (row, qualifier, value) = (self.ahead.part(cell.row), self.ahead.part(cell.qualifier), self.ahead.part(cell.value));
            let place = Place { row: fresh.add(row), qualifier: fresh.add(qualifier), value: fresh.add(value), ..cell };
            fresh.cells.push(place);
        }
        let most = self.batch + 1;
        self.scan.walk(&cut, &mut |column| {
            match span.row(column.row) {
                None => return Then::End,
                Some(false) => return Then::GoOn,
                Some(true) => {}
            }
            if !span.column(column.family, column.qualifier) {
                return Then::GoOn;
            }
            let new_row = !*any_row || last_row.as_slice() != column.row;
            if new_row {
                if span.row_limit != 0 && *rows >= span.row_limit {
                    return Then::End;
                }
                *any_row = true;
                *rows += 1;
                *cells_of_row = 0;
                last_row.clear();
                last_row.extend_from_slice(column.row);
            }
            if span.cells_per_row != 0 && *cells_of_row >= span.cells_per_row {
                return Then::GoOn;
            }
            *cells_of_row += 1;
            let row = match fresh.cells.last() {
                Some(before) if !new_row => before.row,
                _ => fresh.add(column.row),
            };
            let qualifier = fresh.add(column.qualifier);
            let value = if span.has(ScanSpec::KEYS_ONLY) { (0, 0) } else { column.found.value.with(|bytes| fresh.add(bytes)) };
            let (timestamp, seq) = (column.found.ts, column.found.seq);
            fresh.cells.push(Place { row, qualifier, value, family: column.family.0, timestamp, seq, new_row });
            if fresh.cells.len() >= most || fresh.bytes.len() >= AHEAD_BYTES && fresh.cells.len() > 1 { Then::Pause } else { Then::GoOn }
        });
        self.spare = std::mem::replace(&mut self.ahead, fresh).bytes;
        self.at = 0;
        self.batch = (self.batch * 2).min(AHEAD_MOST);
    }
}
