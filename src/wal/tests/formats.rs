//! The bytes: round trips, golden bytes, the validity rule case by case, hostile input.

use super::*;
use crate::env::FileIdentity;
use crate::wal::format::*;
use proptest::prelude::*;

const SALT: u64 = 0x1122_3344_5566_7788;

fn header() -> SegmentHeader {
    SegmentHeader {
        number: 5,
        region_uuid: [9; 16],
        salt: SALT,
        clock_unit: 1,
        boot_id: [3; 16],
        identity: FileIdentity { dev: 11, ino: 22 },
        seal: Some(Seal { segment: 3, offset: 4160, number: 77 }),
    }
}

/// A finished record as it would stand at `offset`.
fn record_at(offset: u32, number: u64, fill: impl FnOnce(&mut RecordBuffer)) -> Vec<u8> {
    let mut b = RecordBuffer::new();
    b.begin(RecordKind::Commit, Level::Fsync, Generation(4), Tick(500));
    fill(&mut b);
    b.finish();
    b.complete(SaltCrc::new(SALT), offset, number, 4096);
    b.bytes().to_vec()
}

fn judge(bytes: &[u8], offset: u32, left: u32, last: Option<u64>) -> String {
    let salt = SaltCrc::new(SALT);
    match header_word(salt, offset, left, u64_at(bytes, 0).unwrap()) {
        HeaderWord::Nothing => "nothing".into(),
        HeaderWord::Bad => "bad: header word".into(),
        HeaderWord::Length(length) => match examine(salt, offset, length, bytes, last) {
            Found::Unfinished => "unfinished".into(),
            Found::Bad(what) => format!("bad: {what}"),
            Found::Valid(r) => format!("valid {:?} {:?}", r.kind, r.number),
        },
    }
}

#[test]
fn segment_headers_come_back_and_no_flipped_bit_passes() {
    let with = header();
    let without = SegmentHeader { seal: None, ..with };
    for h in [with, without] {
        assert_eq!(SegmentHeader::decode(&h.encode()), Ok(h));
    }
    let good = with.encode();
    assert_eq!(good.len(), 4096);
    for at in 0..4096 {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(SegmentHeader::decode(&bad).is_err(), "byte {at}");
    }
    for len in [0, 1, 8, 4095] {
        assert!(SegmentHeader::decode(&good[..len]).is_err());
    }
}

#[test]
fn golden_bytes_of_a_segment_header() {
    let b = header().encode();
    let hex: String = b[..112].iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        hex,
        concat!(
            "52474e57414c0d0a",                 // magic
            "01000000",                         // version
            "05000000",                         // number
            "09090909090909090909090909090909", // uuid
            "8877665544332211",                 // salt
            "0101000000000000",                 // clock unit, has a seal
            "03030303030303030303030303030303", // boot id
            "0b00000000000000",                 // device
            "1600000000000000",                 // inode
            "03000000",                         // seal: segment
            "40100000",                         // seal: offset
            "4d00000000000000",                 // seal: number
            "00000000000000000000000000000000"
        )
    );
    assert!(b[112..4092].iter().all(|b| *b == 0));
}

#[test]
fn golden_bytes_of_a_record() {
    let b = record_at(4096, 7, |b| {
        b.row(b"r");
        b.counter(FamilyId(1), b"q", 500, 258);
        b.cell(FamilyId(300), b"", CellType::Delete, 9, b"");
    });
    let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
    let fields = "0700000000000000f4010000000000000400000001020000001000000000000";
    assert!(hex[16..].starts_with(fields), "{hex}");
    // row "r"; counter of family 1, "q", at the tick; cell with a timestamp, Delete, family 300, no qualifier, no value; zeros.
    let payload = "0101720201017100000000000001020509000000000000000cac020000";
    assert!(hex[80..].starts_with(payload), "{hex}");
    assert_eq!(b.len(), 40 + 32 + 8);
    assert_eq!(&b[b.len() - 8..b.len() - 4], b"REDY");
    assert_eq!(u32::from_le_bytes(b[..4].try_into().unwrap()), b.len() as u32);
    // The formula of the trailer, spelled out.
    let c = crc32c::crc32c(&b[40..b.len() - 8]);
    let mut covered = SALT.to_le_bytes().to_vec();
    covered.extend(4096u32.to_le_bytes());
    covered.extend(&b[8..40]);
    covered.extend(c.to_le_bytes());
    assert_eq!(&b[b.len() - 4..], crc32c::crc32c(&covered).to_le_bytes());
}

