use super::*;
use crate::region::{Comparison, Op};
use proptest::prelude::*;

fn pad(b: &mut Vec<u8>) {
    b.resize(b.len().next_multiple_of(8), 0);
}

fn increment_record(family: u32, row: &[u8], qual: &[u8], delta: i64) -> Vec<u8> {
    let mut b = family.to_le_bytes().to_vec();
    b.extend((row.len() as u16).to_le_bytes());
    b.extend((qual.len() as u16).to_le_bytes());
    b.extend(delta.to_le_bytes());
    b.extend(row);
    b.extend(qual);
    pad(&mut b);
    b
}

#[derive(Debug)]
struct OpRecord {
    op: u8,
    flags: u32,
    row: Vec<u8>,
    qual: Vec<u8>,
    value: Vec<u8>,
    delta: i64,
    timestamp: u64,
    more: usize,
}

fn op_record(r: &OpRecord) -> Vec<u8> {
    let mut b = vec![r.op, (OP_HEADER + r.more) as u8];
    b.extend((r.row.len() as u16).to_le_bytes());
    b.extend(7_u32.to_le_bytes());
    b.extend(r.flags.to_le_bytes());
    b.extend((r.qual.len() as u32).to_le_bytes());
    b.extend((r.value.len() as u32).to_le_bytes());
    b.extend(0_u32.to_le_bytes());
    b.extend(r.delta.to_le_bytes());
    b.extend(r.timestamp.to_le_bytes());
    b.resize(OP_HEADER + r.more, 0);
    b.extend(&r.row);
    b.extend(&r.qual);
    b.extend(&r.value);
    pad(&mut b);
    b
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

fn op_strategy() -> impl Strategy<Value = OpRecord> {
    (1_u8..=9, 1_u32..=8, any::<bool>(), bytes(40), bytes(20), bytes(50), any::<i64>(), any::<u64>(), 0_usize..3).prop_map(
        |(op, check, i64s, row, qual, value, delta, timestamp, more)| {
            // Only what the operation takes. (Family is never 0 here, so no DELETE_ROW.)
            let op = if op == 5 { 4 } else { op };
            let compares = op == 9 && check < 7;
            let has = |yes: bool, bytes: Vec<u8>| if yes { bytes } else { vec![] };
            OpRecord {
                op,
                flags: if op == 9 { check | if i64s { 256 } else { 0 } } else { 0 },
                row,
                qual: has(![4, 8].contains(&op), qual),
                value: has([1, 6].contains(&op) || compares && !i64s, value),
                delta: if op == 7 || compares && i64s { delta } else { 0 },
                timestamp,
                more: more * 8,
            }
        },
    )
}

proptest! {
    #[test]
    fn increments_come_back(records in prop::collection::vec((any::<u32>(), bytes(60), bytes(30), any::<i64>()), 0..20)) {
        let buf: Vec<u8> = records.iter().flat_map(|(f, r, q, d)| increment_record(*f, r, q, *d)).collect();
        let mut notes = Vec::new();
        let parsed = PackedIncrements::parse(&buf, records.len(), &mut notes).unwrap();
        prop_assert_eq!(parsed.len(), records.len());
        for (i, (family, row, qual, delta)) in records.iter().enumerate() {
            let x = parsed.get(i);
            prop_assert_eq!((x.family, x.row, x.qual, x.delta), (*family, &row[..], &qual[..], *delta));
        }
    }

    #[test]
    fn ops_come_back_with_their_rows(records in prop::collection::vec((op_strategy(), any::<bool>()), 1..12)) {
        let (mut buf, mut rows) = (Vec::new(), Vec::<Vec<u8>>::new());
        for (i, (r, same)) in records.iter().enumerate() {
            if *same && i > 0 {
                buf.extend(op_record(&OpRecord { row: vec![], flags: r.flags | SAME_ROW, qual: r.qual.clone(), value: r.value.clone(), ..*r }));
                rows.push(rows[i - 1].clone());
            } else {
                buf.extend(op_record(r));
                rows.push(r.row.clone());
            }
        }
        let mut notes = Vec::new();
        let parsed = PackedOps::parse(&buf, records.len(), &mut notes).unwrap();
        for (i, (r, _)) in records.iter().enumerate() {
            let m = parsed.get(i);
            prop_assert_eq!((m.row, m.qual, m.value), (&rows[i][..], &r.qual[..], &r.value[..]));
            prop_assert_eq!((m.family, m.delta, m.timestamp), (7, r.delta, r.timestamp));
            prop_assert_eq!(matches!(m.op, Op::Check { .. }), r.op == 9);
        }
    }

    /// Anything at all: refused or read, never a panic, and what is read lies within the buffer.
    #[test]
    fn garbage_is_survived(mut buf in bytes(300), n in 0_usize..20, header in any::<bool>()) {
        if header && buf.len() > 1 {
            buf[0] = 1 + buf[0] % 9;
            buf[1] = OP_HEADER as u8;
        }
        let within = |s: &[u8]| s.is_empty() || buf.as_ptr_range().contains(&s.as_ptr()) && s.len() <= buf.len();
        let mut notes = Vec::new();
        if let Ok(p) = PackedOps::parse(&buf, n, &mut notes) {
            for i in 0..p.len() {
                let m = p.get(i);
                prop_assert!(within(m.row) && within(m.qual) && within(m.value));
            }
            prop_assert_eq!(p.len(), n);
        }
        notes.clear();
        if let Ok(p) = PackedIncrements::parse(&buf, n, &mut notes) {
            for i in 0..p.len() + 1 {
                prop_assert!(within(p.get(i).row) && within(p.get(i).qual));
            }
        }
        notes.clear();
        if let Ok(p) = PackedKeys::parse(&buf, n, &mut notes) {
            for i in 0..p.len() + 1 {
                prop_assert!(within(p.get(i).row) && within(p.get(i).qual));
            }
        }
        prop_assert!(notes.capacity() <= 2 * 20 + 8);
        let _ = PackedCell::read(&buf);
    }

    #[test]
    fn cells_come_back(kind in any::<u8>(), flags in any::<u8>(), family in any::<u32>(), ts in any::<u64>(), seq in any::<u64>(),
                       row in bytes(40), qual in bytes(20), value in bytes(60), room in 0_usize..24) {
        let cell = PackedCell { kind, flags, family, timestamp: ts, seq, row: &row, qual: &qual, value: &value };
        let len = cell.len().unwrap();
        let mut page = vec![0xcc; len + room];
        prop_assert_eq!(cell.write(&mut page), Some(len));
        prop_assert_eq!(PackedCell::read(&page), Some((cell, len)));
        prop_assert!(page[len..].iter().all(|b| *b == 0xcc), "nothing behind the record is written");
        prop_assert_eq!(cell.write(&mut page[..len - 1]), None);
        prop_assert_eq!(PackedCell::read(&page[..len - 8]).map(|r| r.1 <= len - 8), PackedCell::read(&page[..len - 8]).map(|_| true));
    }
}

/// A buffer that the caller changes between the walk and the reading: other answers, but nothing outside it.
#[test]
fn a_buffer_that_changes_meanwhile_is_read_within_its_bounds() {
    let good = [increment_record(1, b"row", b"q", 1), increment_record(1, b"row", b"q", 2)].concat();
    let mut notes = Vec::new();
    PackedIncrements::parse(&good, 2, &mut notes).unwrap();
    let mut changed = good.clone();
    changed[24 + 4..24 + 8].fill(0xff);
    let parsed = PackedIncrements { bytes: &changed, starts: &notes };
    assert_eq!(parsed.get(0).row, b"row");
    assert_eq!(parsed.get(1).row, b"");
    let record =
        |row: &[u8], flags| OpRecord { op: 1, flags, row: row.to_vec(), qual: vec![], value: vec![], delta: 0, timestamp: 0, more: 0 };
    let ops = [op_record(&record(b"row", 0)), op_record(&record(b"", SAME_ROW))].concat();
    let mut notes = Vec::new();
    PackedOps::parse(&ops, 2, &mut notes).unwrap();
    let mut changed = ops.clone();
    changed[2..4].fill(0xff);
    let parsed = PackedOps { bytes: &changed, starts: &notes };
    assert_eq!((parsed.get(0).row, parsed.get(1).row), (&b""[..], &b""[..]));
}

#[test]
fn comparisons_are_numbered_as_in_the_header() {
    let all = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
        Comparison::Exists,
        Comparison::Absent,
    ];
    for (i, how) in all.into_iter().enumerate() {
        assert_eq!(mutation(9, 1 + i as u32, 0).unwrap(), Op::Check { how, as_counter: false });
        assert_eq!(mutation(9, 257 + i as u32, 0).unwrap(), Op::Check { how, as_counter: true });
    }
}

/// A call from within a call gets notes of its own, and the thread keeps a vector of bounded size.
#[test]
fn notes_are_kept_and_nest() {
    with_notes(|outer| {
        outer.extend(0..1000);
        with_notes(|inner| {
            assert!(inner.is_empty());
            inner.push(1);
        });
        assert_eq!(outer.len(), 1000);
    });
    with_notes(|again| assert!(again.is_empty() && again.capacity() >= 1000));
    with_notes(|huge| huge.reserve(NOTES_KEPT + 1));
    with_notes(|after| assert!(after.capacity() <= NOTES_KEPT));
}
