/* A child of a process that had used the library: every call answers E_FORKED at once, close functions do nothing; the parent goes on. */
#include "test.h"

static region_t *r;
static region_snapshot_t *s;
static region_scanner_t *sc;
static chunk_pool_t *p;

static void in_child(region_value_t *val) {
  region_t *out = NULL;
  int64_t v = 5;
  size_t used, n;
  char buf[64];
  region_cell_t cell;
  chunk_pool_stats_t st;
  region_options_t o = options(REGION_OPEN_CREATE);
  memset(&st, 0, sizeof st);
  st.struct_size = (uint32_t)sizeof st;
  EXPECT_NAMED(REGION_E_FORKED, "fork", region_increment(r, "r", 1, 1, "q", 1, 1, NULL, &v, &E));
  EXPECT(REGION_E_FORKED, region_open(new_path("child"), &o, &out, &E));
  EXPECT(REGION_E_FORKED, region_destroy(new_path("fork"), &E));
  EXPECT(REGION_E_FORKED, region_counter_get(r, NULL, "r", 1, 1, "q", 1, &v, NULL, &E));
  EXPECT(REGION_E_FORKED, region_scanner_next(sc, &cell, sizeof cell, &E));
  EXPECT(REGION_E_FORKED, region_scanner_next_page(sc, buf, sizeof buf, &used, &n, &E));
  EXPECT(REGION_E_FORKED, region_snapshot_open(r, 0, &s, &E));
  EXPECT(REGION_E_FORKED, chunk_pool_create(NULL, &p, &E));
  EXPECT(REGION_E_FORKED, chunk_pool_stats(NULL, &st, &E));
  EXPECT(REGION_E_FORKED, chunk_pool_stats(p, &st, &E));
  EXPECT(REGION_E_FORKED, region_abi_check(REGION_ABI_VERSION, REGION_LAYOUT_HASH, &E));
  CHECK(region_log_poll(buf, sizeof buf, &used, NULL) == REGION_E_FORKED);
  CHECK(region_log_set_callback(NULL, NULL, 0) == REGION_E_FORKED);
  /* A handle that is none is not even looked at. */
  EXPECT(REGION_E_FORKED, region_put(NULL, "r", 1, 1, "q", 1, "v", 1, NULL, &E));
  CHECK(region_snapshot_seq(s) == 0);
  region_value_release(val);
  region_scanner_close(sc);
  region_snapshot_close(s);
  chunk_pool_close(p);
  EXPECT(REGION_OK, region_close(r, 0, 0, &E));
  CHECK(strcmp(region_status_name(REGION_E_FORKED), "REGION_E_FORKED") == 0);
  CHECK(region_version() == REGION_VERSION);
}

static int wait_for(pid_t pid) {
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

int main(void) {
  region_value_t val;
  pid_t pid;
  /* A process that forked before its first handle can use the library. */
  CHECK(region_version() == REGION_VERSION);
  pid = fork();
  if (pid == 0) {
    region_t *mine = new_region("before");
    CHECK(increment(mine, "r", "q", 2) == 2);
    MUST(region_close(mine, 0, 0, &E));
    remove_dir();
    _exit(checks_failed != 0);
  }
  CHECK(wait_for(pid) == 0);

  r = new_region("fork");
  MUST(put(r, "row", "q", "pinned"));
  MUST(region_snapshot_open(r, 0, &s, &E));
  MUST(region_scanner_open(r, NULL, NULL, &sc, &E));
  MUST(chunk_pool_create(NULL, &p, &E));
  memset(&val, 0, sizeof val);
  MUST(region_get(r, NULL, "row", 3, 1, "q", 1, &val, &E));
  pid = fork();
  if (pid == 0) {
    in_child(&val);
    /* A grandchild is a child too. */
    pid = fork();
    if (pid == 0) _exit(region_put(r, "r", 1, 1, "q", 1, "v", 1, NULL, NULL) == REGION_E_FORKED ? 0 : 1);
    CHECK(wait_for(pid) == 0);
    _exit(checks_failed != 0);
  }
  CHECK(wait_for(pid) == 0);
  /* Nothing of it reached the parent. */
  CHECK(increment(r, "r", "q", 1) == 1);
  CHECK(memcmp(val.data, "pinned", 6) == 0);
  region_value_release(&val);
  region_scanner_close(sc);
  region_snapshot_close(s);
  chunk_pool_close(p);
  MUST(region_close(r, 0, 0, &E));
  DONE();
}
