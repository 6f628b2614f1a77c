//! Deletes of all kinds, explicit timestamps and appends: what each hides, in one call and over several, with seals and after a reopen.

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::error::ErrorKind;
use region::options::{FamilySpec, ReadOptions, WriteOptions};
use region::region::{CommitInfo, Key, Mutation, Op, Region};

/// In nanoseconds far beyond now, and below the largest time that is taken.
const FUTURE: u64 = 1 << 61;

fn at_time(timestamp: u64) -> WriteOptions {
    WriteOptions { timestamp, ..WriteOptions::DEFAULT }
}
fn timed(timestamp: u64, m: Mutation<'_>) -> Mutation<'_> {
    Mutation { timestamp, ..m }
}
fn del(r: &Region, what: Op, row: &[u8], family: u32, qual: &[u8], timestamp: u64) {
    r.delete(row, family, qual, what, &at_time(timestamp), &mut CommitInfo::default()).unwrap();
}
fn put_in(r: &Region, family: u32, row: &[u8], qual: &[u8], value: &[u8], timestamp: u64) {
    r.put(row, family, qual, value, &at_time(timestamp), &mut CommitInfo::default()).unwrap();
}
fn get_in(r: &Region, family: u32, row: &[u8], qual: &[u8], o: &ReadOptions) -> Option<(Vec<u8>, u64)> {
    let mut sink = Bytes::default();
    r.get(None, o, Key { family, row, qual }, &mut sink).unwrap().map(|f| (sink.0, f.timestamp))
}
fn newest_in(r: &Region, family: u32, row: &[u8], qual: &[u8]) -> Option<Vec<u8>> {
    get_in(r, family, row, qual, &ReadOptions::DEFAULT).map(|(v, _)| v)
}
/// The timestamps of a column, found one by one with time ranges.
fn versions(r: &Region, family: u32, row: &[u8], qual: &[u8]) -> Vec<u64> {
    let (mut found, mut end) = (Vec::new(), 0);
    while let Some((_, ts)) = get_in(r, family, row, qual, &ReadOptions { max_ts: end, ..ReadOptions::DEFAULT }) {
        found.push(ts);
        end = ts;
        if ts == 0 {
            break;
        }
    }
    found
}
/// The same answers now, after a seal, and after a reopen.
fn in_any_state(rig: Rig, look: impl Fn(&Region)) -> Rig {
    look(&rig.region);
    rig.region.seal().unwrap();
    look(&rig.region);
    let rig = rig.reopen();
    look(&rig.region);
    rig
}

#[test]
fn del_01_version_deletes_take_the_newest_one_by_one() {
    let rig = Rig::new("");
    for ts in [10, 20, 30] {
        put_in(&rig.region, CF3, b"r", b"q", b"v", ts);
    }
    del(&rig.region, Op::DeleteVersion, b"r", CF3, b"q", 0);
    rig.region.seal().unwrap();
    del(&rig.region, Op::DeleteVersion, b"r", CF3, b"q", 0);
    in_any_state(rig, |r| assert_eq!(versions(r, CF3, b"r", b"q"), [10]));
}

#[test]
fn del_02_an_unknown_family() {
    let rig = Rig::new("");
    for what in [Op::Delete, Op::DeleteVersion, Op::DeleteFamily] {
        let e = rig.region.delete(b"r", 77, b"", what, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NoFamily);
    }
}

#[test]
fn del_03_column_and_row_deletes_between_puts() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"r", b"q", b"1");
    delete(r, b"r", b"q");
    assert_eq!(get(r, b"r", b"q"), None);
    put(r, b"r", b"q", b"2");
    put_in(r, OTHER, b"r", b"x", b"3", 0);
    del(r, Op::DeleteRow, b"r", 0, b"", 0);
    assert_eq!((get(r, b"r", b"q"), newest_in(r, OTHER, b"r", b"x")), (None, None));
    put(r, b"r", b"q", b"4");
    in_any_state(rig, |r| {
        assert_eq!((get(r, b"r", b"q").unwrap(), newest_in(r, OTHER, b"r", b"x")), (b"4".to_vec(), None));
        assert_eq!(scan(r, None, b"", b"").len(), 1);
    });
}

