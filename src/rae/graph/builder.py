"""The graph builder: batches of edges in, compressed rows out.

    read     edges in batches; their ends are buffered
    number   ids become 0..n-1 in ascending order (`id_numbering`)
    place    stripe after stripe of rows: each row sorted, doubled edges merged (`csr_writer`)

Weights, directions and kinds of the edges are read where they are asked for (`channels`), into a buffer of their own,
and a row has a weight in each channel for each of its neighbours.

The buffer of ends spills to disk where it has a file (`storage.spill_buffer`), and the rows go into memory or into a
file, so that in memory there are a few numbers per node, the ends that the budget allows, a batch or a stripe per
thread, and for a short time a byte for every number between the lowest and the highest id where they lie close
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rae.errors import Argument, GraphError
from rae.graph.channels import EdgeValues, Floats, KindCodes, channel_names, checked_weights
from rae.graph.csr_writer import Counts, EdgeWeights, RowSink, write_rows
from rae.graph.id_numbering import Columns, GivenNumbering, Lookup, Numbering, Report, copy_rows, numbering_for
from rae.graph.ids import doubled, one_kind, shown
from rae.storage.spill_buffer import Array, SpillBuffer

BATCH = 1 << 21  # edges buffered and numbered at a time


class Batch(NamedTuple):
    """Some rows of an edge table: source and target ids, of one kind; weights and kinds where they are read."""

    source: pa.Array
    target: pa.Array
    weight: Any = None
    kind: Any = None
    outside: int = 0  # rows left out, since their time is outside the window

    def where(self, mask_array: Any) -> Batch:
        """The rows that a mask chooses, with their weights, an array, and their kinds, an Arrow column."""
        mask = pa.array(mask_array)
        return self._replace(
            source=self.source.filter(mask),
            target=self.target.filter(mask),
            weight=None if self.weight is None else self.weight[mask_array],
            kind=None if self.kind is None else self.kind.filter(mask),
        )


class Rows(NamedTuple):
    """The rows of a graph whose entries are in a sink."""

    offsets: Array
    ids: pa.Array
    counts: Counts
    channels: tuple[str, ...] = ()


class _Values:
    """Weights and kinds of the edges, buffered batch by batch."""

    def __init__(self, values: EdgeValues, buffer: SpillBuffer) -> None:
        self.values, self.buffer, self.kinds = values, buffer, KindCodes()

    def add(self, weights: list[Floats], kinds: list[Floats], rows: int) -> None:
        """Buffer those of a batch of edges; a weight that is not given is 1."""
        batch = np.zeros(2 * rows, np.float32)
        batch[:rows] = np.concatenate(weights) if self.values.weighted else 1
        if self.values.kinds:
            batch[rows:] = np.concatenate(kinds)
        self.buffer.append(batch)

    @property
    def names(self) -> tuple[str, ...]:
        return channel_names(self.values.directions, sorted(self.kinds.names))

    def finish(self) -> EdgeWeights:
        """The buffered values, for the writer of rows."""
        ranks = self.kinds.ranks() if self.values.kinds else np.zeros(1, np.float32)
        directions = len(self.values.directions)
        return EdgeWeights(self.buffer, ranks, directions, len(self.names), self.values.keeps_largest)


def build_rows(
    batches: Iterable[Batch],
    sink: RowSink,
    *,
    ids: pa.Array | None = None,
    ends: SpillBuffer | None = None,
    report: Report | None = None,
    values: EdgeValues | None = None,
    weights: SpillBuffer | None = None,
) -> Rows:
    """The rows of these edges; their entries go to the sink.

    Without `ids` the nodes are the ends of the edges, ascending; with `ids` these, in their order, edges or not.
    `ends` buffers the edges, `weights` their `values`: in memory by default.
    """
    report = report or (lambda *_: None)
    ends = SpillBuffer() if ends is None else ends
    value_buffer = _Values(values, SpillBuffer() if weights is None else weights) if values else None
    numbering: Numbering | None = None
    if ids is not None:
        refuse_doubled(ids)
        numbering = GivenNumbering(ends, ids)
    left_out = Counts()
    for some in _join_batches(batches, _batch_size(ids), value_buffer, same=ids is None):
        left_out = replace(
            left_out,
            rows=left_out.rows + some.zeros + some.outside,
            zeros=left_out.zeros + some.zeros,
            outside=left_out.outside + some.outside,
        )
        if not some.sources:
            continue
        numbering = numbering or numbering_for(some.sources[0].type, ends)
        before = numbering.rows
        numbering.add(some.sources, some.targets)
        if value_buffer is not None:
            value_buffer.add(some.weights, some.kinds, numbering.rows - before)
        report("read", numbering.rows, 0)
    if numbering is None:
        why = "" if not left_out.rows else f": {left_out}"
        raise GraphError("a graph needs at least one node, got no edges and no ids" + why)
    nodes, lookup = numbering.finish(report)
    rows = _write(ends, numbering.rows, lookup, nodes, sink, report, value_buffer)
    counts = replace(rows.counts, rows=rows.counts.rows + left_out.rows, zeros=left_out.zeros, outside=left_out.outside)
    return rows._replace(counts=counts)


def build_numbered(
    source: Array,
    target: Array,
    ids: pa.Array,
    sink: RowSink,
    *,
    values: EdgeValues | None = None,
    weight: Any = None,
    kind: Any = None,
    kinds: Sequence[str] | None = None,
) -> Rows:
    """The rows of edges that are given as row numbers; their entries go to the sink.

    With `kinds`, all of them in ascending order, `kind` are their numbers.
    """
    ends, value_buffer, zeros = SpillBuffer(), _Values(values, SpillBuffer()) if values else None, 0
    total = len(source)
    if value_buffer is not None:
        weights = checked_weights(weight) if value_buffer.values.weighted else None
        codes = None
        if kinds is not None:
            value_buffer.kinds.names, codes = list(kinds), kind
        elif value_buffer.values.kinds:
            codes = value_buffer.kinds.codes(kind)
        if weights is not None and not weights.all():
            nonzero = weights != 0
            source, target, weights = source[nonzero], target[nonzero], weights[nonzero]
            codes = None if codes is None else codes[nonzero]
            zeros = total - len(source)
    for a in range(0, len(source), BATCH):
        ends.append(np.concatenate([source[a : a + BATCH], target[a : a + BATCH]], dtype=np.int64))
        if value_buffer is not None:
            value_buffer.add(
                [] if weights is None else [weights[a : a + BATCH]],
                [] if codes is None else [codes[a : a + BATCH]],
                len(ends.part(len(ends) - 1)) // 2,
            )
    rows = _write(ends, len(source), copy_rows, ids, sink, lambda *_: None, value_buffer)
    return rows._replace(counts=replace(rows.counts, rows=total, zeros=zeros))


def _write(
    ends: SpillBuffer,
    rows: int,
    lookup: Lookup,
    ids: pa.Array,
    sink: RowSink,
    report: Report,
    value_buffer: _Values | None = None,
) -> Rows:
    if len(ids) == 0:
        raise GraphError("a graph needs at least one node, got no edges and no ids")
    weights = None if value_buffer is None else value_buffer.finish()
    offsets, counts = write_rows(ends, rows, lookup, len(ids), sink, report, weights)
    return Rows(offsets, ids, counts, () if value_buffer is None else value_buffer.names)


def in_batches(
    source: pa.Array, target: pa.Array, ids: pa.Array | None = None, *, weight: Any = None, kind: Any = None
) -> Iterator[Batch]:
    """Whole columns in batches, ids of one kind unless each is compared with given `ids`."""
    if len(source) != len(target):
        raise GraphError(f"source and target must be equally long, got {len(source):,} and {len(target):,}")
    for name, column in (("weight", weight), ("kind", kind)):
        if column is not None and len(column) != len(source):
            raise GraphError(Argument(name), f" must have one entry per edge ({len(source):,}), got {len(column):,}")
    columns = (source, target) if ids is not None else one_kind(source, target)
    if columns is None:
        raise GraphError(
            f"source and target ids must be of one kind, got {source.type} and {target.type}; turn both into text first"
        )
    size = _batch_size(ids)
    for a in range(0, len(source), size):
        some = slice(a, a + size)
        yield Batch(
            columns[0][some],
            columns[1][some],
            None if weight is None else weight[some],
            None if kind is None else kind[some],
        )


def _batch_size(ids: pa.Array | None) -> int:
    """Edges in a batch; given ids are hashed for each batch, so a batch has no fewer edges than there are ids."""
    return BATCH if ids is None else max(BATCH, len(ids))


def refuse_doubled(ids: pa.Array) -> None:
    """Refuse ids that occur more than once."""
    if len(twice := doubled(ids)):
        raise GraphError(f"every id must occur once, got {len(twice):,} more than once, first {shown(twice)}")


class _JoinedBatches(NamedTuple):
    """Rows of several batches, and how many were left out."""

    sources: Columns
    targets: Columns
    weights: list[Floats]
    kinds: list[Floats]
    zeros: int = 0
    outside: int = 0


def _join_batches(
    batches: Iterable[Batch], size: int, value_buffer: _Values | None, same: bool
) -> Iterator[_JoinedBatches]:
    """The batches that are not empty, joined to about `size` rows; rows of weight 0 are left out and counted.

    The kind of their ids must be one throughout: of the sources, of the targets, and of both if `same`.
    """
    out, rows, before, kinds = _JoinedBatches([], [], [], []), 0, 0, None
    for item in batches:
        batch = item if isinstance(item, Batch) else Batch(*item)
        source, target = batch.source, batch.target
        kinds = kinds or (source.type, source.type if same else target.type)
        if (source.type, target.type) != kinds:
            raise GraphError(
                f"the ids of all batches must be of one kind, got {source.type} and {target.type} after "
                f"{kinds[0]} and {kinds[1]}; cast them to one kind first"
            )
        weights, codes, zeros = _checked_values(batch, value_buffer, before)
        before += len(source)
        if zeros:
            nonzero = weights != 0
            mask = pa.array(nonzero)
            source, target, weights = source.filter(mask), target.filter(mask), weights[nonzero]
            codes = codes[nonzero] if len(codes) else codes
        out = out._replace(zeros=out.zeros + zeros, outside=out.outside + batch.outside)
        if len(source):
            for column, values in zip(out[:4], (source, target, weights, codes), strict=True):
                column.append(values)
            rows += len(source)
        if rows >= size:
            yield out
            out, rows = _JoinedBatches([], [], [], []), 0
    if rows or out.zeros or out.outside:
        yield out


def _checked_values(batch: Batch, value_buffer: _Values | None, before: int) -> tuple[Floats, Floats, int]:
    """Weights and kinds of a batch, empty where none are kept, and how many weights are 0."""
    none = np.empty(0, np.float32)
    if value_buffer is None:
        return none, none, 0
    weights = checked_weights(batch.weight, first_row=before) if value_buffer.values.weighted else none
    codes = value_buffer.kinds.codes(batch.kind, first_row=before) if value_buffer.values.kinds else none
    return weights, codes, len(weights) - int(np.count_nonzero(weights))
