/* LMDB: one write transaction per call, since it has a single writer.
 *
 * Surviving the process: MDB_NOSYNC | MDB_WRITEMAP; at commit the pages are in the page cache. (Without WRITEMAP, one pwrite per page, it is
 * about four times slower.) Surviving the machine: its default, fdatasync at commit.
 */
#include "bench.h"
#include <lmdb.h>

typedef struct {
  MDB_env *env;
  MDB_dbi table;
} database;

typedef struct {
  database *db;
  MDB_txn *reader; /* reset between reads, renewed for each */
} session;

static void check(int rc, const char *what) {
  if (rc) die("lmdb %s: %s", what, mdb_strerror(rc));
}

static void *lmdb_open(const engine *self, const open_options *options) {
  (void)self;
  database *db = calloc(1, sizeof *db);
  unsigned flags = MDB_NOTLS;
  if (options->durability == SURVIVES_PROCESS) flags |= MDB_NOSYNC | MDB_WRITEMAP;
  check(mdb_env_create(&db->env), "create");
  check(mdb_env_set_mapsize(db->env, 48ull << 30), "map size");
  check(mdb_env_set_maxreaders(db->env, 512), "readers");
  check(mdb_env_open(db->env, options->dir, flags, 0644), "open");
  MDB_txn *txn;
  check(mdb_txn_begin(db->env, NULL, 0, &txn), "begin");
  check(mdb_dbi_open(txn, NULL, MDB_CREATE, &db->table), "table");
  check(mdb_txn_commit(txn), "commit");
  return db;
}

static void *lmdb_session_begin(void *db) {
  session *s = calloc(1, sizeof *s);
  s->db = db;
  check(mdb_txn_begin(s->db->env, NULL, MDB_RDONLY, &s->reader), "reader");
  mdb_txn_reset(s->reader);
  return s;
}

static void lmdb_session_end(void *arg) {
  session *s = arg;
  mdb_txn_abort(s->reader);
  free(s);
}

/* Through a cursor, so that the write does not search the tree a second time. */
static int64_t add(database *db, MDB_txn *txn, const column *at, int64_t delta) {
  char key[KEY_MAX], bytes[8];
  MDB_val k = {key_make(key, at), key}, v;
  MDB_cursor *cursor;
  int64_t value = delta;
  check(mdb_cursor_open(txn, db->table, &cursor), "cursor");
  int rc = mdb_cursor_get(cursor, &k, &v, MDB_SET);
  if (rc != 0 && rc != MDB_NOTFOUND) check(rc, "read");
  if (rc == 0) value += counter_load(v.mv_data);
  counter_store(bytes, value);
  MDB_val updated = {8, bytes};
  check(mdb_cursor_put(cursor, &k, &updated, rc == 0 ? MDB_CURRENT : 0), "write");
  mdb_cursor_close(cursor);
  return value;
}

static int64_t lmdb_increment(void *arg, const column *at, int64_t delta) {
  session *s = arg;
  MDB_txn *txn;
  check(mdb_txn_begin(s->db->env, NULL, 0, &txn), "begin");
  int64_t value = add(s->db, txn, at, delta);
  check(mdb_txn_commit(txn), "commit");
  return value;
}

static void lmdb_increment_batch(void *arg, increment_op *ops, size_t n) {
  session *s = arg;
  MDB_txn *txn;
  check(mdb_txn_begin(s->db->env, NULL, 0, &txn), "begin");
  for (size_t i = 0; i < n; i++) ops[i].value = add(s->db, txn, &ops[i].at, ops[i].delta);
  check(mdb_txn_commit(txn), "commit");
}

static void lmdb_put_batch(void *arg, const put_op *ops, size_t n) {
  session *s = arg;
  MDB_txn *txn;
  check(mdb_txn_begin(s->db->env, NULL, 0, &txn), "begin");
  for (size_t i = 0; i < n; i++) {
    char key[KEY_MAX];
    MDB_val k = {key_make(key, &ops[i].at), key}, v = {ops[i].value.len, (void *)ops[i].value.data};
    check(mdb_put(txn, s->db->table, &k, &v, 0), "put");
  }
  check(mdb_txn_commit(txn), "commit");
}

static ssize_t lmdb_get(void *arg, const column *at, void *buf, size_t cap) {
  session *s = arg;
  char key[KEY_MAX];
  MDB_val k = {key_make(key, at), key}, v;
  check(mdb_txn_renew(s->reader), "renew");
  int rc = mdb_get(s->reader, s->db->table, &k, &v);
  if (rc != 0 && rc != MDB_NOTFOUND) check(rc, "get");
  if (rc == 0) memcpy(buf, v.mv_data, v.mv_size < cap ? v.mv_size : cap);
  mdb_txn_reset(s->reader);
  return rc == 0 ? (ssize_t)v.mv_size : -1;
}

static uint64_t lmdb_scan(void *arg, visit_fn visit, void *visit_arg) {
  session *s = arg;
  uint64_t cells = 0;
  MDB_cursor *cursor;
  MDB_val k, v;
  check(mdb_txn_renew(s->reader), "renew");
  check(mdb_cursor_open(s->reader, s->db->table, &cursor), "cursor");
  while (mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0) {
    visit(visit_arg, v.mv_data, v.mv_size);
    cells++;
  }
  mdb_cursor_close(cursor);
  mdb_txn_reset(s->reader);
  return cells;
}

static void lmdb_close(void *arg) {
  database *db = arg;
  mdb_env_close(db->env);
  free(db);
}

const engine engine_lmdb = {
    .name = "lmdb",
    .open = lmdb_open,
    .session_begin = lmdb_session_begin,
    .session_end = lmdb_session_end,
    .increment = lmdb_increment,
    .increment_batch = lmdb_increment_batch,
    .put_batch = lmdb_put_batch,
    .get = lmdb_get,
    .scan = lmdb_scan,
    .close = lmdb_close,
};
