//! A read as the engine is asked for it and as the model answers it.

use crate::calls::Bytes;
use crate::ops::{Op, Verb};
use crate::raw::Raw;
use crate::rng::Rng;
use crate::spec::{ALWAYS, At, Model, counter};
use crate::words;
use region::error::{ErrorKind, Result};
use region::options::ReadOptions;
use region::region::{ColumnFilter, Key, Keys, Region, RowSink, ScanCell, ScanSpec, Snapshot};
use std::collections::BTreeSet;
use std::ops::Range;

/// Row, family, qualifier.
pub type Column = (Vec<u8>, u32, Vec<u8>);

/// One cell that was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Seen {
    pub row: Vec<u8>,
    pub family: u32,
    pub qual: Vec<u8>,
    pub ts: u64,
    pub seq: u64,
    pub kind: u8,
    pub value: Vec<u8>,
    pub new_row: bool,
    pub row_end: bool,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |b: &[u8]| {
            format!("\"{}\"{}", b[..b.len().min(12)].escape_ascii(), if b.len() > 12 { format!("…{}", b.len()) } else { String::new() })
        };
        write!(
            f,
            "({} {} {} @{} #{} kind {} {}",
            short(&self.row),
            self.family,
            short(&self.qual),
            self.ts,
            self.seq,
            self.kind,
            short(&self.value)
        )?;
        write!(f, "{}{})", if self.new_row { " new_row" } else { "" }, if self.row_end { " row_end" } else { "" })
    }
}

impl Seen {
    fn of(c: &ScanCell<'_>) -> Self {
        Self {
            row: c.row.to_vec(),
            family: c.family,
            qual: c.qual.to_vec(),
            ts: c.timestamp,
            seq: c.seq,
            kind: c.kind as u8,
            value: c.value.to_vec(),
            new_row: c.new_row,
            row_end: c.row_end,
        }
    }
}

/// The cells of one row.
#[derive(Default)]
struct OneRow(Vec<Seen>);

impl RowSink for OneRow {
    fn restart(&mut self) {
        self.0.clear();
    }
    fn cell(&mut self, cell: &ScanCell<'_>) {
        self.0.push(Seen::of(cell));
    }
}

/// What a read answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Refused; of several reasons any may be told.
    Refused(Vec<ErrorKind>),
    /// Value, timestamp, number of each key.
    Values(Vec<Option<(Vec<u8>, u64, u64)>>),
    /// Counter and timestamp of each key.
    Counters(Vec<std::result::Result<Option<(i64, u64)>, ErrorKind>>),
    Cells(Vec<Seen>),
    /// What a raw scan may tell; the model's only.
    Raw(Raw),
}

impl Answer {
    /// Commits of which it shows something.
    pub fn numbers(&self) -> Vec<u64> {
        match self {
            Self::Values(values) => values.iter().flatten().map(|(.., seq)| *seq).collect(),
            Self::Cells(cells) => cells.iter().map(|c| c.seq).collect(),
            _ => Vec::new(),
        }
    }
    /// Whether the engine's answer is this one, the model's.
    pub fn allows(&self, told: &Self) -> bool {
        match (self, told) {
            (Self::Refused(allowed), Self::Refused(told)) => told.iter().all(|k| allowed.contains(k)),
            (Self::Raw(raw), Self::Cells(told)) => raw.allows(told),
            _ => self == told,
        }
    }
}

/// All of a row, one version of each column.
pub fn row(region: &Region, snapshot: Option<&Snapshot>, row: &[u8]) -> Vec<Seen> {
    let mut sink = OneRow::default();
    region.get_row(snapshot, &ReadOptions::DEFAULT, row, &[], 1, &mut sink).expect("a row can be read");
    sink.0
}

/// A read, resolved.
#[derive(Clone)]
pub struct Read {
    verb: Verb,
    options: ReadOptions,
    keys: Vec<Column>,
    span: Span,
}

/// What a scan covers.
#[derive(Clone, Debug, Default)]
pub struct Span {
    pub flags: u32,
    pub start: Vec<u8>,
    pub end: Vec<u8>,
    pub prefix: Vec<u8>,
    /// 0 family, 1 exact, 2 prefix, 3 range.
    pub columns: Vec<(u8, u32, Vec<u8>, Vec<u8>)>,
    pub row_limit: u64,
    pub cell_limit: u64,
    pub max_versions: u32,
    pub cells_per_row: u32,
    /// Where the scanner is sent after so many cells; not together with limits.
    pub seek: Option<(usize, Vec<u8>)>,
}

