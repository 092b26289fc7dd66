"""Graph build, locality order and neighbour sampler, compared with alternatives.

    RAE_DATA=... python benchmarks/graph_build.py [--rounds 3] [--edges 1000000] [--with-networkx] [--quick]

graph-build: from the gzipped edge list of web-Google and from a Parquet file of a generated power-law graph to
undirected neighbour lists without doubles (graph_builders.py). Each way runs in its own process, its imports
included, in turns, and all must count the same edges.
row-order: the mean over all neighbourhoods, 64 wide, one thread, in the file's order, after `--order locality` and
after SciPy's reverse Cuthill-McKee, in turns in one process.
neighbor-sampler: millions of sampled edges a second on one thread, up to ten neighbours of every node, nodes in
random order, in turns in one process (neighbor_samplers.py); the samples are checked on the smaller graph.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from graph_builders import WAYS
from install_alternatives import install_extra_packages, pinned
from measurements import spread
from processes import run_process
from recording import parser, record, web_google

from rae.evaluation.ledger import Ledger, Line

HERE = Path(__file__).parent
FANOUT, WIDTH = 10, 64
TURN_SECONDS = 0.1  # that a turn of short calls lasts
SLOW_SECONDS = 10.0  # a way whose first call takes longer has one round


# -------------------------------------------------------------------------------- graph-build


def measure_builds(ledger: Ledger, path: Path, dataset: str, ways: list[str], rounds: int, threads: int) -> None:
    """Each way to build the graph, in turns."""
    results: dict[str, list[Line]] = {way: [] for way in ways}
    limits = [f"{variable}={threads}" for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")]
    with tempfile.TemporaryDirectory() as out:
        for _ in range(rounds):
            for way in ways:
                command = ["env", *limits, sys.executable, HERE / "graph_builders.py", way, path, out, threads]
                results[way].append(run_process(command).json)
    counts = {run["edges"] for runs in results.values() for run in runs if "edges" in run}
    if len(counts) > 1:
        raise SystemExit(f"{dataset}: the ways disagree on the number of edges: {counts}")
    for way, runs in results.items():
        if "absent" in runs[0]:
            numbers = {"rounds": 0, "note": f"not installed: {runs[0]['absent']}"}
        else:
            numbers = {
                "edges": runs[0]["edges"],
                **spread([run["seconds"] for run in runs], digits=3),
                "best_cpu_s": round(min(run["cpu"] for run in runs), 3),
                "peak_mb": round(max(run["peak_gib"] for run in runs) * 2**30 / 1e6),
            }
        record(ledger, "graph-build", dataset, way, {"threads": threads}, **numbers)


# --------------------------------------------------------------- row-order and neighbor-sampler


def time_in_turns(
    ways: dict[str, Callable[[], Any]], rounds: int, check: Callable[[str, Any], None]
) -> dict[str, list[float]]:
    """Seconds a call of every way, once for each round, in turns.

    A turn is as many calls as fill TURN_SECONDS, one at least. Before the rounds every way is called once to warm up
    (Numba compiles then), and `check` gets its result; a way that was slow then has a single round.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    slow = set()
    for name, way in ways.items():
        began = time.perf_counter()
        result = way()
        if time.perf_counter() - began > SLOW_SECONDS:
            slow.add(name)
        check(name, result)
        del result
    for number in range(rounds):
        for name, way in ways.items():
            if not (number and name in slow):
                seconds[name].append(seconds_a_call(way))
    return seconds


def seconds_a_call(way: Callable[[], Any]) -> float:
    """The mean seconds of as many calls as fill TURN_SECONDS."""
    calls, began = 0, time.perf_counter()
    while True:
        way()
        calls += 1
        seconds = time.perf_counter() - began
        if seconds >= TURN_SECONDS:
            return seconds / calls


def measure_orders(ledger: Ledger, path: Path, dataset: str, rounds: int) -> None:
    """The mean over all neighbourhoods in three orders of the rows."""
    from mean_kernel import mean_at_once

    from rae import build_graph, set_threads

    set_threads(1)
    with tempfile.TemporaryDirectory() as out:
        plain = build_graph(path, Path(out) / "plain")
        local = build_graph(path, Path(out) / "local", order="locality")
        graphs = {
            "rae, in the file's order": (np.array(plain.offsets), np.array(plain.targets)),
            "rae, --order locality": (np.array(local.offsets), np.array(local.targets)),
            "rae, in SciPy's reverse Cuthill-McKee order": cuthill_mckee(plain),
        }
    x = np.ones((plain.n_nodes, WIDTH), np.float32)
    z = np.empty_like(x)
    ways = {row: partial(mean_at_once, *lists, x, z) for row, lists in graphs.items()}
    for row, seconds in time_in_turns(ways, rounds, lambda *_: None).items():
        record(ledger, "row-order", dataset, row, {"threads": 1, "width": WIDTH}, **spread(seconds, digits=6))


