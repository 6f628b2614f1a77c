/* A call that fails leaves no output as it was: NULL, 0, or REGION_E_NOT_RUN, whatever is wrong with its handle. One line of the table for each export. */
#include "test.h"

#define N 3 /* elements of arrays */

/* Every output that there is, as a caller's rubbish. */
static struct {
  int64_t value, values[N];
  uint64_t timestamp;
  uint32_t id;
  int32_t statuses[N];
  size_t used, n, len;
  char text[32];
  region_value_t val;
  region_family_t family;
  region_cell_t cell;
  region_stats_t stats;
  chunk_pool_stats_t pool;
  region_op_result_t results[N];
  region_commit_info_t info;
  region_t *region;
  region_snapshot_t *snapshot;
  region_scanner_t *scanner;
  chunk_pool_t *chunks;
  uint64_t dropped;
} o;

static region_write_options_t opts;
static region_mutation_t ops[N];
static region_inc_col_t cols[N];
static char keys[N * 16]; /* key records, increment records of nothing: never looked at */
static char incs[N * 16];
static char packed[N * 40];
static char page[64];

static void spoil(void) {
  int i;
  memset(&o, 0x77, sizeof o);
  o.stats.struct_size = (uint32_t)sizeof o.stats;
  o.pool.struct_size = (uint32_t)sizeof o.pool;
  o.info.struct_size = (uint32_t)sizeof o.info;
  o.val.buf = NULL;
  o.val.cap = 0;
  memset(&opts, 0, sizeof opts);
  opts.struct_size = (uint32_t)sizeof opts;
  opts.info = &o.info;
  for (i = 0; i < N; i++) {
    ops[i] = mutation(REGION_OP_PUT, "r", "q", "v", 0);
    memset(&cols[i], 0, sizeof cols[i]);
  }
}

static int zeros(const void *at, size_t from, size_t size) {
  const unsigned char *bytes = (const unsigned char *)at;
  for (; from < size; from++)
    if (bytes[from] != 0) return 0;
  return 1;
}
#define ZERO(what) zeros(&o.what, 0, sizeof o.what)
#define TAIL_ZERO(what) zeros(&o.what, sizeof(uint32_t), sizeof o.what)

static int no_results(void) {
  int i;
  for (i = 0; i < N; i++)
    if (o.results[i].status != REGION_E_NOT_RUN || o.results[i].flags != 0 || o.results[i].value != 0) return 0;
  return 1;
}
static int no_counters(void) {
  int i;
  for (i = 0; i < N; i++)
    if (o.values[i] != 0 || o.statuses[i] != REGION_E_NOT_RUN) return 0;
  return 1;
}
static int no_value(void) { return o.val.data == NULL && o.val.len == 0 && o.val.timestamp == 0 && o.val.seq == 0 && o.val.pin == 0; }

/* What a handle is used as. */
enum kind { NONE, REGION, SNAPSHOT, SCANNER, POOL };

#define R ((region_t *)h)
#define S ((region_scanner_t *)h)
#define P ((chunk_pool_t *)h)
#define CALL(name, call)                \
  static region_status call_##name(void *h) { \
    (void)h;                            \
    return call;                        \
  }
#define CLEARED(name, condition) \
  static int cleared_##name(void) { return condition; }
#define EXPORT(name, call, condition) CALL(name, call) CLEARED(name, condition)

EXPORT(region_open, region_open(new_path("none"), NULL, &o.region, &E), o.region == NULL)
EXPORT(region_destroy, region_destroy(new_path("none"), &E), 1)
EXPORT(region_family_id, region_family_id(R, "f", 1, &o.id, &E), o.id == 0)
EXPORT(region_family_set, region_family_set(R, &o.family, sizeof o.family, &o.id, &E), o.id == 0)
EXPORT(region_family_drop, region_family_drop(R, 1, &E), 1)
EXPORT(region_family_next, region_family_next(R, 0, &o.id, &o.family, sizeof o.family, &E), o.id == 0 && ZERO(family))
EXPORT(region_describe, region_describe(R, o.text, sizeof o.text, &o.len, &E), o.len == 0 && o.text[0] == 0)
EXPORT(region_recovery_report, region_recovery_report(R, o.text, sizeof o.text, &o.len, &E), o.len == 0 && o.text[0] == 0)
EXPORT(region_stats, region_stats(R, &o.stats, &E), TAIL_ZERO(stats))
EXPORT(region_increment, region_increment(R, "r", 1, 1, "q", 1, 1, &opts, &o.value, &E), o.value == 0 && TAIL_ZERO(info))
EXPORT(region_increment_row, region_increment_row(R, "r", 1, cols, N, sizeof cols[0], &opts, o.values, &E), ZERO(values) && TAIL_ZERO(info))
EXPORT(region_increment_packed, region_increment_packed(R, incs, sizeof incs, N, &opts, o.results, sizeof o.results[0], &E), no_results() && TAIL_ZERO(info))
EXPORT(region_batch_mutate, region_batch_mutate(R, ops, N, sizeof ops[0], &opts, o.results, sizeof o.results[0], &E), no_results() && TAIL_ZERO(info))
EXPORT(region_batch_mutate_packed, region_batch_mutate_packed(R, packed, sizeof packed, N, &opts, o.results, sizeof o.results[0], &E),
       no_results() && TAIL_ZERO(info))
