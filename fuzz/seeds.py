#!/usr/bin/env python3
"""Writes the first inputs of a fuzz target. Usage: seeds.py packed|disk DIRECTORY"""
import itertools
import pathlib
import struct
import sys

BATCH, INCREMENT, GET, COUNTER_GET = range(4)
PUT, DELETE, DELETE_VERSION, DELETE_FAMILY, DELETE_ROW, APPEND, INC, DELETE_FAMILY_VERSION, CHECK = range(1, 10)
SAME_ROW = 1 << 16


def pad(b):
    return b + bytes(-len(b) % 8)


def op(kind, row=b"r", qual=b"q", value=b"", family=1, flags=0, delta=0, ts=0, more=0):
    head = struct.pack("<BBHIIIIIqQ", kind, 40 + more, len(row), family, flags, len(qual), len(value), 0, delta, ts)
    return pad(head + bytes(more) + row + qual + value)


def increment(row=b"r", qual=b"n", family=1, delta=1):
    return pad(struct.pack("<IHHq", family, len(row), len(qual), delta) + row + qual)


def key(row=b"r", qual=b"n", family=1):
    return pad(struct.pack("<IHH", family, len(row), len(qual)) + row + qual)


def call(which, records, options=0, n=None):
    return struct.pack("<BBH", which, options, len(records) if n is None else n) + b"".join(records)


def edit(file, how, place, data):
    return struct.pack("<BBHB", file, how, place, len(data)) + data


def disk():
    """Programs of tests/common/damaged.rs: switches, then edits."""
    overwrite, insert, remove, cut, extend = 4, 0, 1, 2, 3
    for switches in (0, 1, 3, 5, 9, 17, 31):
        yield bytes([switches])
        for file in range(4):
            yield bytes([switches]) + edit(file, overwrite, 4096 + 40, b"\xff\xff")
            yield bytes([switches]) + edit(file, overwrite, 4096, struct.pack("<I", 48))
            yield bytes([switches]) + edit(file, overwrite, 100, b"9" * 8) + edit(file, cut, 5000, b"")
    for how in (insert, remove, cut, extend):
        yield bytes([1]) + edit(1, how, 4400, b"12345678")


def packed():
    for kind in range(1, 10):
        yield call(BATCH, [op(kind, value=b"v", flags=7 if kind == CHECK else 0, ts=5 if kind == DELETE_FAMILY_VERSION else 0)])
    counters = [op(INC, qual=b"n", delta=2), op(CHECK, b"", b"n", flags=SAME_ROW | 256 | 6, delta=1), op(APPEND, b"", b"t", b"more", flags=SAME_ROW)]
    yield call(BATCH, counters)
    yield call(BATCH, counters + [op(PUT, b"other", value=bytes(300), family=2, ts=99)], options=1)
    yield call(BATCH, [op(PUT, more=8), op(DELETE_ROW, more=16)], options=0x80)
    yield call(BATCH, [op(PUT, bytes([i]), family=2) for i in range(40)])
    # Ending where the buffer ends: nothing pads what is read too far.
    yield call(BATCH, [op(PUT, value=b"123456")])
    yield call(BATCH, [op(PUT, value=b"x" * 62), op(APPEND, b"", b"t", b"1234567", flags=SAME_ROW)], options=0x80)
    yield call(BATCH, [op(DELETE, b"rowrow", b"qq"), op(CHECK, b"row", b"q", b"1234", flags=2)])
    yield call(INCREMENT, [increment(b"rowrow", b"nn")])
    yield call(GET, [key(b"r", b"1234567")], options=0x7F)
    yield call(COUNTER_GET, [key(b"rowrow", b"nn")])
    for options, n in itertools.product((0, 1, 4, 0x14, 0x80), (1, 3)):
        yield call(INCREMENT, [increment(bytes([97 + i]), delta=i - 1) for i in range(n)], options)
    yield call(INCREMENT, [increment(), increment(bytes(200))], n=3)
    for which in (GET, COUNTER_GET):
        yield call(which, [key(), key(b"r", b"q"), key(b"a"), key(b"other", b"q", 2)], options=0x7F)
        yield call(which, [key(bytes([i])) for i in range(20)], options=9)
        yield call(which, [], n=1)


if __name__ == "__main__":
    target, to = {"packed": packed, "disk": disk}[sys.argv[1]], pathlib.Path(sys.argv[2])
    to.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(target()):
        (to / f"seed-{i:03}").write_bytes(data)
