//! The segment as its callers see it, with tiny chunks so that rare paths are common.

use super::super::{Content, Cut, Keep, Marked, Over, Plan, RowMarker, VersionRef, VersionValue, Wanted};
use super::*;
use crate::mslab::PoolOptions;
use crate::sync::Ordering::{AcqRel, SeqCst};
use crate::sync::{AtomicBool, Mutex, thread};

mod column;
mod finals;
mod memory;
mod threads;

const F: FamilyId = FamilyId(1);

fn segment_in(budget: u64, rows_hint: usize) -> Result<Segment, NoMemory> {
    let pool = ChunkPool::new(PoolOptions { chunk_size: 4096, max_bytes: 1 << 30, huge_pages: false, ..PoolOptions::default() }).unwrap();
    Segment::new(Generation(7), &pool, &Arc::new(MemoryBudget::new(budget)), rows_hint, 5)
}

fn segment() -> Segment {
    segment_in(u64::MAX, 0).unwrap()
}

fn hash(row: &[u8]) -> RowHash {
    RowHash(FixedState::with_seed(77).hash_one(row))
}

/// The row's lock is held by whoever calls; the column is inserted as an increment would.
fn counter<'s>(s: &'s Segment, row: &[u8], qualifier: &[u8]) -> Result<ColumnRef<'s>, NoMemory> {
    let r = match s.find_row(hash(row), row) {
        Some(r) => r,
        None => s.insert_row(hash(row), row, Some((F, qualifier)), 0)?,
    };
    let c = match s.find_column(r, F, qualifier) {
        Some(c) => c,
        None => s.insert_column(r, F, qualifier, true, 0)?,
    };
    s.ensure_slots(c, 0)?;
    Ok(c)
}

fn no_points(_: crate::memstore::PointsUser<'_>) {
    panic!("nothing has to be copied");
}

/// An increment of SYNC level while nobody reads.
fn increment(s: &Segment, c: ColumnRef<'_>, seq: u64, ts: u64, value: i64) {
    let plan = c.plan_increment(Keep::Newest, 0, 0, no_points);
    c.apply_increment(seq, ts, value, plan, None);
    s.raise_max_ts(c.family(), ts);
    c.row().header().mark(seq, false, 0);
}

fn put(s: &Segment, c: ColumnRef<'_>, seq: u64, ts: u64, value: &[u8]) {
    c.push(s.new_cell(value, CellType::Put, 0).unwrap(), seq, ts);
    c.row().header().mark(seq, false, 0);
}

fn cut_of(c: ColumnRef<'_>) -> Cut {
    c.row().header().cut(|_| 0, || 0)
}

#[test]
fn rows_and_columns_are_found_by_their_bytes() {
    let s = segment();
    let rows: [&[u8]; 8] = [b"a", b"a\0", b"\0", b"\xff\xff", b"\xff", b"a\0b", &[b'x'; 32_767], &[0xff; 33]];
    let qualifiers: [&[u8]; 6] = [b"", b"q", b"q\0", b"\0", &[b'q'; 70_000], &[b'z'; 300]];
    let mut seq = 0;
    for row in rows {
        for q in qualifiers {
            seq += 1;
            increment(&s, counter(&s, row, q).unwrap(), seq, seq, seq as i64);
        }
    }
    let mut seq = 0;
    for row in rows {
        let r = s.find_row(hash(row), row).unwrap();
        assert_eq!(r.row(), row);
        for q in qualifiers {
            seq += 1;
            let c = s.find_column(r, F, q).unwrap();
            assert_eq!((c.row().row(), c.family(), c.qualifier()), (row, F, q));
            assert_eq!(c.read(u64::MAX), Content::Counter { seq, ts: seq, value: seq as i64 });
            assert!(s.find_column(r, FamilyId(2), q).is_none());
            assert_eq!(s.find_by_key((row, F, q)).unwrap().save(), c.save());
        }
        assert!(s.find_column(r, F, b"none").is_none());
    }
    assert!(s.find_row(hash(b"b"), b"b").is_none());
    assert_eq!((s.rows(), s.columns(), s.cells()), (8, 48, 0));
    assert_eq!((s.max_ts(F), s.generation()), (48, Generation(7)));
}

