"""Compressed rows of numbered edges, written one stripe of rows at a time, into memory or into a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from rae.errors import GraphError
from rae.graph.id_numbering import Lookup, Report, index_type
from rae.memory import row_runs
from rae.ops import build
from rae.runtime import run_ahead, threads
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
    """Counts of the rows of an edge table: rows = self_loops + doubled + zeros + outside + edges.

    Where a graph keeps directions or kinds, rows of another one are not doubled, though `n_edges` counts their pair
    once: the sum then misses the rows that connect a pair again.
    """

    rows: int = 0
    self_loops: int = 0
    doubled: int = 0
    zeros: int = 0  # rows whose weight is 0
    outside: int = 0  # rows whose time is outside the window

    def __str__(self) -> str:
        text = f"{self.rows:,} rows read, {self.doubled:,} doubled merged, {self.self_loops:,} self-loops dropped"
        text += f", {self.zeros:,} of weight 0 dropped" if self.zeros else ""
        return text + (f", {self.outside:,} of another time left out" if self.outside else "")

    def as_dict(self) -> dict[str, int]:
        """The counts by name, without those that only some tables have where they are 0."""
        return {
            name: count for name, count in dataclasses.asdict(self).items() if count or name not in ("zeros", "outside")
        }


class RowSink(Protocol):
    """Where the entries of the rows go, in order."""

    def open(self, kind: Any, most: int, channels: int = 0) -> None:
        """Prepare for entries of this type, `most` of them at most, with so many weights each."""

    def append(self, entries: Array, weights: Array | None = None) -> None:
        """Take the next entries, and their weights in each channel."""

    def close(self) -> None:
        """The last entries were appended."""


class MemorySink:
    """Entries in one array in memory: `targets`, once it is closed; and `channels`, one array each."""

    def __init__(self) -> None:
        self.targets, self._length = np.empty(0, np.int32), 0
        self.channels: list[Array] = []

    def open(self, kind: Any, most: int, channels: int = 0) -> None:
        self.targets, self._length = np.empty(most, kind), 0
        self.channels = [np.empty(most, np.float32) for _ in range(channels)]

    def append(self, entries: Array, weights: Array | None = None) -> None:
        end = self._length + len(entries)
        self.targets[self._length : end] = entries
        for channel, values in zip(self.channels, () if weights is None else weights, strict=True):
            channel[self._length : end] = values
        self._length = end

    def close(self) -> None:
        for array in (self.targets, *self.channels):
            array.resize(self._length, refcheck=False)  # frees the memory reserved for doubled edges


class ArrayFile:
    """A one-dimensional .npy file, whose length is known at the end."""

    def __init__(self, path: Path, kind: Any) -> None:
        self._path, self._kind, self._length = path, np.dtype(kind), 0
        with writing(self._path):
            self._file = self._path.open("wb")
            self._write_header()

    def append(self, values: Array) -> None:
        """Write the next values."""
        with writing(self._path):
            self._file.write(values.view(np.uint8).data)  # `tofile` hides why it fails
        self._length += len(values)

    def close(self) -> None:
        """Write the length, and close the file."""
        with writing(self._path), self._file:
            self._file.seek(0)
            self._write_header()  # as long as the first: NumPy leaves room for the length

    def _write_header(self) -> None:
        header = {"descr": self._kind.str, "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, header)


def channel_file(number: int) -> str:
    """The name of the file of a channel."""
    return f"channel-{number:02}.npy"


class FileSink:
    """Entries in one .npy file, and each channel in one beside it."""

    def __init__(self, path: Path) -> None:
        self._path, self._files = path, list[ArrayFile]()

    def open(self, kind: Any, most: int, channels: int = 0) -> None:
        self._files = [ArrayFile(self._path, kind)]
        for number in range(channels):
            self._files.append(ArrayFile(self._path.with_name(channel_file(number)), np.float32))

    def append(self, entries: Array, weights: Array | None = None) -> None:
        for file, values in zip(self._files, (entries, *(() if weights is None else weights)), strict=True):
            file.append(np.ascontiguousarray(values))

    def close(self) -> None:
        for file in self._files:
            file.close()


@dataclass(frozen=True)
class EdgeWeights:
    """Weights and kinds of buffered edges: for each batch of ends an array of its weights, then its kinds (float32)."""

    values: SpillBuffer
    kinds: Array  # (kinds,) the place of each kind among the sorted ones
    directions: int
    channels: int
    largest: bool  # whether of doubled edges the largest weight stays; else they are added


@dataclass
class StripeKeys:
    """Both ends of every edge as keys (see `rae.ops.build`), in each batch stripe after stripe, with their weights."""

    keys: SpillBuffer
    weights: SpillBuffer | None = None
    channels: int = 0
    stripe_ends: list[Array] = field(default_factory=list)  # of each batch, where its stripes end
    self_loops: int = 0

    def stripe(self, s: int) -> list[tuple[Array, Array | None]]:
        """The keys of the rows of a stripe and their weights, batch by batch."""
        cuts = [(int(ends[s - 1]) if s else 0, int(ends[s])) for ends in self.stripe_ends]
        return [
            (self.keys.part(i, a, b), None if self.weights is None else self.weights.part(i, a, b))
            for i, (a, b) in enumerate(cuts)
            if a < b
        ]

    def stripe_sizes(self) -> Array:
        """The number of keys in each stripe."""
        sizes = np.sum(self.stripe_ends, axis=0) if len(self.stripe_ends) > 1 else self.stripe_ends[0].copy()
        sizes[1:] -= sizes[:-1].copy()
        return sizes


def write_rows(
    ends: SpillBuffer,
    rows: int,
    lookup: Lookup,
    n: int,
    sink: RowSink,
    report: Report,
    weights: EdgeWeights | None = None,
) -> tuple[Array, Counts]:
    """The offsets of n rows, whose entries go to the sink, and what was merged and dropped; `ends` is cleared.

    `ends` holds the ends of so many `rows` of an edge table, `lookup` numbers them; `weights` those of its edges.
    """
    keys = _to_stripes(ends, lookup, n, report, weights)
    offsets, edges = np.zeros(n + 1, np.int64), 0
    pieces = list(_pieces(keys, n))
    sink.open(index_type(n), 2 * (rows - keys.self_loops), 0 if weights is None else weights.channels)
    try:
        placed = _in_order(lambda piece, space: _place(keys, piece, n, offsets, space, weights), pieces)
        for i, (entries, values, slots) in enumerate(placed):
            sink.append(entries, values)
            edges += slots
            report("place", i + 1, len(pieces))
    finally:
        sink.close()
    ends.clear()
    if weights is not None:
        weights.values.clear()
    np.cumsum(offsets, out=offsets)
    return offsets, Counts(rows, keys.self_loops, rows - keys.self_loops - edges // 2)


def _to_stripes(
    ends: SpillBuffer, lookup: Lookup, n: int, report: Report, weights: EdgeWeights | None = None
) -> StripeKeys:
    """The keys of all edges, by stripes, in the memory of the ends they are made of; weights in that of theirs."""
    out = StripeKeys(ends) if weights is None else StripeKeys(ends, weights.values, weights.channels)
    batches = len(ends)

    def deal(i: int, space: Space) -> tuple[Array, int]:
        batch = ends.part(i)
        codes = space.array("codes", len(batch), index_type(n))
        lookup(batch, codes)
        half = len(batch) // 2
        stripe_ends = np.zeros(-(-n >> ROW_BITS), np.int64)
        if weights is None:
            self_loops = build.deal(codes[:half], codes[half:], ROW_BITS, stripe_ends, batch)
            return stripe_ends, int(self_loops)
        values = weights.values.part(i)
        copy = space.array("values", len(values), np.float32)
        copy[:half], copy[half:] = values[:half], weights.kinds[values[half:].astype(np.int64)]
        self_loops = build.deal_weighted(
            *(codes[:half], codes[half:], copy[:half], copy[half:], weights.directions),
            *(ROW_BITS, stripe_ends, batch, values),
        )
        return stripe_ends, int(self_loops)

    for i, (stripe_ends, self_loops) in enumerate(_in_order(deal, range(batches))):
        out.stripe_ends.append(stripe_ends)
        out.self_loops += self_loops
        report("number", batches + i + 1, 2 * batches)
    return out


class Space:
    """Buffers that are reused, since fresh memory costs as much as the work done in it."""

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
    if len(items) <= 1:
        yield from (work(item, Space(0)) for item in items)
        return
    free = [Space() for _ in range(threads() + 1)]  # one per thread, and one whose result is in use

    def in_free_space(item: S) -> tuple[T, Space]:
        space = free.pop()
        return work(item, space), space

    for result, space in run_ahead(in_free_space, items, threads()):
        yield result
        free.append(space)


def _pieces(keys: StripeKeys, n: int) -> Iterator[Piece]:
    """Stripes, cut into runs of rows with at most `PIECE` numbers, weights too; a row that has more is alone."""
    most = max(1, PIECE // (1 + keys.channels))
    for s, size in enumerate(keys.stripe_sizes() if len(keys.keys) else []):
        rows = min(1 << ROW_BITS, n - (s << ROW_BITS))
        if size <= most:
            yield s, 0, rows
            continue
        lengths = np.zeros(rows + 1, np.int64)
        for batch, weights in keys.stripe(s):
            if weights is None:
                batch.sort()  # so that the rows of a piece stand together
            else:
                order = np.argsort(batch >> build.ROW, kind="stable")
                batch[:], weights[:] = batch[order], weights[order]
            lengths[1:] += np.bincount(batch >> build.ROW, minlength=rows)
        for a, b in row_runs(np.cumsum(lengths), most):
            yield s, a, b


Placed = tuple[Array, Array | None, int]  # entries, their weights in each channel, and how many weights there are


def _place(
    keys: StripeKeys, piece: Piece, n: int, offsets: Array, space: Space, weights: EdgeWeights | None = None
) -> Placed:
    """The entries of a piece's rows, sorted, each neighbour once; offsets[u + 1] becomes the length of row u."""
    s, first, last = piece
    start = s << ROW_BITS
    batches = keys.stripe(s)
    if last - first < min(1 << ROW_BITS, n - start):
        batches = [_some_rows(batch, values, first, last) for batch, values in batches]
    cursor, lengths = np.zeros(last - first, np.int64), offsets[start + first + 1 : start + last + 1]
    if weights is None:
        by_neighbor, _, _ = _sorted_by_neighbor(batches, n, space)
        entries = space.array("entries", len(by_neighbor), index_type(n))
        size = build.fill_rows(by_neighbor, first, cursor, lengths, entries)
        return entries[:size], None, size
    by_neighbor, values, spare = _sorted_by_neighbor(batches, n, space, weighted=True)
    entries = space.array("entries", len(by_neighbor), index_type(n))
    out = space.array("weights", weights.channels * len(by_neighbor), np.float32).reshape(weights.channels, -1)
    size, slots = build.fill_weighted_rows(
        by_neighbor, values, first, cursor, lengths, spare, weights.largest, entries, out
    )
    if not np.isfinite(out[:, :size]).all():
        raise GraphError("the weights of doubled edges add up to more than 3.4e+38; give them in a larger unit")
    return entries[:size], out[:, :size], slots


