"""GRACE (Zhu et al. 2020): a node's vectors in two random views attract, those of all other nodes repel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from rae.baselines.networks import NEEDS, Convolutions, Input, NeuralEmbedder, descend, never
from rae.baselines.registry import method

ROWS = 4096  # of the n x n similarities in memory at a time

_PAPER = {
    "cora": {},
    "citeseer": {
        "learning_rate": 0.001, "dims": 256, "activation": "prelu", "temperature": 0.9,
        "drop_edges": 0.2, "drop_edges_2": 0.0, "drop_columns": 0.3, "drop_columns_2": 0.2,
    },
    "pubmed": {
        "learning_rate": 0.001, "dims": 256, "temperature": 0.7, "steps": 1500,
        "drop_edges": 0.4, "drop_edges_2": 0.1, "drop_columns": 0.0, "drop_columns_2": 0.2,
    },
}  # fmt: skip


@method("GRACE", paper="Zhu et al. 2020", needs=NEEDS, by_dataset=_PAPER)
@dataclass(kw_only=True, eq=False)
class GRACE(NeuralEmbedder):
    """Two GCN layers, 2 * dims and dims wide; a projection is used in the loss alone.  -> (n, dims)

    The two views lose different shares of edges and feature columns. The defaults are the paper's for Cora.
    """

    dims: int = 128
    activation: str = "relu"
    temperature: float = 0.4
    drop_edges: float = 0.2
    drop_edges_2: float = 0.4
    drop_columns: float = 0.3
    drop_columns_2: float = 0.4
    learning_rate: float = 0.0005
    weight_decay: float = 1e-5
    steps: int = 200

    def _train(self, data: Input) -> nn.Module:
        model = Convolutions((data.width, 2 * self.dims, self.dims), self.activation).to(data.x.device)
        head = nn.Sequential(nn.Linear(self.dims, self.dims), nn.ELU(), nn.Linear(self.dims, self.dims))
        head.to(data.x.device)

        def loss() -> Tensor:
            first = F.normalize(head(model(data.view(self.drop_edges, self.drop_columns))))
            second = F.normalize(head(model(data.view(self.drop_edges_2, self.drop_columns_2))))
            return (contrast(first, second, self.temperature) + contrast(second, first, self.temperature)) / 2

        parameters = [*model.parameters(), *head.parameters()]
        optimizer = torch.optim.Adam(parameters, self.learning_rate, weight_decay=self.weight_decay)
        self.losses = descend(optimizer, loss, self.steps, never)
        return model


def contrast(own: Tensor, other: Tensor, temperature: float) -> Tensor:
    """Mean over nodes of -log(the pair's share among all similarities within and between the views)."""

    def part(start: int) -> Tensor:
        rows = own[start : start + ROWS]
        between, within = ((rows @ z.T / temperature).exp() for z in (other, own))
        place = torch.arange(len(rows), device=rows.device)
        pair, self_pair = between[place, start + place], within[place, start + place]
        return -(pair / (between.sum(1) + within.sum(1) - self_pair)).log().sum()

    starts = range(0, len(own), ROWS)
    if len(starts) == 1:
        return part(0) / len(own)
    total = sum(checkpoint(part, start, use_reentrant=False) for start in starts)
    return torch.as_tensor(total) / len(own)
