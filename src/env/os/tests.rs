//! Against the real thing: a directory on the disk, and one in `/dev/shm` where there is one.

use super::lock::is_dead;
use super::system;
use super::*;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn dirs() -> Vec<TempDir> {
    let mut dirs = vec![tempfile::tempdir().unwrap()];
    if Path::new("/dev/shm").is_dir() {
        dirs.push(tempfile::tempdir_in("/dev/shm").unwrap());
    }
    dirs
}

fn held(outcome: LockOutcome) -> Box<dyn super::super::DirLock> {
    match outcome {
        LockOutcome::Held(l) => l,
        LockOutcome::Busy { holder } => panic!("busy: {holder}"),
        LockOutcome::NoPermission { .. } => panic!("no permission"),
    }
}

fn busy(outcome: LockOutcome) -> String {
    match outcome {
        LockOutcome::Busy { holder } => holder,
        LockOutcome::Held(_) => panic!("taken"),
        LockOutcome::NoPermission { .. } => panic!("no permission"),
    }
}

#[expect(clippy::mut_from_ref, reason = "the mapping is not what is borrowed from, the file is")]
fn bytes_of(m: &dyn Mapping) -> &mut [u8] {
    // SAFETY: the tests use one mapping from one thread and never hold two slices of it.
    unsafe { std::slice::from_raw_parts_mut(m.base().as_ptr(), m.len()) }
}