EXPORT(region_put, region_put(R, "r", 1, 1, "q", 1, "v", 1, &opts, &E), TAIL_ZERO(info))
EXPORT(region_delete, region_delete(R, "r", 1, 1, "q", 1, 0, &opts, &E), TAIL_ZERO(info))
EXPORT(region_append, region_append(R, "r", 1, 1, "q", 1, "v", 1, &opts, &o.val, &E), no_value() && TAIL_ZERO(info))
EXPORT(region_wait_durable, region_wait_durable(R, 1, REGION_NO_WAIT, &E), 1)
EXPORT(region_get, region_get(R, NULL, "r", 1, 1, "q", 1, &o.val, &E), no_value())
EXPORT(region_counter_get, region_counter_get(R, NULL, "r", 1, 1, "q", 1, &o.value, &o.timestamp, &E), o.value == 0 && o.timestamp == 0)
EXPORT(region_counter_get_packed, region_counter_get_packed(R, NULL, keys, sizeof keys, N, o.values, o.statuses, &E), no_counters())
EXPORT(region_get_packed, region_get_packed(R, NULL, keys, sizeof keys, N, page, sizeof page, &o.used, &o.n, &E), o.used == 0 && o.n == 0)
EXPORT(region_get_row, region_get_row(R, NULL, "r", 1, NULL, 0, 0, 1, page, sizeof page, &o.used, &o.n, &E), o.used == 0 && o.n == 0)
EXPORT(region_snapshot_open, region_snapshot_open(R, 0, &o.snapshot, &E), o.snapshot == NULL)
EXPORT(region_scanner_open, region_scanner_open(R, NULL, NULL, &o.scanner, &E), o.scanner == NULL)
EXPORT(region_scanner_next, region_scanner_next(S, &o.cell, sizeof o.cell, &E), ZERO(cell))
EXPORT(region_scanner_next_page, region_scanner_next_page(S, page, sizeof page, &o.used, &o.n, &E), o.used == 0 && o.n == 0)
EXPORT(region_scanner_seek, region_scanner_seek(S, "r", 1, &E), 1)
EXPORT(chunk_pool_create, chunk_pool_create(NULL, &o.chunks, &E), o.chunks == NULL)
EXPORT(chunk_pool_stats, chunk_pool_stats(P, &o.pool, &E), TAIL_ZERO(pool))
EXPORT(chunk_pool_trim, chunk_pool_trim(P, 0, &E), 1)
EXPORT(region_log_poll, region_log_poll(page, sizeof page, &o.used, &o.dropped), o.used == 0 && o.dropped == 0)
EXPORT(region_log_set_callback, region_log_set_callback(NULL, NULL, 0), 1)
EXPORT(region_abi_check, region_abi_check(REGION_ABI_VERSION, REGION_LAYOUT_HASH, &E), 1)

