/* libregion, through region.h alone and with as little as a program has to write: default options but for durability and memory, no write
 * options, one error struct per thread.
 */
#include "bench.h"
#include <region.h>

#define BATCH_MAX 1000
#define RECORD_HEADER 16 /* region_increment_packed: family, row length, qualifier length, delta */
#define PAGE_BYTES (256u << 10)

typedef struct {
  region_t *region;
  uint32_t family;
} database;

typedef struct {
  region_t *region;
  uint32_t family;
  region_error_t error;
  char *packed; /* BATCH_MAX increment records */
} session;

static void check(region_status status, const region_error_t *error, const char *what) {
  if (status < 0) die("region %s: %s: %s", what, region_status_name(status), error->msg);
}

static void *open_region(const engine *self, const open_options *options) {
  (void)self;
  database *db = calloc(1, sizeof *db);
  region_error_t error = REGION_ERROR_INIT;
  region_family_t family = {.name = {FAMILY, FAMILY_LEN}};
  region_options_t o = {
      .struct_size = sizeof o,
      .flags = REGION_OPEN_CREATE,
      .durability = options->durability == SURVIVES_MACHINE ? REGION_DUR_FSYNC_WAL : REGION_DUR_SYNC_WAL,
      .families = &family,
      .n_families = 1,
      .family_size = sizeof family,
      .memstore_limit = (uint64_t)options->memory_mb << 20, /* what the peers get for caches and memtables */
  };
  check(region_open(options->dir, &o, &db->region, &error), &error, "open");
  check(region_family_id(db->region, FAMILY, FAMILY_LEN, &db->family, &error), &error, "family");
  return db;
}

static void *session_begin(void *arg) {
  database *db = arg;
  session *s = calloc(1, sizeof *s);
  s->region = db->region;
  s->family = db->family;
  region_error_init(&s->error);
  s->packed = aligned_alloc(8, BATCH_MAX * (RECORD_HEADER + KEY_MAX));
  return s;
}

static void session_end(void *arg) {
  session *s = arg;
  free(s->packed);
  free(s);
}

static int64_t increment(void *arg, const column *at, int64_t delta) {
  session *s = arg;
  int64_t value;
  region_status status = region_increment(s->region, at->row.data, at->row.len, s->family, at->qualifier.data, at->qualifier.len, delta, NULL,
                                          &value, &s->error);
  check(status, &s->error, "increment");
  return value;
}

/* Little-endian, as the packed formats are; the record ends on a multiple of 8. */
static char *pack(char *p, uint32_t family, const increment_op *op) {
  uint16_t row_len = (uint16_t)op->at.row.len, qualifier_len = (uint16_t)op->at.qualifier.len;
  memcpy(p, &family, 4);
  memcpy(p + 4, &row_len, 2);
  memcpy(p + 6, &qualifier_len, 2);
  memcpy(p + 8, &op->delta, 8);
  memcpy(p + RECORD_HEADER, op->at.row.data, row_len);
  memcpy(p + RECORD_HEADER + row_len, op->at.qualifier.data, qualifier_len);
  size_t len = RECORD_HEADER + row_len + qualifier_len, padded = (len + 7) & ~(size_t)7;
  memset(p + len, 0, padded - len);
  return p + padded;
}

static void increment_batch(void *arg, increment_op *ops, size_t n) {
  session *s = arg;
  region_op_result_t results[BATCH_MAX];
  char *end = s->packed;
  if (n > BATCH_MAX) die("a batch of %zu increments", n);
  for (size_t i = 0; i < n; i++) end = pack(end, s->family, &ops[i]);
  region_status status =
      region_increment_packed(s->region, s->packed, (size_t)(end - s->packed), n, NULL, results, sizeof *results, &s->error);
  check(status, &s->error, "increment_packed");
  for (size_t i = 0; i < n; i++) ops[i].value = results[i].value;
}

static void put_batch(void *arg, const put_op *ops, size_t n) {
  session *s = arg;
  if (n == 1) {
    const column *at = &ops[0].at;
    region_status status = region_put(s->region, at->row.data, at->row.len, s->family, at->qualifier.data, at->qualifier.len,
                                      ops[0].value.data, ops[0].value.len, NULL, &s->error);
    check(status, &s->error, "put");
    return;
  }
  region_mutation_t mutations[BATCH_MAX];
  if (n > BATCH_MAX) die("a batch of %zu puts", n);
  for (size_t i = 0; i < n; i++) {
    mutations[i] = (region_mutation_t){
        .op = REGION_OP_PUT,
        .family = s->family,
        .row = {ops[i].at.row.data, ops[i].at.row.len},
        .qual = {ops[i].at.qualifier.data, ops[i].at.qualifier.len},
        .value = {ops[i].value.data, ops[i].value.len},
    };
  }
  check(region_batch_mutate(s->region, mutations, n, sizeof *mutations, NULL, NULL, 0, &s->error), &s->error, "batch");
}

