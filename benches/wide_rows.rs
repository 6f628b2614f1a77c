//! Increments uniform over 100,000 columns of one row, beside increments uniform over 100,000 rows of one column: one thread, both in turn, several times.
//! Prints nanoseconds per increment and the ratio of the medians; `WIDE_CALLS` sets the calls of a measurement.

use region::options::{FamilySpec, OpenFlags, RegionOptions, WriteOptions};
use region::region::{CloseFlags, CommitInfo, IncrementColumn, IncrementColumns, Region};
use std::time::Instant;

const COLUMNS: u64 = 100_000;
const ROUNDS: usize = 5;
const W: &WriteOptions = &WriteOptions::DEFAULT;

/// A column, and the same second one each time.
struct Two<'a>(&'a [u8]);
impl IncrementColumns for Two<'_> {
    fn len(&self) -> usize {
        2
    }
    fn get(&self, i: usize) -> IncrementColumn<'_> {
        IncrementColumn { family: 1, qual: if i == 0 { self.0 } else { b"total" }, delta: 1 }
    }
}

fn name(k: u64) -> [u8; 10] {
    let mut name = *b"us00000000";
    let mut rest = k;
    for b in name.iter_mut().skip(2).rev() {
        *b = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

/// Nanoseconds per call.
fn measure(calls: u64, seed: &mut u64, mut call: impl FnMut(&[u8; 10])) -> f64 {
    let begun = Instant::now();
    for _ in 0..calls {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        call(&name(*seed % COLUMNS));
    }
    begun.elapsed().as_nanos() as f64 / calls as f64
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let calls = std::env::var("WIDE_CALLS").ok().and_then(|v| v.parse().ok()).unwrap_or(300_000);
    let dir = tempfile::tempdir().expect("a directory");
    let options = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("f")],
        ..RegionOptions::default()
    };
    let r = Region::open(&dir.path().join("r"), options, None, None).expect("the region opens");
    let mut info = CommitInfo::default();
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let (mut rows, mut columns, mut rows_two, mut columns_two) = (vec![], vec![], vec![], vec![]);
    for k in 0..COLUMNS {
        r.increment_row(&name(k), &Two(b"n"), W, &mut info, &mut []).expect("counts");
        r.increment_row(b"wide", &Two(&name(k)), W, &mut info, &mut []).expect("counts");
    }
    for _ in 0..ROUNDS {
        rows.push(measure(calls, &mut seed, |k| {
            let _ = r.increment(k, 1, b"n", 1, W, &mut info).expect("counts");
        }));
        columns.push(measure(calls, &mut seed, |k| {
            let _ = r.increment(b"wide", 1, k, 1, W, &mut info).expect("counts");
        }));
        rows_two.push(measure(calls, &mut seed, |k| {
            let _ = r.increment_row(k, &Two(b"n"), W, &mut info, &mut []).expect("counts");
        }));
        columns_two.push(measure(calls, &mut seed, |k| {
            let _ = r.increment_row(b"wide", &Two(k), W, &mut info, &mut []).expect("counts");
        }));
    }
    for (what, rows, columns) in [("one column", rows, columns), ("and one fixed column", rows_two, columns_two)] {
        let (rows, columns) = (median(rows), median(columns));
        println!("{what}: {rows:.0} ns in {COLUMNS} rows, {columns:.0} ns in one row: {:.2} x", columns / rows);
    }
    r.close(CloseFlags::default(), region::clock::Timeout::forever()).expect("closes");
}
