//! The lock file: who has the directory.
//!
//! The lock is an open-file-description lock (`F_OFD_SETLK`), which the kernel drops when the process ends, however it ends: a lock file that is merely there
//! means nothing, and nobody ever has to delete one. Unlike POSIX locks two openings in one process conflict, and closing another descriptor of the file frees
//! nothing. Where the kernel does not know it (before Linux 3.15, other systems) `flock` has the same rules.
//!
//! The file's text is for people: an exclusive holder writes its line over everything and empties the file before it lets go; shared holders add lines, of which
//! dead ones are left out when they are shown. Right after a lock was taken its text is not there yet, hence the short retry.
//!
//! *Second guard.* A cleaner may remove the file of an open region, a backup tool may replace it, and then its lock is on a file that nobody finds any more. So
//! the directory itself is locked as well (`flock` on its descriptor, shared or exclusive as the file), always after the file and until before it: who has the
//! file finds the directory free, unless the file is not the one that its holder has locked. Where directories cannot be locked (NFS and other network file
//! systems, some user-space ones) the file is all there is, and [`DirLock::guards_directory`] says so. Readers without a right to the file lock the directory.
//!
//! *Invariant.* A lock that is reported as held is on the inode that the path led to after both were taken. Who removes or replaces the file must hold it
//! exclusively.
//!
//! *Fork.* A child has the same open file descriptions: unlocking there would unlock the parent's. So only the process that took the locks unlocks them (and does
//! so explicitly, in case a child still has the descriptions open), any other just closes.

use super::super::{DirLock, LockOutcome};
use super::system;
// Of std also under loom: the table of held descriptors is a static, and no business of the models.
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often the lock is asked for again while its holder has not written who it is, 1 ms apart.
const NAME_TRIES: usize = 50;
/// How often the file is opened again because the locked one was replaced meanwhile.
const INODE_TRIES: usize = 1_000;
/// The text is never read or grown beyond this.
const TEXT_BYTES_MAX: usize = 4_096;

const NO_NAME: &str = "a process that left no name";

pub(super) fn lock(path: &Path, exclusive: bool, holder_text: &str) -> io::Result<LockOutcome> {
    lock_with(path, exclusive, holder_text, &mut || ())
}

/// `between` runs after each opening of the file and before its locking: where a test puts what another process does there.
pub(super) fn lock_with(path: &Path, exclusive: bool, holder_text: &str, between: &mut dyn FnMut()) -> io::Result<LockOutcome> {
    let mut name_tries = 0;
    for _ in 0..INODE_TRIES + NAME_TRIES {
        let (file, writable) = match open_lock_file(path, exclusive)? {
            Ok(opened) => opened,
            Err(os_errno) if exclusive => return Ok(LockOutcome::NoPermission { os_errno }),
            Err(os_errno) => return Ok(lock_directory_only(path, os_errno)),
        };
        between();
        if !try_lock(&file, exclusive)? {
            let holder = holder_of(&file);
            name_tries += 1;
            match holder {
                Some(holder) => return Ok(LockOutcome::Busy { holder }),
                None if name_tries == NAME_TRIES => return Ok(LockOutcome::Busy { holder: NO_NAME.into() }),
                None => wait_a_millisecond(),
            }
            continue;
        }
        // Someone may have removed or replaced the file between our open and our lock: then we hold the lock of nothing.
        if !is_at(path, &file)? {
            continue;
        }
        let directory = match lock_directory(path, exclusive) {
            Directory::Locked(dir) => Some(dir),
            Directory::Unlockable => None,
            Directory::Busy { holder } => {
                // Or the holder is a reader without a right to the file.
                let holder = holder.or_else(|| holder_of(&file)).unwrap_or_else(|| NO_NAME.into());
                return Ok(LockOutcome::Busy {
                    holder: format!("{holder} (it has locked the directory; its LOCK file was removed or replaced)"),
                });
            }
        };
        // And again: between our first look and the directory's lock.
        if !is_at(path, &file)? {
            continue;
        }
        if writable {
            write_holder(&file, exclusive, holder_text);
        }
        let lock = OsDirLock { file: Some(note(file)), directory: directory.map(note), pid: std::process::id(), exclusive };
        return Ok(LockOutcome::Held(Box::new(lock)));
    }
    Err(io::Error::other("the lock file is replaced again and again"))
}

