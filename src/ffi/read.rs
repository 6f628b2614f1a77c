//! Reads of single values, one by one or many keys at a time.

use super::bytes::{Fill, region_slice_t, region_value_t};
use super::guard::{self, Caller, Outcome};
use super::options::{Read, region_read_options_t, unsupported};
use super::pack::{PackedCell, PackedKeys, with_notes};
use super::page::RowPage;
use super::region::{Open, region_t};
use super::scan::region_cell_flags;
use super::sized::{Elements, plain};
use super::status::{code, region_error_t, region_status, status_of};
use crate::cell::CellType;
use crate::error::{Error, ErrorKind, Result};
use crate::region::{ColumnFilter, Key, Keys};
use std::ffi::c_void;

/// Values of region_column_t.kind.
#[repr(C)]
pub enum region_column_kind {
    /// All columns of the family.
    REGION_COL_FAMILY = 0,
    /// The column qual.
    REGION_COL_EXACT = 1,
    /// Columns that begin with qual.
    REGION_COL_PREFIX = 2,
    /// Columns from qual to before qual_end (empty = no bound).
    REGION_COL_RANGE = 3,
}

/// Which columns a read shows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_column_t {
    /// Family id.
    pub family: u32,
    /// REGION_COL_*
    pub kind: u32,
    /// Qualifier; empty for REGION_COL_FAMILY.
    pub qual: region_slice_t,
    /// REGION_COL_RANGE: first qualifier beyond. Else empty.
    pub qual_end: region_slice_t,
}
plain!(region_column_t);

/// Size in the first release.
const COLUMN_BYTES_FIRST: usize = 40;

/// The caller's columns.
pub(super) fn columns<'a>(
    c: Caller<'a>,
    base: *const region_column_t,
    n: usize,
    size: usize,
    name: &'static str,
) -> Result<Vec<ColumnFilter<'a>>> {
    let elements = Elements::new(c, base, n, size, COLUMN_BYTES_FIRST, name)?;
    let mut all = Vec::new();
    all.try_reserve(n).map_err(|_| Error::new(ErrorKind::NoMem, format!("no memory for {n} columns")))?;
    for i in 0..n {
        let one = elements.get(i).and_then(|col| {
            let (from, to) = (col.qual.bytes(c, "qual")?, col.qual_end.bytes(c, "qual_end")?);
            let takes = match col.kind {
                0 => [("qual", from.is_empty()), ("qual_end", to.is_empty())],
                1 | 2 => [("qual_end", to.is_empty()); 2],
                _ => [("", true); 2],
            };
            if let Some((field, _)) = takes.iter().find(|(_, fits)| !fits) {
                let name = ["REGION_COL_FAMILY", "REGION_COL_EXACT", "REGION_COL_PREFIX"].get(col.kind as usize).unwrap_or(&"");
                return Err(Error::new(ErrorKind::Invalid, format!("{field}: {name} does not take it; leave it empty")));
            }
            match col.kind {
                0 => Ok(ColumnFilter::Family(col.family)),
                1 => Ok(ColumnFilter::Exact(col.family, from)),
                2 => Ok(ColumnFilter::Prefix(col.family, from)),
                3 => Ok(ColumnFilter::Range(col.family, from, to)),
                other => Err(unsupported("kind", other)),
            }
        });
        all.push(one.map_err(|e| e.context(format_args!("{name}[{i}]")).at_op(i as u64))?);
    }
    Ok(all)
}

/// Reads the newest value of a column (of opts->snapshot: the one it shows). val: as described at region_value_t; release
/// it if val->pin is not 0. Unlike a pointer into a page it stays as it is whatever is written. An absent value:
/// REGION_NOT_FOUND, val->data NULL. Threads: any; waits for no write.
/// REGION_NOT_FOUND, REGION_E_INVALID, E_UNSUPPORTED, E_NO_FAMILY, E_RANGE, E_IO, E_CORRUPT, E_TIMEOUT, E_NOMEM, E_PANIC,
/// E_HANDLE, E_CLOSED, E_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_get(
    r: *mut region_t,
    opts: *const region_read_options_t,
    row: *const c_void,
    row_len: usize,
    family: u32,
    qual: *const c_void,
    qual_len: usize,
    val: *mut region_value_t,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            region_value_t::clear(c, val);
            Ok(())
        };
        guard::on::<Open>("region_get", r, err, outputs, |open, c| {
            let Some(mut value) = c.read(val.cast_const()) else { return Err(guard::missing("val")) };
            let key = Key { family, row: c.bytes(row, row_len, "row")?, qual: c.bytes(qual, qual_len, "qual")? };
            let read = Read::given(c, opts)?;
            let mut fill = Fill::new(c, &value)?;
            let found = open.region.get(read.snapshot(), &read.options, key, &mut fill)?;
            fill.finish(&mut value, found)?;
            c.write(val, value);
            Ok(if found.is_some() { Outcome::OK } else { Outcome::of(code::REGION_NOT_FOUND) })
        })
    }
}

