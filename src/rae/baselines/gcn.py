"""GCN (Kipf and Welling 2017): two graph convolutions, trained on the labelled nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.networks import (
    NEEDS,
    Input,
    Labelled,
    NeuralClassifier,
    descend,
    dropout,
    geometric,
    validation_score,
)
from rae.baselines.registry import method
from rae.graph import Graph


@method("GCN", paper="Kipf and Welling 2017", needs=NEEDS)
@dataclass(kw_only=True, eq=False)
class GCN(NeuralClassifier):
    """Two layers, the weights of the first decay. Sees labels.

    It stops when the validation loss is above its mean over the last `window` steps.
    """

    dims: int = 16
    drop: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    steps: int = 200
    window: int = 10

    def _train(self, data: Input, labelled: Labelled, graph: Graph) -> nn.Module:
        model = _Network(data.width, self.dims, labelled.n_classes, self.drop).to(data.x.device)
        matrix = data.convolution()
        checks: list[float] = []

        def loss() -> Tensor:
            return F.cross_entropy(model.scores(data.x, matrix)[labelled.train], labelled.train_labels)

        def after(step: int, value: float) -> bool:
            checks.append(validation_score(model, lambda: model.scores(data.x, matrix), labelled)[0])
            return self._stops(checks)

        self.losses = descend(self._optimizer(model), loss, self.steps, after)
        return model

    def _optimizer(self, model: Any) -> torch.optim.Optimizer:
        groups = [
            {"params": model.first.parameters(), "weight_decay": self.weight_decay},
            {"params": model.second.parameters(), "weight_decay": 0.0},
        ]
        return torch.optim.Adam(groups, self.learning_rate)

    def _stops(self, checks: Sequence[float]) -> bool:
        """Whether the last validation loss is above the mean of as many before it as the window has."""
        return len(checks) > self.window + 1 and checks[-1] > float(np.mean(checks[-self.window - 1 : -1]))


class _Network(nn.Module):
    def __init__(self, width: int, dims: int, classes: int, drop: float) -> None:
        super().__init__()
        self.first = geometric().GCNConv(width, dims, normalize=False)
        self.second = geometric().GCNConv(dims, classes, normalize=False)
        self.drop = drop

    def scores(self, x: Tensor, matrix: tuple[Tensor, Tensor | None]) -> Tensor:
        h = F.relu(self.first(dropout(x, self.drop, self.training), *matrix))
        out: Tensor = self.second(dropout(h, self.drop, self.training), *matrix)
        return out

    def forward(self, data: Input) -> Tensor:
        return self.scores(data.x, data.convolution())
