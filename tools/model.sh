#!/usr/bin/env bash
# The data model against a model of it: OPS calls, half of them by one thread, half by many. tools/model.sh OPS [SEED]
# A history that fails is made short and printed as a file for tests/model/regressions.
set -euo pipefail
cd "$(dirname "$0")/.."
export MODEL_OPS=${1:-1000000}
[ -z "${2:-}" ] || export SEED=$2
exec cargo test --quiet --locked --release --features test-hooks --test model -- --ignored --exact long --nocapture
