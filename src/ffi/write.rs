//! Writes of one row: pointers to slices, one call, results last.

use super::bytes::{Fill, region_slice_t, region_value_t};
use super::guard::{self, Caller, Outcome};
use super::op::{NOTHING, mutation, takes_its_fields};
use super::options::{Write, known_bits, region_write_options_t, timeout};
use super::region::{Open, region_t};
use super::sized::{Elements, plain};
use super::status::{code, region_error_t, region_status};
use crate::error::{Error, ErrorKind};
use crate::ids::SequenceNumber;
use crate::region::{CommitInfo, IncrementColumn, IncrementColumns, Mutation, Op};
use std::ffi::c_void;

/// One column of region_increment_row.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_inc_col_t {
    /// Family id.
    pub family: u32,
    /// 0
    pub flags: u32,
    /// Qualifier.
    pub qual: region_slice_t,
    /// What to add.
    pub delta: i64,
}

plain!(region_inc_col_t);

/// Size in the first release.
const INC_COL_BYTES_FIRST: usize = 32;

/// Adds delta to a counter, atomically. An absent counter is 0; a value that is not 8 bytes is REGION_E_NOT_COUNTER; the
/// sum wraps unless REGION_W_CHECK_OVERFLOW. Delta 0 reads an existing counter and creates an absent one. *value, may be
/// NULL: the counter after it (before it with REGION_W_RETURN_OLD); 0 on failure. Pointers are borrowed for the call.
/// Threads: any; waits for another write of this row only. On an error nothing was changed, REGION_E_OUTCOME_UNKNOWN
/// excepted.
/// REGION_NOT_APPLIED (a bound; *value = current), REGION_E_INVALID, E_UNSUPPORTED, E_NO_FAMILY, E_NOT_COUNTER, E_OVERFLOW,
/// E_RANGE, E_TOO_LARGE, E_BUSY, E_TIMEOUT, E_OUTCOME_UNKNOWN, E_NOSPACE, E_IO, E_READONLY, E_POISONED, E_PANIC, E_HANDLE,
/// E_CLOSED, E_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_increment(
    r: *mut region_t,
    row: *const c_void,
    row_len: usize,
    family: u32,
    qual: *const c_void,
    qual_len: usize,
    delta: i64,
    opts: *const region_write_options_t,
    value: *mut i64,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            c.write(value, 0);
            Write::clear(c, opts);
            Ok(())
        };
        guard::on::<Open>("region_increment", r, err, outputs, |open, c| {
            let (row, qual) = (c.bytes(row, row_len, "row")?, c.bytes(qual, qual_len, "qual")?);
            let write = Write::given(c, opts)?;
            let mut info = CommitInfo::default();
            let counted = open.region.increment(row, family, qual, delta, &write.options, &mut info)?;
            write.tell(&info)?;
            c.write(value, counted.value);
            Ok(if counted.applied { Outcome::OK } else { Outcome::of(code::REGION_NOT_APPLIED) })
        })
    }
}

/// A check or bound was not met: that of this element.
pub(super) fn not_applied(op_index: usize) -> Outcome {
    Outcome { op_index: op_index as u64, ..Outcome::of(code::REGION_NOT_APPLIED) }
}

/// Columns of `region_increment_row`, checked before.
struct Columns<'a>(Elements<'a, region_inc_col_t>);

impl IncrementColumns for Columns<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> IncrementColumn<'_> {
        let column = self.0.get(i).and_then(|col| {
            let qual = col.qual.bytes(self.0.caller(), "qual")?;
            Ok(IncrementColumn { family: col.family, qual, delta: col.delta })
        });
        column.unwrap_or(IncrementColumn { family: 0, qual: b"", delta: 0 })
    }
}

/// Adds to several counters of one row, all of them or none, in one commit. Values in input order: values has n elements,
/// or is NULL; 0 on an error. A bound that one column does not meet refuses the whole call (REGION_NOT_APPLIED).
/// err->op_index: the column that failed or whose bound was not met. Else as region_increment. Threads: any.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_increment_row(
    r: *mut region_t,
    row: *const c_void,
    row_len: usize,
    cols: *const region_inc_col_t,
    n: usize,
    col_size: usize,
    opts: *const region_write_options_t,
    values: *mut i64,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            Write::clear(c, opts);
            // An n that is out of all bounds says nothing about the length of values.
            if Elements::new(c, cols, n, col_size, INC_COL_BYTES_FIRST, "cols").is_ok() && !values.is_null() {
                (0..n).for_each(|i| c.write(values.wrapping_add(i), 0));
            }
            Ok(())
        };
        guard::on::<Open>("region_increment_row", r, err, outputs, |open, c| {
            let row = c.bytes(row, row_len, "row")?;
            let write = Write::given(c, opts)?;
            let columns = Columns(Elements::new(c, cols, n, col_size, INC_COL_BYTES_FIRST, "cols")?);
            for i in 0..n {
                let one = columns.0.get(i).and_then(|col| {
                    known_bits(col.flags, 0, "flags")?;
                    col.qual.bytes(c, "qual").map(|_| ())
                });
                one.map_err(|e| e.context(format_args!("cols[{i}]")).at_op(i as u64))?;
            }
            let mut info = CommitInfo::default();
            let mut told: smallvec::SmallVec<[i64; 16]> = smallvec::SmallVec::new();
            told.try_reserve(n).map_err(|_| Error::new(ErrorKind::NoMem, format!("no memory for {n} values")))?;
            told.resize(n, 0);
            let unmet = open.region.increment_row(row, &columns, &write.options, &mut info, &mut told)?;
            write.tell(&info)?;
            if !values.is_null() {
                for (i, value) in told.iter().enumerate() {
                    c.write(values.wrapping_add(i), *value);
                }
            }
            Ok(unmet.map_or(Outcome::OK, not_applied))
        })
    }
}

