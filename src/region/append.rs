//! One append: as an increment, with bytes.

use super::Inner;
use super::admission::WriteTerms;
use super::face::{CommitInfo, Found, Mutation, Op, ValueSink};
use super::mutate::{VALUE_BYTES_MAX, check_flags};
use super::pinned::PinnedValue;
use super::single::{At, Change, OneCell};
use crate::commit::mutation::{Stamp, Write};
use crate::error::Result;
use crate::fail;
use crate::options::WriteOptions;
use crate::read::newest::newest;
use crate::stats::CallKind;
use crate::sync::Arc;

impl Inner {
    /// Appends `suffix`; `new_value` gets the whole value.
    #[expect(clippy::too_many_arguments, reason = "the C call's")]
    pub fn append(
        self: &Arc<Self>,
        row: &[u8],
        family: u32,
        qualifier: &[u8],
        suffix: &[u8],
        o: &WriteOptions,
        info: &mut CommitInfo,
        new_value: Option<&mut dyn ValueSink>,
    ) -> Result<Found> {
        if o.nonce != 0 {
            let m = Mutation { op: Op::Append, family, row, qual: qualifier, value: suffix, delta: 0, timestamp: 0 };
            let (found, value) = self.append_once(m, o, info, new_value.is_some())?;
            self.hand_out(value, new_value);
            return Ok(found);
        }
        let mut one = OneAppend { suffix, value: Vec::new(), written: Found::default() };
        self.write_cell(&mut one, row, family, qualifier, o, info)?;
        self.hand_out(one.value, new_value);
        Ok(one.written)
    }

    fn hand_out(self: &Arc<Self>, value: Vec<u8>, sink: Option<&mut dyn ValueSink>) {
        let Some(sink) = sink else { return };
        match sink.fits(value.len()) {
            Some(into) => into.copy_from_slice(&value),
            None => sink.pin(Box::new(PinnedValue::new(Arc::clone(self), value.into_boxed_slice()))),
        }
    }

    /// A value that an append makes may not be longer than one that is put.
    pub(super) fn check_joined(&self, before: usize, suffix: &[u8]) -> Result<()> {
        let len = before + suffix.len();
        if len > VALUE_BYTES_MAX {
            return fail!(
                TooLarge,
                "{before} bytes and {} more make a value of {len}; the limit is {VALUE_BYTES_MAX}; nothing was changed",
                suffix.len()
            );
        }
        Ok(())
    }
}

struct OneAppend<'w> {
    suffix: &'w [u8],
    value: Vec<u8>,
    written: Found,
}

impl OneCell for OneAppend<'_> {
    const KIND: CallKind = CallKind::Write;
    fn check(&mut self, _: &WriteOptions, terms: &WriteTerms) -> Result<()> {
        check_flags(terms.flags)?;
        if terms.timestamp != 0 {
            return fail!(Invalid, "an append gets a timestamp above that of the value it adds to; leave timestamp 0");
        }
        Ok(())
    }
    fn decide<'v>(&'v mut self, at: &At<'v>) -> Result<Option<Change<'v>>> {
        let lookup = newest(at.view, at.name, &at.inner.state.rules(at.settings));
        let before = lookup.newest.map_or(0, |f| f.value.len());
        at.inner.check_joined(before, self.suffix)?;
        self.value.clear();
        if let Some(found) = lookup.newest {
            found.value.with(|bytes| self.value.extend_from_slice(bytes));
        }
        self.value.extend_from_slice(self.suffix);
        let write = Write::Put { value: &self.value, stamp: Stamp::Above(lookup.newest.map_or(0, |f| f.ts)) };
        Ok(Some(Change { write, row: lookup.row, column: lookup.column }))
    }
    fn written(&mut self, cell: Found) {
        self.written = cell;
    }
}
