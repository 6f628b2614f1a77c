/*
 * region.h: libregion, an HBase region as an embedded library. A durable wide-column store whose first-class operation is the counter.
 * Rendered from src/ffi, never edited. Part of the library: MIT OR Apache-2.0.
 *
 * Conventions
 *
 *  1. Status. Calls return region_status: 0 is REGION_OK; above 0 an outcome in which everything asked was done or deliberately not done (not found,
 *     done, a condition not met, a buffer too short); below 0 an error. Partial success is an error, so `rc < 0` finds every lost write.
 *  2. Errors. The last parameter may be NULL, or points to a region_error_t of the caller: nothing to free. Set its struct_size once. It is written only
 *     when the call does not return 0 (above 0: status and op_index only), and one struct serves any number of calls, one after another.
 *  3. Repeating. With REGION_ERR_RETRYABLE in err->flags the same call may be made again and cannot count twice.
 *  4. Unknown outcome. REGION_E_OUTCOME_UNKNOWN: the change is in the log and may or may not survive. Never repeat it without a nonce
 *     (region_write_options_t.nonce); region_wait_durable(r, err->commit_seq, ...) goes on waiting.
 *  5. Bytes are pointer and length, within structs a region_slice_t. NULL is fine where the length is 0. Keys and values may hold any bytes.
 *  6. Sized structs begin with struct_size = sizeof; arrays come with the size of their elements. Zeros mean the default, so begin with a zeroed struct
 *     (struct region_options_t o = {0}; o.struct_size = sizeof o). A shorter struct is an older caller's, a longer one must have a zero tail. Unknown bits, unknown
 *     numbers and reserved fields that are not 0 are REGION_E_UNSUPPORTED, and the message names the field.
 *  7. 0 of every option is its default: as stored where the region exists, the documented default where it is created.
 *  8. Timeouts are microseconds: REGION_TIMEOUT_DEFAULT (0, the region's write_timeout_us), REGION_NO_WAIT (1), REGION_WAIT_FOREVER.
 *  9. Handles (region_t, region_snapshot_t, region_scanner_t, chunk_pool_t) are checked: NULL, foreign and stale pointers are REGION_E_HANDLE, closed ones
 *     REGION_E_CLOSED. A closed handle stays recognisable until thousands of others have been closed after it.
 * 10. Close functions take NULL, and a handle that is closed. A child keeps its parent's memory: children may be closed after their region.
 * 11. Ownership shows in the type: `const T *` is borrowed for the call; through `T **` you get what you must close; a region_value_t must be released
 *     if its pin is not 0. A call that fails, for whatever reason (its handle included), leaves no output as it was: pointers are NULL, numbers and
 *     structs 0, texts empty, statuses of elements REGION_E_NOT_RUN.
 * 12. Threads. All functions may be called from any thread at any time, but a scanner is used by one thread at a time.
 * 13. A bug in the library that is caught (REGION_E_PANIC) poisons the region: writes are refused until it is opened again.
 * 14. Fork. In a child of a process that had used the library every call returns REGION_E_FORKED; close functions do nothing. Fork before the
 *     first call, or exec.
 * 15. What is not built yet (flush and compaction, checkpoints, export, metrics) either has no function here or answers
 *     REGION_E_UNSUPPORTED; nothing is accepted and then ignored, but for options that only say how much of it there may be (flush_bytes,
 *     block_cache_bytes, background_threads, and a family's bloom, compression and block_size, which are stored).
 * 16. Every function names the statuses it returns. Any function that takes an err may also return REGION_E_INTERNAL.
 */


#ifndef LIBREGION_REGION_H
#define LIBREGION_REGION_H

#include <stddef.h>
#include <stdint.h>

#if !defined(UINTPTR_MAX) || UINTPTR_MAX != 0xffffffffffffffff
#error "libregion needs 64-bit pointers"
#endif

#ifndef REGION_MUST_CHECK /* define it empty to silence */
#if defined(__cplusplus) && __cplusplus >= 201703L
#define REGION_MUST_CHECK [[nodiscard]]
#elif defined(__GNUC__)
#define REGION_MUST_CHECK __attribute__((warn_unused_result))
#else
#define REGION_MUST_CHECK
#endif
#endif

/* Version of this header: major<<24 | minor<<16 | patch<<8. region_version() tells that of the library. */
#define REGION_VERSION ((uint32_t)0x00010000)
#define REGION_VERSION_STRING "0.1.0"
/* What region_abi_check takes. */
#define REGION_ABI_VERSION ((uint32_t)0)
#define REGION_LAYOUT_HASH "1e86dbd6025b39be"

/* Microseconds, wherever a timeout is asked for. */
#define REGION_TIMEOUT_DEFAULT ((uint64_t)0)
#define REGION_NO_WAIT ((uint64_t)1)
#define REGION_WAIT_FOREVER UINT64_MAX

/* region_family_t.ttl_ms: never. */
#define REGION_TTL_NONE UINT64_MAX


/** Bytes of a message with its NUL. */
#define REGION_ERROR_MSG_MAX 256

/** The values of region_status. Names and numbers never change. */
enum {
  /** Done. */
  REGION_OK = 0,
  /** There is no such value or name. */
  REGION_NOT_FOUND = 1,
  /** The end of an enumeration or scan. */
  REGION_DONE = 2,
  /** A check or bound was not met: the call, of a batch its group of operations (with REGION_W_ATOMIC the whole batch), changed nothing. */
  REGION_NOT_APPLIED = 3,
  /** The buffer is too short; the size needed is told. */
  REGION_TRUNCATED = 4,
  /** An argument is wrong; the message names it. */
  REGION_E_INVALID = -1,
  /** Not a handle, a stale one, or one of another kind. */
  REGION_E_HANDLE = -2,
  /** Closed, or being closed. */
  REGION_E_CLOSED = -3,
  /** Memory or log space stayed full for the whole timeout, or nothing that could free some is running, or children are open. Nothing was done. */
  REGION_E_BUSY = -4,
  /** The timeout passed before the call took effect. Nothing was done. */
  REGION_E_TIMEOUT = -5,
  /** The progress callback asked to stop. */
  REGION_E_CANCELLED = -6,
  /** The operating system reported an error, see os_errno. */
  REGION_E_IO = -7,
  /** The disk is full. Nothing was done, the region stays usable. */
  REGION_E_NOSPACE = -8,
  /** Stored bytes are damaged; the message names file and offset. */
  REGION_E_CORRUPT = -9,
  /** Unknown flag, enum value or field, or a verb that this version does not have. */
  REGION_E_UNSUPPORTED = -10,
  /** No such column family. */
  REGION_E_NO_FAMILY = -11,
  /** The stored value is not 8 bytes long, so it is no counter. Nothing was changed. */
  REGION_E_NOT_COUNTER = -12,
  /** The sum does not fit and REGION_W_CHECK_OVERFLOW was set. Nothing was changed. */
  REGION_E_OVERFLOW = -13,
  /** The row is outside the region's key range. */
  REGION_E_RANGE = -14,
  /** Another process or handle has the region open; the message names it. */
  REGION_E_LOCKED = -15,
  /** The region was opened read-only. */
  REGION_E_READONLY = -16,
  /** No memory. */
  REGION_E_NOMEM = -17,
  /** Beyond a limit; the message names it. */
  REGION_E_TOO_LARGE = -18,
  /** Header and library disagree. */
  REGION_E_ABI = -19,
  /** The process forked: a child cannot use its parent's regions. */
  REGION_E_FORKED = -20,
  /** A log write or sync failed, or a bug was caught; writes are refused until the region is opened again. */
  REGION_E_POISONED = -21,
  /** A bug in the library was caught; the region is poisoned. */
  REGION_E_PANIC = -22,
  /** A state that should not occur. */
  REGION_E_INTERNAL = -23,
  /** Batch: some groups were applied, some failed, see results[]. */
  REGION_E_PARTIAL = -24,
  /** In the log, may or may not survive; see commit_seq. Never repeat such a call without a nonce. */
  REGION_E_OUTCOME_UNKNOWN = -25,
  /** Batch element that was not run, since another element failed. */
  REGION_E_NOT_RUN = -26,
  /** Something exists that must not. */
  REGION_E_EXISTS = -27,
  /** There is no region, and REGION_OPEN_CREATE was not set. */
  REGION_E_NO_REGION = -28
};

