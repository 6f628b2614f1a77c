/* The workloads and their parameters. main.c reads the parameters; workload.c and recover.c run one workload each. */
#ifndef WORKLOAD_H
#define WORKLOAD_H
#include "bench.h"

typedef struct {
  const engine *engine;
  const char *workload, *durability; /* as given, for the report */
  open_options open;
  int threads, repetition;
  int batch;                 /* increments per call of workload `batch` */
  uint64_t rows;             /* counters, rows to load, or increments before the kill */
  size_t value_bytes;        /* puts */
  double warm, seconds;      /* timed workloads: not counted, counted */
  double limit;              /* seconds after which a load or a run-up to the kill is cut */
  bool then_get, then_scan;  /* measure reads of what was written */
} settings;

/* Each opens the engine, runs, prints one JSON object a line, closes. They return false if a count was wrong. */
bool run_workload(const settings *s);
bool run_recovery(const settings *s, char **argv);

/* The process that run_recovery starts and kills: counts acknowledged increments per thread into the shared memory `fd`. */
void run_victim(const settings *s, int fd) __attribute__((noreturn));

/* Creates rows 0 .. n-1 with the value 0, so that measured increments find their counter. */
void create_counters(const settings *s, void *db, uint64_t n);

/* Adds up all counters. */
uint64_t sum_counters(const settings *s, void *db, uint64_t *cells);

#define COUNTER_ROW_LEN 9
void counter_row(char row[COUNTER_ROW_LEN], uint64_t number); /* r00000042 */

static inline uint64_t random_next(uint64_t *state) { return mix64(*state += 0x9E3779B97F4A7C15ull); }
static inline uint64_t random_below(uint64_t *state, uint64_t n) { return (uint64_t)(((unsigned __int128)random_next(state) * n) >> 64); }

#endif
