# The verbs people type. Each calls cargo or one script in tools/.
.PHONY: all demo test bench ctest kill model fuzz tsan header fmt lint install clean

all:
	cargo build --release --locked

# Counts every word of a 50 MB corpus with 100 threads, kills the program half-way, resumes, and checks every count.
demo:
	tools/demo.sh

# Everything that continuous integration runs; installs what it needs.
test:
	tools/test.sh

# libregion beside RocksDB, LMDB, SQLite, WiredTiger and LevelDB; writes target/bench.
bench:
	benches/compare/run.sh

# Kill test: SIGKILL at random points, reopen, compare. make kill ROUNDS=1000
ROUNDS ?= 200
kill:
	tools/kill.sh $(ROUNDS)

# The data model against a model of it, as long as wanted: make model OPS=50000000 SEED=1 (without a seed: a new one, printed).
OPS ?= 1000000
model:
	tools/model.sh $(OPS) $(SEED)

# Fuzzes the packed formats and damaged files under the address sanitizer, so long each. make fuzz SECONDS=3600
SECONDS ?= 60
fuzz:
	tools/fuzz.sh $(SECONDS)

# Stress test under ThreadSanitizer with an instrumented standard library.
tsan:
	tools/tsan.sh

# Renders include/region.h, include/region.symbols from src/ffi, and the tables of the Python binding from them.
header:
	UPDATE_HEADER=1 cargo test --quiet --locked --features test-hooks --test it header::the_committed_header
	python3 bindings/python/generate.py

# The library as a C programmer meets it. SANITIZE=1: under ASan and UBSan.
ctest: all
	c_tests/run.sh

fmt:
	cargo fmt --all

lint:
	cargo fmt --all --check
	cargo clippy --locked --all-targets --features test-hooks -- -D warnings

# make install PREFIX=/usr/local DESTDIR=
PREFIX ?= /usr/local
install: all
	tools/install.sh "$(DESTDIR)$(PREFIX)" "$(PREFIX)"

clean:
	cargo clean
