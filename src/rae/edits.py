"""The edits of an update: edges to add, remove and change, new nodes, features; checked against the current graph.

Edges are read as the fit read them: with weights, directions and kinds where the run has these, doubled ones merged by
its rule. One that is there already is merged with that too: weights are added, or the larger one stays. An edge goes
whole, with its weight; that of one direction and kind goes alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from rae.errors import Argument, ConfigError, FeatureError, GraphError
from rae.features import FeatureTable, check_matrix, is_sparse
from rae.graph import Graph
from rae.graph.builder import Batch
from rae.graph.channels import IN, OUT, EdgeValues, checked_weights, kind_column, kinds_of, mirrored
from rae.graph.digest import rows_digest
from rae.graph.frames import as_table, is_frame
from rae.graph.given_edges import frame_columns, two_columns
from rae.graph.id_numbering import ONE_KIND
from rae.graph.ids import cast_to_kind, distinct, id_array, is_text, positions_in, shown
from rae.inputs import read_features_of
from rae.io.edges import open_edges
from rae.io.tables import open_table
from rae.model.channels import in_words, refuse_others, refuse_unknown_kinds
from rae.ops.edits import CHANGES, COMES, GOES, EditedRows
from rae.reading import Reading

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float32]]

log = logging.getLogger("rae")

STRANGE = 10  # edges without one known end that are refused as those of another graph
GONE, COME = "edges to remove", "edges to add"


class Ids:
    """The ids of the nodes: those of a graph, then those of later nodes."""

    def __init__(self, graph: Graph, later: pa.Array) -> None:
        self._graph, self._later = graph, later

    def with_new(self, ids: pa.Array) -> Ids:
        """These ids, then further ones of the same type."""
        return Ids(self._graph, pa.concat_arrays([self._later, ids]))

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

    def find(self, ids: pa.Array) -> Ints:
        """The row of each id, -1 where there is none."""
        rows: Any = self._graph.find(ids)
        if len(self._later):
            later = positions_in(ids, self._later)
            rows = np.where(later >= 0, later + self._graph.n_nodes, rows)
        out: Ints = rows
        return out

    def as_own_kind(self, ids: pa.Array, what: str) -> pa.Array:
        """Ids in the type of the graph's; those of another kind are refused."""
        cast = cast_to_kind(ids, self.kind)
        if cast is None:
            raise GraphError(f"{what} have ids of type {ids.type}, the run's are {self.kind}; {ONE_KIND}")
        return cast


@dataclass(frozen=True)
class EdgeForm:
    """The form of a run's edges: their channels, and how rows of a table become weights in these."""

    channels: tuple[str, ...] = ()
    weighted: bool = False
    values: EdgeValues = field(default_factory=EdgeValues)

    @classmethod
    def of(cls, graph: Graph, reading: Reading, record: Mapping[str, Any]) -> EdgeForm:
        """The form of a graph whose fit kept this record of how it was read; what contradicts it is refused."""
        words = in_words(tuple(graph.channels), graph.weighted)
        has = {"weight": graph.weighted, "directed": graph.directed, "kind": bool(graph.kinds)}
        for name, present in has.items():
            if not present and reading.first_set(name):
                raise GraphError(Argument(name), f" does not go with the run, whose edges are {words}; leave it out")
        weight, doubled = (getattr(reading, name) or record.get(name) for name in ("weight", "doubled"))
        doubled = doubled or (graph.doubled if graph.weighted else None)
        if doubled in ("add", "count") and not graph.weighted:
            raise ConfigError(
                Argument("doubled", doubled), f" makes weights, and the edges of the run are {words}; leave it out"
            )
        counts_rows = weight is None and doubled in ("add", "count")
        values = EdgeValues(
            graph.weighted and not counts_rows, graph.directed, bool(graph.kinds), doubled or graph.values.doubled
        )
        return cls(tuple(graph.channels), graph.weighted, values if graph.channels else EdgeValues())

    @property
    def kinds(self) -> tuple[str, ...]:
        return kinds_of(self.channels)

    @property
    def mirror(self) -> list[int]:
        """The index of each channel as seen from the other end of an edge."""
        return [self.channels.index(mirrored(name)) for name in self.channels]

    @property
    def columns(self) -> list[str]:
        """The columns of a table of edges after its ends."""
        return [*(["weight"] if self.values.weighted else []), *(["kind"] if self.kinds else [])]


