"""What skew costs: a hub that knows everybody, and nodes with ten times the edges of the others, on many cores.

    python benchmarks/cluster_skew.py [--nodes 1e7] [--cores 8,16,64]

Three graphs of about equally many edges: random ones; half of them those of a hub with all nodes as neighbours; and
random ones of which a 64th of the nodes, which stand side by side, have ten times as many as the others. Every task of
embedding is timed on one thread, in a process of its own, then put on so many cores as the executor does: in order,
each on the first that is free, level after level. Parts are cut by edges, a single row never.
"""

from __future__ import annotations

import heapq
import resource
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from cluster_model import Stage, measured
from recording import parser, record

from rae import Graph
from rae.runtime import set_threads

TABLE = "cluster-skew"
GRAPHS = ("random", "a hub", "a dense part")


def drawn(kind: str, n: int) -> Graph:
    """A graph of n nodes and about 2 n edges of this kind."""
    rng = np.random.default_rng(0)
    ends = rng.integers(n, size=(2, 2 * n), dtype=np.int64)
    if kind == "a hub":
        ends[0, :n], ends[1, :n] = n // 2, np.arange(n)
    if kind == "a dense part":
        some = 10 * 2 * n // 64
        ends[0, :some] = n // 2 + rng.integers(n // 64, size=some)
    return Graph.from_edges((ends[0], ends[1]), ids=np.arange(n))


def timed(kind: str, n: int) -> dict[str, Any]:
    """Seconds of every task, by stage, entries of the largest row and the largest part, and memory at its peak."""
    set_threads(1)
    graph = drawn(kind, n)
    built = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stages, parts = measured(graph)
    return {
        "stages": stages,
        "parts": parts,
        "edges": graph.n_edges,
        "largest_row": int(np.diff(graph.offsets).max()),
        "built_mb": built // 1024,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def seconds_on(cores: int, stages: list[Stage]) -> float:
    """Seconds of these stages on so many cores."""
    now = 0.0
    for stage in stages:
        free = [now] * cores
        for seconds in stage.seconds:
            heapq.heappush(free, heapq.heappop(free) + seconds)
        now = max(free)
    return now


def main() -> None:
    arguments = parser(__doc__, "100,000 nodes")
    arguments.add_argument("--nodes", type=float, default=1e7)
    arguments.add_argument("--cores", default="8,16,64", type=lambda text: [int(word) for word in text.split(",")])
    options = arguments.parse_args()
    n = 100_000 if options.quick else int(options.nodes)
    plain: dict[int, float] = {}
    for kind in GRAPHS:
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            found = alone.submit(timed, kind, n).result()
        stages = found.pop("stages")
        numbers = found | {"cpu_s": round(sum(sum(stage.seconds) for stage in stages), 1)}
        for cores in options.cores:
            seconds = seconds_on(cores, stages)
            plain.setdefault(cores, seconds)
            numbers[f"seconds_{cores}"] = round(seconds, 2)
            numbers[f"times_{cores}"] = round(seconds / plain[cores], 2)
        record(options.results, TABLE, f"{n:,} nodes", kind, {}, **numbers)


if __name__ == "__main__":
    main()
