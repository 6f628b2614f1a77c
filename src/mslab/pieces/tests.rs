//! Pieces come out disjoint, aligned, inside of what was put in; what was given back whole is there as a whole again.

use super::*;

fn at(address: usize) -> NonNull<u8> {
    NonNull::new(ptr::without_provenance_mut(address)).unwrap()
}

#[test]
fn neighbours_join_but_not_across_a_chunk() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for (boundary, want) in [(0, 24), (1008, 16), (1016, 16)] {
            let mut p = Pieces::default();
            for i in order {
                p.put(at(1000 + 8 * i), 8, |a| a == boundary);
            }
            assert_eq!((p.largest(), p.bytes()), (want, 24), "{order:?}, a chunk at {boundary}");
        }
    }
}

#[test]
fn taken_and_given_back_at_random_nothing_is_lost_or_handed_out_twice() {
    const PAGE: usize = 4096;
    for seed in 1..20_u64 {
        println!("seed {seed}");
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % n
        };
        // Two chunks side by side.
        let chunks = [16 * PAGE, 18 * PAGE];
        let mut p = Pieces::default();
        let starts = |a: usize| chunks.contains(&a);
        p.put(at(chunks[0]), 2 * PAGE, starts);
        p.put(at(chunks[1]), 2 * PAGE, starts);
        assert_eq!(p.largest(), 2 * PAGE);
        let mut out: Vec<(usize, usize)> = Vec::new();
        for _ in 0..3000 {
            if random(5) < 3 {
                let (bytes, align) = (rounded(1 + random(700)).unwrap(), [8, 64, 128][random(3)]);
                let largest = p.largest();
                let Some(piece) = p.take(bytes, align) else {
                    assert!(largest < bytes + align, "{bytes} of {largest} refused");
                    continue;
                };
                let a = piece.as_ptr().addr();
                assert!(a.is_multiple_of(align) && a >= chunks[0] && a + bytes <= chunks[1] + 2 * PAGE);
                assert!(a >= chunks[1] || a + bytes <= chunks[1], "one piece of two chunks");
                assert!(out.iter().all(|o| a + bytes <= o.0 || o.0 + o.1 <= a), "handed out twice");
                out.push((a, bytes));
            } else if !out.is_empty() {
                let (a, bytes) = out.swap_remove(random(out.len()));
                p.put(at(a), bytes, starts);
            }
            assert_eq!(p.bytes() + out.iter().map(|o| o.1).sum::<usize>(), 4 * PAGE);
        }
        out.drain(..).for_each(|(a, bytes)| p.put(at(a), bytes, starts));
        assert_eq!(p.list, [(chunks[0], 2 * PAGE), (chunks[1], 2 * PAGE)]);
    }
}