#[test]
fn del_05_one_family_of_two() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"r", b"a", b"1");
    put(r, b"r", b"b", b"1");
    put_in(r, OTHER, b"r", b"a", b"2", 0);
    put(r, b"s", b"a", b"1");
    del(r, Op::DeleteFamily, b"r", CF, b"", 0);
    in_any_state(rig, |r| {
        let seen = scan(r, None, b"", b"");
        assert_eq!(seen.iter().map(|(row, _, v)| (&row[..], &v[..])).collect::<Vec<_>>(), [(&b"r"[..], &b"2"[..]), (b"s", b"1")]);
        assert_eq!((get(r, b"r", b"a"), get(r, b"r", b"b")), (None, None));
    });
}

#[test]
fn del_08_family_version() {
    let rig = Rig::new("");
    let r = &rig.region;
    for (qual, ts) in [(b"a", 4), (b"a", 5), (b"b", 5), (b"b", 6)] {
        put_in(r, CF3, b"r", qual, b"v", ts);
    }
    del(r, Op::DeleteFamilyVersion, b"r", CF3, b"", 5);
    let e = r.delete(b"r", CF3, b"", Op::DeleteFamilyVersion, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Invalid);
    in_any_state(rig, |r| assert_eq!((versions(r, CF3, b"r", b"a"), versions(r, CF3, b"r", b"b")), (vec![4], vec![6])));
}

/// DEL-09: a delete of what is not there succeeds and takes its place in the order of things.
#[test]
fn del_09_nothing_there() {
    let rig = Rig::new("");
    let r = &rig.region;
    for what in [Op::Delete, Op::DeleteVersion, Op::DeleteFamily, Op::DeleteRow] {
        let mut info = CommitInfo::default();
        r.delete(b"r", CF, b"q", what, &WriteOptions::DEFAULT, &mut info).unwrap();
        assert!(info.seq > 0);
    }
    in_any_state(rig, |r| assert_eq!((get(r, b"r", b"q"), scan(r, None, b"", b"").len()), (None, 0)));
}

/// DEL-11 as ours: a put older than a standing marker, made after it, is shown.
#[test]
fn del_11_p_t4_a_delete_hides_nothing_that_comes_later() {
    for what in [Op::Delete, Op::DeleteFamily, Op::DeleteRow] {
        let rig = Rig::new("");
        let r = &rig.region;
        put_in(r, CF, b"r", b"q", b"old", 10);
        del(r, what, b"r", CF, b"q", FUTURE);
        assert_eq!(get(r, b"r", b"q"), None);
        assert_eq!(inc(r, b"r", b"n", 1), 1);
        assert_eq!(inc(r, b"r", b"n", 1), 2);
        put_in(r, CF, b"r", b"q", b"new", 5);
        in_any_state(rig, |r| assert_eq!((get(r, b"r", b"q").unwrap(), counter(r, b"r", b"n")), (b"new".to_vec(), Some(2))));
    }
}

/// A delete in the past hides nothing that is newer than it says.
#[test]
fn deletes_with_a_time_hide_what_is_not_newer() {
    let rig = Rig::new("");
    let r = &rig.region;
    for ts in [10, 20, 30] {
        put_in(r, CF3, b"r", b"q", b"v", ts);
        put_in(r, CF3, b"s", b"q", b"v", ts);
    }
    del(r, Op::Delete, b"r", CF3, b"q", 20);
    del(r, Op::DeleteFamily, b"s", CF3, b"", 20);
    in_any_state(rig, |r| assert_eq!((versions(r, CF3, b"r", b"q"), versions(r, CF3, b"s", b"q")), (vec![30], vec![30])));
}

/// VER-10 and the rule of the project: what left by the number of versions does not come back.
#[test]
fn ver_10_deleting_the_newest_exposes_nothing_beyond_the_limit() {
    let rig = Rig::new("");
    for ts in 1..=5 {
        put_in(&rig.region, CF3, b"r", b"q", b"v", ts);
    }
    del(&rig.region, Op::DeleteVersion, b"r", CF3, b"q", 5);
    in_any_state(rig, |r| assert_eq!(versions(r, CF3, b"r", b"q"), [4, 3]));
}

/// SCN-13: the same coordinates written twice are one version, the later number's.
#[test]
fn scn_13_same_coordinates_before_and_after_a_seal() {
    let rig = Rig::new("");
    put_in(&rig.region, CF3, b"r", b"q", b"1", 1_234_567);
    rig.region.seal().unwrap();
    put_in(&rig.region, CF3, b"r", b"q", b"2", 1_234_567);
    in_any_state(rig, |r| {
        assert_eq!(newest_in(r, CF3, b"r", b"q").unwrap(), b"2");
        assert_eq!(versions(r, CF3, b"r", b"q"), [1_234_567]);
    });
}

