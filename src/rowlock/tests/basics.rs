//! One thread: what the token shows and leaves.

use super::*;

#[test]
fn a_lock_is_exclusive_and_released_by_drop() {
    let table = RowLockTable::new(4);
    let h = RowHash(0x1234_5678_9abc_def0);
    let locks = table.lock(h, &mut no_wait()).unwrap();
    assert_eq!((locks.len(), locks.last_tick(), locks.fsync_pending()), (1, Tick(0), 0));
    assert_eq!(table.stats().held_now, 1);
    thread::scope(|s| s.spawn(|| assert!(!free(&table, h))).join().unwrap());
    drop(locks);
    assert!(free(&table, h));
    assert_idle(&table);
}

#[test]
fn two_rows_of_one_bucket_are_independent() {
    let table = RowLockTable::new(4);
    let _a = table.lock(in_bucket(4, 3, 7), &mut no_wait()).unwrap();
    thread::scope(|s| {
        s.spawn(|| {
            let b = table.lock(in_bucket(4, 3, 8), &mut no_wait()).unwrap();
            thread::scope(|s| s.spawn(|| assert!(free(&table, in_bucket(4, 3, 9)))).join().unwrap());
            drop(b);
        });
    });
}

#[test]
fn the_tick_of_a_row_is_exact_while_its_entry_stays() {
    let table = RowLockTable::new(4);
    let (a, b) = (in_bucket(4, 3, 7), in_bucket(4, 3, 8));
    for (row, tick) in [(a, 10), (b, 70), (a, 20)] {
        let mut locks = table.lock(row, &mut no_wait()).unwrap();
        locks.set_tick(Tick(tick));
    }
    assert_eq!(table.lock(a, &mut no_wait()).unwrap().last_tick(), Tick(20));
    assert_eq!(table.lock(b, &mut no_wait()).unwrap().last_tick(), Tick(70));
    assert_eq!(table.lock(in_bucket(4, 4, 7), &mut no_wait()).unwrap().last_tick(), Tick(0), "another bucket");
}

#[test]
fn a_lock_without_a_commit_leaves_the_tick() {
    let table = RowLockTable::new(0);
    table.lock(RowHash(9), &mut no_wait()).unwrap().set_tick(Tick(5));
    drop(table.lock(RowHash(9), &mut no_wait()).unwrap());
    assert_eq!(table.lock(RowHash(9), &mut no_wait()).unwrap().last_tick(), Tick(5));
}

#[test]
fn a_row_that_left_the_table_starts_at_or_above_its_last_tick() {
    let table = RowLockTable::new(4);
    let mut last = std::collections::HashMap::new();
    let mut random = Random(42);
    for tick in 1..20_000 {
        let n = random.below(40);
        let row = in_bucket(4, n % 4, n);
        let mut locks = table.lock(row, &mut no_wait()).unwrap();
        let before = last.insert(row, tick).unwrap_or(0);
        assert!(locks.last_tick().0 >= before, "row {n} committed at {before}, the table says {:?}", locks.last_tick());
        assert!(locks.last_tick().0 < tick, "a tick that nobody used");
        locks.set_tick(Tick(tick));
    }
    assert_idle(&table);
}

#[test]
fn the_row_that_committed_last_keeps_its_entry() {
    let table = RowLockTable::new(4);
    let row = |n| in_bucket(4, 1, n);
    for (n, tick) in [(1, 10), (2, 100), (3, 50)] {
        table.lock(row(n), &mut no_wait()).unwrap().set_tick(Tick(tick));
    }
    // Row 1 went, row 2 is exact, and row 3 started at 0: the floor was folded after it had come.
    assert_eq!(table.lock(row(2), &mut no_wait()).unwrap().last_tick(), Tick(100));
    assert_eq!(table.lock(row(3), &mut no_wait()).unwrap().last_tick(), Tick(50));
    assert_eq!(table.lock(row(1), &mut no_wait()).unwrap().last_tick(), Tick(10));
}

