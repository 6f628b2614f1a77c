//! An [`Env`] that shows every call to a test before it is made, and writes to the log in pieces with a look between them.
//!
//! `FaultEnv` says what befalls the n-th call; this one leaves it to code of the test: take a picture, park, count.

use region::env::fault::Op;
use region::env::{Env, EnvFile, FileIdentity, FsKind, LockOutcome, Mapping};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

/// What a test does with what it sees. Called on the thread that makes the call, with whatever it holds.
pub trait Watch: Send + Sync {
    /// A call is about to be made.
    fn before(&self, op: Op, path: &str);
    /// After how many bytes this write is interrupted.
    fn cuts(&self, _path: &str, _offset: u64, _bytes: &[u8]) -> Vec<usize> {
        Vec::new()
    }
    /// A write has come to one of its cuts.
    fn at_cut(&self, _path: &str) {}
}

/// The wrapper.
pub struct WatchEnv {
    inner: Arc<dyn Env>,
    watch: Arc<dyn Watch>,
}

impl WatchEnv {
    /// Shows `watch` every call that goes to `inner`.
    pub fn new(inner: Arc<dyn Env>, watch: Arc<dyn Watch>) -> Self {
        Self { inner, watch }
    }
    fn see(&self, op: Op, path: &Path) {
        self.watch.before(op, &path.to_string_lossy());
    }
    fn wrap(&self, file: Box<dyn EnvFile>, path: &Path) -> Box<dyn EnvFile> {
        Box::new(WatchFile { inner: file, path: path.to_string_lossy().into_owned(), watch: Arc::clone(&self.watch) })
    }
}

impl Env for WatchEnv {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.see(Op::CreateDir, path);
        self.inner.create_dir(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.see(Op::Exists, path);
        self.inner.exists(path)
    }
    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        self.see(Op::IsDir, path);
        self.inner.is_dir(path)
    }
    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.see(Op::FileLen, path);
        self.inner.file_len(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.see(Op::List, dir);
        self.inner.list(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn EnvFile>> {
        self.see(Op::Create, path);
        Ok(self.wrap(self.inner.create(path)?, path))
    }
    fn open(&self, path: &Path, writable: bool) -> io::Result<Box<dyn EnvFile>> {
        self.see(Op::Open, path);
        Ok(self.wrap(self.inner.open(path, writable)?, path))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.see(Op::Rename, to);
        self.inner.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.see(Op::HardLink, to);
        self.inner.hard_link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.see(Op::Remove, path);
        self.inner.remove(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.see(Op::RemoveDir, path);
        self.inner.remove_dir(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.see(Op::SyncDir, dir);
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path, exclusive: bool, holder_text: &str) -> io::Result<LockOutcome> {
        self.see(Op::Lock, path);
        self.inner.lock(path, exclusive, holder_text)
    }
    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        self.see(Op::Identity, path);
        self.inner.identity(path)
    }
    fn file_system(&self, path: &Path) -> FsKind {
        self.inner.file_system(path)
    }
    fn boot_id(&self) -> [u8; 16] {
        self.inner.boot_id()
    }
    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.inner.random(buf)
    }
    fn holder_text(&self) -> String {
        self.inner.holder_text()
    }
}

struct WatchFile {
    inner: Box<dyn EnvFile>,
    path: String,
    watch: Arc<dyn Watch>,
}

impl EnvFile for WatchFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.watch.before(Op::ReadAt, &self.path);
        self.inner.read_at(buf, offset)
    }
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.watch.before(Op::WriteAt, &self.path);
        let mut at = 0;
        for cut in self.watch.cuts(&self.path, offset, buf) {
            self.inner.write_all_at(&buf[at..cut], offset + at as u64)?;
            at = cut;
            self.watch.at_cut(&self.path);
        }
        self.inner.write_all_at(&buf[at..], offset + at as u64)
    }
    fn len(&self) -> io::Result<u64> {
        self.watch.before(Op::Len, &self.path);
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.watch.before(Op::SetLen, &self.path);
        self.inner.set_len(len)
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.watch.before(Op::Preallocate, &self.path);
        self.inner.preallocate(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.watch.before(Op::SyncData, &self.path);
        self.inner.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.watch.before(Op::SyncAll, &self.path);
        self.inner.sync_all()
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        self.watch.before(Op::Map, &self.path);
        let inner = self.inner.map(len)?;
        Ok(Box::new(WatchMapping { inner, path: self.path.clone(), watch: Arc::clone(&self.watch) }))
    }
}

struct WatchMapping {
    inner: Box<dyn Mapping>,
    path: String,
    watch: Arc<dyn Watch>,
}

impl Mapping for WatchMapping {
    fn base(&self) -> NonNull<u8> {
        self.inner.base()
    }
    fn len(&self) -> usize {
        self.inner.len()
    }
    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        self.watch.before(Op::Populate, &self.path);
        self.inner.populate(range)
    }
    fn release(&self) -> io::Result<()> {
        self.inner.release()
    }
}
