//! The index against BTreeMap, alone and under threads; windows against the order of keys; running out of memory.

use super::window::{Shared, shares, window};
use super::*;
use crate::cell::order::compare_columns;
use crate::mslab::{ChunkPool, MemoryBudget, PoolOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// An owned key, ordered as columns are.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Key(Vec<u8>, u32, Vec<u8>);

impl Key {
    fn parts(&self) -> ColumnKey<'_> {
        (&self.0, FamilyId(self.1), &self.2)
    }
    fn row(row: impl AsRef<[u8]>) -> Self {
        Self(row.as_ref().to_vec(), 1, b"q".to_vec())
    }
}
impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_columns(self.parts(), other.parts())
    }
}
impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A reference is the number of a key, plus 1.
struct Keys(Vec<Key>);

// SAFETY: only references into the vector are inserted (see `add`), and the vector never changes.
unsafe impl KeyOf for Keys {
    unsafe fn key(&self, reference: u64) -> ColumnKey<'_> {
        self.0[reference as usize - 1].parts()
    }
}

fn memory(chunk_size: usize, budget: u64) -> Arc<Arena> {
    let options = PoolOptions { chunk_size, max_bytes: 1 << 30, ..PoolOptions::default() };
    Arc::new(Arena::new(ChunkPool::new(options).unwrap(), Arc::new(MemoryBudget::new(budget))))
}
fn index(keys: Vec<Key>) -> ColumnIndex<Keys> {
    ColumnIndex::new(memory(16 << 10, 1 << 30), Keys(keys), 0).unwrap()
}
fn add(index: &ColumnIndex<Keys>, i: usize, thread: usize) -> Result<(), NoMemory> {
    // SAFETY: the reference of key `i`.
    unsafe { index.insert(index.keys.0[i].parts(), i as u64 + 1, thread) }
}
fn scan(index: &ColumnIndex<Keys>, from: ColumnKey<'_>, inclusive: bool) -> Vec<usize> {
    let mut cursor = index.cursor(from, inclusive);
    std::iter::from_fn(|| cursor.next().map(|r| r as usize - 1)).collect()
}
/// Everything that the index answers, against the model, whose values are the keys' numbers.
fn compare(index: &ColumnIndex<Keys>, model: &BTreeMap<Key, usize>, probes: &[Key]) {
    check_structure(index);
    let all: Vec<usize> = model.values().copied().collect();
    assert_eq!(scan(index, KEY_MIN, true), all);
    for probe in probes {
        assert_eq!(index.get(probe.parts()).map(|r| r as usize - 1), model.get(probe).copied(), "get {probe:?}");
        let before = model.range(..probe.clone()).next_back().map(|(_, i)| *i);
        assert_eq!(index.before(probe.parts()).map(|r| r as usize - 1), before, "before {probe:?}");
        let from: Vec<usize> = model.range(probe.clone()..).map(|(_, i)| *i).take(70).collect();
        let mut cursor = index.cursor(probe.parts(), true);
        let got: Vec<usize> = std::iter::from_fn(|| cursor.next().map(|r| r as usize - 1)).take(70).collect();
        assert_eq!(got, from, "from {probe:?}");
        let behind = from.iter().copied().find(|i| index.keys.0[*i] != *probe);
        assert_eq!(index.cursor(probe.parts(), false).next().map(|r| r as usize - 1), behind, "behind {probe:?}");
    }
}
/// What the rules of nodes say, for every node: fences are the separators around it, entries ascend within them, windows are those behind the shared
/// part, which everything between the fences shares, or else every entry (and keys are checked).
fn check_structure(index: &ColumnIndex<Keys>) {
    let mut leaves = Vec::new();
    check_node(index, Child::Inner(index.root()), (0, 0), &mut leaves);
    for pair in leaves.windows(2) {
        assert!(std::ptr::eq(pair[0].right().unwrap(), pair[1]), "leaf links");
    }
    assert!(leaves.last().unwrap().right().is_none());
}
fn check_node<'t>(index: &'t ColumnIndex<Keys>, child: Child<'t>, (low, high): (u64, u64), leaves: &mut Vec<&'t Leaf>) {
    let node = child.node();
    assert_eq!((node.low(), node.high()), (low, high), "fences");
    let n = node.count();
    let keys: Vec<ColumnKey<'_>> = (0..n).map(|i| index.key_at(node.reference(i))).collect();
    assert!(keys.windows(2).all(|p| compare_columns(p[0], p[1]).is_lt()), "order of entries");
    assert!(low == 0 || n == 0 || compare_columns(index.key_at(low), keys[0]).is_le(), "below the fence");
    assert!(high == 0 || n == 0 || compare_columns(keys[n - 1], index.key_at(high)).is_lt(), "above the fence");
    let (shared, checked) = node.shared();
    assert_eq!(checked, low == 0 || high == 0, "checked at an edge, and only there");
    if !checked {
        assert!(!Shared::of(index.key_at(low), index.key_at(high)).is_less_than(shared), "the fences share less");
    }
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(shares(*key, keys[0], shared), Ordering::Equal, "an entry shares less");
        assert_eq!(node.window(i), window(*key, shared), "window {i}");
    }
    match child {
        Child::Leaf(leaf) => leaves.push(leaf),
        Child::Inner(inner) => {
            for i in 0..=n {
                let from = if i == 0 { low } else { node.reference(i - 1) };
                let to = if i == n { high } else { node.reference(i) };
                check_node(index, inner.child(i).unwrap(), (from, to), leaves);
            }
        }
    }
}
/// Inserts all keys in the order given, leaving out repeated ones.
fn fill(keys: Vec<Key>) -> (ColumnIndex<Keys>, BTreeMap<Key, usize>) {
    let index = index(keys);
    let mut model = BTreeMap::new();
    for (i, key) in index.keys.0.iter().enumerate() {
        if !model.contains_key(key) {
            add(&index, i, 0).unwrap();
            model.insert(key.clone(), i);
        }
    }
    (index, model)
}
/// A fixed sequence of numbers that looks random.
fn mixed(i: u64) -> u64 {
    let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (x >> 32)
}

