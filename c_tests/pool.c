/* Chunk pools: made, shared, counted, given back. */
#include "test.h"

int main(void) {
  chunk_pool_options_t po;
  chunk_pool_stats_t st;
  chunk_pool_t *p = NULL;
  region_options_t o = options(REGION_OPEN_CREATE);
  region_family_t f;
  region_t *r = NULL;
  memset(&po, 0, sizeof po);
  memset(&st, 0, sizeof st);
  memset(&f, 0, sizeof f);
  po.struct_size = (uint32_t)sizeof po;
  st.struct_size = (uint32_t)sizeof st;
  po.chunk_size = 64 << 10;
  po.max_bytes = 16 << 20;
  po.preallocate_bytes = 256 << 10;
  MUST(chunk_pool_create(&po, &p, &E));
  EXPECT(REGION_OK, chunk_pool_stats(p, &st, &E));
  CHECK(st.chunk_size == 65536 && st.max_chunks == 256 && st.pooled == 4 && st.created == 4 && st.in_use == 0);
  EXPECT(REGION_OK, chunk_pool_trim(p, 65536, &E));
  EXPECT(REGION_OK, chunk_pool_stats(p, &st, &E));
  CHECK(st.pooled == 1 && st.discarded == 3 && st.created == st.pooled + st.in_use + st.discarded);
  /* A region takes its own reference. */
  o.chunk_pool = p;
  f.name = slice("f");
  o.families = &f;
  o.n_families = 1;
  o.family_size = sizeof f;
  MUST(region_open(new_path("pool"), &o, &r, &E));
  CHECK(increment(r, "r", "q", 3) == 3);
  EXPECT(REGION_OK, chunk_pool_stats(p, &st, &E));
  CHECK(st.in_use > 0);
  /* Closed: all of it is back, while the handle still says that it is closed. */
  MUST(region_close(r, 0, 0, &E));
  EXPECT(REGION_OK, chunk_pool_stats(p, &st, &E));
  CHECK(st.in_use == 0 && st.oversize == 0 && st.created == st.pooled + st.discarded);
  MUST(region_open(new_path("pool"), &o, &r, &E));
  chunk_pool_close(p);
  chunk_pool_close(p);
  EXPECT(REGION_E_CLOSED, chunk_pool_stats(p, &st, &E));
  CHECK(increment(r, "r", "q", 3) == 6);
  MUST(region_close(r, 0, 0, &E));
  EXPECT_NAMED(REGION_E_CLOSED, "chunk_pool", region_open(new_path("pool"), &o, &r, &E));
  CHECK(r == NULL);
  /* The process's default pool is there for all. */
  EXPECT(REGION_OK, chunk_pool_stats(NULL, &st, &E));
  CHECK(st.chunk_size > 0 && st.created == st.pooled + st.in_use + st.discarded);
  po.preallocate_bytes = 32 << 20; /* more than max_bytes */
  EXPECT(REGION_E_INVALID, chunk_pool_create(&po, &p, &E));
  CHECK(p == NULL);
  DONE();
}
