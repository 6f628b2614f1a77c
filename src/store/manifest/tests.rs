//! Whatever happens to the file or while it is replaced, what is loaded is one that was stored, or an error that says what is wrong.

use super::*;
use crate::env::fault::{Fault, FaultEnv, Op, Rule};
use crate::env::mem::{MemEnv, Unsynced};
use crate::sync::Arc;
use proptest::prelude::*;

const DIR: &str = "/region";

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn env() -> MemEnv {
    let env = MemEnv::new();
    env.create_dir(dir()).unwrap();
    env.sync_dir(Path::new("/")).unwrap();
    env
}

fn sample() -> Manifest {
    let mut families = Families::new();
    families.add(FamilyInfo::new(b"cf").unwrap()).unwrap();
    let gone = families.add(FamilyInfo::new(b"gone").unwrap()).unwrap();
    let mut f = FamilyInfo::new("größe \"q\"".as_bytes()).unwrap();
    (f.max_versions, f.min_versions, f.ttl_ms, f.bloom, f.compression, f.block_size, f.flags) = (3, 1, 86_400_000, 3, 5, 8192, 1);
    f.past = vec![
        Regime { through: 77, max_versions: 9, min_versions: 2, keep_deleted: KeepDeleted::UntilExpired, oldest: 1_600_000_000_000 },
        Regime { through: 1 << 60, max_versions: 1, min_versions: 0, keep_deleted: KeepDeleted::No, oldest: 0 },
    ];
    families.add(f).unwrap();
    families.remove(gone).unwrap();
    Manifest {
        region: *b"0123456789abcdef",
        nonce_key: [0xA5; 16],
        clock_unit: ClockUnit::Millis,
        start_row: b"\0a".to_vec(),
        end_row: b"\xff\xfe".to_vec(),
        durability: 3,
        tick_policy: 2,
        families,
        flushed_generation: 7,
        max_number: 1 << 60,
        max_tick: 1_700_000_000_000,
        first_segment: 12,
        synced: LogPosition::new(14, 4_800),
        last_number: (1 << 60) + 7,
        settings: Stored::from([("memstore_limit".into(), 1 << 30), ("wal_io".into(), 2), ("write_timeout_us".into(), u64::MAX)]),
    }
}

/// What format 2 held of it.
fn sample_of_format_2() -> Manifest {
    let mut all = sample();
    let mut f = (**all.families.find("größe \"q\"".as_bytes()).unwrap()).clone();
    f.past.clear();
    all.families.alter(f).unwrap();
    all
}

/// What format 1 held of it.
fn sample_of_format_1() -> Manifest {
    Manifest { synced: LogPosition(0), last_number: 0, settings: Stored::new(), ..sample_of_format_2() }
}

fn path() -> std::path::PathBuf {
    dir().join(MANIFEST)
}

/// Puts these bytes where the manifest is.
fn put(env: &MemEnv, bytes: &[u8]) {
    let _ = env.remove(&path());
    env.create(&path()).unwrap().write_all_at(bytes, 0).unwrap();
}

fn load_bytes(env: &MemEnv, bytes: &[u8]) -> Result<Manifest> {
    put(env, bytes);
    Manifest::load(env, dir())
}

/// The message of a file that is refused as damaged; it must name the file.
fn corrupt(result: Result<Manifest>) -> String {
    let e = result.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
    assert!(e.message().contains("/region/MANIFEST"), "{e}");
    e.message().into()
}

#[test]
fn what_was_stored_is_loaded() {
    let env = env();
    assert_eq!(Manifest::load(&env, dir()).unwrap_err().kind(), ErrorKind::NoRegion);
    assert!(!exists(&env, dir()).unwrap() && !exists(&env, Path::new("/nowhere")).unwrap());
    let mut m = sample();
    m.create(&env, dir()).unwrap();
    assert!(exists(&env, dir()).unwrap());
    assert_eq!(Manifest::load(&env, dir()).unwrap(), m);
    assert_eq!(m.create(&env, dir()).unwrap_err().kind(), ErrorKind::Exists);
    m.flushed_generation += 1;
    m.store(&env, dir()).unwrap();
    assert_eq!(Manifest::load(&env.power_cut_keeping_nothing(), dir()).unwrap(), m);
    assert_eq!(env.list(dir()).unwrap(), [MANIFEST]);
}

