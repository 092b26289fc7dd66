"""Planetoid (Yang et al. 2016): vectors that predict both the class and the surroundings of a node.

The surroundings are nodes of the same class, then nodes near on a random walk, told from all other nodes by a softmax.
In the transductive variant every node has a vector of its own, in the inductive one it is a layer over the features. A
class is read from features, from the vector, and from both of these guesses together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.networks import Input, Labelled, NeuralClassifier, Patience, descend, never
from rae.baselines.registry import Ints, method
from rae.baselines.walks import random_walks
from rae.errors import ConfigError
from rae.graph import Graph
from rae.runtime import generator


@dataclass(kw_only=True, eq=False)
class _Planetoid(NeuralClassifier):
    """What both variants share, with the settings of the released program.

    `class_steps` on pairs of one class, then steps on pairs of walks, `walks` from every node, then `steps` on labels,
    every `walk_every`-th of them on walks too. All by plain descent. The weights of the highest validation accuracy
    are kept. The released program counts steps on walks; here are as many walks a node as it draws on Citeseer.
    """

    dims: int = 50
    length: int = 11
    window: int = 3
    pairs: int = 100
    batch: int = 200  # walks in a step
    class_steps: int = 2000
    walks: float = 4.2
    steps: int = 1000
    learning_rate: float = 0.1
    walk_rate: float = 0.01

    inductive = False
    walk_every = 0
    scale = "none"

    def _train(self, data: Input, labelled: Labelled, graph: Graph) -> nn.Module:
        place = data.x.device
        model = _Network(data, self.dims, labelled.n_classes, self.inductive).to(place)
        train, classes = labelled.train.cpu().numpy(), labelled.train_labels.cpu().numpy()
        random = generator(self.seed, "planetoid")
        at_first = math.ceil(self.walks * data.n_nodes / self.batch)
        needed = at_first + (self.steps // self.walk_every if self.walk_every else 0)
        walks = self._walks(graph, needed)
        around = torch.optim.SGD([*model.parts_of_vectors(), *model.context.parameters()], self.walk_rate)
        turn = iter(range(needed))
        x = data.dense()
        train_x, checked = x[labelled.train], x[labelled.validation]

        def near(pairs: Ints) -> Tensor:
            """The loss of the second node of each pair, told from all nodes by the first."""
            first, second = torch.from_numpy(np.ascontiguousarray(pairs.T)).to(place)
            rows, own = torch.unique(first, return_inverse=True)
            x_of_rows = x[rows] if self.inductive else x[:0]
            return -F.log_softmax(model.context(model.vectors(x_of_rows, rows)), 1)[own, second].sum()

        def on_walks() -> Tensor:
            start = next(turn) * self.batch
            return near(_pairs_of_walks(walks[start : start + self.batch], self.window))

        def on_labels() -> Tensor:
            return sum(
                (F.nll_loss(guess, labelled.train_labels) for guess in model.guesses(train_x, labelled.train)),
                start=torch.zeros((), device=place),
            )

        stop = Patience(model, self.steps)

        def wrong() -> float:
            with torch.no_grad():
                said = model.guesses(checked, labelled.validation)[0].argmax(1)
            return float((said != labelled.validation_labels).float().mean())

        def after(step: int, value: float) -> bool:
            if self.walk_every and (step + 1) % self.walk_every == 0 and len(walks):
                descend(around, on_walks, 1, never)
            return bool(len(labelled.validation)) and stop(wrong())

        descend(around, lambda: near(_pairs_of_classes(train, classes, self.pairs, random)), self.class_steps, never)
        if len(walks):
            descend(around, on_walks, at_first, never)
        readers = torch.optim.SGD(model.parts_of_classes(), self.learning_rate)
        self.losses = descend(readers, on_labels, self.steps, after)
        if len(labelled.validation):
            stop.restore()
        return model

    def _walks(self, graph: Graph, steps: int) -> Ints:
        """A batch of walks for every step, none where no node has a neighbour.  -> (walks, length)"""
        first = int(np.count_nonzero(graph.degrees))
        if first == 0:
            return np.empty((0, self.length), np.int64)
        walks = random_walks(graph, walks=-(-steps * self.batch // first), length=self.length, seed=self.seed)
        return walks.astype(np.int64)


def _pairs_of_walks(walks: Any, window: int) -> Ints:
    """Every two places at most `window` apart on a walk, both ways, and each with itself.  -> (pairs, 2)"""
    pairs = [
        np.stack([walks[:, : walks.shape[1] - gap].ravel(), walks[:, gap:].ravel()], 1)
        for gap in range(min(window + 1, walks.shape[1]))
    ]
    return np.concatenate([*pairs, *(pair[:, ::-1] for pair in pairs[1:])])


def _pairs_of_classes(train: Ints, classes: Ints, count: int, random: np.random.Generator) -> Ints:
    """Random pairs of training nodes of one class.  -> (count, 2)"""
    order = np.argsort(classes, kind="stable")
    sizes = np.bincount(classes)
    starts = np.cumsum(sizes) - sizes
    first = random.integers(len(train), size=count)
    mate = starts[classes[first]] + random.integers(sizes[classes[first]])
    return np.stack([train[first], train[order[mate]]], 1).astype(np.int64)


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

    pairs: int = 20
    batch: int = 20
    class_steps: int = 10_000
    walks: float = 2.4
    walk_rate: float = 0.001

    inductive = True
    walk_every = 10


class _Network(nn.Module):
    def __init__(self, data: Input, dims: int, classes: int, inductive: bool) -> None:
        super().__init__()
        self.context = nn.Linear(dims, data.n_nodes)
        self.own = None if inductive else nn.Parameter(0.01 * torch.randn(data.n_nodes, dims))
        self.from_features = nn.Linear(data.width, dims) if inductive else None
        self.by_features = nn.Linear(data.width, classes)
        self.by_vector = nn.Linear(dims, classes)
        self.by_both = nn.Linear(2 * classes, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def parts_of_vectors(self) -> list[nn.Parameter]:
        """What the vectors are made by."""
        return [p for name, p in self.named_parameters() if name.startswith(("own", "from_features"))]

    def parts_of_classes(self) -> list[nn.Parameter]:
        """What the labels may change: all but the context."""
        return [p for name, p in self.named_parameters() if not name.startswith("context")]

    def vectors(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """The vectors of these nodes, all where none are named; x are their features."""
        if self.from_features is not None:
            return F.relu(_linear(self.from_features, x))
        assert self.own is not None
        return self.own if rows is None else self.own[rows]

    def guesses(self, x: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The logarithms of the classes' chances of these nodes, by both, by features, and by vectors."""
        first = F.log_softmax(_linear(self.by_features, x), 1)
        second = F.log_softmax(self.by_vector(self.vectors(x, rows)), 1)
        both = F.log_softmax(self.by_both(torch.cat([first.exp(), second.exp()], 1)), 1)
        return both, first, second

    def forward(self, data: Input) -> Tensor:
        """The scores of the classes of every node."""
        return self.guesses(data.x)[0]


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """A linear layer of rows that may be sparse."""
    return x @ layer.weight.T + layer.bias
