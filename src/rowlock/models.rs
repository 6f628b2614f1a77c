//! Loom models over the real files (`RUSTFLAGS="--cfg loom" cargo test --lib rowlock`). Each rule is seen to hold, and with the rule switched
//! off (a `Flaw`) the same model must fail: so none of them proves nothing.

#![forbid(unsafe_code)]

use super::flaw::Flaw;
use super::{LockError, LockScratch, RowLockTable};
use crate::clock::Timeout;
use crate::ids::{RowHash, Tick};
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, thread};

/// One bucket: all rows meet in it.
fn table(flaw: Flaw, fair: bool) -> Arc<RowLockTable> {
    let mut table = RowLockTable::new(0);
    table.flaw = flaw;
    table.lot.set_fair(fair);
    Arc::new(table)
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Runs the model `name` as it is, which must hold, and with each flaw, which must break it. A broken model often ends in a panic within a
/// panic, hence in an abort: so each flaw runs in a process of its own, this test once more with the flaw in the environment.
fn holds_but_for(name: &str, preemptions: usize, flaws: &[Flaw], model: fn(Flaw)) {
    if let Ok(wanted) = std::env::var(FLAW) {
        let flaw = flaws.iter().copied().find(|f| format!("{f:?}") == wanted).expect("a flaw of this model");
        return explore(preemptions, move || model(flaw));
    }
    explore(preemptions, move || model(Flaw::None));
    for flaw in flaws {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("rowlock::models::{name}")])
            .env(FLAW, format!("{flaw:?}"))
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&[child.stderr, child.stdout].concat()).into_owned();
        assert!(!child.status.success(), "{flaw:?} went unnoticed");
        assert!(output.contains("running 1 test"), "the process did not get to the model: {output}");
    }
}

/// A row that is inline from the start, so that the models with three threads pass no latch. With two threads waiting for a latch, loom may
/// schedule them in turn and leave its preempted owner aside until the branches run out: a traced run did so for 132 rounds, then went on.
/// The owner waits for nothing, so that is loom's scheduling and no livelock; but the latch is explored with two contenders at most.
const ROW: RowHash = RowHash(0);

const FLAW: &str = "ROWLOCK_MODEL_FLAW";

fn forever() -> Timeout {
    Timeout::forever()
}

/// Read and written without help: two holders at a time, or a release that publishes nothing, lose a count.
fn bump(count: &AtomicU64) -> u64 {
    let n = count.load(Ordering::Relaxed);
    count.store(n + 1, Ordering::Relaxed);
    n
}

/// L1, L2: one holder, and the tick goes from holder to holder.
#[test]
fn mutual_exclusion_and_the_tick() {
    holds_but_for("mutual_exclusion_and_the_tick", 2, &[Flaw::RelaxedUnlock], |flaw| {
        let (table, count) = (table(flaw, false), Arc::new(AtomicU64::new(0)));
        let work = |table: &RowLockTable, count: &AtomicU64| {
            let mut locks = table.lock(ROW, &mut forever()).unwrap();
            let n = bump(count);
            assert_eq!(locks.last_tick(), Tick(n), "the tick was not handed on");
            locks.set_tick(Tick(n + 1));
        };
        let other = {
            let (table, count) = (table.clone(), count.clone());
            thread::spawn(move || work(&table, &count))
        };
        work(&table, &count);
        other.join().unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 2);
    });
}

/// L3, inline: a row that was put out of the table starts at or above its tick.
#[test]
fn eviction_keeps_the_tick() {
    holds_but_for("eviction_keeps_the_tick", 2, &[Flaw::ForgetTick], |flaw| {
        let table = table(flaw, false);
        for (row, tick) in [(10, 5), (11, 9)] {
            table.lock(RowHash(row), &mut forever()).unwrap().set_tick(Tick(tick));
        }
        let other = {
            let table = table.clone();
            thread::spawn(move || drop(table.lock(RowHash(12), &mut forever()).unwrap()))
        };
        let locks = table.lock(RowHash(10), &mut forever()).unwrap();
        assert!(locks.last_tick() >= Tick(5), "forgot the tick");
        drop(locks);
        other.join().unwrap();
    });
}

/// L3, overflow: the same for a row that had no inline entry.
#[test]
fn an_overflow_entry_that_goes_keeps_the_tick() {
    holds_but_for("an_overflow_entry_that_goes_keeps_the_tick", 2, &[Flaw::ForgetTick, Flaw::RelaxedUnlock], |flaw| {
        let (table, committed) = (table(flaw, false), Arc::new(AtomicU64::new(0)));
        let other = {
            let (table, committed) = (table.clone(), committed.clone());
            thread::spawn(move || {
                let mut rows = vec![RowHash(10), RowHash(11), RowHash(12)];
                let mut locks = table.lock_all(&mut rows, &mut forever(), LockScratch::default()).unwrap();
                locks.set_tick(Tick(9));
                committed.store(9, Ordering::Relaxed);
            })
        };
        let locks = table.lock(RowHash(12), &mut forever()).unwrap();
        assert!(locks.last_tick().0 >= committed.load(Ordering::Relaxed), "forgot the tick");
        drop(locks);
        other.join().unwrap();
        assert_eq!(table.stats().held_now, 0);
    });
}

