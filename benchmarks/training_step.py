"""One training step on Cora and Pubmed: ours, and the same model in PyTorch Geometric and in plain PyTorch.

    RAE_DATA=... python benchmarks/training_step.py [--threads 1] [--rounds 5] [--quick]

Ours is a step as `RAE.fit` takes it with the paper's settings, history included. The others have no Python
loop over nodes either. All models run in turns in one process, warmed up; best and worst round are recorded.
Where a model does less work than the paper asks for, `note` says so: it is then faster than it should be.
PyTorch Geometric's sampler needs pyg-lib, which the package index does not have, or torch-sparse, which it has
as source: python benchmarks/install_alternatives.py compiles it. Without it that model is left out.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch
from measurements import spread
from recording import parser, record
from torch_models import Geometric, GeometricSampled, Sampled, SampledRagged, WholeGraph, geometric_sampler

import rae

STEPS = 10  # in a round, fewer where they would take longer than ROUND_SECONDS
ROUND_SECONDS = 1.5


class Ours:
    """Steps exactly as `RAE.fit` takes them."""

    def __init__(self, data: rae.datasets.Dataset, config: rae.Config, loss: str) -> None:
        self.data, self.config = data, config.replace(loss=loss)

    def run(self, steps: int, round_: int) -> float:
        """Seconds a step, from the end of the first one on; the last one, which is always recorded, left out."""
        ends: list[float] = []
        model = rae.RAE(self.config, steps=steps + 2, seed=round_)
        model.fit(self.data.graph, features=self.data.features, progress=lambda *_: ends.append(time.perf_counter()))
        return (ends[steps] - ends[0]) / steps


class Embedding:
    """All nodes embedded exactly, in memory."""

    def __init__(self, data: rae.datasets.Dataset, config: rae.Config) -> None:
        self.data = data
        self.model = rae.RAE(config, steps=0).fit(data.graph, features=data.features)

    def run(self, steps: int, round_: int) -> float:
        began = time.perf_counter()
        self.model.transform(self.data.graph, self.data.features)
        return time.perf_counter() - began


NOTES = {
    "PyTorch Geometric, sampled": "torch-sparse's sampler, as NeighborLoader calls it; one list a node for both levels",
    "PyTorch Geometric, whole graph": "no samples; one positive view instead of five",
    "plain PyTorch, whole graph": "no samples; one positive view, no shuffled negatives; projects before averaging",
    "plain PyTorch, padded": "samples with replacement, every list as long as the fan-out",
    "plain PyTorch, ragged": "all neighbours where there are few, else samples with replacement",
}


def models(data: rae.datasets.Dataset, config: rae.Config) -> dict[str, Any]:
    """Every model by the name of its row, for each loss."""
    kinds: dict[str, Callable[..., Any]] = {
        "ours": Ours,
        "PyTorch Geometric, whole graph": Geometric,
        "plain PyTorch, padded": Sampled,
        "plain PyTorch, ragged": SampledRagged,
    }
    if sampler := geometric_sampler():
        GeometricSampled.sampler = staticmethod(sampler)
        kinds["PyTorch Geometric, sampled"] = GeometricSampled
    rows = {
        f"{name}, {loss}": kind(data, config, loss) for loss in ("within", "neighbor") for name, kind in kinds.items()
    }
    rows["plain PyTorch, whole graph, within"] = WholeGraph(data, config, "within")
    rows["ours, embedding every node"] = Embedding(data, config)
    return rows


def time_in_turns(data: rae.datasets.Dataset, config: rae.Config, rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds a step of every model, round by round; at most so many steps a round, ours always so many."""
    rows = models(data, config)
    steps_of, times = {}, {name: [] for name in rows}
    for name, model in rows.items():
        model.run(1, 0)
        steps_of[name] = 1 if steps == 1 else max(1, min(steps, int(ROUND_SECONDS / model.run(1, 0))))
    for number in range(rounds):
        for name, model in rows.items():
            times[name].append(model.run(steps if name.startswith("ours") else steps_of[name], number))
    return times


def note(row: str, sampled: bool) -> dict[str, str]:
    """How a model differs from the paper, and why PyTorch Geometric's does where its sampler is missing."""
    text = next((text for name, text in NOTES.items() if row.startswith(name)), "")
    if "Geometric, whole" in row and not sampled:
        text += "; no row with its sampler: pyg-lib is not on the package index, torch-sparse is not compiled here"
    return {"note": text} if text else {}


def main() -> None:
    arguments = parser(__doc__, "a small generated graph and one round", threads=1, rounds=5)
    arguments.add_argument("--datasets", default="cora,pubmed")
    options = arguments.parse_args()
    warnings.filterwarnings("ignore", "Sparse")  # torch calls its CSR support beta
    warnings.simplefilter("ignore", rae.errors.CollapseWarning)  # a dozen steps are no fit
    torch.set_num_threads(options.threads)
    rae.set_threads(options.threads)
    versions = {"torch-geometric": version("torch-geometric")}
    for name in ["planted-actions"] if options.quick else options.datasets.split(","):
        data = rae.datasets.load(name, **({"n_nodes": 300, "n_words": 200} if options.quick else {}))
        rounds, steps = (1, 1) if options.quick else (options.rounds, STEPS)
        times = time_in_turns(data, rae.PAPER, rounds, steps)
        sampled = any("Geometric, sampled" in row for row in times)
        for row, seconds in times.items():
            ours = f"ours, {row.rsplit(', ', 1)[1]}"
            ratio = {"times_ours": round(min(seconds) / min(times[ours]), 2)} if ours in times and ours != row else {}
            numbers = {**spread(seconds, "ms", 1), **ratio, **note(row, sampled), "versions": versions}
            record(options.results, "training-step", name, row, {"threads": options.threads}, **numbers)


if __name__ == "__main__":
    main()
