"""Every node of a graph embedded at 256 columns: ours beside the same model by torch.sparse, SciPy and embedding_bag.

    RAE_DATA=... python benchmarks/whole.py [--sizes 1e6,1e7,1e8] [--threads 2] [--work FOLDER] [--quick]

web-Google and power-law graphs of so many edges, a tenth as many nodes. A way gets graph, structural
features and weights from disk and gives an array of all levels; reading is not timed. Every way runs in a
process of its own, in turns: seconds, edges x dims per second, peak resident memory, and how far a sample
of a thousand vectors is from ours. The alternatives average whatever is narrower, rows or projected
rows, as ours does, and take their matrix products a piece at a time. A way that holds more than 20 GiB or takes more
than ten minutes is ended, and its line says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from drawn import folder, name
from growth import BOUNDED, MEMORY
from lines import RESULTS, Lines, spread
from watched import own_peak, watch

import rae
from rae.engine import embed
from rae.features import structural_features
from rae.graph.folder import open_graph

MOST_GIB, MOST_S, CLOSE = 20.0, 600.0, 1e-4
PIECE = 1 << 16
NOTES = {BOUNDED: "vectors written to Parquet, counted as time; the other ways leave them in memory"}

Average = Callable[[torch.Tensor], torch.Tensor]
Way = Callable[[rae.Graph, Any, rae.RAE], Callable[[], Any]]


# ------------------------------------------------------------------- ways, each a process of its own


def ours(graph: rae.Graph, x: Any, model: rae.RAE) -> Callable[[], Any]:
    encoder = model.encoders["within"]
    tiny = rae.Graph.from_edges([(0, 1), (1, 2)])
    embed(encoder, tiny, structural_features(tiny))  # compile
    return lambda: embed(encoder, graph, x)


def bounded(graph: rae.Graph, x: Any, model: rae.RAE) -> Callable[[], Any]:
    home = tempfile.TemporaryDirectory()
    path = Path(home.name) / "z.parquet"
    model.embed_to(path, rae.Graph.from_edges([(0, 1), (1, 2)]), memory=MEMORY)  # compile

    def run() -> Any:
        model.embed_to(path, graph, memory=MEMORY)
        return home

    return run


def written(home: Any, rows: Any) -> Any:
    """These rows of what `bounded` wrote, in the order of the graph's ids."""
    import pyarrow.parquet as pq

    vectors = pq.read_table(Path(home.name) / "z.parquet", columns=["embedding"])["embedding"].take(rows)
    return np.stack(vectors.to_numpy(zero_copy_only=False))


def limit(graph: rae.Graph, x: Any, model: rae.RAE) -> Callable[[], Any]:
    """As many rows, as wide as each level averages, read at random and added up."""
    from embedding import sum_at_random

    from rae.ops.intrinsics import aligned
    from rae.runtime import generator, in_ranges

    rng = generator(0, "benchmark")
    anywhere = rng.integers(graph.n_nodes, size=len(graph.targets), dtype=np.int32)
    widths = [min(level.aggregate.weight.shape) for level in model.encoders["within"].stack()]
    tables = [aligned((graph.n_nodes, width)) for width in widths]
    for table in tables:
        table[:] = 1
    sum_at_random(anywhere[:1], tables[0], np.empty((1, widths[0]), np.float32), 0, 1)  # compile

    def gather(table: Any) -> None:
        in_ranges(
            lambda a, b: sum_at_random(anywhere, table, np.empty((1, table.shape[1]), np.float32), a, b), len(anywhere)
        )

    return lambda: [gather(table) for table in tables]


def with_self(graph: rae.Graph, dtype: Any) -> tuple[Any, Any]:
    """Ends and entries of the rows {u} ∪ N(u)."""
    ends = np.array(graph.offsets, np.int64) + np.arange(graph.n_nodes + 1)
    entries = np.empty(ends[-1], dtype)
    own = np.zeros(len(entries), bool)
    own[ends[:-1]] = True
    entries[own], entries[~own] = np.arange(graph.n_nodes), graph.targets
    return ends.astype(dtype if ends[-1] < 2**31 else np.int64), entries


def shares(ends: Any) -> Any:
    counts = np.diff(ends)
    return np.repeat((1 / counts).astype(np.float32), counts)


