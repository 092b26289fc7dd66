"""The cost of embedding on a cluster: memory of a host, bytes on disk and over the network, core-hours and time.

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

The exact fit comes before that. Of V noisy copies and the graph itself, with E bytes of a graph's rows:

    copies     each is read and written twice, 4 E: in runs of rows, of which each draws all pairs, then put together by
               one task
    counts     cycles in S shares, or estimated in runs of rows: E on each host that has a share; core numbers by one
               task, E
    levels     those of `place` over all nodes, and of `near`, `mid` and `far` where there are features, as above

and its time adds what one host does alone: putting a copy together, at the speed of its network, and core numbers. The
fit of a trained model and the building of the graph are not planned.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rae.config import ExactConfig, Settings
from rae.engine.embedding import embed_to
from rae.engine.exact_fit import entries_of_run
from rae.engine.executors import Performable
from rae.engine.layout import Layout, Sizes, layout_for_hosts, memory_bytes
from rae.engine.levels import LevelSteps
from rae.engine.models import blank_models
from rae.errors import ConfigError
from rae.features import measures
from rae.graph import Graph
from rae.io.embeddings import GROUP_BYTES
from rae.model import structure
from rae.ops import structure as ops
from rae.runtime import generator, threads
from rae.storage.scratch import scratch_folder

SHARE = 0.7  # of a host's memory that Ray gives to tasks by default
NODES, DEGREE = 1 << 17, 16  # of the graph that tasks are timed on
ID_BYTES = 8
PAIRS = 1 << 20  # that are drawn to time it
PATHS = 2.0  # paths that counting looks at, over edges times their mean degree: 1 in a random graph, more with hubs
START, TASK = 10.0, 0.05  # seconds


@dataclass(frozen=True)
class Hosts:
    """Machines to plan for: how many, and of each its bytes of memory, its cores and its bytes a second of network."""

    count: int
    memory: int
    cores: int = 16
    network: float = 1.25e9

    @classmethod
    def of(cls, count: int, memory: int | str, cores: int, gbits: float) -> Hosts:
        """So many machines, of each its memory as a size, its cores and its network in Gbit/s.

        >>> Hosts.of(4, "8GiB", 16, 1)
        Hosts(count=4, memory=8589934592, cores=16, network=125000000.0)
        """
        return cls(count, memory_bytes(memory), cores, gbits * 1e9 / 8)


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
    fit: tuple[tuple[int, int, int], ...] = ()  # levels that an exact fit runs, of all versions of the graph
    views: int = 0  # noisy copies of the graph that it makes
    noise: float = 0.0  # share of the edges that a copy drops and adds
    given: int = 0  # columns of the features

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
    x = np.broadcast_to(np.float32(0), (small, features)) if features else None
    models = blank_models(config, graph, x)
    shapes = {
        name: tuple((level.columns, _gathered(level), level.width) for level in model.levels)
        for name, model in models.items()
    }
    width = sum(model.width for model in models.values())
    reads = sum(model.reads.width for model in {id(m.reads): m for m in models.values()}.values())
    work = Work(
        *(n_nodes, n_edges, tuple(itertools.chain(*shapes.values())), width, reads),
        *(2 if half else 4, 2 if dtype == "float16" else 4),
        given=features,
    )
    if not isinstance(config, ExactConfig):
        return work
    views = config.n_views(n_nodes) if "place" in shapes else 0
    fit = (views + 1) * shapes.get("place", ()) + shapes.get("actions", ())
    return replace(work, fit=fit, views=views, noise=config.noise)


def _gathered(level: LevelSteps) -> int:
    """Columns that a level gathers: means, then deviations."""
    return sum(way.right - way.left + min(level.spread, way.right - way.left) for way in level.ways)


@dataclass(frozen=True)
class Rates:
    """Core-seconds of a task: per row and column made, per stored neighbour and column gathered, per row written."""

    row: float
    neighbor: float
    output: float
    entry: float = 0.0  # per neighbour of a noisy copy
    drawn: float = 0.0  # per pair that is drawn for it, by one thread
    path: float = 0.0  # per path that counting looks at
    estimate: float = 0.0  # per node whose cycles are estimated
    core: float = 0.0  # per neighbour, by one thread


def measured_rates(config: Settings, seed: int = 0) -> Rates:
    """The rates of this machine, by the tasks of a random graph with one thread's worth of work each."""
    rng = generator(seed, "plan", "cluster")
    graph = Graph.from_edges(tuple(rng.integers(NODES, size=(2, NODES * DEGREE // 2))), ids=np.arange(NODES))
    models, timed = blank_models(config, graph), _Timed()
    cut = Layout(NODES // 8, max(level.columns for model in models.values() for level in model.levels))
    with scratch_folder() as folder:
        embed_to(folder / "z", models, cut=cut, executor=timed, in_folder=True)
    work = work_of(config, NODES, graph.n_edges)
    n_numbers = NODES * sum(columns for columns, _, _ in work.levels)
    gathered = len(graph.targets) * sum(columns for _, columns, _ in work.levels)
    cores = threads()
    return Rates(
        timed.seconds["before"] * cores / n_numbers,
        timed.seconds["after"] * cores / gathered,
        timed.seconds["write"] * cores / (NODES * work.width),
        **_fit_rates(graph, config if isinstance(config, ExactConfig) else ExactConfig(), seed),
    )


def _fit_rates(graph: Graph, config: ExactConfig, seed: int) -> dict[str, float]:
    """The rates of what a fit does beside its levels."""
    rows, cores = (graph.offsets, graph.targets), threads()
    spent = {
        "entry": (structure.rows_of_view, (graph, config, 0, 0, NODES), len(graph.targets) / cores),
        "drawn": (_drawn, (seed,), PAIRS),
        "path": (ops.share_of_cycles, (*rows, 0, 1), measures.paths_counted(graph) / cores),
        "estimate": (ops.estimate_cycles, (*rows, measures.DRAWS, 0, (0, NODES // 8)), NODES / 8 / cores),
        "core": (ops.core_numbers, rows, len(graph.targets)),
    }
    rates = {}
    for name, (work, arguments, count) in spent.items():
        began = time.perf_counter()
        work(*arguments)  # type: ignore[operator]
        rates[name] = (time.perf_counter() - began) / count
    return rates


def _drawn(seed: int) -> Any:
    """Pairs that are drawn for a copy, and those of them that a run of rows keeps."""
    rng = generator(seed, "plan", "pairs")
    ends = np.stack([rng.integers(1 << 30, size=PAIRS, dtype=np.int32) for _ in range(2)])
    return ends[:, ((ends >= 0) & (ends < 1 << 24)).any(0)]


class _Timed:
    """An executor that adds up the seconds of tasks by their kind."""

    def __init__(self) -> None:
        self.seconds = {"before": 0.0, "gather": 0.0, "after": 0.0, "write": 0.0}

    def run(self, job: Performable, tasks: Any) -> Any:
        for task in tasks:
            began = time.perf_counter()
            job.perform(task)
            self.seconds[task.kind] += time.perf_counter() - began
            yield


@dataclass(frozen=True)
class ClusterPlan:
    """The cost of a job: bytes, counts and seconds, by name."""

    fits: bool
    memory: Mapping[str, int]
    counts: Mapping[str, int]
    bytes: Mapping[str, int]
    seconds: Mapping[str, float]


def plan_on_hosts(
    config: Settings,
    hosts: Hosts,
    n_nodes: int,
    n_edges: int,
    features: int = 0,
    *,
    half: bool = False,
    dtype: str = "float32",
) -> tuple[ClusterPlan, ClusterPlan | None]:
    """The plans of embedding a graph of this size on these hosts, and of the fit before it, by rates measured here.

    There is no plan of the fit of a trained model.
    """
    work, rates = work_of(config, n_nodes, n_edges, features, half=half, dtype=dtype), measured_rates(config)
    return plan_cluster(work, hosts, rates), plan_fit(work, hosts, rates)


def plan_cluster(work: Work, hosts: Hosts, rates: Rates) -> ClusterPlan:
    """The plan of embedding on these hosts, one task at a time on each."""
    n = work.n_nodes
    sizes, budget = _sizes(work), int(hosts.memory * SHARE)
    levels = _averaging(work, work.levels, hosts, rates)
    cut, parts = levels.cut, levels.parts
    output = n * (work.width * work.output_itemsize + ID_BYTES)
    vectors = sum(n * work.itemsize * width for _, _, width in work.levels)  # read once more, for the output
    network = levels.network + vectors + 4 * n * work.features + output
    core_seconds = levels.core_seconds + rates.output * n * work.width
    seconds = {
        "core hours": core_seconds / 3600,
        "computing": core_seconds / (hosts.count * hosts.cores),
        "network": network / hosts.count / hosts.network,
        "start and tasks": START + TASK * (levels.tasks + parts) / hosts.count,
    }
    return ClusterPlan(
        budget >= sizes.least_memory,
        {
            "task": sizes.fixed_bytes + cut.rows * sizes.row_bytes + cut.columns * n * work.itemsize,
            "least": sizes.least_memory,
            "a host gives": budget,
        },
        {
            "parts": parts,
            "tasks": levels.tasks + parts,
            "passes over the edges": levels.passes,
            "rows of a part": cut.rows,
        },
        {
            "graph": work.edge_bytes,
            "a part's edges": work.edge_bytes // parts,
            "between levels": levels.written,
            "output": output,
            "network": network,
            "network of a host": network // hosts.count,
            "network, graph in an object store": network + (hosts.count + 1 - levels.passes) * work.edge_bytes,
        },
        seconds | {"total": seconds["computing"] + seconds["network"] + seconds["start and tasks"]},
    )


def plan_fit(work: Work, hosts: Hosts, rates: Rates) -> ClusterPlan | None:
    """The plan of an exact fit on these hosts before embedding; None for a trained model, whose fit is not planned."""
    if not work.fit:
        return None
    n, entries, whole = work.n_nodes, 2 * work.n_edges, work.edge_bytes
    counted = work.views + 1 if work.views else 0  # versions of the graph
    pairs, runs = work.noise * work.n_edges, max(1, -(-entries // entries_of_run(entries)))
    paths = PATHS * work.n_edges * entries / n
    estimated = paths > measures.MOST_PATHS
    shares = measures.number_of_shares(n, paths, estimated)
    levels = _averaging(work, work.fit, hosts, rates)
    counts = whole * (1 + min(hosts.count, shares)) + 2 * n * (8 + 16 * (1 if estimated else shares))
    network = levels.network + 4 * work.views * whole + counted * counts + 3 * 4 * n * work.given
    drawing = work.views * runs * pairs * rates.drawn
    cycles = counted * (rates.estimate * n if estimated else rates.path * paths)
    core_seconds = levels.core_seconds + work.views * entries * rates.entry + cycles
    cores = entries * rates.core  # seconds of one task
    tasks = levels.tasks + work.views * (runs + 1) + counted * (2 + shares)
    seconds = {
        "core hours": (core_seconds + drawing + counted * cores) / 3600,
        "computing": core_seconds / (hosts.count * hosts.cores) + drawing / min(hosts.count, max(1, work.views * runs)),
        "network": network / hosts.count / hosts.network,
        "a copy put together": -(-work.views // hosts.count) * 2 * whole / hosts.network,
        "core numbers": -(-counted // hosts.count) * cores,
        "tasks": TASK * tasks / hosts.count,
    }
    needed = whole + (32 + 16 * hosts.cores) * n if counted and not estimated else 0
    budget = int(hosts.memory * SHARE)
    return ClusterPlan(
        budget >= needed,
        {"counting": needed, "a host gives": budget},
        {"noisy copies": work.views, "tasks": tasks, "passes over the edges": levels.passes},
        {
            "copies of the graph": work.views * whole,
            "between levels": levels.written,
            "network": network,
            "network of a host": network // hosts.count,
        },
        seconds | {"total": sum(spent for name, spent in seconds.items() if name != "core hours")},
    )


@dataclass(frozen=True)
class _Averaging:
    """What levels take: how they are cut, tasks, passes, bytes that are written and that travel, core-seconds."""

    cut: Layout
    parts: int
    tasks: int
    passes: int
    written: int
    network: int
    core_seconds: float


def _averaging(work: Work, levels: Sequence[tuple[int, int, int]], hosts: Hosts, rates: Rates) -> _Averaging:
    n, b = work.n_nodes, work.itemsize
    sizes, budget = _sizes(work), int(hosts.memory * SHARE)
    cut = layout_for_hosts(max(budget, sizes.least_memory), sizes, max(columns for columns, _, _ in levels))
    cut = replace(cut, rows=min(cut.rows, n))
    passes, parts = [len(cut.stripes(columns)) for columns, _, _ in levels], -(-n // cut.rows)
    means = sum(4 * n * gathered for (_, gathered, _), times in zip(levels, passes, strict=True) if times > 1)
    written = sum(n * b * (columns + width) for columns, _, width in levels) + means
    tables = hosts.count * sum(n * b * columns for columns, _, _ in levels)
    again = sum(n * b * width for _, _, width in levels) + means + 4 * n * work.features  # by the level above
    n_numbers = n * sum(columns for columns, _, _ in levels)
    gathered = 2 * work.n_edges * sum(columns for _, columns, _ in levels)
    return _Averaging(
        cut,
        parts,
        parts * sum(2 if times == 1 else 2 + times for times in passes),
        sum(passes),
        written,
        tables + sum(passes) * work.edge_bytes + again + written,
        rates.row * n_numbers + rates.neighbor * gathered,
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
