"""What weights and directions cost: processor seconds beside the plain graph, and the bytes that each must move.

    python benchmarks/weighted_edges.py [--edges 5000000] [--rounds 5] [--quick]
    python benchmarks/weighted_edges.py --large 100000000 --memory 5GiB [--work FOLDER]

moments   mean over neighbours of 64 columns: all edges alike; by the weights of an undirected graph; along both
          directions of a directed one, one after the other
place     the structural vectors of default settings, plain, and weighted and directed
read      a Parquet file of the edges to a graph in memory, plain, and weighted and directed

`bytes` is what must be moved at least: a row for each neighbour that counts, its number, its weight in each channel
that is read, and the rows that are made. Seconds are those of the processor, so that other work on the machine counts
little; rounds are interleaved, and the fastest of each counts. `cost` is seconds over bytes, both relative to the plain
graph.

With --large it is instead `rae graph build`, `rae plan` and `rae fit` of so many weighted and directed edges, drawn
with degrees of a power law, each in its own process: seconds, and the peak of memory beside the planned one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from power_law import draw_edges
from power_law import name as name_of
from processes import RAE, ProcessResult, run_process
from recording import all_cores, parser, record

import rae
from rae.engine import models_of
from rae.engine.embedding import embed
from rae.graph import Graph
from rae.io import read_edges
from rae.ops.gather import moments

WIDTH = 64


def edge_table(n_nodes: int, n_edges: int) -> pa.Table:
    """Edges between nodes with degrees of a power law, with amounts."""
    graph = rae.datasets.load("power-law", n_nodes=n_nodes, n_edges=n_edges).graph
    rng = np.random.default_rng(0)
    ends = graph.edges()[rng.permutation(graph.n_edges)]
    turned = rng.random(len(ends)) < 0.5
    ends[turned] = ends[turned][:, ::-1]
    return pa.table({"sender": ends[:, 0], "receiver": ends[:, 1], "amount": rng.gamma(0.7, 80.0, len(ends))})


def gather_bytes(graph: Graph, counted: int, width: int, channels: int) -> int:
    """Bytes that averaging must move: rows of those that count, neighbours and weights, and the rows that are made."""
    return 4 * width * (counted + graph.n_nodes) + 4 * len(graph.targets) * (1 + channels)


def place_bytes(graph: Graph) -> int:
    """Bytes that the levels of `place` must move."""
    entries, settings = len(graph.targets), rae.ExactConfig()
    averaged = 8 if graph.channels else 4
    total = gather_bytes(graph, entries, averaged, 0) * len(settings.level_weights)
    for array in graph.channels.values():
        total += gather_bytes(graph, int(np.count_nonzero(array)), averaged, 1)
    return total


def seconds_of(jobs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least seconds of each job, all of them in turns: what others do on the machine only adds to them."""
    for job in jobs.values():
        job()
    spent: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            began = time.process_time()
            job()
            spent[name].append(time.process_time() - began)
    return {name: min(values) for name, values in spent.items()}