#[test]
fn a_new_region_gets_ids_of_its_own() {
    let env = env();
    let new = || Manifest::new(&env, ClockUnit::Nanos, 3).unwrap();
    let (a, b) = (new(), new());
    let ids = std::collections::HashSet::from([a.region, a.nonce_key, b.region, b.nonce_key]);
    assert_eq!(ids.len(), 4);
    a.create(&env, dir()).unwrap();
    assert_eq!(Manifest::load(&env, dir()).unwrap(), a);
    assert_eq!((a.families.next_id(), a.flushed_generation, a.first_segment), (1, 0, 1));
}

/// Bytes that an earlier build wrote: what is on people's disks does not change with the code.
#[test]
fn golden_bytes() {
    let golden = include_str!("golden-format-3.txt");
    assert_eq!(String::from_utf8(encode(&sample()).unwrap()).unwrap(), golden);
    assert_eq!(load_bytes(&env(), golden.as_bytes()).unwrap(), sample());
    let older = include_str!("golden-format-2.txt");
    assert_eq!(load_bytes(&env(), older.as_bytes()).unwrap(), sample_of_format_2());
    let older = include_str!("golden-format-1.txt");
    assert_eq!(load_bytes(&env(), older.as_bytes()).unwrap(), sample_of_format_1());
}

#[test]
fn every_flipped_bit_is_noticed() {
    let env = env();
    let good = encode(&sample()).unwrap();
    assert!(load_bytes(&env, &good).is_ok());
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            corrupt(load_bytes(&env, &bad));
        }
    }
}

#[test]
fn every_other_length_is_noticed() {
    let env = env();
    let good = encode(&sample()).unwrap();
    for len in 0..good.len() {
        corrupt(load_bytes(&env, &good[..len]));
    }
    for more in [&b"\n"[..], b"\0", b" ", &[0; 5000]] {
        corrupt(load_bytes(&env, &[&good, more].concat()));
    }
    // Torn: any page of a longer file as zeros.
    let mut big = sample();
    for i in 0..200 {
        big.families.add(FamilyInfo::new(format!("family-{i}").as_bytes()).unwrap()).unwrap();
    }
    let good = encode(&big).unwrap();
    assert!(good.len() > 5 * 4096);
    for page in 0..good.len() / 4096 {
        let mut bad = good.clone();
        bad[page * 4096..(page + 1) * 4096].fill(0);
        corrupt(load_bytes(&env, &bad));
    }
}

