"""Batches, scans and snapshots."""

from __future__ import annotations

import random

import libregion
import pytest
from libregion import Column, Region


def test_batch(r: Region) -> None:
    with r.batch(atomic=True) as b:
        b.put(b"row", "cf", b"v", b"1").increment(b"row", "cf", b"n", 5).increment(b"other", "meta", b"n", -1)
        assert len(b) == 3 and b.results == []
    assert b.applied and [x.value for x in b.results] == [0, 5, -1]
    assert all(x.ok and x.name == "REGION_OK" and not x.retryable for x in b.results)
    assert b.info.seq > 0
    assert r.get(b"row", "cf", b"v") == b"1" and r.counter(b"other", "meta", b"n") == -1
    with pytest.raises(RuntimeError):
        b.put(b"row", "cf", b"v", b"2")
    with pytest.raises(RuntimeError):
        b.commit()
    with r.batch() as empty:
        pass
    assert empty.applied and empty.results == []


def test_a_batch_whose_block_raises_is_not_sent(r: Region) -> None:
    with pytest.raises(KeyError), r.batch() as b:
        b.put(b"row", "cf", b"v", b"1")
        raise KeyError("x")
    assert r.get(b"row", "cf", b"v") is None and not b.applied


# BUG-89
def test_a_batch_of_which_something_was_applied_is_not_sent_again(r: Region) -> None:
    r.put(b"text", "cf", b"n", b"no counter")
    b = r.batch()
    b.increment(b"a", "cf", b"n", 1).increment(b"text", "cf", b"n", 1)
    with pytest.raises(libregion.Partial):
        b.commit()
    with pytest.raises(RuntimeError):
        b.commit()
    assert r.counter(b"a", "cf", b"n") == 1


def test_failures_of_a_batch(r: Region) -> None:
    r.put(b"text", "cf", b"q", b"abc")
    with pytest.raises(libregion.Partial) as e, r.batch() as b:
        b.put(b"a", "cf", b"q", b"1").put(b"text", "cf", b"w", b"x").increment(b"text", "cf", b"q").put(b"c", "cf", b"q", b"3")
    assert e.value.op_index == 2 and e.value.results == b.results and not b.applied
    assert [x.name for x in b.results] == ["REGION_OK", "REGION_E_NOT_RUN", "REGION_E_NOT_COUNTER", "REGION_OK"]
    assert r.get(b"a", "cf", b"q") == b"1" and r.get(b"text", "cf", b"w") is None
    with pytest.raises(libregion.NotCounter), r.batch(atomic=True) as b:
        b.put(b"d", "cf", b"q", b"1").increment(b"text", "cf", b"q")
    assert r.get(b"d", "cf", b"q") is None


HELD = {"absent": None, "bytes": b"m", "counter": 5}


@pytest.mark.parametrize("comparison", ["==", "!=", "<", "<=", ">", ">="])
def test_checks_compare_what_is_stored_with_what_is_expected(r: Region, comparison: str) -> None:
    r.put(b"row", "cf", b"v", b"m")
    r.increment(b"row", "cf", b"n", -5)
    holds = {"==": int.__eq__, "!=": int.__ne__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__}[comparison]
    for expected, data in ((ord("l"), b"l"), (ord("m"), b"m"), (ord("n"), b"n")):
        with r.batch() as b:
            b.check(b"row", "cf", b"v", comparison, data)  # type: ignore[arg-type]
        assert b.applied == holds(ord("m"), expected), (comparison, data)
    for number in (-6, -5, 4):
        with r.batch() as b:
            b.check(b"row", "cf", b"n", comparison, number).put(b"row", "cf", b"hit", b"%d" % number)  # type: ignore[arg-type]
        assert b.applied == holds(-5, number), (comparison, number)
        assert (r.get(b"row", "cf", b"hit") == b"%d" % number) == b.applied
        if b.applied:
            assert b.results[0].value == -5


