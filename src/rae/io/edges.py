"""Edges from a file: two columns of ids make a graph; weights, kinds and times are read where they are named."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import Argument, FeatureError, GraphError, Sentence
from rae.graph import Counts, Graph
from rae.graph.builder import Batch, in_batches
from rae.graph.channels import EdgeValues, WeightError, checked_weights, other_way, weight_in_words
from rae.graph.column_names import edge_columns, is_like_a_node_table, named_columns, suggested_columns
from rae.graph.folder import is_graph_folder, open_graph
from rae.graph.folder_builder import build_folder
from rae.graph.ids import id_array, is_text
from rae.graph.times import TimeError, TimeWindow
from rae.io.files import check_path
from rae.io.header import is_missing, is_number
from rae.io.tables import TEXT_KINDS, ArrowTable, Table, id_batches, open_table, read_ids
from rae.io.text import NotPlain, TextTable
from rae.reading import EDGE_OPTIONS, EdgeOptions

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
    others: dict[str, int] = field(default_factory=dict)  # the columns of weights, kinds and times that are read
    values: EdgeValues = field(default_factory=EdgeValues)
    window: TimeWindow | None = None

    @property
    def in_text(self) -> bool:
        """Whether it is a text file, whose ids may be numbers or text."""
        return isinstance(self.table, TextTable)

    def __str__(self) -> str:
        names = self.table.names
        read = (*self.ends, *self.others.values())
        others = [repr(name) for i, name in enumerate(names) if i not in read]
        ignored = f"; ignored: {', '.join(others[:4])}{', ...' if len(others) > 4 else ''}" if others else ""
        named = "".join(f", {what} from {names[i]!r}" for what, i in self.others.items())
        way = "edges go from column {!r} to {!r}" if self.values.directed else "edges from columns {!r} and {!r}"
        return f"{way.format(*(names[i] for i in self.ends))}{named}{ignored}"

    @property
    def suggestion(self) -> Sentence | None:
        """The options by which the other columns of the table could be read, where their names are clear."""
        suggested = suggested_columns(self.table.names, self.ends)
        columns = {what: name for what, name in suggested.items() if what != "directed" and what not in self.others}
        if not columns or self.values:  # the user knows the other columns
            return None
        parts: list[str | Argument] = []
        if "directed" in suggested:
            parts += [Argument("directed", True), " "]
        for what in ("weight", "kind"):
            if what in columns:
                parts += [Argument(what, columns[what]), " "]
        if "time" in columns and self.window is None:
            parts += [Argument("time", columns["time"]), " ", Argument("since", "..."), " "]
        if not parts:
            return None
        return Sentence("edges may be read with more than their ends, if you want that: ", *parts[:-1])

    def padded_id(self) -> str | None:
        """The first text id with a blank before or after it in the first rows of a text file, None without one."""
        rows = self.table.sample if isinstance(self.table, TextTable) else ()
        cells = (row[i] for row in rows for i in self.ends if i < len(row))
        return next((cell for cell in cells if cell.strip(" \t") != cell and not is_number(cell)), None)

    def log_missing_words(self, graph: Graph) -> None:
        """Log a warning where nodes of a text file are called as missing values are: nan, NULL."""
        if not self.in_text or not is_text(graph.id_column.type):
            return
        if ids := graph.id_column.filter(pc.is_in(graph.id_column, pa.array(MISSING_WORDS))).to_pylist():
            log.warning(
                f"{self.path}: {', '.join(map(repr, ids[:3]))} {'is' if len(ids) == 1 else 'are'} taken for a "
                "node's id; drop the rows with it if it means that the id is missing"
            )

    def graph(self, ids: Any = None, *, as_text: bool = False) -> Graph:
        """The graph of its edges, in memory; `ids` and `as_text` as in `read_edges`."""
        nodes = None if ids is None else id_array(ids)
        as_text = as_text or (nodes is not None and is_text(nodes.type))
        build = lambda batches: Graph.from_batches(batches, nodes, self.values)  # noqa: E731
        graph = self.feed(build, ids=nodes, as_text=as_text)
        self.log_counts(graph.counts)
        self.log_missing_words(graph)
        return graph

    def build(self, folder: Path, **options: Any) -> Graph:
        """The graph of its edges, mapped from the folder that it was written to; `options` as in `build_folder`."""
        graph = build_folder(self.feed, folder, values=self.values, **options)
        self.log_counts(graph.counts)
        return graph

    def feed(self, build: Callable[[Iterable[Batch]], T], *, ids: pa.Array | None = None, as_text: bool = False) -> T:
        """The folder that `build` writes from its edges, which are read in batches.

        The batches of a text file are whole numbers if all of its ids are, else text: `build` starts again when one is
        not. A file with an error, or with ids of several kinds, is read at once, for the error to name its row.
        """
        kinds = TEXT_KINDS if self.in_text and not as_text else (None,)
        try:
            for kind in kinds:
                with contextlib.suppress(NotPlain):
                    return build(self._batches(kind, as_text))
        except (_BadRow, FeatureError) as error:
            raise self._locate(error) from None
        except GraphError:
            pass
        source, target = read_ids(self.table, self._positions, as_text=as_text)
        if len(source) == 0 and ids is None:
            way = (" (pass ", Argument("header", False), " if they are an edge)") if self.in_text else ()
            raise GraphError(f"{self.path} holds no edges, only column names", *way, "; expected one row or more")
        try:
            others = self._read_others()
            batch = self._batch(source, target, others, 0)
            if self.window is not None and batch.outside == len(source) and ids is None:
                raise self.window.empty(dict(zip(self.others, others, strict=True))["time"])
            return build(
                one._replace(outside=batch.outside if i == 0 else 0)
                for i, one in enumerate(
                    in_batches(batch.source, batch.target, ids, weight=batch.weight, kind=batch.kind)
                )
            )
        except GraphError as error:
            raise GraphError(f"{self.path}: ", error) from None

    def log_counts(self, counts: Counts) -> None:
        """Log which columns were read and what was merged and dropped."""
        log.info("%s: %s; %s", self.path, self, counts)

    @property
    def _positions(self) -> dict[str, int]:
        return dict(zip(("source", "target"), self.ends, strict=True))

    def _batches(self, kind: pa.DataType | str | None, as_text: bool) -> Iterator[Batch]:
        before = 0
        for columns in id_batches(self.table, self._positions, kind, self._other_types()):
            ids = columns[:2]
            if as_text:
                ids = [c.cast(pa.string()) if pa.types.is_integer(c.type) else c for c in ids]
            yield self._batch(ids[0], ids[1], columns[2:], before)
            before += len(ids[0])

    def columns_read(self) -> list[str]:
        """The names of the columns that are read: the ends, then the others."""
        return [self.table.names[i] for i in (*self.ends, *self.others.values())]

    def batch(self, columns: Sequence[Any], before: int) -> Batch:
        """The edges in these columns, those of `columns_read`, after so many rows of the table; none of weight 0."""
        try:
            batch = self._batch(columns[0], columns[1], list(columns[2:]), before)
        except (_BadRow, FeatureError) as error:
            raise self._locate(error) from None
        return batch if batch.weight is None or batch.weight.all() else batch.where(batch.weight != 0)

    def _batch(self, source: pa.Array, target: pa.Array, others: list[Any], before: int) -> Batch:
        """The rows within the time window, with checked weights; `before` is the number of rows before them."""
        columns = dict(zip(self.others, others, strict=True))
        inside = None
        if self.window is not None:
            try:
                inside = self.window.contains(columns["time"])
            except TimeError as error:
                raise _BadRow(before + error.row, "time", error) from None
        outside = 0 if inside is None else len(inside) - int(pc.sum(inside).as_py() or 0)
        weight, kind = columns.get("weight"), columns.get("kind")
        if inside is not None and outside:
            source, target = source.filter(inside), target.filter(inside)
            weight, kind = (None if column is None else column.filter(inside) for column in (weight, kind))
        if weight is not None:
            try:
                weight = checked_weights(weight)
            except WeightError as error:
                row = (
                    error.row
                    if inside is None
                    else int(np.flatnonzero(inside.to_numpy(zero_copy_only=False))[error.row])
                )
                raise _BadRow(before + row, "weight", error) from None
        return Batch(source, target, weight, kind, outside)

    def _other_types(self) -> dict[int, pa.DataType]:
        """The columns besides the ends, and the types they are read as from text."""
        return {i: pa.float64() if what == "weight" else pa.string() for what, i in self.others.items()}

    def _read_others(self) -> list[Any]:
        """The columns besides the ends, whole."""
        types = self._other_types()
        if not types:
            return []
        columns = self.table.read(list(types)) if isinstance(self.table, ArrowTable) else self.table.read(types)
        return [column.combine_chunks() for column in columns]

    def _locate(self, error: _BadRow | FeatureError) -> GraphError:
        """The error with the file and the line, or row, that it is about."""
        table = self.table
        if isinstance(error, FeatureError):  # text among the weights
            column = self.others.get("weight", self.ends[0])
            bad = None
            if isinstance(table, TextTable):
                bad = table.find(lambda row: not (is_number(row[column]) or is_missing(row[column])))
            got = "text" if bad is None else f"{bad[1][column]!r} in line {bad[0]:,}"
            return GraphError(
                f"{self.path}: ", Argument("weight"), f" must hold numbers, got {got}; name another column, or mend it"
            )
        where = f"row {error.row:,}"
        if isinstance(table, TextTable):
            count = itertools.count()
            line = table.find(lambda _: next(count) == error.row)
            where = where if line is None else f"line {line[0]:,}"
        if isinstance(error.reason, WeightError):
            got = weight_in_words(error.reason.value)
            what = "finite numbers from 0 up"
            advice = other_way(error.reason.value)
        else:
            value = error.reason.value
            got, what, advice = "none" if value is None else repr(value), error.reason.expected, ""
        return GraphError(
            f"{self.path}: ",
            Argument(error.column),
            f" must hold {what}, got {got} in {where}; mend or drop it{advice}",
        )


class _BadRow(Exception):  # noqa: N818  # becomes a GraphError that names the file
    """A row whose weight or time cannot be used."""

    def __init__(self, row: int, column: str, reason: WeightError | TimeError) -> None:
        super().__init__(row)
        self.row, self.column, self.reason = row, column, reason


def read_edges(path: str | os.PathLike[str], *, ids: Any = None, as_text: bool = False, **options: Any) -> Graph:
    """The graph of an edge file: Parquet, Arrow, CSV, TSV or a plain edge list, packed or not.

    `ids` are the nodes, in that order, edges or not; by default the ends of the edges. Whole numbers stay whole at any
    size, text stays text; with `as_text` whole numbers are text too. A graph folder is opened as it is.

    `options` are `source`, `target` and `header`, `weight`, `directed`, `kind`, `doubled`, `time`, `since` and `until`:
    the columns by name, and how they are read (see `rae.reading.EdgeOptions`).
    """
    check_path(path, "rae.Graph.from_dataframe")
    reading = EdgeOptions.of(options)
    if is_graph_folder(path):
        named = reading.first_set(*EDGE_OPTIONS[:3]) or ("ids" if ids is not None else "as_text" if as_text else None)
        if (named := named or reading.first_set(*EDGE_OPTIONS[3:])) is not None:
            raise GraphError(f"{path} is a graph folder, which takes no ", Argument(named, ...), "; leave it out")
        return open_graph(path)
    return open_edges(path, reading).graph(ids, as_text=as_text)


def open_edges(path: str | os.PathLike[str], options: EdgeOptions | None = None) -> EdgeFile:
    """The edge file and the columns that will be read; a guess is logged as a warning."""
    options = options or EdgeOptions()
    values, window = EdgeValues.of(options), TimeWindow.of(options)  # refused before the file is opened
    table = open_table(path, options.begins_with_names)
    if len(table.names) < 2:
        raise GraphError(
            f"{path} has one column, expected two: the ends of each edge, with a comma, tab or blank between"
        )
    try:
        ends, guessed = edge_columns(table.names, options.source, options.target)
        others = named_columns(table.names, ends, options.others)
    except GraphError as error:
        raise GraphError(f"{path}: ", error) from None
    opened = EdgeFile(path, table, ends, guessed, others, values, window)
    nodes = options.source is options.target is None and is_like_a_node_table(table.names)
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
