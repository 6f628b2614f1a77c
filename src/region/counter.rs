//! The arithmetic of an increment: pure, so that every flag combination can be tested without a region.

use crate::error::{Error, ErrorKind, Result};
use crate::options::WriteOptions;

/// How increments of one call behave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    flags: u32,
    min: i64,
    max: i64,
}

/// What an increment comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The value to store; None: nothing changes.
    pub store: Option<i64>,
    /// What the caller is told.
    pub answer: i64,
    /// False: a bound was not met.
    pub applied: bool,
}

impl Rules {
    /// Checks that the flags fit together.
    pub fn new(flags: u32, min: i64, max: i64) -> Result<Self> {
        let bounded = flags & WriteOptions::BOUNDED != 0;
        if flags & WriteOptions::SATURATE != 0 && !bounded {
            return Err(Error::new(ErrorKind::Invalid, "REGION_W_SATURATE needs REGION_W_BOUNDED: there is nothing to clamp to"));
        }
        if bounded && min > max {
            return Err(Error::new(ErrorKind::Invalid, format!("min_value {min} is above max_value {max}")));
        }
        Ok(Self { flags, min, max })
    }
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
    /// Adds `delta` to `current` (None: the counter does not exist, counts as 0), or replaces it with SET.
    #[inline]
    pub fn apply(&self, current: Option<i64>, delta: i64) -> Result<Sum> {
        let old = current.unwrap_or(0);
        let set = self.has(WriteOptions::SET);
        let exact = if set { i128::from(delta) } else { i128::from(old) + i128::from(delta) };
        let new = if self.has(WriteOptions::BOUNDED) {
            let (min, max) = (i128::from(self.min), i128::from(self.max));
            if (min..=max).contains(&exact) {
                exact as i64
            } else if self.has(WriteOptions::SATURATE) {
                exact.clamp(min, max) as i64
            } else {
                return Ok(Sum { store: None, answer: old, applied: false });
            }
        } else if self.has(WriteOptions::CHECK_OVERFLOW) {
            i64::try_from(exact).map_err(|_| {
                Error::new(ErrorKind::Overflow, format!("{old} + {delta} does not fit a signed 64-bit integer; nothing was changed"))
            })?
        } else {
            exact as i64 // Wraps, as HBase does.
        };
        let answer = if self.has(WriteOptions::RETURN_OLD) { old } else { new };
        // Adding zero to a counter that exists is a read; on an absent one it creates it, as in HBase.
        let only_reads = !set && delta == 0 && current == Some(new);
        Ok(Sum { store: (!only_reads).then_some(new), answer, applied: true })
    }
}

#[cfg(test)]
mod tests;
