"""Opening and destroying regions."""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from ctypes import byref, c_void_p, sizeof
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Union, cast

from . import _constants as c
from ._call import error_of, give, take
from ._convert import to_bytes, to_micros, to_millis, to_number, to_slice, to_u32, to_u64
from ._library import lib
from ._structs import region_family_t, region_options_t, region_progress_cb
from .family import Family
from .options import DURABILITY, DurabilityLike
from .pool import ChunkPool
from .region import Region

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._convert import BytesLike

PathLike = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Progress(NamedTuple):
    """How far a long call is."""

    phase: str
    done: int
    """Bytes."""
    total: int
    """0: not known yet."""


class OpenOptions(TypedDict, total=False):
    """Keywords of open. What is not given is as stored, or the default where the region is created."""

    create: bool
    """Create the region, and listed families, where they do not exist; default True unless read_only."""
    exclusive: bool
    """Exists if there is a region."""
    read_only: bool
    durability: DurabilityLike
    """Of writes that name none."""
    timeout: float
    """Seconds that a call waits which names no timeout; default 10."""
    background_threads: int
    clock_unit: Literal["ns", "us", "ms"]
    """Unit of timestamps; settled when the region is created."""
    tick_policy: Literal["advance", "wait"]
    """What a row does whose clock has not moved since its last commit."""
    wal_io: Literal["mapped", "write"]
    """How the log is written; by default as the file system allows."""
    sync_interval: float
    """Seconds between background syncs; default 1."""
    memstore_limit: int
    flush_bytes: int
    block_cache_bytes: int
    wal_bytes_max: int
    pool: ChunkPool
    start_row: BytesLike
    end_row: BytesLike
    config: str | Mapping[str, object]
    """The long tail, see describe()["settings"]."""
    progress: Callable[[Progress], object]
    """Called by another thread during recovery, at least every 0.1 s; what it raises cancels, and comes out of open."""


_ENUMS = {
    "durability": ("durability", DURABILITY),
    "clock_unit": ("clock_unit", {"ns": c.CLOCK_NS, "us": c.CLOCK_US, "ms": c.CLOCK_MS}),
    "tick_policy": ("tick_policy", {"advance": c.TICK_ADVANCE, "wait": c.TICK_WAIT}),
    "wal_io": ("wal_io", {"mapped": c.WAL_MAPPED, "write": c.WAL_WRITE}),
}
_FLAGS = {"create": c.OPEN_CREATE, "exclusive": c.OPEN_ERROR_IF_EXISTS, "read_only": c.OPEN_READ_ONLY}
_U64 = ("memstore_limit", "flush_bytes", "block_cache_bytes", "wal_bytes_max")
_PHASES = {
    c.PHASE_RECOVERY: "recovery",
    c.PHASE_FLUSH: "flush",
    c.PHASE_COMPACT: "compact",
    c.PHASE_CHECKPOINT: "checkpoint",
    c.PHASE_EXPORT: "export",
    c.PHASE_INGEST: "ingest",
}


class _Watch:
    """The progress callback, and the call that is watched. `error`: what must be raised when the call is over."""

    def __init__(self, user: Callable[[Progress], object] | None) -> None:
        self.user = user
        self.error: BaseException | None = None
        self.callback = region_progress_cb(self._progress)

    def _progress(self, _ctx: object, p: Any) -> int:
        try:
            if self.error is None and self.user is not None:
                raw = p.contents
                self.user(Progress(_PHASES.get(raw.phase, str(raw.phase)), raw.done, raw.total))
        except BaseException as e:
            # It cannot pass through the library: cancel, and raise it behind.
            self.error = e
        return 0 if self.error is None else 1

    def run(self, call: Callable[[], int]) -> int:
        """Makes the call so that signals are seen.

        Only the main thread handles signals, before it goes on with Python code. In a callback that is before its first line,
        where no `except` of ours can be, and ctypes drops the exception. So another thread makes the call.
        """
        if threading.current_thread() is not threading.main_thread():
            return call()
        done, claim = threading.Event(), threading.Lock()
        answer: list[int] = []

        def work() -> None:
            if not claim.acquire(False):
                return
            try:
                answer.append(call())
            except BaseException as e:
                self.error = e
            finally:
                done.set()

        thread = threading.Thread(target=work, name="libregion-open", daemon=True)
        started = False
        while True:
            try:
                if not started:
                    # It waits for the thread to run: a handler may raise in there, before or after the call has begun.
                    started = True
                    thread.start()
                done.wait()
                break
            except BaseException as e:
                self.error = e  # The next callback cancels.
                if claim.acquire(False):
                    raise  # The call has not begun, and now it never will.
        return answer[0] if answer else c.E_INTERNAL


