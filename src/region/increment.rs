//! One increment: read the newest version under the row lock, add, commit.

use super::Inner;
use super::admission::{WriteTerms, show};
use super::counter::{Rules, Sum};
use super::face::{CommitInfo, Counted};
use super::single::{At, Change, OneCell};
use crate::commit::mutation::Write;
use crate::error::{Error, ErrorKind, Result};
use crate::memstore::VersionValue;
use crate::options::WriteOptions;
use crate::read::newest::{Found, newest};
use crate::stats::CallKind;

/// The counter that a stored value is.
#[inline]
pub fn counter_of(found: &Found<'_>, row: &[u8], qualifier: &[u8]) -> Result<i64> {
    match found.value {
        VersionValue::Counter(n) => Ok(n),
        VersionValue::Bytes(b) => match <[u8; 8]>::try_from(b) {
            Ok(b) => Ok(i64::from_be_bytes(b)),
            Err(_) => Err(not_counter(b.len(), row, qualifier)),
        },
    }
}

#[cold]
fn not_counter(len: usize, row: &[u8], qualifier: &[u8]) -> Error {
    let column = format!("row {}, qualifier {}", show(row), show(qualifier));
    Error::new(
        ErrorKind::NotCounter,
        format!("{column} holds {len} bytes; a counter is exactly 8 (a signed big-endian integer); nothing was changed"),
    )
}

struct OneIncrement {
    delta: i64,
    rules: Rules,
    sum: Sum,
}

impl OneCell for OneIncrement {
    const KIND: CallKind = CallKind::Increment;
    #[inline]
    fn check(&mut self, o: &WriteOptions, _: &WriteTerms) -> Result<()> {
        self.rules = Rules::new(o.flags, o.min_value, o.max_value)?;
        Ok(())
    }
    #[inline]
    fn decide<'v>(&'v mut self, at: &At<'v>) -> Result<Option<Change<'v>>> {
        let lookup = newest(at.view, at.name, &at.inner.state.rules(at.settings));
        let current = lookup.newest.as_ref().map(|found| counter_of(found, at.name.row, at.name.qualifier)).transpose()?;
        self.sum = self.rules.apply(current, self.delta)?;
        let Some(value) = self.sum.store else { return Ok(None) };
        let write = Write::Counter { value, above: lookup.newest.map_or(0, |f| f.ts) };
        Ok(Some(Change { write, row: lookup.row, column: lookup.column }))
    }
    #[inline]
    fn count(&self) -> u64 {
        u64::from(self.sum.applied)
    }
}

impl Inner {
    /// Adds `delta` to one counter.
    pub fn increment(
        &self,
        row: &[u8],
        family: u32,
        qualifier: &[u8],
        delta: i64,
        o: &WriteOptions,
        info: &mut CommitInfo,
    ) -> Result<Counted> {
        if o.nonce != 0 {
            return self.increment_once(row, family, qualifier, delta, o, info);
        }
        let mut one = OneIncrement { delta, rules: Rules::default(), sum: Sum::default() };
        self.write_cell(&mut one, row, family, qualifier, o, info)?;
        Ok(Counted { value: one.sum.answer, applied: one.sum.applied })
    }
}
