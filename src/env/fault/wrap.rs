//! The calls of [`FaultEnv`], its files and its mappings: each first meets its fault, then goes on to the wrapped one.

use super::super::{Env, EnvFile, FileIdentity, FsKind, LockOutcome, Mapping};
use super::{FaultEnv, Faults, Op, text};
use crate::sync::Arc;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;

fn wrapped(env: &FaultEnv, file: Box<dyn EnvFile>, path: &Path) -> Box<dyn EnvFile> {
    Box::new(FaultFile { inner: file, path: text(path), faults: Arc::clone(&env.faults) })
}

impl Env for FaultEnv {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.meet(Op::CreateDir, path)?;
        self.inner.create_dir(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.meet(Op::Exists, path)?;
        self.inner.exists(path)
    }
    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        self.meet(Op::IsDir, path)?;
        self.inner.is_dir(path)
    }
    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.meet(Op::FileLen, path)?;
        self.inner.file_len(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.meet(Op::List, dir)?;
        self.inner.list(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn EnvFile>> {
        self.meet(Op::Create, path)?;
        Ok(wrapped(self, self.inner.create(path)?, path))
    }
    fn open(&self, path: &Path, writable: bool) -> io::Result<Box<dyn EnvFile>> {
        self.meet(Op::Open, path)?;
        Ok(wrapped(self, self.inner.open(path, writable)?, path))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.meet(Op::Rename, &format!("{} {}", text(from), text(to)))?;
        self.inner.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.meet(Op::HardLink, &format!("{} {}", text(from), text(to)))?;
        self.inner.hard_link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.meet(Op::Remove, path)?;
        self.inner.remove(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.meet(Op::RemoveDir, path)?;
        self.inner.remove_dir(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.meet(Op::SyncDir, dir)?;
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path, exclusive: bool, holder_text: &str) -> io::Result<LockOutcome> {
        self.meet(Op::Lock, path)?;
        self.inner.lock(path, exclusive, holder_text)
    }
    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        self.meet(Op::Identity, path)?;
        self.inner.identity(path)
    }
    fn file_system(&self, path: &Path) -> FsKind {
        self.inner.file_system(path)
    }
    fn boot_id(&self) -> [u8; 16] {
        self.inner.boot_id()
    }
    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.faults.meet(Op::Random, "")?;
        self.inner.random(buf)
    }
    fn holder_text(&self) -> String {
        self.inner.holder_text()
    }
}

struct FaultFile {
    inner: Box<dyn EnvFile>,
    path: String,
    faults: Arc<Faults>,
}

impl EnvFile for FaultFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.faults.meet(Op::ReadAt, &self.path)? {
            Some((bytes, _)) => {
                let n = buf.len().min(bytes);
                self.inner.read_at(&mut buf[..n], offset)
            }
            None => self.inner.read_at(buf, offset),
        }
    }
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        match self.faults.meet(Op::WriteAt, &self.path)? {
            Some((bytes, then)) => {
                let (first, rest) = buf.split_at(buf.len().min(bytes));
                self.inner.write_all_at(first, offset)?;
                match then {
                    Some(errno) => Err(io::Error::from_raw_os_error(errno)),
                    None => self.inner.write_all_at(rest, offset + first.len() as u64),
                }
            }
            None => self.inner.write_all_at(buf, offset),
        }
    }
    fn len(&self) -> io::Result<u64> {
        self.faults.meet(Op::Len, &self.path)?;
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.meet(Op::SetLen, &self.path)?;
        self.inner.set_len(len)
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.faults.meet(Op::Preallocate, &self.path)?;
        self.inner.preallocate(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.faults.meet(Op::SyncData, &self.path)?;
        self.inner.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.faults.meet(Op::SyncAll, &self.path)?;
        self.inner.sync_all()
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        self.faults.meet(Op::Map, &self.path)?;
        let inner = self.inner.map(len)?;
        Ok(Box::new(FaultMapping { inner, path: self.path.clone(), faults: Arc::clone(&self.faults) }))
    }
}

struct FaultMapping {
    inner: Box<dyn Mapping>,
    path: String,
    faults: Arc<Faults>,
}

impl Mapping for FaultMapping {
    fn base(&self) -> NonNull<u8> {
        self.inner.base()
    }
    fn len(&self) -> usize {
        self.inner.len()
    }
    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        self.faults.meet(Op::Populate, &self.path)?;
        self.inner.populate(range)
    }
    fn release(&self) -> io::Result<()> {
        self.faults.meet(Op::Release, &self.path)?;
        self.inner.release()
    }
}