#[test]
fn fsync_pending_belongs_to_the_bucket_and_never_falls() {
    let table = RowLockTable::new(4);
    let (a, b, other) = (in_bucket(4, 3, 7), in_bucket(4, 3, 8), in_bucket(4, 2, 7));
    let mut locks = table.lock(a, &mut no_wait()).unwrap();
    locks.raise_fsync_pending(30);
    locks.raise_fsync_pending(20);
    drop(locks);
    let mut locks = table.lock(b, &mut no_wait()).unwrap();
    assert_eq!(locks.fsync_pending(), 30);
    locks.raise_fsync_pending(10);
    drop(locks);
    assert_eq!(table.lock(a, &mut no_wait()).unwrap().fsync_pending(), 30);
    assert_eq!(table.lock(other, &mut no_wait()).unwrap().fsync_pending(), 0);
    let mut both = vec![other, a];
    assert_eq!(table.lock_all(&mut both, &mut no_wait(), LockScratch::default()).unwrap().fsync_pending(), 30);
}

#[test]
fn recovery_raises_every_row_and_bucket() {
    let table = RowLockTable::new(2);
    table.lock(in_bucket(2, 1, 5), &mut no_wait()).unwrap().set_tick(Tick(10));
    table.lock(in_bucket(2, 1, 6), &mut no_wait()).unwrap().set_tick(Tick(1_000));
    table.raise_floor(Tick(500));
    for bucket in 0..4 {
        assert_eq!(table.lock(in_bucket(2, bucket, 77), &mut no_wait()).unwrap().last_tick(), Tick(500));
    }
    assert_eq!(table.lock(in_bucket(2, 1, 6), &mut no_wait()).unwrap().last_tick(), Tick(1_000));
    table.raise_floor(Tick(400));
    assert_eq!(table.lock(in_bucket(2, 0, 78), &mut no_wait()).unwrap().last_tick(), Tick(500));
    // Rows 0 and 1 are what empty entries look like.
    assert_eq!(table.lock(RowHash(0), &mut no_wait()).unwrap().last_tick(), Tick(500));
}

#[test]
fn several_rows_are_sorted_deduplicated_and_share_tick_and_pending() {
    let table = RowLockTable::new(4);
    let rows = [in_bucket(4, 9, 1), in_bucket(4, 2, 1), in_bucket(4, 9, 1), in_bucket(4, 2, 2)];
    table.lock(rows[1], &mut no_wait()).unwrap().set_tick(Tick(44));
    let mut list = rows.to_vec();
    let mut locks = table.lock_all(&mut list, &mut no_wait(), LockScratch::default()).unwrap();
    assert_eq!(list, [rows[1], rows[3], rows[0]]);
    assert_eq!((locks.len(), locks.last_tick()), (3, Tick(44)));
    locks.set_tick(Tick(45));
    locks.raise_fsync_pending(7);
    let scratch = locks.into_scratch();
    assert_idle(&table);
    for row in rows {
        let locks = table.lock(row, &mut no_wait()).unwrap();
        assert_eq!((locks.last_tick(), locks.fsync_pending()), (Tick(45), 7));
    }
    let none = table.lock_all(&mut Vec::new(), &mut no_wait(), scratch).unwrap();
    assert!(none.is_empty());
}

/// LCK-06, the second half of BUG-74: two rows of one hash in one call.
#[test]
fn rows_of_one_hash_do_not_block_their_own_call() {
    let table = RowLockTable::new(4);
    for hash in [RowHash(0), RowHash(1), RowHash(u64::MAX), RowHash(5)] {
        let mut list = vec![hash; 3];
        let locks = table.lock_all(&mut list, &mut no_wait(), LockScratch::default()).unwrap();
        assert_eq!(locks.len(), 1);
        let scratch = locks.into_scratch();
        // In a run the second one ends it; the next run gets it.
        let locks = table.lock_prefix([hash, hash, RowHash(99)].into_iter(), &mut no_wait(), scratch).unwrap();
        assert_eq!(locks.len(), 1);
    }
    assert_idle(&table);
}