def torch_matmul(graph: rae.Graph, x: Any, model: rae.RAE) -> Callable[[], Any]:
    ends, entries = with_self(graph, np.int64)
    arrays = (torch.from_numpy(a) for a in (ends, entries, shares(ends)))
    csr = torch.sparse_csr_tensor(*arrays, (graph.n_nodes,) * 2)
    return two_levels(x, model, lambda rows: csr @ rows)


def torch_reduce(graph: rae.Graph, x: Any, model: rae.RAE) -> Callable[[], Any]:
    ends, entries = with_self(graph, np.int64)
    arrays = (torch.from_numpy(a) for a in (ends, entries, shares(ends)))
    csr = torch.sparse_csr_tensor(*arrays, (graph.n_nodes,) * 2)
    return two_levels(x, model, lambda rows: torch.sparse.mm(csr, rows, "sum"))


def bag(graph: rae.Graph, x: Any, model: rae.RAE) -> Callable[[], Any]:
    ends, entries = (torch.from_numpy(a) for a in with_self(graph, np.int32))
    return two_levels(x, model, lambda rows: torch.nn.functional.embedding_bag(entries, rows, ends[:-1], mode="mean"))


def scipy_csr(graph: rae.Graph, x: Any, model: rae.RAE) -> Callable[[], Any]:
    import scipy.sparse as sp

    ends, entries = with_self(graph, np.int32)
    mean = sp.csr_array((shares(ends), entries, ends), shape=(graph.n_nodes,) * 2)
    return two_levels(x, model, lambda rows: torch.from_numpy(mean @ rows.numpy()))


def two_levels(x: Any, model: rae.RAE, average: Average) -> Callable[[], Any]:
    """The model, given a way to average {u} ∪ N(u): the last level first, as ours lays it out."""
    first, second = model.encoders["within"].eval().stack()
    features, n = torch.from_numpy(x), len(x)
    narrow, wide = second.aggregate.weight.shape[1], first.aggregate.weight.shape[1]

    def run() -> Any:
        with torch.inference_mode():
            out = torch.empty(n, narrow + wide)
            means = average(features)  # narrower than what it is projected to
            for a in range(0, n, PIECE):
                h = first.aggregate.squash(means[a : a + PIECE] @ first.aggregate.weight)
                out[a : a + PIECE, narrow:] = first.finish(h)
            del means
            below = torch.empty(n, narrow)
            for a in range(0, n, PIECE):
                torch.mm(out[a : a + PIECE, narrow:], second.aggregate.weight, out=below[a : a + PIECE])
            means = average(below)
            del below
            for a in range(0, n, PIECE):
                out[a : a + PIECE, :narrow] = second.finish(second.aggregate.squash(means[a : a + PIECE]))
            return out.numpy()

    return run


WAYS: dict[str, Way] = {
    "ours, in memory": ours,
    BOUNDED: bounded,
    "limit: the same rows read at random": limit,
    "torch.sparse CSR": torch_matmul,
    "torch.sparse.mm, reduce='sum'": torch_reduce,
    "embedding_bag": bag,
    "SciPy CSR": scipy_csr,
}


def child(way: str, home: Path, threads: int) -> dict[str, Any]:
    """Run one way on what lies in a folder; what it took."""
    torch.set_num_threads(threads)
    rae.set_threads(threads)
    warnings.filterwarnings("ignore", "Sparse")  # torch calls its CSR support beta
    graph = open_graph(Path((home / "graph.txt").read_text()))
    x = np.empty((0, 31), np.float32) if way in (BOUNDED, *_LIMITS) else np.load(home / "x.npy")
    run = WAYS[way](graph, x, rae.RAE.load(home / "model.safetensors"))
    began = time.perf_counter()
    z = run()
    spent, peak = time.perf_counter() - began, own_peak()
    rows = np.load(home / "sample.npy")
    sample = home / f"sample-{list(WAYS).index(way)}.npy"
    if way == BOUNDED:
        np.save(sample, written(z, rows))
        z.cleanup()
    elif way not in _LIMITS:
        np.save(sample, z[rows])
    return {"seconds": spent, "peak_gib": peak}


_LIMITS = ("limit: the same rows read at random",)


# ----------------------------------------------------------------------------------- the race


def prepared(graph_folder: Path, home: Path) -> rae.Graph:
    """Features, weights and a sample of rows in a folder, for the ways to read."""
    graph = open_graph(graph_folder)
    (home / "graph.txt").write_text(str(graph_folder))
    np.save(home / "x.npy", structural_features(graph))
    rae.RAE(steps=0).fit(rae.Graph.from_edges([(0, 1), (1, 2)])).save(home / "model.safetensors")
    rng = np.random.default_rng(0)
    np.save(home / "sample.npy", np.sort(rng.choice(graph.n_nodes, min(1000, graph.n_nodes), replace=False)))
    return graph


