//! Loom models of a tree whose nodes have at most 4 entries. Each has flaws that must break it.
//!
//! A column's bytes are a loom cell written before the insert: loom reports a reader that reaches them without being ordered behind that.

use super::flaw::{self, Flaw};
use super::*;
use crate::mslab::{ChunkPool, MemoryBudget, PoolOptions};
use crate::sync::thread;
use loom::cell::UnsafeCell;

const COLUMNS: usize = 24;
static ROWS: [[u8; 1]; COLUMNS] = {
    let mut rows = [[0]; COLUMNS];
    let mut i = 0;
    while i < COLUMNS {
        rows[i] = [b'a' + i as u8];
        i += 1;
    }
    rows
};

/// Column i has the row 'a' + i and the reference i + 1.
struct Columns(Vec<UnsafeCell<&'static [u8]>>);

// SAFETY: loom checks each access.
unsafe impl Send for Columns {}
// SAFETY: as above.
unsafe impl Sync for Columns {}

// SAFETY: only 1 ..= COLUMNS are inserted.
unsafe impl KeyOf for Columns {
    unsafe fn key(&self, reference: u64) -> ColumnKey<'_> {
        self.0[reference as usize - 1].with(|row| {
            // SAFETY: loom has checked the access.
            (unsafe { *row }, FamilyId(1), b"".as_slice())
        })
    }
}

type Index = Arc<ColumnIndex<Columns>>;

fn insert(index: &Index, i: usize, thread: usize) {
    index.keys.0[i].with_mut(|row| {
        // SAFETY: this column's only writer, before anybody can find it.
        unsafe { *row = &ROWS[i] };
    });
    // SAFETY: column i's reference, its bytes written above.
    unsafe { index.insert(key(i), i as u64 + 1, thread) }.expect("memory");
}
fn key(i: usize) -> ColumnKey<'static> {
    (&ROWS[i], FamilyId(1), b"")
}
fn get(index: &Index, i: usize) -> bool {
    let found = index.get(key(i));
    assert!(found.is_none_or(|r| r == i as u64 + 1), "another column");
    found.is_some()
}
fn with(columns: &[usize]) -> Index {
    let pool =
        ChunkPool::new(PoolOptions { chunk_size: 16 << 10, max_bytes: 1 << 20, ..PoolOptions::default() }).expect("options are good");
    let arena = Arc::new(Arena::new(pool, Arc::new(MemoryBudget::new(u64::MAX))));
    let columns_of = Columns((0..COLUMNS).map(|_| UnsafeCell::new(b"".as_slice())).collect());
    let index = Arc::new(ColumnIndex::new(arena, columns_of, 0).expect("memory"));
    columns.iter().for_each(|i| insert(&index, *i, 0));
    index
}
fn scan(index: &Index) -> Vec<usize> {
    let mut cursor = index.cursor(KEY_MIN, true);
    std::iter::from_fn(|| cursor.next().map(|r| r as usize - 1)).collect()
}
fn explore(preemptions: usize, model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}
fn must_break(flaw: Flaw, words: &str, model: fn()) {
    flaw::set(flaw);
    let failed = std::panic::catch_unwind(|| explore(2, model)).expect_err("the model did not notice");
    flaw::set(Flaw::None);
    let text = failed.downcast_ref::<String>().cloned().or_else(|| failed.downcast_ref::<&str>().map(|s| (*s).to_owned()));
    let text = text.unwrap_or_default();
    assert!(text.contains(words), "broke, but not as expected: {text}");
}

