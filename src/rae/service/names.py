"""Lookup of nodes by id, by display name, or by a prefix of either: a millisecond among millions."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import GraphError, UnknownIdError
from rae.graph.ids import is_text, shown

Ints = np.ndarray[Any, np.dtype[np.int64]]

LONGEST = 100  # letters of an unknown id that an error quotes
SEVERAL = 5  # ids that an error lists for nodes of one name


class Names:
    """The ids of the nodes and their display names, sorted without regard to case."""

    def __init__(self, ids: pa.Array, names: pa.Array | None) -> None:
        rows = np.arange(len(ids))
        texts = [_texts(ids)]
        if names is not None:
            named = names.is_valid().to_numpy(zero_copy_only=False)
            texts.append(names.drop_null().cast(pa.large_string()))
            rows = np.concatenate([rows, rows[: len(named)][named]])
        folded = pc.utf8_lower(pa.concat_arrays(texts))
        order = pc.array_sort_indices(folded)
        self.ids, self.names = ids, names
        self._folded = folded.take(order)  # ids as text, and names, in lower case, ascending
        self._rows: Ints = rows[order.to_numpy()]  # the row of each of them
        self._later: list[Any] = []  # ids of nodes that updates added
        self._later_folded: list[tuple[str, int]] = []  # the same in lower case, ascending, with their rows

    def __len__(self) -> int:
        return len(self.ids) + len(self._later)

    def add(self, new: pa.Array) -> None:
        """Add the ids of further nodes."""
        for id in new.to_pylist():
            insort(self._later_folded, (_lower(str(id)), len(self)))
            self._later.append(id)

    def id(self, row: int) -> int | str:
        """The id of a row, as JSON holds it: a whole number, or text."""
        value = self.ids[row].as_py() if row < len(self.ids) else self._later[row - len(self.ids)]
        return value if isinstance(value, int) and not isinstance(value, bool) else str(value)

    def name(self, row: int) -> str | None:
        """The display name of a row, if it has one."""
        name: str | None = self.names[row].as_py() if self.names is not None and row < len(self.names) else None
        return name

    def row(self, id_or_name: int | str) -> int:
        """The row of this id, or else of this display name; an unknown one is refused, and a name of several nodes."""
        text = str(id_or_name)
        rows_called = []
        for row in self._equal(text):
            if str(self.id(row)) == text:
                return row
            if self.name(row) == text:
                rows_called.append(row)
        if len(rows_called) == 1:
            return rows_called[0]
        if rows_called:
            some = ", ".join(repr(self.id(row)) for row in rows_called[:SEVERAL])
            raise GraphError(f"{len(rows_called):,} nodes are called {text!r}: ask by id, one of {some}")
        near = [repr(self.id(row)) for row in self.starting_with(text[:2], 3)] if text.strip() else []
        hint = ", ".join(near) or shown(self.ids.slice(0, 3))
        quoted = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        raise UnknownIdError(f"there is no node {quoted!r}; ids here are such as {hint}")

    def starting_with(self, prefix: str, most: int) -> list[int]:
        """Rows whose id or name begins like this, in the order of their letters, at most so many."""
        start = _lower(prefix)
        rows: dict[int, None] = {}
        for text, row in self._from(start):
            if len(rows) >= most or not text.startswith(start):
                break
            rows[row] = None
        return list(rows)

    def _equal(self, text: str) -> Iterator[int]:
        lower = _lower(text)
        return (row for _, row in takewhile(lambda entry: entry[0] == lower, self._from(lower)))

    def _from(self, first: str) -> Iterator[tuple[str, int]]:
        """Texts and their rows in order, from the first that is not before `first`."""
        first_known = bisect_left(range(len(self._folded)), first, key=lambda at: self._folded[at].as_py())
        later = bisect_left(self._later_folded, (first, -1))
        return merge(
            ((self._folded[at].as_py(), int(self._rows[at])) for at in range(first_known, len(self._folded))),
            (self._later_folded[at] for at in range(later, len(self._later_folded))),
        )


def _texts(ids: pa.Array) -> pa.Array:
    """Ids as text."""
    if is_text(ids.type) or pa.types.is_integer(ids.type):
        return ids.cast(pa.large_string())
    return pa.array([str(id) for id in ids.to_pylist()], pa.large_string())


def _lower(text: str) -> str:
    """Lower case, by the rules that sorted the texts."""
    try:
        lower: str = pc.utf8_lower(pa.scalar(text, pa.large_string())).as_py()
    except UnicodeEncodeError:  # half of a pair of characters, which no id has
        return text
    return lower