#[test]
fn validity_case_by_case() {
    let good = record_at(4096, 7, |b| b.row(b"row"));
    let left = good.len() as u32 + 16;
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut b = good.clone();
        change(&mut b);
        judge(&b, 4096, left, Some(6))
    };
    assert_eq!(with(&|_| {}), "valid Commit Some(7)");
    assert_eq!(with(&|b| b[..8].fill(0)), "nothing");
    assert_eq!(with(&|b| b[4] ^= 1), "bad: header word");
    assert_eq!(with(&|b| b[0] ^= 8), "bad: header word");
    let trailer = good.len() - 8;
    assert_eq!(with(&|b| b[trailer..].fill(0)), "unfinished");
    assert_eq!(with(&|b| b[trailer] ^= 1), "bad: the record's checksum is wrong");
    assert_eq!(with(&|b| b[trailer + 7] ^= 1), "bad: the record's checksum is wrong");
    for at in [8, 16, 24, 29, 32, 40, 43] {
        assert_eq!(with(&|b| b[at] ^= 1), "bad: the record's checksum is wrong", "byte {at}");
    }
    // Position: the same bytes elsewhere are nothing of this place.
    assert_eq!(judge(&good, 4104, left, None), "bad: header word");
    // Length against the segment.
    assert_eq!(judge(&good, 4096, good.len() as u32 - 8, None), "bad: header word");
    // Numbers: above the last one.
    assert_eq!(judge(&good, 4096, left, Some(7)), "bad: the record's number is not above the one before");
    assert_eq!(judge(&good, 4096, left, Some(0)), "valid Commit Some(7)");
    assert_eq!(judge(&good, 4096, left, Some(u64::MAX)), "bad: the record's number is not above the one before");
}

#[test]
fn lengths_that_cannot_be_are_bad_even_with_a_right_check() {
    let salt = SaltCrc::new(SALT);
    for length in [1, 7, 8, 12, 17, 20, 50, 1 << 20, u32::MAX] {
        let word = salt.header_word(4096, length);
        assert_eq!(header_word(salt, 4096, 1000, word), HeaderWord::Bad, "length {length}");
    }
    for length in [16, 48, 1000] {
        assert_eq!(header_word(salt, 4096, 1000, salt.header_word(4096, length)), HeaderWord::Length(length));
    }
}

#[test]
fn pads_of_every_length() {
    let salt = SaltCrc::new(SALT);
    for length in (16..200).step_by(8) {
        let pad = Pad::new(salt, 8192, length, 30, 4096);
        let mut b = pad.bytes().to_vec();
        assert_eq!(b.len(), if length < 48 { 16 } else { 48 });
        // The rest is not looked at.
        b.resize(length as usize, 0xAB);
        let number = if length < 48 { None } else { Some(30u64) };
        assert_eq!(judge(&b, 8192, length, Some(30)), format!("valid Pad {number:?}"), "length {length}");
        if length >= 48 {
            assert_eq!(judge(&b, 8192, length, Some(31)), "bad: the record's number is not above the one before");
        }
        for at in 8..pad.bytes().len() {
            let mut bad = b.clone();
            bad[at] ^= 1;
            assert!(!judge(&bad, 8192, length, Some(0)).starts_with("valid"), "length {length} byte {at}");
        }
        let end = pad.bytes().len();
        b[end - 8..end].fill(0);
        assert_eq!(judge(&b, 8192, length, Some(30)), "unfinished");
    }
}

#[test]
fn a_kind_of_the_future_is_refused() {
    let salt = SaltCrc::new(SALT);
    let mut b = record_at(4096, 7, |_| {});
    b[28] = 9;
    let fields: [u8; 32] = b[8..40].try_into().unwrap();
    let trailer = salt.trailer_word(4096, &fields, crc32c::crc32c(&b[40..b.len() - 8]));
    let end = b.len();
    b[end - 8..].copy_from_slice(&trailer.to_le_bytes());
    assert_eq!(judge(&b, 4096, 100, None), "bad: the record is of a kind that this version does not know");
}

fn raw(payload: &[u8]) -> RawRecord<'_> {
    let number = Some(1);
    RawRecord { kind: RecordKind::Commit, number, tick: 500, generation: 1, level: Level::Sync, durable_below: 0, payload }
}

