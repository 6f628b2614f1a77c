"""Each verb, with what it answers."""

from __future__ import annotations

import array
import math

import libregion
import pytest
from libregion import Region

I64_MAX = 2**63 - 1


def test_increment(r: Region) -> None:
    assert r.counter(b"row", "cf", b"hits") is None
    assert r.increment(b"row", "cf", b"hits", 5) == 5
    assert r.increment(b"row", "cf", b"hits") == 6
    assert r.increment(b"row", "cf", b"hits", -10) == -4
    assert r.counter(b"row", "cf", b"hits") == -4
    assert r.get(b"row", "cf", b"hits") == (-4).to_bytes(8, "big", signed=True)


def test_keys_are_anything_with_the_buffer_protocol(r: Region) -> None:
    fid = r.families()["cf"].id
    assert r.increment(b"row", "cf", b"q", 1) == 1
    assert r.increment(bytearray(b"row"), b"cf", memoryview(b"xqx")[1:2], 1) == 2
    assert r.increment(array.array("B", b"row"), fid, b"q", 1) == 3
    assert r.increment(memoryview(b"w-o-r")[::-2], "cf", b"q", 1) == 4
    for wrong in ("row", None, 5):
        with pytest.raises(TypeError):
            r.increment(wrong, "cf", b"q", 1)  # type: ignore[arg-type]
    r.put(b"a\0b", "cf", b"\0", b"\0\xff")
    assert r.get(b"a\0b", "cf", b"\0") == b"\0\xff"
    assert r.get(b"a", "cf", b"\0") is None


def test_numbers_out_of_range_are_refused_not_cut(r: Region) -> None:
    for delta in (2**63, -(2**63) - 1, 2**64 + 1):
        with pytest.raises(OverflowError):
            r.increment(b"row", "cf", b"q", delta)
    with pytest.raises(OverflowError):
        r.increment(b"row", 2**32 + r.families()["cf"].id, b"q", 1)
    with pytest.raises(OverflowError):
        r.increment(b"row", "cf", b"q", 1, max_value=2**63)
    with pytest.raises(TypeError):
        r.increment(b"row", "cf", b"q", 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="durabilty"):
        r.increment(b"row", "cf", b"q", 1, durabilty="fsync")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="durability"):
        r.increment(b"row", "cf", b"q", 1, durability="paper")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout"):
        r.increment(b"row", "cf", b"q", 1, timeout=-1)
    assert r.counter(b"row", "cf", b"q") is None
    assert r.increment(b"row", "cf", b"q", I64_MAX) == I64_MAX
    # As in HBase, unless refused.
    with pytest.raises(libregion.Overflow):
        r.increment(b"row", "cf", b"q", 1, check_overflow=True)
    assert r.increment(b"row", "cf", b"q", 1) == -(2**63)


def test_bounds(r: Region) -> None:
    key = (b"row", "cf", b"q")
    assert r.increment(*key, 7, max_value=10) == 7
    with pytest.raises(libregion.NotApplied) as e:
        r.increment(*key, 4, max_value=10)
    assert e.value.value == 7 and not e.value.retryable and e.value.code == 3
    assert r.increment(*key, 4, max_value=10, saturate=True) == 10
    with pytest.raises(libregion.NotApplied) as e:
        r.increment(*key, -11, min_value=0)
    assert e.value.value == 10
    assert r.increment(*key, 5, return_old=True) == 10
    assert r.increment(*key, 3, set=True) == 3
    with pytest.raises(libregion.Invalid, match="SATURATE"):
        r.increment(*key, 1, saturate=True)


def test_take(r: Region) -> None:
    key = (b"user", "cf", b"quota")
    assert not r.take(*key, 1)
    r.increment(*key, 5)
    first = r.take(*key, 3)
    assert first and first.granted and first.left == 2
    refused = r.take(*key, 3)
    assert not refused and refused.left == 2
    assert r.take(*key, 3, floor=-1).left == -1
    r.increment(*key, 1)
    # The last one is granted, though nothing is left.
    r.increment(*key, 1)
    assert r.take(*key, 1) == (True, 0) and bool(libregion.Taken(True, 0))
    with pytest.raises(ValueError):
        r.take(*key, -1)


def test_read_and_reset(r: Region) -> None:
    key = (b"row", "cf", b"window")
    assert r.read_and_reset(*key) == 0
    r.increment(*key, 42)
    assert r.read_and_reset(*key) == 42
    assert r.counter(*key) == 0
    assert r.read_and_reset(*key, 7) == 0
    assert r.counter(*key) == 7


