/* Unknown flag bits, enum values and reserved fields: E_UNSUPPORTED, naming the field, and nothing is done. */
#include "test.h"

static region_write_options_t w0(void) {
  region_write_options_t w;
  memset(&w, 0, sizeof w);
  w.struct_size = (uint32_t)sizeof w;
  return w;
}

static void writes(region_t *r) {
  region_write_options_t w = w0();
  int64_t v;
  int bit;
  for (bit = 6; bit < 32; bit++) {
    w.flags = UINT32_C(1) << bit;
    EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", region_increment(r, "r", 1, 1, "q", 1, 1, &w, &v, &E));
  }
  w = w0();
  w.durability = 5;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "durability", region_put(r, "r", 1, 1, "q", 1, "v", 1, &w, &E));
  w.durability = 257; /* must not be cut to a byte */
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "durability", region_put(r, "r", 1, 1, "q", 1, "v", 1, &w, &E));
  w = w0();
  w.reserved = 1;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "reserved", region_delete(r, "r", 1, 1, "q", 1, 0, &w, &E));
  w = w0();
  w.timestamp = (UINT64_C(1) << 62) + 1;
  EXPECT(REGION_E_INVALID, region_put(r, "r", 1, 1, "q", 1, "v", 1, &w, &E));
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "op", region_delete(r, "r", 1, 1, "q", 1, 10, NULL, &E));
  EXPECT_NAMED(REGION_E_INVALID, "op", region_delete(r, "r", 1, 1, "q", 1, REGION_OP_PUT, NULL, &E));
  EXPECT(REGION_NOT_FOUND, region_counter_get(r, NULL, "r", 1, 1, "q", 1, &v, NULL, &E));
}

static void batches(region_t *r) {
  region_mutation_t m[2];
  region_op_result_t res[2];
  region_inc_col_t col;
  m[0] = mutation(REGION_OP_PUT, "r", "a", "v", 0);
  m[1] = mutation(REGION_OP_PUT, "r", "b", "v", 0);
  m[1].op = 10;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "op", region_batch_mutate(r, m, 2, sizeof m[0], NULL, res, sizeof res[0], &E));
  CHECK(E.op_index == 1 && res[0].status == REGION_E_NOT_RUN && res[1].status == REGION_E_UNSUPPORTED);
  m[1].op = 0;
  EXPECT_NAMED(REGION_E_INVALID, "op", region_batch_mutate(r, m, 2, sizeof m[0], NULL, res, sizeof res[0], &E));
  m[1] = mutation(REGION_OP_PUT, "r", "b", "v", 0);
  m[1].flags = 1;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", region_batch_mutate(r, m, 2, sizeof m[0], NULL, res, sizeof res[0], &E));
  m[1].flags = REGION_PACK_SAME_ROW; /* of packed records only */
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", region_batch_mutate(r, m, 2, sizeof m[0], NULL, res, sizeof res[0], &E));
  m[1].flags = 0;
  m[1].ttl_ms = 1;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "ttl_ms", region_batch_mutate(r, m, 2, sizeof m[0], NULL, res, sizeof res[0], &E));
  m[1] = mutation(REGION_OP_CHECK, "r", "b", "v", 0);
  EXPECT_NAMED(REGION_E_INVALID, "flags", region_batch_mutate(r, m, 2, sizeof m[0], NULL, res, sizeof res[0], &E));
  m[1].flags = 9;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", region_batch_mutate(r, m, 2, sizeof m[0], NULL, res, sizeof res[0], &E));
  m[1].flags = REGION_CHECK_EQ | 512;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", region_batch_mutate(r, m, 2, sizeof m[0], NULL, res, sizeof res[0], &E));
  m[1] = mutation(REGION_OP_APPEND, "other", "b", "v", 0);
  m[1].row.data = NULL; /* with a length */
  EXPECT_NAMED(REGION_E_INVALID, "row", region_batch_mutate(r, m, 2, sizeof m[0], NULL, res, sizeof res[0], &E));
  CHECK(E.op_index == 1);
  memset(&col, 0, sizeof col);
  col.family = 1;
  col.flags = 1;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", region_increment_row(r, "r", 1, &col, 1, sizeof col, NULL, NULL, &E));
  {
    region_value_t val;
    memset(&val, 0, sizeof val);
    EXPECT(REGION_NOT_FOUND, region_get(r, NULL, "r", 1, 1, "a", 1, &val, &E));
  }
}

