"""Graph build, locality order and sampler, beside what one would pick instead.

    RAE_DATA=... python benchmarks/build.py [--rounds 3] [--edges 1000000] [--threads 2] [--with-networkx] [--quick]

Build: from the gzipped edge list of web-Google and from a Parquet file of a generated power-law graph
to undirected neighbour lists without doubles (builders.py). Each way runs in a process of its own, its imports
included, in turns, and all must find as many edges. Order: the mean over all neighbourhoods, 64 wide, one
thread, in the file's order, after `--order locality` and after SciPy's reverse Cuthill-McKee, in turns in one process.
Sampler: millions of sampled edges a second on one thread, up to ten neighbours of every node, nodes in random
order, all ways in turns in one process (samplers.py); what they draw is checked on the smaller graph.
Best and worst of the rounds are kept as JSON lines in results/build.jsonl.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from alternatives import make_beside, pinned
from builders import WAYS
from lines import RESULTS, Line, Lines, spread
from watched import watch

HERE = Path(__file__).parent
FANOUT = 10
TURN = 0.1  # seconds that a turn of short calls lasts
SLOW = 10.0  # seconds; a way whose first call takes longer has one round


# ------------------------------------------------------------------------------------- build


def build_lines(path: Path, name: str, ways: list[str], rounds: int, threads: int) -> Iterator[Line]:
    found: dict[str, list[Line]] = {way: [] for way in ways}
    limits = [f"{variable}={threads}" for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")]
    with tempfile.TemporaryDirectory() as out:
        for _ in range(rounds):
            for way in ways:
                done = watch(["env", *limits, sys.executable, HERE / "builders.py", way, path, out, threads])
                found[way].append(done.found)
    counts = {run["edges"] for runs in found.values() for run in runs if "edges" in run}
    if len(counts) > 1:
        raise SystemExit(f"{name}: the ways disagree on the number of edges: {counts}")
    for way, runs in found.items():
        row: Line = {"table": "build", "dataset": name, "row": way, "threads": threads}
        if "absent" in runs[0]:
            yield row | {"rounds": 0, "note": f"not installed: {runs[0]['absent']}"}
            continue
        yield {
            **row,
            "edges": runs[0]["edges"],
            **spread([run["seconds"] for run in runs], digits=3),
            "best_cpu_s": round(min(run["cpu"] for run in runs), 3),
            "peak_mb": round(max(run["peak_gib"] for run in runs) * 2**30 / 1e6),
        }


# -------------------------------------------------------------------------- order and sampler


def in_turns(ways: dict[str, Callable[[], Any]], rounds: int, first: Callable[[str, Any], None]) -> dict[str, Any]:
    """Seconds a call of every way, once for each round, in turns.

    A turn is as many calls as fill TURN seconds, one at least. Before the rounds every way is called once to warm up
    and to compile, and `first` sees what it returned; one that was slow then gets a single round.
    """
    spent: dict[str, list[float]] = {name: [] for name in ways}
    slow = set()
    for name, work in ways.items():
        began = time.perf_counter()
        result = work()
        if time.perf_counter() - began > SLOW:
            slow.add(name)
        first(name, result)
        del result
    for round_ in range(rounds):
        for name, work in ways.items():
            if not (round_ and name in slow):
                spent[name].append(seconds_a_call(work))
    return spent


def seconds_a_call(work: Callable[[], Any]) -> float:
    calls, began = 0, time.perf_counter()
    while True:
        work()
        calls += 1
        spent = time.perf_counter() - began
        if spent >= TURN:
            return spent / calls


def order_lines(path: Path, name: str, rounds: int) -> Iterator[Line]:
    from rae import build_graph, set_threads
    from rae.ops import cpu

    set_threads(1)
    with tempfile.TemporaryDirectory() as out:
        plain = build_graph(path, Path(out) / "plain")
        local = build_graph(path, Path(out) / "local", order="locality")
        arrays = {
            "rae, in the file's order": (np.array(plain.offsets), np.array(plain.targets)),
            "rae, --order locality": (np.array(local.offsets), np.array(local.targets)),
        }
        arrays["rae, in SciPy's reverse Cuthill-McKee order"] = _cuthill_mckee(plain)
    x = np.ones((plain.n_nodes, 64), np.float32)
    z = np.empty_like(x)

    def mean(offsets: Any, targets: Any) -> Callable[[], None]:
        return lambda: cpu.mean_rows(offsets, targets, x, 0, z, 0, len(z))

    spent = in_turns({row: mean(*both) for row, both in arrays.items()}, rounds, lambda *_: None)
    for row, runs in spent.items():
        yield {"table": "order", "dataset": name, "row": row, "width": 64, "threads": 1, **spread(runs, digits=6)}


def _cuthill_mckee(graph: Any) -> tuple[Any, Any]:
    """The neighbour lists with rows in SciPy's order, each list ascending."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    matrix = sp.csr_matrix(graph.to_scipy(np.int8))
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    moved = matrix[order][:, order]
    moved.sort_indices()
    return moved.indptr.astype(graph.offsets.dtype), moved.indices.astype(graph.targets.dtype)