def test_checks_for_presence_and_guards(r: Region) -> None:
    r.put(b"row", "cf", b"v", b"m")
    for qual, exists in ((b"v", True), (b"none", False)):
        for comparison in ("exists", "absent"):
            with r.batch() as b:
                b.check(b"row", "cf", qual, comparison)
            assert b.applied == (exists == (comparison == "exists"))
    # A check guards its own row, and with atomic everything.
    for atomic in (False, True):
        with r.batch(atomic=atomic) as b:
            b.put(b"other%d" % atomic, "cf", b"v", b"1").check(b"row", "cf", b"v", "absent").put(b"row", "cf", b"w", b"2")
        assert not b.applied and r.get(b"row", "cf", b"w") is None
        assert (r.get(b"other%d" % atomic, "cf", b"v") is None) == atomic
    with pytest.raises(TypeError):
        r.batch().check(b"row", "cf", b"v", "==")
    with pytest.raises(TypeError):
        r.batch().check(b"row", "cf", b"v", "exists", b"x")
    with pytest.raises(ValueError):
        r.batch().check(b"row", "cf", b"v", "~", b"x")  # type: ignore[arg-type]


def test_compare_and_set(r: Region) -> None:
    key = (b"row", "cf", b"lock")
    assert r.compare_and_set(*key, None, b"a")
    assert not r.compare_and_set(*key, None, b"b")
    assert not r.compare_and_set(*key, b"b", b"c")
    assert r.compare_and_set(*key, b"a", b"c")
    assert r.get(*key) == b"c"


def fill(r: Region, rows: int) -> list[tuple[bytes, str, bytes, bytes]]:
    rng = random.Random(7)
    cells = []
    with r.batch() as b:
        for i in range(rows):
            for fam in ("cf", "meta"):
                for q in sorted(rng.sample([b"a", b"ab", b"b", b"c", b"long-qualifier"], 2)):
                    value = bytes([rng.randrange(256)]) * rng.randrange(40)
                    b.put(b"row%04d" % i, fam, q, value)
                    cells.append((b"row%04d" % i, fam, q, value))
    return cells


def shown(cells: libregion.Scanner) -> list[tuple[bytes, str, bytes, bytes]]:
    return [c[:4] for c in cells]


@pytest.mark.parametrize("page_bytes", [64, 200, 4096, 1 << 20])
def test_scan_by_pages_of_any_size(r: Region, page_bytes: int) -> None:
    cells = fill(r, 300)
    big = (b"row0100", "cf", b"zz", b"B" * 10_000)
    r.put(*big)
    cells.append(big)
    # Families of a row come in the order of their ids, which is that of their names here.
    assert shown(r.scan(page_bytes=page_bytes)) == sorted(cells)


def test_what_a_scan_covers(r: Region) -> None:
    cells = fill(r, 50)
    assert shown(r.scan(prefix=b"row001")) == [c for c in cells if c[0].startswith(b"row001")]
    assert shown(r.scan(start=b"row0010", stop=b"row0020")) == [c for c in cells if b"row0010" <= c[0] < b"row0020"]
    inside = shown(r.scan(start=b"row0010", stop=b"row0020", inclusive_stop=True, exclusive_start=True))
    assert inside == [c for c in cells if b"row0010" < c[0] <= b"row0020"]
    assert shown(r.scan(limit=7)) == cells[:7]
    assert shown(r.scan(row_limit=2)) == cells[:8]
    assert shown(r.scan(cells_per_row=1)) == cells[::4]
    assert shown(r.scan(columns=["meta"])) == [c for c in cells if c[1] == "meta"]
    assert shown(r.scan(columns=[("cf", b"a"), ("meta", b"c")])) == [c for c in cells if c[1:3] in (("cf", b"a"), ("meta", b"c"))]
    assert shown(r.scan(columns=[Column.prefix("cf", b"a")])) == [c for c in cells if c[1] == "cf" and c[2].startswith(b"a")]
    assert shown(r.scan(columns=[Column.range("cf", b"ab", b"c")])) == [c for c in cells if c[1] == "cf" and b"ab" <= c[2] < b"c"]
    assert [c.value for c in r.scan(keys_only=True)] == [b""] * len(cells)
    assert shown(r.scan(prefix=b"none")) == []
    with pytest.raises(TypeError, match="prefx"):
        r.scan(prefx=b"a")  # type: ignore[call-arg]
    with pytest.raises(libregion.NoFamily):
        r.scan(columns=["nope"])
    backward = shown(r.scan(reverse=True, columns=[("cf", b"a")]))
    assert backward == [c for c in reversed(cells) if c[1:3] == ("cf", b"a")]
    assert shown(r.scan(reverse=True, start=b"row00055", row_limit=1)) == [c for c in cells if c[0] == b"row0005"]


