/* Closed, stale, foreign and mistaken handles; children; two threads that close. */
#include "test.h"

/* Every function on a region handle that is none answers `want`. */
static void all_regions(region_t *r, region_status want) {
  int64_t v = 1;
  uint32_t id;
  size_t used, n;
  char buf[64];
  region_value_t val;
  region_op_result_t res;
  region_stats_t st;
  region_snapshot_t *s = (region_snapshot_t *)(void *)buf;
  region_scanner_t *sc = (region_scanner_t *)(void *)buf;
  region_mutation_t m = mutation(REGION_OP_PUT, "r", "q", "v", 0);
  region_inc_col_t col;
  region_family_t f;
  memset(&val, 0, sizeof val);
  memset(&col, 0, sizeof col);
  memset(&f, 0, sizeof f);
  memset(&st, 0, sizeof st);
  st.struct_size = (uint32_t)sizeof st;
  col.family = 1;
  f.name = slice("g");
  EXPECT(want, region_family_id(r, "f", 1, &id, &E));
  EXPECT(want, region_family_set(r, &f, sizeof f, &id, &E));
  EXPECT(want, region_family_drop(r, 1, &E));
  EXPECT(want, region_family_next(r, 0, &id, NULL, 0, &E));
  EXPECT(want, region_describe(r, buf, sizeof buf, &n, &E));
  EXPECT(want, region_recovery_report(r, buf, sizeof buf, &n, &E));
  EXPECT(want, region_stats(r, &st, &E));
  EXPECT(want, region_increment(r, "r", 1, 1, "q", 1, 1, NULL, &v, &E));
  EXPECT(want, region_increment_row(r, "r", 1, &col, 1, sizeof col, NULL, &v, &E));
  EXPECT(want, region_increment_packed(r, NULL, 0, 0, NULL, NULL, 0, &E));
  EXPECT(want, region_batch_mutate(r, &m, 1, sizeof m, NULL, &res, sizeof res, &E));
  EXPECT(want, region_batch_mutate_packed(r, NULL, 0, 0, NULL, NULL, 0, &E));
  EXPECT(want, region_put(r, "r", 1, 1, "q", 1, "v", 1, NULL, &E));
  EXPECT(want, region_delete(r, "r", 1, 1, "q", 1, 0, NULL, &E));
  EXPECT(want, region_append(r, "r", 1, 1, "q", 1, "v", 1, NULL, &val, &E));
  EXPECT(want, region_wait_durable(r, 1, REGION_NO_WAIT, &E));
  EXPECT(want, region_get(r, NULL, "r", 1, 1, "q", 1, &val, &E));
  EXPECT(want, region_counter_get(r, NULL, "r", 1, 1, "q", 1, &v, NULL, &E));
  EXPECT(want, region_counter_get_packed(r, NULL, NULL, 0, 0, NULL, NULL, &E));
  EXPECT(want, region_get_packed(r, NULL, NULL, 0, 0, buf, sizeof buf, &used, &n, &E));
  EXPECT(want, region_get_row(r, NULL, "r", 1, NULL, 0, 0, 1, buf, sizeof buf, &used, &n, &E));
  EXPECT(want, region_snapshot_open(r, 0, &s, &E));
  EXPECT(want, region_scanner_open(r, NULL, NULL, &sc, &E));
}

static void all_scanners(region_scanner_t *s, region_status want) {
  char page[64];
  size_t used, n;
  region_cell_t cell;
  EXPECT(want, region_scanner_next(s, &cell, sizeof cell, &E));
  EXPECT(want, region_scanner_next_page(s, page, sizeof page, &used, &n, &E));
  EXPECT(want, region_scanner_seek(s, "r", 1, &E));
}

static void foreign(void) {
  static uint64_t zeros[64];
  uint64_t junk[64];
  void *heap = malloc(4096);
  size_t i;
  memset(junk, 0xa5, sizeof junk);
  all_regions((region_t *)(void *)zeros, REGION_E_HANDLE);
  all_regions((region_t *)(void *)junk, REGION_E_HANDLE);
  all_regions((region_t *)heap, REGION_E_HANDLE);
  for (i = 0; i < 64; i++) {
    /* Anywhere at all: never followed. */
    void *p = (void *)(uintptr_t)(UINT64_C(1) << i);
    EXPECT(REGION_E_HANDLE, region_close((region_t *)p, 0, 0, &E));
    all_scanners((region_scanner_t *)p, REGION_E_HANDLE);
    region_snapshot_close((region_snapshot_t *)p);
    region_scanner_close((region_scanner_t *)p);
    chunk_pool_close((chunk_pool_t *)p);
    CHECK(region_snapshot_seq((region_snapshot_t *)p) == 0);
  }
  free(heap);
}

