"""Who is contrasted with whom: positives, and the paper's R(u) and P(u).

Positives are nodes to encode. Negatives are places in the batch: other batch nodes are encoded
anyway, and the batch is a uniform draw without replacement, so one of its other members is a
uniform draw from all w != u.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.graph import Graph
from rae.ops import cpu

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

_TRIES = 32  # draws for one non-neighbour before the slot is left empty


def same_node(graph: Graph, nodes: Ints, k: int, luck: Any) -> Ints:
    """J_within's positives: other views of u itself.  (b,) -> (k, b)"""
    return np.tile(nodes, (k, 1))


def random_neighbor(graph: Graph, nodes: Ints, k: int, luck: Any) -> Ints:
    """J_neighbor's positives: a random neighbour of u; u itself where it has none.  (b,) -> (k, b)"""
    repeated = np.tile(np.ascontiguousarray(nodes, np.int64), k)
    out = np.empty(len(repeated), np.int64)
    views = np.repeat(np.arange(k), len(nodes))
    cpu.pick_neighbors(graph.offsets, graph.targets, repeated, views, luck, out)
    return out.reshape(k, len(nodes))


def any_other(graph: Graph, nodes: Ints, k: int, luck: Any) -> Ints:
    """R(u): places of batch nodes w != u, uniform.  (b,) -> (b, k)"""
    return _others(graph, nodes, k, luck, exclude=False)


def non_neighbor(graph: Graph, nodes: Ints, k: int, luck: Any) -> Ints:
    """P(u): places of batch nodes w != u that are not adjacent to u; -1 where none turns up.  (b,) -> (b, k)"""
    return _others(graph, nodes, k, luck, exclude=True)


def _others(graph: Graph, nodes: Ints, k: int, luck: Any, *, exclude: bool) -> Ints:
    nodes = np.ascontiguousarray(nodes, np.int64)
    out = np.empty((len(nodes), k), np.int64)
    cpu.non_neighbors(graph.offsets, graph.targets, nodes, luck, exclude, _TRIES, out)
    return out
