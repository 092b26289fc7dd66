"""The neighbours that the page knows: all of them where they fit, else evenly spaced ones of each node."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.graph import Graph

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

ROOM = 3_000_000  # neighbours on the page, all nodes together
MOST = 200  # of one node: more cannot be drawn


def surroundings(graph: Graph, rows: Ints) -> tuple[Ints, Ints, int]:
    """How many neighbours of each of these rows are kept, which, and the most of any one node.

    Neighbours are positions in `rows`; those that are not among them are left out.
    -> (n,) uint8, (sum,) uint32, cap
    """
    degree = graph.degrees[rows]
    cap = _cap(degree)
    kept = np.minimum(degree, cap)
    ends = np.cumsum(kept)
    slot = np.arange(int(ends[-1])) - np.repeat(ends - kept, kept)
    spaced = (2 * slot + 1) * np.repeat(degree, kept) // (2 * np.repeat(np.maximum(kept, 1), kept))
    position = np.full(graph.n_nodes, -1, np.int64)
    position[rows] = np.arange(len(rows))
    found = position[graph.targets[np.repeat(graph.offsets[rows], kept) + spaced]]
    owner = np.repeat(np.arange(len(rows)), kept)[found >= 0]
    return np.bincount(owner, minlength=len(rows)).astype(np.uint8), found[found >= 0].astype(np.uint32), cap


def _cap(degree: Ints) -> int:
    """The largest number of neighbours each node may keep so that all fit the page."""
    counts = np.bincount(np.minimum(degree, MOST), minlength=MOST + 1)
    with_more = counts[::-1].cumsum()[::-1]  # nodes with at least so many neighbours
    total = np.cumsum(with_more[1:])  # neighbours kept under each cap from 1 on
    return max(1, int(np.searchsorted(total, ROOM, side="right")))
