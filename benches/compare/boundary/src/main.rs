//! One side of the boundary measurement: increments of one counter through the Rust crate. `boundary.c` is the same program in C, loop by loop.
//!
//! usage: `boundary_rust DIR`. Reads a number n from standard input, makes n increments, prints the nanoseconds per call; again until the end of
//! input.

use std::io::{self, BufRead, Write};
use std::time::Instant;

use region::options::{Durability, FamilySpec, OpenFlags, RegionOptions, WriteOptions};
use region::region::{CommitInfo, Region};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: boundary_rust DIR")?;
    let options = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        durability: Some(Durability::SkipWal),
        families: vec![FamilySpec { name: b"cf".to_vec(), ..FamilySpec::default() }],
        ..RegionOptions::default()
    };
    let region = Region::open(path.as_ref(), options, None, None)?;
    let family = region.family_id(b"cf")?.ok_or("the family was not created")?;
    let mut info = CommitInfo::default();
    let (mut total, mut value) = (0, 0);
    for line in io::stdin().lock().lines() {
        let n: u64 = line?.trim().parse()?;
        let start = Instant::now();
        for _ in 0..n {
            value = region.increment(b"r00000042", family.0, b"q", 1, &WriteOptions::DEFAULT, &mut info)?.value;
        }
        let ns = start.elapsed().as_nanos() as f64 / n as f64;
        let mut out = io::stdout().lock();
        writeln!(out, "{ns:.3}")?;
        out.flush()?;
        total += n;
    }
    if value as u64 != total {
        return Err(format!("{total} increments gave {value}").into());
    }
    Ok(())
}
