"""BGRL (Thakoor et al. 2022): an encoder predicts what a slowly moving copy of it says of another view.

Its paper has no citation graph: the settings are its own of Amazon Computers, the values of the tables other papers'.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.networks import NEEDS, Convolutions, Input, NeuralEmbedder, descend
from rae.baselines.registry import method


@method("BGRL", paper="Thakoor et al. 2022", needs=NEEDS)
@dataclass(kw_only=True, eq=False)
class BGRL(NeuralEmbedder):
    """Two GCN layers with BatchNorm and PReLU, 2 * dims and dims wide.  -> (n, dims)

    The learning rate rises over a tenth of the steps and then falls as a cosine; the copy's momentum goes to one. The
    paper takes 10,000 steps.
    """

    dims: int = 128
    predictor: int = 512
    drop_edges: float = 0.5
    drop_edges_2: float = 0.4
    drop_columns: float = 0.2
    drop_columns_2: float = 0.1
    learning_rate: float = 5e-4
    weight_decay: float = 1e-5
    momentum: float = 0.99
    steps: int = 1000

    def _train(self, data: Input) -> nn.Module:
        model = Convolutions((data.width, 2 * self.dims, self.dims), "prelu", norm=True).to(data.x.device)
        head = nn.Sequential(nn.Linear(self.dims, self.predictor), nn.PReLU(), nn.Linear(self.predictor, self.dims))
        head.to(data.x.device)
        slow = copy.deepcopy(model).requires_grad_(False)

        def loss() -> Tensor:
            first = data.view(self.drop_edges, self.drop_columns)
            second = data.view(self.drop_edges_2, self.drop_columns_2)
            with torch.no_grad():
                targets = slow(second), slow(first)
            said = head(model(first)), head(model(second))
            return 2 - sum(
                (F.cosine_similarity(a, b, dim=-1).mean() for a, b in zip(said, targets, strict=True)),
                start=torch.zeros((), device=data.x.device),
            )

        parameters = [*model.parameters(), *head.parameters()]
        optimizer = torch.optim.AdamW(parameters, self.learning_rate, weight_decay=self.weight_decay)

        def after(step: int, value: float) -> bool:
            momentum = 1 - (1 - self.momentum) * (1 + math.cos(math.pi * step / self.steps)) / 2
            with torch.no_grad():
                for old, new in zip(slow.parameters(), model.parameters(), strict=True):
                    old.lerp_(new, 1 - momentum)
            optimizer.param_groups[0]["lr"] = self.learning_rate * _height(step + 1, self.steps)
            return False

        optimizer.param_groups[0]["lr"] = self.learning_rate * _height(0, self.steps)
        self.losses = descend(optimizer, loss, self.steps, after)
        return model


def _height(step: int, steps: int) -> float:
    """The learning rate's share at a step: up over the first tenth, then down as half a cosine."""
    warm = max(1, steps // 10)
    if step < warm:
        return (step + 1) / warm
    return (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm))) / 2