/** Bits of region_error_t.flags. */
enum {
  /** The same call may be made again and cannot count twice. */
  REGION_ERR_RETRYABLE = 1,
  /** The region is poisoned. */
  REGION_ERR_POISONED = 2,
  /** The message did not fit. */
  REGION_ERR_TRUNCATED_MSG = 4
};

/** Values of durability. 0 is the region's own. */
enum {
  /** The region's default; for a region: as stored, REGION_DUR_SYNC_WAL when it is created. */
  REGION_DUR_DEFAULT = 0,
  /** Not in the log: lost unless flushed. */
  REGION_DUR_SKIP_WAL = 1,
  /** In the kernel at return. */
  REGION_DUR_ASYNC_WAL = 2,
  /** In the kernel at return: survives the death of the process, and of the machine after the background sync. */
  REGION_DUR_SYNC_WAL = 3,
  /** On stable storage at return. */
  REGION_DUR_FSYNC_WAL = 4
};

/** Bits of region_write_options_t.flags. */
enum {
  /** Batch: all rows or none. Calls on one row, which are so anyway, take it too. */
  REGION_W_ATOMIC = 1,
  /** Increments: refuse instead of wrapping. */
  REGION_W_CHECK_OVERFLOW = 2,
  /** Increments: min_value <= result <= max_value, else REGION_NOT_APPLIED, nothing changed, value = current. */
  REGION_W_BOUNDED = 4,
  /** With BOUNDED (else REGION_E_INVALID): clamp instead of refusing. */
  REGION_W_SATURATE = 8,
  /** Increments: store delta instead of adding it. */
  REGION_W_SET = 16,
  /** Increments: value = before, not after (absent = 0). */
  REGION_W_RETURN_OLD = 32
};

/** Bits of region_commit_info_t.flags. */
enum {
  /** Already as durable as asked: nothing to wait for (also: nothing was written). */
  REGION_COMMIT_DURABLE = 1,
  /** Nothing new was written: what the call did was answered from the nonce's first run. */
  REGION_COMMIT_DUPLICATE = 2
};

/** Bits of region_read_options_t.flags. */
enum {
  /** Blocks read for this call do not enter the cache. */
  REGION_READ_NO_CACHE = 1
};

/** Bits of region_options_t.flags. */
enum {
  /** Create the region, and listed families, where they do not exist. */
  REGION_OPEN_CREATE = 1,
  /** With CREATE: REGION_E_EXISTS if there is a region. */
  REGION_OPEN_ERROR_IF_EXISTS = 2,
  /** No writes; several readers may share the region, REGION_E_LOCKED while a writer has it. */
  REGION_OPEN_READ_ONLY = 4
};

/** Bits of the flags of region_close. */
enum {
  /** Open snapshots and scanners do not keep it open: they answer REGION_E_CLOSED from then on. */
  REGION_CLOSE_FORCE = 1,
  /** Do not flush commits of REGION_DUR_SKIP_WAL. This version flushes nothing: they are lost either way. */
  REGION_CLOSE_NO_FLUSH = 2
};

/** Unit of timestamps; fixed when the region is created. */
enum {
  /** As stored; nanoseconds when created. */
  REGION_CLOCK_DEFAULT = 0,
  /** Nanoseconds. */
  REGION_CLOCK_NS = 1,
  /** Microseconds. */
  REGION_CLOCK_US = 2,
  /** Milliseconds, as HBase. */
  REGION_CLOCK_MS = 3
};

/** What a second commit of a row within one unit of the clock does. */
enum {
  /** As stored; ADVANCE when created. */
  REGION_TICK_DEFAULT = 0,
  /** Takes the next tick, within a bounded lead over the clock. */
  REGION_TICK_ADVANCE = 1,
  /**
   * Waits for the clock. With ticks of microseconds or milliseconds a row may also wait that was not written within the tick, where more than
   * two rows of its lock bucket were (config key lock_buckets): of rows that left the bucket only the latest tick is known.
   */
  REGION_TICK_WAIT = 2
};

/** How the log is written. */
enum {
  /** Mapped where that is safe (ext4, XFS, tmpfs), else WRITE. */
  REGION_WAL_DEFAULT = 0,
  /** Mapped, or the region does not open. */
  REGION_WAL_MAPPED = 1,
  /** One write per record. */
  REGION_WAL_WRITE = 2
};

/** What a store file's Bloom filter is over. */
enum {
  /** As stored; ROW when created. */
  REGION_BLOOM_DEFAULT = 0,
  /** None. */
  REGION_BLOOM_NONE = 1,
  /** Rows. */
  REGION_BLOOM_ROW = 2,
  /** Rows with qualifiers. */
  REGION_BLOOM_ROWCOL = 3
};

/** How store files are compressed. */
enum {
  /** As stored; NONE when created. */
  REGION_COMPRESSION_DEFAULT = 0,
  /** Not. */
  REGION_COMPRESSION_NONE = 1,
  /** zlib. */
  REGION_COMPRESSION_GZ = 2,
  /** Snappy. */
  REGION_COMPRESSION_SNAPPY = 3,
  /** LZ4. */
  REGION_COMPRESSION_LZ4 = 4,
  /** Zstandard. */
  REGION_COMPRESSION_ZSTD = 5
};

/** Bits of region_family_t.flags. */
enum {
  /** Deleted cells stay readable in the past until they fall to versions or age. */
  REGION_FAMILY_KEEP_DELETED = 1,
  /** The same, until the delete marker has expired. */
  REGION_FAMILY_KEEP_DELETED_TTL = 2
};

/** What a long call is doing. */
enum {
  /** Replaying the log, in region_open. */
  REGION_PHASE_RECOVERY = 1,
  /** Writing memory to files. */
  REGION_PHASE_FLUSH = 2,
  /** Merging files. */
  REGION_PHASE_COMPACT = 3,
  /** Linking or copying files. */
  REGION_PHASE_CHECKPOINT = 4,
  /** Writing files for HBase. */
  REGION_PHASE_EXPORT = 5,
  /** Taking a file in. */
  REGION_PHASE_INGEST = 6
};

/** Bits of region_op_result_t.flags. */
enum {
  /** This element may be tried again and cannot count twice. */
  REGION_RESULT_RETRYABLE = 1,
  /** Answered from the nonce's first run. */
  REGION_RESULT_DUPLICATE = 2
};

/** Values of region_mutation_t.op. */
enum {
  /** Store a value. */
  REGION_OP_PUT = 1,
  /** All versions of the column. */
  REGION_OP_DELETE = 2,
  /** One version of the column: the one with this timestamp, the newest if it is 0. */
  REGION_OP_DELETE_VERSION = 3,
  /** All columns of the family in this row. */
  REGION_OP_DELETE_FAMILY = 4,
  /** All families of this row. */
  REGION_OP_DELETE_ROW = 5,
  /** Add bytes to the end of the value. */
  REGION_OP_APPEND = 6,
  /** Add delta to the counter. */
  REGION_OP_INCREMENT = 7,
  /** All versions with this timestamp in the family. */
  REGION_OP_DELETE_FAMILY_VERSION = 8,
  /** A condition on its group (with REGION_W_ATOMIC: on the call). */
  REGION_OP_CHECK = 9
};

/** region_mutation_t.flags of REGION_OP_CHECK: one comparison, and REGION_CHECK_I64 or not. */
enum {
  /** stored == value. Bytes compare unsigned. */
  REGION_CHECK_EQ = 1,
  /** stored != value */
  REGION_CHECK_NE = 2,
  /** stored < value */
  REGION_CHECK_LT = 3,
  /** stored <= value */
  REGION_CHECK_LE = 4,
  /** stored > value */
  REGION_CHECK_GT = 5,
  /** stored >= value */
  REGION_CHECK_GE = 6,
  /** There is a value. */
  REGION_CHECK_EXISTS = 7,
  /** There is none. */
  REGION_CHECK_ABSENT = 8,
  /** Added to the above: compare the counter with delta, signed. */
  REGION_CHECK_I64 = 256
};

/** Values of region_column_t.kind. */
enum {
  /** All columns of the family. */
  REGION_COL_FAMILY = 0,
  /** The column qual. */
  REGION_COL_EXACT = 1,
  /** Columns that begin with qual. */
  REGION_COL_PREFIX = 2,
  /** Columns from qual to before qual_end (empty = no bound). */
  REGION_COL_RANGE = 3
};

