//! Waiting, deadlines, closing.

use super::*;

/// LCK-01: locks are not reentrant. A thread that asks twice waits for itself until its timeout; debug builds say so at once.
#[test]
fn a_second_lock_by_one_thread_times_out() {
    let table = RowLockTable::new(4);
    let h = RowHash(77);
    let first = table.lock(h, &mut no_wait()).unwrap();
    #[cfg(debug_assertions)]
    {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| table.lock(h, &mut no_wait()).is_ok()));
        assert!(caught.is_err(), "the order of locks was not checked");
        crate::lock_order::switch_off(true);
    }
    assert_eq!(table.lock(h, &mut Timeout::from_micros(3_000)).err(), Some(LockError::Timeout));
    assert_eq!(table.lock(h, &mut no_wait()).err(), Some(LockError::Timeout));
    #[cfg(debug_assertions)]
    crate::lock_order::switch_off(false);
    drop(first);
    assert!(free(&table, h));
    assert_eq!((table.waits(), table.stats().timeouts), (1, 1));
    assert_idle(&table);
}

/// LCK-02: there are no shared locks; a second request of any kind waits for the first.
#[test]
fn a_waiter_gets_the_row_with_what_the_holder_left() {
    let table = RowLockTable::new(4);
    let h = RowHash(77);
    let mut held = table.lock(h, &mut no_wait()).unwrap();
    thread::scope(|s| {
        let waiter = s.spawn(|| {
            let locks = table.lock(h, &mut forever()).unwrap();
            (locks.last_tick(), locks.fsync_pending())
        });
        until_waiting(&table, 1);
        held.set_tick(Tick(123));
        held.raise_fsync_pending(9);
        drop(held);
        assert_eq!(waiter.join().unwrap(), (Tick(123), 9));
    });
    assert_eq!(table.waits(), 1);
    assert_idle(&table);
}

/// BUG-76: degenerate waits. Zero and one microsecond do not wait; longer ones end in time and asleep; the largest do not overflow.
#[test]
fn every_timeout_ends_when_it_should() {
    let table = RowLockTable::new(4);
    let h = RowHash(77);
    let held = table.lock(h, &mut no_wait()).unwrap();
    thread::scope(|s| {
        s.spawn(|| {
            for micros in [0, 1] {
                let started = Instant::now();
                assert_eq!(table.lock(h, &mut Timeout::from_micros(micros)).err(), Some(LockError::Timeout));
                assert!(started.elapsed() < Duration::from_millis(500));
            }
            assert_eq!(table.waits(), 0, "it did not even try to wait");
            for micros in [2, 1_000, 20_000] {
                let started = Instant::now();
                assert_eq!(table.lock(h, &mut Timeout::from_micros(micros)).err(), Some(LockError::Timeout));
                let took = started.elapsed();
                assert!(took >= Duration::from_micros(micros) && took < Duration::from_secs(5), "{micros}: {took:?}");
            }
            assert_eq!(table.stats().timeouts, 3);
            // One sleep each: no busy loop.
            assert_eq!(table.stats().sleeps, 3);
        })
        .join()
        .unwrap();
        let before = table.stats().sleeps;
        let waiters = [i64::MAX as u64, u64::MAX - 1, u64::MAX].map(|micros| {
            let table = &table;
            s.spawn(move || table.lock(h, &mut Timeout::from_micros(micros)).is_ok())
        });
        until_asleep(&table, 3, before + 3);
        drop(held);
        for w in waiters {
            assert!(w.join().unwrap());
        }
    });
    assert_idle(&table);
}

/// One timeout covers a whole multi-row call, and what it comes after.
#[test]
fn a_timeout_is_not_started_again_for_each_row() {
    let table = RowLockTable::new(4);
    let mut rows: Vec<RowHash> = (0..4).map(|b| in_bucket(4, b, 9)).collect();
    let held = table.lock(rows[3], &mut no_wait()).unwrap();
    thread::scope(|s| {
        s.spawn(|| {
            let mut timeout = Timeout::from_micros(30_000);
            assert_eq!(table.lock(rows[3], &mut timeout).err(), Some(LockError::Timeout));
            assert_eq!(timeout.left(Duration::from_secs(1)), Duration::ZERO);
            let started = Instant::now();
            for _ in 0..100 {
                let NotLocked { why: e, .. } = table.lock_all(&mut rows, &mut timeout, LockScratch::default()).err().unwrap();
                assert_eq!(e, LockError::Timeout);
            }
            assert!(started.elapsed() < Duration::from_millis(2_900), "100 times 30 ms were waited");
        });
    });
    drop(held);
    assert_idle(&table);
}

