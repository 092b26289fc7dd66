"""Orders of the rows of a graph: neighbours near each other, so that embedding reads nearby memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from rae.graph.csr_writer import ArrayFile, FileSink, channel_file
from rae.graph.folder import OFFSETS, TARGETS
from rae.graph.id_numbering import Report, index_type
from rae.memory import row_runs
from rae.ops import build
from rae.storage.npy import map_array, write_array
from rae.storage.spill_buffer import Array

ORDERS = ("none", "locality")
REORDERED = "reordered.npy"
RUN = 1 << 26  # entries renumbered at a time: 256 MiB


def locality_order(offsets: Array, targets: Array) -> Array:
    """The rows in an order that puts neighbours near each other: breadth first from the fewest neighbours.

    This is Cuthill and McKee's order but for the sorting of each node's neighbours by degree, which
    costs five times as much and gains a tenth.  (n + 1,), (2 m,) -> (n,)
    """
    n = len(offsets) - 1
    kind = index_type(n)
    starts = np.argsort(np.diff(offsets), kind="stable").astype(kind)
    return build.breadth_first(offsets, targets, starts)


def reorder_folder(folder: Path, ids: pa.Array, report: Report, channels: int = 0) -> pa.Array:
    """The ids in the locality order, which the rows of the folder are written in; a run of rows is in memory.

    The first `channels` arrays parallel to the rows are permuted too.
    """
    report("order", 0, 1)
    offsets, targets = (map_array(folder / name) for name in (OFFSETS, TARGETS))
    order = locality_order(offsets, targets)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order), dtype=order.dtype)
    new_offsets = np.concatenate([[0], np.cumsum(np.diff(offsets)[order])])
    runs = list(row_runs(new_offsets, RUN))
    sink = FileSink(folder / REORDERED)
    sink.open(targets.dtype, len(targets))
    try:
        for i, (a, b) in enumerate(runs):
            sink.append(build.relabel_rows(offsets, targets, order[a:b], rank, new_offsets[a : b + 1]))
            report("order", i + 1, len(runs))
    finally:
        sink.close()
    for number in range(channels):
        _reorder_channel(folder / channel_file(number), offsets, targets, order, rank, new_offsets)
    del offsets, targets  # Windows replaces no mapped file
    (folder / REORDERED).replace(folder / TARGETS)
    write_array(folder / OFFSETS, new_offsets)
    return ids.take(pa.array(order))


def _reorder_channel(path: Path, offsets: Array, targets: Array, order: Array, rank: Array, new_offsets: Array) -> None:
    """Write a channel again, for rows that are renumbered and sorted by their new numbers."""
    hidden = path.with_name(f"reordered-{path.name}")
    weights, file = map_array(path), ArrayFile(hidden, np.float32)
    try:
        for a, b in row_runs(new_offsets, RUN // 8):
            rows, lengths = order[a:b], np.diff(new_offsets[a : b + 1])
            before = np.cumsum(lengths) - lengths
            entries = np.arange(int(lengths.sum())) + np.repeat(offsets[rows] - before, lengths)
            by_row = np.lexsort((rank[targets[entries]], np.repeat(np.arange(b - a), lengths)))
            file.append(weights[entries[by_row]])
    finally:
        file.close()
    del weights
    hidden.replace(path)
