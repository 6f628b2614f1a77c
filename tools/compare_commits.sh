#!/usr/bin/env bash
# Is HEAD as fast as another commit? tools/compare_commits.sh BASE [ROUNDS]: builds both, runs the workloads of the speed goals on them in turn, prints
# the medians of new/old. 9 rounds take about ten minutes on two cores; nothing else should run meanwhile. The work is done by benches/compare/commits.py.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n 2,3p "$0" | cut -c 3- >&2; exit 2; }
exec python3 benches/compare/commits.py "$@"
