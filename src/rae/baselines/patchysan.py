"""Patchy-SAN (Niepert et al. 2016): a graph as a sequence of ordered neighbourhoods, read by a convolutional network.

Nodes are ordered by a centrality; the first of them get a receptive field each: the `field_size` nodes nearest
to it, by distance, then by that order. A classifier: it is given the labels of the training graphs.

The paper breaks ties of the order by a canonical form (nauty). Here colour refinement breaks them, and what is left,
which are nodes in equal positions but for rare exceptions, stays in row order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from scipy.sparse import csgraph
from torch import Tensor, nn

from rae.baselines.colors import colors
from rae.baselines.graph_batches import GraphInputs, class_codes, fit_classifier, predicted
from rae.baselines.networks import Neural
from rae.baselines.registry import Floats, Ints, method
from rae.errors import ConfigError
from rae.graph import Graph

ORDERS = ("betweenness", "pagerank")


@method(
    "Patchy-SAN",
    paper="Niepert et al. 2016",
    needs=("networkx",),
    of="graphs",
    by_dataset={"REDDIT-BINARY": {"order": "pagerank"}},  # betweenness of graphs of thousands of nodes takes hours
)
@dataclass(kw_only=True, eq=False)
class PatchySAN(Neural):
    """Two convolutions (16 and 8 channels), a layer of 128 with dropout, and a layer for the classes, as in the paper.

    The sequence is as long as the mean training graph has nodes. Without features a node has its degree divided by the
    largest of its graph. The number of passes is chosen by a tenth of the training graphs.
    """

    field_size: int = 10
    order: str = "betweenness"
    batch: int = 32
    dropout: float = 0.5
    learning_rate: float = 0.001
    passes: int = 200
    patience: int = 50
    chosen_pass: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in ORDERS:
            raise ConfigError(f"order must be one of {', '.join(ORDERS)}, got {self.order!r}")

    def fit(self, graphs: Sequence[Graph], features: Sequence[Any] | None, labels: Ints, train: Ints) -> Self:
        """Learn from the labels of the graphs `train`; no other graph or label is read."""
        self._classes, codes = class_codes(labels, train)
        own = [graphs[i] for i in train]
        train_features = None if features is None else [features[i] for i in train]
        self._length = max(1, round(float(np.mean([g.n_nodes for g in own]))))
        self._inputs = GraphInputs.of(own, train_features, "constant")
        x = self._fields(own, train_features)
        with self._seeded():
            model = Network(x.shape[1], self._length, self.field_size, len(self._classes), self.dropout).to(self.device)
            optimizer = torch.optim.RMSprop(model.parameters(), lr=self.learning_rate)
            self.chosen_pass = fit_classifier(
                model, lambda part: model(x[part].to(self.device)), codes[train], np.arange(len(train)), optimizer,
                passes=self.passes, patience=self.patience, batch=self.batch, seed=self.seed,
            )  # fmt: skip
        self.model = model
        return self

    def predict(self, graphs: Sequence[Graph], features: Sequence[Any] | None = None) -> Ints:
        """The class of every graph.  -> (g,)"""
        model, x = self._fitted(), self._fields(graphs, features)
        codes = predicted(lambda part: model(x[part].to(self.device)), len(graphs))
        return np.asarray(self._classes[codes])

    def _fields(self, graphs: Sequence[Graph], features: Sequence[Any] | None) -> Tensor:
        """The nodes of each graph's receptive fields, one field after the other.  -> (g, d, length * field_size)"""
        tables = [None] * len(graphs) if features is None else features
        rows = [self._one(g, f) for g, f in zip(graphs, tables, strict=True)]
        return torch.from_numpy(np.stack(rows))

    def _one(self, graph: Graph, features: Any) -> Floats:
        x = self._inputs.table(graph, features)
        if features is None:
            x = x * (graph.degrees / max(1, int(graph.degrees.max(initial=0))))[:, None].astype(np.float32)
        padded = np.vstack([x, np.zeros((1, x.shape[1]), np.float32)])  # the last row: no node
        fields = receptive_fields(graph, self._length, self.field_size, self.order)
        return np.ascontiguousarray(padded[fields.reshape(-1)].T)


@lru_cache(maxsize=4096)
def node_order(graph: Graph, order: str) -> Ints:
    """The place of every node: the most central is 0; equally central nodes go by their colours.  -> (n,)"""
    centrality = np.round(_betweenness(graph) if order == "betweenness" else _pagerank(graph), 9)
    sorted_rows = np.lexsort((np.arange(graph.n_nodes), colors([graph], None, 3)[-1], -centrality))
    ranks = np.empty(graph.n_nodes, np.int64)
    ranks[sorted_rows] = np.arange(graph.n_nodes)
    return ranks


def receptive_fields(graph: Graph, length: int, field_size: int, order: str) -> Ints:
    """The rows of each field of a graph; -1 where there is no node.  -> (length, field_size)"""
    n, ranks = graph.n_nodes, node_order(graph, order)
    roots = np.argsort(ranks)[:length]
    distances = csgraph.dijkstra(graph.to_scipy(), directed=False, unweighted=True, indices=roots)
    far = ~np.isfinite(distances)
    distances[far] = n
    nearest = np.argsort(distances * n + ranks, axis=1, kind="stable")[:, :field_size]
    nearest[np.take_along_axis(far, nearest, 1)] = -1
    fields = np.full((length, field_size), -1)
    fields[: len(roots), : nearest.shape[1]] = nearest
    return fields


def _betweenness(graph: Graph) -> Any:
    import networkx as nx

    plain = nx.Graph()
    plain.add_nodes_from(range(graph.n_nodes))
    plain.add_edges_from(graph.edges().tolist())
    return np.array(list(nx.betweenness_centrality(plain).values()))


def _pagerank(graph: Graph, damping: float = 0.85, steps: int = 100) -> Any:
    shares = graph.to_scipy().multiply(1 / np.maximum(graph.degrees, 1)[:, None]).T.tocsr()
    rank = np.full(graph.n_nodes, 1 / max(1, graph.n_nodes))
    for _ in range(steps):
        rank = (1 - damping) / graph.n_nodes + damping * (shares @ rank)
    return rank


class Network(nn.Module):
    """What the network says of each graph.  (g, given, length * field_size) -> (g, classes)"""

    def __init__(self, n_features: int, length: int, field_size: int, classes: int, dropout: float) -> None:
        super().__init__()
        second = min(10, length)
        self.layers = nn.Sequential(
            nn.Conv1d(n_features, 16, field_size, stride=field_size), nn.ReLU(),
            nn.Conv1d(16, 8, second), nn.ReLU(), nn.Flatten(),
            nn.Linear(8 * (length - second + 1), 128), nn.ReLU(), nn.Dropout(dropout), nn.Linear(128, classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        said: Tensor = self.layers(x)
        return said
