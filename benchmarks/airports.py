"""Raw against log degrees on the air-traffic graphs, beside log-degree alone; kept as JSON lines.

    RAE_DATA=... python benchmarks/airports.py [--seeds 3] [--out results/airports.jsonl]

Structural features, 20 stratified 80/20 splits, a standardised logistic regression; accuracy in percent.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rae

ROWS = {
    f"{loss}, {scale} degrees": {"loss": loss, "degree_scale": scale}
    for loss in ("within", "neighbor")
    for scale in ("raw", "log")
} | {f"untrained, {scale} degrees": {"steps": 0, "degree_scale": scale} for scale in ("raw", "log")}


def accuracy(z: np.ndarray, labels: np.ndarray) -> float:
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    splits = StratifiedShuffleSplit(20, test_size=0.2, random_state=0)
    return round(100 * float(cross_val_score(probe, z, labels, cv=splits).mean()), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/airports.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rae.set_threads(1)
    lines = []
    for name in ("brazil", "europe", "usa"):
        data = rae.datasets.load(name)
        floor = np.log1p(data.graph.degrees)[:, None]
        lines.append({"table": "airports", "row": "log-degree alone", "dataset": name, "seed": 0})
        lines[-1]["score"] = accuracy(floor, data.labels)
        for row, settings in ROWS.items():
            for seed in range(options.seeds):
                z = rae.RAE(seed=seed, **settings).fit_transform(data.graph)
                found = {"table": "airports", "row": row, "dataset": name, "seed": seed}
                lines.append({**found, "score": accuracy(z, data.labels), "settings": settings})
        for row in ("log-degree alone", *ROWS):
            scores = [x["score"] for x in lines if (x["dataset"], x["row"]) == (name, row)]
            print(f"{name:7} {row:22} {np.mean(scores):5.1f}  n={len(scores)}", flush=True)
    options.out.write_text("".join(json.dumps(x) + "\n" for x in lines))


if __name__ == "__main__":
    main()