#define ROW(name, kind) { #name, kind, call_##name, cleared_##name }
static const struct {
  const char *name;
  enum kind kind;
  region_status (*call)(void *);
  int (*cleared)(void);
} table[] = {
    ROW(region_open, NONE), ROW(region_destroy, NONE), ROW(region_family_id, REGION), ROW(region_family_set, REGION), ROW(region_family_drop, REGION),
    ROW(region_family_next, REGION), ROW(region_describe, REGION), ROW(region_recovery_report, REGION), ROW(region_stats, REGION),
    ROW(region_increment, REGION), ROW(region_increment_row, REGION), ROW(region_increment_packed, REGION), ROW(region_batch_mutate, REGION),
    ROW(region_batch_mutate_packed, REGION), ROW(region_put, REGION), ROW(region_delete, REGION), ROW(region_append, REGION), ROW(region_wait_durable, REGION),
    ROW(region_get, REGION), ROW(region_counter_get, REGION), ROW(region_counter_get_packed, REGION), ROW(region_get_packed, REGION), ROW(region_get_row, REGION),
    ROW(region_snapshot_open, REGION), ROW(region_scanner_open, REGION), ROW(region_scanner_next, SCANNER), ROW(region_scanner_next_page, SCANNER),
    ROW(region_scanner_seek, SCANNER), ROW(chunk_pool_create, NONE), ROW(chunk_pool_stats, POOL), ROW(chunk_pool_trim, POOL), ROW(region_log_poll, NONE),
    ROW(region_log_set_callback, NONE), ROW(region_abi_check, NONE),
};
#define ROWS (sizeof table / sizeof table[0])

/* Exports without a status that could fail: they answer a constant, or nothing. */
static const char *const others[] = {"region_build_info",    "region_close",        "region_scanner_close", "region_snapshot_close", "region_snapshot_seq", "region_status_name",
                                     "region_value_release", "region_version", "region_version_string", "chunk_pool_close"};

static void one(size_t i, void *handle, region_status want) {
  region_status rc;
  spoil();
  region_error_init(&E);
  rc = table[i].call(handle);
  if (rc == want && table[i].cleared()) {
    checks_passed++;
  } else {
    checks_failed++;
    fprintf(stderr, "%s: wanted %s, got %s, outputs %s\n", table[i].name, region_status_name(want), region_status_name(rc),
            table[i].cleared() ? "cleared" : "left");
  }
}

static void all(enum kind kind, void *handle, region_status want) {
  size_t i;
  for (i = 0; i < ROWS; i++)
    if (table[i].kind == kind) one(i, handle, want);
}

/* The table has every export. */
static void complete(void) {
  char path[1024], line[128];
  const char *slash = strrchr(__FILE__, '/');
  FILE *f;
  int n = 0;
  snprintf(path, sizeof path, "%.*s/../include/region.symbols", slash != NULL ? (int)(slash - __FILE__) : 1, slash != NULL ? __FILE__ : ".");
  f = fopen(path, "r");
  CHECK(f != NULL);
  while (f != NULL && fgets(line, sizeof line, f) != NULL) {
    size_t i;
    int found = 0;
    line[strcspn(line, "\r\n")] = 0;
    for (i = 0; i < ROWS; i++) found |= strcmp(table[i].name, line) == 0;
    for (i = 0; i < sizeof others / sizeof others[0]; i++) found |= strcmp(others[i], line) == 0;
    if (!found) fprintf(stderr, "not in the table: %s\n", line);
    CHECK(found);
    n++;
  }
  CHECK(n > 40);
  if (f != NULL) fclose(f);
}

int main(void) {
  region_t *r = new_region("outputs");
  region_scanner_t *sc = NULL;
  chunk_pool_t *p = NULL;
  region_error_t e = REGION_ERROR_INIT;
  pid_t pid;
  int status = 0;
  complete();
  MUST(region_scanner_open(r, NULL, NULL, &sc, &E));
  MUST(chunk_pool_create(NULL, &p, &E));
  /* No handle, no address of one, one of another kind. */
  all(REGION, NULL, REGION_E_HANDLE);
  all(SCANNER, NULL, REGION_E_HANDLE);
  all(REGION, &e, REGION_E_HANDLE);
  all(SCANNER, &e, REGION_E_HANDLE);
  all(POOL, &e, REGION_E_HANDLE);
  all(REGION, sc, REGION_E_HANDLE);
  all(SCANNER, p, REGION_E_HANDLE);
  all(POOL, r, REGION_E_HANDLE);
  /* In a forked child. */
  pid = fork();
  if (pid == 0) {
    checks_failed = 0;
    all(NONE, NULL, REGION_E_FORKED);
    all(REGION, r, REGION_E_FORKED);
    all(SCANNER, sc, REGION_E_FORKED);
    all(POOL, p, REGION_E_FORKED);
    all(POOL, NULL, REGION_E_FORKED);
    _exit(checks_failed != 0);
  }
  CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  /* Closed. */
  region_scanner_close(sc);
  chunk_pool_close(p);
  MUST(region_close(r, 0, 0, &E));
  all(REGION, r, REGION_E_CLOSED);
  all(SCANNER, sc, REGION_E_CLOSED);
  all(POOL, p, REGION_E_CLOSED);
  DONE();
}
