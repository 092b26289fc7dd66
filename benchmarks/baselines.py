"""The methods of rae.baselines against their own papers, with their seconds.

    RAE_DATA=... OMP_NUM_THREADS=1 python benchmarks/baselines.py [--seeds 5] [--quick]

Citation graphs: accuracy in percent of a one-vs-rest logistic regression (C = 1) on the Kipf & Welling split.
House: homogeneity and completeness of k-means with the true k on five principal components. A line that is in the
ledger is not computed again.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

from recording import parser
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import completeness_score, homogeneity_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import rae
from rae import baselines
from rae.evaluation.ledger import Line
from rae.evaluation.report import mean_sd
from rae.evaluation.statistics import summary

WALKING = ("DeepWalk", "Node2Vec")
METHODS = (*WALKING, "GraphWave", "ReFeX", "Degree")
CITATIONS = ("cora", "citeseer", "pubmed")
HOUSES = {f"house, {noise:.0%} noise": noise for noise in (0.0, 0.1)}


def method(name: str, seed: int, **settings: Any) -> Any:
    """A method by its name; only walks have a seed and settings."""
    return getattr(baselines, name)(**({"seed": seed, **settings} if name in WALKING else {}))


def citation_scores(key: Line) -> Line:
    """Accuracy and seconds of a method on a citation graph."""
    data, name = rae.datasets.load(key["dataset"]), key["row"]
    began, cpu = time.perf_counter(), time.process_time()
    z = method(name, key["seed"]).fit_transform(data.graph)
    costs = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    z = z if name in WALKING else StandardScaler().fit_transform(z)
    reader = OneVsRestClassifier(LogisticRegression(C=1, max_iter=5000))
    reader.fit(z[data.split.train], data.labels[data.split.train])
    return {"score": 100 * reader.score(z[data.split.test], data.labels[data.split.test]), **costs}


def house_scores(key: Line) -> Line:
    """Homogeneity and completeness of a method on a house graph."""
    data = rae.datasets.load("house", noise=HOUSES[key["dataset"]], seed=key["seed"])
    z = StandardScaler().fit_transform(method(key["row"], key["seed"], dims=16).fit_transform(data.graph))
    x = PCA(min(5, z.shape[1]), random_state=0).fit_transform(z)
    clusters = KMeans(data.n_classes, n_init=20, random_state=0).fit_predict(x)
    scores = homogeneity_score(data.labels, clusters), completeness_score(data.labels, clusters)
    return {"score": scores[0], "completeness": scores[1]}


def scores_of(key: Line) -> Line:
    """The scores of one line."""
    return house_scores(key) if key["dataset"] in HOUSES else citation_scores(key)


def keys(seeds: int, quick: bool) -> Iterator[Line]:
    """Every line of the table; --quick is one house graph alone, which needs no data."""
    for dataset in list(HOUSES)[:1] if quick else (*HOUSES, *CITATIONS):
        for name in METHODS:
            runs = (10 if HOUSES[dataset] else 1) if dataset in HOUSES else seeds if name in WALKING else 1
            for seed in range(runs):
                yield {"table": "baselines", "row": name, "dataset": dataset, "seed": seed, "settings": {}}


def main() -> None:
    arguments = parser(__doc__, "one house graph alone, which needs no data")
    arguments.add_argument("--seeds", type=int, default=5)
    options = arguments.parse_args()
    warnings.filterwarnings("ignore", "Number of distinct clusters")  # degree alone has fewer than the true k
    rae.set_threads(1)
    scores_by_row: dict[tuple[str, str], list[float]] = {}
    for line in options.results.resume(keys(options.seeds, options.quick), scores_of):
        scores_by_row.setdefault((line["dataset"], line["row"]), []).append(line["score"])
    for (dataset, name), scores in scores_by_row.items():
        print(f"{dataset:16} {name:10} {mean_sd(summary(scores), 2)}  n={len(scores)}", flush=True)


if __name__ == "__main__":
    main()
