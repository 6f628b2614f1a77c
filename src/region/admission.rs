//! What is checked before a write takes any lock: life, health, read-only, options, sizes. And the waits between two attempts of a write, each with
//! nothing held.

use super::Inner;
use super::lifecycle::{Call, closed};
use crate::clock::{Timeout, monotonic_nanos};
use crate::commit::Refusal;
use crate::commit::mutation::Terms;
use crate::error::{Error, ErrorKind, Result, counted};
use crate::fail;
use crate::ids::{ROW_BYTES_MAX, TIMESTAMP_MAX, Tick};
use crate::mslab::wait_for_memory;
use crate::options::{Durability, WriteOptions};
use crate::rowlock::LockError;
use crate::stats::CallKind;

/// A write's options, resolved against the region's.
#[derive(Clone, Copy)]
pub struct WriteTerms {
    pub durability: Durability,
    pub timeout: Timeout,
    pub flags: u32,
    /// Of puts and deletes that name none; 0 = the commit's tick.
    pub timestamp: u64,
    /// It has tried again once because of memory that another call gave back.
    tried_pieces: bool,
}

impl WriteTerms {
    /// What a commit has to know of them.
    pub fn commit(&self, thread: usize) -> Terms<'static> {
        Terms { durability: self.durability, tick: None, thread, nonces: None }
    }
}

impl Inner {
    /// Admits a write of `kind`.
    #[inline]
    pub fn enter_write(&self, kind: CallKind, thread: usize, o: &WriteOptions) -> Result<(Call<'_>, WriteTerms)> {
        let call = self.lifecycle.enter(kind, thread)?;
        if self.read_only {
            return fail!(ReadOnly, "{} is open read-only; nothing was changed", self.path.display());
        }
        self.state.health.check()?;
        let durability = o.durability.unwrap_or(self.durability);
        if u64::from(o.flags) | o.timestamp | o.nonce | o.nonce_group != 0 {
            check_options(kind, o, durability)?;
        }
        let timeout = Timeout::from_micros(o.timeout_us.unwrap_or(self.write_timeout_us));
        Ok((call, WriteTerms { durability, timeout, flags: o.flags, timestamp: o.timestamp, tried_pieces: false }))
    }
    /// A row key of a length we take, inside the region's range.
    #[inline]
    pub fn check_row(&self, row: &[u8]) -> Result<()> {
        if row.is_empty() || row.len() > ROW_BYTES_MAX {
            return Err(row_length(row.len()));
        }
        if self.has_range { self.check_range(row) } else { Ok(()) }
    }
    fn check_range(&self, row: &[u8]) -> Result<()> {
        let (start, end) = (&self.start_row[..], &self.end_row[..]);
        if row < start || (!end.is_empty() && row >= end) {
            return fail!(Range, "row {} is outside the region's key range [{}, {})", show(row), show(start), show(end));
        }
        Ok(())
    }
    /// A qualifier of a length we take.
    #[inline]
    pub fn check_qualifier(&self, qualifier: &[u8]) -> Result<()> {
        if qualifier.len() > ROW_BYTES_MAX {
            return fail!(TooLarge, "a qualifier of {} bytes; the limit is {ROW_BYTES_MAX}", qualifier.len());
        }
        Ok(())
    }
    /// The error for a row lock that was not obtained.
    #[cold]
    pub fn lock_error(&self, why: LockError, row: &[u8], timeout: &Timeout) -> Error {
        match why {
            LockError::Timeout => Error::new(
                ErrorKind::Timeout,
                format!("row {} stayed locked by another write for {} µs; nothing was changed", show(row), timeout.micros()),
            ),
            LockError::Closed => closed(self.lifecycle.is_closed()),
        }
    }
    /// Waits for what a refused commit needs. Ok: try again.
    #[cold]
    pub fn wait_for_refused(&self, refusal: Refusal, terms: &mut WriteTerms, thread: usize) -> Result<()> {
        let timeout = &mut terms.timeout;
        let refusal = match refusal {
            Refusal::Fatal(e) => return Err(e),
            Refusal::Tick(tick) => return self.wait_for_next_tick(tick, timeout),
            other => other,
        };
        let started = monotonic_nanos();
        self.lifecycle.calls.stall_begins(thread);
        let result = match refusal {
            Refusal::Fatal(_) | Refusal::Tick(_) => Ok(()),
            Refusal::Memory(bytes) => self.wait_for_memory(bytes, timeout, &mut terms.tried_pieces),
            Refusal::Nonces(bytes) => self.wait_for_nonces(bytes, timeout),
            Refusal::LogSpace(needed) => match &self.state.log {
                Some(log) => log.wait_for_log_space(needed, timeout, &|| self.lifecycle.is_closing(), FREES_LOG),
                None => Ok(()),
            },
        };
        self.lifecycle.calls.stall_ends(thread, (monotonic_nanos() - started) / 1_000);
        result
    }
    fn wait_for_next_tick(&self, tick: Tick, timeout: &mut Timeout) -> Result<()> {
        self.state.sequencer.wait_for_next_tick(tick, timeout, &|| self.lifecycle.is_closing()).map_err(|_| {
            if self.lifecycle.is_closing() {
                closed(self.lifecycle.is_closed())
            } else {
                Error::new(
                    ErrorKind::Timeout,
                    format!("the row's next clock tick did not come within {} µs; nothing was changed", timeout.micros()),
                )
            }
        })
    }
    /// Pieces of the active segment that refused calls gave back serve as well as new memory. Where nothing else can come they are tried once, since the call's own
    /// are among them; a call that waits tries again each time others have given some back.
    fn wait_for_memory(&self, bytes: usize, timeout: &mut Timeout, tried_pieces: &mut bool) -> Result<()> {
        let pieces = || {
            let slot = self.state.slots.claim(super::thread::index());
            self.state.view.load(&slot).active.given_back(bytes)
        };
        let before = pieces();
        let (may_come, mut at_once) = (self.memory_may_come(bytes), Timeout::no_wait());
        if !may_come && before.is_some() && !std::mem::replace(tried_pieces, true) {
            return Ok(());
        }
        let timeout = if may_come { timeout } else { &mut at_once };
        let came_back = || pieces().is_some_and(|now| Some(now) != before);
        if wait_for_memory(&self.state.pool, &self.state.budget, bytes, timeout, &|| self.lifecycle.is_closing(), &came_back) {
            return Ok(());
        }
        if self.lifecycle.is_closing() {
            return Err(closed(self.lifecycle.is_closed()));
        }
        let (used, limit) = (self.state.budget.used(), self.state.budget.limit());
        let pool = self.state.pool.stats();
        let what = if used + pool.chunk_size > limit {
            format!("the memstore is full: {used} of memstore_limit = {limit} bytes")
        } else {
            format!(
                "the chunk pool is full: {} of {} bytes in use, at most {}",
                counted(pool.in_use, "chunk", "chunks"),
                pool.chunk_size,
                pool.max_chunks
            )
        };
        let why = if may_come { format!("for {} µs", timeout.micros()) } else { "and nothing that could free some is running".into() };
        fail!(Busy, "{what}, {why}; nothing was changed. {}", self.what_holds_memory())
    }
    /// For the message: what a user can do something about.
    fn what_holds_memory(&self) -> String {
        let old = {
            let slot = self.state.slots.claim(super::thread::index());
            self.state.view.load(&slot).old_cells()
        };
        let mut text = format!(
            "{} bytes of it are {} older versions, replaced values and delete markers; {} open",
            old.bytes,
            old.cells,
            counted(self.open_children(), "snapshot, scanner or pinned value is", "snapshots, scanners and pinned values are")
        );
        if let Some(oldest) = self.state.points.oldest() {
            let age = monotonic_nanos().saturating_sub(oldest.opened.ns) / 1_000_000_000;
            text += &format!(", the oldest read point is {} and {age} s old", oldest.point.0);
        }
        text
    }
    /// False: waiting would be in vain. What this region holds goes with a flush, which this version does not have; what other regions hold of the pool goes when
    /// they are closed, and what the system refuses may be had later.
    fn memory_may_come(&self, bytes: usize) -> bool {
        let (pool, budget) = (&self.state.pool, &self.state.budget);
        let stats = pool.stats();
        let lent = stats.mapped_bytes.saturating_sub(stats.pooled * stats.chunk_size);
        let need = pool.reservation_for(bytes);
        budget.has_room(need) && (pool.has_room(need) || lent > budget.used() || lent + need <= stats.max_bytes)
    }
}