/// Does the path lead to this file?
fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(at_path) => {
            let ours = file.metadata()?;
            Ok((at_path.dev(), at_path.ino()) == (ours.dev(), ours.ino()))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// A number of the system's: there is no right to. A shared lock is content with a file that can only be read.
fn open_lock_file(path: &Path, exclusive: bool) -> io::Result<Result<(File, bool), i32>> {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    // Append: two shared holders that write at once do not overwrite each other.
    match OpenOptions::new().read(true).append(true).create(true).open(path) {
        Ok(file) => return Ok(Ok((file, true))),
        Err(e) if matches!(e.kind(), PermissionDenied | ReadOnlyFilesystem) && exclusive => return Ok(Err(e.raw_os_error().unwrap_or(0))),
        Err(e) if matches!(e.kind(), PermissionDenied | ReadOnlyFilesystem) => {}
        Err(e) => return Err(e),
    }
    match File::open(path) {
        Ok(file) => Ok(Ok((file, false))),
        Err(e) if matches!(e.kind(), PermissionDenied | NotFound) => Ok(Err(e.raw_os_error().unwrap_or(0))),
        Err(e) => Err(e),
    }
}

/// What came of locking the directory.
enum Directory {
    Locked(File),
    /// Not here: no right to read it, or a file system whose directories cannot be locked.
    Unlockable,
    Busy {
        holder: Option<String>,
    },
}

fn lock_directory(lock_file: &Path, exclusive: bool) -> Directory {
    let dir = match lock_file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let Ok(dir) = File::open(dir) else { return Directory::Unlockable };
    match try_flock(&dir, exclusive) {
        Ok(true) => Directory::Locked(dir),
        Ok(false) => Directory::Busy { holder: holders_by_kernel(&dir) },
        Err(e) => {
            log::debug!(target: "region", "the directory of {} cannot be locked, only the file: {e}", lock_file.display());
            Directory::Unlockable
        }
    }
}

/// A reader that may not open the file.
fn lock_directory_only(lock_file: &Path, os_errno: i32) -> LockOutcome {
    match lock_directory(lock_file, false) {
        Directory::Unlockable => LockOutcome::NoPermission { os_errno },
        Directory::Busy { holder } => LockOutcome::Busy { holder: holder.unwrap_or_else(|| NO_NAME.into()) },
        Directory::Locked(dir) => {
            let lock = OsDirLock { file: None, directory: Some(note(dir)), pid: std::process::id(), exclusive: false };
            LockOutcome::Held(Box::new(lock))
        }
    }
}

/// Who has locked this directory, as the kernel lists it: its own name for itself went with its lock file. None where the kernel shows nothing.
#[cfg(target_os = "linux")]
fn holders_by_kernel(dir: &File) -> Option<String> {
    let m = dir.metadata().ok()?;
    let listed = fs::read_to_string("/proc/locks").ok()?;
    // "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF": process, device (in hexadecimal) and inode.
    let place = format!("{:02x}:{:02x}:{}", libc::major(m.dev()), libc::minor(m.dev()), m.ino());
    let mut holders = Vec::new();
    for line in listed.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if let [_, "FLOCK", _, _, pid, at, ..] = words[..]
            && at == place
        {
            holders.push(format!("pid {pid} on host {}", system::host_name()));
        }
    }
    holders.dedup();
    (!holders.is_empty()).then(|| holders.join("; "))
}

#[cfg(not(target_os = "linux"))]
fn holders_by_kernel(_: &File) -> Option<String> {
    None
}

#[cfg(target_os = "linux")]
fn try_lock(file: &File, exclusive: bool) -> io::Result<bool> {
    let kind = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
    match ofd_set(file.as_raw_fd(), kind as libc::c_short) {
        Ok(()) => Ok(true),
        Err(e) => match e.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            Some(libc::EINVAL) => try_flock(file, exclusive),
            _ => Err(e),
        },
    }
}

#[cfg(not(target_os = "linux"))]
fn try_lock(file: &File, exclusive: bool) -> io::Result<bool> {
    try_flock(file, exclusive)
}

fn try_flock(file: &File, exclusive: bool) -> io::Result<bool> {
    let outcome = if exclusive { file.try_lock() } else { file.try_lock_shared() };
    match outcome {
        Ok(()) => Ok(true),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        Err(fs::TryLockError::Error(e)) => Err(e),
    }
}

/// Sets or frees (F_UNLCK) the lock over the whole file.
#[cfg(target_os = "linux")]
fn ofd_set(fd: RawFd, kind: libc::c_short) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `flock`: start 0, length 0 = to the end, however long it grows; pid 0 as OFD locks demand.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the call reads the one struct, which outlives it.
    let rc = unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &range) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Failing to write it is no reason not to have the lock (a full disk, say): the text only helps people.
