/* Whole rows: region_get_row; values pinned where they lie; keys of one row read at one instant. */
#include "test.h"

enum { COLS = 30 };

static unsigned char page[1 << 20];

static region_column_t column(uint32_t kind, const char *qual, const char *end) {
  region_column_t c;
  memset(&c, 0, sizeof c);
  c.family = 1;
  c.kind = kind;
  c.qual = slice(qual);
  c.qual_end = slice(end);
  return c;
}

static void fill(region_t *r) {
  int i;
  for (i = 0; i < COLS; i++) {
    char qual[16], value[128];
    snprintf(qual, sizeof qual, "q%02d", i);
    memset(value, 'v', sizeof value);
    MUST(region_put(r, "row", 3, 1, qual, 3, value, (size_t)(i * 3), NULL, &E));
  }
  MUST(put(r, "row0", "q00", "another row"));
}

/* Checks the page against the columns from `first` to `last`. */
static void check_page(size_t used, size_t n, int first, int last) {
  size_t at = 0, k = 0;
  region_cell_t c;
  memset(&c, 0, sizeof c);
  CHECK(n == (size_t)(last - first + 1) && used % 8 == 0);
  while ((at = region_unpack_cell(page, used, at, &c)) != 0) {
    char qual[8];
    snprintf(qual, sizeof qual, "q%02d", first + (int)k);
    CHECK(slice_is(c.qual, qual) && slice_is(c.row, "row"));
    CHECK(c.value.len == (size_t)(first + (int)k) * 3 && c.family == 1 && c.type == REGION_CELL_PUT && c.seq > 0 && c.timestamp > 0);
    CHECK(((c.flags & REGION_CELL_NEW_ROW) != 0) == (k == 0));
    CHECK(((c.flags & REGION_CELL_ROW_END) != 0) == (k + 1 == n));
    k++;
  }
  CHECK(k == n);
}

#define GET_ROW(r, opts, row, cols, n_cols, cap) \
  region_get_row(r, opts, row, strlen(row), cols, n_cols, sizeof(region_column_t), 0, page, cap, &used, &n, &E)

static void whole(region_t *r) {
  size_t used = 9, n = 9, needed, cap;
  MUST(GET_ROW(r, NULL, "row", NULL, 0, sizeof page));
  check_page(used, n, 0, COLS - 1);
  needed = used;
  /* Every size below: nothing but the bytes needed; at it: everything. The page is a heap block of its exact size. */
  for (cap = 0; cap <= needed; cap += 8) {
    unsigned char *small = (unsigned char *)malloc(cap == 0 ? 1 : cap);
    used = n = 9;
    EXPECT(cap < needed ? REGION_TRUNCATED : REGION_OK,
           region_get_row(r, NULL, "row", 3, NULL, 0, sizeof(region_column_t), 0, cap == 0 ? NULL : small, cap, &used, &n, &E));
    CHECK(used == needed && n == (size_t)(cap < needed ? 0 : COLS));
    free(small);
  }
}

static void chosen(region_t *r) {
  size_t used, n;
  region_column_t cols[2];
  cols[0] = column(REGION_COL_EXACT, "q07", "");
  MUST(GET_ROW(r, NULL, "row", cols, 1, sizeof page));
  check_page(used, n, 7, 7);
  cols[0] = column(REGION_COL_RANGE, "q10", "q13");
  MUST(GET_ROW(r, NULL, "row", cols, 1, sizeof page));
  check_page(used, n, 10, 12);
  cols[0] = column(REGION_COL_PREFIX, "q2", "");
  MUST(GET_ROW(r, NULL, "row", cols, 1, sizeof page));
  check_page(used, n, 20, 29);
  cols[0] = column(REGION_COL_EXACT, "q13", "");
  cols[1] = column(REGION_COL_EXACT, "q12", "");
  MUST(GET_ROW(r, NULL, "row", cols, 2, sizeof page));
  check_page(used, n, 12, 13);
  cols[0] = column(REGION_COL_EXACT, "none", "");
  EXPECT(REGION_NOT_FOUND, GET_ROW(r, NULL, "row", cols, 1, sizeof page));
  CHECK(used == 0 && n == 0);
  EXPECT(REGION_NOT_FOUND, GET_ROW(r, NULL, "none", NULL, 0, sizeof page));
  EXPECT(REGION_NOT_FOUND, GET_ROW(r, NULL, "none", NULL, 0, 0));
  cols[0].family = 77;
  EXPECT_NAMED(REGION_E_NO_FAMILY, "77", GET_ROW(r, NULL, "row", cols, 1, sizeof page));
  EXPECT(REGION_E_INVALID, GET_ROW(r, NULL, "", NULL, 0, sizeof page));
}