impl Span {
    /// All there is, with every version.
    pub fn all() -> Self {
        Self { max_versions: u32::MAX, ..Self::default() }
    }
    /// Every cell of one row.
    pub fn row(row: Vec<u8>) -> Self {
        Self { start: row.clone(), end: row, flags: ScanSpec::INCLUSIVE_END, ..Self::all() }
    }
    fn random(seed: u64, id: &dyn Fn(u8) -> u32) -> Self {
        let rng = &mut Rng(seed);
        let row = |rng: &mut Rng| words::row(rng.below(u64::from(words::ROWS)) as u8);
        let qual = |rng: &mut Rng| words::qual(rng.below(u64::from(words::QUALS)) as u8);
        let mut span = Self::default();
        for flag in [ScanSpec::INCLUSIVE_END, ScanSpec::EXCLUSIVE_START, ScanSpec::KEYS_ONLY, ScanSpec::REVERSE] {
            if rng.one_in(3) {
                span.flags |= flag;
            }
        }
        if rng.one_in(3) {
            span.start = row(rng);
        }
        if rng.one_in(3) {
            span.end = row(rng);
        }
        if rng.one_in(4) {
            span.prefix = row(rng);
            span.prefix.truncate(1 + rng.below(3) as usize);
        }
        if rng.one_in(2) {
            for _ in 0..1 + rng.below(3) {
                let family = if rng.one_in(30) { 999 } else { id(rng.below(6) as u8) };
                span.columns.push((rng.below(4) as u8, family, qual(rng), qual(rng)));
            }
        }
        if rng.one_in(4) {
            span.row_limit = 1 + rng.below(3);
        }
        if rng.one_in(4) {
            span.cell_limit = 1 + rng.below(10);
        }
        if rng.one_in(4) {
            span.cells_per_row = 1 + rng.below(3) as u32;
        }
        span.max_versions = rng.below(5) as u32;
        match rng.below(8) {
            // How much of what is deleted is still there is not known, so nothing can be counted.
            0 => {
                span.flags |= ScanSpec::RAW;
                span.columns.clear();
                (span.row_limit, span.cell_limit, span.cells_per_row) = (0, 0, 0);
            }
            1 => {
                span.seek = Some((rng.below(12) as usize, row(rng)));
                (span.row_limit, span.cell_limit) = (0, 0);
            }
            _ => {}
        }
        span
    }
    pub fn shows_row(&self, row: &[u8]) -> bool {
        let has = |flag| self.flags & flag != 0;
        let backwards = has(ScanSpec::REVERSE);
        let (start, end) = (self.start.as_slice(), self.end.as_slice());
        let after_start =
            start.is_empty() || row == start && !has(ScanSpec::EXCLUSIVE_START) || if backwards { row < start } else { row > start };
        let before_end = end.is_empty() || row == end && has(ScanSpec::INCLUSIVE_END) || if backwards { row > end } else { row < end };
        after_start && before_end && row.starts_with(&self.prefix)
    }
    fn shows_column(&self, family: u32, qual: &[u8]) -> bool {
        self.columns.is_empty()
            || self.columns.iter().any(|(kind, f, q, to)| {
                *f == family
                    && match kind {
                        0 => true,
                        1 => qual == q,
                        2 => qual.starts_with(q),
                        _ => qual >= q.as_slice() && (to.is_empty() || qual < to.as_slice()),
                    }
            })
    }
    /// The model's answer.
    pub fn of(&self, model: &Model, at: At, range: &Range<u64>) -> Vec<Seen> {
        let Some((after, row)) = &self.seek else { return self.walk(model, at, range, None) };
        let mut cells = self.walk(model, at, range, None);
        cells.truncate(*after);
        cells.extend(self.walk(model, at, range, Some(row)));
        cells
    }
    fn walk(&self, model: &Model, at: At, range: &Range<u64>, from: Option<&Vec<u8>>) -> Vec<Seen> {
        let rows: BTreeSet<&Vec<u8>> = model.columns.keys().map(|(row, ..)| row).filter(|r| self.shows_row(r)).collect();
        let mut rows: Vec<_> = rows.into_iter().collect();
        if self.flags & ScanSpec::REVERSE != 0 {
            rows.reverse();
            rows.retain(|r| from.is_none_or(|from| *r <= from));
        } else {
            rows.retain(|r| from.is_none_or(|from| *r >= from));
        }
        let mut all = Vec::new();
        let mut shown_rows = 0;
        for row in rows {
            let mut cells = Vec::new();
            for (r, family, qual) in model.columns.keys().filter(|(r, ..)| r == row) {
                if self.shows_column(*family, qual) {
                    let versions = model.shown(r, *family, qual, at, range);
                    for c in versions.iter().take(self.max_versions.max(1) as usize) {
                        let value = if self.flags & ScanSpec::KEYS_ONLY != 0 { Vec::new() } else { c.value.to_vec() };
                        let (row, qual) = (r.clone(), qual.clone());
                        let kind = c.kind as u8;
                        cells.push(Seen { row, family: *family, qual, ts: c.ts, seq: c.seq, kind, value, new_row: false, row_end: false });
                    }
                }
            }
            if self.cells_per_row != 0 {
                cells.truncate(self.cells_per_row as usize);
            }
            if cells.is_empty() {
                continue;
            }
            if self.row_limit != 0 && shown_rows == self.row_limit {
                break;
            }
            shown_rows += 1;
            let last = cells.len() - 1;
            cells[0].new_row = true;
            cells[last].row_end = true;
            all.extend(cells);
        }
        if self.cell_limit != 0 {
            all.truncate(self.cell_limit as usize);
        }
        all
    }
    /// The engine's.
    pub fn ask(&self, region: &Region, snapshot: Option<&Snapshot>, options: &ReadOptions) -> Result<Vec<Seen>> {
        let columns: Vec<ColumnFilter<'_>> = self.columns.iter().map(filter).collect();
        let spec = ScanSpec {
            flags: self.flags,
            start_row: &self.start,
            end_row: &self.end,
            row_prefix: &self.prefix,
            columns: &columns,
            row_limit: self.row_limit,
            cell_limit: self.cell_limit,
            max_versions: self.max_versions,
            cells_per_row: self.cells_per_row,
        };
        let mut scanner = region.scanner(snapshot, options, &spec)?;
        let mut seen = Vec::new();
        let mut seek = self.seek.as_ref();
        loop {
            if let Some((_, row)) = seek.filter(|(after, _)| *after == seen.len()) {
                scanner.seek(row)?;
                seek = None;
            }
            let Some(c) = scanner.next()? else { break };
            seen.push(Seen::of(&c));
        }
        // Sent on from its end.
        if let Some((_, row)) = seek {
            scanner.seek(row)?;
            while let Some(c) = scanner.next()? {
                seen.push(Seen::of(&c));
            }
        }
        Ok(seen)
    }
}

