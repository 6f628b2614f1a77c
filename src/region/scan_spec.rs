//! What a caller asks of a scan or of a row, checked and in the form in which `read` takes it.

use super::Inner;
use super::face::{ColumnFilter, ScanSpec};
use super::single::no_family;
use crate::clock::Clock;
use crate::error::Result;
use crate::fail;
use crate::ids::{FamilyId, ROW_BYTES_MAX};
use crate::options::ReadOptions;
use crate::read::columns::{Selection, Span};
use crate::read::lens::Terms;
use crate::read::scan::Rows;
use crate::store::view::View;

/// The columns asked for, of families that are there.
pub(super) fn selection(view: &View, columns: &[ColumnFilter<'_>]) -> Result<Selection> {
    let mut spans = Vec::with_capacity(columns.len());
    for filter in columns {
        let (ColumnFilter::Family(id) | ColumnFilter::Exact(id, _) | ColumnFilter::Prefix(id, _) | ColumnFilter::Range(id, ..)) = *filter;
        let family = FamilyId(id);
        if view.family(family).is_none() {
            return Err(no_family(family));
        }
        spans.push(match *filter {
            ColumnFilter::Family(_) => Span::family(family),
            ColumnFilter::Exact(_, q) => Span::exact(family, q),
            ColumnFilter::Prefix(_, q) => Span::prefix(family, q),
            ColumnFilter::Range(_, from, to) => Span::range(family, from, to),
        });
    }
    Ok(Selection::new(spans))
}

/// Versions, times, and whether everything stored.
pub(super) fn terms(inner: &Inner, o: &ReadOptions, max_versions: u32, raw: bool) -> Terms {
    let clock = inner.state.sequencer.clock();
    Terms { versions: max_versions.max(1) as usize, range: o.range(), raw, now: (clock.unit(), clock.now()) }
}

/// The rows of a scan.
pub(super) fn rows(spec: &ScanSpec<'_>) -> Result<Rows> {
    let has = |flag| spec.flags & flag != 0;
    if has(!ScanSpec::FLAGS_ALL) {
        return fail!(Unsupported, "flags: {:#x} is not known to this version", spec.flags & !ScanSpec::FLAGS_ALL);
    }
    if has(ScanSpec::RAW) && !spec.columns.is_empty() {
        return fail!(Invalid, "columns: a scan with REGION_SCAN_RAW shows every column; leave them out, or leave RAW out");
    }
    for (name, row) in [("start_row", spec.start_row), ("end_row", spec.end_row), ("row_prefix", spec.row_prefix)] {
        if row.len() > ROW_BYTES_MAX {
            return fail!(TooLarge, "{name} has {} bytes; a row key has at most {ROW_BYTES_MAX}", row.len());
        }
    }
    Ok(Rows {
        reverse: has(ScanSpec::REVERSE),
        start: spec.start_row.to_vec(),
        exclusive_start: has(ScanSpec::EXCLUSIVE_START),
        end: spec.end_row.to_vec(),
        inclusive_end: has(ScanSpec::INCLUSIVE_END),
        prefix: spec.row_prefix.to_vec(),
    })
}
