/* The engine interface of the comparison: what each store has to offer to be measured, and what the harness offers to the engines.
 *
 * An engine keeps one database in one directory. A thread talks to it through a session of its own. Every call either succeeds or ends
 * the process through die(): a benchmark has no use for half a result. C11, Linux.
 */
#ifndef BENCH_H
#define BENCH_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* All workloads count and store in this one column family; stores without families make it part of the key. */
#define FAMILY "cf"
#define FAMILY_LEN 2

typedef struct {
  const char *data;
  size_t len;
} slice;

typedef struct {
  slice row;
  slice qualifier;
} column;

typedef struct {
  column at;
  int64_t delta;
  int64_t value; /* out: after the increment */
} increment_op;

typedef struct {
  column at;
  slice value;
} put_op;

/* What an acknowledged write survives: the death of the process (the kernel has the bytes), or of the machine (fdatasync is done). */
typedef enum { SURVIVES_PROCESS, SURVIVES_MACHINE } durability_level;

typedef struct {
  const char *dir; /* exists; empty unless an earlier process wrote there */
  durability_level durability;
  size_t memory_mb; /* caches and memtables together */
  bool large_values;
  bool resident; /* all that will be written shall stay in the memtable */
} open_options;

/* Called once per stored cell, in the engine's order. */
typedef void (*visit_fn)(void *arg, const void *value, size_t len);

typedef struct engine {
  const char *name;
  void *(*open)(const struct engine *self, const open_options *options); /* creates or reopens; returns the database */
  void *(*session_begin)(void *db);
  void (*session_end)(void *session);
  int64_t (*increment)(void *session, const column *at, int64_t delta);         /* returns the new value */
  void (*increment_batch)(void *session, increment_op *ops, size_t n);          /* one atomic or group commit; columns are distinct */
  void (*put_batch)(void *session, const put_op *ops, size_t n);                /* one commit; a single put if n is 1 */
  ssize_t (*get)(void *session, const column *at, void *buf, size_t cap);       /* length, or -1 if absent; counters are 8 bytes big-endian */
  uint64_t (*scan)(void *session, visit_fn visit, void *arg);                   /* everything, in key order; returns the number of cells */
  uint64_t (*scan_cells)(void *session, visit_fn visit, void *arg);             /* the same, by the call that gives one cell; NULL: as scan */
  uint64_t (*scan_from)(void *session, slice row, size_t n, visit_fn visit, void *arg); /* at most n cells from row on; may be NULL */
  void (*close)(void *db);
} engine;

extern const engine engine_region, engine_lmdb, engine_rocksdb, engine_rocksdb_unordered, engine_leveldb, engine_sqlite, engine_wiredtiger,
    engine_wiredtiger_locked;

const engine *engine_find(const char *name); /* "lmdb", or "gc+lmdb" for the same behind group.c */
void engine_print_names(void);
const engine *group_wrap(const engine *base);

/* ---- keys and values of stores that know bytes only: row \0 family : qualifier; 8 bytes big-endian ---- */

#define KEY_MAX 128

static inline size_t key_make(char *key, const column *at) {
  char *p = key;
  memcpy(p, at->row.data, at->row.len);
  p += at->row.len;
  *p++ = 0;
  memcpy(p, FAMILY, FAMILY_LEN);
  p += FAMILY_LEN;
  *p++ = ':';
  memcpy(p, at->qualifier.data, at->qualifier.len);
  p += at->qualifier.len;
  return (size_t)(p - key);
}

static inline int64_t counter_load(const void *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return (int64_t)__builtin_bswap64(v);
}

static inline void counter_store(void *p, int64_t value) {
  uint64_t v = __builtin_bswap64((uint64_t)value);
  memcpy(p, &v, 8);
}

/* ---- hashing, and striped locks for the stores that have no atomic read-modify-write ---- */

static inline uint64_t mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

uint64_t hash_bytes(const void *data, size_t len);

#define STRIPES 4096
typedef struct {
  pthread_mutex_t mutex;
  char pad[64 - sizeof(pthread_mutex_t) % 64];
} stripe;

stripe *stripes_new(void);
pthread_mutex_t *stripe_of(stripe *stripes, const char *key, size_t len);
size_t stripes_lock(stripe *stripes, const increment_op *ops, size_t n, uint16_t *ids); /* ids has room for n; returns how many were locked */
void stripes_unlock(stripe *stripes, const uint16_t *ids, size_t n);

void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
