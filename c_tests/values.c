/* What calls answer through their outputs: values, pins, results of batches, info, errors. */
#include "test.h"

static void counters(region_t *r) {
  int64_t v;
  uint64_t ts = 1;
  region_write_options_t w;
  region_commit_info_t ci;
  memset(&w, 0, sizeof w);
  w.struct_size = (uint32_t)sizeof w;
  memset(&ci, 0, sizeof ci);
  ci.struct_size = (uint32_t)sizeof ci;
  w.info = &ci;
  v = 9;
  EXPECT(REGION_NOT_FOUND, region_counter_get(r, NULL, "c", 1, 1, "n", 1, &v, &ts, &E));
  CHECK(v == 0 && ts == 0);
  CHECK(increment(r, "c", "n", 5) == 5);
  EXPECT(REGION_OK, region_counter_get(r, NULL, "c", 1, 1, "n", 1, &v, &ts, &E));
  CHECK(v == 5 && ts > 0);
  w.flags = REGION_W_BOUNDED;
  w.min_value = 0;
  w.max_value = 6;
  EXPECT(REGION_NOT_APPLIED, region_increment(r, "c", 1, 1, "n", 1, 3, &w, &v, &E));
  CHECK(v == 5 && ci.seq == 0);
  w.flags = REGION_W_BOUNDED | REGION_W_SATURATE;
  EXPECT(REGION_OK, region_increment(r, "c", 1, 1, "n", 1, 3, &w, &v, &E));
  CHECK(v == 6 && ci.seq > 0 && ci.timestamp > 0);
  w.max_value = 0; /* bounds belong to the flag */
  w.flags = REGION_W_SET | REGION_W_RETURN_OLD;
  EXPECT(REGION_OK, region_increment(r, "c", 1, 1, "n", 1, 0, &w, &v, &E));
  CHECK(v == 6);
  CHECK(increment(r, "c", "n", 0) == 0);
  /* Wraps, unless refused. */
  CHECK(increment(r, "c", "n", INT64_MAX) == INT64_MAX);
  w.flags = REGION_W_CHECK_OVERFLOW;
  v = 7;
  EXPECT(REGION_E_OVERFLOW, region_increment(r, "c", 1, 1, "n", 1, 1, &w, &v, &E));
  CHECK(v == 0);
  CHECK(increment(r, "c", "n", 1) == INT64_MIN);
  EXPECT(REGION_OK, put(r, "c", "text", "abc"));
  EXPECT(REGION_E_NOT_COUNTER, region_increment(r, "c", 1, 1, "text", 4, 1, NULL, &v, &E));
  EXPECT(REGION_E_NOT_COUNTER, region_counter_get(r, NULL, "c", 1, 1, "text", 4, &v, &ts, &E));
  EXPECT(REGION_E_NO_FAMILY, region_increment(r, "c", 1, 99, "n", 1, 1, NULL, &v, &E));
  EXPECT(REGION_E_NO_FAMILY, region_put(r, "c", 1, 0, "n", 1, "v", 1, NULL, &E));
  EXPECT(REGION_E_INVALID, region_put(r, "", 0, 1, "n", 1, "v", 1, NULL, &E));
  EXPECT(REGION_OK, region_append(r, "c", 1, 1, "text", 4, "d", 1, NULL, NULL, &E));
  {
    char scratch[8];
    region_value_t whole;
    memset(&whole, 0, sizeof whole);
    whole.buf = scratch;
    whole.cap = sizeof scratch;
    EXPECT(REGION_OK, region_append(r, "c", 1, 1, "text", 4, "ef", 2, NULL, &whole, &E));
    CHECK(whole.len == 6 && whole.data == scratch && memcmp(scratch, "abcdef", 6) == 0 && whole.pin == 0 && whole.seq > 0);
    whole.cap = 3;
    EXPECT(REGION_OK, region_append(r, "c", 1, 1, "text", 4, "", 0, NULL, &whole, &E));
    CHECK(whole.len == 6 && whole.data != scratch && memcmp(whole.data, "abcdef", 6) == 0 && whole.pin != 0);
    region_value_release(&whole);
  }
  EXPECT(REGION_OK, region_delete(r, "c", 1, 1, "text", 4, 0, NULL, &E));
  EXPECT(REGION_NOT_FOUND, region_counter_get(r, NULL, "c", 1, 1, "text", 4, &v, &ts, &E));
  /* Commits to wait for. */
  w.flags = 0;
  w.durability = REGION_DUR_FSYNC_WAL;
  EXPECT(REGION_OK, region_increment(r, "c", 1, 1, "w", 1, 1, &w, &v, &E));
  EXPECT(REGION_OK, region_wait_durable(r, ci.seq, 0, &E));
  EXPECT(REGION_E_INVALID, region_wait_durable(r, ci.seq + 1000000, REGION_NO_WAIT, &E));
}

