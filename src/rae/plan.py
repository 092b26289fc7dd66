"""Plan: what a fit will take, in memory and time, before any of it is done.

Memory is a formula. With b anchors a step, p positives, fan-outs f_1 (from the ego) to f_K, widths d_k:

    rows      a level's rows are those of the level above and their sampled neighbours. A random node
              has E[min(degree, f)] of them, a node met as a neighbour E[degree min(degree, f)] / E[degree];
              of r rows drawn, n (1 - exp(-r / n)) are distinct.
    step      4 bytes x LIVE_ARRAYS x sum over levels of rows_k d_k  (activations, masks and gradients),
              + the feature rows gathered, + 16 bytes per weight of the two encoders (weight, gradient, Adam)
    embedding 4 n times the rows that levels average, where they made them, and five row groups: two that are
              made and three on their way into the file
              with a memory budget: parts at work, three row groups, and 4 n (half: 2 n) times the widest rows
              that are averaged, or what the budget leaves, whichever is less
    read      the file and the columns made of it, before the graph is there; nothing for a graph folder
    peak      program + the larger of read and graph + features + the larger of step and embedding

Time is measured: reading as it happened, a few real steps, one exact embedding of a random graph with
the same mean degree and the same features (of the graph itself if it is small), scaled by its nodes.
A small graph's rows lie in the cache, so the averaging is timed apart: on the small graph, and on
runs of rows of the graph itself, in its own order, whose neighbours lie anywhere in memory.
"""

from __future__ import annotations

import itertools
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from rae.config import Config
from rae.engine import memory_bytes, stream
from rae.engine.embedding import job_sizes
from rae.engine.layout import PART_BYTES, PROGRAM, WRITING, Sizes, layout
from rae.engine.levels import EncoderLevel, encoder_levels
from rae.errors import Argument, CollapseWarning, GraphError
from rae.features import Features
from rae.graph import Graph
from rae.io import write_embeddings
from rae.io.embeddings import GROUP_BYTES
from rae.memory import aligned_empty, number_in
from rae.memory import available_memory as available_memory
from rae.model.checkpoint import losses
from rae.model.encoder import Encoder
from rae.model.training import fit
from rae.ops.gather import mean
from rae.runtime import generator, threads
from rae.storage.parts import Parts

LIVE_ARRAYS = 14  # arrays of a level that are alive at the end of a forward pass and during the backward pass
BUFFERS = 2  # row groups that are computed while others are written
PER_ROW = 64  # bytes per row of the edge file while the graph is made: two columns, codes, ranks
SAMPLE = 32_768  # nodes embedded and written to measure the rates
COLUMNS = 64  # width at which averaging is timed
RUNS, RUN = 64, 512  # runs of rows that are averaged to time it, and rows of a run
MOST = 1 << 20  # rows in memory for that, at most: 256 MiB
STEPS = 3  # real steps that are timed, after one that warms up


@dataclass(frozen=True)
class Plan:
    """Expected bytes by part and expected seconds by stage; `peak` and `total` are what to look at."""

    memory: dict[str, int]
    seconds: dict[str, float]


def plan(
    graph: Graph,
    features: Any,
    config: Config,
    *,
    file_bytes: int = 0,
    read_seconds: float = 0.0,
    budget: int | str | None = None,
    half: bool = False,
    dtype: str = "float32",
    from_folder: bool = False,
) -> Plan:
    """What fitting this graph with these settings will take, and what embedding it will.

    `budget`, `half` and `dtype` as for `embed_to`; a graph folder costs no reading.
    """
    if budget is not None:
        check_budget(budget, graph, features, config, half=half)
    began = time.perf_counter()
    x = Features.of(graph, features, config).in_memory()
    prepared = time.perf_counter() - began
    seconds = {
        "read": read_seconds,
        "fit": sum(fit_seconds(graph, x, config, loss) for loss in losses(config)),
        "embed": 0.0,
        "write": 0.0,
    }
    seconds["embed"], seconds["write"] = _embedding_seconds(x, dtype)
    seconds["fit"] += prepared if config.steps else 0.0
    seconds["embed"] += prepared
    if budget is not None:
        widths = sum(map(min, itertools.pairwise((x.width, *config.dims)))) + sum(config.dims)
        seconds["embed"] += _itemsize(half) * graph.n_nodes * widths * len(losses(config)) * _part_seconds()
    seconds["total"] = sum(seconds.values())
    expected = memory(graph, features, config, file_bytes=file_bytes, budget=budget, half=half, from_folder=from_folder)
    return Plan(expected, seconds)