fn filter((kind, family, qual, to): &(u8, u32, Vec<u8>, Vec<u8>)) -> ColumnFilter<'_> {
    match kind {
        0 => ColumnFilter::Family(*family),
        1 => ColumnFilter::Exact(*family, qual),
        2 => ColumnFilter::Prefix(*family, qual),
        _ => ColumnFilter::Range(*family, qual, to),
    }
}

impl Read {
    pub fn new(op: &Op, now: u64, id: &dyn Fn(u8) -> u32) -> Self {
        let bound = |code: u64| if code == 0 { 0 } else { words::timestamp(code as u8, now) };
        let options = ReadOptions { min_ts: bound(op.n[1]), max_ts: bound(op.n[2]), ..ReadOptions::DEFAULT };
        let keys: Vec<Column> = op.items.iter().map(|i| (words::row(i.row), id(i.fam), words::qual(i.qual))).collect();
        let span = match op.verb {
            Verb::GetRow => {
                let chosen = Span::random(op.n[3] & !0xf, id);
                Span { columns: chosen.columns, max_versions: chosen.max_versions, ..Span::row(keys[0].0.clone()) }
            }
            _ => Span::random(op.n[3], id),
        };
        Self { verb: op.verb, options, keys, span }
    }
    /// The first key's row.
    pub fn row(&self) -> &[u8] {
        &self.keys[0].0
    }
    /// The parts that are read at one instant each, without a snapshot, with their answers.
    pub fn by_row(&self, answer: &Answer) -> Vec<(Self, Answer)> {
        let one = |i: usize| Self { verb: self.verb, options: self.options, keys: vec![self.keys[i].clone()], span: self.span.clone() };
        match answer {
            Answer::Values(values) if self.verb == Verb::GetMany => {
                values.iter().enumerate().map(|(i, v)| (one(i), Answer::Values(vec![v.clone()]))).collect()
            }
            Answer::Counters(counters) => counters.iter().enumerate().map(|(i, c)| (one(i), Answer::Counters(vec![*c]))).collect(),
            _ => vec![(Self { keys: self.keys.clone(), ..one(0) }, answer.clone())],
        }
    }
    fn range(&self) -> Range<u64> {
        let o = &self.options;
        o.min_ts..if o.max_ts == 0 { ALWAYS.end } else { o.max_ts }
    }

