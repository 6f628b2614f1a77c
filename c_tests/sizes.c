/* Structs that grow: shorter = an old caller, longer with a zero tail = a new one that asks for nothing new, longer with a tail = E_UNSUPPORTED. */
#include "test.h"

/* A struct with room behind it, as a newer header would have. */
#define BIGGER(type) \
  struct {           \
    type s;          \
    uint64_t tail[2]; \
  }

static void inputs(region_t *r) {
  BIGGER(region_write_options_t) w;
  BIGGER(region_read_options_t) rd;
  BIGGER(region_scan_t) sc;
  BIGGER(chunk_pool_options_t) po;
  int64_t v;
  region_scanner_t *scan = NULL;
  chunk_pool_t *pool = NULL;
  uint32_t size;

  memset(&w, 0, sizeof w);
  w.s.struct_size = (uint32_t)sizeof w;
  EXPECT(REGION_OK, region_increment(r, "r", 1, 1, "q", 1, 1, &w.s, &v, &E));
  w.tail[1] = 1;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "opts", region_increment(r, "r", 1, 1, "q", 1, 1, &w.s, &v, &E));
  /* The tail lies behind a shorter struct: not looked at. */
  for (size = 8; size <= sizeof(region_write_options_t); size += 8) {
    w.s.struct_size = size;
    EXPECT(REGION_OK, region_increment(r, "r", 1, 1, "q", 1, 1, &w.s, &v, &E));
  }
  /* Fields beyond the size are not looked at either. */
  w.s.timestamp = UINT64_MAX;
  w.s.struct_size = 16;
  EXPECT(REGION_OK, region_increment(r, "r", 1, 1, "q", 1, 1, &w.s, &v, &E));
  for (size = 0; size < 12; size++) {
    static const uint32_t wrong[12] = {0, 1, 4, 7, 9, 12, 15, 87, 89, 4104, 1u << 20, UINT32_MAX};
    w.s.struct_size = wrong[size];
    EXPECT_NAMED(REGION_E_INVALID, "size", region_increment(r, "r", 1, 1, "q", 1, 1, &w.s, &v, &E));
  }

  memset(&rd, 0, sizeof rd);
  rd.s.struct_size = (uint32_t)sizeof rd;
  EXPECT(REGION_OK, region_counter_get(r, &rd.s, "r", 1, 1, "q", 1, &v, NULL, &E));
  rd.tail[0] = 1;
  EXPECT(REGION_E_UNSUPPORTED, region_counter_get(r, &rd.s, "r", 1, 1, "q", 1, &v, NULL, &E));
  rd.s.struct_size = 8;
  EXPECT(REGION_OK, region_counter_get(r, &rd.s, "r", 1, 1, "q", 1, &v, NULL, &E));
  rd.s.struct_size = 0;
  EXPECT(REGION_E_INVALID, region_counter_get(r, &rd.s, "r", 1, 1, "q", 1, &v, NULL, &E));

  memset(&sc, 0, sizeof sc);
  sc.s.struct_size = (uint32_t)sizeof sc;
  EXPECT(REGION_OK, region_scanner_open(r, NULL, &sc.s, &scan, &E));
  region_scanner_close(scan);
  sc.tail[0] = 1;
  EXPECT(REGION_E_UNSUPPORTED, region_scanner_open(r, NULL, &sc.s, &scan, &E));
  CHECK(scan == NULL);
  sc.s.struct_size = 24;
  EXPECT(REGION_OK, region_scanner_open(r, NULL, &sc.s, &scan, &E));
  region_scanner_close(scan);

  memset(&po, 0, sizeof po);
  po.s.struct_size = (uint32_t)sizeof po;
  EXPECT(REGION_OK, chunk_pool_create(&po.s, &pool, &E));
  chunk_pool_close(pool);
  po.tail[1] = UINT64_C(1) << 63;
  EXPECT(REGION_E_UNSUPPORTED, chunk_pool_create(&po.s, &pool, &E));
  CHECK(pool == NULL);
}

