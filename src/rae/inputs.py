"""Inputs of a fit: edges and features are read, joined by id and counted.

Facts for the user (columns read, nodes added, rows dropped, counts) are logged at INFO by the logger `rae.inputs`; the
command line shows it without --quiet.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rae.errors import Argument, ConfigError, FeatureError, GraphError, MemoryWarning, Sentence
from rae.progress import Progress, size, stages
from rae.reading import EDGE_OPTIONS, EdgeOptions, named_header
from rae.reading import Reading as Reading

if TYPE_CHECKING:
    from rae.datasets.dataset import Dataset
    from rae.features import FeatureTable
    from rae.graph import Graph
    from rae.io.edges import EdgeFile

log = logging.getLogger("rae.inputs")

BUILD_BYTES = 400_000_000  # of a graph build, without the program and the edges in memory; text ids take the most


@dataclass(frozen=True)
class Inputs:
    """A graph and its features (or None), their counts, the seconds of reading them and the files they come from."""

    graph: Graph
    features: Any = None
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None  # of a matrix, which has none of its own


def read_inputs(
    edges: Any,
    features: Any = None,
    reading: Reading | None = None,
    *,
    memory: int | str | None = None,
    out: Path | None = None,
    like: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Inputs:
    """The graph and the features, joined by id and counted.

    `edges` is an edge file, a graph folder, a data frame or a Graph; `features` a file, a FeatureTable, a data frame or
    a matrix in row order. With `memory`, an edge file is built into a temporary graph folder beside `out`
    and mapped, so that reading keeps to the budget too. `like` are the feature columns of a fitted model, by which the
    columns of this table are encoded.
    """
    from rae.features import FeatureTable
    from rae.graph import Graph
    from rae.graph.folder import is_graph_folder
    from rae.graph.frames import is_frame

    reading = reading or Reading()
    if out is not None:
        discard_reading(out)
    began = time.perf_counter()
    if is_frame(edges):
        options = {name: getattr(reading, name) for name in EDGE_OPTIONS if name != "header"}
        edges = Graph.from_dataframe(edges, **options)
        reading = replace(reading, **vars(EdgeOptions(header=reading.header)))
    if isinstance(edges, Graph):
        graph, joined = _with_graph(edges, "a Graph", features, reading, like)
    elif not _is_path(edges):
        raise GraphError(
            Argument("edges"),
            f" must be an edge file, a graph folder, a data frame or a rae.Graph, got {type(edges).__name__}",
        )
    elif is_graph_folder(edges):
        graph, joined = _with_folder(os.fspath(edges), features, reading, like)
    else:
        graph, joined = _with_file(os.fspath(edges), features, reading, like, memory, out, progress)
    seconds = time.perf_counter() - began
    if _is_pairs(graph):
        log.warning(
            Sentence(
                "every edge has an end without another edge, as in a table of nodes and their values; if it is one, ",
                *("give it as ", Argument("features"), ", and a file of edges between nodes as ", Argument("edges")),
            )
        )
    counts = count(graph, joined)
    log.info(describe(counts))
    files = {name: _file(path) for name, path in (("edges", edges), ("features", features)) if _is_path(path)}
    if encodings := getattr(joined, "encodings", ()):
        files.get("features", {})["columns"] = {encoding.column: str(encoding) for encoding in encodings}
    names = None if isinstance(joined, FeatureTable) else _feature_names(reading)
    return Inputs(graph, joined, counts, seconds, files, names)


def dataset_inputs(data: Dataset) -> Inputs:
    """The graph and the features of a data set, with their names; words that other graphs lack or add are no error."""
    from rae.features import FeatureTable, is_sparse

    matrix, table = data.features, None
    if matrix is not None:
        table = FeatureTable(data.graph.id_column, matrix, data.feature_names, open_vocabulary=is_sparse(matrix))
    return Inputs(data.graph, table, count(data.graph, table))


def check_output(memory: int | str | None, half: bool, dtype: str, ray: str | None = None) -> None:
    """Refuse wrong settings before any file is read: a memory budget that is misspelt or less than the program takes,
    half precision of intermediate rows without a budget, an unknown dtype.
    """
    from rae.engine import memory_bytes
    from rae.engine.layout import PROGRAM
    from rae.io.embeddings import DTYPES

    if dtype not in DTYPES:
        raise ConfigError(Argument("dtype"), f" must be one of {', '.join(map(repr, DTYPES))}, got {dtype!r}")
    if memory is not None and memory_bytes(memory) < PROGRAM:  # what is left for the graph is known once it is read
        raise ConfigError(
            Argument("memory"),
            f" must be {PROGRAM / 2**30:.2f} GiB or more, which the program takes before any data, "
            f"got {memory_bytes(memory) / 2**30:.2f} GiB",
        )
    if memory is None and half and ray is None:
        raise ConfigError(
            *(Argument("half", True), " is about rows kept on disk, which ", Argument("memory", ...)),
            " asks for; pass both",
        )


def count(graph: Graph, features: Any) -> dict[str, int]:
    """The counts that a run keeps; `features` is the width of the given ones, 0 for structure alone."""
    matrix = getattr(features, "matrix", features)
    return {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "isolated": graph.n_isolated,
        "rows": graph.counts.rows,
        "doubled": graph.counts.doubled,
        "self_loops": graph.counts.self_loops,
        **{name: count for name, count in graph.counts.as_dict().items() if name in ("zeros", "outside")},
        "features": 0 if matrix is None else int(matrix.shape[1]),
    }


def _is_pairs(graph: Graph) -> bool:
    """Whether every edge has an end without another edge, as those of a node table have: of an id and a value."""
    import numpy as np

    for first in range(0, graph.n_nodes, 1 << 16):  # of most graphs the first nodes suffice
        offsets = np.asarray(graph.offsets[first : first + (1 << 16) + 1])
        degree = np.diff(offsets)
        ends = np.asarray(graph.targets[offsets[0] : offsets[-1]])[np.repeat(degree > 1, degree)].astype(np.int64)
        if (graph.offsets[ends + 1] - graph.offsets[ends] > 1).any():
            return False
    return graph.n_edges > 2


def describe(counts: Mapping[str, int]) -> str:
    """The counts in two lines."""
    width = counts["features"]
    columns = f"{width:,} action feature{'s' if width > 1 else ''}" if width else "no action features: structure alone"
    from rae.graph import Counts

    read = Counts(*(counts.get(name, 0) for name in ("rows", "self_loops", "doubled", "zeros", "outside")))
    others = read.rows - read.self_loops - read.doubled - read.zeros - read.outside - counts["edges"]
    more = f", {others:,} connect a pair again, in the other direction or by another kind" if others > 0 else ""
    first = f"{counts['nodes']:,} nodes, {counts['edges']:,} edges, {counts['isolated']:,} isolated; {columns}"
    return f"{first}\n{read}{more}"


# ------------------------------------------------------------------------------------- edges


def _with_graph(
    graph: Graph, what: str, features: Any, reading: Reading, like: Sequence[str] | None
) -> tuple[Graph, Any]:
    """The graph with these features; a matrix is in the graph's row order."""
    from rae.features import FeatureTable

    if name := reading.first_set(*EDGE_OPTIONS):
        raise GraphError(Argument(name), f" says how an edge file is read, {what}")
    table = read_features_of(features, reading, like)
    return _join(graph, table, reading) if isinstance(table, FeatureTable) else (graph, table)


