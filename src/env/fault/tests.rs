//! Each fault befalls the call it is meant for, and no other.

use super::super::EnvFile;
use super::super::mem::MemEnv;
use super::*;
use std::io::ErrorKind;

fn p(path: &str) -> &Path {
    Path::new(path)
}

fn env() -> (MemEnv, FaultEnv, Box<dyn EnvFile>) {
    let mem = MemEnv::new();
    let env = FaultEnv::new(Arc::new(mem.clone()));
    let file = env.create(p("/wal.1")).unwrap();
    (mem, env, file)
}

fn content(mem: &MemEnv) -> Vec<u8> {
    super::super::read_whole(mem, p("/wal.1"), 1 << 20).unwrap()
}

#[test]
fn the_nth_matching_call_fails() {
    let (mem, env, file) = env();
    let other = env.create(p("/other")).unwrap();
    env.fail(Op::WriteAt, "wal", 2, libc::EIO);
    file.write_all_at(b"a", 0).unwrap();
    other.write_all_at(b"x", 0).unwrap();
    assert_eq!(file.write_all_at(b"b", 1).unwrap_err().raw_os_error(), Some(libc::EIO));
    file.write_all_at(b"c", 1).unwrap();
    assert_eq!(content(&mem), b"ac");
    assert_eq!((env.count(Op::WriteAt), env.count(Op::Create), env.count(Op::SyncData)), (4, 2, 0));
    // From then on.
    env.inject(Rule::new(Op::SyncData, "", 2, Fault::Fail(libc::ENOSPC)).from_then_on());
    file.sync_data().unwrap();
    for _ in 0..3 {
        assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::StorageFull);
    }
    env.clear();
    file.sync_data().unwrap();
}

#[test]
fn both_names_of_a_rename_match() {
    let (_, env, _) = env();
    env.fail(Op::Rename, "wal.2", 1, libc::EIO);
    assert!(env.rename(p("/wal.1"), p("/wal.2")).is_err());
    env.rename(p("/wal.1"), p("/wal.2")).unwrap();
    env.fail(Op::Rename, "wal.2", 1, libc::EIO);
    assert!(env.rename(p("/wal.2"), p("/wal.3")).is_err());
}

#[test]
fn writes_and_reads_are_cut_short() {
    let (mem, env, file) = env();
    env.inject(Rule::new(Op::WriteAt, "", 1, Fault::Short(3, Some(libc::ENOSPC))));
    assert_eq!(file.write_all_at(b"abcdef", 0).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(content(&mem), b"abc");
    env.inject(Rule::new(Op::WriteAt, "", 1, Fault::Short(2, None)));
    file.write_all_at(b"uvwxyz", 0).unwrap();
    assert_eq!(content(&mem), b"uvwxyz");
    env.inject(Rule::new(Op::ReadAt, "", 1, Fault::Short(1, None)).from_then_on());
    let mut buf = [0; 6];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 1);
    // One byte at a time, and still all of it.
    let before = env.count(Op::ReadAt);
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!((&buf, env.count(Op::ReadAt) - before), (b"uvwxyz", 6));
}

#[test]
fn a_paused_call_waits_for_the_gate() {
    use crate::sync::thread;
    let (mem, env, file) = env();
    let gate = env.pause(Op::SyncData, "wal", 1);
    file.write_all_at(b"abc", 0).unwrap();
    mem.sync_dir(p("/")).unwrap();
    thread::scope(|s| {
        let syncer = s.spawn(|| file.sync_data());
        gate.wait_until_reached();
        // It did nothing yet, and nobody else has to wait.
        assert_eq!(super::super::read_whole(&mem.power_cut_keeping_nothing(), p("/wal.1"), 10).unwrap(), b"");
        env.create(p("/other")).unwrap().sync_data().unwrap();
        assert!(!syncer.is_finished());
        gate.open();
        syncer.join().unwrap().unwrap();
    });
    assert_eq!(gate.reached(), 1);
    assert_eq!(super::super::read_whole(&mem.power_cut_keeping_nothing(), p("/wal.1"), 10).unwrap(), b"abc");
}

#[test]
fn a_delayed_call_takes_longer() {
    let (_, env, file) = env();
    env.inject(Rule::new(Op::SyncData, "", 1, Fault::Delay(Duration::from_millis(30))));
    let mut t = crate::clock::Timeout::from_micros(20_000);
    assert!(!t.is_over());
    file.sync_data().unwrap();
    assert!(t.is_over());
}

#[test]
fn after_a_stop_nothing_works() {
    let (mem, env, file) = env();
    env.stop_at_change(2);
    file.write_all_at(b"a", 0).unwrap();
    file.len().unwrap();
    assert!(file.write_all_at(b"b", 1).is_err());
    assert!(file.len().is_err() && env.exists(p("/wal.1")).is_err() && file.map(1).is_err() && env.list(p("/")).is_err());
    assert_eq!(content(&mem), b"a");
    assert_eq!(env.changes(), 3, "the creation and both writes");
    env.clear();
    file.write_all_at(b"b", 1).unwrap();
}

#[test]
fn populate_and_map_can_fail() {
    let (_, env, file) = env();
    file.preallocate(8192).unwrap();
    env.fail(Op::Map, "", 1, libc::ENOMEM);
    assert!(file.map(8192).is_err());
    let m = file.map(8192).unwrap();
    env.fail(Op::Populate, "wal", 1, libc::ENOSPC);
    assert_eq!(m.populate(0..4096).unwrap_err().kind(), ErrorKind::StorageFull);
    m.populate(0..4096).unwrap();
    assert_eq!(m.len(), 8192);
}
