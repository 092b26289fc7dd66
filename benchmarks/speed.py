"""One training step on Cora and Pubmed, beside the same model written with PyTorch Geometric and with plain PyTorch.

    RAE_DATA=... python benchmarks/speed.py [--threads 1] [--rounds 5] [--quick]

Ours is a step as `RAE.fit` takes it with the paper's settings, history included. The others have no Python
loop over nodes either. All racers run in turns in one process, warmed up; best and worst round are kept.
Where a racer does less work than the paper asks for, `note` says so: it is then faster than it should be.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lines import RESULTS, Lines, spread
from torch import Tensor, nn
from torch.nn import functional

import rae
from rae.encoder import Encoder
from rae.features import prepare
from rae.inference import embed
from rae.losses import contrast
from rae.runtime import generator

STEPS = 10  # in a round, fewer where they would take longer than
SECONDS = 1.5


class Neighbors:
    """The graph as index tensors, and what a training step asks of it."""

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

    def apart(self, us: Tensor, vs: Tensor) -> Tensor:
        """Whether v is neither u nor a neighbour of u."""
        code = us * self.n + vs
        found = torch.searchsorted(self.codes, code).clamp(max=len(self.codes) - 1)
        return (self.codes[found] != code) & (us != vs)


def layer(n_in: int, n_out: int, dropout: float) -> nn.Sequential:
    """The paper's σ(W ·)."""
    return nn.Sequential(nn.Linear(n_in, n_out, bias=False), squash(n_out, dropout))


def squash(width: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.BatchNorm1d(width), nn.Tanh(), nn.Dropout(dropout))


class Racer:
    """Two encoders and an optimiser; a racer says how nodes are encoded and contrasted."""

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
            float(loss.detach())  # a user looks at it
        return (time.perf_counter() - began) / steps


class Sampled(Racer):
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
            seen = torch.cat([self.graph.padded(nodes, p).T.ravel(), nodes])
            z = self.encode(self.models[1], seen)
            place = torch.randint(b, (b, q))
            valid = self.graph.apart(nodes[:, None].expand(-1, q), nodes[place])
            negative = (z[p * b :][place] * anchor[:, None]).sum(-1)
            return contrast((z[: p * b].view(p, b, -1) * anchor).sum(-1), negative, valid=valid)
        k = round(self.config.shuffled * q)
        ego, sums, counts = self.below(self.models[1], nodes.repeat(p))
        own, others = torch.arange(b).repeat(k), self.others(b, (k * b,), torch.arange(b).repeat(k))
        others = others + b * torch.randint(p, (k * b,))
        shuffled = (ego[own] + sums[others]) / (1 + counts[others])
        z = self.models[1][1](torch.cat([(ego + sums) / (1 + counts), shuffled]))
        views, swapped = z[: p * b], z[p * b :].view(k, b, -1)
        place = self.others(b, (b, q - k), torch.arange(b)[:, None]) + b * torch.randint(p, (b, q - k))
        negative = torch.cat([(swapped * anchor).sum(-1).ravel(), (views[place] * anchor[:, None]).sum(-1).ravel()])
        return contrast((views.view(p, b, -1) * anchor).sum(-1), negative)

    @staticmethod
    def others(b: int, shape: tuple[int, ...], own: Tensor) -> Tensor:
        """Places in the batch that are not one's own."""
        return (own + torch.randint(1, b, shape)) % b


class SampledRagged(Sampled):
    """The same, with lists as long as there are neighbours instead of padding."""

    ragged = True


def bag_mean(x: Tensor, every: Tensor, lists: Tensor, index: Tensor, counts: Tensor) -> Tensor:
    """mean({u} ∪ its list) of rows that need no gradient."""
    starts = counts.cumsum(0) - counts + torch.arange(len(every))
    filled = torch.empty(len(every) + len(index), dtype=torch.long)
    filled[starts] = every
    filled[torch.arange(len(index)) + lists + 1] = index
    return functional.embedding_bag(filled, x, starts, mode="mean")


class Geometric(Racer):
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
        """Every node; and below them, if asked, these egos with the neighbours of others."""
        one, first, second, two, third, fourth = model
        h = second(first(one(self.x, self.adjacency)))
        out = two(h, self.adjacency)
        if egos is not None:
            out = torch.cat([out, two((h, None), self.mixed(egos, others))])
        return fourth(third(out))

    def mixed(self, egos: Tensor, others: Tensor) -> Tensor:
        """A row for each ego: itself and the neighbours of another node."""
        lists, index, counts = self.graph.ragged(others)
        starts = counts.cumsum(0) - counts + torch.arange(len(egos))
        columns = torch.empty(len(egos) + len(index), dtype=torch.long)
        columns[starts] = egos
        columns[torch.arange(len(index)) + lists + 1] = index
        ends = torch.cat([starts, torch.tensor([len(columns)])])
        return torch.sparse_csr_tensor(ends, columns, torch.ones(len(columns)), (len(egos), self.graph.n))

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
        valid = self.graph.apart(nodes[:, None].expand(-1, q), place)
        return contrast((positive * anchor[:, None]).sum(-1), (z[place] * anchor[:, None]).sum(-1), valid=valid)


