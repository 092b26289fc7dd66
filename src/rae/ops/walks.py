"""Random walks, compiled by Numba: each depends on (key, first node, walk number) alone."""

from __future__ import annotations

from typing import Any

from rae.ops.cpu import draw, has_edge, kernel, stream

TRIES = 64  # candidates drawn before the weights of all neighbours are added up
RESOLUTION = 1 << 31  # of a random number between 0 and 1


@kernel
def weight(offsets: Any, targets: Any, last: Any, v: Any, p: Any, q: Any) -> Any:
    """node2vec's weight of a step from `last` over one node to v: 1 / p back, 1 to a neighbour of last, else 1 / q."""
    if v == last:
        return 1.0 / p
    return 1.0 if has_edge(offsets, targets, last, v) else 1.0 / q


@kernel
def next_node(offsets: Any, targets: Any, last: Any, u: Any, p: Any, q: Any, state: Any, slot: Any) -> Any:
    """A neighbour of u, drawn by weight with the numbers slot .. slot + 2 * TRIES of a stream.

    Rejection sampling: a uniform candidate is accepted with its share of the largest weight, so there is no
    table per edge. If all TRIES are rejected (a very large p or q), the weights are added up instead.
    """
    low, degree = offsets[u], offsets[u + 1] - offsets[u]
    most = max(1.0 / p, 1.0, 1.0 / q)
    for attempt in range(TRIES):
        v = targets[low + draw(state, slot + 2 * attempt, degree)]
        if (
            draw(state, slot + 2 * attempt + 1, RESOLUTION)
            < weight(offsets, targets, last, v, p, q) / most * RESOLUTION
        ):
            return v
    total = 0.0
    for e in range(low, low + degree):
        total += weight(offsets, targets, last, targets[e], p, q)
    left = (draw(state, slot + 2 * TRIES, RESOLUTION) + 0.5) / RESOLUTION * total
    for e in range(low, low + degree - 1):
        left -= weight(offsets, targets, last, targets[e], p, q)
        if left < 0:
            return targets[e]
    return targets[low + degree - 1]


@kernel
def walk(
    offsets: Any, targets: Any, nodes: Any, views: Any, p: Any, q: Any, key: Any, out: Any, start: Any, stop: Any
) -> None:
    """out[i] = the walk from nodes[i] with number views[i], uniform where p = q = 1; every node has a neighbour."""
    uniform = p == 1.0 and q == 1.0
    for i in range(start, stop):
        u = last = nodes[i]
        state = stream(key, u, views[i])
        out[i, 0] = u
        for step in range(1, out.shape[1]):
            low, degree, slot = offsets[u], offsets[u + 1] - offsets[u], step * (2 * TRIES + 1)
            if uniform or step == 1 or degree == 1:
                v = targets[low + draw(state, slot, degree)]
            else:
                v = next_node(offsets, targets, last, u, p, q, state, slot)
            last, u = u, v
            out[i, step] = u
