/* Timed and loading workloads: threads that call the engine as fast as it answers.
 *
 *   uniform   increments of random counters among --rows
 *   hot       increments of one counter; each thread checks that the values it gets only grow
 *   batch     --batch increments of distinct counters per call
 *   put       --rows rows of one --value-bytes value, row keys of 50 bytes in random order
 *   put-row   --rows rows of three values each, in one commit per row
 *   fullscan  scans of --rows rows of one value of 8 to 100 bytes, all in memory, by one thread; the load is not counted
 *   fullscan-next  the same by the call that gives one cell
 *   shortscan scans of 10 cells from random rows by --threads threads, beside 8 that put
 *
 * A latency is the time between two completions of one thread, from one tick read per call, so the making of the key (some 10 ns) is in it.
 * After increments the sum of all counters must equal what was acknowledged.
 */
#include "workload.h"
#include "histogram.h"
#include "measure.h"
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { WARMING, MEASURING, STOPPED };

#define VALUE_POOL (4u << 20) /* random bytes that values are cut from */
#define GET_CAP 65536
#define BATCH_STRIDE 7919 /* prime, so the counters of a batch are distinct and far apart */

static const column HOT = {{"r00000042", COUNTER_ROW_LEN}, {"q", 1}};
static const slice COUNTER = {"q", 1};
static const slice FIELDS[3] = {{"q0", 2}, {"q1", 2}, {"q2", 2}};

typedef struct {
  const settings *s;
  void *db;
  bool (*step)(void *worker);
  _Atomic int stage;
  _Atomic uint64_t next; /* loads: the next row to write */
  uint64_t loaded;       /* reads: rows that are there */
  pthread_barrier_t start;
} crew;

typedef struct {
  crew *crew;
  void *session;
  pthread_t thread;
  uint64_t random;
  int64_t last_value;
  uint64_t calls, items;        /* while measuring */
  uint64_t acknowledged, wrong; /* always */
  histogram *latency;
  increment_op *ops;               /* batch */
  char (*op_rows)[COUNTER_ROW_LEN]; /* batch: what ops point to */
  char *buf;
} __attribute__((aligned(128))) worker;

static char *value_pool;

void counter_row(char row[COUNTER_ROW_LEN], uint64_t number) {
  row[0] = 'r';
  for (int i = COUNTER_ROW_LEN - 1; i > 0; i--, number /= 10) row[i] = (char)('0' + number % 10);
}

static void hex16(char *p, uint64_t v) {
  for (int i = 15; i >= 0; i--, v >>= 4) p[i] = "0123456789abcdef"[v & 15];
}

/* 50 bytes for `put`, 24 for `put-row`; hashed, so that loads come in random key order. */
static slice data_row(char *row, uint64_t number, bool long_row) {
  hex16(row, mix64(number + 1));
  if (!long_row) {
    memcpy(row + 16, "-userrow", 8);
    return (slice){row, 24};
  }
  memcpy(row + 16, "-region-bench-", 14);
  hex16(row + 30, mix64(number ^ 0xabcdef987654321ull));
  memcpy(row + 46, "-end", 4);
  return (slice){row, 50};
}

static slice data_value(const settings *s, uint64_t number) {
  return (slice){value_pool + mix64(number) % VALUE_POOL, s->value_bytes};
}

static void fill_value_pool(const settings *s) {
  uint64_t v = 1;
  size_t len = VALUE_POOL + ((s->value_bytes + 7) & ~(size_t)7);
  value_pool = malloc(len);
  for (size_t i = 0; i < len; i += 8) {
    v = mix64(v + i);
    memcpy(value_pool + i, &v, 8);
  }
}

/* ---- one step of each workload; false when a load has nothing left ---- */

static bool step_uniform(void *arg) {
  worker *w = arg;
  char row[COUNTER_ROW_LEN];
  counter_row(row, random_below(&w->random, w->crew->s->rows));
  w->crew->s->engine->increment(w->session, &(column){{row, sizeof row}, COUNTER}, 1);
  w->items++;
  w->acknowledged++;
  return true;
}

