"""Every node of a graph embedded at 256 columns: ours and the same model by torch.sparse, SciPy and embedding_bag.

    RAE_DATA=... python benchmarks/embed_all.py [--sizes 1e6,1e7,1e8] [--threads 2] [--work FOLDER] [--quick]

web-Google and power-law graphs of so many edges, a tenth as many nodes. A way reads graph, structural features and
weights from disk and returns an array of all levels; reading is not timed. Every way runs in its own process, in
turns: seconds, edges x dims per second, peak resident memory, and the largest difference of a sample of a thousand
vectors from ours. The alternatives average whatever is narrower, rows or projected rows, as ours does, and take their
matrix products a chunk at a time. A way that holds more than 20 GiB or takes more than ten minutes is stopped, and its
line says so.
"""

from __future__ import annotations

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
from growth import BOUNDED, MEMORY
from measurements import spread
from power_law import graph_folder, name
from processes import own_peak_gib, run_process
from recording import all_cores, parser, record, web_google

import rae
from rae.evaluation.ledger import Line

MAX_GIB, MAX_SECONDS, TOLERANCE = 20.0, 600.0, 1e-4
CHUNK = 1 << 16
LIMIT = "limit: the same rows read at random"
NOTES = {BOUNDED: "vectors written to Parquet, counted as time; the other ways leave them in memory"}
TINY = rae.Graph.from_edges([(0, 1), (1, 2)])

Average = Callable[[torch.Tensor], torch.Tensor]
Way = Callable[[rae.Graph, Any, rae.RAE], Callable[[], Any]]


# ------------------------------------------------------------------------ ways, each in its own process


def ours(graph: rae.Graph, x: Any, model: rae.RAE) -> Callable[[], Any]:
    model.transform(TINY, rae.structural_features(TINY), whole=True)  # imports and first-time setup
    return lambda: model.transform(graph, x, whole=True)


def bounded(graph: rae.Graph, x: Any, model: rae.RAE) -> Callable[[], Any]:
    home = tempfile.TemporaryDirectory()
    path = Path(home.name) / "z.parquet"
    model.embed_to(path, TINY, memory=MEMORY, whole=True)  # imports and first-time setup

    def run() -> Any:
        model.embed_to(path, graph, memory=MEMORY, whole=True)
        return home

    return run


def rows_written(home: Any, rows: Any) -> Any:
    """These rows of the file that `bounded` wrote, in the order of the graph's ids."""
    import pyarrow.parquet as pq

    vectors = pq.read_table(Path(home.name) / "z.parquet", columns=["embedding"])["embedding"].take(rows)
    return np.stack(vectors.to_numpy(zero_copy_only=False))


def limit(graph: rae.Graph, x: Any, model: rae.RAE) -> Callable[[], Any]:
    """As many rows, as wide as each level averages, read at random and added up."""
    from mean_kernel import sum_rows

    from rae.memory import aligned_empty

    index = np.random.default_rng(0).integers(graph.n_nodes, size=len(graph.targets), dtype=np.int32)
    tables = [aligned_empty((graph.n_nodes, min(level.aggregate.weight.shape))) for level in encoder(model).stack()]
    for table in tables:
        table[:] = 1
    return lambda: [sum_rows(index, table) for table in tables]


def encoder(model: rae.RAE) -> rae.Encoder:
    return model.encoders["within"]


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
    """The model by a function that averages {u} ∪ N(u): the last level first, as in our arrays."""
    first, second = encoder(model).eval().stack()
    features, n = torch.from_numpy(x), len(x)
    narrow, wide = second.aggregate.weight.shape[1], first.aggregate.weight.shape[1]

    def run() -> Any:
        with torch.inference_mode():
            out = torch.empty(n, narrow + wide)
            means = average(features)  # narrower than what it is projected to
            for a in range(0, n, CHUNK):
                out[a : a + CHUNK, narrow:] = first.after(means[a : a + CHUNK], projected=False)
            del means
            below = torch.empty(n, narrow)
            for a in range(0, n, CHUNK):
                torch.mm(out[a : a + CHUNK, narrow:], second.aggregate.weight, out=below[a : a + CHUNK])
            means = average(below)
            del below
            for a in range(0, n, CHUNK):
                out[a : a + CHUNK, :narrow] = second.after(means[a : a + CHUNK], projected=True)
            return out.numpy()

    return run


WAYS: dict[str, Way] = {
    "ours, in memory": ours,
    BOUNDED: bounded,
    LIMIT: limit,
    "torch.sparse CSR": torch_matmul,
    "torch.sparse.mm, reduce='sum'": torch_reduce,
    "embedding_bag": bag,
    "SciPy CSR": scipy_csr,
}


def child(way: str, home: Path, threads: int) -> Line:
    """Run one way on the inputs in a folder, write its sample of vectors there; its seconds and peak."""
    torch.set_num_threads(threads)
    rae.set_threads(threads)
    warnings.filterwarnings("ignore", "Sparse")  # torch calls its CSR support beta
    graph = rae.open_graph(Path((home / "graph.txt").read_text()))
    x = None if way in (BOUNDED, LIMIT) else np.load(home / "x.npy")
    run = WAYS[way](graph, x, rae.RAE.load(home / f"{'structure' if way == BOUNDED else 'features'}.safetensors"))
    began = time.perf_counter()
    z = run()
    numbers = {"seconds": time.perf_counter() - began, "peak_gib": own_peak_gib()}
    rows = np.load(home / "sample.npy")
    if way == BOUNDED:
        np.save(sample_path(way, home), rows_written(z, rows))
        z.cleanup()
    elif way != LIMIT:
        np.save(sample_path(way, home), z[rows])
    return numbers


