//! Recovery of the log: which records count, where the log ends, what is damage; and making durable what it kept.
//!
//! A *life* is one open of the region for writing; its first segment carries a *seal* that says where the life before ended. Everything before a seal must be whole.
//! In the last life the walk ends at the first position that holds no valid record; whether that is a torn tail or damage depends on two things:
//!
//! | | below the mark | *nothing* or *unfinished*, no valid record behind it | anything else |
//! |---|---|---|---|
//! | same kernel (boot id, device and inode as written): pages cannot be missing | damage | the end: a writer died in its append, nobody was told | damage |
//! | power was lost, or cannot be excluded | damage | the end | the end; the report says how much was cut |
//!
//! The *mark* is the largest `durable_below` of any whole record of that life, also behind damage: what was synced must be there.
//! Then the bytes from mark to end are written again with themselves and synced, before anybody can see them: a second crash must not lose what this open has shown.
//!
//! A life without a record counts for nothing: the next one names the end of the life before it, and its segments may go. So opening and closing leaves nothing behind.
//!
//! The manifest notes how far the log was synced: to the start of the first segment at each open, to the end at each clean close. The log must reach at least that
//! far, so that last segments that are missing are noticed. A crash before such a note leaves an older one, which holds as well.
//!
//! A crash anywhere in here changes nothing that the next recovery looks at. Threads: one; nobody else has the region open.
#![forbid(unsafe_code)]

use super::LogOptions;
use super::format::{RecordKind, SEGMENT_HEADER_BYTES, Seal};
use super::prepare::{segment_name, segment_number};
use super::reader::{self, Buffer, Progress, SegmentFile, Step, Stop, corrupt};
use super::record::Record;
use crate::env::{Env, FsKind};
use crate::error::{Error, Result};
use crate::ids::LogPosition;

/// What recovery found, and what the next life starts from.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Largest number of any record, PAD or seal; 0 if there was none.
    pub last: u64,
    /// Largest tick of any record.
    pub max_tick: u64,
    /// Largest generation of any record.
    pub max_generation: u32,
    /// Number for the first segment of the next life.
    pub next_segment: u32,
    /// Where the log ends now; None if there is no segment.
    pub seal: Option<Seal>,
    /// Segments of this region that count for nothing: what lives had prepared and not used, and lives without a record.
    pub spare: Vec<u32>,
    /// For the recovery report.
    pub report: RecoveryFacts,
}

/// What the manifest says about the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Segments below this one are not needed.
    pub first_segment: u32,
    /// Everything below is durable; 0 where nothing is known.
    pub synced: LogPosition,
}

/// Facts for the recovery report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryFacts {
    /// Segment files read.
    pub segments: u64,
    /// Commit and CARRY records read.
    pub records: u64,
    /// Bytes of records and PADs.
    pub bytes: u64,
    /// Records at the end that were begun and not finished, or pages missing there: 0 or 1.
    pub cut_tails: u64,
    /// Bytes behind the end that are not empty.
    pub cut_bytes: u64,
    /// Whole records behind the end.
    pub valid_beyond_cut: u64,
    /// The log was written under this boot, in this file: no page can be missing.
    pub same_kernel: bool,
    /// Position known durable before this open.
    pub mark: LogPosition,
    /// End of the log.
    pub end: LogPosition,
}

