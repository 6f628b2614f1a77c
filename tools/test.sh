#!/usr/bin/env bash
# The whole test suite, on a fresh machine: installs what it needs (a missing tool is an error, never a skipped test), then runs every step in order and stops
# at the first that fails. Prints how long each step took.
#   tools/test.sh            everything
#   tools/test.sh NAME...    only these steps
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never
LIB=$PWD/target/release

install_tools() {
  local missing=()
  for pair in cc:gcc c++:g++ nm:binutils python3:python3 e2fsck:e2fsprogs; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
  done
  python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
  if [ ${#missing[@]} -gt 0 ]; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"
  fi
  cargo --version && cc --version | head -1 && python3 --version
}
step_tools() { install_tools; }
step_format() { cargo fmt --all --check; }
step_lint() { cargo clippy --quiet --locked --all-targets --features test-hooks -- -D warnings; }
step_unit() { cargo test --quiet --locked --lib --features test-hooks; }
# The tests of the exported symbols look at the shared library that lies beside them.
step_integration() { cargo build --quiet --locked --features test-hooks && cargo test --quiet --locked --test it --features test-hooks; }
step_model() { cargo test --quiet --locked --test model --features test-hooks; }
step_alone() { cargo test --quiet --locked --test alone --features test-hooks; }
step_doc() { cargo test --quiet --locked --doc; }
step_summary() { python3 benches/compare/test_summarise.py; }
step_loom() { tools/loom.sh; }
step_release() { cargo build --release --locked; }
step_c() { REGION_LIB_DIR="$LIB" c_tests/run.sh; }
step_c_sanitized() { REGION_LIB_DIR="$LIB" SANITIZE=1 c_tests/run.sh; }
step_python() { LIBREGION_PATH="$LIB/libregion.so" tools/python_tests.sh; }
step_fuzz() { tools/fuzz.sh 60 packed; }
step_kill() { tools/kill.sh 200; }
step_demo() { tools/demo.sh; }

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(tools format lint unit integration model alone doc summary loom release c c_sanitized python fuzz kill demo)
passed=0
for name in "${steps[@]}"; do
  echo "== $name"
  began=$(date +%s)
  if ! "step_$name"; then
    echo "== $name FAILED after $(($(date +%s) - began)) s"
    echo "$passed passed, 1 failed"
    exit 1
  fi
  passed=$((passed + 1))
  echo "== $name ok, $(($(date +%s) - began)) s"
done
echo "$passed passed, 0 failed"
