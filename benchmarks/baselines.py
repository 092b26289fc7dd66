"""The methods of rae.baselines against their own papers, with their seconds; kept as JSON lines.

    RAE_DATA=... OMP_NUM_THREADS=1 python benchmarks/baselines.py [--seeds 5] [--out results/baselines.jsonl]

Citation graphs: accuracy in percent of a one-vs-rest logistic regression (C = 1) on the Kipf & Welling
split. House: homogeneity and completeness of k-means with the true k on five principal components.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import completeness_score, homogeneity_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import rae
from rae import baselines

METHODS = ("DeepWalk", "Node2Vec", "GraphWave", "ReFeX", "Degree")


def made(name: str, seed: int, **settings: Any) -> Any:
    method = getattr(baselines, name)
    return method(seed=seed, **settings) if name in ("DeepWalk", "Node2Vec") else method()


def citations(name: str, seeds: int) -> list[dict[str, Any]]:
    data, lines = rae.datasets.load(name), []
    train, test, labels = data.split.train, data.split.test, data.labels
    for method in METHODS:
        for seed in range(seeds if method in ("DeepWalk", "Node2Vec") else 1):
            start, cpu = time.perf_counter(), time.process_time()
            z = made(method, seed).fit_transform(data.graph)
            spent = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
            z = z if method in ("DeepWalk", "Node2Vec") else StandardScaler().fit_transform(z)
            probe = OneVsRestClassifier(LogisticRegression(C=1, max_iter=5000)).fit(z[train], labels[train])
            score = 100 * probe.score(z[test], labels[test])
            lines.append({"table": "baselines", "row": method, "dataset": name, "seed": seed, "score": score, **spent})
    return lines


def house(noise: float, seeds: int) -> list[dict[str, Any]]:
    lines = []
    for seed in range(seeds if noise else 1):
        data = rae.datasets.load("house", noise=noise, seed=seed)
        for method in METHODS:
            z = StandardScaler().fit_transform(made(method, seed, **{"dims": 16}).fit_transform(data.graph))
            flat = PCA(min(5, z.shape[1]), random_state=0).fit_transform(z)
            found = KMeans(data.n_classes, n_init=20, random_state=0).fit_predict(flat)
            scores = [homogeneity_score(data.labels, found), completeness_score(data.labels, found)]
            row = {"table": "baselines", "row": method, "dataset": f"house, {noise:.0%} noise", "seed": seed}
            lines.append({**row, "score": scores[0], "completeness": scores[1]})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one house graph alone, which needs no data")
    parser.add_argument("--out", type=Path, default=Path("results/baselines.jsonl"))
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "Number of distinct clusters")  # degree alone has fewer than the true k
    rae.set_threads(1)
    for name in METHODS:
        made(name, 0).fit_transform(rae.datasets.load("barbell").graph)  # compile first
    lines = []
    for noise in (0.0,) if options.quick else (0.0, 0.1):
        lines += house(noise, 10)
    for name in () if options.quick else ("cora", "citeseer", "pubmed"):
        lines += citations(name, options.seeds)
    for dataset in dict.fromkeys(x["dataset"] for x in lines):
        for method in METHODS:
            mine = [x for x in lines if (x["dataset"], x["row"]) == (dataset, method)]
            means = {k: np.mean([x[k] for x in mine]) for k in mine[0] if k not in ("table", "row", "dataset", "seed")}
            shown = "  ".join(f"{k} {v:6.2f}" for k, v in means.items())
            spread = np.std([x["score"] for x in mine])
            print(f"{dataset:16} {method:10} {shown}  std {spread:.2f}  n={len(mine)}", flush=True)
    options.out.write_text("".join(json.dumps(x) + "\n" for x in lines))


if __name__ == "__main__":
    main()
