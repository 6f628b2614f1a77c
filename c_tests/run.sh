#!/bin/sh
# Compiles each test as C99 and as C++17 against include/ and libregion.so, and runs it. Any warning is an error.
#   SANITIZE=1            the tests under ASan and UBSan (the library as it is)
#   REGION_LIB_DIR=dir    where libregion.so is; else `cargo build` makes it
#   TMPDIR=dir            where regions are made; else /dev/shm
#   CC, CXX, CFLAGS       the compilers
#   ./run.sh name...      only these
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
if [ -z "${REGION_LIB_DIR:-}" ]; then
  (cd "$root" && cargo build --quiet --lib)
  REGION_LIB_DIR=${CARGO_TARGET_DIR:-$root/target}/debug
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The library is found by its soname.
ln -sf "$(cd "$REGION_LIB_DIR" && pwd)/libregion.so" "$work/libregion.so.0"
ln -sf libregion.so.0 "$work/libregion.so"
flags="-Wall -Wextra -pedantic -Werror -g -pthread -I$root/include -I$here ${CFLAGS:-}"
if [ "${SANITIZE:-0}" = 1 ]; then
  flags="$flags -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
fi
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1}"
# Regions in memory: these tests are about the boundary, not about the disk.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then
  TMPDIR=/dev/shm
  export TMPDIR
fi
passed=0
failed=0
for source in "$here"/*.c; do
  name=$(basename "$source" .c)
  if [ $# -gt 0 ]; then
    case " $* " in *" $name "*) ;; *) continue ;; esac
  fi
  for mode in c99 c++17; do
    case $mode in
      c99) compiler="${CC:-cc} -std=c99 -D_GNU_SOURCE -x c" ;;
      *) compiler="${CXX:-c++} -std=c++17 -x c++" ;;
    esac
    # shellcheck disable=SC2086 # flags are words
    if ! $compiler $flags "$source" -o "$work/$name-$mode" -L"$work" -lregion; then
      echo "$name ($mode): does not compile"
      failed=$((failed + 1))
      continue
    fi
    if LD_LIBRARY_PATH="$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" timeout "${TEST_TIMEOUT:-300}" "$work/$name-$mode" >"$work/out" 2>&1; then
      passed=$((passed + 1))
    else
      echo "$name ($mode): failed (exit $?)"
      tail -n "${TEST_TAIL:-40}" "$work/out"
      failed=$((failed + 1))
    fi
  done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
