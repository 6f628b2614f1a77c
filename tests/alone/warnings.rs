//! What the log says without being asked. In this binary, since a process has one logger.

use crate::short::*;
use crate::{alone, disk_dir};
use region::options::{FamilySpec, OpenFlags, RegionOptions};
use region::region::Region;
use std::sync::Mutex;
use std::time::{Duration, Instant};

struct Lines(Mutex<Vec<String>>);
static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        if record.level() <= log::Level::Warn {
            self.0.lock().unwrap().push(record.args().to_string());
        }
    }
    fn flush(&self) {}
}

/// What was said that has `part` in it.
fn said(part: &str) -> Vec<String> {
    LINES.0.lock().unwrap().iter().filter(|l| l.contains(part)).cloned().collect()
}

fn wait_for(what: &str, ready: impl Fn() -> bool) {
    let begun = Instant::now();
    while !ready() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} does not come: {:?}", LINES.0.lock().unwrap());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// BUG-33: a snapshot that is older than `snapshot_warn_ms` is named once, by its read point; so is the next one behind it. 0: never.
#[test]
fn bug_33_an_old_snapshot_is_named_in_the_log_once() {
    let _alone = alone();
    let _ = log::set_logger(&LINES);
    log::set_max_level(log::LevelFilter::Info);
    let dir = disk_dir();
    let open = |name: &str, config: &str| {
        let options = RegionOptions {
            flags: OpenFlags { create: true, ..OpenFlags::default() },
            families: vec![FamilySpec::named("cf")],
            config: format!("wal_segment_bytes=1m,sync_interval_ms=5,{config}"),
            ..RegionOptions::default()
        };
        Region::open(&dir.path().join(name), options, None, None).unwrap()
    };
    let (region, quiet) = (open("old", "snapshot_warn_ms=50"), open("quiet", "snapshot_warn_ms=0"));
    let _never = quiet.snapshot(LONG).unwrap();
    inc(&region, b"r", b"n", 1);
    let first = region.snapshot(LONG).unwrap();
    let named = |seq: u64| said(&format!("/old: a snapshot or scanner of read point {seq} has been open for "));
    wait_for("the first warning", || !named(first.seq()).is_empty());
    inc(&region, b"r", b"n", 1);
    let second = region.snapshot(LONG).unwrap();
    // It is the oldest only once the first is closed. Looks at the first in the meantime say nothing more.
    wait_for("its age", || region.stats().unwrap().oldest_snapshot_age_us > 200_000);
    assert_eq!((named(first.seq()).len(), named(second.seq()).len()), (1, 0));
    let (one, two) = (first.seq(), second.seq());
    drop(first);
    wait_for("the second warning", || !named(two).is_empty());
    drop(second);
    // The same instant again, by another snapshot: it is named, too.
    let again = region.snapshot(LONG).unwrap();
    assert_eq!(again.seq(), two);
    wait_for("the third warning", || named(two).len() == 2);
    assert_eq!((named(one).len(), said("/quiet").len()), (1, 0));
    drop(again);
    close(&region);
}
