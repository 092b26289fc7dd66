"""The points where the paper and its released code differ, each measured on Cora.

    RAE_DATA=... python benchmarks/variants.py [--runs 5] [--threads 2] [--quick]

A line that is in the ledger is not computed again.
"""

from __future__ import annotations

import torch
from recording import parser

import rae
from rae.evaluation.ledger import Line
from rae.evaluation.probes import node_accuracy
from rae.evaluation.report import mean_sd
from rae.evaluation.statistics import summary

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
    arguments = parser(__doc__, "three of them on a small generated graph, two steps", threads=2)
    arguments.add_argument("--runs", type=int, default=5)
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    rae.set_threads(options.threads)
    quick = {"n_nodes": 300, "n_words": 200} if options.quick else {}
    data = rae.datasets.load("planted-actions" if quick else "cora", **quick)
    config = rae.PAPER.replace(steps=2) if quick else rae.PAPER

    def compute(key: Line) -> Line:
        z = rae.RAE(config, seed=key["seed"], **key["settings"]).fit_transform(data.graph, features=data.features)
        return {"score": node_accuracy(z, data.labels, data.split)}

    for row, settings in list(VARIANTS.items())[: 3 if quick else None]:
        key = {"table": "variants", "row": row, "dataset": data.name, "settings": settings}
        keys = [{**key, "seed": seed} for seed in range(2 if quick else options.runs)]
        scores = [line["score"] for line in options.results.resume(keys, compute)]
        print(f"{row:52} {mean_sd(summary(scores), 2)}  n={len(scores)}", flush=True)


if __name__ == "__main__":
    main()
