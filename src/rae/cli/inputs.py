"""The options that say how files are read, and the reading itself, counted and reported."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, size
from rae.cli.progress import Progress
from rae.cli.settings import bundled, flag
from rae.errors import FeatureError

if TYPE_CHECKING:
    from rae.features import FeatureTable
    from rae.graph import Graph
    from rae.io.edges import EdgeFile

BUILDING = 400_000_000  # bytes that a build takes beside the program and the edges it holds, most of all for text ids


@dataclass(frozen=True)
class Reading:
    """Which files, and how to read them, as the user typed it."""

    edges: str
    features: str | None = None
    source: str | None = None
    target: str | None = None
    header: bool | None = None
    features_header: bool | None = None
    id_column: str | None = None
    columns: str | None = None
    feature_column: str | None = None
    value_column: str | None = None
    missing: str = "error"
    unknown: str = "isolated"


@dataclass(frozen=True)
class Inputs:
    """What was read: the graph, its features or None, what was counted and how long it took."""

    graph: Graph
    features: Any
    counts: dict[str, int]
    seconds: float
    files: dict[str, dict[str, Any]] = field(default_factory=dict)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with EDGES, --features and the options of reading; it gets one Reading, `reading`."""
    wrapped = bundled(command, "reading", Reading)
    for option in (
        click.option(
            "--unknown",
            type=click.Choice(["isolated", "drop", "error"]),
            default="isolated",
            show_default=True,
            help="feature rows whose id has no edge: isolated nodes, left out, or an error",
        ),
        click.option(
            "--missing",
            type=click.Choice(["error", "zero"]),
            default="error",
            show_default=True,
            help="nodes without a feature row: an error, or zeros",
        ),
        click.option("--value-column", metavar="NAME", help="long feature tables (id, feature, value): the value"),
        click.option(
            "--feature-column", metavar="NAME", help="long feature tables (id, feature[, value]): the feature"
        ),
        click.option("--columns", metavar="NAME,NAME", help="columns of --features to use  [default: all but the id]"),
        click.option("--id-column", metavar="NAME", help="column of --features that holds the node's id"),
        click.option(
            "--features-header/--no-features-header", default=None, help="whether --features begins with column names"
        ),
        click.option("--header/--no-header", default=None, help="whether EDGES begins with column names"),
        click.option("--target", metavar="NAME", help="column of EDGES that holds the other end"),
        click.option("--source", metavar="NAME", help="column of EDGES that holds one end"),
        click.option("--features", metavar="FILE", help="action features: Parquet, CSV, TSV, .npz or .npy"),
        click.argument("edges", metavar="EDGES"),
    ):
        wrapped = option(wrapped)
    return wrapped


def read_inputs(reading: Reading, console: Console, *, memory: str | None = None, beside: Path | None = None) -> Inputs:
    """The graph and the features of these files; what was merged, dropped or added is said aloud.

    With `memory`, edges that are no graph folder yet become one on the disk of `beside`, and reading keeps to it too.
    """
    from rae.graph.folder import is_graph_folder

    began = time.perf_counter()
    if is_graph_folder(reading.edges):
        graph, features = _from_folder(reading, console)
    else:
        graph, features = _from_file(reading, console, memory, beside)
    spent = time.perf_counter() - began
    counts = counted(graph, features)
    console.note(described(counts))
    files = {"edges": _file(reading.edges)} | ({"features": _file(reading.features)} if reading.features else {})
    return Inputs(graph, features, counts, spent, files)


def _from_file(reading: Reading, console: Console, memory: str | None, beside: Path | None) -> tuple[Graph, Any]:
    from rae.features import FeatureTable
    from rae.io.edges import open_edges

    header = named_header(reading.header, reading.source, reading.target)
    opened = open_edges(reading.edges, source=reading.source, target=reading.target, header=header)
    if len(opened.table.names) > 2 and not opened.guessed:
        console.note(str(opened))
    if memory is None:
        graph = _read_whole(opened, reading, console)
    else:
        graph = _built(opened, reading, memory, beside, console)
    features = _read_features(reading)
    if isinstance(features, FeatureTable):
        if _needs_text(graph, features, opened.in_text, reading):
            graph = opened.graph(as_text=True)
        return _joined(graph, features, reading, console)
    if features is not None:
        console.note("features have no ids: row i is taken for the i-th node, ids in ascending order")
    return graph, features


