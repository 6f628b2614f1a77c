/* Versions, layouts, names of statuses: numbers that never change, written down once more. */
#include "test.h"
#include "region.h" /* twice: the guard covers all of it */

/* Fails to compile if not. */
#define STATIC(name, cond) typedef char static_##name[(cond) ? 1 : -1]
STATIC(slice, sizeof(region_slice_t) == 16);
STATIC(value, sizeof(region_value_t) == 64);
STATIC(error, sizeof(region_error_t) == 312);
STATIC(write, sizeof(region_write_options_t) == 72);
STATIC(read, sizeof(region_read_options_t) == 40);
STATIC(info, sizeof(region_commit_info_t) == 24);
STATIC(family, sizeof(region_family_t) == 48);
STATIC(options, sizeof(region_options_t) == 160);
STATIC(progress, sizeof(region_progress_t) == 24);
STATIC(inc_col, sizeof(region_inc_col_t) == 32);
STATIC(result, sizeof(region_op_result_t) == 16);
STATIC(mutation, sizeof(region_mutation_t) == 80);
STATIC(column, sizeof(region_column_t) == 40);
STATIC(scan, sizeof(region_scan_t) == 104);
STATIC(cell, sizeof(region_cell_t) == 72);
STATIC(stats, sizeof(region_stats_t) == 384);
STATIC(pool_options, sizeof(chunk_pool_options_t) == 32);
STATIC(pool_stats, sizeof(chunk_pool_stats_t) == 80);
STATIC(log_record, sizeof(region_log_record_t) == 72);

int main(void) {
  static const char *const names[] = {
      "REGION_E_NO_REGION", "REGION_E_EXISTS",    "REGION_E_NOT_RUN",  "REGION_E_OUTCOME_UNKNOWN", "REGION_E_PARTIAL",   "REGION_E_INTERNAL", "REGION_E_PANIC",
      "REGION_E_POISONED",  "REGION_E_FORKED",    "REGION_E_ABI",      "REGION_E_TOO_LARGE",       "REGION_E_NOMEM",     "REGION_E_READONLY", "REGION_E_LOCKED",
      "REGION_E_RANGE",     "REGION_E_OVERFLOW",  "REGION_E_NOT_COUNTER", "REGION_E_NO_FAMILY",    "REGION_E_UNSUPPORTED", "REGION_E_CORRUPT", "REGION_E_NOSPACE",
      "REGION_E_IO",        "REGION_E_CANCELLED", "REGION_E_TIMEOUT",  "REGION_E_BUSY",            "REGION_E_CLOSED",    "REGION_E_HANDLE",   "REGION_E_INVALID",
      "REGION_OK",          "REGION_NOT_FOUND",   "REGION_DONE",       "REGION_NOT_APPLIED",       "REGION_TRUNCATED"};
  int s;
  region_error_t e = REGION_ERROR_INIT;
  for (s = -28; s <= 4; s++) CHECK(strcmp(region_status_name(s), names[s + 28]) == 0);
  CHECK(strcmp(region_status_name(5), "REGION_E_?") == 0 && strcmp(region_status_name(INT32_MIN), "REGION_E_?") == 0);
  switch (region_close(NULL, 0, 0, NULL)) { /* the constants are constants */
    case REGION_OK: CHECK(1); break;
    case REGION_E_INVALID:
    case REGION_E_NO_REGION: CHECK(0); break;
    default: CHECK(0);
  }
  CHECK(region_version() == REGION_VERSION);
  CHECK(strcmp(region_version_string(), REGION_VERSION_STRING) == 0);
  CHECK(REGION_VERSION >> 24 == 0);
  CHECK(strstr(region_build_info(), "\"rustc\":\"rustc ") != NULL);
  CHECK(e.struct_size == sizeof e && e.status == 0);
  EXPECT(REGION_OK, region_abi_check(REGION_ABI_VERSION, REGION_LAYOUT_HASH, &E));
  EXPECT_NAMED(REGION_E_ABI, "interface 7", region_abi_check(7, REGION_LAYOUT_HASH, &E));
  EXPECT_NAMED(REGION_E_ABI, "0123456789abcdef", region_abi_check(REGION_ABI_VERSION, "0123456789abcdef", &E));
  CHECK(strstr(E.msg, REGION_LAYOUT_HASH) != NULL);
  CHECK(REGION_TIMEOUT_DEFAULT == 0 && REGION_NO_WAIT == 1 && REGION_WAIT_FOREVER == UINT64_MAX);
  DONE();
}