#[test]
fn payloads_come_back_cell_by_cell() {
    let big = vec![5u8; 70_000];
    let bytes = record_at(4096, 7, |b| {
        b.row(b"one");
        b.counter(FamilyId(1), b"", 500, i64::MIN);
        b.counter(FamilyId(u32::MAX), b"q", 501, -1);
        b.row(b"two");
        b.row(&big[..32_767]);
        for kind in [CellType::Put, CellType::DeleteVersion, CellType::DeleteFamilyVersion, CellType::Delete, CellType::DeleteFamily] {
            b.cell(FamilyId(128), &big[..200], kind, 1 << 63, &big);
        }
        b.cell(FamilyId(127), b"x", CellType::Put, 500, b"");
    });
    let Found::Valid(found) = examine(SaltCrc::new(SALT), 4096, bytes.len() as u32, &bytes, Some(6)) else { panic!("not valid") };
    let record = Record::decode(found, LogPosition::new(5, 4096)).unwrap();
    assert_eq!((record.number.0, record.tick.0, record.generation.0, record.level), (7, 500, 4, Level::Fsync));
    let rows: Vec<_> = record.rows().map(|r| (r.key.len(), r.cells().count())).collect();
    assert_eq!(rows, [(3, 2), (3, 0), (32_767, 6)]);
    let cells: Vec<_> = record.cells().collect();
    assert_eq!(cells, record.rows().flat_map(|r| r.cells()).collect::<Vec<_>>());
    assert_eq!((cells[0].row, cells[0].timestamp, cells[0].counter), (&b"one"[..], 500, true));
    assert_eq!(cells[0].value, i64::MIN.to_be_bytes());
    assert_eq!((cells[1].family, cells[1].timestamp, cells[1].value), (FamilyId(u32::MAX), 501, &(-1i64).to_be_bytes()[..]));
    assert_eq!((cells[3].kind, cells[3].timestamp, cells[3].value.len()), (CellType::DeleteVersion, 1 << 63, 70_000));
    assert_eq!((cells[7].timestamp, cells[7].value.len(), cells[7].counter), (500, 0, false));
}

#[test]
fn items_of_the_future_are_stepped_over_or_refused() {
    let skip = [34, 2, 7, 7, 1, 1, b'r', 0, 0];
    assert_eq!(Record::decode(raw(&skip), LogPosition(0)).unwrap().rows().count(), 1);
    for bad in
        [&[6u8, 0][..], &[64], &[0, 1], &[2, 1, 0], &[1, 5, b'x'], &[1, 0x80, 0x80, 0x80, 0x80, 0x80], &[1, 0xff, 0xff, 0xff, 0xff, 0x1f]]
    {
        assert!(Record::decode(raw(bad), LogPosition(0)).is_err(), "{bad:?}");
    }
}

/// Golden bytes of what a record says of a nonce, with and (as earlier builds wrote it) without fingerprints.
#[test]
fn what_is_said_of_a_nonce() {
    let told = |payload: &[u8]| -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let record = Record::decode(raw(payload), LogPosition(0)).unwrap();
        record.nonces().map(|n| (n.answers.to_vec(), n.fingerprints.map(<[u8]>::to_vec))).collect()
    };
    let bytes = record_at(4096, 7, |b| {
        b.row(b"r");
        b.nonces(NonceNotes { answers: b"an", fingerprints: Some(b"fp") });
    });
    let with = &bytes[40..bytes.len() - 8];
    assert_eq!(with, [1, 1, b'r', 32, 2, b'a', b'n', 33, 2, b'f', b'p', 0, 0, 0, 0, 0]);
    assert_eq!(told(with), [(b"an".to_vec(), Some(b"fp".to_vec()))]);
    let without = [1, 1, b'r', 32, 2, b'a', b'n', 0];
    assert_eq!(told(&without), [(b"an".to_vec(), None)]);
    // Several, each with its own; one that belongs to none is stepped over, as an earlier build steps over all of them.
    let several = [33, 1, 9, 32, 1, 1, 32, 1, 2, 33, 1, 8, 34, 0, 32, 1, 3, 34, 1, 33, 0, 0];
    assert_eq!(told(&several), [(vec![1], None), (vec![2], Some(vec![8])), (vec![3], None)]);
    assert!(Record::decode(raw(&[32, 1, 1, 33, 5, 0]), LogPosition(0)).is_err(), "cut short");
}

proptest! {
    #[test]
    fn no_payload_crashes_the_decoder(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(r) = Record::decode(raw(&payload), LogPosition(0)) {
            prop_assert_eq!(r.cells().count(), r.rows().map(|r| r.cells().count()).sum::<usize>());
        }
    }

    #[test]
    fn no_bytes_are_valid_by_chance(mut bytes in proptest::collection::vec(any::<u8>(), 16..300), right_header: bool, offset in 0u32..1000) {
        let offset = 4096 + offset * 8;
        if right_header {
            let length = bytes.len() as u32 / 8 * 8;
            bytes[..8].copy_from_slice(&SaltCrc::new(SALT).header_word(offset, length).to_le_bytes());
        }
        let left = bytes.len() as u32;
        prop_assert!(!judge(&bytes, offset, left, None).starts_with("valid"));
    }

    #[test]
    fn another_salt_never_validates(salt: u64, offset in 0u32..1000) {
        prop_assume!(salt != SALT);
        let offset = 4096 + offset * 8;
        let b = record_at(offset, 7, |b| b.row(b"row"));
        let other = SaltCrc::new(salt);
        prop_assert_eq!(header_word(other, offset, 1000, u64_at(&b, 0).unwrap()), HeaderWord::Bad);
        prop_assert!(!matches!(examine(other, offset, b.len() as u32, &b, None), Found::Valid(_)));
    }
}