def test_increment_row(r: Region) -> None:
    assert r.increment_row(b"row", [("cf", b"a", 1), ("meta", b"b", 2), ("cf", b"a", 3)]) == [1, 2, 4]
    assert r.increment_row(b"row", []) == []
    r.put(b"row", "cf", b"text", b"no counter")
    with pytest.raises(libregion.NotCounter) as e:
        r.increment_row(b"row", [("cf", b"a", 1), ("cf", b"text", 1)])
    assert e.value.op_index == 1
    assert [x.name for x in e.value.results] == ["REGION_E_NOT_RUN", "REGION_E_NOT_COUNTER"]
    with pytest.raises(libregion.NotApplied) as n:
        r.increment_row(b"row", [("cf", b"a", 1), ("cf", b"z", 9)], max_value=8)
    assert r.counter(b"row", "cf", b"a") == 4 and r.counter(b"row", "cf", b"z") is None
    assert len(n.value.results) == 2


def test_increment_many(r: Region) -> None:
    items = [(b"row%d" % (i % 7), "cf", b"q%d" % (i % 3), i) for i in range(1000)]
    model: dict[tuple[bytes, bytes], int] = {}
    expected = []
    for row, _, qual, delta in items:
        model[row, qual] = model.get((row, qual), 0) + delta
        expected.append(model[row, qual])
    assert r.increment_many(iter(items)) == expected
    assert r.counters((row, "cf", qual) for row, qual in model) == list(model.values())
    assert r.increment_many([]) == []
    r.put(b"text", "cf", b"q", b"abc")
    with pytest.raises(libregion.Partial) as e:
        r.increment_many([(b"new1", "cf", b"q", 1), (b"text", "cf", b"q", 1), (b"new2", "cf", b"q", 2)])
    assert [(x.ok, x.value) for x in e.value.results] == [(True, 1), (False, 0), (True, 2)]
    assert e.value.op_index == 1
    with pytest.raises(libregion.TooLarge) as t:
        r.increment_many([(b"row", "cf", b"q", 1), (b"x" * 65536, "cf", b"q", 1)])
    assert t.value.op_index == 1
    with pytest.raises(libregion.NotApplied) as n:
        r.increment_many([(b"n1", "cf", b"q", 1), (b"n2", "cf", b"q", 9)], max_value=5)
    assert [x.ok for x in n.value.results] == [True, False] and n.value.value == 0


@pytest.mark.parametrize("size", [0, 1, 7, 8, 4095, 4096, 4097, 300_000])
def test_values_of_any_length(r: Region, size: int) -> None:
    value = bytes(i * 7 % 256 for i in range(size))
    r.put(b"row", "cf", b"v", bytearray(value))
    assert r.get(b"row", "cf", b"v") == value
    view = r.get_view(b"row", "cf", b"v")
    assert view is not None and view == value and view.readonly
    view.release()
    assert r.stats()["pinned_values"] == 0
    assert r.get_many([(b"row", "cf", b"v"), (b"none", "cf", b"v")]) == [value, None]


def test_a_view_is_pinned_until_its_last_slice_is_gone(r: Region) -> None:
    assert r.get_view(b"row", "cf", b"v") is None
    r.put(b"row", "cf", b"v", b"before")
    with r.get_view(b"row", "cf", b"v") or memoryview(b"") as view:
        assert r.stats()["pinned_values"] == 1 and r.stats()["pinned_bytes"] >= 6
        r.put(b"row", "cf", b"v", b"behind")
        part = view[2:4]
    assert r.stats()["pinned_values"] == 1
    assert bytes(part) == b"fo"
    with pytest.raises(TypeError):
        part[0] = 1
    del part, view
    assert r.stats()["pinned_values"] == 0


def test_a_view_outlives_its_region(path: object) -> None:
    with libregion.open(str(path), families=["cf"]) as r:
        r.put(b"row", "cf", b"v", b"stays" * 1000)
        view = r.get_view(b"row", "cf", b"v")
    assert view is not None and view == b"stays" * 1000


def test_delete(r: Region) -> None:
    def left() -> list[tuple[str, bytes]]:
        return [(c.family, c.qual) for c in r.scan(prefix=b"row")]

    for fam in ("cf", "meta"):
        for q in (b"a", b"b"):
            r.put(b"row", fam, q, b"v")
    r.delete(b"row", "cf", b"a")
    assert left() == [("cf", b"b"), ("meta", b"a"), ("meta", b"b")]
    with r.batch() as b:
        b.delete(b"row", "meta", b"b")
    assert left() == [("cf", b"b"), ("meta", b"a")]
    r.delete(b"row", "meta", b"a")
    r.delete(b"row", "cf", b"b")
    assert left() == []
    r.put(b"row", "cf", b"a", b"again")
    assert r.get(b"row", "cf", b"a") == b"again"


