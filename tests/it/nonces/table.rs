//! What is remembered, for how long, in how much memory; and calls of several runs that end in the middle.

use super::*;

fn stats(r: &Region) -> region::region::RegionStats {
    r.stats().unwrap()
}
/// Waits for what a background thread does in its time.
fn until(what: &str, holds: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !holds() {
        assert!(started.elapsed() < std::time::Duration::from_secs(120), "{what} did not come");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn what_is_past_the_window_is_freed_without_another_call() {
    let rig = Rig::with_clock("nonce_window_s=10", manual());
    let (r, clock) = (&rig.region, rig.clock.as_ref().unwrap());
    (1..=100).for_each(|n| assert_eq!(count(r, b"a", 1, &once(n)).0, n as i64));
    let s = stats(r);
    assert_eq!((s.nonce_entries, s.nonce_expired, s.nonce_hits, s.nonce_refused), (100, 0, 0, 0));
    assert!(s.nonce_bytes > 100 * 100 && s.nonce_bytes_max == 64 << 20);
    assert_eq!((s.nonce_entries, s.nonce_bytes), remembered(r));
    clock.advance(10_001);
    until("the end of 100 entries", || stats(r).nonce_entries == 0);
    let s = stats(r);
    assert_eq!((s.nonce_bytes, s.nonce_expired), (0, 100));
    assert_eq!(count(r, b"a", 1, &once(1)).0, 101);
    assert_eq!(count(r, b"a", 1, &once(1)).0, 101);
    assert_eq!(stats(r).nonce_hits, 1);
}

/// A smaller limit than what an earlier life remembers: nothing young is forgotten, for its calls would count twice; new calls with a nonce are refused until
/// there is room, and the figures and the message say why.
#[test]
fn a_smaller_limit_forgets_nothing() {
    let rig = Rig::with_clock("nonce_window_s=10", manual());
    (1..=100).for_each(|n| assert_eq!(count(&rig.region, b"a", 1, &once(n)).0, n as i64));
    rig.clock.as_ref().unwrap().advance(6_000);
    count(&rig.region, b"a", 1, &once(101));
    let rig = rig.with_config("nonce_window_s=10,nonce_bytes_max=4k").after_kill();
    let (r, clock) = (&rig.region, rig.clock.as_ref().unwrap());
    let s = stats(r);
    assert!(s.nonce_entries == 101 && s.nonce_bytes > 4 * s.nonce_bytes_max && s.nonce_bytes_max == 4_096, "{s:?}");
    (1..=101).for_each(|n| assert_eq!(count(r, b"a", 1, &once(n)).0, n as i64));
    let e = inc_with(r, b"a", b"n", 1, &within(1, once(102))).unwrap_err();
    assert_eq!((e.kind(), e.is_retryable()), (ErrorKind::Busy, true));
    assert!(e.message().contains("from before the region was opened"), "{e}");
    assert_eq!((stats(r).nonce_refused, stats(r).nonce_hits, stats(r).nonce_entries), (1, 101, 101));
    assert_eq!(inc(r, b"a", b"n", 1), 102, "without a nonce it goes on");
    // The row was counted up a hundred times within one tick, so its ticks ran ahead of the clock.
    clock.advance(4_200);
    assert_eq!(count(r, b"a", 1, &once(102)).0, 103);
    assert_eq!(count(r, b"a", 1, &once(101)).0, 101, "still young");
    assert!(stats(r).nonce_bytes <= stats(r).nonce_bytes_max);
}

/// A value that an append makes is part of its entry and counts against the limit; an entry that can never fit is refused at once, with nothing changed.
#[test]
fn an_answer_with_bytes_is_bounded() {
    let rig = Rig::new("nonce_bytes_max=16k");
    let r = &rig.region;
    let append = |suffix: &[u8], o: &WriteOptions, sink: Option<&mut Bytes>| {
        r.append(b"a", CF, b"q", suffix, o, &mut CommitInfo::default(), sink.map(|s| s as _)).map(|_| ())
    };
    let mut sink = Bytes::default();
    append(&[7; 9_000], &once(1), Some(&mut sink)).unwrap();
    assert!(stats(r).nonce_bytes > 9_000);
    assert_eq!(kind(append(&[8; 9_000], &within(1, once(2)), Some(&mut sink))), ErrorKind::TooLarge);
    assert_eq!((get(r, b"a", b"q").unwrap().len(), stats(r).nonce_refused), (9_000, 1));
    let mut again = Bytes::default();
    append(&[7; 9_000], &once(1), Some(&mut again)).unwrap();
    assert_eq!(again.0, [7; 9_000]);
    // Who does not ask for the value leaves a small entry.
    append(&[8; 9_000], &once(2), None).unwrap();
    append(&[8; 9_000], &once(2), None).unwrap();
    assert_eq!(get(r, b"a", b"q").unwrap().len(), 18_000);
}

/// A call of several runs that stops in the middle: by a row that cannot be had, and by a kill while it waits for it. The same call again runs the rest only,
/// and the third is answered whole.
#[test]
fn a_call_that_ended_between_two_runs() {
    let rows: Vec<[u8; 2]> = (0..600u16).map(|i| (i % 400).to_be_bytes()).collect();
    let ops = || rows.iter().map(|row| op_inc(row, b"n", 1)).collect::<Vec<_>>();
    let sum = |r: &Region| (0..400u16).map(|i| counter(r, &i.to_be_bytes(), b"n").unwrap_or(0)).sum::<i64>();
    let rig = Rig::new("");
    let blocked = 300u16.to_be_bytes();
    let held = rig.hold(Point::RowLocked, move |r| inc(r, &blocked, b"n", 0));
    let (all, o) = (rows.clone(), within(LONG.micros(), once(1)));
    let call = rig.spawn(move |r| batch(r, all.iter().map(|row| op_inc(row, b"n", 1)).collect(), &o).1);
    until("the run before the blocked row", || counter(&rig.region, &299u16.to_be_bytes(), b"n").is_some());
    // Killed here: 300 rows in two commits.
    let killed = rig.after_kill();
    assert_eq!(sum(&killed.region), 300);
    let (again, _) = told(&killed.region, ops(), &once(1));
    assert!(again.iter().enumerate().all(|(i, a)| a.1 == (i < 300)), "{again:?}");
    assert_eq!(sum(&killed.region), 600);
    let (third, _) = told(&killed.region, ops(), &once(1));
    assert!(third.iter().zip(&again).all(|(a, b)| a.0 == b.0 && a.1));
    held.release();
    let first = call.join().unwrap();
    assert!(
        first.iter().zip(&again).all(|(a, b)| a.unwrap().value == b.0 && a.unwrap().flags == 0),
        "the call that went on in the other world"
    );
    // Refused in the middle: one row fails, those behind it go on; the row comes twice, and only what failed is left.
    let rig = Rig::new("");
    let held = rig.hold(Point::RowLocked, move |r| inc(r, &blocked, b"n", 0));
    let (outcome, results, _) = batch(&rig.region, ops(), &within(SHORT.micros(), once(1)));
    let Ok(BatchOutcome::Partial { first: 300, .. }) = outcome else { panic!("{outcome:?}") };
    held.release();
    let ran: Vec<bool> = results.iter().map(|x| x.unwrap().status == OpStatus::Applied).collect();
    let (again, info) = told(&rig.region, ops(), &once(1));
    assert!(again.iter().zip(&ran).all(|(a, ran)| a.1 == *ran));
    assert_eq!(sum(&rig.region), 600);
    let (third, info_third) = told(&rig.region, ops(), &once(1));
    assert!(third.iter().zip(&again).all(|(a, b)| a.0 == b.0 && a.1));
    assert_same(info, info_third);
}

/// The clock was set back while the region was closed: what is remembered is as if it were of now. Set forward, it counts as that much older.
#[test]
fn the_clock_is_set_while_the_region_is_closed() {
    let rig = Rig::with_clock("nonce_window_s=10", manual());
    count(&rig.region, b"a", 1, &once(1));
    rig.clock.as_ref().unwrap().step_back(3_600_000);
    let rig = rig.reopen();
    assert_eq!(count(&rig.region, b"a", 1, &once(1)).0, 1);
    rig.clock.as_ref().unwrap().advance(10_000);
    assert_eq!(count(&rig.region, b"a", 1, &once(1)).0, 1);
    // The row's ticks go on above those of before, an hour ahead of the clock: it is of now, too.
    assert_eq!(count(&rig.region, b"a", 1, &once(2)).0, 2);
    let rig = rig.after_kill();
    assert_eq!(count(&rig.region, b"a", 1, &once(2)).0, 2);
    rig.clock.as_ref().unwrap().advance(3_600_000 + 10_001);
    let rig = rig.after_kill();
    assert_eq!(count(&rig.region, b"a", 1, &once(2)).0, 3, "past the window by the clock");
}
