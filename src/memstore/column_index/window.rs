//! What the keys of a node share, and the 8 bytes behind it: a number that compares as the keys do, as far as it goes.
//!
//! A key is read as row bytes, end of row, family (4 bytes, big-endian), qualifier. The shared part is a place in that: either within the row, or
//! behind it. Windows must order as keys do although a row may hold any byte and one row may be the beginning of another: within a window, a
//! 0 in the row becomes `00 FF`, the row's end is `00` before the family, whose first byte is kept below `FF`. Behind the row bytes stand as they are.
//! Past the end come zeros. Equal windows say nothing; the keys themselves are compared then.

use super::ColumnKey;
use std::cmp::Ordering;

/// How much of a key is shared: with `BEHIND_ROW` the whole row and so many bytes of family and qualifier, else so many bytes of the row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shared(pub u32);

const BEHIND_ROW: u32 = 1 << 30;
const LENGTH: u32 = BEHIND_ROW - 1;
/// Above this a window behind the shared part is computed anew: it holds half as many telling bytes as it could.
const WORTHWHILE: u32 = 4;

impl Shared {
    /// Nothing.
    pub const NOTHING: Self = Self(0);
    fn new(behind_row: bool, length: usize) -> Self {
        let length = u32::try_from(length).unwrap_or(LENGTH).min(LENGTH);
        Self(if behind_row { BEHIND_ROW | length } else { length })
    }
    const fn is_behind_row(self) -> bool {
        self.0 & BEHIND_ROW != 0
    }
    const fn length(self) -> usize {
        (self.0 & LENGTH) as usize
    }
    /// The whole of a key: what a node with one entry shares.
    pub fn whole(key: ColumnKey<'_>) -> Self {
        Self::new(true, 4 + key.2.len())
    }
    /// What two keys share; so does every key between them.
    pub fn of(a: ColumnKey<'_>, b: ColumnKey<'_>) -> Self {
        let same = common(a.0, b.0);
        if same < a.0.len() || same < b.0.len() {
            return Self::new(false, same);
        }
        let (fa, fb) = (a.1.0.to_be_bytes(), b.1.0.to_be_bytes());
        let family = common(&fa, &fb);
        Self::new(true, if family < 4 { family } else { 4 + common(a.2, b.2) })
    }
    /// True if windows behind `self` tell much more than windows behind `now`.
    pub fn is_much_more_than(self, now: Self) -> bool {
        match (self.is_behind_row(), now.is_behind_row()) {
            (true, false) => true,
            (false, true) => false,
            _ => self.0 >= now.0 + WORTHWHILE,
        }
    }
    /// True if keys that share `self` need not share `other`.
    pub fn is_less_than(self, other: Self) -> bool {
        self.0 < other.0
    }
}

/// Length of the common beginning.
fn common(a: &[u8], b: &[u8]) -> usize {
    // Eight bytes at a time: this runs over long shared beginnings.
    let mut n = 0;
    while let (Some(x), Some(y)) = (word(a, n), word(b, n)) {
        let differ = x ^ y;
        if differ != 0 {
            return n + differ.leading_zeros() as usize / 8;
        }
        n += 8;
    }
    while n < a.len() && n < b.len() && a[n] == b[n] {
        n += 1;
    }
    n
}

/// Eight bytes at `at`, big-endian, if there are as many.
#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// How `key` compares with the shared part of `entry`'s node; Equal: it shares it, and windows compare.
pub fn shares(key: ColumnKey<'_>, entry: ColumnKey<'_>, shared: Shared) -> Ordering {
    let n = shared.length();
    if !shared.is_behind_row() {
        return head(key.0, n).cmp(head(entry.0, n));
    }
    key.0.cmp(entry.0).then_with(|| {
        let (k, e) = (key.1.0.to_be_bytes(), entry.1.0.to_be_bytes());
        head(&k, n).cmp(head(&e, n)).then_with(|| head(key.2, n.saturating_sub(4)).cmp(head(entry.2, n.saturating_sub(4))))
    })
}

fn head(bytes: &[u8], n: usize) -> &[u8] {
    bytes.get(..n).unwrap_or(bytes)
}

fn has_zero_byte(w: u64) -> bool {
    w.wrapping_sub(0x0101_0101_0101_0101) & !w & 0x8080_8080_8080_8080 != 0
}

/// The window of `key` behind `shared`.
#[inline]
pub fn window(key: ColumnKey<'_>, shared: Shared) -> u64 {
    if !shared.is_behind_row()
        && let Some(w) = word(key.0, shared.length())
        && !has_zero_byte(w)
    {
        return w;
    }
    slow_window(key, shared)
}

/// A window being filled from the left.
struct Filler {
    window: u64,
    bytes: u32,
}

impl Filler {
    fn push(&mut self, byte: u8) {
        if self.bytes < 8 {
            self.window |= u64::from(byte) << (56 - 8 * self.bytes);
            self.bytes += 1;
        }
    }
    fn push_all(&mut self, bytes: &[u8]) {
        for byte in head(bytes, 8) {
            self.push(*byte);
        }
    }
}

fn slow_window(key: ColumnKey<'_>, shared: Shared) -> u64 {
    let mut filler = Filler { window: 0, bytes: 0 };
    let family = key.1.0.to_be_bytes();
    let n = shared.length();
    if shared.is_behind_row() {
        filler.push_all(family.get(n..).unwrap_or(&[]));
        filler.push_all(key.2.get(n.saturating_sub(4)..).unwrap_or(&[]));
        return filler.window;
    }
    for byte in head(key.0.get(n..).unwrap_or(&[]), 8) {
        filler.push(*byte);
        if *byte == 0 {
            filler.push(0xff);
        }
    }
    if key.0.len().saturating_sub(n) < 8 {
        filler.push(0);
        if family[0] == 0xff {
            // Not above what follows a 0 within a row; all such families together, the keys tell them apart.
            filler.push_all(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        } else {
            filler.push_all(&family);
            filler.push_all(key.2);
        }
    }
    filler.window
}