@pytest.mark.parametrize("verb", ["delete_version", "delete_family", "delete_row"])
def test_other_deletes_do_their_work_or_say_that_they_do_not_exist(r: Region, verb: str) -> None:
    args = {"delete_version": (b"row", "cf", b"q"), "delete_family": (b"row", "cf"), "delete_row": (b"row",)}[verb]
    for in_batch in (False, True):
        r.put(b"row", "cf", b"q", b"v")
        try:
            if in_batch:
                with r.batch() as b:
                    getattr(b, verb)(*args)
            else:
                getattr(r, verb)(*args)
        except libregion.Unsupported:
            assert r.get(b"row", "cf", b"q") == b"v"
        else:
            assert r.get(b"row", "cf", b"q") is None


def test_append_does_its_work_or_says_that_it_does_not_exist(r: Region) -> None:
    try:
        r.append(b"row", "cf", b"log", b"ab")
        r.append(b"row", "cf", b"log", b"cd")
    except libregion.Unsupported as e:
        assert e.code == -10 and not e.retryable
    else:
        assert r.get(b"row", "cf", b"log") == b"abcd"


def test_get_many_over_several_pages(r: Region) -> None:
    keys = [(b"row%04d" % i, "cf", b"q") for i in range(600)]
    values = [bytes([i % 256]) * (i * 37 % 2000) if i % 5 else None for i in range(600)]
    with r.batch() as b:
        for (row, fam, qual), value in zip(keys, values):
            if value is not None:
                b.put(row, fam, qual, value)
    r.put(keys[300][0], "cf", b"q", b"L" * 500_000)
    values[300] = b"L" * 500_000
    assert r.get_many(keys) == values
    assert r.get_many([]) == []
    with r.snapshot() as s:
        r.put(keys[0][0], "cf", b"q", b"later")
        assert s.get_many(iter(keys)) == values


def test_counters(r: Region) -> None:
    r.increment(b"a", "cf", b"q", -1)
    r.increment(b"b", "cf", b"q", 0)
    assert r.counters([(b"a", "cf", b"q"), (b"none", "cf", b"q"), (b"b", "cf", b"q")]) == [-1, None, 0]
    assert r.counters([]) == []
    r.put(b"text", "cf", b"q", b"abc")
    with pytest.raises(libregion.NotCounter) as e:
        r.counters([(b"a", "cf", b"q"), (b"text", "cf", b"q")])
    assert e.value.op_index == 1
    with pytest.raises(libregion.NotCounter):
        r.counter(b"text", "cf", b"q")


def test_durability_and_waiting(r: Region) -> None:
    info = libregion.CommitInfo()
    r.increment(b"row", "cf", b"q", 1, durability="async", info=info)
    assert info.seq > 0 and info.timestamp > 0 and not info.duplicate
    r.wait_durable(info)
    r.wait_durable(info.seq, timeout=math.inf)
    r.wait_durable(info, timeout=5)
    assert r.stats()["durable_seq"] >= info.seq
    r.put(b"row", "cf", b"v", b"x", durability=libregion.Durability.FSYNC_WAL, info=info)
    assert info.durable and r.stats()["durable_seq"] >= info.seq
    r.put(b"row", "cf", b"v", b"x", durability="skip", info=info)
    assert info.seq == 0
    r.wait_durable(info)
    for wrong in (0, 10**9):
        with pytest.raises(libregion.Invalid):
            r.wait_durable(wrong, timeout=1)
    with pytest.raises(OverflowError):
        r.wait_durable(-1)


def test_waiting_goes_on_after_a_slice(r: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libregion.region, "WAIT_SLICE", 0.0)
    info = libregion.CommitInfo()
    r.put(b"row", "cf", b"v", b"x", durability="async", info=info)
    # Each slice ends in a timeout of its own until the background sync has come.
    r.wait_durable(info, timeout=60)
    assert r.stats()["durable_seq"] >= info.seq


