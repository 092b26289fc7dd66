"""Edges of any number, put away as they are read, and numbered: ids in, their places among all ids out.

When the last id is known they are numbered 0..n-1 in ascending order: by a table where whole numbers lie
close together, else by hashing; text by Arrow. Never a Python object per node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.graph.ids import is_text
from rae.io.edges import EdgeFile
from rae.io.tables import TEXT_KINDS, id_batches
from rae.io.text import NotPlain, TextTable
from rae.ops import build, cpu
from rae.runtime import in_ranges
from rae.storage.spill_buffer import Array, Held, Room

BATCH = 1 << 21  # edges put away, numbered and dealt at a time
CLOSE = 8  # whole numbers lie close together where their range is at most so many times the edges
ENDS = "ends.raw"

Report = Callable[[str, int, int], None]
Pieces = list[pa.Array]
Look = Callable[[Array, Array], object]


class Unusual(Exception):  # noqa: N818
    """Ids of a kind that is not numbered batch by batch."""


class Numbers:
    """Edges whose ids are whole numbers, put away as they are; numbered when the last one is known.

    Every later step overwrites the ends that it has read with what it makes of them, since fresh memory costs more
    than the work done in it: ids, by hashing also places by first appearance, then keys (see `stripes`).
    """

    def __init__(self, folder: Path, kind: pa.DataType, room: Room) -> None:
        self.folder, self.kind, self.room = folder, kind, room
        self.rows, self.low, self.high = 0, 0, 0
        self.ends = Held(folder / ENDS, room)

    def add(self, sources: Pieces, targets: Pieces) -> None:
        """Put the ends of a batch away, those of the sources first."""
        ends, at = np.empty(2 * sum(map(len, sources)), np.int64), 0
        for piece in (*sources, *targets):
            column = piece.to_numpy(zero_copy_only=False)
            low, high = int(column.min()), int(column.max())
            self.low, self.high = (min(self.low, low), max(self.high, high)) if self.rows or at else (low, high)
            ends[at : at + len(column)] = column.view(np.int64) if column.dtype == np.uint64 else column
            at += len(column)
        self.ends.add(ends)
        self.rows += len(ends) // 2

    def numbered(self, report: Report) -> tuple[pa.Array, Look]:
        """The ids, ascending, and what gives the numbers of a batch of `ends`."""
        close = self.high - self.low < CLOSE * self.rows + (1 << 16)
        ids, look = self._by_table(report) if close else self._by_hash(report)
        return pa.array(ids.view(np.uint64) if pa.types.is_uint64(self.kind) else ids).cast(self.kind), look

    def _by_table(self, report: Report) -> tuple[Array, Look]:
        present = np.zeros((self.high - self.low) // 64 * 64 + 64, np.bool_)
        base = np.array(self.low, np.uint64 if self.low >= 2**63 else np.int64).astype(np.int64)[()]
        in_ranges(lambda a, b: self._mark(base, present, a, b), len(self.ends))
        report("number", 1, 2)
        ids = np.flatnonzero(present)
        ids += base
        words = np.packbits(present, bitorder="little").view("<u8").astype(np.uint64, copy=False)
        before = np.cumsum(present.reshape(-1, 64).sum(1, dtype=np.uint8), dtype=index_type(len(ids)))
        before = np.concatenate([[before.dtype.type(0)], before[:-1]])
        return ids, lambda ends, out: build.look_up(ends, base, before, words, out)

    def _mark(self, base: Any, present: Array, start: int, stop: int) -> None:
        for i in range(start, stop):
            build.mark(self.ends.part(i), base, present)

    def _by_hash(self, report: Report) -> tuple[Array, Look]:
        count, table, keys = 0, np.full(1 << 10, -1, np.int32), np.empty(1 << 9, np.int64)
        batches = len(self.ends)
        for i in range(batches):
            ends = self.ends.part(i)
            most = count + len(ends)
            if most > len(keys):
                table, keys = _grown(keys[:count], most)
            count = int(cpu.number(ends, table, keys, count, ends))
            report("number", i + 1, 2 * batches)
        ids = keys[:count]
        order = np.argsort(ids.view(np.uint64) if pa.types.is_uint64(self.kind) else ids)
        return ids[order], _ranked(order)


class Words(Numbers):
    """Edges whose ids are text: each batch is coded by Arrow, and some batches later its words among all words."""

    def __init__(self, folder: Path, kind: pa.DataType, room: Room) -> None:
        super().__init__(folder, kind, room)
        self.known = pa.array([], pa.large_string())
        self.recent: Pieces = []  # the words of each of the last batches, whose ends are places among them

    def add(self, sources: Pieces, targets: Pieces) -> None:
        both = pa.concat_arrays([c.cast(pa.large_string()) for c in (*sources, *targets)]).dictionary_encode()
        self.ends.add(both.indices.to_numpy().astype(np.int64))
        self.recent.append(both.dictionary)
        self.rows += len(both) // 2
        if 2 * sum(map(len, self.recent)) >= len(self.known):  # not for each batch: it hashes all that are known
            self._find()

    def numbered(self, report: Report) -> tuple[pa.Array, Look]:
        if self.recent:
            self._find()
        order = pc.array_sort_indices(self.known)
        ids = self.known.take(order)
        return ids.cast(pa.string()) if ids.nbytes < 2**31 else ids, _ranked(order.to_numpy())

    def _find(self) -> None:
        """Make the ends of the last batches places among all words, of which those known keep theirs."""
        batches = pa.chunked_array(self.recent).dictionary_encode().chunks
        words = batches[0].dictionary  # of them all
        found = pc.index_in(words, value_set=self.known)
        fresh = words.filter(pc.is_null(found))
        places = found.fill_null(-1).to_numpy(zero_copy_only=False).copy()
        places[places < 0] = np.arange(len(self.known), len(self.known) + len(fresh))
        self.known = pa.concat_arrays([self.known, fresh])
        for i, batch in enumerate(batches, len(self.ends) - len(batches)):
            ends = self.ends.part(i)
            ends[:] = places[batch.indices.to_numpy()][ends]
        self.recent = []


def spill(opened: EdgeFile, folder: Path, report: Report, room: int | None = None) -> Numbers:
    """The edges of the file, put away, of the first kind that all of them are of; in `room` bytes of memory at most."""
    kinds = TEXT_KINDS if isinstance(opened.table, TextTable) else (None,)
    for kind in kinds:
        try:
            return _spill_as(opened, folder, kind, report, room)
        except NotPlain:
            (folder / ENDS).unlink(missing_ok=True)
    raise AssertionError("text is of every kind")


def _spill_as(opened: EdgeFile, folder: Path, kind: Any, report: Report, room: int | None) -> Numbers:
    positions = dict(zip(("source", "target"), opened.ends, strict=True))
    spilled: Numbers | None = None
    for sources, targets in _gathered(id_batches(opened.table, positions, kind)):
        if spilled is None:
            spilled = _of_kind(sources[0].type, targets[0].type)(folder, sources[0].type, Room.found(room))
        spilled.add(sources, targets)
        report("read", spilled.rows, 0)
    if spilled is None:
        raise Unusual
    return spilled


def _gathered(batches: Iterator[list[pa.Array]]) -> Iterator[tuple[Pieces, Pieces]]:
    """The same columns, pieces of about `BATCH` rows together."""
    held: list[list[pa.Array]] = []
    rows, kinds = 0, None
    for columns in batches:
        here = [column.type for column in columns]
        kinds = kinds or here
        if here != kinds:
            raise Unusual
        if len(columns[0]):
            held.append(columns)
            rows += len(columns[0])
        if rows >= BATCH:
            yield [c[0] for c in held], [c[1] for c in held]
            held, rows = [], 0
    if held:
        yield [c[0] for c in held], [c[1] for c in held]


def _of_kind(source: pa.DataType, target: pa.DataType) -> type[Numbers]:
    if source != target:
        raise Unusual
    if pa.types.is_integer(source):
        return Numbers
    if is_text(source):
        return Words
    raise Unusual


def _grown(keys: Array, most: int) -> tuple[Array, Array]:
    """A hash table with room for `most` ids, and its keys, those that were there in their places."""
    size = 1 << (2 * most - 1).bit_length()
    table, larger = np.full(size, -1, index_type(most)), np.empty(size // 2, np.int64)
    cpu.number(keys, table, larger, 0, np.empty(len(keys), np.int64))
    return table, larger


def _ranked(order: Array) -> Look:
    """From places of first appearance to those in ascending order."""
    rank = np.empty(len(order), index_type(len(order)))
    rank[order] = np.arange(len(order), dtype=rank.dtype)
    return lambda ends, out: np.take(rank, ends, out=out, mode="clip")  # "raise" would copy


def index_type(n: int) -> type[np.signedinteger[Any]]:
    return np.int32 if n < 2**31 else np.int64