#[test]
fn a_newer_format_is_not_damage() {
    let env = env();
    for format in [4, 5, u32::MAX] {
        let e = load_bytes(&env, &in_envelope(format, b"{\"what\": \"nobody knows\"}")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        assert!(e.message().contains(&format!("format {format} ")) && e.message().contains("format 3"), "{e}");
        assert!(e.message().contains("MANIFEST"), "{e}");
    }
    // A torn one is damage, whatever it says of itself.
    let mut torn = in_envelope(2, b"{}");
    torn.pop();
    corrupt(load_bytes(&env, &torn));
}

#[test]
fn a_first_line_in_any_other_spelling_is_damage() {
    let env = env();
    let json = &open_envelope(&encode(&sample()).unwrap()).unwrap().1.to_vec();
    let line = first_line(2, checksum(2, json), json.len());
    let spellings = [
        line.to_uppercase(),
        line.replace("format 2", "format 02"),
        line.replace("format 2", "format +2"),
        line.replace(", ", ",  "),
        line.replace(" bytes\n", " bytes \n"),
        line.replace("crc32c ", "crc32c 0"),
        line.replace('\n', "\r\n"),
        format!(" {line}"),
        String::new(),
        "\n".into(),
        "libregion manifest, format ".into(),
        "x".repeat(1000),
    ];
    for line in spellings {
        corrupt(load_bytes(&env, &[line.as_bytes(), json].concat()));
    }
    assert!(load_bytes(&env, &[line.as_bytes(), json].concat()).is_ok());
}

/// The checksum is right, the rest is not: nothing but an error that names the file, and no allocation without bound.
#[test]
fn hostile_bodies() {
    let env = env();
    let good = String::from_utf8(open_envelope(&encode(&sample()).unwrap()).unwrap().1.to_vec()).unwrap();
    assert!(load_bytes(&env, &in_envelope(FORMAT, good.as_bytes())).is_ok());
    let swap = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1).into_bytes()
    };
    let bad: Vec<Vec<u8>> = vec![
        vec![],
        b"{".to_vec(),
        b"null".to_vec(),
        b"\xff\xfe{}".to_vec(),
        vec![b'['; 1 << 20],
        b"{\"families\":".repeat(100_000),
        swap("größe", "gr\u{0}ße"),
        swap("\"cf\"", "\"c:f\""),
        swap("\"cf\"", "\".cf\""),
        swap("\"cf\"", "\"größe \\\"q\\\"\""),
        swap("\"id\": 1", "\"id\": 0"),
        swap("\"id\": 1", "\"id\": 3"),
        swap("\"id\": 1", "\"id\": 4"),
        swap("\"id\": 1", "\"id\": -1"),
        swap("\"id\": 1", "\"id\": 1.0"),
        swap("\"id\": 1,", "\"id\": 1, \"id\": 1,"),
        swap("\"next_family\": 4", "\"next_family\": 4294967295"),
        swap("\"next_family\": 4", "\"next_family\": 0"),
        swap("\"next_family\": 4", "\"next_family\": 99999999999999999999999"),
        swap("\"max_versions\": 3", "\"max_versions\": 0"),
        swap("\"max_number\": 1152921504606846976", "\"max_number\": 4611686018427387905"),
        swap("\"max_number\": 1152921504606846976", "\"max_number\": 1e999"),
        swap("\"max_tick\": 1700000000000", "\"max_tick\": 18446744073709551615"),
        swap("\"flushed_generation\": 7", "\"flushed_generation\": 4294967295"),
        swap("\"first_segment\": 12", "\"first_segment\": 2147483649"),
        swap("\"synced_segment\": 14", "\"synced_segment\": 2147483649"),
        swap("\"synced_offset\": 4800", "\"synced_offset\": 4294967296"),
        swap("\"last_number\": 1152921504606846983", "\"last_number\": 4611686018427387905"),
        swap("\"memstore_limit\": 1073741824", "\"memstore_limit\": 1"),
        swap("\"memstore_limit\": 1073741824", "\"memstore_limit\": -1"),
        swap("\"wal_io\": 2", "\"wal_io\": 3"),
        swap("\"wal_io\": 2", "\"recovery\": 1"),
        swap("\"wal_io\": 2", "\"unknown\": 1"),
        swap("\"durability\": 3", "\"durability\": 0"),
        swap("\"durability\": 3", "\"durability\": 5"),
        swap("\"durability\": 3", "\"durability\": 259"),
        swap("\"clock_unit\": \"ms\"", "\"clock_unit\": \"s\""),
        swap("\"start_row\": \"0061\"", "\"start_row\": \"fffe\""),
        swap("\"start_row\": \"0061\"", "\"start_row\": \"006\""),
        swap("\"start_row\": \"0061\"", "\"start_row\": \"00+1\""),
        swap("\"start_row\": \"0061\"", "\"start_row\": \"ü\""),
        swap("\"start_row\": \"0061\"", &format!("\"start_row\": \"{}\"", "00".repeat(ROW_BYTES_MAX + 1))),
        swap("a5a5", ""),
        swap("a5a5", "a5a5a5"),
        swap("  \"durability\": 3,\n", ""),
        swap("  \"durability\": 3,\n", "  \"durability\": 3,\n  \"unknown\": 1,\n"),
        [good.as_bytes(), b"{}"].concat(),
    ];
    for (i, body) in bad.iter().enumerate() {
        let message = corrupt(load_bytes(&env, &in_envelope(FORMAT, body)));
        assert!(message.len() < 1000, "{i}: {message}");
    }
}

