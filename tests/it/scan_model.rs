//! What scans must show, told by a model that knows a list of cells and the rules of the data model, and nothing of how they are kept.

use crate::rig::*;
use region::cell::CellType;
use region::options::{ReadOptions, WriteOptions};
use region::region::{ColumnFilter, CommitInfo, Filled, Op, ScanCell, ScanSpec, Scanner};

/// Versions that the families of a rig keep.
pub const KEPT: [(u32, usize); 3] = [(CF, 1), (CF3, 3), (OTHER, 1)];

/// One cell, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub row: Vec<u8>,
    pub family: u32,
    pub qual: Vec<u8>,
    pub ts: u64,
    pub kind: CellType,
    pub seq: u64,
    pub value: Vec<u8>,
    pub new_row: bool,
    pub row_end: bool,
}

impl Shown {
    pub fn of(c: &ScanCell<'_>) -> Self {
        Self {
            row: c.row.to_vec(),
            family: c.family,
            qual: c.qual.to_vec(),
            ts: c.timestamp,
            kind: c.kind,
            seq: c.seq,
            value: c.value.to_vec(),
            new_row: c.new_row,
            row_end: c.row_end,
        }
    }
    fn order(&self) -> impl Ord + use<> {
        use std::cmp::Reverse;
        (self.row.clone(), self.family, self.qual.clone(), Reverse(self.ts), Reverse(self.kind as u8), Reverse(self.seq))
    }
}

/// Everything that was ever written.
#[derive(Default)]
pub struct Model {
    pub cells: Vec<Shown>,
}

impl Model {
    pub fn add(&mut self, row: &[u8], family: u32, qual: &[u8], kind: CellType, value: &[u8], info: &CommitInfo) {
        let (row, qual, value) = (row.to_vec(), qual.to_vec(), value.to_vec());
        self.cells.push(Shown { row, family, qual, ts: info.timestamp, kind, seq: info.seq, value, new_row: false, row_end: false });
    }
    /// What a scan shows, without its limits.
    pub fn shows(&self, spec: &ScanSpec<'_>, o: &ReadOptions) -> Vec<Shown> {
        let range = o.range().unwrap_or(0..u64::MAX);
        let raw = spec.flags & ScanSpec::RAW != 0;
        let mut all: Vec<Shown> = self.cells.iter().filter(|c| is_in(spec, &c.row)).cloned().collect();
        all.sort_by_key(Shown::order);
        let mut seen: Vec<Shown> = Vec::new();
        for column in all.chunk_by(|a, b| (&a.row, a.family, &a.qual) == (&b.row, b.family, &b.qual)) {
            let first = &column[0];
            if !is_chosen(spec.columns, first.family, &first.qual) {
                continue;
            }
            let most = spec.max_versions.max(1) as usize;
            if raw {
                let mut values = 0;
                for cell in column.iter().filter(|c| range.contains(&c.ts)) {
                    values += usize::from(cell.kind == CellType::Put);
                    if cell.kind != CellType::Put || values <= most {
                        seen.push(cell.clone());
                    }
                }
            } else {
                let of_family = all.iter().filter(|c| c.row == first.row && c.family == first.family && is_family_marker(c.kind));
                let cells = column.iter().filter(|c| !is_family_marker(c.kind)).chain(of_family);
                let live = live(cells.cloned().collect(), kept(first.family));
                seen.extend(live.into_iter().filter(|c| range.contains(&c.ts)).take(most));
            }
        }
        if spec.flags & ScanSpec::KEYS_ONLY != 0 {
            seen.iter_mut().for_each(|c| c.value.clear());
        }
        if spec.flags & ScanSpec::REVERSE != 0 {
            let mut rows: Vec<&[Shown]> = seen.chunk_by(|a, b| a.row == b.row).collect();
            rows.reverse();
            seen = rows.concat();
        }
        seen
    }
}

