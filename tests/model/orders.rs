//! P-T4: put, delete, put of one column, in every order, in one call or several, at assigned times and explicit ones, the clock standing: what was put last is
//! shown unless something with a larger timestamp is left, and nothing changes by a seal or a reopen.

use crate::histories::{Between, Trial};
use crate::spec::{ALWAYS, At, Bounds, Change, Draft, End, Family, Keep, Model};
use region::options::WriteOptions;
use region::region::{CommitInfo, Mutation, Mutations, Op};

/// Where the clock stands.
const CLOCK: u64 = 50;
/// Assigned, past, now, the first tick a second commit gets, future.
const TIMES: [u64; 5] = [0, 5, CLOCK, CLOCK + 1, 99];
const DELETES: [Op; 5] = [Op::Delete, Op::DeleteVersion, Op::DeleteFamily, Op::DeleteFamilyVersion, Op::DeleteRow];
/// How three operations fall into calls: where a new one begins.
const CALLS: [&[usize]; 4] = [&[0], &[0, 1], &[0, 2], &[0, 1, 2]];

struct Call<'c>(&'c [u8], &'c [Change]);

impl Mutations for Call<'_> {
    fn len(&self) -> usize {
        self.1.len()
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        let c = &self.1[i];
        let family = if c.op == Op::DeleteRow { 0 } else { c.family };
        Mutation { op: c.op, family, row: self.0, qual: &c.qual, value: &c.value, delta: c.delta, timestamp: c.ts }
    }
}

/// Every sequence of a delete and two puts, each at every time.
fn sequences() -> Vec<Vec<Change>> {
    let change = |op, ts, value: &str| Change { op, family: 1, qual: b"q".to_vec(), value: value.as_bytes().into(), delta: 0, ts };
    let mut all = Vec::new();
    for delete in DELETES {
        for place in 0..3 {
            for times in 0..TIMES.len().pow(3) {
                let time = |i: u32| TIMES[times / TIMES.len().pow(i) % TIMES.len()];
                let mut ops = vec![change(Op::Put, time(0), "first"), change(Op::Put, time(1), "second")];
                ops.insert(place, change(delete, time(2), ""));
                if delete != Op::DeleteFamilyVersion || time(2) != 0 {
                    all.push(ops);
                }
            }
        }
    }
    all
}

pub fn every_order(what: Between) {
    let mut trial = Trial::new(CLOCK);
    let mut rows: Vec<(Vec<u8>, Model, String)> = Vec::new();
    for ops in sequences() {
        for starts in CALLS {
            let row = format!("{:05}", rows.len()).into_bytes();
            let story = format!("{:?} in calls from {starts:?}", ops.iter().map(|c| (c.op, c.ts)).collect::<Vec<_>>());
            let mut model = Model::default();
            for id in [1, 2] {
                model.families.insert(id, Family { max: id as usize, min: 0, ttl: None, keep: Keep::No, past: Vec::new() });
            }
            let mut put_at = Vec::new();
            for (n, &start) in starts.iter().enumerate() {
                let changes = &ops[start..starts.get(n + 1).copied().unwrap_or(ops.len())];
                let mut info = CommitInfo::default();
                trial.region().batch(&Call(&row, changes), &WriteOptions::DEFAULT, &mut info, &mut |_, _| {}).unwrap();
                put_at.extend(changes.iter().filter(|c| c.op == Op::Put).map(|c| if c.ts == 0 { info.timestamp } else { c.ts }));
                let mut draft = Draft::default();
                let at = At { cut: u64::MAX - 1, now: CLOCK };
                let end = model.run(&row, changes, Bounds { flags: 0, min: 0, max: 0 }, at, info.timestamp, &mut draft);
                assert!(matches!(end, End::Applied(_)), "{story}: {end:?}");
                model.write(&row, draft, info.seq);
            }
            check(&trial, &row, &model, &story);
            // The promise itself: the last operation is a put, and no put has a larger timestamp.
            let last = ops.last().expect("three operations");
            if last.op == Op::Put && put_at[1] >= put_at[0] {
                let shown = trial.shown(&row, 1, &[]).remove(0);
                assert_eq!(shown.map(|(value, _)| value), Some(last.value.to_vec()), "{story}");
            }
            rows.push((row, model, story));
        }
    }
    trial.between(what);
    for (row, model, story) in &rows {
        check(&trial, row, model, &format!("{story}, then {what:?}"));
    }
}

fn check(trial: &Trial, row: &[u8], model: &Model, story: &str) {
    let at = At { cut: u64::MAX - 1, now: CLOCK };
    let expected = model.shown(row, 1, b"q", at, &ALWAYS).first().map(|c| (c.value.to_vec(), c.ts));
    assert_eq!(trial.shown(row, 1, &[]), [expected], "{story}");
}
