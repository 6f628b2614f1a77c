#!/usr/bin/env bash
# The kill test: a child counts with a hundred threads, is killed, and what it leaves is compared with what it was told.
#   tools/kill.sh [ROUNDS]     200 by default; KILL_SEED=n repeats a run, KILL_DIR=d puts the regions there (ext4, XFS or tmpfs)
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo test --quiet --locked --features test-hooks --test kill -- "${1:-200}"