def memory(
    graph: Graph,
    features: Any,
    config: Config,
    *,
    file_bytes: int = 0,
    budget: int | str | None = None,
    half: bool = False,
    from_folder: bool = False,
) -> dict[str, int]:
    """Expected bytes of the graph, the features, a training step, the embedding, and of all at the worst moment.

    Nothing is computed that grows with the features, so that a fit can be warned of before it starts.
    """
    x = Features.of(graph, features, config, check=False)
    n = graph.n_nodes
    resident = 0 if x.is_mapped else x.given_bytes  # pages of a mapped file are given back when memory is short
    structural = 4 * n * x.structural_width
    row_bytes = 4 * x.width if x.is_dense else (x.given_bytes + structural) / n  # float16 rows are widened for a step
    group = min(GROUP_BYTES, 4 * n * config.width)
    parts = {
        "program": PROGRAM,
        "read": 0 if from_folder else reading_bytes(file_bytes, graph.counts.rows),
        "graph": graph.offsets.nbytes + graph.targets.nbytes + graph.id_column.nbytes,
        "features": resident + structural,
        "step": _step_bytes(graph, x.width, row_bytes, config) if config.steps else 0,
        "embedding": 4 * n * len(losses(config)) * _table_columns(x, config) + (BUFFERS + WRITING) * group,
    }
    fitting = PROGRAM + parts["graph"] + parts["features"] + parts["step"]
    embedding = PROGRAM + parts["graph"] + parts["features"] + parts["embedding"]
    if budget is not None:
        parts["embedding"] = PART_BYTES + WRITING * GROUP_BYTES + _itemsize(half) * n * _averaged(x, config)
        embedding = min(memory_bytes(budget), PROGRAM + parts["graph"] + resident + parts["embedding"])
    return parts | {"peak": max(PROGRAM + parts["read"] + parts["graph"], fitting, embedding)}


def reading_bytes(file_bytes: int, rows: int) -> int:
    """Bytes that reading an edge file into memory takes, beside the program."""
    return file_bytes + PER_ROW * rows


def least_budget(graph: Graph, features: Any, config: Config, *, half: bool = False) -> int:
    """The least memory that embedding this graph can be told to keep to."""
    return _sizes(graph, features, config, half).least_memory


def check_budget(memory: int | str, graph: Graph, features: Any, config: Config, *, half: bool = False) -> None:
    """Refuse a budget that embedding this graph cannot keep to, as `embed_to` would after the training."""
    layout(memory, _sizes(graph, features, config, half))


def _sizes(graph: Graph, features: Any, config: Config, half: bool) -> Sizes:
    """What the layout of a model with these settings depends on."""
    widths = [*config.dims] * len(losses(config))
    return job_sizes(Features.of(graph, features, config, check=False), widths, _itemsize(half))


def _itemsize(half: bool) -> int:
    """Bytes of a number that is averaged, where there is a budget."""
    return 2 if half else 4


def shortage(needed: int, root: Path = Path("/")) -> tuple[int, int] | None:
    """Bytes that a process which will need so many in all still has to get, and those there are; None if they do."""
    free = available_memory(root)
    resident = _resident(root)
    return None if free is None or needed - resident <= free else (needed - resident, free)


def _resident(root: Path) -> int:
    return number_in(root / "proc/self/status", r"(?s).*?VmRSS:\s+(\d+) kB.*", 1024) or 0


def rows_by_level(graph: Graph, n_egos: int, config: Config) -> list[float]:
    """Expected rows of the inputs and of each level, for this many egos.  -> (K + 1,), inputs first"""
    degrees = graph.degrees.astype(np.float64)
    mean = max(float(degrees.mean()), 1e-12)
    rows, met_as_neighbor = [float(n_egos)], False
    for fanout in config.fanout:
        sampled = np.minimum(degrees, fanout)
        each = float((degrees * sampled).mean()) / mean if met_as_neighbor else float(sampled.mean())
        rows.append(-graph.n_nodes * float(np.expm1(-rows[-1] * (1 + each) / graph.n_nodes)))
        met_as_neighbor = True
    return rows[::-1]


