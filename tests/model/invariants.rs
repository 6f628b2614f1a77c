//! What is true of rows and of the whole at every instant, under full load: sixteen writers, readers of gets, rows, snapshots and scans, seals all along; and
//! again after a reopen. ATM-01, ATM-03, ATM-05, ATM-06 of HBase's scenarios, in our words.

use crate::reads::{Seen, Span};
use crate::rng::Rng;
use crate::world::{LONG, World};
use region::options::{Durability, ReadOptions, WriteOptions};
use region::region::{BatchOutcome, CommitInfo, Mutation, Mutations, Op, Region, ScanSpec};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Families of `World`: one version, and three.
const ONE: u32 = 1;
const THREE: u32 = 2;

struct Ops<'a>(Vec<Mutation<'a>>);

impl Mutations for Ops<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        self.0[i]
    }
}

fn op<'a>(op: Op, family: u32, row: &'a [u8], qual: &'a [u8]) -> Mutation<'a> {
    Mutation { op, family, row, qual, value: b"", delta: 0, timestamp: 0 }
}
fn put<'a>(family: u32, row: &'a [u8], qual: &'a [u8], value: &'a [u8]) -> Mutation<'a> {
    Mutation { value, ..op(Op::Put, family, row, qual) }
}
fn add<'a>(family: u32, row: &'a [u8], qual: &'a [u8], delta: i64) -> Mutation<'a> {
    Mutation { delta, ..op(Op::Increment, family, row, qual) }
}
fn done(r: &Region, ops: Vec<Mutation<'_>>, rng: &mut Rng) {
    let level = match rng.below(20) {
        0 => Durability::FsyncWal,
        1..4 => Durability::AsyncWal,
        _ => Durability::SyncWal,
    };
    let o = WriteOptions { flags: WriteOptions::ATOMIC, durability: Some(level), ..WriteOptions::DEFAULT };
    let outcome = r.batch(&Ops(ops), &o, &mut CommitInfo::default(), &mut |_, _| {});
    assert!(matches!(outcome, Ok(BatchOutcome::Done)), "{outcome:?}");
}

const ACCOUNTS: u64 = 10;
const MONEY: i64 = 1_000;
/// ATM-06, smaller: so many columns in each family are rewritten together.
const WIDE: usize = 30;

fn account(i: u64) -> Vec<u8> {
    format!("account{i}").into_bytes()
}
fn number(value: &[u8]) -> i64 {
    i64::from_be_bytes(value.try_into().expect("a counter"))
}

/// One writer's calls.
fn write(r: &Region, calls: u64, rng: &mut Rng) {
    let quals: Vec<Vec<u8>> = (0..WIDE).map(|i| format!("c{i:02}").into_bytes()).collect();
    for _ in 0..calls {
        match rng.below(6) {
            // ATM-01: one of two columns, never both, never none.
            0 => {
                let (there, gone) = if rng.one_in(2) { (b"q1", b"q2") } else { (b"q2", b"q1") };
                done(r, vec![put(ONE, b"flip", there, b"v"), op(Op::Delete, ONE, b"flip", gone)], rng);
            }
            // ATM-03: three counters over two families.
            1 => {
                let i = 1 + rng.below(5) as i64;
                let row = b"triple";
                done(r, vec![add(ONE, row, b"q1", i), add(ONE, row, b"q2", 2 * i), add(THREE, row, b"q3", 3 * i)], rng);
            }
            // ATM-05: two complete states, made of put, delete, increment and append.
            2 => {
                let row = b"state";
                let clear = op(Op::DeleteRow, ONE, row, b"");
                let ops = if rng.one_in(2) {
                    let more = Mutation { value: b"yy", ..op(Op::Append, ONE, row, b"text") };
                    vec![clear, put(ONE, row, b"name", b"even"), put(ONE, row, b"text", b"x"), more, add(THREE, row, b"n", 2)]
                } else {
                    let family = op(Op::DeleteFamily, THREE, row, b"");
                    vec![add(THREE, row, b"n", 7), clear, put(ONE, row, b"name", b"odd"), family, add(THREE, row, b"n", 1)]
                };
                done(r, ops, rng);
            }
            // ATM-06: one value in every column of a row.
            3 => {
                let value = rng.next().to_be_bytes();
                let columns = [ONE, THREE].into_iter().flat_map(|f| quals.iter().map(move |q| (f, q)));
                done(r, columns.map(|(f, q)| put(f, b"wide", q, &value)).collect(), rng);
            }
            // Money goes from one row to another.
            _ => {
                let (from, to, amount) = (account(rng.below(ACCOUNTS)), account(rng.below(ACCOUNTS)), rng.below(50) as i64);
                done(r, vec![add(ONE, &from, b"n", -amount), add(ONE, &to, b"n", amount)], rng);
            }
        }
    }
}

