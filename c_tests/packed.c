/* The packed formats: what they do, and that no buffer whatever can do harm. */
#include "test.h"

static unsigned char buf[1 << 16];

static void round_trip(region_t *r) {
  region_op_result_t res[5];
  int64_t values[4];
  int32_t statuses[4];
  size_t at = 0, keys = 0, used, done, next;
  unsigned char kb[256], page[256];
  region_cell_t cell;
  region_mutation_t m;

  at = region_pack_increment(buf, sizeof buf, at, 1, "a", 1, "n", 1, 5);
  CHECK(at == 24);
  at = region_pack_increment(buf, sizeof buf, at, 1, "a", 1, "n", 1, 6);
  at = region_pack_increment(buf, sizeof buf, at, 1, "longer-row", 10, "", 0, -7);
  EXPECT(REGION_OK, region_increment_packed(r, buf, at, 3, NULL, res, sizeof res[0], &E));
  CHECK(res[0].status == 0 && res[0].value == 5 && res[1].value == 11 && res[2].value == -7);
  /* Without results. */
  EXPECT(REGION_OK, region_increment_packed(r, buf, at, 3, NULL, NULL, 0, &E));

  at = 0;
  m = mutation(REGION_OP_PUT, "b", "text", "hello", 0);
  at = region_pack_op(buf, sizeof buf, at, &m);
  m = mutation(REGION_OP_INCREMENT, "", "n", "", 4);
  m.flags = REGION_PACK_SAME_ROW;
  at = region_pack_op(buf, sizeof buf, at, &m);
  m = mutation(REGION_OP_CHECK, "", "n", "", 4);
  m.flags = REGION_PACK_SAME_ROW | REGION_CHECK_EQ | REGION_CHECK_I64;
  at = region_pack_op(buf, sizeof buf, at, &m);
  m = mutation(REGION_OP_PUT, "c", "q", "x", 0);
  at = region_pack_op(buf, sizeof buf, at, &m);
  EXPECT(REGION_OK, region_batch_mutate_packed(r, buf, at, 4, NULL, res, sizeof res[0], &E));
  CHECK(res[0].status == 0 && res[1].value == 4 && res[2].status == 0 && res[3].status == 0);

  keys = region_pack_key(kb, sizeof kb, keys, 1, "a", 1, "n", 1);
  keys = region_pack_key(kb, sizeof kb, keys, 1, "absent", 6, "n", 1);
  keys = region_pack_key(kb, sizeof kb, keys, 1, "b", 1, "n", 1);
  EXPECT(REGION_OK, region_counter_get_packed(r, NULL, kb, keys, 3, values, statuses, &E));
  CHECK(values[0] == 22 && statuses[0] == REGION_OK && values[1] == 0 && statuses[1] == REGION_NOT_FOUND && values[2] == 4);
  keys = region_pack_key(kb, sizeof kb, keys, 1, "b", 1, "text", 4);
  EXPECT(REGION_E_NOT_COUNTER, region_counter_get_packed(r, NULL, kb, keys, 4, values, statuses, &E));
  CHECK(E.op_index == 3 && statuses[3] == REGION_E_NOT_COUNTER && values[0] == 22 && values[2] == 4);

  EXPECT(REGION_OK, region_get_packed(r, NULL, kb, keys, 4, page, sizeof page, &used, &done, &E));
  CHECK(done == 4);
  memset(&cell, 0, sizeof cell);
  next = region_unpack_cell(page, used, 0, &cell);
  CHECK(next != 0 && cell.value.len == 8 && region_i64_get(cell.value.data) == 22 && slice_is(cell.row, "a"));
  next = region_unpack_cell(page, used, next, &cell);
  CHECK(next != 0 && (cell.flags & REGION_CELL_NOT_FOUND) != 0 && cell.value.len == 0);
  next = region_unpack_cell(page, used, next, &cell);
  CHECK(next != 0 && (cell.flags & REGION_CELL_NOT_FOUND) == 0);
  next = region_unpack_cell(page, used, next, &cell);
  CHECK(next == used && slice_is(cell.value, "hello") && slice_is(cell.qual, "text") && cell.timestamp > 0 && cell.seq > 0);

  /* Resumable: a page for one record at a time. */
  {
    size_t place = 0, n = 4, rounds = 0;
    while (n > 0 && rounds++ < 10) {
      size_t i;
      EXPECT(REGION_OK, region_get_packed(r, NULL, kb + place, keys - place, n, page, 56, &used, &done, &E));
      CHECK(done >= 1 && used <= 56);
      for (i = 0; i < done; i++) place = region_unpack_key(kb, keys, place);
      n -= done;
    }
    CHECK(n == 0 && place == keys);
  }
  EXPECT(REGION_TRUNCATED, region_get_packed(r, NULL, kb, keys, 4, page, 8, &used, &done, &E));
  CHECK(done == 0 && used > 8 && used <= 56);
  EXPECT(REGION_TRUNCATED, region_get_packed(r, NULL, kb, keys, 4, NULL, 0, &used, &done, &E));
}