def _read_whole(opened: EdgeFile, reading: Reading, console: Console) -> Graph:
    """The graph, read into memory; that it will not fit is said before."""
    from rae.engine.layout import PROGRAM
    from rae.plan import shortage

    taken = _reading_bytes(opened, reading)
    short = None if taken is None else shortage(PROGRAM + taken)
    if short is not None:
        console.warn(
            f"reading {reading.edges} will take about {size(short[0])} more memory and {size(short[1])} is available; "
            "pass --memory, or make a graph folder of it first (`rae graph build`)"
        )
    return opened.graph()


def _built(opened: EdgeFile, reading: Reading, memory: str, beside: Path | None, console: Console) -> Graph:
    """The graph, mapped from a folder that was made of the file and is gone when this process ends."""
    import pyarrow as pa

    from rae.engine import memory_bytes
    from rae.engine.layout import PROGRAM
    from rae.io.build import build_opened

    told, taken = memory_bytes(memory), _reading_bytes(opened, reading)
    least = PROGRAM + (BUILDING if taken is None else min(taken, BUILDING))
    if told < least:
        console.warn(
            f"reading {reading.edges} may take up to {size(least)}, --memory is {size(told)}; "
            "make a graph folder of it first (`rae graph build`)"
        )
    room = max(0, (told - PROGRAM - BUILDING) // 2)
    whole = None if beside is None else beside.resolve()  # "." has no name to put another beside
    folder = Path(tempfile.mkdtemp()) / "graph" if whole is None else whole.with_name(f".{whole.name}.graph")
    with console.progress() as progress:
        graph = build_opened(opened, folder, force=True, room=room, report=stages(progress))
    shutil.rmtree(folder if beside else folder.parent, ignore_errors=True)  # what is mapped stays as long as we do
    pa.default_memory_pool().release_unused()  # Arrow keeps what reading took
    return graph


def _reading_bytes(opened: EdgeFile, reading: Reading) -> int | None:
    """Bytes that reading the file into memory takes, None where its rows cannot be told."""
    from rae.io.tables import expected_rows
    from rae.plan import reading_bytes

    rows = expected_rows(opened.table)
    return None if rows is None else reading_bytes(_file(reading.edges)["bytes"], rows)


def stages(progress: Progress | None) -> Callable[[str, int, int], None]:
    """A report of stages that goes to the progress, if it is shown."""
    return lambda stage, done, total: None if progress is None else progress(stage, done, total, {})


def _from_folder(reading: Reading, console: Console) -> tuple[Graph, Any]:
    """The graph of a folder, mapped, and its features; rows without ids follow the ids, whatever the folder's order."""
    from rae.features import FeatureTable
    from rae.graph.folder import open_graph, row_order

    for name in ("source", "target", "header"):
        if getattr(reading, name) is not None:
            raise click.UsageError(f"{flag(name)} says how an edge file is read, {reading.edges} is a graph folder")
    graph = open_graph(reading.edges)
    features = _read_features(reading)
    if isinstance(features, FeatureTable):
        return _joined(graph, features, reading, console)
    if features is not None:
        console.note("features have no ids: row i is taken for the i-th node, ids in ascending order")
        if row_order(reading.edges) is not None and features.shape[0] == graph.n_nodes:
            features = features[_places(graph)]
    return graph, features


def _places(graph: Graph) -> Any:
    """For each row the place of its id among all ids, ascending."""
    from rae.graph.ids import coded

    return coded(graph.id_column)[0]


def counted(graph: Graph, features: Any) -> dict[str, int]:
    """What a run says about its graph; `features` is the width given, 0 for structure alone."""
    matrix = getattr(features, "matrix", features)
    return {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "isolated": graph.n_isolated,
        "rows": graph.counts.rows,
        "doubled": graph.counts.doubled,
        "self_loops": graph.counts.self_loops,
        "features": 0 if matrix is None else int(matrix.shape[1]),
    }


def described(counts: dict[str, int]) -> str:
    """The counts in two lines."""
    width = counts["features"]
    given = f"{width:,} action features" if width else "no action features: structural ones (degrees) are used"
    return (
        f"{counts['nodes']:,} nodes, {counts['edges']:,} edges, {counts['isolated']:,} isolated; {given}\n"
        f"{counts['rows']:,} rows read, {counts['doubled']:,} doubled merged, "
        f"{counts['self_loops']:,} self-loops dropped"
    )


def _read_features(reading: Reading) -> Any:
    if reading.features is None:
        for name in ("id_column", "columns", "feature_column", "value_column"):
            if getattr(reading, name) is not None:
                raise click.UsageError(f"{flag(name)} says how --features is read, but there is no --features")
        return None
    from rae.io import read_features

    columns = reading.columns.split(",") if reading.columns else None
    header = named_header(reading.features_header, reading.id_column, reading.feature_column, *(columns or ()))
    return read_features(
        reading.features,
        header=header,
        id=reading.id_column,
        columns=columns,
        feature=reading.feature_column,
        value=reading.value_column,
    )


def named_header(told: bool | None, *names: str | None) -> bool | None:
    """Whether the file has a header: as told, else yes if columns are asked for by a name, else unknown."""
    return True if told is None and any(name and not name.isdigit() for name in names) else told


def _needs_text(graph: Graph, table: FeatureTable, in_text: bool, reading: Reading) -> bool:
    """Whether the nodes must be text: new ones come with the features, which are text, and so were the edges."""
    import pyarrow as pa

    from rae.graph.ids import index_in, is_text

    differ = pa.types.is_integer(graph.id_column.type) and is_text(table.id_column.type)
    known = index_in(table.id_column, graph.id_column) if differ else None
    partly = known is not None and 0 < known.null_count < len(known)
    return partly and in_text and reading.unknown == "isolated"


def _joined(graph: Graph, table: FeatureTable, reading: Reading, console: Console) -> tuple[Graph, FeatureTable]:
    """Graph and table with the same ids, as --unknown and --missing say."""
    import pyarrow.compute as pc

    from rae.features import FeatureTable
    from rae.graph.ids import index_in, shown

    known = index_in(table.id_column, graph.id_column)
    strangers = known.null_count
    if strangers == len(table.id_column):
        raise FeatureError(
            f"none of the {strangers:,} feature ids is a node: feature ids are {table.id_column.type} such as "
            f"{shown(table.id_column)}, node ids are {graph.id_column.type} such as {shown(graph.id_column)}; "
            "check --id-column, --source and --target"
        )
    lonely = table.id_column.filter(pc.is_null(known))
    if strangers and reading.unknown == "error":
        raise FeatureError(
            f"{strangers:,} feature rows have no edge, first {shown(lonely)}; pass --unknown isolated to make them "
            "nodes without a neighbour, or --unknown drop to leave them out"
        )
    if strangers and reading.unknown == "isolated":
        graph = graph.with_nodes(_in_kind(lonely, graph))
        console.note(f"{strangers:,} feature rows have no edge, first {shown(lonely)}: added as isolated nodes")
    elif strangers and reading.unknown == "drop":
        console.note(f"{strangers:,} feature rows have no edge: left out")
    matrix = table.aligned(graph, missing=reading.missing, unknown="drop" if reading.unknown == "drop" else "error")
    lacking = graph.n_nodes - (len(table.id_column) - (strangers if reading.unknown == "drop" else 0))
    if lacking:
        console.note(f"{lacking:,} nodes have no feature row: zeros")
    return graph, FeatureTable(graph.id_column, matrix, table.names, table.open_vocabulary)


def _in_kind(ids: Any, graph: Graph) -> Any:
    """The ids in the kind of the graph's own, where each can be written so."""
    import pyarrow as pa

    from rae.graph.ids import in_words, shown

    try:
        return ids.cast(graph.id_column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise FeatureError(
            f"{len(ids):,} feature rows have no edge and cannot be nodes: ids are {in_words(ids.type)} there, first "
            f"{shown(ids)}, and {in_words(graph.id_column.type)} in the edges; write both in one kind, or pass "
            "--unknown drop"
        ) from None


def _file(path: str | None) -> dict[str, Any]:
    assert path is not None
    there = Path(path)
    files = there.iterdir() if there.is_dir() else [there]
    return {"path": path, "bytes": sum(file.stat().st_size for file in files)}
