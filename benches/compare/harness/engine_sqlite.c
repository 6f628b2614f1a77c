/* SQLite in WAL mode with a prepared UPSERT ... RETURNING. One writing connection behind a mutex, which is faster and fairer than retrying
 * on SQLITE_BUSY, and one reading connection per thread. Surviving the process: synchronous=OFF; the machine: synchronous=FULL.
 */
#include "bench.h"
#include <sqlite3.h>
#include <stdio.h>

typedef struct {
  sqlite3 *writer;
  pthread_mutex_t mutex; /* guards the writer and its statements */
  sqlite3_stmt *upsert, *put, *begin, *commit;
  char path[4096];
} database;

typedef struct {
  database *db;
  sqlite3 *reader;
  sqlite3_stmt *get, *scan;
} session;

static void check(sqlite3 *connection, int rc, const char *what) {
  if (rc != SQLITE_OK && rc != SQLITE_DONE && rc != SQLITE_ROW)
    die("sqlite %s: %d %s", what, rc, connection ? sqlite3_errmsg(connection) : "");
}

static void run_sql(sqlite3 *connection, const char *sql) {
  char *error = NULL;
  if (sqlite3_exec(connection, sql, NULL, NULL, &error)) die("sqlite %s: %s", sql, error);
}

static sqlite3_stmt *prepare(sqlite3 *connection, const char *sql) {
  sqlite3_stmt *statement;
  check(connection, sqlite3_prepare_v3(connection, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL), sql);
  return statement;
}

