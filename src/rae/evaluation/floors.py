"""Baselines without training: what a trained method has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.features import Matrix, measures, structural_features
from rae.graph import Graph

Array = np.ndarray[Any, Any]


def with_self(graph: Graph) -> sp.csr_array:
    """The matrix that replaces every row by the mean over {u} and N(u)."""
    adjacency = graph.to_scipy() + sp.eye_array(graph.n_nodes, format="csr")
    return sp.csr_array(sp.diags_array(1 / adjacency.sum(1)) @ adjacency)


def two_hop_mean(graph: Graph, features: Matrix) -> Any:
    """Features scaled to row sums of one, averaged twice over {u} and N(u), then scaled to length one."""
    return hop_mean(graph, features, 2)


def hop_mean(graph: Graph, features: Matrix, hops: int, *, symmetric: bool = False) -> Any:
    """Features scaled to row sums of one, averaged `hops` times over {u} and N(u), then scaled to length one.

    symmetric: a neighbour counts 1 / sqrt(its degree), as in graph convolutions.
    """
    x, step = _scaled(_sparse(features), 1), _symmetric(graph) if symmetric else with_self(graph)
    for _ in range(hops):
        x = sp.csr_array(step @ x)
    return _scaled(x, 2)


def _symmetric(graph: Graph) -> sp.csr_array:
    """The adjacency with loops, each entry divided by the roots of both degrees."""
    root = sp.diags_array(1 / np.sqrt(graph.degrees + 1.0))
    return sp.csr_array(root @ (graph.to_scipy() + sp.eye_array(graph.n_nodes, format="csr")) @ root)


def words_and_means(graph: Graph, features: Matrix) -> Any:
    """A node's own words beside their mean over its neighbours and over theirs, each of length one.  -> (n, 3 d)

    The node is in neither of the means' first step, so that own and near words stay separate.
    """
    x = _scaled(_sparse(features), 1)
    mean = _mean_of_neighbors(graph)
    near = sp.csr_array(mean @ x)
    return sp.csr_array(sp.hstack([_scaled(part, 2) for part in (x, near, sp.csr_array(mean @ near))]))


def of_length_one(features: Matrix) -> Any:
    """The features themselves, every row scaled to length one."""
    return _scaled(_sparse(features), 2)


def log_degree(graph: Graph) -> Array:
    """log(1 + degree), and nothing else.  -> (n, 1)"""
    return np.log1p(graph.degrees.astype(np.float64))[:, None]


def two_hop_degrees(graph: Graph) -> Array:
    """Log-degree, and its mean, spread, smallest and largest among the neighbours, then the means of those again."""
    own = log_degree(graph)
    near = np.hstack([own, _of_neighbors(graph, own)])
    return np.hstack([near, _mean_of_neighbors(graph) @ near])


def degree_and_triangles(graph: Graph) -> Array:
    """log(1 + degree) and log(1 + triangles), in units of the graph.  -> (n, 2)"""
    return in_own_units(np.log1p(np.stack([measures.degrees(graph), measures.triangles(graph)], 1).astype(np.float64)))


def two_hop_statistics(graph: Graph) -> Array:
    """Degree, triangles and clustering of a node and of what stands two hops around it.  -> (n, 39)

    Own values, logarithms of the counts (3); their mean, spread, smallest and largest among the neighbours (12); mean
    and spread of those twelve among the neighbours (24).
    """
    triangles = measures.triangles(graph)
    counts = np.log1p(np.stack([measures.degrees(graph), triangles], 1).astype(np.float64))
    own = np.hstack([counts, measures.clustering(graph, triangles)[:, None]])
    near = np.hstack([_of_neighbors(graph, own[:, [i]]) for i in range(own.shape[1])])
    mean = _mean_of_neighbors(graph)
    average = mean @ near
    spread = np.sqrt(np.maximum(mean @ near**2 - average**2, 0))
    return np.hstack([own, near, average, spread])


def in_own_units(x: Array) -> Array:
    """Every column minus its mean, divided by its deviation over these nodes; a constant column becomes 0.

    What a reader of one graph says then holds for another graph of another size.
    """
    spread = x.std(0)
    return np.asarray((x - x.mean(0)) / np.where(spread > 1e-9, spread, 1))


def _mean_of_neighbors(graph: Graph) -> sp.csr_array:
    """The matrix that replaces every row by the mean over N(u), 0 where there are none."""
    return sp.csr_array(sp.diags_array(1 / np.maximum(graph.degrees, 1)) @ graph.to_scipy())


def graph_sizes(graphs: Sequence[Graph]) -> Array:
    """log(1 + nodes) and log(1 + edges) of every graph.  -> (g, 2)"""
    return np.log1p(np.array([(g.n_nodes, g.n_edges) for g in graphs], dtype=np.float64))


def summed_features(graphs: Sequence[Graph], features: Sequence[Matrix] | None, seed: int) -> Array:
    """The input of an encoder summed over the nodes of each graph: raw degrees, and features if there are any."""
    whole = Graph.disjoint_union(graphs)
    x = structural_features(whole, scale="raw", above_cap="random", seed=seed).astype(np.float64)
    if features is not None:
        x = np.hstack([x, np.vstack([np.asarray(f) for f in features])])
    sizes = np.array([g.n_nodes for g in graphs])
    return np.asarray(np.add.reduceat(x, np.cumsum(sizes) - sizes, axis=0))


def degree_profiles(graphs: Sequence[Graph], bins: int) -> Array:
    """Histograms of each graph: the degrees, and their mean, spread, minimum and maximum among the neighbours.

    -> (g, 5 * bins): each column in evenly spaced bins of log(1 + value), up to its largest in the collection.
    """
    whole = Graph.disjoint_union(graphs)
    own = whole.degrees.astype(np.float64)[:, None]
    numbers = np.log1p(np.hstack([own, _of_neighbors(whole, own)]))
    graph_of = np.repeat(np.arange(len(graphs)), [g.n_nodes for g in graphs])
    bin_of = np.minimum((numbers * (bins / np.maximum(numbers.max(0), 1e-9))).astype(np.int64), bins - 1)
    width = bins * numbers.shape[1]
    code = graph_of[:, None] * width + np.arange(numbers.shape[1]) * bins + bin_of
    counts = np.bincount(code.ravel(), minlength=len(graphs) * width)
    return counts.reshape(len(graphs), width).astype(np.float64)


def _of_neighbors(graph: Graph, column: Array) -> Array:
    """Mean, standard deviation, smallest and largest of a column over the neighbours; 0 where there are none."""
    out = np.zeros((graph.n_nodes, 4))
    some = graph.degrees > 0
    if not some.any():
        return out
    # reduceat runs from one start to the next: only rows that have neighbours may give one.
    values, starts = column[graph.targets, 0], np.asarray(graph.offsets[:-1], np.int64)[some]
    mean, squares = (np.add.reduceat(v, starts) / graph.degrees[some] for v in (values, values**2))
    spread = np.sqrt(np.maximum(squares - mean**2, 0))
    out[some] = np.stack([mean, spread, np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)], 1)
    return out


def _sparse(features: Any) -> sp.csr_array:
    return sp.csr_array(features).astype(np.float64)


def _scaled(x: sp.csr_array, order: int) -> sp.csr_array:
    """Rows divided by their norm; a row of zeros stays one."""
    norms = np.asarray(abs(x).sum(1)) if order == 1 else np.sqrt(np.asarray(x.multiply(x).sum(1)))
    return sp.csr_array(sp.diags_array(1 / np.where(norms > 0, norms, 1)) @ x)