static void malformed(region_t *r) {
  region_op_result_t res[4];
  region_mutation_t m;
  size_t at = 0, one, i;
  unsigned char saved[128];
  int64_t v[2];

  at = region_pack_increment(buf, sizeof buf, 0, 1, "row", 3, "n", 1, 1);
  one = at;
  at = region_pack_increment(buf, sizeof buf, at, 1, "row", 3, "n", 1, 1);
  /* Every wrong length and count. */
  for (i = 0; i < at; i++) EXPECT(REGION_E_INVALID, region_increment_packed(r, buf, i, 2, NULL, res, sizeof res[0], &E));
  EXPECT(REGION_E_INVALID, region_increment_packed(r, buf, at, 1, NULL, res, sizeof res[0], &E));
  EXPECT(REGION_E_INVALID, region_increment_packed(r, buf, at, 3, NULL, NULL, 0, &E));
  EXPECT(REGION_E_INVALID, region_increment_packed(r, buf, at, SIZE_MAX, NULL, NULL, 0, &E));
  EXPECT(REGION_E_INVALID, region_increment_packed(r, buf, at, 0, NULL, NULL, 0, &E));
  EXPECT(REGION_E_INVALID, region_increment_packed(r, buf, SIZE_MAX / 2 + 2, 1, NULL, NULL, 0, &E));
  /* Lengths that reach out of the buffer, in the second record: nothing of the call is done, the results say so. */
  memcpy(saved, buf, at);
  for (i = 4; i < 8; i++) {
    buf[one + i] = 0xff;
    EXPECT_NAMED(REGION_E_INVALID, "record 1", region_increment_packed(r, buf, at, 2, NULL, res, sizeof res[0], &E));
    CHECK(E.op_index == 1 && res[0].status == REGION_E_NOT_RUN && res[1].status == REGION_E_INVALID);
    memcpy(buf, saved, at);
  }
  buf[one - 1] = 1; /* padding */
  EXPECT_NAMED(REGION_E_INVALID, "padding", region_increment_packed(r, buf, at, 2, NULL, res, sizeof res[0], &E));
  memcpy(buf, saved, at);

  m = mutation(REGION_OP_PUT, "row", "q", "value", 0);
  one = region_pack_op(buf, sizeof buf, 0, &m);
  m.row.len = 0;
  m.flags = REGION_PACK_SAME_ROW;
  at = region_pack_op(buf, sizeof buf, one, &m);
  memcpy(saved, buf, at);
  for (i = 0; i < at; i++) EXPECT(REGION_E_INVALID, region_batch_mutate_packed(r, buf, i, 2, NULL, res, sizeof res[0], &E));
  buf[0] = 10;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "op", region_batch_mutate_packed(r, buf, at, 2, NULL, res, sizeof res[0], &E));
  CHECK(E.op_index == 0 && res[0].status == REGION_E_UNSUPPORTED && res[1].status == REGION_E_NOT_RUN);
  memcpy(buf, saved, at);
  for (i = 0; i < 256; i++) {
    if (i == 40) continue;
    buf[1] = (unsigned char)i; /* header length */
    EXPECT(REGION_E_INVALID == region_batch_mutate_packed(r, buf, at, 2, NULL, res, sizeof res[0], NULL) ? REGION_E_INVALID : REGION_E_UNSUPPORTED,
           region_batch_mutate_packed(r, buf, at, 2, NULL, res, sizeof res[0], &E));
  }
  memcpy(buf, saved, at);
  buf[one + 2] = 1; /* SAME_ROW with a row */
  EXPECT(REGION_E_INVALID, region_batch_mutate_packed(r, buf, at, 2, NULL, res, sizeof res[0], &E));
  memcpy(buf, saved, at);
  EXPECT_NAMED(REGION_E_INVALID, "SAME_ROW", region_batch_mutate_packed(r, buf + one, at - one, 1, NULL, res, sizeof res[0], &E));
  buf[20] = 1; /* ttl_ms */
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "ttl_ms", region_batch_mutate_packed(r, buf, at, 2, NULL, res, sizeof res[0], &E));
  memcpy(buf, saved, at);
  buf[8] = 1; /* flags of a put */
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "flags", region_batch_mutate_packed(r, buf, at, 2, NULL, res, sizeof res[0], &E));
  for (i = 12; i < 20; i++) { /* lengths */
    memcpy(buf, saved, at);
    buf[i] = 0xff;
    EXPECT(REGION_E_INVALID, region_batch_mutate_packed(r, buf, at, 2, NULL, res, sizeof res[0], &E));
  }
  memcpy(buf, saved, at);
  EXPECT(REGION_OK, region_batch_mutate_packed(r, buf, at, 2, NULL, res, sizeof res[0], &E));

  at = region_pack_key(buf, sizeof buf, 0, 1, "row", 3, "q", 1);
  for (i = 0; i < at; i++) EXPECT(REGION_E_INVALID, region_counter_get_packed(r, NULL, buf, i, 1, v, NULL, &E));
  buf[4] = 0xff;
  buf[5] = 0xff;
  EXPECT(REGION_E_INVALID, region_counter_get_packed(r, NULL, buf, at, 1, v, NULL, &E));
  {
    region_value_t val;
    memset(&val, 0, sizeof val);
    EXPECT(REGION_NOT_FOUND, region_get(r, NULL, "row", 3, 1, "n", 1, &val, &E));
  }
}

