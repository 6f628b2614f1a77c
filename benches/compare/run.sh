#!/bin/sh
# Compares libregion with the stores people would pick instead, on this machine, in one run. `make bench` calls it; see README.md beside it.
#
#   BENCH_QUICK=1      one short repetition, few peers: shows that everything works, says little about speed
#   BENCH_MORE=10m     also 10 M rows; BENCH_MORE=data: also puts, gets and scans
#   BENCH_ONLY=a,b     only these workloads of plan.py
#
# Results: target/bench/*.jsonl, goals.jsonl, summary.txt, plots/*.svg. Exit code 0 if everything ran; a missed floor is shown, not an error.
set -eu
cd "$(dirname "$0")/../.."
root=$(pwd)
compare=$root/benches/compare
out=$root/target/bench
build=${CARGO_TARGET_DIR:-$root/target}
case $build in /*) ;; *) build=$root/$build ;; esac
bin=$build/bench-bin
only=${BENCH_ONLY:-}

say() { echo "bench: $*" >&2; }
fail() {
  say "$*"
  exit 1
}

for tool in cargo python3 make; do
  command -v $tool >/dev/null || fail "$tool is missing"
done
command -v "${CC:-cc}" >/dev/null || fail "a C compiler is missing"

# The peers, as Debian has them.
packages=
for package in librocksdb-dev liblmdb-dev libsqlite3-dev libwiredtiger-dev libleveldb-dev; do
  dpkg-query -W -f '${Status}' $package 2>/dev/null | grep -q 'ok installed' || packages="$packages $package"
done
if [ -n "$packages" ]; then
  say "installing$packages"
  [ "$(id -u)" = 0 ] || fail "run as root, or first: apt-get install$packages"
  apt-get update -qq || fail "apt-get update failed"
  # shellcheck disable=SC2086 # a list of words
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null || fail "apt-get could not install$packages"
fi

say "building"
cargo build --release --locked --lib
lib=$bin/lib
mkdir -p "$bin" "$lib"
ln -sf "$build/release/libregion.so" "$lib/libregion.so"
ln -sf libregion.so "$lib/libregion.so.0"
make -s -C "$compare/harness" BUILD="$bin" INCLUDE="$root/include" LIB="$lib"
${CC:-cc} -O2 -Wall -Wextra -I"$root/include" -o "$bin/boundary_c" "$compare/boundary/boundary.c" -L"$lib" -Wl,-rpath,"$lib" -lregion
cargo build --release --locked --manifest-path "$compare/boundary/Cargo.toml" --target-dir "$build/bench-boundary"
cp "$build/bench-boundary/release/boundary_rust" "$bin/"
cargo build --release --locked --manifest-path "$compare/plots/Cargo.toml" --target-dir "$build/bench-plots"

rm -rf "$out/data" "$out/plots"
mkdir -p "$out/plots"
rm -f "$out"/*.jsonl
failed=0

# The sequencer alone: a criterion bench that appends its figures (S5) to goals.jsonl.
if [ -z "$only" ]; then
  say "sequencer"
  GOALS_JSONL=$out/goals.jsonl cargo bench --locked --bench sequencer >"$out/sequencer.txt" 2>&1 || {
    failed=1
    say "did not run: cargo bench --bench sequencer (see $out/sequencer.txt)"
    tail -n 5 "$out/sequencer.txt" >&2
  }
fi

python3 "$compare/measure.py" --bin "$bin" --data "$out/data" --out "$out" --only "$only" || failed=1
rm -rf "$out/data"
python3 "$compare/summarise.py" --out "$out" >"$out/summary.txt" || [ -n "$only" ] || failed=1
cat "$out/summary.txt"
"$build/bench-plots/release/plots" "$out/plots" || failed=1
say "results in $out"
exit $failed
