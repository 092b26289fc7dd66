"""Plan: what a fit will take, in memory and time, before any of it is done.

Memory is a formula. With b anchors a step, p positives, fan-outs f_1 (from the ego) to f_K, widths d_k:

    rows      a level's rows are those of the level above and their sampled neighbours. A random node
              has E[min(degree, f)] of them, a node met as a neighbour E[degree min(degree, f)] / E[degree];
              of r rows drawn, n (1 - exp(-r / n)) are distinct.
    step      4 bytes x HELD x sum over levels of rows_k d_k  (activations, masks and gradients),
              + the feature rows gathered, + 16 bytes per weight of the two encoders (weight, gradient, Adam)
    embedding 4 n (width + the two largest arrays of a level that are alive together)
    read      the file and the columns made of it, before the graph is there
    peak      program + the larger of read and graph + features + the larger of step and embedding

Time is measured: reading as it happened, a few real steps, one exact embedding of a random graph with
the same mean degree and the same features (of the graph itself if it is small), scaled by its nodes.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from rae.checkpoint import losses
from rae.config import Config
from rae.encoder import Encoder
from rae.errors import CollapseWarning, GraphError
from rae.features import Matrix, prepare
from rae.graph import Graph
from rae.inference import embed
from rae.io import write_embeddings
from rae.runtime import generator
from rae.training import fit

PROGRAM = 540_000_000  # Python, torch and numba, before any data
HELD = 14  # arrays of a level that are alive at the end of a forward pass and during the backward pass
PER_ROW = 64  # bytes per row of the edge file while the graph is made: two columns, codes, ranks
SAMPLE = 8_192  # nodes embedded and written to measure the rates
STEPS = 3  # real steps that are timed, after one that warms up


@dataclass(frozen=True)
class Plan:
    """Expected bytes by part and expected seconds by stage; `peak` and `total` are what to look at."""

    memory: dict[str, int]
    seconds: dict[str, float]


def plan(graph: Graph, features: Any, config: Config, *, file_bytes: int = 0, read_seconds: float = 0.0) -> Plan:
    """What fitting this graph with these settings will take, and what embedding it will."""
    x = prepare(graph, features, config)
    seconds = {
        "read": read_seconds,
        "fit": sum(fit_seconds(graph, x, config, loss) for loss in losses(config)),
        "embed": 0.0,
        "write": 0.0,
    }
    seconds["embed"], seconds["write"] = _embedding_seconds(graph, x, config)
    seconds["total"] = sum(seconds.values())
    return Plan(memory(graph, x, config, file_bytes), seconds)


def memory(graph: Graph, x: Matrix, config: Config, file_bytes: int = 0) -> dict[str, int]:
    """Expected bytes of the graph, the features, a training step, the embedding, and of all at the worst moment."""
    n, n_features = graph.n_nodes, int(x.shape[1])
    parts = {
        "program": PROGRAM,
        "read": file_bytes + PER_ROW * graph.counts.rows,
        "graph": graph.offsets.nbytes + graph.targets.nbytes + graph.id_column.nbytes,
        "features": _bytes(x),
        "step": _step_bytes(graph, x, config) if config.steps else 0,
        "embedding": 4 * n * (config.width * (2 if config.loss == "both" else 1) + _alive(n_features, config)),
    }
    working = parts["graph"] + parts["features"] + max(parts["step"], parts["embedding"])
    return parts | {"peak": PROGRAM + max(parts["read"] + parts["graph"], working)}


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


def fit_seconds(graph: Graph, x: Matrix, config: Config, loss: str) -> float:
    """Seconds of one fit: the first step as it was, which warms up, and the others at the pace of a few real ones."""
    if config.steps == 0:
        return 0.0
    if graph.n_edges == 0:
        raise GraphError(f"training needs edges, got {graph.n_nodes:,} nodes and no edge; use --steps 0")
    stamps = [time.perf_counter()]
    short = config.replace(steps=1 + STEPS, record_every=1 + STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # a few steps are timed, not judged
        fit(graph, x, short, loss, lambda *_: stamps.append(time.perf_counter()))
    first, *others = np.diff(stamps)
    return float(first + np.median(others) * (config.steps - 1))


def _step_bytes(graph: Graph, x: Matrix, config: Config) -> int:
    b = min(config.batch_size, graph.n_nodes)
    within = config.loss != "neighbor"
    shuffled = round(config.shuffled * config.negatives) if within and config.shuffle == "neighbors" else 0
    anchor = rows_by_level(graph, b, config)
    context = rows_by_level(graph, b * (config.positives + (0 if within else 1)), config)
    context[-1] += b * shuffled
    held = sum(HELD * (r + s) * d for r, s, d in zip(anchor[1:], context[1:], config.dims, strict=True))
    gathered = (anchor[0] + context[0]) * _bytes(x) / graph.n_nodes
    widths = (int(x.shape[1]), *config.dims)
    weights = sum(a * d + (d * d if config.projections == 2 else 0) for a, d in zip(widths, config.dims, strict=False))
    return int(4 * held + gathered + 2 * 16 * weights)


def _alive(n_features: int, config: Config) -> int:
    """Columns of the level's input, projection and output that exist at once, at the widest level."""
    widths = (0, *config.dims)  # the inputs are counted as features
    return max(below + 2 * here for below, here in zip(widths, config.dims, strict=False))


def _bytes(x: Matrix) -> int:
    if isinstance(x, np.ndarray):
        return x.nbytes
    return int(x.data.nbytes + x.indices.nbytes + x.indptr.nbytes)


def _embedding_seconds(graph: Graph, x: Matrix, config: Config) -> tuple[float, float]:
    """Seconds to embed every node, and to write the vectors."""
    n = graph.n_nodes
    rng = generator(config.seed, "plan")
    small, rows = graph, np.arange(n)
    if n > SAMPLE:
        ends = rng.integers(SAMPLE, size=(2, round(graph.n_edges * SAMPLE / n)))
        small = Graph.from_edges((ends[0], ends[1]), ids=np.arange(SAMPLE))
        rows = np.sort(rng.choice(n, SAMPLE, replace=False))
    part: Any = x[rows] if isinstance(x, np.ndarray) else sp.csr_array(x[rows])
    encoder = Encoder(int(x.shape[1]), config)
    fanout = config.fanout if config.inference == "sampled" else None
    embed(encoder, small, part, fanout=fanout)  # once to warm up
    began = time.perf_counter()
    z = embed(encoder, small, part, fanout=fanout)
    embedded = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        write_embeddings(Path(folder) / "z.parquet", pa.array(np.arange(len(z))), z)
    written = time.perf_counter()
    scale = n / len(z) * len(losses(config))
    return (embedded - began) * scale, (written - embedded) * scale
