/* The README's program: makes a region, counts a visit, tells the number. Each run counts on. */
#include <region.h>
#include <stdio.h>

int main(void) {
  region_error_t err = REGION_ERROR_INIT;
  region_family_t cf = {.name = {"cf", 2}}; /* families are numbered from 1 */
  region_options_t options = {.struct_size = sizeof options, .flags = REGION_OPEN_CREATE, .families = &cf, .n_families = 1, .family_size = sizeof cf};
  region_t *region;
  int64_t visits;
  if (region_open("hello.region", &options, &region, &err) < 0) return fprintf(stderr, "%s\n", err.msg), 1;
  if (region_increment(region, "front page", 10, 1, "visits", 6, 1, NULL, &visits, &err) < 0) return fprintf(stderr, "%s\n", err.msg), 1;
  printf("visit number %lld\n", (long long)visits);
  return region_close(region, 0, REGION_TIMEOUT_DEFAULT, &err) < 0;
}
