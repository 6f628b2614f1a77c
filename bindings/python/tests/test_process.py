"""Threads, the interpreter lock, fork and death: a region among the other things of a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import libregion
from libregion import Region

from conftest import KEY, environment, run


def test_a_hundred_threads_increment(path: Path) -> None:
    threads, each = 100, 50
    with libregion.open(path, families=["cf"], durability="async") as r:
        answers: list[list[int]] = [[] for _ in range(threads)]
        start = threading.Barrier(threads)

        def work(mine: list[int]) -> None:
            start.wait()
            for i in range(each):
                mine.append(r.increment(*KEY) if i % 2 else r.increment_many([(*KEY, 1)])[0])

        running = [threading.Thread(target=work, args=(mine,)) for mine in answers]
        for t in running:
            t.start()
        for t in running:
            t.join()
        every = [n for mine in answers for n in mine]
        assert sorted(every) == list(range(1, threads * each + 1))
        assert all(mine == sorted(mine) for mine in answers)
        assert r.counter(*KEY) == threads * each


def test_close_while_threads_write(path: Path) -> None:
    for _ in range(5):
        r = libregion.open(path, families=["cf"], durability="async")
        before = r.counter(*KEY) or 0
        acked = [0] * 8
        ends: list[BaseException] = []
        busy = threading.Barrier(9)

        def work(i: int) -> None:
            r.increment(*KEY)
            acked[i] += 1
            busy.wait()
            try:
                while True:
                    r.increment(*KEY)
                    acked[i] += 1
            except BaseException as e:
                ends.append(e)

        running = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in running:
            t.start()
        busy.wait()
        r.close()
        for t in running:
            t.join()
        assert [type(e) for e in ends] == [libregion.Closed] * 8
        with libregion.open(path) as again:
            assert again.counter(*KEY) == before + sum(acked)


def test_calls_run_without_the_interpreter_lock(r: Region) -> None:
    """With a switch interval of minutes a thread gives up the lock only where it blocks, or in a call of the library."""
    laps = 0
    running = True

    def other() -> None:
        nonlocal laps
        while running:
            laps += 1
            time.sleep(0)

    before = sys.getswitchinterval()
    thread = threading.Thread(target=other)
    thread.start()
    sys.setswitchinterval(600)
    try:
        seen = laps
        calls = 0
        while laps < seen + 20 and calls < 3_000:
            r.increment(*KEY, durability="fsync")
            calls += 1
        progress = laps - seen
    finally:
        sys.setswitchinterval(before)
        running = False
        thread.join()
    assert progress >= 20, f"{calls} calls, {progress} laps"


def test_a_forked_child_gets_forked(path: Path) -> None:
    with libregion.open(path, families=["cf"]) as r:
        r.put(b"row", "cf", b"v", b"x" * 5000)
        s, scan, view = r.snapshot(), r.scan(), r.get_view(b"row", "cf", b"v")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Fork with threads: that is the point.
            pid = os.fork()
        if pid == 0:
            code = 1
            try:
                seen = []
                for use in (
                    lambda: r.increment(*KEY), lambda: r.get(*KEY), lambda: next(scan), lambda: s.get(*KEY), lambda: r.stats(),
                    lambda: libregion.open(str(path) + "2", families=["cf"]), lambda: libregion.ChunkPool(), libregion.poll_log,
                ):  # fmt: skip
                    try:
                        use()
                    except libregion.Forked as e:
                        seen.append(e.code == -20)
                # Closing does nothing here.
                scan.close()
                s.close()
                del view
                r.close()
                try:
                    r.increment(*KEY)
                except libregion.Forked:
                    seen.append(True)
                code = 0 if seen == [True] * 9 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert r.increment(*KEY) == 1 and s.get(b"row", "cf", b"v") == b"x" * 5000 and view is not None and view == b"x" * 5000
        scan.close()
        s.close()


def test_a_child_forked_before_the_first_region_can_open_one(path: Path) -> None:
    code = f"""
import os, libregion
pid = os.fork()
if pid == 0:
    with libregion.open({str(path)!r}, families=["cf"]) as r:
        os._exit(r.increment(b"row", "cf", b"n", 7))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run(code).stdout.strip() == "7"


def test_a_forked_child_exits_quietly(path: Path) -> None:
    """The parent's handles are not the child's: nothing to close, nothing to warn of."""
    code = f"""
import os, sys, libregion
r = libregion.open({str(path)!r}, families=["cf"])
pid = os.fork()
if pid == 0:
    sys.exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
r.increment(b"row", "cf", b"n", 1)
r.close()
print(status)
"""
    done = run(code)
    assert done.stdout.strip() == "0" and "ResourceWarning" not in done.stderr


def test_kill_and_reopen(path: Path) -> None:
    """What was answered survives the death of the process; at most one increment was on its way."""
    code = f"""
import sys, libregion
r = libregion.open({str(path)!r}, families=["cf"])
while True:
    print(r.increment(b"row", "cf", b"n"), flush=True)
"""
    acked = 0
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, text=True)
        assert child.stdout
        begun = acked
        for line in child.stdout:
            # A line without its end was cut by the kill.
            if line.endswith("\n"):
                acked = int(line)
            if acked == begun + 300:
                child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL and acked >= begun + 300
        child.stdout.close()
        with libregion.open(path) as r:
            assert r.counter(*KEY) in (acked, acked + 1)
            acked = r.counter(*KEY) or 0
