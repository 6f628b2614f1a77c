use super::*;
use crate::sync::thread;

const WINDOW: u64 = 100;
const ROOM: u64 = 1 << 20;

fn table(bytes_max: u64) -> NonceTable {
    NonceTable::new(*b"sixteen byte key", WINDOW, bytes_max)
}
fn nonce(nonce: u64) -> Nonce {
    Nonce { group: 1, nonce }
}
fn place(t: &NonceTable, row: &[u8], nth: u32) -> Place {
    Place { row: t.row(row), nth }
}
fn answer(values: &[i64]) -> Answer {
    Answer { values: values.into(), bytes: [].into(), of: None }
}
/// Reserves and fills one entry.
fn put(t: &NonceTable, n: u64, at: Place, value: i64, number: u64, now: u64) {
    t.reserve(nonce(n), vec![(at, answer(&[value]))], Tick(now)).unwrap().fill(SequenceNumber(number), Tick(now));
}
fn get(t: &NonceTable, n: u64, at: Place, now: u64) -> Option<(i64, u64, u64)> {
    let entry = t.find(nonce(n), &[at], Tick(now)).pop().unwrap()?;
    let (number, tick) = entry.commit().unwrap();
    Some((entry.answer.values[0], number.0, tick.0))
}

#[test]
fn the_hash_of_rows_is_the_one_of_the_paper() {
    // SipHash-2-4, appendix A: key 00 … 0f, input 00 … 0e.
    let input: Vec<u8> = (0..15).collect();
    let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
    assert_eq!(sip(key, input[0], &input[1..]), 0xa129_ca61_49be_45e5);
    // Both halves count, and the key.
    let t = NonceTable::new(std::array::from_fn(|i| i as u8), WINDOW, ROOM);
    let RowId([a, b]) = t.row(&input[1..]);
    assert_eq!(a, 0xa129_ca61_49be_45e5);
    assert_ne!(a, b);
    assert_ne!(table(ROOM).row(b"r"), t.row(b"r"));
}

#[test]
fn an_entry_answers_for_its_key_only() {
    let t = table(ROOM);
    let at = place(&t, b"a", 0);
    assert_eq!(get(&t, 7, at, 10), None);
    put(&t, 7, at, 5, 3, 10);
    assert_eq!(get(&t, 7, at, 10), Some((5, 3, 10)));
    for other in [place(&t, b"b", 0), place(&t, b"a", 1)] {
        assert_eq!(get(&t, 7, other, 10), None, "{other:?}");
    }
    assert_eq!(get(&t, 8, at, 10), None);
    assert!(t.find(Nonce { group: 2, nonce: 7 }, &[at], Tick(10))[0].is_none());
}

#[test]
fn what_is_dropped_unfilled_leaves_nothing() {
    let t = table(ROOM);
    let at = place(&t, b"a", 0);
    let reserved = t.reserve(nonce(7), vec![(at, answer(&[5])), (place(&t, b"b", 0), answer(&[6]))], Tick(10)).unwrap();
    assert_eq!((t.len(), get(&t, 7, at, 10)), (2, None), "it answers before it has a number");
    drop(reserved);
    assert_eq!((t.len(), t.bytes()), (0, 0));
    // Also by a panic.
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _reserved = t.reserve(nonce(7), vec![(at, answer(&[5]))], Tick(10)).unwrap();
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicked.is_err());
    assert_eq!((t.len(), t.bytes()), (0, 0));
    put(&t, 7, at, 5, 3, 10);
    assert_eq!(get(&t, 7, at, 10), Some((5, 3, 10)));
}

#[test]
fn an_entry_goes_once_it_is_older_than_the_window() {
    let t = table(ROOM);
    let at = place(&t, b"a", 0);
    put(&t, 7, at, 5, 3, 10);
    assert_eq!(get(&t, 7, at, 10 + WINDOW), Some((5, 3, 10)));
    assert_eq!(get(&t, 7, at, 11 + WINDOW), None);
    // Its key is free, while the old entry still waits to be taken out; the new one is its own.
    put(&t, 7, at, 9, 4, 11 + WINDOW);
    t.expire(Tick(12 + WINDOW));
    assert_eq!(get(&t, 7, at, 12 + WINDOW), Some((9, 4, 11 + WINDOW)));
    assert_eq!(t.len(), 1);
    t.expire(Tick(12 + 2 * WINDOW));
    assert_eq!((t.len(), t.bytes()), (0, 0));
}

