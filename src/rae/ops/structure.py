"""What a node's surroundings look like: triangles and core numbers, compiled by Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.ops.cpu import kernel


@kernel
def forward_counts(offsets: Any, targets: Any, out: Any, start: Any, stop: Any) -> None:
    """out[u + 1] = neighbours of u that come after it in the order by (degree, row)."""
    for u in range(start, stop):
        degree, after = offsets[u + 1] - offsets[u], 0
        for e in range(offsets[u], offsets[u + 1]):
            v = targets[e]
            other = offsets[v + 1] - offsets[v]
            if other > degree or (other == degree and v > u):
                after += 1
        out[u + 1] = after


@kernel
def forward_rows(offsets: Any, targets: Any, starts: Any, out: Any, start: Any, stop: Any) -> None:
    """Each row's neighbours that come after it by (degree, row), ascending by row, from starts[u] on."""
    for u in range(start, stop):
        degree, at = offsets[u + 1] - offsets[u], starts[u]
        for e in range(offsets[u], offsets[u + 1]):
            v = targets[e]
            other = offsets[v + 1] - offsets[v]
            if other > degree or (other == degree and v > u):
                out[at] = v
                at += 1


@kernel
def triangles(starts: Any, after: Any, counts: Any, start: Any, stop: Any) -> None:
    """Add to counts the triangles of each node, found at the corner that comes first: rows start..stop.

    No node has more than sqrt(2 m) neighbours after it, so hubs cost no more than others.
    """
    for u in range(start, stop):
        for e in range(starts[u], starts[u + 1]):
            v = after[e]
            i, j = starts[u], starts[v]
            while i < starts[u + 1] and j < starts[v + 1]:
                if after[i] < after[j]:
                    i += 1
                elif after[i] > after[j]:
                    j += 1
                else:
                    counts[u] += 1
                    counts[v] += 1
                    counts[after[i]] += 1
                    i += 1
                    j += 1


@kernel
def core_numbers(offsets: Any, targets: Any, core: Any) -> None:
    """core[u] = the largest c such that u is in a part of the graph where everybody has c neighbours.

    `core` comes in as the degrees. Nodes are peeled off by degree, smallest first, in one pass.
    """
    n = len(core)
    highest = 0
    for u in range(n):
        highest = max(highest, core[u])
    bins = np.zeros(highest + 2, np.int64)  # where the nodes of each degree begin in `order`
    for u in range(n):
        bins[core[u] + 1] += 1
    for d in range(highest + 1):
        bins[d + 1] += bins[d]
    order, place = np.empty(n, np.int64), np.empty(n, np.int64)
    cursor = bins.copy()
    for u in range(n):
        place[u] = cursor[core[u]]
        order[place[u]] = u
        cursor[core[u]] += 1
    for i in range(n):
        u = order[i]
        for e in range(offsets[u], offsets[u + 1]):
            v = targets[e]
            if core[v] > core[u]:  # v loses a neighbour: it trades places with the first of its degree
                first = max(bins[core[v]], i + 1)
                w = order[first]
                order[place[v]], order[first] = w, v
                place[w], place[v] = place[v], first
                bins[core[v]] = first + 1
                core[v] -= 1