/// L1 while entries change rows: a claimer that compared the hash too early must not get somebody else's entry.
#[test]
fn an_entry_given_to_another_row_is_not_claimed_for_the_old_one() {
    holds_but_for("an_entry_given_to_another_row_is_not_claimed_for_the_old_one", 3, &[Flaw::NoVersion], |flaw| {
        let (table, inside) = (table(flaw, false), Arc::new(AtomicU64::new(0)));
        for (row, tick) in [(10, 1), (11, 9)] {
            table.lock(RowHash(row), &mut forever()).unwrap().set_tick(Tick(tick));
        }
        let alone = |inside: &AtomicU64| {
            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two holders");
            inside.fetch_sub(1, Ordering::Relaxed);
        };
        let other = {
            let (table, inside) = (table.clone(), inside.clone());
            thread::spawn(move || {
                let _locks = table.lock(RowHash(10), &mut forever()).unwrap();
                alone(&inside);
            })
        };
        // Takes row 10's entry for row 12, and lets row 10 into the other one.
        table.lock(RowHash(12), &mut forever()).unwrap().set_tick(Tick(10));
        let locks = table.lock(RowHash(10), &mut forever()).unwrap();
        alone(&inside);
        drop(locks);
        other.join().unwrap();
    });
}

/// L2, L3: what waits for a sync is seen by the row's next holder, and a smaller number from the bucket's other row does not lower it.
#[test]
fn fsync_pending_is_seen_and_never_lowered() {
    holds_but_for("fsync_pending_is_seen_and_never_lowered", 2, &[Flaw::LowerPending, Flaw::RelaxedUnlock], |flaw| {
        let (table, committed) = (table(flaw, false), Arc::new(AtomicU64::new(0)));
        let commit = |table: &RowLockTable, row, number| {
            let mut locks = table.lock(RowHash(row), &mut forever()).unwrap();
            locks.raise_fsync_pending(number);
        };
        let small = {
            let table = table.clone();
            thread::spawn(move || commit(&table, 1, 5))
        };
        let large = {
            let (table, committed) = (table.clone(), committed.clone());
            thread::spawn(move || {
                let mut locks = table.lock(ROW, &mut forever()).unwrap();
                locks.raise_fsync_pending(10);
                committed.store(10, Ordering::Relaxed);
            })
        };
        let locks = table.lock(ROW, &mut forever()).unwrap();
        assert!(locks.fsync_pending() >= committed.load(Ordering::Relaxed), "the next holder does not see it");
        drop(locks);
        small.join().unwrap();
        large.join().unwrap();
        assert_eq!(table.lock(RowHash(1), &mut forever()).unwrap().fsync_pending(), 10, "lowered");
    });
}

