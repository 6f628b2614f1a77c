//! Writes: pointers to slices, one call, results last.

use super::bytes::{Fill, region_slice_t, region_value_t};
use super::guard::{self, Answer, Caller, Outcome};
use super::options::{Write, known_bits, must_be_zero, region_write_options_t, timeout, unsupported};
use super::pack::{PackedIncrements, PackedOps, with_notes};
use super::region::{Open, region_t};
use super::sized::{Elements, plain};
use super::status::{code, region_error_t, region_status, status_of};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::SequenceNumber;
use crate::region::{BatchOutcome, CommitInfo, Comparison, IncrementColumn, IncrementColumns, Mutation, Mutations, Op, OpResult, OpStatus};
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

/// Bits of region_op_result_t.flags.
#[repr(C)]
pub enum region_result_flags {
    /// This element may be tried again and cannot count twice.
    REGION_RESULT_RETRYABLE = 1,
    /// Answered from the nonce's first run.
    REGION_RESULT_DUPLICATE = 2,
}

/// How one element of a batch ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct region_op_result_t {
    /// As a call returns it: REGION_OK, REGION_NOT_APPLIED, REGION_E_*.
    pub status: i32,
    /// REGION_RESULT_*
    pub flags: u32,
    /// Of increments and checks: the counter.
    pub value: i64,
}

/// Values of region_mutation_t.op.
#[repr(C)]
pub enum region_op {
    /// Store a value.
    REGION_OP_PUT = 1,
    /// All versions of the column.
    REGION_OP_DELETE = 2,
    /// One version of the column: the one with this timestamp, the newest if it is 0.
    REGION_OP_DELETE_VERSION = 3,
    /// All columns of the family in this row.
    REGION_OP_DELETE_FAMILY = 4,
    /// All families of this row.
    REGION_OP_DELETE_ROW = 5,
    /// Add bytes to the end of the value.
    REGION_OP_APPEND = 6,
    /// Add delta to the counter.
    REGION_OP_INCREMENT = 7,
    /// All versions with this timestamp in the family.
    REGION_OP_DELETE_FAMILY_VERSION = 8,
    /// A condition on its group (with REGION_W_ATOMIC: on the call).
    REGION_OP_CHECK = 9,
}

/// region_mutation_t.flags of REGION_OP_CHECK: one comparison, and REGION_CHECK_I64 or not.
#[repr(C)]
pub enum region_check {
    /// stored == value. Bytes compare unsigned.
    REGION_CHECK_EQ = 1,
    /// stored != value
    REGION_CHECK_NE = 2,
    /// stored < value
    REGION_CHECK_LT = 3,
    /// stored <= value
    REGION_CHECK_LE = 4,
    /// stored > value
    REGION_CHECK_GT = 5,
    /// stored >= value
    REGION_CHECK_GE = 6,
    /// There is a value.
    REGION_CHECK_EXISTS = 7,
    /// There is none.
    REGION_CHECK_ABSENT = 8,
    /// Added to the above: compare the counter with delta, signed.
    REGION_CHECK_I64 = 256,
}

/// One element of a batch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_mutation_t {
    /// REGION_OP_*
    pub op: u32,
    /// CHECK: REGION_CHECK_*; else 0.
    pub flags: u32,
    /// Family id; 0 for DELETE_ROW.
    pub family: u32,
    /// 0
    pub ttl_ms: u32,
    /// Row.
    pub row: region_slice_t,
    /// Qualifier.
    pub qual: region_slice_t,
    /// PUT, APPEND: bytes. CHECK: what is expected.
    pub value: region_slice_t,
    /// INCREMENT: what to add. CHECK with I64: what is expected.
    pub delta: i64,
    /// 0 = assigned.
    pub timestamp: u64,
}
plain!(region_inc_col_t, region_op_result_t, region_mutation_t);

/// Flag of a packed op record: its row is that of the record before. Not a flag of region_mutation_t.
pub(super) const SAME_ROW: u32 = 1 << 16;

/// Sizes in the first release.
const INC_COL_BYTES_FIRST: usize = 32;
const MUTATION_BYTES_FIRST: usize = 80;
const RESULT_BYTES_FIRST: usize = 16;