def test_versions_and_raw_scans(r: Region) -> None:
    r.family_set(libregion.Family("deep", max_versions=3))
    stamps = []
    for i in range(4):
        r.put(b"row", "deep", b"q", b"%d" % i)
        stamps += [c.timestamp for c in r.row(b"row")]
    assert [c.value for c in r.scan(versions=9)] == [b"3", b"2", b"1"]
    assert [c.value for c in r.scan(versions=2, page_bytes=64)] == [b"3", b"2"]
    assert [c.value for c in r.scan(versions=9, min_ts=stamps[1], max_ts=stamps[3])] == [b"2", b"1"]
    r.delete(b"row", "deep", b"q")
    assert list(r.scan()) == []
    raw = list(r.scan(raw=True, versions=9))
    assert [c.value for c in raw] == [b"", b"3", b"2", b"1", b"0"] and raw[0].type == 12
    with pytest.raises(libregion.Invalid):
        r.scan(raw=True, columns=["cf"])


def test_rows(r: Region) -> None:
    cells = fill(r, 3)
    assert [c[:4] for c in r.row(b"row0001")] == [c for c in cells if c[0] == b"row0001"]
    chosen = [c[3] for c in cells if c[0] == b"row0001" and (c[1] == "meta" or c[1:3] == ("cf", b"a"))]
    assert [c.value for c in r.row(b"row0001", [("cf", b"a"), "meta"])] == chosen
    assert r.row(b"none") == []
    with r.snapshot() as s:
        r.put(b"row0001", "cf", b"later", b"x" * 200_000)
        assert len(s.row(b"row0001")) + 1 == len(r.row(b"row0001"))
    # Longer than the first page.
    assert r.row(b"row0001", [("cf", b"later")])[0].value == b"x" * 200_000
    with pytest.raises(libregion.NoFamily):
        r.row(b"row0001", ["nope"])
    with pytest.raises(libregion.Invalid):
        r.row(b"")


def test_cells(r: Region) -> None:
    r.increment(b"row", "cf", b"n", -3)
    r.put(b"row", "cf", b"v", b"text")
    n, v = r.scan()
    assert n.counter == -3 and n.type == 4 and n.timestamp > 0 and v.seq > n.seq
    with pytest.raises(ValueError):
        v.counter


def test_a_scanner_ends_seeks_and_closes(r: Region) -> None:
    fill(r, 20)
    with r.scan(columns=[("cf", b"a")], page_bytes=64) as cells:
        next(cells)
        cells.seek(b"row0015")
        assert next(cells).row >= b"row0015"
        assert r.stats()["open_scanners"] == 1
    assert r.stats()["open_scanners"] == 0
    # What its page still held is gone.
    with r.scan() as ahead:
        assert next(ahead).row == b"row0000"
        ahead.seek(b"row0015")
        assert next(ahead).row == b"row0015"
    # Closed before its end: that is not an end.
    with pytest.raises(libregion.Closed):
        next(cells)
    with pytest.raises(libregion.Closed):
        cells.seek(b"row")
    done = r.scan()
    assert list(done) and list(done) == [] and done.closed
    assert r.stats()["open_scanners"] == 0


def test_snapshots(r: Region) -> None:
    r.increment(b"row", "cf", b"n", 1)
    r.put(b"row", "cf", b"v", b"old")
    with r.snapshot() as s:
        r.increment(b"row", "cf", b"n", 1)
        r.put(b"row", "cf", b"v", b"new")
        r.put(b"row2", "cf", b"v", b"new")
        assert s.counter(b"row", "cf", b"n") == 1 and r.counter(b"row", "cf", b"n") == 2
        assert s.get(b"row", "cf", b"v") == b"old"
        assert s.counters([(b"row", "cf", b"n"), (b"none", "cf", b"n")]) == [1, None]
        assert s.get_many([(b"row", "cf", b"v"), (b"row2", "cf", b"v")]) == [b"old", None]
        view = s.get_view(b"row", "cf", b"v")
        assert view is not None and bytes(view) == b"old"
        assert [c.value for c in s.scan(columns=[("cf", b"v")])] == [b"old"]
        assert 0 < s.seq < r.stats()["seq"]
        open_scan = s.scan()
    # Never the newest values instead.
    for read in (s.get, s.counter, s.get_view):
        with pytest.raises(libregion.Closed, match="snapshot"):
            read(b"row", "cf", b"v")
    with pytest.raises(libregion.Closed):
        s.scan()
    # A scan goes on with what its snapshot showed.
    assert [c.value for c in open_scan if c.qual == b"v"] == [b"old"]
    assert s.seq == 0 and r.stats()["open_snapshots"] == 0
