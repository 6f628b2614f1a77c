"""Finds libregion.so, declares every function, and checks that library and binding were made from the same header."""

from __future__ import annotations

import ctypes.util
import os
import platform
from collections.abc import Iterator
from ctypes import CDLL, byref, sizeof
from pathlib import Path

from ._constants import ABI_VERSION, LAYOUT_HASH
from ._functions import FUNCTIONS
from ._structs import region_error_t

NAMES = ("libregion.so.0", "libregion.so") if platform.system() != "Darwin" else ("libregion.0.dylib", "libregion.dylib")


class LibraryError(ImportError):
    """The native library was not found, or is not the one this binding was made for. The text lists what was tried."""


def _candidates() -> Iterator[tuple[str, str]]:
    """Where the library may be: (why there, path or name)."""
    package = Path(__file__).resolve().parent
    for name in reversed(NAMES):
        yield "next to the package", str(package / name)
    root = package.parents[2]
    if (root / "include" / "region.h").exists():
        target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
        yield "built in the source tree", str(root / target / "release" / NAMES[1])
    for name in NAMES:
        yield "system", name
    found = ctypes.util.find_library("region")
    if found and found not in NAMES:
        yield "system", found


def _open() -> tuple[CDLL, str]:
    asked = os.environ.get("LIBREGION_PATH")
    if asked:
        # Named by the user: nothing else will do.
        path = os.path.join(asked, NAMES[1]) if os.path.isdir(asked) else asked
        places = iter([("LIBREGION_PATH", path)])
    else:
        places = _candidates()
    tried = []
    for why, path in places:
        if os.path.isabs(path) and not os.path.exists(path):
            tried.append(f"  {path} ({why}): no such file")
            continue
        try:
            # CDLL, not PyDLL: it gives up the interpreter lock during a call.
            return CDLL(path), path
        except OSError as e:
            tried.append(f"  {path} ({why}): {e}")
    libc = " ".join(platform.libc_ver()) or "libc not known"
    raise LibraryError(
        f"the native library of libregion was not found ({platform.system()} {platform.machine()}, {libc}). Tried:\n"
        + "\n".join(tried)
        + "\nSet LIBREGION_PATH to the file, or to the directory that holds it."
    )


def _load() -> tuple[CDLL, str]:
    library, path = _open()
    for name, (restype, argtypes) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise LibraryError(f"{path} has no function {name}: it is older than this binding") from None
        function.restype = restype
        function.argtypes = argtypes
    err = region_error_t(struct_size=sizeof(region_error_t))
    if library.region_abi_check(ABI_VERSION, LAYOUT_HASH.encode(), byref(err)) != 0:
        raise LibraryError(f"{path}: {err.msg.decode(errors='replace')}")
    return library, path


lib, library_path = _load()