def sample_path(way: str, home: Path) -> Path:
    return home / f"sample-{list(WAYS).index(way)}.npy"


# ----------------------------------------------------------------------------------- all ways


def write_inputs(folder: Path, home: Path) -> rae.Graph:
    """Write features, weights and a sample of rows for the ways to read; the graph."""
    graph = rae.open_graph(folder)
    (home / "graph.txt").write_text(str(folder))
    np.save(home / "x.npy", rae.structural_features(graph))
    # The same weights twice: the bounded way computes structural features itself, the others are given them.
    rae.RAE(steps=0).fit(TINY).save(home / "structure.safetensors")
    rae.RAE(steps=0).fit(TINY, features=rae.structural_features(TINY)).save(home / "features.safetensors")
    rng = np.random.default_rng(0)
    np.save(home / "sample.npy", np.sort(rng.choice(graph.n_nodes, min(1000, graph.n_nodes), replace=False)))
    return graph


def run_way(way: str, home: Path, threads: int, in_process: bool) -> Line:
    """Seconds and peak of a way, and the reason if it was stopped."""
    if in_process:
        return child(way, home, threads)
    command = [sys.executable, __file__, "--child", way, home, threads]
    result = run_process(command, max_gib=MAX_GIB, max_seconds=MAX_SECONDS)
    if not result.stopped:
        return result.json
    note = f"{result.stopped}, {result.seconds:.0f} s after its start"
    return {"peak_gib": result.peak_gib, "note": note}


def measure(folder: Path, home: Path, ways: list[str], rounds: int, threads: int, in_process: bool) -> dict[str, Line]:
    """The numbers of each way, in turns; `in_process` runs them in this process, for a trial."""
    graph = write_inputs(folder, home)
    runs: dict[str, list[Line]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in [way for way in ways if not any("note" in run for run in runs[way])]:
            runs[way].append(run_way(way, home, threads, in_process))
    return {way: numbers(graph, way, runs[way], sample_error(way, ways, home)) for way in ways}


def sample_error(way: str, ways: list[str], home: Path) -> float | None:
    """The largest difference of a way's sample from the first way's, None without a sample."""
    reference = next((w for w in ways if sample_path(w, home).exists()), None)
    if reference is None or not sample_path(way, home).exists():
        return None
    return float(np.abs(np.load(sample_path(way, home)) - np.load(sample_path(reference, home))).max())


def numbers(graph: rae.Graph, way: str, runs: list[Line], error: float | None) -> Line:
    """The fields of a way's line."""
    if error is not None and error > TOLERANCE:
        raise SystemExit(f"{way} is off by {error:.2g}; it does not compute the same")
    peak = max(run["peak_gib"] for run in runs)
    line: Line = {"nodes": graph.n_nodes, "edges": graph.n_edges, "peak_gib": round(peak, 2)}
    times = [run["seconds"] for run in runs if "seconds" in run]
    if not times:
        return line | {"rounds": 1, "note": runs[0]["note"]}
    line |= {**spread(times, digits=3), "edge_dims_per_s": round(2 * graph.n_edges * 256 / min(times))}
    line |= {"off": float(f"{error:.1e}")} if error is not None else {}
    return line | ({"note": NOTES[way]} if way in NOTES else {})


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))))
        return
    arguments = parser(__doc__, "one small graph, one round, no processes", threads=all_cores(), rounds=3)
    arguments.add_argument("--sizes", default="1e6,1e7,1e8", help="edges; 1e7 takes two rounds, 1e8 one")
    arguments.add_argument("--work", type=Path, help="folder that keeps the generated graphs  [default: temporary]")
    options = arguments.parse_args()
    sizes = [10_000] if options.quick else [int(float(s)) for s in options.sizes.split(",") if s]
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        graphs = {name(size): size for size in sizes}
        if not options.quick and os.environ.get("RAE_DATA"):
            rae.build_graph(web_google(), Path(scratch) / "web")
            graphs = {"web-Google": 0, **graphs}
        for dataset, size in graphs.items():
            folder = graph_folder(options.work or Path(scratch), size) if size else Path(scratch) / "web"
            rounds = 1 if options.quick or size >= 1e8 else 2 if size >= 1e7 else options.rounds
            # At 1e8 edges growth.py measures the bounded way, and of torch's two ways the faster is enough.
            left_out = (BOUNDED, "torch.sparse CSR") if size >= 1e8 else ()
            ways = [way for way in WAYS if way not in left_out]
            with tempfile.TemporaryDirectory(dir=options.work) as home:
                lines = measure(folder, Path(home), ways, rounds, options.threads, options.quick)
            for way, line in lines.items():
                record(options.results, "embed-all", dataset, way, {"threads": options.threads}, **line)


if __name__ == "__main__":
    main()