#[test]
fn files_and_names() {
    for dir in dirs() {
        let (d, e) = (dir.path(), OsEnv);
        let sub = d.join("sub");
        assert!(!e.exists(&sub).unwrap() && !e.is_dir(&sub).unwrap());
        e.create_dir(&sub).unwrap();
        assert!(e.is_dir(&sub).unwrap());
        assert_eq!(e.create_dir(&sub).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(e.create_dir(&d.join("no/deeper")).unwrap_err().kind(), ErrorKind::NotFound);

        let a = sub.join("a");
        let f = e.create(&a).unwrap();
        assert_eq!(e.create(&a).err().unwrap().kind(), ErrorKind::AlreadyExists);
        f.write_all_at(b"hello", 3).unwrap();
        assert_eq!((f.len().unwrap(), e.file_len(&a).unwrap()), (8, 8));
        f.sync_data().unwrap();
        f.sync_all().unwrap();
        let mut buf = [9; 10];
        assert_eq!(f.read_at(&mut buf, 0).unwrap(), 8);
        assert_eq!(&buf[..8], b"\0\0\0hello");
        assert_eq!(f.read_exact_at(&mut buf, 0).unwrap_err().kind(), ErrorKind::UnexpectedEof);

        let (b, c) = (sub.join("b"), sub.join("c"));
        e.hard_link(&a, &c).unwrap();
        assert_eq!(e.identity(&a).unwrap(), e.identity(&c).unwrap());
        e.rename(&a, &b).unwrap();
        e.sync_dir(&sub).unwrap();
        assert_eq!(e.list(&sub).unwrap(), ["b", "c"]);
        assert!(e.is_dir(&b).is_ok_and(|is| !is));
        let r = e.open(&b, false).unwrap();
        assert!(r.write_all_at(b"x", 0).is_err());
        r.read_exact_at(&mut buf[..5], 3).unwrap();
        assert_eq!(&buf[..5], b"hello");
        f.set_len(4).unwrap();
        assert_eq!(read_len(&*r), 4);

        assert_eq!(e.remove_dir(&sub).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        e.remove(&b).unwrap();
        e.remove(&c).unwrap();
        e.remove_dir(&sub).unwrap();
        assert_eq!(e.open(&b, true).err().unwrap().kind(), ErrorKind::NotFound);
        assert_eq!(super::super::read_whole(&e, &b, 10).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

fn read_len(f: &dyn EnvFile) -> u64 {
    f.len().unwrap()
}

#[test]
fn read_whole_allocates_no_more_than_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let p = dir.path().join("f");
    OsEnv.create(&p).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(super::super::read_whole(&OsEnv, &p, 1 << 20).unwrap_err().kind(), ErrorKind::FileTooLarge);
    OsEnv.open(&p, true).unwrap().set_len(3).unwrap();
    assert_eq!(super::super::read_whole(&OsEnv, &p, 3).unwrap(), [0; 3]);
}

#[test]
fn space_is_taken_ahead() {
    for dir in dirs() {
        let p = dir.path().join("f");
        let f = OsEnv.create(&p).unwrap();
        f.write_all_at(b"keep", 0).unwrap();
        f.preallocate(100_000).unwrap();
        assert_eq!(f.len().unwrap(), 100_000);
        assert!(fs::metadata(&p).unwrap().blocks() * 512 >= 100_000);
        let mut buf = [1; 8];
        f.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"keep\0\0\0\0");
        // Never shorter.
        f.preallocate(10).unwrap();
        assert_eq!(f.len().unwrap(), 100_000);
        assert!(f.preallocate(u64::MAX).is_err());
    }
}

#[test]
fn a_mapping_is_the_file() {
    for dir in dirs() {
        let p = dir.path().join("f");
        let f = OsEnv.create(&p).unwrap();
        assert_eq!(f.map(4096).err().unwrap().kind(), ErrorKind::InvalidInput);
        f.preallocate(3 * 4096).unwrap();
        assert_eq!(f.map(0).err().unwrap().kind(), ErrorKind::InvalidInput);
        let m = f.map(3 * 4096).unwrap();
        assert_eq!((m.len(), m.base().as_ptr() as usize % 4096), (3 * 4096, 0));
        m.populate(0..m.len()).unwrap();
        m.populate(5000..5001).unwrap();
        m.populate(7..7).unwrap();
        assert_eq!(m.populate(0..m.len() + 1).unwrap_err().kind(), ErrorKind::InvalidInput);
        bytes_of(&*m)[5000..5003].copy_from_slice(b"abc");
        let mut buf = [0; 3];
        f.read_exact_at(&mut buf, 5000).unwrap();
        assert_eq!(&buf, b"abc");
        f.write_all_at(b"xyz", 8000).unwrap();
        assert_eq!(&bytes_of(&*m)[8000..8003], b"xyz");
        // The mapping outlives the handle.
        drop(f);
        bytes_of(&*m)[0] = 7;
        m.populate(0..4096).unwrap();
        drop(m);
        assert_eq!(fs::read(&p).unwrap()[0], 7);
    }
}

#[test]
fn a_populated_page_beyond_the_end_is_an_error_and_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let f = OsEnv.create(&dir.path().join("f")).unwrap();
    f.set_len(2 * 4096).unwrap();
    let m = f.map(2 * 4096).unwrap();
    // Cutting it is against the rules of `map`; populating brings the space and the pages back.
    f.set_len(4096).unwrap();
    m.populate(0..2 * 4096).unwrap();
    assert_eq!(f.len().unwrap(), 2 * 4096);
}

/// Needs the right to mount: `cargo test -- --ignored full_file_system`.
#[test]
#[ignore = "mounts a small tmpfs, needs root"]
fn a_full_file_system_is_storage_full_and_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let mount = |cmd: &str, args: &[&str]| assert!(Command::new(cmd).args(args).arg(dir.path()).status().unwrap().success());
    mount("mount", &["-t", "tmpfs", "-o", "size=64k", "tmpfs"]);
    struct Umount(PathBuf);
    impl Drop for Umount {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let _umount = Umount(dir.path().to_path_buf());
    let f = OsEnv.create(&dir.path().join("f")).unwrap();
    assert_eq!(f.preallocate(1 << 20).unwrap_err().kind(), ErrorKind::StorageFull);
    f.set_len(1 << 20).unwrap();
    let m = f.map(1 << 20).unwrap();
    m.populate(0..16 << 10).unwrap();
    let e = m.populate(0..1 << 20).unwrap_err();
    assert_eq!((e.kind(), e.raw_os_error()), (ErrorKind::StorageFull, Some(libc::ENOSPC)));
    assert_eq!(OsEnv.file_system(dir.path()), FsKind::Mappable);
}

/// BUG-58: the same region twice in one process, also by another path.
#[test]
fn a_second_lock_in_one_process_is_busy() {
    for dir in dirs() {
        let (p, e) = (dir.path().join("LOCK"), OsEnv);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        let me = e.holder_text();
        let first = held(e.lock(&p, true, &me).unwrap());
        assert_eq!(busy(e.lock(&p, true, "other").unwrap()), me);
        assert_eq!(busy(e.lock(&link.join("LOCK"), false, "other").unwrap()), me);
        assert!(me.starts_with(&format!("pid {} on host ", std::process::id())), "{me}");
        // Opening and closing another descriptor frees nothing (a POSIX lock would be gone).
        drop(File::open(&p).unwrap());
        assert_eq!(busy(e.lock(&p, true, "other").unwrap()), me);
        drop(first);
        assert_eq!(fs::read(&p).unwrap(), b"");
        drop(held(e.lock(&p, true, &me).unwrap()));
    }
}

#[test]
fn shared_locks_share() {
    for dir in dirs() {
        let (p, e) = (dir.path().join("LOCK"), OsEnv);
        let me = e.holder_text();
        let one = held(e.lock(&p, false, &me).unwrap());
        let two = held(e.lock(&p, false, &format!("{me}, again")).unwrap());
        assert_eq!(busy(e.lock(&p, true, "writer").unwrap()), format!("{me}; {me}, again"));
        drop(one);
        busy(e.lock(&p, true, "writer").unwrap());
        drop(two);
        let writer = held(e.lock(&p, true, &me).unwrap());
        busy(e.lock(&p, false, "reader").unwrap());
        drop(writer);
        // Shared holders never make the text grow without bound.
        for _ in 0..200 {
            drop(held(e.lock(&p, false, &me).unwrap()));
        }
        assert!(fs::metadata(&p).unwrap().len() <= 4096);
        drop(held(e.lock(&p, true, &me).unwrap()));
    }
}

/// BUG-59, and cleaners and backup tools: without the file that it has locked, a holder still has the directory.
#[test]
fn bug_59_a_removed_or_replaced_lock_file_lets_nobody_in() {
    for dir in dirs() {
        let (p, e) = (dir.path().join("LOCK"), OsEnv);
        for exclusive in [true, false] {
            let first = held(e.lock(&p, exclusive, &e.holder_text()).unwrap());
            assert!(first.guards_directory());
            let refused = |exclusive| {
                let holder = busy(e.lock(&p, exclusive, "other").unwrap());
                let me = format!("pid {} on host {}", std::process::id(), system::host_name());
                assert!(holder.starts_with(&me) && holder.contains("LOCK file was removed or replaced"), "{holder}");
            };
            fs::remove_file(&p).unwrap();
            refused(true);
            // As a backup tool puts things back: a copy under the old name.
            fs::write(dir.path().join("copy"), e.holder_text()).unwrap();
            fs::rename(dir.path().join("copy"), &p).unwrap();
            refused(true);
            if exclusive {
                refused(false);
            } else {
                // Readers share the directory, too.
                drop(held(e.lock(&p, false, "reader").unwrap()));
            }
            drop(first);
            drop(held(e.lock(&p, true, &e.holder_text()).unwrap()));
        }
    }
}

#[test]
fn a_lock_without_the_right_to_the_file() {
    let dir = tempfile::tempdir().unwrap();
    // A directory in the way is no matter of permission.
    fs::create_dir(dir.path().join("LOCK")).unwrap();
    assert!(OsEnv.lock(&dir.path().join("LOCK"), true, "x").is_err());
    assert_eq!(OsEnv.lock(&dir.path().join("gone/LOCK"), true, "x").err().unwrap().kind(), ErrorKind::NotFound);
    // Where root asks, every permission is there but in places like this.
    let p = Path::new("/proc/self/LOCK");
    assert!(matches!(OsEnv.lock(p, true, "x"), Ok(LockOutcome::NoPermission { os_errno: libc::EACCES | libc::EROFS }) | Err(_)));
}

/// The file is removed (`region_destroy`) or replaced between another opener's open and lock: nobody may end up with the lock of a file that is not there.
#[test]
fn a_held_lock_is_always_on_the_file_at_the_path() {
    let dir = tempfile::tempdir().unwrap();
    let p = dir.path().join("LOCK");
    // Its owner removes it.
    let mut owner = Some(held(OsEnv.lock(&p, true, "owner").unwrap()));
    let lock = held(
        super::lock::lock_with(&p, true, "me", &mut || {
            if let Some(owner) = owner.take() {
                fs::remove_file(&p).unwrap();
                drop(owner);
            }
        })
        .unwrap(),
    );
    busy(OsEnv.lock(&p, true, "other").unwrap());
    drop(lock);
    // Someone removes it, makes a new one and holds that.
    let mut other = None;
    let outcome = super::lock::lock_with(&p, true, "me", &mut || {
        if other.is_none() {
            fs::remove_file(&p).unwrap();
            other = Some(held(OsEnv.lock(&p, true, &OsEnv.holder_text()).unwrap()));
        }
    });
    assert_eq!(busy(outcome.unwrap()), OsEnv.holder_text());
    // Replaced every time: an end with an error, not a hang.
    drop(other);
    assert!(super::lock::lock_with(&p, true, "me", &mut || fs::remove_file(&p).unwrap()).is_err());
}

#[test]
fn lines_of_dead_holders_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let p = dir.path().join("LOCK");
    let dead = format!("pid 2147483647 on host {}, started 2020-01-01T00:00:00Z\n", system::host_name());
    fs::write(&p, &dead).unwrap();
    let reader = held(OsEnv.lock(&p, false, &OsEnv.holder_text()).unwrap());
    assert_eq!(busy(OsEnv.lock(&p, true, "x").unwrap()), OsEnv.holder_text());
    // A holder that has not written who it is yet: the dead one's line is not taken for its.
    fs::write(&p, &dead).unwrap();
    assert_eq!(busy(OsEnv.lock(&p, true, "x").unwrap()), "a process that left no name");
    drop(reader);
    // Nor is half a line shown.
    let _writer = held(OsEnv.lock(&p, true, "first\nsecond").unwrap());
    assert_eq!(fs::read(&p).unwrap(), b"first second\n");
    fs::write(&p, "pid 1 on ho").unwrap();
    assert_eq!(busy(OsEnv.lock(&p, true, "x").unwrap()), "a process that left no name");
}

/// The other process of the tests below: this test binary again, told by the environment what to do.
#[test]
fn other_process() {
    let Some(path) = std::env::var_os("REGION_TEST_LOCK") else { return };
    let _lock = held(OsEnv.lock(Path::new(&path), true, &OsEnv.holder_text()).unwrap());
    println!("locked");
    // Until killed; the pipe's end is there in case the parent dies first.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// BUG-59: after kill -9 the lock is free with no manual step, and while it was held others were told by whom.
#[test]
fn a_killed_process_holds_nothing() {
    use std::io::{BufRead, BufReader};
    let dir = tempfile::tempdir().unwrap();
    let p = dir.path().join("LOCK");
    for _ in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["env::os::tests::other_process", "--exact", "--nocapture", "--test-threads=1"])
            .env("REGION_TEST_LOCK", &p)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        assert!(out.lines().any(|l| l.unwrap().contains("locked")));
        let holder = busy(OsEnv.lock(&p, true, "x").unwrap());
        assert!(holder.starts_with(&format!("pid {} on host {}, started 20", child.id(), system::host_name())), "{holder}");
        child.kill().unwrap();
        child.wait().unwrap();
        // Its line is still there; the next holder's replaces it.
        assert!(fs::metadata(&p).unwrap().len() > 0);
        let lock = held(OsEnv.lock(&p, true, &OsEnv.holder_text()).unwrap());
        assert_eq!(busy(OsEnv.lock(&p, true, "x").unwrap()), OsEnv.holder_text());
        drop(lock);
    }
}

