"""Rows of a graph made a stripe at a time, so that only a few of them are in memory: placed, or renumbered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from rae.graph import Counts
from rae.graph.folder import OFFSETS, TARGETS, write_array
from rae.io.id_numbering import Look, Numbers, Report, index_type
from rae.ops import build
from rae.runtime import in_ranges, threads
from rae.storage.atomic import writing
from rae.storage.spill_buffer import Array, Held

MOVED = "moved.npy"
STRIPE = 1 << 26  # entries renumbered at a time: 256 MiB
ROW_BITS = 13  # rows of a stripe that is placed: so few that its entries are sorted within the cache
PIECE = 1 << 23  # entries that a thread sorts at a time, at most, unless a single row has more
DIGIT = 12  # bits sorted by in one pass, at most: counters that fit the nearest cache
LARGE = 1 << 23  # bytes of space taken at least: for so many NumPy asks for large pages, which are found faster

Piece = tuple[int, int, int]  # a stripe, and the first and last of its rows
S = TypeVar("S")
T = TypeVar("T")


@dataclass
class Dealt:
    """Both ends of every edge as keys (see `kernels.build`), in each batch stripe after stripe."""

    keys: Held
    ends: list[Array] = field(default_factory=list)  # of each batch, where its stripes end
    loops: int = 0

    def stripe(self, s: int) -> list[Array]:
        """The keys of the rows of a stripe, batch by batch."""
        cuts = [(int(ends[s - 1]) if s else 0, int(ends[s])) for ends in self.ends]
        return [self.keys.part(i, a, b) for i, (a, b) in enumerate(cuts) if a < b]


def place(spilled: Numbers, look: Look, n: int, folder: Path, report: Report) -> Counts:
    """Write offsets and targets; what was merged and dropped comes back, and what was spilled is gone."""
    dealt = _deal(spilled, look, n, report)
    offsets = np.zeros(n + 1, np.int64)
    pieces = list(_pieces(dealt, n))
    with GrowingArray(folder / TARGETS, index_type(n)) as targets:
        for i, rows in enumerate(_in_order(lambda piece, space: _placed(dealt, piece, n, offsets, space), pieces)):
            targets.append(rows)
            report("place", i + 1, len(pieces))
    dealt.keys.clear()
    np.cumsum(offsets, out=offsets)
    write_array(folder / OFFSETS, offsets)
    return Counts(spilled.rows, dealt.loops, spilled.rows - dealt.loops - int(offsets[-1]) // 2)


def _deal(spilled: Numbers, look: Look, n: int, report: Report) -> Dealt:
    """The edges, numbered and dealt to stripes, in the place of the ends that were spilled."""
    dealt, batches = Dealt(spilled.ends), len(spilled.ends)

    def deal(i: int, space: Space) -> tuple[Array, int]:
        ends = spilled.ends.part(i)
        codes = space.array("codes", len(ends), index_type(n))
        look(ends, codes)
        source, target = np.split(codes, 2)
        at = np.zeros(-(-n >> ROW_BITS), np.int64)
        loops = build.deal(source, target, ROW_BITS, at, ends)
        return at, int(loops)

    for i, (at, loops) in enumerate(_in_order(deal, range(batches))):
        dealt.ends.append(at)
        dealt.loops += loops
        report("number", batches + i + 1, 2 * batches)
    return dealt


class Space:
    """Memory that is used again and again, since fresh memory costs as much as the work that is done in it."""

    def __init__(self) -> None:
        self._bytes: dict[str, Array] = {}

    def array(self, name: str, length: int, kind: Any) -> Array:
        """An array with whatever was left in it."""
        size = length * np.dtype(kind).itemsize
        if name not in self._bytes or len(self._bytes[name]) < size:
            self._bytes[name] = np.empty(max(size + size // 4, LARGE), np.uint8)
        return self._bytes[name][:size].view(kind)


def _in_order(work: Callable[[S, Space], T], items: Iterable[S]) -> Iterator[T]:
    """What `work` makes of each item, one after the other, while as many threads as there are make the next ones.

    What is made may lie in the space that it was made in: that is used again when the next is asked for.
    """
    if threads() == 1:
        space = Space()
        yield from (work(item, space) for item in items)
        return
    free, made = [Space() for _ in range(threads() + 1)], deque[tuple[Future[T], Space]]()
    with ThreadPoolExecutor(threads()) as pool:
        for item in items:
            space = free.pop()
            made.append((pool.submit(work, item, space), space))
            if not free:
                yield made[0][0].result()
                free.append(made.popleft()[1])
        for future, _ in made:
            yield future.result()


def _pieces(dealt: Dealt, n: int) -> Iterator[Piece]:
    """Stripes with the rows first..last of them that have at most `PIECE` entries; a row that has more is alone."""
    entries = np.diff(np.sum(dealt.ends, axis=0), prepend=0)
    for s, count in enumerate(entries):
        rows = min(1 << ROW_BITS, n - (s << ROW_BITS))
        if count <= PIECE:
            yield s, 0, rows
            continue
        lengths = np.zeros(rows + 1, np.int64)
        for keys in dealt.stripe(s):
            keys.sort()  # so that the rows of a piece stand together
            lengths[1:] += np.bincount(keys >> build.ROW, minlength=rows)
        for a, b in stripes(np.cumsum(lengths), PIECE):
            yield s, a, b


def _placed(dealt: Dealt, piece: Piece, n: int, offsets: Array, space: Space) -> Array:
    """The rows of a piece, sorted and each neighbour once; row u has offsets[u + 1] of them."""
    s, first, last = piece
    start = s << ROW_BITS
    found = dealt.stripe(s)
    if last - first < min(1 << ROW_BITS, n - start):
        low, high = first << build.ROW, last << build.ROW
        found = [keys[slice(*np.searchsorted(keys, [low, high]))] for keys in found]
    keys = _by_neighbor(found, n, space)
    rows = space.array("rows", len(keys), index_type(n))
    ends, lengths = np.zeros(last - first, np.int64), offsets[start + first + 1 : start + last + 1]
    return rows[: build.fill_rows(keys, first, ends, lengths, rows)]


def _by_neighbor(found: list[Array], n: int, space: Space) -> Array:
    """The keys in one array, neighbours ascending: a radix sort, the last digit first."""
    count = sum(map(len, found))
    keys, spare = space.array("keys", count, np.int64), space.array("spare", count, np.int64)
    if found:
        np.concatenate(found, out=keys)
    bits = max(1, (n - 1).bit_length())
    width = -(-bits // -(-bits // DIGIT))  # as many passes as needed, of equally many bits
    cursor = space.array("cursor", 1 << width, np.int64)
    for shift in range(0, bits, width):
        build.sort_digit(keys, shift, cursor, spare)
        keys, spare = spare, keys
    return keys


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
    pieces = list(stripes(new, STRIPE))
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


def stripes(offsets: Array, most: int) -> Iterator[tuple[int, int]]:
    """Runs of rows with at most so many entries; a row that has more is alone."""
    a, n = 0, len(offsets) - 1
    while a < n:
        b = int(np.searchsorted(offsets, offsets[a] + most, "right")) - 1
        b = min(max(b, a + 1), n)
        yield a, b
        a = b


class GrowingArray:
    """A one-dimensional .npy file whose length is known at the end."""

    def __init__(self, path: Path, kind: Any) -> None:
        self._path, self._kind, self._length = path, np.dtype(kind), 0
        with writing(path):
            self._file = path.open("wb")

    def __enter__(self) -> GrowingArray:
        self._head()
        return self

    def append(self, array: Array) -> None:
        with writing(self._path):
            self._file.write(array.view(np.uint8).data)  # `tofile` does not say why it fails
        self._length += len(array)

    def __exit__(self, *_: object) -> None:
        with writing(self._path), self._file:
            self._file.seek(0)
            self._head()  # as long as the first: NumPy leaves room for the length

    def _head(self) -> None:
        head = {"descr": self._kind.str, "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, head)