def fit_seconds(graph: Graph, x: Features, config: Config, loss: str) -> float:
    """Seconds of one fit: the first step as it was, which warms up, and the others at the pace of a few real ones."""
    if config.steps == 0:
        return 0.0
    if graph.n_edges == 0:
        raise GraphError(f"training needs edges, got {graph.n_nodes:,} nodes and no edge; use ", Argument("steps", 0))
    stamps = [time.perf_counter()]
    short = config.replace(steps=1 + STEPS, record_every=1 + STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # a few steps are timed, not judged
        fit(graph, x, short, loss, lambda *_: stamps.append(time.perf_counter()))
    first, *others = np.diff(stamps)
    return float(first + np.median(others) * (config.steps - 1))


def _step_bytes(graph: Graph, n_features: int, row_bytes: float, config: Config) -> int:
    b = min(config.batch_size, graph.n_nodes)
    within = config.loss != "neighbor"
    shuffled = round(config.shuffled * config.negatives) if within and config.shuffle == "neighbors" else 0
    anchor = rows_by_level(graph, b, config)
    context = rows_by_level(graph, b * (config.positives + (0 if within else 1)), config)
    context[-1] += b * shuffled
    resident = sum(LIVE_ARRAYS * (r + s) * d for r, s, d in zip(anchor[1:], context[1:], config.dims, strict=True))
    gathered = (anchor[0] + context[0]) * row_bytes
    widths = (n_features, *config.dims)
    weights = sum(a * d + (d * d if config.projections == 2 else 0) for a, d in zip(widths, config.dims, strict=False))
    return int(4 * resident + gathered + 2 * 16 * weights)


def _levels(x: Features, config: Config) -> list[EncoderLevel]:
    """The levels of a model with these settings, without weights."""
    return encoder_levels(Encoder(x.width, config), x.is_dense)


def _table_columns(x: Features, config: Config) -> int:
    """Columns of the rows that all levels average, less the features where the first one averages them as they are."""
    return sum(level.columns for k, level in enumerate(_levels(x, config)) if k or level.maps_rows)


def _averaged(x: Features, config: Config) -> int:
    """Columns of the widest rows that are averaged."""
    return max(level.columns for level in _levels(x, config))


def _embedding_seconds(x: Features, dtype: str) -> tuple[float, float]:
    """Seconds to embed every node, and to write the vectors."""
    graph, config = x.graph, x.config
    n = graph.n_nodes
    rng = generator(config.seed, "plan")
    small, rows = graph, np.arange(n)
    if n > SAMPLE:
        ends = rng.integers(SAMPLE, size=(2, round(graph.n_edges * SAMPLE / n)))
        small = Graph.from_edges((ends[0], ends[1]), ids=np.arange(SAMPLE))
        rows = np.sort(rng.choice(n, SAMPLE, replace=False))
    plain = config.replace(add_structure=False)  # the structural columns are among those taken
    part = Features.of(small, x.take(rows), plain, check=False)
    encoder = {"": Encoder(x.width, config)}
    for _ in stream(encoder, part):  # once to warm up
        pass
    began = time.perf_counter()
    z = np.vstack([vectors.copy() for vectors in stream(encoder, part)])
    embedded = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        write_embeddings(Path(folder) / "z.parquet", pa.array(np.arange(len(z))), z, dtype=dtype)
    written = time.perf_counter()
    *lower, last = (min(pair) for pair in itertools.pairwise((x.width, *config.dims)))
    spent = embedded - began
    if small is not graph and config.inference != "sampled":  # its rows lie in the cache, those of the graph do not
        averaged = 2 * sum(lower) + last  # below the last level, once for the level above and once to be written
        spent = max(spent - averaged * _averaging_seconds(small), spent / 4)
        spent += averaged * _averaging_seconds(graph) * len(z) / n
    scale = n / len(z)
    fresh = 4 * (n - len(z)) * (sum(lower) + last) * _touching_seconds()
    writing = (written - embedded) * scale / min(2, threads())  # of two threads one writes while the other computes
    return (spent * scale + fresh) * len(losses(config)), writing * len(losses(config))


def _part_seconds() -> float:
    """Seconds that a byte costs which goes to disk in parts and comes back."""
    rows = np.ones(1 << 23, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        parts = Parts.open(Path(folder) / "parts", {})
        parts.write("rows", [rows])
        parts.read_into("rows", rows)
        return (time.perf_counter() - began) / rows.nbytes


def _touching_seconds() -> float:
    """Seconds that a byte of new memory costs, told from 64 MiB of it."""
    began = time.perf_counter()
    touched = np.ones(1 << 26, np.uint8).nbytes
    return (time.perf_counter() - began) / touched


def _averaging_seconds(graph: Graph) -> float:
    """Seconds to average one column over every neighbourhood, told from a few runs of rows."""
    n = graph.n_nodes
    rows = torch.from_numpy(aligned_empty((min(n, MOST), COLUMNS))).fill_(1)
    spent, targets = 0.0, 0
    for a in np.linspace(0, max(0, n - RUN), RUNS, dtype=np.int64):
        offsets = graph.offsets[a : a + RUN + 1]
        near = (graph.targets[offsets[0] : offsets[-1]] % len(rows)).astype(graph.targets.dtype)
        began = time.perf_counter()
        mean(rows, offsets - offsets[0], near)
        spent += time.perf_counter() - began
        targets += len(near)
    return spent / COLUMNS * len(graph.targets) / max(targets, 1) / threads()