/** Bits of region_scan_t.flags. */
enum {
  /** From the last row to the first: start_row is the largest then, end_row the smallest. The cells of a row come as ever. */
  REGION_SCAN_REVERSE = 1,
  /** end_row itself too. */
  REGION_SCAN_INCLUSIVE_END = 2,
  /** Not start_row itself. */
  REGION_SCAN_EXCLUSIVE_START = 4,
  /**
   * Everything that is stored: all delete markers, and up to max_versions values of each column, deleted ones too. Markers of
   * a family come first in it, with an empty qualifier. Not together with columns.
   */
  REGION_SCAN_RAW = 8,
  /** Without values. */
  REGION_SCAN_KEYS_ONLY = 16,
  /** Pages end at the end of a row only. */
  REGION_SCAN_WHOLE_ROWS = 32
};

/** Values of region_cell_t.type: HBase's type codes. */
enum {
  /** A value. */
  REGION_CELL_PUT = 4,
  /** Marker: the version with exactly this timestamp. */
  REGION_CELL_DELETE_VERSION = 8,
  /** Marker: the versions with exactly this timestamp in the family. */
  REGION_CELL_DELETE_FAMILY_VERSION = 10,
  /** Marker: the column up to this timestamp. */
  REGION_CELL_DELETE = 12,
  /** Marker: the family up to this timestamp. */
  REGION_CELL_DELETE_FAMILY = 14
};

/** Bits of region_cell_t.flags and of cell records. */
enum {
  /** The first cell of its row; in a page also the first record: a record has a row if and only if it has this flag. */
  REGION_CELL_NEW_ROW = 1,
  /** The last cell of its row. */
  REGION_CELL_ROW_END = 2,
  /** The value was not asked for. */
  REGION_CELL_NO_VALUE = 4,
  /** region_get_packed: there is no such value. */
  REGION_CELL_NOT_FOUND = 8
};

/** Values of region_log_record_t.level and of max_level. */
enum {
  /** Of max_level: REGION_LOG_INFO. */
  REGION_LOG_DEFAULT = 0,
  /** Something failed. */
  REGION_LOG_ERROR = 1,
  /** Something needs attention. */
  REGION_LOG_WARN = 2,
  /** Opened, recovered, closed. */
  REGION_LOG_INFO = 3,
  /** For finding faults. */
  REGION_LOG_DEBUG = 4,
  /** Everything. */
  REGION_LOG_TRACE = 5
};

/** A chunk pool. Opaque. */
typedef struct chunk_pool_t chunk_pool_t;

/** A scanner. Opaque. */
typedef struct region_scanner_t region_scanner_t;

/** A snapshot. Opaque. */
typedef struct region_snapshot_t region_snapshot_t;

/** A region. Opaque. */
typedef struct region_t region_t;

/**
 * What a call returns: 0 ok; above 0 an outcome in which everything asked was done or deliberately not done; below 0 an
 * error. Partial success is an error, so `rc < 0` finds every lost write.
 */
typedef int32_t region_status;

/**
 * A value to be filled or pinned. Set buf and cap before the call: a value of at most cap bytes is copied there; a longer
 * one is pinned: data points to the library's memory, which stays as it is until region_value_release, whatever is written
 * meanwhile and also after region_close. cap 0 pins every value. This struct never grows.
 */
typedef struct region_value_t {
  /** In: the caller's buffer; may be NULL when cap is 0. */
  void *buf;
  /** In: its length. */
  size_t cap;
  /** Out: the value; equals buf when it was copied. NULL when there is none. */
  const void *data;
  /** Out: its length. */
  size_t len;
  /** Out: timestamp of the version. */
  uint64_t timestamp;
  /** Out: its commit. */
  uint64_t seq;
  /** Out: 0 = nothing to release. */
  uint64_t pin;
  /** Out: 0. */
  uint64_t reserved;
} region_value_t;

/** Bytes, laid out as struct iovec. data may be NULL only when len is 0. Input slices are borrowed for the call. This struct never grows. */
typedef struct region_slice_t {
  /** First byte. */
  const void *data;
  /** Bytes. */
  size_t len;
} region_slice_t;

/** A column family. Zeros: as stored, or the default when it is created. */
typedef struct region_family_t {
  /** 1 to 127 bytes, no control character, none of / : \, no dot in front. Out: valid until region_close. */
  struct region_slice_t name;
  /** Versions kept of each column; default 1. */
  uint32_t max_versions;
  /** Versions that ttl_ms leaves; default 0. */
  uint32_t min_versions;
  /** Milliseconds until a cell expires; default REGION_TTL_NONE. */
  uint64_t ttl_ms;
  /** REGION_BLOOM_* */
  uint32_t bloom;
  /** REGION_COMPRESSION_* */
  uint32_t compression;
  /** Bytes of a store file's block; default 65536. */
  uint32_t block_size;
  /** REGION_FAMILY_* */
  uint32_t flags;
} region_family_t;

/** How far a long call is. */
typedef struct region_progress_t {
  /** sizeof(region_progress_t) of the library. */
  uint32_t struct_size;
  /** REGION_PHASE_* */
  uint32_t phase;
  /** Bytes done. */
  uint64_t done;
  /** Bytes in all; 0 = not known yet. */
  uint64_t total;
} region_progress_t;

/**
 * Tells how far a call is; not 0 cancels it. Runs on the calling thread only, at least every 100 ms; may call anything but
 * region_close on the region in question. p is valid during the callback.
 */
typedef int32_t (*region_progress_cb)(void *ctx, const struct region_progress_t *p);

/**
 * How a region is opened. NULL, or zeros behind struct_size, mean: as stored where the region exists, the default where it is created.
 * Another value than the stored one is stored in its place; only clock unit and key range stay: REGION_E_INVALID, naming both.
 */
typedef struct region_options_t {
  /** sizeof(region_options_t) */
  uint32_t struct_size;
  /** REGION_OPEN_* */
  uint32_t flags;
  /** REGION_DUR_* of writes that name none. */
  uint32_t durability;
  /** Threads for flush and compaction; default 1. */
  uint32_t background_threads;
  /** REGION_CLOCK_*; REGION_E_INVALID if it differs from what is stored. */
  uint32_t clock_unit;
  /** REGION_TICK_* */
  uint32_t tick_policy;
  /** REGION_WAL_* */
  uint32_t wal_io;
  /** Milliseconds between background syncs; default 1000. */
  uint32_t sync_interval_ms;
  /** Microseconds that a call waits which names no timeout; default 10 s. */
  uint64_t write_timeout_us;
  /** Bytes of memstore memory, hard; default 1 GiB. */
  uint64_t memstore_limit;
  /** Bytes of memstore at which a flush starts; default 128 MiB. */
  uint64_t flush_bytes;
  /** Bytes of block cache; default 256 MiB. */
  uint64_t block_cache_bytes;
  /** Bytes of log at which writes wait; default 8 GiB. */
  uint64_t wal_bytes_max;
  /** NULL = the process's default pool; the library takes its own reference. */
  struct chunk_pool_t *chunk_pool;
  /** Families to create, or whose settings to change. */
  const struct region_family_t *families;
  /** Elements of families. */
  size_t n_families;
  /** sizeof(region_family_t) */
  size_t family_size;
  /** First row; empty = unbounded. Fixed when the region is created. */
  struct region_slice_t start_row;
  /** First row beyond; empty = unbounded. */
  struct region_slice_t end_row;
  /** "key=value,..." for the long tail, see region_describe; NULL ok. */
  const char *config;
  /** Called while the log is replayed; NULL ok. */
  region_progress_cb progress;
  /** Passed to progress. */
  void *progress_ctx;
} region_options_t;

/**
 * What went wrong. Owned by the caller: nothing to free. Set struct_size once (REGION_ERROR_INIT, region_error_init); one
 * struct may be used for any number of calls, one after another. Written only when a call does not return 0 (above 0:
 * status and op_index only).
 */
