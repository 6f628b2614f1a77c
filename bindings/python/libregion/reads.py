"""The reading verbs, which a region and a snapshot share."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from ctypes import byref, c_char, c_int32, c_int64, c_ubyte, c_void_p, sizeof, string_at
from typing import TYPE_CHECKING, cast

from . import _constants as c
from ._call import Handle, Scratch, give, take
from ._convert import to_bytes, to_u32
from ._library import lib
from ._pack import cells, keys
from ._structs import region_column_t, region_read_options_t, region_value_t
from .options import ReadOptions, read_options
from .scan import PAGE_BYTES, Cell, Scanner, ScanOptions, column_array, to_cells

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._convert import BytesLike
    from ._pack import Family, Key
    from .region import Region
    from .scan import Columns

    class ScanAndRead(ScanOptions, ReadOptions, total=False):
        """Keywords of scan."""


_READ_KEYS = frozenset(ReadOptions.__annotations__)


def value_of(s: Scratch) -> bytes:
    """The value that a call has put into its scratch; given back to the library, if it was lent."""
    val = s.value
    try:
        return string_at(val.data, val.len) if val.len else b""
    finally:
        if val.pin:
            lib.region_value_release(s.value_ref)


class Reads(Handle):
    """Reads of the newest values, or of those that a snapshot shows."""

    @property
    def _region(self) -> Region:
        raise NotImplementedError

    def _read(self, options: ReadOptions) -> region_read_options_t | None:
        return read_options(options)

    def get(self, row: BytesLike, family: Family, qual: BytesLike, **options: Unpack[ReadOptions]) -> bytes | None:
        """The newest value of a column; None if there is none."""
        row, qual = to_bytes(row, "row"), to_bytes(qual, "qualifier")
        region, read = self._region, self._read(options)
        fid = region._family_id(family)
        s = take()
        rc: int = lib.region_get(region._handle, read, row, len(row), fid, qual, len(qual), s.value_ref, s.err_ref)
        if rc == c.OK:
            data = value_of(s)
            give(s)
            return data
        if rc == c.NOT_FOUND:
            give(s)
            return None
        raise region._fail(rc, s)

    def get_view(self, row: BytesLike, family: Family, qual: BytesLike, **options: Unpack[ReadOptions]) -> memoryview | None:
        """The value without a copy: a read-only view of the library's memory.

        It stays as it is whatever is written, also after close; it is given back when the view, and every slice of it, is
        released (`with`, `release()`) or collected. Until then it counts as pinned in stats().
        """
        row, qual = to_bytes(row, "row"), to_bytes(qual, "qualifier")
        region, read = self._region, self._read(options)
        fid = region._family_id(family)
        val = region_value_t()
        s = take()
        rc: int = lib.region_get(region._handle, read, row, len(row), fid, qual, len(qual), byref(val), s.err_ref)
        if rc not in (c.OK, c.NOT_FOUND):
            raise region._fail(rc, s)
        give(s)
        if rc == c.NOT_FOUND:
            return None
        if not val.len:
            lib.region_value_release(byref(val))
            return memoryview(b"")
        # The memoryview keeps the array, and the array's end gives the value back.
        array = (c_ubyte * val.len).from_address(val.data)
        weakref.finalize(array, lib.region_value_release, val).atexit = False
        return memoryview(array).cast("B").toreadonly()

    def counter(self, row: BytesLike, family: Family, qual: BytesLike, **options: Unpack[ReadOptions]) -> int | None:
        """A counter as a number; None if there is none. NotCounter if it is something else."""
        row, qual = to_bytes(row, "row"), to_bytes(qual, "qualifier")
        region, read = self._region, self._read(options)
        fid = region._family_id(family)
        s = take()
        rc: int = lib.region_counter_get(region._handle, read, row, len(row), fid, qual, len(qual), s.i64_ref, None, s.err_ref)
        if rc == c.OK:
            value = s.i64.value
            give(s)
            return value
        if rc == c.NOT_FOUND:
            give(s)
            return None
        raise region._fail(rc, s)

    def counters(self, wanted: Iterable[Key], **options: Unpack[ReadOptions]) -> list[int | None]:
        """Many counters (row, family, qualifier) in one call."""
        region, read = self._region, self._read(options)
        packed, offsets = keys(wanted, region._family_id)
        n = len(offsets) - 1
        if n == 0:
            return []
        values, statuses = bytearray(8 * n), bytearray(4 * n)
        s = take()
        rc: int = lib.region_counter_get_packed(
            region._handle,
            read,
            byref(c_char.from_buffer(packed)),
            len(packed),
            n,
            byref(c_int64.from_buffer(values)),
            byref(c_int32.from_buffer(statuses)),
            s.err_ref,
        )
        if rc:
            raise region._fail(rc, s)
        give(s)
        found = zip(memoryview(values).cast("q"), memoryview(statuses).cast("i"))
        return [value if status == c.OK else None for value, status in found]

    def get_many(self, wanted: Iterable[Key], **options: Unpack[ReadOptions]) -> list[bytes | None]:
        """Many values (row, family, qualifier), a page of them per call. Rows are read one after another; a snapshot shows
        all of them at one instant."""
        region, read = self._region, self._read(options)
        packed, offsets = keys(wanted, region._family_id)
        n = len(offsets) - 1
        values: list[bytes | None] = []
        page = bytearray(PAGE_BYTES)
        while len(values) < n:
            at = offsets[len(values)]
            s = take()
            rc: int = lib.region_get_packed(
                region._handle,
                read,
                byref(c_char.from_buffer(packed), at),
                len(packed) - at,
                n - len(values),
                byref(c_char.from_buffer(page)),
                len(page),
                s.size_ref,
                s.count_ref,
                s.err_ref,
            )
            used, done = s.size.value, s.count.value
            if rc == c.TRUNCATED:
                page = bytearray(max(used, 2 * len(page)))
            elif rc:
                raise region._fail(rc, s)
            else:
                found = [None if flags & c.CELL_NOT_FOUND else value for _, flags, _, _, _, value, _, _ in cells(memoryview(page)[:used])]
                assert done == len(found) > 0
                values += found
            give(s)
        return values

    def row(
        self, row: BytesLike, columns: Columns = (), *, versions: int = 1, **options: Unpack[ReadOptions]
    ) -> list[Cell]:
        """The cells of one row at one instant: all, or the columns chosen as in scan; up to `versions` of each, best first."""
        row = to_bytes(row, "row")
        region, read = self._region, self._read(options)
        most = to_u32(versions, "versions")
        kept: list[object] = []
        chosen = column_array(region, columns, kept)
        n = len(chosen) if chosen else 0
        page = bytearray(PAGE_BYTES)
        while True:
            s = take()
            rc: int = lib.region_get_row(
                region._handle, read, row, len(row), chosen, n, sizeof(region_column_t), most,
                byref(c_char.from_buffer(page)), len(page), s.size_ref, s.count_ref, s.err_ref,
            )  # fmt: skip
            used = s.size.value
            if rc not in (c.OK, c.NOT_FOUND, c.TRUNCATED):
                raise region._fail(rc, s)
            give(s)
            if rc != c.TRUNCATED:
                return to_cells(region, memoryview(page)[:used])
            # The row may grow before the next call.
            page = bytearray(used + used // 8)

    def scan(self, **options: Unpack[ScanAndRead]) -> Scanner:
        """Cells in order: `for cell in r.scan(prefix=b"u1"): ...`. It sees one instant."""
        read = {k: v for k, v in options.items() if k in _READ_KEYS}
        rest = {k: v for k, v in options.items() if k not in _READ_KEYS}
        return Scanner(self._region, self._read(cast(ReadOptions, read)), cast(ScanOptions, rest))


class Snapshot(Reads):
    """One instant of the whole region: sees every write that returned before it was opened, and no later one."""

    _what = "snapshot"

    def __init__(self, region: Region, timeout_us: int) -> None:
        # Children keep their parent alive.
        self._parent = region
        out = c_void_p()
        s = take()
        rc: int = lib.region_snapshot_open(region._handle, timeout_us, byref(out), s.err_ref)
        if rc:
            raise region._fail(rc, s)
        give(s)
        super().__init__(out.value or 0, lib.region_snapshot_close)

    @property
    def _region(self) -> Region:
        return self._parent

    def _read(self, options: ReadOptions) -> region_read_options_t | None:
        # NULL would quietly mean the newest values.
        if self._handle is None:
            raise self._is_closed()
        return read_options(options, self._handle)

    @property
    def seq(self) -> int:
        """The number of the last commit that it sees."""
        seq: int = lib.region_snapshot_seq(self._handle)
        return seq

    def close(self) -> None:
        """Lets go of the instant. Scans that were opened on it go on."""
        handle = self._handle
        if handle is not None:
            self._closed()
            lib.region_snapshot_close(handle)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
