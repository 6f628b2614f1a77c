"""Chunk pools: the memory that regions share."""

from __future__ import annotations

from ctypes import byref, c_void_p, sizeof
from typing import TYPE_CHECKING

from ._call import Handle, error_of, give, take
from ._convert import to_u64
from ._library import lib
from ._structs import chunk_pool_options_t, chunk_pool_stats_t

if TYPE_CHECKING:
    from typing_extensions import Self


class ChunkPool(Handle):
    """A pool of memory for `open(pool=...)`; regions may share one. Its memory goes when the last of them is closed."""

    _what = "chunk pool"

    def __init__(self, *, chunk_size: int = 0, max_bytes: int = 0, preallocate_bytes: int = 0) -> None:
        o = chunk_pool_options_t(
            sizeof(chunk_pool_options_t),
            0,
            to_u64(chunk_size, "chunk_size"),
            to_u64(max_bytes, "max_bytes"),
            to_u64(preallocate_bytes, "preallocate_bytes"),
        )
        out = c_void_p()
        s = take()
        rc: int = lib.chunk_pool_create(byref(o), byref(out), s.err_ref)
        if rc:
            raise error_of(rc, s.err)
        give(s)
        super().__init__(out.value or 0, lib.chunk_pool_close)

    def _open_handle(self) -> int:
        # NULL would quietly mean the process's default pool.
        if self._handle is None:
            raise self._is_closed()
        return self._handle

    def stats(self) -> dict[str, int]:
        """Numbers of its chunks; their names are those of chunk_pool_stats_t."""
        return _stats(self._open_handle())

    def trim(self, keep_bytes: int = 0) -> None:
        """Gives idle chunks back to the system."""
        _trim(self._open_handle(), keep_bytes)

    def close(self) -> None:
        """Closes it; regions that use it go on."""
        handle = self._handle
        if handle is not None:
            self._closed()
            lib.chunk_pool_close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def default_pool_stats() -> dict[str, int]:
    """Of the pool that regions share which were opened without one."""
    return _stats(None)


def default_pool_trim(keep_bytes: int = 0) -> None:
    """Gives idle chunks of that pool back to the system."""
    _trim(None, keep_bytes)


def numbers(raw: object, names: list[tuple[str, object]]) -> dict[str, int]:
    """The figures of a statistics struct."""
    return {name: getattr(raw, name) for name, _ in names if name not in ("struct_size", "reserved")}


def _stats(handle: int | None) -> dict[str, int]:
    raw = chunk_pool_stats_t(struct_size=sizeof(chunk_pool_stats_t))
    s = take()
    rc: int = lib.chunk_pool_stats(handle, byref(raw), s.err_ref)
    if rc:
        raise error_of(rc, s.err)
    give(s)
    return numbers(raw, chunk_pool_stats_t._fields_)  # type: ignore[arg-type]


def _trim(handle: int | None, keep_bytes: int) -> None:
    s = take()
    rc: int = lib.chunk_pool_trim(handle, to_u64(keep_bytes, "keep_bytes"), s.err_ref)
    if rc:
        raise error_of(rc, s.err)
    give(s)
