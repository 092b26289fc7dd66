"""The graph builder: batches of edges in, compressed rows out.

    read     edges in batches; their ends are buffered as they are
    number   ids become 0..n-1 in ascending order (`id_numbering`)
    place    stripe after stripe of rows: each row sorted, doubled edges merged (`csr_writer`)

The buffer of ends spills to disk where it has a file (`storage.spill_buffer`), and the rows go into memory or into a
file, so that in memory there are a few numbers per node, the ends that the budget allows, a batch or a stripe per
thread, and for a short time a byte for every number between the lowest and the highest id where they lie close
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rae.errors import GraphError
from rae.graph.csr_writer import Counts, RowSink, write_rows
from rae.graph.id_numbering import Columns, GivenNumbering, Lookup, Numbering, Report, copy_rows, numbering_for
from rae.graph.ids import doubled, one_kind, shown
from rae.storage.spill_buffer import Array, SpillBuffer

BATCH = 1 << 21  # edges buffered and numbered at a time

Batch = tuple[pa.Array, pa.Array]  # source and target ids, of one kind


class Rows(NamedTuple):
    """The rows of a graph whose entries are in a sink."""

    offsets: Array
    ids: pa.Array
    counts: Counts


def build_rows(
    batches: Iterable[Batch],
    sink: RowSink,
    *,
    ids: pa.Array | None = None,
    ends: SpillBuffer | None = None,
    report: Report | None = None,
) -> Rows:
    """The rows of these edges; their entries go to the sink.

    Without `ids` the nodes are the ends of the edges, ascending; with `ids` these, in their order, edges or not.
    `ends` buffers the edges: in memory by default.
    """
    report = report or (lambda *_: None)
    ends = SpillBuffer() if ends is None else ends
    numbering: Numbering | None = None
    if ids is not None:
        refuse_doubled(ids)
        numbering = GivenNumbering(ends, ids)
    for sources, targets in _gathered(batches, _batch_size(ids), same=ids is None):
        numbering = numbering or numbering_for(sources[0].type, ends)
        numbering.add(sources, targets)
        report("read", numbering.rows, 0)
    if numbering is None:
        raise GraphError("a graph needs at least one node, got no edges and no ids")
    nodes, lookup = numbering.finish(report)
    return _write(ends, numbering.rows, lookup, nodes, sink, report)


def build_numbered(source: Array, target: Array, ids: pa.Array, sink: RowSink) -> Rows:
    """The rows of edges that are given as row numbers; their entries go to the sink."""
    ends = SpillBuffer()
    for a in range(0, len(source), BATCH):
        ends.append(np.concatenate([source[a : a + BATCH], target[a : a + BATCH]], dtype=np.int64))
    return _write(ends, len(source), copy_rows, ids, sink, lambda *_: None)


def _write(ends: SpillBuffer, rows: int, lookup: Lookup, ids: pa.Array, sink: RowSink, report: Report) -> Rows:
    if len(ids) == 0:
        raise GraphError("a graph needs at least one node, got no edges and no ids")
    offsets, counts = write_rows(ends, rows, lookup, len(ids), sink, report)
    return Rows(offsets, ids, counts)


def in_batches(source: pa.Array, target: pa.Array, ids: pa.Array | None = None) -> Iterator[Batch]:
    """Two whole columns in batches, of one kind unless each is compared with given `ids`."""
    if len(source) != len(target):
        raise GraphError(f"source and target must be equally long, got {len(source):,} and {len(target):,}")
    columns = (source, target) if ids is not None else one_kind(source, target)
    if columns is None:
        raise GraphError(
            f"source and target ids must be of one kind, got {source.type} and {target.type}; turn both into text first"
        )
    size = _batch_size(ids)
    for a in range(0, len(source), size):
        yield columns[0].slice(a, size), columns[1].slice(a, size)


def _batch_size(ids: pa.Array | None) -> int:
    """Edges in a batch; given ids are hashed for each batch, so a batch has no fewer edges than there are ids."""
    return BATCH if ids is None else max(BATCH, len(ids))


def refuse_doubled(ids: pa.Array) -> None:
    """Refuse ids that occur more than once."""
    if len(twice := doubled(ids)):
        raise GraphError(f"every id must occur once, got {len(twice):,} more than once, first {shown(twice)}")


def _gathered(batches: Iterable[Batch], size: int, same: bool) -> Iterator[tuple[Columns, Columns]]:
    """The batches that are not empty, joined to about `size` rows.

    The kind of their ids must be one throughout: of the sources, of the targets, and of both if `same`.
    """
    sources: Columns = []
    targets: Columns = []
    rows, kinds = 0, None
    for source, target in batches:
        kinds = kinds or (source.type, source.type if same else target.type)
        if (source.type, target.type) != kinds:
            raise GraphError(
                f"the ids of all batches must be of one kind, got {source.type} and {target.type} after "
                f"{kinds[0]} and {kinds[1]}; cast them to one kind first"
            )
        if len(source):
            sources.append(source)
            targets.append(target)
            rows += len(source)
        if rows >= size:
            yield sources, targets
            sources, targets, rows = [], [], 0
    if rows:
        yield sources, targets