static void rows(region_t *r) {
  region_inc_col_t c[3];
  int64_t v[3] = {-1, -1, -1};
  int i;
  memset(c, 0, sizeof c);
  for (i = 0; i < 3; i++) {
    c[i].family = 1;
    c[i].qual = slice(i == 0 ? "a" : i == 1 ? "b" : "c");
    c[i].delta = i + 1;
  }
  EXPECT(REGION_OK, region_increment_row(r, "row", 3, c, 3, sizeof c[0], NULL, v, &E));
  CHECK(v[0] == 1 && v[1] == 2 && v[2] == 3);
  MUST(put(r, "row", "b", "no counter"));
  EXPECT(REGION_E_NOT_COUNTER, region_increment_row(r, "row", 3, c, 3, sizeof c[0], NULL, v, &E));
  CHECK(E.op_index == 1 && v[0] == 0 && v[1] == 0 && v[2] == 0);
  CHECK(increment(r, "row", "a", 0) == 1);
}

static void batches(region_t *r) {
  region_mutation_t m[6];
  region_op_result_t res[6];
  region_write_options_t w;
  int64_t v;
  memset(&w, 0, sizeof w);
  w.struct_size = (uint32_t)sizeof w;
  MUST(put(r, "b2", "text", "no counter"));
  m[0] = mutation(REGION_OP_PUT, "b1", "q", "v", 0);
  m[1] = mutation(REGION_OP_INCREMENT, "b1", "n", "", 3);
  m[2] = mutation(REGION_OP_PUT, "b2", "q", "v", 0);
  m[3] = mutation(REGION_OP_INCREMENT, "b2", "text", "", 1);
  m[4] = mutation(REGION_OP_PUT, "b2", "q2", "v", 0);
  m[5] = mutation(REGION_OP_INCREMENT, "b3", "n", "", 1);
  memset(res, 0xff, sizeof res);
  EXPECT(REGION_E_PARTIAL, region_batch_mutate(r, m, 6, sizeof m[0], NULL, res, sizeof res[0], &E));
  CHECK(E.op_index == 3 && (E.flags & REGION_ERR_RETRYABLE) == 0);
  CHECK(res[0].status == 0 && res[1].status == 0 && res[1].value == 3 && res[5].status == 0 && res[5].value == 1);
  CHECK(res[2].status == REGION_E_NOT_RUN && res[3].status == REGION_E_NOT_COUNTER && res[4].status == REGION_E_NOT_RUN);
  w.flags = REGION_W_ATOMIC;
  EXPECT(REGION_E_NOT_COUNTER, region_batch_mutate(r, m, 6, sizeof m[0], &w, res, sizeof res[0], &E));
  CHECK(E.op_index == 3 && res[3].status == REGION_E_NOT_COUNTER && res[0].status == REGION_E_NOT_RUN && res[5].status == REGION_E_NOT_RUN);
  CHECK(increment(r, "b3", "n", 0) == 1);

  /* A condition that is not met: its group changes nothing, the current counter is told. */
  m[0] = mutation(REGION_OP_CHECK, "b1", "n", "", 4);
  m[0].flags = REGION_CHECK_GE | REGION_CHECK_I64;
  m[1] = mutation(REGION_OP_INCREMENT, "b1", "n", "", -4);
  m[2] = mutation(REGION_OP_INCREMENT, "b3", "n", "", 1);
  EXPECT(REGION_NOT_APPLIED, region_batch_mutate(r, m, 3, sizeof m[0], NULL, res, sizeof res[0], &E));
  CHECK(res[0].status == REGION_NOT_APPLIED && res[0].value == 3 && res[1].status == REGION_NOT_APPLIED && res[2].status == 0 && res[2].value == 2);
  CHECK(E.status == REGION_NOT_APPLIED && E.op_index == 0);
  MUST(region_counter_get(r, NULL, "b1", 2, 1, "n", 1, &v, NULL, &E));
  CHECK(v == 3);
  m[0].delta = 3;
  EXPECT(REGION_OK, region_batch_mutate(r, m, 3, sizeof m[0], NULL, res, sizeof res[0], &E));
  CHECK(res[1].value == -1);
  m[0] = mutation(REGION_OP_CHECK, "b1", "q", "v", 0);
  m[0].flags = REGION_CHECK_EQ;
  m[1] = mutation(REGION_OP_DELETE, "b1", "q", "", 0);
  EXPECT(REGION_OK, region_batch_mutate(r, m, 2, sizeof m[0], NULL, NULL, 0, &E));
  EXPECT(REGION_NOT_APPLIED, region_batch_mutate(r, m, 2, sizeof m[0], NULL, NULL, 0, &E));
}

