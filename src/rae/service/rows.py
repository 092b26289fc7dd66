"""Rows: an array whose rows change in place, with spare capacity for further ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rae.updates import capacity_for

Array = np.ndarray[Any, Any]
Ints = np.ndarray[Any, np.dtype[np.int64]]


class Rows:
    """An array that others change between two readings: readers and writers take turns by a lock of theirs.  (n, ...)

    >>> rows = Rows.of([np.array([10, 11]), np.array([12])], 3)
    >>> rows.put(np.array([1, 3]), np.array([21, 23]))
    >>> rows.now.tolist(), rows.take(np.array([3, 0])).tolist(), len(rows)
    ([10, 21, 12, 23], [23, 10], 4)
    """

    def __init__(self, empty: Array, room: int) -> None:
        """No rows, of this kind, and room for so many."""
        self._length, self._room = 0, empty[:0]
        self._make_room(room)

    @classmethod
    def of(cls, parts: Iterable[Array], length: int) -> Rows:
        """The rows of these parts, one after the other; `length` in all.  (b, ...) -> (n, ...)"""
        rows = None
        for part in parts:
            rows = cls(part, length) if rows is None else rows
            rows._room[rows._length : rows._length + len(part)] = part
            rows._length += len(part)
        assert rows is not None
        return rows

    def __len__(self) -> int:
        return self._length

    @property
    def now(self) -> Array:
        """All rows, not a copy."""
        return self._room[: self._length]

    def take(self, rows: Ints) -> Array:
        """These rows, a copy.  (b,) -> (b, ...)"""
        out: Array = self._room[rows]
        return out

    def put(self, rows: Ints, values: Array) -> None:
        """Write these rows, ascending, in the place of those that are there or after the last."""
        length = max(self._length, int(rows[-1]) + 1 if len(rows) else 0)
        if length > len(self._room):
            self._make_room(length)
        self._room[rows] = values
        self._length = length

    def _make_room(self, length: int) -> None:
        room = np.empty((capacity_for(length), *self._room.shape[1:]), self._room.dtype)
        room[: self._length] = self.now
        self._room = room
