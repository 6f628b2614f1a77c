"""The structs and callbacks of region.h for ctypes.

Rendered from include/region.h by generate.py; never edited.
"""

from __future__ import annotations

from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_int32, c_int64, c_size_t, c_uint16, c_uint32,
                    c_uint64, c_void_p)
from typing import Any


class region_value_t(Structure):
    buf: Any
    cap: int
    data: Any
    len: int
    timestamp: int
    seq: int
    pin: int
    reserved: int
    _fields_ = [
        ("buf", c_void_p), ("cap", c_size_t), ("data", c_void_p), ("len", c_size_t), ("timestamp", c_uint64),
        ("seq", c_uint64), ("pin", c_uint64), ("reserved", c_uint64),
    ]


class region_slice_t(Structure):
    data: Any
    len: int
    _fields_ = [("data", c_void_p), ("len", c_size_t)]


class region_family_t(Structure):
    name: region_slice_t
    max_versions: int
    min_versions: int
    ttl_ms: int
    bloom: int
    compression: int
    block_size: int
    flags: int
    _fields_ = [
        ("name", region_slice_t), ("max_versions", c_uint32), ("min_versions", c_uint32), ("ttl_ms", c_uint64),
        ("bloom", c_uint32), ("compression", c_uint32), ("block_size", c_uint32), ("flags", c_uint32),
    ]


class region_progress_t(Structure):
    struct_size: int
    phase: int
    done: int
    total: int
    _fields_ = [("struct_size", c_uint32), ("phase", c_uint32), ("done", c_uint64), ("total", c_uint64)]


region_progress_cb = CFUNCTYPE(c_int32, c_void_p, POINTER(region_progress_t))


class region_options_t(Structure):
    struct_size: int
    flags: int
    durability: int
    background_threads: int
    clock_unit: int
    tick_policy: int
    wal_io: int
    sync_interval_ms: int
    write_timeout_us: int
    memstore_limit: int
    flush_bytes: int
    block_cache_bytes: int
    wal_bytes_max: int
    chunk_pool: Any
    families: Any
    n_families: int
    family_size: int
    start_row: region_slice_t
    end_row: region_slice_t
    config: Any
    progress: Any
    progress_ctx: Any
    _fields_ = [
        ("struct_size", c_uint32), ("flags", c_uint32), ("durability", c_uint32), ("background_threads", c_uint32),
        ("clock_unit", c_uint32), ("tick_policy", c_uint32), ("wal_io", c_uint32), ("sync_interval_ms", c_uint32),
        ("write_timeout_us", c_uint64), ("memstore_limit", c_uint64), ("flush_bytes", c_uint64),
        ("block_cache_bytes", c_uint64), ("wal_bytes_max", c_uint64), ("chunk_pool", c_void_p),
        ("families", POINTER(region_family_t)), ("n_families", c_size_t), ("family_size", c_size_t),
        ("start_row", region_slice_t), ("end_row", region_slice_t), ("config", c_char_p),
        ("progress", region_progress_cb), ("progress_ctx", c_void_p),
    ]


class region_error_t(Structure):
    struct_size: int
    status: int
    os_errno: int
    flags: int
    op_index: int
    commit_seq: int
    msg_len: int
    reserved: int
    reserved2: Any
    msg: Any
    _fields_ = [
        ("struct_size", c_uint32), ("status", c_int32), ("os_errno", c_int32), ("flags", c_uint32),
        ("op_index", c_uint64), ("commit_seq", c_uint64), ("msg_len", c_uint32), ("reserved", c_uint32),
        ("reserved2", c_uint64 * 2), ("msg", c_char * 256),
    ]


