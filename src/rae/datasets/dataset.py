"""Dataset: one graph with features, labels and a split. GraphCollection: many small graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.errors import DatasetError
from rae.features import Matrix
from rae.graph import Graph

Labels = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Split:
    """Rows for training, validation and test."""

    train: Labels
    val: Labels
    test: Labels

    def __repr__(self) -> str:
        return f"Split(train={len(self.train):,}, val={len(self.val):,}, test={len(self.test):,})"


@dataclass(frozen=True, eq=False)
class Dataset:
    """One graph; features and labels are in its row order, and a label of -1 means none."""

    name: str
    graph: Graph
    features: Matrix | None = None
    feature_names: tuple[str, ...] | None = None
    labels: Labels | None = None
    label_names: tuple[str, ...] | None = None
    split: Split | None = None
    splits: tuple[Split, ...] = ()  # where there are several public ones; `split` is the first
    node_names: tuple[str, ...] | None = None  # what people call the nodes, where ids are numbers

    def __post_init__(self) -> None:
        for name, rows in (("features", self.features), ("labels", self.labels)):
            if rows is not None and rows.shape[0] != self.graph.n_nodes:
                raise DatasetError(
                    f"{self.name}: {name} must have one row per node ({self.graph.n_nodes:,}), got {rows.shape[0]:,}"
                )
        if self.node_names is not None and len(self.node_names) != self.graph.n_nodes:
            count = self.graph.n_nodes
            raise DatasetError(
                f"{self.name}: node_names must be one per node ({count:,}), got {len(self.node_names):,}"
            )

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 without labels."""
        return 0 if self.labels is None else int(self.labels.max(initial=-1)) + 1

    def __repr__(self) -> str:
        width = None if self.features is None else self.features.shape[1]
        return (
            f"Dataset({self.name!r}, nodes={self.graph.n_nodes:,}, edges={self.graph.n_edges:,}, "
            f"features={width}, classes={self.n_classes}, split={self.split})"
        )


@dataclass(frozen=True, eq=False)
class GraphCollection:
    """Many graphs with one label each; `folds` are the public test sets of cross-validation."""

    name: str
    graphs: tuple[Graph, ...]
    labels: Labels
    features: tuple[Matrix, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None
    folds: tuple[Labels, ...] | None = None

    def __post_init__(self) -> None:
        for name, rows in (("labels", self.labels), ("features", self.features)):
            if rows is not None and len(rows) != len(self.graphs):
                count = len(self.graphs)
                raise DatasetError(f"{self.name}: {name} must be one per graph ({count:,}), got {len(rows):,}")

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.labels.max(initial=-1)) + 1

    def __repr__(self) -> str:
        return (
            f"GraphCollection({self.name!r}, graphs={len(self):,}, nodes={sum(g.n_nodes for g in self.graphs):,}, "
            f"edges={sum(g.n_edges for g in self.graphs):,}, classes={self.n_classes}, "
            f"folds={None if self.folds is None else len(self.folds)})"
        )
