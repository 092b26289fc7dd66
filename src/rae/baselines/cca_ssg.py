"""CCA-SSG (Zhang et al. 2021): two random views of a graph agree, and the columns of each are uncorrelated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rae.baselines.networks import NEEDS, Convolutions, Input, NeuralEmbedder, descend, never
from rae.baselines.registry import method

_PAPER = {
    "cora": {"steps": 50, "drop_columns": 0.1, "drop_edges": 0.4},
    "citeseer": {"steps": 20, "layers": 1, "decorrelation": 5e-4, "drop_columns": 0.0, "drop_edges": 0.4},
    "pubmed": {"steps": 100, "drop_columns": 0.3, "drop_edges": 0.5},
}


@method("CCA-SSG", paper="Zhang et al. 2021", needs=NEEDS, by_dataset=_PAPER)
@dataclass(kw_only=True, eq=False)
class CCASSG(NeuralEmbedder):
    """GCN layers, no activation after the last.  -> (n, dims)"""

    dims: int = 512
    layers: int = 2
    decorrelation: float = 1e-3
    drop_columns: float = 0.1
    drop_edges: float = 0.4
    learning_rate: float = 0.001
    steps: int = 50

    def _train(self, data: Input) -> nn.Module:
        model = Convolutions((data.width, *[self.dims] * self.layers), last=False).to(data.x.device)
        one = torch.eye(self.dims, device=data.x.device)

        def loss() -> Tensor:
            first, second = (
                standardised(model(data.view(self.drop_edges, self.drop_columns))) / data.n_nodes**0.5 for _ in range(2)
            )
            spread = ((first.T @ first - one) ** 2).sum() + ((second.T @ second - one) ** 2).sum()
            value: Tensor = self.decorrelation * spread - (first * second).sum()
            return value

        optimizer = torch.optim.Adam(model.parameters(), self.learning_rate)
        self.losses = descend(optimizer, loss, self.steps, never)
        return model


def standardised(z: Tensor) -> Tensor:
    """Columns of mean 0 and deviation 1; a constant column becomes 0."""
    return (z - z.mean(0)) / z.std(0, correction=0).clamp(min=1e-6)
