//! Who may open what, on real files: the lock, what is in the way of an open, and a file system that is full.
//!
//! Tests with a second process start this binary again with the one ignored test that plays the part of the other.

use super::stage::{CF, close, content, inc, put};
use region::clock::Timeout;
use region::options::{Durability, FamilySpec, OpenFlags, RegionOptions, WalIo};
use region::region::{CloseFlags, Region};
use region::{ErrorKind, Result};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use Durability::{FsyncWal, SyncWal};

fn options() -> RegionOptions {
    RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        config: "wal_segment_bytes=256k,wal_bytes_max=64m".into(),
        ..RegionOptions::default()
    }
}
fn read_only() -> RegionOptions {
    RegionOptions { flags: OpenFlags { read_only: true, ..OpenFlags::default() }, families: Vec::new(), ..options() }
}
fn open(path: &Path) -> Result<Region> {
    Region::open(path, options(), None, None)
}
fn refused(path: &Path, o: RegionOptions) -> region::Error {
    Region::open(path, o, None, None).err().unwrap_or_else(|| panic!("{} was opened", path.display()))
}
fn pid() -> String {
    format!("pid {}", std::process::id())
}

/// A second process with a region open: `start` returns once it has it, or was refused.
struct Other {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Other {
    fn start(path: &Path) -> (Self, String) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::directory::the_other_process", "--ignored", "--nocapture"])
            .env("REGION_TEST_PATH", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut other = Self { said: BufReader::new(child.stdout.take().unwrap()), child };
        let outcome = other.hear();
        (other, outcome)
    }
    /// What it says next, without the test harness's own lines.
    fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "the other process has ended");
            if let Some(at) = line.find("OTHER ") {
                return line[at + 6..].trim().to_string();
            }
        }
    }
    /// It closes and ends.
    fn end(mut self) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(self.child.wait().unwrap().success());
    }
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Not a test: what [`Other`] runs. Opens, counts ten, says how it went, and closes when told to.
#[test]
#[ignore = "started by other tests, in a process of its own"]
fn the_other_process() {
    let path = PathBuf::from(std::env::var("REGION_TEST_PATH").unwrap());
    match open(&path) {
        Ok(region) => {
            for _ in 0..10 {
                inc(&region, b"r", 1, SyncWal).unwrap();
            }
            println!("OTHER opened by {}", pid());
            std::io::stdin().read_line(&mut String::new()).unwrap();
            close(&region);
        }
        Err(e) => {
            println!("OTHER {:?} {e}", e.kind());
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
    }
}

/// BUG-58: a second open, by whatever name, is refused and tells who has the region; it takes nothing from the first, and nobody else gets in until that closes.
#[test]
fn bug_58_a_second_open_is_refused_and_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    std::os::unix::fs::symlink("r", dir.path().join("link")).unwrap();
    let region = open(&path).unwrap();
    inc(&region, b"r", 1, SyncWal).unwrap();
    let names = [path.clone(), dir.path().join("link"), dir.path().join("./r/"), dir.path().join("link/../r")];
    for name in &names {
        for o in [options(), read_only()] {
            let e = refused(name, o);
            assert!(e.kind() == ErrorKind::Locked && e.message().contains(&pid()), "{e}");
        }
        let (other, said) = Other::start(name);
        assert!(said.starts_with("Locked") && said.contains(&pid()), "{said}");
        other.end();
        inc(&region, b"r", 1, FsyncWal).unwrap();
    }
    close(&region);
    let (other, said) = Other::start(&path);
    assert!(said.starts_with("opened"), "{said}");
    let e = refused(&path, options());
    assert!(e.kind() == ErrorKind::Locked && e.message().contains(said.split("by ").nth(1).unwrap()), "{e} but {said}");
    other.end();
    assert_eq!(inc(&open(&path).unwrap(), b"r", 1, SyncWal).unwrap(), 1 + names.len() as i64 + 10 + 1);
}

