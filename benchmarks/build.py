"""Graph build, locality order and sampler, beside what one would pick instead.

    RAE_DATA=... python benchmarks/build.py [--rounds 3] [--edges 1000000] [--with-networkx]

Build: from the gzipped edge list of web-Google and from a Parquet file of a generated power-law graph
to undirected neighbour lists without doubles. Each way runs in a process of its own, in turns; best
and worst seconds of the rounds and the peak resident memory are kept. Order: the mean over all
neighbourhoods, 64 wide, in the file's order and after --order locality. Sampler: millions of sampled
edges a second on one thread, without replacement, beside NumPy and PyTorch with replacement.
JSON lines go to results/build.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).parent.parent / "results" / "build.jsonl"


# ------------------------------------------------------------------- ways to build, a process each


def folder(path: Path, out: Path) -> int:
    from rae import build_graph

    return build_graph(path, out / "g", force=True).n_edges


def folder_local(path: Path, out: Path) -> int:
    from rae import build_graph

    return build_graph(path, out / "g", force=True, order="locality").n_edges


def in_memory(path: Path, out: Path) -> int:
    from rae import read_edges

    return read_edges(path).n_edges


def opened(path: Path, out: Path) -> int:
    from rae import open_graph

    return open_graph(out / "g").n_edges


def pandas_scipy(path: Path, out: Path) -> int:
    import pandas as pd
    import scipy.sparse as sp

    codes, ids = pd.factorize(_frame(path).to_numpy().ravel(), sort=True)
    source, target = codes.reshape(-1, 2).T
    ones = np.ones(len(source), np.int8)
    matrix = sp.coo_array((ones, (source, target)), shape=(len(ids),) * 2).tocsr()
    both = (matrix + matrix.T).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    both.sort_indices()
    return both.nnz // 2


def pyg(path: Path, out: Path) -> int:
    import pandas as pd
    import torch
    from torch_geometric.utils import remove_self_loops, to_undirected

    codes, _ = pd.factorize(_frame(path).to_numpy().ravel(), sort=True)
    index = torch.from_numpy(np.ascontiguousarray(codes.reshape(-1, 2).T))
    return to_undirected(remove_self_loops(index)[0]).shape[1] // 2


def networkx(path: Path, out: Path) -> int:
    import networkx as nx

    frame = _frame(path)
    graph = nx.from_pandas_edgelist(frame, *frame.columns)
    graph.remove_edges_from(nx.selfloop_edges(graph))
    return int(graph.number_of_edges())


def _frame(path: Path) -> Any:
    import pandas as pd

    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, sep="\t")


WAYS: dict[str, Callable[[Path, Path], int]] = {
    "rae graph build": folder,
    "rae graph build --order locality": folder_local,
    "rae: open the folder": opened,
    "rae: read_edges, in memory": in_memory,
    "pandas factorize and SciPy CSR": pandas_scipy,
    "pandas factorize and PyG to_undirected": pyg,
    "networkx": networkx,
}


def child(way: str, path: str, out: str) -> None:
    """Run one way and print what it took; imports and compiled code are warm but for the first round."""
    import resource

    before = time.process_time()
    began = time.perf_counter()
    edges = WAYS[way](Path(path), Path(out))
    spent = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"edges": edges, "seconds": spent, "cpu": time.process_time() - before, "peak": peak}))


def build_lines(path: Path, name: str, ways: list[str], rounds: int) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as out:
        for _ in range(rounds):
            for way in ways:
                command = [sys.executable, __file__, "--child", way, str(path), out]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                found[way].append(json.loads(done.stdout))
    lines = []
    for way, runs in found.items():
        edges = {run["edges"] for run in runs}
        lines.append(
            {
                "table": "build",
                "dataset": name,
                "row": way,
                "edges": edges.pop(),
                "best_s": round(min(run["seconds"] for run in runs), 3),
                "worst_s": round(max(run["seconds"] for run in runs), 3),
                "best_cpu_s": round(min(run["cpu"] for run in runs), 3),
                "peak_mb": round(max(run["peak"] for run in runs) / 1e6),
                "rounds": rounds,
            }
        )
        print(lines[-1], flush=True)
    return lines


# -------------------------------------------------------------------------- order and sampler


def timed(work: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Best and worst seconds of several rounds after one that warms up."""
    work()
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return min(spent), max(spent)


