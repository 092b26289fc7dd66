"""What an update asks for: edges that come and go, new nodes, features; checked against the graph as it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from rae.errors import Argument, FeatureError, GraphError
from rae.features import FeatureTable, check_matrix, is_sparse
from rae.graph import Graph
from rae.graph.column_names import edge_columns
from rae.graph.frames import as_table, is_frame
from rae.graph.graph import two_columns
from rae.graph.id_numbering import ONE_KIND
from rae.graph.ids import distinct, id_array, index_in, is_text, one_kind, shown
from rae.inputs import Reading, named_header, read_features_of
from rae.io.edges import open_edges

Ints = np.ndarray[Any, np.dtype[np.int64]]
Adjacent = Callable[[Ints, Ints], Any]

STRANGE = 10  # edges without one known end from which on they are taken for those of another graph


class Ids:
    """The ids of the nodes: those of a graph, then those that came later."""

    def __init__(self, graph: Graph, later: pa.Array) -> None:
        self._graph, self._later = graph, later

    @property
    def column(self) -> pa.Array:
        """All of them, in row order."""
        return pa.concat_arrays([self._graph.id_column, self._later]) if len(self._later) else self._graph.id_column

    @property
    def kind(self) -> pa.DataType:
        """Their type."""
        return self._graph.id_column.type

    def __len__(self) -> int:
        return self._graph.n_nodes + len(self._later)

    def find(self, wanted: pa.Array) -> Ints:
        """The row of each id, -1 where there is none."""
        rows: Any = self._graph.find(wanted)
        if len(self._later):
            later = _positions(index_in(wanted, self._later))
            rows = np.where(later >= 0, later + self._graph.n_nodes, rows)
        out: Ints = rows
        return out

    def as_own_kind(self, ids: pa.Array, what: str) -> pa.Array:
        """Ids in the type of the graph's; those of another kind are refused."""
        if len(ids) == 0:
            return pa.array([], self.kind)
        try:
            if one_kind(ids, pa.array([], self.kind)) is not None and _same_kind(ids.type, self.kind):
                return ids.cast(self.kind) if ids.type != self.kind else ids
        except pa.ArrowInvalid:
            pass
        raise GraphError(f"{what} have ids of type {ids.type}, the run's are {self.kind}; {ONE_KIND}")


@dataclass(frozen=True)
class Edits:
    """Edges as rows, those that go first, then those that come; ids of new nodes; features of some rows."""

    us: Ints
    vs: Ints
    adds: Any  # (e,) bool
    new_ids: pa.Array
    features: tuple[Ints, Any] | None
    n_already_there: int = 0
    n_self_loops: int = 0

    @property
    def n_removed(self) -> int:
        return int((~self.adds).sum())

    @property
    def n_added(self) -> int:
        return int(self.adds.sum())

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not len(self.us) and not len(self.new_ids) and self.features is None


def check_edits(
    ids: Ids, adjacent: Adjacent, added: Any, removed: Any, features: Any, reading: Reading, width: int, names: Any
) -> Edits:
    """The edits that these edges and features are; what is not possible is refused, in one sentence.

    `width` and `names` are those of the feature columns that the model reads, 0 for structure alone.
    """
    gone = [ids.as_own_kind(column, "edges to remove") for column in _columns(removed, reading, ids.kind)]
    come = [ids.as_own_kind(column, "edges to add") for column in _columns(added, reading, ids.kind)]
    gone_rows = _pairs(*(ids.find(column) for column in gone))
    _refuse_absent(gone, gone_rows, adjacent)
    table = _feature_table(features, reading, width, names, ids)
    wanted = [*come, *([] if table is None or reading.unknown == "drop" else [table.id_column])]
    known = ids.find(joined := pa.concat_arrays([column.cast(ids.kind) for column in wanted] or [_no_ids(ids)]))
    _refuse_strange(come, known)
    new_ids = distinct(joined.filter(pa.array(known < 0)))
    if table is not None and reading.unknown == "error" and (known[2 * len(come[0]) :] < 0).any():
        unknown = table.id_column.filter(pa.array(known[2 * len(come[0]) :] < 0))
        raise FeatureError(f"{len(unknown):,} feature rows are of ids that are not in the run, first {shown(unknown)}")
    now = Ids(_Appended(ids), new_ids)  # type: ignore[arg-type]  # as good as a graph for looking ids up
    pairs = _pairs(*(now.find(column) for column in come))
    loops = pairs[:, 0] == pairs[:, 1]
    pairs = np.unique(pairs[~loops], axis=0)
    there = np.zeros(len(pairs), bool)
    old = (pairs < len(ids)).all(1)
    there[old] = adjacent(pairs[old, 0], pairs[old, 1])
    gone_rows = np.unique(gone_rows, axis=0)
    _refuse_both(ids, gone_rows, pairs)
    us, vs = np.concatenate([gone_rows, pairs[~there]]).T
    adds = np.arange(len(us)) >= len(gone_rows)
    given = _feature_rows(table, now, len(ids), new_ids, reading, width)
    return Edits(us, vs, adds, new_ids, given, int(there.sum()), int(loops.sum()))