/// Reads a counter as a number. *value, may be NULL: the counter; 0 with REGION_NOT_FOUND and on failure. *timestamp, may
/// be NULL: of its newest change. Threads: any; waits for no write. REGION_E_NOT_COUNTER, and as region_get.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_counter_get(
    r: *mut region_t,
    opts: *const region_read_options_t,
    row: *const c_void,
    row_len: usize,
    family: u32,
    qual: *const c_void,
    qual_len: usize,
    value: *mut i64,
    timestamp: *mut u64,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            c.write(value, 0);
            c.write(timestamp, 0);
            Ok(())
        };
        guard::on::<Open>("region_counter_get", r, err, outputs, |open, c| {
            let key = Key { family, row: c.bytes(row, row_len, "row")?, qual: c.bytes(qual, qual_len, "qual")? };
            let read = Read::given(c, opts)?;
            match open.region.counter_get(read.snapshot(), &read.options, key)? {
                None => Ok(Outcome::of(code::REGION_NOT_FOUND)),
                Some((found, ts)) => {
                    c.write(value, found);
                    c.write(timestamp, ts);
                    Ok(Outcome::OK)
                }
            }
        })
    }
}

/// Reads many counters: n packed key records (region_pack.h) that fill keys_len bytes. values: n numbers, 0 where there is
/// none. statuses: n, or NULL: REGION_OK, REGION_NOT_FOUND, or the error of that key. A key that fails makes the call fail
/// with the first such error and its op_index; the other values are still filled in. Without a snapshot each row is read as
/// region_counter_get does; with one, all at one instant. Threads: any. Returns as region_counter_get, but never
/// REGION_NOT_FOUND.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_counter_get_packed(
    r: *mut region_t,
    opts: *const region_read_options_t,
    keys: *const c_void,
    keys_len: usize,
    n: usize,
    values: *mut i64,
    statuses: *mut i32,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let tell = |c: Caller<'_>, i: usize, value: i64, status: i32| {
            c.write(values.wrapping_add(i), value);
            if !statuses.is_null() {
                c.write(statuses.wrapping_add(i), status);
            }
        };
        let outputs = |c: Caller<'_>| {
            if n > 0 {
                c.require(values, "values")?;
            }
            // An n that the buffer cannot hold says nothing about the length of values.
            let known = if n <= keys_len / 8 { n } else { 0 };
            (0..known).for_each(|i| tell(c, i, 0, code::REGION_E_NOT_RUN as i32));
            Ok(())
        };
        guard::on::<Open>("region_counter_get_packed", r, err, outputs, |open, c| {
            let bytes = c.bytes(keys, keys_len, "keys")?;
            let read = Read::given(c, opts)?;
            with_notes(|notes| {
                let keys = PackedKeys::parse(bytes, n, notes)?;
                let mut first = None;
                open.region.counter_get_many(read.snapshot(), &read.options, &keys, &mut |i, result| match result {
                    _ if i >= n => {}
                    Ok(Some((value, _))) => tell(c, i, value, 0),
                    Ok(None) => tell(c, i, 0, code::REGION_NOT_FOUND as i32),
                    Err(e) => {
                        tell(c, i, 0, status_of(e.kind()) as i32);
                        first.get_or_insert_with(|| e.at_op(i as u64));
                    }
                })?;
                first.map_or(Ok(Outcome::OK), Err)
            })
        })
    }
}

