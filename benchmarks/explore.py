"""How long `rae explore` takes on a large run and how much memory, and how faithful the map is.

    python benchmarks/explore.py                  a million nodes
    python benchmarks/explore.py --nodes 200000
    python benchmarks/explore.py --faithful       how many of the nearest in space are nearest on the map

Each line of output is one JSON object, appended to results/explore.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

import rae
from rae.explore.layout import map_positions
from rae.graph import Graph
from rae.run import Run
from rae.search import nearest_by_cosine

RESULTS = Path(__file__).parents[1] / "results" / "explore.jsonl"


def planted_run(folder: Path, n: int, width: int = 256, edges: int = 10) -> Run:
    """A run of n nodes and 12 planted groups in vectors as wide as the default, on a graph with hubs."""
    rng = np.random.default_rng(0)
    ends = (n * rng.random(edges * n // 2) ** 2).astype(np.int64), rng.integers(n, size=edges * n // 2)
    ids = pa.array([f"account-{i:07d}" for i in range(n)])
    graph = Graph.from_scipy(sp.coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(n, n)), ids=ids)
    centers = rng.standard_normal((12, width), dtype=np.float32)
    group = rng.integers(12, size=n)
    z = centers[group] + 0.5 * rng.random((n, 1), dtype=np.float32) * centers[(group + 1) % 12]
    z += 0.35 * rng.standard_normal((n, width), dtype=np.float32)
    model = rae.RAE(dims=(4,), fanout=(2,), steps=0).fit(Graph.from_edges([(0, 1), (1, 2)]))
    return Run.create(folder, model, graph.id_column, z, graph=graph, counts={"nodes": n, "edges": graph.n_edges})


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds and peak memory in GiB of a command of its own."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    spent = time.perf_counter() - began
    return spent, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def size_and_time(n: int) -> dict[str, object]:
    """`rae explore` on a planted run that has its roles."""
    with tempfile.TemporaryDirectory() as home:
        run = planted_run(Path(home) / "run", n)
        run.fit_roles(12)
        spent, memory = timed([sys.executable, "-m", "rae", "explore", str(run.path), "--quiet"])
        written = (run.path / "explore" / "index.html").stat().st_size
    return {
        "what": "explore",
        "nodes": n,
        "seconds": round(spent, 1),
        "GiB": round(memory, 2),
        "MB": round(written / 1e6, 1),
    }


def faithful(k: int = 10) -> dict[str, object]:
    """The share of a node's k nearest by cosine that are among its 2 k nearest on the map; ours and t-SNE's."""
    from sklearn.manifold import TSNE

    data = rae.datasets.load("stdlib")
    z = rae.RAE(steps=200).fit_transform(data.graph, data.features)
    index, cosine = nearest_by_cosine(z, z, 15, skip=np.arange(len(z)))
    began = time.perf_counter()
    ours = map_positions(z, index, cosine)
    ours_seconds = time.perf_counter() - began
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    began = time.perf_counter()
    theirs = TSNE(init="pca", random_state=0).fit_transform(unit)
    theirs_seconds = time.perf_counter() - began
    kept = {}
    for name, xy in (("map", ours), ("tsne", theirs)):
        far = ((xy[:, None] - xy[None]) ** 2).sum(-1)
        np.fill_diagonal(far, np.inf)
        near = np.argsort(far, axis=1)[:, : 2 * k]
        kept[name] = float(np.mean([np.isin(index[i, :k], near[i]).mean() for i in range(len(z))]))
    return {
        "what": "faithful",
        "nodes": len(z),
        "map": round(kept["map"], 3),
        "tsne": round(kept["tsne"], 3),
        "map_seconds": round(ours_seconds, 2),
        "tsne_seconds": round(theirs_seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--faithful", action="store_true")
    parser.add_argument("--quick", action="store_true", help="five hundred nodes")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    record = faithful() if asked.faithful else size_and_time(500 if asked.quick else asked.nodes)
    record |= {"cores": len(os.sched_getaffinity(0)), "machine": platform.machine(), "date": time.strftime("%Y-%m-%d")}
    print(json.dumps(record))
    with asked.out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
