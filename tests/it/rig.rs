//! What the tests of the promises share: a region over a file system in memory with faults, and threads held at a pause point.

pub use crate::short::*;

use region::clock::{Clock, ManualClock, Timeout};
use region::env::fault::{Fault, FaultEnv, Gate, Op as EnvOp, Rule};
use region::env::mem::MemEnv;
use region::env::{Env, read_whole};
use region::error::Result;
use region::hooks::{self, Point};
use region::mslab::{ChunkPool, PoolOptions};
use region::options::{FamilySpec, OpenFlags, RegionOptions};
use region::region::Region;
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub const EIO: i32 = 5;
pub const ENOSPC: i32 = 28;
/// Files of the log that are in use (those being prepared have another name).
pub const WAL: &str = "wal.0";
/// A wait that a test expects to be in vain.
pub const SHORT: Timeout = Timeout::from_micros(20_000);

/// A region over a file system in memory. The background sync is off (an hour) unless `config` says else.
pub struct Rig {
    pub region: Region,
    pub mem: MemEnv,
    pub faults: Arc<FaultEnv>,
    pub clock: Option<Arc<ManualClock>>,
    pub pool: Arc<ChunkPool>,
    config: String,
}

impl Rig {
    pub fn new(config: &str) -> Self {
        Self::start(fresh_mem(), config, None, pool())
    }
    pub fn with_clock(config: &str, clock: ManualClock) -> Self {
        Self::start(fresh_mem(), config, Some(Arc::new(clock)), pool())
    }
    /// Over a pool that others use, too.
    pub fn with_pool(pool: &Arc<ChunkPool>) -> Self {
        Self::start(fresh_mem(), "", None, Arc::clone(pool))
    }
    fn start(mem: MemEnv, config: &str, clock: Option<Arc<ManualClock>>, pool: Arc<ChunkPool>) -> Self {
        let faults = Arc::new(FaultEnv::new(Arc::new(mem.clone())));
        let region = open_rig(&faults, config, &clock, &pool).unwrap();
        let rig = Self { region, mem, faults, clock, pool, config: config.into() };
        rig.rest();
        rig
    }
    /// Waits until the log's keeper rests: it prepares two segments after the open (fewer where the log is small), and its calls count too. On a loaded machine
    /// a keeper that gets no time looks like one that rests: where the log has room, both are waited for.
    pub fn rest(&self) {
        let calls = || [EnvOp::SyncData, EnvOp::WriteAt].map(|op| self.faults.count(op));
        let mut before = calls();
        let small = ["wal_bytes_max", "wal_segment_bytes"].iter().any(|key| self.config.contains(key));
        for _ in 0..if small { 20 } else { 1_500 } {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let now = calls();
            if now == before && self.region.stats().unwrap().wal_segments >= 3 {
                return;
            }
            before = now;
        }
    }
    /// Closes it and opens it again.
    pub fn reopen(self) -> Self {
        close(&self.region);
        let Self { mem, clock, pool, config, .. } = self;
        Self::start(mem, &config, clock, pool)
    }
    /// What the next process finds after kill -9.
    pub fn after_kill(&self) -> Self {
        Self::start(self.mem.kill(), &self.config, self.clock.clone(), pool())
    }
    /// What the next boot finds after a power cut that keeps only what was synced.
    pub fn after_power_cut(&self) -> Self {
        Self::start(self.mem.power_cut_keeping_nothing(), &self.config, self.clock.clone(), pool())
    }
    /// As [`Rig::after_power_cut`], with another file system made from this one's.
    pub fn over(&self, mem: MemEnv) -> Self {
        Self::start(mem, &self.config, self.clock.clone(), pool())
    }
    /// Opened with this from the next time on.
    pub fn with_config(mut self, config: &str) -> Self {
        self.config = config.into();
        self
    }
    /// Makes the next sync of the log wait at the gate.
    pub fn pause_sync(&self) -> Gate {
        self.faults.pause(EnvOp::SyncData, WAL, 1)
    }
    /// The next sync of the log waits at the gate, and then fails.
    pub fn pause_and_fail_sync(&self) -> Gate {
        self.mem.fail_syncs(WAL, 1);
        self.pause_sync()
    }
    pub fn fault(&self, op: EnvOp, fault: Fault) {
        self.faults.inject(Rule::new(op, WAL, 1, fault));
    }
    /// Runs `call` in a thread of its own and holds it at `point`.
    pub fn hold<T: Send + 'static>(&self, point: Point, call: impl FnOnce(&Region) -> T + Send + 'static) -> Held<T> {
        let region = self.region.clone();
        hold(self.region.hook_context(), point, move || call(&region))
    }
    /// Runs `call` in a thread of its own.
    pub fn spawn<T: Send + 'static>(&self, call: impl FnOnce(&Region) -> T + Send + 'static) -> JoinHandle<T> {
        let region = self.region.clone();
        std::thread::spawn(move || call(&region))
    }
}