static bool step_hot(void *arg) {
  worker *w = arg;
  int64_t value = w->crew->s->engine->increment(w->session, &HOT, 1);
  if (value <= w->last_value) w->wrong++;
  w->last_value = value;
  w->items++;
  w->acknowledged++;
  return true;
}

static bool step_batch(void *arg) {
  worker *w = arg;
  const settings *s = w->crew->s;
  uint64_t first = random_below(&w->random, s->rows);
  for (int i = 0; i < s->batch; i++) {
    counter_row(w->op_rows[i], (first + (uint64_t)i * BATCH_STRIDE) % s->rows);
    w->ops[i] = (increment_op){{{w->op_rows[i], COUNTER_ROW_LEN}, COUNTER}, 1, 0};
  }
  s->engine->increment_batch(w->session, w->ops, (size_t)s->batch);
  w->items += (uint64_t)s->batch;
  w->acknowledged += (uint64_t)s->batch;
  return true;
}

static bool step_put(void *arg) {
  worker *w = arg;
  const settings *s = w->crew->s;
  uint64_t number = atomic_fetch_add(&w->crew->next, 1);
  char row[64];
  if (number >= s->rows) return false;
  put_op op = {{data_row(row, number, true), FIELDS[0]}, data_value(s, number)};
  s->engine->put_batch(w->session, &op, 1);
  w->items++;
  return true;
}

static bool step_put_row(void *arg) {
  worker *w = arg;
  const settings *s = w->crew->s;
  uint64_t number = atomic_fetch_add(&w->crew->next, 1);
  char row[64];
  put_op ops[3];
  if (number >= s->rows) return false;
  slice key = data_row(row, number, false);
  for (uint64_t i = 0; i < 3; i++) ops[i] = (put_op){{key, FIELDS[i]}, data_value(s, number * 3 + i)};
  s->engine->put_batch(w->session, ops, 3);
  w->items++;
  return true;
}

static bool step_get(void *arg) {
  worker *w = arg;
  const settings *s = w->crew->s;
  char row[64];
  uint64_t number = random_below(&w->random, w->crew->loaded);
  column at;
  size_t expected = 8;
  if (value_pool) {
    bool long_row = !strcmp(s->workload, "put");
    at = (column){data_row(row, number, long_row), long_row ? FIELDS[0] : FIELDS[random_next(&w->random) % 3]};
    expected = s->value_bytes;
  } else {
    counter_row(row, number);
    at = (column){{row, COUNTER_ROW_LEN}, COUNTER};
  }
  if (s->engine->get(w->session, &at, w->buf, GET_CAP) != (ssize_t)expected) w->wrong++;
  w->items++;
  return true;
}

static void touch_value(void *arg, const void *value, size_t len) {
  uint64_t *sum = arg, word;
  for (const char *p = value; len >= 8; p += 8, len -= 8) {
    memcpy(&word, p, 8);
    *sum += word;
  }
}

static bool step_scan(void *arg) {
  worker *w = arg;
  uint64_t sum = 0;
  w->items += w->crew->s->engine->scan(w->session, touch_value, &sum);
  return sum != 1; /* keeps the sum alive; never false in practice */
}

static bool step_scan_cells(void *arg) {
  worker *w = arg;
  const engine *e = w->crew->s->engine;
  uint64_t sum = 0;
  uint64_t cells = (e->scan_cells ? e->scan_cells : e->scan)(w->session, touch_value, &sum);
  if (cells != w->crew->loaded) w->wrong++;
  w->items += cells;
  return sum != 1;
}

static bool step_scan_pages(void *arg) {
  worker *w = arg;
  uint64_t before = w->items;
  bool more = step_scan(arg);
  if (w->items - before != w->crew->loaded) w->wrong++;
  return more;
}

static bool step_scan_short(void *arg) {
  worker *w = arg;
  char row[64];
  uint64_t sum = 0;
  slice from = data_row(row, random_below(&w->random, w->crew->loaded), false);
  uint64_t cells = w->crew->s->engine->scan_from(w->session, from, 10, touch_value, &sum);
  if (cells == 0) w->wrong++;
  w->items++;
  return sum != 1;
}