/// BUG-59, P-D2: the owner is killed; the next open needs no manual step and has everything.
#[test]
fn bug_59_a_dead_owner_is_no_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    for round in 1..=5 {
        let (other, said) = Other::start(&path);
        assert!(said.starts_with("opened"), "{said}");
        assert_eq!(refused(&path, options()).kind(), ErrorKind::Locked);
        other.kill();
        let region = open(&path).unwrap();
        assert_eq!(inc(&region, b"r", 1, SyncWal).unwrap(), round * 11);
        close(&region);
    }
}

/// BUG-59: two processes open in the same instant: one of them owns the region at a time, the other is told who.
#[test]
fn bug_59_one_owner_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    close(&open(&path).unwrap());
    let mut wins = 0;
    for _ in 0..8 {
        let start = || {
            std::thread::spawn({
                let path = path.clone();
                move || Other::start(&path)
            })
        };
        let racers = [start(), start()].map(|t| t.join().unwrap());
        let opened = racers.iter().filter(|(_, said)| said.starts_with("opened")).count();
        assert_eq!(opened, 1, "{:?}", racers.iter().map(|r| &r.1).collect::<Vec<_>>());
        wins += opened as i64;
        for (other, said) in racers {
            assert!(said.starts_with("opened") || said.starts_with("Locked") && said.contains("pid "), "{said}");
            other.end();
        }
    }
    assert_eq!(inc(&open(&path).unwrap(), b"r", 0, SyncWal).unwrap(), wins * 10);
}

/// BUG-57: close has let go of everything when it returns: the next open never fails, in another thread either, and no thread of the region is left.
#[test]
fn bug_57_open_after_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let ours = || {
        let names = std::fs::read_dir("/proc/self/task")
            .unwrap()
            .map(|t| std::fs::read_to_string(t.unwrap().path().join("comm")).unwrap_or_default());
        names.filter(|n| n.starts_with("region-wal")).count()
    };
    for i in 0..150 {
        let region = open(&path).unwrap_or_else(|e| panic!("open {i}: {e}"));
        put(&region, b"r", b"v", SyncWal).unwrap();
        let (done, closed) = std::sync::mpsc::channel();
        std::thread::scope(|s| {
            let path = &path;
            s.spawn(move || {
                let () = closed.recv().unwrap();
                let region = open(path).unwrap_or_else(|e| panic!("open {i} in another thread: {e}"));
                close(&region);
            });
            close(&region);
            done.send(()).unwrap();
        });
    }
    // Other tests of this binary have regions open, so only a leak of this one's 300 lives would show.
    assert!(ours() < 100, "{} threads of logs are left", ours());
}

/// BUG-61: what is in the way of an open is named for what it is, never called damage, and nothing is created, changed or removed.
#[test]
fn bug_61_what_is_in_the_way_of_an_open() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("file"), b"mine").unwrap();
    std::fs::create_dir(at("foreign")).unwrap();
    std::fs::write(at("foreign/theirs"), b"x").unwrap();
    std::fs::create_dir(at("empty")).unwrap();
    close(&open(&at("lost")).unwrap());
    std::fs::remove_file(at("lost/MANIFEST")).unwrap();
    let no_create = RegionOptions { flags: OpenFlags::default(), families: Vec::new(), ..options() };
    let strict = RegionOptions { flags: OpenFlags { create: true, error_if_exists: true, read_only: false }, ..options() };
    let long = "x".repeat(5_000);
    close(&open(&at("good")).unwrap());
    let cases: [(&str, RegionOptions, &[ErrorKind]); 9] = [
        ("file", options(), &[ErrorKind::Invalid]),
        ("foreign", options(), &[ErrorKind::Invalid]),
        ("empty", no_create.clone(), &[ErrorKind::NoRegion]),
        ("missing", no_create.clone(), &[ErrorKind::NoRegion]),
        ("missing", read_only(), &[ErrorKind::NoRegion]),
        ("no/parent", options(), &[ErrorKind::Io]),
        (&long, options(), &[ErrorKind::Io]),
        ("good", strict, &[ErrorKind::Exists]),
        // A region that has lost its manifest is damaged, indeed, and is not made anew.
        ("lost", options(), &[ErrorKind::Corrupt]),
    ];
    let tree = || {
        let mut all = std::collections::BTreeMap::new();
        for name in ["foreign", "empty", "lost", "good"] {
            for entry in std::fs::read_dir(at(name)).unwrap() {
                let path = entry.unwrap().path();
                if !path.ends_with("LOCK") {
                    all.insert(path.clone(), std::fs::read(&path).unwrap());
                }
            }
        }
        all
    };
    let before = tree();
    for (name, o, kinds) in cases {
        let e = refused(&at(name), o);
        assert!(kinds.contains(&e.kind()), "{}: {:?} {e}", &name[..name.len().min(20)], e.kind());
        assert!(tree() == before, "{name}: something has changed");
    }
    assert_eq!(std::fs::read(at("file")).unwrap(), b"mine");
    assert!(!at("missing").exists());
}