static void open_options(void) {
  BIGGER(region_options_t) o;
  BIGGER(region_family_t) f[2];
  region_t *r = NULL;
  memset(&o, 0, sizeof o);
  memset(f, 0, sizeof f);
  o.s.struct_size = (uint32_t)sizeof o;
  o.s.flags = REGION_OPEN_CREATE;
  f[0].s.name = slice("a");
  f[1].s.name = slice("b");
  o.s.families = &f[0].s;
  o.s.n_families = 2;
  o.s.family_size = sizeof f[0];
  EXPECT(REGION_OK, region_open(new_path("sizes-open"), &o.s, &r, &E));
  EXPECT(REGION_OK, region_close(r, 0, 0, &E));
  f[1].tail[0] = 1;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "families[1]", region_open(new_path("sizes-open"), &o.s, &r, &E));
  CHECK(r == NULL && E.op_index == 1);
  o.s.family_size = 0;
  EXPECT_NAMED(REGION_E_INVALID, "families", region_open(new_path("sizes-open"), &o.s, &r, &E));
  o.s.family_size = sizeof(region_family_t) - 8;
  EXPECT_NAMED(REGION_E_INVALID, "families", region_open(new_path("sizes-open"), &o.s, &r, &E));
  o.s.n_families = 0;
  o.tail[0] = 7;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "opts", region_open(new_path("sizes-open"), &o.s, &r, &E));
  o.s.struct_size = 8;
  EXPECT(REGION_OK, region_open(new_path("sizes-open"), &o.s, &r, &E));
  EXPECT(REGION_OK, region_close(r, 0, 0, &E));
}

static void outputs(region_t *r) {
  BIGGER(region_stats_t) st;
  BIGGER(chunk_pool_stats_t) ps;
  BIGGER(region_commit_info_t) ci;
  BIGGER(region_family_t) f;
  region_write_options_t w;
  uint32_t id;
  size_t i;

  /* Longer: the tail is zeroed. Shorter: nothing is written behind it. struct_size stays. */
  memset(&st, 0xff, sizeof st);
  st.s.struct_size = (uint32_t)sizeof st;
  EXPECT(REGION_OK, region_stats(r, &st.s, &E));
  CHECK(st.s.struct_size == sizeof st && st.s.reserved == 0 && st.s.seq > 0 && st.s.seq < UINT64_MAX);
  CHECK(st.tail[0] == 0 && st.tail[1] == 0);
  memset(&st, 0xff, sizeof st);
  st.s.struct_size = 16;
  EXPECT(REGION_OK, region_stats(r, &st.s, &E));
  CHECK(st.s.seq > 0 && st.s.seq < UINT64_MAX && st.s.durable_seq == UINT64_MAX);
  for (i = 0; i < 8; i++) {
    static const uint32_t wrong[8] = {0, 4, 7, 9, 17, 4104, 1u << 24, UINT32_MAX};
    st.s.struct_size = wrong[i];
    EXPECT_NAMED(REGION_E_INVALID, "size", region_stats(r, &st.s, &E));
  }

  memset(&ps, 0xff, sizeof ps);
  ps.s.struct_size = (uint32_t)sizeof ps;
  EXPECT(REGION_OK, chunk_pool_stats(NULL, &ps.s, &E));
  CHECK(ps.s.chunk_size >= 4096 && ps.tail[1] == 0);

  memset(&w, 0, sizeof w);
  w.struct_size = (uint32_t)sizeof w;
  memset(&ci, 0xff, sizeof ci);
  ci.s.struct_size = (uint32_t)sizeof ci;
  w.info = &ci.s;
  EXPECT(REGION_OK, region_increment(r, "r", 1, 1, "q", 1, 1, &w, NULL, &E));
  CHECK(ci.s.seq > 0 && ci.s.timestamp > 0 && ci.tail[0] == 0);
  /* A wrong size of the output is told before anything is done. */
  ci.s.struct_size = 3;
  {
    int64_t before = increment(r, "r", "q", 0);
    EXPECT_NAMED(REGION_E_INVALID, "info", region_increment(r, "r", 1, 1, "q", 1, 1, &w, NULL, &E));
    CHECK(increment(r, "r", "q", 0) == before);
  }

  memset(&f, 0xff, sizeof f);
  EXPECT(REGION_OK, region_family_next(r, 0, &id, &f.s, sizeof f, &E));
  CHECK(id == 1 && slice_is(f.s.name, "f") && f.s.max_versions == 1 && f.s.ttl_ms == REGION_TTL_NONE && f.tail[0] == 0);
  EXPECT(REGION_E_INVALID, region_family_next(r, 0, &id, &f.s, 8, &E));
  EXPECT(REGION_DONE, region_family_next(r, 1, &id, &f.s, sizeof f.s, &E));
  CHECK(id == 0);
}

