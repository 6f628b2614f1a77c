#!/bin/sh
# The stress test under the thread sanitizer, over an instrumented standard library. Exit code 0: no report.
#
# The sanitizer does not know fences. With --cfg tsan the places that need one use acquire loads and release stores instead.
# The standard library has to be instrumented too, or every Arc and every join is a false report. Its sources must fit the compiler, so both are
# Debian's packages (bookworm-security); they do not disturb another Rust:
#   apt-get install --no-install-recommends rustc-web cargo-web libstd-rust-web-dev rust-web-src rust-web-llvm clang-16 libclang-rt-16-dev
# STRESS_SECONDS: how long (20).
set -eu
cd "$(dirname "$0")/.."
if ! [ -x /usr/bin/cargo ] || ! command -v clang-16 >/dev/null || ! [ -d /usr/lib/rustlib/src/rust/library ]; then
    echo "missing: apt-get install --no-install-recommends rustc-web cargo-web libstd-rust-web-dev rust-web-src rust-web-llvm clang-16 libclang-rt-16-dev" >&2
    exit 2
fi
export RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1
# The library is linked as a shared one too, by the wrapper that its symbol versions need.
export REGION_CC=clang-16
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/tsan"
export RUSTFLAGS="--cfg tsan -Zsanitizer=thread -Zexternal-clangrt -Clinker=$PWD/tools/cc-region -Clink-arg=-fsanitize=thread \
-Clink-arg=-lm -Clink-arg=-lresolv -Clink-arg=-lpthread -Clink-arg=-ldl -Clink-arg=-lc"
/usr/bin/cargo build --locked --manifest-path tools/tsan/Cargo.toml -Zbuild-std --target x86_64-unknown-linux-gnu
symbolizer=$(command -v llvm-symbolizer || ls /usr/lib/llvm-*/bin/llvm-symbolizer 2>/dev/null | head -1 || true)
export TSAN_OPTIONS="halt_on_error=0 exitcode=66 second_deadlock_stack=1 suppressions=$PWD/tools/tsan/suppressions.txt external_symbolizer_path=$symbolizer"
exec "$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/debug/tsan-stress"
