"""Fitting and embedding on a cluster: the same tasks, described by files that all hosts see."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rae.config import Config, ExactConfig
from rae.engine.embedding import FOLDER as BETWEEN
from rae.engine.embedding import embed_to, job_sizes
from rae.engine.exact_fit import FOLDER as FIT
from rae.engine.exact_fit import OF_GRAPH, FitByTasks, fit_by_tasks, forget_fit
from rae.engine.layout import PROGRAM, Layout, by_edges, layout_for_hosts, memory_bytes
from rae.engine.levels import Model
from rae.engine.models import models_of
from rae.engine.ray_executor import RayExecutor, check_cluster_memory, connected
from rae.engine.shared import FOLDER, discard, share
from rae.engine.trained_fit import draw_bytes, fit_by_draws, train_on_ray
from rae.features import Features
from rae.features.measures import is_measured
from rae.graph import Graph
from rae.graph.folder import folder_of
from rae.model.channels import conform, n_measures
from rae.model.checkpoint import Fitted
from rae.model.encoder import Encoder
from rae.model.exact import ExactModel
from rae.model.structure import Structure, keep_units, measuring_bytes
from rae.model.training import Record
from rae.progress import Progress, of_stage
from rae.storage.objects import place
from rae.storage.parts import Parts


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster to run on: its address ("auto", "local", "ray://HOST:10001", "HOST:6379") and cores of a task.

    `shared` is what names of files begin with that all hosts see, by default the name of the output. `workers` share
    each step of a training.
    """

    address: str
    cores: int | None = None
    shared: str | None = None
    workers: int = 1


@contextlib.contextmanager
def fit_on_cluster(
    graph: Graph,
    x: Features | None,
    config: ExactConfig,
    cluster: Cluster,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> Iterator[FitByTasks]:
    """The inputs of an exact fit, computed by tasks on a cluster, which stays connected during the block.

    `memory` is that of a task which takes means of neighbours, by default what a host gives to it.
    """
    assert cluster.shared is not None
    with connected(cluster.address, cores=cluster.cores) as executor:
        check_cluster_memory(executor, PROGRAM + measuring_bytes(graph, config))
        yield fit_by_tasks(
            graph, x, config, _base(cluster.shared), executor, _cut(executor, memory), executor.telling(progress)
        )


def train_on_cluster(
    graph: Graph, x: Features, config: Config, losses: Sequence[str], cluster: Cluster, progress: Progress | None = None
) -> dict[str, tuple[Encoder, list[Record]]]:
    """The encoders of these losses and their histories, drawn and trained on a cluster."""
    assert cluster.shared is not None
    base = _base(cluster.shared)
    with connected(cluster.address, cores=cluster.cores) as executor:
        check_cluster_memory(executor, PROGRAM + draw_bytes(config, x.width))
        run = partial(train_on_ray, base=base, cores=executor.cores)
        report = executor.telling(progress)
        return fit_by_draws(graph, x, config, losses, base, executor, run, workers=cluster.workers, progress=report)


def forget_fit_on_cluster(shared: str) -> None:
    """Remove the files of a fit's tasks, from which the same fit would resume."""
    forget_fit(_base(shared))


def embed_on_cluster(
    path: str | os.PathLike[str],
    fitted: Fitted,
    graph: Graph,
    features: Any,
    cluster: Cluster,
    *,
    memory: int | str | None = None,
    half: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> int:
    """`embed_to` by tasks on a cluster; `memory` is that of one task, by default what a host gives to it."""
    shared_path = (cluster.shared or os.fspath(path)).rstrip("/")
    inputs = place(f"{shared_path}{FOLDER}")
    with connected(cluster.address, cores=cluster.cores) as executor:
        ready: dict[str, Parts] = {}
        if isinstance(fitted, ExactModel) and fitted.structure is not None and not is_measured(graph):
            blank = np.broadcast_to(np.float32(0), (graph.n_nodes, n_measures(fitted.channels, fitted.weighted)))
            shapes = models_of(fitted, graph, features, check=False, own=blank)
            cut = cluster_layout(shapes, executor, memory, half=False)
            ready = _measure(graph, fitted, fitted.structure, _base(shared_path), executor, cut, progress)
        models = models_of(fitted, graph, features, check=False)
        if half or not ready:
            ready, cut = {}, cluster_layout(models, executor, memory, half)
        shared = share(inputs, models, fitted, folder_of(graph))
        options |= {"cut": cut, "executor": executor, "shared": shared, "between": f"{shared_path}{BETWEEN}"}
        options |= {"ready": ready, "report": of_stage(executor.telling(progress), "embed")}
        width = embed_to(path, models, half=half, **options)
    discard(inputs)
    forget_fit(_base(shared_path))
    return width


def _measure(
    graph: Graph,
    fitted: ExactModel,
    solved: Structure,
    base: str,
    executor: RayExecutor,
    cut: Layout,
    progress: Progress | None,
) -> dict[str, Parts]:
    """Count and measure a graph by tasks, and keep that with it; parts of levels that embedding it needs too."""
    config, graph = fitted.config, conform(graph, fitted.channels, fitted.weighted)
    check_cluster_memory(executor, PROGRAM + measuring_bytes(graph, config))
    unit = None if config.relative else ((solved.mean, solved.deviation), solved.scales)
    report = executor.telling(progress)
    source = fit_by_tasks(graph, None, config, base, executor, lambda _: cut, report, unit=unit, keeps_levels=True)
    source.measure([0])
    source.keep_own()
    if not config.relative:
        return {}
    keep_units(graph, config, source.files.unit()[0], source.statistics(None).mean(0))
    return {"place": source.parts_of_levels(OF_GRAPH, cut)}


def _base(shared: str) -> str:
    return f"{shared.rstrip('/')}{FIT}"


def _cut(executor: RayExecutor, memory: int | str | None) -> Callable[[Mapping[str, Model]], Layout]:
    return lambda models: cluster_layout(models, executor, memory, half=False)


def cluster_layout(models: Mapping[str, Model], executor: RayExecutor, memory: int | str | None, half: bool) -> Layout:
    """The layout of a job on this cluster; one that its hosts have too little memory for is refused."""
    graph = next(iter(models.values())).reads.graph
    sizes = replace(job_sizes(models, 2 if half else 4), resident=0)  # a worker maps all that it reads
    budget = executor.memory if memory is None else memory_bytes(memory)
    check_cluster_memory(executor, sizes.least_memory if memory is None else budget)
    averaged = max(level.columns for model in models.values() for level in model.levels)
    return by_edges(layout_for_hosts(budget, sizes, averaged), graph.offsets)
