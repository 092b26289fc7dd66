"""Edges from a file: two columns of ids make a graph."""

from __future__ import annotations

import logging
import os
from typing import Any

import pyarrow as pa

from rae.errors import GraphError
from rae.graph import Graph, id_array
from rae.io.names import SOURCE, TARGET, position, usual
from rae.io.tables import open_table, read_ids

log = logging.getLogger("rae")


def read_edges(
    path: str | os.PathLike[str],
    *,
    source: str | None = None,
    target: str | None = None,
    header: bool | None = None,
    ids: Any = None,
) -> Graph:
    """The graph of an edge file: Parquet, Arrow, CSV, TSV or a plain edge list, packed or not.

    `source` and `target` name its columns (without a header they are called "1", "2", ...); by
    default those with the usual names (source and target, from and to, ...), else the first two.
    Other columns are not read. `header` says whether a text file begins with one; by default its
    rows tell (see `rae.io.header.has_header`). `ids` are the nodes, in that order, edges or not; by
    default the ends of the edges. Whole numbers stay whole at any size, text stays text.
    """
    table = open_table(path, header)
    ends = _ends(path, table.names, source, target)
    nodes = None if ids is None else id_array(ids)
    as_text = nodes is not None and pa.types.is_string(nodes.type)
    sources, targets = read_ids(table, ends, as_text=as_text)
    if len(sources) == 0 and nodes is None:
        raise GraphError(
            f"{path} holds no edges, only column names; expected one row or more, or pass ids= for the nodes"
        )
    try:
        graph = Graph.from_edges((sources, targets), nodes)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None
    names = [repr(table.names[i]) for i in ends.values()]
    log.info("%s: columns %s to %s, %d others not read; %s", path, *names, len(table.names) - 2, graph.counts)
    return graph


def _ends(
    path: str | os.PathLike[str], names: tuple[str, ...], source: str | None, target: str | None
) -> dict[str, int]:
    if len(names) < 2:
        raise GraphError(
            f"{path} has one column, expected two: the ends of each edge, with a comma, tab or blank between"
        )
    first = usual(names, SOURCE) if source is None else _named(path, names, source)
    second = usual(names, TARGET) if target is None else _named(path, names, target)
    if source is None and target is None and (first is None or second is None):
        first, second = 0, 1
    if first is None:
        first = next(i for i in range(len(names)) if i != second)
    if second is None:
        second = next(i for i in range(len(names)) if i != first)
    if first == second:
        raise GraphError(
            f"{path}: source and target must be two columns, got {names[first]!r} for both; name the other"
        )
    return {"source": first, "target": second}


def _named(path: str | os.PathLike[str], names: tuple[str, ...], name: str) -> int:
    found = position(name, names)
    if isinstance(found, str):
        raise GraphError(f"{path}: {found}")
    return found
