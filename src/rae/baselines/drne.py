"""DRNE (Tu et al. 2018): a recurrent network over a node's neighbours, by degree, says again the node's own vector.

The network reads the vectors of the neighbours from the lowest degree to the highest; what it ends with must be near to
the node's vector, and a layer on it must tell the degree. The paper normalises inside of each step of the network; the
released program does not, and neither does this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from rae.baselines.graph_batches import in_parts
from rae.baselines.networks import Neural
from rae.baselines.registry import Floats, Ints, method
from rae.graph import Graph
from rae.runtime import generator


@method("DRNE", paper="Tu et al. 2018")
@dataclass(kw_only=True, eq=False)
class DRNE(Neural):
    """The vector of each node; one without neighbours keeps its first.  -> (n, dims)

    Settings are the released program's. `neighbours` is the most that a step reads of a node, drawn in proportion to
    their degrees; `degree` is the weight of what is told of the degree.
    """

    dims: int = 16
    neighbours: int = 100
    degree: float = 0.5
    batch: int = 16
    passes: int = 20
    learning_rate: float = 0.0025
    longest: float = 5.0  # of a step's gradient

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """One vector per node, in row order.  -> (n, dims)"""
        degrees = torch.from_numpy(graph.degrees.astype(np.float32)).to(self.device)
        sequences, rng = Sequences(graph, self.neighbours), generator(self.seed, "DRNE")
        with self._seeded():
            model = Network(degrees, self.dims).to(self.device)
            optimizer = torch.optim.RMSprop(model.parameters(), self.learning_rate, alpha=0.9, eps=1e-10)
            for weights in model.parameters():  # as the released program begins: so the first steps are small
                optimizer.state[weights] = {"step": torch.tensor(0.0), "square_avg": torch.ones_like(weights)}
            for _ in range(self.passes):
                for part in in_parts(rng.permutation(np.flatnonzero(graph.degrees)), self.batch):
                    optimizer.zero_grad()
                    loss: Any = model.loss(part, *sequences.of(part, rng), self.degree)
                    loss.backward()
                    nn.utils.clip_grad_norm_(model.parameters(), self.longest)
                    optimizer.step()
        self.model = model
        return np.ascontiguousarray(model.own.detach().cpu().numpy(), np.float32)


class Sequences:
    """The neighbours of nodes, by degree."""

    def __init__(self, graph: Graph, most: int) -> None:
        rows = np.repeat(np.arange(graph.n_nodes), graph.degrees)
        order = np.lexsort((graph.degrees[graph.targets], rows))
        self._offsets, self._neighbours = graph.offsets, graph.targets[order].astype(np.int64)
        self._degrees, self._most = graph.degrees, most

    def of(self, rows: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """The neighbours of these nodes, filled up with zeros, and their number.  -> (b, longest), (b,)"""
        sequences = [self._one(row, rng) for row in rows]
        lengths = np.array([len(each) for each in sequences])
        table = np.zeros((len(sequences), int(lengths.max())), np.int64)
        table[np.arange(table.shape[1]) < lengths[:, None]] = np.concatenate(sequences)
        return table, lengths

    def _one(self, row: int, rng: np.random.Generator) -> Ints:
        neighbors: Ints = self._neighbours[self._offsets[row] : self._offsets[row + 1]]
        if len(neighbors) <= self._most:
            return neighbors
        weights = self._degrees[neighbors] / self._degrees[neighbors].sum()
        return neighbors[np.sort(rng.choice(len(neighbors), self._most, replace=False, p=weights))]


class Network(nn.Module):
    """The vectors of the nodes, and what reads and judges them."""

    def __init__(self, degrees: Tensor, dims: int) -> None:
        super().__init__()
        self.degrees = degrees
        first = (degrees / degrees.max().clamp(min=1))[:, None] + 0.001 * torch.randn(len(degrees), dims).to(degrees)
        self.own = nn.Parameter(first)
        self.reads = nn.LSTM(dims, dims, batch_first=True)
        for name, bias in self.reads.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(bias)
                nn.init.constant_(bias.data[dims : 2 * dims], 0.5)  # of both, one: little is forgotten at first
        self.tell = nn.Linear(dims, 1)

    def loss(self, rows: Ints, neighbours: Ints, lengths: Ints, weight: float) -> Tensor:
        """What is minimised, as a mean over these nodes."""
        at, near = torch.from_numpy(rows).to(self.own.device), torch.from_numpy(neighbours).to(self.own.device)
        read = pack_padded_sequence(self.own[near], torch.from_numpy(lengths), batch_first=True, enforce_sorted=False)
        said = self.reads(read)[1][0][0]
        degree_error = (F.selu(self.tell(said)[:, 0]) - torch.log1p(self.degrees[at])).abs().mean()
        total: Tensor = F.mse_loss(said, self.own[at]) + weight * degree_error
        return total
