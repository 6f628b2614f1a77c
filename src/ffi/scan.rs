//! Snapshots and scanners.

use super::bytes::region_slice_t;
use super::guard::{self, Answer, Caller, Outcome};
use super::handle::{self, Object};
use super::options::{Read, known_bits, region_read_options_t, timeout};
use super::page::State;
use super::read::{columns, region_column_t};
use super::region::{Open, region_t};
use super::sized::{self, plain, read_sized};
use super::status::{code, region_error_t, region_status};
use crate::error::{Error, ErrorKind};
use crate::region::{Region, ScanSpec, Snapshot};
use crate::sync::Mutex;
use std::ffi::c_void;

/// A snapshot. Opaque.
pub struct region_snapshot_t(());
/// A scanner. Opaque.
pub struct region_scanner_t(());

/// Bits of region_scan_t.flags.
#[repr(C)]
pub enum region_scan_flags {
    /// From the last row to the first: start_row is the largest then, end_row the smallest. The cells of a row come as ever.
    REGION_SCAN_REVERSE = 1,
    /// end_row itself too.
    REGION_SCAN_INCLUSIVE_END = 2,
    /// Not start_row itself.
    REGION_SCAN_EXCLUSIVE_START = 4,
    /// Everything that is stored: all delete markers, and up to max_versions values of each column, deleted ones too. Markers of
    /// a family come first in it, with an empty qualifier. Not together with columns.
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
    /// First row, or the first behind it (REVERSE: before it); empty = unbounded.
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
    /// Versions of each column, at most what its family keeps; 0 = 1. The best, that is the one with the largest timestamp, first.
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
    const OWNED: bool = true;
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
        let outputs = |c: Caller<'_>| {
            c.write(out, std::ptr::null_mut());
            c.require(out, "out")
        };
        guard::on::<Open>("region_snapshot_open", r, err, outputs, |open, c| {
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
        guard::on::<Snap>("region_snapshot_seq", s, std::ptr::null_mut(), guard::no_outputs, |snap, _| {
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
        guard::plain("region_snapshot_close", std::ptr::null_mut(), guard::no_outputs, |_| {
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
    const OWNED: bool = true;
    fn poison(&self, reason: &str) {
        self.region.poison(reason);
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
        let outputs = |c: Caller<'_>| {
            c.write(out, std::ptr::null_mut());
            c.require(out, "out")
        };
        guard::on::<Open>("region_scanner_open", r, err, outputs, |open, c| {
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
            let scanner = open.region.scanner(read.snapshot(), &read.options, &spec)?;
            let state = State::new(scanner, given.flags);
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
        // A wrong size is told before a cell is taken.
        let outputs = |c: Caller<'_>| sized::write(c, cell, cell_size, CELL_BYTES_FIRST, 0, &sized::zeroed(), "cell");
        guard::on::<Scan>("region_scanner_next", s, err, outputs, |scan, c| {
            with_state(scan, c, |state, c| {
                let Some((next, flags)) = state.next()? else { return Ok(Outcome::of(code::REGION_DONE)) };
                let told = region_cell_t {
                    row: region_slice_t::of(next.row),
                    qual: region_slice_t::of(next.qual),
                    value: region_slice_t::of(next.value),
                    timestamp: next.timestamp,
                    seq: next.seq,
                    family: next.family,
                    r#type: next.kind as u16,
                    flags: flags as u16,
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
/// region_scanner_next. Threads: one at a time. Returns as region_scanner_next, and REGION_E_TOO_LARGE.
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
        let outputs = |c: Caller<'_>| {
            c.write(used, 0);
            c.write(n_cells, 0);
            Ok(())
        };
        guard::on::<Scan>("region_scanner_next_page", s, err, outputs, |scan, c| {
            c.require(used, "used")?;
            c.require(n_cells, "n_cells")?;
            let page = c.buffer(page, cap, "page")?;
            with_state(scan, c, |state, c| {
                let (bytes, cells) = state.page(page)?;
                c.write(n_cells, cells);
                c.write(used, bytes);
                Ok(match (bytes, cells) {
                    (0, 0) => Outcome::of(code::REGION_DONE),
                    (_, 0) => Outcome::of(code::REGION_TRUNCATED),
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
        guard::on::<Scan>("region_scanner_seek", s, err, guard::no_outputs, |scan, c| {
            let row = c.bytes(row, row_len, "row")?;
            with_state(scan, c, |state, _| state.seek(row).map(|()| Outcome::OK))
        })
    }
}

/// Closes a scanner. NULL, closed, a forked child: nothing happens. Threads: any, also after region_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_scanner_close(s: *mut region_scanner_t) {
    // SAFETY: s is the C call's argument.
    unsafe {
        guard::plain("region_scanner_close", std::ptr::null_mut(), guard::no_outputs, |_| {
            handle::close::<Scan>(s);
            Ok(Outcome::OK)
        })
    };
}