/// What must be so of the row "flip", and so on; returns the sums that grow.
fn check_row(row: &[u8], cells: &[Seen]) -> i64 {
    let value = |family, qual: &[u8]| cells.iter().find(|c| c.family == family && c.qual == qual).map(|c| c.value.as_slice());
    let told = || format!("{}: {cells:?}", row.escape_ascii());
    match row {
        b"flip" => assert_eq!(cells.len(), 1, "{}", told()),
        b"triple" => {
            let [q1, q2, q3] = [(ONE, b"q1"), (ONE, b"q2"), (THREE, b"q3")].map(|(f, q)| value(f, q).map(number).unwrap_or_default());
            assert_eq!((q2, q3), (2 * q1, 3 * q1), "{}", told());
            return q1;
        }
        b"state" => {
            let all = (value(ONE, b"name"), value(ONE, b"text"), value(THREE, b"n").map(number), cells.len());
            let even = (Some(&b"even"[..]), Some(&b"xyy"[..]), Some(2), 3);
            let odd = (Some(&b"odd"[..]), None, Some(1), 2);
            assert!(all == even || all == odd, "{}", told());
        }
        b"wide" => {
            let first = &cells[0];
            let same = cells.iter().all(|c| (&c.value, c.ts, c.seq) == (&first.value, first.ts, first.seq));
            assert!(same && cells.len() == 2 * WIDE, "{}", told());
            return first.ts as i64;
        }
        _ => {}
    }
    0
}

const ROWS: [&[u8]; 4] = [b"flip", b"triple", b"state", b"wide"];

/// All rows of one scan.
fn check_all(cells: &[Seen]) {
    let mut money = 0;
    for row in cells.chunk_by(|a, b| a.row == b.row) {
        check_row(&row[0].row, row);
        if row[0].row.starts_with(b"account") {
            money += number(&row[0].value);
        }
    }
    assert_eq!(money, MONEY * ACCOUNTS as i64, "money came or went");
}

/// One reader's reads, until the writers have ended. Nothing it sees goes back.
fn read(r: &Region, writing: &AtomicU64, rng: &mut Rng) {
    let mut last = [0; ROWS.len()];
    loop {
        let last_turn = writing.load(SeqCst) == 0;
        let i = rng.below(ROWS.len() as u64) as usize;
        let span = |versions| Span { max_versions: versions, ..Span::row(ROWS[i].to_vec()) };
        let o = ReadOptions::DEFAULT;
        let one = crate::reads::row(r, None, ROWS[i]);
        let now = check_row(ROWS[i], &one);
        assert!(now >= last[i], "{} went back from {} to {now}", ROWS[i].escape_ascii(), last[i]);
        last[i] = now;
        match rng.below(3) {
            0 => check_all(&Span { max_versions: 1, ..Span::all() }.ask(r, None, &o).unwrap()),
            1 => {
                let snapshot = r.snapshot(LONG).unwrap();
                let all = Span { max_versions: 1, ..Span::all() }.ask(r, Some(&snapshot), &o).unwrap();
                check_all(&all);
                let backwards = Span { max_versions: 1, flags: ScanSpec::REVERSE, ..Span::all() };
                check_all(&backwards.ask(r, Some(&snapshot), &o).unwrap());
                // The same through the snapshot, whatever is asked how.
                let of_row: Vec<_> = all.iter().filter(|c| c.row == ROWS[i]).cloned().collect();
                assert_eq!(span(1).ask(r, Some(&snapshot), &o).unwrap(), of_row);
                let again = Span { max_versions: 1, ..Span::all() }.ask(r, Some(&snapshot), &o).unwrap();
                assert_eq!(again, all, "a snapshot changed");
            }
            _ => {}
        }
        if last_turn {
            return;
        }
    }
}

/// `writers` writers of `calls` calls each, readers, and seals; then a reopen, and all again.
pub fn under_load(seed: u64, writers: u64, readers: u64, calls: u64) {
    let mut world = World::new(seed);
    let rng = &mut Rng(seed);
    for i in 0..ACCOUNTS {
        done(world.region(), vec![add(ONE, &account(i), b"n", MONEY)], rng);
    }
    // Each row is there from the beginning.
    let quals: Vec<Vec<u8>> = (0..WIDE).map(|i| format!("c{i:02}").into_bytes()).collect();
    let wide = [ONE, THREE].into_iter().flat_map(|f| quals.iter().map(move |q| put(f, b"wide", q, b"12345678")));
    done(world.region(), wide.collect(), rng);
    done(world.region(), vec![put(ONE, b"flip", b"q1", b"v")], rng);
    done(world.region(), vec![put(ONE, b"state", b"name", b"odd"), add(THREE, b"state", b"n", 1)], rng);
    for life in 0..2 {
        let writing = AtomicU64::new(writers);
        let region = world.region();
        std::thread::scope(|s| {
            for t in 0..writers + readers + 1 {
                let (writing, mut rng) = (&writing, Rng(seed ^ (life << 32) ^ t));
                s.spawn(move || match t {
                    0 => {
                        while writing.load(SeqCst) > 0 {
                            region.seal().unwrap();
                            std::thread::yield_now();
                        }
                    }
                    t if t <= writers => {
                        let _ends = Ends(writing);
                        write(region, calls, &mut rng);
                    }
                    _ => read(region, writing, &mut rng),
                });
            }
        });
        read(region, &AtomicU64::new(0), rng);
        world.reopen(life == 1);
        read(world.region(), &AtomicU64::new(0), rng);
        check_all(&Span { max_versions: 1, ..Span::all() }.ask(world.region(), None, &ReadOptions::DEFAULT).unwrap());
    }
    world.end().unwrap();
}

/// Counts itself down at its end, by return or by panic: a failing test must not hang.
struct Ends<'a>(&'a AtomicU64);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
