#!/usr/bin/env bash
# Fuzzes under the address sanitizer: tools/fuzz.sh [SECONDS [TARGET ...]]. By default 60 seconds of each target: packed (the packed buffers, through the C
# interface) and disk (a region's files with anything in them). Exit code 0: nothing found.
#
# What cargo-fuzz would do, without it and on stable: the compiler marks edges and comparisons, libFuzzer (built from the crate libfuzzer-sys) makes inputs
# from fuzz/seeds.py and fuzz/regressions. An input that fails is left in target/fuzz, and named: put it into fuzz/regressions/TARGET.
#   FUZZ_CORPUS=dir keeps what was learned for the next run, in dir/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
targets=("$@")
[ $# -gt 0 ] || targets=(packed disk)
target=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
triple=$(rustc -vV | sed -n 's/^host: //p')
flags=(--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address)
# RUSTC_BOOTSTRAP: the sanitizer's flag is not stable, its runtime comes with every toolchain.
RUSTC_BOOTSTRAP=1 RUSTFLAGS="${flags[*]}" CARGO_TARGET_DIR="$target" \
  cargo build --quiet --release --locked --manifest-path fuzz/Cargo.toml --target "$triple" --bins
corpora=${FUZZ_CORPUS:-$target/corpus-$$}
[ -n "${FUZZ_CORPUS:-}" ] || trap 'rm -rf "$corpora"' EXIT
# Leaks: the last region is still open when the process ends.
export ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1"
for name in "${targets[@]}"; do
  mkdir -p "$corpora/$name" "fuzz/regressions/$name"
  python3 fuzz/seeds.py "$name" "$corpora/$name"
  echo "fuzz: $name, $seconds s"
  "$target/$triple/release/$name" -max_total_time="$seconds" -max_len=8192 -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 -verbosity=1 \
    -artifact_prefix="$target/$name-" "$corpora/$name" "fuzz/regressions/$name" 2>&1 | grep -v '^#.*\(REDUCE\|NEW\|pulse\)' | tail -40
done
