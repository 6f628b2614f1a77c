"""How calls are done: the keyword options of writes, reads and open."""

from __future__ import annotations

from ctypes import pointer, sizeof
from enum import IntEnum
from secrets import randbelow
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, Union

from . import _constants as c
from ._convert import I64_MAX, I64_MIN, to_i64, to_micros, to_number, to_u64
from ._structs import region_commit_info_t, region_read_options_t, region_write_options_t

if TYPE_CHECKING:
    from ._convert import BytesLike


class Durability(IntEnum):
    """What a write has reached when its call returns."""

    SKIP_WAL = c.DUR_SKIP_WAL
    """Memory: lost unless flushed."""
    ASYNC_WAL = c.DUR_ASYNC_WAL
    """The kernel."""
    SYNC_WAL = c.DUR_SYNC_WAL
    """The kernel: survives the death of the process, and of the machine after the background sync."""
    FSYNC_WAL = c.DUR_FSYNC_WAL
    """Stable storage."""


DURABILITY = {"skip": c.DUR_SKIP_WAL, "async": c.DUR_ASYNC_WAL, "sync": c.DUR_SYNC_WAL, "fsync": c.DUR_FSYNC_WAL}
DurabilityLike = Union[Durability, Literal["skip", "async", "sync", "fsync"]]


def new_nonce() -> int:
    """A nonce that nobody has used: 64 random bits, not 0."""
    return 1 + randbelow(2**64 - 1)


class CommitInfo:
    """Pass it as `info=` to a write: what the write tells besides its value."""

    def __init__(self) -> None:
        self._raw = region_commit_info_t(struct_size=sizeof(region_commit_info_t))

    @property
    def seq(self) -> int:
        """For wait_durable; 0: nothing to wait for."""
        return self._raw.seq

    @property
    def timestamp(self) -> int:
        """That the commit gave to its cells."""
        return self._raw.timestamp

    @property
    def durable(self) -> bool:
        """Already as durable as asked."""
        return bool(self._raw.flags & c.COMMIT_DURABLE)

    @property
    def duplicate(self) -> bool:
        """Nothing new was written: answered from the first run of the nonce."""
        return bool(self._raw.flags & c.COMMIT_DUPLICATE)


class WriteOptions(TypedDict, total=False):
    """Keywords of every write."""

    durability: DurabilityLike
    timeout: float | None
    """Seconds for row locks, memory, log space and sync together; None: the region's default; 0; math.inf."""
    timestamp: int
    nonce: int
    """Makes a repeated call count once: the same call with the same nonce may be made again after any error. See `new_nonce`."""
    nonce_group: int
    """Whose nonces these are."""
    info: CommitInfo


class IncrementOptions(WriteOptions, total=False):
    """Keywords of increments."""

    min_value: int
    """Least result; below it nothing is changed and NotApplied is raised."""
    max_value: int
    saturate: bool
    """Clamp to min_value and max_value instead of refusing."""
    set: bool
    """Store delta instead of adding it."""
    return_old: bool
    """Answer the value before (absent: 0)."""
    check_overflow: bool
    """Refuse (Overflow) instead of wrapping."""


class ReadOptions(TypedDict, total=False):
    """Keywords of every read."""

    min_ts: int
    max_ts: int
    """First timestamp beyond; 0: no bound."""
    timeout: float | None
    cache: bool
    """False: blocks read for this call do not enter the cache."""


_FLAGS = {
    "saturate": c.W_SATURATE,
    "set": c.W_SET,
    "return_old": c.W_RETURN_OLD,
    "check_overflow": c.W_CHECK_OVERFLOW,
    "atomic": c.W_ATOMIC,
}


def write_options(options: IncrementOptions | WriteOptions, flags: int = 0) -> region_write_options_t | None:
    """None, which means all defaults, if there is nothing to tell."""
    if not options and not flags:
        return None
    o = region_write_options_t(struct_size=sizeof(region_write_options_t))
    for key, value in options.items():
        if key == "durability":
            o.durability = to_number(value, DURABILITY, key)  # type: ignore[arg-type]
        elif key == "timeout":
            o.timeout_us = to_micros(value)  # type: ignore[arg-type]
        elif key == "info":
            o.info = pointer(value._raw)  # type: ignore[attr-defined]
        elif key in ("timestamp", "nonce", "nonce_group"):
            setattr(o, key, to_u64(value, key))  # type: ignore[arg-type]
        elif key in ("min_value", "max_value"):
            flags |= c.W_BOUNDED
        elif key in _FLAGS:
            flags |= _FLAGS[key] if value else 0
        else:
            raise TypeError(f"{key!r} is not an option of a write")
    if flags & c.W_BOUNDED:
        o.min_value = to_i64(options.get("min_value", I64_MIN), "min_value")  # type: ignore[arg-type]
        o.max_value = to_i64(options.get("max_value", I64_MAX), "max_value")  # type: ignore[arg-type]
    o.flags = flags
    return o


def read_options(options: ReadOptions, snapshot: int | None = None) -> region_read_options_t | None:
    if not options and snapshot is None:
        return None
    o = region_read_options_t(struct_size=sizeof(region_read_options_t), snapshot=snapshot)
    for key, value in options.items():
        if key == "timeout":
            o.timeout_us = to_micros(value)  # type: ignore[arg-type]
        elif key == "cache":
            o.flags = 0 if value else c.READ_NO_CACHE
        elif key in ("min_ts", "max_ts"):
            setattr(o, key, to_u64(value, key))  # type: ignore[arg-type]
        else:
            raise TypeError(f"{key!r} is not an option of a read")
    return o


class Column(NamedTuple):
    """Which columns of a family a scan shows: `Column("cf")`, `.exact`, `.prefix`, `.range`."""

    family: str | bytes | int
    kind: int = c.COL_FAMILY
    qual: BytesLike = b""
    qual_end: BytesLike = b""

    @classmethod
    def exact(cls, family: str | bytes | int, qual: BytesLike) -> Column:
        """One column."""
        return cls(family, c.COL_EXACT, qual)

    @classmethod
    def prefix(cls, family: str | bytes | int, prefix: BytesLike) -> Column:
        """Columns that begin so."""
        return cls(family, c.COL_PREFIX, prefix)

    @classmethod
    def range(cls, family: str | bytes | int, start: BytesLike, stop: BytesLike = b"") -> Column:
        """Columns from start to before stop; empty: no bound."""
        return cls(family, c.COL_RANGE, start, stop)
