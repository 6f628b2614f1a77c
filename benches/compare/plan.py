"""What the comparison runs and what it must reach: data only, used by measure.py and summarise.py.

A Workload is measured for every engine in turn (A, B, C, A, B, C, ...). A Figure is one number of the summary and one line of goals.jsonl:
this library's rate over a peer's, with the floor that must hold on any machine and the goal. The harness's words: `sync` survives the death of
the process, `fsync` the death of the machine.
"""

from dataclasses import dataclass

OURS = "region"
PLAIN = ["lmdb", "rocksdb-rmw", "rocksdb-rmw-u", "leveldb", "sqlite", "wiredtiger"]
# Behind the group-commit layer. Not worth a run on one or two threads, where a group is one operation.
GROUPED_SYNC = ["gc+lmdb", "gc+rocksdb-rmw", "gc+leveldb", "gc+wiredtiger"]
GROUPED_FSYNC = GROUPED_SYNC + ["gc+sqlite"]
QUICK_PEERS = {"lmdb", "rocksdb-rmw-u", "gc+wiredtiger", "gc+sqlite"}
REPETITIONS = 3


@dataclass(frozen=True)
class Workload:
    name: str  # unique; figures refer to it
    title: str
    kind: str  # the harness's --workload
    durability: str
    threads: int
    engines: tuple
    rows: int = 100_000
    args: tuple = ()
    quick: bool = True  # part of BENCH_QUICK=1
    optional: str = ""  # run only when this word is in BENCH_MORE


def increments(kind, durability, threads, grouped, title, **more):
    peers = [p for p in PLAIN if not (p == "rocksdb-rmw-u" and durability == "fsync")]
    engines = (OURS, *peers, *(grouped if threads > 2 else ()))
    return Workload(f"{kind}-{durability}-{threads}", title, kind, durability, threads, engines, **more)


WORKLOADS = [
    increments("uniform", "sync", 100, GROUPED_SYNC, "increments of 100,000 rows, 100 threads, SYNC"),
    increments("uniform", "sync", 1, (), "increments of 100,000 rows, 1 thread, SYNC"),
    increments("uniform", "sync", 2, (), "increments of 100,000 rows, 2 threads, SYNC"),
    increments("uniform", "sync", 8, GROUPED_SYNC, "increments of 100,000 rows, 8 threads, SYNC"),
    increments("hot", "sync", 100, GROUPED_SYNC, "increments of ONE counter, 100 threads, SYNC"),
    increments("hot", "sync", 1, (), "increments of ONE counter, 1 thread, SYNC"),
    increments("uniform", "fsync", 100, GROUPED_FSYNC, "increments of 100,000 rows, 100 threads, FSYNC"),
    increments("uniform", "fsync", 8, GROUPED_FSYNC, "increments of 100,000 rows, 8 threads, FSYNC"),
    increments("hot", "fsync", 100, GROUPED_FSYNC, "increments of ONE counter, 100 threads, FSYNC"),
    Workload("batch-sync-1", "batches of 100 increments, 1 thread, SYNC", "batch", "sync", 1, (OURS, *PLAIN)),
    Workload("batch-sync-8", "batches of 100 increments, 8 threads, SYNC", "batch", "sync", 8, (OURS, *PLAIN)),
    Workload(
        "recover",
        "reopen after kill -9 with 1,000,000 increments in the log",
        "recover",
        "sync",
        8,
        (OURS, "lmdb", "rocksdb-rmw", "leveldb", "sqlite", "gc+wiredtiger"),
        rows=1_000_000,
        args=("--limit", "60"),
    ),
]

# Scans of what is in memory: LevelDB gets a memtable that holds everything.
SCAN_ENGINES = (OURS, "leveldb")
WORKLOADS += [
    Workload(f"scan-1m{name}", f"scans of 1,000,000 rows in memory, {how}", f"fullscan{name}", "sync", threads, SCAN_ENGINES, 1_000_000)
    for name, how, threads in (("", "by page", 4), ("-next", "cell by cell", 4))
] + [
    Workload("scan-10", "scans of 10 cells beside 8 writers", "shortscan", "sync", 1, SCAN_ENGINES, 1_000_000),
]  # fmt: skip

# How cost grows with threads and rows: this library beside the best peer and RocksDB.
GROWTH_ENGINES = (OURS, "lmdb", "rocksdb-rmw-u")
GROWTH_THREADS = (1, 2, 8, 100)
for rows, optional in ((1_000_000, ""), (10_000_000, "10m")):
    for threads in GROWTH_THREADS:
        name, title = f"uniform-sync-{threads}-rows-{rows}", f"increments of {rows:,} rows, {threads} threads, SYNC"
        more = ("--memory-mb", "8192") if rows > 1_000_000 else ()
        WORKLOADS.append(Workload(name, title, "uniform", "sync", threads, GROWTH_ENGINES, rows, more, quick=False, optional=optional))

# Puts, gets and scans are not part of a default run: BENCH_MORE=data.
DATA_ENGINES = (OURS, *PLAIN, "gc+leveldb")
WORKLOADS += [
    Workload(
        "put", "puts of 1 KB values, 50 threads, SYNC; then gets and scans", "put", "sync", 50, DATA_ENGINES, 2_000_000,
        ("--memory-mb", "4096", "--then", "get,scan"), quick=False, optional="data",
    ),
    Workload(
        "put-row", "puts of 3 x 200 bytes in one row, 4 threads, SYNC", "put-row", "sync", 4, DATA_ENGINES, 2_000_000,
        ("--memory-mb", "4096", "--value-bytes", "200"), quick=False, optional="data",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Figure:
    id: str
    workload: str
    against: str  # "best", a family of engines ("rocksdb": the fastest of its settings), or "own:<workload>"
    floor: float | None  # None: only reported
    goal: float | None


FIGURES = [
    Figure("S1", "uniform-sync-100", "lmdb", 1.5, 2.0),
    Figure("S1", "uniform-sync-100", "rocksdb", 12, 17),
    Figure("S2", "uniform-sync-1", "best", 1.0, 1.3),
    Figure("S2", "uniform-sync-2", "best", 1.6, 2.2),
    Figure("S2", "uniform-sync-8", "best", 1.3, 1.7),
    Figure("S3", "hot-sync-100", "best", 1.2, 1.5),
    Figure("S3", "hot-sync-1", "best", 1.2, 1.5),
    Figure("S4", "uniform-fsync-100", "best", 1.5, 2.2),
    Figure("S4", "hot-fsync-100", "own:uniform-fsync-100", 0.9, 0.95),
    Figure("S4", "hot-fsync-100", "best", 1.0, 1.4),
    Figure("S4", "uniform-fsync-8", "best", 1.0, 1.5),
    Figure("S10", "recover", "rocksdb", 8, 12),
    Figure("scan-1m", "scan-1m", "leveldb", 2.0, 3.0),
    Figure("scan-1m", "scan-1m-next", "leveldb", 1.0, 2.0),
    # Reported: a scan is one instant of the whole region, for which it waits for the commits that have begun.
    Figure("scan-10", "scan-10", "leveldb", None, None),
    Figure("S12", "batch-sync-1", "best", 1.2, 1.6),
    Figure("S12", "batch-sync-8", "best", 2.0, 2.5),
]

# Beside the ratio of S1.
S1_P99_US_MAX = 5.0
S1_FAIRNESS_MIN = 0.2

# S11: nanoseconds that the call from C may take more than the same call from Rust.
BOUNDARY_FLOOR_NS = 15.0
BOUNDARY_GOAL_NS = 10.0
