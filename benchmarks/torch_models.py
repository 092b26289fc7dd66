"""The paper's model in PyTorch Geometric and in plain PyTorch, which training_step.py compares ours with.

None has a Python loop over nodes. All draw 256 anchors, encode them with one encoder and positives and
negatives with another, take a step of Adam, and look at the loss.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import rae
from rae.model.encoder import Encoder
from rae.model.losses import contrast
from rae.runtime import generator


class Neighbors:
    """The graph as index tensors, and the samples that a training step needs."""

    def __init__(self, graph: rae.Graph) -> None:
        self.n = graph.n_nodes
        self.offsets = torch.from_numpy(np.array(graph.offsets, np.int64))
        self.targets = torch.from_numpy(np.array(graph.targets, np.int64))
        self.degrees = torch.diff(self.offsets)
        self.ends = torch.repeat_interleave(torch.arange(self.n), self.degrees)
        self.codes = self.ends * self.n + self.targets  # ascending, since rows are sorted

    def padded(self, nodes: Tensor, k: int) -> Tensor:
        """So many neighbours each, with replacement; a node without any stands for itself.  (m,) -> (m, k)"""
        degree = self.degrees[nodes][:, None]
        place = self.offsets[nodes][:, None] + (torch.rand(len(nodes), k) * degree).long()
        return torch.where(degree > 0, self.targets[place.clamp(max=len(self.targets) - 1)], nodes[:, None])

    def ragged(self, nodes: Tensor, k: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """All neighbours where there are k or fewer, else k drawn with replacement: lists, index, counts."""
        degree = self.degrees[nodes]
        counts = degree if k is None else degree.clamp(max=k)
        lists = torch.repeat_interleave(torch.arange(len(nodes)), counts)
        place = torch.arange(len(lists)) - (counts.cumsum(0) - counts)[lists]
        if k is not None:
            place = torch.where(degree[lists] > k, (torch.rand(len(lists)) * degree[lists]).long(), place)
        return lists, self.targets[self.offsets[nodes][lists] + place], counts

    def non_adjacent(self, us: Tensor, vs: Tensor) -> Tensor:
        """Whether v is neither u nor a neighbour of u."""
        code = us * self.n + vs
        at = torch.searchsorted(self.codes, code).clamp(max=len(self.codes) - 1)
        return (self.codes[at] != code) & (us != vs)


def layer(n_in: int, n_out: int, dropout: float) -> nn.Sequential:
    """The paper's σ(W ·)."""
    return nn.Sequential(nn.Linear(n_in, n_out, bias=False), squash(n_out, dropout))


def squash(width: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.BatchNorm1d(width), nn.Tanh(), nn.Dropout(dropout))


class TorchModel:
    """Two encoders and an optimiser; a subclass says how nodes are encoded and contrasted."""

    def __init__(self, data: rae.datasets.Dataset, config: rae.Config, loss: str) -> None:
        self.graph, self.config, self.within = Neighbors(data.graph), config, loss == "within"
        self.x = torch.from_numpy(data.features.toarray())
        self.models = [self.model(self.x.shape[1]), self.model(self.x.shape[1])]
        weights = [p for model in self.models for p in model.parameters()]
        self.optimizer = torch.optim.Adam(weights, lr=config.learning_rate, fused=True)

    def model(self, n_in: int) -> nn.Module:
        raise NotImplementedError

    def loss(self, nodes: Tensor) -> Tensor:
        raise NotImplementedError

    def run(self, steps: int, round_: int) -> float:
        """Seconds a step."""
        began = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = self.loss(torch.randperm(self.graph.n)[: self.config.batch_size])
            loss.backward()
            self.optimizer.step()
            float(loss.detach())  # as a user reads it
        return (time.perf_counter() - began) / steps


