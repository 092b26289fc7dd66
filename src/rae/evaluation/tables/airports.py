"""Air-traffic graphs: how active an airport is, by its position in the network, within a country and across."""

from __future__ import annotations

from typing import Any

from rae.estimator import RAE
from rae.evaluation import data, floors, probes
from rae.evaluation.table_spec import Effort, Row, Score, Scores, Table, Work, work_per_row
from rae.features import structural_features

DATASETS = ("brazil", "europe", "usa")
PAIRS = tuple(f"{a} to {b}" for a in DATASETS for b in DATASETS if a != b)
RUNS = 20

LOG_DEGREE = Row("log-degree", "floor", {"method": "log-degree"})
TWO_HOP = Row("two-hop degree statistics", "floor", {"method": "two-hop degree statistics"})
FEATURES = Row("structural features alone", "floor", {"method": "structural features"}, "what RAE is given")
UNTRAINED = Row("RAE, untrained", "ours", {"steps": 0})
WITHIN = Row("RAE, J_within", "ours", {"loss": "within"})
NEIGHBOR = Row("RAE, J_neighbor", "ours", {"loss": "neighbor"})

FLOOR_ROWS = (LOG_DEGREE, TWO_HOP, FEATURES)
FLOORS: dict[str, Any] = {
    LOG_DEGREE.name: floors.log_degree,
    TWO_HOP.name: floors.two_hop_degrees,
    FEATURES.name: structural_features,
}


def _floors(dataset: str, seed: int, effort: Effort) -> Scores:
    return {name: _score(embed, dataset, seed) for name, embed in FLOORS.items()}


def _fitted(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    return _score(RAE(row.config(seed, effort)).fit_transform, dataset, seed)


def _score(embed: Any, dataset: str, seed: int) -> Score:
    airports = data.get(dataset)
    return Score(probes.split_accuracy(embed(airports.graph), airports.labels, seed))


def _transfer_floors(dataset: str, seed: int, effort: Effort) -> Scores:
    return {name: _transfer_score(embed, dataset) for name, embed in FLOORS.items()}


def _transferred(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    model = RAE(row.config(seed, effort)).fit(data.get(dataset.split(" to ")[0]).graph)
    return _transfer_score(model.transform, dataset)


def _transfer_score(embed: Any, dataset: str) -> Score:
    home, away = (data.get(name) for name in dataset.split(" to "))
    return Score(probes.transfer_accuracy(embed(home.graph), home.labels, embed(away.graph), away.labels))


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
        Work(FLOOR_ROWS, _floors, DATASETS, RUNS),
        *work_per_row(_fitted, (UNTRAINED, WITHIN, NEIGHBOR), DATASETS, RUNS),
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
        Work(FLOOR_ROWS, _transfer_floors, PAIRS, 1),
        *work_per_row(_transferred, (UNTRAINED, WITHIN, NEIGHBOR), PAIRS, 5),
    ),
)
