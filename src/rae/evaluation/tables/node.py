"""The paper's main table: a linear reader classifies the papers of three citation graphs by field."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.baselines import DeepWalk, find
from rae.baselines.registry import settings_of
from rae.datasets import Dataset
from rae.estimator import RAE
from rae.evaluation import data, floors, probes
from rae.evaluation.table_spec import Effort, Row, Score, Scores, Table, Work, published, work_per_row
from rae.evaluation.tables import others

DATASETS = ("cora", "citeseer", "pubmed")
RUNS = 20

TWO_HOP = Row("two-hop mean, no weights", "floor", {"method": "two-hop mean"})
TWO_HOP_SOFTMAX = Row("two-hop mean, softmax reader", "floor", {"method": "two-hop mean", "reader": "softmax"})
RAW = Row("raw X_a", "floor", {"method": "features"})
RAW_SOFTMAX = Row("X_a of length one, softmax reader", "floor", {"method": "features, L2", "reader": "softmax"})
_WALKS = settings_of(DeepWalk())
DEEPWALK = Row("DeepWalk", "other", {"method": "deepwalk", **_WALKS}, "its settings were compared on test nodes")
DEEPWALK_X = Row("DeepWalk + X_a", "other", {"method": "deepwalk + features", **_WALKS})
SOLUTION = Row("exact solution", "ours", {"model": "exact"}, "the default; the others are the paper's")
UNTRAINED = Row("untrained", "ours", {"preset": "paper", "steps": 0})
SHUFFLING = Row("J_within (only shuffling)", "ours", {"preset": "paper", "loss": "within", "shuffled": 1.0})
WITHIN = Row("J_within", "ours", {"preset": "paper", "loss": "within"})
NEIGHBOR = Row("J_neighbor", "ours", {"preset": "paper", "loss": "neighbor"})
CONCAT = Row("concat(J_within, J_neighbor)", "ours", {"preset": "paper", "loss": "both"})
BEYOND = Row(
    "J_neighbor, one projection, input dropout",
    "ablation",
    {"preset": "paper", "loss": "neighbor", "projections": 1, "input_dropout": 0.5},
    "not the paper's; found by a prototype that was judged on test nodes, so it flatters",
    NEIGHBOR.name,
)
ONE = Row(
    "J_neighbor, one projection",
    "ablation",
    {"preset": "paper", "loss": "neighbor", "projections": 1},
    "Algorithm 1's weights without those of Algorithm 2",
    NEIGHBOR.name,
)
DEGREE = Row(
    "J_within, node degree added to X_a",
    "ablation",
    {"preset": "paper", "loss": "within", "features": "X_a and degree"},
    "the paper: this reduces performance",
    WITHIN.name,
)
RELU = Row(
    "J_within, ReLU for tanh",
    "ablation",
    {"preset": "paper", "loss": "within", "activation": "relu"},
    "the paper: tanh is dramatically better",
    WITHIN.name,
)
ROWS_SHUFFLED = Row(
    "J_within (only shuffling), whole rows",
    "ablation",
    {"preset": "paper", "loss": "within", "shuffled": 1.0, "shuffle": "rows"},
    "the released code's shuffling against the paper's",
    SHUFFLING.name,
)

LIGHT = (
    "EP-B", "DGI", "GraphSAGE, unsupervised", "GraphSAGE, unsupervised, structure alone", "CCA-SSG",
    "GraphSAGE, supervised", "GCN", "GAT", "FastGCN",
)  # fmt: skip
HEAVY = (  # computed only when asked for: minutes to hours of a core
    "Planetoid, transductive", "Planetoid, inductive", "GRACE", "BGRL", "GraphMAE", "Bandana",
)  # fmt: skip
OTHERS = (*LIGHT, *HEAVY)
OTHERS_PUBLISHED = published(
    [others.title(name) for name in OTHERS],
    DATASETS,
    [
        [78.1, 71.0, 80.0],
        [82.3, 71.8, 76.8],
        [None, None, None],
        [None, None, None],
        [84.0, 73.1, 81.0],
        [82.0, 70.8, 79.0],
        [81.5, 70.3, 79.0],
        [83.0, 72.5, 79.0],
        [81.8, None, 77.6],
        [75.7, 62.9, 75.7],
        [61.2, 64.7, 77.2],
        [81.9, 71.2, 80.6],
        [82.7, 71.1, 79.6],
        [84.2, 73.4, 81.1],
        [84.6, 73.6, 83.5],
    ],
)
"""As the paper quotes them, where it does; Planetoid by variant as its own paper has it; the later ones as later papers
have them on this split, with settings tuned per data set."""


def _score(z: Any, papers: Any, reader: Any = None) -> Score:
    return Score(probes.node_accuracy(z, papers.labels, papers.split, reader))


def _fitted(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    papers = data.get(dataset)
    x = papers.features
    if row.settings.get("features"):
        x = sp.csr_array(sp.hstack([x, papers.graph.degrees[:, None].astype(np.float32)]))
    return _score(RAE(row.config(seed, effort), device=effort.device).fit_transform(papers.graph, features=x), papers)


def both(papers: Dataset, seed: int, effort: Effort) -> dict[str, Any]:
    """The vectors of the two losses, and both side by side, by row."""
    parts = [
        RAE(row.config(seed, effort), device=effort.device).fit_transform(papers.graph, features=papers.features)
        for row in (WITHIN, NEIGHBOR)
    ]
    return {WITHIN.name: parts[0], NEIGHBOR.name: parts[1], CONCAT.name: np.hstack(parts)}


def _both(dataset: str, seed: int, effort: Effort) -> Scores:
    papers = data.get(dataset)
    return {name: _score(z, papers) for name, z in both(papers, seed, effort).items()}


def _floors(dataset: str, seed: int, effort: Effort) -> Scores:
    papers = data.get(dataset)
    mean = floors.two_hop_mean(papers.graph, papers.features)
    return {
        TWO_HOP.name: _score(mean, papers),
        TWO_HOP_SOFTMAX.name: _score(mean, papers, probes.softmax()),
        RAW.name: _score(papers.features, papers),
        RAW_SOFTMAX.name: _score(floors.of_length_one(papers.features), papers, probes.softmax()),
    }


def _deepwalk(dataset: str, seed: int, effort: Effort) -> Scores:
    papers = data.get(dataset)
    z = others.configured(find("DeepWalk"), {}, seed, effort).fit_transform(papers.graph)
    with_features = sp.csr_array(sp.hstack([sp.csr_array(z), papers.features]))
    return {DEEPWALK.name: _score(z, papers), DEEPWALK_X.name: _score(with_features, papers)}


TABLE = Table(
    name="node",
    title="Node classification: three citation graphs",
    unit="accuracy, %",
    protocol=(
        "The split of Kipf and Welling (20 labelled nodes a class, 1,000 test nodes); L2-penalised logistic "
        "regression, one class against the rest, C = 1; the paper's settings (`rae.PAPER`), words as they are. Other "
        "methods by name have their papers' settings; vectors of theirs are read as in the next table, where they "
        "stand too; those with labels classify by themselves, and validation nodes may stop them. Where a paper chose "
        "a reader of its own that differs much, the number by that one stands beside ours, and is what the published "
        "one is compared with. Values quoted are the paper's; of the methods after it, other papers' on this split."
    ),
    works=(
        Work((TWO_HOP, TWO_HOP_SOFTMAX, RAW, RAW_SOFTMAX), _floors, DATASETS, 1),
        Work((DEEPWALK, DEEPWALK_X), _deepwalk, DATASETS, RUNS),
        *work_per_row(_fitted, (SOLUTION,), DATASETS, 5),
        *work_per_row(_fitted, (UNTRAINED, SHUFFLING), DATASETS, RUNS),
        Work((WITHIN, NEIGHBOR, CONCAT), _both, DATASETS, RUNS),
        *work_per_row(_fitted, (BEYOND,), DATASETS, RUNS),
        *work_per_row(_fitted, (ONE,), DATASETS, 10),
        *work_per_row(_fitted, (DEGREE, RELU, ROWS_SHUFFLED), DATASETS[:1], RUNS),
        *others.works(LIGHT, DATASETS, RUNS // 2, unasked=1),
        *others.works(HEAVY, DATASETS, RUNS // 2, unasked=0),
    ),
    settings={"reader": "one against the rest, C = 1"},
    published_as="own_reader",
    also={"own_reader": "by the reader of its own paper"},
    published=OTHERS_PUBLISHED
    | published(
        [r.name for r in (RAW, DEEPWALK, DEEPWALK_X, UNTRAINED, SHUFFLING, WITHIN, NEIGHBOR, CONCAT)],
        DATASETS,
        [
            [58.9, 60.4, 72.9],
            [67.2, 43.2, 65.3],
            [70.7, 51.4, 74.3],
            [(57.0, 2.7), (46.0, 3.4), (65.7, 2.3)],
            [(77.5, 1.1), (67.2, 1.0), (76.9, 1.8)],
            [(78.0, 0.9), (67.6, 1.1), (77.0, 1.8)],
            [(79.3, 1.2), (68.1, 1.3), (79.5, 0.7)],
            [(80.2, 0.9), (68.0, 1.2), (78.7, 0.9)],
        ],
    ),
)
