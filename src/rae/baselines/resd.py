"""RESD (Zhang et al. 2021): a variational auto-encoder of ReFeX's features whose code must also tell the degree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.graph_batches import in_parts
from rae.baselines.networks import Neural
from rae.baselines.refex import ReFeX
from rae.baselines.registry import Floats, method
from rae.graph import Graph
from rae.runtime import generator, torch_alone


@method("RESD", paper="Zhang et al. 2021")
@dataclass(kw_only=True, eq=False)
class RESD(Neural):
    """The means of the code of each node.  -> (n, dims)

    The loss is the mean squared error of the features, log(1 + value) each, plus the mean divergence of a column of
    the code from a standard normal, plus `degree` times the squared error of log(1 + degree) as a small network, whose
    weights decay, reads it from the code.
    """

    dims: int = 128
    hidden: int = 128
    degree: float = 1.0
    batch: int = 32
    passes: int = 50
    learning_rate: float = 0.001
    decay: float = 0.01
    rounds: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        self._features = ReFeX(rounds=self.rounds)

    def fit(self, graph: Graph, features: Any = None) -> Self:
        """Train the auto-encoder on this graph's nodes."""
        device, rng = self.device, generator(self.seed, "RESD")
        x = torch.from_numpy(self._features.fit(graph).transform(graph)).to(device)
        degrees = torch.from_numpy(np.log1p(graph.degrees).astype(np.float32)).to(device)
        with self._seeded():
            model = AutoEncoder(x.shape[1], self.hidden, self.dims).to(device)
            groups: list[dict[str, Any]] = [
                {"params": model.coding()},
                {"params": model.tell.parameters(), "weight_decay": self.decay},
            ]
            optimizer = torch.optim.Adam(groups, lr=self.learning_rate)
            for _ in range(self.passes):
                for part in in_parts(rng.permutation(graph.n_nodes), self.batch):
                    optimizer.zero_grad()
                    loss: Any = model.loss(x[part], degrees[part], self.degree)
                    loss.backward()
                    optimizer.step()
        self.model = model
        return self

    def transform(self, graph: Graph, features: Any = None) -> Floats:
        """The means of the code of this graph's nodes, in row order.  -> (n, dims)"""
        model = self._fitted()
        x = torch.from_numpy(self._features.transform(graph)).to(self.device)
        with torch.no_grad(), torch_alone():
            return np.ascontiguousarray(model.code(x)[0].cpu().numpy(), np.float32)

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """fit, then the vectors of the same graph's nodes."""
        return self.fit(graph).transform(graph)


class AutoEncoder(nn.Module):
    """Features to a code, which is a mean and a spread, and back."""

    def __init__(self, width: int, hidden: int, dims: int) -> None:
        super().__init__()
        self.inward = nn.Sequential(nn.Linear(width, hidden), nn.Tanh())
        self.mean, self.log_variance = nn.Linear(hidden, dims), nn.Linear(hidden, dims)
        self.outward = nn.Sequential(nn.Linear(dims, hidden), nn.Tanh(), nn.Linear(hidden, width))
        self.tell = nn.Sequential(nn.Linear(dims, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def coding(self) -> list[nn.Parameter]:
        """The weights but those that tell the degree."""
        own = {id(weight) for weight in self.tell.parameters()}
        return [weight for weight in self.parameters() if id(weight) not in own]

    def code(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the variance of the code.  -> (n, dims), (n, dims)"""
        inner = self.inward(x)
        return self.mean(inner), self.log_variance(inner)

    def loss(self, x: Tensor, degrees: Tensor, weight: float) -> Tensor:
        """What is minimised, as a mean over the nodes."""
        mean, log_variance = self.code(x)
        drawn = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        rebuilt = F.mse_loss(self.outward(drawn), x, reduction="none").mean(1)
        divergence = (mean**2 + log_variance.exp() - 1 - log_variance).mean(1) / 2
        degree_error = (self.tell(drawn)[:, 0] - degrees) ** 2
        total: Tensor = (rebuilt + divergence + weight * degree_error).mean()
        return total
