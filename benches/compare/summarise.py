#!/usr/bin/env python3
"""Tables, goals and chart data from what measure.py wrote.

usage: summarise.py --out DIR [--markdown]

Prints one table per workload: medians over the repetitions, and this library's median rate over each engine's. A repetition during which other processes used more than a tenth of
a processor is left out whenever a quieter one of the same engine exists; `~` marks engines that have only noisy ones. Appends a line per figure
to DIR/goals.jsonl and writes DIR/plots/*.chart. Exit code 1 if a figure has no measurement; a missed floor is only shown.
"""

import argparse
import json
import math
import statistics
import sys
from pathlib import Path

import plan

OTHER_CPUS_MAX = 0.10
SCANS = {"fullscan": "cells/s", "fullscan-next": "cells/s", "shortscan": "scans/s"}


class Result:
    """One engine in one workload: medians over its quiet repetitions."""

    def __init__(self, engine, lines):
        quiet = [d for d in lines if d.get("other_cpus", 0) <= OTHER_CPUS_MAX]
        self.engine, self.noisy, self.lines = engine, not quiet, quiet or lines

    def median(self, key):
        return statistics.median(d.get(key, 0) for d in self.lines)

    def spread(self, key):
        values = [d.get(key, 0) for d in self.lines]
        return min(values), max(values)

    @property
    def rate(self):
        return self.median("items_s")


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def read_results(out):
    """{workload name: {engine: Result}} of the measurements proper."""
    results = {}
    for workload in plan.WORKLOADS:
        engines = {}
        for line in read_lines(out / f"{workload.name}.jsonl"):
            if line["workload"] == workload.kind:
                engines.setdefault(line["engine"], []).append(line)
        if engines:
            results[workload.name] = {e: Result(e, lines) for e, lines in engines.items()}
    return results


def read_follow_ups(out):
    """{title: {engine: Result}} of what was measured after a load: gets and scans."""
    results = {}
    for workload in plan.WORKLOADS:
        for line in read_lines(out / f"{workload.name}.jsonl"):
            if line["workload"].startswith(("get-", "scan-")):
                title = f"{line['workload']}, {line['threads']} threads"
                results.setdefault(title, {}).setdefault(line["engine"], []).append(line)
    return {title: {e: Result(e, lines) for e, lines in engines.items()} for title, engines in results.items()}


# ---- tables ----


def number(v):
    return f"{v:,.0f}" if v >= 100 else f"{v:.3g}"


