//! Opening, closing, families, and what a region tells about itself.

use super::bytes::{clear_text, fill_text, region_slice_t};
use super::guard::{self, Answer, Caller, Outcome};
use super::handle::{self, Object};
use super::open_options::{self, FAMILY_BYTES_FIRST, region_family_t, region_options_t};
use super::options::{known_bits, timeout};
use super::pool::Pool;
use super::sized::{self, plain, read_sized, write_sized};
use super::status::{code, region_error_t, region_status};
use crate::error::ErrorKind;
use crate::ids::FamilyId;
use crate::options::RegionOptions;
use crate::region::{CloseFlags, Region};
use crate::sync::{Arc, Mutex};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};

/// A region. Opaque.
pub struct region_t(());

/// What a `region_t` leads to.
pub(super) struct Open {
    pub(super) region: Region,
    /// Names that were handed out by `region_family_next`, which stay until the region is closed. An id never changes its name.
    names: Mutex<BTreeMap<u32, Box<[u8]>>>,
}

impl Object for Open {
    type C = region_t;
    const NAME: &'static str = "region";
    const KIND: u64 = 0x7265_6769_6f6e_7400;
    fn poison(&self, reason: &str) {
        self.region.poison(reason);
    }
}

/// Opens the region in directory path, and creates it with REGION_OPEN_CREATE. *out: close it with region_close; NULL on
/// failure. Blocks while the log is replayed (opts->progress tells how far, and can cancel). Everything is borrowed for the
/// call. Threads: any.
/// REGION_E_INVALID (an option out of bounds or other than stored; the message names it), E_UNSUPPORTED, E_NO_REGION,
/// E_EXISTS, E_LOCKED (the message names the holder), E_CORRUPT (file and offset), E_CANCELLED, E_IO, E_NOSPACE, E_NOMEM,
/// E_TOO_LARGE (the log does not fit memstore_limit), E_HANDLE (chunk_pool), E_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_open(
    path: *const c_char,
    opts: *const region_options_t,
    out: *mut *mut region_t,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            c.write(out, std::ptr::null_mut());
            c.require(out, "out")
        };
        guard::plain("region_open", err, outputs, |c| {
            let path = c.path(path)?;
            let (mut o, mut pool, mut cb) = (RegionOptions::default(), None, None);
            if let Some(given) = read_sized(c, opts, "opts")? {
                o = open_options::open(c, &given)?;
                if !given.chunk_pool.is_null() {
                    let entered = handle::enter::<Pool>(given.chunk_pool).map_err(|why| why.error("opts.chunk_pool"))?;
                    pool = Some(Arc::clone(&entered.object().0));
                }
                if given.progress.is_some() {
                    cb = Some(open_options::progress(given.progress, given.progress_ctx));
                }
            }
            guard::start();
            let region = Region::open(path, o, pool, cb.as_mut().map(|cb| cb as _))?;
            let made = handle::create(Open { region: region.clone(), names: Mutex::new(BTreeMap::new()) });
            match made {
                Ok(handle) => c.write(out, handle),
                Err(e) => {
                    let _ = region.close(CloseFlags { force: true, no_flush: false }, crate::clock::Timeout::forever());
                    return Err(e);
                }
            }
            Ok(Outcome::OK)
        })
    }
}

