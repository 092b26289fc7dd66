"""RAE: fit, transform, save, load. The composition root of the library."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from rae.config import Config
from rae.engine import embed, embed_to
from rae.errors import Argument, ConfigError, FeatureError, GraphError, NotFittedError
from rae.features import Features, FeatureTable
from rae.graph import Graph
from rae.model import checkpoint
from rae.model.checkpoint import Checkpoint, losses
from rae.model.encoder import Encoder
from rae.model.training import fit
from rae.progress import Progress

Floats = np.ndarray[Any, np.dtype[np.float32]]

_READOUTS = {"sum": np.add, "mean": np.add, "max": np.maximum}
_NODES_AT_ONCE = 200_000  # of small graphs embedded in one pass


class RAE:
    """Role action embeddings: nodes in like positions get like vectors.

    >>> graph = Graph.from_edges([("hub", "a"), ("hub", "b"), ("a", "c"), ("b", "d")])
    >>> z = RAE(dims=(8,), fanout=(5,), steps=0).fit_transform(graph)
    >>> dict(zip(graph.ids, z))["a"].tolist() == dict(zip(graph.ids, z))["b"].tolist()
    True
    """

    def __init__(self, config: Config | None = None, /, **settings: Any) -> None:
        if config is not None and not isinstance(config, Config):
            raise ConfigError(
                f"the first argument must be a Config such as rae.PAPER, got {type(config).__name__}; "
                "name settings, as in RAE(steps=500)"
            )
        self.config = (Config() if config is None else config).replace(**settings)
        self._fitted: Checkpoint | None = None

    # ------------------------------------------------------------------------ fit, transform

    def fit(
        self,
        graph: Graph | Sequence[Graph],
        features: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from one graph, or from several side by side; without features, from structure alone.

        `features` is a matrix with one row per node in the graph's row order, dense or SciPy sparse,
        or a FeatureTable keyed by id; for several graphs, one of these per graph.
        """
        names = _names(features) or feature_names
        x = _features(graph, _with_columns(features, names), self.config, names)
        encoders: dict[str, Encoder] = {}
        history: list[dict[str, Any]] = []
        for loss in losses(self.config):
            encoders[loss], records = fit(x.graph, x, self.config, loss, progress)
            history += [record.as_dict() for record in records]
        self._fitted = Checkpoint(self.config, encoders, x.width, x.is_structural, x.names, history)
        return self

    def transform(
        self, graph: Graph, features: Any = None, *, nodes: Any = None, progress: Progress | None = None
    ) -> Floats:
        """The vectors of this graph's nodes, in row order, whether or not the fit has seen them.

        -> (n, width): the last level first, then the lower ones; for loss="both" within, then neighbor. `nodes`
        are ids: only their vectors, in their order, from no more of the graph than they need.
        """
        x = _features(graph, self._expected(features), self._model.config)
        self._check_width(x)
        rows = None if nodes is None else x.graph.rows(nodes)
        return embed(self._model.encoders, x, nodes=rows, report=_report(progress))

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
        progress: Progress | None = None,
    ) -> int:
        """Write what `transform` gives to .parquet or .csv while it is made, and return the vectors' width.

        The rows that levels average are in memory, the vectors of all nodes never are. With `memory`, what
        the process may take, e.g. "4GiB", what does not fit goes to a folder beside the file, and the
        same call goes on where a killed one was. `half` keeps those intermediate rows in half precision,
        `dtype` is that of the file, `model` a model file's checksum for its header.
        """
        if half and memory is None:
            raise ConfigError(
                *(Argument("half", True), " is about rows kept on disk, which ", Argument("memory", ...)),
                " asks for; pass both",
            )
        x = _features(graph, self._expected(features), self._model.config, check=memory is None)
        self._check_width(x)
        return embed_to(
            path, self._model.encoders, x,
            memory=memory, half=half, dtype=dtype, model=model, report=_report(progress),
        )  # fmt: skip

    def fit_transform(
        self,
        graph: Graph,
        features: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Floats:
        """fit, then the vectors of the same graph."""
        return self.fit(graph, features, feature_names=feature_names, progress=progress).transform(
            graph, features, progress=progress
        )

    def embed_graphs(
        self, graphs: Sequence[Graph], features: Sequence[Any] | None = None, *, readout: str = "sum"
    ) -> Floats:
        """One vector per graph: the sum (the paper), mean or max over its nodes.  -> (len(graphs), width)"""
        if readout not in _READOUTS:
            raise ConfigError(Argument("readout"), f" must be one of 'sum', 'mean', 'max', got {readout!r}")
        _check_many(graphs, features)
        parts = []
        for start, stop in _groups([g.n_nodes for g in graphs], _NODES_AT_ONCE):
            chosen = None
            if features is not None:
                chosen = _stacked(graphs[start:stop], self._expected(features[start:stop]))
            z = self.transform(Graph.disjoint_union(graphs[start:stop]), chosen)
            sizes = np.array([g.n_nodes for g in graphs[start:stop]])
            vectors = _READOUTS[readout].reduceat(z, np.cumsum(sizes) - sizes, axis=0)
            parts.append(vectors / sizes[:, None].astype(np.float32) if readout == "mean" else vectors)
        return np.vstack(parts)

    # ---------------------------------------------------------------------------- save, load

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one safetensors file, atomically."""
        checkpoint.save(self._model, path)

    @classmethod
    def load(cls, path: str | Path) -> RAE:
        """The model that `save` wrote."""
        fitted = checkpoint.load(path)
        model = cls(fitted.config)
        model._fitted = fitted
        return model

    # -------------------------------------------------------------------- what a fit leaves

    @property
    def history(self) -> list[dict[str, Any]]:
        """Every few steps: loss (its name), step, value, rank of the vectors, their mean cosine."""
        return self._model.history

    @property
    def encoders(self) -> dict[str, Encoder]:
        """The trained encoders by loss, as torch modules."""
        return self._model.encoders

    @property
    def n_features(self) -> int:
        """How many columns the model reads."""
        return self._model.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the feature columns, where they had names."""
        return self._model.feature_names

    @property
    def structural(self) -> bool:
        """Whether the model was fitted on structure alone."""
        return self._model.structural

    @property
    def _model(self) -> Checkpoint:
        if self._fitted is None:
            raise NotFittedError("this model has no weights yet; call fit(graph) first, or RAE.load(path)")
        return self._fitted

    # ------------------------------------------------------------- scikit-learn's conventions

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by name."""
        return self.config.as_dict()

    def set_params(self, **settings: Any) -> Self:
        """Change settings for the next fit; a fitted model keeps the ones it was fitted with."""
        self.config = self.config.replace(**settings)
        return self

    def __repr__(self) -> str:
        return f"RAE({', '.join(f'{k}={v!r}' for k, v in self.config.changed().items())})"

    def _check_width(self, x: Features) -> None:
        if x.width != self._model.n_features:
            raise FeatureError(f"the model was fitted on {self._model.n_features:,} feature columns, got {x.width:,}")

    def _expected(self, features: Any) -> Any:
        """The features as the fitted model wants them: present or absent, columns in its order."""
        model = self._model
        if model.structural and features is not None:
            raise FeatureError("the model was fitted on structure alone, got features; leave them out")
        if not model.structural and features is None:
            raise FeatureError("the model was fitted with features, got none; pass the same columns for these nodes")
        return _with_columns(features, model.feature_names)


RAE.__init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY),
        inspect.Parameter("config", inspect.Parameter.POSITIONAL_ONLY, default=None),
        *(inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default) for f in fields(Config)),
    ]
)


def _features(
    graph: Any, features: Any, config: Config, names: Sequence[str] | None = None, *, check: bool = True
) -> Features:
    """The features of one graph, or of several side by side."""
    if isinstance(graph, (list, tuple)):
        _check_many(graph, features)
        features = None if features is None else _stacked(graph, features)
        graph = Graph.disjoint_union(graph)
    if not isinstance(graph, Graph):
        raise GraphError(f"expected a rae.Graph, got {type(graph).__name__}; make one with rae.Graph.from_edges")
    return Features.of(graph, features, config, names, check=check)


def _report(progress: Progress | None) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress("embed", done, total, {})


def _names(features: Any) -> tuple[str, ...] | None:
    """The names of a table's columns, or of several tables' columns together, where they have names."""
    if isinstance(features, FeatureTable):
        return features.names
    tables = [t for t in features if isinstance(t, FeatureTable)] if isinstance(features, (list, tuple)) else []
    if not tables or any(t.names is None for t in tables):
        return None
    if any(t.open_vocabulary for t in tables):
        return tuple(sorted({name for t in tables for name in t.names or ()}))
    return tables[0].names


def _with_columns(features: Any, names: Sequence[str] | None) -> Any:
    """Tables with their columns in this order; what has no names stays as it is."""
    if names is not None and isinstance(features, FeatureTable):
        return features.with_columns(names)
    if names is not None and isinstance(features, (list, tuple)):
        return [_with_columns(f, names) for f in features]
    return features


def _check_many(graphs: Sequence[Any], features: Any) -> None:
    if not graphs or not all(isinstance(g, Graph) for g in graphs):
        raise GraphError("expected one or more rae.Graph, got " + (type(graphs[0]).__name__ if graphs else "none"))
    if features is not None and not isinstance(features, (list, tuple)):
        raise FeatureError(f"features must be a list with one matrix or table per graph, got {type(features).__name__}")
    if features is not None and len(features) != len(graphs):
        raise FeatureError(f"features must have one matrix per graph ({len(graphs):,}), got {len(features):,}")


def _stacked(graphs: Sequence[Graph], features: Sequence[Any]) -> Any:
    parts: list[Any] = [
        f.aligned(g) if isinstance(f, FeatureTable) else f for g, f in zip(graphs, features, strict=True)
    ]
    for graph, part in zip(graphs, parts, strict=True):
        if part.shape[0] != graph.n_nodes:
            raise FeatureError(f"features must have one row per node ({graph.n_nodes:,}), got {part.shape[0]:,}")
    if not any(map(sp.issparse, parts)):
        return np.concatenate(parts)
    return sp.csr_array(sp.vstack([sp.csr_array(part, dtype=np.float32) for part in parts]))


def _groups(sizes: list[int], most: int) -> Iterator[tuple[int, int]]:
    """Cut a list into runs whose sizes add up to `most` or less (a larger one stands alone)."""
    start, total = 0, 0
    for i, size in enumerate(sizes):
        if total and total + size > most:
            yield start, i
            start, total = i, 0
        total += size
    yield start, len(sizes)
