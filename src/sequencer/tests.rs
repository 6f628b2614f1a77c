//! The sequencer's promises T1, T2 and T3, and the cases CLK-*.

#[cfg(loom)]
mod models {
    use super::super::*;
    use crate::clock::ManualClock;
    use crate::sync::Arc;

    /// Under a row's lock ticks grow, whatever the clock does between and during the commits.
    fn row(locked: bool) {
        let mut b = loom::model::Builder::new();
        b.preemption_bound = Some(2);
        b.check(move || {
            let clock = Arc::new(ManualClock::new(10, ClockUnit::Nanos));
            let s = Arc::new((RowCommitSequencer::new(Arc::clone(&clock), TickPolicy::Advance, 1_000), Mutex::new(()), AtomicU64::new(9)));
            let commit = move |s: &(RowCommitSequencer<Arc<ManualClock>>, Mutex<()>, AtomicU64)| {
                let _lock = locked.then(|| s.1.lock());
                let last = s.2.load(Ordering::Relaxed);
                let Step::Take(tick) = s.0.next(Tick(last)) else { panic!("within the bound") };
                let found = s.2.swap(tick.0, Ordering::Relaxed);
                assert!(found < tick.0, "tick {} after {found}", tick.0);
            };
            let other = Arc::clone(&s);
            let t = loom::thread::spawn(move || commit(&other));
            let stepper = loom::thread::spawn(move || {
                clock.step_back(5);
                clock.advance(3);
            });
            commit(&s);
            t.join().unwrap();
            stepper.join().unwrap();
        });
    }
    #[test]
    fn ticks_grow_under_the_lock() {
        row(true)
    }
    #[test]
    #[should_panic(expected = "after")]
    fn ticks_without_the_lock_do_not() {
        row(false)
    }
}

#[cfg(not(loom))]
mod real {
    use super::super::*;
    use crate::clock::ManualClock;
    use crate::sync::Arc;
    use std::sync::atomic::AtomicBool;

    type Sequencer = RowCommitSequencer<Arc<ManualClock>>;

    fn sequencer(now: u64, unit: ClockUnit, policy: TickPolicy, bound_ns: u64) -> (Arc<ManualClock>, Sequencer) {
        let clock = Arc::new(ManualClock::new(now, unit));
        let s = RowCommitSequencer::new(Arc::clone(&clock), policy, bound_ns);
        (clock, s)
    }

    /// What a row's lock guards in this test.
    #[derive(Default)]
    struct Row {
        last: u64,
        /// (number, tick) of each commit, in lock order.
        commits: Vec<(u64, u64)>,
    }

    struct Run {
        threads: usize,
        commits: usize,
        unit: ClockUnit,
        policy: TickPolicy,
        bound_ns: u64,
    }

    const ROWS: usize = 8;

