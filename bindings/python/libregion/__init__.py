"""libregion: an HBase region as an embedded library; a durable wide-column store whose first-class operation is the counter.

    import libregion

    with libregion.open("/var/lib/counts", families=["cf"]) as r:
        hits = r.increment(b"page", "cf", b"hits", 5)

The package speaks to libregion.so through region.h, by ctypes; README.md shows each verb.
"""

from __future__ import annotations

import json
from typing import Any

from . import errors
from ._library import LibraryError, lib as _lib, library_path
from .batch import Batch
from .errors import (
    AbiMismatch, BadHandle, Busy, Cancelled, Closed, Corrupt, Exists, Forked, Internal, Invalid, IoError, Locked, NoFamily,
    NoMemory, NoRegion, NoSpace, NotApplied, NotCounter, NotRun, OpResult, OutcomeUnknown, OutOfRange, Overflow, Panic, Partial,
    Poisoned, ReadOnly, RegionError, Timeout, TooLarge, Unsupported,
)  # fmt: skip
from .family import Family
from .log import LogPump, log_to, poll_log, set_log_level
from .opening import Progress, destroy
from .opening import open as open
from .options import Column, CommitInfo, Durability, new_nonce
from .pool import ChunkPool, default_pool_stats, default_pool_trim
from .reads import Snapshot
from .region import Region, Taken
from .scan import Cell, Scanner

__version__ = "0.1.0"

open_region = open
"""`libregion.open` under a name that hides nothing: `from libregion import *` leaves the built-in open alone."""

__all__ = [
    "AbiMismatch", "BadHandle", "Batch", "Busy", "Cancelled", "Cell", "ChunkPool", "Closed", "Column", "CommitInfo", "Corrupt",
    "Durability", "Exists", "Family", "Forked", "Internal", "Invalid", "IoError", "LibraryError", "Locked", "LogPump", "NoFamily",
    "NoMemory", "NoRegion", "NoSpace", "NotApplied", "NotCounter", "NotRun", "OpResult", "OutOfRange", "OutcomeUnknown",
    "Overflow", "Panic", "Partial", "Poisoned", "Progress", "ReadOnly", "Region", "RegionError", "Scanner", "Snapshot", "Taken",
    "Timeout", "TooLarge", "Unsupported", "build_info", "default_pool_stats", "default_pool_trim", "destroy", "errors",
    "library_path", "library_version", "log_to", "new_nonce", "open_region", "poll_log", "set_log_level",
]  # fmt: skip


def library_version() -> str:
    """The version of the native library."""
    text: bytes = _lib.region_version_string()
    return text.decode()


def build_info() -> dict[str, Any]:
    """How the native library was built."""
    info: dict[str, Any] = json.loads(_lib.region_build_info())
    return info
