"""The nodes of a run as rows of a table: id, name, role, confidence, embedding; the same for every target."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rae.blocks import parse_weights, side_by_side, weighted
from rae.export.contract import Options, about
from rae.graph.frames import vector_table
from rae.graph.ids import is_text
from rae.run import Run

BATCH = 4096  # rows at a time
VECTOR = "embedding"


@dataclass(frozen=True)
class Vectors:
    """The rows of a run, and the metadata of a table of them."""

    table: pa.Table
    about: dict[str, Any]

    @property
    def width(self) -> int:
        """Numbers in a vector."""
        return int(self.table.schema.field(VECTOR).type.list_size)

    @property
    def comment(self) -> str:
        """The metadata as JSON."""
        return json.dumps(self.about, sort_keys=True)

    def batches(self, options: Options) -> Iterator[pa.Table]:
        """The rows in batches; progress is reported after each."""
        total = self.table.num_rows
        for start in range(0, total, BATCH):
            yield self.table.slice(start, BATCH)
            options.report(min(start + BATCH, total), total)


def vectors_of(run: Run, options: Options) -> Vectors:
    """The rows of a run; with `weights`, weighted vectors, so that a plain search finds look-alikes."""
    table, described = run.to_arrow(), about(run)
    if options.weights is None or not (
        options.weights or run.blocks
    ):  # without blocks, distances see vectors as they are
        return Vectors(table, described)
    chosen = parse_weights(options.weights or None, run.blocks)
    z = weighted(matrix(table), run.blocks, options.weights or None)
    blocks = side_by_side(block._replace(weight=chosen[block.name]) for block in run.blocks if chosen[block.name])
    at = table.column_names.index(VECTOR)
    table = table.set_column(at, VECTOR, vector_table(run.ids(), z).column(VECTOR))
    return Vectors(table, described | {"weighted": True, "blocks": [block.as_dict() for block in blocks]})


def matrix(table: pa.Table) -> Any:
    """The vectors of a table.  -> (n, width) float32"""
    column = table.column(VECTOR).combine_chunks()
    width = column.type.list_size
    return np.asarray(column.flatten(), np.float32).reshape(-1, width)


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as whole numbers, numbers, or text, for a database that has no other kinds.

    >>> plain(pa.chunked_array([pa.array([1, 2], pa.uint8())])).type
    DataType(int64)
    """
    kind = column.type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return column.cast(pa.int64())
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    if is_text(kind) or not (pa.types.is_nested(kind) or pa.types.is_binary(kind)):
        return column.cast(pa.string())
    return pa.chunked_array([pa.array([str(value) for value in column.to_pylist()], pa.string())])
