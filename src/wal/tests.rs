//! Tests of the log over the memory and fault environments. What they share stands here.

mod appending;
mod formats;
mod killing;
mod lives;
mod recovery;
mod sealing;
mod space;
mod syncing;

use super::*;
use crate::cell::CellType;
use crate::clock::Timeout;
use crate::env::Env;
use crate::env::fault::FaultEnv;
use crate::env::mem::MemEnv;
use crate::health::Health;
use crate::ids::{FamilyId, Generation, LogPosition, SequenceNumber, Tick};
use crate::sync::{Arc, AtomicU64, Ordering};

const FAMILY: FamilyId = FamilyId(1);

/// A region's directory with a log in it.
struct Rig {
    mem: MemEnv,
    env: Arc<FaultEnv>,
    options: LogOptions,
    health: Arc<Health>,
    /// What a manifest would say.
    synced: LogPosition,
}

static NEXT_UUID: AtomicU64 = AtomicU64::new(1);

impl Rig {
    fn new(io: WalIo) -> Self {
        let mem = MemEnv::new();
        mem.create_dir("/r".as_ref()).unwrap();
        mem.sync_dir("/".as_ref()).unwrap();
        let mut uuid = [7; 16];
        // Hooks are told apart by these bytes.
        uuid[..8].copy_from_slice(&NEXT_UUID.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        let mut options = LogOptions::new("/r", uuid);
        options.io = io;
        options.segment_bytes = 64 << 10;
        options.bytes_max = 4 << 20;
        options.sync_interval_ms = 0;
        Self::over(mem, options)
    }
    fn over(mem: MemEnv, options: LogOptions) -> Self {
        let env = Arc::new(FaultEnv::new(Arc::new(mem.clone())));
        Self { mem, env, options, health: Arc::new(Health::new()), synced: LogPosition(0) }
    }
    /// The next process: same page cache.
    fn kill(&self) -> Self {
        Self::over(self.mem.kill(), self.options.clone())
    }
    /// The same machine once more, to be damaged.
    fn kill_copy(&self) -> Self {
        Self::over(self.mem.image(), self.options.clone())
    }
    /// The next boot, with nothing but what was synced.
    fn power_cut(&self) -> Self {
        Self::over(self.mem.power_cut_keeping_nothing(), self.options.clone())
    }
    fn start(&self, start: LogStart) -> Log {
        self.try_start(start).unwrap()
    }
    fn try_start(&self, start: LogStart) -> crate::Result<Log> {
        Log::start(self.env.clone(), self.options.clone(), start, self.health.clone())
    }
    fn first_life(&self) -> Log {
        self.start(LogStart { first_segment: 1, last: 0, seal: None, spare: Vec::new() })
    }
    /// Recovers and starts the next life as a region does.
    fn reopen(&self) -> (Vec<Entry>, Recovered, Log) {
        let (entries, r) = self.recover().unwrap();
        let log = self.start(LogStart { first_segment: r.next_segment, last: r.last + 100, seal: r.seal, spare: r.spare.clone() });
        (entries, r, log)
    }
    fn recover(&self) -> crate::Result<(Vec<Entry>, Recovered)> {
        self.recover_from(1, false)
    }
    fn recover_from(&self, first_needed: u32, read_only: bool) -> crate::Result<(Vec<Entry>, Recovered)> {
        let mut entries = Vec::new();
        let r = recover(
            &*self.env,
            &self.options,
            Known { first_segment: first_needed, synced: self.synced },
            read_only,
            &mut |record: &Record<'_>| {
                for row in record.rows() {
                    let mut cells = row.cells();
                    let cell = cells.next().unwrap();
                    assert_eq!((cell.row, cell.family, cells.next()), (row.key, FAMILY, None));
                    // Of other cells than counters the length.
                    let value = cell.value.try_into().map_or(cell.value.len() as i64, i64::from_be_bytes);
                    entries.push(Entry { number: record.number.0, row: row.key.to_vec(), value, position: record.position });
                }
                Ok(())
            },
            &mut |_, _| false,
        )?;
        Ok((entries, r))
    }
    /// Names and lengths of the log's files.
    fn files(&self) -> Vec<(u32, u64)> {
        let names = self.mem.list(&self.options.dir).unwrap();
        let numbers = names.iter().filter_map(|n| prepare::segment_number(n));
        numbers.map(|n| (n, self.mem.file_len(&self.path(n)).unwrap())).collect()
    }
    fn path(&self, number: u32) -> std::path::PathBuf {
        self.options.dir.join(prepare::segment_name(number))
    }
    fn read(&self, number: u32) -> Vec<u8> {
        crate::env::read_whole(&self.mem, &self.path(number), 128 << 20).unwrap()
    }
    fn write(&self, number: u32, at: u64, bytes: &[u8]) {
        self.mem.open(&self.path(number), true).unwrap().write_all_at(bytes, at).unwrap();
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    number: u64,
    row: Vec<u8>,
    value: i64,
    position: LogPosition,
}

/// A commit of one counter.
fn commit(buffer: &mut RecordBuffer, row: &[u8], value: i64, level: Level) {
    buffer.begin(RecordKind::Commit, level, Generation(1), Tick(1000 + value as u64));
    buffer.row(row);
    buffer.counter(FAMILY, b"q", 1000 + value as u64, value);
    buffer.finish();
}

/// A commit whose record takes about `bytes`.
fn big(buffer: &mut RecordBuffer, bytes: usize) {
    buffer.begin(RecordKind::Commit, Level::Sync, Generation(1), Tick(1));
    buffer.row(b"big");
    buffer.cell(FAMILY, b"q", CellType::Put, 1, &vec![0xEE; bytes]);
    buffer.finish();
}

/// Appends one commit, waiting for log space.
fn append(log: &Log, value: i64) -> u64 {
    let mut buffer = RecordBuffer::new();
    commit(&mut buffer, format!("row{value}").as_bytes(), value, Level::Sync);
    append_buffer(log, &mut buffer)
}

fn append_buffer(log: &Log, buffer: &mut RecordBuffer) -> u64 {
    loop {
        match log.append(buffer, || ()) {
            Ok(n) => return n.0,
            Err(Refused::NoRoom { needed }) => {
                log.wait_for_log_space(needed, &mut Timeout::from_micros(20_000_000), &|| false, true).unwrap()
            }
            Err(e) => panic!("{e:?}"),
        }
    }
}

fn wait(log: &Log, number: u64) -> Result<(), NotDurable> {
    log.wait_for_durable(number, &mut Timeout::from_micros(20_000_000))
}

fn values(entries: &[Entry]) -> Vec<i64> {
    entries.iter().map(|e| e.value).collect()
}

const BOTH: [WalIo; 2] = [WalIo::Mapped, WalIo::Write];
