"""Look-alikes among vectors that change: an index, and beside it an exact search of what changed since it was built."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.errors import MissingExtraError
from rae.search import DECIMALS, Doubles, Floats, Index, Ints, Scale, nearest_rows
from rae.service.rows import Rows

log = logging.getLogger("rae")

EXACT_ROWS = 5_000  # up to so many vectors a pass over all of them takes a millisecond or two
MOST_CHANGED = 8_192  # rows that are searched beside the index; with more, they are put into it
RECALL = 0.99  # share of the true nearest that an index must find
CANDIDATES = 2  # times as many rows as are wanted are taken from the index and compared exactly


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Vectors, as distances see them, and how to search them."""

    vectors: Rows  # (n, d)
    index: Index  # of the vectors of the base
    sums: Doubles  # of each column
    squares: float  # of all entries

    @classmethod
    def of(cls, z: Floats, method: str = "auto") -> Neighbors:
        """The vectors with an index, unless they are few or faiss is not installed.  (n, d)"""
        if method == "auto":
            method = "exact" if len(z) <= EXACT_ROWS else "approximate"
            try:
                return cls.of(z, method)
            except MissingExtraError as error:
                log.warning("look-alikes of %s nodes are searched one by one, which is slow: %s", f"{len(z):,}", error)
                return cls.of(z, "exact")
        index = Index(z, method=method, wanted=RECALL)
        return cls(Rows.of(index.z), index, *_sums(index.z))

    @property
    def scale(self) -> Scale:
        """Mean and typical distance, as `Scale.of` finds them, from sums that follow the rows."""
        n = len(self.vectors)
        mean = self.sums / n
        unit = float(np.sqrt(2 * max(self.squares - n * float(mean @ mean), 0.0) / n))
        return Scale(mean, unit if unit > 1e-12 * float(np.linalg.norm(mean)) else 1.0)

    def nearest(self, query: Floats, k: int, skip: int = -1) -> tuple[Ints, Floats]:
        """Rows and distances of the k nearest, without row `skip`; fewer where there are fewer.  (d,) -> (k,), (k,)"""
        scale, n = self.scale, len(self.vectors)
        if self.index.method != "exact":
            rows = np.union1d(self._indexed(query, k + 1), self._changed(query, k + 1))
        elif n <= EXACT_ROWS:
            rows = np.arange(n)
        else:
            rows = np.sort(nearest_rows(self.vectors.whole(), query[None], k, np.array([skip]), scale)[0][0])
        rows = rows[(rows != skip) & (rows >= 0)]
        apart = scale(self.vectors.take(rows)) - scale(query[None])
        distance = np.sqrt(np.einsum("ij,ij->i", apart, apart)).round(DECIMALS)
        order = np.argsort(distance, kind="stable")[:k]
        return rows[order], distance[order].astype(np.float32)

    def replaced(self, rows: Ints, values: Floats) -> Neighbors:
        """With these vectors, ascending by row, in the place of those of their rows or after them."""
        there = rows < len(self.vectors)
        sums, squares = _sums(values)
        less, fewer = _sums(self.vectors.take(rows[there]))
        vectors = self.vectors.replaced(rows, values)
        index = self.index
        if index.method == "exact" or len(vectors.changed) > MOST_CHANGED:
            whole = vectors.whole()
            if index.method != "exact":
                index = index.replaced(vectors.changed, whole)
            vectors = Rows.of(whole)
        return Neighbors(vectors, index, self.sums + sums - less, self.squares + squares - fewer)

    def _indexed(self, query: Floats, k: int) -> Ints:
        """Rows near the query that are still as the index has them: k, or as many as there are."""
        wanted, most = CANDIDATES * k, len(self.vectors.base)
        while True:
            rows = self.index.nearest(query[None], min(wanted, most))[0][0]
            found: Ints = rows[rows >= 0]
            fresh: Ints = found[~self.vectors.is_changed(found)]
            if len(fresh) >= k or len(found) < wanted or wanted >= most:
                return fresh
            wanted *= 4

    def _changed(self, query: Floats, k: int) -> Ints:
        """Of the rows that changed, those near the query."""
        apart = self.vectors.values - query
        squared = np.einsum("ij,ij->i", apart, apart)
        if len(squared) > k:
            nearest: Ints = self.vectors.changed[np.argpartition(squared, k - 1)[:k]]
            return nearest
        return self.vectors.changed


def _sums(z: Any) -> tuple[Doubles, float]:
    """The sum of each column, and of the squares of all entries."""
    sums: Doubles = z.sum(0, dtype=np.float64)
    squares = sum(float(np.einsum("ij,ij->", part, part)) for part in _doubles(z))
    return sums, squares


def _doubles(z: Any) -> Any:
    for start in range(0, len(z), 65_536):
        yield z[start : start + 65_536].astype(np.float64)
