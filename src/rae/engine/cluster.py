"""Embedding on a cluster: the same tasks, described by files that all hosts see."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rae.engine.embedding import FOLDER as BETWEEN
from rae.engine.embedding import embed_to, job_sizes
from rae.engine.layout import TILE, Layout, by_edges, layout, memory_bytes
from rae.engine.levels import Model
from rae.engine.ray_executor import RayExecutor, check_cluster_memory, connected
from rae.engine.shared import FOLDER, discard, share
from rae.graph.folder import folder_of
from rae.model.checkpoint import Fitted
from rae.storage.objects import place

PARTS = 64  # at least, where the graph is large enough: whatever the cluster, so that another one goes on with them


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster to run on: its address ("auto", "local", "ray://HOST:10001", "HOST:6379") and cores of a task.

    `shared` is what names of files begin with that all hosts see, by default the name of the output.
    """

    address: str
    cores: int | None = None
    shared: str | None = None


def embed_on_cluster(
    path: str | os.PathLike[str],
    models: Mapping[str, Model],
    fitted: Fitted,
    cluster: Cluster,
    *,
    memory: int | str | None = None,
    half: bool = False,
    **options: Any,
) -> int:
    """What `embed_to` does, by tasks on a cluster; `memory` is that of one task, by default what a host gives to it."""
    graph = next(iter(models.values())).reads.graph
    seen = (cluster.shared or os.fspath(path)).rstrip("/")
    inputs = place(f"{seen}{FOLDER}")
    with connected(cluster.address, cores=cluster.cores) as executor:
        cut = cluster_layout(models, executor, memory, half)
        shared = share(inputs, models, fitted, folder_of(graph))
        options |= {"cut": cut, "executor": executor, "shared": shared, "between": f"{seen}{BETWEEN}"}
        width = embed_to(path, models, half=half, **options)
    discard(inputs)
    return width


def cluster_layout(models: Mapping[str, Model], executor: RayExecutor, memory: int | str | None, half: bool) -> Layout:
    """How a job is cut for tasks of this cluster; one that its hosts have too little memory for is refused."""
    graph = next(iter(models.values())).reads.graph
    sizes = replace(job_sizes(models, 2 if half else 4), resident=0)  # a worker maps all that it reads
    budget = executor.memory if memory is None else memory_bytes(memory)
    check_cluster_memory(executor, sizes.least_memory if memory is None else budget)
    cut = layout(budget, sizes)
    tiles = max(1, -(-graph.n_nodes // (PARTS * TILE)))
    return by_edges(replace(cut, rows=min(cut.rows, tiles * TILE)), graph.offsets)
