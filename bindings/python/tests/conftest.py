"""What the tests share: a region in a fresh directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import libregion
import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "region"


@pytest.fixture
def r(path: Path) -> Iterator[libregion.Region]:
    with libregion.open(path, families=["cf", "meta"]) as region:
        yield region
