"""Runs of any number of nodes with vectors of 256 columns, for commands to be measured on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

import rae


def fitted_run(folder: Path, n: int) -> rae.Run:
    """A run of n nodes of a power-law graph, twenty steps."""
    graph = rae.datasets.load("power-law", n_nodes=n, n_edges=5 * n, seed=0).graph
    model = rae.RAE(steps=20, seed=0).fit(graph)
    return rae.Run.create(folder, model, graph.id_column, model.transform(graph), graph=graph)


def planted_run(folder: Path, n: int, width: int = 256, edges: int = 10) -> rae.Run:
    """A run of n nodes and 12 planted groups in vectors as wide as the default, on a graph with hubs."""
    rng = np.random.default_rng(0)
    ends = (n * rng.random(edges * n // 2) ** 2).astype(np.int64), rng.integers(n, size=edges * n // 2)
    ids = pa.array([f"account-{i:07d}" for i in range(n)])
    graph = rae.Graph.from_scipy(sp.coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(n, n)), ids=ids)
    centers = rng.standard_normal((12, width), dtype=np.float32)
    group = rng.integers(12, size=n)
    z = centers[group] + 0.5 * rng.random((n, 1), dtype=np.float32) * centers[(group + 1) % 12]
    z += 0.35 * rng.standard_normal((n, width), dtype=np.float32)
    model = rae.RAE(dims=(4,), fanout=(2,), steps=0).fit(rae.Graph.from_edges([(0, 1), (1, 2)]))
    run = rae.Run.create(folder, model, graph.id_column, z, graph=graph, counts={"nodes": n, "edges": graph.n_edges})
    run.fit_roles(12)
    return run
