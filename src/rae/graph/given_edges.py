"""Edges as a caller of `Graph.from_edges` and `Graph.from_dataframe` gives them: pairs, arrays, data frames."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import Argument, GraphError, Sentence
from rae.graph.builder import Batch
from rae.graph.column_names import edge_columns, named_columns
from rae.graph.frames import as_table
from rae.graph.ids import id_array
from rae.graph.times import TimeWindow
from rae.reading import EdgeOptions

log = logging.getLogger("rae")


def two_columns(edges: Any) -> tuple[pa.Array, pa.Array]:
    """The ids of both ends of edges: pairs, an (m, 2) array, or a tuple of two arrays."""
    if isinstance(edges, tuple) and len(edges) == 2 and not any(isinstance(e, (tuple, str, bytes)) for e in edges):
        return id_array(edges[0]), id_array(edges[1])
    if hasattr(edges, "detach"):  # a torch tensor
        edges = edges.detach().cpu().numpy()
    if isinstance(edges, np.ndarray):
        if edges.ndim != 2 or (edges.shape[1] != 2 and edges.size):
            raise GraphError(
                f"edges must have shape (m, 2), got {edges.shape}; pass edges.T or a tuple of two arrays if the "
                "two ends are rows"
            )
        edges = edges.reshape(-1, 2)
        return id_array(edges[:, 0]), id_array(edges[:, 1])
    if isinstance(edges, (str, bytes)) or not isinstance(edges, Iterable) or hasattr(edges, "columns"):
        raise GraphError(
            f"edges must be pairs or two arrays, got {type(edges).__name__}; rae.read_edges reads files, "
            "Graph.from_dataframe reads tables"
        )
    pairs = list(edges)
    for i, pair in enumerate(pairs):
        if isinstance(pair, (str, bytes)) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise GraphError(f"every edge must be a pair, got {pair!r} at position {i}")
    return id_array([p[0] for p in pairs]), id_array([p[1] for p in pairs])


def frame_columns(df: Any, options: EdgeOptions, *, may_be_empty: bool = True) -> Batch:
    """The edges of a data frame of any library: the columns that `Graph.from_dataframe` reads."""
    table = as_table(df)
    names = table.column_names
    ends, guessed = edge_columns(names, options.source, options.target)
    if guessed:
        first, second = (names[i] for i in ends)
        log.warning(
            Sentence(
                f"edges are taken from the first two columns, {first!r} and {second!r}; pass ",
                *(Argument("source", ...), " and ", Argument("target", ...), " if that is wrong"),
            )
        )
    others = named_columns(names, ends, options.others)
    outside = 0
    if (window := TimeWindow.of(options)) is not None:
        inside = window.contains(table.column(others["time"]))
        outside = table.num_rows - int(pc.sum(inside).as_py() or 0)
        if outside == table.num_rows > 0 and not may_be_empty:
            raise window.empty(table.column(others["time"]))
        table = table.filter(inside)
    weights, kinds = (table.column(others[name]) if name in others else None for name in ("weight", "kind"))
    return Batch(id_array(table.column(ends[0])), id_array(table.column(ends[1])), weights, kinds, outside)
