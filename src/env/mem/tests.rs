//! What survives a kill, and what a power cut, is what the header says.

use super::*;
use std::io::ErrorKind;

fn p(path: &str) -> &Path {
    Path::new(path)
}

/// A file with these bytes, all of it durable.
fn durable(env: &MemEnv, path: &str, bytes: &[u8]) -> Box<dyn EnvFile> {
    let f = env.create(p(path)).unwrap();
    f.write_all_at(bytes, 0).unwrap();
    f.sync_data().unwrap();
    env.sync_dir(p(path).parent().unwrap()).unwrap();
    f
}

fn content(env: &MemEnv, path: &str) -> Vec<u8> {
    super::super::read_whole(env, p(path), 1 << 24).unwrap()
}

fn names(env: &MemEnv) -> Vec<String> {
    env.list(p("/")).unwrap()
}

/// What every subset of the unsynced things leaves.
fn every_cut<T>(env: &MemEnv, mut look: impl FnMut(&MemEnv) -> T) -> Vec<T> {
    // What is asked may depend on earlier answers, so the answers are walked as a tree.
    let (mut all, mut answers): (Vec<T>, Vec<bool>) = (Vec::new(), Vec::new());
    loop {
        let mut asked = 0;
        let after = env.power_cut(&mut |_| {
            if asked == answers.len() {
                answers.push(false);
            }
            asked += 1;
            answers[asked - 1]
        });
        all.push(look(&after));
        answers.truncate(asked);
        while answers.pop_if(|last| *last).is_some() {}
        match answers.last_mut() {
            Some(last) => *last = true,
            None => return all,
        }
    }
}

