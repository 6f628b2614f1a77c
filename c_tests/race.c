/* Threads in random calls while others close, reopen and close children: a call finishes or answers E_CLOSED, never worse. */
#include "test.h"

static region_t *volatile shared;
static region_snapshot_t *volatile snap;
static region_scanner_t *volatile scanner;
static volatile int stop;

struct worker {
  pthread_t thread;
  unsigned seed;
  long calls, bad;
};

static void *work(void *arg) {
  struct worker *w = (struct worker *)arg;
  region_error_t e = REGION_ERROR_INIT;
  while (!stop) {
    region_t *r = shared;
    region_status rc = 0;
    int64_t v;
    region_value_t val;
    region_cell_t cell;
    region_read_options_t o;
    memset(&val, 0, sizeof val);
    memset(&o, 0, sizeof o);
    o.struct_size = (uint32_t)sizeof o;
    w->seed = w->seed * 1103515245u + 12345u;
    switch ((w->seed >> 16) % 8) {
      case 0: rc = region_increment(r, "row", 3, 1, "n", 1, 1, NULL, &v, &e); break;
      case 1: rc = region_get(r, NULL, "row", 3, 1, "n", 1, &val, &e); region_value_release(&val); break;
      case 2: o.snapshot = snap; rc = region_counter_get(r, &o, "row", 3, 1, "n", 1, &v, NULL, &e); break;
      case 3: rc = region_scanner_next(scanner, &cell, sizeof cell, &e); break;
      case 4: rc = region_put(r, "row", 3, 1, "q", 1, "value", 5, NULL, &e); break;
      case 5: region_snapshot_close(snap); break;
      case 6: region_scanner_close(scanner); break;
      default: (void)region_snapshot_seq(snap); break;
    }
    w->calls++;
    /* What is written is replayed by every open: not too much of it. */
    if (w->calls % 8 == 0) usleep(200);
    if (rc < 0 && rc != REGION_E_CLOSED && rc != REGION_E_HANDLE && rc != REGION_E_BUSY && rc != REGION_E_INVALID) {
      if (w->bad++ < 3) fprintf(stderr, "race: %s: %s\n", region_status_name(rc), e.msg);
    }
  }
  return NULL;
}

static void *close_it(void *arg) {
  region_error_t e = REGION_ERROR_INIT;
  return (void *)(intptr_t)region_close((region_t *)arg, REGION_CLOSE_FORCE, 0, &e);
}

int main(void) {
  enum { WORKERS = 6 };
  struct worker w[WORKERS];
  const char *env = getenv("RACE_ROUNDS");
  int rounds = env != NULL ? atoi(env) : 60, i, round;
  long calls = 0;
  shared = new_region("race");
  for (i = 0; i < WORKERS; i++) {
    memset(&w[i], 0, sizeof w[i]);
    w[i].seed = (unsigned)i + 1;
    if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0) return 2;
  }
  for (round = 0; round < rounds; round++) {
    region_t *r = shared;
    region_snapshot_t *s = NULL;
    region_scanner_t *sc = NULL;
    pthread_t a, b;
    void *ra, *rb;
    region_options_t o = options(0);
    MUST(region_snapshot_open(r, 0, &s, &E));
    MUST(region_scanner_open(r, NULL, NULL, &sc, &E));
    snap = s;
    scanner = sc;
    usleep((useconds_t)(round % 7) * 300);
    if (pthread_create(&a, NULL, close_it, r) != 0 || pthread_create(&b, NULL, close_it, r) != 0) return 2;
    pthread_join(a, &ra);
    pthread_join(b, &rb);
    CHECK((intptr_t)ra == REGION_OK && (intptr_t)rb == REGION_OK);
    EXPECT(REGION_E_CLOSED, region_put(r, "r", 1, 1, "q", 1, "v", 1, NULL, &E));
    /* The directory is free as soon as a close returned. */
    MUST(region_open(new_path("race"), &o, &r, &E));
    shared = r;
    region_snapshot_close(s);
    region_scanner_close(sc);
  }
  stop = 1;
  for (i = 0; i < WORKERS; i++) {
    pthread_join(w[i].thread, NULL);
    CHECK(w[i].bad == 0);
    calls += w[i].calls;
  }
  CHECK(calls > rounds);
  region_snapshot_close(snap);
  region_scanner_close(scanner);
  MUST(region_close(shared, 0, 0, &E));
  DONE();
}
