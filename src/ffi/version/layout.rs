//! The layout of every public struct: what `REGION_LAYOUT_HASH` is the hash of. A test compares the table with the header's structs by
//! name.

use crate::ffi::{batch::*, bytes::*, log::*, open_options::*, options::*, pool::*, read::*, region::*, scan::*, status::*, write::*};

/// Name, size, and each field with offset and size.
pub(crate) type Struct = (&'static str, usize, &'static [(&'static str, usize, usize)]);

const fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! layout {
    ($($name:ident { $($field:ident),+ $(,)? })+) => {
        /// All of them.
        pub(crate) const STRUCTS: &[Struct] = &[$((
            stringify!($name),
            size_of::<$name>(),
            &[$((stringify!($field), std::mem::offset_of!($name, $field), size_of_field(|s: &$name| &s.$field))),+],
        )),+];
    };
}

layout! {
    region_error_t { struct_size, status, os_errno, flags, op_index, commit_seq, msg_len, reserved, reserved2, msg }
    region_slice_t { data, len }
    region_value_t { buf, cap, data, len, timestamp, seq, pin, reserved }
    region_commit_info_t { struct_size, flags, seq, timestamp }
    region_write_options_t { struct_size, flags, durability, reserved, timeout_us, timestamp, nonce_group, nonce, min_value, max_value, info }
    region_read_options_t { struct_size, flags, snapshot, min_ts, max_ts, timeout_us }
    region_family_t { name, max_versions, min_versions, ttl_ms, bloom, compression, block_size, flags }
    region_progress_t { struct_size, phase, done, total }
    region_options_t {
        struct_size, flags, durability, background_threads, clock_unit, tick_policy, wal_io, sync_interval_ms, write_timeout_us, memstore_limit,
        flush_bytes, block_cache_bytes, wal_bytes_max, chunk_pool, families, n_families, family_size, start_row, end_row, config, progress,
        progress_ctx
    }
    region_stats_t {
        struct_size, reserved, seq, durable_seq, memstore_bytes, memstore_heap_bytes, wal_bytes, wal_syncs, flushes, compactions, reads, writes,
        increments, checks_passed, checks_failed, stalled_writes, stalled_us, row_lock_waits, clock_waits, folded, tick_advances,
        tick_lead_max_ns, open_scanners, open_snapshots, oldest_snapshot_seq, oldest_snapshot_age_us, pinned_values, pinned_bytes, memstore_limit,
        memstore_sealed_bytes, wal_segments, unlogged_bytes, health, nonce_entries, nonce_bytes, nonce_bytes_max, nonce_hits, nonce_expired, nonce_refused,
        read_points, old_versions, old_version_bytes, counter_copies, counter_copy_bytes, held_copies, held_copy_bytes, row_lock_waiting,
        oldest_commit_us, oldest_call_us
    }
    region_inc_col_t { family, flags, qual, delta }
    region_op_result_t { status, flags, value }
    region_mutation_t { op, flags, family, ttl_ms, row, qual, value, delta, timestamp }
    region_column_t { family, kind, qual, qual_end }
    region_scan_t {
        struct_size, flags, start_row, end_row, row_prefix, columns, n_columns, column_size, row_limit, cell_limit, max_versions, cells_per_row
    }
    region_cell_t { row, qual, value, timestamp, seq, family, r#type, flags }
    chunk_pool_options_t { struct_size, flags, chunk_size, max_bytes, preallocate_bytes }
    chunk_pool_stats_t { struct_size, reserved, chunk_size, max_chunks, pooled, in_use, created, reused, discarded, oversize, high_water }
    region_log_record_t { struct_size, level, line, reserved, unix_ns, target, message, file }
}

/// 64-bit FNV-1a over the text "name size\n" and "field offset size\n" of each struct, sorted by name.
pub(crate) fn hash() -> String {
    let mut text = String::new();
    let mut structs = STRUCTS.to_vec();
    structs.sort_unstable();
    for (name, size, fields) in structs {
        text += &format!("{name} {size}\n");
        for (field, offset, size) in fields {
            text += &format!("{} {offset} {size}\n", field.trim_start_matches("r#"));
        }
    }
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}
