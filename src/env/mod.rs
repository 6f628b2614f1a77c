//! The outside world: files, mappings, locks, randomness, and what the machine says about itself.
//!
//! Everything above reaches the file system through [`Env`], so that a test can put a fake in its place. No knowledge of cells, logs or formats.
//!
//! | file | what |
//! |---|---|
//! | `os.rs` | the real one; the only file with system calls. UNSAFE ROOM |
//! | `mem.rs` | for tests: remembers what was synced, can show the image after a kill or a power cut |
//! | `fault.rs` | for tests: wraps another one; fails, shortens, delays or pauses the n-th matching call |
//!
//! *Threads.* All of it may be called from any thread. Errors are `io::Error` without a path: the caller knows what it was doing and says so.
//! *Paths* are passed as they are; nothing is made absolute here.

#[expect(unsafe_code, reason = "system calls: mappings, locks, space, randomness")]
pub mod os;

#[cfg(any(test, feature = "test-hooks"))]
pub mod fault;
#[cfg(any(test, feature = "test-hooks"))]
pub mod mem;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;

/// File system, locks and machine. Small, because fakes implement it.
pub trait Env: Send + Sync {
    /// Makes one directory; its parent must exist. Durable once the parent is synced.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Is there anything at this path? An unreadable parent is an error, not "no": a region must not be created over one that cannot be seen.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Is there a directory at this path? False where there is nothing.
    fn is_dir(&self, path: &Path) -> io::Result<bool>;
    /// Length of the file in bytes.
    fn file_len(&self, path: &Path) -> io::Result<u64>;
    /// Names in the directory, sorted, without `.` and `..`.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes a new file for reading and writing; `AlreadyExists` if there is one. The name is durable once the directory is synced.
    fn create(&self, path: &Path) -> io::Result<Box<dyn EnvFile>>;
    /// Opens a file that exists.
    fn open(&self, path: &Path, writable: bool) -> io::Result<Box<dyn EnvFile>>;
    /// Renames, replacing what was at `to`. Durable once the directory is synced (both, if they differ).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives the file `from` the second name `to`.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in this directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes the lock of the file at `path`, made if it is missing, and that of its directory where directories can be locked, without waiting. `holder_text` (see [`Env::holder_text`]) is what others are told
    /// while it is held. Two locks taken in one process conflict as two processes do.
    fn lock(&self, path: &Path, exclusive: bool, holder_text: &str) -> io::Result<LockOutcome>;
    /// Which device and inode the path leads to.
    fn identity(&self, path: &Path) -> io::Result<FileIdentity>;
    /// What kind of file system the path lies on; `Other` where the system does not say.
    fn file_system(&self, path: &Path) -> FsKind;
    /// Changes with each boot of the kernel. All zero: not known, to be treated as never the same.
    fn boot_id(&self) -> [u8; 16];
    /// Fills `buf` with bytes that nobody can guess.
    fn random(&self, buf: &mut [u8]) -> io::Result<()>;
    /// One line that tells people which process this is: pid, host, start time.
    fn holder_text(&self) -> String;
}

/// An open file.
#[expect(clippy::len_without_is_empty, reason = "a question to the system, not a collection")]
pub trait EnvFile: Send + Sync {
    /// Reads at `offset`; fewer bytes than asked for are possible at any time, 0 means the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Fills `buf`; `UnexpectedEof` if the file ends before that.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut rest = buf;
        let mut at = offset;
        while !rest.is_empty() {
            match self.read_at(rest, at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    let n = n.min(rest.len());
                    rest = &mut rest[n..];
                    at += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
    /// Writes all of `buf`; short writes and interruptions are continued. On an error any part of it may have been written.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Cuts the file, or lengthens it by a hole of zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Takes disk space for the first `len` bytes, which read as zeros where nothing was written; lengthens the file to `len` if it is shorter.
    fn preallocate(&self, len: u64) -> io::Result<()>;
    /// Bytes and length are on stable storage. A failure is final: what was written since the last success may be lost, whatever a later call says.
    fn sync_data(&self) -> io::Result<()>;
    /// As `sync_data`, with all other attributes.
    fn sync_all(&self) -> io::Result<()>;
    /// Maps the first `len` bytes, shared, for reading and writing. The file must be that long and must not be cut while the mapping lives.
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>>;
}

/// A shared, writable mapping of a file; gone when dropped. A forked child does not have it.
#[expect(clippy::len_without_is_empty, reason = "never empty")]
pub trait Mapping: Send + Sync {
    /// First byte; page-aligned. Valid for [`Mapping::len`] bytes until the mapping is dropped.
    fn base(&self) -> NonNull<u8>;
    /// Length in bytes.
    fn len(&self) -> usize;
    /// Makes the pages of this range present and writable, so that a store into them cannot fault. `StorageFull`: the file system is full;
    /// `Unsupported`: the kernel cannot do it, do not use mappings.
    fn populate(&self, range: Range<usize>) -> io::Result<()>;
    /// Gives the memory of all pages back. What was stored stays in the file, and the addresses stay valid: a later access brings the page back.
    fn release(&self) -> io::Result<()>;
}

/// A lock that is held until this is dropped.
pub trait DirLock: Send + Sync {
    /// For a forked child: closes the child's copy of the descriptor without unlocking, since the lock belongs to the parent. Safe in an atfork handler.
    fn close_in_child(&self);
    /// False: only the lock file is locked, since directories cannot be there; removing or replacing it lets others in.
    fn guards_directory(&self) -> bool;
}

/// What came of [`Env::lock`].
pub enum LockOutcome {
    /// Taken.
    Held(Box<dyn DirLock>),
    /// Someone else has it.
    Busy {
        /// What the holder (or holders) wrote about themselves.
        holder: String,
    },
    /// The lock file cannot be opened or made: no right to, or a read-only file system.
    NoPermission {
        /// What the system said.
        os_errno: i32,
    },
}

/// Device and inode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
}

/// What may be done with files of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FsKind {
    /// ext4, XFS, tmpfs: mappings are safe to write through.
    Mappable,
    /// Behind a network or a user-space server (NFS, SMB, Ceph, FUSE …): another machine may write too, and a crash of the server is not ours.
    Network,
    /// Anything else, overlay included: plain reads and writes.
    Other,
}

/// Reads a whole file of at most `limit` bytes; `FileTooLarge` beyond. No more than `limit` bytes are ever allocated, whatever the file claims.
pub fn read_whole(env: &dyn Env, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let file = env.open(path, false)?;
    let len = file.len()?;
    let len = usize::try_from(len).ok().filter(|&n| n <= limit).ok_or(io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
