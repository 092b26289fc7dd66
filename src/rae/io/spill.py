"""Edges of any number, numbered from disk to disk: ids in, their places among all ids out.

Ids of each batch are spilled as they come; when the last one is known they are numbered 0..n-1 in
ascending order: by a table where whole numbers lie close together, else by hashing; text by Arrow.
Never a Python object per node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.ids import is_text
from rae.io.edges import EdgeFile
from rae.io.tables import TEXT_KINDS, id_batches
from rae.io.text import NotPlain, TextTable
from rae.kernels import cpu

BATCH = 1 << 22  # edges numbered and placed at a time
CLOSE = 8  # whole numbers lie close together where their range is at most so many times the edges
ENDS, FIRSTS, CODES = "ends.raw", "firsts.raw", "codes.raw"  # ids; places by first appearance; places in order

Array = np.ndarray[Any, Any]
Report = Callable[[str, int, int], None]


class Unusual(Exception):  # noqa: N818
    """Ids of a kind that is not numbered batch by batch."""


@dataclass
class Numbers:
    """Edges whose ids are whole numbers, spilled as they are; numbered when the last one is known."""

    folder: Path
    kind: pa.DataType
    rows: int = 0
    lengths: list[int] = field(default_factory=list)
    low: int = 0
    high: int = 0

    @property
    def _wide(self) -> type[np.integer[Any]]:
        return np.uint64 if pa.types.is_uint64(self.kind) else np.int64

    def add(self, source: pa.Array, target: pa.Array) -> None:
        """Spill the ends of a batch."""
        ends = np.concatenate([c.to_numpy(zero_copy_only=False) for c in (source, target)])
        low, high = int(ends.min()), int(ends.max())
        self.low, self.high = (min(self.low, low), max(self.high, high)) if self.rows else (low, high)
        _append(self.folder / ENDS, ends.astype(self._wide, copy=False))
        self.lengths.append(len(source))
        self.rows += len(source)

    def numbered(self, report: Report) -> pa.Array:
        """The ids, ascending; their numbers are spilled instead of them."""
        close = self.high - self.low < CLOSE * self.rows + (1 << 16)
        ids = self._by_table(report) if close else self._by_hash(report)
        (self.folder / ENDS).unlink()
        return pa.array(ids).cast(self.kind)

    def _ends(self) -> Iterator[Array]:
        with (self.folder / ENDS).open("rb") as file:
            for length in self.lengths:
                yield np.fromfile(file, self._wide, 2 * length)

    def _by_table(self, report: Report) -> Array:
        present = np.zeros(self.high - self.low + 1, np.bool_)
        base = np.array(self.low, self._wide)
        for ends in self._ends():
            present[(ends - base).astype(np.int64)] = True
        place = np.cumsum(present, dtype=index_type(int(np.count_nonzero(present)))) - 1
        for i, ends in enumerate(self._ends()):
            _append(self.folder / CODES, place[(ends - base).astype(np.int64)])
            report("number", i + 1, len(self.lengths))
        return np.flatnonzero(present).astype(base.dtype) + base

    def _by_hash(self, report: Report) -> Array:
        count, table, keys = 0, np.full(1 << 10, -1, np.int64), np.empty(1 << 9, np.int64)
        for i, ends in enumerate(self._ends()):
            codes = np.empty(len(ends), np.int64)
            most = count + len(ends)
            if most > len(keys):
                table, keys = _grown(keys[:count], most)
            count = int(cpu.number(ends.view(np.int64), table, keys, count, codes))
            _append(self.folder / FIRSTS, codes)
            report("number", i + 1, 2 * len(self.lengths))
        ids = keys[:count].view(self._wide)
        order = np.argsort(ids)
        _rank_codes(self.folder, self.lengths, order, report)
        return ids[order]

    def codes(self, kind: Any) -> Iterator[tuple[Array, Array]]:
        """Batch by batch the numbers of both ends, once they are numbered."""
        with (self.folder / CODES).open("rb") as file:
            for length in self.lengths:
                yield np.fromfile(file, kind, length), np.fromfile(file, kind, length)

    def remove(self) -> None:
        """Remove what was spilled."""
        (self.folder / CODES).unlink()


@dataclass
class Words(Numbers):
    """Edges whose ids are text: each batch is coded by Arrow, and its words are looked up among those known."""

    known: pa.Array = field(default_factory=lambda: pa.array([], pa.large_string()))

    def add(self, source: pa.Array, target: pa.Array) -> None:
        both = pa.concat_arrays([c.cast(pa.large_string()) for c in (source, target)]).dictionary_encode()
        words = both.dictionary
        found = pc.index_in(words, value_set=self.known)
        fresh = words.filter(pc.is_null(found))
        places = np.array(found.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
        places[places < 0] = np.arange(len(self.known), len(self.known) + len(fresh))
        self.known = pa.concat_arrays([self.known, fresh])
        _append(self.folder / FIRSTS, places[both.indices.to_numpy()])
        self.lengths.append(len(source))
        self.rows += len(source)

    def numbered(self, report: Report) -> pa.Array:
        """The ids, ascending; their numbers are spilled by now."""
        order = pc.array_sort_indices(self.known)
        _rank_codes(self.folder, self.lengths, order.to_numpy(), report)
        ids = self.known.take(order)
        return ids.cast(pa.string()) if ids.nbytes < 2**31 else ids


def spill(opened: EdgeFile, folder: Path, report: Report) -> Numbers:
    """The edges of the file, on disk, of the first kind that all of them are of."""
    kinds = TEXT_KINDS if isinstance(opened.table, TextTable) else (None,)
    for kind in kinds:
        try:
            return _spill_as(opened, folder, kind, report)
        except NotPlain:
            for left in folder.iterdir():
                left.unlink()
    raise AssertionError("text is of every kind")


def _spill_as(opened: EdgeFile, folder: Path, kind: Any, report: Report) -> Numbers:
    positions = dict(zip(("source", "target"), opened.ends, strict=True))
    spilled: Numbers | None = None
    for source, target in _gathered(id_batches(opened.table, positions, kind)):
        if spilled is None:
            spilled = _of_kind(source.type, target.type)(folder, source.type)
        elif not spilled.kind == source.type == target.type:
            raise Unusual
        spilled.add(source, target)
        report("read", spilled.rows, 0)
    if spilled is None:
        raise Unusual
    return spilled


def _gathered(batches: Iterator[list[pa.Array]]) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The same columns in pieces of about `BATCH` rows."""
    held: list[list[pa.Array]] = []
    for columns in batches:
        if held and held[0][0].type != columns[0].type:
            raise Unusual
        held.append(columns)
        if sum(len(c[0]) for c in held) >= BATCH:
            yield pa.concat_arrays([c[0] for c in held]), pa.concat_arrays([c[1] for c in held])
            held = []
    if sum(len(c[0]) for c in held):
        yield pa.concat_arrays([c[0] for c in held]), pa.concat_arrays([c[1] for c in held])


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
    table, larger = np.full(size, -1, np.int64), np.empty(size // 2, np.int64)
    cpu.number(keys, table, larger, 0, np.empty(len(keys), np.int64))
    return table, larger


def _rank_codes(folder: Path, lengths: list[int], order: Array, report: Report) -> None:
    """Spill the ids' places in ascending order instead of those of their first appearance."""
    rank = np.empty(len(order), index_type(len(order)))
    rank[order] = np.arange(len(order), dtype=rank.dtype)
    with (folder / FIRSTS).open("rb") as file:
        for i, length in enumerate(lengths):
            _append(folder / CODES, rank[np.fromfile(file, np.int64, 2 * length)])
            report("number", len(lengths) + i + 1, 2 * len(lengths))
    (folder / FIRSTS).unlink()


def _append(path: Path, array: Array) -> None:
    with path.open("ab") as file:
        array.tofile(file)


def index_type(n: int) -> type[np.signedinteger[Any]]:
    return np.int32 if n < 2**31 else np.int64
