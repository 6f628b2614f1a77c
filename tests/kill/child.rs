//! The child: opens the region and counts until it is killed.

use crate::common::rng::Rng;
use crate::common::watch::{Watch, WatchEnv};
use crate::plan::{BATCH, COUNTERS, FIRST_ONCE, GROUPS, ONCE, PACKED, Plan, Tear, Way, batch_row, counter_row, nonce, once_row, options};
use crate::shared::{ENTRIES, Shared, UNEQUAL, phase};
use region::env::fault::Op;
use region::env::os::OsEnv;
use region::hooks::{self, Point};
use region::options::{Durability, WriteOptions};
use region::region::{CommitInfo, Increment, Increments, OpStatus, Region};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CF: u32 = 1;

/// Parks the thread that comes to the chosen place, with whatever it holds.
struct Parker {
    shared: Arc<Shared>,
    tear: Tear,
    seen: AtomicU64,
}

impl Parker {
    /// True if this is the time that was chosen.
    fn is_it(&self, nth: u64) -> bool {
        self.seen.fetch_add(1, Ordering::SeqCst) + 1 == nth
    }
    fn park(&self) {
        self.shared.set_phase(phase::PARKED);
        loop {
            std::thread::park();
        }
    }
}

impl Watch for Parker {
    fn before(&self, op: Op, _path: &str) {
        if let Tear::OpenCall(nth) = self.tear
            && op.changes()
            && self.shared.phase() == phase::OPENING
            && self.is_it(nth)
        {
            self.park();
        }
    }
    fn cuts(&self, _path: &str, offset: u64, bytes: &[u8]) -> Vec<usize> {
        // A record or a PAD; segments are also written to with their header, at 0, and with zeros.
        let is_record = offset >= 4096 && bytes.len() >= 16 && bytes[..8] != [0; 8];
        match self.tear {
            // Behind the header word, before the trailer.
            Tear::Append(nth) if is_record && self.is_it(nth) => vec![(8 + bytes.len() / 4) & !7],
            _ => Vec::new(),
        }
    }
    fn at_cut(&self, _path: &str) {
        self.park();
    }
}

/// Runs until killed; returns only to report a failure.
pub fn run(args: &[String]) -> String {
    let plan = Plan::from_args(args);
    let shared = Arc::new(Shared::open(&plan.shared));
    let parker = Arc::new(Parker { shared: Arc::clone(&shared), tear: plan.tear, seen: AtomicU64::new(0) });
    let env = WatchEnv::new(Arc::new(OsEnv), Arc::clone(&parker) as Arc<dyn Watch>);
    shared.set_phase(phase::OPENING);
    let region = match Region::open_in(Arc::new(env), &plan.dir, options(&plan), None, None) {
        Ok(region) => region,
        Err(e) => return format!("open: {e:?}"),
    };
    let ctx = hook_context(&plan.dir);
    let watcher = Arc::clone(&parker);
    let _hook = hooks::install(ctx, move |point, _| {
        if let Tear::Append(nth) = watcher.tear
            && point == Point::AppendAfterHeader
            && watcher.is_it(nth)
        {
            watcher.park();
        }
    });
    shared.set_phase(phase::RUNNING);
    let failure = std::sync::Mutex::new(None);
    std::thread::scope(|s| {
        for thread in 0..plan.threads {
            let (region, shared, plan, failure) = (&region, &shared, &plan, &failure);
            s.spawn(move || {
                let rng = Rng(plan.seed ^ (thread as u64) << 32);
                let mut worker = Worker { region, shared, seed: plan.seed, thread, next: 0, rng };
                if let Err(e) = worker.run() {
                    failure.lock().unwrap().get_or_insert(format!("thread {thread}: {e}"));
                    shared.set_phase(phase::FAILED);
                }
            });
        }
    });
    failure.into_inner().unwrap().unwrap_or_else(|| {
        // Every list is full: nothing to do but to wait for the end.
        loop {
            std::thread::park();
        }
    })
}

/// What the hooks of the region in `dir` are told apart by: the first bytes of its id, which the manifest has as hexadecimal digits.
fn hook_context(dir: &Path) -> u64 {
    let manifest = std::fs::read_to_string(dir.join("MANIFEST")).unwrap();
    let digits = manifest.split("\"region\": \"").nth(1).and_then(|rest| rest.get(..16)).unwrap();
    u64::from_str_radix(digits, 16).unwrap().swap_bytes()
}

struct Worker<'a> {
    region: &'a Region,
    shared: &'a Shared,
    seed: u64,
    thread: usize,
    next: usize,
    rng: Rng,
}