/// Closes a region. NULL, a region that is closed, and a forked child: nothing happens, REGION_OK. flags: REGION_CLOSE_*.
/// REGION_E_BUSY (snapshots, scanners or pinned values are open; the message says how many) and REGION_E_TIMEOUT (calls are still
/// running): it is open as before. Every other return, error or not: it is closed, the directory is unlocked, and the
/// handle answers REGION_E_CLOSED. Commits of SKIP_WAL are lost: this version has no flush. Waits at most timeout_us for
/// running calls; calls that wait in the region return REGION_E_CLOSED. Two threads may close: the second waits for the
/// first. Threads: any.
/// REGION_E_INVALID, E_UNSUPPORTED (flags), E_HANDLE, E_BUSY, E_TIMEOUT, E_IO, E_NOSPACE, E_POISONED, E_PANIC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_close(r: *mut region_t, flags: u32, timeout_us: u64, err: *mut region_error_t) -> region_status {
    use super::open_options::region_close_flags::{REGION_CLOSE_FORCE, REGION_CLOSE_NO_FLUSH};
    let (force, no_flush) = (REGION_CLOSE_FORCE as u32, REGION_CLOSE_NO_FLUSH as u32);
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::closing::<Open>("region_close", r, err, |open| {
            if let Err(e) = known_bits(flags, force | no_flush, "flags") {
                return (false, Err(e));
            }
            let how = CloseFlags { force: flags & force != 0, no_flush: flags & no_flush != 0 };
            match open.region.close(how, timeout(timeout_us, &open.region)) {
                Ok(()) => (true, Ok(Outcome::OK)),
                Err(e) => match e.kind() {
                    ErrorKind::Busy | ErrorKind::Timeout => (false, Err(e)),
                    // The other closer was first: what was asked for is true.
                    ErrorKind::Closed => (true, Ok(Outcome::OK)),
                    _ => (true, Err(e)),
                },
            }
        })
    }
}

/// Removes the region in directory path, with its files. It must not be open anywhere. Threads: any.
/// REGION_E_INVALID, E_NO_REGION, E_LOCKED, E_IO, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_destroy(path: *const c_char, err: *mut region_error_t) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe { guard::plain("region_destroy", err, guard::no_outputs, |c| Region::destroy(c.path(path)?).map(|()| Outcome::OK)) }
}

/// The id of a family: what every other call takes. Ids are stored and never used again. *id: 0 if there is none. Threads:
/// any.
/// REGION_NOT_FOUND, REGION_E_INVALID, E_HANDLE, E_CLOSED, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_family_id(
    r: *mut region_t,
    name: *const c_void,
    name_len: usize,
    id: *mut u32,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            c.write(id, 0);
            c.require(id, "id")
        };
        guard::on::<Open>("region_family_id", r, err, outputs, |open, c| {
            match open.region.family_id(c.bytes(name, name_len, "name")?)? {
                Some(found) => c.write(id, found.0),
                None => return Ok(Outcome::of(code::REGION_NOT_FOUND)),
            }
            Ok(Outcome::OK)
        })
    }
}

/// Creates a family, or changes the settings that are not 0 (so deleted cells that are kept, and min_versions, cannot be set back to none). *id, may be NULL: its id, durable at return; 0 on failure.
/// Changed settings hold for what is written from then on. Stricter ones (fewer versions, a shorter life, deleted cells not kept) also take
/// out at once what is there; looser ones bring nothing back: what had fallen out, expired or was deleted under the old ones is gone,
/// whether or not it is still in memory, and also for snapshots. A scan that is open goes on by the settings it began with. Changed
/// again and again they are E_TOO_LARGE after 1,000 changes.
/// Threads: any. On an error nothing was changed, but for REGION_E_OUTCOME_UNKNOWN: the disk failed twice, and which settings hold the next open
/// will tell. Waits for calls that began earlier.
/// REGION_E_INVALID, E_UNSUPPORTED, E_TOO_LARGE, E_READONLY, E_POISONED, E_IO, E_NOSPACE, E_OUTCOME_UNKNOWN, E_HANDLE, E_CLOSED, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_family_set(
    r: *mut region_t,
    f: *const region_family_t,
    family_size: usize,
    id: *mut u32,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            c.write(id, 0);
            Ok(())
        };
        guard::on::<Open>("region_family_set", r, err, outputs, |open, c| {
            let given = sized::read(c, f, family_size, FAMILY_BYTES_FIRST, "f")?;
            let made = open.region.family_set(open_options::family(c, &given)?)?;
            c.write(id, made.0);
            Ok(Outcome::OK)
        })
    }
}

