//! Operations as plain data: made by chance, printed one a line, read back from such lines.
//!
//! An operation names rows, families and so on by number (`words.rs`) and never depends on what came before it, so any part of a history is a history.

use crate::rng::Rng;
use crate::words;
use region::options::WriteOptions;
use region::region::{Comparison, Op as Kind};
use std::fmt;
use std::str::FromStr;

/// One element of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// 1 put, 2 delete, … 9 check, as in the C interface.
    pub kind: u8,
    pub row: u8,
    pub fam: u8,
    pub qual: u8,
    pub value: u16,
    pub ts: u8,
    pub delta: i64,
    /// Comparison of a check, from 0; 8 and up: as counters.
    pub how: u8,
}

const HOW: [Comparison; 8] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
    Comparison::Exists,
    Comparison::Absent,
];

impl Item {
    pub fn op(&self) -> Kind {
        match self.kind {
            1 => Kind::Put,
            2 => Kind::Delete,
            3 => Kind::DeleteVersion,
            4 => Kind::DeleteFamily,
            5 => Kind::DeleteRow,
            6 => Kind::Append,
            7 => Kind::Increment,
            8 => Kind::DeleteFamilyVersion,
            _ => Kind::Check { how: HOW[usize::from(self.how % 8)], as_counter: self.how >= 8 },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Put,
    Delete,
    Increment,
    IncrementRow,
    IncrementMany,
    Append,
    Batch,
    Get,
    CounterGet,
    GetMany,
    GetRow,
    Scan,
    SnapOpen,
    SnapDrop,
    Seal,
    Reopen,
    Kill,
    Clock,
    FamilySet,
    FamilyDrop,
}

const VERBS: [(Verb, &str); 20] = [
    (Verb::Put, "put"),
    (Verb::Delete, "delete"),
    (Verb::Increment, "increment"),
    (Verb::IncrementRow, "increment_row"),
    (Verb::IncrementMany, "increment_many"),
    (Verb::Append, "append"),
    (Verb::Batch, "batch"),
    (Verb::Get, "get"),
    (Verb::CounterGet, "counter_get"),
    (Verb::GetMany, "get_many"),
    (Verb::GetRow, "get_row"),
    (Verb::Scan, "scan"),
    (Verb::SnapOpen, "snap_open"),
    (Verb::SnapDrop, "snap_drop"),
    (Verb::Seal, "seal"),
    (Verb::Reopen, "reopen"),
    (Verb::Kill, "kill"),
    (Verb::Clock, "clock"),
    (Verb::FamilySet, "family_set"),
    (Verb::FamilyDrop, "family_drop"),
];

impl Verb {
    pub fn is_write(self) -> bool {
        VERBS[..7].iter().any(|(v, _)| *v == self)
    }
    pub fn is_read(self) -> bool {
        VERBS[7..12].iter().any(|(v, _)| *v == self)
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    pub verb: Verb,
    /// `WriteOptions::flags`.
    pub flags: u32,
    /// 0 the region's, 2 ASYNC, 3 SYNC, 4 FSYNC.
    pub level: u8,
    /// `WriteOptions::timestamp`, as a code.
    pub ts: u8,
    pub min: i64,
    pub max: i64,
    /// Snapshot + 1, `min_ts` and `max_ts` as codes, what a scan covers; slot and settings of a family; milliseconds of the clock.
    pub n: [u64; 4],
    pub items: Vec<Item>,
}

impl Op {
    pub fn new(verb: Verb) -> Self {
        Self { verb, flags: 0, level: 0, ts: 0, min: 0, max: 0, n: [0; 4], items: Vec::new() }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = VERBS.iter().find(|(v, _)| *v == self.verb).expect("every verb has a name").1;
        write!(
            f,
            "{name} {} {} {} {} {} {} {} {} {}",
            self.flags, self.level, self.ts, self.min, self.max, self.n[0], self.n[1], self.n[2], self.n[3]
        )?;
        for i in &self.items {
            write!(f, " | {} {} {} {} {} {} {} {}", i.kind, i.row, i.fam, i.qual, i.value, i.ts, i.delta, i.how)?;
        }
        Ok(())
    }
}

impl FromStr for Op {
    type Err = String;
    fn from_str(line: &str) -> Result<Self, String> {
        fn number<T: FromStr>(words: &mut dyn Iterator<Item = &str>, line: &str) -> Result<T, String> {
            words.next().and_then(|w| w.parse().ok()).ok_or_else(|| format!("a number is missing or too large in: {line}"))
        }
        let mut parts = line.split('|');
        let head = parts.next().unwrap_or_default();
        let w = &mut head.split_whitespace();
        let name = w.next().unwrap_or_default();
        let verb = VERBS.iter().find(|(_, n)| *n == name).ok_or_else(|| format!("no verb {name:?} in: {line}"))?.0;
        let mut op = Self {
            flags: number(w, line)?,
            level: number(w, line)?,
            ts: number(w, line)?,
            min: number(w, line)?,
            max: number(w, line)?,
            ..Self::new(verb)
        };
        for n in &mut op.n {
            *n = number(w, line)?;
        }
        for part in parts {
            let w = &mut part.split_whitespace();
            op.items.push(Item {
                kind: number(w, line)?,
                row: number(w, line)?,
                fam: number(w, line)?,
                qual: number(w, line)?,
                value: number(w, line)?,
                ts: number(w, line)?,
                delta: number(w, line)?,
                how: number(w, line)?,
            });
        }
        Ok(op)
    }
}

/// Operations of a file: one a line, `#` begins a comment.
pub fn parse(text: &str) -> Vec<Op> {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.map(|l| l.parse().unwrap_or_else(|e| panic!("{e}"))).collect()
}

/// What a history is made of.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Rows, families (slots) and qualifiers in use: fewer meet more often.
    pub rows: u8,
    pub fams: u8,
    pub quals: u8,
    /// Of 100 timestamps, so many are explicit.
    pub explicit: u64,
}

impl Mix {
    pub fn random(rng: &mut Rng) -> Self {
        Self {
            rows: 1 + rng.below(u64::from(words::ROWS)) as u8,
            fams: 1 + rng.below(7) as u8,
            quals: 1 + rng.below(u64::from(words::QUALS)) as u8,
            explicit: [0, 15, 40][rng.below(3) as usize],
        }
    }

    fn ts(&self, rng: &mut Rng) -> u8 {
        if rng.below(100) >= self.explicit {
            return 0;
        }
        // The last two stop a column, or are refused: rare.
        let most = if rng.one_in(20) { words::TIMESTAMPS } else { words::TIMESTAMPS - 2 };
        1 + rng.below(u64::from(most) - 1) as u8
    }
    fn delta(rng: &mut Rng) -> i64 {
        match rng.below(12) {
            0 => 0,
            1 => i64::MAX,
            2 => i64::MIN,
            3 => -(rng.below(100) as i64),
            _ => rng.below(10) as i64,
        }
    }
    fn item(&self, kind: u8, rng: &mut Rng) -> Item {
        let fam = match rng.below(60) {
            0 => 7,
            _ => rng.below(u64::from(self.fams)) as u8,
        };
        let explicit = matches!(kind, 1..=5 | 8) || rng.one_in(100);
        Item {
            kind,
            row: if rng.one_in(300) { 250 } else { rng.below(u64::from(self.rows)) as u8 },
            fam,
            qual: rng.below(u64::from(self.quals)) as u8,
            value: Self::value(rng),
            ts: if explicit { self.ts(rng) } else { 0 },
            delta: if kind == 9 { rng.below(12) as i64 } else { Self::delta(rng) },
            // Mostly such that are met now and then.
            how: if rng.one_in(3) { 6 + rng.below(2) as u8 } else { rng.below(16) as u8 },
        }
    }
    fn value(rng: &mut Rng) -> u16 {
        let most = if rng.one_in(4) { 5 } else { 60 };
        rng.below(most) as u16
    }
    fn kind_of_delete(rng: &mut Rng) -> u8 {
        [2, 2, 3, 3, 4, 5, 8][rng.below(7) as usize]
    }
    fn kind(&self, rng: &mut Rng) -> u8 {
        match rng.below(20) {
            0..6 => 1,
            6..10 => Self::kind_of_delete(rng),
            10..15 => 7,
            15..17 => 6,
            17 | 18 => 9,
            _ => 1,
        }
    }
    fn increment_flags(op: &mut Op, rng: &mut Rng) {
        if rng.one_in(3) {
            let flags = [
                WriteOptions::CHECK_OVERFLOW,
                WriteOptions::BOUNDED,
                WriteOptions::BOUNDED | WriteOptions::SATURATE,
                WriteOptions::SET,
                WriteOptions::RETURN_OLD,
                WriteOptions::SET | WriteOptions::RETURN_OLD,
                WriteOptions::BOUNDED | WriteOptions::RETURN_OLD,
                WriteOptions::SATURATE,
            ];
            op.flags |= flags[rng.below(flags.len() as u64) as usize];
            op.min = rng.below(40) as i64 - 20;
            op.max = op.min + rng.below(60) as i64 - 1;
        }
    }

    /// A call that writes. With `one_commit` it has one number: one row, or ATOMIC.
    pub fn write(&self, rng: &mut Rng, one_commit: bool) -> Op {
        let mut op = match rng.below(20) {
            0..4 => Op { items: vec![self.item(1, rng)], ..Op::new(Verb::Put) },
            4..7 => Op { items: vec![self.item(Self::kind_of_delete(rng), rng)], ..Op::new(Verb::Delete) },
            7..10 => Op { items: vec![self.item(7, rng)], ..Op::new(Verb::Increment) },
            10 => {
                let row = rng.below(u64::from(self.rows)) as u8;
                let items = (0..1 + rng.below(4)).map(|_| Item { row, ..self.item(7, rng) }).collect();
                Op { items, ..Op::new(Verb::IncrementRow) }
            }
            11 => {
                let items = (0..1 + rng.below(5)).map(|_| self.item(7, rng)).collect();
                Op { items, ..Op::new(Verb::IncrementMany) }
            }
            12 | 13 => Op { items: vec![self.item(6, rng)], ..Op::new(Verb::Append) },
            _ => {
                let mut items: Vec<Item> = Vec::new();
                let most = if rng.one_in(10) { 40 } else { 7 };
                for _ in 0..1 + rng.below(most) {
                    let mut item = self.item(self.kind(rng), rng);
                    // The same row, often the same column, as before.
                    if let Some(last) = items.last().filter(|_| !rng.one_in(3)) {
                        item.row = last.row;
                        if rng.one_in(2) {
                            (item.fam, item.qual) = (last.fam, last.qual);
                        }
                    }
                    items.push(item);
                }
                Op { items, ..Op::new(Verb::Batch) }
            }
        };
        if matches!(op.verb, Verb::Batch | Verb::IncrementMany) && (one_commit || rng.one_in(3)) {
            op.flags |= WriteOptions::ATOMIC;
        }
        if op.items.iter().any(|i| i.kind == 7) || rng.one_in(200) {
            Self::increment_flags(&mut op, rng);
        }
        if op.verb != Verb::Increment && rng.one_in(12) || rng.one_in(100) {
            op.ts = self.ts(rng);
        }
        op.level = [0, 0, 0, 2, 3, 4][rng.below(6) as usize];
        op
    }

    /// A call that reads; `snapshots` = how many slots there are.
    pub fn read(&self, rng: &mut Rng, snapshots: u64) -> Op {
        let verb = [Verb::Get, Verb::Get, Verb::CounterGet, Verb::GetMany, Verb::GetRow, Verb::Scan][rng.below(6) as usize];
        let mut op = Op::new(verb);
        let n = if verb == Verb::GetMany { 1 + rng.below(5) } else { 1 };
        op.items = (0..n).map(|_| self.item(0, rng)).collect();
        if snapshots > 0 && rng.one_in(2) {
            op.n[0] = 1 + rng.below(snapshots);
        }
        if rng.one_in(4) {
            op.n[1] = rng.below(u64::from(words::TIMESTAMPS));
            op.n[2] = rng.below(u64::from(words::TIMESTAMPS));
        }
        op.n[3] = rng.next() >> 16;
        op
    }

    /// Any call.
    pub fn any(&self, rng: &mut Rng) -> Op {
        let mut op = match rng.below(100) {
            0..58 => return self.write(rng, false),
            58..80 => return self.read(rng, 3),
            80..88 => {
                let most = if rng.one_in(8) { 400 } else { 8 };
                Op { n: [1 + rng.below(most), 0, 0, 0], ..Op::new(Verb::Clock) }
            }
            88..92 => Op::new(Verb::SnapOpen),
            92..95 => Op::new(Verb::SnapDrop),
            95 | 96 => Op::new(Verb::Seal),
            97 if rng.one_in(2) => Op::new(Verb::Reopen),
            97 => Op::new(Verb::Kill),
            98 => Op { n: [0, rng.below(8), 0, 0], ..Op::new(Verb::FamilySet) },
            _ if rng.one_in(4) => Op::new(Verb::FamilyDrop),
            _ => Op::new(Verb::Seal),
        };
        match op.verb {
            Verb::SnapOpen | Verb::SnapDrop => op.n[0] = rng.below(3),
            Verb::FamilySet | Verb::FamilyDrop => op.n[0] = rng.below(8),
            _ => {}
        }
        op
    }
}