#[test]
fn all_entries_of_a_call_go_together() {
    let t = table(ROOM);
    // More than one step of the expiry takes out.
    let places: Vec<Place> = (0..100u32).map(|i| place(&t, &i.to_le_bytes(), 0)).collect();
    let groups = places.iter().map(|p| (*p, answer(&[1]))).collect();
    t.reserve(nonce(7), groups, Tick(10)).unwrap().fill(SequenceNumber(3), Tick(10));
    let there = |now| t.find(nonce(7), &places, Tick(now)).iter().flatten().count();
    assert_eq!(there(10 + WINDOW), 100);
    assert!(t.expire_some(t.shard(nonce(7)), Tick(11 + WINDOW)), "that took all of them");
    // A caller that read the clock before the step must not meet the rest of them.
    assert_eq!(there(10 + WINDOW), 0);
    assert!(t.len() < 100 && t.len() > 0);
}

#[test]
fn one_that_is_only_reserved_does_not_go() {
    let t = table(ROOM);
    let at = place(&t, b"a", 0);
    let reserved = t.reserve(nonce(7), vec![(at, answer(&[5]))], Tick(10)).unwrap();
    t.expire(Tick(11 + WINDOW));
    assert_eq!(t.len(), 1);
    reserved.fill(SequenceNumber(3), Tick(9));
    t.expire(Tick(11 + WINDOW));
    assert_eq!(t.len(), 0);
}

#[test]
fn a_full_table_refuses_and_forgets_nothing_young() {
    let one = ENTRY_BYTES + 8;
    let t = table(10 * one);
    let at = |i: u64| place(&t, &i.to_le_bytes(), 0);
    for i in 0..10 {
        put(&t, i + 1, at(i), i as i64, i + 1, 10 + i);
    }
    let refused = t.reserve(nonce(99), vec![(at(99), answer(&[1]))], Tick(20)).map(|_| ()).unwrap_err();
    assert_eq!(refused, Full { needed: one });
    assert_eq!((t.bytes(), t.len()), (10 * one, 10), "the refused one left something");
    assert!(!t.has_room(one, Tick(10 + WINDOW)));
    assert!((0..10).all(|i| get(&t, i + 1, at(i), 20).is_some()));
    // The oldest is past the window: there is room for one.
    assert!(t.has_room(one, Tick(11 + WINDOW)) && !t.has_room(2 * one, Tick(11 + WINDOW)));
    put(&t, 99, at(99), 1, 99, 11 + WINDOW);
    assert_eq!(get(&t, 1, at(0), 11 + WINDOW), None);
    assert_eq!(get(&t, 2, at(1), 11 + WINDOW), Some((1, 2, 11)));
}

#[test]
fn the_bytes_are_about_what_it_takes() {
    // The estimate must not be below what the parts of an entry take in the worst case of their tables (half full).
    let held = size_of::<Entry>() + 2 * size_of::<usize>() + 2 * (size_of::<Arc<Entry>>() + 1) + 2 * size_of::<Arc<Entry>>();
    assert!(held as u64 <= ENTRY_BYTES, "{held}");
}

#[test]
fn restored_entries_are_the_young_ones_with_the_larger_number() {
    let t = table(ROOM);
    let key = |n: u64, row: &[u8]| Key { nonce: nonce(n), place: place(&t, row, 0) };
    let now = Tick(1_000);
    let restore = |key, value, number, tick| t.restore(key, answer(&[value]), SequenceNumber(number), Tick(tick), now);
    restore(key(1, b"old"), 1, 1, 1_000 - WINDOW - 1);
    restore(key(1, b"a"), 1, 2, 1_000 - WINDOW);
    restore(key(1, b"b"), 5, 9, 950);
    restore(key(1, b"b"), 4, 8, 960);
    restore(key(1, b"c"), 4, 8, 960);
    restore(key(1, b"c"), 6, 10, 970);
    restore(key(1, b"ahead"), 7, 11, 1_500);
    let got = |row: &[u8], now| get(&t, 1, place(&t, row, 0), now);
    assert_eq!(got(b"old", 1_000), None);
    assert_eq!(got(b"a", 1_000), Some((1, 2, 900)));
    assert_eq!(got(b"a", 1_001), None);
    assert_eq!(got(b"b", 1_000), Some((5, 9, 950)));
    assert_eq!(got(b"c", 1_000), Some((6, 10, 970)));
    // A row whose ticks ran ahead of the clock is remembered from now on, not from then.
    assert_eq!(got(b"ahead", 1_000 + WINDOW), Some((7, 11, 1_500)));
    assert_eq!(got(b"ahead", 1_001 + WINDOW), None);
    t.expire(Tick(1_001 + WINDOW));
    assert_eq!((t.len(), t.bytes()), (0, 0));
}

