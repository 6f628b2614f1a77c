//! Batches: many operations in one call, as an array of structs or packed, with a result for each.

use super::bytes::region_slice_t;
use super::guard::{self, Answer, Caller, Outcome};
use super::op::{NOTHING, mutation, takes_its_fields};
use super::options::{Write, region_write_options_t};
use super::pack::{INCREMENT_HEADER, OP_HEADER, PackedIncrements, PackedOps, with_notes};
use super::region::{Open, region_t};
use super::sized::{Elements, plain};
use super::status::{code, region_error_t, region_status, status_of};
use super::write::not_applied;
use crate::error::{Error, ErrorKind, Result, counted};
use crate::region::{BatchOutcome, CommitInfo, Mutation, Mutations, OpResult, OpStatus};
use std::ffi::c_void;

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
    /// Of increments and checks: the counter. Of appends: the length of the new value.
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
    /// Qualifier; empty for DELETE_FAMILY, DELETE_FAMILY_VERSION and DELETE_ROW.
    pub qual: region_slice_t,
    /// PUT, APPEND: bytes. CHECK that compares bytes: what is expected. Else empty.
    pub value: region_slice_t,
    /// INCREMENT: what to add. CHECK with I64 that compares: what is expected. Else 0.
    pub delta: i64,
    /// 0 = assigned.
    pub timestamp: u64,
}
plain!(region_op_result_t, region_mutation_t);

/// Sizes in the first release.
const MUTATION_BYTES_FIRST: usize = 80;
const RESULT_BYTES_FIRST: usize = 16;

/// The caller's results array.
struct Results<'a> {
    caller: Caller<'a>,
    base: *mut region_op_result_t,
    n: usize,
    size: usize,
}