typedef struct region_error_t {
  /** In: sizeof(region_error_t). The rest is output. */
  uint32_t struct_size;
  /** The value that the call returned. */
  int32_t status;
  /** errno, 0 unless the operating system reported an error. */
  int32_t os_errno;
  /** REGION_ERR_* */
  uint32_t flags;
  /** Batch and array arguments: first failing element, or first whose check or bound was not met; else UINT64_MAX. */
  uint64_t op_index;
  /** REGION_E_OUTCOME_UNKNOWN: what to pass to region_wait_durable, else 0. */
  uint64_t commit_seq;
  /** Length of msg without NUL. */
  uint32_t msg_len;
  /** 0 */
  uint32_t reserved;
  /** 0 */
  uint64_t reserved2[2];
  /** What happened, where, and what to try. UTF-8, always NUL-terminated. What is too long loses the middle of its longest words (paths), then its end. */
  char msg[REGION_ERROR_MSG_MAX];
} region_error_t;

/** Numbers about a region, counted since it was opened. Each is right for itself; they are not read at one instant. */
typedef struct region_stats_t {
  /** In: sizeof(region_stats_t). */
  uint32_t struct_size;
  /** 0 */
  uint32_t reserved;
  /** Last commit number given. Numbers are not dense: an open skips some. */
  uint64_t seq;
  /** Every commit up to this one is on stable storage. */
  uint64_t durable_seq;
  /** Bytes that rows, columns, cells and index use in memory. */
  uint64_t memstore_bytes;
  /** Bytes of memory taken for them: what memstore_limit bounds. */
  uint64_t memstore_heap_bytes;
  /** Bytes of the log's files, prepared ones too. */
  uint64_t wal_bytes;
  /** Syncs of the log. */
  uint64_t wal_syncs;
  /** Flushes; 0 in this version. */
  uint64_t flushes;
  /** Compactions; 0 in this version. */
  uint64_t compactions;
  /** Values looked up (each key of a packed call is one, also if there is no value), and cells that scanners gave out. */
  uint64_t reads;
  /**
   * Operations applied by region_put, region_delete and region_batch_mutate(_packed), increments and checks among them. As increments: each counts
   * once however often it had to be tried; what failed, was not applied or has an unknown outcome does not count.
   */
  uint64_t writes;
  /** Counters incremented by region_increment, region_increment_row and region_increment_packed; reading ones (delta 0) too. */
  uint64_t increments;
  /**
   * REGION_OP_CHECKs that were met, each once however often its call had to be tried. Of an atomic call, or of a group, none behind the element
   * that kept it from being applied.
   */
  uint64_t checks_passed;
  /** Those that were not. */
  uint64_t checks_failed;
  /** Times that a write waited for memory or log space, or was refused for want of them; counted when the wait begins. */
  uint64_t stalled_writes;
  /** Microseconds of these waits, each counted at its end. */
  uint64_t stalled_us;
  /** Times that a row lock had to be waited for. */
  uint64_t row_lock_waits;
  /** Times that a commit waited for the clock's next tick. */
  uint64_t clock_waits;
  /** Increments that went with another one's commit; 0 in this version. */
  uint64_t folded;
  /** Commits that took a tick ahead of the clock. */
  uint64_t tick_advances;
  /** Furthest that a tick was ahead, in nanoseconds. */
  uint64_t tick_lead_max_ns;
  /** Scanners open now. */
  uint64_t open_scanners;
  /** Snapshots open now, without those that scanners took for themselves. */
  uint64_t open_snapshots;
  /** Read point of the oldest, be it a scanner's; 0 if there is none. */
  uint64_t oldest_snapshot_seq;
  /** Its age in microseconds. */
  uint64_t oldest_snapshot_age_us;
  /** Values pinned now. */
  uint64_t pinned_values;
  /** Their bytes. */
  uint64_t pinned_bytes;
  /** The limit of memstore memory. */
  uint64_t memstore_limit;
  /** Part of memstore_bytes that takes no more commits and waits for a flush. */
  uint64_t memstore_sealed_bytes;
  /** Log files that are in use, needed for recovery or prepared. */
  uint64_t wal_segments;
  /** Bytes of REGION_DUR_SKIP_WAL commits: lost with the process. */
  uint64_t unlogged_bytes;
  /** 0 healthy, 1 poisoned, 2 closing. */
  uint64_t health;
  /**
   * What calls with a nonce are remembered by, one for each group of operations: the entries of the table, those included that are older than
   * nonce_window_s and not yet freed (by calls with a nonce, and about every second).
   */
  uint64_t nonce_entries;
  /** Their bytes. */
  uint64_t nonce_bytes;
  /** Bytes that new ones may come up to: nonce_bytes_max. More may have been there when the region was opened with a smaller one. */
  uint64_t nonce_bytes_max;
  /** Groups of operations that were answered from their entries. */
  uint64_t nonce_hits;
  /** Entries freed for their age. */
  uint64_t nonce_expired;
  /** Calls with a nonce that were refused since the table was full (REGION_E_BUSY, or REGION_E_TOO_LARGE alone above nonce_bytes_max). */
  uint64_t nonce_refused;
  /** Different instants that snapshots and scanners hold now: for each, memory is kept for what it sees. */
  uint64_t read_points;
  /**
   * Cells in memory behind the newest of their column: replaced values, delete markers, and copies of counters. What a put or delete wrote stays until a flush,
   * which this version does not have, whether or not a snapshot is open.
   */
  uint64_t old_versions;
  /** Their bytes, a part of memstore_bytes. */
  uint64_t old_version_bytes;
  /**
   * Part of old_versions that increments made: a counter's older versions, copied for a read point, for several versions of the family, or beside a commit
   * that waits for its sync. This never falls, but it stops growing: once nobody needs what a copy holds, the counter's next one is written over it.
   */
  uint64_t counter_copies;
  /** Their bytes. */
  uint64_t counter_copy_bytes;
  /**
   * Counter copies that open snapshots and scanners may need: those made since the oldest was opened, at most counter_copies. A version that still lies in one of
   * the counter's own two places is no copy and costs nothing: a counter has one only from the second increment after a snapshot on. An upper bound (exact
   * while no newer one was closed before an older one); 0 once none is open, and then all copies of families of one version are free to be written again.
   */
  uint64_t held_copies;
  /** Their bytes. */
  uint64_t held_copy_bytes;
  /** Calls that wait for a row lock now. */
  uint64_t row_lock_waiting;
  /**
   * Microseconds for which a commit has been between its append to the log and its end, which takes a few: a thread that hangs there keeps its row locked,
   * and snapshots and scanners from opening. Looked at about every second, so this is a lower bound; 0: none was met.
   */
  uint64_t oldest_commit_us;
  /** The same for a call that reads, or writes and has not come to the log yet (a scan between two calls is none). 0 for a region open read-only. */
  uint64_t oldest_call_us;
} region_stats_t;

/** What a write tells besides its value: its highest commit. */
typedef struct region_commit_info_t {
  /** In: sizeof(region_commit_info_t). */
  uint32_t struct_size;
  /** Out: REGION_COMMIT_* */
  uint32_t flags;
  /** Out: for region_wait_durable; 0 = nothing to wait for (nothing written, or SKIP_WAL). */
  uint64_t seq;
  /**
   * Out: the commit's tick by the region's clock: the timestamp of its cells that were given none, 0 if nothing was written. A put or delete with
   * a timestamp of its own has that one, and what is added to a value that lies later gets one above it.
   */
  uint64_t timestamp;
} region_commit_info_t;

/** How one write is done. NULL, or zeros behind struct_size, mean the defaults. */
typedef struct region_write_options_t {
  /** sizeof(region_write_options_t) */
  uint32_t struct_size;
  /** REGION_W_* */
  uint32_t flags;
  /** REGION_DUR_* */
  uint32_t durability;
  /** 0 */
  uint32_t reserved;
  /** Microseconds for row locks, memory, log space and sync together. */
  uint64_t timeout_us;
  /** 0 = the region's clock; at most 2^62. */
  uint64_t timestamp;
  /** Whose nonces these are: of one group they must differ from call to call. 0 unless there is a nonce. */
  uint64_t nonce_group;
  /**
   * Makes a repeated call count once; 0 = none. The same call (same operations, flags and bounds; durability and timeout may differ)
   * with the same nonce may be made again after any error, by any thread, also after the region was closed or killed and opened
   * again: what was applied is answered as the first time (REGION_COMMIT_DUPLICATE, REGION_RESULT_DUPLICATE; value, seq and timestamp
   * of the first time), the rest is run. What changed nothing (a bound, a check, an error, delta 0 on an existing counter) is run
   * again. The identity of a group of operations is its row, nonce_group, nonce, and how many groups of the row stand before it in
   * the call. REGION_E_INVALID: with REGION_DUR_SKIP_WAL; a nonce that was used for a different operation (kind, family, qualifier,
   * value, delta, timestamp, condition, flags or bounds differ; with REGION_W_ATOMIC anything in the call): nothing of the
   * group (of an atomic call: of the call) was changed.
   *
   * Remembered for nonce_window_s seconds (config, 600), in memory and in the log; what an earlier process did counts its age by the
   * wall clock. While nonce_bytes_max (config, 64 MiB, some 170 bytes for a group) is full, calls with a nonce wait, then
   * REGION_E_BUSY: nothing younger than the window is forgotten to make room, also where the region was opened with a smaller
   * nonce_bytes_max than before. With a nonce REGION_E_OUTCOME_UNKNOWN and REGION_E_PARTIAL have REGION_ERR_RETRYABLE.
   */
  uint64_t nonce;
  /** Least result, with REGION_W_BOUNDED. */
  int64_t min_value;
  /** Greatest result, with REGION_W_BOUNDED. */
  int64_t max_value;
  /** Out, may be NULL: the highest commit of the call. */
  struct region_commit_info_t *info;
} region_write_options_t;

