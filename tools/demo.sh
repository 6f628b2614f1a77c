#!/bin/sh
# The demo: counts the words of some 64 MB of text with 100 threads, durably, is killed with SIGKILL half-way, goes on, and then proves that every
# count is right. `make demo` calls it. Needs Rust, a C compiler and the usual Unix tools; everything it makes is in target/demo.
#
#   DEMO_MB=64        size of the corpus, at least 50
#   DEMO_THREADS=100
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
root=$(pwd)
build=${CARGO_TARGET_DIR:-$root/target}
case $build in /*) ;; *) build=$root/$build ;; esac
demo=$root/target/demo
megabytes=${DEMO_MB:-64}
threads=${DEMO_THREADS:-100}
kill_at=30 # percent of the chunks

say() { echo "demo: $*"; }
fail() {
  echo "demo: FAILED: $*" >&2
  exit 1
}

for tool in cargo tr sort uniq awk cmp mkfifo; do
  command -v $tool >/dev/null || fail "$tool is missing"
done
command -v "${CC:-cc}" >/dev/null || fail "a C compiler is missing (on Debian: apt-get install gcc libc6-dev)"
[ "$megabytes" -ge 50 ] || fail "DEMO_MB must be at least 50"

say "building the library and the program"
cargo build --release --locked --lib
rm -rf "$demo/region" "$demo/lib"
mkdir -p "$demo/lib" "$demo/corpus"
ln -s "$build/release/libregion.so" "$demo/lib/libregion.so"
ln -s libregion.so "$demo/lib/libregion.so.0"
${CC:-cc} -std=c11 -O2 -Wall -Wextra -I"$root/include" -o "$demo/count_words" "$root/examples/count_words.c" \
  -L"$demo/lib" -Wl,-rpath,"$demo/lib" -lregion -lpthread

# ---- the corpus: licences and this project's own pages, over and over, in files of 4 MB ----

seed=$demo/seed.txt
{
  for file in /usr/share/common-licenses/*; do [ -f "$file" ] && cat "$file"; done
  find "$root" -path "$root/target*" -prune -o -name .git -prune -o -type f \( -name '*.md' -o -name 'LICENSE*' \) -print | sort | while IFS= read -r file; do cat "$file"; done
} >"$seed"
seed_bytes=$(wc -c <"$seed")
[ "$seed_bytes" -gt 10000 ] || fail "found only $seed_bytes bytes of text to make a corpus of"
block=$demo/block.txt
: >"$block"
while [ "$(wc -c <"$block")" -lt 4194304 ]; do cat "$seed" >>"$block"; done
rm -f "$demo"/corpus/*
number=0
files=$(((megabytes * 1048576 + 4194303) / 4194304))
while [ $number -lt $files ]; do
  # Each file begins elsewhere in the text and is a little longer than the one before.
  { tail -c +$((number * 997 + 1)) "$block" && head -c $((number * 997 + number * 13)) "$block"; } >"$demo/corpus/$(printf %02d $number).txt"
  number=$((number + 1))
done
rm -f "$block"
corpus_bytes=$(cat "$demo"/corpus/*.txt | wc -c)
say "corpus: $corpus_bytes bytes in $files files"

# ---- count, be killed, go on ----

rm -f "$demo/progress"
mkfifo "$demo/progress"
say "counting with $threads threads, to be killed at $kill_at % of the chunks"
"$demo/count_words" --threads "$threads" --progress 10 "$demo/region" "$demo"/corpus/*.txt 2>"$demo/progress" &
pid=$!
trap 'kill -9 $pid 2>/dev/null || true; rm -f "$demo/progress"' EXIT
killed=
while IFS= read -r line; do
  case $line in
    progress:*)
      percent=${line%% %*}
      percent=${percent##* }
      if [ "$percent" -ge $kill_at ]; then
        kill -9 $pid
        killed=$line
        break
      fi
      ;;
    *) echo "  $line" >&2 ;;
  esac
done <"$demo/progress"
wait $pid 2>/dev/null && status=0 || status=$?
trap - EXIT
rm -f "$demo/progress"
[ -n "$killed" ] || fail "the program ended by itself (exit code $status) before it could be killed"
[ "$status" -eq 137 ] || fail "the program was not killed: exit code $status"
say "killed with SIGKILL at: ${killed#progress: }"

say "going on, in the same region"
"$demo/count_words" --threads "$threads" "$demo/region" "$demo"/corpus/*.txt 2>"$demo/second.txt" || {
  cat "$demo/second.txt" >&2
  fail "the second run"
}
grep -v '^progress:' "$demo/second.txt" | sed 's/^/  /'
before=$(awk '$1 == "resuming:" { print $2 }' "$demo/second.txt")
chunks=$(awk '$1 == "resuming:" { print $4 }' "$demo/second.txt")
[ -n "$before" ] || fail "nothing of the first run was left"
share=$((before * 100 / chunks))
[ "$share" -ge 10 ] && [ "$share" -le 90 ] || fail "$share % of the chunks were committed before the kill; this shows something only between 10 and 90"
say "$before of $chunks chunks ($share %) were committed before the kill and not counted again"

# ---- every count against an independent one ----

say "the ten most frequent words:"
"$demo/count_words" --top 10 "$demo/region"
"$demo/count_words" --dump "$demo/region" >"$demo/ours.txt"
# Files do not end inside a word that goes on in the next one: a newline stands between them.
for file in "$demo"/corpus/*.txt; do
  cat "$file"
  echo
done | tr 'A-Z' 'a-z' | tr -cs 'a-z' '\n' | sort | uniq -c | awk 'NF == 2 { print $2 "\t" $1 }' >"$demo/expected.txt"
words=$(wc -l <"$demo/expected.txt")
total=$(awk '{ n += $2 } END { printf "%d", n }' "$demo/expected.txt")
cmp -s "$demo/ours.txt" "$demo/expected.txt" || {
  diff "$demo/ours.txt" "$demo/expected.txt" | head -n 10 >&2
  fail "the counts differ from those of tr, sort and uniq (< ours, > theirs)"
}
rate=$(awk '$1 == "counted:" { print $(NF - 1) }' "$demo/second.txt")
say "checked all $words counts, $total words: each as tr | sort | uniq -c has it"
say "rate after the kill: $rate durable increments per second"
say OK
