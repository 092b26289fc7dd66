"""What a node sees at one step, as a number: in a graph, in noisy copies of it, and with any one edge left out.

A node's position is its degree and triangles and those of its neighbours. The number is a sum of odd
multiples, modulo 2**64, so that what an edge adds to it can be taken away again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.features.measures import triangles
from rae.graph import Graph
from rae.roles.canonical import Ints
from rae.roles.structure import sums_around
from rae.runtime import generator

ODD = generator(0, "roles", "seen").integers(1 << 63, size=6, dtype=np.uint64) * 2 + 1


@dataclass(frozen=True, eq=False)
class Without:
    """Every edge left out in turn: who would see something else, and what."""

    ends: tuple[Ints, Ints]  # (m,) and (m,) the edges
    edge: Ints  # (p,) a pair for every edge and node that it touches: the edge
    node: Ints  # (p,) the node
    before: Any  # (n,) uint64, what each node sees now
    after: Any  # (p,) uint64, what the node would see


def seen(graph: Graph) -> Any:
    """A number per node for what it sees at one step; equal for equal positions.  -> (n,) uint64"""
    degree, corners = graph.degrees.astype(np.int64), triangles(graph)
    own = np.stack([degree, degree**2, corners, corners * degree], axis=1)
    whole = np.hstack([own[:, [0, 2]], sums_around(graph, own)]).astype(np.uint64)
    return whole @ ODD


def shaken(graph: Graph, share: float, rng: np.random.Generator, copies: int = 1) -> Graph:
    """Copies of the graph side by side, each with so many random edges more (a share of those that are there).

    Row i of copy c is node c * n_nodes + i.
    """
    n = graph.n_nodes
    source, target = edges(graph)
    first = np.arange(copies)[:, None] * n
    more = rng.integers(n, size=(2, copies, max(1, round(share * graph.n_edges)))) + first
    more = more[:, more[0] != more[1]]
    ends = (np.append(source + first, more[0]), np.append(target + first, more[1]))
    return Graph.from_edges(ends, ids=np.arange(n * copies))


def edges(graph: Graph) -> tuple[Ints, Ints]:
    """Every edge once, the smaller row first.  -> (m,), (m,)"""
    rows = np.repeat(np.arange(graph.n_nodes), graph.degrees)
    once = rows < graph.targets
    return rows[once], graph.targets[once].astype(np.int64)


def without_each(graph: Graph) -> Without:
    """What changes when an edge is left out: its ends lose a neighbour, who sees them or their triangles sees less."""
    degree, corners = graph.degrees.astype(np.int64), triangles(graph)
    shown = _shown(degree, corners)
    u, v = edges(graph)
    third, of = _triangles_on(graph, u, v)
    closed = np.bincount(of, minlength=len(u))
    less_u, less_v = (_shown(degree[x] - 1, corners[x] - closed) - shown[x] for x in (u, v))
    less_third = _shown(degree[third], corners[third] - 1) - shown[third]
    own = np.negative(ODD[:1] + closed.astype(np.uint64) * ODD[1])
    every = np.arange(len(u))
    parts: list[tuple[Any, Any, Any]] = [(u, every, own - shown[v] - less_v), (v, every, own - shown[u] - less_u)]
    parts += [(third, of, np.repeat(np.negative(ODD[1:2]), len(third)))]
    for ends, less, its in ((u, less_u, every), (v, less_v, every), (third, less_third, of)):
        around, which = _around(graph, ends)
        parts.append((around, its[which], less[which]))
    node, edge, change = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    pairs, pair = np.unique(edge * graph.n_nodes + node, return_inverse=True)
    changes = np.zeros(len(pairs), np.uint64)
    np.add.at(changes, pair.reshape(-1), change)
    edge, node = np.divmod(pairs, graph.n_nodes)
    before = seen(graph)
    return Without((u, v), edge, node, before, before[node] + changes)


def _shown(degree: Ints, corners: Ints) -> Any:
    """What a node adds to the number of each of its neighbours."""
    own = np.stack([degree, degree**2, corners, corners * degree], axis=1).astype(np.uint64)
    return own @ ODD[2:]


def _around(graph: Graph, nodes: Ints) -> tuple[Ints, Ints]:
    """The neighbours of these nodes in one list, and whose each is."""
    count = graph.degrees[nodes].astype(np.int64)
    which = np.repeat(np.arange(len(nodes)), count)
    start = graph.offsets[nodes].astype(np.int64) - np.cumsum(count) + count
    return graph.targets[start[which] + np.arange(len(which))].astype(np.int64), which


def _triangles_on(graph: Graph, u: Ints, v: Ints) -> tuple[Ints, Ints]:
    """The third corner of every triangle on each of these edges, and the edge it is on."""
    n = graph.n_nodes
    smaller = graph.degrees[u] <= graph.degrees[v]
    around, edge = _around(graph, np.where(smaller, u, v))
    links = np.repeat(np.arange(n), graph.degrees) * n + graph.targets
    wanted = np.where(smaller, v, u)[edge] * n + around
    there = links[np.minimum(np.searchsorted(links, wanted), len(links) - 1)] == wanted
    return around[there], edge[there]