/** One column of region_increment_row. */
typedef struct region_inc_col_t {
  /** Family id. */
  uint32_t family;
  /** 0 */
  uint32_t flags;
  /** Qualifier. */
  struct region_slice_t qual;
  /** What to add. */
  int64_t delta;
} region_inc_col_t;

/** How one element of a batch ended. */
typedef struct region_op_result_t {
  /** As a call returns it: REGION_OK, REGION_NOT_APPLIED, REGION_E_*. */
  int32_t status;
  /** REGION_RESULT_* */
  uint32_t flags;
  /** Of increments and checks: the counter. Of appends: the length of the new value. */
  int64_t value;
} region_op_result_t;

/** One element of a batch. */
typedef struct region_mutation_t {
  /** REGION_OP_* */
  uint32_t op;
  /** CHECK: REGION_CHECK_*; else 0. */
  uint32_t flags;
  /** Family id; 0 for DELETE_ROW. */
  uint32_t family;
  /** 0 */
  uint32_t ttl_ms;
  /** Row. */
  struct region_slice_t row;
  /** Qualifier; empty for DELETE_FAMILY, DELETE_FAMILY_VERSION and DELETE_ROW. */
  struct region_slice_t qual;
  /** PUT, APPEND: bytes. CHECK that compares bytes: what is expected. Else empty. */
  struct region_slice_t value;
  /** INCREMENT: what to add. CHECK with I64 that compares: what is expected. Else 0. */
  int64_t delta;
  /** 0 = assigned. */
  uint64_t timestamp;
} region_mutation_t;

/** How one read is done. NULL, or zeros behind struct_size, mean the defaults. */
typedef struct region_read_options_t {
  /** sizeof(region_read_options_t) */
  uint32_t struct_size;
  /** REGION_READ_* */
  uint32_t flags;
  /** NULL = newest. */
  const struct region_snapshot_t *snapshot;
  /** Least timestamp. */
  uint64_t min_ts;
  /** First timestamp beyond; 0 = no bound. */
  uint64_t max_ts;
  /** Microseconds. */
  uint64_t timeout_us;
} region_read_options_t;

/** Which columns a read shows. */
typedef struct region_column_t {
  /** Family id. */
  uint32_t family;
  /** REGION_COL_* */
  uint32_t kind;
  /** Qualifier; empty for REGION_COL_FAMILY. */
  struct region_slice_t qual;
  /** REGION_COL_RANGE: first qualifier beyond. Else empty. */
  struct region_slice_t qual_end;
} region_column_t;

/** What a scan covers. Zeros behind struct_size: everything. */
typedef struct region_scan_t {
  /** sizeof(region_scan_t) */
  uint32_t struct_size;
  /** REGION_SCAN_* */
  uint32_t flags;
  /** First row, or the first behind it (REVERSE: before it); empty = unbounded. */
  struct region_slice_t start_row;
  /** First row beyond; empty = unbounded. */
  struct region_slice_t end_row;
  /** Only rows that begin so. */
  struct region_slice_t row_prefix;
  /** Only these columns; none = all. */
  const struct region_column_t *columns;
  /** Elements of columns. */
  size_t n_columns;
  /** sizeof(region_column_t) */
  size_t column_size;
  /** Rows; 0 = no limit. */
  uint64_t row_limit;
  /** Cells; 0 = no limit. */
  uint64_t cell_limit;
  /** Versions of each column, at most what its family keeps; 0 = 1. The best, that is the one with the largest timestamp, first. */
  uint32_t max_versions;
  /** Cells of each row; 0 = no limit. */
  uint32_t cells_per_row;
} region_scan_t;

/** One cell of a scan. */
typedef struct region_cell_t {
  /** Row. */
  struct region_slice_t row;
  /** Qualifier. */
  struct region_slice_t qual;
  /** Value. */
  struct region_slice_t value;
  /** In the region's clock unit. */
  uint64_t timestamp;
  /** Commit. */
  uint64_t seq;
  /** Family id. */
  uint32_t family;
  /** REGION_CELL_PUT, REGION_CELL_DELETE, ... */
  uint16_t type;
  /** REGION_CELL_NEW_ROW, ... */
  uint16_t flags;
} region_cell_t;

/** How a chunk pool is made. NULL, or zeros behind struct_size, mean the defaults. */
typedef struct chunk_pool_options_t {
  /** sizeof(chunk_pool_options_t) */
  uint32_t struct_size;
  /** 0 */
  uint32_t flags;
  /** Bytes of a chunk, a power of two of at least 4096; default 2 MiB. */
  uint64_t chunk_size;
  /** Most bytes that the pool ever takes; default half of the machine's memory, at least 64 MiB, at most 16 GiB. */
  uint64_t max_bytes;
  /** Bytes to take at once. */
  uint64_t preallocate_bytes;
} chunk_pool_options_t;

/** What a chunk pool has. At a quiet moment created = pooled + in_use + discarded. */
typedef struct chunk_pool_stats_t {
  /** In: sizeof(chunk_pool_stats_t). */
  uint32_t struct_size;
  /** 0 */
  uint32_t reserved;
  /** Bytes of a chunk. */
  uint64_t chunk_size;
  /** Most chunks. */
  uint64_t max_chunks;
  /** Chunks that wait for a user. */
  uint64_t pooled;
  /** Chunks in use. */
  uint64_t in_use;
  /** Chunks made so far. */
  uint64_t created;
  /** Chunks handed out that had been used before. */
  uint64_t reused;
  /** Chunks given back to the system. */
  uint64_t discarded;
  /** Buffers for cells too large for a chunk, in use now; in no other number. */
  uint64_t oversize;
  /** Largest in_use so far. */
  uint64_t high_water;
} chunk_pool_stats_t;

/** One message of the library. Valid during the callback. */
typedef struct region_log_record_t {
  /** sizeof(region_log_record_t) of the library. */
  uint32_t struct_size;
  /** REGION_LOG_* */
  uint32_t level;
  /** Line of the library's source, 0 if not known. */
  uint32_t line;
  /** 0 */
  uint32_t reserved;
  /** Nanoseconds since the Unix epoch. */
  uint64_t unix_ns;
  /** Part of the library. UTF-8, not NUL-terminated; so are the others. */
  struct region_slice_t target;
  /** The text. */
  struct region_slice_t message;
  /** File of the library's source. */
  struct region_slice_t file;
} region_log_record_t;

/**
 * Takes a message. Runs on a thread of the library that does nothing else, one message at a time, under no lock: it may call
 * the library.
 */
typedef void (*region_log_cb)(void *ctx, const struct region_log_record_t *rec);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The name of a status, as in "REGION_E_TIMEOUT"; "REGION_E_?" for a number that is none. The text is static. Threads:
 * any. Never fails, also after fork.
 */
const char *region_status_name(region_status s);

/**
 * Gives a pinned value back. NULL, an empty struct, a second release, or a struct whose value was copied: nothing happens.
 * Sets data, len and pin to 0 if it was pinned. Threads: any, also after region_close. In a forked child it does nothing.
 */
void region_value_release(struct region_value_t *val);

