"""DGI (Veličković et al. 2019): node vectors that tell the graph's own nodes from those of a shuffled one.

A bilinear discriminator compares each vector with the mean of all; the negatives are the same graph with the rows of
its features permuted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.networks import NEEDS, Convolutions, Input, NeuralEmbedder, Patience, descend
from rae.baselines.registry import method


@method("DGI", paper="Veličković et al. 2019", needs=NEEDS, by_dataset={"pubmed": {"dims": 256}})
@dataclass(kw_only=True, eq=False)
class DGI(NeuralEmbedder):
    """One GCN layer with PReLU, trained until the loss has not fallen for `patience` steps.  -> (n, dims)"""

    dims: int = 512
    learning_rate: float = 0.001
    steps: int = 1000
    patience: int = 20

    def _train(self, data: Input) -> nn.Module:
        model = Convolutions((data.width, self.dims), "prelu").to(data.x.device)
        critic = nn.Bilinear(self.dims, self.dims, 1).to(data.x.device)
        nn.init.xavier_uniform_(critic.weight)
        matrix = data.convolution()
        layer: Any = model.layers[0]
        targets = torch.cat([torch.ones(data.n_nodes), torch.zeros(data.n_nodes)]).to(data.x.device)

        def loss() -> Tensor:
            # The rows of X W permuted are the permuted X times W: one product serves both graphs.
            rows = layer.lin(data.x)
            order = torch.randperm(data.n_nodes, device=rows.device)
            own, other = (
                model.activations[0](layer.propagate(matrix[0], x=h, edge_weight=matrix[1]) + layer.bias)
                for h in (rows, rows[order])
            )
            summary = torch.sigmoid(own.mean(0))
            direction = critic.weight[0] @ summary
            scores = torch.cat([own @ direction, other @ direction]) + critic.bias
            return F.binary_cross_entropy_with_logits(scores, targets)

        both = nn.ModuleList([model, critic])
        stop = Patience(both, self.patience)
        optimizer = torch.optim.Adam(both.parameters(), self.learning_rate)
        self.losses = descend(optimizer, loss, self.steps, lambda _, value: stop(value))
        stop.restore()
        return model
