"""What the figures show, kept as lines like everything else: points of a plane, and training curves."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rae.errors import MissingExtraError
from rae.estimator import RAE
from rae.evaluation import data, probes
from rae.evaluation.table_spec import Effort, Row, Score, Scores, Table, Work
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


def _points(row: Row, xy: Any, labels: Any, **more: float) -> Scores:
    """A picture of points, with the silhouette of the labels in it as its score."""
    kept = {"points": np.round(np.asarray(xy, np.float64), 3).tolist(), "labels": labels.tolist(), **more}
    return {row.name: Score(probes.silhouette(xy, labels), kept)}


def _drawn(dataset: str, seed: int, effort: Effort) -> Scores:
    known = data.get(dataset)
    return _points(GRAPH, layout(known.graph), known.labels)


def layout(graph: Graph) -> np.ndarray[Any, Any]:
    """Where to draw the nodes of a small graph, so that distances on paper follow distances in the graph.  -> (n, 2)"""
    try:
        import networkx as nx
    except ImportError:
        raise MissingExtraError("networkx", "bench", "drawing a graph") from None
    drawn = nx.Graph()
    drawn.add_nodes_from(range(graph.n_nodes))
    drawn.add_edges_from(graph.edges().tolist())
    places = nx.kamada_kawai_layout(drawn)
    return np.array([places[row] for row in range(graph.n_nodes)])


def _rae_map(dataset: str, seed: int, effort: Effort) -> Scores:
    known = data.get(dataset)
    model = RAE(RAE_MAP.config(seed, effort)).fit(known.graph)
    return _points(RAE_MAP, probes.flat(toy.sampled_mean(model, known.graph)), known.labels)


def _map(row: Row, dataset: str, seed: int, effort: Effort) -> Scores:
    known = data.get(dataset)
    return _points(row, probes.flat(vectors(row, known.graph, seed, effort)), known.labels)


def _tsne(dataset: str, seed: int, effort: Effort) -> Scores:
    from sklearn import manifold

    papers = data.get(dataset)
    z = RAE(TSNE.config(seed, effort)).fit_transform(papers.graph, papers.features)
    rows = papers.split.test if dataset == "pubmed" else np.flatnonzero(papers.labels >= 0)
    rows = rows if effort.steps is None else rows[::10]
    perplexity = min(30.0, (len(rows) - 1) / 3)
    xy = manifold.TSNE(init="pca", perplexity=perplexity, random_state=seed, n_jobs=1).fit_transform(z[rows])
    labels = papers.labels[rows]
    found = _points(TSNE, xy, labels)[TSNE.name]
    # The score is the embedding's own silhouette; that of the picture stands beside it.
    also = {**found.also, "silhouette_of_picture": round(found.score, 3)}
    return {TSNE.name: Score(probes.silhouette(z[rows], labels), also)}


def _curve(loss: str, dataset: str, seed: int, effort: Effort) -> Scores:
    papers = data.get(dataset)
    row = CURVES[loss]
    history = RAE(row.config(seed, effort)).fit(papers.graph, papers.features).history
    curve = {name: [round(float(entry[name]), 5) for entry in history] for name in ("step", "value", "rank")}
    return {row.name: Score(curve["value"][-1], curve)}


TABLE = Table(
    name="figures",
    title="What the figures show",
    unit="silhouette × 100, or the last loss",
    protocol="The score of a picture is the silhouette of the true labels; of a curve, the last value of the loss.",
    works=(
        Work((GRAPH,), _drawn, SMALL, 1),
        Work((RAE_MAP,), _rae_map, SMALL, 1),
        Work((GRAPHWAVE,), partial(_map, GRAPHWAVE), SMALL, 1),
        Work((NODE2VEC,), partial(_map, NODE2VEC), SMALL, 1),
        Work((TSNE,), _tsne, CITATIONS, 1),
        *(Work((row,), partial(_curve, loss), CITATIONS[:1], 5) for loss, row in CURVES.items()),
    ),
    floors=False,
)