static ssize_t get(void *arg, const column *at, void *buf, size_t cap) {
  session *s = arg;
  region_value_t value = {.buf = buf, .cap = cap};
  region_status status =
      region_get(s->region, NULL, at->row.data, at->row.len, s->family, at->qualifier.data, at->qualifier.len, &value, &s->error);
  check(status, &s->error, "get");
  if (status == REGION_NOT_FOUND) return -1;
  ssize_t len = (ssize_t)value.len;
  region_value_release(&value);
  return len;
}

/* Cell records of a page: lengths at 2 (row), 8 (qualifier) and 12 (value); row, qualifier and value behind 32 bytes of header. */
static const char *visit_record(const char *p, visit_fn visit, void *visit_arg) {
  uint16_t row_len;
  uint32_t qualifier_len, value_len;
  memcpy(&row_len, p + 2, 2);
  memcpy(&qualifier_len, p + 8, 4);
  memcpy(&value_len, p + 12, 4);
  const char *value = p + 32 + row_len + qualifier_len;
  visit(visit_arg, value, value_len);
  return p + ((32 + (size_t)row_len + qualifier_len + value_len + 7) & ~(size_t)7);
}

static uint64_t scan(void *arg, visit_fn visit, void *visit_arg) {
  session *s = arg;
  region_scanner_t *scanner;
  region_scan_t everything = {.struct_size = sizeof everything};
  uint64_t cells = 0;
  char *page = aligned_alloc(8, PAGE_BYTES);
  check(region_scanner_open(s->region, NULL, &everything, &scanner, &s->error), &s->error, "scanner");
  for (;;) {
    size_t used, n;
    region_status status = region_scanner_next_page(scanner, page, PAGE_BYTES, &used, &n, &s->error);
    check(status, &s->error, "scan");
    if (status == REGION_TRUNCATED) die("region scan: a record of %zu bytes", used);
    const char *p = page;
    for (size_t i = 0; i < n; i++) p = visit_record(p, visit, visit_arg);
    cells += n;
    if (status == REGION_DONE) break;
  }
  region_scanner_close(scanner);
  free(page);
  return cells;
}

static uint64_t scan_cells(void *arg, visit_fn visit, void *visit_arg) {
  session *s = arg;
  region_scanner_t *scanner;
  region_cell_t cell;
  region_status status;
  uint64_t cells = 0;
  check(region_scanner_open(s->region, NULL, NULL, &scanner, &s->error), &s->error, "scanner");
  while ((status = region_scanner_next(scanner, &cell, sizeof cell, &s->error)) == REGION_OK) {
    visit(visit_arg, cell.value.data, cell.value.len);
    cells++;
  }
  check(status, &s->error, "scan");
  region_scanner_close(scanner);
  return cells;
}

static uint64_t scan_from(void *arg, slice row, size_t n, visit_fn visit, void *visit_arg) {
  session *s = arg;
  region_scanner_t *scanner;
  region_cell_t cell;
  region_status status;
  region_scan_t some = {.struct_size = sizeof some, .start_row = {row.data, row.len}, .cell_limit = n};
  uint64_t cells = 0;
  check(region_scanner_open(s->region, NULL, &some, &scanner, &s->error), &s->error, "scanner");
  while ((status = region_scanner_next(scanner, &cell, sizeof cell, &s->error)) == REGION_OK) {
    visit(visit_arg, cell.value.data, cell.value.len);
    cells++;
  }
  check(status, &s->error, "scan");
  region_scanner_close(scanner);
  return cells;
}

static void close_region(void *arg) {
  database *db = arg;
  region_error_t error = REGION_ERROR_INIT;
  check(region_close(db->region, 0, REGION_WAIT_FOREVER, &error), &error, "close");
  free(db);
}

const engine engine_region = {
    .name = "region",
    .open = open_region,
    .session_begin = session_begin,
    .session_end = session_end,
    .increment = increment,
    .increment_batch = increment_batch,
    .put_batch = put_batch,
    .get = get,
    .scan = scan,
    .scan_cells = scan_cells,
    .scan_from = scan_from,
    .close = close_region,
};
