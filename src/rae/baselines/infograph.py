"""InfoGraph (Sun et al. 2020): a graph's vector is trained to tell its own nodes from those of other graphs.

The encoder is GIN, normalised after each round alone; nodes have the vectors of all rounds side by side, and a graph
the sum over its nodes. Two small networks map both, their inner product says whether a node belongs to a graph, and the
Jensen-Shannon estimate of mutual information is the loss. No labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.gin import summed
from rae.baselines.graph_batches import Batch, Batches, GraphInputs, in_parts
from rae.baselines.networks import NEEDS, Neural, geometric
from rae.baselines.registry import Floats, method
from rae.errors import ConfigError
from rae.graph import Graph
from rae.runtime import generator, torch_alone


@method(
    "InfoGraph",
    paper="Sun et al. 2020",
    needs=NEEDS,
    of="graphs",
    by_dataset={"REDDIT-BINARY": {"without": "constant"}},
)
@dataclass(kw_only=True, eq=False)
class InfoGraph(Neural):
    """A vector per graph: the sum over its nodes of their vectors after each round.  -> (g, layers * width)

    Without features, nodes have a column per degree (`without="degree"`) or nothing but a one (`"constant"`).
    """

    layers: int = 5
    width: int = 32
    batch: int = 128
    learning_rate: float = 0.001
    passes: int = 20
    without: str = "degree"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.without not in ("degree", "constant"):
            raise ConfigError(f"without must be one of 'degree', 'constant', got {self.without!r}")

    def fit(self, graphs: Sequence[Graph], features: Sequence[Any] | None = None) -> Self:
        """Train the encoder on these graphs."""
        self._inputs = GraphInputs.of(graphs, features, self.without)
        batches, rng = Batches(graphs, features, self._inputs, self.device), generator(self.seed, "InfoGraph")
        with self._seeded():
            model = Estimate(self._inputs.width, self.width, self.layers).to(self.device)
            optimizer = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
            for _ in range(self.passes):
                for part in in_parts(rng.permutation(len(graphs)), self.batch):
                    optimizer.zero_grad()
                    model(batches.of(part)).backward()
                    optimizer.step()
        self.model = model
        return self

    def transform(self, graphs: Sequence[Graph], features: Sequence[Any] | None = None) -> Floats:
        """One row per graph, of the graphs of the fit or of others.  -> (g, layers * width)"""
        model = self._fitted()
        batches = Batches(graphs, features, self._inputs, self.device)
        with torch.no_grad(), torch_alone():
            parts = [
                model.vectors(batches.of(part))[1].cpu().numpy()
                for part in in_parts(np.arange(len(graphs)), self.batch)
            ]
        return np.concatenate(parts).astype(np.float32)

    def fit_transform(self, graphs: Sequence[Graph], features: Sequence[Any] | None = None) -> Floats:
        """fit, then the vectors of the same graphs."""
        return self.fit(graphs, features).transform(graphs, features)


class Estimate(nn.Module):
    """Minus the estimated mutual information of nodes and graphs, up to a constant.  Batch -> scalar"""

    def __init__(self, n_features: int, width: int, layers: int) -> None:
        super().__init__()
        self.body = Rounds(n_features, width, layers)
        self.of_nodes, self.of_graphs = (Mapped(width * layers) for _ in range(2))
        for layer in self.modules():  # as the released program begins
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def vectors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The vectors of nodes and of graphs.  -> (n, d), (g, d)"""
        nodes = torch.cat(self.body(batch), 1)
        return nodes, summed(nodes, batch)

    def forward(self, batch: Batch) -> Tensor:
        nodes, graphs = self.vectors(batch)
        score: Tensor = self.of_nodes(nodes) @ self.of_graphs(graphs).T
        own = F.one_hot(batch.graph_of, batch.n_graphs).bool()
        others = max(1, score.numel() - len(score))
        loss: Tensor = F.softplus(-score[own]).mean() + F.softplus(score[~own]).sum() / others
        return loss


class Rounds(nn.Module):
    """The vectors of the nodes after each round.  Batch -> rounds of (n, width)"""

    def __init__(self, n_features: int, width: int, rounds: int) -> None:
        super().__init__()
        self.rounds = nn.ModuleList(
            geometric().GINConv(nn.Sequential(nn.Linear(w, width), nn.ReLU(), nn.Linear(width, width)))
            for w in [n_features] + [width] * (rounds - 1)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(rounds))

    def forward(self, batch: Batch) -> list[Tensor]:
        x, levels = batch.x, []
        for sums, norm in zip(self.rounds, self.norms, strict=True):
            x = norm(F.relu(sums(x, batch.edges)))
            levels.append(x)
        return levels


class Mapped(nn.Module):
    """Three layers beside one without a bend.  (n, d) -> (n, d)"""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = [part for _ in range(3) for part in (nn.Linear(width, width), nn.ReLU())]
        self.bent, self.straight = nn.Sequential(*layers), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        mapped: Tensor = self.bent(x) + self.straight(x)
        return mapped
