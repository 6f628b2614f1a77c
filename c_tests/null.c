/* Every function with each pointer NULL, and NULL with a length. Nothing may crash; a missing argument is an error that names it. */
#include "test.h"

static void handles(void) {
  int64_t v;
  uint64_t ts;
  uint32_t id;
  size_t used, n;
  char buf[64];
  region_value_t val;
  region_op_result_t res;
  region_stats_t st;
  region_cell_t cell;
  region_snapshot_t *s = (region_snapshot_t *)buf;
  region_scanner_t *sc = (region_scanner_t *)buf;
  region_mutation_t m = mutation(REGION_OP_PUT, "r", "q", "v", 0);
  region_inc_col_t col;
  memset(&val, 0, sizeof val);
  memset(&col, 0, sizeof col);
  memset(&st, 0, sizeof st);
  st.struct_size = (uint32_t)sizeof st;

  EXPECT(REGION_OK, region_close(NULL, 0, 0, &E));
  EXPECT(REGION_E_HANDLE, region_family_id(NULL, "f", 1, &id, &E));
  EXPECT(REGION_E_HANDLE, region_family_set(NULL, NULL, 0, &id, &E));
  EXPECT(REGION_E_HANDLE, region_family_drop(NULL, 1, &E));
  EXPECT(REGION_E_HANDLE, region_family_next(NULL, 0, &id, NULL, 0, &E));
  EXPECT(REGION_E_HANDLE, region_describe(NULL, buf, sizeof buf, &n, &E));
  EXPECT(REGION_E_HANDLE, region_recovery_report(NULL, buf, sizeof buf, &n, &E));
  EXPECT(REGION_E_HANDLE, region_stats(NULL, &st, &E));
  EXPECT(REGION_E_HANDLE, region_increment(NULL, "r", 1, 1, "q", 1, 1, NULL, &v, &E));
  EXPECT(REGION_E_HANDLE, region_increment_row(NULL, "r", 1, &col, 1, sizeof col, NULL, &v, &E));
  EXPECT(REGION_E_HANDLE, region_increment_packed(NULL, buf, 0, 0, NULL, &res, sizeof res, &E));
  EXPECT(REGION_E_HANDLE, region_batch_mutate(NULL, &m, 1, sizeof m, NULL, &res, sizeof res, &E));
  EXPECT(REGION_E_HANDLE, region_batch_mutate_packed(NULL, buf, 0, 0, NULL, &res, sizeof res, &E));
  EXPECT(REGION_E_HANDLE, region_put(NULL, "r", 1, 1, "q", 1, "v", 1, NULL, &E));
  EXPECT(REGION_E_HANDLE, region_delete(NULL, "r", 1, 1, "q", 1, 0, NULL, &E));
  EXPECT(REGION_E_HANDLE, region_append(NULL, "r", 1, 1, "q", 1, "v", 1, NULL, NULL, &E));
  EXPECT(REGION_E_HANDLE, region_wait_durable(NULL, 1, 0, &E));
  EXPECT(REGION_E_HANDLE, region_get(NULL, NULL, "r", 1, 1, "q", 1, &val, &E));
  EXPECT(REGION_E_HANDLE, region_counter_get(NULL, NULL, "r", 1, 1, "q", 1, &v, &ts, &E));
  EXPECT(REGION_E_HANDLE, region_counter_get_packed(NULL, NULL, buf, 0, 0, &v, NULL, &E));
  EXPECT(REGION_E_HANDLE, region_get_packed(NULL, NULL, buf, 0, 0, buf, sizeof buf, &used, &n, &E));
  EXPECT(REGION_E_HANDLE, region_get_row(NULL, NULL, "r", 1, NULL, 0, 0, 1, buf, sizeof buf, &used, &n, &E));
  EXPECT(REGION_E_HANDLE, region_snapshot_open(NULL, 0, &s, &E));
  EXPECT(REGION_E_HANDLE, region_scanner_open(NULL, NULL, NULL, &sc, &E));
  EXPECT(REGION_E_HANDLE, region_scanner_next(NULL, &cell, sizeof cell, &E));
  EXPECT(REGION_E_HANDLE, region_scanner_next_page(NULL, buf, sizeof buf, &used, &n, &E));
  EXPECT(REGION_E_HANDLE, region_scanner_seek(NULL, "r", 1, &E));
  CHECK(region_snapshot_seq(NULL) == 0);
  region_snapshot_close(NULL);
  region_scanner_close(NULL);
  chunk_pool_close(NULL);
  region_value_release(NULL);
  /* Without an error struct the status is all there is. */
  CHECK(region_increment(NULL, NULL, 5, 0, NULL, 5, 0, NULL, NULL, NULL) == REGION_E_HANDLE);
  CHECK(region_close(NULL, 0, 0, NULL) == REGION_OK);
}

