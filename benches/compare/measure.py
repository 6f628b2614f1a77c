#!/usr/bin/env python3
"""Runs the plan and writes one JSON line per measurement. run.sh calls it with everything built.

usage: measure.py --bin DIR --data DIR --out DIR [--only WORKLOAD,...]

BENCH_QUICK=1: one short repetition against few peers, to see that all works; its ratios mean little. BENCH_MORE=10m,data: optional parts.
Exit code 1 if anything failed to run or gave a wrong count.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import plan

QUICK = os.environ.get("BENCH_QUICK", "") not in ("", "0")
MORE = set(os.environ.get("BENCH_MORE", "").replace(",", " ").split())


def log(text):
    print(text, file=sys.stderr, flush=True)


def busy_share(seconds):
    """The share of all processors that was busy during the next `seconds`."""

    def read():
        user, nice, system, idle, wait, irq, soft = map(int, Path("/proc/stat").read_text().split()[1:8])
        return user + nice + system + irq + soft, idle + wait

    busy, idle = read()
    time.sleep(seconds)
    busy_after, idle_after = read()
    return (busy_after - busy) / max(1, busy_after - busy + idle_after - idle)


def settle():
    """No dirty pages from the run before, and an idle machine if one can be had within five seconds."""
    os.sync()
    for _ in range(1 if QUICK else 10):
        if busy_share(0.1 if QUICK else 0.5) < 0.06:
            return


def run_one(o, workload, engine, repetition):
    """Runs the harness once; returns its JSON objects. Raises on a failure, a timeout and on wrong counts."""
    rows = workload.rows // 5 if QUICK and workload.kind == "recover" else workload.rows
    command = [str(o.bin / "compare"), "--engine", engine, "--workload", workload.kind, "--durability", workload.durability]
    command += ["--dir", str(o.data), "--threads", str(workload.threads), "--rows", str(rows), "--repetition", str(repetition)]
    command += ["--warm", "0.1", "--seconds", "0.4"] if QUICK else ["--warm", "0.4", "--seconds", "1.5"]
    command += workload.args
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
    return [dict(json.loads(line), plan=workload.name, quick=QUICK) for line in done.stdout.splitlines()]


def run_workloads(o, failures):
    chosen = [w for w in plan.WORKLOADS if (w.quick or not QUICK) and (not w.optional or w.optional in MORE)]
    if o.only:
        chosen = [w for w in chosen if w.name in o.only.split(",")]
    for number, workload in enumerate(chosen, 1):
        log(f"[{number}/{len(chosen)}] {workload.title}")
        engines = [e for e in workload.engines if not QUICK or e == plan.OURS or e in plan.QUICK_PEERS or workload.kind == "recover" or len(workload.engines) == 2]
        rates = {}
        with open(o.out / f"{workload.name}.jsonl", "w") as out:
            for repetition in range(1 if QUICK else plan.REPETITIONS):
                for engine in engines:
                    settle()
                    try:
                        lines = run_one(o, workload, engine, repetition)
                    except (RuntimeError, subprocess.TimeoutExpired, ValueError) as problem:
                        failures.append(f"{workload.name} {engine}: {problem}")
                        log(f"    {engine}: FAILED: {problem}")
                        continue
                    out.writelines(json.dumps(line) + "\n" for line in lines)
                    out.flush()
                    rates.setdefault(engine, []).append(lines[0]["items_s"])
        log("    " + "  ".join(f"{e} {statistics.median(r):,.0f}/s" for e, r in rates.items()))


class Caller:
    """One side of the boundary measurement: a process that answers `n` on its input with the nanoseconds per call of n calls."""

    def __init__(self, program, directory):
        self.process = subprocess.Popen([program, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, n):
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.process.args[0]} ended with code {self.process.wait()}")
        return float(answer)

    def end(self):
        self.process.stdin.close()
        if self.process.wait(timeout=60) != 0:
            raise RuntimeError(f"{self.process.args[0]} failed at close")


def run_boundary(o, failures):
    """S11: the same increment from C through the shared library and from Rust, in two processes that take turns.

    A pair of processes keeps its addresses for life, and those alone move the result by nanoseconds; hence several pairs.
    """
    log("[boundary] region_increment from C beside the same call from Rust")
    pairs, rounds, calls = (2, 5, 100_000) if QUICK else (9, 25, 200_000)
    settle()
    try:
        with open(o.out / "boundary.jsonl", "w") as out:
            for pair in range(pairs):
                sides = {side: Caller(o.bin / f"boundary_{side}", o.data / f"boundary.{side}.{pair}") for side in ("c", "rust")}
                for caller in sides.values():
                    caller.run(calls)  # warm up
                ns = {"c": [], "rust": []}
                for number in range(rounds):
                    for side in ("c", "rust") if number % 2 == 0 else ("rust", "c"):
                        ns[side].append(sides[side].run(calls))
                for caller in sides.values():
                    caller.end()
                line = {"workload": "boundary", "repetition": pair, "quick": QUICK}
                line.update({f"{side}_ns": statistics.median(values) for side, values in ns.items()})
                out.write(json.dumps(line) + "\n")
                log(f"    C {line['c_ns']:.1f} ns, Rust {line['rust_ns']:.1f} ns")
    except (OSError, RuntimeError, ValueError, subprocess.TimeoutExpired) as problem:
        failures.append(f"boundary: {problem}")
        log(f"    FAILED: {problem}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, required=True, help="holds compare, boundary_c and boundary_rust")
    parser.add_argument("--data", type=Path, required=True, help="where the databases live: on the disk to be measured")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of workloads, or `boundary`; default all")
    o = parser.parse_args()
    o.data.mkdir(parents=True, exist_ok=True)
    o.out.mkdir(parents=True, exist_ok=True)
    failures = []
    if not o.only or "boundary" in o.only.split(","):
        run_boundary(o, failures)
    run_workloads(o, failures)
    for failure in failures:
        log(f"did not run: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