/// Runs `f` in a forked child (which must not allocate much: other threads may have held locks) and gives its exit code.
#[cfg(target_os = "linux")]
fn in_child(f: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `f` and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        f();
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: our own child, and a number of ours.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}

/// Else a child that outlives its killed parent would keep the directory locked.
#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_finds_and_closes_the_locks_of_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let p = dir.path().join("LOCK");
    let lock = held(OsEnv.lock(&p, true, "parent").unwrap());
    let is_open = || {
        let fds = std::fs::read_dir("/proc/self/fd").unwrap();
        fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok()).filter(|target| *target == p || target == dir.path()).count()
    };
    let status = in_child(|| {
        let before = is_open();
        super::close_locks_in_child();
        if before != 2 || is_open() != 0 {
            // SAFETY: ends the child at once, with a status that the parent sees.
            unsafe { libc::_exit(7) };
        }
    });
    assert_eq!(status, 0);
    busy(OsEnv.lock(&p, true, "x").unwrap());
    drop(lock);
    drop(held(OsEnv.lock(&p, true, "x").unwrap()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_neither_unlocks_nor_holds() {
    let dir = tempfile::tempdir().unwrap();
    let p = dir.path().join("LOCK");
    let lock = held(OsEnv.lock(&p, true, "parent").unwrap());
    // Dropping it in the child, or closing it as the atfork hook does, leaves the parent's lock alone.
    let mut copy = Some(lock);
    // SAFETY: the child takes its copy of the value; the parent's stays in `copy`.
    let status = in_child(|| drop(copy.take()));
    assert_eq!(status, 0);
    busy(OsEnv.lock(&p, true, "x").unwrap());
    let lock = copy.take().unwrap();
    assert_eq!(in_child(|| lock.close_in_child()), 0);
    busy(OsEnv.lock(&p, true, "x").unwrap());
    // Nor does it let go of the directory.
    fs::remove_file(&p).unwrap();
    assert!(busy(OsEnv.lock(&p, true, "x").unwrap()).contains("removed or replaced"));

    // A child that still has the descriptor open does not keep the lock: the parent unlocks explicitly.
    // SAFETY: the child only sleeps until it is killed.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        loop {
            // SAFETY: no memory involved.
            unsafe { libc::pause() };
        }
    }
    drop(lock);
    let after = OsEnv.lock(&p, true, "x").unwrap();
    // SAFETY: our own child.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    // SAFETY: our own child; no status wanted.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    drop(held(after));
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_has_no_mapping() {
    let dir = tempfile::tempdir().unwrap();
    let f = OsEnv.create(&dir.path().join("f")).unwrap();
    f.preallocate(4096).unwrap();
    let mut m = Some(f.map(4096).unwrap());
    m.as_ref().unwrap().populate(0..4096).unwrap();
    let base = m.as_ref().unwrap().base().as_ptr();
    let status = in_child(|| {
        // SAFETY: the point of the test: this faults.
        unsafe { base.write_volatile(1) };
    });
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:x}");
    // Dropping it there unmaps nothing that may lie at the address by now.
    assert_eq!(in_child(|| drop(m.take())), 0);
    bytes_of(&**m.as_ref().unwrap())[0] = 1;
}