#[test]
fn a_huge_file_is_refused_unread() {
    let env = env();
    put(&env, &encode(&sample()).unwrap());
    env.open(&path(), true).unwrap().set_len(100 << 20).unwrap();
    let fault = FaultEnv::new(Arc::new(env));
    assert_eq!(Manifest::load(&fault, dir()).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(fault.count(Op::ReadAt), 0);
    // Nor is one written that could not be read.
    let mut m = sample();
    m.start_row = vec![1; ROW_BYTES_MAX + 1];
    assert_eq!(m.store(&fault, dir()).unwrap_err().kind(), ErrorKind::Invalid);
    m.start_row = vec![1; ROW_BYTES_MAX];
    m.store(&fault, dir()).unwrap();
    assert_eq!(Manifest::load(&fault, dir()).unwrap(), m);
}

#[test]
fn what_could_not_be_loaded_is_not_stored() {
    let env = env();
    let change: [fn(&mut Manifest); 9] = [
        |m| m.durability = 0,
        |m| m.end_row = m.start_row.clone(),
        |m| m.max_number = u64::MAX,
        |m| m.max_tick = (1 << 62) + 1,
        |m| m.flushed_generation = u32::MAX,
        |m| m.first_segment = u32::MAX,
        |m| m.synced = LogPosition(u64::MAX),
        |m| m.last_number = u64::MAX,
        |m| assert!(m.settings.insert("wal_io".into(), 3).is_some()),
    ];
    for f in change {
        let mut m = sample();
        f(&mut m);
        assert_eq!(m.store(&env, dir()).unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert!(env.list(dir()).unwrap().is_empty());
}

/// Loads after the next process, and after every power cut, found at this instant.
fn after_every_crash(mem: &MemEnv, mut check: impl FnMut(Result<Manifest>, &MemEnv)) {
    let asked: Vec<Unsynced> = mem.unsynced();
    assert!(asked.len() <= 10, "{asked:?}");
    for kept in 0..1u32 << asked.len() {
        let cut = mem.power_cut(&mut |u| asked.iter().position(|a| a == u).is_some_and(|i| kept >> i & 1 == 1));
        check(Manifest::load(&cut, dir()), &cut);
    }
    let killed = mem.kill();
    check(Manifest::load(&killed, dir()), &killed);
}

/// Kill and power cut before every step of a replacement, with every subset of what was not synced, over a leftover of an earlier crash or none.
#[test]
fn a_crash_at_any_step_leaves_the_old_one_or_the_new_one() {
    let old = sample();
    let mut new = sample();
    new.flushed_generation = 8;
    for i in 0..100 {
        new.families.add(FamilyInfo::new(format!("family-{i}").as_bytes()).unwrap()).unwrap();
    }
    for leftover in [false, true] {
        let mut done = false;
        for step in 1.. {
            let mem = env();
            old.create(&mem, dir()).unwrap();
            if leftover {
                let f = mem.create(&dir().join(MANIFEST_NEW)).unwrap();
                f.write_all_at(&[9; 5000], 0).unwrap();
                mem.sync_dir(dir()).unwrap();
            }
            let fault = FaultEnv::new(Arc::new(mem.clone()));
            fault.stop_at_change(step);
            let stored = new.store(&fault, dir());
            done = stored.is_ok();
            after_every_crash(&mem, |found, after| {
                let found = found.unwrap_or_else(|e| panic!("step {step}: {e}"));
                assert!(found == new || (found == old && !done), "step {step}");
                // Whichever it was, the next replacement works.
                new.store(after, dir()).unwrap();
                assert_eq!(Manifest::load(&after.power_cut_keeping_nothing(), dir()).unwrap(), new);
            });
            if done {
                assert!(step > 6, "remove, create, write, sync, rename, sync: {step}");
                break;
            }
        }
        assert!(done);
    }
}

#[test]
fn a_crash_while_it_is_created_leaves_none_or_the_whole() {
    let m = sample();
    for step in 1.. {
        let mem = env();
        let fault = FaultEnv::new(Arc::new(mem.clone()));
        fault.stop_at_change(step);
        let done = m.create(&fault, dir()).is_ok();
        after_every_crash(&mem, |found, after| match found {
            Ok(found) => assert_eq!(found, m),
            Err(e) => {
                assert!(e.kind() == ErrorKind::NoRegion && !done, "step {step}: {e}");
                m.create(after, dir()).unwrap();
            }
        });
        if done {
            break;
        }
    }
}

#[test]
fn an_error_before_the_rename_changes_nothing() {
    let (old, mut new) = (sample(), sample());
    new.max_number += 1;
    let faults = [
        Rule::new(Op::Remove, MANIFEST_NEW, 1, Fault::Fail(libc::EIO)),
        Rule::new(Op::Create, MANIFEST_NEW, 1, Fault::Fail(libc::EACCES)),
        Rule::new(Op::WriteAt, MANIFEST_NEW, 1, Fault::Short(100, Some(libc::ENOSPC))),
        Rule::new(Op::SyncAll, MANIFEST_NEW, 1, Fault::Fail(libc::EIO)),
        Rule::new(Op::Rename, MANIFEST_NEW, 1, Fault::Fail(libc::EIO)),
    ];
    for (i, rule) in faults.into_iter().enumerate() {
        let mem = env();
        old.create(&mem, dir()).unwrap();
        let fault = FaultEnv::new(Arc::new(mem.clone()));
        fault.inject(rule);
        let e = new.store(&fault, dir()).unwrap_err();
        assert_eq!(e.kind(), if i == 2 { ErrorKind::NoSpace } else { ErrorKind::Io }, "{e}");
        assert!(e.message().contains("/region/MANIFEST"), "{e}");
        assert_eq!(mem.list(dir()).unwrap(), [MANIFEST], "fault {i}");
        after_every_crash(&mem.kill(), |found, _| assert_eq!(found.unwrap(), old));
    }
    // Short writes that go on are no error.
    let mem = env();
    let fault = FaultEnv::new(Arc::new(mem.clone()));
    fault.inject(Rule::new(Op::WriteAt, "", 1, Fault::Short(1, None)));
    new.create(&fault, dir()).unwrap();
    assert_eq!(Manifest::load(&mem, dir()).unwrap(), new);
}

/// After a failed sync of the directory either may be what a power cut brings; storing again, as opening for writing does, settles which.
#[test]
fn storing_again_settles_what_a_dying_process_left_open() {
    let (old, mut new) = (sample(), sample());
    new.first_segment = 99;
    let mem = env();
    old.create(&mem, dir()).unwrap();
    let fault = FaultEnv::new(Arc::new(mem.clone()));
    fault.fail(Op::SyncDir, DIR, 1, libc::EIO);
    assert_eq!(new.store(&fault, dir()).unwrap_err().kind(), ErrorKind::Io);
    let next = mem.kill();
    assert_eq!(Manifest::load(&next, dir()).unwrap(), new);
    assert_eq!(Manifest::load(&next.power_cut_keeping_nothing(), dir()).unwrap(), old);
    Manifest::load(&next, dir()).unwrap().store(&next, dir()).unwrap();
    assert_eq!(Manifest::load(&next.power_cut_keeping_nothing(), dir()).unwrap(), new);
}

/// A file whose sync failed is never renamed into place by a later replacement, though the kernel calls its pages clean.
#[test]
fn a_failed_sync_is_not_trusted_later() {
    let (old, mut new) = (sample(), sample());
    new.max_tick += 1;
    let mem = env();
    old.create(&mem, dir()).unwrap();
    mem.fail_syncs(MANIFEST_NEW, 1);
    assert_eq!(new.store(&mem, dir()).unwrap_err().kind(), ErrorKind::Io);
    new.store(&mem, dir()).unwrap();
    assert_eq!(Manifest::load(&mem.power_cut_keeping_nothing(), dir()).unwrap(), new);
}

#[test]
fn errors_of_the_system_are_not_damage() {
    let mem = env();
    sample().create(&mem, dir()).unwrap();
    let fault = FaultEnv::new(Arc::new(mem));
    for (op, errno, kind) in [
        (Op::Open, libc::EACCES, ErrorKind::Io),
        (Op::Open, libc::ENOENT, ErrorKind::NoRegion),
        (Op::ReadAt, libc::EIO, ErrorKind::Io),
        (Op::Len, libc::EIO, ErrorKind::Io),
    ] {
        fault.fail(op, MANIFEST, 1, errno);
        let e = Manifest::load(&fault, dir()).unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
        assert!(e.message().contains(DIR), "{e}");
    }
    fault.fail(Op::Exists, MANIFEST, 1, libc::EACCES);
    assert_eq!(sample().create(&fault, dir()).unwrap_err().kind(), ErrorKind::Io, "what cannot be seen is not overwritten");
    fault.fail(Op::Random, "", 2, libc::ENOSYS);
    assert_eq!(Manifest::new(&fault, ClockUnit::Nanos, 3).unwrap_err().kind(), ErrorKind::Io);
    assert!(Manifest::load(&fault, dir()).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_manifest_comes_back(
        (region, nonce_key, unit, durability) in (any::<[u8; 16]>(), any::<[u8; 16]>(), 1u8..=3, 1u8..=4),
        (mut rows, numbers) in (proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 2), (0..=NUMBER_MAX, 0..=NUMBER_MAX)),
        (flushed_generation, first_segment) in (0..=NUMBER32_MAX, 0..=NUMBER32_MAX),
        names in proptest::collection::btree_set("[a-zA-Z0-9_ \"'{}\u{a0}-\u{2fff}\u{1f600}]{1,20}", 0..20),
        dropped in any::<u32>(),
    ) {
        rows.sort();
        if rows[0] == rows[1] { rows[1].clear(); }
        let mut families = Families::new();
        for (i, name) in names.iter().enumerate() {
            let mut f = FamilyInfo::new(name.as_bytes()).unwrap();
            f.max_versions = 1 + i as u32;
            let id = families.add(f).unwrap();
            if dropped >> i & 1 == 1 { families.remove(id).unwrap(); }
        }
        let end_row = rows.pop().unwrap();
        let m = Manifest {
            region, nonce_key, clock_unit: ClockUnit::from_u8(unit).unwrap(), start_row: rows.pop().unwrap(), end_row, durability, tick_policy: 1, families,
            flushed_generation, max_number: numbers.0, max_tick: numbers.1, first_segment,
            synced: LogPosition::new(first_segment, flushed_generation), last_number: numbers.1,
            settings: crate::options::Settings::default().stored(),
        };
        let bytes = encode(&m).unwrap();
        prop_assert_eq!(decode(&bytes).unwrap(), m);
    }

    #[test]
    fn any_bytes_are_damage(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(decode(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        prop_assert_eq!(decode(&in_envelope(FORMAT, &bytes)).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

/// Rewrites the golden file's text to stdout, for a new format: `cargo test golden_text -- --ignored --nocapture`.
#[test]
#[ignore = "prints what golden_bytes compares with"]
fn golden_text() {
    print!("{}", String::from_utf8(encode(&sample()).unwrap()).unwrap());
}
