"""Baselines without training: what a trained method has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.features import Matrix, structural_features
from rae.graph import Graph

Array = np.ndarray[Any, Any]


def with_self(graph: Graph) -> sp.csr_array:
    """The matrix that replaces every row by the mean over {u} and N(u)."""
    adjacency = graph.to_scipy() + sp.eye_array(graph.n_nodes, format="csr")
    return sp.csr_array(sp.diags_array(1 / adjacency.sum(1)) @ adjacency)


def two_hop_mean(graph: Graph, features: Matrix) -> Any:
    """Features scaled to row sums of one, averaged twice over {u} and N(u), then scaled to length one."""
    x = _scaled(_sparse(features), 1)
    mean = with_self(graph)
    return _scaled(sp.csr_array(mean @ (mean @ x)), 2)


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
    mean = sp.diags_array(1 / np.maximum(graph.degrees, 1)) @ graph.to_scipy()
    return np.hstack([near, mean @ near])


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
