/* Calls with a nonce: made again they count once and are answered the same, also after the region was opened again. */
#include "test.h"

static region_commit_info_t info;

static region_write_options_t with_nonce(uint64_t nonce, uint32_t flags) {
  region_write_options_t w;
  memset(&w, 0, sizeof w);
  memset(&info, 0, sizeof info);
  w.struct_size = (uint32_t)sizeof w;
  w.nonce_group = 3;
  w.nonce = nonce;
  w.flags = flags;
  info.struct_size = (uint32_t)sizeof info;
  w.info = &info;
  return w;
}

static int64_t once(region_t *r, const char *row, int64_t delta, uint64_t nonce) {
  region_write_options_t w = with_nonce(nonce, 0);
  int64_t v = -1;
  EXPECT(REGION_OK, region_increment(r, row, strlen(row), 1, "n", 1, delta, &w, &v, &E));
  return v;
}

static int64_t counter(region_t *r, const char *row) {
  int64_t v = -1;
  uint64_t ts;
  EXPECT(REGION_OK, region_counter_get(r, NULL, row, strlen(row), 1, "n", 1, &v, &ts, &E));
  return v;
}

/* [a + 1, b + 1, a + 1] */
static void abc(region_t *r, uint64_t nonce, uint32_t flags, const int64_t *expected, uint32_t result_flags) {
  region_write_options_t w = with_nonce(nonce, flags);
  region_mutation_t m[3];
  region_op_result_t res[3];
  int i;
  memset(m, 0, sizeof m);
  for (i = 0; i < 3; i++) {
    m[i].op = REGION_OP_INCREMENT;
    m[i].family = 1;
    m[i].row.data = i == 1 ? "b" : "a";
    m[i].row.len = 1;
    m[i].qual.data = "n";
    m[i].qual.len = 1;
    m[i].delta = 1;
  }
  EXPECT(REGION_OK, region_batch_mutate(r, m, 3, sizeof m[0], &w, res, sizeof res[0], &E));
  for (i = 0; i < 3; i++) CHECK(res[i].status == REGION_OK && res[i].flags == result_flags && res[i].value == expected[i]);
  CHECK(!!(info.flags & REGION_COMMIT_DUPLICATE) == !!(result_flags & REGION_RESULT_DUPLICATE));
}

static void calls(region_t *r) {
  static const int64_t plain[3] = {1, 1, 2}, atomic[3] = {3, 2, 4};
  region_write_options_t w;
  region_inc_col_t c[2];
  int64_t v[2];
  uint64_t seq, timestamp;
  int i;
  CHECK(once(r, "x", 5, 1) == 5);
  CHECK(!(info.flags & REGION_COMMIT_DUPLICATE) && info.seq > 0);
  seq = info.seq;
  timestamp = info.timestamp;
  CHECK(increment(r, "x", "n", 1) == 6);
  CHECK(once(r, "x", 5, 1) == 5);
  CHECK(info.flags == (REGION_COMMIT_DUPLICATE | REGION_COMMIT_DURABLE) && info.seq == seq && info.timestamp == timestamp);
  EXPECT(REGION_OK, region_wait_durable(r, info.seq, 0, &E));
  CHECK(once(r, "x", 5, 2) == 11);
  abc(r, 1, 0, plain, 0);
  abc(r, 1, 0, plain, REGION_RESULT_DUPLICATE);
  abc(r, 2, REGION_W_ATOMIC, atomic, 0);
  abc(r, 2, REGION_W_ATOMIC, atomic, REGION_RESULT_DUPLICATE);
  CHECK(counter(r, "a") == 4 && counter(r, "b") == 2);
  memset(c, 0, sizeof c);
  c[0].family = c[1].family = 1;
  c[0].qual.data = "n";
  c[1].qual.data = "m";
  c[0].qual.len = c[1].qual.len = 1;
  c[0].delta = 1;
  c[1].delta = 2;
  for (i = 0; i < 2; i++) {
    w = with_nonce(7, 0);
    EXPECT(REGION_OK, region_increment_row(r, "row", 3, c, 2, sizeof c[0], &w, v, &E));
    CHECK(v[0] == 1 && v[1] == 2 && !!(info.flags & REGION_COMMIT_DUPLICATE) == i);
  }
  /* A put that comes again does not undo a later one. */
  w = with_nonce(8, 0);
  EXPECT(REGION_OK, region_put(r, "x", 1, 1, "q", 1, "one", 3, &w, &E));
  EXPECT(REGION_OK, region_delete(r, "x", 1, 1, "q", 1, 0, NULL, &E));
  EXPECT(REGION_OK, region_put(r, "x", 1, 1, "q", 1, "one", 3, &w, &E));
  {
    region_value_t got;
    memset(&got, 0, sizeof got);
    EXPECT(REGION_NOT_FOUND, region_get(r, NULL, "x", 1, 1, "q", 1, &got, &E));
  }
}