/// LCK-07, P15: a close sends waiters away, refuses newcomers, leaves holders alone, and can be undone.
#[test]
fn close_wakes_all_waiters_and_reopen_lets_in_again() {
    let table = RowLockTable::new(4);
    // Inline and overflow entries: six rows of one bucket, each with two waiters.
    let rows: Vec<RowHash> = (0..6).map(|n| in_bucket(4, 7, n)).collect();
    let mut held = table.lock_all(&mut rows.clone(), &mut no_wait(), LockScratch::default()).unwrap();
    held.set_tick(Tick(50));
    thread::scope(|s| {
        let waiters: Vec<_> = rows
            .iter()
            .flat_map(|r| [*r, *r])
            .map(|r| {
                let table = &table;
                s.spawn(move || table.lock(r, &mut forever()).err())
            })
            .collect();
        until_waiting(&table, 12);
        table.close();
        for w in waiters {
            assert_eq!(w.join().unwrap(), Some(LockError::Closed));
        }
        s.spawn(|| {
            assert_eq!(table.lock(RowHash(1), &mut forever()).err(), Some(LockError::Closed));
            assert!(table.try_lock(RowHash(1)).is_none());
            let all = table.lock_all(&mut vec![RowHash(1)], &mut forever(), LockScratch::default());
            assert_eq!(all.err().map(|e| e.why), Some(LockError::Closed));
            let run = table.lock_prefix([RowHash(1)].into_iter(), &mut forever(), LockScratch::default());
            assert_eq!(run.err().map(|e| e.why), Some(LockError::Closed));
        });
    });
    assert_eq!(table.stats().held_now, 6);
    drop(held);
    assert_idle(&table);
    table.reopen();
    for r in rows {
        assert!(table.lock(r, &mut no_wait()).unwrap().last_tick() >= Tick(50));
    }
    assert_idle(&table);
}

/// BUG-77: a holder that panics releases.
#[test]
fn a_panicking_holder_releases_one_row_and_many() {
    let table = RowLockTable::new(4);
    let rows: Vec<RowHash> = (0..6).map(|n| in_bucket(4, 7, n)).collect();
    thread::scope(|s| {
        let dies = s.spawn(|| {
            let _locks = table.lock(rows[3], &mut no_wait()).unwrap();
            until_waiting(&table, 1);
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        while table.stats().held_now == 0 {
            thread::yield_now();
        }
        assert!(table.lock(rows[3], &mut forever()).is_ok());
        assert!(dies.join().is_err());
        let dies = s.spawn(|| {
            let _locks = table.lock_all(&mut rows.clone(), &mut no_wait(), LockScratch::default()).unwrap();
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(dies.join().is_err());
    });
    assert_idle(&table);
    assert!(free(&table, rows[5]));
}

/// Fairness: among threads that come again at once, with the row practically always held, sleepers are handed the row; and one that never
/// hurries gets it again and again.
#[test]
fn sleepers_are_handed_the_row_past_running_threads() {
    let table = RowLockTable::new(4);
    let h = RowHash(77);
    let stop = AtomicBool::new(false);
    let deadline = Instant::now() + Duration::from_secs(20);
    let (mut got, mut starved) = (0, false);
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let locks = table.lock(h, &mut forever()).unwrap();
                    for _ in 0..200 {
                        std::hint::spin_loop();
                    }
                    drop(locks);
                }
            });
        }
        // Nothing is asserted in here: the others run until told to stop.
        while !starved && (got < 50 || table.stats().handed_over < 5) && Instant::now() < deadline {
            starved = table.lock(h, &mut Timeout::from_micros(20_000_000)).is_err();
            got += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
    let stats = table.stats();
    assert!(!starved && got >= 50, "starved after {got}: {stats:?}");
    assert!(stats.handed_over >= 5, "nobody is ever handed the row: {stats:?}");
    assert_idle(&table);
}
