"""A column family and its settings."""

from __future__ import annotations

import math
from ctypes import string_at
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Union

from . import _constants as c
from ._convert import to_micros, to_name, to_number, to_slice, to_text, to_u32
from ._structs import region_family_t

if TYPE_CHECKING:
    from ._convert import BytesLike

Bloom = Literal["none", "row", "rowcol"]
Compression = Literal["none", "gz", "snappy", "lz4", "zstd"]
KeepDeleted = Union[bool, Literal["ttl"]]

BLOOM = {"none": c.BLOOM_NONE, "row": c.BLOOM_ROW, "rowcol": c.BLOOM_ROWCOL}
COMPRESSION = {
    "none": c.COMPRESSION_NONE,
    "gz": c.COMPRESSION_GZ,
    "snappy": c.COMPRESSION_SNAPPY,
    "lz4": c.COMPRESSION_LZ4,
    "zstd": c.COMPRESSION_ZSTD,
}


@dataclass(frozen=True)
class Family:
    """What is not given stays as stored, or is the default of a family that is created."""

    name: str | BytesLike
    max_versions: int = 0
    """Versions kept of each column; default 1."""
    min_versions: int = 0
    """Versions that ttl leaves."""
    ttl: float | None = None
    """Seconds until a cell expires; math.inf: never."""
    bloom: Bloom | None = None
    compression: Compression | None = None
    block_size: int = 0
    keep_deleted: KeepDeleted = False
    """True: deleted cells stay readable in the past; "ttl": until their delete marker has expired."""
    id: int = 0
    """Of a family that was read back."""

    def _raw(self, name: bytes) -> region_family_t:
        """Borrows name: keep it until the call is over."""
        ttl_ms = 0 if self.ttl is None else c.TTL_NONE if self.ttl == math.inf else max(1, to_micros(self.ttl, "ttl") // 1000)
        kept = {False: 0, True: c.FAMILY_KEEP_DELETED, "ttl": c.FAMILY_KEEP_DELETED_TTL}
        return region_family_t(
            to_slice(name),
            to_u32(self.max_versions, "max_versions"),
            to_u32(self.min_versions, "min_versions"),
            ttl_ms,
            to_number(self.bloom, BLOOM, "bloom"),
            to_number(self.compression, COMPRESSION, "compression"),
            to_u32(self.block_size, "block_size"),
            kept[self.keep_deleted],
        )

    def _name(self) -> bytes:
        return to_name(self.name, "family")


def family_from(raw: region_family_t, id: int) -> Family:
    def short(names: dict[str, int], number: int) -> str | None:
        return next((name for name, n in names.items() if n == number), None)

    return Family(
        name=to_text(string_at(raw.name.data, raw.name.len)),
        max_versions=raw.max_versions,
        min_versions=raw.min_versions,
        ttl=math.inf if raw.ttl_ms in (0, c.TTL_NONE) else raw.ttl_ms / 1000,
        bloom=short(BLOOM, raw.bloom),  # type: ignore[arg-type]
        compression=short(COMPRESSION, raw.compression),  # type: ignore[arg-type]
        block_size=raw.block_size,
        keep_deleted="ttl" if raw.flags & c.FAMILY_KEEP_DELETED_TTL else bool(raw.flags & c.FAMILY_KEEP_DELETED),
        id=id,
    )
