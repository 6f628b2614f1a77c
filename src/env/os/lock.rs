//! The lock file: who has the directory.
//!
//! The lock is an open-file-description lock (`F_OFD_SETLK`), which the kernel drops when the process ends, however it ends: a lock file that is merely there
//! means nothing, and nobody ever has to delete one. Unlike POSIX locks two openings in one process conflict, and closing another descriptor of the file frees
//! nothing. Where the kernel does not know it (before Linux 3.15, other systems) `flock` has the same rules.
//!
//! The file's text is for people: an exclusive holder writes its line over everything and empties the file before it lets go; shared holders add lines, of which
//! dead ones are left out when they are shown. Right after a lock was taken its text is not there yet, hence the short retry.
//!
//! *Invariant.* A lock that is reported as held is on the inode that the path led to after it was taken. Who removes or replaces the file must hold it exclusively.
//!
//! *Fork.* A child has the same open file description: unlocking there would unlock the parent's. So only the process that took the lock unlocks it (and does so
//! explicitly, in case a child still has the description open), any other just closes.

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

pub(super) fn lock(path: &Path, exclusive: bool, holder_text: &str) -> io::Result<LockOutcome> {
    lock_with(path, exclusive, holder_text, &mut || ())
}

/// `between` runs after each opening of the file and before its locking: where a test puts what another process does there.
pub(super) fn lock_with(path: &Path, exclusive: bool, holder_text: &str, between: &mut dyn FnMut()) -> io::Result<LockOutcome> {
    let mut name_tries = 0;
    for _ in 0..INODE_TRIES + NAME_TRIES {
        let (file, writable) = match open_lock_file(path, exclusive)? {
            Ok(opened) => opened,
            Err(os_errno) => return Ok(LockOutcome::NoPermission { os_errno }),
        };
        between();
        if !try_lock(&file, exclusive)? {
            let holder = holder_of(&file);
            name_tries += 1;
            match holder {
                Some(holder) => return Ok(LockOutcome::Busy { holder }),
                None if name_tries == NAME_TRIES => return Ok(LockOutcome::Busy { holder: "a process that left no name".into() }),
                None => wait_a_millisecond(),
            }
            continue;
        }
        // Someone may have removed or replaced the file between our open and our lock: then we hold the lock of nothing.
        match fs::metadata(path) {
            Ok(at_path) => {
                let ours = file.metadata()?;
                if (at_path.dev(), at_path.ino()) != (ours.dev(), ours.ino()) {
                    continue;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        }
        if writable {
            write_holder(&file, exclusive, holder_text);
        }
        let fd = note(file);
        return Ok(LockOutcome::Held(Box::new(OsDirLock { fd, pid: std::process::id(), exclusive })));
    }
    Err(io::Error::other("the lock file is replaced again and again"))
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
    /// Where the descriptor is noted. Swapped by whoever closes it, so that it is closed once.
    fd: &'static AtomicUsize,
    pid: u32,
    exclusive: bool,
}

const CLOSED: usize = usize::MAX;

/// Descriptors of all locks that this process holds: a forked child finds them here without taking a lock. Locks beyond so many are not found.
static HELD: [AtomicUsize; 256] = [const { AtomicUsize::new(CLOSED) }; 256];

/// For a forked child, in its atfork handler: closes its copies of all lock descriptors, without unlocking. Otherwise the child would keep its parent's
/// directories locked after the parent has died.
pub fn close_locks_in_child() {
    for place in &HELD {
        // Relaxed: the child has one thread.
        let fd = place.swap(CLOSED, Ordering::Relaxed);
        if fd != CLOSED {
            // SAFETY: the descriptor was noted by `note` and the swap gives it out once.
            drop(unsafe { File::from_raw_fd(fd as RawFd) });
        }
    }
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

impl OsDirLock {
    /// The file, for whoever comes first.
    fn take(&self) -> Option<File> {
        // Relaxed: see `note`.
        let fd = self.fd.swap(CLOSED, Ordering::Relaxed);
        if fd == CLOSED {
            return None;
        }
        // SAFETY: it came from `into_raw_fd`, and the swap gives it out once.
        Some(unsafe { File::from_raw_fd(fd as RawFd) })
    }
}

impl DirLock for OsDirLock {
    fn close_in_child(&self) {
        // Closes only: other copies of the description, and with them the lock, live on in the parent.
        drop(self.take());
    }
}

impl Drop for OsDirLock {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            // A child's copy: closed by the handler, and its place may be another lock's by now.
            return;
        }
        let Some(file) = self.take() else { return };
        if self.exclusive {
            // While the lock is still ours, so that the next holder's name is not wiped.
            let _ = file.set_len(0);
        }
        #[cfg(target_os = "linux")]
        let _ = ofd_set(file.as_raw_fd(), libc::F_UNLCK as libc::c_short);
        let _ = file.unlock();
    }
}