fn nobody_sleeps_for_ever(flaw: Flaw, fair: bool) {
    let (table, count) = (table(flaw, fair), Arc::new(AtomicU64::new(0)));
    let other = {
        let (table, count) = (table.clone(), count.clone());
        thread::spawn(move || {
            let _locks = table.lock(ROW, &mut forever()).unwrap();
            bump(&count);
        })
    };
    // Twice: so that the woken waiter meets a holder that came past it.
    for _ in 0..2 {
        let _locks = table.lock(ROW, &mut forever()).unwrap();
        bump(&count);
    }
    other.join().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

/// L5: with a lost wake-up loom reports a deadlock.
#[test]
fn no_wake_up_is_lost() {
    holds_but_for("no_wake_up_is_lost", 3, &[Flaw::SleepBlindly, Flaw::KeepWoken], |flaw| nobody_sleeps_for_ever(flaw, false));
}

/// L5 with every unlock handing over.
#[test]
fn no_wake_up_is_lost_when_handing_over() {
    holds_but_for("no_wake_up_is_lost_when_handing_over", 3, &[Flaw::SleepBlindly], |flaw| nobody_sleeps_for_ever(flaw, true));
}

/// L5 with more than one sleeper: who is woken wakes the next.
#[test]
fn two_sleepers_both_get_the_row() {
    for fair in [false, true] {
        explore(2, move || {
            let (table, count) = (table(Flaw::None, fair), Arc::new(AtomicU64::new(0)));
            let others = [(); 2].map(|()| {
                let (table, count) = (table.clone(), count.clone());
                thread::spawn(move || {
                    let _locks = table.lock(ROW, &mut forever()).unwrap();
                    bump(&count);
                })
            });
            let locks = table.lock(ROW, &mut forever()).unwrap();
            bump(&count);
            drop(locks);
            for other in others {
                other.join().unwrap();
            }
            assert_eq!(count.load(Ordering::Relaxed), 3);
        });
    }
}

/// L6: a deadline and a hand-over at one time. Whoever wins, the row is free in the end, and the waiter without a deadline gets it.
#[test]
fn a_deadline_against_a_hand_over() {
    holds_but_for("a_deadline_against_a_hand_over", 2, &[Flaw::ForgetHandOver], |flaw| {
        let table = table(flaw, true);
        let locks = table.lock(ROW, &mut forever()).unwrap();
        let waiter = {
            let table = table.clone();
            thread::spawn(move || match table.lock(ROW, &mut Timeout::from_micros(1_000_000)) {
                Ok(_locks) => true,
                Err(e) => {
                    assert_eq!(e, LockError::Timeout);
                    false
                }
            })
        };
        let time = {
            let table = table.clone();
            thread::spawn(move || table.lot.expire())
        };
        drop(locks);
        waiter.join().unwrap();
        time.join().unwrap();
        let word = table.buckets[0].word.load(Ordering::Relaxed);
        assert_eq!(word % super::bucket::VERSION_ONE, 0, "held, waited for, or latched for ever: {word:x}");
    });
}

/// L5, L6: of two sleepers the first gives up; the second must still be woken.
#[test]
fn a_deadline_does_not_take_the_next_ones_wake_up() {
    for fair in [false, true] {
        explore(2, move || {
            let table = table(Flaw::None, fair);
            let locks = table.lock(ROW, &mut forever()).unwrap();
            let waiters = [Timeout::from_micros(1_000_000), forever()].map(|mut timeout| {
                let table = table.clone();
                thread::spawn(move || table.lock(ROW, &mut timeout).is_ok())
            });
            table.lot.expire();
            drop(locks);
            let [_, patient] = waiters.map(|w| w.join().unwrap());
            assert!(patient);
        });
    }
}

/// Several rows: ascending order, whatever the caller's. With the caller's order loom reports a deadlock.
#[test]
fn several_rows_do_not_deadlock() {
    holds_but_for("several_rows_do_not_deadlock", 2, &[Flaw::CallersOrder], |flaw| {
        let (table, count) = (table(flaw, false), Arc::new(AtomicU64::new(0)));
        let work = |table: &RowLockTable, count: &AtomicU64, rows: [u64; 3]| {
            let mut rows = rows.map(RowHash).to_vec();
            let _locks = table.lock_all(&mut rows, &mut forever(), LockScratch::default()).unwrap();
            bump(count);
        };
        let other = {
            let (table, count) = (table.clone(), count.clone());
            thread::spawn(move || work(&table, &count, [11, 10, 11]))
        };
        work(&table, &count, [10, 11, 10]);
        other.join().unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 2);
    });
}

/// Rows beyond the inline entries: exclusion, and the list is empty in the end.
#[test]
fn overflow_entries_exclude_and_go() {
    explore(2, || {
        let (table, count) = (table(Flaw::None, false), Arc::new(AtomicU64::new(0)));
        let inline = table.lock_all(&mut vec![RowHash(10), RowHash(11)], &mut forever(), LockScratch::default()).unwrap();
        let others = [(); 2].map(|()| {
            let (table, count) = (table.clone(), count.clone());
            thread::spawn(move || {
                let _locks = table.lock(RowHash(12), &mut forever()).unwrap();
                bump(&count);
            })
        });
        for other in others {
            other.join().unwrap();
        }
        drop(inline);
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert_eq!(table.buckets[0].overflow.load(Ordering::Relaxed), 0);
    });
}

/// Close reaches who sleeps and who is about to; the holder unlocks later, and the lane is clean.
#[test]
fn close_leaves_nobody_asleep() {
    holds_but_for("close_leaves_nobody_asleep", 2, &[Flaw::CloseByLoad], |flaw| {
        let table = table(flaw, false);
        let locks = table.lock(ROW, &mut forever()).unwrap();
        let waiter = {
            let table = table.clone();
            thread::spawn(move || table.lock(ROW, &mut forever()).err())
        };
        table.close();
        assert_eq!(waiter.join().unwrap(), Some(LockError::Closed));
        drop(locks);
        let word = table.buckets[0].word.load(Ordering::Relaxed);
        assert_eq!(word % super::bucket::VERSION_ONE, 0, "{word:x}");
        table.reopen();
        assert!(table.try_lock(ROW).is_some());
    });
}

/// Close while a woken waiter is on its way and another sleeps: both come back, with the row or without.
#[test]
fn close_against_a_wake_up() {
    explore(1, || {
        let (table, unlocked) = (table(Flaw::None, false), Arc::new(AtomicBool::new(false)));
        let locks = table.lock(ROW, &mut forever()).unwrap();
        let waiters = [(); 2].map(|()| {
            let (table, unlocked) = (table.clone(), unlocked.clone());
            thread::spawn(move || match table.lock(ROW, &mut forever()) {
                Ok(_locks) => assert!(unlocked.load(Ordering::Relaxed)),
                Err(e) => assert_eq!(e, LockError::Closed),
            })
        });
        unlocked.store(true, Ordering::Relaxed);
        drop(locks);
        table.close();
        for w in waiters {
            w.join().unwrap();
        }
        let word = table.buckets[0].word.load(Ordering::Relaxed);
        assert_eq!(word % super::bucket::VERSION_ONE, 0, "{word:x}");
    });
}