class Arcs(NamedTuple):
    """Edges by row, merged: each direction and kind once, an undirected edge once, with source < target."""

    source: Ints
    target: Ints
    weight: Floats
    kind: Ints
    n_self_loops: int = 0


@dataclass(frozen=True)
class Edits:
    """Edges as rows and what becomes of each, for `EditedRows.edit`; ids of new nodes; features of some rows."""

    us: Ints
    vs: Ints
    edits: Any  # (e,) GOES, COMES or CHANGES
    values: Any  # (e, 2, channels)
    new_ids: pa.Array
    features: tuple[Ints, Any] | None
    n_added: int = 0
    n_removed: int = 0
    n_changed: int = 0  # edges that were there and have another weight now
    n_already_there: int = 0
    n_self_loops: int = 0
    n_zeros: int = 0
    n_apart: int = 0  # edges to add of which no end was a node
    table: str = ""  # digest of the table to add, where weights of equal edges are added

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not len(self.us) and not len(self.new_ids) and self.features is None


def check_edits(
    ids: Ids,
    rows: EditedRows,
    form: EdgeForm,
    added: Any,
    removed: Any,
    features: Any,
    reading: Reading,
    width: int,
    names: Any,
) -> Edits:
    """The edits that these edges and features ask for; impossible ones are refused.

    `width` and `names` are those of the feature columns that the model reads, 0 for structure alone.
    """
    to_remove, unweighted = _read(removed, reading, ids, form, GONE)
    if unweighted:
        raise GraphError(
            f"an edge is removed whole, got {unweighted:,} to remove with the weight 0, which no edge has; leave the "
            "weights of removed edges out"
        )
    to_add, zeros = _read(added, reading, ids, form, COME)
    rows_to_remove = [ids.find(column) for column in to_remove[:2]]
    table = _feature_table(features, reading, width, names, ids)
    columns = [*to_add[:2], *([] if table is None or reading.unknown == "drop" else [table.id_column])]
    rows_of_ids = ids.find(joined := pa.concat_arrays([column.cast(ids.kind) for column in columns]))
    _refuse_strange(to_add[:2], rows_of_ids)
    new_ids = distinct(joined.filter(pa.array(rows_of_ids < 0)))
    _refuse_nameless(new_ids)
    if table is not None and reading.unknown == "error" and (rows_of_ids[2 * len(to_add[0]) :] < 0).any():
        unknown = table.id_column.filter(pa.array(rows_of_ids[2 * len(to_add[0]) :] < 0))
        raise FeatureError(f"{len(unknown):,} feature rows are of ids that are not in the run, first {shown(unknown)}")
    now = ids.with_new(new_ids)
    rows_to_add = [now.find(column) for column in to_add[:2]]
    _refuse_absent(to_remove, rows_to_remove)
    arcs = _merge(rows_to_remove, to_remove, form), _merge(rows_to_add, to_add, form)
    changes = _compile_edits(ids, rows, form, *arcs, with_weights=to_remove.weight is not None)
    feature_rows = _feature_rows(table, now, len(ids), new_ids, reading, width)
    adds = form.weighted and form.values.doubled in ("add", "count") and _is_table(added)
    return Edits(
        **changes,
        new_ids=new_ids,
        features=feature_rows,
        n_zeros=zeros,
        n_apart=int((rows_of_ids[: 2 * len(to_add[0])].reshape(2, -1) < 0).all(0).sum()),
        table=_digest(to_add) if adds and len(to_add[0]) else "",
    )