class Sampled(TorchModel):
    """Dense features, fan-outs drawn by index tensors: anchors, five positives each, shared negatives."""

    ragged = False

    def model(self, n_in: int) -> nn.Module:
        widths, drop = (n_in, *self.config.dims), self.config.dropout
        levels = (nn.Sequential(layer(a, b, drop), layer(b, b, drop)) for a, b in itertools.pairwise(widths))
        return nn.ModuleList(levels)

    def below(self, model: nn.Module, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the second level averages: the egos' rows, the sums of their neighbours' rows, how many."""
        first, second = self.config.fanout
        if self.ragged:
            lists, index, counts = self.graph.ragged(nodes, first)
            every = torch.cat([nodes, index])
            own, more, sizes = self.graph.ragged(every, second)
            h = model[0](bag_mean(self.x, every, own, more, sizes))
            sums = torch.zeros(len(nodes), h.shape[1]).index_add(0, lists, h[len(nodes) :])
            return h[: len(nodes)], sums, counts[:, None]
        every = torch.cat([nodes[:, None], self.graph.padded(nodes, first)], 1).ravel()
        index = torch.cat([every[:, None], self.graph.padded(every, second)], 1)
        h = model[0](functional.embedding_bag(index, self.x, mode="mean")).view(len(nodes), 1 + first, -1)
        return h[:, 0], h[:, 1:].sum(1), torch.full((len(nodes), 1), first)

    def encode(self, model: nn.Module, nodes: Tensor) -> Tensor:
        ego, sums, counts = self.below(model, nodes)
        return model[1]((ego + sums) / (1 + counts))

    def loss(self, nodes: Tensor) -> Tensor:
        b, p, q = len(nodes), self.config.positives, self.config.negatives
        anchor = self.encode(self.models[0], nodes)
        if not self.within:
            both = torch.cat([self.graph.padded(nodes, p).T.ravel(), nodes])
            z = self.encode(self.models[1], both)
            place = torch.randint(b, (b, q))
            valid = self.graph.non_adjacent(nodes[:, None].expand(-1, q), nodes[place])
            negative = (z[p * b :][place] * anchor[:, None]).sum(-1)
            return contrast((z[: p * b].view(p, b, -1) * anchor).sum(-1), negative, valid=valid)
        k = round(self.config.shuffled * q)
        ego, sums, counts = self.below(self.models[1], nodes.repeat(p))
        own = torch.arange(b).repeat(k)
        swap = others(b, (k * b,), own) + b * torch.randint(p, (k * b,))
        shuffled = (ego[own] + sums[swap]) / (1 + counts[swap])
        z = self.models[1][1](torch.cat([(ego + sums) / (1 + counts), shuffled]))
        views, swapped = z[: p * b], z[p * b :].view(k, b, -1)
        place = others(b, (b, q - k), torch.arange(b)[:, None]) + b * torch.randint(p, (b, q - k))
        negative = torch.cat([(swapped * anchor).sum(-1).ravel(), (views[place] * anchor[:, None]).sum(-1).ravel()])
        return contrast((views.view(p, b, -1) * anchor).sum(-1), negative)


def others(b: int, shape: tuple[int, ...], own: Tensor) -> Tensor:
    """Places in the batch that are not one's own."""
    return (own + torch.randint(1, b, shape)) % b


class SampledRagged(Sampled):
    """The same, with lists as long as there are neighbours instead of padding."""

    ragged = True


def bag_mean(x: Tensor, every: Tensor, lists: Tensor, index: Tensor, counts: Tensor) -> Tensor:
    """mean({u} ∪ its list) of rows that need no gradient."""
    starts, filled = with_first(every, lists, index, counts)
    return functional.embedding_bag(filled, x, starts, mode="mean")


def with_first(first: Tensor, lists: Tensor, index: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Each list with one more entry before it: where the lists start, and the entries."""
    starts = counts.cumsum(0) - counts + torch.arange(len(first))
    filled = torch.empty(len(first) + len(index), dtype=torch.long)
    filled[starts] = first
    filled[torch.arange(len(index)) + lists + 1] = index
    return starts, filled


class Geometric(TorchModel):
    """SAGEConv with mean aggregation over the whole graph, self-loops added, adjacency as torch CSR."""

    def __init__(self, data: rae.datasets.Dataset, config: rae.Config, loss: str) -> None:
        from torch_geometric.utils import add_self_loops, to_torch_csr_tensor

        super().__init__(data, config, loss)
        index, _ = add_self_loops(torch.stack([self.graph.ends, self.graph.targets]), num_nodes=self.graph.n)
        self.adjacency = to_torch_csr_tensor(index, size=(self.graph.n,) * 2)

    def model(self, n_in: int) -> nn.Module:
        from torch_geometric.nn import SAGEConv

        (first, second), drop = self.config.dims, self.config.dropout

        def conv(a: int, b: int) -> nn.Module:
            return SAGEConv(a, b, aggr="mean", root_weight=False, bias=False)

        return nn.ModuleList(
            [
                conv(n_in, first), squash(first, drop), layer(first, first, drop),
                conv(first, second), squash(second, drop), layer(second, second, drop),
            ]
        )  # fmt: skip

    def encode(self, model: nn.Module, egos: Tensor | None = None, others: Tensor | None = None) -> Tensor:
        """Every node, followed by these egos, if given, with the neighbours of others."""
        one, first, second, two, third, fourth = model
        h = second(first(one(self.x, self.adjacency)))
        out = two(h, self.adjacency)
        if egos is not None:
            out = torch.cat([out, two((h, None), self.mixed(egos, others))])
        return fourth(third(out))

    def mixed(self, egos: Tensor, others: Tensor) -> Tensor:
        """A row for each ego: itself and the neighbours of another node."""
        return rows_of(egos, *self.graph.ragged(others), self.graph.n)

    def loss(self, nodes: Tensor) -> Tensor:
        n, b, p, q = self.graph.n, len(nodes), self.config.positives, self.config.negatives
        anchor = self.encode(self.models[0])[nodes]
        if self.within:
            k = round(self.config.shuffled * q)
            own = nodes.repeat(k)
            z = self.encode(self.models[1], own, (own + torch.randint(1, n, (k * b,))) % n)
            place = (nodes[:, None] + torch.randint(1, n, (b, q - k))) % n
            swapped = (z[n:].view(k, b, -1) * anchor).sum(-1).ravel()
            negative = torch.cat([swapped, (z[place] * anchor[:, None]).sum(-1).ravel()])
            return contrast((z[nodes] * anchor).sum(-1), negative)
        z = self.encode(self.models[1])
        positive = z[self.graph.padded(nodes, p)]
        place = torch.randint(n, (b, q))
        valid = self.graph.non_adjacent(nodes[:, None].expand(-1, q), place)
        return contrast((positive * anchor[:, None]).sum(-1), (z[place] * anchor[:, None]).sum(-1), valid=valid)


def rows_of(egos: Tensor, lists: Tensor, index: Tensor, counts: Tensor, n_below: int) -> Tensor:
    """The adjacency in which each row has its ego and its list."""
    starts, columns = with_first(egos, lists, index, counts)
    ends = torch.cat([starts, torch.tensor([len(columns)])])
    return torch.sparse_csr_tensor(ends, columns, torch.ones(len(columns)), (len(egos), n_below))


class GeometricSampled(Geometric):
    """The same operators on neighbourhoods from the sampler behind PyTorch Geometric's NeighborLoader."""

    sampler: Callable[..., Any] | None = None

    def below(self, model: nn.Module, nodes: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Rows of the first level, which of them are the nodes, and each distinct node's list: index, counts."""
        one, first, second, *_ = model
        seeds, place = torch.unique(nodes, return_inverse=True)
        call = (self.graph.offsets, self.graph.targets, seeds, list(self.config.fanout), False, True)
        sampled, source, target, _ = type(self).sampler(*call)
        order = torch.argsort(target, stable=True)
        source, target = source[order], target[order]
        n = max(len(seeds), int(target[-1]) + 1 if len(target) else 0)  # nodes of the last hop have no list
        adjacency = rows_of(torch.arange(n), target, source, torch.bincount(target, minlength=n), len(sampled))
        h = second(first(one((self.x[sampled], None), adjacency)))
        near = target < len(seeds)
        return h, place, (source[near], torch.bincount(target[near], minlength=len(seeds)))

    def above(self, model: nn.Module, h: Tensor, egos: Tensor, rows: Tensor, samples: tuple[Tensor, Tensor]) -> Tensor:
        """The second level of egos, each with the list of a row."""
        index, counts = samples
        starts, sizes = (counts.cumsum(0) - counts)[rows], counts[rows]
        lists = torch.repeat_interleave(torch.arange(len(rows)), sizes)
        place = torch.arange(len(lists)) - (sizes.cumsum(0) - sizes)[lists]
        adjacency = rows_of(egos, lists, index[starts[lists] + place], sizes, len(h))
        _, _, _, two, third, fourth = model
        return fourth(third(two((h, None), adjacency)))

    def loss(self, nodes: Tensor) -> Tensor:
        b, p, q = len(nodes), self.config.positives, self.config.negatives
        h, place, samples = self.below(self.models[0], nodes)
        anchor = self.above(self.models[0], h, place, place, samples)
        if not self.within:
            h, place, samples = self.below(self.models[1], torch.cat([self.graph.padded(nodes, p).T.ravel(), nodes]))
            z = self.above(self.models[1], h, place, place, samples)
            other = torch.randint(b, (b, q))
            valid = self.graph.non_adjacent(nodes[:, None].expand(-1, q), nodes[other])
            negative = (z[p * b :][other] * anchor[:, None]).sum(-1)
            return contrast((z[: p * b].view(p, b, -1) * anchor).sum(-1), negative, valid=valid)
        k = round(self.config.shuffled * q)
        h, egos, rows, samples = self.views(nodes, p)
        own = torch.arange(b).repeat(k)
        swap = others(b, (k * b,), own) + b * torch.randint(p, (k * b,))
        z = self.above(self.models[1], h, torch.cat([egos, egos[own]]), torch.cat([rows, rows[swap]]), samples)
        views, swapped = z[: p * b], z[p * b :].view(k, b, -1)
        other = others(b, (b, q - k), torch.arange(b)[:, None]) + b * torch.randint(p, (b, q - k))
        negative = torch.cat([(swapped * anchor).sum(-1).ravel(), (views[other] * anchor[:, None]).sum(-1).ravel()])
        return contrast((views.view(p, b, -1) * anchor).sum(-1), negative)

    def views(self, nodes: Tensor, p: int) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Several samples around the nodes side by side: rows of the first level, egos, lists."""
        parts = [self.below(self.models[1], nodes) for _ in range(p)]
        first = np.cumsum([0, *(len(h) for h, _, _ in parts[:-1])]).tolist()
        egos = torch.cat([place + at for at, (_, place, _) in zip(first, parts, strict=True)])
        rows = torch.cat([place + len(nodes) * view for view, (_, place, _) in enumerate(parts)])
        index = torch.cat([lists[0] + at for at, (_, _, lists) in zip(first, parts, strict=True)])
        return torch.cat([h for h, _, _ in parts]), egos, rows, (index, torch.cat([lists[1] for _, _, lists in parts]))


def geometric_sampler() -> Callable[..., Any] | None:
    """The function behind NeighborLoader, None unless torch-sparse was compiled (install_alternatives.py) and works."""
    from install_alternatives import EXTRA_PACKAGES

    try:
        for path in sorted(EXTRA_PACKAGES.glob("torch_sparse/_sample_cpu*.so")):
            torch.ops.load_library(str(path))
        sample = torch.ops.torch_sparse.neighbor_sample
        path_of_three = torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 2, 1])
        nodes, source, target, _ = sample(*path_of_three, torch.tensor([2]), [5, 5], False, True)
    except (AttributeError, OSError, RuntimeError):
        return None
    edges = {(int(nodes[a]), int(nodes[b])) for a, b in zip(source, target, strict=True)}
    return sample if edges == {(1, 2), (0, 1), (2, 1)} else None


class WholeGraph(TorchModel):
    """J_within over the whole graph by torch.sparse products, projecting before averaging."""

    def __init__(self, data: rae.datasets.Dataset, config: rae.Config, loss: str) -> None:
        super().__init__(data, config, loss)
        own = torch.arange(self.graph.n)
        index = torch.stack([torch.cat([self.graph.ends, own]), torch.cat([self.graph.targets, own])])
        share = (1.0 / (1.0 + self.graph.degrees))[index[0]]
        self.mean = torch.sparse_coo_tensor(index, share, (self.graph.n,) * 2).coalesce().to_sparse_csr()

    def model(self, n_in: int) -> nn.Module:
        return Encoder(n_in, self.config, generator(0, "whole graph"))

    def encode(self, model: nn.Module) -> Tensor:
        h = self.x
        for level in model.stack():
            h = level.after(self.mean @ (h @ level.aggregate.weight), projected=True)
        return h

    def loss(self, nodes: Tensor) -> Tensor:
        anchor, context = self.encode(self.models[0])[nodes], self.encode(self.models[1])
        place = torch.randint(self.graph.n, (len(nodes), self.config.negatives))
        return contrast((anchor * context[nodes]).sum(-1), (context[place] * anchor[:, None]).sum(-1))
