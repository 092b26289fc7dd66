"""The mean over neighbourhoods, on which embedding spends most: against the machine's limit and the alternatives.

    RAE_DATA=... python benchmarks/neighborhood_mean.py [--threads 1,2] [--rounds 4] [--widths 64,192] [--quick]

mean({u} ∪ N(u)) of web-Google's nodes in the file's own order, and in the one that `rae graph build --order
locality` gives. The limit is the faster of two ways to read as many uniformly random rows and add them up: a
loop that does nothing else, with every row prefetched as ours are, and our own kernel over lists of the same
lengths with random neighbours, which reads the ego's row as well. All ways run in turns in one process; their
results are compared once. Bytes are those of the neighbours' rows: the ego's own row and the
writing of the mean come on top, as time.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from mean_kernel import cache_aligned, mean_in_chunks, sum_rows
from measurements import spread
from power_law import draw_edges
from recording import parser, record, web_google

import rae
from rae.evaluation.ledger import Line
from rae.memory import aligned_empty

LIMIT, TORCH = "limit: rows read at random", "torch.sparse CSR"
LIMIT_BY_LOOP, LIMIT_BY_KERNEL = "limit, by a loop", "limit, by our kernel"
LIMITS = {  # ways to the limit, of which the faster is recorded
    LIMIT_BY_LOOP: "the faster of two ways, here a loop that adds rows up and does nothing else",
    LIMIT_BY_KERNEL: "the faster of two ways, here our own kernel over neighbours drawn at random, "
    "which reads the ego's row as well",
}
NOTES = {
    "ours": "a tile of 2,048 means at a time, each used at once as embedding does",
    TORCH: "64-bit indices, what torch makes by default",
    "ours, half precision": "rows stored as float16, half the bytes",
}
TOLERANCE = {"ours, half precision": 1e-3}  # largest error allowed, else 1e-5

Way = Callable[..., Any]


def averaging(graph: rae.Graph) -> sp.csr_array:
    """The matrix that averages {u} ∪ N(u), with the 32-bit indices that SciPy prefers."""
    n = graph.n_nodes
    ones = np.ones(len(graph.targets), np.float32)
    with_self = sp.csr_array((ones, graph.targets, graph.offsets), shape=(n, n)) + sp.eye_array(n, dtype=np.float32)
    share = (1 / (1.0 + graph.degrees)).astype(np.float32)
    data = with_self.data * np.repeat(share, np.diff(with_self.indptr))
    return sp.csr_array((data, with_self.indices.astype(np.int32), with_self.indptr.astype(np.int32)), shape=(n, n))


def torch_csr(mean: sp.csr_array, dtype: Any) -> torch.Tensor:
    ends, entries = (torch.from_numpy(a.astype(dtype)) for a in (mean.indptr, mean.indices))
    return torch.sparse_csr_tensor(ends, entries, torch.from_numpy(mean.data), mean.shape)


def ways_to_mean(graph: rae.Graph, local: rae.Graph, width: int) -> dict[str, Way]:
    """Every way to the same means, as functions without arguments, and those to the limit."""
    n = graph.n_nodes
    rng = np.random.default_rng(width)
    x = cache_aligned(rng.random((n, width), dtype=np.float32))
    x_local = cache_aligned(x[graph.rows(local.ids)])
    half = cache_aligned(x.astype(np.float16))
    random_targets = rng.integers(n, size=len(graph.targets)).astype(graph.targets.dtype)
    mean = averaging(graph)
    csr, csr32, csr_local = torch_csr(mean, np.int64), torch_csr(mean, np.int32), torch_csr(averaging(local), np.int64)
    ends, entries = csr32.crow_indices(), csr32.col_indices()
    dense, dense_local = torch.from_numpy(x), torch.from_numpy(x_local)
    ours = mean_in_chunks(graph.offsets, graph.targets, x)
    return {
        LIMIT_BY_LOOP: lambda: sum_rows(random_targets, x),
        LIMIT_BY_KERNEL: mean_in_chunks(graph.offsets, random_targets, x),
        "ours": ours,
        "ours, all means kept": lambda: ours(aligned_empty((n, width))),  # a new array, as the others return
        "ours, half precision": mean_in_chunks(graph.offsets, graph.targets, half),
        "ours, locality order": mean_in_chunks(local.offsets, local.targets, x_local),
        TORCH: lambda: csr @ dense,
        "torch.sparse CSR, 32-bit indices": lambda: csr32 @ dense,
        "torch.sparse.mm, reduce='sum'": lambda: torch.sparse.mm(csr, dense, "sum"),
        "torch.sparse CSR, locality order": lambda: csr_local @ dense_local,
        "embedding_bag": lambda: torch.nn.functional.embedding_bag(entries, dense, ends[:-1], mode="mean"),
        "SciPy CSR": lambda: mean @ x,
    }


def check(ways: dict[str, Way], graph: rae.Graph, local: rae.Graph) -> None:
    """Raise an error if the ways do not lead to the same means; this also warms them up."""
    expected = ways["SciPy CSR"]()
    in_local_order = expected[graph.rows(local.ids)]
    for name, way in ways.items():
        if name in LIMITS or name == "ours, all means kept":
            way()
            continue
        if name.startswith("ours"):
            means = np.empty_like(expected)
            way(means)
        else:
            means = np.asarray(way())
        error = float(np.abs(means - (in_local_order if "locality" in name else expected)).max())
        if error > TOLERANCE.get(name, 1e-5):
            raise SystemExit(f"{name} is off by {error:.2g}; it does not compute the same")


def measure(ways: dict[str, Way], width: int, n_targets: int, rounds: int) -> Iterator[tuple[str, Line]]:
    """The numbers of each way, in turns, and of the limit."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - began)
    times, limit = faster_limit(times)
    best = {name: min(seconds) for name, seconds in times.items()}
    for name, seconds in times.items():
        yield (
            name,
            {
                **spread(seconds, "ms", 1),
                "gigabytes_per_s": round(4 * width * n_targets / best[name] / 1e9, 2),
                "of_limit": round(best[LIMIT] / best[name], 3),
                "times_torch": round(best[TORCH] / best[name], 2),
                **({"note": NOTES[name]} if name in NOTES else {}),
                **(limit if name == LIMIT else {}),
            },
        )