/// What is done with the records of a log. A closure over records is one.
pub trait Replayer {
    /// A commit or CARRY record, in order.
    fn apply(&mut self, record: &Record<'_>) -> Result<()>;
    /// A row that a record a little further on will probably name: nothing of it was checked yet. For who wants to have its memory at hand by then.
    fn soon(&mut self, _row: &[u8]) {}
}

impl<F: FnMut(&Record<'_>) -> Result<()>> Replayer for F {
    fn apply(&mut self, record: &Record<'_>) -> Result<()> {
        self(record)
    }
}

/// Reads the log from the first segment needed on and hands every commit and CARRY record to `replayer`, in order. Errors: Corrupt (names file and offset), Io, Cancelled,
/// Unsupported (network file system), and whatever `replayer` says. Unless `read_only`, what was not known durable is written again; in both cases it is synced.
pub fn recover(
    env: &dyn Env,
    options: &LogOptions,
    known: Known,
    read_only: bool,
    replayer: &mut dyn Replayer,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Recovered> {
    // How it is written does not matter to who reads it.
    let network = super::check_place(env, &options.dir, &options.dir, super::WalIo::Auto, options.allow_network_fs)? == FsKind::Network;
    let names = env.list(&options.dir).map_err(|e| Error::io(format!("list {}", options.dir.display()), &e))?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|n| segment_number(n)).collect();
    numbers.sort_unstable();
    let highest = numbers.last().copied().unwrap_or(0);
    let first_needed = known.first_segment;
    numbers.retain(|n| *n >= first_needed);
    let Some(next_segment) = highest.max(first_needed.saturating_sub(1)).checked_add(1) else {
        return crate::fail!(Corrupt, "{}: a log segment with the highest possible number", options.dir.display());
    };

    let Lives { closed, last, mut spare } = arrange(env, options, first_needed, numbers)?;
    if last.last().map_or(0, |s| s.header.number) < known.synced.segment() {
        return Err(lost(options, known.synced));
    }
    let all = || closed.iter().flat_map(|(segments, _)| segments).chain(&last);
    let total = all().map(|s| s.len as u64).sum();
    let segments = all().count() as u64;
    let mut walk = Walk {
        env,
        replayer,
        progress: Progress { call: progress, total, before: 0, told: 0 },
        buffer: Buffer::default(),
        last: None,
        max_tick: 0,
        max_generation: 0,
        mark: 0,
        facts: RecoveryFacts { segments, ..RecoveryFacts::default() },
    };
    for (segments, seal) in &closed {
        walk.closed_life(segments, *seal)?;
    }
    let mut seal = None;
    if let Some(first) = last.first() {
        let start = LogPosition::new(first.header.number, SEGMENT_HEADER_BYTES);
        let boot_id = env.boot_id();
        let mut same_kernel = !network && !options.recovery_power_cut && boot_id != [0; 16];
        for segment in &last {
            let identity = env.identity(&segment.path).map_err(|e| Error::io(format!("identify {}", segment.path.display()), &e))?;
            same_kernel &= segment.header.boot_id == boot_id && segment.header.identity == identity;
        }
        walk.facts.same_kernel = same_kernel;
        walk.mark = start.0.max(known.synced.0);
        walk.last_life(&last, options)?;
        walk.progress.finish()?;
        let (mark, end) = (LogPosition(walk.mark), walk.facts.end);
        walk.facts.mark = mark;
        for segment in &last {
            make_durable(env, segment, mark, end, read_only)?;
        }
        // A life without a record is passed over.
        let before = first.header.seal.filter(|_| end == start);
        let at = before.unwrap_or(Seal { segment: end.segment(), offset: end.offset(), number: walk.last.unwrap_or(0) });
        spare.extend(last.iter().map(|s| s.header.number).filter(|n| *n > at.segment));
        seal = Some(at);
    }
    Ok(Recovered {
        last: walk.last.unwrap_or(0),
        max_tick: walk.max_tick,
        max_generation: walk.max_generation,
        next_segment,
        seal,
        spare,
        report: walk.facts,
    })
}

/// The segments that count, by life.
struct Lives {
    /// Lives that ended, each with its seal.
    closed: Vec<(Vec<SegmentFile>, Seal)>,
    /// The last life; empty if there is no segment at all.
    last: Vec<SegmentFile>,
    /// Between a seal's segment and the one that carries it.
    spare: Vec<u32>,
}

/// Reads the headers, drops what does not count, sorts the rest into lives and checks that none is missing where none may be.
fn arrange(env: &dyn Env, options: &LogOptions, first_needed: u32, numbers: Vec<u32>) -> Result<Lives> {
    let mut files = Vec::new();
    for number in numbers {
        let path = options.dir.join(segment_name(number));
        let opened = reader::look(env, path.clone())?.and_then(|file| match file.header.seal {
            _ if file.header.number != number => Err(corrupt(&path, 12, "the header has another segment's number")),
            Some(seal) if seal.segment >= number => Err(corrupt(&path, 80, "the seal names a later segment")),
            _ => Ok(file),
        });
        // Another region's files are none of ours; a bad header matters only if the segment counts.
        if !matches!(&opened, Ok(f) if f.header.region_uuid != options.region_uuid) {
            files.push((number, opened));
        }
    }
    let (mut closed, mut spare) = (Vec::new(), Vec::new());
    // The life that is being collected: numbers, and files or what is wrong with them.
    let mut life: Vec<(u32, Result<SegmentFile>)> = Vec::new();
    let mut starts_at = first_needed;
    for (number, file) in files {
        if let Some(seal) = file.as_ref().ok().and_then(|f| f.header.seal) {
            // Between the seal and this segment lies what the life before had prepared: it may be there or missing.
            spare.extend(life.iter().filter(|(n, file)| *n > seal.segment && file.is_ok()).map(|(n, _)| *n));
            life.retain(|(n, _)| *n <= seal.segment);
            let ended = life.drain(..).map(|(_, f)| f).collect::<Result<Vec<_>>>()?;
            if seal.segment >= first_needed {
                check_numbers(options, &ended, starts_at, Some(seal.segment))?;
                closed.push((ended, seal));
            }
            starts_at = number;
        }
        life.push((number, file));
    }
    let last = life.into_iter().map(|(_, f)| f).collect::<Result<Vec<_>>>()?;
    if let Some(first) = last.first().filter(|f| f.header.number != starts_at) {
        return Err(missing(options, starts_at, first.header.number));
    }
    Ok(Lives { closed, last, spare })
}

fn missing(options: &LogOptions, number: u32, next: u32) -> Error {
    corrupt(&options.dir.join(segment_name(number)), 0, &format!("the file is missing, though segment {next} needs it"))
}

/// The log ends before a segment that the manifest knows.
fn lost(options: &LogOptions, synced: LogPosition) -> Error {
    let what = format!("the file is missing, though the log was synced up to offset {} of it", synced.offset());
    corrupt(&options.dir.join(segment_name(synced.segment())), 0, &what)
}

/// The segments' numbers go from `first` up without gap, and to `last` if that is given.
fn check_numbers(options: &LogOptions, segments: &[SegmentFile], first: u32, last: Option<u32>) -> Result<()> {
    let mut expected = first;
    for segment in segments {
        if segment.header.number != expected {
            return Err(missing(options, expected, segment.header.number));
        }
        expected = expected.saturating_add(1);
    }
    match last {
        Some(last) if expected <= last => Err(missing(options, expected, last.saturating_add(1))),
        _ => Ok(()),
    }
}

/// State of the walk over all lives.
struct Walk<'a> {
    env: &'a dyn Env,
    replayer: &'a mut dyn Replayer,
    progress: Progress<'a>,
    buffer: Buffer,
    /// Last number seen; None before the first record of the log.
    last: Option<u64>,
    max_tick: u64,
    max_generation: u32,
    /// Largest `durable_below` of the life.
    mark: u64,
    facts: RecoveryFacts,
}