/// Stores a value. Pointers are borrowed for the call. Threads: any. Returns as region_increment, but for NOT_APPLIED,
/// NOT_COUNTER and OVERFLOW.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_put(
    r: *mut region_t,
    row: *const c_void,
    row_len: usize,
    family: u32,
    qual: *const c_void,
    qual_len: usize,
    value: *const c_void,
    value_len: usize,
    opts: *const region_write_options_t,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Open>("region_put", r, err, Write::only_info(opts), |open, c| {
            let (row, qual) = (c.bytes(row, row_len, "row")?, c.bytes(qual, qual_len, "qual")?);
            let value = c.bytes(value, value_len, "value")?;
            let write = Write::given(c, opts)?;
            let mut info = CommitInfo::default();
            open.region.put(row, family, qual, value, &write.options, &mut info)?;
            write.tell(&info)?;
            Ok(Outcome::OK)
        })
    }
}

/// Deletes. op: REGION_OP_DELETE (0 = the same: all versions of the column), DELETE_VERSION, DELETE_FAMILY,
/// DELETE_FAMILY_VERSION or DELETE_ROW. What an op does not take is 0 or empty: qual of the last three, family of DELETE_ROW.
/// It hides what was written before it and is not newer than its timestamp (opts->timestamp, else the commit's), never
/// what is written after it. Pointers are borrowed for the call. Threads: any.
/// Returns as region_put.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_delete(
    r: *mut region_t,
    row: *const c_void,
    row_len: usize,
    family: u32,
    qual: *const c_void,
    qual_len: usize,
    op: u32,
    opts: *const region_write_options_t,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Open>("region_delete", r, err, Write::only_info(opts), |open, c| {
            let (row, qual) = (c.bytes(row, row_len, "row")?, c.bytes(qual, qual_len, "qual")?);
            let write = Write::given(c, opts)?;
            let op = if op == 0 { Op::Delete } else { mutation(op, 0, 0)? };
            if !matches!(op, Op::Delete | Op::DeleteVersion | Op::DeleteFamily | Op::DeleteFamilyVersion | Op::DeleteRow) {
                return Err(Error::new(ErrorKind::Invalid, format!("op: {} does not delete", op.name())));
            }
            takes_its_fields(&Mutation { op, family, row, qual, ..NOTHING })?;
            let mut info = CommitInfo::default();
            open.region.delete(row, family, qual, op, &write.options, &mut info)?;
            write.tell(&info)?;
            Ok(Outcome::OK)
        })
    }
}

/// Adds bytes to the end of a value; an absent one is empty. *new_value, may be NULL: the whole new value, as region_get
/// fills it. With a nonce the value is kept for a retry, and counts against nonce_bytes_max; a retry that wants it where the first call
/// did not is REGION_E_INVALID. Threads: any. Returns as region_put.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_append(
    r: *mut region_t,
    row: *const c_void,
    row_len: usize,
    family: u32,
    qual: *const c_void,
    qual_len: usize,
    suffix: *const c_void,
    suffix_len: usize,
    opts: *const region_write_options_t,
    new_value: *mut region_value_t,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            region_value_t::clear(c, new_value);
            Write::clear(c, opts);
            Ok(())
        };
        guard::on::<Open>("region_append", r, err, outputs, |open, c| {
            let mut value = c.read(new_value.cast_const());
            let (row, qual) = (c.bytes(row, row_len, "row")?, c.bytes(qual, qual_len, "qual")?);
            let suffix = c.bytes(suffix, suffix_len, "suffix")?;
            let write = Write::given(c, opts)?;
            let mut info = CommitInfo::default();
            let mut fill = value.as_ref().map(|v| Fill::new(c, v)).transpose()?;
            let sink = fill.as_mut().map(|f| f as _);
            let found = open.region.append(row, family, qual, suffix, &write.options, &mut info, sink)?;
            write.tell(&info)?;
            if let (Some(fill), Some(value)) = (fill, value.as_mut()) {
                fill.finish(value, Some(found))?;
                c.write(new_value, *value);
            }
            Ok(Outcome::OK)
        })
    }
}

/// Waits until a commit, and with it every earlier one, is on stable storage. commit_seq: from region_commit_info_t, or
/// err->commit_seq of REGION_E_OUTCOME_UNKNOWN. Threads: any. REGION_E_INVALID (0, or a number that was not given),
/// E_TIMEOUT (wait again), E_POISONED (it may be lost), E_HANDLE, E_CLOSED, E_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_wait_durable(
    r: *mut region_t,
    commit_seq: u64,
    timeout_us: u64,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Open>("region_wait_durable", r, err, guard::no_outputs, |open, _| {
            open.region.wait_durable(SequenceNumber(commit_seq), timeout(timeout_us, &open.region)).map(|()| Outcome::OK)
        })
    }
}