def _with_folder(path: str, features: Any, reading: Reading, like: Sequence[str] | None) -> tuple[Graph, Any]:
    """The graph of a folder, mapped, and its features; a matrix from a file follows the ids, not the rows."""
    from rae.graph.folder import open_graph, row_order
    from rae.graph.ids import codes_and_ids

    graph, joined = _with_graph(open_graph(path), f"{path} is a graph folder", features, reading, like)
    if _is_bare_file(features, joined):
        log.info(_NO_IDS)
        if row_order(path) is not None and joined.shape[0] == graph.n_nodes:
            joined = joined[codes_and_ids(graph.id_column)[0]]  # the rank of each row's id among all
    return graph, joined


def _with_file(
    path: str,
    features: Any,
    reading: Reading,
    like: Sequence[str] | None,
    memory: int | str | None,
    out: Path | None,
    progress: Progress | None,
) -> tuple[Graph, Any]:
    from rae.features import FeatureTable
    from rae.io.edges import open_edges

    opened = open_edges(path, reading)
    if len(opened.table.names) > 2 and not opened.guessed:
        log.info(str(opened))
    if (suggestion := opened.suggestion) is not None:
        log.info(suggestion)
    graph = _read_graph(opened, path) if memory is None else _build_graph(opened, path, memory, out, progress)
    table = read_features_of(features, reading, like)
    if isinstance(table, FeatureTable):
        if _needs_text(graph, table, opened.in_text, reading):
            graph = opened.graph(as_text=True)
        return _join(graph, table, reading)
    if _is_bare_file(features, table):
        log.info(_NO_IDS)
    return graph, table