    pub fn expected(&self, model: &Model, at: At) -> Answer {
        let mut refused = Vec::new();
        let range = self.range();
        if range.start > range.end {
            refused.push(ErrorKind::Invalid);
        }
        if self.verb == Verb::Scan || self.verb == Verb::GetRow {
            if self.span.columns.iter().any(|(_, f, ..)| !model.families.contains_key(f)) {
                refused.push(ErrorKind::NoFamily);
            }
            if self.verb == Verb::GetRow && self.keys[0].0.is_empty() {
                refused.push(ErrorKind::Invalid);
            }
            if !refused.is_empty() {
                return Answer::Refused(refused);
            }
            if self.span.flags & ScanSpec::RAW != 0 {
                return Answer::Raw(Raw::new(&self.span, model, at, &range));
            }
            let mut cells = self.span.of(model, at, &range);
            if self.verb == Verb::GetRow {
                // Its end is the row's.
                cells.iter_mut().for_each(|c| c.row_end = false);
            }
            return Answer::Cells(cells);
        }
        let newest = |(row, family, qual): &Column| model.shown(row, *family, qual, at, &range).into_iter().next();
        let wrong = |(row, family, _): &Column| {
            let mut why = refused.clone();
            if row.is_empty() {
                why.push(ErrorKind::Invalid);
            }
            if !model.families.contains_key(family) {
                why.push(ErrorKind::NoFamily);
            }
            why
        };
        if self.verb == Verb::CounterGet {
            let one = |key: &Column| match wrong(key).first() {
                Some(kind) => Err(*kind),
                None => newest(key).map(|c| counter(&c.value).map(|n| (n, c.ts)).ok_or(ErrorKind::NotCounter)).transpose(),
            };
            return Answer::Counters(self.keys.iter().map(one).collect());
        }
        match self.keys.iter().map(wrong).find(|why| !why.is_empty()) {
            Some(why) => Answer::Refused(why),
            None => Answer::Values(self.keys.iter().map(|k| newest(k).map(|c| (c.value.to_vec(), c.ts, c.seq))).collect()),
        }
    }

    pub fn ask(&self, region: &Region, snapshot: Option<&Snapshot>) -> Answer {
        let o = &self.options;
        let refused = |e: region::Error| Answer::Refused(vec![e.kind()]);
        match self.verb {
            Verb::Get => {
                let (row, family, qual) = &self.keys[0];
                let mut sink = Bytes::default();
                match region.get(snapshot, o, Key { family: *family, row, qual }, &mut sink) {
                    Ok(found) => Answer::Values(vec![found.map(|f| (sink.0, f.timestamp, f.seq))]),
                    Err(e) => refused(e),
                }
            }
            Verb::CounterGet => {
                let mut counters = Vec::new();
                let asked = region.counter_get_many(snapshot, o, self, &mut |_, r| counters.push(r.map_err(|e| e.kind())));
                asked.map_or_else(refused, |()| Answer::Counters(counters))
            }
            Verb::GetMany => {
                let mut values = Vec::new();
                let asked = region.get_many(snapshot, o, self, usize::MAX, &mut |_, found| {
                    values.push(found.map(|(f, bytes)| (bytes.to_vec(), f.timestamp, f.seq)));
                    true
                });
                asked.map_or_else(refused, |()| Answer::Values(values))
            }
            Verb::GetRow => {
                let mut sink = OneRow::default();
                let columns: Vec<_> = self.span.columns.iter().map(filter).collect();
                match region.get_row(snapshot, o, &self.keys[0].0, &columns, self.span.max_versions, &mut sink) {
                    Ok(()) => Answer::Cells(sink.0),
                    Err(e) => refused(e),
                }
            }
            _ => self.span.ask(region, snapshot, o).map_or_else(refused, Answer::Cells),
        }
    }
}

impl Keys for Read {
    fn len(&self) -> usize {
        self.keys.len()
    }
    fn get(&self, i: usize) -> Key<'_> {
        let (row, family, qual) = &self.keys[i];
        Key { family: *family, row, qual }
    }
}