static void pins(region_t *r) {
  region_value_t val;
  char text[5000], copy[5000];
  region_stats_t st;
  int i;
  memset(&st, 0, sizeof st);
  st.struct_size = (uint32_t)sizeof st;
  memset(text, 'x', sizeof text);
  MUST(region_put(r, "pin", 3, 1, "q", 1, text, sizeof text, NULL, &E));
  memset(&val, 0, sizeof val);
  val.buf = copy;
  val.cap = sizeof copy;
  EXPECT(REGION_OK, region_get(r, NULL, "pin", 3, 1, "q", 1, &val, &E));
  CHECK(val.pin == 0 && val.data == copy && val.len == sizeof text && memcmp(copy, text, sizeof text) == 0);
  region_value_release(&val);
  CHECK(val.data == copy); /* nothing was pinned, nothing changes */
  val.cap = sizeof copy - 1;
  EXPECT(REGION_OK, region_get(r, NULL, "pin", 3, 1, "q", 1, &val, &E));
  CHECK(val.pin != 0 && val.data != copy && val.len == sizeof text);
  /* Overwritten, deleted: a pinned value stays. */
  MUST(put(r, "pin", "q", "short"));
  MUST(region_delete(r, "pin", 3, 1, "q", 1, 0, NULL, &E));
  for (i = 0; i < 100; i++) MUST(put(r, "pin", "q", "other"));
  CHECK(memcmp(val.data, text, sizeof text) == 0);
  MUST(region_stats(r, &st, &E));
  CHECK(st.pinned_values == 1 && st.pinned_bytes >= sizeof text);
  region_value_release(&val);
  MUST(region_stats(r, &st, &E));
  CHECK(st.pinned_values == 0 && st.pinned_bytes == 0);
  EXPECT(REGION_NOT_FOUND, region_get(r, NULL, "pin", 3, 1, "none", 4, &val, &E));
  CHECK(val.data == NULL && val.len == 0 && val.pin == 0 && val.seq == 0);
  /* Outputs are cleared on errors too. */
  val.data = text;
  val.pin = 12345;
  EXPECT(REGION_E_NO_FAMILY, region_get(r, NULL, "pin", 3, 9, "q", 1, &val, &E));
  CHECK(val.data == NULL && val.pin == 0);
}

static void snapshots(region_t *r) {
  region_snapshot_t *s = NULL;
  region_read_options_t o;
  region_t *other = new_region("values2");
  int64_t v;
  uint64_t seq;
  memset(&o, 0, sizeof o);
  o.struct_size = (uint32_t)sizeof o;
  MUST(region_delete(r, "snap", 4, 1, "n", 1, 0, NULL, &E));
  CHECK(increment(r, "snap", "n", 1) == 1);
  MUST(region_snapshot_open(r, 0, &s, &E));
  seq = region_snapshot_seq(s);
  CHECK(increment(r, "snap", "n", 1) == 2);
  o.snapshot = s;
  EXPECT(REGION_OK, region_counter_get(r, &o, "snap", 4, 1, "n", 1, &v, NULL, &E));
  CHECK(v == 1 && region_snapshot_seq(s) == seq);
  EXPECT(REGION_E_INVALID, region_counter_get(other, &o, "snap", 4, 1, "n", 1, &v, NULL, &E));
  region_snapshot_close(s);
  EXPECT_NAMED(REGION_E_CLOSED, "snapshot", region_counter_get(r, &o, "snap", 4, 1, "n", 1, &v, NULL, &E));
  MUST(region_close(other, 0, 0, &E));
}

