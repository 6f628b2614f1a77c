//! The few rows, qualifiers, values, timestamps and families that operations name by number: few, so that they meet.

use crate::spec::{Family, Keep, TS_MAX};
use region::options::{FamilySpec, TTL_NONE};

/// Where the clock of a history begins, in milliseconds.
pub const BEGIN: u64 = 1_000;

pub fn row(i: u8) -> Vec<u8> {
    match i {
        0 => b"a".to_vec(),
        1 => b"ab".to_vec(),
        2 => b"b".to_vec(),
        3 => b"\0".to_vec(),
        4 => [b"ab\xff".as_slice(), &[b'z'; 300]].concat(),
        5 => b"\xff\xff".to_vec(),
        // Refused.
        250 => Vec::new(),
        i => format!("row{i}").into_bytes(),
    }
}
pub const ROWS: u8 = 6;

pub fn qual(i: u8) -> Vec<u8> {
    match i {
        0 => Vec::new(),
        1 => b"a".to_vec(),
        2 => b"ab".to_vec(),
        3 => b"\xff".to_vec(),
        4 => vec![b'q'; 200],
        i => format!("q{i}").into_bytes(),
    }
}
pub const QUALS: u8 = 5;

/// Of four values three are counters.
pub fn value(i: u16) -> Vec<u8> {
    match i {
        0 => Vec::new(),
        1 => i64::MAX.to_be_bytes().to_vec(),
        2 => i64::MIN.to_be_bytes().to_vec(),
        3 => vec![b'l'; 3_000],
        i if i % 4 == 3 => format!("v{i}").into_bytes(),
        i => i64::from(i).to_be_bytes().to_vec(),
    }
}

/// Timestamps, relative to the clock or fixed; 0 = assigned.
pub fn timestamp(code: u8, now: u64) -> u64 {
    match code {
        0 => 0,
        1 => 5,
        2 => 6,
        3 => BEGIN,
        4 => now,
        5 => now + 1,
        6 => now.saturating_sub(1).max(1),
        7 => now + 3,
        8 => now + 60,
        // The last tick at which the families that age show something.
        9 => now.saturating_sub(100).max(1),
        10 => now.saturating_sub(300).max(1),
        11 => now + 5_000,
        12 => TS_MAX,
        _ => TS_MAX + 1,
    }
}
pub const TIMESTAMPS: u8 = 14;

/// Names of families; the first six are there from the beginning.
pub const NAMES: [&str; 8] = ["one", "three", "aged", "kept", "kept_aged", "short", "g", "h"];
pub const AT_FIRST: usize = 6;

/// What family `slot` begins with.
pub fn family(slot: u8) -> Family {
    let (max, min, ttl, keep) = match slot {
        0 | 6 => (1, 0, None, Keep::No),
        1 => (3, 0, None, Keep::No),
        2 => (2, 1, Some(300), Keep::No),
        3 => (3, 0, None, Keep::Yes),
        4 => (3, 0, Some(300), Keep::UntilExpired),
        5 => (1, 0, Some(100), Keep::No),
        _ => (2, 0, None, Keep::Yes),
    };
    Family { max, min, ttl, keep, past: Vec::new() }
}

/// The engine's words for a family; milliseconds are ticks here.
pub fn spec(name: &str, f: &Family) -> FamilySpec {
    FamilySpec {
        max_versions: f.max as u32,
        min_versions: f.min as u32,
        ttl_ms: f.ttl.unwrap_or(TTL_NONE),
        flags: match f.keep {
            Keep::No => 0,
            Keep::Yes => FamilySpec::KEEP_DELETED,
            Keep::UntilExpired => FamilySpec::KEEP_DELETED_TTL,
        },
        ..FamilySpec::named(name)
    }
}