static void at_a_snapshot(region_t *r) {
  size_t used, n;
  region_snapshot_t *s = NULL;
  region_read_options_t o;
  memset(&o, 0, sizeof o);
  o.struct_size = (uint32_t)sizeof o;
  MUST(region_snapshot_open(r, 0, &s, &E));
  MUST(put(r, "row", "q00", "changed"));
  MUST(put(r, "row", "new", "x"));
  o.snapshot = s;
  MUST(GET_ROW(r, &o, "row", NULL, 0, sizeof page));
  check_page(used, n, 0, COLS - 1);
  MUST(GET_ROW(r, NULL, "row", NULL, 0, sizeof page));
  CHECK(n == COLS + 1);
  region_snapshot_close(s);
}

static void outside_the_range(void) {
  size_t used, n;
  region_t *r = NULL;
  region_options_t o = options(REGION_OPEN_CREATE);
  region_family_t f;
  memset(&f, 0, sizeof f);
  f.name = slice("f");
  o.families = &f;
  o.n_families = 1;
  o.family_size = sizeof f;
  o.start_row = slice("x");
  o.end_row = slice("z");
  MUST(region_open(new_path("range"), &o, &r, &E));
  EXPECT(REGION_E_RANGE, GET_ROW(r, NULL, "a", NULL, 0, sizeof page));
  EXPECT(REGION_NOT_FOUND, GET_ROW(r, NULL, "y", NULL, 0, sizeof page));
  MUST(region_close(r, 0, 0, &E));
}

/* A pinned value is where the library has it: it stays as it is whatever is written, also after the region is closed. */
static void pinned(void) {
  region_t *r = new_region("pinned");
  region_value_t v, w;
  region_stats_t stats;
  char long_value[5000];
  memset(long_value, 'p', sizeof long_value);
  memset(&v, 0, sizeof v);
  memset(&w, 0, sizeof w);
  memset(&stats, 0, sizeof stats);
  stats.struct_size = (uint32_t)sizeof stats;
  MUST(region_put(r, "row", 3, 1, "q", 1, long_value, sizeof long_value, NULL, &E));
  MUST(region_get(r, NULL, "row", 3, 1, "q", 1, &v, &E));
  MUST(region_get(r, NULL, "row", 3, 1, "q", 1, &w, &E));
  CHECK(v.pin != 0 && w.pin != 0 && v.len == sizeof long_value);
  /* Not copied: both lie in the same place. */
  CHECK(v.data == w.data);
  MUST(region_stats(r, &stats, &E));
  CHECK(stats.pinned_values == 2 && stats.pinned_bytes == 2 * sizeof long_value);
  region_value_release(&w);
  MUST(put(r, "row", "q", "short"));
  EXPECT_NAMED(REGION_E_BUSY, "1", region_close(r, 0, 0, &E));
  MUST(region_close(r, REGION_CLOSE_FORCE, 0, &E));
  CHECK(memcmp(v.data, long_value, sizeof long_value) == 0);
  region_value_release(&v);
  CHECK(v.data == NULL);
}

int main(void) {
  region_t *r = new_region("rows");
  fill(r);
  whole(r);
  chosen(r);
  at_a_snapshot(r);
  MUST(region_close(r, 0, 0, &E));
  outside_the_range();
  pinned();
  DONE();
}
