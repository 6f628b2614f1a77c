"""Scans: cells in order, fetched by page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ctypes import Array, byref, c_char, c_void_p, sizeof
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Union

from . import _constants as c
from ._call import Handle, give, take
from ._convert import to_bytes, to_slice, to_u32, to_u64
from ._library import lib
from ._pack import cells
from ._structs import region_column_t, region_read_options_t, region_scan_t
from .options import Column

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._convert import BytesLike
    from ._pack import Family
    from .region import Region

    Columns = Iterable[Union[Column, str, tuple[Family, BytesLike]]]


class Cell(NamedTuple):
    """One cell of a scan."""

    row: bytes
    family: str
    qual: bytes
    value: bytes
    timestamp: int
    """In the region's clock unit."""
    seq: int
    """The commit that wrote it."""
    type: int = c.CELL_PUT
    """With raw=True also the CELL_DELETE* codes of region.h."""

    @property
    def counter(self) -> int:
        """The value as a counter."""
        if len(self.value) != 8:
            raise ValueError(f"the value is {len(self.value)} bytes long, a counter has 8")
        return int.from_bytes(self.value, "big", signed=True)


class ScanOptions(TypedDict, total=False):
    """Keywords of a scan."""

    prefix: BytesLike
    """Only rows that begin so."""
    start: BytesLike
    """First row."""
    stop: BytesLike
    """First row beyond."""
    columns: Columns
    """Only these: family names, (family, qualifier) pairs, or Column.prefix and Column.range."""
    limit: int
    """At most so many cells."""
    row_limit: int
    cells_per_row: int
    versions: int
    """Of each column, the best first; at most what the family keeps."""
    reverse: bool
    """From the last row to the first; start is the largest then."""
    inclusive_stop: bool
    exclusive_start: bool
    raw: bool
    """Everything that is stored: delete markers and deleted cells, too. Not together with columns."""
    keys_only: bool
    page_bytes: int
    """Size of the buffer that is filled per call."""


_FLAGS = {
    "reverse": c.SCAN_REVERSE,
    "inclusive_stop": c.SCAN_INCLUSIVE_END,
    "exclusive_start": c.SCAN_EXCLUSIVE_START,
    "raw": c.SCAN_RAW,
    "keys_only": c.SCAN_KEYS_ONLY,
}
_SLICES = {"prefix": "row_prefix", "start": "start_row", "stop": "end_row"}
_NUMBERS = {"limit": "cell_limit", "row_limit": "row_limit", "cells_per_row": "cells_per_row", "versions": "max_versions"}
PAGE_BYTES = 64 * 1024


class Scanner(Handle):
    """Iterates over cells; closes itself at the end, or use it in a `with` block. One thread at a time."""

    _what = "scanner"

    def __init__(self, region: Region, read: region_read_options_t | None, options: ScanOptions) -> None:
        # Children keep their parent alive.
        self._region = region
        self._page = bytearray(max(64, options.get("page_bytes", PAGE_BYTES)))
        self._cells: Iterator[Cell] = iter(())
        self._at_end = False
        scan, kept = _spec(region, options)
        out = c_void_p()
        s = take()
        rc: int = lib.region_scanner_open(region._handle, read, byref(scan), byref(out), s.err_ref)
        if rc:
            raise region._fail(rc, s)
        give(s)
        del kept
        super().__init__(out.value or 0, lib.region_scanner_close)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Cell:
        # Cells that were fetched ahead are no more to be had of a closed region than others.
        if self._region._handle is None and not self._at_end:
            raise self._region._is_closed()
        for cell in self._cells:
            return cell
        if self._at_end:
            raise StopIteration
        if self._handle is None:
            # Not quietly the end: there may be more.
            raise self._is_closed()
        self._cells = iter(self._fetch())
        return next(self._cells)

    def _fetch(self) -> list[Cell]:
        """The next page; none at the end."""
        while True:
            s = take()
            page = self._page
            rc: int = lib.region_scanner_next_page(
                self._handle, byref(c_char.from_buffer(page)), len(page), s.size_ref, s.count_ref, s.err_ref
            )
            used = s.size.value
            if rc == c.OK:
                give(s)
                return to_cells(self._region, memoryview(page)[:used])
            if rc == c.TRUNCATED:
                give(s)
                self._page = bytearray(max(used, 2 * len(page)))
            elif rc == c.DONE:
                give(s)
                self.close()
                self._at_end = True
                return []
            else:
                raise self._fail(rc, s)

    def seek(self, row: BytesLike) -> None:
        """Goes to the first row at or behind `row` (reverse: at or before), within the bounds of the scan."""
        data = to_bytes(row, "row")
        if self._handle is None:
            raise self._is_closed()
        s = take()
        rc: int = lib.region_scanner_seek(self._handle, data, len(data), s.err_ref)
        if rc < 0:
            raise self._fail(rc, s)
        give(s)
        self._cells = iter(())

    def close(self) -> None:
        """Ends the scan."""
        handle = self._handle
        if handle is not None:
            self._closed()
            self._cells = iter(())
            lib.region_scanner_close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _spec(region: Region, options: ScanOptions) -> tuple[region_scan_t, list[object]]:
    """The struct, and what it borrows."""
    scan = region_scan_t(struct_size=sizeof(region_scan_t))
    kept: list[object] = []
    for key, value in options.items():
        if key in _SLICES:
            data = to_bytes(value, key)  # type: ignore[arg-type]
            kept.append(data)
            setattr(scan, _SLICES[key], to_slice(data))
        elif key in _NUMBERS:
            check = to_u32 if key in ("cells_per_row", "versions") else to_u64
            setattr(scan, _NUMBERS[key], check(value, key))  # type: ignore[arg-type]
        elif key in _FLAGS:
            scan.flags |= _FLAGS[key] if value else 0
        elif key not in ("columns", "page_bytes"):
            raise TypeError(f"{key!r} is not an option of a scan")
    array = column_array(region, options.get("columns", ()), kept)
    if array:
        scan.columns, scan.n_columns, scan.column_size = array, len(array), sizeof(region_column_t)
    return scan, kept


def column_array(region: Region, columns: Columns, kept: list[object]) -> Array[region_column_t] | None:
    """The columns in the form of the C call; None: all."""
    raw = [_column(region, column, kept) for column in columns]
    if not raw:
        return None
    array = (region_column_t * len(raw))(*raw)
    kept.append(array)
    return array


def to_cells(region: Region, page: memoryview) -> list[Cell]:
    """The records of a page."""
    name = region._family_name
    return [Cell(row, name(family), qual, value, ts, seq, kind) for kind, _, row, family, qual, value, ts, seq in cells(page)]


def _column(region: Region, column: Column | str | tuple[Family, BytesLike], kept: list[object]) -> region_column_t:
    if isinstance(column, str):
        column = Column(column)
    elif not isinstance(column, Column):
        column = Column.exact(*column)
    qual, end = to_bytes(column.qual, "qualifier"), to_bytes(column.qual_end, "qualifier")
    kept += (qual, end)
    return region_column_t(region._family_id(column.family), column.kind, to_slice(qual), to_slice(end))
