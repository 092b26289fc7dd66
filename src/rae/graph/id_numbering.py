"""Numbering of ids: the ends of edges are buffered batch by batch, then numbered 0..n-1 in ascending order of ids.

Whole numbers that lie close together are numbered by a bit table, others by hashing, text by Arrow's dictionaries:
never a Python object per node. Other kinds (dates, UUIDs, decimals, lists) are numbered by Arrow at once, in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import GraphError
from rae.graph.ids import codes_and_ids, index_in, is_text, one_kind, refuse_too_many, shown
from rae.ops import build
from rae.runtime import in_ranges
from rae.storage.spill_buffer import Array, SpillBuffer

CLOSE = 8  # whole numbers lie close together where their range is at most so many times the edges
ONE_KIND = "they must be of one kind, e.g. all text (rae.read_edges and rae.read_features: as_text=True)"

Report = Callable[[str, int, int], None]  # stage, steps done, steps in all (0: unknown)
Columns = list[pa.Array]
Lookup = Callable[[Array, Array], object]  # writes the numbers of a batch of ends into its second argument


class Numbering:
    """The ends of edges, numbered after the last batch.

    Each batch is one array in `ends`, its sources first. Later steps overwrite the ends in place (ids, numbers by
    first appearance, keys of rows), since fresh memory costs more than the work done in it.
    """

    def __init__(self, ends: SpillBuffer) -> None:
        self.ends, self.rows = ends, 0

    def add(self, sources: Columns, targets: Columns) -> None:
        """Buffer a batch of edges."""
        raise NotImplementedError

    def finish(self, report: Report) -> tuple[pa.Array, Lookup]:
        """The ids, ascending, and the lookup that numbers a batch of `ends`."""
        raise NotImplementedError


class IntegerNumbering(Numbering):
    """Ids that are whole numbers of one type."""

    def __init__(self, ends: SpillBuffer, kind: pa.DataType) -> None:
        super().__init__(ends)
        self.kind, self.low, self.high = kind, 0, 0

    def add(self, sources: Columns, targets: Columns) -> None:
        ends, at = np.empty(2 * sum(map(len, sources)), np.int64), 0
        for piece in (*sources, *targets):
            column = piece.to_numpy(zero_copy_only=False)
            low, high = int(column.min()), int(column.max())
            self.low, self.high = (min(self.low, low), max(self.high, high)) if self.rows or at else (low, high)
            ends[at : at + len(column)] = column.view(np.int64) if column.dtype == np.uint64 else column
            at += len(column)
        self.ends.append(ends)
        self.rows += len(ends) // 2

    def finish(self, report: Report) -> tuple[pa.Array, Lookup]:
        close = self.high - self.low < CLOSE * self.rows + (1 << 16)
        ids, lookup = self._by_table(report) if close else self._by_hash(report)
        return pa.array(ids.view(np.uint64) if pa.types.is_uint64(self.kind) else ids).cast(self.kind), lookup

    def _by_table(self, report: Report) -> tuple[Array, Lookup]:
        present = np.zeros((self.high - self.low) // 64 * 64 + 64, np.bool_)
        base = np.array(self.low, np.uint64 if self.low >= 2**63 else np.int64).astype(np.int64).item()
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
            build.mark_ids(self.ends.part(i), base, present)

    def _by_hash(self, report: Report) -> tuple[Array, Lookup]:
        count, table, keys = 0, np.full(1 << 10, -1, np.int32), np.empty(1 << 9, np.int64)
        batches = len(self.ends)
        for i in range(batches):
            ends = self.ends.part(i)
            most = count + len(ends)
            if most > len(keys):
                table, keys = _larger_table(keys[:count], most)
            count = build.number_ids(ends, table, keys, count, ends)
            report("number", i + 1, 2 * batches)
        ids = keys[:count]
        order = np.argsort(ids.view(np.uint64) if pa.types.is_uint64(self.kind) else ids)
        return ids[order], _by_rank(order)


class TextNumbering(Numbering):
    """Ids that are text.

    Arrow encodes each batch by a dictionary of its own; some batches later these are merged into the one of all words.
    """

    def __init__(self, ends: SpillBuffer) -> None:
        super().__init__(ends)
        self.words = pa.array([], pa.large_string())
        self.recent: Columns = []  # the dictionaries of the last batches, whose ends are positions in them

    def add(self, sources: Columns, targets: Columns) -> None:
        both = pa.concat_arrays([c.cast(pa.large_string()) for c in (*sources, *targets)]).dictionary_encode()
        self.ends.append(both.indices.to_numpy().astype(np.int64))
        self.recent.append(both.dictionary)
        self.rows += len(both) // 2
        if 2 * sum(map(len, self.recent)) >= len(self.words):  # not for each batch: a merge hashes all words so far
            self._merge()

    def finish(self, report: Report) -> tuple[pa.Array, Lookup]:
        if self.recent:
            self._merge()
        order = pc.array_sort_indices(self.words)
        ids = self.words.take(order)
        return ids.cast(pa.string()) if ids.nbytes < 2**31 else ids, _by_rank(order.to_numpy())

    def _merge(self) -> None:
        """Turn the ends of the last batches into positions in `words`, after those that are in it already."""
        if len(self.words) == 0 and len(self.recent) == 1:
            self.words, self.recent = self.recent[0], []
            return
        batches = pa.chunked_array(self.recent).dictionary_encode().chunks
        words = batches[0].dictionary  # of them all
        matches = pc.index_in(words, value_set=self.words)
        fresh = words.filter(pc.is_null(matches))
        refuse_too_many(len(self.words) + len(fresh))
        positions = matches.fill_null(-1).to_numpy(zero_copy_only=False).copy()
        positions[positions < 0] = np.arange(len(self.words), len(self.words) + len(fresh))
        self.words = pa.concat_arrays([self.words, fresh])
        for i, batch in enumerate(batches, len(self.ends) - len(batches)):
            ends = self.ends.part(i)
            ends[:] = positions[batch.indices.to_numpy()][ends]
        self.recent = []


class ArrowNumbering(Numbering):
    """Ids of any other kind, kept in memory and numbered by Arrow after the last batch."""

    def __init__(self, ends: SpillBuffer) -> None:
        super().__init__(ends)
        self.columns: Columns = []
        self.lengths: list[int] = []

    def add(self, sources: Columns, targets: Columns) -> None:
        self.columns += [*sources, *targets]
        self.lengths.append(2 * sum(map(len, sources)))
        self.rows += self.lengths[-1] // 2

    def finish(self, report: Report) -> tuple[pa.Array, Lookup]:
        codes, ids = codes_and_ids(pa.concat_arrays(self.columns))
        for ends in np.split(codes, np.cumsum(self.lengths)[:-1]):
            self.ends.append(ends)
        self.columns = []
        return ids, copy_rows


class GivenNumbering(Numbering):
    """Ids that are among given ones and get their positions there."""

    def __init__(self, ends: SpillBuffer, ids: pa.Array) -> None:
        super().__init__(ends)
        self.ids = ids
        self.unknown: dict[str, Columns] = {"source": [], "target": []}

    def add(self, sources: Columns, targets: Columns) -> None:
        positions = [
            self._positions(end, pa.concat_arrays(columns))
            for end, columns in zip(self.unknown, (sources, targets), strict=True)
        ]
        self.ends.append(np.concatenate(positions))
        self.rows += len(positions[0])

    def _positions(self, end: str, column: pa.Array) -> Array:
        if one_kind(column, self.ids) is None:
            raise GraphError(f"the {end} ids are {column.type}, the graph's are {self.ids.type}; {ONE_KIND}")
        positions = index_in(column, self.ids)
        if positions.null_count:
            self.unknown[end].append(column.filter(pc.is_null(positions)))
            positions = positions.fill_null(0)
        out: Array = positions.to_numpy(zero_copy_only=False).astype(np.int64)
        return out

    def finish(self, report: Report) -> tuple[pa.Array, Lookup]:
        for end, columns in self.unknown.items():
            if columns:
                unknown = pa.concat_arrays(columns)
                raise GraphError(
                    f"{len(unknown):,} edges name a {end} that is not among ids=, first {shown(unknown)}; "
                    "add it to ids, or leave ids out"
                )
        return self.ids, copy_rows


def numbering_for(kind: pa.DataType, ends: SpillBuffer) -> Numbering:
    """The numbering for ids of this kind."""
    if pa.types.is_integer(kind):
        return IntegerNumbering(ends, kind)
    return TextNumbering(ends) if is_text(kind) else ArrowNumbering(ends)


def copy_rows(ends: Array, out: Array) -> None:
    """The lookup for ends that are row numbers already."""
    out[:] = ends


def _larger_table(keys: Array, most: int) -> tuple[Array, Array]:
    """A hash table with room for `most` ids, and its keys, the present ones at their positions."""
    size = 1 << (2 * most - 1).bit_length()
    table, larger = np.full(size, -1, index_type(most)), np.empty(size // 2, np.int64)
    build.number_ids(keys, table, larger, 0, np.empty(len(keys), np.int64))
    return table, larger


def _by_rank(order: Array) -> Lookup:
    """The lookup from numbers by first appearance to those in ascending order."""
    rank = np.empty(len(order), index_type(len(order)))
    rank[order] = np.arange(len(order), dtype=rank.dtype)
    return lambda ends, out: np.take(rank, ends, out=out, mode="clip")  # mode "raise" would copy


def index_type(n: int) -> type[np.signedinteger[Any]]:
    """The type of row numbers in a graph of n nodes."""
    return np.int32 if n < 2**31 else np.int64