/// Reads many values into a page of cell records (region_pack.h): n packed key records that fill keys_len bytes; records in
/// input order, flag NOT_FOUND for a value that is absent. *used: bytes of page filled; *n_done: keys answered. Fewer than
/// n: the page was full; go on with the keys behind. A first value that does not fit: REGION_TRUNCATED, *n_done 0, *used
/// the bytes it needs. Without a snapshot each row is read as region_get does; with one, all at one instant. Threads: any.
/// Returns as region_get, but never REGION_NOT_FOUND; on an error *used and *n_done are 0.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_get_packed(
    r: *mut region_t,
    opts: *const region_read_options_t,
    keys: *const c_void,
    keys_len: usize,
    n: usize,
    page: *mut c_void,
    cap: usize,
    used: *mut usize,
    n_done: *mut usize,
    err: *mut region_error_t,
) -> region_status {
    use region_cell_flags::{REGION_CELL_NEW_ROW, REGION_CELL_NOT_FOUND, REGION_CELL_ROW_END};
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            c.write(used, 0);
            c.write(n_done, 0);
            Ok(())
        };
        guard::on::<Open>("region_get_packed", r, err, outputs, |open, c| {
            let bytes = c.bytes(keys, keys_len, "keys")?;
            let read = Read::given(c, opts)?;
            let page = c.buffer(page, cap, "page")?;
            c.require(used, "used")?;
            c.require(n_done, "n_done")?;
            with_notes(|notes| {
                let keys = PackedKeys::parse(bytes, n, notes)?;
                let (mut at, mut done, mut needed) = (0, 0, 0);
                let mut failed = None;
                open.region.get_many(read.snapshot(), &read.options, &keys, cap, &mut |i, found| {
                    let key = keys.get(i);
                    let flags = REGION_CELL_NEW_ROW as u8 | REGION_CELL_ROW_END as u8;
                    let mut cell = PackedCell {
                        kind: CellType::Put as u8,
                        flags,
                        family: key.family,
                        row: key.row,
                        qual: key.qual,
                        ..PackedCell::default()
                    };
                    match found {
                        Some((found, value)) => (cell.timestamp, cell.seq, cell.value) = (found.timestamp, found.seq, value),
                        None => cell.flags |= REGION_CELL_NOT_FOUND as u8,
                    }
                    match (cell.len(), page.get_mut(at..).and_then(|to| cell.write(to))) {
                        (_, Some(len)) => {
                            at += len;
                            done = i + 1;
                            true
                        }
                        (Some(len), None) => {
                            needed = len;
                            false
                        }
                        (None, None) => {
                            failed = Some(Error::new(ErrorKind::TooLarge, "a value does not fit a record").at_op(i as u64));
                            false
                        }
                    }
                })?;
                if done == 0
                    && let Some(e) = failed
                {
                    return Err(e);
                }
                c.write(n_done, done);
                c.write(used, if done == 0 { needed } else { at });
                Ok(if done == 0 && needed > 0 { Outcome::of(code::REGION_TRUNCATED) } else { Outcome::OK })
            })
        })
    }
}

/// Reads the chosen columns of one row (n_columns 0: all) into a page of cell records (region_pack.h), as region_get does: all
/// at one instant, that of the call or of opts->snapshot. Up to max_versions of each column (0 = 1; at most what its family
/// keeps), the best first. *used: bytes of page filled; *n_cells: records. All or nothing: a page that is too small gets
/// REGION_TRUNCATED, *n_cells 0 and *used the bytes it needs (now: the row may grow before the next call). A row that shows
/// nothing: REGION_NOT_FOUND, both 0. Threads: any; waits for no write. Returns as region_get, and REGION_E_TOO_LARGE.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_get_row(
    r: *mut region_t,
    opts: *const region_read_options_t,
    row: *const c_void,
    row_len: usize,
    columns: *const region_column_t,
    n_columns: usize,
    column_size: usize,
    max_versions: u32,
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
        guard::on::<Open>("region_get_row", r, err, outputs, |open, c| {
            let row = c.bytes(row, row_len, "row")?;
            let read = Read::given(c, opts)?;
            let columns = self::columns(c, columns, n_columns, column_size, "columns")?;
            let page = c.buffer(page, cap, "page")?;
            c.require(used, "used")?;
            c.require(n_cells, "n_cells")?;
            let mut sink = RowPage::new(page);
            open.region.get_row(read.snapshot(), &read.options, row, &columns, max_versions, &mut sink)?;
            let (bytes, cells) = sink.finish()?;
            c.write(n_cells, cells);
            c.write(used, bytes);
            Ok(match (bytes, cells) {
                (0, 0) => Outcome::of(code::REGION_NOT_FOUND),
                (_, 0) => Outcome::of(code::REGION_TRUNCATED),
                _ => Outcome::OK,
            })
        })
    }
}