/* 8 to 100 bytes. */
static slice short_value(uint64_t number) { return (slice){value_pool + mix64(number) % VALUE_POOL, 8 + mix64(number + 7) % 93}; }

static bool put_short(worker *w, uint64_t number) {
  char row[64];
  put_op op = {{data_row(row, number, false), FIELDS[0]}, short_value(number)};
  w->crew->s->engine->put_batch(w->session, &op, 1);
  w->items++;
  return true;
}

static bool step_put_short(void *arg) {
  worker *w = arg;
  uint64_t number = atomic_fetch_add(&w->crew->next, 1);
  return number < w->crew->s->rows && put_short(w, number);
}

static bool step_put_again(void *arg) {
  worker *w = arg;
  return put_short(w, random_below(&w->random, w->crew->loaded));
}

/* ---- threads ---- */

static void *work(void *arg) {
  worker *w = arg;
  crew *c = w->crew;
  int stage = WARMING;
  w->session = c->s->engine->session_begin(c->db);
  pthread_barrier_wait(&c->start);
  uint64_t last = ticks();
  for (;;) {
    int now_stage = atomic_load_explicit(&c->stage, memory_order_relaxed);
    if (now_stage == STOPPED) break;
    if (now_stage != stage) {
      memset(w->latency, 0, sizeof *w->latency);
      w->calls = w->items = 0;
      stage = now_stage;
      last = ticks();
    }
    if (!c->step(w)) break;
    uint64_t now = ticks();
    histogram_add(w->latency, now - last);
    last = now;
    w->calls++;
  }
  c->s->engine->session_end(w->session);
  return NULL;
}

static worker *workers_start(crew *c, int threads) {
  const settings *s = c->s;
  worker *workers = aligned_alloc(128, (size_t)threads * sizeof *workers);
  memset(workers, 0, (size_t)threads * sizeof *workers);
  pthread_barrier_init(&c->start, NULL, (unsigned)threads + 1);
  for (int i = 0; i < threads; i++) {
    worker *w = &workers[i];
    w->crew = c;
    w->random = mix64((uint64_t)(i + 1) * 1000003 + (uint64_t)s->repetition * 7 + 99);
    w->last_value = -1;
    w->latency = calloc(1, sizeof *w->latency);
    w->ops = calloc((size_t)s->batch, sizeof *w->ops);
    w->op_rows = calloc((size_t)s->batch, sizeof *w->op_rows);
    w->buf = malloc(GET_CAP);
    if (pthread_create(&w->thread, NULL, work, w)) die("pthread_create");
  }
  return workers;
}

