"""Edges from a file: two columns of ids make a graph."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import Argument, GraphError, Sentence
from rae.graph import Counts, Graph
from rae.graph.builder import Batch, in_batches
from rae.graph.column_names import edge_columns, is_like_a_node_table
from rae.graph.folder import is_graph_folder, open_graph
from rae.graph.ids import id_array, is_text
from rae.io.files import check_path
from rae.io.header import is_number
from rae.io.tables import TEXT_KINDS, Table, id_batches, open_table, read_ids
from rae.io.text import NotPlain, TextTable

log = logging.getLogger("rae")
T = TypeVar("T")

MISSING_WORDS = ("nan", "NaN", "NAN", "null", "NULL", "Null", "NA", "N/A", "n/a", "#N/A", "<NA>", "None")


@dataclass(frozen=True)
class EdgeFile:
    """An edge file whose layout is known and whose edges are not read yet: its table and its two columns of ends."""

    path: str | os.PathLike[str]
    table: Table
    ends: tuple[int, int]
    guessed: bool = False  # the first two columns, since none has a usual name

    @property
    def in_text(self) -> bool:
        """Whether it is a text file, whose ids may be numbers or text."""
        return isinstance(self.table, TextTable)

    def __str__(self) -> str:
        names = self.table.names
        others = [repr(name) for i, name in enumerate(names) if i not in self.ends]
        ignored = f"; ignored: {', '.join(others[:4])}{', ...' if len(others) > 4 else ''}" if others else ""
        return f"edges from columns {names[self.ends[0]]!r} and {names[self.ends[1]]!r}{ignored}"

    def padded_id(self) -> str | None:
        """The first text id with a blank before or after it in the first rows of a text file, None without one."""
        rows = self.table.sample if isinstance(self.table, TextTable) else ()
        cells = (row[i] for row in rows for i in self.ends if i < len(row))
        return next((cell for cell in cells if cell.strip(" \t") != cell and not is_number(cell)), None)

    def log_missing_words(self, graph: Graph) -> None:
        """Log a warning where nodes of a text file are called as missing values are: nan, NULL."""
        if not self.in_text or not is_text(graph.id_column.type):
            return
        if called := graph.id_column.filter(pc.is_in(graph.id_column, pa.array(MISSING_WORDS))).to_pylist():
            log.warning(
                f"{self.path}: {', '.join(map(repr, called[:3]))} {'is' if len(called) == 1 else 'are'} taken for a "
                "node's id; drop the rows with it if it means that the id is missing"
            )

    def graph(self, ids: Any = None, *, as_text: bool = False) -> Graph:
        """The graph of its edges, in memory; `ids` and `as_text` as in `read_edges`."""
        nodes = None if ids is None else id_array(ids)
        as_text = as_text or (nodes is not None and is_text(nodes.type))
        graph = self.feed(lambda batches: Graph.from_batches(batches, nodes), ids=nodes, as_text=as_text)
        self.log_counts(graph.counts)
        self.log_missing_words(graph)
        return graph

    def feed(self, build: Callable[[Iterable[Batch]], T], *, ids: pa.Array | None = None, as_text: bool = False) -> T:
        """What `build` makes of its edges, which are read in batches.

        The batches of a text file are whole numbers if all of its ids are, else text: `build` starts again when one is
        not. A file with an error, or with ids of several kinds, is read at once, for the error to name its row.
        """
        kinds = TEXT_KINDS if self.in_text and not as_text else (None,)
        with contextlib.suppress(GraphError):
            for kind in kinds:
                with contextlib.suppress(NotPlain):
                    return build(self._batches(kind, as_text))
        source, target = read_ids(self.table, self._positions, as_text=as_text)
        if len(source) == 0 and ids is None:
            way = (" (pass ", Argument("header", False), " if they are an edge)") if self.in_text else ()
            raise GraphError(f"{self.path} holds no edges, only column names", *way, "; expected one row or more")
        try:
            return build(in_batches(source, target, ids))
        except GraphError as error:
            raise GraphError(f"{self.path}: ", error) from None

    def log_counts(self, counts: Counts) -> None:
        """Log which columns were read and what was merged and dropped."""
        log.info("%s: %s; %s", self.path, self, counts)

    @property
    def _positions(self) -> dict[str, int]:
        return dict(zip(("source", "target"), self.ends, strict=True))

    def _batches(self, kind: pa.DataType | str | None, as_text: bool) -> Iterator[Batch]:
        for columns in id_batches(self.table, self._positions, kind):
            if as_text:
                columns = [c.cast(pa.string()) if pa.types.is_integer(c.type) else c for c in columns]
            yield columns[0], columns[1]


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
    default its rows decide (see `rae.io.header.has_header`). `ids` are the nodes, in that order, edges
    or not; by default the ends of the edges. Whole numbers stay whole at any size, text stays text;
    with `as_text` whole numbers are text too. A graph folder is opened as it is.
    """
    check_path(path, "rae.Graph.from_dataframe")
    if is_graph_folder(path):
        options = {"source": source, "target": target, "header": header, "ids": ids, "as_text": as_text or None}
        if given := [name for name, value in options.items() if value is not None]:
            raise GraphError(f"{path} is a graph folder, which takes no ", Argument(given[0], ...), "; leave it out")
        return open_graph(path)
    return open_edges(path, source=source, target=target, header=header).graph(ids, as_text=as_text)


def open_edges(
    path: str | os.PathLike[str], *, source: str | None = None, target: str | None = None, header: bool | None = None
) -> EdgeFile:
    """The edge file and the columns that will be read; a guess is logged as a warning."""
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
    nodes = source is target is None and is_like_a_node_table(table.names)
    if guessed or nodes:
        advice = ("; pass ", Argument("source", ...), " and ", Argument("target", ...), " if that is wrong")
        other = (", or give the file as ", Argument("features"), " if each row is a node") if nodes else ()
        log.warning(Sentence(f"{path}: {opened}", *advice, *other))
    if padded := opened.padded_id():
        log.warning(
            f"{path}: ids have blanks around them, such as {padded!r}, which is another node than {padded.strip()!r}; "
            "remove the blanks next to the separators if both are one"
        )
    return opened