static void reads(region_t *r) {
  region_read_options_t o;
  region_scan_t s;
  region_column_t c;
  region_scanner_t *scan = NULL;
  int bit;
  memset(&o, 0, sizeof o);
  o.struct_size = (uint32_t)sizeof o;
  for (bit = 1; bit < 32; bit++) {
    o.flags = UINT32_C(1) << bit;
    EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", region_counter_get(r, &o, "r", 1, 1, "q", 1, NULL, NULL, &E));
  }
  memset(&s, 0, sizeof s);
  s.struct_size = (uint32_t)sizeof s;
  for (bit = 6; bit < 32; bit++) {
    s.flags = UINT32_C(1) << bit;
    EXPECT_NAMED(REGION_E_UNSUPPORTED, "scan.flags", region_scanner_open(r, NULL, &s, &scan, &E));
  }
  s.flags = 0;
  memset(&c, 0, sizeof c);
  c.family = 1;
  c.kind = 4;
  s.columns = &c;
  s.n_columns = 1;
  s.column_size = sizeof c;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "kind", region_scanner_open(r, NULL, &s, &scan, &E));
  CHECK(scan == NULL && E.op_index == 0);
}

static void opening(region_t *r) {
  region_options_t o;
  region_family_t f;
  region_t *out = NULL;
  chunk_pool_options_t p;
  chunk_pool_t *pool = NULL;
  uint32_t id;
  int bit;
  for (bit = 3; bit < 32; bit++) {
    o = options(UINT32_C(1) << bit);
    EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", region_open(new_path("flags2"), &o, &out, &E));
  }
  o = options(REGION_OPEN_CREATE);
  o.durability = 5;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "durability", region_open(new_path("flags2"), &o, &out, &E));
  o = options(REGION_OPEN_CREATE);
  o.clock_unit = 4;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "clock_unit", region_open(new_path("flags2"), &o, &out, &E));
  o = options(REGION_OPEN_CREATE);
  o.tick_policy = 3;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "tick_policy", region_open(new_path("flags2"), &o, &out, &E));
  o = options(REGION_OPEN_CREATE);
  o.wal_io = 3;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "wal_io", region_open(new_path("flags2"), &o, &out, &E));
  o = options(REGION_OPEN_CREATE);
  o.config = "wal_segment_byte=1m";
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "did you mean \"wal_segment_bytes\"", region_open(new_path("flags2"), &o, &out, &E));
  o.config = "wal_segment_bytes=x";
  EXPECT_NAMED(REGION_E_INVALID, "wal_segment_bytes", region_open(new_path("flags2"), &o, &out, &E));
  o.config = "\xff\xfe";
  EXPECT_NAMED(REGION_E_INVALID, "UTF-8", region_open(new_path("flags2"), &o, &out, &E));
  o = options(REGION_OPEN_CREATE);
  o.background_threads = 1000000;
  EXPECT_NAMED(REGION_E_INVALID, "background_threads", region_open(new_path("flags2"), &o, &out, &E));
  CHECK(out == NULL);
  memset(&f, 0, sizeof f);
  f.name = slice("g");
  f.bloom = 4;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "bloom", region_family_set(r, &f, sizeof f, &id, &E));
  f.bloom = 0;
  f.compression = 6;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "compression", region_family_set(r, &f, sizeof f, &id, &E));
  f.compression = 0;
  f.flags = 4;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", region_family_set(r, &f, sizeof f, &id, &E));
  f.flags = 0;
  f.name.len = 0;
  EXPECT(REGION_E_INVALID, region_family_set(r, &f, sizeof f, &id, &E));
  CHECK(id == 0);
  memset(&p, 0, sizeof p);
  p.struct_size = (uint32_t)sizeof p;
  p.flags = 1;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", chunk_pool_create(&p, &pool, &E));
  p.flags = 0;
  p.chunk_size = 3000;
  EXPECT_NAMED(REGION_E_INVALID, "chunk_size", chunk_pool_create(&p, &pool, &E));
  CHECK(pool == NULL);
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", region_close(r, 4, 0, &E));
  CHECK(increment(r, "still", "open", 1) == 1);
  CHECK(region_log_set_callback(NULL, NULL, 6) == REGION_E_UNSUPPORTED);
}

int main(void) {
  region_t *r = new_region("flags");
  writes(r);
  batches(r);
  reads(r);
  opening(r);
  MUST(region_close(r, 0, 0, NULL));
  DONE();
}
