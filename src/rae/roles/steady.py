"""Steady positions: the roles of a graph to which random edges were added, found by adding a few more.

A node's position here is what it sees at one step: its degree and triangles, and those of its
neighbours. Where roles were planted and noise came on top, every role has a position in which its
untouched members stand, and many more in which a few stand whom an edge has hit. Which is which
shows when the graph is shaken: with more random edges, a role loses members, and hardly anybody
comes in; a noisy copy of a role gains, from that role, about as many as it loses. So a position is
steady if it regains less than `REGAINED` of its losses and has not far fewer members than the other
steady ones. They are the roles if they hold enough of all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.graph import Graph
from rae.roles.canonical import Doubles, Ints
from rae.roles.structure import sums_around, triangles
from rae.runtime import generator

SHARE = 0.03  # edges added in one shake
NODES, SHAKES = 240_000, 150  # nodes seen over all shakes, and shakes at most
REGAINED = 0.35  # a steady position gets back less than this of what it loses
FEWER = 0.3  # of the median steady position: members at least, without those who came in
LEAST, RARE = 3, 0.002  # members at least, and their share of all nodes
HELD = 0.35  # of all nodes, in steady positions
MOST = 200_000  # nodes; a larger graph is not shaken


@dataclass(frozen=True, eq=False)
class Steady:
    """The steady positions of a graph: who stands in which, and what every frequent position regains."""

    labels: Ints  # (n,) the position's rank by members, -1 for who stands in none
    k: int
    curve: dict[int, float]  # rank among all positions, by members -> what it regains of its losses


def steady(graph: Graph, max_k: int, seed: int) -> Steady | None:
    """The steady positions, at most `max_k`, or None where the graph has no such."""
    n = graph.n_nodes
    if n > MOST or graph.n_edges == 0:
        return None
    found, place, members = np.unique(seen(graph), return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    often = members >= max(LEAST, RARE * n)
    if members[often].sum() < HELD * n:
        return None
    gained, lost = _shaken_flows(graph, found, place, seed)
    regained = gained / np.maximum(lost, 1)
    chosen = _standing(often & (regained < REGAINED), members, regained)
    k = int(np.count_nonzero(chosen))
    if not 2 <= k <= max_k or members[chosen].sum() < HELD * n:
        return None
    order = np.argsort(-members, kind="stable")
    rank = np.full(len(found), -1)
    rank[order[chosen[order]]] = np.arange(k)
    curve = {i + 1: float(regained[p]) for i, p in enumerate(order[: max(max_k, k)].tolist())}
    return Steady(rank[place], k, curve)


def seen(graph: Graph) -> Any:
    """A number per node for what it sees at one step; equal for equal positions.  -> (n,) uint64"""
    degree, corners = graph.degrees.astype(np.int64), triangles(graph)
    own = np.stack([degree, degree**2, corners, corners * degree], axis=1)
    whole = np.hstack([own[:, [0, 2]], sums_around(graph, own)]).astype(np.uint64)
    odd = generator(0, "roles", "seen").integers(1 << 63, size=whole.shape[1], dtype=np.uint64) * 2 + 1
    return whole @ odd


def shaken(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    """The same nodes with so many random edges more, by share of the edges that are there; ids are row numbers."""
    n = graph.n_nodes
    rows = np.repeat(np.arange(n), graph.degrees)
    once = rows < graph.targets
    more = rng.integers(n, size=(2, max(1, round(share * graph.n_edges))))
    more = more[:, more[0] != more[1]]
    ends = (np.append(rows[once], more[0]), np.append(graph.targets[once], more[1]))
    return Graph.from_edges(ends, ids=np.arange(n))


def _shaken_flows(graph: Graph, found: Any, place: Ints, seed: int) -> tuple[Doubles, Doubles]:
    """How many nodes come into each position and how many leave it, over all shakes.  -> (u,), (u,)"""
    gained, lost = np.zeros(len(found)), np.zeros(len(found))
    for shake in range(min(SHAKES, max(1, NODES // graph.n_nodes))):
        now = seen(shaken(graph, SHARE, generator(seed, "roles", "shake", shake)))
        goal = np.minimum(np.searchsorted(found, now), len(found) - 1)
        known, moved = found[goal] == now, found[place] != now
        gained += np.bincount(goal[known & moved], minlength=len(found))
        lost += np.bincount(place[moved], minlength=len(found))
    return gained, lost


def _standing(chosen: Any, members: Ints, regained: Doubles) -> Any:
    """Of these positions, those with not far fewer members than the others.  -> (u,) bool"""
    own = members * (1 - regained)
    while chosen.any():
        kept = chosen & (own >= FEWER * np.median(members[chosen]))
        if (kept == chosen).all():
            break
        chosen = kept
    return chosen
