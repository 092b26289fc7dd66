"""The rows of a graph in an order that the graph alone gives: what is drawn by row is then drawn by position.

Colour refinement: every node takes up the colours of its neighbours, until no class of equal nodes splits.
A node with a colour of its own is settled. The others fall into pieces that meet in settled nodes only;
pieces that look alike can change places, so they are told apart as they come. In a piece that is
tied in itself one node is singled out, and all is refined again. The order is the same for every order of the
rows if nodes that refinement cannot tell apart can change places: not so in graphs that are regular
without being symmetric.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.graph import Graph
from rae.roles.canonical import Ints, mixed
from rae.roles.structure import sums_around
from rae.runtime import key

LINKS = 100_000_000  # looked at in all; ties that are left then stay in the order of the rows
OWN, OTHERS, PIECE = (key(0, "roles", "colour", word) for word in ("own", "others", "piece"))


def arranged(graph: Graph, colour: Any) -> Ints:
    """The rows of the graph in order; `colour` is equal for equal positions.  (n,) uint64 -> (n,)"""
    return np.argsort(_settled(graph, colour), kind="stable")


def in_order(graph: Graph, order: Ints) -> Graph:
    """The graph with its rows in this order."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    rows = np.repeat(rank, graph.degrees)
    return Graph.from_edges((rows, rank[graph.targets]), ids=np.arange(len(order)))


def _settled(graph: Graph, colour: Any) -> Any:
    """A colour of its own for every node.  -> (n,) uint64"""
    passes = max(1, LINKS // (graph.n_nodes + 2 * graph.n_edges))
    colour, passes = _refined(graph, colour, passes)
    while passes > 0:
        passes -= 1
        _, place, counts = np.unique(colour, return_inverse=True, return_counts=True)
        place = place.reshape(-1)
        tied = np.flatnonzero(counts[place] > 1)
        if len(tied) == 0:
            break
        piece = _pieces(graph, place, counts, tied)
        told = colour.copy()
        told[tied] = mixed(colour[tied] + _turns(piece, colour[tied]))
        if len(np.unique(told)) == len(counts):
            first = np.lexsort((tied, colour[tied], piece))
            first = tied[first[np.append(True, np.diff(piece[first]) > 0)]]
            told[first] = mixed(told[first] + OWN)
            told, passes = _refined(graph, told, passes)
        colour = told
    return colour


def _refined(graph: Graph, colour: Any, passes: int) -> tuple[Any, int]:
    """The colours when no class splits any more, and how many passes are left."""
    classes = len(np.unique(colour))
    while passes > 0:
        passes -= 1
        around = sums_around(graph, mixed(colour + OTHERS).view(np.int64)[:, None])[:, 0].view(np.uint64)
        finer = mixed(mixed(colour + OWN) + around)
        last, classes = classes, len(np.unique(finer))
        if classes == last:
            break
        colour = finer
    return colour, passes


def _pieces(graph: Graph, place: Ints, counts: Ints, tied: Ints) -> Ints:
    """The piece of every tied node; links between classes that are joined throughout tie nothing.  -> (t,)"""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows = np.repeat(np.arange(graph.n_nodes), graph.degrees)
    inside = (counts[place[rows]] > 1) & (counts[place[graph.targets]] > 1)
    u, v = rows[inside], graph.targets[inside]
    a, b = place[u], place[v]
    _, pair, links = np.unique(a * len(counts) + b, return_inverse=True, return_counts=True)
    some = links[pair.reshape(-1)] < counts[a] * (counts[b] - (a == b))
    joined = coo_array((np.ones(int(some.sum()), bool), (u[some], v[some])), shape=(graph.n_nodes, graph.n_nodes))
    piece: Ints = connected_components(joined, directed=False)[1][tied]
    return piece


def _turns(piece: Ints, colour: Any) -> Any:
    """A number per piece, by the colours in it and then as they come; every node gets its piece's.  -> (t,) uint64"""
    _, at = np.unique(piece, return_inverse=True)
    at = at.reshape(-1)
    looks = np.zeros(int(at.max()) + 1, np.uint64)
    np.add.at(looks, at, mixed(colour + PIECE))
    turn = np.empty(len(looks), np.uint64)
    turn[np.argsort(looks, kind="stable")] = np.arange(len(looks))
    return mixed(turn + PIECE)[at]