    /// Tells the mover that a thread is done, or has failed.
    struct Left<'a>(&'a AtomicU64);
    impl Drop for Left<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Long enough for anything that does not hang.
    fn soon() -> Timeout {
        Timeout::from_micros(5_000_000)
    }

    /// `threads` × `commits` commits on batches of 1 to 4 of 8 rows, beside `mover`, which moves the clock until all are done. Checks T1 and T2.
    fn run(r: Run, mover: impl Fn(&ManualClock, u64) + Sync) -> (Sequencer, u64) {
        const START: u64 = 1 << 40;
        let (clock, s) = sequencer(START, r.unit, r.policy, r.bound_ns);
        let rows: Vec<_> = (0..ROWS).map(|_| Mutex::new(Row::default())).collect();
        let (number, left) = (Mutex::new(0_u64), AtomicU64::new(r.threads as u64));
        std::thread::scope(|scope| {
            for t in 0..r.threads as u64 {
                let (s, rows, number, left) = (&s, &rows, &number, &left);
                scope.spawn(move || {
                    let _left = Left(left);
                    let mut seed = t.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                    for _ in 0..r.commits {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let mut batch: Vec<_> =
                            (0..1 + (seed >> 60) % 4).map(|k| ((seed >> (20 + 8 * k)) % ROWS as u64) as usize).collect();
                        batch.sort_unstable();
                        batch.dedup();
                        for waits in 0.. {
                            assert!(waits < 5_000, "T3: waits again and again");
                            let mut held: Vec<_> = batch.iter().map(|i| rows[*i].lock()).collect();
                            let last = held.iter().map(|row| row.last).max().unwrap();
                            match s.next(Tick(last)) {
                                Step::Take(Tick(tick)) => {
                                    let mut n = number.lock();
                                    *n += 1;
                                    for row in &mut held {
                                        assert!(tick > row.last, "T1: tick {tick} after {}", row.last);
                                        row.last = tick;
                                        row.commits.push((*n, tick));
                                    }
                                    break;
                                }
                                Step::WaitFor(until) => {
                                    drop(held);
                                    s.wait_for_next_tick(until, &mut soon(), &|| false).expect("T3: hung");
                                }
                            }
                        }
                    }
                });
            }
            for round in 0.. {
                if left.load(Ordering::Acquire) == 0 {
                    break;
                }
                mover(&clock, round);
            }
        });
        let mut commits = 0;
        let mut latest = 0;
        for row in &rows {
            let row = row.lock();
            let grows = |f: fn(&(u64, u64)) -> u64| row.commits.windows(2).all(|w| f(&w[0]) < f(&w[1]));
            assert!(grows(|c| c.1), "T1: a tick twice");
            assert!(grows(|c| c.0), "T2: numbers and ticks do not grow together");
            commits += row.commits.len();
            latest = latest.max(row.last);
        }
        assert!(commits >= r.threads * r.commits);
        (s, latest)
    }

    /// A small pseudo-random number of `round`.
    fn chance(round: u64) -> u64 {
        (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
    }

    const SECOND: u64 = 1_000_000_000;
    const NS: Run = Run { threads: 12, commits: 5_000, unit: ClockUnit::Nanos, policy: TickPolicy::Advance, bound_ns: SECOND };

    #[test]
    fn t1_t2_stepping_clock() {
        // Forwards and back by up to 3 ms, as often as the mover gets to it.
        let (s, _) = run(NS, |c, round| match chance(round) {
            n if n & 1 == 0 => c.advance(n % 3_000_000),
            n => c.step_back(n % 3_000_000),
        });
        assert!(s.stats().tick_advances > 0);
    }

    #[test]
    fn t1_t2_jumping_clock() {
        run(NS, |c, round| if round % 3 == 2 { c.step_back(20 * SECOND) } else { c.advance(11 * SECOND) });
    }

    #[test]
    fn t3_frozen_clock_nanos() {
        let (s, latest) = run(NS, |_, _| std::thread::yield_now());
        let stats = s.stats();
        assert!(stats.tick_advances > 5_000, "{stats:?}");
        assert_eq!(stats.tick_lead_max_ns, latest - (1 << 40), "the furthest row tells the lead");
    }

    #[test]
    fn t3_frozen_clock_beyond_the_bound_is_waited_for_once() {
        // 12 × 200 commits on 8 rows need far more than the 5 ticks of the bound.
        let millis = Run { commits: 200, unit: ClockUnit::Millis, bound_ns: 5_000_000, ..NS };
        let begun = std::time::Instant::now();
        let (s, latest) = run(millis, |_, _| std::thread::yield_now());
        assert!(latest - (1 << 40) > 100, "{latest}");
        let stats = s.stats();
        assert!((1..=12 * 8).contains(&stats.clock_waits), "{stats:?}");
        assert!(begun.elapsed().as_millis() >= 100, "it had moved less than 100 ms ago as far as anybody knew");
    }

    #[test]
    fn t3_clock_stepped_back_by_an_hour_while_it_runs() {
        for policy in [TickPolicy::Advance, TickPolicy::Wait] {
            let r = Run { commits: 30, unit: ClockUnit::Millis, policy, bound_ns: 5_000_000, ..NS };
            let (s, _) = run(r, |c, round| {
                if round == 50 {
                    c.step_back(3_600_000);
                }
                c.advance(1);
                std::thread::sleep(std::time::Duration::from_micros(200));
            });
            assert!(s.stats().tick_advances > 0);
        }
    }

    #[test]
    fn t1_wait_policy_takes_no_tick_ahead_of_a_clock_that_moves() {
        let r = Run { commits: 20, unit: ClockUnit::Micros, policy: TickPolicy::Wait, bound_ns: SECOND, ..NS };
        let (s, _) = run(r, |c, _| {
            c.advance(1);
            std::thread::yield_now();
        });
        let stats = s.stats();
        assert!(stats.tick_advances == 0 && stats.clock_waits > 0, "{stats:?}");
    }

    #[test]
    fn clk_01_one_row_of_eight_threads_distinct_ticks() {
        let (clock, s) = sequencer(1 << 40, ClockUnit::Nanos, TickPolicy::Advance, SECOND);
        let (row, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..5_000 {
                            let mut ticks = row.lock();
                            let Step::Take(t) = s.next(Tick(ticks.last().copied().unwrap_or(0))) else { panic!("within the bound") };
                            ticks.push(t.0);
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    if round % 2 == 0 { clock.advance(chance(round) % 1_000) } else { clock.step_back(chance(round) % 1_000) }
                }
            });
            let results: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
            stop.store(true, Ordering::Relaxed);
            results.into_iter().for_each(|r| r.unwrap());
        });
        let mut ticks = row.lock().clone();
        ticks.dedup();
        assert_eq!(ticks.len(), 40_000);
        assert!(ticks.is_sorted());
    }

    #[test]
    fn clk_03_a_batch_takes_one_tick_above_all_its_rows() {
        struct Held(Vec<u64>);
        impl LastTick for Held {
            fn last_tick(&self) -> Tick {
                Tick(self.0.iter().copied().max().unwrap_or(0))
            }
        }
        let (clock, s) = sequencer(100, ClockUnit::Millis, TickPolicy::Wait, SECOND);
        let batch = Held(vec![20, 100, 7]);
        assert_eq!(s.next_for(&batch), Step::WaitFor(Tick(101)), "one row overlaps: the batch waits as a whole");
        assert_eq!(s.next_for(&Held(vec![20, 7])), Step::Take(Tick(100)), "rows that do not overlap");
        clock.advance(1);
        assert_eq!(s.next_for(&batch), Step::Take(Tick(101)));
    }

    #[test]
    fn clk_06_frozen_clock_is_waited_for_a_tenth_of_a_second_then_the_row_goes_on() {
        let (_clock, s) = sequencer(100, ClockUnit::Millis, TickPolicy::Wait, SECOND);
        let begun = std::time::Instant::now();
        assert_eq!(s.next(Tick(100)), Step::WaitFor(Tick(101)));
        s.wait_for_next_tick(Tick(101), &mut soon(), &|| false).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(99), "{:?}", begun.elapsed());
        for tick in 101..110 {
            assert_eq!(s.next(Tick(tick - 1)), Step::Take(Tick(tick)), "no more waiting while it stands");
        }
        assert_eq!(s.stats(), SequencerStats { tick_advances: 9, tick_lead_max_ns: 9_000_000, clock_waits: 1 });
    }

    #[test]
    fn clk_07_close_and_timeout_end_a_wait_and_other_rows_go_on() {
        let (clock, s) = sequencer(100, ClockUnit::Millis, TickPolicy::Wait, SECOND);
        let closing = AtomicBool::new(false);
        let wait = |t: &mut Timeout| s.wait_for_next_tick(Tick(101), t, &|| closing.load(Ordering::Relaxed));
        assert_eq!(wait(&mut Timeout::no_wait()), Err(TickWait::Timeout));
        assert_eq!(wait(&mut Timeout::from_micros(3_000)), Err(TickWait::Timeout));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(&mut soon()));
            assert_eq!(s.next(Tick(50)), Step::Take(Tick(100)), "an unrelated row");
            closing.store(true, Ordering::Relaxed);
            assert_eq!(waiter.join().unwrap(), Err(TickWait::Closed));
        });
        closing.store(false, Ordering::Relaxed);
        clock.advance(1);
        assert_eq!(wait(&mut Timeout::no_wait()), Ok(()));
        clock.step_back(5);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(&mut soon()));
            while s.stats().clock_waits < 5 {
                std::thread::yield_now();
            }
            clock.step_back(1);
            assert_eq!(waiter.join().unwrap(), Ok(()), "a clock that stepped back is not waited for");
        });
    }

    #[test]
    fn lead_bound_holds_while_the_clock_moves() {
        let (clock, s) = sequencer(1_000, ClockUnit::Millis, TickPolicy::Advance, 10_000_000);
        let mut last = 1_000;
        for _ in 0..10 {
            last += 1;
            assert_eq!(s.next(Tick(last - 1)), Step::Take(Tick(last)));
        }
        for now in 1_001..1_050 {
            assert_eq!(s.next(Tick(last)), Step::WaitFor(Tick(now)));
            clock.advance(1);
            last += 1;
            assert_eq!(s.next(Tick(last - 1)), Step::Take(Tick(last)), "one commit for each tick of the clock");
        }
        assert_eq!(s.stats().tick_lead_max_ns, 10_000_000);
    }

    #[test]
    fn ticks_of_a_former_life_are_not_waited_for_and_the_lead_melts() {
        // The highest tick of the log is an hour ahead of today's clock; the bound is 10 ticks.
        let (clock, s) = sequencer(1_000, ClockUnit::Millis, TickPolicy::Advance, 10_000_000);
        let floor = 3_601_000;
        for row in 0..100 {
            assert_eq!(s.next(Tick(floor + row % 3)), Step::Take(Tick(floor + row % 3 + 1)));
        }
        // A busy row uses up the bound; then it gets one tick for each two of the clock, so it comes nearer.
        let mut last = floor + 11;
        let mut taken = 0;
        for _ in 0..2_000 {
            clock.advance(1);
            while let Step::Take(t) = s.next(Tick(last)) {
                assert!(t.0 > last);
                last = t.0;
                taken += 1;
            }
        }
        assert!((990..=1_012).contains(&taken), "{taken} commits in 2,000 ticks");
    }

    #[test]
    fn nothing_is_counted_while_the_clock_is_ahead() {
        let (clock, s) = sequencer(10, ClockUnit::Nanos, TickPolicy::Advance, SECOND);
        for _ in 0..1_000 {
            clock.advance(1);
            assert_eq!(s.next(Tick(clock.now().0 - 1)), Step::Take(clock.now()));
        }
        assert_eq!(s.stats(), SequencerStats::default());
    }

    #[test]
    fn t1_with_the_system_clock() {
        for unit in [ClockUnit::Nanos, ClockUnit::Micros] {
            let s = RowCommitSequencer::new(SystemClock::new(unit), TickPolicy::Advance, SECOND);
            let row = Mutex::new(0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..20_000 {
                            let mut last = row.lock();
                            let Step::Take(t) = s.next(Tick(*last)) else { panic!("within a second") };
                            assert!(t.0 > *last);
                            *last = t.0;
                        }
                    });
                }
            });
        }
    }
}
