"""GraphSAGE (Hamilton et al. 2017): a node's row beside the mean of sampled neighbours, without labels and with.

Without labels, nodes that are met on short random walks attract and nodes drawn by degree^0.75 repel. With labels,
the last layer gives the scores of the classes. Vectors and predictions use all neighbours.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.networks import (
    NEEDS,
    Input,
    Labelled,
    NeuralClassifier,
    NeuralEmbedder,
    Patience,
    descend,
    dropout,
    geometric,
    never,
    read_input,
    validation_score,
)
from rae.baselines.registry import Floats, method
from rae.baselines.walks import random_walks
from rae.graph import Graph
from rae.ops.sampling import renumber, sample_neighbors
from rae.runtime import generator, key

Blocks = list[tuple[Tensor, int]]  # by layer: edges among the rows at hand, and how many of these rows are receivers


class _Layers(nn.Module):
    """Layers of PyTorch Geometric's SAGEConv; ReLU between them."""

    def __init__(self, widths: tuple[int, ...], drop: float = 0.0) -> None:
        super().__init__()
        pairs = itertools.pairwise(widths)
        self.layers = nn.ModuleList([geometric().SAGEConv(a, b) for a, b in pairs])
        self.drop = drop

    def sampled(self, x: Tensor, blocks: Blocks) -> Tensor:
        """The rows of the anchors, from a sampled neighbourhood."""
        h = x
        for number, (layer, (edges, count)) in enumerate(zip(self.layers, blocks, strict=True)):
            h = dropout(h, self.drop, self.training)
            h = layer((h, h[:count]), edges, size=(len(h), count))
            h = h if number == len(blocks) - 1 else F.relu(h)
        return h

    def forward(self, data: Input) -> Tensor:
        """The rows of all nodes, from all neighbours."""
        h, edges = data.dense(), data.edges
        for number, layer in enumerate(self.layers):
            h = layer(dropout(h, self.drop, self.training), edges)
            h = h if number == len(self.layers) - 1 else F.relu(h)
        return h


def neighborhood(graph: Graph, anchors: Any, fanouts: tuple[int, ...], chance: Any, device: Any) -> Any:
    """The nodes that the anchors' vectors need, the anchors first, and the edges of every layer.  -> nodes, blocks"""
    nodes, blocks = np.asarray(anchors, np.int64), []
    for hop, fanout in enumerate(fanouts):
        starts, rows = sample_neighbors(graph.offsets, graph.targets, nodes, fanout, key(int(chance), "hop", hop))
        names, place = renumber(np.concatenate([nodes, rows]))
        receivers = np.repeat(np.arange(len(nodes)), np.diff(starts))
        edges = np.stack([place[len(nodes) :], receivers])
        blocks.append((torch.from_numpy(edges).to(device), len(nodes)))
        nodes = np.asarray(names, np.int64)
    return nodes, blocks[::-1]


