"""Rows: an array whose rows change, as of one moment; readers of an earlier moment are not disturbed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Rows:
    """An array, and the rows that replace its own or follow them.  (n, ...)

    >>> rows = Rows.of(np.array([10, 11, 12])).replaced(np.array([1, 3]), np.array([21, 23]))
    >>> rows.whole().tolist(), rows.take(np.array([3, 0])).tolist(), len(rows)
    ([10, 21, 12, 23], [23, 10], 4)
    """

    base: Array
    changed: Ints  # ascending; those beyond the base follow it without a gap
    values: Array

    @classmethod
    def of(cls, base: Array) -> Rows:
        """The array as it is."""
        return cls(base, np.empty(0, np.int64), base[:0])

    def __len__(self) -> int:
        return max(len(self.base), int(self.changed[-1]) + 1 if len(self.changed) else 0)

    def is_changed(self, rows: Ints) -> Any:
        """Whether each of these rows differs from the base.  (b,) -> (b,)"""
        return self._places(rows)[1]

    def take(self, rows: Ints) -> Array:
        """These rows as they are.  (b,) -> (b, ...)"""
        at, there = self._places(rows)
        out: Array = self.base[np.where(there, 0, rows)]
        out[there] = self.values[at[there]]
        return out

    def replaced(self, rows: Ints, values: Array) -> Rows:
        """The array with these rows, ascending, in the place of its own or after them."""
        kept = ~np.isin(self.changed, rows)
        changed = np.concatenate([self.changed[kept], rows])
        order = np.argsort(changed, kind="stable")
        both = np.concatenate([self.values[kept], values.astype(self.base.dtype, copy=False)])
        return Rows(self.base, changed[order], both[order])

    def whole(self) -> Array:
        """All rows as they are, in one array; the base itself where nothing changed."""
        if not len(self.changed):
            return self.base
        out = np.empty((len(self), *self.base.shape[1:]), self.base.dtype)
        out[: len(self.base)] = self.base
        out[self.changed] = self.values
        return out

    def _places(self, rows: Ints) -> tuple[Ints, Any]:
        """Where each of these rows is among those that changed, and whether it is."""
        at = np.searchsorted(self.changed, rows)
        there = at < len(self.changed)
        there[there] = self.changed[at[there]] == np.asarray(rows)[there]
        return at, there