def _some_rows(keys: Array, weights: Array | None, first: int, last: int) -> tuple[Array, Array | None]:
    """Of keys whose rows ascend, those of rows first to last, and their weights."""
    a, b = (
        np.searchsorted(keys, [first << build.ROW, last << build.ROW])
        if weights is None
        else (np.searchsorted(keys >> build.ROW, [first, last]))
    )
    return keys[a:b], None if weights is None else weights[a:b]


def _sorted_by_neighbor(
    batches: list[tuple[Array, Array | None]], n: int, space: Space, *, weighted: bool = False
) -> tuple[Array, Array, tuple[Array, Array]]:
    """The keys in one array, neighbours ascending, their weights, and spare arrays: a radix sort, last digit first."""
    count = sum(len(keys) for keys, _ in batches)
    keys, spare = space.array("keys", count, np.int64), space.array("spare", count, np.int64)
    number = count if weighted else 0
    weights, other = space.array("own", number, np.float32), space.array("other", number, np.float32)
    if batches:
        np.concatenate([batch for batch, _ in batches], out=keys)
    if batches and weighted:
        np.concatenate([values for _, values in batches if values is not None], out=weights)
    bits = max(1, (n - 1).bit_length())
    width = -(-bits // -(-bits // DIGIT))  # as many passes as needed, of equally many bits
    cursor = space.array("cursor", 1 << width, np.int64)
    for shift in range(0, bits, width):
        if weighted:
            build.sort_weighted_digit(keys, weights, shift + build.CHANNEL, cursor, spare, other)
            weights, other = other, weights
        else:
            build.sort_digit(keys, shift, cursor, spare)
        keys, spare = spare, keys
    return keys, weights, (spare, other)