/// One call's operations apply in the order given, whatever their kinds and times.
#[test]
fn one_call_applies_in_the_order_given() {
    let rig = Rig::new("");
    let r = &rig.region;
    let row = |name: &'static [u8]| move |m: Mutation<'static>| Mutation { row: name, ..in_family(CF3, m) };
    let put = |value: &'static [u8]| op_put(b"", b"q", value);
    let run = |name: &'static [u8], ops: Vec<Mutation<'static>>| {
        done(r, ops.into_iter().map(row(name)).collect(), &WriteOptions::DEFAULT);
    };
    run(b"put,delete", vec![put(b"1"), op_delete(b"", b"q")]);
    run(b"delete,put", vec![op_delete(b"", b"q"), put(b"1")]);
    run(b"put,put", vec![put(b"1"), put(b"2")]);
    run(b"put,row", vec![put(b"1"), timed(50, put(b"2")), op(Op::DeleteRow, b"", b"")]);
    run(b"put,family in the past", vec![put(b"1"), timed(50, put(b"2")), timed(60, op(Op::DeleteFamily, b"", b""))]);
    run(b"put,version", vec![timed(50, put(b"1")), timed(60, put(b"2")), op(Op::DeleteVersion, b"", b"q")]);
    run(b"put,same time", vec![timed(50, put(b"1")), timed(50, put(b"2"))]);
    run(b"delete in the future,put", vec![timed(FUTURE, op_delete(b"", b"q")), put(b"1")]);
    run(b"put in the future,delete", vec![timed(FUTURE, put(b"1")), op_delete(b"", b"q")]);
    in_any_state(rig, |r| {
        let value = |name: &[u8]| newest_in(r, CF3, name, b"q").map(|v| v[0]);
        assert_eq!(value(b"put,delete"), None);
        assert_eq!(value(b"delete,put"), Some(b'1'));
        assert_eq!((value(b"put,put"), versions(r, CF3, b"put,put", b"q").len()), (Some(b'2'), 1));
        assert_eq!(value(b"put,row"), None);
        assert_eq!((value(b"put,family in the past"), versions(r, CF3, b"put,family in the past", b"q").len()), (Some(b'1'), 1));
        assert_eq!((value(b"put,version"), versions(r, CF3, b"put,version", b"q")), (Some(b'1'), vec![50]));
        assert_eq!((value(b"put,same time"), versions(r, CF3, b"put,same time", b"q")), (Some(b'2'), vec![50]));
        assert_eq!(value(b"delete in the future,put"), Some(b'1'));
        // Its time says that it is newer than the delete.
        assert_eq!(value(b"put in the future,delete"), Some(b'1'));
    });
}

/// Increments and appends see what stands before them in the call, and leave one version of it.
#[test]
fn one_call_counts_and_appends_upon_its_own_values() {
    let rig = Rig::new("");
    let r = &rig.region;
    let append = |value: &'static [u8]| Mutation { value, ..op(Op::Append, b"r", b"a") };
    let seven: &[u8] = &7i64.to_be_bytes();
    inc(r, b"r", b"n", 100);
    let ops = vec![
        op_inc(b"r", b"n", 1),
        op_delete(b"r", b"n"),
        op_inc(b"r", b"n", 1),
        op_put(b"r", b"n", seven),
        op_inc(b"r", b"n", 1),
        append(b"ab"),
        append(b"cd"),
        op(Op::DeleteFamily, b"r", b""),
        append(b"e"),
        op_inc(b"r", b"n", 5),
        timed(FUTURE, op_put(b"r", b"n", seven)),
        op_inc(b"r", b"n", 1),
        op_inc(b"r", b"n", 1),
    ];
    for family in [CF, CF3] {
        let ops = ops.iter().map(|m| in_family(family, *m)).collect();
        let values = done(r, ops, &WriteOptions::DEFAULT);
        let first = if family == CF { 101 } else { 1 };
        assert_eq!(values, [first, 0, 1, 0, 8, 2, 4, 0, 1, 5, 0, 8, 9]);
    }
    in_any_state(rig, |r| {
        for family in [CF, CF3] {
            assert_eq!(newest_in(r, family, b"r", b"n").map(|v| number(&v)), Some(9));
            assert_eq!(newest_in(r, family, b"r", b"a").unwrap(), b"e");
        }
        let times = versions(r, CF3, b"r", b"n");
        assert_eq!((times.len(), &times[..2]), (3, &[FUTURE + 1, FUTURE][..]));
    });
}

