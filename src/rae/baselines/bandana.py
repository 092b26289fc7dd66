"""Bandana (Zhao et al. 2024): every edge gets a random bandwidth in every layer, and a decoder says which.

Bandwidths are a softmax of Gaussian noise over the neighbours of a node. A node's vectors then depend on how much of
each neighbour came through. A small network reads from the product of two nodes' vectors, layer by layer, whether they
are neighbours; in its cross-entropy an edge counts by its bandwidth, a random pair by one. Some edges are held
out, and the weights are kept that tell them best from random pairs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.networks import NEEDS, Input, NeuralEmbedder, Patience, descend, dropout, geometric
from rae.baselines.registry import method

_PAPER = {
    "cora": {},
    "citeseer": {"layers": 5, "learning_rate": 0.02, "temperature": 0.2},
    "pubmed": {
        "dims": 64, "decoder": 32, "layers": 2, "learning_rate": 0.001, "temperature": 0.2,
        "drop_encoder": 0.6, "drop_decoder": 0.7,
    },
}  # fmt: skip

CHECK_EVERY, PATIENCE = 10, 30  # steps, and checks without a better one
LONGEST = 1.0  # of a step's gradient


_READER = {
    name: {"rate": 0.01, "decay": decay, "steps": 100}
    for name, decay in (("cora", 5e-3), ("citeseer", 0.1), ("pubmed", 5e-5))
}


@method("Bandana", paper="Zhao et al. 2024", needs=NEEDS, by_dataset=_PAPER, own_reader=_READER)
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
    held_out: float = 0.15
    steps: int = 1000

    scale = "none"

    def _train(self, data: Input) -> nn.Module:
        model = _Encoder(data.width, self.dims, self.layers, self.drop_encoder)
        reader = nn.Sequential(
            nn.Dropout(self.drop_decoder), nn.Linear(self.dims, self.decoder), nn.ReLU(), nn.Linear(self.decoder, 2)
        )
        whole = nn.ModuleList([model, reader]).to(data.x.device)
        if len(data.receivers) == 0:
            return model
        visible, asked = held_out(data, self.held_out)
        softmax = _softmax()

        def strangers() -> tuple[Tensor, Tensor]:
            a, b = torch.randint(data.n_nodes, (2, len(visible.receivers)), device=data.x.device)
            return a, b

        def loss() -> Tensor:
            noise = torch.randn(self.layers, len(visible.receivers), device=data.x.device) / self.temperature
            widths = [softmax(row, visible.receivers, num_nodes=data.n_nodes) for row in noise]
            pairs, total = strangers(), torch.zeros((), device=data.x.device)
            for h, width in zip(model.levels(visible, widths), widths, strict=True):
                near, far = (
                    F.log_softmax(reader(h[a] * h[b]), 1) for a, b in ((visible.receivers, visible.senders), pairs)
                )
                total = total - (width * near[:, 0]).mean() - far[:, 1].mean()
            return total / self.layers

        stop, others = Patience(whole, PATIENCE), strangers()

        def after(step: int, value: float) -> bool:
            return (step + 1) % CHECK_EVERY == 0 and stop(-_area_under_curve(whole, visible, asked, others))

        def clip(*_: Any) -> None:
            nn.utils.clip_grad_norm_(whole.parameters(), LONGEST)

        optimizer = torch.optim.Adam(whole.parameters(), self.learning_rate, weight_decay=self.weight_decay)
        optimizer.register_step_pre_hook(clip)
        self.losses = descend(optimizer, loss, self.steps, after)
        stop.restore()
        return model

    def _embed(self, model: _Encoder, data: Input) -> Tensor:
        return F.normalize(torch.cat(model.levels(data, None), 1))


def held_out(data: Input, share: float) -> tuple[Input, tuple[Tensor, Tensor]]:
    """The graph without a random share of its edges, both directions of each, and the ends of those."""
    low, high = torch.minimum(data.receivers, data.senders), torch.maximum(data.receivers, data.senders)
    names, edge = torch.unique(low * data.n_nodes + high, return_inverse=True)
    mask = torch.zeros(len(names), dtype=torch.bool, device=low.device)
    mask[torch.randperm(len(names), device=low.device)[: int(share * len(names))]] = True
    hidden = mask[edge]
    return Input(data.x, data.receivers[~hidden], data.senders[~hidden]), (data.receivers[hidden], data.senders[hidden])


def _area_under_curve(whole: Any, visible: Input, asked: tuple[Tensor, Tensor], others: tuple[Tensor, Tensor]) -> float:
    """How well the last layer tells edges that it has not seen from random pairs: the area under the curve."""
    model, reader = whole.eval()
    with torch.no_grad():
        h = model.levels(visible, None)[-1]
        scores = [F.softmax(reader(h[a] * h[b]), 1)[:, 0].cpu().numpy() for a, b in (asked, others)]
    whole.train()
    truth = np.repeat([1, 0], [len(part) for part in scores])
    return float(roc_auc_score(truth, np.concatenate(scores))) if len(scores[0]) else 0.0


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


def _softmax() -> Any:
    """PyTorch Geometric's softmax over the edges of a node."""
    geometric()
    from torch_geometric.utils import softmax

    return softmax