#[test]
fn rows_of_one_hash_share_nothing() {
    let s = segment();
    let h = RowHash(1234);
    let rows: Vec<_> = (0..300u32).map(|i| i.to_be_bytes()).collect();
    for (i, row) in rows.iter().enumerate() {
        assert!(s.find_row(h, row).is_none());
        let r = s.insert_row(h, row, Some((F, b"q")), 0).unwrap();
        increment(&s, s.find_column(r, F, b"q").unwrap(), i as u64 + 1, 5, i as i64);
    }
    for (i, row) in rows.iter().enumerate() {
        let c = s.find_column(s.find_row(h, row).unwrap(), F, b"q").unwrap();
        assert_eq!(c.read(u64::MAX), Content::Counter { seq: i as u64 + 1, ts: 5, value: i as i64 });
    }
}

#[test]
fn a_row_that_a_put_made_counts_too() {
    let s = segment();
    let r = s.insert_row(hash(b"r"), b"r", None, 0).unwrap();
    assert_eq!(r.header().cut(|_| 0, || 0), Cut { seq: 0, complete: true, applied: 0 });
    assert!(s.find_column(r, F, b"").is_none(), "no embedded column under family 0");
    let c = s.insert_column(r, F, b"q", false, 0).unwrap();
    assert!(c.is_empty() && !c.has_slots());
    put(&s, c, 1, 10, &7i64.to_be_bytes());
    let Content::Cell(v) = c.read(u64::MAX) else { panic!("{:?}", c.read(u64::MAX)) };
    assert_eq!((v.seq, v.ts, v.kind, v.value.as_counter(), v.value.len()), (1, 10, CellType::Put, Some(7), 8));
    s.ensure_slots(c, 0).unwrap();
    s.ensure_slots(c, 0).unwrap();
    increment(&s, c, 2, 11, 8);
    assert_eq!(c.read(u64::MAX), Content::Counter { seq: 2, ts: 11, value: 8 });
    assert_eq!(c.read(1), Content::Cell(v), "the put is still there for older cuts");
    put(&s, c, 3, 5, b"late");
    assert_eq!(c.read(u64::MAX), Content::Counter { seq: 2, ts: 11, value: 8 }, "an older timestamp does not win");
    put(&s, c, 4, 50, b"new");
    assert!(matches!(c.read(u64::MAX), Content::Cell(VersionRef { seq: 4, value: VersionValue::Bytes(b"new"), .. })));
    put(&s, c, 5, 20, b"between");
    assert!(matches!(c.read(u64::MAX), Content::Cell(VersionRef { seq: 4, .. })), "list order is not believed when it lies");
    assert!(matches!(c.read(3), Content::Counter { seq: 2, .. }));
}

