/* Log-linear histogram in the manner of HdrHistogram: 64 buckets per power of two, so that a percentile is off by less than 1.6 %. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H
#include <stdint.h>

#define HISTOGRAM_BITS 6
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)

typedef struct {
  uint64_t count, sum, max;
  uint64_t bucket[HISTOGRAM_BUCKETS];
} histogram;

static inline unsigned histogram_index(uint64_t v) {
  if (v < 1u << HISTOGRAM_BITS) return (unsigned)v;
  unsigned exponent = 63 - (unsigned)__builtin_clzll(v);
  unsigned sub = (unsigned)(v >> (exponent - HISTOGRAM_BITS)) & ((1u << HISTOGRAM_BITS) - 1);
  return ((exponent - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS) + sub;
}

/* The highest value that falls into the bucket. */
static inline uint64_t histogram_value(unsigned index) {
  unsigned row = index >> HISTOGRAM_BITS, sub = index & ((1u << HISTOGRAM_BITS) - 1);
  if (row == 0) return sub;
  return (((uint64_t)(1u << HISTOGRAM_BITS) + sub + 1) << (row - 1)) - 1;
}

static inline void histogram_add(histogram *h, uint64_t v) {
  h->bucket[histogram_index(v)]++;
  h->count++;
  h->sum += v;
  if (v > h->max) h->max = v;
}

static inline void histogram_merge(histogram *into, const histogram *from) {
  into->count += from->count;
  into->sum += from->sum;
  if (from->max > into->max) into->max = from->max;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) into->bucket[i] += from->bucket[i];
}

static inline uint64_t histogram_percentile(const histogram *h, double percent) {
  if (h->count == 0) return 0;
  uint64_t rank = (uint64_t)(percent / 100.0 * (double)h->count), seen = 0;
  if (rank >= h->count) rank = h->count - 1;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    seen += h->bucket[i];
    if (seen > rank) return histogram_value(i) < h->max ? histogram_value(i) : h->max;
  }
  return h->max;
}

#endif