impl Walk<'_> {
    /// Walks one segment up to `limit`, or to the first position without a valid record. Returns that position; None: everything up to `limit` is valid.
    /// Where the log went on in the next segment (`None`), the limit is the file's end, and a PAD fills the segment up to there: a file that ends otherwise
    /// was cut, and what stood there is missing.
    fn segment(&mut self, segment: &SegmentFile, limit: Option<u32>) -> Result<Option<(u32, Stop)>> {
        let (went_on, limit) = (limit.is_none(), limit.unwrap_or(segment.len));
        let mut offset = SEGMENT_HEADER_BYTES;
        let mut padded = false;
        let reading = segment.open(self.env)?;
        let (mut told_to, mut told) = (offset, 0_usize);
        while offset < limit {
            told_to = told_to.max(offset);
            while told < TOLD_AHEAD {
                let Some((row, length)) = reading.coming(&self.buffer, told_to) else { break };
                self.replayer.soon(row);
                told_to = told_to.saturating_add(length);
                told += 1;
            }
            told = told.saturating_sub(1);
            let (record, length) = match reading.step(&mut self.buffer, offset, self.last, &mut self.progress)? {
                Step::Record(record, length) => (record, length),
                Step::Stop(stop) => return Ok(Some((offset, stop))),
            };
            if length > limit - offset {
                return Ok(Some((offset, Stop::Bad("the record reaches beyond the end that the next life has noted"))));
            }
            // A checksum that is right proves no more than that somebody computed it: what recovery counts on from must leave room to count.
            if record.number.unwrap_or(0) > NUMBER_MAX || record.tick > NUMBER_MAX || record.generation > GENERATION_MAX {
                return Err(corrupt(&segment.path, offset, "the record has a number, tick or generation that no writer gives"));
            }
            self.mark = self.mark.max(record.durable_below);
            self.last = record.number.or(self.last);
            self.facts.bytes += length as u64;
            padded = record.kind == RecordKind::Pad;
            if !padded {
                self.max_tick = self.max_tick.max(record.tick);
                self.max_generation = self.max_generation.max(record.generation);
                self.facts.records += 1;
                let position = LogPosition::new(segment.header.number, offset);
                let record = Record::decode(record, position).map_err(|what| corrupt(&segment.path, offset, what))?;
                self.replayer.apply(&record)?;
            }
            offset += length;
        }
        let whole = padded && limit.is_multiple_of(SEGMENT_HEADER_BYTES);
        Ok((went_on && !whole).then_some((limit, Stop::Nothing)))
    }

    /// A life that ended: all of it is there, up to its seal.
    fn closed_life(&mut self, segments: &[SegmentFile], seal: Seal) -> Result<()> {
        for segment in segments {
            let limit = (segment.header.number == seal.segment).then_some(seal.offset);
            if let Some(limit) = limit.filter(|limit| *limit > segment.len) {
                return Err(corrupt(&segment.path, segment.len, &format!("the file is cut short: the log went on to {limit}")));
            }
            if let Some((offset, stop)) = self.segment(segment, limit)? {
                let what = format!("{} before the end of that log, segment {} offset {}", describe(stop), seal.segment, seal.offset);
                return Err(corrupt(&segment.path, offset, &what));
            }
            self.progress.before += segment.len as u64;
        }
        if let (Some(last), Some(segment)) = (self.last, segments.last())
            && last > seal.number
        {
            let what = format!("record {last} is above the last number that the next life has noted, {}", seal.number);
            return Err(corrupt(&segment.path, seal.offset, &what));
        }
        if let Some(segment) = segments.last().filter(|_| seal.number > NUMBER_MAX) {
            return Err(corrupt(&segment.path, seal.offset, "the next life has noted a last number that no writer gives"));
        }
        self.last = Some(self.last.unwrap_or(0).max(seal.number));
        Ok(())
    }

    /// The last life: finds its end and tells a torn tail from damage.
    fn last_life(&mut self, segments: &[SegmentFile], options: &LogOptions) -> Result<()> {
        let first = segments.first().map_or(0, |s| s.header.number);
        let run = segments.iter().zip(first..).take_while(|(s, n)| s.header.number == *n).count();
        if let (true, Some(behind)) = (self.facts.same_kernel, segments.get(run)) {
            return Err(missing(options, first.saturating_add(run as u32), behind.header.number));
        }
        // Walk to the first position without a valid record.
        let mut end = None;
        for (i, segment) in segments.iter().enumerate().take(run) {
            let at_last = i + 1 == run;
            let stop = self.segment(segment, at_last.then_some(segment.len))?;
            if stop.is_some() || at_last {
                let (offset, stop) = stop.unwrap_or((segment.len, Stop::Nothing));
                end = Some((i, offset, stop));
                break;
            }
            self.progress.before += segment.len as u64;
        }
        let Some((at, offset, stop)) = end else { return Ok(()) };
        let beyond = self.behind(segments, at, offset)?;

        let Some(segment) = segments.get(at) else { return Ok(()) };
        let position = LogPosition::new(segment.header.number, offset);
        const HINT: &str = "; if the device lost power without this machine rebooting, open with recovery=power_cut";
        if position.0 < self.mark {
            if let Some(behind) = segments.get(run).filter(|_| at + 1 == run && stop == Stop::Nothing) {
                return Err(missing(options, first.saturating_add(run as u32), behind.header.number));
            }
            let mark = LogPosition(self.mark);
            let what = format!("{}, though the log was synced up to segment {} offset {}", describe(stop), mark.segment(), mark.offset());
            return Err(corrupt(&segment.path, offset, &what));
        }
        if self.facts.same_kernel && (matches!(stop, Stop::Bad(_)) || beyond.valid > 0) {
            let what = format!("{}, {} whole records follow, and the machine has not rebooted since{HINT}", describe(stop), beyond.valid);
            return Err(corrupt(&segment.path, offset, &what));
        }
        self.facts.end = position;
        self.facts.cut_bytes = beyond.bytes;
        self.facts.valid_beyond_cut = beyond.valid;
        self.facts.cut_tails = u64::from(beyond.bytes > 0);
        Ok(())
    }

    /// What lies behind the end: the rest of its segment, and all segments after it.
    fn behind(&mut self, segments: &[SegmentFile], at: usize, offset: u32) -> Result<Behind> {
        let mut behind = Behind::default();
        for (i, segment) in segments.iter().enumerate().skip(at) {
            let end = if i == at { offset } else { SEGMENT_HEADER_BYTES };
            // The word at the end itself is known not to start a valid record.
            let from = if i == at { offset.saturating_add(8) } else { SEGMENT_HEADER_BYTES };
            let segment = segment.open(self.env)?;
            let found = segment.resync(&mut self.buffer, from, &mut self.progress)?;
            behind.valid += found.valid;
            self.mark = self.mark.max(found.mark);
            let first_word = if i == at && !segment.is_zero_at(&mut self.buffer, offset, &mut self.progress)? { end + 8 } else { end };
            behind.bytes += found.nonzero_end.max(first_word).saturating_sub(end) as u64;
            self.progress.before += segments.get(i).map_or(0, |s| s.len as u64);
        }
        Ok(behind)
    }
}

