#include "bench.h"
#include "measure.h"
#include <ftw.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double ns_per_tick(void) {
  static double rate;
  if (rate > 0) return rate;
  double start = now_seconds(), end;
  uint64_t first = ticks();
  do end = now_seconds();
  while (end - start < 0.05);
  return rate = (end - start) * 1e9 / (double)(ticks() - first);
}

usage usage_now(void) {
  struct rusage r;
  unsigned long long user = 0, nice = 0, system = 0, idle, wait, irq = 0, soft = 0;
  getrusage(RUSAGE_SELF, &r);
  FILE *f = fopen("/proc/stat", "r");
  if (f) {
    if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &irq, &soft) != 7) die("/proc/stat");
    fclose(f);
  }
  return (usage){
      .at = now_seconds(),
      .cpu = (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6,
      .machine_busy = (double)(user + nice + system + irq + soft) / (double)sysconf(_SC_CLK_TCK),
      .switches = (uint64_t)(r.ru_nvcsw + r.ru_nivcsw),
  };
}

uint64_t peak_rss_kb(void) {
  FILE *f = fopen("/proc/self/status", "r");
  char line[256];
  uint64_t kb = 0;
  if (!f) return 0;
  while (fgets(line, sizeof line, f))
    if (!strncmp(line, "VmHWM:", 6)) kb = strtoull(line + 6, NULL, 10);
  fclose(f);
  return kb;
}

void peak_rss_reset(void) {
  FILE *f = fopen("/proc/self/clear_refs", "w");
  if (!f) return;
  fputs("5", f);
  fclose(f);
}

static uint64_t total;

static int add_blocks(const char *path, const struct stat *s, int type, struct FTW *ftw) {
  (void)path, (void)type, (void)ftw;
  total += (uint64_t)s->st_blocks * 512;
  return 0;
}

uint64_t directory_bytes(const char *dir) {
  total = 0;
  nftw(dir, add_blocks, 32, FTW_PHYS);
  return total;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *ftw) {
  (void)s, (void)type, (void)ftw;
  return remove(path);
}

void directory_remove(const char *dir) { nftw(dir, remove_one, 32, FTW_DEPTH | FTW_PHYS); }
