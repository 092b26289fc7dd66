"""A model of a cluster of 1 to 64 hosts with 1,000 parts, fed with the measured times of tasks.

    python benchmarks/cluster_model.py [--edges 1e7] [--parts 1000] [--network 10]

Every task of embedding a power-law graph is timed, one after the other in one thread. The modelled job has so many
parts, whose tasks of each kind and level take times drawn from the measured ones. As in the executor, tasks go to
hosts in batches and in order, one at a time on each, a level begins when the one before has ended, and whoever gives
the command sends one batch after the other, which is assumed to take `DISPATCH` seconds. A host reads the rows that a
level averages once, over its own network; a store that cannot serve all hosts at once is not in the model.
"""

from __future__ import annotations

import heapq
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from power_law import graph_folder, name
from recording import parser, record

from rae.config import ExactConfig
from rae.engine import embed_to
from rae.engine.embedding import job_sizes
from rae.engine.layout import by_edges, layout_for_hosts
from rae.engine.models import blank_models
from rae.engine.ray_executor import BATCHES, batches
from rae.graph import Graph
from rae.graph.folder import open_graph
from rae.runtime import set_threads

TABLE = "cluster-model"
HOSTS = (1, 2, 4, 8, 16, 32, 64)
DISPATCH = 0.001  # seconds
MEMORY = 44 << 30  # of a task: what a host of 64 GiB gives


@dataclass
class Timed:
    """An executor that keeps the seconds of every task, in the order of the job."""

    seconds: list[tuple[tuple[str, str, int], float]] = field(default_factory=list)

    def run(self, job: Any, tasks: Sequence[Any]) -> Iterator[None]:
        """Yields once per task."""
        for task in tasks:
            began = time.perf_counter()
            job.perform(task)
            self.seconds.append(((task.kind, task.model, task.level), time.perf_counter() - began))
            yield


@dataclass(frozen=True)
class Stage:
    """Tasks between two barriers: seconds of those that were measured, bytes that a host reads before its first."""

    seconds: tuple[float, ...]
    table: float


def measured(graph: Graph) -> tuple[list[Stage], int]:
    """The stages of embedding a graph, and into how many parts it was cut."""
    models = blank_models(ExactConfig(), graph)
    averaged = max(level.columns for model in models.values() for level in model.levels)
    cut = by_edges(layout_for_hosts(MEMORY, replace(job_sizes(models, 4), resident=0), averaged), graph.offsets)
    timed = Timed()
    with tempfile.TemporaryDirectory() as folder:
        embed_to(Path(folder) / "z", models, cut=cut, executor=timed, in_folder=True)
    stages = []
    for (kind, model, level), timings in groupby(timed.seconds, key=lambda pair: pair[0]):
        table = 4.0 * graph.n_nodes * models[model].levels[level].columns if kind == "after" else 0.0
        stages.append(Stage(tuple(seconds for _, seconds in timings), table))
    return stages, len(cut.parts(graph.n_nodes))


def makespan(stages: Sequence[Stage], hosts: int, parts: int, larger: float, network: float, seed: int) -> float:
    """Seconds of the job on so many hosts."""
    rng, now = np.random.default_rng(seed), 0.0
    for stage in stages:
        free = [(now, False, host) for host in range(hosts)]  # when it is, whether it has read the table
        sent = now
        for batch in batches(rng.choice(stage.seconds, size=parts), BATCHES * hosts):
            seconds = float(np.sum(batch))
            sent += DISPATCH
            when, has_table, host = heapq.heappop(free)
            reading = 0.0 if has_table else stage.table * larger / network
            heapq.heappush(free, (max(when, sent) + reading + seconds, True, host))
        now = max(when for when, _, _ in free)
    return now


def main() -> None:
    arguments = parser(__doc__, "a graph of 20,000 edges, 50 parts")
    arguments.add_argument("--edges", type=float, default=1e7)
    arguments.add_argument("--parts", type=int, default=1000)
    arguments.add_argument("--network", type=float, default=10.0, help="Gbit/s of a host  [default: 10]")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    edges, parts = (20_000, 50) if options.quick else (int(options.edges), options.parts)
    set_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        graph = open_graph(graph_folder(Path(scratch), edges))
        stages, cut = measured(graph)
    n_edges, larger = graph.n_edges, parts / cut
    settings = {"parts": parts, "network": options.network, "measured_parts": cut}
    alone = makespan(stages, 1, parts, larger, options.network / 8 * 1e9, options.seed)
    for hosts in HOSTS:
        seconds = makespan(stages, hosts, parts, larger, options.network / 8 * 1e9, options.seed)
        numbers = {"hosts": hosts, "seconds": round(seconds, 1), "of_linear": round(alone / hosts / seconds, 3)}
        record(options.results, TABLE, name(edges), f"{hosts} hosts", settings, edges=int(n_edges * larger), **numbers)


if __name__ == "__main__":
    main()
