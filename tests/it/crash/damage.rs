//! Bytes of the log changed behind the region's back: a torn tail is cut and reported, everything else refused with file and offset; a wrong value never.
//!
//! Each case: a log whose first part was synced and whose last was not, one change, one open. What may come out is a prefix of the log that has at least what was
//! synced (P-D1, P-D2), or `Corrupt`; a prefix that is not all of it must be reported.

use super::stage::*;
use region::ErrorKind;
use region::env::mem::MemEnv;
use region::options::{Durability, WalIo};
use region::region::Region;

/// A killed region: what its log holds, and where the synced part ends.
struct Victim {
    env: MemEnv,
    ledger: Ledger,
    io: WalIo,
    /// The segment with the log's end, and that end.
    segment: String,
    end: u64,
    /// End of what was synced, in the same segment; and how many commits it holds.
    synced: u64,
    durable: usize,
}

/// Increments, a synced one among them; records of many sizes behind it.
fn victim(io: WalIo, lane: u64, len: usize) -> Victim {
    use Durability::{FsyncWal, SyncWal};
    let env = machine(lane);
    let region = open(&env, io);
    let mut ledger = Ledger::default();
    let mut run = |step: Step| {
        ledger.begin(&step);
        ledger.run(&region, &step);
    };
    let end = || log_end(&env);
    for i in 0..8 {
        run(Step::Inc { row: i % 3, delta: 1, level: SyncWal });
    }
    run(Step::Inc { row: 0, delta: 1, level: FsyncWal });
    let synced = end().1;
    // From here every record says that what came before it was synced.
    let mut i = 0;
    while end().1 < synced + len as u64 {
        run(Step::Inc { row: i % 3, delta: 1, level: SyncWal });
        run(Step::Put { row: i % 3, len: 40 * i as usize, level: SyncWal });
        run(Step::Batch { delta: 1, level: SyncWal });
        i += 1;
    }
    let durable = 9;
    let (segment, end) = end();
    let killed = env.image();
    drop(region);
    Victim { env: killed, ledger, io, segment, end, synced, durable }
}

/// The last segment with a record, and the end of its last word that is not zero.
fn log_end(env: &MemEnv) -> (String, u64) {
    let all = files(env);
    let used = all.iter().rfind(|(n, b)| n.starts_with("wal.0") && b[4096..4104] != [0; 8]).unwrap();
    let words = used.1.chunks(8).rposition(|w| w != [0; 8]).unwrap();
    (used.0.clone(), 8 * (words as u64 + 1))
}

/// What one change came to.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// So many commits are there.
    Opened(usize),
    Refused,
}

impl Victim {
    /// Opens the changed image and checks everything that must be true whatever was changed.
    fn open(&self, env: &MemEnv, writable: bool, what: &str) -> Outcome {
        let before = (!writable).then(|| files(env));
        let o = if writable { options(self.io) } else { read_only(self.io) };
        let outcome = match open_with(env, o) {
            Ok(region) => Outcome::Opened(self.prefix(&region, what)),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{what}: {e}");
                assert!(e.message().contains("wal.0") && e.message().contains("offset"), "{what}: names no file and offset: {e}");
                Outcome::Refused
            }
        };
        if let Some(before) = before {
            assert!(files(env) == before, "{what}: a look has changed something");
        }
        outcome
    }
    fn prefix(&self, region: &Region, what: &str) -> usize {
        let found = content(region);
        let all = self.ledger.commits.len();
        let n = (0..=all).rev().find(|n| self.ledger.replayed(*n) == found);
        let n = n.unwrap_or_else(|| panic!("P-D2: {what}: what is there is no prefix of the log"));
        assert!(n >= self.durable, "P-D1: {what}: {n} commits are left, {} were synced", self.durable);
        if n < all {
            assert!(
                reported(region, "cut_tails") == 1 && reported(region, "cut_bytes") > 0,
                "{what}: {} commits are gone without a word",
                all - n
            );
        }
        n
    }
    /// An image with these bytes there, in the machine's next boot if asked for.
    fn with(&self, offset: u64, bytes: &[u8], rebooted: bool) -> MemEnv {
        let env = self.env.image();
        scribble(&env, &self.segment, offset, bytes);
        if rebooted {
            env.set_boot_id([9; 16]);
        }
        env
    }
}

