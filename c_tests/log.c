/* Logging: silent by default, by callback, by polling. */
#include "test.h"

struct seen {
  int calls, opened;
  region_t *inside;
};

static void on_log(void *ctx, const region_log_record_t *rec) {
  struct seen *s = (struct seen *)ctx;
  s->calls++;
  if (rec->struct_size == sizeof *rec && rec->level >= 1 && rec->level <= 5 && rec->unix_ns > 0 && rec->target.len > 0 && rec->message.len > 0) s->opened++;
  /* Under no lock of the library: it may be called from here. */
  if (s->inside != NULL) (void)!region_increment(s->inside, "log", 3, 1, "n", 1, 1, NULL, NULL, NULL);
  region_log_set_callback(on_log, ctx, REGION_LOG_TRACE);
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
  CHECK(s.calls > 0 && s.opened == s.calls);
  s.inside = r;
  MUST(region_close(r, 0, 0, &E));
  s.inside = NULL;
  CHECK(region_log_set_callback(NULL, NULL, 0) == REGION_OK);
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
