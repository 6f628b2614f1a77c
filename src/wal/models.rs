//! The log under loom: every interleaving of the append lock and the sync group, compiled from the files that ship.
//!
//! A `Flaw` switches one rule off; a model of that rule must then fail. Run with `RUSTFLAGS="--cfg loom" cargo test --release --lib wal::models`.
//! The segment here is a form of its own: three words per record (header word, one word of payload, trailer), stored in the order and with the orderings of
//! `mapped.rs`, which itself cannot run under loom, since its words lie in a file's pages.

use super::format::{SEGMENT_HEADER_BYTES, u64_at};
use super::segment::SegmentForm;
use crate::sync::{AtomicU64, Ordering, fence};
use std::io;
use std::ops::Range;

/// One rule switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// All rules in force.
    None,
    /// `last` is published before the record is copied.
    PublishEarly,
    /// `last` is published with a relaxed store.
    PublishRelaxed,
    /// The trailer is stored before the payload.
    TrailerFirst,
    /// The leader takes number and position after the sync instead of before it.
    EndAfterSync,
    /// A failed sync is only told to the region's health, after the I/O lock is free.
    RetrySync,
    /// A waiter enters the queue without a second look at the I/O lock.
    NoSecondLook,
    /// A leader wakes those who are done, and no next leader.
    NoNextLeader,
    /// Nobody who waits for a gathering keeps its time.
    NobodyKeepsTime,
    /// Who completes a gathering waits like all others.
    NobodyCompletes,
}

/// Records of 48 bytes, three words each.
pub(crate) struct ModelSegment {
    records: Vec<[AtomicU64; 3]>,
    pub(super) flaw: Flaw,
}

impl ModelSegment {
    pub(super) fn new(records: usize, flaw: Flaw) -> Self {
        let word = || AtomicU64::new(0);
        Self { records: (0..records).map(|_| [word(), word(), word()]).collect(), flaw }
    }
    fn at(&self, offset: u32) -> &[AtomicU64; 3] {
        &self.records[(offset - SEGMENT_HEADER_BYTES) as usize / 48]
    }
    /// The number in the record at `offset`, if its trailer is there. A trailer over anything but a whole record is the failure that is looked for.
    pub(super) fn number_at(&self, offset: u32) -> Option<u64> {
        let [header, number, trailer] = self.at(offset);
        // Acquire: pairs with the trailer's Release, as the kernel's view of the page does.
        (trailer.load(Ordering::Acquire) != 0).then(|| {
            assert_ne!(header.load(Ordering::Relaxed), 0, "a trailer without its header word");
            let n = number.load(Ordering::Relaxed);
            assert_ne!(n, 0, "a trailer without its payload");
            n
        })
    }
}

