"""What networks of whole graphs share: several graphs as one batch, and when a classifier stops."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.errors import FeatureError
from rae.graph import Graph
from rae.runtime import generator, torch_alone

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float32]]


# ------------------------------------------------------------------------------------------ batches of graphs


@dataclass(frozen=True)
class Batch:
    """Several graphs side by side: what their nodes are given, edges in both directions, the graph of each node."""

    x: Tensor  # (n, d)
    edges: Tensor  # (2, m)
    graph_of: Tensor  # (n,)
    n_graphs: int


@dataclass(frozen=True)
class GraphInputs:
    """What a network is given for the nodes of graphs: their features, else their degrees, else nothing but a one.

    `width` is the number of columns; degrees above the largest of the fit count as that one.
    """

    width: int
    degrees: bool

    @classmethod
    def of(cls, graphs: Sequence[Graph], features: Sequence[Any] | None, without: str) -> GraphInputs:
        """Those of these graphs; `without` features, "degree" gives a column per degree and "constant" a one."""
        if features is not None:
            return cls(int(features[0].shape[1]), False)
        if without == "constant":
            return cls(1, False)
        return cls(1 + max(int(g.degrees.max(initial=0)) for g in graphs), True)

    def table(self, graph: Graph, features: Any) -> Floats:
        """The rows of one graph.  -> (n, width)"""
        if features is None:
            if not self.degrees:
                return np.ones((graph.n_nodes, self.width), np.float32)
            return np.asarray(np.eye(self.width, dtype=np.float32)[np.minimum(graph.degrees, self.width - 1)])
        table = np.asarray(features, np.float32)
        if table.shape != (graph.n_nodes, self.width):
            expected = (graph.n_nodes, self.width)
            raise FeatureError(f"features of a graph must be of shape {expected}, as in the fit, got {table.shape}")
        return table


class Batches:
    """Graphs with what their nodes are given, from which batches are made."""

    def __init__(
        self, graphs: Sequence[Graph], features: Sequence[Any] | None, inputs: GraphInputs, device: str
    ) -> None:
        tables = [None] * len(graphs) if features is None else features
        self.x = [torch.from_numpy(inputs.table(g, f)) for g, f in zip(graphs, tables, strict=True)]
        self.edges = [torch.from_numpy(_both_directions(g)) for g in graphs]
        self.device = device

    def of(self, numbers: Sequence[int] | Ints) -> Batch:
        """These graphs as one batch."""
        sizes = torch.tensor([len(self.x[i]) for i in numbers])
        first = torch.cumsum(sizes, 0) - sizes
        edges = torch.cat([self.edges[i] + start for i, start in zip(numbers, first, strict=True)], 1)
        graph_of = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        x = torch.cat([self.x[i] for i in numbers])
        return Batch(x.to(self.device), edges.to(self.device), graph_of.to(self.device), len(sizes))


def _both_directions(graph: Graph) -> Ints:
    return np.stack([np.repeat(np.arange(graph.n_nodes), graph.degrees), graph.targets.astype(np.int64)])


def in_parts(numbers: Ints, size: int) -> list[Ints]:
    """The numbers in parts of about this size; none of one alone, which batch normalisation could not take."""
    return np.array_split(numbers, max(1, len(numbers) // size)) if len(numbers) else []


# ------------------------------------------------------------------------------------------ classifiers


def fit_classifier(
    model: nn.Module,
    scores: Callable[[Ints], Tensor],
    classes: Ints,
    train: Ints,
    optimizer: torch.optim.Optimizer,
    *,
    passes: int,
    patience: int,
    batch: int,
    seed: int,
    halve_every: int = 0,
) -> int:
    """Train the model and keep it as it was after the pass that a held-out tenth of `train` likes best: its number.

    `scores` gives what the model says of some graphs, a column per class. The held-out tenth is drawn by the seed,
    class by class; of passes with equally many right, the one with the lowest loss is best. Training ends after
    `patience` passes without a better one. Only the classes of `train` are read.
    """
    rng = generator(seed, "classifier")
    check, fitted = held_out(classes, train, rng)
    of_class = torch.from_numpy(classes).to(next(model.parameters()).device)
    best, best_pass, best_state = (-1.0, 0.0), 0, copy.deepcopy(model.state_dict())
    for number in range(1, passes + 1):
        model.train()
        for part in in_parts(rng.permutation(fitted), batch):
            optimizer.zero_grad()
            loss: Any = F.cross_entropy(scores(part), of_class[part])
            loss.backward()
            optimizer.step()
        if halve_every and number % halve_every == 0:
            for group in optimizer.param_groups:
                group["lr"] /= 2
        model.eval()
        with torch.no_grad():
            said = scores(check)
            right = float((said.argmax(1) == of_class[check]).float().mean())
            reached = (right, -float(F.cross_entropy(said, of_class[check])))
        if reached > best:
            best, best_pass, best_state = reached, number, copy.deepcopy(model.state_dict())
        if number - best_pass >= patience:
            break
    model.load_state_dict(best_state)
    model.eval()
    return best_pass


def held_out(classes: Ints, train: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """A tenth of `train`, but one or more of each class that has two or more, and the others."""
    parts = []
    for code in np.unique(classes[train]):
        members = rng.permutation(train[classes[train] == code])
        parts.append(members[: max(1, round(len(members) / 10))] if len(members) > 1 else members[:0])
    chosen = np.concatenate(parts)
    return (chosen, np.setdiff1d(train, chosen)) if len(chosen) else (train, train)


def predicted(scores: Callable[[Ints], Tensor], count: int, batch: int = 256) -> Ints:
    """The class that a model in its state of use gives each of `count` graphs.  -> (count,)"""
    with torch_alone(), torch.no_grad():
        parts = [scores(part).argmax(1).cpu().numpy() for part in in_parts(np.arange(count), batch)]
    return np.concatenate(parts).astype(np.int64)


def class_codes(labels: Ints, train: Ints) -> tuple[Ints, Ints]:
    """The labels that occur in `train`, and the code of every graph: its label's place among them, 0 elsewhere."""
    classes = np.unique(labels[train])
    codes = np.zeros(len(labels), np.int64)
    codes[train] = np.searchsorted(classes, labels[train])
    return classes, codes