/* Any header length that is a multiple of 8 is a newer caller's, if what it adds is zero. */
static void longer_header(region_t *r) {
  region_mutation_t m = mutation(REGION_OP_PUT, "newer", "q", "v", 0);
  size_t at = region_pack_op(buf, sizeof buf, 0, &m);
  region_op_result_t res;
  memmove(buf + 48, buf + 40, at - 40);
  memset(buf + 40, 0, 8);
  buf[1] = 48;
  EXPECT(REGION_OK, region_batch_mutate_packed(r, buf, at + 8, 1, NULL, &res, sizeof res, &E));
  buf[45] = 1;
  EXPECT_NAMED(REGION_E_UNSUPPORTED, "header", region_batch_mutate_packed(r, buf, at + 8, 1, NULL, &res, sizeof res, &E));
}

static uint64_t seed = 88172645463325252u;
static uint64_t chance(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}

/* Garbage, and good buffers with a few flipped bits, in heap blocks of the exact size: a sanitizer sees any read beyond. */
static void garbage(region_t *r) {
  int round;
  for (round = 0; round < 60000; round++) {
    size_t len = chance() % 200, n = chance() % 6, i, at = 0;
    unsigned char *b;
    region_op_result_t res[6];
    int64_t v[6];
    size_t used, done;
    unsigned char page[64];
    if (round % 2 == 0) {
      for (i = 0; i < n && i < 3; i++) {
        region_mutation_t m = mutation((uint32_t)(1 + chance() % 9), "row", "qual", "value", 1);
        if (m.op == REGION_OP_CHECK) m.flags = (uint32_t)(chance() % 10);
        if (i > 0 && chance() % 2 == 0) {
          m.row.len = 0;
          m.flags |= REGION_PACK_SAME_ROW;
        }
        at = region_pack_op(buf, sizeof buf, at, &m);
      }
      len = at;
      for (i = chance() % 4; i > 0 && len > 0; i--) buf[chance() % len] ^= (unsigned char)(1u << (chance() % 8));
    } else {
      for (i = 0; i < len; i++) buf[i] = (unsigned char)(chance() % 4 == 0 ? chance() : 0);
      if (len > 1) buf[1] = 40;
    }
    b = (unsigned char *)malloc(len == 0 ? 1 : len);
    if (b == NULL) exit(2);
    memcpy(b, buf, len);
    (void)!region_batch_mutate_packed(r, b, len, n, NULL, n == 0 ? NULL : res, sizeof res[0], &E);
    (void)!region_increment_packed(r, b, len, n, NULL, n == 0 ? NULL : res, sizeof res[0], &E);
    (void)!region_counter_get_packed(r, NULL, b, len, n, v, NULL, &E);
    (void)!region_get_packed(r, NULL, b, len, n, page, sizeof page, &used, &done, &E);
    CHECK(E.status != REGION_E_PANIC && E.status != REGION_E_POISONED && E.status != REGION_E_INTERNAL);
    free(b);
  }
}

static void writers(void) {
  unsigned char b[64];
  region_mutation_t m = mutation(REGION_OP_PUT, "r", "q", "v", 0);
  int64_t values[6] = {0, 1, -1, INT64_MAX, INT64_MIN, 0x0123456789abcdef};
  size_t i;
  CHECK(region_pack_increment(b, 23, 0, 1, "a", 1, "n", 1, 1) == 0);
  CHECK(region_pack_increment(b, 24, 0, 1, "a", 1, "n", 1, 1) == 24);
  CHECK(region_pack_increment(b, 24, 25, 1, "a", 1, "n", 1, 1) == 0);
  CHECK(region_pack_increment(b, sizeof b, 0, 1, "a", 65536, "n", 1, 1) == 0);
  CHECK(region_pack_key(b, 15, 0, 1, "a", 1, "n", 1) == 0);
  CHECK(region_pack_key(b, 16, 0, 1, "a", 1, "n", 1) == 16);
  CHECK(region_pack_op(b, 47, 0, &m) == 0);
  CHECK(region_pack_op(b, 48, 0, &m) == 48);
  m.op = 256;
  CHECK(region_pack_op(b, 64, 0, &m) == 0);
  for (i = 0; i < 6; i++) {
    region_i64_put(b, values[i]);
    CHECK(region_i64_get(b) == values[i]);
  }
  CHECK(b[0] == 0x01 && b[7] == 0xef);
}

int main(void) {
  region_t *r = new_region("packed");
  writers();
  malformed(r);
  round_trip(r);
  longer_header(r);
  garbage(r);
  CHECK(increment(r, "still", "there", 1) == 1);
  MUST(region_close(r, REGION_CLOSE_FORCE, 0, &E));
  DONE();
}
