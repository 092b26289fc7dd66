"""Compressed rows of numbered edges, written one stripe of rows at a time, into memory or into a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from rae.graph.id_numbering import Lookup, Report, index_type
from rae.ops import build
from rae.runtime import threads
from rae.storage.atomic import writing
from rae.storage.spill_buffer import Array, SpillBuffer

ROW_BITS = 13  # a stripe has 2**13 rows: so few that its entries are sorted within the cache
PIECE = 1 << 23  # entries that a thread sorts at a time, at most, unless a single row has more
DIGIT = 12  # bits sorted by in one pass, at most: counters that fit the nearest cache
HUGE_PAGES = 1 << 23  # bytes of a reused buffer, at least: NumPy then asks for huge pages, which are faster

Piece = tuple[int, int, int]  # a stripe, and the first and last of its rows
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Counts:
    """What was done to the edges on the way in: rows = self_loops + doubled + n_edges."""

    rows: int = 0
    self_loops: int = 0
    doubled: int = 0

    def __str__(self) -> str:
        return f"{self.rows:,} rows read, {self.doubled:,} doubled merged, {self.self_loops:,} self-loops dropped"


class RowSink(Protocol):
    """Where the entries of the rows go, in order."""

    def open(self, kind: Any, most: int) -> None:
        """Prepare for entries of this type, `most` of them at most."""

    def append(self, entries: Array) -> None:
        """Take the next entries."""

    def close(self) -> None:
        """The last entries were appended."""


class MemorySink:
    """Entries in one array in memory: `targets`, once it is closed."""

    def __init__(self) -> None:
        self.targets, self._length = np.empty(0, np.int32), 0

    def open(self, kind: Any, most: int) -> None:
        self.targets, self._length = np.empty(most, kind), 0

    def append(self, entries: Array) -> None:
        self.targets[self._length : self._length + len(entries)] = entries
        self._length += len(entries)

    def close(self) -> None:
        self.targets.resize(self._length, refcheck=False)  # gives back what doubled edges would have taken


class FileSink:
    """Entries in a one-dimensional .npy file, whose length is known at the end."""

    def __init__(self, path: Path) -> None:
        self._path, self._kind, self._length = path, np.dtype(np.int32), 0

    def open(self, kind: Any, most: int) -> None:
        self._kind = np.dtype(kind)
        with writing(self._path):
            self._file = self._path.open("wb")
            self._write_header()

    def append(self, entries: Array) -> None:
        with writing(self._path):
            self._file.write(entries.view(np.uint8).data)  # `tofile` does not say why it fails
        self._length += len(entries)

    def close(self) -> None:
        with writing(self._path), self._file:
            self._file.seek(0)
            self._write_header()  # as long as the first: NumPy leaves room for the length

    def _write_header(self) -> None:
        header = {"descr": self._kind.str, "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, header)


@dataclass
class StripeKeys:
    """Both ends of every edge as keys (see `rae.ops.build`), in each batch stripe after stripe."""

    keys: SpillBuffer
    stripe_ends: list[Array] = field(default_factory=list)  # of each batch, where its stripes end
    self_loops: int = 0

    def stripe(self, s: int) -> list[Array]:
        """The keys of the rows of a stripe, batch by batch."""
        cuts = [(int(ends[s - 1]) if s else 0, int(ends[s])) for ends in self.stripe_ends]
        return [self.keys.part(i, a, b) for i, (a, b) in enumerate(cuts) if a < b]

    def stripe_sizes(self) -> Array:
        """The number of keys in each stripe."""
        sizes = np.sum(self.stripe_ends, axis=0) if len(self.stripe_ends) > 1 else self.stripe_ends[0].copy()
        sizes[1:] -= sizes[:-1].copy()
        return sizes


def write_rows(
    ends: SpillBuffer, rows: int, lookup: Lookup, n: int, sink: RowSink, report: Report
) -> tuple[Array, Counts]:
    """The offsets of n rows, whose entries go to the sink, and what was merged and dropped; `ends` is cleared.

    `ends` holds the ends of so many `rows` of an edge table, `lookup` numbers them.
    """
    keys = _to_stripes(ends, lookup, n, report)
    offsets = np.zeros(n + 1, np.int64)
    pieces = list(_pieces(keys, n))
    sink.open(index_type(n), 2 * (rows - keys.self_loops))
    try:
        placed = _in_order(lambda piece, space: _place(keys, piece, n, offsets, space), pieces)
        for i, entries in enumerate(placed):
            sink.append(entries)
            report("place", i + 1, len(pieces))
    finally:
        sink.close()
    ends.clear()
    np.cumsum(offsets, out=offsets)
    return offsets, Counts(rows, keys.self_loops, rows - keys.self_loops - int(offsets[-1]) // 2)


def _to_stripes(ends: SpillBuffer, lookup: Lookup, n: int, report: Report) -> StripeKeys:
    """The keys of all edges, by stripes, in the memory of the ends they are made of."""
    out, batches = StripeKeys(ends), len(ends)

    def deal(i: int, space: Space) -> tuple[Array, int]:
        batch = ends.part(i)
        codes = space.array("codes", len(batch), index_type(n))
        lookup(batch, codes)
        half = len(batch) // 2
        stripe_ends = np.zeros(-(-n >> ROW_BITS), np.int64)
        self_loops = build.deal(codes[:half], codes[half:], ROW_BITS, stripe_ends, batch)
        return stripe_ends, int(self_loops)

    for i, (stripe_ends, self_loops) in enumerate(_in_order(deal, range(batches))):
        out.stripe_ends.append(stripe_ends)
        out.self_loops += self_loops
        report("number", batches + i + 1, 2 * batches)
    return out


class Space:
    """Buffers that are reused, since fresh memory costs as much as the work that is done in it."""

    def __init__(self, smallest: int = HUGE_PAGES) -> None:
        self._smallest, self._buffers = smallest, dict[str, Array]()

    def array(self, name: str, length: int, kind: Any) -> Array:
        """An uninitialised array."""
        size = length * np.dtype(kind).itemsize
        if name not in self._buffers or len(self._buffers[name]) < size:
            self._buffers[name] = np.empty(max(size + size // 4, self._smallest), np.uint8)
        return self._buffers[name][:size].view(kind)


def _in_order(work: Callable[[S, Space], T], items: Sequence[S]) -> Iterator[T]:
    """work(item, space) of each item, in order, while threads work on the next ones.

    A result may lie in its space, which is reused when the next result is asked for.
    """
    if len(items) <= 1 or threads() == 1:
        space = Space(HUGE_PAGES if len(items) > 1 else 0)
        yield from (work(item, space) for item in items)
        return
    free, running = [Space() for _ in range(threads() + 1)], deque[tuple[Future[T], Space]]()
    with ThreadPoolExecutor(threads()) as pool:
        for item in items:
            space = free.pop()
            running.append((pool.submit(work, item, space), space))
            if not free:
                yield running[0][0].result()
                free.append(running.popleft()[1])
        for future, _ in running:
            yield future.result()


def _pieces(keys: StripeKeys, n: int) -> Iterator[Piece]:
    """Stripes, cut into runs of rows with at most `PIECE` entries; a row that has more is alone."""
    for s, size in enumerate(keys.stripe_sizes() if len(keys.keys) else []):
        rows = min(1 << ROW_BITS, n - (s << ROW_BITS))
        if size <= PIECE:
            yield s, 0, rows
            continue
        lengths = np.zeros(rows + 1, np.int64)
        for batch in keys.stripe(s):
            batch.sort()  # so that the rows of a piece stand together
            lengths[1:] += np.bincount(batch >> build.ROW, minlength=rows)
        for a, b in row_runs(np.cumsum(lengths), PIECE):
            yield s, a, b


def _place(keys: StripeKeys, piece: Piece, n: int, offsets: Array, space: Space) -> Array:
    """The entries of a piece's rows, sorted, each neighbour once; offsets[u + 1] becomes the length of row u."""
    s, first, last = piece
    start = s << ROW_BITS
    batches = keys.stripe(s)
    if last - first < min(1 << ROW_BITS, n - start):
        low, high = first << build.ROW, last << build.ROW
        batches = [batch[slice(*np.searchsorted(batch, [low, high]))] for batch in batches]
    by_neighbor = _sorted_by_neighbor(batches, n, space)
    entries = space.array("entries", len(by_neighbor), index_type(n))
    cursor, lengths = np.zeros(last - first, np.int64), offsets[start + first + 1 : start + last + 1]
    return entries[: build.fill_rows(by_neighbor, first, cursor, lengths, entries)]


def _sorted_by_neighbor(batches: list[Array], n: int, space: Space) -> Array:
    """The keys in one array, neighbours ascending: a radix sort, the last digit first."""
    count = sum(map(len, batches))
    keys, spare = space.array("keys", count, np.int64), space.array("spare", count, np.int64)
    if batches:
        np.concatenate(batches, out=keys)
    bits = max(1, (n - 1).bit_length())
    width = -(-bits // -(-bits // DIGIT))  # as many passes as needed, of equally many bits
    cursor = space.array("cursor", 1 << width, np.int64)
    for shift in range(0, bits, width):
        build.sort_digit(keys, shift, cursor, spare)
        keys, spare = spare, keys
    return keys


def row_runs(offsets: Array, most: int) -> Iterator[tuple[int, int]]:
    """Runs of rows with at most so many entries; a row that has more is alone."""
    a, n = 0, len(offsets) - 1
    while a < n:
        b = int(np.searchsorted(offsets, offsets[a] + most, "right")) - 1
        b = min(max(b, a + 1), n)
        yield a, b
        a = b
