"""Features some of whose rows were replaced, or come after the last one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.features.features import Features
from rae.features.matrix import Matrix

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class EditedFeatures(Features):
    """Given features of which the rows `changed` (ascending) are those of `patch`, as are all after the last."""

    changed: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    patch: Any = None  # (c, d), dense or sparse as the matrix

    def with_rows(self, rows: Any, values: Any) -> EditedFeatures:
        """The same features with these rows (ascending) replaced, or added after the last."""
        if self.patch is None:
            return replace(self, changed=np.asarray(rows, np.int64), patch=values)
        stays = ~np.isin(self.changed, rows)
        changed = np.concatenate([self.changed[stays], np.asarray(rows, np.int64)])
        order = np.argsort(changed)
        return replace(self, changed=changed[order], patch=_stack(self.patch[stays], values)[order])

    def take(self, index: Any) -> Matrix:
        index = np.asarray(index)
        if self.patch is None:
            return super().take(index)
        place = np.searchsorted(self.changed, index)
        patched = self.changed[np.minimum(place, len(self.changed) - 1)] == index
        rows = _stack(self.matrix[index[~patched]], self.patch[place[patched]])
        order = np.empty(len(index), np.int64)
        order[np.concatenate([np.flatnonzero(~patched), np.flatnonzero(patched)])] = np.arange(len(index))
        return self._join(None, rows[order], "the rows asked for")

    def rows(self, a: int, b: int) -> Matrix:
        return super().rows(a, b) if self.patch is None else self.take(np.arange(a, b))

    def whole(self) -> Any:
        return super().whole() if self.patch is None else None

    def whole_matrix(self, n_rows: int) -> Any:
        """All rows in one matrix."""
        if self.patch is None:
            return self.matrix
        if self.is_dense:
            out = np.empty((n_rows, self.given_width), np.float32)
            out[: len(self.matrix)] = self.matrix
            out[self.changed] = self.patch
            return out
        order = np.arange(n_rows)
        order[self.changed] = self.matrix.shape[0] + np.arange(len(self.changed))
        return sp.csr_array(_stack(sp.csr_array(self.matrix), self.patch)[order])


def _stack(first: Any, second: Any) -> Any:
    """Rows of two matrices of one kind, one below the other."""
    if sp.issparse(first) or sp.issparse(second):
        return sp.csr_array(sp.vstack([sp.csr_array(first), sp.csr_array(second)]))
    return np.concatenate([np.asarray(first, np.float32), np.asarray(second, np.float32)])