/**
 * Opens the region in directory path, and creates it with REGION_OPEN_CREATE. *out: close it with region_close; NULL on
 * failure. Blocks while the log is replayed (opts->progress tells how far, and can cancel). Everything is borrowed for the
 * call. Threads: any.
 * REGION_E_INVALID (an option out of bounds or other than stored; the message names it), E_UNSUPPORTED, E_NO_REGION,
 * E_EXISTS, E_LOCKED (the message names the holder), E_CORRUPT (file and offset), E_CANCELLED, E_IO, E_NOSPACE, E_NOMEM,
 * E_TOO_LARGE (the log does not fit memstore_limit), E_HANDLE (chunk_pool), E_FORKED.
 */
REGION_MUST_CHECK
region_status region_open(const char *path,
                          const struct region_options_t *opts,
                          struct region_t **out,
                          struct region_error_t *err);

/**
 * Closes a region. NULL, a region that is closed, and a forked child: nothing happens, REGION_OK. flags: REGION_CLOSE_*.
 * REGION_E_BUSY (snapshots, scanners or pinned values are open; the message says how many) and REGION_E_TIMEOUT (calls are still
 * running): it is open as before. Every other return, error or not: it is closed, the directory is unlocked, and the
 * handle answers REGION_E_CLOSED. Commits of SKIP_WAL are lost: this version has no flush. Waits at most timeout_us for
 * running calls; calls that wait in the region return REGION_E_CLOSED. Two threads may close: the second waits for the
 * first. Threads: any.
 * REGION_E_INVALID, E_UNSUPPORTED (flags), E_HANDLE, E_BUSY, E_TIMEOUT, E_IO, E_NOSPACE, E_POISONED, E_PANIC.
 */
region_status region_close(struct region_t *r, uint32_t flags, uint64_t timeout_us, struct region_error_t *err);

/**
 * Removes the region in directory path, with its files. It must not be open anywhere. Threads: any.
 * REGION_E_INVALID, E_NO_REGION, E_LOCKED, E_IO, E_FORKED.
 */
region_status region_destroy(const char *path, struct region_error_t *err);

/**
 * The id of a family: what every other call takes. Ids are stored and never used again. *id: 0 if there is none. Threads:
 * any.
 * REGION_NOT_FOUND, REGION_E_INVALID, E_HANDLE, E_CLOSED, E_FORKED.
 */
region_status region_family_id(struct region_t *r, const void *name, size_t name_len, uint32_t *id, struct region_error_t *err);

/**
 * Creates a family, or changes the settings that are not 0 (so deleted cells that are kept, and min_versions, cannot be set back to none). *id, may be NULL: its id, durable at return; 0 on failure.
 * Changed settings hold for what is written from then on. Stricter ones (fewer versions, a shorter life, deleted cells not kept) also take
 * out at once what is there; looser ones bring nothing back: what had fallen out, expired or was deleted under the old ones is gone,
 * whether or not it is still in memory, and also for snapshots. A scan that is open goes on by the settings it began with. Changed
 * again and again they are E_TOO_LARGE after 1,000 changes.
 * Threads: any. On an error nothing was changed, but for REGION_E_OUTCOME_UNKNOWN: the disk failed twice, and which settings hold the next open
 * will tell. Waits for calls that began earlier.
 * REGION_E_INVALID, E_UNSUPPORTED, E_TOO_LARGE, E_READONLY, E_POISONED, E_IO, E_NOSPACE, E_OUTCOME_UNKNOWN, E_HANDLE, E_CLOSED, E_FORKED.
 */
region_status region_family_set(struct region_t *r,
                                const struct region_family_t *f,
                                size_t family_size,
                                uint32_t *id,
                                struct region_error_t *err);

/**
 * Drops a family with all its cells, at once and for snapshots, too: reads of it are REGION_E_NO_FAMILY and new scans pass it over. A scanner that is open
 * may go on to show its cells. Threads: any. On an error nothing was changed, but for REGION_E_OUTCOME_UNKNOWN: the disk failed
 * twice; its id stays refused, and whether it is gone the next open will tell.
 * REGION_E_NO_FAMILY, E_READONLY, E_POISONED, E_IO, E_NOSPACE, E_OUTCOME_UNKNOWN, E_HANDLE, E_CLOSED, E_FORKED.
 */
region_status region_family_drop(struct region_t *r,
                                 uint32_t id,
                                 struct region_error_t *err);

/**
 * The family with the smallest id above after_id: begin with 0. *id and *out: its id and settings, either may be NULL;
 * out->name is valid until region_close. REGION_DONE at the end, with *id = 0. Threads: any. REGION_E_INVALID, E_HANDLE,
 * E_CLOSED, E_FORKED.
 */
region_status region_family_next(struct region_t *r,
                                 uint32_t after_id,
                                 uint32_t *id,
                                 struct region_family_t *out,
                                 size_t family_size,
                                 struct region_error_t *err);

/**
 * Everything that is set, as JSON: keys with types, defaults and values, and the families. json gets at most cap bytes
 * with NUL; *len (may be NULL) the whole length without NUL; on an error the text is empty and *len 0. json may be NULL when
 * cap is 0. Threads: any.
 * REGION_TRUNCATED, REGION_E_INVALID, E_HANDLE, E_CLOSED, E_FORKED.
 */
region_status region_describe(struct region_t *r, char *json, size_t cap, size_t *len, struct region_error_t *err);

/**
 * What the last recovery found, as JSON; buffer as in region_describe. Threads: any. REGION_TRUNCATED, REGION_E_INVALID,
 * E_HANDLE, E_CLOSED, E_FORKED.
 */
region_status region_recovery_report(struct region_t *r, char *json, size_t cap, size_t *len, struct region_error_t *err);

/** Numbers about a region. Threads: any; takes no lock that a write holds. REGION_E_INVALID, E_HANDLE, E_CLOSED, E_FORKED. */
region_status region_stats(struct region_t *r, struct region_stats_t *out, struct region_error_t *err);

/**
 * Adds delta to a counter, atomically. An absent counter is 0; a value that is not 8 bytes is REGION_E_NOT_COUNTER; the
 * sum wraps unless REGION_W_CHECK_OVERFLOW. Delta 0 reads an existing counter and creates an absent one. *value, may be
 * NULL: the counter after it (before it with REGION_W_RETURN_OLD); 0 on failure. Pointers are borrowed for the call.
 * Threads: any; waits for another write of this row only. On an error nothing was changed, REGION_E_OUTCOME_UNKNOWN
 * excepted.
 * REGION_NOT_APPLIED (a bound; *value = current), REGION_E_INVALID, E_UNSUPPORTED, E_NO_FAMILY, E_NOT_COUNTER, E_OVERFLOW,
 * E_RANGE, E_TOO_LARGE, E_BUSY, E_TIMEOUT, E_OUTCOME_UNKNOWN, E_NOSPACE, E_IO, E_READONLY, E_POISONED, E_PANIC, E_HANDLE,
 * E_CLOSED, E_FORKED.
 */
REGION_MUST_CHECK
region_status region_increment(struct region_t *r,
                               const void *row,
                               size_t row_len,
                               uint32_t family,
                               const void *qual,
                               size_t qual_len,
                               int64_t delta,
                               const struct region_write_options_t *opts,
                               int64_t *value,
                               struct region_error_t *err);

/**
 * Adds to several counters of one row, all of them or none, in one commit. Values in input order: values has n elements,
 * or is NULL; 0 on an error. A bound that one column does not meet refuses the whole call (REGION_NOT_APPLIED).
 * err->op_index: the column that failed or whose bound was not met. Else as region_increment. Threads: any.
 */
REGION_MUST_CHECK
region_status region_increment_row(struct region_t *r,
                                   const void *row,
                                   size_t row_len,
                                   const struct region_inc_col_t *cols,
                                   size_t n,
                                   size_t col_size,
                                   const struct region_write_options_t *opts,
                                   int64_t *values,
                                   struct region_error_t *err);

/**
 * Stores a value. Pointers are borrowed for the call. Threads: any. Returns as region_increment, but for NOT_APPLIED,
 * NOT_COUNTER and OVERFLOW.
 */
REGION_MUST_CHECK
region_status region_put(struct region_t *r,
                         const void *row,
                         size_t row_len,
                         uint32_t family,
                         const void *qual,
                         size_t qual_len,
                         const void *value,
                         size_t value_len,
                         const struct region_write_options_t *opts,
                         struct region_error_t *err);

