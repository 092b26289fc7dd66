"""GAT (Veličković et al. 2018): two attention layers, trained on the labelled nodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.networks import (
    NEEDS,
    Input,
    Labelled,
    NeuralClassifier,
    Patience,
    descend,
    dropout,
    geometric,
    validation_score,
)
from rae.baselines.registry import method
from rae.graph import Graph

_PAPER = {"pubmed": {"out_heads": 8, "learning_rate": 0.01, "weight_decay": 0.001}}


@method("GAT", paper="Veličković et al. 2018", needs=NEEDS, by_dataset=_PAPER)
@dataclass(kw_only=True, eq=False)
class GAT(NeuralClassifier):
    """Heads side by side, ELU, then heads that are averaged. Sees labels.

    It keeps the weights of the lowest validation loss and stops `patience` steps after it.
    """

    dims: int = 8
    heads: int = 8
    out_heads: int = 1
    drop: float = 0.6
    learning_rate: float = 0.005
    weight_decay: float = 5e-4
    steps: int = 1000
    patience: int = 100

    def _train(self, data: Input, labelled: Labelled, graph: Graph) -> nn.Module:
        model = _Network(data.width, self.dims, self.heads, self.out_heads, labelled.n_classes, self.drop)
        model.to(data.x.device)
        optimizer = torch.optim.Adam(model.parameters(), self.learning_rate, weight_decay=self.weight_decay)
        edges, stop = data.edges, Patience(model, self.patience)

        def loss() -> Tensor:
            return F.cross_entropy(model.scores(data.x, edges)[labelled.train], labelled.train_labels)

        def after(step: int, value: float) -> bool:
            if not len(labelled.validation):
                return False
            return stop(validation_score(model, lambda: model.scores(data.x, edges), labelled)[0])

        self.losses = descend(optimizer, loss, self.steps, after)
        if len(labelled.validation):
            stop.restore()
        return model


class _Network(nn.Module):
    def __init__(self, width: int, dims: int, heads: int, out_heads: int, classes: int, drop: float) -> None:
        super().__init__()
        layer = geometric().GATConv
        self.first = layer(width, dims, heads=heads, dropout=drop)
        self.second = layer(dims * heads, classes, heads=out_heads, concat=False, dropout=drop)
        self.drop = drop

    def scores(self, x: Tensor, edges: Tensor) -> Tensor:
        h = F.elu(self.first(dropout(x, self.drop, self.training), edges))
        out: Tensor = self.second(dropout(h, self.drop, self.training), edges)
        return out

    def forward(self, data: Input) -> Tensor:
        return self.scores(data.x, data.edges)