/// Drops a family with all its cells, at once and for snapshots, too: reads of it are REGION_E_NO_FAMILY and new scans pass it over. A scanner that is open
/// may go on to show its cells. Threads: any. On an error nothing was changed, but for REGION_E_OUTCOME_UNKNOWN: the disk failed
/// twice; its id stays refused, and whether it is gone the next open will tell.
/// REGION_E_NO_FAMILY, E_READONLY, E_POISONED, E_IO, E_NOSPACE, E_OUTCOME_UNKNOWN, E_HANDLE, E_CLOSED, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_family_drop(r: *mut region_t, id: u32, err: *mut region_error_t) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        guard::on::<Open>("region_family_drop", r, err, guard::no_outputs, |open, _| {
            open.region.family_drop(FamilyId(id)).map(|()| Outcome::OK)
        })
    }
}

/// The family with the smallest id above after_id: begin with 0. *id and *out: its id and settings, either may be NULL;
/// out->name is valid until region_close. REGION_DONE at the end, with *id = 0. Threads: any. REGION_E_INVALID, E_HANDLE,
/// E_CLOSED, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_family_next(
    r: *mut region_t,
    after_id: u32,
    id: *mut u32,
    out: *mut region_family_t,
    family_size: usize,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            c.write(id, 0);
            if out.is_null() { Ok(()) } else { sized::write(c, out, family_size, FAMILY_BYTES_FIRST, 0, &sized::zeroed(), "out") }
        };
        guard::on::<Open>("region_family_next", r, err, outputs, |open, c| {
            let Some((found, info)) = open.region.family_next(after_id)? else {
                return Ok(Outcome::of(code::REGION_DONE));
            };
            if !out.is_null() {
                let name = {
                    let mut names = open.names.lock();
                    let kept = names.entry(found.0).or_insert_with(|| info.name.as_bytes().into());
                    // The box never moves its bytes and is never replaced, so the slice outlives the lock.
                    region_slice_t::of(kept)
                };
                sized::write(c, out, family_size, FAMILY_BYTES_FIRST, 0, &open_options::family_out(&info, name), "out")?;
            }
            c.write(id, found.0);
            Ok(Outcome::OK)
        })
    }
}

/// Everything that is set, as JSON: keys with types, defaults and values, and the families. json gets at most cap bytes
/// with NUL; *len (may be NULL) the whole length without NUL; on an error the text is empty and *len 0. json may be NULL when
/// cap is 0. Threads: any.
/// REGION_TRUNCATED, REGION_E_INVALID, E_HANDLE, E_CLOSED, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_describe(
    r: *mut region_t,
    json: *mut c_char,
    cap: usize,
    len: *mut usize,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            clear_text(c, json, cap, len);
            Ok(())
        };
        guard::on::<Open>("region_describe", r, err, outputs, |open, c| fill_text(c, json, cap, len, &open.region.describe()?, "json"))
    }
}

/// What the last recovery found, as JSON; buffer as in region_describe. Threads: any. REGION_TRUNCATED, REGION_E_INVALID,
/// E_HANDLE, E_CLOSED, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_recovery_report(
    r: *mut region_t,
    json: *mut c_char,
    cap: usize,
    len: *mut usize,
    err: *mut region_error_t,
) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| {
            clear_text(c, json, cap, len);
            Ok(())
        };
        guard::on::<Open>("region_recovery_report", r, err, outputs, |open, c| {
            fill_text(c, json, cap, len, &open.region.recovery_report()?, "json")
        })
    }
}