class region_stats_t(Structure):
    struct_size: int
    reserved: int
    seq: int
    durable_seq: int
    memstore_bytes: int
    memstore_heap_bytes: int
    wal_bytes: int
    wal_syncs: int
    flushes: int
    compactions: int
    reads: int
    writes: int
    increments: int
    checks_passed: int
    checks_failed: int
    stalled_writes: int
    stalled_us: int
    row_lock_waits: int
    clock_waits: int
    folded: int
    tick_advances: int
    tick_lead_max_ns: int
    open_scanners: int
    open_snapshots: int
    oldest_snapshot_seq: int
    oldest_snapshot_age_us: int
    pinned_values: int
    pinned_bytes: int
    memstore_limit: int
    memstore_sealed_bytes: int
    wal_segments: int
    unlogged_bytes: int
    health: int
    nonce_entries: int
    nonce_bytes: int
    nonce_bytes_max: int
    nonce_hits: int
    nonce_expired: int
    nonce_refused: int
    read_points: int
    old_versions: int
    old_version_bytes: int
    counter_copies: int
    counter_copy_bytes: int
    held_copies: int
    held_copy_bytes: int
    row_lock_waiting: int
    oldest_commit_us: int
    oldest_call_us: int
    _fields_ = [
        ("struct_size", c_uint32), ("reserved", c_uint32), ("seq", c_uint64), ("durable_seq", c_uint64),
        ("memstore_bytes", c_uint64), ("memstore_heap_bytes", c_uint64), ("wal_bytes", c_uint64),
        ("wal_syncs", c_uint64), ("flushes", c_uint64), ("compactions", c_uint64), ("reads", c_uint64),
        ("writes", c_uint64), ("increments", c_uint64), ("checks_passed", c_uint64), ("checks_failed", c_uint64),
        ("stalled_writes", c_uint64), ("stalled_us", c_uint64), ("row_lock_waits", c_uint64),
        ("clock_waits", c_uint64), ("folded", c_uint64), ("tick_advances", c_uint64), ("tick_lead_max_ns", c_uint64),
        ("open_scanners", c_uint64), ("open_snapshots", c_uint64), ("oldest_snapshot_seq", c_uint64),
        ("oldest_snapshot_age_us", c_uint64), ("pinned_values", c_uint64), ("pinned_bytes", c_uint64),
        ("memstore_limit", c_uint64), ("memstore_sealed_bytes", c_uint64), ("wal_segments", c_uint64),
        ("unlogged_bytes", c_uint64), ("health", c_uint64), ("nonce_entries", c_uint64), ("nonce_bytes", c_uint64),
        ("nonce_bytes_max", c_uint64), ("nonce_hits", c_uint64), ("nonce_expired", c_uint64),
        ("nonce_refused", c_uint64), ("read_points", c_uint64), ("old_versions", c_uint64),
        ("old_version_bytes", c_uint64), ("counter_copies", c_uint64), ("counter_copy_bytes", c_uint64),
        ("held_copies", c_uint64), ("held_copy_bytes", c_uint64), ("row_lock_waiting", c_uint64),
        ("oldest_commit_us", c_uint64), ("oldest_call_us", c_uint64),
    ]


class region_commit_info_t(Structure):
    struct_size: int
    flags: int
    seq: int
    timestamp: int
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("seq", c_uint64), ("timestamp", c_uint64)]


class region_write_options_t(Structure):
    struct_size: int
    flags: int
    durability: int
    reserved: int
    timeout_us: int
    timestamp: int
    nonce_group: int
    nonce: int
    min_value: int
    max_value: int
    info: Any
    _fields_ = [
        ("struct_size", c_uint32), ("flags", c_uint32), ("durability", c_uint32), ("reserved", c_uint32),
        ("timeout_us", c_uint64), ("timestamp", c_uint64), ("nonce_group", c_uint64), ("nonce", c_uint64),
        ("min_value", c_int64), ("max_value", c_int64), ("info", POINTER(region_commit_info_t)),
    ]


class region_inc_col_t(Structure):
    family: int
    flags: int
    qual: region_slice_t
    delta: int
    _fields_ = [("family", c_uint32), ("flags", c_uint32), ("qual", region_slice_t), ("delta", c_int64)]


class region_op_result_t(Structure):
    status: int
    flags: int
    value: int
    _fields_ = [("status", c_int32), ("flags", c_uint32), ("value", c_int64)]