fn any_key() -> impl Strategy<Value = Key> {
    // Few different bytes, so that beginnings are shared, zeros and FF are common and rows are each other's beginnings.
    let byte = prop_oneof![Just(0_u8), Just(1), Just(0xff), Just(b'a'), Just(b'b')];
    let row = prop_oneof![
        prop::collection::vec(byte.clone(), 0..6),
        prop::collection::vec(byte.clone(), 6..14),
        prop::collection::vec(byte.clone(), 0..4).prop_map(|tail| [b"user00000000".as_slice(), &tail].concat()),
        Just(b"one wide row".to_vec()),
    ];
    let family = prop_oneof![Just(0_u32), Just(1), Just(2), Just(0x0100_0000), Just(0xfeff_ffff), Just(0xff00_0000), Just(u32::MAX)];
    let qualifier = prop_oneof![
        prop::collection::vec(byte.clone(), 0..4),
        prop::collection::vec(byte, 0..4).prop_map(|tail| [b"column-00000".as_slice(), &tail].concat()),
    ];
    (row, family, qualifier).prop_map(|(r, f, q)| Key(r, f, q))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Any keys in any order: get, before, seek and scan as the model's.
    #[test]
    fn index_is_a_sorted_map(keys in prop::collection::vec(any_key(), 0..400), probes in prop::collection::vec(any_key(), 1..40)) {
        let (index, model) = fill(keys.clone());
        compare(&index, &model, &probes);
        compare(&index, &model, &keys[..keys.len().min(40)]);
    }

    /// The order of windows never contradicts the order of keys, for all keys between the two that the shared part comes from.
    #[test]
    fn windows_order_as_keys(keys in prop::collection::vec(any_key(), 2..12)) {
        let mut keys = keys;
        keys.sort();
        let shared = Shared::of(keys[0].parts(), keys[keys.len() - 1].parts());
        for pair in keys.windows(2) {
            prop_assert_eq!(shares(pair[0].parts(), pair[1].parts(), shared), Ordering::Equal);
            prop_assert!(window(pair[0].parts(), shared) <= window(pair[1].parts(), shared), "{:?} at {:?}", pair, shared);
        }
    }

    /// A key that lacks the shared part is below or above all that have it, as `shares` says.
    #[test]
    fn shared_part_tells_sides(mut keys in prop::collection::vec(any_key(), 2..6), probe in any_key()) {
        keys.sort();
        let (first, last) = (keys[0].parts(), keys[keys.len() - 1].parts());
        match shares(probe.parts(), first, Shared::of(first, last)) {
            Ordering::Less => prop_assert!(compare_columns(probe.parts(), first) == Ordering::Less),
            Ordering::Greater => prop_assert!(compare_columns(probe.parts(), last) == Ordering::Greater),
            Ordering::Equal => {}
        }
    }
}

