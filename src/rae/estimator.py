"""RAE: fit, transform, save, load. The composition root of the library."""

from __future__ import annotations

import copy
import inspect
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from rae import display
from rae.blocks import Block
from rae.config import Config, ExactConfig, Settings, settings_for
from rae.engine import embed, embed_to, models_of
from rae.errors import (
    Argument,
    ConfigError,
    CutWarning,
    FeatureError,
    GraphError,
    NotFittedError,
    warn_caller,
)
from rae.fitting import fit_exact, fit_trained
from rae.graph import Graph
from rae.graph.digest import graph_digest, is_digest_of
from rae.graph.frames import vector_table
from rae.io.json_features import read_names
from rae.memory import row_runs
from rae.model import checkpoint
from rae.model.checkpoint import Checkpoint, Fitted
from rae.model.encoder import Encoder
from rae.model.exact import ExactModel
from rae.progress import Asked, Progress, of_stage, shown
from rae.runtime import chosen_device, device_bytes, free_device_memory, gpu_name, is_out_of_memory, on_device
from rae.several_graphs import check_many, column_names, encoded_columns, graphs_in, joined, with_columns
from rae.sklearn_conventions import GraphTransformer

if TYPE_CHECKING:
    from rae.engine.cluster import Cluster

Floats = np.ndarray[Any, np.dtype[np.float32]]
T = TypeVar("T")

log = logging.getLogger("rae.inputs")  # what the command line shows: notes on the inputs

_READOUTS = {"sum": np.add, "mean": np.add, "max": np.maximum, "all": np.add}
_READ_OUT = ("own", "near", "around")  # blocks that say what there is in a graph, not how far nodes are apart
UNITS = ("graph", "fit")  # in which an exact model measures
_NODES_AT_ONCE = 200_000  # of small graphs embedded in one pass


