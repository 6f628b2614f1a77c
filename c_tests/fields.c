/* Fields that an operation does not take must be 0 or empty; what is told about a refusal: the element, once, in the words of this interface. */
#include "test.h"

static region_op_result_t res[3];

/* One element with a field that it does not take, between two good ones: nothing of the call is done, as an array and packed. */
static void refused(region_t *r, region_mutation_t bad, const char *field) {
  region_mutation_t m[3];
  char buf[512];
  size_t used = 0, i;
  m[0] = mutation(REGION_OP_PUT, "before", "q", "v", 0);
  m[1] = bad;
  m[2] = mutation(REGION_OP_PUT, "after", "q", "v", 0);
  memset(res, 0x77, sizeof res);
  EXPECT_NAMED(REGION_E_INVALID, field, region_batch_mutate(r, m, 3, sizeof m[0], NULL, res, sizeof res[0], &E));
  CHECK(E.op_index == 1 && strstr(E.msg, "REGION_OP_") != NULL);
  CHECK(res[0].status == REGION_E_NOT_RUN && res[1].status == REGION_E_INVALID && res[2].status == REGION_E_NOT_RUN);
  for (i = 0; i < 3; i++) {
    used = region_pack_op(buf, sizeof buf, used, &m[i]);
    CHECK(used > 0);
  }
  memset(res, 0x77, sizeof res);
  EXPECT_NAMED(REGION_E_INVALID, field, region_batch_mutate_packed(r, buf, used, 3, NULL, res, sizeof res[0], &E));
  CHECK(E.op_index == 1);
  CHECK(res[0].status == REGION_E_NOT_RUN && res[1].status == REGION_E_INVALID && res[2].status == REGION_E_NOT_RUN);
}