#[test]
fn windows_by_hand() {
    let w = |r: &[u8], f: u32, q: &[u8], s: Shared| window((r, FamilyId(f), q), s);
    assert_eq!(w(b"abcdefghij", 1, b"", Shared(2)), u64::from_be_bytes(*b"cdefghij"));
    // Row end 00, family 00000001, then the qualifier.
    assert_eq!(w(b"ab", 1, b"qu", Shared(1)), u64::from_be_bytes(*b"b\0\0\0\0\x01qu"));
    // A zero within the row is 00 FF.
    assert_eq!(w(b"a\0b", 1, b"", Shared(0)), u64::from_be_bytes(*b"a\0\xffb\0\0\0\0"));
    assert_eq!(w(b"row", 0x0102_0304, b"qualifier", Shared(1 << 30 | 3)), u64::from_be_bytes(*b"\x04qualifi"));
    assert_eq!(w(b"row", 1, b"qualifier", Shared(1 << 30 | 4)), u64::from_be_bytes(*b"qualifie"));
    assert_eq!(Shared::of((b"abc", FamilyId(1), b"x"), (b"abd", FamilyId(1), b"x")), Shared(2));
    assert_eq!(Shared::of((b"ab", FamilyId(1), b"x"), (b"abd", FamilyId(1), b"x")), Shared(2));
    assert_eq!(Shared::of((b"ab", FamilyId(1), b"xy"), (b"ab", FamilyId(1), b"xz")), Shared(1 << 30 | 5));
    assert_eq!(Shared::of((b"ab", FamilyId(1), b"xy"), (b"ab", FamilyId(0x100), b"xz")), Shared(1 << 30 | 2));
    // Windows are computed anew when they then tell 4 bytes more, or begin behind the row.
    assert!(Shared(5).is_much_more_than(Shared(1)) && !Shared(4).is_much_more_than(Shared(1)));
    assert!(Shared(1 << 30).is_much_more_than(Shared(100)) && !Shared(100).is_much_more_than(Shared(1 << 30)));
}

/// Deep trees in the orders that splits treat differently; rows that share 12 bytes.
#[test]
fn deep_trees_in_every_order() {
    const N: u64 = 30_000;
    let named = |i: u64| Key::row(format!("user00000000{i:06}"));
    let orders: [Vec<u64>; 3] = [(0..N).collect(), (0..N).rev().collect(), (0..N).map(|i| i * 7_919 % N).collect()];
    for order in orders {
        let (index, model) = fill(order.iter().map(|i| named(*i)).collect());
        assert_eq!(model.len(), N as usize);
        let probes: Vec<Key> =
            (0..200).map(|i| named(mixed(i) % (N + 50))).chain([Key::row("a"), Key::row("z"), Key::row("user")]).collect();
        compare(&index, &model, &probes);
    }
}

/// Ascending inserts fill leaves to the brim.
#[test]
fn ascending_inserts_leave_no_holes() {
    let arena = memory(64 << 10, 1 << 30);
    let keys: Vec<Key> = (0..20_000_u64).map(|i| Key::row(i.to_be_bytes())).collect();
    let index = ColumnIndex::new(Arc::clone(&arena), Keys(keys), 0).unwrap();
    for i in 0..20_000 {
        add(&index, i, 0).unwrap();
    }
    let bytes = arena.allocated_bytes() / 20_000;
    assert!(bytes < 20, "{bytes} bytes per entry, 17 are in a full leaf");
}

