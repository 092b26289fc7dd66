"""The positions that noise cannot have made: a mixture of positions, each blurred by random edges.

Where roles were planted and random edges came on top, a role is seen in its own position by the members
whom no edge has hit, and in many others by the rest. How often noise leads from one position to another
is measured by adding more of it. The positions of all nodes then are a mixture: of a few roles, with so
many members each, blurred by noise of one strength. Members and strength are those of the largest
likelihood, and a position is a role if the likelihood gains more by it than the extended BIC charges
(Chen & Chen 2008: half the logarithm of the nodes, and the logarithm of the positions it was chosen
from), times the dispersion: one random edge moves several nodes at once, so they count as fewer. Roles far
smaller than the others are clumps that happened to arise, and are left to the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.graph import Graph
from rae.roles.canonical import Doubles, Ints
from rae.roles.seen import edges, seen, shaken
from rae.runtime import generator

LEVELS = [0.0025 * 1.1**i for i in range(45)]  # noise that may have been added, up to 0.17 of all edges
NODES, BATCH = (30_000, 400_000), 20_000  # nodes in the noisy copies of a level, and in a batch of them
TRIED, MAKING = 11, 150  # levels that are tried; steps that a node or an edge of a copy takes to make
COPIES = (3, 20)  # at least; and at least, while they have no more nodes than the larger number above
TWICE, RARE, MOST = 2, 0.002, 150  # a position may be a role if so many nodes share it, this share, among so many
FEWER = 0.3  # of the median role: members at least
REGAINED = 0.35  # where there are too many roles, those stay that noise gives back less than this of what it takes
STRAY = 0.01  # of the nodes of a role, that stand anywhere
WEAKEST, STEPS = 4, (300, 60)  # roles tried for removal at a time; steps of the fit at the start and after a removal


@dataclass(frozen=True, eq=False)
class Mixture:
    """The roles of a graph by their positions, and how many members each had before the noise."""

    roles: Any  # (k,) uint64, positions as in `seen`, the largest role first
    sizes: Doubles  # (k,)
    untouched: Ints  # (k,) members that stand in the position now
    rest: float  # share of nodes that come from none of the roles
    kept: float  # share of nodes that came from these roles before others were given up, where there were too many
    noise: float  # random edges among all edges
    curve: dict[int, float]  # number of roles -> penalised log-likelihood


@dataclass(frozen=True, eq=False)
class Selection:
    """The roles of one strength of noise."""

    value: float  # penalised log-likelihood
    rows: Ints  # (k,)
    share: Doubles  # (k,) of all nodes
    curve: dict[int, float]


@dataclass(frozen=True, eq=False)
class Blur:
    """Where noise of some strength leads from each position; the last one stands for all the rare ones."""

    chances: Doubles  # (c, c), rows sum to one
    dispersion: float  # variance of the nodes per position, against nodes that move one by one


def mixture(graph: Graph, seed: int, most: int | None = None) -> Mixture:
    """The roles whose blurred positions tell those of the graph best, none far smaller than the others.

    Where there are more than `most`, the mixture is fitted anew to those that noise does not refill.
    """
    n = graph.n_nodes
    found, place, members = np.unique(seen(graph), return_inverse=True, return_counts=True)
    often = _often(members, n)
    place, c = place.reshape(-1), len(often) + 1
    kind = np.full(len(found), c - 1)
    kind[often] = np.arange(c - 1)
    counts = np.bincount(kind[place], minlength=c).astype(np.float64)
    able, fits, blurs = np.arange(c - 1), dict[int, Selection](), dict[int, Blur]()
    for level in _climb(fits):
        rng = generator(seed, "roles", "blur", level)
        blurs[level] = _blur(graph, found, kind, c, place, LEVELS[level], rng)
        fits[level] = _selected(counts, blurs[level], able)
    level, best, kept = *_without_small(counts, blurs, fits), 1.0
    if most is not None and len(best.rows) > most:
        firm = _regained(best, blurs[level]) < REGAINED
        kept = float(best.share[firm].sum())
        level, best = _without_small(counts, blurs, _all_selected(counts, blurs, best.rows[firm]))
    order = np.argsort(-best.share, kind="stable")
    rows, share = often[best.rows[order]], best.share[order]
    rest = 1 - float(share.sum())
    return Mixture(found[rows], n * share, members[rows], rest, kept, LEVELS[level], best.curve)


def steps(graph: Graph) -> int:
    """How much work a mixture is: steps of counting triangles in all noisy copies, and as many as making them takes."""
    u, v = edges(graph)
    degree = graph.degrees.astype(np.int64)
    one = int(np.minimum(degree[u], degree[v]).sum()) + MAKING * (graph.n_nodes + graph.n_edges)
    return one * _copies(graph.n_nodes) * TRIED


def _without_small(counts: Doubles, blurs: dict[int, Blur], fits: dict[int, Selection]) -> tuple[int, Selection]:
    """The best level and its roles, fitted anew until none is far smaller than the others."""
    while True:
        level = max(fits, key=lambda i: fits[i].value)
        best = fits[level]
        small = best.share < FEWER * np.median(best.share) if len(best.share) else np.zeros(0, bool)
        if not small.any():
            return level, best
        fits = _all_selected(counts, blurs, best.rows[~small])


def _all_selected(counts: Doubles, blurs: dict[int, Blur], able: Ints) -> dict[int, Selection]:
    return {level: _selected(counts, blur, able) for level, blur in blurs.items()}


def _regained(best: Selection, blur: Blur) -> Doubles:
    """Nodes that noise brings into a position from other roles, for each that it takes away.  -> (k,)"""
    flow = best.share[:, None] * blur.chances[np.ix_(best.rows, best.rows)]
    stay = flow.diagonal()
    out: Doubles = (flow.sum(0) - stay) / np.maximum(best.share - stay, 1e-12)
    return out


def _copies(n: int) -> int:
    """How many noisy copies a level has."""
    return max(COPIES[0], NODES[0] // n, min(COPIES[1], NODES[1] // n))


def _often(members: Ints, n: int) -> Ints:
    """The positions that may be roles, by index."""
    often = np.flatnonzero(members >= max(TWICE, RARE * n))
    return np.sort(often[np.argsort(-members[often], kind="stable")[:MOST]])


def _climb(fits: dict[int, Selection]) -> Iterator[int]:
    """Levels far apart, then ever nearer to the best one."""
    yield from range(4, len(LEVELS), 9)
    for step in (4, 2, 1):
        best = max(fits, key=lambda i: fits[i].value)
        yield from (i for i in (best - step, best + step) if 0 <= i < len(LEVELS) and i not in fits)


def _blur(graph: Graph, found: Any, kind: Ints, c: int, place: Ints, share: float, rng: np.random.Generator) -> Blur:
    """Where nodes go when this share of edges is added, from kind to kind of position; the last are the rare ones."""
    n = graph.n_nodes
    copies = _copies(n)
    moved, seen_per_copy = np.zeros((c, c)), []
    for start in range(0, copies, max(1, BATCH // n)):
        some = min(copies - start, max(1, BATCH // n))
        now = seen(shaken(graph, share, rng, some))
        goal = np.minimum(np.searchsorted(found, now), len(found) - 1)
        to = np.where(found[goal] == now, kind[goal], c - 1)
        moved += np.bincount(np.tile(kind[place], some) * c + to, minlength=c * c).reshape(c, c)
        seen_per_copy.append(np.bincount(np.repeat(np.arange(some), n) * c + to, minlength=some * c).reshape(some, c))
    chances = moved / np.maximum(moved.sum(1, keepdims=True), 1)
    alone = (moved.sum(1)[:, None] / copies * chances * (1 - chances)).sum(0)
    told = alone > 0.5
    spread = np.vstack(seen_per_copy).var(0, ddof=1)[told].sum() / max(float(alone[told].sum()), 1e-9)
    chances[-1] = np.arange(c) == c - 1
    return Blur(chances, max(1.0, float(spread)))


def _selected(counts: Doubles, blur: Blur, able: Ints) -> Selection:
    """Roles taken away one by one, the least missed first: those at which the penalised likelihood was largest."""
    n, chances = counts.sum(), (1 - STRAY) * blur.chances + STRAY / len(counts)
    charge = blur.dispersion * (np.log(n) / 2 + np.log(len(counts)))
    rows = np.append(able, len(counts) - 1)  # the rare positions need no role
    share, value = _fitted(counts, chances[rows], np.full(len(rows), 1 / len(rows)), STEPS[0])
    kept = (n * share >= 0.5) | (rows == len(counts) - 1)
    rows, share = rows[kept], share[kept] / share[kept].sum()
    best, curve = (-np.inf, rows[:0], share[:0]), {}
    for k in range(len(rows) - 1, -1, -1):
        curve[k] = value - charge * k
        if curve[k] > best[0]:
            best = (curve[k], rows[:-1], share[:-1])
        if k <= 1:
            break
        tries = []
        for out in np.argsort(share[:-1], kind="stable")[:WEAKEST]:
            rest = np.delete(np.arange(k + 1), out)
            start = np.maximum(share[rest], 1e-4)
            tries.append((*_fitted(counts, chances[rows[rest]], start / start.sum(), STEPS[1]), rest))
        share, value, rest = max(tries, key=lambda one: one[1])
        rows = rows[rest]
    return Selection(*best, curve)


def _fitted(counts: Doubles, chances: Doubles, share: Doubles, steps: int) -> tuple[Doubles, float]:
    """The shares of the largest likelihood by expectation and maximisation, and its logarithm."""
    for _ in range(steps):
        last, share = share, share * (chances @ (counts / (share @ chances))) / counts.sum()
        if np.abs(share - last).max() < 1e-6:
            break
    return share, float(counts @ np.log(share @ chances))
