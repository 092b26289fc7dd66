"""Rows of a graph made a stripe at a time, so that only a stripe of them is in memory: placed, or renumbered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rae.graph import Counts
from rae.io.graphs import OFFSETS, TARGETS, write_array
from rae.io.spill import Array, Numbers, Report, index_type
from rae.kernels import build, cpu
from rae.runtime import in_ranges

MOVED = "moved.npy"
STRIPE = 1 << 26  # ends of edges in memory at a time: 256 MiB, and as much again while doubled ones are merged


def place(spilled: Numbers, n: int, folder: Path, report: Report) -> Counts:
    """Write offsets and targets; what was merged and dropped comes back."""
    kind = index_type(n)
    ends = np.zeros(n + 1, np.int64)
    loops = sum(int(cpu.count_ends(s, t, ends)) for s, t in spilled.codes(kind))
    offsets = np.cumsum(ends)
    kept = ends
    kept[0] = 0
    pieces = list(stripes(offsets))
    with GrowingArray(folder / TARGETS, kind) as targets:
        for i, (a, b) in enumerate(pieces):
            targets.append(_placed(spilled, offsets[a : b + 1], a, kept[a : b + 1], kind))
            report("place", i + 1, len(pieces))
    np.cumsum(kept, out=kept)
    write_array(folder / OFFSETS, kept)
    return Counts(spilled.rows, loops, spilled.rows - loops - int(kept[-1]) // 2)


def _placed(spilled: Numbers, offsets: Array, first: int, kept: Array, kind: Any) -> Array:
    """The rows of a stripe, sorted and each neighbour once; kept[i + 1] becomes the length of row i."""
    n, start = len(offsets) - 1, offsets[0]
    local = offsets - start
    rows = np.empty(int(local[-1]), kind)
    cursor = local[:-1].copy()
    for source, target in spilled.codes(kind):
        build.place_between(source, target, first, first + n, cursor, rows)
    lengths = np.zeros(n + 1, np.int64)
    in_ranges(lambda a, b: cpu.sort_rows(local, rows, lengths, a, b), n, 1024)
    kept[1:] = lengths[1:]
    new = np.cumsum(lengths)
    if new[-1] == local[-1]:
        return rows
    out = np.empty(int(new[-1]), kind)
    in_ranges(lambda a, b: cpu.compact_rows(local, new, rows, out, a, b), n, 1024)
    return out


def locality_order(graph_offsets: Array, targets: Array) -> Array:
    """The rows in an order that puts neighbours near each other: breadth first from the fewest neighbours.

    This is Cuthill and McKee's order but for the sorting of each node's neighbours by degree, which
    costs five times as much and gains a tenth.  -> (n,)
    """
    n = len(graph_offsets) - 1
    kind = index_type(n)
    starts = np.argsort(np.diff(graph_offsets), kind="stable").astype(kind)
    out = np.empty(n, kind)
    build.breadth_first(graph_offsets, targets, starts, np.zeros(n, np.bool_), out)
    return out


def reorder(folder: Path, ids: pa.Array, report: Report) -> pa.Array:
    """Renumber the rows of the folder by locality; their ids in the new order come back."""
    report("order", 0, 1)
    offsets, targets = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in (OFFSETS, TARGETS))
    order = locality_order(offsets, targets)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order), dtype=order.dtype)
    new = np.concatenate([[0], np.cumsum(np.diff(offsets)[order])])
    pieces = list(stripes(new))
    with GrowingArray(folder / MOVED, targets.dtype) as grown:
        for i, (a, b) in enumerate(pieces):
            grown.append(_relabelled(offsets, targets, order[a:b], rank, new[a : b + 1]))
            report("order", i + 1, len(pieces))
    (folder / MOVED).replace(folder / TARGETS)
    write_array(folder / OFFSETS, new)
    return ids.take(pa.array(order))


def _relabelled(offsets: Array, targets: Array, order: Array, rank: Array, starts: Array) -> Array:
    """The rows `order` of a graph, one after the other, their entries renumbered by `rank` and ascending."""
    out = np.empty(int(starts[-1] - starts[0]), targets.dtype)
    in_ranges(lambda a, b: build.relabel_rows(offsets, targets, order, rank, starts, out, a, b), len(order), 1024)
    return out


def stripes(offsets: Array) -> Iterator[tuple[int, int]]:
    """Runs of rows with at most `STRIPE` ends; a row that has more is alone."""
    a, n = 0, len(offsets) - 1
    while a < n:
        b = int(np.searchsorted(offsets, offsets[a] + STRIPE, "right")) - 1
        b = min(max(b, a + 1), n)
        yield a, b
        a = b


class GrowingArray:
    """A one-dimensional .npy file whose length is known at the end."""

    def __init__(self, path: Path, kind: Any) -> None:
        self._file, self._kind, self._length = path.open("wb"), np.dtype(kind), 0

    def __enter__(self) -> GrowingArray:
        self._head()
        return self

    def append(self, array: Array) -> None:
        array.tofile(self._file)
        self._length += len(array)

    def __exit__(self, *_: object) -> None:
        self._file.seek(0)
        self._head()  # as long as the first: NumPy leaves room for the length
        self._file.close()

    def _head(self) -> None:
        head = {"descr": self._kind.str, "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, head)