impl SegmentForm for ModelSegment {
    fn write(&self, offset: u32, record: &[u8], _ctx: u64) -> io::Result<()> {
        let [header, number, trailer] = self.at(offset);
        let word = |at| u64_at(record, at).unwrap_or(0);
        header.store(word(0), Ordering::Relaxed);
        fence(Ordering::Release);
        if self.flaw == Flaw::TrailerFirst {
            trailer.store(word(record.len() - 8), Ordering::Release);
        }
        number.store(word(8), Ordering::Relaxed);
        trailer.store(word(record.len() - 8), Ordering::Release);
        Ok(())
    }
    fn erase(&self, offset: u32, _length: u32) -> io::Result<()> {
        for word in self.at(offset).iter().rev() {
            word.store(0, Ordering::Release);
        }
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn populate(&self, _range: Range<u32>) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::append::{Appender, End};
    use super::super::format::{Level, RecordKind, SaltCrc};
    use super::super::record::RecordBuffer;
    use super::super::segment::{Form, Segment};
    use super::super::sync::{Device, NotDurable, SyncGroup};
    use super::*;
    use crate::clock::Timeout;
    use crate::health::Health;
    use crate::ids::{Generation, LogPosition, Tick};
    use crate::sync::{Arc, thread};
    use std::ops::Deref;

    const START: u32 = SEGMENT_HEADER_BYTES;

    /// A reference to the model that is forgotten when loom stops a run: its objects cannot be dropped then.
    #[derive(Clone)]
    struct Hold(Option<std::sync::Arc<Model>>);

    impl Deref for Hold {
        type Target = Model;
        fn deref(&self) -> &Model {
            self.0.as_ref().expect("held until dropped")
        }
    }

    impl Drop for Hold {
        fn drop(&mut self) {
            if std::thread::panicking() {
                std::mem::forget(self.0.take());
            }
        }
    }

    struct Model {
        appender: Appender,
        segment: Arc<Segment>,
        group: SyncGroup<u32>,
        health: Health,
        /// Highest number that the device has made durable.
        stable: AtomicU64,
        /// How many syncs fail before one succeeds.
        failures: u32,
    }

    impl Model {
        fn new(flaw: Flaw, records: usize, failures: u32) -> Hold {
            Self::make(flaw, records, failures, None)
        }
        /// The first sync, and every later one, gathers for so many arrivals.
        fn gathering(flaw: Flaw, records: usize, arrivals: u64, time_passes: bool) -> Hold {
            Self::make(flaw, records, 0, Some((arrivals, time_passes)))
        }
        fn make(flaw: Flaw, records: usize, failures: u32, gather: Option<(u64, bool)>) -> Hold {
            let len = START + 48 * (records as u32 + 1);
            let segment = Segment::new(1, len, SaltCrc::new(1), Form::Model(ModelSegment::new(records, flaw)), len);
            let segment = Arc::new(segment);
            let mut appender = Appender::new(Arc::clone(&segment), 0, 0);
            appender.flaw = flaw;
            let mut group = SyncGroup::new(0, 0, LogPosition::new(1, START), u64::MAX, 0);
            group.flaw = flaw;
            if let Some((arrivals, time_passes)) = gather {
                group.gather(arrivals, time_passes);
            }
            let model = Self { appender, segment, group, health: Health::new(), stable: AtomicU64::new(0), failures };
            Hold(Some(std::sync::Arc::new(model)))
        }
        fn words(&self) -> &ModelSegment {
            match &self.segment.form {
                Form::Model(m) => m,
                _ => unreachable!("a model's segment"),
            }
        }
        fn append(&self) -> u64 {
            let mut record = RecordBuffer::new();
            record.begin(RecordKind::Commit, Level::Fsync, Generation(1), Tick(1));
            record.finish();
            assert_eq!(record.len(), 48);
            self.appender.append(&mut record, &self.health, self.group.position(), || ()).expect("there is room").number
        }
        fn wait(&self, number: u64) -> Result<(), NotDurable> {
            self.group.wait_for_durable(self, &self.health, number, &mut Timeout::forever())
        }
        /// The records in front of `end`, all of which must be whole.
        fn whole_up_to(&self, end: u32) -> u64 {
            let mut last = 0;
            for offset in (START..end).step_by(48) {
                last = self.words().number_at(offset).expect("a record below the end that is not written");
            }
            last
        }
    }

    impl Device for Model {
        type State = u32;
        type Leftover = ();
        fn end(&self, _pad: bool) -> End {
            self.appender.end()
        }
        fn sync(&self, syncs: &mut u32, _synced: LogPosition, end: LogPosition) -> io::Result<Option<()>> {
            *syncs += 1;
            if *syncs <= self.failures {
                return Err(io::Error::from(io::ErrorKind::Other));
            }
            let last = self.whole_up_to(end.offset());
            self.stable.store(last, Ordering::Relaxed);
            Ok(None)
        }
        fn dispose(&self, _leftover: ()) {}
    }

    fn explore(f: impl Fn() + Sync + Send + 'static) {
        let mut b = loom::model::Builder::new();
        b.preemption_bound = Some(2);
        b.check(f);
    }

    /// Runs the model and expects it to find the flaw.
    fn must_fail(f: impl Fn() + Sync + Send + 'static + std::panic::UnwindSafe) {
        let result = std::panic::catch_unwind(move || explore(f));
        assert!(result.is_err(), "the model does not notice that its rule is switched off");
    }

    /// Two writers; whoever reads `last` finds every record up to it whole, and in number order.
    fn last_covers_whole_records(flaw: Flaw) {
        let m = Model::new(flaw, 2, 0);
        let other = m.clone();
        let writer = thread::spawn(move || other.append());
        let reader = m.clone();
        let reader = thread::spawn(move || {
            let last = reader.appender.last();
            for n in 1..=last {
                assert_eq!(reader.words().number_at(START + 48 * (n as u32 - 1)), Some(n), "record {n} of {last}");
            }
        });
        m.append();
        let _ = writer.join();
        let _ = reader.join();
    }

    #[test]
    fn append_publishes_whole_records() {
        explore(|| last_covers_whole_records(Flaw::None));
        must_fail(|| last_covers_whole_records(Flaw::PublishEarly));
        must_fail(|| last_covers_whole_records(Flaw::PublishRelaxed));
    }

    /// What a kill leaves: a trailer is never there without its record.
    fn a_trailer_means_a_whole_record(flaw: Flaw) {
        let m = Model::new(flaw, 1, 0);
        let kernel = m.clone();
        let kernel = thread::spawn(move || kernel.words().number_at(START));
        m.append();
        let _ = kernel.join();
    }

    #[test]
    fn trailers_come_last() {
        explore(|| a_trailer_means_a_whole_record(Flaw::None));
        must_fail(|| a_trailer_means_a_whole_record(Flaw::TrailerFirst));
    }

    /// Two commits, each waits for itself: acknowledged means that the device has it.
    fn acknowledged_is_stable(flaw: Flaw) {
        let m = Model::new(flaw, 2, 0);
        let other = m.clone();
        let commit = |m: &Model| {
            let n = m.append();
            m.wait(n).expect("nothing fails");
            assert!(m.group.durable() >= n);
            assert!(m.stable.load(Ordering::Relaxed) >= n, "{n} was acknowledged and is not durable");
        };
        let writer = thread::spawn(move || commit(&other));
        commit(&m);
        let _ = writer.join();
        assert!(m.stable.load(Ordering::Relaxed) >= m.group.durable(), "D lies above what is durable");
    }

    #[test]
    fn the_durable_number_never_passes_a_record_that_is_not_synced() {
        explore(|| acknowledged_is_stable(Flaw::None));
        must_fail(|| acknowledged_is_stable(Flaw::EndAfterSync));
    }

    /// The first sync fails, a second one would not: nobody is told that it worked.
    fn a_failed_sync_is_final(flaw: Flaw) {
        let m = Model::new(flaw, 2, 1);
        let other = m.clone();
        // The append may be refused: the region may be poisoned by then.
        let commit = |m: &Model, n: u64| assert_eq!(m.wait(n), Err(NotDurable::Poisoned), "commit {n}");
        let n = [m.append(), m.append()];
        let writer = thread::spawn(move || commit(&other, n[0]));
        commit(&m, n[1]);
        let _ = writer.join();
        assert_eq!(m.group.durable(), 0, "D moved after a failed sync");
    }

    #[test]
    fn a_failed_sync_never_acknowledges() {
        explore(|| a_failed_sync_is_final(Flaw::None));
        must_fail(|| a_failed_sync_is_final(Flaw::RetrySync));
    }

    /// Two commits gather, for `arrivals`; loom reports a deadlock if one sleeps for ever.
    fn gatherings_end(flaw: Flaw, arrivals: u64, time_passes: bool) {
        let m = Model::gathering(flaw, 2, arrivals, time_passes);
        let other = m.clone();
        let commit = |m: &Model| {
            let n = m.append();
            m.wait(n).expect("nothing fails");
            assert!(m.stable.load(Ordering::Relaxed) >= n, "{n} was acknowledged and is not durable");
        };
        let writers = [m, other].map(|m| thread::spawn(move || commit(&m)));
        for writer in writers {
            let _ = writer.join();
        }
    }

    /// Its time stands still: only the second arrival can end it.
    #[test]
    fn who_completes_a_gathering_leads() {
        explore(|| gatherings_end(Flaw::None, 2, false));
        must_fail(|| gatherings_end(Flaw::NobodyCompletes, 2, false));
    }

    /// The third never comes: only its time can end it.
    #[test]
    fn a_gathering_ends_in_time() {
        explore(|| gatherings_end(Flaw::None, 3, true));
        must_fail(|| gatherings_end(Flaw::NobodyKeepsTime, 3, true));
    }

    /// Three commits; loom reports a deadlock if one sleeps for ever.
    fn everybody_wakes(m: &Hold, spawned: usize) {
        let commit = |m: &Model| {
            let n = m.append();
            m.wait(n).expect("nothing fails");
        };
        let threads: Vec<_> = (0..spawned)
            .map(|_| {
                let m = m.clone();
                thread::spawn(move || commit(&m))
            })
            .collect();
        if spawned < 3 {
            commit(m);
        }
        for t in threads {
            let _ = t.join();
        }
    }

    #[test]
    fn no_follower_sleeps_for_ever() {
        explore(|| everybody_wakes(&Model::new(Flaw::None, 3, 0), 2));
        must_fail(|| everybody_wakes(&Model::new(Flaw::NoSecondLook, 3, 0), 2));
        must_fail(|| everybody_wakes(&Model::new(Flaw::NoNextLeader, 3, 0), 2));
    }

    /// As above, where every sync gathers for two: one is left over, before or after the two, and may have entered the queue during a sync.
    /// All three are spawned: loom takes a late unpark, which is harmless, for the end of a join.
    #[test]
    fn no_follower_sleeps_for_ever_behind_a_gathering() {
        explore(|| everybody_wakes(&Model::gathering(Flaw::None, 3, 2, true), 3));
        must_fail(|| everybody_wakes(&Model::gathering(Flaw::NobodyKeepsTime, 3, 2, true), 3));
        must_fail(|| everybody_wakes(&Model::gathering(Flaw::NoNextLeader, 3, 2, true), 3));
    }
}
