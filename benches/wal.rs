//! The log alone: appends of 100-byte records in both forms by 1 and 100 threads, commits that wait for a shared sync, recovery.
//!
//! Appends run in a memory file system if there is one (REGION_BENCH_MEM, default /dev/shm), syncs in REGION_BENCH_DISK (default: the system's temporary directory).

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use region::clock::Timeout;
use region::env::os::OsEnv;
use region::health::Health;
use region::ids::{FamilyId, Generation, Tick};
use region::options::WalIo;
use region::wal::{Known, Level, Log, LogOptions, LogStart, RecordBuffer, RecordKind, Refused, recover};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn place(variable: &str, default: PathBuf) -> PathBuf {
    std::env::var_os(variable).map_or(default, PathBuf::from)
}

fn memory() -> tempfile::TempDir {
    let shm = PathBuf::from("/dev/shm");
    tempfile::tempdir_in(place("REGION_BENCH_MEM", if shm.is_dir() { shm } else { std::env::temp_dir() })).expect("a directory")
}

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(place("REGION_BENCH_DISK", std::env::temp_dir())).expect("a directory")
}

fn options(dir: &tempfile::TempDir, io: WalIo) -> LogOptions {
    let mut o = LogOptions::new(dir.path(), [1; 16]);
    o.io = io;
    o
}

fn start(options: &LogOptions) -> Log {
    let start = LogStart { first_segment: 1, last: 0, seal: None, spare: Vec::new() };
    Log::start(Arc::new(OsEnv), options.clone(), start, Arc::new(Health::new())).expect("the log starts")
}

/// About 100 bytes: header and trailer 48, one counter of a 20-byte row with an 8-byte qualifier.
fn encode(record: &mut RecordBuffer, tick: u64) {
    record.begin(RecordKind::Commit, Level::Sync, Generation(1), Tick(tick));
    record.row(b"row-0123456789abcdef");
    record.counter(FamilyId(1), b"counter1", tick, tick as i64);
    record.finish();
}

fn append(log: &Log, record: &mut RecordBuffer) -> u64 {
    loop {
        match log.append(record, || ()) {
            Ok(n) => return n.0,
            Err(Refused::NoRoom { needed }) => log.wait_for_log_space(needed, &mut Timeout::forever(), &|| false, true).expect("space"),
            Err(e) => panic!("{e:?}"),
        }
    }
}

/// `n` appends by `threads` threads together; each retires what lies behind now and then, as flushes do.
fn appends(log: &Log, threads: u64, n: u64) -> Duration {
    let started = Instant::now();
    std::thread::scope(|s| {
        for t in 0..threads {
            s.spawn(move || {
                let mut record = RecordBuffer::new();
                for i in 0..n / threads + u64::from(t < n % threads) {
                    encode(&mut record, i);
                    append(log, &mut record);
                    if i % 65_536 == 65_535 {
                        log.retire(log.number_now().1);
                    }
                }
            });
        }
    });
    started.elapsed()
}

fn commits(log: &Log, threads: u64, n: u64) -> Duration {
    let started = Instant::now();
    std::thread::scope(|s| {
        for t in 0..threads {
            s.spawn(move || {
                let mut record = RecordBuffer::new();
                for i in 0..n / threads + u64::from(t < n % threads) {
                    encode(&mut record, i);
                    let number = append(log, &mut record);
                    log.note_fsync(number);
                    log.wait_for_durable(number, &mut Timeout::forever()).expect("durable");
                }
            });
        }
    });
    started.elapsed()
}

fn benches(c: &mut Criterion) {
    let mut g = c.benchmark_group("append");
    g.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(2));
    g.bench_function("encode", |b| {
        let mut record = RecordBuffer::new();
        b.iter(|| encode(&mut record, 5));
    });
    for (name, io) in [("mapped", WalIo::Mapped), ("write", WalIo::Write)] {
        for threads in [1, 8, 100] {
            let dir = memory();
            let log = start(&options(&dir, io));
            appends(&log, threads, 2_000_000);
            g.bench_function(format!("{name}, {threads} threads"), |b| b.iter_custom(|n| appends(&log, threads, n)));
            log.close().expect("closed");
        }
    }
    g.finish();

    let mut g = c.benchmark_group("fsync");
    g.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(3));
    for (name, io) in [("mapped", WalIo::Mapped), ("write", WalIo::Write)] {
        for threads in [1, 8, 100] {
            let dir = disk();
            let log = start(&options(&dir, io));
            commits(&log, threads, 200 * threads);
            g.bench_function(format!("{name}, {threads} threads"), |b| b.iter_custom(|n| commits(&log, threads, n)));
            log.close().expect("closed");
        }
    }
    g.finish();

    let mut g = c.benchmark_group("recover");
    let dir = memory();
    let mut o = options(&dir, WalIo::Mapped);
    o.sync_interval_ms = 0;
    let log = start(&o);
    let mut record = RecordBuffer::new();
    for i in 0..1_000_000 {
        encode(&mut record, i);
        append(&log, &mut record);
    }
    drop(log);
    g.throughput(Throughput::Elements(1_000_000)).sample_size(10);
    g.bench_function("1 M records", |b| {
        b.iter(|| {
            let mut cells = 0;
            let r = recover(
                &OsEnv,
                &o,
                Known { first_segment: 1, synced: region::ids::LogPosition(0) },
                true,
                &mut |record: &region::wal::Record<'_>| {
                    cells += record.cells().count();
                    Ok(())
                },
                &mut |_, _| false,
            );
            assert_eq!((r.expect("recovered").last, cells), (1_000_000, 1_000_000));
        });
    });
    g.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
