/* One side of the boundary measurement: increments of one counter from C, through region.h and the shared library.
 *
 * usage: boundary_c DIR. Reads a number n from standard input, makes n increments, prints the nanoseconds per call; again until the end of input.
 * src/main.rs is the same program in Rust, loop by loop. SKIP_WAL, so that the log's noise does not drown the few nanoseconds in question.
 */
#include <inttypes.h>
#include <region.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(region_status status, const region_error_t *err, const char *what) {
  if (status >= 0) return;
  fprintf(stderr, "boundary_c: %s: %s\n", what, err->msg);
  exit(1);
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  region_error_t err = REGION_ERROR_INIT;
  region_family_t cf = {.name = {"cf", 2}};
  region_options_t options = {
      .struct_size = sizeof options,
      .flags = REGION_OPEN_CREATE,
      .durability = REGION_DUR_SKIP_WAL,
      .families = &cf,
      .n_families = 1,
      .family_size = sizeof cf,
  };
  region_t *region;
  uint32_t family;
  uint64_t n, total = 0;
  int64_t value = 0;
  if (argc != 2) return fprintf(stderr, "usage: boundary_c DIR\n"), 2;
  check(region_open(argv[1], &options, &region, &err), &err, "open");
  check(region_family_id(region, "cf", 2, &family, &err), &err, "family");
  while (scanf("%" SCNu64, &n) == 1) {
    double start = now_ns();
    for (uint64_t i = 0; i < n; i++) {
      region_status status = region_increment(region, "r00000042", 9, family, "q", 1, 1, NULL, &value, &err);
      if (status < 0) check(status, &err, "increment");
    }
    printf("%.3f\n", (now_ns() - start) / (double)n);
    fflush(stdout);
    total += n;
  }
  if ((uint64_t)value != total) return fprintf(stderr, "boundary_c: %" PRIu64 " increments gave %" PRId64 "\n", total, value), 1;
  check(region_close(region, REGION_CLOSE_NO_FLUSH, REGION_WAIT_FOREVER, &err), &err, "close");
  return 0;
}
