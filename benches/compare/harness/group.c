/* gc+ENGINE: the group-commit layer that a careful user could put in front of any store.
 *
 * Callers push their operation on a lock-free stack. Whoever pushed onto an empty stack leads: it takes all that is queued and runs it as ONE
 * batch of the engine (one transaction, one sync). Increments of the same column become one, and each caller still gets its own value.
 * Batches and reads go straight through.
 */
#include "bench.h"
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GROUP_MAX 512 /* callers in one group: at most one per thread */
#define CELLS_MAX (GROUP_MAX * 8)
#define TABLE (2 * GROUP_MAX)
#define EMPTY 0xffff

typedef struct request {
  struct request *next;
  uint32_t done; /* futex word: 1 when the result is there */
  const put_op *puts;
  size_t puts_len; /* 0: an increment */
  increment_op op;
} request;

typedef struct {
  const engine *base;
  void *db;
  _Atomic(request *) queue;
  pthread_mutex_t leading; /* guards the rest: a new leader may come while the last one still runs its group */
  void *session;
  increment_op ops[GROUP_MAX];
  put_op puts[CELLS_MAX];
} database;

typedef struct {
  database *db;
  void *direct; /* the engine's own session */
} session;

static const engine *wrapped;

static void sleep_until_done(request *r) {
  while (!__atomic_load_n(&r->done, __ATOMIC_ACQUIRE)) syscall(SYS_futex, &r->done, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void wake(request *r) {
  uint32_t *word = &r->done; /* the request lies on its owner's stack and may be gone after the store */
  __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool same_column(const column *a, const column *b) {
  return a->row.len == b->row.len && a->qualifier.len == b->qualifier.len && !memcmp(a->row.data, b->row.data, a->row.len) &&
         !memcmp(a->qualifier.data, b->qualifier.data, a->qualifier.len);
}

static void run_group(database *db, request *newest) {
  request *order[GROUP_MAX]; /* oldest first; order[0] is the leader's own */
  uint16_t merged_into[GROUP_MAX], table[TABLE];
  size_t n = 0, columns = 0, puts = 0;
  for (request *r = newest; r; r = r->next) n++;
  for (request *r = newest, **slot = order + n; r; r = r->next) *--slot = r;
  memset(table, 0xff, sizeof table);

  for (size_t i = 0; i < n; i++) {
    request *r = order[i];
    if (r->puts_len) {
      memcpy(db->puts + puts, r->puts, r->puts_len * sizeof *r->puts);
      puts += r->puts_len;
      continue;
    }
    size_t slot = (hash_bytes(r->op.at.row.data, r->op.at.row.len) ^ hash_bytes(r->op.at.qualifier.data, r->op.at.qualifier.len)) % TABLE;
    while (table[slot] != EMPTY && !same_column(&db->ops[table[slot]].at, &r->op.at)) slot = (slot + 1) % TABLE;
    if (table[slot] == EMPTY) {
      table[slot] = (uint16_t)columns;
      db->ops[columns++] = (increment_op){r->op.at, 0, 0};
    }
    increment_op *op = &db->ops[table[slot]];
    merged_into[i] = table[slot];
    op->delta += r->op.delta;
    r->op.value = op->delta; /* the partial sum; what was there before is added below */
  }
  if (columns) db->base->increment_batch(db->session, db->ops, columns);
  if (puts) db->base->put_batch(db->session, db->puts, puts);
  for (size_t i = 0; i < n; i++)
    if (!order[i]->puts_len) order[i]->op.value += db->ops[merged_into[i]].value - db->ops[merged_into[i]].delta;
  for (size_t i = 1; i < n; i++) wake(order[i]);
}

static void submit(database *db, request *r) {
  r->done = 0;
  r->next = atomic_load_explicit(&db->queue, memory_order_relaxed);
  while (!atomic_compare_exchange_weak(&db->queue, &r->next, r)) {
  }
  if (r->next) {
    sleep_until_done(r);
    return;
  }
  pthread_mutex_lock(&db->leading);
  run_group(db, atomic_exchange(&db->queue, NULL));
  pthread_mutex_unlock(&db->leading);
}

static void *group_open(const engine *self, const open_options *options) {
  (void)self;
  database *db = calloc(1, sizeof *db);
  db->base = wrapped;
  db->db = wrapped->open(wrapped, options);
  db->session = wrapped->session_begin(db->db);
  pthread_mutex_init(&db->leading, NULL);
  return db;
}

static void *group_session_begin(void *db) {
  session *s = calloc(1, sizeof *s);
  s->db = db;
  s->direct = s->db->base->session_begin(s->db->db);
  return s;
}

static void group_session_end(void *arg) {
  session *s = arg;
  s->db->base->session_end(s->direct);
  free(s);
}

static int64_t group_increment(void *arg, const column *at, int64_t delta) {
  request r = {.op = {*at, delta, 0}};
  submit(((session *)arg)->db, &r);
  return r.op.value;
}

static void group_put_batch(void *arg, const put_op *ops, size_t n) {
  request r = {.puts = ops, .puts_len = n};
  submit(((session *)arg)->db, &r);
}

static void group_increment_batch(void *arg, increment_op *ops, size_t n) {
  session *s = arg;
  s->db->base->increment_batch(s->direct, ops, n);
}

static ssize_t group_get(void *arg, const column *at, void *buf, size_t cap) {
  session *s = arg;
  return s->db->base->get(s->direct, at, buf, cap);
}

static uint64_t group_scan(void *arg, visit_fn visit, void *visit_arg) {
  session *s = arg;
  return s->db->base->scan(s->direct, visit, visit_arg);
}

static void group_close(void *arg) {
  database *db = arg;
  db->base->session_end(db->session);
  db->base->close(db->db);
  free(db);
}

const engine *group_wrap(const engine *base) {
  static char name[64];
  static engine self;
  snprintf(name, sizeof name, "gc+%s", base->name);
  wrapped = base;
  self = (engine){
      .name = name,
      .open = group_open,
      .session_begin = group_session_begin,
      .session_end = group_session_end,
      .increment = group_increment,
      .increment_batch = group_increment_batch,
      .put_batch = group_put_batch,
      .get = group_get,
      .scan = group_scan,
      .close = group_close,
  };
  return &self;
}
