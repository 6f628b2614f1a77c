//! Snapshots and scanners. A scanner's `next` lends a cell, `next_page` packs many into the caller's buffer.
//!
//! A cell that no longer fits a page waits in the scanner's *stash*, as a packed record that always carries its row; with WHOLE_ROWS a
//! whole row does. `next` and `next_page` first take what waits there, so they may be mixed.

use super::bytes::region_slice_t;
use super::guard::{self, Answer, Caller, Outcome};
use super::handle::{self, Object};
use super::options::{Read, known_bits, region_read_options_t, timeout};
use super::pack::PackedCell;
use super::read::{columns, region_column_t};
use super::region::{Open, region_t};
use super::sized::{self, plain, read_sized};
use super::status::{code, region_error_t, region_status};
use crate::error::{Error, ErrorKind, Result};
use crate::region::{Region, ScanCell, ScanSpec, Scanner, Snapshot};
use crate::sync::Mutex;
use std::ffi::c_void;

/// A snapshot. Opaque.
pub struct region_snapshot_t(());
/// A scanner. Opaque.
pub struct region_scanner_t(());

/// Bits of region_scan_t.flags.
#[repr(C)]
pub enum region_scan_flags {
    /// From the last row to the first; start_row is the largest then.
    REGION_SCAN_REVERSE = 1,
    /// end_row itself too.
    REGION_SCAN_INCLUSIVE_END = 2,
    /// Not start_row itself.
    REGION_SCAN_EXCLUSIVE_START = 4,
    /// Delete markers and deleted cells too.
    REGION_SCAN_RAW = 8,
    /// Without values.
    REGION_SCAN_KEYS_ONLY = 16,
    /// Pages end at the end of a row only.
    REGION_SCAN_WHOLE_ROWS = 32,
}

/// What a scan covers. Zeros behind struct_size: everything.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_scan_t {
    /// sizeof(region_scan_t)
    pub struct_size: u32,
    /// REGION_SCAN_*
    pub flags: u32,
    /// First row; empty = unbounded.
    pub start_row: region_slice_t,
    /// First row beyond; empty = unbounded.
    pub end_row: region_slice_t,
    /// Only rows that begin so.
    pub row_prefix: region_slice_t,
    /// Only these columns; none = all.
    pub columns: *const region_column_t,
    /// Elements of columns.
    pub n_columns: usize,
    /// sizeof(region_column_t)
    pub column_size: usize,
    /// Rows; 0 = no limit.
    pub row_limit: u64,
    /// Cells; 0 = no limit.
    pub cell_limit: u64,
    /// Versions of each column; 0 = 1.
    pub max_versions: u32,
    /// Cells of each row; 0 = no limit.
    pub cells_per_row: u32,
}

/// Values of region_cell_t.type: HBase's type codes.
#[repr(C)]
pub enum region_cell_type {
    /// A value.
    REGION_CELL_PUT = 4,
    /// Marker: the version with exactly this timestamp.
    REGION_CELL_DELETE_VERSION = 8,
    /// Marker: the versions with exactly this timestamp in the family.
    REGION_CELL_DELETE_FAMILY_VERSION = 10,
    /// Marker: the column up to this timestamp.
    REGION_CELL_DELETE = 12,
    /// Marker: the family up to this timestamp.
    REGION_CELL_DELETE_FAMILY = 14,
}

/// Bits of region_cell_t.flags and of cell records.
#[repr(C)]
pub enum region_cell_flags {
    /// The first cell of its row; in a page also the first record: a record has a row if and only if it has this flag.
    REGION_CELL_NEW_ROW = 1,
    /// The last cell of its row.
    REGION_CELL_ROW_END = 2,
    /// The value was not asked for.
    REGION_CELL_NO_VALUE = 4,
    /// region_get_packed: there is no such value.
    REGION_CELL_NOT_FOUND = 8,
}
use region_cell_flags::{REGION_CELL_NEW_ROW, REGION_CELL_NO_VALUE, REGION_CELL_ROW_END};

