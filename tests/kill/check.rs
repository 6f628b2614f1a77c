//! What must be true of the region after a kill.

use crate::child::Rows;
use crate::plan::{ALL, BATCH, COUNTERS, FIRST_ONCE, GROUPS, PACKED, Plan, Way, batch_row, counter_row, nonce, once_row, options};
use crate::shared::{Entry, UNEQUAL};
use crate::{has_manifest, number};
use region::clock::Timeout;
use region::options::{OpenFlags, ReadOptions, RegionOptions, WriteOptions};
use region::region::{BatchOutcome, CloseFlags, CommitInfo, Key, OpResult, Region};

/// The counters as the check before found them; those of the groups come last.
#[derive(Default)]
pub struct Truth {
    values: Vec<u64>,
    /// Calls with a nonce that have not been made again yet.
    owed: Vec<Owed>,
    /// What all calls with a nonce, each counted once, add up to.
    once: Vec<u64>,
}

/// A call with a nonce, and what it was answered; 0: nothing.
struct Owed {
    nonce: u64,
    steps: Vec<Entry>,
}

/// Of the recovery report.
#[derive(Default)]
pub struct Report {
    /// Records begun and not finished.
    pub cut_tails: u64,
}

impl Truth {
    /// Opens the region and compares it with what the child has written down.
    pub fn check(&mut self, plan: &Plan, entries: &[Entry], read_only: bool) -> Result<Report, String> {
        self.values.resize(ALL, 0);
        self.once.resize(ALL, 0);
        self.owe(plan, entries);
        if !has_manifest(&plan.dir) {
            return if entries.is_empty() {
                Ok(Report::default())
            } else {
                Err("no manifest, though the child had opened the region".into())
            };
        }
        let o = RegionOptions { flags: OpenFlags { read_only, ..OpenFlags::default() }, families: Vec::new(), ..options(plan) };
        let region = Region::open(&plan.dir, o, None, None).map_err(|e| format!("open after the kill: {e:?}"))?;
        let report = region.recovery_report().map_err(|e| e.to_string())?;
        let values = read(&region)?;
        for (counter, value) in values.iter().enumerate() {
            steps(counter, self.values[counter], *value, entries).map_err(|e| format!("{e}; recovery: {report}"))?;
        }
        self.values = values;
        if !read_only {
            self.repeat(&region).map_err(|e| format!("{e}; recovery: {report}"))?;
            region.close(CloseFlags::default(), Timeout::from_micros(10_000_000)).map_err(|e| format!("close: {e:?}"))?;
        }
        Ok(Report { cut_tails: number(&report, "cut_tails") })
    }
}

impl Truth {
    /// Notes the calls with a nonce of one child.
    fn owe(&mut self, plan: &Plan, entries: &[Entry]) {
        for thread in 0..plan.threads {
            let n = match Way::of(thread) {
                Way::SingleOnce => 1,
                Way::PackedOnce => PACKED,
                _ => continue,
            };
            let mine: Vec<Entry> = entries.iter().filter(|e| e.thread == thread).copied().collect();
            // A call that was not written down whole was not made.
            for steps in mine.chunks_exact(n) {
                steps.iter().for_each(|e| self.once[e.counter] += e.delta);
                self.owed.push(Owed { nonce: nonce(plan.seed, thread, steps[0].index), steps: steps.to_vec() });
            }
        }
    }
    /// Makes all calls with a nonce again, whatever had become of them: those that were answered are answered the same, and each counts once.
    fn repeat(&mut self, region: &Region) -> Result<(), String> {
        for Owed { nonce, steps } in self.owed.drain(..) {
            let rows = Rows(steps.iter().map(|e| (once_row(e.counter), e.delta as i64)).collect());
            let o = WriteOptions { nonce, ..WriteOptions::DEFAULT };
            let mut answers = vec![(0, 0); steps.len()];
            let outcome = region.increment_many(&rows, &o, &mut CommitInfo::default(), &mut |i, r| answers[i] = (r.value as u64, r.flags));
            if !matches!(outcome, Ok(BatchOutcome::Done)) {
                return Err(format!("nonce {nonce}: {outcome:?}"));
            }
            for (step, (value, flags)) in steps.iter().zip(answers) {
                if step.answer != 0 && (value != step.answer || flags & OpResult::DUPLICATE == 0) {
                    return Err(format!("NON-01: nonce {nonce}: {step:?}, and after the kill it is answered {value}, flags {flags}"));
                }
            }
        }
        self.values = read(region)?;
        match (FIRST_ONCE..ALL).find(|c| self.values[*c] != self.once[*c]) {
            Some(c) => {
                Err(format!("NON-01: counter {c} holds {}; its calls, each counted once, add up to {}", self.values[c], self.once[c]))
            }
            None => Ok(()),
        }
    }
}

/// All values; an error if the counters of a group differ.
fn read(region: &Region) -> Result<Vec<u64>, String> {
    // A region that was killed before it had its family has no counters.
    let Some(family) = region.family_id(b"cf").map_err(|e| e.to_string())? else { return Ok(vec![0; ALL]) };
    let value = |row: &[u8]| -> Result<u64, String> {
        let found = region.counter_get(None, &ReadOptions::DEFAULT, Key { family: family.0, row, qual: b"n" });
        Ok(found.map_err(|e| format!("read: {e:?}"))?.map_or(0, |(value, _)| value as u64))
    };
    let mut all = (0..COUNTERS).map(|c| value(&counter_row(c))).collect::<Result<Vec<_>, _>>()?;
    for group in 0..GROUPS {
        let members = (0..BATCH).map(|i| value(&batch_row(group, i))).collect::<Result<Vec<_>, _>>()?;
        if members.iter().any(|v| *v != members[0]) {
            return Err(format!("P-D2: half of an atomic batch: group {group} holds {members:?}"));
        }
        all.push(members[0]);
    }
    for counter in FIRST_ONCE..ALL {
        all.push(value(&once_row(counter))?);
    }
    Ok(all)
}

/// One counter went from `start` to `value`.
fn steps(counter: usize, start: u64, value: u64, entries: &[Entry]) -> Result<(), String> {
    let mine = || entries.iter().filter(|e| e.counter == counter);
    let attempted: u64 = mine().map(|e| e.delta).sum();
    let acknowledged: u64 = mine().filter(|e| e.answer != 0).map(|e| e.delta).sum();
    if value < start + acknowledged || value > start + attempted {
        return Err(format!(
            "P-D1, P-C1: counter {counter} holds {value}, after {start} before: {acknowledged} were acknowledged, {attempted} attempted"
        ));
    }
    let mut answers: Vec<(u64, u64)> = mine().filter(|e| e.answer != 0).map(|e| (e.answer, e.delta)).collect();
    answers.sort_unstable();
    let mut below = start;
    for (answer, delta) in answers {
        if answer == UNEQUAL {
            return Err(format!("P-V2: a batch on group {} was answered with values that differ", counter - COUNTERS));
        }
        if answer < below + delta || answer > value {
            return Err(format!("P-C1: counter {counter} answered {answer} to +{delta}, though it had answered {below}; it holds {value}"));
        }
        below = answer;
    }
    Ok(())
}
