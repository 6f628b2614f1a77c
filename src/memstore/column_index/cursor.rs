//! A scan in ascending order: one leaf's references at a time, copied and then believed.

use super::flaw::{self, Flaw};
use super::node::{FAN_OUT, Leaf, prefetch_references};
use super::{ColumnIndex, ColumnKey, KeyOf, back_off};

/// How many entries ahead of the scan columns are fetched into the cache, and what lies behind them.
const AHEAD: usize = 16;
const AHEAD_BEHIND: usize = 8;
/// So many per step until the scan is as far ahead: who seeks and looks at a few columns does not pay for many.
const RAMP: usize = 3;

/// A position in the index. Takes no latch and holds nothing up; it may rest for any time. To go on later without it, remember the last column's key and
/// seek behind it.
pub struct Cursor<'t, K> {
    index: &'t ColumnIndex<K>,
    /// References copied from a leaf; those from `at` to `end` are still to come.
    copied: [u64; FAN_OUT],
    at: usize,
    end: usize,
    /// Entries before this one are being fetched; and what lies behind those before the second. Beyond `end` they are the right neighbour's.
    fetched: usize,
    fetched_behind: usize,
    /// The leaf's right neighbour, seen in the same instant as the copy.
    right: Option<&'t Leaf>,
}

impl<'t, K: KeyOf> Cursor<'t, K> {
    pub(super) fn new(index: &'t ColumnIndex<K>, key: ColumnKey<'_>, inclusive: bool) -> Self {
        let mut cursor = Self { index, copied: [0; FAN_OUT], at: 0, end: 0, fetched: 0, fetched_behind: 0, right: None };
        cursor.seek(key, inclusive);
        cursor
    }
    /// Goes to the first column with a key ≥ `key`, or > `key`; forwards or backwards.
    pub fn seek(&mut self, key: ColumnKey<'_>, inclusive: bool) {
        let index = self.index;
        let mut tries = 0;
        loop {
            if let Some((leaf, version)) = index.leaf_of(key, false) {
                let place = index.locate(leaf, key);
                if self.copy(leaf, version, place.at + usize::from(place.found && !inclusive)) {
                    (self.fetched, self.fetched_behind) = (0, 0);
                    return;
                }
            }
            back_off(&mut tries);
        }
    }
    /// The next column's reference; None at the end, and from then on until the next `seek`.
    #[expect(clippy::should_implement_trait, reason = "a cursor, which can also seek; the tree of sources has the same shape")]
    #[inline]
    pub fn next(&mut self) -> Option<u64> {
        while self.at == self.end {
            let leaf = self.right?;
            let mut tries = 0;
            let passed = self.end;
            // Acquire loads within; a leaf never loses what lies in its range, so its own version is all there is to check.
            while !self.copy(leaf, leaf.read_version(), 0) {
                back_off(&mut tries);
            }
            self.fetched = self.fetched.saturating_sub(passed);
            self.fetched_behind = self.fetched_behind.saturating_sub(passed);
        }
        let reference = self.copied[self.at];
        self.at += 1;
        self.fetch_ahead();
        Some(reference)
    }
    #[inline]
    fn fetch_ahead(&mut self) {
        if cfg!(loom) {
            return; // Hints have no place in a model.
        }
        let until = (self.at + AHEAD).min(self.fetched.max(self.at) + RAMP);
        for i in self.fetched.max(self.at)..until {
            self.index.keys.prefetch(self.ahead(i));
        }
        self.fetched = self.fetched.max(until);
        let until = (self.at + AHEAD_BEHIND).min(self.fetched_behind.max(self.at) + RAMP);
        for i in self.fetched_behind.max(self.at)..until {
            let reference = self.ahead(i);
            if reference != 0 {
                // SAFETY: a reference of this index: they come from its leaves only.
                unsafe { self.index.keys.prefetch_behind(reference) };
            }
        }
        self.fetched_behind = self.fetched_behind.max(until);
    }
    /// Entry `i` of the copy, or of the right neighbour behind it: a hint, 0 or a reference, since nothing is looked at again.
    #[inline]
    fn ahead(&self, i: usize) -> u64 {
        match self.right {
            _ if i < self.end => self.copied[i],
            Some(right) if i - self.end < FAN_OUT => right.reference(i - self.end),
            _ => 0,
        }
    }
    /// Copies what a leaf holds from place `from` on. False: it changed meanwhile, nothing is believed.
    fn copy(&mut self, leaf: &'t Leaf, version: u64, from: usize) -> bool {
        let n = leaf.count();
        let from = from.min(n);
        for (copied, i) in self.copied.iter_mut().zip(from..n) {
            *copied = leaf.reference(i);
        }
        let right = leaf.right();
        if !leaf.unchanged(version) && !flaw::is(Flaw::CopyUnchecked) {
            (self.at, self.end) = (0, 0);
            return false;
        }
        (self.at, self.end, self.right) = (0, n - from, right);
        if let Some(right) = right {
            prefetch_references(right);
        }
        true
    }
}
