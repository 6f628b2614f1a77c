"""Nothing of region.h is forgotten, and nothing of the package goes without a word."""

from __future__ import annotations

import builtins
import inspect
import re
from pathlib import Path
from typing import Any

import libregion
import pytest
from conftest import KEY, PACKAGE, run
from libregion import _functions

# Exported functions without a verb of their own, and why.
REASONS = {
    "region_batch_mutate": "batches are sent packed",
    "region_increment_row": "increment_row sends one packed group, which is as atomic",
    "region_scanner_next": "scans fetch pages",
    "region_version": "library_version() is the same as text",
}
OPS = ("put", "delete", "delete_version", "delete_family", "delete_family_version", "delete_row", "append", "increment")


def test_every_export_is_called_or_has_a_reason() -> None:
    sources = [p.read_text() for p in (Path(PACKAGE) / "libregion").glob("*.py") if p.name != "_functions.py"]
    called = {name for text in sources for name in re.findall(r"\b(?:_?lib|dll|library)\.((?:region|chunk_pool)_\w+)", text)}
    missing = set(_functions.FUNCTIONS) - called
    assert missing == set(REASONS), (missing ^ set(REASONS), "exports without a counterpart, or reasons that are none")


def test_every_operation_is_a_verb_of_region_and_batch() -> None:
    header = (Path(PACKAGE).parents[1] / "include" / "region.h").read_text()
    ops = {name.lower() for name in re.findall(r"^  REGION_OP_(\w+) = ", header, re.M)}
    assert ops == {*OPS, "check"}
    for op in OPS:
        assert callable(getattr(libregion.Region, op)) and callable(getattr(libregion.Batch, op)), op
    assert callable(libregion.Batch.check)


def documented(name: str, thing: Any) -> list[str]:
    """What of it lacks a docstring."""
    missing = [] if inspect.getdoc(thing) else [name]
    if inspect.isclass(thing):
        for key in dir(thing):
            part = inspect.getattr_static(thing, key)
            ours = getattr(getattr(thing, key, None), "__module__", "") or ""
            if key.startswith("_") or not isinstance(part, (property, classmethod)) and not ours.startswith("libregion"):
                continue
            text = part.__doc__ if isinstance(part, property) else inspect.getdoc(getattr(thing, key))
            if not text:
                missing.append(f"{name}.{key}")
    return missing


def test_every_verb_has_a_docstring() -> None:
    public = {name: getattr(libregion, name) for name in [*libregion.__all__, "open"]}
    lacking = [m for name, thing in public.items() if callable(thing) for m in documented(name, thing)]
    assert lacking == []


def test_a_star_import_hides_no_builtin() -> None:
    assert not [name for name in libregion.__all__ if hasattr(builtins, name)]
    done = run("from libregion import *\nassert open is __builtins__.open\nimport libregion\nassert open_region is libregion.open")
    assert done.returncode == 0, done.stderr


def test_delete_family_version_and_append_with_its_value(r: libregion.Region) -> None:
    for ts in (5, 6):
        r.put(b"row", "cf", b"a", b"%d" % ts, timestamp=ts)
        r.put(b"row", "cf", b"b", b"%d" % ts, timestamp=ts)
    r.delete_family_version(b"row", "cf", timestamp=6)
    assert r.get(b"row", "cf", b"a") is None  # One version is kept: 5 had left when 6 came.
    r.put(b"row", "cf", b"a", b"7", timestamp=7)
    with r.batch() as b:
        b.delete_family_version(b"row", "cf", timestamp=7)
    assert b.applied and r.get(b"row", "cf", b"a") is None
    with pytest.raises(TypeError, match="needs timestamp="):
        r.delete_family_version(b"row", "cf")
    assert r.append(b"row", "cf", b"text", b"ab") is None
    assert r.append(b"row", "cf", b"text", b"cd", return_new=True) == b"abcd"
    # Longer than the buffer that a call brings.
    assert r.append(b"row", "cf", b"text", b"x" * 10_000, return_new=True) == b"abcd" + b"x" * 10_000
    assert r.append(b"row", "cf", b"text", b"y", return_new=True, nonce=7) == r.get(b"row", "cf", b"text")


def test_options_of_open_are_named_in_errors(path: Path) -> None:
    for wrong, error, text in [
        ({"clock_unit": "s"}, ValueError, "clock_unit: 's' is none of 'ns', 'us', 'ms'"),
        ({"wal_io": "mmap"}, ValueError, "wal_io: 'mmap' is none of"),
        ({"tick_policy": 1.5}, TypeError, "tick_policy: an integer is needed, not float"),
        ({"clock": "ns"}, TypeError, "did you mean 'clock_unit'"),
        ({"wal_segment_bytes": 1 << 20}, TypeError, "config={'wal_segment_bytes': ...}"),
        ({"timeout": "5"}, TypeError, "timeout: a number of seconds is needed, not str"),
        ({"memstore_limit": "1g"}, TypeError, "memstore_limit: an integer is needed, not str"),
        ({"pool": 3}, TypeError, "pool: a ChunkPool is needed"),
        ({"config": 3}, TypeError, "config: a string or a mapping"),
        ({"progress": 3}, TypeError, "progress: a function is needed"),
    ]:
        with pytest.raises(error, match=re.escape(text)):
            libregion.open(path, **wrong)  # type: ignore[arg-type]
    assert not path.exists()
    with libregion.open(path, ["cf"], config={"recovery": "auto", "wal_segment_bytes": "1m"}) as r:
        assert r.increment(*KEY) == 1


def test_cells_fetched_ahead_are_not_given_after_close(path: Path) -> None:
    r = libregion.open(path, ["cf"])
    for i in range(10):
        r.increment(b"%d" % i, "cf", b"n")
    scan, whole = r.scan(), r.scan()
    assert next(scan).row == b"0"
    assert len(list(whole)) == 10
    r.close()
    with pytest.raises(libregion.Closed, match="is closed"):
        next(scan)
    scan.close()
    # What had ended has ended.
    assert list(whole) == []
