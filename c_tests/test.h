/* What every test here shares: checks that say where they failed, a fresh directory, and short forms of the calls that set a test up. C99 and C++17. */
#ifndef C_TESTS_TEST_H
#define C_TESTS_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "region.h"
#include "region_pack.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int checks_failed, checks_passed;
static region_error_t E = REGION_ERROR_INIT;

#define CHECK(cond)                                                                             \
  do {                                                                                          \
    if (cond) {                                                                                 \
      checks_passed++;                                                                          \
    } else {                                                                                    \
      checks_failed++;                                                                          \
      fprintf(stderr, "%s:%d: CHECK(%s) failed; last error: %s: %s\n", __FILE__, __LINE__, #cond, region_status_name(E.status), E.msg); \
    }                                                                                           \
  } while (0)

/* The call answers `want`; an error also tells itself through E, and has a text. */
#define EXPECT(want, call)                                                                      \
  do {                                                                                          \
    region_status rc_;                                                                          \
    region_error_init(&E);                                                                      \
    rc_ = (call);                                                                               \
    if (rc_ == (want) && (rc_ == 0 || E.status == 0 || E.status == rc_) && (E.status >= 0 || E.msg_len > 0)) { \
      checks_passed++;                                                                          \
    } else {                                                                                    \
      checks_failed++;                                                                          \
      fprintf(stderr, "%s:%d: %s: wanted %s, got %s (err: %s: %s)\n", __FILE__, __LINE__, #call, region_status_name(want), region_status_name(rc_), \
              region_status_name(E.status), E.msg);                                             \
    }                                                                                           \
  } while (0)

/* The same, and the message names a part of the call. */
#define EXPECT_NAMED(want, word, call)                                                          \
  do {                                                                                          \
    EXPECT(want, call);                                                                         \
    if (strstr(E.msg, word) == NULL) {                                                          \
      checks_failed++;                                                                          \
      fprintf(stderr, "%s:%d: the message does not name %s: %s\n", __FILE__, __LINE__, word, E.msg); \
    }                                                                                           \
  } while (0)

/* Ends a test's main. */
#define DONE()                                                                                  \
  do {                                                                                          \
    fprintf(stderr, "%-24s %6d passed, %d failed\n", __FILE__, checks_passed, checks_failed);   \
    return checks_failed != 0;                                                                  \
  } while (0)

/* Setting up must work, or nothing makes sense. */
#define MUST(call)                                                                              \
  do {                                                                                          \
    region_status rc_;                                                                          \
    region_error_init(&E);                                                                      \
    rc_ = (call);                                                                               \
    if (rc_ != 0) {                                                                             \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, region_status_name(rc_), E.msg); \
      exit(2);                                                                                  \
    }                                                                                           \
  } while (0)

static char dir_path[256];

static inline void remove_dir(void) {
  char command[320];
  if (dir_path[0] == 0) return;
  snprintf(command, sizeof command, "rm -rf '%s'", dir_path);
  if (system(command) != 0) fprintf(stderr, "cannot remove %s\n", dir_path);
}

/* A path in a fresh directory that vanishes with the process. */
static inline const char *new_path(const char *name) {
  static char path[512];
  if (dir_path[0] == 0) {
    const char *tmp = getenv("TMPDIR");
    snprintf(dir_path, sizeof dir_path, "%s/libregion-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir_path) == NULL) {
      perror("mkdtemp");
      exit(2);
    }
    atexit(remove_dir);
  }
  snprintf(path, sizeof path, "%s/%s", dir_path, name);
  return path;
}

static inline region_options_t options(uint32_t flags) {
  region_options_t o;
  memset(&o, 0, sizeof o);
  o.struct_size = (uint32_t)sizeof o;
  o.flags = flags;
  return o;
}

/* A new region with family "f", whose id is 1. */
static inline region_t *new_region(const char *name) {
  region_t *r = NULL;
  region_family_t f;
  region_options_t o = options(REGION_OPEN_CREATE);
  memset(&f, 0, sizeof f);
  f.name.data = "f";
  f.name.len = 1;
  o.families = &f;
  o.n_families = 1;
  o.family_size = sizeof f;
  MUST(region_open(new_path(name), &o, &r, &E));
  return r;
}

static inline region_slice_t slice(const char *text) {
  region_slice_t s;
  s.data = text;
  s.len = strlen(text);
  return s;
}

static inline int slice_is(region_slice_t s, const char *text) { return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0; }

static inline int64_t increment(region_t *r, const char *row, const char *qual, int64_t delta) {
  int64_t value = -1;
  MUST(region_increment(r, row, strlen(row), 1, qual, strlen(qual), delta, NULL, &value, &E));
  return value;
}

static inline region_status put(region_t *r, const char *row, const char *qual, const char *value) {
  return region_put(r, row, strlen(row), 1, qual, strlen(qual), value, strlen(value), NULL, &E);
}

static inline region_mutation_t mutation(uint32_t op, const char *row, const char *qual, const char *value, int64_t delta) {
  region_mutation_t m;
  memset(&m, 0, sizeof m);
  m.op = op;
  m.family = 1;
  m.row = slice(row);
  m.qual = slice(qual);
  m.value = slice(value);
  m.delta = delta;
  return m;
}

#endif
