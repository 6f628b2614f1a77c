//! A family's settings changed while there are cells: what the old ones had taken out stays out, stricter ones count at once, and neither a reopen, a seal, an open
//! snapshot nor what is still in memory changes an answer.

use crate::rig::*;
use region::clock::{ClockUnit, ManualClock};
use region::env::fault::{Fault, Op as EnvOp, Rule};
use region::error::ErrorKind;
use region::hooks::Point;
use region::options::{FamilySpec, ReadOptions, TTL_NONE, WriteOptions};
use region::region::{ColumnFilter, CommitInfo, Op, Region, ScanSpec, Snapshot};

const ROW: &[u8] = b"row";

fn family(max_versions: u32) -> FamilySpec {
    FamilySpec { max_versions, ..FamilySpec::named("f") }
}
fn set(r: &Region, spec: FamilySpec) -> u32 {
    r.family_set(spec).unwrap().0
}
fn count(r: &Region, id: u32, times: usize) {
    for _ in 0..times {
        r.increment(ROW, id, b"n", 1, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap();
    }
}
/// Puts 1, 2, 3 … one after the other, with these timestamps.
fn put_at(r: &Region, id: u32, stamps: &[u64]) {
    for ts in stamps {
        let o = WriteOptions { timestamp: *ts, ..WriteOptions::DEFAULT };
        r.put(ROW, id, b"p", &ts.to_be_bytes(), &o, &mut CommitInfo::default()).unwrap();
    }
}
fn delete_version(r: &Region, id: u32, qual: &[u8]) {
    r.delete(ROW, id, qual, Op::DeleteVersion, &WriteOptions::DEFAULT, &mut CommitInfo::default()).unwrap();
}
/// All versions of a column with timestamps below `max_ts`, best first.
fn before(r: &Region, s: Option<&Snapshot>, id: u32, qual: &[u8], max_ts: u64) -> Vec<i64> {
    let spec = ScanSpec { max_versions: 99, columns: &[ColumnFilter::Exact(id, qual)], ..ScanSpec::default() };
    let o = ReadOptions { max_ts, ..ReadOptions::DEFAULT };
    let mut scanner = r.scanner(s, &o, &spec).unwrap();
    let mut seen = Vec::new();
    while let Some(cell) = scanner.next().unwrap() {
        seen.push(number(cell.value));
    }
    seen
}
fn versions(r: &Region, s: Option<&Snapshot>, id: u32, qual: &[u8]) -> Vec<i64> {
    before(r, s, id, qual, 0)
}

/// A step, and what each of `N` columns shows behind it.
type Step<'a, const N: usize> = (&'a dyn Fn(&Rig), [&'a [i64]; N]);

/// Runs the steps one after the other, and checks what is shown behind each: at once, and after a seal, a reopen or a kill in its place. Each of these goes through
/// the whole script, so that every step comes upon every layout.
fn script<const N: usize>(clock: bool, steps: &[Step<'_, N>], shown: &dyn Fn(&Region) -> [Vec<i64>; N]) {
    let seal = |rig: Rig| {
        rig.region.seal().unwrap();
        rig
    };
    let ways: [(&str, &dyn Fn(Rig) -> Rig); 4] =
        [("", &|rig| rig), ("seal", &seal), ("reopen", &Rig::reopen), ("kill", &|rig| rig.after_kill())];
    for (way, between) in ways {
        let mut rig = if clock { Rig::with_clock("", ManualClock::new(1_000, ClockUnit::Millis)) } else { Rig::new("") };
        for (i, (step, want)) in steps.iter().enumerate() {
            step(&rig);
            let check = |r: &Region, when: &str| {
                let seen = shown(r);
                assert!(seen.iter().zip(want).all(|(s, w)| s[..] == w[..]), "step {i}, {when} {way}: {seen:?}, wanted {want:?}");
            };
            check(&rig.region, "before");
            rig = between(rig);
            check(&rig.region, "behind");
        }
    }
}

/// The first family made by these tests.
const F: u32 = 4;

#[test]
fn versions_that_fell_out_do_not_come_back() {
    let set = |g: &Rig, n: u32| _ = set(&g.region, family(n));
    let write = |g: &Rig, times: usize, stamps: &[u64]| {
        count(&g.region, F, times);
        put_at(&g.region, F, stamps);
    };
    let shown = |r: &Region| [versions(r, None, F, b"n"), versions(r, None, F, b"p")];
    script(
        false,
        &[
            (&|g| set(g, 1), [&[], &[]]),
            (&|g| write(g, 5, &[1, 2, 3]), [&[5], &[3]]),
            // More versions: of what comes now.
            (&|g| set(g, 3), [&[5], &[3]]),
            (&|g| write(g, 1, &[4]), [&[6, 5], &[4, 3]]),
            (&|g| write(g, 4, &[5, 6]), [&[10, 9, 8], &[6, 5, 4]]),
            // Fewer: at once, and for good.
            (&|g| set(g, 2), [&[10, 9], &[6, 5]]),
            (&|g| set(g, 9), [&[10, 9], &[6, 5]]),
            (&|g| write(g, 2, &[7]), [&[12, 11, 10, 9], &[7, 6, 5]]),
            // One older than all by its timestamp is a version like others.
            (&|g| write(g, 0, &[1]), [&[12, 11, 10, 9], &[7, 6, 5, 1]]),
            // To one and back, with nothing in between.
            (&|g| [1, 9].iter().for_each(|n| set(g, *n)), [&[12], &[7]]),
            (&|g| write(g, 1, &[8]), [&[13, 12], &[8, 7]]),
        ],
        &shown,
    );
}

/// Deleting the newest shows the one before, as far as it was kept when it was written: fewer versions take it away where they begin, not where memory is short.
#[test]
fn what_a_delete_uncovers_does_not_depend_on_later_settings() {
    let set = |g: &Rig, n: u32| _ = set(&g.region, family(n));
    let delete = |g: &Rig| [b"n", b"p"].iter().for_each(|q| delete_version(&g.region, F, *q));
    let write = |g: &Rig, times: usize, stamps: &[u64]| {
        count(&g.region, F, times);
        put_at(&g.region, F, stamps);
    };
    let shown = |r: &Region| [versions(r, None, F, b"n"), versions(r, None, F, b"p")];
    script(
        false,
        &[
            (&|g| set(g, 3), [&[], &[]]),
            (&|g| write(g, 3, &[1, 2, 3]), [&[3, 2, 1], &[3, 2, 1]]),
            (&|g| delete(g), [&[2, 1], &[2, 1]]),
            (&|g| delete(g), [&[1], &[1]]),
            // Log read back with one version kept: the oldest must still be there.
            (&|g| set(g, 1), [&[1], &[1]]),
            (&|g| write(g, 3, &[7, 8, 9]), [&[4], &[9]]),
            (&|g| delete(g), [&[], &[]]),
            (&|g| set(g, 5), [&[], &[]]),
            (&|g| write(g, 2, &[11, 12]), [&[2, 1], &[12, 11]]),
        ],
        &shown,
    );
}

#[test]
fn what_expired_stays_expired() {
    let set = |g: &Rig, ttl_ms: u64, min_versions: u32| _ = set(&g.region, FamilySpec { ttl_ms, min_versions, ..family(9) });
    let go = |g: &Rig, ms: u64| g.clock.as_ref().unwrap().advance(ms);
    let write = |g: &Rig, times: usize, stamps: &[u64]| {
        count(&g.region, F, times);
        put_at(&g.region, F, stamps);
    };
    let shown = |r: &Region| [versions(r, None, F, b"n"), versions(r, None, F, b"p"), get_newest(r, F, b"p")];
    script(
        true,
        &[
            (&|g| set(g, 100, 0), [&[], &[], &[]]),
            (&|g| write(g, 2, &[1_000, 1_001]), [&[2, 1], &[1_001, 1_000], &[1_001]]),
            (&|g| go(g, 101), [&[2], &[1_001], &[1_001]]),
            (&|g| go(g, 50), [&[], &[], &[]]),
            // A longer life, or an endless one, brings nothing back.
            (&|g| set(g, 10_000, 0), [&[], &[], &[]]),
            (&|g| set(g, TTL_NONE, 0), [&[], &[], &[]]),
            // A value put now with an old timestamp has not expired.
            (&|g| write(g, 1, &[1_020]), [&[1], &[1_020], &[1_020]]),
            (&|g| go(g, 100_000), [&[1], &[1_020], &[1_020]]),
            // Nor do versions that are to be kept from now on.
            (&|g| set(g, 100, 0), [&[], &[], &[]]),
            (&|g| set(g, 100, 2), [&[], &[], &[]]),
            (&|g| write(g, 3, &[1_030, 1_031, 1_032]), [&[3, 2, 1], &[1_032, 1_031], &[1_032]]),
            (&|g| go(g, 200), [&[3, 2], &[1_032, 1_031], &[1_032]]),
            (&|g| set(g, 100, 1), [&[3], &[1_032], &[1_032]]),
            (&|g| set(g, 100, 3), [&[3], &[1_032], &[1_032]]),
        ],
        &shown,
    );
}

/// The newest version of a column, by the reads that look for one alone.
fn get_newest(r: &Region, id: u32, qual: &[u8]) -> Vec<i64> {
    let found = r.counter_get(None, &ReadOptions::DEFAULT, region::region::Key { family: id, row: ROW, qual }).unwrap();
    found.map(|(n, _)| n).into_iter().collect()
}

#[test]
fn what_was_deleted_for_good_stays_so_and_what_was_kept_goes_with_the_setting() {
    let set = |g: &Rig, flags: u32| _ = set(&g.region, FamilySpec { flags, ..family(3) });
    let mark = |g: &Rig, timestamp: u64| {
        let o = WriteOptions { timestamp, ..WriteOptions::DEFAULT };
        g.region.delete(ROW, F, b"p", Op::Delete, &o, &mut CommitInfo::default()).unwrap();
    };
    let shown = |r: &Region| [before(r, None, F, b"p", 10), before(r, None, F, b"p", 20), versions(r, None, F, b"p")];
    script(
        true,
        &[
            (&|g| set(g, 0), [&[], &[], &[]]),
            (&|g| put_at(&g.region, F, &[5]), [&[5], &[5], &[5]]),
            (&|g| mark(g, 10), [&[], &[], &[]]),
            // Deleted cells are kept from now on.
            (&|g| set(g, FamilySpec::KEEP_DELETED), [&[], &[], &[]]),
            (&|g| put_at(&g.region, F, &[6]), [&[6], &[6], &[6]]),
            (&|g| mark(g, 11), [&[6], &[], &[]]),
            // Their markers have not expired, since nothing does.
            (&|g| set(g, FamilySpec::KEEP_DELETED_TTL), [&[6], &[], &[]]),
            (&|g| _ = g.region.family_set(FamilySpec { ttl_ms: 900, ..family(0) }).unwrap(), [&[], &[], &[]]),
            (&|g| set(g, FamilySpec::KEEP_DELETED), [&[], &[], &[]]),
        ],
        &shown,
    );
}

/// A snapshot shows what the settings now leave of its instant; what it is shown does not depend on what was written since.
#[test]
fn snapshots_and_scans_across_a_change_show_the_same_as_before() {
    let rig = Rig::new("");
    let r = &rig.region;
    let id = set(r, family(3));
    count(r, id, 4);
    let snapshot = r.snapshot(LONG).unwrap();
    let spec = ScanSpec { max_versions: 9, ..ScanSpec::default() };
    // Begun under three versions, it goes on so.
    let mut scanner = r.scanner(Some(&snapshot), &ReadOptions::DEFAULT, &spec).unwrap();
    set(r, family(1));
    assert_eq!(versions(r, Some(&snapshot), id, b"n"), [4]);
    count(r, id, 50);
    let mut seen = Vec::new();
    while let Some(cell) = scanner.next().unwrap() {
        seen.push(number(cell.value));
    }
    assert_eq!(seen, [4, 3, 2]);
    set(r, family(3));
    count(r, id, 50);
    assert_eq!((versions(r, Some(&snapshot), id, b"n"), versions(r, None, id, b"n")), (vec![4], vec![104, 103, 102]));
    // Opened with more versions to come, it sees none of them.
    let snapshot = r.snapshot(LONG).unwrap();
    set(r, family(9));
    count(r, id, 3);
    assert_eq!(versions(r, Some(&snapshot), id, b"n"), [104, 103, 102]);
    assert_eq!(versions(r, None, id, b"n"), [107, 106, 105, 104, 103, 102]);
}

/// One version again: increments reuse memory as if there had never been more, but for what was there when it was set.
#[test]
fn p_c4_a_counter_set_back_to_one_version_stays_flat() {
    let rig = Rig::new("");
    let r = &rig.region;
    let id = set(r, family(9));
    count(r, id, 100);
    set(r, family(1));
    count(r, id, 10);
    let copies = r.stats().unwrap().counter_copies;
    assert!(copies <= 9 + 1, "{copies}");
    count(r, id, 10_000);
    assert_eq!(r.stats().unwrap().counter_copies, copies);
    let _point = r.snapshot(LONG).unwrap();
    count(r, id, 10_000);
    assert!(r.stats().unwrap().counter_copies <= copies + 1);
}

/// A change that could not be stored changed nothing, at once and after a reopen.
#[test]
fn settings_whose_manifest_could_not_be_replaced_stay_as_they_were() {
    for op in [EnvOp::WriteAt, EnvOp::Rename, EnvOp::SyncDir] {
        let rig = Rig::new("");
        let id = set(&rig.region, family(1));
        count(&rig.region, id, 3);
        rig.faults.inject(Rule::new(op, if op == EnvOp::SyncDir { "/r" } else { "MANIFEST" }, 1, Fault::Fail(EIO)));
        assert_eq!(kind(rig.region.family_set(family(5))), ErrorKind::Io, "{op:?}");
        count(&rig.region, id, 3);
        assert_eq!(versions(&rig.region, None, id, b"n"), [6]);
        let rig = rig.after_kill();
        count(&rig.region, id, 1);
        assert_eq!(versions(&rig.region, None, id, b"n"), [7], "{op:?}");
    }
}

/// Poisoned while it waits for who began earlier: a change that is stored has happened, one that is not has not, and the next open agrees.
#[test]
fn settings_changed_while_the_region_is_poisoned() {
    let change = |before: u32, change: &'static (dyn Fn(&Region, u32) -> region::Result<()> + Sync)| {
        let rig = Rig::new("");
        let id = set(&rig.region, family(before));
        count(&rig.region, id, 2);
        let held = rig.hold(Point::SlotClaimed, move |r| r.increment(ROW, id, b"n", 1, &WriteOptions::DEFAULT, &mut CommitInfo::default()));
        let stored = rig.faults.count(EnvOp::Rename);
        let changing = rig.spawn(move |r| change(r, id));
        // Whether it stores before it waits, or the other way round, the poison finds it waiting.
        for _ in 0..100 {
            if rig.faults.count(EnvOp::Rename) > stored {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        rig.region.poison("for the test");
        let answer = changing.join().unwrap();
        let now = |r: &Region| r.family_next(id - 1).unwrap().map(|(_, f)| (f.id.0, f.max_versions));
        let (told, shown) = (answer.map_err(|e| e.kind()), now(&rig.region));
        assert!(held.release().is_err());
        assert_eq!(shown, now(&rig.after_kill().region), "what is shown and what is stored");
        (told, shown, id)
    };
    let lower = change(3, &|r, _| r.family_set(family(1)).map(drop));
    assert!(matches!(lower, (Ok(()), Some((id, 1)), same) if id == same), "{lower:?}");
    let raise = change(3, &|r, _| r.family_set(family(5)).map(drop));
    assert!(matches!(raise, (Err(ErrorKind::Poisoned), Some((id, 3)), same) if id == same), "{raise:?}");
    let gone = change(3, &|r, id| r.family_drop(region::ids::FamilyId(id)));
    assert!(matches!(gone, (Err(ErrorKind::Poisoned), Some((id, 3)), same) if id == same), "{gone:?}");
    let more = change(3, &|r, _| r.family_set(FamilySpec::named("more")).map(drop));
    assert!(matches!(more, (Ok(()), Some((id, 3)), same) if id == same), "{more:?}");
}
