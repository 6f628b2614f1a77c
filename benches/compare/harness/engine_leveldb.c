/* LevelDB: a striped mutex around Get + Put, since it has no read-modify-write. Its log cannot be left out; `sync` adds the fdatasync. */
#include "bench.h"
#include <leveldb/c.h>
#include <stdio.h>

typedef struct {
  leveldb_t *handle;
  leveldb_writeoptions_t *write;
  leveldb_readoptions_t *read;
  stripe *stripes;
} database;

typedef struct {
  database *db;
  leveldb_writebatch_t *batch; /* reused from call to call */
} session;

static void check(const char *error, const char *what) {
  if (error) die("leveldb %s: %s", what, error);
}

static void *level_open(const engine *self, const open_options *options) {
  (void)self;
  database *db = calloc(1, sizeof *db);
  char path[4096], *error = NULL;
  size_t cache = options->memory_mb > 1024 ? options->memory_mb - 512 : 512;
  leveldb_options_t *o = leveldb_options_create();
  leveldb_options_set_create_if_missing(o, 1);
  leveldb_options_set_compression(o, leveldb_no_compression);
  /* The largest that it takes is 1 GB. */
  leveldb_options_set_write_buffer_size(o, options->resident ? 1u << 30 : 128 << 20);
  leveldb_options_set_max_file_size(o, 64 << 20);
  leveldb_options_set_max_open_files(o, 5000);
  leveldb_options_set_filter_policy(o, leveldb_filterpolicy_create_bloom(10));
  leveldb_options_set_cache(o, leveldb_cache_create_lru(cache << 20));
  db->write = leveldb_writeoptions_create();
  leveldb_writeoptions_set_sync(db->write, options->durability == SURVIVES_MACHINE);
  db->read = leveldb_readoptions_create();
  snprintf(path, sizeof path, "%s/leveldb", options->dir);
  db->handle = leveldb_open(o, path, &error);
  check(error, "open");
  db->stripes = stripes_new();
  return db;
}

static void *level_session_begin(void *db) {
  session *s = calloc(1, sizeof *s);
  s->db = db;
  s->batch = leveldb_writebatch_create();
  return s;
}

static void level_session_end(void *arg) {
  session *s = arg;
  leveldb_writebatch_destroy(s->batch);
  free(s);
}

static int64_t counter_read(database *db, const char *key, size_t key_len) {
  char *error = NULL;
  size_t len;
  int64_t value = 0;
  char *bytes = leveldb_get(db->handle, db->read, key, key_len, &len, &error);
  check(error, "get");
  if (bytes && len == 8) value = counter_load(bytes);
  leveldb_free(bytes);
  return value;
}

static int64_t level_increment(void *arg, const column *at, int64_t delta) {
  database *db = ((session *)arg)->db;
  char key[KEY_MAX], bytes[8], *error = NULL;
  size_t key_len = key_make(key, at);
  pthread_mutex_t *mutex = stripe_of(db->stripes, key, key_len);
  pthread_mutex_lock(mutex);
  int64_t value = counter_read(db, key, key_len) + delta;
  counter_store(bytes, value);
  leveldb_put(db->handle, db->write, key, key_len, bytes, 8, &error);
  pthread_mutex_unlock(mutex);
  check(error, "put");
  return value;
}

static void level_increment_batch(void *arg, increment_op *ops, size_t n) {
  session *s = arg;
  database *db = s->db;
  char *error = NULL;
  uint16_t ids[n];
  leveldb_writebatch_clear(s->batch);
  size_t locked = stripes_lock(db->stripes, ops, n, ids);
  for (size_t i = 0; i < n; i++) {
    char key[KEY_MAX], bytes[8];
    size_t key_len = key_make(key, &ops[i].at);
    ops[i].value = counter_read(db, key, key_len) + ops[i].delta;
    counter_store(bytes, ops[i].value);
    leveldb_writebatch_put(s->batch, key, key_len, bytes, 8);
  }
  leveldb_write(db->handle, db->write, s->batch, &error);
  stripes_unlock(db->stripes, ids, locked);
  check(error, "write");
}

static void level_put_batch(void *arg, const put_op *ops, size_t n) {
  session *s = arg;
  char *error = NULL;
  leveldb_writebatch_clear(s->batch);
  for (size_t i = 0; i < n; i++) {
    char key[KEY_MAX];
    size_t key_len = key_make(key, &ops[i].at);
    leveldb_writebatch_put(s->batch, key, key_len, ops[i].value.data, ops[i].value.len);
  }
  leveldb_write(s->db->handle, s->db->write, s->batch, &error);
  check(error, "write");
}

static ssize_t level_get(void *arg, const column *at, void *buf, size_t cap) {
  database *db = ((session *)arg)->db;
  char key[KEY_MAX], *error = NULL;
  size_t key_len = key_make(key, at), len;
  char *bytes = leveldb_get(db->handle, db->read, key, key_len, &len, &error);
  check(error, "get");
  if (!bytes) return -1;
  memcpy(buf, bytes, len < cap ? len : cap);
  leveldb_free(bytes);
  return (ssize_t)len;
}

static uint64_t level_scan(void *arg, visit_fn visit, void *visit_arg) {
  database *db = ((session *)arg)->db;
  uint64_t cells = 0;
  leveldb_iterator_t *it = leveldb_create_iterator(db->handle, db->read);
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) {
    size_t len;
    const char *value = leveldb_iter_value(it, &len);
    visit(visit_arg, value, len);
    cells++;
  }
  leveldb_iter_destroy(it);
  return cells;
}

static uint64_t level_scan_from(void *arg, slice row, size_t n, visit_fn visit, void *visit_arg) {
  database *db = ((session *)arg)->db;
  uint64_t cells = 0;
  leveldb_iterator_t *it = leveldb_create_iterator(db->handle, db->read);
  for (leveldb_iter_seek(it, row.data, row.len); cells < n && leveldb_iter_valid(it); leveldb_iter_next(it)) {
    size_t len;
    const char *value = leveldb_iter_value(it, &len);
    visit(visit_arg, value, len);
    cells++;
  }
  leveldb_iter_destroy(it);
  return cells;
}

static void level_close(void *arg) {
  database *db = arg;
  leveldb_close(db->handle);
  free(db);
}

const engine engine_leveldb = {
    .name = "leveldb",
    .open = level_open,
    .session_begin = level_session_begin,
    .session_end = level_session_end,
    .increment = level_increment,
    .increment_batch = level_increment_batch,
    .put_batch = level_put_batch,
    .get = level_get,
    .scan = level_scan,
    .scan_from = level_scan_from,
    .close = level_close,
};
