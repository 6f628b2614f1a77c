#!/usr/bin/env bash
# The Python binding: makes a virtual environment under target/, checks the package with mypy --strict, and runs its tests.
#   LIBREGION_PATH   the library to test; default target/release/libregion.so
#   tools/python_tests.sh [arguments of pytest]
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
export LIBREGION_PATH=${LIBREGION_PATH:-$target/release/libregion.so}
export PYTHONDONTWRITEBYTECODE=1
[ -f "$LIBREGION_PATH" ] || { echo "python_tests: $LIBREGION_PATH is missing: cargo build --release" >&2; exit 1; }
LIBREGION_PATH=$(realpath "$LIBREGION_PATH")

venv=$target/python-venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import pytest, mypy' 2>/dev/null || "$venv/bin/pip" install --quiet --disable-pip-version-check pytest mypy

cd bindings/python
"$venv/bin/python" generate.py --check
"$venv/bin/mypy" --strict --cache-dir "$target/mypy" libregion tests generate.py
exec "$venv/bin/python" -X dev -m pytest -q -p no:cacheprovider "$@"
