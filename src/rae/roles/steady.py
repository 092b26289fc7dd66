"""Steady positions: the roles of a graph to which random edges were added.

`mixture` says which positions noise cannot have made. It counts the members whom no edge has hit, and where
some role has fewer than ten of them, a graph is too small for that: then the edges that look like noise
are left out first (`cleaned`), in the way that takes the fewest nats, and the positions are counted that
remain. In either case every node gets the role in whose position it stands once the noise is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rae.graph import Graph
from rae.roles.canonical import Ints
from rae.roles.cleaned import cleaned, nats
from rae.roles.mixture import Mixture, mixture
from rae.roles.seen import edges, seen
from rae.runtime import generator

ENOUGH = 10  # members that no random edge has hit, in three of four roles
HELD, NOISIEST = 0.8, 0.13  # of all nodes, in roles; random edges among all
REGAINED = 0.35  # where there are too many roles, those stay that noise gives back less than this of what it takes
SHARED = 0.35  # of all nodes, in positions that another node shares
STARTS, ROUNDS = 8, 3  # ways to leave out noise, and more with the roles found so far in mind
TRIES, PATIENCE, WORK = 40, 15, 8_000  # to improve on a way, in vain one after another, and nodes in all of them
MOST, PAIRS = 200_000, 300_000  # nodes, and sum of squared degrees; a larger graph is not shaken, or not cleaned


@dataclass(frozen=True, eq=False)
class Steady:
    """The steady positions of a graph, and who stands in which when noise is left out."""

    labels: Ints  # (n,) the role's rank by size, -1 for who stands in none
    k: int
    curve: dict[int, float]  # number of roles -> penalised log-likelihood


def steady(graph: Graph, max_k: int, seed: int) -> Steady | None:
    """The steady positions, at most `max_k`, or None where the graph has no such."""
    n = graph.n_nodes
    if n > MOST or graph.n_edges == 0:
        return None
    members = np.unique(seen(graph), return_counts=True)[1]
    if members[members > 1].sum() < SHARED * n:
        return None
    small = int((graph.degrees.astype(np.int64) ** 2).sum()) <= PAIRS
    found, clean = mixture(graph, seed), graph
    if len(found.roles) > max_k:
        found = found.only(found.regained < REGAINED)
    if small and (len(found.roles) == 0 or np.quantile(found.untouched, 0.25) < ENOUGH):
        found, clean = _counted_clean(graph, found, seed)
    noise = found.noise + 1 - clean.n_edges / graph.n_edges
    if not 2 <= len(found.roles) <= max_k or found.rest > 1 - HELD or noise > NOISIEST:
        return None
    if small:
        clean = max((clean, *_ways(graph, found)), key=lambda one: _held(one, found.roles))
    untouched = _standing(seen(graph), found.roles)
    labels = np.where(untouched >= 0, untouched, _standing(seen(clean), found.roles))
    return Steady(labels, len(found.roles), found.curve)


def _counted_clean(graph: Graph, found: Mixture, seed: int) -> tuple[Mixture, Graph]:
    """The roles of the graph without its noise, left out in the way that takes the fewest nats; and that graph."""
    draw = generator(seed, "roles", "clean")
    ways = [graph, *(cleaned(graph, rng=draw) for _ in range(STARTS))]
    tried: set[bytes] = set()
    for _ in range(ROUNDS):
        if len(found.roles) > 0:
            tried.add(np.sort(found.roles).tobytes())
            ways += _ways(graph, found)
        ways = [_improved(graph, min(ways, key=partial(_taken, graph)), draw)]
        found = mixture(ways[0], seed)
        if np.sort(found.roles).tobytes() in tried:
            break
    return found, ways[0]


def _improved(graph: Graph, best: Graph, rng: np.random.Generator) -> Graph:
    """The same noise left out in a better way: half of it is let back and left out anew, until that does not help."""
    n = graph.n_nodes
    source, target = edges(graph)
    least, failed = _taken(graph, best), 0
    for _ in range(min(TRIES, WORK // n)):
        a, b = edges(best)
        back = np.isin(source * n + target, a * n + b) | (rng.random(len(source)) < 0.5)
        way = cleaned(Graph.from_edges((source[back], target[back]), ids=np.arange(n)), rng=rng)
        taken = _taken(graph, way)
        failed = 0 if taken < least else failed + 1
        if taken < least:
            best, least = way, taken
        if failed == PATIENCE:
            break
    return best


def _taken(graph: Graph, way: Graph) -> float:
    """The nats of a way to leave out noise; without end, where that is more than noise may be."""
    return nats(way, graph.n_edges) if way.n_edges >= (1 - NOISIEST) * graph.n_edges else np.inf


def _ways(graph: Graph, found: Mixture) -> tuple[Graph, ...]:
    """The graph without its noise: with these roles in mind, and whatever they are."""
    order = np.argsort(found.roles)
    return cleaned(cleaned(graph, (found.roles[order], found.sizes[order]))), cleaned(graph)


def _held(graph: Graph, roles: Any) -> float:
    """The share of nodes that stand in these positions."""
    return float(np.isin(seen(graph), roles).mean())


def _standing(now: Any, roles: Any) -> Ints:
    """The role each node stands in, -1 for none.  -> (n,)"""
    order = np.argsort(roles)
    at = order[np.minimum(np.searchsorted(roles[order], now), len(order) - 1)]
    return np.where(roles[at] == now, at, -1)