static void texts(region_t *r) {
  char big[65536], small[8];
  size_t len, len2;
  MUST(region_describe(r, big, sizeof big, &len, &E));
  CHECK(strlen(big) == len && big[0] == '{' && big[len - 1] == '}');
  memset(small, 'z', sizeof small);
  EXPECT(REGION_TRUNCATED, region_describe(r, small, 4, &len2, &E));
  CHECK(len2 == len && small[3] == 0 && memcmp(small, big, 3) == 0 && small[4] == 'z');
  EXPECT(REGION_OK, region_describe(r, big, len + 1, NULL, &E));
  EXPECT(REGION_TRUNCATED, region_describe(r, big, len, NULL, &E));
  MUST(region_recovery_report(r, big, sizeof big, &len, &E));
  CHECK(strlen(big) == len && big[0] == '{');
}

static void families(region_t *r) {
  region_family_t f;
  uint32_t id, again, after = 0;
  int n = 0;
  memset(&f, 0, sizeof f);
  f.name = slice("second");
  f.max_versions = 3;
  EXPECT(REGION_OK, region_family_set(r, &f, sizeof f, &id, &E));
  EXPECT(REGION_OK, region_family_id(r, "second", 6, &again, &E));
  CHECK(id == again && id > 1);
  f.max_versions = 0; /* zeros change nothing */
  EXPECT(REGION_OK, region_family_set(r, &f, sizeof f, &again, &E));
  CHECK(id == again);
  while (region_family_next(r, after, &after, &f, sizeof f, &E) == REGION_OK) {
    n++;
    if (after == id) CHECK(slice_is(f.name, "second") && f.max_versions == 3);
  }
  CHECK(n == 2);
  EXPECT(REGION_NOT_FOUND, region_family_id(r, "third", 5, &again, &E));
  EXPECT(REGION_OK, region_family_drop(r, id, &E));
  EXPECT(REGION_E_NO_FAMILY, region_family_drop(r, id, &E));
  EXPECT(REGION_E_NO_FAMILY, region_put(r, "r", 1, id, "q", 1, "v", 1, NULL, &E));
  /* Ids are never used again. */
  f.name = slice("third");
  f.max_versions = 0;
  EXPECT(REGION_OK, region_family_set(r, &f, sizeof f, &again, &E));
  CHECK(again > id);
}

static int32_t cancel(void *ctx, const region_progress_t *p) {
  *(int *)ctx += 1;
  CHECK(p->struct_size == sizeof *p && p->phase == REGION_PHASE_RECOVERY);
  return 1;
}

static void opening(region_t *r) {
  region_t *again = (region_t *)(void *)&E;
  region_options_t o = options(0);
  int calls = 0;
  EXPECT(REGION_E_LOCKED, region_open(new_path("values"), &o, &again, &E));
  CHECK(again == NULL);
  EXPECT(REGION_E_LOCKED, region_destroy(new_path("values"), &E));
  MUST(region_close(r, 0, 0, &E));
  o.flags = REGION_OPEN_CREATE | REGION_OPEN_ERROR_IF_EXISTS;
  EXPECT(REGION_E_EXISTS, region_open(new_path("values"), &o, &again, &E));
  o.flags = REGION_OPEN_ERROR_IF_EXISTS;
  EXPECT(REGION_E_INVALID, region_open(new_path("values"), &o, &again, &E));
  o.flags = 0;
  o.progress = cancel;
  o.progress_ctx = &calls;
  EXPECT(REGION_E_CANCELLED, region_open(new_path("values"), &o, &again, &E));
  CHECK(calls == 1);
  o.progress = NULL;
  o.flags = REGION_OPEN_READ_ONLY;
  MUST(region_open(new_path("values"), &o, &again, &E));
  EXPECT(REGION_E_READONLY, region_put(again, "r", 1, 1, "q", 1, "v", 1, NULL, &E));
  MUST(region_close(again, 0, 0, &E));
  MUST(region_destroy(new_path("values"), &E));
  o.flags = 0;
  EXPECT(REGION_E_NO_REGION, region_open(new_path("values"), &o, &again, &E));
}

int main(void) {
  region_t *r = new_region("values");
  counters(r);
  rows(r);
  batches(r);
  pins(r);
  snapshots(r);
  texts(r);
  families(r);
  opening(r);
  DONE();
}
