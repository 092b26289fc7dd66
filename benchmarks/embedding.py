"""Whole-graph embedding: the mean kernel against the machine's limit and the alternatives, and all of it end to end.

    RAE_DATA=... python benchmarks/embedding.py [--threads 1] [--rounds 5] [--widths 64,192] [--sizes 1e6,1e7]

The kernel: mean({u} ∪ N(u)) of web-Google's nodes in the file's own order. The limit is a loop that
reads as many rows at random and adds them up, nothing else, with every row fetched early as ours
are. All racers run in turns in one process; best and spread of the rounds are kept. Bytes are those
of the neighbours' rows: the ego's own row and the writing of the mean come on top for us, and count
as time.

End to end: `embed_to` on power-law graphs of so many edges (a tenth as many nodes), from a graph
folder to Parquet, each in a process of its own: seconds, edges x dims per second, peak resident memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

import rae
from rae.inference.exact import TILE
from rae.kernels import cpu
from rae.kernels.hardware import fetch_row
from rae.runtime import generator, in_ranges

EMBED = """
import json, re, sys, time
import rae
from rae.io.graphs import open_graph
folder, memory, out, half, dtype, threads = sys.argv[1:]
rae.set_threads(int(threads))
tiny = rae.datasets.load("power-law", n_nodes=100, n_edges=200).graph
model = rae.RAE(steps=0).fit(tiny)
model.embed_to(out, tiny, memory=memory)  # compile
began = time.perf_counter()
graph = open_graph(folder)
opened = time.perf_counter()
width = model.embed_to(out, graph, memory=memory, half=half == "half", dtype=dtype)
done = time.perf_counter()
# Not ru_maxrss: that begins with the memory of the process that started this one.
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(json.dumps({"open_s": round(opened - began, 2), "embed_s": round(done - opened, 2), "peak_bytes": peak,
                  "width": width, "n_nodes": graph.n_nodes, "n_edges": graph.n_edges}))
