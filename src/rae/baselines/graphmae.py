"""GraphMAE (Hou et al. 2022): features of masked nodes are said again by a decoder that sees their surroundings.

The features of a share of the nodes are replaced by a learned token, a few of them by another node's; an attention
encoder reads the graph; the masked nodes' codes are set to zero; a decoder gives back their features, and the loss is
(1 - cosine)^sharpness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.networks import NEEDS, Input, NeuralEmbedder, descend, geometric
from rae.baselines.registry import method

_PAPER = {
    "cora": {},
    "citeseer": {"heads": 2, "weight_decay": 2e-5, "steps": 300, "replace_share": 0.1, "sharpness": 1.0},
    "pubmed": {"dims": 1024, "weight_decay": 1e-5, "steps": 1000, "mask_share": 0.75, "replace_share": 0.0},
}


_READER = {
    name: {"rate": 0.01, "decay": decay, "steps": 300}
    for name, decay in (("cora", 1e-4), ("citeseer", 0.01), ("pubmed", 1e-4))
}


@method("GraphMAE", paper="Hou et al. 2022", needs=NEEDS, by_dataset=_PAPER, own_reader=_READER)
@dataclass(kw_only=True, eq=False)
class GraphMAE(NeuralEmbedder):
    """Two attention layers of `heads` heads with PReLU.  -> (n, dims). The defaults are the paper's for Cora."""

    dims: int = 512
    heads: int = 4
    mask_share: float = 0.5
    replace_share: float = 0.05
    sharpness: float = 3.0
    drop_rows: float = 0.2  # of what each layer reads, the decoder too
    drop_attention: float = 0.1
    learning_rate: float = 0.001
    weight_decay: float = 2e-4
    steps: int = 1500

    def _train(self, data: Input) -> nn.Module:
        model = _Encoder(data.width, self.dims, self.heads, self.drop_rows, self.drop_attention)
        bridge = nn.Linear(self.dims, self.dims, bias=False)
        decoder = _attention(self.dims, data.width, 1, self.drop_attention)
        token = nn.Parameter(torch.zeros(1, data.width))
        whole = nn.ModuleList([model, bridge, decoder, nn.ParameterList([token])]).to(data.x.device)
        x, edges, n = data.dense(), data.edges, data.n_nodes
        count = max(1, int(self.mask_share * n))
        replaced = int(self.replace_share * count)

        def loss() -> Tensor:
            order = torch.randperm(n, device=x.device)
            masked = order[:count]
            masked_x = x.clone()
            masked_x[masked] = token.expand(count, -1)
            if replaced:
                masked_x[masked[:replaced]] = x[torch.randperm(n, device=x.device)[:replaced]]
            code = bridge(model.encode(masked_x, edges)).index_fill(0, masked, 0.0)
            asked = torch.zeros(n, dtype=torch.bool, device=x.device).index_fill(0, masked, True)
            said = decoder(model.drop(code), edges[:, asked[edges[1]]])[masked]
            return ((1 - F.cosine_similarity(said, x[masked])) ** self.sharpness).mean()

        optimizer = torch.optim.Adam(whole.parameters(), self.learning_rate, weight_decay=self.weight_decay)

        def after(step: int, value: float) -> bool:
            height = (1 + math.cos(math.pi * (step + 1) / self.steps)) / 2
            optimizer.param_groups[0]["lr"] = self.learning_rate * height
            return False

        self.losses = descend(optimizer, loss, self.steps, after)
        return model


class _Encoder(nn.Module):
    def __init__(self, width: int, dims: int, heads: int, drop_rows: float, drop_attention: float) -> None:
        super().__init__()
        each = max(1, dims // heads)
        self.first = _attention(width, each, heads, drop_attention)
        self.second = _attention(each * heads, each, heads, drop_attention)
        self.activations = nn.ModuleList([nn.PReLU(), nn.PReLU()])
        self.drop = nn.Dropout(drop_rows)

    def encode(self, x: Tensor, edges: Tensor) -> Tensor:
        h = self.activations[0](self.first(self.drop(x), edges))
        out: Tensor = self.activations[1](self.second(self.drop(h), edges))
        return out

    def forward(self, data: Input) -> Tensor:
        return self.encode(data.dense(), data.edges)


def _attention(width: int, dims: int, heads: int, drop: float) -> nn.Module:
    """An attention layer with the initial weights of the released program: normal ones, sqrt(2) times Glorot's."""
    layer: nn.Module = geometric().GATConv(width, dims, heads=heads, dropout=drop)
    for name, weights in layer.named_parameters():
        if name != "bias":
            nn.init.xavier_normal_(weights, gain=math.sqrt(2))
    return layer
