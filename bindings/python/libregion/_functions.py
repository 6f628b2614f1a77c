"""The functions of region.h for ctypes. Without argtypes ctypes would cut pointers to 32 bits.

Rendered from include/region.h by generate.py; never edited.
"""

from __future__ import annotations

from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

from ._structs import (
    region_value_t, region_family_t, region_options_t, region_error_t, region_stats_t, region_write_options_t,
    region_inc_col_t, region_op_result_t, region_mutation_t, region_read_options_t, region_column_t, region_scan_t,
    region_cell_t, chunk_pool_options_t, chunk_pool_stats_t, region_log_cb,
)

# name: (restype, argtypes)
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "chunk_pool_close": (None, [c_void_p]),
    "chunk_pool_create": (c_int32, [POINTER(chunk_pool_options_t), POINTER(c_void_p), POINTER(region_error_t)]),
    "chunk_pool_stats": (c_int32, [c_void_p, POINTER(chunk_pool_stats_t), POINTER(region_error_t)]),
    "chunk_pool_trim": (c_int32, [c_void_p, c_uint64, POINTER(region_error_t)]),
    "region_abi_check": (c_int32, [c_uint32, c_char_p, POINTER(region_error_t)]),
    "region_append": (c_int32, [
        c_void_p, c_void_p, c_size_t, c_uint32, c_void_p, c_size_t, c_void_p, c_size_t,
        POINTER(region_write_options_t), POINTER(region_value_t), POINTER(region_error_t),
    ]),
    "region_batch_mutate": (c_int32, [
        c_void_p, POINTER(region_mutation_t), c_size_t, c_size_t, POINTER(region_write_options_t),
        POINTER(region_op_result_t), c_size_t, POINTER(region_error_t),
    ]),
    "region_batch_mutate_packed": (c_int32, [
        c_void_p, c_void_p, c_size_t, c_size_t, POINTER(region_write_options_t), POINTER(region_op_result_t), c_size_t,
        POINTER(region_error_t),
    ]),
    "region_build_info": (c_char_p, []),
    "region_close": (c_int32, [c_void_p, c_uint32, c_uint64, POINTER(region_error_t)]),
    "region_counter_get": (c_int32, [
        c_void_p, POINTER(region_read_options_t), c_void_p, c_size_t, c_uint32, c_void_p, c_size_t, POINTER(c_int64),
        POINTER(c_uint64), POINTER(region_error_t),
    ]),
    "region_counter_get_packed": (c_int32, [
        c_void_p, POINTER(region_read_options_t), c_void_p, c_size_t, c_size_t, POINTER(c_int64), POINTER(c_int32),
        POINTER(region_error_t),
    ]),
    "region_delete": (c_int32, [
        c_void_p, c_void_p, c_size_t, c_uint32, c_void_p, c_size_t, c_uint32, POINTER(region_write_options_t),
        POINTER(region_error_t),
    ]),
    "region_describe": (c_int32, [c_void_p, c_char_p, c_size_t, POINTER(c_size_t), POINTER(region_error_t)]),
    "region_destroy": (c_int32, [c_char_p, POINTER(region_error_t)]),
    "region_family_drop": (c_int32, [c_void_p, c_uint32, POINTER(region_error_t)]),
    "region_family_id": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(c_uint32), POINTER(region_error_t)]),
    "region_family_next": (c_int32, [
        c_void_p, c_uint32, POINTER(c_uint32), POINTER(region_family_t), c_size_t, POINTER(region_error_t),
    ]),
    "region_family_set": (c_int32, [
        c_void_p, POINTER(region_family_t), c_size_t, POINTER(c_uint32), POINTER(region_error_t),
    ]),
    "region_get": (c_int32, [
        c_void_p, POINTER(region_read_options_t), c_void_p, c_size_t, c_uint32, c_void_p, c_size_t,
        POINTER(region_value_t), POINTER(region_error_t),
    ]),
    "region_get_packed": (c_int32, [
        c_void_p, POINTER(region_read_options_t), c_void_p, c_size_t, c_size_t, c_void_p, c_size_t, POINTER(c_size_t),
        POINTER(c_size_t), POINTER(region_error_t),
    ]),
    "region_get_row": (c_int32, [
        c_void_p, POINTER(region_read_options_t), c_void_p, c_size_t, POINTER(region_column_t), c_size_t, c_size_t,
        c_uint32, c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t), POINTER(region_error_t),
    ]),
    "region_increment": (c_int32, [
        c_void_p, c_void_p, c_size_t, c_uint32, c_void_p, c_size_t, c_int64, POINTER(region_write_options_t),
        POINTER(c_int64), POINTER(region_error_t),
    ]),
    "region_increment_packed": (c_int32, [
        c_void_p, c_void_p, c_size_t, c_size_t, POINTER(region_write_options_t), POINTER(region_op_result_t), c_size_t,
        POINTER(region_error_t),
    ]),
    "region_increment_row": (c_int32, [
        c_void_p, c_void_p, c_size_t, POINTER(region_inc_col_t), c_size_t, c_size_t, POINTER(region_write_options_t),
        POINTER(c_int64), POINTER(region_error_t),
    ]),
    "region_log_poll": (c_int32, [c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_uint64)]),
    "region_log_set_callback": (c_int32, [region_log_cb, c_void_p, c_uint32]),
    "region_open": (c_int32, [c_char_p, POINTER(region_options_t), POINTER(c_void_p), POINTER(region_error_t)]),
    "region_put": (c_int32, [
        c_void_p, c_void_p, c_size_t, c_uint32, c_void_p, c_size_t, c_void_p, c_size_t,
        POINTER(region_write_options_t), POINTER(region_error_t),
    ]),
    "region_recovery_report": (c_int32, [c_void_p, c_char_p, c_size_t, POINTER(c_size_t), POINTER(region_error_t)]),
    "region_scanner_close": (None, [c_void_p]),
    "region_scanner_next": (c_int32, [c_void_p, POINTER(region_cell_t), c_size_t, POINTER(region_error_t)]),
    "region_scanner_next_page": (c_int32, [
        c_void_p, c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t), POINTER(region_error_t),
    ]),
    "region_scanner_open": (c_int32, [
        c_void_p, POINTER(region_read_options_t), POINTER(region_scan_t), POINTER(c_void_p), POINTER(region_error_t),
    ]),
    "region_scanner_seek": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(region_error_t)]),
    "region_snapshot_close": (None, [c_void_p]),
    "region_snapshot_open": (c_int32, [c_void_p, c_uint64, POINTER(c_void_p), POINTER(region_error_t)]),
    "region_snapshot_seq": (c_uint64, [c_void_p]),
    "region_stats": (c_int32, [c_void_p, POINTER(region_stats_t), POINTER(region_error_t)]),
    "region_status_name": (c_char_p, [c_int32]),
    "region_value_release": (None, [POINTER(region_value_t)]),
    "region_version": (c_uint32, []),
    "region_version_string": (c_char_p, []),
    "region_wait_durable": (c_int32, [c_void_p, c_uint64, c_uint64, POINTER(region_error_t)]),
}