#[test]
fn dead_holders_are_told_from_living_ones() {
    let me = format!("pid {} on host here, started 2026-01-01T00:00:00Z", std::process::id());
    assert!(!is_dead(&me, "here"));
    // No pid is that large, but on another host we cannot know.
    assert!(is_dead("pid 2147483647 on host here, started x", "here"));
    assert!(is_dead("pid 2147483647 on host here", "here"));
    assert!(!is_dead("pid 2147483647 on host there, started x", "here"));
    for odd in ["", "pid", "pid x on host here", "pid 0 on host here", "pid -1 on host here", "pid 99999999999 on host here", "anything"] {
        assert!(!is_dead(odd, "here"), "{odd}");
    }
}

#[test]
fn the_machine() {
    assert_eq!(OsEnv.boot_id(), OsEnv.boot_id());
    if cfg!(target_os = "linux") {
        assert_ne!(OsEnv.boot_id(), [0; 16]);
    }
    let (mut a, mut b) = ([0; 300], [0; 300]);
    OsEnv.random(&mut a).unwrap();
    OsEnv.random(&mut b).unwrap();
    assert_ne!(a, b);
    assert!(a.iter().filter(|&&x| x == 0).count() < 20);
    OsEnv.random(&mut []).unwrap();
    assert_eq!(system::parse_uuid("00112233-4455-6677-8899-aabbccddeeff\n").unwrap()[..4], [0, 0x11, 0x22, 0x33]);
    for bad in ["", "0011", "00112233-4455-6677-8899-aabbccddeefg", "00112233-4455-6677-8899-aabbccddeeff00"] {
        assert_eq!(system::parse_uuid(bad), None);
    }
    assert_eq!(system::utc(0), "1970-01-01T00:00:00Z");
    assert_eq!(system::utc(951_827_696), "2000-02-29T12:34:56Z");
    assert_eq!(system::utc(4_107_542_399), "2100-02-28T23:59:59Z");
}

#[cfg(target_os = "linux")]
#[test]
fn kinds_of_file_systems() {
    assert_eq!(OsEnv.file_system(Path::new("/proc")), FsKind::Other);
    assert_eq!(OsEnv.file_system(Path::new("/no/such/path")), FsKind::Other);
    for (magic, kind) in [
        (0xEF53, FsKind::Mappable),
        (0x5846_5342, FsKind::Mappable),
        (0x0102_1994, FsKind::Mappable),
        (0x6969, FsKind::Network),
        (0xFF53_4D42, FsKind::Network),
        (0x6573_5546, FsKind::Network),
        (0x0102_1997, FsKind::Network),
        (0x794C_7630, FsKind::Other), // overlay
        (0x9123_683E, FsKind::Other), // btrfs
        (0x8584_58F6, FsKind::Other), // ramfs
    ] {
        assert_eq!(system::kind_of_magic(magic), kind, "{magic:x}");
    }
    if Path::new("/dev/shm").is_dir() {
        assert_eq!(OsEnv.file_system(Path::new("/dev/shm")), FsKind::Mappable);
    }
}
