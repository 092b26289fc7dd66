"""Random walks over a graph, as sentences for a skip-gram model."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.graph import Graph
from rae.ops import sampling
from rae.runtime import generator, key

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
    paths = sampling.walks(graph.offsets, graph.targets, nodes, length, key(seed, "walks"), views, float(p), float(q))
    return paths.astype(np.int32)
