"""Vectors that follow a graph while it changes: the rows of every level are cached, and only changed ones recomputed.

A model is levels of moments and a finish (`levels.py`). `Live` caches, for every node, the measures and the rows that
each level averages (its tables). Edits change the measures of some nodes; from there on, level by level, the
neighbours of changed rows, and no other node. Each row is computed by the tasks of a full pass, over the same
neighbours in the same order, so its bytes are those of a full pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rae.engine.exact_levels import PLAIN, action_model, structure_models
from rae.engine.layout import TILE, Layout
from rae.engine.levels import Model, RowSet, WholeGraph
from rae.engine.stores import MemoryStore, as_tensor
from rae.engine.tasks import Job
from rae.errors import FeatureError
from rae.features import Features, measures
from rae.features.edited import EditedFeatures
from rae.graph import Graph
from rae.memory import aligned_empty
from rae.model.channels import sum_of_channels
from rae.model.exact import ExactModel
from rae.model.structure import in_units, measure
from rae.ops import structure
from rae.ops.edits import EditedRows, union, written
from rae.ops.gather import moments
from rae.ops.library import is_native
from rae.runtime import torch_alone

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Tables = dict[str, np.ndarray[Any, Any]]

COUNTED = measures.COUNTED  # with the degrees, those of the measures that follow each edge
MOST_SHARE = 0.45  # of a full pass, above which one is made: following a number costs up to 2.2 times as much
WRITTEN = 8  # numbers that a level reads in the time in which one number of a table or vector is made and written
FEW = 2048  # rows up to which tiles and threads cost more than they save


def can_follow(model: Any, graph: Graph) -> TypeGuard[ExactModel]:
    """Whether vectors of this model can follow this graph: an exact model of such a graph, cycles not estimated."""
    if not isinstance(model, ExactModel) or not is_native(graph.offsets, graph.targets):
        return False
    if (tuple(graph.channels), graph.weighted) != (model.channels, model.weighted):
        return False  # the model reads less than there is
    return model.structure is None or 2 * measures.paths_counted(graph) <= measures.MOST_PATHS


@dataclass
class Changes:
    """What an update changed, as rows and their new values: columns of the vectors by model, and tables by name."""

    columns: dict[str, tuple[Ints, Floats]]
    tables: dict[str, tuple[Ints, Any]]
    ends: Ints  # the nodes whose neighbours changed, and new ones
    counted: Ints  # the nodes whose counts may have
    in_full: bool = False  # whether everything was recomputed; both are then empty

    @cached_property
    def rows(self) -> Ints:
        """The rows whose vectors are new."""
        return union(*(rows for rows, _ in self.columns.values()))


@dataclass
class Live:
    """The vectors of a graph that changes, by a fitted exact model, in the units of its fit."""

    model: ExactModel  # measuring in units of the fit
    base: Graph  # before the edits
    rows: EditedRows  # after the edits
    features: EditedFeatures | None
    tables: Tables  # `own`, and MODEL-LEVEL: what that level averages; with room for further nodes
    n_nodes: int
    paths: int  # of two edges, at most: above MOST_PATHS a full pass would estimate cycles
    _undo: list[tuple[Any, Any, Any]] = field(default_factory=list)
    _listed: dict[int, Any] = field(default_factory=dict)  # neighbours and weights of rows, by `id` of their array
    _last_job: Job | None = None  # of the current tables and features

    @classmethod
    def of(cls, fitted: ExactModel, graph: Graph, features: Any = None, *, capacity: int = 0, make: Any = None) -> Live:
        """The tables of a full pass, with room for `capacity` nodes or one more; `make` as in `empty_tables`."""
        model = replace(fitted, config=fitted.config.replace(relative=False))
        counts = cls.count(graph) if model.structure is not None else {}
        tables = cls.empty_tables(model, graph, features, max(capacity, graph.n_nodes + 1), make)
        for table in tables.values() if make is None else ():  # new files hold zeros
            table[graph.n_nodes :] = 0  # other processes have zeros there too, with which an update is compared
        live = cls.open(model, graph, features, tables, counts)
        live.refresh()
        return live

    @classmethod
    def open(cls, fitted: ExactModel, graph: Graph, x: Any, tables: Tables, counts: Mapping[str, Any]) -> Live:
        """The state that tables and counts of this graph describe; tables are written to, counts are copied."""
        model = replace(fitted, config=fitted.config.replace(relative=False))
        capacity = len(next(iter(tables.values())))
        rows = EditedRows.of(graph, capacity, [counts[name] for name in COUNTED if name in counts])
        features = None
        if model.actions is not None:
            matrix = Features.of(graph, x, PLAIN, check=False)
            features = EditedFeatures(graph, matrix.matrix, PLAIN, is_checked=False)
        paths = measures.paths_counted(graph) if model.structure is not None else 0
        return cls(model, graph, rows, features, tables, graph.n_nodes, paths)

    @staticmethod
    def count(graph: Graph) -> dict[str, Any]:
        """The counts that follow each edge, of all nodes."""
        return {name: getattr(measures, name)(graph) for name in COUNTED}

    @staticmethod
    def empty_tables(model: ExactModel, graph: Graph, x: Any, capacity: int, make: Any = None) -> Tables:
        """Tables of the right shapes; `make` makes one from a name and a shape, in memory by default."""
        make = make or (lambda _, shape: aligned_empty(shape))
        own = np.broadcast_to(
            np.float32(0), (graph.n_nodes, 0 if model.structure is None else len(model.structure.mean))
        )
        features = None if model.actions is None else Features.of(graph, x, PLAIN, check=False)
        shapes = {f"{name}-{k}": level.columns for name, k, level in _levels(_models(model, graph, own, features))}
        tables = {} if model.structure is None else {"own": make("own", (capacity, own.shape[1]))}
        return tables | {name: make(name, (capacity, columns)) for name, columns in shapes.items()}

    # ------------------------------------------------------------------------- reading

    @property
    def width(self) -> int:
        """Columns of a vector."""
        return self.model.width

    @property
    def capacity(self) -> int:
        """The number of nodes that fit the tables."""
        return self.rows.capacity

    def graph(self, ids: pa.Array) -> Graph:
        """The current graph, with these ids."""
        graph = edited_graph(self.base, self.rows, ids)
        if self.model.structure is not None:
            counted = (self.rows.triangles, self.rows.cycles, self.rows.core)
            counts = {name: values[: self.n_nodes].copy() for name, values in zip(COUNTED, counted, strict=True)}
            graph.measures.update(counts)
        return graph

    def columns(self, model: str) -> tuple[int, int]:
        """The columns of a vector that are this model's."""
        left = 0
        for name, each in self._models.items():
            if name == model:
                break
            left += each.width
        return left, left + self._models[model].width

    def vectors(self, rows: RowSet) -> Floats:
        """The vectors of these rows: a range, or an index.  -> (b, width)"""
        n = rows[1] - rows[0] if isinstance(rows, tuple) else len(rows)
        with torch_alone():
            return self._job.output(rows, np.empty((n, self.width), np.float32))

    # ------------------------------------------------------------------------- changing

    def refresh(self) -> None:
        """Recompute all tables from the counts, as a full pass does."""
        with torch_alone():
            if self.model.structure is not None:
                step = 1 << 18
                for a in range(0, self.n_nodes, step):
                    b = min(a + step, self.n_nodes)
                    self.tables["own"][a:b] = self._measured(np.arange(a, b))
            job = replace(self._job, neighborhoods=WholeGraph(self.graph(pa.nulls(self.n_nodes)), 0))
            for name, k, _ in _levels(self._models):
                self._fill(job, name, k, self.tables[f"{name}-{k}"][: self.n_nodes], (0, self.n_nodes))

    def update(
        self, us: Any, vs: Any, edits: Any, values: Any = None, *, new: int = 0, features: Any = None
    ) -> Changes:
        """Remove, add or change edges, in this order; add `new` nodes first, and replace feature rows (rows, values).

        An edge to add must not exist, one to remove or change must; `values` as in `EditedRows.edit`.
        """
        self._undo.clear()
        first_new = self._add_nodes(new)
        with torch_alone():
            ends, moved = self._edit(us, vs, edits, values, first_new)
        counted = np.union1d(self._undo[0][1], first_new)
        fed = np.empty(0, np.int64)
        if features is not None and self.features is not None:
            fed = np.unique(np.concatenate([np.asarray(features[0], np.int64), first_new]))
            self.give_features(*features)
        if self._share(ends, {"actions": fed, "place": moved, "around": moved}) > MOST_SHARE:
            self.refresh()
            self._undo.clear()
            return Changes({}, {}, ends, counted, in_full=True)
        columns = {}
        with torch_alone(), torch.inference_mode():
            for name, model in self._models.items():
                *computed, changed = self._follow(name, fed if name == "actions" else moved, ends, len(model.levels))
                rows = union(first_new, *computed, self.rows.spread(changed, also=ends))
                columns[name] = rows, self._output(name, rows)
        self._listed = {}
        tables: dict[str, tuple[Ints, Any]] = {}
        for table, changed, _ in self._undo:
            if isinstance(table, str):
                tables[table] = changed, self.tables[table][changed]
        self._undo.clear()
        return Changes(columns, tables, ends, counted)

    def embed(self, neighbors: Any, features: Any = None, values: Any = None) -> Floats:
        """The vector of a node that is not there yet, as if it were added with these neighbours.  -> (width,)

        `values` are the weights of its edges, as seen from it and from its neighbours. Nothing of it is stored.
        """
        u = self.n_nodes
        with self._undone():
            self._add_nodes(1)
            near = np.asarray(neighbors, np.int64)
            ends, moved = self._edit(np.full(len(near), u), near, np.ones(len(near)), values, np.array([u]))
            if self.features is not None:
                self.give_features([u], features)
            return self._vector(u, ends, moved, np.array([u]))

    def tried(self, us: Any, vs: Any, adds: Any, row: int) -> Floats:
        """The vector of a node as if these edges were added or removed, in this order; see `update`.  -> (width,)

        All changes are undone.
        """
        none = np.empty(0, np.int64)
        with self._undone():
            ends, moved = self._edit(us, vs, adds, None, none)
            return self._vector(row, ends, moved, none)

    @contextlib.contextmanager
    def _undone(self) -> Iterator[None]:
        """Undo all edits at the end of the block, in which torch works on one thread."""
        features, n, used, paths = self.features, self.n_nodes, self.rows.used, self.paths
        self._undo.clear()
        try:
            with torch_alone(), torch.inference_mode():
                yield
        finally:
            for table, rows, old in reversed(self._undo):
                if isinstance(table, str):
                    self.tables[table][rows] = old
                else:
                    self.rows.undo(rows, old, used)
            self._undo.clear()
            self._listed = {}
            self.n_nodes, self.paths = n, paths
            if features is not self.features:
                self.features = features
                self._last_job = None

    def _vector(self, row: int, ends: Ints, moved: Ints, fed: Ints) -> Floats:
        """The vector of a node after an edit, without rows that it does not read."""
        node = np.array([row])
        rings = [node, np.union1d(self._lists(node)[1], node)]
        rings.append(self.rows.spread(rings[1], also=node))
        parts = [self._columns_near(name, fed if name == "actions" else moved, ends, rings) for name in self._models]
        out: Floats = np.concatenate(parts, 1)[0]
        if not np.isfinite(out).all():
            raise FeatureError("the vector came out infinite or NaN; scale the features to 1")
        return out

    def _columns_near(self, name: str, moved: Ints, ends: Ints, rings: Sequence[Ints]) -> Any:
        """The columns of a model for a node after an edit; `rings` are the node, all within one edge, and within two.

        The rows of a ring are computed, changed or not, and stored in no table.
        """
        model = self._models[name]
        levels, depth = model.levels, len(model.levels)
        nearest = range(max(1, depth - len(rings) + 1), depth)
        self._follow(name, moved, ends, nearest.start)
        near: dict[int, tuple[Ints, Tensor]] = {}
        for k in nearest:
            rows = rings[depth - k]
            near[k] = rows, levels[k].before(self._few(name, k - 1, rows, near.get(k - 1)).numpy())
        vectors = []
        for k in range(depth):
            if k + 1 in near and not levels[k + 1].maps_rows:
                rows, values = near[k + 1]
                vectors.append(values[np.searchsorted(rows, rings[0])])
            else:
                vectors.append(self._few(name, k, rings[0], near.get(k)))
        assert model.finish is not None
        return model.finish.columns(self._read(name, rings[0]), vectors).numpy()

    def grow(self, capacity: int) -> None:
        """Make room for more nodes, in memory."""
        for name, table in self.tables.items():
            larger = aligned_empty((capacity, table.shape[1]))
            larger[: self.n_nodes], larger[self.n_nodes :] = table[: self.n_nodes], 0  # as in `of`
            self.tables[name] = larger
        self.rows.grow(capacity)
        self._last_job = None

    def give_features(self, rows: Any, values: Any) -> None:
        """Replace feature rows, or add them after the last, without computing anything."""
        assert self.features is not None
        self.features = self.features.with_rows(rows, values)
        self._last_job = None

    # ------------------------------------------------------------------------- inside

    @property
    def _models(self) -> Mapping[str, Model]:
        return (self._last_job or self._job).models

    @property
    def _job(self) -> Job:
        """The tasks of a full pass over the tables; rows that no level maps are read from them."""
        job = self._last_job
        if job is None:
            models = _models(self.model, self.base, self.tables.get("own"), self.features)
            arrays = {(name, k): self.tables[f"{name}-{k}"] for name, k, _ in _levels(models)}
            columns = max(table.shape[1] for table in self.tables.values())
            lists, cut = _EditedLists(self.rows, self.base), Layout(self.capacity, columns)
            job = Job(models, lists, MemoryStore(arrays, set(arrays)), cut, TILE)
            self._last_job = job
        now = job.neighborhoods
        assert isinstance(now, _EditedLists)
        now.n_nodes, now.last = self.n_nodes, (None, None)
        return job

    def _averaged(self, name: str, k: int, rows: Ints) -> Floats:
        """These rows of a level's table, from the levels below.  -> (b, columns)"""
        model = self._models[name]
        if len(rows) > FEW:
            out = np.empty((len(rows), model.levels[k].columns), np.float32)
            self._fill(self._job, name, k, out, rows)
            return out
        below = self._read(name, rows) if k == 0 else self._few(name, k - 1, rows).numpy()
        return model.levels[k].before(below).numpy()

    def _read(self, name: str, rows: Ints) -> Any:
        """What a model reads of these rows."""
        return self._models[name].reads.take(rows) if name == "actions" else self.tables["own"][rows]

    def _lists(self, rows: Ints) -> Any:
        """The neighbours of these rows; models ask for the same rows one after the other."""
        if id(rows) not in self._listed:
            self._listed[id(rows)] = rows, self.rows.lists(rows), {}
        return self._listed[id(rows)][1]

    def _weights(self, rows: Ints, channels: tuple[str, ...]) -> Any:
        """The weights in these channels, added up, of what `_lists` gives for these rows."""
        (offsets, _), cached = self._lists(rows), self._listed[id(rows)][2]
        if channels not in cached:
            cached[channels] = _weights_of(self.rows, self.base, rows, offsets, channels)
        return cached[channels]

    def _few(self, name: str, k: int, rows: Ints, near: tuple[Ints, Tensor] | None = None) -> Tensor:
        """The vectors of a level for few rows: the work of a task without tiles and threads.

        The rows that it averages are in the table, or, of these nodes (ascending), in `near`.
        """
        level, (offsets, index) = self._models[name].levels[k], self._lists(rows)
        assert not level.with_ego
        if near is None:
            table = as_tensor(self.tables[f"{name}-{k}"])
        else:
            index, table = np.searchsorted(near[0], index), near[1]
        parts = []
        for way in level.ways:
            columns = table if way.right - way.left == table.shape[1] else table[:, way.left : way.right]
            spread = min(level.spread, way.right - way.left)
            weights = self._weights(rows, way.channels) if way.channels else None
            parts.append(moments(columns, offsets, index, spread=spread, weights=weights))
        return level.after(parts[0] if len(parts) == 1 else torch.cat(parts, 1))

    def _output(self, name: str, rows: Ints) -> Floats:
        """The columns of a model for these rows, from its tables."""
        model = self._models[name]
        if len(rows) > FEW:
            out = np.empty((len(rows), model.width), np.float32)
            return replace(self._job, models={name: model}).output(rows, out)
        vectors, levels = [], model.levels
        for k in range(len(levels)):
            if k + 1 < len(levels) and not levels[k + 1].maps_rows:
                vectors.append(torch.from_numpy(self.tables[f"{name}-{k + 1}"][rows]))
            else:
                vectors.append(self._few(name, k, rows))
        assert model.finish is not None
        return model.finish.columns(self._read(name, rows), vectors).numpy()

    def _fill(self, job: Job, name: str, k: int, out: Floats, rows: RowSet) -> None:
        """Fill `out` with these rows of a level's table, from the levels below."""
        assert isinstance(job.store, MemoryStore)
        job.store.complete.discard((name, k))  # else rows that the level does not map would be read from itself
        try:
            job.fill(out, job.averaged(name, k, rows), rows)
        finally:
            job.store.complete.add((name, k))

    def _add_nodes(self, count: int) -> Ints:
        if self.n_nodes + count > self.capacity:
            self.grow(self.n_nodes + count + max(16, self.n_nodes // 16))
        rows = np.arange(self.n_nodes, self.n_nodes + count)
        for array in (self.rows.starts, self.rows.degrees, self.rows.triangles, self.rows.cycles, self.rows.core):
            array[rows] = 0
        self.n_nodes += count
        return rows

    def _edit(self, us: Any, vs: Any, edits: Any, values: Any, new: Ints) -> tuple[Ints, Ints]:
        """Edit the graph and its measures; the nodes whose neighbours changed, and those whose measures did."""
        self._listed = {}
        touched, before = self.rows.edit(us, vs, edits, values)
        self._undo.append((None, touched, before))
        ends = np.unique(np.concatenate([np.asarray(us, np.int64), np.asarray(vs, np.int64), new]))
        if self.model.structure is None:
            return ends, new
        degrees = self.rows.degrees[ends]
        self.paths += 3 * int(degrees.sum()) + 3 * len(us)
        rows = np.unique(np.concatenate([touched, new]))
        return ends, np.union1d(self._write("own", rows, self._measured(rows)), new)

    def _measured(self, rows: Ints) -> Floats:
        """The measures of these rows in units: measured in a stand-in that has their counts."""
        r, fitted = self.rows, self.model.structure
        assert fitted is not None
        counted = {"degrees": r.degrees, "triangles": r.triangles, "four_cycles": r.cycles, "core_numbers": r.core}
        counts: dict[str, Any] = {name: values[rows] for name, values in counted.items()}
        if self.base.channels:
            offsets, _ = r.lists(rows)
            for channel, name in enumerate(self.base.channels):
                counts[f"strengths {name}"] = structure.strengths(offsets, r.weights(channel, rows, offsets))
        alone: Any = SimpleNamespace(
            n_nodes=len(rows), reach=rows,
            channels=self.base.channels, kinds=self.base.kinds, weighted=self.base.weighted,
            measures=counts | {"estimated": False},
        )  # fmt: skip
        return in_units(measure(alone, fitted.scales), (fitted.mean, fitted.deviation))

    def _write(self, table: str, rows: Ints, values: Any) -> Ints:
        """The rows whose bytes changed, after these rows of a table were written."""
        changed, old = written(self.tables[table], rows, values)
        self._undo.append((table, changed, old))
        return changed

    def _follow(self, name: str, moved: Ints, ends: Ints, count: int) -> list[Ints]:
        """Compute the rows of the first `count` levels that changed; which were computed, by level, and which changed.

        `moved` are the nodes whose own rows changed, `ends` those whose neighbours did, and new ones.
        """
        computed = [moved]
        for k in range(count):
            rows = self.rows.spread(computed.pop(), also=ends) if k else computed.pop()
            computed += [rows, self._write(f"{name}-{k}", rows, self._averaged(name, k, rows))]
        return computed

    def _share(self, ends: Ints, moved: Mapping[str, Ints]) -> float:
        """The numbers that following reads and writes, at most, over those of a full pass."""
        if self.model.structure is not None and self.paths > measures.MOST_PATHS:
            return np.inf  # a full pass estimates cycles
        degrees, entries = self.rows.degrees, float(self.rows.degrees[: self.n_nodes].sum())
        work = full = 0.0
        rings_of: dict[int, list[Ints]] = {}
        for name, model in self._models.items():
            rings = rings_of.setdefault(id(moved[name]), [moved[name]])  # what changes reach, level by level
            while len(rings) <= len(model.levels):
                rings.append(self.rows.spread(rings[-1], also=ends))
            for level, here, above in zip(model.levels, rings, rings[1:], strict=False):
                work += level.columns * (float(degrees[above].sum()) + WRITTEN * len(here))
                full += level.columns * (entries + WRITTEN * self.n_nodes)
            work += WRITTEN * model.width * len(rings[len(model.levels)])
            full += WRITTEN * model.width * self.n_nodes
        return work / full


@dataclass
class _EditedLists:
    """Every node at every level, with its current neighbours."""

    rows_now: EditedRows
    graph: Graph
    n_nodes: int = 0
    last: tuple[Any, Any] = (None, None)  # rows, and what `lists` gives for them
    channels: dict[tuple[str, ...], Any] = field(default_factory=dict)  # weights of these
    nodes: None = None

    def n_rows(self, k: int) -> int:
        return self.n_nodes

    def lists(self, k: int, rows: RowSet) -> tuple[Any, Any, Any, Any]:
        if self.last[0] is not rows:  # one model asks for the same rows level by level
            nodes = np.arange(*rows) if isinstance(rows, tuple) else rows
            self.channels = {}
            self.last = rows, (*self.rows_now.lists(nodes), nodes, None)
        lists: tuple[Any, Any, Any, Any] = self.last[1]
        return lists

    def weights(self, k: int, channels: tuple[str, ...], first: int, last: int) -> Any:
        if channels not in self.channels:
            offsets, _, nodes, _ = self.last[1]
            self.channels[channels] = _weights_of(self.rows_now, self.graph, nodes, offsets, channels)
        return self.channels[channels][first:last]

    def rows_at(self, k: int, rows: RowSet) -> RowSet:
        return rows


def _weights_of(rows: EditedRows, base: Graph, nodes: Ints, offsets: Any, channels: tuple[str, ...]) -> Any:
    """The weights in these channels, added up, of the entries of these nodes."""
    names = list(base.channels)
    arrays = [rows.weights(names.index(name), nodes, offsets) for name in channels]
    return sum_of_channels(arrays, 0, int(offsets[-1]))


def edited_graph(base: Graph, rows: EditedRows, ids: pa.Array) -> Graph:
    """The graph of these edited rows, with these ids."""
    nodes = np.arange(len(ids))
    offsets, targets = rows.lists(nodes)
    channels = {name: rows.weights(channel, nodes, offsets) for channel, name in enumerate(base.channels)}
    return Graph(offsets, targets, ids, base.counts, channels, base.weighted, base.doubled)


def _models(model: ExactModel, graph: Graph, own: Any, features: Features | None) -> dict[str, Model]:
    """The models of `models_of`, over tables."""
    models: dict[str, Model] = {}
    if model.actions is not None:
        assert features is not None
        models["actions"] = action_model(model.actions, model.config, features)
    if model.structure is not None:
        models |= structure_models(model.structure, model.config, graph, own, model.structure_scale)
    return models


def _levels(models: Mapping[str, Model]) -> list[tuple[str, int, Any]]:
    """Every level: its model's name, its number, and itself."""
    return [(name, k, level) for name, model in models.items() for k, level in enumerate(model.levels)]