/// One thread splits the only leaf, another looks up what moves.
fn split_and_get() {
    let index = with(&[0, 2, 4, 6]);
    let writer = {
        let index = Arc::clone(&index);
        thread::spawn(move || insert(&index, 3, 1))
    };
    assert!(get(&index, 6), "lost a column");
    writer.join().expect("no panic");
    assert_eq!(scan(&index), [0, 2, 3, 4, 6]);
}
/// One thread inserts, without a split; another finds the column or not, and reads its bytes if so.
fn insert_and_get() {
    let index = with(&[0, 4]);
    let writer = {
        let index = Arc::clone(&index);
        thread::spawn(move || insert(&index, 2, 1))
    };
    get(&index, 2);
    assert!(get(&index, 4), "lost a column");
    writer.join().expect("no panic");
    assert!(get(&index, 2), "lost a column");
}
/// Two threads insert into one leaf.
fn insert_and_insert() {
    two_inserts(&[0, 4]);
}
/// Two threads insert into one leaf, which one of them has to split.
fn insert_and_split() {
    two_inserts(&[0, 4, 8]);
}
fn two_inserts(before: &[usize]) {
    let index = with(before);
    let writer = {
        let index = Arc::clone(&index);
        thread::spawn(move || insert(&index, 2, 1))
    };
    insert(&index, 6, 0);
    assert!(get(&index, 6), "lost its own column");
    writer.join().expect("no panic");
    let mut all = [before, &[2, 6]].concat();
    all.sort_unstable();
    assert_eq!(scan(&index), all, "lost a column, or the order");
}
/// One thread splits the leaf that another scans.
fn split_and_scan() {
    let index = with(&[0, 2, 4, 6]);
    let writer = {
        let index = Arc::clone(&index);
        thread::spawn(move || insert(&index, 3, 1))
    };
    let seen = scan(&index);
    assert!(seen == [0, 2, 4, 6] || seen == [0, 2, 3, 4, 6], "lost or repeated a column: {seen:?}");
    assert!(index.before(key(5)) == Some(5), "lost a column");
    writer.join().expect("no panic");
}
/// One thread makes the root grow and splits a leaf below it, another looks up what moves.
fn grow_and_get() {
    // Leaves [0 3 6 9] [12 13 15] [18 19 20 21] [22]: the root has 3 separators.
    let index = with(&[0, 3, 6, 9, 12, 15, 18, 21, 13, 19, 20, 22]);
    assert!(index.root().is_full());
    let writer = {
        let index = Arc::clone(&index);
        thread::spawn(move || insert(&index, 1, 1))
    };
    assert!(get(&index, 13) && get(&index, 9), "lost a column");
    writer.join().expect("no panic");
    assert_eq!(scan(&index), [0, 1, 3, 6, 9, 12, 13, 15, 18, 19, 20, 21, 22]);
}

#[test]
fn loom_split_and_get() {
    explore(2, split_and_get);
    must_break(Flaw::ParentUnchecked, "lost a column", split_and_get);
    must_break(Flaw::SplitKeepsVersion, "lost a column", split_and_get);
    must_break(Flaw::NoReaderFence, "lost a column", split_and_get);
    must_break(Flaw::NoWriterFence, "lost a column", split_and_get);
}
#[test]
fn loom_insert_and_get() {
    explore(2, insert_and_get);
    must_break(Flaw::RelaxedReference, "Causality", insert_and_get);
}
#[test]
fn loom_insert_and_insert() {
    explore(2, insert_and_insert);
    must_break(Flaw::LatchAnyVersion, "lost", insert_and_insert);
    // One preemption is what a stale version needs; two take minutes here.
    explore(1, insert_and_split);
    must_break(Flaw::LatchAnyVersion, "", insert_and_split);
    must_break(Flaw::ParentLeftLatched, "maximum number of branches", insert_and_split);
}
#[test]
fn loom_split_and_scan() {
    explore(2, split_and_scan);
    must_break(Flaw::CopyUnchecked, "lost", split_and_scan);
}
#[test]
fn loom_grow_and_get() {
    // The way to the bug is one preemption long, the model is long itself.
    explore(1, grow_and_get);
    must_break(Flaw::ParentUnchecked, "lost a column", grow_and_get);
    must_break(Flaw::GrowKeepsVersion, "lost a column", grow_and_get);
}
