"""Nodes that the fit never saw: hidden with their edges, embedded afterwards."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rae.datasets import Dataset
from rae.estimator import RAE
from rae.evaluation import data, floors, probes
from rae.evaluation.table_spec import Effort, Row, Score, Scores, Table, Work
from rae.graph import Graph
from rae.runtime import generator

DATASETS = ("cora", "pubmed")
RUNS = 10
HIDDEN = 0.2

Rows = np.ndarray[Any, np.dtype[np.int64]]
_LOSSES = {"within": "J_within", "neighbor": "J_neighbor"}


def _rows(loss: str) -> tuple[Row, Row]:
    settings = {"preset": "paper", "loss": loss}
    return (
        Row(f"{_LOSSES[loss]}, fitted on all nodes", "ours", {**settings, "hidden": 0.0}),
        Row(f"{_LOSSES[loss]}, fitted without them", "ours", {**settings, "hidden": HIDDEN}),
    )


def without(graph: Graph, hidden: Rows) -> tuple[Graph, Rows]:
    """The graph without these rows and their edges, and the rows that stay."""
    kept = np.setdiff1d(np.arange(graph.n_nodes), hidden)
    return graph.subgraph(graph.id_column.take(kept)), kept


TWO_HOP = Row("two-hop mean, no weights", "floor", {"method": "two-hop mean", "hidden": HIDDEN}, "nothing is fitted")
RAW = Row("raw X_a", "floor", {"method": "features", "hidden": HIDDEN}, "nothing is fitted")


def _hidden(n: int, seed: int) -> Rows:
    """The fifth of the nodes that this seed hides."""
    return np.sort(generator(seed, "evaluation", "hidden").choice(n, round(HIDDEN * n), replace=False))


def _judged(papers: Dataset, z: Any, hidden: Rows) -> Score:
    assert papers.labels is not None
    assert papers.split is not None
    test = papers.split.test
    groups = {"hidden": np.intersect1d(test, hidden), "all": test}
    found = probes.accuracy_on(z, papers.labels, papers.split.train, groups)
    return Score(found["hidden"], {"all_test_nodes": round(found["all"], 3)})


def _floors(dataset: str, seed: int, effort: Effort) -> Scores:
    papers = data.get(dataset)
    hidden = _hidden(papers.graph.n_nodes, seed)
    return {
        TWO_HOP.name: _judged(papers, floors.two_hop_mean(papers.graph, papers.features), hidden),
        RAW.name: _judged(papers, papers.features, hidden),
    }


def _hide(loss: str, dataset: str, seed: int, effort: Effort) -> Scores:
    papers = data.get(dataset)
    seen, unseen = _rows(loss)
    hidden = _hidden(papers.graph.n_nodes, seed)
    graph, kept = without(papers.graph, hidden)
    models = {
        seen.name: RAE(seen.config(seed, effort)).fit(papers.graph, papers.features),
        unseen.name: RAE(unseen.config(seed, effort)).fit(graph, papers.features[kept]),
    }
    return {
        name: _judged(papers, model.transform(papers.graph, papers.features), hidden) for name, model in models.items()
    }


TABLE = Table(
    name="inductive",
    title="Unseen nodes: what hiding them from the fit costs",
    unit="accuracy on the hidden test nodes, %",
    protocol=(
        "A fifth of all nodes is hidden with their edges during the fit, then all nodes are embedded in the whole "
        "graph; the reader learns from the training nodes and is judged on those test nodes that were hidden. Beside "
        "it the same nodes under a model that saw everything: the difference is what not being seen costs."
    ),
    settings={"reader": "one against the rest, C = 1"},
    works=(
        Work((TWO_HOP, RAW), _floors, DATASETS, RUNS),
        *(Work(_rows(loss), partial(_hide, loss), DATASETS, RUNS) for loss in _LOSSES),
    ),
    also={"all_test_nodes": "all test nodes"},
)