def open(path: PathLike, families: Iterable[Family | str | bytes] = (), **options: Unpack[OpenOptions]) -> Region:
    """Opens the region in directory path; creates it, and the families listed, where they do not exist.

    `with libregion.open("/var/lib/counts", families=["cf"]) as r: r.increment(b"row", "cf", b"hits")`
    """
    file = fs_path(path)
    kept: list[object] = []
    o = _options(families, options, kept)
    watch = _Watch(options.get("progress"))
    o.progress = watch.callback
    out = c_void_p()
    s = take()
    rc = watch.run(lambda: cast(int, lib.region_open(file, byref(o), byref(out), s.err_ref)))
    del kept
    if rc and watch.error is not None:
        raise watch.error
    if rc:
        raise error_of(rc, s.err)
    give(s)
    region = Region(out.value or 0, os.fsdecode(file))
    # Its last callback came when there was nothing left to cancel.
    if watch.error is not None:
        region.close()
        raise watch.error
    return region


def _options(families: Iterable[Family | str | bytes], options: OpenOptions, kept: list[object]) -> region_options_t:
    o = region_options_t(struct_size=sizeof(region_options_t))
    o.flags = 0 if options.get("read_only") else c.OPEN_CREATE
    for key, value in options.items():
        if key in _FLAGS:
            o.flags = o.flags | _FLAGS[key] if value else o.flags & ~_FLAGS[key]
        elif key in _ENUMS:
            field, names = _ENUMS[key]
            setattr(o, field, to_number(value, names, key))  # type: ignore[arg-type]
        elif key == "timeout":
            o.write_timeout_us = to_micros(value, key)  # type: ignore[arg-type]
        elif key == "sync_interval":
            o.sync_interval_ms = to_u32(to_millis(value, key), key)  # type: ignore[arg-type]
        elif key == "background_threads":
            o.background_threads = to_u32(value, key)  # type: ignore[arg-type]
        elif key in _U64:
            setattr(o, key, to_u64(value, key))  # type: ignore[arg-type]
        elif key == "pool":
            if not isinstance(value, ChunkPool):
                raise TypeError(f"pool: a ChunkPool is needed, not {type(value).__name__}")
            o.chunk_pool = value._open_handle()
        elif key in ("start_row", "end_row"):
            data = to_bytes(value, key)  # type: ignore[arg-type]
            kept.append(data)
            setattr(o, key, to_slice(data))
        elif key == "config":
            if not isinstance(value, (str, Mapping)):
                raise TypeError(f"config: a string or a mapping is needed, not {type(value).__name__}")
            pairs = value if isinstance(value, str) else ",".join(f"{k}={_setting(v)}" for k, v in value.items())
            o.config = no_nul(pairs.encode(), key)
        elif key != "progress":
            close = difflib.get_close_matches(key, OpenOptions.__annotations__, 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise TypeError(f"{key!r} is not an option of open; {hint}Other settings of describe() go into config={{{key!r}: ...}}")
        elif not callable(value):
            raise TypeError(f"progress: a function is needed, not {type(value).__name__}")
    if isinstance(families, (str, bytes, Family)):
        raise TypeError("families: a list is needed, not one family")
    named = [f if isinstance(f, Family) else Family(f) for f in families]
    if named:
        spelled = [f._name() for f in named]
        array = (region_family_t * len(named))(*(f._raw(name) for f, name in zip(named, spelled)))
        kept += (spelled, array)
        o.families, o.n_families, o.family_size = array, len(named), sizeof(region_family_t)
    return o


def _setting(value: object) -> object:
    """A value as config spells it."""
    return str(value).lower() if isinstance(value, bool) else value


def destroy(path: PathLike) -> None:
    """Removes the region in directory path, with its files. It must not be open anywhere."""
    s = take()
    rc: int = lib.region_destroy(fs_path(path), s.err_ref)
    if rc:
        raise error_of(rc, s.err)
    give(s)


def fs_path(path: PathLike) -> bytes:
    return no_nul(os.fsencode(path), "path")


def no_nul(data: bytes, what: str) -> bytes:
    # C would quietly end it there.
    if b"\0" in data:
        raise ValueError(f"{what}: a NUL byte in {data!r}")
    return data