/// Numbers about a region, counted since it was opened. Each is right for itself; they are not read at one instant.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct region_stats_t {
    /// In: sizeof(region_stats_t).
    pub struct_size: u32,
    /// 0
    pub reserved: u32,
    /// Last commit number given. Numbers are not dense: an open skips some.
    pub seq: u64,
    /// Every commit up to this one is on stable storage.
    pub durable_seq: u64,
    /// Bytes that rows, columns, cells and index use in memory.
    pub memstore_bytes: u64,
    /// Bytes of memory taken for them: what memstore_limit bounds.
    pub memstore_heap_bytes: u64,
    /// Bytes of the log's files, prepared ones too.
    pub wal_bytes: u64,
    /// Syncs of the log.
    pub wal_syncs: u64,
    /// Flushes; 0 in this version.
    pub flushes: u64,
    /// Compactions; 0 in this version.
    pub compactions: u64,
    /// Values looked up (each key of a packed call is one, also if there is no value), and cells that scanners gave out.
    pub reads: u64,
    /// Operations applied by region_put, region_delete and region_batch_mutate(_packed), increments and checks among them. As increments: each counts
    /// once however often it had to be tried; what failed, was not applied or has an unknown outcome does not count.
    pub writes: u64,
    /// Counters incremented by region_increment, region_increment_row and region_increment_packed; reading ones (delta 0) too.
    pub increments: u64,
    /// REGION_OP_CHECKs that were met, each once however often its call had to be tried. Of an atomic call, or of a group, none behind the element
    /// that kept it from being applied.
    pub checks_passed: u64,
    /// Those that were not.
    pub checks_failed: u64,
    /// Times that a write waited for memory or log space, or was refused for want of them; counted when the wait begins.
    pub stalled_writes: u64,
    /// Microseconds of these waits, each counted at its end.
    pub stalled_us: u64,
    /// Times that a row lock had to be waited for.
    pub row_lock_waits: u64,
    /// Times that a commit waited for the clock's next tick.
    pub clock_waits: u64,
    /// Increments that went with another one's commit; 0 in this version.
    pub folded: u64,
    /// Commits that took a tick ahead of the clock.
    pub tick_advances: u64,
    /// Furthest that a tick was ahead, in nanoseconds.
    pub tick_lead_max_ns: u64,
    /// Scanners open now.
    pub open_scanners: u64,
    /// Snapshots open now, without those that scanners took for themselves.
    pub open_snapshots: u64,
    /// Read point of the oldest, be it a scanner's; 0 if there is none.
    pub oldest_snapshot_seq: u64,
    /// Its age in microseconds.
    pub oldest_snapshot_age_us: u64,
    /// Values pinned now.
    pub pinned_values: u64,
    /// Their bytes.
    pub pinned_bytes: u64,
    /// The limit of memstore memory.
    pub memstore_limit: u64,
    /// Part of memstore_bytes that takes no more commits and waits for a flush.
    pub memstore_sealed_bytes: u64,
    /// Log files that are in use, needed for recovery or prepared.
    pub wal_segments: u64,
    /// Bytes of REGION_DUR_SKIP_WAL commits: lost with the process.
    pub unlogged_bytes: u64,
    /// 0 healthy, 1 poisoned, 2 closing.
    pub health: u64,
    /// What calls with a nonce are remembered by, one for each group of operations: the entries of the table, those included that are older than
    /// nonce_window_s and not yet freed (by calls with a nonce, and about every second).
    pub nonce_entries: u64,
    /// Their bytes.
    pub nonce_bytes: u64,
    /// Bytes that new ones may come up to: nonce_bytes_max. More may have been there when the region was opened with a smaller one.
    pub nonce_bytes_max: u64,
    /// Groups of operations that were answered from their entries.
    pub nonce_hits: u64,
    /// Entries freed for their age.
    pub nonce_expired: u64,
    /// Calls with a nonce that were refused since the table was full (REGION_E_BUSY, or REGION_E_TOO_LARGE alone above nonce_bytes_max).
    pub nonce_refused: u64,
    /// Different instants that snapshots and scanners hold now: for each, memory is kept for what it sees.
    pub read_points: u64,
    /// Cells in memory behind the newest of their column: replaced values, delete markers, and copies of counters. What a put or delete wrote stays until a flush,
    /// which this version does not have, whether or not a snapshot is open.
    pub old_versions: u64,
    /// Their bytes, a part of memstore_bytes.
    pub old_version_bytes: u64,
    /// Part of old_versions that increments made: a counter's older versions, copied for a read point, for several versions of the family, or beside a commit
    /// that waits for its sync. This never falls, but it stops growing: once nobody needs what a copy holds, the counter's next one is written over it.
    pub counter_copies: u64,
    /// Their bytes.
    pub counter_copy_bytes: u64,
    /// Counter copies that open snapshots and scanners may need: those made since the oldest was opened, at most counter_copies. A version that still lies in one of
    /// the counter's own two places is no copy and costs nothing: a counter has one only from the second increment after a snapshot on. An upper bound (exact
    /// while no newer one was closed before an older one); 0 once none is open, and then all copies of families of one version are free to be written again.
    pub held_copies: u64,
    /// Their bytes.
    pub held_copy_bytes: u64,
    /// Calls that wait for a row lock now.
    pub row_lock_waiting: u64,
    /// Microseconds for which a commit has been between its append to the log and its end, which takes a few: a thread that hangs there keeps its row locked,
    /// and snapshots and scanners from opening. Looked at about every second, so this is a lower bound; 0: none was met.
    pub oldest_commit_us: u64,
    /// The same for a call that reads, or writes and has not come to the log yet (a scan between two calls is none). 0 for a region open read-only.
    pub oldest_call_us: u64,
}
plain!(region_stats_t);