def race(graph_folder: Path, home: Path, ways: list[str], rounds: int, threads: int, here: bool) -> list[dict]:
    """One line per way; `here` runs them in this process, for a trial."""
    graph = prepared(graph_folder, home)
    times: dict[str, list[float]] = {way: [] for way in ways}
    peaks, stopped = dict.fromkeys(ways, 0.0), {}
    for _ in range(rounds):
        for way in [way for way in ways if way not in stopped]:
            if here:
                found, reason = child(way, home, threads), None
            else:
                command = [sys.executable, __file__, "--child", way, home, threads]
                spent = watch(command, most_gib=MOST_GIB, most_s=MOST_S)
                reason = spent.stopped
                found = {"seconds": spent.seconds, "peak_gib": spent.peak_gib} if reason else spent.found
            peaks[way] = max(peaks[way], found["peak_gib"])
            if reason:
                stopped[way] = f"{reason}, {found['seconds']:.0f} s after its start"
            else:
                times[way].append(found["seconds"])
                print(f"  {way:36} {found['seconds']:8.2f} s  {found['peak_gib']:6.2f} GiB", flush=True)
    return [_line(graph, way, times[way], peaks[way], stopped.get(way), _off(way, ways, home)) for way in ways]


def _off(way: str, ways: list[str], home: Path) -> float | None:
    """How far the sample is from ours, at most; None where there is none."""
    reference = next((w for w in ways if (home / f"sample-{list(WAYS).index(w)}.npy").exists()), None)
    sample = home / f"sample-{list(WAYS).index(way)}.npy"
    if reference is None or not sample.exists():
        return None
    return float(np.abs(np.load(sample) - np.load(home / f"sample-{list(WAYS).index(reference)}.npy")).max())


def _line(
    graph: rae.Graph, way: str, times: list[float], peak: float, stopped: str | None, off: float | None
) -> dict[str, Any]:
    line = {"row": way, "nodes": graph.n_nodes, "edges": graph.n_edges, "peak_gib": round(peak, 2)}
    if off is not None and off > CLOSE:
        raise SystemExit(f"{way} is off by {off:.2g}; it does not compute the same")
    if times:
        line |= {**spread(times, digits=3), "edge_dims_per_s": round(2 * graph.n_edges * 256 / min(times))}
        line |= {"off": float(f"{off:.1e}")} if off is not None else {}
        line |= {"note": NOTES[way]} if way in NOTES else {}
    else:
        line |= {"rounds": 1, "note": stopped}
    return line


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1e6,1e7,1e8", help="edges of the generated graphs")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3, help="of web-Google and 1e6; 1e7 takes two, 1e8 one")
    parser.add_argument("--work", type=Path, help="folder that keeps the generated graphs  [default: none is kept]")
    parser.add_argument("--quick", action="store_true", help="one small graph, one round, no processes")
    parser.add_argument("--out", type=Path, default=RESULTS / "whole.jsonl")
    options = parser.parse_args()
    lines = Lines(options.out)
    sizes = [10_000] if options.quick else [int(float(s)) for s in options.sizes.split(",") if s]
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        work = options.work or Path(scratch)
        graphs = {name(size): size for size in sizes}
        if not options.quick and os.environ.get("RAE_DATA"):
            graphs = {"web-Google": 0, **graphs}
        for title, size in graphs.items():
            print(title, flush=True)
            built = folder(work, size) if size else _web(Path(scratch))
            rounds = 1 if options.quick or size >= 1e8 else 2 if size >= 1e7 else options.rounds
            # at 1e8 edges: growth.py takes the bounded way there, and of torch's two ways the faster is enough
            left_out = (BOUNDED, "torch.sparse CSR") if size >= 1e8 else ()
            ways = [way for way in WAYS if way not in left_out]
            with tempfile.TemporaryDirectory(dir=options.work) as home:
                for line in race(built, Path(home), ways, rounds, options.threads, options.quick):
                    lines.keep({"table": "whole", "dataset": title, "threads": options.threads, **line})


def _web(work: Path) -> Path:
    rae.build_graph(Path(os.environ["RAE_DATA"]) / "web-Google" / "web_Google.txt.gz", work / "web")
    return work / "web"


if __name__ == "__main__":
    main()