static void workers_join(worker *workers, int threads) {
  for (int i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
}

static void workers_free(worker *workers, int threads) {
  for (int i = 0; i < threads; i++) {
    free(workers[i].latency);
    free(workers[i].ops);
    free(workers[i].op_rows);
    free(workers[i].buf);
  }
  free(workers);
}

/* ---- reports ---- */

static void print_head(const settings *s, const char *workload, int threads) {
  printf("{\"engine\":\"%s\",\"workload\":\"%s\",\"durability\":\"%s\",\"threads\":%d,\"rows\":%llu,\"batch\":%d,\"repetition\":%d", s->engine->name,
         workload, s->durability, threads, (unsigned long long)s->rows, !strcmp(workload, "batch") ? s->batch : 1, s->repetition);
}

/* One JSON object; returns the number of wrong answers. */
static uint64_t report(const crew *c, const char *workload, const worker *workers, int threads, usage a, usage b, bool cut) {
  static const double percents[] = {50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.999};
  histogram *all = calloc(1, sizeof *all);
  uint64_t calls = 0, items = 0, wrong = 0, slowest = UINT64_MAX, fastest = 0;
  for (int i = 0; i < threads; i++) {
    const worker *w = &workers[i];
    calls += w->calls;
    items += w->items;
    wrong += w->wrong;
    if (w->calls < slowest) slowest = w->calls;
    if (w->calls > fastest) fastest = w->calls;
    histogram_merge(all, w->latency);
  }
  double seconds = b.at - a.at, cpu = b.cpu - a.cpu, ns = ns_per_tick();
  print_head(c->s, workload, threads);
  printf(",\"seconds\":%.4f,\"calls\":%llu,\"calls_s\":%.1f,\"items_s\":%.1f", seconds, (unsigned long long)calls, (double)calls / seconds,
         (double)items / seconds);
  printf(",\"p50_ns\":%.0f,\"p99_ns\":%.0f,\"p999_ns\":%.0f,\"max_ns\":%.0f", (double)histogram_percentile(all, 50) * ns,
         (double)histogram_percentile(all, 99) * ns, (double)histogram_percentile(all, 99.9) * ns, (double)all->max * ns);
  printf(",\"percentiles\":[");
  for (size_t i = 0; i < sizeof percents / sizeof *percents; i++)
    printf("%s[%g,%.0f]", i ? "," : "", percents[i], (double)histogram_percentile(all, percents[i]) * ns);
  printf("],\"fairness\":%.4f,\"cpu_us_per_item\":%.4f,\"other_cpus\":%.3f,\"switches\":%llu", fastest ? (double)slowest / (double)fastest : 0,
         items ? cpu * 1e6 / (double)items : 0, (b.machine_busy - a.machine_busy - cpu) / seconds, (unsigned long long)(b.switches - a.switches));
  printf(",\"rss_peak_kb\":%llu,\"dir_bytes\":%llu,\"wrong\":%llu,\"cut\":%s}\n", (unsigned long long)peak_rss_kb(),
         (unsigned long long)directory_bytes(c->s->open.dir), (unsigned long long)wrong, cut ? "true" : "false");
  fflush(stdout);
  free(all);
  return wrong;
}

/* Warm up, measure, stop. */
static bool run_timed(const settings *s, void *db, const char *workload, bool (*step)(void *), int threads, double warm, uint64_t loaded,
                      uint64_t *acknowledged) {
  crew c = {.s = s, .db = db, .step = step, .loaded = loaded};
  worker *workers = workers_start(&c, threads);
  pthread_barrier_wait(&c.start);
  usleep((useconds_t)(warm * 1e6));
  peak_rss_reset();
  usage a = usage_now();
  atomic_store(&c.stage, MEASURING);
  usleep((useconds_t)(s->seconds * 1e6));
  usage b = usage_now();
  atomic_store(&c.stage, STOPPED);
  workers_join(workers, threads);
  if (step == step_scan || step == step_scan_pages || step == step_scan_cells) b = usage_now(); /* whole scans only */
  uint64_t wrong = report(&c, workload, workers, threads, a, b, false);
  for (int i = 0; acknowledged && i < threads; i++) *acknowledged += workers[i].acknowledged;
  workers_free(workers, threads);
  return wrong == 0;
}

/* As run_timed, beside `writers` threads that run `write`; only the others are counted. */
static bool run_beside(const settings *s, void *db, bool (*step)(void *), int threads, bool (*write)(void *), int writers, uint64_t loaded) {
  crew busy = {.s = s, .db = db, .step = write, .loaded = loaded};
  worker *others = workers_start(&busy, writers);
  pthread_barrier_wait(&busy.start);
  bool right = run_timed(s, db, s->workload, step, threads, s->warm, loaded, NULL);
  atomic_store(&busy.stage, STOPPED);
  workers_join(others, writers);
  workers_free(others, writers);
  return right;
}

/* Until all rows are written, or the limit; returns how many are. */
static uint64_t run_load(const settings *s, void *db, bool (*step)(void *), bool tell) {
  crew c = {.s = s, .db = db, .step = step, .stage = MEASURING};
  bool cut = false;
  worker *workers = workers_start(&c, s->threads);
  peak_rss_reset();
  usage a = usage_now();
  pthread_barrier_wait(&c.start);
  while (!cut && atomic_load(&c.next) < s->rows) {
    usleep(10000);
    cut = now_seconds() - a.at > s->limit;
  }
  if (cut) atomic_store(&c.stage, STOPPED);
  workers_join(workers, s->threads);
  usage b = usage_now();
  if (tell) report(&c, s->workload, workers, s->threads, a, b, cut);
  workers_free(workers, s->threads);
  return c.next < s->rows ? c.next : s->rows;
}

void create_counters(const settings *s, void *db, uint64_t n) {
  enum { CHUNK = 500 };
  increment_op ops[CHUNK];
  char rows[CHUNK][COUNTER_ROW_LEN];
  void *session = s->engine->session_begin(db);
  for (uint64_t i = 0; i < n;) {
    size_t len = 0;
    for (; len < CHUNK && i < n; len++, i++) {
      counter_row(rows[len], i);
      ops[len] = (increment_op){{{rows[len], COUNTER_ROW_LEN}, COUNTER}, 0, 0};
    }
    s->engine->increment_batch(session, ops, len);
  }
  s->engine->session_end(session);
}

static void add_counter(void *arg, const void *value, size_t len) {
  if (len == 8) *(uint64_t *)arg += (uint64_t)counter_load(value);
}

uint64_t sum_counters(const settings *s, void *db, uint64_t *cells) {
  uint64_t sum = 0;
  void *session = s->engine->session_begin(db);
  *cells = s->engine->scan(session, add_counter, &sum);
  s->engine->session_end(session);
  return sum;
}

static bool check_sum(const settings *s, void *db, uint64_t acknowledged) {
  uint64_t cells, sum = sum_counters(s, db, &cells);
  bool right = sum == acknowledged && cells == s->rows;
  print_head(s, "check-sum", s->threads);
  printf(",\"of\":\"%s\",\"acknowledged\":%llu,\"found\":%llu,\"cells\":%llu,\"right\":%s}\n", s->workload, (unsigned long long)acknowledged,
         (unsigned long long)sum, (unsigned long long)cells, right ? "true" : "false");
  return right;
}

bool run_workload(const settings *s) {
  static const struct {
    const char *name;
    bool (*step)(void *);
    bool load;
    bool (*scan)(void *);
  } kinds[] = {
      {"uniform", step_uniform, false, NULL},
      {"hot", step_hot, false, NULL},
      {"batch", step_batch, false, NULL},
      {"put", step_put, true, NULL},
      {"put-row", step_put_row, true, NULL},
      {"fullscan", step_put_short, true, step_scan_pages},
      {"fullscan-next", step_put_short, true, step_scan_cells},
      {"shortscan", step_put_short, true, step_scan_short},
  };
  size_t kind = 0;
  while (strcmp(kinds[kind].name, s->workload))
    if (++kind == sizeof kinds / sizeof *kinds) die("unknown workload %s", s->workload);

  bool right = true;
  uint64_t loaded = s->rows, acknowledged = 0;
  char name[64];
  void *db = s->engine->open(s->engine, &s->open);
  if (kinds[kind].load) {
    fill_value_pool(s);
    loaded = run_load(s, db, kinds[kind].step, kinds[kind].scan == NULL);
    if (kinds[kind].scan == step_scan_short) {
      if (!s->engine->scan_from) die("%s has no short scans here", s->engine->name);
      right &= run_beside(s, db, kinds[kind].scan, s->threads, step_put_again, 8, loaded);
    } else if (kinds[kind].scan) {
      right &= run_timed(s, db, s->workload, kinds[kind].scan, 1, 0, loaded, NULL);
    }
  } else {
    create_counters(s, db, s->rows);
    right &= run_timed(s, db, s->workload, kinds[kind].step, s->threads, s->warm, 0, &acknowledged);
    right &= check_sum(s, db, acknowledged);
  }
  for (int threads = 1; s->then_get && threads <= 8; threads += 7) {
    snprintf(name, sizeof name, "get-%s", s->workload);
    right &= run_timed(s, db, name, step_get, threads, s->warm, loaded, NULL);
  }
  if (s->then_scan) {
    snprintf(name, sizeof name, "scan-%s", s->workload);
    right &= run_timed(s, db, name, step_scan, 1, 0, loaded, NULL);
  }
  s->engine->close(db);
  return right;
}
