"""What the tests share: a region in a fresh directory, and Python processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import libregion
import pytest

PACKAGE = str(Path(__file__).resolve().parents[1])
KEY = (b"row", "cf", b"n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "region"


@pytest.fixture
def r(path: Path) -> Iterator[libregion.Region]:
    with libregion.open(path, families=["cf", "meta"]) as region:
        yield region


def environment() -> dict[str, str]:
    """Of a child that imports the package under test."""
    return os.environ | {"PYTHONPATH": PACKAGE, "LIBREGION_PATH": libregion.library_path, "PYTHONWARNINGS": "always"}


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
