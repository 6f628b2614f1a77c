"""From Python's values to those of the C API. ctypes cuts integers silently, so each is checked here."""

from __future__ import annotations

import math
from ctypes import c_char_p, c_void_p, cast
from operator import index
from typing import TYPE_CHECKING, Union

from . import _constants as c
from ._structs import region_slice_t

if TYPE_CHECKING:
    from typing_extensions import Buffer

    BytesLike = Union[bytes, Buffer]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
U64_MAX = 2**64 - 1


def to_bytes(data: BytesLike, what: str) -> bytes:
    """Bytes of anything with the buffer protocol.

    What is not `bytes` is copied: the call runs without the interpreter lock, and another thread might change it meanwhile.
    """
    if type(data) is bytes:
        return data
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise TypeError(f"{what}: bytes or a buffer is needed, not {type(data).__name__}") from None


def to_int(n: int, what: str) -> int:
    try:
        return index(n)
    except TypeError:
        raise TypeError(f"{what}: an integer is needed, not {type(n).__name__}") from None


def to_seconds(seconds: float, what: str) -> float:
    if not isinstance(seconds, (int, float)):
        raise TypeError(f"{what}: a number of seconds is needed, not {type(seconds).__name__}")
    return seconds


def to_i64(n: int, what: str) -> int:
    n = to_int(n, what)
    if not I64_MIN <= n <= I64_MAX:
        raise OverflowError(f"{what}: {n} does not fit a signed 64-bit integer")
    return n


def to_u64(n: int, what: str) -> int:
    n = to_int(n, what)
    if not 0 <= n <= U64_MAX:
        raise OverflowError(f"{what}: {n} does not fit an unsigned 64-bit integer")
    return n


def to_u32(n: int, what: str) -> int:
    n = to_int(n, what)
    if not 0 <= n < 2**32:
        raise OverflowError(f"{what}: {n} does not fit an unsigned 32-bit integer")
    return n


def to_micros(seconds: float | None, what: str = "timeout") -> int:
    """None: the region's default; 0: do not wait; math.inf: for ever."""
    if seconds is None:
        return c.TIMEOUT_DEFAULT
    if math.isnan(to_seconds(seconds, what)) or seconds < 0:
        raise ValueError(f"{what}: {seconds} seconds")
    # Microsecond 0 means the default, 1 no waiting, the largest for ever.
    return max(c.NO_WAIT, int(min(seconds * 1e6, 2**63))) if seconds != math.inf else c.WAIT_FOREVER


def to_millis(seconds: float | None, what: str) -> int:
    """None: 0, which everywhere means the default."""
    if seconds is None:
        return 0
    if not 0 < to_seconds(seconds, what) < math.inf:
        raise ValueError(f"{what}: {seconds} seconds")
    return max(1, round(seconds * 1e3))


def to_slice(data: bytes) -> region_slice_t:
    """A slice that borrows: keep `data` until the call is over."""
    return region_slice_t(cast(c_char_p(data), c_void_p), len(data))


def to_text(data: bytes) -> str:
    """Names are any bytes; what is not UTF-8 survives the way there and back."""
    return data.decode("utf-8", "surrogateescape")


def to_name(name: str | BytesLike, what: str) -> bytes:
    return name.encode("utf-8", "surrogateescape") if isinstance(name, str) else to_bytes(name, what)


def to_number(value: str | int | None, names: dict[str, int], what: str) -> int:
    """An enum of region.h by its short name."""
    if value is None:
        return 0
    if isinstance(value, str):
        if value not in names:
            raise ValueError(f"{what}: {value!r} is none of {', '.join(map(repr, names))}")
        return names[value]
    return to_u32(value, what)
