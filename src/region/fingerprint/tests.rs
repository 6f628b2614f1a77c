use super::*;
use crate::nonce::NonceTable;

struct Ops(Vec<Mutation<'static>>);

impl Mutations for Ops {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Mutation<'_> {
        self.0[i]
    }
}

fn print(o: &WriteOptions, ops: &[Mutation<'static>]) -> u64 {
    let table = NonceTable::new(std::array::from_fn(|i| i as u8), 1, 1);
    Asked::of(o).fingerprint(table.fingerprinter(), &Ops(ops.to_vec()), 0..ops.len()).get()
}
fn plain(m: Mutation<'static>) -> u64 {
    print(&WriteOptions::DEFAULT, &[m])
}
const ALL: Mutation<'static> = Mutation { op: Op::Put, family: 1, row: b"r", qual: b"q", value: b"v", delta: 5, timestamp: 7 };

const OPS: [Op; 11] = [
    Op::Put,
    Op::Delete,
    Op::DeleteVersion,
    Op::DeleteFamily,
    Op::DeleteRow,
    Op::Append,
    Op::Increment,
    Op::DeleteFamilyVersion,
    Op::Check { how: Comparison::Equal, as_counter: false },
    Op::Check { how: Comparison::Equal, as_counter: true },
    Op::Check { how: Comparison::Absent, as_counter: false },
];

/// What has a meaning for an operation is compared, and nothing else: what stands in the other fields may be left over from anything.
#[test]
fn what_is_compared() {
    // Whether family, qualifier, value and delta count; kind and timestamp always do.
    let counts = |op| match op {
        Op::Put | Op::Append => [true, true, true, false],
        Op::Delete | Op::DeleteVersion => [true, true, false, false],
        Op::DeleteFamily | Op::DeleteFamilyVersion => [true, false, false, false],
        Op::DeleteRow => [false; 4],
        Op::Increment | Op::Check { how: Comparison::Equal, as_counter: true } => [true, true, false, true],
        Op::Check { how: Comparison::Equal, .. } => [true, true, true, false],
        Op::Check { .. } => [true, true, false, false],
    };
    let mut seen = std::collections::HashSet::new();
    for op in OPS {
        let m = Mutation { op, ..ALL };
        let others = [Mutation { family: 2, ..m }, Mutation { qual: b"p", ..m }, Mutation { value: b"w", ..m }, Mutation { delta: 6, ..m }];
        assert_eq!(others.map(|other| plain(other) != plain(m)), counts(op), "{op:?}");
        assert_ne!(plain(Mutation { timestamp: 8, ..m }), plain(m), "{op:?}");
        assert_eq!(plain(Mutation { row: b"s", ..m }), plain(m), "the row is part of the group's name");
        assert!(seen.insert(plain(m)), "{op:?} is taken for another");
    }
    let checks = (0..8u8).map(|i| match i {
        0 => Comparison::Equal,
        1 => Comparison::NotEqual,
        2 => Comparison::Less,
        3 => Comparison::LessOrEqual,
        4 => Comparison::Greater,
        5 => Comparison::GreaterOrEqual,
        6 => Comparison::Exists,
        _ => Comparison::Absent,
    });
    let told: std::collections::HashSet<u64> =
        checks.map(|how| plain(Mutation { op: Op::Check { how, as_counter: false }, ..ALL })).collect();
    assert_eq!(told.len(), 8);
    // Strings are told apart from what follows them, operations from each other by order and number.
    assert_ne!(plain(Mutation { qual: b"qv", value: b"", ..ALL }), plain(Mutation { qual: b"q", value: b"v", ..ALL }));
    let (a, b) = (ALL, Mutation { qual: b"p", ..ALL });
    let of = |ops: &[Mutation<'static>]| print(&WriteOptions::DEFAULT, ops);
    assert!(of(&[a, b]) != of(&[b, a]) && of(&[a]) != of(&[a, a]));
}

#[test]
fn options_that_say_what_is_done() {
    let d = WriteOptions::DEFAULT;
    let m = Mutation { timestamp: 0, ..ALL };
    let of = |o: WriteOptions| print(&o, &[m]);
    for flag in [WriteOptions::ATOMIC, WriteOptions::CHECK_OVERFLOW, WriteOptions::SET, WriteOptions::RETURN_OLD] {
        assert_ne!(of(WriteOptions { flags: flag, ..d }), of(d), "{flag:#x}");
    }
    let bounded = WriteOptions { flags: WriteOptions::BOUNDED, min_value: -1, max_value: 9, ..d };
    assert_ne!(of(WriteOptions { max_value: 8, ..bounded }), of(bounded));
    assert_ne!(of(WriteOptions { min_value: 0, ..bounded }), of(bounded));
    // Bounds without BOUNDED are none; how a call is made is not what it does.
    assert_eq!(of(WriteOptions { min_value: -1, max_value: 9, ..d }), of(d));
    assert_eq!(
        of(WriteOptions { durability: Some(crate::options::Durability::FsyncWal), timeout_us: Some(1), nonce: 3, nonce_group: 4, ..d }),
        of(d)
    );
    // A timestamp of the call is that of its operations.
    assert_eq!(of(WriteOptions { timestamp: 7, ..d }), plain(ALL));
    // Of an atomic call the rows count.
    let atomic = WriteOptions { flags: WriteOptions::ATOMIC, ..d };
    assert_ne!(print(&atomic, &[ALL]), print(&atomic, &[Mutation { row: b"s", ..ALL }]));
}

/// Golden: what is on disk must go on matching.
#[test]
fn the_numbers_of_before() {
    let increment = Mutation { op: Op::Increment, timestamp: 0, ..ALL };
    let bounded =
        WriteOptions { flags: WriteOptions::BOUNDED | WriteOptions::ATOMIC, min_value: -1, max_value: 9, ..WriteOptions::DEFAULT };
    let check = Mutation { op: Op::Check { how: Comparison::GreaterOrEqual, as_counter: true }, ..increment };
    assert_eq!([plain(increment), plain(ALL), print(&bounded, &[check, increment])], GOLDEN);
}
const GOLDEN: [u64; 3] = [13361237267305761545, 6288996810925015162, 6914991794772846306];
