//! Short forms of the verbs, for tests. Over the public interface alone, so that programs of their own can use them, too.
#![allow(dead_code)]

use region::clock::Timeout;
use region::error::{ErrorKind, Result};
use region::options::{Durability, ReadOptions, WriteOptions};
use region::region::{
    BatchOutcome, CloseFlags, CommitInfo, Comparison, Counted, Increment, IncrementColumn, IncrementColumns, Increments, Key, Mutation,
    Mutations, Op, OpResult, Pinned, Region, ScanSpec, Snapshot, ValueSink,
};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The family of most tests, one version.
pub const CF: u32 = 1;
/// A second one of `Rig`, three versions.
pub const CF3: u32 = 2;
/// A third one, one version.
pub const OTHER: u32 = 3;
/// A wait that a test expects to end.
pub const LONG: Timeout = Timeout::from_micros(30_000_000);

pub fn close(r: &Region) {
    r.close(CloseFlags::default(), LONG).unwrap();
}
pub fn at(durability: Durability) -> WriteOptions {
    WriteOptions { durability: Some(durability), ..WriteOptions::DEFAULT }
}
pub fn flags(flags: u32) -> WriteOptions {
    WriteOptions { flags, ..WriteOptions::DEFAULT }
}
pub fn within(micros: u64, o: WriteOptions) -> WriteOptions {
    WriteOptions { timeout_us: Some(micros), ..o }
}
pub fn inc(r: &Region, row: &[u8], qual: &[u8], delta: i64) -> i64 {
    inc_with(r, row, qual, delta, &WriteOptions::DEFAULT).unwrap().value
}
/// Many increments of the counter "n".
pub fn count_up(r: &Region, row: &[u8], times: u64, delta: i64) {
    for _ in 0..times {
        inc(r, row, b"n", delta);
    }
}
pub fn inc_with(r: &Region, row: &[u8], qual: &[u8], delta: i64, o: &WriteOptions) -> Result<Counted> {
    r.increment(row, CF, qual, delta, o, &mut CommitInfo::default())
}
pub fn put(r: &Region, row: &[u8], qual: &[u8], value: &[u8]) {
    put_with(r, row, qual, value, &WriteOptions::DEFAULT).unwrap();
}
pub fn put_with(r: &Region, row: &[u8], qual: &[u8], value: &[u8], o: &WriteOptions) -> Result<CommitInfo> {
    let mut info = CommitInfo::default();
    r.put(row, CF, qual, value, o, &mut info).map(|()| info)
}
pub fn delete(r: &Region, row: &[u8], qual: &[u8]) {
    r.delete(row, CF, qual, Op::Delete, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap();
}

#[derive(Default)]
pub struct Bytes(pub Vec<u8>);
impl ValueSink for Bytes {
    fn fits(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.resize(len, 0);
        Some(&mut self.0)
    }
    fn pin(&mut self, value: Box<dyn Pinned>) {
        self.0 = value.bytes().to_vec();
    }
}
pub fn get(r: &Region, row: &[u8], qual: &[u8]) -> Option<Vec<u8>> {
    get_at(r, None, row, qual)
}
pub fn get_at(r: &Region, snapshot: Option<&Snapshot>, row: &[u8], qual: &[u8]) -> Option<Vec<u8>> {
    let mut sink = Bytes::default();
    r.get(snapshot, &ReadOptions::DEFAULT, Key { family: CF, row, qual }, &mut sink).unwrap().map(|_| sink.0)
}
pub fn counter(r: &Region, row: &[u8], qual: &[u8]) -> Option<i64> {
    counter_at(r, None, row, qual)
}
pub fn counter_at(r: &Region, snapshot: Option<&Snapshot>, row: &[u8], qual: &[u8]) -> Option<i64> {
    r.counter_get(snapshot, &ReadOptions::DEFAULT, Key { family: CF, row, qual }).unwrap().map(|(n, _)| n)
}

/// Row, qualifier and value of every cell from `start` to before `end` (empty: no bound), at `snapshot` or now.
pub fn scan(r: &Region, snapshot: Option<&Snapshot>, start: &[u8], end: &[u8]) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let spec = ScanSpec { start_row: start, end_row: end, ..ScanSpec::default() };
    let mut scanner = r.scanner(snapshot, &ReadOptions::DEFAULT, &spec).unwrap();
    let mut seen = Vec::new();
    while let Some(c) = scanner.next().unwrap() {
        seen.push((c.row.to_vec(), c.qual.to_vec(), c.value.to_vec()));
    }
    seen
}
pub fn number(value: &[u8]) -> i64 {
    i64::from_be_bytes(value.try_into().expect("8 bytes"))
}