#[test]
fn markers_send_to_the_replay() {
    let s = segment();
    let c = counter(&s, b"r", b"q").unwrap();
    increment(&s, c, 1, 10, 1);
    put(&s, c, 2, 20, b"v");
    let marker = s.new_cell(&[], CellType::Delete, 0).unwrap();
    c.push(marker, 3, 20);
    c.row().header().mark(3, false, 0);
    assert_eq!(c.read(u64::MAX), Content::Replay);
    increment(&s, c, 4, 21, 1);
    increment(&s, c, 5, 22, 2);
    let mut all = Vec::new();
    c.collect(&Wanted::everything(4), &mut all);
    all.sort_by_key(|v| v.seq);
    assert_eq!(
        all.iter().map(|v| (v.seq, v.ts, v.kind)).collect::<Vec<_>>(),
        [(2, 20, CellType::Put), (3, 20, CellType::Delete), (4, 21, CellType::Put)]
    );
    let r = c.row();
    assert!(!r.header().has_markers());
    let other = FamilyId(2);
    r.push_marker(s.new_row_marker(F, CellType::DeleteFamily, true, 0).unwrap(), 6, 22);
    r.push_marker(s.new_row_marker(other, CellType::DeleteFamilyVersion, false, 0).unwrap(), 7, 9);
    r.push_marker(s.new_row_marker(other, CellType::DeleteFamilyVersion, false, 0).unwrap(), 8, 9);
    assert!(r.header().has_markers());
    let mut markers = Vec::new();
    assert_eq!(r.collect_markers(F, 5, &|_| true, &mut markers), 0);
    assert_eq!(r.collect_markers(F, 6, &|_| true, &mut markers), 6);
    assert_eq!(markers, [RowMarker { family: F, kind: CellType::DeleteFamily, seq: 6, ts: 22, is_final: true }]);
    assert_eq!(r.collect_markers(other, u64::MAX, &|_| true, &mut markers), 0);
    assert_eq!(
        markers[1..].iter().map(|m| (m.seq, m.ts, m.kind)).collect::<Vec<_>>(),
        [8, 7].map(|n| (n, 9, CellType::DeleteFamilyVersion))
    );
    assert_eq!([F, other].map(|f| r.over(f, u64::MAX)), [Over { seq: 6, is_final: true }, Over { seq: 8, is_final: false }]);
}

#[test]
fn cursor_walks_in_order_and_resumes() {
    let s = segment();
    let mut keys = Vec::new();
    for i in 0..500u32 {
        let row = (i.wrapping_mul(2_654_435_761) % 4096).to_be_bytes();
        for q in [&b"b"[..], b"", b"a\0"] {
            if s.find_row(hash(&row), &row).and_then(|r| s.find_column(r, F, q)).is_none() {
                counter(&s, &row, q).unwrap();
                keys.push((row.to_vec(), q.to_vec()));
            }
        }
    }
    keys.sort();
    let key_of = |c: &ColumnRef<'_>| (c.row().row().to_vec(), c.qualifier().to_vec());
    let mut cursor = s.cursor(crate::memstore::KEY_MIN, true);
    for (i, key) in keys.iter().enumerate() {
        let c = cursor.next().unwrap();
        assert_eq!(&key_of(&c), key);
        if i % 97 == 0 {
            let mut resumed = s.cursor_after(c.save());
            assert_eq!(resumed.next().as_ref().map(key_of), keys.get(i + 1).cloned());
            assert_eq!(s.column_before((c.row().row(), F, c.qualifier())).as_ref().map(key_of), i.checked_sub(1).map(|i| keys[i].clone()));
        }
    }
    assert!(cursor.next().is_none());
    cursor.seek((&keys[10].0, F, &keys[10].1), true);
    assert_eq!(cursor.next().as_ref().map(key_of).as_ref(), Some(&keys[10]));
}

#[test]
#[should_panic(expected = "another segment")]
fn a_cell_of_another_segment_is_refused() {
    let (a, b) = (segment(), segment());
    let cell = b.new_cell(b"v", CellType::Put, 0).unwrap();
    counter(&a, b"r", b"q").unwrap().push(cell, 1, 1);
}

#[test]
#[should_panic(expected = "another segment")]
fn a_row_of_another_segment_is_refused() {
    let (a, b) = (segment(), segment());
    let r = b.insert_row(hash(b"r"), b"r", None, 0).unwrap();
    let _ = a.find_column(r, F, b"q");
}

#[test]
fn largest_timestamps_only_grow() {
    let s = segment();
    s.raise_max_ts(F, 9);
    s.raise_max_ts(F, 4);
    assert_eq!((s.max_ts(F), s.max_ts(FamilyId(2))), (9, 0));
    s.raise_max_ts(FamilyId(1 + 64), 12);
    assert_eq!(s.max_ts(F), 12, "a shared word makes the answer larger, never smaller");
}
