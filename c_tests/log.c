/* Logging: silent by default, by callback, by polling. */
#include "test.h"

struct seen {
  int calls, good, inside_rc;
  region_t *inside;
  pthread_t thread;
};

static void on_log(void *ctx, const region_log_record_t *rec) {
  struct seen *s = (struct seen *)ctx;
  s->calls++;
  s->thread = pthread_self();
  if (rec->struct_size == sizeof *rec && rec->level >= 1 && rec->level <= 5 && rec->unix_ns > 0 && rec->target.len > 0 && rec->message.len > 0) s->good++;
  /* Under no lock of the library: it may be called from here, also for what logs. */
  if (s->inside != NULL) {
    region_t *other = NULL;
    region_options_t o = options(REGION_OPEN_CREATE);
    s->inside_rc = region_increment(s->inside, "log", 3, 1, "n", 1, 1, NULL, NULL, NULL);
    if (region_open(new_path("from-callback"), &o, &other, NULL) == 0) (void)region_close(other, 0, 0, NULL);
    region_log_set_callback(on_log, ctx, REGION_LOG_TRACE);
  }
}

static void *setter(void *arg) {
  int i;
  for (i = 0; i < 2000; i++) region_log_set_callback(on_log, arg, REGION_LOG_INFO);
  region_log_set_callback(NULL, NULL, 0);
  return NULL;
}

int main(void) {
  static char buf[1 << 16];
  size_t used;
  uint64_t dropped;
  struct seen s;
  region_t *r;
  int i;
  memset(&s, 0, sizeof s);
  CHECK(region_log_poll(buf, sizeof buf, &used, &dropped) == REGION_OK);
  CHECK(region_log_set_callback(on_log, &s, REGION_LOG_TRACE) == REGION_OK);
  r = new_region("log");
  /* Returns when all was told. */
  CHECK(region_log_set_callback(NULL, NULL, 0) == REGION_OK);
  CHECK(s.calls > 0 && s.good == s.calls && !pthread_equal(s.thread, pthread_self()));
  s.inside = r;
  CHECK(region_log_set_callback(on_log, &s, REGION_LOG_INFO) == REGION_OK);
  i = s.calls;
  MUST(region_close(new_region("log1"), 0, 0, &E));
  CHECK(region_log_set_callback(NULL, NULL, 0) == REGION_OK);
  CHECK(s.calls > i && s.inside_rc == REGION_OK);
  s.inside = NULL;
  MUST(region_close(r, 0, 0, &E));
  i = s.calls;
  r = new_region("log2");
  CHECK(s.calls == i);
  /* Lines of JSON, each whole. */
  CHECK(region_log_poll(buf, 4, &used, NULL) == REGION_TRUNCATED);
  CHECK(used > 4);
  {
    size_t need = used;
    CHECK(region_log_poll(buf, need, &used, NULL) == REGION_OK);
    CHECK(used == need && buf[0] == '{' && buf[used - 1] == '\n' && buf[used - 2] == '}');
    CHECK(memchr(buf, '\n', used) == buf + used - 1);
  }
  CHECK(region_log_poll(buf, sizeof buf, &used, &dropped) == REGION_OK);
  CHECK(dropped == 0);
  CHECK(region_log_poll(buf, sizeof buf, &used, &dropped) == REGION_OK && used == 0);
  /* Replaced while another thread logs. */
  MUST(region_close(new_region("ring1"), 0, 0, &E));
  {
    pthread_t t;
    if (pthread_create(&t, NULL, setter, &s) != 0) return 2;
    for (i = 0; i < 20; i++) {
      region_t *again = NULL;
      region_options_t o = options(0);
      MUST(region_open(new_path("ring1"), &o, &again, &E));
      MUST(region_close(again, 0, 0, &E));
    }
    pthread_join(t, NULL);
  }
  region_log_set_callback(NULL, NULL, 0);
  MUST(region_close(r, 0, 0, &E));
  DONE();
}
