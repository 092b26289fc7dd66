"""Bandana (Zhao et al. 2024): every edge gets a random bandwidth in every layer, and a decoder says which.

Bandwidths are a softmax of Gaussian noise over the neighbours of a node. A node's vectors then depend on how much of
each neighbour came through; a small network reads it from the product of two nodes' vectors, layer by layer.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.networks import NEEDS, Input, NeuralEmbedder, descend, dropout, geometric, never
from rae.baselines.registry import method

_PAPER = {
    "cora": {},
    "citeseer": {"layers": 5, "learning_rate": 0.02, "temperature": 0.2},
    "pubmed": {
        "dims": 64, "decoder": 32, "layers": 2, "learning_rate": 0.001, "temperature": 0.2,
        "drop_encoder": 0.6, "drop_decoder": 0.7,
    },
}  # fmt: skip


@method("Bandana", paper="Zhao et al. 2024", needs=NEEDS, by_dataset=_PAPER)
@dataclass(kw_only=True, eq=False)
class Bandana(NeuralEmbedder):
    """GCN layers with BatchNorm and ELU; the vectors are those of all layers, of length one.  -> (n, layers * dims)

    The defaults are the paper's for Cora.
    """

    dims: int = 256
    layers: int = 3
    decoder: int = 256
    temperature: float = 0.9
    drop_encoder: float = 0.8
    drop_decoder: float = 0.0
    learning_rate: float = 0.01
    weight_decay: float = 5e-5
    steps: int = 1000

    def _train(self, data: Input) -> nn.Module:
        softmax = geometric_softmax()
        model = _Encoder(data.width, self.dims, self.layers, self.drop_encoder).to(data.x.device)
        reader = nn.Sequential(
            nn.Linear(self.dims, self.decoder), nn.ELU(), nn.Dropout(self.drop_decoder), nn.Linear(self.decoder, 1)
        ).to(data.x.device)
        receivers, senders, n = data.receivers, data.senders, data.n_nodes

        def loss() -> Tensor:
            noise = torch.randn(self.layers, len(receivers), device=data.x.device) / self.temperature
            widths = [softmax(row, receivers, num_nodes=n) for row in noise]
            total = torch.zeros((), device=data.x.device)
            for h, wanted in zip(model.levels(data, widths), widths, strict=True):
                said = softmax(reader(h[receivers] * h[senders]).squeeze(1), receivers, num_nodes=n)
                total = total + F.mse_loss(said, wanted)
            return total

        parameters = [*model.parameters(), *reader.parameters()]
        optimizer = torch.optim.Adam(parameters, self.learning_rate, weight_decay=self.weight_decay)
        if len(receivers):
            self.losses = descend(optimizer, loss, self.steps, never)
        return model

    def _embed(self, model: _Encoder, data: Input) -> Tensor:
        return F.normalize(torch.cat(model.levels(data, None), 1))


class _Encoder(nn.Module):
    def __init__(self, width: int, dims: int, layers: int, drop: float) -> None:
        super().__init__()
        widths = [width, *[dims] * layers]
        pairs = list(itertools.pairwise(widths))
        self.convolutions = nn.ModuleList([geometric().GCNConv(a, b, normalize=False) for a, b in pairs])
        self.norms = nn.ModuleList([nn.BatchNorm1d(dims) for _ in pairs])
        self.drop = drop

    def levels(self, data: Input, widths: list[Tensor] | None) -> list[Tensor]:
        """The rows of every layer; without bandwidths every edge is open."""
        levels, h = [], data.x
        count = len(self.convolutions)
        matrices = [data.convolution()] * count if widths is None else [data.convolution(each) for each in widths]
        for layer, norm, matrix in zip(self.convolutions, self.norms, matrices, strict=True):
            h = F.elu(norm(layer(dropout(h, self.drop, self.training), *matrix)))
            levels.append(h)
        return levels


def geometric_softmax() -> Any:
    """PyTorch Geometric's softmax over the edges of a node."""
    geometric()
    from torch_geometric.utils import softmax

    return softmax
