"""Air-traffic graphs: how active an airport is, told from its place in the network; at home and abroad."""

from __future__ import annotations

from functools import partial
from typing import Any

from rae.estimator import RAE
from rae.evaluation import data, floors, probes
from rae.evaluation.table_spec import Effort, Row, Score, Scores, Table, Work
from rae.features import structural_features
from rae.graph import Graph

DATASETS = ("brazil", "europe", "usa")
PAIRS = tuple(f"{a} to {b}" for a in DATASETS for b in DATASETS if a != b)
RUNS = 20

LOG_DEGREE = Row("log-degree", "floor", {"method": "log-degree"})
TWO_HOP = Row("two-hop degree statistics", "floor", {"method": "two-hop degree statistics"})
FEATURES = Row("structural features alone", "floor", {"method": "structural features"}, "what RAE is given")
UNTRAINED = Row("RAE, untrained", "ours", {"steps": 0})
WITHIN = Row("RAE, J_within", "ours", {"loss": "within"})
NEIGHBOR = Row("RAE, J_neighbor", "ours", {"loss": "neighbor"})

_FREE: dict[str, Any] = {
    LOG_DEGREE.name: floors.log_degree,
    TWO_HOP.name: floors.two_hop_degrees,
    FEATURES.name: structural_features,
}


def _floors(dataset: str, seed: int, effort: Effort) -> Scores:
    airports = data.get(dataset)
    return {
        name: Score(probes.split_accuracy(make(airports.graph), airports.labels, seed)) for name, make in _FREE.items()
    }


def _fitted(row: Row, dataset: str, seed: int, effort: Effort) -> Scores:
    airports = data.get(dataset)
    z = RAE(row.config(seed, effort)).fit_transform(airports.graph)
    return {row.name: Score(probes.split_accuracy(z, airports.labels, seed))}


def _abroad(embed: Any, dataset: str) -> float:
    home, away = (data.get(name) for name in dataset.split(" to "))
    return probes.transfer_accuracy(embed(home.graph), home.labels, embed(away.graph), away.labels)


def _floors_abroad(dataset: str, seed: int, effort: Effort) -> Scores:
    return {name: Score(_abroad(make, dataset)) for name, make in _FREE.items()}


def _fitted_abroad(row: Row, dataset: str, seed: int, effort: Effort) -> Scores:
    home: Graph = data.get(dataset.split(" to ")[0]).graph
    model = RAE(row.config(seed, effort)).fit(home)
    return {row.name: Score(_abroad(model.transform, dataset))}


TABLE = Table(
    name="airports",
    title="Air-traffic graphs: the activity of an airport",
    unit="accuracy, %",
    protocol=(
        "Structure alone, default settings; seed s fits with seed s and is judged on the s-th stratified 80/20 split, "
        "so that every row is paired with the floors split by split. Standardised features, L2-penalised softmax "
        "regression (one class against the rest would handicap log-degree, since its classes are ordered)."
    ),
    settings={"reader": "softmax, C = 1, standardised"},
    works=(
        Work((LOG_DEGREE, TWO_HOP, FEATURES), _floors, DATASETS, RUNS),
        *(Work((row,), partial(_fitted, row), DATASETS, RUNS) for row in (UNTRAINED, WITHIN, NEIGHBOR)),
    ),
)

TRANSFER = Table(
    name="transfer",
    title="Air-traffic graphs: fitted in one country, judged in another",
    unit="accuracy, %",
    protocol=(
        "The model and the reader see one country alone; all airports of the other are embedded and classified. The "
        "classes are quartiles of activity within each country."
    ),
    settings={"reader": "softmax, C = 1, standardised"},
    works=(
        Work((LOG_DEGREE, TWO_HOP, FEATURES), _floors_abroad, PAIRS, 1),
        *(Work((row,), partial(_fitted_abroad, row), PAIRS, 5) for row in (UNTRAINED, WITHIN, NEIGHBOR)),
    ),
)
