//! One thread: after each call the engine's answer is the model's, and every few calls so is everything it holds.

use crate::calls::{Call, Outcome, Told};
use crate::ops::{Mix, Op, Verb};
use crate::reads::{Read, Span};
use crate::rng::Rng;
use crate::spec::{ALWAYS, At};
use crate::words;
use crate::world::{LONG, World};
use region::options::ReadOptions;
use region::region::{CommitInfo, Snapshot};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Every so many calls all is compared.
const WHOLE_EVERY: usize = 25;

/// Runs `ops` on a new region; where engine and model differ: at which call, and how.
pub fn run(seed: u64, ops: &[Op]) -> Result<(), (usize, String)> {
    let mut at = 0;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed);
        let mut snapshots: [Option<(Snapshot, u64)>; 3] = [None, None, None];
        for (i, op) in ops.iter().enumerate() {
            at = i;
            step(&mut world, &mut snapshots, op)?;
            if op.verb.is_write() {
                rows_of(&world, op)?;
            }
            if i % WHOLE_EVERY == WHOLE_EVERY - 1 || i + 1 == ops.len() {
                whole(&world, None)?;
                for (snapshot, seq) in snapshots.iter().flatten() {
                    whole(&world, Some((snapshot, *seq)))?;
                }
            }
        }
        drop(snapshots);
        world.end()
    }));
    match caught {
        Ok(result) => result.map_err(|why| (at, why)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
            Err((at, format!("panic: {}", text.unwrap_or("?"))))
        }
    }
}

type Snapshots = [Option<(Snapshot, u64)>; 3];

fn step(world: &mut World, snapshots: &mut Snapshots, op: &Op) -> Result<(), String> {
    let slot = (op.n[0] % 8) as u8;
    match op.verb {
        Verb::SnapOpen => {
            let snapshot = world.region().snapshot(LONG).map_err(|e| format!("snapshot: {e:?}"))?;
            if snapshot.seq() != world.seq {
                return Err(format!("the snapshot's number is {}, the last commit's {}", snapshot.seq(), world.seq));
            }
            snapshots[op.n[0] as usize % 3] = Some((snapshot, world.seq));
        }
        Verb::SnapDrop => snapshots[op.n[0] as usize % 3] = None,
        Verb::Seal => world.region().seal().map_err(|e| format!("seal: {e:?}"))?,
        Verb::Reopen | Verb::Kill => {
            *snapshots = [None, None, None];
            world.reopen(op.verb == Verb::Kill);
            whole(world, None)?;
        }
        Verb::Clock => world.clock.advance(op.n[0]),
        Verb::FamilySet => world.family_set(slot, &words::family(op.n[1] as u8 % 8))?,
        Verb::FamilyDrop => world.family_drop(slot)?,
        verb if verb.is_read() => {
            let read = Read::new(op, world.now(), &|slot| world.id(slot));
            let of = (op.n[0] > 0).then(|| snapshots[(op.n[0] as usize - 1) % 3].as_ref()).flatten();
            let cut = of.map_or(world.seq, |(_, seq)| *seq);
            let expected = read.expected(&world.model, At { cut, now: world.now() });
            let told = read.ask(world.region(), of.map(|(snapshot, _)| snapshot));
            if !expected.allows(&told) {
                return Err(format!("told    {told:?}\nexpected {expected:?}"));
            }
        }
        _ => write(world, op)?,
    }
    Ok(())
}