def test_a_nonce_counts_once(r: Region) -> None:
    info = libregion.CommitInfo()
    nonce = libregion.new_nonce()
    assert 0 < nonce < 2**64 and nonce != libregion.new_nonce()
    assert r.increment(b"row", "cf", b"q", 5, nonce=nonce, info=info) == 5
    first = (info.seq, info.timestamp)
    assert not info.duplicate
    assert r.increment(b"row", "cf", b"q", 2) == 7
    assert r.increment(b"row", "cf", b"q", 5, nonce=nonce, info=info) == 5
    assert info.duplicate and (info.seq, info.timestamp) == first
    assert r.increment(b"row", "cf", b"q", 5, nonce=nonce, nonce_group=1) == 12
    for _ in range(2):
        assert r.increment_row(b"row", [("cf", b"a", 1), ("cf", b"b", 2)], nonce=nonce + 1) == [1, 2]
        assert r.increment_many([(b"x", "cf", b"q", 1), (b"y", "cf", b"q", 1), (b"x", "cf", b"q", 1)], nonce=nonce + 1) == [1, 1, 2]
    r.put(b"row", "cf", b"v", b"one", nonce=7)
    r.put(b"row", "cf", b"v", b"two")
    r.put(b"row", "cf", b"v", b"one", nonce=7)
    assert r.get(b"row", "cf", b"v") == b"two"
    with pytest.raises(libregion.Invalid, match="different operation"):
        r.put(b"row", "cf", b"v", b"three", nonce=7)
    for wrong in ({"nonce": 8, "durability": "skip"}, {"nonce_group": 8}):
        with pytest.raises(libregion.Invalid):
            r.increment(b"row", "cf", b"q", 1, **wrong)
    assert r.counter(b"row", "cf", b"q") == 12


def test_a_batch_with_a_nonce_is_sent_again(r: Region) -> None:
    def send() -> libregion.Batch:
        b = r.batch(atomic=True, nonce=9)
        b.check(b"guard", "cf", b"q", "absent").increment(b"a", "cf", b"q", 1).increment(b"b", "cf", b"q", 2)
        b.commit()
        return b

    first = send()
    assert first.applied and not any(result.duplicate for result in first.results)
    r.put(b"guard", "cf", b"q", b"closed")
    again = send()
    assert again.applied and all(result.duplicate for result in again.results)
    assert [x.value for x in again.results] == [x.value for x in first.results]
    # Partly done: the same batch again does the rest.
    r.put(b"text", "cf", b"q", b"abc")
    b = r.batch(nonce=10).increment(b"a", "cf", b"q", 1).increment(b"text", "cf", b"q", 1)
    with pytest.raises(libregion.Partial) as e:
        b.commit()
    assert e.value.retryable
    r.delete(b"text", "cf", b"q")
    b.commit()
    assert [x.value for x in b.results] == [2, 1] and [x.duplicate for x in b.results] == [True, False]


def test_families(r: Region) -> None:
    before = r.families()
    assert set(before) == {"cf", "meta"} and before["cf"].id != before["meta"].id
    assert before["cf"].max_versions == 1 and before["cf"].ttl == math.inf and before["cf"].bloom == "row"
    fid = r.family_set(libregion.Family("more", max_versions=3, bloom="rowcol", block_size=32768, keep_deleted=False))
    more = r.families()["more"]
    assert (more.id, more.max_versions, more.bloom, more.block_size) == (fid, 3, "rowcol", 32768)
    assert r.family_set("more") == fid
    assert r.families()["more"].max_versions == 3
    r.put(b"row", "more", b"q", b"v")
    assert r.get(b"row", fid, b"q") == b"v"
    assert [c.family for c in r.scan()] == ["more"]
    with pytest.raises(libregion.NoFamily, match="'nope'") as e:
        r.put(b"row", "nope", b"q", b"v")
    assert e.value.code == -11
    with pytest.raises(libregion.NoFamily):
        r.put(b"row", 999, b"q", b"v")
    r.family_drop("more")
    with pytest.raises(libregion.NoFamily):
        r.put(b"row", "more", b"q", b"v")
    assert set(r.families()) == {"cf", "meta"}
    # A new family of the name has a new id, and nothing of the old one.
    assert r.family_set("more") != fid
    assert r.get(b"row", "more", b"q") is None


def test_stats_and_descriptions(r: Region) -> None:
    before = r.stats()
    r.increment(b"row", "cf", b"q")
    r.get(b"row", "cf", b"q")
    after = r.stats()
    assert after["increments"] == before["increments"] + 1 and after["reads"] > before["reads"]
    assert after["seq"] > before["seq"] and after["health"] == 0 and "struct_size" not in after
    with r.snapshot(), r.scan():
        assert r.stats()["open_snapshots"] >= 1 and r.stats()["open_scanners"] == 1
    assert r.stats()["open_scanners"] == 0
    told = r.describe()
    assert {f["name"] for f in told["families"]} == {"cf", "meta"}
    assert told["clock_unit"] == "ns" and told["settings"]
    assert r.recovery_report()["records"] == 0