#[test]
fn entries_can_be_listed_up_to_a_number() {
    let t = table(ROOM);
    for n in [5, 3, 9, 1] {
        put(&t, n, place(&t, b"r", 0), n as i64, n, 10);
    }
    let open = t.reserve(nonce(100), vec![(place(&t, b"r", 0), answer(&[0]))], Tick(10)).unwrap();
    let numbers: Vec<u64> = t.up_to(SequenceNumber(5)).iter().filter_map(|e| e.commit()).map(|(n, _)| n.0).collect();
    assert_eq!(numbers, [1, 3, 5]);
    drop(open);
}

#[test]
fn bytes_come_back_as_they_went() {
    let t = table(ROOM);
    let groups = vec![
        (place(&t, b"a", 0), answer(&[0, 1, -1, i64::MIN, i64::MAX])),
        (place(&t, b"a", u32::MAX), Answer { values: [].into(), bytes: (*b"grown").into(), of: None }),
        (place(&t, b"b", 1), Answer { values: vec![-3; 300].into(), bytes: vec![7; 300].into(), of: None }),
    ];
    let mut out = Vec::new();
    let reserved = t.reserve(nonce(u64::MAX), groups.clone(), Tick(1)).unwrap();
    reserved.encode(&mut out, &mut Vec::new());
    assert_eq!(decode(&out).unwrap(), (nonce(u64::MAX), groups));
    for short in 0..out.len() {
        // Cut between two groups it is whole; anywhere else it is nothing.
        assert!(decode(&out[..short]).is_none_or(|(_, g)| g.len() < 3), "{short}");
    }
    assert_eq!(decode(&[0; 16]), None, "a nonce of 0 is none");
    let mut one = vec![1; 16];
    one.extend([0; 16]);
    for wrong in [&[0x80; 11][..], &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], &[0, 5, 0], &[0, 0, 1]] {
        assert_eq!(decode(&[&one[..], wrong].concat()), None, "{wrong:?}");
    }
}

/// Golden bytes: what is on disk must not change.
#[test]
fn the_bytes_of_one_increment() {
    let t = NonceTable::new(std::array::from_fn(|i| i as u8), WINDOW, ROOM);
    let mut out = Vec::new();
    t.reserve(Nonce { group: 1, nonce: 2 }, vec![(place(&t, b"r", 0), answer(&[5]))], Tick(1)).unwrap().encode(&mut out, &mut Vec::new());
    let RowId([a, b]) = t.row(b"r");
    let expected = [&1u64.to_le_bytes()[..], &2u64.to_le_bytes(), &a.to_le_bytes(), &b.to_le_bytes(), &[0, 1, 10, 0]].concat();
    assert_eq!(out, expected);
    assert_eq!((a, b), (GOLDEN_R[0], GOLDEN_R[1]));
}
/// The row "r" under the key 00 … 0f.
const GOLDEN_R: [u64; 2] = [4_604_304_008_566_909_540, 2_236_860_038_265_344_466];

/// Golden bytes, and what does not belong to the entries.
#[test]
fn fingerprints_come_back_as_they_went() {
    let of = |n| Answer { of: Fingerprint::stored(n), ..answer(&[1]) };
    let answers = [of(1), of(0), of(u64::MAX)];
    let mut out = Vec::new();
    encode_fingerprints(&mut out, answers.iter());
    assert_eq!(out, [[1, 0, 0, 0, 0, 0, 0, 0], [0; 8], [0xff; 8]].concat());
    let at = Place { row: RowId([1, 2]), nth: 0 };
    let mut entries: Vec<_> = answers.iter().map(|a| (at, Answer { of: None, ..a.clone() })).collect();
    for wrong in [&out[..16], &out[..23], &[&out[..], &out[..8]].concat(), &[]] {
        assert!(!decode_fingerprints(wrong, &mut entries.clone()), "{wrong:?}");
    }
    assert!(decode_fingerprints(&out, &mut entries));
    assert!(entries.iter().zip(&answers).all(|((_, back), went)| back == went));
    // SipHash-2-4 of the paper: the byte that tells fingerprints from rows comes first.
    let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
    let mut f = Fingerprinter::new(key);
    f.fixed(&[7, 8]);
    f.bytes(b"ab");
    assert_eq!(f.finish().get(), sip(key, 2, &[7, 8, 2, 0, 0, 0, b'a', b'b']));
}