/// A call that writes: asks the engine, and writes to the model what it should have written.
fn write(world: &mut World, op: &Op) -> Result<(), String> {
    let call = Call::new(op, world.now(), &|slot| world.id(slot));
    let (told, info) = call.perform(world.region());
    let mut commit = CommitInfo::default();
    let mut allowed: Vec<Told> = Vec::new();
    if let Some(kind) = call.refused() {
        allowed.push(Told { outcome: Outcome::Failed(kind), results: vec![None; call.parts.len()], left: None });
    } else {
        let (groups, runs) = call.groups();
        let mut good = Vec::new();
        for run in runs {
            let groups = &groups[run];
            let tick = world.tick(groups.iter().filter(|g| !g.row.is_empty()).map(|g| g.row.as_slice()));
            let mut ends = call.run(&world.model, groups, world.at(), tick);
            if ends.len() > 1 {
                allowed = ends.into_iter().map(|end| call.told(&[end])).collect();
                break;
            }
            let end = ends.remove(0);
            let written = end.written.clone();
            good.push(end);
            if written.iter().all(|(_, draft)| draft.is_empty()) {
                continue;
            }
            world.seq += 1;
            (commit.seq, commit.timestamp) = (world.seq, tick);
            groups.iter().filter(|g| !g.row.is_empty()).for_each(|g| world.ticked(&g.row, tick));
            for (row, draft) in written {
                world.model.write(&row, draft, world.seq);
            }
        }
        if allowed.is_empty() {
            allowed.push(call.told(&good));
        }
    }
    if !allowed.iter().any(|expected| call.agrees(&told, expected)) {
        return Err(format!("told    {told:?}\nexpected {allowed:?}"));
    }
    if (info.seq, info.timestamp) != (commit.seq, commit.timestamp) {
        return Err(format!("told    {info:?}\nexpected {commit:?}"));
    }
    Ok(())
}

/// The rows that a call may have touched.
fn rows_of(world: &World, op: &Op) -> Result<(), String> {
    let mut rows: Vec<u8> = op.items.iter().map(|i| i.row).filter(|&i| i != 250).collect();
    rows.sort_unstable();
    rows.dedup();
    for row in rows {
        compare(world, None, &Span::row(words::row(row)))?;
    }
    Ok(())
}

/// All that is there, in order and with every version, now or at a snapshot.
pub fn whole(world: &World, snapshot: Option<(&Snapshot, u64)>) -> Result<(), String> {
    compare(world, snapshot, &Span::all())
}

fn compare(world: &World, snapshot: Option<(&Snapshot, u64)>, span: &Span) -> Result<(), String> {
    let cut = snapshot.map_or(world.seq, |(_, seq)| seq);
    let expected = span.of(&world.model, At { cut, now: world.now() }, &ALWAYS);
    let told = span.ask(world.region(), snapshot.map(|(s, _)| s), &ReadOptions::DEFAULT).map_err(|e| format!("scan: {e:?}"))?;
    if told == expected {
        return Ok(());
    }
    let first = told.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(told.len().min(expected.len()));
    Err(format!(
        "a scan at {cut} ({}) differs at cell {first}:\ntold    {:?}\nexpected {:?}",
        if snapshot.is_some() { "a snapshot" } else { "now" },
        told.get(first),
        expected.get(first)
    ))
}

/// A history by chance.
pub fn history(seed: u64, calls: usize) -> Vec<Op> {
    let rng = &mut Rng(seed ^ 0x6869_7374);
    let mix = Mix::random(rng);
    (0..calls).map(|_| mix.any(rng)).collect()
}

/// Runs histories until `calls` calls are made. A failing one is made as short as it gets, and shown.
pub fn run_many(seed: u64, calls: usize, progress: bool) {
    let rng = &mut Rng(seed);
    let mut done = 0;
    let mut next_word = 1_000_000;
    while done < calls {
        let seed = rng.next();
        let length = if rng.one_in(4) { 1_500 } else { 50 + rng.below(400) as usize };
        let ops = history(seed, length);
        if let Err((at, why)) = run(seed, &ops) {
            fail(seed, &ops[..=at.min(ops.len() - 1)], &why);
        }
        done += length;
        if progress && done >= next_word {
            println!("{done} of {calls} calls");
            next_word = done + 1_000_000;
        }
    }
}

/// Shrinks and shows a history that fails.
pub fn fail(seed: u64, ops: &[Op], why: &str) -> ! {
    println!("seed {seed}, {} calls: {why}\nmaking it shorter …", ops.len());
    // The panics of its runs are expected and not worth a word each.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let ops = crate::shrink::shrink(ops.to_vec(), &|ops| run(seed, ops).is_err());
    std::panic::set_hook(hook);
    let why = run(seed, &ops).expect_err("it failed a moment ago").1;
    let lines: String = ops.iter().map(|op| format!("{op}\n")).collect();
    let explained: String = ops.iter().map(|op| format!("#   {op:?}\n")).collect();
    panic!(
        "engine and model differ:\n{why}\nAs a file in tests/model/regressions (the first line names the settings):\n# seed {seed}\n{lines}{explained}"
    );
}
