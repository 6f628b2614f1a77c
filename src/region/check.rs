//! The conditions of a batch: compares what a column holds with what the caller expects. Pure.

use super::face::Comparison;
use std::cmp::Ordering;

/// A condition and how values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// The comparison, or the test for presence.
    pub how: Comparison,
    /// Values are signed counters.
    pub as_counter: bool,
}

impl Check {
    /// True if the values compare as signed counters.
    pub fn compares_counters(self) -> bool {
        self.as_counter && !matches!(self.how, Comparison::Exists | Comparison::Absent)
    }
    /// Compares bytes, unsigned. An absent column meets NE and ABSENT only.
    pub fn holds_bytes(self, stored: Option<&[u8]>, expected: &[u8]) -> bool {
        self.holds(stored.map(|s| s.cmp(expected)))
    }
    /// Compares counters. An absent counter meets NE and ABSENT only.
    pub fn holds_counter(self, stored: Option<i64>, expected: i64) -> bool {
        self.holds(stored.map(|s| s.cmp(&expected)))
    }
    fn holds(self, stored_to_expected: Option<Ordering>) -> bool {
        use Comparison::{Absent, Equal, Exists, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        match (self.how, stored_to_expected) {
            (Exists, o) => o.is_some(),
            (Absent, o) => o.is_none(),
            (NotEqual, None) => true,
            (_, None) => false,
            (Equal, Some(o)) => o.is_eq(),
            (NotEqual, Some(o)) => o.is_ne(),
            (Less, Some(o)) => o.is_lt(),
            (LessOrEqual, Some(o)) => o.is_le(),
            (Greater, Some(o)) => o.is_gt(),
            (GreaterOrEqual, Some(o)) => o.is_ge(),
        }
    }
}

#[cfg(test)]
mod tests;
