//! For tests: wraps any [`Env`] and makes chosen calls fail, be cut short, take long, or stop until the test lets them go on.
//!
//! A [`Rule`] names a kind of call, a part of the path, and which of the matching calls it means, counted from when the rule was made. Calls are counted by kind
//! whether a rule matches or not. Stores through a mapping are no calls: only `map`, `populate` and `release` can be met.
//!
//! *Threads.* Everything may be called from any thread. Rules are looked at under one lock, which is not held while a call waits at a gate or runs.
#![forbid(unsafe_code)]

#[cfg(all(test, not(loom)))]
mod tests;
mod wrap;

use super::Env;
use crate::sync::{Arc, Condvar, Mutex};
use std::io;
use std::path::Path;
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
    Release,
}

const OPS: usize = Op::Release as usize + 1;

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
