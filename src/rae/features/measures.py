"""Structural measures of every node: degree, triangles, 4-cycles, clustering, core number."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.graph import Graph
from rae.ops import structure

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]


def degrees(graph: Graph) -> Ints:
    """The number of neighbours of each node.  -> (n,)"""
    return np.ascontiguousarray(graph.degrees, np.int64)


def triangles(graph: Graph) -> Ints:
    """The triangles each node is a corner of.  -> (n,)"""
    return structure.triangles(graph.offsets, graph.targets)


def four_cycles(graph: Graph) -> Ints:
    """The cycles of four different nodes that each node is on, with or without a chord.  -> (n,)"""
    return structure.four_cycles(graph.offsets, graph.targets)


def core_numbers(graph: Graph) -> Ints:
    """The largest k such that the node is in the k-core.  -> (n,)"""
    return structure.core_numbers(graph.offsets, graph.targets)


def clustering(graph: Graph, triangle_counts: Ints | None = None) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The share of pairs of neighbours that are adjacent; 0 for nodes with fewer than two neighbours.  -> (n,)"""
    counts = triangles(graph) if triangle_counts is None else triangle_counts
    degree = degrees(graph)
    out: np.ndarray[Any, np.dtype[np.float64]] = counts / np.maximum(degree * (degree - 1) / 2, 1)
    return out
