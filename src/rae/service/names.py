"""Looking nodes up by id, by display name, or by the first letters of either, in a millisecond among millions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import GraphError, UnknownIdError
from rae.graph.ids import is_text, shown

Ints = np.ndarray[Any, np.dtype[np.int64]]

MOST_LATER = 10_000  # new nodes that are looked through one by one; with more, all are sorted anew
SEVERAL = 5  # ids that are shown of nodes with one name


@dataclass(frozen=True, eq=False)
class Names:
    """The ids of the nodes and their display names, sorted by their letters, upper or lower case alike."""

    ids: pa.Array
    names: pa.Array | None
    folded: pa.Array  # ids as text, then names, in lower case, ascending
    rows: Ints  # of each of them
    later: tuple[Any, ...] = ()  # ids of nodes that came since

    @classmethod
    def of(cls, ids: pa.Array, names: pa.Array | None) -> Names:
        """The names of these nodes, sorted."""
        rows = np.arange(len(ids))
        texts = [_texts(ids)]
        if names is not None:
            named = names.is_valid().to_numpy(zero_copy_only=False)
            texts.append(names.drop_null().cast(pa.large_string()))
            rows = np.concatenate([rows, rows[: len(named)][named]])
        folded = pc.utf8_lower(pa.concat_arrays(texts))
        order = pc.array_sort_indices(folded)
        return cls(ids, names, folded.take(order), rows[order.to_numpy()])

    def __len__(self) -> int:
        return len(self.ids) + len(self.later)

    def grown(self, new: pa.Array) -> Names:
        """With the ids of further nodes."""
        if len(self.later) + len(new) <= MOST_LATER:
            return replace(self, later=(*self.later, *new.to_pylist()))
        ids = pa.concat_arrays([self.ids, pa.array(self.later, self.ids.type), new.cast(self.ids.type)])
        return Names.of(ids, self.names)

    def id(self, row: int) -> int | str:
        """The id of a row, as JSON holds it: a whole number, or text."""
        value = self.ids[row].as_py() if row < len(self.ids) else self.later[row - len(self.ids)]
        return value if isinstance(value, int) and not isinstance(value, bool) else str(value)

    def name(self, row: int) -> str | None:
        """The display name of a row, if it has one."""
        name: str | None = self.names[row].as_py() if self.names is not None and row < len(self.names) else None
        return name

    def row(self, wanted: int | str) -> int:
        """The row of this id, or else of this display name; an unknown one is refused, and a name of several nodes."""
        text = str(wanted)
        called = []
        for row in self._equal(text):
            if str(self.id(row)) == text:
                return row
            if self.name(row) == text:
                called.append(row)
        if len(called) == 1:
            return called[0]
        if called:
            some = ", ".join(repr(self.id(row)) for row in called[:SEVERAL])
            raise GraphError(f"{len(called):,} nodes are called {text!r}: ask by id, one of {some}")
        near = [repr(self.id(row)) for row in self.starting_with(text[:2], 3)] if text.strip() else []
        hint = ", ".join(near) or shown(self.ids.slice(0, 3))
        raise UnknownIdError(f"there is no node {text!r}; ids here are such as {hint}")

    def starting_with(self, prefix: str, most: int) -> list[int]:
        """Rows whose id or name begins like this, in the order of their letters, at most so many."""
        start = _lower(prefix)
        found: dict[int, None] = {}
        for row in self._from(start, lambda text: text.startswith(start)):
            if len(found) >= most:
                break
            found[row] = None
        for row in self._later(lambda text: text.startswith(start)):
            if len(found) >= most:
                break
            found[row] = None
        return list(found)

    def _equal(self, text: str) -> Iterator[int]:
        wanted = _lower(text)
        yield from self._from(wanted, lambda other: other == wanted)
        yield from self._later(lambda other: other == wanted)

    def _from(self, first: str, goes_on: Any) -> Iterator[int]:
        """Rows in order, from the first text that is not before `first`, as long as their texts are wanted."""
        at, end = 0, len(self.folded)
        while at < end:
            middle = (at + end) // 2
            at, end = (middle + 1, end) if self.folded[middle].as_py() < first else (at, middle)
        while at < len(self.folded) and goes_on(self.folded[at].as_py()):
            yield int(self.rows[at])
            at += 1

    def _later(self, is_wanted: Any) -> Iterator[int]:
        for number, id in enumerate(self.later):
            if is_wanted(_lower(str(id))):
                yield len(self.ids) + number


def _texts(ids: pa.Array) -> pa.Array:
    """Ids as the text that is asked for."""
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
