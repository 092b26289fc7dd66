"""The mean over neighbourhoods, on which embedding spends most: against the machine's limit and the alternatives.

    RAE_DATA=... python benchmarks/embedding.py [--threads 1,2] [--rounds 4] [--widths 64,192] [--quick]

mean({u} ∪ N(u)) of web-Google's nodes in the file's own order, and in the one that `rae graph build --order
locality` gives. The limit is the faster of two ways to read as many uniformly random rows and add them up: a
loop that does nothing else, with every row fetched early as ours are, and our own kernel over lists of the
same lengths with neighbours drawn at random, which reads the ego's row as well. All racers run in turns in one
process; their results are compared once. Bytes are those of the neighbours' rows: the ego's own row and the
writing of the mean come on top, as time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from drawn import draw_edges
from lines import RESULTS, Line, Lines, spread
from rae.engine.exact import TILE

import rae
from rae.ops import cpu
from rae.ops.intrinsics import aligned, fetch_row
from rae.runtime import generator, in_ranges

AHEAD = 24  # rows on their way while one is added: more did not make the loop faster
LIMIT, TORCH = "limit: rows read at random", "torch.sparse CSR"
LIMITS = {  # ways to the limit, of which the faster is kept
    "limit, by a loop": "the faster of two ways, here a loop that adds rows up and does nothing else",
    "limit, by our kernel": "the faster of two ways, here our own kernel over neighbours drawn at random, "
    "which reads the ego's row as well",
}
NOTES = {
    "ours": "a tile of 2,048 means at a time, each used at once as embedding does",
    TORCH: "64-bit indices, what torch makes by default",
    "ours, half precision": "rows stored as float16, half the bytes",
}
CLOSE = {"ours, half precision": 1e-3}  # how far a result may be off, else 1e-5

Work = Callable[..., Any]


@cpu.kernel
def sum_at_random(index, x, out, start, stop):
    """out[0] = sum of x[index[start:stop]], and nothing else."""
    total = np.zeros(x.shape[1], np.float32)
    for e in range(start, stop):
        if e + AHEAD < len(index):
            fetch_row(x, index[e + AHEAD])
        row = x[index[e]]
        for j in range(len(total)):
            total[j] += row[j]
    for j in range(len(total)):
        out[0, j] = total[j]


def tiles(work: Callable[[int, int], None], n: int) -> None:
    """work(a, b) for every tile, spread over the threads as embedding does."""

    def some(first: int, last: int) -> None:
        for a in range(first * TILE, min(last * TILE, n), TILE):
            work(a, min(a + TILE, n))

    in_ranges(some, -(-n // TILE))


def ours(graph: rae.Graph, rows: Any, width: int, targets: Any = None) -> Callable[..., None]:
    """Every mean, tile by tile, each into the array given or none kept; of other targets than the graph's if given."""
    index = graph.targets if targets is None else targets

    def run(kept: Any = None) -> None:
        def tile(a: int, b: int) -> None:
            out = aligned((b - a, width)) if kept is None else kept[a:b]
            cpu.mean_rows(graph.offsets[a : b + 1], index, rows, a, out, 0, b - a)

        tiles(tile, graph.n_nodes)

    return run


def averaging(graph: rae.Graph) -> sp.csr_array:
    """The matrix that averages {u} ∪ N(u), with the 32-bit indices that SciPy prefers."""
    n = graph.n_nodes
    with_self = graph.to_scipy(np.float32) + sp.eye_array(n, dtype=np.float32)
    share = (1 / (1.0 + graph.degrees)).astype(np.float32)
    data = with_self.data * np.repeat(share, np.diff(with_self.indptr))
    return sp.csr_array((data, with_self.indices.astype(np.int32), with_self.indptr.astype(np.int32)), shape=(n, n))


def torch_csr(mean: sp.csr_array, dtype: Any) -> torch.Tensor:
    ends, entries = (torch.from_numpy(a.astype(dtype)) for a in (mean.indptr, mean.indices))
    return torch.sparse_csr_tensor(ends, entries, torch.from_numpy(mean.data), mean.shape)


def at_a_line(rows: Any) -> Any:
    """The same rows from the beginning of a cache line on, where torch's own arrays and ours begin."""
    out = aligned(rows.shape, rows.dtype)
    out[:] = rows
    return out