static void without_region(void) {
  region_t *r = (region_t *)(void *)&E;
  chunk_pool_t *p = (chunk_pool_t *)(void *)&E;
  chunk_pool_stats_t st;
  size_t used;
  char buf[8];
  memset(&st, 0, sizeof st);
  st.struct_size = (uint32_t)sizeof st;
  EXPECT_NAMED(REGION_E_INVALID, "path", region_open(NULL, NULL, &r, &E));
  CHECK(r == NULL);
  EXPECT_NAMED(REGION_E_INVALID, "path", region_open("", NULL, &r, &E));
  EXPECT_NAMED(REGION_E_INVALID, "out", region_open(new_path("n"), NULL, NULL, &E));
  r = (region_t *)(void *)&E;
  EXPECT(REGION_E_NO_REGION, region_open(new_path("none"), NULL, &r, &E));
  CHECK(r == NULL);
  EXPECT_NAMED(REGION_E_INVALID, "path", region_destroy(NULL, &E));
  EXPECT(REGION_E_NO_REGION, region_destroy(new_path("none"), &E));
  EXPECT_NAMED(REGION_E_INVALID, "out", chunk_pool_create(NULL, NULL, &E));
  MUST(chunk_pool_create(NULL, &p, &E));
  EXPECT_NAMED(REGION_E_INVALID, "out", chunk_pool_stats(p, NULL, &E));
  EXPECT(REGION_OK, chunk_pool_stats(NULL, &st, &E));
  EXPECT(REGION_OK, chunk_pool_trim(NULL, UINT64_MAX, &E));
  chunk_pool_close(p);
  EXPECT_NAMED(REGION_E_INVALID, "layout_hash", region_abi_check(0, NULL, &E));
  CHECK(region_log_poll(NULL, 0, NULL, NULL) == REGION_E_INVALID);
  CHECK(region_log_poll(NULL, 8, &used, NULL) == REGION_E_INVALID);
  CHECK(region_log_poll(buf, sizeof buf, &used, NULL) >= 0);
  CHECK(region_log_set_callback(NULL, NULL, 0) == REGION_OK);
}

