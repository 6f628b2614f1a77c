/* What all engines share: hashing, striped locks, and the one way to fail. */
#include "bench.h"
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("compare: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  _exit(2); /* other threads may hold anything: no destructors */
}

uint64_t hash_bytes(const void *data, size_t len) {
  const unsigned char *p = data;
  uint64_t h = 0x9E3779B97F4A7C15ULL ^ len;
  while (len > 0) {
    size_t n = len < 8 ? len : 8;
    uint64_t word = 0;
    memcpy(&word, p, n);
    h = (h ^ word) * 0xff51afd7ed558ccdULL;
    h ^= h >> 32;
    p += n;
    len -= n;
  }
  return mix64(h);
}

stripe *stripes_new(void) {
  stripe *stripes = aligned_alloc(64, STRIPES * sizeof *stripes);
  if (!stripes) die("out of memory");
  for (int i = 0; i < STRIPES; i++) pthread_mutex_init(&stripes[i].mutex, NULL);
  return stripes;
}

static uint16_t stripe_id(const char *key, size_t len) { return (uint16_t)(hash_bytes(key, len) % STRIPES); }

pthread_mutex_t *stripe_of(stripe *stripes, const char *key, size_t len) { return &stripes[stripe_id(key, len)].mutex; }

static int compare_ids(const void *a, const void *b) { return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b; }

/* Ascending and each once, so that two batches cannot wait for each other. */
size_t stripes_lock(stripe *stripes, const increment_op *ops, size_t n, uint16_t *ids) {
  size_t distinct = 0;
  for (size_t i = 0; i < n; i++) {
    char key[KEY_MAX];
    ids[i] = stripe_id(key, key_make(key, &ops[i].at));
  }
  qsort(ids, n, sizeof *ids, compare_ids);
  for (size_t i = 0; i < n; i++)
    if (distinct == 0 || ids[distinct - 1] != ids[i]) ids[distinct++] = ids[i];
  for (size_t i = 0; i < distinct; i++) pthread_mutex_lock(&stripes[ids[i]].mutex);
  return distinct;
}

void stripes_unlock(stripe *stripes, const uint16_t *ids, size_t n) {
  for (size_t i = 0; i < n; i++) pthread_mutex_unlock(&stripes[ids[i]].mutex);
}