static void arrays(region_t *r) {
  BIGGER(region_mutation_t) m[3];
  BIGGER(region_op_result_t) res[3];
  BIGGER(region_inc_col_t) col[2];
  BIGGER(region_cell_t) cell;
  int64_t v[2];
  region_scanner_t *scan = NULL;
  int i;
  memset(m, 0, sizeof m);
  for (i = 0; i < 3; i++) m[i].s = mutation(REGION_OP_INCREMENT, i == 2 ? "row2" : "row1", "n", "", i + 1);
  memset(res, 0xff, sizeof res);
  EXPECT(REGION_OK, region_batch_mutate(r, &m[0].s, 3, sizeof m[0], NULL, &res[0].s, sizeof res[0], &E));
  CHECK(res[0].s.status == 0 && res[0].s.value == 1 && res[1].s.value == 3 && res[2].s.value == 3 && res[1].tail[1] == 0);
  m[1].tail[1] = 1;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "ops", region_batch_mutate(r, &m[0].s, 3, sizeof m[0], NULL, &res[0].s, sizeof res[0], &E));
  CHECK(E.op_index == 1 && res[0].s.status == REGION_E_NOT_RUN && res[1].s.status == REGION_E_UNSUPPORTED && res[2].s.status == REGION_E_NOT_RUN);
  for (i = 0; i < 6; i++) {
    static const size_t wrong[6] = {0, 8, 79, 81, 5000, SIZE_MAX};
    EXPECT_NAMED(REGION_E_INVALID, "ops", region_batch_mutate(r, &m[0].s, 1, wrong[i], NULL, NULL, 0, &E));
    EXPECT_NAMED(REGION_E_INVALID, "results", region_batch_mutate(r, &m[0].s, 1, sizeof m[0], NULL, &res[0].s, wrong[i], &E));
  }
  /* More elements than an address space holds. */
  EXPECT(REGION_E_INVALID, region_batch_mutate(r, &m[0].s, SIZE_MAX / 2, sizeof m[0], NULL, NULL, 0, &E));
  EXPECT(REGION_E_INVALID, region_increment_row(r, "r", 1, &col[0].s, SIZE_MAX, sizeof col[0], NULL, NULL, &E));

  memset(col, 0, sizeof col);
  for (i = 0; i < 2; i++) {
    col[i].s.family = 1;
    col[i].s.qual = slice(i == 0 ? "x" : "y");
    col[i].s.delta = 10 + i;
  }
  EXPECT(REGION_OK, region_increment_row(r, "cols", 4, &col[0].s, 2, sizeof col[0], NULL, v, &E));
  CHECK(v[0] == 10 && v[1] == 11);
  col[1].tail[0] = 1;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "cols[1]", region_increment_row(r, "cols", 4, &col[0].s, 2, sizeof col[0], NULL, v, &E));
  CHECK(E.op_index == 1 && v[0] == 0);

  MUST(region_scanner_open(r, NULL, NULL, &scan, &E));
  memset(&cell, 0xff, sizeof cell);
  EXPECT(REGION_OK, region_scanner_next(scan, &cell.s, sizeof cell, &E));
  CHECK(slice_is(cell.s.row, "cols") && cell.tail[0] == 0);
  EXPECT_NAMED(REGION_E_INVALID, "cell", region_scanner_next(scan, &cell.s, 8, &E));
  /* The refused call took no cell. */
  EXPECT(REGION_OK, region_scanner_next(scan, &cell.s, sizeof cell.s, &E));
  CHECK(slice_is(cell.s.row, "cols") && slice_is(cell.s.qual, "y"));
  region_scanner_close(scan);
}

/* The error struct itself may be shorter: what fits is written, no byte behind it. */
static void errors(void) {
  unsigned char raw[sizeof(region_error_t) + 16];
  region_error_t *e = (region_error_t *)(void *)raw;
  uint32_t size;
  for (size = 0; size <= sizeof raw; size++) {
    size_t i, end = size < 8 ? 4 : size;
    if (end > sizeof(region_error_t)) end = sizeof(region_error_t);
    memset(raw, 0xee, sizeof raw);
    e->struct_size = size;
    CHECK(region_close((region_t *)(void *)raw, 0, 0, e) == REGION_E_HANDLE);
    CHECK(e->struct_size == size);
    if (size >= 8) CHECK(e->status == REGION_E_HANDLE);
    for (i = end; i < sizeof raw; i++) {
      if (raw[i] != 0xee) break;
    }
    CHECK(i == sizeof raw);
    if (size >= 40 + 32) CHECK(e->msg_len > 0 && memchr(e->msg, 0, sizeof e->msg) != NULL && strlen(e->msg) == e->msg_len);
  }
}

int main(void) {
  region_t *r = new_region("sizes");
  inputs(r);
  open_options();
  outputs(r);
  arrays(r);
  errors();
  MUST(region_close(r, 0, 0, NULL));
  DONE();
}