/// A small file system of its own; None where the machine does not let us mount (no root).
struct Mount(PathBuf);

impl Mount {
    fn new(at: &Path, kind: &str) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let done = match kind {
            "tmpfs" => run("mount", &["-t", "tmpfs", "-o", "size=6m", "tmpfs", at.to_str().unwrap()]),
            _ => {
                let image = at.with_extension("img");
                std::fs::File::create(&image).unwrap().set_len(12 << 20).unwrap();
                run("mkfs.ext4", &["-q", "-m", "0", image.to_str().unwrap()])
                    && run("mount", &["-o", "loop", image.to_str().unwrap(), at.to_str().unwrap()])
            }
        };
        done.then(|| Self(at.to_path_buf()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &[self.0.to_str().unwrap()]);
    }
}

fn run(program: &str, args: &[&str]) -> bool {
    let output = Command::new(program).args(args).output();
    output.is_ok_and(|o| o.status.success())
}

/// P-D3, BUG-60: the disk gets full under a region, mapped and written. Writes are refused with the right code, nothing acknowledged is lost, reads go on; a full disk
/// lets a reader in; and once space returns everything works again without a reopen.
#[test]
fn bug_60_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut tried = 0;
    for kind in ["tmpfs", "ext4"] {
        for io in [WalIo::Mapped, WalIo::Write] {
            let name = format!("{kind}-{io:?}");
            let Some(mount) = Mount::new(&dir.path().join(&name), kind) else {
                println!(
                    "{name}: cannot mount here (not root, or no loop device); a_full_disk_refuses_and_recovers does the same in memory"
                );
                continue;
            };
            tried += 1;
            full_disk(&mount.0, io, &name);
        }
    }
    println!("{tried} file systems");
}

/// P-D3: with segments of the default size, far larger than the file system: it is used nearly to the end before anybody is told that it is full.
#[test]
fn a_small_file_system_is_used_to_the_end() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, least) in [("tmpfs", 4_800), ("ext4", 7_000)] {
        for io in [WalIo::Mapped, WalIo::Write] {
            let name = format!("used-{kind}-{io:?}");
            let Some(mount) = Mount::new(&dir.path().join(&name), kind) else {
                println!("{name}: cannot mount here; wal::tests::space::a_nearly_full_disk_gets_smaller_segments does the same in memory");
                continue;
            };
            let path = mount.0.join("r");
            let o = || RegionOptions { wal_io: Some(io), write_timeout_us: 3_000_000, config: String::new(), ..options() };
            let region = Region::open(&path, o(), None, None).unwrap();
            let mut acked = 0_u32;
            let e = loop {
                match put(&region, &acked.to_be_bytes(), &[5; 1_000], SyncWal) {
                    Ok(_) => acked += 1,
                    Err(e) => break e,
                }
            };
            assert_eq!((e.kind(), e.is_retryable()), (ErrorKind::NoSpace, true), "{name}: {e}");
            assert!(acked > least, "{name}: full after {acked} rows of a kilobyte");
            println!("{name}: {acked} rows");
            close(&region);
            drop(region);
            // Full to the last block there may be no room for a new manifest (ext4 gives freed blocks back only after a while): said so, and all is there.
            let region = match Region::open(&path, o(), None, None) {
                Err(e) if e.kind() == ErrorKind::NoSpace => {
                    let flags = OpenFlags { read_only: true, ..OpenFlags::default() };
                    Region::open(&path, RegionOptions { flags, families: Vec::new(), ..o() }, None, None).unwrap()
                }
                opened => opened.unwrap(),
            };
            assert_eq!(content(&region).len() as u32, acked, "{name}");
            close(&region);
        }
    }
}