/// Log segments are freed by a flush, which this version does not have.
const FREES_LOG: bool = false;

#[cold]
fn check_options(kind: CallKind, o: &WriteOptions, durability: Durability) -> Result<()> {
    super::once::check(o, durability)?;
    check_timestamp(o.timestamp)?;
    if o.timestamp != 0 && matches!(kind, CallKind::Increment) {
        return fail!(Invalid, "an increment gets a timestamp above that of the value it adds to; leave timestamp 0");
    }
    if o.flags & !WriteOptions::FLAGS_ALL != 0 {
        return fail!(Unsupported, "flags: {:#x} is not known to this version", o.flags & !WriteOptions::FLAGS_ALL);
    }
    Ok(())
}

/// A timestamp that one more can still be added to.
#[inline]
pub fn check_timestamp(timestamp: u64) -> Result<()> {
    if timestamp > TIMESTAMP_MAX {
        return fail!(Invalid, "timestamp {timestamp} is above 2^62, the largest that is taken; nothing was changed");
    }
    Ok(())
}

#[cold]
fn row_length(len: usize) -> Error {
    if len == 0 {
        Error::new(ErrorKind::Invalid, "the row key is empty; it must have 1 to 32,767 bytes")
    } else {
        Error::new(ErrorKind::TooLarge, format!("a row key of {len} bytes; the limit is {ROW_BYTES_MAX}"))
    }
}

/// Bytes for a message: printable as text, else escaped, never long.
pub fn show(bytes: &[u8]) -> String {
    let head = bytes.get(..bytes.len().min(40)).unwrap_or_default();
    let dots = if bytes.len() > 40 { "…" } else { "" };
    format!("\"{}{dots}\"", head.escape_ascii())
}
