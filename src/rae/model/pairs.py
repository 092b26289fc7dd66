"""Which nodes are contrasted: positives, and the paper's R(u) and P(u).

Positives are nodes to encode. Negatives are positions in the batch: other batch nodes are encoded
anyway, and the batch is a uniform draw without replacement, so one of its other members is a
uniform draw from all w != u.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.graph import Graph
from rae.ops.sampling import non_neighbors, pick_neighbor

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]


def same_node(graph: Graph, nodes: Ints, k: int, key: Any) -> Ints:
    """J_within's positives: other views of u itself.  (b,) -> (k, b)"""
    return np.tile(nodes, (k, 1))


def random_neighbor(graph: Graph, nodes: Ints, k: int, key: Any) -> Ints:
    """J_neighbor's positives: a random neighbour of u; u itself where it has none.  (b,) -> (k, b)"""
    views = np.repeat(np.arange(k), len(nodes))
    picked = pick_neighbor(graph.offsets, graph.targets, np.tile(graph.checked_rows(nodes), k), key, views)
    return picked.reshape(k, len(nodes))


def walk_end(graph: Graph, nodes: Ints, length: int, key: Any) -> Ints:
    """Where a random walk of so many steps from u ends; u itself where it has no neighbour.  (b,) -> (b,)

    >>> walk_end(Graph.from_edges([(0, 1), (1, 2)]), np.array([0, 2]), 1, 7).tolist()
    [1, 1]
    """
    at, b = graph.checked_rows(nodes), len(nodes)
    for step in range(length):  # a view per walk and step: walks that meet part again
        at = pick_neighbor(graph.offsets, graph.targets, at, key, np.arange(step * b, (step + 1) * b))
    return at


def any_other(graph: Graph, nodes: Ints, k: int, key: Any) -> Ints:
    """R(u): positions of batch nodes w != u, uniform.  (b,) -> (b, k)"""
    return non_neighbors(graph.offsets, graph.targets, graph.checked_rows(nodes), k, key, exclude=False)


def non_neighbor(graph: Graph, nodes: Ints, k: int, key: Any) -> Ints:
    """P(u): positions of batch nodes w != u not adjacent to u; -1 where no draw finds one.  (b,) -> (b, k)"""
    return non_neighbors(graph.offsets, graph.targets, graph.checked_rows(nodes), k, key, exclude=True)


@dataclass(frozen=True)
class Pairing:
    """The pairs of a loss that contrasts them: with other pairs the same formula is another loss."""

    positive: Callable[[Graph, Ints, int, Any], Ints]
    negative: Callable[[Graph, Ints, int, Any], Ints]
    shuffles: bool  # whether some negatives are made by neighbour shuffling
    encodes_batch: bool  # whether the batch is encoded behind the positives, to be the negatives; else these are


PAIRINGS = {
    "within": Pairing(same_node, any_other, shuffles=True, encodes_batch=False),
    "neighbor": Pairing(random_neighbor, non_neighbor, shuffles=False, encodes_batch=True),
}
