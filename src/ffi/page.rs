//! What a scanner gives out: cells one by one, or packed into the caller's page.
//!
//! A cell that no longer fits a page waits in the *stash*, as a packed record that always carries its row; with WHOLE_ROWS a whole row
//! does. `next` and `page` first take what waits there, so they may be mixed.

use super::pack::PackedCell;
use super::scan::region_cell_flags::{REGION_CELL_NEW_ROW, REGION_CELL_NO_VALUE, REGION_CELL_ROW_END};
use crate::error::{Error, ErrorKind, Result};
use crate::region::{ScanCell, ScanSpec, Scanner};

/// A scanner, and what it has given out.
pub(super) struct State {
    scanner: Scanner,
    whole_rows: bool,
    keys_only: bool,
    /// Packed records with rows, from `taken` on; NEW_ROW says whether a cell is the first of its row.
    stash: Vec<u8>,
    taken: usize,
    /// An error that came when a page already had cells: the next call's answer.
    failed: Option<Error>,
}

/// A row of more packed bytes is not collected for a page.
const ROW_STASH_BYTES_MAX: usize = 256 << 20;

impl State {
    pub(super) fn new(scanner: Scanner, flags: u32) -> Self {
        let whole_rows = flags & ScanSpec::WHOLE_ROWS != 0;
        let keys_only = flags & ScanSpec::KEYS_ONLY != 0;
        Self { scanner, whole_rows, keys_only, stash: Vec::new(), taken: 0, failed: None }
    }
    pub(super) fn seek(&mut self, row: &[u8]) -> Result<()> {
        self.clear_stash();
        self.failed = None;
        self.scanner.seek(row)
    }
    fn view<'a>(cell: &ScanCell<'a>, keys_only: bool) -> PackedCell<'a> {
        let mut flags = 0;
        for (yes, flag) in [(cell.new_row, REGION_CELL_NEW_ROW), (cell.row_end, REGION_CELL_ROW_END), (keys_only, REGION_CELL_NO_VALUE)] {
            flags |= if yes { flag as u8 } else { 0 };
        }
        PackedCell {
            kind: cell.kind as u8,
            flags,
            family: cell.family,
            timestamp: cell.timestamp,
            seq: cell.seq,
            row: cell.row,
            qual: cell.qual,
            value: cell.value,
        }
    }
    /// The first record of the stash, if there is one.
    fn stashed(&self) -> Option<(PackedCell<'_>, usize)> {
        self.stash.get(self.taken..).and_then(PackedCell::read)
    }
    fn clear_stash(&mut self) {
        self.stash.clear();
        self.taken = 0;
    }
    pub(super) fn next(&mut self) -> Result<Option<PackedCell<'_>>> {
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        if self.taken < self.stash.len() {
            let at = self.taken;
            self.taken += self.stashed().map_or(usize::MAX - at, |(_, len)| len);
            return Ok(self.stash.get(at..).and_then(PackedCell::read).map(|(cell, _)| cell));
        }
        let keys_only = self.keys_only;
        Ok(self.scanner.next()?.map(|cell| Self::view(&cell, keys_only)))
    }
    /// Adds a cell to the end of the stash.
    fn stash(stash: &mut Vec<u8>, cell: &PackedCell<'_>) -> Result<()> {
        let len = cell.len().ok_or_else(|| Error::new(ErrorKind::TooLarge, "a cell does not fit a record"))?;
        let at = stash.len();
        stash.try_reserve(len).map_err(|_| Error::new(ErrorKind::NoMem, format!("no memory for a cell of {len} bytes")))?;
        stash.resize(at + len, 0);
        stash.get_mut(at..).and_then(|to| cell.write(to));
        Ok(())
    }
    /// With WHOLE_ROWS: the next row into the empty stash.
    fn stash_row(&mut self) -> Result<()> {
        self.clear_stash();
        loop {
            let Some(cell) = self.scanner.next()? else { return Ok(()) };
            let cell = Self::view(&cell, self.keys_only);
            Self::stash(&mut self.stash, &cell)?;
            if cell.flags & REGION_CELL_ROW_END as u8 != 0 {
                return Ok(());
            }
            if self.stash.len() > ROW_STASH_BYTES_MAX {
                let bytes = self.stash.len();
                self.clear_stash();
                return Err(Error::new(
                    ErrorKind::TooLarge,
                    format!("a row has more than {bytes} bytes: scan it without REGION_SCAN_WHOLE_ROWS"),
                ));
            }
        }
    }
    pub(super) fn page(&mut self, page: &mut [u8]) -> Result<Page> {
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        let mut out = Page { used: 0, cells: 0, needed: 0 };
        let end = if self.whole_rows { self.fill_rows(page, &mut out) } else { self.fill_cells(page, &mut out) };
        match end {
            Err(e) if out.cells == 0 => Err(e),
            Err(e) => {
                self.failed = Some(e);
                Ok(out)
            }
            Ok(()) => Ok(out),
        }
    }
    fn fill_cells(&mut self, page: &mut [u8], out: &mut Page) -> Result<()> {
        while let Some((cell, len)) = self.stashed() {
            if !out.add(page, cell) {
                return Ok(());
            }
            self.taken += len;
        }
        self.clear_stash();
        while let Some(cell) = self.scanner.next()? {
            let cell = Self::view(&cell, self.keys_only);
            if !out.add(page, cell) {
                return Self::stash(&mut self.stash, &cell);
            }
        }
        Ok(())
    }
    fn fill_rows(&mut self, page: &mut [u8], out: &mut Page) -> Result<()> {
        loop {
            if self.taken >= self.stash.len() {
                self.stash_row()?;
            }
            if self.stash.is_empty() {
                return Ok(());
            }
            let (before, row) = ((out.used, out.cells), out.used);
            let mut needed = 0;
            let mut at = self.taken;
            let mut first = true;
            while let Some((mut cell, len)) = self.stash.get(at..).and_then(PackedCell::read) {
                cell.flags &= !(REGION_CELL_NEW_ROW as u8);
                cell.flags |= if first { REGION_CELL_NEW_ROW as u8 } else { 0 };
                first = false;
                cell = Page::shortened(cell);
                needed += cell.len().unwrap_or(0);
                if let Some(len) = page.get_mut(out.used..).and_then(|to| cell.write(to)) {
                    out.used += len;
                    out.cells += 1;
                }
                at += len;
            }
            if out.used - row < needed {
                (out.used, out.cells) = before;
                out.needed = needed;
                return Ok(());
            }
            self.clear_stash();
        }
    }
}

/// What is in a page.
pub(super) struct Page {
    pub(super) used: usize,
    pub(super) cells: usize,
    /// Bytes of what did not fit.
    pub(super) needed: usize,
}

impl Page {
    /// Without its row, if it does not begin one.
    fn shortened(mut cell: PackedCell<'_>) -> PackedCell<'_> {
        if cell.flags & REGION_CELL_NEW_ROW as u8 == 0 {
            cell.row = b"";
        }
        cell
    }
    /// Adds a cell; false if it does not fit.
    fn add(&mut self, page: &mut [u8], mut cell: PackedCell<'_>) -> bool {
        if self.cells == 0 {
            cell.flags |= REGION_CELL_NEW_ROW as u8;
        }
        cell = Self::shortened(cell);
        match page.get_mut(self.used..).and_then(|to| cell.write(to)) {
            Some(len) => {
                self.used += len;
                self.cells += 1;
                true
            }
            None => {
                self.needed = cell.len().unwrap_or(usize::MAX);
                false
            }
        }
    }
}