class RAE(GraphTransformer):
    """Role action embeddings: nodes in similar positions get similar vectors.

    >>> graph = Graph.from_edges([("hub", "a"), ("hub", "b"), ("a", "c"), ("b", "d")])
    >>> z = RAE(dims=(8,), fanout=(5,), steps=0).fit_transform(graph)
    >>> dict(zip(graph.ids, z))["a"].tolist() == dict(zip(graph.ids, z))["b"].tolist()
    True
    """

    def __init__(self, config: Settings | None = None, /, *, device: str = "cpu", **settings: Any) -> None:
        if config is not None and not isinstance(config, Settings):
            raise ConfigError(
                "the first argument must be an ExactConfig, or a Config such as rae.PAPER, got "
                f"{type(config).__name__}; name settings, as in RAE(steps=500)"
            )
        self.config = settings_for(config, settings)
        self.device = device  # not a setting, not saved: a model does not depend on its device
        self._fitted: Fitted | None = None

    # ------------------------------------------------------------------------ fit, transform

    def fit(
        self,
        graph: Graph | Sequence[Graph],
        y: Any = None,
        *,
        features: Any = None,
        feature_names: Sequence[str] | str | os.PathLike[str] | None = None,
        memory: int | str | None = None,
        scratch: str | os.PathLike[str] | None = None,
        ray: str | None = None,
        ray_cores: int | None = None,
        ray_workers: int = 1,
        shared: str | None = None,
        progress: Asked = None,
    ) -> Self:
        """Learn from one graph, or from several side by side; without features, from structure alone.

        `features` is a matrix with one row per node in the graph's row order, dense or SciPy sparse,
        or a FeatureTable keyed by id; for several graphs, one of these per graph. `feature_names` are the names of its
        columns, or a file of them. `y` is ignored: labels never influence a model. With `memory`, what the process may
        take, e.g. "4GiB", the noisy copies of the graph that an exact fit makes lie in a temporary file where they do
        not fit, in the folder `scratch` or the system's; the model is the same. `progress=True` shows bars, which a
        notebook does anyway.

        `ray` is the address of a Ray cluster to run on, as in `embed_to`; `shared` is then what names of files begin
        with that all its hosts see ("/shared/network"), `memory` that of one task, `ray_cores` the cores of one. With
        `ray_workers` so many workers share each step of a training; one gives the model of one machine.
        """
        cluster = self._cluster(ray, ray_cores, ray_workers, shared)
        self._check_y(y)
        if isinstance(feature_names, (str, os.PathLike)):
            feature_names = read_names(feature_names)
        names = column_names(features) or feature_names
        categories = encoded_columns(features)
        graphs = graphs_in(graph)
        graph, features = joined(graph, with_columns(features, names))
        if graph.reach is not None:
            raise GraphError("a model is fitted on a whole graph, got one that is cut off (an ego graph)")
        config = self.config

        def fitted(report: Progress | None) -> Fitted:
            if isinstance(config, ExactConfig):
                return fit_exact(
                    *(graph, features, config, names, report),
                    categories=categories, memory=memory, scratch=scratch, cluster=cluster,
                )  # fmt: skip
            assert isinstance(config, Config)
            return fit_trained(graph, features, config, names, report, cluster=cluster)

        with shown(progress) as report:
            model = self._on_device(
                graph, lambda: fitted(report), fitting=True, by_cpu=ray is not None, bounded=memory is not None
            )
        self._fitted = replace(model, fitted_on=graph_digest(*graphs))
        return self

    def transform(
        self,
        graph: Graph,
        features: Any = None,
        *,
        nodes: Any = None,
        units: str | None = None,
        whole: bool = False,
        progress: Asked = None,
    ) -> Floats:
        """The vectors of this graph's nodes, in row order, whether or not the fit has seen them.

        -> (n, width): the blocks of `RAE.blocks` side by side; a trained encoder has its last level first. `nodes`
        are ids: only their vectors, in their order, the same bytes as the rows of all; only their surroundings are
        computed, after the measures of the graph, which are counted at the first call and kept with it. `units` says
        whose units an exact model measures in: "graph", each graph in its own, or "fit", those of the graph of the
        fit, in which what one edge changes stays near that edge; by default as the setting `relative` says. Edges do
        not tell a part of a graph from a whole one, and in a part vectors lack what they read, so a CutWarning comes
        with those of any graph that is not the graph of the fit, that of a run of this fit, or an ego graph of one of
        these, unless `whole` says that nothing is missing. After `set_output(transform="pandas")` the vectors are a
        frame with the ids as its index.
        """
        graphs = graphs_in(graph)
        graph, features = joined(graph, self._expected(features))
        rows = None if nodes is None else graph.rows(nodes)
        self._check_reach(graphs, graph, rows, units, whole)
        model = in_units_of(self.fitted, units)
        with shown(progress) as report:
            z = self._on_device(
                graph,
                lambda: embed(models_of(model, graph, features), nodes=rows, report=of_stage(report, "embed")),
                by_cpu=rows is not None,
            )
        framed: Floats = self._as_frame(graph.id_column if rows is None else graph.id_column.take(pa.array(rows)), z)
        return framed

    def to_arrow(
        self,
        graph: Graph,
        features: Any = None,
        *,
        nodes: Any = None,
        units: str | None = None,
        whole: bool = False,
        progress: Asked = None,
    ) -> pa.Table:
        """The vectors of this graph's nodes as an Arrow table: id, embedding.

        >>> graph = Graph.from_edges([("ann", "bob"), ("bob", "cid")])
        >>> RAE(dims=(4,), fanout=(2,), steps=0).fit(graph).to_arrow(graph, nodes=["cid"]).column("id").to_pylist()
        ['cid']
        """
        one = joined(graph, None)[0]
        rows = None if nodes is None else one.rows(nodes)
        self._check_reach(graphs_in(graph), one, rows, units, whole)
        plain = copy.copy(self).set_output(transform="default")
        z = plain.transform(graph, features, nodes=nodes, units=units, whole=True, progress=progress)
        return vector_table(one.id_column if rows is None else one.id_column.take(pa.array(rows)), z)

    def embed_to(
        self,
        path: str | Path,
        graph: Graph,
        features: Any = None,
        *,
        memory: int | str | None = None,
        half: bool = False,
        dtype: str = "float32",
        model: str | None = None,
        units: str | None = None,
        whole: bool = False,
        ray: str | None = None,
        ray_cores: int | None = None,
        shared: str | None = None,
        in_folder: bool = False,
        progress: Asked = None,
    ) -> int:
        """Write the vectors of `transform` to .parquet or .csv while computing them, and return their width.

        The rows that levels average are in memory, the vectors of all nodes never are. With `memory`, what
        the process may take, e.g. "4GiB", what does not fit goes to a folder beside the file, and the
        same call resumes where a killed one stopped. `half` keeps those intermediate rows in half precision,
        `dtype` is that of the file, `model` a model file's checksum for its header, `units` and `whole` as in
        `transform`.

        `ray` is the address of a Ray cluster to run on: "auto", "local", "ray://HOST:10001"; `path` must then be on a
        disk that all its hosts see, or `shared` a name, in an object store too, for files that they all see;
        `memory` is that of one task, and `ray_cores` are the cores of one. With `in_folder` the path is a folder, of
        one Parquet file per part and a manifest.
        """
        if half and memory is None and ray is None:
            raise ConfigError(
                *(Argument("half", True), " is about rows kept on disk, which ", Argument("memory", ...)),
                " asks for; pass both",
            )
        graphs = graphs_in(graph)
        graph, features = joined(graph, self._expected(features))
        self._check_reach(graphs, graph, None, units, whole)
        fitted = in_units_of(self.fitted, units)

        def written(report: Progress | None) -> int:
            options: dict[str, Any] = {
                "memory": memory, "half": half, "dtype": dtype, "model": model, "blocks": self.blocks,
                "in_folder": in_folder,
            }  # fmt: skip
            if ray is not None:
                from rae.engine.cluster import Cluster, embed_on_cluster

                cluster = Cluster(ray, ray_cores, shared)
                return embed_on_cluster(path, fitted, graph, features, cluster, progress=report, **options)
            models = models_of(fitted, graph, features, check=memory is None)
            return embed_to(path, models, report=of_stage(report, "embed"), **options)

        with shown(progress) as report:
            return self._on_device(
                graph, lambda: written(report), by_cpu=ray is not None, bounded=memory is not None or in_folder
            )

    def fit_transform(
        self,
        graph: Graph,
        y: Any = None,
        *,
        features: Any = None,
        feature_names: Sequence[str] | str | os.PathLike[str] | None = None,
        progress: Asked = None,
    ) -> Floats:
        """fit, then the vectors of the same graph."""
        with shown(progress) as report:
            reporter = report or False
            self.fit(graph, y, features=features, feature_names=feature_names, progress=reporter)
            return self.transform(graph, features, progress=reporter)

    def embed_graphs(
        self, graphs: Sequence[Graph], features: Sequence[Any] | None = None, *, readout: str | None = None
    ) -> Floats:
        """One vector per graph: the sum (the paper), mean or max over its nodes.  -> (len(graphs), width)

        Each is read as a whole graph: a part of one gives the vector of the part, without a warning.
        `readout="all"`, the default of an exact model, gives the number of nodes, its logarithm, means and sums side by
        side, of the blocks that are meant for readers: own, near, around. An exact model measures all graphs in the
        units of its fit.
        """
        model = self.fitted
        if readout is None:
            readout = "all" if isinstance(model, ExactModel) else "sum"
        if readout not in _READOUTS:
            raise ConfigError(
                Argument("readout"), f" must be one of {', '.join(map(repr, _READOUTS))}, got {readout!r}"
            )
        check_many(graphs, features)
        model = in_units_of(model, "fit")
        parts = []
        for start, stop in row_runs(np.cumsum([0, *(g.n_nodes for g in graphs)]), _NODES_AT_ONCE):
            chosen = None if features is None else self._expected(features[start:stop])
            graph, features_of_some = joined(graphs[start:stop], chosen)
            z = embed(models_of(model, graph, features_of_some))
            if readout == "all" and isinstance(model, ExactModel):
                z = np.hstack([z[:, b.start : b.stop] for b in model.blocks if b.name in _READ_OUT])
            sizes = np.array([g.n_nodes for g in graphs[start:stop]])
            parts.append(_read_out(z, sizes, readout))
        return np.vstack(parts)

    def _cluster(self, ray: str | None, ray_cores: int | None, ray_workers: int, shared: str | None) -> Cluster | None:
        """The cluster to fit on, None for this machine."""
        if ray is None:
            return None
        if shared is None:
            what = " must be what names of files begin with that all hosts of the cluster see, such as /shared/network"
            raise ConfigError(Argument("shared"), what)
        from rae.engine.cluster import Cluster

        return Cluster(ray, ray_cores, shared, ray_workers)

    def _on_device(
        self,
        graph: Graph,
        work: Callable[[], T],
        *,
        fitting: bool = False,
        by_cpu: bool = False,
        bounded: bool = False,
    ) -> T:
        """The result of `work` on the device of this model; `by_cpu`, for some nodes or by a cluster, on the CPU.

        Where the memory of a GPU is not enough the CPU does the work, with a warning.
        """
        trains = fitting and isinstance(self.config, Config)
        device = self.device
        if by_cpu or (device == "auto" and (bounded or trains)):
            device = "cpu"  # too little work, or work that the CPU does as well
        name = chosen_device(device, len(graph.targets), 0 if bounded else device_bytes(graph, self._width_on_device))
        try:
            with on_device(name):
                return work()
        except RuntimeError as error:
            if name == "cpu" or not is_out_of_memory(error):
                raise
        log.warning("the memory of %s is not enough for this graph, the work is done on the CPU", gpu_name(name))
        free_device_memory()
        with on_device("cpu"):
            return work()

    @property
    def _width_on_device(self) -> int:
        """Columns of all nodes that are on a GPU at a time, at most, by the width of a vector."""
        return 512 if self._fitted is None else 2 * sum(block.width for block in self.blocks)

    # ---------------------------------------------------------------------------- save, load

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one safetensors file, atomically."""
        checkpoint.save(self.fitted, path)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "cpu") -> RAE:
        """The model that `save` wrote, to work on this device."""
        fitted = checkpoint.load(path)
        model = cls(fitted.config, device=device)
        model._fitted = fitted
        return model

    # -------------------------------------------------------------------- what a fit leaves

    @property
    def history(self) -> list[dict[str, Any]]:
        """Every few steps: loss (its name), step, value, rank of the vectors, mean cosine; empty for an exact model."""
        return self.fitted.history

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The named blocks of a vector, in order: columns, scale, and weight in distances.

        >>> model = RAE().fit(Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)]))
        >>> [(block.name, block.width, block.weight) for block in model.blocks]
        [('place', 64, 1.0), ('around', 24, 0.0)]
        """
        return self.fitted.blocks

    @property
    def hops(self) -> int:
        """How many edges away a vector reads: what an ego graph must hold around a node (see `rae.ego_graph`).

        >>> RAE().fit(Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)])).hops
        4
        """
        return self.fitted.hops

    @property
    def encoders(self) -> dict[str, Encoder]:
        """The trained encoders by loss, as torch modules; an exact model has none."""
        return {} if isinstance(self.fitted, ExactModel) else self.fitted.encoders

    @property
    def n_features(self) -> int:
        """How many columns the model reads."""
        return self.fitted.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the feature columns, where they had names."""
        return self.fitted.feature_names

    @property
    def edges_read(self) -> dict[str, Any]:
        """What the model reads of edges besides their ends: `channels`, and whether they are `weighted`.

        >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)], directed=True)
        >>> RAE().fit(graph).edges_read
        {'channels': ['out', 'in'], 'weighted': False}
        """
        model = self.fitted
        if not isinstance(model, ExactModel):
            return {"channels": [], "weighted": False}
        return {"channels": list(model.channels), "weighted": model.weighted}

    @property
    def structural(self) -> bool:
        """Whether the model was fitted on structure alone."""
        return self.fitted.structural

    @property
    def fitted(self) -> Fitted:
        """The fitted model, as `save` writes it; an error before the fit."""
        if self._fitted is None:
            raise NotFittedError("this model has no weights yet; call fit(graph) first, or RAE.load(path)")
        return self._fitted

    # ------------------------------------------------------------- scikit-learn's conventions

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by name, and the device where one was asked for."""
        return self.config.as_dict() | ({} if self.device == "cpu" else {"device": self.device})

    def set_params(self, **settings: Any) -> Self:
        """Change settings for the next fit; a fitted model keeps the ones it was fitted with."""
        self.device = settings.pop("device", self.device)
        self.config = self.config.replace(**settings)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __repr__(self) -> str:
        return f"RAE({', '.join(f'{k}={v!r}' for k, v in self.config.changed().items())})"

    def _repr_html_(self) -> str:
        changed = [(name, repr(value)) for name, value in self.config.changed().items()]
        kind = "exact model" if isinstance(self.config, ExactConfig) else "trained model"
        if self._fitted is None:
            return display.panel(f"RAE, {kind}, not fitted", display.table(changed or [("settings", "all by default")]))
        blocks = self.blocks
        rows = [(b.name, b.width, f"{b.weight:g}", b.about) for b in blocks]
        return display.panel(
            f"RAE, {kind}, fitted on " + ("structure alone" if self.structural else f"{self.n_features:,} features"),
            *([display.table(changed)] if changed else []),
            display.table(rows, ("block", "columns", "weight", "what it holds")),
            display.strip("columns of a vector", [b.width for b in blocks], [b.name for b in blocks]),
        )

    def _check_reach(self, graphs: Sequence[Graph], graph: Graph, rows: Any, units: str | None, whole: bool) -> None:
        """Refuse vectors that read beyond the cut of an ego graph; warn of graphs that may be parts of others."""
        if graph.reach is not None:
            self._refuse_cut(graph.reach if rows is None else graph.reach[rows], units)
        fitted_on = self.fitted.fitted_on
        known = whole or all(one.is_whole or one.fitted_on == fitted_on != "" for one in graphs)
        if graph.n_nodes and not known and not is_digest_of(fitted_on, *graphs):
            warn_caller(self._cut_warning(graph.reach is not None))

    def _refuse_cut(self, reach: Any, units: str | None) -> None:
        """Refuse vectors that read farther than this, or in units that the whole graph need not have."""
        model = in_units_of(self.fitted, units)
        if isinstance(model, Checkpoint) and model.draws:
            raise GraphError(
                f"this model was fitted with {' and '.join(model.draws)} and draws neighbours by row number, which a "
                "part of a graph does not have; pass the whole graph, and ",
                *(Argument("nodes", ...), " to get some of its vectors"),
            )
        if isinstance(model, ExactModel) and model.structure is not None and model.config.relative:
            raise GraphError(
                "a part of a graph does not have the units of the graph it was cut from; pass ",
                *(Argument("units", "fit"), ", or the whole graph"),
            )
        if len(reach) and int(reach.min()) < self.hops:
            raise GraphError(
                f"a vector of this model reads {self.hops} edges away, and {int((reach < self.hops).sum()):,} of "
                f"{len(reach):,} nodes asked for are nearer to the cut, as near as {int(reach.min())}; pass ",
                *(
                    Argument("nodes", ...),
                    f" with those inside, and cut by rae.ego_graph(graph, nodes, hops={self.hops})",
                ),
            )

    def _cut_warning(self, is_ego: bool) -> CutWarning:
        """What vectors are if edges are missing in the graph that they are asked of."""
        everywhere = isinstance(self.fitted, ExactModel) and self.fitted.structure is not None
        what = "this was not cut from the graph of the fit" if is_ego else "this is not the graph of the fit"
        reads = f"a vector reads what is up to {self.hops} edge{'s' if self.hops > 1 else ''} away"
        if everywhere:
            reads += " and core numbers of the whole graph"
        wrong = "its vectors are" if everywhere else "vectors near the cut are"
        cut = "" if is_ego else f"cut by rae.ego_graph(whole, nodes, hops={self.hops}), or "
        return CutWarning(
            f"{what}; {reads}, so if it is a part of a larger graph, {wrong} wrong: {cut}pass ",
            *(Argument("whole", True), " if no edge is missing"),
        )

    def _expected(self, features: Any) -> Any:
        """The features as the fitted model expects them: present or absent, columns in its order."""
        model = self.fitted
        if model.structural and features is not None:
            raise FeatureError("the model was fitted on structure alone, got features; leave them out")
        if not model.structural and features is None:
            raise FeatureError("the model was fitted with features, got none; pass the same columns for these nodes")
        return with_columns(features, model.feature_names)


