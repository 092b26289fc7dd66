"""Random choices among a graph's neighbours: each is a hash of (key, node, view, slot), so it needs no state."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.ops.library import call, int64, is_native, reference
from rae.runtime import in_ranges

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]
TRIES = 32  # draws for one non-neighbour before the slot stays empty


def sample_neighbors(
    offsets: Ints, targets: Ints, nodes: Ints, fanout: int, key: Any, views: Ints | None = None
) -> tuple[Ints, Ints]:
    """Up to `fanout` distinct neighbours of each node, all if there are fewer.  (b,) -> offsets (b + 1,), rows

    The choice depends on (key, node, view) alone, not on the batch around it or on threads.
    """
    nodes = int64(nodes)
    views = np.zeros(len(nodes), np.int64) if views is None else int64(views)
    starts = np.zeros(len(nodes) + 1, np.int64)
    np.cumsum(np.minimum(offsets[nodes + 1] - offsets[nodes], fanout), out=starts[1:])
    if not is_native(offsets, targets):
        return starts, reference().sample_neighbors(offsets, targets, nodes, fanout, key, views, starts)
    out = np.empty(int(starts[-1]), targets.dtype)

    def work(a: int, b: int) -> None:
        call("sample_rows", offsets, targets, nodes, views, fanout, int(key), starts, out, a, b, index=targets)

    in_ranges(work, len(nodes), 2048)
    return starts, out


def renumber(nodes: Ints) -> tuple[Ints, Ints]:
    """The distinct nodes by first appearance, and each node's place among them.

    >>> [a.tolist() for a in renumber(np.array([7, 3, 7, 9]))]
    [[7, 3, 9], [0, 1, 0, 2]]
    """
    nodes = int64(nodes)
    if not is_native(nodes):
        distinct, place = reference().renumber(nodes)
        return distinct, place
    table = np.full(1 << max(4, int(2 * len(nodes)).bit_length()), -1, np.int32)
    distinct, place = np.empty(len(nodes), np.int64), np.empty(len(nodes), np.int64)
    count = call("number_ids", nodes, len(nodes), table, len(table), distinct, 0, place, index=table)
    return distinct[:count], place


def pick_neighbor(offsets: Ints, targets: Ints, nodes: Ints, key: Any, views: Ints) -> Ints:
    """One uniformly drawn neighbour per (node, view); a node without any stands for itself.  (b,) -> (b,)"""
    nodes, views = int64(nodes), int64(views)
    if not is_native(offsets, targets):
        picked: Ints = reference().pick_neighbor(offsets, targets, nodes, key, views)
        return picked
    out = np.empty(len(nodes), np.int64)
    call("pick_neighbors", offsets, targets, nodes, views, int(key), out, len(nodes), index=targets)
    return out


def non_neighbors(offsets: Ints, targets: Ints, nodes: Ints, count: int, key: Any, exclude: bool) -> Ints:
    """Batch positions whose node is not the node itself nor, with `exclude`, adjacent to it.  (b,) -> (b, count)

    -1 stands where `TRIES` draws met none.
    """
    nodes = int64(nodes)
    if not is_native(offsets, targets):
        positions: Ints = reference().non_neighbors(offsets, targets, nodes, count, key, exclude, TRIES)
        return positions
    out = np.empty((len(nodes), count), np.int64)
    call("non_neighbors", offsets, targets, nodes, len(nodes), count, int(key), int(exclude), TRIES, out, index=targets)
    return out


def adjacent(offsets: Ints, targets: Ints, us: Ints, vs: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each pair of rows shares an edge.  (b,), (b,) -> (b,)"""
    us, vs = int64(us), int64(vs)
    if not is_native(offsets, targets):
        shared: np.ndarray[Any, np.dtype[np.bool_]] = reference().adjacent(offsets, targets, us, vs)
        return shared
    out = np.empty(len(us), np.bool_)
    in_ranges(lambda a, b: call("adjacent", offsets, targets, us, vs, out, a, b, index=targets), len(us), 4096)
    return out


def walks(
    offsets: Ints, targets: Ints, nodes: Ints, length: int, key: Any, views: Ints, p: float = 1.0, q: float = 1.0
) -> Ints:
    """node2vec's random walks of so many nodes, uniform where p = q = 1.  (b,) -> (b, length)

    Each depends on (key, first node, view) alone. Every node must have a neighbour.
    """
    nodes, views = int64(nodes), int64(views)
    if not is_native(offsets, targets):
        paths: Ints = reference().walks(offsets, targets, nodes, length, key, views, p, q)
        return paths
    out = np.empty((len(nodes), length), np.int64)

    def work(a: int, b: int) -> None:
        call("walk_rows", offsets, targets, nodes, views, p, q, int(key), out, length, a, b, index=targets)

    in_ranges(work, len(nodes), 256)
    return out
