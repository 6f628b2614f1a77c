/* compare: runs one workload on one engine, in a directory of its own that it removes, and prints one JSON object per line. See ../README.md. */
#include "measure.h"
#include "workload.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const engine *const engines[] = {
    &engine_region,  &engine_lmdb,   &engine_rocksdb,    &engine_rocksdb_unordered,
    &engine_leveldb, &engine_sqlite, &engine_wiredtiger, &engine_wiredtiger_locked,
};

const engine *engine_find(const char *name) {
  bool grouped = !strncmp(name, "gc+", 3);
  const char *base = grouped ? name + 3 : name;
  for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
    if (!strcmp(engines[i]->name, base)) return grouped ? group_wrap(engines[i]) : engines[i];
  die("unknown engine %s", name);
}

static void usage_and_exit(void) {
  fputs("usage: compare --engine NAME --workload uniform|hot|batch|put|put-row|fullscan|fullscan-next|shortscan|recover --durability sync|fsync --dir DIR\n"
        "  --threads N (1)   --rows N (100000)    --batch N (100)     --value-bytes N (1024)\n"
        "  --warm S (0.5)    --seconds S (2)      --limit S (40)      --memory-mb N (2048)\n"
        "  --then get,scan   --repetition N (0)\n"
        "engines, each also as gc+NAME:",
        stderr);
  for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) fprintf(stderr, " %s", engines[i]->name);
  fputc('\n', stderr);
  exit(2);
}

int main(int argc, char **argv) {
  settings s = {.threads = 1, .rows = 100000, .batch = 100, .value_bytes = 1024, .warm = 0.5, .seconds = 2, .limit = 40, .open.memory_mb = 2048};
  const char *engine_name = NULL, *parent = NULL, *victim_dir = NULL;
  int victim = -1;
  char dir[4096];
  for (int i = 1; i < argc; i += 2) {
    const char *option = argv[i], *value = argv[i + 1];
    if (!value) usage_and_exit();
    if (!strcmp(option, "--engine")) engine_name = value;
    else if (!strcmp(option, "--workload")) s.workload = value;
    else if (!strcmp(option, "--durability")) s.durability = value;
    else if (!strcmp(option, "--dir")) parent = value;
    else if (!strcmp(option, "--threads")) s.threads = atoi(value);
    else if (!strcmp(option, "--rows")) s.rows = strtoull(value, NULL, 10);
    else if (!strcmp(option, "--batch")) s.batch = atoi(value);
    else if (!strcmp(option, "--value-bytes")) s.value_bytes = strtoul(value, NULL, 10);
    else if (!strcmp(option, "--warm")) s.warm = atof(value);
    else if (!strcmp(option, "--seconds")) s.seconds = atof(value);
    else if (!strcmp(option, "--limit")) s.limit = atof(value);
    else if (!strcmp(option, "--memory-mb")) s.open.memory_mb = strtoul(value, NULL, 10);
    else if (!strcmp(option, "--repetition")) s.repetition = atoi(value);
    else if (!strcmp(option, "--then")) s.then_get = strstr(value, "get"), s.then_scan = strstr(value, "scan");
    else if (!strcmp(option, "--victim")) victim = atoi(value);
    else if (!strcmp(option, "--victim-dir")) victim_dir = value;
    else usage_and_exit();
  }
  if (!engine_name || !s.workload || !s.durability || !parent || s.threads < 1 || s.rows < 100 || s.batch < 1 || s.batch > 1000) usage_and_exit();
  if (strcmp(s.durability, "sync") && strcmp(s.durability, "fsync")) usage_and_exit();
  s.engine = engine_find(engine_name);
  s.open.durability = !strcmp(s.durability, "fsync") ? SURVIVES_MACHINE : SURVIVES_PROCESS;
  s.open.large_values = !strncmp(s.workload, "put", 3);
  s.open.resident = strstr(s.workload, "scan") != NULL;
  if (victim >= 0) {
    s.open.dir = victim_dir;
    run_victim(&s, victim);
  }

  mkdir(parent, 0755);
  snprintf(dir, sizeof dir, "%s/compare.%d", parent, (int)getpid());
  directory_remove(dir);
  if (mkdir(dir, 0755)) die("cannot make %s", dir);
  s.open.dir = dir;
  ns_per_tick();
  bool right = strcmp(s.workload, "recover") ? run_workload(&s) : run_recovery(&s, argv);
  directory_remove(dir);
  if (!right) fprintf(stderr, "compare: %s gave wrong counts in workload %s\n", engine_name, s.workload);
  return right ? 0 : 1;
}
