/* RocksDB: a striped mutex around Get + Put.
 *
 * Its merge operator is not an alternative: it does not return the new value. TransactionDB is slower. Pipelined writes, adaptive yield off
 * and a serial memtable were tried: within noise or worse. `rocksdb-rmw-u` sets unordered_write, which is faster here and gives up immutable
 * snapshots; it counts as the best setting all the same.
 */
#include "bench.h"
#include <rocksdb/c.h>
#include <stdio.h>

typedef struct {
  rocksdb_t *handle;
  rocksdb_writeoptions_t *write;
  rocksdb_readoptions_t *read, *scan;
  stripe *stripes;
} database;

typedef struct {
  database *db;
  rocksdb_writebatch_t *batch; /* reused from call to call */
} session;

static void check(const char *error, const char *what) {
  if (error) die("rocksdb %s: %s", what, error);
}

static void *rocks_open(const engine *self, const open_options *options) {
  database *db = calloc(1, sizeof *db);
  char path[4096], *error = NULL;
  size_t cache = options->memory_mb > 1024 ? options->memory_mb - 512 : 512;
  rocksdb_options_t *o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_compression(o, rocksdb_no_compression);
  rocksdb_options_set_write_buffer_size(o, 128 << 20);
  rocksdb_options_set_max_write_buffer_number(o, 4);
  rocksdb_options_set_max_background_jobs(o, 2);
  rocksdb_options_set_max_open_files(o, -1);
  rocksdb_options_set_max_total_wal_size(o, 4ull << 30);
  rocksdb_options_set_unordered_write(o, self == &engine_rocksdb_unordered);
  rocksdb_options_set_level0_slowdown_writes_trigger(o, 40);
  rocksdb_options_set_level0_stop_writes_trigger(o, 60);
  rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(cache << 20));
  rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10));
  rocksdb_options_set_block_based_table_factory(o, table);
  db->write = rocksdb_writeoptions_create();
  rocksdb_writeoptions_set_sync(db->write, options->durability == SURVIVES_MACHINE);
  db->read = rocksdb_readoptions_create();
  db->scan = rocksdb_readoptions_create();
  rocksdb_readoptions_set_readahead_size(db->scan, 2 << 20);
  snprintf(path, sizeof path, "%s/rocksdb", options->dir);
  db->handle = rocksdb_open(o, path, &error);
  check(error, "open");
  db->stripes = stripes_new();
  return db;
}

static void *rocks_session_begin(void *db) {
  session *s = calloc(1, sizeof *s);
  s->db = db;
  s->batch = rocksdb_writebatch_create();
  return s;
}

static void rocks_session_end(void *arg) {
  session *s = arg;
  rocksdb_writebatch_destroy(s->batch);
  free(s);
}

static int64_t counter_read(database *db, const char *key, size_t key_len) {
  char *error = NULL;
  int64_t value = 0;
  rocksdb_pinnableslice_t *pinned = rocksdb_get_pinned(db->handle, db->read, key, key_len, &error);
  check(error, "get");
  if (!pinned) return 0;
  size_t len;
  const char *bytes = rocksdb_pinnableslice_value(pinned, &len);
  if (len == 8) value = counter_load(bytes);
  rocksdb_pinnableslice_destroy(pinned);
  return value;
}

static int64_t rocks_increment(void *arg, const column *at, int64_t delta) {
  database *db = ((session *)arg)->db;
  char key[KEY_MAX], bytes[8], *error = NULL;
  size_t key_len = key_make(key, at);
  pthread_mutex_t *mutex = stripe_of(db->stripes, key, key_len);
  pthread_mutex_lock(mutex);
  int64_t value = counter_read(db, key, key_len) + delta;
  counter_store(bytes, value);
  rocksdb_put(db->handle, db->write, key, key_len, bytes, 8, &error);
  pthread_mutex_unlock(mutex);
  check(error, "put");
  return value;
}

static void rocks_increment_batch(void *arg, increment_op *ops, size_t n) {
  session *s = arg;
  database *db = s->db;
  char *error = NULL;
  uint16_t ids[n];
  rocksdb_writebatch_clear(s->batch);
  size_t locked = stripes_lock(db->stripes, ops, n, ids);
  for (size_t i = 0; i < n; i++) {
    char key[KEY_MAX], bytes[8];
    size_t key_len = key_make(key, &ops[i].at);
    ops[i].value = counter_read(db, key, key_len) + ops[i].delta;
    counter_store(bytes, ops[i].value);
    rocksdb_writebatch_put(s->batch, key, key_len, bytes, 8);
  }
  rocksdb_write(db->handle, db->write, s->batch, &error);
  stripes_unlock(db->stripes, ids, locked);
  check(error, "write");
}

static void rocks_put_batch(void *arg, const put_op *ops, size_t n) {
  session *s = arg;
  char key[KEY_MAX], *error = NULL;
  if (n == 1) {
    size_t key_len = key_make(key, &ops[0].at);
    rocksdb_put(s->db->handle, s->db->write, key, key_len, ops[0].value.data, ops[0].value.len, &error);
    check(error, "put");
    return;
  }
  rocksdb_writebatch_clear(s->batch);
  for (size_t i = 0; i < n; i++) {
    size_t key_len = key_make(key, &ops[i].at);
    rocksdb_writebatch_put(s->batch, key, key_len, ops[i].value.data, ops[i].value.len);
  }
  rocksdb_write(s->db->handle, s->db->write, s->batch, &error);
  check(error, "write");
}

static ssize_t rocks_get(void *arg, const column *at, void *buf, size_t cap) {
  database *db = ((session *)arg)->db;
  char key[KEY_MAX], *error = NULL;
  size_t len;
  rocksdb_pinnableslice_t *pinned = rocksdb_get_pinned(db->handle, db->read, key, key_make(key, at), &error);
  check(error, "get");
  if (!pinned) return -1;
  const char *bytes = rocksdb_pinnableslice_value(pinned, &len);
  memcpy(buf, bytes, len < cap ? len : cap);
  rocksdb_pinnableslice_destroy(pinned);
  return (ssize_t)len;
}

static uint64_t rocks_scan(void *arg, visit_fn visit, void *visit_arg) {
  database *db = ((session *)arg)->db;
  uint64_t cells = 0;
  rocksdb_iterator_t *it = rocksdb_create_iterator(db->handle, db->scan);
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
    size_t len;
    const char *value = rocksdb_iter_value(it, &len);
    visit(visit_arg, value, len);
    cells++;
  }
  rocksdb_iter_destroy(it);
  return cells;
}

static void rocks_close(void *arg) {
  database *db = arg;
  rocksdb_close(db->handle);
  free(db);
}

#define ROCKSDB(NAME)                                                                                                                       \
  {                                                                                                                                         \
      .name = NAME,                                                                                                                         \
      .open = rocks_open,                                                                                                                   \
      .session_begin = rocks_session_begin,                                                                                                 \
      .session_end = rocks_session_end,                                                                                                     \
      .increment = rocks_increment,                                                                                                         \
      .increment_batch = rocks_increment_batch,                                                                                             \
      .put_batch = rocks_put_batch,                                                                                                         \
      .get = rocks_get,                                                                                                                     \
      .scan = rocks_scan,                                                                                                                   \
      .close = rocks_close,                                                                                                                 \
  }
const engine engine_rocksdb = ROCKSDB("rocksdb-rmw");
const engine engine_rocksdb_unordered = ROCKSDB("rocksdb-rmw-u");
