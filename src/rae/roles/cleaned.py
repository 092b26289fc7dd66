"""A graph without the edges that look like noise: those whose absence makes more nodes see what others see.

To name every node's position takes nats: fewer if many nodes share few positions. An edge is left out if
that saves more than the logarithm of the number of edges, which is what it takes to name one. The best
edge of every neighbourhood goes first, then all is weighed again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.graph import Graph
from rae.roles.canonical import Doubles, Ints
from rae.roles.seen import Without, seen, without_each

ROUNDS, MOST = 60, 0.3  # of leaving out, and the share of edges that may go
LUCK = 0.3  # logarithm by which savings are taken for alike
FEWEST = 2  # members of a known role, for its price


def cleaned(graph: Graph, known: tuple[Any, Doubles] | None = None, rng: np.random.Generator | None = None) -> Graph:
    """The graph without its noise; `known` are roles (sorted, as in `seen`) and their sizes, if these are to be met.

    With `rng`, edges that save about as much go in random order.
    """
    n, all_edges = graph.n_nodes, graph.n_edges
    for _ in range(ROUNDS):
        if graph.n_edges <= (1 - MOST) * all_edges:
            break
        without = without_each(graph)
        saved = _saved(without) if known is None else _saved_towards(without, *known)
        luck = 1 if rng is None else np.exp(LUCK * rng.normal(size=len(saved)))
        out = _best_around(without, np.where(saved > np.log(all_edges), saved * luck, 0))
        if not out.any():
            break
        graph = Graph.from_edges((without.ends[0][~out], without.ends[1][~out]), ids=np.arange(n))
    return graph


def nats(graph: Graph, all_edges: int) -> float:
    """What it takes to name every position, who stands in which, and the edges left out."""
    n, members = graph.n_nodes, np.unique(seen(graph), return_counts=True)[1]
    named = n * np.log(n) - float((members * np.log(members)).sum()) + np.log(n) * len(members)
    return float(named + (all_edges - graph.n_edges) * np.log(all_edges))


def _saved(without: Without) -> Doubles:
    """Nats saved by leaving out each edge.  -> (m,)"""
    n = len(without.before)
    found, place = np.unique(np.concatenate([without.before, without.after]), return_inverse=True)
    place, k = place.reshape(-1), len(found)
    members = np.bincount(place[:n], minlength=k)
    moves = np.concatenate([without.edge * k + place[without.node], without.edge * k + place[n:]])
    moves, move = np.unique(moves, return_inverse=True)
    more = np.bincount(move.reshape(-1), np.repeat([-1, 1], len(without.edge)), minlength=len(moves))
    edge, position = np.divmod(moves, k)
    before = members[position].astype(np.float64)
    after = before + more
    saved = after * np.log(np.maximum(after, 1)) - before * np.log(np.maximum(before, 1))
    saved -= np.log(n) * ((after > 0).astype(np.float64) - (before > 0))
    return _sums(edge, saved, len(without.ends[0]))


def _saved_towards(without: Without, roles: Any, sizes: Doubles) -> Doubles:
    """Nats saved by leaving out each edge, where only these positions are cheap.  -> (m,)"""
    n = len(without.before)

    def price(position: Any) -> Doubles:
        at = np.minimum(np.searchsorted(roles, position), len(roles) - 1)
        size = np.maximum(sizes[at], FEWEST)
        paid: Doubles = np.where(roles[at] == position, np.log(n / size) + np.log(n) / size, 2 * np.log(n))
        return paid

    change = price(without.before)[without.node] - price(without.after)
    return _sums(without.edge, change, len(without.ends[0]))


def _sums(group: Ints, values: Doubles, groups: int) -> Doubles:
    """The sum of each group's values.  -> (groups,)"""
    out: Any = np.bincount(group, values, minlength=groups)
    return np.asarray(out, np.float64)


def _best_around(without: Without, saved: Doubles) -> Any:
    """The edges that save something, and more than any other that touches the same nodes.  -> (m,) bool"""
    rank: Ints = np.empty(len(saved), np.int64)
    rank[np.argsort(saved, kind="stable")] = np.arange(len(saved))
    rank[saved <= 0] = -1
    top = np.full(len(without.before), -1)
    np.maximum.at(top, without.node, rank[without.edge])
    beaten = np.bincount(without.edge, rank[without.edge] < top[without.node], minlength=len(saved)) > 0
    return (rank >= 0) & ~beaten