def edges_of_new_node(
    ids: Ids, rows: EditedRows, form: EdgeForm, near: Ints, weights: Any, directions: Any, kinds: Any
) -> tuple[Ints, Any]:
    """The neighbours of a node that is not there yet, each once, and the weights of its edges, for `Live.embed`.

    Weights, directions ("out": from the new node) and kinds are one for each neighbour, or one for all.
    """
    columns = {"weights": weights, "directions": directions, "kinds": kinds}
    needed = {"weights": form.values.weighted, "directions": form.values.directed, "kinds": bool(form.kinds)}
    for name, value in columns.items():
        if value is not None and not needed[name]:
            words = in_words(form.channels, form.weighted)
            raise GraphError(Argument(name), f" do not go with the run, whose edges are {words}; leave them out")
        if value is None and needed[name] and len(near):
            raise GraphError(
                *(f"the edges of the run have {name}, got none for the {len(near):,} neighbours; pass "),
                *(Argument(name, ...), ", one for each, or one for all"),
            )
    if not form.channels:
        return np.unique(near), None
    one_each = (_one_each(name, value, len(near)) if needed[name] else None for name, value in columns.items())
    weight, way, kind = one_each
    out = np.ones(len(near), bool)
    if way is not None:
        if wrong := [value for value in way if value not in (OUT, IN)]:
            raise GraphError(
                Argument("directions"),
                f" must be 'out' (from the new node) or 'in' (to it), got {wrong[0]!r}; give one of both",
            )
        out = np.array([value == OUT for value in way], bool)
    n = len(ids)
    ends = pa.array(np.where(out, n, near)), pa.array(np.where(out, near, n))
    batch, zeros = _checked_rows(Batch(*ends, weight, kind), form)
    if zeros:
        log.warning("%d of %d neighbours have an edge of weight 0, which is none: it is left out", zeros, len(near))
    arcs = _merge((batch.source.to_numpy(), batch.target.to_numpy()), batch, form)
    changes = _compile_edits(ids, rows, form, _merge((near[:0], near[:0]), batch, form), arcs)
    values: Any = changes["values"]
    return changes["us"], values[:, ::-1]  # the new node is the second of each pair, having the largest number


def _one_each(name: str, value: Any, count: int) -> Any:
    if isinstance(value, (str, int, float)):
        return [value] * count
    values = [] if value is None else list(value)
    if len(values) != count:
        raise GraphError(Argument(name), f" must be one for each of {count:,} neighbours, got {len(values):,}")
    return values


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
        position = {name: j for j, name in enumerate(names or ())}
        if unknown := [name for name in features if name not in position]:
            raise FeatureError(f"the model knows no feature {unknown[0]!r}; it has {len(position):,} by name")
        row: Any = np.zeros((1, width), np.float32)
        for name, value in features.items():
            row[0, position[name]] = value
    else:
        row = check_matrix(features if sp.issparse(features) else np.asarray(features, np.float32).reshape(1, -1), 1)
    if row.shape[1] != width:
        raise FeatureError(f"the model was fitted on {width:,} feature columns, got {row.shape[1]:,}")
    return sp.csr_array(row) if is_sparse(like) else check_matrix(row, 1)


# ------------------------------------------------------------------------------------- edges


def _no_edges(ids: Ids) -> Batch:
    return Batch(pa.array([], ids.kind), pa.array([], ids.kind))


def _read(edges: Any, reading: Reading, ids: Ids, form: EdgeForm, what: str) -> tuple[Batch, int]:
    """Edges of a file, a data frame, a graph, pairs or arrays, as the run's are; and how many have the weight 0."""
    if edges is None or (not isinstance(edges, tuple) and hasattr(edges, "__len__") and len(edges) == 0):
        return _no_edges(ids), 0
    if isinstance(edges, Graph):
        if form.channels:
            refuse_others(edges, form.channels, form.weighted)
        edges, reading = edges.to_arrow(), Reading()
    if isinstance(edges, (str, os.PathLike)):
        batch = _read_file(edges, _column_reading(reading, form, what, lambda: _columns_of_file(edges, reading)), ids)
    elif is_frame(edges):
        named = _column_reading(reading, form, what, lambda: as_table(edges).column_names)
        batch = frame_columns(edges, named)
    else:
        batch = _read_tuples(edges, form, what)
    batch = batch._replace(source=ids.as_own_kind(batch.source, what), target=ids.as_own_kind(batch.target, what))
    return _checked_rows(batch, form)


def _is_table(edges: Any) -> bool:
    """Whether the edges are a file, frame or graph, which may be added twice by mistake, and not pairs."""
    return isinstance(edges, (str, os.PathLike, Graph)) or is_frame(edges)


def _digest(batch: Batch) -> str:
    weights = () if batch.weight is None else (pa.array(np.asarray(batch.weight, np.float32).view(np.uint32)),)
    kinds = () if batch.kind is None else (id_array(batch.kind),)
    return rows_digest(batch.source, batch.target, *weights, *kinds)


def _column_reading(reading: Reading, form: EdgeForm, what: str, columns: Callable[[], Sequence[str]]) -> Reading:
    """The reading that names the columns of this form; edges to remove may have no column of weights."""
    weight, kind = (getattr(reading, name) or name if name in form.columns else None for name in ("weight", "kind"))
    if what == GONE and weight is not None and weight not in columns():
        weight = None
    return replace(reading, weight=weight, kind=kind, directed=False, doubled=None)


def _columns_of_file(path: Any, reading: Reading) -> Sequence[str]:
    return open_table(path, reading.begins_with_names).names