/// What an element does, from its numbers.
pub(super) fn mutation(op: u32, flags: u32, ttl_ms: u32) -> Result<Op> {
    must_be_zero(u64::from(ttl_ms), "ttl_ms")?;
    let op = match op {
        1 => Op::Put,
        2 => Op::Delete,
        3 => Op::DeleteVersion,
        4 => Op::DeleteFamily,
        5 => Op::DeleteRow,
        6 => Op::Append,
        7 => Op::Increment,
        8 => Op::DeleteFamilyVersion,
        9 => return check(flags),
        0 => return Err(Error::new(ErrorKind::Invalid, "op is 0")),
        _ => return Err(unsupported("op", op)),
    };
    known_bits(flags, 0, "flags")?;
    Ok(op)
}

fn check(flags: u32) -> Result<Op> {
    let i64_bit = region_check::REGION_CHECK_I64 as u32;
    let how = match flags & !i64_bit {
        1 => Comparison::Equal,
        2 => Comparison::NotEqual,
        3 => Comparison::Less,
        4 => Comparison::LessOrEqual,
        5 => Comparison::Greater,
        6 => Comparison::GreaterOrEqual,
        7 => Comparison::Exists,
        8 => Comparison::Absent,
        0 => return Err(Error::new(ErrorKind::Invalid, "flags: a check needs one of REGION_CHECK_*")),
        other => return Err(unsupported("flags", format_args!("0x{other:x}"))),
    };
    Ok(Op::Check { how, as_counter: flags & i64_bit != 0 })
}

/// Stands in for an element that cannot be read any more, since the caller changed it during the call: refused by the core,
/// as a row cannot be empty.
pub(super) const NOTHING: Mutation<'static> =
    Mutation { op: Op::Delete, family: 0, row: b"", qual: b"", value: b"", delta: 0, timestamp: 0 };

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
        guard::on::<Open>("region_increment", r, err, |open, c| {
            // Before anything can fail, or panic.
            c.write(value, 0);
            let (row, qual) = (c.bytes(row, row_len, "row")?, c.bytes(qual, qual_len, "qual")?);
            let write = Write::given(c, opts)?;
            let mut info = CommitInfo::default();
            let counted = open.region.increment(row, family, qual, delta, &write.options, &mut info)?;
            write.tell(&info)?;
            c.write(value, counted.value);
            Ok(applied(counted.applied))
        })
    }
}

fn applied(yes: bool) -> Outcome {
    if yes { Outcome::OK } else { Outcome::of(code::REGION_NOT_APPLIED) }
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
/// or is NULL; untouched on an error. A bound that one column does not meet refuses the whole call (REGION_NOT_APPLIED).
/// err->op_index: the column that failed. Else as region_increment.
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
        guard::on::<Open>("region_increment_row", r, err, |open, c| {
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
            let all = open.region.increment_row(row, &columns, &write.options, &mut info, &mut told)?;
            write.tell(&info)?;
            if !values.is_null() {
                for (i, value) in told.iter().enumerate() {
                    c.write(values.wrapping_add(i), *value);
                }
            }
            Ok(applied(all))
        })
    }
}

/// The caller's results array.
struct Results<'a> {
    caller: Caller<'a>,
    base: *mut region_op_result_t,
    n: usize,
    size: usize,
    first_unmet: usize,
}

