"""The exact search: the rows of a table that are nearest to others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.memory import row_chunks
from rae.ops.distances import squared_distances
from rae.runtime import in_ranges, libraries_alone

Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

TILE = 512  # queries per matrix product
CACHED = 1 << 20  # bytes that stay in a core's cache
BLOCK, FIRST = 1 << 24, 64  # bytes of a product, rows in the first and smallest one
CROWDED = 8  # times k candidates of one query in one product
ROUNDING = 2.0**-23  # of a number in single precision, and as much again for what is rounded before a product
DECIMALS, HALF_DECIMAL = 6, 5e-7  # of a distance: vectors that differ by the rounding of float32 are equally far


@dataclass(frozen=True, eq=False)
class Scale:
    """Vectors without their mean, in units of the typical distance between two of them."""

    mean: Doubles  # (d,)
    unit: float  # root mean square distance of two vectors taken at random; 1 where all are equal

    @classmethod
    def of(cls, z: Floats) -> Scale:
        """The scale of these vectors.  (n, d) -> Scale"""
        mean = z.mean(0, dtype=np.float64)
        chunks = row_chunks(len(z), max(1, CACHED // (8 * z.shape[1])))
        total = sum(float(_squares(z[start:stop] - mean).sum()) for start, stop in chunks)
        unit = float(np.sqrt(2 * total / max(len(z), 1)))
        return cls(mean, unit if unit > 1e-12 * float(np.linalg.norm(mean)) else 1.0)

    def __call__(self, z: Floats) -> Doubles:
        """(n, d) -> (n, d)"""
        out: Doubles = np.subtract(z, self.mean, dtype=np.float64)
        out /= self.unit
        return out


def nearest_rows(
    z: Floats, queries: Floats, k: int, skip: Ints | None = None, scale: Scale | None = None
) -> tuple[Ints, Floats]:
    """Rows of z and distances of the k nearest of each query, nearest first.  (n, d), (q, d) -> (q, k), (q, k)

    Row skip[i] is left out for query i; where fewer than k rows are left, the row is -1. Distances are in units of
    the typical one between two rows of z and rounded to six decimals; of equal ones the lower row comes first. The
    result does not depend on the number of threads: each product has a fixed shape and runs on one thread.

    >>> z = np.array([[0, 0], [4, 0], [5, 0]], np.float32)
    >>> nearest_rows(z, z, 1, skip=np.arange(3))[0].ravel().tolist()
    [1, 2, 1]

    `scale` is that of z, where it is known.
    """
    z = np.asarray(z, np.float32)
    scale = Scale.of(z) if scale is None else scale
    scaled = scale(queries)
    skip = np.full(len(scaled), -1) if skip is None else np.asarray(skip, np.int64)
    rows, best = np.full((len(scaled), k), -1, np.int64), np.full((len(scaled), k), np.inf)
    chunks = list(row_chunks(len(scaled), TILE))

    def search_queries(first: int, last: int) -> None:
        for start, stop in chunks[first:last]:
            _search_tile(z, scale, scaled[start:stop], skip[start:stop], rows[start:stop], best[start:stop])

    with libraries_alone("blas"):
        in_ranges(search_queries, len(chunks))
    return rows, best.astype(np.float32)


def _search_tile(z: Floats, scale: Scale, queries: Doubles, skip: Ints, rows: Ints, best: Doubles) -> None:
    """Update the nearest of a few queries by a pass over z, in blocks that grow so that few entries are candidates.

    Products in single precision say which rows may be near enough, whatever their rounding; the distances of these are
    taken in double precision, since near vectors would be confused.
    """
    k, width = rows.shape[1], z.shape[1]
    most = max(1, BLOCK // (8 * max(len(queries), width)))
    rounding = (width + 8) * ROUNDING  # of a product, relative to both squared lengths
    own, twice = _squares(queries), (-2 * queries).astype(np.float32)
    start, size = 0, min(FIRST, most)
    while start < len(z):
        stop = min(len(z), start + size)
        block = scale(z[start:stop])
        # Rows come in ascending order, so one that is as far as the k-th best once rounded comes too late.
        bound = np.where(best[:, -1] > 0, np.maximum(best[:, -1] - HALF_DECIMAL, 0) ** 2, -np.inf)
        products = twice @ block.astype(np.float32).T
        products += (_squares(block) * (1 - rounding)).astype(np.float32)
        better = products < (bound - own * (1 - rounding)).astype(np.float32)[:, None]
        here = np.flatnonzero((skip >= start) & (skip < stop))
        better[here, skip[here] - start] = False
        query, column = np.divmod(np.flatnonzero(better), stop - start)
        crowded = np.flatnonzero(np.bincount(query, minlength=len(queries)) > CROWDED * k)
        if len(crowded):  # differences and sorting of all of these would take longer than another product
            squared = own[crowded, None] + _squares(block) - 2 * (queries[crowded] @ block.T)
            squared[~better[crowded]] = np.inf
            kth = np.partition(squared, min(k, stop - start) - 1, axis=1)[:, min(k, stop - start) - 1, None]
            better[crowded] = squared <= (np.sqrt(np.maximum(kth, 0)) + 2 * HALF_DECIMAL) ** 2
            better[crowded] &= squared < np.inf
            query, column = np.divmod(np.flatnonzero(better), stop - start)
        if len(query):
            distance = np.sqrt(squared_distances(queries, block, query, column)).round(DECIMALS)
            _merge(rows, best, query, start + column, distance)
        start, size = stop, min(2 * size, most)


def _merge(rows: Ints, best: Doubles, query: Ints, row: Ints, distance: Doubles) -> None:
    """Update the k best of each query by candidates (query, row, distance), sorted by query, then by row."""
    k = rows.shape[1]
    order = np.lexsort((distance, query))
    row, distance = row[order], distance[order]
    first = np.flatnonzero(np.diff(query, prepend=-1))
    group = np.repeat(np.arange(len(first)), np.diff(first, append=len(query)))
    rank = np.arange(len(query)) - first[group]
    top = rank < k
    changed, group, rank = query[first], group[top], k + rank[top]
    both_rows = np.hstack([rows[changed], np.full((len(changed), k), -1)])
    both_best = np.hstack([best[changed], np.full((len(changed), k), np.inf)])
    both_rows[group, rank], both_best[group, rank] = row[top], distance[top]
    order = np.argsort(both_best, axis=1, kind="stable")[:, :k]
    rows[changed] = np.take_along_axis(both_rows, order, 1)
    best[changed] = np.take_along_axis(both_best, order, 1)


def _squares(x: Doubles) -> Doubles:
    """The squared length of each row.  (n, d) -> (n,)"""
    out: Doubles = np.einsum("ij,ij->i", x, x)
    return out
