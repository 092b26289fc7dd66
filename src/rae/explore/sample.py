"""What of a graph the page holds: all nodes and neighbours, or of a large one a sample.

Nodes are sampled by role; neighbours that are too many are evenly spaced ones of each node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rae.graph import Graph
from rae.runtime import generator

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

LEAST_PER_ROLE = 300  # nodes of each role in a sample, if it has them
MOST_NEIGHBORS = 3_000_000  # on the page, all nodes together
MOST_PER_NODE = 200  # neighbours; more cannot be drawn


def map_rows(role: Ints, prototypes: Iterable[int], most: int) -> Ints:
    """The rows on the map, ascending: every node up to `most`, else a sample stratified by role.

    Each role has a minimum and a share of the rest, so that a rare role is on the map too; its prototypes
    come first, then random rows.
    """
    n = len(role)
    if n <= most:
        return np.arange(n)
    sizes = np.bincount(role)
    least = min(LEAST_PER_ROLE, most // (2 * len(sizes)))
    quota = np.minimum(sizes, least + (most - least * len(sizes)) * sizes // n)
    order = generator(0, "sample").permutation(n)
    first = np.asarray(sorted(set(prototypes)), np.int64)
    order = np.concatenate([first, order[~np.isin(order, first)]])
    by_role = order[np.argsort(role[order], kind="stable")]
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(by_role[np.arange(n) - starts < np.repeat(quota, sizes)])


def page_neighbors(graph: Graph, rows: Ints) -> tuple[Ints, Ints, int]:
    """How many neighbours of each row are on the page, which ones, and the most of any one node.

    Neighbours are positions in `rows`; those outside `rows` are left out.
    -> (n,) uint8, (sum,) uint32, limit
    """
    degree = graph.degrees[rows]
    limit = _limit_per_node(degree)
    count = np.minimum(degree, limit)
    ends = np.cumsum(count)
    slot = np.arange(int(ends[-1])) - np.repeat(ends - count, count)
    spaced = (2 * slot + 1) * np.repeat(degree, count) // (2 * np.repeat(np.maximum(count, 1), count))
    position = np.full(graph.n_nodes, -1, np.int64)
    position[rows] = np.arange(len(rows))
    neighbor = position[graph.targets[np.repeat(graph.offsets[rows], count) + spaced]]
    inside = neighbor >= 0
    node = np.repeat(np.arange(len(rows)), count)[inside]
    return np.bincount(node, minlength=len(rows)).astype(np.uint8), neighbor[inside].astype(np.uint32), limit


def _limit_per_node(degree: Ints) -> int:
    """The largest number of neighbours per node with which all fit the page."""
    counts = np.bincount(np.minimum(degree, MOST_PER_NODE), minlength=MOST_PER_NODE + 1)
    at_least = counts[::-1].cumsum()[::-1]  # nodes with at least so many neighbours
    total = np.cumsum(at_least[1:])  # neighbours on the page for each limit from 1 on
    return max(1, int(np.searchsorted(total, MOST_NEIGHBORS, side="right")))
