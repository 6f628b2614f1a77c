//! The real file system, and a process that is really killed.

use super::*;
use crate::env::os::OsEnv;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const DIR: &str = "REGION_TEST_WAL_DIR";
const FORM: &str = "REGION_TEST_WAL_IO";

fn os_options(dir: &Path, io: WalIo) -> LogOptions {
    let mut options = LogOptions::new(dir, [4; 16]);
    options.io = io;
    // Small segments, so that most kills fall near a roll.
    options.segment_bytes = 64 << 10;
    options.bytes_max = 1 << 30;
    options.sync_interval_ms = 20;
    options
}

fn recover_values(options: &LogOptions) -> (Vec<i64>, Recovered) {
    let mut found = Vec::new();
    let mut apply = |record: &Record<'_>| {
        found.extend(record.cells().map(|c| i64::from_be_bytes(c.value.try_into().unwrap())));
        Ok(())
    };
    let r = recover(&OsEnv, options, Known { first_segment: 1, synced: LogPosition(0) }, false, &mut apply, &mut |_, _| false).unwrap();
    (found, r)
}

fn open(options: &LogOptions) -> (Vec<i64>, Log) {
    let (found, r) = recover_values(options);
    let start = LogStart { first_segment: r.next_segment, last: r.last + 1, seal: r.seal, spare: r.spare.clone() };
    (found, Log::start(Arc::new(OsEnv), options.clone(), start, Arc::new(Health::new())).unwrap())
}

/// Not a test of its own: what the killed process does. Appends one value after the other and says so once it is in the log.
#[test]
fn child_that_gets_killed() {
    let (Ok(dir), Ok(form)) = (std::env::var(DIR), std::env::var(FORM)) else { return };
    let (found, log) = open(&os_options(Path::new(&dir), if form == "mapped" { WalIo::Mapped } else { WalIo::Write }));
    let mut out = std::io::stdout().lock();
    for value in found.len() as i64.. {
        append(&log, value);
        writeln!(out, "appended {value}").unwrap();
    }
}

#[test]
fn kill_9_loses_nothing_that_was_appended() {
    for (io, form) in [(WalIo::Mapped, "mapped"), (WalIo::Write, "write")] {
        let dir = tempfile::tempdir().unwrap();
        // The test directory may lie where mapping is refused; then there is nothing to test.
        if io == WalIo::Mapped && OsEnv.file_system(dir.path()) != crate::env::FsKind::Mappable {
            continue;
        }
        let options = os_options(dir.path(), io);
        let mut acknowledged = 0;
        for round in 0..4 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["wal::tests::killing::child_that_gets_killed", "--exact", "--nocapture"])
                .env(DIR, dir.path())
                .env(FORM, form)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            let wanted = acknowledged + 700 + 400 * round;
            for line in lines.by_ref() {
                // The harness prints the test's name on the first line before our output.
                let Some(value) = line.rsplit("appended ").next().and_then(|v| v.parse::<i64>().ok()) else { continue };
                acknowledged = value + 1;
                if acknowledged >= wanted {
                    break;
                }
            }
            child.kill().unwrap();
            for line in lines {
                if let Some(value) = line.strip_prefix("appended ").and_then(|v| v.parse::<i64>().ok()) {
                    acknowledged = value + 1;
                }
            }
            child.wait().unwrap();
            let (found, r) = recover_values(&options);
            assert!(found.len() as i64 >= acknowledged, "{form}, round {round}: {} of {acknowledged} are there", found.len());
            assert_eq!(found, (0..found.len() as i64).collect::<Vec<_>>(), "{form}, round {round}");
            assert!(r.report.same_kernel, "{form}, round {round}");
            assert!(acknowledged >= wanted, "{form}, round {round}: the child ended by itself");
        }
    }
}

#[test]
fn a_log_on_the_real_file_system_closes_and_comes_back() {
    for io in BOTH {
        let dir = tempfile::tempdir().unwrap();
        if io == WalIo::Mapped && OsEnv.file_system(dir.path()) != crate::env::FsKind::Mappable {
            continue;
        }
        let mut options = os_options(dir.path(), io);
        options.segment_bytes = 8 << 20;
        let (_, log) = open(&options);
        let log = Arc::new(log);
        let threads: Vec<_> = (0..4)
            .map(|t| {
                let log = Arc::clone(&log);
                std::thread::spawn(move || {
                    for i in 0..20_000 {
                        let n = append(&log, t * 100_000 + i);
                        if i % 1000 == 0 {
                            wait(&log, n).unwrap();
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        log.close().unwrap();
        let (mut found, r) = recover_values(&options);
        found.sort_unstable();
        assert_eq!(found, (0..4).flat_map(|t| t * 100_000..t * 100_000 + 20_000).collect::<Vec<_>>());
        assert_eq!((r.report.cut_tails, r.last), (0, 80_001));
        assert!(r.report.end.segment() > 1);
    }
}
