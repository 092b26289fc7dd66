"""The data of the figures as ledger lines: points of a plane, and training curves."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.errors import needed_library
from rae.estimator import RAE
from rae.evaluation import data, probes
from rae.evaluation.table_spec import Effort, Row, Score, Table, work_per_row
from rae.evaluation.tables import toy
from rae.evaluation.tables.methods import GRAPHWAVE as WAVE
from rae.evaluation.tables.methods import NODE2VEC as WALK
from rae.evaluation.tables.methods import vectors
from rae.graph import Graph

SMALL = ("house", "barbell")
CITATIONS = ("cora", "citeseer", "pubmed")

GRAPH = Row("graph", "other", {"layout": "kamada-kawai"}, "where the nodes are drawn")
RAE_MAP = Row("RAE, J_within", "ours", {"preset": "toy", "loss": "within"})
GRAPHWAVE = Row("GraphWave", "other", WAVE.settings)
NODE2VEC = Row("node2vec", "other", WALK.settings)
TSNE = Row("t-SNE of J_within", "ours", {"preset": "paper", "loss": "within"})
CURVES = {
    loss: Row(f"training curve, J_{loss}", "ours", {"preset": "paper", "loss": loss, "record_every": 5})
    for loss in ("within", "neighbor")
}


def _points(xy: Any, labels: Any) -> Score:
    """The silhouette of the labels in a picture, with its points."""
    points = np.round(np.asarray(xy, np.float64), 3).tolist()
    return Score(probes.silhouette(xy, labels), {"points": points, "labels": labels.tolist()})


def _drawn(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    exemplar = data.get(dataset)
    return _points(layout(exemplar.graph), exemplar.labels)


def layout(graph: Graph) -> np.ndarray[Any, Any]:
    """Where to draw the nodes of a small graph, so that distances on paper follow distances in the graph.  -> (n, 2)"""
    nx = needed_library("networkx", "bench", "drawing a graph")
    copy = nx.Graph()
    copy.add_nodes_from(range(graph.n_nodes))
    copy.add_edges_from(graph.edges().tolist())
    positions = nx.kamada_kawai_layout(copy)
    return np.array([positions[row] for row in range(graph.n_nodes)])


def _map(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    exemplar = data.get(dataset)
    if row is RAE_MAP:
        z = toy.sampled_mean(RAE(row.config(seed, effort)).fit(exemplar.graph), exemplar.graph)
    else:
        z = vectors(row, exemplar.graph, seed, effort)
    return _points(probes.flat(z), exemplar.labels)


def _tsne(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    from sklearn import manifold

    papers = data.get(dataset)
    z = RAE(row.config(seed, effort)).fit_transform(papers.graph, features=papers.features)
    rows = papers.split.test if dataset == "pubmed" else np.flatnonzero(papers.labels >= 0)
    rows = rows if effort.steps is None else rows[::10]
    perplexity = min(30.0, (len(rows) - 1) / 3)
    xy = manifold.TSNE(init="pca", perplexity=perplexity, random_state=seed, n_jobs=1).fit_transform(z[rows])
    labels = papers.labels[rows]
    picture = _points(xy, labels)
    also = {**picture.also, "silhouette_of_picture": round(picture.score, 3)}
    return Score(probes.silhouette(z[rows], labels), also)


def _curve(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    papers = data.get(dataset)
    history = RAE(row.config(seed, effort)).fit(papers.graph, features=papers.features).history
    curve = {name: [round(float(entry[name]), 5) for entry in history] for name in ("step", "value", "rank")}
    return Score(curve["value"][-1], curve)


TABLE = Table(
    name="figures",
    title="What the figures show",
    unit="silhouette × 100, or the last loss",
    protocol="The score of a picture is the silhouette of the true labels; of a curve, the last value of the loss.",
    works=(
        *work_per_row(_drawn, (GRAPH,), SMALL, 1),
        *work_per_row(_map, (RAE_MAP, GRAPHWAVE, NODE2VEC), SMALL, 1),
        *work_per_row(_tsne, (TSNE,), CITATIONS, 1),
        *work_per_row(_curve, CURVES.values(), CITATIONS[:1], 5),
    ),
    floors=False,
)
