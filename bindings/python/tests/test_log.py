"""The library's messages in Python's logging."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import libregion
import pytest


@pytest.fixture(autouse=True)
def quiet_after() -> Iterator[None]:
    yield
    libregion.set_log_level(logging.INFO)
    libregion.poll_log()


def test_messages_can_be_polled(path: Path) -> None:
    libregion.set_log_level(libregion.log.TRACE)
    libregion.poll_log()
    for _ in range(2):
        with libregion.open(path, families=["cf"]) as r:
            r.increment(b"row", "cf", b"n")
    lines, dropped = libregion.poll_log()
    assert dropped == 0 and any(str(path) in line["message"] for line in lines)
    assert all(set(line) == {"unix_ns", "level", "target", "message", "file", "line"} for line in lines)
    assert libregion.poll_log() == ([], 0)


def test_messages_go_to_a_logger(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    libregion.poll_log()
    with caplog.at_level(logging.DEBUG, "store"), libregion.log_to("store", level=logging.INFO, interval=60):
        with libregion.open(path, families=["cf"]):
            pass
    assert any(str(path) in record.getMessage() for record in caplog.records)
    for record in caplog.records:
        assert record.name == "store" and record.levelno >= logging.INFO and record.created > 1.7e9


def test_the_pump_runs_by_itself_and_ends(path: Path) -> None:
    arrived = threading.Event()

    class Sink(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if str(path) in record.getMessage():
                arrived.set()

    logger = logging.Logger("own")
    logger.addHandler(Sink())
    before = threading.active_count()
    with libregion.log_to(logger, interval=0.01):
        with libregion.open(path, families=["cf"]):
            assert arrived.wait(30)
    assert threading.active_count() == before


def test_levels() -> None:
    for level in (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, 5, 1):
        libregion.set_log_level(level)