/// One cell of a scan.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_cell_t {
    /// Row.
    pub row: region_slice_t,
    /// Qualifier.
    pub qual: region_slice_t,
    /// Value.
    pub value: region_slice_t,
    /// In the region's clock unit.
    pub timestamp: u64,
    /// Commit.
    pub seq: u64,
    /// Family id.
    pub family: u32,
    /// REGION_CELL_PUT, REGION_CELL_DELETE, ...
    pub r#type: u16,
    /// REGION_CELL_NEW_ROW, ...
    pub flags: u16,
}
plain!(region_scan_t, region_cell_t);

/// Size in the first release.
const CELL_BYTES_FIRST: usize = 72;

/// What a `region_snapshot_t` leads to.
pub(super) struct Snap {
    pub(super) snapshot: Snapshot,
    region: Region,
}

impl Object for Snap {
    type C = region_snapshot_t;
    const NAME: &'static str = "snapshot";
    const KIND: u64 = 0x736e_6170_7368_6f00;
    fn poison(&self, reason: &str) {
        self.region.poison(reason);
    }
}

/// Fixes one instant of the whole region: reads and scans with it see every write that returned before, and no later one.
/// May wait for writes that began before it, and for one sync. *out: close it with region_snapshot_close; NULL on failure.
/// It keeps old versions alive and the region open (REGION_E_BUSY from region_close). Threads: any.
/// REGION_E_INVALID, E_TIMEOUT, E_NOMEM, E_PANIC, E_HANDLE, E_CLOSED, E_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_snapshot_open(
    r: *mut region_t,
    timeout_us: u64,
    out: *mut *mut region_snapshot_t,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Open>("region_snapshot_open", r, err, |open, c| {
            c.write(out, std::ptr::null_mut());
            c.require(out, "out")?;
            let snapshot = open.region.snapshot(timeout(timeout_us, &open.region))?;
            c.write(out, handle::create(Snap { snapshot, region: open.region.clone() })?);
            Ok(Outcome::OK)
        })
    }
}

/// The number of the last commit that a snapshot sees; 0 for what is no open snapshot, and in a forked child. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_snapshot_seq(s: *const region_snapshot_t) -> u64 {
    let mut seq = 0;
    // SAFETY: s is the C call's argument.
    unsafe {
        guard::on::<Snap>("region_snapshot_seq", s, std::ptr::null_mut(), |snap, _| {
            seq = snap.snapshot.seq();
            Ok(Outcome::OK)
        })
    };
    seq
}

/// Closes a snapshot. NULL, closed, a forked child: nothing happens. Reads that run with it finish. Threads: any, also after region_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_snapshot_close(s: *mut region_snapshot_t) {
    // SAFETY: s is the C call's argument.
    unsafe {
        guard::plain("region_snapshot_close", std::ptr::null_mut(), |_| {
            handle::close::<Snap>(s);
            Ok(Outcome::OK)
        })
    };
}

/// What a `region_scanner_t` leads to.
pub(super) struct Scan {
    region: Region,
    /// One thread at a time: a second one is told so.
    state: Mutex<State>,
}

impl Object for Scan {
    type C = region_scanner_t;
    const NAME: &'static str = "scanner";
    const KIND: u64 = 0x7363_616e_6e65_7200;
    fn poison(&self, reason: &str) {
        self.region.poison(reason);
    }
}

struct State {
    scanner: Scanner,
    whole_rows: bool,
    keys_only: bool,
    /// Packed records with rows, from `taken` on; NEW_ROW says whether a cell is the first of its row.
    stash: Vec<u8>,
    taken: usize,
    /// An error that came when a page already had cells: the next call's answer.
    failed: Option<Error>,
}

/// A row of more packed bytes is not collected for a page.
const ROW_STASH_BYTES_MAX: usize = 256 << 20;