static void mistaken(void) {
  region_t *r = new_region("mistaken");
  region_snapshot_t *s = NULL;
  region_scanner_t *sc = NULL;
  chunk_pool_t *p = NULL;
  chunk_pool_stats_t st;
  region_options_t o = options(REGION_OPEN_CREATE);
  region_read_options_t ro;
  region_t *other = NULL;
  MUST(region_snapshot_open(r, 0, &s, &E));
  MUST(region_scanner_open(r, NULL, NULL, &sc, &E));
  MUST(chunk_pool_create(NULL, &p, &E));
  memset(&st, 0, sizeof st);
  st.struct_size = (uint32_t)sizeof st;
  all_regions((region_t *)(void *)s, REGION_E_HANDLE);
  all_regions((region_t *)(void *)sc, REGION_E_HANDLE);
  all_regions((region_t *)(void *)p, REGION_E_HANDLE);
  all_scanners((region_scanner_t *)(void *)r, REGION_E_HANDLE);
  EXPECT(REGION_E_HANDLE, chunk_pool_stats((chunk_pool_t *)(void *)r, &st, &E));
  EXPECT(REGION_E_HANDLE, chunk_pool_trim((chunk_pool_t *)(void *)s, 0, &E));
  EXPECT(REGION_E_HANDLE, region_close((region_t *)(void *)sc, 0, 0, &E));
  o.chunk_pool = (chunk_pool_t *)(void *)r;
  EXPECT_NAMED(REGION_E_HANDLE, "chunk_pool", region_open(new_path("mistaken2"), &o, &other, &E));
  memset(&ro, 0, sizeof ro);
  ro.struct_size = (uint32_t)sizeof ro;
  ro.snapshot = (region_snapshot_t *)(void *)r;
  EXPECT_NAMED(REGION_E_HANDLE, "snapshot", region_counter_get(r, &ro, "r", 1, 1, "q", 1, NULL, NULL, &E));
  /* Inside a control block, not at its start. */
  EXPECT(REGION_E_HANDLE, region_family_drop((region_t *)(void *)((char *)r + 8), 1, &E));
  /* Closing by the wrong function does nothing. */
  region_snapshot_close((region_snapshot_t *)(void *)r);
  region_scanner_close((region_scanner_t *)(void *)s);
  chunk_pool_close((chunk_pool_t *)(void *)sc);
  CHECK(increment(r, "r", "q", 1) == 1);
  EXPECT(REGION_OK, region_scanner_seek(sc, "r", 1, &E));
  chunk_pool_close(p);
  region_scanner_close(sc);
  region_snapshot_close(s);
  MUST(region_close(r, 0, 0, &E));
  EXPECT(REGION_E_CLOSED, chunk_pool_stats(p, &st, &E));
}

static void children(void) {
  region_t *r = new_region("children");
  region_snapshot_t *s = NULL;
  region_scanner_t *sc = NULL;
  region_value_t val;
  region_stats_t st;
  region_read_options_t ro;
  uint64_t seq;
  memset(&st, 0, sizeof st);
  st.struct_size = (uint32_t)sizeof st;
  MUST(put(r, "row", "q", "a value that stays"));
  MUST(region_snapshot_open(r, 0, &s, &E));
  MUST(region_scanner_open(r, NULL, NULL, &sc, &E));
  MUST(region_stats(r, &st, &E));
  CHECK(st.open_snapshots >= 1 && st.open_scanners == 1);
  seq = region_snapshot_seq(s);
  CHECK(seq > 0);
  memset(&val, 0, sizeof val);
  MUST(region_get(r, NULL, "row", 3, 1, "q", 1, &val, &E));
  CHECK(val.pin != 0 && val.len == 18);
  MUST(region_stats(r, &st, &E));
  CHECK(st.pinned_values == 1 && st.pinned_bytes >= 18);
  /* Open children: nothing happens, the message counts them: a snapshot, a scanner, a pinned value. */
  EXPECT_NAMED(REGION_E_BUSY, "3", region_close(r, 0, REGION_NO_WAIT, &E));
  CHECK(increment(r, "row", "n", 1) == 1);
  EXPECT(REGION_OK, region_close(r, REGION_CLOSE_FORCE, 0, &E));
  all_regions(r, REGION_E_CLOSED);
  all_scanners(sc, REGION_E_CLOSED);
  memset(&ro, 0, sizeof ro);
  ro.struct_size = (uint32_t)sizeof ro;
  ro.snapshot = s;
  EXPECT(REGION_E_CLOSED, region_counter_get(r, &ro, "row", 3, 1, "n", 1, NULL, NULL, &E));
  /* What was pinned stays readable; children are closed late, in any order, twice. */
  CHECK(memcmp(val.data, "a value that stays", 18) == 0);
  region_scanner_close(sc);
  region_snapshot_close(s);
  region_snapshot_close(s);
  region_scanner_close(sc);
  all_scanners(sc, REGION_E_CLOSED);
  CHECK(region_snapshot_seq(s) == 0);
  {
    region_value_t copy = val;
    region_value_release(&val);
    CHECK(val.pin == 0 && val.data == NULL);
    region_value_release(&val);
    /* A second release of the same pin, through a copy of the struct. */
    region_value_release(&copy);
  }
  EXPECT(REGION_OK, region_close(r, 0, 0, &E));
  EXPECT(REGION_OK, region_close(r, REGION_CLOSE_FORCE, 0, &E));
  /* The directory is free again. */
  {
    region_options_t o = options(0);
    int64_t n = 0;
    MUST(region_open(new_path("children"), &o, &r, &E));
    EXPECT(REGION_OK, region_counter_get(r, NULL, "row", 3, 1, "n", 1, &n, NULL, &E));
    CHECK(n == 1);
    MUST(region_close(r, 0, 0, &E));
  }
}