/// INC-15, INC-29: an increment stays above what it counts upon, whatever the clock does.
#[test]
fn inc_29_a_value_with_a_future_time_stays_countable() {
    let rig = Rig::with_clock("", ManualClock::new(1_000, ClockUnit::Millis));
    let r = &rig.region;
    put_in(r, CF, b"r", b"n", &41i64.to_be_bytes(), 5_000);
    assert_eq!(inc(r, b"r", b"n", 1), 42);
    assert_eq!(get_in(r, CF, b"r", b"n", &ReadOptions::DEFAULT).unwrap().1, 5_001);
    assert_eq!(inc(r, b"r", b"n", 1), 43);
    // Deleted by a marker that is as new as it: counting starts again, at the clock's time.
    del(r, Op::Delete, b"r", CF, b"n", 6_000);
    assert_eq!(inc(r, b"r", b"n", 1), 1);
    assert!(get_in(r, CF, b"r", b"n", &ReadOptions::DEFAULT).unwrap().1 < 5_000);
    in_any_state(rig, |r| assert_eq!(counter(r, b"r", b"n"), Some(1)));
}

/// INC-30: the versions of a counter.
#[test]
fn inc_30_counters_have_versions() {
    let rig = Rig::new("");
    for _ in 0..5 {
        done(&rig.region, vec![in_family(CF3, op_inc(b"r", b"n", 1))], &WriteOptions::DEFAULT);
    }
    in_any_state(rig, |r| {
        let times = versions(r, CF3, b"r", b"n");
        assert_eq!(times.len(), 3);
        let value = |ts: u64| get_in(r, CF3, b"r", b"n", &ReadOptions { min_ts: ts, max_ts: ts + 1, ..ReadOptions::DEFAULT });
        assert_eq!(times.iter().map(|&ts| number(&value(ts).unwrap().0)).collect::<Vec<_>>(), [5, 4, 3]);
    });
}

/// A snapshot goes on to see what was deleted after it, in a segment that was sealed meanwhile.
#[test]
fn snapshots_see_what_was_deleted_later() {
    let rig = Rig::new("");
    let r = &rig.region;
    put(r, b"r", b"q", b"v");
    inc(r, b"r", b"n", 3);
    let before = r.snapshot(LONG).unwrap();
    del(r, Op::DeleteRow, b"r", 0, b"", 0);
    let after = r.snapshot(LONG).unwrap();
    assert_eq!(inc(r, b"r", b"n", 1), 1);
    for _ in 0..2 {
        assert_eq!((get_at(r, Some(&before), b"r", b"q").unwrap(), counter_at(r, Some(&before), b"r", b"n")), (b"v".to_vec(), Some(3)));
        assert_eq!((get_at(r, Some(&after), b"r", b"q"), counter_at(r, Some(&after), b"r", b"n")), (None, None));
        assert_eq!((get(r, b"r", b"q"), counter(r, b"r", b"n")), (None, Some(1)));
        assert_eq!(
            (scan(r, Some(&before), b"", b"").len(), scan(r, Some(&after), b"", b"").len(), scan(r, None, b"", b"").len()),
            (2, 0, 1)
        );
        r.seal().unwrap();
    }
}

/// A family that was added after a row was deleted is not touched by that delete.
#[test]
fn a_row_delete_is_of_the_families_there_are() {
    let rig = Rig::new("");
    let r = &rig.region;
    del(r, Op::DeleteRow, b"r", 0, b"", FUTURE);
    let late = r.family_set(FamilySpec::named("late")).unwrap().0;
    put_in(r, late, b"r", b"q", b"v", 10);
    in_any_state(rig, |r| assert_eq!(newest_in(r, late, b"r", b"q").unwrap(), b"v"));
}

#[test]
fn app_01_app_02_appends_concatenate() {
    let rig = Rig::new("");
    let r = &rig.region;
    let append = |suffix: &[u8]| {
        let mut whole = Bytes::default();
        let found = r.append(b"r", CF, b"a", suffix, &WriteOptions::DEFAULT, &mut CommitInfo::default(), Some(&mut whole)).unwrap();
        assert!(found.seq > 0 && found.timestamp > 0);
        whole.0
    };
    assert_eq!((append(b"one"), append(b""), append(b" two")), (b"one".to_vec(), b"one".to_vec(), b"one two".to_vec()));
    let e = r.append(b"r", CF, b"a", b"x", &at_time(5), &mut CommitInfo::default(), None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Invalid);
    let long = vec![b'x'; 10 << 20];
    let e = r.append(b"r", CF, b"a", &long, &WriteOptions::DEFAULT, &mut CommitInfo::default(), None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::TooLarge);
    in_any_state(rig, |r| assert_eq!(get(r, b"r", b"a").unwrap(), b"one two"));
}

