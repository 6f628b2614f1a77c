"""Opening, closing, and what is left open."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import libregion
import pytest

from conftest import KEY, run


def test_open_create_and_reopen(path: Path) -> None:
    with pytest.raises(libregion.NoRegion) as e:
        libregion.open(path, create=False)
    assert e.value.code == -28 and not e.value.retryable and e.value.op_index is None
    with libregion.open(path, families=["cf", libregion.Family("meta", max_versions=4)]) as r:
        assert r.increment(*KEY, 5) == 5
        assert r.path == str(path) and not r.closed
    assert r.closed and "closed" in repr(r)
    with pytest.raises(libregion.Exists):
        libregion.open(path, exclusive=True)
    with libregion.open(str(path)) as r:
        assert r.increment(*KEY, 1) == 6
        assert r.families()["meta"].max_versions == 4
        assert r.recovery_report()["records"] >= 1
    with libregion.open(os.fsencode(path), read_only=True) as r:
        assert r.counter(*KEY) == 6
        with pytest.raises(libregion.ReadOnly):
            r.increment(*KEY)
    libregion.destroy(path)
    assert not path.exists()
    with pytest.raises(libregion.NoRegion):
        libregion.destroy(path)


def test_open_options(path: Path) -> None:
    with libregion.open(
        path, families=[b"cf"], durability="async", timeout=2.5, clock_unit="us", tick_policy="advance", wal_io="write", sync_interval=0.5,
        memstore_limit=64 << 20, flush_bytes=16 << 20, block_cache_bytes=8 << 20, background_threads=1, wal_bytes_max=256 << 20,
        start_row=b"b", end_row=b"y",
    ) as r:  # fmt: skip
        told = r.describe()
        assert told["clock_unit"] == "us" and told["wal_io"] == "write"
        assert (told["start_row"], told["end_row"]) == ("b", "y")
        assert told["settings"]["write_timeout_us"]["value"] in (2_500_000, "2500000")
        assert r.stats()["memstore_limit"] == 64 << 20
        r.put(b"b", "cf", b"q", b"v")
        for outside in (b"a", b"y"):
            with pytest.raises(libregion.OutOfRange):
                r.put(outside, "cf", b"q", b"v")
    with pytest.raises(libregion.Invalid, match="clock"):
        libregion.open(path, clock_unit="ms")
    key = next(k for k in told["settings"] if k == "sync_interval_ms")
    for config in ({key: 750}, f"{key}=750"):
        with libregion.open(path, config=config) as r:
            assert str(r.describe()["settings"][key]["value"]) == "750"
    with pytest.raises(libregion.RegionError, match="syncinterval"):
        libregion.open(path, config={"syncinterval": 1})
    for wrong in ({"memstore_limit": -1}, {"background_threads": 2**32}, {"clock": "s"}, {"cloc": "ns"}, {"config": "a\0b"}):
        with pytest.raises((OverflowError, ValueError, TypeError)):
            libregion.open(path, **wrong)
    with pytest.raises(ValueError, match="NUL"):
        libregion.open(f"{path}\0x")
    with pytest.raises(TypeError, match="families"):
        libregion.open(path, families="cf")


def test_errors_keep_what_the_library_says(path: Path) -> None:
    with libregion.open(path, families=["cf"]) as r:
        with pytest.raises(libregion.Locked) as e:
            libregion.open(path)
        assert str(os.getpid()) in e.value.message and str(e.value).startswith("REGION_E_LOCKED: ")
        r.put(*KEY, b"text")
        with pytest.raises(libregion.RegionError) as n:
            r.increment(*KEY)
        assert type(n.value) is libregion.NotCounter and n.value.code == -12 and not n.value.retryable
        with pytest.raises(ValueError):
            r.put(b"", "cf", b"q", b"v")
    copy = pickle.loads(pickle.dumps(n.value))
    assert type(copy) is libregion.NotCounter and str(copy) == str(n.value) and copy.__dict__ == n.value.__dict__
    (path.parent / "file").write_text("x")
    with pytest.raises(libregion.RegionError) as f:
        libregion.open(path.parent / "file" / "below", families=["cf"])
    assert f.value.os_errno == 20 or isinstance(f.value, libregion.Invalid)


def test_full_memory_is_busy_and_retryable(path: Path) -> None:
    """Where nothing can be flushed the memory stays full; where it can, all is stored."""
    with libregion.open(path, families=["cf"], memstore_limit=8 << 20, flush_bytes=4 << 20, durability="async") as r:
        stored = 0
        try:
            for stored in range(300):
                r.put(b"row%d" % stored, "cf", b"v", b"x" * 65536, timeout=0.05)
        except libregion.Busy as e:
            assert e.retryable and e.code == -4
        assert r.get(b"row0", "cf", b"v") == b"x" * 65536
        assert stored > 20


def test_progress_of_open_and_what_it_raises(path: Path) -> None:
    with libregion.open(path, families=["cf"], durability="async") as r:
        for i in range(20):
            r.increment_many((b"row%d" % n, "cf", b"q", 1) for n in range(1000))
    seen: list[libregion.Progress] = []
    with libregion.open(path, progress=seen.append):
        pass
    assert seen and all(p.phase == "recovery" for p in seen)
    if seen[0].total:
        assert seen[-1].done <= seen[-1].total

    def stop(_: libregion.Progress) -> None:
        raise ZeroDivisionError("stop")

    with pytest.raises(ZeroDivisionError):
        libregion.open(path, progress=stop)

    # A signal that comes in the middle: its handler runs at once, and what it raises comes out of open.
    handled = threading.Event()

    def handler(*_: object) -> None:
        handled.set()
        raise KeyboardInterrupt

    def interrupt(_: libregion.Progress) -> None:
        if not handled.is_set():
            os.kill(os.getpid(), signal.SIGUSR1)
            assert handled.wait(30)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        # Often: it may come while the thread that makes the call is being started.
        for _ in range(10):
            handled.clear()
            with pytest.raises(KeyboardInterrupt):
                libregion.open(path, progress=interrupt)
    finally:
        signal.signal(signal.SIGUSR1, before)
    with libregion.open(path) as r:
        assert r.counter(b"row7", "cf", b"q") == 20


def test_what_comes_after_the_last_callback_closes_the_region_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(watch: libregion.opening._Watch, call: Callable[[], int]) -> int:
        rc = call()
        watch.error = KeyboardInterrupt()
        return rc

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(libregion.opening._Watch, "run", late)
        libregion.open(path, families=["cf"])
    libregion.open(path, create=False).close()


def test_use_after_close(path: Path) -> None:
    r = libregion.open(path, families=["cf"])
    r.put(b"row", "cf", b"v", b"x")
    s, scan, batch = r.snapshot(), r.scan(), r.batch()
    batch.put(b"row", "cf", b"v", b"y")
    with pytest.raises(libregion.Busy):
        r.close(force=False)
    assert not r.closed and r.increment(*KEY) == 1
    r.close()
    r.close()
    verbs: list[Callable[[], object]] = [
        lambda: r.increment(*KEY), lambda: r.increment_row(b"row", [("cf", b"q", 1)]), lambda: r.increment_many([(*KEY, 1)]),
        lambda: r.take(*KEY), lambda: r.read_and_reset(*KEY), lambda: r.put(*KEY, b"x"), lambda: r.append(*KEY, b"x"),
        lambda: r.delete(*KEY), lambda: r.delete_version(*KEY), lambda: r.delete_family(b"row", "cf"), lambda: r.delete_row(b"row"),
        lambda: r.get(*KEY), lambda: r.get_view(*KEY), lambda: r.counter(*KEY), lambda: r.counters([KEY]), lambda: r.get_many([KEY]),
        lambda: r.scan(), lambda: r.snapshot(), lambda: r.stats(), lambda: r.describe(), lambda: r.recovery_report(),
        lambda: r.wait_durable(1), lambda: r.wait_durable(1, timeout=1), lambda: r.families(), lambda: r.family_set("x"),
        lambda: r.family_drop("cf"), lambda: batch.commit(), lambda: r.compare_and_set(*KEY, None, b"x"),
        lambda: s.get(*KEY), lambda: s.counter(*KEY), lambda: s.scan(), lambda: next(scan), lambda: scan.seek(b"row"),
        lambda: r.get(b"row", "never-asked-for", b"q"),
    ]  # fmt: skip
    for i, verb in enumerate(verbs):
        with pytest.raises(libregion.Closed) as e:
            verb()
        assert e.value.code == -3, i
    scan.close()
    s.close()
    pool = libregion.ChunkPool()
    pool.close()
    pool.close()
    # NULL would mean the process's default pool.
    for use in (pool.stats, pool.trim, lambda: libregion.open(path, pool=pool)):
        with pytest.raises(libregion.Closed, match="chunk pool"):
            use()


def test_a_handle_left_to_the_collector_is_closed_and_warned_of(path: Path) -> None:
    def leak() -> None:
        r = libregion.open(path, families=["cf"])
        r.increment(*KEY)
        r.snapshot()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        leak()
        gc.collect()
    assert [w.category for w in caught] == [ResourceWarning] * 2
    assert "unclosed snapshot" in str(caught[0].message) and f"unclosed region {str(path)!r}" in str(caught[1].message)
    with libregion.open(path) as r:
        assert r.counter(*KEY) == 1


def test_what_is_left_at_exit_is_closed(path: Path) -> None:
    code = f"import libregion; r = libregion.open({str(path)!r}, families=['cf']); s = r.snapshot(); r.put(b'r', 'cf', b'q', b'v', durability='skip')"
    done = run(code)
    assert done.returncode == 0 and done.stderr.count("ResourceWarning: unclosed") == 2, done.stderr
    with libregion.open(path):
        pass


def test_pools(path: Path) -> None:
    with libregion.ChunkPool(chunk_size=1 << 20, max_bytes=64 << 20, preallocate_bytes=2 << 20) as pool:
        assert pool.stats()["chunk_size"] == 1 << 20 and pool.stats()["pooled"] == 2
        with libregion.open(path, families=["cf"], pool=pool) as r:
            r.put(b"row", "cf", b"v", b"x" * 1000)
            assert pool.stats()["in_use"] >= 1
        pool.trim()
        assert pool.stats()["pooled"] == 0
    assert libregion.default_pool_stats()["chunk_size"] > 0
    libregion.default_pool_trim()
    with pytest.raises(libregion.Invalid):
        libregion.ChunkPool(chunk_size=1000)
    with pytest.raises(OverflowError):
        libregion.ChunkPool(max_bytes=-1)