impl<'a> Results<'a> {
    /// Checks size and length.
    fn new(caller: Caller<'a>, base: *mut region_op_result_t, n: usize, size: usize) -> Result<Self> {
        if !base.is_null() {
            Elements::new(caller, base.cast_const(), n, size, RESULT_BYTES_FIRST, "results")?;
        }
        Ok(Self { caller, base, n, size })
    }
    /// Says of every element that it was not run: true until the core says otherwise.
    fn clear(caller: Caller<'a>, base: *mut region_op_result_t, n: usize, size: usize) -> Result<()> {
        let results = Self::new(caller, base, n, size)?;
        if !base.is_null() {
            (0..n).for_each(|i| results.set(i, OpResult { status: OpStatus::Failed(ErrorKind::NotRun), flags: 0, value: 0 }));
        }
        Ok(())
    }
    fn set(&self, i: usize, r: OpResult) {
        let status = match r.status {
            OpStatus::Applied => 0,
            OpStatus::NotApplied => code::REGION_NOT_APPLIED as i32,
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
    fn refuse(&self, e: Error) -> Error {
        if let Ok(i) = usize::try_from(e.op_index()) {
            self.set(i, OpResult { status: OpStatus::Failed(e.kind()), flags: 0, value: 0 });
        }
        e
    }
    fn finish(&self, outcome: BatchOutcome) -> Answer {
        match outcome {
            BatchOutcome::Done => Ok(Outcome::OK),
            BatchOutcome::NotApplied { first } => Ok(not_applied(first)),
            BatchOutcome::Partial { first, applied, failed, error } => {
                let name = region_status_text(error.kind());
                let text = format!(
                    "{} applied, {failed} not; the first failure: {name}: {}",
                    counted(applied as u64, "operation was", "operations were"),
                    error.message()
                );
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
/// records of one row form a group. Else as region_increment. Threads: any.
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
    let buffer = Buffer { what: "incs", at: incs, len: incs_len, n, record_least: INCREMENT_HEADER };
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        packed("region_increment_packed", r, buffer, opts, (results, result_size), err, |open, bytes, notes, write, results| {
            let incs = PackedIncrements::parse(bytes, n, notes).map_err(|e| results.refuse(e))?;
            finish(write, results, |info, told| open.region.increment_many(&incs, &write.options, info, told))
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
/// the failing element has the reason, the others REGION_E_NOT_RUN. Whatever is returned, they are written (as
/// REGION_E_NOT_RUN until more is known), unless n, op_size or result_size cannot be. Pointers are borrowed for the call. Threads: any.
/// An element that is malformed makes the whole call fail, and nothing is applied: an unknown op or flag, a reserved field or
/// one that the op does not take that is not 0 or empty, NULL with a length, a packed record that does not fit its buffer.
/// What depends on the region makes its group fail, with REGION_W_ATOMIC the call: a row key that is empty, too long or
/// outside the key range, an unknown family, a timestamp above 2^62, given where none can be (increments, appends, checks) or missing
/// where one must be (REGION_OP_DELETE_FAMILY_VERSION), a value that is too large or no counter, an overflow, a row that stays locked,
/// an op that this version does not have (REGION_E_UNSUPPORTED).
/// REGION_OK: every element applied. REGION_NOT_APPLIED: none failed, at least one check or bound was not met, its group
/// changed nothing. REGION_E_PARTIAL: some groups applied, some failed. Any other error: nothing of the call was applied,
/// REGION_E_OUTCOME_UNKNOWN excepted. err->op_index: the first element that failed, else the first whose check or bound was
/// not met. With REGION_W_ATOMIC the first element, in the order of the call, that failed or was not met decides. Else as
/// region_increment.
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
        let outputs = |c: Caller<'_>| {
            Write::clear(c, opts);
            // An n that is out of all bounds says nothing about the length of results.
            match Elements::new(c, ops, n, op_size, MUTATION_BYTES_FIRST, "ops") {
                Ok(_) => Results::clear(c, results, n, result_size),
                Err(_) => Ok(()),
            }
        };
        guard::on::<Open>("region_batch_mutate", r, err, outputs, |open, c| {
            let write = Write::given(c, opts)?;
            let ops = Array(Elements::new(c, ops, n, op_size, MUTATION_BYTES_FIRST, "ops")?);
            let results = Results::new(c, results, n, result_size)?;
            for i in 0..n {
                if let Err(e) = ops.try_get(i).and_then(|m| takes_its_fields(&m)) {
                    return Err(results.refuse(e.context(format_args!("ops[{i}]")).at_op(i as u64)));
                }
            }
            finish(&write, &results, |info, told| open.region.batch(&ops, &write.options, info, told))
        })
    }
}

/// region_batch_mutate with n packed records (region_pack.h) that fill ops_len bytes. Threads: any.
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
    let buffer = Buffer { what: "ops", at: ops, len: ops_len, n, record_least: OP_HEADER };
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        packed("region_batch_mutate_packed", r, buffer, opts, (results, result_size), err, |open, bytes, notes, write, results| {
            let ops = PackedOps::parse(bytes, n, notes).map_err(|e| results.refuse(e))?;
            finish(write, results, |info, told| open.region.batch(&ops, &write.options, info, told))
        })
    }
}

/// The caller's packed records.
struct Buffer {
    /// The argument's name.
    what: &'static str,
    at: *const c_void,
    len: usize,
    n: usize,
    /// Bytes that a record takes at least.
    record_least: usize,
}

/// A call over packed records: `run` gets what was looked at so far, and the thread's notes for parsing.
///
/// # Safety
/// As `guard::on`; the pointers are arguments of the C call.
unsafe fn packed(
    name: &'static str,
    r: *mut region_t,
    buffer: Buffer,
    opts: *const region_write_options_t,
    (results, result_size): (*mut region_op_result_t, usize),
    err: *mut region_error_t,
    run: impl FnOnce(&Open, &[u8], &mut Vec<u32>, &Write<'_>, &Results<'_>) -> Answer,
) -> region_status {
    // An n that the buffer cannot hold says nothing about the length of results.
    let known = if buffer.n <= buffer.len / buffer.record_least { buffer.n } else { 0 };
    let outputs = |c: Caller<'_>| {
        Write::clear(c, opts);
        Results::clear(c, results, known, result_size)
    };
    let body = |open: &Open, c: Caller<'_>| {
        let bytes = c.bytes(buffer.at, buffer.len, buffer.what)?;
        let write = Write::given(c, opts)?;
        let results = Results::new(c, results, known, result_size)?;
        with_notes(|notes| run(open, bytes, notes, &write, &results))
    };
    // SAFETY: the caller's promise.
    unsafe { guard::on(name, r, err, outputs, body) }
}

/// Makes the call; tells what came of it.
fn finish(
    write: &Write<'_>,
    results: &Results<'_>,
    call: impl FnOnce(&mut CommitInfo, &mut dyn FnMut(usize, OpResult)) -> Result<BatchOutcome>,
) -> Answer {
    let mut info = CommitInfo::default();
    let outcome = call(&mut info, &mut |i, r| results.set(i, r))?;
    write.tell(&info)?;
    results.finish(outcome)
}
