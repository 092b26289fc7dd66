"""Steady positions: the roles of a graph to which random edges were added.

`mixture` says which positions noise cannot have made. It counts the members whom no edge has hit, and where
some role has fewer than ten of them, a graph is too small for that: then the edges that look like noise
are left out first (`cleaned`), in the way that takes the fewest nats, and the positions are counted that
remain. In either case every node gets the role in whose position it stands once the noise is left out.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rae.graph import Graph
from rae.roles.arranged import arranged, in_order
from rae.roles.canonical import Ints
from rae.roles.cleaned import cleaned, nats
from rae.roles.mixture import Mixture, mixture, steps
from rae.roles.seen import edges, seen
from rae.runtime import generator

ENOUGH = 10  # members that no random edge has hit, in three of four roles
HELD, NOISIEST = 0.8, 0.13  # of all nodes, in roles; random edges among all
KEPT = 2 / 3  # of all nodes, in the roles that stay where there were too many
SHARED = 0.35  # of all nodes, in positions that another node shares
STARTS, ROUNDS = 8, 3  # ways to leave out noise, and more with the roles found so far in mind
TRIES, PATIENCE, WORK = 40, 15, 8_000  # to improve on a way, in vain one after another, and nodes in all of them
MOST, PAIRS = 200_000, 300_000  # nodes, and sum of squared degrees; a larger graph is not shaken, or not cleaned
STEPS = 13_000_000_000  # of a mixture, about 20 s; a graph that takes more is not shaken

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Steady:
    """The steady positions of a graph, and who stands in which when noise is left out."""

    labels: Ints  # (n,) the role's rank by size, -1 for who stands in none
    k: int
    curve: dict[int, float]  # number of roles -> penalised log-likelihood
    order: Ints  # (n,) the rows as `arranged` puts them


def steady(graph: Graph, max_k: int, seed: int) -> Steady | None:
    """The steady positions, at most `max_k`, or None where the graph has no such; in any order of rows the same."""
    n = graph.n_nodes
    if n > MOST or graph.n_edges == 0:
        return None
    if steps(graph) > STEPS:
        log.info("steady positions are not looked for: the graph is so dense that it would take more than 20 s")
        return None
    now = seen(graph)
    members = np.unique(now, return_counts=True)[1]
    if members[members > 1].sum() < SHARED * n:
        return None
    order = arranged(graph, now)
    found = _found(in_order(graph, order), max_k, seed)
    if found is None:
        return None
    labels, mixed = found
    back = np.empty(n, np.int64)
    back[order] = labels
    return Steady(back, len(mixed.roles), mixed.curve, order)


def _found(graph: Graph, max_k: int, seed: int) -> tuple[Ints, Mixture] | None:
    """The role of each node and the mixture it comes from, or None where no such is to be trusted."""
    small = int((graph.degrees.astype(np.int64) ** 2).sum()) <= PAIRS
    found, clean = mixture(graph, seed, max_k), graph
    if small and (len(found.roles) == 0 or np.quantile(found.untouched, 0.25) < ENOUGH):
        found, clean = _counted_clean(graph, found, seed)
    noise = found.noise + 1 - clean.n_edges / graph.n_edges
    if not 2 <= len(found.roles) <= max_k or noise > NOISIEST:
        return None
    if found.rest > 1 - HELD or found.kept < KEPT:
        return None
    if small:
        clean = max((clean, *_ways(graph, found)), key=lambda one: _held(one, found.roles))
    untouched = _standing(seen(graph), found.roles)
    return np.where(untouched >= 0, untouched, _standing(seen(clean), found.roles)), found


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