def faster_limit(times: dict[str, list[float]]) -> tuple[dict[str, list[float]], Line]:
    """The times with one limit, that of the faster way, and the facts of its line about both ways."""
    first, second = sorted(LIMITS, key=lambda name: min(times[name]))
    others = {name: seconds for name, seconds in times.items() if name not in LIMITS}
    facts = {"way": first, "other_way_ms": round(1e3 * min(times[second]), 1), "note": LIMITS[first]}
    return {LIMIT: times[first], **others}, facts


def main() -> None:
    arguments = parser(__doc__, "a small generated graph, 8 columns, one round", rounds=4)
    arguments.add_argument("--threads", default="1,2")
    arguments.add_argument("--widths", default="64,192")
    options = arguments.parse_args()
    warnings.filterwarnings("ignore", "Sparse")  # torch calls its CSR support beta
    with tempfile.TemporaryDirectory() as home:
        work = Path(home)
        dataset, edges = "web-Google", None if options.quick else web_google()
        if options.quick:
            dataset, edges = "power law, 5,000 edges", draw_edges(work / "edges.parquet", 1_000, 5_000)
        graph = rae.build_graph(edges, work / "plain")
        local = rae.build_graph(edges, work / "local", order="locality")
        for width in [8] if options.quick else map(int, options.widths.split(",")):
            ways = ways_to_mean(graph, local, width)
            check(ways, graph, local)
            for threads in map(int, options.threads.split(",")):
                torch.set_num_threads(threads)
                rae.set_threads(threads)
                settings = {"threads": threads, "width": width}
                rounds = 1 if options.quick else options.rounds
                for row, numbers in measure(ways, width, len(graph.targets), rounds):
                    record(options.results, "neighborhood-mean", dataset, row, settings, **numbers)


if __name__ == "__main__":
    main()
