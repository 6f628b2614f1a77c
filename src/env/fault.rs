//! For tests: wraps any [`Env`] and makes chosen calls fail, be cut short, take long, or stop until the test lets them go on.
//!
//! A [`Rule`] names a kind of call, a part of the path, and which of the matching calls it means, counted from when the rule was made. Calls are counted by kind
//! whether a rule matches or not. Stores through a mapping are no calls: only `map` and `populate` can be met.
//!
//! *Threads.* Everything may be called from any thread. Rules are looked at under one lock, which is not held while a call waits at a gate or runs.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use super::{Env, EnvFile, FileIdentity, FsKind, LockOutcome, Mapping};
use crate::sync::{Arc, Condvar, Mutex};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

/// Kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Op {
    CreateDir,
    Exists,
    IsDir,
    FileLen,
    List,
    Create,
    Open,
    Rename,
    HardLink,
    Remove,
    RemoveDir,
    SyncDir,
    Lock,
    Identity,
    Random,
    ReadAt,
    WriteAt,
    Len,
    SetLen,
    Preallocate,
    SyncData,
    SyncAll,
    Map,
    Populate,
}

const OPS: usize = Op::Populate as usize + 1;

impl Op {
    /// True for calls that change something, or make a change durable: the steps between which a crash can fall.
    pub fn changes(self) -> bool {
        use Op::*;
        matches!(
            self,
            CreateDir
                | Create
                | Rename
                | HardLink
                | Remove
                | RemoveDir
                | SyncDir
                | WriteAt
                | SetLen
                | Preallocate
                | SyncData
                | SyncAll
                | Populate
        )
    }
}

/// Which calls a rule means.
#[derive(Clone, Debug)]
pub enum Which {
    /// Calls of this kind.
    Op(Op),
    /// Every call that changes something ([`Op::changes`]).
    Changes,
}

/// What happens to a call.
#[derive(Clone)]
pub enum Fault {
    /// It does nothing and fails with this errno.
    Fail(i32),
    /// Reads give at most this many bytes. Writes write this many bytes, then fail with the errno, or go on with the rest.
    Short(usize, Option<i32>),
    /// It takes this much longer.
    Delay(Duration),
    /// It waits at the gate before it does anything.
    Pause(Gate),
    /// It and every later call fails, whatever its kind: the process is dead.
    Stop,
}

/// One fault.
#[derive(Clone)]
pub struct Rule {
    /// Which calls.
    pub which: Which,
    /// Only calls on a path that contains this; renames and links are matched by both of theirs.
    pub path_part: String,
    /// The first call it befalls: 1 is the next one that matches.
    pub nth: u64,
    /// How many it befalls from there on.
    pub times: u64,
    /// What happens.
    pub fault: Fault,
}

impl Rule {
    /// The `nth` call of this kind on such a path, once.
    pub fn new(op: Op, path_part: &str, nth: u64, fault: Fault) -> Self {
        Self { which: Which::Op(op), path_part: path_part.into(), nth, times: 1, fault }
    }
    /// The same for that call and all later ones.
    #[must_use]
    pub fn from_then_on(mut self) -> Self {
        self.times = u64::MAX;
        self
    }
}

/// Where a paused call waits, and the test for it. Clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    reached: u64,
    open: bool,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(Arc::new((Mutex::new(GateState::default()), Condvar::new())))
    }
    /// Lets through who waits, and everyone who comes later.
    pub fn open(&self) {
        self.0.0.lock().open = true;
        self.0.1.notify_all();
    }
    /// How many calls have come here.
    pub fn reached(&self) -> u64 {
        self.0.0.lock().reached
    }
    /// Waits until a call has come here; panics after half a minute, since then the test is wrong.
    pub fn wait_until_reached(&self) {
        let all = self.wait(|s| s.reached > 0);
        assert!(all, "no call came to the gate");
    }
    fn pass(&self) {
        self.0.0.lock().reached += 1;
        self.0.1.notify_all();
        self.wait(|s| s.open);
    }
    #[cfg(not(loom))]
    fn wait(&self, done: impl Fn(&GateState) -> bool) -> bool {
        let mut s = self.0.0.lock();
        while !done(&s) {
            if self.0.1.wait_for(&mut s, Duration::from_secs(30)).timed_out() {
                return done(&s);
            }
        }
        true
    }
    #[cfg(loom)]
    fn wait(&self, done: impl Fn(&GateState) -> bool) -> bool {
        let mut s = self.0.0.lock();
        while !done(&s) {
            s = self.0.1.wait_owned(s);
        }
        true
    }
}

