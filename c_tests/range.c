/* The key range of a region: every verb refuses a row outside, scans see what is inside, and a later open takes it as stored or not at all. And options of 0: as stored. */
#include "test.h"

static region_options_t ranged(uint32_t flags, const char *start, const char *end) {
  region_options_t o = options(flags);
  o.start_row = slice(start);
  o.end_row = slice(end);
  return o;
}

static int rows_of(region_t *r, const char *start, const char *end) {
  region_scan_t scan;
  region_scanner_t *s = NULL;
  region_cell_t c;
  int n = 0;
  memset(&scan, 0, sizeof scan);
  scan.struct_size = (uint32_t)sizeof scan;
  scan.start_row = slice(start);
  scan.end_row = slice(end);
  MUST(region_scanner_open(r, NULL, &scan, &s, &E));
  while (region_scanner_next(s, &c, sizeof c, &E) == REGION_OK) n++;
  region_scanner_close(s);
  return n;
}

static void outside(region_t *r, const char *row) {
  size_t n = strlen(row);
  int64_t v = 7;
  uint64_t ts = 7;
  region_value_t value;
  region_mutation_t m[2];
  region_write_options_t w;
  char buf[256], kb[256];
  int64_t values[2] = {7, 7};
  int32_t statuses[2] = {7, 7};
  size_t used = 0, done = 0, keys = 0;
  memset(&value, 0, sizeof value);
  memset(&w, 0, sizeof w);
  w.struct_size = (uint32_t)sizeof w;
  EXPECT_NAMED(REGION_E_RANGE, row, region_put(r, row, n, 1, "q", 1, "v", 1, NULL, &E));
  EXPECT_NAMED(REGION_E_RANGE, row, region_increment(r, row, n, 1, "n", 1, 1, NULL, &v, &E));
  EXPECT_NAMED(REGION_E_RANGE, row, region_delete(r, row, n, 1, "n", 1, 0, NULL, &E));
  EXPECT_NAMED(REGION_E_RANGE, row, region_counter_get(r, NULL, row, n, 1, "n", 1, &v, &ts, &E));
  CHECK(v == 0 && ts == 0);
  value.buf = buf;
  value.cap = sizeof buf;
  EXPECT_NAMED(REGION_E_RANGE, row, region_get(r, NULL, row, n, 1, "n", 1, &value, &E));
  CHECK(value.data == NULL);
  keys = region_pack_key(kb, sizeof kb, keys, 1, "c", 1, "n", 1);
  keys = region_pack_key(kb, sizeof kb, keys, 1, row, n, "n", 1);
  EXPECT_NAMED(REGION_E_RANGE, row, region_get_packed(r, NULL, kb, keys, 2, buf, sizeof buf, &used, &done, &E));
  CHECK(E.op_index == 1);
  EXPECT_NAMED(REGION_E_RANGE, row, region_counter_get_packed(r, NULL, kb, keys, 2, values, statuses, &E));
  CHECK(values[0] == 1 && statuses[0] == REGION_OK && statuses[1] == REGION_E_RANGE);
  m[0] = mutation(REGION_OP_INCREMENT, "c", "n", "", 1);
  m[1] = mutation(REGION_OP_INCREMENT, row, "n", "", 1);
  w.flags = REGION_W_ATOMIC;
  EXPECT_NAMED(REGION_E_RANGE, row, region_batch_mutate(r, m, 2, sizeof m[0], &w, NULL, 0, &E));
  MUST(region_counter_get(r, NULL, "c", 1, 1, "n", 1, &v, &ts, &E));
  CHECK(v == 1);
}

int main(void) {
  char path[512], json[16384];
  size_t len = 0;
  region_t *r = NULL;
  region_family_t f;
  region_options_t o = ranged(REGION_OPEN_CREATE, "b", "d");
  memset(&f, 0, sizeof f);
  f.name = slice("f");
  o.families = &f;
  o.n_families = 1;
  o.family_size = sizeof f;
  o.memstore_limit = 64 << 20;
  o.write_timeout_us = 1234567;
  o.wal_io = REGION_WAL_WRITE;
  snprintf(path, sizeof path, "%s", new_path("ranged"));
  MUST(region_open(path, &o, &r, &E));
  CHECK(increment(r, "b", "n", 1) == 1);
  CHECK(increment(r, "c", "n", 1) == 1);
  CHECK(increment(r, "czzz", "n", 1) == 1);
  outside(r, "a");
  outside(r, "d");
  outside(r, "e");
  CHECK(rows_of(r, "", "") == 3 && rows_of(r, "a", "z") == 3 && rows_of(r, "", "c") == 1 && rows_of(r, "d", "") == 0);
  MUST(region_close(r, 0, 0, &E));
  /* As stored, range and settings. */
  r = NULL;
  MUST(region_open(path, NULL, &r, &E));
  outside(r, "a");
  MUST(region_describe(r, json, sizeof json, &len, &E));
  CHECK(strstr(json, "\"start_row\":\"b\"") != NULL && strstr(json, "\"end_row\":\"d\"") != NULL);
  CHECK(strstr(json, "\"67108864\"") != NULL && strstr(json, "\"1234567\"") != NULL && strstr(json, "\"wal_io\":\"write\"") != NULL);
  CHECK(strstr(json, "\"value\":\"default\"") == NULL);
  MUST(region_close(r, 0, 0, &E));
  /* Anything else: refused, both are named. */
  r = NULL;
  o = ranged(0, "a", "d");
  EXPECT_NAMED(REGION_E_INVALID, "\"a\" was asked for, the region has \"b\"", region_open(path, &o, &r, &E));
  CHECK(r == NULL);
  o = ranged(0, "b", "e");
  EXPECT_NAMED(REGION_E_INVALID, "\"e\" was asked for, the region has \"d\"", region_open(path, &o, &r, &E));
  /* Too little memory for a region: nothing is made. */
  o = options(REGION_OPEN_CREATE);
  o.memstore_limit = 1 << 20;
  snprintf(path, sizeof path, "%s", new_path("tiny"));
  EXPECT_NAMED(REGION_E_INVALID, "an empty memstore takes 2097152 bytes", region_open(path, &o, &r, &E));
  CHECK(access(path, F_OK) != 0);
  DONE();
}