static void arguments(region_t *r) {
  int64_t v = 77;
  uint32_t id = 77;
  size_t used = 77, n = 77;
  char buf[256];
  region_value_t val;
  region_op_result_t res;
  region_stats_t st;
  region_cell_t cell;
  region_snapshot_t *s = NULL;
  region_scanner_t *sc = NULL;
  region_mutation_t m = mutation(REGION_OP_PUT, "r", "q", "v", 0);
  region_inc_col_t col;
  size_t len;
  memset(&val, 0, sizeof val);
  memset(&col, 0, sizeof col);
  memset(&st, 0, sizeof st);
  col.family = 1;
  col.qual = slice("q");

  /* NULL with a length is an error; nothing is read and nothing done. */
  EXPECT_NAMED(REGION_E_INVALID, "row", region_increment(r, NULL, 5, 1, "q", 1, 1, NULL, &v, &E));
  CHECK(v == 0);
  EXPECT_NAMED(REGION_E_INVALID, "qual", region_increment(r, "r", 1, 1, NULL, 5, 1, NULL, &v, &E));
  EXPECT_NAMED(REGION_E_INVALID, "row", region_increment(r, "r", SIZE_MAX, 1, "q", 1, 1, NULL, &v, &E));
  EXPECT_NAMED(REGION_E_INVALID, "name", region_family_id(r, NULL, 5, &id, &E));
  CHECK(id == 0);
  EXPECT_NAMED(REGION_E_INVALID, "id", region_family_id(r, "f", 1, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "f", region_family_set(r, NULL, sizeof(region_family_t), &id, &E));
  EXPECT_NAMED(REGION_E_INVALID, "json", region_describe(r, NULL, 5, &len, &E));
  EXPECT_NAMED(REGION_E_INVALID, "json", region_recovery_report(r, NULL, 5, &len, &E));
  EXPECT_NAMED(REGION_E_INVALID, "out", region_stats(r, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "row", region_increment_row(r, NULL, 1, &col, 1, sizeof col, NULL, &v, &E));
  EXPECT_NAMED(REGION_E_INVALID, "cols", region_increment_row(r, "r", 1, NULL, 1, sizeof col, NULL, &v, &E));
  EXPECT_NAMED(REGION_E_INVALID, "incs", region_increment_packed(r, NULL, 5, 1, NULL, &res, sizeof res, &E));
  EXPECT_NAMED(REGION_E_INVALID, "ops", region_batch_mutate(r, NULL, 1, sizeof m, NULL, &res, sizeof res, &E));
  EXPECT_NAMED(REGION_E_INVALID, "ops", region_batch_mutate_packed(r, NULL, 5, 1, NULL, &res, sizeof res, &E));
  EXPECT_NAMED(REGION_E_INVALID, "value", region_put(r, "r", 1, 1, "q", 1, NULL, 5, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "row", region_put(r, NULL, 1, 1, "q", 1, "v", 1, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "qual", region_put(r, "r", 1, 1, NULL, 1, "v", 1, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "row", region_delete(r, NULL, 1, 1, "q", 1, 0, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "qual", region_delete(r, "r", 1, 1, NULL, 1, 0, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "suffix", region_append(r, "r", 1, 1, "q", 1, NULL, 1, NULL, NULL, &E));
  EXPECT(REGION_E_INVALID, region_wait_durable(r, 0, 0, &E));
  EXPECT_NAMED(REGION_E_INVALID, "val", region_get(r, NULL, "r", 1, 1, "q", 1, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "row", region_get(r, NULL, NULL, 1, 1, "q", 1, &val, &E));
  EXPECT_NAMED(REGION_E_INVALID, "qual", region_get(r, NULL, "r", 1, 1, NULL, 1, &val, &E));
  val.cap = 5;
  EXPECT_NAMED(REGION_E_INVALID, "buf", region_get(r, NULL, "r", 1, 1, "q", 1, &val, &E));
  EXPECT_NAMED(REGION_E_INVALID, "row", region_counter_get(r, NULL, NULL, 1, 1, "q", 1, &v, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "keys", region_counter_get_packed(r, NULL, NULL, 8, 1, &v, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "values", region_counter_get_packed(r, NULL, buf, 8, 1, NULL, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "keys", region_get_packed(r, NULL, NULL, 8, 1, buf, sizeof buf, &used, &n, &E));
  EXPECT_NAMED(REGION_E_INVALID, "page", region_get_packed(r, NULL, buf, 0, 0, NULL, 5, &used, &n, &E));
  CHECK(used == 0 && n == 0);
  EXPECT_NAMED(REGION_E_INVALID, "used", region_get_packed(r, NULL, buf, 0, 0, buf, 8, NULL, &n, &E));
  EXPECT_NAMED(REGION_E_INVALID, "n_done", region_get_packed(r, NULL, buf, 0, 0, buf, 8, &used, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "columns", region_get_row(r, NULL, "r", 1, NULL, 1, sizeof(region_column_t), 1, buf, 8, &used, &n, &E));
  EXPECT_NAMED(REGION_E_INVALID, "out", region_snapshot_open(r, 0, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "out", region_scanner_open(r, NULL, NULL, NULL, &E));
  MUST(region_scanner_open(r, NULL, NULL, &sc, &E));
  EXPECT_NAMED(REGION_E_INVALID, "cell", region_scanner_next(sc, NULL, sizeof cell, &E));
  EXPECT_NAMED(REGION_E_INVALID, "used", region_scanner_next_page(sc, buf, sizeof buf, NULL, &n, &E));
  EXPECT_NAMED(REGION_E_INVALID, "n_cells", region_scanner_next_page(sc, buf, sizeof buf, &used, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "page", region_scanner_next_page(sc, NULL, 5, &used, &n, &E));
  EXPECT_NAMED(REGION_E_INVALID, "row", region_scanner_seek(sc, NULL, 5, &E));
  region_scanner_close(sc);

  /* NULL with length 0 is the empty string; outputs that nobody wants are NULL. */
  EXPECT(REGION_OK, region_increment(r, "r", 1, 1, NULL, 0, 4, NULL, NULL, &E));
  EXPECT(REGION_OK, region_increment(r, "r", 1, 1, "", 0, 0, NULL, &v, &E));
  CHECK(v == 4);
  EXPECT(REGION_OK, region_put(r, "r", 1, 1, "empty", 5, NULL, 0, NULL, &E));
  memset(&val, 0, sizeof val);
  EXPECT(REGION_OK, region_get(r, NULL, "r", 1, 1, "empty", 5, &val, &E));
  CHECK(val.len == 0 && val.pin == 0 && val.seq != 0);
  EXPECT(REGION_OK, region_increment_packed(r, NULL, 0, 0, NULL, NULL, 0, &E));
  EXPECT(REGION_OK, region_batch_mutate(r, NULL, 0, 0, NULL, NULL, 0, &E));
  EXPECT(REGION_OK, region_batch_mutate_packed(r, NULL, 0, 0, NULL, NULL, 0, &E));
  EXPECT(REGION_OK, region_counter_get_packed(r, NULL, NULL, 0, 0, NULL, NULL, &E));
  EXPECT(REGION_OK, region_get_packed(r, NULL, NULL, 0, 0, NULL, 0, &used, &n, &E));
  EXPECT(REGION_OK, region_increment_row(r, "r", 1, &col, 1, sizeof col, NULL, NULL, &E));
  EXPECT(REGION_OK, region_counter_get(r, NULL, "r", 1, 1, NULL, 0, NULL, NULL, &E));
  EXPECT(REGION_OK, region_family_next(r, 0, NULL, NULL, 0, &E));
  EXPECT(REGION_TRUNCATED, region_describe(r, NULL, 0, &len, &E));
  CHECK(len > 0);
  MUST(region_snapshot_open(r, 0, &s, NULL));
  region_snapshot_close(s);
}

int main(void) {
  region_t *r;
  handles();
  without_region();
  r = new_region("null");
  arguments(r);
  MUST(region_close(r, 0, 0, NULL));
  DONE();
}
