"""The paper's main setting on a citation graph, seed by seed, kept as JSON lines.

    RAE_DATA=... python benchmarks/cora.py [--dataset cora] [--runs 20] [--out results/node.jsonl]

Each line is one fit: J_within, J_neighbor, or both joined; accuracy of an L2-penalised one-vs-rest
logistic regression (C = 1) on the Kipf & Welling split, seconds per step, seconds to embed. A line
that exists is not made again. The summary at the end is computed from the lines alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

import rae

PUBLISHED = {
    ("cora", "within"): (78.0, 0.9),
    ("cora", "neighbor"): (79.3, 1.2),
    ("cora", "both"): (80.2, 0.9),
    ("citeseer", "within"): (67.6, 1.1),
    ("citeseer", "neighbor"): (68.1, 1.3),
    ("citeseer", "both"): (68.0, 1.2),
    ("pubmed", "within"): (77.0, 1.8),
    ("pubmed", "neighbor"): (79.5, 0.7),
    ("pubmed", "both"): (78.7, 0.9),
}


def accuracy(z: np.ndarray, data: rae.datasets.Dataset) -> float:
    """Share of test nodes that a linear probe, fitted on the training nodes, gets right."""
    probe = OneVsRestClassifier(LogisticRegression(C=1.0, max_iter=1000))
    train, test = data.split.train, data.split.test
    return float(probe.fit(z[train], data.labels[train]).score(z[test], data.labels[test]))


def one_run(data: rae.datasets.Dataset, seed: int) -> list[dict]:
    """The three rows of one seed; "both" joins the two fits, as the paper does."""
    lines, parts = [], []
    for loss in ("within", "neighbor"):
        model = rae.RAE(rae.PAPER, loss=loss, seed=seed)
        start = time.perf_counter()
        model.fit(data.graph, data.features)
        fitted = time.perf_counter()
        parts.append(model.transform(data.graph, data.features))
        took = {"fit_seconds": fitted - start, "embed_seconds": time.perf_counter() - fitted}
        lines.append(line(data, loss, seed, accuracy(parts[-1], data), took))
    return [*lines, line(data, "both", seed, accuracy(np.hstack(parts), data), {})]


def line(data: rae.datasets.Dataset, loss: str, seed: int, score: float, took: dict) -> dict:
    return {
        "table": "node",
        "row": loss,
        "dataset": data.name,
        "seed": seed,
        "score": round(100 * score, 2),
        "settings": {"preset": "paper", "loss": loss},
        **{name: round(value, 3) for name, value in took.items()},
        "machine": f"{platform.machine()}, {torch.get_num_threads()} torch threads",
        "versions": {name: version(name) for name in ("rae", "torch", "numpy", "scikit-learn")},
    }


def summary(lines: list[dict]) -> str:
    rows = []
    for dataset, loss in sorted({(x["dataset"], x["row"]) for x in lines}, key=list(PUBLISHED).index):
        mine = [x for x in lines if (x["dataset"], x["row"]) == (dataset, loss)]
        scores = [x["score"] for x in mine]
        mean, sd = np.mean(scores), np.std(scores, ddof=1) if len(scores) > 1 else float("nan")
        published = "{:.1f} ± {:.1f}".format(*PUBLISHED[dataset, loss])
        steps = [x["fit_seconds"] / rae.PAPER.steps * 1e3 for x in mine if "fit_seconds" in x]
        speed = f"{min(steps):5.1f} best, {np.median(steps):5.1f} median" if steps else ""
        rows.append(f"{dataset:9} {loss:9} {mean:5.2f} ± {sd:4.2f}  n={len(scores):2}  {published:12}  {speed}")
    return "\n".join(["data set  row       ours           runs  paper         ms a step", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="cora", choices=["cora", "citeseer", "pubmed"])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("results/node.jsonl"))
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rae.set_threads(options.threads)
    kept = [json.loads(text) for text in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {(x["dataset"], x["seed"]) for x in kept if x["row"] == "both"}
    data = rae.datasets.load(options.dataset)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(options.runs):
        if (data.name, seed) in done:
            continue
        new = one_run(data, seed)
        with options.out.open("a") as file:
            file.writelines(json.dumps(x) + "\n" for x in new)
        kept += new
        print(f"seed {seed}: " + ", ".join(f"{x['row']} {x['score']:.1f}" for x in new), flush=True)
    print(summary([x for x in kept if x["table"] == "node"]))


if __name__ == "__main__":
    main()
