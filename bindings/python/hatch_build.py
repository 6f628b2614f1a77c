"""Puts the library named by LIBREGION_PATH into the wheel, which then is for one platform; without it the wheel has none."""

from __future__ import annotations

import os
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        library = os.environ.get("LIBREGION_PATH")
        if not library:
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        # Any Python 3: ctypes needs nothing of the interpreter's own ABI.
        build_data["tag"] = f"py3-none-{os.environ.get('LIBREGION_WHEEL_PLATFORM', platform)}"
        build_data["force_include"][os.path.realpath(library)] = "libregion/libregion.so"