def one_row(features: Any, width: int, names: Sequence[str] | None, like: Any) -> Any:
    """The features of one node as a row of the kind that a run has: numbers in order, or by name."""
    if (features is None) != (width == 0):
        raise FeatureError(
            "the model was fitted on structure alone, got features; leave them out"
            if width == 0
            else f"the model was fitted with {width:,} features, got none for the new node; pass ",
            *(() if width == 0 else (Argument("features", ...),)),
        )
    if features is None:
        return None
    if isinstance(features, Mapping):
        known = {name: j for j, name in enumerate(names or ())}
        if unknown := [name for name in features if name not in known]:
            raise FeatureError(f"the model knows no feature {unknown[0]!r}; it has {len(known):,} by name")
        row: Any = np.zeros((1, width), np.float32)
        for name, value in features.items():
            row[0, known[name]] = value
    else:
        row = check_matrix(features if sp.issparse(features) else np.asarray(features, np.float32).reshape(1, -1), 1)
    if row.shape[1] != width:
        raise FeatureError(f"the model was fitted on {width:,} feature columns, got {row.shape[1]:,}")
    return sp.csr_array(row) if is_sparse(like) else check_matrix(row, 1)


class _Appended:
    """Ids in the place of a graph's: what `Ids` asks of a graph."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.n_nodes, self.id_column = len(ids), pa.array([], ids.kind)

    def find(self, wanted: pa.Array) -> Ints:
        return self._ids.find(wanted)


def _same_kind(first: pa.DataType, second: pa.DataType) -> bool:
    both = (first, second)
    return (
        first == second
        or all(map(is_text, both))
        or all(map(pa.types.is_integer, both))
        or (first.id == second.id and bool(pa.types.is_temporal(first) or pa.types.is_decimal(first)))
    )


def _no_ids(ids: Ids) -> pa.Array:
    return pa.array([], ids.kind)


def _positions(found: pa.Array) -> Ints:
    """Positions of `index_in`, -1 for null."""
    out: Ints = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return out


def _pairs(us: Ints, vs: Ints) -> Ints:
    """Both ends of each edge, the smaller row first.  -> (m, 2)"""
    return np.stack([np.minimum(us, vs), np.maximum(us, vs)], 1)


def _columns(edges: Any, reading: Reading, kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """The two columns of ids of edges in a file, a data frame, pairs or arrays."""
    empty = pa.array([], kind)
    if edges is None:
        return empty, empty
    if isinstance(edges, (str, os.PathLike)):
        header = named_header(reading.header, reading.source, reading.target)
        opened = open_edges(edges, source=reading.source, target=reading.target, header=header)
        batches = opened.feed(list, ids=empty, as_text=is_text(kind))
        sources, targets = ([batch[i] for batch in batches] for i in (0, 1))
        return (id_array(pa.chunked_array(sources)), id_array(pa.chunked_array(targets))) if batches else (empty, empty)
    if is_frame(edges):
        table = as_table(edges)
        ends, _ = edge_columns(table.column_names, reading.source, reading.target)
        return id_array(table.column(ends[0])), id_array(table.column(ends[1]))
    if isinstance(edges, Graph):
        table = edges.to_arrow()
        return id_array(table.column(0)), id_array(table.column(1))
    if not isinstance(edges, tuple) and hasattr(edges, "__len__") and len(edges) == 0:
        return empty, empty
    return two_columns(edges)


def _refuse_absent(gone: Sequence[pa.Array], rows: Ints, adjacent: Adjacent) -> None:
    """Refuse edges to remove that are not in the graph."""
    known: Any = (rows >= 0).all(1)
    there = np.zeros(len(rows), bool)
    there[known] = adjacent(rows[known, 0], rows[known, 1])
    if not there.all():
        first = int(np.flatnonzero(~there)[0])
        edge = " to ".join(repr(column[first].as_py()) for column in gone)
        why = "" if known[first] else ", whose ends are not both nodes of the run"
        raise GraphError(
            f"{int((~there).sum()):,} of {len(rows):,} edges to remove are not in the graph, first {edge}{why}; "
            "nothing was changed: is this the right run? leave those edges out"
        )


def _refuse_strange(come: Sequence[pa.Array], known: Ints) -> None:
    """Refuse many edges none of which has an end in the graph: they are of another one."""
    n = len(come[0])
    if n >= STRANGE and (known[: 2 * n] < 0).all():
        raise GraphError(
            f"none of the {n:,} edges to add has an end that is a node of the run, first {shown(come[0], 1)}; "
            "nothing was changed: is this another graph?"
        )


def _refuse_both(ids: Ids, gone: Ints, come: Ints) -> None:
    """Refuse edges that are to be removed and added."""
    both = set(map(tuple, gone.tolist())) & set(map(tuple, come.tolist()))
    if both:
        u, v = (ids.column[row].as_py() for row in min(both))
        raise GraphError(f"{len(both):,} edges are to be removed and added, first {u!r} to {v!r}; do one of both")


def _feature_table(features: Any, reading: Reading, width: int, names: Any, ids: Ids) -> FeatureTable | None:
    if features is None:
        return None
    if width == 0:
        raise FeatureError("the model was fitted on structure alone, got features; leave them out")
    table = features if isinstance(features, FeatureTable) else read_features_of(features, reading, names)
    if not isinstance(table, FeatureTable):
        raise FeatureError(
            "features of an update are found by id, got a matrix without ids; pass a table with a column of ids"
        )
    if names is not None:
        table = table.with_columns(names)
    if table.width != width:
        raise FeatureError(f"the model was fitted on {width:,} feature columns, got {table.width:,}")
    own = ids.as_own_kind(table.id_column, "features")
    return FeatureTable(own, table.matrix, table.names, table.open_vocabulary, table.encodings)


def _feature_rows(
    table: FeatureTable | None, ids: Ids, n_before: int, new_ids: pa.Array, reading: Reading, width: int
) -> tuple[Ints, Any] | None:
    """The feature rows that change, ascending, with those of all new nodes."""
    if width == 0:
        return None
    new = np.arange(n_before, n_before + len(new_ids))
    rows = np.empty(0, np.int64) if table is None else ids.find(table.id_column)
    absent = np.setdiff1d(new, rows)
    if len(absent) and reading.missing == "error":
        lacking = new_ids.take(pa.array(absent - n_before))
        raise FeatureError(
            f"{len(absent):,} of {len(new):,} new nodes have no feature row, first {shown(lacking)}; ",
            *("add them, or pass ", Argument("missing", "zero"), " to give them zeros"),
        )
    keep = rows >= 0
    values: Any = sp.csr_array((0, width), dtype=np.float32) if table is None else table.matrix[np.flatnonzero(keep)]
    if len(absent):
        values = sp.csr_array(sp.vstack([sp.csr_array(values), sp.csr_array((len(absent), width), dtype=np.float32)]))
    rows = np.concatenate([rows[keep], absent])
    order = np.argsort(rows)
    return (rows[order], values[order]) if len(rows) else None