def cuthill_mckee(graph: Any) -> tuple[Any, Any]:
    """The neighbour lists with rows in SciPy's order, each list ascending."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    ones = np.ones(len(graph.targets), np.int8)
    matrix = sp.csr_matrix((ones, graph.targets, graph.offsets), shape=(graph.n_nodes,) * 2)
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    ordered = matrix[order][:, order]
    ordered.sort_indices()
    return ordered.indptr.astype(graph.offsets.dtype), ordered.indices.astype(graph.targets.dtype)


def measure_samplers(ledger: Ledger, path: Path, dataset: str, rounds: int, check: bool) -> None:
    """Sampled edges a second of every sampler."""
    import torch
    from neighbor_samplers import NOT_RUN, Sampler, check_sample, samplers

    from rae import read_edges, set_threads

    set_threads(1)
    torch.set_num_threads(1)
    graph = read_edges(path)
    nodes = np.random.default_rng(0).permutation(np.flatnonzero(graph.degrees))  # isolated nodes have no samples
    ways = dict(samplers(graph, nodes, FANOUT))
    installed = {way: sampler for way, sampler in ways.items() if isinstance(sampler, Sampler)}

    def check_first(way: str, result: Any) -> None:
        if check:
            check_sample(installed[way], result, graph, nodes, FANOUT)

    seconds = time_in_turns({way: sampler.sample for way, sampler in installed.items()}, rounds, check_first)
    without_replacement = int(np.minimum(graph.degrees, FANOUT).sum())
    versions = {**pinned("extra_packages.txt"), "torch-geometric": version("torch-geometric")}
    settings = {"threads": 1, "fanout": FANOUT}
    for way, runs in seconds.items():
        edges = len(nodes) * FANOUT if installed[way].replacement else without_replacement
        rates = {f"{name}_m_edges_s": round(edges / f(runs) / 1e6, 1) for name, f in (("best", min), ("worst", max))}
        note = {"note": installed[way].note} if installed[way].note else {}
        numbers = {**rates, "seconds": round(min(runs), 4), "rounds": len(runs), **note, "versions": versions}
        record(ledger, "neighbor-sampler", dataset, way, settings, **numbers)
    reasons = {way: reason for way, reason in ways.items() if isinstance(reason, str)} | NOT_RUN
    for way, reason in reasons.items():
        record(ledger, "neighbor-sampler", dataset, way, settings, rounds=0, note=reason, versions=versions)


def measure_all(options: argparse.Namespace) -> None:
    """Everything on the public graphs and on a generated one."""
    ledger, web = options.results, web_google()
    astro = next((web.parents[1] / "ca-AstroPh").glob("*.gz"))
    ways = [way for way in WAYS if way != "networkx" or options.with_networkx]
    measure_builds(ledger, web, "web-Google", ways, options.rounds, options.threads)
    with tempfile.TemporaryDirectory() as work:
        drawn, name = skewed_edges(options.edges, Path(work) / "edges.parquet")
        measure_builds(ledger, drawn, name, list(WAYS), options.rounds, options.threads)
    measure_orders(ledger, web, "web-Google", options.rounds)
    measure_samplers(ledger, astro, "ca-AstroPh", options.rounds, check=True)
    measure_samplers(ledger, web, "web-Google", options.rounds, check=False)


def measure_quick(ledger: Ledger) -> None:
    """Every table on a graph of a thousand edges."""
    with tempfile.TemporaryDirectory() as work:
        drawn, name = skewed_edges(1000, Path(work) / "edges.parquet")
        measure_builds(ledger, drawn, name, ["rae graph build", "pandas factorize and SciPy CSR"], 1, 1)
        measure_orders(ledger, drawn, name, 1)
        measure_samplers(ledger, drawn, name, 1, check=True)


def skewed_edges(n_edges: int, path: Path) -> tuple[Path, str]:
    """A Parquet file of so many edges among a tenth as many nodes, a few of which have most of them; and its name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    n = n_edges // 10
    ids = rng.permutation(n)
    schema = pa.schema({"source": pa.int64(), "target": pa.int64()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_edges, 1 << 20):
            size = min(1 << 20, n_edges - start)
            source = ids[(n * rng.random(size) ** 2).astype(np.int64)]
            writer.write_table(pa.table({"source": source, "target": rng.integers(n, size=size)}, schema=schema))
    return path, f"power law, {n_edges:,} edges"


def main() -> None:
    arguments = parser(__doc__, "small generated graphs alone, one round", threads=2, rounds=3)
    arguments.add_argument("--edges", type=int, default=1_000_000, help="of the generated graph, ten to a node")
    arguments.add_argument("--with-networkx", action="store_true", help="on web-Google as well: minutes and gigabytes")
    options = arguments.parse_args()
    if options.quick:
        measure_quick(options.results)
    else:
        install_extra_packages()
        measure_all(options)


if __name__ == "__main__":
    main()
