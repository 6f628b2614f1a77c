//! Reads of whole rows: the chosen columns at one instant, in order, into a sink.

use super::Inner;
use super::face::{ColumnFilter, RowSink, ScanCell};
use super::scan_spec;
use super::snapshot::Snapshot;
use crate::error::Result;
use crate::options::ReadOptions;
use crate::read::scan;

impl Inner {
    /// See `Region::get_row`.
    pub fn get_row(
        &self,
        snapshot: Option<&Snapshot>,
        o: &ReadOptions,
        row: &[u8],
        columns: &[ColumnFilter<'_>],
        max_versions: u32,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let terms = scan_spec::terms(self, o, max_versions, false);
        self.read_row(snapshot, o, row, 1, |at| {
            let columns = scan_spec::selection(at.view, columns)?;
            sink.restart();
            let segments = at.view.segments().map(|s| &**s);
            scan::row(segments, &at.view.families, &terms, row, &columns, at.cut, |seen| {
                seen.cell.value.with(|value| {
                    sink.cell(&ScanCell {
                        row,
                        family: seen.family.0,
                        qual: seen.qualifier,
                        timestamp: seen.cell.ts,
                        seq: seen.cell.seq,
                        kind: seen.cell.kind,
                        value,
                        new_row: seen.new_row,
                        row_end: false,
                    });
                });
            });
            Ok(())
        })
    }
}
