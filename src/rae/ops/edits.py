"""A graph that is edited in place: its rows, and counts of cycles and cores that follow each edge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rae.ops import structure
from rae.ops.library import call, int64, is_native
from rae.runtime import in_ranges

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

KEPT = 5  # numbers of a node that are kept before it changes, as in edits.c


@dataclass
class EditedRows:
    """Rows of neighbours that change edge by edge, and per node triangles, 4-cycles and core number.

    Rows lie in `targets`, which is only read, or in `extra`, where rows that changed are written anew: row u from
    starts[u] on, `extra` coming after `targets`, degrees[u] entries, ascending. Arrays have room for `capacity` nodes.
    """

    targets: Ints
    extra: Ints
    used: int  # entries of `extra`
    starts: Ints
    degrees: Ints
    triangles: Ints
    cycles: Ints
    core: Ints
    _marks: Bytes = field(init=False)
    _found: Ints = field(init=False)
    _work: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.starts)
        self._marks, self._found = np.zeros(n, np.uint8), np.empty(n, np.int64)
        # touched, changed, kept, scratch, flags: memory is taken where it is written
        self._work = (
            *(np.zeros(n, np.uint8), np.empty(n, np.int64), np.empty((n, KEPT), np.int64)),
            *(np.zeros(5 * n, np.int64), np.zeros(2 * n, np.uint8)),
        )

    @property
    def capacity(self) -> int:
        return len(self.starts)

    def lists(self, nodes: Any) -> tuple[Ints, Ints]:
        """The neighbours of these nodes, one row after the other.  (b,) -> offsets (b + 1,), rows"""
        nodes = int64(nodes)
        offsets = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum(self.degrees[nodes], out=offsets[1:])
        if not is_native(self.targets):
            rows = [self._row(int(u)) for u in nodes]
            return offsets, np.concatenate([self.targets[:0], *rows])
        out = np.empty(int(offsets[-1]), self.targets.dtype)
        rows_of = (self.targets, len(self.targets), self.extra, self.starts)
        in_ranges(lambda a, b: call("list_rows", *rows_of, nodes, offsets, out, a, b, index=out), len(nodes), 4096)
        return offsets, out

    def _row(self, u: int) -> Ints:
        start, base = int(self.starts[u]), len(self.targets)
        whole, start = (self.targets, start) if start < base else (self.extra, start - base)
        return whole[start : start + int(self.degrees[u])]

    def spread(self, *groups: Any, also: Any = ()) -> Ints:
        """All that is next to one of these nodes, and the nodes of `also`, each once, ascending."""
        marks, count = self._marks, 0
        own = np.unique(int64(also))
        marks[own] = 1
        if is_native(self.targets):
            rows_of = (self.targets, len(self.targets), self.extra, self.starts, self.degrees)
            for nodes in map(int64, groups):
                found = self._found[count:]
                count += call("spread_rows", *rows_of, nodes, len(nodes), marks, found, index=self.targets)
            near = self._found[:count]
        else:
            near = np.unique(np.concatenate([own[:0], *(self.lists(nodes)[1] for nodes in groups)]))
            near = near[marks[near] == 0]
        out = np.sort(np.concatenate([own, near]))
        marks[out] = 0
        return out

    def edit(self, us: Any, vs: Any, adds: Any) -> tuple[Ints, Ints]:
        """Let edges come and go, in this order; whose numbers may have changed, and what those were.  -> (c,), (c, 5)

        An edge that comes must not be there, one that goes must be.
        """
        us, vs, adds = int64(us), int64(vs), np.ascontiguousarray(adds, np.uint8)
        if not is_native(self.targets):
            return self._edit_plainly(us, vs, adds)
        touched, changed, kept, scratch, flags = self._work
        ends, done = np.array([self.used, 0]), 0
        rows = self.starts, self.degrees, self.triangles, self.cycles, self.core
        while done < len(us):
            self._make_room(int(self.degrees[us[done]] + self.degrees[vs[done]]) + 2)
            done = call(
                "edit_edges", self.targets, len(self.targets), self.extra, len(self.extra), *rows, us, vs, adds, done,
                len(us), touched, changed, kept, ends, scratch, flags, self.capacity, index=self.targets,
            )  # fmt: skip
            self.used = int(ends[0])
        nodes = changed[: ends[1]].copy()
        touched[nodes] = 0
        return nodes, kept[: ends[1]].copy()

    def _edit_plainly(self, us: Ints, vs: Ints, adds: Bytes) -> tuple[Ints, Ints]:
        """`edit` without the library: rows are written one by one, and all is counted anew."""
        before = self._numbers().copy()
        for u, v, add in zip(us.tolist(), vs.tolist(), adds.tolist(), strict=True):
            for here, there in ((u, v), (v, u)):
                row = np.union1d(self._row(here), [there]) if add else np.setdiff1d(self._row(here), [there])
                self._make_room(len(row))
                self.extra[self.used : self.used + len(row)] = row
                self.starts[here], self.degrees[here] = len(self.targets) + self.used, len(row)
                self.used += len(row)
        graph = self.lists(np.arange(self.capacity))
        self.triangles[:], self.cycles[:], self.core[:] = structure.counts_of_nodes(*graph)
        nodes = np.flatnonzero((before != self._numbers()).any(1))
        return nodes, before[nodes]

    def _numbers(self) -> Ints:
        return np.stack([self.degrees, self.triangles, self.cycles, self.core, self.starts], 1)

    def undo(self, nodes: Ints, kept: Ints, used: int) -> None:
        """Take back what `edit` did: the nodes it gave, what those were, and `used` as it was before."""
        for column, array in enumerate((self.degrees, self.triangles, self.cycles, self.core, self.starts)):
            array[nodes] = kept[:, column]
        self.used = used

    def _make_room(self, entries: int) -> None:
        if self.used + entries > len(self.extra):
            larger = np.empty(2 * len(self.extra) + entries + 1024, self.extra.dtype)
            larger[: self.used] = self.extra[: self.used]
            self.extra = larger

    def put_rows(self, nodes: Ints, offsets: Ints, targets: Ints) -> None:
        """Give nodes new rows, which lie one after the other, without counting anything."""
        self._make_room(len(targets))
        self.extra[self.used : self.used + len(targets)] = targets
        self.starts[nodes] = len(self.targets) + self.used + offsets[:-1]
        self.degrees[nodes] = np.diff(offsets)
        self.used += len(targets)

    def grow(self, capacity: int) -> None:
        """Make room for more nodes, which have no neighbours yet."""
        for name in ("starts", "degrees", "triangles", "cycles", "core"):
            larger = np.zeros(capacity, np.int64)
            larger[: len(getattr(self, name))] = getattr(self, name)
            setattr(self, name, larger)
        self.__post_init__()