/// Every byte of the last 4 KB of log gets another value.
fn flip_each_byte(io: WalIo, lane: u64) {
    let v = victim(io, lane, 4_500);
    let last = v.end - 4_096..v.end;
    assert!(last.start > v.synced - 600 && v.ledger.commits.len() > 20);
    let (mut refused, mut cut) = (0, 0);
    for offset in last {
        for rebooted in [false, true] {
            let byte = bytes_at(&v.env, &v.segment, offset, 1)[0] ^ (1 << (offset % 8));
            let what = format!("{io:?}, bit {} of the byte at {offset} turned, rebooted: {rebooted}", offset % 8);
            // Most of them read-only: opening for writing costs ten times as much.
            match v.open(&v.with(offset, &[byte], rebooted), offset % 16 == 3, &what) {
                Outcome::Refused => refused += 1,
                Outcome::Opened(n) if n < v.ledger.commits.len() => {
                    // Under the same kernel no page can be missing: what is neither empty nor unfinished is damage.
                    assert!(rebooted || offset >= v.end - 600, "{what}: cut {n}");
                    cut += 1;
                }
                // Unused bits of a record do not exist: every byte is under a checksum.
                Outcome::Opened(_) => panic!("{what}: nobody has noticed"),
            }
        }
    }
    println!("{io:?}: {refused} refused, {cut} cut");
    assert!(refused > 3_000 && cut > 1_000, "{refused} refused, {cut} cut");
}

/// P-D2, P-D4, BUG-46, REC-05.
#[test]
fn each_byte_of_the_last_page_turned_mapped() {
    flip_each_byte(WalIo::Mapped, 11_001);
}
#[test]
fn each_byte_of_the_last_page_turned_written() {
    flip_each_byte(WalIo::Write, 11_011);
}

/// P-D2. A store that never reached the page, or a page of zeros: each word of the log's end, zeroed.
#[test]
fn each_word_of_the_last_page_zeroed() {
    let v = victim(WalIo::Mapped, 11_021, 4_500);
    let (mut same, mut other) = ([0; 2], [0; 2]);
    for offset in (v.end - 4_096..v.end).step_by(8) {
        if bytes_at(&v.env, &v.segment, offset, 8) == [0; 8] {
            continue;
        }
        for rebooted in [false, true] {
            let what = format!("the word at {offset} zeroed, rebooted: {rebooted}");
            let counts = if rebooted { &mut other } else { &mut same };
            match v.open(&v.with(offset, &[0; 8], rebooted), offset % 128 == 0, &what) {
                Outcome::Refused => counts[0] += 1,
                Outcome::Opened(n) => {
                    assert!(n < v.ledger.commits.len(), "{what}: nobody has noticed");
                    counts[1] += 1;
                }
            }
        }
    }
    println!("same kernel: {same:?} refused and cut, rebooted: {other:?}");
    assert!(same[0] > 300 && same[1] >= 2 && other[1] > 300, "{same:?} {other:?}");
}

/// P-D2, BUG-46: the last record torn after each of its words, as a kill within its append leaves it. It opens by itself and says what was cut.
#[test]
fn last_record_torn_after_each_word() {
    for (io, lane) in [(WalIo::Mapped, 11_031), (WalIo::Write, 11_041)] {
        let v = victim(io, lane, 2_000);
        let all = v.ledger.commits.len();
        // The batch is the last record; its length is in its header word.
        let start = record_starts(&v).pop().unwrap();
        for cut in (start + 8..v.end).step_by(8) {
            for rebooted in [false, true] {
                let env = v.with(cut, &vec![0; (v.end - cut) as usize], rebooted);
                let what = format!("{io:?}, torn at {cut} of {start}..{}, rebooted: {rebooted}", v.end);
                assert_eq!(v.open(&env, true, &what), Outcome::Opened(all - 1), "{what}");
            }
        }
        // Nothing of it at all is no tail.
        let env = v.with(start, &vec![0; (v.end - start) as usize], false);
        let region = open(&env, io);
        assert_eq!((content(&region), reported(&region, "cut_tails")), (v.ledger.replayed(all - 1), 0));
    }
}

