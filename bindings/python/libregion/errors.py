"""One exception for every status of region.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from . import _constants as c
from ._library import lib


def status_name(code: int) -> str:
    """The name of a status as region.h spells it."""
    name: bytes = lib.region_status_name(code)
    return name.decode()


class OpResult(NamedTuple):
    """How one operation of a batch ended."""

    status: int
    flags: int
    value: int
    """Of increments and checks: the counter."""

    @property
    def ok(self) -> bool:
        """It was applied; a check: it held."""
        return self.status == c.OK

    @property
    def name(self) -> str:
        """The status as region.h spells it."""
        return status_name(self.status)

    @property
    def retryable(self) -> bool:
        """It changed nothing and may be made again."""
        return bool(self.flags & c.RESULT_RETRYABLE)

    @property
    def duplicate(self) -> bool:
        """Answered from the first run of its nonce."""
        return bool(self.flags & c.RESULT_DUPLICATE)


class RegionError(Exception):
    """A call failed. Its subclasses say how; catch this one for all of them."""

    code: int = c.E_INTERNAL
    """The status, as in region.h."""

    def __init__(
        self,
        message: str,
        code: int | None = None,
        *,
        retryable: bool = False,
        poisoned: bool = False,
        op_index: int | None = None,
        commit_seq: int = 0,
        os_errno: int = 0,
        value: int | None = None,
        results: Sequence[OpResult] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.retryable = retryable
        """The same call may be made again and cannot count twice."""
        self.poisoned = poisoned
        """The region refuses writes until it is opened again."""
        self.op_index = op_index
        """Of a call with many elements: the first that failed."""
        self.commit_seq = commit_seq
        """Of OutcomeUnknown: what to pass to wait_durable."""
        self.os_errno = os_errno
        self.value = value
        """Of NotApplied: the counter as it is."""
        self.results = list(results)
        """Of a call with many elements: how each ended."""

    @property
    def name(self) -> str:
        """The status as region.h spells it."""
        return status_name(self.code)

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message,), self.__dict__


class NotApplied(RegionError):
    """A bound was not met: nothing was changed. `value` is the counter as it is."""


class Invalid(RegionError, ValueError):
    """An argument is wrong."""


class BadHandle(RegionError):
    """A stale handle. The binding does not let this happen."""


class Closed(RegionError):
    """The region, snapshot, scanner or pool is closed."""


class Busy(RegionError):
    """Memory or log space stayed full for the whole timeout, or children are open. Nothing was done."""


class Timeout(RegionError, TimeoutError):
    """The timeout passed before the call took effect. Nothing was done."""


class Cancelled(RegionError):
    """The progress callback asked to stop."""


class IoError(RegionError):
    """The operating system reported an error, see `os_errno`."""


class NoSpace(RegionError):
    """The disk is full. Nothing was done, the region stays usable."""


class Corrupt(RegionError):
    """Stored bytes are damaged; the message names file and offset."""


class Unsupported(RegionError):
    """This version of the library does not have that."""


class NoFamily(RegionError):
    """No such column family."""


class NotCounter(RegionError):
    """The stored value is not 8 bytes long, so it is no counter. Nothing was changed."""


class Overflow(RegionError, OverflowError):
    """The sum does not fit 64 bits, and check_overflow was set. Nothing was changed."""


class OutOfRange(RegionError):
    """The row is outside the region's key range."""


class Locked(RegionError):
    """Another process or handle has the region open; the message names it."""


class ReadOnly(RegionError):
    """The region was opened read-only."""


class NoMemory(RegionError, MemoryError):
    """The library got no memory."""


class TooLarge(RegionError, ValueError):
    """Beyond a limit; the message names it."""


class AbiMismatch(RegionError):
    """Binding and library disagree."""


class Forked(RegionError):
    """This process was forked from one that uses the library. Open regions in the child only, or use spawn."""


class Poisoned(RegionError):
    """A log write or sync failed: writes are refused until the region is opened again."""


class Panic(RegionError):
    """A bug in the library was caught; the region is poisoned."""


class Internal(RegionError):
    """A state that should not occur."""


class Partial(RegionError):
    """Some rows were changed, some failed; `results` tells which."""


class OutcomeUnknown(RegionError):
    """The change is in the log and may or may not survive: never repeat it without a nonce. See `commit_seq`."""


class NotRun(RegionError):
    """An operation that was not run, since another one failed."""


class Exists(RegionError):
    """Something exists that must not."""


class NoRegion(RegionError):
    """There is no region, and create was not set."""


BY_CODE: dict[int, type[RegionError]] = {
    c.NOT_APPLIED: NotApplied,
    c.E_INVALID: Invalid,
    c.E_HANDLE: BadHandle,
    c.E_CLOSED: Closed,
    c.E_BUSY: Busy,
    c.E_TIMEOUT: Timeout,
    c.E_CANCELLED: Cancelled,
    c.E_IO: IoError,
    c.E_NOSPACE: NoSpace,
    c.E_CORRUPT: Corrupt,
    c.E_UNSUPPORTED: Unsupported,
    c.E_NO_FAMILY: NoFamily,
    c.E_NOT_COUNTER: NotCounter,
    c.E_OVERFLOW: Overflow,
    c.E_RANGE: OutOfRange,
    c.E_LOCKED: Locked,
    c.E_READONLY: ReadOnly,
    c.E_NOMEM: NoMemory,
    c.E_TOO_LARGE: TooLarge,
    c.E_ABI: AbiMismatch,
    c.E_FORKED: Forked,
    c.E_POISONED: Poisoned,
    c.E_PANIC: Panic,
    c.E_INTERNAL: Internal,
    c.E_PARTIAL: Partial,
    c.E_OUTCOME_UNKNOWN: OutcomeUnknown,
    c.E_NOT_RUN: NotRun,
    c.E_EXISTS: Exists,
    c.E_NO_REGION: NoRegion,
}
for _code, _class in BY_CODE.items():
    _class.code = _code
