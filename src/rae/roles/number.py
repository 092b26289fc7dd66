"""The number of roles: the exact positions where they are few, else the k of prediction strength.

Exact positions: nodes in equal positions have equal vectors, up to rounding. At most `max_k` positions,
with four or more nodes each on average, are the roles.

Prediction strength (Tibshirani & Walther 2005): cluster two halves of the nodes separately; of two nodes
that one half puts together, how often does the other half do so too? The worst cluster counts. The number
of roles is the largest k at which the mean over several halvings is 0.7 or more. Where no k reaches 0.7,
it is the k with the largest value, and the choice is weak. A k whose mean is within two standard errors of 0.7 gets
more halvings, as long as it could still change the number. The halves are of all rows that roles are fitted on: with
fewer, borders between roles move more, so that fewer roles are found, and other ones by every seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rae.errors import ConfigError
from rae.memory import row_chunks
from rae.roles.vectors import Doubles, Ints
from rae.runtime import generator, key

if TYPE_CHECKING:
    from sklearn.cluster import KMeans

STRONG = 0.7  # of 0.6 to 0.8 the one at which planted roles are recovered best; at 0.8 many real graphs get two roles
HALVINGS, MOST_HALVINGS = 4, 32  # at a time, of one k in all
START_ROWS = 2_000  # on which starts are tried; the best one continues with all rows
KMEANS_STARTS = 10  # of roles and of halves alike: a poor k-means of one half looks like a number that is not stable
CACHED_DISTANCES = 1 << 17  # numbers that stay in the cache of a core
STANDARD_ERRORS = 2  # from 0.7: a mean that is nearer is uncertain
NODES_PER_POSITION = 4
# Rows this near are one position. Rounding of float32 vectors stays below both limits (3e-8 of the spread, 1e-7 of the
# norm); the nearest positions of a barbell graph differ by 2e-5 of the spread.
SAME_BY_SPREAD, SAME_BY_NORM = 1e-6, 2e-7
NO_SPREAD_BY_NORM = 1e-6  # rows whose spread is at most this share of their norm are all one position


@dataclass(frozen=True)
class Choice:
    """The number of roles, the criterion that chose it, and its curve."""

    k: int
    criterion: str  # "given", "positions" or "prediction strength"; older files also have "steady positions"
    curve: dict[int, float] = field(default_factory=dict)  # k -> prediction strength; empty for the other criteria

    @property
    def weak(self) -> bool:
        """Whether no number of roles is strong, so that this one is only the best of them."""
        return self.criterion == "prediction strength" and bool(self.curve) and self.curve[self.k] < STRONG


@dataclass(frozen=True, eq=False)
class Positions:
    """Groups of rows that are equal up to rounding."""

    points: Doubles  # (u, p) one row of each group
    of_row: Ints  # (n,) the group of each row

    def __len__(self) -> int:
        return len(self.points)


def find_positions(x: Doubles, norm: float = 0.0) -> Positions:
    """The positions of these rows; `norm` is the largest norm of the vectors before projection.  (n, p) -> Positions"""
    from sklearn.cluster import DBSCAN

    spread = float(np.abs(x - x.mean(0)).max(initial=0.0))
    if spread <= NO_SPREAD_BY_NORM * norm:
        return Positions(x[:1], np.zeros(len(x), np.int64))
    tolerance = max(SAME_BY_SPREAD * spread, SAME_BY_NORM * norm, 1e-18)
    cells, cell_of_row = np.unique(np.round(x / tolerance), axis=0, return_inverse=True)
    # A rounding error can cross the border of a cell, so cells that touch are one position.
    position_of_cell = DBSCAN(eps=1.5, min_samples=1, algorithm="kd_tree").fit_predict(cells)
    of_row = position_of_cell[cell_of_row.reshape(-1)]
    _, first_row = np.unique(of_row, return_index=True)
    return Positions(x[first_row], of_row)


def choose_number(x: Doubles, positions: Positions, leading: int, max_k: int, seed: int) -> Choice:
    """The number of roles of these rows, whose first `leading` columns hold most variance.  (n, p) -> Choice"""
    if len(positions) <= max(1, min(max_k, len(x) // NODES_PER_POSITION)):
        return Choice(len(positions), "positions")
    curve = strength_curve(x[:, :leading], positions, max_k, seed)
    strong = [k for k, strength in curve.items() if strength >= STRONG]
    best = max(strong) if strong else max(curve, key=lambda k: curve[k], default=1)
    return Choice(best, "prediction strength", curve)


def check_k(k: int, positions: Positions) -> Choice:
    """The number that the caller gives, which may not exceed the number of positions."""
    if k > len(positions):
        raise ConfigError(f"k must be at most the number of different vectors ({len(positions):,}), got {k:,}")
    return Choice(k, "given")


def strength_curve(x: Doubles, positions: Positions, max_k: int, seed: int) -> dict[int, float]:
    """Prediction strength by number of roles, from 2 to what every half has different rows for."""
    draw = generator(seed, "roles", "halves")
    orders = [draw.permutation(len(x)) for _ in range(MOST_HALVINGS)]
    halvings = [(order[::2], order[1::2]) for order in orders]
    fewest = min(len(np.unique(positions.of_row[half])) for halves in halvings for half in halves)
    largest = min(max_k, len(positions) - 1, len(x) // 4, fewest)
    samples: dict[int, list[float]] = {k: [] for k in range(2, largest + 1)}
    for start in range(0, MOST_HALVINGS, HALVINGS):
        for k in uncertain_numbers(samples):
            samples[k] += [prediction_strength(x[a], x[b], k, seed) for a, b in halvings[start : start + HALVINGS]]
    return {k: float(np.mean(values)) for k, values in samples.items()}


def uncertain_numbers(samples: dict[int, list[float]]) -> list[int]:
    """The numbers that need more halvings: uncertain ones above the largest that is certainly strong; all at first.

    A few halvings of one k say little about their own spread, so that of all numbers together counts.
    """
    if not samples or not all(samples.values()):
        return list(samples)
    spread = float(np.sqrt(np.mean([np.var(values, ddof=1) for values in samples.values()])))
    above = {k: float(np.mean(values)) - STRONG for k, values in samples.items()}
    error = {k: STANDARD_ERRORS * spread / len(values) ** 0.5 for k, values in samples.items()}
    certain = max((k for k in samples if above[k] > error[k]), default=0)
    return [k for k in samples if k > certain and abs(above[k]) <= error[k]]


def prediction_strength(first: Doubles, second: Doubles, k: int, seed: int) -> float:
    """Of pairs in a cluster of one half, the share that clusters of the other half keep together: the worst cluster.

    The mean of both directions.
    """
    from sklearn.metrics.cluster import contingency_matrix

    halves = first, second
    fits = [fit_kmeans(rows, k, seed) for rows in halves]
    worst = []
    for rows, own, other in zip(halves, fits, fits[::-1], strict=True):
        table: Any = contingency_matrix(own.labels_, other.predict(rows))
        size = table.sum(1)
        together = (table * (table - 1)).sum(1) / np.maximum(size * (size - 1), 1)
        worst.append(together.min())
    return float(np.mean(worst))


def fit_kmeans(x: Doubles, k: int, seed: int) -> KMeans:
    """k-means, the best of several starts, which many rows try on some of them alone.  (n, p) -> KMeans"""
    from sklearn.cluster import KMeans

    random = np.random.RandomState(int(key(seed, "roles", "k-means", k)) % 2**32)
    tried = x[random.choice(len(x), START_ROWS, replace=False)] if len(x) > START_ROWS else x
    starts = iter(kmeans_starts(tried - tried.mean(0), k, random))
    best = KMeans(k, init=lambda *_, **__: next(starts), n_init=KMEANS_STARTS).fit(tried)
    return best if tried is x else KMeans(k, init=best.cluster_centers_, n_init=1).fit(x)


def kmeans_starts(x: Doubles, k: int, random: np.random.RandomState) -> Doubles:
    """The centres that k-means starts from: k-means++ with the draws of scikit-learn, several starts at once.

    One after the other, they take most of the time in which the roles of a small graph are found.  -> (starts, k, p)
    """
    trials = 2 + int(np.log(k))
    draws = random.random_sample((KMEANS_STARTS, 1 + (k - 1) * trials))
    norms, ones = np.einsum("ij,ij->i", x, x), np.ones(len(x))
    at_once = max(1, CACHED_DISTANCES // (trials * len(x)))
    parts = [_kmeans_starts(x, k, draws[a:b], norms, ones) for a, b in row_chunks(KMEANS_STARTS, at_once)]
    centers: Doubles = x[np.concatenate(parts)]
    return centers


def _kmeans_starts(x: Doubles, k: int, draws: Doubles, norms: Doubles, ones: Doubles) -> Ints:
    """The rows that are centres, for the starts with these draws."""

    def distances(rows: Ints) -> Doubles:
        squares: Doubles = -2 * (x[rows] @ x.T)
        squares += norms[rows, None]
        squares += norms
        return np.maximum(squares, 0, out=squares)

    evenly = np.cumsum(ones / len(x))
    chosen = np.searchsorted(evenly / evenly[-1], draws[:, :1], side="right")
    nearest = distances(chosen[:, 0])
    for shares in draws[:, 1:].reshape(len(draws), k - 1, -1).swapaxes(0, 1) if k > 1 else ():
        totals = zip(np.cumsum(nearest, 1), shares * (nearest @ ones)[:, None], strict=True)
        candidates = np.minimum([np.searchsorted(*pair) for pair in totals], len(x) - 1)  # a sum may be rounded down
        reached = distances(candidates.reshape(-1)).reshape(*candidates.shape, -1)
        np.minimum(reached, nearest[:, None], out=reached)
        best = np.arange(len(draws)), (reached @ ones).argmin(1)
        chosen, nearest = np.column_stack([chosen, candidates[best]]), reached[best]
    return chosen
