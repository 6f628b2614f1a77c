/* Scanners: cells one by one, in pages, mixed; limits of pages; rows whole. */
#include "test.h"

enum { ROWS = 20, COLS = 3 };

static void fill(region_t *r) {
  int i, c;
  for (i = 0; i < ROWS; i++) {
    char row[16], value[64];
    snprintf(row, sizeof row, "row%03d", i);
    for (c = 0; c < COLS; c++) {
      char qual[2];
      qual[0] = (char)('a' + c);
      qual[1] = 0;
      memset(value, 'v', sizeof value);
      MUST(region_put(r, row, strlen(row), 1, qual, 1, value, (size_t)(1 + (i * 7 + c * 5) % 50), NULL, &E));
    }
  }
}

static region_scan_t scan0(uint32_t flags) {
  region_scan_t s;
  memset(&s, 0, sizeof s);
  s.struct_size = (uint32_t)sizeof s;
  s.flags = flags;
  return s;
}

/* The i-th cell of the whole scan. */
static void check_cell(const region_cell_t *c, int i, int paged, int first_of_page) {
  char row[16];
  snprintf(row, sizeof row, "row%03d", i / COLS);
  CHECK(slice_is(c->row, row));
  CHECK(c->qual.len == 1 && *(const char *)c->qual.data == 'a' + i % COLS);
  CHECK(c->value.len == (size_t)(1 + (i / COLS * 7 + i % COLS * 5) % 50));
  CHECK(c->family == 1 && c->type == REGION_CELL_PUT && c->seq > 0 && c->timestamp > 0);
  CHECK(((c->flags & REGION_CELL_NEW_ROW) != 0) == (i % COLS == 0 || (paged && first_of_page)));
  CHECK(((c->flags & REGION_CELL_ROW_END) != 0) == (i % COLS == COLS - 1));
}

static void one_by_one(region_t *r) {
  region_scanner_t *s = NULL;
  region_cell_t c;
  int i;
  MUST(region_scanner_open(r, NULL, NULL, &s, &E));
  for (i = 0; i < ROWS * COLS; i++) {
    MUST(region_scanner_next(s, &c, sizeof c, &E));
    check_cell(&c, i, 0, 0);
  }
  EXPECT(REGION_DONE, region_scanner_next(s, &c, sizeof c, &E));
  EXPECT(REGION_DONE, region_scanner_next(s, &c, sizeof c, &E));
  CHECK(c.row.len == 0);
  EXPECT(REGION_OK, region_scanner_seek(s, "row010", 6, &E));
  MUST(region_scanner_next(s, &c, sizeof c, &E));
  CHECK(slice_is(c.row, "row010"));
  region_scanner_close(s);
}

/* Pages of every size; the page lies in a heap block of its exact size. */
static void pages(region_t *r, uint32_t flags) {
  size_t cap;
  for (cap = 0; cap < 700; cap += flags == 0 ? 8 : 24) {
    region_scan_t spec = scan0(flags);
    region_scanner_t *s = NULL;
    int i = 0, ends = 0, guard = 0;
    size_t grown = cap;
    MUST(region_scanner_open(r, NULL, &spec, &s, &E));
    while (!ends && guard++ < 1000) {
      size_t used = 99, n = 99, at = 0, k = 0;
      unsigned char *page = (unsigned char *)malloc(grown == 0 ? 1 : grown);
      region_cell_t c;
      region_status rc = region_scanner_next_page(s, page, grown, &used, &n, &E);
      memset(&c, 0, sizeof c);
      if (rc == REGION_DONE) {
        CHECK(used == 0 && n == 0);
        ends = 1;
      } else if (rc == REGION_TRUNCATED) {
        CHECK(n == 0 && used > grown && used < 1000);
        grown = used;
      } else {
        CHECK(rc == REGION_OK && n > 0 && used <= grown && used % 8 == 0);
        while ((at = region_unpack_cell(page, used, at, &c)) != 0) {
          check_cell(&c, i++, 1, k == 0);
          k++;
        }
        CHECK(k == n);
        if (flags & REGION_SCAN_WHOLE_ROWS) CHECK((c.flags & REGION_CELL_ROW_END) != 0);
        grown = cap;
      }
      free(page);
    }
    CHECK(ends && i == ROWS * COLS);
    region_scanner_close(s);
  }
}