static void fields(region_t *r) {
  static const struct {
    uint32_t op, flags;
    int family, qual, value, delta; /* 1: it takes it */
  } takes[] = {
      {REGION_OP_PUT, 0, 1, 1, 1, 0},
      {REGION_OP_DELETE, 0, 1, 1, 0, 0},
      {REGION_OP_DELETE_VERSION, 0, 1, 1, 0, 0},
      {REGION_OP_DELETE_FAMILY, 0, 1, 0, 0, 0},
      {REGION_OP_DELETE_ROW, 0, 0, 0, 0, 0},
      {REGION_OP_APPEND, 0, 1, 1, 1, 0},
      {REGION_OP_INCREMENT, 0, 1, 1, 0, 1},
      {REGION_OP_DELETE_FAMILY_VERSION, 0, 1, 0, 0, 0},
      {REGION_OP_CHECK, REGION_CHECK_EQ, 1, 1, 1, 0},
      {REGION_OP_CHECK, REGION_CHECK_LT | REGION_CHECK_I64, 1, 1, 0, 1},
      {REGION_OP_CHECK, REGION_CHECK_EXISTS, 1, 1, 0, 0},
      {REGION_OP_CHECK, REGION_CHECK_ABSENT | REGION_CHECK_I64, 1, 1, 0, 0},
  };
  size_t i;
  for (i = 0; i < sizeof takes / sizeof takes[0]; i++) {
    region_mutation_t m, all;
    m = mutation(takes[i].op, "row", "", "", 0);
    m.flags = takes[i].flags;
    m.family = takes[i].family ? 1 : 0;
    all = m;
    if (!takes[i].family) all = m, all.family = 1, refused(r, all, "family");
    if (!takes[i].qual) all = m, all.qual = slice("q"), refused(r, all, "qual");
    if (!takes[i].value) all = m, all.value = slice("v"), refused(r, all, "value");
    if (!takes[i].delta) all = m, all.delta = -1, refused(r, all, "delta");
    /* What it takes is not objected to: whatever else is wrong, no field is. */
    if (takes[i].op == REGION_OP_DELETE_FAMILY_VERSION) m.timestamp = 1;
    if (takes[i].qual) m.qual = slice("q");
    if (takes[i].value) m.value = slice("12345678");
    if (takes[i].delta) m.delta = 3;
    region_error_init(&E);
    CHECK(region_batch_mutate(r, &m, 1, sizeof m, NULL, res, sizeof res[0], &E) != REGION_E_INVALID);
  }
  EXPECT_NAMED(REGION_E_INVALID, "qual", region_delete(r, "r", 1, 1, "q", 1, REGION_OP_DELETE_FAMILY, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "family", region_delete(r, "r", 1, 1, NULL, 0, REGION_OP_DELETE_ROW, NULL, &E));
}

/* Counts how often a text has a word. */
static int times(const char *text, const char *word) {
  int n = 0;
  for (; (text = strstr(text, word)) != NULL; text += strlen(word)) n++;
  return n;
}

static void told(region_t *r) {
  region_mutation_t m[3];
  region_inc_col_t c[3];
  int64_t v[3] = {-1, -1, -1};
  region_write_options_t w;
  region_family_t f;
  region_options_t o = options(REGION_OPEN_CREATE);
  region_t *none = NULL;
  int i;
  memset(&w, 0, sizeof w);
  w.struct_size = (uint32_t)sizeof w;
  memset(c, 0, sizeof c);
  for (i = 0; i < 3; i++) {
    c[i].family = 1;
    c[i].qual = slice(i == 0 ? "a" : i == 1 ? "b" : "c");
    c[i].delta = i == 1 ? 100 : 1;
  }
  /* A bound that is not met: which column's. */
  w.flags = REGION_W_BOUNDED;
  w.max_value = 10;
  E.op_index = 77;
  CHECK(region_increment_row(r, "bounds", 6, c, 3, sizeof c[0], &w, v, &E) == REGION_NOT_APPLIED);
  CHECK(E.status == REGION_NOT_APPLIED && E.op_index == 1 && v[0] == 0 && v[1] == 0 && v[2] == 0);
  /* A batch of which a part failed names the element once. */
  m[0] = mutation(REGION_OP_PUT, "good", "q", "v", 0);
  m[1] = mutation(REGION_OP_PUT, "bad", "q", "v", 0);
  m[1].family = 77;
  EXPECT_NAMED(REGION_E_PARTIAL, "REGION_E_NO_FAMILY", region_batch_mutate(r, m, 2, sizeof m[0], NULL, res, sizeof res[0], &E));
  CHECK(times(E.msg, "operation 1") == 1 && times(E.msg, "\"bad\"") == 1 && E.op_index == 1);
  /* Which check was not met, behind one that was. */
  m[0] = mutation(REGION_OP_CHECK, "good", "q", "", 0);
  m[0].flags = REGION_CHECK_EXISTS;
  m[1] = mutation(REGION_OP_CHECK, "good", "q", "", 0);
  m[1].flags = REGION_CHECK_ABSENT;
  CHECK(region_batch_mutate(r, m, 2, sizeof m[0], NULL, res, sizeof res[0], &E) == REGION_NOT_APPLIED);
  CHECK(E.op_index == 1);
  /* The words of this interface. */
  memset(&w, 0, sizeof w);
  w.struct_size = (uint32_t)sizeof w;
  w.reserved = 4;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "reserved must be 0 in version", region_put(r, "r", 1, 1, "q", 1, "v", 1, &w, &E));
  CHECK(strstr(E.msg, "not 4") != NULL && strstr(E.msg, "known") == NULL);
  memset(&f, 0, sizeof f);
  o.n_families = 1;
  o.family_size = sizeof f;
  EXPECT_NAMED(REGION_E_INVALID, "families is NULL, but its number of elements is 1", region_open(new_path("none"), &o, &none, &E));
  o = options(REGION_OPEN_CREATE);
  o.clock_unit = REGION_CLOCK_US;
  EXPECT_NAMED(REGION_E_LOCKED, "open already", region_open(new_path("fields"), &o, &none, &E));
  MUST(region_close(r, 0, 0, &E));
  EXPECT_NAMED(REGION_E_INVALID, "clock_unit us was asked for, the region has ns", region_open(new_path("fields"), &o, &none, &E));
}

