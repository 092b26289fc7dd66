"""The points where paper and released code differ, each measured on Cora, kept as JSON lines.

RAE_DATA=... python benchmarks/variants.py [--runs 5] [--out results/variants.jsonl]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

import rae
from rae.evaluation.ledger import machine
from rae.evaluation.probes import node_accuracy

VARIANTS = {
    "paper, within": {},
    "within, only shuffling": {"shuffled": 1.0},
    "within, rows shuffled (released code)": {"shuffle": "rows"},
    "within, project first (released code)": {"order": "project_first"},
    "within, negatives weigh 20 (formula read literally)": {"negative_weight": 20.0},
    "within, sampled inference (released code)": {"inference": "sampled"},
    "within, relu": {"activation": "relu"},
    "within, structure added": {"add_structure": True},
    "paper, neighbor": {"loss": "neighbor"},
    "neighbor, negatives may be adjacent (released code)": {"loss": "neighbor", "exclude_neighbors": False},
    "neighbor, one projection and input dropout 0.5": {"loss": "neighbor", "projections": 1, "input_dropout": 0.5},
    "untrained": {"steps": 0},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/variants.jsonl"))
    parser.add_argument("--quick", action="store_true", help="three of them on a small generated graph, two steps")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rae.set_threads(options.threads)
    kept = [json.loads(text) for text in options.out.read_text().splitlines()] if options.out.exists() else []
    quick = {"n_nodes": 300, "n_words": 200} if options.quick else {}
    data = rae.datasets.load("planted-actions" if quick else "cora", **quick)
    config = rae.PAPER.replace(steps=2) if quick else rae.PAPER
    for name, settings in list(VARIANTS.items())[: 3 if quick else None]:
        for seed in range(2 if quick else options.runs):
            if any((x["row"], x["seed"]) == (name, seed) for x in kept):
                continue
            z = rae.RAE(config, seed=seed, **settings).fit_transform(data.graph, data.features)
            found = {"table": "variants", "row": name, "dataset": data.name, "seed": seed}
            new = {**found, "score": node_accuracy(z, data.labels, data.split), "settings": settings, **machine()}
            kept.append(new)
            with options.out.open("a") as file:
                file.write(json.dumps(new) + "\n")
        scores = [x["score"] for x in kept if x["row"] == name]
        print(f"{name:52} {np.mean(scores):5.2f} ± {np.std(scores, ddof=1):4.2f}  n={len(scores)}", flush=True)


if __name__ == "__main__":
    main()
