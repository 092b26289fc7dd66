"""FastGCN (Chen et al. 2018): a GCN that sums over few nodes, drawn by the size of their column.

The first layer's average of features does not change and is computed once; the second is estimated from
`samples` nodes, drawn with probability in proportion to the square of their column of the convolution. Predictions sum
over all.
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
from rae.baselines.registry import method
from rae.graph import Graph
from rae.runtime import generator


@method("FastGCN", paper="Chen et al. 2018", needs=NEEDS, by_dataset={"pubmed": {"samples": 100}})
@dataclass(kw_only=True, eq=False)
class FastGCN(GCN):
    """Two layers, the weights of the first decay; batches of labelled nodes, sampled sums. Sees labels.

    It stops when the validation loss is above its mean over the last `window` passes over the labelled nodes.
    """

    samples: int = 400
    batch: int = 256
    drop: float = 0.0
    window: int = 30

    def _train(self, data: Input, labelled: Labelled, graph: Graph) -> nn.Module:
        model = _Network(data.width, self.dims, labelled.n_classes, self.drop).to(data.x.device)
        matrix, random = convolution_of(graph), generator(self.seed, "fastgcn")
        weight = np.asarray(matrix.multiply(matrix).sum(0)).reshape(-1)
        chance = weight / weight.sum()
        average = model.average(data)
        train, checks = labelled.train.cpu().numpy(), [0.0]
        passes = max(1, -(-len(train) // self.batch))

        def loss() -> Tensor:
            batch = np.sort(random.choice(len(train), min(self.batch, len(train)), replace=False))
            drawn = random.choice(len(chance), self.samples, p=chance)
            part = matrix[train[batch]][:, drawn].toarray() / (self.samples * chance[drawn])
            sums = torch.from_numpy(part.astype(np.float32)).to(data.x.device)
            rows = average.index_select(0, torch.from_numpy(drawn).to(data.x.device))
            scores = sums @ model.second(model.hidden(rows))
            return F.cross_entropy(scores, labelled.train_labels[torch.from_numpy(batch).to(data.x.device)])

        def after(step: int, value: float) -> bool:
            if (step + 1) % passes:
                return False
            checks.append(validation_score(model, lambda: model.scores(average, data), labelled)[0])
            return self._stops(checks)

        self.losses = descend(self._optimizer(model), loss, self.steps * passes, after)
        return model


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