/// Operations of one call.
pub struct Ops<'a>(pub Vec<Mutation<'a>>);
impl Mutations for Ops<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        self.0[i]
    }
}
pub fn op<'a>(op: Op, row: &'a [u8], qual: &'a [u8]) -> Mutation<'a> {
    Mutation { op, family: CF, row, qual, value: b"", delta: 0, timestamp: 0 }
}
pub fn in_family(family: u32, m: Mutation<'_>) -> Mutation<'_> {
    Mutation { family, ..m }
}
pub fn op_put<'a>(row: &'a [u8], qual: &'a [u8], value: &'a [u8]) -> Mutation<'a> {
    Mutation { value, ..op(Op::Put, row, qual) }
}
pub fn op_inc<'a>(row: &'a [u8], qual: &'a [u8], delta: i64) -> Mutation<'a> {
    Mutation { delta, ..op(Op::Increment, row, qual) }
}
pub fn op_delete<'a>(row: &'a [u8], qual: &'a [u8]) -> Mutation<'a> {
    op(Op::Delete, row, qual)
}
pub fn op_check<'a>(row: &'a [u8], qual: &'a [u8], how: Comparison, value: &'a [u8]) -> Mutation<'a> {
    Mutation { value, ..op(Op::Check { how, as_counter: false }, row, qual) }
}
pub fn op_check_counter<'a>(row: &'a [u8], qual: &'a [u8], how: Comparison, expected: i64) -> Mutation<'a> {
    Mutation { delta: expected, ..op(Op::Check { how, as_counter: true }, row, qual) }
}
/// Runs a batch; its outcome, what each operation was answered, and the commit.
pub fn batch(r: &Region, ops: Vec<Mutation<'_>>, o: &WriteOptions) -> (Result<BatchOutcome>, Vec<Option<OpResult>>, CommitInfo) {
    let mut results = vec![None; ops.len()];
    let mut info = CommitInfo::default();
    let outcome = r.batch(&Ops(ops), o, &mut info, &mut |i, result| results[i] = Some(result));
    (outcome, results, info)
}
/// A batch that must be done whole.
pub fn done(r: &Region, ops: Vec<Mutation<'_>>, o: &WriteOptions) -> Vec<i64> {
    let (outcome, results, _) = batch(r, ops, o);
    assert!(matches!(outcome, Ok(BatchOutcome::Done)), "{outcome:?}");
    results.into_iter().map(|r| r.unwrap().value).collect()
}

pub struct Columns<'a>(pub Vec<(&'a [u8], i64)>);
impl IncrementColumns for Columns<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> IncrementColumn<'_> {
        IncrementColumn { family: CF, qual: self.0[i].0, delta: self.0[i].1 }
    }
}
/// Adds to several counters of one row.
pub fn inc_row(r: &Region, row: &[u8], columns: &[(&[u8], i64)]) -> Vec<i64> {
    let mut values = vec![0; columns.len()];
    let o = WriteOptions::DEFAULT;
    assert!(r.increment_row(row, &Columns(columns.to_vec()), &o, &mut CommitInfo::default(), &mut values).unwrap().is_none());
    values
}

pub struct Incs<'a>(pub Vec<(&'a [u8], i64)>);
impl Increments for Incs<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Increment<'_> {
        Increment { family: CF, row: self.0[i].0, qual: b"n", delta: self.0[i].1 }
    }
}

/// The kind of error that `result` must be.
#[track_caller]
pub fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("an error was expected").kind()
}

/// A small generator of numbers: the same seed, the same numbers.
pub struct Random(pub u64);
impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
/// The seed of this run, printed so that a failure can be repeated: `SEED=… cargo test …`.
pub fn seed() -> u64 {
    let given = std::env::var("SEED").ok().and_then(|s| s.parse().ok());
    let seed = given.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_nanos() as u64));
    println!("SEED={seed}");
    seed
}

/// Tells at its end, by return or by panic, that threads may stop: a failing test must not hang.
pub struct Stops<'a>(pub &'a AtomicBool);
impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// One of the threads that others wait for; counts itself down at its end, by return or by panic.
pub struct Ends<'a>(pub &'a AtomicI64);
impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