impl<'a> Results<'a> {
    /// Checks it, and says of every element that it was not run: true until the core says otherwise.
    fn new(caller: Caller<'a>, base: *mut region_op_result_t, n: usize, size: usize) -> Result<Self> {
        let mut results = Self { caller, base, n, size, first_unmet: usize::MAX };
        if !base.is_null() && n > 0 {
            // Checks the size and the length.
            Elements::new(caller, base.cast_const(), n, size, RESULT_BYTES_FIRST, "results")?;
            for i in 0..n {
                results.set(i, OpResult { status: OpStatus::Failed(ErrorKind::NotRun), flags: 0, value: 0 });
            }
        }
        Ok(results)
    }
    fn set(&mut self, i: usize, r: OpResult) {
        let status = match r.status {
            OpStatus::Applied => 0,
            OpStatus::NotApplied => {
                self.first_unmet = self.first_unmet.min(i);
                code::REGION_NOT_APPLIED as i32
            }
            OpStatus::Failed(kind) => status_of(kind) as i32,
        };
        if self.base.is_null() || i >= self.n {
            return;
        }
        let at = self.base.wrapping_byte_add(i * self.size);
        self.caller.write(at, region_op_result_t { status, flags: r.flags, value: r.value });
        for tail in (size_of::<region_op_result_t>()..self.size).step_by(8) {
            self.caller.write(at.wrapping_byte_add(tail).cast::<u64>(), 0);
        }
    }
    /// An error that names an element before the core was asked: it is that element's status.
    fn refuse(&mut self, e: Error) -> Error {
        if let Ok(i) = usize::try_from(e.op_index()) {
            self.set(i, OpResult { status: OpStatus::Failed(e.kind()), flags: 0, value: 0 });
        }
        e
    }
    fn finish(&self, outcome: BatchOutcome) -> Answer {
        match outcome {
            BatchOutcome::Done => Ok(Outcome::OK),
            BatchOutcome::NotApplied => {
                let op_index = if self.first_unmet == usize::MAX { u64::MAX } else { self.first_unmet as u64 };
                Ok(Outcome { op_index, ..applied(false) })
            }
            BatchOutcome::Partial { first, error } => {
                let name = region_status_text(error.kind());
                let text = format!("some groups were applied; element {first} failed first: {name}: {}", error.message());
                Err(Error::new(ErrorKind::Partial, text)
                    .at_op(first as u64)
                    .with_commit(error.commit_seq())
                    .retryable(error.is_retryable()))
            }
        }
    }
}

fn region_status_text(kind: ErrorKind) -> String {
    format!("{:?}", status_of(kind))
}

/// Many increments of any rows in one call: n packed records (region_pack.h) that fill incs_len bytes. Results in input
/// order: results has n elements of result_size bytes, or is NULL. Returns and results as region_batch_mutate; consecutive
/// records of one row form a group. Else as region_increment.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_increment_packed(
    r: *mut region_t,
    incs: *const c_void,
    incs_len: usize,
    n: usize,
    opts: *const region_write_options_t,
    results: *mut region_op_result_t,
    result_size: usize,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Open>("region_increment_packed", r, err, |open, c| {
            let bytes = c.bytes(incs, incs_len, "incs")?;
            let write = Write::given(c, opts)?;
            with_notes(|notes| {
                let incs = PackedIncrements::parse(bytes, n, notes);
                // An n that the buffer cannot hold says nothing about the length of results.
                let known = if n <= bytes.len() / 16 { n } else { 0 };
                let mut results = Results::new(c, results, known, result_size)?;
                let incs = incs.map_err(|e| results.refuse(e))?;
                let mut info = CommitInfo::default();
                let outcome = open.region.increment_many(&incs, &write.options, &mut info, &mut |i, r| results.set(i, r))?;
                write.tell(&info)?;
                results.finish(outcome)
            })
        })
    }
}

/// Elements of `region_batch_mutate`, checked before.
struct Array<'a>(Elements<'a, region_mutation_t>);

impl Array<'_> {
    fn try_get(&self, i: usize) -> Result<Mutation<'_>> {
        let (m, c) = (self.0.get(i)?, self.0.caller());
        Ok(Mutation {
            op: mutation(m.op, m.flags, m.ttl_ms)?,
            family: m.family,
            row: m.row.bytes(c, "row")?,
            qual: m.qual.bytes(c, "qual")?,
            value: m.value.bytes(c, "value")?,
            delta: m.delta,
            timestamp: m.timestamp,
        })
    }
}

impl Mutations for Array<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        self.try_get(i).unwrap_or(NOTHING)
    }
}

