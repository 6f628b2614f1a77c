"""The library's messages for Python's logging: pulled, so that no foreign thread ever enters the interpreter."""

from __future__ import annotations

import json
import logging
import threading
from ctypes import byref, c_char, c_size_t, c_uint64
from typing import TYPE_CHECKING, Any

from . import _constants as c
from ._library import lib
from ._structs import region_log_cb
from .errors import BY_CODE, RegionError

if TYPE_CHECKING:
    from typing_extensions import Self

TRACE = 5
_TO_PYTHON = {
    c.LOG_ERROR: logging.ERROR,
    c.LOG_WARN: logging.WARNING,
    c.LOG_INFO: logging.INFO,
    c.LOG_DEBUG: logging.DEBUG,
    c.LOG_TRACE: TRACE,
}
_NO_CALLBACK = region_log_cb()
_pull_lock = threading.Lock()
_page = bytearray(16 * 1024)


def set_log_level(level: int) -> None:
    """What the library collects from now on: a level of logging. By default INFO."""
    ours = max((n for n, py in _TO_PYTHON.items() if py >= level), default=c.LOG_ERROR)
    _check(lib.region_log_set_callback(_NO_CALLBACK, None, ours))


def poll_log() -> tuple[list[dict[str, Any]], int]:
    """(messages since the last call, how many were lost because nobody took them). The ring is the whole process's."""
    global _page
    lines: list[dict[str, Any]] = []
    used, lost, dropped = c_size_t(), c_uint64(), 0
    with _pull_lock:
        while True:
            rc: int = lib.region_log_poll(byref(c_char.from_buffer(_page)), len(_page), byref(used), byref(lost))
            dropped += lost.value
            if rc == c.TRUNCATED:
                _page = bytearray(max(used.value, 2 * len(_page)))
                continue
            _check(rc)
            if used.value == 0:
                return lines, dropped
            text = memoryview(_page)[: used.value].tobytes().decode("utf-8", "replace")
            lines += (json.loads(line) for line in text.split("\n") if line)


class LogPump:
    """A thread that hands the library's messages to a logger until `stop`, or the end of a `with` block."""

    def __init__(self, logger: logging.Logger, interval: float) -> None:
        self._logger = logger
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="libregion-log", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.pump()

    def pump(self) -> None:
        """Hands over what there is, now."""
        try:
            lines, dropped = poll_log()
        except RegionError:
            return  # In a child of a fork.
        for line in lines:
            self._emit(line)
        if dropped:
            self._logger.warning("%d messages of libregion were lost", dropped)

    def _emit(self, line: dict[str, Any]) -> None:
        number = _TO_PYTHON[line["level"]]
        if not self._logger.isEnabledFor(number):
            return
        text = f"{line['target']}: {line['message']}"
        record = self._logger.makeRecord(self._logger.name, number, line.get("file") or "", line.get("line") or 0, text, (), None)
        record.created = line["unix_ns"] / 1e9
        record.msecs = line["unix_ns"] // 1_000_000 % 1000
        self._logger.handle(record)

    def stop(self) -> None:
        """Hands over the rest and ends the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self.pump()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def log_to(logger: logging.Logger | str = "libregion", *, level: int = logging.INFO, interval: float = 0.25) -> LogPump:
    """Sends the library's messages to a logger. Nothing is logged unless this is called."""
    set_log_level(level)
    return LogPump(logging.getLogger(logger) if isinstance(logger, str) else logger, interval)


def _check(rc: int) -> None:
    if rc < 0:
        raise BY_CODE.get(rc, RegionError)("reading the library's messages", rc)
