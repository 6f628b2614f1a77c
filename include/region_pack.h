/*
 * region_pack.h: writers and readers of the packed formats of region.h, for C and C++. All static inline, no state, no allocation.
 *
 * Packed records are little-endian. They lie one behind another, each padded with zeros to a multiple of 8; there is no buffer header, the number of
 * records is passed beside the buffer. Offsets in bytes:
 *
 *   op record (region_batch_mutate_packed)         increment record (region_increment_packed)
 *     0 u8   op: REGION_OP_*                         0 u32  family
 *     1 u8   header length, 40                       4 u16  row_len
 *     2 u16  row_len (0 with SAME_ROW)               6 u16  qual_len
 *     4 u32  family                                  8 i64  delta
 *     8 u32  flags: REGION_CHECK_*, SAME_ROW        16      row, qualifier
 *    12 u32  qual_len
 *    16 u32  value_len                             key record (region_get_packed, region_counter_get_packed)
 *    20 u32  ttl_ms, 0                               0 u32  family
 *    24 i64  delta                                   4 u16  row_len
 *    32 u64  timestamp                               6 u16  qual_len
 *    40      row, qualifier, value                   8      row, qualifier
 *
 *   cell record (region_scanner_next_page, region_get_row, region_get_packed)
 *     0 u8   type: REGION_CELL_PUT, ...             12 u32  value_len
 *     1 u8   flags: REGION_CELL_NEW_ROW, ...        16 u64  timestamp
 *     2 u16  row_len (0 unless NEW_ROW)             24 u64  seq
 *     4 u32  family                                 32      row, qualifier, value
 *     8 u32  qual_len
 *
 * Writers take the buffer, its length and the place to write at; they answer the place behind the record, or 0 if the record does not fit the buffer or a
 * length does not fit its field (nothing is written then). So: at = 0; at = region_pack_increment(buf, cap, at, ...); if (at == 0) ...
 */
#ifndef LIBREGION_REGION_PACK_H
#define LIBREGION_REGION_PACK_H

#include "region.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flag of an op record: its row is that of the record before; row_len is 0. */
#define REGION_PACK_SAME_ROW ((uint32_t)1 << 16)

/* Length of a header. */
#define REGION_PACK_OP_HEADER ((size_t)40)
#define REGION_PACK_INCREMENT_HEADER ((size_t)16)
#define REGION_PACK_KEY_HEADER ((size_t)8)
#define REGION_PACK_CELL_HEADER ((size_t)32)

