"""Structural measures of every node: degree, triangles, clustering, core number."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from rae.graph import Graph
from rae.ops import structure as kernels
from rae.runtime import in_ranges

Ints = np.ndarray[Any, np.dtype[np.int64]]


def degrees(graph: Graph) -> Ints:
    """The number of neighbours of each node.  -> (n,)"""
    return np.ascontiguousarray(graph.degrees, np.int64)


def triangles(graph: Graph) -> Ints:
    """The triangles each node is a corner of.  -> (n,)"""
    n = graph.n_nodes
    starts = np.zeros(n + 1, np.int64)
    in_ranges(lambda a, b: kernels.forward_counts(graph.offsets, graph.targets, starts, a, b), n, 1024)
    starts = np.cumsum(starts)
    after = np.empty(int(starts[-1]), graph.targets.dtype)
    in_ranges(lambda a, b: kernels.forward_rows(graph.offsets, graph.targets, starts, after, a, b), n, 1024)
    total, lock = np.zeros(n, np.int64), threading.Lock()

    def work(start: int, stop: int) -> None:
        counts = np.zeros(n, np.int64)  # a triangle has corners in any range, so each thread counts for itself
        kernels.triangles(starts, after, counts, start, stop)
        with lock:
            total[:] += counts

    in_ranges(work, n, 4096)
    return total


def core_numbers(graph: Graph) -> Ints:
    """The largest k such that the node is in the k-core.  -> (n,)"""
    core = degrees(graph).copy()
    kernels.core_numbers(graph.offsets, graph.targets, core)
    return core


def clustering(graph: Graph, triangle_counts: Ints | None = None) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The share of pairs of neighbours that are adjacent; 0 for nodes with fewer than two neighbours.  -> (n,)"""
    counts = triangles(graph) if triangle_counts is None else triangle_counts
    degree = degrees(graph)
    out: np.ndarray[Any, np.dtype[np.float64]] = counts / np.maximum(degree * (degree - 1) / 2, 1)
    return out
