"""Edges from a file: two columns of ids make a graph."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any

from rae.errors import Argument, GraphError, Sentence
from rae.graph import Graph
from rae.graph.column_names import edge_columns
from rae.graph.folder import is_graph_folder, open_graph
from rae.graph.ids import id_array, is_text
from rae.io.tables import Table, open_table, read_ids
from rae.io.text import TextTable

log = logging.getLogger("rae")


@dataclass(frozen=True)
class EdgeFile:
    """An edge file that was looked at and not yet read: its table, and which two columns are the ends."""

    path: str | os.PathLike[str]
    table: Table
    ends: tuple[int, int]
    guessed: bool = False  # the first two columns, for want of usual names

    @property
    def in_text(self) -> bool:
        """Whether ids in it are text until they are taken for numbers."""
        return isinstance(self.table, TextTable)

    def __str__(self) -> str:
        names = self.table.names
        others = [repr(name) for i, name in enumerate(names) if i not in self.ends]
        ignored = f"; ignored: {', '.join(others[:4])}{', ...' if len(others) > 4 else ''}" if others else ""
        return f"edges from columns {names[self.ends[0]]!r} and {names[self.ends[1]]!r}{ignored}"

    def graph(self, ids: Any = None, *, as_text: bool = False) -> Graph:
        """The graph of its edges; `ids` and `as_text` as in `read_edges`."""
        nodes = None if ids is None else id_array(ids)
        as_text = as_text or (nodes is not None and is_text(nodes.type))
        sources, targets = read_ids(
            self.table, dict(zip(("source", "target"), self.ends, strict=True)), as_text=as_text
        )
        if len(sources) == 0 and nodes is None:
            way = (" (pass ", Argument("header", False), " if they are an edge)") if self.in_text else ()
            raise GraphError(f"{self.path} holds no edges, only column names", *way, "; expected one row or more")
        try:
            graph = Graph.from_edges((sources, targets), nodes)
        except GraphError as error:
            raise GraphError(f"{self.path}: ", error) from None
        log.info("%s: %s; %s", self.path, self, graph.counts)
        return graph


def read_edges(
    path: str | os.PathLike[str],
    *,
    source: str | None = None,
    target: str | None = None,
    header: bool | None = None,
    ids: Any = None,
    as_text: bool = False,
) -> Graph:
    """The graph of an edge file: Parquet, Arrow, CSV, TSV or a plain edge list, packed or not.

    `source` and `target` name its columns (without a header they are called "1", "2", ...); by
    default those with the usual names (source and target, from and to, caller and called, ...), else
    the first two. Other columns are not read. `header` says whether a text file begins with one; by
    default its rows tell (see `rae.io.header.has_header`). `ids` are the nodes, in that order, edges
    or not; by default the ends of the edges. Whole numbers stay whole at any size, text stays text;
    with `as_text` whole numbers are text too. A graph folder is opened as it is.
    """
    if is_graph_folder(path):
        told = {"source": source, "target": target, "header": header, "ids": ids, "as_text": as_text or None}
        if given := [name for name, value in told.items() if value is not None]:
            raise GraphError(f"{path} is a graph folder, which takes no ", Argument(given[0], ...), "; leave it out")
        return open_graph(path)
    return open_edges(path, source=source, target=target, header=header).graph(ids, as_text=as_text)


def open_edges(
    path: str | os.PathLike[str], *, source: str | None = None, target: str | None = None, header: bool | None = None
) -> EdgeFile:
    """The edge file and the columns that will be read; what was guessed is logged as a warning."""
    table = open_table(path, header)
    if len(table.names) < 2:
        raise GraphError(
            f"{path} has one column, expected two: the ends of each edge, with a comma, tab or blank between"
        )
    try:
        ends, guessed = edge_columns(table.names, source, target)
    except GraphError as error:
        raise GraphError(f"{path}: ", error) from None
    opened = EdgeFile(path, table, ends, guessed)
    if guessed:
        advice = ("; pass ", Argument("source", ...), " and ", Argument("target", ...), " if that is wrong")
        log.warning(Sentence(f"{path}: {opened}", *advice))
    return opened
