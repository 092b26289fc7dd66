"""One training step on Cora and Pubmed, beside the same model written with PyTorch Geometric and with plain PyTorch.

    RAE_DATA=... python benchmarks/speed.py [--threads 1] [--rounds 5] [--quick]

Ours is a step as `RAE.fit` takes it with the paper's settings, history included. The others have no Python
loop over nodes either. All racers run in turns in one process, warmed up; best and worst round are kept.
Where a racer does less work than the paper asks for, `note` says so: it is then faster than it should be.
PyTorch Geometric's sampler needs pyg-lib, which the package index does not have, or torch-sparse, which it has
as source: python benchmarks/alternatives.py compiles it. Without it that racer is left out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from lines import RESULTS, Lines, spread
from racers import Geometric, GeometricSampled, Sampled, SampledRagged, WholeGraph, geometric_sampler

import rae
from rae.engine import embed
from rae.features import prepare
from rae.model.encoder import Encoder
from rae.runtime import generator

STEPS = 10  # in a round, fewer where they would take longer than
SECONDS = 1.5


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
    "PyTorch Geometric, sampled": "torch-sparse's sampler, as NeighborLoader calls it; one list a node for both levels",
    "PyTorch Geometric, whole graph": "no samples; one positive view instead of five",
    "plain PyTorch, whole graph": "no samples; one positive view, no shuffled negatives; projects before averaging",
    "plain PyTorch, padded": "samples with replacement, every list as long as the fan-out",
    "plain PyTorch, ragged": "all neighbours where there are few, else samples with replacement",
}


def racers(data: rae.datasets.Dataset, config: rae.Config) -> dict[str, Any]:
    """Every racer by its row's name: who, and for the two losses which."""
    kinds: dict[str, Callable[..., Any]] = {
        "ours": Ours,
        "PyTorch Geometric, whole graph": Geometric,
        "plain PyTorch, padded": Sampled,
        "plain PyTorch, ragged": SampledRagged,
    }
    if sampler := geometric_sampler():
        GeometricSampled.sampler = staticmethod(sampler)
        kinds["PyTorch Geometric, sampled"] = GeometricSampled
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


def note(row: str, sampled: bool) -> dict[str, str]:
    """What a racer does otherwise than the paper, and why PyTorch Geometric's does where its sampler is missing."""
    text = next((text for name, text in NOTES.items() if row.startswith(name)), "")
    if "Geometric, whole" in row and not sampled:
        text += "; no row with its sampler: pyg-lib is not on the package index, torch-sparse is not compiled here"
    return {"note": text} if text else {}


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
            sampled = any("Geometric, sampled" in racer for racer in times)
            lines.keep({**line, **note(row, sampled), "versions": {"torch-geometric": version("torch-geometric")}})
            shown = f"{line['times_ours']:6.1f} x ours" if "times_ours" in line else ""
            print(
                f"{name:16} {row:36} {line['best_ms']:9.1f} ms best, {line['worst_ms']:9.1f} worst {shown}", flush=True
            )


if __name__ == "__main__":
    main()