/**
 * Deletes. op: REGION_OP_DELETE (0 = the same: all versions of the column), DELETE_VERSION, DELETE_FAMILY,
 * DELETE_FAMILY_VERSION or DELETE_ROW. What an op does not take is 0 or empty: qual of the last three, family of DELETE_ROW.
 * It hides what was written before it and is not newer than its timestamp (opts->timestamp, else the commit's), never
 * what is written after it. Pointers are borrowed for the call. Threads: any.
 * Returns as region_put.
 */
REGION_MUST_CHECK
region_status region_delete(struct region_t *r,
                            const void *row,
                            size_t row_len,
                            uint32_t family,
                            const void *qual,
                            size_t qual_len,
                            uint32_t op,
                            const struct region_write_options_t *opts,
                            struct region_error_t *err);

/**
 * Adds bytes to the end of a value; an absent one is empty. *new_value, may be NULL: the whole new value, as region_get
 * fills it. With a nonce the value is kept for a retry, and counts against nonce_bytes_max; a retry that wants it where the first call
 * did not is REGION_E_INVALID. Threads: any. Returns as region_put.
 */
REGION_MUST_CHECK
region_status region_append(struct region_t *r,
                            const void *row,
                            size_t row_len,
                            uint32_t family,
                            const void *qual,
                            size_t qual_len,
                            const void *suffix,
                            size_t suffix_len,
                            const struct region_write_options_t *opts,
                            struct region_value_t *new_value,
                            struct region_error_t *err);

/**
 * Waits until a commit, and with it every earlier one, is on stable storage. commit_seq: from region_commit_info_t, or
 * err->commit_seq of REGION_E_OUTCOME_UNKNOWN. Threads: any. REGION_E_INVALID (0, or a number that was not given),
 * E_TIMEOUT (wait again), E_POISONED (it may be lost), E_HANDLE, E_CLOSED, E_FORKED.
 */
REGION_MUST_CHECK
region_status region_wait_durable(struct region_t *r,
                                  uint64_t commit_seq,
                                  uint64_t timeout_us,
                                  struct region_error_t *err);

/**
 * Many increments of any rows in one call: n packed records (region_pack.h) that fill incs_len bytes. Results in input
 * order: results has n elements of result_size bytes, or is NULL. Returns and results as region_batch_mutate; consecutive
 * records of one row form a group. Else as region_increment. Threads: any.
 */
REGION_MUST_CHECK
region_status region_increment_packed(struct region_t *r,
                                      const void *incs,
                                      size_t incs_len,
                                      size_t n,
                                      const struct region_write_options_t *opts,
                                      struct region_op_result_t *results,
                                      size_t result_size,
                                      struct region_error_t *err);

/**
 * Many changes in one call. Consecutive elements of the same row form a group: one atomic change of the row, in the order
 * given. Rows are independent unless REGION_W_ATOMIC. results: n elements of result_size bytes, or NULL; in a failed group
 * the failing element has the reason, the others REGION_E_NOT_RUN. Whatever is returned, they are written (as
 * REGION_E_NOT_RUN until more is known), unless n, op_size or result_size cannot be. Pointers are borrowed for the call. Threads: any.
 * An element that is malformed makes the whole call fail, and nothing is applied: an unknown op or flag, a reserved field or
 * one that the op does not take that is not 0 or empty, NULL with a length, a packed record that does not fit its buffer.
 * What depends on the region makes its group fail, with REGION_W_ATOMIC the call: a row key that is empty, too long or
 * outside the key range, an unknown family, a timestamp above 2^62, given where none can be (increments, appends, checks) or missing
 * where one must be (REGION_OP_DELETE_FAMILY_VERSION), a value that is too large or no counter, an overflow, a row that stays locked,
 * an op that this version does not have (REGION_E_UNSUPPORTED).
 * REGION_OK: every element applied. REGION_NOT_APPLIED: none failed, at least one check or bound was not met, its group
 * changed nothing. REGION_E_PARTIAL: some groups applied, some failed. Any other error: nothing of the call was applied,
 * REGION_E_OUTCOME_UNKNOWN excepted. err->op_index: the first element that failed, else the first whose check or bound was
 * not met. With REGION_W_ATOMIC the first element, in the order of the call, that failed or was not met decides. Else as
 * region_increment.
 */
REGION_MUST_CHECK
region_status region_batch_mutate(struct region_t *r,
                                  const struct region_mutation_t *ops,
                                  size_t n,
                                  size_t op_size,
                                  const struct region_write_options_t *opts,
                                  struct region_op_result_t *results,
                                  size_t result_size,
                                  struct region_error_t *err);

/** region_batch_mutate with n packed records (region_pack.h) that fill ops_len bytes. Threads: any. */
REGION_MUST_CHECK
region_status region_batch_mutate_packed(struct region_t *r,
                                         const void *ops,
                                         size_t ops_len,
                                         size_t n,
                                         const struct region_write_options_t *opts,
                                         struct region_op_result_t *results,
                                         size_t result_size,
                                         struct region_error_t *err);

/**
 * Reads the newest value of a column (of opts->snapshot: the one it shows). val: as described at region_value_t; release
 * it if val->pin is not 0. Unlike a pointer into a page it stays as it is whatever is written. An absent value:
 * REGION_NOT_FOUND, val->data NULL. Threads: any; waits for no write.
 * REGION_NOT_FOUND, REGION_E_INVALID, E_UNSUPPORTED, E_NO_FAMILY, E_RANGE, E_IO, E_CORRUPT, E_TIMEOUT, E_NOMEM, E_PANIC,
 * E_HANDLE, E_CLOSED, E_FORKED.
 */
REGION_MUST_CHECK
region_status region_get(struct region_t *r,
                         const struct region_read_options_t *opts,
                         const void *row,
                         size_t row_len,
                         uint32_t family,
                         const void *qual,
                         size_t qual_len,
                         struct region_value_t *val,
                         struct region_error_t *err);

/**
 * Reads a counter as a number. *value, may be NULL: the counter; 0 with REGION_NOT_FOUND and on failure. *timestamp, may
 * be NULL: of its newest change. Threads: any; waits for no write. REGION_E_NOT_COUNTER, and as region_get.
 */
REGION_MUST_CHECK
region_status region_counter_get(struct region_t *r,
                                 const struct region_read_options_t *opts,
                                 const void *row,
                                 size_t row_len,
                                 uint32_t family,
                                 const void *qual,
                                 size_t qual_len,
                                 int64_t *value,
                                 uint64_t *timestamp,
                                 struct region_error_t *err);

/**
 * Reads many counters: n packed key records (region_pack.h) that fill keys_len bytes. values: n numbers, 0 where there is
 * none. statuses: n, or NULL: REGION_OK, REGION_NOT_FOUND, or the error of that key. A key that fails makes the call fail
 * with the first such error and its op_index; the other values are still filled in. Without a snapshot each row is read as
 * region_counter_get does; with one, all at one instant. Threads: any. Returns as region_counter_get, but never
 * REGION_NOT_FOUND.
 */
REGION_MUST_CHECK
region_status region_counter_get_packed(struct region_t *r,
                                        const struct region_read_options_t *opts,
                                        const void *keys,
                                        size_t keys_len,
                                        size_t n,
                                        int64_t *values,
                                        int32_t *statuses,
                                        struct region_error_t *err);

/**
 * Reads many values into a page of cell records (region_pack.h): n packed key records that fill keys_len bytes; records in
 * input order, flag NOT_FOUND for a value that is absent. *used: bytes of page filled; *n_done: keys answered. Fewer than
 * n: the page was full; go on with the keys behind. A first value that does not fit: REGION_TRUNCATED, *n_done 0, *used
 * the bytes it needs. Without a snapshot each row is read as region_get does; with one, all at one instant. Threads: any.
 * Returns as region_get, but never REGION_NOT_FOUND; on an error *used and *n_done are 0.
 */
REGION_MUST_CHECK
region_status region_get_packed(struct region_t *r,
                                const struct region_read_options_t *opts,
                                const void *keys,
                                size_t keys_len,
                                size_t n,
                                void *page,
                                size_t cap,
                                size_t *used,
                                size_t *n_done,
                                struct region_error_t *err);