"""


@cpu.kernel
def sum_at_random(index, x, out, start, stop):
    """out[0] = sum of x[index[start:stop]], and nothing else: the limit of any gathering."""
    total = np.zeros(x.shape[1], np.float32)
    for e in range(start, stop):
        if e + cpu.AHEAD < len(index):
            fetch_row(x, index[e + cpu.AHEAD])
        row = x[index[e]]
        for j in range(len(total)):
            total[j] += row[j]
    for j in range(len(total)):
        out[0, j] = total[j]


def tiles(work, n: int) -> None:
    def some(first: int, last: int) -> None:
        for a in range(first * TILE, min(last * TILE, n), TILE):
            work(a, min(a + TILE, n))

    in_ranges(some, -(-n // TILE))


def racers(graph: rae.Graph, width: int) -> dict:
    """Every way to the same means, as functions of nothing, and the limit."""
    n, offsets, targets = graph.n_nodes, graph.offsets, graph.targets
    rng = generator(0, "benchmark", width)
    x = rng.random((n, width), dtype=np.float32)
    half = x.astype(np.float16).view(np.uint16)
    anywhere = rng.integers(n, size=len(targets)).astype(targets.dtype)

    def ours(rows):
        def tile(a: int, b: int) -> None:
            cpu.mean_rows(offsets[a : b + 1], targets, rows, a, np.empty((b - a, width), np.float32), 0, b - a)

        return lambda: tiles(tile, n)

    def limit() -> None:
        in_ranges(lambda a, b: sum_at_random(anywhere, x, np.empty((1, width), np.float32), a, b), len(targets))

    with_self = sp.csr_array((np.ones(len(targets), np.float32), targets, offsets), shape=(n, n)) + sp.eye_array(n)
    mean = sp.csr_array(sp.diags_array(1 / (1.0 + graph.degrees)) @ with_self).astype(np.float32)
    ends, entries = torch.from_numpy(mean.indptr.astype(np.int64)), torch.from_numpy(mean.indices.astype(np.int64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its CSR support beta
        csr = torch.sparse_csr_tensor(ends, entries, torch.from_numpy(mean.data), (n, n))
    dense = torch.from_numpy(x)
    return {
        "limit": limit,
        "ours": ours(x),
        "ours, half precision": ours(half),
        "torch.sparse CSR": lambda: csr @ dense,
        "embedding_bag": lambda: torch.nn.functional.embedding_bag(entries, dense, ends[:-1], mode="mean"),
        "SciPy CSR": lambda: mean @ x,
    }


def kernel(graph: rae.Graph, width: int, rounds: int) -> list[dict]:
    """One line per racer."""
    runners = racers(graph, width)
    times: dict[str, list[float]] = {name: [] for name in runners}
    for round_ in range(rounds + 1):  # the first one warms up
        for name, run in runners.items():
            began = time.perf_counter()
            run()
            if round_:
                times[name].append(time.perf_counter() - began)
    best = {name: min(spent) for name, spent in times.items()}
    moved = 4 * width * len(graph.targets)
    return [
        {
            "row": name,
            "width": width,
            "best_ms": round(1e3 * best[name], 1),
            "worst_ms": round(1e3 * max(spent), 1),
            "gigabytes_per_s": round(moved / best[name] / 1e9, 2),
            "of_limit": round(best["limit"] / best[name], 3),
            "times_torch": round(best["torch.sparse CSR"] / best[name], 2),
        }
        for name, spent in times.items()
    ]


def end_to_end(size: int, memory: str, half: str, dtype: str, threads: int, work: Path) -> dict:
    """One line: a generated graph from its folder to Parquet, in a process of its own."""
    from rae.io.graphs import write_graph

    folder = work / f"graph-{size}"
    if not folder.exists():
        write_graph(folder, rae.datasets.load("power-law", n_nodes=size // 10, n_edges=size).graph)
    command = [sys.executable, "-c", EMBED, folder, memory, work / "z.parquet", half, dtype, str(threads)]
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    rate = 2 * found["n_edges"] * found["width"] / found["embed_s"]
    return {"memory": memory, "half": half == "half", "dtype": dtype, **found, "edge_dims_per_s": round(rate)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--widths", default="64,192")
    parser.add_argument("--sizes", default="1e6,1e7")
    parser.add_argument("--memory", default="1GiB,4GiB")
    parser.add_argument("--edges", type=Path, help="graph folder or edge file  [default: web-Google in RAE_DATA]")
    parser.add_argument("--out", type=Path, default=Path("results/embedding.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rae.set_threads(options.threads)

    def keep(line: dict) -> None:
        with options.out.open("a") as file:
            file.write(json.dumps({"table": "embedding", "threads": options.threads, **line}) + "\n")

    if options.widths:
        graph = _graph(options.edges)
        for width in map(int, options.widths.split(",")):
            for line in kernel(graph, width, options.rounds):
                keep({"stage": "mean", "dataset": "web-Google", **line})
                print(
                    f"width {width:3}  {line['row']:20} {line['best_ms']:8.1f} ms best, {line['worst_ms']:8.1f} worst, "
                    f"{line['gigabytes_per_s']:6.2f} GB/s, {line['of_limit']:5.0%} of the limit, "
                    f"{line['times_torch']:5.2f} x torch",
                    flush=True,
                )
    with tempfile.TemporaryDirectory(dir=options.out.parent) as work:
        for size in [int(float(s)) for s in options.sizes.split(",") if s]:
            for memory in options.memory.split(","):
                for half, dtype in (("", "float32"), ("half", "float16")):
                    line = end_to_end(size, memory, half, dtype, options.threads, Path(work))
                    keep({"stage": "end to end", "dataset": f"power-law {size}", **line})
                    print(
                        f"{size:12,} edges, {memory}, {half or 'full'}, {dtype}: {line['embed_s']:.1f} s, "
                        f"{line['peak_bytes'] / 2**30:.2f} GiB, {line['edge_dims_per_s'] / 1e9:.2f} G edge dims/s",
                        flush=True,
                    )


def _graph(edges: Path | None) -> rae.Graph:
    import os

    from rae.io.graphs import is_graph_folder, open_graph

    if edges is None:
        edges = Path(os.environ["RAE_DATA"]) / "web-Google" / "web_Google.txt.gz"
    return open_graph(edges) if is_graph_folder(edges) else rae.read_edges(edges)


if __name__ == "__main__":
    main()
