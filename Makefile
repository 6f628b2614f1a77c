# The verbs people type. Thin: each calls cargo or a script.
CARGO ?= cargo

.PHONY: header ctest
# Rewrites include/region.h from src/ffi.
header:
	UPDATE_HEADER=1 $(CARGO) test --quiet --test it header::the_committed_header

# The library as a C programmer meets it. SANITIZE=1: under ASan and UBSan.
ctest:
	c_tests/run.sh