static inline void region_pack_u16(unsigned char *p, uint16_t v) {
  p[0] = (unsigned char)(v & 0xff);
  p[1] = (unsigned char)(v >> 8);
}
static inline void region_pack_u32(unsigned char *p, uint32_t v) {
  int i;
  for (i = 0; i < 4; i++) p[i] = (unsigned char)((v >> (8 * i)) & 0xff);
}
static inline void region_pack_u64(unsigned char *p, uint64_t v) {
  int i;
  for (i = 0; i < 8; i++) p[i] = (unsigned char)((v >> (8 * i)) & 0xff);
}
static inline uint16_t region_unpack_u16(const unsigned char *p) { return (uint16_t)(p[0] | ((unsigned)p[1] << 8)); }
static inline uint32_t region_unpack_u32(const unsigned char *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t region_unpack_u64(const unsigned char *p) {
  return (uint64_t)region_unpack_u32(p) | (uint64_t)region_unpack_u32(p + 4) << 32;
}

/* A counter as it is stored: 8 bytes, big-endian. */
static inline void region_i64_put(void *to, int64_t v) {
  unsigned char *p = (unsigned char *)to;
  uint64_t u = (uint64_t)v;
  int i;
  for (i = 0; i < 8; i++) p[i] = (unsigned char)((u >> (56 - 8 * i)) & 0xff);
}
static inline int64_t region_i64_get(const void *from) {
  const unsigned char *p = (const unsigned char *)from;
  uint64_t u = 0;
  int64_t v;
  int i;
  for (i = 0; i < 8; i++) u = u << 8 | p[i];
  memcpy(&v, &u, sizeof v);
  return v;
}

/* Length of a record with its padding. Sums of lengths below 2^61 do not overflow. */
static inline size_t region_pack_padded(size_t len) { return (len + 7) & ~(size_t)7; }

static inline unsigned char *region_pack_bytes(unsigned char *to, const void *from, size_t len) {
  if (len != 0) memcpy(to, from, len);
  return to + len;
}

/* True if a record of this length fits. */
static inline int region_pack_fits(size_t cap, size_t at, size_t header, size_t row_len, size_t qual_len, size_t value_len) {
  const size_t most = (size_t)1 << 40;
  if (at > cap || row_len > most || qual_len > most || value_len > most) return 0;
  return region_pack_padded(header + row_len + qual_len + value_len) <= cap - at;
}

static inline size_t region_pack_increment(void *buf, size_t cap, size_t at, uint32_t family, const void *row, size_t row_len, const void *qual,
                                           size_t qual_len, int64_t delta) {
  unsigned char *p, *end;
  if (row_len > 0xffff || qual_len > 0xffff || !region_pack_fits(cap, at, REGION_PACK_INCREMENT_HEADER, row_len, qual_len, 0)) return 0;
  p = (unsigned char *)buf + at;
  end = p + region_pack_padded(REGION_PACK_INCREMENT_HEADER + row_len + qual_len);
  region_pack_u32(p, family);
  region_pack_u16(p + 4, (uint16_t)row_len);
  region_pack_u16(p + 6, (uint16_t)qual_len);
  region_pack_u64(p + 8, (uint64_t)delta);
  p = region_pack_bytes(p + REGION_PACK_INCREMENT_HEADER, row, row_len);
  p = region_pack_bytes(p, qual, qual_len);
  while (p < end) *p++ = 0;
  return (size_t)(end - (unsigned char *)buf);
}

static inline size_t region_pack_key(void *buf, size_t cap, size_t at, uint32_t family, const void *row, size_t row_len, const void *qual,
                                     size_t qual_len) {
  unsigned char *p, *end;
  if (row_len > 0xffff || qual_len > 0xffff || !region_pack_fits(cap, at, REGION_PACK_KEY_HEADER, row_len, qual_len, 0)) return 0;
  p = (unsigned char *)buf + at;
  end = p + region_pack_padded(REGION_PACK_KEY_HEADER + row_len + qual_len);
  region_pack_u32(p, family);
  region_pack_u16(p + 4, (uint16_t)row_len);
  region_pack_u16(p + 6, (uint16_t)qual_len);
  p = region_pack_bytes(p + REGION_PACK_KEY_HEADER, row, row_len);
  p = region_pack_bytes(p, qual, qual_len);
  while (p < end) *p++ = 0;
  return (size_t)(end - (unsigned char *)buf);
}

/* One mutation. With REGION_PACK_SAME_ROW in flags its row must be empty. */
static inline size_t region_pack_op(void *buf, size_t cap, size_t at, const region_mutation_t *m) {
  unsigned char *p, *end;
  if (m->op > 0xff || m->row.len > 0xffff || m->qual.len > 0xffffffffu || m->value.len > 0xffffffffu) return 0;
  if (!region_pack_fits(cap, at, REGION_PACK_OP_HEADER, m->row.len, m->qual.len, m->value.len)) return 0;
  p = (unsigned char *)buf + at;
  end = p + region_pack_padded(REGION_PACK_OP_HEADER + m->row.len + m->qual.len + m->value.len);
  p[0] = (unsigned char)m->op;
  p[1] = (unsigned char)REGION_PACK_OP_HEADER;
  region_pack_u16(p + 2, (uint16_t)m->row.len);
  region_pack_u32(p + 4, m->family);
  region_pack_u32(p + 8, m->flags);
  region_pack_u32(p + 12, (uint32_t)m->qual.len);
  region_pack_u32(p + 16, (uint32_t)m->value.len);
  region_pack_u32(p + 20, m->ttl_ms);
  region_pack_u64(p + 24, (uint64_t)m->delta);
  region_pack_u64(p + 32, m->timestamp);
  p = region_pack_bytes(p + REGION_PACK_OP_HEADER, m->row.data, m->row.len);
  p = region_pack_bytes(p, m->qual.data, m->qual.len);
  p = region_pack_bytes(p, m->value.data, m->value.len);
  while (p < end) *p++ = 0;
  return (size_t)(end - (unsigned char *)buf);
}

/*
 * Reads the cell record at `at` of a page of `used` bytes. Answers the place of the next one, or 0 if there is no whole record there.
 * Without REGION_CELL_NEW_ROW cell->row stays as it is: keep one cell over a page, and its row is right. Begin each page with a zeroed cell.
 */
static inline size_t region_unpack_cell(const void *page, size_t used, size_t at, region_cell_t *cell) {
  const unsigned char *p;
  size_t row_len, qual_len, value_len, left;
  if (at > used || used - at < REGION_PACK_CELL_HEADER) return 0;
  p = (const unsigned char *)page + at;
  row_len = region_unpack_u16(p + 2);
  qual_len = region_unpack_u32(p + 8);
  value_len = region_unpack_u32(p + 12);
  left = used - at - REGION_PACK_CELL_HEADER;
  if (row_len > left || qual_len > left - row_len || value_len > left - row_len - qual_len) return 0;
  cell->type = p[0];
  cell->flags = p[1];
  cell->family = region_unpack_u32(p + 4);
  cell->timestamp = region_unpack_u64(p + 16);
  cell->seq = region_unpack_u64(p + 24);
  if ((p[1] & REGION_CELL_NEW_ROW) != 0) {
    cell->row.data = p + REGION_PACK_CELL_HEADER;
    cell->row.len = row_len;
  }
  cell->qual.data = p + REGION_PACK_CELL_HEADER + row_len;
  cell->qual.len = qual_len;
  cell->value.data = p + REGION_PACK_CELL_HEADER + row_len + qual_len;
  cell->value.len = value_len;
  at += region_pack_padded(REGION_PACK_CELL_HEADER + row_len + qual_len + value_len);
  return at <= used ? at : 0;
}

/* The place behind the key record at `at`, to go on behind the n_done keys that region_get_packed answered; 0 if there is no whole record. */
static inline size_t region_unpack_key(const void *keys, size_t len, size_t at) {
  const unsigned char *p;
  size_t size;
  if (at > len || len - at < REGION_PACK_KEY_HEADER) return 0;
  p = (const unsigned char *)keys + at;
  size = region_pack_padded(REGION_PACK_KEY_HEADER + (size_t)region_unpack_u16(p + 4) + region_unpack_u16(p + 6));
  return size <= len - at ? at + size : 0;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LIBREGION_REGION_PACK_H */
