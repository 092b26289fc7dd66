"""A graph that is edited in place: its rows and their weights, and counts of cycles and cores that follow each edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rae.ops import structure
from rae.ops.library import address, call, int64, is_native
from rae.runtime import in_ranges

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]
Longs = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Floats = np.ndarray[Any, np.dtype[np.float32]]

COUNTS_PER_NODE = 5  # numbers of a node that are saved before it changes, KEPT in edits.c
MANY = 1 << 15  # row numbers
GOES, COMES, CHANGES = 0, 1, 2  # edits of an edge, as in edits.c; CHANGES are of its weights


@dataclass
class EditedRows:
    """Rows of neighbours that change edge by edge, and per node triangles, 4-cycles and core number.

    Rows lie in `targets`, which is only read, or in `extra`, where changed rows are written: row u from
    starts[u] on, `extra` coming after `targets`, degrees[u] entries, ascending. Each of the `channels` has a weight for
    every entry of `targets`, and a row of `extra_weights` one for every entry of `extra`. Arrays of nodes have room for
    `capacity` of them.
    """

    targets: Ints
    extra: Ints
    used: int  # entries of `extra`
    starts: Ints
    degrees: Ints
    triangles: Ints
    cycles: Ints
    core: Ints
    channels: Sequence[Floats] = ()
    extra_weights: Floats = field(init=False)  # (channels, as many as `extra`)
    _marks: Bytes = field(init=False)
    _near: Ints = field(init=False)
    _work: tuple[Any, ...] = field(init=False)
    _bases: Any = field(init=False)  # where each channel begins
    _arguments: Any = field(init=False, default=None)  # the cache of `_rows_of`

    @classmethod
    def of(cls, graph: Any, capacity: int, counts: Sequence[Any] = ()) -> EditedRows:
        """The rows of a graph with room for so many nodes; `counts` are its triangles, 4-cycles and core numbers."""

        def roomy(values: Any) -> Ints:
            out = np.zeros(capacity, np.int64)
            out[: len(values)] = values
            return out

        numbers = [roomy(values) for values in counts] or [np.zeros(capacity, np.int64) for _ in range(3)]
        extra, channels = np.empty(0, graph.targets.dtype), tuple(graph.channels.values())
        starts, degrees, (triangles, cycles, core) = roomy(graph.offsets[:-1]), roomy(graph.degrees), numbers
        return cls(graph.targets, extra, 0, starts, degrees, triangles, cycles, core, channels)

    def __post_init__(self) -> None:
        self.extra_weights = np.empty((len(self.channels), len(self.extra)), np.float32)
        self._bases = np.array([address(channel) for channel in self.channels], np.uint64) if self.channels else None
        self._make_workspace()

    def _make_workspace(self) -> None:
        n = len(self.starts)
        self._marks, self._near = np.zeros(n, np.uint8), np.empty(n, np.int64)
        # touched, changed, kept, scratch, flags: memory is taken where it is written
        self._work = (
            *(np.zeros(n, np.uint8), np.empty(n, np.int64), np.empty((n, COUNTS_PER_NODE), np.int64)),
            *(np.zeros(5 * n, np.int64), np.zeros(2 * n, np.uint8)),
        )

    @property
    def _rows_of(self) -> tuple[int, ...]:
        """The arrays of the rows as arguments of the library, cached."""
        if self._arguments is None:
            first, *others = map(address, (self.targets, self.extra, self.starts, self.degrees))
            self._arguments = first, len(self.targets), *others
        arguments: tuple[int, ...] = self._arguments
        return arguments

    @property
    def capacity(self) -> int:
        return len(self.starts)

    def lists(self, nodes: Any) -> tuple[Ints, Ints]:
        """The neighbours of these nodes, one row after the other.  (b,) -> offsets (b + 1,), rows"""
        nodes = int64(nodes)
        offsets = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum(self.degrees[nodes], out=offsets[1:])
        return offsets, self._entries(self.targets, self.extra, nodes, offsets)

    def weights(self, channel: int, nodes: Any, offsets: Ints) -> Floats:
        """The weights in a channel of the entries that `lists` gives for these nodes, with these offsets."""
        numbers = self.channels[channel].view(np.int32), self.extra_weights[channel].view(np.int32)
        weights: Floats = self._entries(*numbers, int64(nodes), offsets).view(np.float32)
        return weights

    def _entries(self, base: Any, extra: Any, nodes: Ints, offsets: Ints) -> Any:
        """What two arrays, one after the other, have for the rows of these nodes."""
        if not is_native(base):
            return np.concatenate([base[:0], *(self._row(base, extra, int(u)) for u in nodes)])
        out = np.empty(int(offsets[-1]), base.dtype)
        rows_of = (base, len(base), extra, self.starts)
        in_ranges(lambda a, b: call("list_rows", *rows_of, nodes, offsets, out, a, b, index=out), len(nodes), 4096)
        return out

    def _row(self, base: Any, extra: Any, u: int) -> Any:
        start = int(self.starts[u])
        whole, start = (base, start) if start < len(base) else (extra, start - len(base))
        return whole[start : start + int(self.degrees[u])]

    def values(self, us: Any, vs: Any) -> tuple[Any, Floats]:
        """Whether each pair of nodes shares an edge, and its weights as seen from the first.  -> (b,), (b, channels)"""
        us, vs = int64(us), int64(vs)
        offsets, targets = self.lists(us)
        pair = np.repeat(np.arange(len(us)), np.diff(offsets))
        at = np.flatnonzero(targets == vs[pair])
        there, out = np.zeros(len(us), bool), np.zeros((len(us), len(self.channels)), np.float32)
        there[pair[at]] = True
        for channel in range(len(self.channels)):
            out[pair[at], channel] = self.weights(channel, us, offsets)[at]
        return there, out

    def spread(self, *groups: Any, also: Any = ()) -> Longs:
        """The neighbours of these nodes, and the nodes of `also`, each once, ascending."""
        marks, count = self._marks, 0
        own = np.unique(int64(also))
        marks[own] = 1
        if is_native(self.targets):
            for nodes in map(int64, groups):
                room = self._near[count:]
                count += call("spread_rows", *self._rows_of, nodes, len(nodes), marks, room, index=self.targets)
            near = self._near[:count]
        else:
            near = np.unique(np.concatenate([own[:0], *(self.lists(nodes)[1] for nodes in groups)]))
            near = near[marks[near] == 0]
        out = np.sort(np.concatenate([own, near]))
        marks[out] = 0
        return out

    def edit(self, us: Any, vs: Any, edits: Any, values: Any = None) -> tuple[Ints, Ints]:
        """Remove, add or change edges, in this order; the nodes whose numbers may have changed, and the numbers before.

        -> (c,), (c, 5). An edge to add must not exist, one to remove or change must. `values` are the
        weights of added and changed ones, as seen from the first node and from the second: (e, 2, channels).
        """
        us, vs, edits = int64(us), int64(vs), np.ascontiguousarray(edits, np.uint8)
        values = None if not self.channels else np.ascontiguousarray(values, np.float32)
        if not is_native(self.targets):
            return self._edit_plainly(us, vs, edits, values)
        touched, changed, before, scratch, flags = self._work
        ends, start = np.array([self.used, 0]), 0
        rows = self.starts, self.degrees, self.triangles, self.cycles, self.core
        while start < len(us):
            self._make_room(int(self.degrees[us[start]] + self.degrees[vs[start]]) + 2)
            weights = (self._bases, self.extra_weights, values) if self.channels else (None, None, None)
            start = call(
                "edit_edges", self.targets, len(self.targets), self.extra, len(self.extra), *rows, us, vs, edits, start,
                len(us), touched, changed, before, ends, scratch, flags, self.capacity, *weights, len(self.channels),
                index=self.targets,
            )  # fmt: skip
            self.used = int(ends[0])
        nodes = changed[: ends[1]].copy()
        touched[nodes] = 0
        return nodes, before[: ends[1]].copy()

    def _edit_plainly(self, us: Ints, vs: Ints, edits: Bytes, values: Any) -> tuple[Ints, Ints]:
        """`edit` without the library: rows are written again, and everything is counted again."""
        before = self._numbers().copy()
        self.replace(us, vs, edits, values)
        graph = self.lists(np.arange(self.capacity))
        self.triangles[:], self.cycles[:], self.core[:] = structure.counts_of_nodes(*graph)
        nodes = np.flatnonzero((before != self._numbers()).any(1))
        return nodes, before[nodes]

    def replace(self, us: Any, vs: Any, edits: Any, values: Any = None) -> None:
        """Apply edits to the rows without counting anything; the last edit of an edge counts."""
        us, vs, edits = int64(us), int64(vs), np.asarray(edits)
        nodes, there = np.unique(np.concatenate([us, vs])), len(self.channels)
        offsets, targets = self.lists(nodes)
        weights = [self.weights(channel, nodes, offsets) for channel in range(there)]
        old = np.stack([np.repeat(nodes, np.diff(offsets)), targets], 1).astype(np.int64)
        new = np.concatenate([np.stack([us, vs], 1), np.stack([vs, us], 1)])
        added = np.zeros((2 * len(us), 0), np.float32) if not there else np.concatenate([values[:, 0], values[:, 1]])
        entries = np.concatenate([old, new])
        numbers = np.concatenate([np.stack(weights, 1) if there else np.zeros((len(old), 0), np.float32), added])
        stays = np.concatenate([np.ones(len(old), bool), np.tile(edits != GOES, 2)])
        order = np.lexsort((np.arange(len(entries)), entries[:, 1], entries[:, 0]))
        entries, numbers, stays = entries[order], numbers[order], stays[order]
        last = np.append((entries[1:] != entries[:-1]).any(1), True)[: len(entries)]  # of each edge
        entries, numbers = entries[last & stays], numbers[last & stays]
        lengths = np.bincount(np.searchsorted(nodes, entries[:, 0]), minlength=len(nodes))
        self.put_rows(nodes, np.concatenate([[0], np.cumsum(lengths)]), entries[:, 1], numbers.T)

    def _numbers(self) -> Ints:
        return np.stack([self.degrees, self.triangles, self.cycles, self.core, self.starts], 1)

    def undo(self, nodes: Ints, before: Ints, used: int) -> None:
        """Undo `edit`, by the nodes and numbers that it returned, and `used` as it was before."""
        for column, array in enumerate((self.degrees, self.triangles, self.cycles, self.core, self.starts)):
            array[nodes] = before[:, column]
        self.used = used

    def _make_room(self, entries: int) -> None:
        if self.used + entries > len(self.extra):
            larger = np.empty(2 * len(self.extra) + entries + 1024, self.extra.dtype)
            larger[: self.used] = self.extra[: self.used]
            weights = np.empty((len(self.channels), len(larger)), np.float32)
            weights[:, : self.used] = self.extra_weights[:, : self.used]
            self.extra, self.extra_weights, self._arguments = larger, weights, None

    def put_rows(self, nodes: Ints, offsets: Ints, targets: Ints, weights: Any = ()) -> None:
        """Give nodes new rows, which lie one after the other, with their weights, without counting anything."""
        self._make_room(len(targets))
        self.extra[self.used : self.used + len(targets)] = targets
        for channel, numbers in zip(self.extra_weights, weights, strict=True):
            channel[self.used : self.used + len(targets)] = numbers
        self.starts[nodes] = len(self.targets) + self.used + offsets[:-1]
        self.degrees[nodes] = np.diff(offsets)
        self.used += len(targets)

    def grow(self, capacity: int) -> None:
        """Make room for more nodes, which have no neighbours yet."""
        for name in ("starts", "degrees", "triangles", "cycles", "core"):
            larger = np.zeros(capacity, np.int64)
            larger[: len(getattr(self, name))] = getattr(self, name)
            setattr(self, name, larger)
        self._arguments = None
        self._make_workspace()


def written(table: Floats, rows: Longs, values: Any) -> tuple[Longs, Floats]:
    """The rows whose bytes changed, and their old values, after rows of a table were written.  -> (c,), (c, columns)"""
    values = np.ascontiguousarray(values, np.float32)
    if is_native(table):
        changed, old = np.empty(len(rows), np.int64), np.empty(values.shape, np.float32)
        count = call("write_rows", table, table.shape[1], int64(rows), len(rows), values, changed, old)
        return changed[:count], old[:count]
    old = table[rows]
    different = (old.view(np.int32) != values.view(np.int32)).any(1)
    table[rows[different]] = values[different]
    return rows[different], old[different]


def union(*groups: Longs) -> Longs:
    """The row numbers that are in some of these groups, each once, ascending."""
    rows: Longs = np.concatenate([np.empty(0, np.int64), *groups])
    if len(rows) < MANY:
        return np.unique(rows)
    marks = np.zeros(int(rows.max()) + 1, bool)  # sorting or hashing so many takes longer
    marks[rows] = True
    return np.flatnonzero(marks)