/// With the limits, and what is known of rows.
pub fn limited(seen: Vec<Shown>, spec: &ScanSpec<'_>) -> Vec<Shown> {
    let mut out = Vec::new();
    let limit = |n: u64| if n == 0 { usize::MAX } else { n as usize };
    for row in seen.chunk_by(|a, b| a.row == b.row).take(limit(spec.row_limit)) {
        let row = &row[..row.len().min(limit(spec.cells_per_row.into()))];
        out.extend(row.iter().cloned().enumerate().map(|(i, c)| Shown { new_row: i == 0, row_end: i + 1 == row.len(), ..c }));
    }
    out.truncate(limit(spec.cell_limit));
    out
}

fn is_family_marker(kind: CellType) -> bool {
    matches!(kind, CellType::DeleteFamily | CellType::DeleteFamilyVersion)
}

fn kept(family: u32) -> usize {
    KEPT.iter().find(|k| k.0 == family).unwrap().1
}

/// One commit after the other: a put comes in, the worst leaves if there are too many; a marker takes out what it covers.
fn live(mut cells: Vec<Shown>, kept: usize) -> Vec<Shown> {
    cells.sort_by_key(|c| (c.seq, c.kind == CellType::Put));
    let mut live: Vec<Shown> = Vec::new();
    for cell in cells {
        match cell.kind {
            CellType::Put => {
                live.retain(|v| v.ts != cell.ts);
                live.push(cell);
                live.sort_by_key(|v| std::cmp::Reverse((v.ts, v.seq)));
                live.truncate(kept);
            }
            CellType::Delete | CellType::DeleteFamily => live.retain(|v| v.ts > cell.ts),
            CellType::DeleteVersion | CellType::DeleteFamilyVersion => live.retain(|v| v.ts != cell.ts),
        }
    }
    live
}

fn is_in(spec: &ScanSpec<'_>, row: &[u8]) -> bool {
    let has = |flag| spec.flags & flag != 0;
    let (start, end) = (spec.start_row, spec.end_row);
    let (low, high) = if has(ScanSpec::REVERSE) { (end, start) } else { (start, end) };
    let within = (low.is_empty() || row >= low) && (high.is_empty() || row <= high);
    let no_start = row == start && has(ScanSpec::EXCLUSIVE_START) && !start.is_empty();
    let no_end = row == end && !has(ScanSpec::INCLUSIVE_END) && !end.is_empty();
    within && !no_start && !no_end && row.starts_with(spec.row_prefix)
}

fn is_chosen(columns: &[ColumnFilter<'_>], family: u32, qual: &[u8]) -> bool {
    columns.is_empty()
        || columns.iter().any(|c| match *c {
            ColumnFilter::Family(f) => f == family,
            ColumnFilter::Exact(f, q) => f == family && q == qual,
            ColumnFilter::Prefix(f, p) => f == family && qual.starts_with(p),
            ColumnFilter::Range(f, from, to) => f == family && qual >= from && (to.is_empty() || qual < to),
        })
}

/// Every cell, one by one.
pub fn take_all(s: &mut Scanner) -> Vec<Shown> {
    let mut seen = Vec::new();
    while let Some(c) = s.next().unwrap() {
        seen.push(Shown::of(&c));
    }
    seen
}

/// Every cell by pages of `size()` cells each, now and then one by one; with `whole_rows` a page holds whole rows only.
pub fn take_pages(s: &mut Scanner, whole_rows: bool, random: &mut Random) -> Vec<Shown> {
    let mut seen: Vec<Shown> = Vec::new();
    let mut room = 0;
    loop {
        if random.below(4) == 0 {
            let Some(c) = s.next().unwrap() else { return seen };
            seen.push(Shown::of(&c));
            continue;
        }
        room = if room == 0 { random.below(9) as usize } else { room };
        let mut page: Vec<Shown> = Vec::new();
        let filled = s.fill(whole_rows, |c| {
            if c.new_row
                && let Some(last) = page.last_mut()
            {
                last.row_end = true;
            }
            page.len() < room && {
                page.push(Shown::of(c));
                true
            }
        });
        match filled.unwrap() {
            Filled::End { row_ended } => {
                if let Some(last) = page.last_mut() {
                    last.row_end |= row_ended;
                }
                seen.extend(page);
                assert_eq!(s.next().unwrap().map(|c| Shown::of(&c)), None, "nothing behind the end");
                return seen;
            }
            Filled::Full if whole_rows => {
                let ends = page.iter().rposition(|c| c.row_end).map_or(0, |i| i + 1);
                if ends < page.len() {
                    s.put_row_back();
                }
                page.truncate(ends);
                // A first row that does not fit needs more room.
                room = if ends == 0 { room + 1 } else { 0 };
            }
            Filled::Full => room = 0,
        }
        seen.extend(page);
    }
}

const ROWS: [&[u8]; 9] = [b"\0", b"a", b"a\0", b"a\0\0", b"ab", b"b", b"b\xff", b"\xff", b"\xff\xff"];
const QUALS: [&[u8]; 7] = [b"", b"\0", b"p", b"pa", b"pb", b"q", b"\xff"];

fn pick<'a>(random: &mut Random, of: &[&'a [u8]]) -> &'a [u8] {
    of[random.below(of.len() as u64) as usize]
}

