//! One verb, so many times: what `tools/instructions.sh` counts the instructions of. Not a benchmark by itself.
//!
//! `instructions VERB CALLS DIR`: 1,000 rows with one counter and one value each are made first, then VERB is called on them in turn.

use region::options::{FamilySpec, OpenFlags, ReadOptions, RegionOptions, WriteOptions};
use region::region::{CommitInfo, Increment, Increments, Key, Pinned, Region, ValueSink};
use std::path::Path;

const ROWS: u64 = 1_000;
const W: &WriteOptions = &WriteOptions::DEFAULT;
const R: &ReadOptions = &ReadOptions::DEFAULT;

struct Many(u64);
impl Increments for Many {
    fn len(&self) -> usize {
        100
    }
    fn get(&self, i: usize) -> Increment<'_> {
        Increment { family: 1, row: name(self.0 + i as u64), qual: b"hits", delta: 1 }
    }
}

struct Sink([u8; 16]);
impl ValueSink for Sink {
    fn fits(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.get_mut(..len)
    }
    fn pin(&mut self, _: Box<dyn Pinned>) {}
}

/// Names of rows, made once.
fn name(k: u64) -> &'static [u8] {
    static NAMES: std::sync::OnceLock<Vec<[u8; 10]>> = std::sync::OnceLock::new();
    let make = || (0..ROWS).map(|k| format!("us{k:08}").into_bytes().try_into().expect("10 bytes")).collect();
    &NAMES.get_or_init(make)[(k % ROWS) as usize]
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|a| a != "--bench");
    let (verb, calls, dir) = (args.next().expect("VERB"), args.next().expect("CALLS"), args.next().expect("DIR"));
    let calls: u64 = calls.parse().expect("CALLS is a number");
    let options = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("f")],
        // No sync in the background: its instructions would depend on the time.
        sync_interval_ms: 3_600_000,
        ..RegionOptions::default()
    };
    let r = Region::open(Path::new(&dir), options, None, None).expect("the region opens");
    let mut info = CommitInfo::default();
    for k in 0..ROWS {
        r.increment(name(k), 1, b"hits", 1, W, &mut info).expect("counts");
        r.put(name(k), 1, b"text", b"ten bytes!", W, &mut info).expect("puts");
    }
    repeat(&r, &verb, calls);
}

/// What is counted: `tools/instructions.sh` switches callgrind on at its beginning, and off at its end.
#[inline(never)]
fn repeat(r: &Region, verb: &str, calls: u64) {
    let (mut info, mut sink) = (CommitInfo::default(), Sink([0; 16]));
    let counter = |k| Key { family: 1, row: name(k), qual: b"hits" };
    for k in 0..calls {
        match verb {
            "increment" => drop(r.increment(name(k), 1, b"hits", 1, W, &mut info).expect("counts")),
            "increments of 100" => drop(r.increment_many(&Many(k), W, &mut info, &mut |_, _| {}).expect("counts")),
            "put" => r.put(name(k), 1, b"text", b"ten bytes!", W, &mut info).expect("puts"),
            "counter_get" => drop(r.counter_get(None, R, counter(k)).expect("reads")),
            "get" => drop(r.get(None, R, Key { qual: b"text", ..counter(k) }, &mut sink).expect("reads")),
            other => panic!("no verb {other:?}"),
        }
    }
}
