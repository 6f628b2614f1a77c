//! The real file system. The only file (with its parts) that makes file-system calls. UNSAFE ROOM.
//!
//! | part | what |
//! |---|---|
//! | `os.rs` | names, files, syncs: std where std has the call |
//! | `mapping.rs` | shared mappings, populated ahead |
//! | `lock.rs` | the lock file |
//! | `system.rs` | kind of file system, boot id, randomness, who we are |
//!
//! *Threads.* No state: every call may come from any thread. *Fork.* Descriptors are close-on-exec; mappings do not go to a child; see `lock.rs` for the lock.

mod lock;
/// See there.
pub use lock::close_locks_in_child;
mod mapping;
mod system;
#[cfg(all(test, not(loom)))]
mod tests;

use super::{Env, EnvFile, FileIdentity, FsKind, LockOutcome, Mapping};
use crate::sync::Arc;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// The operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEnv;

impl Env for OsEnv {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        // Not following a last symbolic link: a dangling one is something, too.
        match fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        match fs::metadata(path) {
            Ok(m) => Ok(m.is_dir()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
    fn file_len(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = fs::read_dir(dir)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn EnvFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Box::new(OsFile { file: Arc::new(file) }))
    }
    fn open(&self, path: &Path, writable: bool) -> io::Result<Box<dyn EnvFile>> {
        let file = OpenOptions::new().read(true).write(writable).open(path)?;
        Ok(Box::new(OsFile { file: Arc::new(file) }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // An empty path is what `Path::parent` says of a bare file name.
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        match File::open(dir)?.sync_all() {
            // Some network and user-space file systems have nothing to sync about a directory and say EINVAL.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other,
        }
    }
    fn lock(&self, path: &Path, exclusive: bool, holder_text: &str) -> io::Result<LockOutcome> {
        lock::lock(path, exclusive, holder_text)
    }
    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        let m = fs::metadata(path)?;
        Ok(FileIdentity { dev: m.dev(), ino: m.ino() })
    }
    fn file_system(&self, path: &Path) -> FsKind {
        system::file_system(path)
    }
    fn boot_id(&self) -> [u8; 16] {
        system::boot_id()
    }
    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        system::random(buf)
    }
    fn holder_text(&self) -> String {
        system::holder_text()
    }
}

struct OsFile {
    /// Shared with the mappings, which ask it why a page could not be had.
    file: Arc<File>,
}

impl EnvFile for OsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        // std continues short writes and EINTR.
        self.file.write_all_at(buf, offset)
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        mapping::allocate(&self.file, 0, len)
    }
    fn sync_data(&self) -> io::Result<()> {
        // fdatasync on Linux, F_FULLFSYNC on macOS.
        self.file.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        Ok(Box::new(mapping::OsMapping::new(Arc::clone(&self.file), len)?))
    }
}