def sampler_lines(path: Path, name: str, rounds: int, checked: bool) -> Iterator[Line]:
    import torch
    from samplers import ABSENT, Sampler, check, made

    from rae import read_edges, set_threads

    set_threads(1)
    torch.set_num_threads(1)
    graph = read_edges(path)
    nodes = np.random.default_rng(0).permutation(np.flatnonzero(graph.degrees))  # who has none cannot be drawn for
    ways = dict(made(graph, nodes, FANOUT))
    there = {way: sampler for way, sampler in ways.items() if isinstance(sampler, Sampler)}

    def first(way: str, result: Any) -> None:
        if checked:
            check(there[way], result, graph, nodes, FANOUT)

    spent = in_turns({way: sampler.work for way, sampler in there.items()}, rounds, first)
    once = int(np.minimum(graph.degrees, FANOUT).sum())
    versions = {**pinned("beside.txt"), "torch-geometric": version("torch-geometric")}
    row: Line = {"table": "sampler", "dataset": name, "fanout": FANOUT, "threads": 1, "versions": versions}
    for way, runs in spent.items():
        drawn = len(nodes) * FANOUT if there[way].replacement else once
        rate = {f"{which}_m_edges_s": round(drawn / of(runs) / 1e6, 1) for which, of in (("best", min), ("worst", max))}
        note = {"note": there[way].note} if there[way].note else {}
        yield {**row, "row": way, **rate, "seconds": round(min(runs), 4), "rounds": len(runs), **note}
    for way, why in [*ABSENT.items(), *((way, why) for way, why in ways.items() if isinstance(why, str))]:
        yield {**row, "row": way, "rounds": 0, "note": why}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--edges", type=int, default=1_000_000, help="of the generated graph, ten to a node")
    parser.add_argument("--threads", type=int, default=2, help="of the build; order and sampler take one")
    parser.add_argument("--with-networkx", action="store_true", help="on web-Google as well: minutes and gigabytes")
    parser.add_argument("--quick", action="store_true", help="small generated graphs alone, one round")
    parser.add_argument("--out", type=Path, default=RESULTS / "build.jsonl")
    given = parser.parse_args()
    if not given.quick:
        make_beside()
    kept = Lines(given.out)
    for line in quick_lines() if given.quick else all_lines(given):
        shown = {key: value for key, value in kept.keep(line).items() if key not in ("versions", "machine")}
        print(shown, flush=True)


def all_lines(given: argparse.Namespace) -> Iterator[Line]:
    home = Path(os.environ["RAE_DATA"])
    web, astro = (next((home / name).glob("*.gz")) for name in ("web-Google", "ca-AstroPh"))
    ways = [way for way in WAYS if way != "networkx" or given.with_networkx]
    yield from build_lines(web, "web-Google", ways, given.rounds, given.threads)
    with tempfile.TemporaryDirectory() as work:
        made = power_law(given.edges, Path(work) / "edges.parquet")
        name = f"power law, {given.edges:,} edges"
        yield from build_lines(made, name, list(WAYS), given.rounds, given.threads)
    yield from order_lines(web, "web-Google", given.rounds)
    yield from sampler_lines(astro, "ca-AstroPh", given.rounds, checked=True)
    yield from sampler_lines(web, "web-Google", given.rounds, checked=False)


def quick_lines() -> Iterator[Line]:
    """One line of everything on a graph of a thousand edges."""
    with tempfile.TemporaryDirectory() as work:
        made, name = power_law(1000, Path(work) / "edges.parquet"), "power law, 1,000 edges"
        yield from build_lines(made, name, ["rae graph build", "pandas factorize and SciPy CSR"], 1, 1)
        yield from order_lines(made, name, 1)
        yield from sampler_lines(made, name, 1, checked=True)


def power_law(n_edges: int, path: Path) -> Path:
    """A Parquet file of so many edges among a tenth as many nodes, a few of which have most of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    n = n_edges // 10
    names = rng.permutation(n)
    schema = pa.schema({"source": pa.int64(), "target": pa.int64()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_edges, 1 << 20):
            size = min(1 << 20, n_edges - start)
            source = names[(n * rng.random(size) ** 2).astype(np.int64)]
            writer.write_table(pa.table({"source": source, "target": rng.integers(n, size=size)}, schema=schema))
    return path


if __name__ == "__main__":
    main()
