"""The paper's silhouette table: house and barbell, the same model with either loss."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rae.config import Config
from rae.engine import embed, encoder_models
from rae.estimator import RAE
from rae.evaluation import data, models, probes
from rae.evaluation.table_spec import Effort, Row, Score, Scores, Table, Work, published, work_per_row
from rae.features import Features, structural_features
from rae.graph import Graph

DATASETS = ("house", "barbell")
RUNS = 50
PASSES = 5

FEATURES = Row("features alone", "floor", {"preset": "toy"}, "sorted neighbour degrees, no model")
_SAMPLED = {"preset": "toy", "inference": "sampled", "passes": PASSES}
_EXACT = {"preset": "toy", "inference": "exact"}
SOLUTION = Row("RAE, exact solution", "ours", {"model": "exact"}, "the default; the others are the paper's")
UNTRAINED = (
    Row("RAE, untrained", "ours", {**_SAMPLED, "steps": 0}),
    Row("RAE, untrained, exact", "ours", {**_EXACT, "steps": 0}),
)
WITHIN = (
    Row("RAE, J_within", "ours", {**_SAMPLED, "loss": "within"}),
    Row("RAE, J_within, exact", "ours", {**_EXACT, "loss": "within"}),
)
NEIGHBOR = (
    Row("RAE, J_neighbor", "ours", {**_SAMPLED, "loss": "neighbor"}),
    Row("RAE, J_neighbor, exact", "ours", {**_EXACT, "loss": "neighbor"}),
)


def sampled_mean(model: RAE, graph: Graph) -> np.ndarray[Any, Any]:
    """The mean of several sampled passes of one model, as in the released code."""
    config = model.config
    assert isinstance(config, Config)
    x = _features(graph, config)
    passes = [config.replace(inference="sampled", seed=1000 * config.seed + i) for i in range(PASSES)]
    vectors = [embed(encoder_models(model.encoders, Features.of(graph, x, sampled))) for sampled in passes]
    return np.asarray(np.mean(vectors, axis=0, dtype=np.float64))


def _features(graph: Graph, config: Config) -> np.ndarray[Any, Any]:
    return structural_features(
        graph, cap=config.degree_cap, above_cap=config.degree_above_cap, scale=config.degree_scale, seed=config.seed
    )


def _fitted(rows: tuple[Row, Row], dataset: str, seed: int, effort: Effort) -> Scores:
    toy = data.get(dataset)
    sampled, exact = rows
    model = RAE(exact.config(seed, effort)).fit(toy.graph)
    return {
        sampled.name: _score(sampled_mean(model, toy.graph), toy.labels),
        exact.name: _score(model.transform(toy.graph), toy.labels),
    }


def _solved(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    toy = data.get(dataset)
    model = models.fitted(row, seed, effort, toy.graph)
    return _score(models.for_distances(row, model, model.transform(toy.graph)), toy.labels)


def _score(z: Any, labels: Any) -> Score:
    return Score(probes.silhouette(probes.flat(z), labels))


def _floor(dataset: str, seed: int, effort: Effort) -> Scores:
    toy = data.get(dataset)
    return {FEATURES.name: _score(_features(toy.graph, FEATURES.config(seed, effort)), toy.labels)}


TABLE = Table(
    name="toy",
    title="Exemplar graphs: silhouette of the true roles",
    unit="silhouette × 100",
    protocol=(
        "Sorted neighbour degrees, levels 8 and 2 wide, fan-out 2 and 4, 100 steps; the mean of 5 sampled passes "
        "(rows called exact: one pass over all neighbours, as rae does by default), standardised, two principal "
        "components, silhouette against the automorphism classes. All but exactness are the released code's choices; "
        "the paper says only that silhouettes were taken."
    ),
    settings={"reader": "2 directions, silhouette"},
    works=(
        Work((FEATURES,), _floor, DATASETS, 1),
        *work_per_row(_solved, (SOLUTION,), DATASETS, 5),
        *(Work(rows, partial(_fitted, rows), DATASETS, RUNS) for rows in (UNTRAINED, WITHIN, NEIGHBOR)),
    ),
    published=published(
        [WITHIN[0].name, NEIGHBOR[0].name], DATASETS, [[(91.2, 2.9), (69.6, 8.1)], [(89.6, 4.2), (69.5, 6.8)]]
    ),
)