/// A far key behind a full leaf whose keys share much: what then comes between does not share it.
#[test]
fn a_leaf_whose_fence_moves_far_away() {
    let near = (0..64).map(|i| Key::row(format!("user0000000{i:02}")));
    let between = ["user1", "v", "w", "user0000000635", "x", "user00000007", "y", "user0000001"].map(Key::row);
    for after in [vec![Key::row("z")], vec![Key::row("z"), Key::row("zz")], vec![Key::row("user1000")]] {
        let (index, model) = fill(near.clone().chain(after).chain(between.clone()).collect());
        compare(&index, &model, &index.keys.0);
    }
}

/// Rows of many columns: nodes within one row, and the row's neighbours.
#[test]
fn wide_rows() {
    let mut keys = Vec::new();
    for i in 0..4_000_u64 {
        keys.push(Key(b"wide".to_vec(), 1 + (mixed(i) % 3) as u32, format!("column-{:08}", mixed(i) % 100_000).into_bytes()));
        keys.push(Key(format!("narrow{i}").into_bytes(), 1, vec![]));
        keys.push(Key([b"wide".as_slice(), &[(mixed(i) % 7) as u8]].concat(), 1, i.to_be_bytes().to_vec()));
    }
    let (index, model) = fill(keys);
    let probes: Vec<Key> = index.keys.0.iter().step_by(37).cloned().collect();
    compare(&index, &model, &probes);
}

/// A descending scan by `before`, and a resumed ascending one, pass every column once.
#[test]
fn both_directions_by_remembered_key() {
    let (index, model) = fill((0..3_000).map(|i| Key::row(mixed(i).to_be_bytes())).collect());
    let mut down = Vec::new();
    let mut at = Key(vec![0xff; 20], 0, vec![]);
    while let Some(reference) = index.before(at.parts()) {
        down.push(reference as usize - 1);
        at = index.keys.0[reference as usize - 1].clone();
    }
    down.reverse();
    assert_eq!(down, model.values().copied().collect::<Vec<_>>());
    let mut up = Vec::new();
    let mut at = None::<Key>;
    loop {
        let mut cursor = at.as_ref().map_or_else(|| index.cursor(KEY_MIN, true), |k| index.cursor(k.parts(), false));
        let some: Vec<usize> = std::iter::from_fn(|| cursor.next().map(|r| r as usize - 1)).take(100).collect();
        let Some(last) = some.last() else { break };
        at = Some(index.keys.0[*last].clone());
        up.extend(some);
    }
    assert_eq!(up, down);
}

/// Threads insert, each looks its own up at once; scans meanwhile see what was there, in order, nothing twice.
#[test]
fn threads_insert_look_up_and_scan() {
    const WRITERS: usize = 4;
    const EACH: usize = 4_000;
    // The first quarter is there before the threads begin.
    let before = WRITERS * EACH / 4;
    for shared in [false, true] {
        let total = before + WRITERS * EACH;
        let name = |i: usize| {
            if shared {
                format!("user00000000{:05}", mixed(i as u64) % 100_000).into_bytes()
            } else {
                mixed(i as u64).to_be_bytes().to_vec()
            }
        };
        let keys: Vec<Key> = (0..total).map(|i| Key(name(i), 1, (i as u32).to_be_bytes().to_vec())).collect();
        let index = index(keys);
        for i in 0..before {
            add(&index, i, 0).unwrap();
        }
        let (left, scans) = (AtomicUsize::new(WRITERS), AtomicUsize::new(0));
        std::thread::scope(|s| {
            for w in 0..WRITERS {
                let (index, left, scans) = (&index, &left, &scans);
                s.spawn(move || {
                    for (n, i) in (before + w..total).step_by(WRITERS).enumerate() {
                        // However the threads are scheduled, scans and inserts overlap.
                        while n == EACH / 2 && scans.load(SeqCst) == 0 {
                            std::thread::yield_now();
                        }
                        add(index, i, w).unwrap();
                        assert_eq!(index.get(index.keys.0[i].parts()), Some(i as u64 + 1), "a column just inserted");
                        let other = mixed(i as u64) as usize % before;
                        assert_eq!(index.get(index.keys.0[other].parts()), Some(other as u64 + 1));
                    }
                    left.fetch_sub(1, SeqCst);
                });
            }
            for _ in 0..2 {
                s.spawn(|| {
                    while left.load(SeqCst) > 0 {
                        let seen = scan(&index, KEY_MIN, true);
                        scans.fetch_add(1, SeqCst);
                        assert!(seen.windows(2).all(|p| index.keys.0[p[0]] < index.keys.0[p[1]]), "out of order or twice");
                        assert_eq!(seen.iter().filter(|i| **i < before).count(), before, "lost what was there");
                    }
                });
            }
        });
        let model = index.keys.0.iter().cloned().zip(0..).collect();
        compare(&index, &model, &index.keys.0[..100]);
    }
}