impl State {
    fn view<'a>(cell: &ScanCell<'a>, keys_only: bool) -> PackedCell<'a> {
        let mut flags = 0;
        for (yes, flag) in [(cell.new_row, REGION_CELL_NEW_ROW), (cell.row_end, REGION_CELL_ROW_END), (keys_only, REGION_CELL_NO_VALUE)] {
            flags |= if yes { flag as u8 } else { 0 };
        }
        PackedCell {
            kind: cell.kind as u8,
            flags,
            family: cell.family,
            timestamp: cell.timestamp,
            seq: cell.seq,
            row: cell.row,
            qual: cell.qual,
            value: cell.value,
        }
    }
    /// The first record of the stash, if there is one.
    fn stashed(&self) -> Option<(PackedCell<'_>, usize)> {
        self.stash.get(self.taken..).and_then(PackedCell::read)
    }
    fn clear_stash(&mut self) {
        self.stash.clear();
        self.taken = 0;
    }
    fn next(&mut self) -> Result<Option<PackedCell<'_>>> {
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        if self.taken < self.stash.len() {
            let at = self.taken;
            self.taken += self.stashed().map_or(usize::MAX - at, |(_, len)| len);
            return Ok(self.stash.get(at..).and_then(PackedCell::read).map(|(cell, _)| cell));
        }
        let keys_only = self.keys_only;
        Ok(self.scanner.next()?.map(|cell| Self::view(&cell, keys_only)))
    }
    /// Adds a cell to the end of the stash.
    fn stash(stash: &mut Vec<u8>, cell: &PackedCell<'_>) -> Result<()> {
        let len = cell.len().ok_or_else(|| Error::new(ErrorKind::TooLarge, "a cell does not fit a record"))?;
        let at = stash.len();
        stash.try_reserve(len).map_err(|_| Error::new(ErrorKind::NoMem, format!("no memory for a cell of {len} bytes")))?;
        stash.resize(at + len, 0);
        stash.get_mut(at..).and_then(|to| cell.write(to));
        Ok(())
    }
    /// With WHOLE_ROWS: the next row into the empty stash.
    fn stash_row(&mut self) -> Result<()> {
        self.clear_stash();
        loop {
            let Some(cell) = self.scanner.next()? else { return Ok(()) };
            let cell = Self::view(&cell, self.keys_only);
            Self::stash(&mut self.stash, &cell)?;
            if cell.flags & REGION_CELL_ROW_END as u8 != 0 {
                return Ok(());
            }
            if self.stash.len() > ROW_STASH_BYTES_MAX {
                let bytes = self.stash.len();
                self.clear_stash();
                return Err(Error::new(
                    ErrorKind::TooLarge,
                    format!("a row has more than {bytes} bytes: scan it without REGION_SCAN_WHOLE_ROWS"),
                ));
            }
        }
    }
    fn page(&mut self, page: &mut [u8]) -> Result<Page> {
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        let mut out = Page { used: 0, cells: 0, needed: 0 };
        let end = if self.whole_rows { self.fill_rows(page, &mut out) } else { self.fill_cells(page, &mut out) };
        match end {
            Err(e) if out.cells == 0 => Err(e),
            Err(e) => {
                self.failed = Some(e);
                Ok(out)
            }
            Ok(()) => Ok(out),
        }
    }
    fn fill_cells(&mut self, page: &mut [u8], out: &mut Page) -> Result<()> {
        while let Some((cell, len)) = self.stashed() {
            if !out.add(page, cell) {
                return Ok(());
            }
            self.taken += len;
        }
        self.clear_stash();
        while let Some(cell) = self.scanner.next()? {
            let cell = Self::view(&cell, self.keys_only);
            if !out.add(page, cell) {
                return Self::stash(&mut self.stash, &cell);
            }
        }
        Ok(())
    }
    fn fill_rows(&mut self, page: &mut [u8], out: &mut Page) -> Result<()> {
        loop {
            if self.taken >= self.stash.len() {
                self.stash_row()?;
            }
            if self.stash.is_empty() {
                return Ok(());
            }
            let (before, row) = ((out.used, out.cells), out.used);
            let mut needed = 0;
            let mut at = self.taken;
            let mut first = true;
            while let Some((mut cell, len)) = self.stash.get(at..).and_then(PackedCell::read) {
                cell.flags &= !(REGION_CELL_NEW_ROW as u8);
                cell.flags |= if first { REGION_CELL_NEW_ROW as u8 } else { 0 };
                first = false;
                cell = Page::shortened(cell);
                needed += cell.len().unwrap_or(0);
                if let Some(len) = page.get_mut(out.used..).and_then(|to| cell.write(to)) {
                    out.used += len;
                    out.cells += 1;
                }
                at += len;
            }
            if out.used - row < needed {
                (out.used, out.cells) = before;
                out.needed = needed;
                return Ok(());
            }
            self.clear_stash();
        }
    }
}

