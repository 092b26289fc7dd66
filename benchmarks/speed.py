"""Training step and whole-graph embedding, beside a straightforward version in plain PyTorch.

    RAE_DATA=... python benchmarks/speed.py [--threads 1] [--rounds 5]

The plain version has no Python loop over nodes either: dense features, `torch.sparse` products over
the whole graph instead of samples, the same encoder, losses and optimiser. Both run in turns in one
process; best and spread of the rounds are printed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import torch

import rae
from rae.encoder import Encoder
from rae.features import prepare
from rae.inference import embed
from rae.losses import contrast
from rae.runtime import generator
from rae.training import step_loss


class Plain:
    """J_within by full-graph dense products: what one writes first in PyTorch."""

    def __init__(self, data: rae.datasets.Dataset, config: rae.Config) -> None:
        graph = data.graph
        ends = torch.from_numpy(np.repeat(np.arange(graph.n_nodes), graph.degrees))
        own = torch.arange(graph.n_nodes)
        index = torch.stack([torch.cat([ends, own]), torch.cat([torch.from_numpy(graph.targets.copy()).long(), own])])
        share = torch.from_numpy(1.0 / (1.0 + graph.degrees)).float()[index[0]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls its CSR support beta
            self.mean = torch.sparse_coo_tensor(index, share, (graph.n_nodes,) * 2).coalesce().to_sparse_csr()
        self.x = torch.from_numpy(data.features.toarray())
        self.config, self.n = config, graph.n_nodes
        self.encoders = [Encoder(self.x.shape[1], config, generator(i, "plain")) for i in range(2)]
        self.optimizer = torch.optim.Adam([p for e in self.encoders for p in e.parameters()], lr=0.01, fused=True)

    def encode(self, encoder: Encoder) -> torch.Tensor:
        h = self.x
        for level in encoder.stack():
            h = level.finish(level.aggregate.squash(self.mean @ (h @ level.aggregate.weight)))
        return h

    def step(self) -> None:
        nodes = torch.randperm(self.n)[: self.config.batch_size]
        anchor = self.encode(self.encoders[0])[nodes]
        context = self.encode(self.encoders[1])
        negative = context[torch.randint(self.n, (len(nodes), self.config.negatives))]
        loss = contrast((anchor * context[nodes]).sum(-1), (negative @ anchor[:, :, None])[..., 0])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class Ours:
    """One training step exactly as `RAE.fit` takes it."""

    def __init__(self, data: rae.datasets.Dataset, config: rae.Config, loss: str) -> None:
        self.data, self.config, self.loss, self.count = data, config, loss, 0
        self.x = prepare(data.graph, data.features, config)
        self.encoders = [Encoder(self.x.shape[1], config, generator(i, "ours")) for i in range(2)]
        self.optimizer = torch.optim.Adam([p for e in self.encoders for p in e.parameters()], lr=0.01, fused=True)

    def step(self) -> None:
        self.count += 1
        self.optimizer.zero_grad()
        step_loss(*self.encoders, self.data.graph, self.x, self.config, self.loss, self.count).backward()
        self.optimizer.step()


def seconds(work, repeat: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - start) / repeat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/speed.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rae.set_threads(options.threads)
    for name in ("cora", "pubmed"):
        data = rae.datasets.load(name)
        racers = {f"ours, {loss}": Ours(data, rae.PAPER, loss) for loss in ("within", "neighbor")}
        racers["plain PyTorch, within, full graph"] = Plain(data, rae.PAPER)
        times: dict[str, list[float]] = {racer: [] for racer in [*racers, "embed"]}
        for racer in racers.values():
            racer.step()
        encoder = racers["ours, within"].encoders[0]
        x = racers["ours, within"].x
        embed(encoder, data.graph, x)
        for _ in range(options.rounds):
            for racer in racers:
                times[racer].append(seconds(racers[racer].step, 10))
            times["embed"].append(seconds(lambda: embed(encoder, data.graph, x)))  # noqa: B023
        for racer, spent in times.items():
            found = {"table": "speed", "dataset": name, "row": racer, "threads": options.threads}
            found |= {"best_ms": round(min(spent) * 1e3, 1), "worst_ms": round(max(spent) * 1e3, 1)}
            with options.out.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(f"{name:7} {racer:35} {found['best_ms']:8.1f} ms best, {found['worst_ms']:8.1f} worst", flush=True)


if __name__ == "__main__":
    main()