static void mixed(region_t *r, uint32_t flags) {
  region_scan_t spec = scan0(flags);
  region_scanner_t *s = NULL;
  int i = 0, turn = 0;
  MUST(region_scanner_open(r, NULL, &spec, &s, &E));
  for (;;) {
    region_cell_t c;
    memset(&c, 0, sizeof c);
    if (turn++ % 2 == 0) {
      region_status rc = region_scanner_next(s, &c, sizeof c, &E);
      if (rc == REGION_DONE) break;
      CHECK(rc == REGION_OK);
      check_cell(&c, i++, 0, 0);
    } else {
      unsigned char page[300];
      size_t used, n, at = 0, k = 0;
      region_status rc = region_scanner_next_page(s, page, sizeof page, &used, &n, &E);
      if (rc == REGION_DONE) break;
      CHECK(rc == REGION_OK);
      while ((at = region_unpack_cell(page, used, at, &c)) != 0) check_cell(&c, i++, 1, k++ == 0);
    }
  }
  CHECK(i == ROWS * COLS);
  region_scanner_close(s);
}

static void bounds(region_t *r) {
  region_scan_t spec = scan0(0);
  region_column_t col[2];
  region_scanner_t *s = NULL;
  region_cell_t c;
  int n = 0;
  memset(col, 0, sizeof col);
  spec.start_row = slice("row003");
  spec.end_row = slice("row006");
  col[0].family = 1;
  col[0].kind = REGION_COL_EXACT;
  col[0].qual = slice("b");
  spec.columns = col;
  spec.n_columns = 1;
  spec.column_size = sizeof col[0];
  MUST(region_scanner_open(r, NULL, &spec, &s, &E));
  while (region_scanner_next(s, &c, sizeof c, &E) == REGION_OK) {
    n++;
    CHECK(slice_is(c.qual, "b") && (c.flags & REGION_CELL_NEW_ROW) && (c.flags & REGION_CELL_ROW_END));
  }
  CHECK(n == 3);
  region_scanner_close(s);
  col[0].qual.data = NULL;
  EXPECT_NAMED(REGION_E_INVALID, "columns[0]", region_scanner_open(r, NULL, &spec, &s, &E));
  CHECK(s == NULL);
  spec = scan0(0);
  spec.start_row.len = 3;
  EXPECT_NAMED(REGION_E_INVALID, "start_row", region_scanner_open(r, NULL, &spec, &s, &E));
}

/* Backward: rows from the last to the first, the cells of a row as ever; in pages of every size, too. */
static void backward(region_t *r) {
  size_t cap;
  region_scan_t spec = scan0(REGION_SCAN_REVERSE);
  region_scanner_t *s = NULL;
  region_cell_t c;
  int i = 0;
  MUST(region_scanner_open(r, NULL, &spec, &s, &E));
  while (region_scanner_next(s, &c, sizeof c, &E) == REGION_OK) {
    check_cell(&c, (ROWS - 1 - i / COLS) * COLS + i % COLS, 0, 0);
    i++;
  }
  CHECK(i == ROWS * COLS);
  EXPECT(REGION_OK, region_scanner_seek(s, "row0105", 7, &E));
  MUST(region_scanner_next(s, &c, sizeof c, &E));
  CHECK(slice_is(c.row, "row010"));
  region_scanner_close(s);
  for (cap = 120; cap < 600; cap += 40) {
    unsigned char page[600];
    MUST(region_scanner_open(r, NULL, &spec, &s, &E));
    for (i = 0;;) {
      size_t used, n, at = 0, k = 0;
      region_status rc = region_scanner_next_page(s, page, cap, &used, &n, &E);
      if (rc == REGION_DONE) break;
      CHECK(rc == REGION_OK);
      if (rc != REGION_OK) break;
      while ((at = region_unpack_cell(page, used, at, &c)) != 0) {
        check_cell(&c, (ROWS - 1 - i / COLS) * COLS + i % COLS, 1, k++ == 0);
        i++;
      }
    }
    CHECK(i == ROWS * COLS);
    region_scanner_close(s);
  }
}