def order_lines(path: Path, name: str, rounds: int) -> list[dict[str, Any]]:
    from rae import build_graph
    from rae.kernels import cpu

    lines = []
    for order in ("none", "locality"):
        with tempfile.TemporaryDirectory() as out:
            graph = build_graph(path, Path(out) / "g", order=order)
            x = np.ones((graph.n_nodes, 64), np.float32)
            z = np.empty_like(x)
            offsets, targets = np.array(graph.offsets), np.array(graph.targets)
            best, worst = timed(lambda: cpu.mean_rows(offsets, targets, x, 0, z, 0, len(z)), rounds)  # noqa: B023
        row = {"table": "order", "dataset": name, "row": order, "width": 64, "threads": 1}
        lines.append(row | {"best_s": round(best, 4), "worst_s": round(worst, 4), "rounds": rounds})
        print(lines[-1], flush=True)
    return lines


def sampler_lines(path: Path, name: str, rounds: int) -> list[dict[str, Any]]:
    import torch

    from rae import read_edges, set_threads
    from rae.sampling import sample_neighbors

    set_threads(1)
    torch.set_num_threads(1)
    graph = read_edges(path)
    nodes, fanout = np.random.default_rng(0).permutation(graph.n_nodes), 10
    total = int(np.minimum(graph.degrees, fanout).sum())
    degrees, starts = graph.degrees[nodes], graph.offsets[nodes]
    rng = np.random.default_rng(1)

    def numpy_way() -> Any:
        pick = (rng.random((len(nodes), fanout)) * degrees[:, None]).astype(np.int64)
        return graph.targets[starts[:, None] + pick]

    d, s, t = (torch.from_numpy(np.array(a)) for a in (degrees, starts, graph.targets))

    def torch_way() -> Any:
        return t[s[:, None] + (torch.rand(len(d), fanout) * d[:, None]).long()]

    ways = {
        "rae, without replacement": (lambda: sample_neighbors(graph, nodes, fanout, np.uint64(7)), total),
        "NumPy, with replacement": (numpy_way, len(nodes) * fanout),
        "PyTorch, with replacement": (torch_way, len(nodes) * fanout),
    }
    lines = []
    for way, (work, sampled) in ways.items():
        best, worst = timed(work, rounds)
        row = {"table": "sampler", "dataset": name, "row": way, "fanout": fanout, "threads": 1, "rounds": rounds}
        lines.append(
            row | {"best_m_edges_s": round(sampled / best / 1e6, 1), "worst_m_edges_s": round(sampled / worst / 1e6, 1)}
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:5])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--edges", type=int, default=1_000_000, help="of the generated graph, ten to a node")
    parser.add_argument("--with-networkx", action="store_true", help="minutes and gigabytes on web-Google")
    given = parser.parse_args()
    from rae.evaluation.evidence import machine

    home = Path(os.environ["RAE_DATA"])
    web, astro = (next((home / name).glob("*.gz")) for name in ("web-Google", "ca-AstroPh"))
    ways = [way for way in WAYS if way != "networkx"]
    lines = build_lines(web, "web-Google", [*ways, *(["networkx"] if given.with_networkx else [])], given.rounds)
    with tempfile.TemporaryDirectory() as folder:
        made = power_law(given.edges, Path(folder) / "edges.parquet")
        lines += build_lines(made, f"power law, {given.edges:,} edges", list(WAYS), given.rounds)
    lines += order_lines(web, "web-Google", given.rounds)
    lines += sampler_lines(astro, "ca-AstroPh", given.rounds) + sampler_lines(web, "web-Google", given.rounds)
    with OUT.open("a", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line | machine() | {"load": round(os.getloadavg()[0], 1)}) + "\n")


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
