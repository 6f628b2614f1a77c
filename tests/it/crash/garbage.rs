//! Files with anything in them: an open that succeeds or says why not, never a crash, a hang or memory without bound (P-D4). `fuzz/fuzz_targets/disk.rs` asks
//! the same with inputs that a fuzzer makes.

#[path = "../../common/damaged.rs"]
mod damaged;

use crate::common::rng::Rng;
use damaged::{Image, MEND};
use region::ErrorKind;

/// The image itself opens, whatever the switches: as it is, and with its checksums computed anew.
#[test]
fn the_undamaged_files_open() {
    let image = Image::new();
    let whole = image.run(&[0]).unwrap();
    assert!(whole > 50, "{whole} cells");
    for switches in 0..32 {
        assert_eq!(image.run(&[switches]), Ok(whole), "switches {switches:#b}");
    }
}

/// A tick of nearly 2^64 under right checksums: nothing could come after it.
#[test]
fn p_d4_a_tick_that_leaves_no_room_is_damage() {
    let image = Image::new();
    let program = *b";fl\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff1ulu";
    assert_eq!(image.run(&program), Err(ErrorKind::Corrupt));
}

#[test]
fn p_d4_anything_in_the_files() {
    let seed = std::env::var("GARBAGE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("GARBAGE_SEED={seed}");
    let mut rng = Rng(seed);
    let image = Image::new();
    let whole = image.run(&[0]).unwrap();
    let (mut refused, mut changed, mut same) = (0, 0, 0);
    for _ in 0..600 {
        let len = 1 + rng.below(40) as usize;
        let mut program: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
        // Half of them few bytes only, where the structure survives.
        if rng.below(2) == 0 {
            program.truncate(7);
        }
        println!("{program:?}");
        match image.run(&program) {
            Err(ErrorKind::Corrupt) if program[0] & MEND == 0 => refused += 1,
            Err(_) => changed += 1,
            Ok(cells) if cells != whole => changed += 1,
            Ok(_) => same += 1,
        }
    }
    assert!(refused > 50 && changed > 50 && same > 10, "{refused} refused, {changed} changed, {same} the same");
}