def in_units_of(model: Fitted, units: str | None) -> Fitted:
    """The model with its measures in units of "graph", each graph, or of the "fit"; None leaves it as it is."""
    if units not in (None, *UNITS):
        raise ConfigError(Argument("units"), f" must be one of {', '.join(map(repr, UNITS))}, got {units!r}")
    if units is None or not isinstance(model, ExactModel):  # a trained model has no units
        return model
    return replace(model, config=model.config.replace(relative=units == "graph"))


RAE.__init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY),
        inspect.Parameter("config", inspect.Parameter.POSITIONAL_ONLY, default=None),
        inspect.Parameter("device", inspect.Parameter.KEYWORD_ONLY, default="cpu"),
        *(
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default)
            for f in {f.name: f for kind in (ExactConfig, Config) for f in fields(kind)}.values()
        ),
    ]
)


def _read_out(z: Floats, sizes: Any, readout: str) -> Floats:
    """One row per graph, from the vectors of the nodes of all graphs, one graph after the other."""
    total = _READOUTS[readout].reduceat(z, np.cumsum(sizes) - sizes, axis=0)
    count = sizes[:, None].astype(np.float32)
    if readout == "all":
        return np.hstack([count, np.log1p(count), total / count, total])
    out: Floats = total / count if readout == "mean" else total
    return out
