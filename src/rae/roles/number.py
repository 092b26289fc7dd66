"""How many roles: where nodes stand on a few exact positions, those; else as many as two halves agree on.

(Between the two, where the graph is at hand, comes `rae.roles.steady`.)

Exact positions: nodes in equal positions have equal vectors, up to rounding. Where there are at most `max_k`
positions, four or more nodes to each on average, they are the roles. So are at most `max_k`
positions that hold half of all nodes, each at least twice as many as any other position, if the
rest lies near them: a graph of exact positions with a little noise.

Prediction strength (Tibshirani & Walther 2005) otherwise: cluster two halves of the nodes apart;
of two nodes that one half puts together, how often does the other half put them together too?
The worst cluster counts. The number of roles is the largest k at which this is 0.8 or more, on
average over several halvings; where no k reaches that, the k that comes nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.roles.canonical import Doubles, Ints, positions
from rae.runtime import generator, key

STRENGTH = 0.8
HALVINGS, STARTS, ROWS = 5, 3, 4_000  # halvings per k, k-means starts per fit, rows halved
EACH = 4  # nodes per position, where every position is a role
HELD, APART, EXPLAINED = 0.5, 2.0, 0.5  # positions with noise: share held, how far they stand out, variance explained


@dataclass(frozen=True)
class Choice:
    """The number of roles, by which rule, and the curve that it was read from."""

    k: int
    criterion: str  # "given", "positions", "steady positions" or "prediction strength"
    curve: dict[int, float]  # k -> prediction strength, or penalised likelihood; empty for the other rules
    centers: Doubles | None = None  # the positions, where they are the roles


def choose(x: Doubles, leading: int, max_k: int, seed: int, size: float = 0.0) -> Choice:
    """The number of roles of these rows: a canonical sample in all its directions.  (n, p) -> Choice

    `size` is the norm of the vectors, by which rounding is told from a difference.
    """
    points, counts, _ = positions(x, size)
    if len(points) == 1:
        return Choice(1, "positions", {}, points)
    exact = standing_out(x, points, counts, max_k)
    if exact is not None:
        return Choice(len(exact), "positions", {}, exact)
    x = x[:, :leading]
    draw = generator(seed, "roles", "halves")
    rows = x if len(x) <= ROWS else x[np.sort(draw.choice(len(x), ROWS, replace=False))]
    halves = [draw.permutation(len(rows)) for _ in range(HALVINGS)]
    curve = {}
    for k in range(2, min(max_k, len(points) - 1, len(rows) // 4) + 1):
        curve[k] = float(np.mean([_strength(rows, half, k, seed) for half in halves]))
    if not curve:
        return Choice(1, "prediction strength", {})
    strong = [k for k, value in curve.items() if value >= STRENGTH]
    return Choice(max(strong) if strong else max(curve, key=lambda k: curve[k]), "prediction strength", curve)


def few_positions(x: Doubles, max_k: int, size: float = 0.0) -> bool:
    """Whether the rows stand on so few positions that each is a role."""
    points, _, _ = positions(x, size)
    return len(points) <= max(1, min(max_k, len(x) // EACH))


def standing_out(x: Doubles, points: Doubles, counts: Ints, max_k: int) -> Doubles | None:
    """The few positions that hold most nodes, or None where there are no such.  -> (k, p)"""
    order = np.argsort(-counts, kind="stable")
    sizes = counts[order].astype(np.float64)
    if len(sizes) <= min(max_k, len(x) // EACH):
        return points[order]
    held = (np.cumsum(sizes) / sizes.sum())[:max_k]
    ratio = sizes[:max_k] / np.append(sizes, 1)[1 : max_k + 1]
    allowed = (held >= HELD) & (ratio >= APART) & (np.arange(len(ratio)) >= 1)
    if not allowed.any():
        return None
    k = 1 + int(np.argmax(np.where(allowed, ratio, 0)))
    centers = points[order[:k]]
    rest = float(squared(x, centers).min(1).mean())
    total = float(((x - x.mean(0)) ** 2).sum(1).mean())
    return centers if rest <= (1 - EXPLAINED) * total else None


def squared(x: Doubles, centers: Doubles) -> Doubles:
    """Squared distances, never negative.  (n, p), (k, p) -> (n, k)"""
    out: Doubles = (x**2).sum(1)[:, None] - 2 * x @ centers.T + (centers**2).sum(1)
    return np.maximum(out, 0)


def cluster(x: Doubles, k: int, seed: int, starts: int) -> Doubles:
    """The centres of k-means, best of several starts.  (n, p) -> (k, p)"""
    from sklearn.cluster import KMeans

    luck = int(key(seed, "roles", "k-means", k)) % 2**32
    centers: Doubles = KMeans(k, n_init=starts, random_state=luck).fit(x).cluster_centers_
    return centers


def _strength(x: Doubles, half: Ints, k: int, seed: int) -> float:
    """Of pairs that one half puts together, the share that the other does too, in the worst cluster."""
    halves = x[half[::2]], x[half[1::2]]
    centers = [cluster(rows, k, seed, STARTS) for rows in halves]
    worst = []
    for rows, own, theirs in ((halves[0], *centers), (halves[1], *centers[::-1])):
        table: Any = np.zeros((k, k))
        np.add.at(table, (squared(rows, own).argmin(1), squared(rows, theirs).argmin(1)), 1)
        size = table.sum(1)
        together = (table * (table - 1)).sum(1) / np.maximum(size * (size - 1), 1)
        worst.append(float(together.min()))
    return float(np.mean(worst))
