"""Inductive embedding: nodes that are absent from the fit and embedded afterwards."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rae.evaluation import data, floors, models, probes
from rae.evaluation.table_spec import Effort, Row, Score, Scores, Table, Work
from rae.runtime import generator

DATASETS = ("cora", "pubmed")
RUNS = 10
HIDDEN = 0.2

Rows = np.ndarray[Any, np.dtype[np.int64]]


def _rows(loss: str) -> tuple[Row, Row]:
    settings = {"preset": "paper", "loss": loss} if loss != "exact" else {"model": "exact"}
    name = f"J_{loss}" if loss != "exact" else "exact solution"
    return (
        Row(f"{name}, fitted on all nodes", "ours", {**settings, "hidden": 0.0}),
        Row(f"{name}, fitted without them", "ours", {**settings, "hidden": HIDDEN}),
    )


TWO_HOP = Row("two-hop mean, no weights", "floor", {"method": "two-hop mean", "hidden": HIDDEN}, "nothing is fitted")
RAW = Row("raw X_a", "floor", {"method": "features", "hidden": HIDDEN}, "nothing is fitted")


def _hidden(n: int, seed: int) -> Rows:
    """The fifth of the nodes that this seed hides."""
    return np.sort(generator(seed, "evaluation", "hidden").choice(n, round(HIDDEN * n), replace=False))


def _score(papers: Any, z: Any, hidden: Rows) -> Score:
    test = papers.split.test
    groups = {"hidden": np.intersect1d(test, hidden), "all": test}
    accuracy = probes.accuracy_on(z, papers.labels, papers.split.train, groups)
    return Score(accuracy["hidden"], {"all_test_nodes": round(accuracy["all"], 3)})


def _floors(dataset: str, seed: int, effort: Effort) -> Scores:
    papers = data.get(dataset)
    hidden = _hidden(papers.graph.n_nodes, seed)
    return {
        TWO_HOP.name: _score(papers, floors.two_hop_mean(papers.graph, papers.features), hidden),
        RAW.name: _score(papers, papers.features, hidden),
    }


def _hide(loss: str, dataset: str, seed: int, effort: Effort) -> Scores:
    papers = data.get(dataset)
    graph, x = papers.graph, papers.features
    on_all, without_hidden = _rows(loss)
    hidden = _hidden(graph.n_nodes, seed)
    visible = np.setdiff1d(np.arange(graph.n_nodes), hidden)
    subgraph = graph.subgraph(graph.id_column.take(visible))
    fits = {
        on_all.name: models.fitted(on_all, seed, effort, graph, x),
        without_hidden.name: models.fitted(without_hidden, seed, effort, subgraph, x[visible]),
    }
    return {name: _score(papers, model.transform(graph, x, whole=True), hidden) for name, model in fits.items()}


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
        Work(_rows("exact"), partial(_hide, "exact"), DATASETS, RUNS),
        *(Work(_rows(loss), partial(_hide, loss), DATASETS, RUNS, {}, 5) for loss in ("within", "neighbor")),
    ),
    also={"all_test_nodes": "all test nodes"},
)