/* Several versions, and everything that is stored. */
static void versions(void) {
  region_t *r = new_region("versions");
  region_family_t f;
  region_scan_t spec = scan0(0);
  region_scanner_t *s = NULL;
  region_cell_t c;
  region_column_t col;
  uint32_t id;
  int i;
  memset(&f, 0, sizeof f);
  memset(&col, 0, sizeof col);
  f.name = slice("f");
  f.max_versions = 3;
  MUST(region_family_set(r, &f, sizeof f, &id, &E));
  for (i = 0; i < 5; i++) {
    char value[2];
    value[0] = (char)('0' + i);
    value[1] = 0;
    MUST(put(r, "row", "q", value));
  }
  spec.max_versions = 10;
  MUST(region_scanner_open(r, NULL, &spec, &s, &E));
  for (i = 4; i >= 2; i--) {
    MUST(region_scanner_next(s, &c, sizeof c, &E));
    CHECK(c.value.len == 1 && *(const char *)c.value.data == '0' + i);
  }
  EXPECT(REGION_DONE, region_scanner_next(s, &c, sizeof c, &E));
  region_scanner_close(s);
  MUST(region_delete(r, "row", 3, 1, "q", 1, 0, NULL, &E));
  spec.flags = REGION_SCAN_RAW;
  MUST(region_scanner_open(r, NULL, &spec, &s, &E));
  MUST(region_scanner_next(s, &c, sizeof c, &E));
  CHECK(c.type == REGION_CELL_DELETE && c.value.len == 0);
  for (i = 4; i >= 0; i--) {
    MUST(region_scanner_next(s, &c, sizeof c, &E));
    CHECK(c.type == REGION_CELL_PUT && *(const char *)c.value.data == '0' + i);
  }
  EXPECT(REGION_DONE, region_scanner_next(s, &c, sizeof c, &E));
  region_scanner_close(s);
  col.family = 1;
  spec.columns = &col;
  spec.n_columns = 1;
  spec.column_size = sizeof col;
  EXPECT_NAMED(REGION_E_INVALID, "RAW", region_scanner_open(r, NULL, &spec, &s, &E));
  MUST(region_close(r, 0, 0, &E));
}

/* A scan sees the instant at which it was opened. */
static void stable(region_t *r) {
  region_scanner_t *s = NULL;
  region_cell_t c;
  int n = 0;
  MUST(region_scanner_open(r, NULL, NULL, &s, &E));
  MUST(put(r, "row0005", "new", "x"));
  MUST(region_delete(r, "row000", 6, 1, "a", 1, 0, NULL, &E));
  while (region_scanner_next(s, &c, sizeof c, &E) == REGION_OK) check_cell(&c, n++, 0, 0);
  CHECK(n == ROWS * COLS);
  region_scanner_close(s);
}

int main(void) {
  region_t *r = new_region("scan");
  fill(r);
  one_by_one(r);
  pages(r, 0);
  pages(r, REGION_SCAN_WHOLE_ROWS);
  mixed(r, 0);
  mixed(r, REGION_SCAN_WHOLE_ROWS);
  bounds(r);
  backward(r);
  stable(r);
  versions();
  MUST(region_close(r, 0, 0, &E));
  DONE();
}