/// APP-04, APP-07: each appender is given the value that its bytes end.
#[test]
fn app_04_app_07_concurrent_appends() {
    let rig = Rig::new("seal_every_commits=97");
    let lengths: Vec<Vec<usize>> = {
        let append = |r: &Region| {
            let mut whole = Bytes::default();
            r.append(b"r", CF, b"a", b"a", &WriteOptions::DEFAULT, &mut CommitInfo::default(), Some(&mut whole)).unwrap();
            whole.0.len()
        };
        let threads: Vec<_> = (0..20).map(|_| rig.spawn(move |r| (0..50).map(|_| append(r)).collect())).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    };
    let mut all: Vec<usize> = lengths.concat();
    all.sort_unstable();
    assert_eq!(all, (1..=1_000).collect::<Vec<_>>());
    in_any_state(rig, |r| assert_eq!(get(r, b"r", b"a").unwrap().len(), 1_000));
}

/// VER-09, CAM-17: what has expired is absent for reads, checks and increments, also unflushed.
#[test]
fn ver_09_cam_17_expired_cells() {
    let rig = Rig::with_clock("", ManualClock::new(1_000_000, ClockUnit::Millis));
    let (r, clock) = (&rig.region, rig.clock.clone().unwrap());
    let short = r.family_set(FamilySpec { ttl_ms: 10_000, max_versions: 3, ..FamilySpec::named("short") }).unwrap().0;
    let kept = r.family_set(FamilySpec { ttl_ms: 10_000, max_versions: 3, min_versions: 1, ..FamilySpec::named("kept") }).unwrap().0;
    for family in [short, kept] {
        for _ in 0..2 {
            done(r, vec![in_family(family, op_inc(b"r", b"n", 5)), in_family(family, op_put(b"r", b"q", b"v"))], &WriteOptions::DEFAULT);
            clock.advance(6_000);
        }
    }
    // Now 24 s after the first, 12 s after the last of `kept`'s.
    assert_eq!((versions(r, short, b"r", b"n").len(), versions(r, kept, b"r", b"n").len()), (0, 1));
    assert_eq!((newest_in(r, short, b"r", b"q"), newest_in(r, kept, b"r", b"q")), (None, Some(b"v".to_vec())));
    use region::region::Comparison::Absent;
    done(r, vec![in_family(short, op_check(b"r", b"q", Absent, b""))], &WriteOptions::DEFAULT);
    assert_eq!(
        done(r, vec![in_family(short, op_inc(b"r", b"n", 1)), in_family(kept, op_inc(b"r", b"n", 1))], &WriteOptions::DEFAULT),
        [1, 11]
    );
    in_any_state(rig, |r| {
        assert_eq!(newest_in(r, short, b"r", b"n").map(|v| number(&v)), Some(1));
        assert_eq!(newest_in(r, kept, b"r", b"n").map(|v| number(&v)), Some(11));
    });
}

/// CAM-08, CAM-09: checks guard deletes of each scope.
#[test]
fn cam_08_cam_09_checked_deletes() {
    let rig = Rig::new("");
    let r = &rig.region;
    use region::region::Comparison::Equal;
    put_in(r, CF3, b"r", b"q", b"a", 10);
    put_in(r, CF3, b"r", b"q", b"b", 20);
    let version = in_family(CF3, op(Op::DeleteVersion, b"r", b"q"));
    done(r, vec![in_family(CF3, op_check(b"r", b"q", Equal, b"b")), version], &WriteOptions::DEFAULT);
    assert_eq!(newest_in(r, CF3, b"r", b"q").unwrap(), b"a");
    done(r, vec![in_family(CF3, op_check(b"r", b"q", Equal, b"a")), version], &WriteOptions::DEFAULT);
    assert_eq!(newest_in(r, CF3, b"r", b"q"), None);
    for (i, what) in [Op::Delete, Op::DeleteFamily, Op::DeleteRow].into_iter().enumerate() {
        put(r, b"s", b"q", b"v");
        put(r, b"s", b"other", b"v");
        put_in(r, OTHER, b"s", b"q", b"v", 0);
        done(r, vec![op_check(b"s", b"q", Equal, b"v"), op(what, b"s", b"q")], &WriteOptions::DEFAULT);
        assert_eq!(scan(r, None, b"s", b"").len(), 2 - i);
    }
}
