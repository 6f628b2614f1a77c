//! Raw scans: every marker, and of the values all that are shown to somebody; of the rest some may be gone already.

use crate::reads::{Seen, Span};
use crate::spec::{At, Cell, Kind, Model};
use region::region::ScanSpec;
use std::cmp::Reverse;
use std::ops::Range;

/// What a raw scan may tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// All there ever was, in order.
    may: Vec<Seen>,
    /// Values that are shown to plain reads.
    shown: Vec<Seen>,
    most: usize,
}

fn same(a: &Seen, b: &Seen) -> bool {
    (&a.row, a.family, &a.qual, a.ts, a.seq, a.kind, &a.value) == (&b.row, b.family, &b.qual, b.ts, b.seq, b.kind, &b.value)
}

impl Raw {
    pub fn new(span: &Span, model: &Model, at: At, range: &Range<u64>) -> Self {
        let keys_only = span.flags & ScanSpec::KEYS_ONLY != 0;
        let (mut may, mut shown) = (Vec::new(), Vec::new());
        let seen = |row: &Vec<u8>, family: u32, qual: &[u8], c: &Cell| Seen {
            row: row.clone(),
            family,
            qual: qual.to_vec(),
            ts: c.ts,
            seq: c.seq,
            kind: c.kind as u8,
            value: if keys_only { Vec::new() } else { c.value.to_vec() },
            new_row: false,
            row_end: false,
        };
        let is_in = |row: &Vec<u8>, c: &Cell| span.shows_row(row) && c.seq <= at.cut && range.contains(&c.ts);
        for ((row, family, qual), cells) in &model.columns {
            may.extend(cells.iter().filter(|c| is_in(row, c)).map(|c| seen(row, *family, qual, c)));
            let values = model.shown(row, *family, qual, at, range);
            shown.extend(values.iter().filter(|c| is_in(row, c)).map(|c| seen(row, *family, qual, c)));
        }
        for ((row, family), cells) in &model.markers {
            may.extend(cells.iter().filter(|c| is_in(row, c)).map(|c| seen(row, *family, b"", c)));
        }
        may.sort_by_key(|s| (s.row.clone(), s.family, s.qual.clone(), Reverse(s.ts), Reverse(s.kind), Reverse(s.seq)));
        if span.flags & ScanSpec::REVERSE != 0 {
            may.sort_by_key(|s| Reverse(s.row.clone()));
        }
        Self { may, shown, most: span.max_versions.max(1) as usize }
    }

    /// Whether a scan may tell this.
    pub fn allows(&self, told: &[Seen]) -> bool {
        // In order, nothing twice, nothing that never was.
        let mut may = self.may.iter();
        let in_order = told.iter().all(|t| may.any(|m| same(m, t)));
        let marker = |s: &&Seen| s.kind != Kind::Put as u8;
        let markers = self.may.iter().filter(marker).all(|m| told.iter().any(|t| same(m, t)));
        let column = |s: &Seen| (s.row.clone(), s.family, s.qual.clone());
        let values = |of: &Seen| told.iter().filter(|t| !marker(t) && column(t) == column(of)).collect::<Vec<_>>();
        let shown = self.shown.iter().all(|s| {
            let told = values(s);
            told.iter().any(|t| same(t, s)) || told.len() == self.most && told.iter().all(|t| (t.ts, t.seq) > (s.ts, s.seq))
        });
        let few = told.iter().all(|t| values(t).len() <= self.most);
        let rows = (0..told.len()).all(|i| {
            let new = i == 0 || told[i - 1].row != told[i].row;
            let end = told.get(i + 1).is_none_or(|next| next.row != told[i].row);
            (told[i].new_row, told[i].row_end) == (new, end)
        });
        in_order && markers && shown && few && rows
    }
}
