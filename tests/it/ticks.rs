//! P-T1 to P-T4: ticks, under a clock that the test moves.

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::options::WriteOptions;
use region::region::{BatchOutcome, CommitInfo, Increments, OpStatus, Region};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const UNITS: [ClockUnit; 3] = [ClockUnit::Nanos, ClockUnit::Micros, ClockUnit::Millis];
/// Some instant.
const NOW: u64 = 10_000_000_000_000;

/// Row, number and tick of commits.
type Commits = Vec<(Vec<u8>, u64, u64)>;

/// Per row, numbers and ticks grow together, strictly: T1 and T2.
#[track_caller]
fn grow_together(commits: &Commits) {
    let mut rows: BTreeMap<&[u8], Vec<(u64, u64)>> = BTreeMap::new();
    for (row, seq, tick) in commits {
        rows.entry(row).or_default().push((*seq, *tick));
    }
    for (row, mut of) in rows {
        of.sort_unstable();
        for w in of.windows(2) {
            assert!(w[0].0 < w[1].0, "{row:?}: number {} twice", w[0].0);
            assert!(w[0].1 < w[1].1, "{row:?}: commit {} has tick {}, then {} has {}", w[0].0, w[0].1, w[1].0, w[1].1);
        }
    }
}

/// Threads that commit the same few rows by every verb, alone and in batches; all commits.
fn storm(r: &Region, threads: u64, calls: u64, seed: u64) -> Commits {
    let all = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for t in 0..threads {
            let all = &all;
            s.spawn(move || {
                let mut random = Random(seed + t);
                let mut mine = Vec::new();
                for _ in 0..calls {
                    let row = vec![b'r', random.below(4) as u8];
                    let mut info = CommitInfo::default();
                    let mut rows = vec![row.clone()];
                    match random.below(4) {
                        0 => drop(r.increment(&row, CF, b"n", 1, &WriteOptions::DEFAULT, &mut info).unwrap()),
                        1 => r.put(&row, CF, b"v", b"v", &WriteOptions::DEFAULT, &mut info).unwrap(),
                        kind => {
                            rows = (0..2 + random.below(2)).map(|i| vec![b'r', (row[1] + i as u8) % 4]).collect();
                            let ops = rows.iter().map(|row| op_inc(row, b"n", 1)).collect();
                            let o = if kind == 2 { flags(WriteOptions::ATOMIC) } else { WriteOptions::DEFAULT };
                            let (outcome, _, of) = batch(r, ops, &o);
                            assert!(matches!(outcome, Ok(BatchOutcome::Done)));
                            info = of;
                            // A plain batch may have been several commits; only its last one is known.
                            if kind == 3 {
                                rows = vec![];
                            }
                        }
                    }
                    mine.extend(rows.into_iter().map(|row| (row, info.seq, info.timestamp)));
                }
                all.lock().unwrap().extend(mine);
            });
        }
    });
    all.into_inner().unwrap()
}

#[test]
fn p_t1_no_row_twice_in_a_tick() {
    let seed = seed();
    for unit in UNITS {
        for moves in [0u64, 1, 3] {
            let rig = Rig::with_clock("tick_lead_max_ms=60000", ManualClock::new(NOW, unit));
            let stop = AtomicBool::new(false);
            let commits = std::thread::scope(|s| {
                let (stop, clock) = (&stop, rig.clock.as_ref().unwrap());
                let stops = Stops(stop);
                s.spawn(move || {
                    // Forwards, and now and then back.
                    let mut random = Random(seed);
                    while !stop.load(Ordering::Relaxed) {
                        if random.below(3) == 0 && moves == 3 {
                            clock.step_back(random.below(20))
                        } else {
                            clock.advance(random.below(moves + 1))
                        }
                        std::thread::yield_now();
                    }
                });
                let commits = storm(&rig.region, 8, 100, seed);
                drop(stops);
                commits
            });
            assert!(commits.len() > 400);
            grow_together(&commits);
        }
    }
}

