//! Counters of calls, without a lock and mostly without sharing: 64 lines by thread, each a cache line of words.
//!
//! A word counts the calls of one kind that are running (low 20 bits) and that have ended (the rest), so that one atomic addition at entry and one
//! at exit serve both the statistics and the close protocol.

use crate::sync::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

const LINES: usize = 64;
const RUNNING_BITS: u32 = 20;
const RUNNING_MASK: u64 = (1 << RUNNING_BITS) - 1;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Gets, counter reads, scanner steps, snapshots.
    Read = 0,
    /// Puts, deletes, batches; counted per operation.
    Write = 1,
    /// Increments; counted per counter.
    Increment = 2,
    /// Everything else (stats, waiting, families).
    Other = 3,
}

#[derive(Default)]
struct Line {
    calls: [AtomicU64; 4],
    checks_passed: AtomicU64,
    checks_failed: AtomicU64,
    stalled: AtomicU64,
    stalled_micros: AtomicU64,
}

/// One number that many threads add to, each mostly on a line of its own.
#[derive(Default)]
pub struct SpreadCount {
    lines: [CachePadded<AtomicU64>; SPREAD],
}

const SPREAD: usize = 16;

impl SpreadCount {
    /// One more.
    pub fn add(&self, thread: usize) {
        if let Some(line) = self.lines.get(thread % SPREAD) {
            // Relaxed, here and below: a statistic, ordered by nothing.
            line.fetch_add(1, Ordering::Relaxed);
        }
    }
    /// The sum.
    pub fn sum(&self) -> u64 {
        self.lines.iter().map(|l| l.load(Ordering::Relaxed)).sum()
    }
}

/// The lines of one region.
pub struct CallCounters {
    lines: Box<[CachePadded<Line>]>,
}

impl Default for CallCounters {
    fn default() -> Self {
        Self { lines: (0..LINES).map(|_| CachePadded::new(Line::default())).collect() }
    }
}

/// Sums over all lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// Ended reads.
    pub reads: u64,
    /// Ended writes, per operation.
    pub writes: u64,
    /// Ended increments, per counter.
    pub increments: u64,
    /// CHECK operations that held.
    pub checks_passed: u64,
    /// CHECK operations that did not.
    pub checks_failed: u64,
    /// Writes that had to wait for memory or log room, or still do.
    pub stalled: u64,
    /// How long those waited that have ended, in microseconds.
    pub stalled_micros: u64,
    /// Calls that are running now.
    pub running: u64,
}

impl CallCounters {
    #[inline]
    fn line(&self, thread: usize) -> &Line {
        // The mask keeps the index in range; 64 lines always exist.
        &self.lines[thread & (LINES - 1)]
    }
    /// A call begins. SeqCst: the caller loads the region's state afterwards, a closer stores it and then reads these words; one of both sees the other.
    #[inline]
    pub fn enter(&self, kind: CallKind, thread: usize) {
        self.line(thread).calls[kind as usize].fetch_add(1, Ordering::SeqCst);
    }
    /// A call ends that counts as `operations`. Release: pairs with the closer's Acquire in [`CallCounters::totals`].
    #[inline]
    pub fn exit(&self, kind: CallKind, thread: usize, operations: u64) {
        self.line(thread).calls[kind as usize].fetch_add((operations << RUNNING_BITS).wrapping_sub(1), Ordering::Release);
    }
    /// Checks that held and that did not.
    pub fn checked(&self, thread: usize, [passed, failed]: [u64; 2]) {
        let line = self.line(thread);
        // Relaxed: statistics, ordered by nothing.
        if passed > 0 {
            line.checks_passed.fetch_add(passed, Ordering::Relaxed);
        }
        if failed > 0 {
            line.checks_failed.fetch_add(failed, Ordering::Relaxed);
        }
    }
    /// A write begins to wait for memory or log room: counted now, so that who hangs is seen while it hangs.
    pub fn stall_begins(&self, thread: usize) {
        // Relaxed: statistics, ordered by nothing.
        self.line(thread).stalled.fetch_add(1, Ordering::Relaxed);
    }
    /// It waited for so long.
    pub fn stall_ends(&self, thread: usize, micros: u64) {
        // Relaxed: statistics, ordered by nothing.
        self.line(thread).stalled_micros.fetch_add(micros, Ordering::Relaxed);
    }
    /// Sums up. Exact once nothing runs.
    pub fn totals(&self) -> CallTotals {
        let mut t = CallTotals::default();
        for line in &self.lines {
            // SeqCst: see `enter`.
            let calls = [0, 1, 2, 3].map(|i: usize| line.calls[i].load(Ordering::SeqCst));
            t.running += calls.iter().map(|c| c & RUNNING_MASK).sum::<u64>();
            t.reads += calls[0] >> RUNNING_BITS;
            t.writes += calls[1] >> RUNNING_BITS;
            t.increments += calls[2] >> RUNNING_BITS;
            t.checks_passed += line.checks_passed.load(Ordering::Relaxed);
            t.checks_failed += line.checks_failed.load(Ordering::Relaxed);
            t.stalled += line.stalled.load(Ordering::Relaxed);
            t.stalled_micros += line.stalled_micros.load(Ordering::Relaxed);
        }
        t
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
