#!/usr/bin/env python3
"""Is this commit as fast as that one? Builds both, each with its own harness, and runs them in turn on this machine.

usage: commits.py BASE [ROUNDS] [--only WORKLOAD,...]

BASE is any name of a commit; it is compared with HEAD. Each round runs every workload once on each side, in changing order; a line of the result is the
median over ROUNDS (default 9) of new/old, above 1 = faster now. Everything lies in target/commits. The peers' libraries must be there (run.sh installs them),
since the harness has all engines in it.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import plan
from measure import Caller, settle

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "commits"
SEQUENCER_ROUNDS = 3


def run(*command, cwd=None, **more):
    return subprocess.run([str(c) for c in command], cwd=cwd, check=True, text=True, **more)


class Side:
    """One commit: its tree, its library, its programs."""

    def __init__(self, name, commit):
        self.tree, self.target = WORK / name, WORK / f"target-{name}"
        self.bin, self.data = self.target / "bin", WORK / f"data-{name}"
        # What a run that was cut off left.
        shutil.rmtree(self.tree, ignore_errors=True)
        run("git", "worktree", "prune", cwd=ROOT)
        run("git", "worktree", "add", "--quiet", "--detach", self.tree, commit, cwd=ROOT)
        self.build()

    def build(self):
        compare, lib = self.tree / "benches" / "compare", self.bin / "lib"
        cargo = ("cargo", "build", "--quiet", "--release", "--target-dir", self.target)
        run(*cargo, "--lib", cwd=self.tree)
        run(*cargo, "--manifest-path", compare / "boundary" / "Cargo.toml", cwd=self.tree)
        found = run("cargo", "bench", "--quiet", "--bench", "sequencer", "--no-run", "--message-format=json", "--target-dir", self.target, cwd=self.tree, stdout=subprocess.PIPE)
        programs = [json.loads(line).get("executable") for line in found.stdout.splitlines()]
        self.sequencer = next(p for p in reversed(programs) if p and "sequencer" in p)
        lib.mkdir(parents=True, exist_ok=True)
        for name in ("libregion.so", "libregion.so.0"):
            shutil.copy(self.target / "release" / "libregion.so", lib / name)
        run("make", "-s", "-C", compare / "harness", f"BUILD={self.bin}", f"INCLUDE={self.tree / 'include'}", f"LIB={lib}")
        boundary = ("cc", "-O2", f"-I{self.tree / 'include'}", "-o", self.bin / "boundary_c", compare / "boundary" / "boundary.c")
        run(*boundary, f"-L{lib}", f"-Wl,-rpath,{lib}", "-lregion")

    def rate(self, workload):
        """Items per second of one short run."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(parents=True)
        command = [self.bin / "compare", "--engine", plan.OURS, "--workload", workload.kind, "--durability", workload.durability, "--dir", self.data]
        command += ["--threads", workload.threads, "--rows", workload.rows, "--warm", "0.3", "--seconds", "1.2", *workload.args]
        done = run(*command, stdout=subprocess.PIPE)
        return json.loads(done.stdout.splitlines()[0])["items_s"]

    def calls(self):
        """Calls per second over the boundary, from C and from Rust."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(parents=True)
        rates = []
        for program in (self.bin / "boundary_c", self.target / "release" / "boundary_rust"):
            caller = Caller(str(program), str(self.data / program.name))
            caller.run(100_000)
            rates.append(1e9 / statistics.median(caller.run(100_000) for _ in range(5)))
            caller.end()
        return rates

    def sequencer_p99(self):
        """p99 in ns by case."""
        goals = WORK / "goals.jsonl"
        goals.unlink(missing_ok=True)
        run(self.sequencer, "--bench", cwd=self.tree, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={"GOALS_JSONL": str(goals), "PATH": "/usr/bin:/bin"})
        lines = [json.loads(line) for line in goals.read_text().splitlines()]
        return {f"{line['workload']}, {line['threads']} threads (p99)": line["value"] for line in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("rounds", nargs="?", type=int, default=9)
    parser.add_argument("--only", default="")
    o = parser.parse_args()
    wanted = [w for w in plan.WORKLOADS if w.kind in ("uniform", "hot", "batch") and w.rows == 100_000 and not w.optional]
    if o.only:
        wanted = [w for w in wanted if w.name in o.only.split(",")]
    old, new = Side("old", o.base), Side("new", "HEAD")
    ratios = {}

    def note(name, before, after):
        ratios.setdefault(name, []).append(after / before)

    for number in range(o.rounds):
        sides = (old, new) if number % 2 == 0 else (new, old)
        for workload in wanted:
            settle()
            rates = {side: side.rate(workload) for side in sides}
            note(workload.title, rates[old], rates[new])
        if not o.only:
            calls = {side: side.calls() for side in sides}
            for i, name in enumerate(("region_increment from C (S11)", "the same from Rust (S11)")):
                note(name, calls[old][i], calls[new][i])
        if not o.only and number < SEQUENCER_ROUNDS:
            p99 = {side: side.sequencer_p99() for side in sides}
            for name, ns in p99[old].items():
                note(name, p99[new].get(name, ns), ns)
        print(f"round {number + 1} of {o.rounds}", file=sys.stderr, flush=True)

    print(f"{'':56} median   min - max   (new / old, {o.rounds} rounds)")
    for name, values in ratios.items():
        print(f"{name:56} {statistics.median(values):6.3f}   {min(values):.3f} - {max(values):.3f}")
    for side in (old, new):
        shutil.rmtree(side.data, ignore_errors=True)
        run("git", "worktree", "remove", "--force", side.tree, cwd=ROOT)
    return 0 if all(statistics.median(values) >= 0.92 for values in ratios.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