/// Numbers about a region. Threads: any; takes no lock that a write holds. REGION_E_INVALID, E_HANDLE, E_CLOSED, E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region_stats(r: *mut region_t, out: *mut region_stats_t, err: *mut region_error_t) -> region_status {
    // SAFETY: all pointers are arguments of the C call.
    unsafe {
        let outputs = |c: Caller<'_>| write_sized(c, out, &sized::zeroed(), "out");
        guard::on::<Open>("region_stats", r, err, outputs, |open, c| -> Answer {
            let s = open.region.stats()?;
            let told = region_stats_t {
                struct_size: 0,
                reserved: 0,
                seq: s.seq,
                durable_seq: s.durable_seq,
                memstore_bytes: s.memstore_bytes,
                memstore_heap_bytes: s.memstore_heap_bytes,
                wal_bytes: s.wal_bytes,
                wal_syncs: s.wal_syncs,
                flushes: s.flushes,
                compactions: s.compactions,
                reads: s.reads,
                writes: s.writes,
                increments: s.increments,
                checks_passed: s.checks_passed,
                checks_failed: s.checks_failed,
                stalled_writes: s.stalled_writes,
                stalled_us: s.stalled_us,
                row_lock_waits: s.row_lock_waits,
                clock_waits: s.clock_waits,
                folded: s.folded,
                tick_advances: s.tick_advances,
                tick_lead_max_ns: s.tick_lead_max_ns,
                open_scanners: s.open_scanners,
                open_snapshots: s.open_snapshots,
                oldest_snapshot_seq: s.oldest_snapshot_seq,
                oldest_snapshot_age_us: s.oldest_snapshot_age_us,
                pinned_values: s.pinned_values,
                pinned_bytes: s.pinned_bytes,
                memstore_limit: s.memstore_limit,
                memstore_sealed_bytes: s.memstore_sealed_bytes,
                wal_segments: s.wal_segments,
                unlogged_bytes: s.unlogged_bytes,
                health: s.health,
                nonce_entries: s.nonce_entries,
                nonce_bytes: s.nonce_bytes,
                nonce_bytes_max: s.nonce_bytes_max,
                nonce_hits: s.nonce_hits,
                nonce_expired: s.nonce_expired,
                nonce_refused: s.nonce_refused,
                read_points: s.read_points,
                old_versions: s.old_versions,
                old_version_bytes: s.old_version_bytes,
                counter_copies: s.counter_copies,
                counter_copy_bytes: s.counter_copy_bytes,
                held_copies: s.held_copies,
                held_copy_bytes: s.held_copy_bytes,
                row_lock_waiting: s.row_lock_waiting,
                oldest_commit_us: s.oldest_commit_us,
                oldest_call_us: s.oldest_call_us,
            };
            write_sized(c, out, &told, "out")?;
            Ok(Outcome::OK)
        })
    }
}
