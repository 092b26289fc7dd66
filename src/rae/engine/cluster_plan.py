"""What embedding takes on a cluster: memory of a host, bytes on disk and over the network, core-hours and time.

With n nodes, m edges (2 m stored neighbours), H hosts, b bytes of a number (4, half: 2), and levels that average C_k
columns and make W_k:

    table      n b C_k: the rows that a level averages, in memory of every host, C_k cut into as few stripes as fit
    memory     the program, the parts at work, three row groups, and one stripe of the table
    parts      by rows and by edges, so that no part has more work than about twice the mean
    written    sum over levels of n b (C_k + W_k), and 4 n times the gathered columns where there are several stripes
    output     n times the width times the bytes of a number in the files, and the ids
    network    every host reads every table once, H n b sum C_k; each part reads its edges once per level and stripe,
               its own rows, and for the output all levels once; and all that is written, as the disk is shared.
               A graph folder in an object store is copied whole to every host, and to the one that gives the command
    CPU        measured here: tasks of each kind on a random graph, seconds per row or per stored neighbour and column
    tasks      START seconds until the first one is at work, and TASK for sending each, opening and writing its files
    time       core-seconds over all cores, bytes of a host over its network, and tasks, one after the other

START and TASK are those of the rehearsal, `benchmarks/cluster.py`: four hosts and a store, all on two cores.

The fit is not counted: its tasks count, measure and average the graph and its noisy copies before these ones.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.config import Settings
from rae.engine.embedding import embed_to
from rae.engine.layout import PART_BYTES, TILE, Layout, Sizes
from rae.engine.levels import LevelSteps
from rae.engine.models import blank_models
from rae.engine.tasks import Job, perform
from rae.errors import ConfigError
from rae.graph import Graph
from rae.io.embeddings import GROUP_BYTES
from rae.runtime import generator, threads
from rae.storage.scratch import scratch_folder

SHARE = 0.7  # of a host's memory that Ray gives to tasks by default
NODES, DEGREE = 1 << 17, 16  # of the graph that tasks are timed on
ID_BYTES = 8
START, TASK = 10.0, 0.05  # seconds


@dataclass(frozen=True)
class Hosts:
    """Machines to plan for: how many, and of each its bytes of memory, its cores and its bytes a second of network."""

    count: int
    memory: int
    cores: int = 16
    network: float = 1.25e9


@dataclass(frozen=True)
class Work:
    """A job by its sizes alone: levels as (columns averaged, columns gathered, width), columns of a vector."""

    n_nodes: int
    n_edges: int
    levels: tuple[tuple[int, int, int], ...]
    width: int
    features: int
    itemsize: int = 4
    output_itemsize: int = 4

    @property
    def index_bytes(self) -> int:
        """Bytes of a stored neighbour."""
        return 4 if self.n_nodes < 2**31 else 8

    @property
    def edge_bytes(self) -> int:
        """Bytes of the rows of the graph."""
        return 2 * self.n_edges * self.index_bytes + 8 * (self.n_nodes + 1)


def work_of(
    config: Settings, n_nodes: int, n_edges: int, features: int = 0, *, half: bool = False, dtype: str = "float32"
) -> Work:
    """The work of embedding a graph of this size, with so many feature columns."""
    if n_nodes < 1 or n_edges < 0:
        raise ConfigError(f"a graph needs a node, got {n_nodes:,} nodes and {n_edges:,} edges")
    small = min(n_nodes, 1 << 16)  # from which on the widths of an exact model are the same
    ring = np.arange(small)
    graph = Graph.from_edges((ring, np.roll(ring, 1)), ids=ring)
    given = np.broadcast_to(np.float32(0), (small, features)) if features else None
    models = blank_models(config, graph, given)
    levels = tuple(
        (level.columns, _gathered(level), level.width) for model in models.values() for level in model.levels
    )
    width = sum(model.width for model in models.values())
    reads = sum(model.reads.width for model in {id(m.reads): m for m in models.values()}.values())
    return Work(n_nodes, n_edges, levels, width, reads, 2 if half else 4, 2 if dtype == "float16" else 4)


def _gathered(level: LevelSteps) -> int:
    """Columns that a level gathers: means, then deviations."""
    return sum(way.right - way.left + min(level.spread, way.right - way.left) for way in level.ways)


@dataclass(frozen=True)
class Rates:
    """Core-seconds of a task: per row and column made, per stored neighbour and column gathered, per row written."""

    row: float
    neighbor: float
    output: float


def measured_rates(config: Settings, seed: int = 0) -> Rates:
    """The rates of this machine, by the tasks of a random graph with one thread's worth of work each."""
    rng = generator(seed, "plan", "cluster")
    graph = Graph.from_edges(tuple(rng.integers(NODES, size=(2, NODES * DEGREE // 2))), ids=np.arange(NODES))
    models, timed = blank_models(config, graph), _Timed()
    cut = Layout(NODES // 8, max(level.columns for model in models.values() for level in model.levels))
    with scratch_folder() as folder:
        embed_to(folder / "z", models, cut=cut, executor=timed, in_folder=True)
    work = work_of(config, NODES, graph.n_edges)
    made = NODES * sum(columns for columns, _, _ in work.levels)
    gathered = len(graph.targets) * sum(columns for _, columns, _ in work.levels)
    cores = threads()
    return Rates(
        timed.seconds["before"] * cores / made,
        timed.seconds["after"] * cores / gathered,
        timed.seconds["write"] * cores / (NODES * work.width),
    )


class _Timed:
    """An executor that adds up the seconds of tasks by their kind."""

    def __init__(self) -> None:
        self.seconds = {"before": 0.0, "gather": 0.0, "after": 0.0, "write": 0.0}

    def run(self, job: Job, tasks: Any) -> Any:
        for task in tasks:
            began = time.perf_counter()
            perform(job, task)
            self.seconds[task.kind] += time.perf_counter() - began
            yield


@dataclass(frozen=True)
class ClusterPlan:
    """What a job takes: bytes, counts and seconds, by name."""

    fits: bool
    memory: Mapping[str, int]
    counts: Mapping[str, int]
    bytes: Mapping[str, int]
    seconds: Mapping[str, float]


def plan_cluster(work: Work, hosts: Hosts, rates: Rates) -> ClusterPlan:
    """The plan of a job on these hosts, one task at a time on each."""
    n, b = work.n_nodes, work.itemsize
    widest = max(columns for columns, _, _ in work.levels)
    fixed = _sizes(work).fixed_bytes + max(PART_BYTES, TILE * _sizes(work).row_bytes)
    room = int(hosts.memory * SHARE) - fixed
    stripe = min(widest, room // (n * b)) if room > 0 else 0
    passes = [-(-columns // max(1, stripe)) for columns, _, _ in work.levels]
    rows = max(TILE, min(PART_BYTES // _sizes(work).row_bytes // TILE * TILE, -(-n // (64 * TILE)) * TILE))
    parts = -(-n // rows)
    means = sum(4 * n * gathered for (_, gathered, _), times in zip(work.levels, passes, strict=True) if times > 1)
    between = sum(n * b * (columns + width) for columns, _, width in work.levels) + means
    output = n * (work.width * work.output_itemsize + ID_BYTES)
    tables = hosts.count * sum(n * b * columns for columns, _, _ in work.levels)
    edges = sum(passes) * work.edge_bytes
    again = 2 * sum(n * b * width for _, _, width in work.levels) + means  # by the level above, and for the output
    again += 2 * 4 * n * work.features
    network = tables + edges + again + between + output
    made = n * sum(columns for columns, _, _ in work.levels)
    gathered = 2 * work.n_edges * sum(columns for _, columns, _ in work.levels)
    core_seconds = rates.row * made + rates.neighbor * gathered + rates.output * n * work.width
    tasks = parts * (sum(2 if times == 1 else 2 + times for times in passes) + 1)
    seconds = {
        "core hours": core_seconds / 3600,
        "computing": core_seconds / (hosts.count * hosts.cores),
        "network": network / hosts.count / hosts.network,
        "start and tasks": START + TASK * tasks / hosts.count,
    }
    return ClusterPlan(
        stripe >= 1,
        {"task": fixed + max(1, stripe) * n * b, "least": fixed + n * b, "a host gives": int(hosts.memory * SHARE)},
        {
            "parts": parts,
            "tasks": tasks,
            "passes over the edges": sum(passes),
            "rows of a part": rows,
        },
        {
            "graph": work.edge_bytes,
            "a part's edges": work.edge_bytes // parts,
            "between levels": between,
            "output": output,
            "network": network,
            "network of a host": network // hosts.count,
            "network, graph in an object store": network - edges + (hosts.count + 1) * work.edge_bytes,
        },
        seconds | {"total": seconds["computing"] + seconds["network"] + seconds["start and tasks"]},
    )


def _sizes(work: Work) -> Sizes:
    widths = tuple(max(columns, width) for columns, _, width in work.levels)
    return Sizes(work.n_nodes, 2 * work.n_edges, widths, work.width, work.itemsize, 0, GROUP_BYTES)


def parsed_size(text: str) -> tuple[int, int] | None:
    """Nodes and edges of a size such as 1e9,1e11; None for what is no size.

    >>> parsed_size("1e9,1e11"), parsed_size("calls.csv")
    ((1000000000, 100000000000), None)
    """
    try:
        nodes, edges = (float(part) for part in text.split(","))
    except ValueError:
        return None
    return int(nodes), int(edges)
