"""Planetoid (Yang et al. 2016): vectors that predict both the class and the surroundings of a node.

The surroundings are nodes near on a random walk, or, for a share of the draws, nodes of the same class; random pairs
are the negatives. In the transductive variant every node has a vector of its own, in the inductive one it is a layer
over the features. A class is read from features and vector together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.networks import Input, Labelled, NeuralClassifier, Patience, descend, never, validation_score
from rae.baselines.registry import Ints, method
from rae.baselines.walks import random_walks
from rae.errors import ConfigError
from rae.graph import Graph
from rae.runtime import generator


@dataclass(kw_only=True, eq=False)
class _Planetoid(NeuralClassifier):
    """What both variants share; first `warm_steps` on surroundings alone, then a step of each in turn.

    The weights of the highest validation accuracy are kept.
    """

    dims: int = 50
    walks: int = 10
    length: int = 10
    window: int = 3
    by_class: float = 0.5  # share of the pairs that come from classes
    batch: int = 200
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    warm_steps: int = 2000
    steps: int = 400

    inductive = False

    def _train(self, data: Input, labelled: Labelled, graph: Graph) -> nn.Module:
        place = data.x.device
        model = _Network(data, self.dims, labelled.n_classes, self.inductive).to(place)
        walks = random_walks(graph, walks=self.walks, length=self.length, seed=self.seed)
        train, classes = labelled.train.cpu().numpy(), labelled.train_labels.cpu().numpy()
        count = iter(range(self.warm_steps + self.steps))

        def surroundings() -> Tensor:
            random = generator(self.seed, "planetoid", next(count))
            anchors, near = self._pairs(random, walks, train, classes)
            far = random.integers(data.n_nodes, size=(len(anchors), 5))
            rows = torch.from_numpy(np.column_stack([near, far])).to(place)
            vectors = model.vectors(data, torch.from_numpy(anchors).to(place))
            scores = torch.einsum("bd,bcd->bc", vectors, model.context(rows))
            wanted = torch.zeros_like(scores)
            wanted[:, 0] = 1
            return F.binary_cross_entropy_with_logits(scores, wanted)

        def both() -> Tensor:
            scores = model.scores(data, labelled.train)
            return F.cross_entropy(scores, labelled.train_labels) + surroundings()

        stop = Patience(model, self.steps)

        def after(step: int, value: float) -> bool:
            return bool(len(labelled.validation)) and stop(-validation_score(model, lambda: model(data), labelled)[1])

        optimizer = torch.optim.Adam(model.parameters(), self.learning_rate)
        self.losses = descend(optimizer, surroundings, self.warm_steps, never)
        decayed = [p for p in model.parameters() if p is not model.context.weight and p is not model.own]
        rest = [p for p in (model.context.weight, model.own) if p is not None]
        groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": self.weight_decay}, {"params": rest}]
        optimizer = torch.optim.Adam(groups, self.learning_rate)
        self.losses += descend(optimizer, both, self.steps, after)
        if len(labelled.validation):
            stop.restore()
        return model

    def _pairs(self, random: Any, walks: Any, train: Ints, classes: Ints) -> tuple[Ints, Ints]:
        """Anchors and nodes of their surroundings, from walks and from classes."""
        by_class = int(self.by_class * self.batch) if len(walks) else self.batch
        first = random.integers(len(train), size=by_class)
        same = [random.choice(np.flatnonzero(classes == classes[i])) for i in first]
        anchors, near = train[first], train[np.array(same, np.int64)]
        if by_class < self.batch:
            row = random.integers(len(walks), size=self.batch - by_class)
            start = random.integers(self.length, size=len(row))
            gap = random.integers(1, self.window + 1, size=len(row)) * random.choice([-1, 1], len(row))
            end = np.clip(start + gap, 0, self.length - 1)
            anchors = np.concatenate([anchors, walks[row, start]])
            near = np.concatenate([near, walks[row, end]])
        return np.asarray(anchors, np.int64), np.asarray(near, np.int64)


@method("Planetoid, transductive", paper="Yang et al. 2016", transductive=True)
@dataclass(kw_only=True, eq=False)
class PlanetoidT(_Planetoid):
    """Every node has a vector of its own; predictions are of the fitted graph. Sees labels."""

    def predict(self, graph: Graph, features: Any) -> Ints:
        """The class of every node of the fitted graph, in row order.  -> (n,)"""
        if graph.n_nodes != len(self._fitted().own):
            raise ConfigError(
                f"graph must be the fitted one, of {len(self.model.own):,} nodes, got one of {graph.n_nodes:,}; "
                "the inductive Planetoid predicts on others"
            )
        return super().predict(graph, features)


@method("Planetoid, inductive", paper="Yang et al. 2016")
@dataclass(kw_only=True, eq=False)
class PlanetoidI(_Planetoid):
    """A node's vector is a layer over its features, so unseen nodes have one. Sees labels."""

    inductive = True


class _Network(nn.Module):
    def __init__(self, data: Input, dims: int, classes: int, inductive: bool) -> None:
        super().__init__()
        self.context = nn.Embedding(data.n_nodes, dims)
        nn.init.uniform_(self.context.weight, -0.5 / dims, 0.5 / dims)
        self.own = (
            None if inductive else nn.Parameter(torch.empty(data.n_nodes, dims).uniform_(-0.5 / dims, 0.5 / dims))
        )
        self.from_features = nn.Linear(data.width, dims) if inductive else None
        self.features = nn.Linear(data.width, classes)
        self.read = nn.Linear(dims, classes)

    def vectors(self, data: Input, rows: Tensor | None = None) -> Tensor:
        if self.own is not None:
            return self.own if rows is None else self.own[rows]
        assert self.from_features is not None
        return F.relu(self.from_features(data.dense() if rows is None else data.rows(rows)))

    def scores(self, data: Input, rows: Tensor | None = None) -> Tensor:
        x = data.dense() if rows is None else data.rows(rows)
        out: Tensor = self.features(x) + self.read(self.vectors(data, rows))
        return out

    def forward(self, data: Input) -> Tensor:
        return self.scores(data)