/* Bounds that nothing would look at, and columns with a qualifier that their kind does not take. */
static void ignored(region_t *r) {
  region_write_options_t w;
  region_column_t c;
  region_scan_t s;
  region_scanner_t *scan = NULL;
  region_mutation_t m = mutation(REGION_OP_PUT, "ignored", "q", "v", 0);
  int64_t v;
  size_t used, n;
  char page[256];
  uint32_t kind;
  memset(&w, 0, sizeof w);
  w.struct_size = (uint32_t)sizeof w;
  w.max_value = 10;
  EXPECT_NAMED(REGION_E_INVALID, "opts.max_value", region_increment(r, "ignored", 7, 1, "q", 1, 1, &w, &v, &E));
  CHECK(strstr(E.msg, "REGION_W_BOUNDED") != NULL);
  EXPECT_NAMED(REGION_E_INVALID, "opts.max_value", region_put(r, "ignored", 7, 1, "q", 1, "v", 1, &w, &E));
  EXPECT_NAMED(REGION_E_INVALID, "opts.max_value", region_delete(r, "ignored", 7, 1, "q", 1, 0, &w, &E));
  EXPECT_NAMED(REGION_E_INVALID, "opts.max_value", region_append(r, "ignored", 7, 1, "q", 1, "v", 1, &w, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "opts.max_value", region_batch_mutate(r, &m, 1, sizeof m, &w, res, sizeof res[0], &E));
  w.max_value = 0;
  w.min_value = -1;
  EXPECT_NAMED(REGION_E_INVALID, "opts.min_value", region_increment(r, "ignored", 7, 1, "q", 1, 1, &w, &v, &E));
  w.min_value = 0;
  w.flags = REGION_W_SATURATE;
  EXPECT_NAMED(REGION_E_INVALID, "REGION_W_BOUNDED", region_increment(r, "ignored", 7, 1, "q", 1, 1, &w, &v, &E));
  /* Flags of increments elsewhere, by name. */
  w.flags = REGION_W_SET;
  EXPECT_NAMED(REGION_E_INVALID, "REGION_W_SET", region_put(r, "ignored", 7, 1, "q", 1, "v", 1, &w, &E));
  EXPECT_NAMED(REGION_E_INVALID, "REGION_W_SET", region_delete(r, "ignored", 7, 1, "q", 1, 0, &w, &E));
  EXPECT_NAMED(REGION_E_INVALID, "REGION_W_SET", region_append(r, "ignored", 7, 1, "q", 1, "v", 1, &w, NULL, &E));
  EXPECT(REGION_NOT_FOUND, region_counter_get(r, NULL, "ignored", 7, 1, "q", 1, &v, NULL, &E));
  /* Every call on one row is atomic, and may say so. */
  w.flags = REGION_W_ATOMIC;
  MUST(region_put(r, "atomic", 6, 1, "q", 1, "v", 1, &w, &E));
  MUST(region_append(r, "atomic", 6, 1, "q", 1, "w", 1, &w, NULL, &E));
  MUST(region_delete(r, "atomic", 6, 1, "q", 1, 0, &w, &E));
  MUST(region_increment(r, "atomic", 6, 1, "q", 1, 1, &w, &v, &E));
  w.nonce = 7;
  MUST(region_append(r, "atomic", 6, 1, "b", 1, "w", 1, &w, NULL, &E));

  memset(&c, 0, sizeof c);
  memset(&s, 0, sizeof s);
  s.struct_size = (uint32_t)sizeof s;
  s.columns = &c;
  s.n_columns = 1;
  s.column_size = sizeof c;
  c.family = 1;
  for (kind = REGION_COL_FAMILY; kind <= REGION_COL_RANGE; kind++) {
    c.kind = kind;
    c.qual_end = slice("z");
    if (kind == REGION_COL_RANGE) {
      MUST(region_get_row(r, NULL, "atomic", 6, &c, 1, sizeof c, 1, page, sizeof page, &used, &n, &E));
      continue;
    }
    EXPECT_NAMED(REGION_E_INVALID, "qual_end: REGION_COL_", region_scanner_open(r, NULL, &s, &scan, &E));
    CHECK(scan == NULL && E.op_index == 0);
    EXPECT_NAMED(REGION_E_INVALID, "qual_end: REGION_COL_", region_get_row(r, NULL, "atomic", 6, &c, 1, sizeof c, 1, page, sizeof page, &used, &n, &E));
  }
  c.kind = REGION_COL_FAMILY;
  c.qual_end = slice("");
  c.qual = slice("q");
  EXPECT_NAMED(REGION_E_INVALID, "qual: REGION_COL_FAMILY", region_scanner_open(r, NULL, &s, &scan, &E));
}

int main(void) {
  region_t *r = new_region("fields");
  fields(r);
  ignored(r);
  told(r);
  DONE();
}