@method("GraphSAGE, unsupervised", paper="Hamilton et al. 2017", needs=NEEDS)
@dataclass(kw_only=True, eq=False)
class GraphSAGE(NeuralEmbedder):
    """Two layers of mean aggregation.  -> (n, dims); vectors have length one. Without features: structural ones.

    Widths, fan-outs, walks, negatives and batch are the paper's; its learning rates (2e-6 and less, chosen on graphs
    of 200,000 nodes) learn nothing on a small graph, so rate and steps are ours.
    """

    dims: int = 256
    fanouts: tuple[int, ...] = (25, 10)
    walks: int = 50
    length: int = 5
    negatives: int = 20
    batch: int = 512
    learning_rate: float = 0.001
    steps: int = 200

    def fit(self, graph: Graph, features: Any = None) -> Self:
        """Learn from this graph, without labels."""
        with self._seeded():
            self.model = self._train_on(graph, read_input(graph, features, self.device, self.scale))
        return self

    def _train_on(self, graph: Graph, data: Input) -> nn.Module:
        model = _Layers((data.width, *[self.dims] * len(self.fanouts))).to(data.x.device)
        walks = random_walks(graph, walks=self.walks, length=self.length, seed=self.seed)
        if len(walks) == 0:
            return model
        optimizer = torch.optim.Adam(model.parameters(), self.learning_rate)
        weights = graph.degrees**0.75
        chance, x = weights / weights.sum(), data.dense()
        step = iter(range(self.steps))

        def loss() -> Tensor:
            number = next(step)
            random = generator(self.seed, "graphsage", number)
            row = random.integers(len(walks), size=self.batch)
            partner = walks[row, random.integers(1, self.length, size=self.batch)]
            others = random.choice(len(chance), self.negatives, p=chance)
            anchors, place = renumber(np.concatenate([walks[row, 0], partner, others]))
            sampled = key(self.seed, "graphsage", number)
            nodes, blocks = neighborhood(graph, anchors, self.fanouts, sampled, data.x.device)
            z = F.normalize(model.sampled(x[torch.from_numpy(nodes).to(x.device)], blocks))
            z = z[torch.from_numpy(place).to(z.device)]
            own, near, far = z[: self.batch], z[self.batch : 2 * self.batch], z[2 * self.batch :]
            return -F.logsigmoid((own * near).sum(1)).mean() - F.logsigmoid(-own @ far.T).sum(1).mean()

        self.losses = descend(optimizer, loss, self.steps, never)
        return model

    def _embed(self, model: Any, data: Input) -> Tensor:
        return F.normalize(model(data))


@method("GraphSAGE, unsupervised, structure alone", paper="Hamilton et al. 2017", needs=NEEDS)
@dataclass(kw_only=True, eq=False)
class GraphSAGEOfStructure(GraphSAGE):
    """The same with structural features in place of the given ones: degrees of a node and of its neighbours."""

    def fit(self, graph: Graph, features: Any = None) -> Self:
        """Learn from this graph; features are accepted and ignored."""
        super().fit(graph)
        return self

    def transform(self, graph: Graph, features: Any = None) -> Floats:
        """One vector per node of this graph, in row order.  -> (n, dims)"""
        return super().transform(graph)


@method("GraphSAGE, supervised", paper="Hamilton et al. 2017; settings of Chen et al. 2017", needs=NEEDS)
@dataclass(kw_only=True, eq=False)
class GraphSAGEClassifier(NeuralClassifier):
    """Two layers of mean aggregation over sampled neighbours. Sees labels.

    It keeps the weights of the lowest validation loss.
    """

    dims: int = 32
    fanouts: tuple[int, ...] = (25, 10)
    drop: float = 0.5
    batch: int = 512
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    steps: int = 200

    def _train(self, data: Input, labelled: Labelled, graph: Graph) -> nn.Module:
        hidden = [self.dims] * (len(self.fanouts) - 1)
        model = _Layers((data.width, *hidden, labelled.n_classes), self.drop).to(data.x.device)
        optimizer = torch.optim.Adam(model.parameters(), self.learning_rate, weight_decay=self.weight_decay)
        x, train = data.dense(), labelled.train.cpu().numpy()
        stop, step = Patience(model, self.steps), iter(range(self.steps))

        def loss() -> Tensor:
            number = next(step)
            random = generator(self.seed, "graphsage", number)
            batch = random.choice(len(train), min(self.batch, len(train)), replace=False)
            sampled = key(self.seed, "graphsage", number)
            nodes, blocks = neighborhood(graph, train[batch], self.fanouts, sampled, x.device)
            scores = model.sampled(x[torch.from_numpy(nodes).to(x.device)], blocks)
            return F.cross_entropy(scores, labelled.train_labels[torch.from_numpy(batch).to(x.device)])

        def after(_: int, value: float) -> bool:
            return bool(len(labelled.validation)) and stop(validation_score(model, lambda: model(data), labelled)[0])

        self.losses = descend(optimizer, loss, self.steps, after)
        if len(labelled.validation):
            stop.restore()
        return model
