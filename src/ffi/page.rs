//! Cells into the caller's page: packed records, straight from where the cells lie.
//!
//! That a cell was the last of its row is known only when the next one comes, so the flag is added to its record then. A page's first record always carries
//! its row. What does not fit is counted, so that the caller learns how large a page must be.

use super::pack::PackedCell;
use super::scan::region_cell_flags::{REGION_CELL_NEW_ROW, REGION_CELL_NO_VALUE, REGION_CELL_ROW_END};
use crate::error::{Error, ErrorKind, Result};
use crate::region::{Filled, RowSink, ScanCell, ScanSpec, Scanner};

/// A scanner, as C sees it.
pub(super) struct State {
    scanner: Scanner,
    whole_rows: bool,
    keys_only: bool,
}

/// What is in a page.
pub(super) struct Page<'p> {
    page: &'p mut [u8],
    keys_only: bool,
    /// Bytes filled.
    pub(super) used: usize,
    /// Records.
    pub(super) cells: usize,
    /// Bytes that everything given so far takes; more than `used` once something did not fit.
    needed: Option<usize>,
    /// Where the last record begins.
    last: usize,
}

impl<'p> Page<'p> {
    fn new(page: &'p mut [u8], keys_only: bool) -> Self {
        Self { page, keys_only, used: 0, cells: 0, needed: Some(0), last: 0 }
    }
    /// Bytes that what was given takes; None: a length does not fit its field.
    fn needed(&self) -> Result<usize> {
        self.needed.ok_or_else(|| Error::new(ErrorKind::TooLarge, "a cell, or all cells together, do not fit the format of a page"))
    }
    /// Everything given so far was written.
    fn is_whole(&self) -> bool {
        self.needed == Some(self.used)
    }
    /// Adds a cell, or counts it; false: it does not fit.
    #[inline]
    fn add(&mut self, cell: &ScanCell<'_>) -> bool {
        let is_first = self.needed == Some(0);
        if cell.new_row {
            self.end_row();
        }
        let with_row = cell.new_row || is_first;
        let mut flags = if with_row { REGION_CELL_NEW_ROW as u8 } else { 0 };
        if cell.row_end {
            flags |= REGION_CELL_ROW_END as u8;
        }
        if self.keys_only {
            flags |= REGION_CELL_NO_VALUE as u8;
        }
        let record = PackedCell {
            kind: cell.kind as u8,
            flags,
            family: cell.family,
            timestamp: cell.timestamp,
            seq: cell.seq,
            row: if with_row { cell.row } else { b"" },
            qual: cell.qual,
            value: cell.value,
        };
        if self.is_whole()
            && let Some(len) = self.page.get_mut(self.used..).and_then(|to| record.write(to))
        {
            self.last = self.used;
            self.used += len;
            self.cells += 1;
            self.needed = Some(self.used);
            return true;
        }
        self.needed = self.needed.zip(record.len()).and_then(|(sum, len)| sum.checked_add(len));
        false
    }
    /// The last record is the last one of its row.
    #[inline]
    fn end_row(&mut self) {
        if self.cells > 0
            && self.is_whole()
            && let Some(flags) = self.page.get_mut(self.last + 1)
        {
            *flags |= REGION_CELL_ROW_END as u8;
        }
    }
    /// Takes everything back behind a record's end.
    fn cut(&mut self, (used, cells): (usize, usize)) {
        (self.used, self.cells, self.needed) = (used, cells, Some(used));
    }
    /// What the C call answers: bytes filled and records, or bytes needed and none.
    pub(super) fn outcome(&self) -> Result<(usize, usize)> {
        Ok(if self.cells == 0 { (self.needed()?, 0) } else { (self.used, self.cells) })
    }
}

impl State {
    pub(super) fn new(scanner: Scanner, flags: u32) -> Self {
        let whole_rows = flags & ScanSpec::WHOLE_ROWS != 0;
        let keys_only = flags & ScanSpec::KEYS_ONLY != 0;
        Self { scanner, whole_rows, keys_only }
    }
    pub(super) fn seek(&mut self, row: &[u8]) -> Result<()> {
        self.scanner.seek(row)
    }
    /// The next cell and its flags.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(ScanCell<'_>, u32)>> {
        let keys_only = self.keys_only;
        Ok(self.scanner.next()?.map(|cell| {
            let mut flags = 0;
            for (yes, flag) in [(cell.new_row, REGION_CELL_NEW_ROW), (cell.row_end, REGION_CELL_ROW_END), (keys_only, REGION_CELL_NO_VALUE)]
            {
                flags |= if yes { flag as u32 } else { 0 };
            }
            (cell, flags)
        }))
    }
    /// Fills a page; answers as [`Page::outcome`] does.
    pub(super) fn page(&mut self, page: &mut [u8]) -> Result<(usize, usize)> {
        let mut page = Page::new(page, self.keys_only);
        if self.whole_rows {
            self.fill_rows(&mut page)?;
        } else if let Filled::End { row_ended: true } = self.scanner.fill(false, |cell| page.add(cell))? {
            page.end_row();
        }
        page.outcome()
    }
    fn fill_rows(&mut self, page: &mut Page<'_>) -> Result<()> {
        // Where the row begins that is being added.
        let mut row = (0, 0);
        let filled = self.scanner.fill(true, |cell| {
            let begins = cell.new_row && page.needed != Some(0);
            if begins && !page.is_whole() {
                // The first row does not fit, and all of it is counted.
                return false;
            }
            let before = (page.used, page.cells);
            if begins {
                row = before;
            }
            // The cells of a first row that does not fit are counted; any other row is for the next page.
            page.add(cell) || row == (0, 0)
        })?;
        match filled {
            Filled::End { row_ended } if page.is_whole() => {
                if row_ended {
                    page.end_row();
                }
            }
            Filled::Full if page.is_whole() => {}
            _ if row == (0, 0) => {
                // Nothing is handed out of a row that does not fit whole.
                page.cells = 0;
                self.scanner.put_row_back();
            }
            _ => {
                let is_first_cell = row == (page.used, page.cells);
                page.cut(row);
                if !is_first_cell {
                    self.scanner.put_row_back();
                }
            }
        }
        Ok(())
    }
}

/// The cells of one row in a page.
pub(super) struct RowPage<'p>(Page<'p>);

impl<'p> RowPage<'p> {
    pub(super) fn new(page: &'p mut [u8]) -> Self {
        Self(Page::new(page, false))
    }
    /// What the C call answers: bytes filled and records, or bytes needed and none. Both 0: the row shows nothing.
    pub(super) fn finish(mut self) -> Result<(usize, usize)> {
        if self.0.is_whole() {
            self.0.end_row();
        } else {
            self.0.cells = 0;
        }
        self.0.outcome()
    }
}

impl RowSink for RowPage<'_> {
    fn restart(&mut self) {
        self.0.cut((0, 0));
    }
    fn cell(&mut self, cell: &ScanCell<'_>) {
        self.0.add(cell);
    }
}