/// Offsets of the records in the victim's last segment.
fn record_starts(v: &Victim) -> Vec<u64> {
    let (mut at, mut all) = (4_096, Vec::new());
    while at < v.end {
        all.push(at);
        at += u64::from(u32::from_le_bytes(bytes_at(&v.env, &v.segment, at, 4).try_into().unwrap()));
    }
    assert_eq!(at, v.end);
    all
}

/// BUG-46 with copies: the file cut at each byte of the last record, the rest missing, zeros or ones. A copy is another inode, so any page may be missing.
#[test]
fn bug_46_copies_cut_within_the_last_record() {
    let v = victim(WalIo::Write, 11_051, 1_000);
    let all = v.ledger.commits.len();
    let start = record_starts(&v).pop().unwrap();
    let len = files(&v.env)[&v.segment].len() as u64;
    let path = std::path::Path::new(PATH).join(&v.segment);
    for cut in start..v.end {
        for fill in [None, Some(0), Some(0xff)] {
            let env = v.env.image();
            env.set_inode(&path, 4_711).unwrap();
            match fill {
                Some(byte) => scribble(&env, &v.segment, cut, &vec![byte; (len - cut) as usize]),
                None => region::env::Env::open(&env, &path, true).unwrap().set_len(cut).unwrap(),
            }
            let last = |env| bytes_at(env, &v.segment, start, (v.end - start) as usize);
            if fill.is_some() && last(&env) == last(&v.env) {
                // The record happens to end with these very bytes: nothing was cut.
                continue;
            }
            let what = format!("cut at {cut} of {start}..{}, filled with {fill:?}", v.end);
            let region = open_with(&env, options(v.io)).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(content(&region), v.ledger.replayed(all - 1), "{what}");
            let (tails, bytes) = (reported(&region, "cut_tails"), reported(&region, "cut_bytes"));
            let bare = cut == start || (fill.is_none() && cut < start + 8);
            assert!(tails == 1 && bytes > 0 || bare && fill != Some(0xff), "{what}: {tails} tails of {bytes} bytes");
        }
    }
}

/// BUG-47, REC-05: damage in the middle, whole records behind it: refused with file and offset, files untouched, after a reboot too where the damaged part was synced.
#[test]
fn bug_47_damage_in_the_middle_is_refused() {
    for (io, lane) in [(WalIo::Mapped, 11_061), (WalIo::Write, 11_071)] {
        let v = victim(io, lane, 3_000);
        let starts = record_starts(&v);
        // Length, number, cells, trailer of each record but the last two; a bit each.
        for (i, pair) in starts.windows(2).enumerate().take(starts.len() - 2) {
            for offset in [pair[0], pair[0] + 9, pair[0] + 44, pair[1] - 3] {
                for rebooted in [false, true] {
                    let byte = bytes_at(&v.env, &v.segment, offset, 1)[0] ^ 4;
                    let env = v.with(offset, &[byte], rebooted);
                    let before = files(&env);
                    let what = format!("{io:?}, record {i} damaged at {offset}, rebooted: {rebooted}");
                    match v.open(&env, true, &what) {
                        Outcome::Refused => {
                            assert!(files(&env) == before, "{what}: a refused open has changed something");
                            let e = open_with(&env, options(io)).err().unwrap();
                            assert!(e.message().contains(&v.segment) && e.message().contains(&pair[0].to_string()), "{what}: {e}");
                        }
                        Outcome::Opened(n) => {
                            assert!(rebooted && pair[0] >= v.synced, "{what}: opened with {n}");
                            assert!(n <= i, "{what}: opened with {n}, past the damage");
                        }
                    }
                }
            }
        }
    }
}