/// What the policy's documentation admits: of rows that left a bucket of the lock table only the latest tick is known, so after three rows of a bucket
/// a fourth waits, too. A row of another bucket does not.
#[test]
fn policy_wait_knows_two_rows_of_a_bucket() {
    let rig = Rig::with_clock("tick_policy=wait,lock_buckets=64", ManualClock::new(NOW, ClockUnit::Millis));
    let (r, clock) = (&rig.region, rig.clock.as_ref().unwrap());
    // The bucket is the upper part of the hash.
    let bucket = |row: &Vec<u8>| r.row_hash(row).0 >> 58;
    let rows: Vec<Vec<u8>> = (0..1000u32).map(|i| i.to_be_bytes().to_vec()).collect();
    let same: Vec<_> = rows.iter().filter(|row| bucket(row) == bucket(&rows[0])).take(4).cloned().collect();
    let other = rows.iter().find(|row| bucket(row) != bucket(&rows[0])).unwrap();
    let waits = || r.stats().unwrap().clock_waits;
    inc(r, &same[0], b"n", 1);
    inc(r, &same[1], b"n", 1);
    inc(r, &same[2], b"n", 1);
    inc(r, other, b"n", 1);
    assert_eq!(waits(), 0);
    let fourth = same[3].clone();
    let call = rig.spawn(move |r| inc(r, &fourth, b"n", 1));
    while waits() == 0 && !call.is_finished() {
        std::thread::yield_now();
    }
    clock.advance(1);
    assert_eq!(call.join().unwrap(), 1);
    assert_eq!(waits(), 1);
    assert_eq!(inc(r, &same[0], b"n", 1), 2);
    assert_eq!(waits(), 1, "in a new tick nobody waits");
}

#[test]
fn p_t1_policy_wait() {
    let rig = Rig::with_clock("tick_policy=wait", ManualClock::new(NOW, ClockUnit::Millis));
    let stop = AtomicBool::new(false);
    let commits = std::thread::scope(|s| {
        let (stop, clock) = (&stop, rig.clock.as_ref().unwrap());
        let stops = Stops(stop);
        s.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                clock.advance(1);
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        });
        let commits = storm(&rig.region, 4, 60, 1);
        drop(stops);
        commits
    });
    grow_together(&commits);
}

#[test]
fn p_t2_across_reopen_and_steps_back() {
    let mut rig = Rig::with_clock("seal_every_commits=30", ManualClock::new(NOW, ClockUnit::Millis));
    let mut all = Vec::new();
    for life in 0..5u64 {
        all.extend(storm(&rig.region, 3, 60, life));
        grow_together(&all);
        // Each life begins with a clock far behind.
        rig.clock.as_ref().unwrap().set(NOW - 1_000_000 * (life + 1));
        rig = if life % 2 == 0 { rig.reopen() } else { rig.after_kill() };
    }
    // And one that has leapt ahead and come back.
    rig.clock.as_ref().unwrap().set(NOW + 5_000_000);
    all.extend(storm(&rig.region, 3, 60, 9));
    rig.clock.as_ref().unwrap().set(NOW);
    all.extend(storm(&rig.region, 3, 60, 10));
    grow_together(&all);
}

#[test]
fn p_t3_a_clock_that_stands_never_hangs() {
    // Lead bound 5 ticks, so that it is used up at once.
    for unit in UNITS {
        let rig = Rig::with_clock("tick_lead_max_ms=5", ManualClock::new(NOW, unit));
        let r = &rig.region;
        let commits = storm(r, 4, 100, 7);
        grow_together(&commits);
        let stats = r.stats().unwrap();
        assert!(stats.tick_advances > 100 && stats.tick_lead_max_ns >= 100, "{stats:?}");
        // Stepped back by an hour: goes on at once as well.
        rig.clock.as_ref().unwrap().step_back(3_600_000_000_000 / unit.nanos());
        let begun = std::time::Instant::now();
        let mut more = storm(r, 4, 100, 8);
        assert!(begun.elapsed().as_secs() < 20);
        assert!(r.stats().unwrap().tick_lead_max_ns >= 3_600_000_000_000);
        more.extend(commits);
        grow_together(&more);
        assert_eq!(r.stats().unwrap().health, 0);
    }
}

