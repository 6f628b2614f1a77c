"""A region: opened, written, described, closed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from ctypes import byref, c_uint32, create_string_buffer, sizeof
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, cast, overload

from . import _constants as c
from ._call import error_of, give, take
from ._convert import to_bytes, to_i64, to_micros, to_name, to_text, to_u32, to_u64
from ._library import lib
from ._pack import increments, results
from ._structs import region_family_t, region_op_result_t, region_stats_t
from .batch import Batch
from .errors import BY_CODE
from .family import Family, family_from
from .options import CommitInfo, IncrementOptions, WriteOptions, write_options
from .pool import numbers
from .reads import Reads, Snapshot, value_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._convert import BytesLike
    from ._pack import Increment

    FamilyRef = Union[str, bytes, int]

WAIT_SLICE = 0.1


class Taken(NamedTuple):
    """The answer of take; true if it was granted."""

    granted: bool
    left: int
    """The counter as it is now."""

    def __bool__(self) -> bool:
        return self.granted


class Region(Reads):
    """An open region; made by `libregion.open`. Any thread may use it.

    Rows, qualifiers and values are bytes, or anything with the buffer protocol; families are named, or given by id.
    """

    _what = "region"

    def __init__(self, handle: int, path: str) -> None:
        self._what = f"region {path!r}"
        super().__init__(handle, _abandon)
        self.path = path
        self._ids: dict[str | bytes, int] = {}
        self._names: dict[int, str] = {}

    @property
    def _region(self) -> Region:
        return self

    def __repr__(self) -> str:
        return f"<libregion.Region {self.path!r}{' closed' if self.closed else ''}>"

    # Counters

    def increment(
        self, row: BytesLike, family: FamilyRef, qual: BytesLike, delta: int = 1, **options: Unpack[IncrementOptions]
    ) -> int:
        """Adds to a counter, atomically; answers what it is then. An absent counter is 0.

        With min_value or max_value: raises NotApplied, whose `value` is the counter as it is, rather than leave the bounds.
        """
        row, qual, delta = to_bytes(row, "row"), to_bytes(qual, "qualifier"), to_i64(delta, "delta")
        fid = self._family_id(family)
        opts = write_options(options) if options else None
        s = take()
        rc: int = lib.region_increment(self._handle, row, len(row), fid, qual, len(qual), delta, opts, s.i64_ref, s.err_ref)
        value = s.i64.value
        if rc:
            raise self._fail(rc, s, value=value if rc == c.NOT_APPLIED else None)
        give(s)
        return value

    def take(
        self, row: BytesLike, family: FamilyRef, qual: BytesLike, n: int = 1, *, floor: int = 0, **options: Unpack[WriteOptions]
    ) -> Taken:
        """A quota: takes n if at least floor is left then, else nothing; in one call. `if r.take(...): ...`"""
        if n < 0:
            raise ValueError(f"n: {n} is negative")
        try:
            return Taken(True, self.increment(row, family, qual, -n, min_value=floor, **options))
        except BY_CODE[c.NOT_APPLIED] as e:
            return Taken(False, e.value or 0)

    def read_and_reset(
        self, row: BytesLike, family: FamilyRef, qual: BytesLike, to: int = 0, **options: Unpack[WriteOptions]
    ) -> int:
        """A window: answers the counter and sets it, in one call, so that nothing is lost between."""
        return self.increment(row, family, qual, to, set=True, return_old=True, **options)

    def increment_row(
        self, row: BytesLike, columns: Iterable[tuple[FamilyRef, BytesLike, int]], **options: Unpack[IncrementOptions]
    ) -> list[int]:
        """Adds to several counters (family, qualifier, delta) of one row, to all or none; values in that order."""
        return self.increment_many(((row, family, qual, delta) for family, qual, delta in columns), **options)

    def increment_many(self, items: Iterable[Increment], **options: Unpack[IncrementOptions]) -> list[int]:
        """Many increments (row, family, qualifier, delta) in one call; values in that order.

        Consecutive ones of one row are one atomic change. A failure or a bound that is not met raises; `results` of the
        exception then says how each ended.
        """
        packed, n = increments(items, self._family_id)
        if n == 0:
            return []
        opts = write_options(options)
        size = sizeof(region_op_result_t)
        buffer = bytearray(n * size)
        s = take()
        rc: int = lib.region_increment_packed(
            self._handle, packed, len(packed), n, opts, byref(region_op_result_t.from_buffer(buffer)), size, s.err_ref
        )
        answers = results(buffer)
        if rc:
            refused = next((a.value for a in answers if a.status == c.NOT_APPLIED), None)
            raise self._fail(rc, s, results=answers, value=refused)
        give(s)
        return [a.value for a in answers]

    # Other writes

    def put(
        self, row: BytesLike, family: FamilyRef, qual: BytesLike, value: BytesLike, **options: Unpack[WriteOptions]
    ) -> None:
        """Stores a value."""
        row, qual, value = to_bytes(row, "row"), to_bytes(qual, "qualifier"), to_bytes(value, "value")
        fid, opts = self._family_id(family), write_options(options)
        s = take()
        rc: int = lib.region_put(self._handle, row, len(row), fid, qual, len(qual), value, len(value), opts, s.err_ref)
        if rc:
            raise self._fail(rc, s)
        give(s)

    @overload
    def append(
        self, row: BytesLike, family: FamilyRef, qual: BytesLike, suffix: BytesLike, *, return_new: Literal[True],
        **options: Unpack[WriteOptions],
    ) -> bytes: ...  # fmt: skip
    @overload
    def append(
        self, row: BytesLike, family: FamilyRef, qual: BytesLike, suffix: BytesLike, *, return_new: bool = False,
        **options: Unpack[WriteOptions],
    ) -> bytes | None: ...  # fmt: skip
    def append(
        self, row: BytesLike, family: FamilyRef, qual: BytesLike, suffix: BytesLike, *, return_new: bool = False,
        **options: Unpack[WriteOptions],
    ) -> bytes | None:  # fmt: skip
        """Adds bytes to the end of a value; an absent one is empty. Answers the whole new value with return_new, else None."""
        row, qual, suffix = to_bytes(row, "row"), to_bytes(qual, "qualifier"), to_bytes(suffix, "suffix")
        fid, opts = self._family_id(family), write_options(options)
        s = take()
        rc: int = lib.region_append(
            self._handle, row, len(row), fid, qual, len(qual), suffix, len(suffix), opts, s.value_ref if return_new else None, s.err_ref
        )
        if rc:
            raise self._fail(rc, s)
        data = value_of(s) if return_new else None
        give(s)
        return data

    def delete(self, row: BytesLike, family: FamilyRef, qual: BytesLike, **options: Unpack[WriteOptions]) -> None:
        """All versions of a column."""
        self._delete(c.OP_DELETE, row, self._family_id(family), qual, options)

    def delete_version(self, row: BytesLike, family: FamilyRef, qual: BytesLike, **options: Unpack[WriteOptions]) -> None:
        """One version of a column: that of `timestamp=`, the newest without."""
        self._delete(c.OP_DELETE_VERSION, row, self._family_id(family), qual, options)

    def delete_family(self, row: BytesLike, family: FamilyRef, **options: Unpack[WriteOptions]) -> None:
        """All columns of a family in a row."""
        self._delete(c.OP_DELETE_FAMILY, row, self._family_id(family), b"", options)

    def delete_family_version(self, row: BytesLike, family: FamilyRef, **options: Unpack[WriteOptions]) -> None:
        """What the columns of a family in a row have at exactly `timestamp=`, which is needed."""
        if not options.get("timestamp"):
            raise TypeError("delete_family_version needs timestamp=, that of the versions to delete")
        self._delete(c.OP_DELETE_FAMILY_VERSION, row, self._family_id(family), b"", options)

    def delete_row(self, row: BytesLike, **options: Unpack[WriteOptions]) -> None:
        """All families of a row."""
        self._delete(c.OP_DELETE_ROW, row, 0, b"", options)

    def _delete(self, op: int, row: BytesLike, fid: int, qual: BytesLike, options: WriteOptions) -> None:
        row, qual = to_bytes(row, "row"), to_bytes(qual, "qualifier")
        opts = write_options(options)
        s = take()
        rc: int = lib.region_delete(self._handle, row, len(row), fid, qual, len(qual), op, opts, s.err_ref)
        if rc:
            raise self._fail(rc, s)
        give(s)

    def batch(self, *, atomic: bool = False, **options: Unpack[IncrementOptions]) -> Batch:
        """Many changes in one call: `with r.batch() as b: b.put(...); b.increment(...)`, then `b.results`."""
        return Batch(self, atomic, options)

    def compare_and_set(
        self, row: BytesLike, family: FamilyRef, qual: BytesLike, expected: BytesLike | None, value: BytesLike,
        **options: Unpack[WriteOptions],
    ) -> bool:  # fmt: skip
        """Stores value if the column holds what is expected (None: nothing); tells whether it did."""
        batch = Batch(self, False, cast(IncrementOptions, options))
        batch.check(row, family, qual, "absent" if expected is None else "==", expected).put(row, family, qual, value)
        batch.commit()
        return batch.applied

    def wait_durable(self, commit: int | CommitInfo, timeout: float | None = None) -> None:
        """Waits until a commit, and with it every earlier one, is on stable storage. Timeout: wait again."""
        if isinstance(commit, CommitInfo):
            if commit.seq == 0:
                return  # Nothing to wait for.
            commit = commit.seq
        commit, micros = to_u64(commit, "commit"), to_micros(timeout)
        # In slices, so that signals are seen.
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            last = end is None or end - time.monotonic() <= WAIT_SLICE
            if end is not None:
                micros = to_micros(max(0.0, end - time.monotonic()) if last else WAIT_SLICE)
            s = take()
            rc: int = lib.region_wait_durable(self._handle, commit, micros, s.err_ref)
            if rc == c.OK:
                give(s)
                return
            if rc != c.E_TIMEOUT or last:
                raise self._fail(rc, s)
            give(s)

    # Families

    def family_set(self, family: Family | str | BytesLike) -> int:
        """Creates a family, or changes the settings that are given; answers its id. Durable at return."""
        family = family if isinstance(family, Family) else Family(family)
        name, out = family._name(), c_uint32()
        raw = family._raw(name)
        s = take()
        rc: int = lib.region_family_set(self._handle, byref(raw), sizeof(raw), byref(out), s.err_ref)
        if rc:
            raise self._fail(rc, s)
        give(s)
        return out.value

    def family_drop(self, family: FamilyRef) -> None:
        """Drops a family with all its cells."""
        fid = self._family_id(family)
        s = take()
        rc: int = lib.region_family_drop(self._handle, fid, s.err_ref)
        if rc:
            raise self._fail(rc, s)
        give(s)
        self._ids.clear()

    def families(self) -> dict[str, Family]:
        """The families by name, with their settings and ids."""
        found: dict[str, Family] = {}
        fid, raw = c_uint32(), region_family_t()
        while True:
            s = take()
            rc: int = lib.region_family_next(self._handle, fid.value, byref(fid), byref(raw), sizeof(raw), s.err_ref)
            if rc not in (c.OK, c.DONE):
                raise self._fail(rc, s)
            give(s)
            if rc == c.DONE:
                return found
            family = family_from(raw, fid.value)
            found[str(family.name)] = family

    def _family_id(self, family: FamilyRef) -> int:
        """Ids are stored and never used again, so a name is asked for once."""
        if isinstance(family, int):
            return to_u32(family, "family")
        try:
            return self._ids[family]
        except KeyError:
            pass
        name, out = to_name(family, "family"), c_uint32()
        s = take()
        rc: int = lib.region_family_id(self._handle, name, len(name), byref(out), s.err_ref)
        if rc == c.NOT_FOUND:
            give(s)
            raise BY_CODE[c.E_NO_FAMILY](f"there is no family {to_text(name)!r}")
        if rc:
            raise self._fail(rc, s)
        give(s)
        self._ids[family] = out.value
        return out.value

    def _family_name(self, fid: int) -> str:
        if fid not in self._names:
            self._names.update((f.id, name) for name, f in self.families().items())
        return self._names.get(fid, str(fid))

    # The region itself

    def snapshot(self, timeout: float | None = None) -> Snapshot:
        """Fixes one instant: `with r.snapshot() as s: s.get(...)`. It keeps old versions alive until it is closed."""
        return Snapshot(self, to_micros(timeout))

    def stats(self) -> dict[str, int]:
        """Numbers since it was opened; their names are those of region_stats_t."""
        raw = region_stats_t(struct_size=sizeof(region_stats_t))
        s = take()
        rc: int = lib.region_stats(self._handle, byref(raw), s.err_ref)
        if rc:
            raise self._fail(rc, s)
        give(s)
        return numbers(raw, region_stats_t._fields_)  # type: ignore[arg-type]

    def describe(self) -> dict[str, Any]:
        """Everything that is set: keys with defaults and values, and the families."""
        return self._json(lib.region_describe)

    def recovery_report(self) -> dict[str, Any]:
        """What the recovery at open found."""
        return self._json(lib.region_recovery_report)

    def _json(self, ask: Callable[..., int]) -> dict[str, Any]:
        size = 8192
        while True:
            text = create_string_buffer(size)
            s = take()
            rc = ask(self._handle, text, size, s.size_ref, s.err_ref)
            if rc not in (c.OK, c.TRUNCATED):
                raise self._fail(rc, s)
            size = s.size.value + 1
            give(s)
            if rc == c.OK:
                return cast("dict[str, Any]", json.loads(text.value))

    def close(self, *, force: bool = True, flush: bool = True, timeout: float | None = None) -> None:
        """Closes it; what is closed stays so. Calls of other threads that wait in it raise Closed.

        force=False: Busy if snapshots or scanners are open; with force they raise Closed from then on. flush=False: commits
        of durability "skip" are lost. Timeout, if calls are still running: it is open as before.
        """
        handle = self._handle
        if handle is None:
            return
        flags = (c.CLOSE_FORCE if force else 0) | (0 if flush else c.CLOSE_NO_FLUSH)
        s = take()
        rc: int = lib.region_close(handle, flags, to_micros(timeout), s.err_ref)
        if rc in (c.E_BUSY, c.E_TIMEOUT):
            raise self._fail(rc, s)
        self._closed()
        if rc:
            raise error_of(rc, s.err)
        give(s)

    def __enter__(self) -> Region:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _abandon(handle: int) -> None:
    lib.region_close(handle, c.CLOSE_FORCE, c.TIMEOUT_DEFAULT, None)