pub struct Rows(pub Vec<(Vec<u8>, i64)>);
impl Increments for Rows {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Increment<'_> {
        Increment { family: CF, row: &self.0[i].0, qual: b"n", delta: self.0[i].1 }
    }
}

impl Worker<'_> {
    /// Some of the threads each: FSYNC, atomic batches, packed increments at SYNC, and calls with a nonce.
    fn run(&mut self) -> Result<(), String> {
        while self.next + PACKED <= ENTRIES {
            match Way::of(self.thread) {
                Way::Single => self.single(Durability::FsyncWal)?,
                Way::Batch => self.batch()?,
                Way::Packed => self.packed()?,
                Way::SingleOnce => self.once(1)?,
                Way::PackedOnce => self.once(PACKED)?,
            }
        }
        Ok(())
    }
    fn single(&mut self, durability: Durability) -> Result<(), String> {
        let (counter, delta) = (self.rng.below(COUNTERS as u64) as usize, 1 + self.rng.below(3));
        self.shared.attempt(self.thread, self.next, counter, delta);
        let o = WriteOptions { durability: Some(durability), ..WriteOptions::DEFAULT };
        let counted = self
            .region
            .increment(&counter_row(counter), CF, b"n", delta as i64, &o, &mut CommitInfo::default())
            .map_err(|e| format!("increment: {e:?}"))?;
        self.shared.answer(self.thread, self.next, counted.value as u64);
        self.next += 1;
        Ok(())
    }
    /// Equal amounts to the counters of one group, which are equal before and after.
    fn batch(&mut self) -> Result<(), String> {
        let (group, delta) = (self.rng.below(GROUPS as u64) as usize, 1 + self.rng.below(3));
        let durability = if self.rng.one_in(4) { Durability::FsyncWal } else { Durability::SyncWal };
        self.shared.attempt(self.thread, self.next, COUNTERS + group, delta);
        let rows = Rows((0..BATCH).map(|i| (batch_row(group, i), delta as i64)).collect());
        let o = WriteOptions { durability: Some(durability), flags: WriteOptions::ATOMIC, ..WriteOptions::DEFAULT };
        let values = self.many(&rows, &o)?;
        let answer = if values.iter().all(|v| *v == values[0]) { values[0] } else { UNEQUAL };
        self.shared.answer(self.thread, self.next, answer);
        self.next += 1;
        Ok(())
    }
    /// With a nonce; now and then the same call is made again at once, and must be answered the same.
    fn once(&mut self, n: usize) -> Result<(), String> {
        let first = self.next;
        let mut rows = Vec::new();
        for i in 0..n {
            let (counter, delta) = (FIRST_ONCE + self.rng.below(ONCE as u64) as usize, 1 + self.rng.below(3));
            self.shared.attempt(self.thread, first + i, counter, delta);
            rows.push((once_row(counter), delta as i64));
        }
        let durability = if self.rng.one_in(8) { Durability::FsyncWal } else { Durability::SyncWal };
        let nonce = nonce(self.seed, self.thread, first);
        let o = WriteOptions { durability: Some(durability), nonce, ..WriteOptions::DEFAULT };
        let rows = Rows(rows);
        let values = self.many(&rows, &o)?;
        if self.rng.one_in(4) && self.many(&rows, &o)? != values {
            return Err(format!("NON-01: nonce {nonce} was answered otherwise the second time"));
        }
        for (i, value) in values.into_iter().enumerate() {
            self.shared.answer(self.thread, first + i, value);
        }
        self.next += n;
        Ok(())
    }
    fn packed(&mut self) -> Result<(), String> {
        let first = self.next;
        let mut rows = Vec::new();
        for i in 0..PACKED {
            // A row may come twice.
            let (counter, delta) = (self.rng.below(COUNTERS as u64) as usize, 1 + self.rng.below(3));
            self.shared.attempt(self.thread, first + i, counter, delta);
            rows.push((counter_row(counter), delta as i64));
        }
        let values = self.many(&Rows(rows), &WriteOptions { durability: Some(Durability::SyncWal), ..WriteOptions::DEFAULT })?;
        for (i, value) in values.into_iter().enumerate() {
            self.shared.answer(self.thread, first + i, value);
        }
        self.next += PACKED;
        Ok(())
    }
    fn many(&self, rows: &Rows, o: &WriteOptions) -> Result<Vec<u64>, String> {
        let mut values = vec![0; rows.len()];
        let mut good = true;
        let outcome = self.region.increment_many(rows, o, &mut CommitInfo::default(), &mut |i, r| {
            good &= r.status == OpStatus::Applied;
            values[i] = r.value as u64;
        });
        match outcome {
            Ok(region::region::BatchOutcome::Done) if good => Ok(values),
            other => Err(format!("batch of {}: {other:?}", rows.len())),
        }
    }
}
