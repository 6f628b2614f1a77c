//! A region over a file system in memory, its clock moved by hand, and the model's knowledge of it.

use crate::rng::Rng;
use crate::spec::{At, Family, Keep, Model};
use crate::words;
use region::clock::{Clock, ClockUnit, ManualClock, Timeout};
use region::env::mem::MemEnv;
use region::mslab::{ChunkPool, PoolOptions};
use region::options::{OpenFlags, RegionOptions};
use region::region::{CloseFlags, Region};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Longer than anything here waits, on any machine.
pub const LONG: Timeout = Timeout::from_micros(60_000_000);

pub struct World {
    env: MemEnv,
    pool: Arc<ChunkPool>,
    config: String,
    pub clock: Arc<ManualClock>,
    /// None only while it is being reopened.
    region: Option<Region>,
    pub model: Model,
    /// Number of the last commit.
    pub seq: u64,
    /// Last tick of a row in this life, and the largest of the lives before.
    ticks: HashMap<Vec<u8>, u64>,
    floor: u64,
    /// Id of each slot's family, 0 = it is not there.
    ids: [u32; words::NAMES.len()],
}

impl World {
    /// A new region; `seed` picks its settings.
    pub fn new(seed: u64) -> Self {
        let rng = &mut Rng(seed);
        let env = MemEnv::new();
        for _ in 0..rng.below(8) {
            use region::env::Env as _;
            env.random(&mut [0; 8]).expect("the fake file system has chance");
        }
        let pool = ChunkPool::new(PoolOptions { chunk_size: 16 << 10, max_bytes: 256 << 20, ..PoolOptions::default() }).expect("a pool");
        let mut config = "sync_interval_ms=3600000,wal_segment_bytes=256k,wal_bytes_max=64m".to_string();
        for more in [",seal_every_commits=5", ",seal_every_commits=40", ",wal_io=write"] {
            if rng.one_in(3) && !(more.contains("seal") && config.contains("seal")) {
                config += more;
            }
        }
        let clock = Arc::new(ManualClock::new(words::BEGIN, ClockUnit::Millis));
        let mut world =
            Self { env, pool, config, clock, region: None, model: Model::default(), seq: 0, ticks: HashMap::new(), floor: 0, ids: [0; 8] };
        world.open(true);
        for slot in 0..words::AT_FIRST as u8 {
            world.family_set(slot, &words::family(slot)).expect("a family to begin with");
        }
        world
    }
    fn open(&mut self, create: bool) {
        let options = RegionOptions {
            flags: OpenFlags { create, ..OpenFlags::default() },
            clock_unit: create.then_some(ClockUnit::Millis),
            config: self.config.clone(),
            ..RegionOptions::default()
        };
        let (env, pool, clock) = (Arc::new(self.env.clone()), Arc::clone(&self.pool), Arc::clone(&self.clock));
        self.region = Some(Region::open_with_clock(env, Path::new("/r"), options, Some(pool), clock).expect("the region opens"));
        self.floor = self.ticks.drain().map(|(_, tick)| tick).fold(self.floor, u64::max);
    }
    pub fn region(&self) -> &Region {
        self.region.as_ref().expect("the region is open")
    }
    pub fn now(&self) -> u64 {
        self.clock.now().0
    }
    pub fn at(&self) -> At {
        At { cut: self.seq, now: self.now() }
    }
    /// Ids by slot; one that no region has where there is no family.
    pub fn ids(&self) -> Vec<u32> {
        (0..self.ids.len() as u8).map(|slot| self.id(slot)).collect()
    }
    /// Id of a slot's family; one that no region has, if it is not there.
    pub fn id(&self, slot: u8) -> u32 {
        match self.ids.get(usize::from(slot)) {
            Some(0) | None => 900,
            Some(id) => *id,
        }
    }
    /// The tick that a commit of these rows gets.
    pub fn tick<'r>(&self, rows: impl Iterator<Item = &'r [u8]>) -> u64 {
        let last = rows.map(|row| self.ticks.get(row).copied().unwrap_or(0)).fold(self.floor, u64::max);
        self.now().max(last + 1)
    }
    pub fn ticked(&mut self, row: &[u8], tick: u64) {
        self.ticks.insert(row.to_vec(), tick);
    }
    /// Closes and opens it; or it is killed, and what the next process finds is opened.
    pub fn reopen(&mut self, kill: bool) {
        let region = self.region.take().expect("the region is open");
        if kill {
            self.env = self.env.kill();
        } else {
            region.close(CloseFlags::default(), LONG).expect("the region closes");
        }
        drop(region);
        self.open(false);
        // A new life begins with higher numbers.
        let seq = self.region().stats().expect("an open region has figures").seq;
        assert!(seq >= self.seq, "numbers went back from {} to {seq}", self.seq);
        self.seq = seq;
    }
    /// Adds the family of a slot, or changes it: any settings into any others. What is 0 stays as it is.
    pub fn family_set(&mut self, slot: u8, wanted: &Family) -> Result<(), String> {
        let mut family = wanted.clone();
        let spec = words::spec(words::NAMES[usize::from(slot)], &family);
        if let Some(now) = self.model.families.get(&self.id(slot)) {
            if family.min == 0 {
                family.min = now.min;
            }
            if family.keep == Keep::No {
                family.keep = now.keep;
            }
        }
        let seq = self.region().stats().expect("an open region has figures").seq;
        let told = self.region().family_set(spec).map(|id| id.0);
        if family.min > family.max {
            return if told.is_err() { Ok(()) } else { Err("min_versions above max_versions were taken".into()) };
        }
        let id = told.map_err(|e| format!("family_set: {e:?}"))?;
        let before = self.ids[usize::from(slot)];
        if before != 0 && before != id || before == 0 && self.ids.contains(&id) {
            return Err(format!("family_set of slot {slot} answers id {id}; the ids were {:?}", self.ids));
        }
        self.ids[usize::from(slot)] = id;
        if let Some(now) = self.model.families.get(&id) {
            now.become_of(&mut family, seq, self.now());
        }
        self.model.families.insert(id, family);
        Ok(())
    }
    pub fn family_drop(&mut self, slot: u8) -> Result<(), String> {
        let id = self.id(slot);
        let known = self.model.families.contains_key(&id);
        let told = self.region().family_drop(region::ids::FamilyId(id));
        if told.is_ok() != known {
            return Err(format!("family_drop({id}): {told:?}; the model knows it: {known}"));
        }
        if known {
            self.model.drop_family(id);
            self.ids[usize::from(slot)] = 0;
        }
        Ok(())
    }
    /// Gives everything back; a chunk that stays in use is an error.
    pub fn end(mut self) -> Result<(), String> {
        let region = self.region.take().expect("the region is open");
        region.close(CloseFlags::default(), LONG).map_err(|e| format!("close: {e:?}"))?;
        drop(region);
        match self.pool.stats().in_use {
            0 => Ok(()),
            n => Err(format!("{n} chunks are in use after close")),
        }
    }
}
