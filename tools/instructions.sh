#!/usr/bin/env bash
# Instructions per call of the hot verbs, by callgrind: the same in every run, however busy the machine is. `tools/instructions.sh` prints a table.
#
# Only the loop of calls is counted: starting up calibrates the clock, whose instructions depend on the time.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; exit 1; }
program=$(cargo bench --quiet --locked --bench instructions --no-run --message-format=json | sed -n 's/.*"executable":"\([^"]*instructions[^"]*\)".*/\1/p' | tail -1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

count() { # verb, calls -> instructions of the loop
  rm -rf "$work/region"
  valgrind --tool=callgrind --callgrind-out-file="$work/out" --collect-atstart=no --toggle-collect='instructions::repeat*' \
    "$program" "$1" "$2" "$work/region" 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

printf '%-20s %s\n' verb instructions
for verb in increment "increments of 100" put counter_get get; do
  calls=20000
  [ "$verb" = "increments of 100" ] && calls=400
  # The first calls of a thread make its buffers.
  few=$(count "$verb" $((calls / 10)))
  many=$(count "$verb" "$calls")
  printf '%-20s %d\n' "$verb" $(((many - few) / (calls - calls / 10)))
done
