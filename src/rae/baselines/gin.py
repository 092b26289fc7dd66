"""GIN (Xu et al. 2019): sums over neighbours and a small network, round by round; the graph is the sum of its nodes.

A classifier: it is given the labels of the training graphs. GINConv is PyTorch Geometric's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.graph_batches import Batch, Batches, GraphInputs, class_codes, fit_classifier, predicted
from rae.baselines.networks import NEEDS, Neural, geometric
from rae.baselines.registry import Ints, method
from rae.errors import ConfigError
from rae.graph import Graph

SOCIAL = {name: {"width": 64} for name in ("IMDB-BINARY", "IMDB-MULTI")}


@method(
    "GIN",
    paper="Xu et al. 2019",
    needs=NEEDS,
    of="graphs",
    # The paper: 64 columns for social graphs, and no degrees for the nodes of REDDIT.
    by_dataset={**SOCIAL, "REDDIT-BINARY": {"width": 64, "without": "constant"}},
)
@dataclass(kw_only=True, eq=False)
class GIN(Neural):
    """GIN-0: `layers` rounds, each with a network of two layers, `width` columns; every round has its say.

    Without features, nodes have a column per degree (`without="degree"`) or nothing but a one (`"constant"`). The
    number of passes is chosen by a tenth of the training graphs.
    """

    layers: int = 4
    width: int = 32
    dropout: float = 0.5
    batch: int = 32
    learning_rate: float = 0.01
    halve_every: int = 50
    passes: int = 350
    patience: int = 100
    without: str = "degree"
    chosen_pass: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.without not in ("degree", "constant"):
            raise ConfigError(f"without must be one of 'degree', 'constant', got {self.without!r}")

    def fit(self, graphs: Sequence[Graph], features: Sequence[Any] | None, labels: Ints, train: Ints) -> Self:
        """Learn from the labels of the graphs `train`; no other graph or label is read."""
        self._classes, codes = class_codes(labels, train)
        own = [graphs[i] for i in train]
        train_features = None if features is None else [features[i] for i in train]
        self._inputs = GraphInputs.of(own, train_features, self.without)
        batches = Batches(own, train_features, self._inputs, self.device)
        with self._seeded():
            model = Network(self._inputs.width, self.width, self.layers, len(self._classes), self.dropout).to(
                self.device
            )
            optimizer = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
            self.chosen_pass = fit_classifier(
                model, lambda part: model(batches.of(part)), codes[train], np.arange(len(train)), optimizer,
                passes=self.passes, patience=self.patience, batch=self.batch, seed=self.seed,
                halve_every=self.halve_every,
            )  # fmt: skip
        self.model = model
        return self

    def predict(self, graphs: Sequence[Graph], features: Sequence[Any] | None = None) -> Ints:
        """The class of every graph.  -> (g,)"""
        model = self._fitted()
        batches = Batches(graphs, features, self._inputs, self.device)
        codes = predicted(lambda part: model(batches.of(part)), len(graphs))
        return np.asarray(self._classes[codes])


class Rounds(nn.Module):
    """The vectors of the nodes after each round of GIN.  Batch -> rounds of (n, width)"""

    def __init__(self, n_features: int, width: int, rounds: int) -> None:
        super().__init__()
        widths = [n_features] + [width] * (rounds - 1)
        self.rounds = nn.ModuleList(
            geometric().GINConv(
                nn.Sequential(nn.Linear(w, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width))
            )
            for w in widths
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in widths)

    def forward(self, batch: Batch) -> list[Tensor]:
        x, levels = batch.x, []
        for sums, norm in zip(self.rounds, self.norms, strict=True):
            x = F.relu(norm(sums(x, batch.edges)))
            levels.append(x)
        return levels


def summed(x: Tensor, batch: Batch) -> Tensor:
    """The sums over the nodes of each graph.  (n, d) -> (g, d)"""
    return torch.zeros(batch.n_graphs, x.shape[1], device=x.device).index_add(0, batch.graph_of, x)


class Network(nn.Module):
    """What GIN says of each graph of a batch.  -> (g, classes)"""

    def __init__(self, n_features: int, width: int, layers: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.body = Rounds(n_features, width, layers)
        self.says = nn.ModuleList(nn.Linear(w, classes) for w in [n_features] + [width] * layers)
        self.dropout = dropout

    def forward(self, batch: Batch) -> Tensor:
        levels = [batch.x, *self.body(batch)]
        said = [
            F.dropout(says(summed(x, batch)), self.dropout, self.training)
            for x, says in zip(levels, self.says, strict=True)
        ]
        return torch.stack(said).sum(0)
