"""What every call needs: places for its answers, and the step from a status to an exception."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable
from ctypes import addressof, byref, c_char, c_int64, c_size_t, c_uint64, sizeof
from typing import Any

from . import _constants as c
from ._structs import region_error_t, region_value_t
from .errors import BY_CODE, RegionError

VALUE_BYTES = 4096


class Scratch:
    """The out-parameters of one running call.

    One per thread would do for threads, but not for a signal handler or a finalizer that calls the library between a call
    and the reading of its answer. So each call takes one from a list (`list.pop` and `append` are atomic) and gives it back.
    """

    __slots__ = (
        "err", "err_ref", "i64", "i64_ref", "u64", "u64_ref", "size", "size_ref", "count", "count_ref", "value", "value_ref", "_buf",
    )  # fmt: skip

    def __init__(self) -> None:
        self.err = region_error_t(struct_size=sizeof(region_error_t))
        self.err_ref = byref(self.err)
        self.i64 = c_int64()
        self.i64_ref = byref(self.i64)
        self.u64 = c_uint64()
        self.u64_ref = byref(self.u64)
        self.size = c_size_t()
        self.size_ref = byref(self.size)
        self.count = c_size_t()
        self.count_ref = byref(self.count)
        self._buf = (c_char * VALUE_BYTES)()
        self.value = region_value_t(addressof(self._buf), VALUE_BYTES)
        self.value_ref = byref(self.value)


_idle: list[Scratch] = []
give = _idle.append


def take() -> Scratch:
    """A scratch of one's own, until it is given back; if an exception comes between, it is simply garbage."""
    try:
        return _idle.pop()
    except IndexError:
        return Scratch()


def error_of(rc: int, err: region_error_t, **more: Any) -> RegionError:
    """The exception for a status that a call returned."""
    if rc > 0:
        message = "a check or bound was not met; what stands with it on its row changed nothing (atomic: nothing of the call did)" if rc == c.NOT_APPLIED else "not expected here"
        return BY_CODE.get(rc, RegionError)(message, rc, op_index=_index(err.op_index), **more)
    return BY_CODE.get(rc, RegionError)(
        err.msg.decode("utf-8", "replace"),
        rc,
        retryable=bool(err.flags & c.ERR_RETRYABLE),
        poisoned=bool(err.flags & c.ERR_POISONED),
        op_index=_index(err.op_index),
        commit_seq=err.commit_seq,
        os_errno=err.os_errno,
        **more,
    )


def _index(n: int) -> int | None:
    return None if n == 2**64 - 1 else n


class Handle:
    """A handle of the library; closed by `close`, by leaving its `with` block, or as a last resort by the collector."""

    _what = "handle"

    def __init__(self, handle: int, close: Callable[[int], object]) -> None:
        self._handle: int | None = handle
        what = f"{self._what} (close it, or use a with block)"
        self._finalizer = weakref.finalize(self, _abandoned, what, close, handle, os.getpid())

    @property
    def closed(self) -> bool:
        """True once it was closed."""
        return self._handle is None

    def _closed(self) -> None:
        """Notes that the library has closed it."""
        self._handle = None
        self._finalizer.detach()

    def _fail(self, rc: int, scratch: Scratch, **more: Any) -> RegionError:
        """The exception to raise; gives the scratch back."""
        error = error_of(rc, scratch.err, **more)
        give(scratch)
        # NULL was passed for what is closed: after thousands of others the library may have forgotten the old pointer.
        if rc == c.E_HANDLE and self._handle is None:
            return self._is_closed()
        return error

    def _is_closed(self) -> RegionError:
        return BY_CODE[c.E_CLOSED](f"the {self._what} is closed")


def _abandoned(what: str, close: Callable[[int], object], handle: int, pid: int) -> None:
    # A child of the process has nothing to close, and nothing to be warned of.
    if os.getpid() != pid:
        return
    try:
        warnings.warn(f"unclosed {what}", ResourceWarning, stacklevel=2)
    finally:
        close(handle)