/// A clock that moves, but slower than the row: it is waited for, and T1 holds.
#[test]
fn p_t3_a_slow_clock_is_waited_for() {
    let rig = Rig::with_clock("tick_lead_max_ms=2", ManualClock::new(NOW, ClockUnit::Millis));
    let stop = AtomicBool::new(false);
    let commits = std::thread::scope(|s| {
        let (stop, clock) = (&stop, rig.clock.as_ref().unwrap());
        let stops = Stops(stop);
        s.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                clock.advance(1);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let commits = storm(&rig.region, 2, 50, 3);
        drop(stops);
        commits
    });
    grow_together(&commits);
    assert!(rig.region.stats().unwrap().clock_waits > 0, "{:?}", rig.region.stats().unwrap());
}

/// A put made after a delete in another call is there, whatever the clock does in between.
#[test]
fn p_t4_a_delete_hides_nothing_newer() {
    for unit in UNITS {
        let mut rig = Rig::with_clock("seal_every_commits=7", ManualClock::new(NOW, unit));
        for i in 0..60u64 {
            let r = &rig.region;
            let clock = rig.clock.as_ref().unwrap();
            let value = i.to_be_bytes();
            delete(r, b"r", b"v");
            assert_eq!(get(r, b"r", b"v"), None);
            match i % 4 {
                0 => clock.advance(1),
                1 => clock.step_back(1000),
                _ => {}
            }
            put(r, b"r", b"v", &value);
            assert_eq!(get(r, b"r", b"v").unwrap(), value);
            assert_eq!(scan(r, None, b"r", b"s").iter().find(|c| c.1 == b"v").unwrap().2, value);
            delete(r, b"r", b"n");
            clock.step_back(i % 3);
            assert_eq!(inc(r, b"r", b"n", 5), 5, "an increment after a delete begins at 0");
            assert_eq!(inc(r, b"r", b"n", 5), 10);
            // Within one call the order given decides.
            done(r, vec![op_put(b"r", b"w", b"a"), op_delete(b"r", b"w")], &WriteOptions::DEFAULT);
            assert_eq!(get(r, b"r", b"w"), None);
            done(r, vec![op_delete(b"r", b"w"), op_put(b"r", b"w", &value)], &WriteOptions::DEFAULT);
            assert_eq!(get(r, b"r", b"w").unwrap(), value);
            if i % 20 == 19 {
                clock.step_back(1_000_000);
                rig = rig.reopen();
                let r = &rig.region;
                assert_eq!((get(r, b"r", b"v").unwrap(), get(r, b"r", b"w").unwrap()), (value.to_vec(), value.to_vec()));
                assert_eq!(counter(r, b"r", b"n"), Some(10));
            }
        }
    }
}

/// The rows of a run all get the run's tick, and it is above every row's last one.
#[test]
fn p_t1_a_batch_takes_one_tick() {
    let rig = Rig::with_clock("", ManualClock::new(NOW, ClockUnit::Millis));
    let r = &rig.region;
    count_up(r, b"ahead", 10, 1);
    let incs = Incs(vec![(b"behind", 1), (b"ahead", 1)]);
    assert_eq!(incs.len(), 2);
    let mut info = CommitInfo::default();
    let outcome = r.increment_many(&incs, &WriteOptions::DEFAULT, &mut info, &mut |_, result| assert_eq!(result.status, OpStatus::Applied));
    assert!(matches!(outcome, Ok(BatchOutcome::Done)));
    assert_eq!(info.timestamp, NOW + 10);
    let mut next = CommitInfo::default();
    r.put(b"behind", CF, b"v", b"v", &WriteOptions::DEFAULT, &mut next).unwrap();
    assert_eq!(next.timestamp, NOW + 11);
}