class region_mutation_t(Structure):
    op: int
    flags: int
    family: int
    ttl_ms: int
    row: region_slice_t
    qual: region_slice_t
    value: region_slice_t
    delta: int
    timestamp: int
    _fields_ = [
        ("op", c_uint32), ("flags", c_uint32), ("family", c_uint32), ("ttl_ms", c_uint32), ("row", region_slice_t),
        ("qual", region_slice_t), ("value", region_slice_t), ("delta", c_int64), ("timestamp", c_uint64),
    ]


class region_read_options_t(Structure):
    struct_size: int
    flags: int
    snapshot: Any
    min_ts: int
    max_ts: int
    timeout_us: int
    _fields_ = [
        ("struct_size", c_uint32), ("flags", c_uint32), ("snapshot", c_void_p), ("min_ts", c_uint64),
        ("max_ts", c_uint64), ("timeout_us", c_uint64),
    ]


class region_column_t(Structure):
    family: int
    kind: int
    qual: region_slice_t
    qual_end: region_slice_t
    _fields_ = [("family", c_uint32), ("kind", c_uint32), ("qual", region_slice_t), ("qual_end", region_slice_t)]


class region_scan_t(Structure):
    struct_size: int
    flags: int
    start_row: region_slice_t
    end_row: region_slice_t
    row_prefix: region_slice_t
    columns: Any
    n_columns: int
    column_size: int
    row_limit: int
    cell_limit: int
    max_versions: int
    cells_per_row: int
    _fields_ = [
        ("struct_size", c_uint32), ("flags", c_uint32), ("start_row", region_slice_t), ("end_row", region_slice_t),
        ("row_prefix", region_slice_t), ("columns", POINTER(region_column_t)), ("n_columns", c_size_t),
        ("column_size", c_size_t), ("row_limit", c_uint64), ("cell_limit", c_uint64), ("max_versions", c_uint32),
        ("cells_per_row", c_uint32),
    ]


class region_cell_t(Structure):
    row: region_slice_t
    qual: region_slice_t
    value: region_slice_t
    timestamp: int
    seq: int
    family: int
    type: int
    flags: int
    _fields_ = [
        ("row", region_slice_t), ("qual", region_slice_t), ("value", region_slice_t), ("timestamp", c_uint64),
        ("seq", c_uint64), ("family", c_uint32), ("type", c_uint16), ("flags", c_uint16),
    ]


class chunk_pool_options_t(Structure):
    struct_size: int
    flags: int
    chunk_size: int
    max_bytes: int
    preallocate_bytes: int
    _fields_ = [
        ("struct_size", c_uint32), ("flags", c_uint32), ("chunk_size", c_uint64), ("max_bytes", c_uint64),
        ("preallocate_bytes", c_uint64),
    ]


class chunk_pool_stats_t(Structure):
    struct_size: int
    reserved: int
    chunk_size: int
    max_chunks: int
    pooled: int
    in_use: int
    created: int
    reused: int
    discarded: int
    oversize: int
    high_water: int
    _fields_ = [
        ("struct_size", c_uint32), ("reserved", c_uint32), ("chunk_size", c_uint64), ("max_chunks", c_uint64),
        ("pooled", c_uint64), ("in_use", c_uint64), ("created", c_uint64), ("reused", c_uint64),
        ("discarded", c_uint64), ("oversize", c_uint64), ("high_water", c_uint64),
    ]


class region_log_record_t(Structure):
    struct_size: int
    level: int
    line: int
    reserved: int
    unix_ns: int
    target: region_slice_t
    message: region_slice_t
    file: region_slice_t
    _fields_ = [
        ("struct_size", c_uint32), ("level", c_uint32), ("line", c_uint32), ("reserved", c_uint32),
        ("unix_ns", c_uint64), ("target", region_slice_t), ("message", region_slice_t), ("file", region_slice_t),
    ]


region_log_cb = CFUNCTYPE(None, c_void_p, POINTER(region_log_record_t))