/// Half of the time nothing.
fn perhaps<'a>(random: &mut Random, of: &[&'a [u8]]) -> &'a [u8] {
    if random.below(2) == 0 { b"" } else { pick(random, of) }
}

/// A random history: puts, deletes of every scope, explicit timestamps, counters, seals, and a reopen now and then.
fn write(mut rig: Rig, model: &mut Model, counters: bool, random: &mut Random) -> Rig {
    for i in 0..30 + random.below(200) {
        let (row, family, qual) = (pick(random, &ROWS), KEPT[random.below(3) as usize].0, pick(random, &QUALS));
        let (r, mut info) = (&rig.region, CommitInfo::default());
        // Half of the times given are those of cells that are there.
        let given = match random.below(3) {
            0 if !model.cells.is_empty() => model.cells[random.below(model.cells.len() as u64) as usize].ts + random.below(2),
            1 => 1 + random.below(9),
            _ => 0,
        };
        let o = WriteOptions { timestamp: given, ..WriteOptions::DEFAULT };
        let marker = match random.below(24) {
            0 => Some((Op::Delete, CellType::Delete)),
            1 => Some((Op::DeleteVersion, CellType::DeleteVersion)),
            2 => Some((Op::DeleteFamily, CellType::DeleteFamily)),
            3 if given != 0 => Some((Op::DeleteFamilyVersion, CellType::DeleteFamilyVersion)),
            4 => Some((Op::DeleteRow, CellType::DeleteFamily)),
            5 => {
                r.seal().unwrap();
                continue;
            }
            6 if random.below(8) == 0 => {
                rig = rig.reopen();
                continue;
            }
            7..12 if counters => {
                let n = r.increment(row, family, b"n", 1, &WriteOptions::DEFAULT, &mut info).unwrap().value;
                model.add(row, family, b"n", CellType::Put, &n.to_be_bytes(), &info);
                continue;
            }
            _ => None,
        };
        let Some((op, kind)) = marker else {
            let value = format!("value {i}").into_bytes();
            r.put(row, family, qual, &value, &o, &mut info).unwrap();
            model.add(row, family, qual, CellType::Put, &value, &timed(&info, given));
            continue;
        };
        let of_family = matches!(op, Op::DeleteFamily | Op::DeleteFamilyVersion | Op::DeleteRow);
        let qual = if of_family { b"" } else { qual };
        // Without a time it is that of the newest version there is.
        let newest = model.shows(
            &ScanSpec { start_row: row, end_row: row, flags: ScanSpec::INCLUSIVE_END, ..ScanSpec::default() },
            &ReadOptions::DEFAULT,
        );
        let newest = newest.iter().find(|c| c.family == family && c.qual == qual).map_or(0, |c| c.ts);
        r.delete(row, if op == Op::DeleteRow { 0 } else { family }, qual, op, &o, &mut info).unwrap();
        let at = if given == 0 && op == Op::DeleteVersion { newest } else { given };
        for (each, _) in KEPT.iter().filter(|k| k.0 == family || op == Op::DeleteRow) {
            model.add(row, *each, qual, kind, b"", &timed(&info, at));
        }
    }
    rig
}

fn timed(info: &CommitInfo, given: u64) -> CommitInfo {
    CommitInfo { timestamp: if given == 0 { info.timestamp } else { given }, ..*info }
}