def main() -> None:
    arguments = parser(__doc__, "20,000 edges, one round", rounds=5)
    arguments.add_argument("--edges", type=int, default=5_000_000)
    arguments.add_argument("--large", type=int, help="edges of one graph for the commands, in their own processes")
    arguments.add_argument("--memory", default="5GiB", help="what `rae fit` may take of a --large graph")
    arguments.add_argument("--work", type=Path, help="folder for what a --large graph takes: 200 bytes an edge")
    options = arguments.parse_args()
    if options.large:
        commands(options.large, options.memory, options.work, options.results)
        return
    n_edges, rounds = (20_000, 1) if options.quick else (options.edges, options.rounds)
    table = edge_table(n_edges // 10, n_edges)
    plain = Graph.from_dataframe(table)
    weighted = Graph.from_dataframe(table, weight="amount")
    directed = Graph.from_dataframe(table, weight="amount", directed=True)
    settings = {"edges": n_edges, "nodes": plain.n_nodes, "rounds": rounds}

    x, entries = torch.ones((plain.n_nodes, WIDTH)), len(plain.targets)
    at, to = plain.offsets, plain.targets
    out, into = directed.channels["out"], directed.channels["in"]
    moved = {
        "plain": gather_bytes(plain, entries, WIDTH, 0),
        "weighted": gather_bytes(plain, entries, WIDTH, 1),
        "both directions": sum(gather_bytes(plain, int(np.count_nonzero(c)), WIDTH, 1) for c in (out, into)),
    }
    jobs = {
        "plain": lambda: moments(x, at, to),
        "weighted": lambda: moments(x, at, to, weights=weighted.channels["weight"]),
        "both directions": lambda: (moments(x, at, to, weights=out), moments(x, at, to, weights=into)),
    }
    report(options.results, "moments", settings, seconds_of(jobs, rounds), moved)

    models = {name: rae.RAE(views=2).fit(graph) for name, graph in (("plain", plain), ("both directions", directed))}
    graphs = {"plain": plain, "both directions": directed}
    place_models = {name: {"place": models_of(model.fitted, graphs[name])["place"]} for name, model in models.items()}
    jobs = {name: lambda place=place: embed(place) for name, place in place_models.items()}
    report(options.results, "place", settings, seconds_of(jobs, rounds), {n: place_bytes(graphs[n]) for n in graphs})

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.parquet"
        pq.write_table(table, path)
        jobs = {
            "plain": lambda: read_edges(path),
            "both directions": lambda: read_edges(path, weight="amount", directed=True),
        }
        reads = {"plain": 16 * n_edges, "both directions": 24 * n_edges}  # columns in, then sorted
        report(options.results, "read", settings, seconds_of(jobs, rounds), reads)


def commands(n_edges: int, memory: str, work: Path | None, ledger: object) -> None:
    """Build, plan and fit one large graph, weighted and directed, and record what each takes."""
    settings = {"edges": n_edges, "memory": memory, "threads": all_cores()}
    with tempfile.TemporaryDirectory(dir=work) as place:
        edges, folder = Path(place) / "edges.parquet", Path(place) / "graph"
        draw_edges(edges, n_edges // 10, n_edges, weighted=True)
        build = run_process(
            [*RAE, "graph", "build", edges, "--out", folder, "--weight", "amount", "--directed", "--quiet"]
        )
        edges.unlink()
        record(ledger, "large-weighted", name_of(n_edges), "rae graph build", settings, **taken(build))
        plan = run_process([*RAE, "plan", folder, "--memory", memory, "--json", "--quiet"]).json
        fit = ["fit", folder, "--out", Path(place) / "run", "--memory", memory, "--no-page", "--lean", "--quiet"]
        real = run_process([*RAE, *fit])
        planned = {
            "planned_gib": round(plan["memory"]["peak"] / 2**30, 2),
            "planned_s": round(plan["seconds"]["total"]),
        }
        record(ledger, "large-weighted", name_of(n_edges), "rae fit", settings, **taken(real), **planned)


def taken(result: ProcessResult) -> dict[str, float]:
    """Seconds, processor seconds and the peak of a command."""
    seconds = {"best_s": round(result.seconds, 1), "rounds": 1, "cpu_s": round(result.cpu_s, 1)}
    return seconds | {"peak_gib": round(result.peak_gib, 2)}


def report(ledger: object, row: str, settings: dict, seconds: dict[str, float], moved: dict[str, int]) -> None:
    """Record seconds, bytes and the cost of each way relative to the plain graph."""
    for way, spent in seconds.items():
        ratio, bytes_ratio = spent / seconds["plain"], moved[way] / moved["plain"]
        numbers = {"seconds": round(spent, 4), "ratio": round(ratio, 3), "bytes_ratio": round(bytes_ratio, 3)}
        numbers["cost"] = round(ratio / bytes_ratio, 3)
        record(ledger, "weighted-edges", "power-law", f"{row}: {way}", settings, **numbers)


if __name__ == "__main__":
    main()
