"""Look-alikes among vectors that change: the vectors, and an index that is updated with them."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from rae.errors import MissingExtraError
from rae.memory import row_chunks
from rae.ops.nearest import DECIMALS, Doubles, Floats, Ints, Scale, nearest_rows
from rae.search import Index
from rae.service.rows import Rows

log = logging.getLogger("rae")

EXACT_ROWS = 5_000  # up to so many, all vectors are compared: a millisecond or two
RECALL = 0.99  # share of the true nearest that an index must find
CANDIDATES = 2  # rows compared exactly per row of the answer
AT_ONCE = 1_024  # rows added to the index while readers wait


class Neighbors:
    """Weighted vectors and their index. Distances are exact; the index chooses the candidates."""

    def __init__(self, vectors: Rows) -> None:
        """The vectors, with an index unless they are few or faiss is not installed.  (n, d)"""
        self.vectors = vectors
        self.index = self._index()
        if self.index.method == "approximate":
            self.index.get_ready_to_change()
        self._sums, self._squares = _sums(self.vectors.now)

    def _index(self) -> Index:
        now = self.vectors.now
        if len(now) > EXACT_ROWS:
            try:
                return Index(now, method="approximate", target_recall=RECALL)
            except MissingExtraError as error:
                words = "look-alikes of %s nodes are searched one by one, which is slow: %s"
                log.warning(words, f"{len(now):,}", error)
        return Index(now, method="exact")

    @property
    def scale(self) -> Scale:
        """Mean and typical distance, as `Scale.of` finds them, from running sums."""
        n = len(self.vectors)
        mean = self._sums / n
        unit = float(np.sqrt(2 * max(self._squares - n * float(mean @ mean), 0.0) / n))
        return Scale(mean, unit if unit > 1e-12 * float(np.linalg.norm(mean)) else 1.0)

    def nearest(self, query: Floats, k: int, skip: int = -1) -> tuple[Ints, Floats]:
        """Rows and distances of the k nearest, without row `skip`; fewer where there are fewer.  (d,) -> (k,), (k,)"""
        scale, n = self.scale, len(self.vectors)
        if self.index.method != "exact":
            rows = np.sort(self.index.nearest(query[None], min(CANDIDATES * (k + 1), n))[0][0])
        elif n <= EXACT_ROWS:
            rows = np.arange(n)
        else:
            rows = np.sort(nearest_rows(self.vectors.now, query[None], k, np.array([skip]), scale)[0][0])
        rows = rows[(rows != skip) & (rows >= 0)]
        differences = scale(self.vectors.take(rows)) - scale(query[None])
        distance = np.sqrt(np.einsum("ij,ij->i", differences, differences)).round(DECIMALS)
        order = np.argsort(distance, kind="stable")[:k]
        return rows[order], distance[order].astype(np.float32)

    def put(self, rows: Ints, values: Floats) -> None:
        """Write vectors, ascending by row; `learn` adds them to the index afterwards."""
        present = rows < len(self.vectors)
        sums, squares = _sums(values)
        less, fewer = _sums(self.vectors.take(rows[present]))
        self.vectors.put(rows, values)
        self._sums, self._squares = self._sums + sums - less, self._squares + squares - fewer

    def learn(self, rows: Ints, values: Floats, alone: AbstractContextManager[Any]) -> None:
        """Add vectors, ascending by row, to the index, some at a time under the lock `alone`."""
        if self.index.method == "exact":
            return
        for start in range(0, len(rows), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            lists = self.index.lists_of(values[some])
            with alone:
                self.index.put(rows[some], values[some], lists)


def _sums(z: Any) -> tuple[Doubles, float]:
    """The sum of each column, and of the squares of all entries."""
    sums: Doubles = z.sum(0, dtype=np.float64)
    parts = (z[a:b].astype(np.float64) for a, b in row_chunks(len(z), 65_536))
    return sums, sum(float(np.einsum("ij,ij->", part, part)) for part in parts)
