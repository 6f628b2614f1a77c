#!/usr/bin/env bash
# The loom models: every interleaving (within loom's bounds) of the rooms with atomics, compiled from the real files under cfg(loom).
#   tools/loom.sh [FILTER]     FILTER as for cargo test, for example mvcc::models
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}"
exec cargo test --quiet --locked --release --lib "${1:-models}"
