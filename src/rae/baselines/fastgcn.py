"""FastGCN (Chen et al. 2018): a GCN that sums over few nodes, drawn by the size of their column.

The first layer's average of features does not change and is computed once; the second is estimated from `samples`
nodes. They are drawn among the neighbours of the batch, with probability in proportion to the length of their column
of the convolution, and all are taken where there are no more. Predictions sum over all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.gcn import GCN
from rae.baselines.networks import NEEDS, Input, Labelled, descend, dropout, validation_score
from rae.baselines.registry import Floats, Ints, method
from rae.graph import Graph
from rae.runtime import generator


@method("FastGCN", paper="Chen et al. 2018", needs=NEEDS)
@dataclass(kw_only=True, eq=False)
class FastGCN(GCN):
    """Two layers, the weights of the first decay; batches of labelled nodes, sampled sums. Sees labels.

    A step is a pass over the labelled nodes. It stops when the validation loss is above its mean over the last
    `window` steps.
    """

    samples: int = 400
    batch: int = 20
    drop: float = 0.0
    steps: int = 100

    def _train(self, data: Input, labelled: Labelled, graph: Graph) -> nn.Module:
        model = _Network(data.width, self.dims, labelled.n_classes, self.drop).to(data.x.device)
        matrix, random = convolution_of(graph), generator(self.seed, "fastgcn")
        length = np.sqrt(np.asarray(matrix.multiply(matrix).sum(0)).reshape(-1))
        average = model.average(data)
        train = labelled.train.cpu().numpy()
        checks: list[float] = []
        batches = max(1, len(train) // self.batch)

        def loss() -> Tensor:
            batch = np.sort(random.choice(len(train), min(self.batch, len(train)), replace=False))
            drawn, part = sampled(matrix[train[batch]], length, self.samples, random)
            rows = average.index_select(0, torch.from_numpy(drawn).to(data.x.device))
            scores = torch.from_numpy(part).to(data.x.device) @ model.second(model.hidden(rows))
            return F.cross_entropy(scores, labelled.train_labels[torch.from_numpy(batch).to(data.x.device)])

        def after(step: int, value: float) -> bool:
            if (step + 1) % batches:
                return False
            checks.append(validation_score(model, lambda: model.scores(average, data), labelled)[0])
            return self._stops(checks)

        self.losses = descend(self._optimizer(model), loss, self.steps * batches, after)
        return model


def sampled(rows: sp.csr_array, length: Floats, samples: int, random: np.random.Generator) -> tuple[Ints, Floats]:
    """Nodes of which these rows are sums, all or `samples` of them, and their weights that give the sums in the mean.

    -> (s,), (len(rows), s)
    """
    near = np.unique(rows.indices).astype(np.int64)
    if len(near) <= samples:
        return near, rows[:, near].toarray().astype(np.float32)
    chance = length[near] / length[near].sum()
    place = random.choice(len(near), samples, p=chance)
    weights = rows[:, near[place]].toarray() / (samples * chance[place])
    return near[place], weights.astype(np.float32)


def convolution_of(graph: Graph) -> sp.csr_array:
    """D^-1/2 (A + I) D^-1/2 as a SciPy matrix."""
    scale = sp.diags_array(1 / np.sqrt(graph.degrees + 1.0))
    return sp.csr_array(scale @ (graph.to_scipy() + sp.eye_array(graph.n_nodes)) @ scale)


class _Network(nn.Module):
    def __init__(self, width: int, dims: int, classes: int, drop: float) -> None:
        super().__init__()
        self.first = nn.Linear(width, dims, bias=False)
        self.second = nn.Linear(dims, classes, bias=False)
        nn.init.xavier_uniform_(self.first.weight)
        nn.init.xavier_uniform_(self.second.weight)
        self.drop = drop

    def average(self, data: Input) -> Tensor:
        """The features averaged by the first convolution, dense."""
        return apply(data, data.dense())

    def hidden(self, rows: Tensor) -> Tensor:
        return dropout(F.relu(self.first(dropout(rows, self.drop, self.training))), self.drop, self.training)

    def scores(self, average: Tensor, data: Input) -> Tensor:
        return apply(data, self.second(self.hidden(average)))

    def forward(self, data: Input) -> Tensor:
        return self.scores(self.average(data), data)


def apply(data: Input, h: Tensor) -> Tensor:
    """The convolution of dense rows."""
    matrix, weights = data.convolution()
    if weights is None:
        return matrix @ h
    return torch.zeros_like(h).index_add_(0, matrix[1], weights[:, None] * h[matrix[0]])