#[test]
fn many_rows_of_one_bucket_overflow_and_come_back() {
    for log2 in [0, 4] {
        let table = RowLockTable::new(log2);
        let mut scratch = LockScratch::default();
        for round in 1..4u64 {
            let mut list: Vec<RowHash> = (0..1_000).map(|n| if log2 == 0 { RowHash(n) } else { in_bucket(4, 5, n) }).collect();
            let mut locks = table.lock_all(&mut list, &mut no_wait(), scratch).unwrap();
            assert_eq!(locks.len(), 1_000);
            assert_eq!(table.stats().held_now, 1_000);
            assert_eq!(locks.last_tick(), Tick((round - 1) * 100));
            thread::scope(|s| s.spawn(|| list.iter().for_each(|h| assert!(!free(&table, *h)))).join().unwrap());
            locks.set_tick(Tick(round * 100));
            scratch = locks.into_scratch();
            assert_idle(&table);
            assert!(table.lock(list[500], &mut no_wait()).unwrap().last_tick() >= Tick(round * 100));
        }
    }
}

#[test]
fn a_failed_multi_lock_gives_everything_back() {
    let table = RowLockTable::new(4);
    let rows: Vec<RowHash> = (0..16).map(|b| in_bucket(4, b, 9)).collect();
    thread::scope(|s| {
        let held = table.lock(rows[11], &mut no_wait()).unwrap();
        s.spawn(|| {
            let NotLocked { why, row, scratch } = table.lock_all(&mut rows.clone(), &mut no_wait(), LockScratch::default()).err().unwrap();
            assert_eq!((why, row), (LockError::Timeout, Some(rows[11])));
            assert_eq!(table.stats().held_now, 1);
            let NotLocked { why: error, .. } = table.lock_all(&mut rows.clone(), &mut Timeout::from_micros(2_000), scratch).err().unwrap();
            assert_eq!(error, LockError::Timeout);
            assert_eq!(table.stats().held_now, 1);
        })
        .join()
        .unwrap();
        drop(held);
    });
    assert_idle(&table);
}

#[test]
fn a_run_takes_rows_in_the_callers_order_and_stops_before_a_busy_one() {
    let table = RowLockTable::new(4);
    let rows: Vec<RowHash> = (0..8).rev().map(|b| in_bucket(4, b, 9)).collect();
    let all = table.lock_prefix(rows.iter().copied(), &mut no_wait(), LockScratch::default()).unwrap();
    assert_eq!(all.len(), 8);
    let scratch = all.into_scratch();
    thread::scope(|s| {
        let held = table.lock(rows[5], &mut no_wait()).unwrap();
        s.spawn(|| {
            // A generous timeout: it must not be used, since rows are held by then.
            let started = Instant::now();
            let run = table.lock_prefix(rows.iter().copied(), &mut Timeout::from_micros(60_000_000), scratch).unwrap();
            assert_eq!((run.len(), table.stats().held_now), (5, 6));
            let scratch = run.into_scratch();
            let NotLocked { why: e, scratch, .. } =
                table.lock_prefix(rows[5..].iter().copied(), &mut Timeout::from_micros(1_000), scratch).err().unwrap();
            assert_eq!(e, LockError::Timeout);
            assert_eq!(table.lock_prefix(rows[6..].iter().copied(), &mut no_wait(), scratch).unwrap().len(), 2);
            assert!(started.elapsed() < Duration::from_secs(30));
        })
        .join()
        .unwrap();
        drop(held);
    });
    assert!(table.lock_prefix([].into_iter(), &mut no_wait(), LockScratch::default()).unwrap().is_empty());
    assert_idle(&table);
}