def racers(graph: rae.Graph, near: rae.Graph, width: int) -> dict[str, Work]:
    """Every way to the same means, as functions of nothing, and those to the limit."""
    n = graph.n_nodes
    rng = generator(0, "benchmark", width)
    x = at_a_line(rng.random((n, width), dtype=np.float32))
    x_near = at_a_line(x[graph.rows(near.ids)])
    half = at_a_line(x.astype(np.float16).view(np.uint16))
    anywhere = rng.integers(n, size=len(graph.targets)).astype(graph.targets.dtype)

    def loop() -> None:
        in_ranges(lambda a, b: sum_at_random(anywhere, x, np.empty((1, width), np.float32), a, b), len(anywhere))

    mean = averaging(graph)
    csr, csr32, csr_near = torch_csr(mean, np.int64), torch_csr(mean, np.int32), torch_csr(averaging(near), np.int64)
    ends, entries = csr32.crow_indices(), csr32.col_indices()
    dense, dense_near = torch.from_numpy(x), torch.from_numpy(x_near)
    mine = ours(graph, x, width)
    return {
        **dict(zip(LIMITS, (loop, ours(graph, x, width, anywhere)), strict=True)),
        "ours": mine,
        "ours, all means kept": lambda: mine(aligned((n, width))),  # fresh, as the others give it
        "ours, half precision": ours(graph, half, width),
        "ours, locality order": ours(near, x_near, width),
        TORCH: lambda: csr @ dense,
        "torch.sparse CSR, 32-bit indices": lambda: csr32 @ dense,
        "torch.sparse.mm, reduce='sum'": lambda: torch.sparse.mm(csr, dense, "sum"),
        "torch.sparse CSR, locality order": lambda: csr_near @ dense_near,
        "embedding_bag": lambda: torch.nn.functional.embedding_bag(entries, dense, ends[:-1], mode="mean"),
        "SciPy CSR": lambda: mean @ x,
    }


def check(runners: dict[str, Work], graph: rae.Graph, near: rae.Graph) -> None:
    """Refuse to time ways that do not lead to the same means; this also warms them up."""
    expected = runners["SciPy CSR"]()
    moved = expected[graph.rows(near.ids)]
    for name in LIMITS:
        runners[name]()
    for name in [name for name in runners if name not in (*LIMITS, "ours, all means kept")]:
        if name.startswith("ours"):
            found = np.empty_like(expected)
            runners[name](found)
        else:
            found = np.asarray(runners[name]())
        off = float(np.abs(found - (moved if "locality" in name else expected)).max())
        if off > CLOSE.get(name, 1e-5):
            raise SystemExit(f"{name} is off by {off:.2g}; it does not compute the same")


def race(runners: dict[str, Work], width: int, n_targets: int, rounds: int) -> list[Line]:
    """One line per racer, and one for the limit."""
    times: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in runners.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    times, found = faster_limit(times)
    best = {name: min(spent) for name, spent in times.items()}
    moved = 4 * width * n_targets
    return [
        {
            "row": name,
            "width": width,
            **spread(spent, "ms", 1),
            "gigabytes_per_s": round(moved / best[name] / 1e9, 2),
            "of_limit": round(best[LIMIT] / best[name], 3),
            "times_torch": round(best[TORCH] / best[name], 2),
            **({"note": NOTES[name]} if name in NOTES else {}),
            **(found if name == LIMIT else {}),
        }
        for name, spent in times.items()
    ]


def faster_limit(times: dict[str, list[float]]) -> tuple[dict[str, list[float]], Line]:
    """The times with one limit, that of the faster way, and what its line says of the two."""
    first, second = sorted(LIMITS, key=lambda name: min(times[name]))
    others = {name: spent for name, spent in times.items() if name not in LIMITS}
    told = {"way": first, "other_way_ms": round(1e3 * min(times[second]), 1), "note": LIMITS[first]}
    return {LIMIT: times[first], **others}, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--widths", default="64,192")
    parser.add_argument("--quick", action="store_true", help="a small generated graph, 8 columns, one round")
    parser.add_argument("--out", type=Path, default=RESULTS / "embedding.jsonl")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "Sparse")  # torch calls its CSR support beta
    lines = Lines(options.out)
    with tempfile.TemporaryDirectory() as home:
        work = Path(home)
        name, edges = _source(options.quick, work)
        graph = rae.build_graph(edges, work / "plain")
        near = rae.build_graph(edges, work / "near", order="locality")
        for width in [8] if options.quick else map(int, options.widths.split(",")):
            runners = racers(graph, near, width)
            check(runners, graph, near)
            for threads in map(int, options.threads.split(",")):
                torch.set_num_threads(threads)
                rae.set_threads(threads)
                for line in race(runners, width, len(graph.targets), 1 if options.quick else options.rounds):
                    lines.keep({"table": "mean", "dataset": name, "threads": threads, **line})
                    _show(line, threads)


def _source(quick: bool, work: Path) -> tuple[str, Path]:
    if quick:
        return "power law, 5,000 edges", draw_edges(work / "edges.parquet", 1_000, 5_000)
    return "web-Google", Path(os.environ["RAE_DATA"]) / "web-Google" / "web_Google.txt.gz"


def _show(line: Line, threads: int) -> None:
    times = f"{line['best_ms']:8.1f} ms best, {line['worst_ms']:8.1f} worst, {line['gigabytes_per_s']:6.2f} GB/s"
    ratios = f"{line['of_limit']:5.0%} of the limit, {line['times_torch']:5.2f} x torch"
    print(f"{threads} threads, width {line['width']:3}  {line['row']:34} {times}, {ratios}", flush=True)


if __name__ == "__main__":
    main()