static void refused(region_t *r) {
  region_write_options_t w = with_nonce(9, 0);
  int64_t v;
  w.durability = REGION_DUR_SKIP_WAL;
  EXPECT(REGION_E_INVALID, region_increment(r, "x", 1, 1, "n", 1, 1, &w, &v, &E));
  w = with_nonce(0, 0);
  EXPECT(REGION_E_INVALID, region_increment(r, "x", 1, 1, "n", 1, 1, &w, &v, &E));
  /* What changed nothing is run again. */
  w = with_nonce(9, REGION_W_BOUNDED);
  w.max_value = 10;
  EXPECT(REGION_NOT_APPLIED, region_increment(r, "x", 1, 1, "n", 1, 1, &w, &v, &E));
  CHECK(v == 11);
  w.max_value = 12;
  EXPECT(REGION_OK, region_increment(r, "x", 1, 1, "n", 1, 1, &w, &v, &E));
  CHECK(v == 12);
  EXPECT(REGION_OK, region_increment(r, "x", 1, 1, "n", 1, 1, &w, &v, &E));
  CHECK(v == 12 && (info.flags & REGION_COMMIT_DUPLICATE));
  /* The nonce of another amount, of other bounds: refused, and the message says so. */
  EXPECT(REGION_E_INVALID, region_increment(r, "x", 1, 1, "n", 1, 2, &w, &v, &E));
  CHECK(strstr(E.msg, "nonce 9 of group 3 was used for a different operation") != NULL);
  w.max_value = 10;
  EXPECT(REGION_E_INVALID, region_increment(r, "x", 1, 1, "n", 1, 1, &w, &v, &E));
  CHECK(counter(r, "x") == 12);
  {
    region_stats_t s;
    memset(&s, 0, sizeof s);
    s.struct_size = (uint32_t)sizeof s;
    MUST(region_stats(r, &s, &E));
    CHECK(s.nonce_entries > 0 && s.nonce_bytes >= 100 * s.nonce_entries && s.nonce_bytes_max == (64u << 20));
    CHECK(s.nonce_hits > 0 && s.nonce_expired == 0 && s.nonce_refused == 0);
  }
  w = with_nonce(10, 0);
  EXPECT(REGION_E_NO_FAMILY, region_increment(r, "x", 1, 99, "n", 1, 1, &w, &v, &E));
  CHECK(E.op_index == UINT64_MAX);
}

static void reopened(void) {
  static const int64_t plain[3] = {1, 1, 2}, atomic[3] = {3, 2, 4};
  region_options_t o = options(0);
  region_t *r = NULL;
  int i;
  for (i = 0; i < 2; i++) {
    MUST(region_open(new_path("nonce"), &o, &r, &E));
    CHECK(once(r, "x", 5, 1) == 5 && (info.flags & REGION_COMMIT_DUPLICATE));
    CHECK(once(r, "x", 5, 2) == 11 && (info.flags & REGION_COMMIT_DUPLICATE));
    abc(r, 1, 0, plain, REGION_RESULT_DUPLICATE);
    abc(r, 2, REGION_W_ATOMIC, atomic, REGION_RESULT_DUPLICATE);
    CHECK(counter(r, "a") == 4 && counter(r, "b") == 2 && counter(r, "x") == 12);
    MUST(region_close(r, 0, 0, &E));
  }
}

int main(void) {
  region_t *r = new_region("nonce");
  calls(r);
  refused(r);
  MUST(region_close(r, 0, 0, &E));
  reopened();
  DONE();
}
