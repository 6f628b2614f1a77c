/* Recovery: a child process increments random counters; once --rows increments are acknowledged it is killed with SIGKILL; then the time to
 * reopen is taken, and every acknowledged increment looked for. The child is a fresh program, not a fork of one that has an engine loaded.
 */
#include "measure.h"
#include "workload.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNTERS 100000
#define THREADS_MAX 128

/* Shared with the child: acknowledged increments, one line of memory per thread. */
typedef struct {
  _Atomic uint64_t acknowledged;
  char pad[56];
} tally;

static tally *tally_map(int fd) {
  tally *t = mmap(NULL, THREADS_MAX * sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (t == MAP_FAILED) die("mmap of the tally");
  return t;
}

static uint64_t tally_sum(tally *t) {
  uint64_t sum = 0;
  for (int i = 0; i < THREADS_MAX; i++) sum += atomic_load(&t[i].acknowledged);
  return sum;
}

/* ---- the child ---- */

typedef struct {
  const settings *s;
  void *db;
  tally *own;
  uint64_t random;
} victim;

static void *increment_for_ever(void *arg) {
  victim *v = arg;
  void *session = v->s->engine->session_begin(v->db);
  for (;;) {
    char row[COUNTER_ROW_LEN];
    counter_row(row, random_below(&v->random, COUNTERS));
    v->s->engine->increment(session, &(column){{row, sizeof row}, {"q", 1}}, 1);
    atomic_fetch_add(&v->own->acknowledged, 1);
  }
  return NULL;
}

void run_victim(const settings *s, int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlives a parent that was itself killed */
  tally *tallies = tally_map(fd);
  void *db = s->engine->open(s->engine, &s->open);
  create_counters(s, db, COUNTERS);
  for (int i = 0; i < s->threads; i++) {
    victim *v = malloc(sizeof *v);
    pthread_t thread;
    *v = (victim){s, db, &tallies[i], mix64((uint64_t)i + 5)};
    if (pthread_create(&thread, NULL, increment_for_ever, v)) die("pthread_create");
  }
  for (;;) pause();
}

/* ---- the parent ---- */

static pid_t start_victim(int fd, const char *dir, char **argv) {
  size_t n = 0;
  while (argv[n]) n++;
  char **args = calloc(n + 5, sizeof *args), number[16];
  memcpy(args, argv, n * sizeof *args);
  snprintf(number, sizeof number, "%d", fd);
  args[n] = (char *)"--victim";
  args[n + 1] = number;
  args[n + 2] = (char *)"--victim-dir";
  args[n + 3] = (char *)dir;
  pid_t pid = fork();
  if (pid < 0) die("fork");
  if (pid == 0) {
    execv("/proc/self/exe", args);
    _exit(127);
  }
  free(args);
  return pid;
}

bool run_recovery(const settings *s, char **argv) {
  if (s->threads > THREADS_MAX) die("at most %d threads", THREADS_MAX);
  int fd = memfd_create("tally", 0);
  if (fd < 0 || ftruncate(fd, THREADS_MAX * sizeof(tally))) die("memfd_create");
  tally *tallies = tally_map(fd);
  pid_t pid = start_victim(fd, s->open.dir, argv);
  double start = now_seconds();
  while (tally_sum(tallies) < s->rows && now_seconds() - start < s->limit) {
    if (waitpid(pid, NULL, WNOHANG) == pid) die("the child died before it was killed");
    usleep(200);
  }
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);

  uint64_t acknowledged = tally_sum(tallies), dir_bytes = directory_bytes(s->open.dir), cells;
  usage a = usage_now();
  void *db = s->engine->open(s->engine, &s->open);
  usage b = usage_now();
  uint64_t found = sum_counters(s, db, &cells);
  /* What was in flight when the signal came may or may not be there: at most one increment a thread. */
  bool right = acknowledged > 0 && found >= acknowledged && found <= acknowledged + (uint64_t)s->threads && cells == COUNTERS;
  printf("{\"engine\":\"%s\",\"workload\":\"recover\",\"durability\":\"%s\",\"threads\":%d,\"rows\":%d,\"batch\":1,\"repetition\":%d", s->engine->name,
         s->durability, s->threads, COUNTERS, s->repetition);
  printf(",\"acknowledged\":%llu,\"found\":%llu,\"cells\":%llu,\"right\":%s,\"open_ms\":%.2f,\"items_s\":%.0f,\"cpu_s\":%.3f,\"dir_bytes\":%llu}\n",
         (unsigned long long)acknowledged, (unsigned long long)found, (unsigned long long)cells, right ? "true" : "false", (b.at - a.at) * 1e3,
         (double)acknowledged / (b.at - a.at), b.cpu - a.cpu, (unsigned long long)dir_bytes);
  fflush(stdout);
  s->engine->close(db);
  return right;
}