fn full_disk(root: &Path, io: WalIo, name: &str) {
    let path = root.join("r");
    let (reserve, filler) = (root.join("reserve"), root.join("filler"));
    std::fs::write(&reserve, vec![1; 2 << 20]).unwrap();
    let o = || RegionOptions { wal_io: Some(io), write_timeout_us: 3_000_000, ..options() };
    let region = Region::open(&path, o(), None, None).unwrap();
    let mut acked = 0_u32;
    let e = loop {
        match put(&region, &acked.to_be_bytes(), &[5; 1_000], SyncWal) {
            Ok(_) => acked += 1,
            Err(e) => break e,
        }
        assert!(acked < 20_000, "{name}: it never gets full");
    };
    assert_eq!((e.kind(), e.is_retryable()), (ErrorKind::NoSpace, true), "{name}: {e}");
    assert!(acked > 100);
    // Again and again: nothing is poisoned, nothing is counted, reads go on.
    for _ in 0..3 {
        let e = put(&region, b"more", &[5; 200_000], SyncWal).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NoSpace, "{name}: {e}");
    }
    assert_eq!(content(&region).len() as u32, acked, "{name}");
    assert!(region.close(CloseFlags::default(), Timeout::from_micros(5_000_000)).is_ok(), "{name}: close");
    // Closing has given back what was prepared; another file takes that.
    fill(&filler);
    let e = Region::open(&path, o(), None, None).err().unwrap_or_else(|| panic!("{name}: opened on a full disk"));
    assert_eq!(e.kind(), ErrorKind::NoSpace, "{name}: {e}");
    let look = Region::open(&path, RegionOptions { wal_io: Some(io), ..read_only() }, None, None).unwrap();
    assert_eq!(content(&look).len() as u32, acked, "{name}: read-only on a full disk");
    close(&look);
    drop(look);
    std::fs::remove_file(&filler).unwrap();
    std::fs::remove_file(&reserve).unwrap();
    let region = Region::open(&path, o(), None, None).unwrap_or_else(|e| panic!("{name}: space is there again: {e}"));
    assert_eq!(content(&region).len() as u32, acked, "{name}: after space has returned");
    // Full again while it is open, and space returns: no reopen is needed.
    fill(&filler);
    let mut more = 0_u32;
    while put(&region, &(1 << 30 | more).to_be_bytes(), &[6; 1_000], SyncWal).is_ok() {
        more += 1;
    }
    std::fs::remove_file(&filler).unwrap();
    put(&region, b"after", b"v", FsyncWal).unwrap_or_else(|e| panic!("{name}: space is there again: {e}"));
    assert_eq!(region.family_id(b"cf").unwrap().unwrap().0, CF);
    close(&region);
    drop(region);
    assert_eq!(content(&Region::open(&path, o(), None, None).unwrap()).len() as u32, acked + more + 1, "{name}");
}

/// Takes all the space there is.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    for size in [64 << 10, 4 << 10, 512] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    let _ = file.sync_all();
}
