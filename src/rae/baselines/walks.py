"""Random walks over a graph, as sentences for a skip-gram model."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.graph import Graph
from rae.ops import walks as kernels
from rae.runtime import generator, in_ranges, key

Ints = np.ndarray[Any, np.dtype[np.int32]]


def random_walks(graph: Graph, *, walks: int, length: int, p: float = 1.0, q: float = 1.0, seed: int = 0) -> Ints:
    """Walks from every node that has a neighbour, in random order.  -> (nodes * walks, length) of rows

    Steps are uniform over the neighbours where p = q = 1 (DeepWalk); otherwise a step back to the
    previous node has the weight 1 / p and one away from it 1 / q (node2vec). A walk depends on the seed, its first
    node and its number alone.

    >>> random_walks(Graph.from_edges([(0, 1)]), walks=1, length=4)[:, 1:].tolist() in ([[1, 0, 1], [0, 1, 0]],
    ...                                                                                [[0, 1, 0], [1, 0, 1]])
    True
    """
    first = np.flatnonzero(graph.degrees)
    order = generator(seed, "walks", "order").permutation(len(first) * walks)
    nodes, views = first[order % max(1, len(first))], order // max(1, len(first))
    out = np.empty((len(order), length), np.int32)
    salt = key(seed, "walks")

    def compute_walks(start: int, stop: int) -> None:
        kernels.walk(graph.offsets, graph.targets, nodes, views, float(p), float(q), salt, out, start, stop)

    in_ranges(compute_walks, len(order), 256)
    return out
