//! Entries and splits: everything that happens under a latch.
//!
//! A split holds parent and node, in this order, both by exchange from the version that the way down saw: if either moved, nothing is done. The right half
//! goes to a new node, which becomes reachable for believing readers only when the latches are given back.

use super::flaw::{self, Flaw};
use super::node::{Child, FAN_OUT, Inner, Leaf, Node};
use super::window::{Shared, shares, window};
use super::{Attempt, ColumnIndex, ColumnKey, KeyOf, unsafe_ref};
use std::cmp::Ordering;

impl<K: KeyOf> ColumnIndex<K> {
    /// Puts an entry at place `at` of a node that has room. Latch held.
    pub(super) fn insert_entry(&self, node: &Node, at: usize, key: ColumnKey<'_>, reference: u64) {
        let (mut shared, checked) = node.shared();
        if checked {
            if node.count() == 0 {
                shared = Shared::whole(key);
                node.set_shared(shared, true);
            } else {
                let first = self.key_at(node.reference(0));
                if shares(key, first, shared) != Ordering::Equal {
                    // The others share more than this with each other, so with `key` all of them share the same.
                    shared = Shared::of(key, first);
                    self.set_windows(node, shared, true);
                }
            }
        }
        node.open_gap(at);
        node.set_entry(at, window(key, shared), reference);
    }
    /// Computes all windows anew behind `shared`. Latch held.
    fn set_windows(&self, node: &Node, shared: Shared, checked: bool) {
        let n = node.count();
        for i in 0..n {
            self.keys.prefetch(node.reference(i));
        }
        for i in 0..n {
            node.set_window(i, window(self.key_at(node.reference(i)), shared));
        }
        node.set_shared(shared, checked);
    }
    /// After its entries or fences became fewer or closer: what they share now, and windows behind it if that tells much more. Latch held.
    fn fit(&self, node: &Node) {
        let (now, _) = node.shared();
        let (low, high, n) = (node.low(), node.high(), node.count());
        let fenced = low != 0 && high != 0;
        let shared = if fenced {
            Shared::of(self.key_at(low), self.key_at(high))
        } else if n > 0 {
            Shared::of(self.key_at(node.reference(0)), self.key_at(node.reference(n - 1)))
        } else {
            node.set_shared(Shared::NOTHING, true);
            return;
        };
        // What the entries share is never less than before, but the fences may share less than the entries did.
        if shared.is_much_more_than(now) || shared.is_less_than(now) {
            self.set_windows(node, shared, !fenced);
        } else {
            node.set_shared(now, !fenced);
        }
    }
    /// Splits a full leaf and puts the new entry into the right half of the two. `place` is where it would have gone.
    pub(super) fn split_leaf(
        &self,
        (parent, parent_version, at): (&Inner, u64, usize),
        (leaf, version): (&Leaf, u64),
        place: usize,
        (key, reference): (ColumnKey<'_>, u64),
        thread: usize,
    ) -> Attempt {
        let Some(spare) = self.spares.leaf(&self.arena, thread) else { return Attempt::NoMemory };
        let Some(parent_latch) = parent.latch(parent_version) else {
            self.spares.keep_leaf(spare);
            return Attempt::Again;
        };
        let Some(latch) = leaf.latch(version) else {
            if flaw::is(Flaw::ParentLeftLatched) {
                std::mem::forget(parent_latch);
                return Attempt::Again;
            }
            parent_latch.cancel();
            self.spares.keep_leaf(spare);
            return Attempt::Again;
        };
        let new: &Leaf = unsafe_ref(spare);
        // Ascending inserts: the leaf stays full and the new one begins with the new entry.
        let append = place == FAN_OUT && leaf.high() == 0;
        let middle = if append { FAN_OUT } else { FAN_OUT / 2 };
        let separator = if append { reference } else { leaf.reference(middle) };
        leaf.copy_entries(middle..FAN_OUT, new);
        new.set_fences(separator, leaf.high());
        new.set_right(leaf.right());
        leaf.set_fences(leaf.low(), separator);
        leaf.set_right(Some(new));
        leaf.set_count(middle);
        self.fit(leaf);
        self.fit(new);
        // At `middle` it is still smaller than the separator, which was the entry there.
        if place <= middle && !append {
            self.insert_entry(leaf, place, key, reference);
        } else {
            self.insert_entry(new, place - middle, key, reference);
        }
        self.insert_separator(parent, at, separator, Child::Leaf(new));
        if flaw::is(Flaw::SplitKeepsVersion) {
            latch.cancel();
            return Attempt::Done;
        }
        drop(latch);
        drop(parent_latch);
        Attempt::Done
    }
    /// A new child right of child `at`. Latch held, and there is room.
    fn insert_separator(&self, parent: &Inner, at: usize, separator: u64, child: Child<'_>) {
        parent.open_child_gap(at + 1, parent.count() + 1);
        parent.set_child(at + 1, child);
        self.insert_entry(parent, at, self.key_at(separator), separator);
    }
    /// Splits a full inner node; the insert then starts again.
    pub(super) fn split_inner(
        &self,
        (parent, parent_version, at): (&Inner, u64, usize),
        (inner, version): (&Inner, u64),
        key: ColumnKey<'_>,
        thread: usize,
    ) -> Attempt {
        let Some(spare) = self.spares.inner(&self.arena, thread) else { return Attempt::NoMemory };
        let Some(parent_latch) = parent.latch(parent_version) else {
            self.spares.keep_inner(spare);
            return Attempt::Again;
        };
        let Some(latch) = inner.latch(version) else {
            parent_latch.cancel();
            self.spares.keep_inner(spare);
            return Attempt::Again;
        };
        let new: &Inner = unsafe_ref(spare);
        let n = inner.count();
        // Ascending inserts: leave the node nearly full.
        let append = inner.high() == 0 && self.locate(inner, key).at == n;
        let middle = if append { n - n / 8 - 1 } else { n / 2 };
        let separator = inner.reference(middle);
        self.move_right_half(inner, middle, new);
        new.set_fences(separator, inner.high());
        inner.set_fences(inner.low(), separator);
        inner.set_count(middle);
        self.fit(inner);
        self.fit(new);
        self.insert_separator(parent, at, separator, Child::Inner(new));
        drop(latch);
        drop(parent_latch);
        Attempt::Again
    }
    /// Copies what lies right of separator `middle` to the new node.
    fn move_right_half(&self, from: &Inner, middle: usize, new: &Inner) {
        let n = from.count();
        from.copy_entries(middle + 1..n, new);
        from.copy_children(middle + 1..n + 1, new);
    }
    /// The root is full: its content goes to two new children. It stays where it is, so nobody has to look for it.
    pub(super) fn grow(&self, root: &Inner, version: u64, thread: usize) -> Attempt {
        let Some(left) = self.spares.inner(&self.arena, thread) else { return Attempt::NoMemory };
        let Some(right) = self.spares.inner(&self.arena, thread) else {
            self.spares.keep_inner(left);
            return Attempt::NoMemory;
        };
        let Some(latch) = root.latch(version) else {
            self.spares.keep_inner(left);
            self.spares.keep_inner(right);
            return Attempt::Again;
        };
        let (left, right): (&Inner, &Inner) = (unsafe_ref(left), unsafe_ref(right));
        let n = root.count();
        let middle = n / 2;
        let separator = root.reference(middle);
        root.copy_entries(0..middle, left);
        root.copy_children(0..middle + 1, left);
        self.move_right_half(root, middle, right);
        left.set_fences(0, separator);
        right.set_fences(separator, 0);
        self.fit(left);
        self.fit(right);
        root.set_count(0);
        root.set_child(0, Child::Inner(left));
        root.set_child(1, Child::Inner(right));
        self.insert_entry(root, 0, self.key_at(separator), separator);
        if flaw::is(Flaw::GrowKeepsVersion) {
            latch.cancel();
            return Attempt::Again;
        }
        drop(latch);
        Attempt::Again
    }
}