static void *lite_open(const engine *self, const open_options *options) {
  (void)self;
  database *db = calloc(1, sizeof *db);
  char sql[128];
  pthread_mutex_init(&db->mutex, NULL);
  snprintf(db->path, sizeof db->path, "%s/counters.sqlite", options->dir);
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* its statistics take a global mutex */
  check(NULL, sqlite3_open_v2(db->path, &db->writer, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL), "open");
  snprintf(sql, sizeof sql, "PRAGMA page_size=%d", options->large_values ? 8192 : 4096);
  run_sql(db->writer, sql); /* without effect on an existing database */
  run_sql(db->writer, "PRAGMA journal_mode=WAL");
  run_sql(db->writer, options->durability == SURVIVES_MACHINE ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF");
  snprintf(sql, sizeof sql, "PRAGMA cache_size=-%zu", options->memory_mb * 1024);
  run_sql(db->writer, sql);
  run_sql(db->writer, "PRAGMA temp_store=MEMORY");
  run_sql(db->writer, "CREATE TABLE IF NOT EXISTS cells(k BLOB PRIMARY KEY, v) WITHOUT ROWID");
  db->upsert = prepare(db->writer, "INSERT INTO cells VALUES(?1,?2) ON CONFLICT(k) DO UPDATE SET v=v+excluded.v RETURNING v");
  db->put = prepare(db->writer, "INSERT INTO cells VALUES(?1,?2) ON CONFLICT(k) DO UPDATE SET v=excluded.v");
  db->begin = prepare(db->writer, "BEGIN IMMEDIATE");
  db->commit = prepare(db->writer, "COMMIT");
  return db;
}

static void *lite_session_begin(void *db) {
  session *s = calloc(1, sizeof *s);
  s->db = db;
  check(NULL, sqlite3_open_v2(s->db->path, &s->reader, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL), "open reader");
  sqlite3_busy_timeout(s->reader, 60000);
  run_sql(s->reader, "PRAGMA mmap_size=17179869184");
  run_sql(s->reader, "PRAGMA cache_size=-16384");
  s->get = prepare(s->reader, "SELECT v FROM cells WHERE k=?1");
  s->scan = prepare(s->reader, "SELECT v FROM cells ORDER BY k");
  return s;
}

static void lite_session_end(void *arg) {
  session *s = arg;
  sqlite3_finalize(s->get);
  sqlite3_finalize(s->scan);
  sqlite3_close(s->reader);
  free(s);
}

static void step(database *db, sqlite3_stmt *statement) {
  check(db->writer, sqlite3_step(statement), "step");
  sqlite3_reset(statement);
}

/* Holds the mutex. */
static int64_t add(database *db, const column *at, int64_t delta) {
  char key[KEY_MAX];
  sqlite3_bind_blob(db->upsert, 1, key, (int)key_make(key, at), SQLITE_STATIC);
  sqlite3_bind_int64(db->upsert, 2, delta);
  check(db->writer, sqlite3_step(db->upsert), "upsert");
  int64_t value = sqlite3_column_int64(db->upsert, 0);
  step(db, db->upsert);
  return value;
}

static int64_t lite_increment(void *arg, const column *at, int64_t delta) {
  database *db = ((session *)arg)->db;
  pthread_mutex_lock(&db->mutex);
  int64_t value = add(db, at, delta);
  pthread_mutex_unlock(&db->mutex);
  return value;
}

static void lite_increment_batch(void *arg, increment_op *ops, size_t n) {
  database *db = ((session *)arg)->db;
  pthread_mutex_lock(&db->mutex);
  step(db, db->begin);
  for (size_t i = 0; i < n; i++) ops[i].value = add(db, &ops[i].at, ops[i].delta);
  step(db, db->commit);
  pthread_mutex_unlock(&db->mutex);
}

static void lite_put_batch(void *arg, const put_op *ops, size_t n) {
  database *db = ((session *)arg)->db;
  pthread_mutex_lock(&db->mutex);
  if (n > 1) step(db, db->begin);
  for (size_t i = 0; i < n; i++) {
    char key[KEY_MAX];
    sqlite3_bind_blob(db->put, 1, key, (int)key_make(key, &ops[i].at), SQLITE_STATIC);
    sqlite3_bind_blob(db->put, 2, ops[i].value.data, (int)ops[i].value.len, SQLITE_STATIC);
    step(db, db->put);
  }
  if (n > 1) step(db, db->commit);
  pthread_mutex_unlock(&db->mutex);
}

static ssize_t lite_get(void *arg, const column *at, void *buf, size_t cap) {
  session *s = arg;
  char key[KEY_MAX];
  ssize_t len = -1;
  sqlite3_bind_blob(s->get, 1, key, (int)key_make(key, at), SQLITE_STATIC);
  int rc = sqlite3_step(s->get);
  check(s->reader, rc, "get");
  if (rc == SQLITE_ROW && sqlite3_column_type(s->get, 0) == SQLITE_INTEGER) {
    counter_store(buf, sqlite3_column_int64(s->get, 0));
    len = 8;
  } else if (rc == SQLITE_ROW) {
    len = sqlite3_column_bytes(s->get, 0);
    memcpy(buf, sqlite3_column_blob(s->get, 0), (size_t)len < cap ? (size_t)len : cap);
  }
  sqlite3_reset(s->get);
  return len;
}

static uint64_t lite_scan(void *arg, visit_fn visit, void *visit_arg) {
  session *s = arg;
  uint64_t cells = 0;
  int rc;
  while ((rc = sqlite3_step(s->scan)) == SQLITE_ROW) {
    if (sqlite3_column_type(s->scan, 0) == SQLITE_INTEGER) {
      char bytes[8];
      counter_store(bytes, sqlite3_column_int64(s->scan, 0));
      visit(visit_arg, bytes, 8);
    } else {
      const void *value = sqlite3_column_blob(s->scan, 0);
      visit(visit_arg, value, (size_t)sqlite3_column_bytes(s->scan, 0));
    }
    cells++;
  }
  check(s->reader, rc, "scan");
  sqlite3_reset(s->scan);
  return cells;
}

static void lite_close(void *arg) {
  database *db = arg;
  sqlite3_finalize(db->upsert);
  sqlite3_finalize(db->put);
  sqlite3_finalize(db->begin);
  sqlite3_finalize(db->commit);
  sqlite3_close(db->writer);
  free(db);
}

const engine engine_sqlite = {
    .name = "sqlite",
    .open = lite_open,
    .session_begin = lite_session_begin,
    .session_end = lite_session_end,
    .increment = lite_increment,
    .increment_batch = lite_increment_batch,
    .put_batch = lite_put_batch,
    .get = lite_get,
    .scan = lite_scan,
    .close = lite_close,
};