/// A scan that rests while leaves split under it.
#[test]
fn a_resting_scan_neither_loses_nor_repeats() {
    const OLD: usize = 2_000;
    let mut keys: Vec<Key> = (0..OLD).map(|i| Key::row(format!("{:06}", i * 10))).collect();
    keys.extend((0..OLD * 9).map(|i| Key::row(format!("{:06}", i / 9 * 10 + 1 + i % 9))));
    let index = index(keys);
    for i in 0..OLD {
        add(&index, i, 0).unwrap();
    }
    let mut cursor = index.cursor(KEY_MIN, true);
    let (mut seen, mut next) = (Vec::new(), OLD);
    while let Some(reference) = cursor.next() {
        seen.push(reference as usize - 1);
        // Insert some all over, much faster than the scan goes on.
        for _ in 0..40 {
            if next < OLD * 10 {
                // 7,919 is prime to the number of new keys: each comes once.
                add(&index, OLD + (next - OLD) * 7_919 % (OLD * 9), 0).unwrap();
                next += 1;
            }
        }
    }
    assert!(seen.windows(2).all(|p| index.keys.0[p[0]] < index.keys.0[p[1]]));
    assert_eq!(seen.iter().filter(|i| **i < OLD).count(), OLD);
}

/// Without memory an insert changes nothing, and works again once there is memory.
#[test]
fn exhausted_memory_leaves_the_index_whole() {
    let arena = memory(4 << 10, 100 << 10);
    let keys: Vec<Key> = (0..20_000).map(|i| Key::row(mixed(i).to_be_bytes())).collect();
    let index = ColumnIndex::new(Arc::clone(&arena), Keys(keys), 0).unwrap();
    let mut model = BTreeMap::new();
    let mut refused = 0;
    for i in 0..20_000 {
        match add(&index, i, 0) {
            Ok(()) => _ = model.insert(index.keys.0[i].clone(), i),
            Err(NoMemory) => refused += 1,
        }
    }
    assert!(refused > 1_000 && model.len() > 1_000, "{refused} refused, {} inserted", model.len());
    assert!(arena.budget().used() <= 100 << 10);
    compare(&index, &model, &index.keys.0[..300]);
    // Nothing was left latched.
    std::thread::scope(|s| {
        for t in 0..3 {
            let (index, model) = (&index, &model);
            s.spawn(move || {
                index.keys.0.iter().skip(t).step_by(7).for_each(|k| assert_eq!(index.get(k.parts()).is_some(), model.contains_key(k)))
            });
        }
    });
}

/// No memory for the first nodes: no index, and nothing stays taken.
#[test]
fn no_memory_for_the_first_node() {
    assert!(ColumnIndex::new(memory(4 << 10, 100), Keys(Vec::new()), 0).is_err());
}

/// Memory that comes back lets the same insert succeed.
#[test]
fn memory_that_comes_back_is_used() {
    let arena = memory(4 << 10, 1 << 20);
    let keys: Vec<Key> = (0..1_000).map(|i| Key::row(mixed(i).to_be_bytes())).collect();
    let index = ColumnIndex::new(Arc::clone(&arena), Keys(keys), 0).unwrap();
    let rest = (1 << 20) - arena.budget().used();
    assert!(arena.budget().try_take(rest));
    let failed = (0..1_000).find(|i| add(&index, *i, 0).is_err()).unwrap();
    assert!(failed > 60);
    arena.budget().give(rest);
    for i in failed..1_000 {
        add(&index, i, 0).unwrap();
    }
    assert_eq!(scan(&index, KEY_MIN, true).len(), 1_000);
}
