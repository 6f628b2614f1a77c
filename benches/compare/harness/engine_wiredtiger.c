/* WiredTiger: read-modify-write in a snapshot transaction, retried on WT_ROLLBACK. `wiredtiger-lk` takes a striped mutex first, so that hot
 * rows do not roll back. Surviving the process: log written at commit without a sync; the machine: its group commit with fsync.
 */
#include "bench.h"
#include <sched.h>
#include <stdio.h>
#include <wiredtiger.h>

typedef struct {
  bool locked;
  WT_CONNECTION *connection;
  stripe *stripes;
} database;

typedef struct {
  database *db;
  WT_SESSION *wt;
  WT_CURSOR *cursor;
} session;

static void check(int rc, const char *what) {
  if (rc) die("wiredtiger %s: %s", what, wiredtiger_strerror(rc));
}

static void *tiger_open(const engine *self, const open_options *options) {
  database *db = calloc(1, sizeof *db);
  char config[512];
  WT_SESSION *wt;
  db->locked = self == &engine_wiredtiger_locked;
  snprintf(config, sizeof config,
           "create,cache_size=%zuMB,session_max=1000,log=(enabled=true,file_max=256MB),transaction_sync=(enabled=true,method=%s),"
           "checkpoint=(wait=60),eviction=(threads_min=1,threads_max=2)",
           options->memory_mb, options->durability == SURVIVES_MACHINE ? "fsync" : "none");
  check(wiredtiger_open(options->dir, NULL, config, &db->connection), "open");
  check(db->connection->open_session(db->connection, NULL, NULL, &wt), "session");
  check(wt->create(wt, "table:cells", "key_format=u,value_format=u,internal_page_max=16KB,leaf_page_max=32KB,allocation_size=4KB"), "table");
  check(wt->close(wt, NULL), "close session");
  db->stripes = stripes_new();
  return db;
}

static void *tiger_session_begin(void *db) {
  session *s = calloc(1, sizeof *s);
  s->db = db;
  check(s->db->connection->open_session(s->db->connection, NULL, "isolation=snapshot", &s->wt), "session");
  check(s->wt->open_cursor(s->wt, "table:cells", NULL, "overwrite=true", &s->cursor), "cursor");
  return s;
}

static void tiger_session_end(void *arg) {
  session *s = arg;
  s->wt->close(s->wt, NULL);
  free(s);
}

/* Inside a transaction; returns 0 or WiredTiger's code. */
static int add(session *s, const column *at, int64_t delta, int64_t *value) {
  char key[KEY_MAX], bytes[8];
  WT_CURSOR *c = s->cursor;
  WT_ITEM k = {.data = key, .size = key_make(key, at)}, v;
  *value = delta;
  c->set_key(c, &k);
  int rc = c->search(c);
  if (rc == 0) {
    check(c->get_value(c, &v), "value");
    if (v.size == 8) *value += counter_load(v.data);
  } else if (rc == WT_NOTFOUND) {
    c->set_key(c, &k);
  } else {
    return rc;
  }
  counter_store(bytes, *value);
  v.data = bytes;
  v.size = 8;
  c->set_value(c, &v);
  return rc == 0 ? c->update(c) : c->insert(c);
}

/* Ends the transaction; true when it committed, false when it must be run again. */
static bool finish(session *s, int rc, int *attempts) {
  if (rc == 0)
    rc = s->wt->commit_transaction(s->wt, NULL);
  else
    s->wt->rollback_transaction(s->wt, NULL);
  if (rc == 0) return true;
  if (rc != WT_ROLLBACK) check(rc, "transaction");
  if (++*attempts > 2) sched_yield();
  return false;
}

static void tiger_increment_batch(void *arg, increment_op *ops, size_t n) {
  session *s = arg;
  uint16_t ids[n];
  size_t locked = s->db->locked ? stripes_lock(s->db->stripes, ops, n, ids) : 0;
  int attempts = 0, rc;
  do {
    check(s->wt->begin_transaction(s->wt, NULL), "begin");
    rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) rc = add(s, &ops[i].at, ops[i].delta, &ops[i].value);
  } while (!finish(s, rc, &attempts));
  stripes_unlock(s->db->stripes, ids, locked);
  s->cursor->reset(s->cursor);
}

static int64_t tiger_increment(void *arg, const column *at, int64_t delta) {
  increment_op op = {*at, delta, 0};
  tiger_increment_batch(arg, &op, 1);
  return op.value;
}

static void tiger_put_batch(void *arg, const put_op *ops, size_t n) {
  session *s = arg;
  WT_CURSOR *c = s->cursor;
  int attempts = 0, rc;
  do {
    check(s->wt->begin_transaction(s->wt, NULL), "begin");
    rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
      char key[KEY_MAX];
      WT_ITEM k = {.data = key, .size = key_make(key, &ops[i].at)}, v = {.data = ops[i].value.data, .size = ops[i].value.len};
      c->set_key(c, &k);
      c->set_value(c, &v);
      rc = c->insert(c);
    }
  } while (!finish(s, rc, &attempts));
  c->reset(c);
}

static ssize_t tiger_get(void *arg, const column *at, void *buf, size_t cap) {
  session *s = arg;
  WT_CURSOR *c = s->cursor;
  char key[KEY_MAX];
  WT_ITEM k = {.data = key, .size = key_make(key, at)}, v;
  ssize_t len = -1;
  c->set_key(c, &k);
  int rc = c->search(c);
  if (rc != 0 && rc != WT_NOTFOUND) check(rc, "search");
  if (rc == 0) {
    check(c->get_value(c, &v), "value");
    memcpy(buf, v.data, v.size < cap ? v.size : cap);
    len = (ssize_t)v.size;
  }
  c->reset(c);
  return len;
}

static uint64_t tiger_scan(void *arg, visit_fn visit, void *visit_arg) {
  session *s = arg;
  WT_CURSOR *c = s->cursor;
  WT_ITEM v;
  uint64_t cells = 0;
  check(c->reset(c), "reset");
  while (c->next(c) == 0) {
    check(c->get_value(c, &v), "value");
    visit(visit_arg, v.data, v.size);
    cells++;
  }
  c->reset(c);
  return cells;
}

static void tiger_close(void *arg) {
  database *db = arg;
  check(db->connection->close(db->connection, NULL), "close");
  free(db);
}

#define WIREDTIGER(NAME)                                                                                                                    \
  {                                                                                                                                         \
      .name = NAME,                                                                                                                         \
      .open = tiger_open,                                                                                                                   \
      .session_begin = tiger_session_begin,                                                                                                 \
      .session_end = tiger_session_end,                                                                                                     \
      .increment = tiger_increment,                                                                                                         \
      .increment_batch = tiger_increment_batch,                                                                                             \
      .put_batch = tiger_put_batch,                                                                                                         \
      .get = tiger_get,                                                                                                                     \
      .scan = tiger_scan,                                                                                                                   \
      .close = tiger_close,                                                                                                                 \
  }
const engine engine_wiredtiger = WIREDTIGER("wiredtiger");
const engine engine_wiredtiger_locked = WIREDTIGER("wiredtiger-lk");
