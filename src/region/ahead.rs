//! Cells that a scanner has read ahead, for callers who take them one by one: bytes in one buffer, and where each part lies.

use super::face::ScanCell;
use crate::cell::CellType;

#[derive(Clone, Copy)]
struct Place {
    row: (usize, usize),
    qualifier: (usize, usize),
    value: (usize, usize),
    family: u32,
    timestamp: u64,
    seq: u64,
    kind: CellType,
    new_row: bool,
    row_end: bool,
}

/// A batch of cells, and how many of them were handed out.
#[derive(Default)]
pub(super) struct Ahead {
    bytes: Vec<u8>,
    cells: Vec<Place>,
    at: usize,
}

impl Ahead {
    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.cells.clear();
        self.at = 0;
    }
    /// Bytes and cells that it holds, handed out or not.
    pub fn size(&self) -> (usize, usize) {
        (self.bytes.len(), self.cells.len())
    }
    /// Adds a cell to the end.
    pub fn push(&mut self, cell: &ScanCell<'_>) {
        if cell.new_row {
            self.end_row();
        }
        let row = match self.cells.last() {
            Some(before) if !cell.new_row => before.row,
            _ => self.add(cell.row),
        };
        let (qualifier, value) = (self.add(cell.qual), self.add(cell.value));
        let &ScanCell { family, timestamp, seq, kind, new_row, row_end, .. } = cell;
        self.cells.push(Place { row, qualifier, value, family, timestamp, seq, kind, new_row, row_end });
    }
    /// The last cell is the last one of its row.
    pub fn end_row(&mut self) {
        if let Some(last) = self.cells.last_mut() {
            last.row_end = true;
        }
    }
    /// The next cell that was not handed out.
    pub fn peek(&self) -> Option<ScanCell<'_>> {
        self.cells.get(self.at).map(|c| self.cell(c))
    }
    /// The cell that [`Ahead::peek`] shows was handed out.
    pub fn pass(&mut self) {
        self.at += 1;
    }
    /// True if every cell was handed out.
    pub fn is_used_up(&self) -> bool {
        self.at >= self.cells.len()
    }
    /// Hands out the next cell.
    #[inline]
    pub fn take(&mut self) -> Option<ScanCell<'_>> {
        let cell = self.cells.get(self.at)?;
        self.at += 1;
        Some(self.cell(cell))
    }
    /// How many cells were handed out.
    pub fn position(&self) -> usize {
        self.at
    }
    /// Takes cells back.
    pub fn go_back(&mut self, at: usize) {
        self.at = at;
    }
    /// Cells, and rows that begin among them, that were not handed out.
    pub fn waiting(&self) -> (u64, u64) {
        let rest = self.cells.get(self.at..).unwrap_or_default();
        (rest.len() as u64, rest.iter().filter(|c| c.new_row).count() as u64)
    }
    fn add(&mut self, bytes: &[u8]) -> (usize, usize) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (from, self.bytes.len())
    }
    fn part(&self, (from, to): (usize, usize)) -> &[u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }
    fn cell(&self, c: &Place) -> ScanCell<'_> {
        ScanCell {
            row: self.part(c.row),
            family: c.family,
            qual: self.part(c.qualifier),
            timestamp: c.timestamp,
            seq: c.seq,
            kind: c.kind,
            value: self.part(c.value),
            new_row: c.new_row,
            row_end: c.row_end,
        }
    }
}
