//! Many threads. What is counted without atomics' help proves exclusion: load, then store.

use super::*;

fn bump(cell: &AtomicU64) {
    let n = cell.load(Ordering::Relaxed);
    cell.store(n + 1, Ordering::Relaxed);
}

/// LCK-05: eight threads, one row, 10^5 times: no lost entry, nothing left.
#[test]
fn eight_threads_on_one_row_exclude_each_other_and_leave_nothing() {
    let table = RowLockTable::new(4);
    let count = AtomicU64::new(0);
    let start = Barrier::new(8);
    thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                start.wait();
                for _ in 0..100_000 {
                    let mut locks = table.lock(RowHash(5), &mut forever()).unwrap();
                    let n = count.load(Ordering::Relaxed);
                    // The tick is handed from holder to holder.
                    assert_eq!(locks.last_tick(), Tick(n));
                    bump(&count);
                    locks.set_tick(Tick(n + 1));
                }
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 800_000);
    assert_idle(&table);
}

/// LCK-06: rows that meet in a bucket, or in the overflow of one, do not block each other for ever, and each keeps its own holder.
#[test]
fn rows_of_one_crowded_bucket_keep_exclusion_and_ticks() {
    let seed = 0x9e37_79b9_7f4a_7c15;
    for log2 in [0, 1] {
        let table = RowLockTable::new(log2);
        let rows: Vec<(RowHash, AtomicU64, AtomicU64)> = (0..9).map(|n| (RowHash(n), AtomicU64::new(0), AtomicU64::new(0))).collect();
        let clock = AtomicU64::new(1);
        thread::scope(|s| {
            for t in 1..=6 {
                let (table, rows, clock) = (&table, &rows, &clock);
                s.spawn(move || {
                    let mut random = Random(seed ^ (t << 32));
                    for _ in 0..20_000 {
                        let (hash, count, last) = &rows[random.below(9) as usize];
                        let mut locks = table.lock(*hash, &mut forever()).unwrap();
                        bump(count);
                        let before = last.load(Ordering::Relaxed);
                        assert!(locks.last_tick().0 >= before, "row {hash:?} forgot its tick {before}: {:?}", locks.last_tick());
                        let tick = clock.fetch_add(1, Ordering::Relaxed).max(locks.last_tick().0 + 1);
                        last.store(tick, Ordering::Relaxed);
                        locks.set_tick(Tick(tick));
                        if random.below(16) == 0 {
                            thread::yield_now();
                        }
                    }
                });
            }
        });
        assert_eq!(rows.iter().map(|r| r.1.load(Ordering::Relaxed)).sum::<u64>(), 120_000);
        assert_idle(&table);
    }
}

