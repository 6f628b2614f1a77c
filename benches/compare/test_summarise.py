#!/usr/bin/env python3
"""The arithmetic of the summary, over invented measurements: python3 benches/compare/test_summarise.py"""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))
import plan  # noqa: E402
import summarise  # noqa: E402


def line(workload, engine, rate, repetition=0, **more):
    d = {"engine": engine, "workload": workload.kind, "threads": workload.threads, "repetition": repetition, "items_s": rate, "other_cpus": 0.0}
    d.update(p99_ns=2000, fairness=0.5, percentiles=[[50, 100], [99, 2000]], open_ms=1e9 / rate, quick=False)
    d.update(more)
    return d


class Summary(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.out = Path(holder.name)
        # Everything the figures need: ours at 3 M/s, each peer at 1 M/s.
        for workload in plan.WORKLOADS:
            if not workload.optional:
                self.write(workload.name, [line(workload, e, 3e6 if e == plan.OURS else 1e6) for e in workload.engines])
        self.write("boundary", [{"c_ns": 108.0, "rust_ns": 100.0, "quick": False}])

    def write(self, name, lines):
        (self.out / f"{name}.jsonl").write_text("".join(json.dumps(d) + "\n" for d in lines))

    def run_summary(self):
        """Exit code, standard output, goals."""
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", ["summarise.py", "--out", str(self.out)]), contextlib.redirect_stdout(printed):
            code = summarise.main()
        return code, printed.getvalue(), summarise.read_lines(self.out / "goals.jsonl")

    def goal(self, goals, id, **keys):
        found = [g for g in goals if g["id"] == id and all(g.get(k) == v for k, v in keys.items())]
        self.assertEqual(len(found), 1, f"{id} {keys}")
        return found[0]

    def workload(self, name):
        return next(w for w in plan.WORKLOADS if w.name == name)

    def test_every_figure_has_a_line(self):
        code, _, goals = self.run_summary()
        self.assertEqual(code, 0)
        self.assertEqual(len(goals), len(plan.FIGURES) + 1)
        self.assertEqual(self.goal(goals, "S1", against="lmdb")["ratio"], 3.0)

    def test_ratio_is_of_medians_over_quiet_repetitions(self):
        w = self.workload("uniform-sync-100")
        ours = [line(w, plan.OURS, r, i) for i, r in enumerate((2e6, 4e6, 9e6))] + [line(w, plan.OURS, 1e3, 3, other_cpus=0.9)]
        self.write(w.name, ours + [line(w, e, 1e6) for e in w.engines if e != plan.OURS])
        _, _, goals = self.run_summary()
        g = self.goal(goals, "S1", against="lmdb")
        self.assertEqual((g["ratio"], g["noisy"], g["repetitions"]), (4.0, False, 3))

    def test_best_peer_may_be_a_grouped_one_and_rocksdb_is_its_fastest_variant(self):
        w = self.workload("uniform-fsync-100")
        self.write(w.name, [line(w, e, {plan.OURS: 4e6, "gc+wiredtiger": 2e6}.get(e, 1e6)) for e in w.engines])
        w = self.workload("uniform-sync-100")
        self.write(w.name, [line(w, e, {plan.OURS: 4e6, "rocksdb-rmw-u": 2e5, "rocksdb-rmw": 1e5}.get(e, 1e5)) for e in w.engines])
        _, _, goals = self.run_summary()
        self.assertEqual(self.goal(goals, "S4", workload="uniform", threads=100)["against"], "gc+wiredtiger")
        g = self.goal(goals, "S1", against="rocksdb")
        self.assertEqual((g["engine"], g["ratio"]), ("rocksdb-rmw-u", 20.0))

    def test_hot_is_compared_with_our_own_uniform_rate(self):
        w = self.workload("hot-fsync-100")
        self.write(w.name, [line(w, e, 2.4e6 if e == plan.OURS else 1e6) for e in w.engines])
        _, _, goals = self.run_summary()
        g = self.goal(goals, "S4", against="own uniform")
        self.assertEqual((g["ratio"], g["floor_met"]), (0.8, False))

    def test_boundary_is_better_when_lower(self):
        _, printed, goals = self.run_summary()
        g = self.goal(goals, "S11")
        self.assertEqual((g["value"], g["floor_met"], g["goal_met"]), (8.0, True, True))
        self.write("boundary", [{"c_ns": 120.0, "rust_ns": 100.0, "quick": False}])
        (self.out / "goals.jsonl").unlink()
        _, printed, goals = self.run_summary()
        self.assertFalse(self.goal(goals, "S11")["floor_met"])
        self.assertIn("FLOOR MISSED  S11", printed)

    def test_a_missed_floor_is_no_failure_but_a_missing_measurement_is(self):
        w = self.workload("batch-sync-8")
        self.write(w.name, [line(w, e, 1e6) for e in w.engines])
        code, printed, _ = self.run_summary()
        self.assertEqual(code, 0)
        self.assertIn("FLOOR MISSED  S12 batch sync 8 thr", printed)
        self.write(w.name, [])
        code, printed, _ = self.run_summary()
        self.assertEqual(code, 1)
        self.assertIn("NOT MEASURED  S12 batch-sync-8", printed)

    def test_lines_of_the_criterion_benches_are_kept_and_shown(self):
        sequencer = {"id": "S5", "against": "published design", "ratio": 9.0, "floor": 1.0, "goal": 2.0}
        self.write("goals", [sequencer])
        _, printed, goals = self.run_summary()
        self.assertEqual(goals[0], sequencer)
        self.assertIn("published design", printed)


if __name__ == "__main__":
    unittest.main()
