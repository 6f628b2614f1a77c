/* Lengths that no buffer has are refused before a byte is read (BUG-91); whatever a call was given may be overwritten once it returned (BUG-92). */
#include "test.h"

enum { N = 1000 };

/* BUG-91: lengths of rows, qualifiers and values around 2^31 and 2^32 and beyond. The buffer has one byte. */
static void bug_91(region_t *r) {
  static const size_t lengths[] = {(size_t)INT32_MAX, (size_t)INT32_MAX + 1, UINT32_MAX, (size_t)UINT32_MAX + 1, (size_t)UINT32_MAX + 2, SIZE_MAX / 2};
  size_t i;
  int kind;
  for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    size_t n = lengths[i];
    int64_t v = 7;
    region_value_t value;
    memset(&value, 0, sizeof value);
    EXPECT(REGION_E_TOO_LARGE, region_put(r, "x", n, 1, "q", 1, "v", 1, NULL, &E));
    EXPECT(REGION_E_TOO_LARGE, region_put(r, "x", 1, 1, "q", n, "v", 1, NULL, &E));
    EXPECT(REGION_E_TOO_LARGE, region_put(r, "x", 1, 1, "q", 1, "v", n, NULL, &E));
    EXPECT(REGION_E_TOO_LARGE, region_increment(r, "x", n, 1, "q", 1, 1, NULL, &v, &E));
    EXPECT(REGION_E_TOO_LARGE, region_get(r, NULL, "x", n, 1, "q", 1, &value, &E));
    for (kind = 0; kind < 3; kind++) {
      region_mutation_t m[2];
      region_op_result_t results[2];
      m[0] = mutation(REGION_OP_PUT, "good", "q", "v", 0);
      m[1] = mutation(REGION_OP_PUT, "x", "q", "v", 0);
      (kind == 0 ? &m[1].row : kind == 1 ? &m[1].qual : &m[1].value)->len = n;
      EXPECT(REGION_E_PARTIAL, region_batch_mutate(r, m, 2, sizeof m[0], NULL, results, sizeof results[0], &E));
      CHECK(E.op_index == 1 && results[0].status == REGION_OK && results[1].status == REGION_E_TOO_LARGE);
    }
  }
  for (i = 0; i < 2; i++) {
    int64_t v = 7;
    size_t n = i == 0 ? SIZE_MAX : SIZE_MAX / 2 + 1;
    EXPECT(REGION_E_INVALID, region_put(r, "x", n, 1, "q", 1, "v", 1, NULL, &E));
    EXPECT(REGION_E_INVALID, region_put(r, "x", 1, 1, "q", 1, "v", n, NULL, &E));
    EXPECT(REGION_E_INVALID, region_increment(r, "x", 1, 1, "q", n, 1, NULL, &v, &E));
  }
  MUST(put(r, "afterwards", "q", "v"));
}

static void same(region_t *r, const char *row, const char *qual, const char *text) {
  char buf[64];
  region_value_t value;
  memset(&value, 0, sizeof value);
  value.buf = buf;
  value.cap = sizeof buf;
  MUST(region_get(r, NULL, row, strlen(row), 1, qual, strlen(qual), &value, &E));
  CHECK(value.len == strlen(text) && memcmp(value.data, text, value.len) == 0);
}

/* BUG-92: one buffer for all keys and one for all values, overwritten after each call and freed after the last; lists of a batch; bounds and columns of a scan; names,
 * paths and texts of an open. */
static void bug_92(void) {
  char *path = strdup(new_path("reused")), *name = strdup("f"), *config = strdup("nonce_window_s=77");
  char text[4096], row[32];
  region_options_t o = options(REGION_OPEN_CREATE);
  region_family_t *f = (region_family_t *)calloc(1, sizeof *f);
  region_mutation_t *m = (region_mutation_t *)calloc(10, sizeof *m);
  char *rows = (char *)malloc(10 * 16), *value = (char *)malloc(32), *key = (char *)malloc(32);
  region_scan_t scan;
  region_column_t *c = (region_column_t *)calloc(1, sizeof *c);
  region_scanner_t *s = NULL;
  region_cell_t cell;
  region_t *r = NULL;
  size_t len;
  uint32_t id = 0;
  int i, n;
  f->name = slice(name);
  o.families = f;
  o.n_families = 1;
  o.family_size = sizeof *f;
  o.config = config;
  MUST(region_open(path, &o, &r, &E));
  memset(path, 'x', strlen(path)), memset(config, 'x', strlen(config)), memset(name, 'x', 1), memset(f, 0xff, sizeof *f);
  free(path), free(config), free(name), free(f);
  MUST(region_family_id(r, "f", 1, &id, &E));
  CHECK(id == 1);
  MUST(region_describe(r, text, sizeof text, &len, &E));
  CHECK(strstr(text, "/reused") != NULL && strstr(text, "77") != NULL);
  for (i = 0; i < N; i++) {
    snprintf(key, 32, "key%04d", i);
    snprintf(value, 32, "value %d", i);
    MUST(put(r, key, key + 3, value));
    memset(key, 'x', 31), memset(value, 'y', 31);
  }
  for (n = 0; n < N / 10; n++) {
    for (i = 0; i < 10; i++) {
      snprintf(rows + i * 16, 16, "batch%04d", n * 10 + i);
      m[i] = mutation(REGION_OP_PUT, rows + i * 16, "q", rows + i * 16 + 5, 0);
    }
    MUST(region_batch_mutate(r, m, 10, sizeof m[0], NULL, NULL, 0, &E));
    memset(rows, 'x', 10 * 16), memset(m, 0xff, 10 * sizeof *m);
  }
  free(rows), free(m), free(value);
  for (i = 0; i < N; i++) {
    char expected[32];
    snprintf(row, sizeof row, "key%04d", i);
    snprintf(expected, sizeof expected, "value %d", i);
    same(r, row, row + 3, expected);
    snprintf(row, sizeof row, "batch%04d", i);
    same(r, row, "q", row + 5);
  }
  memset(&scan, 0, sizeof scan);
  scan.struct_size = (uint32_t)sizeof scan;
  strcpy(key, "batch0100");
  scan.start_row = slice(key);
  strcpy(key + 16, "batch0200");
  scan.end_row = slice(key + 16);
  c->family = 1;
  c->kind = REGION_COL_PREFIX;
  c->qual.data = key + 31;
  key[31] = 'q';
  c->qual.len = 1;
  scan.columns = c;
  scan.n_columns = 1;
  scan.column_size = sizeof *c;
  MUST(region_scanner_open(r, NULL, &scan, &s, &E));
  memset(&scan, 0xff, sizeof scan), memset(key, 'z', 32), memset(c, 0xff, sizeof *c);
  free(key), free(c);
  for (i = 100; i < 200; i++) {
    snprintf(row, sizeof row, "batch%04d", i);
    MUST(region_scanner_next(s, &cell, sizeof cell, &E));
    CHECK(slice_is(cell.row, row) && slice_is(cell.value, row + 5));
  }
  EXPECT(REGION_DONE, region_scanner_next(s, &cell, sizeof cell, &E));
  region_scanner_close(s);
  MUST(region_close(r, 0, 0, &E));
}

int main(void) {
  region_t *r = new_region("limits");
  bug_91(r);
  MUST(region_close(r, 0, 0, &E));
  bug_92();
  DONE();
}