/// A segment's header is written and synced before its number: damaged or missing it is never an end of the log.
#[test]
fn damaged_or_missing_segment_is_refused() {
    let v = victim(WalIo::Mapped, 11_081, 1_000);
    for rebooted in [false, true] {
        for offset in [0, 9, 24, 100] {
            let byte = bytes_at(&v.env, &v.segment, offset, 1)[0] ^ 1;
            assert_eq!(v.open(&v.with(offset, &[byte], rebooted), true, &format!("header byte {offset}")), Outcome::Refused);
        }
    }
    // A log of several segments, one of which is gone.
    let env = machine(11_091);
    let region = open(&env, WalIo::Mapped);
    for i in 0..10 {
        put(&region, &[i], &[i; 20_000], Durability::FsyncWal).unwrap();
    }
    let killed = env.image();
    drop(region);
    let names = segments(&killed);
    assert!(names.len() > 4);
    for name in &names[..3] {
        let env = killed.image();
        region::env::Env::remove(&env, &std::path::Path::new(PATH).join(name)).unwrap();
        let e = open_with(&env, options(WalIo::Mapped)).err().unwrap_or_else(|| panic!("opened without {name}"));
        assert_eq!(e.kind(), ErrorKind::Corrupt);
        assert!(e.message().contains(name.as_str()), "{e}");
    }
}

/// D2's way out of a wrong verdict: a device that lost power under one boot is opened with `recovery=power_cut`, which cuts where the default refuses.
#[test]
fn recovery_power_cut_is_offered_and_works() {
    let v = victim(WalIo::Mapped, 11_101, 2_000);
    let starts = record_starts(&v);
    let at = starts[starts.len() - 4];
    let env = v.with(at, &[0; 8], false);
    let e = open_with(&env, options(v.io)).err().unwrap();
    assert!(e.kind() == ErrorKind::Corrupt && e.message().contains("recovery=power_cut"), "{e}");
    let mut o = options(v.io);
    o.config += ",recovery=power_cut";
    let region = open_with(&env, o).unwrap();
    assert_eq!(v.prefix(&region, "with recovery=power_cut"), starts.len() - 4);
    assert!(reported(&region, "valid_beyond_cut") == 3);
}

/// P-D2: after a clean close the manifest knows where the log ends: files of its end that are gone, or cut, are refused by name, whatever the machine has been through
/// since; and so is a life's first segment after a kill, from the moment the open has returned.
#[test]
fn the_end_of_a_closed_log_that_is_gone_is_refused() {
    use region::env::Env;
    for (io, lane) in [(WalIo::Mapped, 11_111), (WalIo::Write, 11_121)] {
        let env = machine(lane);
        for life in 0..3 {
            let region = open(&env, io);
            for i in 0..4 {
                put(&region, &[life, i], &[i; 20_000], Durability::SyncWal).unwrap();
            }
            super::stage::close(&region);
        }
        // One that ends with nothing, and one that is killed before its first commit.
        super::stage::close(&open(&env, io));
        let closed = env.image();
        let killed = {
            let region = open(&env, io);
            let image = env.image();
            drop(region);
            image
        };
        assert_eq!(content(&open(&closed.image(), io)).len(), 12);
        for (image, what) in [(closed, "closed"), (killed, "killed")] {
            let names = segments(&image);
            let used = names.iter().filter(|n| bytes_at(&image, n, 0, 8) == *b"RGNWAL\r\n").count();
            for gone in 1..=used.min(4) {
                for rebooted in [false, true] {
                    let env = image.image();
                    if rebooted {
                        env.set_boot_id([9; 16]);
                    }
                    for name in &names[names.len() - gone..] {
                        env.remove(&std::path::Path::new(PATH).join(name)).unwrap();
                    }
                    for o in [options(io), read_only(io)] {
                        match open_with(&env, o) {
                            Err(e) => assert!(e.kind() == ErrorKind::Corrupt && e.message().contains("wal.0"), "{what}, {gone}: {e}"),
                            // Prepared segments behind the end may go.
                            Ok(_) => assert!(
                                what == "killed" && gone < 3,
                                "{io:?}: {what} log opened without {:?}",
                                &names[names.len() - gone..]
                            ),
                        }
                    }
                }
            }
        }
    }
}
