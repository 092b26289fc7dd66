"""Plan: the memory and time of a fit, estimated before it starts.

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
    fit       of an exact model: a noisy copy of the graph, which lies in a file where a budget leaves no room for it, a
              copy that is ordered by degree, counts of each thread, and one level of statistics of all nodes
              (`rae.model.structure.fit_bytes`); or, if that is more, directions of the features of all nodes
    graph     offsets and neighbours, and 4 bytes per stored neighbour and channel
    read      the file and the columns made of it, before the graph is there; nothing for a graph folder
    peak      program + the larger of read and graph + features + the larger of step and embedding
              with a memory budget, an exact fit has of a mapped graph, and of mapped features, nothing that stays

Time is measured: reading as it happened, a few real steps, or one exact fit of a small random graph scaled by the paths
of two edges that counting cycles looks at; one embedding of a random graph with the same mean degree and
the same features (of the graph itself if it is small), scaled by its nodes.
A small graph's rows lie in the cache, so the averaging is timed apart: on the small graph, and on
runs of rows of the graph itself, in its own order, whose neighbours lie anywhere in memory.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from rae.config import Config, ExactConfig, Settings
from rae.engine import memory_bytes, stream
from rae.engine.embedding import job_sizes
from rae.engine.layout import PART_BYTES, PROGRAM, WRITING, budget_for, layout
from rae.engine.levels import Model
from rae.engine.models import blank_models
from rae.errors import Argument, CollapseWarning, ConfigError, GraphError, MemoryWarning
from rae.features import Features, measures
from rae.fitting import views_in_memory
from rae.graph import Graph
from rae.io import write_embeddings
from rae.io.embeddings import GROUP_BYTES
from rae.memory import aligned_empty, number_in
from rae.memory import available_memory as available_memory
from rae.model import actions, checkpoint, structure
from rae.model.pairs import PAIRINGS
from rae.model.training import fit, n_shuffled
from rae.ops.gather import mean
from rae.progress import size
from rae.runtime import chosen_device, device_bytes, generator, threads
from rae.storage.parts import Parts
from rae.storage.scratch import scratch_folder

LIVE_ARRAYS = 14  # arrays of a level that are alive at the end of a forward pass and during the backward pass
BUFFERS = 2  # row groups that are computed while others are written
PER_WEIGHT = 32  # bytes more per row where it has a weight, a direction or a kind: two columns, buffered and sorted
PER_ROW = 64  # bytes per row of the edge file while the graph is made: two columns, codes, ranks
SAMPLE = 32_768  # nodes embedded and written to measure the rates
COLUMNS = 64  # width at which averaging is timed
RUNS, RUN = 64, 512  # runs of rows that are averaged to time it, and rows of a run
MOST = 1 << 20  # rows in memory for that, at most: 256 MiB
PASSES = 4  # over the edges of each level, from which on a budget is called slow
STEPS = 3  # real steps that are timed, after one that warms up


@dataclass(frozen=True)
class Plan:
    """Expected bytes by part and expected seconds by stage; `peak` and `total` are what to look at."""

    memory: dict[str, int]
    seconds: dict[str, float]
    width: int  # columns of a vector
    device: str = "cpu"  # where the fit and the embedding will be computed
    device_bytes: int = 0  # that they would take on a GPU


def plan(
    graph: Graph,
    features: Any,
    config: Settings,
    *,
    file_bytes: int = 0,
    read_seconds: float = 0.0,
    budget: int | str | None = None,
    half: bool = False,
    dtype: str = "float32",
    from_folder: bool = False,
    device: str = "cpu",
) -> Plan:
    """What fitting this graph with these settings will take, and what embedding it will.

    `budget`, `half` and `dtype` as for `embed_to`; a graph folder costs no reading. `device` as for `RAE`; the seconds
    are those of the CPU.
    """
    if budget is not None:
        check_budget(budget, graph, features, config, half=half)
    began = time.perf_counter()
    models = blank_models(config, graph, features)
    if isinstance(config, Config):
        models = {name: replace(model, reads=model.reads.in_memory()) for name, model in models.items()}
    prepared = time.perf_counter() - began
    seconds = {"read": read_seconds, "fit": _fit_seconds(graph, models, config), "embed": 0.0, "write": 0.0}
    seconds["embed"], seconds["write"] = _embedding_seconds(models, config.seed, dtype)
    seconds["fit"] += prepared if isinstance(config, Config) and config.steps else 0.0
    seconds["embed"] += prepared
    if budget is not None:
        columns = sum(level.columns + level.width for model in models.values() for level in model.levels)
        seconds["embed"] += _itemsize(half) * graph.n_nodes * columns * _part_seconds()
    seconds["total"] = sum(seconds.values())
    expected = memory(graph, features, config, file_bytes=file_bytes, budget=budget, half=half, from_folder=from_folder)
    width = sum(model.width for model in models.values())
    needed = device_bytes(graph, _table_columns(models) + 2 * width)
    asked_device = "cpu" if device == "auto" and (budget is not None or isinstance(config, Config)) else device
    return Plan(expected, seconds, width, chosen_device(asked_device, len(graph.targets), needed), needed)


def memory(
    graph: Graph,
    features: Any,
    config: Settings,
    *,
    file_bytes: int = 0,
    budget: int | str | None = None,
    half: bool = False,
    from_folder: bool = False,
) -> dict[str, int]:
    """Expected bytes of the graph, the features, the fit, the embedding, and of all at the worst moment.

    Nothing is computed that grows with the features, so that a fit can be warned of before it starts.
    """
    models = blank_models(config, graph, features)
    reads = list({id(model.reads): model.reads for model in models.values()}.values())
    n, width = graph.n_nodes, sum(model.width for model in models.values())
    resident = sum(0 if x.is_mapped else x.given_bytes for x in reads)  # mapped pages are reclaimable
    structural = 4 * n * sum(x.structural_width for x in reads)
    group = min(GROUP_BYTES, 4 * n * width)
    parts = {
        "program": PROGRAM,
        "read": 0 if from_folder else reading_bytes(file_bytes, graph.counts.rows, weighted=bool(graph.channels)),
        "graph": sum(array.nbytes for array in graph.arrays) + graph.id_column.nbytes,
        "features": resident + structural,
        "step": _fit_bytes(graph, models, config, budget),
        "embedding": 4 * n * _table_columns(models) + (BUFFERS + WRITING) * group,
    }
    fitting = PROGRAM + parts["graph"] + parts["features"] + parts["step"]
    counted = measures.CACHED_BYTES * n if "place" in models else 0
    embedding = PROGRAM + parts["graph"] + parts["features"] + counted + parts["embedding"]
    if budget is not None:
        if isinstance(config, ExactConfig):  # what is mapped is given back while it is read
            fitting = PROGRAM + _resident_bytes(graph, models) + parts["step"]
        averaged = max(level.columns for model in models.values() for level in model.levels)
        parts["embedding"] = PART_BYTES + WRITING * GROUP_BYTES + _itemsize(half) * n * averaged
        embedding = min(memory_bytes(budget), PROGRAM + parts["graph"] + resident + counted + parts["embedding"])
    built = parts["graph"] if budget is None else graph.resident_bytes
    return parts | {"peak": max(PROGRAM + parts["read"] + built, fitting, embedding)}


def reading_bytes(file_bytes: int, rows: int, *, weighted: bool = False) -> int:
    """Bytes that reading an edge file into memory takes, besides the program; more with weights or kinds."""
    return file_bytes + (PER_ROW + (PER_WEIGHT if weighted else 0)) * rows


def least_budget(graph: Graph, features: Any, config: Settings, *, half: bool = False, fit: bool = True) -> int:
    """The least budget that fitting and embedding this graph can keep to; without a `fit`, embedding."""
    models = blank_models(config, graph, features)
    least = job_sizes(models, _itemsize(half)).least_memory
    if not isinstance(config, ExactConfig):
        return least
    needed = (
        _exact_bytes(graph, models, config, views_in_memory=False) if fit else _measuring_bytes(graph, models, config)
    )
    return max(least, PROGRAM + _resident_bytes(graph, models) + needed)


def _resident_bytes(graph: Graph, models: Mapping[str, Model]) -> int:
    """Bytes of graph and given features during a fit, but for what is mapped."""
    return graph.resident_bytes + (models["actions"].reads.resident_bytes if "actions" in models else 0)


def _measuring_bytes(graph: Graph, models: Mapping[str, Model], config: ExactConfig) -> int:
    return structure.measuring_bytes(graph, config) if "place" in models else 0


def check_budget(
    memory: int | str, graph: Graph, features: Any, config: Settings, *, half: bool = False, fit: bool = True
) -> None:
    """Refuse a budget that fitting and embedding this graph cannot keep to; without a `fit`, embedding it.

    A budget that is kept only by many passes over the edges gets a warning with a better one.
    """
    models = blank_models(config, graph, features)
    sizes = job_sizes(models, _itemsize(half))
    cut = layout(memory, sizes)
    least = least_budget(graph, features, config, half=half, fit=fit)
    if memory_bytes(memory) < least:
        raise ConfigError(
            Argument("memory"),
            f" must be {math.ceil(least / 2**30 * 100) / 100:.2f} GiB or more to "
            f"{'fit a model of' if fit else 'count the cycles of'} {graph.n_edges:,} edges, "
            f"got {memory_bytes(memory) / 2**30:.2f} GiB",
        )
    averaged = max(level.columns for model in models.values() for level in model.levels)
    passes = len(cut.stripes(averaged))
    if passes > PASSES:
        better = -(-budget_for(PASSES, averaged, sizes) // (1 << 20))
        advice = () if shortage(better << 20) else (f"; {PASSES} times with ", Argument("memory", f"{better}MiB"))
        text = f"{size(memory_bytes(memory))} is enough, but slow: each level passes over the edges {passes} times"
        warnings.warn(MemoryWarning(text, *advice), stacklevel=3)


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


def _fit_seconds(graph: Graph, models: Mapping[str, Model], config: Settings) -> float:
    if isinstance(config, ExactConfig):
        axes = _axes_seconds(graph, models["actions"].reads, config) if "actions" in models else 0.0
        return axes + (_exact_seconds(graph, config) if "place" in models else 0.0)
    assert isinstance(config, Config)
    return sum(fit_seconds(graph, model.reads, config, loss) for loss, model in models.items())


def _exact_seconds(graph: Graph, config: ExactConfig) -> float:
    """Seconds of an exact fit: that of a small graph, counting scaled by its paths, the rest by its edges."""
    small = _small_graph(graph, config.seed)
    began = time.perf_counter()
    structure.measure(small)
    counted = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        structure.fit_structure(small, config)
    counting = counted - began
    views = config.n_views(graph.n_nodes)
    rest = max(0.0, time.perf_counter() - counted - config.n_views(small.n_nodes) * counting)
    paths = measures.paths_counted(graph) / max(measures.paths_counted(small), 1)
    edges = len(graph.targets) / max(len(small.targets), 1)
    return (1 + views) * counting * paths + rest * edges


def _axes_seconds(graph: Graph, x: Features, config: ExactConfig) -> float:
    """Seconds that fitting the axes of given features takes: those of a small graph, scaled by its nodes."""
    small = _small_graph(graph, config.seed)
    rows = (
        np.arange(small.n_nodes)
        if small is graph
        else np.sort(generator(config.seed, "plan", "rows").choice(graph.n_nodes, small.n_nodes, replace=False))
    )
    part = _take_rows(x, small, rows)
    began = time.perf_counter()
    actions.fit_actions(part, config)
    return (time.perf_counter() - began) * max(1.0, graph.n_nodes / small.n_nodes)


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


def _fit_bytes(graph: Graph, models: Mapping[str, Model], config: Settings, budget: int | str | None) -> int:
    """Bytes of a training step, or of an exact fit, besides graph and features."""
    if isinstance(config, ExactConfig):
        x = models["actions"].reads if "actions" in models else None
        return _exact_bytes(graph, models, config, views_in_memory=views_in_memory(graph, x, config, budget))
    assert isinstance(config, Config)
    if not config.steps:
        return 0
    x = next(iter(models.values())).reads
    structural = 4 * graph.n_nodes * x.structural_width
    row_bytes = 4 * x.width if x.is_dense else (x.given_bytes + structural) / graph.n_nodes  # float16 rows are widened
    return _step_bytes(graph, x.width, row_bytes, config)


def _exact_bytes(graph: Graph, models: Mapping[str, Model], config: ExactConfig, *, views_in_memory: bool) -> int:
    """Bytes of an exact fit besides graph and features: of its structure or of its features, whichever takes more."""
    given_width = models["actions"].reads.given_width if "actions" in models else 0
    fitted = structure.fit_bytes(graph, config, views_in_memory=views_in_memory) if "place" in models else 0
    return max(fitted, actions.hop_bytes(graph.n_nodes, given_width))


def _step_bytes(graph: Graph, n_features: int, row_bytes: float, config: Config) -> int:
    """Bytes of a step of the loss that takes most."""
    return max(_step_bytes_of(loss, graph, n_features, row_bytes, config) for loss in checkpoint.losses(config))


def _step_bytes_of(loss: str, graph: Graph, n_features: int, row_bytes: float, config: Config) -> int:
    b = min(config.batch_size, graph.n_nodes)
    if loss == "agree":
        others, shuffled = 2, 0  # a view of anchors and of ends of walks
    else:
        others = config.positives + PAIRINGS[loss].encodes_batch
        shuffled = n_shuffled(config, loss) if config.shuffle == "neighbors" else 0
    anchor = rows_by_level(graph, b, config)
    context = rows_by_level(graph, b * others, config)
    context[-1] += b * shuffled
    resident = sum(LIVE_ARRAYS * (r + s) * d for r, s, d in zip(anchor[1:], context[1:], config.dims, strict=True))
    gathered = (anchor[0] + context[0]) * row_bytes
    widths = (n_features, *config.dims)
    weights = sum(a * d + (d * d if config.projections == 2 else 0) for a, d in zip(widths, config.dims, strict=False))
    return int(4 * resident + gathered + 2 * 16 * weights)


def _table_columns(models: Mapping[str, Model]) -> int:
    """Columns of the rows that all levels average, less the features where the first one averages them as they are."""
    return sum(
        level.columns for model in models.values() for k, level in enumerate(model.levels) if k or level.maps_rows
    )


def _columns_gathered(model: Model) -> int:
    """Columns that are gathered to embed a node, with repetitions: a deviation costs two columns more.

    A level's vectors are the rows of the level above, or they are computed once for that level and once to be written.
    """
    later = [*model.levels[1:], None]
    return sum(
        sum(way.right - way.left + 2 * min(level.spread, way.right - way.left) for way in level.ways)
        * (2 if above is not None and above.maps_rows else 1)
        for level, above in zip(model.levels, later, strict=True)
    )


def _small_graph(graph: Graph, seed: int) -> Graph:
    """The graph itself, or a random one of SAMPLE nodes with the same mean degree."""
    if graph.n_nodes <= SAMPLE:
        return graph
    rng = generator(seed, "plan")
    ends = rng.integers(SAMPLE, size=(2, round(graph.n_edges * SAMPLE / graph.n_nodes)))
    plain = Graph.from_edges((ends[0], ends[1]), ids=np.arange(SAMPLE))
    if not graph.channels:
        return plain
    entries = rng.integers(len(graph.targets), size=len(plain.targets))  # weights of edges, wherever they are
    channels = {name: np.ascontiguousarray(array[entries]) for name, array in graph.channels.items()}
    return Graph(plain.offsets, plain.targets, plain.id_column, channels=channels, weighted=graph.weighted)


def _embedding_seconds(models: Mapping[str, Model], seed: int, dtype: str) -> tuple[float, float]:
    """Seconds to embed every node, and to write the vectors."""
    graph = next(iter(models.values())).reads.graph
    n, small = graph.n_nodes, _small_graph(graph, seed)
    rows = np.sort(generator(seed, "plan", "rows").choice(n, small.n_nodes, replace=False))
    part = {name: replace(model, reads=_take_rows(model.reads, small, rows)) for name, model in models.items()}
    for _ in stream(part):  # once to warm up
        pass
    began = time.perf_counter()
    z = np.vstack([vectors.copy() for vectors in stream(part)])
    embedded = time.perf_counter()
    with scratch_folder() as folder:
        write_embeddings(folder / "z.parquet", pa.array(np.arange(len(z))), z, dtype=dtype)
    written = time.perf_counter()
    spent = embedded - began
    sampled = any(model.reads.config.inference == "sampled" for model in models.values())
    if small is not graph and not sampled:  # its rows fit the cache, those of the graph do not
        gathered = sum(map(_columns_gathered, models.values()))
        spent = max(spent - gathered * _averaging_seconds(small), spent / 4)
        spent += gathered * _averaging_seconds(graph) * len(z) / n
    fresh = 4 * (n - len(z)) * _table_columns(models) * _touching_seconds()
    writing = (written - embedded) * n / len(z) / min(2, threads())  # one of two threads writes, the other computes
    return spent * n / len(z) + fresh, writing


def _take_rows(x: Features, small: Graph, rows: Any) -> Features:
    """Features of a small graph: those of these rows, the structural columns among them."""
    return Features.of(small, x.take(rows), x.config.replace(add_structure=False), check=False)


def _part_seconds() -> float:
    """Seconds that a byte costs which goes to disk in parts and comes back."""
    rows = np.ones(1 << 23, np.float32)
    with scratch_folder() as folder:
        began = time.perf_counter()
        parts = Parts.open(folder / "parts", {})
        parts.write("rows", [rows])
        parts.read_into("rows", rows)
        return (time.perf_counter() - began) / rows.nbytes


def _touching_seconds() -> float:
    """Seconds that a byte of new memory costs, measured on 64 MiB of it."""
    began = time.perf_counter()
    touched = np.ones(1 << 26, np.uint8).nbytes
    return (time.perf_counter() - began) / touched


def _averaging_seconds(graph: Graph) -> float:
    """Seconds to average one column over every neighbourhood, measured on a few runs of rows."""
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