/* A closed handle is recognised while thousands of others come and go; then its block is used again. */
static void stale(void) {
  chunk_pool_t *first = NULL, *p = NULL;
  region_t *r;
  int i, same = 0;
  MUST(chunk_pool_create(NULL, &first, &E));
  chunk_pool_close(first);
  for (i = 0; i < 4000; i++) {
    MUST(chunk_pool_create(NULL, &p, &E));
    same += p == first;
    chunk_pool_close(p);
  }
  CHECK(same == 0);
  EXPECT(REGION_E_CLOSED, chunk_pool_trim(first, 0, &E));
  /* Blocks are used again after the quarantine: memory is bounded. The stale pointer of another kind is told apart. */
  r = new_region("stale");
  for (i = 0; i < 20000 && (void *)p != (void *)first; i++) {
    region_snapshot_t *s = NULL;
    MUST(region_snapshot_open(r, 0, &s, &E));
    if ((void *)s == (void *)first) {
      EXPECT(REGION_E_HANDLE, chunk_pool_trim(first, 0, &E));
      chunk_pool_close(first);
      CHECK(region_snapshot_seq(s) == 0 || region_snapshot_seq(s) > 0);
      p = first;
    }
    region_snapshot_close(s);
  }
  CHECK(p == first);
  MUST(region_close(r, 0, 0, &E));
}

static void *closer(void *arg) {
  region_error_t e = REGION_ERROR_INIT;
  return (void *)(intptr_t)region_close((region_t *)arg, REGION_CLOSE_FORCE, 0, &e);
}

static void *snapshot_closer(void *arg) {
  region_snapshot_close((region_snapshot_t *)arg);
  return NULL;
}

static void two_closers(void) {
  int round;
  for (round = 0; round < 20; round++) {
    char name[32];
    pthread_t a, b;
    void *ra, *rb;
    region_t *r;
    region_snapshot_t *s = NULL;
    snprintf(name, sizeof name, "two%d", round);
    r = new_region(name);
    MUST(region_snapshot_open(r, 0, &s, &E));
    if (pthread_create(&a, NULL, snapshot_closer, s) != 0 || pthread_create(&b, NULL, snapshot_closer, s) != 0) exit(2);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    if (pthread_create(&a, NULL, closer, r) != 0 || pthread_create(&b, NULL, closer, r) != 0) exit(2);
    pthread_join(a, &ra);
    pthread_join(b, &rb);
    CHECK((intptr_t)ra == REGION_OK && (intptr_t)rb == REGION_OK);
    EXPECT(REGION_E_CLOSED, region_put(r, "r", 1, 1, "q", 1, "v", 1, NULL, &E));
    MUST(region_destroy(new_path(name), &E));
  }
}

int main(void) {
  region_t *r;
  foreign();
  r = new_region("closed");
  EXPECT(REGION_OK, region_close(r, 0, 0, &E));
  all_regions(r, REGION_E_CLOSED);
  foreign();
  mistaken();
  children();
  stale();
  two_closers();
  DONE();
}