/// An [`Env`] with faults.
pub struct FaultEnv {
    inner: Arc<dyn Env>,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rules: Vec<(Rule, u64)>,
    counts: [u64; OPS],
    changes: u64,
    stopped: bool,
}

impl FaultEnv {
    /// No faults yet.
    pub fn new(inner: Arc<dyn Env>) -> Self {
        Self { inner, faults: Arc::default() }
    }
    /// Adds a rule; its count starts now. Of several that meet one call the first does.
    pub fn inject(&self, rule: Rule) {
        self.faults.state.lock().rules.push((rule, 0));
    }
    /// Shorthand: the `nth` such call fails with `errno`, once.
    pub fn fail(&self, op: Op, path_part: &str, nth: u64, errno: i32) {
        self.inject(Rule::new(op, path_part, nth, Fault::Fail(errno)));
    }
    /// Shorthand: the `nth` such call waits at the gate that is returned.
    pub fn pause(&self, op: Op, path_part: &str, nth: u64) -> Gate {
        let gate = Gate::new();
        self.inject(Rule::new(op, path_part, nth, Fault::Pause(gate.clone())));
        gate
    }
    /// Shorthand: the `nth` call from now on that changes something does nothing any more, nor does any call after it.
    pub fn stop_at_change(&self, nth: u64) {
        self.inject(Rule { which: Which::Changes, path_part: String::new(), nth, times: 1, fault: Fault::Stop });
    }
    /// No rules any more, and not stopped. Counts stay.
    pub fn clear(&self) {
        let mut s = self.faults.state.lock();
        s.rules.clear();
        s.stopped = false;
    }
    /// Calls of this kind so far.
    pub fn count(&self, op: Op) -> u64 {
        self.faults.state.lock().counts[op as usize]
    }
    /// Calls so far that changed something.
    pub fn changes(&self) -> u64 {
        self.faults.state.lock().changes
    }
    fn file(&self, file: Box<dyn EnvFile>, path: &Path) -> Box<dyn EnvFile> {
        Box::new(FaultFile { inner: file, path: text(path), faults: Arc::clone(&self.faults) })
    }
    fn meet(&self, op: Op, path: &Path) -> io::Result<()> {
        self.faults.meet(op, &text(path)).map(drop)
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Faults {
    /// What befalls this call: an error, a wait that is over when this returns, or how many bytes and with which end.
    fn meet(&self, op: Op, path: &str) -> io::Result<Option<(usize, Option<i32>)>> {
        let fault = {
            let mut s = self.state.lock();
            s.counts[op as usize] += 1;
            s.changes += u64::from(op.changes());
            if s.stopped {
                return Err(stopped());
            }
            let mut met = None;
            for (rule, seen) in &mut s.rules {
                let kind = match rule.which {
                    Which::Op(o) => o == op,
                    Which::Changes => op.changes(),
                };
                if kind && path.contains(&rule.path_part) {
                    *seen += 1;
                    if met.is_none() && *seen >= rule.nth && *seen - rule.nth < rule.times {
                        met = Some(rule.fault.clone());
                    }
                }
            }
            s.stopped |= matches!(met, Some(Fault::Stop));
            met
        };
        match fault {
            None => Ok(None),
            Some(Fault::Fail(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::Short(bytes, then)) => Ok(Some((bytes, then))),
            Some(Fault::Delay(time)) => {
                // std's: loom has no sleep, and this is no part of any model.
                std::thread::sleep(time);
                Ok(None)
            }
            Some(Fault::Pause(gate)) => {
                gate.pass();
                Ok(None)
            }
            Some(Fault::Stop) => Err(stopped()),
        }
    }
}

fn stopped() -> io::Error {
    io::Error::other("stopped by the test")
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
        Ok(self.file(self.inner.create(path)?, path))
    }
    fn open(&self, path: &Path, writable: bool) -> io::Result<Box<dyn EnvFile>> {
        self.meet(Op::Open, path)?;
        Ok(self.file(self.inner.open(path, writable)?, path))
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
}