/// Numbers and ticks above this are damage, as in the manifest.
const NUMBER_MAX: u64 = 1 << 62;
/// The same for generations.
const GENERATION_MAX: u32 = 1 << 31;

/// So many records ahead a row is told to come: enough for two dependent cache misses, few enough that the lines are still there.
const TOLD_AHEAD: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Behind {
    valid: u64,
    bytes: u64,
}

fn describe(stop: Stop) -> &'static str {
    match stop {
        Stop::Nothing => "no record",
        Stop::Unfinished => "an unfinished record",
        Stop::Bad(what) => what,
    }
}

/// Writes the segment's bytes between mark and end again with themselves and syncs it. After a failed sync the kernel counts pages as clean that never reached the
/// disk: only writing makes them dirty again.
fn make_durable(env: &dyn Env, segment: &SegmentFile, mark: LogPosition, end: LogPosition, read_only: bool) -> Result<()> {
    let number = segment.header.number;
    if number < mark.segment() || number > end.segment() {
        return Ok(());
    }
    let what = |e: &std::io::Error| Error::io(format!("make log segment {} durable", segment.path.display()), e);
    let from = if number == mark.segment() { mark.offset() } else { 0 };
    let to = if number == end.segment() { end.offset() } else { segment.len };
    let file = segment.open_file(env, !read_only)?;
    if !read_only {
        let mut piece = vec![0u8; 1 << 20];
        let mut at = from as u64;
        while at < to as u64 {
            let n = (to as u64 - at).min(piece.len() as u64) as usize;
            let part = piece.get_mut(..n).unwrap_or_default();
            file.read_exact_at(part, at).and_then(|()| file.write_all_at(part, at)).map_err(|e| what(&e))?;
            at += n as u64;
        }
    }
    file.sync_data().map_err(|e| what(&e))
}