class WholeGraph(Racer):
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
            h = level.finish(level.aggregate.squash(self.mean @ (h @ level.aggregate.weight)))
        return h

    def loss(self, nodes: Tensor) -> Tensor:
        anchor, context = self.encode(self.models[0])[nodes], self.encode(self.models[1])
        place = torch.randint(self.graph.n, (len(nodes), self.config.negatives))
        return contrast((anchor * context[nodes]).sum(-1), (context[place] * anchor[:, None]).sum(-1))


class Ours:
    """Steps exactly as `RAE.fit` takes them."""

    def __init__(self, data: rae.datasets.Dataset, config: rae.Config, loss: str) -> None:
        self.data, self.config = data, config.replace(loss=loss)

    def run(self, steps: int, round_: int) -> float:
        """Seconds a step, from the end of the first one on; the last one, which is always recorded, left out."""
        ends: list[float] = []
        model = rae.RAE(self.config, steps=steps + 2, seed=round_)
        model.fit(self.data.graph, self.data.features, progress=lambda *_: ends.append(time.perf_counter()))
        return (ends[steps] - ends[0]) / steps


class Embedding:
    """All nodes embedded exactly, in memory."""

    def __init__(self, data: rae.datasets.Dataset, config: rae.Config) -> None:
        self.graph, self.x = data.graph, prepare(data.graph, data.features, config)
        self.encoder = Encoder(self.x.shape[1], config, generator(0, "embedding"))

    def run(self, steps: int, round_: int) -> float:
        began = time.perf_counter()
        embed(self.encoder, self.graph, self.x)
        return time.perf_counter() - began


NOTES = {
    "PyTorch Geometric": "over the whole graph, no samples: its sampler needs pyg-lib, which is not on the package "
    "index, or torch-sparse, there as source only; one positive view instead of five",
    "plain PyTorch, whole graph": "over the whole graph, no samples; one positive view, no shuffled negatives; "
    "projects before averaging",
    "plain PyTorch, padded": "samples with replacement, every list as long as the fan-out",
    "plain PyTorch, ragged": "all neighbours where there are few, else samples with replacement",
}


def racers(data: rae.datasets.Dataset, config: rae.Config) -> dict[str, Any]:
    """Every racer by its row's name: who, and for the two losses which."""
    kinds: dict[str, Callable[..., Any]] = {
        "ours": Ours,
        "PyTorch Geometric": Geometric,
        "plain PyTorch, padded": Sampled,
        "plain PyTorch, ragged": SampledRagged,
    }
    made = {
        f"{name}, {loss}": kind(data, config, loss) for loss in ("within", "neighbor") for name, kind in kinds.items()
    }
    made["plain PyTorch, whole graph, within"] = WholeGraph(data, config, "within")
    made["ours, embedding every node"] = Embedding(data, config)
    return made


def race(data: rae.datasets.Dataset, config: rae.Config, rounds: int, most: int) -> dict[str, list[float]]:
    """Seconds a step of every racer, round by round; so many steps a round at most, ours always so many."""
    made = racers(data, config)
    steps, times = {}, {name: [] for name in made}
    for name, racer in made.items():
        racer.run(1, 0)
        steps[name] = 1 if most == 1 else max(1, min(most, int(SECONDS / racer.run(1, 0))))
    for round_ in range(rounds):
        for name, racer in made.items():
            times[name].append(racer.run(most if name.startswith("ours") else steps[name], round_))
    return times


def note(row: str) -> dict[str, str]:
    return next(({"note": text} for name, text in NOTES.items() if row.startswith(name)), {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--datasets", default="cora,pubmed")
    parser.add_argument("--quick", action="store_true", help="a small generated graph and one round")
    parser.add_argument("--out", type=Path, default=RESULTS / "speed.jsonl")
    options = parser.parse_args()
    names = ["planted-actions"] if options.quick else options.datasets.split(",")
    rounds = 1 if options.quick else options.rounds
    warnings.filterwarnings("ignore", "Sparse")  # torch calls its CSR support beta
    warnings.simplefilter("ignore", rae.errors.CollapseWarning)  # a dozen steps are no fit
    torch.set_num_threads(options.threads)
    rae.set_threads(options.threads)
    lines = Lines(options.out)
    for name in names:
        data = rae.datasets.load(name, **({"n_nodes": 300, "n_words": 200} if options.quick else {}))
        times = race(data, rae.PAPER, rounds, 1 if options.quick else STEPS)
        for row, spent in times.items():
            ours = f"ours, {row.rsplit(', ', 1)[1]}"
            line = {"table": "speed", "dataset": name, "row": row, "threads": options.threads, **spread(spent, "ms", 1)}
            line |= {"times_ours": round(min(spent) / min(times[ours]), 2)} if ours in times and ours != row else {}
            lines.keep({**line, **note(row), "versions": {"torch-geometric": version("torch-geometric")}})
            shown = f"{line['times_ours']:6.1f} x ours" if "times_ours" in line else ""
            print(
                f"{name:16} {row:36} {line['best_ms']:9.1f} ms best, {line['worst_ms']:9.1f} worst {shown}", flush=True
            )


if __name__ == "__main__":
    main()