/// What is in a page.
struct Page {
    used: usize,
    cells: usize,
    /// Bytes of what did not fit.
    needed: usize,
}

impl Page {
    /// Without its row, if it does not begin one.
    fn shortened(mut cell: PackedCell<'_>) -> PackedCell<'_> {
        if cell.flags & REGION_CELL_NEW_ROW as u8 == 0 {
            cell.row = b"";
        }
        cell
    }
    /// Adds a cell; false if it does not fit.
    fn add(&mut self, page: &mut [u8], mut cell: PackedCell<'_>) -> bool {
        if self.cells == 0 {
            cell.flags |= REGION_CELL_NEW_ROW as u8;
        }
        cell = Self::shortened(cell);
        match page.get_mut(self.used..).and_then(|to| cell.write(to)) {
            Some(len) => {
                self.used += len;
                self.cells += 1;
                true
            }
            None => {
                self.needed = cell.len().unwrap_or(usize::MAX);
                false
            }
        }
    }
}

/// Opens a scan. It sees one instant: opts->snapshot, or that of the call, which then may wait as region_snapshot_open
/// does. scan NULL: everything. *out: close it with region_scanner_close; NULL on failure. Everything is borrowed for the
/// call. Threads: any; the scanner then is used by one thread at a time.
/// REGION_E_INVALID, E_UNSUPPORTED, E_NO_FAMILY, E_TIMEOUT, E_NOMEM, E_PANIC, E_HANDLE, E_CLOSED, E_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_scanner_open(
    r: *mut region_t,
    opts: *const region_read_options_t,
    scan: *const region_scan_t,
    out: *mut *mut region_scanner_t,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Open>("region_scanner_open", r, err, |open, c| {
            c.write(out, std::ptr::null_mut());
            c.require(out, "out")?;
            let read = Read::given(c, opts)?;
            let given = read_sized(c, scan, "scan")?.unwrap_or_else(sized::zeroed);
            known_bits(given.flags, ScanSpec::FLAGS_ALL, "scan.flags")?;
            let columns = columns(c, given.columns, given.n_columns, given.column_size, "scan.columns")?;
            let spec = ScanSpec {
                flags: given.flags,
                start_row: given.start_row.bytes(c, "scan.start_row")?,
                end_row: given.end_row.bytes(c, "scan.end_row")?,
                row_prefix: given.row_prefix.bytes(c, "scan.row_prefix")?,
                columns: &columns,
                row_limit: given.row_limit,
                cell_limit: given.cell_limit,
                max_versions: given.max_versions,
                cells_per_row: given.cells_per_row,
            };
            let state = State {
                scanner: open.region.scanner(read.snapshot(), &read.options, &spec)?,
                whole_rows: given.flags & ScanSpec::WHOLE_ROWS != 0,
                keys_only: given.flags & ScanSpec::KEYS_ONLY != 0,
                stash: Vec::new(),
                taken: 0,
                failed: None,
            };
            c.write(out, handle::create(Scan { region: open.region.clone(), state: Mutex::new(state) })?);
            Ok(Outcome::OK)
        })
    }
}

/// Runs `f` on the scanner's state, unless another thread is in it.
fn with_state(scan: &Scan, c: Caller<'_>, f: impl FnOnce(&mut State, Caller<'_>) -> Answer) -> Answer {
    match scan.state.try_lock() {
        Some(mut state) => f(&mut state, c),
        None => Err(Error::new(ErrorKind::Busy, "another thread is using this scanner").retryable(false)),
    }
}