/// The background's step: bounded, shard by shard; what is young stays, and tables that were large once are given back.
#[test]
fn what_is_past_the_window_is_freed_in_steps() {
    let t = table(1 << 30);
    t.tidy(Tick(1));
    assert_eq!(t.stats(), NonceStats { bytes_max: 1 << 30, ..NonceStats::default() });
    const N: u64 = 40_000;
    (1..=N).for_each(|n| put(&t, n, place(&t, b"r", 0), 1, n, 10));
    put(&t, N + 1, place(&t, b"r", 0), 7, N + 1, 50);
    let capacity = || t.shards.iter().map(|s| s.lock().0.capacity()).sum::<usize>();
    let large = capacity();
    t.tidy(Tick(10 + WINDOW));
    assert_eq!((t.stats().entries, t.stats().expired), (N + 1, 0), "inside the window");
    t.tidy(Tick(11 + WINDOW));
    let left = t.stats().entries;
    assert!((N - 20_000..N).contains(&left), "{left} left by one step");
    for _ in 0..3 {
        t.tidy(Tick(11 + WINDOW));
    }
    let one = ENTRY_BYTES + 8;
    assert_eq!(t.stats(), NonceStats { entries: 1, bytes: one, expired: N, ..t.stats() });
    assert!(capacity() < large / 50, "{} of {large} places", capacity());
    assert_eq!(get(&t, N + 1, place(&t, b"r", 0), 50 + WINDOW), Some((7, N + 1, 50)), "moved to a smaller table");
    t.tidy(Tick(51 + WINDOW));
    assert_eq!((t.stats().entries, t.bytes(), t.len()), (0, 0, 0));
    put(&t, 1, place(&t, b"r", 0), 9, N + 2, 60 + WINDOW);
    assert_eq!(get(&t, 1, place(&t, b"r", 0), 60 + WINDOW).map(|e| e.0), Some(9));
}

#[test]
fn threads_reserve_fill_drop_and_expire_at_once() {
    let t = Arc::new(table(200 * (ENTRY_BYTES + 8)));
    let clock = Arc::new(AtomicU64::new(1));
    let threads: Vec<_> = (0..4u64)
        .map(|id| {
            let (t, clock) = (Arc::clone(&t), Arc::clone(&clock));
            thread::spawn(move || {
                let mut mine = Vec::new();
                for i in 0..3_000u64 {
                    let now = Tick(clock.fetch_add(1, Ordering::Relaxed));
                    if i % 64 == id {
                        t.tidy(now);
                    }
                    let n = nonce(id * 10_000 + i + 1);
                    let at = place(&t, &n.nonce.to_le_bytes(), 0);
                    let Ok(reserved) = t.reserve(n, vec![(at, answer(&[i as i64]))], now) else { continue };
                    if i % 3 == 0 {
                        drop(reserved);
                        assert!(t.find(n, &[at], now)[0].is_none());
                        continue;
                    }
                    reserved.fill(SequenceNumber(n.nonce), now);
                    mine.push((n, at, now, i));
                    // Whoever is surely younger than the window is there.
                    for (n, at, born, i) in mine.iter().rev().take(5) {
                        let found = t.find(*n, &[*at], now).pop().unwrap();
                        let by_now = clock.load(Ordering::Relaxed);
                        match found {
                            Some(e) => assert_eq!(e.answer.values[0], *i as i64),
                            None => assert!(by_now - born.0 > WINDOW, "{n:?} born at {born:?} is gone by {by_now}"),
                        }
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    t.expire(Tick(u64::MAX));
    assert_eq!((t.len(), t.bytes()), (0, 0));
}