def _read_file(path: Any, reading: Reading, ids: Ids) -> Batch:
    opened = open_edges(path, reading)
    batches = opened.feed(list, ids=pa.array([], ids.kind), as_text=is_text(ids.kind))
    if not batches:
        return _no_edges(ids)
    columns = list(zip(*batches, strict=True))
    source, target = (id_array(pa.chunked_array(column)) for column in columns[:2])
    weight = None if reading.weight is None else np.concatenate(columns[2])
    kind = None if reading.kind is None else pa.chunked_array([kind_column(part) for part in columns[3]])
    return Batch(source, target, weight, kind, sum(columns[4]))


def _read_tuples(edges: Any, form: EdgeForm, what: str) -> Batch:
    """The edges of pairs, or of as many arrays, with the further values that the run's edges have."""
    names = ["source", "target", *form.columns]
    if isinstance(edges, tuple) and len(edges) > 1 and not any(isinstance(e, (tuple, str, bytes)) for e in edges):
        columns = list(edges)
    elif isinstance(edges, np.ndarray) or hasattr(edges, "detach") or not isinstance(edges, Iterable):
        columns = list(two_columns(edges))
    else:
        rows = list(edges)
        lengths = {len(row) if isinstance(row, (tuple, list)) else 0 for row in rows}
        alike = len(lengths) == 1 and lengths.isdisjoint({0, 1})
        columns = [list(column) for column in zip(*rows, strict=True)] if alike else list(two_columns(rows))
    if len(columns) != len(names) and what == GONE and form.values.weighted:
        names.remove("weight")
    if len(columns) != len(names):
        raise GraphError(
            f"{what} must be ({', '.join(names)}) each, since the edges of the run are "
            f"{in_words(form.channels, form.weighted)}, got {len(columns)} entries; "
            "pass tuples of these, as many arrays, a table or a file"
        )
    ends = two_columns((columns[0], columns[1]))
    more = dict(zip(names[2:], columns[2:], strict=True))
    return Batch(*ends, more.get("weight"), more.get("kind"))


def _checked_rows(batch: Batch, form: EdgeForm) -> tuple[Batch, int]:
    """The rows with checked weights and kinds, without those of weight 0; and how many those are."""
    if batch.kind is not None:
        batch = batch._replace(kind=kind_column(batch.kind))
        refuse_unknown_kinds([str(name) for name in batch.kind.unique().to_pylist() if name], form.channels)
    if batch.weight is None:
        return batch, 0
    batch = batch._replace(weight=checked_weights(batch.weight))
    positive = batch.weight > 0
    return (batch, 0) if positive.all() else (batch.where(positive), int(len(positive) - positive.sum()))


def _merge(rows: Sequence[Ints], batch: Batch, form: EdgeForm) -> Arcs:
    """Edges whose ends are these rows, doubled ones merged, as the graph builder does it."""
    us, vs = rows
    if not len(us):
        return Arcs(us, vs, np.empty(0, np.float32), us)
    values = replace(form.values, weighted=batch.weight is not None)
    nodes, codes = np.unique(np.concatenate([us, vs]), return_inverse=True)
    ends, column = codes.reshape(2, -1), pa.array(np.arange(len(nodes)))
    small = Graph.from_rows(ends[0], ends[1], column, values, batch.weight, batch.kind)
    arcs, kind_codes = small.arcs(), np.array([form.kinds.index(kind) for kind in small.kinds] or [0])
    return Arcs(nodes[arcs.source], nodes[arcs.target], arcs.weight, kind_codes[arcs.kind], small.counts.self_loops)