/// BUG-74: batches of 1,000 rows in random order, with rows that come twice, beside single locks: nobody ever times out.
#[test]
fn large_batches_in_random_order_never_deadlock() {
    let seed = 0x0123_4567_89ab_cdef;
    let table = RowLockTable::new(8);
    let rows = 3_000;
    let counts: Vec<AtomicU64> = (0..rows).map(|_| AtomicU64::new(0)).collect();
    // Spread over the table, ascending with the number, so that the row can be found again from its hash.
    let step = u64::MAX / rows;
    let started = Instant::now();
    let totals: u64 = thread::scope(|s| {
        let threads: Vec<_> = (1..=8)
            .map(|t| {
                let (table, counts) = (&table, &counts);
                s.spawn(move || {
                    let mut random = Random(seed ^ (t << 32));
                    let mut scratch = LockScratch::default();
                    let mut list = Vec::new();
                    let mut locked = 0;
                    for _ in 0..20 {
                        list.clear();
                        list.extend((0..1_000).map(|_| RowHash(random.below(rows) * step)));
                        list.push(list[7]);
                        let mut timeout = Timeout::from_micros(60_000_000);
                        let locks = table.lock_all(&mut list, &mut timeout, scratch).map_err(|e| e.why).expect("a deadlock");
                        assert_eq!(locks.len(), list.len());
                        list.iter().for_each(|h| bump(&counts[(h.0 / step) as usize]));
                        locked += list.len() as u64;
                        scratch = locks.into_scratch();
                        let one = random.below(rows);
                        let single = table.lock(RowHash(one * step), &mut timeout).expect("a deadlock");
                        bump(&counts[one as usize]);
                        locked += 1;
                        drop(single);
                    }
                    locked
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!(counts.iter().map(|c| c.load(Ordering::Relaxed)).sum::<u64>(), totals);
    assert_idle(&table);
}

/// The same for plain runs, each in its own order: every run gets at least its first row, so every call ends.
#[test]
fn plain_runs_in_random_order_make_progress() {
    let seed = 0xfeed_beef;
    let table = RowLockTable::new(3);
    let counts: Vec<AtomicU64> = (0..40).map(|_| AtomicU64::new(0)).collect();
    let runs = AtomicUsize::new(0);
    thread::scope(|s| {
        for t in 1..=4 {
            let (table, counts, runs) = (&table, &counts, &runs);
            s.spawn(move || {
                let mut random = Random(seed ^ (t << 32));
                let mut scratch = LockScratch::default();
                for _ in 0..300 {
                    let rows: Vec<u64> = (0..60).map(|_| random.below(40)).collect();
                    let hashes: Vec<RowHash> = rows.iter().map(|n| RowHash(n << 58 | n)).collect();
                    let mut done = 0;
                    while done < rows.len() {
                        let mut timeout = Timeout::from_micros(60_000_000);
                        let locks = table
                            .lock_prefix(hashes[done..].iter().copied(), &mut timeout, scratch)
                            .map_err(|e| e.why)
                            .expect("a deadlock");
                        let n = locks.len();
                        assert!(n > 0);
                        rows[done..done + n].iter().for_each(|r| bump(&counts[*r as usize]));
                        runs.fetch_add(1, Ordering::Relaxed);
                        done += n;
                        scratch = locks.into_scratch();
                    }
                }
            });
        }
    });
    assert_eq!(counts.iter().map(|c| c.load(Ordering::Relaxed)).sum::<u64>(), 4 * 300 * 60);
    assert!(runs.load(Ordering::Relaxed) > 1_200, "rows came back, so calls had several runs");
    assert_idle(&table);
}

/// Timeouts, hand-overs, closings and reopenings at random: nobody is lost, nothing stays held.
#[test]
fn timeouts_and_closes_in_a_crowd_lose_nobody() {
    let seed = 0x5bd1_e995;
    let table = RowLockTable::new(0);
    let stop = AtomicBool::new(false);
    let counts: Vec<AtomicU64> = (0..5).map(|_| AtomicU64::new(0)).collect();
    let got = AtomicU64::new(0);
    let outcomes: Arc<[AtomicU64; 2]> = Arc::default();
    thread::scope(|s| {
        for t in 1..=12 {
            let (table, stop, counts, got, outcomes) = (&table, &stop, &counts, &got, outcomes.clone());
            s.spawn(move || {
                let mut random = Random(seed ^ (t << 32));
                while !stop.load(Ordering::Relaxed) {
                    let n = random.below(5);
                    let micros = [0, 2, 30, 200, 2_000, u64::MAX][random.below(6) as usize];
                    match table.lock(RowHash(n), &mut Timeout::from_micros(micros)) {
                        Ok(_locks) => {
                            bump(&counts[n as usize]);
                            got.fetch_add(1, Ordering::Relaxed);
                            for _ in 0..random.below(3_000) {
                                std::hint::spin_loop();
                            }
                        }
                        Err(e) => {
                            outcomes[usize::from(e == LockError::Closed)].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        let deadline = Instant::now() + Duration::from_millis(1_500);
        while Instant::now() < deadline {
            thread::sleep(Duration::from_millis(3));
            table.close();
            thread::yield_now();
            table.reopen();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(counts.iter().map(|c| c.load(Ordering::Relaxed)).sum::<u64>(), got.load(Ordering::Relaxed));
    assert!(outcomes[0].load(Ordering::Relaxed) > 0 && outcomes[1].load(Ordering::Relaxed) > 0);
    assert_idle(&table);
}
