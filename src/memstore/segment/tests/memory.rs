//! Memory runs out at every allocation in turn; what was begun is seen by nobody and can be taken up again.

use super::*;

/// Takes all memory but a piece that holds rows and columns, not an index node.
fn fill(s: &Segment) {
    let mut taken = 0;
    while s.new_cell(&[0; 900], CellType::Put, 0).is_ok() {
        taken += 1;
        assert!(taken < 1_000_000, "the budget does not end");
    }
}

#[test]
fn exhaustion_leaves_the_segment_usable_and_shows_nothing_half_done() {
    let mut refused = [0; 4];
    // Each budget stops somewhere else: in the table, in the row's block, in an index node, in a cell.
    for budget in (8..120).map(|n| n * 4096) {
        let Ok(s) = segment_in(budget, 0) else { continue };
        let (mut there, mut failed) = (Vec::new(), Vec::new());
        for i in 0..4000u32 {
            let row = i.to_be_bytes();
            match counter(&s, &row, if i % 3 == 0 { b"" } else { b"a longer qualifier that does not fit inline" }) {
                Ok(c) => {
                    increment(&s, c, u64::from(i) + 1, 1, i64::from(i));
                    there.push(c.save());
                }
                Err(NoMemory) => {
                    refused[0] += 1;
                    failed.push(row);
                    if failed.len() > 40 {
                        break;
                    }
                }
            }
        }
        for saved in &there {
            let c = s.column(*saved);
            assert_eq!(s.find_column(s.find_row(hash(c.row().row()), c.row().row()).unwrap(), F, c.qualifier()).unwrap().save(), *saved);
        }
        for row in &failed {
            if let Some(r) = s.find_row(hash(row), row) {
                refused[1] += 1;
                assert_eq!(r.header().cut(|_| 0, || 0).applied, 0);
                for q in [&b""[..], b"a longer qualifier that does not fit inline"] {
                    assert!(s.find_column(r, F, q).is_none(), "a column that is not in the index");
                }
            }
        }
        let mut seen = 0;
        let mut cursor = s.cursor(crate::memstore::KEY_MIN, true);
        let mut last: Option<(Vec<u8>, Vec<u8>)> = None;
        while let Some(c) = cursor.next() {
            let key = (c.row().row().to_vec(), c.qualifier().to_vec());
            assert!(last.as_ref().is_none_or(|l| *l < key));
            last = Some(key);
            seen += usize::from(!c.is_empty());
        }
        assert_eq!(seen, there.len());
        let c = s.column(there[0]);
        increment(&s, c, 1_000_000, 2, -5);
        assert_eq!(c.read(u64::MAX), Content::Counter { seq: 1_000_000, ts: 2, value: -5 }, "an existing counter needs no memory");
    }
    assert!(refused[0] > 100 && refused[1] > 0, "{refused:?}");
}

/// Inserts a counter into a full segment, gives memory back, inserts it again. How many tries had begun it.
fn take_up(row: &[u8], qualifier: &[u8]) -> u32 {
    let pool = ChunkPool::new(PoolOptions { chunk_size: 4096, max_bytes: 1 << 30, huge_pages: false, ..PoolOptions::default() }).unwrap();
    let mut begun = 0;
    for rows in 1..400u32 {
        // Full but for what another segment of the same budget gives back.
        let budget = Arc::new(MemoryBudget::new(96 << 12));
        let other = Segment::new(Generation(1), &pool, &budget, 0, 5).unwrap();
        let s = Segment::new(Generation(2), &pool, &budget, 0, 5).unwrap();
        for i in 0..rows {
            if counter(&s, &i.to_be_bytes(), b"q").is_err() {
                break;
            }
        }
        fill(&s);
        let (new_row, columns) = (u64::from(s.find_row(hash(row), row).is_none()), s.columns());
        let rows = s.rows();
        if counter(&s, row, qualifier).is_ok() {
            continue;
        }
        let half = s.find_row(hash(row), row).is_some_and(|r| s.lookup(r.of(&s), F, qualifier).is_some());
        assert_eq!(s.columns(), columns);
        drop(other);
        let c = counter(&s, row, qualifier).unwrap();
        assert_eq!((s.rows(), s.columns()), (rows + new_row, columns + 1), "inserted once");
        increment(&s, c, 1, 1, 1);
        assert_eq!(counter(&s, row, qualifier).unwrap().save(), c.save(), "found again");
        let mut cursor = s.cursor((row, F, qualifier), true);
        assert_eq!(cursor.next().map(|c| c.save()), Some(c.save()));
        assert_ne!(cursor.next().map(|c| c.qualifier()), Some(qualifier).filter(|_| new_row == 1));
        begun += u32::from(half);
    }
    begun
}

#[test]
fn a_column_begun_is_taken_up_again() {
    assert!(take_up(&9_999u32.to_be_bytes(), b"q") > 0, "no try stopped between table and index, with the row");
    assert!(take_up(&0u32.to_be_bytes(), b"second") > 0, "no try stopped between table and index, with a column of its own");
}

#[test]
fn a_dropped_segment_gives_everything_back() {
    let pool = ChunkPool::new(PoolOptions { chunk_size: 4096, max_bytes: 1 << 30, huge_pages: false, ..PoolOptions::default() }).unwrap();
    let budget = Arc::new(MemoryBudget::new(u64::MAX));
    let s = Segment::new(Generation(1), &pool, &budget, 100, 5).unwrap();
    for i in 0..1000u32 {
        counter(&s, &i.to_be_bytes(), b"q").unwrap();
    }
    assert!(budget.used() >= s.allocated_bytes() && s.reserved_bytes() == budget.used());
    drop(s);
    assert_eq!((budget.used(), pool.stats().in_use), (0, 0));
}