def _compile_edits(
    ids: Ids, rows: EditedRows, form: EdgeForm, removed: Arcs, added: Arcs, with_weights: bool = False
) -> dict[str, Any]:
    """The edit of each pair of nodes, with weights; `with_weights`: edges to remove came with theirs."""
    source, target = np.append(removed.source, added.source), np.append(removed.target, added.target)
    kind = np.append(removed.kind, added.kind)
    low, high = np.minimum(source, target), np.maximum(source, target)
    pairs, pair = np.unique(np.stack([low, high], 1), axis=0, return_inverse=True)
    exists, before = np.zeros(len(pairs), bool), np.zeros((len(pairs), max(1, len(form.channels))), np.float32)
    old = (pairs < len(ids)).all(1)
    exists[old], values = rows.values(pairs[old, 0], pairs[old, 1])
    before[old] = values if form.channels else exists[old, None]
    channel = kind * len(form.values.directions) + (form.values.directed & (source > target))
    slots = pair.reshape(-1), channel
    slots_removed = tuple(s[: len(removed.source)] for s in slots)
    slots_added = tuple(s[len(removed.source) :] for s in slots)
    _refuse_gone(ids, removed, before[slots_removed], with_weights, form)
    now = before.copy()
    now[slots_removed] = 0
    if not form.weighted and (now[slots_added] != before[slots_added]).any():
        first = int(np.flatnonzero(now[slots_added] != before[slots_added])[0])
        u, v = (ids.column[int(end[first])].as_py() for end in added[:2])
        raise GraphError(f"edges are to be removed and added, first {u!r} to {v!r}; do one of both")
    if form.values.keeps_largest:
        now[slots_added] = np.maximum(now[slots_added], added.weight)
    else:
        with np.errstate(over="ignore"):
            now[slots_added] = (now[slots_added].astype(np.float64) + added.weight).astype(np.float32)
    if not np.isfinite(now).all():
        raise GraphError("the weights of doubled edges add up to more than 3.4e+38; give them in a larger unit")
    after, differ = now.any(1), (now != before).any(1)
    edits = np.where(exists & after, CHANGES, np.where(after, COMES, GOES))
    changes = differ & (exists | after)
    was, stays = before[slots_added] > 0, now[slots_removed] > 0
    return {
        "us": pairs[changes, 0],
        "vs": pairs[changes, 1],
        "edits": edits[changes],
        "values": np.stack([now, now[:, form.mirror]], 1)[changes] if form.channels else None,
        "n_added": int((~was).sum()),
        "n_removed": int((~stays).sum()),
        "n_changed": int((was & (now[slots_added] != before[slots_added])).sum()),
        "n_already_there": int((was & (now[slots_added] == before[slots_added])).sum()),
        "n_self_loops": removed.n_self_loops + added.n_self_loops,
    }


def _refuse_absent(edges: Batch, ends: Sequence[Ints]) -> None:
    """Refuse edges to remove whose ends are not both nodes."""
    unknown = (ends[0] < 0) | (ends[1] < 0)
    if unknown.any():
        first = int(np.flatnonzero(unknown)[0])
        edge = " to ".join(repr(column[first].as_py()) for column in edges[:2])
        raise GraphError(
            f"{int(unknown.sum()):,} of {len(unknown):,} edges to remove are not in the graph, first {edge}, whose "
            "ends are not both nodes of the run; nothing was changed: is this the right run? leave those edges out"
        )


def _refuse_gone(ids: Ids, removed: Arcs, weights: Floats, with_weights: bool, form: EdgeForm) -> None:
    """Refuse edges to remove that are not in the graph, or have another weight there."""

    def edge(i: int) -> str:
        ends = " to ".join(repr(ids.column[int(end[i])].as_py()) for end in removed[:2])
        return f"{ends} of kind {form.kinds[int(removed.kind[i])]!r}" if form.kinds else ends

    if (absent := weights == 0).any():
        raise GraphError(
            f"{int(absent.sum()):,} of {len(weights):,} edges to remove are not in the graph, first "
            f"{edge(int(np.flatnonzero(absent)[0]))}; nothing was changed: is this the right run? leave those edges out"
        )
    if with_weights and (other := weights != removed.weight).any():
        first = int(np.flatnonzero(other)[0])
        raise GraphError(
            f"{int(other.sum()):,} of {len(weights):,} edges to remove have another weight in the graph, first "
            f"{edge(first)}: {weights[first]:g}, got {removed.weight[first]:g}; an edge goes with all of its weight: "
            "leave the weights out, and add the edge with what is left of it"
        )


def _refuse_nameless(new_ids: pa.Array) -> None:
    """Refuse a new node whose id is empty text."""
    if is_text(new_ids.type) and pc.any(pc.equal(new_ids, "")).as_py():
        raise GraphError("a new node has an empty id (''); nothing was changed: name it, or leave its rows out")


def _refuse_strange(edges: Sequence[pa.Array], rows: Ints) -> None:
    """Refuse many edges none of which has an end in the graph: they are of another one."""
    n = len(edges[0])
    if n >= STRANGE and (rows[: 2 * n] < 0).all():
        raise GraphError(
            f"none of the {n:,} edges to add has an end that is a node of the run, first {shown(edges[0], 1)}; "
            "nothing was changed: is this another graph?"
        )


# ------------------------------------------------------------------------------------- features


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
