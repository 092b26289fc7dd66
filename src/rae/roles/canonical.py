"""A sample of rows that does not know their order, and the few directions in which they differ.

Whatever is fitted on it is the same, bit for bit, after a reshuffle of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.runtime import generator, key

Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

CHUNK = 65_536  # rows worked on at a time
VARIANCE, DIRECTIONS = 0.95, 32  # principal directions: so many at most; those with this share of the variance lead
SHRINKAGE = 0.001  # of the mean scatter, added to that of every column before it is inverted
TOLERANCE = 1e-6  # of the spread: rows nearer than this are one position; rounding makes 3e-8
ROUNDING, EQUAL = (
    2e-7,
    1e-6,
)  # of the norm: rows nearer than the first are one position too; a spread of the second is none


def chunks(n: int, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    return ((a, min(a + size, n)) for a in range(0, n, size))


def sample(z: Floats, most: int, seed: int) -> Floats:
    """At most so many rows, chosen and ordered by what they hold, never by where they stand."""
    rows = np.arange(len(z))
    if len(z) > most:
        order = np.argpartition(_lots(z, seed), most)
        rows = np.sort(order[:most])
    chosen: Floats = _sorted(np.ascontiguousarray(z[rows]))
    return chosen


def _lots(z: Floats, seed: int) -> Any:
    """A number per row, drawn by hashing its bits; equal rows draw by turns.  -> (n,) uint64"""
    odd = generator(seed, "roles", "hash").integers(1 << 63, size=z.shape[1], dtype=np.uint64) * 2 + 1
    hashes = np.empty(len(z), np.uint64)
    for a, b in chunks(len(z), 8192):
        bits = np.ascontiguousarray(z[a:b] + np.float32(0)).view(np.uint32)  # -0 becomes 0
        hashes[a:b] = bits.astype(np.uint64) @ odd
    order = np.argsort(hashes, kind="stable")
    fresh = np.concatenate([[True], np.diff(hashes[order]) != 0])
    first = np.flatnonzero(fresh)
    turn = np.empty(len(z), np.uint64)
    turn[order] = (np.arange(len(z)) - np.repeat(first, np.diff([*first, len(z)]))).astype(np.uint64)
    return mixed(mixed(hashes + key(seed, "roles", "lots")) + turn)


def mixed(x: Any) -> Any:
    """64 bits scrambled (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _sorted(x: Any) -> Any:
    """The rows in lexicographic order."""
    packed = np.ascontiguousarray(x + np.float32(0)).view(np.dtype((np.void, x.shape[1] * x.itemsize))).reshape(-1)
    return x[np.argsort(packed, kind="stable")]


@dataclass(frozen=True, eq=False)
class Space:
    """A few directions in the space of the vectors; the first `leading` are those that count.

    Made by `of`: the principal directions, 32 at most, of which the leading hold 95 % of the variance.
    """

    mean: Doubles  # (d,)
    directions: Doubles  # (d, p)
    leading: int

    @classmethod
    def of(cls, rows: Floats) -> Space:
        """The directions of a canonical sample."""
        mean = rows.mean(0, dtype=np.float64)
        centred = rows.astype(np.float64) - mean
        values, vectors = np.linalg.eigh(centred.T @ centred / len(rows))
        values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
        held = np.cumsum(values) / max(float(values.sum()), 1e-300)
        kept = vectors[:, :DIRECTIONS]
        heaviest = kept[np.abs(kept).argmax(0), np.arange(kept.shape[1])]
        leading = min(kept.shape[1], 1 + int(np.count_nonzero(held < VARIANCE)))
        return cls(mean, np.ascontiguousarray(kept * np.where(heaviest < 0, -1.0, 1.0)), leading)

    @classmethod
    def between(cls, rows: Floats, labels: Ints) -> Space:
        """The directions that tell labelled rows apart (Fisher's), in units of the scatter within a label.

        -> as many as there are different labels, less one
        """
        from scipy.linalg import eigh

        x = rows.astype(np.float64)
        mean, scale = x.mean(0), np.maximum(x.std(0), 1e-9)
        x = (x - mean) / scale
        _, labels, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        labels = labels.reshape(-1)
        middles = np.zeros((len(sizes), x.shape[1]))
        np.add.at(middles, labels, x)
        middles /= sizes[:, None]
        x -= middles[labels]
        within = x.T @ x / len(x)
        within += SHRINKAGE * (np.trace(within) / len(within) + 1e-12) * np.eye(len(within))
        between = (middles.T * sizes) @ middles / len(x)
        p = min(len(sizes) - 1, len(mean))
        _, vectors = eigh(between, within, subset_by_index=(len(mean) - p, len(mean) - 1))
        vectors = vectors[:, ::-1] / scale[:, None]
        heaviest = vectors[np.abs(vectors).argmax(0), np.arange(p)]
        return cls(mean, np.ascontiguousarray(vectors * np.where(heaviest < 0, -1.0, 1.0)), p)

    def led(self) -> Space:
        """The leading directions alone."""
        return Space(self.mean, np.ascontiguousarray(self.directions[:, : self.leading]), self.leading)

    def project(self, z: Floats) -> Doubles:
        """(n, d) -> (n, p)"""
        out: Doubles = (z.astype(np.float64) - self.mean) @ self.directions
        return out


def norm(rows: Floats) -> float:
    """The largest norm of these rows."""
    return float(np.sqrt((rows.astype(np.float64) ** 2).sum(1).max()))


def positions(x: Doubles, size: float = 0.0) -> tuple[Doubles, Ints, Ints]:
    """Rows that differ by rounding alone as one: the points, how many rows each has, each row's point.

    `size` is the norm of the vectors that x was projected from: rounding grows with it.
    -> (u, p), (u,), (n,)
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    spread = float(np.abs(x - x.mean(0)).max(initial=0.0))
    if spread <= EQUAL * size:
        return x[:1], np.array([len(x)]), np.zeros(len(x), np.int64)
    near = max(TOLERANCE * spread, ROUNDING * size, 1e-18)
    grid, first, to_grid = np.unique(np.round(x / near), axis=0, return_index=True, return_inverse=True)
    pairs = cKDTree(grid).query_pairs(1.5, output_type="ndarray")  # a rounding error can cross a line of the grid
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(grid), len(grid)))
    _, part = connected_components(links, directed=False)
    row_part = part[to_grid.reshape(-1)]
    counts = np.bincount(row_part)
    leader = np.full(len(counts), len(x))
    np.minimum.at(leader, part, first)
    return x[leader], counts, row_part