/// The reference check: random histories, random scans, taken in every way there is.
#[test]
fn random_scans_show_what_the_model_shows() {
    let mut random = Random(seed());
    for round in 0..12 {
        let mut model = Model::default();
        // An increment overwrites versions that nobody can be shown; so what is stored of a counter is not told by its history.
        let counters = round % 2 == 1;
        let rig = write(Rig::new(""), &mut model, counters, &mut random);
        let first_ts = model.cells.iter().map(|c| c.ts).collect::<Vec<_>>();
        for _ in 0..150 {
            let random = &mut random;
            let some_ts = first_ts[random.below(first_ts.len() as u64) as usize];
            let (family, other) = (KEPT[random.below(3) as usize].0, KEPT[random.below(3) as usize].0);
            let columns = [
                [
                    ColumnFilter::Family(family),
                    ColumnFilter::Prefix(family, pick(random, &QUALS)),
                    ColumnFilter::Exact(family, pick(random, &QUALS)),
                ][random.below(3) as usize],
                [
                    ColumnFilter::Exact(other, pick(random, &QUALS)),
                    ColumnFilter::Range(other, pick(random, &QUALS), perhaps(random, &QUALS)),
                ][random.below(2) as usize],
            ];
            let mut flags = random.next() as u32 & ScanSpec::FLAGS_ALL;
            if random.below(2) == 0 {
                flags &= !(ScanSpec::RAW | ScanSpec::KEYS_ONLY);
            }
            if counters {
                flags &= !ScanSpec::RAW;
            }
            let raw = flags & ScanSpec::RAW != 0;
            let mut spec = ScanSpec {
                flags,
                start_row: perhaps(random, &ROWS),
                end_row: perhaps(random, &ROWS),
                row_prefix: perhaps(random, &[b"a", b"b", b"\xff", b"a\0"]),
                columns: if raw { &[] } else { &columns[..random.below(3) as usize] },
                max_versions: random.below(5) as u32,
                ..ScanSpec::default()
            };
            let o = match random.below(6) {
                0 => ReadOptions { min_ts: some_ts, ..ReadOptions::DEFAULT },
                1 => ReadOptions { max_ts: some_ts, ..ReadOptions::DEFAULT },
                _ => ReadOptions::DEFAULT,
            };
            let unlimited = model.shows(&spec, &o);
            if random.below(3) == 0 {
                (spec.row_limit, spec.cell_limit, spec.cells_per_row) = (random.below(5), random.below(20), random.below(4) as u32);
            }
            let told = limited(unlimited, &spec);
            let mut one_by_one = rig.region.scanner(None, &o, &spec).unwrap();
            let seen = take_all(&mut one_by_one);
            assert_eq!(seen, told, "one by one: {spec:?} {o:?}");
            let mut by_pages = rig.region.scanner(None, &o, &spec).unwrap();
            let seen = take_pages(&mut by_pages, flags & ScanSpec::WHOLE_ROWS != 0, random);
            assert_eq!(seen, told, "by pages: {spec:?} {o:?}");
            seeks(&rig, &model, &spec, &o, random);
        }
    }
}

/// After some cells, goes elsewhere: forward or back.
fn seeks(rig: &Rig, model: &Model, spec: &ScanSpec<'_>, o: &ReadOptions, random: &mut Random) {
    let spec = ScanSpec { row_limit: 0, cell_limit: 0, cells_per_row: 0, ..*spec };
    let mut s = rig.region.scanner(None, o, &spec).unwrap();
    for _ in 0..3 {
        for _ in 0..random.below(6) {
            s.next().unwrap();
        }
        let to = pick(random, &ROWS);
        s.seek(to).unwrap();
        let reverse = spec.flags & ScanSpec::REVERSE != 0;
        let all = limited(model.shows(&spec, o), &spec);
        let behind: Vec<Shown> =
            all.into_iter().filter(|c| if reverse { c.row.as_slice() <= to } else { c.row.as_slice() >= to }).collect();
        let seen = if random.below(2) == 0 { take_all(&mut s) } else { take_pages(&mut s, false, random) };
        assert_eq!(seen, behind, "after a seek to {to:?}: {spec:?} {o:?}");
    }
}