fn write_holder(file: &File, exclusive: bool, holder_text: &str) {
    let mut line: String = holder_text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(256).collect();
    line.push('\n');
    let written = if exclusive {
        file.set_len(0).and_then(|()| file.write_all_at(line.as_bytes(), 0))
    } else {
        match file.metadata() {
            Ok(m) if m.len() as usize + line.len() <= TEXT_BYTES_MAX => file.write_all_at(line.as_bytes(), 0),
            Ok(_) => Ok(()),
            Err(e) => Err(e),
        }
    };
    if let Err(e) = written {
        log::warn!(target: "region", "cannot write the holder's name into the lock file: {e}");
    }
}

/// The lines of holders that may be alive; None if there is none yet.
fn holder_of(file: &File) -> Option<String> {
    let mut buf = [0u8; TEXT_BYTES_MAX];
    let n = file.read_at(&mut buf, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(buf.get(..n).unwrap_or_default());
    // Only whole lines: the last one may be being written.
    let (whole, _) = text.rsplit_once('\n')?;
    let host = system::host_name();
    let alive: Vec<&str> = whole.lines().filter(|l| !l.is_empty() && !is_dead(l, &host)).collect();
    (!alive.is_empty()).then(|| alive.join("; "))
}

/// True if the line names a process of this host that does not exist.
pub(super) fn is_dead(line: &str, this_host: &str) -> bool {
    let parse = || {
        let (pid, rest) = line.strip_prefix("pid ")?.split_once(" on host ")?;
        let host = rest.split([',', ' ']).next()?;
        Some((pid.parse::<libc::pid_t>().ok().filter(|&p| p > 0)?, host))
    };
    let Some((pid, host)) = parse() else { return false };
    if host != this_host {
        return false;
    }
    // SAFETY: signal 0 is not sent, only asked about.
    let rc = unsafe { libc::kill(pid, 0) };
    rc != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

fn wait_a_millisecond() {
    // A plain sleep that is no business of the thread model's.
    // SAFETY: no descriptors, so the pointer is not looked at.
    unsafe { libc::poll(std::ptr::null_mut(), 0, 1) };
}

struct OsDirLock {
    /// Where the descriptors are noted. Swapped by whoever closes them, so that each is closed once. None: a reader without a right to the file.
    file: Option<&'static AtomicUsize>,
    /// None: directories cannot be locked there.
    directory: Option<&'static AtomicUsize>,
    pid: u32,
    exclusive: bool,
}

const CLOSED: usize = usize::MAX;

/// Descriptors of all locks that this process holds, two for each: a forked child finds them here without taking a lock. Those beyond so many are not found.
static HELD: [AtomicUsize; 512] = [const { AtomicUsize::new(CLOSED) }; 512];

/// For a forked child, in its atfork handler: closes its copies of all lock descriptors, without unlocking. Otherwise the child would keep its parent's
/// directories locked after the parent has died.
pub fn close_locks_in_child() {
    HELD.iter().for_each(|place| drop(take(place)));
}

/// Notes a descriptor where a child will find it.
fn note(file: File) -> &'static AtomicUsize {
    let fd = file.into_raw_fd() as usize;
    // Relaxed: a number of the kernel's, no memory is published with it.
    let free = |place: &&AtomicUsize| place.compare_exchange(CLOSED, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    match HELD.iter().find(free) {
        Some(place) => place,
        None => Box::leak(Box::new(AtomicUsize::new(fd))),
    }
}

/// The file, for whoever comes first.
fn take(place: &AtomicUsize) -> Option<File> {
    // Relaxed: see `note`; a forked child has one thread.
    let fd = place.swap(CLOSED, Ordering::Relaxed);
    if fd == CLOSED {
        return None;
    }
    // SAFETY: it came from `into_raw_fd` in `note`, and the swap gives it out once.
    Some(unsafe { File::from_raw_fd(fd as RawFd) })
}

impl DirLock for OsDirLock {
    fn close_in_child(&self) {
        // Closes only: other copies of the descriptions, and with them the locks, live on in the parent.
        drop(self.directory.and_then(take));
        drop(self.file.and_then(take));
    }
    fn guards_directory(&self) -> bool {
        self.directory.is_some()
    }
}

impl Drop for OsDirLock {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            // A child's copies: closed by the handler, and their places may be another lock's by now.
            return;
        }
        // The directory first: who then gets the file must find it free.
        if let Some(directory) = self.directory.and_then(take) {
            let _ = directory.unlock();
        }
        let Some(file) = self.file.and_then(take) else { return };
        if self.exclusive {
            // While the lock is still ours, so that the next holder's name is not wiped.
            let _ = file.set_len(0);
        }
        #[cfg(target_os = "linux")]
        let _ = ofd_set(file.as_raw_fd(), libc::F_UNLCK as libc::c_short);
        let _ = file.unlock();
    }
}