#[test]
fn files_and_names_are_those_of_a_file_system() {
    let e = MemEnv::new();
    e.create_dir(p("/d")).unwrap();
    assert_eq!(e.create_dir(p("/d")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(e.create_dir(p("/no/deeper")).unwrap_err().kind(), ErrorKind::NotFound);
    let f = e.create(p("/d/a")).unwrap();
    assert_eq!(e.create(p("d/a")).err().unwrap().kind(), ErrorKind::AlreadyExists);
    f.write_all_at(b"hello", 4094).unwrap();
    assert_eq!((f.len().unwrap(), e.file_len(p("/d/a")).unwrap()), (4099, 4099));
    let mut buf = [9; 10];
    assert_eq!(f.read_at(&mut buf, 4092).unwrap(), 7);
    assert_eq!(&buf[..7], b"\0\0hello");
    assert_eq!(f.read_at(&mut buf, 5000).unwrap(), 0);
    assert_eq!(f.read_exact_at(&mut buf, 4092).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    // Cut and lengthened again: zeros.
    f.set_len(4095).unwrap();
    f.set_len(4099).unwrap();
    f.read_exact_at(&mut buf[..5], 4094).unwrap();
    assert_eq!(&buf[..5], b"h\0\0\0\0");

    e.hard_link(p("/d/a"), p("/d/b")).unwrap();
    assert_eq!(e.identity(p("/d/a")).unwrap(), e.identity(p("/d/b")).unwrap());
    e.rename(p("/d/a"), p("/d/b")).unwrap();
    assert_eq!(e.list(p("/d")).unwrap(), ["a", "b"], "two names of one file: rename does nothing");
    e.remove(p("/d/a")).unwrap();
    e.create(p("/d/c")).unwrap();
    e.rename(p("/d/b"), p("/d/c")).unwrap();
    assert_eq!(content(&e, "/d/c").len(), 4099);
    assert!(e.is_dir(p("/d")).unwrap() && !e.is_dir(p("/d/c")).unwrap() && !e.is_dir(p("/x")).unwrap());
    assert!(e.exists(p("/d/c")).unwrap() && !e.exists(p("/d/b")).unwrap());
    assert_eq!(e.exists(p("/d/c/x")).unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(e.remove_dir(p("/d")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    assert_eq!(e.remove(p("/d")).unwrap_err().kind(), ErrorKind::IsADirectory);
    assert!(e.open(p("/d/c"), false).unwrap().write_all_at(b"x", 0).is_err());
    assert!(f.set_len(1 << 50).is_err());
    e.remove(p("/d/c")).unwrap();
    e.remove_dir(p("/d")).unwrap();
    assert!(names(&e).is_empty());
    // The handle still works.
    f.write_all_at(b"x", 0).unwrap();
    assert_eq!(f.len().unwrap(), 4099);
}

#[test]
fn a_kill_keeps_the_page_cache_and_ends_the_process() {
    let e = MemEnv::new();
    let f = e.create(p("/f")).unwrap();
    f.write_all_at(&[7; 5000], 0).unwrap();
    let m = f.map(4096).unwrap();
    let lock = e.lock(p("/LOCK"), true, "first").unwrap();
    let who = e.identity(p("/f")).unwrap();
    let next = e.kill();
    assert_eq!(content(&next, "/f"), [7; 5000]);
    assert_eq!((next.boot_id(), next.identity(p("/f")).unwrap()), (e.boot_id(), who));
    assert!(matches!(next.lock(p("/LOCK"), true, "second").unwrap(), LockOutcome::Held(_)));
    // The dead one's handles, names and mappings reach nothing any more.
    assert!(f.write_all_at(b"x", 0).is_err() && f.sync_data().is_err() && f.read_at(&mut [0], 0).is_err());
    assert!(e.create(p("/g")).is_err() && e.remove(p("/f")).is_err() && e.exists(p("/f")).is_err());
    store(&*m, 0, 1);
    assert_eq!(content(&next, "/f"), [7; 5000]);
    drop((lock, m));
    // Nothing of it was synced.
    assert!(names(&next.power_cut_keeping_nothing()).is_empty());
    assert_eq!(content(&next.power_cut(&mut |_| true), "/f"), [7; 5000]);
}

/// Stores a byte as the owner of a mapping does.
#[expect(unsafe_code, reason = "the test's side of a mapping")]
fn store(m: &dyn Mapping, at: usize, byte: u8) {
    assert!(at < m.len());
    // SAFETY: within the mapping.
    unsafe { m.base().as_ptr().wrapping_add(at).write_volatile(byte) };
}

#[test]
fn only_synced_bytes_are_sure_and_pages_go_one_by_one() {
    let e = MemEnv::new();
    let f = durable(&e, "/f", &[1; 3 * PAGE]);
    assert_eq!(e.unsynced(), []);
    f.write_all_at(&[2; 2 * PAGE], PAGE as u64 - 10).unwrap();
    let page = |page| Unsynced::Page { path: "/f".into(), page };
    assert_eq!(e.unsynced(), [page(0), page(1), page(2)]);
    assert_eq!(content(&e.power_cut_keeping_nothing(), "/f"), [1; 3 * PAGE]);
    let torn = content(&e.power_cut(&mut |u| *u == page(1)), "/f");
    assert_eq!((torn[PAGE - 10], torn[PAGE], torn[2 * PAGE - 1], torn[2 * PAGE]), (1, 2, 2, 1));
    assert_eq!(every_cut(&e, |c| content(c, "/f")).len(), 8);
    // Written back to what is on the disk: not dirty.
    f.write_all_at(&[1; 2 * PAGE], PAGE as u64 - 10).unwrap();
    assert_eq!(e.unsynced(), []);
    f.write_all_at(b"x", 0).unwrap();
    f.sync_all().unwrap();
    assert_eq!(content(&e.power_cut_keeping_nothing(), "/f")[0], b'x');
}

#[test]
fn the_length_is_durable_only_with_a_sync() {
    let e = MemEnv::new();
    let f = durable(&e, "/f", b"abc");
    f.write_all_at(&[9; PAGE], 3).unwrap();
    // The page's bytes may be there without the length, and the length without the bytes.
    let mut seen = every_cut(&e, |c| content(c, "/f"));
    seen.sort();
    seen.dedup();
    let long = |tail: &[(usize, u8)]| {
        let mut v = b"abc".to_vec();
        tail.iter().for_each(|&(n, b)| v.resize(v.len() + n, b));
        v
    };
    let expect = [long(&[]), long(&[(PAGE, 0)]), long(&[(PAGE - 3, 0), (3, 9)]), long(&[(PAGE - 3, 9), (3, 0)]), long(&[(PAGE, 9)])];
    assert_eq!(seen, expect);
    f.sync_data().unwrap();
    // Cut to less: without a sync the old length with the old bytes may come back.
    f.set_len(1).unwrap();
    let mut seen = every_cut(&e, |c| content(c, "/f").len());
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [1, PAGE + 3]);
    f.sync_data().unwrap();
    f.set_len(3).unwrap();
    assert_eq!(content(&e.power_cut(&mut |_| true), "/f"), b"a\0\0");
}

#[test]
fn names_are_durable_only_with_their_directory() {
    let e = MemEnv::new();
    let f = e.create(p("/f")).unwrap();
    f.write_all_at(b"abc", 0).unwrap();
    f.sync_all().unwrap();
    assert!(names(&e.power_cut_keeping_nothing()).is_empty());
    let made = Unsynced::Name { dir: "/".into(), op: NameOp::Add("f".into()) };
    assert_eq!(content(&e.power_cut(&mut |u| *u == made), "/f"), b"abc");
    e.sync_dir(p("/")).unwrap();
    assert_eq!(content(&e.power_cut_keeping_nothing(), "/f"), b"abc");
    e.remove(p("/f")).unwrap();
    assert_eq!(every_cut(&e, names), [vec!["f".to_string()], vec![]]);
    // Bytes of a file that comes back are still there, also after many other syncs.
    e.create(p("/other")).unwrap().sync_all().unwrap();
    assert_eq!(content(&e.power_cut_keeping_nothing(), "/f"), b"abc");
}

#[test]
fn a_rename_may_be_lost_but_is_never_half_done() {
    let e = MemEnv::new();
    durable(&e, "/old", b"old");
    let new = e.create(p("/new")).unwrap();
    new.write_all_at(b"new", 0).unwrap();
    new.sync_data().unwrap();
    e.rename(p("/new"), p("/old")).unwrap();
    // Neither the creation nor the rename is durable: each may be lost for itself.
    let mut seen = every_cut(&e, |c| (names(c).join(" "), content(c, "/old")));
    seen.sort();
    let s = |names: &str, bytes: &[u8]| (names.to_string(), bytes.to_vec());
    assert_eq!(seen, [s("new old", b"old"), s("old", b"new"), s("old", b"new"), s("old", b"old")]);
    e.sync_dir(p("/")).unwrap();
    assert_eq!(content(&e.power_cut_keeping_nothing(), "/old"), b"new");
    // Between two directories it is two things.
    e.create_dir(p("/d")).unwrap();
    e.sync_dir(p("/")).unwrap();
    e.rename(p("/old"), p("/d/old")).unwrap();
    let mut seen = every_cut(&e, |c| (names(c).join(" "), c.list(p("/d")).unwrap().join(" ")));
    seen.sort();
    let s = |a: &str, b: &str| (a.to_string(), b.to_string());
    assert_eq!(seen, [s("d", ""), s("d", "old"), s("d old", ""), s("d old", "old")]);
}

#[test]
fn a_rename_of_unsynced_bytes_can_leave_an_empty_file() {
    let e = MemEnv::new();
    durable(&e, "/f", b"old");
    let new = e.create(p("/f.new")).unwrap();
    new.write_all_at(b"new", 0).unwrap();
    e.rename(p("/f.new"), p("/f")).unwrap();
    e.sync_dir(p("/")).unwrap();
    assert_eq!(content(&e.power_cut_keeping_nothing(), "/f"), b"");
}

#[test]
fn a_lost_directory_takes_its_files_along() {
    let e = MemEnv::new();
    e.create_dir(p("/d")).unwrap();
    durable(&e, "/d/f", b"abc");
    assert!(names(&e.power_cut_keeping_nothing()).is_empty());
    e.sync_dir(p("/")).unwrap();
    assert_eq!(content(&e.power_cut_keeping_nothing(), "/d/f"), b"abc");
}

#[test]
fn stores_through_a_mapping_are_found() {
    let e = MemEnv::new();
    let f = durable(&e, "/f", &[0; 4 * PAGE]);
    let m = f.map(3 * PAGE).unwrap();
    assert_eq!((m.len(), m.base().as_ptr() as usize % PAGE), (3 * PAGE, 0));
    store(&*m, 2 * PAGE + 5, 9);
    assert_eq!(content(&e, "/f")[2 * PAGE + 5], 9);
    assert_eq!(e.unsynced(), [Unsynced::Page { path: "/f".into(), page: 2 }]);
    assert_eq!(content(&e.power_cut_keeping_nothing(), "/f"), [0; 4 * PAGE]);
    f.sync_data().unwrap();
    assert_eq!(content(&e.power_cut_keeping_nothing(), "/f")[2 * PAGE + 5], 9);
    store(&*m, 0, 1);
    drop(m);
    // Unmapped, but what was stored is still dirty.
    assert_eq!(e.unsynced().len(), 1);
    assert_eq!(e.kill().unsynced().len(), 1);
    let f = e.kill().open(p("/f"), true).unwrap();
    let m = f.map(4 * PAGE).unwrap();
    assert_eq!(f.set_len(1 << 20).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(m.populate(0..4 * PAGE + 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(f.map(4 * PAGE + 1).err().unwrap().kind(), ErrorKind::InvalidInput);
    drop(m);
    f.set_len(1 << 20).unwrap();
}

#[test]
fn a_failed_sync_leaves_pages_clean_and_not_on_the_disk() {
    let e = MemEnv::new();
    let f = durable(&e, "/dir-f", &[1; 2 * PAGE]);
    let other = durable(&e, "/other", b"a");
    f.write_all_at(&[2; 2 * PAGE], 0).unwrap();
    e.fail_syncs("dir-f", 1);
    other.sync_data().unwrap();
    assert_eq!(f.sync_data().unwrap_err().raw_os_error(), Some(libc::EIO));
    // The next one says yes, and the bytes are in the page cache only.
    f.sync_data().unwrap();
    assert_eq!(content(&e, "/dir-f"), [2; 2 * PAGE]);
    assert_eq!(content(&e.power_cut(&mut |_| true), "/dir-f"), [1; 2 * PAGE]);
    // Also for the next process, unless it rewrites them (with themselves is enough).
    let next = e.kill();
    let f = next.open(p("/dir-f"), true).unwrap();
    f.sync_data().unwrap();
    assert_eq!(content(&next.power_cut(&mut |_| true), "/dir-f"), [1; 2 * PAGE]);
    f.write_all_at(&[2; PAGE], 0).unwrap();
    f.sync_data().unwrap();
    let after = content(&next.power_cut_keeping_nothing(), "/dir-f");
    assert_eq!((after[0], after[PAGE]), (2, 1));
}

#[test]
fn a_failed_sync_of_a_mapped_file_is_as_final() {
    let e = MemEnv::new();
    let f = durable(&e, "/f", &[1; 2 * PAGE]);
    let m = f.map(2 * PAGE).unwrap();
    store(&*m, 0, 2);
    e.fail_syncs("f", 1);
    assert!(f.sync_data().is_err());
    f.sync_data().unwrap();
    assert_eq!(content(&e.power_cut(&mut |_| true), "/f")[0], 1);
    // Stored again with something else it is dirty again.
    store(&*m, 1, 3);
    f.sync_data().unwrap();
    assert_eq!(content(&e.power_cut_keeping_nothing(), "/f")[..3], [2, 3, 1]);
}

#[test]
fn bytes_behind_the_end_do_not_come_back() {
    let e = MemEnv::new();
    let f = durable(&e, "/f", &[7; 5000]);
    f.set_len(3).unwrap();
    let after = e.power_cut(&mut |u| matches!(u, Unsynced::Length { .. }));
    after.open(p("/f"), true).unwrap().write_all_at(b"x", 6).unwrap();
    assert_eq!(content(&after, "/f"), b"\x07\x07\x07\0\0\0x");
}

/// Operations on one name that are kept without those before them.
#[test]
fn names_that_lead_elsewhere_are_left_alone() {
    let e = MemEnv::new();
    durable(&e, "/a", b"1");
    e.remove(p("/a")).unwrap();
    let two = e.create(p("/a")).unwrap();
    two.write_all_at(b"2", 0).unwrap();
    two.sync_data().unwrap();
    e.rename(p("/a"), p("/b")).unwrap();
    let after = e.power_cut(&mut |u| matches!(u, Unsynced::Name { op: NameOp::Rename(..), .. }));
    assert_eq!((content(&after, "/a"), content(&after, "/b")), (b"1".to_vec(), b"2".to_vec()));
    e.remove(p("/b")).unwrap();
    let after = e.power_cut(&mut |u| !matches!(u, Unsynced::Name { op: NameOp::Rename(..), .. }));
    assert_eq!(content(&after, "/a"), b"2");
}

#[test]
fn what_a_rename_replaced_stays_until_its_directory_is_synced() {
    let e = MemEnv::new();
    e.create_dir(p("/d")).unwrap();
    durable(&e, "/old", b"old");
    durable(&e, "/new", b"new");
    e.rename(p("/new"), p("/old")).unwrap();
    e.sync_dir(p("/d")).unwrap();
    assert_eq!(content(&e.power_cut_keeping_nothing(), "/old"), b"old");
    assert_eq!(content(&e.kill().power_cut_keeping_nothing(), "/old"), b"old");
}

#[test]
fn space_is_limited_by_pages() {
    let e = MemEnv::new();
    e.set_capacity(Some(3 * PAGE as u64));
    let f = e.create(p("/f")).unwrap();
    f.set_len(10 * PAGE as u64).unwrap();
    assert_eq!(e.used_bytes(), 0);
    f.write_all_at(b"x", 5 * PAGE as u64).unwrap();
    f.write_all_at(b"y", 5 * PAGE as u64).unwrap();
    assert_eq!(e.used_bytes(), PAGE as u64);
    // The first pages of a write that does not fit are written.
    let err = f.write_all_at(&[1; 3 * PAGE], 0).unwrap_err();
    assert_eq!((err.kind(), err.raw_os_error()), (ErrorKind::StorageFull, Some(libc::ENOSPC)));
    assert_eq!(content(&e, "/f")[2 * PAGE - 1..2 * PAGE + 1], [1, 0]);
    let m = f.map(10 * PAGE).unwrap();
    m.populate(0..PAGE).unwrap();
    assert_eq!(m.populate(0..3 * PAGE).unwrap_err().kind(), ErrorKind::StorageFull);
    drop(m);
    f.set_len(PAGE as u64).unwrap();
    assert_eq!(e.used_bytes(), PAGE as u64);
    let g = e.create(p("/g")).unwrap();
    assert_eq!(g.preallocate(3 * PAGE as u64).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(e.kill().used_bytes(), 3 * PAGE as u64);
    let e = e.kill();
    e.remove(p("/g")).unwrap();
    assert_eq!(e.used_bytes(), PAGE as u64);
    e.create(p("/h")).unwrap().preallocate(2 * PAGE as u64).unwrap();
    e.rename(p("/h"), p("/f")).unwrap();
    assert_eq!(e.used_bytes(), 2 * PAGE as u64);
    e.set_capacity(None);
    e.open(p("/f"), true).unwrap().preallocate(1 << 20).unwrap();
}

#[test]
fn locks_conflict_within_the_process_too() {
    let e = MemEnv::new();
    let one = e.lock(p("/LOCK"), false, "one").unwrap();
    let two = e.clone().lock(p("/LOCK"), false, "two").unwrap();
    assert!(matches!(e.lock(p("/LOCK"), true, "w").unwrap(), LockOutcome::Busy { holder } if holder == "one; two"));
    drop(one);
    assert!(matches!(e.lock(p("/LOCK"), true, "w").unwrap(), LockOutcome::Busy { holder } if holder == "two"));
    drop(two);
    let w = e.lock(p("/LOCK"), true, "w").unwrap();
    assert!(matches!(e.lock(p("/LOCK"), false, "r").unwrap(), LockOutcome::Busy { holder } if holder == "w"));
    drop(w);
    // Where the file was removed, the directory still is; unless directories cannot be locked.
    for (lockable, lets_in) in [(true, false), (false, true)] {
        e.set_lockable_directories(lockable);
        let LockOutcome::Held(lock) = e.lock(p("/LOCK"), true, "first").unwrap() else { panic!("not taken") };
        assert_eq!(lock.guards_directory(), lockable);
        e.remove(p("/LOCK")).unwrap();
        let second = e.lock(p("/LOCK"), true, "second").unwrap();
        assert_eq!(matches!(second, LockOutcome::Held(_)), lets_in);
    }
    e.set_lockable_directories(true);
    e.set_lock_permission(false);
    assert!(matches!(e.lock(p("/LOCK"), false, "r").unwrap(), LockOutcome::NoPermission { .. }));
    e.set_lock_permission(true);
    assert_eq!(e.lock(p("/no/LOCK"), false, "r").err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn the_machine_can_be_set() {
    let e = MemEnv::new();
    drop(durable(&e, "/f", b"a"));
    assert_ne!(e.boot_id(), [0; 16]);
    assert_ne!(e.power_cut_keeping_nothing().boot_id(), e.boot_id());
    e.set_boot_id([5; 16]);
    e.set_device(77);
    e.set_inode(p("/f"), 99).unwrap();
    e.set_file_system(FsKind::Network);
    assert_eq!((e.boot_id(), e.file_system(p("/f"))), ([5; 16], FsKind::Network));
    assert_eq!(e.identity(p("/f")).unwrap(), FileIdentity { dev: 77, ino: 99 });
    assert_eq!(e.kill().identity(p("/f")).unwrap(), FileIdentity { dev: 77, ino: 99 });
    let (mut a, mut b) = ([0; 12], [0; 12]);
    e.kill().random(&mut a).unwrap();
    assert!(e.random(&mut b).is_err(), "killed");
    assert_ne!(a, [0; 12]);
}

/// A thread stores through a mapping while another syncs and power is cut: what was on the disk once is never taken back.
#[test]
fn cuts_beside_running_writers() {
    use crate::sync::{AtomicBool, Ordering::Relaxed, thread};
    let e = MemEnv::new();
    let f = durable(&e, "/f", &[0; 4 * PAGE]);
    let m = f.map(4 * PAGE).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            for round in 1..=200u8 {
                (0..4).for_each(|page| store(&*m, page * PAGE, round));
            }
            stop.store(true, Relaxed);
        });
        s.spawn(|| {
            while !stop.load(Relaxed) {
                f.sync_data().unwrap();
            }
        });
        let mut before = vec![0; 4 * PAGE];
        while !stop.load(Relaxed) {
            let now = content(&e.power_cut_keeping_nothing(), "/f");
            (0..4).for_each(|page| assert!(now[page * PAGE] >= before[page * PAGE]));
            before = now;
        }
    });
    f.sync_data().unwrap();
    let last = content(&e.power_cut_keeping_nothing(), "/f");
    assert!((0..4).all(|page| last[page * PAGE] == 200));
}
