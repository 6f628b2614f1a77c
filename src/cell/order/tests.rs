use super::*;
use crate::cell::CellType;
use crate::ids::SequenceNumber;

fn cell(row: &'static [u8], family: u32, qualifier: &'static [u8], timestamp: u64, kind: CellType, seq: u64) -> CellRef<'static> {
    CellRef { row, family: FamilyId(family), qualifier, timestamp, kind, seq: SequenceNumber(seq), value: b"", tags: b"" }
}

#[test]
fn cells_sort_as_in_hbase() {
    use CellType::{Delete, DeleteFamily, Put};
    let sorted = [
        cell(b"a", 1, b"", 9, DeleteFamily, 4),
        cell(b"a", 1, b"", 9, Put, 7),
        cell(b"a", 1, b"q", 8, Put, 1),
        cell(b"a", 1, b"q", 7, Delete, 1),
        cell(b"a", 1, b"q", 7, Put, 3),
        cell(b"a", 1, b"q", 7, Put, 2),
        cell(b"a", 1, b"q\0", 99, Put, 2),
        cell(b"a", 2, b"", 1, Put, 1),
        cell(b"a\0", 1, b"", 1, Put, 1),
        cell(b"b", 1, b"", 1, Put, 1),
        cell(b"\xff", 1, b"", 1, Put, 1),
    ];
    for pair in sorted.windows(2) {
        assert_eq!(compare(&pair[0], &pair[1]), Ordering::Less, "{:?} before {:?}", pair[0], pair[1]);
        assert_eq!(compare(&pair[1], &pair[0]), Ordering::Greater);
    }
}
