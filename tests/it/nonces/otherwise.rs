//! A nonce that comes again for something else is refused; one that comes again for the same never is.

use super::*;
use region::env::{Env, read_whole};
use std::path::Path;

/// Refused as a nonce of another operation, with nothing changed.
#[track_caller]
fn assert_refused(r: &Region, outcome: region::error::Result<BatchOutcome>) {
    let e = match outcome {
        Err(e) => e,
        Ok(BatchOutcome::Partial { error, .. }) => error,
        Ok(other) => panic!("not refused: {other:?}"),
    };
    assert_eq!(e.kind(), ErrorKind::Invalid, "{e}");
    assert!(e.message().contains("of group 9 was used for a different operation"), "{e}");
    assert!(r.stats().unwrap().health == 0);
}

/// A call: its operations and options.
type Call = (Vec<Mutation<'static>>, WriteOptions);

/// All that makes an operation another one, alone and in an atomic call, before and after a kill.
#[test]
fn a_nonce_used_again_for_something_else_is_refused() {
    let bounded = |max_value| WriteOptions { flags: WriteOptions::BOUNDED, max_value, ..WriteOptions::DEFAULT };
    let stamped = |m: Mutation<'static>, timestamp| Mutation { timestamp, ..m };
    let exists = |how| vec![op_check(b"a", b"n", how, b""), op_put(b"a", b"q", b"v")];
    let plain = WriteOptions::DEFAULT;
    let cases: Vec<(&str, Call, Call)> = vec![
        ("amount", (vec![op_inc(b"a", b"n", 1)], plain), (vec![op_inc(b"a", b"n", 2)], plain)),
        ("column", (vec![op_inc(b"a", b"n", 1)], plain), (vec![op_inc(b"a", b"m", 1)], plain)),
        ("family", (vec![op_inc(b"a", b"n", 1)], plain), (vec![in_family(2, op_inc(b"a", b"n", 1))], plain)),
        ("kind", (vec![op_put(b"a", b"q", b"v")], plain), (vec![op_delete(b"a", b"q")], plain)),
        ("value", (vec![op_put(b"a", b"q", b"v")], plain), (vec![op_put(b"a", b"q", b"w")], plain)),
        ("timestamp", (vec![stamped(op_put(b"a", b"q", b"v"), 5)], plain), (vec![stamped(op_put(b"a", b"q", b"v"), 6)], plain)),
        ("condition", (exists(Comparison::Absent), plain), (exists(Comparison::Exists), plain)),
        ("flags", (vec![op_inc(b"a", b"n", 1)], plain), (vec![op_inc(b"a", b"n", 1)], flags(WriteOptions::SET))),
        ("answer", (vec![op_inc(b"a", b"n", 1)], plain), (vec![op_inc(b"a", b"n", 1)], flags(WriteOptions::RETURN_OLD))),
        ("bounds", (vec![op_inc(b"a", b"n", 1)], bounded(5)), (vec![op_inc(b"a", b"n", 1)], bounded(6))),
        (
            "order",
            (vec![op_put(b"a", b"q", b"v"), op_inc(b"a", b"n", 1)], plain),
            (vec![op_inc(b"a", b"n", 1), op_put(b"a", b"q", b"v")], plain),
        ),
    ];
    for (what, (first, o), (other, of_other)) in cases {
        for flag in [0, ATOMIC] {
            let call = |o: &WriteOptions| with(1, WriteOptions { flags: o.flags | flag, ..*o });
            let mut rig = Rig::new("");
            let (answers, info) = told(&rig.region, first.clone(), &call(&o));
            for _ in 0..2 {
                let r = &rig.region;
                let before = r.stats().unwrap().seq;
                let (outcome, results, _) = batch(r, other.clone(), &call(&of_other));
                assert_refused(r, outcome);
                assert!(results.iter().all(|x| matches!(x.unwrap().status, OpStatus::Failed(_))), "{what}: {results:?}");
                assert_eq!(r.stats().unwrap().seq, before, "{what}: something was written");
                // With a nonce of its own it is a call of its own; the first one still answers.
                let (again, info_again) = told(r, first.clone(), &call(&o));
                assert!(again.iter().zip(&answers).all(|(a, b)| a.0 == b.0 && a.1), "{what}");
                assert_eq!(info_again.seq, info.seq);
                rig = rig.after_kill();
            }
        }
    }
}

/// The same operations as one call and as several, with ATOMIC and without, or a part of an atomic call: other calls.
#[test]
fn an_atomic_call_is_told_from_its_parts() {
    let rig = Rig::new("");
    let r = &rig.region;
    let both = || vec![op_inc(b"a", b"n", 1), op_inc(b"b", b"n", 1)];
    told(r, both(), &with(1, flags(ATOMIC)));
    for part in [vec![op_inc(b"a", b"n", 1)], vec![op_inc(b"b", b"n", 1), op_inc(b"a", b"n", 1)]] {
        assert_refused(r, batch(r, part, &with(1, flags(ATOMIC))).0);
    }
    assert_refused(r, batch(r, both(), &once(1)).0);
    assert_eq!(kind(inc_with(r, b"a", b"n", 1, &once(1))), ErrorKind::Invalid);
    // A single write has no elements, and a plain call is refused only where it differs.
    let e = inc_with(r, b"a", b"n", 1, &once(1)).unwrap_err();
    assert_eq!(e.op_index(), u64::MAX);
    told(r, both(), &once(2));
    let (outcome, results, _) = batch(r, vec![op_inc(b"c", b"n", 1), op_inc(b"a", b"n", 7), op_inc(b"b", b"n", 1)], &once(2));
    let Ok(BatchOutcome::Partial { first: 1, applied: 2, failed: 1, error }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let statuses: Vec<_> = results.iter().map(|x| x.unwrap().status).collect();
    assert_eq!(statuses, [OpStatus::Applied, OpStatus::Failed(ErrorKind::Invalid), OpStatus::Applied]);
    assert_eq!([b"a", b"b", b"c"].map(|row| counter(r, row, b"n")), [Some(2), Some(2), Some(1)]);
}

/// What has no part in what a call does may change between a call and its retry: verb, durability, timeout, the families' settings, even their being there.
#[test]
fn a_retry_matches_whatever_else_has_changed() {
    let mut rig = Rig::new("");
    let id = rig.region.family_id(b"other").unwrap().unwrap();
    let other = id.0;
    let told_once = |r: &Region| {
        let mut info = CommitInfo::default();
        let counted = r.increment(b"a", other, b"n", 5, &once(1), &mut info).unwrap();
        let (again, of_batch) =
            told(r, vec![in_family(other, op_inc(b"a", b"n", 5))], &within(1_000_000, with(1, at(Durability::FsyncWal))));
        assert_eq!((again, of_batch.seq), (vec![(counted.value, true)], info.seq));
        // Fields without a meaning may hold anything.
        let stray = Mutation { value: b"stray", ..in_family(other, op_inc(b"a", b"n", 5)) };
        assert_eq!(told(r, vec![stray], &WriteOptions { min_value: 9, max_value: 3, ..once(1) }).0, [(counted.value, true)]);
        (counted.value, info.seq)
    };
    let first = told_once(&rig.region);
    rig.region.family_set(FamilySpec { max_versions: 7, ..FamilySpec::named("other") }).unwrap();
    assert_eq!(told_once(&rig.region), first);
    rig.region.family_drop(id).unwrap();
    for _ in 0..2 {
        assert_eq!(told_once(&rig.region), first, "the family is gone, the answer is not");
        assert_eq!(kind(rig.region.increment(b"a", other, b"n", 5, &once(2), &mut CommitInfo::default())), ErrorKind::NoFamily);
        rig = rig.after_kill();
    }
    // One of the same name is another family.
    let new = rig.region.family_set(FamilySpec::named("other")).unwrap().0;
    assert_ne!(new, other);
    assert_eq!(kind(rig.region.increment(b"a", new, b"n", 5, &once(1), &mut CommitInfo::default())), ErrorKind::Invalid);
}

/// Two threads with one nonce and two operations: one of them is run, the other one refused.
#[test]
fn two_calls_that_meet_under_one_nonce() {
    let rig = Rig::new("");
    for nonce in 1..50 {
        let start = Barrier::new(2);
        let (r, start) = (&rig.region, &start);
        let before = counter(r, b"a", b"n").unwrap_or(0);
        let outcomes = std::thread::scope(|s| {
            let calls = [1, 100].map(|delta| {
                s.spawn(move || {
                    start.wait();
                    inc_with(r, b"a", b"n", delta, &once(nonce)).map(|c| c.value - before)
                })
            });
            calls.map(|c| c.join().unwrap())
        });
        let (ran, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        let (ran, refused) = (ran.into_iter().next().unwrap().unwrap(), refused.into_iter().next().unwrap().unwrap_err());
        assert_eq!((refused.kind(), counter(r, b"a", b"n")), (ErrorKind::Invalid, Some(before + ran)));
    }
}

/// Makes the log as an earlier build wrote it: the fingerprints' item becomes one that is stepped over. Answers with how many there were.
fn forget_fingerprints(env: &dyn Env) -> usize {
    let mut found = 0;
    for name in env.list(Path::new("/r")).unwrap().iter().filter(|n| n.starts_with(WAL)) {
        let path = Path::new("/r").join(name);
        let mut bytes = read_whole(env, &path, 1 << 30).unwrap();
        let u64_at = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let salt = crc32c::crc32c(&bytes[32..40]);
        let mut at = 4096;
        while at + 48 <= bytes.len() && u64_at(&bytes, at) != 0 {
            let end = at + u64_at(&bytes, at) as u32 as usize;
            let payload = at + 40..end - 8;
            // The last item, of one entry: 33, 8, eight bytes, then zeros to a multiple of 8.
            let item = (bytes[at + 28] == 1)
                .then(|| payload.clone().find(|&i| i + 10 <= payload.end && bytes[i..i + 2] == [33, 8] && payload.end - (i + 10) < 8))
                .flatten();
            if let Some(item) = item {
                found += 1;
                bytes[item] = 34;
                let body = crc32c::crc32c(&bytes[payload]).to_le_bytes();
                let covered = [&(at as u32).to_le_bytes()[..], &bytes[at + 8..at + 40], &body].concat();
                let trailer = crc32c::crc32c_append(salt, &covered).to_le_bytes();
                bytes[end - 4..end].copy_from_slice(&trailer);
            }
            at = end;
        }
        env.open(&path, true).unwrap().write_all_at(&bytes, 0).unwrap();
    }
    found
}

/// A log of an earlier build has no fingerprints: its calls are answered, by their shape alone as that build did; what comes new has one.
#[test]
fn a_log_without_fingerprints_is_read() {
    let rig = Rig::new("");
    for nonce in 1..=20 {
        assert_eq!(count(&rig.region, b"a", 3, &once(nonce)).0, 3 * nonce as i64);
    }
    let old = rig.mem.kill();
    assert_eq!(forget_fingerprints(&old), 20);
    let rig = rig.over(old);
    let r = &rig.region;
    for nonce in 1..=20 {
        assert_eq!(count(r, b"a", 3, &once(nonce)).0, 3 * nonce as i64, "the same call");
        assert_eq!(count(r, b"a", 4, &once(nonce)).0, 3 * nonce as i64, "nothing is known of what it did");
        assert_refused(r, batch(r, vec![op_inc(b"a", b"n", 3), op_inc(b"a", b"m", 3)], &once(nonce)).0);
    }
    assert_eq!(count(r, b"a", 3, &once(21)).0, 63);
    assert_refused(r, batch(r, vec![op_inc(b"a", b"n", 4)], &once(21)).0);
    let rig = rig.after_kill();
    assert_eq!((count(&rig.region, b"a", 4, &once(20)).0, count(&rig.region, b"a", 3, &once(21)).0), (60, 63));
    assert_refused(&rig.region, batch(&rig.region, vec![op_inc(b"a", b"n", 4)], &once(21)).0);
}
