"""RESD (Zhang et al. 2021): a variational auto-encoder of ReFeX's features whose code must also tell the degree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.refex import Floats, ReFeX
from rae.baselines.registry import method
from rae.baselines.torch_fit import checked_device, in_parts, seeded
from rae.datasets.options import fraction, positive, whole_number
from rae.errors import NotFittedError
from rae.graph import Graph
from rae.runtime import generator


@method("RESD", paper="Zhang et al. 2021")
@dataclass(kw_only=True, eq=False)
class RESD:
    """The means of the code of each node.  -> (n, dims)

    The loss is the mean squared error of the features, log(1 + value) each, plus the mean divergence of a column of
    the code from a standard normal, plus `degree`
    times the squared error of log(1 + degree) as a small network, whose weights decay, reads it from the code.
    """

    dims: int = 128
    hidden: int = 128
    degree: float = 1.0
    batch: int = 32
    passes: int = 50
    learning_rate: float = 0.001
    decay: float = 0.01
    rounds: int = 4
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("dims", "hidden", "batch", "passes"):
            whole_number(name, getattr(self, name), 1)
        whole_number("seed", self.seed, 0)
        for name in ("degree", "decay"):
            fraction(name, getattr(self, name), float("inf"))
        positive("learning_rate", self.learning_rate)
        checked_device(self.device)
        self._features = ReFeX(rounds=self.rounds)
        self._model: AutoEncoder | None = None

    def fit(self, graph: Graph, features: Any = None) -> Self:
        """Train the auto-encoder on this graph's nodes."""
        device, rng = checked_device(self.device), generator(self.seed, "RESD")
        x = torch.from_numpy(self._features.fit(graph).transform(graph)).to(device)
        degrees = torch.from_numpy(np.log1p(graph.degrees).astype(np.float32)).to(device)
        with seeded(self.seed, "RESD"):
            model = AutoEncoder(x.shape[1], self.hidden, self.dims).to(device)
            groups = [{"params": model.coding()}, {"params": model.tell.parameters(), "weight_decay": self.decay}]
            optimizer = torch.optim.Adam(groups, lr=self.learning_rate)
            for _ in range(self.passes):
                for part in in_parts(rng.permutation(graph.n_nodes), self.batch):
                    optimizer.zero_grad()
                    loss: Any = model.loss(x[part], degrees[part], self.degree)
                    loss.backward()
                    optimizer.step()
        self._model = model
        return self

    def transform(self, graph: Graph, features: Any = None) -> Floats:
        """The means of the code of this graph's nodes, in row order.  -> (n, dims)"""
        if self._model is None:
            raise NotFittedError("this RESD has no weights yet; call fit or fit_transform first")
        x = torch.from_numpy(self._features.transform(graph)).to(checked_device(self.device))
        with torch.no_grad(), seeded(self.seed, "transform"):
            return np.ascontiguousarray(self._model.code(x)[0].cpu().numpy(), np.float32)

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
        told = (self.tell(drawn)[:, 0] - degrees) ** 2
        total: Tensor = (rebuilt + divergence + weight * told).mean()
        return total