/// The next cell. *cell points into the scanner: valid until its next call of any kind. cell_size: sizeof(region_cell_t).
/// REGION_DONE at the end; damage is an error, never an early end. Threads: one at a time. REGION_DONE, REGION_E_INVALID,
/// E_IO, E_CORRUPT, E_TIMEOUT, E_NOMEM, E_BUSY (another thread is using it), E_PANIC, E_HANDLE, E_CLOSED, E_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_scanner_next(
    s: *mut region_scanner_t,
    cell: *mut region_cell_t,
    cell_size: usize,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Scan>("region_scanner_next", s, err, |scan, c| {
            with_state(scan, c, |state, c| {
                // A wrong size is told before a cell is taken.
                sized::write(c, cell, cell_size, CELL_BYTES_FIRST, 0, &sized::zeroed(), "cell")?;
                let Some(next) = state.next()? else { return Ok(Outcome::of(code::REGION_DONE)) };
                let told = region_cell_t {
                    row: region_slice_t::of(next.row),
                    qual: region_slice_t::of(next.qual),
                    value: region_slice_t::of(next.value),
                    timestamp: next.timestamp,
                    seq: next.seq,
                    family: next.family,
                    r#type: u16::from(next.kind),
                    flags: u16::from(next.flags),
                };
                sized::write(c, cell, cell_size, CELL_BYTES_FIRST, 0, &told, "cell")?;
                Ok(Outcome::OK)
            })
        })
    }
}

/// The next cells as packed records (region_pack.h): as many as fit cap bytes, with REGION_SCAN_WHOLE_ROWS whole rows only.
/// *used: bytes filled; *n_cells: records. A first record (row) that does not fit: REGION_TRUNCATED, *n_cells 0, *used the
/// bytes it needs; call again with a larger page. REGION_DONE, with both 0, at the end. May be mixed with
/// region_scanner_next. Threads: one at a time. Returns as region_scanner_next, and REGION_E_TOO_LARGE (a row of more than
/// 256 MiB with WHOLE_ROWS).
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_scanner_next_page(
    s: *mut region_scanner_t,
    page: *mut c_void,
    cap: usize,
    used: *mut usize,
    n_cells: *mut usize,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Scan>("region_scanner_next_page", s, err, |scan, c| {
            c.write(used, 0);
            c.write(n_cells, 0);
            c.require(used, "used")?;
            c.require(n_cells, "n_cells")?;
            let page = c.buffer(page, cap, "page")?;
            with_state(scan, c, |state, c| {
                let out = state.page(page)?;
                c.write(n_cells, out.cells);
                c.write(used, if out.cells == 0 { out.needed } else { out.used });
                Ok(match (out.cells, out.needed) {
                    (0, 0) => Outcome::of(code::REGION_DONE),
                    (0, _) => Outcome::of(code::REGION_TRUNCATED),
                    _ => Outcome::OK,
                })
            })
        })
    }
}

/// Goes to the first row at or behind row (REVERSE: at or before), within the scan's bounds. Threads: one at a time.
/// Returns as region_scanner_next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_scanner_seek(
    s: *mut region_scanner_t,
    row: *const c_void,
    row_len: usize,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Scan>("region_scanner_seek", s, err, |scan, c| {
            let row = c.bytes(row, row_len, "row")?;
            with_state(scan, c, |state, _| {
                state.clear_stash();
                state.failed = None;
                state.scanner.seek(row).map(|()| Outcome::OK)
            })
        })
    }
}

/// Closes a scanner. NULL, closed, a forked child: nothing happens. Threads: any, also after region_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_scanner_close(s: *mut region_scanner_t) {
    // SAFETY: s is the C call's argument.
    unsafe {
        guard::plain("region_scanner_close", std::ptr::null_mut(), |_| {
            handle::close::<Scan>(s);
            Ok(Outcome::OK)
        })
    };
}