def print_table(title, head, rows, markdown):
    if markdown:
        print(f"\n**{title}**\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        for row in rows:
            print("| " + " | ".join(row) + " |")
        return
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    print(f"\n{title}")
    for row in [head, *rows]:
        print("  " + "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))))


def print_workload(title, engines, markdown):
    ours = engines.get(plan.OURS)
    rows = []
    for r in sorted(engines.values(), key=lambda r: -r.rate):
        low, high = r.spread("items_s")
        row = [("~" if r.noisy else "") + r.engine, number(r.rate), f"{number(low)} - {number(high)}"]
        row.append(f"{ours.rate / r.rate:.2f}" if ours and r.rate else "-")
        row += [f"{r.median(k) / 1e3:,.2f}" for k in ("p50_ns", "p99_ns", "p999_ns")]
        row += [f"{r.median('max_ns') / 1e6:,.1f}", f"{r.median('cpu_us_per_item'):.2f}", f"{r.median('fairness'):.2f}"]
        row.append(f"{r.median('rss_peak_kb') / 1024:,.0f}")
        rows.append(row)
    head = ["engine", "per second", "min - max", "region is x", "p50 us", "p99 us", "p99.9 us", "max ms", "CPU us", "fairness", "RSS MB"]
    print_table(title, head, rows, markdown)


def print_recovery(title, engines, markdown):
    rows = []
    ours = engines.get(plan.OURS)
    for r in sorted(engines.values(), key=lambda r: -r.rate):
        row = [r.engine, number(r.median("acknowledged")), f"{r.median('open_ms'):,.1f}", number(r.rate)]
        row += [f"{ours.rate / r.rate:.2f}" if ours else "-", f"{r.median('dir_bytes') / 1e6:,.0f}"]
        rows.append(row)
    head = ["engine", "increments", "reopen ms", "increments/s", "region is x", "disk MB"]
    print_table(title + " (LMDB and SQLite have nothing to replay)", head, rows, markdown)


def print_growth(results, markdown):
    rows = []
    for count in (100_000, 1_000_000, 10_000_000):
        for engine in plan.GROWTH_ENGINES:
            row, found = [f"{count:,}", engine], False
            for threads in plan.GROWTH_THREADS:
                name = f"uniform-sync-{threads}" + ("" if count == 100_000 else f"-rows-{count}")
                r = results.get(name, {}).get(engine)
                found |= r is not None
                row.append(number(r.rate) if r else "-")
            if found:
                rows.append(row)
    if rows:
        head = ["rows", "engine", *(f"{t} thr" for t in plan.GROWTH_THREADS)]
        print_table("How increments per second (SYNC, uniform) change with threads and rows", head, rows, markdown)


# ---- figures ----


def opponent(figure, results):
    """The result to compare with, and its name in goals.jsonl."""
    if figure.against.startswith("own:"):
        r = results.get(figure.against[4:], {}).get(plan.OURS)
        return r, "own uniform"
    engines = [r for e, r in results.get(figure.workload, {}).items() if e != plan.OURS]
    if figure.against != "best":
        engines = [r for r in engines if figure.against in r.engine]
    best = max(engines, key=lambda r: r.rate, default=None)
    return best, (best.engine if figure.against == "best" and best else figure.against)


def make_goal(figure, results):
    """The line of goals.jsonl, or None if something was not measured."""
    ours = results.get(figure.workload, {}).get(plan.OURS)
    theirs, name = opponent(figure, results)
    if not ours or not theirs or not theirs.rate:
        return None
    workload = next(w for w in plan.WORKLOADS if w.name == figure.workload)
    ratio = ours.rate / theirs.rate
    goal = {"id": figure.id, "against": name, "ratio": round(ratio, 3), "floor": figure.floor, "goal": figure.goal}
    goal.update(workload=workload.kind, durability=workload.durability, threads=workload.threads, unit="increments/s")
    goal.update(ours=round(ours.rate), theirs=round(theirs.rate), engine=theirs.engine, best_peer=figure.against == "best")
    if workload.kind in SCANS:
        goal.update(unit=SCANS[workload.kind])
    if workload.kind == "recover":
        goal.update(unit="increments replayed/s", ours_ms=ours.median("open_ms"), theirs_ms=theirs.median("open_ms"))
    else:
        for key, r in (("", ours), ("theirs_", theirs)):
            goal[key + "p99_us"] = round(r.median("p99_ns") / 1e3, 2)
            goal[key + "fairness"] = round(r.median("fairness"), 3)
    goal.update(noisy=ours.noisy or theirs.noisy, quick=ours.lines[0]["quick"], repetitions=len(ours.lines))
    if figure.floor is not None:
        goal.update(floor_met=ratio >= figure.floor, goal_met=ratio >= figure.goal)
    return goal


def make_boundary_goal(out):
    lines = read_lines(out / "boundary.jsonl")
    if not lines:
        return None
    c, rust = (statistics.median(d[key] for d in lines) for key in ("c_ns", "rust_ns"))
    more = statistics.median(d["c_ns"] - d["rust_ns"] for d in lines)
    goal = {"id": "S11", "against": "rust", "ratio": round(c / rust, 3), "value": round(more, 2), "unit": "ns more per call"}
    goal.update(floor=plan.BOUNDARY_FLOOR_NS, goal=plan.BOUNDARY_GOAL_NS, lower_is_better=True, threads=1, ours=round(c, 2), theirs=round(rust, 2))
    goal.update(quick=lines[0]["quick"], repetitions=len(lines))
    goal.update(floor_met=more <= plan.BOUNDARY_FLOOR_NS, goal_met=more <= plan.BOUNDARY_GOAL_NS)
    return goal


def order(goal):
    """S2 before S10, and what has no number last."""
    number = str(goal.get("id", "S0"))[1:]
    return (0, int(number)) if number.isdigit() else (1, 0)


def print_goals(goals, markdown):
    rows = []
    for g in sorted(goals, key=order):
        lower = g.get("lower_is_better", False)
        value = g.get("value", g.get("ratio", math.nan)) if lower else g.get("ratio", math.nan)
        met = (lambda bound: value <= bound) if lower else (lambda bound: value >= bound)
        # null: nothing is asked of this figure.
        floor, goal = (math.nan if g.get(k) is None else g[k] for k in ("floor", "goal"))
        verdict = "goal" if met(goal) else "floor" if met(floor) else "-" if math.isnan(floor) else "MISSED"
        what = " ".join(str(g[k]) for k in ("workload", "durability") if k in g)
        threads = f"{g['threads']} thr" if "threads" in g else ""
        sign = "<=" if lower else ">="
        row = [g["id"], f"{what} {threads}".strip(), g["against"], f"{value:.2f}", f"{sign} {floor:g}", f"{sign} {goal:g}", verdict]
        row += [f"{g['p99_us']:g}" if "p99_us" in g else "", f"{g['fairness']:g}" if "fairness" in g else ""]
        rows.append(row)
    head = ["id", "what", "against", "ratio", "floor", "goal", "reached", "p99 us", "fairness"]
    print_table("Goals", head, rows, markdown)
    missed = [f"{r[0]} {r[1]} against {r[2]}: {r[3]}, floor {r[4]}" for r in rows if r[6] == "MISSED"]
    print(f"\nfloors missed: {len(missed)} of {len(rows)}")
    for text in missed:
        print(f"  FLOOR MISSED  {text}")
    for g in goals:
        if g["id"] == "S1" and g["against"] == "lmdb":
            print(f"S1 p99 {g['p99_us']} us (goal <= {plan.S1_P99_US_MAX:g}), fairness {g['fairness']} (goal >= {plan.S1_FAIRNESS_MIN:g})")


# ---- charts ----


def write_chart(path, title, x, y, ticks, series):
    lines = [f"title\t{title}", f"x\t{x}", f"y\t{y}", "\t".join(["ticks", *(f"{at:.4f}={text}" for at, text in ticks)])]
    for name, points in series:
        lines.append("\t".join(["series", name, *(f"{px:.4f},{py:.4f}" for px, py in points)]))
    path.write_text("\n".join(lines) + "\n")


def ours_first(engines):
    return sorted(engines, key=lambda e: (e != plan.OURS, e))


def chart_rates(results, plots):
    """Rate over threads; the x axis is logarithmic."""
    for count in (100_000, 1_000_000, 10_000_000):
        series, ticks = {}, {}
        for threads in plan.GROWTH_THREADS:
            name = f"uniform-sync-{threads}" + ("" if count == 100_000 else f"-rows-{count}")
            for engine, r in results.get(name, {}).items():
                series.setdefault(engine, []).append((math.log2(threads), r.rate))
                ticks[math.log2(threads)] = str(threads)
        if len(ticks) > 1:
            title = f"increments of {count:,} rows, SYNC"
            lines = [(e, series[e]) for e in ours_first(series)]
            write_chart(plots / f"rate-{count}.chart", title, "threads", "increments per second", sorted(ticks.items()), lines)


def chart_latencies(results, plots):
    """Latency over percentile; the x axis counts nines, so that the tail is seen."""

    def nines(percent):
        return -math.log10(1 - percent / 100)

    for name in ("uniform-sync-100", "hot-sync-100", "uniform-fsync-100", "hot-fsync-100"):
        series, ticks = [], {}
        for engine in ours_first(results.get(name, {})):
            r = results[name][engine]
            by_percent = {}
            for line in r.lines:
                for percent, ns in line["percentiles"]:
                    by_percent.setdefault(percent, []).append(ns)
            series.append((engine, [(nines(p), max(1, statistics.median(v)) / 1e3) for p, v in sorted(by_percent.items())]))
            ticks.update((nines(p), f"{p:g}") for p in by_percent if p in (50, 90, 99, 99.9, 99.99, 99.999))
        if series:
            title = f"latency of {next(w.title for w in plan.WORKLOADS if w.name == name)}"
            write_chart(plots / f"latency-{name}.chart", title, "percentile", "microseconds", sorted(ticks.items()), series)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--markdown", action="store_true")
    o = parser.parse_args()
    results = read_results(o.out)
    for workload in plan.WORKLOADS:
        if workload.name in results:
            show = print_recovery if workload.kind == "recover" else print_workload
            show(workload.title, results[workload.name], o.markdown)
    for title, engines in read_follow_ups(o.out).items():
        print_workload(title, engines, o.markdown)
    print_growth(results, o.markdown)

    lost, path = [], o.out / "goals.jsonl"
    goals = read_lines(path)  # what the criterion benches appended
    with path.open("a") as file:
        for figure in plan.FIGURES:
            goal = make_goal(figure, results)
            if goal is None:
                lost.append(f"{figure.id} {figure.workload} against {figure.against}")
                continue
            goals.append(goal)
            file.write(json.dumps(goal) + "\n")
        boundary = make_boundary_goal(o.out)
        if boundary:
            goals.append(boundary)
            file.write(json.dumps(boundary) + "\n")
        else:
            lost.append("S11 boundary")
    print_goals(goals, o.markdown)
    for text in lost:
        print(f"  NOT MEASURED  {text}")

    plots = o.out / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.chart"):
        old.unlink()
    chart_rates(results, plots)
    chart_latencies(results, plots)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
