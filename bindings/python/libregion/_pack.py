"""The packed records of region_pack.h: one bytes object for a call of many elements. Little-endian, padded to 8 bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Union

from . import _constants as c
from ._convert import to_bytes, to_i64, to_u64
from .errors import OpResult, TooLarge

if TYPE_CHECKING:
    from ._convert import BytesLike

    Family = Union[str, bytes, int]
    Key = tuple[BytesLike, Family, BytesLike]
    Increment = tuple[BytesLike, Family, BytesLike, int]

OP = Struct("<BBHIIIIIqQ")
INCREMENT = Struct("<IHHq")
KEY = Struct("<IHH")
CELL = Struct("<BBHIIIQQ")
RESULT = Struct("<iIq")
SAME_ROW = 1 << 16
PAD = [b"\0" * (-n % 8) for n in range(8)]


def _short(data: bytes, what: str, at: int) -> int:
    if len(data) > 0xFFFF:
        raise TooLarge(f"{what} of {len(data)} bytes: at most 65535", op_index=at)
    return len(data)


def increments(items: Iterable[Increment], family_id: Callable[[Family], int]) -> tuple[bytes, int]:
    """(records, how many)"""
    parts: list[bytes] = []
    n = 0
    for row, family, qual, delta in items:
        row, qual = to_bytes(row, "row"), to_bytes(qual, "qualifier")
        head = INCREMENT.pack(family_id(family), _short(row, "row", n), _short(qual, "qualifier", n), to_i64(delta, "delta"))
        parts += (head, row, qual, PAD[len(row) + len(qual) & 7])
        n += 1
    return b"".join(parts), n


def keys(items: Iterable[Key], family_id: Callable[[Family], int]) -> tuple[bytearray, list[int]]:
    """(records, where each begins, and the end)"""
    parts: list[bytes] = []
    offsets = [0]
    for row, family, qual in items:
        row, qual = to_bytes(row, "row"), to_bytes(qual, "qualifier")
        n = len(offsets) - 1
        head = KEY.pack(family_id(family), _short(row, "row", n), _short(qual, "qualifier", n))
        parts += (head, row, qual, PAD[len(row) + len(qual) & 7])
        offsets.append(offsets[-1] + (KEY.size + len(row) + len(qual) + 7 & ~7))
    return bytearray().join(parts), offsets


class Ops:
    """Op records, one behind another."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._row: bytes | None = None
        self.n = 0

    def add(
        self, op: int, row: BytesLike, family: int, qual: BytesLike = b"", value: BytesLike = b"", flags: int = 0, delta: int = 0,
        timestamp: int = 0,
    ) -> None:  # fmt: skip
        row, qual, value = to_bytes(row, "row"), to_bytes(qual, "qualifier"), to_bytes(value, "value")
        _short(row, "row", self.n)
        for data, what in ((qual, "qualifier"), (value, "value")):
            if len(data) >= 2**32:
                raise TooLarge(f"{what} of {len(data)} bytes", op_index=self.n)
        kept = row
        if row == self._row:
            row, flags = b"", flags | SAME_ROW
        head = OP.pack(
            op, OP.size, len(row), family, flags, len(qual), len(value), 0, to_i64(delta, "delta"), to_u64(timestamp, "timestamp")
        )
        self._parts += (head, row, qual, value, PAD[len(row) + len(qual) + len(value) & 7])
        self._row = kept
        self.n += 1

    def packed(self) -> bytes:
        return b"".join(self._parts)


def results(buffer: bytearray) -> list[OpResult]:
    return [OpResult(*r) for r in RESULT.iter_unpack(buffer)]


def cells(page: memoryview) -> Iterator[tuple[int, int, bytes, int, bytes, bytes, int, int]]:
    """(type, flags, row, family, qualifier, value, timestamp, seq) of each record of a page."""
    data = page.tobytes()
    at, end = 0, len(data)
    row = b""
    while at < end:
        kind, flags, row_len, family, qual_len, value_len, timestamp, seq = CELL.unpack_from(data, at)
        begin = at + CELL.size
        qual = begin + row_len
        value = qual + qual_len
        stop = value + value_len
        if flags & c.CELL_NEW_ROW:
            row = data[begin:qual]
        yield kind, flags, row, family, data[qual:value], data[value:stop], timestamp, seq
        at = stop + 7 & ~7