/// Many changes in one call. Consecutive elements of the same row form a group: one atomic change of the row, in the order
/// given. Rows are independent unless REGION_W_ATOMIC. results: n elements of result_size bytes, or NULL; in a failed group
/// the failing element has the reason, the others REGION_E_NOT_RUN. They are written whenever the arguments are in order,
/// whatever is returned. Pointers are borrowed for the call. Threads: any.
/// REGION_OK: every element applied. REGION_NOT_APPLIED: none failed, at least one check or bound was not met, its group
/// changed nothing. REGION_E_PARTIAL: some groups applied, some failed. Any other error: nothing of the call was applied,
/// REGION_E_OUTCOME_UNKNOWN excepted. err->op_index: the first failure. Else as region_increment.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_batch_mutate(
    r: *mut region_t,
    ops: *const region_mutation_t,
    n: usize,
    op_size: usize,
    opts: *const region_write_options_t,
    results: *mut region_op_result_t,
    result_size: usize,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Open>("region_batch_mutate", r, err, |open, c| {
            let write = Write::given(c, opts)?;
            let ops = Array(Elements::new(c, ops, n, op_size, MUTATION_BYTES_FIRST, "ops")?);
            let mut results = Results::new(c, results, n, result_size)?;
            for i in 0..n {
                if let Err(e) = ops.try_get(i) {
                    return Err(results.refuse(e.context(format_args!("ops[{i}]")).at_op(i as u64)));
                }
            }
            run(open, &ops, &write, results)
        })
    }
}

/// region_batch_mutate with n packed records (region_pack.h) that fill ops_len bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_batch_mutate_packed(
    r: *mut region_t,
    ops: *const c_void,
    ops_len: usize,
    n: usize,
    opts: *const region_write_options_t,
    results: *mut region_op_result_t,
    result_size: usize,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Open>("region_batch_mutate_packed", r, err, |open, c| {
            let bytes = c.bytes(ops, ops_len, "ops")?;
            let write = Write::given(c, opts)?;
            with_notes(|notes| {
                let ops = PackedOps::parse(bytes, n, notes);
                let known = if n <= bytes.len() / 40 { n } else { 0 };
                let mut results = Results::new(c, results, known, result_size)?;
                let ops = ops.map_err(|e| results.refuse(e))?;
                run(open, &ops, &write, results)
            })
        })
    }
}

fn run(open: &Open, ops: &dyn Mutations, write: &Write<'_>, mut results: Results<'_>) -> Answer {
    let mut info = CommitInfo::default();
    let outcome = open.region.batch(ops, &write.options, &mut info, &mut |i, r| results.set(i, r))?;
    write.tell(&info)?;
    results.finish(outcome)
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
        guard::on::<Open>("region_put", r, err, |open, c| {
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
/// DELETE_FAMILY_VERSION or DELETE_ROW. It hides what was written before it, never what is written after it. Pointers are
/// borrowed for the call. Threads: any. Returns as region_put.
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
        guard::on::<Open>("region_delete", r, err, |open, c| {
            let (row, qual) = (c.bytes(row, row_len, "row")?, c.bytes(qual, qual_len, "qual")?);
            let write = Write::given(c, opts)?;
            let op = if op == 0 { Op::Delete } else { mutation(op, 0, 0)? };
            if !matches!(op, Op::Delete | Op::DeleteVersion | Op::DeleteFamily | Op::DeleteFamilyVersion | Op::DeleteRow) {
                return Err(Error::new(ErrorKind::Invalid, "op: not one that deletes"));
            }
            let mut info = CommitInfo::default();
            open.region.delete(row, family, qual, op, &write.options, &mut info)?;
            write.tell(&info)?;
            Ok(Outcome::OK)
        })
    }
}

/// Adds bytes to the end of a value; an absent one is empty. *new_value, may be NULL: the whole new value, as region_get
/// fills it. Not built in this version: REGION_E_UNSUPPORTED. Threads: any. Returns as region_put.
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
        guard::on::<Open>("region_append", r, err, |open, c| {
            let mut value = c.read(new_value.cast_const()).map(region_value_t::cleared);
            if let Some(value) = value {
                c.write(new_value, value);
            }
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
        guard::on::<Open>("region_wait_durable", r, err, |open, _| {
            open.region.wait_durable(SequenceNumber(commit_seq), timeout(timeout_us, &open.region)).map(|()| Outcome::OK)
        })
    }
}