fn open_rig(env: &Arc<FaultEnv>, config: &str, clock: &Option<Arc<ManualClock>>, pool: &Arc<ChunkPool>) -> Result<Region> {
    let given = |key: &str| config.contains(key);
    let mut all = config.to_string();
    for (key, value) in [("sync_interval_ms", "3600000"), ("wal_segment_bytes", "1m"), ("wal_bytes_max", "256m")] {
        if !given(key) {
            all += &format!(",{key}={value}");
        }
    }
    let options = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf"), FamilySpec { max_versions: 3, ..FamilySpec::named("cf3") }, FamilySpec::named("other")],
        clock_unit: clock.as_ref().map(|c| c.unit()),
        config: all,
        ..RegionOptions::default()
    };
    let env: Arc<dyn Env> = Arc::clone(env) as _;
    let pool = Some(Arc::clone(pool));
    match clock {
        Some(clock) => Region::open_with_clock(env, Path::new("/r"), options, pool, Arc::clone(clock) as _),
        None => Region::open_in(env, Path::new("/r"), options, pool, None),
    }
}

/// Small chunks, so that tests take and give back many.
pub fn pool() -> Arc<ChunkPool> {
    ChunkPool::new(PoolOptions { chunk_size: 64 << 10, max_bytes: 512 << 20, ..PoolOptions::default() }).unwrap()
}

/// Hooks tell regions apart by their random id, and the randomness of a file system in memory is the same in each: so some of it is used up here.
fn fresh_mem() -> MemEnv {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mem = MemEnv::new();
    for _ in 0..NEXT.fetch_add(1, Ordering::Relaxed) * 16 {
        mem.random(&mut [0; 8]).unwrap();
    }
    mem
}

/// The hook context of a region on disk, for tests that only have its path.
pub fn hook_context_at(dir: &Path) -> u64 {
    let bytes = read_whole(&region::env::os::OsEnv, &dir.join("MANIFEST"), 1 << 20).unwrap();
    let text = String::from_utf8_lossy(&bytes).replace(' ', "");
    let hex = text.split("\"region\":\"").nth(1).expect("the manifest names the region").split('"').next().unwrap().replace('-', "");
    let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
    u64::from_le_bytes(std::array::from_fn(byte))
}

thread_local! {
    /// The thread is the one to be held.
    static TO_HOLD: Cell<bool> = const { Cell::new(false) };
}

/// A thread held at a pause point until it is released.
pub struct Held<T> {
    open: Arc<(Mutex<bool>, Condvar)>,
    result: Receiver<T>,
}

pub fn hold<T: Send + 'static>(ctx: u64, point: Point, call: impl FnOnce() -> T + Send + 'static) -> Held<T> {
    let open = Arc::new((Mutex::new(false), Condvar::new()));
    let (arrived, arrival) = channel();
    let wait_at = Arc::clone(&open);
    let installed = hooks::install(ctx, move |at, _| {
        if at == point && TO_HOLD.replace(false) {
            arrived.send(()).unwrap();
            let mut is_open = wait_at.0.lock().unwrap();
            while !*is_open {
                is_open = wait_at.1.wait(is_open).unwrap();
            }
        }
    });
    let (send, result) = channel();
    std::thread::spawn(move || {
        TO_HOLD.set(true);
        let value = call();
        TO_HOLD.set(false);
        let _ = send.send(value);
    });
    arrival.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| panic!("the thread did not come to {point:?}"));
    drop(installed);
    Held { open, result }
}

impl<T> Held<T> {
    /// Lets it go on, and waits for what its call answers.
    pub fn release(self) -> T {
        self.let_go();
        self.result.recv_timeout(Duration::from_secs(60)).expect("the released thread ends")
    }
    pub fn let_go(&self) {
        self.opener()();
    }
    /// Lets it go when called, from any thread.
    pub fn opener(&self) -> impl Fn() + Send + use<T> {
        let open = Arc::clone(&self.open);
        move || {
            *open.0.lock().unwrap() = true;
            open.1.notify_all();
        }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        self.let_go();
    }
}