/**
 * Reads the chosen columns of one row (n_columns 0: all) into a page of cell records (region_pack.h), as region_get does: all
 * at one instant, that of the call or of opts->snapshot. Up to max_versions of each column (0 = 1; at most what its family
 * keeps), the best first. *used: bytes of page filled; *n_cells: records. All or nothing: a page that is too small gets
 * REGION_TRUNCATED, *n_cells 0 and *used the bytes it needs (now: the row may grow before the next call). A row that shows
 * nothing: REGION_NOT_FOUND, both 0. Threads: any; waits for no write. Returns as region_get, and REGION_E_TOO_LARGE.
 */
REGION_MUST_CHECK
region_status region_get_row(struct region_t *r,
                             const struct region_read_options_t *opts,
                             const void *row,
                             size_t row_len,
                             const struct region_column_t *columns,
                             size_t n_columns,
                             size_t column_size,
                             uint32_t max_versions,
                             void *page,
                             size_t cap,
                             size_t *used,
                             size_t *n_cells,
                             struct region_error_t *err);

/**
 * Fixes one instant of the whole region: reads and scans with it see every write that returned before, and no later one.
 * May wait for writes that began before it, and for one sync. *out: close it with region_snapshot_close; NULL on failure.
 * It keeps old versions alive and the region open (REGION_E_BUSY from region_close). Threads: any.
 * REGION_E_INVALID, E_TIMEOUT, E_NOMEM, E_PANIC, E_HANDLE, E_CLOSED, E_FORKED.
 */
REGION_MUST_CHECK
region_status region_snapshot_open(struct region_t *r,
                                   uint64_t timeout_us,
                                   struct region_snapshot_t **out,
                                   struct region_error_t *err);

/** The number of the last commit that a snapshot sees; 0 for what is no open snapshot, and in a forked child. Threads: any. */
uint64_t region_snapshot_seq(const struct region_snapshot_t *s);

/** Closes a snapshot. NULL, closed, a forked child: nothing happens. Reads that run with it finish. Threads: any, also after region_close. */
void region_snapshot_close(struct region_snapshot_t *s);

/**
 * Opens a scan. It sees one instant: opts->snapshot, or that of the call, which then may wait as region_snapshot_open
 * does. scan NULL: everything. *out: close it with region_scanner_close; NULL on failure. Everything is borrowed for the
 * call. Threads: any; the scanner then is used by one thread at a time.
 * REGION_E_INVALID, E_UNSUPPORTED, E_NO_FAMILY, E_TIMEOUT, E_NOMEM, E_PANIC, E_HANDLE, E_CLOSED, E_FORKED.
 */
REGION_MUST_CHECK
region_status region_scanner_open(struct region_t *r,
                                  const struct region_read_options_t *opts,
                                  const struct region_scan_t *scan,
                                  struct region_scanner_t **out,
                                  struct region_error_t *err);

/**
 * The next cell. *cell points into the scanner: valid until its next call of any kind. cell_size: sizeof(region_cell_t).
 * REGION_DONE at the end; damage is an error, never an early end. Threads: one at a time. REGION_DONE, REGION_E_INVALID,
 * E_IO, E_CORRUPT, E_TIMEOUT, E_NOMEM, E_BUSY (another thread is using it), E_PANIC, E_HANDLE, E_CLOSED, E_FORKED.
 */
REGION_MUST_CHECK
region_status region_scanner_next(struct region_scanner_t *s,
                                  struct region_cell_t *cell,
                                  size_t cell_size,
                                  struct region_error_t *err);

/**
 * The next cells as packed records (region_pack.h): as many as fit cap bytes, with REGION_SCAN_WHOLE_ROWS whole rows only.
 * *used: bytes filled; *n_cells: records. A first record (row) that does not fit: REGION_TRUNCATED, *n_cells 0, *used the
 * bytes it needs; call again with a larger page. REGION_DONE, with both 0, at the end. May be mixed with
 * region_scanner_next. Threads: one at a time. Returns as region_scanner_next, and REGION_E_TOO_LARGE.
 */
REGION_MUST_CHECK
region_status region_scanner_next_page(struct region_scanner_t *s,
                                       void *page,
                                       size_t cap,
                                       size_t *used,
                                       size_t *n_cells,
                                       struct region_error_t *err);

/**
 * Goes to the first row at or behind row (REVERSE: at or before), within the scan's bounds. Threads: one at a time.
 * Returns as region_scanner_next.
 */
region_status region_scanner_seek(struct region_scanner_t *s, const void *row, size_t row_len, struct region_error_t *err);

/** Closes a scanner. NULL, closed, a forked child: nothing happens. Threads: any, also after region_close. */
void region_scanner_close(struct region_scanner_t *s);

/**
 * Makes a chunk pool, for region_options_t.chunk_pool. *out: close it with chunk_pool_close; NULL on failure. Threads:
 * any.
 * REGION_E_INVALID, E_UNSUPPORTED, E_NOMEM, E_FORKED.
 */
REGION_MUST_CHECK
region_status chunk_pool_create(const struct chunk_pool_options_t *opts,
                                struct chunk_pool_t **out,
                                struct region_error_t *err);

/**
 * What a pool has; p NULL: the process's default pool. Threads: any; takes no lock. REGION_E_INVALID, E_HANDLE, E_CLOSED,
 * E_NOMEM, E_FORKED.
 */
region_status chunk_pool_stats(const struct chunk_pool_t *p, struct chunk_pool_stats_t *out, struct region_error_t *err);

/**
 * Gives idle chunks back to the system until at most keep_bytes of them are left; p NULL: the process's default pool.
 * Threads: any.
 * REGION_E_HANDLE, E_CLOSED, E_NOMEM, E_FORKED.
 */
region_status chunk_pool_trim(struct chunk_pool_t *p, uint64_t keep_bytes, struct region_error_t *err);

/**
 * Lets go of a pool; its memory goes when the last region that uses it is closed. NULL, closed, a forked child: nothing
 * happens. Threads: any.
 */
void chunk_pool_close(struct chunk_pool_t *p);

/** The library's version as a number: major<<24 | minor<<16 | patch<<8. Compare with REGION_VERSION. Threads: any. Never fails. */
uint32_t region_version(void);

/** The library's version as text, "0.1.0". Static. Threads: any. Never fails. */
const char *region_version_string(void);

/** How the library was built, as JSON: {"version","commit","rustc","target","profile","features"}. Static. Threads: any. Never fails. */
const char *region_build_info(void);

/**
 * Does this library serve programs and bindings made from a header with this REGION_ABI_VERSION and REGION_LAYOUT_HASH?
 * Call it once at start. Threads: any.
 * REGION_OK, REGION_E_ABI (the message names both sides), REGION_E_INVALID, E_FORKED.
 */
region_status region_abi_check(uint32_t abi_version, const char *layout_hash, struct region_error_t *err);

/**
 * Calls cb for every message up to max_level (REGION_LOG_*), on a thread of the library. NULL = no callback; max_level then
 * is that of the ring that region_log_poll reads. ctx is passed on. Returns when the callback that was set before has had
 * every message from before this call, and has returned: its context may be freed then. Within a callback it does not
 * wait; the context then stays in use until that callback returns. Set NULL before the process exits. Threads: any.
 * REGION_E_UNSUPPORTED (max_level), E_NOMEM (no thread), E_FORKED.
 */
region_status region_log_set_callback(region_log_cb cb, void *ctx, uint32_t max_level);

/**
 * Takes messages out of a ring that holds the last 1024 (256 KiB): whole lines of JSON
 * {"unix_ns","level","target","message","file","line"}, as many as fit cap bytes, oldest first, not NUL-terminated. *used:
 * bytes filled, 0 = nothing new. *dropped, may be NULL: messages lost since the last call because the ring was full.
 * Collects at level INFO from the first region_open or call of this on. Threads: any.
 * REGION_TRUNCATED (the first line does not fit; *used = the bytes it needs), REGION_E_INVALID, E_FORKED.
 */
region_status region_log_poll(void *buf, size_t cap, size_t *used, uint64_t *dropped);

/* region_error_t e = REGION_ERROR_INIT; */
#define REGION_ERROR_INIT { sizeof(region_error_t), 0, 0, 0, 0, 0, 0, 0, { 0, 0 }, { 0 } }

/* The same for memory of any other kind. */
static inline void region_error_init(region_error_t *e) {
  e->struct_size = (uint32_t)sizeof *e;
  e->status = 0;
  e->flags = 0;
  e->msg_len = 0;
  e->msg[0] = 0;
}

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LIBREGION_REGION_H */