_NO_IDS = "features have no ids: row i is taken for the i-th node, ids in ascending order"


def _read_graph(opened: EdgeFile, path: str) -> Graph:
    """The graph of an edge file, in memory; a warning comes first where it will not fit."""
    from rae.engine.layout import PROGRAM
    from rae.plan import shortage

    needed = _reading_bytes(opened, path)
    short = None if needed is None else shortage(PROGRAM + needed)
    if short is not None:
        more, free = short
        warnings.warn(
            MemoryWarning(
                f"reading {path} will take about {size(more)} more memory and {size(free)} is available; pass ",
                *(Argument("memory", ...), ", or make a graph folder of it first (`rae graph build`)"),
            ),
            stacklevel=2,
        )
    return opened.graph()


def _build_graph(opened: EdgeFile, path: str, memory: int | str, out: Path | None, progress: Progress | None) -> Graph:
    """The graph of an edge file, mapped from a temporary folder that is deleted at once and freed with the process."""
    import pyarrow as pa

    from rae.engine import memory_bytes
    from rae.engine.layout import PROGRAM

    budget, needed = memory_bytes(memory), _reading_bytes(opened, path)
    least = PROGRAM + (BUILD_BYTES if needed is None else min(needed, BUILD_BYTES))
    if budget < least:
        warnings.warn(
            MemoryWarning(
                f"reading {path} may take up to {size(least)}, ",
                *(Argument("memory"), f" is {size(budget)}; make a graph folder of it first (`rae graph build`)"),
            ),
            stacklevel=2,
        )
    room = max(0, (budget - PROGRAM - BUILD_BYTES) // 2)
    with _place_of_graph(out) as folder:  # mapped files outlive their names
        graph = opened.build(folder, force=True, memory=room, report=stages(progress))
    pa.default_memory_pool().release_unused()  # Arrow pools the memory of reading
    return graph


@contextlib.contextmanager
def _place_of_graph(out: Path | None) -> Iterator[Path]:
    """The name of a folder for a graph that is mapped: hidden beside `out`, or a temporary one; removed at the end."""
    from rae.storage.scratch import scratch_folder

    if out is None:
        with scratch_folder() as scratch:
            yield scratch / "graph"
        return
    try:
        yield _hidden_graph(out)
    finally:
        discard_reading(out)


def _hidden_graph(out: Path) -> Path:
    target = out.resolve()  # "." alone has no name
    return target.with_name(f".{target.name}.graph")


def discard_reading(out: Path) -> None:
    """Remove the temporary graph that a killed process left beside `out`."""
    from rae.graph.folder_builder import discard_folder

    discard_folder(_hidden_graph(out))


def _reading_bytes(opened: EdgeFile, path: str) -> int | None:
    """Bytes that reading the file into memory takes, None where its rows cannot be estimated."""
    from rae.io.tables import expected_rows
    from rae.plan import reading_bytes

    rows = expected_rows(opened.table)
    return None if rows is None else reading_bytes(_file(path)["bytes"], rows, weighted=bool(opened.values))


# ---------------------------------------------------------------------------------- features


def read_features_of(features: Any, reading: Reading, like: Sequence[str] | None) -> Any:
    """The features as a FeatureTable or a matrix, None where there are none; a table with the names that are given."""
    from rae.features import FeatureTable

    read = _read_unnamed(features, reading, like)
    names = _feature_names(reading)
    return read.with_names(names) if names is not None and isinstance(read, FeatureTable) else read


def _feature_names(reading: Reading) -> tuple[str, ...] | None:
    """The names of feature columns that are given, or those of their file."""
    from rae.io.json_features import read_names

    names = reading.feature_names
    return None if names is None else read_names(names) if isinstance(names, (str, os.PathLike)) else tuple(names)


def _read_unnamed(features: Any, reading: Reading, like: Sequence[str] | None) -> Any:
    from rae.features import FeatureTable, check_matrix
    from rae.graph.frames import is_frame

    if not _is_path(features):
        name = reading.first_set("columns")
        if is_frame(features) and name is None:
            return _from_frame(features, reading, like)
        others = ("feature", "value", "id", "drop", "categories", *(("feature_names",) if features is None else ()))
        name = name or reading.first_set(*others)
        if name is not None:
            what = (
                (" is read, but there is no ", Argument("features")) if features is None else (" is read from a file",)
            )
            raise FeatureError(Argument(name), " says how ", Argument("features"), *what)
        return features if features is None or isinstance(features, FeatureTable) else check_matrix(features)
    from rae.io import read_features

    named = [name for names in (reading.columns, reading.drop, reading.categories) for name in names or ()]
    drop = reading.drop
    if reading.name is not None and reading.columns is None and reading.feature is None:
        drop = [*(drop or ()), reading.name]
    return read_features(
        features,
        header=named_header(reading.features_header, reading.id, reading.feature, reading.name, *named),
        id=reading.id,
        columns=reading.columns,
        drop=drop,
        categories=reading.categories,
        feature=reading.feature,
        value=reading.value,
        like=like,
    )


def _from_frame(frame: Any, reading: Reading, like: Sequence[str] | None) -> Any:
    """The table of a data frame that has ids, the matrix of one that has none."""
    from rae.features import FeatureTable, check_matrix
    from rae.graph.column_names import ID, usual
    from rae.graph.frames import as_table, own_index

    names = as_table(frame).column_names
    if reading.id is None and own_index(frame) is None and usual(names, ID) is None:
        return check_matrix(frame)
    return FeatureTable.from_dataframe(
        frame,
        reading.id,
        drop=[*(reading.drop or ()), *(() if reading.name is None else (reading.name,))],
        categories=reading.categories or (),
        feature=reading.feature,
        value=reading.value,
        like=like,
    )


def _is_bare_file(features: Any, matrix: Any) -> bool:
    """Whether the features are a file without ids."""
    from rae.features import FeatureTable

    return _is_path(features) and not isinstance(matrix, FeatureTable)


# ---------------------------------------------------------------------------------- joining


def _needs_text(graph: Graph, table: FeatureTable, in_text: bool, reading: Reading) -> bool:
    """Whether the nodes must be text: new ones come with the features, which are text, and so were the edges."""
    import pyarrow as pa

    from rae.graph.ids import index_in, is_text

    differ = pa.types.is_integer(graph.id_column.type) and is_text(table.id_column.type)
    matches = index_in(table.id_column, graph.id_column) if differ else None
    partly = matches is not None and 0 < matches.null_count < len(matches)
    return partly and in_text and reading.unknown == "isolated"


def _join(graph: Graph, table: FeatureTable, reading: Reading) -> tuple[Graph, FeatureTable]:
    """Graph and table with the same ids, as `unknown` and `missing` say."""
    import pyarrow.compute as pc

    from rae.graph.ids import index_in, shown

    matches = index_in(table.id_column, graph.id_column)
    n_unknown = matches.null_count
    if n_unknown == len(table.id_column):
        raise FeatureError(
            f"none of the {n_unknown:,} feature ids is a node: feature ids are {table.id_column.type} such as "
            f"{shown(table.id_column)}, node ids are {graph.id_column.type} such as {shown(graph.id_column)}; check ",
            *(Argument("id"), ", ", Argument("source"), " and ", Argument("target")),
        )
    unknown = table.id_column.filter(pc.is_null(matches))
    if n_unknown and reading.unknown == "error":
        raise FeatureError(
            f"{n_unknown:,} feature rows have no edge, first {shown(unknown)}; pass ",
            *(Argument("unknown", "isolated"), " to make them nodes without a neighbour, or "),
            *(Argument("unknown", "drop"), " to leave them out"),
        )
    if n_unknown and reading.unknown == "isolated":
        graph = graph.with_nodes(_in_kind(unknown, graph))
        log.info(f"{n_unknown:,} feature rows have no edge, first {shown(unknown)}: added as isolated nodes")
    elif n_unknown and reading.unknown == "drop":
        log.info(f"{n_unknown:,} feature rows have no edge: left out")
    matrix = table.aligned(graph, missing=reading.missing, unknown="drop" if reading.unknown == "drop" else "error")
    n_missing = graph.n_nodes - (len(table.id_column) - (n_unknown if reading.unknown == "drop" else 0))
    if n_missing:
        log.info(f"{n_missing:,} nodes have no feature row: zeros{_far_zeros(table)}")
    return graph, replace(table, id_column=graph.id_column, matrix=matrix)


def _far_zeros(table: FeatureTable) -> str:
    """A warning if 0 lies outside of what the rows of the table have, as for an age."""
    import numpy as np

    ends = (table.matrix.min(axis=0), table.matrix.max(axis=0))
    low, high = (np.ravel(end if isinstance(end, np.ndarray) else end.toarray()) for end in ends)
    if not len(far := np.flatnonzero((low > 0) | (high < 0))):
        return ""
    first = repr(table.names[far[0]]) if table.names else f"{far[0]:,} of the list"
    others = f" and {len(far) - 1:,} more" if len(far) > 1 else ""
    return (
        f", which nobody has in column {first}{others} ({low[far[0]]:g} to {high[far[0]]:g}): they will look far from "
        "everybody; better give them rows with the mean"
    )


def _in_kind(ids: Any, graph: Graph) -> Any:
    """The ids in the type of the graph's own, where each can be written so."""
    import pyarrow as pa

    from rae.graph.ids import in_words, shown

    try:
        return ids.cast(graph.id_column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise FeatureError(
            f"{len(ids):,} feature rows have no edge and cannot be nodes: ids are {in_words(ids.type)} there, first "
            f"{shown(ids)}, and {in_words(graph.id_column.type)} in the edges; write both in one kind, or pass ",
            Argument("unknown", "drop"),
        ) from None


def is_table(value: Any) -> bool:
    """Whether this is a file that is read, or a data frame."""
    from rae.graph.folder import is_graph_folder
    from rae.graph.frames import is_frame

    return not is_graph_folder(value) if _is_path(value) else is_frame(value)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _file(path: str | os.PathLike[str]) -> dict[str, Any]:
    from rae.storage.objects import ObjectPath, place

    where = place(path)
    if isinstance(where, ObjectPath):
        return {"path": str(where), "bytes": where.size()}
    files = where.iterdir() if where.is_dir() else [where]
    return {"path": os.fspath(path), "bytes": sum(file.stat().st_size for file in files)}
